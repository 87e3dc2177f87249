//! Missing rights: what a user without them is told. Needs root to step down from; else it skips.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::traced::{NOBODY, tool};
use crate::common::{self, ended, skipped};

/// A directory everybody may enter, with the binary in it; none (and a printed reason) where
/// nothing can be run as user nobody.
fn stage(name: &str) -> Option<tempfile::TempDir> {
    let dir = tempfile::Builder::new().tempdir_in("/tmp").expect("a directory");
    mode(dir.path(), 0o755);
    // The build directory may be closed to others.
    let binary = dir.path().join("taillight");
    std::fs::copy(common::binary(), &binary).expect("copied");
    mode(&binary, 0o755);
    let program = binary.to_str().expect("a plain path");
    let tried = tool(&[&["setpriv"], &NOBODY[..], &[program, "--version"]].concat());
    (!skipped(name, tried.err())).then_some(dir)
}

fn mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).expect("set");
}

/// Runs as nobody; the exit code must be `code`. Returns standard error.
fn nobody(dir: &Path, args: &[&str], code: i32) -> String {
    let output = Command::new("setpriv")
        .args(NOBODY)
        .arg(dir.join("taillight"))
        .args(args)
        .current_dir(dir)
        .output()
        .expect("it starts");
    ended(&output, code).1
}

fn says(err: &str, parts: &[&str]) {
    for part in parts {
        assert!(err.contains(part), "no `{part}` in:\n{err}");
    }
    assert_eq!(err.matches("error:").count(), 1, "{err}");
}

#[test]
fn buffers_that_cannot_be_registered_are_told_before_and_after_the_run() {
    let Some(dir) = stage("buffers_that_cannot_be_registered_are_told_before_and_after_the_run")
    else {
        return;
    };
    mode(dir.path(), 0o777);
    let of = |limit: &str, before: &[&str], line: &str| {
        let output = Command::new("sh")
            .args(["-c", &format!("ulimit -l {limit} && exec \"$@\""), "sh"])
            .args(before)
            .arg(dir.path().join("taillight"))
            .args(["run", "--path", "data/", "--size", "1MiB", "--depth", "2", "--ops", "100"])
            .args(line.split(' '))
            .current_dir(dir.path())
            .output()
            .expect("it starts");
        let found = output.status.code().unwrap_or(-1);
        (found, ended(&output, found).0)
    };
    let plain = [&["setpriv"], &NOBODY[..]].concat();
    let note = "fixed_buffers = true is not obeyed here";
    assert!(of("8192", &plain, "--print-plan").1.contains(note));
    assert!(
        !of(
            "8192",
            &plain,
            "--print-plan --set target.options.engine=sync --set workload.0.queue_depth=1"
        )
        .1
        .contains(note)
    );
    let off = "--print-plan --set target.options.fixed_buffers=false";
    assert!(!of("8192", &plain, off).1.contains(note));
    assert!(!of("8192", &[], "--print-plan").1.contains(note), "root may");
    let (code, out) = of("8192", &plain, "--output out -v");
    if code == 4 {
        eprintln!("skipped: no io_uring for a plain user");
        return;
    }
    assert!(out.contains("buffers not registered"), "{out}");
    assert_eq!(common::summary(dir.path(), "out")["overhead"]["buffers_unregistered"], true);
}

#[test]
fn files_and_directories_without_rights() {
    let Some(dir) = stage("files_and_directories_without_rights") else {
        return;
    };
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("free")).expect("made");
    mode(&at("free"), 0o777);
    std::fs::create_dir(at("closed")).expect("made");
    mode(&at("closed"), 0o755);
    std::fs::create_dir(at("hidden")).expect("made");
    std::fs::write(at("hidden/file"), [1; 8192]).expect("written");
    mode(&at("hidden"), 0o700);
    std::fs::write(at("secret"), [1; 8192]).expect("written");
    mode(&at("secret"), 0o600);
    let base = ["run", "--driver", "file", "--ops", "10", "--output", "free/out"];
    let with = |more: &[&str]| nobody(dir.path(), &[&base[..], more].concat(), 4);
    says(&with(&["--path", "secret"]), &["cannot open the file", "secret", "rights"]);
    says(&with(&["--path", "hidden/file"]), &["cannot resolve", "hidden/file", "rights"]);
    let new = ["--path", "closed/new", "--size", "1MiB", "--rw", "randwrite"];
    says(&with(&new), &["closed", "Permission denied", "rights"]);
    let sub = ["--path", "closed/d/", "--size", "1MiB"];
    says(&with(&sub), &["cannot create the directory", "closed/d", "rights"]);
    assert_eq!(std::fs::read_dir(at("closed")).expect("there").count(), 0);
    assert_eq!(std::fs::read_dir(at("free")).expect("there").count(), 0);
}

#[test]
fn run_directories_without_rights() {
    let Some(dir) = stage("run_directories_without_rights") else {
        return;
    };
    // User nobody may not write here, so neither the default place nor a named one works.
    let null = ["run", "--driver", "null", "--ops", "10"];
    let err = nobody(dir.path(), &null, 4);
    says(&err, &["of the output", "Permission denied", "--output"]);
    let err = nobody(dir.path(), &[&null[..], &["--output", "out"]].concat(), 4);
    says(&err, &["of the output", "Permission denied", "--output"]);
    // A run of somebody else may be read only.
    common::run(dir.path(), &[&null[..], &["--output", "theirs"]].concat(), 0);
    let err = nobody(dir.path(), &["report", "theirs"], 0);
    assert!(err.contains("no page") && err.contains("--output"), "{err}");
    std::fs::create_dir(dir.path().join("mine")).expect("made");
    mode(&dir.path().join("mine"), 0o777);
    nobody(dir.path(), &["report", "theirs", "--output", "mine/page"], 0);
    assert!(dir.path().join("mine/page/report.html").is_file());
    mode(&dir.path().join("theirs"), 0o700);
    let err = nobody(dir.path(), &["report", "theirs"], 4);
    says(&err, &["Permission denied"]);
}

#[test]
fn a_device_without_rights() {
    let Some(dir) = stage("a_device_without_rights") else {
        return;
    };
    let image = dir.path().join("image");
    std::fs::write(&image, vec![0; 4 << 20]).expect("written");
    let made = Command::new("losetup").args(["--find", "--show"]).arg(&image).output();
    let made = made.expect("losetup is there");
    if !made.status.success() {
        let why = String::from_utf8_lossy(&made.stderr).trim().to_owned();
        eprintln!("skipped: a_device_without_rights: {why}");
        return;
    }
    let device = String::from_utf8_lossy(&made.stdout).trim().to_owned();
    std::fs::create_dir(dir.path().join("free")).expect("made");
    mode(&dir.path().join("free"), 0o777);
    let err = std::panic::catch_unwind(|| {
        let args = ["run", "--driver", "file", "--ops", "10", "--output", "free/out"];
        nobody(dir.path(), &[&args[..], &["--path", &device]].concat(), 4)
    });
    let _ = Command::new("losetup").args(["--detach", &device]).status();
    let err = err.expect("it ran");
    says(&err, &["cannot open the device", &device, "root"]);
}
