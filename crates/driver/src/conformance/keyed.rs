//! Checks for targets addressed by key. Their keys must sort as their numbers do, so that what a
//! scan returns is known: each record of the check of scans has a size of its own.

use taillight_core::keys::KeyNaming;
use taillight_core::plan::{Keys, Plan, Scan, Sync, TargetPlan};
use taillight_core::units::ByteSize;
use taillight_core::{Op, OpKind, Status};

use super::{CheckContext, CheckResult, Checked, Tested, ensure};
use crate::contract::{AdminAction, Session};

/// Records that are stored before the checks: key numbers from 0 on.
pub(super) const RECORDS: u64 = 256;
/// Key numbers from here on belong to single checks, each of which begins at a multiple of half of
/// this.
pub(super) const APART: u64 = 2_000;

/// A plan with every operation on records, of `size` bytes, at `depth`; `plan_for` takes out what a driver cannot.
pub fn keyed_plan(target: TargetPlan, size: u64, depth: u32, reverse: bool) -> Plan {
    let ops = [
        OpKind::Get,
        OpKind::Put,
        OpKind::Insert,
        OpKind::Update,
        OpKind::Delete,
        OpKind::Scan,
        OpKind::Rmw,
        OpKind::Create,
        OpKind::Stat,
        OpKind::OpenReadClose,
        OpKind::Rename,
        OpKind::Readdir,
        OpKind::Unlink,
        OpKind::Mkdir,
        OpKind::Rmdir,
    ];
    let mut plan = super::plan(target, &ops, size, depth);
    for w in &mut plan.workloads {
        w.sync = Sync::None;
        w.keys = Some(Keys {
            count: RECORDS,
            naming: KeyNaming::Binary,
            size: Some(ByteSize(16)),
            ..Keys::default()
        });
        w.scan = Some(Scan { reverse, ..Scan::default() });
    }
    plan
}

/// Puts the records there.
pub(super) fn load(b: &CheckContext<'_>) -> Tested<()> {
    let mut session = b.session()?;
    for key in 0..RECORDS {
        put(b, session.as_mut(), key, b.block())?;
    }
    Ok(())
}

pub(super) fn put(
    b: &CheckContext<'_>,
    session: &mut dyn Session,
    key: u64,
    size: u64,
) -> Tested<()> {
    session.buffer(0)[..size as usize].fill(key as u8);
    let c = b.one(session, &Op::keyed(b.caps.inserting(), key, size))?;
    ensure(c.status.is_ok() && c.moved == size, || format!("the insert of {key} ended {c:?}"))
}

/// The bytes of a value, or the status that says why there is none.
pub(super) fn get(
    b: &CheckContext<'_>,
    session: &mut dyn Session,
    key: u64,
) -> Tested<Result<u64, Status>> {
    let c = b.one(session, &Op::keyed(b.caps.getting(), key, 0))?;
    Ok(match c.status {
        Status::OK => Ok(c.moved),
        other => Err(other),
    })
}

fn keyed(b: &CheckContext<'_>) -> bool {
    b.caps.keyed() && b.caps.stores_data
}

const NOT_KEYED: Checked = Ok(CheckResult::NotForIt("it is not addressed by key"));

pub(super) fn missing(b: &CheckContext<'_>) -> Checked {
    if !keyed(b) {
        return NOT_KEYED;
    }
    let mut session = b.session()?;
    let c = b.one(session.as_mut(), &Op::keyed(b.caps.getting(), APART, 0))?;
    ensure(c.status == Status::NOT_FOUND && c.moved == 0, || format!("ended {c:?}"))?;
    Ok(CheckResult::Kept)
}

pub(super) fn changes(b: &CheckContext<'_>) -> Checked {
    if !keyed(b) || !b.can(OpKind::Update) || !b.can(OpKind::Delete) {
        return Ok(CheckResult::NotForIt("it does not update and delete by key"));
    }
    let key = 2 * APART;
    let mut session = b.session()?;
    let session = session.as_mut();
    put(b, session, key, b.block())?;
    let smaller = b.block() / 2;
    session.buffer(0)[..smaller as usize].fill(0xA5);
    let c = b.one(session, &Op::keyed(OpKind::Update, key, smaller))?;
    ensure(c.status.is_ok() && c.moved == smaller, || format!("the update ended {c:?}"))?;
    session.buffer(0).fill(0);
    let read = get(b, session, key)?;
    ensure(read == Ok(smaller), || format!("after the update: {read:?}"))?;
    let whole = session.buffer(0)[..smaller as usize].iter().all(|x| *x == 0xA5);
    ensure(whole, || "the update's bytes are not there".to_owned())?;
    let c = b.one(session, &Op::keyed(OpKind::Delete, key, 0))?;
    ensure(c.status.is_ok(), || format!("the delete ended {c:?}"))?;
    let read = get(b, session, key)?;
    ensure(read == Err(Status::NOT_FOUND), || format!("after the delete: {read:?}"))?;
    Ok(CheckResult::Kept)
}

pub(super) fn scans(b: &CheckContext<'_>) -> Checked {
    if !keyed(b) || !b.can(OpKind::Scan) {
        return Ok(CheckResult::NotForIt("it does not scan"));
    }
    let first = 3 * APART;
    let records = b.block().min(100);
    let mut session = b.session()?;
    let session = session.as_mut();
    // Not in order; sizes tell the records apart: the n-th has n + 1 bytes.
    for n in (0..records).rev() {
        put(b, session, first + n, n + 1)?;
    }
    let scan = b.case.plan.workloads.first().and_then(|w| w.scan.as_ref());
    let reverse = scan.is_some_and(|s| s.reverse);
    for (from, count) in [(0, 1), (10, 5), (records - 3, 3), (records / 2, 7)] {
        let op = Op { count, ..Op::keyed(OpKind::Scan, first + from, 0) };
        let wanted: Vec<u64> = match reverse {
            false => (from..records).take(count as usize).collect(),
            true => (0..=from).rev().take(count as usize).collect(),
        };
        // Downwards from the first record come those of smaller numbers: not this check's.
        if wanted.len() < count as usize {
            continue;
        }
        let bytes: u64 = wanted.iter().map(|n| n + 1).sum();
        let c = b.one(session, &op)?;
        ensure(c.status.is_ok() && c.count == count && c.moved == bytes, || {
            format!("{count} from {from}: {c:?} instead of {bytes} bytes")
        })?;
    }
    // The end of the records ends the scan.
    let (from, there) = match reverse {
        false => (first + records - 2, 2),
        true => (1, 2),
    };
    let op = Op { count: 50, ..Op::keyed(OpKind::Scan, from, 0) };
    let c = b.one(session, &op)?;
    ensure(c.status.is_ok() && c.count == there, || format!("a scan over the end: {c:?}"))?;
    Ok(CheckResult::Kept)
}

pub(super) fn two_writers(b: &CheckContext<'_>) -> Checked {
    if !keyed(b) || b.caps.virtual_time {
        return NOT_KEYED;
    }
    // Below the keys of the check of scans, which looks at what follows its own.
    let first = APART + APART / 2;
    let work = |worker: u64| -> Tested<()> {
        let mut session = b.session()?;
        for n in 0..500 {
            put(b, session.as_mut(), first + 2 * n + worker, 1 + n % 8)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        work(0)?;
        other.join().unwrap_or_else(|_| Err("a writer panicked".into()))
    })?;
    let mut session = b.session()?;
    for n in 0..1000 {
        let read = get(b, session.as_mut(), first + n)?;
        ensure(read == Ok(1 + n / 2 % 8), || format!("record {n}: {read:?}"))?;
    }
    Ok(CheckResult::Kept)
}

pub(super) fn remembers(b: &CheckContext<'_>) -> Checked {
    let Some(records) = b.target.keyed() else {
        return if !b.caps.keyed() {
            NOT_KEYED
        } else {
            Err("addressed by key, but `keyed` gives nothing".into())
        };
    };
    if !b.caps.stores_data {
        return Ok(CheckResult::NotForIt("it stores no data"));
    }
    records.loaded(RECORDS)?;
    ensure(records.records() == RECORDS, || format!("{} records", records.records()))?;
    if !b.caps.admin.contains(&AdminAction::Purge) {
        return Ok(CheckResult::Kept);
    }
    b.target.admin(AdminAction::Purge)?;
    ensure(records.records() == 0, || format!("{} records after the purge", records.records()))?;
    let mut session = b.session()?;
    let read = get(b, session.as_mut(), 0)?;
    ensure(read == Err(Status::NOT_FOUND), || format!("after the purge: {read:?}"))?;
    put(b, session.as_mut(), 0, 1)?;
    Ok(CheckResult::Kept)
}
