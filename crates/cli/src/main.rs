//! The command `taillight`: the only crate that prints or ends the process.
//!
//! This file is the table of contents: parse, dispatch, turn an error into text and exit code.

mod ab;
mod args;
mod compare;
mod doctor;
mod drive;
mod drivers;
mod export;
mod history;
mod import;
mod import_run;
mod outcome;
mod output;
mod problem;
mod progress;
mod registry;
mod report;
mod run;
mod schema;
mod suite;

use std::process::ExitCode;

use clap::Parser;
use taillight_core::Result;
use taillight_core::exit::Exit;

use args::{Cli, Command};

fn main() -> ExitCode {
    let exit = std::panic::catch_unwind(command).unwrap_or(Exit::Internal);
    ExitCode::from(exit.code())
}

/// Parses and runs the command line.
fn command() -> Exit {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => return problem::command_line(&e),
    };
    match dispatch(cli.command) {
        Ok(exit) => exit,
        Err(e) => problem::show(&e),
    }
}

fn dispatch(command: Command) -> Result<Exit> {
    match command {
        Command::Run(args) => run::main(*args),
        Command::Explain(args) => report::explain(&args),
        Command::Report(args) => report::main(&args),
        Command::Compare(args) => compare::main(&args),
        Command::Ab(args) => ab::main(*args),
        Command::History(args) => history::main(&args),
        Command::Drivers(args) => drivers::main(&args),
        Command::Doctor(args) => doctor::main(&args),
        Command::Drive(args) => drive::main(&args),
        Command::Schema(args) => schema::main(&args),
        Command::Import(args) => import::main(&args),
        Command::Export(args) => export::main(&args),
        Command::Suite(args) => suite::main(*args),
    }
}
