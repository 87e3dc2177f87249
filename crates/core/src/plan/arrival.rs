//! When operations start: closed loop, or a schedule of intended times.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::absent;
use crate::units::{Rate, Span};

/// When operations start. Rates are those of all workers of the workload together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum Arrival {
    /// Closed loop: the next operation starts when a slot is free.
    Burst,
    /// Open loop: evenly spaced intended times.
    Constant {
        /// Operations or bytes per time.
        rate: Rate,
    },
    /// Open loop: exponentially distributed gaps with this mean rate.
    Poisson {
        /// Operations or bytes per time, on average.
        rate: Rate,
    },
    /// Open loop: evenly spaced during `on`, nothing during `off`, and again.
    Bursts {
        /// Operations or bytes per time while on.
        rate: Rate,
        /// Length of a burst.
        on: Span,
        /// Pause after it.
        off: Span,
    },
    /// Open loop: one constant rate after another; the last one stays.
    Steps {
        /// The steps in order.
        steps: Vec<RateStep>,
    },
    /// Open loop: the rate moves evenly from one value to another, then stays.
    Ramp {
        /// Rate at the start.
        from: Rate,
        /// Rate at the end.
        to: Rate,
        /// Time between them.
        over: Span,
    },
    /// Open loop: intended times read from a file.
    Replay {
        /// A block trace, or a text file: one time a line since the start, with a unit, ascending.
        file: String,
    },
}

impl Arrival {
    /// Whether the loop is closed: operations have no intended times.
    pub fn is_closed(&self) -> bool {
        matches!(self, Arrival::Burst)
    }

    /// Operations a second that the schedule asks for on average over `time_ns` from its start,
    /// with operations of `mean_size` bytes. `None` in a closed loop, and for recorded times,
    /// which only their file knows.
    pub fn asked_per_s(&self, mean_size: f64, time_ns: f64) -> Option<f64> {
        let per_s = |rate: &Rate| rate.ops_per_s(mean_size);
        let time_ns = time_ns.max(1.0);
        match self {
            Arrival::Burst | Arrival::Replay { .. } => None,
            Arrival::Constant { rate } | Arrival::Poisson { rate } => Some(per_s(rate)),
            Arrival::Bursts { rate, on, off } => {
                let (on, cycle) = (on.0 as f64, (on.0 + off.0) as f64);
                let whole = (time_ns / cycle).floor();
                let busy = whole * on + (time_ns - whole * cycle).min(on);
                Some(per_s(rate) * busy / time_ns)
            }
            Arrival::Steps { steps } => {
                let (mut left, mut ops) = (time_ns, 0.0);
                for (i, step) in steps.iter().enumerate() {
                    let last = i + 1 == steps.len();
                    let time = if last { left } else { left.min(step.time.0 as f64) };
                    ops += per_s(&step.rate) * time;
                    left -= time;
                }
                Some(ops / time_ns)
            }
            Arrival::Ramp { from, to, over } => {
                let (from, to, over) = (per_s(from), per_s(to), over.0 as f64);
                let ramp = time_ns.min(over);
                let reached = from + (to - from) * ramp / over;
                Some(((from + reached) / 2.0 * ramp + to * (time_ns - ramp)) / time_ns)
            }
        }
    }
}

impl std::fmt::Display for Arrival {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Arrival::Burst => f.write_str("full speed"),
            Arrival::Constant { rate } => write!(f, "{rate}"),
            Arrival::Poisson { rate } => write!(f, "{rate} (Poisson)"),
            Arrival::Bursts { rate, on, off } => write!(f, "{rate} for {on}, then {off} off"),
            Arrival::Steps { steps } => {
                for (i, step) in steps.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{} for {}", step.rate, step.time)?;
                }
                Ok(())
            }
            Arrival::Ramp { from, to, over } => write!(f, "{from} to {to} over {over}"),
            Arrival::Replay { file } => write!(f, "times of {file}"),
        }
    }
}

/// One step of `steps`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RateStep {
    /// Operations or bytes per time.
    pub rate: Rate,
    /// How long.
    pub time: Span,
}

/// Pauses of a closed loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Think {
    /// Pause.
    pub time: Span,
    /// After every N-th completion of the worker. Default: 1.
    #[serde(default = "absent::one")]
    pub every: u32,
    /// Pause after so much time of load instead: load and pauses follow each other from when a worker joins, at the
    /// same times for all that join together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Span>,
}

/// A share of the operations of several workloads: its workers start nothing while they have done more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flow {
    /// Weight of each worker, against the sum of all that have the same `id`.
    pub share: u32,
    /// Which others share with it. Default: 0.
    #[serde(default)]
    pub id: u32,
    /// How long a worker that is ahead waits before it looks again. Default: it spins.
    #[serde(default, skip_serializing_if = "absent::is_no_time")]
    pub pause: Span,
}

/// Workers that join step by step: `step` at the start, `step` more after each `every`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WorkerRamp {
    /// Workers that join at a time.
    pub step: u32,
    /// Time between two joins.
    pub every: Span,
}
