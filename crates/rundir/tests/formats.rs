//! Old run directories stay readable, with the same figures.
//!
//! `formats/` beside this crate's sources has one made-up directory of each schema version; a new
//! version gets its own folder, and the old ones are never written again. To make one:
//! `cargo test -p taillight-rundir --test integration formats::write_v1 -- --ignored`. `formats/` at the root of
//! the repository has real runs of released programs; `formats.json` says what is in them.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::common;
use hdrhistogram::Histogram;
use serde_json::json;
use taillight_core::{LatencyKind, OpKind};
use taillight_rundir::histlog::{HistEntry, HistTag, write_histograms};
use taillight_rundir::host::read_host;
use taillight_rundir::intervals::{IntervalRow, interval_writer, read_intervals};
use taillight_rundir::ios::{IosWriter, RowKey};
use taillight_rundir::layers::read_layers;
use taillight_rundir::manifest::{PhaseInfo, ProcessInfo};
use taillight_rundir::store::read_store;
use taillight_rundir::{Manifest, RunDir, RunStatus, Summary, fixture, names};

fn fixture_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("formats/v1")
}

fn manifest() -> Manifest {
    let mut m = fixture::manifest("v1-fixture");
    m.status = RunStatus::Complete;
    m.taillight = "0.1.0".into();
    m.process = Some(ProcessInfo {
        pid: 1,
        boot_id: "00000000-0000-0000-0000-000000000000".into(),
        start_ticks: 1,
        host: "host".into(),
    });
    m.phases = vec![PhaseInfo {
        name: "measure".into(),
        start_ns: 5_000_000_000,
        end_ns: Some(6_000_000_000),
        ios: 200,
    }];
    m.capture.kept = 200;
    m
}

fn intervals() -> Vec<IntervalRow> {
    vec![IntervalRow {
        start_ns: 5_000_000_000,
        length_ns: 1_000_000_000,
        phase: "measure".into(),
        op: OpKind::Read,
        ops: 200,
        bytes: 819_200,
        p50_ns: Some(512),
        slc2: Some(1.5),
        depth_mean: 0.5,
        ..IntervalRow::default()
    }]
}

fn histogram() -> HistEntry<Histogram<u64>> {
    let mut histogram = Histogram::new_with_bounds(1, 1 << 40, 3).unwrap();
    (0..200u64).for_each(|i| histogram.record(100 + i * i).unwrap());
    HistEntry {
        start_ns: 5_000_000_000,
        length_ns: 1_000_000_000,
        tag: HistTag {
            phase: "measure".into(),
            workload: "w0".into(),
            op: OpKind::Read,
            kind: LatencyKind::Service,
        },
        histogram,
    }
}

#[test]
#[ignore = "writes the fixture of the current schema version"]
fn write_v1() {
    let _ = std::fs::remove_dir_all(fixture_dir());
    let dir = RunDir::create(&fixture_dir(), &manifest()).unwrap();
    dir.write_job("[run]\nname = \"fixture\"\n").unwrap();
    let mut ios = IosWriter::create(&dir).unwrap();
    let key = RowKey { phase: "measure", workload: 0, worker: 1 };
    for record in common::varied(200, 1) {
        ios.begin(key);
        ios.push(&record).unwrap();
    }
    ios.finish().unwrap();
    interval_writer(&dir).write(intervals()).unwrap();
    let entry = histogram();
    let entries = [HistEntry {
        start_ns: entry.start_ns,
        length_ns: entry.length_ns,
        tag: entry.tag.clone(),
        histogram: &entry.histogram,
    }];
    write_histograms(&dir, &dir.manifest().clock, entries).unwrap();
    let mut summary = fixture::summary("v1-fixture");
    summary.taillight = "0.1.0".into();
    summary.files = dir.files().unwrap();
    dir.write(&summary).unwrap();
}

#[test]
fn version_1_is_readable() {
    let dir = RunDir::open(&fixture_dir()).unwrap();
    assert_eq!(*dir.manifest(), manifest());
    assert_eq!(dir.status(), RunStatus::Complete);
    assert!(dir.job().unwrap().unwrap().starts_with("[run]"));
    let summary = dir.read::<Summary>().unwrap().unwrap();
    assert_eq!(summary.files.len(), 5);
    assert_eq!(summary.ops[&OpKind::Read].latencies.service.percentiles[0].p, "99");
    let rows = common::rows(&dir.file(names::IOS));
    let records = common::varied(200, 1);
    assert_eq!(rows.len(), 200);
    for (row, record) in rows.iter().zip(records) {
        assert_eq!((row.0.as_str(), row.1, row.2), ("measure", 0, 1));
        assert_eq!(row.3, record);
    }
    assert_eq!(read_intervals(&dir.file(names::INTERVALS)).unwrap(), intervals());
    let log = common::histograms(&dir.file(names::HISTOGRAMS), &dir.manifest().clock).unwrap();
    assert_eq!(log, [histogram()]);
}

/// Directories of real runs, with their names.
fn released() -> Vec<(String, RunDir)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../formats");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(root).unwrap() {
        let path = entry.unwrap().path();
        if path.join(names::MANIFEST).exists() {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            all.push((name, RunDir::open(&path).unwrap()));
        }
    }
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// What a run directory holds, file by file.
fn figures(dir: &RunDir) -> serde_json::Value {
    let summary = dir.read::<Summary>().unwrap().unwrap();
    let mut ios: BTreeMap<String, (u64, u64, u64)> = BTreeMap::new();
    for (phase, _, worker, record) in common::rows(&dir.file(names::IOS)) {
        let (rows, ns, workers) = ios.entry(format!("{phase} {}", record.op.name())).or_default();
        *rows += 1;
        *ns += record.service_ns();
        *workers |= 1 << worker;
    }
    let intervals = read_intervals(&dir.file(names::INTERVALS)).unwrap();
    let log = common::histograms(&dir.file(names::HISTOGRAMS), &dir.manifest().clock).unwrap();
    let mut layers: BTreeMap<&str, (u64, i64)> = BTreeMap::new();
    if let Some(path) = dir.existing(names::LAYERS) {
        read_layers(&path, &mut |rows| {
            for row in rows {
                let (count, ns) = layers.entry(row.kind.name()).or_default();
                *count += 1;
                *ns += row.end_ns - row.start_ns;
            }
            Ok(())
        })
        .unwrap();
    }
    let mut host = (0, 0.0);
    if let Some(path) = dir.existing(names::HOST) {
        read_host(&path, &mut |rows| {
            host.0 += rows.len();
            host.1 += rows.iter().map(|r| r.value).sum::<f64>();
            Ok(())
        })
        .unwrap();
    }
    let store = dir.existing(names::STORE);
    let store = store.map_or(Vec::new(), |path| read_store(&path).unwrap());
    json!({
        "run_id": dir.manifest().run_id,
        "status": dir.manifest().status,
        "workloads": dir.manifest().plan.workloads.len(),
        "totals": summary.totals,
        "ios": ios,
        "intervals": {
            "rows": intervals.len(),
            "ops": intervals.iter().map(|r| r.ops).sum::<u64>(),
            "max_ns": intervals.iter().filter_map(|r| r.max_ns).max(),
        },
        "histograms": {
            "count": log.iter().map(|e| e.histogram.len()).sum::<u64>(),
            "kinds": log.iter().map(|e| e.tag.kind.name()).collect::<BTreeSet<_>>(),
        },
        "layers": layers,
        "host": host,
        "store": { "rows": store.len(), "sum": store.iter().map(|r| r.value).sum::<f64>() },
    })
}

#[test]
fn released_runs_are_readable_with_the_same_figures() {
    let expected: BTreeMap<String, serde_json::Value> =
        serde_json::from_str(include_str!("formats.json")).unwrap();
    let all = released();
    assert_eq!(all.len(), expected.len());
    for (name, dir) in all {
        let text = serde_json::to_string(&figures(&dir)).unwrap();
        let figures: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(figures, expected[&name], "{name}");
        // The program that made the run counted the same I/Os.
        let summary = dir.read::<Summary>().unwrap().unwrap();
        let rows = common::rows(&dir.file(names::IOS));
        let measured = rows.iter().filter(|row| row.0 != "warmup" && row.3.status.is_ok());
        let longest = measured.map(|row| row.3.service_ns()).max();
        assert_eq!(longest, summary.totals.latencies.service.max_ns, "{name}");
    }
}

#[test]
#[ignore = "writes formats.json, for a run directory that was added"]
fn write_figures() {
    let all: BTreeMap<String, _> =
        released().into_iter().map(|(name, dir)| (name, figures(&dir))).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats.json");
    let text = serde_json::to_string_pretty(&all).unwrap();
    std::fs::write(path, text + "\n").unwrap();
}
