//! I/Os counted over time and latency, on a grid of fixed size.
//!
//! Latency cells are an eighth of a power of two wide and found with a shift; afterwards the
//! occupied ones are put together to at most [`ROWS`] rows.

/// Columns of the grid.
pub const COLUMNS: usize = 200;
/// Most rows shown.
pub const ROWS: usize = 84;
/// Cells per power of two, as a power of two.
const FINE: u32 = 3;
/// All cells over 64 bits.
const CELLS: usize = (64 - FINE as usize + 1) << FINE;

/// The time a heat map spans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeWindow {
    /// Start, CLOCK_MONOTONIC ns.
    pub start_ns: i64,
    /// Width of a column, ns, at least 1.
    pub column_ns: u64,
    /// Columns, at most `COLUMNS`.
    pub columns: usize,
}

impl TimeWindow {
    /// Even columns over `start..end`.
    pub fn new(start_ns: i64, end_ns: i64) -> TimeWindow {
        let span = end_ns.saturating_sub(start_ns).max(1) as u64;
        let column_ns = span.div_ceil(COLUMNS as u64).max(1);
        TimeWindow { start_ns, column_ns, columns: COLUMNS.min(span.div_ceil(column_ns) as usize) }
    }
    /// The whole span, ns.
    pub fn span_ns(&self) -> u64 {
        self.column_ns.saturating_mul(self.columns as u64)
    }
}

/// Counts on the fine grid.
#[derive(Debug, Clone)]
pub struct HeatCounts {
    window: TimeWindow,
    cells: Vec<u32>,
}

impl HeatCounts {
    pub fn new(window: TimeWindow) -> Self {
        HeatCounts { window, cells: vec![0; window.columns * CELLS] }
    }

    #[inline]
    pub fn push(&mut self, at_ns: i64, ns: u64) {
        self.add(at_ns, ns, 1);
    }

    /// Counts several I/Os of equal time and latency.
    pub fn add(&mut self, at_ns: i64, ns: u64, count: u64) {
        let since = at_ns.saturating_sub(self.window.start_ns).max(0) as u64;
        let column = ((since / self.window.column_ns) as usize).min(self.window.columns - 1);
        let cell = &mut self.cells[column * CELLS + cell_of(ns)];
        *cell = cell.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
    }

    /// Adds another grid of the same window.
    pub fn merge(&mut self, other: &HeatCounts) {
        if self.window == other.window {
            for (mine, more) in self.cells.iter_mut().zip(&other.cells) {
                *mine = mine.saturating_add(*more);
            }
        }
    }

    /// The occupied part: edges of columns in seconds, edges of rows in ns, counts by row.
    pub fn picture(&self) -> (Vec<f64>, Vec<f64>, Vec<Vec<u64>>) {
        let used = |cell: usize| self.column_range().any(|c| self.cells[c * CELLS + cell] > 0);
        let first = (0..CELLS).find(|cell| used(*cell));
        let last = (0..CELLS).rfind(|cell| used(*cell));
        let (Some(first), Some(last)) = (first, last) else {
            return (Vec::new(), Vec::new(), Vec::new());
        };
        let each = (last - first + 1).div_ceil(ROWS);
        let mut edges = Vec::new();
        let mut counts = Vec::new();
        for low in (first..=last).step_by(each) {
            let high = (low + each).min(last + 1);
            edges.push(edge_of(low));
            counts.push(
                self.column_range()
                    .map(|c| (low..high).map(|cell| u64::from(self.cells[c * CELLS + cell])).sum())
                    .collect(),
            );
        }
        edges.push(edge_of(last + 1));
        let times = (0..=self.window.columns)
            .map(|c| c as f64 * self.window.column_ns as f64 / 1e9)
            .collect();
        (times, edges, counts)
    }

    fn column_range(&self) -> std::ops::Range<usize> {
        0..self.window.columns
    }
}

/// The cell of a latency: exact below 8 ns, then an eighth of a power of two wide.
fn cell_of(ns: u64) -> usize {
    if ns < 1 << FINE {
        return ns as usize;
    }
    let power = 63 - ns.leading_zeros();
    let within = (ns >> (power - FINE)) as usize & ((1 << FINE) - 1);
    (((power - FINE + 1) as usize) << FINE) + within
}

/// Lower edge of a cell, ns.
fn edge_of(cell: usize) -> f64 {
    let (power, within) = (cell >> FINE, cell & ((1 << FINE) - 1));
    if power == 0 {
        // Zero has no place on a logarithmic axis.
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
    fn the_picture_holds_every_count() {
        let mut heat = HeatCounts::new(TimeWindow::new(1_000, 2_000_001_000));
        for i in 0..10_000u64 {
            heat.push(1_000 + i as i64 * 200_000, 100 + i * i);
        }
        let (times, edges, counts) = heat.picture();
        assert_eq!(times.len(), COLUMNS + 1);
        assert_eq!(edges.len(), counts.len() + 1);
        assert!(counts.len() <= ROWS);
        assert_eq!(counts.iter().flatten().sum::<u64>(), 10_000);
        assert!(edges.windows(2).all(|w| w[0] < w[1]));
    }
}
