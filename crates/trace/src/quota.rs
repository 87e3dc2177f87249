//! How long the control groups of this process had no CPU left, while a run goes on.

use std::path::PathBuf;

use taillight_core::{Clock, MonoClock};
use taillight_machine::{Sys, cgroup, read};

/// Reads `cpu.stat` of every group on the way up.
#[derive(Debug)]
pub struct Quota {
    files: Vec<PathBuf>,
    last: u64,
    at: i64,
}

impl Quota {
    /// For this process. Groups without a quota count nothing.
    pub fn new(sys: &Sys) -> Quota {
        let mut quota = Quota {
            files: cgroup::cpu_stats(sys),
            last: 0,
            at: MonoClock.now().0,
        };
        quota.last = quota.total();
        quota
    }

    fn total(&self) -> u64 {
        let texts = self.files.iter().filter_map(|f| read(f));
        texts
            .filter_map(|t| cgroup::cpu_throttling(&t))
            .map(|t| t.ns)
            .sum()
    }

    /// From the last call to now, when the groups were without CPU in between: from, to, ns.
    pub fn window(&mut self) -> Option<(i64, i64, u64)> {
        if self.files.is_empty() {
            return None;
        }
        let (from, total) = (self.at, self.total());
        self.at = MonoClock.now().0;
        let without = total.saturating_sub(self.last);
        self.last = total;
        (without > 0).then_some((from, self.at, without))
    }
}
