//! Lists of events of a kind, in which those of a time, or of one thread or I/O in a time, are found without a look at
//! each.

use std::collections::BTreeMap;

use crate::events::event::{Timed, Whose};

/// Events of one kind by their begin.
#[derive(Debug)]
pub struct EventList<T> {
    events: Vec<T>,
    /// The latest end in each block of events, then in each block of these, and so on up to a single one: what ended
    /// before a time is passed over by whole blocks. Empty where it is not known.
    latest: Vec<Vec<i64>>,
    /// Where those of each thread or I/O are.
    of: BTreeMap<Whose, Vec<Place>>,
}

/// Where an event is in its list.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: usize,
    /// The latest end of this one and of those of the same thread or I/O before it.
    latest_ns: i64,
}

/// Events of a block, and blocks of a larger one: a power of two, by its exponent.
const BLOCK_BITS: usize = 4;

impl<T> Default for EventList<T> {
    fn default() -> EventList<T> {
        EventList { events: Vec::new(), latest: Vec::new(), of: BTreeMap::new() }
    }
}

impl<T: Timed> EventList<T> {
    /// Takes an event in; [`KeepsEvents::sort`] must follow before events are looked up.
    pub fn push(&mut self, event: T) {
        self.latest.clear();
        note_place(&mut self.of, self.events.len(), &event);
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

    /// Those of them that are of one thread or I/O, by begin.
    pub fn of(&self, whose: Whose, from: i64, to: i64) -> impl Iterator<Item = &T> {
        let places = self.of.get(&whose).map_or(&[][..], Vec::as_slice);
        let first = places.partition_point(|place| place.latest_ns < from);
        let events = places[first..].iter().filter_map(|place| self.events.get(place.at));
        events.take_while(move |e| e.start_ns() <= to).filter(move |e| e.end_ns() >= from)
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

    /// Finds what look-ups need, of events by begin.
    fn find_places(&mut self) {
        let latest = |ends: &[i64]| ends.iter().copied().max().unwrap_or(i64::MIN);
        let mut ends: Vec<i64> = self.events.iter().map(T::end_ns).collect();
        self.latest.clear();
        while ends.len() > 1 {
            ends = ends.chunks(1 << BLOCK_BITS).map(latest).collect();
            self.latest.push(ends.clone());
        }
        self.of.clear();
        let each = self.events.iter().enumerate();
        each.for_each(|(at, event)| note_place(&mut self.of, at, event));
    }
}

fn note_place(of: &mut BTreeMap<Whose, Vec<Place>>, at: usize, event: &impl Timed) {
    let Some(whose) = event.whose() else { return };
    let places = of.entry(whose).or_default();
    let before = places.last().map_or(i64::MIN, |place| place.latest_ns);
    places.push(Place { at, latest_ns: before.max(event.end_ns()) });
}

/// Events that overlap a time, of events by time that do not overlap each other.
pub fn overlapping<T: Timed>(events: &[T], from: i64, to: i64) -> impl Iterator<Item = &T> {
    let first = events.partition_point(|e| e.end_ns() <= from);
    events[first..].iter().take_while(move |e| e.start_ns() < to)
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
        self.find_places();
    }

    fn forget(&mut self, before_ns: i64) {
        self.events.retain(|e| e.end_ns() >= before_ns);
        self.find_places();
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
    use proptest::prelude::*;

    use super::*;
    use crate::events::event::{Flush, HeldPart};

    proptest! {
        /// Held against a look at each event, of events that overlap, before and after some are forgotten.
        #[test]
        fn those_of_an_io_in_a_window_are_found_in_order(
            times in proptest::collection::vec((0i64..1000, 0i64..300, 0u64..5), 0..60),
            windows in proptest::collection::vec((-50i64..1100, 0i64..200, 0u64..6), 1..20),
            before in 0i64..600,
        ) {
            let mut list = EventList::default();
            for (start_ns, length, of) in times {
                let (end_ns, token) = (start_ns + length, of.checked_sub(1));
                list.push(HeldPart { start_ns, end_ns, token, ..HeldPart::default() });
            }
            list.sort();
            for forgets in [false, true] {
                if forgets {
                    list.forget(before);
                }
                for (from, length, of) in &windows {
                    let (to, token) = (from + length, of.checked_sub(1));
                    let whose = token.map_or(Whose::Nobody, Whose::Io);
                    let own = list.all().iter().filter(|e| e.token == token);
                    let meets = |e: &&HeldPart| e.start_ns <= to && e.end_ns >= *from;
                    let all: Vec<&HeldPart> = own.filter(meets).collect();
                    prop_assert_eq!(list.of(whose, *from, to).collect::<Vec<_>>(), all);
                }
            }
        }
    }

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
