//! The exit code that the summary of a run asks for: the same for `run` and for a `report` made later.
//!
//! Signals and failures of the target are looked at by `run` alone, before its summary.

use taillight_core::exit::Exit;
use taillight_rundir::RunStatus;
use taillight_rundir::summary::{QosStatus, Summary};
use taillight_rundir::verify::VerifyReport;
use taillight_suite::exit::worst;

/// Exit codes a summary can ask for, the first that applies first (docs/exit-codes.md).
const ORDER: [Exit; 5] =
    [Exit::Unavailable, Exit::TargetFailed, Exit::IoErrors, Exit::GateFailed, Exit::GateUndecided];

/// The exit code of one summary. A run that was stopped or killed gives `TargetFailed`, whatever ended it
/// (`Unavailable` where its files are damaged): 130 and 143 would say that the report itself was interrupted.
pub fn exit_code(summary: &Summary) -> Exit {
    let applies = |exit: &&Exit| match exit {
        Exit::Unavailable => taillight_report::damaged(&summary.verdict),
        Exit::TargetFailed => matches!(summary.status, RunStatus::Partial | RunStatus::Failed),
        Exit::IoErrors => {
            let wrong = summary.verify.as_ref().is_some_and(VerifyReport::failed);
            let ended = summary.origin.imported().is_some_and(|source| !source.failed.is_empty());
            wrong || ended || summary.errors.count > 0
        }
        Exit::GateFailed => any(summary, QosStatus::Fail),
        Exit::GateUndecided => any(summary, QosStatus::Undecided),
        _ => false,
    };
    ORDER.iter().find(applies).copied().unwrap_or(Exit::Ok)
}

/// The worst exit code of several runs.
pub fn exit_code_of_all(summaries: &[Summary]) -> Exit {
    summaries.iter().map(exit_code).fold(Exit::Ok, worst)
}

fn any(summary: &Summary, status: QosStatus) -> bool {
    summary.qos.iter().any(|q| q.among_all() == status)
}
