//! What `--json=short` prints: verdict, rates, percentiles, ceilings and paths, by the names that series
//! have for them, in about a kilobyte for one run. Figures are those of the cards and of `summary.json`.

use std::collections::BTreeMap;
use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use taillight_core::OpKind;
use taillight_rundir::summary::{QosStatus, VerdictStatus};
use taillight_rundir::{RunStatus, SCHEMA_VERSION, Summary, names};

use super::first;
use crate::verdict::{unsampled, whole_ops};

/// One or several runs in short.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShortReport {
    /// Version of this form: that of the run directory layout.
    pub schema: u32,
    /// Version of Taillight.
    pub taillight: String,
    /// The answer over all runs in words; that of the run where there is one.
    pub answer: String,
    /// The page over all runs, where there is one.
    pub report: Option<String>,
    /// The runs in the order they were made or given.
    pub runs: Vec<ShortRun>,
}

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShortRun {
    /// Name of the job.
    pub name: String,
    /// Run directory.
    pub path: String,
    /// How the run ended.
    pub status: RunStatus,
    /// The verdict.
    pub verdict: VerdictStatus,
    /// The answer in a few sentences.
    pub answer: String,
    /// Codes of the verdict's reasons, in its order.
    pub reasons: Vec<String>,
    /// Figures of each operation by its name.
    pub ops: BTreeMap<String, ShortFigures>,
    /// The ceilings of the job.
    pub ceilings: Vec<ShortCeiling>,
}

/// Figures of an operation. Times are from the moment an operation was due where the run has a rate.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShortFigures {
    /// Operations, failed ones included.
    pub ops: u64,
    /// Those that failed.
    pub errors: u64,
    /// Operations a second that did not fail; null where only outliers were kept.
    pub iops: Option<f64>,
    /// Bytes a second; null as above.
    pub bytes_per_s: Option<f64>,
    /// Half took this long or less.
    pub p50_ns: Option<u64>,
    /// 99 % took this long or less.
    pub p99_ns: Option<u64>,
    /// 99.9 % took this long or less.
    pub p999_ns: Option<u64>,
    /// The slowest.
    pub max_ns: Option<u64>,
    /// Names of values that are of this run alone: it has too few I/Os to say so of the storage.
    pub own: Vec<String>,
}

/// A ceiling and its answer.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ShortCeiling {
    /// Workload or operation; absent for all I/Os.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// The percentile that must keep it.
    pub at: String,
    /// The response time that must hold.
    pub ceiling_ns: u64,
    /// The answer for it by itself.
    pub status: QosStatus,
    /// The answer among all ceilings of the run, which verdict and exit code rest on; absent where it is the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jointly: Option<QosStatus>,
    /// I/Os of a request, where it is one for requests; absent for I/Os.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fanout: Option<u32>,
}

impl ShortReport {
    /// Runs with their directories; `answer` and `report` are those over several.
    pub fn new<'a>(
        answer: Option<String>,
        report: Option<&Path>,
        runs: impl IntoIterator<Item = (&'a Path, &'a Summary)>,
    ) -> ShortReport {
        let given: Vec<(&Path, &Summary)> = runs.into_iter().collect();
        let named: Vec<(&str, &Summary)> =
            given.iter().map(|(_, s)| (s.name.as_str(), *s)).collect();
        let own = || match named.as_slice() {
            [(_, one)] => first::answer(one),
            several => first::answer_of_several(several),
        };
        ShortReport {
            schema: SCHEMA_VERSION,
            taillight: env!("CARGO_PKG_VERSION").to_owned(),
            answer: answer.filter(|text| !text.is_empty()).unwrap_or_else(own),
            report: report.map(|path| path.to_string_lossy().into_owned()),
            runs: given.iter().map(|(path, summary)| run(path, summary)).collect(),
        }
    }

    /// One run, with its own page.
    pub fn of_run(path: &Path, summary: &Summary) -> ShortReport {
        let page = path.join(names::REPORT);
        ShortReport::new(None, Some(&*page).filter(|page| page.is_file()), [(path, summary)])
    }
}

fn run(path: &Path, summary: &Summary) -> ShortRun {
    let ceilings = summary.qos.iter().map(|qos| ShortCeiling {
        of: qos.workload.clone().or(qos.op.map(|op| op.name().to_owned())),
        at: qos.at.to_string(),
        ceiling_ns: qos.ceiling_ns,
        status: qos.status,
        jointly: qos.jointly,
        fanout: qos.requests.as_ref().map(|requests| requests.fanout),
    });
    ShortRun {
        name: summary.name.clone(),
        path: path.to_string_lossy().into_owned(),
        status: summary.status,
        verdict: summary.verdict.status,
        answer: first::answer(summary),
        reasons: summary.verdict.reasons.iter().map(|r| r.code.clone()).collect(),
        ops: whole_ops(summary)
            .map(|(op, _)| (op.name().to_owned(), figures(*op, summary)))
            .collect(),
        ceilings: ceilings.collect(),
    }
}

fn figures(op: OpKind, summary: &Summary) -> ShortFigures {
    let totals = &summary.ops[&op];
    let mut own = Vec::new();
    let mut time = |id: &str, name: &str| {
        let value = first::card_value(id, totals)?;
        if value.own {
            own.push(name.to_owned());
        }
        Some(value.ns)
    };
    let known = |value: f64| (!unsampled(totals)).then_some(value);
    ShortFigures {
        ops: totals.count,
        errors: totals.errors,
        iops: known(totals.iops),
        bytes_per_s: known(totals.bytes_per_s),
        p50_ns: time("p50", "p50_ns"),
        p99_ns: time("p99", "p99_ns"),
        p999_ns: time("p99.9", "p999_ns"),
        max_ns: time("max", "max_ns"),
        own,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_rundir::fixture;

    #[test]
    fn a_run_takes_about_a_kilobyte() {
        let short = ShortReport::of_run(Path::new("runs/a"), &fixture::summary("r"));
        assert_eq!(short.runs.len(), 1);
        assert!(serde_json::to_string(&short).unwrap().len() < 1500);
    }
}
