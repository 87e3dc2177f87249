//! Latency against percentile as the SLC factors see it: the 21 listed percentiles side by side.

use plotly::common::{Line, Marker, Mode};
use plotly::layout::{Axis, Shape, ShapeLine, ShapeType, TicksDirection};
use plotly::{Plot, Scatter};
use taillight_stats::slc::SBK_21_LIST;

use super::figure::{AxisKind, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, LatencySeries};
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "slc",
    title: "Latency against percentile, as the SLC factors see it",
    read: "The 21 percentiles of the SLC factors at equal distances. SLC1 is the mean rise from \
           the 10th percentile up to the median, SLC2 from the median on, each as a multiple of \
           where it starts: ratios, so that a system with a tiny median can have a huge SLC2 and \
           still be the faster one.",
    draw,
};

/// Where the median stands among the percentiles.
const MEDIAN: f64 = 5.0;

/// One figure over all runs, or one per group of runs.
fn draw(overlay: &ChartModel) -> Vec<ChartFigure> {
    if overlay.groups.is_empty() {
        let all: Vec<usize> = (0..overlay.runs.len()).collect();
        return figure(overlay, "slc".to_owned(), None, &all).into_iter().collect();
    }
    let groups = overlay.groups.iter().enumerate();
    groups
        .filter_map(|(i, group)| {
            let title = Some(group.title.clone());
            let mut figure = figure(overlay, format!("slc-{i}"), title, &group.runs)?;
            figure.half = true;
            figure.height = 340;
            Some(figure)
        })
        .collect()
}

fn figure(
    overlay: &ChartModel,
    id: String,
    title: Option<String>,
    runs: &[usize],
) -> Option<ChartFigure> {
    let mut plot = Plot::new();
    let mut drawn: Vec<&LatencySeries> = Vec::new();
    for (nth, run) in runs.iter().enumerate() {
        let series = overlay.runs.get(*run).into_iter().flat_map(|r| &r.series);
        for series in series.filter(|s| s.main && s.slc.is_some()) {
            // In the figure of a group, colours go by the place of the run in the group.
            let colour = title.is_some().then(|| palette::of_run(nth));
            plot.add_trace(line(overlay, *run, series, colour)?);
            drawn.push(series);
        }
    }
    let ends = drawn.iter().filter_map(|s| {
        let values = &s.slc.as_ref()?.values;
        Some((values[0], values[values.len() - 1]))
    });
    let (lo, hi) = style::latency_range(ends)?;
    let median = Shape::new()
        .shape_type(ShapeType::Line)
        .x_ref("x")
        .y_ref("paper")
        .x0(MEDIAN)
        .x1(MEDIAN)
        .y0(0.0)
        .y1(1.0)
        .line(ShapeLine::new().width(1.0).color("#8a8f98"));
    let layout = style::layout(drawn.len())
        .x_axis(percentile_axis())
        .y_axis(style::latency_axis("latency", lo, hi))
        .shapes(vec![median]);
    Some(ChartFigure {
        title,
        ..ChartFigure::new(id, 400, [("yaxis", AxisKind::Time)], plot, layout)
    })
}

/// The percentiles at equal distances, as the factors weigh them.
fn percentile_axis() -> Axis {
    let places: Vec<f64> = (0..SBK_21_LIST.len()).map(|i| i as f64).collect();
    let names = SBK_21_LIST.iter().map(ToString::to_string).collect();
    style::axis("percentile, split at the median")
        .range(vec![-0.4, places.len() as f64 - 0.6])
        .tick_values(places)
        .tick_text(names)
        .tick_angle(-60.0)
        .ticks(TicksDirection::Outside)
}

fn line(
    overlay: &ChartModel,
    run: usize,
    series: &LatencySeries,
    colour: Option<&'static str>,
) -> Option<Box<Scatter<f64, u64>>> {
    let slc = series.slc.as_ref()?;
    let look = overlay.line_look(run, series.op, &series.name);
    let factor = |v: Option<f64>| v.map_or("undefined".to_owned(), format::factor);
    let (below, above) = (factor(slc.slc1), factor(slc.slc2));
    let factors = format!("SLC1 {below}, SLC2 {above} ({})", series.measure.words());
    let name = match (overlay.runs.len() > 1, colour.is_some()) {
        (true, true) => escape(&overlay.runs.get(run)?.label),
        (true, false) => {
            format!("{}, {}", escape(&overlay.runs.get(run)?.label), escape(&series.name))
        }
        (false, _) => escape(&series.name),
    };
    let text: Vec<String> = SBK_21_LIST
        .iter()
        .zip(&slc.values)
        .map(|(p, ns)| format!("{p} %: {}", format::duration_ns(*ns)))
        .collect();
    let colour = colour.unwrap_or(look.colour);
    let places = (0..slc.values.len()).map(|i| i as f64).collect();
    Some(
        Scatter::new(places, slc.values.to_vec())
            .name(format!("{name}: {factors}"))
            .mode(Mode::LinesMarkers)
            .marker(Marker::new().size(5).color(colour))
            .line(Line::new().color(colour).width(2.0).dash(palette::dash(look.dash)))
            .hover_text_array(text)
            .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"))
            .meta(look.key),
    )
}
