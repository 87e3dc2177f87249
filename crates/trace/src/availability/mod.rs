//! What this machine allows and what it has: rights for tracing, io_uring, direct I/O, libraries of
//! stores, the clock. Each is asked by trying or by reading a file; nothing is left behind. `taillight
//! doctor` puts the answers into advice.

pub mod clock;
pub mod direct;
pub mod libraries;
pub mod rights;
pub mod uring;
