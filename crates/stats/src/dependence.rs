//! How much I/Os that depend on each other say about a percentile.
//!
//! What it is: the *design effect*: how many I/Os weigh as much as one independent I/O. In a queue
//! one burst of arrivals makes hundreds of I/Os late, and they say as much about the tail as one.
//! An interval from `n` I/Os is then as wide as one from `n / design effect` independent ones (Kish,
//! "Survey Sampling", 1965; Korn and Graubard, Survey Methodology 24, 1998). What it is not: a model
//! of what was measured. Used by [`Intervals`](crate::Intervals).
//!
//! Method. The I/Os above the percentile are counted in up to 256 slices of time. The design effect
//! is the power of that series at frequency zero over the power it would have were the I/Os
//! independent. The power at zero is the mean of the lowest cosine terms (Müller, Econometrica 75,
//! 2007; Lazarus, Lewis, Stock and Watson, JBES 36, 2018), as many of them as lie where the
//! spectrum is flat; how far it is flat, and what is missing at zero, is read from a fit of white
//! noise plus one relaxation time (Whittle likelihood) to the whole spectrum. Far out in the tail a
//! run shows few bursts, and a run without a large one looks as if there were none; so the design
//! effect there is the largest of those of shallower percentiles, down to one that holds enough
//! independent events. How uncertain the design effect itself is widens the
//! interval as Student's t does.
//!
//! What it cannot see: changes slower than about a third of the run, and changes within a cell of
//! the grid (0.5 to 0.8 % of the latency), which intervals are rounded to where that matters
//! (`DesignEffect::unseen`). Where the spectrum still rises at its lowest frequencies there is no interval,
//! and `DesignEffect::longer` says how much longer a run needs.
//!
//! The constants were set on queues, bursts, stalls and drifts; `docs/measurement.md` has the table
//! of coverage.

use std::collections::BTreeMap;
use std::f64::consts::PI;
use std::sync::{Mutex, PoisonError};

use statrs::distribution::{ContinuousCDF, StudentsT};
use taillight_core::Percentile;

use crate::grid::{TimeGrid, edge_of};

/// Independent events beyond a percentile from which its own design effect is used.
const EVENTS_FOR_OWN: f64 = 20.0;
/// How many times more I/Os the shallowest percentile holds that is looked at in any case.
const SEEN_TO: f64 = 16.0;
/// Fewest cosine terms that the power at frequency zero is taken from.
const FEWEST_TERMS: usize = 8;
/// Most of them: more would add little certainty.
const MOST_TERMS: usize = 64;
/// Fewest slices of time that say anything.
const FEWEST_SLICES: usize = 16;
/// How far above their mean the fit may be at zero for more terms to be taken.
const FLAT: f64 = 1.05;
/// How far it may be at the fewest terms for an interval to be given.
const STEEPEST: f64 = 3.0;
/// Gain in log likelihood from which a relaxation time is believed.
const BELIEVED: f64 = 0.5;
/// And from which it is certain enough to refuse an interval.
const CERTAIN: f64 = 3.5;
/// The estimate of the part above 1 is low by a sixth or so: the mean is taken from the same data.
const LOW_BY: f64 = 1.18;
/// Relative variance of the design effect times the independent events it rests on.
const VARIANCE_PER_EVENT: f64 = 2.0;

/// What dependence leaves of a number of I/Os.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DesignEffect {
    /// I/Os that weigh as much as one independent I/O, at least 1.
    pub design_effect: f64,
    /// By what the count is divided for intervals: the design effect and what its own uncertainty
    /// costs, at least 1.
    pub divisor: f64,
    /// Relative variance of the design effect that more I/Os do not lessen.
    pub(crate) variance: f64,
    /// And the part that they do, times their number.
    pub(crate) variance_ios: f64,
    /// Whether it is more than chance that the design effect is above 1.
    pub certain: bool,
    /// The latencies, ns, from and to (exclusive), between which the dependence was not seen: the
    /// grid has no finer cell there, and much of the I/Os is in it.
    pub unseen: Option<(u64, u64)>,
    /// None where an interval may be given. Else how many times longer a run has to be before
    /// I/Os at its begin and at its end say different things.
    pub longer: Option<f64>,
}

impl DesignEffect {
    /// I/Os that do not depend on each other.
    pub const NONE: DesignEffect = DesignEffect {
        design_effect: 1.0,
        divisor: 1.0,
        variance: 0.0,
        variance_ios: 0.0,
        certain: false,
        unseen: None,
        longer: None,
    };

    /// `n` I/Os of which so many weigh as much as one, known from so many cosine terms and events.
    fn new(n: f64, design_effect: f64, terms: f64, events: f64) -> DesignEffect {
        let variance_ios = VARIANCE_PER_EVENT * (1.0 - 1.0 / design_effect) / events.max(1e-9) * n;
        let variance = 2.0 / terms;
        let it = DesignEffect { design_effect, variance, variance_ios, ..DesignEffect::NONE };
        DesignEffect { divisor: it.divisor_at(n), ..it }
    }

    /// The divisor that a run of so many I/Os would have.
    fn divisor_at(&self, n: f64) -> f64 {
        let freedom = 2.0 / (self.variance + self.variance_ios / n.max(1.0));
        self.design_effect * widening(freedom).powi(2)
    }

    /// How many independent I/Os an interval takes `n` for, rounded down.
    #[must_use]
    pub fn independent(&self, n: u64) -> u64 {
        if self.divisor <= 1.0 { n } else { (n as f64 / self.divisor) as u64 }
    }

    /// How many such I/Os are needed to say as much as so many independent ones, rounded up, where
    /// so many were measured.
    #[must_use]
    pub fn needed(&self, independent: u64, measured: u64) -> u64 {
        let longer = self.longer.map_or(0, |times| (measured as f64 * times).ceil() as u64);
        self.as_dependent(independent).max(longer)
    }

    /// A longer run also knows its design effect better.
    fn as_dependent(&self, n: u64) -> u64 {
        if self.divisor <= 1.0 {
            return n;
        }
        let needed = n as f64;
        let (mut few, mut enough) = (needed, needed * self.divisor_at(needed));
        for _ in 0..60 {
            let middle = 0.5 * (few + enough);
            if middle / self.divisor_at(middle) < needed {
                few = middle;
            } else {
                enough = middle;
            }
        }
        enough.ceil() as u64
    }
}

/// The dependence within one set of I/Os.
#[derive(Debug, Default)]
pub struct Dependence {
    grid: TimeGrid,
    /// I/Os of each column.
    columns: Vec<f64>,
    /// I/Os of each cell.
    counts: Vec<u64>,
    total: u64,
    /// By cell: levels are asked for again and again.
    known: Mutex<BTreeMap<usize, LevelEffect>>,
}

/// Dependence of the I/Os above one level.
#[derive(Debug, Clone, Copy)]
struct LevelEffect {
    design_effect: f64,
    /// Degrees of freedom: cosine terms.
    terms: f64,
    longer: Option<f64>,
}

impl Dependence {
    #[must_use]
    pub fn new(grid: TimeGrid) -> Self {
        let (columns, counts) = (grid.columns_from(0), grid.cell_counts());
        let total = counts.iter().sum();
        Dependence { grid, columns, counts, total, known: Mutex::default() }
    }

    /// I/Os over time and latency.
    #[must_use]
    pub fn grid(&self) -> &TimeGrid {
        &self.grid
    }

    /// What is left of the I/Os for an interval of this percentile.
    #[must_use]
    pub(crate) fn effect(&self, pct: &Percentile) -> DesignEffect {
        let n = self.total as f64;
        let upper = pct.tail_share() <= 0.5;
        let rare = pct.tail_share().min(pct.share());
        if rare <= 0.0 {
            return DesignEffect::NONE;
        }
        let unseen = self.unseen(if upper { rare } else { 1.0 - rare });
        let own = self.level(rare, upper);
        let (mut it, mut share, mut events) = (own, rare, n * rare / own.design_effect);
        while share < 0.5 && (share < rare * SEEN_TO || events < EVENTS_FOR_OWN) {
            share = (2.0 * share).min(0.5);
            let shallower = self.level(share, upper);
            // The largest of several would be large by chance alone: less a part of its error.
            let likely = shallower.design_effect * (1.0 - 0.7 * (2.0 / shallower.terms).sqrt());
            if n * rare / likely < EVENTS_FOR_OWN && likely > it.design_effect {
                it = LevelEffect { design_effect: likely, ..shallower };
            }
            events = n * share / shallower.design_effect;
        }
        let excess = it.design_effect - 1.0;
        if excess <= 0.0 {
            return DesignEffect { longer: it.longer, unseen, ..DesignEffect::NONE };
        }
        let certain = excess > 3.0 * (2.0 / it.terms).sqrt();
        let events = n * rare / (1.0 - rare) / it.design_effect;
        let design_effect = 1.0 + excess * LOW_BY;
        let longer = it.longer;
        DesignEffect {
            longer,
            unseen,
            certain,
            ..DesignEffect::new(n, design_effect, it.terms, events)
        }
    }

    /// The level that the share `rare` of all I/Os is above, or, where not `upper`, below.
    fn level(&self, rare: f64, upper: bool) -> LevelEffect {
        let tail = if upper { rare } else { 1.0 - rare };
        let (cell, _) = self.edge(tail * self.total as f64);
        // A level is one plain value: a panic elsewhere leaves nothing half done.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        *known.entry(cell).or_insert_with(|| self.measure(cell))
    }

    /// The cell that holds the percentile with this share above it, when the nearest edge of cells
    /// is another percentile altogether.
    fn unseen(&self, tail: f64) -> Option<(u64, u64)> {
        let above = tail * self.total as f64;
        let (_, off) = self.edge(above);
        if off <= 0.5 * above.min(self.total as f64 - above) {
            return None;
        }
        let mut left = self.total as f64;
        let cell = self.counts.iter().position(|here| {
            left -= *here as f64;
            left < above || left <= 0.0
        })?;
        Some((edge_of(cell) as u64, edge_of(cell + 1) as u64))
    }

    /// The cell whose lower edge comes nearest to having so many I/Os at or above it, some but not
    /// all, and how many it is off.
    fn edge(&self, above: f64) -> (usize, f64) {
        let mut best = (f64::INFINITY, 0);
        let mut count = self.total;
        for (cell, here) in self.counts.iter().enumerate().filter(|(_, c)| **c > 0) {
            let off = (count as f64 - above).abs();
            if count < self.total && off < best.0 {
                best = (off, cell);
            }
            count -= here;
        }
        (best.1, best.0)
    }

    fn measure(&self, cell: usize) -> LevelEffect {
        let none = LevelEffect { design_effect: 1.0, terms: MOST_TERMS as f64, longer: None };
        let above = self.grid.columns_from(cell);
        let (total, hits) = (self.columns.iter().sum::<f64>(), above.iter().sum::<f64>());
        if cell == 0 || hits <= 0.0 || hits >= total {
            // Nothing varies.
            return none;
        }
        // Time without I/Os says nothing: a workload that ended early is not steadier for it.
        let share = hits / total;
        let busy = above.iter().zip(&self.columns).filter(|(_, n)| **n > 0.0);
        let series: Vec<f64> = busy.map(|(e, n)| e - share * n).collect();
        if series.len() < FEWEST_SLICES {
            let longer = Some(FEWEST_SLICES as f64 / series.len() as f64);
            return LevelEffect { longer, ..none };
        }
        let spectrum = Spectrum::of(&series);
        let independent = total * share * (1.0 - share) / series.len() as f64;
        spectrum.effect(independent)
    }
}

/// Squares of the cosine terms of a series, lowest frequency first; each has the mean of the power
/// there.
struct Spectrum {
    power: Vec<f64>,
}

/// White noise plus one relaxation: `white + slow / (1 + (j / corner)^2)` at term `j`.
#[derive(Clone, Copy)]
struct Fit {
    white: f64,
    slow: f64,
    corner: f64,
    /// Log likelihood above that of white noise alone.
    gain: f64,
}

impl Fit {
    fn at(&self, j: usize) -> f64 {
        self.white + self.slow / (1.0 + (j as f64 / self.corner).powi(2))
    }
}

impl Spectrum {
    fn of(series: &[f64]) -> Spectrum {
        let n = series.len();
        let term = |j: usize| {
            let step = PI * j as f64 / n as f64;
            // cos((i + 1/2) step) by the Chebyshev recurrence: no cosine per slice.
            let (mut now, mut next, twice) =
                ((0.5 * step).cos(), (1.5 * step).cos(), 2.0 * step.cos());
            let mut sum = 0.0;
            for value in series {
                sum += value * now;
                (now, next) = (next, twice * next - now);
            }
            2.0 / n as f64 * sum * sum
        };
        Spectrum { power: (1..=n / 2).map(term).collect() }
    }

    fn effect(&self, independent: f64) -> LevelEffect {
        let fit = self.fit();
        let zero = fit.white + fit.slow;
        let fewest = FEWEST_TERMS.min(self.power.len());
        let (mut terms, mut rise, mut sum) = (fewest, 1.0, 0.0);
        let mut flat_terms = 0;
        for j in 1..=self.most_terms() {
            sum += fit.at(j);
            let above = zero * j as f64 / sum;
            if above <= STEEPEST {
                flat_terms = j;
            }
            if above <= FLAT || j <= fewest {
                (terms, rise) = (j, above);
            }
        }
        let mean = self.power[..terms].iter().sum::<f64>() / terms as f64;
        let steep = rise > STEEPEST && fit.gain >= CERTAIN;
        let longer = steep.then(|| 1.5 * fewest as f64 / flat_terms.max(1) as f64);
        LevelEffect {
            design_effect: (mean * rise.min(4.0).powf(1.5) / independent).max(1.0),
            terms: (terms as f64 / rise.powi(2)).max(3.0),
            longer,
        }
    }

    /// Terms below the first rise towards higher frequencies: what comes and goes regularly has its
    /// power at its own frequency, and none of it at zero.
    fn most_terms(&self) -> usize {
        let most = MOST_TERMS.min(self.power.len());
        let mut terms = FEWEST_TERMS;
        while 2 * terms <= most {
            let low: f64 = self.power[..terms].iter().sum();
            let next: f64 = self.power[terms..2 * terms].iter().sum();
            if next > 2.5 * low {
                return terms;
            }
            terms *= 2;
        }
        most
    }

    /// The most likely of a grid of corners and strengths, the scale of each being known.
    fn fit(&self) -> Fit {
        let n = self.power.len() as f64;
        let mean = self.power.iter().sum::<f64>() / n;
        let white = Fit { white: mean, slow: 0.0, corner: 1.0, gain: 0.0 };
        let flat = n * (1.0 + mean.ln());
        let mut best = white;
        let mut corner = 2.0;
        while corner < 2.0 * n {
            let shape: Vec<f64> =
                (1..=self.power.len()).map(|j| 1.0 / (1.0 + (j as f64 / corner).powi(2))).collect();
            for ratio in (0..12).map(|i| 0.25 * f64::from(1 << i)) {
                let scale = self.power.iter().zip(&shape).map(|(p, s)| p / (1.0 + ratio * s));
                let scale = scale.sum::<f64>() / n;
                // The logarithm of a product of some factors, not a sum of logarithms.
                let logs: f64 = shape
                    .chunks(8)
                    .map(|c| c.iter().map(|s| 1.0 + ratio * s).product::<f64>().ln())
                    .sum();
                let gain = flat - n * (1.0 + scale.ln()) - logs;
                if gain > best.gain {
                    best = Fit { white: scale, slow: scale * ratio, corner, gain };
                }
            }
            corner *= 1.5;
        }
        if best.gain < BELIEVED || !best.gain.is_finite() { white } else { best }
    }
}

/// Two-sided 95 % quantile of the normal distribution.
const NORMAL: f64 = 1.959_963_984_540_054;

/// By what Student's t widens a two-sided 95 % interval, at least 1.
fn widening(freedom: f64) -> f64 {
    let t = StudentsT::new(0.0, 1.0, freedom.clamp(1.0, 1e6));
    t.map_or(1.0, |t| t.inverse_cdf(0.975) / NORMAL).max(1.0)
}
