//! Which keys exist: the one feedback from completions to generators. Atomics shared by all workers of one
//! target hold the next key number to insert, how far inserts are acknowledged without a gap, and the
//! oldest key not yet deleted; memory is 2 MiB whatever the data set. The keyed generator asks, the worker
//! acknowledges.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Inserts that may be in flight or complete out of order before the oldest one is passed over.
const WINDOW: u64 = 1 << 24;

/// The keys of one target.
#[derive(Debug)]
pub struct KeySpace {
    /// First key number of the data set.
    start: u64,
    /// Next key number to insert.
    next: AtomicU64,
    /// One past the highest key number below which every insert is acknowledged.
    acked: AtomicU64,
    /// Oldest key number that no delete has taken; in lanes, one past the highest that one has.
    first: AtomicU64,
    /// One bit an acknowledged insert above `acked`, by key number modulo the window.
    bits: Box<[AtomicU64]>,
    /// Held while `acked` moves.
    moving: AtomicBool,
    /// Inserts still unacknowledged when the window passed over them.
    passed: AtomicU64,
    /// A delete found no key left.
    used_up: AtomicBool,
    /// One thread alone inserts and acknowledges: it needs no locked instructions.
    sole: bool,
    /// Where each worker inserts and deletes numbers of its own.
    lanes: Option<Box<KeyLanes>>,
}

/// Key numbers dealt out in turn: number `n` is of lane `n % lanes`.
#[derive(Debug)]
struct KeyLanes {
    /// Next number to insert, of each lane.
    next: Box<[AtomicU64]>,
    /// Oldest number that no delete has taken, of each lane.
    first: Box<[AtomicU64]>,
    /// Up to where the longest lane came before the run.
    full: u64,
}

impl KeyLanes {
    fn of(&self, key: u64) -> usize {
        (key % self.next.len() as u64) as usize
    }
    fn count(&self) -> u64 {
        self.next.len() as u64
    }
}

impl KeySpace {
    /// Records `start .. start + count` exist.
    pub fn new(start: u64, count: u64) -> KeySpace {
        let end = start + count;
        KeySpace {
            start,
            next: AtomicU64::new(end),
            acked: AtomicU64::new(end),
            first: AtomicU64::new(start),
            bits: (0..WINDOW / 64).map(|_| AtomicU64::new(0)).collect(),
            moving: AtomicBool::new(false),
            passed: AtomicU64::new(0),
            used_up: AtomicBool::new(false),
            sole: false,
            lanes: None,
        }
    }

    /// This key space with `lanes` for workers; `next` says where a lane goes on that former loads have left
    /// longer than others.
    #[must_use]
    pub fn in_lanes(mut self, lanes: u32, next: impl Fn(u32) -> Option<u64>) -> KeySpace {
        if lanes < 2 {
            return self;
        }
        let (start, end, of) = (self.start, self.next.load(Ordering::Relaxed), u64::from(lanes));
        let from = |at: u64, lane: u32| at + (u64::from(lane) + of - at % of) % of;
        let ends = (0..lanes).map(|lane| next(lane).unwrap_or(0).max(from(end, lane)));
        let ends: Vec<u64> = ends.collect();
        self.lanes = Some(Box::new(KeyLanes {
            full: ends.iter().map(|end| end / of).max().unwrap_or(0) * of,
            next: ends.into_iter().map(AtomicU64::new).collect(),
            first: (0..lanes).map(|lane| AtomicU64::new(from(start, lane))).collect(),
        }));
        self
    }

    /// The lane of the worker with this index in its workload; `None` where there are no lanes.
    pub fn lane(&self, index: u32) -> Option<u32> {
        self.lanes.as_ref().map(|lanes| index % lanes.next.len() as u32)
    }

    /// Whether a lane is as long as the longest one was before the run.
    pub fn lane_full(&self, lane: u32) -> bool {
        let lanes = self.lanes.as_ref();
        lanes.is_none_or(|l| l.next[lane as usize].load(Ordering::Relaxed) >= l.full)
    }

    /// This key space for a load with one worker: only one thread may insert, acknowledge and delete.
    #[must_use]
    pub fn for_one(mut self) -> KeySpace {
        self.sole = true;
        self
    }

    /// First key number of the data set.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Key numbers to draw from: the oldest, and one past the last that is acknowledged without a gap. Empty when all
    /// are deleted. In lanes, older numbers may exist as well.
    #[inline]
    pub fn live(&self) -> (u64, u64) {
        let first = self.first.load(Ordering::Relaxed);
        (first, self.acked.load(Ordering::Acquire))
    }

    /// The number of the next key to insert.
    #[inline]
    pub fn insert(&self) -> u64 {
        self.insert_many(1)
    }

    /// The first of the next `count` keys to insert, which follow each other.
    #[inline]
    pub fn insert_many(&self, count: u64) -> u64 {
        let key = if self.sole {
            let key = self.next.load(Ordering::Relaxed);
            self.next.store(key + count, Ordering::Relaxed);
            key
        } else {
            self.next.fetch_add(count, Ordering::Relaxed)
        };
        let last = key + count - 1;
        if last.wrapping_sub(self.acked.load(Ordering::Relaxed)) >= WINDOW {
            self.pass_over(last);
        }
        key
    }

    /// The number of the next key to insert in a lane.
    #[inline]
    pub fn insert_in(&self, lane: Option<u32>) -> u64 {
        let Some((lane, lanes)) = lane.zip(self.lanes.as_ref()) else { return self.insert() };
        let key = lanes.next[lane as usize].fetch_add(lanes.count(), Ordering::Relaxed);
        if key.wrapping_sub(self.acked.load(Ordering::Relaxed)) >= WINDOW {
            self.pass_over(key);
        }
        key
    }

    /// The number of the next key to delete in a lane: its oldest one, else that of another lane; when none is left,
    /// once more the one that was deleted last. The next number may be on its way in.
    #[inline]
    pub fn delete_in(&self, lane: Option<u32>) -> u64 {
        let Some((lane, lanes)) = lane.zip(self.lanes.as_ref()) else {
            return self.delete().unwrap_or_else(|| self.last_deleted());
        };
        let (acked, of) = (self.acked.load(Ordering::Acquire), lanes.count());
        let own = lane as usize;
        let taken = (own..own + lanes.first.len()).find_map(|at| {
            let first = &lanes.first[at % lanes.first.len()];
            let step = |first| (first < acked).then_some(first + of);
            first.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step).ok()
        });
        if let Some(key) = taken {
            self.first.fetch_max(key + 1, Ordering::Relaxed);
            return key;
        }
        self.used_up.store(true, Ordering::Relaxed);
        let next = lanes.first[own].load(Ordering::Relaxed);
        if next >= self.start + of { next - of } else { next }
    }

    /// The number of the next key to delete: the oldest one. `None` when none is left.
    #[inline]
    pub fn delete(&self) -> Option<u64> {
        let acked = self.acked.load(Ordering::Acquire);
        let taken = self.first.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |first| {
            (first < acked).then_some(first + 1)
        });
        if taken.is_err() {
            self.used_up.store(true, Ordering::Relaxed);
        }
        taken.ok()
    }

    /// Whether a delete ever found no key left. From then on some key is deleted twice.
    pub fn used_up(&self) -> bool {
        self.used_up.load(Ordering::Relaxed)
    }

    /// An insert is complete, whether it succeeded or not: as in YCSB a failed one counts, and
    /// reads of it are failures as well.
    #[inline]
    pub fn acknowledge(&self, key: u64) {
        let acked = self.acked.load(Ordering::Relaxed);
        if key < acked {
            return; // passed over before: its bit belongs to a newer key by now
        }
        if self.sole && key == acked {
            let mut at = key + 1;
            while self.take(at) {
                at += 1;
            }
            self.acked.store(at, Ordering::Release);
            return;
        }
        let (word, bit) = locate(key);
        self.bits[word].fetch_or(bit, Ordering::SeqCst);
        self.advance();
    }

    /// The key number that a delete has taken last; the first one while there was none.
    pub fn last_deleted(&self) -> u64 {
        let first = self.first.load(Ordering::Relaxed);
        first.saturating_sub(1).max(self.start)
    }

    /// Whether a delete has taken this key number, in this run: who looks for it may find nothing.
    #[inline]
    pub fn deleted(&self, key: u64) -> bool {
        if let Some(lanes) = &self.lanes {
            let first = &lanes.first[lanes.of(key)];
            return (self.start..first.load(Ordering::Relaxed)).contains(&key);
        }
        (self.start..self.first.load(Ordering::Relaxed)).contains(&key)
    }

    /// Inserts passed over: not acknowledged when the insert of a number 2^24 higher began.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Moves `acked` over every acknowledged insert in a row. One thread at a time; the others
    /// need not wait, since the one that moves looks again after it let go.
    fn advance(&self) {
        loop {
            // Sequentially consistent: a bit set by one that found `moving` is seen after it is let go.
            if self.moving.swap(true, Ordering::SeqCst) {
                return;
            }
            let mut at = self.acked.load(Ordering::Relaxed);
            while self.take(at) {
                at += 1;
            }
            self.acked.store(at, Ordering::Release);
            self.moving.swap(false, Ordering::SeqCst);
            let (word, bit) = locate(at);
            if self.bits[word].load(Ordering::SeqCst) & bit == 0 {
                return;
            }
        }
    }

    /// Clears the bit of `key`; whether it was set.
    fn take(&self, key: u64) -> bool {
        let (word, bit) = locate(key);
        self.bits[word].load(Ordering::Acquire) & bit != 0
            && self.bits[word].fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// The window is full: the oldest unacknowledged insert is taken as done, and counted.
    #[cold]
    fn pass_over(&self, key: u64) {
        while key.wrapping_sub(self.acked.load(Ordering::Relaxed)) >= WINDOW {
            let oldest = self.acked.load(Ordering::Relaxed);
            self.passed.fetch_add(1, Ordering::Relaxed);
            self.acknowledge(oldest);
        }
    }
}

fn locate(key: u64) -> (usize, u64) {
    let at = key % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn deletes_take_the_oldest_until_none_is_left() {
        let space = KeySpace::new(10, 2);
        assert_eq!(space.live(), (10, 12));
        assert_eq!(space.delete(), Some(10));
        assert_eq!(space.delete(), Some(11));
        assert_eq!(space.delete(), None);
        let key = space.insert();
        assert_eq!(key, 12);
        assert_eq!(space.delete(), None, "not there before it is acknowledged");
        assert!(space.deleted(10) && space.deleted(11));
        assert!(!space.deleted(9) && !space.deleted(12));
        space.acknowledge(key);
        assert_eq!(space.delete(), Some(12));
    }

    #[test]
    fn a_stuck_insert_is_passed_over_and_counted() {
        let space = KeySpace::new(0, 0);
        for _ in 0..=WINDOW {
            let key = space.insert();
            if key != 0 {
                space.acknowledge(key);
            }
        }
        assert_eq!(space.passed(), 1);
        assert_eq!(space.live(), (0, WINDOW + 1));
        space.acknowledge(0);
        let key = space.insert();
        assert_eq!(key, WINDOW + 1);
        assert_eq!(space.live().1, WINDOW + 1, "a late acknowledgement is no other key's");
    }

    #[test]
    fn all_threads_together_acknowledge_everything() {
        let space = KeySpace::new(5, 0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| (0..20_000).for_each(|_| space.acknowledge(space.insert())));
            }
        });
        assert_eq!(space.live(), (5, 80_005));
        assert_eq!(space.passed(), 0);
    }

    #[test]
    fn a_lane_inserts_and_deletes_numbers_of_its_own() {
        // The first of three lanes is two numbers longer.
        let space = KeySpace::new(0, 4).in_lanes(3, |lane| (lane == 0).then_some(12));
        assert_eq!(space.lane(4), Some(1));
        let lane = |n| Some(n);
        assert!(space.lane_full(0) && !space.lane_full(1) && !space.lane_full(2));
        assert_eq!((space.insert_in(lane(0)), space.insert_in(lane(1))), (12, 4));
        assert_eq!((space.insert_in(lane(2)), space.insert_in(lane(2))), (5, 8));
        assert_eq!(space.delete_in(lane(1)), 1);
        assert!(space.deleted(1) && !space.deleted(0) && !space.deleted(4));
        assert_eq!(space.live().0, 2, "what is drawn is not deleted");
        assert_eq!(space.delete_in(lane(1)), 2, "its own are used up: of the next lane");
        assert_eq!([(); 3].map(|()| space.delete_in(lane(1))), [0, 3, 1], "and one again");
        assert!(space.used_up());
        space.acknowledge(4);
        space.acknowledge(5);
        assert_eq!(space.live().1, 6);
        assert_eq!(space.delete_in(lane(1)), 4);
    }

    #[test]
    fn lanes_from_any_number_on_are_apart() {
        for start in 0..5 {
            let space = KeySpace::new(start, 7).in_lanes(3, |_| None);
            let mut made: Vec<u64> = (0..3)
                .flat_map(|lane| (0..4).map(|_| space.insert_in(Some(lane))).collect::<Vec<_>>())
                .collect();
            made.sort_unstable();
            assert_eq!(made, (start + 7..start + 19).collect::<Vec<_>>());
        }
    }

    proptest! {
        #[test]
        fn acknowledged_is_the_longest_run(order in Just((0u64..200).collect::<Vec<_>>()).prop_shuffle(), upto in 0usize..200) {
            let space = KeySpace::new(0, 0);
            (0..200).for_each(|_| { space.insert(); });
            for key in &order[..upto] {
                space.acknowledge(*key);
            }
            let run = (0..200).take_while(|k| order[..upto].contains(k)).count();
            prop_assert_eq!(space.live().1, run as u64);
            let alone = KeySpace::new(0, 0).for_one();
            (0..200).for_each(|_| { alone.insert(); });
            order[..upto].iter().for_each(|key| alone.acknowledge(*key));
            prop_assert_eq!(alone.live(), space.live());
        }
    }
}
