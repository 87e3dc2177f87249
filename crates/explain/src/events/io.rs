//! A traced I/O, typed: the stamps of the layers below it and what is known of its parts.

use std::sync::Arc;

use taillight_core::{OpKind, TimeSpan};
use taillight_rundir::layers::flags;

use crate::events::event::Whose;

/// A traced I/O. Stamps are CLOCK_MONOTONIC, ns, and none where they were not seen; the columns of `layers.parquet`
/// with their names say what each is (those of `lower` begin with `low_` there, and `slept_ns` is `blocked_ns`).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TracedIo {
    pub worker: u64,
    pub op: OpKind,
    /// Submit.
    pub start_ns: i64,
    /// Complete.
    pub end_ns: i64,
    /// Byte offset in the file.
    pub offset: u64,
    pub size: u64,
    /// See [`flags`].
    pub flags: u64,
    pub dev: Option<Arc<str>>,
    /// None with a backend that sees no block I/O.
    pub parts: Option<Parts>,
    /// How often all parts so far were done when another one came.
    pub rounds: u64,
    pub token: Option<u64>,
    pub enter_ns: Option<i64>,
    pub punt_ns: Option<i64>,
    pub sync_punt_ns: Option<i64>,
    pub bio_ns: Option<i64>,
    pub bio_last_ns: Option<i64>,
    pub held_ns: Option<i64>,
    pub alloc_ns: Option<i64>,
    /// Not stamped of direct I/O that is looked at once it is done.
    pub insert_ns: Option<i64>,
    pub issue_ns: Option<i64>,
    /// The last time: its issue stamp is of the time after it.
    pub requeue_ns: Option<i64>,
    pub done_ns: Option<i64>,
    pub cqe_ns: Option<i64>,
    pub wake_ns: Option<i64>,
    pub run_ns: Option<i64>,
    pub served_ns: Option<i64>,
    pub answered_ns: Option<i64>,
    /// For how long its thread slept meanwhile.
    pub slept_ns: Option<u64>,
    pub lower: LowerStamps,
}

/// Parts of an I/O in the block layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Parts {
    pub queued: u64,
    /// Those whose completion was seen.
    pub done: u64,
}

/// Stamps of the device below that of an I/O.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LowerStamps {
    pub dev: Option<Arc<str>>,
    pub bio_ns: Option<i64>,
    pub issue_ns: Option<i64>,
    pub done_ns: Option<i64>,
}

impl TracedIo {
    /// Whether a flag is set.
    pub fn has(&self, flag: u64) -> bool {
        self.flags & flag != 0
    }

    /// From submit to complete.
    pub fn time(&self) -> TimeSpan {
        TimeSpan::new(self.start_ns, self.end_ns)
    }

    /// Whose the events are that name it.
    pub fn whose(&self) -> Whose {
        self.token.map_or(Whose::Nobody, Whose::Io)
    }

    /// Whether parts of it were seen in the block layer.
    pub fn has_block_io(&self) -> bool {
        self.parts.is_some_and(|parts| parts.queued > 0)
    }

    /// Whether block I/O can be seen, and the completion of each of its parts was; true also where it had none.
    pub fn all_parts_done(&self) -> bool {
        self.parts.is_some_and(|parts| parts.done >= parts.queued)
    }

    /// When it was handed to an io_uring worker thread as a whole.
    pub fn punted_ns(&self) -> Option<i64> {
        self.punt_ns.filter(|_| self.has(flags::PUNTED))
    }

    /// From and to which byte it was, as an operation of a kind that is somewhere.
    pub fn place(&self, op: OpKind) -> Option<(u64, u64)> {
        let (at, size) = (self.offset, self.size);
        let somewhere = matches!(op, OpKind::Read | OpKind::Write | OpKind::Trim) && size > 0;
        somewhere.then(|| (at, at.saturating_add(size)))
    }

    /// Marks that what is known of it may not be all.
    pub fn mark_unclear(&mut self) {
        self.flags |= flags::UNCLEAR;
    }
}
