//! Rules of the contract, and claims of a driver, as checks that any driver can be run through.
//!
//! Which checks apply follows from the driver's capabilities. The place where the target is opened comes from the
//! driver (`Driver::test_target`) or from the user. Nothing here measures. Callers: the tests of this crate, and
//! `taillight drivers --check`. A target addressed by key is given records first; where a check reads or writes a
//! block, it then gets or inserts a record.

mod claims;
mod keyed;
mod queue;
mod setup;
#[cfg(any(test, feature = "testing"))]
mod steps;

use taillight_core::capability::{Capabilities, TargetKind};
use taillight_core::op::SyncKind;
use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::probe::Token;
use taillight_core::{Clock, Error, ErrorKind, MonoClock, Op, OpKind, Stamp, Status};

pub use keyed::keyed_plan;
pub use setup::{plan, plan_for};
#[cfg(any(test, feature = "testing"))]
pub use steps::{one, open, session, target};

pub use crate::test_target::{TestSetup, TestTarget};

use crate::contract::{Completion, Driver, OpenSpec, Session, SessionSpec, Submitted, Target};

/// What a check is called in the marks that it leaves.
pub const RUN_ID: &str = "conformance";

/// A driver with a plan to open it by.
pub struct TestCase<'a> {
    pub driver: &'a dyn Driver,
    /// The plan: [`plan`] makes one of blocks, [`keyed_plan`] of records, [`plan_for`] what fits capabilities.
    pub plan: Plan,
    /// What `--destroy` would say.
    pub destroy: Option<&'a str>,
}

/// How a check ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckResult {
    /// The driver keeps the rule.
    Kept,
    /// The check was run and found that the rule is not for this driver: why.
    NotForIt(&'static str),
    /// The driver breaks the rule.
    Broken(String),
}

/// Why a rule is broken, in words.
#[derive(Debug)]
struct BrokenRule(String);

impl<E: std::fmt::Display> From<E> for BrokenRule {
    fn from(why: E) -> BrokenRule {
        BrokenRule(why.to_string())
    }
}

/// What a step of a check gives, or the rule that it finds broken.
type Tested<T> = Result<T, BrokenRule>;
/// How a whole check ends; `Err` counts as [`CheckResult::Broken`].
type Checked = Tested<CheckResult>;
type Check = fn(&CheckContext<'_>) -> Checked;

/// On which targets a check is run, by what their reads see; elsewhere it is left out. Each target is of one kind:
/// `Snapshot` where its capabilities say so, else `Newest`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    Any,
    /// What was written last.
    Newest,
    /// What was there when the session began.
    Snapshot,
}
use Reads::{Any, Newest, Snapshot};

/// Every check by name.
const CHECKS: [(&str, Check, Reads); 24] = [
    ("options resolve to themselves", options, Any),
    ("buffers are apart and aligned", buffers, Any),
    ("one completion per token", tokens, Any),
    ("a full queue accepts nothing", full, Newest),
    ("reads return what was written", read_back, Newest),
    ("what is said to be lost is not kept", claims::keeps_nothing, Newest),
    ("a sync after a write is timed", sync_after_write, Newest),
    ("every operation completes", every_op, Newest),
    ("reading past the end is a completion", past_the_end, Newest),
    ("an unaligned read is a completion", unaligned, Newest),
    ("polling nothing returns", poll_nothing, Any),
    ("two workers do not disturb each other", two_workers, Newest),
    ("giving up leaves the target usable", give_up, Any),
    ("a missing key is not found", keyed::missing, Newest),
    ("updates replace, deletes remove", keyed::changes, Newest),
    ("scans follow the order of keys", keyed::scans, Newest),
    ("two writers lose nothing", keyed::two_writers, Newest),
    ("a queue gives each reader every record once", queue::each_once, Newest),
    ("batches are whole", claims::batches, Newest),
    ("a load by batches leaves every record", claims::batched_load, Newest),
    ("the same seed gives the same completions", claims::deterministic, Newest),
    ("records are remembered and purged", keyed::remembers, Newest),
    ("administration is what is claimed", claims::admin, Newest),
    ("reads stay as they were at the start", claims::snapshot, Snapshot),
];

/// Runs every check that fits the target's `Reads` and tells `each` its rule, first without a result and then with one;
/// `each` is not told of the other checks. A target addressed by key is given records before, which is told as one
/// more rule. Errors: when the target cannot be opened (`Refused` where nothing was tried) or closed, or records cannot
/// be stored.
pub fn run(
    case: &TestCase<'_>,
    each: &mut dyn FnMut(&'static str, Option<&CheckResult>),
) -> taillight_core::Result<()> {
    let bound = case.driver.bind(&case.plan.target)?;
    let caps = bound.capabilities();
    let spec = OpenSpec {
        plan: &case.plan,
        run_id: RUN_ID,
        destroy: case.destroy,
        stop: &taillight_core::StopFlag::default(),
        fits: &|_| Ok(()),
    };
    let target = bound.open(&spec, &mut |_| true)?;
    let bench = CheckContext { case, caps, target };
    if bench.caps.keyed() {
        each("records can be stored", None);
        keyed::load(&bench).map_err(|why| Error::target(why.0))?;
        each("records can be stored", Some(&CheckResult::Kept));
    }
    let other = if bench.caps.snapshot { Newest } else { Snapshot };
    let checks = CHECKS.iter().filter(|(_, _, reads)| *reads != other);
    for (name, check, _) in checks {
        each(name, None);
        let outcome = check(&bench).unwrap_or_else(|why| CheckResult::Broken(why.0));
        each(name, Some(&outcome));
    }
    bench.target.close()?;
    Ok(())
}

/// As [`run`]. Panics with the broken rules, if any, or why it could not run.
#[cfg(any(test, feature = "testing"))]
pub fn assert_kept(case: &TestCase<'_>) {
    let plan = &case.plan;
    let depth = plan.workloads[0].queue_depth;
    let name = format!("{} at depth {depth}: {}", plan.target.driver, plan.target.options);
    let mut outcomes = Vec::new();
    let mut broken = |rule, outcome: Option<&CheckResult>| {
        outcomes.extend(
            outcome.filter(|o| matches!(o, CheckResult::Broken(_))).map(|o| (rule, o.clone())),
        );
    };
    run(case, &mut broken).unwrap_or_else(|why| panic!("{name}: {why}"));
    assert!(outcomes.is_empty(), "{name}: {outcomes:#?}");
}

/// An opened target and what the checks ask about it; `b`, for bench, in every check.
struct CheckContext<'a> {
    case: &'a TestCase<'a>,
    caps: Capabilities,
    target: Box<dyn Target>,
}

/// How long a completion may take before the check calls it lost.
const PATIENCE_NS: u64 = 30_000_000_000;

impl CheckContext<'_> {
    fn depth(&self) -> u32 {
        self.case.plan.workloads.iter().map(|w| w.queue_depth).max().unwrap_or(1)
    }
    fn block(&self) -> u64 {
        self.case.plan.workloads.iter().map(|w| w.block_size.max()).max().unwrap_or(4096)
    }
    fn queue(&self) -> bool {
        self.caps.facts.kind == TargetKind::Queue
    }
    /// Whether the target can do `kind`, or what [`CheckContext::kind`] puts in its place.
    fn can(&self, kind: OpKind) -> bool {
        self.caps.ops.contains(&self.kind(kind))
    }
    /// On a target addressed by key what gets a record for `Read`, what inserts one for `Write`; on a queue `Write`
    /// for `Read`; else `kind` itself.
    fn kind(&self, kind: OpKind) -> OpKind {
        match kind {
            // A read of a queue ends when somebody writes.
            OpKind::Read if self.queue() => OpKind::Write,
            OpKind::Read if self.caps.keyed() => self.caps.getting(),
            OpKind::Write if self.caps.keyed() => self.caps.inserting(),
            kind => kind,
        }
    }
    fn spec(&self) -> SessionSpec {
        SessionSpec {
            worker: 0,
            workload: 0,
            index: 0,
            keep: true,
            depth: self.depth(),
            buffer_size: self.block(),
            seed: 1,
        }
    }
    fn session(&self) -> Tested<Box<dyn Session>> {
        Ok(self.target.session(&self.spec())?)
    }
    /// The `n`-th block of the data set, over all files; or the `n`-th record.
    fn op(&self, kind: OpKind, n: u64) -> Op {
        let kind = self.kind(kind);
        if self.caps.keyed() {
            return Op::keyed(kind, n % keyed::RECORDS, self.block());
        }
        let geometry = self.target.geometry();
        let per_file = (geometry.file_size / self.block()).max(1);
        let n = n % (per_file * u64::from(geometry.files));
        Op {
            kind,
            target: (n / per_file) as u16,
            offset: n % per_file * self.block(),
            size: if kind == OpKind::Fsync { 0 } else { self.block() },
            key: n,
            count: 1,
            field: taillight_core::ALL_FIELDS,
            sync: None,
        }
    }
    /// Waits for one completion or more.
    fn wait(&self, session: &mut dyn Session, out: &mut Vec<Completion>) -> Tested<()> {
        let before = out.len();
        let until = MonoClock.now().plus(PATIENCE_NS);
        while out.len() == before {
            if let Some(time) = self.target.virtual_time()
                && let Some(next) = time.next_event()
            {
                time.advance_to(next);
            }
            session.poll(1, Some(until), out)?;
            if out.len() == before && MonoClock.now() >= until {
                return Err("no completion came".into());
            }
        }
        Ok(())
    }
    /// One operation from submit to completion, in slot 0.
    fn one(&self, session: &mut dyn Session, op: &Op) -> Tested<Completion> {
        let token = Token::new(3, 0);
        match session.submit(op, 0, token)? {
            Submitted::Done(completion) => return Ok(completion),
            Submitted::Full => return Err("Full with nothing in flight".into()),
            Submitted::Queued => {}
        }
        session.flush()?;
        let mut out = Vec::with_capacity(1);
        self.wait(session, &mut out)?;
        match out.as_slice() {
            [one] if one.token == token => Ok(*one),
            other => Err(format!("one operation, but {} completions", other.len()).into()),
        }
    }
}

fn ensure(holds: bool, otherwise: impl FnOnce() -> String) -> Tested<()> {
    if holds { Ok(()) } else { Err(otherwise().into()) }
}

fn options(b: &CheckContext<'_>) -> Checked {
    let mut target = b.case.plan.target.clone();
    let resolve = |t: &TargetPlan| b.case.driver.bind(t)?.options();
    target.options = resolve(&target)?;
    ensure(resolve(&target)? == target.options, || "resolved options resolve otherwise".into())?;
    for doc in b.case.driver.options() {
        // An option whose default is given as "none" is absent until the user writes it.
        let absent = doc.default == "none";
        ensure(absent || target.options.contains_key(&doc.name), || {
            format!("`{}` has no default", doc.name)
        })?;
    }
    target.options.insert("no_such_option".to_owned(), toml::Value::Boolean(true));
    match resolve(&target) {
        Err(e) if e.kind() == ErrorKind::Usage => Ok(CheckResult::Kept),
        other => Err(format!("an unknown option is not refused: {other:?}").into()),
    }
}

fn buffers(b: &CheckContext<'_>) -> Checked {
    let mut session = b.session()?;
    let align = b.target.geometry().align.max(1) as usize;
    for slot in 0..b.depth() {
        let buffer = session.buffer(slot);
        ensure(buffer.len() as u64 == b.block(), || format!("slot {slot}: {}", buffer.len()))?;
        ensure(buffer.as_ptr().addr() % align == 0, || format!("slot {slot} is not aligned"))?;
        buffer.fill(slot as u8);
    }
    if b.caps.stores_data {
        for slot in 0..b.depth() {
            let whole = session.buffer(slot).iter().all(|byte| *byte == slot as u8);
            ensure(whole, || format!("slot {slot} shares memory with another"))?;
        }
    }
    Ok(CheckResult::Kept)
}

fn tokens(b: &CheckContext<'_>) -> Checked {
    let mut session = b.session()?;
    let depth = b.depth();
    let total = u64::from(depth) * 8;
    let mut free: Vec<u32> = (0..depth).collect();
    let mut seen = vec![0u32; total as usize];
    let mut out = Vec::with_capacity(depth as usize);
    let (mut next, mut ended) = (0, 0);
    while ended < total {
        while next < total && !free.is_empty() {
            let slot = free[free.len() - 1];
            let token = Token::new(next, slot);
            let op = b.op(OpKind::Read, next.wrapping_mul(2_654_435_761));
            match session.submit(&op, slot, token)? {
                Submitted::Done(c) => out.push(c),
                Submitted::Queued => {}
                Submitted::Full if free.len() == depth as usize => {
                    return Err("Full with nothing in flight".into());
                }
                Submitted::Full => break,
            }
            free.pop();
            next += 1;
        }
        session.flush()?;
        if out.is_empty() {
            b.wait(session.as_mut(), &mut out)?;
        }
        for c in out.drain(..) {
            let count = seen.get_mut(c.token.generation() as usize);
            *count.ok_or("a token that was never given")? += 1;
            // Who keeps no records has none of a certain size.
            let whole = c.moved == b.block() || b.caps.keyed() && !b.caps.stores_data;
            ensure(c.status.is_ok() && whole, || format!("a read ended {c:?}"))?;
            free.push(c.token.slot());
            ended += 1;
        }
    }
    ensure(seen.iter().all(|n| *n == 1), || "a token completed twice or never".into())?;
    ensure(free.len() == depth as usize, || "more completions than operations".into())?;
    Ok(CheckResult::Kept)
}

fn full(b: &CheckContext<'_>) -> Checked {
    let mut session = b.session()?;
    let mut in_flight = 0;
    for slot in 0..b.depth() {
        let op = b.op(OpKind::Read, u64::from(slot));
        match session.submit(&op, slot, Token::new(1, slot))? {
            Submitted::Done(_) => {}
            Submitted::Queued => in_flight += 1,
            Submitted::Full => return Err(format!("Full at {slot} of {}", b.depth()).into()),
        }
    }
    if in_flight == 0 {
        return Ok(CheckResult::NotForIt("it has no queue"));
    }
    let op = b.op(OpKind::Read, 0);
    let answer = session.submit(&op, 0, Token::new(9, 0))?;
    ensure(answer == Submitted::Full, || format!("one too many was answered {answer:?}"))?;
    session.flush()?;
    let mut out = Vec::with_capacity(b.depth() as usize);
    while out.len() < in_flight {
        b.wait(session.as_mut(), &mut out)?;
    }
    ensure(out.len() == in_flight, || format!("{} of {in_flight} completed", out.len()))?;
    ensure(out.iter().all(|c| c.token.generation() == 1), || "Full accepted it".into())?;
    Ok(CheckResult::Kept)
}

fn read_back(b: &CheckContext<'_>) -> Checked {
    if b.queue() || !(b.caps.stores_data && b.can(OpKind::Read) && b.can(OpKind::Write)) {
        return Ok(CheckResult::NotForIt("it stores no data, or reads no block by its place"));
    }
    let mut session = b.session()?;
    let geometry = b.target.geometry();
    let blocks = (geometry.size() / b.block()).min(64);
    let byte = |n: u64, i: usize| (n as u8).wrapping_mul(31).wrapping_add(i as u8);
    for n in 0..blocks {
        for (i, at) in session.buffer(0).iter_mut().enumerate() {
            *at = byte(n, i);
        }
        let c = b.one(session.as_mut(), &b.op(OpKind::Write, n))?;
        ensure(c.status.is_ok() && c.moved == b.block(), || format!("write {n} ended {c:?}"))?;
    }
    for n in (0..blocks).rev() {
        session.buffer(0).fill(0);
        let c = b.one(session.as_mut(), &b.op(OpKind::Read, n))?;
        ensure(c.status.is_ok() && c.moved == b.block(), || format!("read {n} ended {c:?}"))?;
        let same = session.buffer(0).iter().enumerate().all(|(i, x)| *x == byte(n, i));
        ensure(same, || format!("block {n} is not what was written"))?;
    }
    Ok(CheckResult::Kept)
}

fn sync_after_write(b: &CheckContext<'_>) -> Checked {
    if !(b.caps.sync && b.caps.stores_data && b.can(OpKind::Write)) {
        return Ok(CheckResult::NotForIt("it has no durable writes"));
    }
    let mut session = b.session()?;
    for kind in [None, Some(SyncKind::Fdatasync), Some(SyncKind::Fsync)] {
        let op = Op { sync: kind, ..b.op(OpKind::Write, 1) };
        let c = b.one(session.as_mut(), &op)?;
        ensure(c.status.is_ok() && c.moved == op.size, || format!("{kind:?} ended {c:?}"))?;
        // A store does not tell the time of its sync.
        let timed = kind.is_some() && !b.caps.keyed();
        ensure(c.sync_ns.is_some() == timed, || format!("{kind:?} gave {:?}", c.sync_ns))?;
    }
    // All at once, and all awaited at once.
    let mut out = Vec::with_capacity(b.depth() as usize);
    for slot in 0..b.depth() {
        let op = Op { sync: Some(SyncKind::Fdatasync), ..b.op(OpKind::Write, u64::from(slot)) };
        let answer = session.submit(&op, slot, Token::new(1, slot));
        if let Submitted::Done(c) = answer? {
            out.push(c);
        }
    }
    session.flush()?;
    let left = b.depth() - out.len() as u32;
    let until = MonoClock.now().plus(PATIENCE_NS);
    session.poll(left, Some(until), &mut out)?;
    let good = |c: &Completion| c.status.is_ok() && (c.sync_ns.is_some() || b.caps.keyed());
    ensure(out.len() as u32 == b.depth() && out.iter().all(good), || format!("{out:?}"))?;
    Ok(CheckResult::Kept)
}

fn every_op(b: &CheckContext<'_>) -> Checked {
    let planned = |kind| {
        let mut mixes = b.case.plan.workloads.iter().flat_map(|w| &w.mix);
        mixes.any(|part| part.op == kind)
    };
    let mut session = b.session()?;
    let kinds = b.caps.ops.iter().copied().filter(|kind| planned(*kind));
    // The engine makes a read-modify-write of two operations.
    for kind in kinds.filter(|kind| *kind != OpKind::Rmw) {
        let c = b.one(session.as_mut(), &b.op(kind, 2))?;
        ensure(c.status.is_ok(), || format!("{} ended {c:?}", kind.name()))?;
    }
    if b.caps.keyed() {
        b.one(session.as_mut(), &b.op(OpKind::Write, 2))?;
    }
    Ok(CheckResult::Kept)
}

fn past_the_end(b: &CheckContext<'_>) -> Checked {
    if !b.caps.stores_data || b.caps.keyed() || b.queue() {
        return Ok(CheckResult::NotForIt("it has no end"));
    }
    let mut session = b.session()?;
    // Far behind any file; within what a file offset can be.
    let op = Op { offset: 1 << 50, ..b.op(OpKind::Read, 0) };
    let c = b.one(session.as_mut(), &op)?;
    ensure(!c.status.is_ok() && c.moved < op.size, || format!("ended {c:?}"))?;
    Ok(CheckResult::Kept)
}

fn unaligned(b: &CheckContext<'_>) -> Checked {
    if !b.caps.stores_data || b.target.geometry().align < 2 {
        return Ok(CheckResult::NotForIt("any offset will do"));
    }
    let mut session = b.session()?;
    let op = Op { offset: 1, ..b.op(OpKind::Read, 0) };
    let c = b.one(session.as_mut(), &op)?;
    // Some file systems serve it through the page cache; what counts is that it ends.
    ensure(c.status.is_ok() || c.status > Status::OK, || format!("ended {c:?}"))?;
    Ok(CheckResult::Kept)
}

fn poll_nothing(b: &CheckContext<'_>) -> Checked {
    let mut session = b.session()?;
    let mut out = Vec::new();
    let soon = Some(MonoClock.now().plus(1_000_000));
    for (min, until) in [(0, None), (0, Some(Stamp(0))), (1, soon), (1, Some(Stamp(0)))] {
        session.poll(min, until, &mut out)?;
    }
    session.flush()?;
    ensure(out.is_empty(), || "completions out of nothing".into())?;
    Ok(CheckResult::Kept)
}

fn two_workers(b: &CheckContext<'_>) -> Checked {
    if b.caps.virtual_time {
        return Ok(CheckResult::NotForIt("one event queue drives all its workers"));
    }
    let work = |worker: u64| -> Tested<()> {
        let mut session = b.session()?;
        for n in 0..200 {
            let c = b.one(session.as_mut(), &b.op(OpKind::Read, worker + 2 * n))?;
            ensure(c.status.is_ok(), || format!("worker {worker}: {c:?}"))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(1));
        work(0)?;
        other.join().unwrap_or_else(|_| Err("a worker panicked".into()))
    })?;
    Ok(CheckResult::Kept)
}

fn give_up(b: &CheckContext<'_>) -> Checked {
    for flushed in [true, false] {
        let mut session = b.session()?;
        for slot in 0..b.depth() {
            let op = b.op(OpKind::Read, u64::from(slot) * 3);
            session.submit(&op, slot, Token::new(1, slot))?;
        }
        if flushed {
            session.flush()?;
            session.abandon();
        } else {
            drop(session);
        }
    }
    let mut again = b.session()?;
    let c = b.one(again.as_mut(), &b.op(OpKind::Read, 0))?;
    ensure(c.status.is_ok(), || format!("a read afterwards ended {c:?}"))?;
    Ok(CheckResult::Kept)
}
