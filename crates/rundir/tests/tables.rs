//! `intervals.parquet` and `histograms.hlog`: round trips and damage.
#![allow(clippy::unwrap_used)]

use std::fs;

use crate::common;
use hdrhistogram::Histogram;
use taillight_core::{ErrorKind, LatencyKind, OpKind};
use taillight_rundir::histlog::{HistEntry, HistTag, HistogramWriter, write_histograms};
use taillight_rundir::intervals::{IntervalRow, interval_writer, read_intervals};
use taillight_rundir::{RunDir, fixture, names};

fn intervals() -> Vec<IntervalRow> {
    let row = |i: i64| IntervalRow {
        start_ns: 1_000_000_000 * i,
        length_ns: 1_000_000_000,
        phase: "measure".into(),
        op: OpKind::Write,
        ops: 5,
        depth_mean: 0.5,
        ..IntervalRow::default()
    };
    let stall = row(1);
    let busy = IntervalRow {
        workload: 3,
        bytes: 1 << 40,
        errors: 2,
        min_ns: Some(10),
        mean_ns: Some(12.5),
        max_ns: Some(u64::from(u32::MAX)),
        p10_ns: Some(1),
        p25_ns: Some(2),
        p50_ns: Some(3),
        p75_ns: Some(4),
        p90_ns: Some(5),
        p95_ns: Some(6),
        p99_ns: Some(7),
        p999_ns: Some(8),
        p9999_ns: Some(9),
        response_p99_ns: Some(11),
        slc1: Some(0.5),
        slc2: Some(14.25),
        backlog: Some(77),
        response_sum_ns: Some(13),
        end_to_end_sum_ns: Some(14),
        ..row(2)
    };
    vec![row(0), stall, busy]
}

#[test]
fn intervals_come_back() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("t")).unwrap();
    for rows in [Vec::new(), intervals()] {
        interval_writer(&dir).write(rows.clone()).unwrap();
        assert_eq!(read_intervals(&dir.file(names::INTERVALS)).unwrap(), rows);
    }
}

#[test]
fn cut_intervals_are_errors_and_flipped_ones_do_not_panic() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("t")).unwrap();
    interval_writer(&dir).write(intervals()).unwrap();
    let path = dir.file(names::INTERVALS);
    let good = fs::read(&path).unwrap();
    for cut in (0..good.len()).step_by(53) {
        fs::write(&path, &good[..cut]).unwrap();
        assert_eq!(read_intervals(&path).unwrap_err().kind(), ErrorKind::Corrupt);
    }
    for bytes in common::flipped(&good, 500, 8) {
        fs::write(&path, &bytes).unwrap();
        let _ = read_intervals(&path);
    }
}

fn histograms() -> Vec<HistEntry<Histogram<u64>>> {
    let mut list = Vec::new();
    for (i, kind) in LatencyKind::ALL.into_iter().enumerate() {
        let mut h = Histogram::new_with_bounds(1, 1 << 40, 3).unwrap();
        for n in 0..500u64 {
            h.record(40 + n * n * (i as u64 + 1)).unwrap();
        }
        list.push(HistEntry {
            start_ns: 1_000_000_000 + i as i64 * 1_500_000_000,
            length_ns: 1_500_000_000,
            tag: HistTag { phase: "measure".into(), workload: "w0".into(), op: OpKind::Read, kind },
            histogram: h,
        });
    }
    list
}

fn write(dir: &RunDir, list: &[HistEntry<Histogram<u64>>]) {
    let entries = list.iter().map(|e| HistEntry {
        start_ns: e.start_ns,
        length_ns: e.length_ns,
        tag: e.tag.clone(),
        histogram: &e.histogram,
    });
    write_histograms(dir, &dir.manifest().clock, entries).unwrap();
}

#[test]
fn histograms_come_back() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("t")).unwrap();
    let list = histograms();
    write(&dir, &list);
    let path = dir.file(names::HISTOGRAMS);
    let read = common::histograms(&path, &dir.manifest().clock).unwrap();
    assert_eq!(read, list);
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.starts_with("#[Histogram log format version 1.3]\n"));
    assert!(text.contains("\nTag=measure/w0/read/service,0.000,1.500,"));
    assert!(text.contains("#[BaseTime: 1700000000.000"));

    let mut odd = list[0].clone();
    odd.tag.workload = "a b,c/d".into();
    write(&dir, &[odd]);
    let read = common::histograms(&path, &dir.manifest().clock).unwrap();
    assert_eq!(read[0].tag.workload, "a_b_c_d");
}

#[test]
fn long_files_leave_memory_as_they_grow_and_short_ones_at_their_end() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("t")).unwrap();
    // One file is written at a time, under a name of its own.
    let grown = |_: &str| {
        let files = fs::read_dir(root.path()).unwrap().map(|entry| entry.unwrap());
        let mut being_written = files.filter(|f| f.file_name().to_string_lossy().ends_with(".tmp"));
        being_written.next().map_or(0, |f| f.metadata().unwrap().len())
    };
    let mut rows = interval_writer(&dir);
    let row = |i: i64| IntervalRow { start_ns: i, ..intervals().remove(0) };
    rows.put(row(0));
    assert_eq!(grown(names::INTERVALS), 0);
    (1..20_000).for_each(|i| rows.put(row(i)));
    assert!(grown(names::INTERVALS) > 4096);
    rows.commit().unwrap();
    let back = read_intervals(&dir.file(names::INTERVALS)).unwrap();
    assert!(back.iter().map(|r| r.start_ns).eq(0..20_000));

    let mut log = HistogramWriter::new(&dir, &dir.manifest().clock);
    let list = histograms();
    log.put(&list[0]);
    assert_eq!(grown(names::HISTOGRAMS), 0);
    (1..2_000).for_each(|i| log.put(&list[i % list.len()]));
    assert!(grown(names::HISTOGRAMS) >= 1 << 20);
    log.commit().unwrap();
    let back = common::histograms(&dir.file(names::HISTOGRAMS), &dir.manifest().clock).unwrap();
    assert!(back.len() == 2_000 && back.iter().zip(list.iter().cycle()).all(|(a, b)| a == b));
}

#[test]
fn logs_cut_within_a_line_are_errors_and_so_are_most_flipped_ones() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("t")).unwrap();
    write(&dir, &histograms());
    let clock = dir.manifest().clock.clone();
    let path = dir.file(names::HISTOGRAMS);
    let good = fs::read(&path).unwrap();
    let header = good.iter().position(|b| *b == b'T').unwrap();
    for cut in (header + 1..good.len()).step_by(41) {
        fs::write(&path, &good[..cut]).unwrap();
        if good[cut - 1] != b'\n' {
            assert!(common::histograms(&path, &clock).is_err(), "{cut}");
        }
    }
    let mut caught = 0;
    for bytes in common::flipped(&good, 500, 8) {
        fs::write(&path, &bytes).unwrap();
        caught += u32::from(common::histograms(&path, &clock).is_err());
    }
    assert!(caught > 350, "{caught}");
}
