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

/// Whether this machine has the store's library; says so where it has not.
fn has(driver: &str) -> bool {
    let home = tempfile::tempdir().expect("a directory");
    let args = ["run", "--driver", driver, "--path", "db", "--ops", "1"];
    let keys = [
        "--set",
        "workload.0.mix=insert",
        "--set",
        "workload.0.keys.count=0",
    ];
    let output = common::taillight(home.path())
        .args([&args[..], &keys].concat())
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let there = output.status.success();
    if !there {
        assert!(said.contains("library"), "{said}");
        eprintln!("skipped: a test of {driver}: {said}");
    }
    there
}

const INSERTS: &str = "[[workload]]\nmix = \"insert\"\nblock_size = \"1KiB\"\n\
                       access = \"sequential\"\nkeys = { count = 0 }\n";

/// A job on a store, from its options and workloads.
fn write_job(dir: &Path, name: &str, driver: &str, options: &str, rest: &str) {
    let text = format!(
        "[run]\nduration = \"2s\"\ninterval = \"250ms\"\n[target]\ndriver = \"{driver}\"\n\
         path = \"{name}-db\"\n[target.options]\n{options}\n{rest}"
    );
    std::fs::write(dir.join(format!("{name}.toml")), text).expect("written");
}

#[test]
fn a_stall_of_rocksdb_is_seen_where_it_happened() {
    if !has("rocksdb") {
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    let options = "statistics = true\nwrite_buffer_size = \"64KiB\"\noptions = \"level0_slowdown_\
                   writes_trigger=2;level0_stop_writes_trigger=4;delayed_write_rate=1048576;\
                   level0_file_num_compaction_trigger=2\"";
    write_job(home.path(), "stall", "rocksdb", options, INSERTS);
    let (out, _) = job(home.path(), "stall.toml --output out", 0);
    assert!(out.contains("writes held back for"), "{out}");
    let summary = summary(home.path(), "out");
    let rise = |series: &str| summary["store"][series]["rise"].as_f64().unwrap_or(0.0);
    for series in [
        "stall_ns_total",
        "compaction_written_bytes_total",
        "flush_written_bytes_total",
        "wal_bytes_total",
    ] {
        assert!(rise(series) > 0.0, "{series}: {}", summary["store"]);
    }
    let level = &summary["store"]["level0_files"];
    assert!(level["max"].as_f64() >= Some(2.0), "{level}");
    assert!(summary["store"]["write_amplification"]["last"].as_f64() >= Some(1.0));
    // The table of samples, and its pictures under the latency on the same axis.
    assert!(home.path().join("out/store.parquet").is_file());
    let page = std::fs::read_to_string(home.path().join("out/report.html")).expect("a page");
    let at = |id: &str| page.find(&format!("id=\"{id}\"")).expect(id);
    assert!(at("latency-time") < at("store-time"));
    assert!(at("store-time") < at("plot-store-0") && at("plot-store-0") < at("throughput-time"));
}

#[test]
fn leveldb_says_what_its_compactions_did() {
    if !has("leveldb") {
        return;
    }
    let home = tempfile::tempdir().expect("a directory");
    write_job(
        home.path(),
        "l",
        "leveldb",
        "write_buffer_size = \"64KiB\"",
        INSERTS,
    );
    job(home.path(), "l.toml --output out", 0);
    let summary = summary(home.path(), "out");
    assert!(summary["store"]["compaction_written_bytes_total"]["rise"].as_f64() > Some(0.0));
    assert!(summary["store"]["memory_bytes"]["max"].as_f64() > Some(0.0));
}

#[test]
fn a_file_has_no_statistics() {
    let home = tempfile::tempdir().expect("a directory");
    job(
        home.path(),
        "--driver file --path f.dat --size 1MiB --rw write --ops 10 --output out",
        0,
    );
    assert!(!home.path().join("out/store.parquet").exists());
    assert!(summary(home.path(), "out").get("store").is_none());
}
