//! A replay against its trace: operations due and completed over time, and a Q-Q plot of the latencies.

use plotly::common::{DashType, Line, Marker, Mode};
use plotly::{Plot, Scatter};

use super::figure::{AxisKind, Chart, ChartFigure};
use super::look::{LineLook, escape};
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, RunCharts};
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "replay",
    title: "The replay against its trace",
    read: "Operations due by the trace and completed here: where the second line is below the first, the system \
           did not keep up. The last window of each, which is not whole, is left out. Latencies at the same \
           percentile, as recorded and as here: on the diagonal both are the same, above it this system is slower.",
    draw,
};

/// Whole windows from which a line over time says something.
const LEAST_WINDOWS: usize = 3;

fn draw(charts: &ChartModel) -> Vec<ChartFigure> {
    let both: Vec<ChartFigure> =
        [arrivals(charts), latencies(charts)].into_iter().flatten().collect();
    let half = both.len() > 1;
    both.into_iter().map(|figure| ChartFigure { half, ..figure }).collect()
}

fn arrivals(charts: &ChartModel) -> Option<ChartFigure> {
    let mut plot = Plot::new();
    let (mut top, mut lines) = (0f64, 0);
    for (run, data) in charts.runs.iter().enumerate() {
        for (nth, of) in data.arrivals.iter().enumerate() {
            if of.due.len() <= LEAST_WINDOWS {
                continue;
            }
            let window_s = of.window_ns as f64 / 1e9;
            let at = |i: usize| data.arrivals_from_s + (i as f64 + 0.5) * window_s;
            let kinds =
                [("due", &of.due, DashType::Dot), ("completed", &of.completed, DashType::Solid)];
            for (what, counts, dash) in kinds {
                let whole = counts.iter().enumerate().take(counts.len().saturating_sub(1));
                let rates: Vec<(f64, f64)> =
                    whole.map(|(i, n)| (at(i), *n as f64 / window_s)).collect();
                top = rates.iter().map(|p| p.1).fold(top, f64::max);
                let look = charts.look_of_workload(run, nth);
                let name = format!("{}, {what}", escape(&of.workload));
                plot.add_trace(line(&name, &rates, &look, dash));
                lines += 1;
            }
        }
    }
    let layout = style::layout(lines)
        .x_axis(style::elapsed_axis(charts))
        .y_axis(style::axis("operations a second").range(vec![0.0, top.max(1.0) * 1.08]));
    let axes = [("xaxis", AxisKind::Elapsed), ("yaxis", AxisKind::Number)];
    let made = ChartFigure::new("arrivals", style::height(400, charts), axes, plot, layout);
    (lines > 0).then(|| ChartFigure { title: Some("Due and completed".to_owned()), ..made })
}

fn line(
    name: &str,
    rates: &[(f64, f64)],
    look: &LineLook,
    dash: DashType,
) -> Box<Scatter<f64, f64>> {
    let text = rates.iter().map(|(at, v)| format!("{at:.1} s: {}/s", format::rate(*v)));
    let trace = style::line_over_time(name, rates.iter().copied(), (look.colour, dash))
        .hover_text_array(text.collect())
        .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"));
    style::group(trace, look)
}

fn latencies<'a>(charts: &'a ChartModel) -> Option<ChartFigure> {
    let of = |(run, data): (usize, &'a RunCharts)| {
        let all = data.recorded.iter().enumerate();
        all.filter(|(_, it)| it.quantiles.len() > 1).map(move |(nth, it)| (run, nth, it))
    };
    let all = || charts.runs.iter().enumerate().flat_map(of);
    let pairs = all().flat_map(|(.., it)| &it.quantiles);
    let ends = pairs.flat_map(|q| [(q.recorded_ns, q.recorded_ns), (q.replayed_ns, q.replayed_ns)]);
    let (lo, hi) = style::latency_range(ends)?;
    let mut plot = Plot::new();
    let diagonal = Scatter::new(vec![lo, hi], vec![lo, hi])
        .name("the same")
        .mode(Mode::Lines)
        .hover_template("as slow here as recorded<extra></extra>")
        .line(Line::new().color("#8a8f98").width(1.0).dash(DashType::Dash));
    plot.add_trace(diagonal);
    for (run, nth, of) in all() {
        let look = charts.look_of_workload(run, nth);
        let name = escape(&of.workload);
        let time = format::duration_ns;
        let said = of.quantiles.iter().map(|q| {
            let (then, here) = (time(q.recorded_ns), time(q.replayed_ns));
            format!("{} %: recorded {then}, here {here}", q.percentile)
        });
        let place = |ns: u64| ns.max(1) as f64;
        let trace = Scatter::new(
            of.quantiles.iter().map(|q| place(q.recorded_ns)).collect(),
            of.quantiles.iter().map(|q| place(q.replayed_ns)).collect(),
        )
        .name(&name)
        .mode(Mode::LinesMarkers)
        .marker(Marker::new().size(5).color(look.colour))
        .line(Line::new().color(look.colour).width(1.4).dash(palette::dash(look.dash)))
        .hover_text_array(said.collect())
        .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"));
        plot.add_trace(style::group(trace, &look));
    }
    let layout = style::layout(all().count() + 1)
        .x_axis(style::latency_axis("latency as recorded", lo, hi))
        .y_axis(style::latency_axis("latency here", lo, hi));
    let axes = [("xaxis", AxisKind::Time), ("yaxis", AxisKind::Time)];
    let made = ChartFigure::new("recorded", style::height(400, charts), axes, plot, layout);
    Some(ChartFigure { title: Some("Latencies, Q-Q".to_owned()), ..made })
}
