//! Moments of a distribution: mean, spread, skewness, kurtosis.
//!
//! What it is: the real-valued methods of [`Dist`], all by the population definitions, because
//! every I/O is in the distribution. What it is not: a description of a tail; a mean or a deviation
//! says little about latencies with heavy tails. Called by the report.

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

    /// Standard deviation in nanoseconds of the population: the squared distances are divided by
    /// the count, not by one less, because all I/Os are in it.
    #[must_use]
    pub fn stddev(&self) -> Option<f64> {
        Some(self.central_moments()?[0].sqrt())
    }

    /// Population skewness `m3 / m2^1.5`, without unit; none when all values are equal.
    #[must_use]
    pub fn skewness(&self) -> Option<f64> {
        let [m2, m3, _] = self.central_moments()?;
        (m2 > 0.0).then(|| m3 / (m2 * m2.sqrt()))
    }

    /// Population *excess* kurtosis `m4 / m2^2 - 3`, without unit: 0 for a normal distribution;
    /// none when all values are equal.
    #[must_use]
    pub fn kurtosis(&self) -> Option<f64> {
        let [m2, _, m4] = self.central_moments()?;
        (m2 > 0.0).then(|| m4 / (m2 * m2) - 3.0)
    }

    /// Second to fourth central moment, divided by the count; two passes, so that large offsets
    /// do not cancel.
    fn central_moments(&self) -> Option<[f64; 3]> {
        let count = u128::from(self.count());
        if count == 0 {
            return None;
        }
        let sum = self.sum();
        let (whole, part) = (sum / count, (sum % count) as f64 / count as f64);
        let mut totals = [Compensated::default(); 3];
        for (value, count) in self.iter() {
            // Both operands are below 2^64, so the signed difference is exact.
            let distance = (i128::from(value) - whole as i128) as f64 - part;
            let square = distance * distance;
            let count = count as f64;
            totals[0].add(square * count);
            totals[1].add(square * distance * count);
            totals[2].add(square * square * count);
        }
        Some(totals.map(|t| t.total() / count as f64))
    }
}

/// A sum that carries its rounding error along (Neumaier's variant of Kahan summation).
#[derive(Clone, Copy, Debug, Default)]
struct Compensated {
    sum: f64,
    lost: f64,
}

impl Compensated {
    fn add(&mut self, x: f64) {
        let next = self.sum + x;
        self.lost +=
            if self.sum.abs() >= x.abs() { (self.sum - next) + x } else { (x - next) + self.sum };
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
        assert_eq!((d.mean(), d.stddev(), d.skewness(), d.kurtosis()), (None, None, None, None));
    }

    #[test]
    fn moments_are_those_of_the_population() {
        // 2 4 4 4 5 5 7 9: mean 5, variance 4, m3 = 42/8, m4 = 356/8.
        let d = Dist::from_values(vec![9, 2, 4, 5, 4, 7, 5, 4]);
        close(d.mean(), 5.0);
        close(d.stddev(), 2.0);
        close(d.skewness(), 5.25 / 8.0);
        close(d.kurtosis(), 44.5 / 16.0 - 3.0);
        let flat = Dist::from_values(vec![7; 3]);
        assert_eq!((flat.stddev(), flat.skewness(), flat.kurtosis()), (Some(0.0), None, None));
    }

    #[test]
    fn moments_survive_a_large_offset() {
        let base = 1u64 << 62;
        let d = Dist::from_values([2, 4, 4, 4, 5, 5, 7, 9].map(|v| v + base).to_vec());
        close(d.stddev(), 2.0);
        close(d.skewness(), 5.25 / 8.0);
    }
}
