//! The command `taillight`, alone or as one of several ranks: reads the command line, calls the module of the command,
//! turns an error into text and an exit code.
//!
//! `main.rs` and the crate `taillight-mpi` are the programs that call it.

mod ab;
mod args;
mod compare;
mod doctor;
mod drive;
mod drivers;
mod export;
mod foreign;
mod history;
mod import;
mod import_run;
mod leftover;
mod limits;
mod outcome;
mod output;
mod plugin_check;
mod problem;
mod progress;
mod ranks;
mod registry;
mod report;
mod run;
mod schema;
mod search;
mod selftest;
mod shell;
mod suite;
mod trace;
mod version;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use taillight_core::exit::Exit;
use taillight_core::{Error, Result};

use args::{Cli, Command, JsonForm, VerbosityArgs};
use leftover::LeftoverWords;
use output::OutputMode;

pub use ranks::Launcher;

/// Runs the command line of this process, with a launcher as one of several ranks, and returns its exit code.
pub fn main_with(launcher: Option<Launcher>) -> ExitCode {
    let abort = launcher.as_ref().map(|launcher| launcher.abort.clone());
    taillight_driver::plugin::before_last_words(taillight_live::screen::restore);
    // `Ok(None)`: the command panicked.
    let exit = match limits::within(move || {
        let exit = command(launcher);
        taillight_driver::plugin::end_programs();
        taillight_driver::jvm::end(exit);
        exit
    }) {
        Ok(Some(exit)) => exit,
        Ok(None) => {
            // The other ranks would wait for this one.
            abort.into_iter().for_each(|abort| abort(Exit::Internal.code()));
            Exit::Internal.code()
        }
        Err(e) => problem::show(&e).code(),
    };
    ExitCode::from(exit)
}

/// Runs the command line, with a launcher as a rank. Returns the exit code, of `watch` that of the program it started.
fn command(launcher: Option<Launcher>) -> u8 {
    match launcher {
        None => understood().map_or_else(Exit::code, |(cli, notes)| match cli.command {
            Some(Command::Watch(args)) => {
                set_output_mode(cli.verbosity, None, &notes);
                watch::main(&args).unwrap_or_else(|e| problem::show(&e).code())
            }
            _ => obey(cli, &notes).code(),
        }),
        Some(launcher) => ranks::command(launcher).code(),
    }
}

/// The command line of this process, parsed, and notes to be printed about it. Errors: the exit code, once what is
/// wrong (or the help that was asked for) has been printed.
fn understood() -> Result<(Cli, Vec<String>), Exit> {
    let mut definition = Cli::command();
    definition.build();
    let words: Vec<_> = std::env::args_os().collect();
    args::check(&words, &definition).map_err(|e| problem::show(&e))?;
    let found = args::understood(words, &definition).map_err(|e| problem::show(&e));
    let (words, notes) = found?;
    let words = args::joined(words, &definition);
    let cli = Cli::try_parse_from(words).map_err(|mut e| problem::command_line(&mut e))?;
    Ok((cli, notes))
}

/// Runs a parsed command line; an error is printed.
fn obey(cli: Cli, notes: &[String]) -> Exit {
    dispatch(cli, notes).unwrap_or_else(|e| problem::show(&e))
}

/// The form that `--json` asks of `run`, `search`, `suite` or `report`; words for people go to standard error then.
/// None for other commands: their `--json` leaves words where they are.
fn for_a_program(command: &Command) -> Option<JsonForm> {
    match command {
        Command::Run(args) => args.json,
        Command::Search(args) => args.run.json,
        Command::Suite(args) => args.json,
        Command::Report(args) => args.json,
        _ => None,
    }
}

/// Sets how much this process prints, for whom and how wide; then prints the notes on the command line.
fn set_output_mode(args: VerbosityArgs, json: Option<JsonForm>, notes: &[String]) {
    let VerbosityArgs { quiet, verbose, .. } = args;
    output::set_mode(OutputMode { quiet, verbose, json, silent: false });
    taillight_report::table::set_width(output::width());
    notes.iter().for_each(|note| output::note(note));
}

fn dispatch(cli: Cli, notes: &[String]) -> Result<Exit> {
    let verbose = cli.verbosity.verbose;
    set_output_mode(cli.verbosity, cli.command.as_ref().and_then(for_a_program), notes);
    if cli.version {
        return version::main(verbose);
    }
    let Some(command) = cli.command else {
        return Err(Error::usage("a command is missing").hint("taillight --help lists them"));
    };
    if matches!(command, Command::Run(_) | Command::Search(_) | Command::Suite(_) | Command::Ab(_))
        && !ranks::several()
    {
        ranks::check_started(0)?;
    }
    match command {
        Command::Run(_) | Command::Report(_) => leftover::clean_up(LeftoverWords::Own),
        Command::Search(_) | Command::Suite(_) | Command::Ab(_) => {
            leftover::clean_up(LeftoverWords::None);
        }
        Command::Doctor(_) => leftover::clean_up(LeftoverWords::Every),
        _ => {}
    }
    match command {
        Command::Watch(_) => Err(Error::usage("a program is watched by one process")
            .hint("start `taillight watch` on its host, without ranks")),
        Command::Run(args) => crate::run::main(*args),
        Command::Search(args) => search::main(*args),
        Command::Explain(args) => report::explain(&args),
        Command::Report(args) => report::main(&args),
        Command::Compare(args) => compare::main(&args),
        Command::Ab(args) => ab::main(*args),
        Command::History(args) => history::main(&args),
        Command::Trace(args) => trace::main(&args),
        Command::Drivers(args) => drivers::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Drive(args) => drive::main(&args),
        Command::Schema(args) => schema::main(&args),
        Command::Import(args) => import::main(&args),
        Command::Export(args) => export::main(&args),
        Command::Suite(args) => suite::main(*args),
        Command::Selftest(args) => selftest::main(&args),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args),
        Command::Help(args) => shell::help(&args),
    }
}
