//! Charts: one function each, from the runs' chart data to plotly figures, in one visible list. Numbers come
//! from [`crate::model::charts`]. To add a chart, write a file with its [`Chart`] and add one line to
//! [`CHARTS`].

mod curve;
mod demand;
mod distribution;
mod figure;
mod forest;
mod heat;
mod histogram;
mod history;
mod host;
mod in_flight;
mod knee;
mod look;
mod outliers;
mod points;
mod replay;
mod shift;
mod slc;
mod steady;
mod store;
mod style;
mod sweep;
mod time;

pub use figure::{AxisKind, ButtonChoice, ButtonRow, Chart, ChartFigure};
pub use style::{MOST_LINES, even};

/// Every chart, in page order.
pub const CHARTS: &[Chart] = &[
    history::CHART,
    // Nothing that was measured stands before the proof that it was steady.
    steady::CHART,
    shift::CHART,
    forest::CHART,
    knee::CHART,
    sweep::LINES,
    demand::DEMAND,
    demand::OUTSTANDING,
    sweep::HEAT,
    curve::TAIL,
    distribution::CHART,
    curve::PERCENTILE,
    slc::CHART,
    histogram::CHART,
    points::CHART,
    time::LATENCY,
    store::CHART,
    host::CHART,
    time::THROUGHPUT,
    in_flight::CHART,
    replay::CHART,
    heat::CHART,
    outliers::CHART,
    curve::SPLIT,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::charts::ChartModel;

    #[test]
    fn ids_are_unique_and_every_chart_explains_itself() {
        let mut ids: Vec<_> = CHARTS.iter().map(|c| c.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), CHARTS.len());
        assert!(CHARTS.iter().all(|c| c.read.len() > 20));
    }

    #[test]
    fn nothing_to_show_draws_nothing() {
        for chart in CHARTS {
            assert!((chart.draw)(&ChartModel::default()).is_empty(), "{}", chart.id);
        }
    }
}
