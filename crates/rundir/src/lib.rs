//! The run directory: types, writers and readers of the files a run leaves, and of those of series and comparisons.
//! Their names are decided here (docs/design.md, Fixed names), but those of a report's text files. Capture, engine,
//! trace and import write through this crate, `report` reads through it; statistics arrive ready made.

pub mod atomic;
pub mod bus;
mod columns;
pub mod compare;
pub mod dir;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod fixture;
pub mod histlog;
pub mod history;
pub mod host;
pub mod intervals;
pub mod ios;
mod json_file;
pub mod latency;
pub mod layers;
pub mod ledger;
pub mod manifest;
pub mod names;
pub mod nvme;
pub mod origin;
pub mod own_sum;
mod phase_totals;
pub mod points;
mod process;
pub mod reorder;
pub mod repeat;
pub mod scale;
pub mod search;
pub mod series;
pub mod slc_paper;
pub mod store;
pub mod summary;
pub mod sums;
mod table;
pub mod trace_info;
pub mod verify;
pub mod watched;

pub use columns::TableWriter;
pub use dir::{RunDir, check_is_dir};
pub use json_file::JsonFile;
pub use latency::{
    EpisodesEntry, Latency, LatencySource, NineEntry, ObservedLatency, PercentileEntry, Quantile,
};
pub use manifest::{Manifest, RunStatus};
pub use summary::Summary;

/// Version of the run directory layout; `schema` in `manifest.json` and `summary.json`.
pub const SCHEMA_VERSION: u32 = 1;
