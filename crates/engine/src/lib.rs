//! Makes load and records it: generator (what), schedule (when), worker (the hot loop), recorder
//! (what happened), collector (intervals), run (phases). Storage is reached through drivers; events
//! go to observers and files to the run directory. `cli` starts runs with [`run::run_probed`] or
//! [`run::run`], loads records with [`preload`] and reads block traces with [`trace`].

#[cfg(test)]
mod answering;
pub mod calibrate;
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
mod steady;
mod stream;
mod sys;
#[cfg(test)]
mod testing;
mod threaded;
pub mod trace;
pub mod verify;
mod worker;

pub use collector::{IntervalView, Observer};
pub use run::{EngineOutcome, EngineRequest, StopFlag, StopReason};
