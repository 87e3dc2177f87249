//! A worker that appends: each record goes to the library's queue in submit, and its delivery report ends it.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Instant;

use rustix::event::epoll::EventFlags;
use taillight_core::probe::Token;
use taillight_core::{Error, Op, OpKind, Result, Stamp, Status};

use super::record::{RecordKey, sum};
use super::sys::{KafkaLibrary, code};
use super::tally::{RunTally, UNACKNOWLEDGED_MAX, WorkerTally, WriterEnd};
use super::transfer::{Producer, SlotProducer};
use crate::buffers::Buffers;
use crate::contract::{Completion, Session, SessionSpec, Submitted};
use crate::counter::add;
use crate::net::{ReadinessLoop, left};

/// A record in flight.
#[derive(Debug, Clone, Copy)]
struct LiveRecord {
    token: Token,
    partition: u32,
    sequence: u64,
    size: u64,
}

/// The session.
pub struct ProducerSession {
    library: Arc<KafkaLibrary>,
    producer: SlotProducer,
    readiness: ReadinessLoop,
    live: Vec<LiveRecord>,
    run: u64,
    /// The partition of the next record.
    partition: u32,
    end: WriterEnd,
    worker: Arc<WorkerTally>,
    tally: Arc<RunTally>,
}

/// No descriptor or memory for a session.
pub fn no_session(e: impl Into<std::io::Error>) -> Error {
    Error::unavailable("a session cannot be made")
        .source(e.into())
        .hint("use fewer workers or a smaller depth")
}

/// What tells when the library has something for a session. Errors: `Unavailable` without descriptors.
pub fn wakes_of(fd: Option<BorrowedFd<'_>>) -> Result<ReadinessLoop> {
    let readiness = ReadinessLoop::new(1).map_err(no_session)?;
    let fd = fd.ok_or_else(|| Error::internal("a client without a descriptor"))?;
    readiness.add(fd, 0, EventFlags::IN).map_err(no_session)?;
    Ok(readiness)
}

/// Waits until the library has something, no longer than `until`; false, without a wait, where that
/// time is over. Errors: `Target` when waiting fails.
pub fn wait(readiness: &mut ReadinessLoop, until: Option<Stamp>) -> Result<bool> {
    let left = left(until);
    if left == Some(0) {
        return Ok(false);
    }
    let waited = readiness.wait(left);
    waited.map_err(|e| Error::target("waiting for a broker failed").source(e))?;
    Ok(true)
}

impl ProducerSession {
    /// Errors: `Unavailable` without memory or descriptors.
    pub fn new(
        library: Arc<KafkaLibrary>,
        tally: Arc<RunTally>,
        producer: Producer,
        run: u64,
        partitions: u32,
        spec: &SessionSpec,
    ) -> Result<ProducerSession> {
        let depth = spec.depth.max(1);
        let readiness = wakes_of(producer.descriptor())?;
        let buffers = Buffers::new(depth, spec.buffer_size).map_err(no_session)?;
        let none = LiveRecord { token: Token(0), partition: 0, sequence: 0, size: 0 };
        let (writer, worker) = tally.writer();
        let partitions = partitions.max(1);
        let written = vec![0; partitions as usize];
        Ok(ProducerSession {
            library,
            producer: SlotProducer::new(producer, buffers),
            readiness,
            live: vec![none; depth as usize],
            run,
            partition: writer % partitions,
            end: WriterEnd { writer, written, ..WriterEnd::default() },
            worker,
            tally,
        })
    }

    /// Takes the delivery reports that have come; how many.
    fn take(&mut self, out: &mut Vec<Completion>) -> u32 {
        let before = self.producer.lent();
        let (live, end) = (&self.live, &mut self.end);
        let (worker, tally, library) = (&self.worker, &self.tally, &self.library);
        self.producer.reports(
            |report| {
                let Some(record) = live.get(report.tag as usize) else { return };
                if report.code == 0 {
                    add(&worker.acknowledged, 1);
                    out.push(Completion::ok(record.token, record.size));
                    return;
                }
                tally.fault(library, report.code, None);
                unacknowledged(end, worker, record);
                out.push(Completion::failed(record.token, status(report.code)));
            },
            |wrong| tally.fault(library, wrong.code, Some(wrong.text)),
        );
        before - self.producer.lent()
    }
}

/// Takes note of a record that is not known to be stored.
#[cold]
fn unacknowledged(end: &mut WriterEnd, worker: &WorkerTally, record: &LiveRecord) {
    add(&worker.failed, 1);
    match end.unacknowledged.len() < UNACKNOWLEDGED_MAX {
        true => end.unacknowledged.push((record.partition, record.sequence)),
        false => end.forgot = true,
    }
}

fn status(code: i32) -> Status {
    match code {
        code::MESSAGE_TIMED_OUT | code::TIMED_OUT => Status::TIMEOUT,
        code::STORAGE => Status(rustix::io::Errno::IO.raw_os_error()),
        _ => Status::STORE,
    }
}

impl Session for ProducerSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.producer.buffer(slot)
    }

    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        if self.producer.lent() as usize >= self.live.len() {
            return Ok(Submitted::Full);
        }
        if op.kind != OpKind::Write {
            return Err(Error::internal(format!(
                "a session that appends was asked for {}",
                op.kind.name()
            )));
        }
        let partition = self.partition;
        let sequence = self.end.written[partition as usize];
        let whole = self.producer.buffer(slot);
        let too_large = || Error::internal("value larger than the buffer").with("size", op.size);
        let value = whole.get(..op.size as usize).ok_or_else(too_large)?;
        let key = RecordKey { run: self.run, writer: self.end.writer, sequence, sum: sum(value) };
        let begun = Instant::now();
        let taken = self.producer.produce(slot, op.size as usize, partition as i32, &key.write());
        add(&self.worker.produce_ns, begun.elapsed().as_nanos() as u64);
        match taken {
            Ok(()) => {}
            Err(code::QUEUE_FULL) if self.producer.lent() > 0 => return Ok(Submitted::Full),
            Err(code::FATAL) => {
                return Err(Error::target(
                    "the producer cannot go on: its order of records is lost",
                )
                .hint("look at the brokers' logs; without options.idempotence it would go on"));
            }
            Err(code) => {
                self.tally.fault(&self.library, code, None);
                add(&self.worker.failed, 1);
                return Ok(Submitted::Done(Completion::failed(token, status(code))));
            }
        }
        add(&self.worker.produced, 1);
        self.live[slot as usize] = LiveRecord { token, partition, sequence, size: op.size };
        self.end.written[partition as usize] += 1;
        self.partition = (partition + 1) % self.end.written.len() as u32;
        Ok(Submitted::Queued)
    }

    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        let mut came = 0;
        loop {
            came += self.take(out);
            let done = came >= min || self.producer.lent() == 0;
            if done || !wait(&mut self.readiness, until)? {
                return Ok(());
            }
        }
    }
}

impl Drop for ProducerSession {
    fn drop(&mut self) {
        if self.producer.lent() > 0 {
            // What was sent may be stored or not.
            self.producer.purge();
            self.take(&mut Vec::new());
        }
        self.tally.end(std::mem::take(&mut self.end));
    }
}
