//! One worker's share of one interval: exact sums and histograms per kind of operation.

use hdrhistogram::Histogram;
use taillight_core::{LatencyKind, LatencyMap, OpKind, Record, Stamp, Status};

/// Largest value the histograms hold: one hour. Larger ones are counted apart, never clamped.
pub const HIGHEST_NS: u64 = 3_600_000_000_000;

/// A histogram with 3 significant digits (relative error at most 0.1 %) from 1 ns to one hour.
pub fn new_histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, HIGHEST_NS, 3) {
        Ok(h) => h,
        Err(e) => unreachable!("constant histogram bounds are valid: {e}"),
    }
}

/// Counts and latencies of one kind of operation.
#[derive(Debug, Clone)]
pub struct OpStats {
    /// Successes; failures are in `errors`.
    pub ops: u64,
    /// Bytes moved by successes.
    pub bytes: u64,
    /// Successes that said how many records they covered, and those records.
    pub several: (u64, u64),
    /// Sums of latencies, those that no histogram holds included, ns.
    pub sums_ns: LatencyMap<u64>,
    /// Shortest service time, ns.
    pub min_ns: u64,
    /// Longest service time, ns.
    pub max_ns: u64,
    /// Latencies of successes, of the kinds that are logged ([`LatencyKind::logged`]): response times in
    /// an open loop only, others where an operation had them.
    pub latencies: LatencyMap<Histogram<u64>>,
    /// Successes whose service or response time is beyond [`HIGHEST_NS`], and other latencies beyond it: no histogram
    /// holds these.
    pub beyond: u64,
    pub errors: Vec<(Status, u64)>,
}

/// The stats of each kind of operation, by discriminant; `None` where there was none of the kind.
pub type Ops = [Option<Box<OpStats>>; OpKind::ALL.len()];
pub const NO_OPS: Ops = [const { None }; OpKind::ALL.len()];

impl OpStats {
    fn new(open_loop: bool) -> OpStats {
        let mut latencies = LatencyMap::new(new_histogram());
        if open_loop {
            latencies.insert(LatencyKind::Response, new_histogram());
        }
        OpStats {
            ops: 0,
            bytes: 0,
            several: (0, 0),
            sums_ns: LatencyMap::default(),
            min_ns: u64::MAX,
            max_ns: 0,
            latencies,
            beyond: 0,
            errors: Vec::with_capacity(8),
        }
    }

    /// Counts a success: service and (open loop) response time, bytes moved.
    #[inline]
    pub fn success(&mut self, service: u64, response: u64, bytes: u64) {
        self.ops += 1;
        self.bytes += bytes;
        self.sums_ns.service += service;
        self.min_ns = self.min_ns.min(service);
        self.max_ns = self.max_ns.max(service);
        // Zero is below the histogram's unit of 1 ns and is counted in its first bucket.
        let mut beyond = self.latencies.service.record(service).is_err();
        if let Some(responses) = self.latencies.get_mut(LatencyKind::Response) {
            beyond |= responses.record(response).is_err();
            *self.sums_ns.get_or_insert_with(LatencyKind::Response, || 0) += response;
        }
        self.beyond += u64::from(beyond);
    }

    /// Counts a success of which the whole record is known.
    pub fn success_of(&mut self, r: &Record) {
        self.success(r.service_ns(), r.response_ns(), r.moved.unwrap_or(r.size));
        let counted = [LatencyKind::Service, LatencyKind::Response];
        let others = LatencyKind::ALL.into_iter();
        for kind in others.filter(|kind| kind.logged() && !counted.contains(kind)) {
            if let Some(ns) = kind.of(r) {
                let all = self.latencies.get_or_insert_with(kind, new_histogram);
                self.beyond += u64::from(all.record(ns).is_err());
                *self.sums_ns.get_or_insert_with(kind, || 0) += ns;
            }
        }
        if let Some(records) = r.count {
            self.several.0 += 1;
            self.several.1 += u64::from(records);
        }
    }

    /// Records that successes covered: one each where none said more. `None` when all had one.
    pub fn records(&self) -> Option<u64> {
        let (ops, records) = self.several;
        (ops > 0).then(|| self.ops - ops + records)
    }

    /// Counts a failure; its time is in no latency figure.
    #[cold]
    pub fn failure(&mut self, r: &Record) {
        match self.errors.iter_mut().find(|(status, _)| *status == r.status) {
            Some((_, count)) => *count += 1,
            None => self.errors.push((r.status, 1)),
        }
    }

    /// Failures of every status.
    pub fn failed(&self) -> u64 {
        self.errors.iter().map(|(_, n)| n).sum()
    }

    /// Adds `other`.
    pub fn merge(&mut self, other: &OpStats) {
        self.ops += other.ops;
        self.bytes += other.bytes;
        self.several.0 += other.several.0;
        self.several.1 += other.several.1;
        self.sums_ns.merge(&other.sums_ns, |mine, theirs| *mine += theirs);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.beyond += other.beyond;
        // Same bounds on both sides, so that adding cannot fail.
        self.latencies.merge(&other.latencies, |mine, theirs| {
            let _ = mine.add(theirs);
        });
        for (status, n) in &other.errors {
            match self.errors.iter_mut().find(|(s, _)| s == status) {
                Some((_, count)) => *count += n,
                None => self.errors.push((*status, *n)),
            }
        }
    }

    fn clear(&mut self) {
        (self.ops, self.bytes, self.min_ns, self.max_ns) = (0, 0, u64::MAX, 0);
        self.sums_ns = LatencyMap::default();
        (self.beyond, self.several) = (0, (0, 0));
        self.errors.clear();
        self.latencies.iter_mut().for_each(|(_, h)| h.reset());
    }
}

/// Operations in flight at the end of an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InFlightAtEnd {
    pub count: u32,
    /// Age of the oldest, ns.
    pub oldest_ns: u64,
}

impl InFlightAtEnd {
    /// Adds those of another worker.
    pub fn add(&mut self, other: InFlightAtEnd) {
        self.count += other.count;
        self.oldest_ns = self.oldest_ns.max(other.oldest_ns);
    }
}

/// One worker's share of one interval.
pub struct IntervalStats {
    /// Worker number over all workloads.
    pub worker: u16,
    pub workload: u16,
    /// Measure phase (true) or warm-up.
    pub measured: bool,
    /// Interval number within the phase.
    pub index: u32,
    /// Per kind of operation.
    pub ops: Ops,
    /// What the times of its successes lack of the integral of operations in flight over time, ns: parts of those
    /// that were in flight at its edges, and times of others. See [`IntervalStats::depth_ns`].
    pub carried_ns: i64,
    /// Operations that were in flight through intervals after this one, in which the worker did not come back: from
    /// these stamps to the second.
    pub absent: (Vec<Stamp>, Stamp),
    /// Operations due and not yet started, at the end of the interval; open loop only.
    pub backlog: u64,
    pub in_flight: InFlightAtEnd,
    /// Warm-up operations that completed in the measure phase; in no other figure of the interval.
    pub stragglers: u64,
    /// For so long at most one of them that succeeded went on after the warm-up, ns.
    pub carried_over_ns: u64,
    /// Set on the worker's last interval: when it finished.
    pub last: Option<Stamp>,
}

impl IntervalStats {
    pub fn new(worker: u16, workload: u16) -> IntervalStats {
        IntervalStats {
            worker,
            workload,
            measured: false,
            index: 0,
            ops: NO_OPS,
            carried_ns: 0,
            absent: (Vec::new(), Stamp(0)),
            backlog: 0,
            in_flight: InFlightAtEnd::default(),
            stragglers: 0,
            carried_over_ns: 0,
            last: None,
        }
    }

    /// Names the interval that is counted next.
    pub fn open(&mut self, measured: bool, index: u32) {
        self.measured = measured;
        self.index = index;
    }

    /// The counters of a kind of operation; made on its first use.
    #[inline]
    pub fn op(&mut self, kind: OpKind, open_loop: bool) -> &mut OpStats {
        self.ops[kind as usize].get_or_insert_with(|| Box::new(OpStats::new(open_loop)))
    }

    /// Counts a warm-up operation that completed in the measure phase, `after_ns` after the end of its warm-up; less than 0
    /// where a workload's own warm-up had not ended.
    #[cold]
    pub fn straggler(&mut self, kind: OpKind, service_ns: u64, ok: bool, after_ns: i64) {
        if !kind.is_part() {
            self.stragglers += 1;
            let carried = if ok { after_ns.max(0) as u64 } else { 0 };
            self.carried_over_ns = self.carried_over_ns.max(carried);
        }
        self.uncounted(kind, service_ns);
    }

    /// Counts the time of an operation that is in no latency figure as time in flight.
    #[cold]
    pub fn uncounted(&mut self, kind: OpKind, service_ns: u64) {
        self.carried_ns += if kind.is_part() { 0 } else { service_ns as i64 };
    }

    /// An operation stays in flight as the interval ends, and the next one of this worker begins at `start`. Returns
    /// how long it was in flight before that: the interval in which it completes has its whole time.
    pub fn leave(&mut self, submit: Stamp, end: Stamp, start: Stamp) -> i64 {
        let ns = end.since(submit).max(0);
        self.carried_ns += ns;
        if submit < end {
            self.in_flight.add(InFlightAtEnd { count: 1, oldest_ns: ns as u64 });
        }
        if submit.max(end) < start {
            self.absent.0.push(submit.max(end));
            self.absent.1 = start;
        }
        start.since(submit).max(0)
    }

    /// Integral of operations in flight over time, ns. Where operations began or ended before or after the interval,
    /// only what of them lies inside counts.
    pub fn depth_ns(&self) -> i64 {
        let whole = OpKind::ALL.into_iter().zip(&self.ops).filter(|(kind, _)| !kind.is_part());
        let times = whole.filter_map(|(_, op)| Some(op.as_deref()?.sums_ns.service as i64));
        self.carried_ns + times.sum::<i64>()
    }

    /// Makes every operation's counters fit an open or a closed loop.
    pub fn fit_arrival(&mut self, open_loop: bool) {
        for op in self.ops.iter_mut().flatten() {
            let latencies = &mut op.latencies;
            if open_loop {
                latencies.get_or_insert_with(LatencyKind::Response, new_histogram);
            } else {
                latencies.remove(LatencyKind::Response);
            }
        }
    }

    /// Empties it for reuse, keeping its memory.
    pub fn clear(&mut self) {
        self.ops.iter_mut().flatten().for_each(|op| op.clear());
        (self.carried_ns, self.backlog, self.last) = (0, 0, None);
        (self.stragglers, self.carried_over_ns) = (0, 0);
        self.absent.0.clear();
        self.in_flight = InFlightAtEnd::default();
    }
}
