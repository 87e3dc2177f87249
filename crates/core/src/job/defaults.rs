//! Defaults of a job that states no duration, block size or seed.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::units::{ByteSize, Span};

/// Measured time when the job names no end: 30 s.
pub(super) const DURATION: Span = Span(30_000_000_000);
/// Block size, bytes.
pub(super) const BLOCK_SIZE: ByteSize = ByteSize(4096);

/// A random seed of 48 bits: readers of JSON that take numbers as doubles keep it exactly.
pub(super) fn seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 16
}
