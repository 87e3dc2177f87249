//! `taillight compare`: whether two sides of runs differ, as text, page, `compare.json`, `compare.md` and JUnit XML;
//! `taillight_compare` judges.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use taillight_compare::{CompareRequest, FoundRuns, GateRequest, SideRun, compare};
use taillight_core::exit::Exit;
use taillight_core::plan::{GateFail, GatePlan};
use taillight_core::units::readable::in_line;
use taillight_core::{Error, Result};
use taillight_report::table::paragraph;
use taillight_report::{MadeReport, ReportOptions, side_words};
use taillight_rundir::compare::{ComparableVerdict, CompareFile};
use taillight_rundir::{JsonFile, RunDir, atomic, check_is_dir, names, sums};
use taillight_suite::ab::exit_of;
use taillight_suite::saved::MOST_IN_FULL;

use crate::args::{CompareArgs, JudgeArgs};
use crate::foreign::Findings;
use crate::progress::Shown;
use crate::{ab, foreign, output};

/// Directory of the comparison without `--output`.
const OUTPUT: &str = "taillight-compare";

/// Runs the command. Exit code: that of the gate; 0 without one. Errors: `Usage` for sides that may not be
/// compared, an unknown gate or an output in use; `Unavailable` or `Corrupt` for a run that cannot be read.
pub fn main(args: &CompareArgs) -> Result<Exit> {
    args.judged.junit.as_deref().map_or(Ok(()), check_junit)?;
    let Compared { mut found, dirs } = match &args.new {
        Some(new) => two_sides(args, new)?,
        None => of_pairs(args)?,
    };
    let runs = found.base.iter().chain(&found.new);
    let all: Vec<PathBuf> =
        runs.map(|run| dirs.get(&run.dir).cloned().unwrap_or_else(|| (&run.dir).into())).collect();
    let place = args.output.clone().unwrap_or_else(|| PathBuf::from(OUTPUT));
    taillight_report::check_output(&all, Some(&place))?;
    refuse(&found, args.judged.anyway)?;
    // The page takes longer, most of all of many I/Os.
    if !args.json && !args.markdown {
        output::text(&taillight_compare::console(&found))?;
    }
    let made = page(&found, &all, &place)?;
    let sides = made.sides.unwrap_or_default();
    let said = side_words(&sides, &found);
    (found.phases, found.episodes) = (sides.phases, sides.episodes);
    if let Some(path) = &args.judged.junit {
        write_junit(path, &found)?;
    }
    let mut markdown = taillight_compare::markdown(&found);
    markdown.extend(said.iter().map(|said| format!("\n{said}\n")));
    // A name of a page asks for the page alone.
    if place.is_dir() {
        found.write(&place)?;
        atomic::write(&place, names::COMPARE_MARKDOWN, markdown.as_bytes())?;
    }
    match (args.json, args.markdown) {
        (true, _) => output::json(&found)?,
        (false, true) => output::text(&markdown)?,
        (false, false) => {
            let said = said.map_or(String::new(), |said| format!("\n{}", paragraph(&said)));
            let page = made.html.unwrap_or(place);
            output::text(&format!("{said}\nReport  {}\n", in_line(page.display())))?;
        }
    }
    Ok(found.gate.map_or(Exit::Ok, |gate| exit_of(gate.status)))
}

/// A comparison, and the paths of its runs by their names in it, which are text and may have lost bytes.
struct Compared {
    found: CompareFile,
    dirs: BTreeMap<String, PathBuf>,
}

impl Compared {
    fn of<'a>(found: CompareFile, runs: impl IntoIterator<Item = &'a SideRun>) -> Compared {
        let named = |run: &SideRun| (run.dir.display().to_string(), run.dir.clone());
        Compared { found, dirs: runs.into_iter().map(named).collect() }
    }
}

/// A run that may be compared: the page is made of all files that were measured. Errors: as
/// [`SideRun::read`]; `Corrupt` for one of which such a file was changed.
fn intact(dir: &Path) -> Result<SideRun> {
    sums::intact(&RunDir::open(dir)?)?;
    SideRun::read(dir)
}

/// Two sides, each by its path.
fn two_sides(args: &CompareArgs, new: &Path) -> Result<Compared> {
    // A folder of runs; deeper ones are several settings. What was changed is left out and told.
    let read = |path: &Path| {
        let run = foreign::run_of(path, args.unit, Findings::Told)?;
        FoundRuns::of(&run, 1)?.read(intact)
    };
    let ((base, mut left_out), (new, left_out_too)) = (read(&args.base)?, read(new)?);
    left_out.extend(left_out_too);
    let mut gates = new.iter().chain(&base).filter_map(|run| run.manifest.plan.gate.as_ref());
    let mut request = request(&args.judged, gates.next())?;
    match &mut request.gate {
        Some(gate) => gate.single_runs_decide = args.single_runs_decide,
        None if args.single_runs_decide => return Err(no_gate("--single-runs-decide")),
        None => {}
    }
    let found = compare(&base, &new, &CompareRequest { left_out, ..request })?;
    Ok(Compared::of(found, base.iter().chain(&new)))
}

/// The pairs of a series of `taillight ab` again, by the rules that were fixed before the first; what flags say now
/// wins.
fn of_pairs(args: &CompareArgs) -> Result<Compared> {
    let series = match args.base.is_file() {
        // A result of another tool is one side, too.
        true => None,
        false => check_is_dir(&args.base).and_then(|()| ab::again(&args.base))?,
    };
    let Some((pairs, mut of)) = series else {
        return Err(Error::usage("compare needs two sides, and one is given")
            .with("path", args.base.display())
            .hint("taillight compare BASE NEW; only the series of `taillight ab` has both"));
    };
    let now = request(&args.judged, None)?;
    of.compare.gate = now.gate.or(of.compare.gate);
    of.compare.margin = now.margin.or(of.compare.margin);
    of.compare.anyway |= now.anyway;
    let runs = || pairs.iter().flat_map(|pair| [&pair.base, &pair.new]);
    runs().try_for_each(|run| sums::intact(&RunDir::open(&run.dir)?))?;
    Ok(Compared::of(of.judge(&pairs), runs()))
}

/// What flags ask for, and where they are silent the job. Errors: `Usage`.
pub fn request(args: &JudgeArgs, job: Option<&GatePlan>) -> Result<CompareRequest> {
    let mut gate = match args.gate.as_slice() {
        [] => job.map(GateRequest::from),
        figures => Some(GateRequest::parse(figures)?),
    };
    match &mut gate {
        Some(gate) if args.not_equal => gate.fail = GateFail::NotEqual,
        None if args.not_equal => return Err(no_gate("--not-equal")),
        _ => {}
    }
    let margin = args.margin.as_deref().map(share).transpose()?;
    let margin = margin.or(job.and_then(|g| g.margin));
    Ok(CompareRequest { margin, anyway: args.anyway, gate, left_out: Vec::new() })
}

fn no_gate(flag: &str) -> Error {
    Error::usage(format!("{flag} needs a gate"))
        .hint("give --gate OP:FIGURE, or a table [gate] in the job")
}

/// Directory and name of the file. Errors: `Usage` where it names no file in a directory that is there.
fn junit_place(path: &Path) -> Result<(&Path, &OsStr)> {
    match atomic::place(path) {
        Ok(place) if place.0.is_dir() => Ok(place),
        _ => Err(Error::usage("--junit names no file that can be written")
            .with("path", path.display())
            .hint("name a file in a directory that is there")),
    }
}

/// Whether the JUnit file can be had: a wrong name must not cost a series. Errors: `Usage`, also where
/// something is there that no comparison wrote.
pub fn check_junit(path: &Path) -> Result<()> {
    junit_place(path)?;
    atomic::may_write(path, |head| atomic::says(head, taillight_compare::JUNIT))
}

/// Writes JUnit XML. Errors: as [`check_junit`]; `Unavailable` when it cannot be written.
pub fn write_junit(path: &Path, found: &CompareFile) -> Result<()> {
    check_junit(path)?;
    let (dir, name) = junit_place(path)?;
    atomic::write(dir, name, taillight_compare::junit(found).as_bytes())
}

/// `10%` as 0.1. Errors: `Usage` for 0 % or less, and for 1000 % or more.
fn share(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
    number.map(|n| n / 100.0).filter(|s| *s > 0.0 && *s < 10.0).ok_or_else(|| {
        Error::usage(format!("`{text}` is no margin")).hint("a share above 0 %, like --margin 10%")
    })
}

/// Refuses a comparison of sides that may not be compared, before any of it is shown. Errors: `Usage`.
fn refuse(found: &CompareFile, anyway: bool) -> Result<()> {
    let (what, hint) = match found.comparable.verdict {
        ComparableVerdict::No => {
            ("the sides cannot be compared", "compare two runs of the same load")
        }
        ComparableVerdict::Doubtful if !anyway => {
            ("the sides may not say the same thing", "--anyway compares them all the same")
        }
        _ => return Ok(()),
    };
    let reasons = found.comparable.reasons.join("; ");
    Err(Error::usage(what).with("because", reasons).hint(hint))
}

/// The page: all runs laid over each other, the comparison above.
fn page(found: &CompareFile, runs: &[PathBuf], place: &Path) -> Result<MadeReport> {
    let context = taillight_compare::context(found, runs.len() > MOST_IN_FULL);
    let mut shown = Shown::new();
    let options = ReportOptions {
        output: Some(place.to_owned()),
        context,
        texts: false,
        write: false,
        ..ReportOptions::default()
    };
    let made = taillight_report::make(runs, &options, &mut |p| {
        shown.step(p);
        true
    });
    shown.end();
    let made = made?;
    for (run, summary) in runs.iter().zip(&made.summaries) {
        let damage =
            summary.verdict.reasons.iter().filter(|r| taillight_report::is_damage(&r.code));
        for reason in damage {
            output::note(&format!("{}: {}", in_line(run.display()), reason.text));
        }
    }
    Ok(made)
}
