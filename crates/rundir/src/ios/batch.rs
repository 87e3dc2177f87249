//! Consecutive rows of `ios.parquet` by column: what the writer gathers and the reader hands out.

use taillight_core::{OpKind, Record, Stamp, Status};

use super::column::{DenseColumn, OptionalColumn};

/// Rows that [`RowBatch::blocks`] hands out at a time: they stay in the nearest cache.
const BLOCK_ROWS: usize = 64;

/// One I/O as read. Its phase is [`RowBatch::phase_name`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Index of the workload in the plan.
    pub workload: u16,
    /// Worker over all workloads.
    pub worker: u16,
    pub record: Record,
}

impl std::ops::Deref for Row {
    type Target = Record;
    #[inline]
    fn deref(&self) -> &Record {
        &self.record
    }
}

/// Consecutive rows. A column that was not asked for holds a default in every row. Values are as in
/// the file: numbers without a sign stand in signed ones.
#[derive(Debug, Default)]
pub struct RowBatch {
    /// Rows in the batch.
    pub rows: usize,
    /// Number of the first row in the file, from 0.
    pub first_row: u64,
    /// Names of the phases seen so far.
    pub phase_names: Vec<String>,
    /// Phase, as an index into `phase_names`.
    pub(super) phase: DenseColumn<u16>,
    pub(super) workload: DenseColumn<u16>,
    pub(super) worker: DenseColumn<u16>,
    pub(super) op: DenseColumn<OpKind>,
    pub(super) target: DenseColumn<i32>,
    pub(super) offset: OptionalColumn<i64>,
    pub(super) key: OptionalColumn<i64>,
    pub(super) size: DenseColumn<i64>,
    pub(super) moved: OptionalColumn<i64>,
    pub(super) count: OptionalColumn<i32>,
    pub(super) intended: OptionalColumn<i64>,
    pub(super) origin: OptionalColumn<i64>,
    pub(super) submit: DenseColumn<i64>,
    pub(super) issued: OptionalColumn<i64>,
    pub(super) first: OptionalColumn<i64>,
    pub(super) complete: DenseColumn<i64>,
    pub(super) sync: OptionalColumn<i64>,
    pub(super) retries: OptionalColumn<i32>,
    pub(super) status: DenseColumn<i32>,
}

impl RowBatch {
    /// Phase of row `i`, as an index into `phase_names`.
    ///
    /// # Panics
    /// This and the next ones: when there is no such row.
    #[inline]
    pub fn phase(&self, i: usize) -> usize {
        usize::from(self.phase.get(i))
    }
    /// Its name.
    pub fn phase_name(&self, i: usize) -> &str {
        &self.phase_names[self.phase(i)]
    }
    #[inline]
    pub fn worker(&self, i: usize) -> u16 {
        self.worker.get(i)
    }
    #[inline]
    pub fn op(&self, i: usize) -> OpKind {
        self.op.get(i)
    }
    /// Index of the file or endpoint.
    #[inline]
    pub fn target(&self, i: usize) -> u16 {
        self.target.get(i) as u16
    }
    /// Key number, of a batch the first one.
    #[inline]
    pub fn key(&self, i: usize) -> Option<u64> {
        self.key.get(i).map(|v| v as u64)
    }
    /// Bytes asked.
    #[inline]
    pub fn size(&self, i: usize) -> u64 {
        self.size.get(i) as u64
    }
    /// When the schedule wanted it to start; `None` in a closed loop: read it as `submit`.
    #[inline]
    pub fn intended(&self, i: usize) -> Option<i64> {
        self.intended.get(i)
    }
    /// CLOCK_MONOTONIC ns, as all stamps.
    #[inline]
    pub fn submit(&self, i: usize) -> i64 {
        self.submit.get(i)
    }
    #[inline]
    pub fn complete(&self, i: usize) -> i64 {
        self.complete.get(i)
    }
    #[inline]
    pub fn status(&self, i: usize) -> Status {
        Status(self.status.get(i))
    }

    /// Row `i`, of a batch with all columns.
    pub fn row(&self, i: usize) -> Row {
        Row {
            workload: self.workload.get(i),
            worker: self.worker.get(i),
            record: Record {
                op: self.op.get(i),
                target: self.target.get(i) as u16,
                offset: self.offset.get(i).map(|v| v as u64),
                key: self.key.get(i).map(|v| v as u64),
                size: self.size.get(i) as u64,
                moved: self.moved.get(i).map(|v| v as u64),
                count: self.count.get(i).map(|v| v as u32),
                intended: self.intended.get(i).map(Stamp),
                origin: self.origin.get(i).map(Stamp),
                submit: Stamp(self.submit.get(i)),
                issued: self.issued.get(i).map(Stamp),
                first: self.first.get(i).map(Stamp),
                complete: Stamp(self.complete.get(i)),
                sync_ns: self.sync.get(i).map(|v| v as u64),
                retries: self.retries.get(i).map(|v| v as u16),
                status: Status(self.status.get(i)),
            },
        }
    }

    /// Hands all rows of a batch with all columns to `each`, some at a time, with the number of the
    /// first of them in the batch. Only columns whose values differ cost anything.
    pub fn blocks(&self, mut each: impl FnMut(usize, &[Row])) {
        if self.rows == 0 {
            return;
        }
        let mut block = [self.row(0); BLOCK_ROWS];
        for from in (0..self.rows).step_by(BLOCK_ROWS) {
            let rows = &mut block[..BLOCK_ROWS.min(self.rows - from)];
            self.copy(from, rows);
            each(from, rows);
        }
    }

    fn copy(&self, from: usize, rows: &mut [Row]) {
        let stamp = |v: Option<i64>| v.map(Stamp);
        let int = |v: Option<i64>| v.map(|v| v as u64);
        self.workload.copy(from, rows, |row, v| row.workload = v);
        self.worker.copy(from, rows, |row, v| row.worker = v);
        self.op.copy(from, rows, |row, v| row.record.op = v);
        self.target.copy(from, rows, |row, v| row.record.target = v as u16);
        self.offset.copy(from, rows, |row, v| row.record.offset = int(v));
        self.key.copy(from, rows, |row, v| row.record.key = int(v));
        self.size.copy(from, rows, |row, v| row.record.size = v as u64);
        self.moved.copy(from, rows, |row, v| row.record.moved = int(v));
        self.count.copy(from, rows, |row, v| row.record.count = v.map(|v| v as u32));
        self.intended.copy(from, rows, |row, v| row.record.intended = stamp(v));
        self.origin.copy(from, rows, |row, v| row.record.origin = stamp(v));
        self.submit.copy(from, rows, |row, v| row.record.submit = Stamp(v));
        self.issued.copy(from, rows, |row, v| row.record.issued = stamp(v));
        self.first.copy(from, rows, |row, v| row.record.first = stamp(v));
        self.complete.copy(from, rows, |row, v| row.record.complete = Stamp(v));
        self.sync.copy(from, rows, |row, v| row.record.sync_ns = int(v));
        self.retries.copy(from, rows, |row, v| row.record.retries = v.map(|v| v as u16));
        self.status.copy(from, rows, |row, v| row.record.status = Status(v));
    }

    /// Adds a row; phase, workload and worker are added by stretches.
    #[inline]
    pub(super) fn push(&mut self, r: &Record) {
        let ns = |s: Option<Stamp>| s.map(|s| s.0);
        let int = |v: Option<u64>| v.map(|v| v as i64);
        let row = self.rows;
        self.op.push(row, r.op);
        self.target.push(row, i32::from(r.target));
        self.offset.push(row, int(r.offset));
        self.key.push(row, int(r.key));
        self.size.push(row, r.size as i64);
        self.moved.push(row, int(r.moved));
        self.count.push(row, r.count.map(|v| v as i32));
        self.intended.push(row, ns(r.intended));
        self.origin.push(row, ns(r.origin));
        self.submit.push(row, r.submit.0);
        self.issued.push(row, ns(r.issued));
        self.first.push(row, ns(r.first));
        self.complete.push(row, r.complete.0);
        self.sync.push(row, int(r.sync_ns));
        self.retries.push(row, r.retries.map(i32::from));
        self.status.push(row, r.status.0);
        self.rows += 1;
    }

    /// Forgets the rows; names of phases stay.
    pub(super) fn clear(&mut self) {
        self.first_row += self.rows as u64;
        self.rows = 0;
        self.op.clear();
        for column in [&mut self.phase, &mut self.workload, &mut self.worker] {
            column.clear();
        }
        for column in [&mut self.target, &mut self.status] {
            column.clear();
        }
        for column in [&mut self.size, &mut self.submit, &mut self.complete] {
            column.clear();
        }
        for column in [
            &mut self.offset,
            &mut self.key,
            &mut self.moved,
            &mut self.intended,
            &mut self.origin,
            &mut self.issued,
            &mut self.first,
            &mut self.sync,
        ] {
            column.clear();
        }
        for column in [&mut self.count, &mut self.retries] {
            column.clear();
        }
    }
}
