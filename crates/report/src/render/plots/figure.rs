//! Charts and their figures: a plotly plot with what the page adds to it.

use std::collections::BTreeMap;

use plotly::Plot;
use serde::Serialize;

use crate::model::charts::ChartModel;

/// A chart: a question, how to read the answer, and the function that draws it.
pub struct Chart {
    /// Stable id, used in page anchors.
    pub id: &'static str,
    pub title: &'static str,
    /// One line: how to read it.
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
    /// Heading when a chart has several figures.
    pub title: Option<String>,
    pub plot: Plot,
    pub height: usize,
    /// Kind of each axis.
    pub axes: BTreeMap<&'static str, AxisKind>,
    pub switches: Vec<ButtonRow>,
    /// Whether two of these fit beside each other.
    pub half: bool,
}
