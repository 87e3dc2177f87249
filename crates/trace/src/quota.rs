//! How long the control groups of this process had no CPU left, while a run goes on.

use std::path::PathBuf;

use taillight_core::{Clock, MonoClock};

use crate::cgroup;
use crate::sys::{Sys, read};

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
        texts.filter_map(|t| parse(&t)).sum()
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

/// Throttled time in ns: version 1 says ns, version 2 us.
fn parse(text: &str) -> Option<u64> {
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|l| l.split_once(' '));
        lines
            .find(|(k, _)| *k == name)?
            .1
            .trim()
            .parse::<u64>()
            .ok()
    };
    value("throttled_time").or_else(|| value("throttled_usec").map(|us| us * 1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        assert_eq!(parse("nr_periods 1\nthrottled_time 5\n"), Some(5));
        assert_eq!(parse("usage_usec 9\nthrottled_usec 5\n"), Some(5000));
        assert_eq!(parse("usage_usec 9\n"), None);
    }
}
