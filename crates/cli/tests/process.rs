//! The driver `process` through the binary: stores in Python and C, and programs with one fault each.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{scratch, taillight, text};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the repository")
}

/// Two stores of the SDK as commands: in C, compiled into `dir`, and in Python.
fn stores(dir: &Path) -> [String; 2] {
    let root = root();
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-I"]);
    cc.arg(root.join("sdk")).arg("-o").arg(dir.join("dict")).arg(root.join("sdk/examples/dict.c"));
    let made = cc.output().expect("a C compiler");
    assert!(made.status.success(), "{}", text(&made.stderr));
    ["./dict".to_owned(), format!("python3 {}", root.join("sdk/examples/dict.py").display())]
}

fn faulty(fault: &str) -> String {
    let root = root();
    let file = root.join("crates/cli/tests/process/faulty.py");
    format!("python3 {} {fault} {}", file.display(), root.join("sdk").display())
}

/// Runs a program with further words: the exit code and all that was said, in one line.
fn run(dir: &Path, command: &str, words: &str) -> (i32, String) {
    let mut run = taillight(dir);
    run.args(["run", "--driver", "process", "--output", "out"]);
    run.args(["--set", &format!("target.options.command={command}")]);
    let done = run.args(words.split_whitespace()).output().expect("a run");
    let said = text(&done.stdout) + &text(&done.stderr);
    (done.status.code().unwrap_or(-1), said.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn check(dir: &Path, command: &str) -> (i32, String) {
    let done = taillight(dir).args(["drivers", "--check", command]).output().expect("a check");
    (done.status.code().unwrap_or(-1), text(&done.stdout) + &text(&done.stderr))
}

/// What a run counted by operation: its name, how often it ended, and how often not well.
fn counts(dir: &Path) -> Vec<(String, u64, u64)> {
    let summary = std::fs::read(dir.join("out/summary.json")).expect("a summary");
    let summary: serde_json::Value = serde_json::from_slice(&summary).expect("JSON");
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let ops = summary["ops"].as_object().expect("operations").iter();
    ops.map(|(op, of)| (op.clone(), number(&of["count"]), number(&of["errors"]))).collect()
}

#[test]
fn the_same_job_counts_the_same_in_python_and_c() {
    let dir = scratch();
    let job = "--ops 3000 --set run.seed=7 --set workload.0.keys.count=200 --set workload.0.block_size=100B \
               --set workload.0.mix.get=2 --set workload.0.mix.update=1 --set workload.0.mix.insert=1 \
               --set verify.mode=inline";
    let mut all = Vec::new();
    for command in stores(dir.path()) {
        let (code, said) = run(dir.path(), &command, job);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("the bridge to the plug-in costs "), "{said}");
        let manifest = std::fs::read_to_string(dir.path().join("out/manifest.json"));
        let manifest = manifest.expect("a manifest");
        for fact in ["store.inside", "store.cpu"] {
            assert!(manifest.contains(&format!("\"{fact}\": \"")), "{fact}: {manifest}");
        }
        all.push(counts(dir.path()));
        std::fs::remove_dir_all(dir.path().join("out")).expect("gone");
    }
    let sum: u64 = all[0].iter().map(|(_, count, _)| count).sum();
    assert!(all[0] == all[1] && all[0].len() == 3 && sum == 3000, "{all:?}");
}

#[test]
fn the_stores_of_the_sdk_keep_the_contract() {
    let dir = scratch();
    for command in stores(dir.path()) {
        let (code, said) = check(dir.path(), &command);
        assert_eq!(code, 0, "{said}");
        assert!(said.contains("keeps the contract") && said.contains("... kept"), "{said}");
    }
    let (code, said) = check(dir.path(), &faulty("twice"));
    assert!(code == 7 && said.contains("BROKEN"), "{code}: {said}");
}

#[test]
fn a_store_that_is_not_at_its_path_and_not_said_to_be_empty_is_not_checked() {
    let dir = scratch();
    let dict = std::fs::read_to_string(root().join("sdk/examples/dict.py")).expect("an example");
    let silent = dict.replace("return not self.records", "return False");
    assert_ne!(dict, silent);
    std::fs::write(dir.path().join("silent.py"), silent).expect("written");
    let mut check = taillight(dir.path());
    check.env("PYTHONPATH", root().join("sdk")).args(["drivers", "--check", "python3 silent.py"]);
    let done = check.output().expect("a check");
    let said = text(&done.stdout) + &text(&done.stderr);
    assert_eq!(done.status.code(), Some(3), "{said}");
    let checked = said.contains("NOT CHECKED") && said.contains("TL_EMPTY");
    assert!(checked && !said.contains("keeps the contract"), "{said}");
}

#[test]
fn a_program_that_fails_in_a_run_is_named_and_what_was_measured_is_kept() {
    // One of the programs hangs and is waited for; the others are tried meanwhile.
    std::thread::scope(|scope| {
        scope.spawn(operations_that_fail_or_hang);
        programs_that_are_lost_or_lie();
    });
}

fn programs_that_are_lost_or_lie() {
    let dir = scratch();
    for (fault, says) in [
        ("exits", "process is lost: it ended with exit code 3"),
        ("killed", "process is lost: it ended by signal 9"),
        ("hangs", "process is lost: it hung: no operation ended for 2s"),
        ("twice", "ended an operation that is not in flight"),
        ("slot", "ended an operation that is not in flight"),
        ("unknown", "ended an operation that is not in flight"),
        ("many", "it ends more operations than are in flight"),
        ("bytes", "moved more bytes, or had more records, than it can have"),
        ("orphans", "process is lost: it ended by signal 9"),
    ] {
        let words = "--ops 100000 --set target.options.patience=2s --set workload.0.keys.count=50";
        let (code, said) = run(dir.path(), &faulty(fault), words);
        assert!(code == 5 && said.contains(says), "{fault}: {code}: {said}");
        let counts = counts(dir.path());
        assert_eq!(counts, [("get".to_owned(), 100, 1)], "{fault}: {said}");
        assert!(dir.path().join("out/ios.parquet").exists(), "{fault}");
        std::fs::remove_dir_all(dir.path().join("out")).expect("gone");
    }
}

fn operations_that_fail_or_hang() {
    let dir = scratch();
    // What the run itself gave up on is not awaited for as long again.
    let words = "--runtime 1s --set run.drain_timeout=200ms --set workload.0.keys.count=50";
    let (code, said) = run(dir.path(), &faulty("hangs"), words);
    let says = "asked to close the target, it did not answer in 5s";
    assert!(code == 5 && said.contains(says), "{code}: {said}");
    std::fs::remove_dir_all(dir.path().join("out")).expect("gone");
    // A store that fails is no lost program: each failure is a record.
    let (code, said) =
        run(dir.path(), &faulty("fails"), "--ops 200 --set workload.0.keys.count=50");
    assert!(code == 6 && said.contains("KeyError: 'lost'"), "{code}: {said}");
    std::fs::remove_dir_all(dir.path().join("out")).expect("gone");
    // Ends of which everything but the token is noise are failed I/Os, with -1 as their bytes too.
    let (code, said) =
        run(dir.path(), &faulty("noise"), "--ops 200 --set workload.0.keys.count=50");
    let counts = counts(dir.path());
    assert!(code == 6 && counts[0].1 == 200 && counts[0].2 >= 100, "{code}: {counts:?} {said}");
}

/// Whether a process is there and no mere entry that nobody waits for.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(" Z"))
}

#[test]
fn nothing_that_a_program_started_is_left() {
    let dir = scratch();
    for (fault, ended) in [("stays", 0), ("orphans", 5)] {
        let (code, said) =
            run(dir.path(), &faulty(fault), "--ops 200 --set workload.0.keys.count=50");
        assert_eq!(code, ended, "{fault}: {said}");
        let pids = std::fs::read_to_string(dir.path().join("pids")).expect("two numbers");
        let mut left: Vec<&str> = pids.split_whitespace().collect();
        assert_eq!(left.len(), 2, "{pids}");
        // Whoever is killed needs a moment to go.
        for _ in 0..1000 {
            left.retain(|pid| lives(pid));
            if left.is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert!(left.is_empty(), "{fault}: {left:?} of {pids}");
        std::fs::remove_dir_all(dir.path().join("out")).expect("gone");
    }
}

#[test]
fn what_is_no_driver_is_named_before_anything_is_touched() {
    let dir = scratch();
    for (command, code, says) in [
        ("", 2, "the driver `process` needs a command"),
        ("no-such-program --x", 2, "cannot be started"),
        ("python9 store.py", 2, "cannot be started"),
        ("sleep 100", 2, "it hung: asked to say what it is, it did not answer in 1s"),
        ("/bin/true", 2, "it ended with exit code 0"),
        ("python3 absent.py", 2, "it ended with exit code 2"),
        (&faulty("crashes"), 2, "it ended with exit code 1"),
        (&faulty("abi"), 2, "another ABI than this host"),
        (&faulty("json"), 2, "it answered what is no JSON"),
        (&faulty("words"), 2, "lacks a word, or has a wrong one"),
        (&faulty("refuses"), 4, "ValueError: not \"today\""),
        (&faulty("dies"), 5, "process is lost: it ended with exit code 3"),
        (&faulty("sleeps"), 5, "it hung: asked to open the target, it did not answer in 6s"),
    ] {
        let patience = match command {
            "sleep 100" => "1s",
            // Python has to start in that time, too.
            _ if command.contains(" sleeps ") => "6s",
            _ => "60s",
        };
        let words = format!(
            "--ops 10 --set target.options.patience={patience} --set workload.0.keys.count=50"
        );
        let (exit, said) = run(dir.path(), command, &words);
        assert!(exit == code && said.contains(says), "{command}: {exit}\n{said}");
        assert!(!dir.path().join("out").exists(), "{command}");
    }
    let (code, said) = run(dir.path(), &stores(dir.path())[0], "--set target.options.comand=1");
    assert!(code == 2 && said.contains("did you mean `command`?"), "{code}: {said}");
}

/// A store whose mark is gone once it was read back: nobody knows any more whose its records are.
const FORGETFUL: &str = r#"
import sys
sys.path.insert(0, sys.argv[1])
import taillight

class Forgetful(taillight.Store):
    name = "forgetful"
    about = "records, and a mark that somebody removes"
    version = "1"

    def __init__(self, plan):
        self.records, self.fresh = {}, False

    def empty(self):
        return not self.records

    def get(self, key, mark):
        fresh, self.fresh = self.fresh, self.fresh and not mark
        return None if mark and not fresh else self.records.get(key)

    def put(self, key, value, mark, sync):
        self.fresh = self.fresh or bool(mark)
        self.records[key] = value

    def delete(self, key, mark):
        open("deleted", "w").close()
        return self.records.pop(key, None) is not None

taillight.serve(Forgetful)
"#;

#[test]
fn a_store_without_the_mark_of_the_run_keeps_its_records() {
    let dir = scratch();
    std::fs::write(dir.path().join("forgetful.py"), FORGETFUL).expect("written");
    let command = format!("python3 forgetful.py {}", root().join("sdk").display());
    let words = "--ops 500 --set workload.0.keys.count=100 --set workload.0.block_size=100B";
    let (code, said) = run(dir.path(), &command, words);
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("the mark of the run is gone"), "{said}");
    assert!(!dir.path().join("deleted").exists(), "{said}");
}
