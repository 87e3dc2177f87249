//! Latency heat map over time: one at a time, chosen by buttons when there are several.

use plotly::common::{ColorBar, ColorScale, ColorScaleElement, TickMode, Title, Visible};
use plotly::{HeatMap, Plot};

use super::figure::{AxisKind, ButtonRow, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::model::charts::{ChartModel, HeatGrid};
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "heat",
    title: "Latency heat map",
    read: "Time runs to the right, latency upward, colour is the number of I/Os (logarithmic). \
           Bands are the modes of the device; a column of colour going up is a stall.",
    draw,
};

/// One figure; a button per run and operation.
fn draw(overlay: &ChartModel) -> Vec<ChartFigure> {
    let several = overlay.runs.len() > 1;
    let heats: Vec<(String, &HeatGrid)> = overlay
        .each(|run| &run.heats)
        .filter(|(_, h)| h.counts.iter().flatten().any(|c| *c > 0))
        .map(|(run, h)| match several {
            true => (format!("{}: {}", overlay.runs[run].label, h.name), h),
            false => (h.name.clone(), h),
        })
        .collect();
    // Colours range from the least to the greatest count of all maps.
    let counts = || heats.iter().flat_map(|(_, h)| h.counts.iter().flatten()).copied();
    let Some(ends) = counts().filter(|n| *n > 0).min().zip(counts().max()) else {
        return Vec::new();
    };
    let mut plot = Plot::new();
    for (nth, (name, heat)) in heats.iter().enumerate() {
        plot.add_trace(trace(name, heat, ends, nth == 0));
    }
    let edges = heats.iter().flat_map(|(_, h)| {
        let (first, last) = (h.edges_ns.first(), h.edges_ns.last());
        first.zip(last).map(|(a, b)| (*a as u64, *b as u64))
    });
    let Some((lo, hi)) = style::latency_range(edges) else {
        return Vec::new();
    };
    let layout = style::layout(0)
        .x_axis(style::elapsed_axis(overlay).show_grid(false))
        .y_axis(style::latency_axis("latency", lo, hi).show_grid(false));
    vec![ChartFigure {
        switches: switch(&heats),
        ..ChartFigure::new(
            "heat",
            460,
            [("xaxis", AxisKind::Elapsed), ("yaxis", AxisKind::Time)],
            plot,
            layout,
        )
    }]
}

fn switch(heats: &[(String, &HeatGrid)]) -> Vec<ButtonRow> {
    if heats.len() < 2 {
        return Vec::new();
    }
    let choices = heats.iter().enumerate().map(|(wanted, (name, _))| {
        (name.clone(), (0..heats.len()).map(|nth| nth == wanted).collect())
    });
    vec![ButtonRow::show(choices)]
}

fn trace(
    name: &str,
    heat: &HeatGrid,
    (least, most): (u64, u64),
    visible: bool,
) -> Box<dyn plotly::Trace> {
    let log = |count: u64| (count > 0).then(|| ((count as f64).log10() * 1000.0).round() / 1000.0);
    let z: Vec<Vec<Option<f64>>> =
        heat.counts.iter().map(|row| row.iter().map(|c| log(*c)).collect()).collect();
    let scale = palette::HEAT
        .iter()
        .map(|(at, colour)| ColorScaleElement(*at, (*colour).to_owned()))
        .collect();
    let trace = HeatMap::new(
        heat.times_s.iter().map(|t| style::round(*t)).collect(),
        heat.edges_ns.iter().map(|e| style::round(*e)).collect(),
        z,
    )
    .name(escape(name))
    .color_scale(ColorScale::Vector(scale))
    .zmin((least as f64).log10())
    .zmax((most as f64).log10().max((least as f64).log10() + 0.3))
    .color_bar(colour_bar(least, most))
    .hover_on_gaps(false)
    .hover_template("%{x:.1f} s<br>%{hovertext}<extra></extra>");
    if visible { trace } else { trace.visible(Visible::False) }
}

fn colour_bar(least: u64, most: u64) -> ColorBar {
    // Both ends, and the decades between that stand clear of them.
    let (lo, hi) = ((least as f64).log10(), (most as f64).log10());
    let room = (hi - lo) * 0.08;
    let between = (0..20).map(f64::from).filter(|d| *d > lo + room && *d < hi - room);
    let mut decades: Vec<f64> = [lo].into_iter().chain(between).collect();
    decades.extend((most > least).then_some(hi));
    let text = decades.iter().map(|d| style::short_tick(10f64.powf(*d).round())).collect();
    ColorBar::new()
        .title(Title::with_text("I/Os"))
        .thickness(12)
        .outline_width(0)
        .tick_mode(TickMode::Array)
        .tick_vals(decades)
        .tick_text(text)
}
