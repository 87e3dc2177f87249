//! The latency distributions of a set of I/Os, by kind, and of two sets together.

use std::ops::Deref;
use std::sync::Arc;

use taillight_core::{LatencyKind, LatencyMap};
use taillight_stats::{Dependence, Dist, DistError, TimeGrid};

/// One kind of latency of a set of I/Os: its values with their counts, and how they lie in time. A clone shares
/// both: where a run has one operation, the samples of run, operation and workload are one in memory.
#[derive(Debug, Clone, Default)]
pub struct LatencySample {
    dist: Arc<Dist>,
    dependence: Arc<Dependence>,
}

impl LatencySample {
    pub fn new(dist: Dist, grid: TimeGrid) -> LatencySample {
        LatencySample { dist: Arc::new(dist), dependence: Arc::new(Dependence::new(grid)) }
    }

    pub fn dependence(&self) -> &Dependence {
        &self.dependence
    }

    fn merged(&self, other: &LatencySample) -> Result<LatencySample, DistError> {
        let mut grid = self.dependence.grid().clone();
        grid.merge(other.dependence.grid());
        Ok(LatencySample::new(self.dist.merge(&other.dist)?, grid))
    }
}

impl PartialEq for LatencySample {
    fn eq(&self, other: &LatencySample) -> bool {
        self.dist == other.dist && self.dependence.grid() == other.dependence.grid()
    }
}

impl Deref for LatencySample {
    type Target = Dist;
    fn deref(&self) -> &Dist {
        &self.dist
    }
}

/// The latencies of one set of I/Os.
pub type LatencyDists = LatencyMap<LatencySample>;

/// The kind that a reader of the report is after: end to end where there is one, response with a
/// schedule, else service.
pub fn headline_kind(latencies: &LatencyDists) -> LatencyKind {
    let kinds = [LatencyKind::EndToEnd, LatencyKind::Response];
    let known = |kind: &LatencyKind| latencies.get(*kind).is_some_and(|d| !d.is_empty());
    kinds.into_iter().find(known).unwrap_or(LatencyKind::Service)
}

/// The distribution of [`headline_kind`].
pub fn headline(latencies: &LatencyDists) -> &LatencySample {
    let kind = headline_kind(latencies);
    latencies.get(kind).unwrap_or(&latencies.service)
}

/// Both sets together. Where only one side had a schedule, the I/Os of the other count with their service time as
/// response and a wait of 0; any other kind that one side alone has is taken from it.
pub fn merged(a: &LatencyDists, b: &LatencyDists) -> Result<LatencyDists, DistError> {
    let mut all = LatencyDists::default();
    for kind in LatencyKind::ALL {
        if a.get(kind).is_none() && b.get(kind).is_none() {
            continue;
        }
        let dist = match (with_schedule(a, kind)?, with_schedule(b, kind)?) {
            (Some(a), Some(b)) if a.is_empty() => b,
            (Some(a), Some(b)) if b.is_empty() => a,
            (Some(a), Some(b)) => a.merged(&b)?,
            (a, b) => match a.or(b) {
                Some(dist) => dist,
                None => continue,
            },
        };
        all.insert(kind, dist);
    }
    Ok(all)
}

/// The distribution of a kind in a set that is put together with one that had a schedule.
fn with_schedule(of: &LatencyDists, kind: LatencyKind) -> Result<Option<LatencySample>, DistError> {
    if let Some(dist) = of.get(kind) {
        return Ok(Some(dist.clone()));
    }
    Ok(match (kind, of.service.count()) {
        (LatencyKind::Response, _) => Some(of.service.clone()),
        (LatencyKind::Wait, 0) => Some(LatencySample::default()),
        (LatencyKind::Wait, n) => {
            let zeros = Dist::from_sorted_pairs([(0, n)])?;
            Some(LatencySample::new(zeros, of.service.dependence.grid().at_zero()))
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_without_a_schedule_counts_in_the_response_of_all() {
        let dist = |values: &[u64]| {
            let mut grid = TimeGrid::default();
            values.iter().for_each(|ns| grid.push(0, *ns));
            LatencySample::new(Dist::from_values(values.to_vec()), grid)
        };
        let mut open = LatencyMap::new(dist(&[10, 20]));
        open.insert(LatencyKind::Response, dist(&[15, 30]));
        open.insert(LatencyKind::Wait, dist(&[5, 10]));
        let closed = LatencyMap::new(dist(&[100, 200, 300]));
        for (a, b) in [(&open, &closed), (&closed, &open)] {
            let all = merged(&merged(&LatencyMap::default(), a).unwrap(), b).unwrap();
            let response = all.get(LatencyKind::Response);
            assert_eq!(response, Some(&dist(&[15, 30, 100, 200, 300])));
            let wait = all.get(LatencyKind::Wait);
            assert_eq!(wait, Some(&dist(&[0, 0, 0, 5, 10])));
            assert_eq!(all.main().count(), all.service.count());
        }
        let none = merged(&closed, &closed).unwrap();
        assert!(none.get(LatencyKind::Response).is_none());
        assert!(none.get(LatencyKind::Wait).is_none());
    }
}
