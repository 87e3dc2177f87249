//! The common look of all figures: axes, margins, legends, hover texts.
//!
//! Colours of text, grid and background come from the page (light or dark), so none is set here.

use plotly::common::{Anchor, Font, LegendGroupTitle, Orientation, TickMode, Title};
use plotly::configuration::DisplayModeBar;
use plotly::layout::{Axis, AxisType, GroupClick, HoverMode, Legend, Margin};
use plotly::{Configuration, Layout, Plot};

use super::data::Look;
use crate::format::{self, Script};

/// A layout with a legend above the plot, or below it when it has many entries.
pub fn layout(entries: usize) -> Layout {
    let legend = if entries > 6 {
        Legend::new()
            .orientation(Orientation::Vertical)
            .x(1.01)
            .y(1.0)
    } else {
        Legend::new()
            .orientation(Orientation::Horizontal)
            .x(0.0)
            .x_anchor(Anchor::Left)
            .y(1.02)
            .y_anchor(Anchor::Bottom)
    };
    Layout::new()
        .auto_size(true)
        .margin(
            Margin::new()
                .left(78)
                .right(24)
                .top(36)
                .bottom(52)
                .auto_expand(true),
        )
        .legend(
            legend
                .group_click(GroupClick::ToggleItem)
                .trace_group_gap(6),
        )
        .show_legend(entries > 1)
        .hover_mode(HoverMode::Closest)
        .font(Font::new().size(13))
}

/// The heading of a run's lines in the legend.
pub fn heading(look: &Look) -> Option<LegendGroupTitle> {
    look.heading.as_deref().map(LegendGroupTitle::from)
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

/// An axis with a title.
pub fn axis(title: &str) -> Axis {
    Axis::new()
        .title(Title::with_text(title))
        .show_line(true)
        .zero_line(false)
}

/// A logarithmic latency axis over `lo..hi` nanoseconds, with a tick at every decade.
pub fn latency_axis(title: &str, lo_ns: f64, hi_ns: f64) -> Axis {
    let (lo, hi) = (lo_ns.max(1.0).log10(), hi_ns.max(2.0).log10());
    let decades: Vec<f64> = (lo.floor() as i32..=hi.ceil() as i32)
        .map(|d| 10f64.powi(d))
        .collect();
    let text = decades.iter().map(|v| tick(*v)).collect();
    axis(title)
        .type_(AxisType::Log)
        .range(vec![lo, hi])
        .tick_mode(TickMode::Array)
        .tick_values(decades)
        .tick_text(text)
}

/// A tick label: `10 µs`, not `10.0 µs`.
pub fn tick(ns: f64) -> String {
    format::duration(ns, Script::Fine)
        .replace(".00 ", " ")
        .replace(".0 ", " ")
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
pub enum Scale {
    /// Equal distances.
    Linear,
    /// Equal ratios.
    Log,
}

impl Scale {
    /// The name plotly gives it.
    pub fn plotly(self) -> &'static str {
        match self {
            Scale::Linear => "linear",
            Scale::Log => "log",
        }
    }
}
