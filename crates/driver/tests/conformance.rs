//! Every driver through the contract's checks. Adding a driver: one line in its own test here.
#![allow(clippy::unwrap_used)]

use taillight_core::plan::{AccessKind, Plan, TargetPlan};
use taillight_core::units::ByteSize;
use taillight_core::{ErrorKind, OpKind};
use taillight_driver::OpenSpec;
use taillight_driver::conformance::{CheckResult, TestCase, keyed_plan, plan, run};

const OPS: [OpKind; 4] = [OpKind::Read, OpKind::Write, OpKind::Fsync, OpKind::Trim];

fn target(driver: &str, path: Option<String>, options: &str) -> TargetPlan {
    TargetPlan {
        driver: driver.to_owned(),
        path,
        size: Some(ByteSize(1 << 20)),
        destroy: false,
        options: options.parse().unwrap(),
    }
}

fn check(target: TargetPlan, depth: u32) {
    check_plan(plan(target, &OPS, 4096, depth));
}

fn check_plan(plan: Plan) {
    let target = &plan.target;
    let depth = plan.workloads[0].queue_depth;
    let name = format!("{} at depth {depth}: {}", target.driver, target.options);
    let case = TestCase {
        driver: taillight_driver::find(&target.driver).unwrap(),
        plan,
        destroy: None,
    };
    let outcomes = run(&case).unwrap_or_else(|e| panic!("{name}: {e}"));
    let broken: Vec<_> = outcomes
        .iter()
        .filter(|(_, o)| matches!(o, CheckResult::Broken(_)))
        .collect();
    assert!(broken.is_empty(), "{name}: {broken:#?}");
}

#[test]
fn null_keeps_the_contract() {
    for depth in [1, 2, 32] {
        check(target("null", None, ""), depth);
    }
}

#[test]
fn sim_keeps_the_contract() {
    for depth in [1, 2, 32] {
        check(target("sim", None, "channels = 4"), depth);
    }
}

#[test]
fn file_keeps_the_contract() {
    let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let dir = format!("{}/", tmp.path().display());
    for direct in [true, false] {
        for (engine, depth) in [("sync", 1), ("uring", 1), ("uring", 8), ("uring", 256)] {
            for more in [
                "",
                "files = 4",
                "fixed_buffers = false\nregistered_files = false",
            ] {
                let options = format!("direct = {direct}\nengine = \"{engine}\"\n{more}");
                check(target("file", Some(dir.clone()), &options), depth);
                let left = std::fs::read_dir(tmp.path()).unwrap().count();
                assert_eq!(left, 0, "files left behind by {options}");
            }
        }
    }
}

#[test]
fn file_with_a_submitting_thread_keeps_the_contract() {
    let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = format!("{}/one.dat", tmp.path().display());
    check(target("file", Some(path), "sqpoll = true"), 8);
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
}

#[test]
fn file_at_the_deepest_queue_keeps_the_contract() {
    let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = format!("{}/one.dat", tmp.path().display());
    // Registered, these buffers would exceed the locked memory that a plain user may have.
    let options = "direct = false\nfixed_buffers = false";
    check(target("file", Some(path), options), 4096);
}

#[test]
fn file_in_memory_keeps_the_contract() {
    let Ok(tmp) = tempfile::tempdir_in("/dev/shm") else {
        eprintln!("skipped: no /dev/shm");
        return;
    };
    let dir = format!("{}/", tmp.path().display());
    check(target("file", Some(dir.clone()), "direct = false"), 8);
    check(
        target("file", Some(dir), "direct = false\ncache = \"warm\""),
        1,
    );
}

/// A writer and a reader that does not follow it: the file is laid out, so that every check applies.
#[test]
fn filestream_keeps_the_contract() {
    let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = format!("{}/stream.dat", tmp.path().display());
    for options in ["", "direct = true", "cache = \"drop\""] {
        let target = target("filestream", Some(path.clone()), options);
        let mut plan = plan(target, &[OpKind::Write], 4096, 1);
        plan.workloads[0].access.kind = AccessKind::Sequential;
        plan.workloads[0].passes = Some(1);
        let mut reader = plan.workloads[0].clone();
        reader.mix[0].op = OpKind::Read;
        plan.workloads.push(reader);
        check_plan(plan);
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
    }
}

#[test]
fn memory_keeps_the_contract() {
    for reverse in [false, true] {
        check_plan(keyed_plan(target("memory", None, ""), 400, 1, reverse));
    }
}

/// Embedded stores, each with several options; what their libraries lack is said and skipped.
#[test]
fn embedded_stores_keep_the_contract() {
    let rocksdb = [
        "",
        "bounded_scans = true\nstatistics = true",
        "column_family = \"other\"\nwal = false\nbloom_bits = 10\nblock_cache = \"1MiB\"",
        "write_buffer_size = \"64KiB\"\ncompression = \"none\"\nmax_background_jobs = 3",
    ];
    let leveldb = [
        "",
        "bounded_scans = true\nbloom_bits = 10",
        "block_cache = \"1MiB\"\nwrite_buffer_size = \"64KiB\"\ncompression = \"none\"",
    ];
    for (name, options) in [("rocksdb", &rocksdb[..]), ("leveldb", &leveldb[..])] {
        let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = tmp.path().join("db");
        for (options, reverse) in options.iter().flat_map(|o| [(o, false), (o, true)]) {
            let target = target(name, Some(path.to_str().unwrap().to_owned()), options);
            let plan = keyed_plan(target, 400, 1, reverse);
            if let Some(why) = lacks_library(&plan) {
                eprintln!("skipped: {name} keeps the contract: {why}");
                break;
            }
            check_plan(plan);
            assert!(!path.exists(), "left behind by {name} with {options}");
        }
    }
}

fn lacks_library(plan: &Plan) -> Option<String> {
    let spec = OpenSpec {
        plan,
        run_id: "probe",
        destroy: None,
    };
    let driver = taillight_driver::find(&plan.target.driver).unwrap();
    match driver.open(&spec, &mut |_| true) {
        Err(e) if e.kind() == ErrorKind::Unavailable && e.message().contains("library") => {
            Some(e.to_string())
        }
        _ => None,
    }
}
