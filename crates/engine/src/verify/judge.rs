//! What a block that was read means: right, not to be judged, or wrong in one of several ways.
//!
//! A pure function of the block, the ledger before and after the read, and what the run knows, except
//! that the kind of damage is told less exactly once the budget of [`PieceScratch`] is spent.
//! The rule for doubt: never a false alarm. Where overlapping writes, a failed write or data from
//! before the run make more than one state right, the block counts as unchecked. No doubt covers a
//! block of this run at an address that is not its own.

use taillight_rundir::verify::Wrong;

use super::VerifyState;
use super::block::{BlockContent, BlockHeader, Difference, inspect, repaired};
use super::ledger::{GenerationAge, LedgerEntry, age};
use super::pieces::{BlockPieces, PieceScratch};

/// Newest writes that a block without a right header is compared with byte by byte in any case; an
/// older one only where a piece of it is in the block.
const NEWEST: u64 = 4;
/// Writes of another run that are tried beyond the one a header names, or from the first where none
/// does: how many there were is not known.
const OTHERS: u64 = 64;

/// What a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadJudgement {
    /// What must be there.
    Right,
    /// Nothing certain can be said.
    Unchecked(UncheckedReason),
    Wrong(Wrong, FaultDetail),
}

/// Why a block cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UncheckedReason {
    /// Neither this run nor the earlier one, if one was named, is known to have written there.
    Unwritten,
    /// Writes overlapped each other or the read, and may have left a mixture; or this run's first one
    /// was not acknowledged when the read began.
    Overlapped,
    /// A write failed there, or it was trimmed.
    Uncertain,
    /// It is longer than the reader's buffer; what the header says is right.
    Cut,
}

/// What is known of a wrong block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FaultDetail {
    /// Oldest generation that would be right.
    pub expected: Option<u64>,
    pub found: Option<u64>,
    /// Address the block found belongs to.
    pub address: Option<u64>,
    /// Run the block found belongs to.
    pub run: Option<u64>,
    pub first: Option<u32>,
    /// Wrong bytes.
    pub bytes: Option<u32>,
}

/// One block that was read, and what the ledger said before and after.
pub struct ReadCheck<'a> {
    pub shared: &'a VerifyState,
    /// The run whose block is expected.
    pub run: u64,
    pub block: &'a [u8],
    /// Bytes it has where it is stored; more than `block` when it did not fit.
    pub stored: u64,
    /// Its number in the ledgers.
    pub number: u64,
    pub address: u64,
    pub before: LedgerEntry,
    pub after: LedgerEntry,
}

impl ReadCheck<'_> {
    /// Judges the block. `scratch` is used when it has to be made again.
    pub fn judge(&self, scratch: &mut PieceScratch) -> ReadJudgement {
        let seen = inspect(self.block, self.stored);
        if let BlockContent::Whole(mark) | BlockContent::Cut(mark) = seen
            && mark.run == self.run
            && mark.address == self.address
            && age(&self.before, &self.after, mark.generation) == GenerationAge::Right
        {
            return match seen {
                BlockContent::Cut(_) => ReadJudgement::Unchecked(UncheckedReason::Cut),
                _ => ReadJudgement::Right,
            };
        }
        self.judge_other(seen, scratch)
    }

    /// Judges that nothing was found: a record that is not there.
    #[cold]
    pub fn judge_missing(&self) -> ReadJudgement {
        if self.before.uncertain || self.after.uncertain {
            return ReadJudgement::Unchecked(UncheckedReason::Uncertain);
        }
        match (self.before.settled, self.then()) {
            (true, _) => self.judgement(Wrong::Missing, FaultDetail::default()),
            (false, _) if self.after.touched() => {
                ReadJudgement::Unchecked(UncheckedReason::Overlapped)
            }
            (false, Some(then)) if then.before.settled => then.judge_missing(),
            (false, _) => ReadJudgement::Unchecked(UncheckedReason::Unwritten),
        }
    }

    /// The same block as the earlier run's ledger knows it, when there is one.
    fn then(&self) -> Option<ReadCheck<'_>> {
        let prior = self.shared.prior.as_ref()?;
        let entry = prior.ledger.as_ref()?.get(self.number);
        (self.run != prior.run).then_some(ReadCheck {
            run: prior.run,
            before: entry,
            after: entry,
            ..*self
        })
    }

    /// What is not plainly right. Before any doubt, a block of this run at another address is wrong;
    /// what follows is held against this run's writes, or else against those of the run that was named.
    #[cold]
    fn judge_other(&self, seen: BlockContent, scratch: &mut PieceScratch) -> ReadJudgement {
        if let BlockContent::Whole(m)
        | BlockContent::Cut(m)
        | BlockContent::Damaged(m)
        | BlockContent::OtherLength(m, _) = seen
            && m.run == self.run
            && m.address != self.address
        {
            return self.wrong(Wrong::Misplaced, m, None);
        }
        if self.before.uncertain || self.after.uncertain {
            return ReadJudgement::Unchecked(UncheckedReason::Uncertain);
        }
        match (self.before.settled, &self.shared.prior) {
            (true, _) => self.judge_ours(seen, scratch),
            (false, _) if self.after.touched() => {
                ReadJudgement::Unchecked(UncheckedReason::Overlapped)
            }
            (false, Some(prior)) => match self.then() {
                Some(then) => then.judge(scratch),
                // That run wrote nothing here.
                None if prior.ledger.is_some() => {
                    ReadJudgement::Unchecked(UncheckedReason::Unwritten)
                }
                None => self.judge_prior(seen, prior.run, scratch),
            },
            (false, None) => match seen {
                // Not ours to expect, but it does contradict itself.
                BlockContent::Damaged(m) => {
                    self.damaged(m, m.generation.saturating_add(OTHERS), scratch)
                }
                _ => ReadJudgement::Unchecked(UncheckedReason::Unwritten),
            },
        }
    }

    /// A write of this run was acknowledged: only its blocks are right.
    fn judge_ours(&self, seen: BlockContent, scratch: &mut PieceScratch) -> ReadJudgement {
        match seen {
            BlockContent::Zeroed => self.judgement(Wrong::Zeroed, FaultDetail::default()),
            BlockContent::Short => self.judgement(Wrong::OtherSize, FaultDetail::default()),
            BlockContent::Whole(m) | BlockContent::Cut(m) | BlockContent::OtherLength(m, _)
                if m.run != self.run =>
            {
                self.wrong(Wrong::OtherRun, m, None)
            }
            BlockContent::OtherLength(m, _) => self.wrong(Wrong::OtherSize, m, None),
            BlockContent::Whole(m) | BlockContent::Cut(m) => {
                let kind = match age(&self.before, &self.after, m.generation) {
                    GenerationAge::Old(1) if !self.before.seen => Wrong::Lost,
                    GenerationAge::Old(_) => Wrong::Stale,
                    // The run never wrote it.
                    _ => Wrong::Unknown,
                };
                self.wrong(kind, m, None)
            }
            _ if self.mixed() && !self.shared.whole_writes => {
                ReadJudgement::Unchecked(UncheckedReason::Overlapped)
            }
            BlockContent::Damaged(m) => self.damaged(m, self.after.last, scratch),
            BlockContent::NoHeader(m) => {
                // Not what the damaged header says: it would take a changed generation for true.
                let near = BlockHeader { run: self.run, address: self.address, ..m };
                self.without_header(near, self.after.last, &[], scratch)
            }
        }
    }

    /// Nothing of this run, and no ledger of the run that was named: its blocks alone are right, of
    /// any generation.
    fn judge_prior(
        &self,
        seen: BlockContent,
        prior: u64,
        scratch: &mut PieceScratch,
    ) -> ReadJudgement {
        match seen {
            BlockContent::Whole(m)
            | BlockContent::Cut(m)
            | BlockContent::Damaged(m)
            | BlockContent::OtherLength(m, _)
                if m.run != prior =>
            {
                self.wrong(Wrong::OtherRun, m, None)
            }
            BlockContent::Whole(m)
            | BlockContent::Cut(m)
            | BlockContent::Damaged(m)
            | BlockContent::OtherLength(m, _)
                if m.address != self.address =>
            {
                self.wrong(Wrong::Misplaced, m, None)
            }
            BlockContent::Whole(_) => ReadJudgement::Right,
            BlockContent::Cut(_) => ReadJudgement::Unchecked(UncheckedReason::Cut),
            BlockContent::Damaged(m) => {
                self.damaged(m, m.generation.saturating_add(OTHERS), scratch)
            }
            BlockContent::OtherLength(m, _) => self.wrong(Wrong::OtherSize, m, None),
            BlockContent::Zeroed => self.judgement(Wrong::Zeroed, FaultDetail::default()),
            BlockContent::Short => self.judgement(Wrong::OtherSize, FaultDetail::default()),
            BlockContent::NoHeader(m) => {
                let near = BlockHeader { run: prior, address: self.address, ..m };
                // The header's sum says which generation it was, if one byte of it is wrong.
                let was = repaired(self.block).map(|was| BlockHeader {
                    run: prior,
                    address: self.address,
                    ..was
                });
                let said: Vec<BlockHeader> = [Some(near), was].into_iter().flatten().collect();
                self.without_header(near, OTHERS, &said, scratch)
            }
        }
    }

    /// The header says whose block it is; the rest does not fit. Writes up to number `last` may be in
    /// it.
    fn damaged(&self, mark: BlockHeader, last: u64, scratch: &mut PieceScratch) -> ReadJudgement {
        let mut pieces = BlockPieces::new(self.block, &self.shared.formats);
        pieces.compare(mark, scratch);
        let nearest = pieces.nearest;
        pieces.search(writes(mark, last), scratch);
        // One run began to overwrite what another had written.
        if mark.run != self.run {
            let ours = BlockHeader { run: self.run, address: self.address, ..mark };
            pieces.search(writes(ours, self.after.last), scratch);
        }
        if let Some(prior) = self.shared.prior.as_ref().filter(|p| p.run != mark.run) {
            let theirs = BlockHeader { run: prior.run, address: self.address, ..mark };
            let last = prior.ledger.as_ref().map_or(OTHERS, |l| l.get(self.number).last);
            pieces.search(writes(theirs, last), scratch);
        }
        let found = nearest.map(|(_, difference)| difference);
        match pieces.torn() {
            true => self.wrong(Wrong::Torn, mark, found),
            false if mark.run != self.run && self.before.settled => {
                self.wrong(Wrong::OtherRun, mark, None)
            }
            false => self.wrong(Wrong::Flipped, mark, found.filter(|d| d.mostly_right)),
        }
    }

    /// No header: one of the blocks that may be here with a damaged beginning, or none at all. `said`
    /// are what the damaged header may have named, where no ledger tells which writes there were.
    fn without_header(
        &self,
        near: BlockHeader,
        last: u64,
        said: &[BlockHeader],
        scratch: &mut PieceScratch,
    ) -> ReadJudgement {
        let mut pieces = BlockPieces::new(self.block, &self.shared.formats);
        let newest = writes(near, last).take(NEWEST as usize);
        newest.chain(said.iter().copied()).for_each(|mark| pieces.compare(mark, scratch));
        pieces.search(writes(near, last), scratch);
        match pieces.nearest.filter(|(_, difference)| difference.mostly_right) {
            Some((mark, difference)) => self.wrong(Wrong::Flipped, mark, Some(difference)),
            None => self.judgement(Wrong::Unknown, FaultDetail::default()),
        }
    }

    /// Overlapping writes may have left a mixture, or do so during the read.
    fn mixed(&self) -> bool {
        self.before.mixed() || self.after.mixed() || self.before.last != self.after.last
    }

    fn wrong(
        &self,
        kind: Wrong,
        mark: BlockHeader,
        difference: Option<Difference>,
    ) -> ReadJudgement {
        let other_run = kind == Wrong::OtherRun;
        let detail = FaultDetail {
            expected: None,
            found: (!other_run).then_some(mark.generation),
            address: (kind == Wrong::Misplaced).then_some(mark.address),
            run: other_run.then_some(mark.run),
            first: difference.map(|d| d.first),
            bytes: difference.map(|d| d.bytes),
        };
        self.judgement(kind, detail)
    }

    fn judgement(&self, kind: Wrong, detail: FaultDetail) -> ReadJudgement {
        let expected = self.before.oldest();
        ReadJudgement::Wrong(kind, FaultDetail { expected, ..detail })
    }
}

/// The writes of `mark`'s run to its address up to number `last`, the newest first.
fn writes(mark: BlockHeader, last: u64) -> impl Iterator<Item = BlockHeader> {
    (1..=last).rev().map(move |generation| BlockHeader { generation, ..mark })
}
