//! Whether two sides may be compared at all.

use std::collections::BTreeSet;

use serde_json::Value;
use taillight_core::plan::Plan;
use taillight_report::differing;
use taillight_rundir::compare::{Comparable, ComparableVerdict};
use taillight_rundir::summary::VerdictStatus;
use taillight_rundir::{Manifest, RunStatus};

use crate::side::SideRun;

/// Facts of the machine that people change between runs, and where `environment` of the manifest has them.
const MACHINE: [(&str, &str); 5] = [
    ("kernel", "/system/kernel"),
    ("CPU", "/cpu/model"),
    ("CPU governor", "/cpu/governor"),
    ("device", "/target/device/model"),
    ("device serial", "/target/device/serial"),
];

/// Everything that speaks against a comparison, the worst deciding, and what else differs.
pub fn judge(base: &[SideRun], new: &[SideRun]) -> Comparable {
    let mut found = Objections { verdict: ComparableVerdict::Yes, reasons: Vec::new() };
    for (name, side) in [("base", base), ("new", new)] {
        side.iter().for_each(|run| found.run(name, run));
        if let Some(names) = differs(side.iter()) {
            found.add(ComparableVerdict::Doubtful, format!("the runs of {name} differ in {names}"));
        }
    }
    let (Some(a), Some(b)) = (base.first(), new.first()) else {
        found.add(ComparableVerdict::No, "a side has no run".to_owned());
        return found.done();
    };
    found.load(&a.manifest.plan, &b.manifest.plan);
    let ops = |run: &SideRun| run.summary.ops.keys().copied().collect::<BTreeSet<_>>();
    if ops(a).is_disjoint(&ops(b)) {
        found.add(ComparableVerdict::No, "the sides have no operation in common".to_owned());
    }
    if let Some(names) = differs(base.iter().chain(new)) {
        found.add(ComparableVerdict::Yes, format!("the sides differ in {names}"));
    }
    found.done()
}

struct Objections {
    verdict: ComparableVerdict,
    reasons: Vec<String>,
}

impl Objections {
    fn add(&mut self, verdict: ComparableVerdict, reason: String) {
        self.verdict = self.verdict.max(verdict);
        if !self.reasons.contains(&reason) {
            self.reasons.push(reason);
        }
    }

    fn done(self) -> Comparable {
        Comparable { verdict: self.verdict, reasons: self.reasons }
    }

    fn run(&mut self, side: &str, run: &SideRun) {
        let id = &run.manifest.run_id;
        let (summary, doubtful) = (&run.summary, ComparableVerdict::Doubtful);
        if summary.totals.count == summary.totals.errors {
            self.add(ComparableVerdict::No, format!("{side}: {id} has no successful I/O"));
        }
        match summary.status {
            RunStatus::Complete => {}
            RunStatus::Failed => self.add(ComparableVerdict::No, format!("{side}: {id} failed")),
            _ => self.add(doubtful, format!("{side}: {id} is not complete")),
        }
        if summary.totals.errors > 0 {
            let failed = summary.totals.errors;
            self.add(doubtful, format!("{side}: {failed} I/Os of {id} failed"));
        }
    }

    /// What was asked: rates and operations must be the same, or figures mean different things.
    fn load(&mut self, a: &Plan, b: &Plan) {
        let closed = |plan: &Plan| plan.workloads.iter().all(|w| w.arrival.is_closed());
        if closed(a) != closed(b) {
            let why =
                "one side has a rate, the other none: response and service time are two things";
            self.add(ComparableVerdict::No, why.to_owned());
            return;
        }
        let rates =
            |plan: &Plan| plan.workloads.iter().map(|w| w.arrival.to_string()).collect::<Vec<_>>();
        let mixes =
            |plan: &Plan| plan.workloads.iter().map(|w| format!("{:?}", w.mix)).collect::<Vec<_>>();
        for (name, same) in [("rate", rates(a) == rates(b)), ("mix", mixes(a) == mixes(b))] {
            if !same {
                self.add(ComparableVerdict::Doubtful, format!("the sides have another {name}"));
            }
        }
    }
}

/// Names of the fields in which these runs differ; none where they agree.
pub fn differs<'a>(runs: impl Iterator<Item = &'a SideRun>) -> Option<String> {
    let manifests: Vec<&Manifest> = runs.map(|run| &run.manifest).collect();
    let mut names = differing(&manifests);
    let environments: Vec<Value> =
        manifests.iter().map(|m| Value::Object(m.environment.clone())).collect();
    let machine = MACHINE.iter().filter(|(_, at)| several(environments.iter().map(|e| e.pointer(at))));
    names.extend(machine.map(|(name, _)| (*name).to_owned()));
    names.extend(several(manifests.iter().map(|m| &m.taillight)).then(|| "taillight".to_owned()));
    (!names.is_empty()).then(|| names.join(", "))
}

/// Whether not all of them are the same.
fn several<T: PartialEq>(mut values: impl Iterator<Item = T>) -> bool {
    let first = values.next();
    values.any(|v| Some(v) != first)
}

/// Whether response times of a run depend on how long it was: it could not keep up with its rate.
pub fn is_saturated(run: &SideRun) -> bool {
    run.summary.verdict.status == VerdictStatus::Saturated
        || run.summary.verdict.reasons.iter().any(|r| r.code == "saturated")
}
