//! Paired comparisons of Taillight with fio, with other benchmarks and with bare loops: A B A B, medians, spread,
//! ratios pair by pair. Not tests: figures depend on the machine and on who else uses it.
//!
//! Taillight is run as any user runs it, through its command line and `summary.json`. Each case is
//! one function in `cases/`; without `--dry` every round goes into `benches/results/`, and the pages made of all
//! results (`benches/RESULTS.md`, a table in `docs/overhead.md`) are written anew. A bare loop does the same I/O with
//! next to nothing around it; the bare loops are commands of this program, too.

mod bare;
mod bare_leveldb;
mod bare_metadata;
mod bare_ring;
mod bare_s3;
mod bare_sqlite;
mod cases;
mod child;
mod files;
mod fio;
mod machine;
mod pairs;
mod render;
mod sys;
mod taillight;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

/// What the command line says for all cases.
pub struct BenchSetup {
    /// Rounds of a comparison: each runs every arm once.
    pub pairs: usize,
    /// Seconds of one measurement.
    pub seconds: u64,
}

const HELP: &str = "\
taillight-bench [CASE...] [--pairs N] [--seconds N] [--dry]   run cases (all without a name)
taillight-bench list                                          what there is
taillight-bench pages                                         makes RESULTS.md from the results
taillight-bench bare-ring FILE DEPTH SECONDS BATCH [direct]   the bare loop alone, JSON; BATCH requests a call
taillight-bench bare-sync FILE SECONDS                        the same with plain preads
taillight-bench bare-leveldb DIR fill|read|compact RECORDS BYTES [threads]   a bare loop on LevelDB
taillight-bench bare-sqlite DIR fill|read RECORDS BYTES [threads]   a bare loop on SQLite
taillight-bench bare-metadata DIR create|stat|read|unlink FILES BYTES PASSES   a bare loop of calls
taillight-bench bare-s3 URL get|put BYTES CONCURRENCY SECONDS OBJECTS   a bare client
taillight-bench hold FILE                                     keeps a file in memory

--dry prints the tables and writes nothing.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("taillight-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(args: &[&str]) -> Result<bool> {
    match args.first() {
        Some(&"bare-ring") => return bare_ring::main(&args[1..]).map(|()| true),
        Some(&"bare-sync") => return bare_ring::sync_main(&args[1..]).map(|()| true),
        Some(&"bare-leveldb") => return bare_leveldb::main(&args[1..]).map(|()| true),
        Some(&"bare-sqlite") => return bare_sqlite::main(&args[1..]).map(|()| true),
        Some(&"bare-metadata") => return bare_metadata::main(&args[1..]).map(|()| true),
        Some(&"bare-s3") => return bare_s3::main(&args[1..]).map(|()| true),
        Some(&"hold") => return files::hold(&args[1..]).map(|()| true),
        Some(&"pages") => return render::write_pages().map(|()| true),
        Some(&"list") => {
            for case in cases::CASES {
                println!("{:<14} {}", case.name, case.about);
            }
            return Ok(true);
        }
        Some(&"help" | &"--help") => {
            print!("{HELP}");
            return Ok(true);
        }
        _ => {}
    }
    let mut setup = BenchSetup { pairs: 5, seconds: 5 };
    let (mut names, mut dry) = (Vec::new(), false);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut number = || -> Result<u64> {
            let text = rest.next().with_context(|| format!("{arg} needs a number"))?;
            text.parse().with_context(|| format!("{arg} {text}"))
        };
        match *arg {
            "--pairs" => setup.pairs = usize::try_from(number()?)?.max(1),
            "--seconds" => setup.seconds = number()?.max(1),
            "--dry" => dry = true,
            name if cases::CASES.iter().any(|c| c.name == name) => names.push(name),
            other => bail!("no case is called {other}\n{HELP}"),
        }
    }
    measure(&setup, &names, dry)
}

/// Runs the chosen cases; `Ok(false)` when a bound was missed, with which the program fails.
fn measure(setup: &BenchSetup, names: &[&str], dry: bool) -> Result<bool> {
    let mut all_met = true;
    for case in cases::CASES {
        if !names.is_empty() && !names.contains(&case.name) {
            continue;
        }
        println!("== {}: {}", case.name, case.about);
        let report = (case.run)(setup).with_context(|| format!("case {}", case.name))?;
        println!("{}", render::markdown(&render::json(&report)));
        all_met &= report.checks.iter().all(pairs::BoundCheck::met);
        if !dry {
            render::keep(case.name, &report)?;
        }
    }
    Ok(all_met)
}
