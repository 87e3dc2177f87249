//! Latency distribution: I/Os per second in each of 50 bins per decade.

use plotly::common::{Fill, Line, Mode, Visible};
use plotly::layout::AxisType;
use plotly::{Plot, Scatter};
use serde_json::json;
use taillight_core::LatencyKind;
use taillight_rundir::summary::Bin;

use super::figure::{AxisKind, ButtonChoice, ButtonRow, Chart, ChartFigure};
use super::look::escape;
use super::style::{self, AxisScale};
use crate::format;
use crate::model::charts::{ChartModel, LatencySeries};
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "distribution",
    title: "Latency distribution",
    read: "How many I/Os per second took how long, in 50 bins per decade. The bins of a \
           line add up to its IOPS. Bumps far to the right are the tail: on the \
           linear scale they vanish, though programs wait for them.",
    draw,
};

/// Drawn for an empty bin: below every logarithmic range, and indistinguishable from zero on a
/// linear one, so that a lone bin in the tail is still a visible spike.
const NOTHING: f64 = 1e-9;

/// One figure: the main series, and of few runs also response and service times, hidden until the legend is clicked.
fn draw(overlay: &ChartModel) -> Vec<ChartFigure> {
    let mut plot = Plot::new();
    let (mut top, mut floor, mut lines) = (0f64, f64::INFINITY, 0);
    let crowded = overlay.runs.iter().flat_map(|r| &r.series).filter(|s| s.main).count() > 4;
    for (run, data) in overlay.runs.iter().enumerate() {
        for series in data.series.iter().filter(|s| is_drawn(s)) {
            if !series.main && style::crowded(overlay) {
                continue;
            }
            for bin in series.bins.iter().filter(|b| b.count > 0) {
                if series.main {
                    top = top.max(bin.per_s);
                }
                floor = floor.min(bin.per_s);
            }
            plot.add_trace(trace(overlay, run, series, crowded));
            lines += 1;
        }
    }
    // Hidden series take no room.
    let main = overlay.runs.iter().flat_map(|r| &r.series).filter(|s| s.main);
    let range = style::latency_range(main.filter_map(|s| {
        let first = s.bins.iter().find(|b| b.count > 0)?;
        Some((first.lo_ns, s.bins.iter().rfind(|b| b.count > 0)?.hi_ns))
    }));
    let Some((lo, hi)) = range.filter(|_| top > 0.0) else {
        return Vec::new();
    };
    let layout = style::layout(lines).x_axis(style::latency_axis("latency", lo, hi)).y_axis(
        style::axis("I/Os per second per bin")
            .type_(AxisType::Log)
            .range(AxisScale::Log.range(floor, top)),
    );
    vec![ChartFigure {
        switches: vec![switch(top, floor)],
        ..ChartFigure::new(
            "distribution",
            style::height(460, overlay),
            [("xaxis", AxisKind::Time), ("yaxis", AxisKind::Number)],
            plot,
            layout,
        )
    }]
}

fn is_drawn(series: &LatencySeries) -> bool {
    use taillight_core::LatencyKind::{Response, Service};
    let latency = series.main || matches!(series.measure, Response | Service);
    latency && !series.bins.is_empty()
}

fn switch(top: f64, floor: f64) -> ButtonRow {
    let choice = |label: &str, scale: AxisScale| ButtonChoice {
        label: label.to_owned(),
        data: json!({}),
        layout: json!({ "yaxis.type": scale.plotly(), "yaxis.range": scale.range(floor, top) }),
    };
    ButtonRow {
        label: "Vertical scale".to_owned(),
        choices: vec![choice("logarithmic", AxisScale::Log), choice("linear", AxisScale::Linear)],
    }
}

fn trace(
    overlay: &ChartModel,
    run: usize,
    series: &LatencySeries,
    crowded: bool,
) -> Box<dyn plotly::Trace> {
    let mut look = overlay.line_look(run, series.op, &series.name);
    if !series.main {
        look.key.push_str(series.measure.words());
    }
    let bins = padded(&series.bins);
    let x: Vec<f64> = bins.iter().map(|b| centre(b).round()).collect();
    let y: Vec<f64> =
        bins.iter().map(|b| if b.count == 0 { NOTHING } else { style::round(b.per_s) }).collect();
    let text: Vec<String> = bins.iter().map(hover).collect();
    let name = legend(series);
    let line = Line::new()
        .color(look.colour)
        .width(if series.main { 2.0 } else { 1.2 })
        .dash(palette::dash(look.dash + usize::from(!series.main)));
    let mut trace = Scatter::new(x, y)
        .name(&name)
        .mode(Mode::Lines)
        .line(line)
        .hover_text_array(text)
        .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"));
    trace = style::group(trace, &look);
    if series.main && !crowded {
        trace = trace.fill(Fill::ToZeroY).fill_color(palette::with_alpha(look.colour, 0.12));
    }
    if !series.main {
        trace = trace.visible(Visible::LegendOnly);
    }
    trace
}

/// `read · 12.3 k IOPS`.
pub fn legend(series: &LatencySeries) -> String {
    // Which latency a main line shows is not said, unless it is the end-to-end one.
    let what = match series.main && series.measure != LatencyKind::EndToEnd {
        true => String::new(),
        false => format!(" ({})", series.measure.words()),
    };
    format!("{}{what} · {} IOPS", escape(&series.name), format::short(series.iops))
}

fn hover(bin: &Bin) -> String {
    format!(
        "{} to {}<br>{} I/Os/s, {} in all",
        format::duration_ns(bin.lo_ns),
        format::duration_ns(bin.hi_ns),
        format::rate(bin.per_s),
        format::count(bin.count)
    )
}

/// The middle of a bin on the logarithmic axis.
fn centre(bin: &Bin) -> f64 {
    (bin.lo_ns.max(1) as f64 * bin.hi_ns.max(1) as f64).sqrt()
}

/// An empty bin at either end brings the line down to the axis.
fn padded(bins: &[Bin]) -> Vec<Bin> {
    let edge = |lo_ns: u64, hi_ns: u64| Bin { lo_ns, hi_ns, count: 0, per_s: 0.0 };
    let mut all = Vec::with_capacity(bins.len() + 2);
    if let Some(first) = bins.first() {
        let lo = (first.lo_ns as f64 * first.lo_ns as f64 / first.hi_ns.max(1) as f64) as u64;
        all.push(edge(lo.max(1), first.lo_ns.max(1)));
    }
    all.extend_from_slice(bins);
    if let Some(last) = bins.last() {
        let hi = last.hi_ns as f64 * last.hi_ns as f64 / last.lo_ns.max(1) as f64;
        all.push(edge(last.hi_ns, hi as u64));
    }
    all
}
