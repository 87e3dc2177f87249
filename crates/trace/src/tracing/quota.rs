//! How long the control groups of this process had no CPU left, while a run goes on.

use std::path::PathBuf;

use taillight_core::{Clock, MonoClock};
use taillight_machine::{Sys, cgroup, read};
use taillight_rundir::layers::{LayerKind, LayerRow};

/// Reads `cpu.stat` of every group on the way up.
#[derive(Debug)]
pub struct QuotaWatch {
    /// `cpu.stat` of each group, and the time in it when it was last read, ns.
    files: Vec<(PathBuf, Option<u64>)>,
    at: i64,
}

impl QuotaWatch {
    /// For this process. Groups without a quota count nothing.
    pub fn new(sys: &Sys) -> QuotaWatch {
        let files = cgroup::cpu_stats(sys).into_iter().map(|file| (file, None)).collect();
        let mut quota = QuotaWatch { files, at: MonoClock.now().0 };
        quota.rise();
        quota
    }

    /// What the groups had more than when each was last read. One that cannot be read now says it with its next reading.
    fn rise(&mut self) -> u64 {
        let one = |(file, last): &mut (PathBuf, Option<u64>)| {
            let now = read(file).and_then(|text| cgroup::cpu_throttling(&text))?.ns;
            Some(now.saturating_sub(last.replace(now)?))
        };
        self.files.iter_mut().filter_map(one).sum()
    }

    /// From the last call to now, when the groups were without CPU in between.
    pub fn window(&mut self) -> Option<LayerRow> {
        if self.files.is_empty() {
            return None;
        }
        let (from, without) = (self.at, self.rise());
        self.at = MonoClock.now().0;
        (without > 0).then(|| LayerRow {
            kind: LayerKind::CpuQuota,
            start_ns: from,
            end_ns: self.at,
            blocked_ns: Some(without),
            ..LayerRow::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_that_fails_once_makes_no_window_of_a_whole_life() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("cpu.stat");
        let write = |us: u64| {
            let text = format!("nr_periods 9\nnr_throttled 3\nthrottled_usec {us}\n");
            std::fs::write(&file, text).unwrap();
        };
        write(5_000_000);
        let mut quota = QuotaWatch { files: vec![(file.clone(), None)], at: 0 };
        let mut blocked = || quota.window().and_then(|row| row.blocked_ns);
        assert_eq!(blocked(), None);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(blocked(), None);
        write(5_000_007);
        assert_eq!(blocked(), Some(7000));
    }
}
