//! Storage that dies under a run, seen through the binary: what was measured is kept, the errors
//! are counted, the exit code says so. Needs root for loop devices; else it skips.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::run;
use serde_json::Value;

/// A command's output, or `None` and a printed reason.
fn command(words: &[&str]) -> Option<String> {
    match Command::new(words[0]).args(&words[1..]).output() {
        Ok(out) if out.status.success() => {
            Some(String::from_utf8_lossy(&out.stdout).trim().to_owned())
        }
        Ok(out) => {
            let why = String::from_utf8_lossy(&out.stderr).trim().to_owned();
            eprintln!("skipped: {}: {why}", words.join(" "));
            None
        }
        Err(e) => {
            eprintln!("skipped: {}: {e}", words[0]);
            None
        }
    }
}

/// A loop device over a file, perhaps mounted; all of it undone on drop.
struct Disk {
    device: String,
    backing: PathBuf,
    mount: Option<PathBuf>,
    dir: tempfile::TempDir,
}

impl Disk {
    fn new(mib: u64) -> Option<Disk> {
        let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
        let backing = dir.path().join("backing");
        let file = std::fs::File::create(&backing).expect("made");
        file.set_len(mib << 20).expect("sized");
        let path = backing.to_str().expect("a plain path");
        let device = command(&["losetup", "--find", "--show", path])?;
        Some(Disk { device, backing, mount: None, dir })
    }

    fn mounted(mut self, options: &str) -> Option<Disk> {
        command(&["mkfs.ext4", "-q", "-F", &self.device])?;
        let at = self.dir.path().join("mount");
        std::fs::create_dir(&at).expect("made");
        let path = at.to_str().expect("a plain path");
        command(&["mount", "-o", options, &self.device, path])?;
        self.mount = Some(at);
        Some(self)
    }

    fn name(&self) -> &str {
        self.device.trim_start_matches("/dev/")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if let Some(at) = &self.mount {
            let _ = Command::new("umount").arg(at).status();
        }
        let _ = Command::new("losetup").args(["--detach", &self.device]).status();
    }
}

/// Runs until the measurement has begun, does `harm`, and waits for the end: exit code, errors.
fn harmed(dir: &Path, words: &str, harm: impl FnOnce()) -> (Option<i32>, String) {
    let mut child = Command::new(assert_cmd::cargo::cargo_bin("taillight"))
        .args(words.split(' '))
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    let shown = |l: &std::io::Result<String>| l.as_ref().is_ok_and(|l| l.contains("measure"));
    let began = lines.any(|l| shown(&l));
    std::thread::spawn(move || lines.for_each(drop));
    harm();
    let ended = child.wait_with_output().expect("it ends");
    let err = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(began && !err.contains("panicked"), "{err}");
    (ended.status.code(), err)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("there")).expect("JSON")
}

/// What every such run must have kept: good I/Os from before, failed ones with their reason, a
/// report that can be made again.
fn kept(dir: &Path, code: Option<i32>, errno: &str, err: &str) {
    assert_eq!(code, Some(5), "{code:?} {err}");
    assert!(err.contains("too many I/O errors in a row"), "{err}");
    let summary = json(&dir.join("out/summary.json"));
    let failed = summary["errors"]["count"].as_u64().expect("counted");
    let all = summary["totals"]["count"].as_u64();
    assert!(failed > 0 && all > Some(failed), "{failed} of {all:?}");
    let errors = summary["errors"].to_string();
    assert!(errors.contains(errno), "{errors}");
    assert_eq!(json(&dir.join("out/manifest.json"))["status"], "partial");
    common::run(dir, &["report", "out"], 5);
}

#[test]
fn a_device_that_loses_its_backing() {
    let Some(disk) = Disk::new(64) else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let words = format!(
        "run --driver file --path {} --rw randread --bs 4KiB --direct --depth 4 --runtime 20s \
         --rate 2000/s --output out --set run.interval=200ms",
        disk.device
    );
    let (code, err) = harmed(dir.path(), &words, || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let file = std::fs::OpenOptions::new().write(true).open(&disk.backing);
        file.and_then(|f| f.set_len(0)).expect("shrunk");
    });
    kept(dir.path(), code, "input/output error", &err);
}

#[test]
fn a_file_system_that_turns_read_only() {
    let disk = Disk::new(128).and_then(|d| d.mounted("errors=remount-ro"));
    let Some(disk) = disk else { return };
    let Some(at) = &disk.mount else { return };
    let dir = tempfile::tempdir().expect("a directory");
    let words = format!(
        "run --driver file --path {}/data --size 8MiB --rw randwrite --bs 4KiB --direct=false \
         --runtime 20s --rate 500/s --output out --set run.interval=200ms \
         --set workload.0.sync=fdatasync:1",
        at.display()
    );
    let (code, err) = harmed(dir.path(), &words, || {
        std::thread::sleep(std::time::Duration::from_millis(300));
        let trigger = format!("/sys/fs/ext4/{}/trigger_fs_error", disk.name());
        std::fs::write(trigger, "1").expect("the file system reports an error");
    });
    kept(dir.path(), code, "read-only file system", &err);
}

#[test]
fn what_is_no_nvme_drive_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    for (path, says) in [("/dev/null", "not that of one"), ("absent", "No such file")] {
        let (_, err) = run(dir.path(), &["drive", path], 2);
        assert!(err.contains("no NVMe drive") && err.contains(says), "{err}");
        assert!(err.contains("hint: "), "{err}");
    }
}
