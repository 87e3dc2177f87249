//! Counts every row of the measure and drain phases in its group of workload and operation, and successes in the
//! requests that ceilings ask about: while `ios.parquet` is written at the end of a run ([`CaptureCounter`]), or from
//! the file at any later time ([`read`]). Same rows, same order, same figures.

use std::path::Path;

use taillight_core::plan::Plan;
use taillight_core::progress::{OnProgress, Progress};
use taillight_core::{Error, ErrorKind, OpKind, Result, Stamp};
use taillight_rundir::ios::{ColumnSet, IosFile, Row, RowBatch};
use taillight_rundir::manifest::PhaseInfo;
use taillight_rundir::scale::ClockMap;
use taillight_stats::TimeWindow;

use super::group::{IoGroup, IoGroupCounter};
use super::requests::{RequestCounter, RequestGroup};

/// Memory the exact counters may take together. Distributions made of them, and their sums, take
/// up to twice as much once more.
const BUDGET: usize = 384 << 20;

/// Rows of a batch between two looks at the memory in use; there is one more after each batch.
const LOOK_ROWS: usize = 1 << 16;

/// What rows are counted by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CountingBasis {
    /// The time that grids of latency over time span: measure and drain.
    pub window: TimeWindow,
    /// End of the measure phase, CLOCK_MONOTONIC ns; `i64::MAX` where it is not known.
    pub end_ns: i64,
    /// The sizes of requests that ceilings ask about, each above 1, once, ascending.
    pub fanouts: Vec<u32>,
    /// From the clock of the rows to that of the figures.
    pub clock: ClockMap,
    /// Added to the numbers of workers, so that those of several ranks are told apart.
    pub first_worker: u16,
}

impl CountingBasis {
    /// Of a run that measured between these stamps.
    pub fn new(plan: &Plan, phases: &[PhaseInfo], (start, end): (i64, i64)) -> CountingBasis {
        let asked = plan.qos.ceilings.iter().filter_map(|c| c.fanout);
        let mut fanouts: Vec<u32> = asked.filter(|n| *n > 1).collect();
        fanouts.sort_unstable();
        fanouts.dedup();
        let counted = phases.iter().filter(|p| counts(&p.name));
        let drained = counted.filter_map(|p| p.end_ns).max().unwrap_or(i64::MIN);
        let measure = phases.iter().find(|p| p.name == "measure");
        let end_ns = measure.and_then(|p| p.end_ns).unwrap_or(i64::MAX);
        CountingBasis {
            window: TimeWindow::new(start, end.max(drained)),
            end_ns,
            fanouts,
            ..CountingBasis::default()
        }
    }

    /// Makes it the basis of a rank whose figures are to be put together with those of others.
    pub fn of_rank(&mut self, window: Option<(i64, i64)>, clock: ClockMap, first_worker: u16) {
        if let Some((start, end)) = window {
            self.window = TimeWindow::new(start, end);
        }
        (self.clock, self.first_worker) = (clock, first_worker);
    }

    /// A row with its stamps on the clock of the figures and the number of its worker among those of all ranks.
    fn moved(&self, row: &Row) -> Row {
        let mut row = *row;
        let at = |stamp: Stamp| Stamp(self.clock.to_reference(stamp.0));
        row.worker = row.worker.wrapping_add(self.first_worker);
        row.record.submit = at(row.record.submit);
        row.record.complete = at(row.record.complete);
        row.record.issued = row.record.issued.map(at);
        row.record.first = row.record.first.map(at);
        row.record.intended = row.record.intended.map(at);
        row.record.origin = row.record.origin.map(at);
        row
    }
}

/// Start and end of the measure phase, where both are known.
pub fn measured(phases: &[PhaseInfo]) -> Option<(i64, i64)> {
    let measure = phases.iter().find(|p| p.name == "measure")?;
    Some((measure.start_ns, measure.end_ns?.max(measure.start_ns)))
}

/// What the rows of one file gave.
#[derive(Debug, Default)]
pub struct CapturedIos {
    pub basis: CountingBasis,
    /// Groups in order of workload and operation.
    pub groups: Vec<IoGroup>,
    /// Requests of several I/Os.
    pub requests: Vec<RequestGroup>,
    /// Rows in the file, of every phase.
    pub rows: u64,
    /// Rows of the measure and drain phases, without parts of read-modify-writes.
    pub counted: u64,
    /// Whether the distributions outgrew the memory budget and were dropped; tallies and the slowest go on.
    pub overflowed: bool,
}

/// Whether a phase counts: load that is measured, and its end.
pub fn counts(phase: &str) -> bool {
    phase == "measure" || phase == "drain"
}

/// The span of submits and completions of the measured rows; none without rows.
pub fn span(path: &Path) -> Result<Option<(i64, i64)>> {
    let mut span: Option<(i64, i64)> = None;
    let columns = ColumnSet::PHASE | ColumnSet::SUBMIT | ColumnSet::COMPLETE;
    IosFile::open(path)?.read(columns, &mut |batch| {
        for i in (0..batch.rows).filter(|i| counts(batch.phase_name(*i))) {
            let at = (batch.submit(i), batch.complete(i));
            span = Some(span.map_or(at, |(a, b)| (a.min(at.0), b.max(at.1))));
        }
        Ok(())
    })?;
    Ok(span)
}

/// Reads all rows into groups and requests. Errors: `Corrupt` for a damaged file; `Unavailable` if it cannot be read,
/// or if `progress` stops it.
pub fn read(
    path: &Path,
    basis: CountingBasis,
    progress: &mut OnProgress<'_>,
) -> Result<CapturedIos> {
    let file = IosFile::open(path)?;
    let total = file.rows();
    let mut counter = CaptureCounter::by(basis);
    file.read(ColumnSet::ALL, &mut |batch| {
        counter.rows(batch);
        let done = counter.captured.rows;
        let go_on = progress(Progress { what: "reading ios.parquet", done, total, unit: "I/Os" });
        if go_on { Ok(()) } else { Err(stopped()) }
    })?;
    Ok(counter.finish())
}

/// The error of work that was asked to stop.
pub fn stopped() -> Error {
    Error::new(ErrorKind::Unavailable, "stopped before the report was made")
}

/// Counts the rows of one file as they stream by.
pub struct CaptureCounter {
    /// By workload and operation.
    counters: Vec<Vec<Option<Box<IoGroupCounter>>>>,
    requests: Vec<RequestCounter>,
    /// A part of a read-modify-write came by: parts have kinds of their own in this run.
    apart: bool,
    captured: CapturedIos,
}

impl CaptureCounter {
    /// Of a run whose load is over. None without a measure phase that ended.
    pub fn new(plan: &Plan, phases: &[PhaseInfo]) -> Option<CaptureCounter> {
        Some(CaptureCounter::by(CountingBasis::new(plan, phases, measured(phases)?)))
    }

    fn by(basis: CountingBasis) -> CaptureCounter {
        let request = |n: &u32| RequestCounter::new(*n, basis.window);
        CaptureCounter {
            counters: Vec::new(),
            requests: basis.fanouts.iter().map(request).collect(),
            apart: false,
            captured: CapturedIos { basis, ..CapturedIos::default() },
        }
    }

    /// Counts the next rows.
    pub fn rows(&mut self, batch: &RowBatch) {
        let wanted: Vec<bool> = batch.phase_names.iter().map(|name| counts(name)).collect();
        let mut looked = 0;
        let basis = self.captured.basis.clone();
        let moves = !basis.clock.is_same() || basis.first_worker > 0;
        batch.blocks(|from, rows| {
            for (row, i) in rows.iter().zip(from..) {
                if wanted[batch.phase(i)] {
                    match moves {
                        false => self.row(row),
                        true => self.row(&basis.moved(row)),
                    }
                }
            }
            if from >= looked + LOOK_ROWS {
                looked = from;
                self.bound_memory();
            }
        });
        self.bound_memory();
        self.captured.rows += batch.rows as u64;
    }

    #[inline]
    fn row(&mut self, row: &Row) {
        self.captured.counted += u64::from(!row.op.is_part());
        let exact = !self.captured.overflowed;
        // As `Analysis::is_whole`: the get of a read-modify-write comes before the whole.
        self.apart |= row.op.is_part();
        let whole = !row.op.is_part() && (row.op != OpKind::Rmw || self.apart);
        if exact && row.status.is_ok() && whole {
            self.requests.iter_mut().for_each(|requests| requests.push(row));
        }
        self.counter(row.workload, row.op).push(row, exact);
    }

    /// Gives up exact counting once it takes too much memory.
    fn bound_memory(&mut self) {
        let requests: usize = self.requests.iter().map(RequestCounter::memory).sum();
        let groups: usize = self.counters.iter().flatten().flatten().map(|c| c.memory()).sum();
        if groups + requests > BUDGET && !self.captured.overflowed {
            self.captured.overflowed = true;
            self.requests.clear();
            for counter in self.counters.iter_mut().flatten().flatten() {
                counter.forget();
            }
        }
    }

    fn counter(&mut self, workload: u16, op: OpKind) -> &mut IoGroupCounter {
        let workload = usize::from(workload);
        if self.counters.len() <= workload {
            self.counters.resize_with(workload + 1, Vec::new);
        }
        let row = &mut self.counters[workload];
        if row.is_empty() {
            row.resize_with(OpKind::ALL.len(), || None);
        }
        let CountingBasis { window, end_ns, .. } = self.captured.basis;
        row[op as usize].get_or_insert_with(|| Box::new(IoGroupCounter::new(window, end_ns)))
    }

    /// What all rows gave.
    pub fn finish(self) -> CapturedIos {
        let mut captured = self.captured;
        captured.requests = self.requests.into_iter().flat_map(RequestCounter::finish).collect();
        for (workload, ops) in self.counters.into_iter().enumerate() {
            for (op, counter) in OpKind::ALL.into_iter().zip(ops) {
                if let Some(counter) = counter {
                    captured.groups.push(counter.finish(workload as u16, op));
                }
            }
        }
        captured
    }
}

impl std::fmt::Debug for CaptureCounter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CaptureCounter").field("captured", &self.captured).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::{LatencyKind, Record};
    use taillight_rundir::scale::ClockSample;

    #[test]
    fn the_stamps_of_a_row_move_to_the_other_clock_together() {
        let ahead = ClockSample { at_ns: 0, offset_ns: 1_000, bound_ns: 0, round_trip_ns: 0 };
        let clock = ClockMap::of(&[ahead]);
        let basis = CountingBasis { clock, first_worker: 4, ..CountingBasis::default() };
        let record = Record {
            intended: Some(Stamp(5_000)),
            origin: Some(Stamp(4_000)),
            submit: Stamp(5_100),
            issued: Some(Stamp(5_200)),
            first: Some(Stamp(5_300)),
            complete: Stamp(5_900),
            ..Record::default()
        };
        let moved = basis.moved(&Row { workload: 2, worker: 1, record });
        assert_eq!((moved.workload, moved.worker), (2, 5));
        assert_eq!((moved.submit, moved.first), (Stamp(4_100), Some(Stamp(4_300))));
        for kind in LatencyKind::ALL {
            assert_eq!(kind.of(&moved.record), kind.of(&record), "{kind:?}");
        }
    }
}
