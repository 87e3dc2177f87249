//! Whether the figures of a result agree with each other. What no run has is refused here for every format, so that no
//! report is made of a damaged number.

use taillight_core::units::Span;
use taillight_core::units::readable::trimmed;
use taillight_core::{Error, Percentile, Result};
use taillight_rundir::origin::{ImportedLatency, ImportedOp};

use super::ForeignWorkload;

/// The last moment, in ns, that a result may name: half of what a stamp holds, so that what begins at it does, too.
pub const LAST_NS: i64 = i64::MAX / 2;
/// Most that bytes, or times in ns, of all operations add up to.
pub const MOST: u64 = 1 << 62;
/// Operations that a figure tells apart.
const MOST_OPERATIONS: u64 = 1 << 53;
/// Most of a rate, as a sum.
const MOST_RATE: f64 = 1e18;
/// Operations a second that no machine reaches: a call that does nothing takes longer on each of its processors.
const MOST_IOPS: f64 = 1e11;
/// The share by which a tool's percentiles may be above its maximum or below its minimum: fio prints the middle of a
/// bin, 64 to an octave.
const BIN: f64 = 1.0 / 64.0;
/// What a time in whole ms may lack, at both ends, ns.
const CUT_NS: u64 = 2_000_000;

/// Checks the figures of each operation, and what they add up to, and sorts percentiles: 0 and 100 become the least
/// and the most. Errors: `Corrupt` for what no run has.
pub fn agree(workloads: &mut [ForeignWorkload]) -> Result<()> {
    let wrong = |what: String| {
        Error::corrupt(what).hint("look for a number that is damaged, or was edited by hand")
    };
    for w in workloads.iter_mut() {
        for (op, it) in &mut w.figures.ops {
            let found = percentiles(&mut it.latency).and_then(|()| operation(it));
            found.map_err(|what| {
                wrong(what).with("of", &w.figures.name).with("operation", op.name())
            })?;
        }
    }
    let ops = || workloads.iter().flat_map(|w| w.figures.ops.values());
    let sum = |of: fn(&ImportedOp) -> u64| ops().map(|op| u128::from(of(op))).sum::<u128>();
    let counts = [sum(|op| op.count), sum(|op| op.latency.count)];
    if let Some(n) = counts.into_iter().find(|n| *n > u128::from(MOST_OPERATIONS)) {
        let what = "the result counts more operations than any run does";
        return Err(wrong(what.to_owned()).with("operations", n));
    }
    for (what, n) in [("bytes", sum(|op| op.bytes)), ("times", sum(|op| op.duration_ns))] {
        if n > u128::from(MOST) {
            return Err(wrong(format!("{what} that no run has, as a sum")).with("it", n));
        }
    }
    let rates = [ops().map(|op| op.iops).sum::<f64>(), ops().map(|op| op.bytes_per_s).sum()];
    match rates.iter().all(|rate| *rate <= MOST_RATE) {
        true => Ok(()),
        false => Err(wrong("a rate that no run has, as a sum".to_owned())),
    }
}

/// Sorts the percentiles, takes 0 and 100 for the least and the most, and refuses those that do not ascend.
fn percentiles(it: &mut ImportedLatency) -> Result<(), String> {
    let mut given = Vec::new();
    for p in std::mem::take(&mut it.percentiles) {
        let order = p.p.parse::<f64>().map_err(|_| format!("`{}` is no percentile", p.p))?;
        given.push((order, p));
    }
    given.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Of nothing there is none.
    if it.count == 0 {
        return Ok(());
    }
    if given.windows(2).any(|two| two[0].1.ns > two[1].1.ns) {
        return Err("percentiles that do not ascend".to_owned());
    }
    for (_, p) in given {
        // By its digits: as a number, one with twenty nines is 100.
        match trimmed(&p.p).as_str() {
            "0" => it.min_ns = it.min_ns.or(Some(p.ns)),
            "100" => it.max_ns = it.max_ns.or(Some(p.ns)),
            _ => {
                let why = |e| format!("`{}` is no percentile that is read: {e}", p.p);
                p.p.parse::<Percentile>().map_err(why)?;
                it.percentiles.push(p);
            }
        }
    }
    Ok(())
}

/// Refuses a figure that is no number, below zero or beyond any run, and one that another contradicts.
fn operation(op: &ImportedOp) -> Result<(), String> {
    let good = |v: f64| v.is_finite() && v >= 0.0;
    if !good(op.iops) || !good(op.bytes_per_s) {
        return Err("a rate that no run has".to_owned());
    }
    if op.errors > op.count {
        return Err(format!("{} of {} operations failed", op.errors, op.count));
    }
    // Rates may leave out where a run begins and ends; they are not twice what was done, nor half of it.
    let seconds = op.duration_ns.saturating_sub(CUT_NS) as f64 / 1e9;
    let beyond = |rate: f64, all: u64| all > 0 && rate * seconds > 2.0 * all as f64;
    if beyond(op.iops, op.count) || beyond(op.bytes_per_s, op.bytes) {
        return Err("a rate that is not that of its count and time".to_owned());
    }
    let whole = op.duration_ns.saturating_add(CUT_NS) as f64 / 1e9;
    // Rates are printed as whole numbers by some.
    let below = |rate: f64, all: u64| rate > 0.0 && all as f64 > 2.0 * (rate + 1.0) * whole + 1.0;
    if op.duration_ns > 0 && (below(op.iops, op.count) || below(op.bytes_per_s, op.bytes)) {
        return Err("a count that is not that of its rate and time".to_owned());
    }
    if op.duration_ns > 0 && op.count as f64 > MOST_IOPS * whole {
        return Err(format!("{} operations in {}", op.count, Span(op.duration_ns)));
    }
    latency(&op.latency)
}

fn latency(it: &ImportedLatency) -> Result<(), String> {
    let whole = [it.min_ns, it.max_ns].into_iter().flatten();
    let whole = whole.chain(it.percentiles.iter().map(|p| p.ns));
    let far = whole.chain(it.bins.iter().map(|bin| bin.hi_ns)).any(|ns| ns > LAST_NS as u64);
    let figures = [it.mean_ns, it.stddev_ns].into_iter().flatten();
    if far || figures.into_iter().any(|v| !v.is_finite() || v < 0.0 || v > LAST_NS as f64) {
        return Err("a latency that no run has".to_owned());
    }
    let step = it.step_ns.unwrap_or(1) as f64;
    let above = |ns: f64| ns * (1.0 + BIN) + step;
    let (min, max) = (it.min_ns.map_or(0.0, |ns| ns as f64), it.max_ns.map(|ns| ns as f64));
    let max = max.unwrap_or(LAST_NS as f64);
    let outside = |least: f64, most: f64| least > above(max) || above(most) < min;
    if min > max {
        return Err("the least latency is above the most".to_owned());
    }
    if it.mean_ns.is_some_and(|mean| outside(mean, mean)) {
        return Err("the mean is not between the least latency and the most".to_owned());
    }
    if it.percentiles.iter().any(|p| outside(p.ns as f64, p.ns as f64)) {
        return Err("a percentile is not between the least latency and the most".to_owned());
    }
    let falls = it.bins.windows(2).any(|two| two[0].lo_ns > two[1].lo_ns);
    if falls || it.bins.iter().any(|bin| bin.lo_ns > bin.hi_ns) {
        return Err("counts by latency do not ascend".to_owned());
    }
    if it.bins.iter().any(|bin| outside(bin.lo_ns as f64, bin.hi_ns as f64)) {
        return Err("counts by latency are not between the least and the most".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use taillight_core::OpKind;
    use taillight_rundir::origin::{ImportedBin, ImportedPercentile};

    use super::*;

    fn op() -> ImportedOp {
        let percentile = |(p, ns): &(&str, u64)| ImportedPercentile { p: (*p).to_owned(), ns: *ns };
        ImportedOp {
            count: 1_000,
            errors: 1,
            bytes: 4_096_000,
            duration_ns: 1_000_000_000,
            iops: 1_000.0,
            bytes_per_s: 4_096_000.0,
            latency: ImportedLatency {
                count: 999,
                min_ns: Some(1_000),
                max_ns: Some(9_000),
                mean_ns: Some(2_000.0),
                percentiles: [("50", 1_500), ("99.9", 9_100)].iter().map(percentile).collect(),
                bins: vec![ImportedBin { lo_ns: 8_990, hi_ns: 9_100, count: 999 }],
                ..ImportedLatency::default()
            },
        }
    }

    fn said(edit: impl Fn(&mut ImportedOp)) -> Result<ImportedOp, String> {
        let mut it = op();
        edit(&mut it);
        let mut all = ForeignWorkload::only("a", 1, 1, BTreeMap::from([(OpKind::Read, it)]));
        agree(&mut all).map_err(|e| e.to_string())?;
        Ok(all.remove(0).figures.ops.remove(&OpKind::Read).expect("it"))
    }

    #[test]
    fn figures_that_contradict_each_other_are_refused() {
        assert!(said(|_| ()).is_ok());
        type Edit = fn(&mut ImportedOp);
        let bad: [(&str, Edit); 18] = [
            ("a count that is not that of its rate", |it| it.count = 1_000_000_000_000),
            ("a count that is not that of its rate", |it| it.bytes = 1 << 50),
            ("operations in", |it| (it.count, it.iops) = (1_000_000_000_000, 0.0)),
            ("failed", |it| it.errors = 1_001),
            ("not that of its count", |it| it.iops = 1e9),
            ("not that of its count", |it| it.bytes_per_s = 1e15),
            ("a rate that no run has", |it| it.iops = f64::NAN),
            ("least latency is above", |it| it.latency.min_ns = Some(9_001)),
            ("the mean", |it| it.latency.mean_ns = Some(900.0)),
            ("the mean", |it| it.latency.mean_ns = Some(9_200.0)),
            ("do not ascend", |it| it.latency.percentiles[0].ns = 9_101),
            ("a percentile is not between", |it| it.latency.percentiles[1].ns = 9_200),
            ("counts by latency do not ascend", |it| it.latency.bins[0].lo_ns = 9_200),
            ("counts by latency are not", |it| {
                (it.latency.bins[0].lo_ns, it.latency.bins[0].hi_ns) = (9_200, 9_300);
            }),
            ("a latency that no run has", |it| it.latency.max_ns = Some(u64::MAX)),
            ("bytes that no run has", |it| (it.bytes, it.bytes_per_s) = (u64::MAX, 0.0)),
            ("times that no run has", |it| {
                (it.duration_ns, it.iops, it.bytes_per_s) = (u64::MAX, 0.0, 0.0)
            }),
            ("more operations", |it| {
                (it.count, it.duration_ns, it.iops, it.bytes_per_s) = (u64::MAX, 0, 0.0, 0.0)
            }),
        ];
        for (words, edit) in bad {
            let e = said(edit).err().unwrap_or_else(|| panic!("{words}: accepted"));
            assert!(e.contains(words), "{words}: {e}");
        }
        let two = [op(), op()].map(|mut it| {
            (it.bytes, it.bytes_per_s) = ((1 << 61) + 1, 0.0);
            it
        });
        let kinds = [OpKind::Read, OpKind::Write].into_iter().zip(two).collect();
        let e = agree(&mut ForeignWorkload::only("a", 1, 1, kinds)).unwrap_err().to_string();
        assert!(e.contains("as a sum"), "{e}");
    }

    /// YCSB prints such with `hdrhistogram.percentiles=0,50,100`.
    #[test]
    fn the_percentiles_0_and_100_are_the_least_and_the_most() {
        let with = |p: &str, ns| {
            said(move |it| {
                (it.latency.min_ns, it.latency.max_ns) = (None, None);
                it.latency.percentiles.push(ImportedPercentile { p: p.to_owned(), ns });
            })
        };
        let it = with("100", 9_500).unwrap().latency;
        assert_eq!((it.max_ns, it.percentiles.len()), (Some(9_500), 2));
        assert_eq!(with("0.0", 7).unwrap().latency.min_ns, Some(7));
        for (p, ns) in [("1000", 9_999), ("x", 1), ("-1", 1), ("99.99999999999999999999", 9_999)] {
            assert!(with(p, ns).unwrap_err().contains("no percentile"), "{p}");
        }
    }
}
