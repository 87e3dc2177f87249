//! What differs between the targets of several runs: driver, options, library, version, settings.
//!
//! Only what was chosen or disclosed is compared, not what was measured. Library and version of a
//! store stand there even when they are the same, because everybody asks.

use std::collections::BTreeMap;

use serde_json::Value;
use taillight_rundir::Manifest;

use crate::model::{Cell, Table, Tone};
use crate::render::Run;

/// Facts that are shown even when all runs agree.
const ALWAYS: [&str; 2] = ["store.library", "store.version"];
/// Facts that tell how options were given, not what they are.
const LEFT_OUT: &str = "store.from ";

/// The table; none for one run, or when nothing differs and nothing must be said.
pub fn table(runs: &[Run]) -> Option<Table> {
    let named: Vec<(&str, &Manifest)> = runs
        .iter()
        .map(|r| (r.label.as_str(), &r.analysis.manifest))
        .collect();
    of(&named)
}

fn of(runs: &[(&str, &Manifest)]) -> Option<Table> {
    let facts: Vec<BTreeMap<String, String>> = runs.iter().map(|(_, m)| facts(m)).collect();
    let mut names: Vec<&String> = facts.iter().flat_map(BTreeMap::keys).collect();
    names.sort_unstable();
    names.dedup();
    // What a driver does not have is no difference between its runs and those of another one.
    let differs = |name: &str| {
        let known = |f: &&BTreeMap<String, String>| {
            let same = facts.iter().filter(|o| o.get("driver") == f.get("driver"));
            same.clone().any(|o| o.contains_key(name))
        };
        let mut values = facts.iter().filter(known).map(|f| f.get(name));
        let first = values.next();
        values.any(|v| Some(v) != first)
    };
    let any = names.iter().any(|n| differs(n));
    let rows: Vec<Vec<Cell>> = names
        .iter()
        .filter(|n| ALWAYS.contains(&n.as_str()) || differs(n))
        .map(|name| {
            let values = facts.iter().map(|f| match f.get(*name) {
                Some(value) => Cell::new(value.clone()),
                None => Cell::toned("-", Tone::Dim),
            });
            std::iter::once(Cell::new((*name).clone()))
                .chain(values)
                .collect()
        })
        .collect();
    if runs.len() < 2 || rows.is_empty() {
        return None;
    }
    let mut columns = vec![String::new()];
    columns.extend(runs.iter().map(|(label, _)| (*label).to_owned()));
    Some(Table {
        id: "differs",
        title: match any {
            true => "What differs between the targets".to_owned(),
            false => "The same in all targets".to_owned(),
        },
        note: None,
        columns,
        rows,
        detail: false,
        words: true,
    })
}

/// What was chosen and disclosed of a target, by name.
fn facts(manifest: &Manifest) -> BTreeMap<String, String> {
    let target = &manifest.plan.target;
    let mut facts = BTreeMap::from([("driver".to_owned(), target.driver.clone())]);
    for (name, value) in &target.options {
        let text = match value {
            toml::Value::String(text) if text.is_empty() => "default".to_owned(),
            toml::Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        facts.insert(format!("options.{name}"), text);
    }
    let disclosed = manifest
        .environment
        .get("driver")
        .and_then(Value::as_object);
    for (name, value) in disclosed.into_iter().flatten() {
        let wanted = [
            "store.",
            "s3.server",
            "redis.",
            "fs.type",
            "fs.options",
            "device.",
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
        options.insert(
            "block_cache".to_owned(),
            toml::Value::String(cache.to_owned()),
        );
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
        assert_eq!(
            names(&small, &large),
            ["options.block_cache", "store.library"]
        );
        let other = run("1MiB", "/b.so");
        assert_eq!(names(&small, &other), ["store.library"]);
        let mut file = fixture::manifest("f");
        file.plan.target.driver = "file".to_owned();
        file.plan.target.options.clear();
        assert_eq!(names(&small, &file), ["driver", "store.library"]);
        assert!(of(&[("a", &small)]).is_none());
        assert!(of(&[("a", &small), ("b", &small)]).is_some_and(|t| t.rows.len() == 1));
    }
}
