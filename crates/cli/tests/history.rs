//! `taillight history` over nights of runs, of which one is copied and changed: a step, a suspect, runs that are left
//! out, and what is refused.

use std::path::Path;

use crate::common::{self, binary, json, run, run_line, scratch, text, unwrapped};
use serde_json::{Value, json};

const DAY: i64 = 86_400_000_000_000;
const FIRST: i64 = 1_790_000_000_000_000_000;

/// A run on virtual time whose operations take so many microseconds on average. The seed is fixed:
/// the median of 5,000 draws is uncertain by 2 %.
fn base(dir: &Path, name: &str, mean_us: u64) {
    let service = format!("target.options.service={{kind=\"exponential\",mean=\"{mean_us}us\"}}");
    let args = ["run", "--driver", "sim", "--ops", "5000", "--size", "1GiB", "--rw", "randread"];
    let seed = format!("run.seed={mean_us}");
    run(dir, &[&args[..], &["--output", name, "--set", &service, "--set", &seed]].concat(), 0);
}

fn change(file: &Path, change: impl FnOnce(&mut Value)) {
    let mut value = json(file);
    change(&mut value);
    common::write_uncovered(file, &value);
}

/// The run again as that of another night; the plan is that of `base`, whatever made it slower.
fn night(dir: &Path, of: &str, night: i64) {
    let to = dir.join(format!("nightly/{night:03}"));
    std::fs::create_dir_all(&to).expect("a directory");
    for entry in std::fs::read_dir(dir.join(of)).expect("a run") {
        let entry = entry.expect("a file").path();
        std::fs::copy(&entry, to.join(entry.file_name().expect("a name"))).expect("copied");
    }
    let plan = json(&dir.join("base/manifest.json"))["plan"].take();
    change(&to.join("manifest.json"), |manifest| {
        manifest["plan"] = plan;
        manifest["run_id"] = json!(format!("night-{night}"));
        manifest["clock"]["realtime_ns"] = json!(FIRST + night * DAY);
    });
}

/// Nights of 100 us, then of 130 us.
fn nightly(dir: &Path, fast: i64, slow: i64) {
    base(dir, "base", 100);
    base(dir, "slower", 130);
    (0..fast).for_each(|n| night(dir, "base", n));
    (fast..fast + slow).for_each(|n| night(dir, "slower", n));
}

#[test]
fn a_step_is_in_the_table_the_file_and_the_page() {
    let dir = scratch();
    nightly(dir.path(), 8, 5);
    let (out, _) = run(dir.path(), &["history", "nightly"], 0);
    assert!(
        unwrapped(&out).contains("13 nights from 2026-09-21 to 2026-10-03, of 13 runs."),
        "{out}"
    );
    assert!(
        out.contains("read p50") && out.contains("2026-09-29") && out.contains("worse"),
        "{out}"
    );
    let (out, _) = run_line(dir.path(), "history nightly --figure read:p50 --json", 0);
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(found, json(&dir.path().join("taillight-history/changes.json")));
    let changes = &found["figures"][0]["changes"];
    assert_eq!((changes.as_array().map(Vec::len), &changes[0]["night"]), (Some(1), &json!(8)));
    assert_eq!(changes[0]["run_id"], "night-8");
    let ratio = changes[0]["ratio"].as_f64().expect("a ratio");
    assert!((1.25..1.35).contains(&ratio), "{ratio}");
    let (schema, _) = run(dir.path(), &["schema", "changes"], 0);
    let schema = serde_json::from_str(&schema).expect("JSON");
    jsonschema::validate(&schema, &found).expect("as the schema says");
    let (out, _) = run_line(dir.path(), "history nightly --markdown", 0);
    assert!(out.contains("| read p50 | 2026-09-29 |"), "{out}");
    let page = std::fs::read_to_string(dir.path().join("taillight-history/report.html"));
    assert!(page.expect("a page").contains("plot-history-0"));
}

/// What the printed commands decide: they are run as they stand.
#[test]
fn the_commands_of_a_suspect_decide() {
    let dir = scratch();
    nightly(dir.path(), 8, 1);
    let (out, _) = run_line(dir.path(), "history nightly --figure read:p50", 0);
    assert!(out.contains("Suspect: 2026-09-29: read p50"), "{out}");
    let commands: Vec<&str> = out.lines().filter_map(|l| l.strip_prefix("    ")).collect();
    assert_eq!(commands.len(), 2, "{out}");
    let path = binary().parent().expect("a directory").display().to_string();
    let path = format!("{path}:{}", std::env::var("PATH").unwrap_or_default());
    for (command, code) in commands.iter().zip([0, 7]) {
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", command]).current_dir(dir.path()).env("PATH", &path);
        let output = shell.output().expect("a shell");
        assert_eq!(output.status.code(), Some(code), "{command}\n{}", text(&output.stderr));
    }
    // Links of an earlier history are not runs of a later one, and are made anew.
    let (again, _) = run_line(dir.path(), "history nightly --figure read:p50", 0);
    assert_eq!(out, again);
}

#[test]
fn runs_that_do_not_count_are_left_out_and_named() {
    let dir = scratch();
    nightly(dir.path(), 8, 0);
    let file = |night: u32, name: &str| dir.path().join(format!("nightly/{night:03}/{name}"));
    change(&file(1, "summary.json"), |s| s["status"] = json!("failed"));
    change(&file(2, "summary.json"), |s| s["status"] = json!("partial"));
    change(&file(3, "summary.json"), |s| s["totals"]["errors"] = json!(2));
    change(&file(4, "manifest.json"), |m| m["run_id"] = json!("night-0"));
    change(&file(4, "manifest.json"), |m| m["clock"]["realtime_ns"] = json!(FIRST));
    std::fs::write(file(5, "manifest.json"), "{").expect("written");
    std::fs::remove_file(file(6, "manifest.json")).expect("removed");
    let (out, _) = run_line(dir.path(), "history nightly --json", 0);
    let found: Value = serde_json::from_str(&out).expect("JSON");
    let left = found["left_out"].as_array().expect("runs").iter();
    let why: Vec<&str> = left.map(|l| l["why"].as_str().expect("words")).collect();
    assert_eq!(why.len(), 6, "{why:?}");
    let words =
        ["no manifest.json", "it failed", "it is not complete", "2 I/Os failed", "the same run as"];
    for words in words {
        assert!(why.iter().any(|why| why.contains(words)), "{words}: {why:?}");
    }
    assert_eq!(found["nights"].as_array().map(Vec::len), Some(2));
    let (out, _) = run_line(dir.path(), "history nightly", 0);
    let out = unwrapped(&out);
    assert!(out.contains("Left out 6 runs: ") && out.contains("3 more in changes.json"), "{out}");
    assert!(out.contains("too few nights"), "{out}");
    // What is only doubtful counts where that is asked for.
    let (out, _) = run_line(dir.path(), "history nightly --anyway --json", 0);
    let found: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(found["nights"].as_array().map(Vec::len), Some(4));
}

#[test]
fn what_is_no_history_is_refused() {
    let dir = scratch();
    nightly(dir.path(), 3, 0);
    std::fs::create_dir(dir.path().join("empty")).expect("made");
    let refused = |line: &str, code: i32, words: &str| {
        let (_, err) = run_line(dir.path(), line, code);
        assert!(unwrapped(&err).contains(words), "{line}: {err}");
        assert!(!dir.path().join("taillight-history").exists(), "{line}");
    };
    refused("history", 2, "required");
    refused("history nowhere", 4, "no run directory of this name");
    refused("history empty", 2, "no run in it");
    refused("history base", 2, "one night has no history");
    refused("history nightly --figure p99", 2, "`p99` is no figure");
    refused("history nightly --figure write:p99", 2, "no night has write:p99");
    refused("history nightly --night 12", 2, "is not a time");
    refused("history nightly --output base", 2, "not empty");
    for night in ["000", "001", "002"] {
        std::fs::write(dir.path().join(format!("nightly/{night}/manifest.json")), "{")
            .expect("written");
    }
    refused("history nightly", 4, "manifest.json");
}

#[test]
fn jobs_in_turn_are_no_history() {
    let dir = scratch();
    nightly(dir.path(), 6, 0);
    for night in [0, 2, 4] {
        let manifest = dir.path().join(format!("nightly/{night:03}/manifest.json"));
        change(&manifest, |m| m["plan"]["workload"][0]["queue_depth"] = json!(9));
    }
    let (_, err) = run_line(dir.path(), "history nightly", 2);
    assert!(err.contains("several jobs") && err.contains("queue_depth"), "{err}");
}
