//! One workload's I/Os of one kind: counters while reading, distributions afterwards.

use std::collections::BTreeMap;
use std::sync::Arc;

use taillight_core::OpKind;
use taillight_stats::{Dist, DistError, ExactCounter, TopK};

use super::heat::{HeatCounts, Window};
use super::row::Row;
use super::slowest::{SlowestIos, SlowestKeeper};

/// Outliers kept per operation (design section 12).
pub const OUTLIERS: usize = taillight_rundir::summary::OUTLIERS_MAX;

/// Counts while rows stream by.
pub struct IoGroupCounter {
    service: ExactCounter,
    response: Option<ExactCounter>,
    wait: Option<ExactCounter>,
    sync: Option<ExactCounter>,
    end_to_end: Option<ExactCounter>,
    queue: Option<ExactCounter>,
    after_issue: Option<ExactCounter>,
    first_byte: Option<ExactCounter>,
    outliers: TopK<Row>,
    slowest: SlowestKeeper,
    heat: HeatCounts,
    tally: Tally,
    span_ns: u64,
}

/// Plain counts of a group.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    /// I/Os, failed ones included.
    pub count: u64,
    /// Bytes moved by successes.
    pub bytes: u64,
    /// Records that successes covered: one each, or as many as a batch or scan had.
    pub records: u64,
    /// Failed I/Os by status: how many, and the submit stamp of the first.
    pub errors: BTreeMap<i32, (u64, Option<i64>)>,
    /// Sum of service times of all I/Os, for the mean depth, ns.
    pub busy_ns: u128,
    /// The last completion of a success, CLOCK_MONOTONIC ns.
    pub last_ns: i64,
}

impl Tally {
    pub fn failed(&self) -> u64 {
        self.errors.values().map(|(n, _)| n).sum()
    }
    /// Adds another group's counts.
    pub fn add(&mut self, other: &Tally) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.records += other.records;
        self.busy_ns += other.busy_ns;
        self.last_ns = self.last_ns.max(other.last_ns);
        for (status, (n, first)) in &other.errors {
            let mine = self.errors.entry(*status).or_insert((0, None));
            mine.0 += n;
            mine.1 = match (mine.1, *first) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
    }
}

impl IoGroupCounter {
    /// Empty, with a heat map over `window`.
    pub fn new(window: Window) -> Self {
        IoGroupCounter {
            service: ExactCounter::new(),
            response: None,
            wait: None,
            sync: None,
            end_to_end: None,
            queue: None,
            after_issue: None,
            first_byte: None,
            outliers: TopK::new(OUTLIERS),
            slowest: SlowestKeeper::new(super::slowest::KEPT),
            heat: HeatCounts::new(window),
            tally: Tally::default(),
            span_ns: window.span_ns(),
        }
    }

    /// Counts one row; without `exact` its latency only goes where memory is bounded.
    #[inline]
    pub fn push(&mut self, row: &Row, exact: bool) {
        let service = between(row.submit, row.complete);
        self.tally.count += 1;
        self.tally.busy_ns += u128::from(service);
        if row.status != 0 {
            let entry = self.tally.errors.entry(row.status).or_insert((0, None));
            entry.0 += 1;
            entry.1 = Some(entry.1.map_or(row.submit, |first| first.min(row.submit)));
            return;
        }
        self.tally.bytes += row.moved.unwrap_or(row.size);
        self.tally.records += u64::from(row.count.unwrap_or(1));
        self.tally.last_ns = self.tally.last_ns.max(row.complete);
        let main = between(row.intended.unwrap_or(row.submit), row.complete);
        if exact {
            self.count_exactly(row, service, main);
        }
        self.heat.push(row.complete, main);
        if self.outliers.floor().is_none_or(|floor| main >= floor) {
            self.outliers.push(main, row.submit as u64, *row);
        }
        self.slowest
            .push(main, row.intended.unwrap_or(row.submit), row.complete);
    }

    #[inline]
    fn count_exactly(&mut self, row: &Row, service: u64, main: u64) {
        self.service.push(service);
        if let Some(intended) = row.intended {
            let wait = between(intended, row.submit);
            self.response.get_or_insert_default().push(main);
            self.wait.get_or_insert_default().push(wait);
        }
        if let Some(issued) = row.issued {
            let queue = between(row.submit, issued);
            let after = between(issued, row.complete);
            self.queue.get_or_insert_default().push(queue);
            self.after_issue.get_or_insert_default().push(after);
        }
        if let Some(first) = row.first {
            let heard = between(row.submit, first);
            self.first_byte.get_or_insert_default().push(heard);
        }
        if let Some(sync) = row.sync {
            self.sync.get_or_insert_default().push(sync);
        }
        if let Some(origin) = row.origin {
            let since = between(origin, row.complete);
            self.end_to_end.get_or_insert_default().push(since);
        }
    }

    /// Gives up exact counting and frees its memory.
    pub fn forget(&mut self) {
        self.service = ExactCounter::new();
        for part in [
            &mut self.response,
            &mut self.wait,
            &mut self.sync,
            &mut self.end_to_end,
            &mut self.queue,
            &mut self.after_issue,
            &mut self.first_byte,
        ] {
            *part = None;
        }
    }

    pub fn memory(&self) -> usize {
        let optional = [
            &self.response,
            &self.wait,
            &self.sync,
            &self.end_to_end,
            &self.queue,
            &self.after_issue,
            &self.first_byte,
        ];
        let counters = optional
            .into_iter()
            .flatten()
            .map(ExactCounter::memory_bytes);
        self.service.memory_bytes() + counters.sum::<usize>()
    }

    pub fn finish(self, workload: u16, op: OpKind) -> IoGroup {
        let dist = |c: Option<ExactCounter>| c.map(|c| Arc::new(c.finish()));
        IoGroup {
            workload,
            op,
            tally: self.tally,
            parts: Parts {
                service: Arc::new(self.service.finish()),
                response: dist(self.response),
                wait: dist(self.wait),
                sync: dist(self.sync),
                end_to_end: dist(self.end_to_end),
                queue: dist(self.queue),
                after_issue: dist(self.after_issue),
                first_byte: dist(self.first_byte),
            },

            outliers: self
                .outliers
                .into_sorted()
                .into_iter()
                .map(|r| (r.value, r.item))
                .collect(),
            slowest: self.slowest.finish(self.span_ns),
            heat: self.heat,
        }
    }
}

/// `to - from`, never below zero.
#[inline]
pub fn between(from: i64, to: i64) -> u64 {
    to.saturating_sub(from).max(0) as u64
}

/// The distributions of one set of I/Os, shared where sets are the same: a run of one operation
/// has one distribution, not one for the run, one for the operation and one for the workload.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Parts {
    pub service: Arc<Dist>,
    /// complete - intended; with a schedule only.
    pub response: Option<Arc<Dist>>,
    /// submit - intended; with a schedule only.
    pub wait: Option<Arc<Dist>>,
    /// The sync inside writes.
    pub sync: Option<Arc<Dist>>,
    /// complete - origin; reads of stamped data only.
    pub end_to_end: Option<Arc<Dist>>,
    /// issued - submit; queued drivers only.
    pub queue: Option<Arc<Dist>>,
    /// complete - issued; queued drivers only.
    pub after_issue: Option<Arc<Dist>>,
    /// first - submit; drivers that see the first byte of an answer only.
    pub first_byte: Option<Arc<Dist>>,
}

impl Parts {
    /// The measure that counts: response with a schedule, else service.
    pub fn main(&self) -> &Dist {
        self.response.as_ref().unwrap_or(&self.service)
    }
    /// The measure that a reader of the report is after: end to end where there is one.
    pub fn told(&self) -> &Dist {
        let whole = self.end_to_end.as_deref();
        whole.filter(|d| !d.is_empty()).unwrap_or(self.main())
    }
    /// Both together. Where only one side had a schedule, an I/O of the other was meant to be sent
    /// when it was: its response is its service time, its wait is none (design section 12).
    ///
    /// # Errors
    /// When counts exceed 64 bits.
    pub fn merge(&self, other: &Parts) -> Result<Parts, DistError> {
        let two = |a: &Arc<Dist>, b: &Arc<Dist>| match (a.is_empty(), b.is_empty()) {
            (true, _) => Ok(b.clone()),
            (_, true) => Ok(a.clone()),
            _ => a.merge(b).map(Arc::new),
        };
        let both = |a: &Option<Arc<Dist>>, b: &Option<Arc<Dist>>| match (a, b) {
            (Some(a), Some(b)) => two(a, b).map(Some),
            (a, b) => Ok(a.clone().or_else(|| b.clone())),
        };
        let (mut response, mut wait) = (None, None);
        if self.response.is_some() || other.response.is_some() {
            let of = |parts: &Parts| parts.response.clone().unwrap_or(parts.service.clone());
            response = Some(two(&of(self), &of(other))?);
        }
        if self.wait.is_some() || other.wait.is_some() {
            let of = |parts: &Parts| match (&parts.wait, parts.service.count()) {
                (Some(wait), _) => Ok(wait.clone()),
                (None, 0) => Ok(Arc::default()),
                (None, n) => Dist::from_sorted_pairs([(0, n)]).map(Arc::new),
            };
            wait = Some(two(&of(self)?, &of(other)?)?);
        }
        Ok(Parts {
            service: two(&self.service, &other.service)?,
            response,
            wait,
            sync: both(&self.sync, &other.sync)?,
            end_to_end: both(&self.end_to_end, &other.end_to_end)?,
            queue: both(&self.queue, &other.queue)?,
            after_issue: both(&self.after_issue, &other.after_issue)?,
            first_byte: both(&self.first_byte, &other.first_byte)?,
        })
    }
}

/// One workload's I/Os of one kind.
#[derive(Debug, Clone)]
pub struct IoGroup {
    /// Index of the workload in the plan.
    pub workload: u16,
    pub op: OpKind,
    pub tally: Tally,
    pub parts: Parts,
    /// The slowest successes, slowest first: main latency and row.
    pub outliers: Vec<(u64, Row)>,
    /// More of them, with stamps only.
    pub slowest: SlowestIos,
    /// I/Os over time and latency.
    pub heat: HeatCounts,
}

impl IoGroup {
    /// Only the outliers: what was made of them as if they were all I/Os is gone.
    pub fn without_sample(self) -> IoGroup {
        IoGroup {
            parts: Parts::default(),
            tally: Tally {
                busy_ns: 0,
                bytes: 0,
                records: 0,
                ..self.tally
            },
            heat: HeatCounts::new(Window::new(0, 1)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn io_without_a_schedule_counts_in_the_response_of_all() {
        let dist = |values: &[u64]| Arc::new(Dist::from_values(values.to_vec()));
        let open = Parts {
            service: dist(&[10, 20]),
            response: Some(dist(&[15, 30])),
            wait: Some(dist(&[5, 10])),
            ..Parts::default()
        };
        let closed = Parts {
            service: dist(&[100, 200, 300]),
            ..Parts::default()
        };
        for (a, b) in [(&open, &closed), (&closed, &open)] {
            let all = Parts::default().merge(a).unwrap().merge(b).unwrap();
            assert_eq!(all.response, Some(dist(&[15, 30, 100, 200, 300])));
            assert_eq!(all.wait, Some(dist(&[0, 0, 0, 5, 10])));
            assert_eq!(all.main().count(), all.service.count());
        }
        let none = closed.merge(&closed).unwrap();
        assert_eq!((none.response, none.wait), (None, None));
    }
}
