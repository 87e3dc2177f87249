//! `taillight compare`: which sides are refused, or compared with `--anyway` only, in clear words and with the right
//! exit code; runs that are left out; gates of flags and jobs.

use std::path::Path;

use crate::common::{self, json, run, run_line, scratch, signal, start_measuring, taillight};

/// Runs 20,000 operations on a simulated disk of this service time, ns, into `out`.
fn simulated(dir: &Path, out: &str, ns: u64, more: &[&str], code: i32) {
    let service = format!("target.options.service={{ kind = \"constant\", time = \"{ns}ns\" }}");
    let args = ["run", "--driver", "sim", "--size", "1GiB", "--ops", "20000", "--set"];
    let args = [&args[..], &[service.as_str(), "--output", out], more].concat();
    run(dir, &args, code);
}

/// A folder of three runs.
fn folder(dir: &Path, name: &str, ns: u64, more: &[&str]) {
    for i in 0..3 {
        let seed = format!("run.seed={i}");
        simulated(dir, &format!("{name}/{i}"), ns, &[&["--set", &seed], more].concat(), 0);
    }
}

fn refused(dir: &Path, line: &str, code: i32, parts: &[&str]) {
    let (_, err) = run_line(dir, line, code);
    let err = common::unwrapped(&err);
    for part in parts {
        assert!(err.contains(part), "{line}: `{part}` is not in: {err}");
    }
}

#[test]
fn a_side_that_is_empty_absent_or_the_other_one_is_refused() {
    let dir = scratch();
    simulated(dir.path(), "a", 1_000_000, &[], 0);
    std::fs::create_dir(dir.path().join("empty")).expect("made");
    refused(dir.path(), "compare a empty", 2, &["no run in it", "folder of runs"]);
    refused(dir.path(), "compare empty a", 2, &["no run in it"]);
    refused(dir.path(), "compare a absent", 4, &["no run directory of this name", "absent"]);
    refused(dir.path(), "compare a a", 2, &["cannot be compared", "on both sides"]);
    for one in ["compare a", "compare a/summary.json"] {
        refused(dir.path(), one, 2, &["needs two sides", "BASE NEW"]);
    }
    assert!(!dir.path().join("taillight-compare").exists(), "nothing is written");
}

#[test]
fn runs_without_success_with_errors_or_ended_early_are_told() {
    let dir = scratch();
    let at = dir.path();
    simulated(at, "a", 1_000_000, &[], 0);
    simulated(at, "dead", 1_000_000, &["--set", "target.options.errors.every=1"], 5);
    refused(
        at,
        "compare a dead --anyway",
        2,
        &["cannot be compared", "no successful I/O", "failed"],
    );
    simulated(at, "ill", 1_000_000, &["--set", "target.options.errors.every=500"], 6);
    refused(at, "compare a ill", 2, &["may not say the same", "I/Os of", "failed", "--anyway"]);
    run_line(at, "compare a ill --anyway", 0);
    let found = json(&at.join("taillight-compare/compare.json"));
    assert_eq!(found["comparable"]["verdict"], "doubtful");
}

#[test]
fn a_killed_run_is_refused_until_it_is_salvaged_and_then_doubtful() {
    let dir = scratch();
    let at = dir.path();
    let line = "run --driver null --runtime 60s --rate 1000/s --set run.interval=100ms --output";
    let mut killed = start_measuring(at, &format!("{line} killed"));
    signal(&killed, "KILL");
    killed.wait().expect("it ends");
    let whole = line.replace("60s", "1s");
    run_line(at, &format!("{whole} whole"), 0);
    refused(at, "compare whole killed", 2, &["no summary yet", "taillight report RUN"]);
    run_line(at, "report killed", 5);
    refused(at, "compare whole killed", 2, &["is not complete", "--anyway"]);
    let (out, _) = run_line(at, "compare whole killed --anyway", 0);
    assert!(out.contains("Doubtful: ") && out.contains("these two runs"), "{out}");
}

#[test]
fn runs_of_another_clock_latency_or_operation_are_not_compared() {
    let dir = scratch();
    let at = dir.path();
    simulated(at, "a", 1_000_000, &[], 0);
    run_line(at, "run --driver null --ops 20000 --rw randread --output real", 0);
    refused(at, "compare a real --anyway", 2, &["cannot be compared", "virtual"]);
    simulated(at, "open", 1_000_000, &["--rate", "500/s"], 0);
    refused(at, "compare a open --anyway", 2, &["response and service time are two things"]);
    simulated(at, "writes", 1_000_000, &["--rw", "randwrite"], 0);
    refused(at, "compare a writes --anyway", 2, &["no operation in common"]);
}

#[test]
fn an_operation_that_one_side_lacks_is_named_and_another_plan_listed() {
    let dir = scratch();
    let at = dir.path();
    simulated(at, "a", 1_000_000, &["--rw", "randrw"], 0);
    simulated(at, "b", 1_000_000, &["--depth", "4"], 0);
    refused(at, "compare a b", 2, &["another mix", "some runs have no write", "--anyway"]);
    let (out, _) = run_line(at, "compare a b --anyway", 0);
    assert!(out.contains("read p50") && !out.contains("write p50"), "{out}");
    assert!(common::unwrapped(&out).contains("workload.0.queue_depth"), "{out}");
    refused(at, "compare a b --anyway --gate write:p50", 2, &["no write:p50", "read:p50"]);
}

#[test]
fn ties_one_tick_of_the_clock_apart_are_no_difference() {
    let dir = scratch();
    let at = dir.path();
    folder(at, "a", 100, &[]);
    folder(at, "b", 101, &[]);
    folder(at, "c", 150, &[]);
    let p50 = |new: &str, exit: i32| {
        run_line(at, &format!("compare a {new} --gate read:p50 --output {new}-out"), exit);
        let found = json(&at.join(format!("{new}-out/compare.json")));
        let figures = found["figures"].as_array().expect("figures");
        let p50 = figures.iter().find(|f| f["figure"] == "p50").expect("p50");
        p50["verdict"].as_str().expect("a verdict").to_owned()
    };
    assert_eq!(p50("b", 0), "equal");
    assert_eq!(p50("c", 7), "worse");
}

#[test]
fn the_gate_of_a_job_decides_and_flags_win() {
    let dir = scratch();
    let at = dir.path();
    let gate = ["--set", "gate={ figures = [\"read:p99\", \"read:iops\"], margin = 0.03 }"];
    folder(at, "a", 1_000_000, &[]);
    folder(at, "b", 1_100_000, &gate);
    let (out, _) = run_line(at, "compare a b --output one", 7);
    let out = common::unwrapped(&out);
    assert!(out.contains("Gate read:p99 FAILED") && out.contains("Gate read:iops FAILED"), "{out}");
    let found = json(&at.join("one/compare.json"));
    assert_eq!(found["figures"][0]["margin"], 0.03);
    assert_eq!(found["gate"]["figures"][1]["status"], "fail");
    let schema = json_of(at, "schema compare");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    assert!(validator.is_valid(&found), "{found}");
    // In the other direction it is better, and the base's gate speaks.
    run_line(at, "compare b a --output two", 0);
    run_line(at, "compare b a --not-equal --output three", 7);
    run_line(at, "compare a b --gate read:p50 --margin 50% --output four", 0);
    refused(at, "compare a a2 --not-equal", 4, &["a2"]);
    folder(at, "c", 1_000_000, &[]);
    refused(at, "compare a c --not-equal", 2, &["--not-equal needs a gate", "[gate]"]);
    refused(at, "compare a c --single-runs-decide", 2, &["needs a gate"]);
    refused(at, "compare a c --gate read:p50 --gate read:p50", 2, &["given twice"]);
    refused(
        at,
        "compare a c --gate read:mean",
        2,
        &["no figure to decide by", "--gate read:p99.9"],
    );
    refused(at, "compare a c --junit no/such/file", 2, &["--junit names no file"]);
}

fn json_of(dir: &Path, line: &str) -> serde_json::Value {
    serde_json::from_str(&run_line(dir, line, 0).0).expect("JSON")
}

/// Runs of a side that are left out are named, whatever they lack.
#[test]
fn runs_that_are_no_good_are_never_left_out_silently() {
    let dir = scratch();
    let at = dir.path();
    folder(at, "a", 1_000_000, &[]);
    folder(at, "b", 1_100_000, &[]);
    let of_b = |file: &str| at.join("b/1").join(file);
    let doubtful = |why: &str| {
        refused(at, "compare a b", 2, &["b/1 is left out", why, "--anyway"]);
        run_line(at, "compare a b --anyway", 0);
        let found = json(&at.join("taillight-compare/compare.json"));
        assert_eq!(found["new"].as_array().expect("runs").len(), 2, "{why}");
        assert_eq!(found["comparable"]["verdict"], "doubtful", "{why}");
    };
    std::fs::rename(of_b("manifest.json"), at.join("away")).expect("moved");
    doubtful("no manifest.json");
    std::fs::rename(at.join("away"), of_b("manifest.json")).expect("moved");
    std::fs::remove_file(of_b("summary.json")).expect("removed");
    doubtful("no summary yet");

    // A point of a series that failed.
    let line = "run --driver sim --size 1GiB --ops 20000 --set run.repeat=3 --output";
    run_line(at, &format!("{line} s"), 0);
    run_line(at, &format!("{line} t"), 0);
    let series = at.join("t/series.json");
    let mut file = common::json(&series);
    file["points"][1]["status"] = "failed".into();
    common::write_uncovered(&series, &file);
    refused(at, "compare s t", 2, &["is left out: it failed", "--anyway"]);
}

#[test]
fn a_gate_that_a_run_does_not_resolve_is_undecided_and_one_that_none_has_is_refused() {
    let dir = scratch();
    let at = dir.path();
    folder(at, "a", 1_000_000, &[]);
    folder(at, "b", 1_000_000, &[]);
    let (out, _) = run_line(at, "compare a b --gate read:p99.9999", 8);
    assert!(common::unwrapped(&out).contains("not every run resolves it"), "{out}");
    refused(at, "compare a b --gate read:p42", 2, &["no read:p42", "read:p99"]);
    // The gate of a job is in the summaries of its runs.
    for (name, ns) in [("c", 1_000_000), ("d", 1_100_000)] {
        folder(at, name, ns, &["--set", "gate.figures=[\"read:p42\"]"]);
    }
    run_line(at, "compare c d", 7);
}

#[test]
fn damage_of_a_run_and_a_place_for_junit_that_is_none_are_told() {
    let dir = scratch();
    let at = dir.path();
    simulated(at, "a", 1_000_000, &[], 0);
    simulated(at, "b", 1_000_000, &[], 0);
    refused(at, "compare a b --junit nowhere/x.xml", 2, &["--junit", "nowhere"]);
    assert!(!at.join("taillight-compare").exists(), "nothing is written");
    let ios = at.join("b/ios.parquet");
    let mut bytes = std::fs::read(&ios).expect("I/Os");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&ios, bytes).expect("written");
    refused(at, "compare a b", 4, &["ios.parquet has another checksum", "undamaged copy"]);
    assert!(!at.join("taillight-compare").exists(), "nothing is written");
}

/// Adds a comment of TOML to a file of a run, whatever it is.
fn add_line(file: &Path) {
    let mut bytes = std::fs::read(file).expect("read");
    bytes.extend_from_slice(b"# again\n");
    std::fs::write(file, bytes).expect("written");
}

#[test]
fn a_changed_run_is_left_out_with_anyway_and_a_comment_in_its_job_is_no_change() {
    let dir = scratch();
    let at = dir.path();
    folder(at, "a", 1_000_000, &[]);
    folder(at, "b", 1_100_000, &[]);
    add_line(&at.join("b/1/job.toml"));
    let (_, err) = run_line(at, "compare a b", 0);
    assert!(err.contains("b/1: job.toml is damaged"), "{err}");
    for file in ["ios.parquet", "histograms.hlog", "host.parquet", "intervals.parquet"] {
        let (path, kept) = (at.join("b/2").join(file), at.join("kept"));
        if !path.exists() {
            continue;
        }
        std::fs::copy(&path, &kept).expect("copied");
        add_line(&path);
        refused(at, "compare a b", 2, &["b/2 is left out", file, "--anyway"]);
        run_line(at, "compare a b --anyway", 0);
        let found = json(&at.join("taillight-compare/compare.json"));
        assert_eq!(found["new"].as_array().expect("runs").len(), 2, "{file}");
        assert!(found["comparable"]["reasons"].to_string().contains("b/2 is left out"), "{file}");
        std::fs::rename(&kept, &path).expect("moved");
    }
}

#[test]
fn a_run_whose_name_is_no_text_is_compared() {
    use std::os::unix::ffi::OsStringExt;

    let dir = scratch();
    let at = dir.path();
    simulated(at, "a", 1_000_000, &[], 0);
    simulated(at, "b", 1_000_000, &[], 0);
    let name = std::ffi::OsString::from_vec(b"r\xff".to_vec());
    std::fs::rename(at.join("b"), at.join(&name)).expect("renamed");
    let output = taillight(at).args(["compare", "a"]).arg(&name).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", common::text(&output.stderr));
}
