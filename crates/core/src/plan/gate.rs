//! `[gate]`: which figures of a job decide a comparison.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::op::OpKind;
use crate::percentile::Percentile;
use crate::units::as_text;

/// The figures that `taillight compare` and `taillight ab` decide by; their flags win over it. A run
/// alone is not judged by it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatePlan {
    /// Operation and figure, like "read:p99.9" or "write:iops". Of several each must pass, and they
    /// share the error of one.
    pub figures: Vec<GateFigure>,
    /// Share up to which a difference counts as none, above 0 and below 1. Default: 0.05 for rates and
    /// below p99, 0.1 for p99, 0.2 beyond.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub margin: Option<f64>,
    /// What fails it: worse, or not_equal. Default: worse.
    #[serde(default)]
    pub fail: GateFail,
}

/// What fails a gate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GateFail {
    /// Shown to be worse, by more than half of the margin.
    #[default]
    Worse,
    /// Anything that is not shown to be equal.
    NotEqual,
}

/// A figure that runs are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// Operations a second.
    Rate,
    /// A percentile of the latency.
    Percentile(Percentile),
}

impl Figure {
    /// The percentile; `None` for a rate.
    pub fn percentile(self) -> Option<Percentile> {
        match self {
            Figure::Rate => None,
            Figure::Percentile(p) => Some(p),
        }
    }
}

/// A figure of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GateFigure {
    pub op: OpKind,
    pub figure: Figure,
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Rate => f.write_str("iops"),
            Figure::Percentile(p) => write!(f, "p{p}"),
        }
    }
}

impl fmt::Display for GateFigure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.op.name(), self.figure)
    }
}

impl FromStr for GateFigure {
    type Err = String;

    /// `read:p99.9`, `write:iops`. Errors: what is wrong, in words.
    fn from_str(text: &str) -> Result<GateFigure, String> {
        let refused = |what: &str| format!("`{text}` is no figure to decide by: {what}");
        let (op, figure) =
            text.split_once(':').ok_or_else(|| refused("write it like read:p99.9"))?;
        let op = OpKind::from_name(op).ok_or_else(|| refused("there is no such operation"))?;
        let figure = match figure.strip_prefix('p').map(Percentile::asked) {
            Some(Ok(p)) if p != Percentile::MAX => Figure::Percentile(p),
            _ if figure == "iops" => Figure::Rate,
            _ => return Err(refused("the figure is iops or a percentile below p100")),
        };
        Ok(GateFigure { op, figure })
    }
}

as_text!(
    GateFigure,
    "GateFigure",
    "an operation and a figure, like \"read:p99.9\" or \"write:iops\"",
    r"^[a-z_]+:(iops|p[0-9]{1,2}(\.[0-9]{1,9})?)$",
    str::parse,
    None
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_back_and_others_are_refused() {
        for text in ["read:p99.9", "write:iops", "rmw_get:p50"] {
            let figure: GateFigure = text.parse().expect(text);
            assert_eq!(figure.to_string(), text);
        }
        for bad in [
            "p99",
            "read:p",
            "read:p100",
            "read:p0",
            "jump:p99",
            "read:mean",
            "read",
            "",
            "read:p99.9999999999",
        ] {
            assert!(bad.parse::<GateFigure>().is_err(), "{bad}");
        }
    }
}
