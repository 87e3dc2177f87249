//! What a run's workers wrote, sent and received: counters that each worker has for itself, refusals by code, and a
//! check of the order in which a reader sees records.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use taillight_core::samples::{SampleDisplay, SampleFigure, SamplePanel, SamplePhrase, SampleUnit};

use super::sys::KafkaLibrary;

/// Codes that are kept apart; further ones are only counted together.
const CODES_MAX: usize = 32;
/// Missing records of a worker in a partition that are remembered one by one: one of them may come late.
/// As many as a writer has in flight at most.
const LATE_MAX: usize = super::MAX_DEPTH as usize;
/// Records that a worker has no acknowledgement for, remembered one by one.
pub const UNACKNOWLEDGED_MAX: usize = 1 << 20;

/// One worker's counters: it alone writes them.
#[derive(Debug, Default)]
pub struct WorkerTally {
    pub produced: AtomicU64,
    /// Time inside the library's call that takes a record.
    pub produce_ns: AtomicU64,
    pub acknowledged: AtomicU64,
    pub failed: AtomicU64,
    pub received: AtomicU64,
    /// Records that this run did not write.
    pub foreign: AtomicU64,
    pub doubled: AtomicU64,
    /// Came after a later one.
    pub late: AtomicU64,
    /// Records that did not come so far, though a later one of their writer and partition did.
    pub missing: AtomicU64,
    pub torn: AtomicU64,
}

/// What a writer did, told when its session ends.
#[derive(Debug, Default)]
pub struct WriterEnd {
    pub writer: u32,
    /// Records by partition, acknowledged or not.
    pub written: Vec<u64>,
    /// Those without an acknowledgement: partition and sequence.
    pub unacknowledged: Vec<(u32, u64)>,
    /// There were more of them than are remembered.
    pub forgot: bool,
}

/// All workers' together.
#[derive(Default)]
pub struct RunTally {
    workers: Mutex<Vec<Arc<WorkerTally>>>,
    /// Counters of the workers that write, by their numbers as writers.
    writers: Mutex<Vec<Arc<WorkerTally>>>,
    ends: Mutex<Vec<WriterEnd>>,
    faults: Mutex<BTreeMap<String, (u64, String)>>,
}

fn lock<T>(of: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RunTally {
    pub fn worker(&self) -> Arc<WorkerTally> {
        let tally = Arc::new(WorkerTally::default());
        lock(&self.workers).push(tally.clone());
        tally
    }

    /// A worker that writes, with its number.
    pub fn writer(&self) -> (u32, Arc<WorkerTally>) {
        let tally = self.worker();
        let mut writers = lock(&self.writers);
        writers.push(tally.clone());
        (writers.len() as u32 - 1, tally)
    }

    /// Records that a writer has handed to the library; none for a number that no writer has.
    pub fn handed(&self, writer: u32) -> Option<u64> {
        let writers = lock(&self.writers);
        writers.get(writer as usize).map(|w| w.produced.load(Ordering::Relaxed))
    }

    /// Records that all writers have handed to the library.
    pub fn sent(&self) -> u64 {
        self.sum(|w| &w.produced)
    }

    /// Records that brokers have acknowledged.
    pub fn acknowledged(&self) -> u64 {
        self.sum(|w| &w.acknowledged)
    }

    /// Whether a record that was acknowledged may be gone: writes failed, or a broker was lost and not `all` replicas had
    /// to have each record.
    pub fn may_have_lost(&self, all: bool) -> bool {
        self.sum(|w| &w.failed) > 0 || (!all && !lock(&self.faults).is_empty())
    }

    /// Records of others that readers saw.
    pub fn foreign(&self) -> u64 {
        self.sum(|w| &w.foreign)
    }

    pub fn end(&self, end: WriterEnd) {
        lock(&self.ends).push(end);
    }

    pub fn ends<T>(&self, look: impl FnOnce(&[WriterEnd]) -> T) -> T {
        look(&lock(&self.ends))
    }

    /// Counts what the library or a broker refused.
    #[cold]
    pub fn fault(&self, library: &KafkaLibrary, code: i32, says: Option<String>) {
        let [name, words] = library.describe_error(code);
        let name = name.trim_start_matches('_').to_lowercase();
        let mut all = lock(&self.faults);
        let known = all.len() < CODES_MAX || all.contains_key(&name);
        let name = if known { name } else { "others".to_owned() };
        all.entry(name).or_insert_with(|| (0, says.unwrap_or(words))).0 += 1;
    }

    fn sum(&self, of: impl Fn(&WorkerTally) -> &AtomicU64) -> u64 {
        lock(&self.workers).iter().map(|w| of(w).load(Ordering::Relaxed)).sum()
    }

    pub fn show(&self, out: &mut dyn FnMut(&str, f64)) {
        let mut one = |name: &str, n: u64| out(name, n as f64);
        one("records_sent_total", self.sum(|w| &w.produced));
        one("records_acknowledged_total", self.sum(|w| &w.acknowledged));
        one("records_failed_total", self.sum(|w| &w.failed));
        one("records_received_total", self.sum(|w| &w.received));
        one("foreign_records_total", self.sum(|w| &w.foreign));
        one("doubled_records_total", self.sum(|w| &w.doubled));
        one("late_records_total", self.sum(|w| &w.late));
        one("inside_produce_ns_total", self.sum(|w| &w.produce_ns));
    }

    /// As facts: what was sent and came back, and each refusal with its first words.
    pub fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let mut one =
            |name: &str, value: u64| facts.push((format!("records.{name}"), value.to_string()));
        let sent = self.sum(|w| &w.produced);
        if sent > 0 {
            one("sent", sent);
            one("acknowledged", self.sum(|w| &w.acknowledged));
            one("failed", self.sum(|w| &w.failed));
            one("produce_ns_per_record", self.sum(|w| &w.produce_ns) / sent);
        }
        let received = self.sum(|w| &w.received);
        if received > 0 {
            one("received", received);
            one("received.foreign", self.sum(|w| &w.foreign));
            one("received.doubled", self.sum(|w| &w.doubled));
            one("received.late", self.sum(|w| &w.late));
            one("received.missing", self.sum(|w| &w.missing));
            one("received.torn", self.sum(|w| &w.torn));
        }
        facts.extend(lock(&self.faults).iter().map(|(name, (count, says))| {
            (format!("kafka.error.{name}"), format!("{count} times, first: {says}"))
        }));
        facts
    }
}

/// How the samples are shown.
pub fn display() -> SampleDisplay {
    let panels = vec![
        SamplePanel::new("Records", SampleUnit::PerSecond)
            .line("records_sent_total", "sent")
            .line("records_acknowledged_total", "acknowledged")
            .line("records_received_total", "received"),
        SamplePanel::new("Records that should not be", SampleUnit::PerSecond)
            .line("records_failed_total", "failed")
            .line("foreign_records_total", "foreign")
            .line("doubled_records_total", "doubled")
            .line("late_records_total", "late"),
        SamplePanel::new("Inside produce", SampleUnit::PercentOfTime)
            .line("inside_produce_ns_total", "calls that take a record, all workers together"),
    ];
    let inside =
        SamplePhrase::new("inside_produce_ns_total", SampleFigure::Rise, "inside produce {}");
    SampleDisplay { panels, phrases: vec![inside] }
}

/// How a record of the run stands to those that a reader saw before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    Next,
    /// So many records before it did not come yet.
    Ahead(u64),
    /// A record that was missing so far.
    Late,
    Again,
    /// No writer of this run has written a record of this number so far.
    Beyond,
}

/// The order of one worker's records in one partition, as one reader sees them.
#[derive(Debug, Clone, Default)]
struct Lane {
    next: u64,
    missing: Vec<u64>,
}

/// The order of all records of the run, as one reader sees them.
#[derive(Debug)]
pub struct SequenceCheck {
    partitions: usize,
    lanes: Vec<Lane>,
}

impl SequenceCheck {
    pub fn new(partitions: usize) -> SequenceCheck {
        SequenceCheck { partitions, lanes: Vec::new() }
    }

    /// `handed`: how many records a writer has handed out, none where there is no such writer.
    #[inline]
    pub fn see(
        &mut self,
        writer: u32,
        partition: u32,
        sequence: u64,
        handed: impl FnOnce(u32) -> Option<u64>,
    ) -> Seen {
        let at = writer as usize * self.partitions + partition as usize;
        if let Some(lane) = self.lanes.get_mut(at).filter(|lane| lane.next == sequence) {
            lane.next += 1;
            return Seen::Next;
        }
        self.other(at, sequence, handed(writer))
    }

    #[cold]
    fn other(&mut self, at: usize, sequence: u64, handed: Option<u64>) -> Seen {
        match handed {
            // A record may be here before its writer has counted it.
            Some(count) if sequence <= count => {}
            _ => return Seen::Beyond,
        }
        if at >= self.lanes.len() {
            self.lanes.resize_with(at + 1, Lane::default);
        }
        let lane = &mut self.lanes[at];
        if sequence == lane.next {
            lane.next += 1;
            return Seen::Next;
        }
        lane.other(sequence)
    }
}

impl Lane {
    #[cold]
    fn other(&mut self, sequence: u64) -> Seen {
        if sequence > self.next {
            let ahead = sequence - self.next;
            let room = LATE_MAX.saturating_sub(self.missing.len()) as u64;
            self.missing.extend((self.next..sequence).take(room as usize));
            self.next = sequence + 1;
            return Seen::Ahead(ahead);
        }
        match self.missing.iter().position(|n| *n == sequence) {
            Some(at) => {
                self.missing.swap_remove(at);
                Seen::Late
            }
            None => Seen::Again,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counter::add;

    #[test]
    fn gaps_doubles_and_late_ones_are_told_apart() {
        let mut check = SequenceCheck::new(2);
        let mut see = |partition, sequence| check.see(3, partition, sequence, |_| Some(1 << 41));
        assert_eq!((see(0, 0), see(1, 0), see(0, 1)), (Seen::Next, Seen::Next, Seen::Next));
        assert_eq!(see(0, 1), Seen::Again);
        assert_eq!(see(0, 5), Seen::Ahead(3));
        assert_eq!((see(0, 3), see(0, 3), see(0, 6)), (Seen::Late, Seen::Again, Seen::Next));
        assert_eq!(see(1, 1 << 40), Seen::Ahead((1 << 40) - 1));
        assert_eq!(see(1, 1), Seen::Late);
    }

    #[test]
    fn what_no_writer_has_written_takes_no_room() {
        let tally = RunTally::default();
        let (writer, worker) = tally.writer();
        add(&worker.produced, 2);
        let mut check = SequenceCheck::new(2);
        let mut see = |writer, sequence| check.see(writer, 0, sequence, |w| tally.handed(w));
        assert_eq!((see(writer, 0), see(writer, 1)), (Seen::Next, Seen::Next));
        assert_eq!((see(writer, 3), see(writer, u64::MAX)), (Seen::Beyond, Seen::Beyond));
        assert_eq!((see(writer + 1, 0), see(u32::MAX, 0)), (Seen::Beyond, Seen::Beyond));
        assert_eq!(see(writer, 2), Seen::Next);
        assert_eq!(check.lanes.len(), 1);
    }
}
