//! Faults injected into a device in memory: each is found, told apart and located.

mod classes;
mod later;

use std::sync::atomic::AtomicBool;

use proptest::prelude::*;
use taillight_core::{Op, OpKind, Stamp};
use taillight_driver::Geometry;
use taillight_rundir::verify::{Finding, VerifyCounts, VerifyReport, Wrong};

use super::*;
use crate::answering::AnsweringTarget;
use crate::payload::ContentKind;

const UNIT: u64 = 4096;
const BLOCKS: u64 = 64;

fn op(kind: OpKind, block: u64, blocks: u64) -> Op {
    Op::block(kind, 0, block * UNIT, blocks * UNIT)
}

/// A device, what was written to it, and who checks.
struct FaultBench {
    data: Vec<u8>,
    shared: Arc<VerifyState>,
    checker: Checker,
}

fn area() -> VerifiedArea {
    VerifiedArea { unit: UNIT, first: 0, blocks: BLOCKS, file_size: u64::MAX, keyed: false }
}

fn random() -> PayloadSpec {
    PayloadSpec::new(ContentKind::Random, 0, 0).unwrap()
}

/// Inline verification of the device's blocks.
fn spec<'a>(
    run_id: &'a str,
    prior: Option<&'a PriorRun>,
    payloads: &'a [PayloadSpec],
) -> VerifySpec<'a> {
    VerifySpec {
        run_id,
        target: 0,
        prior,
        area: area(),
        payloads,
        outstanding: 64,
        whole_writes: false,
        inline: true,
        budget: LEDGER_BUDGET,
    }
}

/// The state of `this run`.
fn state(kind: ContentKind, whole_writes: bool) -> Arc<VerifyState> {
    let payloads = [PayloadSpec::new(kind, 0, 0).unwrap()];
    VerifyState::new(&VerifySpec { whole_writes, ..spec("this run", None, &payloads) }).unwrap()
}

/// What belongs on one target is not taken for what belongs on another of the same run.
#[test]
fn targets_of_a_run_have_marks_of_their_own() {
    let payloads = [PayloadSpec::new(ContentKind::Random, 0, 0).unwrap()];
    let hash = |target| {
        let spec = VerifySpec { target, ..spec("this run", None, &payloads) };
        VerifyState::new(&spec).unwrap().report().run_hash
    };
    assert_eq!(hash(0), format!("{:016x}", run_hash("this run")));
    assert!(hash(1) != hash(0) && hash(2) != hash(1));
}

/// A pass of `depth` reads at a time, of values of `value` bytes.
fn pass_over(
    target: &AnsweringTarget,
    state: &Arc<VerifyState>,
    value: u64,
    depth: u32,
) -> VerifyReport {
    let how = PassSpec {
        worker: 9,
        workload: 0,
        value,
        depth,
        caches_dropped: false,
        stop: &AtomicBool::new(false),
        progress: &mut |_, _| {},
    };
    pass(target, state, how).unwrap()
}

impl FaultBench {
    fn new(kind: ContentKind) -> FaultBench {
        FaultBench::of(state(kind, false), Vec::new())
    }

    fn of(shared: Arc<VerifyState>, mut data: Vec<u8>) -> FaultBench {
        data.resize((UNIT * BLOCKS) as usize, 0);
        FaultBench { data, checker: Checker::new(shared.clone(), 0, Some(3), 4, 8 * UNIT), shared }
    }

    /// A later run on what the device holds.
    fn later(prior: &PriorRun, data: Vec<u8>) -> FaultBench {
        FaultBench::of(VerifyState::new(&spec("later", Some(prior), &[random()])).unwrap(), data)
    }

    fn block(&mut self, block: u64) -> &mut [u8] {
        let from = (block * UNIT) as usize;
        &mut self.data[from..from + UNIT as usize]
    }

    /// Writes; `lands` decides whether the device keeps it.
    fn write(&mut self, block: u64, blocks: u64, lands: bool) {
        let op = op(OpKind::Write, block, blocks);
        let mut buffer = vec![0; op.size as usize];
        self.checker.on_write(&op, &mut buffer);
        if lands {
            let from = op.offset as usize;
            self.data[from..from + buffer.len()].copy_from_slice(&buffer);
        }
        self.checker.on_write_done(&op, true);
    }

    fn read(&mut self, block: u64, blocks: u64) -> bool {
        let op = op(OpKind::Read, block, blocks);
        self.checker.on_read(1, &op);
        let from = op.offset as usize;
        let bytes = &self.data[from..from + op.size as usize];
        self.checker.on_read_done(1, &op, bytes, Stamp(77))
    }

    fn all_good(&mut self) -> bool {
        (0..BLOCKS / 8).all(|i| self.read(i * 8, 8))
    }

    fn pass(&self) -> VerifyReport {
        let data = self.data.clone();
        let geometry = Geometry { files: 1, file_size: UNIT * BLOCKS, align: 1 };
        let target = AnsweringTarget::new(geometry, move |op, buffer| {
            let (from, size) = (op.offset as usize, op.size as usize);
            buffer[..size].copy_from_slice(&data[from..from + size]);
            Ok(size)
        });
        pass_over(&target, &self.shared, 0, 4)
    }

    /// The only finding, the same in the run and in the pass.
    fn only(mut self) -> Finding {
        let by_pass = self.pass();
        assert!(!self.all_good());
        let report = self.checker.into_report();
        assert_eq!(report.wrong, 1, "{:?}", report.findings);
        assert_eq!(report.kinds, by_pass.kinds);
        let found = report.findings[0].clone();
        let again = Finding { time_ns: by_pass.findings[0].time_ns, worker: None, ..found.clone() };
        assert_eq!(by_pass.findings, [again]);
        assert_eq!((found.time_ns, found.worker), (77, Some(3)));
        found
    }
}

fn kinds() -> Vec<ContentKind> {
    vec![
        ContentKind::Random,
        ContentKind::Zero,
        ContentKind::Pattern(b"pattern".to_vec()),
        ContentKind::Text,
    ]
}

/// A device where every block was written twice and block 5 three times.
fn written(kind: ContentKind) -> FaultBench {
    let mut bench = FaultBench::new(kind);
    for _ in 0..2 {
        for i in 0..BLOCKS / 8 {
            bench.write(i * 8, 8, true);
        }
    }
    bench.write(5, 1, true);
    bench
}

#[test]
fn what_was_written_is_right() {
    for kind in kinds() {
        let mut bench = written(kind);
        assert!(bench.all_good());
        let pass = bench.pass();
        assert_eq!((pass.checked, pass.wrong), (BLOCKS, 0));
        let report = bench.checker.into_report();
        assert_eq!((report.checked, report.wrong), (BLOCKS, 0));
        assert_eq!(report.unchecked, Default::default());
    }
}

#[test]
fn a_flipped_byte_is_found_and_located() {
    for kind in kinds() {
        for at in [0, 10, 20, 30, 40, 47, 48, 1234, 4095] {
            let mut bench = written(kind.clone());
            bench.block(9)[at] ^= 0x10;
            let found = bench.only();
            assert_eq!(found.kind, Wrong::Flipped, "{at} {found:?}");
            assert_eq!((found.address, found.length), (9 * UNIT, UNIT));
            assert_eq!(found.first_byte, Some(at as u32));
            assert_eq!(found.bytes, Some(1));
            assert_eq!(found.expected, Some(2));
        }
    }
}

#[test]
fn a_sector_of_rubbish_is_changed_bytes_too() {
    for at in [0, 1024, 3584] {
        let mut bench = written(ContentKind::Random);
        bench.block(9)[at..at + 512].fill(0x77);
        let found = bench.only();
        assert_eq!(found.kind, Wrong::Flipped);
        assert_eq!(found.first_byte, Some(at as u32));
    }
}

#[test]
fn a_lost_write_is_found_and_told_from_a_stale_block() {
    for kind in kinds() {
        let mut bench = written(kind.clone());
        bench.write(30, 1, false);
        let found = bench.only();
        assert_eq!(found.kind, Wrong::Lost);
        assert_eq!(found.address, 30 * UNIT);
        assert_eq!((found.expected, found.found), (Some(3), Some(2)));

        // Nothing there at all, or what some other program left.
        for (left, word) in [(0, Wrong::Zeroed), (0xA5, Wrong::Unknown)] {
            let mut bench = FaultBench::new(kind.clone());
            bench.block(7).fill(left);
            bench.write(7, 1, false);
            let found = bench.only();
            assert_eq!((found.kind, found.address), (word, 7 * UNIT));
            assert_eq!((found.expected, found.found), (Some(1), None));
        }
    }
}

#[test]
fn an_older_block_that_came_back_is_stale() {
    for kind in kinds() {
        let mut bench = FaultBench::new(kind);
        bench.write(12, 1, true);
        let old = bench.block(12).to_vec();
        bench.write(12, 1, true);
        bench.write(12, 1, true);
        bench.block(12).copy_from_slice(&old);
        let found = bench.only();
        assert_eq!((found.kind, found.address), (Wrong::Stale, 12 * UNIT));
        assert_eq!((found.expected, found.found), (Some(3), Some(1)));
    }
}

#[test]
fn a_block_seen_new_and_then_one_write_old_is_stale_not_lost() {
    let mut bench = FaultBench::new(ContentKind::Random);
    bench.write(12, 1, true);
    let old = bench.block(12).to_vec();
    bench.write(12, 1, true);
    assert!(bench.read(12, 1));
    bench.block(12).copy_from_slice(&old);
    assert_eq!(bench.only().kind, Wrong::Stale);
}

#[test]
fn a_misplaced_block_is_found_with_its_own_address() {
    for kind in kinds() {
        let mut bench = written(kind);
        let a = bench.block(40).to_vec();
        bench.block(2).copy_from_slice(&a);
        let found = bench.only();
        assert_eq!((found.kind, found.address), (Wrong::Misplaced, 2 * UNIT));
        assert_eq!(found.found_address, Some(40 * UNIT));
    }
}

#[test]
fn a_block_of_another_run_is_told_apart() {
    let other = VerifyState::new(&spec("other", None, &[random()])).unwrap();
    let mut other = FaultBench::of(other, Vec::new());
    other.write(6, 1, true);
    let foreign = other.block(6).to_vec();
    let mut bench = written(ContentKind::Random);
    bench.block(6).copy_from_slice(&foreign);
    let found = bench.only();
    assert_eq!((found.kind, found.address), (Wrong::OtherRun, 6 * UNIT));
    assert_eq!(found.found_run, Some(format!("{:016x}", run_hash("other"))));
}

#[test]
fn half_a_write_is_torn() {
    for kept in [512, 2048, 3584] {
        let mut bench = written(ContentKind::Random);
        let old = bench.block(9).to_vec();
        bench.write(9, 1, true);
        bench.block(9)[kept..].copy_from_slice(&old[kept..]);
        let found = bench.only();
        assert_eq!((found.kind, found.address), (Wrong::Torn, 9 * UNIT));
        assert_eq!(found.first_byte, Some(kept as u32));

        // The beginning is old, the end is new.
        let mut bench = written(ContentKind::Random);
        let old = bench.block(9).to_vec();
        bench.write(9, 1, true);
        bench.block(9)[..kept].copy_from_slice(&old[..kept]);
        assert_eq!(bench.only().kind, Wrong::Torn);
    }
}

#[test]
fn a_read_during_a_write_may_see_old_new_or_a_mixture() {
    for whole in [false, true] {
        let mut bench = FaultBench::of(state(ContentKind::Random, whole), Vec::new());
        bench.write(3, 1, true);
        let write = op(OpKind::Write, 3, 1);
        let mut new = vec![0; UNIT as usize];
        bench.checker.on_write(&write, &mut new);
        assert!(bench.read(3, 1), "old");
        let old = bench.block(3).to_vec();
        bench.block(3)[..2048].copy_from_slice(&new[..2048]);
        // Wrong only where the target promised that this cannot be.
        assert_eq!(bench.read(3, 1), !whole, "half");
        bench.block(3).copy_from_slice(&new);
        assert!(bench.read(3, 1), "new");
        bench.checker.on_write_done(&write, true);
        assert!(bench.read(3, 1), "done");
        bench.block(3).copy_from_slice(&old);
        assert!(!bench.read(3, 1), "old again");
        let report = bench.checker.into_report();
        let expected = VerifyCounts { stale: 1, torn: u64::from(whole), ..VerifyCounts::default() };
        assert_eq!(report.kinds, expected);
        assert_eq!(report.unchecked.overlapped, u64::from(!whole));
    }
}

#[test]
fn what_the_run_did_not_write_is_not_judged() {
    let mut bench = FaultBench::new(ContentKind::Random);
    bench.block(1).fill(0x33);
    bench.write(2, 1, true);
    assert!(bench.all_good());
    let report = bench.checker.into_report();
    assert_eq!(report.unchecked.unwritten, BLOCKS - 1);
    assert_eq!(report.checked, 1);
}

#[test]
fn failed_and_trimmed_blocks_are_not_judged_until_written_again() {
    let mut bench = written(ContentKind::Random);
    let failed = op(OpKind::Write, 4, 1);
    bench.checker.on_write(&failed, &mut vec![0; UNIT as usize]);
    bench.checker.on_write_done(&failed, false);
    let trimmed = op(OpKind::Trim, 5, 1);
    bench.checker.on_write(&trimmed, &mut []);
    bench.block(5).fill(0);
    assert!(bench.read(5, 1), "a trim in flight");
    bench.checker.on_write_done(&trimmed, true);
    assert!(bench.read(4, 2));
    bench.write(4, 2, true);
    assert!(bench.read(4, 2));
    bench.block(5).fill(0);
    let found = bench.only();
    assert_eq!((found.kind, found.address), (Wrong::Zeroed, 5 * UNIT));
}

#[test]
fn after_a_restart_the_run_id_suffices() {
    let mut data = written(ContentKind::Random).data;
    let this = PriorRun::id("this run");
    let report = FaultBench::later(&this, data.clone()).pass();
    assert_eq!((report.checked, report.wrong), (BLOCKS, 0));
    let place = |block: u64| (block * UNIT) as usize..((block + 1) * UNIT) as usize;
    data[place(1)][100] ^= 1;
    data[place(2)][3] ^= 1;
    data[place(3)].fill(0);
    data.copy_within(place(20), place(4).start);
    let report = FaultBench::later(&this, data.clone()).pass();
    let kinds: Vec<_> =
        report.findings.iter().map(|f| (f.kind, f.address / UNIT, f.first_byte)).collect();
    let expected = [
        (Wrong::Flipped, 1, Some(100)),
        (Wrong::Flipped, 2, Some(3)),
        (Wrong::Zeroed, 3, None),
        (Wrong::Misplaced, 4, None),
    ];
    assert_eq!(kinds, expected);
    let strange = FaultBench::later(&PriorRun::id("third"), data);
    assert_eq!(strange.pass().kinds.other_run, BLOCKS - 2);
}

#[test]
fn values_are_blocks_of_any_length() {
    let payloads = [PayloadSpec::new(ContentKind::Random, 50, 0).unwrap()];
    let shared = VerifyState::new(&VerifySpec {
        area: VerifiedArea::keys(1000, 50),
        whole_writes: true,
        ..spec("this run", None, &payloads)
    })
    .unwrap();
    let mut checker = Checker::new(shared, 0, None, 1, 10_000);
    let mut value = vec![0; 10_000];
    let put = |key, size| Op { key, size, ..op(OpKind::Update, 0, 1) };
    for size in [64, 100, 9_999] {
        let write = put(1049, size);
        checker.on_write(&write, &mut value);
        checker.on_write_done(&write, true);
        checker.on_read(0, &write);
        assert!(checker.on_read_done(0, &write, &value[..size as usize], Stamp(0)));
    }
    let other = put(1048, 100);
    checker.on_write(&other, &mut value.clone());
    checker.on_write_done(&other, true);
    checker.on_read(0, &put(1048, 9_999));
    assert!(!checker.on_read_done(0, &put(1048, 9_999), &value[..9_999], Stamp(0)));
    assert_eq!(checker.into_report().kinds.misplaced, 1);
}

#[test]
fn plans_that_cannot_be_verified_are_refused() {
    let payloads = [random()];
    let good = spec("r", None, &payloads);
    assert!(VerifyState::new(&good).is_ok());
    let repeats = [PayloadSpec::new(ContentKind::Random, 0, 10).unwrap()];
    let small = VerifiedArea { unit: 32, ..area() };
    for bad in [
        VerifySpec { area: small, ..good.clone() },
        VerifySpec { payloads: &repeats, ..good.clone() },
        VerifySpec { outstanding: 5000, ..good.clone() },
        VerifySpec { budget: 100, ..good.clone() },
    ] {
        assert!(VerifyState::new(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn findings_are_bounded_and_counts_are_not() {
    let mut bench = written(ContentKind::Random);
    bench.data.fill(0);
    for round in 0..20 {
        for i in 0..BLOCKS / 8 {
            assert!(!bench.read(i * 8, 8), "{round}");
        }
    }
    let report = bench.checker.into_report();
    let most = taillight_rundir::verify::FINDINGS_MAX;
    assert_eq!(report.wrong, 20 * BLOCKS);
    assert_eq!(report.findings.len(), most);
    let mut sum = bench.shared.report();
    sum.add(&report);
    sum.add(&report);
    assert_eq!(sum.wrong, 40 * BLOCKS);
    assert_eq!(sum.kinds.zeroed, 40 * BLOCKS);
    assert_eq!(sum.findings.len(), most);
    assert!(sum.failed());
}

proptest! {
    /// Whatever is damaged, the block is found; what is not damaged is never blamed.
    #[test]
    fn any_damage_is_found_where_it_is(
        block in 0..BLOCKS,
        from in 0usize..4096,
        bytes in prop::collection::vec(any::<u8>(), 1..600),
        which in 0usize..4,
    ) {
        let mut bench = written(kinds()[which].clone());
        let original = bench.block(block).to_vec();
        for (to, from) in bench.block(block)[from..].iter_mut().zip(&bytes) {
            *to = *from;
        }
        let changed = bench.block(block).iter().zip(&original).position(|(a, b)| a != b);
        let good = (0..BLOCKS).map(|b| bench.read(b, 1)).collect::<Vec<_>>();
        let blamed: Vec<_> = (0..BLOCKS).filter(|b| !good[*b as usize]).collect();
        match changed {
            None => prop_assert!(blamed.is_empty()),
            Some(first) => {
                prop_assert_eq!(blamed, vec![block]);
                let report = bench.checker.into_report();
                prop_assert_eq!(report.findings[0].address, block * UNIT);
                if let Some(found) = report.findings[0].first_byte {
                    prop_assert_eq!(found as usize, first);
                }
            }
        }
    }
}
