//! Forest of figures: the ratio of each with its interval and margin, one below the other.

use plotly::Plot;
use plotly::Scatter;
use plotly::common::{ErrorData, ErrorType, Line, Marker, Mode, TickMode};
use taillight_rundir::compare::{CompareVerdict, ComparedFigure};

use super::figure::{AxisKind, Chart, ChartFigure};
use super::style;
use crate::model::charts::ChartModel;
use crate::model::labels;
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "forest",
    title: "Figures and their intervals",
    read: "New over base with the 95 % interval, figure by figure. The grey bar is the margin within which a \
           difference counts as none. Of latencies, left is better; of operations per second, right.",
    draw,
};

/// Verdicts in the order of the legend, with their colours.
const VERDICTS: [(&str, CompareVerdict, &str); 4] = [
    ("worse", CompareVerdict::Worse, palette::CEILING),
    ("better", CompareVerdict::Better, palette::HUES[2]),
    ("equal", CompareVerdict::Equal, palette::HUES[0]),
    ("undecided", CompareVerdict::Undecided, palette::HUES[6]),
];

fn draw(charts: &ChartModel) -> Vec<ChartFigure> {
    charts.compare.as_ref().and_then(|found| figure(&found.figures)).into_iter().collect()
}

fn figure(figures: &[ComparedFigure]) -> Option<ChartFigure> {
    // The first one on top.
    let rows: Vec<(f64, &ComparedFigure, f64)> = figures
        .iter()
        .rev()
        .enumerate()
        .filter_map(|(row, figure)| Some((row as f64, figure, figure.ratio?)))
        .collect();
    if rows.is_empty() {
        return None;
    }
    let mut plot = Plot::new();
    for (row, figure, _) in &rows {
        let ends = vec![1.0 / (1.0 + figure.margin), 1.0 + figure.margin];
        let colour = palette::with_alpha(palette::HUES[6], 0.22);
        plot.add_trace(
            Scatter::new(ends, vec![*row; 2])
                .mode(Mode::Lines)
                .line(Line::new().color(colour).width(16.0))
                .show_legend(false)
                .hover_template("<extra></extra>"),
        );
    }
    for (name, verdict, colour) in VERDICTS {
        let of: Vec<_> = rows.iter().filter(|(_, figure, _)| figure.verdict == verdict).collect();
        if !of.is_empty() {
            plot.add_trace(points(name, colour, &of));
        }
    }
    let ends = rows.iter().flat_map(|(_, figure, ratio)| {
        let margin = 1.0 + figure.margin;
        [figure.lo.unwrap_or(*ratio), figure.hi.unwrap_or(*ratio), margin, 1.0 / margin]
    });
    let names = figures.iter().rev().map(name).collect();
    let layout =
        style::layout(VERDICTS.len()).x_axis(style::ratio_axis("new over base", ends)).y_axis(
            style::axis("")
                .range(vec![-0.7, figures.len() as f64 - 0.3])
                .tick_mode(TickMode::Array)
                .tick_values((0..figures.len()).map(|row| row as f64).collect())
                .tick_text(names),
        );
    let none = style::no_difference().x_ref("x").y_ref("paper").x0(1.0).x1(1.0).y0(0.0).y1(1.0);
    let layout = layout.shapes(vec![none]);
    let height = 130 + 28 * figures.len();
    Some(ChartFigure::new("forest", height, [] as [(&str, AxisKind); 0], plot, layout))
}

/// `read, 99 %`.
fn name(of: &ComparedFigure) -> String {
    format!("{}, {}", of.op.name(), labels::figure(&of.figure))
}

fn points(
    verdict: &str,
    colour: &'static str,
    of: &[&(f64, &ComparedFigure, f64)],
) -> Box<Scatter<f64, f64>> {
    let side = |end: fn(&ComparedFigure) -> Option<f64>| -> Vec<f64> {
        of.iter().map(|(_, it, ratio)| end(it).map_or(0.0, |v| (v - ratio).abs())).collect()
    };
    let words = |(_, it, ratio): &&(f64, &ComparedFigure, f64)| {
        let interval = it.lo.zip(it.hi).map_or(String::new(), |(lo, hi)| {
            format!(" ({} to {})", style::change(lo), style::change(hi))
        });
        format!("{}: {}{interval}<br>{verdict}", name(it), style::change(*ratio))
    };
    Scatter::new(
        of.iter().map(|(_, _, ratio)| style::round(*ratio)).collect(),
        of.iter().map(|(row, ..)| *row).collect(),
    )
    .name(verdict)
    .mode(Mode::Markers)
    .marker(Marker::new().size(9).color(colour))
    .error_x(
        ErrorData::new(ErrorType::Data)
            .symmetric(false)
            .array(side(|f| f.hi))
            .array_minus(side(|f| f.lo))
            .color(palette::with_alpha(colour, 0.4))
            .thickness(4.0)
            .width(0),
    )
    .hover_text_array(of.iter().map(words).collect())
    .hover_template("%{hovertext}<extra></extra>")
}
