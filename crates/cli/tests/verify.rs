//! Verification end to end, on files and a store in memory: damage between a run and the next is found, told apart and
//! located, and makes the exit code 6; a storage that works is never blamed.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{
    self, json, manifest, run, run_job, run_line, scratch, scratch_on_disk, summary,
};
use serde_json::{Value, json};

use crate::common::blocks::{BLOCK, sealed};

const BLOCKS: u64 = 256;

/// Runs over `file` with `words` added; returns `verify.json`, the id of the run and what it printed.
fn go(dir: &Path, out: &str, direct: bool, words: &str, code: i32) -> (Value, String, String) {
    let line = format!(
        "run --driver file --path file --size 1MiB --bs 4KiB --output {out} \
         --set target.options.keep=true --set target.options.direct={direct} {words}"
    );
    let (said, _) = run_line(dir, &line, code);
    let id = manifest(dir, out)["run_id"].as_str().expect("an id").to_owned();
    (json(&dir.join(out).join("verify.json")), id, said)
}

/// Whether this file system has direct I/O.
fn direct_works(dir: &Path) -> bool {
    let words = "run --driver file --path probe --size 1MiB --bs 4KiB --rw write --ops 1 \
                 --direct --output probe-out";
    let output = common::taillight(dir).args(words.split_whitespace()).output().expect("it starts");
    output.status.success()
}

/// Changes the generation of a block, fills one with zeros, puts back what one was before, misplaces one, and puts one
/// there that another run wrote.
fn damage(file: &std::fs::File, id: &str) {
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
    put(13, &sealed("another run", 13, 1));
    file.sync_all().expect("synced");
}

fn every_report_says_so(dir: &Path, out: &str, found: &Value, said: String) {
    let summary = summary(dir, out);
    assert_eq!(summary["verify"]["kinds"], found["kinds"]);
    assert_eq!(summary["verdict"]["status"], "errors");
    assert_eq!(summary["verdict"]["reasons"][0]["code"], "wrong_data");
    let text = |name: &str| std::fs::read_to_string(dir.join(out).join(name)).expect("a report");
    for page in [said, text("report.md"), text("report.html")] {
        for wanted in [
            "Wrong data",
            "changed bytes",
            "zeroed block",
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

fn kind_and_block(finding: &Value) -> (&str, u64) {
    let address = finding["address"].as_u64().expect("an address");
    (finding["kind"].as_str().expect("a kind"), address / BLOCK)
}

fn all_kinds_are_told_apart(direct: bool) {
    let dir = scratch_on_disk();
    let dir = dir.path();
    if direct && !direct_works(dir) {
        eprintln!("skipped: damage found by direct reads: no direct I/O in {}", dir.display());
        return;
    }
    let words = "--rw write --ops 768 --set verify.mode=after";
    let (clean, id, said) = go(dir, "first", direct, words, 0);
    assert_eq!((&clean["checked"], &clean["wrong"]), (&json!(BLOCKS), &json!(0)));
    assert_eq!(clean["pass"]["complete"], true);
    assert_eq!(clean["pass"]["caches_dropped"], true);
    assert!(said.contains("256 blocks checked: all as written"), "{said}");
    let file = OpenOptions::new().read(true).write(true).open(dir.join("file"));
    damage(&file.expect("the file is kept"), &id);

    // The run was read back by its pass, so an older block has come back: none is merely lost.
    let expected =
        [("flipped", 5), ("zeroed", 7), ("stale", 9), ("misplaced", 11), ("other_run", 13)];
    for (out, words) in [
        ("inline", "--rw read --ops 256 --set verify.mode=inline --set verify.run=first"),
        ("after", "--rw read --ops 1 --set verify.mode=after --set verify.run=first"),
    ] {
        let (found, _, said) = go(dir, out, direct, words, 6);
        let findings = found["findings"].as_array().expect("a list");
        let mut places: Vec<(&str, u64)> = findings.iter().map(kind_and_block).collect();
        places.sort_unstable_by_key(|p| p.1);
        assert_eq!(places, expected, "{out}");
        assert!(findings.iter().all(|f| f["expected"] == 3), "{findings:?}");
        let at = |kind: &str| findings.iter().find(|f| f["kind"] == kind).expect(kind);
        assert_eq!(
            (&at("flipped")["first_byte"], &at("flipped")["bytes"]),
            (&json!(25), &json!(1))
        );
        assert_eq!(at("misplaced")["found_address"], 12 * BLOCK);
        assert!(said.contains("5 WRONG"), "{said}");
        every_report_says_so(dir, out, &found, said);
        run(dir, &["report", out], 6);
    }
    // By the id alone the older block passes; the rest does not.
    let words = format!("--rw read --ops 1 --set verify.mode=after --set verify.run={id}");
    let (found, _, _) = go(dir, "by-id", direct, &words, 6);
    assert_eq!((&found["wrong"], &found["kinds"]["stale"]), (&json!(4), &json!(0)));
}

#[test]
fn all_kinds_are_told_apart_later_and_in_every_report() {
    all_kinds_are_told_apart(false);
    all_kinds_are_told_apart(true);
}

#[test]
fn a_write_that_never_landed_is_lost_to_a_later_run() {
    let dir = scratch_on_disk();
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
    let dir = scratch_on_disk();
    let dir = dir.path();
    let read = |what: &str| {
        let line = "run --driver file --path file --size 1MiB --rw read --set verify.mode=after";
        run_line(dir, &format!("{line} --set verify.run={what}"), 2).1
    };
    assert!(read("no/such/run").contains("no such run directory"));
    assert!(!dir.join("file").exists());
    let words =
        "run --driver file --path file --size 1MiB --bs 4KiB --rw write --ops 1 --output bare";
    run_line(dir, words, 0);
    let said = read("bare");
    assert!(said.contains("no record of its writes"), "{said}");
    assert!(said.contains("by its id"), "{said}");
}

#[test]
fn the_plan_says_what_the_record_takes() {
    let dir = scratch();
    let words = "run --driver file --path f --size 1GiB --bs 4KiB --rw write \
                 --set verify.mode=after --print-plan";
    let (said, _) = run_line(dir.path(), words, 0);
    assert!(said.contains("writes to 262144 blocks or records: 2097152 B of memory"), "{said}");
}

#[test]
fn a_storage_that_works_is_never_blamed() {
    let dir = scratch_on_disk();
    for (out, engine) in [("sync", "--depth 1"), ("uring", "--depth 8")] {
        // Two workers over the same few blocks: reads and writes overlap all the time.
        let words = format!(
            "--rw randrw --ops 20000 --workers 2 {engine} --set verify.mode=inline \
             --set workload.0.payload.compressible=50"
        );
        let (found, _, _) = go(dir.path(), out, false, &words, 0);
        assert_eq!(found["wrong"], 0, "{found}");
        let checked = found["checked"].as_u64().expect("a number");
        let overlapped = found["unchecked"]["overlapped"].as_u64().expect("a number");
        assert!(checked > 5000, "{found}");
        assert!(checked + overlapped < 20_000, "{found}");
    }
}

/// While it runs, and by a pass afterwards.
#[test]
fn records_of_a_store_are_checked() {
    for (mode, mix) in [
        ("inline", "get = 50, update = 40, insert = 5, delete = 5"),
        ("after", "get = 20, update = 40, rmw = 20, insert = 20"),
    ] {
        let dir = scratch();
        let job = format!(
            "[run]\noperations = 3000\n[target]\ndriver = \"memory\"\n[verify]\nmode = \"{mode}\"\n\
             [[workload]]\nworkers = 2\nblock_size = \"100B\"\nmix = {{ {mix} }}\n\
             access = \"random\"\nkeys = {{ count = 200 }}\n"
        );
        let (said, _) = run_job(dir.path(), &job, 0);
        let found = json(&dir.path().join("out/verify.json"));
        assert_eq!(found["wrong"], 0, "{mode}: {found}");
        let checked = found["checked"].as_u64().expect("a number");
        if mode == "inline" {
            assert!(checked > 500, "{found}");
            continue;
        }
        assert_eq!(found["pass"]["complete"], true);
        let summary = summary(dir.path(), "out");
        let inserts = summary["ops"]["insert"]["count"].as_u64().expect("inserts");
        // What was loaded before the run and what it inserted, each once.
        assert_eq!(found["pass"]["blocks"], 200 + inserts);
        let overlapped = found["unchecked"]["overlapped"].as_u64().expect("a number");
        assert_eq!(checked + overlapped, 200 + inserts, "{found}");
        assert!(said.contains("all as written"), "{said}");
    }
}
