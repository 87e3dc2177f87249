//! What a search saw: the percentile of each probe over its demand, and the ceiling.

use plotly::common::{DashType, ErrorData, ErrorType, Line, Marker, Mode};
use plotly::{Plot, Scatter};
use taillight_rundir::search::{ProbeVerdict, SearchProbe, SearchReport};

use super::figure::{AxisKind, Chart, ChartFigure};
use super::style;
use crate::format;
use crate::model::charts::ChartModel;
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "knee",
    title: "Response time against demand",
    read: "Each point is a probe of the search, the pale line its 95 % interval. The knee is where the \
           points leave the floor; the answer lies where they cross the ceiling.",
    draw,
};

/// Verdicts in the order of the legend, with their colours: those of the words in the table.
const VERDICTS: [(&str, &[ProbeVerdict], &str); 3] = [
    ("pass", &[ProbeVerdict::Pass], palette::HUES[2]),
    ("fail", &[ProbeVerdict::Fail], palette::HUES[1]),
    ("undecided", &[ProbeVerdict::Undecided, ProbeVerdict::Unfinished], palette::HUES[6]),
];

/// One figure; none without a search, or where no probe knows the percentile.
fn draw(overlay: &ChartModel) -> Vec<ChartFigure> {
    overlay.search.as_ref().and_then(figure).into_iter().collect()
}

fn figure(search: &SearchReport) -> Option<ChartFigure> {
    let known: Vec<(&SearchProbe, u64)> =
        search.probes.iter().filter_map(|p| Some((p, p.ns?))).collect();
    let ends = known.iter().map(|(p, ns)| (p.lo_ns.unwrap_or(*ns), p.hi_ns.unwrap_or(*ns)));
    let (lo, hi) = style::latency_range(ends.chain([(search.ceiling_ns, search.ceiling_ns)]))?;
    let last = known.iter().map(|(p, _)| p.value).fold(0.0, f64::max);
    if known.is_empty() || last <= 0.0 {
        return None;
    }
    let mut plot = Plot::new();
    let end = last * 1.05;
    let shown = format::duration_ns(search.ceiling_ns);
    let name = format!("ceiling: {} % within {shown}", search.at);
    plot.add_trace(
        Scatter::new(vec![0.0, end], vec![search.ceiling_ns as f64; 2])
            .name(&name)
            .mode(Mode::Lines)
            .line(Line::new().color(palette::CEILING).width(1.4).dash(DashType::Dash))
            .hover_template(format!("{name}<extra></extra>"))
            .meta("ceiling".to_owned()),
    );
    for (name, verdicts, colour) in VERDICTS {
        let of: Vec<_> = known.iter().filter(|(p, _)| verdicts.contains(&p.verdict)).collect();
        if !of.is_empty() {
            plot.add_trace(points(name, colour, &of));
        }
    }
    let layout = style::layout(VERDICTS.len())
        .x_axis(style::axis(&format!("demand, {}", search.unit)).range(vec![0.0, end]))
        .y_axis(style::latency_axis(&format!("{} % of response time", search.at), lo, hi));
    Some(ChartFigure::new(
        "knee",
        420,
        [("xaxis", AxisKind::Number), ("yaxis", AxisKind::Time)],
        plot,
        layout,
    ))
}

fn points(name: &str, colour: &'static str, of: &[&(&SearchProbe, u64)]) -> Box<Scatter<f64, f64>> {
    let side = |end: fn(&SearchProbe) -> Option<u64>| -> Vec<f64> {
        let length =
            |(p, ns): &&(&SearchProbe, u64)| end(p).map_or(0.0, |v| v.abs_diff(*ns) as f64);
        of.iter().map(length).collect()
    };
    let words = |(p, ns): &&(&SearchProbe, u64)| {
        format!(
            "probe {}: {}<br>{} of {} I/Os",
            p.number,
            p.shown,
            format::duration_ns(*ns),
            format::count(p.count)
        )
    };
    Scatter::new(
        of.iter().map(|(p, _)| p.value).collect(),
        of.iter().map(|(_, ns)| *ns as f64).collect(),
    )
    .name(name)
    .mode(Mode::Markers)
    .marker(Marker::new().size(9).color(colour))
    .error_y(
        ErrorData::new(ErrorType::Data)
            .symmetric(false)
            .array(side(|p| p.hi_ns))
            .array_minus(side(|p| p.lo_ns))
            .color(palette::with_alpha(colour, 0.35))
            .thickness(3.0)
            .width(0),
    )
    .hover_text_array(of.iter().map(words).collect())
    .hover_template(format!("{name}<br>%{{hovertext}}<extra></extra>"))
    .meta(format!("knee-{name}"))
}
