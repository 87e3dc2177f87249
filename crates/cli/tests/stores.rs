//! Drivers on streams and embedded stores through the binary.

use std::path::Path;
use std::process::Command;

use crate::common::{has_library, manifest, run, run_line, scratch, summary};

/// Runs `taillight run` with these words.
fn job(dir: &Path, args: &str, code: i32) -> (String, String) {
    run_line(dir, &format!("run {args}"), code)
}

#[test]
fn a_stream_grows_and_is_read_by_a_later_run() {
    let home = scratch();
    let stream = "--driver filestream --path s.dat --bs 1000B --set workload.0.passes=1";
    // Only a part of the pass fits into the operations: the file is no larger than what was written.
    let write = format!("{stream} --rw write --size 8MB --ops 500 --sync fdatasync:100 --output w");
    job(home.path(), &format!("{write} --set target.options.keep=true"), 0);
    let length = std::fs::metadata(home.path().join("s.dat")).expect("kept").len();
    assert_eq!(length, 500_000);
    assert_eq!(summary(home.path(), "w")["ops"]["write"]["sync"]["count"], 5);
    job(home.path(), &format!("{stream} --rw read --output r"), 0);
    assert_eq!(summary(home.path(), "r")["totals"]["count"], 500);
    // Writing again begins with an empty file, and what is kept stays.
    job(home.path(), &format!("{stream} --rw write --size 8MB --ops 20 --output again"), 0);
    let length = std::fs::metadata(home.path().join("s.dat")).expect("kept").len();
    assert_eq!(length, 20_000);
}

/// Without `passes` the writer ends at the end of the data, long before the run's time is over.
#[test]
fn a_stream_does_not_begin_again() {
    let home = scratch();
    let stream = "--driver filestream --path s.dat --size 1MB --bs 1000B --rw write --output w";
    job(home.path(), stream, 0);
    let summary = summary(home.path(), "w");
    assert_eq!(summary["ops"]["write"]["count"], 1000);
    let reasons = summary["verdict"].to_string();
    assert!(!reasons.contains("writes_allocate"), "{reasons}");
}

#[test]
fn readers_follow_the_writer_of_a_stream() {
    let home = scratch();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs/filestream.toml");
    job(home.path(), &format!("{example} --size 2MB --output out"), 0);
    let summary = summary(home.path(), "out");
    assert_eq!(summary["ops"]["write"]["count"], 2000);
    assert_eq!(summary["ops"]["read"]["count"], 4000);
    assert_eq!(summary["ops"]["write"]["sync"]["count"], 2000 / 64);
    assert_eq!(summary["totals"]["errors"], 0);
    assert!(!home.path().join("data-stream.dat").exists());
}

#[test]
fn what_is_no_stream_is_refused() {
    let home = scratch();
    let stream = "--driver filestream --path s.dat --size 8MB --bs 1000B --ops 10";
    for (args, said) in [
        ("--rw randwrite", "ascending order only"),
        ("--rw write --workers 2", "one writer"),
        ("--rw rw", "either appends or reads"),
        ("--rw write --set run.warmup=1s --set workload.0.passes=2", "passes = 1"),
    ] {
        let (_, err) = job(home.path(), &format!("{stream} {args}"), 2);
        assert!(err.contains(said), "{err}");
    }
    assert!(!home.path().join("s.dat").exists());
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
    if !has_library("rocksdb") {
        return;
    }
    let home = scratch();
    let options = "statistics = true\nwrite_buffer_size = \"64KiB\"\noptions = \"level0_slowdown_\
                   writes_trigger=2;level0_stop_writes_trigger=4;delayed_write_rate=1048576;\
                   level0_file_num_compaction_trigger=2\"";
    write_job(home.path(), "stall", "rocksdb", options, INSERTS);
    let (out, _) = job(home.path(), "stall.toml --output out -v", 0);
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
    if !has_library("leveldb") {
        return;
    }
    let home = scratch();
    write_job(home.path(), "l", "leveldb", "write_buffer_size = \"64KiB\"", INSERTS);
    job(home.path(), "l.toml --output out", 0);
    let summary = summary(home.path(), "out");
    assert!(summary["store"]["compaction_written_bytes_total"]["rise"].as_f64() > Some(0.0));
    assert!(summary["store"]["memory_bytes"]["max"].as_f64() > Some(0.0));
}

#[test]
fn a_file_has_no_statistics() {
    let home = scratch();
    job(home.path(), "--driver file --path f.dat --size 1MiB --rw write --ops 10 --output out", 0);
    assert!(!home.path().join("out/store.parquet").exists());
    assert!(summary(home.path(), "out").get("store").is_none());
}

const GETS: &str = "[[workload]]\nmix = \"get\"\nblock_size = \"1KiB\"\naccess = \"random\"\n\
                    keys = { count = 5000 }\n";

#[test]
fn flush_and_compaction_between_load_and_run() {
    let home = scratch();
    let steps = "--set run.before=[\"flush\",\"compact\"] --set run.duration=200ms";
    for driver in ["rocksdb", "leveldb"] {
        if !has_library(driver) {
            continue;
        }
        write_job(home.path(), driver, driver, "", GETS);
        job(home.path(), &format!("{driver}.toml --output {driver}-out {steps}"), 0);
        let manifest = manifest(home.path(), &format!("{driver}-out"));
        let phases = manifest["phases"].as_array().expect("phases");
        let names: Vec<&str> = phases.iter().filter_map(|p| p["name"].as_str()).collect();
        assert_eq!(names, ["flush", "compact", "measure", "drain"]);
        let stamp = |i: usize, name: &str| phases[i][name].as_i64().expect("a stamp");
        assert!(stamp(0, "end_ns") <= stamp(1, "start_ns"));
        assert!(stamp(1, "end_ns") <= stamp(2, "start_ns"));
    }
}

#[test]
fn two_option_sets_are_told_apart_in_one_report() {
    if !has_library("rocksdb") {
        return;
    }
    let home = scratch();
    for (name, cache) in [("cache-64k", "64KiB"), ("cache-64m", "64MiB")] {
        let options = format!("statistics = true\nblock_cache = \"{cache}\"");
        write_job(home.path(), name, "rocksdb", &options, GETS);
        let steps = "--set run.before=[\"flush\",\"compact\"] --set run.duration=500ms";
        job(home.path(), &format!("{name}.toml --output {name} {steps}"), 0);
    }
    let (out, _) =
        run(home.path(), &["report", "cache-64k", "cache-64m", "--output", "both", "-v"], 0);
    for said in ["cache-64k", "cache-64m", "options.block_cache", "64KiB", "64MiB"] {
        assert!(out.contains(said), "{said}\n{out}");
    }
    let page = std::fs::read_to_string(home.path().join("both/report.html")).expect("a page");
    let differs = page.find("What differs").expect("the table of differences");
    let table = &page[differs..differs + 3000];
    assert!(table.contains("block_cache") && table.contains("64MiB"), "{table}");
    for said in [
        "cache-64k, block cache hits",
        "cache-64m, block cache hits",
        "store.library",
        "librocksdb",
    ] {
        assert!(page.contains(said), "{said}");
    }
}

/// What is wrong with a library is in the driver's tests.
#[test]
fn a_missing_library_is_unavailable() {
    let home = scratch();
    let library = "--set target.options.library=/nowhere/libno.so --set workload.0.mix=get";
    let args = format!("--driver rocksdb --path db {library} --output out");
    let (_, err) = job(home.path(), &args, 4);
    assert!(err.contains("/nowhere/libno.so") && err.contains("librocksdb"), "{err}");
    let pipe = home.path().join("lib.so");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let (_, err) = job(home.path(), &args.replace("/nowhere/libno.so", "./lib.so"), 4);
    assert!(err.contains("./lib.so") && err.contains("it is no regular file"), "{err}");
    assert!(!home.path().join("out").exists() && !home.path().join("db").exists());
}

/// A batch is one operation: what was written by batches is there key by key, and read back in batches.
#[test]
fn batches_write_and_read_every_record() {
    for driver in ["rocksdb", "leveldb"] {
        if !has_library(driver) {
            continue;
        }
        let home = scratch();
        let store = format!(
            "--driver {driver} --path db --bs 100B --set target.options.keep=true \
             --set workload.0.access=random"
        );
        // 300 batches of two workers would be 2,100 records: the bytes end it before.
        let write = "--ops 300 --set run.bytes=200000B --set workload.0.mix=insert \
             --set workload.0.keys.count=0 --set workload.0.batch=7 --workers 2 --output w";
        let (said, _) = job(home.path(), &format!("{store} {write}"), 0);
        assert!(said.contains("7 records per operation"), "{said}");
        let written = summary(home.path(), "w");
        // 1,000 records each: 142 whole batches and one of 6.
        assert_eq!(written["ops"]["insert"]["count"], 2 * 143);
        assert_eq!(written["totals"]["bytes"], 2000 * 100);
        assert_eq!(written["totals"]["records"], 2000);
        assert_eq!(written["totals"]["errors"], 0);
        assert_eq!(manifest(home.path(), "w")["plan"]["workload"][0]["batch"], 7);
        // One by one: all keys are there. In batches: a whole one even from the last keys.
        let batches: &[u64] = if driver == "rocksdb" { &[1, 50] } else { &[1] };
        for batch in batches {
            let read = format!(
                "--ops 3000 --set workload.0.mix=get --set workload.0.keys.count=2000 \
                 --set workload.0.batch={batch} --output r{batch} -v"
            );
            let (said, _) = job(home.path(), &format!("{store} {read}"), 0);
            let read = summary(home.path(), &format!("r{batch}"));
            assert_eq!(read["totals"]["errors"], 0, "{said}");
            assert_eq!(read["totals"]["bytes"], 3000 * batch * 100);
            assert_eq!(said.contains("records/s"), *batch > 1, "{said}");
        }
    }
}

/// What a get returns counts as it comes; it used to go on for ever.
#[test]
fn bytes_end_a_run_that_reads_records() {
    let home = scratch();
    let args = "--driver memory --bs 100B --set workload.0.mix=get --set run.bytes=10000B \
                --runtime 60s --output o";
    job(home.path(), args, 0);
    assert_eq!(summary(home.path(), "o")["totals"]["count"], 100);
}

/// Without the capture the intervals count the records.
#[test]
fn records_of_batches_and_scans_are_counted_either_way() {
    if !has_library("rocksdb") {
        return;
    }
    let home = scratch();
    for capture in ["all", "off"] {
        let args = format!(
            "--driver rocksdb --path db-{capture} --bs 100B --ops 100 --set workload.0.mix=get \
             --set workload.0.access=sequential --set workload.0.keys.count=50 \
             --set workload.0.batch=16 --set capture.mode={capture} --output {capture}"
        );
        job(home.path(), &args, 0);
        let totals = &summary(home.path(), capture)["totals"];
        // Each pass is three whole batches and one of 2.
        assert_eq!(totals["records"], 25 * 50, "{capture}");
        assert_eq!(totals["bytes"], 25 * 50 * 100, "{capture}");
    }
}

/// Keys that another workload deletes are misses of a batch, one by one; what is lost is an error.
#[test]
fn a_batch_that_deletes_overtake_is_a_miss() {
    if !has_library("rocksdb") {
        return;
    }
    let home = scratch();
    let text = "run = { operations = 4000 }\n\
        target = { driver = \"rocksdb\", path = \"db\" }\n\
        workload = [\n\
          { name = \"d\", mix = \"delete\", block_size = \"100B\", keys = { count = 2000 } },\n\
          { name = \"g\", mix = \"get\", batch = 8, block_size = \"100B\", \
            access = \"sequential\", keys = { count = 2000 } },\n\
        ]\n";
    std::fs::write(home.path().join("j.toml"), text).expect("a job");
    let (said, _) = job(home.path(), "j.toml --output o -v", 0);
    assert!(said.contains("found nothing"), "{said}");
    let summary = summary(home.path(), "o");
    assert_eq!(summary["totals"]["errors"], 0);
    assert!(summary["misses"].as_u64().expect("misses") > 0);
}

/// Scans of a snapshot beside updates: the example itself, and what the store says of it.
#[test]
fn snapshots_are_read_while_others_write() {
    let home = scratch();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../jobs/snapshot.toml");
    for driver in ["rocksdb", "leveldb"] {
        if !has_library(driver) {
            continue;
        }
        let less = "--set workload.0.keys.count=2000 --set workload.1.keys.count=2000";
        // Long enough for a sample of the store in the midst of it.
        let long = "--runtime 500ms";
        let args = format!("{example} --driver {driver} {less} {long} --output {driver}");
        job(home.path(), &args, 0);
        let manifest = manifest(home.path(), driver).to_string();
        assert!(manifest.contains("store.snapshot"), "{manifest}");
        if driver == "rocksdb" {
            // The one worker that scans holds one, by the store's own count.
            let held = &summary(home.path(), driver)["store"]["snapshots"];
            assert_eq!(held["max"], 1.0, "{held}");
        }
        let ops = &summary(home.path(), driver)["ops"];
        for op in ["scan", "update"] {
            assert!(ops[op]["count"].as_u64() > Some(0), "{op} in {ops}");
        }
        assert_eq!(summary(home.path(), driver)["totals"]["errors"], 0);
        let (_, err) = job(
            home.path(),
            &format!("{example} --driver {driver} --set workload.1.mix=insert --output no"),
            2,
        );
        assert!(err.contains("hides records inserted"), "{err}");
        assert!(!home.path().join("data-snapshot").exists());
    }
}
