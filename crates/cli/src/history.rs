//! `taillight history`: when figures changed over nights of runs, and whether the newest night stands out; as text,
//! page, `changes.json` and `changes.md`. `taillight_compare` judges.

use std::path::{Path, PathBuf};

use taillight_compare::history::{
    HistoryRequest, console, history, markdown, nights_table, table, words,
};
use taillight_core::exit::Exit;
use taillight_core::plan::GateFigure;
use taillight_core::units::Span;
use taillight_core::units::readable::in_line;
use taillight_core::{Error, Result};
use taillight_report::{ReportContext, html};
use taillight_rundir::compare::ComparedRun;
use taillight_rundir::history::{HistoryFile, HistorySuspect};
use taillight_rundir::{JsonFile, RunDir, atomic, names};

use crate::args::HistoryArgs;
use crate::output;
use crate::run::directory::command_line;

/// Directory of the history without `--output`.
const OUTPUT: &str = "taillight-history";
/// In that directory, links to the nights that the newest one is compared with.
const BEFORE: &str = "before";
/// Nights that are linked, at most.
const LINKED: usize = 20;

/// Runs the command; the exit code is 0 whatever was found. Errors: `Usage` for runs that are no history or an output
/// in use; `Unavailable` or `Corrupt` where no run can be read; `Unavailable` where the output cannot be written.
pub fn main(args: &HistoryArgs) -> Result<Exit> {
    let request = request(args)?;
    let place = args.output.clone().unwrap_or_else(|| PathBuf::from(OUTPUT));
    taillight_report::check_output(&args.dirs, Some(&place))?;
    let mut found = history(&args.dirs, &request)?;
    decide(&mut found, &place);
    let page = write(&found, &place)?;
    match (args.json, args.markdown) {
        (true, _) => output::json(&found)?,
        (false, true) => output::text(&markdown(&found))?,
        (false, false) => {
            let page = in_line(page.display());
            output::text(&format!("{}\nReport  {page}\n", console(&found)))?;
        }
    }
    Ok(Exit::Ok)
}

fn request(args: &HistoryArgs) -> Result<HistoryRequest> {
    let figure = |text: &String| {
        let figure: GateFigure = text.parse().map_err(|_| {
            Error::usage(format!("`{text}` is no figure"))
                .hint("--figure read:p99.9, or --figure write:iops")
        })?;
        Ok((figure.op, figure.figure.to_string()))
    };
    let night: Span = args.night.parse().map_err(|what: String| {
        Error::usage(what).hint("--night 12h: runs that began within 12 hours are one night")
    })?;
    let figures = args.figure.iter().map(figure).collect::<Result<_>>()?;
    Ok(HistoryRequest { night, figures, anyway: args.anyway })
}

/// Gives every suspect the commands that decide: the job three times more, and their comparison with the nights before.
fn decide(found: &mut HistoryFile, place: &Path) {
    let Some(newest) = found.nights.last().and_then(|night| night.runs.first()) else { return };
    let path = |path: PathBuf| command_line([path.to_string_lossy().into_owned()].into_iter());
    let job = path(Path::new(&newest.dir).join(names::JOB));
    let again = place.join(format!("again-{}", newest.run_id));
    for track in &mut found.figures {
        let gate = format!("{}:{}", track.op.name(), track.figure);
        if let Some(suspect) = &mut track.suspect {
            suspect.decide = vec![
                format!(
                    "for i in 1 2 3; do taillight run {job} --output {}/$i; done",
                    path(again.clone())
                ),
                format!(
                    "taillight compare {} {} --gate {gate}",
                    path(place.join(BEFORE)),
                    path(again.clone())
                ),
            ];
        }
    }
}

/// Writes `changes.json`, `changes.md`, the page, and links to the nights before a suspect. Returns the page's path.
fn write(found: &HistoryFile, place: &Path) -> Result<PathBuf> {
    let context = ReportContext {
        title: Some(title(found)),
        text: words(found),
        tables: vec![table(found), nights_table(found)],
        history: Some(found.clone()),
        ..ReportContext::default()
    };
    std::fs::create_dir_all(place).map_err(|e| {
        Error::unavailable("cannot make the output directory")
            .with("path", place.display())
            .source(e)
            .hint("name another directory with --output")
    })?;
    atomic::write(place, names::REPORT, html::page(&[], &context)?.as_bytes())?;
    // Links of an earlier history are known by its nights; one that is damaged names none.
    let earlier = HistoryFile::read(place).ok().flatten();
    link(found, &place.join(BEFORE), earlier.as_ref())?;
    found.write(place)?;
    // Last: a later history takes Markdown without `changes.json` beside it for a foreign file.
    atomic::write(place, names::CHANGES_MARKDOWN, markdown(found).as_bytes())?;
    Ok(place.join(names::REPORT))
}

/// The title of the page, with the name of the newest run.
fn title(found: &HistoryFile) -> String {
    let newest = found.nights.last().and_then(|night| night.runs.first());
    let open = newest.and_then(|run| RunDir::open(Path::new(&run.dir)).ok());
    let name = open.map(|run| run.manifest().plan.run.name.clone());
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("{name}, night by night"),
        None => "History, night by night".to_owned(),
    }
}

/// Removes the links of an earlier history and links one run of each night before the suspect, at most [`LINKED`], so
/// that nights are the units of the comparison. Of several suspects it is the one whose first night is latest.
fn link(found: &HistoryFile, before: &Path, earlier: Option<&HistoryFile>) -> Result<()> {
    let failed = |e: std::io::Error| {
        Error::unavailable("cannot link the nights before").with("path", before.display()).source(e)
    };
    // A manifest may come from anywhere: an id that is a path names no link.
    let place = |run: &ComparedRun| {
        let plain = Path::new(&run.run_id).file_name().is_some_and(|name| *name == *run.run_id);
        plain.then(|| before.join(&run.run_id))
    };
    if before.is_symlink() {
        return Err(Error::usage("the directory for links to nights is a link itself")
            .with("path", before.display())
            .hint("remove it, or name another directory with --output"));
    }
    // Anything else in the directory is not ours.
    let runs = earlier.iter().flat_map(|file| &file.nights).flat_map(|night| &night.runs);
    for old in runs.filter_map(place).filter(|path| path.is_symlink()) {
        // Another history that is made at the same time may have been faster.
        match std::fs::remove_file(old) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
    }
    let suspects = found.figures.iter().filter_map(|track| track.suspect.as_ref());
    let since = |suspect: &HistorySuspect| suspect.since.max(suspect.night.saturating_sub(LINKED));
    let Some((first, newest)) = suspects.map(|s| (since(s), s.night)).max() else { return Ok(()) };
    std::fs::create_dir_all(before).map_err(failed)?;
    for run in found.nights[first..newest].iter().filter_map(|night| night.runs.first()) {
        let Some(link) = place(run) else { continue };
        let dir = std::fs::canonicalize(&run.dir).map_err(failed)?;
        match std::os::unix::fs::symlink(&dir, &link) {
            Err(_) if link.read_link().is_ok_and(|to| to == dir) => {}
            linked => linked.map_err(failed)?,
        }
    }
    Ok(())
}
