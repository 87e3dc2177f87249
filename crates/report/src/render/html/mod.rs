//! `report.html`: one file, works offline, light and dark, on screen and on paper; the model and the figures
//! put into a template, with style, script and the plotting library inside.
//!
//! Everything that comes from a run directory is escaped: by the template engine and the filters here in text, by
//! `timelines` in pictures, by `script_json` inside scripts. A content security policy of the template forbids the
//! page to load anything from anywhere.

mod charts;
mod details;
mod explained;
mod live;
mod timelines;

use std::io::Read;

use base64::prelude::{BASE64_STANDARD, Engine};
use flate2::read::GzDecoder;
use minijinja::value::Serde;
use minijinja::{Environment, HtmlEscape, context};
use serde::Serialize;
use taillight_core::{Error, Result};
use taillight_rundir::{Manifest, Summary};

use self::charts::{ChartView, FigureView, chart_views};
use crate::model::charts::{ChartModel, RunCharts, SweepAxis, SweepData, run_charts, whole_series};
use crate::model::{
    AnalysedRun, Card, HoldersTable, Model, ReportContext, SharedWarning, about, differences,
    first, held, holders, labels, overview, shared, sides_of,
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

/// The page of one or several runs; without a run, that of the history in `context`. Errors: `Internal` when the
/// template does not fit; `Corrupt` as [`run_charts`].
pub fn page(runs: &[AnalysedRun], context: &ReportContext) -> Result<String> {
    page_in(runs, context, &BASE64_STANDARD.encode(BUNDLE))
}

/// The page of runs without a context, with another script in the place of the plotting library, for tests. Errors: as
/// [`page`].
pub fn page_with(runs: &[AnalysedRun], bundle: &str) -> Result<String> {
    page_in(runs, &ReportContext::default(), bundle)
}

/// The page with `bundle` where the plotting library belongs.
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
    environment.add_filter("hue", hue);
    environment.add_template("report.html", &template).map_err(bug)?;
    let template = environment.get_template("report.html").map_err(bug)?;
    let mut frame = context.tables.clone();
    let mut charts = chart_views(&overlay, brief.as_deref(), &mut frame)?;
    charts.iter_mut().flat_map(|chart| &mut chart.figures).for_each(FigureView::pack);
    let first = FirstScreen::new(runs, (context, &overlay.sides), &charts);
    let deviations: Vec<Table> = frame.extract_if(.., |table| table.id == "deviations").collect();
    let page = template
        .render(context! {
            first => Serde(&first),
            deviations => Serde(deviations),
            frame_tables => Serde(frame),
            sheet => Serde(context.sheet.clone()),
            version => env!("CARGO_PKG_VERSION"),
            // A history stands for itself: it has no run below.
            several => runs.len() != 1,
            runs => Serde(run_views(runs, &overlay, &first.shared)),
            overview => Serde(overview_table(runs)),
            differs => Serde(differences(runs).filter(|_| context.summary.is_none() && context.search.is_none() && context.sweep.is_none())),
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

/// A sentence as HTML: what stands between back quotes is code, unless one of them is left over.
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

/// The name of a layer as HTML, behind its colour in the bars where it has one.
fn layer(name: &str) -> minijinja::Value {
    let chip = timelines::colour_of(name).map_or(String::new(), |colour| {
        format!("<span class=\"chip\" style=\"background:{colour}\"></span>")
    });
    minijinja::Value::from_safe_string(format!("{chip}{}", HtmlEscape(name)))
}

/// The colour of a layer, grey for one without bars.
fn hue(name: &str) -> &'static str {
    timelines::colour_of(name).unwrap_or("#8a8f98")
}

/// What stands above everything else.
#[derive(Serialize)]
struct FirstScreen {
    title: String,
    /// What ran on what, when.
    about: String,
    /// The answer above several runs; of one it is in its verdict.
    answer: String,
    /// The rest of a long answer, which the page folds.
    more: String,
    /// Warnings that several runs share.
    shared: Vec<SharedWarning>,
    cards: Vec<Card>,
    /// Which latency the cards show, where it is not plain.
    kind: Option<String>,
    holders: Option<HoldersTable>,
    /// The same in a line or two.
    held: Option<HoldersTable>,
    /// The chart after which `holders` stands; empty where there is none.
    holders_after: &'static str,
    /// Goes with every picture.
    caption: String,
}

/// Said of a history where other pages tell which layers held the slow I/Os.
const HISTORY: &str =
    "A history keeps figures only: the report of a night that was traced tells it.";

impl FirstScreen {
    fn new(
        runs: &[AnalysedRun],
        (context, sides): (&ReportContext, &[Option<usize>]),
        charts: &[ChartView],
    ) -> FirstScreen {
        let names: Vec<String> = runs.iter().map(|run| run.shown.clone()).collect();
        let pairs: Vec<(&str, &Summary)> =
            names.iter().map(String::as_str).zip(runs.iter().map(|run| &run.summary)).collect();
        let manifests: Vec<&Manifest> = runs.iter().map(|run| &run.analysis.manifest).collect();
        let about = match (manifests.as_slice(), &context.history) {
            ([one], _) => about::about(one),
            ([], Some(history)) => shared::history_about(history),
            (several, _) => match &context.sweep {
                Some(sweep) => format!("{} · {}", swept(sweep), shared::about_all(several)),
                None => shared::about_all(several),
            },
        };
        let title = context.title.clone().unwrap_or_else(|| shared::title(&names));
        let judged: Vec<(&str, &Summary)> = match context.judged.is_empty() {
            true => pairs.clone(),
            false => context.judged.iter().filter_map(|at| pairs.get(*at).copied()).collect(),
        };
        let said = match (context.text.as_str(), pairs.len()) {
            ("", 0 | 1) => String::new(),
            ("", _) => first::answer_of_several(&pairs),
            (text, _) => match &context.compare {
                Some(found) => format!("{} {text}", first::compare_answer(found)),
                None => labels::prose(text),
            },
        };
        let said = format!("{} {said}", context.partial);
        let (answer, more) = first::headline(said.trim());
        let tail = charts.iter().find(|chart| chart.id == "tail").or(charts.first());
        FirstScreen {
            answer: answer.to_owned(),
            more: more.to_owned(),
            cards: match (&context.compare, &context.history) {
                (Some(found), _) => first::compare_cards(found, &pairs),
                (None, Some(history)) => first::history_cards(history),
                (None, None) => first::judged_cards(&judged),
            },
            kind: first::card_kind(&pairs),
            shared: shared::shared_warnings(&pairs),
            held: match &context.history {
                Some(_) => {
                    Some(HoldersTable { note: Some(HISTORY.to_owned()), ..HoldersTable::default() })
                }
                None => held(runs, sides),
            },
            holders: holders(runs, context.summary.is_some()),
            holders_after: tail.map_or("", |chart| chart.id),
            caption: match manifests.is_empty() {
                true => format!("{title} · {about}"),
                false => shared::caption(&manifests),
            },
            about,
            title,
        }
    }
}

/// The fields of a sweep with their values, of more than four the first and the last: `queue depth 1, 2, 4`.
fn swept(sweep: &SweepData) -> String {
    let axis = |axis: &SweepAxis| {
        let (first, last) = (axis.labels.first(), axis.labels.last());
        let values = match axis.labels.len() {
            0..=4 => axis.labels.join(", "),
            _ => [first, last].into_iter().flatten().cloned().collect::<Vec<_>>().join(" to "),
        };
        format!("{} {values}", labels::humanize(&axis.name))
    };
    sweep.axes.iter().map(axis).collect::<Vec<_>>().join(" · ")
}

/// The side of a comparison that each run is of, 0 that of base; empty without a comparison.
fn sides(runs: &[AnalysedRun], context: &ReportContext) -> Vec<Option<usize>> {
    let ids = runs.iter().map(|run| run.summary.run_id.as_str());
    let sides = context.compare.as_ref().map(|found| sides_of(ids, found));
    sides.into_iter().flatten().map(|side| side.map(|(side, _)| side)).collect()
}

/// The chart data of every run; series of all I/Os only for runs with a histogram of their own, and those of a group.
/// On one clock all times count from the start of the first run.
fn all_charts(runs: &[AnalysedRun], context: &ReportContext) -> Result<Vec<RunCharts>> {
    let first = runs.iter().map(|r| r.analysis.start_ns).min().unwrap_or(0);
    let one = |(nth, run): (usize, &AnalysedRun)| {
        let mut data = run_charts(&run.analysis, &run.shown)?;
        data.recorded.clone_from(&run.summary.recorded);
        data.arrivals.clone_from(&run.summary.arrivals);
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

/// The plotting library as gzip, made by the build script. A page has it in base64, which would be a third more here.
const BUNDLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plotly.js.gz"));

/// The plotting library. Errors: `Internal` when what the build script packed is damaged.
pub fn bundle() -> Result<String> {
    let mut text = String::new();
    let unpacked = GzDecoder::new(BUNDLE).read_to_string(&mut text);
    unpacked.map_err(|e| Error::internal("the plotting library is damaged").source(e))?;
    Ok(text)
}

/// What the page says of one run, below what it says of all.
#[derive(Serialize)]
struct RunView {
    label: String,
    colour: &'static str,
    /// What was driven how, in one line.
    about: String,
    /// Its reasons but those that are said of several runs.
    reasons: Vec<String>,
    model: Model,
    explained: Option<explained::Explained>,
    details: details::Details,
}

/// Pictures of episodes for each of several runs; `explain` of one run has more.
const PICTURES_OF_SEVERAL: usize = 4;

fn run_views(runs: &[AnalysedRun], overlay: &ChartModel, shared: &[SharedWarning]) -> Vec<RunView> {
    let view = |(i, run): (usize, &AnalysedRun)| RunView {
        label: run.shown.clone(),
        colour: overlay.hue(i),
        about: about::about(&run.analysis.manifest),
        reasons: further(run, shared),
        model: Model::new(&run.summary),
        explained: run.explanation.as_ref().map(|e| {
            let pictures = if runs.len() > 1 { PICTURES_OF_SEVERAL } else { usize::MAX };
            explained::explained(e, run.analysis.start_ns, pictures)
        }),
        details: details::details(run),
    };
    runs.iter().enumerate().map(view).collect()
}

/// Reasons of a run that neither its answer nor the banner has.
fn further(run: &AnalysedRun, shared: &[SharedWarning]) -> Vec<String> {
    let answer = first::answer(&run.summary);
    let own = shared::own_reasons(&run.summary, shared).into_iter();
    own.filter(|reason| !answer.contains(reason)).map(str::to_owned).collect()
}

/// A row for each run; none of one run alone.
fn overview_table(runs: &[AnalysedRun]) -> Option<Table> {
    let pairs: Vec<(String, &AnalysedRun)> = runs.iter().map(|r| (r.shown.clone(), r)).collect();
    (runs.len() > 1).then(|| overview(&pairs))
}

/// Names of the runs with where their own reports are, from this page; empty where the page shows runs in full.
fn links(runs: &[AnalysedRun], context: &ReportContext) -> Vec<(String, String)> {
    let links = context.summary.iter().flat_map(|b| b.links.iter().cloned());
    runs.iter().map(|r| r.shown.clone()).zip(links).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a narrow screen: words break, and a table has a box that scrolls.
    #[test]
    fn nothing_makes_the_page_wider_than_the_screen() {
        let body = STYLE.split_once("\nbody {").and_then(|(_, rest)| rest.split_once('}'));
        assert!(body.is_some_and(|(rules, _)| rules.contains("overflow-wrap: break-word;")));
        for (at, _) in TEMPLATE.match_indices("<table") {
            let before = TEMPLATE[..at].trim_end();
            assert!(before.ends_with("<div class=\"scroll\">"), "{}", &TEMPLATE[at..at + 60]);
        }
    }

    #[test]
    fn code_in_a_sentence_is_code_and_nothing_is_markup() {
        let html = |text| prose(text).to_string();
        assert_eq!(html("run `a <b>` & go"), "run <code>a &lt;b&gt;</code> &amp; go");
        assert_eq!(html("one ` <i>"), "one ` &lt;i&gt;");
    }

    #[test]
    fn the_bundle_is_the_library_alone() {
        let js = bundle().unwrap();
        assert!(BUNDLE.len() < 1_650_000, "{}", BUNDLE.len());
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
}
