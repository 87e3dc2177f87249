//! `taillight run job.fio`: a job file of another benchmark, imported and run job by job.
//!
//! All jobs become plans before the first one starts, and whatever can be known of their targets is
//! checked then: a refusal after an hour of load would come too late. Each leaves a run directory of
//! its own.

use std::path::{Path, PathBuf};

use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_trace::tracing;

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
    for (number, (own, plan, part)) in steps.iter().enumerate() {
        let made_before = steps[..number]
            .iter()
            .any(|(_, before, _)| before.target.path == plan.target.path);
        beforehand(own, plan, made_before).map_err(|e| match steps.len() {
            1 => e,
            _ => e.with("job", &part.name),
        })?;
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
    if !places.is_empty() {
        kept(steps.iter().map(|(_, plan, _)| plan));
    }
    Ok(worst)
}

/// Names the files that stay: a job file of fio leaves what it laid out, one of ours does not.
fn kept<'a>(plans: impl Iterator<Item = &'a Plan>) {
    let mut told: Vec<&str> = Vec::new();
    for plan in plans {
        let keep = plan.target.options.get("keep") == Some(&true.into());
        let Some(path) = plan.target.path.as_deref().filter(|_| keep) else {
            continue;
        };
        let files = std::fs::metadata(path).is_ok_and(|m| m.is_file() || m.is_dir());
        if files && !told.contains(&path) {
            told.push(path);
            output::line(&format!("kept: {path}, as fio does"));
        }
    }
}

/// What would stop this job, as things stand before the first one: its output directory, the run it
/// verifies against, tracing, the guard. A target without a size that a job before it makes
/// (`made_before`) is looked at when its turn comes.
fn beforehand(args: &RunArgs, plan: &Plan, made_before: bool) -> Result<()> {
    if let Some(output) = &plan.run.output {
        directory::vacant(Path::new(output))?;
    }
    if let Some(named) = &plan.verify.run {
        taillight_engine::verify::PriorRun::find(named)?.fits(plan)?;
    }
    tracing::require_backend(plan, &Sys::default())?;
    match made_before && plan.target.size.is_none() {
        true => Ok(()),
        false => super::check(args, plan),
    }
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
