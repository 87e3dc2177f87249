//! `taillight run job.fio`: a job file of another benchmark, imported and run job by job.
//!
//! All jobs become plans before the first one starts. Each leaves a run directory of its own.

use std::path::{Path, PathBuf};

use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};

use super::job::{self, Given};
use super::signals::Signals;
use super::{any, directory};
use crate::args::RunArgs;
use crate::{import, output, problem};

/// One job of the file, as a job file of ours.
pub struct Part {
    name: String,
    given: Given,
}

/// The jobs of a file in another format; `None` for our own.
///
/// # Errors
/// `Usage` when an option of the file has no equivalent.
pub fn parts(given: &Given) -> Result<Option<Vec<Part>>> {
    let Some(format) = taillight_import::detect(&given.name, &given.text) else {
        return Ok(None);
    };
    let jobs = (format.import)(&given.text, &given.name)?;
    import::tell(&jobs, &given.name);
    let parts = jobs.into_iter().map(|job| Part {
        given: Given {
            name: format!("{}.toml, made from {}", job.name, given.name),
            text: job.toml,
        },
        name: job.name,
    });
    Ok(Some(parts.collect()))
}

/// Runs the jobs in order. The exit code is the worst one.
///
/// # Errors
/// `Usage` before anything is touched; later ones are told and end the sequence.
pub fn run(args: &RunArgs, parts: &[Part]) -> Result<Exit> {
    let mut steps: Vec<(RunArgs, Plan, &Part)> = Vec::new();
    for part in parts {
        let mut own = args.clone();
        if let Some(parent) = args.output.as_ref().filter(|_| parts.len() > 1) {
            let dir = Path::new(parent).join(&part.name);
            own.output = Some(dir.to_string_lossy().into_owned());
        }
        let plan = job::plan(&own, Some(&part.given))?;
        steps.push((own, plan, part));
    }
    if args.print_plan {
        for (_, plan, _) in &steps {
            output::text(&directory::plan_text(plan)?)?;
            super::tell_refusal(args, plan);
        }
        return Ok(Exit::Ok);
    }
    if let Some(parent) = args.output.as_ref().filter(|_| parts.len() > 1) {
        std::fs::create_dir_all(parent).map_err(|e| {
            Error::unavailable("cannot make the directory of the runs")
                .with("path", parent)
                .source(e)
        })?;
    }
    let signals = Signals::install()?;
    let (mut worst, mut places) = (Exit::Ok, Vec::<(String, PathBuf)>::new());
    for (number, (own, plan, part)) in steps.iter().enumerate() {
        if parts.len() > 1 {
            let all = parts.len();
            output::line(&format!("\n== {} ({} of {all})", part.name, number + 1));
        }
        let (exit, go_on) = match any(own, plan, Some(&part.given), &signals) {
            Ok(done) => {
                places.extend(done.path.map(|p| (part.name.clone(), p)));
                let stopped = matches!(done.exit, Exit::Interrupted | Exit::Terminated);
                (done.exit, !stopped)
            }
            Err(e) => (problem::show(&e), false),
        };
        worst = worse(worst, exit);
        if !go_on {
            let left: Vec<&str> = parts[number + 1..]
                .iter()
                .map(|p| p.name.as_str())
                .collect();
            if !left.is_empty() {
                output::note(&format!("not run: {}", left.join(", ")));
            }
            break;
        }
    }
    if parts.len() > 1 {
        output::line("");
        for (name, path) in &places {
            output::line(&format!("Run     {name}: {}", path.display()));
        }
    }
    Ok(worst)
}

/// The one that stands first in the documented order.
pub fn worse(a: Exit, b: Exit) -> Exit {
    const ORDER: [Exit; 10] = [
        Exit::Usage,
        Exit::Refused,
        Exit::Unavailable,
        Exit::Interrupted,
        Exit::Terminated,
        Exit::TargetFailed,
        Exit::IoErrors,
        Exit::GateFailed,
        Exit::GateUndecided,
        Exit::Internal,
    ];
    ORDER
        .into_iter()
        .find(|e| *e == a || *e == b)
        .unwrap_or(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_exit_counts() {
        assert_eq!(worse(Exit::Ok, Exit::IoErrors), Exit::IoErrors);
        assert_eq!(worse(Exit::GateFailed, Exit::Refused), Exit::Refused);
        assert_eq!(worse(Exit::Ok, Exit::Ok), Exit::Ok);
    }
}
