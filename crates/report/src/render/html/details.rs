//! What the page discloses about a run below its tables: command, plan, job file, machine, the run's phases and
//! capture, files.

use serde::Serialize;
use serde_json::Value;
use taillight_rundir::host::HostInfo;

use crate::format;
use crate::model::AnalysedRun;
use crate::model::about::{length, utc};

/// Names with what stands beside them, as text.
type Pairs = Vec<(String, String)>;

/// "Settings, environment and files" of one run, below its tables.
#[derive(Serialize)]
pub struct Details {
    /// The command as typed.
    command: String,
    /// The command that repeats the run.
    repeat: Option<String>,
    /// The resolved plan as TOML; itself a job file.
    plan: String,
    /// The job file as given.
    job: Option<String>,
    /// Machine, device, libraries: headings with pairs.
    environment: Vec<(String, Pairs)>,
    /// Facts about the run: start, version, seed, clock, phases, capture, counts, host samples.
    run: Pairs,
    /// Files of the run directory: name, size, and how many rows where it has rows.
    files: Vec<(String, String, String)>,
}

pub fn details(run: &AnalysedRun) -> Details {
    let manifest = &run.analysis.manifest;
    Details {
        command: manifest.command.clone(),
        repeat: manifest.repeat.clone(),
        plan: manifest
            .plan
            .to_toml()
            .unwrap_or_else(|e| format!("# the plan cannot be shown: {e}")),
        job: run.analysis.job.clone(),
        environment: environment(&manifest.environment),
        run: facts(run),
        files: run
            .summary
            .files
            .iter()
            .map(|f| {
                let rows = f.rows.map_or(String::new(), |n| format!("{} rows", format::count(n)));
                (f.name.clone(), format::bytes(f.bytes), rows)
            })
            .collect(),
    }
}

fn facts(run: &AnalysedRun) -> Pairs {
    let manifest = &run.analysis.manifest;
    let mut pairs: Pairs = Vec::new();
    let mut add = |key: &str, text: String| pairs.push((key.to_owned(), text));
    add("Run", manifest.run_id.clone());
    match manifest.clock.realtime_ns {
        0 => add("Started", "not known".to_owned()),
        at => add("Started", utc(at)),
    }
    add("Taillight", manifest.taillight.clone());
    add("Seed", manifest.seed.to_string());
    add("Clock", manifest.clock.source.clone());
    for phase in &manifest.phases {
        let length = length(phase.start_ns, phase.end_ns);
        add(
            &format!("Phase {}", phase.name),
            format!("{length}, {} I/Os", format::count(phase.ios)),
        );
    }
    let capture = &manifest.capture;
    let mut kept = format!(
        "{} I/Os kept, budget {}",
        format::count(capture.kept),
        format::bytes(capture.budget)
    );
    if let Some(used) = capture.used {
        kept.push_str(&format!(", {} used", format::bytes(used)));
    }
    if let Some(spilled) = capture.spilled.filter(|n| *n > 0) {
        kept.push_str(&format!(", {} spilled", format::bytes(spilled)));
    }
    add("Capture", kept);
    let counts = &run.analysis.counts;
    let recorder = counts.recorded.map_or("unknown".to_owned(), format::count);
    add("Counts", format!("recorder {recorder}, capture {}", format::count(counts.analysed)));
    pairs.extend(manifest.host.iter().flat_map(sampling));
    pairs
}

/// What is said about the sampling of the host: its cost, and the sources that could not be had.
fn sampling(info: &HostInfo) -> Pairs {
    let share = info.cpu_ns as f64 / info.interval_ns.max(1) as f64;
    let time = |ns: u64| format::duration_ns(ns);
    let mut said = vec![(
        "Host samples".to_owned(),
        format!(
            "{} every {}; one takes {} of CPU, {} of one CPU",
            format::count(info.samples),
            time(info.interval_ns),
            time(info.cpu_ns),
            format::percent(share)
        ),
    )];
    for source in &info.sources {
        if let Some(missing) = &source.missing {
            said.push((format!("Not sampled, {}", source.source), missing.clone()));
        }
    }
    said
}

/// Headings with pairs, nested keys joined by a comma; single values come first.
fn environment(map: &serde_json::Map<String, Value>) -> Vec<(String, Pairs)> {
    let mut top: Pairs = Vec::new();
    let mut groups = Vec::new();
    for (key, value) in map {
        match value {
            Value::Object(inner) => {
                let mut pairs = Pairs::new();
                for (name, value) in inner {
                    flatten(&mut pairs, &humanize(name), value);
                }
                if !pairs.is_empty() {
                    groups.push((humanize(key), pairs));
                }
            }
            value => flatten(&mut top, &humanize(key), value),
        }
    }
    if !top.is_empty() {
        groups.insert(0, (String::new(), top));
    }
    groups
}

fn flatten(pairs: &mut Pairs, key: &str, value: &Value) {
    match value {
        Value::Null => pairs.push((key.to_owned(), "unknown".to_owned())),
        Value::Object(map) => {
            for (name, value) in map {
                flatten(pairs, &format!("{key}, {}", humanize(name)), value);
            }
        }
        Value::Array(items) if items.iter().all(|v| !v.is_object() && !v.is_array()) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            pairs.push((key.to_owned(), items.join(", ")));
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                flatten(pairs, &format!("{key} {i}"), value);
            }
        }
        value => pairs.push((key.to_owned(), plain(value))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn humanize(key: &str) -> String {
    key.replace('_', " ")
}
