//! Every default of the job file, in one place (design section 12).

use std::hash::{BuildHasher, Hasher, RandomState};

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
/// Percentiles of the report.
pub(super) const PERCENTILES: [&str; 16] = [
    "1",
    "5",
    "10",
    "25",
    "50",
    "75",
    "90",
    "95",
    "99",
    "99.9",
    "99.99",
    "99.999",
    "99.9999",
    "99.99999",
    "99.999999",
    "99.9999999",
];

/// A seed nobody chose: 48 bits, so that every reader of JSON keeps it exactly.
pub(super) fn seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 16
}
