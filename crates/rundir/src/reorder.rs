//! From completion order to submit order, exactly, in bounded memory.
//!
//! A worker's capture holds its I/Os as they completed; `ios.parquet` wants them as they were
//! submitted. Two passes over the same records:
//! 1. [`ReorderScan`] notes the earliest submit stamp of every block of records, and sets aside the few
//!    stragglers: I/Os in whose flight many blocks of others came and went (a stall would hold
//!    back everything submitted after it).
//! 2. [`Order`] lets a record go once no later block can hold an earlier one, and merges the
//!    stragglers in. At most `LAG_BLOCKS` blocks wait, whatever the latencies.
//!
//! At a depth of d at most d / ((LAG_BLOCKS - 1) x BLOCK_ROWS) of all records are stragglers.

use taillight_core::{Record, Result};

/// Records of a block.
const BLOCK_ROWS: usize = 4096;
/// Blocks that may wait; a record overtaken by more is a straggler.
const LAG_BLOCKS: usize = 8;

/// First pass: what the second must know.
#[derive(Debug, Clone)]
pub struct ReorderScan {
    block_rows: usize,
    lag: usize,
    rows: u64,
    /// Records that the block still takes.
    left: usize,
    /// Latest submit stamp up to and with each full block.
    latest: Vec<i64>,
    /// What is known of each full block.
    blocks: Vec<BlockScan>,
    /// Of the one that is being filled.
    block: BlockScan,
    /// A record submitted before this stamp was overtaken by too many blocks.
    floor: i64,
    running: i64,
    positions: Vec<u64>,
    stragglers: Vec<Straggler>,
}

/// A record that is set aside.
#[derive(Debug, Clone, Copy)]
struct Straggler {
    submit: i64,
    /// Position in completion order.
    at: u64,
    record: Record,
}

/// One block of records, stragglers left out.
#[derive(Debug, Clone, Copy)]
struct BlockScan {
    /// Earliest submit stamp.
    earliest: i64,
    /// Whether it is in submit order, and submitted after all before.
    ordered: bool,
}

const EMPTY: BlockScan = BlockScan { earliest: i64::MAX, ordered: true };

impl Default for ReorderScan {
    fn default() -> Self {
        ReorderScan::with_blocks(BLOCK_ROWS, LAG_BLOCKS)
    }
}

impl ReorderScan {
    pub(crate) fn with_blocks(block_rows: usize, lag: usize) -> ReorderScan {
        ReorderScan {
            block_rows,
            lag,
            rows: 0,
            left: block_rows,
            latest: Vec::new(),
            blocks: Vec::new(),
            block: EMPTY,
            floor: i64::MIN,
            running: i64::MIN,
            positions: Vec::new(),
            stragglers: Vec::new(),
        }
    }

    /// Looks at the next record, in completion order: its submit stamp, and all of it where asked.
    #[inline]
    pub fn add(&mut self, submit: i64, record: impl FnOnce() -> Record) {
        if self.left == 0 {
            self.next_block();
        }
        self.left -= 1;
        self.rows += 1;
        if submit >= self.running {
            self.running = submit;
        } else if submit < self.floor {
            self.positions.push(self.rows - 1);
            self.stragglers.push(Straggler { submit, at: self.rows - 1, record: record() });
            return;
        } else {
            self.block.ordered = false;
        }
        self.block.earliest = self.block.earliest.min(submit);
    }

    #[cold]
    fn next_block(&mut self) {
        self.latest.push(self.running);
        self.blocks.push(std::mem::replace(&mut self.block, EMPTY));
        self.left = self.block_rows;
        let overtaken = self.blocks.len().checked_sub(self.lag);
        self.floor = overtaken.map_or(i64::MIN, |block| self.latest[block]);
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Ends the first pass.
    pub fn finish(mut self) -> Order {
        self.next_block();
        // bounds[b]: no record after block b, stragglers aside, was submitted earlier.
        let mut bounds: Vec<i64> = self.blocks.iter().map(|block| block.earliest).collect();
        let mut bound = i64::MAX;
        for b in bounds.iter_mut().rev() {
            bound = std::mem::replace(b, bound).min(bound);
        }
        self.stragglers.sort_unstable_by_key(|s| (s.submit, s.at));
        let ends = self.latest.iter().zip(&bounds).map(|(latest, bound)| latest <= bound);
        let in_order = ends.zip(&self.blocks).map(|(last, b)| last && b.ordered).collect();
        Order {
            block_rows: self.block_rows,
            bounds,
            in_order,
            passing: false,
            positions: self.positions,
            skipped: 0,
            stragglers: self.stragglers,
            merged: 0,
            next: 0,
            block: 0,
            left: 0,
            waiting: Vec::new(),
            keys: Vec::new(),
        }
    }
}

/// A waiting record, ordered as it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WaitingKey {
    submit: i64,
    /// Position in completion order.
    at: u64,
    /// Place in the buffer.
    place: u32,
}

/// Second pass: the same records again, out in submit order. Equal stamps keep completion order.
#[derive(Debug)]
pub struct Order {
    block_rows: usize,
    bounds: Vec<i64>,
    /// Blocks in order whose records none of a later block precedes.
    in_order: Vec<bool>,
    /// Records of this block go at once: it is in_order, and nothing waits.
    passing: bool,
    positions: Vec<u64>,
    skipped: usize,
    stragglers: Vec<Straggler>,
    merged: usize,
    next: u64,
    /// Blocks begun.
    block: usize,
    /// Records that the last of them still takes.
    left: usize,
    waiting: Vec<(u64, Record)>,
    keys: Vec<WaitingKey>,
}

impl Order {
    /// Of records that are in submit order already: each goes at once.
    pub fn of_ordered() -> Order {
        Order { passing: true, left: usize::MAX, ..ReorderScan::default().finish() }
    }

    /// Takes the next record, in completion order, and emits what may go. Errors: what `emit`
    /// returns.
    #[inline]
    pub fn push(
        &mut self,
        record: &Record,
        emit: &mut impl FnMut(&Record) -> Result<()>,
    ) -> Result<()> {
        let at = self.next;
        if self.left == 0 {
            self.passing = self.waiting.is_empty() && self.in_order.get(self.block) == Some(&true);
            self.block += 1;
            self.left = self.block_rows;
        }
        self.next += 1;
        self.left -= 1;
        if self.positions.get(self.skipped) == Some(&at) {
            self.skipped += 1;
        } else if self.passing {
            self.merge_before(record.submit.0, at, emit)?;
            return emit(record);
        } else {
            self.waiting.push((at, *record));
        }
        if self.left == 0 && !self.passing {
            let bound = self.bounds.get(self.block - 1).copied().unwrap_or(i64::MAX);
            return self.release(|submit| submit < bound, emit);
        }
        Ok(())
    }

    /// Emits the stragglers before the record of this submit stamp and position.
    #[inline]
    fn merge_before(
        &mut self,
        submit: i64,
        at: u64,
        emit: &mut impl FnMut(&Record) -> Result<()>,
    ) -> Result<()> {
        while let Some(straggler) = self.stragglers.get(self.merged)
            && (straggler.submit, straggler.at) < (submit, at)
        {
            emit(&straggler.record)?;
            self.merged += 1;
        }
        Ok(())
    }

    /// Emits all that still waits. Errors: what `emit` returns.
    pub fn finish(&mut self, emit: &mut impl FnMut(&Record) -> Result<()>) -> Result<()> {
        self.release(|_| true, emit)
    }

    /// Records that wait, stragglers aside.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn release(
        &mut self,
        may_go: impl Fn(i64) -> bool,
        emit: &mut impl FnMut(&Record) -> Result<()>,
    ) -> Result<()> {
        self.keys.clear();
        let keys = self.waiting.iter().zip(0u32..);
        self.keys.extend(keys.map(|((at, r), place)| WaitingKey {
            submit: r.submit.0,
            at: *at,
            place,
        }));
        if !self.keys.is_sorted() {
            self.keys.sort_unstable();
        }
        let go = self.keys.partition_point(|key| may_go(key.submit));
        for i in 0..go {
            let WaitingKey { submit, at, place } = self.keys[i];
            self.merge_before(submit, at, emit)?;
            emit(&self.waiting[place as usize].1)?;
        }
        while let Some(straggler) = self.stragglers.get(self.merged)
            && may_go(straggler.submit)
        {
            emit(&straggler.record)?;
            self.merged += 1;
        }
        self.keep(go);
        Ok(())
    }

    /// Drops the first `go` keys' records, keeps the rest in completion order.
    fn keep(&mut self, go: usize) {
        let stay = &mut self.keys[go..];
        stay.sort_unstable_by_key(|key| key.place);
        for (i, key) in stay.iter().enumerate() {
            self.waiting[i] = self.waiting[key.place as usize];
        }
        let left = stay.len();
        self.waiting.truncate(left);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use taillight_core::{OpKind, Stamp};

    use super::*;

    fn record(submit: i64, latency: i64, id: u64) -> Record {
        Record {
            op: OpKind::Read,
            offset: Some(id),
            size: 1,
            submit: Stamp(submit),
            complete: Stamp(submit + latency),
            ..Record::default()
        }
    }

    fn order(records: &[Record], block: usize, lag: usize) -> (Vec<Record>, usize) {
        let mut scan = ReorderScan::with_blocks(block, lag);
        records.iter().for_each(|r| scan.add(r.submit.0, || *r));
        assert_eq!(scan.rows(), records.len() as u64);
        let mut order = scan.finish();
        let (mut out, mut most) = (Vec::new(), 0);
        let mut emit = |r: &Record| {
            out.push(*r);
            Ok(())
        };
        for r in records {
            order.push(r, &mut emit).unwrap();
            most = most.max(order.waiting());
        }
        order.finish(&mut emit).unwrap();
        (out, most)
    }

    proptest! {
        #[test]
        fn submit_order_whatever_the_interleaving(
            steps in prop::collection::vec((0i64..50, 0i64..400, 0u8..40), 0..600),
            block in 1usize..20,
            lag in 1usize..5,
        ) {
            let mut submit = 0;
            let mut records: Vec<Record> = Vec::new();
            for (id, (step, latency, odd)) in steps.into_iter().enumerate() {
                submit += step;
                let latency = if odd == 0 { latency * 1000 } else { latency };
                records.push(record(submit, latency, id as u64));
            }
            records.sort_by_key(|r| r.complete);
            let mut expected = records.clone();
            expected.sort_by_key(|r| r.submit);
            let (out, _) = order(&records, block, lag);
            prop_assert_eq!(out, expected);
        }
    }

    #[test]
    fn a_stall_does_not_make_the_rest_wait() {
        let mut records: Vec<Record> = (0..50_000).map(|i| record(i * 10, 55, i as u64)).collect();
        records[3].complete = Stamp(10_000_000);
        records[40_000].complete = Stamp(20_000_000);
        records.sort_by_key(|r| r.complete);
        let (out, most) = order(&records, 64, 4);
        assert!(out.is_sorted_by_key(|r| r.submit));
        assert_eq!(out.len(), 50_000);
        assert!(most <= 64 * 5, "{most}");
    }
}
