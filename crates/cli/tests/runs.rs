//! Whole runs of the binary: files, counts, signals, a killed run, a reader that went away.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use common::run;
use serde_json::Value;

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// Starts a long run and waits until its first interval is shown.
fn started(dir: &Path) -> Child {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("taillight"))
        .args("run --driver null --rate 2000/s --runtime 60s --output out".split(' '))
        .args(["--set", "run.interval=200ms"])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let out = child.stdout.take().expect("piped");
    let mut lines = BufReader::new(out).lines();
    lines
        .find(|l| l.as_ref().is_ok_and(|l| l.contains("measure")))
        .expect("an interval")
        .expect("text");
    // The rest is read on, so that the run never waits for us.
    std::thread::spawn(move || lines.for_each(drop));
    child
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status()
        .expect("kill");
    assert!(status.success());
}

#[test]
fn a_run_leaves_everything_and_can_be_repeated() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join("out").join(name);
    let args = "run --driver null --rw randrw --depth 4 --workers 2 --ops 20000 --output out";
    let (out, _) = run(dir.path(), &args.split(' ').collect::<Vec<_>>(), 0);
    assert!(out.contains("run directory: out"), "{out}");
    assert!(out.contains("report.html"), "{out}");
    let manifest = json(&at("manifest.json"));
    assert_eq!(manifest["status"], "complete");
    assert_eq!(manifest["repeat"], "taillight run out/job.toml");
    assert!(manifest["environment"]["cpu"]["logical"].is_u64());
    assert!(manifest["environment"]["load"]["after"].is_object());
    assert_eq!(json(&at("summary.json"))["totals"]["count"], 20000);
    for name in ["ios.parquet", "intervals.parquet", "histograms.hlog", "report.html"] {
        assert!(at(name).is_file(), "{name}");
    }
    // The job in the directory is the same run again: same plan, same seed.
    run(dir.path(), &["run", "out/job.toml", "--output", "again"], 0);
    let again = json(&dir.path().join("again/manifest.json"));
    assert_eq!(again["seed"], manifest["seed"]);
    assert_eq!(again["plan"]["workload"], manifest["plan"]["workload"]);
    // Both in one report.
    run(dir.path(), &["report", "out", "again", "--output", "both.html"], 0);
    assert!(dir.path().join("both.html").is_file());
    assert!(!dir.path().join("report.md").exists());
}

#[test]
fn a_comment_of_the_job_file_is_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let text = "# why I measure\n[run]\noperations = 10\n[target]\ndriver = \"null\"\n";
    std::fs::write(dir.path().join("mine.toml"), text).expect("written");
    run(dir.path(), &["run", "mine.toml", "--output", "out"], 0);
    let kept = std::fs::read_to_string(dir.path().join("out/job.toml")).expect("there");
    assert!(kept.contains("# # why I measure"), "{kept}");
    assert_eq!(json(&dir.path().join("out/manifest.json"))["plan"]["run"]["name"], "mine");
}

#[test]
fn the_job_may_come_from_standard_input() {
    let dir = tempfile::tempdir().expect("a directory");
    common::taillight(dir.path())
        .args(["run", "-", "--print-plan"])
        .write_stdin("[target]\ndriver = \"null\"\n")
        .assert()
        .success();
}

#[test]
fn signals_keep_what_was_measured() {
    for (name, code, word) in [("INT", 130, "SIGINT"), ("TERM", 143, "SIGTERM")] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut child = started(dir.path());
        signal(&child, name);
        assert_eq!(child.wait().expect("it ends").code(), Some(code));
        let manifest = json(&dir.path().join("out/manifest.json"));
        assert_eq!(manifest["status"], "partial");
        assert_eq!(manifest["reason"], format!("ended by {word}"));
        let summary = json(&dir.path().join("out/summary.json"));
        assert_eq!(summary["verdict"]["status"], "partial");
        assert!(summary["totals"]["count"].as_u64() > Some(0));
    }
}

#[test]
fn stopped_before_measuring_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("taillight"))
        .args("run --driver file --path data/ --size 8GiB --rw randread".split(' '))
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // The layout has begun when it says how far it is.
    let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let first = lines.next().expect("progress").expect("text");
    assert!(first.starts_with("laying out: "), "{first}");
    signal(&child, "INT");
    std::thread::spawn(move || lines.for_each(drop));
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let left = std::fs::read_dir(dir.path()).expect("readable").count();
    assert_eq!(left, 0);
}

#[test]
fn a_killed_run_is_salvaged() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = started(dir.path());
    let (_, err) = run(dir.path(), &["report", "out"], 4);
    assert!(err.contains("still going"), "{err}");
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, "KILL");
    child.wait().expect("it ends");
    let out = dir.path().join("out");
    assert_eq!(json(&out.join("manifest.json"))["status"], "running");
    run(dir.path(), &["report", "out"], 5);
    assert_eq!(json(&out.join("manifest.json"))["status"], "partial");
    run(dir.path(), &["report", "out"], 5);
    let summary = json(&out.join("summary.json"));
    assert_eq!(summary["status"], "partial");
    assert!(summary["totals"]["count"].as_u64() > Some(100), "{}", summary["totals"]["count"]);
}

#[test]
fn a_capture_that_is_deleted_in_the_run_is_said_and_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let child = started(dir.path());
    let out = dir.path().join("out");
    let id = json(&out.join("manifest.json"))["run_id"].clone();
    let capture = format!("/dev/shm/taillight-{}", id.as_str().expect("a name"));
    std::fs::remove_dir_all(&capture).expect("it is there");
    signal(&child, "TERM");
    let done = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(143), "{err}");
    assert!(err.contains("the capture was deleted while the run went"), "{err}");
    assert!(err.contains(&capture) && !err.contains("not lost"), "{err}");
    // Rates and histograms are whole; what is gone is counted.
    let (text, err) = run(dir.path(), &["report", "out"], 5);
    assert!(!err.contains("killed"), "{err}");
    assert!(text.contains("missing from the capture"), "{text}");
    assert!(!text.contains("nothing lost") && !text.contains("killed"), "{text}");
    let summary = json(&out.join("summary.json"));
    let (lost, all) = (&summary["losses"]["ios"], &summary["totals"]["count"]);
    assert!(lost.as_u64() > Some(100) && lost == all, "{lost} of {all}");
}

#[test]
fn a_killed_run_whose_capture_is_gone_does_not_say_that_nothing_is_lost() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = started(dir.path());
    signal(&child, "KILL");
    child.wait().expect("it ends");
    let id = json(&dir.path().join("out/manifest.json"))["run_id"].clone();
    let capture = format!("/dev/shm/taillight-{}", id.as_str().expect("a name"));
    std::fs::remove_dir_all(&capture).expect("it is there");
    let (text, err) = run(dir.path(), &["report", "out"], 5);
    assert!(err.contains("the capture in memory is gone"), "{err}");
    assert!(!text.contains("nothing lost"), "{text}");
    assert!(text.contains("capture files gone"), "{text}");
}

#[test]
fn a_reader_that_went_away_does_not_matter() {
    let dir = tempfile::tempdir().expect("a directory");
    for args in [
        vec!["drivers", "file"],
        vec!["schema", "summary"],
        vec!["run", "--driver", "null", "--ops", "1000", "--output", "out"],
    ] {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin("taillight"))
            .args(&args)
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {err}");
        assert!(!err.contains("panicked"), "{err}");
    }
    assert_eq!(json(&dir.path().join("out/manifest.json"))["status"], "complete");
}

#[test]
fn io_errors_and_ceilings_have_their_exit_codes() {
    let dir = tempfile::tempdir().expect("a directory");
    let sim = |out: &str, more: &[&str], code: i32| {
        let mut args = vec!["run", "--driver", "sim", "--ops", "5000", "--output", out];
        args.extend(more);
        run(dir.path(), &args, code)
    };
    sim("errors", &["--set", "target.options.errors={ every = 100, errno = 5 }"], 6);
    let dead = "target.options.errors={ every = 1, errno = 5 }";
    let (_, err) = sim("dead", &["--set", dead], 5);
    assert!(err.contains("too many I/O errors in a row"), "{err}");
    let manifest = json(&dir.path().join("dead/manifest.json"));
    assert_eq!(manifest["status"], "partial");
    let ceiling = |at: &str| format!("qos.ceilings=[{{ ceiling = \"1us\", at = \"{at}\" }}]");
    sim("failed", &["--set", &ceiling("50")], 7);
    let far = "qos.ceilings=[{ ceiling = \"1s\", at = \"99.9999\" }]";
    sim("undecided", &["--set", far], 8);
    let near = "qos.ceilings=[{ ceiling = \"1s\", at = \"50\" }]";
    sim("passed", &["--set", near], 0);
    // A report made later says the same, and over several runs the first that applies.
    for (run_dir, code) in
        [("errors", 6), ("dead", 5), ("failed", 7), ("undecided", 8), ("passed", 0)]
    {
        run(dir.path(), &["report", run_dir], code);
    }
    let (out, _) = run(dir.path(), &["report", "failed"], 7);
    assert!(out.starts_with("Ceiling missed:\n  Over the ceiling: "), "{out}");
    let several = ["report", "passed", "undecided", "failed", "errors"];
    run(dir.path(), &[&several[..], &["--output", "all"]].concat(), 6);
}

#[test]
fn a_damaged_file_is_named_and_stops_a_script() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = "run --driver null --rw randrw --ops 20000 --output out";
    run(dir.path(), &args.split(' ').collect::<Vec<_>>(), 0);
    let out = dir.path().join("out");
    let listed = json(&out.join("manifest.json"))["files"].clone();
    // Intervals, histograms, I/Os, host samples.
    assert_eq!(listed.as_array().map(Vec::len), Some(4), "{listed}");
    run(dir.path(), &["report", "out"], 0);
    let file = out.join("ios.parquet");
    let sound = std::fs::read(&file).expect("there");
    let mut flipped = sound.clone();
    flipped[sound.len() / 3] ^= 4;
    for damaged in [&flipped[..], &sound[..sound.len() / 2]] {
        std::fs::write(&file, damaged).expect("written");
        let (said, _) = run(dir.path(), &["report", "out"], 4);
        assert!(said.starts_with("Damaged:\n  ios.parquet is damaged"), "{said}");
        let words: Vec<&str> = said.split_whitespace().collect();
        let said = words.join(" ");
        assert!(said.contains("Percentiles come from histograms"), "{said}");
    }
    std::fs::write(&file, sound).expect("written");
    run(dir.path(), &["report", "out"], 0);
}

#[test]
fn a_count_at_a_rate_out_of_reach_is_saturation() {
    let dir = tempfile::tempdir().expect("a directory");
    // One slot at 100 us can do 10,000 operations a second at most.
    let args = "run --driver sim --ops 5000 --rate 1000000/s --output out";
    run(dir.path(), &args.split_whitespace().collect::<Vec<_>>(), 0);
    let summary = json(&dir.path().join("out/summary.json"));
    assert_eq!(summary["verdict"]["status"], "saturated", "{}", summary["verdict"]);
    let it = &summary["saturation"];
    assert_eq!(it["saturated"], true);
    assert!(it["backlog_max"].as_u64() > Some(1000), "{it}");
    assert_eq!(it["unsent"], 0, "a run that ends by a count sends it all: {it}");
    let schedule = &json(&dir.path().join("out/manifest.json"))["schedule"];
    assert_eq!(schedule["backlog_max"], it["backlog_max"]);
    // A rate within reach is none, and a closed loop has no schedule at all.
    let args = "run --driver sim --ops 5000 --rate 1000/s --output calm";
    run(dir.path(), &args.split_whitespace().collect::<Vec<_>>(), 0);
    let calm = json(&dir.path().join("calm/summary.json"));
    assert_eq!(calm["saturation"]["saturated"], false, "{}", calm["saturation"]);
    run(dir.path(), &["run", "--driver", "sim", "--ops", "100", "--output", "closed"], 0);
    let closed = json(&dir.path().join("closed/manifest.json"));
    assert!(closed.get("schedule").is_none(), "{closed}");
}

#[test]
fn a_backlog_worked_off_after_the_end_is_saturation_too() {
    let dir = tempfile::tempdir().expect("a directory");
    // 10,000 a second is all it can do. What is due in five seconds is done in six.
    let args = "run --driver sim --runtime 5s --rate 12000/s --output out";
    run(dir.path(), &args.split_whitespace().collect::<Vec<_>>(), 0);
    let summary = json(&dir.path().join("out/summary.json"));
    assert_eq!(summary["verdict"]["status"], "saturated", "{}", summary["verdict"]);
    let it = &summary["saturation"];
    let achieved = it["achieved_per_s"].as_f64().expect("a rate");
    assert!((achieved - 10_000.0).abs() < 10.0, "{it}");
    assert_eq!(it["unsent"], 0, "{it}");
}

#[test]
fn a_path_that_vanishes_in_the_run_is_measured_to_the_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("taillight"))
        .args("run --driver file --path data/ --size 4MiB --rw randread --direct=false".split(' '))
        .args("--runtime 1500ms --rate 2000/s --output out --set run.interval=200ms".split(' '))
        .current_dir(dir.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let shown = |l: &std::io::Result<String>| l.as_ref().is_ok_and(|l| l.contains("measure"));
    assert!(lines.any(|l| shown(&l)));
    std::thread::spawn(move || lines.for_each(drop));
    std::fs::remove_dir_all(dir.path().join("data")).expect("removed");
    let ended = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(!err.contains("panicked"), "{err}");
    // The open file outlives its name: every read is good, and the run says how it ended.
    let summary = json(&dir.path().join("out/summary.json"));
    assert_eq!(summary["errors"]["count"], 0, "{summary}");
    assert!(summary["totals"]["count"].as_u64() > Some(1000));
    assert_eq!(ended.status.code(), Some(0), "{err}");
}
