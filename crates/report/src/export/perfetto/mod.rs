//! A run as a Perfetto trace (ui.perfetto.dev): the slowest I/Os and a sample on the tracks of their workers, and
//! of a traced run the parts of the slowest on the tracks of the layers.
//!
//! Begins and ends are the run's stamps, CLOCK_MONOTONIC in ns; one clock snapshot at the head of the trace gives the
//! wall clock, where the run has it.

mod messages;
mod tracks;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use taillight_core::{Result, Stamp};
use taillight_rundir::ios::{ColumnSet, IosFile, Row};
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::{Manifest, RunDir, RunStatus, names, sums};
use taillight_stats::TopK;

use self::messages::{
    ClockReading, ClockSnapshot, EventAnnotation, MONOTONIC, PerfettoPacket, ProcessDescriptor,
    REALTIME,
};
use self::tracks::{TraceSlice, Tracks, put};
use super::{RunExport, ios, not_kept};
use crate::format::{count, counted};
use taillight_explain::{Layer, Slow, layer, time_lines};

/// See [`super::RUN_EXPORTS`].
pub const PERFETTO: RunExport = RunExport {
    name: "perfetto",
    about: "Perfetto trace of a run: its slowest I/Os and a sample by worker, and by layer where traced",
    binary: true,
    write,
};

/// Most of the slowest I/Os that are shown, and about how many of all are in the sample.
const SLOWEST: usize = 10_000;
const SAMPLE: u64 = 10_000;

fn write(dir: &RunDir, out: &mut dyn Write) -> Result<Vec<String>> {
    let manifest = dir.manifest();
    let chosen = chosen(&ios(dir)?)?;
    let mut said = not_kept(dir)?;
    said.push(chosen.describe(said.is_empty()));
    let mut tracks = Tracks::default();
    let mut workers: BTreeMap<u16, Vec<TraceSlice>> = BTreeMap::new();
    for io in chosen.ios.values() {
        workers.entry(io.row.worker).or_default().push(io_slice(io));
    }
    for (worker, slices) in workers {
        tracks.add(worker_name(manifest, worker), slices);
    }
    for (layer, slices) in layer_slices(dir, &chosen)? {
        tracks.add(format!("layer: {}", layer.words()), slices);
    }
    let reading = |clock, ns: i64| ClockReading { clock, ns: ns.max(0) as u64 };
    let clock = &manifest.clock;
    let mut clocks = vec![reading(MONOTONIC, clock.monotonic_ns)];
    // A result of another tool may have no date.
    clocks.extend((clock.realtime_ns > 0).then(|| reading(REALTIME, clock.realtime_ns)));
    let clocks = ClockSnapshot { clocks, primary: MONOTONIC };
    put(out, PerfettoPacket { clocks: Some(clocks), ..PerfettoPacket::default() })?;
    let process = ProcessDescriptor {
        pid: manifest.process.as_ref().map_or(0, |own| own.pid),
        name: format!("taillight {}", manifest.plan.run.name),
        labels: said.iter().cloned().chain(whence(dir)).collect(),
    };
    tracks.write(process, out)?;
    Ok(said)
}

/// What a reader of the trace alone must know of the run; on the terminal it is said already.
fn whence(dir: &RunDir) -> Vec<String> {
    let manifest = dir.manifest();
    let mut said = Vec::new();
    if dir.status() == RunStatus::Partial {
        let why = manifest.reason.as_deref().unwrap_or("it was killed");
        said.push(format!("partial run: {why}"));
    }
    said.extend(match &manifest.origin {
        RunOrigin::Measured | RunOrigin::Merged { .. } => None,
        RunOrigin::Watched { .. } => Some("watched from outside".to_owned()),
        RunOrigin::Imported(source) => {
            Some(format!("imported from {}: stamps are those of the file", source.tool))
        }
    });
    said
}

/// An I/O that is shown.
struct ShownIo {
    row: Row,
    /// Among the slowest.
    slow: bool,
}

/// The I/Os that are shown, by their number in the file.
struct ChosenIos {
    ios: BTreeMap<u64, ShownIo>,
    /// Rows of the file outside the warm-up.
    of: u64,
    /// Every so many-th is in the sample.
    every: u64,
}

impl ChosenIos {
    /// `whole`: none is missing of the measured ones.
    fn describe(&self, whole: bool) -> String {
        let noun = if whole { "measured I/O" } else { "kept I/O" };
        let all = self.ios.len() as u64;
        if all == self.of {
            return format!("all {}", counted(self.of, noun));
        }
        let slow = self.ios.values().filter(|io| io.slow).count() as u64;
        let (shown, of, slow) = (count(all), counted(self.of, noun), count(slow));
        format!("{shown} of {of}: the slowest {slow}, and one of every {}", count(self.every))
    }
}

/// The slowest measured I/Os, by response time where there is a schedule, and a sample. Errors: `Corrupt` when the file
/// is damaged.
fn chosen(path: &Path) -> Result<ChosenIos> {
    let file = IosFile::open(path)?;
    let every = file.rows().div_ceil(SAMPLE).max(1);
    let mut slowest = TopK::new(SLOWEST);
    let mut chosen = ChosenIos { ios: BTreeMap::new(), of: 0, every };
    file.read(ColumnSet::ALL, &mut |batch| {
        for i in (0..batch.rows).filter(|i| batch.phase_name(*i) != "warmup") {
            let number = batch.first_row + i as u64;
            let begun = batch.intended(i).unwrap_or(batch.submit(i));
            let ns = batch.complete(i).saturating_sub(begun).max(0) as u64;
            chosen.of += 1;
            if number.is_multiple_of(every) {
                chosen.ios.insert(number, ShownIo { row: batch.row(i), slow: false });
            }
            if slowest.floor().is_none_or(|floor| ns >= floor) {
                slowest.push(ns, number, (number, batch.row(i)));
            }
        }
        Ok(())
    })?;
    for kept in slowest.into_kept() {
        let (number, row) = kept.item;
        chosen.ios.insert(number, ShownIo { row, slow: true });
    }
    Ok(chosen)
}

fn io_slice(io: &ShownIo) -> TraceSlice {
    let row = &io.row;
    let mut annotations = Vec::new();
    let mut number =
        |name, value: Option<u64>| annotations.extend(value.map(|v| numbered(name, v)));
    let stamp = |s: Option<Stamp>| s.map(|s| s.0.max(0) as u64);
    number("offset_bytes", row.offset);
    number("key", row.key);
    number("size_bytes", Some(row.size));
    number("moved_bytes", row.moved);
    number("count", row.count.map(u64::from));
    number("target", Some(u64::from(row.target)));
    number("intended_ns", stamp(row.intended));
    number("waited_ns", row.intended.map(|at| (row.submit.0 - at.0).max(0) as u64));
    number("issued_ns", stamp(row.issued));
    number("first_ns", stamp(row.first));
    number("sync_ns", row.sync_ns);
    number("retries", row.retries.map(u64::from));
    let failed = !row.status.is_ok();
    if failed {
        annotations.push(text("status", row.status.to_string()));
    }
    let categories = [if io.slow { "slow" } else { "sample" }].into_iter();
    TraceSlice {
        from: row.submit.0,
        to: row.complete.0.max(row.submit.0),
        name: row.op.name(),
        categories: categories.chain(failed.then_some("failed")).collect(),
        annotations,
    }
}

fn numbered(name: &str, number: u64) -> EventAnnotation {
    EventAnnotation { number: Some(number), text: None, name: name.to_owned() }
}

fn text(name: &str, text: String) -> EventAnnotation {
    EventAnnotation { number: None, text: Some(text), name: name.to_owned() }
}

/// A worker with its workload.
fn worker_name(manifest: &Manifest, worker: u16) -> String {
    let plan = &manifest.plan;
    let of = |name: &str| plan.workers_of(name).is_some_and(|own| own.contains(&worker.into()));
    let workload = plan.workloads.iter().find(|w| of(&w.name));
    workload.map_or(format!("worker {worker}"), |w| format!("worker {worker}: {}", w.name))
}

/// The parts by layer of the slowest I/Os that did not fail, as `explain` cuts them; none of a run that was not traced.
/// Errors: `Corrupt` when a file is damaged.
fn layer_slices(dir: &RunDir, chosen: &ChosenIos) -> Result<BTreeMap<Layer, Vec<TraceSlice>>> {
    let slow = chosen.ios.values().filter(|io| io.slow && io.row.status.is_ok()).map(|io| Slow {
        worker: io.row.worker,
        op: io.row.op,
        intended_ns: io.row.intended.map_or(io.row.submit.0, |at| at.0.min(io.row.submit.0)),
        submit_ns: io.row.submit.0,
        complete_ns: io.row.complete.0,
    });
    sums::believed(dir, names::LAYERS)?;
    let mut layers: BTreeMap<Layer, Vec<TraceSlice>> = BTreeMap::new();
    for (io, segments) in time_lines(dir, slow.collect())? {
        let annotations = vec![
            numbered("worker", io.worker.into()),
            text("op", io.op.name().to_owned()),
            numbered("submit_ns", io.submit_ns.max(0) as u64),
        ];
        for segment in segments {
            layers.entry(layer(segment.phase)).or_default().push(TraceSlice {
                from: segment.from,
                to: segment.to,
                name: segment.phase.words(),
                categories: vec!["layer"],
                annotations: annotations.clone(),
            });
        }
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use taillight_rundir::fixture;

    use super::*;

    #[test]
    fn a_trace_says_by_itself_what_its_run_was() {
        let home = tempfile::tempdir().unwrap();
        let of = |name: &str, status, origin| {
            let reason = Some("it was stopped".to_owned());
            let manifest = Manifest { status, reason, origin, ..fixture::manifest(name) };
            whence(&RunDir::create(&home.path().join(name), &manifest).unwrap())
        };
        let said = of("a", RunStatus::Partial, RunOrigin::watched("db"));
        assert_eq!(said, ["partial run: it was stopped", "watched from outside"]);
        assert!(of("b", RunStatus::Complete, RunOrigin::Measured).is_empty());
        let (all, shown) =
            (ChosenIos { ios: BTreeMap::new(), of: 0, every: 1 }, ["kept", "measured"]);
        for (word, whole) in shown.into_iter().zip([false, true]) {
            assert!(all.describe(whole).contains(word), "{word}");
        }
    }
}
