//! Tracing seen from outside: off is off, and what is on says what it cost.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::common::{manifest, scratch, unwrapped};

/// A run of a second on a file in `dir`.
fn load(dir: &Path, mode: &str) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("taillight"));
    command.current_dir(dir);
    command.args(["run", "--driver", "file", "--path", "data", "--size", "4MiB"]);
    command.args(["--rw", "randread", "--depth", "4", "--runtime", "1s"]);
    command.args(["--output", mode, "-v"]);
    command.arg("--set").arg(format!("trace.mode={mode}"));
    command
}

/// Runs, and collects what the process had open of the kernel's programs, their memory and types; and what it printed.
fn bpf_of(mut command: Command) -> (BTreeSet<String>, String) {
    let out = tempfile::NamedTempFile::new().expect("a file");
    let again = out.reopen().expect("opened");
    let mut child = command.stdout(again).spawn().expect("it starts");
    let fds = format!("/proc/{}/fd", child.id());
    let mut seen = BTreeSet::new();
    let status = loop {
        for fd in std::fs::read_dir(&fds).into_iter().flatten().flatten() {
            let what = std::fs::read_link(fd.path()).unwrap_or_default();
            let what = what.to_string_lossy().into_owned();
            if what.contains("bpf") || what.contains("btf") {
                seen.insert(what);
            }
        }
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success(), "{status}");
    // Without the line breaks of the console.
    (seen, unwrapped(&std::fs::read_to_string(out.path()).expect("read")))
}

#[test]
fn off_is_off_and_on_says_what_it_cost() {
    let dir = scratch();
    let (seen, said) = bpf_of(load(dir.path(), "off"));
    assert!(seen.is_empty(), "{seen:?}");
    assert!(!said.contains("tracing "), "{said}");

    let (seen, said) = bpf_of(load(dir.path(), "outliers"));
    let manifest = manifest(dir.path(), "outliers");
    if manifest["trace"]["rung"] != "bpf" {
        eprintln!("skipped: what tracing costs: {}", manifest["trace"]["why"]);
        return;
    }
    // The same look finds programs where there are some.
    assert!(seen.iter().any(|s| s.contains("bpf-prog")), "{seen:?}");
    // By how much it lengthens reads: beside other load that may be lost in the noise.
    assert!(manifest["trace"]["probe_ns_per_op"].is_number(), "{manifest}");
    assert!(said.contains("of CPU per I/O in the program"), "{said}");
    // The kernel counts for CAP_SYS_ADMIN only.
    if manifest["trace"]["program_ns_per_op"].as_f64().is_some() {
        assert!(said.contains("other programs' task switches too"), "{said}");
    } else {
        assert!(said.contains("trace programs not measured"), "{said}");
    }
}
