//! A sweep: figures over a field, and over two fields.

use plotly::common::{
    ColorBar, ColorScale, ColorScaleElement, ErrorData, ErrorType, Line, Marker, Mode, TickMode,
    Title, Visible,
};
use plotly::layout::{Axis, AxisType};
use plotly::{HeatMap, Plot, Scatter};

use super::figure::{AxisKind, ButtonRow, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, RoundSpread, SweepAxis, SweepData, SweepPoint};
use crate::render::palette;

pub const LINES: Chart = Chart {
    id: "sweep",
    title: "Sweep",
    read: "Each point is a run. Over several rounds rates are averages, means are of all their I/Os, of \
           percentiles the largest round counts; bars go from the smallest to the largest round. \
           One line for each combination of the other fields.",
    draw: draw_lines,
};

pub const HEAT: Chart = Chart {
    id: "sweep-heat",
    title: "Two fields of the sweep",
    read: "One cell for each combination of values. Yellow is high: a high rate, or a high latency.",
    draw: draw_heat,
};

/// A figure of a point: heading, value, whether it is a latency.
struct PointFigure {
    id: &'static str,
    title: &'static str,
    of: fn(&SweepPoint) -> Option<RoundSpread>,
    unit: FigureUnit,
}

/// How a figure is written and drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FigureUnit {
    Rate,
    Latency,
    Percent,
}

const FIGURES: [PointFigure; 3] = [
    PointFigure {
        id: "rate",
        title: "Operations a second",
        of: |p| Some(p.iops),
        unit: FigureUnit::Rate,
    },
    PointFigure { id: "mean", title: "Mean latency", of: |p| p.mean_ns, unit: FigureUnit::Latency },
    PointFigure { id: "p99", title: "99 % latency", of: |p| p.p99_ns, unit: FigureUnit::Latency },
];
/// Of the whole machine, and so of a run.
const CPU: PointFigure = PointFigure {
    id: "cpu",
    title: "CPU use of the machine",
    of: |p| p.cpu_percent,
    unit: FigureUnit::Percent,
};

impl PointFigure {
    fn words(&self, value: f64) -> String {
        match self.unit {
            FigureUnit::Latency => format::duration(value),
            FigureUnit::Rate => format::rate(value),
            FigureUnit::Percent => format!("{value:.1} %"),
        }
    }
}

/// Places of the values on all axes but those in `but`, and the series: what a line or a cell map has
/// in common.
fn rest(point: &SweepPoint, but: &[usize]) -> (Vec<usize>, String) {
    let others = point.at.iter().enumerate().filter(|(axis, _)| !but.contains(axis));
    (others.map(|(_, at)| *at).collect(), point.series.clone())
}

/// Every `rest` in order of appearance, with what it is called.
fn families(sweep: &SweepData, but: &[usize]) -> Vec<((Vec<usize>, String), String)> {
    let mut all: Vec<((Vec<usize>, String), String)> = Vec::new();
    let several = sweep.points.iter().any(|p| p.series != sweep.points[0].series);
    for point in &sweep.points {
        let key = rest(point, but);
        if all.iter().any(|(known, _)| *known == key) {
            continue;
        }
        let axes = sweep.axes.iter().zip(&point.at).enumerate();
        let others = axes.filter(|(axis, _)| !but.contains(axis));
        let mut words: Vec<String> = others
            .filter_map(|(_, (axis, at))| Some(format!("{} {}", axis.name, axis.labels.get(*at)?)))
            .collect();
        if several || words.is_empty() {
            words.push(point.series.clone());
        }
        all.push((key, escape(&words.join(", "))));
    }
    all
}

/// The axis with the most values, numbers first.
fn widest(sweep: &SweepData, but: Option<usize>) -> Option<usize> {
    let axes = sweep.axes.iter().enumerate().filter(|(i, _)| Some(*i) != but);
    axes.max_by_key(|(i, axis)| (axis.labels.len(), std::cmp::Reverse(*i))).map(|(i, _)| i)
}

fn axis_of(axis: &SweepAxis) -> Axis {
    let kind = if axis.log { AxisType::Log } else { AxisType::Linear };
    style::axis(&escape(&axis.name))
        .type_(kind)
        .tick_mode(TickMode::Array)
        .tick_values(axis.positions.clone())
        .tick_text(axis.labels.iter().map(|l| escape(l)).collect())
}

/// More lines than this are shown by series, one at a time.
const MOST_LINES: usize = 8;

fn draw_lines(charts: &ChartModel) -> Vec<ChartFigure> {
    let Some(sweep) = charts.sweep.as_ref() else { return Vec::new() };
    // Demand lies along the axis wherever there is one.
    let demand = sweep.curves.first().map(|c| c.demand.as_str());
    let demand = sweep.axes.iter().position(|axis| Some(axis.name.as_str()) == demand);
    let Some(along) = demand.or_else(|| widest(sweep, None)) else { return Vec::new() };
    let all = families(sweep, &[along]);
    let figures = FIGURES.iter().filter_map(|figure| lines(sweep, along, &all, figure));
    let named = |figure: ChartFigure| match (demand, figure.id.as_str()) {
        (Some(_), "sweep-rate") => {
            ChartFigure { title: Some("Demand variation: operations a second".into()), ..figure }
        }
        _ => figure,
    };
    figures.map(named).collect()
}

fn lines(
    sweep: &SweepData,
    along: usize,
    all: &[((Vec<usize>, String), String)],
    figure: &PointFigure,
) -> Option<ChartFigure> {
    let axis = &sweep.axes[along];
    let (mut plot, mut ends) = (Plot::new(), Vec::new());
    let mut series: Vec<&str> = all.iter().map(|((_, series), _)| series.as_str()).collect();
    series.dedup();
    series.sort_unstable();
    series.dedup();
    let by_series = all.len() > MOST_LINES && series.len() > 1;
    let mut drawn: Vec<&str> = Vec::new();
    for (nth, (key, name)) in all.iter().enumerate() {
        let mut points: Vec<(f64, RoundSpread)> = sweep
            .points
            .iter()
            .filter(|p| rest(p, &[along]) == *key)
            .filter_map(|p| Some((*axis.positions.get(p.at[along])?, (figure.of)(p)?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        ends.extend(points.iter().map(|(_, v)| (v.min as u64, v.max.ceil() as u64)));
        if points.is_empty() {
            continue;
        }
        let colour = if by_series { drawn.iter().filter(|s| **s == key.1).count() } else { nth };
        let trace = line(name, colour, &points, figure);
        let hidden = by_series && key.1 != series[0];
        plot.add_trace(if hidden { trace.visible(Visible::False) } else { trace });
        drawn.push(&key.1);
    }
    let (lo, hi) = style::latency_range(ends.into_iter())?;
    let latency = figure.unit == FigureUnit::Latency;
    let y = match latency {
        true => style::latency_axis(figure.title, lo, hi),
        false => style::axis(figure.title).range(vec![0.0, hi]),
    };
    let kind = if latency { AxisKind::Time } else { AxisKind::Number };
    let layout = style::layout(all.len()).x_axis(axis_of(axis)).y_axis(y);
    let id = format!("sweep-{}", figure.id);
    let made = ChartFigure::new(id, 380, [("yaxis", kind)], plot, layout);
    let choices = series
        .iter()
        .map(|wanted| ((*wanted).to_owned(), drawn.iter().map(|of| of == wanted).collect()));
    let switches = if by_series { vec![ButtonRow::show(choices)] } else { Vec::new() };
    Some(ChartFigure { title: Some(figure.title.to_owned()), half: true, switches, ..made })
}

fn line(
    name: &str,
    nth: usize,
    points: &[(f64, RoundSpread)],
    figure: &PointFigure,
) -> Box<Scatter<f64, f64>> {
    let colour = palette::of_run(nth);
    let words = |(_, v): &(f64, RoundSpread)| match v.min < v.max {
        false => figure.words(v.value),
        true => format!(
            "{} ({} to {})",
            figure.words(v.value),
            figure.words(v.min),
            figure.words(v.max)
        ),
    };
    let trace = Scatter::new(
        points.iter().map(|p| p.0).collect(),
        points.iter().map(|p| style::round(p.1.value)).collect(),
    )
    .name(name)
    .mode(Mode::LinesMarkers)
    .marker(Marker::new().size(6).color(colour))
    .line(Line::new().color(colour).width(2.0).dash(palette::dash(nth / palette::HUES.len())))
    .hover_text_array(points.iter().map(words).collect())
    .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"));
    if points.iter().all(|(_, v)| v.min == v.max) {
        return trace;
    }
    let bars = ErrorData::new(ErrorType::Data)
        .symmetric(false)
        .array(points.iter().map(|(_, v)| v.max - v.value).collect())
        .array_minus(points.iter().map(|(_, v)| v.value - v.min).collect())
        .color(colour)
        .thickness(1.4)
        .width(4);
    trace.error_y(bars)
}

fn draw_heat(charts: &ChartModel) -> Vec<ChartFigure> {
    let Some(sweep) = charts.sweep.as_ref() else { return Vec::new() };
    let Some(across) = widest(sweep, None) else { return Vec::new() };
    let Some(up) = widest(sweep, Some(across)) else { return Vec::new() };
    let figures = FIGURES.iter().filter(|f| f.id != "mean").chain([&CPU]);
    figures.filter_map(|figure| heat(sweep, (across, up), figure)).collect()
}

fn heat(
    sweep: &SweepData,
    (across, up): (usize, usize),
    figure: &PointFigure,
) -> Option<ChartFigure> {
    let mut all = families(sweep, &[across, up]);
    all.retain(|(key, _)| {
        let of = |p: &&SweepPoint| rest(p, &[across, up]) == *key;
        sweep.points.iter().filter(of).any(|p| (figure.of)(p).is_some())
    });
    let values = sweep.points.iter().filter_map(figure.of).map(|v| v.value);
    let values: Vec<f64> = values.filter(|v| *v > 0.0).collect();
    let (lo, hi) = values.iter().fold((f64::MAX, 0f64), |(lo, hi), v| (lo.min(*v), hi.max(*v)));
    if values.is_empty() {
        return None;
    }
    let mut plot = Plot::new();
    for (nth, (key, name)) in all.iter().enumerate() {
        let of = |p: &&SweepPoint| rest(p, &[across, up]) == *key;
        let points: Vec<&SweepPoint> = sweep.points.iter().filter(of).collect();
        let map = cells(sweep, (across, up), &points, figure, (lo, hi)).name(name);
        plot.add_trace(if nth == 0 { map } else { map.visible(Visible::False) });
    }
    let places = |axis: &SweepAxis| {
        style::axis(&escape(&axis.name))
            .show_grid(false)
            .tick_mode(TickMode::Array)
            .tick_values((0..axis.labels.len()).map(|n| n as f64).collect())
            .tick_text(axis.labels.iter().map(|l| escape(l)).collect())
    };
    let layout =
        style::layout(0).x_axis(places(&sweep.axes[across])).y_axis(places(&sweep.axes[up]));
    let made = ChartFigure::new(format!("sweep-heat-{}", figure.id), 380, [], plot, layout);
    let choices = all.iter().enumerate().map(|(wanted, (_, name))| {
        (name.clone(), (0..all.len()).map(|nth| nth == wanted).collect())
    });
    let switches = if all.len() > 1 { vec![ButtonRow::show(choices)] } else { Vec::new() };
    Some(ChartFigure { title: Some(figure.title.to_owned()), half: true, switches, ..made })
}

fn cells(
    sweep: &SweepData,
    (across, up): (usize, usize),
    points: &[&SweepPoint],
    figure: &PointFigure,
    (lo, hi): (f64, f64),
) -> Box<HeatMap<f64, f64, Vec<Option<f64>>>> {
    let (wide, high) = (sweep.axes[across].labels.len(), sweep.axes[up].labels.len());
    let value = |x: usize, y: usize| {
        let point = points.iter().find(|p| p.at[across] == x && p.at[up] == y)?;
        Some((figure.of)(point)?.value).filter(|v| *v > 0.0)
    };
    let grid = |y: usize| (0..wide).map(|x| value(x, y).map(|v| style::round(v.log10()))).collect();
    let words = |y: usize| {
        let cell = |x: usize| value(x, y).map_or("-".to_owned(), |v| figure.words(v));
        (0..wide).map(cell).collect::<Vec<String>>()
    };
    let scale = palette::HEAT.iter().map(|(at, c)| ColorScaleElement(*at, (*c).to_owned()));
    let ticks = if lo < hi { vec![lo, (lo * hi).sqrt(), hi] } else { vec![lo] };
    let bar = ColorBar::new()
        .title(Title::with_text(""))
        .thickness(12)
        .outline_width(0)
        .tick_mode(TickMode::Array)
        .tick_vals(ticks.iter().map(|v| v.log10()).collect())
        .tick_text(ticks.iter().map(|v| figure.words(*v)).collect());
    HeatMap::new(
        (0..wide).map(|n| n as f64).collect(),
        (0..high).map(|n| n as f64).collect(),
        (0..high).map(grid).collect(),
    )
    .color_scale(ColorScale::Vector(scale.collect()))
    .zmin(lo.log10())
    .zmax(hi.log10().max(lo.log10() + 1e-6))
    .color_bar(bar)
    .hover_on_gaps(false)
    .hover_text_matrix((0..high).map(words).collect())
    .hover_template("%{hovertext}<extra></extra>")
}
