//! A worker's slots: the operations in flight, their tokens, and the record made of each in the end.
//! Which operation comes next is not decided here. Called by the worker's loop.

use taillight_core::probe::Token;
use taillight_core::{Error, Op, OpKind, Record, Result, Stamp, Status};
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

    /// Takes the stamps of `part`, the first part of this operation.
    pub fn began_with(&mut self, part: &InFlight) {
        (self.submit, self.issued, self.intended) = (part.submit, part.issued, part.intended);
    }

    fn by_offset(&self) -> bool {
        !self.op.kind.keyed() && self.op.kind != OpKind::Fsync
    }
}

/// The token of a free slot; generations begin at 1.
pub const IDLE: Token = Token(0);

/// A worker's slots.
pub struct Slots {
    pub flights: Vec<InFlight>,
    /// Slots with nothing in flight; the last one is taken next.
    pub free: Vec<u32>,
    /// Slots submitted and not yet handed over by a flush.
    pub batch: Vec<u32>,
    /// Whether several operations may be in flight, so that the time of handing over is a latency of its own.
    pub queued: bool,
    /// Number of slot 0 among those of all workers.
    first: u32,
    generation: u64,
}

impl Slots {
    /// `depth` free slots, the first of them number `first`.
    pub fn new(depth: u32, first: u32, generation: u64) -> Slots {
        Slots {
            flights: vec![InFlight::none(); depth as usize],
            free: (0..depth).rev().collect(),
            batch: Vec::with_capacity(depth as usize),
            queued: depth > 1,
            first,
            generation,
        }
    }

    #[inline(always)]
    pub fn in_flight(&self) -> u32 {
        (self.flights.len() - self.free.len()) as u32
    }

    /// Whether nothing is in flight.
    #[inline(always)]
    pub fn idle(&self) -> bool {
        self.free.len() == self.flights.len()
    }

    /// Slots with an operation in flight.
    pub fn taken(&self) -> impl Iterator<Item = u32> {
        let slots = (0..).zip(&self.flights);
        slots.filter(|(_, f)| f.token != IDLE).map(|(slot, _)| slot)
    }

    /// A token that no operation had before.
    #[inline(always)]
    pub fn next_token(&mut self, slot: u32) -> Token {
        self.generation += 1;
        Token::new(self.generation, self.first + slot)
    }

    /// The slot of the operation with this token. Errors: `Internal` when no such operation is in
    /// flight.
    #[inline(always)]
    pub fn find(&self, token: Token) -> Result<u32> {
        let slot = token.slot().wrapping_sub(self.first);
        match self.flights.get(slot as usize) {
            Some(f) if f.token == token => Ok(slot),
            _ => Err(unknown_token()),
        }
    }

    /// The operation in `slot` is over; what is known of it stays until the slot is taken again.
    #[inline(always)]
    pub fn release(&mut self, slot: u32) {
        self.flights[slot as usize].token = IDLE;
        self.free.push(slot);
    }
}

#[cold]
pub fn unknown_token() -> Error {
    Error::internal("the driver returned a token that is not in flight")
}

/// `status`, or that of a success which did not move all it was asked to.
#[inline(always)]
pub fn whole_or_short(status: Status, moved_all: bool) -> Status {
    if status.is_ok() && !moved_all { Status::SHORT } else { status }
}

/// The whole record of a finished operation.
#[cold]
pub fn record_of(f: &InFlight, c: &Completion, status: Status, now: Stamp, queued: bool) -> Record {
    let op = &f.op;
    Record {
        op: op.kind,
        target: op.target,
        offset: f.by_offset().then_some(op.offset),
        key: op.kind.keyed().then_some(op.key),
        size: op.size,
        moved: if c.moved == op.size { None } else { Some(c.moved) },
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
