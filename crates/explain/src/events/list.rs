//! Lists of events of a kind, in which those of a time are found without a look at each.

use crate::events::event::Timed;

/// Events of one kind by their begin.
#[derive(Debug)]
pub struct EventList<T> {
    events: Vec<T>,
    /// The latest end in each block of events, then in each block of these, and so on up to a single one: what ended
    /// before a time is passed over by whole blocks. Empty where it is not known.
    latest: Vec<Vec<i64>>,
}

/// Events of a block, and blocks of a larger one: a power of two, by its exponent.
const BLOCK_BITS: usize = 4;

impl<T> Default for EventList<T> {
    fn default() -> EventList<T> {
        EventList { events: Vec::new(), latest: Vec::new() }
    }
}

impl<T: Timed> EventList<T> {
    /// Takes an event in; [`KeepsEvents::sort`] must follow before events are looked up.
    pub fn push(&mut self, event: T) {
        self.latest.clear();
        self.events.push(event);
    }

    /// All of them.
    pub fn all(&self) -> &[T] {
        &self.events
    }

    /// Those that overlap a window, both its ends included, by begin.
    pub fn within(&self, from: i64, to: i64) -> impl Iterator<Item = &T> {
        let mut at = 0;
        let next = move || {
            let place = self.reaching(at, from)?;
            at = place + 1;
            self.events.get(place)
        };
        std::iter::from_fn(next).take_while(move |e| e.start_ns() <= to)
    }

    /// The place of the first event, from a place on, that ends at this time or later.
    fn reaching(&self, mut at: usize, from: i64) -> Option<usize> {
        while let Some(event) = self.events.get(at) {
            // Blocks that begin here, the largest first.
            let begin = (at.trailing_zeros() as usize / BLOCK_BITS).min(self.latest.len());
            let over = |size: &usize| self.latest[size - 1][at >> (BLOCK_BITS * size)] < from;
            match (1..=begin).rev().find(over) {
                Some(size) => at += 1 << (BLOCK_BITS * size),
                None if event.end_ns() >= from => return Some(at),
                None => at += 1,
            }
        }
        None
    }

    fn find_latest(&mut self) {
        let latest = |ends: &[i64]| ends.iter().copied().max().unwrap_or(i64::MIN);
        let mut ends: Vec<i64> = self.events.iter().map(T::end_ns).collect();
        self.latest.clear();
        while ends.len() > 1 {
            ends = ends.chunks(1 << BLOCK_BITS).map(latest).collect();
            self.latest.push(ends.clone());
        }
    }
}

/// A list of any kind.
pub trait KeepsEvents {
    /// Puts it in order of time.
    fn sort(&mut self);
    /// Forgets what was over before a time, ns.
    fn forget(&mut self, before_ns: i64);
}

impl<T: Timed> KeepsEvents for EventList<T> {
    fn sort(&mut self) {
        self.events.sort_by_key(T::start_ns);
        self.find_latest();
    }

    fn forget(&mut self, before_ns: i64) {
        self.events.retain(|e| e.end_ns() >= before_ns);
        self.find_latest();
    }
}

impl<T: Timed> KeepsEvents for Vec<T> {
    fn sort(&mut self) {
        self.sort_by_key(T::start_ns);
    }

    fn forget(&mut self, before_ns: i64) {
        self.retain(|e| e.end_ns() >= before_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::event::Flush;

    /// Held against a look at each event.
    #[test]
    fn what_overlaps_a_window_is_found_in_order() {
        let event = |start_ns, end_ns| Flush { start_ns, end_ns, ..Flush::default() };
        let mut list = EventList::default();
        // Most are short; some reach over many others.
        (0..5_000).for_each(|i| {
            list.push(event(i * 10, i * 10 + if i % 997 == 0 { 20_000 } else { 15 }))
        });
        // Longer than all others together.
        list.push(event(7, 90_000_000_000));
        list.sort();
        let later = (80_000_000_000, 80_000_000_001);
        for (from, to) in [(0, 5), (12_345, 12_400), (29_000, 31_000), (49_999, 60_000), later] {
            let all = list.all().iter();
            let all: Vec<_> = all.filter(|e| e.start_ns <= to && e.end_ns >= from).collect();
            let found: Vec<_> = list.within(from, to).collect();
            assert_eq!(found, all, "{from} to {to}");
            assert!(!all.is_empty());
        }
        list.forget(30_000);
        let first = list.within(0, 100_000).next();
        assert!(first.is_some_and(|e| e.start_ns < 30_000 && e.end_ns >= 30_000));
    }
}
