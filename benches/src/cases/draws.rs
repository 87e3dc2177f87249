//! What one draw of an offset or key costs, and writing a key: distributions alone, in this process, no I/O.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Result, anyhow};
use rand::SeedableRng;
use taillight_core::keys::{KEY_MAX, KeyFormat, KeyNaming};
use taillight_engine::generator::Rng;
use taillight_engine::generator::dist::{DistributionSpec, ItemDistribution, ZoneShare};

use crate::BenchSetup;
use crate::pairs::{Bound, BoundCheck, Comparison};

/// Draws of one round.
const DRAWS: u64 = 10_000_000;

/// Items: a thousand, a million, and a petabyte of 4 KiB blocks.
const SPACES: [u64; 3] = [1_000, 1_000_000, 1 << 38];

/// ns a draw of each distribution, and of writing a key.
pub fn run(setup: &BenchSetup) -> Result<Comparison> {
    let mut report = Comparison::titled("Draws");
    for (name, spec) in specs() {
        for n in SPACES {
            let dist = ItemDistribution::new(&spec, n).map_err(|e| anyhow!("{name}: {e}"))?;
            let mut values = Vec::new();
            for _ in 0..setup.pairs {
                values.push(draws(dist.clone(), n));
            }
            add(&mut report, format!("{name}, {n} items"), values);
        }
    }
    let hot = ItemDistribution::new(&DistributionSpec::Zipf { theta: 0.99 }, 1_000_000);
    let hot = hot.and_then(|d| d.spread(1)).map_err(|e| anyhow!("{e}"))?;
    let values = (0..setup.pairs).map(|_| draws(hot.clone(), 1_000_000)).collect();
    add(&mut report, "zipf 0.99 spread, 1000000 items".into(), values);
    let latest =
        ItemDistribution::new(&DistributionSpec::Latest, 1_000_000).map_err(|e| anyhow!("{e}"))?;
    let values = (0..setup.pairs).map(|_| growing(latest.clone(), 1_000_000)).collect();
    let what = "latest, 1000000 items, one more every 20 draws";
    add(&mut report, what.into(), values);
    for (name, format) in formats()? {
        let values = (0..setup.pairs).map(|_| keys(&format)).collect();
        add(&mut report, format!("key, {name}"), values);
    }
    Ok(report)
}

fn add(report: &mut Comparison, what: String, values: Vec<f64>) {
    report.checks.push(BoundCheck { what, unit: "ns", values, bound: Bound::None });
}

fn specs() -> Vec<(&'static str, DistributionSpec)> {
    let zones = [(60.0, 10.0), (30.0, 20.0), (10.0, 70.0)];
    let zone = |(access, space)| ZoneShare { access, space };
    vec![
        ("uniform", DistributionSpec::Uniform),
        ("zipf 0.99", DistributionSpec::Zipf { theta: 0.99 }),
        ("zipf 1", DistributionSpec::Zipf { theta: 1.0 }),
        ("zipf 1.2", DistributionSpec::Zipf { theta: 1.2 }),
        ("YCSB zipfian", DistributionSpec::YcsbZipfian),
        ("YCSB scrambled", DistributionSpec::YcsbScrambled { new_keys: 0 }),
        ("latest", DistributionSpec::Latest),
        ("hot spot", DistributionSpec::Hotspot { data: 0.2, ops: 0.8 }),
        ("exponential", DistributionSpec::Exponential { percentile: 95.0, frac: 0.857_142_857_1 }),
        ("pareto 0.2", DistributionSpec::Pareto { h: 0.2 }),
        ("normal", DistributionSpec::Normal { centre: 0.5, deviation: 0.1 }),
        ("zoned", DistributionSpec::Zoned(zones.map(zone).into())),
    ]
}

fn draws(mut dist: ItemDistribution, n: u64) -> f64 {
    let mut rng = Rng::seed_from_u64(1);
    let mut sum = 0u64;
    let start = Instant::now();
    for _ in 0..DRAWS {
        sum = sum.wrapping_add(dist.draw(&mut rng, black_box(n - 1)));
    }
    let taken = start.elapsed();
    black_box(sum);
    taken.as_nanos() as f64 / DRAWS as f64
}

/// As [`draws`], while keys are added: YCSB's workload D.
fn growing(mut dist: ItemDistribution, n: u64) -> f64 {
    let mut rng = Rng::seed_from_u64(1);
    let mut sum = 0u64;
    let start = Instant::now();
    for i in 0..DRAWS {
        sum = sum.wrapping_add(dist.draw(&mut rng, black_box(n - 1 + i / 20)));
    }
    let taken = start.elapsed();
    black_box(sum);
    taken.as_nanos() as f64 / DRAWS as f64
}

fn formats() -> Result<Vec<(&'static str, KeyFormat)>> {
    let decimal = |naming| KeyFormat::decimal(naming, "user", 1).map_err(|e| anyhow!("{e}"));
    Ok(vec![
        ("hashed", decimal(KeyNaming::Hashed)?),
        ("ordered", decimal(KeyNaming::Ordered)?),
        ("binary, 16 bytes", KeyFormat::binary(16).map_err(|e| anyhow!("{e}"))?),
    ])
}

fn keys(format: &KeyFormat) -> f64 {
    let mut out = [0; KEY_MAX];
    let start = Instant::now();
    for n in 0..DRAWS {
        black_box(format.write(n, &mut out));
    }
    start.elapsed().as_nanos() as f64 / DRAWS as f64
}
