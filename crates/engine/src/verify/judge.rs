//! What a block that was read means: right, not to be judged, or wrong in one of several ways.
//!
//! A pure function of the block, the ledger before and after the read, and what the run knows.
//! The rule for doubt: never a false alarm. Where overlapping writes, a failed write or data from
//! before the run make more than one state right, the block counts as unchecked.

use taillight_rundir::verify::Wrong;

use super::VerifyState;
use super::block::{BlockContent, BlockHeader, Difference, inspect, repaired};
use super::ledger::{GenerationAge, LedgerEntry, age};

/// Candidates tried when a block's header is damaged.
const CANDIDATES: u64 = 4;

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
    /// This run wrote nothing there.
    Unwritten,
    /// Writes overlapped the read or each other.
    Overlapped,
    /// A write failed there, or it was trimmed.
    Uncertain,
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
    /// Its number in the ledgers.
    pub number: u64,
    pub address: u64,
    pub before: LedgerEntry,
    pub after: LedgerEntry,
}

impl ReadCheck<'_> {
    /// Judges the block. `scratch` is used when it has to be made again.
    pub fn judge(&self, scratch: &mut Vec<u8>) -> ReadJudgement {
        let seen = inspect(self.block);
        if let BlockContent::Whole(mark) = seen
            && mark.run == self.run
            && mark.address == self.address
            && age(&self.before, &self.after, mark.generation) == GenerationAge::Right
        {
            return ReadJudgement::Right;
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
            (true, _) => self.judgement(Wrong::Lost, FaultDetail::default()),
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

    #[cold]
    fn judge_other(&self, seen: BlockContent, scratch: &mut Vec<u8>) -> ReadJudgement {
        if let BlockContent::Whole(m) | BlockContent::Damaged(m) = seen
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
                BlockContent::Damaged(m) => self.damaged(m, scratch),
                _ => ReadJudgement::Unchecked(UncheckedReason::Unwritten),
            },
        }
    }

    /// A write of this run was acknowledged: only its blocks are right.
    fn judge_ours(&self, seen: BlockContent, scratch: &mut Vec<u8>) -> ReadJudgement {
        match seen {
            BlockContent::Blank => self.judgement(Wrong::Lost, FaultDetail::default()),
            BlockContent::Whole(m) | BlockContent::OtherLength(m, _) if m.run != self.run => {
                self.wrong(Wrong::OtherRun, m, None)
            }
            BlockContent::OtherLength(m, _) => self.wrong(Wrong::OtherSize, m, None),
            BlockContent::Whole(m) => {
                let age = age(&self.before, &self.after, m.generation);
                let lost = age == GenerationAge::Old(1) && !self.before.seen;
                let kind = if lost { Wrong::Lost } else { Wrong::Stale };
                self.wrong(kind, m, None)
            }
            _ if self.mixed() && !self.shared.whole_writes => {
                ReadJudgement::Unchecked(UncheckedReason::Overlapped)
            }
            BlockContent::Damaged(m) | BlockContent::NoHeader(m) if self.mixed() => {
                self.wrong(Wrong::Torn, m, None)
            }
            BlockContent::Damaged(m) => self.damaged(m, scratch),
            BlockContent::NoHeader(m) => self.without_header(m, scratch),
        }
    }

    /// Nothing of this run: only blocks of the run that was named are right.
    fn judge_prior(&self, seen: BlockContent, prior: u64, scratch: &mut Vec<u8>) -> ReadJudgement {
        match seen {
            BlockContent::Whole(m) | BlockContent::Damaged(m) | BlockContent::OtherLength(m, _)
                if m.run != prior =>
            {
                self.wrong(Wrong::OtherRun, m, None)
            }
            BlockContent::Whole(m) | BlockContent::Damaged(m) if m.address != self.address => {
                self.wrong(Wrong::Misplaced, m, None)
            }
            BlockContent::Whole(_) => ReadJudgement::Right,
            BlockContent::Damaged(m) => self.damaged(m, scratch),
            BlockContent::OtherLength(m, _) => self.wrong(Wrong::OtherSize, m, None),
            BlockContent::Blank => self.judgement(Wrong::Lost, FaultDetail::default()),
            BlockContent::NoHeader(m) => {
                let near = BlockHeader { run: prior, address: self.address, ..m };
                let first = (1..=CANDIDATES).map(|generation| BlockHeader { generation, ..near });
                // The header's sum says which generation it was, if one byte of it is wrong.
                let was = repaired(self.block).map(|was| BlockHeader {
                    run: prior,
                    address: self.address,
                    ..was
                });
                let all: Vec<BlockHeader> = first.chain([near]).chain(was).collect();
                self.nearest(&all, scratch)
            }
        }
    }

    /// The header says whose block it is; the rest does not fit.
    fn damaged(&self, mark: BlockHeader, scratch: &mut Vec<u8>) -> ReadJudgement {
        let Some(found) = self.compare(mark, scratch) else {
            return self.wrong(Wrong::Flipped, mark, None);
        };
        let from = found.first as usize;
        let rest = &self.block[from..];
        let torn = (from.is_multiple_of(512) && rest.iter().all(|b| *b == 0))
            || self.shared.formats.iter().any(|f| {
                let neighbours = [mark.generation.wrapping_sub(1), mark.generation + 1];
                neighbours.into_iter().any(|generation| {
                    let other = BlockHeader { generation, ..mark };
                    f.continues(self.block, other, from, scratch)
                })
            });
        let kind = if torn { Wrong::Torn } else { Wrong::Flipped };
        self.wrong(kind, mark, found.mostly_right.then_some(found).or(torn.then_some(found)))
    }

    /// No header: one of the blocks that may be here with a damaged beginning, or none at all.
    fn without_header(&self, mark: BlockHeader, scratch: &mut Vec<u8>) -> ReadJudgement {
        let near = BlockHeader { run: self.run, address: self.address, ..mark };
        let last = self.after.last;
        let newest = (0..CANDIDATES.min(last + 1))
            .map(|back| BlockHeader { generation: last - back, ..near });
        // Not what the damaged header says: it would take a changed generation for true.
        let all: Vec<BlockHeader> = newest.collect();
        self.nearest(&all, scratch)
    }

    fn nearest(&self, candidates: &[BlockHeader], scratch: &mut Vec<u8>) -> ReadJudgement {
        let found = candidates
            .iter()
            .filter_map(|m| Some((*m, self.compare(*m, scratch)?)))
            .filter(|(_, d)| d.mostly_right)
            .min_by_key(|(_, d)| d.bytes);
        match found {
            Some((mark, difference)) => self.wrong(Wrong::Flipped, mark, Some(difference)),
            // Nothing of ours: whatever was there before.
            None => self.judgement(Wrong::Lost, FaultDetail::default()),
        }
    }

    /// The smallest difference from the block `mark` has with any workload's payload.
    fn compare(&self, mark: BlockHeader, scratch: &mut Vec<u8>) -> Option<Difference> {
        let formats = self.shared.formats.iter();
        let differences = formats.filter_map(|f| f.compare(self.block, mark, scratch));
        differences.min_by_key(|d| d.bytes)
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
