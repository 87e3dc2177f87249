//! What this machine allows and what it has: rights for tracing, io_uring, direct I/O, libraries of
//! stores, the clock. Each is asked by trying or by reading a file; nothing is left behind.
//!
//! What it is not: advice; `taillight doctor` puts these answers into words.

pub mod clock;
pub mod direct;
pub mod libraries;
pub mod rights;
pub mod uring;
