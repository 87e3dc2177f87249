//! Reads `layers.parquet` into what attribution works with.

use std::collections::BTreeMap;
use std::path::Path;

use taillight_core::{Result, TimeSpan};
use taillight_rundir::layers::{
    LayerKind, LayerRow, flags, read_layer_times, read_layers, read_wanted_layers,
};
use taillight_rundir::store::read_store;
use taillight_rundir::{RunDir, names};
use taillight_stats::episodes::{DEFAULT_GAP_NS, group_episodes};

use crate::events::context::IoContext;
use crate::events::decode::{Decoded, Decoder};
use crate::events::disks::Disks;
use crate::events::event::LayerEvent;
use crate::events::impossible::drop_impossible_stamps;
use crate::events::io::TracedIo;
use crate::events::rounds::{BlockRound, all_rounds_known};
use crate::events::slow::{IoKeys, SLOW_MAX, Slow, measured_from};
use crate::events::{Events, joined};
use crate::time_line::phased::PhasedIo;
use crate::time_line::segments::lengths;
use crate::wait_graph::resolve;

/// Traced I/Os whose phases are kept for the usual times and the stacked picture. Of more, every second,
/// fourth, ... is taken, so that they are from the whole run and from all workers.
const PHASED_MAX: usize = 1 << 20;

/// How well I/Os were matched with what was seen below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    pub traced: u64,
    /// With every part seen from queue to completion.
    pub matched: u64,
    /// Seen in part: some completion was not seen, or not when each of many parts was done; or some part may
    /// have been another's. Not counted in `matched`.
    pub unsplit: u64,
    /// Of these, such without a part that was surely theirs: the page cache may have had them whole.
    pub unclear: u64,
    /// Without block I/O of their own: cached, buffered, or not matched.
    pub without: u64,
}

/// What was read.
#[derive(Debug, Default)]
pub struct TracedRun {
    pub events: Events,
    /// Every `stride`th traced I/O.
    pub phased: Vec<PhasedIo>,
    stride: u64,
    /// Evenly spaced over the run, each as long as the usual episode of slow I/Os.
    pub moments: Vec<TimeSpan>,
    /// Traced I/Os above their threshold, by (worker, submit).
    pub slow: BTreeMap<(u64, i64), IoWithRounds>,
    /// Others, for which slow ones may have waited: the first [`SLOW_MAX`].
    pub beside: Vec<IoWithRounds>,
    pub coverage: Coverage,
}

/// A traced I/O with its earlier rounds of parts, by time.
#[derive(Debug, Clone)]
pub struct IoWithRounds {
    pub io: TracedIo,
    pub earlier: Vec<BlockRound>,
}

impl IoWithRounds {
    /// As measured, where nobody else measured it.
    pub fn slow(&self) -> Slow {
        Slow {
            worker: self.io.worker as u16,
            op: self.io.op,
            intended_ns: self.io.start_ns,
            submit_ns: self.io.start_ns,
            complete_ns: self.io.end_ns,
        }
    }
}

/// Rounds whose I/O has yet to come: their rows come right before its own.
#[derive(Debug, Default)]
pub struct RoundsBefore(Vec<(u64, BlockRound)>);

impl RoundsBefore {
    pub fn push(&mut self, token: u64, round: BlockRound) {
        self.0.push((token, round));
    }

    /// Those of this I/O; others before it are of none.
    pub fn take(&mut self, io: &TracedIo) -> Vec<BlockRound> {
        let own = self.0.drain(..).filter(|(token, _)| Some(*token) == io.token);
        own.map(|(_, round)| round).collect()
    }
}

/// How much could be seen at all.
#[derive(Debug, Clone, Copy)]
pub struct Visibility {
    /// See [`Events::blind`].
    pub blind: bool,
    /// See [`Events::threads_only`].
    pub threads_only: bool,
}

/// Reads `layers.parquet`, which had `kept` I/Os when it was written; those before the measure phase are left out. The
/// `slow` ones are kept whole. Errors: `Corrupt` when the file is damaged.
pub fn read(dir: &RunDir, kept: u64, slow: &IoKeys, sight: Visibility) -> Result<TracedRun> {
    let mut loaded = TracedRun::empty(kept);
    loaded.events.blind = sight.blind;
    loaded.events.threads_only = sight.threads_only;
    loaded.events.store = dir.manifest().driver_facts().in_process;
    // A program that watches has no part in what it watches.
    let own = dir.manifest().process.as_ref().filter(|_| !dir.manifest().origin.is_watched());
    loaded.events.own_pid = own.map(|own| own.pid.into());
    loaded.events.disks = Disks::of(dir);
    loaded.events.stalls = stalls(dir)?;
    add_pauses(dir, &mut loaded.events)?;
    let measured = measured_from(dir);
    let (mut sorted, mut rounds) = (false, RoundsBefore::default());
    let mut decoder = Decoder::default();
    let path = dir.file(names::LAYERS);
    let times = AskedTimes::of(&path, slow)?;
    loaded.moments.clone_from(&times.moments);
    read_wanted_layers(&path, &|row| times.want(row), &mut |rows| {
        for row in rows {
            let io = match decoder.decode(row) {
                Some(Decoded::Event(LayerEvent::Neighbour(io)))
                    if !times.meet(io.start_ns, io.end_ns) =>
                {
                    loaded.events.count(&io);
                    continue;
                }
                Some(Decoded::Event(event)) => {
                    loaded.events.add(event);
                    continue;
                }
                Some(Decoded::Round(token, round)) => {
                    rounds.push(token, round);
                    continue;
                }
                Some(Decoded::Io(io)) => *io,
                None => continue,
            };
            loaded.events.gone = false;
            if !sorted {
                // I/Os come after all events.
                loaded.events.sort();
                sorted = true;
            }
            let earlier = rounds.take(&io);
            if io.start_ns >= measured {
                loaded.keep(io, earlier, slow);
            }
        }
        Ok(())
    })?;
    if !sorted {
        loaded.events.sort();
    }
    Ok(loaded)
}

/// Times of traced I/Os, in which events are asked for. What lies between them, but flushes, gaps and pauses, is not
/// kept in memory: a long run has many events and few slow I/Os.
struct AskedTimes {
    all: Vec<TimeSpan>,
    /// See [`TracedRun::moments`].
    moments: Vec<TimeSpan>,
}

/// How much around a slow I/O is asked for, and around any other one, ns.
const AROUND_SLOW_NS: i64 = 1_000_000_000;
const AROUND_NS: i64 = 1_000_000;

/// Moments of a run that are looked at.
const MOMENTS: i64 = 256;

fn moments(run: TimeSpan, length: Option<i64>) -> Vec<TimeSpan> {
    let step = (run.to.saturating_sub(run.from) / MOMENTS).max(1);
    let at = |i| run.from + i * step;
    length.map_or(Vec::new(), |ns| (0..MOMENTS).map(|i| TimeSpan::new(at(i), at(i) + ns)).collect())
}

impl AskedTimes {
    /// Errors: `Corrupt` when the file is damaged.
    fn of(path: &Path, slow: &IoKeys) -> Result<AskedTimes> {
        let (mut times, mut slow_times) = (Vec::<TimeSpan>::new(), Vec::new());
        let mut run = TimeSpan::new(i64::MAX, i64::MIN);
        read_layer_times(path, &mut |rows| {
            for row in rows.iter().filter(|row| row.kind == LayerKind::Io) {
                let key = (row.worker.unwrap_or(u64::MAX), row.start_ns);
                let slow = slow.contains(&key);
                let around = if slow { AROUND_SLOW_NS } else { AROUND_NS };
                run = TimeSpan::new(run.from.min(row.start_ns), run.to.max(row.end_ns));
                slow_times.extend(slow.then_some((row.start_ns, row.end_ns)));
                let (from, to) = (row.start_ns - around, row.end_ns + around);
                // A worker's I/Os come in order.
                match times.last_mut().filter(|last| last.from <= from && from <= last.to) {
                    Some(last) => last.to = last.to.max(to),
                    None => times.push(TimeSpan::new(from, to)),
                }
            }
            Ok(())
        })?;
        let episodes = group_episodes(&slow_times, DEFAULT_GAP_NS);
        let mut lengths: Vec<_> = episodes.list().iter().map(|e| e.span_ns() as i64).collect();
        lengths.sort_unstable();
        let moments = moments(run, lengths.get(lengths.len() / 2).copied());
        times.extend(&moments);
        Ok(AskedTimes { all: joined(times), moments })
    }

    /// Whether a row can change a verdict, or must be counted; of a trace of millions of events few do.
    fn want(&self, row: &LayerRow) -> bool {
        use LayerKind::{Flush, Gap, Io, Neighbour, Round};
        match row.kind {
            // When a disk was flushed last is asked at any time, and I/Os of others are counted.
            Io | Round | Flush | Gap | Neighbour => true,
            _ => self.meet(row.start_ns, row.end_ns),
        }
    }

    /// Whether a time touches one of these.
    fn meet(&self, begin: i64, end: i64) -> bool {
        let first = self.all.partition_point(|time| time.to < begin);
        self.all.get(first).is_some_and(|time| time.from <= end)
    }
}

/// Takes up the pauses of the target, where it told of them. Errors: `Corrupt` when the file is damaged.
pub fn add_pauses(dir: &RunDir, events: &mut Events) -> Result<()> {
    let Some(path) = dir.existing(names::PAUSES) else {
        return Ok(());
    };
    let mut decoder = Decoder::default();
    read_layers(&path, &mut |rows| {
        for row in rows {
            if let Some(Decoded::Event(LayerEvent::Pause(pause))) = decoder.decode(row) {
                events.add(pause);
            }
        }
        Ok(())
    })?;
    events.sort();
    Ok(())
}

/// What a store says of holding its writers back, from sample to sample.
fn stalls(dir: &RunDir) -> Result<Vec<(i64, i64, u64)>> {
    let Some(path) = dir.existing(names::STORE) else {
        return Ok(Vec::new());
    };
    let rows = read_store(&path)?;
    let counted = rows.iter().filter(|r| &*r.series == "stall_ns_total");
    let points: Vec<(i64, f64)> = counted.map(|r| (r.at_ns, r.value)).collect();
    let rises = points.windows(2).map(|w| (w[0].0, w[1].0, (w[1].1 - w[0].1).max(0.0) as u64));
    Ok(rises.filter(|(_, _, ns)| *ns > 0).collect())
}

impl Coverage {
    fn count(&mut self, io: &TracedIo) {
        self.traced += 1;
        match (io.has_block_io(), io.has(flags::UNCLEAR)) {
            (false, true) => {
                self.unsplit += 1;
                self.unclear += 1;
            }
            (false, false) => self.without += 1,
            (true, unclear) if unclear || !io.all_parts_done() => self.unsplit += 1,
            (true, _) => self.matched += 1,
        }
    }
}

impl TracedRun {
    /// Before the first row, and all there is where the file with `kept` I/Os is gone.
    pub fn empty(kept: u64) -> TracedRun {
        let mut loaded = TracedRun { stride: 1, ..TracedRun::default() };
        loaded.events.gone = kept > 0;
        loaded
    }

    /// Takes an I/O up, and keeps it where it is one of the `slow` ones, or slow ones may have waited for it.
    fn keep(&mut self, io: TracedIo, earlier: Vec<BlockRound>, slow: &IoKeys) {
        let key = (io.worker, io.start_ns);
        let beside = io.has(flags::BESIDE) && self.beside.len() < SLOW_MAX;
        let taken = self.io(io, earlier);
        if slow.contains(&key) {
            self.slow.insert(key, taken);
        } else if beside {
            self.beside.push(taken);
        }
    }

    /// Takes an I/O up, and gives it back without impossible stamps.
    pub fn io(&mut self, mut io: TracedIo, mut earlier: Vec<BlockRound>) -> IoWithRounds {
        drop_impossible_stamps(&mut io, &mut earlier);
        if !all_rounds_known(&io, &earlier) {
            // No verdict is sure without the others.
            io.mark_unclear();
        }
        self.coverage.count(&io);
        if (self.coverage.traced - 1).is_multiple_of(self.stride) {
            let context = IoContext { earlier: &earlier, ..IoContext::of(&self.events, io.worker) };
            let segments = resolve::segments(&io, &context);
            self.phased(PhasedIo {
                op: io.op,
                service_ns: io.end_ns.saturating_sub(io.start_ns).max(0) as u64,
                sample: io.has(flags::SAMPLE),
                block: io.has_block_io(),
                place: io.place(io.op).map(|(at, _)| at),
                after_flush_ns: self.events.disks.after_flush_ns(&io),
                phases: lengths(&segments),
            });
        }
        IoWithRounds { io, earlier }
    }

    fn phased(&mut self, io: PhasedIo) {
        self.phased.push(io);
        if self.phased.len() < PHASED_MAX {
            return;
        }
        let mut index = 0;
        self.phased.retain(|_| {
            index += 1;
            index % 2 == 1
        });
        self.stride *= 2;
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::ErrorKind;
    use taillight_rundir::fixture;
    use taillight_rundir::layers::LayerWriter;

    use super::*;
    use crate::events::io::Parts;

    #[test]
    fn what_may_have_had_other_parts_is_seen_in_part() {
        let mut coverage = Coverage::default();
        for (queued, done, flags) in [(0, 0, 0), (0, 0, 256), (1, 1, 0), (2, 1, 0), (1, 1, 256)] {
            let parts = Some(Parts { queued, done });
            coverage.count(&TracedIo { parts, flags, ..TracedIo::default() });
        }
        let expected = Coverage { traced: 5, matched: 1, unsplit: 3, unclear: 1, without: 1 };
        assert_eq!(coverage, expected);
    }

    /// The measure phase begins, ns.
    const BEGUN: i64 = 1_000_000_000;

    #[test]
    fn moments_are_as_long_as_the_usual_episode() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("run"), &fixture::manifest("r")).unwrap();
        // Ten of 1 ms, one after the other, are one episode.
        let begins: Vec<i64> = (0..10).map(|i| BEGUN + i * 1_000_000).collect();
        let mut writer = LayerWriter::begin(&dir);
        let ios = begins.iter().map(|at| fixture::traced_io(*at, at + 1_000_000));
        writer.rows(ios).unwrap();
        writer.commit().unwrap();
        let slow: IoKeys = begins.iter().map(|at| (0, *at)).collect();
        let times = AskedTimes::of(&dir.file(names::LAYERS), &slow).unwrap();
        assert_eq!(times.moments.len(), MOMENTS as usize);
        assert!(times.moments.iter().all(|time| time.length() == 10_000_000));
    }

    /// An I/O of a worker in so many rounds before its last one, and of how many there are rows.
    fn in_rounds(token: u64, rounds: u64, rows: u64) -> Vec<LayerRow> {
        let start_ns = BEGUN + token as i64 * 1000;
        let round = |i| LayerRow {
            kind: LayerKind::Round,
            start_ns: start_ns + i as i64,
            end_ns: start_ns + i as i64 + 1,
            token: Some(token),
            ..LayerRow::default()
        };
        let io = LayerRow {
            bios: Some(rounds + 1),
            parts: Some(rounds + 1),
            rounds: Some(rounds),
            token: Some(token),
            ..fixture::traced_io(start_ns, start_ns + 900)
        };
        (0..rows).map(round).chain([io]).collect()
    }

    /// Reads a trace of one I/O and these events.
    fn traced_beside(events: Vec<LayerRow>) -> Result<TracedRun> {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("run"), &fixture::manifest("r")).unwrap();
        let mut writer = LayerWriter::begin(&dir);
        let io = fixture::traced_io(BEGUN, BEGUN + 1000);
        writer.rows(events.into_iter().chain([io])).unwrap();
        writer.commit().unwrap();
        let sight = Visibility { blind: false, threads_only: false };
        read(&dir, 1, &IoKeys::new(), sight)
    }

    #[test]
    fn far_from_all_ios_flushes_are_kept_and_other_events_only_checked_or_counted() {
        let event = |kind, start_ns| LayerRow {
            kind,
            start_ns,
            end_ns: start_ns + 500,
            worker: Some(0),
            state: Some(1),
            size: Some(4096),
            ..LayerRow::default()
        };
        let far = BEGUN + 10 * AROUND_SLOW_NS;
        let kinds = [LayerKind::OffCpu, LayerKind::Neighbour, LayerKind::Flush];
        let rows = [BEGUN, far].into_iter().flat_map(|at| kinds.map(|kind| event(kind, at)));
        let rows: Vec<LayerRow> = rows.collect();
        let events = traced_beside(rows.clone()).unwrap().events;
        assert_eq!((events.off(0).len(), events.neighbours.all().len()), (1, 1));
        assert_eq!((events.beside, events.beside_open), (2, false), "both were seen");
        assert_eq!(events.flushes.all().len(), 2, "the last one is asked for at any time");
        let mut spoilt = rows;
        spoilt[3].state = None;
        let refused = traced_beside(spoilt).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "also where nobody needs it");
    }

    /// The second of two workers has half of the I/Os, before and after places are given up.
    #[test]
    fn phases_are_kept_of_the_whole_run() {
        let mut loaded = TracedRun::empty(1);
        let all = 5 * PHASED_MAX as i64 / 2;
        for i in 0..all {
            let worker = u64::from(i >= all / 2);
            let end_ns = i + 1 + worker as i64;
            let (offset, size) = (worker, 1);
            let io = TracedIo { worker, start_ns: i, end_ns, offset, size, ..TracedIo::default() };
            loaded.io(io, Vec::new());
        }
        let (kept, stride) = (loaded.phased.len(), loaded.stride);
        assert_eq!((kept as i64, stride), ((all + 3) / 4, 4));
        let second = loaded.phased.iter().filter(|io| io.service_ns == 2).count();
        let places = loaded.phased.iter().filter(|io| io.place == Some(1)).count();
        assert_eq!((second, places), (kept / 2, kept / 2));
    }

    #[test]
    fn rounds_go_with_their_io_and_without_one_of_them_it_is_seen_in_part() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("run"), &fixture::manifest("r")).unwrap();
        let mut writer = LayerWriter::begin(&dir);
        let all = [
            in_rounds(1, 2, 2),
            in_rounds(2, 0, 0),
            in_rounds(3, 3, 2),
            // Of an I/O that is not there.
            in_rounds(4, 1, 1).into_iter().take(1).collect(),
            in_rounds(5, 1, 1),
        ];
        // Row groups end anywhere: here each has one row.
        for row in all.into_iter().flatten() {
            writer.rows(std::iter::once(row)).unwrap();
        }
        writer.commit().unwrap();
        let sight = Visibility { blind: false, threads_only: false };
        let keys = [1, 2, 3, 5].map(|token| (0, BEGUN + token * 1000));
        let loaded = read(&dir, 5, &keys.into(), sight).unwrap();
        assert!(!loaded.events.gone);
        let found: Vec<(i64, Vec<i64>, bool)> = loaded
            .slow
            .values()
            .map(|t| {
                let unclear = t.io.has(flags::UNCLEAR);
                let begins = t.earlier.iter().map(|r| r.bio - BEGUN);
                (t.io.start_ns - BEGUN, begins.collect(), unclear)
            })
            .collect();
        let expected = [
            (1000, vec![1000, 1001], false),
            (2000, vec![], false),
            (3000, vec![3000, 3001], true),
            (5000, vec![5000], false),
        ];
        assert_eq!(found, expected);
        let coverage = loaded.coverage;
        assert_eq!((coverage.matched, coverage.unsplit), (3, 1));
    }
}
