//! `taillight export`: a job or a run as another benchmark's job file.

use std::path::Path;

use taillight_core::exit::Exit;
use taillight_core::job::Job;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_import::EXPORTS;
use taillight_rundir::RunDir;

use crate::args::ExportArgs;
use crate::import::write_new;
use crate::{output, run};

/// Runs the command. Errors: `Usage` for a job that the format cannot express at all; `Corrupt` for
/// a broken run directory.
pub fn main(args: &ExportArgs) -> Result<Exit> {
    let plan = plan(&args.of)?;
    let format = EXPORTS
        .iter()
        .find(|f| f.name == args.format)
        .ok_or_else(|| Error::usage("there is no such format").with("format", &args.format))?;
    let exported = (format.export)(&plan)?;
    for line in &exported.missing {
        output::note(&format!("not the same in {}: {line}", format.name));
    }
    match args.output.as_deref().filter(|p| *p != Path::new("-")) {
        Some(path) => write_new(path, &exported.text)?,
        None => output::text(&exported.text)?,
    }
    Ok(Exit::Ok)
}

/// The plan of a run directory or of a job file.
fn plan(of: &Path) -> Result<Plan> {
    if of.is_dir() {
        return Ok(RunDir::open(of)?.manifest().plan.clone());
    }
    let given = run::read(of)?;
    if taillight_import::detect(&given.name, &given.text).is_some() {
        return Err(Error::usage("this is a job file of another benchmark already")
            .with("path", &given.name)
            .hint("`taillight import` makes Taillight job files of it"));
    }
    run::resolve(&Job::from_toml(&given.text, &given.name)?)
}
