//! What use does to the device: writes that slow down towards a plateau, in a sawtooth or for ever, with a full cache,
//! or after writes out of order.
//!
//! The factor on service times of writes is a function of what the device has been through since it was last
//! discarded whole, and a file carries this from run to run. So the round at which a series of runs becomes
//! steady is known exactly. No real device is modelled.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, Op, OpKind, Result, Stamp, atomic, regular};

/// How service times of writes grow with use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Aging {
    /// Service times do not change with use.
    #[default]
    None,
    /// From `fresh` times the service time to the whole of it, by 1 - exp(-written / over).
    Decay { fresh: f64, over: ByteSize },
    /// Up by this share of the service time, evenly over each `period` of bytes written, then down.
    Sawtooth { rise: f64, period: ByteSize },
    /// Grows by this share in every such time, compound: never settles.
    Drift { rise: f64, every: Span },
    /// `fresh` times the service time while there is room in a cache of so many bytes; a second in which
    /// nothing is served makes room for `refill`.
    Cache { fresh: f64, room: ByteSize, refill: ByteSize },
    /// `slow` times the service time after writes out of order, until as many bytes have been written in
    /// order; `over` at most.
    Fragmented { slow: f64, over: ByteSize },
}

impl Aging {
    /// What is wrong with the values, if anything.
    pub fn fault(&self) -> Option<&'static str> {
        let (factor, step) = match *self {
            Aging::None => return None,
            Aging::Decay { fresh, over } => (fresh, over.0),
            Aging::Sawtooth { rise, period } => (rise, period.0),
            Aging::Drift { rise, every } => (rise, every.0),
            Aging::Cache { fresh, room, .. } => (fresh, room.0),
            Aging::Fragmented { slow, over } => (slow, over.0),
        };
        match factor.is_finite() && factor > 0.0 && step > 0 {
            true => None,
            false => Some("aging needs a factor above 0 and a step above 0"),
        }
    }
}

/// What a device has been through since it was last discarded whole; its time and `end` go on over that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceUse {
    /// Bytes written.
    written: u64,
    /// Virtual time of earlier runs.
    time_ns: u64,
    /// Bytes discarded since the last write.
    discarded: u64,
    /// Bytes in the cache.
    #[serde(default)]
    cached: u64,
    /// Bytes out of order that are to be made up for.
    #[serde(default)]
    fragmented: u64,
    /// Where the last write ended.
    #[serde(default)]
    end: u64,
}

impl DeviceUse {
    /// The factor on the service time of an operation that starts at `now`, which then counts; nothing was
    /// served for `idle_ns` before.
    pub fn factor(&mut self, aging: Aging, now: Stamp, idle_ns: u64, op: &Op, size: u64) -> f64 {
        let time_ns = |earlier: u64| earlier as f64 + now.0 as f64;
        match op.kind {
            OpKind::Write => {
                let written = self.written as f64;
                self.written = self.written.saturating_add(op.size);
                self.discarded = 0;
                match aging {
                    Aging::None => 1.0,
                    Aging::Decay { fresh, over } => {
                        1.0 - (1.0 - fresh) * (-written / over.0 as f64).exp()
                    }
                    Aging::Sawtooth { rise, period } => {
                        1.0 + rise * (written / period.0 as f64).fract()
                    }
                    Aging::Drift { rise, every } => {
                        (1.0 + rise).powf(time_ns(self.time_ns) / every.0 as f64)
                    }
                    Aging::Cache { fresh, room, refill } => {
                        let freed = u128::from(refill.0) * u128::from(idle_ns) / 1_000_000_000;
                        let freed = u64::try_from(freed).unwrap_or(u64::MAX);
                        self.cached = self.cached.saturating_sub(freed);
                        let full = self.cached >= room.0;
                        self.cached = self.cached.saturating_add(op.size).min(room.0);
                        if full { 1.0 } else { fresh }
                    }
                    Aging::Fragmented { slow, over } => self.fragmented(op, slow, over.0),
                }
            }
            OpKind::Trim => {
                self.discarded = self.discarded.saturating_add(op.size);
                if self.discarded >= size {
                    (self.written, self.cached, self.fragmented) = (0, 0, 0);
                }
                1.0
            }
            _ => 1.0,
        }
    }

    fn fragmented(&mut self, op: &Op, slow: f64, over: u64) -> f64 {
        // The first write of all, and one from the start on, are in order.
        let in_order = op.offset == self.end || op.offset == 0;
        self.end = op.offset.saturating_add(op.size);
        if !in_order {
            self.fragmented = self.fragmented.saturating_add(op.size).min(over);
            return 1.0;
        }
        let left = self.fragmented;
        self.fragmented = left.saturating_sub(op.size);
        if left > 0 { slow } else { 1.0 }
    }

    /// Once a run has ended at `end` of its virtual time.
    pub fn after(self, end: Stamp) -> DeviceUse {
        DeviceUse { time_ns: self.time_ns.saturating_add(end.0.unsigned_abs()), ..self }
    }

    /// As new.
    pub fn purge(&mut self) {
        *self = DeviceUse::default();
    }
}

/// A file with the use of a device, held by one run.
#[derive(Debug)]
pub struct UseFile {
    path: PathBuf,
    /// As the run found the device.
    before: DeviceUse,
    /// Directory of the run, where it has been given one.
    run: Option<String>,
}

/// What the file says.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct UseRecord {
    /// Now. The name says what the file is.
    taillight_sim: DeviceUse,
    /// Before the last run.
    before: DeviceUse,
    /// Directory of the last run.
    run: Option<String>,
}

impl UseFile {
    /// What the file says, or a new device where there is no file. A run into the directory of the
    /// last one repeats it, as after a kill, and finds what that one found. Errors: `Refused` for a
    /// file that is something else; `Usage` for what is no regular file; `Unavailable` when it cannot be read.
    pub fn open(path: &Path, run: Option<&str>) -> Result<(UseFile, DeviceUse)> {
        let run = run.map(str::to_owned);
        let of = |before, run| (UseFile { path: path.to_owned(), before, run }, before);
        // What cannot be written at the end is no state from the start.
        atomic::may_write(path, |_| true)?;
        let text = match regular::read(path) {
            Ok(text) => text,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Ok(of(DeviceUse::default(), run));
            }
            Err(e) => return Err(cannot("read", path, e)),
        };
        match serde_json::from_slice::<UseRecord>(&text) {
            Ok(last) if run.is_some() && last.run == run => Ok(of(last.before, run)),
            Ok(last) => Ok(of(last.taillight_sim, run)),
            Err(_) => Err(Error::refused("this is not the state of a simulated device")
                .with("path", path.display())
                .hint("name another file, or one that does not exist, as options.state")),
        }
    }

    /// Keeps it for later runs. Errors: `Unavailable`, `Refused` when something else is there by now.
    pub fn write(&self, used: DeviceUse) -> Result<()> {
        let record = UseRecord { taillight_sim: used, before: self.before, run: self.run.clone() };
        let text = serde_json::to_vec(&record)
            .map_err(|e| Error::internal("the state cannot be written").source(e))?;
        UseFile::open(&self.path, None)?;
        let (dir, name) = atomic::place(&self.path)?;
        atomic::write(dir, name, &text)
    }
}

fn cannot(what: &str, path: &Path, e: std::io::Error) -> Error {
    Error::unavailable(format!("cannot {what} the state of the simulated device"))
        .with("path", path.display())
        .source(e)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn write(used: &mut DeviceUse, aging: Aging, now: i64) -> f64 {
        used.factor(aging, Stamp(now), 0, &Op::block(OpKind::Write, 0, 0, MIB), 4 * MIB)
    }

    #[test]
    fn decay_ends_at_the_plateau_and_begins_again_when_all_is_discarded() {
        let aging = Aging::Decay { fresh: 0.25, over: ByteSize(MIB) };
        let mut used = DeviceUse::default();
        assert_eq!(write(&mut used, aging, 0), 0.25);
        assert_eq!(write(&mut used, aging, 0), 1.0 - 0.75 * (-1.0f64).exp());
        let last = (0..40).map(|_| write(&mut used, aging, 0)).last().expect("many");
        assert!((last - 1.0).abs() < 1e-12);
        let discard = Op::block(OpKind::Trim, 0, 0, 2 * MIB);
        used.factor(aging, Stamp(0), 0, &discard, 4 * MIB);
        assert!(used.written > 0, "half of it");
        used.factor(aging, Stamp(0), 0, &discard, 4 * MIB);
        assert_eq!(write(&mut used, aging, 0), 0.25);
    }

    #[test]
    fn sawtooth_and_drift_follow_their_formulas() {
        let mut used = DeviceUse::default();
        let aging = Aging::Sawtooth { rise: 1.0, period: ByteSize(4 * MIB) };
        let factors: Vec<f64> = (0..5).map(|_| write(&mut used, aging, 0)).collect();
        assert_eq!(factors, [1.0, 1.25, 1.5, 1.75, 1.0]);
        let mut used = DeviceUse { time_ns: 1_000, ..DeviceUse::default() };
        let aging = Aging::Drift { rise: 0.5, every: Span(1_000) };
        assert_eq!(write(&mut used, aging, 1_000), 2.25);
        let read = Op::block(OpKind::Read, 0, 0, MIB);
        assert_eq!(used.factor(aging, Stamp(1_000), 0, &read, 4 * MIB), 1.0);
    }

    #[test]
    fn a_cache_is_fast_until_full_and_has_room_again_after_a_rest() {
        let aging = Aging::Cache { fresh: 0.5, room: ByteSize(2 * MIB), refill: ByteSize(MIB) };
        let mut used = DeviceUse::default();
        let mut after = |idle_s: u64| {
            let op = Op::block(OpKind::Write, 0, 0, MIB);
            used.factor(aging, Stamp(0), idle_s * 1_000_000_000, &op, 4 * MIB)
        };
        assert_eq!([after(0), after(0), after(0), after(1), after(0)], [0.5, 0.5, 1.0, 0.5, 1.0]);
        assert_eq!([after(100), after(0), after(0)], [0.5, 0.5, 1.0], "no more than all of it");
    }

    #[test]
    fn what_was_written_out_of_order_is_made_up_for_in_order() {
        let aging = Aging::Fragmented { slow: 3.0, over: ByteSize(2 * MIB) };
        let mut used = DeviceUse::default();
        let mut at = |mib: u64| {
            let op = Op::block(OpKind::Write, 0, mib * MIB, MIB);
            used.factor(aging, Stamp(0), 0, &op, 64 * MIB)
        };
        assert_eq!([at(0), at(1), at(2)], [1.0; 3]);
        assert_eq!([at(9), at(5), at(30), at(20)], [1.0; 4]);
        assert_eq!([at(0), at(1), at(2)], [3.0, 3.0, 1.0]);
    }

    #[test]
    fn a_file_of_something_else_is_refused_and_left() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("state.json");
        let open = |run| UseFile::open(&path, run);
        let (file, used) = open(Some("a")).expect("a new device");
        assert_eq!(used, DeviceUse::default());
        let used = DeviceUse { written: 5, time_ns: 6, ..DeviceUse::default() };
        file.write(used).expect("written");
        assert_eq!(open(Some("b")).expect("readable").1, used);
        assert_eq!(open(None).expect("readable").1, used);
        assert_eq!(open(Some("a")).expect("a repetition").1, DeviceUse::default());
        std::fs::write(&path, "{\"mine\": 1}").expect("written");
        assert!(open(None).expect_err("refused").to_string().contains("state"));
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "{\"mine\": 1}");
        assert!(file.write(used).is_err(), "it came after the look");
        assert_eq!(std::fs::read_to_string(&path).expect("there"), "{\"mine\": 1}");
    }

    #[test]
    fn links_beside_the_state_and_in_its_place_are_not_followed() {
        use std::os::unix::fs::symlink;
        let dir = tempfile::tempdir().expect("a directory");
        let (path, victim) = (dir.path().join("state.json"), dir.path().join("victim"));
        std::fs::write(&victim, "precious").expect("written");
        symlink(&victim, dir.path().join("state.json.part")).expect("linked");
        let (file, used) = UseFile::open(&path, None).expect("a new device");
        file.write(used).expect("written");
        symlink(&victim, dir.path().join("link")).expect("linked");
        let e = UseFile::open(&dir.path().join("link"), None).expect_err("refused");
        assert!(e.to_string().contains("symbolic link"), "{e}");
        assert_eq!(std::fs::read_to_string(&victim).expect("there"), "precious");
    }
}
