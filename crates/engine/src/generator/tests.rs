//! Generators: coverage, bounds, shares, determinism.

use proptest::prelude::*;
use taillight_core::OpKind;
use taillight_core::plan::{AccessKind, BlockSize, MixPart, SizeRange, Sync};
use taillight_core::units::ByteSize;
use taillight_driver::Geometry;

use super::permute::Permutation;
use super::*;
use crate::testing::plan;

fn shape(size: u64) -> Geometry {
    Geometry { files: 1, file_size: size, align: 1 }
}

fn worker_index(index: u32, of: u32) -> WorkerIndex {
    WorkerIndex { worker: index as u16, index, of }
}

fn offsets(plan: &Plan, shape: Geometry, place: WorkerIndex, n: usize) -> Vec<u64> {
    let mut g = Generator::new(plan, &plan.workloads[0], shape, place, None).unwrap();
    (0..n).map(|_| g.next()).map(|o| u64::from(o.target) * shape.file_size + o.offset).collect()
}

/// A block is written once it was trimmed, in passes that are whole; only writes count for a sync.
#[test]
fn a_trim_comes_before_each_write() {
    let mut plan = plan();
    let w = &mut plan.workloads[0];
    w.mix = [OpKind::Trim, OpKind::Write].map(|op| MixPart { op, weight: 1 }).to_vec();
    (w.trim_first, w.passes, w.sync) = (true, Some(1), Sync::Fsync(2));
    for kind in [AccessKind::Sequential, AccessKind::Random] {
        let w = &mut plan.workloads[0];
        (w.access.kind, w.access.cover) = (kind, true);
        let w = &plan.workloads[0];
        let mut g = Generator::new(&plan, w, shape(8 * 4096), worker_index(0, 1), None).unwrap();
        let ops: Vec<Op> = std::iter::from_fn(|| Some(g.next()).filter(|_| !g.ended())).collect();
        assert_eq!(ops.len(), 16, "{kind:?}");
        for (n, pair) in ops.chunks(2).enumerate() {
            let trim = Op { kind: OpKind::Trim, sync: None, ..pair[1] };
            assert_eq!((pair[0], pair[1].kind), (trim, OpKind::Write));
            assert_eq!(pair[1].sync.is_some(), n % 2 == 1);
        }
    }
}

proptest! {
    #[test]
    fn permutation_visits_each_once(n in 1u64..3000, key: u64) {
        let p = Permutation::new(n, key);
        let mut seen: Vec<u64> = (0..n).map(|i| p.at(i)).collect();
        seen.sort_unstable();
        prop_assert!(seen.iter().copied().eq(0..n));
    }

    #[test]
    fn cover_reaches_every_block_once_per_pass(blocks in 1u64..200, workers in 1u32..5, seed: u64) {
        let mut plan = plan();
        plan.run.seed = seed;
        plan.workloads[0].access.kind = AccessKind::Random;
        plan.workloads[0].access.cover = true;
        let shape = shape(blocks * 4096 + 100);
        // Together the workers' first `blocks` positions are one pass.
        let mut all = Vec::new();
        for k in 0..workers {
            let mine = (blocks + u64::from(workers - 1 - k)) / u64::from(workers);
            all.extend(offsets(&plan, shape, worker_index(k, workers), mine as usize));
        }
        all.sort_unstable();
        prop_assert!(all.into_iter().eq((0..blocks).map(|b| b * 4096)));
    }

    #[test]
    fn blocks_stay_in_bounds_and_in_one_file(
        files in 1u16..4, blocks in 8u64..64, workers in 1u32..4, kind in 0u8..5, step in 1u64..4,
        align in prop::sample::select(vec![512u64, 1024, 4096]),
    ) {
        let mut plan = plan();
        let w = &mut plan.workloads[0];
        w.access.kind = [AccessKind::Sequential, AccessKind::Reverse, AccessKind::Strided,
            AccessKind::Random, AccessKind::Random][kind as usize];
        w.access.cover = kind == 4;
        w.access.stride = Some(ByteSize(step * 4096));
        w.access.align = ByteSize(align);
        w.block_size = BlockSize::Range(SizeRange {
            min: ByteSize(512), max: ByteSize(4096 * 2), step: ByteSize(512) , spread: Default::default() });
        let shape = Geometry { files, file_size: blocks * 4096, align: 512 };
        for k in 0..workers {
            let Ok(mut g) = Generator::new(&plan, &plan.workloads[0], shape, worker_index(k, workers), None)
            else { continue };
            for _ in 0..500 {
                let op = g.next();
                prop_assert!(op.target < files, "{op:?}");
                prop_assert!(op.offset + op.size <= shape.file_size, "{op:?}");
                prop_assert_eq!(op.offset % align, 0);
            }
        }
    }
}

#[test]
fn sequential_is_contiguous_per_worker_and_wraps() {
    let mut p = plan();
    p.workloads[0].access.kind = AccessKind::Sequential;
    assert_eq!(offsets(&p, shape(16384), worker_index(1, 2), 3), [8192, 12288, 8192]);
    p.workloads[0].access.kind = AccessKind::Reverse;
    assert_eq!(offsets(&p, shape(16384), worker_index(0, 1), 5), [12288, 8192, 4096, 0, 12288]);
    p.workloads[0].access.kind = AccessKind::Strided;
    p.workloads[0].access.stride = Some(ByteSize(8192));
    assert_eq!(offsets(&p, shape(16384), worker_index(0, 1), 5), [0, 8192, 4096, 12288, 0]);
    // Runs of two blocks, and as much left out between them.
    p.workloads[0].access.kind = AccessKind::Sequential;
    p.workloads[0].access.stride = Some(ByteSize(16384));
    p.workloads[0].access.run_length = Some(2);
    assert_eq!(offsets(&p, shape(32768), worker_index(0, 1), 6), [0, 4096, 16384, 20480, 0, 4096]);
    // A run begins near the end of a file: its block does not cross into the next one.
    p.workloads[0].access.stride = Some(ByteSize(3 * 4096 - 1024));
    p.workloads[0].access.align = ByteSize(1024);
    p.workloads[0].access.run_length = Some(1);
    let files = Geometry { files: 2, file_size: 3 * 4096 + 1024, align: 1024 };
    let mut g = Generator::new(&p, &p.workloads[0], files, worker_index(0, 1), None).unwrap();
    for _ in 0..50 {
        let op = g.next();
        assert!(op.target < 2 && op.offset + op.size <= files.file_size, "{op:?}");
    }
}

#[test]
fn same_seed_same_operations_and_other_worker_others() {
    let p = plan();
    let a = offsets(&p, shape(1 << 30), worker_index(0, 2), 1000);
    assert_eq!(a, offsets(&p, shape(1 << 30), worker_index(0, 2), 1000));
    assert_ne!(a, offsets(&p, shape(1 << 30), worker_index(1, 2), 1000));
}

#[test]
fn mix_keeps_its_shares_within_five_sigma() {
    let mut p = plan();
    p.workloads[0].mix =
        vec![MixPart { op: OpKind::Read, weight: 70 }, MixPart { op: OpKind::Write, weight: 30 }];
    p.workloads[0].sync = Sync::Fdatasync(3);
    let mut g =
        Generator::new(&p, &p.workloads[0], shape(1 << 30), worker_index(0, 1), None).unwrap();
    let ops: Vec<Op> = (0..100_000).map(|_| g.next()).collect();
    let writes = ops.iter().filter(|o| o.kind == OpKind::Write).count();
    assert!((writes as i64 - 30_000).abs() < 5 * 145, "{writes}");
    assert_eq!(ops.iter().filter(|o| o.sync.is_some()).count(), writes / 3);
}

#[test]
fn random_positions_pass_chi_square() {
    let mut p = plan();
    p.workloads[0].access.cover = false;
    let mut counts = [0f64; 64];
    for at in offsets(&p, shape(64 * 4096), worker_index(0, 1), 64_000) {
        counts[(at / 4096) as usize] += 1.0;
    }
    let chi: f64 = counts.iter().map(|c| (c - 1000.0).powi(2) / 1000.0).sum();
    // 63 degrees of freedom: 99.99 % point is 113.
    assert!(chi < 113.0, "{chi}");
}

#[test]
fn each_operation_has_its_sizes_its_grid_and_its_walk() {
    let mut p = plan();
    let w = &mut p.workloads[0];
    let part = |op| MixPart { op, weight: 1 };
    w.mix = vec![part(OpKind::Read), part(OpKind::Write)];
    let fixed = |size| BlockSize::Fixed(ByteSize(size));
    w.block_size =
        BlockSize::ByOp([(OpKind::Read, fixed(4096)), (OpKind::Write, fixed(65536))].into());
    for kind in [AccessKind::Random, AccessKind::Sequential] {
        p.workloads[0].access.kind = kind;
        let shape = shape(4 << 20);
        let mut g = Generator::new(&p, &p.workloads[0], shape, worker_index(0, 1), None).unwrap();
        let ops: Vec<Op> = (0..2000).map(|_| g.next()).collect();
        for (op, size) in [(OpKind::Read, 4096), (OpKind::Write, 65536)] {
            let own: Vec<&Op> = ops.iter().filter(|o| o.kind == op).collect();
            assert!(own.len() > 800 && own.iter().all(|o| o.size == size && o.offset % size == 0));
            assert!(own.iter().all(|o| o.offset + size <= shape.file_size));
            let last = own.iter().map(|o| o.offset).max();
            assert!(last > Some(3 << 20), "{op:?} reaches {last:?}");
            if kind == AccessKind::Sequential {
                assert!(
                    own.windows(2).all(|o| o[1].offset == (o[0].offset + size) % shape.file_size)
                );
            }
        }
    }
}

/// The plan of one of several ranks that have blocks in turns.
fn in_turns(plan: &Plan, rank: u32, of: u32) -> Plan {
    let mut plan = plan.clone();
    plan.run.share = taillight_core::plan::WorkShare::Strided;
    plan.ranks = Some(taillight_core::plan::RankPlace { rank, of, shift: 0 });
    plan
}

/// Three ranks with strides in turns, and three that begin a block further, go over each block once.
#[test]
fn strides_in_turns_meet_no_other_block() {
    let shape = Geometry { files: 1, file_size: 24 * 4096, align: 1 };
    let mut all = Vec::new();
    for (first, rank) in [(0u64, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)] {
        let mut plan = in_turns(&plan(), rank, 3);
        let access = &mut plan.workloads[0].access;
        access.kind = AccessKind::Strided;
        (access.offset, access.stride) = (ByteSize(first * 4096), Some(ByteSize(2 * 4096)));
        all.extend(offsets(&plan, shape, worker_index(0, 1), 4));
    }
    all.sort_unstable();
    assert!(all.iter().copied().eq((0..24).map(|block| block * 4096)), "{all:?}");
}

/// A rank with every third block once synced the first files only, where its blocks would lie side by side.
#[test]
fn a_rank_with_blocks_in_turns_syncs_every_file_that_it_wrote_to() {
    let shape = Geometry { files: 4, file_size: 6 * 4096, align: 1 };
    for (kind, workers) in
        [(AccessKind::Sequential, 1), (AccessKind::Sequential, 2), (AccessKind::Random, 2)]
    {
        for rank in 0..3 {
            let mut plan = in_turns(&plan(), rank, 3);
            plan.workloads[0].access.kind = kind;
            plan.workloads[0].access.cover = kind == AccessKind::Random;
            let (mut written, mut synced) = (Vec::new(), Vec::new());
            for k in 0..workers {
                let place = worker_index(k, workers);
                let mut all =
                    Generator::new(&plan, &plan.workloads[0], shape, place, None).unwrap();
                let count = 8 / workers;
                let own: Vec<u16> = (0..count).map(|_| all.next().target).collect();
                if kind == AccessKind::Sequential {
                    assert!(
                        own.iter().all(|file| all.files(place).contains(file)),
                        "{rank} {own:?}"
                    );
                }
                written.extend(own);
                synced.extend(all.files(place));
            }
            assert!(
                written.iter().all(|file| synced.contains(file)),
                "{rank}: {written:?} {synced:?}"
            );
        }
    }
}
