//! `disk_util` of fio's JSON: what the disks below the targets did while runs went on, from the samples of the machine.
//!
//! Each disk as a whole, with what others asked of it, as in fio. A run without `host.parquet` says nothing of them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use taillight_core::Result;
use taillight_rundir::RunDir;
use taillight_rundir::host::{HostTrack, host_tracks};

/// What disks did, by name.
#[derive(Debug, Default)]
pub struct DiskUse(pub(super) BTreeMap<String, DiskWork>);

/// Counts, and milliseconds.
#[derive(Debug, Default)]
pub(super) struct DiskWork {
    ios: [f64; 2],
    merges: [f64; 2],
    ticks: [f64; 2],
    in_queue: f64,
    busy: f64,
    sampled: f64,
}

impl DiskUse {
    /// Adds what the disks of a run did. Errors: `Corrupt` when its samples are damaged.
    pub fn add(&mut self, dir: &RunDir) -> Result<()> {
        let tracks = host_tracks(dir, i64::MIN, i64::MAX)?;
        let disks = tracks.iter().filter(|track| track.metric.source == "disk");
        for track in disks.clone() {
            let Some(name) = &track.item else { continue };
            let rates = |metric: &str| {
                let of = |t: &&HostTrack| t.item == track.item && t.metric.name == metric;
                disks.clone().find(of).map_or(&[][..], |t| t.points.as_slice())
            };
            self.0.entry(name.clone()).or_default().add(track, rates);
        }
        Ok(())
    }

    /// As fio shows it.
    pub fn to_json(&self) -> Value {
        let whole = |n: f64| n.round() as u64;
        let disk = |(name, work): (&String, &DiskWork)| {
            let DiskWork { ios, merges, ticks, in_queue, busy, sampled } = work;
            json!({
                "name": name,
                "read_ios": whole(ios[0]),
                "write_ios": whole(ios[1]),
                "read_merges": whole(merges[0]),
                "write_merges": whole(merges[1]),
                "read_ticks": whole(ticks[0]),
                "write_ticks": whole(ticks[1]),
                "in_queue": whole(*in_queue),
                "util": (100.0 * busy / sampled.max(f64::MIN_POSITIVE)).min(100.0),
            })
        };
        self.0.iter().map(disk).collect()
    }
}

impl DiskWork {
    /// Adds a metric over its windows; `rates`: points of another metric of the disk, by time.
    fn add<'a>(&mut self, track: &HostTrack, rates: impl Fn(&str) -> &'a [(i64, i64, f64)]) {
        let name = track.metric.name;
        let (direction, rate) = if name.starts_with('r') { (0, "r/s") } else { (1, "w/s") };
        for (start, end, value) in &track.points {
            let seconds = (end - start) as f64 / 1e9;
            match name {
                "r/s" | "w/s" => self.ios[direction] += value * seconds,
                "rrqm/s" | "wrqm/s" => self.merges[direction] += value * seconds,
                // A mean over the requests of the window.
                "r_await" | "w_await" => {
                    let of = rates(rate);
                    let at = of.binary_search_by_key(start, |of| of.0);
                    self.ticks[direction] += value * at.map_or(0.0, |at| of[at].2) * seconds;
                }
                "aqu-sz" => self.in_queue += value * seconds * 1e3,
                "%util" => {
                    self.busy += value * seconds * 10.0;
                    self.sampled += seconds * 1e3;
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use taillight_rundir::host::metric;

    use super::*;

    #[test]
    fn counts_come_back_from_rates() {
        let mut work = DiskWork::default();
        let windows = |values: [f64; 2]| {
            let [a, b] = values;
            vec![(0, 2_000_000_000, a), (2_000_000_000, 2_500_000_000, b)]
        };
        let reads = windows([100.0, 40.0]);
        for (name, values) in [
            ("r/s", [100.0, 40.0]),
            ("r_await", [0.5, 2.0]),
            ("wrqm/s", [1.0, 0.0]),
            ("aqu-sz", [0.25, 1.0]),
            ("%util", [50.0, 100.0]),
        ] {
            let metric = metric("disk", name).expect(name);
            let track = HostTrack { metric, item: None, points: windows(values) };
            work.add(&track, |rate| if rate == "r/s" { &reads } else { &[] });
        }
        let shown = DiskUse(BTreeMap::from([("vda".to_owned(), work)])).to_json();
        assert_eq!(
            shown,
            json!([{
                "name": "vda", "read_ios": 220, "write_ios": 0, "read_merges": 0, "write_merges": 2,
                "read_ticks": 140, "write_ticks": 0, "in_queue": 1000, "util": 60.0,
            }])
        );
    }
}
