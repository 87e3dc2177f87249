//! Ceilings: what the job asked, answered over all I/Os, those of a workload, or requests of several.
//!
//! What it is: which sample a ceiling is checked on, and the shares beside the answer. What it is not:
//! the test (`taillight_stats::ceiling`) or words. Requests are put together while the capture is
//! read (`analyse::requests`); of a run that did not keep every I/O nothing is known of them.

use taillight_core::plan::Ceiling;
use taillight_core::{LatencyMap, Result};
use taillight_rundir::summary::{Qos, QosStatus, RequestCheck, ShareOver};
use taillight_stats::{CeilingCheck, CeilingStatus, Intervals, request_share};

use super::IoSet;
use crate::analyse::dists::{LatencyDists, LatencySample, merged};
use crate::analyse::{Analysis, IoGroup, latency};

/// Every ceiling of the plan; `all` are all operations together. Errors: `Corrupt` when counts exceed
/// 64 bits.
pub fn ceilings(analysis: &Analysis, all: &IoSet) -> Result<Vec<Qos>> {
    let qos = &analysis.manifest.plan.qos;
    let (asked, looks) = (&qos.ceilings, f64::from(qos.looks.max(1)));
    let each = f64::min(0.025, 0.05 / asked.len() as f64);
    let error = FamilyError { alone: 0.025 / looks, each: each / looks };
    asked.iter().map(|ceiling| check(analysis, all, ceiling, error)).collect()
}

/// Share of runs at the limit in which a ceiling is called missed.
#[derive(Clone, Copy)]
struct FamilyError {
    /// For its own status.
    alone: f64,
    /// For the run's verdict: all ceilings together err in 5 % at most.
    each: f64,
}

fn check(analysis: &Analysis, all: &IoSet, ceiling: &Ceiling, error: FamilyError) -> Result<Qos> {
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
    let ios = of_sample(set.latencies.main(), ceiling, error);
    let above = set.slowest.kept_above(ceiling.ceiling.0);
    let episodes = latency::events(&above, set.slowest.span_ns());
    let count = set.latencies.main().count();
    let qos = Qos {
        ceiling_ns: ceiling.ceiling.0,
        at: ceiling.at.to_string(),
        status: status(&ios.alone),
        jointly: ios.jointly(),
        ends_missing: ios.alone.ends_missing,
        looks: Some(analysis.manifest.plan.qos.looks).filter(|looks| *looks > 1),
        above: ios.alone.above,
        episodes: episodes.list().len() as u64,
        needs: ios.alone.needs,
        decides_at: ios.alone.decides_at,
        op: None,
        count: Some(count),
        workload: ceiling.workload.clone(),
        share: Some(share(&ios.alone, count)),
        requests: None,
        cause: None,
    };
    match ceiling.fanout.filter(|fanout| *fanout > 1) {
        None => Ok(qos),
        Some(_) => of_requests(analysis, ceiling, workload, error, qos),
    }
}

/// The same for requests: the answer is that of the measured ones.
fn of_requests(
    analysis: &Analysis,
    ceiling: &Ceiling,
    workload: Option<u16>,
    error: FamilyError,
    ios: Qos,
) -> Result<Qos> {
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
    let measured = Some(&sample.service).filter(|s| !s.is_empty());
    let both = measured.map(|sample| (of_sample(sample, ceiling, error), sample.count()));
    let checked = both.as_ref().map(|(checks, count)| (&checks.alone, *count));
    let in_ios = |requests: Option<u64>| Some(requests?.saturating_mul(fanout.into()));
    let independent = ios.share.map(|s| ShareOver {
        share: s.share.map(|share| request_share(share, fanout)),
        lo: request_share(s.lo, fanout),
        hi: request_share(s.hi, fanout),
    });
    Ok(Qos {
        status: checked.map_or(QosStatus::Undecided, |(check, _)| status(check)),
        jointly: both.as_ref().and_then(|(checks, _)| checks.jointly()),
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
    })
}

/// A ceiling by itself, and as one of several.
struct Checks {
    alone: CeilingCheck,
    among_several: CeilingStatus,
}

impl Checks {
    fn jointly(&self) -> Option<QosStatus> {
        let missed = |status| status == CeilingStatus::Fail;
        let by_chance = missed(self.alone.status) && !missed(self.among_several);
        by_chance.then_some(QosStatus::Undecided)
    }
}

fn of_sample(sample: &LatencySample, ceiling: &Ceiling, error: FamilyError) -> Checks {
    let intervals = Intervals::new(sample, sample.dependence());
    let check = |alpha| intervals.check_ceiling_at(ceiling.ceiling.0, &ceiling.at, alpha);
    let alone = check(error.alone);
    // One of two ceilings at most errs no more often than both may.
    let among_several = match error.each < error.alone {
        true => check(error.each).status,
        false => alone.status,
    };
    Checks { alone, among_several }
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
