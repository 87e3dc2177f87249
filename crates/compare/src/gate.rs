//! The gate: figures chosen beforehand decide.

use taillight_core::plan::{GateFail, GateFigure, GatePlan};
use taillight_core::{Error, Result};
use taillight_rundir::compare::{
    CompareFile, CompareGate, CompareVerdict, ComparedFigure, ComparedPairs, GateAnswer,
    GateStatus, PairsEnd,
};

use crate::CompareRequest;
use crate::comparable::is_saturated;
use crate::figures::RunFigure;
use crate::pairs;
use crate::side::SideRun;

const UNRESOLVED: &str = "not every run resolves it: run longer";
const FELL_BEHIND: &str = "a run fell behind its rate: its response times say how long it was";

/// A gate as asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateRequest {
    pub figures: Vec<GateFigure>,
    pub fail: GateFail,
    /// Whether one or two runs a side may decide.
    pub single_runs_decide: bool,
}

/// Whether a figure is shown to be equal within its margin, be it better or worse within it.
pub(crate) fn is_equal(found: &ComparedFigure) -> bool {
    let most = 1.0 + found.margin;
    let within = found.lo.zip(found.hi).is_some_and(|(lo, hi)| lo > 1.0 / most && hi < most);
    found.verdict == CompareVerdict::Equal || within
}

impl From<&GatePlan> for GateRequest {
    fn from(plan: &GatePlan) -> GateRequest {
        let (figures, fail) = (plan.figures.clone(), plan.fail);
        GateRequest { figures, fail, single_runs_decide: false }
    }
}

impl GateRequest {
    /// Reads the figures of `--gate`. Errors: `Usage` for one that cannot be read or is given twice.
    pub fn parse(figures: &[String]) -> Result<GateRequest> {
        let read = |text: &String| {
            text.parse::<GateFigure>()
                .map_err(|e| Error::usage(e).hint("--gate read:p99.9, or --gate write:iops"))
        };
        let figures = figures.iter().map(read).collect::<Result<Vec<_>>>()?;
        if let Some(i) = (1..figures.len()).find(|i| figures[..*i].contains(&figures[*i])) {
            return Err(Error::usage(format!("--gate {} is given twice", figures[i]))
                .hint("name each figure once"));
        }
        Ok(GateRequest { figures, fail: GateFail::Worse, single_runs_decide: false })
    }

    pub(crate) fn is_figure(wanted: &GateFigure, figure: &ComparedFigure) -> bool {
        wanted.op == figure.op && wanted.figure.to_string() == figure.figure
    }

    pub(crate) fn has(&self, wanted: &GateFigure) -> bool {
        self.figures.contains(wanted)
    }

    pub(crate) fn has_compared(&self, figure: &ComparedFigure) -> bool {
        self.figures.iter().any(|wanted| Self::is_figure(wanted, figure))
    }

    /// Judges its figures, of `runs` runs a side; one that not every run resolves is undecided. Errors:
    /// `Usage` for one that some run does not have at all.
    pub fn judge(
        &self,
        figures: &[ComparedFigure],
        all: &[&SideRun],
        runs: usize,
    ) -> Result<CompareGate> {
        let missing = |wanted: &&GateFigure| {
            !figures.iter().any(|f| Self::is_figure(wanted, f))
                && !all.iter().all(|run| wanted.quantile(run).is_some())
        };
        if let Some(wanted) = self.figures.iter().find(missing) {
            let known: Vec<String> =
                figures.iter().map(|f| format!("{}:{}", f.op.name(), f.figure)).collect();
            return Err(Error::usage(format!("the runs have no {wanted} to gate on"))
                .hint(format!("there are {}", known.join(", "))));
        }
        let few = "fewer than three runs a side say nothing of how much runs differ anyway";
        let decides = runs >= crate::FEWEST_RUNS || self.single_runs_decide;
        let saturated = all.iter().any(|run| is_saturated(run));
        let absent = if saturated { FELL_BEHIND } else { UNRESOLVED };
        Ok(self.over(figures, absent, |found| match decides {
            true => self.status(found),
            false => (GateStatus::Undecided, few.to_owned()),
        }))
    }

    /// The same of pairs, where more may be to come.
    pub(crate) fn judge_pairs(
        &self,
        figures: &[ComparedFigure],
        of: &ComparedPairs,
    ) -> CompareGate {
        self.over(figures, UNRESOLVED, |found| match pairs::why_undecided(of) {
            Some(why) => (GateStatus::Undecided, why),
            None if is_open(found, self.fail, of.ended) => {
                (GateStatus::Undecided, "not shown to be equal yet".to_owned())
            }
            None => self.status(found),
        })
    }

    fn over(
        &self,
        figures: &[ComparedFigure],
        absent: &str,
        judge: impl Fn(&ComparedFigure) -> (GateStatus, String),
    ) -> CompareGate {
        let absent = || (GateStatus::Undecided, absent.to_owned());
        let answer = |wanted: &GateFigure| {
            let found = figures.iter().find(|f| Self::is_figure(wanted, f));
            let (status, text) = found.map_or_else(absent, &judge);
            GateAnswer { op: wanted.op, figure: wanted.figure.to_string(), status, text }
        };
        let figures: Vec<GateAnswer> = self.figures.iter().map(answer).collect();
        let status = figures.iter().map(|f| f.status).max().unwrap_or(GateStatus::Undecided);
        CompareGate { fail: self.fail, status, figures }
    }

    fn status(&self, found: &ComparedFigure) -> (GateStatus, String) {
        // Of rates, lower is worse.
        let worse_by = found.ratio.map(|r| if found.figure == "iops" { 1.0 / r } else { r } - 1.0);
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
            (GateFail::NotEqual, _) if is_equal(found) => {
                (GateStatus::Pass, format!("equal within {} %", 100.0 * found.margin))
            }
            (GateFail::NotEqual, _) => (GateStatus::Fail, format!("not shown to be equal{needs}")),
        }
    }
}

/// Whether more pairs cannot change that there is no answer: sides that may not be compared, or, once a
/// pair counts, no figure, or a gate over one that some run does not have.
pub fn is_hopeless(found: &CompareFile, request: &CompareRequest) -> bool {
    let there =
        |wanted: &GateFigure| found.figures.iter().any(|f| GateRequest::is_figure(wanted, f));
    let counts = found.pairs.as_ref().is_none_or(|p| p.dropped.len() < p.order.len());
    let absent = request.gate.as_ref().is_some_and(|g| !g.figures.iter().all(there));
    !request.allows(&found.comparable) || counts && (found.figures.is_empty() || absent)
}

/// Whether a figure that is not shown to be equal may still turn out to be: not after the last look, nor
/// where its interval lies beyond the margin.
fn is_open(found: &ComparedFigure, fail: GateFail, ended: PairsEnd) -> bool {
    let most = 1.0 + found.margin;
    let beyond = found.lo.is_some_and(|lo| lo > most) || found.hi.is_some_and(|hi| hi < 1.0 / most);
    fail == GateFail::NotEqual && ended != PairsEnd::Planned && !is_equal(found) && !beyond
}
