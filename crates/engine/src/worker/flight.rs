//! What a worker knows of an operation in flight, and the record made of it in the end.

use taillight_core::probe::Token;
use taillight_core::{Error, Op, OpKind, Record, Stamp, Status};
use taillight_driver::Completion;

/// An operation in flight.
#[derive(Debug, Clone, Copy)]
pub struct InFlight {
    pub op: Op,
    pub intended: Option<Stamp>,
    pub submit: Stamp,
    pub issued: Stamp,
    /// [`IDLE`] when nothing is in flight.
    pub token: Token,
}

impl InFlight {
    /// What a slot holds before its first operation.
    pub fn none() -> InFlight {
        InFlight {
            op: Op::keyed(OpKind::Read, 0, 0),
            intended: None,
            submit: Stamp(0),
            issued: Stamp(0),
            token: IDLE,
        }
    }

    fn by_offset(&self) -> bool {
        !self.op.kind.keyed() && self.op.kind != OpKind::Fsync
    }
}

/// The token of a free slot; generations begin at 1.
pub const IDLE: Token = Token(0);

#[cold]
pub fn unknown_token() -> Error {
    Error::internal("the driver returned a token that is not in flight")
}

/// The whole record of a finished operation.
#[cold]
pub fn record(f: &InFlight, c: &Completion, status: Status, now: Stamp, queued: bool) -> Record {
    let op = &f.op;
    Record {
        op: op.kind,
        target: op.target,
        offset: f.by_offset().then_some(op.offset),
        key: op.kind.keyed().then_some(op.key),
        size: op.size,
        moved: if c.moved == op.size {
            None
        } else {
            Some(c.moved)
        },
        count: (c.count > 0).then_some(c.count),
        intended: f.intended,
        origin: None,
        submit: f.submit,
        issued: queued.then_some(f.issued),
        first: c.first,
        complete: now,
        sync_ns: c.sync_ns,
        retries: (c.retries > 0).then_some(c.retries),
        status,
    }
}
