//! What differs between several runs: the load that was asked for, driver, options, library, version.
//!
//! Only what was chosen or disclosed is compared, not what was measured. Library and version of a
//! store stand there even when they are the same, because everybody asks: once for all runs.

use std::collections::BTreeMap;

use serde_json::Value;
use taillight_core::plan::{BlockSize, BlockSizePart, Plan};
use taillight_rundir::Manifest;

use super::about;
use super::run::AnalysedRun;
use crate::table::{Cell, Table, Tone};

/// Facts that are said even when all runs agree.
const ALWAYS: [&str; 2] = ["store.library", "store.version"];
/// A fact of runs that another tool measured; no difference by itself.
const IMPORTED: &str = "";
/// Facts that tell how options were given, not what they are.
const LEFT_OUT: &str = "store.from ";

/// The table; none for one run, or when nothing differs and nothing must be said.
pub fn differences(runs: &[AnalysedRun]) -> Option<Table> {
    let named: Vec<(&str, &Manifest)> =
        runs.iter().map(|r| (r.label.as_str(), &r.analysis.manifest)).collect();
    of(&named)
}

/// Names of the facts in which these runs differ.
pub fn differing(runs: &[&Manifest]) -> Vec<String> {
    let facts: Vec<BTreeMap<String, String>> = runs.iter().map(|m| facts(m)).collect();
    names(&facts).into_iter().filter(|name| differs(&facts, name)).cloned().collect()
}

/// Every fact that some run has.
fn names(facts: &[BTreeMap<String, String>]) -> Vec<&String> {
    let all = facts.iter().flat_map(BTreeMap::keys);
    let mut names: Vec<&String> = all.filter(|name| *name != IMPORTED).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Whether runs differ in a fact. What a driver does not have is no difference between its runs and those
/// of another one, and what another tool did not say is none either.
fn differs(facts: &[BTreeMap<String, String>], name: &str) -> bool {
    let known = |f: &&BTreeMap<String, String>| {
        if f.contains_key(IMPORTED) {
            return f.contains_key(name);
        }
        let same = facts.iter().filter(|o| o.get("driver") == f.get("driver"));
        same.clone().any(|o| o.contains_key(name))
    };
    let mut values = facts.iter().filter(known).map(|f| f.get(name));
    let first = values.next();
    values.any(|v| Some(v) != first)
}

fn of(runs: &[(&str, &Manifest)]) -> Option<Table> {
    let facts: Vec<BTreeMap<String, String>> = runs.iter().map(|(_, m)| facts(m)).collect();
    let names = names(&facts);
    let rows: Vec<Vec<Cell>> = names
        .iter()
        .filter(|n| {
            differs(&facts, n) || (ALWAYS.contains(&n.as_str()) && shared(&facts, n).is_none())
        })
        .map(|name| {
            let values = facts.iter().map(|f| match f.get(*name) {
                Some(value) => Cell::new(value.clone()),
                None => Cell::toned("-", Tone::Dim),
            });
            std::iter::once(Cell::new((*name).clone())).chain(values).collect()
        })
        .collect();
    let same: Vec<(&str, &str)> =
        ALWAYS.iter().filter_map(|name| Some((*name, shared(&facts, name)?))).collect();
    if runs.len() < 2 {
        return None;
    }
    match (rows.is_empty(), same.is_empty()) {
        (true, true) => None,
        (true, false) => Some(the_same(&same)),
        (false, _) => {
            let mut columns = vec![String::new()];
            columns.extend(runs.iter().map(|(label, _)| (*label).to_owned()));
            let said: Vec<String> = same.iter().map(|(n, v)| format!("{n} {v}")).collect();
            let note = format!("The same in all runs: {}.", said.join(", "));
            let note = Some(note).filter(|_| !same.is_empty());
            let empty = Table::of_words("differs", "What differs between the runs", &[]);
            Some(Table { note, columns, rows, ..empty })
        }
    }
}

/// The value that every run has; none when one has another or none.
fn shared<'a>(facts: &'a [BTreeMap<String, String>], name: &str) -> Option<&'a str> {
    let first = facts.first()?.get(name)?;
    let all = facts.iter().all(|f| f.get(name) == Some(first));
    all.then_some(first.as_str())
}

/// One column for all runs.
fn the_same(same: &[(&str, &str)]) -> Table {
    let row = |(name, value): &(&str, &str)| vec![Cell::new(*name), Cell::new(*value)];
    let empty = Table::of_words("differs", "The same in all runs", &["", "all runs"]);
    Table { rows: same.iter().map(row).collect(), ..empty }
}

/// What the job asked for, by the names of its fields.
fn asked(plan: &Plan, facts: &mut BTreeMap<String, String>) {
    let run = [
        ("run.duration", plan.run.duration.map(|d| d.to_string())),
        ("run.operations", plan.run.operations.map(|n| n.to_string())),
        ("run.bytes", plan.run.bytes.map(|b| b.to_string())),
        ("run.lock_memory", plan.run.lock_memory.map(|b| b.to_string())),
        ("target.size", plan.target.size.map(|s| s.to_string())),
    ];
    for (name, target) in &plan.targets {
        let size = target.size.map_or(String::new(), |s| format!(", {s}"));
        let path = target.path.as_deref().unwrap_or_default();
        facts.insert(format!("targets.{name}"), format!("{path}{size}"));
    }
    for (name, value) in run {
        facts.extend(value.map(|v| (name.to_owned(), v)));
    }
    for (i, w) in plan.workloads.iter().enumerate() {
        let fields = [
            ("target", w.target.clone()),
            ("workers", Some(w.workers.to_string())),
            ("queue_depth", Some(w.queue_depth.to_string())),
            ("mix", Some(about::mix(w))),
            ("block_size", Some(sizes(&w.block_size))),
            ("access", Some(about::access(w))),
            ("arrival", Some(w.arrival.to_string())),
            ("sync", Some(w.sync.to_string())),
            ("batch", Some(w.batch.to_string())),
            ("start_delay", (w.start_delay.0 > 0).then(|| w.start_delay.to_string())),
            ("warmup", w.warmup.map(|t| t.to_string())),
            ("nice", w.nice.map(|n| n.to_string())),
            ("io_priority", w.io_priority.map(|p| p.to_string())),
            ("duration", w.duration.map(|d| d.to_string())),
            ("operations", w.operations.map(|n| n.to_string())),
            ("bytes", w.bytes.map(|b| b.to_string())),
            ("flow", w.flow.map(|f| format!("{} of flow {}", f.share, f.id))),
            ("ends_run", w.ends_run.then(|| "true".to_owned())),
            ("ends_with", w.ends_with.clone()),
            ("keys.count", w.keys.as_ref().map(|k| k.count.to_string())),
        ];
        for (name, value) in fields {
            facts.extend(value.map(|v| (format!("workload.{i}.{name}"), v)));
        }
    }
}

fn sizes(of: &BlockSize) -> String {
    match of {
        BlockSize::Fixed(size) => size.to_string(),
        BlockSize::Range(range) => format!("{} to {}", range.min, range.max),
        BlockSize::Split(parts) => {
            let part = |p: &BlockSizePart| format!("{} x {}", p.weight, p.size);
            parts.iter().map(part).collect::<Vec<_>>().join(", ")
        }
        BlockSize::ByOp(each) => {
            let one = each.iter().map(|(op, of)| format!("{} {}", op.name(), sizes(of)));
            one.collect::<Vec<_>>().join("; ")
        }
    }
}

/// What was chosen and disclosed of a run, by name.
fn facts(manifest: &Manifest) -> BTreeMap<String, String> {
    let target = &manifest.plan.target;
    let mut facts = BTreeMap::from([("driver".to_owned(), target.driver.clone())]);
    if manifest.origin.imported().is_some() {
        facts.insert(IMPORTED.to_owned(), String::new());
    }
    asked(&manifest.plan, &mut facts);
    for (name, value) in &target.options {
        let text = match value {
            toml::Value::String(text) if text.is_empty() => "default".to_owned(),
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        facts.insert(format!("options.{name}"), text);
    }
    for (of, target) in &manifest.plan.targets {
        let options = target.options.iter();
        facts.extend(
            options.map(|(name, v)| (format!("targets.{of}.options.{name}"), v.to_string())),
        );
    }
    let disclosed = manifest.environment.get("driver").and_then(Value::as_object);
    for (name, value) in disclosed.into_iter().flatten() {
        let wanted = [
            "store.",
            "s3.server",
            "redis.",
            "postgres.",
            "kafka.",
            "fs.type",
            "fs.options",
            "device.",
            "io.engine",
            "worker.descriptors",
        ];
        let told = wanted.iter().any(|w| name.starts_with(w)) && !name.starts_with(LEFT_OUT);
        if let (true, Some(text)) = (told, value.as_str()) {
            facts.insert(name.clone(), text.to_owned());
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_rundir::fixture;

    fn run(cache: &str, library: &str) -> Manifest {
        let mut manifest = fixture::manifest("r");
        let options = &mut manifest.plan.target.options;
        options.insert("block_cache".to_owned(), toml::Value::String(cache.to_owned()));
        options.insert("same".to_owned(), toml::Value::Boolean(true));
        let driver = serde_json::json!({
            "store.library": library, "store.from options": cache, "io.align": cache,
        });
        manifest.environment.insert("driver".to_owned(), driver);
        manifest
    }

    fn names(a: &Manifest, b: &Manifest) -> Vec<String> {
        let table = of(&[("a", a), ("b", b)]).unwrap();
        table.rows.iter().map(|r| r[0].text.clone()).collect()
    }

    #[test]
    fn differences_and_the_library_are_shown() {
        let (small, large) = (run("1MiB", "/a.so"), run("9MiB", "/a.so"));
        assert_eq!(names(&small, &large), ["options.block_cache"]);
        let table = of(&[("a", &small), ("b", &large)]).unwrap();
        let note = table.note.unwrap();
        assert_eq!(note, "The same in all runs: store.library /a.so.");
        let other = run("1MiB", "/b.so");
        assert_eq!(names(&small, &other), ["store.library"]);
        let mut file = fixture::manifest("f");
        file.plan.target.driver = "file".to_owned();
        file.plan.target.options.clear();
        assert_eq!(names(&small, &file), ["driver", "store.library"]);
        assert!(of(&[("a", &small)]).is_none());
        // However many runs: said once.
        let many = of(&[("a", &small), ("b", &small), ("c", &small)]).unwrap();
        assert_eq!((many.rows.len(), many.columns.len()), (1, 2));
    }

    #[test]
    fn an_engine_that_was_chosen_by_depth_is_a_difference() {
        let chose = |engine: &str| {
            let mut manifest = fixture::manifest("r");
            let driver = serde_json::json!({ "io.engine": engine });
            manifest.environment.insert("driver".to_owned(), driver);
            manifest
        };
        assert_eq!(names(&chose("sync"), &chose("uring fixed_buffers")), ["io.engine"]);
    }

    #[test]
    fn another_load_is_a_difference() {
        let a = run("1MiB", "/a.so");
        let mut b = a.clone();
        b.plan.run.operations = Some(77);
        b.plan.target.size = Some(taillight_core::units::ByteSize(5 << 20));
        let w = &mut b.plan.workloads[0];
        w.queue_depth += 1;
        w.workers += 1;
        w.mix[0].op = taillight_core::OpKind::Trim;
        w.block_size = BlockSize::Fixed(taillight_core::units::ByteSize(512));
        w.arrival = taillight_core::plan::Arrival::Replay { file: "f".to_owned() };
        assert_eq!(
            names(&a, &b),
            [
                "run.operations",
                "target.size",
                "workload.0.arrival",
                "workload.0.block_size",
                "workload.0.mix",
                "workload.0.queue_depth",
                "workload.0.workers",
            ]
        );
    }
}
