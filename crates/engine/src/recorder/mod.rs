//! What happened: one recorder per worker. Histograms per interval, exact counts, the capture.
//!
//! The hot loop calls one of [`Recorder::success`], [`Recorder::record_deferred`] and [`Recorder::record`] for
//! each operation that is complete. Nothing here allocates per operation or reads a clock. Each interval goes to the
//! collector by channel.

mod interval_stats;
#[cfg(test)]
pub(crate) mod tests;

use crossbeam_channel::{Receiver, Sender};
use taillight_capture::chunk::ShortRecord;
use taillight_capture::{Capture, CaptureState};
use taillight_core::{OpKind, Record, Stamp};

pub use interval_stats::{
    HIGHEST_NS, InFlightAtEnd, IntervalStats, NO_OPS, OpStats, Ops, new_histogram,
};

/// Where the stats of intervals go and where empty ones come back from.
#[derive(Clone)]
pub struct Channels {
    pub messages: Sender<WorkerMessage>,
    /// Cleared stats, to be reused.
    pub spare: Receiver<Box<IntervalStats>>,
}

/// What a worker tells the collector.
pub enum WorkerMessage {
    /// One interval of one worker.
    IntervalStats(Box<IntervalStats>),
    /// The worker has finished; no more intervals.
    Done { worker: u16 },
}

/// Boundaries of the load on the clock, the same for all workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeline {
    pub start: Stamp,
    /// The measure phase begins.
    pub measure: Stamp,
    /// Operations of a worker submitted from here on are measured: later than that where its workload has a warm-up
    /// of its own.
    pub counted: Stamp,
    /// Nothing is due at or after this. What was due before may be submitted a little later, where the
    /// load is behind its schedule.
    pub end: Stamp,
    /// Length of a reporting window, ns.
    pub interval_ns: u64,
}

impl Timeline {
    /// Index of the interval that holds `at`; warm-up intervals count from the start, measured
    /// ones from the measure stamp, so that both begin with a whole interval.
    fn interval(&self, at: Stamp) -> (bool, u32) {
        let measured = at >= self.measure;
        let origin = if measured { self.measure } else { self.start };
        let index = at.since(origin).max(0) as u64 / self.interval_ns;
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        (measured, if measured { index.min(self.last_index()) } else { index })
    }
    /// The last interval of the measure phase takes in the drain, so that its completions stand
    /// in a window that says how long it was.
    fn last_index(&self) -> u32 {
        if self.end == Stamp::NEVER {
            return u32::MAX;
        }
        let length = self.end.since(self.measure).max(1) as u64;
        u32::try_from(length.div_ceil(self.interval_ns) - 1).unwrap_or(u32::MAX)
    }
    /// Start of the interval that holds `at`.
    fn interval_start(&self, at: Stamp) -> Stamp {
        let (measured, index) = self.interval(at);
        let origin = if measured { self.measure } else { self.start };
        origin.plus(u64::from(index) * self.interval_ns)
    }
    /// The parts of `from..to` in each interval, as whether it is of the measure phase, its number, and ns.
    pub fn parts(&self, mut from: Stamp, to: Stamp) -> impl Iterator<Item = (bool, u32, i64)> {
        std::iter::from_fn(move || {
            let (measured, index) = self.interval(from);
            let end = self.interval_end(from).min(to);
            let ns = end.since(from);
            from = end;
            (ns > 0).then_some((measured, index, ns))
        })
    }
    /// First stamp after the interval that holds `at`; [`Stamp::NEVER`] in the last one of the measure phase.
    pub fn interval_end(&self, at: Stamp) -> Stamp {
        let (measured, index) = self.interval(at);
        let origin = if measured { self.measure } else { self.start };
        let end = origin.plus((u64::from(index) + 1) * self.interval_ns);
        match measured {
            true if index == self.last_index() => Stamp::NEVER,
            true => end,
            false => end.min(self.measure),
        }
    }
}

/// Operations that are recorded together at most: so many a worker loses when the process is killed.
const MAX_PENDING: usize = 64;
/// An operation that completes so long after the last ones were recorded is recorded at once, ns. More than
/// [`MAX_PENDING`] operations of an embedded store take, most often.
const MAX_PENDING_NS: i64 = 500_000;

/// The whole record of a plain operation on a key, one at a time.
#[cold]
fn record_of(s: &ShortRecord, open_loop: bool) -> Record {
    Record {
        op: s.op,
        key: Some(s.key),
        size: s.size,
        intended: open_loop.then_some(Stamp(s.intended)),
        submit: Stamp(s.submit),
        complete: Stamp(s.complete),
        sync_ns: s.sync_ns,
        ..Record::default()
    }
}

/// Whose operations a recorder takes.
#[derive(Debug, Clone, Copy)]
pub struct RecorderSpec<'a> {
    /// Worker number over all workloads.
    pub worker: u16,
    pub workload: u16,
    pub open_loop: bool,
    /// Kinds of operation, for counters made before the first one.
    pub kinds: &'a [OpKind],
}

/// One worker's recorder.
pub struct Recorder {
    timeline: Timeline,
    stats: Box<IntervalStats>,
    boundary: Stamp,
    channels: Channels,
    capture: Capture,
    open_loop: bool,
    /// Submit stamps of what was in flight when the last interval was closed.
    submits: Vec<Stamp>,
    /// Plain successes that are not yet in histograms and capture, in completion order.
    pending: Vec<ShortRecord>,
    /// Completion stamp at which `record_deferred` last emptied `pending`, ns.
    emptied: i64,
}

impl Recorder {
    /// A recorder for the worker of `spec`.
    pub fn new(
        spec: RecorderSpec<'_>,
        timeline: Timeline,
        channels: Channels,
        capture: Capture,
    ) -> Recorder {
        let (measured, index) = timeline.interval(timeline.start);
        let mut stats = Box::new(IntervalStats::new(spec.worker, spec.workload));
        stats.open(measured, index);
        // Counters and histograms exist before the first operation.
        for kind in spec.kinds {
            let _ = stats.op(*kind, spec.open_loop);
        }
        Recorder {
            timeline,
            stats,
            boundary: timeline.interval_end(timeline.start),
            channels,
            capture,
            open_loop: spec.open_loop,
            submits: Vec::new(),
            pending: Vec::with_capacity(MAX_PENDING),
            emptied: 0,
        }
    }

    /// The next stamp at which an interval ends.
    #[inline]
    pub fn boundary(&self) -> Stamp {
        self.boundary
    }

    /// Called once per poll, before the records of that poll: closes the interval when `now` is past it. `snapshot`
    /// gives the submits of what is in flight, and returns how many operations are due and not yet started.
    #[inline(always)]
    pub fn advance(&mut self, now: Stamp, snapshot: impl FnOnce(&mut Vec<Stamp>) -> u64) {
        if now >= self.boundary {
            self.submits.clear();
            let backlog = snapshot(&mut self.submits);
            self.rotate(now, backlog);
        }
    }

    #[cold]
    fn rotate(&mut self, now: Stamp, backlog: u64) {
        self.flush_pending();
        self.stats.backlog = backlog;
        let (worker, workload) = (self.stats.worker, self.stats.workload);
        let fresh = self.channels.spare.try_recv();
        let fresh = fresh.unwrap_or_else(|_| Box::new(IntervalStats::new(worker, workload)));
        let mut old = std::mem::replace(&mut self.stats, fresh);
        let (end, start) = (self.boundary, self.timeline.interval_start(now));
        for submit in &self.submits {
            self.stats.carried_ns -= old.leave(*submit, end, start);
        }
        // The collector outlives the workers; a closed channel means the run is being torn down.
        let _ = self.channels.messages.send(WorkerMessage::IntervalStats(old));
        let (measured, index) = self.timeline.interval(now);
        self.stats.worker = worker;
        self.stats.workload = workload;
        // Stats are reused by all workers: the last one may have had another kind of arrival.
        self.stats.fit_arrival(self.open_loop);
        self.stats.open(measured, index);
        self.boundary = self.timeline.interval_end(now);
    }

    /// Records a plain success: the hot loop's way in. `bytes` were moved.
    #[inline(always)]
    pub fn success(&mut self, short: &ShortRecord, bytes: u64, record: impl FnOnce() -> Record) {
        let service = short.complete.wrapping_sub(short.submit).max(0) as u64;
        if short.submit < self.timeline.counted.0 && self.stats.measured {
            let after = short.complete.wrapping_sub(self.timeline.counted.0);
            self.stats.straggler(short.op, service, true, after);
            return;
        }
        let response = short.complete.wrapping_sub(short.intended).max(0) as u64;
        self.stats.op(short.op, self.open_loop).success(service, response, bytes);
        if self.stats.measured && !self.capture.keep_short(short, record) {
            self.set_thresholds();
        }
    }

    /// As [`Recorder::success`], for an operation on a key, one at a time: it is kept aside with some
    /// that follow and recorded with them. A store's operation leaves little of our code and
    /// histograms in the CPU's caches; several in a row fetch them once.
    #[inline(always)]
    pub fn record_deferred(&mut self, short: &ShortRecord) {
        let complete = short.complete;
        self.pending.push(*short);
        let long = complete.wrapping_sub(self.emptied) >= MAX_PENDING_NS;
        if self.pending.len() >= MAX_PENDING || long {
            self.flush_pending();
            self.emptied = complete;
        }
    }

    /// Records what was kept aside.
    #[inline(never)]
    pub fn flush_pending(&mut self) {
        let mut samples = std::mem::take(&mut self.pending);
        for short in samples.drain(..) {
            let open_loop = self.open_loop;
            self.success(&short, short.size, || record_of(&short, open_loop));
        }
        self.pending = samples;
    }

    /// Records any finished operation, failed or not, after what was kept aside. Calls come in completion order.
    #[cold]
    pub fn record(&mut self, r: &Record) {
        self.flush_pending();
        if r.submit < self.timeline.counted && self.stats.measured {
            let after = r.complete.since(self.timeline.counted);
            self.stats.straggler(r.op, r.service_ns(), r.status.is_ok(), after);
            return;
        }
        if !r.status.is_ok() {
            self.stats.uncounted(r.op, r.service_ns());
        }
        let op = self.stats.op(r.op, self.open_loop);
        if r.status.is_ok() {
            op.success_of(r);
        } else {
            op.failure(r);
        }
        if self.stats.measured && !self.capture.keep(r) {
            self.set_thresholds();
        }
    }

    /// The capture has just degraded: outlier thresholds from the interval so far.
    #[cold]
    fn set_thresholds(&mut self) {
        for kind in OpKind::ALL {
            let Some(op) = self.stats.ops[kind as usize].as_deref().filter(|op| op.ops > 0) else {
                continue;
            };
            let slow = op.latencies.main().value_at_quantile(0.999);
            self.capture.learn(kind, slow);
        }
    }

    /// Sends the last interval and hands the last chunk back.
    pub fn finish(mut self, now: Stamp, unsent: u64) -> CaptureState {
        self.flush_pending();
        self.stats.backlog = unsent;
        self.stats.last = Some(now);
        let worker = self.stats.worker;
        let _ = self.channels.messages.send(WorkerMessage::IntervalStats(self.stats));
        let _ = self.channels.messages.send(WorkerMessage::Done { worker });
        self.capture.finish()
    }
}
