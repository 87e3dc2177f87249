//! How much I/Os that depend on each other say about a share of them: the *design effect*, the number of
//! I/Os that weigh as much as one independent I/O. In a queue one burst of arrivals makes hundreds of
//! I/Os late, and they say as much about the tail as one. An interval from `n` I/Os is then as wide as
//! one from `n / design effect` independent ones (Kish, "Survey Sampling", 1965; Korn and Graubard,
//! Survey Methodology 24, 1998).
//!
//! Method. The I/Os above a latency are counted in up to 256 slices of time; their share is a ratio, so
//! that a slow phase of a closed loop weighs as many I/Os as it has. The design effect is the power at
//! frequency zero of what the slices are off that share, over the power it would have were the I/Os
//! independent. The power at zero is the mean of the 8 lowest cosine terms (Müller, Econometrica 75, 2007;
//! Lazarus, Lewis, Stock and Watson, JBES 36, 2018), of 16 where those 8 are no more than 1.3 times (`FLAT`) as high as the
//! next 16; how uncertain so few terms leave it widens the interval as Student's t does at the error asked for.
//!
//! Few events have no variance that could be estimated. The end of an interval that lies away from zero
//! rests there on how many separate clusters of slices hold the rarer I/Os and how large the largest is (the
//! weights of Fay and Feuer, Statistics in Medicine 16, 1997), and with fewer than ten to twenty clusters
//! on the size of those of a shallower percentile as well. The other end needs none of this: a run that
//! saw a cluster knows that there are some.
//!
//! What the method cannot see: levels that wander more slowly than an eighth of the run, tails so heavy that the next
//! event is larger than all so far, and what happens once a run. The constants were set on one family of
//! loads; `docs/measurement.md` has what they do on others.

use std::sync::{LazyLock, OnceLock};

use crate::compare::quantile;
use crate::confidence::{ONE_SIDED, TWO_SIDED};
use crate::grid::{TimeGrid, edge_of};
use crate::long_run::cosines;

/// Cosine terms that the power at frequency zero is the mean of.
const TERMS: usize = 8;
/// Degrees of freedom that an interval of a percentile rests on at least, in runs of 16 slices with I/Os and more:
/// what to take where the interval alone is known.
pub const FEWEST_TERMS: f64 = TERMS as f64;
/// And where the spectrum is flat up to [`LOOKED_AT`] terms.
const FLAT_TERMS: usize = 16;
const LOOKED_AT: usize = 24;
/// How far the lowest terms may be above the next for the spectrum to be flat.
const FLAT: f64 = 1.3;
/// Fewest slices of time that say anything.
const FEWEST_SLICES: usize = 4;
/// Share of slices with rare I/Os up to which neighbours among them are one cluster: beyond, chance
/// joins them, and there are many.
const SPARSE: f64 = 0.2;
/// The same where so few slices have any that chance joins few of them.
const CROWDED: f64 = 0.5;
/// Separate events below which only a shallower percentile says how large they are, and from which it is
/// not asked.
const FEW: f64 = 10.0;
const ENOUGH: f64 = 20.0;

/// A share of cases in which an end of an interval may err, and by what Student's t of so many terms widens it
/// then: the smaller the error, the more.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ErrorShare {
    pub share: f64,
    /// By number of terms, from none up.
    widening: [f64; FLAT_TERMS + 1],
}

impl ErrorShare {
    pub fn of(share: f64) -> ErrorShare {
        let normal = quantile(f64::INFINITY, 1.0 - share);
        let widening = |terms: usize| (quantile(terms as f64, 1.0 - share) / normal).max(1.0);
        ErrorShare { share, widening: std::array::from_fn(widening) }
    }

    /// That of a two-sided 95 % interval.
    pub fn two_sided() -> &'static ErrorShare {
        static IT: LazyLock<ErrorShare> = LazyLock::new(|| ErrorShare::of(TWO_SIDED));
        &IT
    }

    /// That of a 95 % bound on one side.
    pub fn one_sided() -> &'static ErrorShare {
        static IT: LazyLock<ErrorShare> = LazyLock::new(|| ErrorShare::of(ONE_SIDED));
        &IT
    }

    fn widening(&self, terms: usize) -> f64 {
        self.widening.get(terms).copied().unwrap_or(1.0)
    }
}

/// What dependence leaves of a number of I/Os at one latency.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct DesignEffect {
    /// I/Os that weigh as much as one independent I/O, at least 1.
    pub design_effect: f64,
    /// Cosine terms that it is known from; [`KNOWN`] where there is nothing to estimate.
    terms: usize,
    /// The least that counts are divided by for the end of an interval of the rarer share that lies away
    /// from zero, at least 1: what the number and size of clusters say.
    floor: f64,
    /// Whether it is more than chance that the design effect is above 1.
    pub certain: bool,
}

/// Terms of what is known without any.
const KNOWN: usize = usize::MAX;

impl DesignEffect {
    /// I/Os that do not depend on each other.
    pub const NONE: DesignEffect =
        DesignEffect { design_effect: 1.0, terms: KNOWN, floor: 1.0, certain: false };

    #[cfg(test)]
    pub fn known_from(terms: usize, design_effect: f64) -> DesignEffect {
        DesignEffect { design_effect, terms, ..DesignEffect::NONE }
    }

    /// The larger of each, from the fewer terms.
    pub fn or_more(self, other: DesignEffect) -> DesignEffect {
        DesignEffect {
            design_effect: self.design_effect.max(other.design_effect),
            terms: self.terms.min(other.terms),
            floor: self.floor.max(other.floor),
            certain: self.certain || other.certain,
        }
    }

    /// By what counts are divided for the end of an interval of the rarer share that lies towards zero.
    pub fn near(&self, error: &ErrorShare) -> f64 {
        self.design_effect * error.widening(self.terms).powi(2)
    }

    /// The same for the end away from zero.
    pub fn far(&self, error: &ErrorShare) -> f64 {
        self.near(error).max(self.floor)
    }
}

/// The dependence within one set of I/Os.
#[derive(Debug, Default)]
pub struct Dependence {
    grid: TimeGrid,
    levels: OnceLock<Vec<LevelEffect>>,
}

/// The I/Os at or above the lower edge of a cell of the grid.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LevelEffect {
    /// The lower edge, ns; of the last level one that no I/O reaches.
    pub edge_ns: u64,
    pub effect: DesignEffect,
}

impl Dependence {
    #[must_use]
    pub fn new(grid: TimeGrid) -> Self {
        Dependence { grid, levels: OnceLock::new() }
    }

    /// I/Os over time and latency.
    #[must_use]
    pub fn grid(&self) -> &TimeGrid {
        &self.grid
    }

    /// How many times longer a run must be to say how far its I/Os depend on each other; none where it
    /// does, or where nothing is known of times, so that I/Os are taken for independent.
    pub(crate) fn longer(&self) -> Option<f64> {
        let slices = self.grid.columns_from(0).iter().filter(|n| **n > 0.0).count();
        (1..FEWEST_SLICES).contains(&slices).then(|| FEWEST_SLICES as f64 / slices as f64)
    }

    /// Every level of the grid that I/Os lie between, rising, with one beyond the last I/O. Empty without I/Os.
    pub(crate) fn levels(&self) -> &[LevelEffect] {
        self.levels.get_or_init(|| LevelSums::of(&self.grid).levels())
    }
}

/// The sums over time of every level.
struct LevelSums {
    /// All I/Os.
    total: f64,
    /// By level, from the lowest edge up.
    levels: Vec<LevelSum>,
}

/// What is known of one level from its own I/Os.
struct LevelSum {
    cell: usize,
    /// Share of the I/Os above.
    share: f64,
    /// I/Os above, or below where those are fewer.
    rare_ios: f64,
    design_effect: f64,
    terms: usize,
    clusters: Clusters,
}

/// Runs of neighbouring slices that hold I/Os of the rarer side.
#[derive(Default)]
struct Clusters {
    number: f64,
    /// Slices in them, and of all slices.
    slices: f64,
    occupied: f64,
    ios: f64,
    squares: f64,
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

    fn are_sparse(&self) -> bool {
        self.occupied < SPARSE || self.slices < ENOUGH && self.occupied < CROWDED
    }

    /// The size that an event counts with: one more of the largest than were seen.
    fn size(&self) -> f64 {
        if self.ios <= 0.0 {
            return 1.0;
        }
        (self.squares + self.largest * self.largest) / (self.ios + self.largest)
    }
}

impl LevelSum {
    /// Of the I/Os above the cell's lower edge by slice, with `power[j]` the square of cosine term `j`
    /// over what independent I/Os would have.
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

    /// Whether the I/Os above are the rarer ones.
    fn is_upper(&self) -> bool {
        self.share <= 0.5
    }

    /// Separate events that the level is known from: clusters, or more than need be counted.
    fn events(&self) -> f64 {
        if self.clusters.are_sparse() { self.clusters.number } else { f64::INFINITY }
    }

    /// How many I/Os an event of the level holds.
    fn size(&self) -> f64 {
        if self.clusters.are_sparse() { self.clusters.size() } else { self.design_effect }
    }
}

impl LevelSums {
    fn of(grid: &TimeGrid) -> LevelSums {
        let columns = grid.columns_from(0);
        let busy: Vec<usize> = (0..columns.len()).filter(|i| columns[*i] > 0.0).collect();
        // Time without I/Os says nothing: a workload that ended early is not steadier for it.
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

    /// The size of events at the first level with enough of them, each of twice the share; else the
    /// largest of those levels.
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
