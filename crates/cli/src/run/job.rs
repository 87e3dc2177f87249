//! Job file, quick flags and `--set`, in this order, into one plan.

use std::io::Read;
use std::path::Path;

use taillight_core::job::{FlagValue, Job};
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_trace::memory_budget;

use crate::args::{ArrivalFlag, RunArgs, Rw};
use crate::registry::Registry;

/// A job file is small; anything larger is another file.
const MOST_BYTES: u64 = 1 << 20;

/// The job file as given.
#[derive(Debug)]
pub struct Given {
    /// Its name in messages.
    pub name: String,
    pub text: String,
}

/// The resolved plan of a job file, if there is one, and the flags.
///
/// # Errors
/// `Usage` with field and place; `Unavailable` when the machine has not enough of something.
pub fn plan(args: &RunArgs, given: Option<&Given>) -> Result<Plan> {
    let mut job = match given {
        Some(given) => Job::from_toml(&given.text, &given.name)?,
        None if args.driver.is_none() && args.set.is_empty() => return Err(nothing_asked()),
        None => Job::empty(),
    };
    apply_target(args, &mut job)?;
    apply_load(args, &mut job)?;
    for assignment in &args.set {
        job.apply_set(assignment)?;
    }
    let plan = resolve(&job)?;
    if args.destroy.is_some() && !plan.target.destroy {
        return Err(
            Error::usage("--destroy needs `destroy = true` in [target] as well")
                .hint("two confirmations guard your data: add --set target.destroy=true"),
        );
    }
    Ok(plan)
}

/// The plan of a job, with the drivers, the memory and the files of this machine.
///
/// # Errors
/// As [`plan`].
pub fn resolve(job: &Job) -> Result<Plan> {
    job.resolve(&Registry, memory_budget::read(&Sys::default()), &|path| {
        std::fs::read_to_string(path)
    })
}

fn nothing_asked() -> Error {
    Error::usage("no job file and no driver given").hint(
        "taillight run JOB.toml, or: \
         taillight run --driver file --path data/ --size 1GiB --rw randread --runtime 30s",
    )
}

/// Reads a job file; `-` is standard input.
///
/// # Errors
/// `Usage` when it cannot be read or is no job file.
pub fn read(path: &Path) -> Result<Given> {
    let shown = path.display().to_string();
    let cannot = |e: std::io::Error| {
        Error::usage("cannot read the job file")
            .with("path", &shown)
            .source(e)
            .hint("give the path of a job file (.toml), or of a fio job (.fio); the folder jobs/ has examples")
    };
    let (name, mut bytes) = ("stdin".to_owned(), Vec::new());
    let name = if path == Path::new("-") {
        let mut input = std::io::stdin().lock().take(MOST_BYTES + 1);
        input.read_to_end(&mut bytes).map_err(cannot)?;
        name
    } else {
        let file = std::fs::File::open(path).map_err(cannot)?;
        let mut input = file.take(MOST_BYTES + 1);
        input.read_to_end(&mut bytes).map_err(cannot)?;
        shown.clone()
    };
    if bytes.len() as u64 > MOST_BYTES {
        return Err(Error::usage("this is no job file: it is larger than 1 MiB")
            .with("path", name)
            .hint("give the path of a job file (.toml), or of a fio job (.fio); the folder jobs/ has examples"));
    }
    let text = String::from_utf8(bytes).map_err(|_| {
        Error::usage("this is no job file: it is not text")
            .with("path", &name)
            .hint("give the path of a job file (.toml), or of a fio job (.fio); the folder jobs/ has examples")
    })?;
    Ok(Given { name, text })
}

/// Sets `path` from a flag that may be absent.
fn set(job: &mut Job, flag: &str, path: &str, value: Option<FlagValue<'_>>) -> Result<()> {
    match value {
        Some(value) => job.apply(flag, path, value),
        None => Ok(()),
    }
}

fn apply_target(args: &RunArgs, job: &mut Job) -> Result<()> {
    let text = |v: &'_ Option<String>| v.clone();
    for (flag, path, value) in [
        ("--driver", "target.driver", text(&args.driver)),
        ("--path", "target.path", text(&args.path)),
        ("--size", "target.size", text(&args.size)),
        ("--output", "run.output", text(&args.output)),
        ("--runtime", "run.duration", text(&args.runtime)),
    ] {
        set(job, flag, path, value.as_deref().map(FlagValue::Text))?;
    }
    if let Some(direct) = args.direct {
        let value = direct.to_string();
        job.apply("--direct", "target.options.direct", FlagValue::Toml(&value))?;
    }
    Ok(())
}

fn apply_load(args: &RunArgs, job: &mut Job) -> Result<()> {
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    for (flag, path, value) in [
        ("--ops", "run.operations", number(args.ops)),
        (
            "--depth",
            "workload.0.queue_depth",
            number(args.depth.map(u64::from)),
        ),
        (
            "--workers",
            "workload.0.workers",
            number(args.workers.map(u64::from)),
        ),
        ("--bs", "workload.0.block_size", args.bs.clone()),
    ] {
        set(job, flag, path, value.as_deref().map(FlagValue::Toml))?;
    }
    if let Some(rw) = args.rw {
        let (mix, access) = words(rw);
        job.apply("--rw", "workload.0.mix", FlagValue::Toml(mix))?;
        job.apply("--rw", "workload.0.access.kind", FlagValue::Text(access))?;
    }
    set(
        job,
        "--sync",
        "workload.0.sync",
        args.sync.as_deref().map(FlagValue::Text),
    )?;
    let kind = match args.arrival {
        Some(ArrivalFlag::Poisson) => "poisson",
        _ => "constant",
    };
    if let Some(rate) = &args.rate {
        // Replaces whatever arrival the job has: a burst has no rate to change.
        job.apply(
            "--rate",
            "workload.0.arrival",
            FlagValue::Toml(&format!("{{ kind = \"{kind}\" }}")),
        )?;
        job.apply("--rate", "workload.0.arrival.rate", FlagValue::Text(rate))?;
    } else if args.arrival.is_some() {
        job.apply(
            "--arrival",
            "workload.0.arrival.kind",
            FlagValue::Text(kind),
        )?;
    }
    Ok(())
}

/// What `--rw` means: operations and order.
fn words(rw: Rw) -> (&'static str, &'static str) {
    const HALF: &str = "{ read = 50, write = 50 }";
    match rw {
        Rw::Read => ("read", "sequential"),
        Rw::Write => ("write", "sequential"),
        Rw::Mixed => (HALF, "sequential"),
        Rw::Randread => ("read", "random"),
        Rw::Randwrite => ("write", "random"),
        Rw::Randrw => (HALF, "random"),
        Rw::Trim => ("trim", "sequential"),
    }
}
