//! Keeps the N largest of a stream, in bounded memory: the slowest I/Os with whatever the caller wants to
//! know about them. Where no two items have the same value and tie, what is kept does not depend on the order
//! of arrival, so collectors filled by several workers merge to the same answer every time.

use std::cmp::Reverse;

/// One kept item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked<T> {
    /// What it is ranked by, largest first.
    pub value: u64,
    /// Decides between equal values, smallest first: a stamp or a sequence number.
    pub tie: u64,
    /// The caller's payload; never compared.
    pub item: T,
    /// How many items were taken in before it.
    nth: u64,
}

impl<T> Ranked<T> {
    fn key(&self) -> (Reverse<u64>, u64, u64) {
        (Reverse(self.value), self.tie, self.nth)
    }
}

/// Keeps the `limit` items of largest value. It holds up to twice as many: then the smaller half is
/// dropped. One comparison for most items of a long stream.
#[derive(Clone, Debug)]
pub struct TopK<T> {
    limit: usize,
    kept: Vec<Ranked<T>>,
    /// The last of those that stayed when items were last dropped.
    last: Option<(Reverse<u64>, u64)>,
    taken: u64,
}

impl<T> TopK<T> {
    /// An empty collector of at most `limit` items.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self { limit, kept: Vec::new(), last: None, taken: 0 }
    }

    /// A smaller value than this cannot enter; none before items were dropped for the first time.
    #[must_use]
    pub fn floor(&self) -> Option<u64> {
        self.last.map(|(Reverse(value), _)| value)
    }

    /// Offers an item. `tie` orders items of equal value, smaller first, and should differ between
    /// items; where value and tie are both equal, the item offered first stays.
    #[inline]
    pub fn push(&mut self, value: u64, tie: u64, item: T) {
        if self.limit == 0 || self.last.is_some_and(|last| (Reverse(value), tie) >= last) {
            return;
        }
        self.kept.push(Ranked { value, tie, item, nth: self.taken });
        self.taken += 1;
        if self.kept.len() >= 2 * self.limit {
            self.cut();
        }
    }

    /// Drops what does not stay.
    fn cut(&mut self) {
        if self.kept.len() > self.limit {
            // Told apart, not sorted: that happens once, at the end.
            self.kept.select_nth_unstable_by_key(self.limit, Ranked::key);
            self.kept.truncate(self.limit);
        }
        if self.kept.len() == self.limit {
            let last = self.kept.iter().map(Ranked::key).max();
            self.last = last.map(|(value, tie, _)| (value, tie));
        }
    }

    /// Offers everything another collector kept.
    pub fn merge(&mut self, other: Self) {
        for ranked in other.into_sorted() {
            self.push(ranked.value, ranked.tie, ranked.item);
        }
    }

    /// The kept items in no order.
    #[must_use]
    pub fn into_kept(mut self) -> Vec<Ranked<T>> {
        self.cut();
        self.kept
    }

    /// The kept items, largest value first, equal values by rising tie.
    #[must_use]
    pub fn into_sorted(self) -> Vec<Ranked<T>> {
        let mut kept = self.into_kept();
        kept.sort_unstable_by_key(Ranked::key);
        kept
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
        assert_eq!(top.floor(), None);
        assert!(top.into_sorted().is_empty());
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
