//! Makes reports: reads run directories, writes every rendering, returns what the console shows.

use std::fs;
use std::path::{Path, PathBuf};

use taillight_core::progress::OnProgress;
use taillight_core::{Error, ErrorKind, Result};
use taillight_rundir::search::SearchReport;
use taillight_rundir::summary::Reason;
use taillight_rundir::{RunDir, Summary, atomic, names};

use crate::analyse::analyse;
use crate::attribution::{Explanation, explain, words};
use crate::console::console_text;
use crate::format::Script;
use crate::model::{Table, overview};
use crate::place::Place;
use crate::plots::Group;
use crate::render::{Run, TEXTS};
use crate::summary::summarise;
use crate::{console, differs, html};

/// What is made and where.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where renderings go: a directory, or a path ending in `.html` for the page alone. None =
    /// into the run directory itself (one run), or the current directory's `taillight-report`
    /// (several).
    pub output: Option<PathBuf>,
    /// Whether to write `report.html`.
    pub html: bool,
    /// Whether to write `report.md` and the CSV files.
    pub texts: bool,
    /// Whether the console text has ANSI colours.
    pub colour: bool,
    /// What runs have in common that none of them says by itself.
    pub frame: Frame,
    /// Whether `summary.json` is written anew into each run directory.
    pub write: bool,
}

/// What stands above the runs of a report that belong together: a search, repetitions.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// Title of the page; None = the runs' own.
    pub title: Option<String>,
    /// The result in words; empty = none.
    pub text: String,
    /// Tables over the runs.
    pub tables: Vec<Table>,
    /// Whether the stamps of all runs are on one clock and are shown so: times count from the
    /// start of the first run, not of each.
    pub one_clock: bool,
    /// The search whose probes the runs are: its demand and response time get a figure.
    pub search: Option<SearchReport>,
    /// Shows the runs as one: see [`Brief`].
    pub brief: Option<Brief>,
}

/// How a page shows many runs of one method: chosen charts and links instead of everything about
/// each run, which is in the reports of the runs.
#[derive(Debug, Clone, Default)]
pub struct Brief {
    /// Ids of the charts.
    pub charts: Vec<&'static str>,
    /// Runs that a figure shows together.
    pub groups: Vec<Group>,
    /// The report of each run: where, from this page.
    pub links: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            output: None,
            html: true,
            texts: true,
            colour: false,
            frame: Frame::default(),
            write: true,
        }
    }
}

/// A report that was made.
#[derive(Debug)]
pub struct Report {
    /// What the console shows.
    pub text: String,
    /// For each run, what `taillight explain` shows; none when it was not traced.
    pub explained: Vec<Option<String>>,
    /// For each run, the same for programs.
    pub explanations: Vec<Option<Explanation>>,
    /// One summary per run, in the order given.
    pub summaries: Vec<Summary>,
    /// `report.html`, if it was made.
    pub html: Option<PathBuf>,
    /// For each run, why its trace cannot be read, if so.
    pub unexplained: Vec<Option<Error>>,
}

/// Reads run directories and (re)writes `summary.json` in each, and the renderings. With several
/// runs the renderings overlay them.
///
/// # Errors
/// `Usage` without a run; `Unavailable` when a directory cannot be read or written; `Corrupt` when
/// nothing in it can be read.
pub fn make(
    paths: &[impl AsRef<Path>],
    options: &Options,
    progress: &mut OnProgress<'_>,
) -> Result<Report> {
    if paths.is_empty() {
        return Err(Error::usage("name at least one run directory"));
    }
    let dirs: Vec<RunDir> = paths
        .iter()
        .map(|p| RunDir::open(p.as_ref()))
        .collect::<Result<_>>()?;
    let mut runs = Vec::with_capacity(dirs.len());
    let mut unexplained = Vec::with_capacity(dirs.len());
    for (dir, label) in dirs.iter().zip(labels(&dirs)) {
        let analysis = analyse(dir, progress)?;
        let mut summary = summarise(&analysis)?;
        let (explanation, damage) = explained(dir, &mut summary)?;
        unexplained.push(damage);
        runs.push(Run {
            label,
            analysis,
            summary,
            explanation,
        });
    }
    let paths: Vec<&Path> = dirs.iter().map(RunDir::path).collect();
    let Place { dir: output, page } = Place::of(&paths, options.output.as_deref());
    fs::create_dir_all(&output).map_err(|e| {
        Error::unavailable("cannot make the report's directory")
            .with("path", output.display())
            .source(e)
            .hint("name another directory with --output")
    })?;
    let mut html = None;
    if options.html {
        let name = page.as_deref().unwrap_or(names::REPORT);
        atomic::write(&output, name, html::page(&runs, &options.frame)?.as_bytes())?;
        html = Some(output.join(name));
    }
    if options.texts && page.is_none() {
        for text in TEXTS {
            atomic::write(&output, text.file, (text.render)(&runs).as_bytes())?;
        }
    }
    for (dir, run) in dirs.iter().zip(&mut runs) {
        refresh_files(dir, &mut run.summary)?;
        if options.write {
            dir.write_summary(&run.summary)?;
        }
    }
    Ok(Report {
        text: text(&runs, html.as_deref(), options.colour),
        explained: runs
            .iter()
            .map(|r| Some(words::text(r.explanation.as_ref()?, r.analysis.start_ns)))
            .collect(),
        explanations: runs.iter().map(|r| r.explanation.clone()).collect(),
        summaries: runs.into_iter().map(|r| r.summary).collect(),
        html,
        unexplained,
    })
}

/// Why the tail is slow; a damaged file is a reason of the verdict, not the end of the report.
fn explained(dir: &RunDir, summary: &mut Summary) -> Result<(Option<Explanation>, Option<Error>)> {
    match explain(dir, summary) {
        Ok(explanation) => {
            summary.cause = explanation.as_ref().map(Explanation::causes);
            Ok((explanation, None))
        }
        Err(e) if e.kind() == ErrorKind::Corrupt => {
            summary.verdict.reasons.push(Reason {
                code: "layers_unreadable".to_owned(),
                text: format!("{e}. Why the tail is slow is unknown."),
            });
            Ok((None, Some(e)))
        }
        Err(e) => Err(e),
    }
}

/// Lists the files as they are now; the summary cannot know its own size.
fn refresh_files(dir: &RunDir, summary: &mut Summary) -> Result<()> {
    let rows: Vec<_> = std::mem::take(&mut summary.files);
    summary.files = dir.files()?;
    summary.files.retain(|f| f.name != names::SUMMARY);
    for file in &mut summary.files {
        file.rows = rows
            .iter()
            .find(|old| old.name == file.name)
            .and_then(|old| old.rows);
    }
    Ok(())
}

/// Names of runs, each once: the plan's name, the directory's where names repeat.
fn labels(dirs: &[RunDir]) -> Vec<String> {
    let names: Vec<String> = dirs
        .iter()
        .map(|d| d.manifest().plan.run.name.clone())
        .collect();
    let folder = |d: &RunDir| {
        let name = d
            .path()
            .file_name()
            .map(|n| n.to_string_lossy().into_owned());
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

fn text(runs: &[Run], html: Option<&Path>, colour: bool) -> String {
    let mut text = match runs {
        [one] => {
            let mut text = console_text(&one.summary, colour);
            if let Some(explanation) = &one.explanation {
                text.push_str("\nWhy the tail is slow\n");
                for line in words::sentences(explanation, Script::Plain) {
                    text.push_str(&console::paragraph(&line));
                }
            }
            text
        }
        several => {
            let pairs: Vec<(String, &Summary)> = several
                .iter()
                .map(|r| (r.label.clone(), &r.summary))
                .collect();
            let verdicts = several
                .iter()
                .map(|r| (r.label.as_str(), &r.summary.verdict));
            let mut text = console::several(verdicts, &overview(&pairs, Script::Plain), colour);
            if let Some(table) = differs::table(several) {
                text.push('\n');
                text.push_str(&console::table_text(&table));
            }
            text
        }
    };
    if let Some(path) = html {
        text.push_str(&format!("\nReport  {}\n", path.display()));
    }
    text
}
