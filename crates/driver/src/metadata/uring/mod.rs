//! Engine `io_uring`: a worker's operations queued in one ring.
//!
//! An operation is a few calls, one after the other: the next one is queued when `poll` has seen the one before it,
//! so that a failed or short call is known for what it is. A file that was opened is closed whatever comes in
//! between, and the operation ends with its last call. Reading a directory has no form for a ring: it is done inside
//! `submit`, as in engine `sync`.

mod sys;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use taillight_core::probe::{LATER_REQUEST, MAX_SLOTS, Token};
use taillight_core::{Clock, Error, MonoClock, Op, OpKind, Result, Stamp, Status};

use super::files::{LOOKS, SharedFiles, other};
use super::names::EntryName;
use super::options::MetadataSync;
use super::session::{DirectoryReader, buffers, unknown};
use crate::contract::{Completion, Session, SessionSpec, Submitted};
use sys::{CallRing, RingCall, number, opened};

/// Which call of its operation a slot has in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallStep {
    Idle,
    /// The only call, or the first one of those that open nothing.
    Single,
    Open,
    Data,
    FileSync,
    Close,
    DirectorySync,
}

/// What a slot is doing.
struct CallSlot {
    step: CallStep,
    token: Token,
    kind: OpKind,
    number: u64,
    name: EntryName,
    size: u64,
    file: Option<OwnedFd>,
    moved: u64,
    /// The first failure.
    status: Status,
    /// How often it was looked for again, under its other name.
    retries: u16,
}

/// The session.
pub struct RingSession {
    files: Arc<SharedFiles>,
    ring: CallRing,
    slots: Vec<CallSlot>,
    /// Slot of this session by slot of a token.
    local: Box<[u16]>,
    in_flight: u32,
    buffer_size: u64,
    lane: usize,
    listing: DirectoryReader,
}

/// Whether there is an io_uring here that has all calls. Errors: `Unavailable`.
pub fn check() -> Result<()> {
    let hint = "set options.engine = \"sync\" and queue_depth = 1";
    let missing = sys::missing()
        .map_err(|e| Error::unavailable("there is no io_uring here").source(e).hint(hint))?;
    match missing.is_empty() {
        true => Ok(()),
        false => Err(Error::unavailable("this kernel's io_uring lacks calls on names")
            .with("missing", missing.join(", "))
            .hint(hint)),
    }
}

impl RingSession {
    /// Makes the ring on the calling thread. Errors: `Unavailable` when the kernel refuses it.
    pub fn new(files: Arc<SharedFiles>, lane: usize, spec: &SessionSpec) -> Result<RingSession> {
        let ring = CallRing::new(spec.depth, buffers(spec)?).map_err(|e| {
            Error::unavailable("cannot make the worker's io_uring")
                .with("worker", spec.worker)
                .source(e)
        })?;
        let slot = || CallSlot {
            step: CallStep::Idle,
            token: Token(0),
            kind: OpKind::Stat,
            number: 0,
            name: EntryName::File(0),
            size: 0,
            file: None,
            moved: 0,
            status: Status::OK,
            retries: 0,
        };
        Ok(RingSession {
            files,
            ring,
            slots: (0..spec.depth).map(|_| slot()).collect(),
            local: vec![0; MAX_SLOTS as usize].into(),
            in_flight: 0,
            buffer_size: spec.buffer_size,
            lane,
            listing: DirectoryReader::new(),
        })
    }

    /// Queues the first call of what the slot is to do.
    #[inline]
    fn begin(&mut self, slot: u32) -> Result<()> {
        let CallSlot { kind, number: file, name, .. } = self.slots[slot as usize];
        let files = &*self.files;
        let leaf = files.leaf(file);
        let (path, second) = self.ring.paths(slot);
        files.path(path, leaf, name);
        if kind == OpKind::Rename {
            files.path(second, leaf, other(name));
        }
        let (on, deep) = (number(files.base(leaf)), !leaf.prefix.is_empty());
        let (call, step) = match kind.as_record() {
            OpKind::Insert | OpKind::Put => (RingCall::Open { create: true, deep }, CallStep::Open),
            OpKind::Get => (RingCall::Open { create: false, deep }, CallStep::Open),
            OpKind::Stat => (RingCall::Stat, CallStep::Single),
            OpKind::Delete => (RingCall::Unlink { directory: false }, CallStep::Single),
            OpKind::Rename => (RingCall::Rename, CallStep::Single),
            OpKind::Mkdir => (RingCall::Mkdir, CallStep::Single),
            OpKind::Rmdir => (RingCall::Unlink { directory: true }, CallStep::Single),
            other => return Err(unknown(other)),
        };
        self.push(call, on, slot, step)
    }

    #[inline]
    fn push(&mut self, call: RingCall, on: i32, slot: u32, step: CallStep) -> Result<()> {
        let state = &mut self.slots[slot as usize];
        let first = matches!(step, CallStep::Open | CallStep::Single) && state.retries == 0;
        let user_data = state.token.0 | if first { 0 } else { LATER_REQUEST };
        state.step = step;
        match self.ring.push(call, on, slot, user_data) {
            true => Ok(()),
            // The queue has an entry for each slot, and a slot one call at a time.
            false => Err(Error::internal("no entry left in the ring")),
        }
    }

    /// Takes the end of a slot's call: queues the next one, or gives the end of the operation.
    fn advance(&mut self, slot: u32, result: i32) -> Result<Option<Completion>> {
        let state = &mut self.slots[slot as usize];
        let failed = (result < 0).then(|| match -result {
            libc::ENOENT => Status::NOT_FOUND,
            errno => Status::errno(errno),
        });
        let first = matches!(state.step, CallStep::Open | CallStep::Single);
        let looks = match state.name {
            EntryName::Directory(_) => 1,
            _ if self.files.renames() => LOOKS,
            _ => 1,
        };
        if first && failed == Some(Status::NOT_FOUND) && state.retries + 1 < looks {
            // Renamed by another worker, or another operation, since its name was looked up.
            (state.retries, state.name) = (state.retries + 1, other(state.name));
            return self.begin(slot).map(|()| None);
        }
        if let (Some(failed), true) = (failed, state.status.is_ok()) {
            state.status = failed;
        }
        match state.step {
            CallStep::Idle => return Err(Error::internal("completion of nothing in flight")),
            CallStep::Open if failed.is_none() => state.file = Some(opened(result)),
            CallStep::Data if failed.is_none() => {
                state.moved = result as u64;
                if state.kind.carries() && state.moved != state.size {
                    state.status = Status::SHORT;
                }
            }
            CallStep::Single if failed.is_none() && state.kind == OpKind::Rename => {
                self.files.has(other(state.name));
            }
            _ => {}
        }
        let Some((call, on, step)) = self.following(slot) else {
            return Ok(Some(self.end(slot)));
        };
        self.push(call, on, slot, step).map(|()| None)
    }

    /// The call that comes after the one that ended.
    fn following(&mut self, slot: u32) -> Option<(RingCall, i32, CallStep)> {
        let state = &mut self.slots[slot as usize];
        let writes = state.kind.carries();
        let sync = self.files.sync;
        if let Some(file) = &state.file {
            let on = number(file.as_fd());
            let ok = state.status.is_ok();
            let size = if writes { state.size } else { self.buffer_size } as u32;
            let data = match writes {
                true => RingCall::Write { len: size },
                false => RingCall::Read { len: size },
            };
            return match state.step {
                CallStep::Open if ok && size > 0 => Some((data, on, CallStep::Data)),
                CallStep::Open | CallStep::Data if ok && writes && sync >= MetadataSync::File => {
                    Some((RingCall::Fsync, on, CallStep::FileSync))
                }
                _ => {
                    // The ring closes it.
                    let on = state.file.take().map(std::os::fd::IntoRawFd::into_raw_fd)?;
                    Some((RingCall::Close, on, CallStep::Close))
                }
            };
        }
        let named = state.kind.writes() && state.status.is_ok();
        if named && sync == MetadataSync::Directory && state.step != CallStep::DirectorySync {
            let on = number(self.files.leaf(state.number).fd.as_fd());
            return Some((RingCall::Fsync, on, CallStep::DirectorySync));
        }
        None
    }

    fn end(&mut self, slot: u32) -> Completion {
        let state = &mut self.slots[slot as usize];
        state.step = CallStep::Idle;
        let failed = !state.status.is_ok();
        Completion {
            status: state.status,
            retries: state.retries,
            ..Completion::ok(state.token, if failed { 0 } else { state.moved })
        }
    }

    /// Takes what is there; how many operations ended.
    fn reap(&mut self, out: &mut Vec<Completion>) -> Result<u32> {
        let mut done = 0;
        while let Some((user_data, result)) = self.ring.next_completion() {
            let token = Token(user_data & !LATER_REQUEST);
            let slot = u32::from(self.local[token.slot() as usize]);
            if let Some(completion) = self.advance(slot, result)? {
                out.push(completion);
                done += 1;
            }
        }
        self.in_flight -= done;
        Ok(done)
    }
}

/// `abandon` just drops it: a ring with calls in flight never frees what they point to.
impl Session for RingSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        assert!(self.slots[slot as usize].step == CallStep::Idle, "slot {slot} is in flight");
        &mut self.ring.buffer(slot)[..self.buffer_size as usize]
    }

    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        if self.in_flight as usize == self.slots.len() {
            return Ok(Submitted::Full);
        }
        if op.kind == OpKind::Readdir {
            return Ok(Submitted::Done(match self.listing.count(&self.files.leaf(op.key).fd) {
                Ok(count) => Completion { count, ..Completion::ok(token, 0) },
                Err(failed) => Completion::failed(token, failed),
            }));
        }
        if op.kind.carries() && op.size > self.buffer_size {
            return Err(Error::internal("value larger than the buffer").with("size", op.size));
        }
        let name = match op.kind {
            OpKind::Mkdir => EntryName::Directory(self.files.make_directory(self.lane)),
            OpKind::Rmdir => EntryName::Directory(self.files.remove_directory(self.lane)),
            _ => self.files.name(op.key),
        };
        let number = match name {
            EntryName::Directory(number) => number,
            _ => op.key,
        };
        let state = &mut self.slots[slot as usize];
        if state.step != CallStep::Idle || token.0 & LATER_REQUEST != 0 {
            return Err(Error::internal("slot is in use").with("slot", slot));
        }
        self.local[token.slot() as usize] = slot as u16;
        *state = CallSlot {
            step: CallStep::Idle,
            token,
            kind: op.kind,
            number,
            name,
            size: op.size,
            file: None,
            moved: 0,
            status: Status::OK,
            retries: 0,
        };
        self.begin(slot)?;
        self.in_flight += 1;
        Ok(Submitted::Queued)
    }

    fn flush(&mut self) -> Result<()> {
        match self.ring.unsubmitted() {
            0 => Ok(()),
            _ => self.ring.submit().map_err(failed),
        }
    }

    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        self.flush()?;
        let min = min.min(self.in_flight);
        let mut done = self.reap(out)?;
        if done == 0 && min == 0 && self.in_flight > 0 && self.ring.needs_call() {
            self.ring.collect().map_err(failed)?;
            done += self.reap(out)?;
        }
        while done < min {
            let left = until.map(|until| until.since(MonoClock.now()).max(0) as u64);
            match left {
                Some(0) => self.ring.collect().map_err(failed)?,
                // The next call of an operation has to begin when the one before it ends.
                left => self.ring.wait(1, left).map_err(failed)?,
            }
            done += self.reap(out)?;
            if done < min && until.is_some_and(|until| MonoClock.now() >= until) {
                break;
            }
        }
        self.flush()
    }
}

fn failed(e: io::Error) -> Error {
    Error::target("io_uring failed").source(e)
}
