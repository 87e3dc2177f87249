//! The *design effect*: how many I/Os that depend on each other weigh as much as one independent I/O. In a queue one
//! burst of arrivals makes hundreds of I/Os late, and they say as much about the tail as one. For the share of I/Os
//! above a latency, `n` dependent I/Os give the interval of `n / design effect` independent I/Os (Kish, "Survey
//! Sampling", 1965; Korn and Graubard, Survey Methodology 24, 1998). `estimate` and `ceiling` make such intervals of
//! percentiles and shares.
//!
//! Method. I/Os are counted in up to 256 slices of time. A slice's deviation is its I/Os above the latency, minus all
//! its I/Os times the overall share: a slow phase of a closed loop weighs as many I/Os as it has. The design effect is
//! the spectral power of the deviations at frequency zero, divided by the power that independent I/Os would have. The
//! power at zero is the mean over the 8 lowest cosine terms (Müller, Econometrica 75, 2007; Lazarus, Lewis, Stock and
//! Watson, JBES 36, 2018), over 16 where the spectrum is flat (`FLAT`), and over half as many as there are slices with
//! I/Os where these are fewer than 16. The terms are the degrees of freedom of the estimate: the quantile of Student's
//! t widens the interval accordingly.
//!
//! Few events have no variance that could be estimated. Look at the share of the rarer side: the I/Os above the
//! latency, or those below it where they are fewer. The upper end of its interval is then at least as far from zero as
//! clusters put it, neighbouring slices with such I/Os: by their number and their sizes (the weights of Fay and Feuer,
//! Statistics in Medicine 16, 1997), and with fewer than 20 clusters by the sizes at a shallower percentile, too. The
//! lower end needs none of this: a run that saw a cluster knows that there are some.
//!
//! Intervals are too narrow for levels that wander more slowly than an eighth of the run (they show in the lowest terms
//! alone, and the mean of 8 terms dilutes these), for tails so heavy that the next event is larger than all so far, and
//! for events that come once or twice a run: a run that saw none knows of none. The constants were set on one family of
//! loads; `docs/measurement.md` has what they do on others.

use std::sync::{LazyLock, OnceLock};

use crate::compare::quantile;
use crate::confidence::{ONE_SIDED, TWO_SIDED};
use crate::grid::{TimeGrid, edge_of};
use crate::long_run::cosines;

/// Cosine terms whose mean is the power at frequency zero.
const TERMS: usize = 8;
/// Degrees of freedom of the intervals of percentiles, at least, in runs with I/Os in 16 slices or more. For callers
/// that know an interval and not what it was made of.
pub const FEWEST_TERMS: f64 = TERMS as f64;
/// The number in place of `TERMS` where the spectrum is flat.
const FLAT_TERMS: usize = 16;
/// Cosine terms that tell whether the spectrum is flat.
const LOOKED_AT: usize = 24;
/// The spectrum is flat where the mean of the lowest `TERMS` is at most so many times the mean of the others looked at.
const FLAT: f64 = 1.3;
/// Fewest slices with I/Os from which dependence can be told: with fewer there are no intervals.
const FEWEST_SLICES: usize = 4;
/// Clusters are counted where less than this share of the slices holds rarer I/Os. In a larger share, neighbouring
/// slices hold them by chance, and there are enough of them for a variance.
const SPARSE: f64 = 0.2;
/// The same where fewer than `ENOUGH` slices hold rarer I/Os: chance makes few of these neighbours.
const CROWDED: f64 = 0.5;
/// Up to so many clusters, the size of events at a shallower percentile counts in full, where it is larger.
const FEW: f64 = 10.0;
/// From so many clusters on, that size does not count. In between, its weight falls linearly (in a geometric mean).
const ENOUGH: f64 = 20.0;

/// The error probability of one end of an interval, and how much estimates from few terms widen it: by the quantile of
/// Student's t, relative to that of the normal distribution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorShare {
    pub share: f64,
    /// The factor, at least 1, by number of terms (degrees of freedom), from 0 to `FLAT_TERMS`; 1 for `KNOWN`.
    widening: [f64; FLAT_TERMS + 1],
}

impl ErrorShare {
    pub fn of(share: f64) -> ErrorShare {
        let normal = quantile(f64::INFINITY, 1.0 - share);
        let widening = |terms: usize| (quantile(terms as f64, 1.0 - share) / normal).max(1.0);
        ErrorShare { share, widening: std::array::from_fn(widening) }
    }

    /// 2.5 %: each end of a two-sided 95 % interval.
    pub fn two_sided() -> &'static ErrorShare {
        static IT: LazyLock<ErrorShare> = LazyLock::new(|| ErrorShare::of(TWO_SIDED));
        &IT
    }

    /// 5 %: a one-sided 95 % bound.
    pub fn one_sided() -> &'static ErrorShare {
        static IT: LazyLock<ErrorShare> = LazyLock::new(|| ErrorShare::of(ONE_SIDED));
        &IT
    }

    fn widening(&self, terms: usize) -> f64 {
        self.widening.get(terms).copied().unwrap_or(1.0)
    }
}

/// What the counts of I/Os above a latency are divided by, as the I/Os depend on each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DesignEffect {
    /// I/Os that weigh as much as one independent I/O, at least 1.
    pub design_effect: f64,
    /// Cosine terms that the design effect was estimated from; [`KNOWN`] where there was nothing to estimate.
    terms: usize,
    /// The least divisor in `far`, at least 1: from the number and sizes of clusters.
    floor: f64,
    /// Whether the design effect is above 1 by more than three standard errors of an estimate of 1 from so many terms.
    pub certain: bool,
}

/// Number of terms where nothing was estimated: nothing widens the interval.
const KNOWN: usize = usize::MAX;

impl DesignEffect {
    /// I/Os that do not depend on each other.
    pub const NONE: DesignEffect =
        DesignEffect { design_effect: 1.0, terms: KNOWN, floor: 1.0, certain: false };

    #[cfg(test)]
    pub fn known_from(terms: usize, design_effect: f64) -> DesignEffect {
        DesignEffect { design_effect, terms, ..DesignEffect::NONE }
    }

    /// The more cautious of both in each number.
    pub fn or_more(self, other: DesignEffect) -> DesignEffect {
        DesignEffect {
            design_effect: self.design_effect.max(other.design_effect),
            terms: self.terms.min(other.terms),
            floor: self.floor.max(other.floor),
            certain: self.certain || other.certain,
        }
    }

    /// What counts are divided by for the lower end of an interval of the rarer side's share, the end near zero.
    pub fn near(&self, error: &ErrorShare) -> f64 {
        self.design_effect * error.widening(self.terms).powi(2)
    }

    /// The same for the upper end, away from zero. An upper bound of a percentile above the median is such an end: of
    /// the share above it; a lower bound of a percentile below the median is one of the share below it.
    pub fn far(&self, error: &ErrorShare) -> f64 {
        self.near(error).max(self.floor)
    }
}

/// How far the I/Os of one set depend on each other, by latency. `Intervals` and `check_ceiling` use it.
#[derive(Debug, Default)]
pub struct Dependence {
    grid: TimeGrid,
    levels: OnceLock<Vec<LevelEffect>>,
}

/// A latency, the lower edge of a cell of the grid, with the effect for the share of I/Os at or above it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LevelEffect {
    /// The latency, ns; that of the last level is one that no I/O reaches.
    pub edge_ns: u64,
    pub effect: DesignEffect,
}

impl Dependence {
    #[must_use]
    pub fn new(grid: TimeGrid) -> Self {
        Dependence { grid, levels: OnceLock::new() }
    }

    /// The counts of I/Os over time and latency.
    #[must_use]
    pub fn grid(&self) -> &TimeGrid {
        &self.grid
    }

    /// How many times longer the run must be for `FEWEST_SLICES` slices with I/Os. None where it has them, and where
    /// the grid is empty: nothing is known of times then, and I/Os are taken for independent.
    pub(crate) fn longer(&self) -> Option<f64> {
        let slices = self.grid.columns_from(0).iter().filter(|n| **n > 0.0).count();
        (1..FEWEST_SLICES).contains(&slices).then(|| FEWEST_SLICES as f64 / slices as f64)
    }

    /// The levels, rising: one for each cell that holds I/Os, and one above all I/Os. Empty without I/Os. Where
    /// `longer` is given, they say too little for an interval.
    pub(crate) fn levels(&self) -> &[LevelEffect] {
        self.levels.get_or_init(|| LevelSums::of(&self.grid).levels())
    }
}

/// What the slices of time say of every level.
struct LevelSums {
    /// All I/Os.
    total: f64,
    /// From the lowest level up.
    levels: Vec<LevelSum>,
}

/// What is known of one level, without looking at others. "Above" is at or above its edge.
struct LevelSum {
    cell: usize,
    /// Share of the I/Os above, among all.
    share: f64,
    /// I/Os of the rarer side: those above, or those below where they are fewer.
    rare_ios: f64,
    design_effect: f64,
    terms: usize,
    clusters: Clusters,
}

/// Clusters at a level: each is an unbroken row of slices that hold I/Os of the rarer side.
#[derive(Default)]
struct Clusters {
    number: f64,
    /// Slices in clusters.
    slices: f64,
    /// The same as a share of the slices with I/Os.
    occupied: f64,
    /// I/Os of the rarer side, all of which are in clusters.
    ios: f64,
    /// Sum of the squares of the clusters' sizes; a size is a number of such I/Os.
    squares: f64,
    /// Size of the largest cluster.
    largest: f64,
}

impl Clusters {
    fn of(slices: impl Iterator<Item = f64>) -> Clusters {
        let (mut it, mut here, mut all) = (Clusters::default(), 0.0, 0.0);
        for ios in slices.chain([0.0]) {
            all += 1.0;
            if ios > 0.0 {
                it.slices += 1.0;
                here += ios;
            } else if here > 0.0 {
                it.number += 1.0;
                it.ios += here;
                it.squares += here * here;
                it.largest = it.largest.max(here);
                here = 0.0;
            }
        }
        it.occupied = it.slices / f64::max(all - 1.0, 1.0);
        it
    }

    /// Whether clusters are separate events that can be counted (`SPARSE`, `CROWDED`).
    fn are_sparse(&self) -> bool {
        self.occupied < SPARSE || self.slices < ENOUGH && self.occupied < CROWDED
    }

    /// The mean size of a cluster, weighted by size, as if there were one more of the largest.
    fn size(&self) -> f64 {
        if self.ios <= 0.0 {
            return 1.0;
        }
        (self.squares + self.largest * self.largest) / (self.ios + self.largest)
    }
}

impl LevelSum {
    /// The level at the cell's lower edge. `above` and `totals` are the I/Os above it and all I/Os, by slice;
    /// `power[j]` is the square of cosine term `j` of the deviations, over its expectation for independent I/Os.
    fn new(cell: usize, above: &[f64], totals: &[f64], power: &[f64]) -> LevelSum {
        let (hits, total): (f64, f64) = (above.iter().sum(), totals.iter().sum());
        let share = hits / total;
        let rare = above.iter().zip(totals).map(|(a, n)| if share <= 0.5 { *a } else { n - a });
        let mean = |terms: &[f64]| terms.iter().sum::<f64>() / terms.len() as f64;
        let flat = power.len() >= LOOKED_AT
            && mean(&power[..TERMS]) <= FLAT * mean(&power[TERMS..LOOKED_AT]);
        let terms = if flat { FLAT_TERMS } else { TERMS.min(power.len()) };
        let varies = hits > 0.0 && hits < total && terms > 0;
        LevelSum {
            cell,
            share,
            rare_ios: hits.min(total - hits),
            design_effect: if varies { mean(&power[..terms]).max(1.0) } else { 1.0 },
            terms: if varies { terms } else { KNOWN },
            clusters: Clusters::of(rare),
        }
    }

    /// Whether the I/Os above are the rarer side.
    fn is_upper(&self) -> bool {
        self.share <= 0.5
    }

    /// Number of separate events: clusters where they can be counted, else more than enough.
    fn events(&self) -> f64 {
        if self.clusters.are_sparse() { self.clusters.number } else { f64::INFINITY }
    }

    /// I/Os of the rarer side in an event.
    fn size(&self) -> f64 {
        if self.clusters.are_sparse() { self.clusters.size() } else { self.design_effect }
    }
}

impl LevelSums {
    fn of(grid: &TimeGrid) -> LevelSums {
        let columns = grid.columns_from(0);
        let busy: Vec<usize> = (0..columns.len()).filter(|i| columns[*i] > 0.0).collect();
        // Slices without I/Os are left out: a workload that ended early is not steadier for it.
        let totals: Vec<f64> = busy.iter().map(|i| columns[*i]).collect();
        let total: f64 = totals.iter().sum();
        let cosines = cosines(totals.len(), LOOKED_AT.min(totals.len() / 2));
        let terms = |slices: &[f64]| -> Vec<f64> {
            cosines.iter().map(|c| c.iter().zip(slices).map(|(c, n)| c * n).sum()).collect()
        };
        let whole = terms(&totals);
        let (mut above, mut sums) = (vec![0.0; totals.len()], vec![0.0; whole.len()]);
        let mut levels = vec![LevelSum::new(grid.cells(), &above, &totals, &sums)];
        for cell in (0..grid.cells()).rev().filter(|cell| !grid.row(*cell).is_empty()) {
            let row: Vec<f64> = busy.iter().map(|i| f64::from(grid.row(cell)[*i])).collect();
            above.iter_mut().zip(&row).for_each(|(sum, count)| *sum += count);
            sums.iter_mut().zip(terms(&row)).for_each(|(sum, term)| *sum += term);
            let share = above.iter().sum::<f64>() / total;
            let independent = total * share * (1.0 - share);
            let power = sums.iter().zip(&whole);
            let power: Vec<f64> =
                power.map(|(of, all)| 2.0 * (of - share * all).powi(2) / independent).collect();
            levels.push(LevelSum::new(cell, &above, &totals, &power));
        }
        levels.reverse();
        LevelSums { total, levels }
    }

    fn levels(&self) -> Vec<LevelEffect> {
        if self.total <= 0.0 {
            return Vec::new();
        }
        let level = |at: usize| LevelEffect {
            edge_ns: match self.levels[at].cell {
                0 => 0,
                cell => edge_of(cell) as u64,
            },
            effect: self.effect(at),
        };
        (0..self.levels.len()).map(level).collect()
    }

    /// The effect at a level: its own, with a larger floor where clusters are few and larger at a shallower level.
    fn effect(&self, at: usize) -> DesignEffect {
        let it = &self.levels[at];
        let sparse = it.clusters.are_sparse();
        let own = DesignEffect {
            design_effect: it.design_effect,
            terms: it.terms,
            floor: if sparse { it.clusters.size() } else { 1.0 },
            certain: it.design_effect - 1.0 > 3.0 * (2.0 / it.terms as f64).sqrt(),
        };
        let (events, far) = (it.events(), own.far(ErrorShare::two_sided()));
        let mut floor = own.floor;
        if events < ENOUGH
            && let Some(size) = self.size_of_shallower(at).filter(|size| *size > far)
        {
            let weight = ((ENOUGH - events) / (ENOUGH - FEW)).min(1.0);
            floor = (weight * size.ln() + (1.0 - weight) * far.ln()).exp();
        }
        DesignEffect { floor, ..own }
    }

    /// The size of events at shallower levels: each has twice the share of the rarer side of the one before, up to one
    /// half. The first with `FEW` events or more decides; else it is the largest size among them.
    fn size_of_shallower(&self, at: usize) -> Option<f64> {
        let it = &self.levels[at];
        let mut share = it.rare_ios.max(1.0) / self.total;
        let mut largest = None;
        loop {
            share = (2.0 * share).min(0.5);
            let shallower = match it.is_upper() {
                true => self.levels.partition_point(|level| level.share >= share).checked_sub(1)?,
                false => self.levels.partition_point(|level| 1.0 - level.share < share),
            };
            let shallower = self.levels.get(shallower)?;
            if shallower.rare_ios > 0.0 {
                if shallower.events() >= FEW {
                    return Some(shallower.size());
                }
                largest = Some(shallower.size().max(largest.unwrap_or(1.0)));
            }
            if share >= 0.5 {
                return largest;
            }
        }
    }
}
