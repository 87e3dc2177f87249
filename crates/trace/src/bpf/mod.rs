//! Tracing by programs on the kernel's trace points.
//!
//! What it is: the programs' loader, the memory shared with them, the probe of the hot loop and
//! the collector of what they saw. What it is not: judgement; the report draws the conclusions
//! from `layers.parquet`. Called by `tracer`.

mod cast;
pub(crate) mod collect;
pub(crate) mod cost;
pub(crate) mod layout;
mod own;
pub(crate) mod probe;
pub(crate) mod programs;
mod pulse;
pub(crate) mod running;
mod seen;
pub(crate) mod symbols;
mod sys;
mod tracing;

pub use probe::{BpfProbe, BpfProbes};
pub(crate) use tracing::{Tracing, places, try_programs};
