//! How long the control groups of this process had no CPU left, while a run goes on.

use std::path::PathBuf;

use taillight_core::{Clock, MonoClock};
use taillight_machine::{Sys, cgroup, read};
use taillight_rundir::layers::{LayerKind, LayerRow};

/// Reads `cpu.stat` of every group on the way up.
#[derive(Debug)]
pub struct QuotaWatch {
    files: Vec<PathBuf>,
    last: u64,
    at: i64,
}

impl QuotaWatch {
    /// For this process. Groups without a quota count nothing.
    pub fn new(sys: &Sys) -> QuotaWatch {
        let mut quota =
            QuotaWatch { files: cgroup::cpu_stats(sys), last: 0, at: MonoClock.now().0 };
        quota.last = quota.total();
        quota
    }

    fn total(&self) -> u64 {
        let texts = self.files.iter().filter_map(|f| read(f));
        texts.filter_map(|t| cgroup::cpu_throttling(&t)).map(|t| t.ns).sum()
    }

    /// From the last call to now, when the groups were without CPU in between.
    pub fn window(&mut self) -> Option<LayerRow> {
        if self.files.is_empty() {
            return None;
        }
        let (from, total) = (self.at, self.total());
        self.at = MonoClock.now().0;
        let without = total.saturating_sub(self.last);
        self.last = total;
        (without > 0).then(|| LayerRow {
            kind: LayerKind::CpuQuota,
            start_ns: from,
            end_ns: self.at,
            blocked_ns: Some(without),
            ..LayerRow::default()
        })
    }
}
