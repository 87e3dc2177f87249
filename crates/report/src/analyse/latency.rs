//! From a distribution to the numbers of `summary.json`: percentiles with intervals, nines, moments, bins, SLC.
//!
//! An unresolved percentile has no `ns`, only the run's own `observed_ns`; `stats::Intervals` says which those are.

use std::collections::BTreeMap;

use taillight_core::Percentile;
use taillight_rundir::latency::{
    EpisodesEntry, Latency, LatencySource, NineEntry, ObservedLatency, PercentileEntry, Quantile,
};
use taillight_rundir::summary::{Bin, Distribution, SlcFactors, SlcPair};
use taillight_stats::bins::{BINS_PER_DECADE, whole_ns};
use taillight_stats::episodes::DEFAULT_GAP_NS;
use taillight_stats::{Dist, Estimate, Intervals, LogBins, SbkSlc, group_episodes, slc};

use super::dists::{LatencyDists, LatencySample, headline, headline_kind};
use super::slowest::SlowestIos;

/// Which percentiles are asked for.
#[derive(Debug, Clone)]
pub struct AskedPercentiles {
    /// Percentiles, ascending, each once, 100 left out: the maximum stands beside them.
    pub percentiles: Vec<Percentile>,
    pub nines: u8,
}

impl AskedPercentiles {
    pub fn new(percentiles: &[Percentile], nines: u32) -> AskedPercentiles {
        let mut list: Vec<Percentile> =
            percentiles.iter().copied().filter(|p| *p != Percentile::MAX).collect();
        list.sort_unstable();
        list.dedup();
        AskedPercentiles { percentiles: list, nines: nines.clamp(1, 9) as u8 }
    }
}

/// Where a distribution came from.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Origin {
    pub source: LatencySource,
    pub error: f64,
}

impl Origin {
    /// Every I/O: exact.
    pub const CAPTURE: Origin = Origin { source: LatencySource::Capture, error: 0.0 };
    /// Another tool; its bins say how exact it is.
    pub const IMPORTED: Origin = Origin { source: LatencySource::Imported, error: 0.0 };
    /// An HdrHistogram of three digits.
    pub const HISTOGRAM: Origin = Origin { source: LatencySource::Histogram, error: 0.001 };
}

/// The latency object of one sample. `slowest` are its slowest I/Os, for episodes.
pub fn latency(
    sample: &LatencySample,
    origin: Origin,
    asked: &AskedPercentiles,
    slowest: Option<&SlowestIos>,
    out_of_range: Option<u64>,
) -> Latency {
    let intervals = Intervals::new(sample, sample.dependence());
    // A nine may be among the percentiles, too: each is estimated once.
    let mut known: BTreeMap<Percentile, Quantile> = BTreeMap::new();
    let mut quantile = |p: Percentile| {
        let found = known.entry(p);
        found.or_insert_with(|| quantile(sample, &intervals.estimate(&p), slowest)).clone()
    };
    let mut entry = |p: &Percentile| PercentileEntry { p: p.to_string(), quantile: quantile(*p) };
    let percentiles = asked.percentiles.iter().map(&mut entry).collect();
    let nines = (1..=asked.nines)
        .filter_map(|k| Some((k, Percentile::nines(k)?)))
        .map(|(k, p)| NineEntry { k: u32::from(k), quantile: quantile(p) })
        .collect();
    let moments = sample.moments();
    Latency {
        count: sample.count(),
        min_ns: sample.min(),
        max_ns: sample.max(),
        mean_ns: sample.mean(),
        stddev_ns: moments.map(|m| m.stddev),
        skewness: moments.and_then(|m| m.skewness),
        kurtosis: moments.and_then(|m| m.kurtosis),
        source: origin.source,
        error: origin.error,
        percentiles,
        nines,
        observed: observed(sample),
        out_of_range,
    }
}

/// Median, 99 %, 99.9 % and maximum of the run itself, asked for or not; none without a value.
fn observed(dist: &Dist) -> Option<ObservedLatency> {
    let nine = |k| dist.percentile(&Percentile::nines(k)?);
    Some(ObservedLatency {
        p50_ns: dist.percentile(&"50".parse().ok()?)?,
        p99_ns: nine(2)?,
        p99_9_ns: nine(3)?,
        max_ns: dist.max()?,
    })
}

fn quantile(sample: &LatencySample, it: &Estimate, slowest: Option<&SlowestIos>) -> Quantile {
    Quantile {
        ns: it.value,
        observed_ns: sample.percentile(&it.pct),
        bin: None,
        lo_ns: it.lo,
        hi_ns: it.hi,
        bound_ns: it.bound,
        resolved: it.resolved,
        needs: it.needs.unwrap_or(u64::MAX),
        interval_needs: it.interval_needs,
        effective: Some(it.effective),
        above: it.value.map(|ns| sample.count_above(ns)),
        episodes: slowest.and_then(|slowest| episodes(sample, &it.pct, slowest)),
    }
}

/// The episodes of a percentile from 90 % on, when one of them holds more than half of the I/Os above the percentile
/// and spans at most half of the run; none where not all of those I/Os were kept.
fn episodes(dist: &Dist, pct: &Percentile, slowest: &SlowestIos) -> Option<EpisodesEntry> {
    // Below the 90th percentile the slow ones are no longer exceptions.
    if *pct < Percentile::nines(1)? {
        return None;
    }
    let ns = dist.percentile(pct)?;
    let above = slowest.above(ns, dist.count_above(ns))?;
    if above.len() < 2 {
        return None;
    }
    let groups = events(&above, slowest.span_ns());
    let largest = groups.largest()?;
    // What fills half of the run is its usual state and no event.
    if !groups.is_dominated() || largest.span_ns() > slowest.span_ns() / 2 {
        return None;
    }
    Some(EpisodesEntry { count: groups.list().len() as u64, largest: largest.count })
}

/// Groups slow I/Os, given as stamps of begin and end, into events. The gap that parts two events is the default
/// one, or a tenth of the I/Os' mean distance where that is shorter.
pub fn events(stamps: &[(i64, i64)], span_ns: u64) -> taillight_stats::Episodes {
    let usual = span_ns / (stamps.len() as u64).max(1);
    group_episodes(stamps, DEFAULT_GAP_NS.min(usual / 10))
}

/// The distribution in 50 bins per decade, from the first to the last that holds a value; `seconds` is what rates
/// divide by.
pub fn distribution(dist: &Dist, seconds: f64) -> Distribution {
    let bins = LogBins::from_dist(dist);
    let occupied = bins.occupied();
    let list = occupied
        .into_iter()
        .flat_map(|(first, last)| first..=last)
        .filter_map(|i| Some((whole_ns(i), *bins.counts.get(i)?)))
        .filter(|(range, _)| !range.is_empty())
        .map(|(range, count)| Bin {
            lo_ns: range.start,
            hi_ns: range.end,
            count,
            per_s: per_s(count as f64, seconds),
        })
        .collect();
    Distribution {
        bins_per_decade: BINS_PER_DECADE as u32,
        below: bins.below,
        above: bins.above,
        bins: list,
    }
}

/// A rate; 0 when no time passed, so that JSON stays readable.
pub fn per_s(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { amount / seconds } else { 0.0 }
}

/// All variants of the SLC factors of the headline latency (`headline_kind`).
pub fn slc_factors(latencies: &LatencyDists) -> SlcFactors {
    let dist: &Dist = headline(latencies);
    let real = slc::Slc::from_dist(dist);
    let pair = |s: SbkSlc| SlcPair { slc1: s.slc1, slc2: s.slc2 };
    SlcFactors {
        latency: Some(headline_kind(latencies).name().to_owned()),
        slc1: real.slc1,
        slc2: real.slc2,
        sbk21: pair(SbkSlc::list_21(dist)),
        sbk28: pair(SbkSlc::list_28(dist)),
        unit: "ns".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyse::slowest::SlowestKeeper;
    use taillight_stats::{TimeGrid, TimeWindow};

    fn asked() -> AskedPercentiles {
        let list = ["50", "99", "99.99", "100", "50.0"].map(|p| p.parse().expect("a percentile"));
        AskedPercentiles::new(&list, 4)
    }

    /// I/Os of these latencies, one after the other, 10 us apart.
    fn sample(values: impl IntoIterator<Item = u64>) -> LatencySample {
        let values: Vec<u64> = values.into_iter().collect();
        let mut grid = TimeGrid::new(TimeWindow::new(0, values.len() as i64 * 10_000));
        values.iter().zip((0..).step_by(10_000)).for_each(|(ns, at)| grid.push(at, *ns));
        LatencySample::new(Dist::from_values(values), grid)
    }

    #[test]
    fn unresolved_has_no_value() {
        // In an order that tells nothing.
        let mut values: Vec<u64> = (1..=1_000).collect();
        values.sort_by_key(|i| (i * 0x9E37).pow(2) >> 11 & 0xFFFF);
        let it = sample(values);
        let it = latency(&it, Origin::CAPTURE, &asked(), None, None);
        let shown: Vec<_> = it.percentiles.iter().map(|p| (p.p.as_str(), p.ns)).collect();
        assert_eq!(shown, [("50", Some(500)), ("99", Some(990)), ("99.99", None)]);
        assert_eq!(it.percentiles[2].needs, 29_956);
        assert_eq!(it.nines[2].ns, None, "1,000 I/Os cannot resolve 99.9 %");
    }

    #[test]
    fn what_the_run_itself_took_is_there_without_being_asked() {
        let it = sample(1..=640u64);
        let few = AskedPercentiles::new(&["99.99".parse().expect("a percentile")], 4);
        let it = latency(&it, Origin::CAPTURE, &few, None, None);
        let own = ObservedLatency { p50_ns: 320, p99_ns: 634, p99_9_ns: 640, max_ns: 640 };
        assert_eq!(it.observed, Some(own));
        assert_eq!((it.percentiles[0].ns, it.percentiles[0].observed_ns), (None, Some(640)));
        assert_eq!((it.nines[2].ns, it.nines[2].observed_ns), (None, Some(640)));
        let none = latency(&sample([]), Origin::CAPTURE, &few, None, None);
        assert_eq!((none.observed, none.nines[0].observed_ns), (None, None));
    }

    #[test]
    fn one_stall_is_named_as_one_episode() {
        let mut values = vec![100; 100_000];
        let mut slowest = SlowestKeeper::new(1_000);
        for i in 0..500 {
            let ns = 5_000_000 + i as u64;
            values.push(ns);
            slowest.push(ns, i, i + ns as i64);
        }
        let asked = AskedPercentiles::new(&[], 3);
        let slowest = slowest.finish(1_000_000_000);
        let it = latency(&sample(values), Origin::CAPTURE, &asked, Some(&slowest), None);
        let three = &it.nines[2];
        let episodes = three.episodes.clone().unwrap();
        assert_eq!((episodes.count, episodes.largest), (1, 100));
        assert_eq!((three.bound_ns, three.hi_ns), (None, None), "one event bounds nothing");
        assert!(three.effective.is_some_and(|n| n < 1_000), "{three:?}");
    }

    #[test]
    fn bins_are_contiguous_and_complete() {
        let dist = Dist::from_values(vec![5, 12, 1_000, 1_000, 2_000_000, 200_000_000_000]);
        let it = distribution(&dist, 2.0);
        assert_eq!((it.below, it.above), (1, 1));
        assert_eq!(it.bins.iter().map(|b| b.count).sum::<u64>(), 4);
        assert!(it.bins.windows(2).all(|w| w[0].hi_ns == w[1].lo_ns));
        assert_eq!(it.bins.iter().find(|b| b.count == 2).map(|b| b.per_s), Some(1.0));
    }
}
