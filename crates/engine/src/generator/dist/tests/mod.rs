//! Distributions against their analytic probabilities. Statistical tests have fixed seeds, so that none is flaky.

mod bounds;
mod shapes;
mod ycsb;
mod zipf;

use rand::SeedableRng;

use super::super::Rng;
use super::{DistributionSpec, ItemDistribution};

/// Draws of most checks.
const DRAWS: u64 = 1_000_000;

fn rng(seed: u64) -> Rng {
    Rng::seed_from_u64(seed)
}

/// Counts [`DRAWS`] draws over `0..n` by the cell that `cell` gives.
fn counts(spec: &DistributionSpec, n: u64, cells: usize, cell: impl Fn(u64) -> usize) -> Vec<u64> {
    let mut dist = ItemDistribution::new(spec, n).unwrap();
    let mut rng = rng(n ^ 0x5EED);
    let mut counts = vec![0; cells];
    for _ in 0..DRAWS {
        counts[cell(dist.draw(&mut rng, n - 1))] += 1;
    }
    counts
}

/// Pearson's chi-square against probabilities that sum to 1, and the point only one in 30,000
/// correct samples exceeds (4 sigma, Wilson and Hilferty). Rare cells are pooled.
fn chi_square(counts: &[u64], probabilities: &[f64]) -> (f64, f64) {
    let sum: f64 = probabilities.iter().sum();
    assert!((sum - 1.0).abs() < 1e-9, "probabilities sum to {sum}");
    let total: u64 = counts.iter().sum();
    let (mut chi, mut cells) = (0.0, 0u32);
    let (mut seen, mut expected) = (0.0, 0.0);
    for (i, (count, p)) in counts.iter().zip(probabilities).enumerate() {
        seen += *count as f64;
        expected += p * total as f64;
        if expected >= 10.0 || i + 1 == counts.len() {
            if expected > 0.0 {
                chi += (seen - expected) * (seen - expected) / expected;
                cells += 1;
            } else {
                assert_eq!(seen, 0.0, "a cell of probability 0 was drawn");
            }
            (seen, expected) = (0.0, 0.0);
        }
    }
    let freedom = f64::from(cells.saturating_sub(1));
    let spread = 2.0 / (9.0 * freedom.max(1.0));
    (chi, freedom * (1.0 - spread + 4.0 * spread.sqrt()).powi(3))
}

fn assert_fits(counts: &[u64], probabilities: &[f64], what: &str) {
    let (chi, limit) = chi_square(counts, probabilities);
    assert!(chi <= limit, "{what}: chi-square {chi} above {limit}");
}

#[test]
fn chi_square_tells_unlike_from_like() {
    let fair = [0.25; 4];
    let (chi, limit) = chi_square(&[2510, 2490, 2450, 2550], &fair);
    assert!(chi < limit, "{chi} {limit}");
    // One share of a quarter off by 2 %, at the number of draws the tests use.
    let (chi, limit) = chi_square(&[255_000, 249_000, 248_000, 248_000], &fair);
    assert!(chi > limit, "{chi} {limit}");
}

#[test]
fn same_seed_same_items() {
    let draw = |seed| {
        let mut dist =
            ItemDistribution::new(&DistributionSpec::Zipf { theta: 0.9 }, 1 << 40).unwrap();
        let mut rng = rng(seed);
        (0..1000).map(|_| dist.draw(&mut rng, (1 << 40) - 1)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}
