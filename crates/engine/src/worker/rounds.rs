//! Rounds: where a store performs inside the call, several operations are drawn and their values
//! made first, then they are performed back to back, then all are recorded.
//!
//! Between two operations of a round lies nothing but the loop, so that one stamp is the end of the
//! first and the start of the next. What the plain loop does between them (draws, values,
//! histograms, the capture) is done once a round, where it costs half: its code and data are
//! fetched once. Why, and what it saves: docs/design/0008-rounds.md.
//!
//! What it is not: a way to queue; one operation is in flight at a time, as before. Only for closed
//! loops in which no draw depends on what came back: see [`fit`]. An operation that ends in any
//! other way than a plain success leaves the round and goes the long way.

use taillight_core::plan::{AccessKind, Plan};
use taillight_core::probe::{Probe, Token};
use taillight_core::{Error, Op, OpKind, Result, Stamp};
use taillight_driver::Outcome;
use taillight_rundir::chunk::Sample;

use super::flight::InFlight;
use super::{Worker, WorkerConfig};
use crate::clock::DisciplinedClock;

/// Operations of a round at most: what a process loses when it is killed.
const AHEAD: usize = 16;
/// Bytes of values made ahead at most, unless one alone is larger: they stay in the first-level
/// cache.
const VALUE_BYTES: usize = 16 << 10;
/// A round should be over after this long, ns: slow operations come one to a round.
const LENGTH_NS: u64 = 200_000;

/// What is drawn and not yet recorded.
pub(super) struct Rounds {
    ops: Vec<Op>,
    /// Operations of `ops` that are performed.
    next: usize,
    /// Values of `ops`, each in a place of its own.
    values: Box<[u8]>,
    /// Bytes of a place.
    stride: usize,
    most: usize,
    samples: Vec<Sample>,
    /// Running mean of an operation, ns.
    mean_ns: u64,
}

/// Whether any worker of `plan` may work in rounds: either records are only added, or those that
/// are there are read and replaced. Otherwise a draw made ahead would miss what an operation of the
/// same round adds or takes away.
pub fn fit(plan: &Plan) -> bool {
    let kinds = |fits: fn(OpKind) -> bool| {
        let mut parts = plan.workloads.iter().flat_map(|w| &w.mix);
        parts.all(|part| part.weight == 0 || fits(part.op))
    };
    let adds = |kind| matches!(kind, OpKind::Insert | OpKind::Put);
    let uses = |kind| matches!(kind, OpKind::Get | OpKind::Update);
    let plain = plan.workloads.iter().all(|w| {
        let fields = w.value.as_ref().map_or(1, |v| v.fields);
        let follows = w.access.kind == AccessKind::Follow;
        w.batch <= 1 && fields <= 1 && w.think.is_none() && !follows
    });
    plain && (kinds(adds) || kinds(uses))
}

impl Rounds {
    /// For a worker made of `parts`, if it can work in rounds.
    pub fn of<C: DisciplinedClock, P: Probe>(
        parts: &mut WorkerConfig<C, P>,
    ) -> Option<Box<Rounds>> {
        let plain = parts.rounds
            && parts.depth == 1
            && parts.schedule.peek().is_none()
            && parts.limits.bytes.is_none()
            && parts.keyed.as_ref().is_some_and(|k| !k.encodes())
            && parts.checker.is_none()
            && parts.follow.is_none()
            && !parts.generator.ends()
            && !parts.probe.watches();
        if !plain || parts.session.at_once().is_none() {
            return None;
        }
        let stride = parts.session.buffer(0).len().max(1);
        let most = (VALUE_BYTES / stride).clamp(1, AHEAD);
        let mut values = vec![0; stride * most].into_boxed_slice();
        if parts.writes {
            let places = values.chunks_exact_mut(stride);
            places.for_each(|place| parts.payload.prepare(place));
        }
        Some(Box::new(Rounds {
            ops: Vec::with_capacity(AHEAD),
            next: 0,
            values,
            stride,
            most,
            samples: Vec::with_capacity(AHEAD),
            mean_ns: LENGTH_NS,
        }))
    }

    /// Operations to draw when `left_ns` are left until something else is to be done: so few that
    /// a stall alone can keep one of them from being performed in that time.
    fn room(&self, left_ns: u64) -> usize {
        let time = LENGTH_NS.min(left_ns / 4);
        let room = usize::try_from(time / self.mean_ns.max(1)).unwrap_or(AHEAD);
        room.clamp(1, self.most)
    }

    /// Takes note that `count` operations took `ns`.
    fn took(&mut self, count: usize, ns: u64) {
        let mean = ns / count.max(1) as u64;
        self.mean_ns = (self.mean_ns * 3 + mean).div_ceil(4);
    }
}

/// An operation that was no plain success.
struct Odd {
    op: Op,
    submit: Stamp,
    outcome: Outcome,
}

/// Whether an operation did what it was asked to.
#[inline(always)]
fn plain(op: &Op, outcome: &Outcome) -> bool {
    let whole = op.kind == OpKind::Get || outcome.moved == op.size;
    outcome.status.is_ok() && outcome.count == 0 && whole
}

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// Works one round, if it works in rounds; false when the time is up.
    #[inline(always)]
    pub(super) fn next_round(&mut self) -> Result<Option<bool>> {
        // Out of the worker for the call, which needs all of it; a plain loop only looks.
        if self.rounds.is_none() {
            return Ok(None);
        }
        let Some(mut rounds) = self.rounds.take() else {
            return Ok(None);
        };
        let goes_on = self.perform_round(&mut rounds);
        self.rounds = Some(rounds);
        goes_on.map(Some)
    }

    /// Draws, performs and records a round; false when the time is up.
    fn perform_round(&mut self, rounds: &mut Rounds) -> Result<bool> {
        let until = self.round_end.min(self.timeline.end);
        if rounds.next == rounds.ops.len() {
            self.draw_round(rounds, until);
        }
        let mut first = self.clock.now();
        if first >= self.recorder.boundary() {
            // Handing an interval over is our work, not the first operation's.
            self.recorder.tick(first, 0, || 0);
            first = self.clock.now();
        }
        self.now = first;
        if first >= self.timeline.end {
            self.reached_end = true;
            self.stop();
            return Ok(false);
        }
        self.recorder.tick(first, 0, || 0);
        let performed = self.perform(rounds, first, until);
        self.record_round(rounds, first);
        if let Some(odd) = performed? {
            self.go_on(&odd)?;
        }
        self.clock.keep(self.now);
        Ok(self.now < until)
    }

    fn draw_round(&mut self, rounds: &mut Rounds, until: Stamp) {
        let left = until.since(self.now).max(0) as u64;
        let room = rounds.room(left) as u64;
        let room = self.limits.operations.map_or(room, |left| left.min(room));
        rounds.ops.clear();
        rounds.next = 0;
        for place in rounds
            .values
            .chunks_exact_mut(rounds.stride)
            .take(room as usize)
        {
            let op = self.generator.next();
            if op.kind.writes() {
                let size = place.len().min(op.size as usize);
                self.payload.fill(&mut place[..size]);
            }
            rounds.ops.push(op);
        }
    }

    /// Performs what is drawn, until the time is up or something ends in another way than a plain
    /// success. `first` is the start of the first.
    #[inline(always)]
    fn perform(&mut self, rounds: &mut Rounds, first: Stamp, until: Stamp) -> Result<Option<Odd>> {
        let Some(session) = self.session.at_once() else {
            return Err(Error::internal("the session no longer performs at once"));
        };
        let mut submit = first;
        let ops = rounds
            .ops
            .iter()
            .zip(rounds.values.chunks_exact(rounds.stride));
        for (op, place) in ops.skip(rounds.next) {
            let value = if op.kind.writes() {
                place.get(..op.size as usize).unwrap_or(place)
            } else {
                &[]
            };
            let outcome = session.perform(op, value)?;
            let complete = self.clock.now();
            self.now = complete;
            rounds.next += 1;
            if !plain(op, &outcome) {
                return Ok(Some(Odd {
                    op: *op,
                    submit,
                    outcome,
                }));
            }
            rounds.samples.push(Sample {
                op: op.kind,
                global: 0,
                size: outcome.moved,
                intended: submit.0,
                submit: submit.0,
                issued: submit.0,
                complete: complete.0,
                sync_ns: None,
                key: op.key,
            });
            submit = complete;
            if complete >= until {
                break;
            }
        }
        Ok(None)
    }

    /// Records the plain successes of a round that began at `first`.
    fn record_round(&mut self, rounds: &mut Rounds, first: Stamp) {
        let Some(last) = rounds.samples.last().map(|s| Stamp(s.complete)) else {
            return;
        };
        rounds.took(rounds.samples.len(), last.since(first).max(0) as u64);
        self.failures = 0;
        self.pace.completed(last);
        for sample in &rounds.samples {
            if sample.submit >= self.timeline.measure.0 {
                self.count(sample.size);
            }
            if let (OpKind::Insert | OpKind::Put, Some(keyed)) = (sample.op, &self.keyed) {
                keyed.acknowledge_one(sample.key);
            }
        }
        self.recorder.round(&rounds.samples);
        rounds.samples.clear();
    }

    /// An operation of a round, performed already, goes the way of all others from here.
    #[cold]
    fn go_on(&mut self, odd: &Odd) -> Result<()> {
        let Some(slot) = self.free.pop() else {
            return Err(Error::internal("a round while something is in flight"));
        };
        self.generation += 1;
        let token = Token::new(self.generation, self.first_slot + slot);
        self.slots[slot as usize] = InFlight {
            op: odd.op,
            intended: None,
            submit: odd.submit,
            issued: odd.submit,
            token,
        };
        if odd.submit >= self.timeline.measure {
            self.count(odd.op.size);
        }
        self.tick();
        self.complete(&odd.outcome.completion(token))
    }
}

#[cfg(test)]
mod tests;
