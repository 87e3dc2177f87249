//! The occupied part of a grid of time and latency, as a heat map shows it.

use taillight_stats::TimeGrid;
use taillight_stats::grid::{CELLS, edge_of};

/// Most rows shown.
const ROWS: usize = 84;

/// Edges of columns in seconds, edges of rows in ns, counts by row; all empty without I/Os.
pub fn picture(grid: &TimeGrid) -> (Vec<f64>, Vec<f64>, Vec<Vec<u64>>) {
    let used = |cell: &usize| !grid.row(*cell).is_empty();
    let (Some(first), Some(last)) = ((0..CELLS).find(used), (0..CELLS).rfind(used)) else {
        return (Vec::new(), Vec::new(), Vec::new());
    };
    let window = grid.window();
    let each = (last - first + 1).div_ceil(ROWS);
    let (mut edges, mut counts) = (Vec::new(), Vec::new());
    for low in (first..=last).step_by(each) {
        let mut row = vec![0; window.columns];
        for cell in low..(low + each).min(last + 1) {
            row.iter_mut().zip(grid.row(cell)).for_each(|(sum, n)| *sum += u64::from(*n));
        }
        edges.push(edge_of(low));
        counts.push(row);
    }
    edges.push(edge_of(last + 1));
    let times = (0..=window.columns).map(|c| c as f64 * window.column_ns as f64 / 1e9).collect();
    (times, edges, counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_stats::TimeWindow;

    #[test]
    fn the_picture_holds_every_count() {
        let window = TimeWindow::new(1_000, 2_000_001_000);
        let mut grid = TimeGrid::new(window);
        for i in 0..10_000u64 {
            grid.push(1_000 + i as i64 * 200_000, 100 + i * i);
        }
        let (times, edges, counts) = picture(&grid);
        assert_eq!(times.len(), window.columns + 1);
        assert_eq!(edges.len(), counts.len() + 1);
        assert!(counts.len() <= ROWS);
        assert_eq!(counts.iter().flatten().sum::<u64>(), 10_000);
        assert!(edges.windows(2).all(|w| w[0] < w[1]));
    }
}
