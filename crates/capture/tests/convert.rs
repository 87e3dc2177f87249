//! Chunks into `ios.parquet`: order and counts of the rows, when chunks are freed (`ChunkRelease`), damaged chunks, and
//! that a conversion that is stopped keeps every chunk.
#![allow(clippy::unwrap_used)]

use std::fs;

use crate::common;
use taillight_capture::chunk::{HEADER_BYTES, Header, ORDERED_BIT};
use taillight_capture::convert::{
    ChunkFiles, ChunkRelease, ChunkStore, ConvertOptions, Converted, MemoryChunks, RowCounts,
    convert,
};
use taillight_core::{ErrorKind, OpKind, Record};
use taillight_rundir::{RunDir, fixture, names};

/// Records in completion order, as a worker of some depth with a few stalls would leave them.
fn completed(n: usize, seed: u64) -> Vec<Record> {
    let mut random = common::RowRandom(seed);
    let mut now = 0;
    let mut records: Vec<Record> = (0..n as u64)
        .map(|i| {
            now += 20 + random.next(20) as i64;
            let stall = if random.next(500) == 0 { 300_000 } else { 0 };
            let mut r = common::record(now, 100 + random.next(900) as i64 + stall, i);
            if i % 3 == 0 {
                r.op = OpKind::Write;
            }
            r
        })
        .collect();
    records.sort_by_key(|r| r.complete);
    records
}

fn store(workers: u16, n: usize) -> (MemoryChunks, Vec<Vec<Record>>) {
    let (mut chunks, mut expected) = (Vec::new(), Vec::new());
    for worker in 0..workers {
        let mut records = completed(n, u64::from(worker) + 1);
        chunks.extend(common::chunks(worker, &records, 700));
        records.sort_by_key(|r| r.submit);
        expected.push(records);
    }
    chunks.reverse();
    (MemoryChunks(chunks), expected)
}

fn options<'a>(phases: &'a [String], expected: Option<&'a RowCounts>) -> ConvertOptions<'a> {
    ConvertOptions { phases, expected, tolerant: false, release: ChunkRelease::AtEnd }
}

fn counts(n: u64) -> RowCounts {
    RowCounts::from([((0, OpKind::Read), n - n / 3), ((0, OpKind::Write), n / 3)])
}

#[test]
fn rows_stand_by_worker_in_submit_order() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("c")).unwrap();
    let (mut store, expected) = store(3, 30_000);
    let phases = ["measure".to_owned()];
    let all = counts(90_000);
    let (mut last, mut total) = (0, 0);
    let done = convert(&dir, &mut store, &options(&phases, Some(&all)), &mut |_| (), &mut |p| {
        if p.unit == "I/Os" {
            assert!(p.done >= last && p.total == 90_000);
            last = p.done;
            total += 1;
        }
        true
    })
    .unwrap();
    assert!(total > 100 && last > 0);
    assert_eq!((done.rows, done.damaged), (90_000, 0));
    assert_eq!(done.counts, all);
    assert!(store.0.iter().all(Vec::is_empty), "released");
    let rows = common::rows(&dir.file(names::IOS));
    let flat = expected.iter().flatten();
    assert_eq!(rows.len(), 90_000);
    for (i, (row, record)) in rows.iter().zip(flat).enumerate() {
        assert_eq!((row.0.as_str(), usize::from(row.2)), ("measure", i / 30_000));
        assert_eq!(row.3, *record);
    }
}

#[test]
fn a_wrong_count_is_an_error_and_keeps_everything() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("c")).unwrap();
    let (mut store, _) = store(1, 300);
    let wrong = counts(303);
    let e = convert(&dir, &mut store, &options(&[], Some(&wrong)), &mut |_| (), &mut |_| true)
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Internal);
    assert!(e.to_string().contains("read: 202"), "{e}");
    assert!(store.0.iter().all(|c| !c.is_empty()));
    assert!(dir.existing(names::IOS).is_some());
}

#[test]
fn stopped_means_nothing_is_lost() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("c")).unwrap();
    let (mut store, _) = store(2, 5000);
    let mut left = 12;
    let e = convert(&dir, &mut store, &options(&[], None), &mut |_| (), &mut |_| {
        left -= 1;
        left > 0
    });
    assert_eq!(e.unwrap_err().kind(), ErrorKind::Unavailable);
    assert!(store.0.iter().all(|c| !c.is_empty()));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 1);
    convert(&dir, &mut store, &options(&[], None), &mut |_| (), &mut |_| true).unwrap();
}

#[test]
fn files_are_unlinked_one_by_one_when_asked() {
    let root = tempfile::tempdir().unwrap();
    let shm = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("c")).unwrap();
    let chunks = common::chunks(0, &completed(5000, 1), 1000);
    let mut files = ChunkFiles::default();
    for (i, chunk) in chunks.iter().enumerate() {
        let path = shm.path().join(format!("{i}.chunk"));
        fs::write(&path, chunk).unwrap();
        files.0.push(path);
    }
    let options = ConvertOptions {
        phases: &[],
        expected: None,
        tolerant: false,
        release: ChunkRelease::AsRead,
    };
    let mut most = 0;
    convert(&dir, &mut files, &options, &mut |_| (), &mut |p| {
        if p.unit == "I/Os" {
            let left = fs::read_dir(shm.path()).unwrap().count();
            assert!(most == 0 || left + 1 == most);
            most = left;
        }
        true
    })
    .unwrap();
    assert_eq!(most, 0);
    assert_eq!(files.count(), 5);
}

#[test]
fn missing_chunks_are_an_error_or_counted() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("c")).unwrap();
    let mut chunks = common::chunks(0, &completed(5000, 1), 1000);
    chunks.remove(2);
    chunks.push(vec![7; 100]);
    chunks.push(vec![0; 8192]);
    let run = |tolerant, chunks: &Vec<Vec<u8>>| -> taillight_core::Result<Converted> {
        let options =
            ConvertOptions { phases: &[], expected: None, tolerant, release: ChunkRelease::AtEnd };
        convert(&dir, &mut MemoryChunks(chunks.clone()), &options, &mut |_| (), &mut |_| true)
    };
    assert!(run(false, &chunks).is_err());
    let done = run(true, &chunks).unwrap();
    assert_eq!((done.rows, done.damaged), (4000, 1));
    chunks.truncate(4);
    assert!(run(false, &chunks).is_err());
}

#[test]
fn a_record_that_cannot_be_ends_its_chunk_and_is_counted() {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(root.path(), &fixture::manifest("c")).unwrap();
    let mut chunks = common::chunks(0, &completed(2000, 1), 1000);
    // A long record begins, of an operation that has no such code.
    let at = HEADER_BYTES + 400 * 16;
    (chunks[0][at], chunks[0][at + 2]) = (63 << 1 | 1, 200);
    let phases = ["measure".to_owned()];
    let strict = options(&phases, None);
    let e = convert(&dir, &mut MemoryChunks(chunks.clone()), &strict, &mut |_| (), &mut |_| true)
        .unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
    let tolerant = ConvertOptions { tolerant: true, ..strict };
    let done =
        convert(&dir, &mut MemoryChunks(chunks), &tolerant, &mut |_| (), &mut |_| true).unwrap();
    assert_eq!((done.rows, done.damaged), (1400, 1));
}

/// Chunks whose workers saw them to be in order are read once; the rows are the same.
#[test]
fn chunks_in_submit_order_are_taken_at_their_word_and_held_to_it() {
    let records: Vec<Record> = (0..3000).map(|i| common::record(40 * i as i64, 30, i)).collect();
    let chunks = common::chunks(0, &records, 700);
    let all = RowCounts::from([((0, OpKind::Read), 3000)]);
    let phases = ["measure".to_owned()];
    let run = |chunks: &[Vec<u8>]| {
        let root = tempfile::tempdir().unwrap();
        let dir = RunDir::create(root.path(), &fixture::manifest("c")).unwrap();
        let mut store = MemoryChunks(chunks.to_vec());
        let mut told = Vec::new();
        let options = options(&phases, Some(&all));
        let done = convert(&dir, &mut store, &options, &mut |_| (), &mut |p| {
            told.push(p.what.to_owned());
            true
        })?;
        assert_eq!(done.rows, 3000);
        let rows = common::rows(&dir.file(names::IOS));
        assert!(rows.iter().zip(&records).all(|(row, record)| row.3 == *record));
        Ok::<_, taillight_core::Error>(told.iter().any(|what| what == "reading the capture"))
    };
    assert!(!run(&chunks).unwrap(), "no first pass");
    // One chunk without the mark of order (earlier Taillights wrote none, in the same format): all are looked at first.
    let mut silent = chunks.clone();
    silent[2][8 + ORDERED_BIT as usize / 8] &= !(1 << (ORDERED_BIT % 8));
    assert!(run(&silent).unwrap());
    // Exchanged, they are in another order than they say, which is an error.
    let mut wrong = chunks.clone();
    let (first, second) = (chunks[1][HEADER_BYTES..].to_vec(), chunks[2][HEADER_BYTES..].to_vec());
    wrong[1].truncate(HEADER_BYTES);
    wrong[1].extend(second);
    wrong[2].truncate(HEADER_BYTES);
    wrong[2].extend(first);
    wrong[2][32..40].copy_from_slice(&0_i64.to_le_bytes());
    assert_eq!(run(&wrong).unwrap_err().kind(), ErrorKind::Corrupt);
    // A worker of which an operation completed after a later one does not mark its chunks.
    let disordered = common::chunks(0, &completed(2000, 1), 1000);
    assert!(disordered.iter().all(|chunk| !Header::read(chunk).unwrap().ordered));
}
