//! `taillight suite`: a method made of many runs, on one target, in one report.
//!
//! All runs become plans before the target is opened. Each leaves a run directory of its own; over
//! them stand one report and a table in the words of the method.

mod slc_paper;
mod steps;

use std::path::{Path, PathBuf};

use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_driver::{AdminAction, OpenSpec};
use taillight_report::ReportContext;
use taillight_suite::stay::Stay;
use taillight_suite::ycsb::{self, Phase};

use crate::args::SuiteArgs;
use crate::run::{self, Live, Signals};
use crate::{output, problem, registry, report};
use steps::Step;

/// The table for programs, in the suite's directory.
const LINES: &str = "ycsb.txt";

/// Runs the command.
///
/// # Errors
/// `Usage` before anything is touched; later ones end the sequence and are told.
pub fn main(args: &SuiteArgs) -> Result<Exit> {
    if args.name == "slc-paper" {
        return slc_paper::main(args);
    }
    if args.endpoint.is_some() || args.scale.is_some() {
        return Err(
            Error::usage("--endpoint and --scale are for suite slc-paper")
                .hint("say what suite ycsb drives with --driver and --path, or with --target"),
        );
    }
    let mut steps = steps::steps(args)?;
    if args.print_plan {
        for step in &steps {
            output::text(&run::plan_text(&step.plan)?)?;
        }
        return Ok(Exit::Ok);
    }
    let home = run::suite_home(args.output.as_deref(), &args.name)?;
    for step in &mut steps {
        let dir = home.join(&step.name).to_string_lossy().into_owned();
        step.plan.run.output = Some(dir);
    }
    let stay = match open(args, &steps) {
        Ok(stay) => stay,
        Err(e) => {
            // Nothing is in it; and if something were, it would stay.
            let _ = std::fs::remove_dir(&home);
            return Err(e);
        }
    };
    let (mut exit, done) = all(&steps, &stay);
    if let Err(e) = stay.close() {
        exit = run::worse(exit, problem::show(&e));
    }
    if !done.is_empty() {
        let ran = |s: &&Step| done.iter().any(|(name, _)| *name == s.name);
        let left = steps.iter().filter(|s| !ran(s));
        let left: Vec<&str> = left.map(|s| s.name.as_str()).collect();
        conclude(&home, &done, &left)?;
    }
    Ok(exit)
}

/// Opens the target once, with the workloads of every run.
fn open(args: &SuiteArgs, steps: &[Step]) -> Result<Stay> {
    let Some(first) = steps.first() else {
        return Err(Error::internal("a suite without runs"));
    };
    let mut plan = first.plan.clone();
    plan.workloads = steps
        .iter()
        .flat_map(|s| s.plan.workloads.clone())
        .collect();
    open_empty(&plan, args.destroy.as_deref())
}

/// Opens a target with the workloads of every run; refuses a store that holds records.
fn open_empty(plan: &Plan, destroy: Option<&str>) -> Result<Stay> {
    let signals = Signals::install()?;
    let mut live = Live::new(plan, false);
    let spec = OpenSpec {
        plan,
        run_id: &run::fresh_id(),
        destroy,
    };
    let driver = registry::driver(&plan.target.driver)?;
    let target = driver.open(&spec, &mut |p| {
        live.step(p);
        !signals.stop().stopped()
    });
    live.end();
    let stay = Stay::new(target?);
    let records = stay.target().keyed().map_or(0, |k| k.records());
    if records > 0 {
        stay.close()?;
        return Err(Error::refused("the store holds records of a former run")
            .with("path", plan.target.path.as_deref().unwrap_or_default())
            .with("records", records)
            .hint(
                "a suite loads its own: delete them, name another --path, or confirm that they may \
                 go with --set target.destroy=true --destroy PATH",
            ));
    }
    Ok(stay)
}

/// Runs the steps in order; the worst exit code, and the directories in which something was
/// measured.
fn all<'a>(steps: &'a [Step], stay: &Stay) -> (Exit, Vec<(&'a str, PathBuf)>) {
    let (mut worst, mut done) = (Exit::Ok, Vec::new());
    let mut first = 0;
    for (number, step) in steps.iter().enumerate() {
        let all = steps.len();
        output::line(&format!(
            "\n== {} ({} of {all}): {}",
            step.name,
            number + 1,
            step.about
        ));
        let ended = one(step, stay, first, number > 0);
        first += step.plan.workloads.len() as u16;
        let (exit, go_on) = match ended {
            Ok(ended) => {
                done.extend(ended.path.map(|p| (step.name.as_str(), p)));
                let stopped = matches!(
                    ended.exit,
                    Exit::Interrupted | Exit::Terminated | Exit::TargetFailed | Exit::Internal
                );
                (ended.exit, !stopped)
            }
            Err(e) => (problem::show(&e), false),
        };
        worst = run::worse(worst, exit);
        if !go_on {
            let left: Vec<&str> = steps[number + 1..]
                .iter()
                .map(|s| s.name.as_str())
                .collect();
            if !left.is_empty() {
                output::note(&format!("not run: {}", left.join(", ")));
            }
            break;
        }
    }
    (worst, done)
}

/// Runs one step on the open target. A load begins with an empty store and ends with everything
/// in the store's files, both outside of what is measured.
fn one(step: &Step, stay: &Stay, first: u16, used: bool) -> Result<run::Done> {
    if step.load && used {
        stay.target().admin(AdminAction::Purge)?;
    }
    let signals = Signals::install()?;
    let order = run::Order {
        args: &step.args,
        plan: &step.plan,
        job: Some(&step.given),
        signals: &signals,
        quiet: false,
    };
    let done = run::on(&order, |_, _| Ok((stay.view(first), 0)))?;
    if step.load {
        stay.target().admin(AdminAction::Flush)?;
    }
    Ok(done)
}

/// One report and one table over all runs. `left`: those that did not run.
fn conclude(home: &Path, done: &[(&str, PathBuf)], left: &[&str]) -> Result<()> {
    let paths: Vec<PathBuf> = done.iter().map(|(_, path)| path.clone()).collect();
    let report = report::of_series(&paths, home, ReportContext::default())?;
    output::line(&format!("\n{}", report.text.trim_end()));
    let phases: Vec<Phase<'_>> = done
        .iter()
        .zip(&report.summaries)
        .map(|((name, _), summary)| Phase { name, summary })
        .collect();
    output::line("\nIn YCSB's terms, in us, of successes (a read-modify-write is one operation):");
    output::line(ycsb::table(&phases).trim_end());
    let mut lines: Vec<String> = phases
        .iter()
        .map(|p| format!("# {}\n{}", p.title(), ycsb::lines(p)))
        .collect();
    lines.extend(left.iter().map(|name| format!("# {name} (not run)\n")));
    let path = home.join(LINES);
    std::fs::write(&path, lines.join("\n")).map_err(|e| {
        Error::unavailable("cannot write the table")
            .with("path", path.display())
            .source(e)
    })?;
    output::line(&format!("Table   {}", path.display()));
    output::line(&format!("Runs    {}", home.display()));
    Ok(())
}
