//! Finds for each figure of a run (rate, median, share above a latency) the one moment at which its level
//! changed by a factor of 1.25 or more, up or down, if there is one: when, from what to what. The error rate holds
//! over all figures looked at together. A slow drift is told as one step or not at all, and no second change is
//! looked for; changes between runs are in [`compare`](crate::compare::changes).
//!
//! Method. Every figure is events by what they are counted over: I/Os by time, I/Os above a level by I/Os,
//! in up to 64 slices of the run of one length (the last takes what is left). The split with the largest gain
//! in likelihood (of Poisson counts, so that a handful of events at the end weighs no more than it may) is held
//! against what slices vary by: the long-run variance of the rest after that split, from its eight lowest cosine
//! terms, and no less than that of independent slices, nor, of shares, of independent I/Os. Stalls that come
//! evenly would else make the lowest terms nothing. The threshold is from simulated series without a change.
//! What the method costs and finds: `docs/measurement.md`, A change inside a run.

use std::ops::Range;

use crate::compare::quantile;
use crate::grid::{cell_of, edge_of};
use crate::long_run::long_run_variance;
use crate::{Dist, TimeGrid};

/// Most slices, and fewest.
const SLICES: usize = 64;
const FEWEST_SLICES: usize = 16;
/// On either side of the best split lies at least one part in so many of the slices.
const LEAST_PART: usize = 16;
/// Cosine terms of the long-run variance.
const TERMS: usize = 8;
/// Smallest ratio of levels that is told, up or down.
pub const LEAST_CHANGE: f64 = 1.25;
/// The strongest split of a steady run lies above a limit as often as the largest of so many draws of Student's t
/// with so many degrees: fitted to simulated series without a change, of which neighbours correlate by 0.5 to 0.7, at
/// 2 to 0.2 %; of series that correlate by more, more lie above it. Test
/// `the_threshold_is_that_of_series_without_a_change`.
const DRAWS: f64 = 30.0;
const FREEDOM: f64 = 8.0;

/// A figure whose level is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LevelFigure {
    /// I/Os a second; meant for closed loops, as a schedule sets its own rate.
    Rate,
    /// The median latency, ns.
    Median,
    /// The share of I/Os that take longer than this, ns.
    ShareOver(u64),
}

/// One change of a level.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    pub figure: LevelFigure,
    /// The first column of the grid after it.
    pub column: usize,
    /// The level before: I/Os a second, ns, or a share of 1; a median within the grid's 0.8 %.
    pub before: f64,
    pub after: f64,
    /// The gain of the split, in standard deviations of what slices vary by.
    pub strength: f64,
}

/// I/Os of a part of a run, and those of them over a latency.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PartCounts {
    pub ios: u64,
    pub over: u64,
    /// Sum of their latencies, ns, within the grid's 0.8 %.
    pub time_ns: f64,
    /// The same of those over the latency.
    pub time_over_ns: f64,
}

impl PartCounts {
    /// Share of I/Os over the latency; none without I/Os.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.ios > 0).then(|| self.over as f64 / self.ios as f64)
    }

    /// Share of the time of all I/Os that those over the latency took; none where they took no time.
    #[must_use]
    pub fn time_share(&self) -> Option<f64> {
        (self.time_ns > 0.0).then(|| self.time_over_ns / self.time_ns)
    }
}

/// Looks for changes in the I/Os of a run over time.
#[derive(Debug, Clone, Copy)]
pub struct RunLevels<'a> {
    grid: &'a TimeGrid,
    dist: &'a Dist,
    /// Columns in which the load went on.
    columns: usize,
    /// Columns of a slice.
    width: usize,
}

impl<'a> RunLevels<'a> {
    /// Of a load of `load_ns` from the start of the grid. I/Os that completed later belong to the last slice of
    /// medians and shares, and to no rate.
    #[must_use]
    pub fn new(grid: &'a TimeGrid, dist: &'a Dist, load_ns: u64) -> RunLevels<'a> {
        let window = grid.window();
        let whole = usize::try_from(load_ns / window.column_ns).unwrap_or(usize::MAX);
        let columns = whole.min(window.columns);
        RunLevels { grid, dist, columns, width: columns.div_ceil(SLICES).max(1) }
    }

    /// The one change of each of these figures that has one, the strongest first; none of a load of fewer than 16
    /// columns. Of steady runs at most a share `alpha` has any, where neighbouring slices correlate by no more than
    /// 0.5.
    #[must_use]
    pub fn changes(&self, figures: &[LevelFigure], alpha: f64) -> Vec<ChangePoint> {
        let limit = limit(alpha / figures.len().max(1) as f64);
        let found = figures.iter().filter_map(|figure| self.change(*figure, limit));
        let mut found: Vec<ChangePoint> = found.collect();
        found.sort_by(|a, b| b.strength.total_cmp(&a.strength));
        found
    }

    /// Number of columns of the grid.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.grid.window().columns
    }

    fn slices(&self) -> usize {
        self.columns / self.width
    }

    fn change(&self, figure: LevelFigure, limit: f64) -> Option<ChangePoint> {
        let slices = self.slices();
        if slices < FEWEST_SLICES {
            return None;
        }
        let ios = self.grid.columns_from(0);
        let (fine, fine_over) = match figure {
            LevelFigure::Rate => {
                let seconds = self.grid.window().column_ns as f64 / 1e9;
                (ios[..slices * self.width].to_vec(), vec![seconds; slices * self.width])
            }
            LevelFigure::Median => {
                // Half of those that are as long as the median are above it.
                (self.above(self.median_cell(0..ios.len())?, 0.5), ios)
            }
            LevelFigure::ShareOver(ns) => (self.above(cell_of(ns), self.part_above(ns)), ios),
        };
        let (events, over) = (self.sliced(&fine), self.sliced(&fine_over));
        let least = slices.div_ceil(LEAST_PART);
        let split = BestSplit::of(&events, &over, least..slices - least + 1)?;
        let strength = split.strength(&events, &over, figure != LevelFigure::Rate);
        if strength <= limit {
            return None;
        }
        let near = (split.at - 1) * self.width + 1..(split.at + 1) * self.width;
        let split = BestSplit::of(&fine, &fine_over, near)?;
        let (column, end) = (split.at, self.columns());
        let median = |part: Range<usize>| self.median_cell(part).map(middle);
        let (before, after) = match figure {
            LevelFigure::Median => (median(0..column)?, median(column..end)?),
            _ => (split.before, split.after),
        };
        let enough = before.max(after) >= LEAST_CHANGE * before.min(after);
        enough.then_some(ChangePoint { figure, column, before, after, strength })
    }

    /// I/Os a second in these columns, as far as the load went on in them.
    #[must_use]
    pub fn rate(&self, columns: Range<usize>) -> f64 {
        let until = columns.end.min(self.columns);
        let within = columns.start.min(until)..until;
        let seconds = within.len() as f64 * self.grid.window().column_ns as f64 / 1e9;
        let ios: u64 = self.grid.cell_counts_in(within).iter().sum();
        if seconds > 0.0 { ios as f64 / seconds } else { 0.0 }
    }

    /// The I/Os of these columns, and those of them that took longer than `ns`. Over all columns the counts are
    /// exact; over some of them `over` may differ by I/Os in the grid's cell of 0.8 % around `ns`.
    #[must_use]
    pub fn part(&self, columns: Range<usize>, ns: u64) -> PartCounts {
        let (at, part) = (cell_of(ns), self.part_above(ns));
        let mut sums = PartCounts::default();
        let mut over = 0.0;
        for (cell, count) in self.grid.cell_counts_in(columns).into_iter().enumerate() {
            let above = match cell.cmp(&at) {
                std::cmp::Ordering::Less => 0.0,
                std::cmp::Ordering::Equal => part,
                std::cmp::Ordering::Greater => 1.0,
            } * count as f64;
            sums.ios += count;
            over += above;
            sums.time_ns += count as f64 * middle(cell);
            sums.time_over_ns += above * middle(cell);
        }
        PartCounts { over: over.round() as u64, ..sums }
    }

    /// The cell with the median of these columns; none without I/Os.
    fn median_cell(&self, columns: Range<usize>) -> Option<usize> {
        let counts = self.grid.cell_counts_in(columns);
        let half = counts.iter().sum::<u64>().div_ceil(2);
        let mut below = 0;
        let reaches = |count: &u64| {
            below += count;
            below >= half
        };
        counts.iter().position(reaches).filter(|_| half > 0)
    }

    /// Of the I/Os in the cell of a latency the share that takes longer.
    fn part_above(&self, ns: u64) -> f64 {
        let cell = cell_of(ns);
        let own: u64 = self.grid.row(cell).iter().map(|n| u64::from(*n)).sum();
        let above: f64 = self.grid.columns_from(cell + 1).iter().sum();
        let wanted = self.dist.count_above(ns) as f64 - above;
        if own > 0 { (wanted / own as f64).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// I/Os of each column above a cell, and of the cell this part.
    fn above(&self, cell: usize, part: f64) -> Vec<f64> {
        let mut sums = self.grid.columns_from(cell + 1);
        let own = self.grid.row(cell);
        sums.iter_mut().zip(own).for_each(|(sum, n)| *sum += part * f64::from(*n));
        sums
    }

    /// Columns summed to slices; those behind the last slice are added to it.
    fn sliced(&self, columns: &[f64]) -> Vec<f64> {
        let mut slices = vec![0.0; self.slices()];
        for (at, count) in columns.iter().enumerate() {
            slices[(at / self.width).min(self.slices() - 1)] += count;
        }
        slices
    }
}

/// The latency that stands for a cell, ns.
fn middle(cell: usize) -> f64 {
    (edge_of(cell) * edge_of(cell + 1)).sqrt()
}

/// What a steady run's strongest split exceeds in a share `alpha` of cases.
fn limit(alpha: f64) -> f64 {
    quantile(FREEDOM, 1.0 - alpha / (2.0 * DRAWS))
}

/// Where a series of counts falls apart best.
#[derive(Debug, Clone, Copy)]
struct BestSplit {
    at: usize,
    before: f64,
    after: f64,
    /// Log likelihood over that of one level.
    gained: f64,
}

impl BestSplit {
    /// The best of the places `at`; none where nothing was counted, or parts do not differ.
    fn of(events: &[f64], over: &[f64], at: Range<usize>) -> Option<BestSplit> {
        let (n, all): (f64, f64) = (events.iter().sum(), over.iter().sum());
        let rate = n / all;
        let gain = |n: f64, over: f64| if n > 0.0 { n * (n / (over * rate)).ln() } else { 0.0 };
        let mut first: f64 = events[..at.start].iter().sum();
        let mut first_over: f64 = over[..at.start].iter().sum();
        let mut best: Option<BestSplit> = None;
        for at in at {
            let (second, second_over) = (n - first, all - first_over);
            if first_over > 0.0 && second_over > 0.0 {
                let gained = gain(first, first_over) + gain(second, second_over);
                let (before, after) = (first / first_over, second / second_over);
                let it = BestSplit { at, before, after, gained };
                best = best.filter(|b| b.gained >= gained).or(Some(it));
            }
            first += events[at];
            first_over += over[at];
        }
        best.filter(|b| b.gained > 0.0)
    }

    /// The gain against what slices vary by, as a number of standard deviations. Of shares slices vary at least as
    /// if I/Os were independent; a closed loop's I/Os come more evenly.
    fn strength(&self, events: &[f64], over: &[f64], is_share: bool) -> f64 {
        let level = |i: usize| if i < self.at { self.before } else { self.after };
        let counts = events.iter().zip(over).enumerate();
        let rest: Vec<f64> = counts.map(|(i, (n, over))| n - over * level(i)).collect();
        let slices = events.len() as f64;
        let alone = rest.iter().map(|r| r * r).sum::<f64>() / slices;
        let (n, all): (f64, f64) = (events.iter().sum(), over.iter().sum());
        let mean = n / slices;
        // Of I/Os that are over a level or not: binomial.
        let independent = if is_share { mean * (1.0 - n / all).max(0.0) } else { 0.0 };
        let variance = long_run_variance(&rest, TERMS).max(alone).max(independent);
        (2.0 * self.gained * mean / variance).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TimeWindow;

    const SECOND: i64 = 1_000_000_000;

    /// A minute of a device at 1 ms that from some second on takes `times` as long, asked by one worker.
    fn run(from: i64, times: f64) -> (TimeGrid, Dist) {
        let mut grid = TimeGrid::new(TimeWindow::new(0, 60 * SECOND));
        let (mut at, mut state, mut all) = (0i64, 1u64, Vec::new());
        while at < 60 * SECOND {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let spread = 0.75 + (state >> 40) as f64 / (1u64 << 25) as f64;
            let ns = 1e6 * spread * if at >= from * SECOND { times } else { 1.0 };
            at += ns as i64;
            grid.push(at, ns as u64);
            all.push(ns as u64);
        }
        (grid, Dist::from_values(all))
    }

    const ALL: [LevelFigure; 3] =
        [LevelFigure::Rate, LevelFigure::Median, LevelFigure::ShareOver(2_000_000)];

    #[test]
    fn a_change_is_placed_and_measured() {
        let (grid, dist) = run(55, 3.0);
        let levels = RunLevels::new(&grid, &dist, 60 * SECOND as u64);
        let found = levels.changes(&ALL, 0.02);
        assert_eq!(found.len(), 3, "{found:?}");
        for it in &found {
            let at = it.column as f64 * grid.window().column_ns as f64 / 1e9;
            assert!((at - 55.0).abs() < 1.0, "{it:?} at {at}");
        }
        let of = |figure| found.iter().find(|c| c.figure == figure).expect("it changed");
        let (rate, median) = (of(LevelFigure::Rate), of(LevelFigure::Median));
        assert!((rate.before / rate.after - 3.0).abs() < 0.3, "{rate:?}");
        assert!((median.after / median.before - 3.0).abs() < 0.1, "{median:?}");
        let over = of(LevelFigure::ShareOver(2_000_000));
        assert!(over.before < 0.01 && over.after > 0.8, "{over:?}");
    }

    #[test]
    fn a_steady_run_and_a_tiny_change_have_none_and_a_larger_one_has() {
        for (from, times) in [(60, 1.0), (30, 1.15)] {
            let (grid, dist) = run(from, times);
            let found = RunLevels::new(&grid, &dist, 60 * SECOND as u64).changes(&ALL, 0.02);
            assert!(found.is_empty(), "{found:?}");
        }
        let (grid, dist) = run(30, 1.35);
        let found = RunLevels::new(&grid, &dist, 60 * SECOND as u64).changes(&ALL, 0.02);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    /// Latencies that all are one value have no I/O above their median.
    #[test]
    fn a_level_of_equal_latencies_changes_too() {
        for (before, after) in [(1_000u64, 500u64), (500, 1_000)] {
            let mut grid = TimeGrid::new(TimeWindow::new(0, 6_400));
            let ns = |at: i64| if at < 5_400 { before } else { after };
            (0..6_400).for_each(|at| grid.push(at, ns(at)));
            let dist: Dist = (0..6_400).map(ns).collect();
            let found = RunLevels::new(&grid, &dist, 6_400).changes(&[LevelFigure::Median], 0.02);
            let [it] = found[..] else { panic!("{found:?}") };
            let ratio = it.after / it.before * before as f64 / after as f64;
            assert!((ratio - 1.0).abs() < 0.02, "{it:?}");
        }
    }

    #[test]
    fn counts_of_parts_add_up_to_those_of_the_run() {
        let (grid, dist) = run(50, 2.0);
        let levels = RunLevels::new(&grid, &dist, 60 * SECOND as u64);
        for ns in [1_000_000, 1_500_000, 1_501_234, 2_400_000] {
            let columns = grid.window().columns;
            let last = columns - columns / 6..columns;
            let (early, late) = (levels.part(0..last.start, ns), levels.part(last, ns));
            assert_eq!(early.ios + late.ios, dist.count());
            assert!((early.over + late.over).abs_diff(dist.count_above(ns)) <= 1, "{ns}");
            let whole = levels.part(0..columns, ns);
            assert_eq!(whole.over, dist.count_above(ns));
            assert!((whole.time_ns / dist.sum() as f64 - 1.0).abs() < 0.004);
            let exact = dist.time_share_above(ns).expect("it took time");
            assert!((whole.time_share().expect("it took time") - exact).abs() < 0.004, "{ns}");
        }
    }

    /// What completes after the load has ended is no lower rate.
    #[test]
    fn a_drain_is_no_change_of_the_rate() {
        let (mut grid, dist) = (TimeGrid::new(TimeWindow::new(0, 80 * SECOND)), Dist::default());
        (0..60_000).for_each(|i| grid.push(i * SECOND / 1_000, 1_000_000));
        grid.push(79 * SECOND, 20_000_000_000);
        let rate = |load: i64| {
            RunLevels::new(&grid, &dist, load as u64).changes(&[LevelFigure::Rate], 0.02).len()
        };
        assert_eq!((rate(60 * SECOND), rate(80 * SECOND)), (0, 1));
    }

    /// One I/O in five seconds, ever so evenly: that a quarter of them were missing was no more than chance.
    #[test]
    fn a_slow_rate_changes_like_a_fast_one() {
        let mut grid =
            TimeGrid::new(TimeWindow { start_ns: 0, column_ns: 100_000_000_000, columns: 64 });
        (0..64).for_each(|i| grid.add(i * 100 * SECOND, 1_000_000, if i < 54 { 20 } else { 15 }));
        let dist = Dist::default();
        let levels = RunLevels::new(&grid, &dist, 6_400 * SECOND as u64);
        let found = levels.changes(&[LevelFigure::Rate], 0.02);
        assert!(matches!(found[..], [it] if it.column == 54), "{found:?}");
    }

    /// Too short for slices, or empty.
    #[test]
    fn what_cannot_be_told_is_not() {
        let window = TimeWindow { start_ns: 0, column_ns: 10, columns: 15 };
        let mut grid = TimeGrid::new(window);
        (0..15).for_each(|i| grid.add(i * 10, if i < 8 { 10 } else { 90 }, 1_000));
        let dist = Dist::default();
        assert!(RunLevels::new(&grid, &dist, 150).changes(&ALL, 0.02).is_empty());
        let empty = TimeGrid::new(TimeWindow::new(0, 64));
        assert!(RunLevels::new(&empty, &dist, 64).changes(&ALL, 0.02).is_empty());
        assert!(RunLevels::new(&TimeGrid::default(), &dist, 0).changes(&ALL, 0.02).is_empty());
    }

    /// Strengths of the best splits of `runs` series without a change whose neighbours correlate by `correlated`,
    /// sorted.
    fn strengths(slices: usize, correlated: f64, runs: usize) -> Vec<f64> {
        use rand::{RngExt, SeedableRng};
        let mut r = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(3);
        let mut normal = move || {
            let (a, b) = (1.0 - r.random::<f64>(), r.random::<f64>());
            (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
        };
        let least = slices.div_ceil(LEAST_PART);
        let mut strength = |_| {
            let mut level = normal();
            let events: Vec<f64> = (0..slices)
                .map(|_| {
                    level = correlated * level + (1.0 - correlated * correlated).sqrt() * normal();
                    1e6 + 2e4 * level
                })
                .collect();
            let over = vec![1.0; slices];
            let split = BestSplit::of(&events, &over, least..slices - least + 1);
            split.map_or(0.0, |split| split.strength(&events, &over, false))
        };
        let mut all: Vec<f64> = (0..runs).map(&mut strength).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn the_threshold_is_that_of_series_without_a_change() {
        const RUNS: usize = 20_000;
        for (slices, correlated) in
            [(64, 0.0), (64, 0.5), (64, 0.7), (64, 0.8), (16, 0.0), (16, 0.3)]
        {
            let found = strengths(slices, correlated, RUNS);
            for alpha in [0.02f64, 0.01, 0.005, 0.002] {
                let limit = limit(alpha);
                let above = found.iter().filter(|s| **s > limit).count() as f64 / RUNS as f64;
                let quantile = found[RUNS - (alpha * RUNS as f64) as usize];
                println!(
                    "{slices} {correlated} {alpha}: {quantile:.2}; above {limit:.2} {above:.4}"
                );
                let most = alpha + 3.0 * (alpha / RUNS as f64).sqrt();
                assert!(above < most || correlated > 0.6, "{slices} {correlated} {alpha}: {above}");
                assert!(
                    above > alpha / 4.0 || correlated < 0.4,
                    "{slices} {correlated} {alpha}: {above}"
                );
            }
        }
    }
}
