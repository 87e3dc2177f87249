//! The pass after a run: reads once every block that was written, and judges it.
//!
//! What must be there is known by the ledger of the run or, where it has not written, from an earlier run
//! (`VerifySpec::prior`). Records of a store are read one by one, blocks in reads of up to 1 MiB, in which others may
//! lie between. Nothing is measured. Caller: `run`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use taillight_core::probe::Token;
use taillight_core::{Clock, MonoClock, Op, OpKind, Result};
use taillight_driver::{Completion, Session, SessionSpec, Submitted, Target};
use taillight_rundir::verify::{PassInfo, VerifyReport};

use super::{Checker, VerifyState};

/// Bytes of a read, or one block if that is larger.
const READ: u64 = 1 << 20;
/// Progress is told after this many blocks.
const SHOW_EVERY: u64 = 4096;
/// The pass ends early after so many reads in a row that failed: the target is gone, and each of
/// them may take its time-out.
const UNREADABLE: u32 = 64;
/// Reads in flight at most.
pub const DEEPEST: u32 = 4;

/// How a pass goes about it.
pub struct PassSpec<'a> {
    /// Number of the session, for the driver.
    pub worker: u16,
    /// Number of a workload that drives the target.
    pub workload: u16,
    /// Bytes of the largest value, for targets addressed by key.
    pub value: u64,
    /// Reads in flight, at most `DEEPEST`; 1 where the target has no queue.
    pub depth: u32,
    /// The target was asked to forget cached data, and did.
    pub caches_dropped: bool,
    pub stop: &'a AtomicBool,
    /// Told of bytes done and bytes in all; of records on a target addressed by key.
    pub progress: &'a mut dyn FnMut(u64, u64),
}

/// Reads and judges. Blocks this run never wrote are skipped unless another run is expected there.
/// Errors: when no session can be opened or the target fails altogether. A read that fails is
/// counted; 64 in a row end the pass, which then is not complete.
pub fn pass(
    target: &dyn Target,
    shared: &Arc<VerifyState>,
    how: PassSpec<'_>,
) -> Result<VerifyReport> {
    let began = MonoClock.now();
    let unit = shared.area.unit.max(1);
    let largest = match shared.area.keyed {
        true => how.value,
        false => (READ / unit).max(1) * unit,
    };
    let depth = how.depth.clamp(1, DEEPEST);
    let mut session = target.session(&SessionSpec {
        worker: how.worker,
        workload: how.workload,
        index: 0,
        keep: true,
        depth,
        buffer_size: largest,
        seed: 0,
    })?;
    let mut reader = PassReader {
        checker: Checker::new(shared.clone(), 0, None, depth, largest),
        session: &mut *session,
        flying: vec![None; depth as usize],
        done: Vec::with_capacity(depth as usize),
        tokens: 0,
        failed: 0,
    };
    let mut blocks = 0;
    let (end, mut at) = (shared.area.blocks, 0);
    let mut complete = true;
    while at < end {
        if how.stop.load(Ordering::Relaxed) || reader.failed >= UNREADABLE {
            complete = false;
            break;
        }
        let count = step(shared, at, largest / unit);
        if (at..at + count).any(|n| shared.expects(n)) {
            reader.read(&read(shared, at, count))?;
            blocks += count;
        }
        at += count;
        if at % SHOW_EVERY < count || at == end {
            (how.progress)(at * unit, end * unit);
        }
    }
    reader.drain(0)?;
    let mut report = reader.checker.into_report();
    report.pass = Some(PassInfo {
        blocks,
        duration_ns: MonoClock.now().since(began).max(0) as u64,
        caches_dropped: how.caches_dropped,
        complete,
    });
    Ok(report)
}

/// The operation that reads `count` blocks from number `at` on, or one record.
fn read(shared: &VerifyState, at: u64, count: u64) -> Op {
    let area = &shared.area;
    if area.keyed {
        return Op::keyed(OpKind::Get, area.first + at, 0);
    }
    let (file, offset) = area.locate(area.address(at));
    Op::block(OpKind::Read, file, offset, count * area.unit)
}

/// Blocks to read from `at` on: no further than the file and the area.
fn step(shared: &VerifyState, at: u64, most: u64) -> u64 {
    let area = &shared.area;
    if area.keyed {
        return 1;
    }
    let address = area.first + at * area.unit;
    let in_file = (area.file_size - address % area.file_size) / area.unit;
    most.min(in_file).min(area.blocks - at).max(1)
}

struct PassReader<'a> {
    checker: Checker,
    session: &'a mut dyn Session,
    flying: Vec<Option<Op>>,
    done: Vec<Completion>,
    tokens: u64,
    /// Reads in a row that failed.
    failed: u32,
}

impl PassReader<'_> {
    fn read(&mut self, op: &Op) -> Result<()> {
        let slot = loop {
            match self.flying.iter().position(Option::is_none) {
                Some(slot) => break slot as u32,
                None => self.drain(self.flying.len() as u32 - 1)?,
            }
        };
        self.tokens += 1;
        let token = Token::new(self.tokens, slot);
        self.checker.on_read(slot, op);
        loop {
            match self.session.submit(op, slot, token)? {
                Submitted::Done(completion) => {
                    self.flying[slot as usize] = Some(*op);
                    self.finished(&completion);
                    return Ok(());
                }
                Submitted::Queued => {
                    self.flying[slot as usize] = Some(*op);
                    return self.session.flush();
                }
                Submitted::Full => {
                    let flying = self.in_flight();
                    self.drain(flying.saturating_sub(1))?;
                }
            }
        }
    }

    fn in_flight(&self) -> u32 {
        self.flying.iter().flatten().count() as u32
    }

    /// Waits until at most `left` are in flight.
    fn drain(&mut self, left: u32) -> Result<()> {
        while self.in_flight() > left {
            let mut done = std::mem::take(&mut self.done);
            self.session.poll(1, None, &mut done)?;
            for completion in done.drain(..) {
                self.finished(&completion);
            }
            self.done = done;
        }
        Ok(())
    }

    fn finished(&mut self, c: &Completion) {
        let slot = c.token.slot();
        let Some(op) = self.flying.get_mut(slot as usize).and_then(Option::take) else {
            return;
        };
        let now = MonoClock.now();
        let judged = self.checker.judge_read(slot, &op, c.status, c.moved, self.session, now);
        if judged.is_none() {
            self.checker.unreadable(&op);
        }
        self.failed = match judged.is_some() || c.status.is_ok() {
            true => 0,
            false => self.failed + 1,
        };
    }
}
