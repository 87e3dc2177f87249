//! One worker's handle: a connection per slot, driven by one epoll instance.
//!
//! Requests leave in `submit`, as far as the socket takes them; `poll` waits for whichever connection
//! can go on. An operation may be several requests, one after the other in its slot: an upload in parts (`multipart`),
//! a scan (`scan`). Nothing is sent twice: a broken connection fails its operation, and the next
//! operation of that slot connects anew. Nothing is allocated per operation, except for the parts
//! of a multipart upload; memory for tags is taken once for 4,096 keys put (`tags`).

use std::sync::Arc;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::event::epoll::EventFlags;
use taillight_core::probe::Token;
use taillight_core::{Clock, Error, MonoClock, Op, OpKind, Result, Stamp, Status};

use super::connection::{BodySink, HttpConnection, IoProgress, RequestSpec, status};
use super::multipart::{self, MultipartUpload};
use super::request::{RequestWriter, S3Request};
use super::scan::{self, ObjectScan};
use super::target::S3Shared;
use crate::buffers::Buffers;
use crate::contract::{Completion, Session, SessionSpec, Submitted};
use crate::kv::written::SessionKeys;
use crate::net::{ReadinessLoop, Transport, left};

/// Bytes read at once.
const SCRATCH: usize = 256 << 10;
/// A connection whose last operation ended so many ns ago is looked at before it is used: stores
/// hang up on idle ones, and the event that says so may have come with the last answer. Busier ones
/// are spared the system call.
const IDLE_NS: i64 = 100_000_000;

/// One worker's session: its slots, each with a connection and a buffer.
pub struct S3Session {
    shared: Arc<S3Shared>,
    written: Arc<SessionKeys>,
    workload: usize,
    /// What gets bring is kept in the slot's buffer, else it is dropped.
    keep: bool,
    readiness: ReadinessLoop,
    slots: Vec<S3Slot>,
    buffers: Buffers,
    api: RequestWriter,
    name: Vec<u8>,
    query: String,
    scratch: Box<[u8]>,
    /// Ended, and not yet handed out by `poll`.
    ready: Vec<Completion>,
    in_flight: u32,
    /// No deadline passes before this.
    next_deadline: Stamp,
    rng: Xoshiro256PlusPlus,
}

/// A place for an operation in flight.
pub(super) struct S3Slot {
    pub(super) connection: HttpConnection,
    /// Which of the store's servers it talks to.
    pub(super) host: usize,
    job: Option<PendingRequest>,
    pub(super) upload: MultipartUpload,
    scan: ObjectScan,
    /// When the last operation ended.
    ended: Stamp,
}

/// The operation in a slot, whichever of its requests is under way.
#[derive(Clone, Copy)]
struct PendingRequest {
    token: Token,
    op: Op,
    /// Bytes of a range asked; 0 = the whole object.
    range: u64,
    deadline: Stamp,
}

impl S3Session {
    /// A session; its connections are made with their first requests. Errors: `Unavailable` when
    /// the system gives no epoll instance or no memory.
    pub fn new(shared: Arc<S3Shared>, spec: &SessionSpec) -> Result<S3Session> {
        let depth = spec.depth.max(1) as usize;
        let readiness = ReadinessLoop::new(depth.max(8))
            .map_err(|e| Error::unavailable("no epoll instance").source(e))?;
        let hosts = shared.store.servers();
        let slot = |n: usize| S3Slot {
            connection: HttpConnection::new(),
            host: (usize::from(spec.worker) + n) % hosts,
            job: None,
            upload: MultipartUpload::default(),
            scan: ObjectScan::default(),
            ended: Stamp::NEVER,
        };
        Ok(S3Session {
            written: shared.prefix.written.session(),
            workload: usize::from(spec.workload),
            keep: spec.keep,
            readiness,
            slots: (0..depth).map(slot).collect(),
            buffers: Buffers::new(spec.depth, spec.buffer_size)
                .map_err(|e| Error::unavailable("no memory for objects").source(e))?,
            api: shared.store.api(),
            name: Vec::with_capacity(1024),
            query: String::with_capacity(256),
            scratch: vec![0; SCRATCH].into_boxed_slice(),
            ready: Vec::with_capacity(depth),
            in_flight: 0,
            next_deadline: Stamp::NEVER,
            rng: Xoshiro256PlusPlus::seed_from_u64(spec.seed),
            shared,
        })
    }

    /// Makes sure slot `n` has a connection, or one on its way; whether it is new. Errors: the system's.
    fn connect(&mut self, n: usize) -> std::io::Result<bool> {
        let slot = &mut self.slots[n];
        if slot.connection.transport().is_some() {
            return Ok(false);
        }
        let store = &self.shared.store;
        let transport = Transport::begin(store.address(slot.host), store.tls.get(slot.host))?;
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
        self.readiness.add(&transport, n, flags)?;
        self.shared.counts.connections.connect();
        slot.connection.connect(transport);
        Ok(true)
    }

    /// Writes the next request of slot `n` and sends what the socket takes; a new connection sends later. An operation
    /// that gets no connection ends as failed.
    fn start(&mut self, n: usize) {
        let fresh = match self.connect(n) {
            Ok(fresh) => fresh,
            Err(e) => return self.end(n, status(&e)),
        };
        let Some(job) = self.slots[n].job else { return };
        self.shared.names[self.workload].write(job.op.key, &mut self.name);
        if job.op.kind == OpKind::Scan {
            scan::start_after(&mut self.name);
        }
        let spec = self.write(n, &job);
        self.slots[n].connection.begin(&spec, fresh);
        // A new connection is not made yet: an event says when.
        if !fresh {
            self.drive(n);
        }
    }

    /// Writes the head of the next request of slot `n` into its connection and says what goes with it and what to do
    /// with the answer: that of the operation's kind, or the next one of an upload or a scan under way.
    fn write(&mut self, n: usize, job: &PendingRequest) -> RequestSpec {
        let slot = &mut self.slots[n];
        let mut spec = RequestSpec {
            upload: (0, 0),
            bodiless: false,
            sink: BodySink::Drop,
            stamp_first_byte: false,
            event_driven: true,
        };
        let name = &self.name;
        let mut request = S3Request::new("GET", name);
        match job.op.kind {
            OpKind::Get => {
                spec.stamp_first_byte = true;
                if self.keep {
                    spec.sink = BodySink::Buffer;
                }
                if job.range > 0 {
                    let room = self.shared.smallest[self.workload].saturating_sub(job.range);
                    let at = self.rng.random_range(0..=room);
                    request.range = Some((at, at + job.range - 1));
                }
            }
            OpKind::Stat => {
                request.method = "HEAD";
                spec.bodiless = true;
            }
            OpKind::Delete => request.method = "DELETE",
            OpKind::List => {
                spec.stamp_first_byte = true;
                spec.sink = BodySink::Keys;
                request.name = &[];
                list_query(&self.shared, name, self.shared.store.options.max_keys, &mut self.query);
                request.query = &self.query;
            }
            OpKind::Scan => match slot.scan.name() {
                Some(name) => request.name = name,
                None => {
                    spec.sink = BodySink::Text(scan::ANSWER_MAX);
                    request.name = &[];
                    list_query(&self.shared, name, job.op.count, &mut self.query);
                    request.query = &self.query;
                }
            },
            _ if slot.upload.active() => {
                let buffer = self.buffers.slot(n as u32);
                return multipart::write(slot, buffer, name, &mut self.api, spec);
            }
            _ => {
                let size = job.op.size as usize;
                spec.upload = (0, size);
                request.method = "PUT";
                request.data = true;
                request.body = &self.buffers.slot(n as u32)[..size];
            }
        }
        self.api.write(slot.host, &request, &mut slot.connection.head);
        spec
    }

    /// Lets slot `n` go on. With an answer its operation ends, or its next request starts. A slot without an operation
    /// is looked at for a connection that was closed.
    fn drive(&mut self, n: usize) {
        let slot = &mut self.slots[n];
        let Some(job) = slot.job else {
            return slot.connection.check_idle();
        };
        match slot.connection.drive(self.buffers.slot(n as u32), &mut self.scratch) {
            IoProgress::Waits => {}
            IoProgress::Failed(status) => self.end(n, status),
            IoProgress::Answered => {
                let code = slot.connection.reply.code;
                if !(200..300).contains(&code) {
                    self.shared.counts.code(code);
                }
                let next = match (slot.upload.active(), slot.scan.active()) {
                    (true, _) => Some(multipart::answered(slot, &self.api)),
                    (_, true) => {
                        let names = &self.shared.names[self.workload];
                        Some(slot.scan.answered(&slot.connection, names))
                    }
                    _ => None,
                };
                match next {
                    Some(Some(status)) => return self.end(n, status),
                    Some(None) => return self.start(n),
                    None => {}
                }
                let status = match code {
                    200..300 => range_status(&job, &slot.connection),
                    404 => Status::NOT_FOUND,
                    _ => Status::STORE,
                };
                self.end(n, status);
            }
        }
    }

    /// Ends the operation in slot `n`, if there is one: notes the tag of what was written and an upload that may be
    /// left in the store, and makes the completion for `poll`.
    fn end(&mut self, n: usize, status: Status) {
        let slot = &mut self.slots[n];
        let Some(job) = slot.job.take() else { return };
        if writes(job.op.kind) {
            // An upload in parts has a tag that its last answer says in its body.
            let known = status.is_ok() && !slot.upload.active();
            let etag = if known { slot.connection.reply.etag.as_str() } else { "" };
            self.shared.prefix.tags[self.workload].note(job.op.key, etag);
        }
        if let Some(lost) = slot.upload.lost(|| self.shared.names[self.workload].name(job.op.key)) {
            self.shared.lost.note(lost);
        }
        slot.upload.reset();
        slot.scan.reset();
        slot.ended = MonoClock.now();
        if status == Status::TIMEOUT {
            self.shared.counts.connections.timeout();
        } else if status > Status::OK {
            self.shared.counts.connections.broken();
        }
        let moved = match job.op.kind {
            _ if !status.is_ok() && status != Status::SHORT => 0,
            OpKind::Get | OpKind::List => slot.connection.moved,
            OpKind::Scan => slot.scan.result().1,
            OpKind::Stat | OpKind::Delete => 0,
            _ => job.op.size,
        };
        self.ready.push(Completion {
            status,
            first: if status.is_ok() { slot.connection.first } else { None },
            count: match job.op.kind {
                OpKind::List => slot.connection.keys,
                OpKind::Scan => slot.scan.result().0,
                _ => 0,
            },
            ..Completion::ok(job.token, moved)
        });
    }

    /// Ends what is overdue as timed out; its connections are closed, since an answer may still come.
    fn expire(&mut self, now: Stamp) {
        if now < self.next_deadline {
            return;
        }
        self.next_deadline = Stamp::NEVER;
        for n in 0..self.slots.len() {
            let Some(job) = self.slots[n].job else {
                continue;
            };
            if job.deadline <= now {
                self.slots[n].connection.hang_up();
                self.end(n, Status::TIMEOUT);
            } else {
                self.next_deadline = self.next_deadline.min(job.deadline);
            }
        }
    }

    /// Waits for connections until `until`, without one for as long as it takes, and lets those go on that can. Errors:
    /// `Target` when the system cannot wait.
    fn wait(&mut self, until: Option<Stamp>) -> Result<()> {
        let ready = self.readiness.wait(left(until));
        let ready =
            ready.map_err(|e| Error::target("waiting for the object store failed").source(e))?;
        for nth in 0..ready {
            self.drive(self.readiness.ready(nth));
        }
        Ok(())
    }

    /// Moves what has ended to `out`; how many.
    fn hand_out(&mut self, out: &mut Vec<Completion>) -> u32 {
        let n = self.ready.len() as u32;
        out.append(&mut self.ready);
        self.in_flight -= n;
        n
    }
}

/// Notes the uploads that were under way when the load ended.
impl Drop for S3Session {
    fn drop(&mut self) {
        let name = |key| self.shared.names[self.workload].name(key);
        for slot in &self.slots {
            let lost = slot.job.and_then(|job| slot.upload.lost(|| name(job.op.key)));
            lost.into_iter().for_each(|lost| self.shared.lost.note(lost));
        }
    }
}

/// Whether an operation of this kind stores an object; deleting one is none.
fn writes(kind: OpKind) -> bool {
    !matches!(kind, OpKind::Get | OpKind::Stat | OpKind::List | OpKind::Scan | OpKind::Delete)
}

/// Writes the query of a listing, its parameters in order: at most `keys` names under the prefix that follow `name`.
fn list_query(shared: &S3Shared, name: &[u8], keys: u32, query: &mut String) {
    use std::fmt::Write as _;
    let store = &shared.store;
    query.clear();
    let _ = write!(query, "list-type=2&max-keys={keys}&prefix=");
    let mut bytes = std::mem::take(query).into_bytes();
    super::request::encode(store.location.prefix.as_bytes(), false, &mut bytes);
    bytes.extend_from_slice(b"&start-after=");
    super::request::encode(name, false, &mut bytes);
    *query = String::from_utf8(bytes).unwrap_or_default();
}

/// The status of a get by how much it brought: `SHORT` where a range was asked and another number of bytes came.
fn range_status(job: &PendingRequest, connection: &HttpConnection) -> Status {
    match job.range {
        0 => Status::OK,
        asked if connection.moved == asked => Status::OK,
        _ => Status::SHORT,
    }
}

impl Session for S3Session {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.buffers.slot(slot)
    }

    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        let n = slot as usize;
        if self.slots[n].job.is_some() || self.in_flight as usize >= self.slots.len() {
            return Ok(Submitted::Full);
        }
        let now = MonoClock.now();
        if now.since(self.slots[n].ended) > IDLE_NS {
            self.slots[n].connection.check_idle();
        }
        let options = &self.shared.store.options;
        let deadline = now.plus(options.timeout.0);
        if op.kind == OpKind::Scan {
            self.slots[n].scan.begin();
        }
        if writes(op.kind) {
            if op.size > self.buffers.size() {
                return Err(Error::internal("value larger than the buffer").with("size", op.size));
            }
            self.written.note(op.key, 1, op.size);
            if op.size > options.part_size.0 {
                self.slots[n].upload.begin(op.size, options.part_size.0);
            }
        }
        self.slots[n].job = Some(PendingRequest {
            token,
            op: *op,
            range: if op.kind == OpKind::Get { options.range.0 } else { 0 },
            deadline,
        });
        self.next_deadline = self.next_deadline.min(deadline);
        self.in_flight += 1;
        self.start(n);
        Ok(Submitted::Queued)
    }

    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        let min = min.min(self.in_flight);
        let mut got = self.hand_out(out);
        if got >= min {
            if min == 0 && got == 0 && self.in_flight > 0 {
                self.wait(Some(Stamp(0)))?;
                self.expire(MonoClock.now());
                self.hand_out(out);
            }
            return Ok(());
        }
        loop {
            let wake = until.map_or(self.next_deadline, |u| u.min(self.next_deadline));
            self.wait(Some(wake))?;
            got += self.hand_out(out);
            if got >= min {
                return Ok(());
            }
            let now = MonoClock.now();
            self.expire(now);
            got += self.hand_out(out);
            if got >= min || until.is_some_and(|u| now >= u) {
                return Ok(());
            }
        }
    }
}
