//! Distributions, percentiles, intervals, ceilings, comparisons, change points, steady states and SLC, as pure
//! functions: this crate reads no clock, no file and no configuration, starts no thread and never prints.
//!
//! Values of a distribution, their counts and ranks are integers. Shares, moments, probabilities and counts
//! that are weighted or divided by a design effect are floating point.

pub mod bins;
pub mod ceiling;
pub mod change_point;
pub mod compare;
pub mod confidence;
pub mod curve;
pub mod dependence;
pub mod dist;
pub mod episodes;
pub mod estimate;
pub mod exact;
pub mod grid;
pub mod knee;
pub mod littles_law;
pub mod recovery;
pub mod series;
pub mod slc;
pub mod steady;
pub mod topk;

mod binomial;
mod long_run;
mod moments;

pub use bins::LogBins;
pub use ceiling::{CeilingCheck, CeilingStatus, request_share};
pub use change_point::{ChangePoint, LevelFigure, PartCounts, RunLevels};
pub use confidence::{Ci, needed_one_sided, needed_two_sided, quantile_ci};
pub use curve::{RankPoint, percentile_curve};
pub use dependence::Dependence;
pub use dist::{Dist, DistError};
pub use episodes::{Episode, Episodes, group_episodes};
pub use estimate::{Estimate, Intervals};
pub use exact::ExactCounter;
pub use grid::{GridFiller, TimeGrid, TimeWindow};
pub use knee::{DemandPoint, Knee, knee};
pub use littles_law::littles_law_ratio;
pub use moments::Moments;
pub use recovery::{Recovery, RecoveryRule};
pub use series::SeriesSummary;
pub use slc::{SbkSlc, Slc};
pub use steady::{SteadyRule, SteadyWindow};
pub use topk::TopK;
