//! `taillight suite`: a method made of many runs, from a file of `suites/` or one of the user. Flags become
//! the request of a suite, whose series is started; `--resume` goes on with a series of any command; without a name the
//! suites are listed. What suites are and do is in `taillight-suite`.

use std::ffi::OsString;
use std::path::Path;
use std::rc::Rc;

use clap::{CommandFactory, Parser};
use serde_json::json;
use taillight_core::exit::Exit;
use taillight_core::{Error, Result};
use taillight_driver::identity::{contents, target as target_identity};
use taillight_report::table::{Cell, Table};
use taillight_rundir::series::SeriesFile;
use taillight_rundir::{JsonFile, names};
use taillight_suite::host::JobSource;
use taillight_suite::suites::{self, Planner, SuiteFile, SuiteRequest};

use crate::ab;
use crate::args::{AbArgs, Cli, Command, LiveArgs, RunArgs, SuiteArgs, joined, understood};
use crate::run::{self, SeriesPlace, run_prepared};
use crate::{output, search};

/// Resumes, lists (without a name, or by the name `list`) or starts. Errors: `Usage` for an unknown suite, and what
/// else refuses the series before anything is touched; later ones end the series and are shown.
pub fn main(args: SuiteArgs) -> Result<Exit> {
    match (&args.resume, args.name.as_deref()) {
        (Some(dir), _) => resume(dir, &args.destroy, &args.live),
        (None, None | Some("list")) => list(),
        (None, Some(_)) => start(&args, None),
    }
}

/// Prints the suites that are part of the program, with what they are about, as a table or as JSON.
fn list() -> Result<Exit> {
    let words = |name: &str| [typed(name), about(name).unwrap_or_default()];
    let all = suites::names().map(words);
    if output::mode().json.is_some() {
        let entry = |[name, about]: [String; 2]| json!({ "name": name, "about": about });
        output::json(&all.map(entry).collect::<Vec<_>>())?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::of_words("suites", "suites", &["suite", "what it is about"]);
    table.rows.extend(all.map(|words| words.map(Cell::new).to_vec()));
    let more = "\nAnd any file: taillight suite ./mine.toml (docs/suites.md)\n";
    output::text(&(table.to_text() + more))?;
    Ok(Exit::Ok)
}

/// The name of a suite as it is typed: the load of `disk-for` is a word of its own.
fn typed(name: &str) -> String {
    name.replacen("disk-for-", "disk-for ", 1)
}

/// What a suite of the program says of itself; none where there is no such suite.
fn about(name: &str) -> Option<String> {
    let suite: toml::Table = suites::embedded(name)?.text.parse().ok()?;
    Some(suite.get("about")?.as_str()?.to_owned())
}

/// Goes on with the series in `dir`: the command that began it is run again, and runs that it has completed are read.
/// The live view is the one that `live` asks for, else that of the command. What `destroy` names is confirmed anew.
/// Errors: `Usage` for no series, one that was begun in another directory, or a job from standard input; `Corrupt`
/// where its command cannot be read; as [`confirmed_again`]; those of the command.
fn resume(dir: &Path, destroy: &[String], live: &LiveArgs) -> Result<Exit> {
    let Some(file) = SeriesFile::read(dir)? else {
        return Err(Error::usage("there is no series to resume")
            .with("path", dir.join(names::SERIES).display())
            .hint("give the directory of a suite, a search or repetitions"));
    };
    let here = std::env::current_dir().unwrap_or_default();
    if here != Path::new(&file.directory) {
        return Err(Error::usage("the series was begun in another directory")
            .with("directory", &file.directory)
            .hint("names of files count from there: resume it there"));
    }
    let output = dir.to_string_lossy().into_owned();
    match command_of(dir, &file)? {
        Command::Suite(args) => {
            let output = Some(dir.to_owned());
            let live = live.clone().or(&args.live);
            let destroy = confirmed_again(&file, &args.destroy, destroy)?;
            start(&SuiteArgs { output, live, destroy, ..*args }, Some(file))
        }
        Command::Run(args) if args.job.as_deref() == Some(Path::new("-")) => {
            Err(Error::usage("the job was read from standard input")
                .hint("resume needs the job as a file"))
        }
        Command::Run(args) => {
            let output = Some(output);
            let live = live.clone().or(&args.live);
            let destroy = confirmed_again(&file, &args.destroy, destroy)?;
            run::start(&RunArgs { output, live, destroy, ..*args }, Some(file))
        }
        Command::Search(args) => {
            let mut args = search::as_run(*args)?;
            (args.output, args.live) = (Some(output), live.clone().or(&args.live));
            args.destroy = confirmed_again(&file, &args.destroy, destroy)?;
            run::start(&args, Some(file))
        }
        Command::Ab(args) => {
            let output = Some(dir.to_owned());
            let live = live.clone().or(&args.live);
            let destroy = confirmed_again(&file, &args.destroy, destroy)?;
            ab::start(&AbArgs { output, live, destroy, ..*args }, Some(file))
        }
        _ => Err(Error::corrupt("the command of the series runs nothing")),
    }
}

/// The confirmations that a resumed series goes on with: those `given` now, and those of the command that began it
/// (`before`), whose targets must still be the same ones, with nothing on them that the last run did not leave. Errors:
/// `Refused` where a target is another one, or that cannot be known, as among ranks, where all have to be given again.
fn confirmed_again(file: &SeriesFile, before: &[String], given: &[String]) -> Result<Vec<String>> {
    let missing = before.iter().filter(|name| !given.contains(name));
    let missing: Vec<String> = missing.map(|name| format!("--destroy '{name}'")).collect();
    if crate::ranks::several() && !missing.is_empty() {
        return Err(Error::refused(
            "what is on the targets of other hosts may be another thing by now",
        )
        .with("confirmed when the series began", missing.len())
        .hint(format!("if all their data may be lost now, add: {}", missing.join(" "))));
    }
    for name in before.iter().filter(|name| !given.contains(name)) {
        let was = file.confirmed.iter().find(|c| c.name == *name);
        let (identity, then) = (was.and_then(|c| c.identity.as_ref()), was.map(|c| &c.contents));
        let hint = || format!("if all its data may be lost now, add: --destroy {name}");
        target_identity::check_same(name, identity, target_identity::of(name).as_ref())
            .and_then(|()| {
                let then = then.and_then(|then| then.as_deref());
                target_identity::check_contents(name, then, contents::seen(name).as_deref())
            })
            .map_err(|e| e.hint(hint()))?;
    }
    let kept = before.iter().filter(|name| !given.contains(name));
    Ok(given.iter().chain(kept).cloned().collect())
}

/// The command that began the series in `dir`. Errors: `Corrupt` when it cannot be read.
pub fn command_of(dir: &Path, file: &SeriesFile) -> Result<Command> {
    let words = std::iter::once("taillight".to_owned()).chain(file.command.iter().cloned());
    let unreadable = || {
        Error::corrupt("the command of the series cannot be read")
            .with("path", dir.join(names::SERIES).display())
    };
    let mut definition = Cli::command();
    definition.build();
    let words = words.map(OsString::from).collect();
    let (words, _) = understood(words, &definition).map_err(|e| unreadable().source(e))?;
    let cli =
        Cli::try_parse_from(joined(words, &definition)).map_err(|e| unreadable().source(e))?;
    cli.command.ok_or_else(unreadable)
}

/// Runs the series of the suite that is named in the arguments, or goes on with `resumed` by its seed. Errors: as
/// [`main`].
fn start(args: &SuiteArgs, resumed: Option<SeriesFile>) -> Result<Exit> {
    let name = args.name.iter().chain(&args.of).map(String::as_str).collect::<Vec<_>>().join("-");
    let (name, suite) = find(&name)?;
    let seed = resumed.as_ref().map(|r| r.seed);
    let prepared = suite.prepare(request(args)?, planner(args.destroy.clone(), seed))?;
    let place = SeriesPlace {
        name,
        output: args.output.clone(),
        destroy: &args.destroy,
        print_plan: args.print_plan,
        live: &args.live,
    };
    run_prepared(prepared, &place, resumed)
}

/// A name for the series, and the suite: the one of the program that is called `name`, else that in the file `name`.
/// Errors: `Usage` where there is neither, with what there is, or the file cannot be read as a suite.
fn find(name: &str) -> Result<(String, SuiteFile)> {
    let path = Path::new(name);
    let is_file = path.extension().is_some_and(|e| e == "toml") || path.is_file();
    let source = match suites::embedded(name) {
        Some(source) => source,
        None if is_file => run::read(path)?,
        None => {
            let of: Vec<&str> =
                suites::names().filter_map(|n| n.strip_prefix(name)?.strip_prefix('-')).collect();
            if !of.is_empty() {
                return Err(Error::usage(format!("suite `{name}` needs to know of what")).hint(
                    format!("there are {}: taillight suite {name} {}", of.join(", "), of[0]),
                ));
            }
            let mut parts = name.match_indices('-').map(|(at, _)| name.split_at(at));
            let of_group = |(group, _): &(&str, &str)| {
                suites::names().any(|n| n.strip_prefix(group).is_some_and(|n| n.starts_with('-')))
            };
            if let Some((group, what)) = parts.rfind(of_group) {
                let of = suites::names().filter_map(|n| n.strip_prefix(group)?.strip_prefix('-'));
                let of: Vec<&str> = of.collect();
                return Err(Error::usage(format!("suite `{group}` has no `{}`", &what[1..]))
                    .hint(format!("it has {}: taillight suite {group} {}", of.join(", "), of[0])));
            }
            let known: Vec<String> = suites::names().map(typed).collect();
            return Err(Error::usage(format!("there is no suite `{name}`")).hint(format!(
                "there are {}, and any file: taillight suite ./mine.toml",
                known.join(", ")
            )));
        }
    };
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    Ok((stem.into_owned(), SuiteFile::parse(&source)?))
}

/// What makes the plans of a suite's runs: from a job and assignments to it, with the same checks as `taillight run`.
fn planner(destroy: Vec<String>, seed: Option<u64>) -> Planner {
    let args = RunArgs { destroy, ..RunArgs::default() };
    Rc::new(move |source, set| {
        let mut job = source.job()?;
        set.iter().try_for_each(|assignment| assignment.apply(&mut job))?;
        run::plan_of(job, &args, seed)
    })
}

/// What the flags ask of the suite. Without `--driver` and target files the first path tells the driver, where it is
/// not
/// `file`. Errors: `Usage` for a path or a file that cannot be used.
fn request(args: &SuiteArgs) -> Result<SuiteRequest> {
    let of_path = args.path.first().filter(|_| args.target.is_empty());
    let server = of_path.map(|path| run::driver_of(path)).transpose()?.filter(|d| *d != "file");
    let files = args.files.iter().map(|file| run::read(file));
    Ok(SuiteRequest {
        workloads: args.workload.clone(),
        driver: args.driver.clone().or(server.map(str::to_owned)),
        paths: args.path.clone(),
        targets: args.target.iter().map(|file| named_target(file)).collect::<Result<_>>()?,
        endpoint: args.endpoint.clone(),
        scale: args.scale.clone(),
        records: args.records,
        operations: args.operations,
        runtime: args.runtime.clone(),
        threads: args.threads,
        target_rate: args.target_rate,
        property_files: files.collect::<Result<_>>()?,
        properties: args.properties.clone(),
        set: args.set.clone(),
        ranks: crate::ranks::size(),
    })
}

/// The `[target]` of a job file with a name for it, that of the file. Errors: as [`target`].
fn named_target(file: &Path) -> Result<(String, toml::Value)> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    Ok((name, target(file)?))
}

/// The `[target]` of a job file. Errors: `Usage` where the file cannot be read or has none.
fn target(file: &Path) -> Result<toml::Value> {
    let source: JobSource = run::read(file)?;
    let wrong = |what: &str| {
        Error::usage(what.to_owned())
            .with("path", &source.name)
            .hint("give a job file with a table [target]")
    };
    let mut table: toml::Table = source.text.parse().map_err(|e: toml::de::Error| {
        wrong("the job file cannot be read").with("why", e.message())
    })?;
    let target = table.remove("target");
    target.ok_or_else(|| wrong("the job file has no [target]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `disk-for mysql` was answered with a list of names that nobody can type.
    #[test]
    fn a_load_that_is_not_there_is_answered_with_those_that_are() {
        let said = |name: &str| {
            let e = find(name).expect_err("unknown");
            format!("{e} | {}", e.hint_text().unwrap_or_default())
        };
        let mysql = said("disk-for-mysql");
        assert!(mysql.contains("suite `disk-for` has no `mysql`"), "{mysql}");
        assert!(mysql.contains("it has etcd, kafka, postgres: taillight suite disk-for etcd"));
        let nothing = said("nothing");
        assert!(nothing.contains("disk-for etcd") && !nothing.contains("disk-for-"), "{nothing}");
    }
}
