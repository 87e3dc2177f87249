//! `[search]`: the highest demand that stays under a response-time ceiling.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::{Rate, Span};

/// The highest rate or depth at which a percentile of the response time stays under a ceiling.
/// Exactly one of `rate` and `queue_depth` is searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchPlan {
    /// Rates to search between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateBetween>,
    /// Depths to search between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<DepthBetween>,
    /// The percentile (decimal text) that must stay under the ceiling.
    pub at: String,
    /// The ceiling.
    pub ceiling: Span,
    /// Measured time of each probe. Default: 10s.
    #[serde(default = "probe")]
    pub probe: Span,
    /// Ends when the answer is known to this share of itself. Default: 0.05.
    #[serde(default = "precision")]
    pub precision: f64,
}

fn probe() -> Span {
    Span(10_000_000_000)
}
fn precision() -> f64 {
    0.05
}

/// Two rates.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateBetween {
    /// Lowest rate worth an answer.
    pub from: Rate,
    /// Highest rate tried.
    pub to: Rate,
}

/// Two depths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DepthBetween {
    /// Lowest depth.
    pub from: u32,
    /// Highest depth.
    pub to: u32,
}
