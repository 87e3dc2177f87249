//! When a run ends because it has become steady: the rule of fio's `steadystate`, which looks at every interval. SNIA's
//! rule over rounds is another one, of suites.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Span;

/// Ends a run early, once a figure of it is steady over a window of intervals.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SteadyEnd {
    /// What is looked at, of all measured workloads together.
    pub figure: SteadyFigure,
    /// What of the window must stay below the limit.
    pub rule: SteadyEndRule,
    /// The limit: a share of the mean of the window, or with `absolute` a number of the figure (1/s, bytes/s, ns).
    pub limit: f64,
    /// The limit is no share. Default: false.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub absolute: bool,
    /// Length of the window, two intervals at least.
    pub window: Span,
    /// Measured time before the first window begins. Default: 0s.
    #[serde(default, skip_serializing_if = "is_none")]
    pub ramp: Span,
}

fn is_none(span: &Span) -> bool {
    span.0 == 0
}

/// A figure of an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SteadyFigure {
    /// Operations a second.
    Iops,
    /// Bytes a second.
    Bandwidth,
    /// Mean latency.
    Latency,
}

/// What of a window is compared with the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SteadyEndRule {
    /// The largest distance of an interval from the mean.
    Deviation,
    /// The slope of the least-squares line, for each interval.
    Slope,
}
