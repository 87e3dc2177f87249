//! Latency and throughput over time, from the reporting intervals; where every I/O is kept, latencies and operations
//! per second in finer steps.

use plotly::common::{DashType, Line, Marker, Mode, Visible};
use plotly::{Plot, Scatter};

use super::figure::{AxisKind, ButtonRow, Chart, ChartFigure, figure_per_name};
use super::look::escape;
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, OpPoint, OpTrack, with_rates};
use crate::render::palette;

pub const LATENCY: Chart = Chart {
    id: "latency-time",
    title: "Latency over time",
    read: "Service time in each reporting interval; where every I/O is kept, in some 250 steps, each value \
           within 1 %. A flat line is a steady device; a percentile of a run whose lines drift is not a \
           property of the device.",
    draw: latency,
};

pub const THROUGHPUT: Chart = Chart {
    id: "throughput-time",
    title: "Throughput over time",
    read: "Operations and bytes completed per second in each reporting interval; operations in some 250 \
           steps where every I/O is kept. A last interval that is not half as long as the others is left out.",
    draw: throughput,
};

/// A line over time: the value of each interval that it shows, what that is called, and how the line looks.
struct LatencyLine {
    name: &'static str,
    pick: fn(&OpPoint) -> Option<u64>,
    dash: DashType,
    width: f64,
    alpha: f64,
}

/// An opaque line.
const fn level(
    name: &'static str,
    pick: fn(&OpPoint) -> Option<u64>,
    dash: DashType,
    width: f64,
) -> LatencyLine {
    LatencyLine { name, pick, dash, width, alpha: 1.0 }
}

/// The lines of one operation, in the order in which they are drawn.
const LEVELS: [LatencyLine; 5] = [
    LatencyLine { alpha: 0.6, ..level("max", OpPoint::max_ns, DashType::Solid, 1.1) },
    level("99.9 %", OpPoint::p999_ns, DashType::Dot, 1.6),
    level("99 %", OpPoint::p99_ns, DashType::Dash, 1.6),
    level("50 %", OpPoint::p50_ns, DashType::Solid, 2.4),
    level("99 % of response time", OpPoint::response_p99_ns, DashType::DashDot, 2.0),
];
/// Which of [`LEVELS`] is shown first when several runs lie over each other: 99 % ...
const USUAL: usize = 2;
/// ... or, where most intervals have too few I/Os for that, what every interval has.
const ALWAYS: usize = 0;

/// One figure per operation.
fn latency(overlay: &ChartModel) -> Vec<ChartFigure> {
    let names = overlay.each(|run| &run.tracks).map(|(_, t)| t.name.as_str());
    figure_per_name(names, |i, name| latency_of(overlay, i, name))
}

/// The figure of the operation that is called `name`, with a line for each run and level that has a value; none where
/// no interval has one. Of several runs one level is shown at a time.
fn latency_of(overlay: &ChartModel, i: usize, name: &str) -> Option<ChartFigure> {
    let tracks: Vec<(usize, &OpTrack)> = tracks(overlay).filter(|(_, t)| t.name == name).collect();
    let overlaid = overlay.runs.len() > 1;
    let mut plot = Plot::new();
    let mut shown: Vec<usize> = Vec::new();
    let first = first_level(&tracks);
    for (run, track) in &tracks {
        for (nth, level) in LEVELS.iter().enumerate() {
            if track.points.iter().all(|p| (level.pick)(p).is_none()) {
                continue;
            }
            let visible = !overlaid || nth == first;
            plot.add_trace(level_line(overlay, *run, track, level, visible));
            shown.push(nth);
        }
    }
    let (lo, hi) = style::latency_range(
        tracks.iter().flat_map(|(_, t)| t.points.iter().chain(&t.fine)).filter_map(|p| {
            let low = p.p50_ns().or(p.max_ns())?;
            let high = p.max_ns()?;
            Some((low, p.response_p99_ns().map_or(high, |ns| ns.max(high))))
        }),
    )?;
    let layout = style::layout(if overlaid { tracks.len() } else { LEVELS.len() })
        .x_axis(style::elapsed_axis(overlay))
        .y_axis(style::latency_axis("latency", lo, hi))
        .shapes(super::store::stalls(overlay));
    let switches = if overlaid { vec![level_switch(&shown, first)] } else { Vec::new() };
    let height = if overlaid { style::height(380, overlay) } else { 380 };
    let axes = [("xaxis", AxisKind::Elapsed), ("yaxis", AxisKind::Time)];
    let figure = ChartFigure::new(format!("latency-time-{i}"), height, axes, plot, layout);
    Some(ChartFigure { switches, ..figure })
}

/// The level of several runs, by its place in [`LEVELS`], that is shown until another is chosen.
fn first_level(tracks: &[(usize, &OpTrack)]) -> usize {
    let points = || tracks.iter().flat_map(|(_, track)| &track.points);
    let known = points().filter_map(LEVELS[USUAL].pick).count();
    if known * 2 >= points().count() { USUAL } else { ALWAYS }
}

/// Buttons that each show one of the levels that are drawn, `first` before the others. `shown`: the level of each line.
fn level_switch(shown: &[usize], first: usize) -> ButtonRow {
    let others = [USUAL, 3, 1, ALWAYS, 4].into_iter().filter(|level| *level != first);
    let levels = [first].into_iter().chain(others).filter(|level| shown.contains(level));
    ButtonRow::show(levels.map(|wanted| {
        (LEVELS[wanted].name.to_owned(), shown.iter().map(|nth| *nth == wanted).collect())
    }))
}

/// The line of one level of one run. Values that stand alone between unknown ones are points.
fn level_line(
    overlay: &ChartModel,
    run: usize,
    track: &OpTrack,
    level: &LatencyLine,
    visible: bool,
) -> Box<dyn plotly::Trace> {
    let overlaid = overlay.runs.len() > 1;
    let look = overlay.line_look(run, track.op, &track.name);
    let points = track.points_of(level.pick);
    let values: Vec<Option<u64>> = points.iter().map(level.pick).collect();
    let text: Vec<String> = points
        .iter()
        .zip(&values)
        .map(|(p, v)| match v {
            Some(ns) => format!("{:.2} s: {}", p.at_s, format::duration_ns(*ns)),
            None => String::new(),
        })
        .collect();
    let name = match &look.group {
        Some((_, heading)) => format!("{heading}, {}", level.name),
        None => level.name.to_owned(),
    };
    // An interval between two that know nothing has no line to either side.
    let alone = values.iter().any(Option::is_none);
    let dash = if overlaid { DashType::Solid } else { level.dash.clone() };
    let trace = Scatter::new(points.iter().map(|p| style::round(p.at_s)).collect(), values)
        .name(&name)
        .mode(if alone { Mode::LinesMarkers } else { Mode::Lines })
        .marker(Marker::new().size(4).color(palette::with_alpha(look.colour, level.alpha)))
        .line(
            Line::new()
                .color(palette::with_alpha(look.colour, level.alpha))
                .width(level.width)
                .dash(dash),
        )
        .hover_text_array(text)
        .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"))
        .meta(format!("{}{}", look.key, level.name));
    if visible { trace } else { trace.visible(Visible::False) }
}

/// Operations and bytes per second, beside each other; each is left out where nothing was done.
fn throughput(overlay: &ChartModel) -> Vec<ChartFigure> {
    let ops = throughput_of(
        overlay,
        ("throughput-ops", "Operations per second", "operations/s"),
        |track| track.points_of(OpPoint::steady_iops),
        OpPoint::iops,
        AxisKind::Number,
        |v| format!("{} IOPS", format::rate(v)),
    );
    let bytes = throughput_of(
        overlay,
        ("throughput-bytes", "Bytes per second", "bytes/s"),
        |track| &track.points,
        OpPoint::bytes_per_s,
        AxisKind::Bytes,
        format::bytes_per_s,
    );
    ops.into_iter().chain(bytes).collect()
}

/// One figure with a line for each operation of each run; none where all values are 0.
fn throughput_of(
    overlay: &ChartModel,
    (id, title, axis): (&str, &str, &str),
    points: fn(&OpTrack) -> &[OpPoint],
    pick: fn(&OpPoint) -> f64,
    kind: AxisKind,
    words: fn(f64) -> String,
) -> Option<ChartFigure> {
    let mut plot = Plot::new();
    let (mut top, mut lines) = (0f64, 0);
    for (run, track) in tracks(overlay) {
        let look = overlay.line_look(run, track.op, &track.name);
        let points = with_rates(points(track));
        top = points.iter().map(pick).fold(top, f64::max);
        let text: Vec<String> =
            points.iter().map(|p| format!("{:.2} s: {}", p.at_s, words(pick(p)))).collect();
        let name = match &look.group {
            Some((_, heading)) => format!("{heading}, {}", escape(&track.name)),
            None => escape(&track.name),
        };
        let points = points.iter().map(|p| (p.at_s, pick(p)));
        plot.add_trace(
            style::line_over_time(&name, points, (look.colour, palette::dash(look.dash)))
                .hover_text_array(text)
                .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"))
                .meta(look.key.clone()),
        );
        lines += 1;
    }
    if top <= 0.0 {
        return None;
    }
    let layout = style::layout(lines)
        .x_axis(style::elapsed_axis(overlay))
        .y_axis(style::axis(axis).range(vec![0.0, top * 1.08]));
    Some(ChartFigure {
        title: Some(title.to_owned()),
        half: lines <= 4,
        ..ChartFigure::new(id, 320, [("xaxis", AxisKind::Elapsed), ("yaxis", kind)], plot, layout)
    })
}

/// The operations of all runs that have an interval, each with the number of its run.
fn tracks(overlay: &ChartModel) -> impl Iterator<Item = (usize, &OpTrack)> {
    overlay.each(|run| &run.tracks).filter(|(_, t)| !t.points.is_empty())
}
