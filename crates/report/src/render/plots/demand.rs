//! Demand: response time against the rate achieved, and both against the I/Os outstanding.

use plotly::common::{DashType, Line, Marker, MarkerSymbol, Mode, Position};
use plotly::layout::AxisType;
use plotly::{Plot, Scatter};

use super::figure::{AxisKind, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, DemandCurve, DemandMark, DemandResult};
use crate::model::labels;
use crate::render::palette;

pub const DEMAND: Chart = Chart {
    id: "demand",
    title: "Demand intensity: response time against achieved rate",
    read: "Demand rises along each curve. The knee is the lowest demand with at least 98 % of the \
           highest rate; beyond it more demand only waits. There is none where the rate still rises \
           at the end, or does not rise at all.",
    draw: draw_demand,
};

pub const OUTSTANDING: Chart = Chart {
    id: "outstanding",
    title: "Against all I/Os outstanding",
    read: "Workers times queue depth, whatever makes it up. Where curves part, it matters what does.",
    draw: draw_outstanding,
};

fn draw_demand(charts: &ChartModel) -> Vec<ChartFigure> {
    let Some(sweep) = charts.sweep.as_ref() else { return Vec::new() };
    let curves = &sweep.curves;
    let points = || curves.iter().flat_map(|c| &c.points);
    let ends = points().map(|p| (p.mean_ns as u64, p.mean_ns.ceil() as u64));
    let ends = ends.chain(sweep.ceiling_ns.map(|ns| (ns, ns)));
    let Some((lo, hi)) = style::latency_range(ends) else { return Vec::new() };
    let most = points().map(|p| p.rate).fold(0.0, f64::max);
    let coloured = coloured(curves);
    let figure = |(part, some): (usize, &[(&'static str, &DemandCurve)])| {
        let mut plot = Plot::new();
        for (colour, curve) in some {
            plot.add_trace(demand_line(colour, curve));
        }
        for (colour, curve) in some.iter().filter(|_| sweep.marks.is_empty()) {
            if let Some(mark) = knee_mark(colour, curve) {
                plot.add_trace(mark);
            }
        }
        if let Some(ns) = sweep.ceiling_ns {
            plot.add_trace(ceiling_line(ns, most * 1.08));
        }
        if !sweep.marks.is_empty() {
            plot.add_trace(chosen_marks(&sweep.marks));
        }
        let layout = style::layout(some.len())
            .x_axis(style::axis("operations a second achieved").range(vec![0.0, most * 1.08]))
            .y_axis(style::latency_axis("mean response time", lo, hi));
        let axes = [("xaxis", AxisKind::Number), ("yaxis", AxisKind::Time)];
        let id = if part == 0 { "demand".to_owned() } else { format!("demand-{part}") };
        let made = ChartFigure::new(id, 440, axes, plot, layout);
        ChartFigure { half: some.len() < curves.len(), ..made }
    };
    coloured.chunks(style::even(curves.len(), style::MOST_LINES)).enumerate().map(figure).collect()
}

/// The curves with their colours: from dark to light where three or more differ in a number.
fn coloured(curves: &[DemandCurve]) -> Vec<(&'static str, &DemandCurve)> {
    let names: Vec<&str> = curves.iter().map(|c| c.name.as_str()).collect();
    let colour = |(nth, curve)| (palette::of_setting(nth, &names), curve);
    curves.iter().enumerate().map(colour).collect()
}

fn demand_line(colour: &'static str, curve: &DemandCurve) -> Box<Scatter<f64, f64>> {
    let trace = Scatter::new(
        curve.points.iter().map(|p| style::round(p.rate)).collect(),
        curve.points.iter().map(|p| style::round(p.mean_ns)).collect(),
    );
    styled(trace, colour, curve)
}

/// A line of a curve, with the demand of each point in words.
fn styled(
    trace: Box<Scatter<f64, f64>>,
    colour: &'static str,
    curve: &DemandCurve,
) -> Box<Scatter<f64, f64>> {
    let name = match curve.name.as_str() {
        "" => &curve.demand,
        name => name,
    };
    let name = escape(&labels::humanize(name));
    let words = curve.points.iter().map(|p| {
        let (rate, time) = (format::rate(p.rate), format::duration(p.mean_ns));
        escape(&format!("{} {}: {rate} a second, {time}", labels::humanize(&curve.demand), p.label))
    });
    trace
        .name(&name)
        .meta(format!("demand|{name}"))
        .mode(Mode::LinesMarkers)
        .marker(Marker::new().size(6).color(colour))
        .line(Line::new().color(colour).width(2.0))
        .hover_text_array(words.collect())
        .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"))
}

fn ceiling_line(ns: u64, end: f64) -> Box<Scatter<f64, f64>> {
    let words = format!("ceiling: {}", format::duration_ns(ns));
    Scatter::new(vec![0.0, end], vec![ns as f64, ns as f64])
        .name(&words)
        .mode(Mode::Lines)
        .line(Line::new().color(palette::CEILING).width(1.5).dash(DashType::Dash))
        .hover_template(format!("{words}<extra></extra>"))
}

/// The operating points, each with its name; neighbours in the list at one place share a mark.
fn chosen_marks(marks: &[DemandMark]) -> Box<Scatter<f64, f64>> {
    let at = |m: &DemandMark| (style::round(m.rate), style::round(m.mean_ns));
    let mut places: Vec<(f64, f64)> = marks.iter().map(at).collect();
    places.dedup();
    let of = |place: &(f64, f64), text: fn(&DemandMark) -> &str, join: &str| {
        let here = marks.iter().filter(|m| at(m) == *place).map(text);
        escape(&here.collect::<Vec<_>>().join(join))
    };
    let (x, y) = places.iter().copied().unzip();
    Scatter::new(x, y)
        .name("operating points")
        .mode(Mode::MarkersText)
        .marker(Marker::new().size(15).symbol(MarkerSymbol::DiamondOpen).color(palette::CEILING))
        .text_array(places.iter().map(|p| of(p, |m| &m.name, ", ")).collect())
        .text_position(Position::TopLeft)
        .hover_text_array(places.iter().map(|p| of(p, |m| &m.text, "<br>")).collect())
        .hover_template("%{hovertext}<extra></extra>")
}

fn knee_mark(colour: &'static str, curve: &DemandCurve) -> Option<Box<Scatter<f64, f64>>> {
    let point = curve.points.get(curve.knee?)?;
    let text = escape(&labels::humanize(&curve.text));
    let marker = Marker::new().size(15).symbol(MarkerSymbol::DiamondOpen).color(colour);
    Some(
        Scatter::new(vec![style::round(point.rate)], vec![style::round(point.mean_ns)])
            .name(escape(&format!("knee: {} {}", labels::humanize(&curve.demand), point.label)))
            .mode(Mode::Markers)
            .marker(marker)
            .hover_template(format!("{text}<extra></extra>")),
    )
}

/// Two figures of several curves; none where the demand of each point is all that is outstanding.
fn draw_outstanding(charts: &ChartModel) -> Vec<ChartFigure> {
    let curves = charts.sweep.as_ref().map_or(&[][..], |s| &s.curves);
    let points = || curves.iter().flat_map(|c| &c.points);
    if curves.len() < 2 || points().all(|p| p.outstanding as f64 == p.demand) {
        return Vec::new();
    }
    let most = points().map(|p| p.rate).fold(0.0, f64::max);
    let times = points().map(|p| (p.mean_ns as u64, p.mean_ns.ceil() as u64));
    let Some((lo, hi)) = style::latency_range(times) else { return Vec::new() };
    let figure = |id: &str, title: &str, of: fn(&DemandResult) -> f64, y, kind| {
        let mut plot = Plot::new();
        for (colour, curve) in coloured(curves) {
            let at = |p: &DemandResult| (p.outstanding as f64, style::round(of(p)));
            let x = curve.points.iter().map(|p| at(p).0).collect();
            let y = curve.points.iter().map(|p| at(p).1).collect();
            plot.add_trace(styled(Scatter::new(x, y), colour, curve));
        }
        let x = style::axis("I/Os outstanding").type_(AxisType::Log);
        let layout = style::layout(curves.len()).x_axis(x).y_axis(y);
        let made =
            ChartFigure::new(format!("outstanding-{id}"), 380, [("yaxis", kind)], plot, layout);
        ChartFigure { title: Some(title.to_owned()), half: true, ..made }
    };
    let rate = style::axis("operations a second").range(vec![0.0, most * 1.05]);
    let time = style::latency_axis("mean response time", lo, hi);
    vec![
        figure("rate", "Operations a second", |p| p.rate, rate, AxisKind::Number),
        figure("mean", "Mean response time", |p| p.mean_ns, time, AxisKind::Time),
    ]
}
