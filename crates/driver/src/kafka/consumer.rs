//! A worker that reads: each read is ended by the next record of the topic, whichever it is, or by an error of the
//! library. Where the run writes, a reader takes the records of this run, and passes over and counts all
//! others. Where the run only reads, each reader reads what was in the topic before the run, again and again.

use std::collections::VecDeque;
use std::sync::Arc;

use taillight_core::probe::Token;
use taillight_core::{Error, Op, OpKind, Result, Stamp, Status};

use super::producer::{no_session, wait, wakes_of};
use super::record::{MARK, RecordKey, sum};
use super::sys::KafkaLibrary;
use super::tally::{RunTally, Seen, SequenceCheck, WorkerTally};
use super::transfer::{Consumer, FetchedRecord};
use crate::buffers::Buffers;
use crate::contract::{Completion, Session, SessionSpec, Submitted};
use crate::counter::add;
use crate::net::ReadinessLoop;

/// `RD_KAFKA_RESP_ERR__PARTITION_EOF`: a partition was read to its end.
const PARTITION_EOF: i32 = -191;

/// What a reader reads.
pub enum ReaderRole {
    /// What this run writes, and nothing else.
    Follows { run: u64 },
    /// What was there before the run, again and again: the partitions in `from`, each from its offset up to, and
    /// without, that in `to`, which has one for each partition of the topic.
    Repeats { from: Vec<(i32, i64)>, to: Vec<i64> },
}

/// The session.
pub struct ConsumerSession {
    library: Arc<KafkaLibrary>,
    consumer: Consumer,
    role: ReaderRole,
    /// By partition, for `Repeats`: has records that this time round are not yet read to their end.
    open: Vec<bool>,
    /// For `Follows`: finds missing, late and doubled records.
    check: SequenceCheck,
    buffers: Buffers,
    /// Values are copied to the slots' buffers, since something looks at them there ([`SessionSpec::keep`]).
    keep: bool,
    readiness: ReadinessLoop,
    /// Reads that wait for a record, with their slots, the oldest first.
    waiting: VecDeque<(Token, u32)>,
    depth: usize,
    worker: Arc<WorkerTally>,
    tally: Arc<RunTally>,
}

/// What becomes of a record.
enum Taken {
    /// The record, or an error in its place, ends the oldest read, with this status and so many bytes of value.
    Record(Status, u64),
    /// No read ends: a record that this run did not write, one that came before, or one that `Repeats` leaves out.
    Passed,
    /// A partition is read to its end.
    End(i32),
}

impl ConsumerSession {
    /// Errors: `Unavailable` without memory or file descriptors.
    pub fn new(
        library: Arc<KafkaLibrary>,
        tally: Arc<RunTally>,
        consumer: Consumer,
        role: ReaderRole,
        partitions: usize,
        spec: &SessionSpec,
    ) -> Result<ConsumerSession> {
        let depth = spec.depth.max(1);
        let readiness = wakes_of(consumer.descriptor())?;
        let mut session = ConsumerSession {
            library,
            consumer,
            role,
            open: vec![false; partitions],
            check: SequenceCheck::new(partitions),
            buffers: Buffers::new(depth, spec.buffer_size).map_err(no_session)?,
            keep: spec.keep,
            readiness,
            waiting: VecDeque::with_capacity(depth as usize),
            depth: depth as usize,
            worker: tally.worker(),
            tally,
        };
        session.reopen();
        Ok(session)
    }

    /// Takes the partitions of `Repeats` as not yet read.
    fn reopen(&mut self) {
        if let ReaderRole::Repeats { from, .. } = &self.role {
            from.iter().for_each(|(partition, _)| self.open[*partition as usize] = true);
        }
    }

    /// Ends waiting reads with the records and errors that have come; the number of reads.
    fn take(&mut self, out: &mut Vec<Completion>) -> Result<u32> {
        let mut came = 0;
        while let Some((token, slot)) = self.waiting.front().copied() {
            let buffer = if self.keep { self.buffers.slot(slot) } else { &mut [] };
            let (role, check, worker) = (&self.role, &mut self.check, &self.worker);
            let (tally, library) = (&self.tally, &self.library);
            let taken = self.consumer.next(0, |record| match record.code {
                0 => judge(record, role, check, worker, tally, buffer),
                PARTITION_EOF => Taken::End(record.partition),
                code => {
                    let says = String::from_utf8_lossy(record.value).into_owned();
                    tally.fault(library, code, Some(says));
                    Taken::Record(Status::STORE, 0)
                }
            });
            match taken {
                None => break,
                Some(Taken::Passed) => {}
                Some(Taken::End(partition)) => self.ended(partition)?,
                Some(Taken::Record(status, moved)) => {
                    self.waiting.pop_front();
                    came += 1;
                    out.push(Completion { status, ..Completion::ok(token, moved) });
                }
            }
        }
        Ok(came)
    }

    /// A partition was read to its end. For `Repeats`, when all are, they are read again from their first offsets.
    #[cold]
    fn ended(&mut self, partition: i32) -> Result<()> {
        let ReaderRole::Repeats { from, .. } = &self.role else { return Ok(()) };
        if let Some(open) = usize::try_from(partition).ok().and_then(|p| self.open.get_mut(p)) {
            *open = false;
        }
        if !self.open.contains(&true) {
            self.consumer.restart(from)?;
            self.check = SequenceCheck::new(self.open.len());
            self.reopen();
        }
        Ok(())
    }
}

/// What becomes of a record, counted in `worker` unless `Repeats` leaves it out. The value of a record that ends a read
/// goes into `buffer` as far as it fits: nowhere in a session that keeps no values, whose `buffer` is empty, nor where
/// no writer of the run has written such a record.
#[inline]
fn judge(
    record: &FetchedRecord<'_>,
    role: &ReaderRole,
    check: &mut SequenceCheck,
    worker: &WorkerTally,
    tally: &RunTally,
    buffer: &mut [u8],
) -> Taken {
    let moved = record.value.len() as u64;
    let key = RecordKey::read(record.key);
    match role {
        ReaderRole::Follows { run } => {
            let Some(key) = key.filter(|key| key.run == *run) else {
                add(&worker.foreign, 1);
                return Taken::Passed;
            };
            let handed = |writer: u32| tally.handed(writer);
            match check.see(key.writer, record.partition as u32, key.sequence, handed) {
                Seen::Next => {}
                Seen::Ahead(n) => add(&worker.missing, n),
                Seen::Late => {
                    add(&worker.late, 1);
                    worker.missing.fetch_sub(1, std::sync::atomic::Ordering::Relaxed);
                }
                Seen::Again => {
                    add(&worker.doubled, 1);
                    return Taken::Passed;
                }
                Seen::Beyond => {
                    add(&worker.received, 1);
                    add(&worker.torn, 1);
                    return Taken::Record(Status::VERIFY, moved);
                }
            }
        }
        ReaderRole::Repeats { to, .. } => {
            let end = to.get(record.partition as usize).copied().unwrap_or(0);
            if record.offset >= end || record.key == MARK {
                return Taken::Passed;
            }
        }
    }
    add(&worker.received, 1);
    let n = buffer.len().min(record.value.len());
    buffer[..n].copy_from_slice(&record.value[..n]);
    match key {
        Some(key) if key.sum != sum(record.value) => {
            add(&worker.torn, 1);
            Taken::Record(Status::VERIFY, moved)
        }
        _ => Taken::Record(Status::OK, moved),
    }
}

impl Session for ConsumerSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.buffers.slot(slot)
    }

    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        if self.waiting.len() >= self.depth {
            return Ok(Submitted::Full);
        }
        if op.kind != OpKind::Read {
            return Err(Error::internal(format!(
                "a session that reads was asked for {}",
                op.kind.name()
            )));
        }
        self.waiting.push_back((token, slot));
        Ok(Submitted::Queued)
    }

    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        let mut came = 0;
        loop {
            came += self.take(out)?;
            let done = came >= min || self.waiting.is_empty();
            if done || !wait(&mut self.readiness, until)? {
                return Ok(());
            }
        }
    }
}
