//! Whether two sides may be compared at all.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use taillight_core::plan::{MixPart, Plan, ReplayPlan, TraceFit, TraceTiming};
use taillight_core::{LatencyKind, OpKind};
use taillight_report::differing;
use taillight_report::format::counted;
use taillight_rundir::compare::{Comparable, ComparableVerdict};
use taillight_rundir::latency::LatencyBin;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::summary::VerdictStatus;
use taillight_rundir::{Manifest, RunDir, RunStatus};

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
pub fn judge(base: &[&SideRun], new: &[&SideRun]) -> Comparable {
    let mut found = Objections::none();
    for (name, side) in [("base", base), ("new", new)] {
        side.iter().for_each(|run| found.run(name, run));
        let mut seen = BTreeSet::new();
        if let Some(twice) = side.iter().find(|run| !seen.insert(&run.manifest.run_id)) {
            let id = &twice.manifest.run_id;
            found.add(ComparableVerdict::No, format!("{id} is twice among the runs of {name}"));
        }
        if let Some(names) = differs(side.iter().copied()) {
            found.add(ComparableVerdict::Doubtful, format!("the runs of {name} differ in {names}"));
        }
    }
    let (Some(a), Some(b)) = (base.first(), new.first()) else {
        found.add(ComparableVerdict::No, "a side has no run".to_owned());
        return found.done();
    };
    match replays(base, new) || replays(new, base) {
        true => found.add(
            ComparableVerdict::Yes,
            "one side replays what the other recorded: operations and their times are the same"
                .to_owned(),
        ),
        false if is_foreign(a) || is_foreign(b) => found.foreign_mix(a, b),
        false => found.load(&a.manifest.plan, &b.manifest.plan),
    }
    let all: Vec<&SideRun> = base.iter().chain(new).copied().collect();
    let id = |run: &SideRun| run.manifest.run_id.clone();
    if let Some(twice) = base.iter().find(|a| new.iter().any(|b| id(a) == id(b))) {
        let text = format!("{} is on both sides: a run does not differ from itself", id(twice));
        found.add(ComparableVerdict::No, text);
    }
    found.units(&all);
    let mut names = differing_names(&all);
    names.extend(
        several(all.iter().map(|run| &run.manifest.plan.target.path))
            .then(|| "target.path".to_owned()),
    );
    if !names.is_empty() {
        found.add(ComparableVerdict::Yes, format!("the sides differ in {}", names.join(", ")));
    }
    found.done()
}

/// Whether these runs do what those recorded, all of it and at its times.
fn replays(these: &[&SideRun], those: &[&SideRun]) -> bool {
    let is_recorded = |replay: &ReplayPlan| {
        let part = replay.from.is_some() || replay.length.is_some() || replay.select.is_some();
        let recorded =
            RunDir::open(Path::new(&replay.file)).ok().map(|it| it.manifest().run_id.clone());
        !part
            && replay.timing == TraceTiming::Recorded
            && replay.fit == TraceFit::Refuse
            && recorded.is_some_and(|id| those.iter().any(|run| run.manifest.run_id == id))
    };
    let counts = |runs: &[&SideRun]| {
        runs.iter().map(|run| run.summary.totals.count).collect::<BTreeSet<u64>>()
    };
    if counts(these) != counts(those) {
        return false;
    }
    these.iter().all(|run| match run.manifest.plan.workloads.as_slice() {
        [only] => only.trace.as_ref().is_some_and(is_recorded),
        _ => false,
    })
}

/// What speaks against comparing runs of these plans.
pub fn of_plans(base: &Plan, new: &Plan) -> Comparable {
    let mut found = Objections::none();
    found.load(base, new);
    found.done()
}

struct Objections(Comparable);

impl Objections {
    fn none() -> Objections {
        Objections(Comparable { verdict: ComparableVerdict::Yes, reasons: Vec::new() })
    }

    fn add(&mut self, verdict: ComparableVerdict, reason: String) {
        self.0.add(verdict, reason);
    }

    fn done(self) -> Comparable {
        self.0
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
        if let Some(source) = run.manifest.origin.imported().filter(|it| !it.failed.is_empty()) {
            let jobs = counted(source.failed.len() as u64, "job");
            self.add(doubtful, format!("{side}: an error ended {jobs} of {id}"));
        }
    }

    /// What figures are of: operations, the time that a latency is, and the clock.
    fn units(&mut self, all: &[&SideRun]) {
        let mut ops: BTreeSet<OpKind> = BTreeSet::new();
        all.iter().for_each(|run| ops.extend(run.summary.ops.keys().filter(|op| !op.is_part())));
        let (common, partial): (Vec<OpKind>, Vec<OpKind>) =
            ops.into_iter().partition(|op| all.iter().all(|run| run.summary.ops.contains_key(op)));
        if common.is_empty() {
            self.add(ComparableVerdict::No, "the runs have no operation in common".to_owned());
        }
        for op in partial {
            let text = format!("some runs have no {}: it is not compared", op.name());
            self.add(ComparableVerdict::Yes, text);
        }
        for op in common {
            let kinds = all.iter().map(|run| kind_of(run, op));
            if several(kinds.clone()) {
                let kinds: BTreeSet<&str> = kinds.map(|kind| kind.name()).collect();
                let kinds: Vec<&str> = kinds.into_iter().collect();
                let text = format!("the latency of {} is {}", op.name(), kinds.join(" or "));
                self.add(ComparableVerdict::No, text);
            }
        }
        let spans = |run: &&SideRun| match run.manifest.origin.imported() {
            Some(it) => format!("{}: {}", it.tool, it.spans),
            None => {
                let kind = run.summary.ops.values().next().map(|it| it.latencies.main_kind());
                format!(
                    "Taillight: {} time, submission included",
                    kind.map_or("service", |k| k.name())
                )
            }
        };
        if several(all.iter().map(spans)) {
            let said: BTreeSet<String> = all.iter().map(spans).collect();
            let said = said.into_iter().collect::<Vec<_>>().join("; ");
            let text = format!("a latency is not the same in all runs ({said})");
            self.add(ComparableVerdict::Yes, text);
        }
        for run in all.iter().filter(|run| is_foreign(run)) {
            let errors = run.summary.ops.values().map(|totals| totals.latencies.main().error);
            let most = errors.fold(0.0, f64::max);
            if most > LatencyBin::WIDE {
                let text = format!(
                    "a percentile of {} is the middle of its bin, up to {:.0} % off",
                    run.manifest.run_id,
                    100.0 * most
                );
                self.add(ComparableVerdict::Yes, text);
            }
        }
        if several(all.iter().map(|run| run.manifest.clock.source == "virtual")) {
            let text = "the time of some runs is virtual, of others real".to_owned();
            self.add(ComparableVerdict::No, text);
        }
    }

    /// What was done, where a result of another tool does not tell what was asked.
    fn foreign_mix(&mut self, a: &SideRun, b: &SideRun) {
        let ops: BTreeSet<OpKind> =
            a.summary.ops.keys().chain(b.summary.ops.keys()).copied().collect();
        for op in ops.into_iter().filter(|op| !op.is_part() && *op != OpKind::Fsync) {
            let (one, other) = (share_of(a, op), share_of(b, op));
            if (one - other).abs() > OTHER_MIX {
                let text = format!(
                    "the sides have another mix: {} is {:.0} % of one and {:.0} % of the other",
                    op.name(),
                    100.0 * one,
                    100.0 * other
                );
                self.add(ComparableVerdict::Doubtful, text);
            }
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
        let mixes = |plan: &Plan| plan.workloads.iter().map(|w| shares(&w.mix)).collect::<Vec<_>>();
        // An I/O of several records is another thing than one of one.
        let batches = |plan: &Plan| plan.workloads.iter().map(|w| w.batch).collect::<Vec<_>>();
        let same = [
            ("rate", rates(a) == rates(b)),
            ("mix", mixes(a) == mixes(b)),
            ("batch", batches(a) == batches(b)),
        ];
        for (name, same) in same {
            if !same {
                self.add(ComparableVerdict::Doubtful, format!("the sides have another {name}"));
            }
        }
    }
}

/// Shares of operations that differ by less are those of chance: another tool tells what was done, not what was asked.
const OTHER_MIX: f64 = 0.05;

fn is_foreign(run: &SideRun) -> bool {
    run.manifest.origin.imported().is_some()
}

/// What the latencies of an operation are.
fn kind_of(run: &SideRun, op: OpKind) -> LatencyKind {
    match run.manifest.origin.imported() {
        Some(source) if source.is_scheduled() => LatencyKind::Response,
        _ => run.summary.ops[&op].latencies.main_kind(),
    }
}

/// Share of an operation in what a run did.
fn share_of(run: &SideRun, op: OpKind) -> f64 {
    let whole = run.summary.ops.iter().filter(|(op, _)| !op.is_part());
    let all: u64 = whole.map(|(_, totals)| totals.count).sum();
    run.summary.ops.get(&op).map_or(0.0, |totals| totals.count as f64 / all.max(1) as f64)
}

/// Share of each operation in a mix, in millionths.
fn shares(mix: &[MixPart]) -> BTreeMap<OpKind, u64> {
    let all: u64 = mix.iter().map(|part| u64::from(part.weight)).sum();
    let mut shares = BTreeMap::new();
    for part in mix.iter().filter(|part| part.weight > 0) {
        *shares.entry(part.op).or_default() += u64::from(part.weight) * 1_000_000 / all;
    }
    shares
}

/// Names of the fields in which these runs differ; none where they agree.
pub fn differs<'a>(runs: impl Iterator<Item = &'a SideRun>) -> Option<String> {
    let names = differing_names(&runs.collect::<Vec<_>>());
    (!names.is_empty()).then(|| names.join(", "))
}

fn differing_names(runs: &[&SideRun]) -> Vec<String> {
    let manifests: Vec<&Manifest> = runs.iter().map(|run| &run.manifest).collect();
    let mut names = differing(&manifests);
    if runs.iter().any(|run| is_foreign(run)) {
        // How long it was and what it did stand in the place of what was asked.
        names.retain(|name| name != "run.duration" && !name.ends_with(".mix"));
    }
    let environments: Vec<Value> =
        manifests.iter().map(|m| Value::Object(m.environment.clone())).collect();
    // What another tool did not say is no difference.
    let known = |(_, at): &&(&str, &str)| {
        let tells =
            |(m, e): &(&&Manifest, &Value)| m.origin.is_measured() || e.pointer(at).is_some();
        let values = manifests.iter().zip(&environments).filter(tells);
        several(values.map(|(_, e)| e.pointer(at)))
    };
    let machine = MACHINE.iter().filter(known);
    names.extend(machine.map(|(name, _)| (*name).to_owned()));
    names.extend(several(manifests.iter().map(|m| &m.taillight)).then(|| "taillight".to_owned()));
    names.extend(several(manifests.iter().map(|m| ranks(m))).then(|| "ranks".to_owned()));
    names
}

/// How many ranks did the load; none where it was one process.
fn ranks(manifest: &Manifest) -> Option<u32> {
    match manifest.origin {
        RunOrigin::Merged { ranks } => Some(ranks),
        _ => None,
    }
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
