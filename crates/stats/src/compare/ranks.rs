//! The test of Mann and Whitney (1947), which asks for no distribution.

use statrs::distribution::{ContinuousCDF, Normal};

/// Runs a side up to which the distribution of ranks is counted out.
const COUNTED: usize = 30;

/// How likely ranks at least so far apart are where both sides are alike, two-sided. Without ties and up to
/// 30 values a side exactly, else by the normal distribution with corrections for ties and
/// continuity. Stands beside the intervals of `compare`; no verdict depends on it. None where a
/// side is empty.
#[must_use]
pub fn mann_whitney(base: &[f64], new: &[f64]) -> Option<f64> {
    if base.is_empty() || new.is_empty() {
        return None;
    }
    // Twice the number of pairs in which `new` is above, ties as half.
    let pairs = base.iter().flat_map(|a| new.iter().map(move |b| (a, b)));
    let twice: u64 = pairs.map(|(a, b)| 2 * u64::from(b > a) + u64::from(a == b)).sum();
    let ties = ties(base, new);
    match ties.is_empty() && base.len().max(new.len()) <= COUNTED {
        true => Some(counted(base.len(), new.len(), (twice / 2) as usize)),
        false => approximate(base.len() as f64, new.len() as f64, twice as f64 / 2.0, &ties),
    }
}

/// Sizes of the groups of equal values.
fn ties(base: &[f64], new: &[f64]) -> Vec<f64> {
    let mut all: Vec<f64> = base.iter().chain(new).copied().collect();
    all.sort_by(f64::total_cmp);
    all.chunk_by(|a, b| a == b).map(|same| same.len() as f64).filter(|n| *n > 1.0).collect()
}

/// Both tails of the exact distribution.
fn counted(n: usize, m: usize, u: usize) -> f64 {
    // ways[i][u]: orders of i values of one side and j of the other with u pairs, j growing.
    let most = n * m;
    let mut ways = vec![vec![0.0f64; most + 1]; n + 1];
    ways.iter_mut().for_each(|row| row[0] = 1.0);
    for j in 1..=m {
        for i in 1..=n {
            // The largest is of the other side, above all i; or of this one.
            for u in (0..=i * j).rev() {
                let other = if u >= i { ways[i][u - i] } else { 0.0 };
                ways[i][u] = other + ways[i - 1][u];
            }
        }
    }
    let row = &ways[n];
    let all: f64 = row.iter().sum();
    let tail: f64 = row[..=u.min(most - u)].iter().sum();
    (2.0 * tail / all).min(1.0)
}

fn approximate(n: f64, m: f64, u: f64, ties: &[f64]) -> Option<f64> {
    let all = n + m;
    let lost: f64 = ties.iter().map(|t| t.powi(3) - t).sum();
    let variance = n * m / 12.0 * (all + 1.0 - lost / (all * (all - 1.0)));
    if variance <= 0.0 {
        return Some(1.0);
    }
    let z = ((u - n * m / 2.0).abs() - 0.5).max(0.0) / variance.sqrt();
    let normal = Normal::new(0.0, 1.0).ok()?;
    Some((2.0 * (1.0 - normal.cdf(z))).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_p_values_are_those_of_the_tables() {
        let p = |n: u32, m: u32| {
            let side = |from: u32, n: u32| (0..n).map(|i| f64::from(from + i)).collect::<Vec<_>>();
            mann_whitney(&side(0, n), &side(100, m)).expect("values")
        };
        assert!((p(3, 3) - 0.1).abs() < 1e-12, "three a side can never reject at 5 %");
        assert!((p(4, 4) - 2.0 / 70.0).abs() < 1e-12);
        assert!((p(6, 6) - 2.0 / 924.0).abs() < 1e-12);
    }

    #[test]
    fn a_middle_case_is_that_of_the_tables() {
        // R: wilcox.test(c(1, 4, 6, 7), c(2, 3, 5, 8, 9), exact = TRUE): W = 8, p = 0.7302.
        let p = mann_whitney(&[2.0, 3.0, 5.0, 8.0, 9.0], &[1.0, 4.0, 6.0, 7.0]).expect("values");
        assert!((p - 92.0 / 126.0).abs() < 1e-9, "{p}");
        let mirrored = mann_whitney(&[1.0, 4.0, 6.0, 7.0], &[2.0, 3.0, 5.0, 8.0, 9.0]);
        assert_eq!(mirrored, Some(p));
    }

    #[test]
    fn ties_are_halved() {
        assert_eq!(mann_whitney(&[1.0, 1.0], &[1.0, 1.0]), Some(1.0));
        let p = mann_whitney(&[1.0, 2.0, 2.0, 3.0, 3.0, 3.0], &[3.0, 4.0, 4.0, 5.0, 5.0, 6.0]);
        assert!(p.is_some_and(|p| p < 0.02), "{p:?}");
        assert_eq!(mann_whitney(&[], &[1.0]), None);
    }
}
