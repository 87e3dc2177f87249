//! Pins who may depend on whom. The direction is the architecture: a wrong edge fails here, and a
//! new crate fails until someone decides where it stands.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::steps::StepOutcome;
use crate::tool;

/// Every package of the workspace with the workspace packages it may use. `dev` dependencies keep
/// the same direction: a test that needs more belongs higher up.
const ALLOWED: &[(&str, &[&str])] = &[
    ("taillight-core", &[]),
    ("taillight-stats", &["taillight-core"]),
    ("taillight-rundir", &["taillight-core"]),
    // Packed records, their memory and their end as `ios.parquet`.
    ("taillight-capture", &["taillight-core", "taillight-rundir"]),
    // The one owner of what the kernel says of the machine: whoever needs it may read it.
    ("taillight-machine", &["taillight-core"]),
    // Servers for tests: s3test.
    ("taillight-driver", &["taillight-core", "taillight-machine", "taillight-s3test"]),
    (
        "taillight-engine",
        &[
            "taillight-core",
            "taillight-rundir",
            "taillight-capture",
            "taillight-stats",
            "taillight-driver",
        ],
    ),
    ("taillight-trace", &["taillight-core", "taillight-machine", "taillight-rundir"]),
    // Text to text: it must not need a driver to say what a job file means.
    ("taillight-import", &["taillight-core", "taillight-rundir"]),
    // Why the tail is slow: from the run directory to verdicts, without any output.
    ("taillight-explain", &["taillight-core", "taillight-rundir", "taillight-stats"]),
    (
        "taillight-report",
        &["taillight-core", "taillight-rundir", "taillight-stats", "taillight-explain"],
    ),
    (
        "taillight-suite",
        &[
            "taillight-core",
            "taillight-rundir",
            "taillight-stats",
            "taillight-driver",
            "taillight-engine",
            // A method ends in a report over its runs: its tables and words are the report's
            // types. Without this edge every method is split in two, its half in the binary.
            "taillight-report",
            // The method `ab` decides by what its pairs say so far.
            "taillight-compare",
            // The suite `ycsb` is properties of YCSB.
            "taillight-import",
        ],
    ),
    (
        "taillight-compare",
        &["taillight-core", "taillight-rundir", "taillight-stats", "taillight-report"],
    ),
    // Views of a running run: intervals come from the engine, words and charts from the report.
    (
        "taillight-live",
        &[
            "taillight-core",
            "taillight-rundir",
            "taillight-stats",
            "taillight-engine",
            "taillight-report",
        ],
    ),
    (
        "taillight-cli",
        &[
            "taillight-core",
            "taillight-rundir",
            // Salvage, and what killed runs left in memory.
            "taillight-capture",
            "taillight-stats",
            "taillight-driver",
            "taillight-engine",
            "taillight-machine",
            "taillight-trace",
            "taillight-explain",
            "taillight-report",
            "taillight-import",
            "taillight-suite",
            "taillight-compare",
            "taillight-live",
            "taillight-scale",
            // Its tests only: what explain says of faults made on purpose.
            "taillight-lab",
            "taillight-s3test",
        ],
    ),
    // Ranks, clocks and merges over a trait; it knows no MPI.
    ("taillight-scale", &["taillight-core", "taillight-rundir", "taillight-stats"]),
    // The command once more, with that trait over MPI. Its tests read run directories and start an object store.
    (
        "taillight-mpi",
        &[
            "taillight-core",
            "taillight-scale",
            "taillight-cli",
            "taillight-rundir",
            "taillight-s3test",
        ],
    ),
    ("taillight-lab", &["taillight-machine", "taillight-s3test"]),
    ("taillight-s3test", &[]),
    // Readers of everything that comes from outside.
    (
        "taillight-fuzz",
        &[
            "taillight-core",
            "taillight-driver",
            "taillight-engine",
            "taillight-import",
            "taillight-rundir",
            "taillight-capture",
            "taillight-suite",
            "taillight-trace",
        ],
    ),
    // Both treat the product as a program to run, as any user does. The benches also read run
    // directories, and time the engine's draws alone.
    (
        "taillight-bench",
        &["taillight-core", "taillight-rundir", "taillight-engine", "taillight-s3test"],
    ),
    ("xtask", &[]),
];

/// Heavy or unsafe crates that only the named ones may depend on directly.
const HEAVY: &[(&str, &[&str])] = &[
    ("parquet", &["taillight-rundir"]),
    ("plotly", &["taillight-report"]),
    ("minijinja", &["taillight-report"]),
    // The doctor, in trace, asks the kernel for a ring to say whether it allows one.
    ("io-uring", &["taillight-driver", "taillight-trace", "taillight-bench"]),
    // The command handles signals that `signal-hook` does not name; whose descriptors threads share is
    // kcmp(2), which rustix has not.
    (
        "libc",
        &[
            "taillight-cli",
            "taillight-driver",
            "taillight-machine",
            "taillight-trace",
            "taillight-bench",
        ],
    ),
    ("clap", &["taillight-cli", "taillight-lab"]),
    ("fuser", &["taillight-lab"]),
    ("indicatif", &["taillight-cli"]),
    ("aya", &["taillight-trace"]),
    // Metrics of Prometheus, and the trace that Perfetto reads.
    ("prost", &["taillight-live", "taillight-report"]),
    ("ratatui", &["taillight-live"]),
    ("snap", &["taillight-live"]),
    ("hyper", &["taillight-bench"]),
    ("tokio", &["taillight-bench"]),
];

/// The CI step: fails where an edge is not allowed.
pub fn step() -> Result<StepOutcome> {
    let wrong = check()?;
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    StepOutcome::note(format!("{} rules", ALLOWED.len() + HEAVY.len()))
}

/// Wrong edges of this workspace, as text.
pub fn check() -> Result<Vec<String>> {
    let mut cargo = tool::cargo(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let metadata: Value = serde_json::from_str(&tool::output(&mut cargo)?)?;
    Ok(wrong_edges(&packages(&metadata)?))
}

/// Package name -> names of its direct dependencies of every kind.
fn packages(metadata: &Value) -> Result<BTreeMap<String, Vec<String>>> {
    let list = metadata["packages"].as_array().context("no packages")?;
    let mut packages = BTreeMap::new();
    for package in list {
        let name = package["name"].as_str().context("package without name")?;
        let needs = package["dependencies"].as_array().context("no dependencies")?;
        let needs = needs
            .iter()
            .filter_map(|d| d["name"].as_str().map(String::from))
            // A crate names itself to switch a feature on in its own tests.
            .filter(|needed| needed != name)
            .collect();
        packages.insert(name.to_string(), needs);
    }
    Ok(packages)
}

fn wrong_edges(packages: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (name, needs) in packages {
        let Some((_, allowed)) = ALLOWED.iter().find(|(n, _)| n == name) else {
            wrong.push(format!("{name}: not in the list of xtask/src/edges.rs; decide its place"));
            continue;
        };
        for need in needs {
            if packages.contains_key(need) && !allowed.contains(&need.as_str()) {
                wrong.push(format!("{name} -> {need}: against the direction"));
            }
            let heavy = HEAVY.iter().find(|(n, _)| n == need);
            if heavy.is_some_and(|(_, users)| !users.contains(&name.as_str())) {
                wrong.push(format!("{name} -> {need}: kept out of this crate"));
            }
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(name: &str, need: &str) -> Vec<String> {
        wrong_edges(&BTreeMap::from([
            (name.to_string(), vec![need.to_string()]),
            (need.to_string(), vec![]),
        ]))
    }

    #[test]
    fn the_workspace_keeps_its_direction() {
        assert_eq!(check().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn wrong_edges_are_found() {
        for (name, need) in [
            ("taillight-core", "taillight-stats"),
            ("taillight-report", "taillight-engine"),
            ("taillight-report", "taillight-driver"),
            ("taillight-engine", "taillight-trace"),
            ("taillight-trace", "taillight-engine"),
            ("taillight-driver", "taillight-engine"),
            ("taillight-rundir", "taillight-stats"),
            ("taillight-rundir", "taillight-capture"),
            ("taillight-report", "taillight-capture"),
        ] {
            assert_eq!(one(name, need).len(), 1, "{name} -> {need}");
        }
        assert!(one("taillight-cli", "taillight-report").is_empty());
        assert_eq!(wrong_edges(&BTreeMap::from([("new".into(), vec![])])).len(), 1);
        let plot = BTreeMap::from([("taillight-core".to_string(), vec!["plotly".to_string()])]);
        assert_eq!(wrong_edges(&plot).len(), 1);
    }
}
