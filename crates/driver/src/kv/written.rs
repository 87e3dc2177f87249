//! Which records a run has written, known to all its sessions: what it may delete in the end.
//!
//! Names follow from key numbers, so that the range of numbers says the names. What it is not: whether
//! what stands there now is still the run's; the drivers of servers ask that before they delete.

use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::plan::Plan;

/// Numbers and sizes of the records written so far.
#[derive(Debug)]
pub struct WrittenKeys {
    /// The first key number of the plan.
    start: u64,
    /// One past the highest key number written; `start` when none is.
    end: AtomicU64,
    /// Bytes of the smallest and of the largest value.
    smallest: AtomicU64,
    largest: AtomicU64,
}

impl WrittenKeys {
    /// None yet.
    pub fn of(plan: &Plan) -> WrittenKeys {
        let keys = plan.workloads.iter().filter_map(|w| w.keys.as_ref());
        let start = keys.map(|k| k.start).min().unwrap_or(0);
        let [end, smallest, largest] = [start, u64::MAX, 0].map(AtomicU64::new);
        WrittenKeys { start, end, smallest, largest }
    }

    /// `count` records from number `key` on, of `size` bytes each, are about to be written.
    #[inline]
    pub fn note(&self, key: u64, count: u32, size: u64) {
        let end = key.saturating_add(u64::from(count.max(1)));
        if self.end.load(Ordering::Relaxed) < end {
            self.end.fetch_max(end, Ordering::Relaxed);
        }
        if self.smallest.load(Ordering::Relaxed) > size {
            self.smallest.fetch_min(size, Ordering::Relaxed);
        }
        if self.largest.load(Ordering::Relaxed) < size {
            self.largest.fetch_max(size, Ordering::Relaxed);
        }
    }

    /// Numbers of the records written, and of the `records` that were there before.
    pub fn range(&self, records: u64) -> Range<u64> {
        let end = self.end.load(Ordering::Relaxed);
        self.start..end.max(self.start.saturating_add(records))
    }

    /// Bytes of the values written; empty when there are none.
    pub fn sizes(&self) -> RangeInclusive<u64> {
        self.smallest.load(Ordering::Relaxed)..=self.largest.load(Ordering::Relaxed)
    }

    /// What was written is deleted.
    pub fn clear(&self) {
        self.end.store(self.start, Ordering::Relaxed);
    }
}

/// Values under names of the run that it did not write: they stay, and are told.
#[derive(Debug, Default)]
pub struct ForeignRecords {
    pub count: u64,
    /// The first of them.
    pub example: Option<String>,
}

impl ForeignRecords {
    pub fn note(&mut self, name: &[u8]) {
        self.count += 1;
        self.example.get_or_insert_with(|| String::from_utf8_lossy(name).into_owned());
    }

    /// Errors: `Target` when there are some.
    pub fn told(self) -> taillight_core::Result<()> {
        let Some(example) = self.example else { return Ok(()) };
        let what = "under names of this run stand values that it did not write: they stay";
        Err(taillight_core::Error::target(what)
            .with("how many", self.count)
            .with("one of them", example)
            .hint("somebody else writes under the same prefix: the run's figures include that"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::plan::TargetPlan;

    #[test]
    fn what_was_written_is_a_range_of_numbers_and_sizes() {
        let mut plan = crate::conformance::keyed_plan(TargetPlan::default(), 10, 1, false);
        plan.workloads[0].keys.as_mut().unwrap().start = 100;
        let written = WrittenKeys::of(&plan);
        assert!(written.range(0).is_empty() && written.sizes().is_empty());
        assert_eq!(written.range(5), 100..105, "records of an earlier run");
        written.note(120, 4, 300);
        written.note(101, 1, 200);
        assert_eq!((written.range(5), written.sizes()), (100..124, 200..=300));
        written.clear();
        assert!(written.range(0).is_empty());
    }
}
