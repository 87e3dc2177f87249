//! I/Os counted over time and latency, on a grid of bounded size: the counts behind heat maps, changes within a
//! run ([`RunLevels`](crate::RunLevels)) and the dependence of I/Os ([`Dependence`](crate::Dependence)).
//!
//! Latency cells are 1 ns wide below 128 ns, above that a 128th of a power of two (0.4 to 0.8 % of the
//! latency). A cell that some I/O fell into has a row of up to [`COLUMNS`] 32-bit counts: 1 KiB. A count stops
//! at the largest 32-bit number. Exact percentiles come from [`Dist`](crate::Dist).

use std::ops::Range;

/// Most columns of a grid.
pub const COLUMNS: usize = 256;
/// Cells per power of two, as a power of two.
const FINE: u32 = 7;
/// Cells over all 64 bits.
pub const CELLS: usize = (64 - FINE as usize + 1) << FINE;

/// The time a grid spans, in columns of equal length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeWindow {
    /// Start, as a stamp in nanoseconds.
    pub start_ns: i64,
    /// Width of a column, ns, at least 1.
    pub column_ns: u64,
    /// Columns, at most [`COLUMNS`].
    pub columns: usize,
}

impl TimeWindow {
    /// Even columns over `start..end`.
    #[must_use]
    pub fn new(start_ns: i64, end_ns: i64) -> TimeWindow {
        let span = end_ns.saturating_sub(start_ns).max(1) as u64;
        let column_ns = span.div_ceil(COLUMNS as u64).max(1);
        TimeWindow { start_ns, column_ns, columns: span.div_ceil(column_ns) as usize }
    }

    /// The whole span, ns.
    #[must_use]
    pub fn span_ns(&self) -> u64 {
        self.column_ns.saturating_mul(self.columns as u64)
    }

    /// The column of a stamp; what lies outside is in the first or the last.
    #[must_use]
    pub fn column(&self, at_ns: i64) -> usize {
        let since = at_ns.saturating_sub(self.start_ns).max(0) as u64;
        ((since / self.column_ns) as usize).min(self.columns - 1)
    }
}

impl Default for TimeWindow {
    fn default() -> Self {
        TimeWindow { start_ns: 0, column_ns: 1, columns: 1 }
    }
}

/// Counts by latency cell and column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeGrid {
    window: TimeWindow,
    /// One entry per cell, up to the last used; empty until an I/O falls into it.
    rows: Vec<Vec<u32>>,
}

impl TimeGrid {
    #[must_use]
    pub fn new(window: TimeWindow) -> Self {
        TimeGrid { window, rows: Vec::new() }
    }

    #[must_use]
    pub fn window(&self) -> TimeWindow {
        self.window
    }

    /// Counts one I/O that completed at `at_ns` after `ns`.
    #[inline]
    pub fn push(&mut self, at_ns: i64, ns: u64) {
        self.add(at_ns, ns, 1);
    }

    /// Counts several I/Os of equal time and latency.
    #[inline]
    pub fn add(&mut self, at_ns: i64, ns: u64, count: u64) {
        self.add_in(self.window.column(at_ns), ns, u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Counts several I/Os of one latency in a column of the window.
    ///
    /// # Panics
    /// When the window has no such column.
    #[inline]
    pub fn add_in(&mut self, column: usize, ns: u64, count: u32) {
        let cell = &mut self.row_mut(cell_of(ns))[column];
        *cell = cell.saturating_add(count);
    }

    /// Moves the counts of one column in.
    fn take(&mut self, from: &mut ColumnCounts) {
        let cells = std::mem::replace(&mut from.cells, NO_CELLS);
        for cell in cells.0..cells.1 {
            let count = std::mem::take(&mut from.counts[cell]);
            if count > 0 {
                let place = &mut self.row_mut(cell)[from.column];
                *place = place.saturating_add(count);
            }
        }
    }

    #[inline]
    fn row_mut(&mut self, cell: usize) -> &mut [u32] {
        if cell >= self.rows.len() {
            self.rows.resize_with(cell + 1, Vec::new);
        }
        let row = &mut self.rows[cell];
        if row.is_empty() {
            row.resize(self.window.columns, 0);
        }
        row
    }

    /// The same I/Os at the same times, all with a latency of 0.
    #[must_use]
    pub fn at_zero(&self) -> TimeGrid {
        let mut zero = TimeGrid::new(self.window);
        let row = zero.row_mut(0);
        for theirs in &self.rows {
            row.iter_mut().zip(theirs).for_each(|(sum, count)| *sum = sum.saturating_add(*count));
        }
        zero
    }

    /// Adds another grid: each of its columns goes into the column of this window that holds its middle.
    pub fn merge(&mut self, other: &TimeGrid) {
        for (cell, theirs) in other.rows.iter().enumerate().filter(|(_, r)| !r.is_empty()) {
            let window = self.window;
            let row = self.row_mut(cell);
            for (column, count) in theirs.iter().enumerate().filter(|(_, c)| **c > 0) {
                let middle = other.window.column_ns * column as u64 + other.window.column_ns / 2;
                let at = other.window.start_ns.saturating_add(middle as i64);
                let mine = &mut row[window.column(at)];
                *mine = mine.saturating_add(*count);
            }
        }
    }

    /// Memory in use, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        let rows = self.rows.iter().map(|r| r.capacity() * size_of::<u32>()).sum::<usize>();
        rows + self.rows.capacity() * size_of::<Vec<u32>>()
    }

    /// The counts of a cell by column; empty where no I/O fell into it.
    #[must_use]
    pub fn row(&self, cell: usize) -> &[u32] {
        self.rows.get(cell).map_or(&[], Vec::as_slice)
    }

    /// Cells up to the last used.
    pub(crate) fn cells(&self) -> usize {
        self.rows.len()
    }

    /// I/Os of each column in the cells from `cell` up.
    pub(crate) fn columns_from(&self, cell: usize) -> Vec<f64> {
        let mut sums = vec![0.0; self.window.columns];
        for row in self.rows.iter().skip(cell) {
            for (sum, count) in sums.iter_mut().zip(row) {
                *sum += f64::from(*count);
            }
        }
        sums
    }

    /// The grid of the last sixth (in whole columns, rounded down) of a load of `load_ns` from the start, or up to
    /// the last column with I/Os where that is earlier, and of what completed later.
    pub(crate) fn last_sixth(&self, load_ns: u64) -> TimeGrid {
        let busy = self.columns_from(0).iter().rposition(|n| *n > 0.0).map_or(0, |last| last + 1);
        let load = usize::try_from(load_ns.div_ceil(self.window.column_ns)).unwrap_or(usize::MAX);
        let to = busy.min(load);
        let from = to - to / 6;
        let start_ns = self.window.start_ns + (self.window.column_ns * from as u64) as i64;
        let columns = (self.window.columns - from).max(1);
        let window = TimeWindow { start_ns, columns, ..self.window };
        let part = |row: &Vec<u32>| row.get(from..).unwrap_or_default().to_vec();
        TimeGrid { window, rows: self.rows.iter().map(part).collect() }
    }

    /// I/Os of each cell in these columns.
    pub(crate) fn cell_counts_in(&self, columns: Range<usize>) -> Vec<u64> {
        let within = |row: &Vec<u32>| {
            let part = row.get(columns.clone()).unwrap_or_default();
            part.iter().map(|c| u64::from(*c)).sum()
        };
        self.rows.iter().map(within).collect()
    }
}

/// Fills a grid from a stream of I/Os most of which fall into the column of those before: the counts of that
/// column are kept in one array, which a CPU caches, and moved into the grid when the column changes.
#[derive(Debug, Clone)]
pub struct GridFiller {
    grid: TimeGrid,
    near: ColumnCounts,
    /// I/Os of other columns since the column was chosen.
    strays: usize,
}

/// The counts of one column by cell.
#[derive(Debug, Clone)]
struct ColumnCounts {
    column: usize,
    counts: Vec<u32>,
    /// The cells outside of which all counts are 0: first, and one past the last.
    cells: (usize, usize),
}

const NO_CELLS: (usize, usize) = (usize::MAX, 0);
/// Strays after which another column is chosen: far fewer moves than I/Os, whatever their order.
const STRAYS: usize = 256;

impl GridFiller {
    #[must_use]
    pub fn new(window: TimeWindow) -> GridFiller {
        let near = ColumnCounts { column: 0, counts: Vec::new(), cells: NO_CELLS };
        GridFiller { grid: TimeGrid::new(window), near, strays: 0 }
    }

    /// Counts one I/O of a column of the window.
    ///
    /// # Panics
    /// When the window has no such column.
    #[inline]
    pub fn push(&mut self, column: usize, ns: u64) {
        let cell = cell_of(ns);
        if column != self.near.column || cell >= self.near.counts.len() {
            return self.push_stray(column, ns);
        }
        let count = &mut self.near.counts[cell];
        *count = count.saturating_add(1);
        self.near.cells = (self.near.cells.0.min(cell), self.near.cells.1.max(cell + 1));
    }

    #[inline(never)]
    fn push_stray(&mut self, column: usize, ns: u64) {
        self.strays += 1;
        if self.strays > STRAYS {
            self.strays = 0;
            self.grid.take(&mut self.near);
            self.near.column = column;
            self.near.counts.resize(CELLS, 0);
        }
        self.grid.add_in(column, ns, 1);
    }

    /// Memory in use, bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.grid.memory_bytes() + self.near.counts.capacity() * size_of::<u32>()
    }

    /// The grid with all I/Os.
    #[must_use]
    pub fn finish(mut self) -> TimeGrid {
        self.grid.take(&mut self.near);
        self.grid
    }
}

/// The cell of a latency: exact below 128 ns, then a 128th of a power of two wide.
#[must_use]
pub fn cell_of(ns: u64) -> usize {
    if ns < 1 << FINE {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros();
    let within = (ns >> (power - FINE)) as usize & ((1 << FINE) - 1);
    (((power - FINE + 1) as usize) << FINE) + within
}

/// Lower edge of a cell, ns; 0.5 of the first, as zero has no place on a logarithmic axis.
#[must_use]
pub fn edge_of(cell: usize) -> f64 {
    let (power, within) = (cell >> FINE, cell & ((1 << FINE) - 1));
    if power == 0 {
        return (within as f64).max(0.5);
    }
    ((1 << FINE) + within) as f64 * 2f64.powi(power as i32 - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_cover_every_value_in_order() {
        for ns in (0..5_000).chain([1 << 20, (1 << 40) + 7, u64::MAX]) {
            let cell = cell_of(ns);
            assert!(cell < CELLS);
            assert!(edge_of(cell) <= (ns as f64).max(0.5), "{ns}");
            assert!(ns as f64 <= edge_of(cell + 1), "{ns}");
        }
    }

    #[test]
    fn a_filled_grid_is_as_one_that_was_pushed() {
        let window = TimeWindow::new(0, 256_000);
        let (mut filler, mut grid) = (GridFiller::new(window), TimeGrid::new(window));
        for i in 0..50_000u64 {
            // Mostly in order; some far off, some very slow.
            let at = (i * 5 + i * i % 2_000) as i64;
            let ns = if i % 997 == 0 { u64::MAX - i } else { 100 + i * i % 5_000 };
            filler.push(window.column(at), ns);
            grid.push(at, ns);
        }
        assert_eq!(filler.finish(), grid);
    }

    #[test]
    fn every_count_is_kept_also_by_a_merge() {
        let fill = |window: TimeWindow| {
            let mut grid = TimeGrid::new(window);
            (0..10_000u64).for_each(|i| grid.push(1_000 + i as i64 * 200_000, 100 + i * i));
            grid
        };
        let mut grid = fill(TimeWindow::new(1_000, 2_000_001_000));
        assert_eq!(grid.columns_from(0).iter().sum::<f64>(), 10_000.0);
        grid.merge(&fill(TimeWindow::new(1_000, 4_000_001_000)));
        assert_eq!(grid.columns_from(0).iter().sum::<f64>(), 20_000.0);
        assert!(grid.memory_bytes() < 4 << 20);
    }
}
