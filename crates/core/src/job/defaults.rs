//! Every default of the job file, in one place.

use std::hash::{BuildHasher, Hasher, RandomState};

use crate::percentile::Percentile;
use crate::units::{ByteSize, Span};

/// Measured time when the job names no end.
pub(super) const DURATION: Span = Span(30_000_000_000);
/// Reporting window.
pub(super) const INTERVAL: Span = Span(1_000_000_000);
/// Wait for operations in flight at the end.
pub(super) const DRAIN_TIMEOUT: Span = Span(30_000_000_000);
/// Block size.
pub(super) const BLOCK_SIZE: ByteSize = ByteSize(4096);
/// Deepest nine.
pub(super) const NINES: u32 = 9;
/// Percentiles of the report: the body, then two to nine nines.
pub(super) fn percentiles() -> Vec<Percentile> {
    let body = [100, 500, 1_000, 2_500, 5_000, 7_500, 9_000, 9_500].map(Percentile::hundredths);
    body.into_iter().chain((2..=9).filter_map(Percentile::nines)).collect()
}

/// A seed nobody chose: 48 bits, so that every reader of JSON keeps it exactly.
pub(super) fn seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 16
}
