//! Counts hundreds of millions of durations exactly in bounded memory, and gives their [`Dist`].
//!
//! Durations below 4.2 ms (2^22 ns) cost one increment in a table; slower ones wait in a list that is sorted
//! into runs of equal values whenever it has grown long. A counter belongs to one thread: count apart and
//! [`merge`](ExactCounter::merge).
//!
//! Memory: at most 16 MiB of tables for fast values, 8 MiB of slow values waiting to be sorted, and at
//! most 20 bytes (run and further waiting values) for each *distinct* slow value, which is the part that
//! grows with the run (100 million slow I/Os, all of different duration: 2 GB; for a moment twice that
//! where the list must move to grow). [`finish`](ExactCounter::finish) adds 16 bytes for each
//! distinct fast value, 64 MiB at most, and for a moment as much again.
//! [`memory_bytes`](ExactCounter::memory_bytes) tells what is in use, so that a caller with a budget can
//! stop and fall back to a histogram with a stated error.

use crate::dist::{CumulativeCount, Dist};

/// Values below `2^DENSE_BITS` nanoseconds are counted in tables.
const DENSE_BITS: u32 = 22;
/// Counters per table; tables are made when first hit.
const PAGE_BITS: u32 = 12;
const PAGE_LEN: usize = 1 << PAGE_BITS;
const PAGES: usize = 1 << (DENSE_BITS - PAGE_BITS);
const DENSE_LIMIT: u64 = 1 << DENSE_BITS;
/// Fast values that are counted together: their counters lie far apart, and in one short loop the CPU waits for
/// many of them at a time.
const RECENT: usize = 1024;
/// Slow values gathered before the first sort.
const MIN_PENDING: usize = 1 << 20;
/// What one wrap of a 32-bit counter stands for.
const CARRY: u64 = 1 << 32;

type Page = Box<[u32; PAGE_LEN]>;

/// A distinct slow value and how often it came.
#[derive(Clone, Copy, Debug)]
struct ValueRun {
    value: u64,
    count: u64,
}

/// Counts values exactly; see the module for memory.
#[derive(Debug)]
pub struct ExactCounter {
    pages: Box<[Option<Page>; PAGES]>,
    /// Fast values that are not in `pages` yet.
    recent: Vec<u32>,
    /// Fast values whose counter wrapped, once for each wrap.
    carries: Vec<u64>,
    /// Slow values not yet sorted in.
    pending: Vec<u64>,
    /// Slow values, distinct and rising.
    runs: Vec<ValueRun>,
    /// Length of `pending` at which it is sorted in: at least a quarter of `runs`, so that sorting in stays
    /// cheap per value.
    pending_limit: usize,
}

impl Default for ExactCounter {
    fn default() -> Self {
        Self::new()
    }
}

impl ExactCounter {
    #[must_use]
    pub fn new() -> Self {
        Self::with_pending_limit(MIN_PENDING)
    }

    fn with_pending_limit(pending_limit: usize) -> Self {
        Self {
            pages: Box::new([const { None }; PAGES]),
            recent: Vec::with_capacity(RECENT),
            carries: Vec::new(),
            pending: Vec::new(),
            runs: Vec::new(),
            pending_limit,
        }
    }

    /// Counts one value, in nanoseconds.
    #[inline]
    pub fn push(&mut self, value: u64) {
        if value < PAGE_LEN as u64 {
            self.count(value as u32);
        } else if value < DENSE_LIMIT {
            self.recent.push(value as u32);
            if self.recent.len() >= RECENT {
                self.count_recent();
            }
        } else {
            self.push_slow(value);
        }
    }

    #[inline]
    fn count(&mut self, value: u32) {
        let page = self.pages[(value >> PAGE_BITS) as usize].get_or_insert_with(new_page);
        let counter = &mut page[value as usize % PAGE_LEN];
        *counter = counter.wrapping_add(1);
        if *counter == 0 {
            self.carries.push(value.into());
        }
    }

    #[inline(never)]
    fn count_recent(&mut self) {
        let mut recent = std::mem::take(&mut self.recent);
        recent.drain(..).for_each(|value| self.count(value));
        self.recent = recent;
    }

    /// Takes over everything another counter has counted.
    pub fn merge(&mut self, mut other: Self) {
        other.count_recent();
        for (index, page) in other.pages.into_iter().enumerate() {
            let Some(page) = page else { continue };
            match &mut self.pages[index] {
                Some(mine) => {
                    for (slot, (counter, more)) in mine.iter_mut().zip(page.iter()).enumerate() {
                        let (sum, wrapped) = counter.overflowing_add(*more);
                        *counter = sum;
                        if wrapped {
                            self.carries.push((index * PAGE_LEN + slot) as u64);
                        }
                    }
                }
                empty @ None => *empty = Some(page),
            }
        }
        self.carries.extend(other.carries);
        self.runs = merge_runs(std::mem::take(&mut self.runs), other.runs);
        for value in other.pending {
            self.push_slow(value);
        }
    }

    /// Bytes allocated at present.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let pages = self.pages.iter().flatten().count() * size_of::<[u32; PAGE_LEN]>();
        pages
            + size_of_val(&*self.pages)
            + self.recent.capacity() * size_of::<u32>()
            + (self.carries.capacity() + self.pending.capacity()) * size_of::<u64>()
            + self.runs.capacity() * size_of::<ValueRun>()
    }

    /// The distribution of everything counted; 16 bytes per distinct value.
    #[must_use]
    pub fn finish(mut self) -> Dist {
        self.compact();
        self.pending = Vec::new();
        let fast = self.fast_runs();
        let mut runs = self.runs;
        runs.splice(0..0, fast);
        let mut cum = 0;
        let steps = runs.into_iter().map(|run| {
            cum += run.count;
            CumulativeCount { value: run.value, cum }
        });
        Dist::from_steps(steps.collect())
    }

    /// The fast values as runs; drops the tables on the way.
    fn fast_runs(&mut self) -> Vec<ValueRun> {
        self.count_recent();
        self.carries.sort_unstable();
        let mut carries = self.carries.iter().copied().peekable();
        let mut runs = Vec::new();
        for (index, page) in self.pages.iter_mut().enumerate() {
            let Some(page) = page.take() else { continue };
            for (slot, counter) in page.iter().enumerate() {
                let value = (index * PAGE_LEN + slot) as u64;
                let mut count = u64::from(*counter);
                while carries.next_if_eq(&value).is_some() {
                    count += CARRY;
                }
                if count > 0 {
                    runs.push(ValueRun { value, count });
                }
            }
        }
        runs
    }

    fn push_slow(&mut self, value: u64) {
        self.pending.push(value);
        if self.pending.len() >= self.pending_limit {
            self.compact();
        }
    }

    /// Sorts the pending values into the runs, from the back and in place.
    fn compact(&mut self) {
        let Self { pending, runs, .. } = self;
        pending.sort_unstable();
        let mut from = runs.len();
        let mut to = from + count_new(pending, runs);
        runs.reserve_exact(to - from);
        runs.resize(to, ValueRun { value: 0, count: 0 });
        let mut left = pending.len();
        while left > 0 {
            let value = pending[left - 1];
            while from > 0 && runs[from - 1].value > value {
                from -= 1;
                to -= 1;
                runs[to] = runs[from];
            }
            let mut count = 0;
            while left > 0 && pending[left - 1] == value {
                left -= 1;
                count += 1;
            }
            if from > 0 && runs[from - 1].value == value {
                from -= 1;
                count += runs[from].count;
            }
            to -= 1;
            runs[to] = ValueRun { value, count };
        }
        pending.clear();
        self.pending_limit = self.pending_limit.max(runs.len() / 4);
    }
}

/// Out of the way: made in place, it would take a page of the caller's stack at every call.
#[cold]
#[inline(never)]
fn new_page() -> Page {
    Box::new([0; PAGE_LEN])
}

/// How many distinct values of `pending` are not among `runs`; both rising.
fn count_new(pending: &[u64], runs: &[ValueRun]) -> usize {
    let mut at = 0;
    let mut new = 0;
    for (i, &value) in pending.iter().enumerate() {
        if i > 0 && pending[i - 1] == value {
            continue;
        }
        while at < runs.len() && runs[at].value < value {
            at += 1;
        }
        if runs.get(at).is_none_or(|run| run.value != value) {
            new += 1;
        }
    }
    new
}

/// Both lists of rising runs as one.
fn merge_runs(a: Vec<ValueRun>, b: Vec<ValueRun>) -> Vec<ValueRun> {
    if a.is_empty() || b.is_empty() {
        return if a.is_empty() { b } else { a };
    }
    let mut merged: Vec<ValueRun> = Vec::with_capacity(a.len().max(b.len()));
    let (mut a, mut b) = (a.into_iter().peekable(), b.into_iter().peekable());
    loop {
        let next = match (a.peek(), b.peek()) {
            (Some(x), Some(y)) if y.value < x.value => b.next(),
            (Some(_), _) => a.next(),
            (None, _) => b.next(),
        };
        let Some(run) = next else { return merged };
        match merged.last_mut() {
            Some(last) if last.value == run.value => last.count += run.count,
            _ => merged.push(run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_counted_is_an_empty_distribution() {
        assert_eq!(ExactCounter::new().finish(), Dist::default());
    }

    #[test]
    fn both_sides_of_the_table_limit() {
        let values = [0, DENSE_LIMIT - 1, DENSE_LIMIT, DENSE_LIMIT, u64::MAX, 4095, 4096];
        let mut counter = ExactCounter::default();
        values.iter().for_each(|v| counter.push(*v));
        assert_eq!(counter.finish(), Dist::from_values(values.to_vec()));
    }

    #[test]
    fn a_wrapped_counter_loses_nothing() {
        let nearly = |value: u64| {
            let mut c = ExactCounter::new();
            c.push(value);
            let page = c.pages[(value >> PAGE_BITS) as usize].as_mut().expect("hit");
            page[value as usize % PAGE_LEN] = u32::MAX;
            c
        };
        let mut c = nearly(77);
        c.push(77);
        c.push(77);
        c.merge(nearly(77));
        c.push(5000);
        let wanted = [(77, u64::from(u32::MAX) * 2 + 2), (5000, 1)];
        assert_eq!(c.finish().iter().collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn memory_is_reported_and_bounded_for_fast_values() {
        let mut c = ExactCounter::new();
        let empty = c.memory_bytes();
        for value in (0..DENSE_LIMIT).step_by(64) {
            c.push(value);
        }
        c.count_recent();
        let full = c.memory_bytes();
        assert_eq!(full - empty, 16 << 20);
        for value in (0..DENSE_LIMIT).step_by(64) {
            c.push(value);
        }
        assert_eq!(c.memory_bytes(), full);
    }

    fn values() -> impl Strategy<Value = Vec<u64>> {
        let slow = DENSE_LIMIT..DENSE_LIMIT + 40;
        prop::collection::vec(prop_oneof![0u64..9000, slow, any::<u64>()], 0..200)
    }

    fn counted(values: &[u64], pending_limit: usize) -> ExactCounter {
        let mut c = ExactCounter::with_pending_limit(pending_limit);
        values.iter().for_each(|v| c.push(*v));
        c
    }

    proptest! {
        #[test]
        fn equals_sorting_all_values(v in values(), limit in 1usize..40) {
            prop_assert_eq!(counted(&v, limit).finish(), Dist::from_values(v));
        }

        #[test]
        fn merge_equals_counting_together(
            a in values(), b in values(), limit_a in 1usize..40, limit_b in 1usize..40,
        ) {
            let mut ab = counted(&a, limit_a);
            ab.merge(counted(&b, limit_b));
            let mut ba = counted(&b, limit_b);
            ba.merge(counted(&a, limit_a));
            let together = Dist::from_values([a, b].concat());
            prop_assert_eq!(ab.finish(), together.clone());
            prop_assert_eq!(ba.finish(), together);
        }
    }
}
