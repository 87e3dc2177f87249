//! Counters of SQLite that all connections of a run share (busy locks, checkpoints, rows changed, lookups) and how they
//! are shown; and the times of waits and checkpoints inside one connection's operation.

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU64, AtomicUsize, Ordering};

use taillight_core::samples::{SampleDisplay, SamplePanel, SampleUnit};
use taillight_core::{OpKind, Stamp};

/// How the samples are shown.
pub fn display() -> SampleDisplay {
    let panels = vec![
        SamplePanel::new("Writes held back", SampleUnit::PercentOfTime)
            .line("lock_wait_ns_total", "waiting for a lock, all workers together"),
        SamplePanel::new("Log", SampleUnit::Bytes).line("log_bytes", "log to check in"),
        SamplePanel::new("Events", SampleUnit::PerSecond)
            .line("busy_total", "locks that were busy")
            .line("checkpoints_total", "checkpoints")
            .line("auto_checkpoints_total", "of them by commits"),
        SamplePanel::new("Checkpoints", SampleUnit::PercentOfTime)
            .line("checkpoint_write_ns_total", "writing"),
    ];
    SampleDisplay { panels, phrases: Vec::new() }
}

/// The counters since the database was opened, changed where a connection waits for a lock, makes a checkpoint or ends.
#[derive(Debug, Default)]
pub struct SqliteCounters {
    /// Times that a lock was found held by somebody else.
    pub busy: AtomicU64,
    /// Time spent waiting for locks.
    pub lock_wait_ns: AtomicU64,
    /// Times that a wait was given up.
    pub given_up: AtomicU64,
    checkpoints: AtomicU64,
    /// Checkpoints that a commit made.
    pub auto_checkpoints: AtomicU64,
    /// Checkpoints that left pages in the log which readers or a writer still needed.
    partial_checkpoints: AtomicU64,
    checkpoint_ns: AtomicU64,
    /// What SQLite itself counted on connections that have ended: rows changed, and lookups begun.
    pub changes: AtomicU64,
    pub lookups: AtomicU64,
}

impl SqliteCounters {
    pub fn checkpoint(&self, took_ns: i64, partial: bool) {
        self.checkpoints.fetch_add(1, Ordering::Relaxed);
        self.partial_checkpoints.fetch_add(u64::from(partial), Ordering::Relaxed);
        self.checkpoint_ns.fetch_add(took_ns.max(0) as u64, Ordering::Relaxed);
    }

    pub fn show(&self, out: &mut dyn FnMut(&str, f64)) {
        for (name, counter) in [
            ("busy_total", &self.busy),
            ("lock_wait_ns_total", &self.lock_wait_ns),
            ("busy_given_up_total", &self.given_up),
            ("checkpoints_total", &self.checkpoints),
            ("auto_checkpoints_total", &self.auto_checkpoints),
            ("partial_checkpoints_total", &self.partial_checkpoints),
            ("checkpoint_write_ns_total", &self.checkpoint_ns),
        ] {
            out(name, counter.load(Ordering::Relaxed) as f64);
        }
    }
}

/// Most times of an operation that are kept apart.
const TIMES: usize = 16;
/// A gap shorter than this between two pauses is a new try of one wait for a lock, ns; a longer one is work.
const ONE_WAIT_NS: i64 = 100_000;

/// The times inside the current operation of a connection. Its thread alone writes them, and takes them after it.
#[derive(Debug, Default)]
pub struct InnerTimes {
    count: AtomicUsize,
    times: [InnerTime; TIMES],
}

#[derive(Debug, Default)]
struct InnerTime {
    kind: AtomicU8,
    from: AtomicI64,
    to: AtomicI64,
}

impl InnerTimes {
    /// Adds a time; pauses of one wait become one time. Further times than fit are not kept.
    #[cold]
    pub fn note(&self, kind: OpKind, from: Stamp, to: Stamp) {
        let count = self.count.load(Ordering::Relaxed);
        let last = count.checked_sub(1).and_then(|last| self.times.get(last));
        let goes_on = |time: &&InnerTime| {
            let gap = from.0.saturating_sub(time.to.load(Ordering::Relaxed));
            time.kind.load(Ordering::Relaxed) == kind as u8 && gap < ONE_WAIT_NS
        };
        if let Some(time) = last.filter(goes_on).filter(|_| kind == OpKind::LockWait) {
            time.to.store(to.0, Ordering::Relaxed);
        } else if let Some(time) = self.times.get(count) {
            time.kind.store(kind as u8, Ordering::Relaxed);
            time.from.store(from.0, Ordering::Relaxed);
            time.to.store(to.0, Ordering::Relaxed);
            self.count.store(count + 1, Ordering::Relaxed);
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Shows the times, and forgets them.
    pub fn take(&self, each: &mut dyn FnMut(OpKind, Stamp, Stamp)) {
        let count = self.count.swap(0, Ordering::Relaxed);
        for time in self.times.iter().take(count) {
            let stamp = |of: &AtomicI64| Stamp(of.load(Ordering::Relaxed));
            if let Some(kind) = OpKind::from_index(time.kind.load(Ordering::Relaxed)) {
                each(kind, stamp(&time.from), stamp(&time.to));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_of_one_wait_are_one_time_and_work_between_is_none() {
        let times = InnerTimes::default();
        let note = |kind, from, to| times.note(kind, Stamp(from), Stamp(to));
        note(OpKind::LockWait, 0, 10);
        note(OpKind::LockWait, 20, 30);
        note(OpKind::LockWait, 30 + ONE_WAIT_NS, 500_000);
        note(OpKind::AutoCheckpoint, 500_000, 500_001);
        note(OpKind::AutoCheckpoint, 500_002, 500_003);
        let mut seen = Vec::new();
        times.take(&mut |kind, from, to| seen.push((kind, from.0, to.0)));
        let wanted = [
            (OpKind::LockWait, 0, 30),
            (OpKind::LockWait, 30 + ONE_WAIT_NS, 500_000),
            (OpKind::AutoCheckpoint, 500_000, 500_001),
            (OpKind::AutoCheckpoint, 500_002, 500_003),
        ];
        assert_eq!(seen, wanted);
        for n in 0..100 {
            note(OpKind::AutoCheckpoint, n, n);
        }
        let mut kept = 0;
        times.take(&mut |_, _, _| kept += 1);
        assert_eq!(kept, TIMES, "no more than fit");
        times.take(&mut |_, _, _| unreachable!("they were taken"));
    }
}
