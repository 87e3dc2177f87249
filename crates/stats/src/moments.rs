//! Moments of a distribution: mean, spread, skewness, kurtosis, by the population definitions, because
//! every I/O is in the distribution. They say little about latencies with heavy tails: use percentiles.

use crate::dist::Dist;

impl Dist {
    /// The arithmetic mean in nanoseconds, if any value was measured.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        let count = u128::from(self.count());
        if count == 0 {
            return None;
        }
        let sum = self.sum();
        Some((sum / count) as f64 + (sum % count) as f64 / count as f64)
    }

    /// Spread and shape of the population, if any value was measured. Two passes over the distinct values,
    /// so that large offsets do not cancel.
    #[must_use]
    pub fn moments(&self) -> Option<Moments> {
        let all = u128::from(self.count());
        if all == 0 {
            return None;
        }
        let sum = self.sum();
        // A mean lies between its values.
        let (whole, part) = ((sum / all) as u64, (sum % all) as f64 / all as f64);
        let mut totals = [CompensatedSum::default(); 3];
        for (value, count) in self.iter() {
            let apart = value.abs_diff(whole) as f64;
            let distance = if value >= whole { apart } else { -apart } - part;
            let square = distance * distance;
            let count = count as f64;
            totals[0].add(square * count);
            totals[1].add(square * distance * count);
            totals[2].add(square * square * count);
        }
        let [m2, m3, m4] = totals.map(|t| t.total() / all as f64);
        let varies = m2 > 0.0;
        Some(Moments {
            stddev: m2.sqrt(),
            skewness: varies.then(|| m3 / (m2 * m2.sqrt())),
            kurtosis: varies.then(|| m4 / (m2 * m2) - 3.0),
        })
    }
}

/// Spread and shape of a population: central moments are divided by the count, not by one less, because all
/// I/Os are in it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moments {
    /// Standard deviation, ns.
    pub stddev: f64,
    /// `m3 / m2^1.5`, without unit; none when all values are equal.
    pub skewness: Option<f64>,
    /// *Excess* kurtosis `m4 / m2^2 - 3`, without unit: 0 for a normal distribution; none when all values
    /// are equal.
    pub kurtosis: Option<f64>,
}

/// A sum that carries its rounding error along (Knuth's two-sum: no branch on which is larger, which no CPU
/// could foresee).
#[derive(Clone, Copy, Debug, Default)]
struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    fn add(&mut self, x: f64) {
        let next = self.sum + x;
        let added = next - self.sum;
        self.lost += (self.sum - (next - added)) + (x - added);
        self.sum = next;
    }

    fn total(self) -> f64 {
        self.sum + self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: Option<f64>, b: f64) {
        let a = a.expect("a number");
        assert!((a - b).abs() <= 1e-12 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn empty_has_no_moments() {
        let d = Dist::default();
        assert_eq!((d.mean(), d.moments()), (None, None));
    }

    #[test]
    fn moments_are_those_of_the_population() {
        // 2 4 4 4 5 5 7 9: mean 5, variance 4, m3 = 42/8, m4 = 356/8.
        let d = Dist::from_values(vec![9, 2, 4, 5, 4, 7, 5, 4]);
        close(d.mean(), 5.0);
        let moments = d.moments().expect("values");
        close(Some(moments.stddev), 2.0);
        close(moments.skewness, 5.25 / 8.0);
        close(moments.kurtosis, 44.5 / 16.0 - 3.0);
        let flat = Dist::from_values(vec![7; 3]);
        let equal = Moments { stddev: 0.0, skewness: None, kurtosis: None };
        assert_eq!(flat.moments(), Some(equal));
    }

    #[test]
    fn moments_survive_a_large_offset() {
        let base = 1u64 << 62;
        let d = Dist::from_values([2, 4, 4, 4, 5, 5, 7, 9].map(|v| v + base).to_vec());
        let moments = d.moments().expect("values");
        close(Some(moments.stddev), 2.0);
        close(moments.skewness, 5.25 / 8.0);
    }
}
