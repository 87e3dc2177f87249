//! The charts of the model: what every picture is drawn from. `data` has the types of a run, which `build` fills from
//! its analysis, with `tracks` for values over time and `heat` for grids of time and latency; `sweep` has those of a
//! sweep, which the caller of the report fills.

mod build;
mod data;
mod heat;
pub mod sweep;
mod tracks;

pub use build::{run_charts, series_so_far, whole_series};
pub use data::{
    ChartModel, HeatGrid, HostLine, JudgedWindow, LatencySeries, OpOutliers, OpPoint, OpTrack,
    PercentilePoint, RunCharts, RunGroup, SlcLine, SlowPoint, SteadyTrack, WorkloadPoint,
    WorkloadTrack, with_rates,
};
pub use sweep::{
    DemandCurve, DemandMark, DemandResult, RoundSpread, SweepAxis, SweepData, SweepPoint,
};
pub use tracks::{fine, tracks, workload_tracks};
