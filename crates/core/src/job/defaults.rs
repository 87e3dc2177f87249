//! Defaults of `[run]` and `[[workload]]`.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::units::{ByteSize, Span};

/// Measured time when the job names no end.
pub(super) const DURATION: Span = Span(30_000_000_000);
/// Block size.
pub(super) const BLOCK_SIZE: ByteSize = ByteSize(4096);

/// A seed nobody chose: 48 bits, so that every reader of JSON keeps it exactly.
pub(super) fn seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 16
}
