//! Culprits that `taillight explain` names where another program had the CPU of a traced run: name, thread, process,
//! command and control group of each are one thread's. Also a run that is held by a tracer. Needs root.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::traced::{Run, not_root, open_place, tool};
use serde_json::Value;

/// A program of this name that does what a script says; ended on drop.
struct Program {
    child: Child,
    path: PathBuf,
}

impl Program {
    /// Starts it on the first CPU, where the load is.
    fn start(dir: &Path, name: &str, script: &str, argument: &str) -> Program {
        let path = dir.join(name);
        std::fs::copy("/bin/sh", &path).expect("a copy");
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(&path).args(["-c", script, argument]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).current_dir(dir);
        Program { child: command.spawn().expect("a program"), path }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Culprits of a run on the first CPU where `begin` starts programs once its workers are there: before, these would only
/// hold up the loading of the trace programs. None where no trace programs can be.
fn culprits(name: &str, dir: &Path, words: &str, begin: impl FnOnce()) -> Option<Vec<Value>> {
    if let Some(why) = not_root() {
        eprintln!("skipped: {name}: {why}");
        return None;
    }
    let load = "--driver file --path data/ --size 8MiB --rw randread --bs 4KiB --direct";
    let all = format!("{load} --set trace.threshold=300us {words}");
    let run = Run::start(dir, &["taskset", "-c", "0"], &all);
    begin();
    let (value, text, _) = run.explained();
    if value["rung"] != "bpf" {
        eprintln!("skipped: {name}: no trace programs here");
        return None;
    }
    let episodes = value["episodes"].as_array().expect("a list").iter();
    let all = episodes.flat_map(|e| e["culprits"].as_array().expect("a list").clone());
    let all: Vec<Value> = all.filter(|c| c["role"] == "cpu").collect();
    assert!(!all.is_empty(), "{text}");
    Some(all)
}

/// The longest path of its control groups, as culprits have it.
fn cgroup(pid: u32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("groups");
    let paths = text.lines().filter_map(|l| l.splitn(3, ':').nth(2).map(str::to_owned));
    paths.filter(|p| p.len() > 1).max_by_key(String::len)
}

#[test]
fn a_culprit_is_one_live_process() {
    let name = "a_culprit_is_one_live_process";
    for mode in ["outliers", "all"] {
        let dir = open_place();
        let mut hogs: BTreeMap<String, Program> = BTreeMap::new();
        let begin = || {
            for name in (0..3).map(|i| format!("hog-{i}-{}", std::process::id() % 10_000)) {
                let hog = Program::start(dir.path(), &name, "while :; do :; done", "argument");
                hogs.insert(name, hog);
            }
        };
        let words = format!("--runtime 2s --set trace.mode={mode}");
        let Some(found) = culprits(name, dir.path(), &words, begin) else { return };
        let mut met = 0;
        for one in &found {
            let Some(hog) = one["name"].as_str().and_then(|n| hogs.get(n)) else {
                // Somebody else's: whoever it is, a number has the name, if it is still there.
                let comm = format!("/proc/{}/task/{}/comm", one["pid"], one["tid"]);
                let comm = std::fs::read_to_string(comm).ok();
                let other = |c: &String| !c.starts_with(one["name"].as_str().unwrap_or_default());
                assert!(comm.filter(other).is_none(), "{one}");
                continue;
            };
            met += 1;
            let pid = hog.child.id();
            assert_eq!(
                (one["tid"].as_u64(), one["pid"].as_u64()),
                (Some(pid.into()), Some(pid.into())),
                "{one}"
            );
            let command = one["command"].as_str().expect("a command");
            let path = hog.path.to_str().expect("plain");
            assert_eq!(command, format!("{path} -c while :; do :; done argument"));
            assert_eq!(one["cgroup"].as_str(), cgroup(pid).as_deref(), "{one}");
        }
        assert!(met > 0, "{found:?}");
        // Nobody ended them meanwhile.
        let pids = hogs.values().map(|h| h.child.id().to_string());
        pids.for_each(|pid| assert!(tool(&["kill", "-0", &pid]).is_ok()));
    }
}

#[test]
fn a_number_that_is_used_again_and_a_program_that_is_replaced_have_their_own_commands() {
    let name = "a_number_that_is_used_again";
    let dir = open_place();
    let path = dir.path().to_str().expect("plain").to_owned();
    for copy in ["before", "after"] {
        std::fs::copy("/bin/sh", dir.path().join(copy)).expect("a copy");
    }
    // Each runs for some ms, and again as another program; then the next one does.
    let spin = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let script = format!(
        "n=0; while :; do n=$((n+1)); \
         {path}/before -c 'echo $$ $0 >> log; {spin}; exec {path}/after -c \"{spin}\" $0' $n; done"
    );
    let mut parent = None;
    let begin = || parent = Some(Program::start(dir.path(), "parent", &script, "x"));
    let words = "--runtime 4s --set trace.mode=outliers";
    let Some(found) = culprits(name, dir.path(), words, begin) else { return };
    drop(parent);
    let log = std::fs::read_to_string(dir.path().join("log")).expect("a log");
    let lines = log.lines().filter_map(|line| line.split_once(' '));
    let numbers: Vec<(u64, &str)> =
        lines.filter_map(|(pid, n)| Some((pid.parse().ok()?, n))).collect();
    let mut met = 0;
    for one in found.iter().filter(|c| c["name"] == "before" || c["name"] == "after") {
        met += 1;
        let own = one["name"].as_str().expect("a name");
        let tid = one["tid"].as_u64().expect("a thread");
        assert_eq!(one["pid"].as_u64(), Some(tid), "{one}");
        let mut of = numbers.iter().filter(|(pid, _)| *pid == tid);
        assert!(of.clone().count() > 0, "{one}");
        // Many have ended before they were looked up.
        let Some(command) = one["command"].as_str() else { continue };
        assert!(command.starts_with(&format!("{path}/{own} ")), "{one}");
        let cut = command.ends_with("...");
        let last = command.rsplit(' ').next().unwrap_or_default();
        assert!(cut || of.any(|(_, n)| *n == last), "{one}");
    }
    assert!(met > 0, "{found:?}");
}

#[test]
fn a_tracer_is_no_signal() {
    let name = "a_tracer_is_no_signal";
    if let Some(why) = not_root() {
        eprintln!("skipped: {name}: {why}");
        return;
    }
    let dir = open_place();
    let words = "--driver file --path data/ --size 8MiB --rw randread --bs 4KiB --direct --runtime 3s \
                 --set trace.mode=outliers --set trace.threshold=20ms";
    let run = Run::start(dir.path(), &["env"], words);
    std::thread::sleep(Duration::from_millis(500));
    let pid = run.pid().parse().expect("a number");
    taillight_lab::faults::held_by_tracer(pid, Duration::from_millis(300)).expect("held");
    let (value, text, _) = run.explained();
    if value["rung"] != "bpf" {
        eprintln!("skipped: {name}: no trace programs here");
        return;
    }
    assert!(text.contains("held by a debugger or tracer"), "{text}");
    assert!(!text.contains("stopped by a signal"), "{text}");
}
