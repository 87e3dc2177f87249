//! Batches of keys: which an operation covers, how many at the end, how drawn ones are distributed, and that their
//! memory is allocated once.

use proptest::prelude::*;
use taillight_core::plan::{BlockSize, MixPart};
use taillight_core::units::ByteSize;

use super::*;
use crate::testing::plan;

/// The generator of worker `index` of two, over `keys` records.
fn keyed(op: OpKind, access: AccessKind, (batch, keys): (u32, u64), index: u32) -> KeyGenerator {
    let mut plan = plan();
    let w = &mut plan.workloads[0];
    (w.batch, w.access.kind) = (batch, access);
    w.mix = vec![MixPart { op, weight: 1 }];
    w.block_size = BlockSize::Fixed(ByteSize(100));
    let space = Arc::new(KeySpace::new(1000, keys));
    let place = WorkerIndex { worker: index as u16, index, of: 2 };
    KeyGenerator::new(&plan, &plan.workloads[0], space, place).unwrap()
}

fn next(g: &mut KeyGenerator) -> (u64, u32) {
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
        g.limit_bytes(1601);
        assert_eq!(next(&mut g), (first, 16));
        g.limit_bytes(201);
        assert_eq!(g.next().count, 3, "the last value goes beyond it");
        g.limit_bytes(100);
        assert_eq!(g.next().count, 1);
    }
    // The keys of short batches have no holes between them.
    let mut g = keyed(OpKind::Insert, AccessKind::Random, (16, 0), 0);
    g.limit_bytes(300);
    assert_eq!((next(&mut g), next(&mut g)), ((1000, 3), (1003, 3)));
}

#[test]
fn fewer_keys_than_a_batch_are_one_short_pass() {
    let mut g = keyed(OpKind::Get, AccessKind::Sequential, (16, 5), 0);
    assert_eq!(next(&mut g), (1000, 5));
    assert!(g.keys().is_empty(), "the keys of ordered batches follow each other");
}

/// How often each of 50 keys comes, at each place of 6,000 batches of 8.
fn seen(access: AccessKind) -> Vec<[f64; 50]> {
    let mut g = keyed(OpKind::Get, access, (8, 50), 0);
    let mut seen = vec![[0.0; 50]; 8];
    for _ in 0..6000 {
        let (first, count) = next(&mut g);
        assert_eq!((first, count), (g.keys()[0], 8));
        for (place, key) in seen.iter_mut().zip(g.keys()) {
            place[(*key - 1000) as usize] += 1.0;
        }
    }
    seen
}

/// The chi-square statistic of 49 degrees of freedom; beyond 95 once in 10,000 times.
fn chi_square(seen: &[f64; 50], expected: impl Fn(usize) -> f64) -> f64 {
    let term = |(i, n): (usize, &f64)| (n - expected(i)).powi(2) / expected(i);
    seen.iter().enumerate().map(term).sum()
}

#[test]
fn every_key_of_a_batch_is_drawn_from_the_whole_distribution() {
    for place in seen(AccessKind::Random) {
        assert!(chi_square(&place, |_| 120.0) < 95.0, "{place:?}");
    }
    let weight = |i: usize| 1.0 / (i as f64 + 1.0).powf(0.99);
    let all: f64 = (0..50).map(weight).sum();
    let zipf = seen(AccessKind::Zipfian);
    for place in &zipf {
        // YCSB's generator approximates beyond the first two; these are exact.
        let share = |i: usize| (place[i] / 6000.0 - weight(i) / all).abs();
        assert!(share(0) < 0.025 && share(1) < 0.025, "{place:?}");
    }
    // The second key does not follow from the first: pairs of neighbours are no more than chance.
    let mut g = keyed(OpKind::Get, AccessKind::Random, (2, 50), 0);
    let pairs = (0..5000).filter(|_| {
        g.next();
        g.keys()[1] == g.keys()[0] + 1
    });
    assert!((40..170).contains(&pairs.count()), "98 expected");
}

#[test]
fn the_same_seed_draws_the_same_batches() {
    let draw = |index| {
        let mut g = keyed(OpKind::Update, AccessKind::Zipfian, (8, 300), index);
        let batch = |_| {
            g.next();
            g.keys().to_vec()
        };
        (0..50).map(batch).collect::<Vec<_>>()
    };
    assert_eq!(draw(0), draw(0));
    assert_ne!(draw(0), draw(1));
}

#[test]
fn drawing_batches_allocates_once() {
    let mut g = keyed(OpKind::Get, AccessKind::Random, (16, 300), 0);
    let place = g.keys.as_ptr();
    for _ in 0..100 {
        g.next();
    }
    assert_eq!((g.keys.as_ptr(), g.keys.capacity()), (place, 16));
}

proptest! {
    #[test]
    fn drawn_batches_lie_in_the_key_space(keys in 1u64..300, batch in 1u32..40, zipf: bool) {
        let access = if zipf { AccessKind::Zipfian } else { AccessKind::Random };
        let mut g = keyed(OpKind::Update, access, (batch, keys), 0);
        for _ in 0..200 {
            let (key, count) = next(&mut g);
            prop_assert_eq!(count, batch);
            let drawn = [key];
            let all = if batch == 1 { &drawn } else { g.keys() };
            prop_assert_eq!((all.len(), all[0]), (batch as usize, key));
            prop_assert!(all.iter().all(|key| (1000..1000 + keys).contains(key)));
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
