//! Operations in flight over time, and how many were waiting to be sent: one line per workload of each run, through
//! the intervals that the model leaves of a long one.

use plotly::Plot;

use super::figure::{AxisKind, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, WorkloadPoint};
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "in-flight",
    title: "Operations in flight over time",
    read: "Mean number of operations under way in each reporting interval, per workload. A closed loop \
           should keep its queue depth; below it the tool or the CPU was the limit. With a schedule \
           also the operations due and not yet sent: a rising line is load that is not reached.",
    draw,
};

fn draw(charts: &ChartModel) -> Vec<ChartFigure> {
    let in_flight = figure(charts, "in-flight", "In flight", |p| Some(p.depth_mean));
    let waiting = figure(charts, "backlog", "Waiting to be sent", |p| p.backlog.map(|n| n as f64));
    let both = waiting.is_some();
    let figures = in_flight.into_iter().chain(waiting);
    figures.map(|figure| ChartFigure { half: both, ..figure }).collect()
}

/// One line per workload; no figure when none is ever above zero.
fn figure(
    charts: &ChartModel,
    id: &str,
    title: &str,
    value: fn(&WorkloadPoint) -> Option<f64>,
) -> Option<ChartFigure> {
    let mut plot = Plot::new();
    let (mut top, mut lines) = (0f64, 0);
    for (run, data) in charts.runs.iter().enumerate() {
        for (nth, track) in data.workloads.iter().enumerate() {
            let points = track.points.iter();
            let points: Vec<(f64, f64)> =
                points.filter_map(|p| Some((p.at_s, value(p)?))).collect();
            if points.is_empty() {
                continue;
            }
            top = points.iter().map(|p| p.1).fold(top, f64::max);
            let text = points.iter();
            let text = text.map(|(at, v)| format!("{at:.1} s: {}", format::digits3(*v)));
            let look = charts.look_of_workload(run, nth);
            let name = escape(&track.name);
            let line = (look.colour, palette::dash(look.dash));
            let trace = style::line_over_time(&name, points.iter().copied(), line)
                .hover_text_array(text.collect())
                .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"));
            plot.add_trace(style::group(trace, &look));
            lines += 1;
        }
    }
    if top <= 0.0 {
        return None;
    }
    let layout = style::layout(lines)
        .x_axis(style::elapsed_axis(charts))
        .y_axis(style::axis("operations").range(vec![0.0, top * 1.08]));
    Some(ChartFigure {
        title: Some(title.to_owned()),
        ..ChartFigure::new(
            id,
            style::height(320, charts),
            [("xaxis", AxisKind::Elapsed), ("yaxis", AxisKind::Number)],
            plot,
            layout,
        )
    })
}
