//! One worker's share of one interval: exact sums and histograms per kind of operation.

use hdrhistogram::Histogram;
use taillight_core::{OpKind, Record, Stamp, Status};

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
    pub ops: u64,
    pub bytes: u64,
    /// Successes that said how many records they covered, and those records.
    pub several: (u64, u64),
    /// Sum of service times, ns.
    pub sum_ns: u64,
    /// Shortest service time, ns.
    pub min_ns: u64,
    /// Longest service time, ns.
    pub max_ns: u64,
    /// Service times of successes.
    pub service: Histogram<u64>,
    /// Response times of successes; open loop only.
    pub response: Option<Histogram<u64>>,
    /// complete - origin of successes; only where blocks carry the writer's stamp.
    pub end_to_end: Option<Histogram<u64>>,
    /// Values beyond [`HIGHEST_NS`], in no histogram.
    pub beyond: u64,
    pub errors: Vec<(Status, u64)>,
}

impl OpStats {
    fn new(open_loop: bool) -> OpStats {
        OpStats {
            ops: 0,
            bytes: 0,
            several: (0, 0),
            sum_ns: 0,
            min_ns: u64::MAX,
            max_ns: 0,
            service: new_histogram(),
            response: open_loop.then(new_histogram),
            end_to_end: None,
            beyond: 0,
            errors: Vec::with_capacity(8),
        }
    }

    /// Counts a success: service and (open loop) response time, bytes moved.
    #[inline]
    pub fn success(&mut self, service: u64, response: u64, bytes: u64) {
        self.ops += 1;
        self.bytes += bytes;
        self.sum_ns += service;
        self.min_ns = self.min_ns.min(service);
        self.max_ns = self.max_ns.max(service);
        // Zero is below the histogram's unit of 1 ns and is counted in its first bucket.
        let mut beyond = self.service.record(service).is_err();
        if let Some(responses) = &mut self.response {
            beyond |= responses.record(response).is_err();
        }
        self.beyond += u64::from(beyond);
    }

    /// Adds the records of a success that was counted.
    pub fn covered(&mut self, records: u32) {
        self.several.0 += 1;
        self.several.1 += u64::from(records);
    }

    /// Records that successes covered: one each where none said more. `None` when all had one.
    pub fn records(&self) -> Option<u64> {
        let (ops, records) = self.several;
        (ops > 0).then(|| self.ops - ops + records)
    }

    /// Adds the time since the writer's stamp to a success that was counted.
    pub fn from_origin(&mut self, ns: u64) {
        let all = self.end_to_end.get_or_insert_with(new_histogram);
        self.beyond += u64::from(all.record(ns).is_err());
    }

    /// Counts a failure; its time is in no latency figure.
    #[cold]
    pub fn failure(&mut self, r: &Record) {
        match self
            .errors
            .iter_mut()
            .find(|(status, _)| *status == r.status)
        {
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
        self.sum_ns += other.sum_ns;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.beyond += other.beyond;
        // Same bounds on both sides, so that adding cannot fail.
        let _ = self.service.add(&other.service);
        if let (Some(mine), Some(theirs)) = (&mut self.response, &other.response) {
            let _ = mine.add(theirs);
        }
        if let Some(theirs) = other.end_to_end.as_ref().filter(|h| !h.is_empty()) {
            let _ = self
                .end_to_end
                .get_or_insert_with(new_histogram)
                .add(theirs);
        }
        for (status, n) in &other.errors {
            match self.errors.iter_mut().find(|(s, _)| s == status) {
                Some((_, count)) => *count += n,
                None => self.errors.push((*status, *n)),
            }
        }
    }

    fn clear(&mut self) {
        (self.ops, self.bytes, self.sum_ns, self.min_ns, self.max_ns) = (0, 0, 0, u64::MAX, 0);
        (self.beyond, self.several) = (0, (0, 0));
        self.errors.clear();
        self.service.reset();
        if let Some(response) = &mut self.response {
            response.reset();
        }
        if let Some(end_to_end) = &mut self.end_to_end {
            end_to_end.reset();
        }
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
    pub ops: [Option<Box<OpStats>>; OpKind::ALL.len()],
    /// Integral of operations in flight over time, ns.
    pub depth_ns: u64,
    /// Operations due and not yet started, at the end of the interval; open loop only.
    pub backlog: u64,
    /// Warm-up operations that completed in the measure phase; in no figure.
    pub stragglers: u64,
    /// Set on the worker's last part: when it finished.
    pub last: Option<Stamp>,
}

impl IntervalStats {
    pub fn new(worker: u16, workload: u16) -> IntervalStats {
        IntervalStats {
            worker,
            workload,
            measured: false,
            index: 0,
            ops: Default::default(),
            depth_ns: 0,
            backlog: 0,
            stragglers: 0,
            last: None,
        }
    }

    /// Names the interval this part is about to hold.
    pub fn open(&mut self, measured: bool, index: u32) {
        self.measured = measured;
        self.index = index;
    }

    /// The counters of a kind of operation; made on its first use.
    #[inline]
    pub fn op(&mut self, kind: OpKind, open_loop: bool) -> &mut OpStats {
        self.ops[kind as usize].get_or_insert_with(|| Box::new(OpStats::new(open_loop)))
    }

    /// Makes every operation's counters fit an open or a closed loop.
    pub fn suit(&mut self, open_loop: bool) {
        for op in self.ops.iter_mut().flatten() {
            match (open_loop, &op.response) {
                (true, None) => op.response = Some(new_histogram()),
                (false, Some(_)) => op.response = None,
                _ => {}
            }
        }
    }

    /// Empties it for reuse, keeping its memory.
    pub fn clear(&mut self) {
        self.ops.iter_mut().flatten().for_each(|op| op.clear());
        (self.depth_ns, self.backlog, self.stragglers, self.last) = (0, 0, 0, None);
    }
}
