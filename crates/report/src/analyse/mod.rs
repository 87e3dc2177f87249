//! Reads a run directory, and nothing else, into measurement figures: counts, distributions of latency, tracks
//! over time. Rounding, wording and judging come later (`summary`, `verdict`). Called by [`crate::make()`].

mod analysis;
mod capture;
pub mod damage;
pub mod dists;
mod group;
mod histograms;
pub mod host;
mod imported;
pub mod latency;
mod rank_intervals;
pub mod ranks;
mod read;
mod requests;
mod slowest;
pub mod store;

pub use analysis::{Analysis, IoCounts, MachineData, ReadProblem};
pub(crate) use capture::measured;
pub use capture::{CaptureCounter, CapturedIos};
pub use group::{IoGroup, IoTally, Lateness};
pub use histograms::{STATUS_UNKNOWN, is_load, tallies};
pub use ranks::{RankAnalysis, RanksAnalysis};
pub use read::analyse;
pub use requests::RequestGroup;
pub use slowest::{KEPT, SlowestIos, SlowestKeeper, TOLD};
pub use taillight_rundir::ios::Row;
