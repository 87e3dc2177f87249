//! Tracing without rights: when each worker left and entered the CPU. Called by `tracing` where trace points
//! are out of reach.
//!
//! The kernel logs the context switches of a thread to its owner (perf events, `context_switch`), and counts
//! how long it waited for a CPU (schedstat). Together they split a slow I/O into time on the CPU, without a
//! CPU, and blocked in the kernel. Which layer blocked below the system call is not seen.

mod gather;
mod off_cpu;
mod probe;
mod record;
mod schedstat;
mod sys;

pub(crate) use gather::PerfTracing;

pub(crate) use schedstat::{Schedstat, SchedstatReading};
