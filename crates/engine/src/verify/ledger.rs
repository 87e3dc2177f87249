//! What was written where: 8 bytes per block, shared by all workers, without locks.
//!
//! For each block: the newest generation begun, how far back a read may still see, and how many
//! writes are in flight. Writes that overlap in time may land in any order, so that after them
//! each of their generations is right; a write alone makes its generation the only right one.
//! Not the blocks' content, and no history. Callers: `verify::Checker`, the pass.

use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::plan::LEDGER_ENTRY;
use taillight_core::{Error, Result};
use taillight_rundir::ledger::{LedgerRow, LedgerState};

/// Bits of a generation.
pub const GENERATION_BITS: u32 = 28;
const GENERATIONS: u64 = 1 << GENERATION_BITS;
/// A span of this many generations or more: any older one.
const ANY: u64 = (1 << 10) - 1;
/// Most writes in flight on one block, so most in flight altogether.
pub const MOST_IN_FLIGHT: u64 = (1 << 12) - 1;
/// Bytes per block.
pub const ENTRY: u64 = LEDGER_ENTRY;

/// What is known of a block at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LedgerEntry {
    /// Newest generation begun, modulo 2^28.
    pub last: u64,
    /// Generations before `last` that a read may see; `ANY` = any older.
    span: u64,
    /// Generations before `last` begun since no write was in flight.
    episode: u64,
    in_flight: u64,
    /// A write failed or the block was trimmed: it may hold anything.
    pub uncertain: bool,
    /// A write of this run was acknowledged: what was there before the run is gone.
    pub settled: bool,
    /// A read has seen `last` since it was acknowledged.
    pub seen: bool,
}

impl LedgerEntry {
    fn unpack(word: u64) -> LedgerEntry {
        LedgerEntry {
            last: word & (GENERATIONS - 1),
            span: word >> 28 & ANY,
            episode: word >> 38 & ANY,
            in_flight: word >> 48 & MOST_IN_FLIGHT,
            uncertain: word >> 60 & 1 == 1,
            settled: word >> 61 & 1 == 1,
            seen: word >> 62 & 1 == 1,
        }
    }

    fn pack(self) -> u64 {
        self.last
            | self.span << 28
            | self.episode << 38
            | self.in_flight << 48
            | u64::from(self.uncertain) << 60
            | u64::from(self.settled) << 61
            | u64::from(self.seen) << 62
    }

    fn begin(mut self) -> LedgerEntry {
        self.last = (self.last + 1) % GENERATIONS;
        self.span = (self.span + 1).min(ANY);
        self.episode = match self.in_flight {
            0 => 0,
            _ => (self.episode + 1).min(ANY),
        };
        self.in_flight = (self.in_flight + 1).min(MOST_IN_FLIGHT);
        self.seen = false;
        self
    }

    fn end(mut self, ok: bool) -> LedgerEntry {
        self.in_flight = self.in_flight.saturating_sub(1);
        if !ok {
            self.uncertain = true;
        }
        if self.in_flight > 0 {
            return self;
        }
        // All that were in flight together are done: nothing older is left.
        self.span = self.episode;
        self.settled = true;
        if ok && self.episode == 0 {
            self.uncertain = false;
        }
        self
    }

    /// Whether this run ever began a write here.
    pub fn touched(&self) -> bool {
        self.settled || self.in_flight > 0 || self.last > 0
    }

    /// Oldest generation a read may see, when it is known.
    pub fn oldest(&self) -> Option<u64> {
        (self.settled && self.span < ANY)
            .then(|| (self.last + GENERATIONS - self.span) % GENERATIONS)
    }

    /// As it is kept in a file once nothing is in flight any more; `None` where nothing was written.
    pub fn to_row(&self, address: u64) -> Option<LedgerRow> {
        let sure = self.settled && !self.uncertain && self.in_flight == 0;
        self.touched().then(|| LedgerRow {
            address,
            newest: self.last,
            oldest: self.oldest().filter(|_| sure),
            state: match (sure, self.seen) {
                (false, _) => LedgerState::Unsure,
                (true, false) => LedgerState::Written,
                (true, true) => LedgerState::Seen,
            },
        })
    }

    /// The entry that was kept.
    pub fn from_row(row: &LedgerRow) -> LedgerEntry {
        let last = row.newest % GENERATIONS;
        let back = |oldest: u64| (last + GENERATIONS - oldest % GENERATIONS) % GENERATIONS;
        LedgerEntry {
            last,
            span: row.oldest.map_or(ANY, |oldest| back(oldest).min(ANY)),
            uncertain: row.state == LedgerState::Unsure,
            settled: true,
            seen: row.state == LedgerState::Seen,
            ..LedgerEntry::default()
        }
    }

    /// Whether a write is in flight, or writes overlapped before the last came to rest: the block may be a mixture
    /// unless the target keeps writes whole.
    pub fn mixed(&self) -> bool {
        self.in_flight > 0 || self.span > 0
    }
}

/// Whether a read between the moments `before` and `after` may see a generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GenerationAge {
    Right,
    /// It is this many generations too old.
    Old(u64),
    /// It was never begun.
    Future,
}

/// How old `generation` is for a read that began at `before` and ended at `after`.
pub fn age(before: &LedgerEntry, after: &LedgerEntry, generation: u64) -> GenerationAge {
    if generation >= GENERATIONS {
        return GenerationAge::Future;
    }
    let back = |from: u64| (from + GENERATIONS - generation) % GENERATIONS;
    let behind = back(after.last);
    if behind >= GENERATIONS / 2 {
        return GenerationAge::Future;
    }
    match before.oldest() {
        None => GenerationAge::Right,
        Some(oldest) => match back(oldest) {
            // At or after the oldest.
            0 => GenerationAge::Right,
            d if d >= GENERATIONS / 2 => GenerationAge::Right,
            d => GenerationAge::Old(d),
        },
    }
}

/// The ledger.
#[derive(Debug)]
pub struct WriteLedger {
    entries: Box<[AtomicU64]>,
}

impl WriteLedger {
    /// A ledger for `blocks` blocks, none of them written. Errors: `Usage` when it needs more than
    /// `budget` bytes.
    pub fn new(blocks: u64, budget: u64) -> Result<WriteLedger> {
        let needs = blocks.saturating_mul(ENTRY);
        if needs > budget {
            return Err(Error::usage("verification needs more memory than it may take")
                .with("blocks", blocks)
                .with("needs_bytes", needs)
                .with("budget_bytes", budget)
                .hint("use larger blocks, or verify a smaller extent (access.length)"));
        }
        // All of it is touched now, so that no page is faulted in while measuring.
        let entries = (0..blocks).map(|_| AtomicU64::new(0)).collect();
        Ok(WriteLedger { entries })
    }

    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Sets a block to what is known of it. Before anything is in flight.
    pub fn restore(&self, block: u64, entry: LedgerEntry) {
        if let Some(held) = self.entries.get(block as usize) {
            held.store(entry.pack(), Ordering::Release);
        }
    }

    #[inline]
    pub fn get(&self, block: u64) -> LedgerEntry {
        match self.entries.get(block as usize) {
            Some(entry) => LedgerEntry::unpack(entry.load(Ordering::Acquire)),
            None => LedgerEntry::default(),
        }
    }

    #[inline]
    fn change(&self, block: u64, change: impl Fn(LedgerEntry) -> LedgerEntry) -> LedgerEntry {
        let Some(entry) = self.entries.get(block as usize) else {
            return LedgerEntry::default();
        };
        let mut old = entry.load(Ordering::Relaxed);
        loop {
            let new = change(LedgerEntry::unpack(old));
            // Release: who sees a write acknowledged here may expect its data.
            let swap =
                entry.compare_exchange_weak(old, new.pack(), Ordering::AcqRel, Ordering::Relaxed);
            match swap {
                Ok(_) => return new,
                Err(now) => old = now,
            }
        }
    }

    /// A write begins; returns its generation. Before the data is handed over.
    #[inline]
    pub fn begin(&self, block: u64) -> u64 {
        self.change(block, LedgerEntry::begin).last
    }

    /// A trim begins: from now on the block may hold anything.
    pub fn begin_trim(&self, block: u64) {
        self.change(block, |e| LedgerEntry { uncertain: true, ..e.begin() });
    }

    /// A write has ended. `ok` only if all of it is known to be there; a trim never is.
    #[inline]
    pub fn end(&self, block: u64, ok: bool) {
        self.change(block, |e| e.end(ok));
    }

    /// A write begun was never started. Alone, it is as if it had never been; otherwise the block
    /// becomes uncertain.
    pub fn cancel(&self, block: u64) {
        self.change(block, |mut e| {
            if e.in_flight == 1 && e.episode == 0 && (1..ANY).contains(&e.span) {
                e.last = (e.last + GENERATIONS - 1) % GENERATIONS;
                e.span -= 1;
                e.in_flight = 0;
                return e;
            }
            e.end(false)
        });
    }

    /// A read saw generation `last`. While that is the newest, an older one that is read later is stale, not lost.
    #[inline]
    pub fn mark_seen(&self, block: u64, last: u64) {
        self.change(block, |mut e| {
            e.seen |= e.last == last && e.in_flight == 0;
            e
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;

    fn ledger() -> WriteLedger {
        WriteLedger::new(4, 1 << 20).unwrap()
    }

    #[test]
    fn a_write_alone_leaves_one_right_generation() {
        let ledger = ledger();
        for expected in 1..5 {
            let before = ledger.get(1);
            assert_eq!(ledger.begin(1), expected);
            let during = ledger.get(1);
            assert_eq!(age(&before, &during, expected), GenerationAge::Right);
            if expected > 1 {
                // Old and new are both right while it is in flight.
                assert_eq!(age(&during, &during, expected - 1), GenerationAge::Right);
            }
            ledger.end(1, true);
            let now = ledger.get(1);
            assert_eq!(age(&now, &now, expected), GenerationAge::Right);
            assert_eq!(age(&now, &now, expected + 1), GenerationAge::Future);
            if expected > 1 {
                assert_eq!(age(&now, &now, expected - 1), GenerationAge::Old(1));
            }
        }
        assert!(!ledger.get(0).touched());
    }

    #[test]
    fn overlapping_writes_are_all_right_until_one_is_alone() {
        let ledger = ledger();
        let first = ledger.begin(0);
        ledger.end(0, true);
        let (a, b) = (ledger.begin(0), ledger.begin(0));
        ledger.end(0, true);
        let half = ledger.get(0);
        assert_eq!(age(&half, &half, first), GenerationAge::Right);
        ledger.end(0, true);
        let now = ledger.get(0);
        assert_eq!(age(&now, &now, first), GenerationAge::Old(1));
        assert_eq!(age(&now, &now, a), GenerationAge::Right);
        assert_eq!(age(&now, &now, b), GenerationAge::Right);
        assert!(now.mixed());
        let alone = ledger.begin(0);
        ledger.end(0, true);
        let now = ledger.get(0);
        assert_eq!(age(&now, &now, b), GenerationAge::Old(1));
        assert_eq!(age(&now, &now, alone), GenerationAge::Right);
        assert!(!now.mixed());
    }

    #[test]
    fn a_failed_write_makes_a_block_uncertain_until_the_next_alone() {
        let ledger = ledger();
        ledger.begin(0);
        ledger.end(0, false);
        assert!(ledger.get(0).uncertain);
        ledger.begin(0);
        ledger.begin(0);
        ledger.end(0, true);
        ledger.end(0, true);
        assert!(ledger.get(0).uncertain);
        ledger.begin(0);
        ledger.end(0, true);
        assert!(!ledger.get(0).uncertain);
    }

    #[test]
    fn a_cancelled_write_leaves_no_trace_when_alone() {
        let ledger = ledger();
        ledger.begin(0);
        ledger.cancel(0);
        assert!(!ledger.get(0).touched());
        ledger.begin(0);
        ledger.end(0, true);
        let settled = ledger.get(0);
        ledger.begin(0);
        ledger.cancel(0);
        assert_eq!(ledger.get(0), settled);
        ledger.begin(0);
        ledger.begin(0);
        ledger.cancel(0);
        ledger.end(0, true);
        assert!(ledger.get(0).uncertain);
    }

    #[test]
    fn generations_wrap_around() {
        let entry = LedgerEntry { last: GENERATIONS - 1, settled: true, ..LedgerEntry::default() };
        let now = entry.begin().end(true);
        assert_eq!(now.last, 0);
        assert!(now.touched());
        assert_eq!(age(&now, &now, 0), GenerationAge::Right);
        assert_eq!(age(&now, &now, GENERATIONS - 1), GenerationAge::Old(1));
        assert_eq!(age(&now, &now, 1), GenerationAge::Future);
        assert_eq!(age(&entry, &now, GENERATIONS - 1), GenerationAge::Right);
    }

    #[test]
    fn too_much_memory_is_refused() {
        let error = WriteLedger::new(1 << 30, 1 << 30).unwrap_err();
        assert!(error.to_string().contains("memory"), "{error}");
    }

    #[test]
    fn what_is_kept_comes_back() {
        let ledger = ledger();
        assert_eq!(ledger.get(0).to_row(0), None);
        ledger.begin(0);
        assert_eq!(ledger.get(0).to_row(0).unwrap().state, LedgerState::Unsure);
        ledger.begin(0);
        ledger.end(0, true);
        ledger.end(0, true);
        ledger.begin(1);
        ledger.end(1, true);
        ledger.mark_seen(1, 1);
        ledger.begin_trim(2);
        ledger.end(2, false);
        for (block, generation, right) in [
            (0, 2, GenerationAge::Right),
            (0, 1, GenerationAge::Right),
            (0, 3, GenerationAge::Future),
            (1, 1, GenerationAge::Right),
            (1, 0, GenerationAge::Old(1)),
        ] {
            let back = LedgerEntry::from_row(&ledger.get(block).to_row(4096).unwrap());
            assert_eq!(age(&back, &back, generation), right, "{block} {generation}");
            assert_eq!(back.seen, block == 1);
            assert!(back.settled && !back.uncertain);
        }
        let trimmed = LedgerEntry::from_row(&ledger.get(2).to_row(0).unwrap());
        assert!(trimmed.uncertain);
    }

    proptest! {
        #[test]
        fn entries_pack_and_unpack(word: u64) {
            let entry = LedgerEntry::unpack(word);
            prop_assert_eq!(LedgerEntry::unpack(entry.pack()), entry);
        }

        /// A model device that applies each write at any moment between begin and end: whatever a
        /// read then sees must be right.
        #[test]
        fn what_a_correct_device_returns_is_never_called_wrong(
            steps in prop::collection::vec((0u8..4, any::<prop::sample::Index>()), 1..200)
        ) {
            let ledger = ledger();
            let mut device = 0;
            // Generation, applied.
            let mut flying: Vec<(u64, bool)> = Vec::new();
            let mut reading = Vec::new();
            for (step, which) in steps {
                match step {
                    0 if flying.len() < 8 => flying.push((ledger.begin(0), false)),
                    1 if !flying.is_empty() => {
                        let i = which.index(flying.len());
                        if !flying[i].1 {
                            device = flying[i].0;
                            flying[i].1 = true;
                        }
                    }
                    2 if !flying.is_empty() => {
                        let (generation, applied) = flying.remove(which.index(flying.len()));
                        if !applied {
                            device = generation;
                        }
                        ledger.end(0, true);
                    }
                    _ => reading.push(ledger.get(0)),
                }
                if device > 0 {
                    let after = ledger.get(0);
                    prop_assert_eq!(age(&after, &after, device), GenerationAge::Right);
                }
                // Reads that have begun earlier and see the device now.
                for before in &reading {
                    if device > 0 {
                        prop_assert_eq!(age(before, &ledger.get(0), device), GenerationAge::Right);
                    }
                }
            }
        }
    }

    #[test]
    fn threads_on_the_same_blocks_raise_no_false_alarm() {
        let ledger = WriteLedger::new(8, 1 << 20).unwrap();
        let device: Vec<Mutex<u64>> = (0..8).map(|_| Mutex::new(0)).collect();
        let writes = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for seed in 0..4u64 {
                let (ledger, device, writes) = (&ledger, &device, &writes);
                scope.spawn(move || {
                    for i in 0..20_000u64 {
                        let drawn = crate::splitmix::scramble(seed << 32 | i);
                        let block = drawn % 8;
                        if drawn >> 32 & 1 == 0 {
                            let generation = ledger.begin(block);
                            *device[block as usize].lock().unwrap() = generation;
                            ledger.end(block, true);
                            writes.fetch_add(1, Ordering::Relaxed);
                        } else {
                            let before = ledger.get(block);
                            let found = *device[block as usize].lock().unwrap();
                            let after = ledger.get(block);
                            if found > 0 || before.settled {
                                let found = age(&before, &after, found);
                                assert_eq!(found, GenerationAge::Right, "{before:?} {after:?}");
                            }
                        }
                    }
                });
            }
        });
        let begun: u64 = (0..8).map(|b| ledger.get(b).last).sum();
        assert_eq!(begun, writes.load(Ordering::Relaxed));
        assert!((0..8).all(|b| ledger.get(b).in_flight == 0));
    }
}
