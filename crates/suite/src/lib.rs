//! Series of runs: methods that decide what to measure next, and the one runner that does it.
//!
//! Here are the contract of a [`method`], the [`runner`] with `series.json` and resuming, and the
//! methods: [`search`], [`repeat`], two jobs in turns ([`ab`]), jobs in a [`sequence`], and [`suites`] as
//! data (`suites/`). A method is a function of the points done so far, tested without storage. `cli`
//! implements [`host`], which runs one plan.

pub mod ab;
pub mod axis;
pub mod demand;
pub mod exit;
pub mod figures;
pub mod host;
pub mod method;
pub mod points;
pub mod repeat;
pub mod runner;
pub mod saved;
pub mod search;
pub mod sequence;
pub mod shared_target;
pub mod suites;

mod auto_options;
mod console_line;
mod differences;
mod resume;
