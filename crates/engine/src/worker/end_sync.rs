//! What a worker does when its load is over and the plan asks for it: a sync of each of its files, one after
//! another. Each is an operation like others, bounded by `run.drain_timeout` and by no other limit of the plan.

use std::ops::Range;

use taillight_core::probe::Probe;
use taillight_core::{ALL_FIELDS, Error, Op, OpKind, Result, Stamp};
use taillight_driver::Submitted;

use super::Worker;
use super::slots::InFlight;
use crate::clock::DisciplinedClock;

/// Files that are still to be synced, and whether that is needed.
pub struct EndSyncs {
    /// By number.
    files: Range<u16>,
    /// When the last of the writes that were made was submitted.
    last: Stamp,
    /// Whether that write synced by itself, so that nothing is left to sync.
    synced: bool,
}

impl EndSyncs {
    /// Of these files, by number.
    pub fn new(files: Range<u16>) -> EndSyncs {
        EndSyncs { files, last: Stamp(i64::MIN), synced: false }
    }

    /// A write is complete. What was drawn and never made does not count.
    pub fn completed(&mut self, flight: &InFlight) {
        let written = flight.op.kind.writes() && flight.op.kind != OpKind::Trim;
        if written && flight.submit >= self.last {
            (self.last, self.synced) = (flight.submit, flight.op.sync.is_some());
        }
    }

    fn left(&self) -> bool {
        !self.synced && !self.files.is_empty()
    }
}

fn fsync(file: u16) -> Op {
    let (offset, size, key, count) = (0, 0, 0, 1);
    let (kind, field, sync) = (OpKind::Fsync, ALL_FIELDS, None);
    Op { kind, target: file, offset, size, key, count, field, sync }
}

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// Whether files are still to be synced: its time was up or its work done, and nobody asked it to end.
    pub(super) fn syncs_left(&self) -> bool {
        let syncs = self.strategies.as_ref().and_then(|s| s.end_syncs.as_ref());
        let over = self.ending.reached_end || self.ending.reached_limit;
        over && syncs.is_some_and(EndSyncs::left)
    }

    /// Submits the sync of the next file once nothing is in flight. Errors: those of the driver.
    #[cold]
    pub(super) fn sync_at_end(&mut self) -> Result<()> {
        if !self.slots.idle() || !self.syncs_left() {
            return Ok(());
        }
        let syncs = self.strategies.as_mut().and_then(|s| s.end_syncs.as_mut());
        let next = syncs.and_then(|syncs| syncs.files.next());
        let (Some(file), Some(&slot)) = (next, self.slots.free.last()) else {
            self.no_end_syncs();
            return Ok(());
        };
        self.ending.synced = true;
        let (op, token) = (fsync(file), self.slots.next_token(slot));
        let submit = self.clock.now();
        self.now = submit;
        self.ending.drain_until = submit.plus(self.limits.drain_timeout_ns);
        self.probe.begin(token.slot(), token, submit, &op);
        self.slots.flights[slot as usize] =
            InFlight { op, intended: None, submit, issued: submit, token };
        self.slots.free.pop();
        match self.session.submit(&op, slot, token)? {
            Submitted::Queued => {
                self.slots.batch.push(slot);
                self.issue()
            }
            Submitted::Done(completion) => {
                self.now = self.clock.now();
                self.tick();
                self.complete(&completion)
            }
            Submitted::Full => Err(Error::internal("a queue is full with nothing in flight")),
        }
    }

    /// Leaves the syncs at the end out.
    pub(super) fn no_end_syncs(&mut self) {
        if let Some(strategies) = &mut self.strategies {
            strategies.end_syncs = None;
        }
    }
}
