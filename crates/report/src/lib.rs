//! Reads run directories: analysis, model, charts, renderers.
//!
//! What it is: everything between a run directory and what a person reads. What it is not: it
//! measures nothing and changes no captured data. Called by `cli`.

pub mod format;
mod palette;
pub mod plots;
