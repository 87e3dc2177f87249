//! Engine `uring`: one ring per worker, queued, batched.
//!
//! How calls are spent: `submit` only writes a queue entry; `flush` hands the batch over in one
//! call, which runs cached reads to their end and (with deferred task work) also collects what
//! the device has finished; `poll` first takes what is already there, for free, and only
//! calls the kernel when that is too little.
//!
//! A write with a sync is two steps: when `poll` has seen the write's completion, it issues the
//! sync at once, and the operation completes with the sync. `sync_ns` runs from just before the
//! sync is handed over to its completion being seen: the same definition as in engine `sync`.
//! Linked entries would save a call but leave nothing truthful to measure between the two: both
//! completions may be seen in the same instant. The sync's ring entry carries the write's token
//! with the top bit set. With `dsync` and `sync` the write itself is durable; nothing is apart.
//!
//! With `sqpoll`, `flush` returns when the entries are visible to the kernel's thread; when that
//! thread takes them cannot be known here and counts as time after issue.

pub mod setup;
mod sys;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use taillight_core::op::SyncKind;
use taillight_core::probe::{LATER_REQUEST, MAX_SLOTS, Token};
use taillight_core::{Clock, Error, MonoClock, Op, OpKind, Result, Stamp, Status};

use crate::buffers::Buffers;
use crate::contract::{Completion, Session, SessionSpec, Submitted};
use crate::file::cache;
use crate::file::sync::trim;
use setup::RingSetup;
#[cfg(test)]
pub use sys::forbid;
use sys::{Ring, RingOp, SlotRef};

/// What a slot has in flight.
#[derive(Debug, Clone, Copy, Default)]
struct RingSlot {
    token: u64,
    asked: u64,
    sync_start: Stamp,
    sync: Option<SyncKind>,
    file: u16,
    /// The result of a read or write is a count of bytes.
    counts: bool,
    busy: bool,
}

/// One worker's ring.
pub struct UringSession {
    ring: Ring,
    slots: Vec<RingSlot>,
    /// Local slot of each token slot.
    local: Box<[u16]>,
    in_flight: u32,
    /// Writes whose sync is still to be issued when their completion is seen.
    sync_due: u32,
    write_flags: i32,
    device: bool,
    iopoll: bool,
    blocking_trims: bool,
    submit_batch: u32,
    files: Arc<Vec<OwnedFd>>,
    buffer_size: u64,
}

/// What all sessions share that issue I/O in the same way on a target.
pub struct RingConfig {
    pub files: Arc<Vec<OwnedFd>>,
    /// How rings are made.
    pub setup: RingSetup,
    /// Trims are device discards.
    pub device: bool,
    /// Operations handed over in one call at most; `u32::MAX` when only the queue limits it.
    pub submit_batch: u32,
}

impl UringSession {
    /// Makes the ring on the calling thread. Errors: `Unavailable` when the kernel refuses the
    /// ring, its buffers or files.
    pub fn new(
        shared: &RingConfig,
        spec: &SessionSpec,
        buffers: Buffers,
        write_flags: i32,
    ) -> Result<UringSession> {
        let mut setup = shared.setup;
        setup.sqpoll_cpu = setup.sqpoll_cpu.map(|cpu| cpu + u32::from(spec.worker));
        // A slot can have a sync to push before the kernel took its other entries.
        let entries = (spec.depth * 2).next_power_of_two();
        let ring = Ring::new(setup, entries, buffers, Arc::clone(&shared.files))
            .map_err(|e| no_session(e, spec, &setup))?;
        Ok(UringSession {
            ring,
            slots: vec![RingSlot::default(); spec.depth as usize],
            local: vec![0; MAX_SLOTS as usize].into(),
            in_flight: 0,
            sync_due: 0,
            write_flags,
            device: shared.device,
            iopoll: setup.iopoll,
            blocking_trims: setup.blocking_trims,
            submit_batch: shared.submit_batch,
            files: Arc::clone(&shared.files),
            buffer_size: spec.buffer_size,
        })
    }

    #[inline]
    fn entry_for(&self, op: &Op) -> Result<RingOp> {
        let moves = matches!(op.kind, OpKind::Read | OpKind::Write);
        if usize::from(op.target) >= self.files.len() || (moves && op.size > self.buffer_size) {
            return Err(Error::internal("no such file, or block larger than the buffer")
                .with("file", op.target)
                .with("size", op.size));
        }
        match op.kind {
            OpKind::Read => Ok(RingOp::Read),
            OpKind::Write => Ok(RingOp::Write { flags: self.write_flags }),
            OpKind::Fsync => Ok(RingOp::Sync { data: false }),
            OpKind::Trim if self.device => Ok(RingOp::Discard),
            OpKind::Trim => Ok(RingOp::Punch),
            other => Err(Error::internal(format!("driver `file` knows no {}", other.name()))),
        }
    }

    /// Takes what is there, as many as go to the kernel in one call: their places in the queue are taken
    /// again before the next ones are looked at, so that none stands empty while others are handed over.
    /// Returns how many operations completed. Issues syncs that are due.
    fn reap(&mut self, out: &mut Vec<Completion>) -> u32 {
        let mut done = 0;
        while done < self.submit_batch
            && let Some((user_data, result)) = self.ring.next_completion()
        {
            if let Some(completion) = self.complete(user_data, result) {
                out.push(completion);
                done += 1;
            }
        }
        self.in_flight -= done;
        done
    }

    /// What a completion of the ring means for its operation; `None` when a sync follows.
    fn complete(&mut self, user_data: u64, result: i32) -> Option<Completion> {
        let token = Token(user_data & !LATER_REQUEST);
        let local = u32::from(self.local[token.slot() as usize]);
        let slot = &mut self.slots[local as usize];
        debug_assert!(slot.busy && slot.token == token.0, "completion of nothing in flight");
        if user_data & LATER_REQUEST != 0 {
            slot.busy = false;
            let took = MonoClock.now().since(slot.sync_start).max(0) as u64;
            let status = if result < 0 { Status::errno(-result) } else { Status::OK };
            return Some(Completion {
                sync_ns: Some(took),
                status,
                ..Completion::ok(token, slot.asked)
            });
        }
        self.sync_due -= u32::from(slot.sync.is_some());
        if result < 0 {
            slot.busy = false;
            return Some(Completion::failed(token, Status::errno(-result)));
        }
        let moved = if slot.counts { result as u64 } else { slot.asked };
        if moved != slot.asked {
            slot.busy = false;
            return Some(Completion { status: Status::SHORT, ..Completion::ok(token, moved) });
        }
        let Some(kind) = slot.sync else {
            slot.busy = false;
            return Some(Completion::ok(token, moved));
        };
        slot.sync_start = MonoClock.now();
        let slot_ref = SlotRef { file: slot.file, slot: local, offset: 0, len: 0 };
        let entry = RingOp::Sync { data: kind == SyncKind::Fdatasync };
        if self.ring.push(entry, slot_ref, user_data | LATER_REQUEST) {
            return None;
        }
        // Cannot happen: the queue has two entries for each slot. Said rather than lost.
        slot.busy = false;
        Some(Completion::failed(token, Status::errno(libc::EAGAIN)))
    }

    /// One call that waits for at least `want` entries of the ring until the stamp.
    fn wait(&mut self, want: u32, until: Option<Stamp>) -> io::Result<()> {
        let left = until.map(|until| until.since(MonoClock.now()).max(0) as u64);
        match left {
            Some(0) => self.ring.collect(),
            // A polled ring spins in the kernel and knows no time-out: look in short rounds.
            Some(_) if self.iopoll => self.ring.collect(),
            left => self.ring.wait(want, left),
        }
    }
}

/// `abandon` just drops it: a ring with I/O in flight never frees its buffers.
impl Session for UringSession {
    fn buffer(&mut self, slot: u32) -> &mut [u8] {
        assert!(!self.slots[slot as usize].busy, "slot {slot} has an operation in flight");
        self.ring.buffer(slot)
    }

    #[inline]
    fn submit(&mut self, op: &Op, slot: u32, token: Token) -> Result<Submitted> {
        if self.in_flight as usize == self.slots.len() {
            return Ok(Submitted::Full);
        }
        let entry = self.entry_for(op)?;
        let state = &mut self.slots[slot as usize];
        if state.busy || token.0 & LATER_REQUEST != 0 {
            return Err(Error::internal("slot or token is in use").with("slot", slot));
        }
        if self.blocking_trims && op.kind == OpKind::Trim {
            let trimmed = trim(&self.files[usize::from(op.target)], self.device, op);
            return Ok(Submitted::Done(match trimmed {
                Ok(()) => Completion::ok(token, op.size),
                Err(errno) => Completion::failed(token, Status::errno(errno.raw_os_error())),
            }));
        }
        let slot_ref = SlotRef { file: op.target, slot, offset: op.offset, len: op.size };
        while !self.ring.push(entry, slot_ref, token.0) {
            if self.in_flight > 0 {
                return Ok(Submitted::Full);
            }
            // Only a submitting kernel thread that is about to take its entries leaves no room.
            std::hint::spin_loop();
        }
        self.sync_due += u32::from(op.kind == OpKind::Write && op.sync.is_some());
        *state = RingSlot {
            token: token.0,
            asked: op.size,
            sync_start: Stamp(0),
            sync: if op.kind == OpKind::Write { op.sync } else { None },
            file: op.target,
            counts: matches!(op.kind, OpKind::Read | OpKind::Write),
            busy: true,
        };
        self.local[token.slot() as usize] = slot as u16;
        self.in_flight += 1;
        Ok(Submitted::Queued)
    }

    fn submit_batch(&self) -> u32 {
        self.submit_batch
    }

    fn drop_cached(&mut self, file: u16, offset: u64, len: u64) -> Result<()> {
        cache::drop_part(&self.files[usize::from(file)], offset, len, self.device)
    }

    #[inline]
    fn flush(&mut self) -> Result<()> {
        if self.ring.unsubmitted() == 0 {
            return Ok(());
        }
        self.ring.submit(self.submit_batch).map_err(failed)
    }

    fn poll(&mut self, min: u32, until: Option<Stamp>, out: &mut Vec<Completion>) -> Result<()> {
        if self.ring.unsubmitted() > 0 {
            self.ring.submit(u32::MAX).map_err(failed)?;
        }
        let min = min.min(self.in_flight);
        let mut done = self.reap(out);
        if done == 0 && min == 0 && self.in_flight > 0 && self.ring.needs_call() {
            self.ring.collect().map_err(failed)?;
            done += self.reap(out);
        }
        while done < min {
            // A sync must start when its write ends, not when others end too.
            let want = if self.sync_due > 0 { 1 } else { min - done };
            self.wait(want, until).map_err(failed)?;
            done += self.reap(out);
            if done < min && until.is_some_and(|until| MonoClock.now() >= until) {
                break;
            }
        }
        // Syncs that became due while reaping must not wait for the next call.
        match self.ring.unsubmitted() {
            0 => Ok(()),
            _ => self.ring.submit(u32::MAX).map_err(failed),
        }
    }
}

fn failed(e: io::Error) -> Error {
    Error::target("io_uring failed").source(e)
}

fn no_session(e: io::Error, spec: &SessionSpec, setup: &RingSetup) -> Error {
    let bytes = u64::from(spec.depth) * spec.buffer_size;
    let error = Error::unavailable("cannot make the worker's io_uring")
        .with("worker", spec.worker)
        .with("queue_depth", spec.depth)
        .with("buffer_bytes", bytes);
    match e.raw_os_error() {
        Some(libc::ENOMEM) if setup.fixed_buffers => error.source(e).hint(
            "registered buffers count as locked memory: raise the limit (ulimit -l) or set \
             options.fixed_buffers = false",
        ),
        Some(libc::EMFILE) => error.source(e).hint("raise the limit of open files (ulimit -n)"),
        _ => error.source(e),
    }
}
