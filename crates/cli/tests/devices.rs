//! Loop devices and their file systems, seen through the binary: storage that dies under a run, devices that are not
//! written unconfirmed, fill levels, extents, the spilled capture, a full disk of results, a throttle. Needs root; else
//! these tests skip themselves.

use std::path::Path;
use std::time::Duration;

use crate::common::traced::{TestDisk, tool};
use crate::common::{
    self, ended, manifest, run, scratch, scratch_on_disk, skipped, start_measuring, summary,
};
use taillight_lab::cleanup::Undo;

/// An ext4 file system on a loop device, unmounted when dropped.
struct MountedDisk {
    at: String,
    _undo: Undo,
    _place: tempfile::TempDir,
}

/// Makes the file system and mounts it; None where the test `name` has to skip itself.
fn mounted(name: &str, disk: &TestDisk, options: &str) -> Option<MountedDisk> {
    let place = scratch_on_disk();
    let at = place.path().to_str().expect("a plain path").to_owned();
    let mounted = tool(&["mkfs.ext4", "-q", "-F", &disk.device])
        .and_then(|_| tool(&["mount", "-o", options, &disk.device, &at]));
    if skipped(name, mounted.err()) {
        return None;
    }
    let mut undo = Undo::default();
    let mount = at.clone();
    undo.add(move || drop(tool(&["umount", &mount])));
    Some(MountedDisk { at, _undo: undo, _place: place })
}

/// Starts a run, does `harm` once it measures, and waits for its end with 5; standard error.
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
    let Some(disk_at) = mounted(name, &disk, "errors=remount-ro") else { return };
    let at = &disk_at.at;
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

/// A purge of a suite is a write like any other: nothing happens to a device that is not confirmed.
#[test]
fn an_unconfirmed_device_is_not_purged() {
    let name = "an_unconfirmed_device_is_not_purged";
    let Some(disk) = TestDisk::new(name, 16, false) else { return };
    std::fs::write(&disk.device, vec![7; 1 << 20]).expect("written");
    let dir = scratch();
    for line in [
        format!("suite pts-wsat --scale quick --path {} --output out", disk.device),
        format!(
            "suite pts-wsat --scale quick --path {} --output out --set target.destroy=true \
             --destroy /dev/another",
            disk.device
        ),
    ] {
        let (out, err) = common::run_line(dir.path(), &line, 3);
        assert!(err.contains("destroy") && out.is_empty(), "{out}{err}");
        assert!(!dir.path().join("out").exists());
    }
    let mut start = vec![0; 1 << 20];
    let mut device = std::fs::File::open(&disk.device).expect("readable");
    std::io::Read::read_exact(&mut device, &mut start).expect("its start");
    assert!(start.iter().all(|b| *b == 7));
}

/// Format and sanitize are for whole NVMe devices, and for confirmed ones: anything else is left as it is.
#[test]
fn only_a_whole_nvme_device_is_formatted() {
    let dir = scratch();
    let load = "--size 1MiB --rw read --ops 1 --output out";
    for how in ["nvme_format", "nvme_sanitize"] {
        let line = format!("run --driver file --path data {load} --set target.options.purge={how}");
        let (_, err) = common::run_line(dir.path(), &line, 3);
        assert!(err.contains("only a whole NVMe device"), "{err}");
        assert!(!dir.path().join("data").exists() && !dir.path().join("out").exists());
    }
    let Some(disk) = TestDisk::new("only_a_whole_nvme_device_is_formatted", 16, false) else {
        return;
    };
    let device = &disk.device;
    let line = format!(
        "run --driver file --path {device} {load} --set target.options.purge=nvme_format \
         --set target.destroy=true --destroy {device}"
    );
    let (_, err) = common::run_line(dir.path(), &line, 3);
    assert!(err.contains("only a whole NVMe device") && err.contains("discard"), "{err}");
}

#[test]
fn a_file_system_is_filled_to_the_level_asked_for() {
    let name = "a_file_system_is_filled_to_the_level_asked_for";
    let Some(disk) = TestDisk::new(name, 256, false) else { return };
    let Some(disk_at) = mounted(name, &disk, "defaults") else { return };
    let at = &disk_at.at;
    let dir = scratch();
    let line = format!(
        "run --driver file --path {at}/data --size 16MiB --rw randread --ops 64 --output out \
         --sweep target.options.fill=30%,60%,80.5%"
    );
    let (out, _) = common::run_line(dir.path(), &line, 0);
    for (run, asked) in [("01-sweep-30", 30.0), ("02-sweep-60", 60.0), ("03-sweep-80.5", 80.5)] {
        let driver = &manifest(&dir.path().join("out"), run)["environment"]["driver"];
        let reached = driver["fill.reached"].as_str().expect("a level");
        let share: f64 = reached.trim_end_matches(" %").parse().expect("a number");
        assert!((share - asked).abs() < 1.0, "{reached} for {asked}: {out}");
    }
    assert!(
        std::fs::read_dir(at)
            .expect("readable")
            .all(|f| { f.expect("an entry").file_name() == "lost+found" })
    );
    let line = format!(
        "run --driver file --path {at}/data --size 64MiB --rw read --ops 1 --output no \
         --set target.options.fill=20%"
    );
    let (_, err) = common::run_line(dir.path(), &line, 2);
    assert!(err.contains("fuller than `fill` asks"), "{err}");
    std::fs::write(format!("{at}/taillight-fill.dat"), "mine").expect("written");
    let line = line.replace("fill=20%", "fill=90%");
    let (_, err) = common::run_line(dir.path(), &line, 3);
    assert!(err.contains("did not make"), "{err}");
    let kept = std::fs::read_to_string(format!("{at}/taillight-fill.dat")).expect("there");
    assert_eq!(kept, "mine");
}

#[test]
fn files_are_fragmented_as_a_sweep_asks() {
    for (kind, make) in [("ext4", ["mkfs.ext4", "-q", "-F"]), ("xfs", ["mkfs.xfs", "-q", "-f"])] {
        let name = "files_are_fragmented_as_a_sweep_asks";
        let Some(disk) = TestDisk::new(name, 400, false) else { return };
        let place = scratch_on_disk();
        let at = place.path().to_str().expect("a plain path").to_owned();
        let mounted = tool(&[&make[..], &[&disk.device]].concat())
            .and_then(|_| tool(&["mount", &disk.device, &at]));
        if skipped(name, mounted.err()) {
            return;
        }
        let mut undo = Undo::default();
        let mount = at.clone();
        undo.add(move || drop(tool(&["umount", &mount])));
        let dir = scratch();
        let load =
            format!("run --driver file --path {at}/data --size 32MiB --rw randread --ops 64");
        let keep = "--set target.options.keep=true";
        let sweep = "--sweep target.options.extent_size=16KiB,1MiB";
        common::run_line(dir.path(), &format!("{load} {keep} --output out {sweep}"), 0);
        for (run, extents) in [("01-sweep-16KiB", 2048), ("02-sweep-1MiB", 32)] {
            let driver = &manifest(&dir.path().join("out"), run)["environment"]["driver"];
            let found: i64 =
                driver["extents.found"].as_str().expect("a count").parse().expect("one");
            assert!((found - extents).abs() <= extents / 20 + 1, "{kind}: {driver}");
            assert_eq!(driver["files.laid_out"], "1");
        }
        // What has such extents already is not laid out again.
        let again = format!("{load} {keep} --output again --set target.options.extent_size=1MiB");
        common::run_line(dir.path(), &again, 0);
        let driver = &manifest(dir.path(), "again")["environment"]["driver"];
        assert_eq!(
            (&driver["files.laid_out"], &driver["files.reused"]),
            (&"0".into(), &"1".into())
        );
        let odd = format!("{load} --output odd --set target.options.extent_size=5000B");
        let (_, err) = common::run_line(dir.path(), &odd, 4);
        assert!(err.contains("extent_size of whole blocks"), "{err}");
        std::fs::write(format!("{at}/mine"), vec![1; 1 << 20]).expect("written");
        let mine = format!(
            "run --driver file --path {at}/mine --rw randread --ops 1 --output no \
             --set target.options.extent_size=4KiB"
        );
        let (_, err) = common::run_line(dir.path(), &mine, 3);
        assert!(err.contains("its extents stay as they are"), "{err}");
    }
}

/// The first share holds data, the rest is discarded; and only a confirmed device is touched.
#[test]
fn a_device_is_filled_to_the_level_asked_for() {
    let Some(disk) = TestDisk::new("a_device_is_filled_to_the_level_asked_for", 32, false) else {
        return;
    };
    let device = &disk.device;
    std::fs::write(device, vec![7u8; 32 << 20]).expect("written");
    let dir = scratch();
    let line = format!(
        "run --driver file --path {device} --rw randread --ops 64 --output out \
         --set target.options.fill=50%"
    );
    common::run_line(dir.path(), &line, 3);
    let all = || std::fs::read(device).expect("readable");
    assert!(all().iter().all(|b| *b == 7), "untouched");
    let line = format!("{line} --set target.destroy=true --destroy {device}");
    common::run_line(dir.path(), &line, 0);
    let driver = &manifest(dir.path(), "out")["environment"]["driver"];
    assert_eq!(driver["fill.reached"], "50.0 %");
    let (data, rest) = (all()[..16 << 20].to_vec(), all()[16 << 20..].to_vec());
    assert!(data.chunks(4096).all(|b| b.iter().any(|x| *x != b[0])), "data");
    assert!(rest.iter().all(|b| *b == 0), "discarded");
}

/// What is spilled onto the disk that is measured would be measured too, also where the target is the device itself.
#[test]
fn the_capture_is_not_spilled_to_the_disk_under_test() {
    let Some(disk) = TestDisk::new("the_capture_is_not_spilled_to_the_disk_under_test", 32, true)
    else {
        return;
    };
    let Some(mounted) = mounted("the_capture_is_not_spilled", &disk, "rw") else { return };
    let dir = scratch();
    let line = format!(
        "run --driver file --path {} --rw randread --ops 8 --set capture.dir={}",
        disk.device, mounted.at
    );
    let (_, err) = common::run_line(dir.path(), &line, 2);
    assert!(err.contains("capture.dir lies on a disk under test"), "{err}");
}

/// The disk of the results fills in the middle of a suite: what is complete is kept, and it goes on once
/// there is room.
#[test]
fn a_suite_whose_disk_fills_goes_on_later() {
    let name = "a_suite_whose_disk_fills_goes_on_later";
    let Some(disk) = TestDisk::new(name, 24, false) else { return };
    let Some(disk_at) = mounted(name, &disk, "defaults") else { return };
    let at = &disk_at.at;
    let room = || {
        let fs = rustix::fs::statvfs(at.as_str()).expect("a file system");
        // Also what is kept for root.
        fs.f_bfree * fs.f_frsize
    };
    let ballast = format!("{at}/ballast");
    std::fs::write(&ballast, vec![1; (room() - (600 << 10)) as usize]).expect("written");
    let dir = scratch();
    let line = "run --driver sim --runtime 1s --set capture.mode=off --rw randread \
                --sweep workload.0.queue_depth=1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16";
    let (_, err) = common::run_line(dir.path(), &format!("{line} --output {at}/out"), 5);
    assert!(err.contains("No space left") && err.contains("free some space"), "{err}");
    assert!(err.contains("suite --resume"), "{err}");
    std::fs::remove_file(&ballast).expect("removed");
    let (out, _) = common::run_line(dir.path(), &format!("report {at}/out"), 0);
    assert!(out.contains("sweep"), "{out}");
    let (_, err) = common::run_line(dir.path(), &format!("suite --resume {at}/out"), 0);
    assert!(err.contains("were measured before and read"), "{err}");
    common::run_line(dir.path(), &format!("{line} --output whole"), 0);
    let values = |file: std::path::PathBuf| {
        let series = common::json(&file);
        series["points"].as_array().expect("points").iter().map(|p| p["values"].clone()).collect()
    };
    let all: Vec<serde_json::Value> = values(dir.path().join("whole/series.json"));
    assert_eq!(values(Path::new(&at).join("out/series.json")), all);
}

/// 50 I/Os a second, let through 5 at a time: one outstanding gets them all, also where each takes 20 ms on a busy machine,
/// and more only wait. A run is long enough for one slice more at each of its ends, and for what is in flight at the last
/// one, to be within the 2 % of the knee's rule.
#[test]
fn a_throttled_device_has_its_knee_where_the_throttle_puts_it() {
    let name = "a_throttled_device_has_its_knee_where_the_throttle_puts_it";
    let Some(disk) = TestDisk::new(name, 64, false) else { return };
    let group = format!("/sys/fs/cgroup/blkio/taillight-{}", std::process::id());
    let number = std::path::Path::new(&disk.device).file_name().expect("a name").to_string_lossy();
    let number = std::fs::read_to_string(format!("/sys/block/{number}/dev")).expect("a number");
    let limit = format!("{} 50", number.trim());
    let file = format!("{group}/blkio.throttle.read_iops_device");
    let throttled = std::fs::create_dir(&group).and_then(|()| std::fs::write(&file, limit));
    let mut undo = Undo::default();
    let made = group.clone();
    undo.add(move || drop(std::fs::remove_dir(made)));
    if skipped(name, throttled.err().map(|e| format!("no control group blkio: {e}"))) {
        return;
    }
    let dir = scratch();
    let line = format!(
        "run --driver file --path {} --size 16MiB --rw randread --bs 8KiB --runtime 20s --output out \
         --set capture.mode=off --sweep workload.0.queue_depth=1,2,4",
        disk.device
    );
    let join = format!("echo $$ > {group}/tasks; exec \"$@\"");
    let child = common::start_as(dir.path(), &["bash", "-c", &join, "bash"], &line);
    let (out, _) = ended(&child.wait_with_output().expect("it ends"), 0);
    assert!(out.contains("knee at or below queue_depth 1: "), "{out}");
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

/// What `--destroy` confirmed is this disk, not the next one that gets its name.
#[test]
fn a_resumed_series_does_not_write_another_disk_of_the_same_name() {
    let name = "a_resumed_series_does_not_write_another_disk_of_the_same_name";
    let Some(disk) = TestDisk::new(name, 16, false) else { return };
    let dir = scratch();
    let other = scratch_on_disk();
    let label = other.path().join("other");
    let made = tool(&["mkfs.ext4", "-q", "-F", "-L", "thesis", &disk.device]);
    if skipped(name, made.err()) {
        return;
    }
    let line = format!(
        "run --driver file --path {0} --rw randwrite --bs 4KiB --ops 50 --set run.repeat=2 \
         --set target.destroy=true --destroy {0} --output out -q",
        disk.device
    );
    let (_, err) = common::run_line(dir.path(), &line, 0);
    let said = common::unwrapped(&err);
    for word in
        ["will be lost: block device", "ext4, label \"thesis\"", "16MiB", "last mounted never"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    let facts = manifest(dir.path(), "out/repeat-1")["environment"].to_string();
    assert!(facts.contains("thesis"), "{facts}");
    // The same disk needs no word.
    common::run_line(dir.path(), "suite --resume out", 0);
    tool(&["losetup", "-d", &disk.device]).expect("detached");
    std::fs::write(&label, vec![9; 16 << 20]).expect("written");
    tool(&["losetup", &disk.device, label.to_str().expect("plain")]).expect("attached");
    let (_, err) = common::run_line(dir.path(), "suite --resume out", 3);
    assert!(err.contains("not known to be the one") && err.contains("--destroy /dev/"), "{err}");
    assert!(std::fs::read(&label).expect("read").iter().all(|b| *b == 9));
    let file = dir.path().join("out/series.json");
    let mut series = common::json(&file);
    series.as_object_mut().expect("a table").remove("confirmed").expect("noted");
    std::fs::write(&file, series.to_string()).expect("written");
    common::run_line(dir.path(), "suite --resume out", 3);
}
