//! Operations in flight over time, and how many were waiting to be sent: one line per workload.

use plotly::common::{DashType, Line, Mode};
use plotly::{Plot, Scatter};

use super::figure::{AxisKind, Chart, Figure};
use super::look::{Look, escape};
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, WorkloadPoint, WorkloadTrack};

pub const CHART: Chart = Chart {
    id: "in-flight",
    title: "Operations in flight over time",
    read: "Mean number of operations under way in each reporting interval, per workload. A closed loop \
           should keep its queue depth; below it the tool or the CPU was the limit. Dotted, where \
           there is a schedule: operations due and not yet sent. A rising line is load that is not \
           reached.",
    draw,
};

fn draw(charts: &ChartModel) -> Vec<Figure> {
    let mut plot = Plot::new();
    let (mut top, mut lines) = (0f64, 0);
    for (run, data) in charts.runs.iter().enumerate() {
        for (nth, track) in data.workloads.iter().enumerate() {
            let look = charts.look_of_workload(run, nth);
            let depth = |p: &WorkloadPoint| Some(p.depth_mean);
            let backlog = |p: &WorkloadPoint| p.backlog.map(|n| n as f64);
            top = track.points.iter().filter_map(depth).fold(top, f64::max);
            plot.add_trace(line(track, &look, "in flight", &depth));
            lines += 1;
            // What was never behind needs no line.
            let waited = track.points.iter().filter_map(backlog).fold(0.0, f64::max);
            if waited > 0.0 {
                top = top.max(waited);
                plot.add_trace(line(track, &look, WAITING, &backlog));
                lines += 1;
            }
        }
    }
    if top <= 0.0 {
        return Vec::new();
    }
    let layout = style::layout(lines)
        .x_axis(style::elapsed_axis(charts))
        .y_axis(style::axis("operations").range(vec![0.0, top * 1.08]));
    vec![Figure {
        id: "in-flight".to_owned(),
        title: None,
        plot: style::finish(plot, layout),
        height: style::height(320, charts),
        axes: [("xaxis", AxisKind::Elapsed), ("yaxis", AxisKind::Number)].into(),
        switches: Vec::new(),
        half: false,
    }]
}

const WAITING: &str = "waiting to be sent";

fn line(
    track: &WorkloadTrack,
    look: &Look,
    what: &str,
    value: &dyn Fn(&WorkloadPoint) -> Option<f64>,
) -> Box<Scatter<f64, f64>> {
    let known = track.points.iter();
    let known: Vec<(f64, f64)> = known.filter_map(|p| Some((p.at_s, value(p)?))).collect();
    let text = known.iter();
    let text = text.map(|(at, v)| format!("{at:.1} s: {} {what}", format::digits3(*v)));
    let text: Vec<String> = text.collect();
    let name = format!("{}, {what}", escape(&track.name));
    let few = known.len() < 40;
    let (x, y) = known
        .into_iter()
        .map(|(at, v)| (style::round(at), style::round(v)))
        .unzip();
    let dash = match what {
        WAITING => DashType::Dot,
        _ => crate::render::palette::dash(look.dash),
    };
    let trace = Scatter::new(x, y)
        .name(&name)
        .mode(if few { Mode::LinesMarkers } else { Mode::Lines })
        .line(Line::new().color(look.colour).width(2.0).dash(dash))
        .hover_text_array(text)
        .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"));
    style::group(trace, look)
}
