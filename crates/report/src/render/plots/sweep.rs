//! A sweep: rate, mean and 99 % latency as lines over one field; rate, 99 % latency and CPU use as colours over two.

use plotly::common::{
    ColorBar, ColorScale, ColorScaleElement, Fill, Line, Marker, Mode, TickMode, Title, Visible,
};
use plotly::layout::{Axis, AxisType};
use plotly::{HeatMap, Plot, Scatter};

use super::figure::{AxisKind, ButtonRow, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, RoundSpread, SweepAxis, SweepData, SweepPoint};
use crate::model::labels;
use crate::render::palette;

pub const LINES: Chart = Chart {
    id: "sweep",
    title: "Sweep",
    read: "Each point is a run. Over several rounds rates are averages, means are of all their I/Os, of \
           percentiles the largest round counts; the pale band goes from the smallest to the largest round. \
           One line for each combination of the other fields.",
    draw: draw_lines,
};

pub const HEAT: Chart = Chart {
    id: "sweep-heat",
    title: "Two fields of the sweep",
    read: "One cell for each combination of values. Yellow is high: a high rate, or a high latency.",
    draw: draw_heat,
};

/// A figure of a point: heading, value, unit.
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
    fn format(&self, value: f64) -> String {
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
            .filter_map(|(_, (axis, at))| {
                Some(format!("{} {}", labels::humanize(&axis.name), axis.labels.get(*at)?))
            })
            .collect();
        if several || words.is_empty() {
            words.push(point.series.clone());
        }
        all.push((key, escape(&words.join(", "))));
    }
    all
}

/// The axis with the most values; of several such axes the first.
fn widest(sweep: &SweepData, but: Option<usize>) -> Option<usize> {
    let axes = sweep.axes.iter().enumerate().filter(|(i, _)| Some(*i) != but);
    axes.max_by_key(|(i, axis)| (axis.labels.len(), std::cmp::Reverse(*i))).map(|(i, _)| i)
}

fn axis_of(axis: &SweepAxis) -> Axis {
    let kind = if axis.log { AxisType::Log } else { AxisType::Linear };
    style::axis(&escape(&labels::humanize(&axis.name)))
        .type_(kind)
        .tick_mode(TickMode::Array)
        .tick_values(axis.positions.clone())
        .tick_text(axis.labels.iter().map(|l| escape(l)).collect())
}

fn draw_lines(charts: &ChartModel) -> Vec<ChartFigure> {
    let Some(sweep) = charts.sweep.as_ref() else { return Vec::new() };
    // Demand lies along the axis wherever there is one.
    let demand = sweep.curves.first().map(|c| c.demand.as_str());
    let demand = sweep.axes.iter().position(|axis| Some(axis.name.as_str()) == demand);
    let Some(along) = demand.or_else(|| widest(sweep, None)) else { return Vec::new() };
    let all = families(sweep, &[along]);
    let mut figures = Vec::new();
    for figure in &FIGURES {
        let Some(ends) = ends(sweep, figure) else { continue };
        let parts = parts(&all);
        for (nth, (title, lines)) in parts.iter().enumerate() {
            let Some(mut made) = lines_of(sweep, along, lines, (figure, ends)) else { continue };
            let what = match demand.filter(|_| figure.id == "rate") {
                Some(_) => "Demand variation: operations a second",
                None => figure.title,
            };
            made.title =
                Some(if title.is_empty() { what.to_owned() } else { format!("{what}, {title}") });
            if nth > 0 {
                made.id = format!("{}-{nth}", made.id);
            }
            figures.push(made);
        }
    }
    figures
}

/// A line: what its points share, its name and its colour.
type FamilyLine = ((Vec<usize>, String), String, &'static str);

/// All lines in figures of at most eight: by series where there are several, with the words that tell the
/// figures apart.
fn parts(all: &[((Vec<usize>, String), String)]) -> Vec<(String, Vec<FamilyLine>)> {
    let coloured = |some: &[&((Vec<usize>, String), String)]| -> Vec<FamilyLine> {
        let names: Vec<&str> = some.iter().map(|(_, name)| name.as_str()).collect();
        let line = |(nth, it): (usize, &&((Vec<usize>, String), String))| {
            (it.0.clone(), it.1.clone(), palette::of_setting(nth, &names))
        };
        some.iter().enumerate().map(line).collect()
    };
    let mut series: Vec<&str> = all.iter().map(|((_, series), _)| series.as_str()).collect();
    series.sort_unstable();
    series.dedup();
    if all.len() <= style::MOST_LINES {
        return vec![(String::new(), coloured(&all.iter().collect::<Vec<_>>()))];
    }
    let mut parts = Vec::new();
    for of in &series {
        let some: Vec<_> = all.iter().filter(|((_, series), _)| series == of).collect();
        let lines = coloured(&some);
        let most = style::even(lines.len(), style::MOST_LINES);
        for (nth, part) in lines.chunks(most).enumerate() {
            let title = match (series.len() > 1, lines.len() > most) {
                (true, false) => (*of).to_owned(),
                (_, _) => {
                    let (from, all) = (nth * most, lines.len());
                    let lines = format!("lines {} to {} of {all}", from + 1, from + part.len());
                    if series.len() > 1 { format!("{of}: {lines}") } else { lines }
                }
            };
            parts.push((escape(&title), part.to_vec()));
        }
    }
    parts
}

/// The ends of a figure over the whole sweep.
fn ends(sweep: &SweepData, figure: &PointFigure) -> Option<(f64, f64)> {
    let known = sweep.points.iter().filter_map(figure.of);
    style::latency_range(known.map(|v| (v.min as u64, v.max.ceil() as u64)))
}

fn lines_of(
    sweep: &SweepData,
    along: usize,
    lines: &[FamilyLine],
    (figure, (lo, hi)): (&PointFigure, (f64, f64)),
) -> Option<ChartFigure> {
    let axis = &sweep.axes[along];
    let mut plot = Plot::new();
    let mut drawn = 0;
    for (key, name, colour) in lines {
        let mut points: Vec<(f64, RoundSpread)> = sweep
            .points
            .iter()
            .filter(|p| rest(p, &[along]) == *key)
            .filter_map(|p| Some((*axis.positions.get(p.at[along])?, (figure.of)(p)?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        if points.is_empty() {
            continue;
        }
        // Hidden together.
        let key = format!("sweep|{name}");
        if let Some(band) = spread(&points, colour) {
            plot.add_trace(band.meta(key.clone()));
        }
        plot.add_trace(line(name, colour, &points, figure).meta(key));
        drawn += 1;
    }
    let latency = figure.unit == FigureUnit::Latency;
    let y = match latency {
        true => style::latency_axis(figure.title, lo, hi),
        false => style::axis(figure.title).range(vec![0.0, hi]),
    };
    let kind = if latency { AxisKind::Time } else { AxisKind::Number };
    let layout = style::layout(lines.len()).x_axis(axis_of(axis)).y_axis(y);
    let id = format!("sweep-{}", figure.id);
    let made = ChartFigure::new(id, 380, [("yaxis", kind)], plot, layout);
    (drawn > 0).then_some(ChartFigure { half: true, ..made })
}

/// From the smallest to the largest round, as a band; none where there is one round.
fn spread(points: &[(f64, RoundSpread)], colour: &str) -> Option<Box<Scatter<f64, f64>>> {
    if points.iter().all(|(_, v)| v.min == v.max) {
        return None;
    }
    let there = points.iter().map(|(x, v)| (*x, style::round(v.min)));
    let back = points.iter().rev().map(|(x, v)| (*x, style::round(v.max)));
    let (x, y): (Vec<f64>, Vec<f64>) = there.chain(back).unzip();
    let colour = palette::with_alpha(colour, 0.18);
    let band = Scatter::new(x, y).mode(Mode::Lines).fill(Fill::ToSelf).fill_color(colour.clone());
    let band = band.line(Line::new().color(colour).width(1.0)).show_legend(false);
    Some(band.hover_template("<extra></extra>"))
}

fn line(
    name: &str,
    colour: &'static str,
    points: &[(f64, RoundSpread)],
    figure: &PointFigure,
) -> Box<Scatter<f64, f64>> {
    let words = |(_, v): &(f64, RoundSpread)| match v.min < v.max {
        false => figure.format(v.value),
        true => format!(
            "{} ({} to {})",
            figure.format(v.value),
            figure.format(v.min),
            figure.format(v.max)
        ),
    };
    Scatter::new(
        points.iter().map(|p| p.0).collect(),
        points.iter().map(|p| style::round(p.1.value)).collect(),
    )
    .name(name)
    .mode(Mode::LinesMarkers)
    .marker(Marker::new().size(6).color(colour))
    .line(Line::new().color(colour).width(2.0))
    .hover_text_array(points.iter().map(words).collect())
    .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"))
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
        style::axis(&escape(&labels::humanize(&axis.name)))
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
        let cell = |x: usize| value(x, y).map_or("-".to_owned(), |v| figure.format(v));
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
        .tick_text(ticks.iter().map(|v| figure.format(*v)).collect());
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
