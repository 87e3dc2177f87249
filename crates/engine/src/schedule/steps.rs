//! One constant rate after another; the last one stays.
//!
//! Operation i comes when the rate, added up over time, has reached i: `floor` of that moment. A
//! step begins at its edge to the nanosecond; what the step before left of an operation counts on.

use taillight_core::Result;
use taillight_core::plan::{RateStep, WorkloadPlan};

use super::constant::{Constant, Walk};
use super::rate::{CommonRate, Gap, owned};
use crate::generator::WorkerIndex;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RateSegment {
    start: i64,
    /// Work done before it.
    work: u128,
    /// Work a nanosecond.
    rate: u128,
}

/// One worker's instants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    segments: Vec<RateSegment>,
    /// Work of one operation.
    unit: u128,
    /// Number of the next operation in the workload, and from one of ours to the next.
    index: u64,
    stride: u64,
    /// The current segment, its end, and our instants in it.
    at: usize,
    end: i64,
    now: Constant,
}

impl Steps {
    /// The share of the worker at `place`. Errors: `Usage` for rates out of range.
    pub fn new(steps: &[RateStep], workload: &WorkloadPlan, place: WorkerIndex) -> Result<Steps> {
        let gaps = steps.iter().map(|s| Gap::of(s.rate, workload));
        let common = CommonRate::of(&gaps.collect::<Result<Vec<_>>>()?, workload)?;
        let (mut start, mut work) = (0i64, 0u128);
        let mut segments = Vec::with_capacity(steps.len());
        for (step, rate) in steps.iter().zip(&common.rates) {
            segments.push(RateSegment { start, work, rate: *rate });
            let time = i64::try_from(step.time.0).unwrap_or(i64::MAX);
            let next = start.saturating_add(time);
            work += rate * (next - start) as u128;
            start = next;
        }
        let mut steps = Steps {
            segments,
            unit: common.unit,
            index: u64::from(place.index),
            stride: u64::from(place.of.max(1)),
            at: 0,
            end: 0,
            now: Constant::walk(Walk { start: 0, first: 0, step: 1, over: 1 }),
        };
        steps.locate();
        Ok(steps)
    }

    /// The next instant, ns.
    #[inline]
    pub fn next(&self) -> i64 {
        self.now.next
    }

    /// Finds the segment of the next operation and computes its instant afresh.
    fn locate(&mut self) {
        let work = u128::from(self.index) * self.unit;
        while self.segments.get(self.at + 1).is_some_and(|next| next.work <= work) {
            self.at += 1;
        }
        let Some(segment) = self.segments.get(self.at) else {
            return;
        };
        let step = self.unit * u128::from(self.stride);
        let (start, first, over) = (segment.start, work - segment.work, segment.rate);
        self.now = Constant::walk(Walk { start, first, step, over });
        self.end = self.segments.get(self.at + 1).map_or(i64::MAX, |s| s.start);
    }

    /// Moves every instant by `ns`.
    pub fn shift(&mut self, ns: i64) {
        self.segments.iter_mut().for_each(|s| s.start += ns);
        self.now.shift(ns);
        self.end = self.end.saturating_add(ns);
    }

    /// Moves to the next instant.
    #[inline]
    pub fn advance(&mut self) {
        self.index += self.stride;
        self.now.advance();
        if self.now.next >= self.end {
            self.locate();
        }
    }

    /// Instants before `until`, from the next one on.
    pub fn due(&self, until: i64) -> u64 {
        let Some(segment) = self.segments.iter().rev().find(|s| s.start < until) else {
            return 0;
        };
        let work = segment.work + segment.rate * until.abs_diff(segment.start) as u128;
        owned(self.index, self.stride, work.div_ceil(self.unit) as u64)
    }

    /// Leaves out every instant before `until`.
    pub fn skip(&mut self, until: i64) {
        self.index += self.due(until) * self.stride;
        self.locate();
    }
}
