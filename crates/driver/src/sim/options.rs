//! Options of `sim`: the single owner of their names and defaults.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::Span;
use taillight_core::{Error, Result};

use super::aging::Aging;
use crate::options::DriverOptions;

/// `[target.options]` of `sim`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SimOptions {
    /// Operations served at the same time.
    #[schemars(title = "1 or more")]
    pub channels: u32,
    /// Service time of an operation, at least 1 ns.
    #[schemars(
        title = "{ kind = \"constant\", time } | { kind = \"uniform\", min, max } | { kind = \"exponential\", mean } | { kind = \"bimodal\", common, rare, every } | { kind = \"clumps\", common, from, to, share, length }"
    )]
    pub service: ServiceTime,
    /// Extra time of a sync inside a write, and of an fsync.
    pub sync: Span,
    /// Times in which nothing is served, from the start of virtual time; period repeats one.
    #[schemars(title = "[{ start, length, period }]")]
    pub stalls: Vec<SimulatedStall>,
    /// Every N-th operation fails with errno; 0 = none.
    #[schemars(title = "{ every, errno }")]
    pub errors: InjectedErrors,
    /// How service times of writes grow with use since all was last discarded: towards a plateau by
    /// bytes written, in a sawtooth of bytes written, by a share in every such time, for ever; when a cache
    /// is full that empties while idle; or after writes out of order.
    #[schemars(
        title = "{ kind = \"none\" } | { kind = \"decay\", fresh, over } | { kind = \"sawtooth\", rise, period } | { kind = \"drift\", rise, every } | { kind = \"cache\", fresh, room, refill } | { kind = \"fragmented\", slow, over }"
    )]
    pub aging: Aging,
    /// File that carries what the device has been through from run to run, made when absent; none
    /// when empty. A run into the directory of the last run repeats that one.
    #[schemars(title = "path")]
    pub state: String,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            channels: 1,
            service: ServiceTime::default(),
            sync: Span(50_000),
            stalls: Vec::new(),
            errors: InjectedErrors::default(),
            aging: Aging::None,
            state: String::new(),
        }
    }
}

/// How service times are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub enum ServiceTime {
    /// Always `time`.
    Constant { time: Span },
    /// Uniform from `min` to `max`, both included.
    Uniform { min: Span, max: Span },
    /// Exponential with this mean, rounded to whole ns.
    Exponential { mean: Span },
    /// `common`, except every `every`-th operation, which takes `rare`.
    Bimodal {
        common: Span,
        rare: Span,
        /// One in this many.
        every: u64,
    },
    /// Exponential with mean `common`, and uniform from `from` to `to` in stretches of operations that
    /// come by chance: a chain of two states.
    Clumps {
        common: Span,
        from: Span,
        to: Span,
        /// Share of operations in such stretches, more than 0 and less than 1.
        share: f64,
        /// Mean operations of a stretch, 1 or more.
        length: f64,
    },
}

impl Default for ServiceTime {
    fn default() -> Self {
        ServiceTime::Constant { time: Span(100_000) }
    }
}

/// A stall: from `start`, `length` long, again every `period` if one is given.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SimulatedStall {
    /// First start, from the beginning of virtual time.
    pub start: Span,
    pub length: Span,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Span>,
}

/// Failures: every `every`-th operation fails with `errno`; 0 = none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct InjectedErrors {
    /// One in this many.
    pub every: u64,
    pub errno: u16,
}

impl Default for InjectedErrors {
    fn default() -> Self {
        InjectedErrors { every: 0, errno: 5 }
    }
}

impl DriverOptions for SimOptions {
    fn check(&self) -> Result<()> {
        let bad = |option: &str, why: &str| {
            Err(Error::usage(format!("driver `sim`: {why}")).of_field(option))
        };
        if self.channels == 0 {
            return bad("channels", "channels must be at least 1");
        }
        match self.service {
            ServiceTime::Uniform { min, max } if min > max => {
                return bad("service", "service.min is over max");
            }
            ServiceTime::Bimodal { every: 0, .. } => {
                return bad("service", "service.every must be at least 1");
            }
            ServiceTime::Clumps { from, to, .. } if from > to => {
                return bad("service", "service.from is over to");
            }
            ServiceTime::Clumps { share, length, .. }
                if !(share > 0.0
                    && share < 1.0
                    && length >= 1.0
                    && share / (1.0 - share) / length <= 1.0) =>
            {
                let why = "service.share must lie between 0 and 1, and service.length be 1 or more, and \
                           so large that stretches of that share can be apart";
                return bad("service", why);
            }
            _ => {}
        }
        if self.errors.errno == 0 {
            return bad("errors", "errors.errno must be at least 1");
        }
        if let Some(fault) = self.aging.fault() {
            return bad("aging", fault);
        }
        let overlap = |s: &SimulatedStall| s.period.is_some_and(|p| p <= s.length);
        if self.stalls.iter().any(overlap) {
            return bad("stalls", "a stall's period must be longer than its length");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_all_or_more_is_none() {
        let parsed = |share: &str| {
            let text = format!(
                "service = {{ kind = \"clumps\", common = \"1us\", from = \"2us\", to = \"3us\", \
                 share = {share}, length = 4.0 }}"
            );
            SimOptions::parse("sim", &text.parse().unwrap())
        };
        assert!(parsed("0.5").is_ok());
        for share in ["0.0", "1.0", "1.5", "-0.5"] {
            let e = parsed(share).unwrap_err();
            assert!(e.to_string().contains("between 0 and 1"), "{share}: {e}");
        }
    }
}
