//! Reads `layers.parquet` and the slow rows of `ios.parquet` into what attribution works with.

use std::collections::BTreeMap;

use taillight_core::{OpKind, Result};
use taillight_rundir::ios::{Columns, read_ios};
use taillight_rundir::layers::{Kind, LayerRow, flags, read_layers};
use taillight_rundir::store::read_store;
use taillight_rundir::{RunDir, names};

use super::blocks::{Round, all_known};
use super::disks::Disks;
use super::gaps;
use super::phases::{Beside, Phases, lengths, pieces};

/// Traced I/Os whose phases are kept for the usual times and the stacked picture.
const USUAL_MAX: usize = 1 << 20;
/// Slow I/Os looked at singly.
pub const SLOW_MAX: usize = 1 << 18;

/// One I/O slower than its threshold, as measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow {
    /// Worker.
    pub worker: u16,
    /// Kind of operation.
    pub op: OpKind,
    /// When the schedule wanted it, or submit.
    pub intended_ns: i64,
    /// Submit stamp.
    pub submit_ns: i64,
    /// Complete stamp.
    pub complete_ns: i64,
}

/// A traced I/O, reduced to its phases.
#[derive(Debug, Clone, Copy)]
pub struct Usual {
    /// Kind of operation.
    pub op: OpKind,
    /// Complete - submit, ns.
    pub service_ns: u64,
    /// Taken without regard to its latency.
    pub sample: bool,
    /// It had block I/O of its own.
    pub block: bool,
    /// Where the time went.
    pub phases: Phases,
}

/// How well I/Os were matched with what was seen below.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Traced I/Os.
    pub traced: u64,
    /// With every part seen from queue to completion.
    pub matched: u64,
    /// Matched, but some completion was not seen, or not when each of many parts was done; or some part may
    /// have been another's.
    pub unsplit: u64,
    /// Of these, such without a part that was surely theirs: the page cache may have had them whole.
    pub unclear: u64,
    /// Without block I/O: cached, buffered, or not matched.
    pub without: u64,
}

/// Events by kind; those of threads by worker.
#[derive(Debug, Default)]
pub struct Events {
    /// Threads off the CPU, by worker and time.
    pub off: BTreeMap<u64, Vec<LayerRow>>,
    /// Direct reclaims of the workers themselves, by worker and time.
    pub reclaim: BTreeMap<u64, Vec<LayerRow>>,
    /// Everything else, by kind and time.
    pub other: BTreeMap<Kind, Vec<LayerRow>>,
    /// Times in which nothing was seen, by worker; of all workers under `u64::MAX`.
    pub gaps: BTreeMap<u64, Vec<LayerRow>>,
    /// Sleeping without an event is possible.
    pub blind: bool,
    /// Only threads were watched.
    pub threads_only: bool,
    /// The program has a store in it.
    pub store: bool,
    /// The run's disks, and which of them were flushed.
    pub disks: Disks,
    /// Between these two samples a store held its writers back for so long, ns.
    pub stalls: Vec<(i64, i64, u64)>,
}

impl Events {
    /// Takes an event in.
    pub(super) fn add(&mut self, row: LayerRow) {
        let worker = row.worker.unwrap_or(u64::MAX);
        if let (Kind::Flush, Some(disk)) = (row.kind, &row.dev) {
            self.disks.flush(disk);
        }
        match row.kind {
            Kind::OffCpu => self.off.entry(worker).or_default().push(row),
            Kind::Reclaim if row.token.is_none() => {
                self.reclaim.entry(worker).or_default().push(row)
            }
            Kind::Gap => self.gaps.entry(worker).or_default().push(row),
            kind => self.other.entry(kind).or_default().push(row),
        }
    }

    fn sort(&mut self) {
        let lists = self.off.values_mut().chain(self.reclaim.values_mut());
        for list in lists.chain(self.other.values_mut()) {
            list.sort_by_key(|r| r.start_ns);
        }
        for list in self.gaps.values_mut() {
            *list = gaps::merged(std::mem::take(list));
        }
    }

    /// What is known beside an I/O of this worker.
    pub fn beside(&self, worker: u64) -> Beside<'_> {
        Beside {
            all: Some(self),
            off: self.off.get(&worker).map_or(&[], Vec::as_slice),
            reclaim: self.reclaim.get(&worker).map_or(&[], Vec::as_slice),
            blind: self.blind,
            threads_only: self.threads_only,
            gaps: [worker, u64::MAX].map(|w| self.gaps.get(&w).map_or(&[][..], Vec::as_slice)),
            store: self.store,
            usual: None,
            page_ns: None,
            earlier: &[],
        }
    }

    /// Events of a kind that overlap a window.
    pub fn within(&self, kind: Kind, from: i64, to: i64) -> impl Iterator<Item = &LayerRow> {
        let list = self.other.get(&kind).map_or(&[][..], Vec::as_slice);
        let first = list.partition_point(|r| r.start_ns < from - LONGEST_NS);
        list[first..]
            .iter()
            .take_while(move |r| r.start_ns <= to)
            .filter(move |r| r.end_ns >= from)
    }
}

/// Events longer than this may be missed in a window that begins late in them.
const LONGEST_NS: i64 = 10_000_000_000;

/// What was read.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Events.
    pub events: Events,
    /// Phases of traced I/Os.
    pub usual: Vec<Usual>,
    /// Traced I/Os above their threshold, by (worker, submit).
    pub slow: BTreeMap<(u64, i64), Traced>,
    /// Matching.
    pub coverage: Coverage,
}

/// A traced I/O.
#[derive(Debug)]
pub struct Traced {
    /// Its stamps.
    pub row: LayerRow,
    /// Its earlier rounds of parts, by time.
    pub earlier: Vec<Round>,
}

/// How much could be seen at all.
#[derive(Debug, Clone, Copy)]
pub struct Sight {
    /// See [`Events::blind`].
    pub blind: bool,
    /// See [`Events::threads_only`].
    pub threads_only: bool,
}

/// Reads `layers.parquet`. `thresholds` say which I/Os are kept whole.
///
/// # Errors
/// `Corrupt` when the file is damaged.
pub fn layers(dir: &RunDir, thresholds: &BTreeMap<OpKind, u64>, sight: Sight) -> Result<Loaded> {
    let mut loaded = Loaded::default();
    loaded.events.blind = sight.blind;
    loaded.events.threads_only = sight.threads_only;
    let driver = &dir.manifest().plan.target.driver;
    loaded.events.store = matches!(driver.as_str(), "rocksdb" | "leveldb");
    loaded.events.disks = Disks::of(dir);
    loaded.events.stalls = stalls(dir)?;
    let measured = measured_from(dir);
    let (mut sorted, mut earlier) = (false, Vec::new());
    let path = dir.file(names::LAYERS);
    read_layers(&path, &mut |rows| {
        for row in rows {
            if row.kind == Kind::Round {
                // They come right before their I/O.
                earlier.push((row.token, Round::earlier(&row)));
                continue;
            }
            if row.kind != Kind::Io {
                loaded.events.add(row);
                continue;
            }
            let own = earlier.drain(..).filter(|(token, _)| *token == row.token);
            let own: Vec<Round> = own.map(|(_, round)| round).collect();
            if !sorted {
                // I/Os come after all events.
                loaded.events.sort();
                sorted = true;
            }
            if row.start_ns >= measured {
                loaded.io(row, own, thresholds);
            }
        }
        Ok(())
    })?;
    if !sorted {
        loaded.events.sort();
    }
    Ok(loaded)
}

/// What a store says of holding its writers back, from sample to sample.
fn stalls(dir: &RunDir) -> Result<Vec<(i64, i64, u64)>> {
    let Some(path) = dir.existing(names::STORE) else {
        return Ok(Vec::new());
    };
    let rows = read_store(&path)?;
    let counted = rows.iter().filter(|r| &*r.series == "stall_ns_total");
    let points: Vec<(i64, f64)> = counted.map(|r| (r.at_ns, r.value)).collect();
    let rises = points
        .windows(2)
        .map(|w| (w[0].0, w[1].0, (w[1].1 - w[0].1).max(0.0) as u64));
    Ok(rises.filter(|(_, _, ns)| *ns > 0).collect())
}

/// Start of the measure phase.
pub fn measured_from(dir: &RunDir) -> i64 {
    let mut phases = dir.manifest().phases.iter();
    let measure = phases.find(|p| p.name == "measure");
    measure.map_or(i64::MIN, |p| p.start_ns)
}

impl Coverage {
    fn see(&mut self, row: &LayerRow, earlier: &[Round]) {
        self.traced += 1;
        let unclear = row.flags.unwrap_or(0) & flags::UNCLEAR != 0;
        match (row.bios.unwrap_or(0), row.parts.unwrap_or(0)) {
            (0, _) if unclear => {
                self.unsplit += 1;
                self.unclear += 1;
            }
            (0, _) => self.without += 1,
            (bios, parts) if parts < bios || unclear => self.unsplit += 1,
            _ if !all_known(row, earlier) => self.unsplit += 1,
            _ => self.matched += 1,
        }
    }
}

impl Loaded {
    fn io(&mut self, row: LayerRow, earlier: Vec<Round>, thresholds: &BTreeMap<OpKind, u64>) {
        self.coverage.see(&row, &earlier);
        let Some(op) = row.op else {
            return;
        };
        let worker = row.worker.unwrap_or(u64::MAX);
        let service_ns = row.end_ns.saturating_sub(row.start_ns).max(0) as u64;
        if self.usual.len() < USUAL_MAX {
            let beside = Beside {
                earlier: &earlier,
                ..self.events.beside(worker)
            };
            let pieces = pieces(&row, &beside);
            self.usual.push(Usual {
                op,
                service_ns,
                sample: row.flags.unwrap_or(0) & flags::SAMPLE != 0,
                block: row.bios.unwrap_or(0) > 0,
                phases: lengths(&pieces),
            });
        }
        let slow = thresholds.get(&op).is_some_and(|t| service_ns > *t);
        if slow && self.slow.len() < SLOW_MAX {
            let key = (worker, row.start_ns);
            self.slow.insert(key, Traced { row, earlier });
        }
    }
}

/// The measured I/Os above their threshold (response time in a rate-limited run), in file order,
/// and how many more there are.
///
/// # Errors
/// `Corrupt` when `ios.parquet` is damaged.
pub fn slow_ios(dir: &RunDir, thresholds: &BTreeMap<OpKind, u64>) -> Result<(Vec<Slow>, u64)> {
    let (mut slow, mut more) = (Vec::new(), 0);
    let Some(path) = dir.existing(names::IOS) else {
        return Ok((slow, more));
    };
    let columns = Columns::PHASE
        | Columns::WORKER
        | Columns::OP
        | Columns::INTENDED
        | Columns::SUBMIT
        | Columns::COMPLETE
        | Columns::STATUS;
    read_ios(&path, columns, &mut |batch| {
        for i in 0..batch.rows {
            let (op, submit_ns, complete_ns) = (batch.op[i], batch.submit[i], batch.complete[i]);
            let intended_ns = batch.intended[i].unwrap_or(submit_ns).min(submit_ns);
            let response = complete_ns.saturating_sub(intended_ns).max(0) as u64;
            let above = thresholds.get(&op).is_some_and(|t| response > *t);
            if !above || batch.status[i] != 0 || batch.phase_name(i) == "warmup" {
                continue;
            }
            if slow.len() >= SLOW_MAX {
                more += 1;
                continue;
            }
            slow.push(Slow {
                worker: batch.worker[i],
                op,
                intended_ns,
                submit_ns,
                complete_ns,
            });
        }
        Ok(())
    })?;
    Ok((slow, more))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(bios: u64, parts: u64, bits: u64, rounds: u64) -> LayerRow {
        LayerRow {
            bios: Some(bios),
            parts: Some(parts),
            flags: Some(bits),
            rounds: Some(rounds),
            ..LayerRow::default()
        }
    }

    #[test]
    fn what_may_have_had_other_parts_is_seen_in_part() {
        let mut coverage = Coverage::default();
        for (bios, parts, bits) in [(0, 0, 0), (0, 0, 256), (1, 1, 0), (2, 1, 0), (1, 1, 256)] {
            coverage.see(&seen(bios, parts, bits, 0), &[]);
        }
        let expected = Coverage {
            traced: 5,
            matched: 1,
            unsplit: 3,
            unclear: 1,
            without: 1,
        };
        assert_eq!(coverage, expected);
    }

    #[test]
    fn with_a_round_that_is_not_known_it_is_seen_in_part() {
        let mut coverage = Coverage::default();
        let earlier = vec![Round::earlier(&LayerRow::default()); 2];
        coverage.see(&seen(3, 3, 0, 2), &earlier);
        assert_eq!((coverage.matched, coverage.unsplit), (1, 0));
        coverage.see(&seen(4, 4, 0, 3), &earlier);
        assert_eq!((coverage.matched, coverage.unsplit), (1, 1));
    }
}
