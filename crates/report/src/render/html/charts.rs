//! The charts of a page: which are shown, in which figures, order and size, each figure as JSON; `plots` draws. Most
//! charts of lines are parted where a figure would have more than eight of them: by operation, then by runs.
//! Callers: the report and the live view.

use std::io::Write;

use base64::prelude::{BASE64_STANDARD, Engine};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::{Value, json};
use taillight_core::{Error, Result};

use super::super::plots::{ButtonRow, CHARTS, Chart, ChartFigure, MOST_LINES, even};
use crate::model::charts::{ChartModel, RunCharts, RunGroup};
use crate::model::labels;
use crate::table::Table;

#[derive(Serialize)]
pub struct ChartView {
    pub id: &'static str,
    title: &'static str,
    read: &'static str,
    pub figures: Vec<FigureView>,
    /// Tables of the frame that belong below it.
    tables: Vec<Table>,
    /// How many of `figures` are open, from the first on.
    open: usize,
}

#[derive(Serialize)]
pub struct FigureView {
    pub id: String,
    title: Option<String>,
    height: usize,
    half: bool,
    switches: Vec<ButtonRow>,
    pub json: String,
    /// Whether `json` is compressed: gzip in base64, as the plotting library is.
    packed: bool,
}

/// Pixels of figures that a chart of several runs has open.
const OPEN_HEIGHT: usize = 1_000;
/// With chosen charts: a chart of up to so many figures is open whole.
const FEW_FIGURES: usize = 6;
/// Height of a figure of a parted chart, at most, pixels.
const SMALL: usize = 380;

/// The charts that have something to show; of `ids` (and of [`BY_GROUP`], over named groups) only, where given. Each
/// takes the tables that belong to it out of `frame`. Of one run all figures are open; of several those of a chart that
/// fits into [`OPEN_HEIGHT`] (with `ids`: that has up to [`FEW_FIGURES`]), and of a larger first chart what fits.
pub fn chart_views(
    overlay: &ChartModel,
    ids: Option<&[&str]>,
    frame: &mut Vec<Table>,
) -> Result<Vec<ChartView>> {
    let mut views: Vec<ChartView> = Vec::new();
    let wanted = |id: &str| ids.is_none_or(|ids| ids.contains(&id)) || by_group(overlay, id);
    for chart in CHARTS.iter().filter(|c| wanted(c.id)) {
        let figures = figure_views(drawn(chart, overlay))?;
        let Some(half) = figures.first().map(|figure| figure.half) else { continue };
        let below = |table: &mut Table| chart_of(&table.id) == chart.id;
        let tables = frame.extract_if(.., below).collect();
        let columns = if half { 2 } else { 1 };
        let mut height = 0;
        let fits = |figure: &&FigureView| {
            height += figure.height / columns;
            height <= OPEN_HEIGHT
        };
        let fitting = figures.iter().take_while(fits).count();
        let high = match ids {
            None => fitting < figures.len(),
            Some(_) => figures.len() > FEW_FIGURES,
        };
        let open = match (overlay.runs.len() != 1 && high, views.is_empty()) {
            (false, _) => figures.len(),
            (true, true) => fitting.max(columns),
            (true, false) => 0,
        };
        let (id, title, read) = (chart.id, chart.title, chart.read);
        views.push(ChartView { id, title, read, figures, tables, open });
    }
    Ok(views)
}

/// Charts of distributions: over groups of several named runs each group has figures of its own.
const BY_GROUP: [&str; 3] = ["tail", "distribution", "percentile"];
/// Charts with a line for each operation of each run.
const BY_LINE: [&str; 7] =
    ["tail", "distribution", "percentile", "slc", "histogram", "latency-time", "throughput-time"];

fn by_group(overlay: &ChartModel, id: &str) -> bool {
    overlay.groups.iter().any(|group| !group.labels.is_empty()) && BY_GROUP.contains(&id)
}

fn drawn(chart: &Chart, overlay: &ChartModel) -> Vec<ChartFigure> {
    if by_group(overlay, chart.id) {
        let of = |(nth, group): (usize, &RunGroup)| {
            let figures = parted(chart, &overlay.part(group));
            let named = |figure| renamed(figure, format!("g{nth}"), &labels::run(&group.title));
            figures.into_iter().map(named).collect::<Vec<_>>()
        };
        return overlay.groups.iter().enumerate().flat_map(of).collect();
    }
    parted(chart, overlay)
}

/// The figure under another id, with words before its title.
fn renamed(figure: ChartFigure, suffix: String, words: &str) -> ChartFigure {
    ChartFigure {
        id: format!("{}-{suffix}", figure.id),
        title: Some(match &figure.title {
            Some(title) if title != words => format!("{words}: {title}"),
            _ => words.to_owned(),
        }),
        ..figure
    }
}

/// The figures of a chart: of one that is parted, those of its parts.
fn parted(chart: &Chart, overlay: &ChartModel) -> Vec<ChartFigure> {
    let by_line = BY_LINE.contains(&chart.id) && overlay.groups.is_empty();
    // Each run of a histogram has a line of counts and one of shares, in a figure for each operation.
    let parts = match chart.id {
        "in-flight" => parts_of_runs(overlay),
        _ if !by_line => Vec::new(),
        "histogram" => parts(overlay, MOST_LINES / 2),
        _ => parts(overlay, MOST_LINES),
    };
    if parts.len() < 2 {
        return (chart.draw)(overlay);
    }
    let of = |(nth, (words, part)): (usize, &(String, ChartModel))| {
        let small = |figure: ChartFigure| {
            let height = figure.height.min(SMALL);
            let figure = ChartFigure { half: true, height, ..figure };
            renamed(figure, format!("{PART}{nth}"), words)
        };
        (chart.draw)(part).into_iter().map(small).collect::<Vec<_>>()
    };
    parts.iter().enumerate().flat_map(of).collect()
}

/// What begins the number of a part in the id of a figure.
const PART: &str = "part";

/// The model by operations and runs, each part with at most so many series; no parts where it has no more.
fn parts(overlay: &ChartModel, most: usize) -> Vec<(String, ChartModel)> {
    let mut names: Vec<&str> = Vec::new();
    let all = || overlay.each(|run| &run.series).filter(|(_, s)| s.main);
    for (_, series) in all() {
        if !names.contains(&series.name.as_str()) {
            names.push(&series.name);
        }
    }
    if all().count() <= most {
        return Vec::new();
    }
    let mut parts = Vec::new();
    for name in names {
        let runs: Vec<usize> = all().filter(|(_, s)| s.name == name).map(|(run, _)| run).collect();
        let most = even(runs.len(), most);
        for (nth, some) in runs.chunks(most).enumerate() {
            let words = match runs.len() > most {
                false => name.to_owned(),
                true => {
                    let (first, last) = (nth * most + 1, nth * most + some.len());
                    format!("{name}, runs {first} to {last} of {}", runs.len())
                }
            };
            parts.push((words, part(overlay, name, some)));
        }
    }
    parts
}

/// The same by runs alone, for lines of workloads.
fn parts_of_runs(overlay: &ChartModel) -> Vec<(String, ChartModel)> {
    let lines = overlay.each(|run| &run.workloads).count();
    if lines <= MOST_LINES || overlay.runs.len() < 2 {
        return Vec::new();
    }
    let each = overlay.runs.iter().map(|run| run.workloads.len()).max().unwrap_or(1).max(1);
    let most = even(overlay.runs.len(), (MOST_LINES / each).max(1));
    let of = |(nth, some): (usize, &[usize])| {
        let (first, last) = (nth * most + 1, nth * most + some.len());
        let mut part = part(overlay, "", some);
        for run in some {
            part.runs[*run].workloads = overlay.runs[*run].workloads.clone();
            // The time axis is as long as these.
            part.runs[*run].tracks = overlay.runs[*run].tracks.clone();
        }
        (format!("runs {first} to {last} of {}", overlay.runs.len()), part)
    };
    let all: Vec<usize> = (0..overlay.runs.len()).collect();
    all.chunks(most).enumerate().map(of).collect()
}

/// One operation of some runs, with the colours that they have elsewhere.
fn part(overlay: &ChartModel, name: &str, runs: &[usize]) -> ChartModel {
    let of = |(nth, run): (usize, &RunCharts)| {
        let mut part = RunCharts { label: run.label.clone(), ..RunCharts::default() };
        if runs.contains(&nth) {
            part.series = run.series.iter().filter(|s| s.name == name).cloned().collect();
            part.tracks = run.tracks.iter().filter(|t| t.name == name).cloned().collect();
            part.ceilings = run.ceilings.clone();
        }
        part
    };
    let runs = overlay.runs.iter().enumerate().map(of).collect();
    ChartModel { runs, sides: overlay.sides.clone(), ..ChartModel::default() }
}

/// The chart below which a table of the frame stands; the table of points stays in the frame.
fn chart_of(table: &str) -> &str {
    match table {
        "points" => "",
        "window" => "steady",
        "grid" => "sweep",
        "histograms" => "points",
        other => other,
    }
}

fn figure_views(figures: Vec<ChartFigure>) -> Result<Vec<FigureView>> {
    let mut values: Vec<Value> = Vec::with_capacity(figures.len());
    for figure in &figures {
        let mut value = serde_json::to_value(&figure.plot)
            .map_err(|e| Error::internal("a figure cannot be written as JSON").source(e))?;
        if let Value::Object(map) = &mut value {
            map.insert("axes".to_owned(), json!(figure.axes));
            map.insert("switches".to_owned(), json!(figure.switches));
        }
        one_line_legends(&mut value);
        values.push(value);
    }
    let whole = |id: &str| id.rsplit_once(&format!("-{PART}")).map(|(id, _)| id.to_owned());
    let ids: Vec<Option<String>> = figures.iter().map(|figure| whole(&figure.id)).collect();
    same_axes(&ids, &mut values);
    let view = |(figure, value): (ChartFigure, &Value)| FigureView {
        id: figure.id,
        title: figure.title,
        height: figure.height,
        half: figure.half,
        switches: figure.switches,
        json: script_json(value),
        packed: false,
    };
    Ok(figures.into_iter().zip(&values).map(view).collect())
}

/// Where each run has one entry in the legend, its name stands in that entry instead of above it.
fn one_line_legends(figure: &mut Value) {
    let Some(traces) = figure.get_mut("data").and_then(Value::as_array_mut) else { return };
    let group = |trace: &Value| trace.get("legendgroup").and_then(Value::as_str).map(str::to_owned);
    let entries = |traces: &[Value], of: &str| {
        let shown = |t: &&Value| t.get("showlegend") != Some(&json!(false));
        traces.iter().filter(shown).filter(|t| group(t).as_deref() == Some(of)).count()
    };
    let groups: Vec<String> = traces.iter().filter_map(group).collect();
    if groups.is_empty() || groups.iter().any(|of| entries(traces, of) != 1) {
        return;
    }
    for trace in traces {
        let heading = trace.pointer("/legendgrouptitle/text").and_then(Value::as_str);
        let Some(heading) = heading.map(str::to_owned) else { continue };
        let Value::Object(fields) = trace else { continue };
        let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
        let rate = name.split_once(" · ").map_or(String::new(), |(_, rate)| format!(" · {rate}"));
        fields.insert("name".to_owned(), json!(format!("{heading}{rate}")));
        fields.remove("legendgroup");
        fields.remove("legendgrouptitle");
    }
}

/// Gives the parts of one figure the same axes, so that they can be compared.
fn same_axes(ids: &[Option<String>], values: &mut [Value]) {
    for axis in ["xaxis", "yaxis"] {
        let place = format!("/layout/{axis}/range");
        let ends = |value: &Value| {
            let range = value.pointer(&place)?.as_array()?;
            range.first()?.as_f64().zip(range.get(1)?.as_f64())
        };
        for (nth, id) in ids.iter().enumerate() {
            let Some(id) = id.as_ref().filter(|id| !ids[..nth].contains(&Some((*id).clone())))
            else {
                continue;
            };
            let of = |at: &usize| ids[*at].as_ref() == Some(id);
            let of: Vec<usize> = (0..ids.len()).filter(of).collect();
            // An axis may fall: from the share of all I/Os to that of the slowest.
            let whole = of.iter().filter_map(|at| ends(&values[*at])).reduce(|all, one| {
                match all.0 <= all.1 {
                    true => (all.0.min(one.0), all.1.max(one.1)),
                    false => (all.0.max(one.0), all.1.min(one.1)),
                }
            });
            let Some(whole) = whole else { continue };
            for at in of {
                if let Some(range) = values[at].pointer_mut(&place) {
                    *range = json!([whole.0, whole.1]);
                }
            }
        }
    }
}

/// Figures with more JSON than this are compressed.
const PACKED_FROM: usize = 4 << 10;

fn packed(text: &str) -> String {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::new(6));
    // Writing to memory does not fail.
    let bytes = gzip.write_all(text.as_bytes()).and_then(|()| gzip.finish()).unwrap_or_default();
    BASE64_STANDARD.encode(bytes)
}

impl FigureView {
    /// Compresses `json` where it is long. A page that is a file does it last; the live view reads `json` as it is.
    pub fn pack(&mut self) {
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
    fn json_cannot_leave_its_element() {
        let value = json!("</script><b>&\u{2028}");
        let text = script_json(&value);
        assert!(!text.contains(['<', '>', '&', '\u{2028}']), "{text}");
        let back: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(back, value);
    }

    #[test]
    fn a_run_with_one_line_has_one_line_in_the_legend() {
        let line = |run: &str, name: &str| json!({ "name": name, "legendgroup": run, "legendgrouptitle": { "text": run } });
        let mut figure =
            json!({ "data": [line("a", "read · 5 IOPS"), line("b", "read · 6 IOPS")] });
        one_line_legends(&mut figure);
        assert_eq!(figure["data"][1], json!({ "name": "b · 6 IOPS" }));
        let two = json!({ "data": [line("a", "read"), line("a", "write"), line("b", "read")] });
        let mut figure = two.clone();
        one_line_legends(&mut figure);
        assert_eq!(figure, two);
    }

    #[test]
    fn parts_of_a_figure_have_the_same_axes() {
        let value = |lo: f64, hi: f64| json!({ "layout": { "xaxis": { "range": [lo, hi] } } });
        let mut values = [value(1.0, 3.0), value(0.0, 2.0), value(5.0, 9.0), value(0.0, -3.0)];
        let ids =
            ["tail", "tail", "", "fall"].map(|id| Some(id.to_owned()).filter(|i| !i.is_empty()));
        same_axes(&ids, &mut values);
        let ranges = values.map(|v| v["layout"]["xaxis"]["range"].clone());
        assert_eq!(ranges[..2], [json!([0.0, 3.0]), json!([0.0, 3.0])]);
        assert_eq!(ranges[2..], [json!([5.0, 9.0]), json!([0.0, -3.0])]);
    }
}
