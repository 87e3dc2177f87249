//! Answers the ceilings of a job: over all I/Os, those of a workload, or requests of several, with the
//! shares beside the answer. The test is `taillight_stats::ceiling`.
//!
//! Requests are put together while the capture is read (`analyse::requests`); of a run that did not keep
//! every I/O nothing is known of them.

use taillight_core::plan::Ceiling;
use taillight_core::{LatencyMap, Result};
use taillight_rundir::summary::{Qos, QosStatus, RequestCheck, ShareOver};
use taillight_stats::{CeilingCheck, CeilingStatus, Intervals, request_share};

use super::IoSet;
use crate::analyse::dists::{LatencyDists, LatencySample, merged};
use crate::analyse::{Analysis, IoGroup, latency};
use crate::verdict::saturation::measured_ns;

/// Share of runs at the limit in which a ceiling by itself is called kept, or missed.
const ALONE: f64 = 0.025;
/// Share of runs, all of whose ceilings are at the limit, that are called to have missed one.
const FAMILY: f64 = 0.05;

/// Every ceiling of the plan; `all` are all operations together. Errors: `Corrupt` when counts exceed
/// 64 bits.
pub fn ceilings(analysis: &Analysis, all: &IoSet) -> Result<Vec<Qos>> {
    let qos = &analysis.manifest.plan.qos;
    // Looks at one question share its error.
    let [alone, family] = [ALONE, FAMILY].map(|error| error / f64::from(qos.looks.max(1)));
    let asked = qos.ceilings.iter();
    let all: Result<Vec<CheckedCeiling>> = asked.map(|c| check(analysis, all, c, alone)).collect();
    let mut all = all?;
    among_several(&mut all, alone, family);
    Ok(all.into_iter().map(|checked| checked.qos).collect())
}

/// A ceiling with its answer, and the sample that it was checked on; none where that is not known or not asked again.
struct CheckedCeiling<'a> {
    ceiling: &'a Ceiling,
    sample: Option<LatencySample>,
    qos: Qos,
}

impl CheckedCeiling<'_> {
    /// Whether it is missed where a share `alpha` of runs at the limit may be called so.
    fn is_missed(&self, alpha: f64) -> bool {
        let check = self.sample.as_ref().map(|s| of_sample(s, self.ceiling, alpha, u64::MAX));
        check.is_some_and(|check| check.status == CeilingStatus::Fail)
    }
}

/// Which missed ceilings the run's verdict takes for missed: as many as Holm's procedure (Scandinavian
/// Journal of Statistics 6, 1979) holds to. Of m ceilings one is to be missed at an error of `family` / m;
/// of the rest one at `family` / (m - 1); and so on, none at more than `alone`. That all are kept needs no
/// such care: where one is not, that one has to be called kept by chance.
fn among_several(all: &mut [CheckedCeiling], alone: f64, family: f64) {
    let missed_alone = |i: &usize| all[*i].qos.status == QosStatus::Fail;
    let mut open: Vec<usize> = (0..all.len()).filter(missed_alone).collect();
    let mut left = all.len();
    while !open.is_empty() {
        let each = family / left as f64;
        let (missed, rest): (Vec<usize>, Vec<usize>) =
            open.iter().partition(|i| each >= alone || all[**i].is_missed(each));
        if missed.is_empty() {
            break;
        }
        left -= missed.len();
        open = rest;
    }
    for i in open {
        all[i].qos.jointly = Some(QosStatus::Undecided);
    }
}

fn check<'a>(
    analysis: &Analysis,
    all: &IoSet,
    ceiling: &'a Ceiling,
    alpha: f64,
) -> Result<CheckedCeiling<'a>> {
    let place = |name: &String| {
        let workloads = &analysis.manifest.plan.workloads;
        workloads.iter().position(|w| w.name == *name).and_then(|i| u16::try_from(i).ok())
    };
    let workload = ceiling.workload.as_ref().and_then(place);
    let own = match workload {
        None => None,
        Some(index) => {
            let groups = analysis.groups.iter();
            let of: Vec<&IoGroup> =
                groups.filter(|g| g.workload == index && analysis.is_whole(g.op)).collect();
            Some(IoSet::of(&of)?)
        }
    };
    let set = own.as_ref().unwrap_or(all);
    let sample = set.latencies.main();
    let ios = of_sample(sample, ceiling, alpha, load_ns(analysis));
    let above = set.slowest.kept_above(ceiling.ceiling.0);
    let episodes = latency::events(&above, set.slowest.span_ns());
    let count = sample.count();
    // Of a program that is watched it is not known who waits for what it does.
    let closed = is_closed(analysis, workload) && !analysis.manifest.origin.is_watched();
    let time_share = closed.then(|| sample.time_share_above(ceiling.ceiling.0)).flatten();
    let qos = Qos {
        ceiling_ns: ceiling.ceiling.0,
        at: ceiling.at.to_string(),
        status: status(&ios),
        jointly: None,
        ends_missing: ios.ends_missing,
        looks: Some(analysis.manifest.plan.qos.looks).filter(|looks| *looks > 1),
        above: ios.above,
        episodes: episodes.list().len() as u64,
        needs: ios.needs,
        decides_at: ios.decides_at,
        op: None,
        count: Some(count),
        workload: ceiling.workload.clone(),
        share: Some(share(&ios, count)),
        time_share,
        requests: None,
        cause: None,
    };
    match ceiling.fanout.filter(|fanout| *fanout > 1) {
        None => {
            // A copy of all latencies: only what is missed is asked again.
            let sample = (qos.status == QosStatus::Fail).then(|| sample.clone());
            Ok(CheckedCeiling { ceiling, sample, qos })
        }
        Some(_) => of_requests(analysis, ceiling, workload, alpha, qos),
    }
}

/// Whether every measured workload that a ceiling is for is a closed loop.
fn is_closed(analysis: &Analysis, workload: Option<u16>) -> bool {
    let all = analysis.manifest.plan.workloads.iter().enumerate();
    let mut of = all.filter(|(i, w)| w.measured && workload.is_none_or(|n| usize::from(n) == *i));
    of.all(|(_, w)| w.arrival.is_closed())
}

/// The same for requests: the answer is that of the measured ones.
fn of_requests<'a>(
    analysis: &Analysis,
    ceiling: &'a Ceiling,
    workload: Option<u16>,
    alpha: f64,
    ios: Qos,
) -> Result<CheckedCeiling<'a>> {
    let fanout = ceiling.fanout.unwrap_or(1);
    let wanted = |w: u16| workload.is_none_or(|only| only == w);
    let groups = analysis.requests.iter().filter(|g| g.fanout == fanout && wanted(g.workload));
    let mut sample = LatencyDists::default();
    for group in groups {
        sample = merged(&sample, &LatencyMap::new(group.sample.clone())).map_err(|e| {
            taillight_core::Error::corrupt("the run holds more requests than can be counted")
                .source(e)
        })?;
    }
    let sample = Some(sample.service).filter(|s| !s.is_empty());
    let load_ns = load_ns(analysis);
    let check = sample.as_ref().map(|s| (of_sample(s, ceiling, alpha, load_ns), s.count()));
    let checked = check.as_ref().map(|(check, count)| (check, *count));
    let in_ios = |requests: Option<u64>| Some(requests?.saturating_mul(fanout.into()));
    let independent = ios.share.map(|s| ShareOver {
        share: s.share.map(|share| request_share(share, fanout)),
        lo: request_share(s.lo, fanout),
        hi: request_share(s.hi, fanout),
    });
    let qos = Qos {
        status: checked.map_or(QosStatus::Undecided, |(check, _)| status(check)),
        ends_missing: checked.is_some_and(|(check, _)| check.ends_missing),
        needs: checked.and_then(|(c, _)| in_ios(c.needs)),
        decides_at: checked.and_then(|(c, _)| in_ios(c.decides_at)),
        requests: Some(RequestCheck {
            fanout,
            count: checked.map(|(_, count)| count),
            failed: checked.map(|(check, _)| check.above),
            measured: checked.map(|(check, count)| share(check, count)),
            independent: independent.unwrap_or(ShareOver { share: None, lo: 0.0, hi: 1.0 }),
        }),
        ..ios
    };
    Ok(CheckedCeiling { ceiling, sample, qos })
}

/// How long there was load, ns.
fn load_ns(analysis: &Analysis) -> u64 {
    measured_ns(analysis).unwrap_or(analysis.duration_ns)
}

fn of_sample(sample: &LatencySample, ceiling: &Ceiling, alpha: f64, load_ns: u64) -> CeilingCheck {
    let intervals = Intervals::new(sample, sample.dependence()).of_load(load_ns);
    intervals.check_ceiling_at(ceiling.ceiling.0, &ceiling.at, alpha)
}

fn status(check: &CeilingCheck) -> QosStatus {
    match check.status {
        CeilingStatus::Pass => QosStatus::Pass,
        CeilingStatus::Fail => QosStatus::Fail,
        CeilingStatus::Undecided => QosStatus::Undecided,
    }
}

fn share(check: &CeilingCheck, count: u64) -> ShareOver {
    ShareOver {
        share: (count > 0).then(|| check.above as f64 / count as f64),
        lo: check.share_lo,
        hi: check.share_hi,
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use taillight_core::Percentile;
    use taillight_core::units::Span;
    use taillight_stats::{Dist, TimeGrid, TimeWindow};

    use super::*;

    /// I/Os of 100 ns, some of 1,000, one a microsecond.
    fn sample(slow: impl Iterator<Item = bool>) -> LatencySample {
        let slow: Vec<bool> = slow.collect();
        let all = || slow.iter().map(|slow| if *slow { 1_000u64 } else { 100 });
        let mut grid = TimeGrid::new(TimeWindow::new(0, 1_000 * slow.len() as i64));
        for (i, ns) in all().enumerate() {
            grid.push(1_000 * i as i64, ns);
        }
        LatencySample::new(all().collect::<Dist>(), grid)
    }

    fn checked(ceiling: &Ceiling, sample: LatencySample) -> CheckedCeiling<'_> {
        let mut qos = taillight_rundir::fixture::summary("r").qos.remove(0);
        qos.status = status(&of_sample(&sample, ceiling, ALONE, u64::MAX));
        CheckedCeiling { ceiling, sample: Some(sample), qos }
    }

    fn missed(all: &[CheckedCeiling]) -> usize {
        all.iter().filter(|c| c.qos.among_all() == QosStatus::Fail).count()
    }

    /// A share of 10 % where 10 % may be: of five ceilings one is missed by itself in up to 12 % of runs.
    /// (The dependence of each is estimated, which makes it fewer.)
    #[test]
    fn of_several_ceilings_at_the_limit_one_is_missed_in_five_per_cent_of_runs() {
        const RUNS: u64 = 1_500;
        let ceiling = Ceiling::new(Span(500), Percentile::hundredths(90_00));
        let (mut alone, mut jointly) = (0, 0);
        for seed in 0..RUNS {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut one = || {
                let slow = (0..400).map(|_| random.random::<f64>() < 0.1);
                checked(&ceiling, sample(slow))
            };
            let mut all: Vec<CheckedCeiling> = (0..5).map(|_| one()).collect();
            alone += u64::from(missed(&all) > 0);
            among_several(&mut all, ALONE, FAMILY);
            jointly += u64::from(missed(&all) > 0);
        }
        let most = 0.05 + 3.0 * (0.05f64 * 0.95 / RUNS as f64).sqrt();
        assert!(jointly as f64 <= most * RUNS as f64, "{jointly} of {RUNS}");
        assert!(alone > jointly, "{alone} and {jointly} of {RUNS}");
    }

    /// With one surely missed, four are left to share the error, and so on: the weakest of five is held to
    /// what it would be by itself. The first step alone would leave it undecided.
    #[test]
    fn what_is_surely_missed_leaves_its_error_to_the_rest() {
        let ceiling = Ceiling::new(Span(500), Percentile::hundredths(90_00));
        let share = |per_mille: usize| {
            let slow =
                (0..1_000).map(move |i| i * per_mille / 1_000 != (i + 1) * per_mille / 1_000);
            checked(&ceiling, sample(slow))
        };
        let weak = (101..200).find(|n| share(*n).is_missed(ALONE)).expect("one is missed");
        assert!(!share(weak).is_missed(FAMILY / 5.0));
        let joint = |shares: [usize; 5]| {
            let mut all: Vec<CheckedCeiling> = shares.into_iter().map(share).collect();
            among_several(&mut all, ALONE, FAMILY);
            missed(&all)
        };
        assert_eq!(joint([300, 300, 300, 300, weak]), 5);
        assert_eq!(
            joint([300, 300, 300, 50, weak]),
            4,
            "of two that are left each may err in 2.5 %"
        );
        assert_eq!(joint([300, 50, 50, 50, weak]), 1);
        assert_eq!(joint([50, 50, 50, 50, weak]), 0);
    }
}
