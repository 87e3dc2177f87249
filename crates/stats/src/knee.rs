//! Where more demand stops to bring more work: the knee of a curve of demand and rate, whose points differ
//! in demand alone. `docs/sweeps.md` states the rule for users.
//!
//! The knee is the lowest demand whose rate is at least 98 % of the highest rate. There is none where that is
//! the highest demand, or where log rate rises from there to the highest demand by half of what log demand
//! does, or more. Where a demand that is a rate was missed by its run, the knee is the last demand before the
//! first missed one instead. The highest rate under a ceiling of the response time is found by a search.

/// Share of the highest rate that counts as all of it.
const OF_HIGHEST: f64 = 0.98;
/// Growth of the rate against that of the demand, on log scales, that counts as rising.
const RISING: f64 = 0.5;
/// Fewest points that show a knee.
const FEWEST: usize = 3;

/// What a demand gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DemandPoint {
    /// What was asked: operations outstanding or a rate; above 0.
    pub demand: f64,
    /// Operations per second achieved.
    pub rate: f64,
    /// Whether it was a rate that the run did not reach.
    pub missed: bool,
}

/// Where the knee is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knee {
    /// At the point of this index.
    At(usize),
    /// Fewer than three points, or no work done at any.
    TooFew,
    /// The lowest demand, a rate, was missed.
    BelowRange,
    /// The rate rises up to the highest demand.
    AboveRange,
}

/// The knee of points with rising demand.
#[must_use]
pub fn knee(points: &[DemandPoint]) -> Knee {
    let highest = points.iter().map(|p| p.rate).fold(0.0, f64::max);
    let enough = |p: &DemandPoint| p.rate >= OF_HIGHEST * highest;
    let (Some(at), Some(last)) = (points.iter().position(enough), points.last()) else {
        return Knee::TooFew;
    };
    if points.len() < FEWEST || highest <= 0.0 {
        return Knee::TooFew;
    }
    match points.iter().position(|p| p.missed) {
        Some(0) => return Knee::BelowRange,
        Some(first) => return Knee::At(first - 1),
        None => {}
    }
    let here = points[at];
    let grown = (last.rate / here.rate).ln();
    match last.demand <= here.demand || grown >= RISING * (last.demand / here.demand).ln() {
        true => Knee::AboveRange,
        false => Knee::At(at),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rates at these demands of a device with `channels` that each serve 1,000 a second.
    fn device(channels: f64, demands: &[f64]) -> Vec<DemandPoint> {
        let rate = |demand: f64| 1_000.0 * demand.min(channels);
        demands.iter().map(|d| DemandPoint { demand: *d, rate: rate(*d), missed: false }).collect()
    }

    #[test]
    fn the_knee_is_where_all_channels_are_busy() {
        let demands = [1.0, 2.0, 4.0, 8.0, 16.0];
        assert_eq!(knee(&device(4.0, &demands)), Knee::At(2));
        assert_eq!(knee(&device(5.0, &demands)), Knee::At(3), "the first that has them all");
        assert_eq!(knee(&device(1.0, &demands)), Knee::At(0), "flat from the lowest demand on");
        let tenths: Vec<f64> = (1..=200).map(|n| f64::from(n) / 10.0).collect();
        let at = tenths.iter().position(|d| *d >= 0.98 * 7.0).expect("there");
        assert_eq!(knee(&device(7.0, &tenths)), Knee::At(at));
    }

    #[test]
    fn there_is_none_outside_of_the_range() {
        let demands = [1.0, 2.0, 4.0, 8.0];
        assert_eq!(knee(&device(8.0, &demands)), Knee::AboveRange);
        assert_eq!(knee(&device(100.0, &demands)), Knee::AboveRange);
        // Steps of 1 % are within 2 % of the end, and rise all the same.
        let fine: Vec<f64> = (90..=100).map(f64::from).collect();
        assert_eq!(knee(&device(1_000.0, &fine)), Knee::AboveRange);
        assert_eq!(knee(&device(2.0, &demands[..2])), Knee::TooFew);
        assert_eq!(knee(&[]), Knee::TooFew);
        assert_eq!(knee(&device(0.0, &demands)), Knee::TooFew, "nothing was done");
    }

    #[test]
    fn a_rate_that_falls_again_has_its_knee_before() {
        let rates = [1_000.0, 2_000.0, 2_600.0, 2_100.0, 1_500.0];
        let points = (0..).zip(rates).map(|(n, rate)| DemandPoint {
            demand: 2f64.powi(n),
            rate,
            missed: false,
        });
        assert_eq!(knee(&points.collect::<Vec<_>>()), Knee::At(2));
    }

    #[test]
    fn rates_that_were_missed_end_the_range() {
        let asked = |rates: &[f64]| -> Vec<DemandPoint> {
            let of =
                |d: &f64| DemandPoint { demand: *d, rate: d.min(4_000.0), missed: *d > 4_000.0 };
            rates.iter().map(of).collect()
        };
        assert_eq!(knee(&asked(&[1_000.0, 2_000.0, 5_000.0])), Knee::At(1));
        assert_eq!(knee(&asked(&[1_000.0, 3_900.0, 5_000.0, 9_000.0])), Knee::At(1));
        assert_eq!(knee(&asked(&[5_000.0, 6_000.0, 9_000.0])), Knee::BelowRange);
        assert_eq!(knee(&asked(&[1_000.0, 2_000.0, 4_000.0])), Knee::AboveRange);
    }
}
