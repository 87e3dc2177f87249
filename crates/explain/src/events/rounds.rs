//! Rounds of parts: the block I/O that one operation made, as far as it is known.
//!
//! An fdatasync or a lookup in a store makes several rounds, one after another.

use taillight_rundir::layers::flags;

use crate::events::io::TracedIo;

/// Parts that were in flight together.
#[derive(Debug, Clone, Copy, Default)]
pub struct BlockRound {
    /// The first one was queued.
    pub bio: i64,
    pub last: Option<i64>,
    pub alloc: Option<i64>,
    /// Given to the scheduler the last time; not known of earlier rounds.
    pub insert: Option<i64>,
    pub issue: Option<i64>,
    /// All were done; absent when that was not seen.
    pub done: Option<i64>,
    /// A part was queued by another process, first at this time: it had been held back.
    pub held: Option<i64>,
    /// The last round of all.
    pub ends: bool,
}

/// The rounds of an I/O that are known, by time: the `earlier` ones and the last one.
pub fn rounds(io: &TracedIo, earlier: &[BlockRound]) -> Vec<BlockRound> {
    let last = io.bio_ns.map(|bio| BlockRound {
        bio,
        last: io.bio_last_ns,
        alloc: known(io.alloc_ns),
        insert: known(io.insert_ns),
        issue: known(io.issue_ns),
        done: known(io.done_ns).filter(|_| io.all_parts_done()),
        held: io.held_ns.filter(|_| io.has(flags::HELD)),
        ends: true,
    });
    earlier.iter().copied().chain(last).collect()
}

/// When the parts of the round were queued that took longest of those that are known.
pub fn longest_queued_ns(io: &TracedIo, earlier: &[BlockRound]) -> Option<i64> {
    let took = |round: &BlockRound| round.done.unwrap_or(io.end_ns) - round.bio;
    rounds(io, earlier).into_iter().max_by_key(took).map(|round| round.bio)
}

/// Whether all of its earlier rounds are known.
pub fn all_rounds_known(io: &TracedIo, earlier: &[BlockRound]) -> bool {
    io.rounds <= earlier.len() as u64
}

/// A stamp; 0 is none.
pub fn known(stamp: Option<i64>) -> Option<i64> {
    stamp.filter(|s| *s != 0)
}

impl BlockRound {
    /// When it was first seen.
    pub fn first_seen(&self) -> i64 {
        self.held.map_or(self.bio, |held| held.min(self.bio))
    }
}
