//! Options of `sim`: the single owner of their names and defaults.

use serde::{Deserialize, Serialize};
use taillight_core::units::Span;
use taillight_core::{Error, Result};

use crate::contract::OptionDoc;

/// `[target.options]` of `sim`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SimOptions {
    /// Operations served at the same time.
    pub channels: u32,
    pub service: ServiceTime,
    /// Extra time of a sync inside a write.
    pub sync: Span,
    /// Times in which nothing is served.
    pub stalls: Vec<SimulatedStall>,
    pub errors: InjectedErrors,
}

impl Default for SimOptions {
    fn default() -> Self {
        SimOptions {
            channels: 1,
            service: ServiceTime::default(),
            sync: Span(50_000),
            stalls: Vec::new(),
            errors: InjectedErrors::default(),
        }
    }
}

/// How service times are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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
}

impl Default for ServiceTime {
    fn default() -> Self {
        ServiceTime::Constant {
            time: Span(100_000),
        }
    }
}

/// A stall: from `start`, `length` long, again every `period` if one is given.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SimulatedStall {
    /// First start, from the beginning of virtual time.
    pub start: Span,
    pub length: Span,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Span>,
}

/// Failures: every `every`-th operation fails with `errno`; 0 = none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
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

impl SimOptions {
    /// From a resolved table.
    ///
    /// # Errors
    /// `Usage` when a name or value is wrong.
    pub fn from_table(table: &toml::Table) -> Result<SimOptions> {
        let options: SimOptions = table.clone().try_into().map_err(|e: toml::de::Error| {
            Error::usage("bad [target.options] of driver `sim`")
                .with("why", e.message())
                .hint("see `taillight drivers sim`")
        })?;
        options.check().map(|()| options)
    }

    fn check(&self) -> Result<()> {
        let bad = |why: &str| Err(Error::usage(format!("driver `sim`: {why}")));
        if self.channels == 0 {
            return bad("channels must be at least 1");
        }
        match self.service {
            ServiceTime::Uniform { min, max } if min > max => {
                return bad("service.min is over max");
            }
            ServiceTime::Bimodal { every: 0, .. } => {
                return bad("service.every must be at least 1");
            }
            _ => {}
        }
        if self.errors.errno == 0 {
            return bad("errors.errno must be at least 1");
        }
        let overlap = |s: &SimulatedStall| s.period.is_some_and(|p| p <= s.length);
        if self.stalls.iter().any(overlap) {
            return bad("a stall's period must be longer than its length");
        }
        Ok(())
    }
}

/// Checks `table` and fills in the defaults.
pub(super) fn resolve(table: &toml::Table) -> Result<toml::Table> {
    let options = SimOptions::from_table(table)?;
    toml::Table::try_from(options)
        .map_err(|e| Error::internal("the options of `sim` do not serialise").source(e))
}

/// For `taillight drivers sim`.
pub(super) fn docs() -> Vec<OptionDoc> {
    let doc = |name, values, default, about| OptionDoc {
        name,
        values,
        default,
        about,
    };
    vec![
        doc(
            "channels",
            "1 or more",
            "1",
            "operations served at the same time",
        ),
        doc(
            "service",
            "{ kind = \"constant\", time } | { kind = \"uniform\", min, max } | \
             { kind = \"exponential\", mean } | { kind = \"bimodal\", common, rare, every }",
            "{ kind = \"constant\", time = \"100us\" }",
            "service time of an operation",
        ),
        doc(
            "sync",
            "time",
            "\"50us\"",
            "extra time of a sync inside a write, and of an fsync",
        ),
        doc(
            "stalls",
            "[{ start, length, period }]",
            "[]",
            "times in which nothing is served, from the start of virtual time; period repeats one",
        ),
        doc(
            "errors",
            "{ every, errno }",
            "{ every = 0, errno = 5 }",
            "every N-th operation fails with errno; 0 = none",
        ),
    ]
}
