//! The highest demand whose response time stays under a ceiling: which point to measure next.
//!
//! What it is: a bisection that knows only verdicts. It brackets the answer between the highest
//! point that passed and the lowest that counts as failed, halves the bracket (geometrically, so
//! that every step gives the same relative precision), and measures the answer a second time
//! before it gives it. What it is not: the ceiling check (see `taillight_stats::ceiling`) or the
//! runs. Called by `taillight run` for a job with `[search]`.
//!
//! An undecided point is measured again for longer, at most [`LONGEST`] times the usual time; what
//! is undecided then counts as failed, so that an answer never rests on a point that may miss the
//! ceiling. An answer that fails its second measurement becomes the upper end of the bracket.

/// Most that a probe is prolonged.
pub const LONGEST: u32 = 8;
/// Answers given up before the search ends without one that holds.
const MOST_REFUTED: usize = 3;
/// What an undecided probe is prolonged by when its count was large enough: it lies at the ceiling.
const AT_THE_CEILING: u32 = 4;
/// Room for the few I/Os that may exceed the ceiling in a longer probe.
const ROOM: f64 = 1.25;

/// Which values exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Any positive value, shown with as many digits as the precision needs.
    Continuous,
    Whole,
}

/// What is searched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// Lowest value worth an answer.
    pub from: f64,
    /// Highest value tried; above `from`.
    pub to: f64,
    /// Ends when the bracket is this share of its lower end, 0 to 1.
    pub precision: f64,
    pub scale: Scale,
}

/// What one probe said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Verdict {
    /// Under the ceiling with confidence.
    Pass,
    /// Over it with confidence, or the demand was not met.
    Fail,
    /// Too few I/Os to say. `lacks`: the I/Os the check needs at least over those it had.
    Undecided {
        /// At or below 1 when the count would suffice and the percentile lies at the ceiling.
        lacks: f64,
    },
}

/// Why a point is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The lower end of the range.
    Lowest,
    /// The upper end of the range.
    Highest,
    Between,
    /// The last probe was undecided: the same point for longer.
    Longer,
    /// Measures the answer again.
    Verify,
}

/// A point to measure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ask {
    pub value: f64,
    /// Times the usual length.
    pub longer: u32,
    pub purpose: Purpose,
    /// Whether the point was measured before, so that new random draws are due.
    pub again: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Step {
    /// Measure a point, then [`Search::tell`].
    Probe(Ask),
    Done(Outcome),
}

/// How a search ends.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Outcome {
    /// `value` passed twice and `above`, within the precision, counts as failed.
    Found {
        value: f64,
        /// The lowest point that counts as failed.
        above: f64,
    },
    /// The upper end passed twice: the true answer may lie above the range.
    TopOfRange { value: f64 },
    /// The lower end fails.
    NothingPasses,
    /// Neither: the lower end could not be decided, or no answer passed a second time.
    Undecided,
}

/// A probe that was made.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Made {
    ask: Ask,
    verdict: Verdict,
}

/// The state of a search: the range and what was measured so far.
#[derive(Debug, Clone)]
pub struct Search {
    range: Range,
    made: Vec<Made>,
}

impl Search {
    /// Nothing measured yet. `from` must be positive and below `to`.
    pub fn new(range: Range) -> Search {
        Search {
            range,
            made: Vec::new(),
        }
    }

    /// The verdict on what [`Search::next`] asked for.
    pub fn tell(&mut self, ask: Ask, verdict: Verdict) {
        self.made.push(Made { ask, verdict });
    }

    /// What to do now.
    pub fn next(&self) -> Step {
        if let Some(longer) = self.longer() {
            return Step::Probe(longer);
        }
        let Range { from, to, .. } = self.range;
        if !self.tried(from) {
            return self.first(from, Purpose::Lowest);
        }
        if self.last(from).is_some_and(|v| v == Verdict::Fail) {
            return Step::Done(match self.passed(from) {
                0 => Outcome::NothingPasses,
                _ => Outcome::Undecided,
            });
        }
        if !self.tried(to) {
            return self.first(to, Purpose::Highest);
        }
        let above = self.lowest_failed();
        let below = self.highest_passed(above).unwrap_or(from);
        if let Some(above) = above
            && let Some(value) = self.between(below, above)
        {
            return self.first(value, Purpose::Between);
        }
        match self.passed(below) {
            0 => Step::Done(Outcome::Undecided),
            1 if self.refuted() >= MOST_REFUTED => Step::Done(Outcome::Undecided),
            1 => Step::Probe(Ask {
                value: below,
                longer: self.longest(below),
                purpose: Purpose::Verify,
                again: true,
            }),
            _ => Step::Done(match above {
                Some(above) => Outcome::Found {
                    value: below,
                    above,
                },
                None => Outcome::TopOfRange { value: below },
            }),
        }
    }

    /// Whether an undecided point will not be measured again, so that it counts as failed.
    pub fn gives_up(&self, ask: Ask, verdict: Verdict) -> bool {
        matches!(verdict, Verdict::Undecided { .. }) && prolonged(ask.longer, verdict).is_none()
    }

    fn first(&self, value: f64, purpose: Purpose) -> Step {
        Step::Probe(Ask {
            value,
            longer: 1,
            purpose,
            again: false,
        })
    }

    /// The last probe again, if it was undecided and more time may decide it.
    fn longer(&self) -> Option<Ask> {
        let last = self.made.last()?;
        Some(Ask {
            longer: prolonged(last.ask.longer, last.verdict)?,
            purpose: Purpose::Longer,
            again: true,
            ..last.ask
        })
    }

    fn of(&self, value: f64) -> impl DoubleEndedIterator<Item = &Made> {
        self.made.iter().filter(move |m| m.ask.value == value)
    }
    fn tried(&self, value: f64) -> bool {
        self.of(value).next().is_some()
    }
    fn last(&self, value: f64) -> Option<Verdict> {
        self.of(value).next_back().map(|m| m.verdict)
    }
    fn passed(&self, value: f64) -> usize {
        let all = self.of(value);
        all.filter(|m| m.verdict == Verdict::Pass).count()
    }
    fn longest(&self, value: f64) -> u32 {
        self.of(value).map(|m| m.ask.longer).max().unwrap_or(1)
    }

    /// Points that passed once and did not hold.
    fn refuted(&self) -> usize {
        let held =
            |m: &&Made| m.verdict == Verdict::Pass && self.last(m.ask.value) != Some(Verdict::Pass);
        self.made.iter().filter(held).count()
    }

    /// The lowest point whose last word is not a pass. The lower end of the range is the floor of
    /// every bracket: while it is undecided, a higher point that passes speaks for it.
    fn lowest_failed(&self) -> Option<f64> {
        let values = self.made.iter().map(|m| m.ask.value);
        values
            .filter(|v| *v != self.range.from && self.last(*v) != Some(Verdict::Pass))
            .min_by(f64::total_cmp)
    }

    fn highest_passed(&self, below: Option<f64>) -> Option<f64> {
        let values = self.made.iter().map(|m| m.ask.value);
        values
            .filter(|v| below.is_none_or(|b| *v < b) && self.last(*v) == Some(Verdict::Pass))
            .max_by(f64::total_cmp)
    }

    /// The point that halves a bracket; none when it is narrow enough.
    fn between(&self, lo: f64, hi: f64) -> Option<f64> {
        let closest = match self.range.scale {
            Scale::Whole => 1.0,
            Scale::Continuous => 0.0,
        };
        if hi - lo <= (lo * self.range.precision).max(closest) {
            return None;
        }
        let middle = (lo * hi).sqrt();
        let value = match self.range.scale {
            Scale::Whole => middle.round().clamp(lo + 1.0, hi - 1.0),
            Scale::Continuous => tidy(middle, self.range.precision),
        };
        (lo < value && value < hi).then_some(value)
    }
}

/// How long an undecided probe is to be next time; none when that is longer than allowed.
fn prolonged(longer: u32, verdict: Verdict) -> Option<u32> {
    let Verdict::Undecided { lacks } = verdict else {
        return None;
    };
    if longer >= LONGEST {
        return None;
    }
    if lacks <= 1.0 {
        return Some((longer * AT_THE_CEILING).min(LONGEST));
    }
    let wanted = f64::from(longer) * lacks;
    if wanted > f64::from(LONGEST) {
        return None;
    }
    // At least one more, at most the longest; both are small.
    let wanted = (wanted * ROOM).ceil() as u32;
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
mod tests;
