//! The driver `metadata` through the binary: counts are those of the directory, content is verified by number, killed
//! runs leave nothing wrong, and the suites that are made of it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::common::{self, json, manifest, run_line, scratch_on_disk, signal, start, summary};
use serde_json::Value;

const ENGINES: [&str; 2] = ["sync", "io_uring --set workload.0.queue_depth=8"];

fn line(engine: &str, out: &str, words: &str) -> String {
    format!(
        "run --driver metadata --path files --output {out} --set target.options.engine={engine} {words}"
    )
}

/// Files below a directory that carry a number, by it.
fn files(dir: &Path) -> Vec<(u64, PathBuf)> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(files(&path));
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let number = name.rsplit('.').next().and_then(|n| n.parse().ok());
        all.extend(number.map(|n| (n, path)));
    }
    all.sort();
    all
}

fn fact(dir: &Path, out: &str, name: &str) -> u64 {
    let facts = &manifest(dir, out)["environment"]["driver"];
    let text = facts[format!("metadata.{name}")].as_str().unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("{name} in {facts}"))
}

#[test]
fn counts_are_those_of_the_directory() {
    for engine in ENGINES {
        for layout in ["per-worker", "shared"] {
            let dir = scratch_on_disk();
            let dir = dir.path();
            let words = format!(
                "--set workload.0.mix={{create=30,unlink=20,stat=20,open_read_close=20,rename=8,\
                 mkdir=2}} --bs 500B --set workload.0.keys.count=300 --set workload.0.workers=3 \
                 --ops 2000 --set target.options.directories={layout} --set target.options.keep=true"
            );
            run_line(dir, &line(engine, "out", &words), 0);
            let summary = summary(dir, "out");
            let count = |op: &str| summary["ops"][op]["count"].as_u64().unwrap_or(0);
            let total: u64 = ["create", "unlink", "stat", "open_read_close", "rename", "mkdir"]
                .map(count)
                .iter()
                .sum();
            assert_eq!(total, 2000, "{engine} {layout}");
            let there = files(&dir.join("files"));
            let expected = 300 + count("create") - count("unlink");
            assert_eq!(there.len() as u64, expected, "{engine} {layout}");
            assert_eq!(fact(dir, "out", "files_at_end"), expected);
            assert_eq!(fact(dir, "out", "directories_at_end"), count("mkdir"));
            let bytes: u64 =
                there.iter().filter_map(|(_, p)| p.metadata().ok()).map(|m| m.len()).sum();
            assert_eq!(bytes, expected * 500, "each is whole");
            assert_eq!(summary["ops"]["create"]["bytes"].as_u64(), Some(count("create") * 500));
        }
    }
}

fn kinds(dir: &Path, out: &str) -> Value {
    json(&dir.join(out).join("verify.json"))["kinds"].clone()
}

/// Files are exchanged, lost, cut and overwritten between two runs: each is named for what it is.
#[test]
fn what_happened_to_files_is_told_by_number() {
    for engine in ENGINES {
        let dir = scratch_on_disk();
        let dir = dir.path();
        let base =
            "--bs 500B --set target.options.keep=true --set target.options.directories=shared";
        let make = format!(
            "{base} --set workload.0.mix={{create=1,rename=1}} --set workload.0.keys.count=200 --ops 400 \
             --set verify.mode=after"
        );
        run_line(dir, &line(engine, "first", &make), 0);
        let there = files(&dir.join("files"));
        let count = there.len();
        let look = |out: &str, code: i32| {
            let words = format!(
                "{base} --set workload.0.mix=open_read_close --set workload.0.keys.count={count} --ops 1 \
                 --set verify.mode=after --set verify.run=first"
            );
            run_line(dir, &line(engine, out, &words), code)
        };
        look("good", 0);
        assert_eq!(json(&dir.join("good/verify.json"))["wrong"], 0);
        let file = |number: u64| {
            let found = there.iter().find(|(n, _)| *n == number);
            found.map(|(_, path)| path.clone()).expect("it is there")
        };
        // 5 and 6 exchanged, 7 overwritten with zeros, 8 cut.
        let (five, six) =
            (std::fs::read(file(5)).expect("read"), std::fs::read(file(6)).expect("read"));
        std::fs::write(file(5), six).expect("written");
        std::fs::write(file(6), five).expect("written");
        std::fs::write(file(7), vec![0; 500]).expect("written");
        std::fs::write(file(8), &std::fs::read(file(8)).expect("read")[..300]).expect("written");
        let (said, _) = look("bad", 6);
        let found = kinds(dir, "bad");
        assert_eq!((&found["misplaced"], &found["zeroed"]), (&2.into(), &1.into()), "{found}");
        assert_eq!(json(&dir.join("bad/verify.json"))["wrong"], 4, "{found}");
        assert!(said.contains("Wrong data"), "{said}");
    }
}

/// A file is lost while a run reads: the run says so, as a missing record.
#[test]
fn a_lost_file_is_missing() {
    let dir = scratch_on_disk();
    let dir = dir.path();
    let base = "--bs 500B --set target.options.keep=true --set workload.0.keys.count=50";
    let make = format!("{base} --set workload.0.mix=stat --ops 10 --set verify.mode=after");
    run_line(dir, &line("sync", "first", &make), 0);
    let there = files(&dir.join("files"));
    assert_eq!(there.len(), 50);
    let words = format!(
        "{base} --set workload.0.mix={{open_read_close=1,stat=1}} --runtime 2s --set run.interval=100ms \
         --set verify.mode=inline --set verify.run=first"
    );
    let child = common::start_measuring(dir, &line("sync", "second", &words));
    std::fs::remove_file(&there[20].1).expect("removed");
    let output = child.wait_with_output().expect("it ended");
    assert_eq!(output.status.code(), Some(6), "{}", common::text(&output.stderr));
    assert!(kinds(dir, "second")["missing"].as_u64() > Some(0));
}

/// Starts a run, waits until there are so many files and `also` is there, and kills it.
fn killed_with(dir: &Path, line: &str, files_there: usize, also: &Path) {
    let mut child = start(dir, line);
    let patience = Instant::now() + Duration::from_secs(60);
    while files(&dir.join("files")).len() < files_there || !also.exists() {
        assert!(Instant::now() < patience, "no files");
        std::thread::sleep(Duration::from_millis(2));
    }
    signal(&child, "KILL");
    child.wait().expect("it ended");
}

#[test]
fn a_killed_run_leaves_what_the_next_one_knows() {
    for engine in ENGINES {
        for (when, files_there, also) in [("layout", 500, "."), ("load", 2_100, "out")] {
            for keep in [true, false] {
                let dir = scratch_on_disk();
                let dir = dir.path();
                let base = format!(
                    "--bs 500B --set target.options.keep={keep} --set workload.0.workers=2 \
                     --set target.options.directories=shared --set verify.mode=after"
                );
                let words = format!(
                    "{base} --set workload.0.mix={{create=1,stat=1}} --set workload.0.keys.count=2000 \
                     --runtime 60s"
                );
                killed_with(dir, &line(engine, "out", &words), files_there, &dir.join(also));
                let left = files(&dir.join("files"));
                let whole = |path: &Path| std::fs::metadata(path).is_ok_and(|m| m.len() == 500);
                let without_gap = left.iter().zip(0..);
                let without_gap =
                    without_gap.take_while(|((n, path), wanted)| n == wanted && whole(path));
                // The last ones were being made: a file that is there and empty was not acknowledged.
                let acknowledged = without_gap.count().saturating_sub(40).min(1_900);
                let known = if keep { acknowledged } else { 100 };
                // What was killed is known as Taillight's own; nothing in it is wrong.
                let (text, prior) = match (keep, manifest_of(dir, "out")) {
                    (true, Some(id)) => (format!("--set verify.run={id}"), true),
                    _ => (String::new(), false),
                };
                let words = format!(
                    "{base} --set workload.0.mix=open_read_close --set workload.0.keys.count={known} \
                     --ops 20 {text}"
                );
                run_line(dir, &line(engine, "next", &words), 0);
                let report = json(&dir.join("next/verify.json"));
                assert_eq!(report["wrong"], 0, "{engine}, killed in the {when}: {report}");
                if prior {
                    assert!(report["checked"].as_u64() >= Some(known as u64), "{report}");
                }
                // The directory itself was there for the next one, and stays.
                let left = std::fs::read_dir(dir.join("files")).map_or(0, Iterator::count);
                assert_eq!(left > 0, keep, "{engine} {when}");
            }
        }
    }
}

/// The id of a run, if it came so far as to have a manifest.
fn manifest_of(dir: &Path, out: &str) -> Option<String> {
    let manifest = dir.join(out).join("manifest.json");
    manifest.exists().then(|| json(&manifest)["run_id"].as_str().unwrap_or_default().to_owned())
}

/// What others keep in a directory of a phase, or put there meanwhile, is neither used nor removed.
#[test]
fn a_suite_leaves_what_it_did_not_make() {
    let dir = scratch_on_disk();
    let at = dir.path();
    std::fs::create_dir_all(at.join("here/ior-easy")).expect("made");
    let keep = "run --driver file --path here/ior-easy/ --size 1MiB --ops 1 --output other \
                --set target.options.keep=true";
    run_line(at, keep, 0);
    let kept = std::fs::read(at.join("here/ior-easy/taillight-0.dat")).expect("kept");
    let words = "suite io500 --path here --scale quick --records 100 --threads 2";
    let (_, err) = run_line(at, &format!("{words} --output out"), 3);
    assert!(err.contains("ior-easy") && err.contains("is not empty"), "{err}");
    assert!(!at.join("out").exists(), "refused before anything is measured");
    let still = std::fs::read(at.join("here/ior-easy/taillight-0.dat")).expect("kept");
    assert!(still == kept, "as it was");
    // Beside what a phase has made, while another one runs.
    std::fs::rename(at.join("here"), at.join("there")).expect("moved");
    let child = start(at, &format!("{words} --output second"));
    let patience = Instant::now() + Duration::from_secs(60);
    while !at.join("second/mdtest-easy-write").exists() {
        assert!(Instant::now() < patience, "no second phase");
        std::thread::sleep(Duration::from_millis(2));
    }
    std::fs::write(at.join("here/ior-easy/thesis.tex"), "mine").expect("written");
    let output = child.wait_with_output().expect("it ended");
    assert!(output.status.success(), "{}", common::text(&output.stderr));
    let said = common::text(&output.stdout);
    assert!(said.contains("Left:") && said.contains("ior-easy"), "{said}");
    let names = |dir: &Path| {
        let all = std::fs::read_dir(dir).expect("listed").flatten();
        all.map(|e| e.file_name().to_string_lossy().into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names(&at.join("here")), ["ior-easy"]);
    assert_eq!(names(&at.join("here/ior-easy")), ["thesis.tex"]);
}

#[test]
fn the_suites_measure_every_phase_and_leave_nothing() {
    let phases = |dir: &Path| {
        let answer = json(&dir.join("out/series.json"))["answer"].clone();
        answer["phases"].as_object().cloned().unwrap_or_default()
    };
    let ops = |phases: &serde_json::Map<String, Value>, name: &str| phases[name]["ops"].as_f64();
    let dir = scratch_on_disk();
    let words = "--path here --scale quick --records 300 --threads 3 --output out";
    let (said, _) = run_line(dir.path(), &format!("suite metadata {words}"), 0);
    let all = phases(dir.path());
    assert_eq!(all.len(), 8, "{all:?}");
    for name in ["file-create", "file-stat", "file-read", "file-rename", "file-remove"] {
        assert_eq!(ops(&all, name), Some(300.0), "{name}: {said}");
    }
    assert_eq!(ops(&all, "directory-create"), ops(&all, "directory-remove"));
    assert!(!dir.path().join("here").exists(), "all of it is gone");
    let dir = scratch_on_disk();
    let (said, _) = run_line(dir.path(), &format!("suite io500 {words}"), 0);
    let all = phases(dir.path());
    for name in [
        "mdtest-easy-write",
        "mdtest-easy-stat",
        "mdtest-easy-delete",
        "mdtest-hard-write",
        "mdtest-hard-stat",
        "mdtest-hard-read",
        "mdtest-hard-delete",
        "find-easy",
        "find-hard",
    ] {
        assert_eq!(ops(&all, name), Some(300.0), "{name}: {said}");
    }
    // 32 MiB of each of three workers, in whole blocks.
    assert_eq!(ops(&all, "ior-easy-write"), Some(48.0));
    assert_eq!(ops(&all, "ior-hard-write"), ops(&all, "ior-hard-read"));
    assert_eq!(ops(&all, "ior-hard-write"), Some(f64::from(32 * 1024 * 1024 / 47_008 * 3)));
    let lines = std::fs::read_to_string(dir.path().join("out/phases.txt")).expect("lines");
    let order: Vec<&str> = lines
        .lines()
        .filter_map(|line| line.strip_prefix("[RESULT]")?.split_whitespace().next())
        .collect();
    assert_eq!(
        order,
        [
            "ior-easy-write",
            "mdtest-easy-write",
            "ior-hard-write",
            "mdtest-hard-write",
            "find",
            "ior-easy-read",
            "mdtest-easy-stat",
            "ior-hard-read",
            "mdtest-hard-stat",
            "mdtest-easy-delete",
            "mdtest-hard-read",
            "mdtest-hard-delete",
            "ior-rnd4K-easy-read",
        ]
    );
    assert!(said.contains("IO500-like") && lines.contains("[INVALID]"), "{said}");
    assert!(!dir.path().join("here").exists(), "all of it is gone");
}
