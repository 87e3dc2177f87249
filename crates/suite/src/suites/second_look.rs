//! A second look at a setting: a longer run where the first leaves its ceilings open. Here is decided whether
//! there is one, how long it is, and which of both runs answers.
//!
//! All looks of a suite share the error of one (`qos.looks`), and the second rests on its own I/Os: those of
//! the first have led to it.

use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::units::Span;
use taillight_rundir::Summary;
use taillight_rundir::summary::QosStatus;

use super::answers::{self, Answering};
use super::loops::load_ns;
use super::matrix_method::{MatrixMethod, RunPart};
use crate::method::{Point, PointResult};

/// A second run is so many times as long as would just decide: that length is an estimate.
const ROOM: f64 = 3.0;

/// The longest second run of a plan, where both runs of it may take `within`, warm-ups included; none where it has
/// no ceilings, does not end by time, or leaves no room for a second run of its own length.
pub(super) fn longest(plan: &Plan, within: Option<Span>) -> Option<Span> {
    let (run, first) = (&plan.run, load_ns(plan)?);
    let taken = u64::try_from(first).ok()?.saturating_add(run.warmup.0);
    let left = within?.0.checked_sub(taken)?;
    (!plan.qos.ceilings.is_empty() && left >= run.duration?.0).then_some(Span(left))
}

/// Whether a first run leaves ceilings open: it measured all it was to, leaves one undecided and misses none.
pub(super) fn is_open(first: &PointResult) -> bool {
    let Some(summary) = first.summary.as_ref().filter(|_| first.complete()) else { return false };
    let has = |status| answers::statuses(summary).any(|s| s == status);
    let sound = matches!(first.exit, Exit::Ok | Exit::GateUndecided);
    sound && has(QosStatus::Undecided) && !has(QosStatus::Fail)
}

/// How long the second run is: what the first says it takes, with room; at least as long as the first, at
/// most `longest`. Where only the end of the first speaks against it, that is as long as the first.
pub(super) fn length(first: &Summary, duration: Span, longest: Span) -> Span {
    let times = |q: &taillight_rundir::summary::Qos| match (q.ends_missing, q.decides_at, q.count) {
        (true, ..) => 1.0,
        (_, Some(needed), Some(count)) if count > 0 => ROOM * needed as f64 / count as f64,
        _ => f64::INFINITY,
    };
    let open = first.qos.iter().filter(|q| q.among_all() == QosStatus::Undecided);
    let most = open.map(times).fold(1.0, f64::max);
    let seconds = (duration.0 as f64 * most / 1e9).ceil();
    // A number beyond u64 becomes its largest.
    Span(((seconds * 1e9) as u64).clamp(duration.0, longest.0))
}

impl MatrixMethod {
    /// The result that a second look is at; none before it is there.
    pub(super) fn first_look<'a>(
        &self,
        second: &Point,
        done: &'a [PointResult],
    ) -> Option<&'a PointResult> {
        let before = self.places.get(&second.id)?.checked_sub(1)?;
        done.iter().find(|r| r.point.id == self.points[before].point.id)
    }

    /// Which runs answer for the ceilings: the last whole look at each setting.
    pub(super) fn answering<'a>(&self, done: &'a [PointResult]) -> Answering<'a> {
        let whole = |r: &&PointResult| r.complete() && r.summary.is_some();
        let second =
            |r: &&PointResult| self.planned(r).is_some_and(|p| p.part == RunPart::SecondLook);
        let (seconds, mut runs): (Vec<&PointResult>, Vec<&PointResult>) =
            done.iter().partition(second);
        let mut looks = Vec::new();
        for second in seconds.into_iter().filter(whole) {
            let Some(first) = self.first_look(&second.point, done) else { continue };
            let Some(place) = runs.iter().position(|r| std::ptr::eq(*r, first)) else { continue };
            runs[place] = second;
            if looks.is_empty() {
                looks = vec![first, second];
            }
        }
        Answering { runs, looks, whole: self.following(done).is_none() }
    }

    /// A second look, as long as the first one says.
    pub(super) fn second_look(&self, planned: &Point, done: &[PointResult]) -> Point {
        let mut point = planned.clone();
        let first = self.first_look(planned, done);
        let summary = first.and_then(|r| r.summary.as_ref());
        let duration = first.and_then(|r| r.point.plan.run.duration);
        if let (Some(summary), Some(first), Some(most)) =
            (summary, duration, point.plan.run.duration)
        {
            point.plan.run.duration = Some(length(summary, first, most));
        }
        point
    }
}
