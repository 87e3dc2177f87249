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

/// Makes a random payload unlike any other write: 8 bytes in every 512.
#[inline]
pub fn stamp_payload(buffer: &mut [u8], size: u64, seed: u64) {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let used = buffer.len().min(size as usize);
    for sector in buffer[..used].chunks_mut(512) {
        if let Some(head) = sector.first_chunk_mut::<8>() {
            x = x.rotate_left(23).wrapping_add(0xD1B5_4A32_D192_ED03);
            *head = x.to_le_bytes();
        }
    }
}
