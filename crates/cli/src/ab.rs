//! `taillight ab`: two jobs in turns until it is known whether they differ. Flags become two plans and a request
//! (pairs, gate, drop rule); `taillight_suite::ab` orders the runs, `taillight_compare` judges.

use std::path::Path;
use taillight_driver::bind;

use taillight_compare::{CompareRequest, DropRule, RunPair};
use taillight_core::exit::Exit;
use taillight_core::plan::GatePlan;
use taillight_core::{Error, Result};
use taillight_rundir::JsonFile;
use taillight_rundir::series::SeriesFile;
use taillight_suite::ab::{self, AbMethod, AbRequest, AbSide};
use taillight_suite::exit::worst;
use taillight_suite::host::JobSource;

use crate::args::{AbArgs, Command, DropFlag, RunArgs};
use crate::run::{self, SeriesPlace, run_planned};
use crate::{compare, output, problem, suite};

/// Runs the command. Errors: `Usage` before anything is touched; later ones end the series and are shown.
pub fn main(args: AbArgs) -> Result<Exit> {
    start(&args, None)
}

/// Runs the command, or goes on with the series `resumed`. A JUnit file that cannot be written is shown, and makes
/// the exit code `TargetFailed` at least. Errors: as [`main`].
pub fn start(args: &AbArgs, resumed: Option<SeriesFile>) -> Result<Exit> {
    let seed = resumed.as_ref().map(|r| r.seed);
    let base = side(args, &args.base, ("--set-a", &args.set_a), seed)?;
    if args.new.is_none() && args.set_a.is_empty() && args.set_b.is_empty() {
        return Err(Error::usage("there is one job, and nothing in which B differs from it")
            .hint("give a second job, or --set-b K=V; the same job twice measures chance"));
    }
    let second = args.new.as_deref().unwrap_or(&args.base);
    // One seed for both where a job names none.
    let new = side(args, second, ("--set-b", &args.set_b), seed.or(Some(base.plan.run.seed)))?;
    let gate = new.plan.gate.as_ref().or(base.plan.gate.as_ref());
    let request = request(args, gate)?;
    let [is_virtual, is_virtual_too] =
        [&base, &new].map(|side| bind(&side.plan.target).map(|d| d.capabilities().virtual_time));
    if is_virtual? != is_virtual_too? {
        return Err(Error::usage("the time of one side is virtual, of the other real")
            .hint("compare runs of the same load"));
    }
    if let Some(path) = &args.judged.junit {
        compare::check_junit(path)?;
    }
    let name = match base.plan.run.name == new.plan.run.name {
        true => format!("ab-{}", base.plan.run.name),
        false => format!("ab-{}-{}", base.plan.run.name, new.plan.run.name),
    };
    let plans = [base.plan.clone(), new.plan.clone()];
    let mut method = AbMethod::new([base, new], request)?;
    let place = SeriesPlace {
        name,
        output: args.output.clone(),
        destroy: &args.destroy,
        print_plan: args.print_plan,
        live: &args.live,
    };
    let exit = run_planned(&mut method, &plans, None, &place, resumed)?;
    if let (Some(path), Some(found)) = (&args.judged.junit, method.found())
        && let Err(e) = compare::write_junit(path, found)
    {
        problem::show(&e);
        output::note(
            "what was measured is not lost: `taillight compare` with the directory of the series and \
             --junit writes it again",
        );
        return Ok(worst(exit, Exit::TargetFailed));
    }
    Ok(exit)
}

/// The complete pairs of the series in `dir`, and the request that judges them. None where it holds no series, or one
/// of another method. Errors: those of reading its runs; `Usage` where no pair is complete; `Corrupt` for its command.
pub fn again(dir: &Path) -> Result<Option<(Vec<RunPair>, AbRequest)>> {
    let Some(series) = SeriesFile::read(dir)?.filter(|s| s.method == ab::NAME) else {
        return Ok(None);
    };
    let Command::Ab(args) = suite::command_of(dir, &series)? else {
        return Err(Error::corrupt("the command of the series is not `ab`"));
    };
    let pairs = ab::pairs_of(dir, &series)?;
    let Some(first) = pairs.first() else {
        return Err(Error::usage("no pair of the series is complete")
            .with("path", dir.display())
            .hint("taillight suite --resume DIR goes on with it"));
    };
    let [base, new] = [&first.base, &first.new].map(|run| run.manifest.plan.gate.as_ref());
    let request = request(&args, new.or(base))?;
    Ok(Some((pairs, request)))
}

fn request(args: &AbArgs, gate: Option<&GatePlan>) -> Result<AbRequest> {
    let drop = match args.drop {
        DropFlag::None => DropRule::None,
        DropFlag::Stolen => DropRule::Stolen,
        DropFlag::Busy => DropRule::Busy,
    };
    let compare: CompareRequest = compare::request(&args.judged, gate)?;
    Ok(AbRequest { pairs: args.pairs, drop, compare })
}

fn side(
    args: &AbArgs,
    path: &Path,
    (flag, set): (&str, &[String]),
    seed: Option<u64>,
) -> Result<AbSide> {
    let source: JobSource = run::read(path)?;
    let mut job = source.job()?;
    args.set.iter().try_for_each(|assignment| job.apply_set(assignment))?;
    set.iter().try_for_each(|assignment| job.apply_assignment(flag, assignment))?;
    let of = RunArgs { destroy: args.destroy.clone(), ..RunArgs::default() };
    let plan = run::plan_of(job, &of, seed)?;
    let name = [source.name.clone()].into_iter().chain(set.iter().cloned());
    Ok(AbSide { name: name.collect::<Vec<_>>().join(" "), plan, job: Some(source) })
}
