//! `taillight-lab`: makes trials, appends their scores to a file, prints the matrix.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use taillight_lab::faults::{FAULTS, Fault, find};
use taillight_lab::guard::{Lab, Stop};
use taillight_lab::score::{Score, matrix};
use taillight_lab::trial::{self, NotMade};

const HELP: &str = "\
taillight-lab TAILLIGHT [--only A,B] [--engine sync|uring] [--ms N] [--repeats N]
              [--results FILE] [--keep DIR] [--list] [--matrix]
";

/// How often a trial whose fault goes too far is made.
const TRIES: u32 = 3;

struct Wish {
    taillight: PathBuf,
    faults: Vec<&'static Fault>,
    engine: Option<String>,
    ms: Option<u64>,
    repeats: u32,
    results: PathBuf,
    keep: Option<PathBuf>,
    only_matrix: bool,
}

fn wish() -> Result<Option<Wish>> {
    let mut args = std::env::args().skip(1);
    let Some(taillight) = args.next().filter(|a| !a.starts_with('-')) else {
        print!("{HELP}");
        return Ok(None);
    };
    let mut wish = Wish {
        taillight: taillight.into(),
        faults: FAULTS.iter().collect(),
        engine: None,
        ms: None,
        repeats: 3,
        results: "lab.jsonl".into(),
        keep: None,
        only_matrix: false,
    };
    while let Some(arg) = args.next() {
        let mut value = || args.next().with_context(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--only" => {
                let names = value()?;
                let known = |n: &str| find(n).with_context(|| format!("no fault is called {n}"));
                wish.faults = names.split(',').map(known).collect::<Result<_>>()?;
            }
            "--engine" => wish.engine = Some(value()?),
            "--ms" => wish.ms = Some(value()?.parse()?),
            "--repeats" => wish.repeats = value()?.parse()?,
            "--results" => wish.results = value()?.into(),
            "--keep" => wish.keep = Some(value()?.into()),
            "--matrix" => wish.only_matrix = true,
            "--list" => {
                FAULTS
                    .iter()
                    .for_each(|f| println!("{} ({})", f.name, f.layer));
                return Ok(None);
            }
            other => bail!("the lab does not know {other}\n{HELP}"),
        }
    }
    Ok(Some(wish))
}

fn trials(wish: &Wish) -> Result<bool> {
    if let Some(why) = trial::cannot() {
        println!("skipped: lab: {why}");
        return Ok(true);
    }
    let stop = Stop::install()?;
    let _lab = Lab::enter()?;
    let mut fine = true;
    for repeat in 0..wish.repeats {
        for fault in &wish.faults {
            for engine in fault.engines {
                if wish.engine.as_ref().is_some_and(|e| e != engine) {
                    continue;
                }
                for ms in fault.ms {
                    if wish.ms.is_some_and(|only| only != ms) {
                        continue;
                    }
                    let keep = wish.keep.as_deref().filter(|_| repeat == 0);
                    let name = format!("{} {engine} {ms} ms", fault.name);
                    let made = made(&name, || {
                        trial::trial(&stop, &wish.taillight, fault, engine, ms, keep)
                    });
                    match made {
                        Ok(score) => {
                            println!(
                                "{name}: {} injected, {} right, {} wrong: {:?}; others {:?}",
                                score.injected(),
                                score.right(),
                                score.wrong(),
                                score.blamed,
                                score.others
                            );
                            append(wish, &score)?;
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

fn append(wish: &Wish, score: &Score) -> Result<()> {
    if let Some(dir) = wish.results.parent() {
        std::fs::create_dir_all(dir)?;
    }
    let mut options = std::fs::File::options();
    let mut file = options.create(true).append(true).open(&wish.results)?;
    Ok(writeln!(file, "{}", score.line())?)
}

fn run() -> Result<bool> {
    let Some(wish) = wish()? else {
        return Ok(true);
    };
    let fine = wish.only_matrix || trials(&wish)?;
    let text = std::fs::read_to_string(&wish.results).unwrap_or_default();
    let scores: Vec<Score> = text.lines().map(Score::parse).collect::<Result<_>>()?;
    print!("\n{}", matrix(&scores));
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
