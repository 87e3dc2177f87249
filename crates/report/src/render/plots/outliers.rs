//! The slowest I/Os: when, how slow, what.

use plotly::common::{Line, Marker, MarkerSymbol, Mode};
use plotly::{Plot, Scatter};

use super::figure::{AxisKind, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::analyse::Row;
use crate::format;
use crate::model::charts::{ChartModel, OpOutliers};
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "outliers",
    title: "Slowest I/Os",
    read: "The slowest I/Os of each kind, up to 1,000, at the moment they were submitted. \
           Points in a column belong to one event, points in a row to a time-out or retry.",
    draw,
};

/// Most points drawn over all series, or 100 a series if that is more; each series keeps its slowest.
const POINTS: usize = 6_000;

/// One figure with all operations and runs.
fn draw(overlay: &ChartModel) -> Vec<ChartFigure> {
    let sets: Vec<(usize, &OpOutliers)> =
        overlay.each(|run| &run.outliers).filter(|(_, s)| !s.points.is_empty()).collect();
    let limit = (POINTS / sets.len().max(1)).max(100);
    let drawn = sets.iter().flat_map(|(_, s)| s.points.iter().take(limit));
    let Some((lo, hi)) = style::latency_range(drawn.map(|p| (p.ns, p.ns))) else {
        return Vec::new();
    };
    let mut plot = Plot::new();
    for (run, set) in &sets {
        plot.add_trace(trace(overlay, *run, set, limit));
    }
    let layout = style::layout(sets.len())
        .x_axis(style::elapsed_axis(overlay))
        .y_axis(style::latency_axis("latency", lo, hi));
    vec![ChartFigure::new(
        "outliers",
        420,
        [("xaxis", AxisKind::Elapsed), ("yaxis", AxisKind::Time)],
        plot,
        layout,
    )]
}

fn trace(
    overlay: &ChartModel,
    run: usize,
    set: &OpOutliers,
    limit: usize,
) -> Box<dyn plotly::Trace> {
    let look = overlay.line_look(run, set.op, &set.name);
    let points = &set.points[..set.points.len().min(limit)];
    let symbols = [MarkerSymbol::Circle, MarkerSymbol::Diamond, MarkerSymbol::Square];
    let text: Vec<String> = points
        .iter()
        .map(|p| format!("{} at {:.3} s<br>{}", format::duration_ns(p.ns), p.at_s, what(&p.row)))
        .collect();
    let name = escape(&set.name);
    let trace = Scatter::new(
        points.iter().map(|p| style::round(p.at_s)).collect(),
        points.iter().map(|p| p.ns).collect(),
    )
    .name(format!("{name} ({} slowest)", format::count(points.len() as u64)))
    .mode(Mode::Markers)
    .marker(
        Marker::new()
            .size(6)
            .opacity(0.65)
            .symbol(symbols[look.dash % symbols.len()].clone())
            .color(palette::with_alpha(look.colour, 1.0))
            .line(Line::new().width(0.0)),
    )
    .hover_text_array(text)
    .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"));
    style::group(trace, &look)
}

/// Worker, size and place of an I/O.
fn what(row: &Row) -> String {
    let mut what = format!("worker {}, {}", row.worker, format::bytes(row.size));
    if let Some(offset) = row.offset {
        what.push_str(&format!(" at offset {}", format::count(offset)));
    }
    if let Some(key) = row.key {
        what.push_str(&format!(", key {}", format::count(key)));
    }
    if row.target > 0 {
        what.push_str(&format!(", target {}", row.target));
    }
    what
}
