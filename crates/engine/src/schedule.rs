//! When: intended start times, independent of what happens. One schedule per worker.
//!
//! `Burst` has none (closed loop). `Constant` spaces operations evenly over all workers of the
//! workload together: worker k of W owns instants k, k + W, ... of one common sequence, exact to
//! the nanosecond (integer fractions, no drift). A schedule never slows itself: lateness is data.

use taillight_core::plan::{Arrival, WorkloadPlan};
use taillight_core::units::RateUnit;
use taillight_core::{Error, Result, Stamp};

use crate::generator::Place;

/// One worker's intended times.
#[derive(Debug, Clone)]
pub enum Schedule {
    /// Closed loop.
    Burst,
    /// Evenly spaced.
    Constant(Constant),
}

/// Evenly spaced instants: `start + floor(i * step)`, step an exact fraction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Constant {
    next: i64,
    whole: i64,
    part: u128,
    over: u128,
    /// Remainder carried, in units of 1 / `over` ns.
    carry: u128,
}

impl Schedule {
    /// The schedule of the worker at `place`.
    ///
    /// # Errors
    /// `Usage` for a rate slower than one operation a century or faster than 1 per ns.
    pub fn new(workload: &WorkloadPlan, place: Place) -> Result<Schedule> {
        let rate = match &workload.arrival {
            Arrival::Burst => return Ok(Schedule::Burst),
            Arrival::Constant { rate } => *rate,
            _ => {
                return Err(Error::usage("this arrival is not built yet")
                    .with("workload", &workload.name)
                    .hint("use burst or constant"));
            }
        };
        // Time per operation = per_ns * den / num, times the mean bytes for a byte rate.
        // The mean is taken in 1/1024 bytes so that splits keep their fraction.
        let scale = match rate.unit {
            RateUnit::Ops => 1024,
            RateUnit::Bytes => (workload.block_size.mean() * 1024.0).round() as u128,
        };
        let num = u128::from(rate.per_ns) * u128::from(rate.den) * scale;
        let den = u128::from(rate.num) * 1024;
        Constant::new(num, den, place)
            .map(Schedule::Constant)
            .ok_or_else(|| {
                Error::usage("the rate is out of range")
                    .with("workload", &workload.name)
                    .with("rate", rate)
                    .hint("ask for between one operation a year and 1,000,000,000 a second")
            })
    }

    /// Sets the origin, once, at the start of the load.
    pub fn start(&mut self, at: Stamp) {
        if let Schedule::Constant(c) = self {
            c.next += at.0;
        }
    }

    /// The intended time of the next operation; `None` in a closed loop.
    #[inline]
    pub fn peek(&self) -> Option<Stamp> {
        match self {
            Schedule::Burst => None,
            Schedule::Constant(c) => Some(Stamp(c.next)),
        }
    }

    /// Moves past the operation that [`Schedule::peek`] showed.
    #[inline]
    pub fn advance(&mut self) {
        if let Schedule::Constant(c) = self {
            c.advance();
        }
    }

    /// How many operations are due up to `until` (exclusive), from the next one on.
    pub fn due(&self, until: Stamp) -> u64 {
        match self {
            Schedule::Burst => 0,
            Schedule::Constant(c) => {
                // t_j = next + floor((carry + j * step) / over); count the j with t_j < until.
                let room = u128::try_from(until.since(Stamp(c.next))).unwrap_or(0) * c.over;
                let step = c.whole as u128 * c.over + c.part;
                room.saturating_sub(c.carry).div_ceil(step) as u64
            }
        }
    }
}

impl Constant {
    /// Step `num / den` ns over all workers, for the worker at `place`.
    fn new(num: u128, den: u128, place: Place) -> Option<Constant> {
        let year = 366 * 24 * 3_600 * 1_000_000_000u128;
        if den == 0 || num / den > year || num < den {
            return None;
        }
        let first = num * u128::from(place.index);
        let step = num * u128::from(place.of.max(1));
        Some(Constant {
            next: i64::try_from(first / den).ok()?,
            whole: i64::try_from(step / den).ok()?,
            part: step % den,
            over: den,
            carry: first % den,
        })
    }

    #[inline]
    fn advance(&mut self) {
        self.next += self.whole;
        self.carry += self.part;
        if self.carry >= self.over {
            self.carry -= self.over;
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::plan;
    use proptest::prelude::*;

    fn schedule(rate: &str, index: u32, of: u32) -> Schedule {
        let mut w = plan().workloads.remove(0);
        w.arrival = Arrival::Constant {
            rate: rate.parse().unwrap(),
        };
        Schedule::new(
            &w,
            Place {
                worker: index as u16,
                index,
                of,
            },
        )
        .unwrap()
    }

    fn times(mut s: Schedule, n: usize) -> Vec<i64> {
        (0..n)
            .map(|_| {
                let t = s.peek().unwrap().0;
                s.advance();
                t
            })
            .collect()
    }

    #[test]
    fn three_a_second_over_five_workers_is_three_a_second() {
        let mut all: Vec<i64> = (0..5)
            .flat_map(|k| times(schedule("3/s", k, 5), 6))
            .collect();
        all.sort_unstable();
        let expected: Vec<i64> = (0..30).map(|i| i * 1_000_000_000 / 3).collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn byte_rates_are_exact() {
        // 0.5 MiB/s of 4 KiB blocks: 128 per second.
        assert_eq!(
            times(schedule("0.5MiB/s", 0, 1), 3),
            [0, 7_812_500, 15_625_000]
        );
    }

    #[test]
    fn rates_out_of_range_are_refused() {
        let mut w = plan().workloads.remove(0);
        for rate in ["5000000000/s", "5/ns"] {
            w.arrival = Arrival::Constant {
                rate: rate.parse().unwrap(),
            };
            assert!(
                Schedule::new(
                    &w,
                    Place {
                        worker: 0,
                        index: 0,
                        of: 1
                    }
                )
                .is_err(),
                "{rate}"
            );
        }
    }

    proptest! {
        #[test]
        fn due_counts_what_peek_shows(rate in 1u64..1_000_000_000, until in -5i64..10_000, skip in 0usize..9) {
            let mut s = schedule(&format!("{rate}/s"), 0, 3);
            (0..skip).for_each(|_| s.advance());
            let due = s.due(Stamp(until));
            let shown = (0..10_001).take_while(|_| {
                let t = s.peek().unwrap();
                s.advance();
                t < Stamp(until)
            });
            prop_assert_eq!(due, shown.count() as u64);
        }

        #[test]
        fn constant_never_drifts(rate in 1u64..1_000_000_000, workers in 1u32..7, i in 0u64..5000) {
            let s = schedule(&format!("{rate}/s"), 1 % workers, workers);
            let t = *times(s, i as usize + 1).last().unwrap();
            let index = u128::from(i) * u128::from(workers) + u128::from(1 % workers);
            prop_assert_eq!(t as u128, index * 1_000_000_000 / u128::from(rate));
        }
    }
}
