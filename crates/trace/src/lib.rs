//! What the machine is and what it allows: environment disclosure, availability probes.
//!
//! What it is: readers of procfs and sysfs with parsers tested on text fixtures, and the checks
//! behind `taillight doctor`. What it is not: part of the measurement; everything here runs
//! before or after. Called by `cli`.

pub mod align;
#[cfg(feature = "bpf")]
pub mod bpf;
pub mod bus;
pub mod clock;
pub mod device;
pub mod direct;
pub mod environment;
pub mod foreign;
pub mod host;
pub mod libraries;
pub mod machine;
pub mod nvme;
#[cfg(feature = "bpf")]
mod over;
#[cfg(feature = "bpf")]
pub mod perf;
#[cfg(feature = "bpf")]
pub mod procfs;
pub mod quota;
pub mod rights;
#[cfg(feature = "bpf")]
mod still;
#[cfg(feature = "bpf")]
mod tally;
#[cfg(feature = "bpf")]
pub mod tracer;
pub mod uring;

pub use environment::Environment;
pub use taillight_machine::Sys;
