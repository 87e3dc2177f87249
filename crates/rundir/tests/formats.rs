//! Old run directories stay readable: one of each schema version is kept under `formats/`.
//!
//! A new version gets its own folder; the old ones are never written again. To make one:
//! `cargo test -p taillight-rundir --test formats -- --ignored`.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use taillight_core::{LatencyKind, OpKind};
use taillight_rundir::histlog::{HistEntry, HistTag, read_histograms, write_histograms};
use taillight_rundir::intervals::{IntervalRow, read_intervals, write_intervals};
use taillight_rundir::ios::{IosWriter, RowKey};
use taillight_rundir::manifest::{PhaseInfo, ProcessInfo};
use taillight_rundir::{Manifest, RunDir, RunStatus, fixture, names};

mod common;

fn place() -> PathBuf {
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
    let _ = std::fs::remove_dir_all(place());
    let dir = RunDir::create(&place(), &manifest()).unwrap();
    dir.write_job("[run]\nname = \"fixture\"\n").unwrap();
    let mut ios = IosWriter::create(&dir).unwrap();
    let key = RowKey {
        phase: "measure",
        workload: 0,
        worker: 1,
    };
    for record in common::varied(200, 1) {
        ios.push(key, &record).unwrap();
    }
    ios.finish().unwrap();
    write_intervals(&dir, &intervals()).unwrap();
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
    dir.write_summary(&summary).unwrap();
}

#[test]
fn version_1_is_readable() {
    let dir = RunDir::open(&place()).unwrap();
    assert_eq!(*dir.manifest(), manifest());
    assert_eq!(dir.status(), RunStatus::Complete);
    assert!(dir.job().unwrap().unwrap().starts_with("[run]"));
    let summary = dir.summary().unwrap().unwrap();
    assert_eq!(summary.files.len(), 5);
    assert_eq!(
        summary.ops[&OpKind::Read].latencies.service.percentiles[0].p,
        "99"
    );
    let rows = common::rows(&dir.file(names::IOS));
    let records = common::varied(200, 1);
    assert_eq!(rows.len(), 200);
    for (row, record) in rows.iter().zip(records) {
        assert_eq!((row.0.as_str(), row.1, row.2), ("measure", 0, 1));
        assert_eq!(row.3, record);
    }
    assert_eq!(
        read_intervals(&dir.file(names::INTERVALS)).unwrap(),
        intervals()
    );
    let log = read_histograms(&dir.file(names::HISTOGRAMS), &dir.manifest().clock).unwrap();
    assert_eq!(log, [histogram()]);
}
