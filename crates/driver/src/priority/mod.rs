//! The priority of a worker's I/O, set before its session: rings inherit it.

mod sys;

pub use sys::io_priority;
