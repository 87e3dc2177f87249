//! Response-time histograms at the operating points: one figure for each point, of the run that stands for it.

use plotly::Plot;
use plotly::common::Visible;

use super::figure::{ButtonRow, Chart, ChartFigure};
use super::histogram::{self, HistogramLayer, HistogramRoom, counts, cumulative, mark_line, marks};
use super::look::LineLook;
use crate::model::charts::{ChartModel, LatencySeries};
use crate::model::{ReportPoint, labels};
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "points",
    title: "Response-time histograms at the operating points",
    read: histogram::CHART.read,
    draw,
};

fn draw(overlay: &ChartModel) -> Vec<ChartFigure> {
    let points = overlay.points.iter().enumerate();
    points.filter_map(|(i, point)| one(overlay, i, point)).collect()
}

/// The I/Os of all operations together, where known, and those of each operation; a button shows one of them.
fn one(overlay: &ChartModel, i: usize, point: &ReportPoint) -> Option<ChartFigure> {
    let data = overlay.runs.get(point.run)?;
    let own = data.series.iter().filter(|s| s.main);
    let shown: Vec<&LatencySeries> =
        data.whole.iter().chain(own).filter(|s| !s.bins.is_empty()).collect();
    let mut plot = Plot::new();
    let rooms: Vec<(HistogramLayer<'_>, HistogramRoom)> = shown
        .iter()
        .map(|series| {
            let colour = match data.whole.is_some() && series.name == "all" {
                true => palette::HUES[6],
                false => palette::of_op(series.op),
            };
            let key = format!("point {i}|{}", series.name);
            let layer =
                HistogramLayer { look: LineLook { colour, dash: 0, group: None, key }, series };
            let marks = marks(std::slice::from_ref(&layer), data.ceilings.clone());
            // The axes of all, so that operations can be compared.
            Some((layer, HistogramRoom::new(shown.iter().copied(), marks)?))
        })
        .collect::<Option<_>>()?;
    let mut owners = Vec::new();
    for (nth, (layer, room)) in rooms.iter().enumerate() {
        let visible = if nth == 0 { Visible::True } else { Visible::False };
        plot.add_trace(counts(layer).visible(visible.clone()));
        plot.add_trace(cumulative(layer).visible(visible.clone()));
        for (mark, row) in room.marks.iter().zip(&room.rows) {
            plot.add_trace(mark_line(mark, *row).visible(visible.clone()));
        }
        owners.resize(owners.len() + 2 + room.marks.len(), nth);
    }
    let highest = rooms
        .iter()
        .map(|(_, room)| room)
        .max_by(|a, b| a.rows.iter().max().cmp(&b.rows.iter().max()))?;
    let figure = highest.figure(format!("points-{i}"), plot, 2);
    let choices = rooms.iter().enumerate().map(|(nth, (layer, _))| {
        (layer.series.name.clone(), owners.iter().map(|owner| *owner == nth).collect())
    });
    let switches = if rooms.len() > 1 { vec![ButtonRow::show(choices)] } else { Vec::new() };
    Some(ChartFigure { title: Some(labels::humanize(&point.title)), switches, ..figure })
}
