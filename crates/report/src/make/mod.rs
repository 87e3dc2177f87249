//! Makes reports: reads run directories, writes the page, the text files and each `summary.json` as far as the options
//! ask for them, and returns what the console shows.

mod output;

use std::fs;
use std::path::{Path, PathBuf};

use taillight_core::progress::OnProgress;
use taillight_core::units::readable::in_line;
use taillight_core::{Error, ErrorKind, Result};
use taillight_rundir::compare::CompareFile;
use taillight_rundir::{RunDir, Summary, atomic, names};

use output::OutputPlace;

pub use output::{at_home, check_output};

use crate::analyse::damage::damaged;
use crate::analyse::{Analysis, CapturedIos, IoGroup, analyse};
use crate::model::labels;
use crate::model::shared::about_all;
use crate::model::{
    AnalysedRun, ReportContext, SideDetails, side_details, side_tables, side_words, sides_of,
};
use crate::render::console::{self, ConsoleStyle};
use crate::render::{TEXTS, explain_text, html};
use crate::summary::summarise;
use crate::verdict::add_trouble;
use taillight_explain::{ExplainInputs, Explanation, explain};

/// What is made and where.
#[derive(Debug, Clone)]
pub struct ReportOptions {
    /// Where renderings go: a directory, or a path ending in `.html` for the page alone. None =
    /// into the run directory itself (one run), or the current directory's `taillight-report`
    /// (several).
    pub output: Option<PathBuf>,
    /// Whether to write `report.html`.
    pub html: bool,
    /// Whether to write `report.md` and the CSV files; never beside a page alone.
    pub texts: bool,
    /// Whether the console text has ANSI colours.
    pub colour: bool,
    /// Whether the console text has what else only the page has: whole reasons, all tables and facts.
    pub detail: bool,
    /// What runs have in common that none of them says by itself.
    pub context: ReportContext,
    /// Whether `summary.json` is written anew into each run directory; of a damaged run only where none
    /// is left from before the damage.
    pub write: bool,
    /// A rule of `explain` that is left out, to see what it is for.
    pub left_out: Option<String>,
}

impl Default for ReportOptions {
    fn default() -> Self {
        ReportOptions {
            output: None,
            html: true,
            texts: true,
            colour: false,
            detail: false,
            context: ReportContext::default(),
            write: true,
            left_out: None,
        }
    }
}

/// A report that was made.
#[derive(Debug)]
pub struct MadeReport {
    /// What the console shows.
    pub text: String,
    /// What ran on what, and when.
    pub about: String,
    /// For each run, what `taillight explain` shows; none when it was not traced or its trace cannot be read.
    pub explained: Vec<Option<String>>,
    /// For each run, the same for programs.
    pub explanations: Vec<Option<Explanation>>,
    /// One summary per run, in the order given.
    pub summaries: Vec<Summary>,
    /// `report.html`, if it was made.
    pub html: Option<PathBuf>,
    /// For each run, why its trace cannot be read, if so.
    pub unexplained: Vec<Option<Error>>,
    /// Of a comparison, what only the I/Os of its runs tell.
    pub sides: Option<SideDetails>,
    /// Of one run, its I/Os by workload and operation, for ranks to merge; empty of several runs.
    pub groups: Vec<IoGroup>,
}

/// That files stay as they are, a line each.
fn left_words(dir: &Path, left: &[&str]) -> String {
    let line = |name: &&str| {
        let path = dir.join(name);
        format!("{} is not Taillight's and stays as it is\n", in_line(path.display()))
    };
    left.iter().map(line).collect()
}

/// Reads run directories and (re)writes the renderings and, with `options.write`, `summary.json` in each. With several
/// runs the renderings overlay them. Errors: `Usage` without a run; `Unavailable` when a directory cannot be read or
/// written, or `progress` says to stop; `Corrupt` when nothing in it can be read.
pub fn make(
    paths: &[impl AsRef<Path>],
    options: &ReportOptions,
    progress: &mut OnProgress<'_>,
) -> Result<MadeReport> {
    make_counted(paths.iter().map(|p| (p.as_ref(), None)), options, progress)
}

/// The explanation of a run in words.
fn told(run: &AnalysedRun, detail: bool) -> Option<String> {
    let it = run.explanation.as_ref()?;
    Some(explain_text::text(it, run.analysis.start_ns, detail))
}

/// As [`make`], of runs whose rows were perhaps counted while they were written. Errors: as
/// [`make`].
pub fn make_counted<'a>(
    given: impl IntoIterator<Item = (&'a Path, Option<CapturedIos>)>,
    options: &ReportOptions,
    progress: &mut OnProgress<'_>,
) -> Result<MadeReport> {
    let (paths, counted): (Vec<&Path>, Vec<_>) = given.into_iter().unzip();
    if paths.is_empty() {
        return Err(Error::usage("name at least one run directory"));
    }
    let dirs: Vec<RunDir> = paths.iter().map(|p| RunDir::open(p)).collect::<Result<_>>()?;
    let mut runs = Vec::with_capacity(dirs.len());
    let mut unexplained = Vec::with_capacity(dirs.len());
    let found = options.context.compare.as_ref();
    let labels = found.map(|found| side_labels(found, &dirs));
    let labels = labels.unwrap_or_else(|| self::labels(&dirs));
    for ((dir, label), counted) in dirs.iter().zip(labels).zip(counted) {
        let analysis = analyse(dir, counted, progress)?;
        let mut summary = summarise(&analysis)?;
        let (explanation, damage) = explained(dir, &analysis, &mut summary, options)?;
        unexplained.push(damage);
        let shown = display_label(dir, &label);
        runs.push(AnalysedRun { label, shown, analysis, summary, explanation });
    }
    let paths: Vec<&Path> = dirs.iter().map(RunDir::path).collect();
    let place = OutputPlace::of(&paths, options.output.as_deref());
    let left = if place.page.is_none() { place.foreign() } else { Vec::new() };
    let OutputPlace { dir: output, page } = place;
    fs::create_dir_all(&output).map_err(|e| {
        Error::unavailable("cannot make the report's directory")
            .with("path", output.display())
            .source(e)
            .hint("name another directory with --output")
    })?;
    let sides = found.map(|found| side_details(&runs, found));
    let mut html = None;
    if options.html && !left.contains(&names::REPORT) {
        let name = page.as_deref().unwrap_or(names::REPORT);
        let mut context = options.context.clone();
        let said = sides.as_ref().zip(found).and_then(|(sides, found)| side_words(sides, found));
        context.tables.extend(sides.iter().flat_map(side_tables));
        context.text.extend(said.map(|said| format!(" {said}")));
        let links = context.summary.iter_mut().flat_map(|s| &mut s.links);
        let absent = links.zip(&dirs).filter(|(_, dir)| dir.existing(names::REPORT).is_none());
        absent.for_each(|(link, _)| link.clear());
        atomic::write(&output, name, html::page(&runs, &context)?.as_bytes())?;
        html = Some(output.join(name));
    }
    if options.texts && page.is_none() {
        for text in TEXTS.iter().filter(|text| !left.contains(&text.file)) {
            atomic::write(&output, text.file, (text.render)(&runs).as_bytes())?;
        }
    }
    for (dir, run) in dirs.iter().zip(&mut runs) {
        refresh_files(dir, &mut run.summary)?;
        if options.write && !(damaged(&run.summary.verdict) && sound_summary(dir)) {
            dir.write(&run.summary)?;
        }
    }
    Ok(MadeReport {
        text: text(&runs, html.as_deref(), options) + &left_words(&output, &left),
        about: about_all(&dirs.iter().map(RunDir::manifest).collect::<Vec<_>>()),
        explained: runs.iter().map(|run| told(run, options.detail)).collect(),
        explanations: runs.iter().map(|r| r.explanation.clone()).collect(),
        groups: match runs.as_slice() {
            [run] => run.analysis.groups.clone(),
            _ => Vec::new(),
        },
        summaries: runs.into_iter().map(|r| r.summary).collect(),
        html,
        unexplained,
        sides,
    })
}

/// Why the tail is slow; a damaged file is a reason of the verdict, not the end of the report.
fn explained(
    dir: &RunDir,
    analysis: &Analysis,
    summary: &mut Summary,
    options: &ReportOptions,
) -> Result<(Option<Explanation>, Option<Error>)> {
    let inputs = ExplainInputs {
        host: &analysis.machine.host,
        unread_samples: analysis.trouble("host_unreadable").map(|t| t.text.clone()),
        left_out: options.left_out.as_deref(),
    };
    match explain(dir, summary, inputs) {
        Ok(explanation) => {
            let telling = explanation.as_ref().filter(|it| it.tells());
            summary.cause = telling.map(Explanation::causes);
            for qos in &mut summary.qos {
                let plan = &dir.manifest().plan;
                let workers = qos.workload.as_ref().and_then(|name| plan.workers_of(name));
                let workers = workers.unwrap_or(0..plan.workers());
                let over = |e: &Explanation| e.causes_over(qos.ceiling_ns, &workers);
                qos.cause = telling.map(over);
            }
            Ok((explanation, None))
        }
        Err(e) if e.kind() == ErrorKind::Corrupt => {
            let text = format!("{e}. Why the tail is slow is unknown.");
            add_trouble(summary, "layers_unreadable", text);
            Ok((None, Some(e)))
        }
        Err(e) => Err(e),
    }
}

/// Whether there is a `summary.json` that can be read and whose verdict tells of no damaged file.
fn sound_summary(dir: &RunDir) -> bool {
    matches!(dir.read::<Summary>(), Ok(Some(was)) if !damaged(&was.verdict))
}

/// Lists the files as they are now; the summary cannot know its own size.
fn refresh_files(dir: &RunDir, summary: &mut Summary) -> Result<()> {
    let rows: Vec<_> = std::mem::take(&mut summary.files);
    summary.files = dir.files()?;
    summary.files.retain(|f| f.name != names::SUMMARY);
    for file in &mut summary.files {
        file.rows = rows.iter().find(|old| old.name == file.name).and_then(|old| old.rows);
    }
    Ok(())
}

/// Runs of a comparison by their sides; others by their own names.
fn side_labels(found: &CompareFile, dirs: &[RunDir]) -> Vec<String> {
    let sides = sides_of(dirs.iter().map(|dir| dir.manifest().run_id.as_str()), found);
    let label = |(side, own): (&Option<(usize, usize)>, String)| match side {
        None => own,
        Some((side, nth)) => {
            let (name, runs) = [("base", found.base.len()), ("new", found.new.len())][*side];
            if runs == 1 { name.to_owned() } else { format!("{name} {}", nth + 1) }
        }
    };
    sides.iter().zip(labels(dirs)).map(label).collect()
}

/// The label for people: in words where it is the directory name of a point of a series, else as it is.
fn display_label(dir: &RunDir, label: &str) -> String {
    let is = |name: &str| dir.path().file_name().is_some_and(|own| own == name);
    let series = dir.path().parent().is_some_and(|all| all.join(names::SERIES).is_file());
    if series && is(label) { labels::run(label) } else { label.to_owned() }
}

/// Names of runs, each once: the plan's name, the directory's where names repeat.
fn labels(dirs: &[RunDir]) -> Vec<String> {
    let names: Vec<String> = dirs.iter().map(|d| d.manifest().plan.run.name.clone()).collect();
    let folder = |d: &RunDir| {
        let name = d.path().file_name().map(|n| n.to_string_lossy().into_owned());
        name.unwrap_or_else(|| d.manifest().run_id.clone())
    };
    let mut labels: Vec<String> = Vec::new();
    for (dir, name) in dirs.iter().zip(&names) {
        let unique = names.iter().filter(|n| *n == name).count() == 1 && !name.is_empty();
        let mut label = if unique { name.clone() } else { folder(dir) };
        let wanted = label.clone();
        let mut nth = 2;
        while labels.contains(&label) {
            label = format!("{wanted} ({nth})");
            nth += 1;
        }
        labels.push(label);
    }
    labels
}

fn text(runs: &[AnalysedRun], html: Option<&Path>, options: &ReportOptions) -> String {
    let ReportOptions { colour, detail, .. } = *options;
    let mut text = console::console_text(runs, ConsoleStyle { colour, detail });
    if let Some(path) = html {
        text.push_str(&format!("Report  {}\n", in_line(path.display())));
    }
    text
}
