//! Loads the records that a run on keys expects, before anything is measured: inserts of the key numbers
//! that are missing, with progress, through the same sessions and payloads as the run. Nothing is recorded.
//! The run's opener calls it between `open` and [`crate::run::run`].

use std::sync::Arc;

use taillight_core::capability::{Capabilities, MAX_BATCH};
use taillight_core::plan::{BlockSize, MixPart, Plan, WorkloadPlan};
use taillight_core::probe::Token;
use taillight_core::progress::{OnProgress, Progress};
use taillight_core::{Clock, Error, MonoClock, Op, Result, Stamp};
use taillight_driver::{AdminAction, Completion, Session, SessionSpec, Submitted, Target};

use crate::generator::{KeyGenerator, WorkerIndex, worker_seed};
use crate::keyspace::KeySpace;
use crate::payload::{Filler, PayloadSpec};
use crate::run::{buffer_size, whole_values};
use crate::verify::{BlockFormat, BlockHeader, run_hash};
use crate::worker::KeyedWorker;

/// Operations in flight while loading, where the driver queues.
const DEPTH: u32 = 32;
/// Bytes of values that one insert loads at most, where it loads several.
const BATCH_BYTES: u64 = 1 << 20;
/// Progress is told, and asked whether to go on, after this time, ns.
const ASK_NS: i64 = 100_000_000;
/// How long what is in flight has once loading is stopped, ns.
const STOPPED_NS: u64 = 300_000_000;
/// Longest wait for a completion, ns.
const PATIENCE_NS: u64 = 60_000_000_000;

/// Records of the plan that the target does not have yet.
pub fn missing(plan: &Plan, target: &dyn Target) -> u64 {
    let keys = plan.workloads.first().and_then(|w| w.keys.as_ref());
    keys.zip(target.keyed()).map_or(0, |(keys, held)| keys.count.saturating_sub(held.records()))
}

/// Loads what is missing of the plan's records for run `run_id`. Returns how many were loaded: the
/// last ones of those the plan has. Where the plan verifies, each is marked as its first write. Ends with a flush of
/// the target, which then takes note of its records.
/// Errors: `Target` when an insert fails or does not end within a minute; `Unavailable` when `progress` stops it; those
/// of the target.
pub fn preload(
    plan: &Plan,
    target: &dyn Target,
    can: &Capabilities,
    run_id: &str,
    progress: &mut OnProgress<'_>,
) -> Result<u64> {
    let (Some(keyed), Some(w)) = (target.keyed(), plan.workloads.first()) else {
        return Ok(0);
    };
    let Some(keys) = &w.keys else { return Ok(0) };
    let missing = missing(plan, target);
    if missing == 0 {
        return Ok(0);
    }
    let space = KeySpace::new(keys.start, keys.count - missing).for_one();
    let mut load = PreloadLoop::new(plan, w, target, can, space)?;
    if !plan.verify.is_off() {
        let format = BlockFormat::new(&PayloadSpec::of(&w.payload)?);
        load.seal = Some((format, run_hash(run_id)));
    }
    let mut told = MonoClock.now();
    let mut go = |done: u64| {
        let now = MonoClock.now();
        if now.since(told) < ASK_NS && done < missing {
            return true;
        }
        told = now;
        progress(Progress { what: "loading", done, total: missing, unit: "records" })
    };
    let mut done = 0;
    while done < missing {
        let count = u64::from(load.batch).min(missing - done);
        if !load.insert(count as u32, &mut || go(done))? || !go(done + count) {
            return Err(load.stop());
        }
        done += count;
    }
    if !load.drain(&mut || go(missing))? {
        return Err(load.stop());
    }
    drop(load);
    target.admin(AdminAction::Flush)?;
    keyed.loaded(keys.count)?;
    Ok(missing)
}

/// Records that one insert loads: several where the driver says so and all values are of one size, since those of a
/// batch are.
fn batch_of(w: &WorkloadPlan, can: &Capabilities) -> u32 {
    if !can.batched_load || !matches!(w.block_size, BlockSize::Fixed(_)) {
        return 1;
    }
    (BATCH_BYTES / value_size(w).max(1)).clamp(1, u64::from(MAX_BATCH)) as u32
}

/// Bytes of the largest value.
fn value_size(w: &WorkloadPlan) -> u64 {
    buffer_size(w) / u64::from(w.batch.max(1))
}

/// A session that only inserts.
struct PreloadLoop {
    session: Box<dyn Session>,
    generator: KeyGenerator,
    values: KeyedWorker,
    payload: Filler,
    /// Marks every value as a write of this run.
    seal: Option<(BlockFormat, u64)>,
    free: Vec<u32>,
    depth: usize,
    /// Records of one insert, at most.
    batch: u32,
    made: u64,
    done: Vec<Completion>,
}

impl PreloadLoop {
    fn new(
        plan: &Plan,
        w: &WorkloadPlan,
        target: &dyn Target,
        can: &Capabilities,
        space: KeySpace,
    ) -> Result<PreloadLoop> {
        let depth = can.max_depth.clamp(1, DEPTH);
        let batch = batch_of(w, can);
        let mut session = target.session(&SessionSpec {
            worker: 0,
            workload: 0,
            index: 0,
            keep: false,
            depth,
            buffer_size: buffer_size(w).max(value_size(w) * u64::from(batch)),
            seed: worker_seed(plan.run.seed, 0, 5),
        })?;
        let mut inserts = w.clone();
        // Records are drawn one by one, also those that are inserted together.
        inserts.batch = 1;
        inserts.mix = vec![MixPart { op: can.inserting(), weight: 1 }];
        let space = Arc::new(space);
        // Its own draws, and no two records alike unless the plan wants that.
        let seed = worker_seed(plan.run.seed, u16::MAX, 6);
        let whole = batch > 1 || whole_values(w);
        let mut payload = Filler::new(&PayloadSpec::of(&w.payload)?, seed, whole);
        (0..depth).for_each(|slot| payload.prepare(session.buffer(slot)));
        // A stream of its own: worker numbers end well below this.
        let place = WorkerIndex { worker: u16::MAX, index: 0, of: 1 };
        Ok(PreloadLoop {
            session,
            payload,
            seal: None,
            generator: KeyGenerator::new(plan, &inserts, space.clone(), place)?,
            values: KeyedWorker::new(w, space, depth as usize)?,
            free: (0..depth).collect(),
            depth: depth as usize,
            batch,
            made: 0,
            done: Vec::with_capacity(depth as usize),
        })
    }

    /// Starts the insert of the next `count` records, waiting for a free slot first. False when `go` said to stop.
    fn insert(&mut self, count: u32, go: &mut dyn FnMut() -> bool) -> Result<bool> {
        while self.free.is_empty() {
            if !self.wait(go)? {
                return Ok(false);
            }
        }
        let Some(slot) = self.free.pop() else {
            return Err(Error::internal("no slot to load with"));
        };
        let op = self.fill(slot, count)?;
        self.made += 1;
        let token = Token::new(self.made, slot);
        loop {
            match self.session.submit(&op, slot, token)? {
                Submitted::Queued => return Ok(true),
                Submitted::Done(completion) => return self.finish(&completion).map(|()| true),
                Submitted::Full => {
                    if !self.wait(go)? {
                        self.free.push(slot);
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Draws the next `count` records and puts their values into the buffer of `slot`, end to end. Errors: `Internal`
    /// where they are no batch: not of one size, or not neighbours by number.
    fn fill(&mut self, slot: u32, count: u32) -> Result<Op> {
        let mut op = self.generator.next();
        let all = Op { count, ..op };
        let buffer = self.session.buffer(slot);
        let size = buffer.len().min(op.size as usize);
        for nth in 0..count as usize {
            if nth > 0 {
                op = self.generator.next();
            }
            let start = nth * size;
            let end = if count == 1 { buffer.len() } else { start + size };
            let fits = op.size == all.size && op.key == all.key + nth as u64;
            let Some(value) = buffer.get_mut(start..end).filter(|_| fits) else {
                return Err(Error::internal("records to load are no batch").with("key", op.key));
            };
            self.payload.fill(&mut value[..size]);
            self.values.encode(&op, value, self.generator.field_sizes());
            if let Some((format, run)) = &self.seal {
                let mark = BlockHeader { run: *run, address: op.key, generation: 1 };
                format.seal(&mut value[..size], mark);
            }
        }
        Ok(all)
    }

    /// Waits until everything is loaded. False when `go` said to stop.
    fn drain(&mut self, go: &mut dyn FnMut() -> bool) -> Result<bool> {
        while self.free.len() < self.depth {
            if !self.wait(go)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Hands over what is queued and takes at least one completion. False when `go` said to stop.
    fn wait(&mut self, go: &mut dyn FnMut() -> bool) -> Result<bool> {
        self.session.flush()?;
        let end = MonoClock.now().plus(PATIENCE_NS);
        loop {
            let until = MonoClock.now().plus(ASK_NS as u64).min(end);
            if self.take(until)? > 0 {
                return Ok(true);
            }
            if !go() {
                return Ok(false);
            }
            if MonoClock.now() >= end {
                return Err(Error::target("an insert did not end while loading records")
                    .with("waited_s", PATIENCE_NS / 1_000_000_000));
            }
        }
    }

    /// Takes completions, waiting for the first until a stamp at most; how many.
    fn take(&mut self, until: Stamp) -> Result<usize> {
        let mut done = std::mem::take(&mut self.done);
        self.session.poll(1, Some(until), &mut done)?;
        let count = done.len();
        let finished = done.drain(..).try_for_each(|c| self.finish(&c));
        self.done = done;
        finished.map(|()| count)
    }

    /// Gives what is in flight a moment, so that no insert comes after the records are deleted.
    fn stop(mut self) -> Error {
        let end = MonoClock.now().plus(STOPPED_NS);
        while self.free.len() < self.depth && MonoClock.now() < end && self.take(end).is_ok() {}
        if self.free.len() < self.depth {
            self.session.abandon();
        }
        Error::unavailable("stopped while loading records")
    }

    fn finish(&mut self, c: &Completion) -> Result<()> {
        self.free.push(c.token.slot());
        if c.status.is_ok() {
            return Ok(());
        }
        Err(Error::target("an insert failed while loading records")
            .with("status", c.status)
            .hint("the store must take all records before the run can begin: give it the room and rights, or load fewer"))
    }
}
