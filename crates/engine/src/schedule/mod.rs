//! When: intended start times, independent of what happens. One schedule per worker.
//!
//! `Burst` has none (closed loop). Every other kind is a sequence of the whole workload, of which
//! worker k of W owns instants k, k + W, ... (Poisson: a stream of its own). Instants are whole ns, computed
//! from exact fractions (of Poisson each gap is a float): no drift. A schedule never slows itself: lateness is data.
//! Constant and Poisson arrivals go on from the warm-up; the other kinds begin with the measure phase.
//!
//! A new kind is one file with `next`, `shift`, `advance`, `due` and `skip`, and its lines here.

mod bursts;
mod constant;
mod poisson;
mod ramp;
mod rate;
pub mod replay;
mod steps;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use taillight_core::plan::{Arrival, WorkloadPlan};
use taillight_core::units::Rate;
use taillight_core::{Result, Stamp};

use crate::generator::WorkerIndex;
pub use bursts::Bursts;
pub use constant::Constant;
pub use poisson::Poisson;
pub use ramp::Ramp;
use rate::Gap;
pub use replay::Replay;
pub use steps::Steps;

/// One worker's intended times.
#[derive(Debug, Clone)]
pub enum Schedule {
    Burst,
    Constant(Constant),
    Poisson(Box<Poisson>),
    Bursts(Bursts),
    /// One rate after another.
    Steps(Box<Steps>),
    /// From one rate to another.
    Ramp(Box<Ramp>),
    Replay(Replay),
    /// A warm-up before a profile that begins with the measure phase.
    Warm(Box<WarmupProfile>),
}

/// Two schedules in turn.
#[derive(Debug, Clone)]
pub struct WarmupProfile {
    before: Schedule,
    until: i64,
    then: Schedule,
}

/// Makes the schedules of a workload's workers; recorded times are read once.
pub struct Schedules<'a> {
    workload: &'a WorkloadPlan,
    seed: u64,
    warmup_ns: i64,
    times: Option<Arc<[i64]>>,
}

impl<'a> Schedules<'a> {
    /// For one workload of a run with this seed and warm-up. Errors: `Usage` when recorded times
    /// cannot be read.
    pub fn new(workload: &'a WorkloadPlan, seed: u64, warmup_ns: u64) -> Result<Schedules<'a>> {
        let times = match (&workload.arrival, &workload.trace) {
            (Arrival::Replay { .. }, Some(trace)) => Some(trace.ops.times.clone()),
            (Arrival::Replay { file }, None) => {
                Some(replay::read(file).map_err(|e| e.with("workload", &workload.name))?)
            }
            _ => None,
        };
        Ok(Schedules {
            workload,
            seed,
            warmup_ns: i64::try_from(warmup_ns).unwrap_or(i64::MAX / 2),
            times,
        })
    }

    /// The schedule of the worker at `place`, which joins `join_ns` after the start of the load; `None`: it is there
    /// from the start. Its share of what is due before it joins is left out; a trace begins when it joins. Errors:
    /// `Usage` for a rate slower than one operation a year or faster than 1 per ns, or rates without a common fraction.
    pub fn of(&self, place: WorkerIndex, join_ns: Option<u64>) -> Result<Schedule> {
        let w = self.workload;
        let even = |rate: Rate| Ok(Constant::new(Gap::of(rate, w)?, place));
        // What runs from the start of the load, and what begins with the measure phase.
        let (before, profile) = match &w.arrival {
            Arrival::Burst => return Ok(Schedule::Burst),
            Arrival::Constant { rate } => (None, Schedule::Constant(even(*rate)?)),
            Arrival::Poisson { rate } => {
                let gap = Gap::of(*rate, w)?;
                let poisson = Poisson::new(gap, self.seed, place);
                (None, Schedule::Poisson(Box::new(poisson)))
            }
            Arrival::Bursts { rate, on, off } => {
                let bursts = Schedule::Bursts(Bursts::new(even(*rate)?, on.0, off.0));
                (Some(bursts.clone()), bursts)
            }
            Arrival::Steps { steps } => {
                let first = steps.first().map(|s| even(s.rate)).transpose()?;
                let profile = Steps::new(steps, w, place)?;
                let first = first.map(Schedule::Constant);
                (first, Schedule::Steps(Box::new(profile)))
            }
            Arrival::Ramp { from, to, over } => {
                let profile = Ramp::new(*from, *to, *over, w, place)?;
                let first = Schedule::Constant(even(*from)?);
                (Some(first), Schedule::Ramp(Box::new(profile)))
            }
            Arrival::Replay { .. } => {
                let times = self.times.clone().unwrap_or_default();
                let mut replay = Schedule::Replay(Replay::new(times, place));
                if w.trace.is_some() {
                    // A trace is whole whenever it begins.
                    let begin = join_ns.map(|join| i64::try_from(join).unwrap_or(i64::MAX / 4));
                    replay.shift(begin.unwrap_or(self.warmup_ns));
                    return Ok(replay);
                }
                replay.shift(self.warmup_ns);
                (None, replay)
            }
        };
        let mut all = profile;
        if let Some(before) = before.filter(|_| self.warmup_ns > 0) {
            all.shift(self.warmup_ns);
            all = Schedule::warm(before, self.warmup_ns, all);
        }
        if let Some(join) = join_ns {
            let join = i64::try_from(join).unwrap_or(i64::MAX / 4);
            all.skip(join);
        }
        Ok(all)
    }
}

impl Schedule {
    fn warm(before: Schedule, until: i64, then: Schedule) -> Schedule {
        let mut warm = Schedule::Warm(Box::new(WarmupProfile { before, until, then }));
        warm.leave_warmup();
        warm
    }

    /// Leaves the warm-up once nothing of it is left.
    fn leave_warmup(&mut self) {
        if let Schedule::Warm(warm) = self
            && warm.before.next() >= warm.until
        {
            *self = std::mem::replace(&mut warm.then, Schedule::Burst);
        }
    }

    /// Sets the origin, once, at the start of the load.
    pub fn start(&mut self, at: Stamp) {
        self.shift(at.0);
    }

    fn shift(&mut self, ns: i64) {
        match self {
            Schedule::Burst => {}
            Schedule::Constant(s) => s.shift(ns),
            Schedule::Poisson(s) => s.shift(ns),
            Schedule::Bursts(s) => s.shift(ns),
            Schedule::Steps(s) => s.shift(ns),
            Schedule::Ramp(s) => s.shift(ns),
            Schedule::Replay(s) => s.shift(ns),
            Schedule::Warm(w) => {
                w.before.shift(ns);
                w.until += ns;
                w.then.shift(ns);
            }
        }
    }

    #[inline]
    fn next(&self) -> i64 {
        match self {
            Schedule::Burst => Stamp::NEVER.0,
            Schedule::Constant(s) => s.next,
            Schedule::Poisson(s) => s.next(),
            Schedule::Bursts(s) => s.next,
            Schedule::Steps(s) => s.next(),
            Schedule::Ramp(s) => s.next,
            Schedule::Replay(s) => s.next(),
            Schedule::Warm(w) => w.before.next(),
        }
    }

    /// The intended time of the next operation; `None` in a closed loop. [`Stamp::NEVER`]: there
    /// are no more.
    #[inline]
    pub fn peek(&self) -> Option<Stamp> {
        match self {
            Schedule::Burst => None,
            other => Some(Stamp(other.next())),
        }
    }

    /// Moves past the operation that [`Schedule::peek`] showed.
    #[inline(always)]
    pub fn advance(&mut self) {
        if !matches!(self, Schedule::Burst) {
            self.advance_open();
        }
    }

    fn advance_open(&mut self) {
        match self {
            Schedule::Burst => {}
            Schedule::Constant(s) => s.advance(),
            Schedule::Poisson(s) => s.advance(),
            Schedule::Bursts(s) => s.advance(),
            Schedule::Steps(s) => s.advance(),
            Schedule::Ramp(s) => s.advance(),
            Schedule::Replay(s) => s.advance(),
            Schedule::Warm(w) => {
                w.before.advance();
                self.leave_warmup();
            }
        }
    }

    /// How many operations are due up to `until` (exclusive), from the next one on; 0 in a closed loop.
    pub fn due(&mut self, until: Stamp) -> u64 {
        let until = until.0;
        match self {
            Schedule::Burst => 0,
            Schedule::Constant(s) => s.due(until),
            Schedule::Poisson(s) => s.due(until),
            Schedule::Bursts(s) => s.due(until),
            Schedule::Steps(s) => s.due(until),
            Schedule::Ramp(s) => s.due(until),
            Schedule::Replay(s) => s.due(until),
            Schedule::Warm(w) => w.before.due(Stamp(until.min(w.until))) + w.then.due(Stamp(until)),
        }
    }

    /// Leaves out everything before `until`, which is counted from the start of the load.
    fn skip(&mut self, until: i64) {
        match self {
            Schedule::Burst => {}
            Schedule::Constant(s) => s.skip(until),
            Schedule::Poisson(s) => s.skip(until),
            Schedule::Bursts(s) => s.skip(until),
            Schedule::Steps(s) => s.skip(until),
            Schedule::Ramp(s) => s.skip(until),
            Schedule::Replay(s) => s.skip(until),
            Schedule::Warm(w) => {
                w.before.skip(until.min(w.until));
                w.then.skip(until);
                self.leave_warmup();
            }
        }
    }
}
