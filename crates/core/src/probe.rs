//! What tracing needs from the hot loop: [`Probe`], which a worker calls before and after each operation.
//!
//! The worker is generic over [`Probe`]; the calls of [`NoProbe`] compile to nothing. `trace` provides the
//! probes that trace, and the engine knows of `trace` only by the traits here.

use std::os::fd::RawFd;

use crate::Result;
use crate::clock::Stamp;
use crate::op::Op;

/// Bits of a token that hold the slot.
pub const SLOT_BITS: u32 = 12;
/// Most slots over all workers when tracing (workers x depth).
pub const MAX_SLOTS: u32 = 1 << SLOT_BITS;

/// Bit of the user data of an io_uring request beside the token: this one comes behind the first request of the same
/// operation, as the sync of a write does. Tokens leave it free. The trace programs (`LOWER` in
/// `crates/trace/bpf/shared.h`) keep its stamps apart.
pub const LATER_REQUEST: u64 = 1 << 63;

/// Names one operation in flight: generation << 12 | slot. Drivers pass it on unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Token(pub u64);

impl Token {
    /// The token of `slot` in its `generation`-th use. Only the low [`SLOT_BITS`] of the slot are kept, so that it
    /// must be below [`MAX_SLOTS`].
    #[inline]
    pub fn new(generation: u64, slot: u32) -> Token {
        Token(generation << SLOT_BITS | u64::from(slot & (MAX_SLOTS - 1)))
    }
    /// The slot (unique over all workers when tracing).
    #[inline]
    pub fn slot(self) -> u32 {
        (self.0 as u32) & (MAX_SLOTS - 1)
    }
    #[inline]
    pub fn generation(self) -> u64 {
        self.0 >> SLOT_BITS
    }
}

/// Told of every operation by its worker, on the worker's thread.
pub trait Probe: Send {
    /// Whether it wants to know of anything: false where nothing is traced.
    #[inline(always)]
    fn watches(&self) -> bool {
        true
    }
    /// The first generation of this worker's tokens. Kernel programs tell operations apart by
    /// token, so that tokens of one run must be unlike those of another.
    #[inline(always)]
    fn first_generation(&self) -> u64 {
        0
    }
    /// Called before `submit`.
    fn begin(&mut self, slot: u32, token: Token, at: Stamp, op: &Op);
    /// Called after completion, with the service time.
    fn end(&mut self, slot: u32, token: Token, latency_ns: u64);
}

/// What a probe is told of its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeContext {
    /// Number over all workloads.
    pub worker: u16,
    pub first_slot: u32,
    /// Operations in flight at most.
    pub depth: u32,
}

/// Makes the probe of each worker.
pub trait Probes: Send + Sync + 'static {
    /// What workers carry.
    type Probe: Probe;
    /// Descriptors of the process that [`Probes::probe`] uses on the worker's thread. `None` where probes use others later,
    /// or hand on what they open: workers then share those of the process.
    fn descriptors(&self) -> Option<Vec<RawFd>> {
        None
    }
    /// The probe of one worker; called on its thread, before its first operation. Errors: when this
    /// worker cannot be traced; the run then does not start.
    fn probe(&self, context: ProbeContext) -> Result<Self::Probe>;
}

/// No tracing: compiles to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    #[inline(always)]
    fn watches(&self) -> bool {
        false
    }
    #[inline(always)]
    fn begin(&mut self, _: u32, _: Token, _: Stamp, _: &Op) {}
    #[inline(always)]
    fn end(&mut self, _: u32, _: Token, _: u64) {}
}

impl Probes for NoProbe {
    type Probe = NoProbe;
    fn descriptors(&self) -> Option<Vec<RawFd>> {
        Some(Vec::new())
    }
    fn probe(&self, _: ProbeContext) -> Result<NoProbe> {
        Ok(NoProbe)
    }
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
