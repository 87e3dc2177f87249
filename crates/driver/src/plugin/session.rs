//! One worker on a plug-in: operations become the descriptors of the ABI, and its answers completions.
//!
//! At depth 1 an operation is handed over inside `submit`, so that a store that answers at once is measured by its
//! call alone. Deeper, operations are collected and handed over together by `flush`. Nothing is allocated per
//! operation. A plug-in that ends what is not in flight, or refuses with nothing in flight, ends the run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::keys::KEY_MAX;
use taillight_core::op::SyncKind;
use taillight_core::plan::Plan;
use taillight_core::probe::{SLOT_BITS, Token};
use taillight_core::{Clock, Error, MonoClock, Op, OpKind, Result, Stamp, Status};

use super::Plugin;
use super::carrier::{PluginHandle, PluginQueue};
use super::sys::{PluginDone, PluginOp};
use crate::contract::{Completion, Session, Submitted};
use crate::kv::rules::WorkloadRules;
use crate::kv::written::{SessionKeys, WrittenKeys};

/// Kind of the operation that does nothing.
pub const NOOP: u8 = 255;
/// Flags of an operation.
const KEEP: u16 = 1;
const REVERSE: u16 = 2;
pub const MARK: u16 = 4;
/// Most bytes that one operation is believed to have read: values may be larger than a slot, and not so large.
const READ_MAX: u64 = 1 << 40;
/// Longest call of a store by its own stamps that is believed, ns: an hour.
const CALL_MAX: u64 = 3_600_000_000_000;

/// Time that a session was inside the store by the plug-in's own stamps, ns, and once it has ended its operations; the
/// session alone writes both.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct StoreTime {
    ns: AtomicU64,
    operations: AtomicU64,
}

impl StoreTime {
    pub fn total(&self) -> u64 {
        self.ns.load(Ordering::Relaxed)
    }
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }
    #[inline]
    fn add(&self, ns: u64) {
        crate::counter::add(&self.ns, ns);
    }
}

/// What a session is made from.
pub struct PluginSeat {
    pub worker: u32,
    pub depth: u32,
    /// Bytes of a slot's buffer.
    pub buffer_size: u64,
    /// Records of the largest batch.
    pub batch: u32,
    pub keep: bool,
    /// How keys are written; none where blocks are named by offset.
    pub rules: Option<WorkloadRules>,
    /// Operations handed over at once.
    pub submit_batch: u32,
    /// The plug-in has a `poll`.
    pub polls: bool,
    pub time: Arc<StoreTime>,
    pub written: Arc<SessionKeys>,
}

impl PluginSeat {
    /// Beside the load: what such a session writes is no record of the run.
    pub fn beside(plugin: &Plugin, worker: u32, depth: u32, buffer_size: u64) -> PluginSeat {
        PluginSeat {
            worker,
            depth,
            buffer_size,
            batch: 1,
            keep: true,
            rules: None,
            submit_batch: plugin.description.submit_batch,
            polls: plugin.carrier.can_poll(),
            time: Arc::default(),
            written: WrittenKeys::of(&Plan::default()).session(),
        }
    }
}

/// An operation that the plug-in has, or will get.
#[derive(Debug, Clone, Copy)]
struct LiveOp {
    /// What the plug-in knows it by; 0 where nothing is in flight.
    tag: u64,
    token: Token,
    /// Most bytes that it moves.
    most: u64,
    /// Records of a batch or scan, which has a count; 0 elsewhere.
    records: u32,
    /// Its sync is timed.
    synced: bool,
}

impl LiveOp {
    /// Whether its end has neither a count of records nor the time of a sync.
    #[inline]
    fn is_single(&self) -> bool {
        self.records == 0 && !self.synced
    }

    /// Whether `done` says that it moved more bytes, or had more records, than it can have.
    #[inline]
    fn is_exceeded(&self, done: &PluginDone) -> bool {
        done.moved > self.most || self.records > 0 && done.count > self.records
    }

    /// Its end, as `done` says it.
    #[inline(always)]
    fn end(&self, done: &PluginDone) -> Completion {
        // Apart, though what follows says the same of them: most ends have token and bytes alone, and need no other register.
        if done.status == 0 && done.first_ns == 0 && done.retries == 0 && self.is_single() {
            return Completion::ok(self.token, done.moved);
        }
        // What failed with -1 bytes has failed.
        let over = self.is_exceeded(done);
        Completion {
            token: self.token,
            status: Status(done.status),
            moved: if over { 0 } else { done.moved },
            sync_ns: self.synced.then_some(done.sync_ns),
            first: i64::try_from(done.first_ns).ok().filter(|ns| *ns > 0).map(Stamp),
            count: if self.records > 0 && !over { done.count } else { 0 },
            retries: done.retries,
            inner: false,
        }
    }
}

/// The session.
pub struct PluginSession {
    /// Gone only when it is given up.
    queue: Option<PluginQueue>,
    seat: PluginSeat,
    /// Where in a slot its keys begin.
    keys_at: usize,
    /// Bytes from slot to slot.
    stride: u64,
    key: Box<[u8; KEY_MAX]>,
    live: Vec<LiveOp>,
    generation: u64,
    /// As many as it is deep: the first `queued` are not handed over yet, the one behind them is made next.
    pending: Vec<PluginOp>,
    queued: usize,
    /// Handed over and not ended.
    in_flight: u32,
    done: Vec<PluginDone>,
    /// Ended while operations were handed over.
    ended: Vec<Completion>,
    /// The plug-in broke the contract: what it still writes to is not known.
    broken: bool,
}

impl PluginSession {
    /// A session of the opened target. Errors: `Unavailable` when there is no memory, or the plug-in refuses.
    pub fn new(target: &PluginHandle, seat: PluginSeat) -> Result<PluginSession> {
        let depth = seat.depth.max(1);
        let records = seat.batch.max(1) as usize;
        let batch = seat.rules.as_ref().map_or(0, |r| (r.format.longest() + 4) * records);
        // One key is written in place, which takes room for the longest that there may be.
        let keys = batch.max(KEY_MAX);
        let keys_at = (seat.buffer_size as usize).next_multiple_of(64);
        let bytes = (keys_at + keys) as u64;
        let mut queue = target.session(seat.worker, depth, bytes, seat.buffer_size)?;
        let memory = queue.memory();
        let stride = if depth > 1 { memory.ptr(1) as u64 - memory.ptr(0) as u64 } else { 0 };
        let none = LiveOp { tag: 0, token: Token(0), most: 0, records: 0, synced: false };
        Ok(PluginSession {
            queue: Some(queue),
            seat,
            keys_at,
            stride,
            key: Box::new([0; KEY_MAX]),
            live: vec![none; depth as usize],
            generation: 1,
            pending: vec![PluginOp::default(); depth as usize],
            queued: 0,
            in_flight: 0,
            done: vec![PluginDone::default(); depth as usize + 1],
            ended: Vec::with_capacity(depth as usize),
            broken: false,
        })
    }

    fn depth(&self) -> usize {
        self.live.len()
    }

    fn queue(&mut self) -> Result<&mut PluginQueue> {
        self.queue.as_mut().ok_or_else(given_up)
    }

    /// Makes the next descriptor: that of `op`, without key and token. Errors: `Internal` where the value is larger than
    /// the buffer.
    // Where the plug-in reads it: the reads of a copy wait for the narrow writes of the fields.
    #[inline(always)]
    fn describe(&mut self, op: &Op, slot: u32) -> Result<()> {
        if op.kind.writes() && op.bytes() > self.seat.buffer_size {
            return Err(Error::internal("value larger than the buffer").with("size", op.bytes()));
        }
        let rules = self.seat.rules.as_ref();
        let durable = op.kind.writes() && rules.is_some_and(|r| r.durable);
        let reverse = op.kind == OpKind::Scan && rules.is_some_and(|r| r.reverse);
        self.pending[self.queued] = PluginOp {
            kind: op.kind as u8,
            sync: match op.sync {
                Some(SyncKind::Fsync) => 2,
                Some(SyncKind::Fdatasync) => 1,
                None => u8::from(durable),
            },
            target: op.target,
            count: op.count.max(1),
            offset: if rules.is_some() { op.key } else { op.offset },
            size: op.size,
            slot,
            key_at: u64::from(slot) * self.stride + self.keys_at as u64,
            value_at: u64::from(slot) * self.stride,
            field: op.field,
            flags: (u16::from(self.seat.keep) * KEEP) | (u16::from(reverse) * REVERSE),
            ..PluginOp::default()
        };
        Ok(())
    }

    /// The descriptor that was made and is not taken in yet.
    #[inline(always)]
    fn made(&mut self) -> &mut PluginOp {
        &mut self.pending[self.queued]
    }

    /// Writes the key with the number `n` into a slot; its bytes.
    #[inline]
    fn write_key(&mut self, slot: u32, n: u64) -> Result<u32> {
        let Some(rules) = &self.seat.rules else { return Ok(0) };
        let Some(queue) = self.queue.as_mut() else { return Err(given_up()) };
        let room = queue.memory().slot(slot)[self.keys_at..].first_chunk_mut::<KEY_MAX>();
        let room = room.ok_or_else(|| Error::internal("a slot without room for a key"))?;
        Ok(rules.format.write(n, room).len() as u32)
    }

    /// Writes the keys of an operation into its slot; their bytes.
    fn write_keys(
        &mut self,
        slot: u32,
        count: u32,
        mut keys: impl Iterator<Item = u64>,
    ) -> Result<u32> {
        if count <= 1 {
            return self.write_key(slot, keys.next().unwrap_or(0));
        }
        let Some(rules) = &self.seat.rules else { return Ok(0) };
        let Some(queue) = self.queue.as_mut() else { return Err(given_up()) };
        let out = &mut queue.memory().slot(slot)[self.keys_at..];
        let mut at = 0;
        for n in keys.take(count as usize) {
            let key = rules.format.write(n, &mut self.key);
            let Some(place) = out.get_mut(at..at + 4 + key.len()) else {
                return Err(Error::internal("a batch larger than the plan's").with("count", count));
            };
            place[..4].copy_from_slice(&(key.len() as u32).to_ne_bytes());
            place[4..].copy_from_slice(key);
            at += place.len();
        }
        Ok(at as u32)
    }

    /// Takes `op` in, whose descriptor is made but for its token. After an error the plug-in is not believed any more.
    #[inline(always)]
    fn take(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        self.generation += 1;
        let tag = self.generation << SLOT_BITS | u64::from(slot);
        let made = self.made();
        made.token = tag;
        let counted = made.count > 1 || made.kind == OpKind::Scan as u8;
        let records = if counted { made.count } else { 0 };
        // A value that is read or deleted may have any size, a block has the one that was asked.
        let open = matches!(op.kind, OpKind::Get | OpKind::Scan | OpKind::Delete);
        let most = if open || made.kind == NOOP { READ_MAX } else { op.bytes() };
        let synced = op.sync.is_some() && self.seat.rules.is_none();
        self.live[slot as usize] = LiveOp { tag, token, most, records, synced };
        if op.kind.writes() {
            self.seat.written.note(op.key, op.count, op.size);
        }
        if self.live.len() > 1 {
            self.queued += 1;
            return Ok(Submitted::Queued);
        }
        let Some(queue) = self.queue.as_mut() else { return Err(given_up()) };
        // There is room for one more than is due: who ends an operation twice at once is named, and breaks nothing.
        self.done[0] = PluginDone::default();
        let (taken, ended) = queue.submit(&self.pending, &mut self.done);
        match (taken, ended) {
            (1, 1) => match retired(&mut self.live, &self.seat.time, &self.done[0]) {
                // Made where it is returned: a copy would wait for the narrow writes of its fields.
                Ok(live) => Ok(Submitted::Done(live.end(&self.done[0]))),
                Err(e) => self.breaks(e),
            },
            (1, 0) if self.seat.polls => {
                self.in_flight = 1;
                Ok(Submitted::Queued)
            }
            (1, 0) => self.breaks(never_ends()),
            _ => {
                let odd = odd_answer(self.queue()?, taken, 1, ended);
                self.breaks(odd)
            }
        }
    }

    /// An error after which the plug-in is not believed any more.
    #[cold]
    fn breaks<T>(&mut self, e: Error) -> Result<T> {
        self.broken = true;
        Err(e)
    }

    /// An answer of the plug-in, after which a broken one is not believed any more.
    #[inline]
    fn kept<T>(&mut self, answer: Result<T>) -> Result<T> {
        self.broken |= answer.is_err();
        answer
    }

    /// Whether one more operation would be too many.
    #[inline]
    fn is_full(&self) -> bool {
        self.queued + self.in_flight as usize + self.ended.len() >= self.depth()
    }

    /// Hands pending operations over, as many as the plug-in takes at once.
    fn hand_over(&mut self) -> Result<()> {
        let most = match self.seat.submit_batch {
            0 => self.queued,
            n => self.queued.min(n as usize),
        };
        if most == 0 {
            return Ok(());
        }
        let Some(queue) = self.queue.as_mut() else { return Err(given_up()) };
        let (taken, ended) = queue.submit(&self.pending[..most], &mut self.done);
        let fits = usize::try_from(taken).is_ok_and(|taken| taken <= most);
        if !fits
            || ended as usize > taken as usize + self.in_flight as usize
            || ended as usize > most
        {
            return Err(odd_answer(queue, taken, most, ended));
        }
        self.pending.copy_within(taken as usize..self.queued, 0);
        self.queued -= taken as usize;
        self.in_flight = self.in_flight + taken as u32 - ended;
        let ends = &self.done[..ended as usize];
        ends_of(&mut self.live, &self.seat.time, ends, &mut self.ended)?;
        if self.in_flight > 0 && !self.seat.polls {
            return Err(never_ends());
        }
        if taken == 0 && self.in_flight == 0 {
            return Err(broken("it accepts no operation while none is in flight"));
        }
        Ok(())
    }

    /// One call of the plug-in's `poll`: completions go to `out`; how many.
    fn reap(&mut self, min: u32, until: u64, out: &mut Vec<Completion>) -> Result<u32> {
        let room = self.in_flight as usize;
        let Some(queue) = self.queue.as_mut() else { return Err(given_up()) };
        let came = queue.poll(&mut self.done[..room], min.min(room as u32), until);
        if came < 0 {
            return Err(queue.lost(came));
        }
        if came as usize > room {
            let more = broken("it ends more operations than are in flight");
            return Err(more.with("ended", came).with("in flight", room));
        }
        self.in_flight -= came as u32;
        ends_of(&mut self.live, &self.seat.time, &self.done[..came as usize], out)?;
        Ok(came as u32)
    }
}

/// The ends of operations in flight, of `live`, in their order, into `out`. Errors: as [`retired`]; those before the wrong one
/// are in `out`.
fn ends_of(
    live: &mut [LiveOp],
    time: &StoreTime,
    ends: &[PluginDone],
    out: &mut Vec<Completion>,
) -> Result<()> {
    for done in ends {
        out.push(retired(live, time, done)?.end(done));
    }
    Ok(())
}

/// Takes the operation that has ended off those in flight, of `live`. Errors: `Target` where the plug-in ends another
/// one, or says that it did more than it can have.
#[inline]
fn retired<'a>(live: &'a mut [LiveOp], time: &StoreTime, done: &PluginDone) -> Result<&'a LiveOp> {
    let slot = (done.token & ((1 << SLOT_BITS) - 1)) as usize;
    let live = match live.get_mut(slot) {
        Some(live) if live.tag == done.token && live.tag != 0 => live,
        _ => return Err(not_in_flight(done)),
    };
    if done.status == 0 && live.is_exceeded(done) {
        return Err(too_much(done, *live));
    }
    live.tag = 0;
    let inside = done.end_ns.wrapping_sub(done.start_ns);
    if done.start_ns > 0 && inside <= CALL_MAX {
        time.add(inside);
    }
    Ok(live)
}

/// A plug-in that breaks the contract.
#[cold]
fn broken(how: &str) -> Error {
    Error::target(format!("the plug-in breaks the contract: {how}"))
        .hint("taillight drivers --check PLUGIN says what else is wrong with it")
}

#[cold]
fn given_up() -> Error {
    Error::internal("a session that was given up")
}

#[cold]
fn not_in_flight(done: &PluginDone) -> Error {
    broken("it ended an operation that is not in flight: one that had ended before, or was never given to it")
        .with("token", format!("{:#x}", done.token))
}

#[cold]
fn too_much(done: &PluginDone, live: LiveOp) -> Error {
    broken("it says that an operation moved more bytes, or had more records, than it can have")
        .with("bytes", format!("{}, at most {}", done.moved, live.most))
        .with("records", format!("{}, asked {}", done.count, live.records.max(1)))
}

#[cold]
fn never_ends() -> Error {
    broken("it has no poll, and did not end an operation inside submit")
}

#[cold]
fn odd_answer(queue: &PluginQueue, taken: i32, given: usize, ended: u32) -> Error {
    match taken {
        ..0 => queue.lost(taken),
        0 => broken("it accepts no operation while none is in flight"),
        _ => broken("it accepts or ends more operations than it was given")
            .with("given", given)
            .with("accepted", taken)
            .with("ended", ended),
    }
}

impl Session for PluginSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        let size = self.seat.buffer_size as usize;
        match self.queue.as_mut() {
            Some(queue) => &mut queue.memory().slot(slot)[..size],
            None => &mut [],
        }
    }

    #[inline]
    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        if self.is_full() {
            return Ok(Submitted::Full);
        }
        self.describe(op, slot)?;
        // A scan begins at one key.
        self.made().key_len = match op.count <= 1 || op.kind == OpKind::Scan {
            true => self.write_key(slot, op.key)?,
            false => self.write_keys(slot, op.count, op.key..=u64::MAX)?,
        };
        self.take(op, slot, token)
    }

    fn submit_many(&mut self, op: &Op, keys: &[u64], slot: u32, token: Token) -> Result<Submitted> {
        if self.is_full() {
            return Ok(Submitted::Full);
        }
        self.describe(op, slot)?;
        self.made().key_len = self.write_keys(slot, op.count, keys.iter().copied())?;
        self.take(op, slot, token)
    }

    fn submit_batch(&self) -> u32 {
        match self.seat.submit_batch {
            0 => u32::MAX,
            n => n,
        }
    }

    fn flush(&mut self) -> Result<()> {
        let handed = self.hand_over();
        self.kept(handed)
    }

    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        let polled = self.poll_until(min, until, out);
        if polled.is_err() {
            self.end_all(out);
        }
        self.kept(polled)
    }

    fn abandon(self: Box<Self>) {
        // What is in flight may still be written to: `drop` leaves it alone.
    }
}

impl PluginSession {
    /// In place of `op` an operation that does nothing, carrying its key, and saying that its slot has `value` bytes of a
    /// value and that `read` bytes are to be given back.
    #[inline]
    pub fn noop(
        &mut self,
        op: &Op,
        slot: u32,
        token: Token,
        (value, read): (u64, u64),
    ) -> Result<Submitted> {
        if self.is_full() {
            return Ok(Submitted::Full);
        }
        self.describe(op, slot)?;
        self.made().key_len = self.write_key(slot, op.key)?;
        let made = self.made();
        (made.kind, made.size, made.offset) = (NOOP, value, read);
        self.take(op, slot, token)
    }

    /// Operations of a plug-in that is lost, or broke the contract, end as failures of the store. It still has their
    /// slots.
    #[cold]
    fn end_all(&mut self, out: &mut Vec<Completion>) {
        let live = self.live.iter_mut().filter(|live| live.tag != 0);
        out.extend(live.map(|live| {
            live.tag = 0;
            Completion::failed(live.token, Status::STORE)
        }));
    }

    fn poll_until(
        &mut self,
        min: u32,
        until: Option<Stamp>,
        out: &mut Vec<Completion>,
    ) -> Result<()> {
        let end = until.map_or(u64::MAX, |at| at.0.max(0) as u64);
        let mut came = 0;
        loop {
            if self.queued > 0 {
                self.hand_over()?;
            }
            came += self.ended.len() as u32;
            out.append(&mut self.ended);
            if self.in_flight > 0 {
                let wait = min.saturating_sub(came);
                came += self.reap(wait, if wait == 0 { 0 } else { end }, out)?;
            }
            let waits = came < min && (self.in_flight > 0 || self.queued > 0);
            if !waits || MonoClock.now().0 as u64 >= end {
                return Ok(());
            }
        }
    }
}

impl Drop for PluginSession {
    fn drop(&mut self) {
        crate::counter::add(&self.seat.time.operations, self.generation - 1);
        if (self.broken || self.in_flight > 0)
            && let Some(queue) = self.queue.take()
        {
            queue.leak();
        }
    }
}

/// A session for operations of the host's own, outside the load: by a key, one at a time, and one that does nothing.
pub struct HostSession {
    session: PluginSession,
}

impl HostSession {
    /// Depth and buffer as given; the queue must be empty between calls.
    pub fn new(session: PluginSession) -> HostSession {
        HostSession { session }
    }

    pub fn session(&mut self) -> &mut PluginSession {
        &mut self.session
    }

    /// Does nothing, through all that an operation passes. Errors: as [`HostSession::one`].
    pub fn noop(&mut self, until: Stamp) -> Result<Completion> {
        let op = Op::block(OpKind::Read, 0, 0, 0);
        let taken = self.session.noop(&op, 0, Token::new(1, 0), (0, 0))?;
        self.end(taken, "a no-op", until)
    }

    /// One operation on the record `key`, whose value is or will be in slot 0. Errors: `Target` when it does not
    /// end before `until`.
    pub fn one(
        &mut self,
        kind: OpKind,
        key: &[u8],
        size: u64,
        flags: u16,
        until: Stamp,
    ) -> Result<Completion> {
        // An operation that never ended still owns its slot.
        if self.session.broken || self.session.in_flight > 0 {
            return Err(Error::target("the plug-in lost a session of the host's"));
        }
        let op = Op::keyed(kind, 0, size);
        self.session.describe(&op, 0)?;
        let made = self.session.made();
        made.flags |= KEEP | flags;
        // The mark is durable, and with it what was done before it; a record of the run need not be.
        made.sync = u8::from(kind.writes() && flags & MARK != 0);
        made.key_len = key.len() as u32;
        let keys_at = self.session.keys_at;
        let out = &mut self.session.queue()?.memory().slot(0)[keys_at..];
        let fits = out.get_mut(..key.len()).ok_or_else(|| Error::internal("a key too long"))?;
        fits.copy_from_slice(key);
        let taken = self.session.take(&op, 0, Token::new(1, 0))?;
        self.end(taken, kind.name(), until)
    }

    /// The end of the operation that was `taken`. Errors: `Target` when it does not come before `until`.
    fn end(&mut self, taken: Submitted, what: &'static str, until: Stamp) -> Result<Completion> {
        match taken {
            Submitted::Done(completion) => return Ok(completion),
            Submitted::Full => return Err(broken("it is full with nothing in flight")),
            Submitted::Queued => {}
        }
        let mut out = Vec::with_capacity(1);
        self.session.poll(1, Some(until), &mut out)?;
        out.pop().ok_or_else(|| {
            Error::target("the plug-in did not end an operation in time")
                .with("operation", what)
                .hint("every accepted operation ends, in submit or in poll")
        })
    }
}
