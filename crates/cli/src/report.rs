//! `taillight report`, and the report at the end of a run.

use taillight_core::exit::Exit;
use taillight_core::{Error, Result};
use taillight_rundir::{RunDir, Summary};

use crate::args::ReportArgs;

/// Runs the command.
///
/// # Errors
/// `Unavailable` or `Corrupt` for a directory that is no readable run.
pub fn main(args: &ReportArgs) -> Result<Exit> {
    for run in &args.runs {
        RunDir::open(run)?;
    }
    Err(Error::unavailable(
        "reports are not built into this version",
    ))
}

/// Analyses a finished run, writes its summary and report, and prints the summary.
///
/// # Errors
/// `Unavailable` when the directory cannot be written.
pub fn make(dir: &mut RunDir) -> Result<Option<Summary>> {
    dir.summary()
}
