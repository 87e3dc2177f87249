//! The run directory as a whole: new or empty only, whole JSON files or none, and clear about damage.
#![allow(clippy::unwrap_used)]

use std::fs;

use crate::common;
use taillight_core::ErrorKind;
use taillight_rundir::{RunDir, RunStatus, Summary, fixture, names};

#[test]
fn new_or_empty_only_and_the_manifest_comes_first() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a/b");
    let dir = RunDir::create(&path, &fixture::manifest("one")).unwrap();
    let list: Vec<_> = fs::read_dir(&path).unwrap().flatten().collect();
    assert_eq!(list.len(), 1);
    assert_eq!(list[0].file_name(), names::MANIFEST);
    drop(dir);

    let e = RunDir::create(&path, &fixture::manifest("two")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Usage);
    assert!(e.hint_text().unwrap().contains("--output"));
    let file = root.path().join("file");
    fs::write(&file, "x").unwrap();
    let e = RunDir::create(&file, &fixture::manifest("two")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Usage);
    let empty = root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    RunDir::create(&empty, &fixture::manifest("two")).unwrap();
}

#[test]
fn what_is_written_is_read_and_optional_files_may_be_missing() {
    let root = tempfile::tempdir().unwrap();
    let mut dir = RunDir::create(root.path(), &fixture::manifest("one")).unwrap();
    let read = RunDir::open(root.path()).unwrap();
    assert_eq!(read.read::<Summary>().unwrap(), None);
    assert_eq!(read.job().unwrap(), None);
    assert_eq!(read.existing(names::IOS), None);
    assert_eq!(read.manifest(), dir.manifest());

    let summary = fixture::summary("one");
    dir.write(&summary).unwrap();
    dir.write_job("[run]\n").unwrap();
    dir.write_text("notes.md", "x").unwrap();
    let mut manifest = fixture::manifest("one");
    manifest.status = RunStatus::Complete;
    dir.write_manifest(&manifest).unwrap();
    let read = RunDir::open(root.path()).unwrap();
    assert_eq!(read.read::<Summary>().unwrap(), Some(summary));
    assert_eq!(read.job().unwrap().as_deref(), Some("[run]\n"));
    assert_eq!(read.status(), RunStatus::Complete);
    let names: Vec<String> = read.files().unwrap().into_iter().map(|f| f.name).collect();
    assert_eq!(names, ["manifest.json", "job.toml", "summary.json", "notes.md"]);
    for bad in ["", "a/b", "../x", ".."] {
        assert!(dir.write_text(bad, "x").is_err(), "{bad}");
    }
}

#[test]
fn a_live_run_is_running_and_a_killed_one_is_partial() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &common::killed("one")).unwrap();
    // The lock says it lives, whatever the process id says.
    assert_eq!(RunDir::open(root.path()).unwrap().status(), RunStatus::Running);
    drop(dir);
    let read = RunDir::open(root.path()).unwrap();
    assert!(!read.is_live());
    assert_eq!(read.status(), RunStatus::Partial);

    let other = tempfile::tempdir().unwrap();
    drop(RunDir::create(other.path(), &fixture::manifest("two")).unwrap());
    // The process id says it lives, whatever the lock says.
    assert_eq!(RunDir::open(other.path()).unwrap().status(), RunStatus::Running);
}

#[test]
fn damaged_manifests_give_one_clear_error() {
    let root = tempfile::tempdir().unwrap();
    let e = RunDir::open(&root.path().join("absent")).unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Unavailable);
    assert!(RunDir::open(root.path()).unwrap_err().hint_text().is_some());

    drop(RunDir::create(root.path(), &fixture::manifest("one")).unwrap());
    let path = root.path().join(names::MANIFEST);
    let good = fs::read_to_string(&path).unwrap();
    let newer = good.replacen("\"schema\": 1", "\"schema\": 2", 1);
    let unstated = good.replacen("\"schema\": 1,", "", 1);
    let cut = good[..good.len() / 2].to_owned();
    let no_plan = good.replacen("\"plan\"", "\"plane\"", 1);
    for bad in [newer, unstated, cut, no_plan, String::new(), "[]".into()] {
        fs::write(&path, &bad).unwrap();
        let e = RunDir::open(root.path()).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{bad}");
        assert!(e.hint_text().is_some());
        assert!(e.to_string().contains("manifest.json"), "{e}");
    }
    // Fields of a later Taillight with the same schema do no harm.
    let mut later: serde_json::Value = serde_json::from_str(&good).unwrap();
    later["later"] = 1.into();
    fs::write(&path, later.to_string()).unwrap();
    assert_eq!(RunDir::open(root.path()).unwrap_err().kind(), ErrorKind::Corrupt, "changed");
    later.as_object_mut().unwrap().remove("crc32");
    fs::write(&path, later.to_string()).unwrap();
    RunDir::open(root.path()).unwrap();
}

#[test]
fn cuts_and_flips_of_a_json_file_are_errors_or_values() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("one")).unwrap();
    dir.write(&fixture::summary("one")).unwrap();
    let path = root.path().join(names::SUMMARY);
    let good = fs::read(&path).unwrap();
    for cut in (0..good.len() - 2).step_by(37) {
        fs::write(&path, &good[..cut]).unwrap();
        assert_eq!(dir.read::<Summary>().unwrap_err().kind(), ErrorKind::Corrupt);
    }
    for bytes in common::flipped(&good, 300, 1) {
        fs::write(&path, &bytes).unwrap();
        let _ = dir.read::<Summary>();
    }
}

#[test]
fn a_number_that_json_cannot_hold_is_refused_when_written() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("one")).unwrap();
    let mut summary = fixture::summary("one");
    summary.totals.iops = f64::NAN;
    assert_eq!(dir.write(&summary).unwrap_err().kind(), ErrorKind::Internal);
    assert_eq!(dir.read::<Summary>().unwrap(), None);
}
