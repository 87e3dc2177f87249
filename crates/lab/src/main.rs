//! `taillight-lab`: makes trials, appends their scores to a file, prints the matrix; or lists faults, scores rules,
//! prints tables alone, or serves objects as a fault's server.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Parser;
use taillight_lab::cleanup::{LabLock, StopSignal};
use taillight_lab::faults::{FAULTS, Fault, find};
use taillight_lab::rules;
use taillight_lab::score::{Score, matrix, overview, read};
use taillight_lab::setting::Setting;
use taillight_lab::trial::{self, NotMade};
use taillight_s3test::{FaultyServer, ServerSettings};

/// How often a trial whose fault goes too far is made.
const TRIES: u32 = 3;

/// Makes faults beside traced runs and scores what `taillight explain` blames them on.
#[derive(Debug, Parser)]
#[command(name = "taillight-lab")]
struct LabArgs {
    /// The program under test.
    #[arg(required_unless_present_any = ["list", "serve_objects", "rule_table"])]
    taillight: Option<PathBuf>,
    /// Only these faults, separated by commas.
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = fault)]
    only: Vec<&'static Fault>,
    /// Only with this engine of the run, `sync` or `uring`.
    #[arg(long)]
    engine: Option<String>,
    /// Only of this strength; with `--only` of any.
    #[arg(long)]
    ms: Option<u64>,
    /// What else goes on.
    #[arg(long, value_enum, default_value_t)]
    setting: Setting,
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Where scores are appended.
    #[arg(long, value_name = "FILE", default_value = "lab.jsonl")]
    results: PathBuf,
    /// When this is made, and by which code: stands in the scores.
    #[arg(long, value_name = "TEXT", default_value = "")]
    made: String,
    /// Keep the run directories of the first round here.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Serve objects, as a store that can be stopped; on standard output is where.
    #[arg(long, hide = true)]
    serve_objects: bool,
    /// List the faults.
    #[arg(long)]
    list: bool,
    /// Only print the matrix of the scores that are there.
    #[arg(long)]
    matrix: bool,
    /// Only print what these scores say together, for users.
    #[arg(long, conflicts_with = "matrix")]
    overview: bool,
    /// Only score each rule of explain on the run directories kept here, as lines of JSON.
    #[arg(long, value_name = "DIR", requires = "taillight")]
    rules: Option<PathBuf>,
    /// Only print what the scores of the rules in the source say.
    #[arg(long)]
    rule_table: bool,
}

impl LabArgs {
    fn faults(&self) -> Vec<&'static Fault> {
        match self.only.as_slice() {
            [] => FAULTS.iter().collect(),
            only => only.to_vec(),
        }
    }

    fn strengths(&self, fault: &Fault) -> Vec<u64> {
        match self.ms {
            Some(ms) if !self.only.is_empty() => vec![ms],
            Some(ms) => fault.ms.into_iter().filter(|own| *own == ms).collect(),
            None => fault.ms.to_vec(),
        }
    }
}

fn fault(name: &str) -> Result<&'static Fault> {
    find(name).with_context(|| format!("no fault is called {name}"))
}

fn trials(args: &LabArgs, taillight: &Path) -> Result<bool> {
    if let Some(why) = trial::cannot() {
        println!("skipped: lab: {why}");
        return Ok(true);
    }
    let stop = StopSignal::install()?;
    let _lab = LabLock::enter()?;
    let mut fine = true;
    for repeat in 0..args.repeats {
        for fault in args.faults() {
            for engine in fault.engines {
                if args.engine.as_ref().is_some_and(|e| e != engine) {
                    continue;
                }
                for ms in args.strengths(fault) {
                    let keep = args.keep.as_deref().filter(|_| repeat == 0);
                    let name = format!("{} {engine} {ms} ms", fault.name);
                    let made = made(&name, || {
                        trial::trial(&stop, taillight, fault, engine, ms, args.setting, keep)
                    });
                    match made {
                        Ok(mut score) => {
                            score.made.clone_from(&args.made);
                            println!(
                                "{name}: {} injected, {} right, {} wrong: {:?}; others {:?}",
                                score.injected(),
                                score.right(),
                                score.wrong(),
                                score.blamed,
                                score.others
                            );
                            append(args, &score)?;
                        }
                        Err(e) => {
                            stop.check()?;
                            println!("{name}: FAILED: {e:#}");
                            fine = false;
                        }
                    }
                }
            }
        }
    }
    Ok(fine)
}

/// Makes a trial; again, up to [`TRIES`] times, when the fault went too far, and says so.
fn made(name: &str, mut trial: impl FnMut() -> Result<Score>) -> Result<Score> {
    for _ in 1..TRIES {
        match trial() {
            Err(e) if e.is::<NotMade>() => println!("{name}: not made, once more: {e}"),
            other => return other,
        }
    }
    trial()
}

fn append(args: &LabArgs, score: &Score) -> Result<()> {
    if let Some(dir) = args.results.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut options = std::fs::File::options();
    let mut file = options.create(true).append(true).open(&args.results)?;
    Ok(writeln!(file, "{}", serde_json::to_string(score)?)?)
}

fn run() -> Result<bool> {
    let args = LabArgs::parse();
    if args.serve_objects {
        let server = FaultyServer::start(ServerSettings::default());
        println!("{}", server.path("lab/"));
        loop {
            std::thread::park();
        }
    }
    if args.list {
        let faults = FAULTS.iter();
        faults.for_each(|f| println!("{} ({})", f.name, f.layer));
        return Ok(true);
    }
    if let Some((kept, taillight)) = args.rules.as_deref().zip(args.taillight.as_deref()) {
        for score in rules::measure(taillight, kept)? {
            println!("{}", serde_json::to_string(&score)?);
        }
        return Ok(true);
    }
    if args.rule_table {
        print!("{}", rules::table()?);
        return Ok(true);
    }
    let fine = match &args.taillight {
        Some(taillight) if !args.matrix && !args.overview => trials(&args, taillight)?,
        _ => true,
    };
    let text = std::fs::read_to_string(&args.results).unwrap_or_default();
    let scores = read(&text)?;
    let made = if args.overview { overview } else { matrix };
    print!("\n{}", made(&scores)?);
    Ok(fine)
}

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("lab: {e:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_trial_that_was_not_made_is_made_again() {
        let mut times = 0;
        let mut after = |failures: u32, e: fn() -> anyhow::Error| {
            times = 0;
            let end = made("it", || {
                times += 1;
                match times {
                    n if n > failures => Ok(Score::default()),
                    _ => Err(e()),
                }
            });
            (end.is_ok(), times)
        };
        assert_eq!(after(2, || NotMade("it died").into()), (true, 3));
        assert_eq!(after(9, || NotMade("it died").into()), (false, TRIES));
        assert_eq!(after(1, || anyhow::anyhow!("a bug")), (false, 1));
    }
}
