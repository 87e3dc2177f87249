//! Storage that dies under a run, seen through the binary: what was measured is kept, the errors
//! are counted, the exit code says so. Needs root for loop devices; else it skips.

mod common;

use std::path::Path;
use std::time::Duration;

use common::traced::{TestDisk, tool};
use common::{ended, manifest, run, scratch, scratch_on_disk, skipped, start_measuring, summary};
use taillight_lab::cleanup::Undo;

/// Runs until the measurement has begun, does `harm`, and waits for the end; standard error.
fn harmed(dir: &Path, line: &str, harm: impl FnOnce()) -> String {
    let child = start_measuring(dir, line);
    std::thread::sleep(Duration::from_millis(300));
    harm();
    ended(&child.wait_with_output().expect("it ends"), 5).1
}

/// What every such run must have kept: good I/Os from before, failed ones with their reason, a
/// report that can be made again.
fn kept(dir: &Path, errno: &str, err: &str) {
    assert!(err.contains("too many I/O errors in a row"), "{err}");
    let summary = summary(dir, "out");
    let failed = summary["errors"]["count"].as_u64().expect("counted");
    let all = summary["totals"]["count"].as_u64();
    assert!(failed > 0 && all > Some(failed), "{failed} of {all:?}");
    let errors = summary["errors"].to_string();
    assert!(errors.contains(errno), "{errors}");
    assert_eq!(manifest(dir, "out")["status"], "partial");
    run(dir, &["report", "out"], 5);
}

#[test]
fn a_device_that_loses_its_backing() {
    let Some(disk) = TestDisk::new("a_device_that_loses_its_backing", 64, false) else { return };
    let dir = scratch();
    let words = format!(
        "run --driver file --path {} --rw randread --bs 4KiB --direct --depth 4 --runtime 20s \
         --rate 2000/s --output out --set run.interval=200ms",
        disk.device
    );
    let err = harmed(dir.path(), &words, || {
        let file = std::fs::OpenOptions::new().write(true).open(&disk.backing);
        file.and_then(|f| f.set_len(0)).expect("shrunk");
    });
    kept(dir.path(), "input/output error", &err);
}

#[test]
fn a_file_system_that_turns_read_only() {
    let name = "a_file_system_that_turns_read_only";
    let Some(disk) = TestDisk::new(name, 128, false) else { return };
    let place = scratch_on_disk();
    let at = place.path().to_str().expect("a plain path").to_owned();
    let mounted = tool(&["mkfs.ext4", "-q", "-F", &disk.device])
        .and_then(|_| tool(&["mount", "-o", "errors=remount-ro", &disk.device, &at]));
    if skipped(name, mounted.err()) {
        return;
    }
    let mut undo = Undo::default();
    let mount = at.clone();
    undo.add(move || drop(tool(&["umount", &mount])));
    let dir = scratch();
    let words = format!(
        "run --driver file --path {at}/data --size 8MiB --rw randwrite --bs 4KiB --direct=false \
         --runtime 20s --rate 500/s --output out --set run.interval=200ms \
         --set workload.0.sync=fdatasync:1"
    );
    let err = harmed(dir.path(), &words, || {
        let trigger = disk.device.replace("/dev/", "/sys/fs/ext4/") + "/trigger_fs_error";
        std::fs::write(trigger, "1").expect("the file system reports an error");
    });
    kept(dir.path(), "read-only file system", &err);
}

#[test]
fn what_is_no_nvme_drive_is_left_alone() {
    let dir = scratch();
    for (path, says) in [("/dev/null", "not that of one"), ("absent", "No such file")] {
        let (_, err) = run(dir.path(), &["drive", path], 2);
        assert!(err.contains("no NVMe drive") && err.contains(says), "{err}");
        assert!(err.contains("hint: "), "{err}");
    }
}
