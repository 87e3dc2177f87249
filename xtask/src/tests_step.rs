//! The test step of `ci`: runs every test of the workspace, shows results and skips, and keeps
//! the whole output in `target/ci/tests.log`.
//!
//! A test that cannot run here passes and prints a line `skipped: NAME: why`. Those lines are shown,
//! so that a green run still says what it did not test. In CI, where `cargo xtask setup` has installed
//! everything, a skip that [`ALLOWED_SKIPS`] does not know is a failure.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::setup;
use crate::steps::StepOutcome;
use crate::tool;

/// Longest time for building and running all tests, as `timeout` reads it.
const MOST_TIME: &str = "40m";
/// What `timeout` returns when it had to end the command.
const TIMED_OUT: i32 = 124;

/// Parts of the lines of tests that may skip in CI too, each with what of a kernel or a machine is
/// the reason. What can be installed is not among them: it belongs into `setup`.
const ALLOWED_SKIPS: &[(&str, &str)] = &[
    ("its own tests run the suite", "the driver s3 is tested on its own servers"),
    ("trace programs", "a kernel without BPF, or without its types"),
    ("what tracing costs", "the same"),
    ("stamps_are_those_of_the_ios", "the same"),
    ("no loop devices here", "a container, or a kernel without the module"),
    ("losetup", "the same"),
    ("loop device", "the same"),
    ("mount", "a container without rights to mount"),
    ("unshare", "the same"),
    ("no /dev/fuse here", "a kernel without the module"),
    ("no /dev/shm", "a container without it"),
    ("control group", "version 2 alone, or a container"),
    ("no direct I/O in", "a file system in memory"),
    ("/ is not on a block device", "a container"),
    ("clock source is not the counter", "some virtual machines"),
    ("shows its addresses to all", "a setting of the kernel"),
];

/// Sums over the `test result:` lines.
#[derive(Debug, Default, PartialEq, Eq)]
struct TestCounts {
    passed: u64,
    failed: u64,
    ignored: u64,
    /// The lines of tests that skipped themselves.
    skipped: Vec<String>,
    /// Which servers were used, each shown once.
    servers: BTreeSet<String>,
}

pub fn step() -> Result<StepOutcome> {
    let mut cargo = bounded(&tool::cargo(["test", "--workspace", "--locked", "--no-fail-fast"]));
    cargo.args(["--", "--show-output"]);
    match setup::python() {
        Some(python) => {
            cargo.env("TAILLIGHT_PYTHON", python);
        }
        None => println!("no Python with pyarrow here: its test will skip"),
    }
    let (sums, code) = stream(&mut cargo)?;
    let text = format!(
        "{} tests passed, {} failed, {} ignored, {} skipped themselves",
        sums.passed,
        sums.failed,
        sums.ignored,
        sums.skipped.len()
    );
    if code == Some(TIMED_OUT) {
        bail!(
            "not done after {MOST_TIME}, a test hangs; see the end of target/ci/tests.log; {text}"
        );
    }
    if code != Some(0) || sums.failed > 0 {
        bail!("{text}; everything they said: target/ci/tests.log");
    }
    if sums.passed == 0 {
        bail!("no test ran");
    }
    let unknown = unexpected(&sums.skipped);
    if !unknown.is_empty() {
        let said = format!(
            "{text}, {} of them unexpectedly:\n{}\nWhat is missing belongs into xtask/src/setup.rs; what \
             a machine cannot have, into ALLOWED_SKIPS of xtask/src/tests_step.rs.",
            unknown.len(),
            unknown.join("\n")
        );
        if tool::is_ci() {
            bail!("{said}");
        }
        println!("{said}");
    }
    StepOutcome::note(text)
}

/// Skips for none of the reasons that a machine may have.
fn unexpected(skipped: &[String]) -> Vec<&str> {
    let known = |line: &str| ALLOWED_SKIPS.iter().any(|(part, _)| line.contains(part));
    skipped.iter().map(String::as_str).filter(|line| !known(line)).collect()
}

/// The command with an end to its time, so that a test that hangs fails instead of holding CI.
fn bounded(command: &Command) -> Command {
    let Some(timeout) = tool::which("timeout") else {
        return tool::cargo(command.get_args());
    };
    let mut bounded = Command::new(timeout);
    bounded.args(["--kill-after=10s", MOST_TIME]).arg(command.get_program());
    bounded.args(command.get_args()).current_dir(tool::root());
    bounded
}

/// Runs the command, keeps all lines in the log, shows those worth it.
fn stream(cargo: &mut Command) -> Result<(TestCounts, Option<i32>)> {
    let dir = tool::target_dir().join("ci");
    std::fs::create_dir_all(&dir)?;
    let mut log = std::fs::File::create(dir.join("tests.log"))?;
    let mut child = cargo
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start cargo test")?;
    let out = child.stdout.take().context("no standard output")?;
    let mut sums = TestCounts::default();
    let mut failing = false;
    for line in BufReader::new(out).split(b'\n') {
        let line = line?;
        log.write_all(&line)?;
        log.write_all(b"\n")?;
        let line = String::from_utf8_lossy(&line);
        failing = (failing || line == "failures:") && !line.starts_with("test result:");
        if note(&line, &mut sums) || failing {
            println!("{line}");
        }
    }
    Ok((sums, child.wait()?.code()))
}

/// Counts what a line says; whether it is worth showing.
fn note(line: &str, sums: &mut TestCounts) -> bool {
    if let Some(rest) = line.strip_prefix("test result: ") {
        let number = |word: &str| -> u64 {
            rest.split([';', '.'])
                .find_map(|part| part.trim().strip_suffix(word)?.trim().parse().ok())
                .unwrap_or(0)
        };
        sums.passed += number("passed");
        sums.failed += number("failed");
        sums.ignored += number("ignored");
        return number("passed") + number("failed") > 0;
    }
    if line.starts_with("S3 server: ") {
        return sums.servers.insert(line.to_owned());
    }
    if line.starts_with("skipped: ") {
        sums.skipped.push(line.to_owned());
        return true;
    }
    line.starts_with("test ") && line.ends_with("FAILED")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_results_and_skips() {
        let mut sums = TestCounts::default();
        let result = "test result: ok. 12 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out";
        assert!(note(result, &mut sums));
        assert!(note("skipped: loop_device: not root", &mut sums));
        let server = "S3 server: our own";
        assert!(note(server, &mut sums) && !note(server, &mut sums));
        assert!(note("test a::b ... FAILED", &mut sums));
        assert!(!note("test a::c ... ok", &mut sums));
        let expected = TestCounts {
            passed: 12,
            failed: 1,
            ignored: 2,
            skipped: vec!["skipped: loop_device: not root".to_owned()],
            servers: BTreeSet::from([server.to_owned()]),
        };
        assert_eq!(sums, expected);
    }

    #[test]
    fn a_skip_for_want_of_a_program_is_unexpected() {
        let lines = [
            "skipped: a kernel: no trace programs here",
            "skipped: no redis-server (Debian: redis-server)",
            "skipped: s3 keeps the contract: its own tests run the suite, on servers with credentials",
            "skipped: mandoc: No such file or directory (os error 2)",
        ];
        assert_eq!(unexpected(&lines.map(str::to_owned)), [lines[1], lines[3]]);
    }
}
