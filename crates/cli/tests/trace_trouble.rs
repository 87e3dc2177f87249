//! Traces that go wrong: events lost, tracing stopped, a device gone, files cut, removed or moved. The run is kept,
//! what was not seen is unknown and counted, and nothing is blamed without evidence.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::common::traced::{
    NOBODY, Run, TestDisk, explain, explained_with, not_root, now, open_place, tool, within,
};
use crate::common::{self, manifest, skipped};
use serde_json::Value;

/// Starts a run of random reads on a device, with these words more on its command line.
fn under_load(dir: &tempfile::TempDir, disk: &TestDisk, words: &str) -> Run {
    let load = format!("--driver file --path {} --rw randread --bs 4KiB --direct", disk.device);
    Run::start(dir.path(), &["env"], &format!("{load} {words}"))
}

/// Somebody else who reads from the device; ended on drop.
struct BusyNeighbour(Child);

impl BusyNeighbour {
    fn of(device: &str) -> BusyNeighbour {
        let script = "while :; do dd if=$0 of=/dev/null bs=4k iflag=direct; done";
        let words = ["20", "sh", "-c", script, device];
        let mut command = Command::new("timeout");
        command.args(words).stdout(Stdio::null()).stderr(Stdio::null());
        BusyNeighbour(command.spawn().expect("a neighbour"))
    }
}

impl Drop for BusyNeighbour {
    fn drop(&mut self) {
        let _ = tool(&["kill", "-TERM", &self.0.id().to_string()]);
        let _ = self.0.wait();
    }
}

#[test]
fn events_that_find_no_room_are_counted_and_nothing_is_concluded_from_silence() {
    let name = "events_that_find_no_room";
    let Some(disk) = TestDisk::new(name, 32, false) else { return };
    let dir = open_place();
    let words = "--runtime 2s --set trace.mode=outliers --set trace.buffer=4KiB";
    let run = under_load(&dir, &disk, words);
    let neighbours = [(); 2].map(|()| BusyNeighbour::of(&disk.device));
    let (value, text, _) = run.explained();
    drop(neighbours);
    if value["rung"] != "bpf" {
        eprintln!("skipped: {name}: no trace programs here");
        return;
    }
    let lost = value["trace"]["events_lost"].as_u64();
    assert!(lost > Some(0), "{text}");
    assert_eq!(manifest(dir.path(), "out")["losses"]["trace_events"].as_u64(), lost);
    assert!(text.contains("trace events were lost"), "{text}");
    // "On the CPU" is a conclusion from silence.
    let layers = value["layers"].as_array().expect("a list");
    assert!(layers.iter().all(|l| l["layer"] != "application"), "{text}");
}

#[test]
fn switches_that_find_no_room_leave_gaps() {
    let name = "switches_that_find_no_room";
    let Some(disk) = TestDisk::new(name, 32, false) else { return };
    let dir = open_place();
    // A page holds 170 records; 10 ms of this load have more.
    let words = "--runtime 2s --set trace.mode=all --set trace.rung=perf --set trace.buffer=4KiB \
                 --set trace.threshold=1us";
    let (value, text, _) = under_load(&dir, &disk, words).explained();
    let lost = value["trace"]["events_lost"].as_u64();
    assert!(lost > Some(0), "{text}");
    assert_eq!(manifest(dir.path(), "out")["losses"]["trace_events"].as_u64(), lost);
    assert!(text.contains("trace events were lost"), "{text}");
    assert!(text.contains("trace records were lost"), "{text}");
    // I/Os inside a gap have no time on the CPU.
    let ios = value["ios"].as_array().expect("a list");
    let blank = |io: &&Value| io["phases"]["submit"].is_null() && io["layer"] == "unknown";
    assert!(ios.iter().filter(blank).count() > 0, "{text}");
}

/// The number of a map of the process's trace programs.
fn map_of(pid: &str, name: &str) -> Result<String, String> {
    let infos = std::fs::read_dir(format!("/proc/{pid}/fdinfo")).map_err(|e| e.to_string())?;
    let ids = infos.flatten().filter_map(|f| {
        let text = std::fs::read_to_string(f.path()).ok()?;
        let id = text.lines().find_map(|l| l.strip_prefix("map_id:"))?;
        Some(id.trim().to_owned())
    });
    for id in ids {
        let shown = tool(&["bpftool", "-j", "map", "show", "id", &id])?;
        let shown: Value = serde_json::from_str(&shown).map_err(|e| e.to_string())?;
        if shown["name"] == name {
            return Ok(id);
        }
    }
    Err("no such map".to_owned())
}

/// Every key of a map of the process's trace programs is deleted by somebody else.
fn empty_map(pid: &str, map: &str) -> Result<(), String> {
    let id = map_of(pid, map)?;
    let dump = tool(&["bpftool", "-j", "map", "dump", "id", &id])?;
    let dump: Value = serde_json::from_str(&dump).map_err(|e| e.to_string())?;
    for entry in dump.as_array().ok_or("no entries")? {
        let bytes = entry["key"].as_array().ok_or("no key")?.iter();
        let bytes: Vec<&str> = bytes.filter_map(Value::as_str).collect();
        let words = ["bpftool", "map", "delete", "id", &id, "key"];
        tool(&[&words[..], &bytes].concat())?;
    }
    Ok(())
}

#[test]
fn tracing_that_somebody_else_stops() {
    let name = "tracing_that_somebody_else_stops";
    let Some(disk) = TestDisk::new(name, 32, false) else { return };
    let dir = open_place();
    let words = "--runtime 60s --rate 2000/s --set trace.mode=all --set trace.threshold=1us";
    let run = under_load(&dir, &disk, words);
    std::thread::sleep(Duration::from_millis(700));
    // How long the programs of somebody else take is not known.
    let before = now();
    let emptied = empty_map(&run.pid(), "tids");
    let at = now();
    std::thread::sleep(Duration::from_secs(1));
    tool(&["kill", "-INT", &run.pid()]).expect("interrupted");
    let (code, _, err) = run.end();
    assert_eq!(code, Some(130), "{err}");
    if skipped(name, emptied.err()) {
        return;
    }
    let (value, text) = explain(dir.path());
    let stopped = value["trace"]["stopped"]["at_ns"].as_i64().expect("noticed");
    let second = 1_000_000_000;
    assert!((before - second..at + second).contains(&stopped), "{stopped}: {before} to {at}");
    assert!(text.contains("tracing was stopped by something else"), "{text}");
    let after = within(&value, at + 100_000_000, i64::MAX);
    assert!(!after.is_empty());
    for io in &after {
        // Nothing was seen of the threads: nobody says that they ran.
        assert!(io["layer"] != "application" && io["layer"] != "cpu", "{io}");
    }
}

#[test]
fn a_traced_device_that_loses_its_backing() {
    let Some(disk) = TestDisk::new("a_traced_device_that_loses_its_backing", 32, false) else {
        return;
    };
    for backend in ["auto", "perf"] {
        let dir = open_place();
        let words =
            format!("--runtime 20s --rate 2000/s --set trace.mode=all --set trace.rung={backend}");
        let run = under_load(&dir, &disk, &words);
        std::thread::sleep(Duration::from_millis(700));
        let file = std::fs::OpenOptions::new().write(true).open(&disk.backing);
        let file = file.expect("opened");
        file.set_len(0).expect("shrunk");
        let (code, _, err) = run.end();
        file.set_len(32 << 20).expect("grown");
        assert_eq!(code, Some(5), "{err}");
        assert!(err.contains("too many I/O errors in a row"), "{err}");
        let (value, text) = explain(dir.path());
        assert!(value["coverage"]["traced"].as_u64() > Some(0), "{text}");
        assert!(text.contains("Traced with backend"), "{text}");
        assert_eq!(manifest(dir.path(), "out")["status"], "partial");
    }
}

/// A run that was traced with backend perf, which needs no rights.
fn traced_run() -> tempfile::TempDir {
    let dir = open_place();
    let words = "--driver file --path data --size 8MiB --rw randread --bs 4KiB --ops 20000 \
                 --set trace.mode=outliers --set trace.rung=perf";
    Run::start(dir.path(), &["env"], words).explained();
    dir
}

#[test]
fn a_run_is_explained_where_nothing_but_its_directory_is() {
    let here = traced_run();
    let (value, text) = explain(here.path());
    let there = open_place();
    let to = there.path().join("out");
    let from = here.path().join("out");
    tool(&["cp", "-r", from.to_str().expect("plain"), to.to_str().expect("plain")])
        .expect("copied");
    drop(here);
    let (copy, said) = explain(there.path());
    assert_eq!(copy, value);
    assert_eq!(said, text);
    if let Some(why) = not_root() {
        eprintln!("skipped: a run of somebody else: {why}");
        return;
    }
    // Somebody who may only read, on a machine without /sys.
    let binary = common::binary();
    let program = binary.to_str().expect("plain");
    let script = "mount -t tmpfs none /sys && exec \"$@\"";
    let words = [
        &["unshare", "--mount", "sh", "-c", script, "sh", "setpriv"],
        &NOBODY[..],
        &[program, "explain", "--json", to.to_str().expect("plain")],
    ]
    .concat();
    match tool(&words) {
        Ok(json) => assert_eq!(serde_json::from_str::<Value>(&json).expect("JSON"), value),
        Err(why) if why.starts_with("unshare") => eprintln!("skipped: without /sys: {why}"),
        Err(why) => panic!("{why}"),
    }
}

#[test]
fn a_trace_that_is_cut_or_gone() {
    let dir = traced_run();
    let file = dir.path().join("out/layers.parquet");
    let whole = std::fs::read(&file).expect("there");
    for length in [whole.len() - 1, whole.len() / 2, 3, 0] {
        std::fs::write(&file, &whole[..length]).expect("cut");
        let (_, err) = common::run(dir.path(), &["explain", "out"], 4);
        assert!(err.contains("layers.parquet"), "{err}");
        assert!(err.contains("damaged") && err.contains("hint:"), "{err}");
        // What does not need the trace is as it was.
        let (code, text) = report(dir.path());
        assert!(matches!(code, Some(0 | 4)), "{code:?} {text}");
        assert!(text.contains("layers.parquet is damaged"), "{text}");
        assert!(text.contains("p99.9"), "{text}");
    }
    std::fs::write(&file, &whole).expect("mended");
    for (other, keep, said) in [("host.parquet", 9, "is damaged"), ("ios.parquet", 0, "is missing")]
    {
        let other_file = dir.path().join("out").join(other);
        let sound = std::fs::read(&other_file).expect("there");
        std::fs::remove_file(&other_file).expect("removed");
        if keep > 0 {
            std::fs::write(&other_file, &sound[..sound.len() - keep]).expect("cut");
        }
        let (_, err) = common::run(dir.path(), &["explain", "out"], 4);
        assert!(err.contains(&format!("{other} {said}")), "{err}");
        std::fs::write(&other_file, sound).expect("mended");
    }
    std::fs::remove_file(&file).expect("removed");
    let (value, text) = explained_with(dir.path(), 4);
    let ios = value["ios"].as_array().expect("a list");
    assert!(ios.iter().all(|io| io["layer"] == "unknown"), "{text}");
    assert!(text.contains("counted as unknown"), "{text}");
    assert!(text.contains("The trace is gone: layers.parquet"), "{text}");
    assert!(!text.contains("nobody else used the disk"), "{text}");
}

fn report(dir: &Path) -> (Option<i32>, String) {
    let out = common::taillight(dir).args(["report", "out"]).output();
    let out = out.expect("it starts");
    (out.status.code(), common::unwrapped(&common::text(&out.stdout)))
}
