//! Quantile difference plot (shift function, Doksum 1974) of a comparison: the ratio of each quantile of new to that
//! of base, from 10 % on, with its interval and margin.

use plotly::Plot;
use plotly::Scatter;
use plotly::common::{DashType, Fill, Line, LineShape, Marker, Mode, TickMode};
use plotly::layout::AxisType;
use taillight_core::Percentile;
use taillight_rundir::compare::ComparedFigure;

use super::figure::{AxisKind, Chart, ChartFigure, figure_per_name};
use super::style;
use crate::format;
use crate::model::charts::ChartModel;
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "shift",
    title: "Difference of each quantile",
    read: "New over base, quantile by quantile: above the line new is slower. The coloured band is the 95 % \
           interval of each quantile by itself; the grey strip is the margin within which a difference \
           counts as none. A dotted line has no interval: there it is undecided.",
    draw,
};

fn draw(charts: &ChartModel) -> Vec<ChartFigure> {
    let Some(found) = &charts.compare else { return Vec::new() };
    figure_per_name(found.quantiles.iter().map(|q| q.op.name()), |nth, name| {
        let of = found.quantiles.iter().filter(|q| q.op.name() == name);
        let mut points: Vec<ShiftPoint<'_>> = of.filter_map(ShiftPoint::of).collect();
        points.sort_by(|a, b| b.share.total_cmp(&a.share));
        figure(nth, &points)
    })
}

/// A quantile at its place.
struct ShiftPoint<'a> {
    /// Share of I/Os above it.
    share: f64,
    ratio: f64,
    of: &'a ComparedFigure,
}

impl<'a> ShiftPoint<'a> {
    /// None below 10 %, where a clock's resolution is all there is to see.
    fn of(of: &'a ComparedFigure) -> Option<ShiftPoint<'a>> {
        let p: Percentile = of.figure.strip_prefix('p')?.parse().ok()?;
        let share = p.tail_share();
        let ratio = of.ratio.or(of.base.zip(of.new).map(|(base, new)| new / base))?;
        (share <= 0.9 && share > 0.0).then_some(ShiftPoint { share, ratio, of })
    }

    fn ends(&self) -> Option<(f64, f64)> {
        self.of.lo.zip(self.of.hi)
    }
}

fn figure(nth: usize, points: &[ShiftPoint<'_>]) -> Option<ChartFigure> {
    let (first, last) = (points.first()?.share, points.last()?.share);
    let mut plot = Plot::new();
    let margin = |end: fn(f64) -> f64| edge(points, |p| end(1.0 + p.of.margin), "#7F8794", 0.0);
    plot.add_trace(margin(|m| 1.0 / m));
    plot.add_trace(shaded(margin(|m| m), palette::HUES[6], 0.18, "margin"));
    let colour = palette::of_run(1);
    let known: Vec<&ShiftPoint<'_>> = points.iter().filter(|p| p.ends().is_some()).collect();
    let end = |of: fn((f64, f64)) -> f64| {
        let (x, y) = known.iter().filter_map(|p| Some((p.share, of(p.ends()?)))).unzip();
        Scatter::new(x, y).mode(Mode::Lines).line(Line::new().color(colour).width(0.0))
    };
    plot.add_trace(end(|ends| ends.0).show_legend(false).hover_template("<extra></extra>"));
    plot.add_trace(shaded(end(|ends| ends.1), colour, 0.22, "95 % interval"));
    plot.add_trace(line(points, None));
    plot.add_trace(line(points, Some(())));
    let ends = points.iter().flat_map(|p| {
        let (lo, hi) = p.ends().unwrap_or((p.ratio, p.ratio));
        [lo, hi, p.ratio, 1.0 + p.of.margin, 1.0 / (1.0 + p.of.margin)]
    });
    let named = named(points);
    let shares: Vec<f64> = named.iter().map(|p| p.share).collect();
    let labels = named.iter().map(|p| label(p.of)).collect();
    let layout = style::layout(3)
        .x_axis(
            style::axis("quantile")
                .type_(AxisType::Log)
                .range(vec![first.log10() + 0.05, last.log10() - 0.1])
                .tick_mode(TickMode::Array)
                .tick_values(shares)
                .tick_text(labels),
        )
        .y_axis(style::ratio_axis("new over base", ends))
        .shapes(vec![
            style::no_difference().x_ref("paper").y_ref("y").x0(0.0).x1(1.0).y0(1.0).y1(1.0),
        ]);
    Some(ChartFigure::new(format!("shift-{nth}"), 420, [] as [(&str, AxisKind); 0], plot, layout))
}

/// Quantiles that have room for their name, the deep ones first.
fn named<'a>(points: &'a [ShiftPoint<'a>]) -> Vec<&'a ShiftPoint<'a>> {
    let mut named: Vec<&ShiftPoint<'_>> = Vec::new();
    for point in points.iter().rev() {
        if named.last().is_none_or(|last| (point.share / last.share).log10() > 0.25) {
            named.push(point);
        }
    }
    named
}

fn label(of: &ComparedFigure) -> String {
    format!("{} %", of.figure.trim_start_matches('p'))
}

/// An edge that stands until the next quantile.
fn edge(
    points: &[ShiftPoint<'_>],
    at: impl Fn(&ShiftPoint<'_>) -> f64,
    colour: &'static str,
    width: f64,
) -> Box<Scatter<f64, f64>> {
    let (x, y) = points.iter().map(|p| (p.share, style::round(at(p)))).unzip();
    Scatter::new(x, y)
        .mode(Mode::Lines)
        .line(Line::new().color(colour).width(width).shape(LineShape::Hvh))
        .show_legend(false)
        .hover_template("<extra></extra>")
}

/// Filled down to the trace before it.
fn shaded(
    trace: Box<Scatter<f64, f64>>,
    colour: &str,
    alpha: f64,
    name: &str,
) -> Box<Scatter<f64, f64>> {
    trace
        .fill(Fill::ToNextY)
        .fill_color(palette::with_alpha(colour, alpha))
        .name(name)
        .show_legend(true)
        .hover_template("<extra></extra>")
}

/// The quantiles up to the last that has an interval, or (`without`) those from that one on.
fn line(points: &[ShiftPoint<'_>], without: Option<()>) -> Box<Scatter<f64, f64>> {
    let last = points.iter().rposition(|p| p.ends().is_some());
    let shown = match (without, last) {
        (None, last) => &points[..last.map_or(0, |last| last + 1)],
        (Some(()), Some(last)) if last + 1 == points.len() => &points[..0],
        (Some(()), last) => &points[last.unwrap_or(0)..],
    };
    let (x, y): (Vec<f64>, Vec<f64>) =
        shown.iter().map(|p| (p.share, style::round(p.ratio))).unzip();
    let dash = if without.is_some() { DashType::Dot } else { DashType::Solid };
    let colour = if without.is_some() { palette::HUES[6] } else { palette::of_run(1) };
    Scatter::new(x, y)
        .name(if without.is_some() { "no interval" } else { "new over base" })
        .mode(Mode::LinesMarkers)
        .marker(Marker::new().size(6).color(colour))
        .line(Line::new().color(colour).width(2.0).dash(dash))
        .show_legend(!shown.is_empty())
        .hover_text_array(shown.iter().map(|p| hover_text(p)).collect())
        .hover_template("%{hovertext}<extra></extra>")
}

fn hover_text(point: &ShiftPoint<'_>) -> String {
    let time = |ns: Option<f64>| match ns {
        Some(ns) => format::duration(ns),
        None => "unknown".to_owned(),
    };
    let interval = point.ends().map_or("no interval: undecided".to_owned(), |(lo, hi)| {
        format!("95 % interval {} to {}", style::change(lo), style::change(hi))
    });
    format!(
        "{}: {} to {}, {}<br>{interval}",
        label(point.of),
        time(point.of.base),
        time(point.of.new),
        style::change(point.ratio)
    )
}

#[cfg(test)]
mod tests {
    use taillight_core::OpKind;
    use taillight_rundir::compare::CompareVerdict;

    use super::*;

    #[test]
    fn the_band_the_margin_and_what_is_undecided_are_drawn() {
        let figure = |figure: &str, ends: Option<(f64, f64)>| ComparedFigure {
            op: OpKind::Read,
            figure: figure.to_owned(),
            base: Some(100.0),
            new: Some(130.0),
            ratio: ends.map(|_| 1.3),
            lo: ends.map(|e| e.0),
            hi: ends.map(|e| e.1),
            p: None,
            p_ranks: None,
            position: None,
            margin: 0.1,
            verdict: CompareVerdict::Undecided,
            needs: None,
            why: None,
        };
        let all = [figure("p1", None), figure("p50", Some((1.1, 1.5))), figure("p99.9", None)];
        let points: Vec<ShiftPoint<'_>> = all.iter().filter_map(ShiftPoint::of).collect();
        assert_eq!(points.len(), 2, "below 10 % nothing is shown");
        let text = super::figure(0, &points).expect("a figure").plot.to_json();
        for wanted in ["margin", "95 % interval", "no interval", "50 %", "99.9 %", "+30 %"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
    }
}
