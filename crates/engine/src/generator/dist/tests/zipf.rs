//! Zipf: frequencies for several exponents and spaces, spread without changing its popularity; and the alias table.

use super::super::alias::Alias;
use super::super::gray::zeta;
use super::*;

fn zipf(theta: f64) -> DistributionSpec {
    DistributionSpec::Zipf { theta }
}

fn ideal(n: u64, theta: f64) -> Vec<f64> {
    let sum = zeta(0, n, theta, 0.0);
    (1..=n).map(|k| (k as f64).powf(-theta) / sum).collect()
}

#[test]
fn every_rank_has_its_probability() {
    for theta in [0.2, 0.99, 1.0, 1.2, 4.0] {
        for n in [1, 2, 33, 1000] {
            let found = counts(&zipf(theta), n, n as usize, |k| k as usize);
            assert_fits(&found, &ideal(n, theta), &format!("theta {theta}, n {n}"));
        }
    }
}

#[test]
fn large_spaces_have_the_right_share_in_each_octave() {
    for theta in [0.5, 0.99, 1.0, 1.2] {
        for n in [1_000_000u64, (1 << 40) + 3] {
            let octaves = n.ilog2() as usize + 1;
            let found = counts(&zipf(theta), n, octaves, |k| (k + 1).ilog2() as usize);
            let sum = zeta(0, n, theta, 0.0);
            let share = |o: usize| {
                let (from, to) = ((1u64 << o) - 1, ((2u64 << o) - 1).min(n));
                zeta(from, to, theta, 0.0) / sum
            };
            let expected: Vec<f64> = (0..octaves).map(share).collect();
            assert_fits(&found, &expected, &format!("theta {theta}, n {n}"));
        }
    }
}

#[test]
fn inside_a_step_ranks_keep_their_slope() {
    // Without the rejection both halves of a step would be drawn alike: 10 sigma off here.
    let (n, theta) = (1 << 12, 1.0);
    let half = |rank: u64| {
        let octave = 1 << rank.ilog2();
        let width = octave / 16;
        match rank {
            0..64 => 0,
            _ if (rank - octave) % width < width / 2 => 1,
            _ => 2,
        }
    };
    let found = counts(&zipf(theta), n, 3, |k| half(k + 1));
    let mut expected = [0.0; 3];
    for (p, rank) in ideal(n, theta).iter().zip(1..) {
        expected[half(rank)] += p;
    }
    assert_fits(&found, &expected, "halves of steps");
    // The test sees that difference.
    let flat = (expected[1] + expected[2]) / 2.0;
    let (chi, limit) = chi_square(&found, &[expected[0], flat, flat]);
    assert!(chi > limit, "{chi} {limit}");
}

/// The reference table's row "ideal zipf .99, n = 1000", percent.
#[test]
fn the_published_shares_of_an_ideal_zipf() {
    let p = ideal(1000, 0.99);
    for (rank, percent, half_digit) in [
        (1, 12.938, 5e-4),
        (2, 6.514, 5e-4),
        (3, 4.360, 5e-4),
        (4, 3.280, 5e-4),
        (5, 2.630, 5e-4),
        (10, 1.324, 5e-4),
        (100, 0.1355, 5e-5),
    ] {
        assert!((p[rank - 1] * 100.0 - percent).abs() <= half_digit * 1.01, "rank {rank}");
    }
    let found = counts(&zipf(0.99), 1000, 1000, |k| k as usize);
    for (top, percent) in [(10, 38.25), (100, 68.50)] {
        let drawn = found[..top].iter().sum::<u64>() as f64 / DRAWS as f64 * 100.0;
        // 4 sigma of a million draws is 0.2 percent points.
        assert!((drawn - percent).abs() < 0.2, "top {top}: {drawn}");
    }
}

#[test]
fn spread_moves_ranks_but_keeps_their_popularity() {
    let n = 1000;
    let draw = |spread: Option<u64>| {
        let mut dist = ItemDistribution::new(&zipf(1.2), n).unwrap();
        if let Some(key) = spread {
            dist = dist.spread(key).unwrap();
        }
        let mut rng = rng(9);
        let mut found = vec![0u64; n as usize];
        (0..100_000).for_each(|_| found[dist.draw(&mut rng, n - 1) as usize] += 1);
        found
    };
    let (plain, mut spread) = (draw(None), draw(Some(7)));
    assert_ne!(draw(Some(7)), draw(Some(8)));
    let hottest = |found: &[u64]| (0..1000).max_by_key(|&i| found[i]).unwrap();
    assert_eq!(hottest(&plain), 0);
    let hot: Vec<usize> = (0..1000).filter(|&i| spread[i] > 1000).collect();
    assert!(hot.iter().any(|&i| i > 500), "hot items stayed together: {hot:?}");
    // The same draws, only renamed.
    let mut sorted = plain;
    sorted.sort_unstable();
    spread.sort_unstable();
    assert_eq!(sorted, spread);
}

#[test]
fn alias_meets_its_weights_and_never_picks_a_zero() {
    let weights = [0.0, 3.0, 0.0, 1.0, 1e-3, 5.0, 0.0];
    let alias = Alias::new(&weights).unwrap();
    let mut counts = [0u64; 7];
    let mut rng = rng(3);
    for _ in 0..DRAWS {
        counts[alias.pick(rand::Rng::next_u64(&mut rng))] += 1;
    }
    let total: f64 = weights.iter().sum();
    assert_fits(&counts, &weights.map(|w| w / total), "alias");
    for (count, weight) in counts.iter().zip(weights) {
        assert_eq!(*count == 0, weight == 0.0);
    }
    // The ends of every slot, where a wrong threshold would show.
    for i in 0..7u128 {
        let first = (i << 64).div_ceil(7) as u64;
        let last = (((i + 1) << 64).div_ceil(7) - 1) as u64;
        for random in [first, last] {
            assert!(weights[alias.pick(random)] > 0.0, "slot {i}");
        }
    }
}
