//! Reads the slow I/Os of a run from `ios.parquet`.

use std::collections::{BTreeMap, BTreeSet};

use taillight_core::plan::CaptureMode;
use taillight_core::{OpKind, Result, TimeSpan};
use taillight_rundir::ios::{ColumnSet, RowBatch, read_ios};
use taillight_rundir::{RunDir, names};

/// Slow I/Os looked at singly.
pub const SLOW_MAX: usize = 1 << 18;

/// Worker and submit of I/Os.
pub type IoKeys = BTreeSet<(u64, i64)>;

/// One I/O slower than its threshold, as measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slow {
    pub worker: u16,
    pub op: OpKind,
    /// When the schedule wanted it, or submit.
    pub intended_ns: i64,
    pub submit_ns: i64,
    pub complete_ns: i64,
}

impl Slow {
    /// From submit to complete.
    pub fn time(&self) -> TimeSpan {
        TimeSpan::new(self.submit_ns, self.complete_ns)
    }
}

/// The slow I/Os of a run.
#[derive(Debug, Default)]
pub struct SlowIos {
    /// The first `SLOW_MAX` in file order.
    pub ios: Vec<Slow>,
    /// Which data each of these was of.
    pub data: Vec<OperationData>,
    /// Those beyond, which are counted and not judged.
    pub more: u64,
}

/// Which data an operation was of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperationData {
    /// Key number, of a batch the first one; none where operations have no key.
    pub key: Option<u64>,
    /// Bytes asked.
    pub size: u64,
    /// Index of the file or endpoint.
    pub target: u16,
}

impl OperationData {
    /// The columns of `ios.parquet` that say so.
    pub fn columns() -> ColumnSet {
        ColumnSet::KEY | ColumnSet::SIZE | ColumnSet::TARGET
    }

    /// Of row `i` of a batch with these columns.
    pub fn of(batch: &RowBatch, i: usize) -> OperationData {
        OperationData { key: batch.key(i), size: batch.size(i), target: batch.target(i) }
    }
}

/// Start of the measure phase, CLOCK_MONOTONIC ns; `i64::MIN` where the manifest has none.
pub fn measured_from(dir: &RunDir) -> i64 {
    let mut phases = dir.manifest().phases.iter();
    let measure = phases.find(|p| p.name == "measure");
    measure.map_or(i64::MIN, |p| p.start_ns)
}

/// Whether `ios.parquet` has every I/O that was measured. It has none of the warm-up and of load not measured.
pub fn has_every_io(dir: &RunDir) -> bool {
    let manifest = dir.manifest();
    manifest.plan.capture.mode == CaptureMode::All
        && manifest.capture.degraded.is_none()
        && manifest.losses.ios == 0
}

/// The measured, successful I/Os above their threshold (response time in an open loop), beyond [`SLOW_MAX`] only their
/// number. Empty without `ios.parquet`. Errors: `Corrupt` when it is damaged.
pub fn slow_ios(dir: &RunDir, thresholds: &BTreeMap<OpKind, u64>) -> Result<SlowIos> {
    let mut slow = SlowIos::default();
    let Some(path) = dir.existing(names::IOS) else {
        return Ok(slow);
    };
    let columns = OperationData::columns()
        | ColumnSet::PHASE
        | ColumnSet::WORKER
        | ColumnSet::OP
        | ColumnSet::INTENDED
        | ColumnSet::SUBMIT
        | ColumnSet::COMPLETE
        | ColumnSet::STATUS;
    read_ios(&path, columns, &mut |batch| {
        for i in 0..batch.rows {
            let (op, submit_ns, complete_ns) = (batch.op(i), batch.submit(i), batch.complete(i));
            let intended_ns = batch.intended(i).unwrap_or(submit_ns).min(submit_ns);
            let response = complete_ns.saturating_sub(intended_ns).max(0) as u64;
            let above = thresholds.get(&op).is_some_and(|t| response > *t);
            if !above || !batch.status(i).is_ok() || batch.phase_name(i) == "warmup" {
                continue;
            }
            if slow.ios.len() >= SLOW_MAX {
                slow.more += 1;
                continue;
            }
            slow.data.push(OperationData::of(batch, i));
            slow.ios.push(Slow {
                worker: batch.worker(i),
                op,
                intended_ns,
                submit_ns,
                complete_ns,
            });
        }
        Ok(())
    })?;
    Ok(slow)
}
