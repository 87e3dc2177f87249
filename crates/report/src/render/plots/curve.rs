//! Percentile curves: in per cent, zoomed to the tail, and taken apart by where the time went.

use plotly::common::{DashType, Fill, Line, LineShape, Mode, TickMode, Visible};
use plotly::layout::{Axis, AxisType};
use plotly::{Plot, Scatter};
use serde_json::json;
use taillight_core::LatencyKind;
use taillight_rundir::latency::NineEntry;

use super::distribution::legend;
use super::figure::{AxisKind, ButtonChoice, ButtonRow, Chart, ChartFigure};
use super::look::{LineLook, escape};
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, LatencySeries, PercentilePoint};
use crate::render::palette;

pub const PERCENTILE: Chart = Chart {
    id: "percentile",
    title: "Latency percentile",
    read: "The share of I/Os that finished within the time below, and the share of all waiting that \
           these I/Os made: few slow ones may be most of what a program waits for. Steep and far to \
           the left is good. The lines say nothing about throughput, so the legend does.",
    draw: percentile,
};

pub const TAIL: Chart = Chart {
    id: "tail",
    title: "Tail latency",
    read: "Which share of the I/Os finished within which time, every nine given equal room. The pale band \
           is the 95 % interval, where there are enough I/Os for both its ends; where a line is dotted there \
           were too few I/Os to call it measured: it is this run only.",
    draw: tail,
};

pub const SPLIT: Chart = Chart {
    id: "split",
    title: "Where the time was spent",
    read: "Latency taken apart: waiting for a free slot, before issue (this tool's batch and the \
           kernel's part of the call that submits it), after issue, in the sync call inside a \
           write, and until the first byte of an object.",
    draw: split,
};

/// All series in per cent: of I/Os, and of the time that all I/Os took together.
fn percentile(overlay: &ChartModel) -> Vec<ChartFigure> {
    let main = || latencies(overlay).map(|(_, s)| s).filter(|s| s.main);
    let Some((lo, hi)) = range(main()) else {
        return Vec::new();
    };
    let switches: Vec<ButtonRow> =
        fast_end(main()).map(|end| zoom(lo, hi, end)).into_iter().collect();
    let figure = |id: &str, title: &str, unit: &str, of: fn(&PercentilePoint) -> f64| {
        let mut plot = Plot::new();
        let mut lines = 0;
        for (run, series) in latencies(overlay) {
            let look = look_of(overlay, run, series);
            plot.add_trace(line(points_of(series, of), series, &look, true));
            lines += 1;
        }
        let layout = style::layout(lines)
            .x_axis(style::latency_axis("latency", lo, hi))
            .y_axis(style::axis(unit).range(vec![-1.5, 101.5]).tick_suffix(" %"));
        let axes = [("xaxis", AxisKind::Time), ("yaxis", AxisKind::Percent)];
        ChartFigure {
            title: Some(title.to_owned()),
            switches: switches.clone(),
            half: true,
            ..ChartFigure::new(id, style::height(440, overlay), axes, plot, layout)
        }
    };
    vec![
        figure("percentile", "Share of I/Os", "I/Os finished", |p| p.share),
        figure("percentile-time", "Share of waiting time", "of all waiting", |p| p.time_share),
    ]
}

/// How much slower than the fastest a series may be to count as one of the fast ones, by medians.
const FAST: f64 = 10.0;

/// Where a view of the fast series ends: half beyond the 99 % of the slowest of them; none where that
/// is not under a third of the largest latency.
fn fast_end<'s>(series: impl Iterator<Item = &'s LatencySeries>) -> Option<f64> {
    let at = |s: &LatencySeries, share: f64| {
        s.curve.iter().find(|p| p.share <= share).map(|p| p.ns as f64)
    };
    let all: Vec<(f64, f64, u64)> =
        series.filter_map(|s| Some((at(s, 0.5)?, at(s, 0.01)?, s.max_ns))).collect();
    let fastest = all.iter().map(|s| s.0).fold(f64::INFINITY, f64::min);
    let fast = all.iter().filter(|s| s.0 <= fastest * FAST);
    let end = fast.map(|s| s.1).fold(0.0, f64::max) * 1.5;
    let slowest = all.iter().map(|s| s.2).max()? as f64;
    (end > 0.0 && end * 3.0 < slowest).then_some(end)
}

fn zoom(lo: f64, hi: f64, end: f64) -> ButtonRow {
    let choice = |label: &str, end: f64| ButtonChoice {
        label: label.to_owned(),
        data: json!({}),
        layout: json!({ "xaxis.range": [lo, end] }),
    };
    ButtonRow {
        label: "Latencies".to_owned(),
        choices: vec![choice("all", hi), choice("the fast ones", end.log10().min(hi))],
    }
}

/// The curve in per cent of I/Os, up to 100.
pub fn percent_points(series: &LatencySeries) -> Vec<(f64, f64)> {
    points_of(series, |p| p.share)
}

fn points_of(series: &LatencySeries, of: fn(&PercentilePoint) -> f64) -> Vec<(f64, f64)> {
    let percent = |p: &PercentilePoint| (p.ns as f64, style::round(100.0 * (1.0 - of(p))));
    let mut points: Vec<(f64, f64)> = series.curve.iter().map(percent).collect();
    points.push((series.max_ns as f64, 100.0));
    points
}

/// All series on a scale of nines.
fn tail(overlay: &ChartModel) -> Vec<ChartFigure> {
    let mut plot = Plot::new();
    let mut lines = 0;
    for (run, series) in latencies(overlay) {
        let look = look_of(overlay, run, series);
        nines_lines(&mut plot, series, &look, true);
        if let Some(band) = interval_band(series, &look).filter(|_| series.main) {
            plot.add_trace(band);
        }
        lines += 1;
    }
    let all: Vec<&LatencySeries> = latencies(overlay).map(|(_, s)| s).collect();
    let figure = figure("tail", None, plot, &all, lines).map(|mut figure| {
        figure.height = style::height(figure.height, overlay);
        figure
    });
    figure.into_iter().collect()
}

/// Per operation and run, where parts were measured: the parts of the latency on a scale of nines.
fn split(overlay: &ChartModel) -> Vec<ChartFigure> {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for (run, data) in overlay.runs.iter().enumerate() {
        for series in &data.series {
            let part = !matches!(series.measure, LatencyKind::Response | LatencyKind::Service);
            let key = (series.name.as_str(), run);
            if part && !names.contains(&key) {
                names.push(key);
            }
        }
    }
    names
        .iter()
        .enumerate()
        .filter_map(|(i, (name, run))| split_one(overlay, i, name, *run))
        .collect()
}

fn split_one(overlay: &ChartModel, i: usize, name: &str, run: usize) -> Option<ChartFigure> {
    let data = overlay.runs.get(run)?;
    let mut plot = Plot::new();
    let all: Vec<&LatencySeries> = data.series.iter().filter(|s| s.name == name).collect();
    for series in &all {
        let hue = match series.measure {
            LatencyKind::Response | LatencyKind::Service => 6,
            LatencyKind::BeforeIssue => 1,
            LatencyKind::AfterIssue | LatencyKind::EndToEnd => 0,
            LatencyKind::Wait => 4,
            LatencyKind::Sync => 3,
            LatencyKind::FirstByte => 2,
        };
        let look = LineLook {
            colour: palette::HUES[hue],
            dash: usize::from(series.measure == LatencyKind::Service && !series.main) * 2,
            group: None,
            key: format!("{run}|{}", series.measure.words()),
        };
        nines_lines(&mut plot, series, &look, false);
    }
    let title =
        if overlay.runs.len() > 1 { format!("{}: {name}", data.label) } else { name.to_owned() };
    let mut figure = figure(&format!("split-{i}"), Some(title), plot, &all, all.len())?;
    figure.half = true;
    figure.height = 380;
    Some(figure)
}

/// The look of a series; response and service of one operation are hidden apart.
fn look_of(overlay: &ChartModel, run: usize, series: &LatencySeries) -> LineLook {
    let mut look = overlay.line_look(run, series.op, &series.name);
    if !series.main {
        look.key.push_str(series.measure.words());
    }
    look
}

fn latencies(overlay: &ChartModel) -> impl Iterator<Item = (usize, &LatencySeries)> {
    let spare = !style::crowded(overlay);
    overlay.each(|run| &run.series).filter(move |(_, s)| {
        let latency = matches!(s.measure, LatencyKind::Response | LatencyKind::Service);
        (s.main || (latency && spare)) && !s.curve.is_empty()
    })
}

fn range<'s>(series: impl Iterator<Item = &'s LatencySeries>) -> Option<(f64, f64)> {
    style::latency_range(series.filter_map(|s| {
        let first = s.curve.iter().find(|p| p.ns > 0)?;
        Some((first.ns, s.max_ns))
    }))
}

fn figure(
    id: &str,
    title: Option<String>,
    plot: Plot,
    all: &[&LatencySeries],
    lines: usize,
) -> Option<ChartFigure> {
    // What is hidden at first must not take the room: the service times of a saturated run lie
    // decades below its response times.
    let main = || all.iter().copied().filter(|s| s.main);
    let whole = id != "tail" || main().next().is_none();
    let (lo, hi) = if whole { range(all.iter().copied())? } else { range(main())? };
    // Where many I/Os share the largest value the last step is far from the last I/O.
    let last = |s: &&LatencySeries| (!s.curve.is_empty()).then(|| 1.0 / s.count.max(1) as f64);
    let deepest = all.iter().filter_map(last).fold(1.0, f64::min);
    let layout = style::layout(lines)
        .x_axis(style::latency_axis("latency", lo, hi))
        .y_axis(nines_axis(deepest));
    Some(ChartFigure {
        title,
        ..ChartFigure::new(
            id,
            460,
            [("xaxis", AxisKind::Time), ("yaxis", AxisKind::Nines)],
            plot,
            layout,
        )
    })
}

/// The share not finished yet, falling: every nine gets equal room.
fn nines_axis(deepest: f64) -> Axis {
    let end = deepest.max(1e-12).log10();
    let mut values = vec![1.0, 0.5];
    let mut text = vec!["0 %".to_owned(), "50 %".to_owned()];
    for k in 1..=(-end).ceil() as u32 {
        values.push(10f64.powi(-(k as i32)));
        text.push(format::nines_label(k));
    }
    style::axis("I/Os finished")
        .type_(AxisType::Log)
        .range(vec![0.05, end - 0.15])
        .tick_mode(TickMode::Array)
        .tick_values(values)
        .tick_text(text)
}

/// The curve, solid where it is resolved and dotted beyond.
fn nines_lines(plot: &mut Plot, series: &LatencySeries, look: &LineLook, with_iops: bool) {
    let mut points = series.curve.clone();
    // Where many I/Os share the largest value the line still reaches the last of them.
    let last = 1.0 / series.count.max(1) as f64;
    if points.last().is_some_and(|p| p.share > last * 1.5) {
        points.push(PercentilePoint { ns: series.max_ns, share: last, time_share: 0.0 });
    }
    let cut = points.partition_point(|p| p.share >= series.resolved_share);
    let rest = points.split_off(cut);
    let mut sure = points;
    // The line rises at a value and then runs to the next: the solid part ends on the rise.
    let joint = sure
        .last()
        .filter(|_| !rest.is_empty())
        .map(|p| PercentilePoint { share: series.resolved_share, ..*p });
    sure.extend(joint);
    let rest: Vec<PercentilePoint> = joint.into_iter().chain(rest).collect();
    let place = |p: &PercentilePoint| (p.ns as f64, style::round(p.share));
    plot.add_trace(line(sure.iter().map(place).collect(), series, look, with_iops));
    if rest.len() > 1 {
        let dotted = line(rest.iter().map(place).collect(), series, look, with_iops)
            .show_legend(false)
            .opacity(0.75)
            .hover_template(hover(
                &name(series, with_iops),
                "%{hovertext}<br>too few I/Os to call this measured",
            ))
            .line(
                Line::new().color(look.colour).width(1.4).dash(DashType::Dot).shape(LineShape::Vh),
            );
        plot.add_trace(dotted);
    }
}

fn name(series: &LatencySeries, with_iops: bool) -> String {
    if with_iops {
        legend(series)
    } else {
        let main = if series.main { ", all of it" } else { "" };
        format!("{}{main}", series.measure.words())
    }
}

/// The page fills in `%{hovertext}` of curves from their points, which keeps the file small.
fn hover(name: &str, text: &str) -> String {
    format!("{name}<br>{text}<extra></extra>")
}

fn line(
    points: Vec<(f64, f64)>,
    series: &LatencySeries,
    look: &LineLook,
    with_iops: bool,
) -> Box<Scatter<f64, f64>> {
    let name = name(series, with_iops);
    let (x, y) = points.into_iter().unzip();
    let main = series.main || !with_iops;
    let trace = Scatter::new(x, y)
        .name(&name)
        .mode(Mode::Lines)
        .line(
            Line::new()
                .color(look.colour)
                .width(if main { 2.0 } else { 1.2 })
                .dash(palette::dash(look.dash + usize::from(!main)))
                .shape(LineShape::Vh),
        )
        .hover_template(hover(&name, "%{hovertext}"));
    let trace = style::group(trace, look);
    if main { trace } else { trace.visible(Visible::LegendOnly) }
}

/// The 95 % intervals of the nines that have both ends, as a band around the line.
fn interval_band(series: &LatencySeries, look: &LineLook) -> Option<Box<Scatter<f64, f64>>> {
    let known: Vec<(&NineEntry, u64, f64, f64)> = series
        .nines
        .iter()
        .filter_map(|n| Some((n, n.ns?, n.lo_ns? as f64, n.hi_ns? as f64)))
        .collect();
    let share = |n: &NineEntry| 10f64.powi(-(n.k as i32));
    let ends = |end: fn(&(&NineEntry, u64, f64, f64)) -> f64| {
        known.iter().map(move |it| (end(it), share(it.0))).collect::<Vec<_>>()
    };
    // Down along the lower ends and back along the upper ones.
    let outline = ends(|it| it.2).into_iter().chain(ends(|it| it.3).into_iter().rev());
    let (x, y): (Vec<f64>, Vec<f64>) = outline.unzip();
    let said = || known.iter().map(|(n, ns, ..)| nine_words(n, *ns));
    let text: Vec<String> = said().chain(said().rev()).collect();
    let colour = palette::with_alpha(look.colour, 0.18);
    let band = Scatter::new(x, y)
        .name(escape(&series.name))
        .mode(Mode::Lines)
        .fill(Fill::ToSelf)
        .fill_color(colour.clone())
        .line(Line::new().color(colour).width(1.0))
        .hover_text_array(text)
        .hover_template(format!("{}<br>%{{hovertext}}<extra></extra>", escape(&series.name)))
        .show_legend(false);
    (!known.is_empty()).then(|| style::group(band, look))
}

fn nine_words(nine: &NineEntry, ns: u64) -> String {
    let time = |ns: Option<u64>| match ns {
        Some(ns) => format::duration_ns(ns),
        None => "unknown".to_owned(),
    };
    let event = match nine.episodes {
        Some(_) => "<br>one event holds most of the slower I/Os",
        None => "",
    };
    format!(
        "{} within {}<br>95 % interval: {} to {}{event}",
        format::nines_label(nine.k),
        format::duration_ns(ns),
        time(nine.lo_ns),
        time(nine.hi_ns)
    )
}
