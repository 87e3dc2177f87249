//! `taillight report` and `taillight explain`, the report at the end of a run or a series, its JSON on standard output,
//! and the recovery of killed runs. Reports are made by `taillight_report`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use taillight_capture::salvage::salvage;
use taillight_core::exit::Exit;
use taillight_core::plan::TraceMode;
use taillight_core::units::readable::in_line;
use taillight_core::{Error, Result};
use taillight_report::analyse::CapturedIos;
use taillight_report::format::counted;
use taillight_report::render::fio_json::{DiskUse, fio_json};
use taillight_report::table::{self, Table, paragraph};
use taillight_report::{MadeReport, ReportContext, ReportOptions, SeriesReportFile, ShortReport};
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::scale::ScaleFile;
use taillight_rundir::series::PointRole;
use taillight_rundir::{JsonFile, RunDir, Summary, names, sums};
use taillight_suite::exit::{from_code, worst};
use taillight_suite::saved::{self, MOST_IN_FULL, SavedSeries};
use taillight_suite::sequence::IMPORT;

use crate::args::{ExplainArgs, JsonForm, ReportArgs};
use crate::foreign::Findings;
use crate::progress::Shown;
use crate::{foreign, outcome, output, problem};

/// Runs `taillight report`: recovers what killed runs left, then makes the report again. The exit code repeats how the
/// runs went, so that a report made later still stops a script. Errors: `Usage` for an output that holds what Taillight
/// did not make, or of an unknown form; `Unavailable` or `Corrupt` for what is no readable run.
pub fn main(args: &ReportArgs) -> Result<Exit> {
    args.output.as_deref().map_or(Ok(()), check_form)?;
    let run_of = |path: &PathBuf| foreign::run_of(path, args.unit, Findings::InReport);
    let named: Vec<PathBuf> = args.runs.iter().map(run_of).collect::<Result<_>>()?;
    if let [one] = named.as_slice()
        && let Some(series) = saved::read(one)?
    {
        return again(one, series, args.output.as_deref());
    }
    let mut runs = Vec::new();
    for given in &named {
        match saved::read(given)? {
            Some(series) => runs.extend(shown_beside_others(given, &series)?),
            None => runs.push(given.clone()),
        }
    }
    for run in &runs {
        RunDir::open(run)?;
    }
    // Before the first write: salvaging writes, too.
    taillight_report::check_output(&runs, args.output.as_deref())?;
    for run in &runs {
        rescue(run)?;
    }
    let output = args.output.clone();
    let write = runs.iter().all(|run| writable(run));
    let pages = write || output.is_some() || runs.len() > 1;
    if !pages {
        crate::output::note(
            "no page: the run directory cannot be written; --output DIR makes it elsewhere",
        );
    }
    // A report elsewhere, or of several runs, is no reason to touch them.
    let write = write && taillight_report::at_home(&runs, output.as_deref());
    let options =
        ReportOptions { output, html: pages, texts: pages, write, ..ReportOptions::default() };
    let report = make(&runs, options)?;
    let short = output::mode().json == Some(JsonForm::Short);
    match report.summaries.as_slice() {
        _ if output::mode().json == Some(JsonForm::Fio) => fio_json_of(&runs)?,
        all if short => {
            let all = runs.iter().map(PathBuf::as_path).zip(all);
            output::json(&ShortReport::new(None, report.html.as_deref(), all))?;
        }
        [one] if args.json.is_some() => output::json(one)?,
        several if args.json.is_some() => output::json(&several)?,
        _ => output::text(&report.text)?,
    }
    Ok(outcome::exit_code_of_all(&report.summaries))
}

/// Refuses a page in a form that is not made. Errors: `Usage`, with what to do.
fn check_form(output: &Path) -> Result<()> {
    let form = output.extension().map(|e| e.to_string_lossy().to_ascii_lowercase());
    let hint = match form.as_deref() {
        Some("pdf" | "ps" | "docx") => {
            "write the page, --output x.html, and print it from a browser: it is made for paper, too"
        }
        Some("png" | "svg" | "jpg" | "jpeg") => {
            "write the page, --output x.html: each chart in it can be saved as a picture"
        }
        Some("json") => "taillight report RUN --json > x.json, or --json=short",
        Some("md" | "markdown" | "txt") => "name a directory: report.md is one of the files in it",
        Some("csv") => {
            "taillight export RUN > x.csv, or name a directory: it gets the tables as CSV"
        }
        _ => return Ok(()),
    };
    if output.is_dir() {
        return Ok(());
    }
    Err(Error::usage("a report is a page or a directory")
        .with("--output", output.display())
        .hint(hint))
}

/// The report of a series again, from what its directory keeps.
fn again(dir: &Path, series: SavedSeries, output: Option<&Path>) -> Result<Exit> {
    let SavedSeries { file, runs, mut context } = series;
    if runs.is_empty() {
        return Err(Error::usage("no run of the series has a result yet")
            .with("path", dir.display())
            .hint("taillight suite --resume DIR goes on with it"));
    }
    let place = output.unwrap_or(dir);
    if place != dir {
        taillight_report::check_output(&runs, output)?;
        let home = std::fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
        let links = context.summary.iter_mut().flat_map(|s| &mut s.links);
        links.for_each(|link| *link = home.join(&*link).to_string_lossy().into_owned());
    }
    for run in &runs {
        rescue(run)?;
    }
    // 130 and 143 would say that the report itself was interrupted. What there is of a series that has not
    // ended is judged by its runs.
    let ended = file
        .exit
        .and_then(from_code)
        .filter(|exit| !matches!(exit, Exit::Interrupted | Exit::Terminated));
    if ended.is_none() {
        output::note(&format!(
            "partial: the series has not ended; this is what its first {} measured; to go on: taillight \
             suite --resume {}",
            counted(runs.len() as u64, "run"),
            in_line(dir.display())
        ));
    }
    let said = series_text(&context);
    let made = series_page(&runs, place, context, place == dir)?;
    match said {
        Some(said) => {
            output::result(&table::wrap(&made.about, table::width()).join("\n"));
            output::result(said.trim_end());
            let page = made.html.map(|page| format!("Report  {}", in_line(page.display())));
            output::result(&page.unwrap_or_default());
        }
        None => output::result(made.text.trim_end()),
    }
    if output::mode().json.is_some() {
        json_of(dir)?;
    }
    Ok(ended.unwrap_or_else(|| outcome::exit_code_of_all(&made.summaries)))
}

/// Prints what the directory of a run or of a series says of itself, in the form that `--json` asks for: in full
/// summary.json or report.json, and of jobs of one file, or a series without report.json, a list of summaries. Errors:
/// `Unavailable` when standard output cannot be written; `Corrupt` for a file that is missing or cannot be read.
pub fn json_of(dir: &Path) -> Result<()> {
    let none = || Error::corrupt("there is no summary").with("path", dir.display());
    let short = output::mode().json == Some(JsonForm::Short);
    if output::mode().json == Some(JsonForm::Fio) {
        let runs = saved::read(dir)?.map_or_else(|| vec![dir.to_owned()], |series| series.runs);
        return fio_json_of(&runs);
    }
    let Some(series) = saved::read(dir)? else {
        let summary = Summary::read(dir)?.ok_or_else(none)?;
        return match short {
            true => output::json(&ShortReport::of_run(dir, &summary)),
            false => output::json(&summary),
        };
    };
    // Jobs of one file are runs beside each other; other series are told by their report.
    if !short
        && series.file.method != IMPORT
        && let Some(report) = SeriesReportFile::read(dir)?
    {
        return output::json(&report);
    }
    let (mut paths, mut summaries) = (Vec::new(), Vec::new());
    for run in &series.runs {
        if let Some(summary) = Summary::read(run)? {
            paths.push(run.as_path());
            summaries.push(summary);
        }
    }
    if summaries.is_empty() {
        return Err(none());
    }
    if !short {
        return output::json(&summaries);
    }
    let page = dir.join(names::REPORT);
    let page = Some(&*page).filter(|page| page.is_file());
    let answer = Some(series.context.text);
    output::json(&ShortReport::new(answer, page, paths.into_iter().zip(&summaries)))
}

/// Prints the runs that have a summary as one document of fio.
fn fio_json_of(runs: &[PathBuf]) -> Result<()> {
    let (mut manifests, mut summaries) = (Vec::new(), Vec::new());
    let mut disks = DiskUse::default();
    for run in runs {
        if let Some(summary) = Summary::read(run)? {
            let dir = RunDir::open(run)?;
            // The rest is whole without.
            if let Err(e) = disks.add(&dir) {
                output::note(&format!("what the disks did is not read: {e}"));
            }
            manifests.push(dir.manifest().clone());
            summaries.push(summary);
        }
    }
    output::json(&fio_json(manifests.iter().zip(&summaries), &disks))
}

/// [`json_of`] after a load that is over and kept, which ended with `exit`. Where it cannot be printed, that is shown
/// and the exit code is `TargetFailed` at least: codes that say that nothing was measured would be wrong.
pub fn json_of_kept(dir: &Path, exit: Exit) -> Exit {
    let printed = json_of(dir).map_err(|e| problem::show(&e));
    printed.map_or(worst(exit, Exit::TargetFailed), |()| exit)
}

/// What a series says above its runs, for the console; none where its runs say it all.
fn series_text(context: &ReportContext) -> Option<String> {
    let detail = output::mode().verbose;
    let tables = context.tables.iter().filter(|table| detail || !table.detail);
    let tables: Vec<String> = tables.map(Table::to_text).collect();
    if tables.is_empty() && context.text.is_empty() {
        return None;
    }
    let text = Some(&context.text).filter(|text| !text.is_empty()).map(|text| paragraph(text));
    let parts: Vec<String> = context.title.iter().map(|t| format!("{t}\n")).chain(text).collect();
    Some(format!("{}\n{}", parts.concat(), tables.join("\n")))
}

/// The runs by which a series stands beside others: those made for their distributions, else all
/// that measure. Errors: `Usage` when these are none, or too many for one page.
fn shown_beside_others(dir: &Path, series: &SavedSeries) -> Result<Vec<PathBuf>> {
    let of = |wanted: fn(PointRole) -> bool| -> Vec<PathBuf> {
        let points = series.file.points.iter().filter(|p| p.exit.is_some() && wanted(p.role));
        let inside = points.map(|p| dir.join(&p.run));
        series
            .runs
            .iter()
            .filter(|run| inside.clone().any(|dir| run.starts_with(dir)))
            .cloned()
            .collect()
    };
    let long = of(|role| role == PointRole::Histogram);
    let runs = if long.is_empty() { of(|role| !role.is_state()) } else { long };
    match runs.len() {
        1..=MOST_IN_FULL => Ok(runs),
        n => Err(Error::usage("the series has no few runs that stand for it")
            .with("path", dir.display())
            .with("runs", n)
            .hint("name the run directories in it that are to be shown")),
    }
}

/// `taillight explain`: why the tail of a run is slow. The exit code is `Unavailable` where a part of the run or of its
/// trace is damaged. Errors: `Usage` for a run that was not traced and for an unknown rule; else as [`main`].
pub fn explain(args: &ExplainArgs) -> Result<Exit> {
    let left_out = args.without.clone();
    let each = left_out.as_deref() == Some(EACH_RULE);
    if let Some(rule) =
        left_out.as_deref().filter(|rule| !each && !taillight_explain::is_rule(rule))
    {
        return Err(Error::usage("no rule is called so")
            .with("rule", rule)
            .hint("explain -v names the rules that spoke"));
    }
    rescue(&args.run)?;
    if each {
        return without_each(&args.run);
    }
    // What is left out must not stay in the run directory.
    let write = writable(&args.run) && left_out.is_none();
    let options = ReportOptions {
        html: !args.json && write,
        texts: !args.json && write,
        write,
        left_out,
        ..ReportOptions::default()
    };
    let mut report = make(&[&args.run], options)?;
    if let Some(damage) = report.unexplained.iter_mut().find_map(Option::take) {
        return Err(
            damage.hint("the rest of the run can be read: `taillight report` with its directory")
        );
    }
    let reasons = report.summaries.iter().flat_map(|s| &s.verdict.reasons);
    let damage: Vec<_> = reasons.filter(|r| taillight_report::is_damage(&r.code)).collect();
    damage.iter().for_each(|reason| output::note(&reason.text));
    let gone = report.explanations.iter().flatten().any(|it| it.gone);
    let exit = if gone || !damage.is_empty() { Exit::Unavailable } else { Exit::Ok };
    if args.json
        && let Some(it) = report.explanations.iter().flatten().next()
    {
        let value = taillight_report::render::explain_json::value(it);
        output::text(&format!("{value}\n"))?;
        return Ok(exit);
    }
    let Some(text) = report.explained.into_iter().flatten().next() else {
        return Err(untraced(&args.run));
    };
    output::text(&text)?;
    match report.html {
        Some(page) => output::line(&format!("\nPictures  {}", in_line(page.display()))),
        None => output::note("no pictures: the run directory cannot be written"),
    }
    Ok(exit)
}

/// Instead of a rule's name: every one of them, one after another.
const EACH_RULE: &str = "each";

/// Prints as JSON what changes in the verdicts of a run without each rule. Errors: as [`explain`].
fn without_each(run: &Path) -> Result<Exit> {
    let dir = RunDir::open(run)?;
    sums::intact(&dir)?;
    let Some((all, effects)) = taillight_explain::without_each(&dir)? else {
        return Err(untraced(run));
    };
    let value = taillight_report::render::explain_json::without_each(&all, &effects);
    output::text(&format!("{value}\n"))?;
    Ok(Exit::Ok)
}

/// Whether the run directory can be written: somebody else's, or one on a read-only medium, is read all the same.
fn writable(run: &Path) -> bool {
    rustix::fs::access(run, rustix::fs::Access::WRITE_OK).is_ok()
}

/// Why there is nothing to explain.
fn untraced(run: &Path) -> Error {
    let wanted = |dir: RunDir| dir.manifest().plan.trace.mode != TraceMode::Off;
    let lost = RunDir::open(run).is_ok_and(wanted);
    let imported = |dir: RunDir| dir.manifest().origin.imported().is_some();
    let merged = |dir: RunDir| matches!(dir.manifest().origin, RunOrigin::Merged { .. });
    let (what, hint) = match lost {
        true if RunDir::open(run).is_ok_and(merged) => (
            "a run of several ranks has no trace of its own",
            "explain the directory of each rank, beginning with rank-0000",
        ),
        _ if RunDir::open(run).is_ok_and(imported) => (
            "a result of another tool has no trace",
            "`taillight watch -- COMMAND` sees the layers while that tool runs",
        ),
        true => (
            "the run has no trace: it ended before that was written, or has not ended",
            "what there is of the run can be read: `taillight report` with its directory",
        ),
        false => ("the run was not traced", "run it again with --trace"),
    };
    Error::usage(what).with("run", run.display()).hint(hint)
}

/// Recovers the I/Os of a killed run, of one over ranks those of its ranks; a run that ended by itself stays as it is.
pub fn rescue(run: &Path) -> Result<()> {
    let mut dir = RunDir::open(run)?;
    if matches!(dir.manifest().origin, RunOrigin::Merged { .. }) {
        // Its I/Os are those of its ranks; one that is not there is named by the report.
        let ranks = dir.read::<ScaleFile>()?.map(|scale| scale.ranks).unwrap_or_default();
        let there =
            ranks.iter().map(|rank| rank.path(run)).filter(|path| RunDir::open(path).is_ok());
        return there.collect::<Vec<_>>().iter().try_for_each(|path| rescue(path));
    }
    let mut shown = Shown::new();
    let salvaged = salvage(&mut dir, &mut |p| {
        shown.step(p);
        true
    })?;
    shown.end();
    if let Some(salvaged) = salvaged {
        output::note(&format!("{}: {}", in_line(run.display()), salvaged.text));
    }
    Ok(())
}

/// Makes the report of a run in its directory; without `pages` its figures alone, no page and no texts. `counted`: what
/// its I/Os gave while they were written; without, they are read. Errors: `Unavailable` when it cannot be written.
pub fn of_run(path: &Path, counted: Option<CapturedIos>, pages: bool) -> Result<MadeReport> {
    let options = ReportOptions { html: pages, texts: pages, ..ReportOptions::default() };
    make_counted([(path, counted)], options)
}

/// The report of a run in words, of which nothing is written.
pub fn unwritten(path: &Path) -> Result<MadeReport> {
    make(&[path], ReportOptions { html: false, texts: false, write: false, ..Default::default() })
}

/// Makes one report over the runs of a series into its directory. Errors: `Unavailable` when it cannot be written.
pub fn of_series(runs: &[PathBuf], into: &Path, context: ReportContext) -> Result<MadeReport> {
    series_page(runs, into, context, true)
}

fn series_page(
    runs: &[PathBuf],
    into: &Path,
    context: ReportContext,
    write: bool,
) -> Result<MadeReport> {
    make(
        runs,
        ReportOptions { output: Some(into.to_owned()), context, write, ..Default::default() },
    )
}

/// Makes a report in the console's colours, and shows how far it is.
fn make(runs: &[impl AsRef<Path>], options: ReportOptions) -> Result<MadeReport> {
    make_counted(runs.iter().map(|run| (run.as_ref(), None)), options)
}

fn make_counted<'a>(
    runs: impl IntoIterator<Item = (&'a Path, Option<CapturedIos>)>,
    options: ReportOptions,
) -> Result<MadeReport> {
    let mut shown = Shown::new();
    let detail = output::mode().verbose;
    let options = ReportOptions { colour: colour(), detail, ..options };
    let report = taillight_report::make_counted(runs, &options, &mut |p| {
        shown.step(p);
        true
    });
    shown.end();
    report
}

/// Colours are for terminals whose owner wants them.
fn colour() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !dumb && std::env::var_os("NO_COLOR").is_none()
}
