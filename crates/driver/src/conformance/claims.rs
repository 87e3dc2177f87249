//! Checks that follow from what a driver claims: administration, batches, snapshots, determinism,
//! that nothing is stored. A claim that does not hold breaks its check, and so does an action that
//! works unclaimed.

use taillight_core::capability::{AdminAction, MAX_BATCH};
use taillight_core::{ErrorKind, Op, OpKind, Status};

use super::keyed::{APART, get, put};
use super::{CheckContext, CheckResult, Checked, Tested, ensure};
use crate::contract::{Completion, OpenSpec, SessionSpec};

/// Every claimed action works, and a record that was there is there afterwards (but for the purge,
/// which comes last); every other one is refused as unavailable.
pub(super) fn admin(b: &CheckContext<'_>) -> Checked {
    let reads = b.caps.keyed() && b.caps.stores_data;
    if reads {
        // Whatever earlier checks have left there.
        put(b, b.session()?.as_mut(), 0, 1)?;
    }
    for action in AdminAction::ALL {
        let done = b.target.admin(action);
        if !b.caps.admin.contains(&action) {
            let refused = matches!(&done, Err(e) if e.kind() == ErrorKind::Unavailable);
            ensure(refused, || format!("{action:?}, not claimed: {done:?}"))?;
            continue;
        }
        done.map_err(|e| format!("{action:?}: {e}"))?;
        if reads {
            let mut session = b.session()?;
            let read = get(b, session.as_mut(), 0)?;
            let expected = match action {
                AdminAction::Purge => Err(Status::NOT_FOUND),
                _ => Ok(1),
            };
            ensure(read == expected, || format!("after {action:?}: {read:?}"))?;
        }
    }
    Ok(CheckResult::Kept)
}

pub(super) fn batches(b: &CheckContext<'_>) -> Checked {
    if b.caps.batches.is_empty() {
        return Ok(CheckResult::NotForIt("it has no batches"));
    }
    const COUNT: u32 = 4;
    let (key, size) = (6 * APART, b.block() / u64::from(COUNT));
    let mut session = b.session()?;
    for n in 0..u64::from(COUNT) {
        put(b, session.as_mut(), key + n, size)?;
    }
    for kind in &b.caps.batches {
        session.buffer(0).fill(*kind as u8);
        let op = Op { count: COUNT, ..Op::keyed(*kind, key, if kind.writes() { size } else { 0 }) };
        let c = b.one(session.as_mut(), &op)?;
        let whole = c.status.is_ok() && c.count == COUNT && c.moved == size * u64::from(COUNT);
        ensure(whole, || format!("{} of {COUNT} ended {c:?}", kind.name()))?;
        if kind.writes() {
            session.buffer(0).fill(0);
            let read = get(b, session.as_mut(), key + 3)?;
            let same = session.buffer(0).first() == Some(&(*kind as u8));
            ensure(read == Ok(size) && same, || {
                format!("after {} of {COUNT}: {read:?}", kind.name())
            })?;
        }
    }
    Ok(CheckResult::Kept)
}

/// Records are loaded as before a run: by inserts of as many neighbours as there may be, the last one of fewer, and a
/// flush. Another session then reads each, and none behind them. What a crash would leave is not tried.
pub(super) fn batched_load(b: &CheckContext<'_>) -> Checked {
    if !b.caps.batched_load {
        return Ok(CheckResult::NotForIt("it loads records one by one"));
    }
    const SIZE: u64 = 16;
    let (most, first) = (u64::from(MAX_BATCH), 8 * APART);
    let all = most + 3;
    let spec = SessionSpec { keep: false, buffer_size: most * SIZE, ..b.spec() };
    let mut loader = b.target.session(&spec)?;
    let mut done = 0;
    while done < all {
        let count = most.min(all - done);
        let values = loader.buffer(0).chunks_exact_mut(SIZE as usize);
        for (value, n) in values.zip(done..done + count) {
            value.fill(0);
            value[..8].copy_from_slice(&n.to_le_bytes());
        }
        let insert = Op::keyed(b.caps.inserting(), first + done, SIZE);
        let c = b.one(loader.as_mut(), &Op { count: count as u32, ..insert })?;
        let whole = c.status.is_ok() && u64::from(c.count) == count && c.moved == count * SIZE;
        ensure(whole, || format!("an insert of {count} ended {c:?}"))?;
        done += count;
    }
    drop(loader);
    b.target.admin(AdminAction::Flush)?;
    let mut session = b.session()?;
    for n in 0..all {
        session.buffer(0).fill(0xFF);
        let read = get(b, session.as_mut(), first + n)?;
        let same = session.buffer(0).starts_with(&n.to_le_bytes());
        ensure(read == Ok(SIZE) && same, || format!("record {n} of {all}: {read:?}"))?;
    }
    let behind = get(b, session.as_mut(), first + all)?;
    ensure(behind == Err(Status::NOT_FOUND), || format!("behind the last: {behind:?}"))?;
    Ok(CheckResult::Kept)
}

/// A session's reads stay as they were when it began.
pub(super) fn snapshot(b: &CheckContext<'_>) -> Checked {
    let mut reader = b.session()?;
    let mut writer = b.session()?;
    writer.buffer(0).fill(1);
    let c = b.one(writer.as_mut(), &Op::keyed(OpKind::Update, 3, 1))?;
    ensure(c.status.is_ok(), || format!("the update ended {c:?}"))?;
    let old = get(b, reader.as_mut(), 3)?;
    ensure(old == Ok(b.block()), || format!("the snapshot shows {old:?}"))?;
    let new = get(b, b.session()?.as_mut(), 3)?;
    ensure(new == Ok(1), || format!("a later session reads {new:?}"))?;
    Ok(CheckResult::Kept)
}

/// On virtual time the same seed gives the same completions at the same moments.
pub(super) fn deterministic(b: &CheckContext<'_>) -> Checked {
    if !b.caps.virtual_time {
        return Ok(CheckResult::NotForIt("it runs on real time"));
    }
    let first = history(b)?;
    ensure(first == history(b)?, || "two targets of one seed differ".to_owned())?;
    Ok(CheckResult::Kept)
}

/// Completions of a fresh target, each with its moment.
fn history(b: &CheckContext<'_>) -> Tested<Vec<(i64, Completion)>> {
    let spec = OpenSpec {
        plan: &b.case.plan,
        run_id: super::RUN_ID,
        destroy: b.case.destroy,
        stop: &taillight_core::StopFlag::default(),
        fits: &|_| Ok(()),
    };
    let target = b.case.driver.bind(&b.case.plan.target)?.open(&spec, &mut |_| true)?;
    let fresh = CheckContext { case: b.case, caps: b.caps.clone(), target };
    let time = fresh.target.virtual_time().ok_or("it has no virtual time")?;
    let mut session = fresh.session()?;
    let mut all = Vec::new();
    for n in 0..100 {
        let kind = match n % 3 {
            0 => OpKind::Write,
            _ => OpKind::Read,
        };
        let completion = fresh.one(session.as_mut(), &fresh.op(kind, n))?;
        all.push((time.now().0, completion));
    }
    Ok(all)
}

/// A target that says that it stores no data is not guarded: a read must not give what was written.
pub(super) fn keeps_nothing(b: &CheckContext<'_>) -> Checked {
    if b.caps.stores_data || !(b.can(OpKind::Read) && b.can(OpKind::Write)) {
        return Ok(CheckResult::NotForIt("it says that it stores data, or does not write"));
    }
    let mut session = b.session()?;
    session.buffer(0).fill(0x5A);
    b.one(session.as_mut(), &b.op(OpKind::Write, 1))?;
    session.buffer(0).fill(0);
    b.one(session.as_mut(), &b.op(OpKind::Read, 1))?;
    let kept = session.buffer(0).iter().all(|byte| *byte == 0x5A);
    ensure(!kept, || {
        "it says that it stores no data, but a read gives what was written".to_owned()
    })?;
    Ok(CheckResult::Kept)
}
