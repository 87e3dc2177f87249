//! Verification end to end on files: damage between a run and the next is found, told apart and
//! located, and makes the exit code 6; a storage that works is never blamed.

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::run;
use serde_json::{Value, json};

const BLOCK: u64 = 4096;
const BLOCKS: u64 = 256;

fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

/// A directory on a disk rather than in memory, for direct I/O.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// Runs over `file` with `words` added; returns `verify.json` and the id of the run.
fn go(dir: &Path, out: &str, direct: bool, words: &str, code: i32) -> (Value, String, String) {
    let common = format!(
        "run --driver file --path file --size 1MiB --bs 4KiB --output {out} \
         --set target.options.keep=true --set target.options.direct={direct}"
    );
    let words: Vec<&str> = common.split_whitespace().chain(words.split(' ')).collect();
    let (said, _) = run(dir, &words, code);
    let manifest = read_json(&dir.join(out).join("manifest.json"));
    let id = manifest["run_id"].as_str().expect("an id").to_owned();
    (read_json(&dir.join(out).join("verify.json")), id, said)
}

/// Whether this file system has direct I/O.
fn direct_works(dir: &Path) -> bool {
    let words = "run --driver file --path probe --size 1MiB --bs 4KiB --rw write --ops 1 \
                 --direct --output probe-out";
    let output = common::taillight(dir)
        .args(words.split_whitespace())
        .output()
        .expect("it starts");
    output.status.success()
}

const WRITE_ALL: &str = "--rw write --ops 256 --set verify.mode=after";

/// One block flipped, one lost, one in another's place, one of another run.
fn damage(file: &std::fs::File, foreign: &[u8]) {
    let mut block = vec![0; BLOCK as usize];
    file.read_exact_at(&mut block, 20 * BLOCK).expect("read");
    file.write_all_at(&block, 30 * BLOCK).expect("written");
    file.write_all_at(&vec![0; BLOCK as usize], 9 * BLOCK)
        .expect("written");
    file.write_all_at(foreign, 40 * BLOCK).expect("written");
    file.read_exact_at(&mut block[..1], 5 * BLOCK + 77)
        .expect("read");
    file.write_all_at(&[block[0] ^ 1], 5 * BLOCK + 77)
        .expect("written");
    file.sync_all().expect("synced");
}

fn damage_is_found(direct: bool) {
    let dir = directory();
    let dir = dir.path();
    if direct && !direct_works(dir) {
        println!(
            "skipped: damage_is_found_direct: no direct I/O in {}",
            dir.display()
        );
        return;
    }
    go(dir, "first", direct, WRITE_ALL, 0);
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(dir.join("file"));
    let file = file.expect("the file is kept");
    let mut foreign = vec![0; BLOCK as usize];
    file.read_exact_at(&mut foreign, 40 * BLOCK).expect("read");

    let (clean, id, said) = go(dir, "second", direct, WRITE_ALL, 0);
    assert_eq!(
        (&clean["checked"], &clean["wrong"]),
        (&json!(BLOCKS), &json!(0))
    );
    assert_eq!(clean["pass"]["complete"], true);
    assert_eq!(clean["pass"]["caches_dropped"], true);
    assert!(
        said.contains("256 blocks checked: all as written"),
        "{said}"
    );

    damage(&file, &foreign);

    let expected = json!({
        "flipped": 1, "torn": 0, "lost": 1, "stale": 0, "misplaced": 1, "other_run": 1,
        "other_size": 0,
    });
    for (out, words) in [
        (
            "inline",
            format!("--rw read --ops 256 --set verify.mode=inline --set verify.run={id}"),
        ),
        (
            "after",
            format!("--rw read --ops 1 --set verify.mode=after --set verify.run={id}"),
        ),
    ] {
        let (found, _, said) = go(dir, out, direct, &words, 6);
        assert_eq!(found["kinds"], expected, "{out}");
        assert_eq!(
            (&found["checked"], &found["wrong"]),
            (&json!(BLOCKS), &json!(4))
        );
        let at = |kind: &str| {
            let findings = found["findings"].as_array().expect("a list");
            let one = findings.iter().find(|f| f["kind"] == kind);
            one.unwrap_or_else(|| panic!("{kind}: {findings:?}"))
                .clone()
        };
        assert_eq!(at("flipped")["address"], 5 * BLOCK);
        assert_eq!(at("flipped")["first_byte"], 77);
        assert_eq!(at("flipped")["bytes"], 1);
        assert_eq!(at("lost")["address"], 9 * BLOCK);
        assert_eq!(at("misplaced")["address"], 30 * BLOCK);
        assert_eq!(at("misplaced")["found_address"], 20 * BLOCK);
        assert_eq!(at("other_run")["address"], 40 * BLOCK);
        assert!(said.contains("4 WRONG"), "{said}");
        assert!(said.contains("it belongs to 81920"), "{said}");
    }
}

#[test]
fn damage_is_found_buffered() {
    damage_is_found(false);
}

#[test]
fn damage_is_found_direct() {
    damage_is_found(true);
}

#[test]
fn a_storage_that_works_is_never_blamed() {
    let dir = directory();
    for (out, engine) in [("sync", "--depth 1"), ("uring", "--depth 8")] {
        // Two workers over the same few blocks: reads and writes overlap all the time.
        let words = format!(
            "--rw randrw --ops 20000 --workers 2 {engine} --set verify.mode=inline \
             --set workload.0.payload.compressible=50"
        );
        let words = words.split_whitespace().collect::<Vec<_>>().join(" ");
        let (found, _, _) = go(dir.path(), out, false, &words, 0);
        assert_eq!(found["wrong"], 0, "{found}");
        let checked = found["checked"].as_u64().expect("a number");
        let overlapped = found["unchecked"]["overlapped"].as_u64().expect("a number");
        assert!(checked > 5000, "{found}");
        assert!(checked + overlapped < 20_000, "{found}");
    }
}

#[test]
fn records_of_a_store_are_checked() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = "[run]\noperations = 5000\n[target]\ndriver = \"memory\"\n\
               [verify]\nmode = \"inline\"\n[[workload]]\nblock_size = \"100B\"\n\
               mix = { get = 50, update = 40, insert = 5, delete = 5 }\n\
               access = \"random\"\nkeys = { count = 200 }\n";
    std::fs::write(dir.path().join("job.toml"), job).expect("written");
    let output = common::taillight(dir.path())
        .args(["run", "job.toml", "--output", "out"])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let found = read_json(&dir.path().join("out/verify.json"));
    assert_eq!(found["wrong"], 0, "{said} {found}");
    assert!(
        found["checked"].as_u64().expect("a number") > 1000,
        "{found}"
    );
}

#[test]
fn what_cannot_be_verified_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    for (words, what) in [
        (
            "run --driver null --set verify.mode=inline",
            "does not keep",
        ),
        (
            "run --driver file --path f --size 1MiB --set verify.mode=after --rw write \
             --set workload.0.payload.duplicate=10",
            "all different",
        ),
        (
            "run --driver null --set verify.run=abc",
            "nothing is verified",
        ),
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let (_, err) = run(dir.path(), &words, 2);
        assert!(err.contains(what), "{err}");
    }
    assert!(!dir.path().join("f").exists());
}
