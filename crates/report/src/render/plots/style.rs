//! The common look of figures: layout and legend, axes with their ticks and ranges, lines over time, rounding.
//!
//! Colours of text, grid and background come from the page (light or dark) and are not set here.

use plotly::common::{
    Anchor, DashType, Font, LegendGroupTitle, Line, Marker, Mode, Orientation, TickMode, Title,
};
use plotly::configuration::DisplayModeBar;
use plotly::layout::{
    Axis, AxisType, GroupClick, HoverMode, Legend, Margin, Shape, ShapeLine, ShapeType,
};
use plotly::{Configuration, Layout, Plot, Scatter};
use serde::Serialize;

use super::look::LineLook;
use crate::format;
use crate::model::charts::ChartModel;
use crate::render::palette;

/// A layout with a legend above the plot; without one for 0 `entries`.
pub fn layout(entries: usize) -> Layout {
    let legend = Legend::new()
        .orientation(Orientation::Horizontal)
        .x(0.0)
        .x_anchor(Anchor::Left)
        .y(1.02)
        .y_anchor(Anchor::Bottom)
        .group_click(GroupClick::ToggleItem)
        .trace_group_gap(4);
    Layout::new()
        .auto_size(true)
        .margin(Margin::new().left(78).right(24).top(30).bottom(52).auto_expand(true))
        .legend(legend)
        .show_legend(entries > 0)
        .hover_mode(HoverMode::Closest)
        .font(Font::new().size(13))
}

/// Lines that a reader tells apart: charts with more are parted.
pub const MOST_LINES: usize = 8;
/// How many lines each of several figures has with at most so many, as even as they come: ten with eight are
/// five and five.
pub fn even(lines: usize, most: usize) -> usize {
    lines.div_ceil(lines.div_ceil(most).max(1)).max(1)
}

/// More runs than this share a legend only with what is shown: hidden lines are left out.
const FEW_RUNS: usize = 4;
/// Runs beside each other in a legend of headings, at least.
const RUNS_IN_ROW: usize = 4;

/// Whether there are too many runs for lines that are hidden at first.
pub fn crowded(overlay: &ChartModel) -> bool {
    overlay.runs.len() > FEW_RUNS
}

/// `height` pixels, and more where the legend of many runs would leave no room for the lines.
pub fn height(height: usize, overlay: &ChartModel) -> usize {
    let shown = overlay.runs.iter().filter(|r| !(r.series.is_empty() && r.tracks.is_empty()));
    let entries = shown.clone().map(|r| r.tracks.len()).max().unwrap_or(0);
    let rows = shown.count().div_ceil(RUNS_IN_ROW).saturating_sub(1);
    height + rows * (22 + 19 * entries.max(1))
}

/// Points from which a line is drawn without marks.
const MANY_POINTS: usize = 40;

/// A line over time. Where there are few points they are marked: a lone one would not be seen.
pub fn line_over_time(
    name: &str,
    points: impl Iterator<Item = (f64, f64)>,
    (colour, dash): (&'static str, DashType),
) -> Box<Scatter<f64, f64>> {
    let (x, y): (Vec<f64>, Vec<f64>) = points.map(|(x, y)| (round(x), round(y))).unzip();
    let mode = match x.len() < MANY_POINTS {
        true => Mode::LinesMarkers,
        false => Mode::Lines,
    };
    Scatter::new(x, y)
        .name(name)
        .mode(mode)
        .marker(Marker::new().size(4).color(colour))
        .line(Line::new().color(colour).width(2.0).dash(dash))
}

/// Puts a line under its run's heading in the legend and names what it is hidden with.
pub fn group<X, Y>(trace: Box<Scatter<X, Y>>, look: &LineLook) -> Box<Scatter<X, Y>>
where
    X: Serialize + Clone + 'static,
    Y: Serialize + Clone + 'static,
{
    let trace = trace.meta(look.key.clone());
    match &look.group {
        Some((group, heading)) => {
            trace.legend_group(group).legend_group_title(LegendGroupTitle::from(heading))
        }
        None => trace,
    }
}

/// Six digits are more than a screen shows, and keep the file small.
pub fn round(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10f64.powi(5 - value.abs().log10().floor() as i32);
    if scale.is_finite() { (value * scale).round() / scale } else { value }
}

/// Seconds since the start of the measure phase, over the whole run.
pub fn elapsed_axis(overlay: &ChartModel) -> Axis {
    axis("time since the start of measuring")
        .range(vec![0.0, overlay.end_s().max(1e-3)])
        .tick_suffix(" s")
}

/// Buttons and behaviour common to all figures.
pub fn finish(mut plot: Plot, layout: Layout) -> Plot {
    plot.set_layout(layout);
    plot.set_configuration(
        Configuration::new()
            .responsive(true)
            .display_logo(false)
            .display_mode_bar(DisplayModeBar::Hover),
    );
    plot
}

pub fn axis(title: &str) -> Axis {
    Axis::new().title(Title::with_text(title)).show_line(true).zero_line(false)
}

/// A logarithmic latency axis over `lo..hi` nanoseconds, with a tick at every decade.
pub fn latency_axis(title: &str, lo_ns: f64, hi_ns: f64) -> Axis {
    let (lo, hi) = (lo_ns.max(1.0).log10(), hi_ns.max(2.0).log10());
    let decades: Vec<f64> = (lo.floor() as i32..=hi.ceil() as i32).map(|d| 10f64.powi(d)).collect();
    let text = decades.iter().map(|v| tick(*v)).collect();
    axis(title)
        .type_(AxisType::Log)
        .range(vec![lo, hi])
        .tick_mode(TickMode::Array)
        .tick_values(decades)
        .tick_text(text)
}

/// Ratios that an axis of differences names.
const RATIOS: [f64; 19] = [
    0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.98, 1.0, 1.02, 1.05, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0,
    10.0, 100.0,
];

/// A ratio as the change that it is: `+25 %`, and from three times on `x 3`.
pub fn change(ratio: f64) -> String {
    match 100.0 * (ratio - 1.0) {
        _ if ratio >= 3.0 => format!("x {}", format::digits3(ratio)),
        percent if percent.abs() < 0.05 => "0 %".to_owned(),
        percent if percent.abs() < 10.0 => format!("{percent:+.1} %"),
        percent => format!("{percent:+.0} %"),
    }
}

/// A thin line where both sides are the same.
pub fn no_difference() -> Shape {
    let line = ShapeLine::new().width(1.2).color(palette::HUES[6]);
    Shape::new().shape_type(ShapeType::Line).line(line)
}

/// A logarithmic axis of ratios over all of these, the level of no difference among them.
pub fn ratio_axis(title: &str, values: impl Iterator<Item = f64>) -> Axis {
    let (lo, hi) = values
        .filter(|v| v.is_finite() && *v > 0.0)
        .fold((0.98f64, 1.02f64), |(lo, hi), v| (lo.min(v), hi.max(v)));
    let room = (hi / lo).log10() * 0.06;
    // Where the axis is long, small differences would stand on each other.
    let least = (hi / lo).ln() * 0.04;
    let mut shown: Vec<f64> = vec![1.0];
    for ratio in RATIOS.into_iter().filter(|r| (lo * 0.9..=hi * 1.1).contains(r)) {
        if shown.iter().all(|other| (ratio / other).ln().abs() >= least) {
            shown.push(ratio);
        }
    }
    let text = shown.iter().map(|ratio| format::trimmed(&change(*ratio))).collect();
    axis(title)
        .type_(AxisType::Log)
        .range(vec![lo.log10() - room, hi.log10() + room])
        .tick_mode(TickMode::Array)
        .tick_values(shown)
        .tick_text(text)
}

/// A tick label: `10 us`, not `10.0 us`.
pub fn tick(ns: f64) -> String {
    if ns >= 100e9 {
        // Decades of seconds are no round minutes.
        return format!("{} s", format::count((ns / 1e9).round() as u64));
    }
    format::trimmed(&format::duration(ns))
}

/// A tick label of a count: `10k`.
pub fn short_tick(count: f64) -> String {
    format::trimmed(&format::short(count)).replace(' ', "")
}

/// The latency range that shows every given value, with a little room.
pub fn latency_range(values: impl Iterator<Item = (u64, u64)>) -> Option<(f64, f64)> {
    let (lo, hi) = values.fold((u64::MAX, 0), |(lo, hi), (a, b)| (lo.min(a), hi.max(b)));
    if lo > hi {
        return None;
    }
    let (lo, hi) = ((lo.max(1)) as f64, (hi.max(2)) as f64);
    let room = ((hi / lo).log10() * 0.03).max(0.05);
    Some((lo / 10f64.powf(room), hi * 10f64.powf(room)))
}

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AxisScale {
    Linear,
    Log,
}

impl AxisScale {
    /// The name plotly gives it.
    pub fn plotly(self) -> &'static str {
        match self {
            AxisScale::Linear => "linear",
            AxisScale::Log => "log",
        }
    }

    /// The range that shows values from `floor` to `top`, as plotly takes it: a linear one from zero.
    pub fn range(self, floor: f64, top: f64) -> Vec<f64> {
        match self {
            AxisScale::Linear => vec![0.0, top * 1.06],
            AxisScale::Log => vec![(floor * 0.5).log10(), (top * 1.6).log10()],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_say_the_number_they_stand_at() {
        let said: Vec<String> = RATIOS.iter().map(|r| format::trimmed(&change(*r))).collect();
        let wanted = [
            "-99 %", "-90 %", "-75 %", "-50 %", "-25 %", "-10 %", "-5 %", "-2 %", "0 %", "+2 %",
            "+5 %", "+10 %", "+25 %", "+50 %", "+100 %", "x 3", "x 5", "x 10", "x 100",
        ];
        assert_eq!(said, wanted);
        assert_eq!([1.0, 950.0, 1_050.0, 10_500.0].map(short_tick), ["1", "950", "1.05k", "10.5k"]);
        assert_eq!(
            [1e3, 1e4, 1.05e6, 3e9, 1e11].map(tick),
            ["1 us", "10 us", "1.05 ms", "3 s", "100 s"]
        );
        let axis = serde_json::to_value(ratio_axis("", [0.01, 100.0].into_iter())).unwrap();
        let text: Vec<&str> =
            axis["ticktext"].as_array().unwrap().iter().filter_map(|t| t.as_str()).collect();
        assert!(text.contains(&"x 3") && !text.contains(&"x 30"), "{text:?}");
    }
}
