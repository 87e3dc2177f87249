//! The target's own statistics over time: small pictures on the time axis of the latency, and the shading of the
//! latency where the store held writes back.

use plotly::layout::{Shape, ShapeLayer, ShapeLine, ShapeType};
use plotly::{Plot, Scatter};

use taillight_core::samples::{HELD_BACK, SampleLine, SamplePanel, SampleUnit};

use super::figure::{AxisKind, Chart, ChartFigure};
use super::look::escape;
use super::style;
use crate::model::charts::{ChartModel, RunCharts};
use crate::render::palette;

pub const CHART: Chart = Chart {
    id: "store-time",
    title: "The store over time",
    read: "What the store says of itself, sampled once an interval, on the time axis of the \
           latency above; time that it held writes back is, of a single run, also the shaded ground \
           of its latency. It shows what happened at the same time; the store's words, not a cause.",
    draw,
};

/// A picture per panel that has something to show.
fn draw(overlay: &ChartModel) -> Vec<ChartFigure> {
    let panels = panels(overlay);
    let figure = |(nth, panel)| panel_figure(overlay, nth, panel);
    panels.iter().enumerate().filter_map(figure).collect()
}

/// The panels of all runs; those of one heading and unit are one, with the lines of each.
fn panels(overlay: &ChartModel) -> Vec<SamplePanel> {
    let mut panels: Vec<SamplePanel> = Vec::new();
    for panel in overlay.runs.iter().flat_map(|run| &run.store_panels) {
        let same = |p: &&mut SamplePanel| p.title == panel.title && p.unit == panel.unit;
        match panels.iter_mut().find(same) {
            None => panels.push(panel.clone()),
            Some(known) => {
                let new = panel.lines.iter().filter(|line| !known.lines.contains(line));
                let new: Vec<SampleLine> = new.cloned().collect();
                known.lines.extend(new);
            }
        }
    }
    panels
}

fn kind(unit: SampleUnit) -> AxisKind {
    match unit {
        SampleUnit::PercentOfTime | SampleUnit::Percent => AxisKind::Percent,
        SampleUnit::Bytes => AxisKind::Size,
        SampleUnit::BytesPerSecond => AxisKind::Bytes,
        SampleUnit::PerSecond | SampleUnit::Count | SampleUnit::Times => AxisKind::Number,
        SampleUnit::Milliseconds | SampleUnit::Other => AxisKind::Number,
    }
}

fn panel_figure(overlay: &ChartModel, nth: usize, panel: &SamplePanel) -> Option<ChartFigure> {
    let mut lines = Vec::new();
    for (run, data) in overlay.runs.iter().enumerate() {
        let stated = |line: &SampleLine| data.store_panels.iter().any(|p| p.lines.contains(line));
        for (place, line) in panel.lines.iter().enumerate().filter(|(_, line)| stated(line)) {
            let points = points_of(data, panel.unit, line);
            // A counter that never moved says nothing here.
            let idle = counts(&line.series) && points.iter().all(|(_, v)| *v == 0.0);
            let shown = !idle || kind(panel.unit) != AxisKind::Number;
            if shown && !points.is_empty() {
                lines.push(StoreLine { run, place, words: &line.words, points });
            }
        }
    }
    figure(overlay, nth, panel, &lines)
}

/// The points of a line, in the unit of its panel.
fn points_of(data: &RunCharts, unit: SampleUnit, line: &SampleLine) -> Vec<(f64, f64)> {
    let Some(misses) = &line.misses else {
        let factor = unit.factor(&line.series);
        let points = points(data, &line.series).into_iter();
        return points.map(|(at, value)| (at, value * factor)).collect();
    };
    let (hits, misses) = (points(data, &line.series), points(data, misses));
    let both = hits.iter().zip(&misses).filter(|(hit, miss)| hit.1 + miss.1 > 0.0);
    both.map(|(hit, miss)| (hit.0, 100.0 * hit.1 / (hit.1 + miss.1))).collect()
}

struct StoreLine<'a> {
    run: usize,
    /// Among the lines of its panel.
    place: usize,
    words: &'a str,
    points: Vec<(f64, f64)>,
}

fn figure(
    overlay: &ChartModel,
    nth: usize,
    panel: &SamplePanel,
    lines: &[StoreLine<'_>],
) -> Option<ChartFigure> {
    let top = lines.iter().flat_map(|l| &l.points).map(|p| p.1);
    let top = top.fold(0.0, f64::max);
    if lines.is_empty() {
        return None;
    }
    let kind = kind(panel.unit);
    let mut plot = Plot::new();
    for drawn in lines {
        plot.add_trace(line(overlay, drawn));
    }
    let top = match kind {
        // The time of a stall is counted when it is over: an interval may hold more than its length.
        AxisKind::Percent => top.max(100.0),
        _ if top > 0.0 => top,
        _ => 1.0,
    };
    let layout = style::layout(lines.len())
        .x_axis(style::elapsed_axis(overlay))
        // The unit stands in the heading: a title beside the ticks would push the time axis out of
        // line with that of the latency.
        .y_axis(
            style::axis("")
                // The same margin for all, whatever their ticks: their time axes stand in one line.
                .auto_margin(false)
                .range(vec![0.0, top * 1.08]),
        );
    let axes = [("xaxis", AxisKind::Elapsed), ("yaxis", kind)];
    let note = panel.note.as_ref().map_or(String::new(), |note| format!(": {note}"));
    Some(ChartFigure {
        title: Some(format!("{}, {}{note}", panel.title, panel.unit.words())),
        ..ChartFigure::new(format!("store-{nth}"), 210, axes, plot, layout)
    })
}

fn line(overlay: &ChartModel, drawn: &StoreLine<'_>) -> Box<Scatter<f64, f64>> {
    let StoreLine { run, place, words, ref points } = *drawn;
    let several = overlay.runs.len() > 1;
    let (colour, dash) = match several {
        true => (overlay.hue(run), place),
        false => (palette::HUES[place % palette::HUES.len()], 0),
    };
    let label = overlay.runs.get(run).map_or("", |r| r.label.as_str());
    let name = match several {
        true => format!("{}, {}", escape(label), escape(words)),
        false => escape(words),
    };
    style::line_over_time(&name, points.iter().copied(), (colour, palette::dash(dash)))
        .meta(format!("{run}|store {words}"))
}

/// Whether a series is a counter.
fn counts(series: &str) -> bool {
    series.ends_with("_total")
}

/// The samples of a series as points of a line: of a counter its rise a second, in the middle of two samples.
/// A level from before measuring is left out.
fn points(data: &RunCharts, series: &str) -> Vec<(f64, f64)> {
    let Some((_, samples)) = data.store.iter().find(|(name, _)| name == series) else {
        return Vec::new();
    };
    if !counts(series) {
        return samples.iter().filter(|p| p.0 >= 0.0).copied().collect();
    }
    let steady = without_stub(samples);
    let pairs = steady.windows(2).filter(|w| w[1].0 > w[0].0 && w[1].0 > 0.0);
    pairs
        .map(|w| {
            let per_s = (w[1].1 - w[0].1).max(0.0) / (w[1].0 - w[0].0);
            ((w[0].0.max(0.0) + w[1].0) / 2.0, per_s)
        })
        .collect()
}

/// The ground of a picture of latency over time: darker the longer the store held writes back. Of one
/// run only: the grounds of several would cover each other.
pub fn stalls(overlay: &ChartModel) -> Vec<Shape> {
    let [data] = overlay.runs.as_slice() else {
        return Vec::new();
    };
    let fine = joined(shares(data).into_iter());
    if fine.len() <= MOST_BANDS {
        return fine.iter().map(band).collect();
    }
    gridded(&shares(data)).iter().map(band).collect()
}

/// A page with more shapes is slow to move about in.
const MOST_BANDS: usize = 300;

/// From, to, and the share of the time that was stalled, per interval of the samples.
fn shares(data: &RunCharts) -> Vec<(f64, f64, f64)> {
    let stalls = data.store.iter().find(|(name, _)| name == HELD_BACK);
    let samples = stalls.map_or(Vec::new(), |(_, samples)| without_stub(samples));
    let pairs = samples.windows(2).filter(|w| w[1].0 > w[0].0.max(0.0));
    pairs
        .map(|w| {
            let share = (w[1].1 - w[0].1) * 1e-9 / (w[1].0 - w[0].0);
            (w[0].0.max(0.0), w[1].0, share)
        })
        .collect()
}

/// From 1 to 4; whatever is more than nothing is seen.
fn darkness(share: f64) -> u8 {
    (share * 4.0).ceil().clamp(1.0, 4.0) as u8
}

/// From, to, and how dark; neighbours of one darkness are one.
fn joined(shares: impl Iterator<Item = (f64, f64, f64)>) -> Vec<(f64, f64, u8)> {
    let mut bands: Vec<(f64, f64, u8)> = Vec::new();
    for (from, to, share) in shares.filter(|s| s.2 > 0.0) {
        let dark = darkness(share);
        match bands.last_mut() {
            Some(last) if last.1 == from && last.2 == dark => last.1 = to,
            _ => bands.push((from, to, dark)),
        }
    }
    bands
}

/// The shares as means over cells of one length: at most [`MOST_BANDS`] over the whole run, so that
/// no part of it looks calm only because the others had the shapes.
fn gridded(shares: &[(f64, f64, f64)]) -> Vec<(f64, f64, u8)> {
    let (Some(first), Some(last)) = (shares.first(), shares.last()) else {
        return Vec::new();
    };
    let (begin, cell) = (first.0, (last.1 - first.0) / MOST_BANDS as f64);
    let edge = |n: usize| begin + n as f64 * cell;
    let mut stalled = vec![0.0; MOST_BANDS];
    for (from, to, share) in shares.iter().filter(|s| s.2 > 0.0) {
        let at = |t: f64| (((t - begin) / cell) as usize).min(MOST_BANDS - 1);
        let (first, last) = (at(*from), at(*to));
        for (n, sum) in (first..).zip(&mut stalled[first..=last]) {
            *sum += (to.min(edge(n + 1)) - from.max(edge(n))).max(0.0) * share;
        }
    }
    let cells = stalled.iter().enumerate();
    joined(cells.map(|(n, s)| (edge(n), edge(n + 1), s / cell)))
}

fn band((from, to, dark): &(f64, f64, u8)) -> Shape {
    let colour = palette::with_alpha(palette::CEILING, 0.03 * f64::from(*dark));
    Shape::new()
        .shape_type(ShapeType::Rect)
        .layer(ShapeLayer::Below)
        .x_ref("x")
        .y_ref("paper")
        .x0(*from)
        .x1(*to)
        .y0(0.0)
        .y1(1.0)
        .fill_color(colour)
        .line(ShapeLine::new().width(0.0))
}

/// The samples without the last but one where the last follows it at once, as it does when a run ends:
/// what is counted when it is over, such as a stall, would be a huge rate over that moment.
fn without_stub(samples: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut kept = samples.to_vec();
    if let [.., a, b, c] = samples
        && c.0 - b.0 < (b.0 - a.0) / 2.0
    {
        kept.remove(samples.len() - 2);
    }
    kept
}

#[cfg(test)]
mod tests {
    use taillight_core::samples::SampleDisplay;

    use super::*;

    fn overlay(of: &[(&str, &[(f64, f64)])]) -> ChartModel {
        let store = of.iter().map(|(name, p)| ((*name).to_owned(), p.to_vec()));
        let names: Vec<&str> = of.iter().map(|(name, _)| *name).collect();
        let run = RunCharts {
            store: store.collect(),
            store_panels: stated().panels_for(&names),
            ..RunCharts::default()
        };
        ChartModel { runs: vec![run], ..ChartModel::default() }
    }

    /// What a driver might state.
    fn stated() -> SampleDisplay {
        let held = SamplePanel::new("Writes held back", SampleUnit::PercentOfTime);
        let hits = SamplePanel::new("Lookups that hit", SampleUnit::Percent).note("of <all>");
        let panels = vec![
            held.line(HELD_BACK, "slowed down or stopped"),
            hits.share("log_hits_total", "log_misses_total", "in <b>the log"),
        ];
        SampleDisplay { panels, ..SampleDisplay::default() }
    }

    fn json(figure: &ChartFigure) -> serde_json::Value {
        serde_json::to_value(&figure.plot).unwrap()
    }

    #[test]
    fn a_stall_that_ends_with_the_run_is_no_spike() {
        let stalls = [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (2.1, 1.1e9)];
        let all = overlay(&[("stall_ns_total", &stalls)]);
        let held = &all.runs[0].store_panels[0];
        let drawn = points_of(&all.runs[0], held.unit, &held.lines[0]);
        assert_eq!(drawn.len(), 2);
        assert!((drawn[1].1 - 100.0).abs() < 1e-9, "{drawn:?}");
        // What is beyond the whole time stands in the picture all the same.
        let long = [(0.0, 0.0), (1.0, 3e9), (2.0, 3e9)];
        let figures = draw(&overlay(&[("stall_ns_total", &long)]));
        let plot = serde_json::to_value(&figures[0].plot).unwrap();
        assert_eq!(plot["layout"]["yaxis"]["range"][1], 324.0);
        assert_eq!(plot["layout"]["yaxis"]["automargin"], false);
    }

    #[test]
    fn a_stall_shades_the_latency_where_it_was() {
        // Half a second of stalls, a whole one twice, none, a little one.
        let stalls = [(-0.5, 0.0), (0.5, 5e8), (1.5, 15e8), (2.5, 25e8), (3.5, 25e8), (4.5, 26e8)];
        let all = overlay(&[("stall_ns_total", &stalls)]);
        let found = joined(shares(&all.runs[0]).into_iter());
        assert_eq!(found, [(0.0, 0.5, 2), (0.5, 2.5, 4), (3.5, 4.5, 1)]);
        assert_eq!(super::stalls(&all).len(), 3);
        let none = overlay(&[("stall_ns_total", &[(0.0, 7.0), (1.0, 7.0)])]);
        assert!(super::stalls(&none).is_empty());
        let mut two = all.clone();
        two.runs.push(two.runs[0].clone());
        assert!(super::stalls(&two).is_empty(), "whose ground would it be?");
    }

    #[test]
    fn stalls_that_come_and_go_shade_the_whole_run_with_few_shapes() {
        // Every other second 0.4 s of stalls; none in the third quarter.
        let calm = |n: u32| (2000..3000).contains(&n);
        let mut total = 0.0;
        let many: Vec<(f64, f64)> = (0..=4000)
            .map(|n| {
                total += if n % 2 == 1 && !calm(n) { 4e8 } else { 0.0 };
                (f64::from(n), total)
            })
            .collect();
        let busy = overlay(&[("stall_ns_total", &many)]);
        let shapes = super::stalls(&busy);
        assert!((1..=MOST_BANDS).contains(&shapes.len()), "{}", shapes.len());
        let found = gridded(&shares(&busy.runs[0]));
        let shaded = |from: f64, to: f64| -> f64 {
            let cut = |b: &(f64, f64, u8)| (b.1.min(to) - b.0.max(from)).max(0.0);
            found.iter().map(cut).sum()
        };
        let cell = 4000.0 / MOST_BANDS as f64;
        assert!((shaded(0.0, 2000.0) - 2000.0).abs() <= cell, "{found:?}");
        assert!(shaded(2000.0, 3000.0) <= 2.0 * cell, "{found:?}");
        assert!((shaded(3000.0, 4000.0) - 1000.0).abs() <= cell, "{found:?}");
        assert!(gridded(&[]).is_empty());
    }

    #[test]
    fn what_a_driver_states_is_drawn_whatever_its_series_are_called() {
        let all = overlay(&[
            ("log_hits_total", &[(-0.5, 10.0), (0.5, 19.0), (1.5, 19.0)]),
            ("log_misses_total", &[(-0.5, 0.0), (0.5, 1.0), (1.5, 1.0)]),
            (HELD_BACK, &[(0.0, 0.0), (1.0, 5e8)]),
        ]);
        let figures = draw(&all);
        let headings: Vec<_> = figures.iter().map(|f| f.title.as_deref().unwrap()).collect();
        assert_eq!(headings, ["Writes held back, % of the time", "Lookups that hit, %: of <all>"]);
        assert_eq!(json(&figures[0])["data"][0]["y"], serde_json::json!([50.0]));
        let hits = json(&figures[1]);
        assert_eq!(hits["data"][0]["y"], serde_json::json!([90.0]));
        assert!(!hits["data"][0]["name"].as_str().unwrap().contains("<b>"), "{hits}");
    }

    #[test]
    fn samples_of_a_driver_that_states_nothing_are_drawn_by_their_units() {
        let all = overlay(&[
            ("heap_used_bytes", &[(0.0, 10.0), (1.0, 19.0)]),
            ("gc_ms_total", &[(0.0, 0.0), (1.0, 250.0)]),
            ("calls_total", &[(0.0, 3.0), (1.0, 3.0)]),
        ]);
        let figures = draw(&all);
        let headings: Vec<_> = figures.iter().map(|f| f.title.as_deref().unwrap()).collect();
        assert_eq!(headings, ["Time, % of the time", "Sizes, bytes"], "nothing called");
        assert_eq!(json(&figures[0])["data"][0]["y"], serde_json::json!([25.0]));
        assert_eq!(json(&figures[1])["data"][0]["name"], "heap used");
    }

    #[test]
    fn runs_of_two_drivers_share_the_panels_that_both_state() {
        let mut all = overlay(&[(HELD_BACK, &[(0.0, 0.0), (1.0, 5e8)])]);
        let mut other =
            overlay(&[("lock_wait_ns_total", &[(0.0, 0.0), (1.0, 1e8)])]).runs.remove(0);
        let held = SamplePanel::new("Writes held back", SampleUnit::PercentOfTime);
        other.store_panels = vec![
            held.line("lock_wait_ns_total", "waiting for a lock"),
            SamplePanel::new("Log", SampleUnit::Bytes).line("log_bytes", "log"),
        ];
        all.runs.push(other);
        let figures = draw(&all);
        let [both] = figures.as_slice() else { panic!("{}", figures.len()) };
        let drawn = json(both);
        let lines = drawn["data"].as_array().unwrap();
        assert_eq!(lines.len(), 2, "{drawn}");
        assert_ne!(lines[0]["line"]["dash"], lines[1]["line"]["dash"]);
    }
}
