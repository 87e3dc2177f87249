//! One worker's side of verification: seals what it writes, judges what it reads.
//!
//! The worker calls it around each operation; without verification it holds no checker and pays one
//! test of an `Option`. No allocation per operation: what a read must remember has its place per
//! slot. A wrong block is cold: there it may allocate.

use std::sync::Arc;

use taillight_core::{Op, OpKind, Stamp, Status};
use taillight_driver::Session;
use taillight_rundir::verify::{FINDINGS_MAX, Finding, VerifyReport, Wrong};

use super::VerifyState;
use super::block::BlockHeader;
use super::judge::{FaultDetail, ReadCheck, ReadJudgement, UncheckedReason};
use super::ledger::LedgerEntry;
use super::pieces::PieceScratch;

/// Seals and judges for one worker, or for the pass.
#[derive(Debug)]
pub struct Checker {
    shared: Arc<VerifyState>,
    /// Index of the payload it writes.
    format: usize,
    worker: Option<u16>,
    /// Blocks in the largest operation.
    per_op: usize,
    /// The ledger when each slot's read began, `per_op` entries a slot.
    before: Vec<LedgerEntry>,
    scratch: PieceScratch,
    report: VerifyReport,
}

/// Where what is wrong lies.
struct WrongPlace {
    /// Address of the block over all files.
    address: u64,
    length: u64,
}

impl Checker {
    /// A checker for `depth` slots of operations of `largest` bytes at most. `format`: which of the
    /// payloads it writes.
    pub fn new(
        shared: Arc<VerifyState>,
        format: usize,
        worker: Option<u16>,
        depth: u32,
        largest: u64,
    ) -> Checker {
        let per_op = shared.area.per_operation(largest);
        Checker {
            format,
            worker,
            per_op,
            before: vec![LedgerEntry::default(); per_op * depth as usize],
            scratch: PieceScratch::new(largest as usize),
            report: VerifyReport::default(),
            shared,
        }
    }

    /// A write or trim is about to be submitted: notes its generations, and makes the bytes of a
    /// write.
    #[inline]
    pub fn on_write(&mut self, op: &Op, buffer: &mut [u8]) {
        let blocks = self.shared.area.blocks(op);
        let format = &self.shared.formats[self.format];
        let mut parts = buffer.chunks_exact_mut(blocks.length.max(1));
        for i in 0..blocks.count as u64 {
            if !op.kind.sized() || op.kind == OpKind::Trim {
                self.shared.ledger.begin_trim(blocks.first + i);
                continue;
            }
            let generation = self.shared.ledger.begin(blocks.first + i);
            if let Some(part) = parts.next() {
                let mark = BlockHeader {
                    run: self.shared.run,
                    address: blocks.address + i * blocks.length as u64,
                    generation,
                };
                format.seal(part, mark);
            }
        }
    }

    /// A write or trim has ended. `ok`: all of it succeeded.
    #[inline]
    pub fn on_write_done(&mut self, op: &Op, ok: bool) {
        let blocks = self.shared.area.blocks(op);
        let ok = ok && op.kind.sized() && op.kind != OpKind::Trim;
        for i in 0..blocks.count as u64 {
            self.shared.ledger.end(blocks.first + i, ok);
        }
    }

    /// A write or trim noted by [`on_write`](Self::on_write) was never submitted.
    #[cold]
    pub fn on_write_dropped(&mut self, op: &Op) {
        let blocks = self.shared.area.blocks(op);
        for i in 0..blocks.count as u64 {
            self.shared.ledger.cancel(blocks.first + i);
        }
    }

    /// A read is about to be submitted.
    #[inline]
    pub fn on_read(&mut self, slot: u32, op: &Op) {
        let blocks = self.shared.area.blocks(op);
        let from = slot as usize * self.per_op;
        let places = self.before[from..].iter_mut().take(blocks.count);
        for (i, before) in places.enumerate() {
            *before = self.shared.ledger.get(blocks.first + i as u64);
        }
    }

    /// An operation has ended: notes a write, judges a read. Returns its status, or `VERIFY` for a
    /// read that brought what must not be there.
    #[inline(never)]
    pub fn on_complete(
        &mut self,
        slot: u32,
        op: &Op,
        status: Status,
        moved: u64,
        session: &mut dyn Session,
        now: Stamp,
    ) -> Status {
        if op.kind.renames() {
            return status;
        }
        if op.kind.writes() {
            self.on_write_done(op, status.is_ok() && moved == op.size);
            return status;
        }
        if !self.inline() {
            return status;
        }
        match self.judge_read(slot, op, status, moved, session, now) {
            Some(false) => Status::VERIFY,
            _ => status,
        }
    }

    /// Whether a read brought what must be there; `None` when it brought nothing to judge.
    pub(super) fn judge_read(
        &mut self,
        slot: u32,
        op: &Op,
        status: Status,
        moved: u64,
        session: &mut dyn Session,
        now: Stamp,
    ) -> Option<bool> {
        let whole = match op.kind.as_record() {
            OpKind::Get if status == Status::NOT_FOUND => {
                return Some(self.on_missing(slot, op, now));
            }
            OpKind::Get => true,
            OpKind::Read => moved == op.size,
            _ => false,
        };
        if !whole || !status.is_ok() {
            return None;
        }
        let read = Op { size: moved, ..*op };
        let buffer = session.buffer(slot);
        let size = buffer.len().min(moved as usize);
        Some(self.on_read_done(slot, &read, &buffer[..size], now))
    }

    /// A read has succeeded with these bytes; false when something in them is wrong.
    #[inline]
    pub fn on_read_done(&mut self, slot: u32, op: &Op, buffer: &[u8], now: Stamp) -> bool {
        let blocks = self.shared.area.blocks(op);
        let from = slot as usize * self.per_op;
        let mut good = true;
        let keyed = self.shared.area.keyed;
        for i in 0..blocks.count {
            // A value is one block, however long it is and even if it does not fit the buffer.
            let part = i * blocks.length..(i + 1) * blocks.length;
            let Some(block) = (if keyed { Some(buffer) } else { buffer.get(part) }) else {
                break;
            };
            let number = blocks.first + i as u64;
            let case = ReadCheck {
                shared: &self.shared,
                run: self.shared.run,
                block,
                stored: blocks.length as u64,
                number,
                address: blocks.address + (i * blocks.length) as u64,
                before: self.before[from + i],
                after: self.shared.ledger.get(number),
            };
            let (address, after) = (case.address, case.after);
            match case.judge(&mut self.scratch) {
                ReadJudgement::Right => {
                    self.report.checked += 1;
                    if after.settled && !after.seen {
                        self.shared.ledger.mark_seen(number, after.last);
                    }
                }
                ReadJudgement::Unchecked(reason) => self.unchecked(reason),
                ReadJudgement::Wrong(kind, detail) => {
                    good = false;
                    let place = WrongPlace { address, length: blocks.length as u64 };
                    self.wrong(op, place, kind, &detail, now);
                }
            }
        }
        good
    }

    /// A read has found no record; false when there must be one.
    #[cold]
    pub(super) fn on_missing(&mut self, slot: u32, op: &Op, now: Stamp) -> bool {
        let blocks = self.shared.area.blocks(op);
        let case = ReadCheck {
            shared: &self.shared,
            run: self.shared.run,
            block: &[],
            stored: 0,
            number: blocks.first,
            address: blocks.address,
            before: self.before[slot as usize * self.per_op],
            after: self.shared.ledger.get(blocks.first),
        };
        match case.judge_missing() {
            ReadJudgement::Right => true,
            ReadJudgement::Unchecked(reason) => {
                self.unchecked(reason);
                true
            }
            ReadJudgement::Wrong(kind, detail) => {
                let place = WrongPlace { address: blocks.address, length: 0 };
                self.wrong(op, place, kind, &detail, now);
                false
            }
        }
    }

    fn unchecked(&mut self, reason: UncheckedReason) {
        let counts = &mut self.report.unchecked;
        *match reason {
            UncheckedReason::Unwritten => &mut counts.unwritten,
            UncheckedReason::Overlapped => &mut counts.overlapped,
            UncheckedReason::Uncertain => &mut counts.uncertain,
            UncheckedReason::Cut => &mut counts.cut,
        } += 1;
    }

    #[cold]
    fn wrong(&mut self, op: &Op, place: WrongPlace, kind: Wrong, detail: &FaultDetail, now: Stamp) {
        self.report.checked += 1;
        self.report.wrong += 1;
        *self.report.kinds.get_mut(kind) += 1;
        if self.report.findings.len() == FINDINGS_MAX {
            return;
        }
        let (target, address) = self.shared.area.locate(place.address);
        self.report.findings.push(Finding {
            time_ns: now.0,
            worker: self.worker,
            op: op.kind,
            of: None,
            target,
            address,
            length: place.length,
            kind,
            expected: detail.expected,
            found: detail.found,
            found_address: detail.address,
            found_run: detail.run.map(|run| format!("{run:016x}")),
            first_byte: detail.first,
            bytes: detail.bytes,
        });
    }

    /// A read failed in the pass.
    pub(super) fn unreadable(&mut self, op: &Op) {
        self.report.unchecked.unreadable += self.shared.area.blocks(op).count as u64;
    }

    /// Hands in what was found.
    pub fn finish(self) {
        self.shared.add_report(&self.report);
    }

    /// Whether workers judge what they read.
    #[inline]
    pub fn inline(&self) -> bool {
        self.shared.inline
    }

    pub fn into_report(self) -> VerifyReport {
        self.report
    }
}
