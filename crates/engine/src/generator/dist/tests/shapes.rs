//! Uniform, hot spot, Pareto and normal distribution, shares of accesses by zones of the space, and lengths of scans:
//! frequencies of draws against their formulas.

use super::super::{ScanLengths, ZoneShare};
use super::*;

/// Items to draw from.
const N: u64 = 10_000;
/// Cells of equal size, in which `check` counts draws.
const CELLS: usize = 100;

fn cell(item: u64) -> usize {
    (item / (N / CELLS as u64)) as usize
}

/// Draws fit `below`: the probability of an item in the first so large a share of the space.
fn check(spec: &DistributionSpec, below: impl Fn(f64) -> f64) {
    let found = counts(spec, N, CELLS, cell);
    let expected: Vec<f64> =
        (0..CELLS).map(|i| below((i + 1) as f64 / 100.0) - below(i as f64 / 100.0)).collect();
    assert_fits(&found, &expected, &format!("{spec:?}"));
}

#[test]
fn uniform_is_flat() {
    check(&DistributionSpec::Uniform, |x| x);
}

#[test]
fn hotspot_has_two_flat_parts() {
    for (data, ops) in [(0.2, 0.8), (0.01, 0.5), (1.0, 0.3), (0.5, 1.0)] {
        check(&DistributionSpec::Hotspot { data, ops }, |x| {
            let ops = if data == 1.0 { 1.0 } else { ops };
            let (hot, cold) = (x.min(data) / data, (x - data).max(0.0) / (1.0 - data).max(1e-9));
            ops * hot + (1.0 - ops) * cold
        });
    }
}

#[test]
fn pareto_gives_a_share_h_all_but_h_of_the_draws() {
    for h in [0.2, 0.1, 0.4, 0.7] {
        let power = f64::ln(1.0 - h) / h.ln();
        assert!((h.powf(power) - (1.0 - h)).abs() < 1e-12);
        check(&DistributionSpec::Pareto { h }, |x| x.powf(power));
    }
}

/// The normal distribution function, by Simpson's rule from 12 deviations below the mean.
fn phi(z: f64) -> f64 {
    let (steps, low) = (4000, -12.0);
    let h = (z - low) / f64::from(steps);
    let f = |i: i32| (-0.5 * (low + h * f64::from(i)).powi(2)).exp();
    let sum: f64 = (0..=steps)
        .map(|i| match i {
            0 => f(i),
            i if i == steps => f(i),
            i if i % 2 == 1 => 4.0 * f(i),
            _ => 2.0 * f(i),
        })
        .sum();
    sum * h / 3.0 / (2.0 * std::f64::consts::PI).sqrt()
}

#[test]
fn normal_is_a_normal_cut_to_the_space() {
    for (centre, deviation) in [(0.5, 0.1), (0.5, 0.02), (0.0, 0.3), (1.0, 0.05), (0.3, 1.0)] {
        let at = |x: f64| phi((x - centre) / deviation);
        let inside = at(1.0) - at(0.0);
        let spec = DistributionSpec::Normal { centre, deviation };
        check(&spec, |x| (at(x) - at(0.0)) / inside);

        let mut dist = ItemDistribution::new(&spec, N).unwrap();
        let mut rng = rng(4);
        for _ in 0..DRAWS {
            dist.draw(&mut rng, N - 1);
        }
        let tried = (DRAWS + dist.redrawn()) as f64;
        let share = dist.redrawn() as f64 / tried;
        let sigma = (inside * (1.0 - inside) / tried).sqrt();
        assert!((share - (1.0 - inside)).abs() <= 4.0 * sigma + 1e-6, "{spec:?}: {share}");
    }
}

#[test]
fn the_normal_tail_beyond_the_ziggurat_is_right() {
    // Items more than 3.5 deviations out: the layers end at 3.44, so that only the tail's own loop makes them.
    let found =
        counts(&DistributionSpec::Normal { centre: 0.5, deviation: 0.1 }, N, 4, |k| {
            match k.abs_diff(5000) {
                0..3500 => 0,
                3500..3750 => 1,
                3750..4000 => 2,
                _ => 3,
            }
        });
    // The lower tail begins one item nearer to the centre than the upper: item k is drawn for values from k to k + 1.
    let side = |a: f64, b: f64| {
        let upper = phi(-a) - phi(-b);
        let lower = phi(-(a - 0.001)) - phi(-(b - 0.001));
        upper + lower
    };
    let tails = [side(3.5, 3.75), side(3.75, 4.0), side(4.0, 12.0)];
    let middle = 1.0 - tails.iter().sum::<f64>();
    assert_fits(&found, &[middle, tails[0], tails[1], tails[2]], "tail");
}

#[test]
fn zones_get_their_share_of_the_draws() {
    let zones = |parts: &[(f64, f64)]| {
        let zone = |&(access, space)| ZoneShare { access, space };
        DistributionSpec::Zoned(parts.iter().map(zone).collect())
    };
    let parts = [(60.0, 10.0), (30.0, 20.0), (0.0, 30.0), (10.0, 40.0)];
    let at = |x: f64| {
        let mut start = 0.0;
        let mut sum = 0.0;
        for (access, space) in parts {
            sum += access / 100.0 * ((x * 100.0 - start) / space).clamp(0.0, 1.0);
            start += space;
        }
        sum
    };
    check(&zones(&parts), at);
    // SNIA's enterprise pattern: 50 % to the first 5 %, 30 % to the next 15 %, 20 % to the rest.
    let found = counts(&zones(&[(50.0, 5.0), (30.0, 15.0), (20.0, 80.0)]), N, 3, |k| match k {
        0..500 => 0,
        500..2000 => 1,
        _ => 2,
    });
    assert_fits(&found, &[0.5, 0.3, 0.2], "SNIA zones");
}

#[test]
fn lengths_lie_between_their_bounds() {
    for spec in [DistributionSpec::Uniform, DistributionSpec::YcsbZipfian] {
        let mut lengths = ScanLengths::new(&spec, 1, 100).unwrap();
        let mut rng = rng(6);
        let mut found = [0u64; 101];
        (0..DRAWS).for_each(|_| found[lengths.draw(&mut rng) as usize] += 1);
        assert_eq!(found[0], 0);
        match spec {
            DistributionSpec::Uniform => assert_fits(&found[1..], &[0.01; 100], "scan lengths"),
            _ => assert!(found[1] > found[2] && found[2] > found[50] && found[100] > 0),
        }
    }
    assert_eq!(ScanLengths::new(&DistributionSpec::Uniform, 7, 7).unwrap().draw(&mut rng(1)), 7);
    assert!(ScanLengths::new(&DistributionSpec::Uniform, 8, 7).is_err());
}
