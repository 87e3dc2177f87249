//! The charts of the model: what every picture is drawn from.

mod build;
mod data;
mod tracks;

pub use build::run_charts;
pub use data::{
    Bin, ChartModel, CurvePoint, HeatGrid, HostLine, LatencySeries, NinePoint, OpOutliers, OpTrack,
    RunCharts, RunGroup, SlcLine, SlowPoint, TrackPoint,
};
