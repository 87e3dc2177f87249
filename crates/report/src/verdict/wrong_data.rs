//! Wrong data found by verification, as a reason of the verdict. The run judged each block; the whole list
//! is in `verify.json`.

use taillight_core::plan::Plan;
use taillight_rundir::RunStatus;
use taillight_rundir::summary::{Reason, Summary, VerdictStatus};
use taillight_rundir::verify::{Finding, VerifyReport, Wrong};

use super::failures::NOT_KEPT;
use crate::analyse::Analysis;
use crate::format;

/// Code of the reason that says so.
pub const WRONG_DATA: &str = "wrong_data";
/// Findings in `summary.json`.
const KEPT: usize = 100;

/// The result for `summary.json`: everything but the end of a long list.
pub fn of(analysis: &Analysis) -> Option<VerifyReport> {
    let mut report = analysis.verify.clone()?;
    report.findings.truncate(KEPT);
    Some(report)
}

/// The reason of blocks that are wrong or could not be read back; none where verification found no such block.
pub fn wrong_data(analysis: &Analysis, summary: &Summary) -> Option<(VerdictStatus, Reason)> {
    let report = summary.verify.as_ref().filter(|r| r.failed())?;
    let first = report.findings.first().map_or(String::new(), |f| {
        format!(
            " The first: {} at {}.",
            f.kind.text(),
            address_text(f, keyed(&analysis.manifest.plan))
        )
    });
    if let Some(promise) = promised(analysis, report) {
        let text = format!(
            "{} of {} blocks read back miss writes that the target had acknowledged: {}.{first} {promise}.",
            format::count(report.wrong),
            format::count(report.checked),
            kinds(report)
        );
        return Some((VerdictStatus::Warned, Reason { code: NOT_KEPT.to_owned(), text }));
    }
    let text = match report.wrong {
        0 => {
            format!("{} blocks could not be read back.", format::count(report.unchecked.unreadable))
        }
        wrong => format!(
            "{} of {} blocks read back are not what was written: {}.{first}",
            format::count(wrong),
            format::count(report.checked),
            kinds(report)
        ),
    };
    let reason = Reason { code: WRONG_DATA.to_owned(), text };
    Some((VerdictStatus::Errors, reason))
}

/// What the settings of a target that may have been started anew in the run say of acknowledged writes, where they promise
/// less than to keep them, and nothing else is wrong than that some are gone. A run that failed for another reason, as of a
/// full disk, excuses nothing.
fn promised<'a>(analysis: &'a Analysis, report: &VerifyReport) -> Option<&'a str> {
    let facts = analysis.manifest.environment.get("driver")?;
    facts.get("target.connection_lost")?;
    let promise = facts.get("target.promise")?.as_str()?;
    let gone = report.kinds.lost + report.kinds.stale + report.kinds.missing;
    let failed = analysis.status != RunStatus::Complete;
    let only_gone = gone == report.wrong && report.unchecked.unreadable == 0;
    (failed && report.wrong > 0 && only_gone).then_some(promise)
}

fn keyed(plan: &Plan) -> bool {
    plan.workloads.iter().any(|w| w.keys.is_some())
}

/// `2 x lost write, 1 x stale block`.
pub fn kinds(report: &VerifyReport) -> String {
    let mut counts = report.kinds;
    let all = Wrong::ALL.into_iter().map(|kind| (*counts.get_mut(kind), kind));
    let parts: Vec<String> = all
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{} x {}", format::count(count), kind.text()))
        .collect();
    parts.join(", ")
}

/// `offset 20480`, `offset 20480 of file 3`, `key 17`.
pub fn address_text(f: &Finding, keyed: bool) -> String {
    let of = f.of.as_ref().map_or(String::new(), |name| format!(" of target {name}"));
    match (keyed, f.target) {
        (true, _) => format!("key {}{of}", f.address),
        (false, 0) => format!("offset {}{of}", f.address),
        (false, file) => format!("offset {} of file {file}{of}", f.address),
    }
}
