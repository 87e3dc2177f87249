//! Cuts one I/O into segments that sum to its latency, from its stamps and its thread's events. To see how a kind of
//! I/O is cut, begin at `phases::segments`; `segments` has what a time line is made of.

pub mod blocks;
pub mod gaps;
pub mod phased;
pub mod phases;
pub mod segments;
pub mod threads;
pub mod workers;
