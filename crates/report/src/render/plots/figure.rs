//! Charts and their figures: a plotly plot with what the page adds to it.

use std::collections::BTreeMap;

use plotly::{Layout, Plot};
use serde::Serialize;
use serde_json::json;

use super::style;
use crate::model::charts::ChartModel;

/// A section of the page: its heading, how to read it, and the function that draws its figures.
pub struct Chart {
    /// Stable id, used in page anchors.
    pub id: &'static str,
    pub title: &'static str,
    /// How to read it.
    pub read: &'static str,
    /// Draws it; no figure when the runs hold nothing to show.
    pub draw: fn(&ChartModel) -> Vec<ChartFigure>,
}

/// What an axis counts; decides how its ticks are written at every zoom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AxisKind {
    /// Nanoseconds.
    Time,
    /// A plain number or a rate.
    Number,
    /// Bytes per second.
    Bytes,
    /// Bytes.
    Size,
    /// Share of I/Os not finished yet, falling: 90 %, 99 %, 99.9 %.
    Nines,
    Percent,
    /// Seconds since the start.
    Elapsed,
}

/// A row of buttons above a figure, of which one is active.
#[derive(Debug, Clone, Serialize)]
pub struct ButtonRow {
    pub label: String,
    /// The choices; the first one is active at first.
    pub choices: Vec<ButtonChoice>,
}

impl ButtonRow {
    /// Each button shows those traces for which its flag is set, and no others.
    pub fn show(choices: impl IntoIterator<Item = (String, Vec<bool>)>) -> ButtonRow {
        let choice = |(label, visible)| ButtonChoice {
            label,
            data: json!({ "visible": visible }),
            layout: json!({}),
        };
        ButtonRow { label: "Show".to_owned(), choices: choices.into_iter().map(choice).collect() }
    }
}

/// One button: what it changes in traces and layout.
#[derive(Debug, Clone, Serialize)]
pub struct ButtonChoice {
    pub label: String,
    /// Changes to trace attributes.
    pub data: serde_json::Value,
    /// Changes to layout attributes.
    pub layout: serde_json::Value,
}

/// One drawing.
#[derive(Clone)]
pub struct ChartFigure {
    /// Unique in the page.
    pub id: String,
    /// Heading of its own; mostly where a chart has several figures.
    pub title: Option<String>,
    pub plot: Plot,
    pub height: usize,
    /// Kind of each axis.
    pub axes: BTreeMap<&'static str, AxisKind>,
    pub switches: Vec<ButtonRow>,
    /// Whether two of these fit beside each other.
    pub half: bool,
}

impl ChartFigure {
    /// The only figure of a chart: without a heading, buttons or one beside it.
    pub fn new<const N: usize>(
        id: impl Into<String>,
        height: usize,
        axes: [(&'static str, AxisKind); N],
        plot: Plot,
        layout: Layout,
    ) -> ChartFigure {
        ChartFigure {
            id: id.into(),
            title: None,
            plot: style::finish(plot, layout),
            height,
            axes: axes.into(),
            switches: Vec::new(),
            half: false,
        }
    }
}

/// One figure for each of these names, in their order; headings tell several apart.
pub fn figure_per_name<'a>(
    names: impl Iterator<Item = &'a str>,
    draw: impl Fn(usize, &str) -> Option<ChartFigure>,
) -> Vec<ChartFigure> {
    let mut distinct: Vec<&str> = Vec::new();
    for name in names {
        if !distinct.contains(&name) {
            distinct.push(name);
        }
    }
    let several = distinct.len() > 1;
    let figure = |(i, name): (usize, &&str)| {
        let title = several.then(|| (*name).to_owned());
        Some(ChartFigure { title, ..draw(i, name)? })
    };
    distinct.iter().enumerate().filter_map(figure).collect()
}
