//! `taillight suite slc-paper` through the binary, on tiny runs.

use crate::common::{self, has_library, json, run_line, scratch};

#[test]
fn the_study_in_small() {
    if !["rocksdb", "leveldb"].into_iter().all(has_library) {
        return;
    }
    let home = scratch();
    let line = "suite slc-paper --path disk --runtime 100ms --output out";
    let (out, err) = run_line(home.path(), line, 0);
    assert!(err.contains("is left out") && err.contains("--endpoint"), "{err}");
    let figures = json(&home.path().join("out/slc-paper.json"));
    let runs = figures["runs"].as_array().expect("runs");
    // File system, LevelDB, RocksDB; three sizes; write and read.
    assert_eq!(runs.len(), 18);
    for (nth, run) in runs.iter().enumerate() {
        assert_eq!(run["errors"], 0, "{run}");
        let records = run["count"].as_u64().expect("a count");
        assert!(records > 0, "{run}");
        // A reader reads what its writer wrote, once.
        if nth % 2 == 1 {
            assert!(records <= runs[nth - 1]["count"].as_u64().expect("a count"));
            assert_eq!(run["size"], runs[nth - 1]["size"]);
        }
        assert!(run["paper"].is_object(), "{run}");
    }
    for system in ["file", "leveldb", "rocksdb"] {
        assert!(out.contains(&format!("{system} write")), "{out}");
        assert!(out.contains(&format!("{system} read")), "{out}");
    }
    let page = std::fs::read_to_string(home.path().join("out/report.html")).expect("a page");
    assert!(page.contains("SLC1") && page.contains("RocksDB"));
    // What it made on the disk is gone, and the directory that was not there before.
    assert!(!home.path().join("disk").exists());
}

#[test]
fn places_and_flags_it_cannot_use() {
    let home = scratch();
    std::fs::write(home.path().join("a-file"), "").expect("a file");
    for (words, said) in [
        ("suite slc-paper", "needs a directory"),
        ("suite slc-paper --path a-file", "not a directory"),
        ("suite slc-paper --path . --scale huge", "huge"),
        ("suite slc-paper --path . --records 5", "--records"),
    ] {
        let (_, err) = run_line(home.path(), words, 2);
        assert!(err.contains(said), "{err}");
    }
    // The object store comes last, and is looked at first: nothing runs where it is not there.
    if ["rocksdb", "leveldb"].into_iter().all(has_library) {
        let line = "suite slc-paper --path disk --endpoint http://127.0.0.1:1/bench --output out";
        let output = common::taillight(home.path())
            .args(line.split_whitespace())
            .envs([("AWS_ACCESS_KEY_ID", "key"), ("AWS_SECRET_ACCESS_KEY", "secret")])
            .output();
        let (out, err) = common::ended(&output.expect("it starts"), 4);
        assert!(err.contains("127.0.0.1:1"), "{out}{err}");
        assert!(!home.path().join("out").exists() && !home.path().join("disk").exists());
    }
    // A directory is made where there is a place for it, but not a whole path.
    let (_, err) = run_line(home.path(), "suite slc-paper --path no/where", 4);
    assert!(err.contains("cannot make the directory"), "{err}");
    let left = std::fs::read_dir(home.path()).expect("there").count();
    assert_eq!(left, 1, "the file");
}
