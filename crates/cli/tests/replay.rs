//! Recorded traces at the command line: replayed, refused with the place, and described.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;

use crate::common::traced::TestDisk;
use crate::common::{run_line, scratch, taillight, text};
use serde_json::Value;

/// A trace of MSR's form: `rows` operations a millisecond apart, every third one a write, at odd places.
fn msr(dir: &Path, name: &str, rows: u64) {
    let mut text = String::new();
    for i in 0..rows {
        let (at, kind) =
            (128_166_372_003_061_629 + i * 10_000, ["Write", "Read", "Read"][i as usize % 3]);
        writeln!(
            text,
            "{at},web,0,{kind},{},{},9",
            i * 7919 % 1000 * 512 + 100,
            512 + i % 4 * 1024
        )
        .unwrap();
    }
    std::fs::write(dir.join(name), text).unwrap();
}

fn json(dir: &Path, line: &str) -> Value {
    serde_json::from_str(&run_line(dir, line, 0).0).unwrap()
}

#[test]
fn a_trace_is_replayed_on_a_file_and_its_run_is_a_trace_again() {
    let dir = scratch();
    let at = dir.path();
    msr(at, "t.csv", 300);
    let line = "run --path data --replay t.csv --direct=false --set workload.0.access.align=512B --output a";
    let (_, err) = run_line(at, line, 0);
    assert!(err.contains("replay of t.csv (MSR): 300 operations over 299 ms"), "{err}");
    assert!(err.contains("bytes are added by rounding out to blocks"), "{err}");
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(at.join("a/summary.json")).unwrap()).unwrap();
    assert_eq!(summary["totals"]["count"], 300);
    // What the run did is the trace with its sizes rounded: the times, to the nanosecond, are its own.
    let (was, is) = (json(at, "trace t.csv --json"), json(at, "trace a --json"));
    for field in ["operations", "span_ns", "rate"] {
        assert_eq!(was[field], is[field], "{field}");
    }
    assert!(is["bytes"].as_u64().unwrap() > was["bytes"].as_u64().unwrap());
    let (_, err) = run_line(at, "run --driver sim --replay a --output b", 0);
    assert!(err.contains("(Taillight run): 300 operations"), "{err}");
    run_line(at, "export a --format ios-csv --output a.csv", 0);
    assert_eq!(json(at, "trace a.csv --json")["rate"], is["rate"]);
}

#[test]
fn a_trace_that_writes_passes_the_guard() {
    let dir = scratch();
    msr(dir.path(), "t.csv", 9);
    std::fs::write(dir.path().join("mine"), vec![7; 4 << 20]).unwrap();
    let line = "run --path mine --replay t.csv --direct=false";
    let (_, err) = run_line(dir.path(), line, 3);
    assert!(err.contains("mine"), "{err}");
    assert_eq!(std::fs::read(dir.path().join("mine")).unwrap(), vec![7; 4 << 20]);
}

#[test]
fn a_trace_on_a_device_is_rounded_out_and_asks_for_its_data() {
    let name = "a_trace_on_a_device_is_rounded_out_and_asks_for_its_data";
    let Some(disk) = TestDisk::new(name, 8, false) else { return };
    let dir = scratch();
    msr(dir.path(), "t.csv", 90);
    let line = format!("run --path {} --replay t.csv --output a", disk.device);
    let (_, err) = run_line(dir.path(), &line, 3);
    assert!(err.contains(&disk.device), "{err}");
    let destroy = format!("{line} --set target.destroy=true --destroy {}", disk.device);
    let (_, err) = run_line(dir.path(), &destroy, 0);
    for said in ["bytes are added by rounding", "reads of what was never written"] {
        assert!(err.contains(said), "{err}");
    }
    // What only reads needs no leave.
    let reads: String = std::fs::read_to_string(dir.path().join("t.csv")).unwrap();
    let reads: String =
        reads.lines().filter(|l| l.contains("Read")).map(|l| format!("{l}\n")).collect();
    std::fs::write(dir.path().join("t.csv"), reads).unwrap();
    run_line(dir.path(), &line.replace("--output a", "--output b"), 0);
}

#[test]
fn bad_traces_are_refused_with_their_place_and_nothing_is_laid_out() {
    let dir = scratch();
    let at = dir.path();
    msr(at, "good", 30);
    let good = std::fs::read_to_string(at.join("good")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(at.join(name), text).unwrap();
    write("cut", &good[..good.len() - 20]);
    write("empty", "");
    write("other", "{\"fio version\" : \"fio-3.33\"}\n");
    write("back", &format!("{good}128166000000000000,web,0,Read,0,512,9\n"));
    write("two", &format!("{good}128166372003061629,web,1,Read,0,512,9\n"));
    write("long", &"9".repeat(5000));
    write("units", "1.5,web,0,Read,0,512,9\n");
    std::fs::create_dir(at.join("folder")).unwrap();
    for (file, what) in [
        ("cut", "line: 30"),
        ("empty", "the trace is empty"),
        ("other", "does not begin as a trace"),
        ("back", "line: 31"),
        ("two", "several disks or files: `0`, `1`"),
        ("long", "does not begin as a trace"),
        ("units", "does not begin as a trace"),
        ("folder", "cannot be opened"),
        ("absent", "cannot be opened"),
        ("good --size 256KiB", "the trace touches"),
        ("good --rw randread", "workload.0.mix"),
        ("good --set workload.0.trace.format=mrs", "no format `mrs`"),
        ("good --set workload.0.trace.fit=wrap", "target.size"),
    ] {
        let (_, err) = run_line(at, &format!("run --path data --direct=false --replay {file}"), 2);
        assert!(err.contains(what), "{file}: {err}");
        assert!(!at.join("data").exists(), "{file}");
    }
    let (_, err) = run_line(at, "run --driver memory --replay good", 2);
    assert!(err.contains("addressed by key"), "{err}");
    write("log", "fio version 3 iolog\n0 x add\n0 x open\n0 x read 0 4096\n");
    for (file, what) in [("log", "fio iolog version 3"), ("good", "MSR")] {
        let (_, err) = run_line(at, &format!("run {file}"), 2);
        assert!(err.contains("no job file but a recorded trace") && err.contains(what), "{err}");
        assert!(err.contains(&format!("--replay {file}")), "{err}");
    }
    let (_, err) = run_line(at, "trace cut", 2);
    assert!(err.contains("line: 30"), "{err}");
}

#[test]
fn a_trace_is_described_without_being_run() {
    let dir = scratch();
    msr(dir.path(), "t.csv", 3000);
    let (out, _) = run_line(dir.path(), "trace t.csv", 0);
    assert!(
        out.starts_with("t.csv (MSR): 3,000 operations, 1,000/s over 3.00 s; read 66.7 %"),
        "{out}"
    );
    let found = json(dir.path(), "trace t.csv --json");
    let schema = json(dir.path(), "schema trace");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let problems: Vec<_> = validator.iter_errors(&found).collect();
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(found["rate"]["dispersion"][2]["index"], 0.0);
}

/// A load on `sim`: the times of its service, and a rate at which it is far from its end.
const LOADS: [[&str; 2]; 4] = [
    ["kind = \"exponential\", mean = \"250us\"", "10000/s"],
    ["kind = \"uniform\", min = \"50us\", max = \"450us\"", "6000/s"],
    ["kind = \"bimodal\", common = \"100us\", rare = \"3ms\", every = 50", "12000/s"],
    ["kind = \"exponential\", mean = \"250us\"", "3000/s"],
];

/// Records a run, replays it on the same system with other chance, and compares the two: the figures.
fn replayed(load: [&str; 2], seed: u64) -> Vec<Value> {
    let dir = scratch();
    let [service, rate] = load;
    let target = format!(
        "[target]\ndriver = \"sim\"\nsize = \"64MiB\"\n[target.options]\nchannels = 4\nservice = {{ {service} }}\n"
    );
    let slots = "[[workload]]\nworkers = 2\nqueue_depth = 32\n";
    let recorded = format!(
        "[run]\noperations = 20000\nseed = {seed}\n{target}{slots}mix = \"read\"\nblock_size = \"4KiB\"\n\
         arrival = {{ kind = \"poisson\", rate = \"{rate}\" }}\n"
    );
    let replay = format!(
        "[run]\nseed = {}\n{target}{slots}trace = {{ file = \"recorded\" }}\n",
        seed + 1_000_000
    );
    std::fs::write(dir.path().join("a.toml"), recorded).unwrap();
    std::fs::write(dir.path().join("b.toml"), replay).unwrap();
    run_line(dir.path(), "run a.toml --output recorded", 0);
    run_line(dir.path(), "run b.toml --output replayed", 0);
    let line = "compare recorded replayed --output compared";
    let compared = taillight(dir.path()).args(line.split(' ')).output().unwrap();
    assert!(matches!(compared.status.code(), Some(0 | 7)), "{}", text(&compared.stderr));
    let found = std::fs::read_to_string(dir.path().join("compared/compare.json")).unwrap();
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["comparable"]["verdict"], "yes", "{}", found["comparable"]);
    found["figures"].as_array().unwrap().clone()
}

/// Whether the interval of new over base has no difference in it; a figure without an interval says nothing.
fn within(figure: &Value) -> bool {
    let [lo, hi] = ["lo", "hi"].map(|end| figure[end].as_f64());
    lo.is_none_or(|lo| lo <= 1.0) && hi.is_none_or(|hi| hi >= 1.0)
}

#[test]
fn a_replay_may_be_compared_with_what_it_replays() {
    let figures = replayed(LOADS[0], 1);
    assert!(figures.len() >= 4, "{figures:?}");
    let differs = |figure: &&Value| matches!(figure["verdict"].as_str(), Some("better" | "worse"));
    assert_eq!(figures.iter().find(differs), None);
}

#[test]
#[ignore = "a proof: cargo xtask proof replay"]
fn proof() {
    let path = std::env::var("PROOF_RESULTS").unwrap();
    let mut lines = String::new();
    for load in LOADS {
        let found: Vec<Vec<Value>> = (1..=25).map(|seed| replayed(load, seed)).collect();
        let [service, rate] = load;
        let mut line = serde_json::json!({
            "service": service.replace('"', ""), "rate": rate, "seeds": found.len(),
        });
        for name in ["p50", "p90", "p99", "p99.9"] {
            let of = found.iter().flatten().filter(|figure| figure["figure"] == name);
            line[name] = of.filter(|figure| within(figure)).count().into();
        }
        let differs =
            |figure: &&Value| matches!(figure["verdict"].as_str(), Some("better" | "worse"));
        line["verdicts"] = found.iter().flatten().filter(differs).count().into();
        writeln!(lines, "{line}").unwrap();
    }
    std::fs::write(path, lines).unwrap();
}
