//! Figures over nights of runs: their levels, where they changed, and where plan, device, kernel or version did.

use plotly::Plot;
use plotly::Scatter;
use plotly::common::{DashType, Line, Marker, MarkerSymbol, Mode};
use plotly::layout::{AxisType, Shape, ShapeLine, ShapeType};
use taillight_rundir::compare::CompareVerdict;
use taillight_rundir::history::{HistoryFile, HistoryTrack};

use super::figure::{AxisKind, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::format;
use crate::model::charts::ChartModel;
use crate::model::labels;
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "history",
    title: "Night by night",
    read: "One point a night: the median of its runs. Lines are levels: a new one begins where the figure \
           changed. Dotted upright lines: plan, device, kernel or version changed, and levels on both sides \
           are not set beside each other. A star is a newest night that stands out; alone it proves nothing. \
           The upright axis does not begin at zero.",
    draw,
};

fn draw(charts: &ChartModel) -> Vec<ChartFigure> {
    let Some(history) = &charts.history else { return Vec::new() };
    let figure = |(nth, track)| figure(nth, track, history);
    history.figures.iter().enumerate().filter_map(figure).collect()
}

fn figure(nth: usize, track: &HistoryTrack, history: &HistoryFile) -> Option<ChartFigure> {
    let is_rate = track.figure == "iops";
    let known: Vec<(usize, f64)> =
        track.values.iter().enumerate().filter_map(|(night, v)| Some((night, (*v)?))).collect();
    let lo = known.iter().map(|(_, v)| *v).reduce(f64::min)?;
    let hi = known.iter().map(|(_, v)| *v).reduce(f64::max)?;
    let colour = if is_rate { palette::HUES[2] } else { palette::of_op(track.op) };
    let mut plot = Plot::new();
    plot.add_trace(nights(track, history, &known, colour));
    for (first, last) in levels(track, history) {
        let of: Vec<f64> = known
            .iter()
            .filter(|(night, _)| (first..=last).contains(night))
            .map(|(_, v)| *v)
            .collect();
        let Some(level) = median(of) else { continue };
        let text = format!("level {}", value(track, level));
        plot.add_trace(
            Scatter::new(vec![at(history, first), at(history, last)], vec![style::round(level); 2])
                .mode(Mode::Lines)
                .line(Line::new().color(palette::HUES[6]).width(2.4))
                .hover_text_array(vec![text; 2])
                .hover_template("%{hovertext}<extra></extra>"),
        );
    }
    for trace in marks(track, history) {
        plot.add_trace(trace);
    }
    let room = (hi - lo).max(0.02 * hi) * 0.15;
    let layout = style::layout(0)
        .x_axis(style::axis("night, UTC").type_(AxisType::Date))
        .y_axis(
            style::axis(if is_rate { "operations per second" } else { "latency" })
                .range(vec![(lo - room).max(0.0), hi + room]),
        )
        .shapes(borders(history));
    let kind = if is_rate { AxisKind::Number } else { AxisKind::Time };
    let figure = ChartFigure::new(format!("history-{nth}"), 320, [("yaxis", kind)], plot, layout);
    let title = Some(format!("{}, {}", track.op.name(), labels::figure(&track.figure)));
    Some(ChartFigure { title, half: true, ..figure })
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// A night on an axis of dates, which counts milliseconds.
fn at(history: &HistoryFile, night: usize) -> f64 {
    history.nights.get(night).map_or(0.0, |night| night.realtime_ns as f64 / 1e6)
}

fn value(track: &HistoryTrack, value: f64) -> String {
    match track.figure.as_str() {
        "iops" => format::rate(value),
        _ => format::duration(value),
    }
}

fn nights(
    track: &HistoryTrack,
    history: &HistoryFile,
    known: &[(usize, f64)],
    colour: &'static str,
) -> Box<Scatter<f64, f64>> {
    let text = known.iter().map(|(night, v)| {
        let night = &history.nights[*night];
        let runs = format::counted(night.runs.len() as u64, "run");
        format!("{}: {} ({runs})", escape(&night.date), value(track, *v))
    });
    Scatter::new(
        known.iter().map(|(night, _)| at(history, *night)).collect(),
        known.iter().map(|(_, v)| style::round(*v)).collect(),
    )
    .mode(Mode::LinesMarkers)
    .marker(Marker::new().size(6).color(colour))
    .line(Line::new().color(palette::with_alpha(colour, 0.35)).width(1.0))
    .hover_text_array(text.collect())
    .hover_template("%{hovertext}<extra></extra>")
}

/// First and last nights of each level: segments, cut where the figure changed.
fn levels(track: &HistoryTrack, history: &HistoryFile) -> Vec<(usize, usize)> {
    let mut firsts: Vec<usize> = history.segments.iter().map(|s| s.first).collect();
    firsts.extend(track.changes.iter().map(|change| change.night));
    firsts.sort_unstable();
    firsts.dedup();
    let ends = firsts.iter().skip(1).copied().chain([history.nights.len()]);
    firsts.iter().copied().zip(ends.map(|end| end.saturating_sub(1))).collect()
}

/// A mark at each change, and a star at a newest night that stands out.
fn marks(track: &HistoryTrack, history: &HistoryFile) -> Vec<Box<dyn plotly::Trace>> {
    let hue = |verdict| match verdict {
        CompareVerdict::Better => palette::HUES[2],
        _ => palette::CEILING,
    };
    let mark = |night: usize, v: f64, symbol, verdict, text: String| -> Box<dyn plotly::Trace> {
        Scatter::new(vec![at(history, night)], vec![style::round(v)])
            .mode(Mode::Markers)
            .marker(Marker::new().size(13).symbol(symbol).color(hue(verdict)))
            .hover_text_array(vec![text])
            .hover_template("%{hovertext}<extra></extra>")
    };
    let change = |change: &taillight_rundir::history::HistoryChange| {
        let percent = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
        let text = format!(
            "changed: {} ({} to {})<br>{} before, {} after",
            percent(change.ratio),
            percent(change.lo),
            percent(change.hi),
            value(track, change.before),
            value(track, change.after)
        );
        let up = change.after > change.before;
        let symbol = if up { MarkerSymbol::TriangleUp } else { MarkerSymbol::TriangleDown };
        mark(change.night, change.after, symbol, change.verdict, text)
    };
    let suspect = track.suspect.iter().map(|it| {
        let band = format!("{} to {}", value(track, it.lo), value(track, it.hi));
        let text = format!("suspect: {}, usually {band}", value(track, it.value));
        mark(it.night, it.value, MarkerSymbol::Star, it.verdict, text)
    });
    track.changes.iter().map(change).chain(suspect).collect()
}

/// A line before each segment but the first.
fn borders(history: &HistoryFile) -> Vec<Shape> {
    let border = |first: usize| {
        let between = (at(history, first - 1) + at(history, first)) / 2.0;
        Shape::new()
            .shape_type(ShapeType::Line)
            .x_ref("x")
            .y_ref("paper")
            .x0(between)
            .x1(between)
            .y0(0.0)
            .y1(1.0)
            .line(ShapeLine::new().color(palette::HUES[3]).width(1.6).dash(DashType::Dot))
    };
    history.segments.iter().map(|s| s.first).filter(|first| *first > 0).map(border).collect()
}
