//! Waits inside a program that is watched: each is blamed on the program, or led to the I/O behind it, or is none.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::traced::{explain, open_place, within};
use crate::common::{binary, ended, json, run_line, skipped};
use crate::watch::cannot;
use serde_json::Value;
use taillight_lab::cleanup::{Undo, tool};
use taillight_lab::stage::LabCgroup;
use taillight_rundir::layers::read_layers;

/// A control group in which reads of a directory's disk are slow.
fn slow_reads(undo: &mut Undo, dir: &Path) -> Result<LabCgroup, String> {
    let group = LabCgroup::named(undo, "blkio", "taillight-lab-waits");
    let device = tool("findmnt", &["-no", "MAJ:MIN", "-T", &dir.to_string_lossy()]);
    let limited = group.and_then(|group| {
        group.set("blkio.throttle.read_iops_device", format!("{} 15", device?.trim()))?;
        Ok(group)
    });
    limited.map_err(|e| format!("{e:#}"))
}

/// Builds a program of the tests into a directory; why it cannot be, if so.
pub fn compiled(dir: &Path, name: &str) -> Option<String> {
    let source = format!("{}/tests/programs/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-o"]).arg(dir.join(name)).args([&source, "-lpthread"]);
    let built = compiler.status().is_ok_and(|status| status.success());
    (!built).then(|| "no C compiler".to_owned())
}

/// A directory with a program of the tests for a test that watches it; none, and a printed reason, where that cannot
/// be.
pub fn place_with(name: &str, program: &str) -> Option<tempfile::TempDir> {
    let dir = open_place();
    (!skipped(name, compiled(dir.path(), program).or_else(cannot))).then_some(dir)
}

/// A program of the tests that was watched beside a file `data` whose reads are slow.
pub struct WatchedProgram {
    dir: tempfile::TempDir,
    /// The lines of the watch.
    pub lines: String,
    /// When the program did what, as it says: CLOCK_MONOTONIC, ns.
    times: BTreeMap<String, (i64, i64)>,
}

impl WatchedProgram {
    /// Watches a program, given `words`, into the run `out`; none, and a printed reason, where that cannot be.
    pub fn run(name: &str, program: &str, words: &[&str]) -> Option<WatchedProgram> {
        let dir = place_with(name, program)?;
        let mut undo = Undo::default();
        let group = match slow_reads(&mut undo, dir.path()) {
            Ok(group) => group,
            Err(e) => {
                skipped(name, Some(e));
                return None;
            }
        };
        std::fs::write(dir.path().join("data"), vec![7; 256 << 10]).expect("written");
        tool("sync", &["-f", &dir.path().to_string_lossy()]).expect("on the disk");
        let within = group.within();
        let out = Command::new(&within[0])
            .args(&within[1..])
            .arg(binary())
            .args(["watch", "--slower", "30ms", "--output", "out", "--", &format!("./{program}")])
            .args(words)
            .current_dir(dir.path())
            .output()
            .expect("it starts");
        let (said, lines) = ended(&out, 0);
        Some(WatchedProgram { dir, lines, times: times(&said) })
    }
}

/// What a program says of its times: in each line a name, from, to.
fn times(said: &str) -> BTreeMap<String, (i64, i64)> {
    let of = |line: &str| {
        let mut words = line.split(' ');
        let name = words.next()?.to_owned();
        let mut at = || -> Option<i64> { words.next()?.parse().ok() };
        Some((name, (at()?, at()?)))
    };
    said.lines().filter_map(of).collect()
}

/// Layers of the waits for other threads in this time, by the number of the thread that waited. Lines are for the
/// slowest of each second alone; the run has all of them.
fn waits(explained: &Value, (from, to): (i64, i64)) -> BTreeMap<u64, Vec<&str>> {
    let mut all: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    for io in within(explained, from, to).into_iter().filter(|io| io["op"] == "wait") {
        let thread = io["worker"].as_u64().expect("a number");
        all.entry(thread).or_default().push(io["layer"].as_str().expect("a name"));
    }
    all
}

#[test]
fn waits_lead_to_the_program_or_to_the_io_behind_them() {
    let name = "waits_lead_to_the_program_or_to_the_io_behind_them";
    let Some(watched) = WatchedProgram::run(name, "waits", &["data"]) else { return };
    let (explained, _) = explain(watched.dir.path());
    let all = |kind: &str, words: &[&str], threads: usize, least: usize| {
        let found = waits(&explained, watched.times[kind]);
        assert_eq!(found.len(), threads, "{kind}: {found:?}\n{}", watched.lines);
        for layers in found.values() {
            let right = layers.iter().filter(|layer| words.contains(layer)).count();
            // On a busy machine a wait for a CPU may be most of one.
            let most = right >= least && right * 2 > layers.len();
            assert!(most, "{kind}: {found:?}\n{}", watched.lines);
        }
    };
    for kind in ["sleeper", "inheriting", "file-lock", "requests"] {
        all(kind, &["application"], 1, 3);
    }
    all("spinner", &["application", "cpu"], 1, 3);
    for kind in ["reader", "commit", "stall", "pipe"] {
        all(kind, &["throttle"], 1, 1);
    }
    // One waits for the reader, the other one for it.
    all("chain-3", &["throttle"], 2, 1);
    // Nothing to do is no outlier: no news, a queue for what comes from outside. (Nor is a thread that is joined: it
    // would be one more above.) On a busy machine who holds the lock of that queue may have no CPU when it has come.
    for kind in ["no-news", "queue"] {
        let found = waits(&explained, watched.times[kind]);
        let layers: Vec<&str> = found.values().flatten().copied().collect();
        let busy = kind == "queue" && layers.len() < 3 && layers.iter().all(|l| *l == "cpu");
        assert!(layers.is_empty() || busy, "{kind}: {found:?}\n{}", watched.lines);
    }
    // Both are among the slowest of their second.
    for (thread, layer) in [(" sleeper[", " the program"), (" stall[", " held back")] {
        let told = |line: &str| line.contains(thread) && line.contains(layer);
        assert!(watched.lines.lines().any(told), "{thread}: {}", watched.lines);
    }
    let counts: Value = json(&watched.dir.path().join("out/watched.json"));
    let waits = &counts["waits"];
    assert!(waits["carried"].as_u64() >= Some(8) && waits["locks"].as_u64() >= Some(9), "{waits}");
    assert!(waits["others"].as_u64() >= Some(2), "{waits}");
    assert!(watched.lines.contains("the program, not the storage"), "{}", watched.lines);
}

/// 500 threads that wait for news, and 500 that wait for the world outside: a row for each wait would fill the ring.
#[test]
fn threads_that_have_nothing_to_do_are_counted_and_not_told() {
    let name = "threads_that_have_nothing_to_do_are_counted_and_not_told";
    let Some(dir) = place_with(name, "threads") else { return };
    let line = "watch --slower 10ms --output out -- ./threads idle";
    let (_, err) = run_line(dir.path(), line, 0);
    let watched: Value = json(&dir.path().join("out/watched.json"));
    // 100 times, of which many are late on a busy machine.
    assert!(watched["waits"]["others"].as_u64() >= Some(10_000), "{}\n{err}", watched["waits"]);
    let mut rows = 0;
    let mut count = |more: Vec<_>| {
        rows += more.len();
        Ok(())
    };
    read_layers(&dir.path().join("out/layers.parquet"), &mut count).expect("a good file");
    // A few of a thousand threads lose the CPU in what they do.
    assert!(rows < 5_000, "{rows} rows");
    let trace = &crate::common::manifest(dir.path(), "out")["trace"];
    let lost =
        ["events_lost", "events_forgotten"].map(|field| trace[field].as_u64().expect("a count"));
    assert_eq!((lost, &watched["waits"]["lost"]), ([0, 0], &0.into()), "{trace}");
}
