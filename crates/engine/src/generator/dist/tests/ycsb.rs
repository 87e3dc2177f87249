//! YCSB's generators: the same constants, the same item for the same u, the published frequencies.
//!
//! Vectors come from the same formulas evaluated by a Java virtual machine.

use taillight_core::keys::hash;

use super::super::gray::{Gray, YCSB_THETA, zeta};
use super::super::scrambled::{RANKS, Scrambled, ZETA};
use super::*;

const US: [f64; 14] = [
    0.0,
    0.1,
    0.1293,
    0.1294,
    0.1945,
    0.1946,
    0.25,
    0.3,
    0.5,
    0.75,
    0.9,
    0.99,
    0.999_999,
    0.999_999_999_9,
];

/// Points of a fine grid of u: frequencies exact to one over this.
const GRID: u64 = 2_000_000;

fn grid() -> impl Iterator<Item = f64> {
    (0..GRID).map(|i| (i as f64 + 0.5) / GRID as f64)
}

fn close(found: f64, expected: f64, tolerance: f64, what: &str) {
    assert!((found - expected).abs() <= tolerance, "{what}: {found}, expected {expected}");
}

#[test]
fn constants_are_ycsb_s() {
    assert_eq!(zeta(0, 2, YCSB_THETA, 0.0), 1.503_477_775_028_359_4);
    let (zeta_n, alpha, eta) = Gray::ycsb(1000).constants();
    // Summed in order, as YCSB does; the true sum ends in ...738.
    close(zeta_n, 7.728_953_217_284_729, 2e-15, "zeta");
    close(zeta_n, 7.728_953_217_284_738, 1e-14, "zeta, true sum");
    assert_eq!(alpha, 99.999_999_999_999_91);
    close(eta, 0.074_806_086_706_898_05, 1e-16, "eta");
    let (_, _, eta) = Gray::with_zeta(RANKS, YCSB_THETA, ZETA).constants();
    close(eta, 0.212_200_033_809_674_06, 1e-16, "eta of 10^10");
}

#[test]
fn zeta_of_large_n_without_summing_all_of_it() {
    let ten_million = zeta(0, 10_000_000, YCSB_THETA, 0.0);
    close(ten_million, 18.066_242_574_968_303, 1e-11, "10^7");
    close(zeta(0, 10_000_000_000, YCSB_THETA, 0.0), ZETA, 1e-9, "10^10");
    let harmonic = (1u64 << 40) as f64;
    let expected = harmonic.ln() + 0.577_215_664_901_532_9 + 0.5 / harmonic;
    close(zeta(0, 1 << 40, 1.0, 0.0), expected, 1e-11, "harmonic");
}

#[test]
fn the_same_u_gives_the_same_item() {
    let items = |gray: &Gray, n| US.map(|u| gray.at(u, n));
    assert_eq!(
        items(&Gray::ycsb(1000), 1000),
        [0, 0, 0, 1, 1, 2, 3, 4, 22, 151, 471, 927, 999, 999]
    );
    let expected = [
        0,
        6,
        13,
        13,
        72,
        72,
        296,
        1038,
        134_552,
        42_924_421,
        1_170_869_537,
        8_086_205_587,
        9_999_787_803,
        9_999_999_979,
    ];
    let ranks = Gray::with_zeta(RANKS, YCSB_THETA, ZETA);
    assert_eq!(items(&ranks, RANKS), expected);
    let keys = Scrambled::new(1000, 0);
    assert_eq!(US.map(|u| keys.at(u)), expected.map(|rank| hash(rank).unsigned_abs() % 1001));
}

#[test]
fn looked_up_powers_give_the_items_that_powf_gives() {
    let mut rng = rng(7);
    for n in [1, 2, 3, 4, 1000, 1_000_000, RANKS, 1 << 38, 1 << 50] {
        let gray = Gray::ycsb(n);
        let edges = (0..512).flat_map(|i| {
            let edge = f64::from(i) / 512.0;
            [edge, f64::from_bits(edge.to_bits() + 1), edge + 1e-9]
        });
        let drawn = std::iter::repeat_with(|| super::super::unit(&mut rng)).take(400_000);
        for u in edges.chain(drawn) {
            assert_eq!(gray.at(u, n), gray.by_powf(u, n), "{n} items, u {u}");
        }
    }
}

#[test]
fn growing_extends_zeta_and_keeps_the_first_items_in_eta() {
    let mut gray = Gray::ycsb(500);
    for n in 501..=1000 {
        gray.grow(n);
    }
    let (zeta_n, _, eta) = gray.constants();
    assert_eq!(zeta_n, Gray::ycsb(1000).constants().0);
    close(eta, 0.066_691_060_351_148_93, 1e-16, "eta after growth");
    assert_eq!(US.map(|u| gray.at(u, 1000)), [0, 0, 0, 1, 1, 4, 5, 8, 33, 186, 512, 935, 999, 999]);
    // Shrinking is ignored.
    let before = gray.clone();
    gray.grow(10);
    assert_eq!(gray, before);
}

/// The table made for the first number of items serves the later ones, too; from one and two items
/// YCSB's formula breaks down, and what it gives then must come out as well.
#[test]
fn looked_up_powers_follow_growth() {
    let mut rng = rng(8);
    for first in [1, 2, 3, 10, 1000, 1_000_000] {
        let mut gray = Gray::ycsb(first);
        for n in first..first + 2000 {
            gray.grow(n);
            let drawn = std::iter::repeat_with(|| super::super::unit(&mut rng)).take(20);
            for u in drawn.chain([0.0, 1.0 - f64::EPSILON / 2.0]) {
                assert_eq!(gray.at(u, n), gray.by_powf(u, n), "{first} to {n} items, u {u}");
            }
        }
    }
}

/// The reference table's row "YCSB Zipfian, n = 1000", percent, the bump of rank 3 included.
#[test]
fn zipfian_has_the_published_frequencies() {
    let gray = Gray::ycsb(1000);
    let mut p = vec![0.0; 1000];
    grid().for_each(|u| p[gray.at(u, 1000) as usize] += 100.0 / GRID as f64);
    for (rank, percent, half_digit) in [
        (1, 12.938, 5e-4),
        (2, 6.514, 5e-4),
        (3, 5.104, 5e-4),
        (4, 3.634, 5e-4),
        (5, 2.826, 5e-4),
        (10, 1.344, 5e-4),
        (100, 0.1313, 5e-5),
    ] {
        close(p[rank - 1], percent, half_digit + 1e-4, "rank");
    }
    close(p[..10].iter().sum(), 39.83, 0.006, "top 10");
    close(p[..100].iter().sum(), 69.57, 0.006, "top 100");
    // Drawn frequencies are those of the grid.
    let found = counts(&DistributionSpec::YcsbZipfian, 1000, 1000, |k| k as usize);
    let expected: Vec<f64> = p.iter().map(|p| p / 100.0).collect();
    assert_fits(&found, &expected, "zipfian");
}

/// Probability of each key below `records`: the first ranks one by one, the rest flat. Percent.
fn request(records: u64, ranks: u64) -> Vec<f64> {
    let gray = Gray::with_zeta(RANKS, YCSB_THETA, ZETA);
    let (zeta_n, alpha, eta) = gray.constants();
    // The u at which `rank` starts: the inverse of the formula.
    let start = |rank: u64| match rank {
        0 => 0.0,
        1 => 1.0 / zeta_n,
        2 => (1.0 + 0.5f64.powf(YCSB_THETA)) / zeta_n,
        k => ((k as f64 / RANKS as f64).powf(1.0 / alpha) - 1.0 + eta) / eta,
    };
    let keys = records + 1;
    let mut p = vec![(1.0 - start(ranks)) / keys as f64; keys as usize];
    let mut from = 0.0;
    for rank in 0..ranks {
        let to = start(rank + 1);
        p[(hash(rank).unsigned_abs() % keys) as usize] += to - from;
        from = to;
    }
    // The key beyond the last record is redrawn.
    p.truncate(records as usize);
    let sum: f64 = p.iter().sum();
    p.iter().map(|p| p / sum * 100.0).collect()
}

fn hottest(p: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*b].total_cmp(&p[*a]));
    order
}

/// The reference table's rows "YCSB `zipfian` request", and its hot keys in order.
#[test]
fn scrambled_zipfian_has_the_published_frequencies() {
    let p = request(1000, 1_000_000);
    let order = hottest(&p);
    assert_eq!(order[..10], [144, 610, 213, 679, 10, 545, 942, 476, 436, 902]);
    for (rank, percent) in [(1, 3.861), (2, 1.995), (3, 1.603), (4, 1.166), (5, 0.934), (10, 0.493)]
    {
        close(p[order[rank - 1]], percent, 2e-3, "records 1000");
    }
    let top = |p: &[f64], order: &[usize], n: usize| order[..n].iter().map(|&k| p[k]).sum::<f64>();
    close(top(&p, &order, 10), 12.61, 0.01, "top 10");
    close(top(&p, &order, 100), 29.0, 0.1, "top 100");
    // And the draws themselves.
    let spec = DistributionSpec::YcsbScrambled { new_keys: 0 };
    let found = counts(&spec, 1000, 1000, |k| k as usize);
    let expected: Vec<f64> = p.iter().map(|p| p / 100.0).collect();
    assert_fits(&found, &expected, "request, 1000 records");
}

#[test]
fn scrambled_zipfian_over_a_million_records() {
    let p = request(1_000_000, 4_000_000);
    let order = hottest(&p);
    assert_eq!(order[..5], [801_320, 216_074, 971_811, 386_565, 464_295]);
    for (rank, percent) in [(1, 3.778), (2, 1.902), (3, 1.531), (4, 1.090), (5, 0.848), (10, 0.404)]
    {
        close(p[order[rank - 1]], percent, 6e-4, "records 10^6");
    }
    let top = |n: usize| order[..n].iter().map(|&k| p[k]).sum::<f64>();
    close(top(10), 11.80, 0.006, "top 10");
    close(top(10_000), 40.0, 0.06, "top 1 %");
    close(top(100_000), 54.4, 0.06, "top 10 %");
    close(top(200_000), 61.9, 0.1, "top 20 %");
}

#[test]
fn scrambled_zipfian_reads_only_acknowledged_keys_and_keeps_them_popular() {
    let mut dist =
        ItemDistribution::new(&DistributionSpec::YcsbScrambled { new_keys: 1000 }, 1000).unwrap();
    let mut rng = rng(2);
    let mut hottest_at = |last: u64| {
        let mut found = vec![0u64; last as usize + 1];
        (0..100_000).for_each(|_| found[dist.draw(&mut rng, last) as usize] += 1);
        (0..found.len()).max_by_key(|&k| found[k]).unwrap() as u64
    };
    // Rank 0 hashes to key 1639 of 2001: not there at the start, hottest as soon as it is.
    let first = hash(0).unsigned_abs() % 2001;
    assert!(first > 999);
    assert!(hottest_at(999) < 1000);
    assert_eq!(hottest_at(1999), first);
}

/// Latest over 1000 records: 999 hottest, key 0 never.
#[test]
fn latest_follows_the_newest_key() {
    let found = counts(&DistributionSpec::Latest, 1000, 1000, |k| k as usize);
    let percent = |k: usize| found[k] as f64 / DRAWS as f64 * 100.0;
    for (key, expected) in [(999, 12.95), (998, 6.51), (997, 5.10), (996, 3.64)] {
        // 4 sigma and the table's rounding.
        close(percent(key), expected, 0.14, "latest");
    }
    close(percent(1), 0.0136, 0.005, "oldest");
    assert_eq!(found[0], 0);

    let mut dist = ItemDistribution::new(&DistributionSpec::Latest, 1000).unwrap();
    let mut rng = rng(8);
    let mut newest = 0;
    for last in 999..20_999 {
        let item = dist.draw(&mut rng, last);
        assert!(item >= 1 && item <= last);
        newest += u64::from(item == last);
    }
    // About 1 / zeta(n), 13 % falling to 10 %.
    assert!((1800..2600).contains(&newest), "{newest}");
}

#[test]
fn exponential_is_ycsb_s_with_its_redraws() {
    let spec = DistributionSpec::Exponential { percentile: 95.0, frac: 0.857_142_857_1 };
    let found = counts(&spec, 10_000, 100, |k| ((9_999 - k) / 100) as usize);
    let beyond = |x: f64| 0.05f64.powf(x / 0.857_142_857_1);
    let expected: Vec<f64> = (0..100)
        .map(|i| f64::from(i) / 100.0)
        .map(|x| (beyond(x) - beyond(x + 0.01)) / (1.0 - beyond(1.0)))
        .collect();
    assert_fits(&found, &expected, "exponential");

    let mut dist = ItemDistribution::new(&spec, 10_000).unwrap();
    let mut rng = rng(3);
    for _ in 0..DRAWS {
        dist.draw(&mut rng, 9_999);
    }
    let share = dist.redrawn() as f64 / (DRAWS + dist.redrawn()) as f64 * 100.0;
    close(share, 3.04, 0.07, "redrawn");
    // It follows the newest key.
    let mut newest = ItemDistribution::new(&spec, 10).unwrap();
    assert!((0..1000).any(|_| newest.draw(&mut rng, 1_000_000) > 999_990));
}
