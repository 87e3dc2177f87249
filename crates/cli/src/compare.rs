//! `taillight compare`: whether two sides of runs differ.

use std::path::{Path, PathBuf};

use taillight_compare::{CompareRequest, GateRequest, SideRun, compare, runs_of};
use taillight_core::exit::Exit;
use taillight_core::{Error, Result};
use taillight_report::{ReportContext, ReportOptions, ReportSummary};
use taillight_rundir::compare::{ComparableVerdict, CompareFile, GateFail, GateStatus};
use taillight_rundir::{JsonFile, atomic};
use taillight_suite::saved::MOST_IN_FULL;

use crate::args::CompareArgs;
use crate::output;
use crate::progress::Shown;

/// Where the comparison goes where nothing else is asked.
const OUTPUT: &str = "taillight-compare";
/// The comparison for pull requests.
const MARKDOWN: &str = "compare.md";
/// Charts of a page over many runs.
const CHARTS: [&str; 3] = ["distribution", "percentile", "tail"];

/// Runs the command. Exit code: that of the gate; 0 without one. Errors: `Usage` for sides that may not be
/// compared, an unknown gate or an output in use; `Unavailable` or `Corrupt` for a run that cannot be read.
pub fn main(args: &CompareArgs) -> Result<Exit> {
    let request = request(args)?;
    let (base, new) = (runs_of(&args.base)?, runs_of(&args.new)?);
    let all: Vec<PathBuf> = base.iter().chain(&new).cloned().collect();
    let place = args.output.clone().unwrap_or_else(|| PathBuf::from(OUTPUT));
    taillight_report::check_output(&all, Some(&place))?;
    let read =
        |side: &[PathBuf]| side.iter().map(|dir| SideRun::read(dir)).collect::<Result<Vec<_>>>();
    let found = compare(&read(&base)?, &read(&new)?, &request)?;
    refuse(&found, args.anyway)?;
    let text = taillight_compare::console(&found);
    if let Some(path) = &args.junit {
        let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        let name = name.ok_or_else(|| Error::usage("--junit needs the name of a file"))?;
        atomic::write(dir, &name, taillight_compare::junit(&found).as_bytes())?;
    }
    match (args.json, args.markdown) {
        (true, _) => output::json(&found)?,
        (false, true) => output::text(&taillight_compare::markdown(&found))?,
        (false, false) => output::text(&text)?,
    }
    let page = page(&found, &all, &place)?;
    found.write(&place)?;
    atomic::write(&place, MARKDOWN, taillight_compare::markdown(&found).as_bytes())?;
    if !args.json && !args.markdown {
        output::line(&format!("\nReport  {}", page.display()));
    }
    Ok(match found.gate.map(|gate| gate.status) {
        None | Some(GateStatus::Pass) => Exit::Ok,
        Some(GateStatus::Fail) => Exit::GateFailed,
        Some(GateStatus::Undecided) => Exit::GateUndecided,
    })
}

fn request(args: &CompareArgs) -> Result<CompareRequest> {
    let mut gate: Option<GateRequest> = args.gate.as_deref().map(str::parse).transpose()?;
    if let Some(gate) = &mut gate {
        gate.fail = if args.not_equal { GateFail::NotEqual } else { GateFail::Worse };
        gate.single_runs_decide = args.single_runs_decide;
    }
    let margin = args.margin.as_deref().map(share).transpose()?;
    Ok(CompareRequest { margin, anyway: args.anyway, paired: false, gate })
}

/// `10%` as 0.1. Errors: `Usage`.
fn share(text: &str) -> Result<f64> {
    let number = text.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
    number.map(|n| n / 100.0).filter(|s| *s > 0.0 && *s < 10.0).ok_or_else(|| {
        Error::usage(format!("`{text}` is no margin")).hint("a share above 0 %, like --margin 10%")
    })
}

/// Stops before sides are compared that may not be.
fn refuse(found: &CompareFile, anyway: bool) -> Result<()> {
    let (what, hint) = match found.comparable.verdict {
        ComparableVerdict::No => ("the sides cannot be compared", "compare runs of the same load"),
        ComparableVerdict::Doubtful if !anyway => {
            ("the sides may not say the same thing", "--anyway compares them all the same")
        }
        _ => return Ok(()),
    };
    let reasons = found.comparable.reasons.join("; ");
    Err(Error::usage(what).with("because", reasons).hint(hint))
}

/// The page: all runs laid over each other, the comparison above.
fn page(found: &CompareFile, runs: &[PathBuf], place: &Path) -> Result<PathBuf> {
    let context = ReportContext {
        title: Some("Base against new".to_owned()),
        text: taillight_compare::words(found),
        tables: vec![taillight_compare::table(found)],
        summary: (runs.len() > MOST_IN_FULL).then(|| ReportSummary {
            charts: CHARTS.map(str::to_owned).to_vec(),
            ..ReportSummary::default()
        }),
        ..ReportContext::default()
    };
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
    Ok(made?.html.unwrap_or_else(|| place.to_owned()))
}
