//! Waits inside a program that is watched: each is blamed on the program, or led to the I/O behind it, or is none.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::common::traced::open_place;
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

/// Watches a program of the tests, given `words`, beside a file `data` whose reads are slow: its directory, with the
/// run `out`, and the lines; none, and a printed reason, where that cannot be.
pub fn watched_with_slow_reads(
    name: &str,
    program: &str,
    words: &[&str],
) -> Option<(tempfile::TempDir, String)> {
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
    let (_, err) = ended(&out, 0);
    Some((dir, err))
}

/// Layers of the lines on waits, by the name of the thread that waited.
fn layers(lines: &str) -> BTreeMap<String, Vec<String>> {
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (Some(who), Some("lock" | "wait")) = (words.get(1), words.get(2).copied()) else {
            continue;
        };
        let Some((name, _)) = who.split_once('[') else { continue };
        // Time, unit, no size, then the layer.
        let layer = words.iter().skip(6).take(2).copied().collect::<Vec<_>>().join(" ");
        let layer = layer.trim_end_matches(',').to_owned();
        all.entry(name.to_owned()).or_default().push(layer);
    }
    all
}

#[test]
fn waits_lead_to_the_program_or_to_the_io_behind_them() {
    let name = "waits_lead_to_the_program_or_to_the_io_behind_them";
    let Some((dir, err)) = watched_with_slow_reads(name, "waits", &["data"]) else { return };
    let found = layers(&err);
    let all = |kind: &str, words: &[&str], least: usize| {
        let layers = found.get(kind).cloned().unwrap_or_default();
        let right = layers.iter().filter(|l| words.contains(&l.as_str())).count();
        // On a busy machine a wait for a CPU may be most of one.
        assert!(right >= least && right * 2 > layers.len(), "{kind}: {layers:?}\n{err}");
    };
    for kind in ["sleeper", "inheriting", "file-lock", "requests"] {
        all(kind, &["the program"], 3);
    }
    all("spinner", &["the program", "waiting for"], 3);
    for kind in ["reader", "commit", "stall", "pipe", "chain-2", "chain-3"] {
        all(kind, &["held back"], 1);
    }
    // Nothing to do is no outlier: no news, a queue for what comes from outside, a thread that is joined. On a busy
    // machine who holds the lock of that queue may have no CPU when it has come.
    for kind in ["no-news", "queue", "waits", "other"] {
        let layers = found.get(kind).map_or(&[][..], Vec::as_slice);
        let busy = kind == "queue" && layers.len() < 3 && layers.iter().all(|l| l == "waiting for");
        assert!(layers.is_empty() || busy, "{kind}: {layers:?}\n{err}");
    }
    let watched: Value = json(&dir.path().join("out/watched.json"));
    let waits = &watched["waits"];
    assert!(waits["carried"].as_u64() >= Some(8) && waits["locks"].as_u64() >= Some(9), "{waits}");
    assert!(waits["others"].as_u64() >= Some(2), "{waits}");
    assert!(err.contains("the program, not the storage"), "{err}");
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
