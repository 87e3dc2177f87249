//! The interval of a probe's percentile when slow I/Os come together.
//!
//! In a queue they do: one burst of arrivals makes hundreds of them late, and says as much about the
//! percentile as one I/O. What counts here are episodes (`taillight_stats::episodes`), so the interval is
//! wider than the one for independent I/Os, never narrower. It needs every I/O: where some were not
//! kept there is nothing to say, and the interval of the summary stands.

use std::path::Path;

use hdrhistogram::Histogram;
use taillight_core::Percentile;
use taillight_core::{Error, Result};
use taillight_rundir::ios::{ColumnSet, read_ios};
use taillight_rundir::{RunDir, names};
use taillight_stats::{episode_ci, group_episodes};

/// Where slow I/Os are rare in the probe, those within this time belong together, ns.
const GAP_NS: u64 = taillight_stats::episodes::DEFAULT_GAP_NS;

/// A percentile's interval by episodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpisodeInterval {
    /// Lower end, ns; none when there are too few episodes for it.
    pub lo_ns: Option<u64>,
    /// Upper end, ns.
    pub hi_ns: Option<u64>,
    /// How many independent I/Os would say as much.
    pub effective: u64,
}

/// What is looked at: the workload, the percentile, its value and the I/Os it rests on.
#[derive(Debug, Clone, Copy)]
pub struct JudgedPercentile {
    /// Index of the workload.
    pub workload: u16,
    pub at: Percentile,
    /// Its value, ns.
    pub ns: u64,
    pub count: u64,
}

/// Reads the I/Os of a probe; none when not all were kept or none is above the percentile.
///
/// Memory: 16 bytes for each I/O above the percentile, at most a tenth of all as this is asked from
/// the 90th up; the others are counted in a histogram. Errors: `Corrupt` or `Unavailable` when the
/// file cannot be read.
pub fn of_probe(dir: &Path, of: JudgedPercentile) -> Result<Option<EpisodeInterval>> {
    let dir = RunDir::open(dir)?;
    let Some(path) = dir.existing(names::IOS) else {
        return Ok(None);
    };
    let columns = ColumnSet::PHASE
        | ColumnSet::WORKLOAD
        | ColumnSet::INTENDED
        | ColumnSet::SUBMIT
        | ColumnSet::COMPLETE
        | ColumnSet::STATUS;
    let mut ios = ProbeIos::new(of)?;
    read_ios(&path, columns, &mut |b| {
        for i in 0..b.rows {
            let phase = b.phase_names.get(usize::from(b.phase[i]));
            let measured = phase.is_some_and(|p| p == "measure");
            if measured && b.workload[i] == of.workload {
                let start = b.intended[i].unwrap_or(b.submit[i]);
                ios.add(start, b.complete[i], b.status[i] == 0);
            }
        }
        Ok(())
    })?;
    Ok(ios.interval())
}

/// The measured I/Os of a workload, those above its percentile one by one.
struct ProbeIos {
    of: JudgedPercentile,
    /// Earliest start and latest completion.
    span: Option<(i64, i64)>,
    /// Latencies up to the percentile, in bins of 0.1 %.
    fast: Histogram<u64>,
    /// Start and completion of those above it.
    slow: Vec<(i64, i64)>,
}

impl ProbeIos {
    fn new(of: JudgedPercentile) -> Result<ProbeIos> {
        let fast = Histogram::new_with_max(i64::MAX as u64, 3);
        let fast = fast.map_err(|e| Error::internal("no histogram").with("why", e))?;
        Ok(ProbeIos { of, span: None, fast, slow: Vec::new() })
    }

    fn add(&mut self, start: i64, end: i64, good: bool) {
        let (from, to) = self.span.unwrap_or((start, end));
        self.span = Some((from.min(start), to.max(end)));
        let ns = latency((start, end));
        if good && ns > self.of.ns {
            self.slow.push((start, end));
        } else if good {
            self.fast.saturating_record(ns);
        }
    }

    /// The longest pause within an episode, ns: a tenth of the slow I/Os' spacing were they spread
    /// evenly over the whole probe, at most [`GAP_NS`]. Where slow ones are frequent, the usual gap
    /// would join strangers.
    fn gap_ns(&self) -> u64 {
        let whole = self.span.map_or(0, |(from, to)| to.abs_diff(from));
        GAP_NS.min(whole / (self.slow.len() as u64).max(1) / 10)
    }

    fn interval(&self) -> Option<EpisodeInterval> {
        let (fast, slow) = (self.fast.len(), self.slow.len() as u64);
        if fast + slow != self.of.count || slow == 0 {
            return None;
        }
        let episodes = group_episodes(&self.slow, self.gap_ns());
        let it = episode_ci(self.of.count, &self.of.at, &episodes);
        Some(EpisodeInterval {
            lo_ns: it.ci.lo_rank.and_then(|k| self.lower(k)),
            hi_ns: it.ci.hi_rank.map(|k| self.upper(k)),
            effective: it.effective_n,
        })
    }

    /// The value at a rank not above the percentile's, rounded down by up to a bin.
    fn lower(&self, rank: u64) -> Option<u64> {
        let mut before = 0;
        let bin = self.fast.iter_recorded().find(|bin| {
            before += bin.count_since_last_iteration();
            before >= rank
        })?;
        Some(self.fast.lowest_equivalent(bin.value_iterated_to()))
    }

    /// The value at a rank not below the percentile's, exact.
    fn upper(&self, rank: u64) -> u64 {
        let mut slow: Vec<u64> = self.slow.iter().copied().map(latency).collect();
        slow.sort_unstable();
        let above = rank.checked_sub(self.fast.len() + 1);
        let at = above.and_then(|i| slow.get(usize::try_from(i).ok()?));
        at.copied().unwrap_or(self.of.ns)
    }
}

fn latency((start, end): (i64, i64)) -> u64 {
    end.saturating_sub(start).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn of(ns: i64, count: u64) -> JudgedPercentile {
        JudgedPercentile {
            workload: 0,
            at: "99".parse().expect("a percentile"),
            ns: ns as u64,
            count,
        }
    }

    fn ios(of: JudgedPercentile, list: impl IntoIterator<Item = (i64, i64)>) -> ProbeIos {
        let mut ios = ProbeIos::new(of).expect("a histogram");
        for (start, ns) in list {
            ios.add(start, start + ns, true);
        }
        ios
    }

    /// 10,000 I/Os of 1 ms, 1 ms apart; 100 of 20 ms and more, in bursts of `burst`.
    fn probe(burst: i64) -> Option<EpisodeInterval> {
        let fast = (0..9_900).map(|i| (i * MS, MS));
        let slow = (0..100).map(|i| {
            let start = (i / burst) * 100 * MS * burst + i % burst * MS;
            (start, 20 * MS + i)
        });
        ios(of(MS, 10_000), fast.chain(slow)).interval()
    }

    #[test]
    fn bursts_say_as_much_as_single_ios() {
        let apart = probe(1).expect("an interval");
        assert_eq!(apart.effective, 10_000);
        assert!(apart.hi_ns.is_some());
        // In the bin of 1 ms, at its lower edge.
        let lo = apart.lo_ns.expect("an end");
        assert!((999_000..=1_000_000).contains(&lo), "{lo}");
        let together = probe(20).expect("an interval");
        assert_eq!(together.effective, 500, "20 I/Os weigh as much as one");
        assert!(together.hi_ns > apart.hi_ns, "{together:?} {apart:?}");
        // Two bursts say nothing about the upper end.
        assert_eq!(probe(50).expect("an interval").hi_ns, None);
    }

    /// A second of slow I/Os in a minute: with 7 ms between them, but one event.
    #[test]
    fn one_burst_is_one_event_though_its_ios_do_not_overlap() {
        let fast = (0..9_900).map(|i| (i * 6 * MS, MS));
        let slow = (0..100).map(|i| (30_000 * MS + i * 10 * MS, 3 * MS));
        let all = ios(of(MS, 10_000), fast.chain(slow));
        assert_eq!(all.gap_ns(), 10_000_000);
        let it = all.interval().expect("an interval");
        assert_eq!((it.effective, it.hi_ns), (100, None));
    }

    #[test]
    fn ends_of_the_interval_are_those_of_all_ios() {
        // One of each length: rank and value are the same, 1000 s long, nothing close.
        let list = (1..=10_000).map(|i| (i * 100 * MS, i * 1_000));
        let it = ios(of(9_900_000, 10_000), list).interval();
        let it = it.expect("an interval");
        let ci = taillight_stats::quantile_ci(10_000, &"99".parse().expect("valid"));
        assert_eq!(it.hi_ns, ci.hi_rank.map(|k| k * 1_000));
        let (lo, exact) = (it.lo_ns.zip(ci.lo_rank)).expect("an end");
        let exact = exact * 1_000;
        assert!(lo <= exact && lo >= exact - exact / 500, "{lo} {exact}");
    }

    #[test]
    fn what_was_not_kept_gives_no_interval() {
        assert_eq!(ios(of(1, 3), [(0, 1), (0, 2)]).interval(), None);
        assert_eq!(ios(of(1, 3), [(0, 1), (0, 1), (0, 1)]).interval(), None);
    }
}
