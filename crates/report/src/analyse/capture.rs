//! Reads `ios.parquet` once: every row of the measure and drain phases into its group.

use std::path::Path;

use taillight_core::progress::{OnProgress, Progress};
use taillight_core::{Error, ErrorKind, OpKind, Result};
use taillight_rundir::ios::{ColumnSet, IosFile, RowBatch};
use taillight_stats::TimeWindow;

use super::group::{IoGroup, IoGroupCounter};
use super::requests::{RequestCounter, RequestGroup};

/// Memory the exact counters may take together. Distributions made of them, and their sums, take
/// up to twice as much once more.
const BUDGET: usize = 384 << 20;

/// What one reading of the file gave.
#[derive(Debug, Default)]
pub struct CapturedIos {
    /// Groups in order of workload and operation.
    pub groups: Vec<IoGroup>,
    /// Requests of several I/Os.
    pub requests: Vec<RequestGroup>,
    /// Rows in the file, of every phase.
    pub rows: u64,
    /// Rows of the measure and drain phases, without parts of read-modify-writes.
    pub counted: u64,
    /// Whether the distributions outgrew the memory budget and stopped being complete.
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
            let at = (batch.submit[i], batch.complete[i]);
            span = Some(span.map_or(at, |(a, b)| (a.min(at.0), b.max(at.1))));
        }
        Ok(())
    })?;
    Ok(span)
}

/// Reads all rows into groups, and into requests of each of `fanouts`.
pub fn read(
    path: &Path,
    window: TimeWindow,
    fanouts: &[u32],
    progress: &mut OnProgress<'_>,
) -> Result<CapturedIos> {
    let file = IosFile::open(path)?;
    let total = file.rows();
    let mut reader = CaptureReader {
        window,
        counters: Vec::new(),
        requests: fanouts.iter().map(|n| RequestCounter::new(*n, window)).collect(),
        apart: false,
        captured: CapturedIos { rows: total, ..CapturedIos::default() },
    };
    let mut done = 0;
    let columns = ColumnSet::ALL;
    file.read(columns, &mut |batch| {
        reader.batch(batch);
        done += batch.rows as u64;
        let go_on = progress(Progress { what: "reading ios.parquet", done, total, unit: "I/Os" });
        if go_on { Ok(()) } else { Err(stopped()) }
    })?;
    Ok(reader.finish())
}

/// The error of work that was asked to stop.
pub fn stopped() -> Error {
    Error::new(ErrorKind::Unavailable, "stopped before the report was made")
}

struct CaptureReader {
    window: TimeWindow,
    /// By workload and operation.
    counters: Vec<Vec<Option<Box<IoGroupCounter>>>>,
    requests: Vec<RequestCounter>,
    /// Parts of read-modify-writes have kinds of their own.
    apart: bool,
    captured: CapturedIos,
}

impl CaptureReader {
    fn batch(&mut self, batch: &RowBatch) {
        let wanted: Vec<bool> = batch.phase_names.iter().map(|name| counts(name)).collect();
        for i in 0..batch.rows {
            if !wanted.get(usize::from(batch.phase[i])).copied().unwrap_or(false) {
                continue;
            }
            let row = batch.row(i);
            self.captured.counted += u64::from(!row.op.is_part());
            let exact = !self.captured.overflowed;
            // As `Analysis::is_whole`: the get of a read-modify-write comes before the whole.
            self.apart |= row.op.is_part();
            let whole = !row.op.is_part() && (row.op != OpKind::Rmw || self.apart);
            if !self.requests.is_empty() && exact && row.status.is_ok() && whole {
                // Of their own: a reference to the row above would keep it whole in memory.
                let row = batch.row(i);
                self.requests.iter_mut().for_each(|requests| requests.push(&row));
            }
            self.counter(row.workload, row.op).push(&row, exact);
        }
        let requests: usize = self.requests.iter().map(RequestCounter::memory).sum();
        let groups: usize = self.counters.iter().flatten().flatten().map(|c| c.memory()).sum();
        let memory = groups + requests;
        if memory > BUDGET && !self.captured.overflowed {
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
        let window = self.window;
        row[op as usize].get_or_insert_with(|| Box::new(IoGroupCounter::new(window)))
    }

    fn finish(self) -> CapturedIos {
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
