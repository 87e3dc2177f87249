//! What tracing needs from the hot loop: a slot per in-flight operation and two calls.
//!
//! The worker is generic over [`Probe`]; [`NoProbe`] compiles to nothing. `trace` provides the
//! real one over shared memory. Engine and trace know each other only through this file.

use std::sync::atomic::{AtomicI64, AtomicU64};

use crate::clock::Stamp;

/// Bits of a token that hold the slot.
pub const SLOT_BITS: u32 = 12;
/// Most slots over all workers when tracing (workers x depth).
pub const MAX_SLOTS: u32 = 1 << SLOT_BITS;

/// Names one operation in flight: generation << 12 | slot. Drivers pass it on unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// The token of `slot` in its `generation`-th use. Slots beyond 12 bits are allowed only when
    /// nothing is traced; the generation then shifts with `bits`.
    #[inline]
    pub fn new(generation: u64, slot: u32) -> Token {
        Token(generation << SLOT_BITS | u64::from(slot & (MAX_SLOTS - 1)))
    }
    /// The slot (unique over all workers when tracing).
    #[inline]
    pub fn slot(self) -> u32 {
        (self.0 as u32) & (MAX_SLOTS - 1)
    }
    /// The generation.
    #[inline]
    pub fn generation(self) -> u64 {
        self.0 >> SLOT_BITS
    }
}

/// A slot in memory shared with kernel programs: the application writes before submitting.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub struct OpSlot {
    /// Token of the operation in flight, 0 when free.
    pub token: AtomicU64,
    /// Submit stamp, ns.
    pub begin_ns: AtomicI64,
}

/// Told of every operation by the worker.
pub trait Probe: Send {
    /// Before `submit`.
    fn begin(&mut self, slot: u32, token: Token, at: Stamp);
    /// After completion, with the service time.
    fn end(&mut self, slot: u32, token: Token, latency_ns: u64);
}

/// No tracing: compiles to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    #[inline(always)]
    fn begin(&mut self, _: u32, _: Token, _: Stamp) {}
    #[inline(always)]
    fn end(&mut self, _: u32, _: Token, _: u64) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_parts_come_back() {
        let t = Token::new(77, 4095);
        assert_eq!((t.generation(), t.slot()), (77, 4095));
    }
}
