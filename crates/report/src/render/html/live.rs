//! The charts of a run that goes on: their places in a page, and what each shows now.

use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde_json::{Map, Value};
use taillight_core::{Error, Result};

use super::CHART_SECTIONS;
use super::charts::chart_views;
use crate::model::charts::ChartModel;

/// Charts in page order of which a run that goes on has data, the ones that move first.
const IDS: &[&str] =
    &["latency-time", "throughput-time", "in-flight", "heat", "tail", "percentile"];

/// Figures of a page that stays open.
#[derive(Debug, Clone, PartialEq)]
pub struct LiveFigures {
    /// Headings, switches and empty places for the figures.
    pub html: String,
    /// What each figure shows, by its id.
    pub figures: Map<String, Value>,
}

/// The charts of a run that goes on. Errors: `Internal` when a figure is no JSON or the template does not fit its data.
pub fn live_figures(charts: &ChartModel) -> Result<LiveFigures> {
    let bug =
        |e: minijinja::Error| Error::internal("the template of charts does not fit").source(e);
    let mut views = chart_views(charts, Some(IDS), &mut Vec::new())?;
    views.sort_by_key(|view| IDS.iter().position(|id| *id == view.id));
    let mut figures = Map::new();
    for figure in views.iter_mut().flat_map(|view| &mut view.figures) {
        let json = std::mem::take(&mut figure.json);
        let value = serde_json::from_str(&json)
            .map_err(|e| Error::internal("a figure cannot be read as JSON").source(e))?;
        figures.insert(figure.id.clone(), value);
    }
    let mut environment = Environment::new();
    environment.add_template("charts.html", CHART_SECTIONS).map_err(bug)?;
    let template = environment.get_template("charts.html").map_err(bug)?;
    let html = template.render(context! { charts => Serde(views) }).map_err(bug)?;
    Ok(LiveFigures { html, figures })
}
