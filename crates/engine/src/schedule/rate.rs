//! Rates of schedules as exact fractions; the mean size that a byte rate is met by is rounded to 1/1024 byte.

use taillight_core::plan::WorkloadPlan;
use taillight_core::units::{Rate, RateUnit};
use taillight_core::{Error, Result};

/// Nanoseconds an operation: `num / den`, all workers of the workload together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Nanoseconds.
    pub num: u128,
    pub den: u128,
}

/// A year, ns: nothing slower is a schedule.
const YEAR_NS: u128 = 366 * 24 * 3_600 * 1_000_000_000;

impl Gap {
    /// The gap for a rate of the workload. A byte rate is met by the mean block: that many operations of
    /// mixed sizes move the bytes asked, on average. Errors: `Usage` for a rate slower than one
    /// operation a year or faster than 1 per ns.
    pub fn of(rate: Rate, workload: &WorkloadPlan) -> Result<Gap> {
        // Time per operation = per_ns * den / num, times the mean bytes for a byte rate.
        // The mean is taken in 1/1024 bytes so that splits keep their fraction.
        let scale = match rate.unit {
            RateUnit::Ops => 1024,
            RateUnit::Bytes => (workload.mean_bytes() * 1024.0).round() as u128,
        };
        let num = u128::from(rate.per_ns) * u128::from(rate.den) * scale;
        let den = u128::from(rate.num) * 1024;
        if den == 0 || num / den > YEAR_NS || num < den {
            return Err(out_of_range(workload, rate));
        }
        let common = gcd(num, den);
        Ok(Gap { num: num / common, den: den / common })
    }
}

fn out_of_range(workload: &WorkloadPlan, rate: Rate) -> Error {
    Error::usage("the rate is out of range")
        .with("workload", &workload.name)
        .with("rate", rate)
        .hint("ask for between one operation a year and 1,000,000,000 a second")
}

/// Rates in a common unit: `unit` of it is one operation, `rates[i]` of it come in a nanosecond.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommonRate {
    /// Work of one operation.
    pub unit: u128,
    /// Work done in one nanosecond, per rate.
    pub rates: Vec<u128>,
}

impl CommonRate {
    /// The common unit of several rates. Errors: `Usage` when the rates have no common fraction of
    /// a usable size.
    pub fn of(gaps: &[Gap], workload: &WorkloadPlan) -> Result<CommonRate> {
        let unfit = || {
            Error::usage("these rates cannot be computed exactly together")
                .with("workload", &workload.name)
                .hint("use rates with fewer digits")
        };
        let mut unit = 1u128;
        for gap in gaps {
            unit = (unit / gcd(unit, gap.num)).checked_mul(gap.num).ok_or_else(unfit)?;
        }
        let mut rates = Vec::with_capacity(gaps.len());
        for gap in gaps {
            rates.push((unit / gap.num).checked_mul(gap.den).ok_or_else(unfit)?);
        }
        let common = rates.iter().fold(unit, |all, rate| gcd(all, *rate));
        unit /= common;
        rates.iter_mut().for_each(|rate| *rate /= common);
        // Work over 2^62 ns must fit 128 bits, twice.
        if unit >= 1 << 62 {
            return Err(unfit());
        }
        Ok(CommonRate { unit, rates })
    }
}

fn gcd(a: u128, b: u128) -> u128 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// How many of the indices `index`, `index + stride`, ... lie below `end`.
pub fn owned(index: u64, stride: u64, end: u64) -> u64 {
    end.saturating_sub(index).div_ceil(stride)
}
