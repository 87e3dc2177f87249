//! Tracing without rights: when each worker left and entered the CPU.
//!
//! What it is: the backend below the trace points. The kernel logs the context switches of a thread
//! to whoever owns it (perf events, `context_switch`), and counts how long it waited for a CPU
//! (schedstat). Together they split a slow I/O into time on the CPU, without a CPU, and blocked in
//! the kernel. What it is not: sight below the system call; which layer blocked is not seen.
//! Called by `tracing`.

mod gather;
mod off_cpu;
mod probe;
mod record;
mod schedstat;
mod sys;

pub(crate) use gather::{PerfTracing, allowed, room};
pub use probe::PerfProbes;
pub(crate) use schedstat::{Schedstat, SchedstatReading};
