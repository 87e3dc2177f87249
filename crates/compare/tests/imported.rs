//! A run of another tool, as CONTRIBUTING describes one: its figures in a run directory that the writer below `cli`
//! makes, read by report and compare as any other.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use taillight_compare::{CompareRequest, SideRun, compare};
use taillight_core::OpKind;
use taillight_report::{ReportOptions, make};
use taillight_rundir::compare::CompareVerdict;
use taillight_rundir::manifest::PhaseInfo;
use taillight_rundir::origin::{
    Fidelity, ImportSource, ImportedBin, ImportedFile, ImportedLatency, ImportedOp,
    ImportedWorkload, RunOrigin, write_imported,
};
use taillight_rundir::{Manifest, RunStatus, SCHEMA_VERSION, fixture};

const SECOND: u64 = 1_000_000_000;
const COUNT: u64 = 100_000;

/// 100,000 reads in 10 s, two of a hundred of them `slow_ns` long.
fn write(path: &Path, slow_ns: u64) {
    let begun = fixture::manifest("bare");
    let source = ImportSource {
        tool: "pencil".to_owned(),
        version: Some("2".to_owned()),
        file: "notes.txt".to_owned(),
        file_sha256: "00000000".to_owned(),
        file_crc32: String::new(),
        fidelity: Fidelity::Bins,
        spans: "from the stroke to the next".to_owned(),
        notes: Vec::new(),
        failed: Vec::new(),
    };
    let manifest = Manifest {
        origin: RunOrigin::Imported(source),
        status: RunStatus::Complete,
        phases: vec![PhaseInfo {
            name: "measure".to_owned(),
            start_ns: 0,
            end_ns: Some(10 * SECOND as i64),
            ios: COUNT,
        }],
        ..Manifest::new(format!("pencil-{slow_ns}"), begun.plan, begun.clock)
    };
    let bin = |lo_ns, count| ImportedBin { lo_ns, hi_ns: lo_ns + lo_ns / 100, count };
    let bins = vec![bin(100_000, COUNT / 100 * 98), bin(slow_ns, COUNT / 100 * 2)];
    let op = ImportedOp {
        count: COUNT,
        errors: 0,
        bytes: COUNT * 4096,
        duration_ns: 10 * SECOND,
        iops: COUNT as f64 / 10.0,
        bytes_per_s: COUNT as f64 * 409.6,
        latency: ImportedLatency::from_bins(bins),
    };
    let ops = BTreeMap::from([(OpKind::Read, op)]);
    let workload = ImportedWorkload { name: "w0".to_owned(), group: 0, ops };
    let figures = ImportedFile { schema: SCHEMA_VERSION, workloads: vec![workload] };
    write_imported(path, &manifest, &figures).unwrap();
}

#[test]
fn a_result_that_a_test_writes_is_reported_and_compared() {
    let root = tempfile::tempdir().unwrap();
    let paths: [PathBuf; 2] = ["a", "b"].map(|name| root.path().join(name));
    write(&paths[0], 2_000_000);
    write(&paths[1], 6_000_000);
    for path in &paths {
        let made = make(&[path], &ReportOptions::default(), &mut |_| true).unwrap();
        assert!(made.text.contains("pencil"), "{}", made.text);
        assert!(made.text.contains("Not measured by Taillight"), "{}", made.text);
        let reads = &made.summaries[0].ops[&OpKind::Read];
        assert_eq!((reads.count, reads.iops), (COUNT, 10_000.0));
    }
    let sides = paths.map(|path| vec![SideRun::read(&path).unwrap()]);
    let request = CompareRequest { anyway: true, ..CompareRequest::default() };
    let found = compare(&sides[0], &sides[1], &request).unwrap();
    let figure = |name: &str| found.figures.iter().find(|f| f.figure == name).unwrap();
    let ratio = figure("p99").ratio.unwrap();
    assert!((2.9..3.1).contains(&ratio), "{ratio}");
    assert_ne!(figure("p50").verdict, CompareVerdict::Worse);
}
