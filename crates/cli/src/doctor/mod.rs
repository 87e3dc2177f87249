//! `taillight doctor`: what this machine allows, why not, and what to do. Looks at the machine, the path that is going
//! to be measured, and what tracing needs; changes no setting.

mod path;
mod system;
mod tracing;

use serde::Serialize;
use taillight_core::Result;
use taillight_core::exit::Exit;
use taillight_machine::Sys;
use taillight_report::table::{self, wrap};

use crate::args::DoctorArgs;
use crate::output;
use crate::run::driver_of;

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckState {
    Ok,
    /// Works, and may influence results; or could not be found out.
    Warn,
    No,
}

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    pub state: CheckState,
    pub found: String,
    /// What to do; None where nothing is to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fix: Option<String>,
}

impl Check {
    fn new(state: CheckState, name: &str, found: impl Into<String>, fix: Option<&str>) -> Check {
        Check { name: name.to_owned(), state, found: found.into(), fix: fix.map(str::to_owned) }
    }
    /// Nothing to object to.
    pub fn ok(name: &str, found: impl Into<String>) -> Check {
        Check::new(CheckState::Ok, name, found, None)
    }
    /// Works, but look at it.
    pub fn warn(name: &str, found: impl Into<String>, fix: &str) -> Check {
        Check::new(CheckState::Warn, name, found, Some(fix))
    }
    /// Does not work here.
    pub fn no(name: &str, found: impl Into<String>, fix: &str) -> Check {
        Check::new(CheckState::No, name, found, Some(fix))
    }
}

/// Runs the command; the exit code is 0 whatever the checks say. Errors: `Usage` for the address of no server;
/// `Unavailable` when standard output cannot be written.
pub fn main(args: &DoctorArgs) -> Result<Exit> {
    let sys = Sys::default();
    let path = args.path.as_deref().unwrap_or(std::path::Path::new("."));
    let server = path.to_str().map(driver_of).transpose()?.filter(|driver| *driver != "file");
    let mut checks = Vec::new();
    if !args.trace {
        checks.extend(system::checks(&sys));
    }
    match server {
        Some(driver) => checks.push(path::server(path, driver)),
        None if args.trace => checks.extend(path::missing(path)),
        None => checks.extend(path::checks(&sys, path)),
    }
    checks.extend(tracing::checks(&sys));
    if args.trace || output::mode().verbose {
        checks.extend(tracing::detailed(&sys, path));
    }
    if args.json {
        output::json(&checks)?;
    } else {
        output::text(&table(&checks))?;
    }
    Ok(Exit::Ok)
}

fn table(checks: &[Check]) -> String {
    let word = |state| match state {
        CheckState::Ok => "ok",
        CheckState::Warn => "warn",
        CheckState::No => "no",
    };
    let width = checks.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        if output::mode().quiet && check.state == CheckState::Ok {
            continue;
        }
        let (state, name) = (word(check.state), &check.name);
        let room = table::width().saturating_sub(8 + width).max(24);
        for (i, line) in wrap(&check.found, room).iter().enumerate() {
            let (state, name) = if i == 0 { (state, name.as_str()) } else { ("", "") };
            text.push_str(&format!("{state:<4}  {name:<width$}  {line}\n"));
        }
        for (i, line) in wrap(check.fix.as_deref().unwrap_or_default(), room - 3).iter().enumerate()
        {
            if !line.is_empty() {
                let arrow = if i == 0 { "->" } else { "  " };
                text.push_str(&format!("      {:width$}  {arrow} {line}\n", ""));
            }
        }
    }
    let count = |state| checks.iter().filter(|c| c.state == state).count();
    text.push_str(&format!(
        "\n{} ok, {} to look at, {} not possible\n",
        count(CheckState::Ok),
        count(CheckState::Warn),
        count(CheckState::No)
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixes_stand_below_what_was_found() {
        let text = table(&[Check::ok("a", "fine"), Check::no("bcd", "missing", "get one")]);
        assert_eq!(
            text,
            "ok    a    fine\nno    bcd  missing\n           -> get one\n\n\
             1 ok, 0 to look at, 1 not possible\n"
        );
    }

    #[test]
    fn each_check_says_what_was_found_and_one_that_is_not_ok_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let sys = Sys::at(dir.path());
        let mut checks = system::checks(&sys);
        checks.extend(path::checks(&sys, dir.path()));
        checks.extend(tracing::checks(&sys));
        for check in &checks {
            assert!(!check.found.is_empty(), "{check:?}");
            assert_eq!(check.fix.is_none(), check.state == CheckState::Ok, "{check:?}");
        }
        assert!(checks.len() >= 12, "{checks:?}");
    }
}
