//! `report.html`: one file, works offline, light and dark, on screen and on paper.
//!
//! What it is: the model and the figures put into a template. Everything that comes from a run
//! directory is escaped: by the template engine in text, by `script_json` inside scripts. A
//! content security policy forbids the page to load anything from anywhere.

mod details;
mod explained;
mod live;
mod timelines;

use std::io::{Read, Write};

use base64::prelude::{BASE64_STANDARD, Engine};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use minijinja::value::Serde;
use minijinja::{Environment, HtmlEscape, context};
use serde::Serialize;
use serde_json::{Value, json};
use taillight_core::{Error, Result};
use taillight_rundir::Summary;

use super::plots::{ButtonRow, CHARTS, Chart, ChartFigure, crowded};
use crate::model::charts::{ChartModel, RunCharts, RunGroup, run_charts, whole_series};
use crate::model::{
    AnalysedRun, Model, ReportContext, about, differences, holders, overview, sides_of,
};
use crate::table::Table;

pub use live::{LiveFigures, live_figures};

const TEMPLATE: &str = include_str!("report.html");
const CHART_SECTIONS: &str = include_str!("charts.html");
/// Licence of the plotting library, which goes with every copy of it.
const NOTICE: &str = include_str!("plotly.txt");
/// How pages look.
pub const STYLE: &str = include_str!("style.css");
/// What draws the figures of a page.
pub const SCRIPT: &str = include_str!("app.js");

/// The page of one or several runs. Errors: `Internal` when the template does not fit its data.
pub fn page(runs: &[AnalysedRun], context: &ReportContext) -> Result<String> {
    page_in(runs, context, BUNDLE)
}

/// The page with another script in the place of the plotting library, for tests. Errors: as
/// [`page`].
pub fn page_with(runs: &[AnalysedRun], bundle: &str) -> Result<String> {
    page_in(runs, &ReportContext::default(), bundle)
}

fn page_in(runs: &[AnalysedRun], context: &ReportContext, bundle: &str) -> Result<String> {
    let overlay = ChartModel {
        runs: all_charts(runs, context)?,
        groups: context.summary.iter().flat_map(|b| b.groups.clone()).collect(),
        search: context.search.clone(),
        sweep: context.sweep.clone(),
        steady: context.steady.clone(),
        points: context.points.clone(),
        history: context.history.clone(),
        compare: context.compare.clone(),
        sides: sides(runs, context),
    };
    let bug = |e: minijinja::Error| Error::internal("the report's template does not fit").source(e);
    let brief = context.summary.as_ref();
    let brief: Option<Vec<&str>> = brief.map(|b| b.charts.iter().map(String::as_str).collect());
    let template = TEMPLATE.replace("{# charts #}", CHART_SECTIONS);
    let mut environment = Environment::new();
    environment.add_filter("prose", prose);
    environment.add_filter("layer", layer);
    environment.add_template("report.html", &template).map_err(bug)?;
    let template = environment.get_template("report.html").map_err(bug)?;
    let mut frame = context.tables.clone();
    let mut charts = chart_views(&overlay, brief.as_deref(), &mut frame)?;
    charts.iter_mut().flat_map(|chart| &mut chart.figures).for_each(FigureView::pack);
    // Nothing that was measured stands before the proof that it was steady.
    let proof: Vec<ChartView> = charts.extract_if(.., |chart| chart.id == "steady").collect();
    let page = template
        .render(context! {
            title => context.title.clone().unwrap_or_else(|| title(runs)),
            lead => context.text.as_str(),
            frame_tables => Serde(frame),
            sheet => Serde(context.sheet.clone()),
            holders => Serde(holders(runs).filter(|_| context.summary.is_none())),
            version => env!("CARGO_PKG_VERSION"),
            // A history stands for itself: it has no run below.
            several => runs.len() != 1,
            // Then small screens have no legends.
            many => crowded(&overlay),
            runs => Serde(run_views(runs, &overlay)),
            overview => Serde(overview_table(runs)),
            differs => Serde(differences(runs).filter(|_| context.summary.is_none() && context.search.is_none() && context.sweep.is_none())),
            proof => Serde(proof),
            charts => Serde(charts),
            links => Serde(links(runs, context)),
            brief => context.summary.is_some(),
            notice => NOTICE,
            style => STYLE,
            script => SCRIPT,
        })
        .map_err(bug)?;
    // The library is large and holds no markup: it is put in last, outside the template engine.
    let (before, after) = page.split_once("/*plotly*/").unwrap_or((&page, ""));
    Ok([before, bundle, after].concat())
}

/// A sentence as HTML: what stands between back quotes is code.
fn prose(text: &str) -> minijinja::Value {
    let parts: Vec<&str> = text.split('`').collect();
    let html = match parts.len() % 2 {
        0 => HtmlEscape(text).to_string(),
        _ => (parts.iter().enumerate())
            .map(|(nth, part)| match nth % 2 {
                0 => HtmlEscape(part).to_string(),
                _ => format!("<code>{}</code>", HtmlEscape(part)),
            })
            .collect(),
    };
    minijinja::Value::from_safe_string(html)
}

/// The name of a layer behind its colour in the bars.
fn layer(name: &str) -> minijinja::Value {
    let chip = timelines::colour_of(name).map_or(String::new(), |colour| {
        format!("<span class=\"chip\" style=\"background:{colour}\"></span>")
    });
    minijinja::Value::from_safe_string(format!("{chip}{}", HtmlEscape(name)))
}

fn sides(runs: &[AnalysedRun], context: &ReportContext) -> Vec<Option<usize>> {
    let ids = runs.iter().map(|run| run.summary.run_id.as_str());
    let sides = context.compare.as_ref().map(|found| sides_of(ids, found));
    sides.into_iter().flatten().map(|side| side.map(|(side, _)| side)).collect()
}

/// The chart data of every run. On one clock all times count from the start of the first run.
fn all_charts(runs: &[AnalysedRun], context: &ReportContext) -> Result<Vec<RunCharts>> {
    let first = runs.iter().map(|r| r.analysis.start_ns).min().unwrap_or(0);
    let one = |(nth, run): (usize, &AnalysedRun)| {
        let mut data = run_charts(&run.analysis, &run.label)?;
        let mut groups = context.summary.iter().flat_map(|s| &s.groups);
        if context.points.iter().any(|p| p.run == nth) || groups.any(|g| g.runs.contains(&nth)) {
            data.whole = whole_series(&run.analysis)?;
        }
        if context.one_clock {
            data.shift(run.analysis.start_ns.saturating_sub(first) as f64 / 1e9);
        }
        Ok(data)
    };
    runs.iter().enumerate().map(one).collect()
}

/// The plotting library as gzip in base64, made by the build script.
const BUNDLE: &str = include_str!(concat!(env!("OUT_DIR"), "/plotly.b64"));

/// Figures with more JSON than this are compressed.
const PACKED_FROM: usize = 4 << 10;

fn packed(text: &str) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    // Memory takes everything.
    let bytes = gzip.write_all(text.as_bytes()).and_then(|()| gzip.finish()).unwrap_or_default();
    BASE64_STANDARD.encode(bytes)
}

/// The plotting library. Errors: `Internal` when what the build script packed is damaged.
pub fn bundle() -> Result<String> {
    let damaged = || Error::internal("the plotting library is damaged");
    let packed = BASE64_STANDARD.decode(BUNDLE).map_err(|e| damaged().source(e))?;
    let mut text = String::new();
    GzDecoder::new(&packed[..]).read_to_string(&mut text).map_err(|e| damaged().source(e))?;
    Ok(text)
}

fn title(runs: &[AnalysedRun]) -> String {
    match runs {
        [one] => one.label.clone(),
        several => format!("{} runs", several.len()),
    }
}

#[derive(Serialize)]
struct RunView {
    label: String,
    colour: &'static str,
    /// What was driven how, in one line.
    about: String,
    model: Model,
    explained: Option<explained::Explained>,
    details: details::Details,
}

/// Pictures of episodes for each of several runs; `explain` of one run has more.
const PICTURES_OF_SEVERAL: usize = 4;

fn run_views(runs: &[AnalysedRun], overlay: &ChartModel) -> Vec<RunView> {
    let view = |(i, run): (usize, &AnalysedRun)| RunView {
        label: run.label.clone(),
        colour: overlay.hue(i),
        about: about::about(&run.analysis.manifest),
        model: Model::new(&run.summary),
        explained: run.explanation.as_ref().map(|e| {
            let pictures = if runs.len() > 1 { PICTURES_OF_SEVERAL } else { usize::MAX };
            explained::explained(e, run.analysis.start_ns, pictures)
        }),
        details: details::details(run),
    };
    runs.iter().enumerate().map(view).collect()
}

fn overview_table(runs: &[AnalysedRun]) -> Option<Table> {
    let pairs: Vec<(String, &Summary)> =
        runs.iter().map(|r| (r.label.clone(), &r.summary)).collect();
    (runs.len() > 1).then(|| overview(&pairs))
}

#[derive(Serialize)]
struct ChartView {
    id: &'static str,
    title: &'static str,
    read: &'static str,
    figures: Vec<FigureView>,
    /// Tables of the frame that belong below it.
    tables: Vec<Table>,
    /// Too high to be open beside others, unless it is asked for.
    long: bool,
}

#[derive(Serialize)]
struct FigureView {
    id: String,
    title: Option<String>,
    height: usize,
    half: bool,
    switches: Vec<ButtonRow>,
    json: String,
    /// Whether `json` is compressed, as [`BUNDLE`] is.
    packed: bool,
}

/// Names of the runs with where their own reports are, from this page.
fn links(runs: &[AnalysedRun], context: &ReportContext) -> Vec<(String, String)> {
    let links = context.summary.iter().flat_map(|b| b.links.iter().cloned());
    runs.iter().map(|r| r.label.clone()).zip(links).collect()
}

/// Pixels of figures that a chart of several runs has open.
const OPEN_HEIGHT: usize = 1_000;
/// Figures that it has open where few charts were chosen.
const FEW_FIGURES: usize = 6;

/// The charts that have something to show; of these ids only, where some are given. Each takes the
/// tables of the frame that belong to it. Over several runs the tails come first: they are what the page
/// is about.
fn chart_views(
    overlay: &ChartModel,
    ids: Option<&[&str]>,
    frame: &mut Vec<Table>,
) -> Result<Vec<ChartView>> {
    let mut views = Vec::new();
    let wanted = |id: &str| ids.is_none_or(|ids| ids.contains(&id)) || by_group(overlay, id);
    for chart in CHARTS.iter().filter(|c| wanted(c.id)) {
        let figures: Vec<FigureView> =
            drawn(chart, overlay).into_iter().map(figure_view).collect::<Result<_>>()?;
        if !figures.is_empty() {
            let below = |table: &mut Table| place(&table.id) == chart.id;
            let tables = frame.extract_if(.., below).collect();
            let (id, title, read) = (chart.id, chart.title, chart.read);
            let columns = if figures[0].half { 2 } else { 1 };
            let height = figures.iter().map(|figure| figure.height).sum::<usize>() / columns;
            let high = match ids {
                None => height > OPEN_HEIGHT,
                Some(_) => figures.len() > FEW_FIGURES,
            };
            let long = overlay.runs.len() != 1 && high;
            views.push(ChartView { id, title, read, figures, tables, long });
        }
    }
    let of = |views: &[ChartView], id: &str| views.iter().position(|v| v.id == id);
    if overlay.runs.len() > 1
        && let Some((first, tail)) = of(&views, "distribution").zip(of(&views, "tail"))
    {
        views[first..=tail].rotate_right(1);
    }
    Ok(views)
}

/// Charts of distributions: over groups of several named runs each group has figures of its own.
const BY_GROUP: [&str; 3] = ["distribution", "percentile", "tail"];

fn by_group(overlay: &ChartModel, id: &str) -> bool {
    overlay.groups.iter().any(|group| !group.labels.is_empty()) && BY_GROUP.contains(&id)
}

fn drawn(chart: &Chart, overlay: &ChartModel) -> Vec<ChartFigure> {
    if !by_group(overlay, chart.id) {
        return (chart.draw)(overlay);
    }
    let of = |(nth, group): (usize, &RunGroup)| {
        let figures = (chart.draw)(&overlay.part(group));
        let named = |figure: ChartFigure| ChartFigure {
            id: format!("{}-{nth}", figure.id),
            title: Some(match &figure.title {
                Some(title) => format!("{}: {title}", group.title),
                None => group.title.clone(),
            }),
            ..figure
        };
        figures.into_iter().map(named).collect::<Vec<_>>()
    };
    overlay.groups.iter().enumerate().flat_map(of).collect()
}

/// The chart below which a table of the frame stands. Runs have a place of their own.
fn place(table: &str) -> &str {
    match table {
        "points" => "",
        "window" => "steady",
        "grid" => "sweep",
        "histograms" => "points",
        other => other,
    }
}

fn figure_view(figure: ChartFigure) -> Result<FigureView> {
    let mut value = serde_json::to_value(&figure.plot)
        .map_err(|e| Error::internal("a figure cannot be written as JSON").source(e))?;
    if let Value::Object(map) = &mut value {
        map.insert("axes".to_owned(), json!(figure.axes));
        map.insert("switches".to_owned(), json!(figure.switches));
    }
    Ok(FigureView {
        id: figure.id,
        title: figure.title,
        height: figure.height,
        half: figure.half,
        switches: figure.switches,
        json: script_json(&value),
        packed: false,
    })
}

impl FigureView {
    fn pack(&mut self) {
        self.packed = self.json.len() > PACKED_FROM;
        if self.packed {
            self.json = packed(&self.json);
        }
    }
}

/// JSON that cannot end the script element it stands in.
fn script_json(value: &Value) -> String {
    value
        .to_string()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_in_a_sentence_is_code_and_nothing_is_markup() {
        let html = |text| prose(text).to_string();
        assert_eq!(html("run `a <b>` & go"), "run <code>a &lt;b&gt;</code> &amp; go");
        assert_eq!(html("one ` <i>"), "one ` &lt;i&gt;");
    }

    #[test]
    fn the_bundle_is_the_library_alone() {
        let js = bundle().unwrap();
        assert!(BUNDLE.len() < 2_200_000, "{}", BUNDLE.len());
        // The licence that pages carry is that of the library which is in them.
        for line in NOTICE.lines().take(2).map(|line| line.split(", the").next().unwrap()) {
            assert!(js[..300].contains(line), "{line}\n{}", &js[..300]);
        }
        for line in NOTICE.lines().filter(|line| line.starts_with("  ")) {
            let name = line.trim().split([' ', ',']).next().unwrap();
            assert!(js.contains(name), "{line}");
        }
        assert!(!NOTICE.contains("--") && !NOTICE.contains(['<', '>']), "it stands in a comment");
        assert!(!js.contains("MathJax-script"), "no typesetting library");
        assert!(js.len() < 5_000_000 && js.len() > 1_000_000, "{}", js.len());
        assert!(!js.contains("</script"));
    }

    #[test]
    fn json_cannot_leave_its_script() {
        let text = script_json(&json!({ "a": "</script><script>alert(1)//" }));
        assert!(!text.contains('<'));
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back["a"], "</script><script>alert(1)//");
    }
}
