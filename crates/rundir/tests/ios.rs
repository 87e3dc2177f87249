//! `ios.parquet`: every field survives, stock readers open it, damage never panics.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common;
use taillight_core::{ErrorKind, OpKind, Record, Status};
use taillight_rundir::ios::{ColumnSet, GROUP_ROWS, IosFile, IosWriter, RowKey, read_ios};
use taillight_rundir::{RunDir, fixture, names};

fn key(phase: &str, worker: u16) -> RowKey<'_> {
    RowKey { phase, workload: worker / 2, worker }
}

/// Writes the same records as the rows of three workers, each in two phases.
fn write(root: &Path, records: &[Record]) -> RunDir {
    let dir = RunDir::create(root, &fixture::manifest("ios")).unwrap();
    let mut writer = IosWriter::create(&dir).unwrap();
    for worker in 0..3u16 {
        for (i, record) in records.iter().enumerate() {
            let phase = if 2 * i < records.len() { "warmup" } else { "measure" };
            writer.begin(key(phase, worker));
            writer.push(record).unwrap();
        }
    }
    assert_eq!(writer.finish().unwrap(), 3 * records.len() as u64);
    dir
}

#[test]
fn every_field_comes_back() {
    let root = tempfile::tempdir().unwrap();
    let records = common::varied(5000, 3);
    let dir = write(root.path(), &records);
    let rows = common::rows(&dir.file(names::IOS));
    assert_eq!(rows.len(), 15_000);
    for (i, (phase, workload, worker, record)) in rows.iter().enumerate() {
        let j = i % 5000;
        assert_eq!(*record, records[j]);
        assert_eq!(usize::from(*worker), i / 5000);
        assert_eq!(*workload, worker / 2);
        assert_eq!(phase, if j < 2500 { "warmup" } else { "measure" });
    }
}

#[test]
fn row_groups_nulls_and_constants() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("ios")).unwrap();
    let mut writer = IosWriter::create(&dir).unwrap();
    let total = GROUP_ROWS + 1000;
    for i in 0..total {
        let mut r = common::record(i as i64 * 45, 50, i as u64);
        // A value in the second group only, a null in the first group only.
        if i == total - 1 {
            r.retries = Some(3);
            r.status = Status::TIMEOUT;
        }
        if i == 77 {
            r.offset = None;
        }
        writer.begin(key("measure", 0));
        writer.push(&r).unwrap();
    }
    assert_eq!(writer.rows(), total as u64);
    writer.finish().unwrap();
    let path = dir.file(names::IOS);
    let file = IosFile::open(&path).unwrap();
    assert_eq!((file.rows(), file.groups()), (total as u64, 2));
    let (mut seen, mut nulls, mut retried, mut failed) = (0, 0, 0, 0);
    let columns = ColumnSet::OFFSET | ColumnSet::RETRIES | ColumnSet::STATUS | ColumnSet::OP;
    file.read(columns, &mut |b| {
        assert!((0..b.rows).all(|i| b.submit(i) == 0 && b.row(i).key.is_none()));
        assert!((0..b.rows).all(|i| b.op(i) == OpKind::Read));
        seen += b.rows;
        nulls += (0..b.rows).filter(|i| b.row(*i).offset.is_none()).count();
        retried += (0..b.rows).filter(|i| b.row(*i).retries.is_some()).count();
        failed += (0..b.rows).filter(|i| !b.status(*i).is_ok()).count();
        Ok(())
    })
    .unwrap();
    assert_eq!((seen, nulls, retried, failed), (total, 1, 1, 1));
    let mut second = 0;
    file.read_group(1, ColumnSet::SUBMIT, &mut |b| {
        assert_eq!(b.submit(0), GROUP_ROWS as i64 * 45);
        second += b.rows;
        Ok(())
    })
    .unwrap();
    assert_eq!(second, 1000);
    // All-null and constant columns cost next to nothing.
    for (column, bytes) in file.column_bytes() {
        let wide = ["offset", "submit_ns", "complete_ns"].contains(&column.as_str());
        assert!(wide || bytes < 2500, "{column}: {bytes}");
    }
}

#[test]
fn an_empty_file_and_an_abandoned_one() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("ios")).unwrap();
    drop(IosWriter::create(&dir).unwrap());
    assert_eq!(dir.files().unwrap().len(), 1);
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    assert_eq!(IosWriter::create(&dir).unwrap().finish().unwrap(), 0);
    assert!(common::rows(&dir.file(names::IOS)).is_empty());
}

#[test]
fn an_error_of_the_caller_ends_the_reading() {
    let root = tempfile::tempdir().unwrap();
    let dir = write(root.path(), &common::varied(100, 1));
    let e = read_ios(&dir.file(names::IOS), ColumnSet::SUBMIT, &mut |_| {
        Err(taillight_core::Error::usage("enough"))
    });
    assert_eq!(e.unwrap_err().message(), "enough");
}

#[test]
fn cut_files_are_errors_and_flipped_ones_errors_or_other_values() {
    let root = tempfile::tempdir().unwrap();
    let dir = write(root.path(), &common::varied(400, 9));
    let path = dir.file(names::IOS);
    let good = fs::read(&path).unwrap();
    let bad = root.path().join("bad.parquet");
    let read = || read_ios(&bad, ColumnSet::ALL, &mut |_| Ok(()));
    for cut in (0..good.len()).step_by(97) {
        fs::write(&bad, &good[..cut]).unwrap();
        let e = read().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{cut}");
    }
    let mut caught = 0;
    for bytes in common::flipped(&good, 500, 4) {
        fs::write(&bad, &bytes).unwrap();
        if let Err(e) = read() {
            assert_eq!(e.kind(), ErrorKind::Corrupt);
            caught += 1;
        }
    }
    // Pages carry no checksum, so a flip may also just be another value.
    assert!(caught > 50, "{caught}");
}

const SCRIPT: &str = "
import json, sys
import pyarrow.parquet as pq
table = pq.read_table(sys.argv[1])
print(json.dumps({'types': {f.name: str(f.type) for f in table.schema},
                  'nulls': {f.name: f.nullable for f in table.schema},
                  'rows': table.to_pylist()}))
";

fn pyarrow(path: &Path) -> Option<serde_json::Value> {
    // `cargo xtask setup` makes one and `cargo xtask ci` names it.
    let python = std::env::var_os("TAILLIGHT_PYTHON").unwrap_or_else(|| "python3".into());
    let probe = Command::new(&python).args(["-c", "import pyarrow"]).output();
    if !probe.is_ok_and(|o| o.status.success()) {
        println!("skipped: python3 with pyarrow is not installed (pip install pyarrow)");
        return None;
    }
    let out = Command::new(&python).args(["-c", SCRIPT]).arg(path).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    Some(serde_json::from_slice(&out.stdout).unwrap())
}

#[test]
fn stock_pyarrow_reads_the_same() {
    let root = tempfile::tempdir().unwrap();
    let records = common::varied(1500, 5);
    let dir = write(root.path(), &records);
    let Some(value) = pyarrow(&dir.file(names::IOS)) else {
        return;
    };
    for (name, kind) in [
        ("phase", "string"),
        ("workload", "uint16"),
        ("op", "string"),
        ("offset", "int64"),
        ("size", "uint64"),
        ("moved", "uint64"),
        ("count", "uint32"),
        ("submit_ns", "int64"),
        ("sync_ns", "int64"),
        ("retries", "uint16"),
        ("status", "int32"),
    ] {
        assert_eq!(value["types"][name], kind, "{name}");
    }
    assert_eq!(value["nulls"]["size"], false);
    assert_eq!(value["nulls"]["intended_ns"], true);
    let rows = value["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4500);
    for (i, row) in rows.iter().enumerate() {
        let r = &records[i % 1500];
        let expected = serde_json::json!({
            "phase": if i % 1500 < 750 { "warmup" } else { "measure" },
            "workload": i / 1500 / 2,
            "worker": i / 1500,
            "op": r.op.name(),
            "target": r.target,
            "offset": r.offset,
            "key": r.key,
            "size": r.size,
            "moved": r.moved,
            "count": r.count,
            "intended_ns": r.intended.map(|s| s.0),
            "origin_ns": r.origin.map(|s| s.0),
            "submit_ns": r.submit.0,
            "issued_ns": r.issued.map(|s| s.0),
            "first_ns": r.first.map(|s| s.0),
            "complete_ns": r.complete.0,
            "sync_ns": r.sync_ns,
            "retries": r.retries,
            "status": r.status.0,
        });
        assert_eq!(*row, expected, "row {i}");
    }
}
