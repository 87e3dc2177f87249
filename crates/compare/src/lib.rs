//! Whether a figure of one side of runs differs from that of the other: `taillight compare`, and the
//! judgement of `taillight ab`; and `taillight history`, nights of runs with their changes.
//!
//! Here are: which directories a side is, whether two sides may be compared, the figures with interval
//! and verdict, pairs, the gate, and the texts. The crate reads `series.json`, manifests, summaries and
//! intervals, and no single I/O, so that its cost does not depend on how many I/Os a run has. Called by
//! `cli` and by the method `ab` of `taillight-suite`.
//!
//! One run a side can say that these two runs differ, never that the systems do: that needs several runs
//! on each side, whose own variation is the measure.

mod comparable;
mod figures;
mod gate;
pub mod history;
mod junit;
mod pairs;
mod quantiles;
mod side;
mod text;

use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_rundir::SCHEMA_VERSION;
use taillight_rundir::compare::{
    Comparable, ComparableVerdict, CompareFile, CompareUnit, ComparedPairs, ComparedRun,
};
use taillight_rundir::history::LeftOutRun;

use figures::Units;

pub use gate::{GateRequest, is_hopeless};
pub use junit::{JUNIT, junit};
pub use pairs::{DropRule, PairPlan, RunPair, base_first};
pub use side::{FoundRuns, SideRun};
pub use text::{console, context, gate_words, markdown, primary, sentence, table, words};

/// Fewest runs a side that a gate decides by. With fewer the gate is undecided, unless
/// [`GateRequest::single_runs_decide`] is set.
pub const FEWEST_RUNS: usize = 3;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct CompareRequest {
    /// Share within which a figure that is shown to be neither worse nor better can be shown to be equal; a clear
    /// difference within it is still worse or better. None = 5 % for rates and percentiles below p99, 10 % for p99,
    /// 20 % beyond.
    pub margin: Option<f64>,
    /// Compare also what is only doubtful.
    pub anyway: bool,
    pub gate: Option<GateRequest>,
    /// Runs of either side that did not end well or cannot be read.
    pub left_out: Vec<LeftOutRun>,
}

/// Compares two sides of runs that were not made in pairs. Where the sides may not be compared, the figures are empty
/// and there is no gate. Errors: `Usage` when no figure is there in every run, or a gate is over one that some run does
/// not have.
pub fn compare(base: &[SideRun], new: &[SideRun], request: &CompareRequest) -> Result<CompareFile> {
    let (base, new): (Vec<_>, Vec<_>) = (base.iter().collect(), new.iter().collect());
    let mut found = empty(&base, &new, comparable::judge(&base, &new));
    for run in &request.left_out {
        let reason = format!("{} is left out: {}", run.dir, run.why);
        found.comparable.add(ComparableVerdict::Doubtful, reason);
    }
    if !request.allows(&found.comparable) {
        return Ok(found);
    }
    found.figures = figures::figures(&base, &new, Units::Runs, request);
    found.quantiles = quantiles::quantiles(&base, &new, Units::Runs, request);
    if found.figures.is_empty() {
        return Err(Error::usage("no figure is there in every run of both sides")
            .hint("longer runs resolve more percentiles; saturated runs have none to compare"));
    }
    let runs = base.len().min(new.len());
    let all = [base, new].concat();
    let gate = request.gate.as_ref().map(|gate| gate.judge(&found.figures, &all, runs));
    found.gate = gate.transpose()?;
    Ok(found)
}

/// Compares two sides that are run in pairs, by the pairs that are complete so far and not dropped. Where the
/// sides may not be compared, or have no figure in common, the figures are empty; a gate is undecided then.
pub fn compare_pairs(pairs: &[RunPair], plan: PairPlan, request: &CompareRequest) -> CompareFile {
    let all = || pairs.iter().map(|pair| (&pair.base, &pair.new));
    let (base, new): (Vec<_>, Vec<_>) = all().unzip();
    let comparable = comparable::judge(&base, &new);
    let (kept, said) = plan.sorted(pairs);
    let why = pairs::why_undecided(&said);
    let first: Vec<bool> = kept.iter().map(|pair| pair.base_first).collect();
    let mut found = empty(&base, &new, comparable);
    found.unit = CompareUnit::Runs;
    if request.allows(&found.comparable) {
        let units =
            Units::Pairs { base_first: &first, alpha: said.alpha, why_undecided: why.as_deref() };
        let (base, new): (Vec<_>, Vec<_>) = kept.iter().map(|p| (&p.base, &p.new)).unzip();
        found.figures = figures::figures(&base, &new, units, request);
        found.quantiles = quantiles::quantiles(&base, &new, units, request);
    }
    found.gate = request.gate.as_ref().map(|gate| gate.judge_pairs(&found.figures, &said));
    let ended = pairs::ended(&said, found.gate.as_ref().map(|gate| gate.status));
    found.pairs = Some(ComparedPairs { ended, ..said });
    found
}

/// What speaks against comparing runs of these plans, before there are any.
pub fn plans_comparable(base: &Plan, new: &Plan) -> Comparable {
    comparable::of_plans(base, new)
}

impl CompareRequest {
    /// Whether sides with the verdict in `comparable` are compared.
    pub fn allows(&self, comparable: &Comparable) -> bool {
        match comparable.verdict {
            ComparableVerdict::Yes => true,
            ComparableVerdict::Doubtful => self.anyway,
            ComparableVerdict::No => false,
        }
    }
}

/// A comparison without figures.
fn empty(base: &[&SideRun], new: &[&SideRun], comparable: Comparable) -> CompareFile {
    let compared = |run: &&SideRun| ComparedRun {
        run_id: run.manifest.run_id.clone(),
        dir: run.dir.display().to_string(),
    };
    let unit = match base.len().max(new.len()) {
        1 => CompareUnit::Batches,
        _ => CompareUnit::Runs,
    };
    CompareFile {
        schema: SCHEMA_VERSION,
        taillight: env!("CARGO_PKG_VERSION").to_owned(),
        base: base.iter().map(compared).collect(),
        new: new.iter().map(compared).collect(),
        comparable,
        unit,
        pairs: None,
        figures: Vec::new(),
        quantiles: Vec::new(),
        phases: Vec::new(),
        episodes: Vec::new(),
        gate: None,
    }
}

#[cfg(test)]
mod tests;
