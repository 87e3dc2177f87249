//! Draws of every distribution stay inside the space, small or large, and below what exists; nonsense is refused.

use proptest::prelude::*;
use taillight_core::ErrorKind;

use super::super::ZoneShare;
use super::*;

const HOT: ZoneShare = ZoneShare { access: 70.0, space: 10.0 };
const REST: ZoneShare = ZoneShare { access: 30.0, space: 90.0 };

/// One of each, valid for every n (zones need an item each).
fn all(n: u64) -> Vec<DistributionSpec> {
    let mut all = vec![
        DistributionSpec::Uniform,
        DistributionSpec::Zipf { theta: 0.99 },
        DistributionSpec::Zipf { theta: 1.0 },
        DistributionSpec::Zipf { theta: 3.5 },
        DistributionSpec::Zipf { theta: 1e300 },
        DistributionSpec::YcsbZipfian,
        DistributionSpec::YcsbScrambled { new_keys: 10 },
        DistributionSpec::Latest,
        DistributionSpec::Hotspot { data: 0.2, ops: 0.8 },
        DistributionSpec::Hotspot { data: 1e-9, ops: 1.0 },
        DistributionSpec::Exponential { percentile: 95.0, frac: 0.857_142_857_1 },
        DistributionSpec::Pareto { h: 0.2 },
        DistributionSpec::Pareto { h: 0.999 },
        DistributionSpec::Normal { centre: 0.5, deviation: 0.2 },
        DistributionSpec::Normal { centre: 1.0, deviation: 1e-12 },
        DistributionSpec::Normal { centre: 0.0, deviation: 1.0 },
    ];
    if n >= 10 {
        all.push(DistributionSpec::Zoned(vec![HOT, REST]));
    }
    all
}

/// Zeta is a long sum for large n: these two are tested with small ones.
fn slow(spec: &DistributionSpec) -> bool {
    matches!(spec, DistributionSpec::YcsbZipfian | DistributionSpec::Latest)
}

#[test]
fn every_space_from_one_item_to_2_to_the_62() {
    for n in [1, 2, 3, 10, (1 << 31) + 1, (1 << 40) + 3, (1 << 53) + 1, 1 << 62] {
        for spec in all(n) {
            let mut dist = ItemDistribution::new(&spec, n).unwrap();
            let mut rng = rng(n);
            let mut largest = 0;
            for _ in 0..300 {
                let item = dist.draw(&mut rng, n - 1);
                assert!(item < n, "{spec:?} over {n}: {item}");
                largest = largest.max(item);
            }
            let far = !matches!(spec, DistributionSpec::Zipf { theta } if theta > 1.0)
                && !matches!(spec, DistributionSpec::Hotspot { ops, .. } if ops == 1.0);
            if far {
                assert!(largest >= n / 2, "{spec:?} over {n} never came far: {largest}");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn below_n_and_never_beyond_what_exists(n in 1u64..=1 << 45, exists in 0.0f64..1.5, seed: u64) {
        let last = ((n as f64 * exists) as u64).max(1) - 1;
        for spec in all(n) {
            let n = if slow(&spec) { n % 5000 + 1 } else { n };
            let last = if slow(&spec) { last % 6000 } else { last };
            let fixed = !slow(&spec) && !matches!(
                spec, DistributionSpec::YcsbScrambled { .. } | DistributionSpec::Exponential { .. });
            let mut dist = ItemDistribution::new(&spec, n).unwrap();
            let mut spread = fixed.then(|| ItemDistribution::new(&spec, n).unwrap().spread(seed).unwrap());
            prop_assert_eq!(fixed, ItemDistribution::new(&spec, n).unwrap().spread(seed).is_ok());
            let mut rng = rng(seed);
            for _ in 0..20 {
                let item = dist.draw(&mut rng, last);
                prop_assert!(item <= last, "{spec:?} {n} {last}: {item}");
                prop_assert!(!fixed || item < n, "{spec:?} {n} {last}: {item}");
                if let Some(spread) = &mut spread {
                    let item = spread.draw(&mut rng, last);
                    prop_assert!(item <= last && item < n, "{spec:?} {n} {last}: {item}");
                }
            }
        }
    }
}

#[test]
fn what_does_not_exist_is_redrawn_not_moved() {
    // Half of the space exists: what is drawn there keeps its proportions.
    let mut dist = ItemDistribution::new(&DistributionSpec::Zipf { theta: 0.5 }, 1000).unwrap();
    let mut rng = rng(1);
    let mut found = vec![0u64; 500];
    (0..DRAWS).for_each(|_| found[dist.draw(&mut rng, 499) as usize] += 1);
    let weights: Vec<f64> = (1..=500).map(|k| f64::from(k).powf(-0.5)).collect();
    let sum: f64 = weights.iter().sum();
    let expected: Vec<f64> = weights.iter().map(|w| w / sum).collect();
    assert_fits(&found, &expected, "half the space");
    assert!(dist.redrawn() > DRAWS / 4, "{}", dist.redrawn());
}

#[test]
fn a_space_where_nothing_can_be_drawn_still_answers() {
    // The first zone gets no draws, and only it exists so far.
    let spec = DistributionSpec::Zoned(vec![
        ZoneShare { access: 0.0, space: 1.0 },
        ZoneShare { access: 1.0, space: 1.0 },
    ]);
    let mut dist = ItemDistribution::new(&spec, 100).unwrap();
    assert!(dist.draw(&mut rng(1), 9) <= 9);
}

#[test]
fn nonsense_is_a_usage_error_with_a_hint() {
    let mut bad = Vec::new();
    for x in [f64::NAN, 0.0, -1.0, f64::INFINITY, f64::NEG_INFINITY] {
        bad.push(DistributionSpec::Zipf { theta: x });
    }
    for x in [f64::NAN, 0.0, -0.1, 1.1, f64::INFINITY] {
        bad.push(DistributionSpec::Hotspot { data: x, ops: 0.5 });
        bad.push(DistributionSpec::Hotspot { data: 0.5, ops: x });
        bad.push(DistributionSpec::Exponential { percentile: 95.0, frac: x });
        bad.push(DistributionSpec::Normal { centre: 0.5, deviation: x });
        bad.push(DistributionSpec::Pareto { h: x });
    }
    for x in [f64::NAN, 0.0, 100.0, -5.0, 101.0] {
        bad.push(DistributionSpec::Exponential { percentile: x, frac: 0.5 });
    }
    for x in [f64::NAN, -0.1, 1.1] {
        bad.push(DistributionSpec::Normal { centre: x, deviation: 0.5 });
    }
    bad.push(DistributionSpec::Pareto { h: 1.0 });
    bad.push(DistributionSpec::Normal { centre: 0.5, deviation: 1e-13 });
    let zones: [&[(f64, f64)]; 8] = [
        &[],
        &[(0.0, 1.0)],
        &[(1.0, 0.0)],
        &[(1.0, 1.0), (-1.0, 1.0)],
        &[(1.0, 1.0), (1.0, -1.0)],
        &[(f64::NAN, 1.0)],
        &[(1.0, f64::INFINITY)],
        &[(1.0, 1.0), (1.0, 1e-9)],
    ];
    for parts in zones {
        let zone = |&(access, space)| ZoneShare { access, space };
        bad.push(DistributionSpec::Zoned(parts.iter().map(zone).collect()));
    }
    let empty = [(DistributionSpec::Uniform, 0), (DistributionSpec::Uniform, (1 << 62) + 1)];
    for (spec, n) in bad.into_iter().map(|spec| (spec, 1000)).chain(empty) {
        let error = ItemDistribution::new(&spec, n).expect_err(&format!("{spec:?} over {n}"));
        assert_eq!(error.kind(), ErrorKind::Usage, "{spec:?}");
        assert!(error.hint_text().is_some(), "{spec:?}");
    }
}
