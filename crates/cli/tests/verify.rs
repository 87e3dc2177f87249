//! Verification end to end on files: damage between a run and the next is found, told apart and
//! located, and makes the exit code 6; a storage that works is never blamed.

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use common::run;
use serde_json::{Value, json};

#[path = "common/blocks.rs"]
mod blocks;

use blocks::{BLOCK, sealed};

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
    let output = common::taillight(dir).args(words.split_whitespace()).output().expect("it starts");
    output.status.success()
}

const WRITE_ALL: &str = "--rw write --ops 256 --set verify.mode=after";

/// One block flipped, one lost, one in another's place, one of another run.
fn damage(file: &std::fs::File, foreign: &[u8]) {
    let mut block = vec![0; BLOCK as usize];
    file.read_exact_at(&mut block, 20 * BLOCK).expect("read");
    file.write_all_at(&block, 30 * BLOCK).expect("written");
    file.write_all_at(&vec![0; BLOCK as usize], 9 * BLOCK).expect("written");
    file.write_all_at(foreign, 40 * BLOCK).expect("written");
    file.read_exact_at(&mut block[..1], 5 * BLOCK + 77).expect("read");
    file.write_all_at(&[block[0] ^ 1], 5 * BLOCK + 77).expect("written");
    file.sync_all().expect("synced");
}

fn damage_is_found(direct: bool) {
    let dir = directory();
    let dir = dir.path();
    if direct && !direct_works(dir) {
        println!("skipped: damage_is_found_direct: no direct I/O in {}", dir.display());
        return;
    }
    go(dir, "first", direct, WRITE_ALL, 0);
    let file = OpenOptions::new().read(true).write(true).open(dir.join("file"));
    let file = file.expect("the file is kept");
    let mut foreign = vec![0; BLOCK as usize];
    file.read_exact_at(&mut foreign, 40 * BLOCK).expect("read");

    let (clean, id, said) = go(dir, "second", direct, WRITE_ALL, 0);
    assert_eq!((&clean["checked"], &clean["wrong"]), (&json!(BLOCKS), &json!(0)));
    assert_eq!(clean["pass"]["complete"], true);
    assert_eq!(clean["pass"]["caches_dropped"], true);
    assert!(said.contains("256 blocks checked: all as written"), "{said}");

    damage(&file, &foreign);

    let expected = json!({
        "flipped": 1, "torn": 0, "lost": 1, "stale": 0, "misplaced": 1, "other_run": 1,
        "other_size": 0,
    });
    for (out, words) in [
        ("inline", format!("--rw read --ops 256 --set verify.mode=inline --set verify.run={id}")),
        ("after", format!("--rw read --ops 1 --set verify.mode=after --set verify.run={id}")),
    ] {
        let (found, _, said) = go(dir, out, direct, &words, 6);
        assert_eq!(found["kinds"], expected, "{out}");
        assert_eq!((&found["checked"], &found["wrong"]), (&json!(BLOCKS), &json!(4)));
        let at = |kind: &str| {
            let findings = found["findings"].as_array().expect("a list");
            let one = findings.iter().find(|f| f["kind"] == kind);
            one.unwrap_or_else(|| panic!("{kind}: {findings:?}")).clone()
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

/// Changes the generation of a block, loses one, brings one back, misplaces one.
fn damage_later(file: &std::fs::File, id: &str) {
    let mut block = vec![0; BLOCK as usize];
    file.read_exact_at(&mut block, 33 * BLOCK).expect("read");
    assert_eq!(block, sealed(id, 33, 3), "each block was written three times");
    let put = |block: u64, bytes: &[u8]| {
        file.write_all_at(bytes, block * BLOCK).expect("written");
    };
    put(5, &{
        let mut flipped = sealed(id, 5, 3);
        flipped[25] ^= 1; // its generation
        flipped
    });
    put(7, &vec![0; BLOCK as usize]);
    put(9, &sealed(id, 9, 1));
    put(11, &sealed(id, 12, 3));
    file.sync_all().expect("synced");
}

fn every_report_says_so(dir: &Path, out: &str, found: &Value, said: String) {
    let summary = read_json(&dir.join(out).join("summary.json"));
    assert_eq!(summary["verify"]["kinds"], found["kinds"]);
    assert_eq!(summary["verdict"]["status"], "errors");
    assert_eq!(summary["verdict"]["reasons"][0]["code"], "wrong_data");
    let text = |name: &str| std::fs::read_to_string(dir.join(out).join(name)).expect("a report");
    for page in [said, text("report.md"), text("report.html")] {
        for wanted in [
            "Wrong data",
            "changed bytes",
            "lost write",
            "stale block",
            "misplaced block",
            "offset 36864",
            "it belongs to 49152",
            "write 1",
        ] {
            assert!(page.contains(wanted), "{out}: {wanted}\n{page:.3000}");
        }
    }
}

#[test]
fn all_kinds_are_told_apart_later_and_in_every_report() {
    let dir = directory();
    let dir = dir.path();
    let (clean, id, _) = go(dir, "first", false, "--rw write --ops 768 --set verify.mode=after", 0);
    assert_eq!((&clean["checked"], &clean["wrong"]), (&json!(BLOCKS), &json!(0)));
    let file =
        OpenOptions::new().read(true).write(true).open(dir.join("file")).expect("the file is kept");
    damage_later(&file, &id);

    // The run was read back by its pass, so an older block has come back: none is merely lost.
    let expected = [("flipped", 5), ("lost", 7), ("stale", 9), ("misplaced", 11)];
    for (out, words) in [
        ("inline", "--rw read --ops 256 --set verify.mode=inline --set verify.run=first"),
        ("after", "--rw read --ops 1 --set verify.mode=after --set verify.run=first"),
    ] {
        let (found, _, said) = go(dir, out, false, words, 6);
        let findings = found["findings"].as_array().expect("a list");
        let mut places: Vec<(&str, u64)> = findings
            .iter()
            .map(|f| {
                (f["kind"].as_str().unwrap_or("-"), f["address"].as_u64().unwrap_or(0) / BLOCK)
            })
            .collect();
        places.sort_unstable_by_key(|p| p.1);
        assert_eq!(places, expected, "{out}");
        assert!(findings.iter().all(|f| f["expected"] == 3), "{findings:?}");
        every_report_says_so(dir, out, &found, said);
        run(dir, &["report", out], 6);
    }
    // By the id alone the older block passes; the rest does not.
    let words = format!("--rw read --ops 1 --set verify.mode=after --set verify.run={id}");
    let (found, _, _) = go(dir, "by-id", false, &words, 6);
    assert_eq!((&found["wrong"], &found["kinds"]["stale"]), (&json!(3), &json!(0)));
}

#[test]
fn a_write_that_never_landed_is_lost_to_a_later_run() {
    let dir = directory();
    let dir = dir.path();
    // Nothing reads back here, so that the run cannot know whether its last writes are there.
    let words = "--rw write --ops 512 --set verify.mode=inline";
    let (_, id, _) = go(dir, "first", false, words, 0);
    let file = OpenOptions::new().write(true).open(dir.join("file"));
    let file = file.expect("the file is kept");
    file.write_all_at(&sealed(&id, 100, 1), 100 * BLOCK).expect("written");
    let words = "--rw read --ops 1 --set verify.mode=after --set verify.run=first";
    let (found, _, said) = go(dir, "later", false, words, 6);
    let finding = &found["findings"][0];
    assert_eq!((&finding["kind"], &finding["address"]), (&json!("lost"), &json!(100 * BLOCK)));
    assert_eq!((&finding["expected"], &finding["found"]), (&json!(2), &json!(1)));
    assert!(said.contains("1 x lost write"), "{said}");
}

#[test]
fn an_earlier_run_without_a_ledger_is_refused_before_anything_happens() {
    let dir = directory();
    let dir = dir.path();
    let read = |what: &str| {
        let words = format!(
            "run --driver file --path file --size 1MiB --rw read --set verify.mode=after \
             --set verify.run={what}"
        );
        let words: Vec<&str> = words.split_whitespace().collect();
        run(dir, &words, 2).1
    };
    assert!(read("no/such/run").contains("no such run directory"));
    assert!(!dir.join("file").exists());
    let words =
        "run --driver file --path file --size 1MiB --bs 4KiB --rw write --ops 1 --output bare";
    run(dir, &words.split_whitespace().collect::<Vec<_>>(), 0);
    let said = read("bare");
    assert!(said.contains("no record of its writes"), "{said}");
    assert!(said.contains("by its id"), "{said}");
}

#[test]
fn the_plan_says_what_the_record_takes_and_too_much_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let words = "run --driver file --path f --size 1GiB --bs 4KiB --rw write \
                 --set verify.mode=after --print-plan";
    let (said, _) = run(dir.path(), &words.split_whitespace().collect::<Vec<_>>(), 0);
    assert!(said.contains("writes to 262144 blocks or records: 2097152 B of memory"), "{said}");
    let words = words.replace("1GiB", "4096TiB");
    let (_, err) = run(dir.path(), &words.split_whitespace().collect::<Vec<_>>(), 4);
    assert!(err.contains("1099511627776 blocks needs 8388608 MiB"), "{err}");
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
    assert!(found["checked"].as_u64().expect("a number") > 1000, "{found}");
}

#[test]
fn records_are_checked_after_the_run_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let job = "[run]\noperations = 3000\n[target]\ndriver = \"memory\"\n\
               [verify]\nmode = \"after\"\n[[workload]]\nworkers = 2\nblock_size = \"100B\"\n\
               mix = { get = 20, update = 40, rmw = 20, insert = 20 }\n\
               access = \"random\"\nkeys = { count = 200 }\n";
    std::fs::write(dir.path().join("job.toml"), job).expect("written");
    let (said, _) = run(dir.path(), &["run", "job.toml", "--output", "out"], 0);
    let found = read_json(&dir.path().join("out/verify.json"));
    assert_eq!(found["wrong"], 0, "{found}");
    assert_eq!(found["pass"]["complete"], true);
    let summary = read_json(&dir.path().join("out/summary.json"));
    let inserts = summary["ops"]["insert"]["count"].as_u64().expect("inserts");
    // What was loaded before the run and what it inserted, each once.
    assert_eq!(found["pass"]["blocks"], 200 + inserts);
    let checked = found["checked"].as_u64().expect("a number");
    let overlapped = found["unchecked"]["overlapped"].as_u64().expect("a number");
    assert_eq!(checked + overlapped, 200 + inserts, "{found}");
    assert!(said.contains("all as written"), "{said}");
}

#[test]
fn what_cannot_be_verified_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    for (words, what) in [
        ("run --driver null --set verify.mode=inline", "does not keep"),
        (
            "run --driver file --path f --size 1MiB --set verify.mode=after --rw write \
             --set workload.0.payload.duplicate=10",
            "all different",
        ),
        ("run --driver null --set verify.run=abc", "nothing is verified"),
        (
            "run --driver file --path f --size 1MiB --rw write --set verify.mode=after \
             --set verify.run=runs-old",
            "no such run directory",
        ),
        (
            "run --driver file --path f --size 1MiB --bs 32B --rw write --set verify.mode=after",
            "too small to be verified",
        ),
    ] {
        let words: Vec<&str> = words.split_whitespace().collect();
        let (_, err) = run(dir.path(), &words, 2);
        assert!(err.contains(what), "{err}");
    }
    assert!(!dir.path().join("f").exists());
}
