//! What a later run finds with the ledger of the run that wrote; damaged headers; the pass over records, and its early
//! end.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use taillight_core::Status;
use taillight_rundir::{RunDir, fixture, ledger::write_ledger};

use super::*;

/// The blocks of `this run`: each written three times, and its run directory.
fn kept() -> (FaultBench, tempfile::TempDir) {
    let mut bench = FaultBench::new(ContentKind::Random);
    for _ in 0..3 {
        for i in 0..BLOCKS / 8 {
            bench.write(i * 8, 8, true);
        }
    }
    let home = tempfile::tempdir().unwrap();
    (bench, home)
}

fn keep(bench: &FaultBench, home: &tempfile::TempDir) -> PriorRun {
    let path = home.path().join("run");
    let dir = RunDir::create(&path, &fixture::manifest("this run")).unwrap();
    dir.write(&bench.shared.report()).unwrap();
    write_ledger(&dir, bench.shared.rows()).unwrap();
    PriorRun::find(path.to_str().unwrap()).unwrap()
}

/// The block of `this run` at a place as its write `generation` left it.
fn sealed(block: u64, generation: u64) -> Vec<u8> {
    let mut bytes = vec![0; UNIT as usize];
    let mark = BlockHeader { run: run_hash("this run"), address: block * UNIT, generation };
    BlockFormat::new(&random()).seal(&mut bytes, mark);
    bytes
}

#[test]
fn a_later_run_finds_lost_writes_and_older_blocks_by_the_ledger() {
    let (bench, home) = kept();
    let prior = keep(&bench, &home);
    let mut bench = FaultBench::later(&prior, bench.data.clone());
    assert_eq!(bench.pass().checked, BLOCKS);
    assert_eq!(bench.pass().wrong, 0);
    bench.block(3).copy_from_slice(&sealed(3, 2));
    bench.block(4).copy_from_slice(&sealed(4, 1));
    bench.block(5).copy_from_slice(&sealed(6, 3));
    bench.block(7).fill(0);
    let report = bench.pass();
    let found: Vec<_> =
        report.findings.iter().map(|f| (f.address / UNIT, f.kind, f.expected, f.found)).collect();
    let expected = [
        (3, Wrong::Lost, Some(3), Some(2)),
        (4, Wrong::Stale, Some(3), Some(1)),
        (5, Wrong::Misplaced, Some(3), Some(3)),
        (7, Wrong::Zeroed, Some(3), None),
    ];
    assert_eq!(found, expected);
    // The id alone says less: any write of that run to the address is right.
    let weaker = FaultBench::later(&PriorRun::id("this run"), bench.data.clone()).pass();
    let kinds: Vec<_> = weaker.findings.iter().map(|f| f.kind).collect();
    assert_eq!(kinds, [Wrong::Misplaced, Wrong::Zeroed]);
    // What the later run writes is its own.
    bench.write(3, 5, true);
    assert_eq!(bench.pass().wrong, 0);
    assert!(bench.read(0, 8));
}

#[test]
fn what_the_earlier_run_did_not_write_is_not_judged() {
    let mut bench = FaultBench::new(ContentKind::Random);
    bench.write(0, 8, true);
    let trimmed = op(OpKind::Trim, 3, 1);
    bench.checker.on_write(&trimmed, &mut []);
    bench.checker.on_write_done(&trimmed, true);
    bench.block(3).fill(0);
    let home = tempfile::tempdir().unwrap();
    let prior = keep(&bench, &home);
    let report = FaultBench::later(&prior, bench.data.clone()).pass();
    assert_eq!((report.checked, report.wrong), (7, 0));
    assert_eq!(report.unchecked.uncertain, 1);
}

#[test]
fn other_blocks_and_a_missing_run_or_ledger_are_refused() {
    let (bench, home) = kept();
    let prior = keep(&bench, &home);
    let other = VerifiedArea { unit: 2 * UNIT, ..area() };
    let refused = prior.load(&other, LEDGER_BUDGET).unwrap_err();
    assert!(refused.to_string().contains("another size"), "{refused}");
    let nothing = PriorRun::find(home.path().join("none").to_str().unwrap());
    assert!(nothing.unwrap_err().to_string().contains("no such run"));
    std::fs::remove_file(home.path().join("run/ledger.parquet")).unwrap();
    let gone = PriorRun::find(home.path().join("run").to_str().unwrap()).unwrap_err();
    assert!(gone.hint_text().unwrap().contains("this run"), "{gone}");
}

#[test]
fn every_byte_of_the_header_may_be_damaged() {
    for at in 0..48 {
        for bit in [0, 7] {
            let (mut bench, home) = kept();
            for _ in 0..5 {
                bench.write(9, 1, true);
            }
            let prior = keep(&bench, &home);
            bench.block(9)[at] ^= 1 << bit;
            // In the same run, later with the ledger, later with the id.
            let later_with = FaultBench::later(&prior, bench.data.clone()).pass();
            let later_by_id =
                FaultBench::later(&PriorRun::id("this run"), bench.data.clone()).pass();
            let now = bench.only();
            for found in [&now, &later_with.findings[0], &later_by_id.findings[0]] {
                assert_eq!(found.kind, Wrong::Flipped, "byte {at}: {found:?}");
                assert_eq!(found.address, 9 * UNIT);
                assert_eq!(found.found, Some(8), "byte {at}: {found:?}");
                assert_eq!(found.first_byte, Some(at as u32), "{found:?}");
                assert_eq!(found.bytes, Some(1));
            }
            assert_eq!((later_with.wrong, later_by_id.wrong), (1, 1));
        }
    }
}

/// Records in memory.
type Records = Arc<Mutex<BTreeMap<u64, Vec<u8>>>>;

fn holding(records: Records) -> AnsweringTarget {
    AnsweringTarget::new(Geometry::keyed(), move |op, buffer| {
        let records = records.lock().unwrap();
        let value = records.get(&op.key).ok_or(Status::NOT_FOUND)?;
        buffer[..value.len()].copy_from_slice(value);
        Ok(value.len())
    })
}

/// `good` reads work (there is nothing), all others fail; counts them.
fn dying(good: u32, reads: Arc<AtomicU32>) -> AnsweringTarget {
    AnsweringTarget::new(Geometry::keyed(), move |_, _| {
        Err(match reads.fetch_add(1, Ordering::Relaxed) {
            n if n < good => Status::NOT_FOUND,
            _ => Status::TIMEOUT,
        })
    })
}

/// Verification of `records` keys from `first` on, by the pass alone.
fn keyed_state(first: u64, records: u64) -> Arc<VerifyState> {
    VerifyState::new(&VerifySpec {
        area: VerifiedArea::keys(first, records),
        inline: false,
        ..spec("this run", None, &[random()])
    })
    .unwrap()
}

#[test]
fn the_pass_reads_records_one_by_one() {
    const FIRST: u64 = 1000;
    let records = Records::default();
    let shared = keyed_state(FIRST, 50);
    let mut checker = Checker::new(shared.clone(), 0, None, 1, 500);
    let mut versions: BTreeMap<u64, Vec<Vec<u8>>> = BTreeMap::new();
    for round in 0..3 {
        for key in FIRST..FIRST + 40 {
            let mut value = vec![0; 100 + (key + round) as usize % 300];
            let write = Op::keyed(OpKind::Update, key, value.len() as u64);
            checker.on_write(&write, &mut value);
            checker.on_write_done(&write, true);
            records.lock().unwrap().insert(key, value.clone());
            versions.entry(key).or_default().push(value);
        }
    }
    let delete = Op::keyed(OpKind::Delete, FIRST + 39, 0);
    checker.on_write(&delete, &mut []);
    checker.on_write_done(&delete, true);
    let pass = || pass_over(&holding(records.clone()), &shared, 500, 1);
    records.lock().unwrap().remove(&(FIRST + 39));
    let good = pass();
    assert_eq!((good.checked, good.wrong), (39, 0));
    assert_eq!(good.unchecked.uncertain, 1, "deleted");

    {
        let mut held = records.lock().unwrap();
        held.get_mut(&(FIRST + 1)).unwrap()[60] ^= 4;
        held.insert(FIRST + 2, versions[&(FIRST + 2)][1].clone());
        held.insert(FIRST + 3, versions[&(FIRST + 3)][0].clone());
        held.insert(FIRST + 4, versions[&(FIRST + 5)][2].clone());
        held.remove(&(FIRST + 6));
        held.get_mut(&(FIRST + 7)).unwrap().pop();
    }
    let found = pass();
    // The pass above has seen the last write, so that one before it has come back.
    let expected = [
        (FIRST + 1, Wrong::Flipped),
        (FIRST + 2, Wrong::Stale),
        (FIRST + 3, Wrong::Stale),
        (FIRST + 4, Wrong::Misplaced),
        (FIRST + 6, Wrong::Missing),
        (FIRST + 7, Wrong::OtherSize),
    ];
    let kinds: Vec<_> = found.findings.iter().map(|f| (f.address, f.kind)).collect();
    assert_eq!(kinds, expected);
}

#[test]
fn the_pass_ends_where_nothing_can_be_read_any_more() {
    const RECORDS: u64 = 1000;
    // The last 63 failures in a row are not enough.
    for (good, reads, complete) in [(100, 164, false), (RECORDS as u32 - 63, 1000, true)] {
        let shared = keyed_state(0, RECORDS);
        shared.preloaded(0, RECORDS);
        let seen = Arc::new(AtomicU32::new(0));
        let report = pass_over(&dying(good, seen.clone()), &shared, 500, 1);
        assert_eq!(seen.load(Ordering::Relaxed), reads);
        assert_eq!(report.pass.unwrap().complete, complete);
        assert_eq!(report.unchecked.unreadable, u64::from(reads - good));
    }
}
