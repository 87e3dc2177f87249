//! Sweeps: every combination of values is run once a round, knees are found, a sweep is resumed, and what makes no
//! sense is refused before anything is touched.

use std::path::Path;

use crate::common::{self, json, manifest, run, scratch};
use serde_json::Value;

/// Four channels of 1 ms: the rate grows up to depth 4, and the latency from there on.
const JOB: &str = "[run]\nduration = \"2s\"\nseed = 11\n[target]\ndriver = \"sim\"\nsize = \"1GiB\"\n\
    options = { channels = 4, service = { kind = \"constant\", time = \"1ms\" } }\n[[workload]]\n";

fn write(dir: &Path, text: &str) {
    std::fs::write(dir.join("job.toml"), text).expect("a job");
}

fn points(dir: &Path) -> Vec<Value> {
    let series = json(&dir.join("out/series.json"));
    series["points"].as_array().expect("points").clone()
}

fn depths(points: &[Value]) -> Vec<u64> {
    let depth = |p: &Value| p["coordinates"]["workload.0.queue_depth"].as_u64().expect("a depth");
    points.iter().map(depth).collect()
}

#[test]
fn flags_sweep_every_combination() {
    let dir = scratch();
    write(dir.path(), JOB);
    let depths_flag = ["--sweep", "workload.0.queue_depth=1,4,16"];
    let sizes = ["--sweep", "workload.0.block_size=4KiB,64KiB"];
    let flags = [&["run", "job.toml", "--output", "out"], &depths_flag[..], &sizes[..]].concat();
    let (out, _) = run(dir.path(), &flags, 0);
    let all = points(dir.path());
    assert_eq!(depths(&all), [1, 1, 4, 4, 16, 16], "{out}");
    assert!(out.contains("6 runs, about 12 s of load"), "{out}");
    for point in &all {
        let plan =
            &manifest(&dir.path().join("out"), point["run"].as_str().expect("a name"))["plan"];
        let workload = &plan["workload"][0];
        assert_eq!(workload["queue_depth"], point["coordinates"]["workload.0.queue_depth"]);
        assert_eq!(workload["block_size"], point["coordinates"]["workload.0.block_size"]);
        let depth = workload["queue_depth"].as_f64().expect("a depth");
        let iops = point["values"]["iops"].as_f64().expect("a rate");
        let truth = 1_000.0 * depth.min(4.0);
        assert!((iops / truth - 1.0).abs() < 0.01, "{iops} at {depth}");
    }
    assert!(dir.path().join("out/report.html").is_file());
}

#[test]
fn a_table_sweeps_in_rounds_in_an_order_of_the_seed() {
    let dir = scratch();
    let sweep = "[sweep]\norder = \"shuffled\"\nworkload.0.queue_depth = [1, 2, 3, 4, 5, 6]\n";
    write(dir.path(), &format!("{}{sweep}", JOB.replace("[run]\n", "[run]\nrepeat = 3\n")));
    let (out, _) = run(dir.path(), &["run", "job.toml", "--output", "out"], 0);
    let all = points(dir.path());
    let rounds: Vec<Vec<u64>> = all.chunks(6).map(depths).collect();
    assert_eq!(rounds.len(), 3, "{out}");
    for round in &rounds {
        let mut sorted = round.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2, 3, 4, 5, 6], "each value once a round");
    }
    assert!(rounds[0] != rounds[1] || rounds[1] != rounds[2], "{rounds:?}");
    let (again, _) = run(dir.path(), &["run", "job.toml", "--output", "again"], 0);
    let other = json(&dir.path().join("again/series.json"));
    assert_eq!(depths(other["points"].as_array().expect("points")), depths(&all), "{again}");
    let shown = run(dir.path(), &["run", "job.toml", "--set", "run.seed=12", "--print-plan"], 0).0;
    assert_eq!(shown.matches("[run]").count(), 18);
    // What was not run when it was stopped is run, in the same order.
    let mut series = json(&dir.path().join("out/series.json"));
    for number in [1, 7] {
        series["points"][number]["status"] = "running".into();
    }
    common::write_uncovered(&dir.path().join("out/series.json"), &series);
    run(dir.path(), &["suite", "--resume", "out"], 0);
    let resumed = points(dir.path());
    assert_eq!(resumed.len(), all.len());
    for point in &all {
        let again = resumed.iter().find(|p| p["id"] == point["id"]).expect("the same points");
        assert_eq!((&again["values"], &again["status"]), (&point["values"], &point["status"]));
    }
}

/// Rates of 1,000 and 2,000 a second are reached, 9,000 are not: the device does 4,000.
#[test]
fn a_rate_that_was_not_reached_ends_the_range_of_the_knee() {
    let dir = scratch();
    let load = "queue_depth = 8\narrival = { kind = \"constant\", rate = \"1/s\" }\n";
    write(dir.path(), &format!("{JOB}{load}"));
    let args = ["run", "job.toml", "--output", "out"];
    let rates = ["--sweep", "workload.0.arrival.rate=1000/s,2000/s,9000/s"];
    let (out, _) = run(dir.path(), &[&args[..], &rates].concat(), 0);
    assert!(out.contains("knee at rate 2000/s"), "{out}");
    assert!(out.contains("; 9000/s was not reached"), "{out}");
}

#[test]
fn a_sweep_that_cannot_run_leaves_nothing() {
    let dir = scratch();
    write(dir.path(), JOB);
    let many: Vec<String> = (1..=40).map(|n| n.to_string()).collect();
    let many = many.join(",");
    let (depth, workers) =
        (format!("workload.0.queue_depth={many}"), format!("workload.0.workers={many}"));
    for (flags, what) in [
        (&["--sweep", "workload.0.queue_dept=1,2"][..], "queue_depth"),
        (&["--sweep", "workload.1.queue_depth=1,2"], "workload"),
        (&["--sweep", "workload.0.queue_depth=1,0"], "queue_depth"),
        (&["--sweep", "workload.0.queue_depth=1,none"], "none"),
        (&["--sweep", "workload.0.block_size=4KiB,4k"], "4k"),
        (&["--sweep", &depth, "--sweep", &workers], "1,600 points are too many"),
        (&["--sweep", &depth, "--depth", "3"], "set on the command line and swept"),
    ] {
        let args = [&["run", "job.toml", "--output", "out"], flags].concat();
        let (_, err) = run(dir.path(), &args, 2);
        assert!(err.contains(what), "{flags:?}: {err}");
        assert!(!dir.path().join("out").exists(), "{flags:?}");
    }
    let args = ["run", "job.toml", "--sweep", &depth, "--sweep", &workers];
    let (_, err) = run(dir.path(), &args, 2);
    assert!(err.contains("53 min of load"), "{err}");
    // A job file of fio has place for one run only.
    write(dir.path(), &format!("{JOB}[sweep]\nworkload.0.queue_depth = [1, 2]\n"));
    let (_, err) = run(dir.path(), &["export", "job.toml", "--format", "fio-job"], 2);
    assert!(err.contains("sweep"), "{err}");
}

#[test]
fn every_point_is_looked_at_before_the_first_runs() {
    let dir = scratch();
    let run = |line: &str, code| common::run_line(dir.path(), &format!("run --ops 9 {line}"), code);
    let file = "--driver file --path data --rw write --direct=false --output out";
    let (_, err) = run(&format!("{file} --sweep target.size=1MiB,4096TiB"), 4);
    assert!(err.contains("not enough space"), "{err}");
    let keys =
        "--driver memory --set workload.0.mix=get --output out --sweep workload.0.keys.count";
    let (_, err) = run(&format!("{keys}=9,1000000000000"), 4);
    assert!(err.contains("do not fit into memory"), "{err}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0);
    run(&format!("{file} --sweep target.size=1MiB,2MiB"), 0);
    assert_eq!(points(dir.path()).len(), 2);
}

/// The same depths in two phases are two curves, not two rounds of one.
#[test]
fn phases_of_a_suite_are_kept_apart() {
    let dir = scratch();
    let phase = |name: &str, channels: u32| {
        format!(
            "[[phase]]\nname = \"{name}\"\n[phase.set]\n\"target.options.channels\" = {channels}\n\
             [[phase.loop]]\npath = \"workload.0.queue_depth\"\nvalues = [1, 2, 4, 8, 16]\n"
        )
    };
    let text = format!(
        "rule = \"matrix\"\nname = \"mine\"\nabout = \"two devices\"\n{}{}{}",
        JOB.replace("[run]", "[job.run]")
            .replace("[target]", "[job.target]")
            .replace("[[workload]]", "[[job.workload]]"),
        phase("four", 4),
        phase("two", 2)
    );
    std::fs::write(dir.path().join("mine.toml"), text).expect("a suite");
    run(dir.path(), &["suite", "./mine.toml", "--output", "out"], 0);
    let series = json(&dir.path().join("out/series.json"));
    let axes = series["axes"].as_array().expect("axes");
    assert_eq!(axes[0]["values"], serde_json::json!(["four", "two"]));
    assert_eq!(axes[1]["values"], serde_json::json!([1, 2, 4, 8, 16]));
    let all = points(dir.path());
    assert_eq!(all[0]["coordinates"]["phase"], "four");
    assert_eq!(all[5]["coordinates"]["phase"], "two");
    let texts = series["decisions"].to_string();
    assert!(texts.contains("knee at queue_depth 4"), "{texts}");
    assert!(texts.contains("knee at queue_depth 2"), "{texts}");
}
