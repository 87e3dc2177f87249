//! Drivers on streams and embedded stores through the binary.

mod common;

use std::path::Path;

use common::run;
use serde_json::Value;

fn summary(dir: &Path, run: &str) -> Value {
    let text = std::fs::read_to_string(dir.join(run).join("summary.json")).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

/// Runs `taillight run` with these words.
fn job(dir: &Path, args: &str, code: i32) -> (String, String) {
    let words: Vec<&str> = args.split_whitespace().collect();
    run(dir, &[&["run"][..], &words].concat(), code)
}

#[test]
fn a_stream_grows_and_is_read_by_a_later_run() {
    let home = tempfile::tempdir().expect("a directory");
    let stream = "--driver filestream --path s.dat --bs 1000B --set workload.0.passes=1";
    // Only a part of the pass fits into the operations: the file is no larger than what was written.
    let write = format!("{stream} --rw write --size 8MB --ops 500 --sync fdatasync:100 --output w");
    job(
        home.path(),
        &format!("{write} --set target.options.keep=true"),
        0,
    );
    let length = std::fs::metadata(home.path().join("s.dat"))
        .expect("kept")
        .len();
    assert_eq!(length, 500_000);
    assert_eq!(
        summary(home.path(), "w")["ops"]["write"]["sync"]["count"],
        5
    );
    job(home.path(), &format!("{stream} --rw read --output r"), 0);
    assert_eq!(summary(home.path(), "r")["totals"]["count"], 500);
    // Writing again begins with an empty file, and what is kept stays.
    job(
        home.path(),
        &format!("{stream} --rw write --size 8MB --ops 20 --output again"),
        0,
    );
    let length = std::fs::metadata(home.path().join("s.dat"))
        .expect("kept")
        .len();
    assert_eq!(length, 20_000);
}

#[test]
fn readers_follow_the_writer_of_a_stream() {
    let home = tempfile::tempdir().expect("a directory");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs/filestream.toml");
    job(
        home.path(),
        &format!("{example} --size 2MB --output out"),
        0,
    );
    let summary = summary(home.path(), "out");
    assert_eq!(summary["ops"]["write"]["count"], 2000);
    assert_eq!(summary["ops"]["read"]["count"], 4000);
    assert_eq!(summary["ops"]["write"]["sync"]["count"], 2000 / 64);
    assert_eq!(summary["totals"]["errors"], 0);
    assert!(!home.path().join("data-stream.dat").exists());
}

#[test]
fn what_is_no_stream_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let stream = "--driver filestream --path s.dat --size 8MB --bs 1000B --ops 10";
    for (args, said) in [
        ("--rw randwrite", "ascending order only"),
        ("--rw write --workers 2", "one writer"),
        ("--rw rw", "either appends or reads"),
    ] {
        let (_, err) = job(home.path(), &format!("{stream} {args}"), 2);
        assert!(err.contains(said), "{err}");
    }
    assert!(!home.path().join("s.dat").exists());
}
