//! The charts of the model: what every picture is drawn from.

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
