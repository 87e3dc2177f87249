//! Tracing by programs on the kernel's trace points: the programs' loader, the memory shared with them, the
//! probe of the hot loop and the collector of what they saw, called by `tracing`; and [`watch`] of programs that
//! run already, called by `cli`. The report draws the conclusions from `layers.parquet`.

mod collect;
mod cost;
mod forget;
mod heartbeat;
mod identity;
mod kept;
mod kernel_cast;
mod layout;
mod look_ups;
mod probe;
mod programs;
mod session;
mod spill;
mod symbols;
mod sys;
mod tail;
mod target_file;
mod traced_io;
pub mod watch;

pub use programs::object;
pub(crate) use session::BpfTracing;
