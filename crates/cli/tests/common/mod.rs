//! What the tests of the binary share.
#![allow(dead_code)] // each test binary uses a part of it

pub mod blocks;
pub mod dom;
pub mod liar;
pub mod traced;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Output, Stdio};

use assert_cmd::Command;
use serde_json::Value;

/// A directory of a test's own.
pub fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// The same below the build's directory, on a disk rather than in memory, for direct I/O and loop devices.
pub fn scratch_on_disk() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory")
}

/// The binary, to be run in `dir`.
pub fn taillight(dir: &Path) -> Command {
    let mut command = Command::cargo_bin("taillight").expect("the binary is built");
    command.current_dir(dir).env_remove("NO_COLOR");
    command
}

/// Where the binary is.
pub fn binary() -> PathBuf {
    assert_cmd::cargo::cargo_bin("taillight")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Standard output and standard error of a command that ended with `code`, without a panic.
pub fn ended(output: &Output, code: i32) -> (String, String) {
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{out}\n{err}");
    assert!(!err.contains("panicked"), "{err}");
    (out, err)
}

/// Runs the binary; the exit code must be `code`. Returns standard output and standard error.
pub fn run(dir: &Path, args: &[&str], code: i32) -> (String, String) {
    let output = taillight(dir).args(args).output().expect("it starts");
    println!("{args:?}");
    ended(&output, code)
}

/// As `run`, the arguments in one line without quotes.
pub fn run_line(dir: &Path, line: &str, code: i32) -> (String, String) {
    run(dir, &line.split_whitespace().collect::<Vec<_>>(), code)
}

/// Writes `job.toml` and runs it into `out`; returns as `run`.
pub fn run_job(dir: &Path, job: &str, code: i32) -> (String, String) {
    std::fs::write(dir.join("job.toml"), job).expect("written");
    run(dir, &["run", "job.toml", "--output", "out"], code)
}

/// A JSON file without its checksum, as commands print it.
pub fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut value: Value = serde_json::from_str(&text).expect("JSON");
    value.as_object_mut().map(|all| all.remove("crc32"));
    value
}

/// Writes a JSON file of a run or a series as an older version would have: not covered by a checksum.
pub fn write_uncovered(path: &Path, value: &Value) {
    assert!(value["crc32"].is_null());
    std::fs::write(path, value.to_string()).expect("written");
}

pub fn summary(dir: &Path, run: &str) -> Value {
    json(&dir.join(run).join("summary.json"))
}

/// What witnesses (the kernel, a server) counted over what the run did, each a ratio; none may be unexplained.
pub fn witnessed(summary: &Value) -> Vec<f64> {
    let all = summary["witness"].as_array().cloned().unwrap_or_default();
    assert!(all.iter().all(|it| it["explained"] == true), "{all:#?}");
    all.iter().filter_map(|it| it["ratio"].as_f64()).collect()
}

pub fn manifest(dir: &Path, run: &str) -> Value {
    json(&dir.join(run).join("manifest.json"))
}

/// Which build the lines of a proof are of.
pub fn build() -> &'static str {
    if cfg!(debug_assertions) { "unoptimised" } else { "release" }
}

/// A program that is ended with the test, however that ends.
pub struct Ended(pub Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the binary and leaves it to itself.
pub fn start(dir: &Path, line: &str) -> Child {
    start_as(dir, &[], line)
}

/// As `start`, through another program: `before... taillight line...`.
pub fn start_as(dir: &Path, before: &[&str], line: &str) -> Child {
    let binary = binary();
    let program = binary.to_str().expect("a plain path");
    let words: Vec<&str> =
        before.iter().copied().chain([program]).chain(line.split_whitespace()).collect();
    std::process::Command::new(words[0])
        .args(&words[1..])
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

/// Starts a run and waits until its first measured interval is shown; the rest of its standard output is read on, so
/// that the run never waits for a reader.
pub fn start_measuring(dir: &Path, line: &str) -> Child {
    start_measuring_as(dir, &[], line)
}

/// As `start_measuring`, through another program.
pub fn start_measuring_as(dir: &Path, before: &[&str], line: &str) -> Child {
    let mut child = start_as(dir, before, line);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    if !lines.any(|l| l.is_ok_and(|l| l.contains("measure"))) {
        let output = child.wait_with_output().expect("it ends");
        panic!("nothing was measured: {}", text(&output.stderr));
    }
    std::thread::spawn(move || lines.for_each(drop));
    child
}

pub fn signal(child: &Child, name: &str) {
    let args = [format!("-{name}"), child.id().to_string()];
    let status = std::process::Command::new("kill").args(args).status();
    assert!(status.expect("kill").success());
}

/// Where a run keeps its capture while it goes on.
pub fn capture_of(dir: &Path, run: &str) -> String {
    format!("/dev/shm/taillight-{}", manifest(dir, run)["run_id"].as_str().expect("a name"))
}

/// Whether a line is about another run that was killed on this machine before.
pub fn of_others(line: &str) -> bool {
    let begins = ["a run that was killed left ", "  `taillight report ", "  `rm -r "];
    begins.iter().any(|begin| line.starts_with(begin))
        || line.ends_with("`taillight doctor` names them")
}

/// Text with one space in place of each line break and indent: lines are wrapped for a terminal.
pub fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// How many operations of a kind succeeded, of its part of a summary.
pub fn succeeded(op: &Value) -> u64 {
    let number = |name: &str| op[name].as_u64().unwrap_or(0);
    number("count") - number("errors")
}

/// Whether there is a reason (`why`) not to play a test here, which is printed.
pub fn skipped(name: &str, why: Option<String>) -> bool {
    if let Some(why) = &why {
        eprintln!("skipped: {name}: {why}");
    }
    why.is_some()
}

/// Whether the embedded store's library is on this machine; says so where it is not.
pub fn has_library(driver: &str) -> bool {
    let dir = scratch();
    let output = taillight(dir.path())
        .args(["run", "--driver", driver, "--path", "db", "--ops", "1", "--output", "out"])
        .args(["--set", "workload.0.mix=insert", "--set", "workload.0.keys.count=0"])
        .output()
        .expect("it starts");
    let there = output.status.success();
    if !there {
        let said = text(&output.stderr);
        assert!(said.contains("library"), "{said}");
        eprintln!("skipped: a test of {driver}: {said}");
    }
    there
}
