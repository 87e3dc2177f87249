//! Limits of the process (`ulimit`), and runs that are aborted, stopped or hung up on: what is said, and what is kept.

use std::process::Command;
use std::time::Duration;

use crate::common::{
    self, binary, ended, manifest, scratch, signal, start, start_measuring, summary,
};

/// Runs it under `ulimit LIMIT`; the exit code must be `code`. Standard error.
fn under(dir: &std::path::Path, limit: &str, line: &str, code: i32) -> String {
    let output = Command::new("sh")
        .args(["-c", &format!("ulimit {limit} && exec \"$0\" {line}")])
        .arg(binary())
        .current_dir(dir)
        .output()
        .expect("a shell");
    ended(&output, code).1
}

#[test]
fn a_file_that_becomes_too_large_is_an_error_that_names_the_limit() {
    let dir = scratch();
    let file = "run --driver file --path data/ --size 4MiB --ops 100 --output out";
    let err = under(dir.path(), "-f 1000", file, 4);
    assert!(err.contains("taillight-0.dat") && err.contains("ulimit -f"), "{err}");
    assert!(!dir.path().join("out").exists() && !dir.path().join("data").exists());
    // What does not fit here is the page, after a complete run.
    let err = under(dir.path(), "-f 100", "run --driver null --ops 1000 --output out", 5);
    assert!(err.contains("report.html") && err.contains("ulimit -f"), "{err}");
    assert_eq!(manifest(dir.path(), "out")["status"], "complete");
}

#[test]
fn a_file_that_fills_and_would_be_too_large_costs_no_data() {
    let dir = scratch();
    std::fs::write(dir.path().join("thesis"), vec![7; 1 << 20]).expect("written");
    let file = "run --driver file --path thesis --rw randwrite --bs 4KiB --ops 16 --output out \
                --set target.options.direct=false --set target.options.fill=99% \
                --set target.destroy=true --destroy thesis";
    let err = under(dir.path(), "-f 2000", file, 4);
    assert!(err.contains("taillight-fill.dat") && err.contains("ulimit -f"), "{err}");
    assert!(std::fs::read(dir.path().join("thesis")).expect("there") == vec![7; 1 << 20]);
}

#[test]
fn a_run_whose_end_cannot_be_noted_is_not_lost() {
    let dir = scratch();
    // The command that recovers it is said with -q too.
    let line = "run -q --driver null --rate 1000/s --ops 1000 --output out";
    let child = start(dir.path(), line);
    // In the way of the manifest's name.
    let manifest = dir.path().join("out/manifest.json");
    while !manifest.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    let aside = dir.path().join("aside");
    std::fs::rename(&manifest, &aside).expect("moved");
    std::fs::create_dir(&manifest).expect("made");
    let (_, err) = ended(&child.wait_with_output().expect("it ends"), 5);
    assert!(
        err.contains("manifest")
            && err.contains("is not lost")
            && err.contains("`taillight report out`"),
        "{err}"
    );
    std::fs::remove_dir(&manifest).expect("removed");
    std::fs::rename(&aside, &manifest).expect("moved");
    common::run(dir.path(), &["report", "out"], 5);
    assert_eq!(summary(dir.path(), "out")["totals"]["count"], 1000);
}

#[test]
fn a_run_that_may_open_no_file_leaves_nothing() {
    let dir = scratch();
    let err = under(dir.path(), "-n 5", "run --driver null --ops 10 --output out", 4);
    assert!(err.contains("Too many open files"), "{err}");
    assert!(!dir.path().join("out").exists());
}

#[test]
fn a_small_stack_is_enough() {
    let dir = scratch();
    under(dir.path(), "-s 64", "run --driver sim --ops 1000 --output out", 0);
    assert_eq!(summary(dir.path(), "out")["totals"]["count"], 1000);
}

#[test]
fn the_limit_on_cpu_time_ends_a_run_in_order() {
    // Without -S there is no time between the warning and the end, unless it is made.
    for limit in ["-S -t 1", "-t 8"] {
        let dir = scratch();
        let line =
            "run --driver null --workers 2 --runtime 60s --output out --set capture.mode=off";
        under(dir.path(), limit, line, 143);
        let manifest = manifest(dir.path(), "out");
        assert_eq!(manifest["status"], "partial");
        let reason = manifest["reason"].as_str().expect("a reason");
        assert!(reason.contains("SIGXCPU") && reason.contains("ulimit -t"), "{reason}");
        assert_eq!(summary(dir.path(), "out")["status"], "partial", "the report is made");
    }
}

#[test]
fn an_abort_says_that_what_was_measured_is_kept() {
    let dir = scratch();
    let line = "run --driver null --rate 1000/s --set run.interval=100ms --output out";
    let child = start_measuring(dir.path(), line);
    signal(&child, "ABRT");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.code().is_none(), "ended by the signal");
    let err = common::text(&output.stderr);
    assert!(err.contains("aborted") && err.contains("taillight report"), "{err}");
    common::run(dir.path(), &["report", "out"], 5);
}

#[test]
fn under_nohup_a_run_outlives_its_terminal() {
    let dir = scratch();
    let mut child = common::start_as(
        dir.path(),
        &["nohup"],
        "run --driver null --rate 1000/s --runtime 1s --output out",
    );
    let made = dir.path().join("out/manifest.json");
    while !made.exists() {
        std::thread::sleep(Duration::from_millis(10));
        assert!(child.try_wait().expect("asked").is_none(), "it has not begun");
    }
    signal(&child, "HUP");
    ended(&child.wait_with_output().expect("it ends"), 0);
}

#[test]
fn a_run_that_was_stopped_itself_says_so() {
    let dir = scratch();
    let line = "run --driver null --rate 1000/s --runtime 3s --set run.interval=200ms --output out";
    let mut child = start_measuring(dir.path(), line);
    // Twice: what looks for it may be busy with something else just then.
    for _ in 0..2 {
        signal(&child, "STOP");
        std::thread::sleep(Duration::from_millis(600));
        signal(&child, "CONT");
        std::thread::sleep(Duration::from_millis(300));
    }
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let verdict = summary(dir.path(), "out")["verdict"].clone();
    let reasons = verdict["reasons"].as_array().expect("reasons");
    assert!(reasons.iter().any(|r| r["code"] == "stood_still"), "{verdict}");
}
