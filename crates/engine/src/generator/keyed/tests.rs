//! Batches: which keys an operation covers, and how many at the end.

use proptest::prelude::*;
use taillight_core::plan::{BlockSize, MixPart};
use taillight_core::units::ByteSize;

use super::*;
use crate::testing::plan;

/// The generator of worker `index` of two, over `keys` records.
fn keyed(op: OpKind, access: AccessKind, (batch, keys): (u32, u64), index: u32) -> Keyed {
    let mut plan = plan();
    let w = &mut plan.workloads[0];
    (w.batch, w.access.kind) = (batch, access);
    w.mix = vec![MixPart { op, weight: 1 }];
    w.block_size = BlockSize::Fixed(ByteSize(100));
    let space = Arc::new(KeySpace::new(1000, keys));
    let place = Place {
        worker: index as u16,
        index,
        of: 2,
    };
    Keyed::new(&plan, &plan.workloads[0], space, place).unwrap()
}

fn next(g: &mut Keyed) -> (u64, u32) {
    let op = g.next();
    (op.key, op.count)
}

#[test]
fn a_pass_ends_with_a_short_batch_and_covers_each_key_once() {
    for (access, first) in [
        (AccessKind::Sequential, [(1000, 4), (1004, 4), (1008, 2)]),
        (AccessKind::Reverse, [(1008, 2), (1004, 4), (1000, 4)]),
    ] {
        let mut workers = [0, 1].map(|i| keyed(OpKind::Get, access, (4, 10), i));
        let [a, b] = &mut workers;
        assert_eq!([next(a), next(b), next(a)], first);
        assert_eq!((a.passes(), next(b), b.passes()), (1, first[0], 2));
    }
}

#[test]
fn writes_end_with_the_bytes_that_are_left() {
    for (op, first) in [(OpKind::Insert, 1100), (OpKind::Update, 1000)] {
        let mut g = keyed(op, AccessKind::Sequential, (16, 100), 0);
        g.leave(1601);
        assert_eq!(next(&mut g), (first, 16));
        g.leave(201);
        assert_eq!(g.next().count, 3, "the last value goes beyond it");
        g.leave(100);
        assert_eq!(g.next().count, 1);
    }
    // The keys of short batches have no holes between them.
    let mut g = keyed(OpKind::Insert, AccessKind::Random, (16, 0), 0);
    g.leave(300);
    assert_eq!((next(&mut g), next(&mut g)), ((1000, 3), (1003, 3)));
}

#[test]
fn fewer_keys_than_a_batch_are_one_short_batch() {
    for access in [AccessKind::Random, AccessKind::Sequential] {
        let mut g = keyed(OpKind::Get, access, (16, 5), 0);
        assert_eq!(next(&mut g), (1000, 5));
    }
}

proptest! {
    #[test]
    fn drawn_batches_lie_in_the_key_space(keys in 1u64..300, batch in 1u32..40, zipf: bool) {
        let access = if zipf { AccessKind::Zipfian } else { AccessKind::Random };
        let mut g = keyed(OpKind::Update, access, (batch, keys), 0);
        for _ in 0..200 {
            let (key, count) = next(&mut g);
            prop_assert_eq!(u64::from(count), u64::from(batch).min(keys));
            prop_assert!(key >= 1000 && key + u64::from(count) <= 1000 + keys);
        }
    }

    #[test]
    fn batches_of_all_workers_are_acknowledged_whole(sizes in prop::collection::vec(1u64..1000, 1..50)) {
        let space = KeySpace::new(7, 0);
        let all: Vec<_> = sizes.iter().map(|n| (space.insert_many(*n), *n)).collect();
        let total: u64 = sizes.iter().sum();
        for (key, n) in all.iter().rev() {
            prop_assert!(space.live().1 == 7);
            (*key..key + n).for_each(|k| space.acknowledge(k));
        }
        prop_assert_eq!(space.live(), (7, 7 + total));
    }
}
