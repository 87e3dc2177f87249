//! Examples in `jobs/` and `jobs/demo/` run, in little and on other storage: simulated, or in memory where they have
//! keys. Those that neither can run are left out. The plans of all are checked beside the code (`run/job.rs`).

use std::path::{Path, PathBuf};

use crate::common::{self, scratch};

fn jobs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    let mut found = Vec::new();
    for dir in [root.clone(), root.join("demo")] {
        for entry in std::fs::read_dir(&dir).expect("jobs/ is there").flatten() {
            if entry.path().extension().is_some_and(|e| e == "toml") {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    assert!(found.len() >= 8, "{found:?}");
    found
}

/// An empty directory in which the examples find the files that they name: names count from where
/// taillight is started.
fn examples_dir() -> tempfile::TempDir {
    let dir = scratch();
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    std::os::unix::fs::symlink(jobs, dir.path().join("jobs")).expect("linked");
    dir
}

/// Room for whole records of 1000 B, or for whole blocks of any power of two.
fn big(job: &str) -> &'static str {
    match job.contains("1000B") {
        true => "8GB",
        false => "8GiB",
    }
}

#[test]
fn examples_run_on_simulated_storage_or_in_memory() {
    // Two at a time: most of a run is waiting for its parts.
    let jobs = jobs();
    let half = jobs.len().div_ceil(2);
    std::thread::scope(|threads| {
        for part in jobs.chunks(half) {
            threads.spawn(|| part.iter().for_each(|job| runs_in_little(job)));
        }
    });
}

fn runs_in_little(job: &Path) {
    let text = std::fs::read_to_string(job).expect("readable");
    if text.contains("driver = \"s3\"") {
        // The store in memory has no objects to list.
        return;
    }
    if ["tpcb", "oltp_", "mix = \"checkpoint\""].iter().any(|mix| text.contains(mix)) {
        // Transactions and checkpoints are of no other store: tests of databases run these.
        return;
    }
    if text.contains("\n[targets.") {
        // Simulated storage is one target; a test in `runs.rs` has several.
        return;
    }
    let dir = examples_dir();
    let job = job.to_string_lossy().into_owned();
    // Keys are no offsets: a job with keys runs on the store in memory.
    let keyed = text.lines().any(|line| line.starts_with("keys = "));
    let on_sim = [
        "--driver",
        "sim",
        "--set",
        "target.options={}",
        "--size",
        big(&text),
        // Simulated storage keeps nothing that could be checked.
        "--set",
        "verify.mode=off",
    ];
    let short = ["--set", "run.warmup=0s", "--output", "out"];
    let mut args = vec!["run", job.as_str()];
    // The store in memory has no queue.
    let in_memory = ["--driver", "memory", "--set", "target.options={}", "--depth", "1"];
    // The probes of a search end by time.
    let is_search = job.ends_with("search.toml");
    if !is_search {
        args.extend(["--ops", "500"]);
    }
    if text.lines().any(|line| line.starts_with("batch = ")) {
        // Neither has batches: such an example runs whole on its own store (tests of the stores).
        args.extend(["--set", "workload.0.batch=1"]);
    }
    // Only the driver `metadata` has names of files: such an example runs on it.
    let names = text.contains("driver = \"metadata\"");
    match keyed {
        true if names => args.extend(["--path", "files/"]),
        true => args.extend(in_memory),
        false => args.extend(on_sim),
    }
    args.extend(short);
    // A ceiling cannot be decided over so few I/Os: that exit code is right as well.
    let output = common::taillight(dir.path()).args(&args).output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(matches!(output.status.code(), Some(0 | 8)), "{job}\n{said}");
    let result = |name: &str| -> Option<serde_json::Value> {
        let text = std::fs::read_to_string(dir.path().join("out").join(name)).ok()?;
        Some(serde_json::from_str(&text).expect("JSON"))
    };
    if is_search {
        let search = result("search.json").expect("search.json");
        assert_eq!(search["status"], "complete", "{job}\n{said}");
    } else if let Some(repeat) = result("repeat.json") {
        let runs = repeat["runs"].as_array().expect("runs");
        assert_eq!(Some(runs.len() as u64), repeat["asked"].as_u64(), "{job}");
        assert!(runs.iter().all(|r| r["count"] == 500), "{job}");
    } else {
        let summary = result("summary.json").expect("summary");
        let count = summary["totals"]["count"].as_u64().expect("a count");
        assert_eq!(count, 500, "{job}");
    }
}
