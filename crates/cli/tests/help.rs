//! What the binary says about itself: help of each command, a plan and names in schemas word for word; version, pages
//! of drivers and `doctor` in parts.

use std::collections::BTreeSet;

use crate::common::{of_others, run, scratch};
use serde_json::Value;

fn said(args: &[&str]) -> String {
    let dir = scratch();
    let (out, err) = run(dir.path(), args, 0);
    assert!(err.lines().all(of_others), "{err}");
    out
}

#[test]
fn help_of_every_command() {
    let help = said(&["--help"]);
    let listed = help.lines().skip_while(|line| *line != "Measure:");
    let listed = listed.take_while(|line| *line != "Options:");
    // Text that goes on is indented further.
    let names = listed.filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
    let commands: Vec<&str> = names.filter_map(|line| line.split(' ').next()).collect();
    assert!(commands.contains(&"run") && commands.contains(&"man"), "{commands:?}");
    for command in commands {
        let own = said(&[command, "--help"]);
        // One layout: an option has its words beside it, and those of all commands come last.
        assert!(!own.contains("Possible values:") && !own.contains("see a summary"), "{own}");
        let flags = own.split("Options:\n").nth(1).and_then(|part| part.split("\n\n").next());
        let last = flags.and_then(|part| part.lines().rfind(|l| l.starts_with("  -")));
        assert!(last.is_some_and(|l| l.starts_with("  -h, --help ")), "{own}");
        for other in [&["help", command][..], &[command, "-h"]] {
            assert_eq!(said(other), own, "{command}");
        }
        insta::assert_snapshot!(format!("help-{command}"), own);
    }
    assert_eq!(said(&["help"]), help);
    insta::assert_snapshot!("help", help);
    let dir = scratch();
    let (_, err) = run(dir.path(), &["help", "nothing"], 2);
    assert!(err.contains("no such command") && err.contains("search"), "{err}");
}

#[test]
fn version_is_one_line() {
    assert_eq!(said(&["--version"]), format!("taillight {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_plan_word_for_word() {
    let args = "run --driver null --size 1GiB --rw randrw --bs 8KiB --depth 4 --workers 2 \
                --runtime 10s --rate 5000/s --sync fdatasync:8 --set run.seed=7 \
                --set capture.budget=64MiB --print-plan";
    insta::assert_snapshot!("plan", said(&args.split_whitespace().collect::<Vec<_>>()));
}

#[test]
fn schemas_of_five_files_describe_each_field() {
    for of in ["job", "manifest", "summary", "changes", "short"] {
        let schema: serde_json::Value = serde_json::from_str(&said(&["schema", of])).expect("JSON");
        assert!(schema["properties"].is_object(), "{of}");
        jsonschema::meta::validate(&schema).expect(of);
        undescribed(&schema, of);
    }
}

/// Fails on a property without a description; unnamed parts of lists need none.
fn undescribed(node: &serde_json::Value, path: &str) {
    if let Some(properties) = node["properties"].as_object() {
        for (name, value) in properties {
            let described = value["description"].is_string() || value["$ref"].is_string();
            assert!(described, "{path}.{name} has no description");
        }
    }
    if let Some(defs) = node["$defs"].as_object() {
        defs.iter().for_each(|(name, def)| undescribed(def, name));
    }
}

/// Names and words that a part of a schema has itself.
fn names(schema: &Value, found: &mut BTreeSet<String>) {
    let Some(fields) = schema.as_object() else {
        schema.as_array().into_iter().flatten().for_each(|part| names(part, found));
        return;
    };
    for (key, value) in fields.iter().filter(|(key, _)| *key != "$defs") {
        match key.as_str() {
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    found.insert(name.clone());
                    names(property, found);
                }
            }
            "const" => found.extend(value.as_str().map(str::to_owned)),
            "enum" => {
                let words = value.as_array().into_iter().flatten().filter_map(Value::as_str);
                found.extend(words.map(str::to_owned));
            }
            _ => names(value, found),
        }
    }
}

/// A name may be added here; one that goes or changes breaks a promise (docs/stability.md).
#[test]
fn names_in_files_and_json_word_for_word() {
    let mut lines = BTreeSet::new();
    let mut line = |of: &str, schema: &Value| {
        let mut found = BTreeSet::new();
        names(schema, &mut found);
        if !found.is_empty() {
            lines.insert(format!("{of}: {}", Vec::from_iter(found).join(" ")));
        }
    };
    for of in [
        "job",
        "suite",
        "manifest",
        "summary",
        "series-report",
        "compare",
        "changes",
        "explain",
        "selftest",
        "trace",
        "short",
        "nvme",
    ] {
        let schema: Value = serde_json::from_str(&said(&["schema", of])).expect("JSON");
        line(of, &schema);
        for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
            line(name, part);
        }
    }
    let drivers: Value = serde_json::from_str(&said(&["drivers", "--json"])).expect("JSON");
    for driver in drivers.as_array().expect("a list") {
        let options = driver["options"].as_array().into_iter().flatten();
        let options =
            Vec::from_iter(options.map(|option| option["name"].as_str().expect("a name")));
        lines.insert(format!("driver {}: {}", driver["name"], options.join(" ")));
        let keys = driver.as_object().expect("a driver").keys().map(String::as_str);
        lines.insert(format!("drivers: {}", Vec::from_iter(keys).join(" ")));
    }
    insta::assert_snapshot!("names", Vec::from_iter(lines).join("\n"));
}

#[test]
fn driver_pages_and_doctor() {
    assert!(said(&["drivers"]).starts_with("DRIVER"));
    assert!(said(&["drivers", "file"]).contains("engine = "));
    assert!(said(&["drivers", "file", "--markdown"]).starts_with("# Driver `file`\n"));
    assert!(said(&["schema", "job", "--markdown"]).starts_with("# Job file\n"));
    assert!(said(&["doctor"]).contains("io_uring"));
    let checks: serde_json::Value =
        serde_json::from_str(&said(&["doctor", "--json"])).expect("JSON");
    for check in checks.as_array().expect("a list") {
        let mut keys = Vec::from_iter(check.as_object().expect("a check").keys());
        keys.retain(|key| *key != "fix");
        assert_eq!(keys, ["name", "state", "found"], "{check}");
    }
}
