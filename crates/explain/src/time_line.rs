//! Where the time of one I/O went: from its stamps and its thread's events to segments that sum to its latency.

pub mod blocks;
pub mod gaps;
pub mod phase;
pub mod phases;
pub mod segments;
pub mod threads;
pub mod workers;
