//! A run that was killed: its chunks become `ios.parquet`, whatever state they are in.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use crate::common;
use taillight_capture::salvage::salvage;
use taillight_core::{ErrorKind, Record};
use taillight_rundir::{RunDir, RunStatus, fixture, names};

struct Killed {
    root: tempfile::TempDir,
    shm: PathBuf,
    records: Vec<Record>,
}

/// A run directory and capture files as SIGKILL leaves them.
fn killed(id: &str) -> Killed {
    let root = tempfile::tempdir().unwrap();
    let shm = root.path().join(format!("taillight-{id}"));
    fs::create_dir(&shm).unwrap();
    let records: Vec<Record> =
        (0..4000).map(|i| common::record(1_000_000 + i * 50, 45, i as u64)).collect();
    for (i, chunk) in common::chunks(0, &records, 1000).iter().enumerate() {
        fs::write(shm.join(format!("{i:08}.chunk")), chunk).unwrap();
    }
    fs::write(shm.join("00000009.chunk"), vec![0; 1 << 16]).unwrap();
    let mut manifest = common::killed(id);
    manifest.phases.clear();
    manifest.capture.path = Some(shm.display().to_string());
    drop(RunDir::create(&root.path().join("run"), &manifest).unwrap());
    fs::write(root.path().join("run/.taillight-0123456789abcdef.tmp"), "half").unwrap();
    Killed { root, shm, records }
}

fn open(root: &Path) -> RunDir {
    RunDir::open(&root.join("run")).unwrap()
}

#[test]
fn everything_in_memory_is_recovered() {
    let k = killed("salvage-all");
    let mut dir = open(k.root.path());
    assert_eq!(dir.status(), RunStatus::Partial);
    let found = salvage(&mut dir, &mut |_| true).unwrap().unwrap();
    assert_eq!((found.ios, found.damaged), (4000, 0));
    assert!(!k.shm.exists(), "memory is freed");
    assert!(!dir.file(".taillight-0123456789abcdef.tmp").exists());
    drop(dir);

    let mut dir = open(k.root.path());
    let m = dir.manifest().clone();
    assert_eq!(m.status, RunStatus::Partial);
    assert_eq!((m.capture.kept, m.capture.path), (4000, None));
    assert_eq!(m.phases.len(), 1);
    assert_eq!((m.phases[0].name.as_str(), m.phases[0].ios), ("measure", 4000));
    assert_eq!(m.phases[0].start_ns, 1_000_000);
    assert!(m.reason.unwrap().contains("4000 I/Os"));
    let rows = common::rows(&dir.file(names::IOS));
    assert!(rows.iter().map(|r| r.3).eq(k.records.iter().copied()));
    assert_eq!(salvage(&mut dir, &mut |_| true).unwrap(), None, "only once");
}

#[test]
fn a_chunk_marked_partial_makes_the_capture_degraded() {
    for converted_before in [false, true] {
        let id = format!("salvage-partial-{converted_before}");
        let k = killed(&id);
        if converted_before {
            let mut dir = open(k.root.path());
            salvage(&mut dir, &mut |_| true).unwrap();
            let mut manifest = common::killed(&id);
            manifest.capture.path = Some(k.shm.display().to_string());
            dir.write_manifest(&manifest).unwrap();
            fs::create_dir(&k.shm).unwrap();
        }
        for (i, mut chunk) in common::chunks(0, &k.records, 1000).into_iter().enumerate() {
            if i >= 2 {
                chunk[8 + 7] |= 1 << (taillight_capture::chunk::PARTIAL_BIT - 56);
            }
            fs::write(k.shm.join(format!("{i:08}.chunk")), chunk).unwrap();
        }
        let mut dir = open(k.root.path());
        let found = salvage(&mut dir, &mut |_| true).unwrap().unwrap();
        assert_eq!((found.ios, found.damaged), (4000, 0));
        assert!(found.text.contains("only outliers"), "{}", found.text);
        let degraded = dir.manifest().capture.degraded.clone().unwrap();
        assert!(degraded.reason.contains("unknown"), "{}", degraded.reason);
        let third = k.records[2000].complete.0;
        assert!(degraded.at_ns < third && degraded.at_ns >= k.records[1999].complete.0 - 50);
    }
}

#[test]
fn damaged_chunks_are_counted_and_the_rest_is_kept() {
    let k = killed("salvage-damaged");
    let second = fs::read(k.shm.join("00000001.chunk")).unwrap();
    fs::write(k.shm.join("00000001.chunk"), &second[..300]).unwrap();
    let last = fs::read(k.shm.join("00000003.chunk")).unwrap();
    fs::write(k.shm.join("00000003.chunk"), &last[..4096 + 16 * 10 + 5]).unwrap();
    fs::write(k.shm.join("00000007.chunk"), "not a chunk at all").unwrap();
    fs::write(k.shm.join("keep.txt"), "not ours").unwrap();
    let mut dir = open(k.root.path());
    let found = salvage(&mut dir, &mut |_| true).unwrap().unwrap();
    assert_eq!((found.ios, found.damaged), (2010, 1));
    assert_eq!(dir.manifest().losses.chunks, 1);
    assert!(k.shm.join("keep.txt").exists());
    assert_eq!(fs::read_dir(&k.shm).unwrap().count(), 1);
}

#[test]
fn chunks_of_another_version_stay_for_it() {
    let k = killed("salvage-version");
    for i in 0..4 {
        let path = k.shm.join(format!("{i:08}.chunk"));
        let mut bytes = fs::read(&path).unwrap();
        if bytes[0] != 0 {
            bytes[7] = b'1';
        }
        fs::write(&path, bytes).unwrap();
    }
    let left = fs::read_dir(&k.shm).unwrap().count();
    let e = salvage(&mut open(k.root.path()), &mut |_| true).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unavailable);
    assert!(e.to_string().contains("another version"), "{e}");
    let made_by = open(k.root.path()).manifest().taillight.clone();
    assert!(e.hint_text().is_some_and(|hint| hint.contains(&made_by)), "{e}");
    assert_eq!(open(k.root.path()).manifest().status, RunStatus::Running);
    assert_eq!(fs::read_dir(&k.shm).unwrap().count(), left);
}

#[test]
fn flipped_bits_never_panic() {
    let mut random = common::RowRandom(3);
    for round in 0..40 {
        let k = killed(&format!("salvage-flip-{round}"));
        for i in 0..4 {
            let path = k.shm.join(format!("{i:08}.chunk"));
            let mut bytes = fs::read(&path).unwrap();
            for _ in 0..3 {
                let within = if random.next(3) == 0 { 200 } else { bytes.len() as u64 };
                let at = random.next(within) as usize;
                bytes[at] ^= 1 << random.next(8);
            }
            fs::write(&path, bytes).unwrap();
        }
        let mut dir = open(k.root.path());
        salvage(&mut dir, &mut |_| true).unwrap();
        assert_eq!(dir.manifest().status, RunStatus::Partial);
    }
}

#[test]
fn stopped_salvage_starts_again() {
    let k = killed("salvage-stop");
    let mut dir = open(k.root.path());
    let mut calls = 0;
    let e = salvage(&mut dir, &mut |_| {
        calls += 1;
        calls < 6
    });
    assert_eq!(e.unwrap_err().kind(), ErrorKind::Unavailable);
    drop(dir);
    let found = salvage(&mut open(k.root.path()), &mut |_| true).unwrap();
    assert_eq!(found.unwrap().ios, 4000);
}

#[test]
fn killed_after_the_conversion() {
    let k = killed("salvage-late");
    let mut dir = open(k.root.path());
    salvage(&mut dir, &mut |_| true).unwrap();
    // As if the last manifest had not been written, with one chunk still in memory.
    let mut manifest = common::killed("salvage-late");
    manifest.capture.path = Some(k.shm.display().to_string());
    dir.write_manifest(&manifest).unwrap();
    drop(dir);
    fs::create_dir(&k.shm).unwrap();
    fs::write(k.shm.join("00000003.chunk"), &common::chunks(0, &k.records, 4000)[0]).unwrap();
    let found = salvage(&mut open(k.root.path()), &mut |_| true).unwrap();
    assert_eq!(found.unwrap().ios, 4000);
    assert!(!k.shm.exists());
}

#[test]
fn a_place_that_cannot_be_listed_is_an_error_and_nothing_is_lost() {
    let k = killed("salvage-unlisted");
    let mut dir = open(k.root.path());
    let mut manifest = dir.manifest().clone();
    // Chunks may have been spilled to a directory whose name this file system does not take.
    manifest.capture.dir = Some("x".repeat(300));
    dir.write_manifest(&manifest).unwrap();
    drop(dir);
    let e = salvage(&mut open(k.root.path()), &mut |_| true).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
    assert_eq!(open(k.root.path()).manifest().status, RunStatus::Running);
    assert_eq!(fs::read_dir(&k.shm).unwrap().count(), 5);
}

#[test]
fn nothing_left_is_said() {
    let k = killed("salvage-none");
    fs::remove_dir_all(&k.shm).unwrap();
    let mut dir = open(k.root.path());
    let found = salvage(&mut dir, &mut |_| true).unwrap().unwrap();
    assert_eq!(found.ios, 0);
    assert!(found.text.contains("none"));
    assert_eq!(dir.existing(names::IOS), None);
}

#[test]
fn a_living_run_and_a_foreign_directory_are_left_alone() {
    let root = tempfile::tempdir().unwrap();
    let live = RunDir::create(&root.path().join("run"), &fixture::manifest("live")).unwrap();
    let e = salvage(&mut open(root.path()), &mut |_| true).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unavailable);
    drop(live);

    let k = killed("salvage-foreign");
    let mut dir = open(k.root.path());
    let mut manifest = dir.manifest().clone();
    manifest.run_id = "another".into();
    dir.write_manifest(&manifest).unwrap();
    drop(dir);
    let found = salvage(&mut open(k.root.path()), &mut |_| true).unwrap();
    assert_eq!(found.unwrap().ios, 0);
    assert_eq!(fs::read_dir(&k.shm).unwrap().count(), 5);
}
