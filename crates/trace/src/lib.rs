//! What the machine is, what it allows, and what it did while a run went on: the environment for the
//! manifest, the checks behind `taillight doctor`, the tracing of layers below a run or below programs that
//! run already, samples of the host, logs of NVMe drives and captures of a bus. What a run has of these is
//! written into its directory, and the report judges it. Called by `cli`.

pub mod availability;
#[cfg(feature = "bpf")]
mod bpf;
pub mod bus;
pub mod environment;
pub mod host;
pub mod memory_budget;
pub mod nvme;
#[cfg(feature = "bpf")]
mod perf;
#[cfg(feature = "bpf")]
pub mod tracing;

#[cfg(feature = "bpf")]
pub use bpf::object as bpf_object;
#[cfg(feature = "bpf")]
pub use bpf::watch;
pub use environment::Environment;
