//! `[search]`: the highest demand that stays under a response-time ceiling.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Arrival, Plan};
use crate::percentile::Percentile;
use crate::units::{Rate, Span};

/// The highest rate or depth at which a percentile of the response time stays under a ceiling.
/// Exactly one of `rate` and `queue_depth` is searched.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchPlan {
    /// Rates to search between. Arrivals are Poisson unless the workload's are `constant`, which need no
    /// rate of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateBetween>,
    /// Depths to search between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_depth: Option<DepthBetween>,
    /// The workload that is varied and whose response time counts. Default: the only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The percentile (decimal text) that must stay under the ceiling.
    pub at: Percentile,
    /// The ceiling.
    pub ceiling: Span,
    /// Measured time of each probe. Default: 10s.
    #[serde(default = "probe")]
    pub probe: Span,
    /// Ends when the answer is known to this share of itself. Default: 0.05.
    #[serde(default = "precision")]
    pub precision: f64,
}

/// One value of what is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Demand {
    /// A rate.
    Rate(Rate),
    /// A queue depth.
    Depth(u32),
}

impl std::fmt::Display for Demand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Demand::Rate(rate) => write!(f, "{rate}"),
            Demand::Depth(depth) => write!(f, "depth {depth}"),
        }
    }
}

impl SearchPlan {
    /// Index of the workload that is varied; `None` when the search names none of several, or one that is not there.
    pub fn varied(&self, plan: &Plan) -> Option<usize> {
        match &self.workload {
            Some(name) => plan.workloads.iter().position(|w| w.name == *name),
            None => (plan.workloads.len() == 1).then_some(0),
        }
    }

    /// The largest demand of the range.
    pub fn largest(&self) -> Option<Demand> {
        let rate = self.rate.map(|r| Demand::Rate(r.to));
        rate.or(self.queue_depth.map(|d| Demand::Depth(d.to)))
    }
}

impl Plan {
    /// The plan of one probe of its search: one point, measured for `length`. A rate is offered by Poisson
    /// arrivals, as independent users make them; constant ones where the plan has them.
    pub fn probe(&self, workload: usize, demand: Demand, length: Span) -> Plan {
        let mut plan = self.clone();
        plan.search = None;
        plan.run.duration = Some(length);
        if let Some(w) = plan.workloads.get_mut(workload) {
            match demand {
                Demand::Depth(depth) => w.queue_depth = depth,
                Demand::Rate(rate) => {
                    w.arrival = match w.arrival {
                        Arrival::Constant { .. } => Arrival::Constant { rate },
                        _ => Arrival::Poisson { rate },
                    }
                }
            }
        }
        plan
    }
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
