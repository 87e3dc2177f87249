//! A heat map that grows: counts on a grid of time and log latency, over the whole run.
//!
//! Before there are more columns than a chart has room for, neighbours are added and each stands for twice
//! the time: nothing that was counted is lost.

use std::collections::BTreeMap;

use taillight_stats::grid::{cell_of, edge_of};

/// Most columns; even, so that two become one.
const COLUMNS: usize = 240;
/// Most rows of a picture; cells of latency are added up to fit.
const ROWS: usize = 84;

/// Main latencies of one operation of a workload over the measure phase.
#[derive(Debug, Clone)]
pub struct GrowingHeat {
    column_ns: u64,
    /// Counts by cell of latency.
    columns: Vec<BTreeMap<usize, u64>>,
}

impl GrowingHeat {
    /// Columns of `column_ns` at first.
    pub fn new(column_ns: u64) -> GrowingHeat {
        GrowingHeat { column_ns: column_ns.max(1), columns: Vec::new() }
    }

    /// Adds latencies (value in ns, and count) at `at_ns` since the start of the measure phase.
    pub fn add(&mut self, at_ns: u64, values: impl Iterator<Item = (u64, u64)>) {
        while at_ns / self.column_ns >= COLUMNS as u64 {
            self.halve();
        }
        let column = (at_ns / self.column_ns) as usize;
        if self.columns.len() <= column {
            self.columns.resize(column + 1, BTreeMap::new());
        }
        for (ns, count) in values {
            *self.columns[column].entry(cell_of(ns)).or_default() += count;
        }
    }

    fn halve(&mut self) {
        self.column_ns *= 2;
        let columns = std::mem::take(&mut self.columns);
        for pair in columns.chunks(2) {
            let mut sum = pair[0].clone();
            for (cell, count) in pair.get(1).into_iter().flatten() {
                *sum.entry(*cell).or_default() += count;
            }
            self.columns.push(sum);
        }
    }

    /// Edges of columns in seconds, edges of rows in ns, counts by row; all empty without I/Os.
    pub fn picture(&self) -> (Vec<f64>, Vec<f64>, Vec<Vec<u64>>) {
        let cells = || self.columns.iter().flat_map(|c| c.keys().copied());
        let (Some(first), Some(last)) = (cells().min(), cells().max()) else {
            return (Vec::new(), Vec::new(), Vec::new());
        };
        let each = (last - first + 1).div_ceil(ROWS);
        let (mut edges, mut counts) = (Vec::new(), Vec::new());
        for low in (first..=last).step_by(each) {
            let row = self.columns.iter().map(|c| c.range(low..low + each).map(|(_, n)| n).sum());
            counts.push(row.collect());
            edges.push(edge_of(low));
        }
        edges.push(edge_of(last + 1));
        let times = 0..=self.columns.len();
        (times.map(|c| c as f64 * self.column_ns as f64 / 1e9).collect(), edges, counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_run_keeps_every_count_in_few_columns() {
        let mut heat = GrowingHeat::new(1_000_000_000);
        for second in 0..10_000u64 {
            heat.add(second * 1_000_000_000, [(1_000 + second, 3), (9_000_000, 1)].into_iter());
        }
        let (times, edges, counts) = heat.picture();
        assert!(times.len() <= COLUMNS + 1 && times.len() > COLUMNS / 2, "{}", times.len());
        assert_eq!(times.last().map(|t| t.round()), Some(10_048.0));
        assert_eq!(edges.len(), counts.len() + 1);
        assert!(counts.len() <= ROWS);
        assert_eq!(counts.iter().flatten().sum::<u64>(), 40_000);
    }
}
