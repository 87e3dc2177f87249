//! Lists of events of a kind, in which those of a time are found without a look at each.

use crate::events::event::Timed;

/// Events of one kind by their begin.
#[derive(Debug)]
pub struct EventList<T> {
    events: Vec<T>,
    /// The latest end in each block, so that most of a long list need not be looked at; empty where it is not known.
    block_ends: Vec<i64>,
}

/// Events of a block.
const BLOCK: usize = 256;
/// Events longer than this may be missed in a window that begins late in them.
const LONGEST_NS: i64 = 10_000_000_000;

impl<T> Default for EventList<T> {
    fn default() -> EventList<T> {
        EventList { events: Vec::new(), block_ends: Vec::new() }
    }
}

impl<T: Timed> EventList<T> {
    /// Takes an event in; [`KeepsEvents::sort`] must follow before events are looked up.
    pub fn push(&mut self, event: T) {
        self.block_ends.clear();
        self.events.push(event);
    }

    /// All of them.
    pub fn all(&self) -> &[T] {
        &self.events
    }

    /// Those that overlap a window, both its ends included, by begin; but see `LONGEST_NS`.
    pub fn within(&self, from: i64, to: i64) -> impl Iterator<Item = &T> {
        let first = self.events.partition_point(|e| e.start_ns() < from - LONGEST_NS) / BLOCK;
        let blocks = self.events.chunks(BLOCK).enumerate().skip(first);
        let begun =
            blocks.take_while(move |(_, block)| block.first().is_some_and(|e| e.start_ns() <= to));
        let ends = &self.block_ends;
        let reach = begun.filter(move |(at, _)| ends.get(*at).is_none_or(|end| *end >= from));
        let events = reach.flat_map(|(_, block)| block).take_while(move |e| e.start_ns() <= to);
        events.filter(move |e| e.end_ns() >= from)
    }

    fn find_block_ends(&mut self) {
        let latest = |block: &[T]| block.iter().map(T::end_ns).max().unwrap_or(i64::MIN);
        self.block_ends = self.events.chunks(BLOCK).map(latest).collect();
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
        self.find_block_ends();
    }

    fn forget(&mut self, before_ns: i64) {
        self.events.retain(|e| e.end_ns() >= before_ns);
        self.find_block_ends();
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
        list.sort();
        for (from, to) in [(0, 5), (12_345, 12_400), (29_000, 31_000), (49_999, 60_000)] {
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
