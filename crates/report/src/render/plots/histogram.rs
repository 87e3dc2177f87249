//! Response-time histogram: counts, vertical lines at mean, nines, ceilings and maximum, and the
//! cumulative line on a second axis. One figure per operation; several runs lie over each other.

use plotly::common::{AxisSide, DashType, Fill, Font, Line, LineShape, Mode, Position, TickMode};
use plotly::layout::{Axis, AxisType};
use plotly::{Plot, Scatter};

use super::curve::percent_points;
use super::distribution::legend;
use super::figure::{AxisKind, Chart, ChartFigure, figure_per_name};
use super::look::{LineLook, escape};
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, LatencySeries};
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "histogram",
    title: "Response-time histogram",
    read: "Number of I/Os per bin on the left, on a logarithmic scale; the rising line is the \
           share finished so far, on the right. Vertical lines: mean, nines, ceilings and the \
           slowest I/O.",
    draw,
};

/// Drawn for an empty bin: below the axis, which starts at half an I/O.
const NOTHING: f64 = 1e-3;
/// Plot width that label places are reckoned with, pixels.
const WIDTH: f64 = 960.0;
/// Width of a label's letter, pixels.
const LETTER: f64 = 6.4;
/// Height of a row of labels, per cent of the plot's.
const ROW: f64 = 7.0;
/// Room right of the slowest I/O for its label, share of the axis.
const ROOM: f64 = 0.11;

/// One figure per operation.
fn draw(overlay: &ChartModel) -> Vec<ChartFigure> {
    figure_per_name(main_series(overlay).map(|(_, s)| s.name.as_str()), |i, name| {
        one(overlay, i, name)
    })
}

/// The main series of all runs that hold an I/O.
fn main_series(overlay: &ChartModel) -> impl Iterator<Item = (usize, &LatencySeries)> {
    overlay.each(|run| &run.series).filter(|(_, s)| s.main && !s.bins.is_empty())
}

/// A vertical line with its words.
pub struct ValueLine {
    ns: u64,
    words: String,
    colour: &'static str,
    dash: DashType,
    /// Labelled, or in words on hover only.
    labelled: bool,
    /// What it is hidden with.
    key: String,
}

fn one(overlay: &ChartModel, i: usize, name: &str) -> Option<ChartFigure> {
    let chosen = main_series(overlay).filter(|(_, s)| s.name == name);
    let layers: Vec<HistogramLayer<'_>> = chosen
        .map(|(run, s)| HistogramLayer { look: overlay.line_look(run, s.op, &s.name), series: s })
        .collect();
    let ceilings = overlay.runs.iter().flat_map(|r| r.ceilings.clone()).collect();
    let room = HistogramRoom::new(layers.iter().map(|l| l.series), marks(&layers, ceilings))?;
    let mut plot = Plot::new();
    for layer in &layers {
        plot.add_trace(counts(layer));
        plot.add_trace(cumulative(layer));
    }
    for (mark, row) in room.marks.iter().zip(&room.rows) {
        plot.add_trace(mark_line(mark, *row));
    }
    Some(room.figure(format!("histogram-{i}"), plot, 2 * layers.len()))
}

/// The distribution of a series, and how it is drawn.
pub struct HistogramLayer<'a> {
    pub look: LineLook,
    pub series: &'a LatencySeries,
}

/// What the axes must hold.
pub struct HistogramRoom {
    pub marks: Vec<ValueLine>,
    /// Row of each mark's label.
    pub rows: Vec<usize>,
    lo: f64,
    hi: f64,
    /// Height of the plot with all rows of labels, per cent.
    height: f64,
    /// The fullest bin.
    top: f64,
}

impl HistogramRoom {
    /// Room for these series and marks; none without an I/O.
    pub fn new<'a>(
        series: impl Iterator<Item = &'a LatencySeries> + Clone,
        marks: Vec<ValueLine>,
    ) -> Option<HistogramRoom> {
        let last = marks.iter().map(|m| m.ns).max().unwrap_or(0);
        let (lo, hi) = style::latency_range(series.clone().filter_map(|s| {
            let first = s.bins.iter().find(|b| b.count > 0)?;
            Some((first.lo_ns, s.max_ns.max(last)))
        }))?;
        let hi = hi * (hi / lo).powf(ROOM);
        let rows = label_rows(&marks, lo, hi);
        let height = 100.0 + ROW * (1.5 + rows.iter().copied().max().unwrap_or(0) as f64);
        let top = series.flat_map(|s| &s.bins).map(|b| b.count).max()? as f64;
        Some(HistogramRoom { marks, rows, lo, hi, height, top })
    }

    pub fn figure(&self, id: String, plot: Plot, entries: usize) -> ChartFigure {
        let layout = style::layout(entries)
            .x_axis(style::latency_axis("latency", self.lo, self.hi))
            .y_axis(count_axis(self.top, self.height))
            .y_axis2(share_axis(self.height));
        let axes = [("xaxis", AxisKind::Time), ("yaxis2", AxisKind::Percent)];
        ChartFigure::new(id, 470, axes, plot, layout)
    }
}

/// All vertical lines, ascending. Alone, a series shows mean, 2 to 5 nines and maximum; among
/// others, mean and 3 nines.
pub fn marks(layers: &[HistogramLayer<'_>], mut ceilings: Vec<u64>) -> Vec<ValueLine> {
    let alone = layers.len() == 1;
    let mut marks = Vec::new();
    for HistogramLayer { look, series } in layers {
        let mut add = |ns: u64, what: &str, dash: DashType| {
            marks.push(ValueLine {
                ns,
                words: format!("{what}: {}", format::duration_ns(ns)),
                colour: look.colour,
                dash,
                labelled: alone,
                key: look.key.clone(),
            });
        };
        add(series.mean_ns.round() as u64, "mean", DashType::Dash);
        let shown = if alone { 2..=5 } else { 3..=3 };
        for nine in series.nines.iter().filter(|n| shown.contains(&n.k)) {
            if let Some(ns) = nine.ns {
                add(ns, &format::nines_label(nine.k), DashType::Dot);
            }
        }
        if alone {
            add(series.max_ns, "max", DashType::DashDot);
        }
    }
    ceilings.sort_unstable();
    ceilings.dedup();
    marks.extend(ceilings.into_iter().map(|ns| ValueLine {
        ns,
        words: format!("ceiling: {}", format::duration_ns(ns)),
        colour: palette::CEILING,
        dash: DashType::Solid,
        labelled: true,
        key: String::new(),
    }));
    marks.sort_by_key(|m| m.ns);
    marks
}

/// Rows of labels; marks come sorted. A label starts at its line and runs to the right, so a line
/// is crossed by no label when every label stands above those that start under it.
fn label_rows(marks: &[ValueLine], lo: f64, hi: f64) -> Vec<usize> {
    let at = |ns: u64| (ns.max(1) as f64 / lo).ln() / (hi / lo).ln() * WIDTH;
    let mut rows = vec![0; marks.len()];
    for (i, mark) in marks.iter().enumerate().rev().filter(|(_, m)| m.labelled) {
        let end = at(mark.ns) + mark.words.chars().count() as f64 * LETTER + 10.0;
        let under = marks.iter().zip(&rows).skip(i + 1);
        rows[i] = under
            .filter(|(m, _)| m.labelled && at(m.ns) < end)
            .map(|(_, row)| row + 1)
            .max()
            .unwrap_or(0);
    }
    rows
}

pub fn mark_line(mark: &ValueLine, row: usize) -> Box<Scatter<u64, f64>> {
    // Above the line of the share, which ends at 100.
    let top = 100.0 + ROW * (row as f64 + 0.5);
    let x = mark.ns.max(1);
    let text = if mark.labelled { mark.words.clone() } else { String::new() };
    Scatter::new(vec![x, x], vec![0.0, top])
        .mode(Mode::LinesText)
        .line(Line::new().color(mark.colour).width(1.3).dash(mark.dash.clone()))
        .text_array(vec![String::new(), text])
        .text_position(Position::TopRight)
        .text_font(Font::new().size(11))
        .hover_template(format!("{}<extra></extra>", mark.words))
        .show_legend(false)
        .meta(mark.key.clone())
        .y_axis("y2")
}

/// I/Os per bin.
pub fn counts(layer: &HistogramLayer<'_>) -> Box<Scatter<u64, f64>> {
    let HistogramLayer { look, series } = layer;
    let show = |count: u64| if count == 0 { NOTHING } else { count as f64 };
    let mut x: Vec<u64> = series.bins.iter().map(|b| b.lo_ns).collect();
    let mut y: Vec<f64> = series.bins.iter().map(|b| show(b.count)).collect();
    let words = |b: &taillight_rundir::summary::Bin| {
        format!(
            "{} I/Os from {} to {}",
            format::count(b.count),
            format::duration_ns(b.lo_ns),
            format::duration_ns(b.hi_ns)
        )
    };
    let mut text: Vec<String> = series.bins.iter().map(words).collect();
    if let (Some(first), Some(last)) = (series.bins.first(), series.bins.last()) {
        x.insert(0, first.lo_ns);
        y.insert(0, NOTHING);
        text.insert(0, String::new());
        x.push(last.hi_ns);
        y.push(NOTHING);
        text.push(String::new());
    }
    let name = legend(series);
    let trace = Scatter::new(x, y)
        .name(&name)
        .mode(Mode::Lines)
        .line(Line::new().color(look.colour).width(1.2).shape(LineShape::Hv))
        .fill(Fill::ToZeroY)
        .fill_color(palette::with_alpha(look.colour, 0.22))
        .hover_text_array(text)
        .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"));
    style::group(trace, look)
}

/// The share finished so far, on the second axis.
pub fn cumulative(layer: &HistogramLayer<'_>) -> Box<Scatter<f64, f64>> {
    let HistogramLayer { look, series } = layer;
    let mut look = look.clone();
    look.key.push_str("cumulative");
    let (x, y) = percent_points(series).into_iter().unzip();
    let name = format!("{}, share finished", escape(&series.name));
    let line = Line::new().color(look.colour).width(2.0);
    let trace = Scatter::<f64, f64>::new(x, y)
        .name(&name)
        .mode(Mode::Lines)
        .line(line.dash(DashType::Dash).shape(LineShape::Vh))
        .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"))
        .y_axis("y2");
    style::group(trace, &look)
}

/// Counts on a logarithmic axis whose upper end leaves room for the labels.
fn count_axis(top: f64, height: f64) -> Axis {
    let lo = 0.5f64.log10();
    let hi = (top * 1.3).log10();
    let decades: Vec<f64> = (0..=hi.floor() as i32).map(|d| 10f64.powi(d)).collect();
    let text = decades.iter().map(|v| style::short_tick(*v)).collect();
    style::axis("I/Os per bin")
        .type_(AxisType::Log)
        .range(vec![lo, lo + (hi - lo) * height / 100.0])
        .tick_mode(TickMode::Array)
        .tick_values(decades)
        .tick_text(text)
}

fn share_axis(height: f64) -> Axis {
    let values = vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0];
    let text = values.iter().map(|v| format!("{v} %")).collect();
    style::axis("I/Os finished")
        .range(vec![0.0, height])
        .tick_mode(TickMode::Array)
        .tick_values(values)
        .tick_text(text)
        .show_grid(false)
        .side(AxisSide::Right)
        .overlaying("y")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(ns: u64) -> ValueLine {
        ValueLine {
            ns,
            words: "99.99 %: 1.20 ms".to_owned(),
            colour: "#000000",
            dash: DashType::Solid,
            labelled: true,
            key: String::new(),
        }
    }

    #[test]
    fn no_label_is_crossed() {
        let marks = [mark(1_000), mark(1_100), mark(1_200), mark(900_000)];
        assert_eq!(label_rows(&marks, 500.0, 1e6), [2, 1, 0, 0]);
    }
}
