//! Steady state: the figure of each round, and the judged window with its bounds and best fit.

use plotly::common::{DashType, Line, Marker, Mode};
use plotly::{Plot, Scatter};

use super::figure::{AxisKind, Chart, ChartFigure};
use super::style;
use crate::format;
use crate::model::charts::{ChartModel, SteadyTrack};
use crate::model::labels;
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "steady",
    title: "Steady state: the rounds and the measurement window",
    read: "One point per round. In the window that was judged last: the average, the bounds of the data \
           excursion around it (dotted), and the best linear fit. The window is steady when its \
           points spread no further than the bounds allow and the fit is nearly level. \"Not \
           achieved\": the rounds ended before any window was.",
    draw,
};

fn draw(charts: &ChartModel) -> Vec<ChartFigure> {
    let several = charts.steady.len() > 1;
    let one = |(nth, track): (usize, &SteadyTrack)| {
        let title = several.then(|| labels::humanize(&track.title));
        let figure = figure(nth, track)?;
        let height = if several { 300 } else { figure.height };
        Some(ChartFigure { title, half: several, height, ..figure })
    };
    charts.steady.iter().enumerate().filter_map(one).collect()
}

fn figure(nth: usize, track: &SteadyTrack) -> Option<ChartFigure> {
    let rounds: Vec<(f64, f64)> =
        track.rounds.iter().filter_map(|(round, v)| Some((f64::from(*round), (*v)?))).collect();
    let last = rounds.last()?.0;
    let mut plot = Plot::new();
    plot.add_trace(
        Scatter::new(rounds.iter().map(|r| r.0).collect(), rounds.iter().map(|r| r.1).collect())
            .name(labels::figure(&track.figure))
            .mode(Mode::LinesMarkers)
            .marker(Marker::new().size(6).color(palette::of_run(0)))
            .line(Line::new().color(palette::of_run(0)).width(1.2))
            .hover_text_array(rounds.iter().map(|r| hover(track, *r)).collect())
            .hover_template("%{hovertext}<extra></extra>"),
    );
    let mut top = rounds.iter().map(|r| r.1).fold(0.0, f64::max);
    if let Some(window) = &track.window {
        let (from, to) = (f64::from(window.first), f64::from(window.last));
        let at = |round: f64| window.found.slope * round + window.found.intercept;
        let half = track.rule.data_excursion / 2.0;
        let average = window.found.average;
        top = top.max(average * (1.0 + half));
        for (name, ends, dash, hue) in [
            ("average", (average, average), DashType::Solid, 2),
            ("upper bound", (average * (1.0 + half), average * (1.0 + half)), DashType::Dot, 2),
            ("lower bound", (average * (1.0 - half), average * (1.0 - half)), DashType::Dot, 2),
            ("best linear fit", (at(from), at(to)), DashType::Dash, 1),
        ] {
            plot.add_trace(
                Scatter::new(vec![from, to], vec![ends.0, ends.1])
                    .name(name)
                    .mode(Mode::Lines)
                    .line(Line::new().color(palette::HUES[hue]).width(1.6).dash(dash))
                    .hover_template(format!("{name}<extra></extra>"))
                    .meta(format!("steady-{name}")),
            );
        }
    }
    let kind = if track.figure.ends_with("_ns") { AxisKind::Time } else { AxisKind::Number };
    let layout = style::layout(5)
        .x_axis(style::axis("round").range(vec![0.0, last + 1.0]))
        .y_axis(style::axis(&labels::figure(&track.figure)).range(vec![0.0, top * 1.08]));
    let axes = [("xaxis", AxisKind::Number), ("yaxis", kind)];
    Some(ChartFigure::new(format!("steady-{nth}"), 360, axes, plot, layout))
}

fn hover(track: &SteadyTrack, (round, value): (f64, f64)) -> String {
    let value = match track.figure.ends_with("_ns") {
        true => format::duration(value),
        false => format::rate(value),
    };
    format!("round {round}: {value}")
}

#[cfg(test)]
mod tests {
    use taillight_stats::SteadyRule;

    use super::*;
    use crate::model::charts::JudgedWindow;

    #[test]
    fn a_window_has_its_bounds_and_its_fit() {
        let rounds: Vec<(u32, f64)> = (3..).zip([100.0, 104.0, 98.0, 101.0, 99.0]).collect();
        let found = SteadyRule::default().judge(&rounds).expect("a window");
        let mut all = vec![(1, Some(400.0)), (2, None)];
        all.extend(rounds.iter().map(|(round, value)| (*round, Some(*value))));
        let track = SteadyTrack {
            title: "p: iops".to_owned(),
            figure: "iops".to_owned(),
            rule: SteadyRule::default(),
            rounds: all,
            window: Some(JudgedWindow { first: 3, last: 7, found }),
        };
        let charts = ChartModel { steady: vec![track], ..ChartModel::default() };
        let figures = draw(&charts);
        let text = figures[0].plot.to_json();
        for name in ["average", "upper bound", "lower bound", "best linear fit"] {
            assert!(text.contains(name), "{name}");
        }
        assert!(text.contains("110.44"), "10 % above the average of 100.4: {text}");
    }
}
