//! The head of a matrix's report: platform, device, set-up and test parameters, as SNIA's tests
//! disclose them, each under the name that readers of such reports look for. Facts are from the suite and from
//! manifests: of the last measured run, and for devices of the first run on each target.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use taillight_core::Result;
use taillight_core::plan::{TargetPlan, WorkloadPlan};
use taillight_core::units::readable;
use taillight_report::format::{count, duration, percent};
use taillight_report::model::about;
use taillight_report::{SheetColumn, StandardSheet};
use taillight_rundir::{JsonFile, Manifest, RunDir, nvme::NvmeFile};

use super::loops::value_text;
use super::matrix::{PurgeMethod, SuitePhase};
use super::matrix_method::{MatrixMethod, RunPart};
use super::operating_text::{self, PointChoice};
use super::steady::{SteadyOutcome, SteadyRounds};
use super::targets::TARGET;
use crate::method::PointResult;

/// Facts about a run by their place in its manifest.
struct ManifestFacts<'a>(&'a Manifest);

impl ManifestFacts<'_> {
    fn value(&self, path: &str) -> Option<&Value> {
        let mut parts = path.split('/');
        let first = self.0.environment.get(parts.next()?)?;
        parts.try_fold(first, |value, name| value.get(name))
    }

    fn text(&self, path: &str) -> Option<String> {
        match self.value(path)? {
            Value::String(text) => Some(text.clone()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
            other => Some(other.to_string()),
        }
    }

    /// What the driver said of itself, by a name that has dots.
    fn driver(&self, name: &str) -> Option<String> {
        Some(self.0.environment.get("driver")?.get(name)?.as_str()?.to_owned())
    }

    /// Of the disk below the target.
    fn device(&self, name: &str) -> Option<String> {
        self.text(&format!("target/device/{name}"))
    }

    /// Several facts with a word before each, those that are known.
    fn joined(&self, parts: &[(&str, &str)]) -> Option<String> {
        let known = parts.iter().filter_map(|(word, path)| {
            let value = self.text(path)?;
            Some(format!("{word} {value}").trim().to_owned())
        });
        let known: Vec<String> = known.collect();
        (!known.is_empty()).then(|| known.join(", "))
    }
}

/// The head of the report over the points so far; none before the first, and none for a suite that
/// follows no standard and purges nothing. Errors: `Corrupt` or `Unavailable` when a run directory
/// cannot be read.
pub(super) fn sheet(
    method: &MatrixMethod,
    found: &[(String, SteadyRounds)],
    choices: &[PointChoice<'_>],
    conformance: Option<String>,
    done: &[PointResult],
) -> Result<Option<StandardSheet>> {
    if conformance.is_none() && method.suite.phases.iter().all(|p| p.purge.is_none()) {
        return Ok(None);
    }
    // A point that is a series itself has no manifest of its own.
    let done: Vec<&PointResult> = done.iter().filter(|r| r.summary.is_some()).collect();
    let Some(first) = done.first() else {
        return Ok(None);
    };
    let shown = done.iter().rfind(|r| !r.point.role.is_state()).unwrap_or(first);
    let begun = RunDir::open(&first.dir)?.manifest().clock.realtime_ns;
    let run = RunDir::open(&shown.dir)?;
    let manifest = run.manifest();
    let facts = ManifestFacts(manifest);
    let devices = devices(method, &done)?;
    let ended = done.last().map(|r| RunDir::open(&r.dir)).transpose()?;
    let ended = ended.map_or(begun, |run| end_ns(run.manifest()));
    let missed = found.iter().filter(|(_, r)| r.outcome == SteadyOutcome::NotAchieved);
    let missed: Vec<&str> = missed.map(|(name, _)| name.as_str()).collect();
    let said = |column: &SheetColumn, wanted: &str| {
        let fact = column.facts.iter().find(|(name, _)| name == wanted);
        fact.map(|(_, value)| value.clone()).filter(|v| v != taillight_report::UNKNOWN)
    };
    let names: Vec<String> = match devices.as_slice() {
        [one] => ["manufacturer", "model"].iter().filter_map(|name| said(one, name)).collect(),
        several => vec![format!("{} targets", several.len())],
    };
    Ok(Some(StandardSheet {
        test: method.suite.about.clone(),
        conformance: conformance.unwrap_or_default(),
        device: match names.is_empty() {
            true => describe_target(&manifest.plan.target, &facts),
            false => names.join(" "),
        },
        dates: format!("{} to {}", about::utc(begun), about::utc(ended)),
        warning: (!missed.is_empty())
            .then(|| format!("STEADY STATE NOT ACHIEVED: {}", missed.join(", "))),
        columns: [vec![platform(&facts)], devices]
            .concat()
            .into_iter()
            .chain([set_up(method, manifest, engines(&done)?), test(method, found, choices, &done)])
            .collect(),
    }))
}

/// Difference between two clock pairs from which the wall clock was set, ns. Slewing stays below.
const STEP_NS: i64 = 1_000_000_000;

/// Whether the wall clock was set between the first run and the last, in words. Errors: `Corrupt` or
/// `Unavailable` when a run directory cannot be read.
pub(super) fn clock_step(done: &[PointResult]) -> Result<Option<String>> {
    let mut real = done.iter().filter(|r| r.summary.is_some());
    let (Some(first), Some(last)) = (real.next(), real.next_back()) else { return Ok(None) };
    let (first, last) = (RunDir::open(&first.dir)?, RunDir::open(&last.dir)?);
    let (first, last) = (first.manifest(), last.manifest());
    let ahead = |m: &Manifest| m.clock.realtime_ns - m.clock.monotonic_ns;
    let boot = |m: &Manifest| m.process.as_ref().map(|p| p.boot_id.clone());
    let step = ahead(last) - ahead(first);
    let real = first.clock.source != "virtual" && boot(first) == boot(last);
    let set = real && step.abs() > STEP_NS;
    let by = duration(step.unsigned_abs() as f64);
    let way = if step < 0 { "back" } else { "forward" };
    Ok(set.then(|| {
        format!("The wall clock was set {way} by {by} between the runs: dates may be wrong, times are not")
    }))
}

/// A column for each target, in the order they were first measured.
fn devices(method: &MatrixMethod, done: &[&PointResult]) -> Result<Vec<SheetColumn>> {
    let (mut seen, mut columns) = (Vec::new(), Vec::new());
    for result in done {
        let target = result.point.coordinates.get(TARGET);
        if seen.contains(&target) {
            continue;
        }
        seen.push(target);
        let run = RunDir::open(&result.dir)?;
        let nvme = NvmeFile::read(&result.dir).unwrap_or_default();
        let name = target.and_then(Value::as_str);
        columns.push(device(name, &ManifestFacts(run.manifest()), nvme.as_ref(), method));
    }
    Ok(columns)
}

/// When its last phase ended, on the wall clock.
fn end_ns(manifest: &Manifest) -> i64 {
    let clock = &manifest.clock;
    let ended = manifest.phases.iter().filter_map(|p| p.end_ns).max();
    ended.map_or(clock.realtime_ns, |end| clock.realtime_ns + (end - clock.monotonic_ns).max(0))
}

/// The words for a target whose device has no known model.
fn describe_target(target: &TargetPlan, facts: &ManifestFacts<'_>) -> String {
    let disk = facts.device("name").map(|name| format!(" on {name}")).unwrap_or_default();
    match &target.path {
        Some(path) => format!("{} {path}{disk}", target.driver),
        None => format!("driver {}", target.driver),
    }
}

fn platform(facts: &ManifestFacts<'_>) -> SheetColumn {
    let mut column = SheetColumn::new("Test platform");
    let mut add = |name: &str, value| column.add(name, value);
    let bytes = |path: &str| facts.value(path)?.as_u64().map(readable::bytes);
    add("platform", facts.text("system/hardware"));
    add("motherboard", facts.text("system/board"));
    let cpu = facts.text("cpu/model").map(|model| {
        let count = facts.text("cpu/logical").unwrap_or_default();
        format!("{model}, {count} logical")
    });
    add("CPU", cpu);
    add("memory", bytes("memory/total"));
    add("operating system", facts.text("system/os"));
    add("kernel", facts.text("system/kernel"));
    add("test software", Some(format!("Taillight {}", facts.0.taillight)));
    add("clock", Some(facts.0.clock.source.clone()));
    let virtual_machine = facts.value("cpu/hypervisor") == Some(&Value::Bool(true));
    add("virtual machine", Some(if virtual_machine { "yes" } else { "no" }.to_owned()));
    let share = |name: &str| {
        let share = facts.value(&format!("load/during/{name}"))?.as_f64()?;
        Some(percent(share / 100.0))
    };
    add("others' CPU use", share("others_percent"));
    add("steal", share("steal_percent"));
    column
}

fn device(
    target: Option<&str>,
    facts: &ManifestFacts<'_>,
    nvme: Option<&NvmeFile>,
    method: &MatrixMethod,
) -> SheetColumn {
    let title = target.map_or(String::new(), |name| format!(": {name}"));
    let mut column = SheetColumn::new(&format!("Device under test{title}"));
    let mut add = |name: &str, value| column.add(name, value);
    let drive = nvme.and_then(|file| file.drives.first());
    let said = |of: fn(&taillight_rundir::nvme::NvmeDrive) -> &String| {
        drive.map(of).filter(|text| !text.is_empty()).cloned()
    };
    add("manufacturer", facts.device("vendor"));
    add("model", facts.device("model").or_else(|| said(|d| &d.model)));
    add("serial number", facts.device("serial"));
    add("firmware", facts.device("firmware").or_else(|| said(|d| &d.firmware)));
    let size = facts.value("target/device/size").and_then(Value::as_u64);
    add("user capacity", size.map(|bytes| format!("{:.1} GB", bytes as f64 / 1e9)));
    let link = facts.joined(&[("", "target/device/transport"), ("", "target/device/link")]);
    add("interface", link);
    add("NAND type", None);
    add("device", facts.device("name"));
    let queue = [
        ("", "target/device/queue/scheduler"),
        ("nr_requests", "target/device/queue/nr_requests"),
        ("wbt us", "target/device/queue/wbt_lat_usec"),
    ];
    add("I/O scheduler", facts.joined(&queue));
    let mount = [("", "target/file_system/kind"), ("", "target/file_system/options")];
    add("file system", facts.joined(&mount).or(Some("none".to_owned()).filter(|_| size.is_some())));
    let cache = facts.driver("queue.write_cache").or_else(|| facts.device("queue/write_cache"));
    add("write cache", cache);
    for drive in nvme.iter().flat_map(|file| &file.drives) {
        let state = drive.write_cache.map(|on| if on { "on" } else { "off" }.to_owned());
        add(&format!("write cache of {}", drive.name), state);
    }
    let purges = method.suite.phases.iter().filter_map(|p| p.purge);
    let mut purges: Vec<&str> = purges.map(PurgeMethod::label).collect();
    purges.dedup();
    let purge = if purges.is_empty() { "none".to_owned() } else { purges.join(", ") };
    add("purge", Some(purge));
    if let Some((method, seconds)) = facts.driver("purge.method").zip(facts.driver("purge.seconds"))
    {
        add("purged by", Some(format!("{method}, {seconds} s")));
    }
    column
}

/// The plan of the first point of a phase; not of a run before it.
fn plan_of(method: &MatrixMethod, phase: usize) -> Option<&taillight_core::plan::Plan> {
    let mut points = method.points.iter();
    points.find(|p| p.phase == phase && p.part != RunPart::Before).map(|p| &p.point.plan)
}

/// Order, block size, mix, workers and depth of a phase's load, and how long it lasts.
fn stimulus(method: &MatrixMethod, phase: usize) -> Option<String> {
    let plan = plan_of(method, phase)?;
    let load = plan.workloads.iter().map(|w| about::workload(w, plan.workloads.len() > 1));
    let passes = plan.workloads.iter().filter_map(|w| w.passes).max();
    let end = match passes {
        Some(1) => "1 pass".to_owned(),
        Some(passes) => format!("{passes} passes"),
        None => plan.run.duration.map_or("unknown time".to_owned(), |t| t.to_string()),
    };
    Some(format!("{}, {end}", load.collect::<Vec<_>>().join("; ")))
}

fn pattern(plan: &WorkloadPlan) -> Option<String> {
    match serde_json::to_value(&plan.payload).ok()? {
        Value::String(text) => Some(text),
        other => Some(other.to_string()),
    }
}

fn active_range(target: &TargetPlan) -> String {
    target.size.map_or("all of the target".to_owned(), |size| size.to_string())
}

/// The engines of the runs: which one a run takes may depend on its queue depth.
fn engines(done: &[&PointResult]) -> Result<Option<String>> {
    let depth = |r: &PointResult| r.point.plan.workloads.iter().map(|w| w.queue_depth).max();
    let by_depth: BTreeMap<_, _> = done.iter().map(|r| (depth(r), r)).collect();
    let mut engines = BTreeSet::new();
    for result in by_depth.values() {
        engines.extend(ManifestFacts(RunDir::open(&result.dir)?.manifest()).driver("io.engine"));
    }
    let engines: Vec<String> = engines.into_iter().collect();
    Ok((!engines.is_empty()).then(|| engines.join(", ")))
}

fn set_up(method: &MatrixMethod, manifest: &Manifest, engines: Option<String>) -> SheetColumn {
    let mut column = SheetColumn::new("Set-up parameters");
    let phases: Vec<(usize, &SuitePhase)> = method.suite.phases.iter().enumerate().collect();
    let states = phases.iter().filter(|(_, p)| p.preconditions());
    let states: Vec<&(usize, &SuitePhase)> = states.collect();
    let plan = states.first().and_then(|(at, _)| plan_of(method, *at));
    let target = &manifest.plan.target;
    let first = plan.and_then(|plan| plan.workloads.first()).or(manifest.plan.workloads.first());
    column.add("data pattern", first.and_then(pattern));
    column.add("active range", Some(active_range(target)));
    for (n, (at, phase)) in states.iter().enumerate() {
        column.add(
            &format!("precondition {}", n + 1),
            stimulus(method, *at).map(|load| format!("{}: {load}", phase.name)),
        );
    }
    if states.is_empty() {
        column.add("precondition", Some("none".to_owned()));
    }
    column.add("driver", Some(target.driver.clone()));
    column.add("direct I/O", ManifestFacts(manifest).driver("io.direct"));
    column.add("engine", engines);
    column.add("seed", Some(method.head.seed.to_string()));
    column
}

fn test(
    method: &MatrixMethod,
    found: &[(String, SteadyRounds)],
    choices: &[PointChoice<'_>],
    done: &[&PointResult],
) -> SheetColumn {
    let mut column = SheetColumn::new("Test parameters");
    let phases = method.suite.phases.iter().enumerate();
    for (at, phase) in phases.filter(|(_, p)| !p.preconditions() && p.purge.is_none()) {
        let loops = phase.loops.iter().map(|l| {
            let values: Vec<String> = l.values.iter().map(value_text).collect();
            format!("{}: {}", l.path.rsplit('.').next().unwrap_or(&l.path), values.join(", "))
        });
        let mut said: Vec<String> = stimulus(method, at).into_iter().collect();
        said.extend(loops);
        column.add(&phase.name, Some(said.join("; ")));
    }
    for (name, rounds) in found {
        let window = rounds.tracks.iter().find_map(|t| t.window);
        let said = match (rounds.outcome, window) {
            (SteadyOutcome::Achieved(_), Some(w)) => format!("{} to {}", w.first, w.last),
            (SteadyOutcome::NotAchieved, _) => format!("NOT ACHIEVED in {}", rounds.rounds),
            _ => format!("undecided after {}", rounds.rounds),
        };
        column.add(&format!("steady rounds, {name}"), Some(said));
    }
    for (name, chosen) in operating_text::disclosed(choices) {
        column.add(&name, Some(chosen));
    }
    let errors: f64 = done.iter().filter_map(|r| r.values.get("errors")).sum();
    column.add("I/O errors", Some(count(errors as u64)));
    column.add("deviations", Some(count(method.deviations.len() as u64)));
    column
}
