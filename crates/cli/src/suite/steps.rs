//! The runs of the `ycsb` suite: properties -> job files -> plans, in order.

use std::collections::BTreeMap;
use std::path::Path;

use taillight_core::plan::Plan;
use taillight_core::{Error, OpKind, Result};
use taillight_import::ImportedJob;
use taillight_import::ycsb::{ANY_STORE, Properties, phases};
use taillight_suite::method::Method;

use crate::args::{RunArgs, SuiteArgs};
use crate::run::{self, Given};
use crate::{import, output};

/// One run of the suite.
pub struct Step {
    /// Its name: that of its directory.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// It loads the records.
    pub load: bool,
    /// The arguments that `run` would have had.
    pub args: RunArgs,
    /// The job file it is made from.
    pub given: Given,
    pub plan: Plan,
}

/// A workload asked for, as properties.
struct Asked {
    name: String,
    about: String,
    properties: Properties,
}

/// Every run, in order: a load wherever the store is empty, or a workload before has inserted.
///
/// # Errors
/// `Usage` for anything that is wrong in workloads, properties or flags.
pub fn steps(args: &SuiteArgs) -> Result<Vec<Step>> {
    let mut made: Vec<Step> = Vec::new();
    let (mut load, mut told) = (true, Vec::new());
    for asked in asked(args)? {
        let jobs = phases(&asked.properties, &asked.name, "suite ycsb")?;
        for note in &jobs.run.notes {
            let named = args.driver.is_some() || args.target.is_some();
            let said = told.contains(note) || (named && note == ANY_STORE);
            if !said {
                output::note(&format!("suite ycsb: {note}"));
                told.push(note.clone());
            }
        }
        if load {
            let name = match made.is_empty() {
                true => "load".to_owned(),
                false => format!("load-{}", asked.name),
            };
            let about = format!("records for workload {}", asked.name);
            made.push(step(args, (name, about, true), jobs.load, made.first())?);
        }
        let words = (asked.name, asked.about, false);
        let step = step(args, words, jobs.run, made.first())?;
        load = step.plan.workloads.iter().any(inserts);
        made.push(step);
    }
    Ok(made)
}

fn inserts(w: &taillight_core::plan::WorkloadPlan) -> bool {
    w.mix.iter().any(|m| m.op == OpKind::Insert)
}

/// The workloads with all their properties: the suite's, files, assignments, flags; later ones win.
fn asked(args: &SuiteArgs) -> Result<Vec<Asked>> {
    let method = Method::ycsb()?;
    let own = |tables: [&BTreeMap<String, String>; 2]| {
        let mut own = Properties::default();
        for (name, value) in tables.into_iter().flatten() {
            own.set(name, value, "suite ycsb");
        }
        own
    };
    if let (true, Some(last)) = (args.workload.is_empty(), args.files.last()) {
        // The files are the workload.
        let stem = last.file_stem().map(|s| s.to_string_lossy().into_owned());
        return Ok(vec![Asked {
            name: stem
                .filter(|s| s != "load")
                .unwrap_or_else(|| "run".to_owned()),
            about: format!("properties of {}", last.display()),
            properties: given(args, Properties::default())?,
        }]);
    }
    let names = match args.workload.is_empty() {
        true => vec!["a".to_owned()],
        false => args.workload.clone(),
    };
    let chosen = method.choose(&names)?;
    chosen
        .into_iter()
        .map(|w| {
            Ok(Asked {
                name: w.name.clone(),
                about: w.about.clone(),
                properties: given(args, own([&method.properties, &w.properties]))?,
            })
        })
        .collect()
}

/// What files, assignments and flags say, over `own`.
fn given(args: &SuiteArgs, own: Properties) -> Result<Properties> {
    let mut all = import::properties(own, &args.files, &args.properties)?;
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    for (flag, name, value) in [
        ("--records", "recordcount", number(args.records)),
        ("--operations", "operationcount", number(args.operations)),
        (
            "--threads",
            "threadcount",
            number(args.threads.map(u64::from)),
        ),
        ("--target-rate", "target", number(args.target_rate)),
    ] {
        if let Some(value) = value {
            all.set(name, &value, flag);
        }
    }
    if args.runtime.is_some() {
        // Its exact length goes into the job: YCSB knows whole seconds only.
        all.set("operationcount", "0", "--runtime");
        all.set("maxexecutiontime", "1", "--runtime");
    }
    Ok(all)
}

/// A run: the job file with the target and whatever else the command line says.
fn step(
    args: &SuiteArgs,
    (name, about, load): (String, String, bool),
    job: ImportedJob,
    first: Option<&Step>,
) -> Result<Step> {
    let mut set = Vec::new();
    if let Some(file) = &args.target {
        set.push(format!("target={}", target(file)?));
    }
    set.push(format!("run.name=ycsb-{name}"));
    set.push(format!("workload.0.name={name}"));
    if let (Some(runtime), false) = (&args.runtime, load) {
        set.push(format!("run.duration={runtime}"));
    }
    if let Some(first) = first {
        // One seed over all runs, whoever chose it.
        set.push(format!("run.seed={}", first.plan.run.seed));
    }
    set.extend(args.set.iter().cloned());
    let own = RunArgs {
        driver: args.driver.clone(),
        path: args.path.clone(),
        destroy: args.destroy.clone(),
        set,
        ..RunArgs::default()
    };
    let given = Given {
        name: format!("{name}.toml, made by suite ycsb"),
        text: job.toml,
    };
    let plan = run::plan(&own, Some(&given))?;
    if plan.workloads.len() != 1 {
        return Err(Error::usage("a workload of a suite cannot be added to")
            .hint("--set workload.0.FIELD=VALUE changes its fields"));
    }
    Ok(Step {
        name,
        about,
        load,
        args: own,
        given,
        plan,
    })
}

/// The `[target]` of a job file, in one line.
fn target(file: &Path) -> Result<String> {
    let given = run::read(file)?;
    let wrong = |what: &str| {
        Error::usage(what.to_owned())
            .with("path", &given.name)
            .hint("give a job file with a table [target]")
    };
    let table: toml::Table = given.text.parse().map_err(|e: toml::de::Error| {
        wrong("the job file cannot be read").with("why", e.message())
    })?;
    match table.get("target") {
        Some(target) => Ok(target.to_string()),
        None => Err(wrong("the job file has no [target]")),
    }
}
