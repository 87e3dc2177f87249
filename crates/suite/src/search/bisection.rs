//! Which demand of a search to measure next: the highest one that stays under a ceiling.
//!
//! The search brackets the answer between the highest point that passed and the lowest that counts as failed,
//! halves the bracket (at its geometric mean), and measures the answer a second time before it gives it.
//! `judge` gives the verdict on each probe, and how many more I/Os an undecided one lacks.
//!
//! An undecided point is measured again for longer, at most [`LONGEST`] times the usual time, where that may
//! decide it; else it counts as failed, but for the lower end of the range, which a higher point that passes
//! speaks for. An answer that fails its second measurement becomes the upper end of the bracket. No point is
//! looked at more than [`LOOKS`] times, the second measurement included: that is how many looks share the
//! error of one.

use taillight_rundir::search::{ProbePurpose, ProbeVerdict, SearchOutcome};

/// Looks at one demand at most, the one that verifies it included. Each has the same part of the error.
pub const LOOKS: u32 = 4;
/// Most that a probe is prolonged.
pub const LONGEST: u32 = 8;
/// Answers given up before the search ends without one that holds.
const MOST_REFUTED: usize = 3;
/// Probes looked ahead at most.
const MOST_LEFT: u32 = 100;
/// What an undecided probe is prolonged by when no length is known that decides it.
const AT_THE_CEILING: u32 = 4;
/// Room for the few I/Os that may exceed the ceiling in a longer probe.
const ROOM: f64 = 1.25;

/// Which values exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueScale {
    /// Any positive value, shown with as many digits as the precision needs.
    Continuous,
    Whole,
}

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchRange {
    /// Lowest value worth an answer.
    pub from: f64,
    /// Highest value tried; above `from`.
    pub to: f64,
    /// Ends when the bracket is this share of its lower end, 0 to 1.
    pub precision: f64,
    pub scale: ValueScale,
}

/// A point to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeRequest {
    pub value: f64,
    /// Times the usual length.
    pub longer: u32,
    pub purpose: ProbePurpose,
    /// Whether the point was measured before, so that new random draws are due.
    pub again: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum SearchStep {
    /// Measure a point, then [`Bisection::tell`].
    Probe(ProbeRequest),
    Done(SearchEnd),
}

/// How a search ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SearchEnd {
    pub outcome: SearchOutcome,
    /// The demand that passed twice.
    pub value: Option<f64>,
    /// The lowest demand above it that counts as failed; none at the top of the range.
    pub above: Option<f64>,
}

/// What a probe said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judgement {
    pub verdict: ProbeVerdict,
    /// Of an undecided probe: the I/Os that would pass if not one more were over the ceiling, over those it
    /// had. Fewer cannot pass.
    pub lacks: f64,
    /// The I/Os that would decide it if the share over the ceiling stayed what it is, over those it had;
    /// infinite where none would.
    pub decides: f64,
}

/// A probe that was made.
#[derive(Debug, Clone, Copy, PartialEq)]
struct JudgedProbe {
    request: ProbeRequest,
    judgement: Judgement,
}

/// The state of a search: the range and what was measured so far.
#[derive(Debug, Clone)]
pub struct Bisection {
    range: SearchRange,
    probes: Vec<JudgedProbe>,
}

impl Bisection {
    /// Nothing measured yet. `from` must be positive and below `to`.
    pub fn new(range: SearchRange) -> Bisection {
        Bisection { range, probes: Vec::new() }
    }

    /// The verdict on what [`Bisection::next`] asked for.
    pub fn tell(&mut self, request: ProbeRequest, judgement: Judgement) {
        self.probes.push(JudgedProbe { request, judgement });
    }

    /// What to do now.
    pub fn next(&self) -> SearchStep {
        if let Some(longer) = self.longer() {
            return SearchStep::Probe(longer);
        }
        let SearchRange { from, to, .. } = self.range;
        if !self.tried(from) {
            return self.first(from, ProbePurpose::Lowest);
        }
        if self.last(from).is_some_and(|v| v == ProbeVerdict::Fail) {
            return without_answer(match self.passed(from) {
                0 => SearchOutcome::NothingPasses,
                _ => SearchOutcome::Undecided,
            });
        }
        if !self.tried(to) {
            return self.first(to, ProbePurpose::Highest);
        }
        let above = self.lowest_failed();
        let below = self.highest_passed(above).unwrap_or(from);
        if let Some(above) = above
            && let Some(value) = self.between(below, above)
        {
            return self.first(value, ProbePurpose::Between);
        }
        match self.passed(below) {
            0 => without_answer(SearchOutcome::Undecided),
            // The lower end may have passed and not been verified.
            1 if self.last(below) != Some(ProbeVerdict::Pass) => {
                without_answer(SearchOutcome::Undecided)
            }
            1 if self.refuted() >= MOST_REFUTED => without_answer(SearchOutcome::Undecided),
            1 => SearchStep::Probe(ProbeRequest {
                value: below,
                longer: self.longest(below),
                purpose: ProbePurpose::Verify,
                again: true,
            }),
            _ => SearchStep::Done(SearchEnd {
                outcome: match above {
                    Some(_) => SearchOutcome::Found,
                    None => SearchOutcome::TopOfRange,
                },
                value: Some(below),
                above,
            }),
        }
    }

    /// Probes still to come, and their lengths together: if each is decided at its first look, the upper end fails, and
    /// the answer holds.
    pub fn left(&self) -> (u32, u32) {
        let (mut rest, mut probes, mut lengths) = (self.clone(), 0, 0);
        while let SearchStep::Probe(request) = rest.next()
            && probes < MOST_LEFT
        {
            let verdict = match request.purpose {
                ProbePurpose::Highest => ProbeVerdict::Fail,
                _ => ProbeVerdict::Pass,
            };
            rest.tell(request, Judgement { verdict, lacks: 1.0, decides: 1.0 });
            (probes, lengths) = (probes + 1, lengths + request.longer);
        }
        (probes, lengths)
    }

    /// Whether an undecided point will not be measured again, so that it counts as failed.
    pub fn gives_up(&self, request: ProbeRequest, judgement: Judgement) -> bool {
        judgement.verdict == ProbeVerdict::Undecided
            && prolonged(request.longer, judgement, self.looks_left(request.value)).is_none()
    }

    fn first(&self, value: f64, purpose: ProbePurpose) -> SearchStep {
        SearchStep::Probe(ProbeRequest { value, longer: 1, purpose, again: false })
    }

    /// The last probe again, if it was undecided and more time may decide it.
    fn longer(&self) -> Option<ProbeRequest> {
        let last = self.probes.last()?;
        let looks_left = self.looks_left(last.request.value);
        Some(ProbeRequest {
            longer: prolonged(last.request.longer, last.judgement, looks_left)?,
            purpose: ProbePurpose::Longer,
            again: true,
            ..last.request
        })
    }

    fn of(&self, value: f64) -> impl DoubleEndedIterator<Item = &JudgedProbe> {
        self.probes.iter().filter(move |m| m.request.value == value)
    }
    fn tried(&self, value: f64) -> bool {
        self.of(value).next().is_some()
    }
    fn last(&self, value: f64) -> Option<ProbeVerdict> {
        self.of(value).next_back().map(|m| m.judgement.verdict)
    }
    fn passed(&self, value: f64) -> usize {
        let all = self.of(value);
        all.filter(|m| m.judgement.verdict == ProbeVerdict::Pass).count()
    }
    fn longest(&self, value: f64) -> u32 {
        self.of(value).map(|m| m.request.longer).max().unwrap_or(1)
    }

    /// Looks that a point may still get before it has to be left undecided: one is kept for verifying it.
    fn looks_left(&self, value: f64) -> u32 {
        let kept = u32::from(self.passed(value) == 0);
        let had = u32::try_from(self.of(value).count()).unwrap_or(u32::MAX);
        (LOOKS - kept).saturating_sub(had)
    }

    /// Points that passed once and did not hold.
    fn refuted(&self) -> usize {
        let held = |m: &&JudgedProbe| {
            m.judgement.verdict == ProbeVerdict::Pass
                && self.last(m.request.value) != Some(ProbeVerdict::Pass)
        };
        self.probes.iter().filter(held).count()
    }

    /// The lowest point whose last word is not a pass. The lower end of the range is the floor of
    /// every bracket: while it is undecided, a higher point that passes speaks for it.
    fn lowest_failed(&self) -> Option<f64> {
        let values = self.probes.iter().map(|m| m.request.value);
        values
            .filter(|v| *v != self.range.from && self.last(*v) != Some(ProbeVerdict::Pass))
            .min_by(f64::total_cmp)
    }

    fn highest_passed(&self, below: Option<f64>) -> Option<f64> {
        let values = self.probes.iter().map(|m| m.request.value);
        values
            .filter(|v| below.is_none_or(|b| *v < b) && self.last(*v) == Some(ProbeVerdict::Pass))
            .max_by(f64::total_cmp)
    }

    /// The point that halves a bracket; none when it is narrow enough.
    fn between(&self, lo: f64, hi: f64) -> Option<f64> {
        let closest = match self.range.scale {
            ValueScale::Whole => 1.0,
            ValueScale::Continuous => 0.0,
        };
        if hi - lo <= (lo * self.range.precision).max(closest) {
            return None;
        }
        let middle = (lo * hi).sqrt();
        let value = match self.range.scale {
            ValueScale::Whole => middle.round().clamp(lo + 1.0, hi - 1.0),
            ValueScale::Continuous => tidy(middle, self.range.precision),
        };
        (lo < value && value < hi).then_some(value)
    }
}

fn without_answer(outcome: SearchOutcome) -> SearchStep {
    SearchStep::Done(SearchEnd { outcome, value: None, above: None })
}

/// How long an undecided probe is to be next time; none when that is longer than allowed, or no look is left.
fn prolonged(longer: u32, judgement: Judgement, looks_left: u32) -> Option<u32> {
    let Judgement { verdict, lacks, decides } = judgement;
    let most = f64::from(LONGEST) / f64::from(longer);
    let may = verdict == ProbeVerdict::Undecided && looks_left > 0 && longer < LONGEST;
    if !may || lacks > most {
        return None;
    }
    // The last look sees all that a probe may.
    if looks_left == 1 {
        return Some(LONGEST);
    }
    let times = match decides <= most {
        true => decides * ROOM,
        false => f64::from(AT_THE_CEILING),
    };
    // At least one more, at most the longest; both are small.
    let wanted = (f64::from(longer) * times.max(lacks * ROOM)).ceil() as u32;
    Some(wanted.max(longer + 1).min(LONGEST))
}

/// Rounded to the digits that the precision can tell apart, and one more.
fn tidy(value: f64, precision: f64) -> f64 {
    let digits = (-precision.log10()).ceil().max(0.0) + 2.0;
    let step = 10f64.powf(value.log10().floor() - digits + 1.0);
    // Steps below one are divided by, so that the result has no binary tail.
    if step < 1.0 {
        let parts = (1.0 / step).round();
        (value * parts).round() / parts
    } else {
        (value / step).round() * step.round()
    }
}

#[cfg(test)]
#[path = "bisection_tests.rs"]
mod tests;
