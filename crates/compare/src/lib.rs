//! Whether a figure of one side of runs differs from that of the other: `taillight compare`.
//!
//! What it is: which directories a side is, whether two sides may be compared, the figures with interval
//! and verdict, the gate, and the texts; nights of runs with their changes: `taillight history`. What it is not: the statistics (`taillight_stats::compare`) or
//! reports of single runs. It reads summaries and manifests only, so that its cost does not depend on how
//! many I/Os a run has. Called by `cli`.
//!
//! One run a side can say that these two runs differ, never that the systems do: that needs several runs
//! on each side, whose own variation is the measure.

mod comparable;
mod figures;
mod gate;
pub mod history;
mod junit;
mod side;
mod text;

use taillight_core::Result;
use taillight_rundir::SCHEMA_VERSION;
use taillight_rundir::compare::{ComparableVerdict, CompareFile, CompareUnit, ComparedRun};

pub use gate::GateRequest;
pub use junit::junit;
pub use side::{SideRun, runs_of};
pub use text::{console, markdown, table, words};

/// Fewest runs a side that a gate decides by.
pub const FEWEST_RUNS: usize = 3;

/// What is asked.
#[derive(Debug, Clone, Default)]
pub struct CompareRequest {
    /// Share up to which a difference counts as none; none = 5 % for rates and up to p99, 10 % for p99,
    /// 20 % beyond.
    pub margin: Option<f64>,
    /// Compare also what is only doubtful.
    pub anyway: bool,
    /// Whether the nth runs of both sides stood at the same place of a series.
    pub paired: bool,
    pub gate: Option<GateRequest>,
}

/// Compares two sides. Where they may not be compared the figures are empty. Errors: `Usage` for a gate
/// over a figure that is not there, or an empty side.
pub fn compare(base: &[SideRun], new: &[SideRun], request: &CompareRequest) -> Result<CompareFile> {
    let comparable = comparable::judge(base, new);
    let allowed = match comparable.verdict {
        ComparableVerdict::Yes => true,
        ComparableVerdict::Doubtful => request.anyway,
        ComparableVerdict::No => false,
    };
    let figures = match allowed {
        true => figures::figures(base, new, request)?,
        false => Vec::new(),
    };
    let decides = base.len().min(new.len()) >= FEWEST_RUNS;
    let gate = match (&request.gate, allowed) {
        (Some(gate), true) => Some(gate.judge(&figures, decides)?),
        _ => None,
    };
    let compared = |run: &SideRun| ComparedRun {
        run_id: run.manifest.run_id.clone(),
        dir: run.dir.display().to_string(),
    };
    Ok(CompareFile {
        schema: SCHEMA_VERSION,
        taillight: env!("CARGO_PKG_VERSION").to_owned(),
        base: base.iter().map(compared).collect(),
        new: new.iter().map(compared).collect(),
        comparable,
        unit: unit(base, new),
        figures,
        gate,
    })
}

#[cfg(test)]
mod tests;

fn unit(base: &[SideRun], new: &[SideRun]) -> CompareUnit {
    match base.len().max(new.len()) {
        1 => CompareUnit::Batches,
        _ => CompareUnit::Runs,
    }
}
