//! The N largest of a stream.
//!
//! What it is: a bounded collector of the slowest I/Os with whatever the caller wants to know about
//! them. What it is not: a sample of the distribution. Which items are kept does not depend on the
//! order of arrival, so collectors filled by several workers merge to the same answer every time.
//! Called by the report for outliers.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// One kept item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked<T> {
    /// What it is ranked by, largest first.
    pub value: u64,
    /// Decides between equal values, smallest first: a stamp or a sequence number.
    pub tie: u64,
    /// The caller's payload; never compared.
    pub item: T,
}

/// Heap entry: the greatest one is the first to go.
#[derive(Clone, Debug)]
struct RankedEntry<T>(Ranked<T>);

impl<T> RankedEntry<T> {
    fn order(&self) -> (std::cmp::Reverse<u64>, u64) {
        (std::cmp::Reverse(self.0.value), self.0.tie)
    }
}

impl<T> PartialEq for RankedEntry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl<T> Eq for RankedEntry<T> {}

impl<T> PartialOrd for RankedEntry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for RankedEntry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

/// Keeps the `limit` items of largest value; memory for `limit` items, `O(log limit)` at worst and
/// one comparison for most items of a long stream.
#[derive(Clone, Debug)]
pub struct TopK<T> {
    limit: usize,
    heap: BinaryHeap<RankedEntry<T>>,
}

impl<T> TopK<T> {
    /// An empty collector of at most `limit` items.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, heap: BinaryHeap::new() }
    }

    /// How many items are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// The smallest kept value once the collector is full: a smaller one cannot enter.
    #[must_use]
    pub fn floor(&self) -> Option<u64> {
        if self.heap.len() < self.limit { None } else { self.heap.peek().map(|e| e.0.value) }
    }

    /// Offers an item. `tie` orders items of equal value, smaller first, and should differ between
    /// items; where value and tie are both equal, the item offered first stays.
    pub fn push(&mut self, value: u64, tie: u64, item: T) {
        if self.floor().is_some_and(|floor| value < floor) {
            return;
        }
        let entry = RankedEntry(Ranked { value, tie, item });
        if self.heap.len() < self.limit {
            self.heap.push(entry);
        } else if let Some(mut last) = self.heap.peek_mut()
            && entry < *last
        {
            *last = entry;
        }
    }

    /// Offers everything another collector kept.
    pub fn merge(&mut self, other: Self) {
        for ranked in other.into_sorted() {
            self.push(ranked.value, ranked.tie, ranked.item);
        }
    }

    /// The kept items, largest value first, equal values by rising tie.
    #[must_use]
    pub fn into_sorted(self) -> Vec<Ranked<T>> {
        self.heap.into_sorted_vec().into_iter().map(|e| e.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys<T>(top: TopK<T>) -> Vec<(u64, u64)> {
        top.into_sorted().iter().map(|r| (r.value, r.tie)).collect()
    }

    #[test]
    fn ties_go_to_the_smaller_key() {
        let mut top = TopK::new(2);
        for tie in [3, 1, 2] {
            top.push(7, tie, "x");
        }
        assert_eq!(keys(top), [(7, 1), (7, 2)]);
    }

    #[test]
    fn payloads_follow_their_value_and_first_stays() {
        let mut top = TopK::new(2);
        top.push(5, 0, "first");
        top.push(9, 0, "slow");
        top.push(5, 0, "second");
        let items: Vec<_> = top.into_sorted().iter().map(|r| r.item).collect();
        assert_eq!(items, ["slow", "first"]);
    }

    #[test]
    fn no_room_keeps_nothing() {
        let mut top = TopK::new(0);
        top.push(u64::MAX, 0, ());
        assert!(top.is_empty());
        assert_eq!(top.floor(), None);
    }

    proptest! {
        #[test]
        fn equals_sorting_everything(
            v in prop::collection::vec(0u64..30, 0..120), limit in 0usize..20, cut in 0usize..120,
        ) {
            let mut all: Vec<(u64, u64)> = v.iter().copied().zip(0..).collect();
            let collect = |items: &mut dyn Iterator<Item = (u64, u64)>| {
                let mut top = TopK::new(limit);
                for (value, tie) in items {
                    top.push(value, tie, ());
                }
                top
            };
            let forward = collect(&mut all.iter().copied());
            let backward = collect(&mut all.iter().rev().copied());
            let (a, b) = all.split_at(cut.min(all.len()));
            let mut merged = collect(&mut b.iter().copied());
            merged.merge(collect(&mut a.iter().copied()));
            all.sort_by_key(|&(value, tie)| (std::cmp::Reverse(value), tie));
            all.truncate(limit);
            prop_assert_eq!(&keys(forward), &all);
            prop_assert_eq!(&keys(backward), &all);
            prop_assert_eq!(&keys(merged), &all);
        }
    }
}
