//! Checks of targets whose reads take the next record, whichever it is.

use taillight_core::op::OpKind;
use taillight_core::probe::Token;
use taillight_core::{Clock, MonoClock, Op};

use super::{CheckContext, CheckResult, Checked, Tested, ensure};
use crate::contract::{Completion, Session, SessionSpec, Submitted};

const RECORDS: u64 = 50;

/// Each of two readers reads all that two writers append, each record once and whole, and nothing more.
pub(super) fn each_once(b: &CheckContext<'_>) -> Checked {
    if !b.queue() {
        return Ok(CheckResult::NotForIt("it is no queue"));
    }
    let mut readers = [reader(b)?, reader(b)?];
    let mut writers = [b.session()?, b.session()?];
    for n in 0..RECORDS {
        for (which, writer) in writers.iter_mut().enumerate() {
            let size = 16 + (n as usize % 3);
            writer.buffer(0)[..size].fill(which as u8);
            writer.buffer(0)[8..16].copy_from_slice(&n.to_le_bytes());
            let op = Op::block(OpKind::Write, 0, 0, size as u64);
            let c = b.one(writer.as_mut(), &op)?;
            ensure(c.status.is_ok() && c.moved == size as u64, || {
                format!("write {n} ended {c:?}")
            })?;
        }
    }
    for (number, reader) in readers.iter_mut().enumerate() {
        let mut seen = [vec![false; RECORDS as usize], vec![false; RECORDS as usize]];
        for _ in 0..2 * RECORDS {
            let c = read(b, reader.as_mut())?;
            let buffer = reader.buffer(0);
            let (which, mut n) = (usize::from(buffer[0]), [0; 8]);
            n.copy_from_slice(&buffer[8..16]);
            let n = u64::from_le_bytes(n);
            let size = 16 + n % 3;
            let known = which < 2 && n < RECORDS && !seen[which][n as usize];
            ensure(known && c.moved == size, || {
                format!("reader {number}: record {n} of writer {which}, {c:?}")
            })?;
            seen[which][n as usize] = true;
        }
        let mut out: Vec<Completion> = Vec::with_capacity(1);
        let op = Op::block(OpKind::Read, 0, 0, b.block());
        let taken = reader.submit(&op, 0, Token::new(9, 0))?;
        ensure(taken == Submitted::Queued, || format!("a read of nothing: {taken:?}"))?;
        reader.flush()?;
        reader.poll(1, Some(MonoClock.now().plus(300_000_000)), &mut out)?;
        ensure(out.is_empty(), || format!("reader {number}: a record too many, {out:?}"))?;
    }
    let [first, second] = readers;
    first.abandon();
    drop(second);
    Ok(CheckResult::Kept)
}

fn reader(b: &CheckContext<'_>) -> Tested<Box<dyn Session>> {
    let mut workloads = b.case.plan.workloads.iter();
    let reads = workloads.position(|w| w.mix.iter().all(|part| part.op == OpKind::Read));
    let workload = reads.ok_or("the plan has no reader")? as u16;
    Ok(b.target.session(&SessionSpec { workload, ..b.spec() })?)
}

fn read(b: &CheckContext<'_>, session: &mut dyn Session) -> Tested<Completion> {
    let c = b.one(session, &Op::block(OpKind::Read, 0, 0, b.block()))?;
    ensure(c.status.is_ok(), || format!("a read ended {c:?}"))?;
    Ok(c)
}
