//! The gate: one figure decides.

use std::str::FromStr;

use taillight_core::{Error, OpKind, Percentile, Result};
use taillight_rundir::compare::{
    CompareGate, CompareVerdict, ComparedFigure, GateFail, GateStatus,
};

/// A gate as asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRequest {
    pub op: OpKind,
    /// `iops` or `p99.9`.
    pub figure: String,
    pub fail: GateFail,
    /// Whether one or two runs a side may decide.
    pub single_runs_decide: bool,
}

impl FromStr for GateRequest {
    type Err = Error;

    /// `read:p99.9`, `write:iops`. Errors: `Usage`.
    fn from_str(text: &str) -> Result<GateRequest> {
        let refused = |what: &str| {
            Error::usage(format!("`{text}` is no gate: {what}"))
                .hint("--gate read:p99.9, or --gate write:iops")
        };
        let (op, figure) = text.split_once(':').ok_or_else(|| refused("OP:FIGURE"))?;
        let op = OpKind::from_name(op).ok_or_else(|| refused("there is no such operation"))?;
        let figure = match figure.strip_prefix('p').map(str::parse::<Percentile>) {
            Some(Ok(p)) => format!("p{p}"),
            _ if figure == "iops" => figure.to_owned(),
            _ => return Err(refused("the figure is iops or a percentile")),
        };
        Ok(GateRequest { op, figure, fail: GateFail::Worse, single_runs_decide: false })
    }
}

impl GateRequest {
    pub fn is_of(&self, op: OpKind, figure: &str) -> bool {
        self.op == op && self.figure == figure
    }

    /// Judges its figure; `decides` says whether there are runs enough to speak of systems. Errors:
    /// `Usage` when the figure is not there.
    pub fn judge(&self, figures: &[ComparedFigure], decides: bool) -> Result<CompareGate> {
        let Some(found) = figures.iter().find(|f| self.is_of(f.op, &f.figure)) else {
            let known: Vec<String> =
                figures.iter().map(|f| format!("{}:{}", f.op.name(), f.figure)).collect();
            let wanted = format!("{}:{}", self.op.name(), self.figure);
            return Err(Error::usage(format!("the runs have no {wanted} to gate on"))
                .hint(format!("there are {}", known.join(", "))));
        };
        let (status, text) = match decides || self.single_runs_decide {
            true => self.status(found),
            false => (
                GateStatus::Undecided,
                "fewer than three runs a side say nothing of how much runs differ anyway"
                    .to_owned(),
            ),
        };
        let (op, figure) = (self.op, self.figure.clone());
        Ok(CompareGate { op, figure, fail: self.fail, status, text })
    }

    fn status(&self, found: &ComparedFigure) -> (GateStatus, String) {
        // Of rates, lower is worse.
        let worse_by = found.ratio.map(|r| if self.figure == "iops" { 1.0 / r } else { r } - 1.0);
        let half = worse_by.is_some_and(|by| by > found.margin / 2.0);
        let needs = found.needs.map_or(String::new(), |n| format!("; about {n} runs a side would"));
        match (self.fail, found.verdict) {
            (_, CompareVerdict::Equal) => {
                (GateStatus::Pass, format!("equal within {} %", 100.0 * found.margin))
            }
            (GateFail::Worse, CompareVerdict::Worse) if half => {
                (GateStatus::Fail, "worse".to_owned())
            }
            (GateFail::Worse, CompareVerdict::Worse) => {
                (GateStatus::Pass, "worse by less than half of the margin".to_owned())
            }
            (GateFail::Worse, CompareVerdict::Better) => (GateStatus::Pass, "better".to_owned()),
            (GateFail::Worse, CompareVerdict::Undecided) => {
                (GateStatus::Undecided, format!("these runs do not decide it{needs}"))
            }
            (GateFail::NotEqual, _) => (GateStatus::Fail, format!("not shown to be equal{needs}")),
        }
    }
}
