//! Makes load and records it.
//!
//! What it is: generator (what), schedule (when), worker (the hot loop), recorder and capture
//! (what happened), collector (intervals), run (phases). What it is not: storage access (drivers),
//! analysis (report), or output: it hands events to observers and files to the run directory.
//! Callers: `cli` and `suite` through [`run::run`].

#[cfg(test)]
mod answering;
pub mod calibrate;
pub mod capture;
mod clock;
pub mod collector;
pub mod generator;
mod idle;
pub mod keyspace;
pub mod payload;
pub mod preload;
pub mod recorder;
pub mod run;
pub mod schedule;
mod simulate;
mod splitmix;
mod stream;
#[cfg(test)]
mod testing;
mod threaded;
pub mod trace;
pub mod verify;
mod worker;

pub use collector::{IntervalView, Observer};
pub use run::{EngineOutcome, EngineRequest, StopFlag, StopReason};
