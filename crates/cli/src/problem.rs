//! An error as text on standard error, and as an exit code; also what clap has to say of a command line: its errors,
//! with hints for flags of other tools, and help.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use taillight_core::Error;
use taillight_core::exit::Exit;
use taillight_core::units::readable::{MOST_FOREIGN, bounded, foreign, in_line};

use crate::output;

/// Characters of a hint, at most: it may list names, or hold a command with a path.
const MOST_HINT: usize = 5000;

/// Prints what clap has to say: help goes to standard output and is no error, the rest is a bad command line.
pub fn command_line(e: &mut clap::Error) -> Exit {
    // clap's advice on an unknown flag is to pass it as the name of a job.
    e.remove(ContextKind::Suggested);
    // The text repeats words of the command line, which must not move the cursor or fill the screen.
    let plain = |word: OsString| foreign(word.to_string_lossy()) == word.to_string_lossy();
    match e.use_stderr() && !std::env::args_os().all(plain) {
        true => {
            let text = e.render().to_string();
            let lines = text.trim_end().lines().map(|line| bounded(line, MOST_FOREIGN));
            output::problem(&lines.collect::<Vec<_>>().join("\n"));
        }
        // Nothing to do when nobody reads it.
        false if output::mode().silent => {}
        false => drop(e.print()),
    }
    if let Some(hint) = instead(e) {
        output::problem(&format!("hint: {hint}"));
    }
    if e.use_stderr() { Exit::Usage } else { Exit::Ok }
}

/// Flags that other tools have, or that people try, and what does the same here.
const INSTEAD: &[(&str, &str)] = &[
    ("--numjobs", "--workers N"),
    ("--iodepth", "--depth N"),
    ("--filename", "--path PATH"),
    ("--rate_iops", "--rate 1000/s"),
    ("--ioengine", "--set target.options.engine=uring (`taillight drivers file`)"),
    ("--engine", "--set target.options.engine=uring (`taillight drivers file`)"),
    ("--repeat", "--set run.repeat=N"),
    ("--records", "--set workload.0.keys.count=N"),
    ("--mix", "--set workload.0.mix=update (or another operation)"),
    ("-p", "--path PATH"),
    ("-s", "--size SIZE"),
    ("-t", "--runtime TIME"),
    ("-o", "--output DIR"),
    ("--option", "--set target.options.NAME=VALUE"),
];

/// What to write instead of an unknown flag of `run` or `search`, of a wrong value of `--output`, or of a number
/// below 0.
fn instead(e: &clap::Error) -> Option<String> {
    if let (ErrorKind::ValueValidation, Some(ContextValue::String(value))) =
        (e.kind(), e.get(ContextKind::InvalidValue))
    {
        return value.starts_with('-').then(|| "nothing here is below 0".to_owned());
    }
    if let (ErrorKind::InvalidValue, Some(ContextValue::String(flag))) =
        (e.kind(), e.get(ContextKind::InvalidArg))
    {
        let output = flag.starts_with("--output");
        return output.then(|| "name a new or empty directory, or leave it out".to_owned());
    }
    if e.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let Some(ContextValue::String(given)) = e.get(ContextKind::InvalidArg) else {
        return None;
    };
    let flag = given.split('=').next().unwrap_or_default();
    // Other commands have other flags, and their usage line names them.
    let run = std::env::args_os().nth(1).is_some_and(|c| c == "run" || c == "search");
    if flag == "--size" && std::env::args_os().nth(1).is_some_and(|c| c == "suite") {
        return Some("write --set target.size=SIZE".to_owned());
    }
    let known = INSTEAD.iter().find(|(name, _)| *name == flag && run);
    match known {
        Some((_, other)) => Some(format!("write {other}")),
        None if run && e.get(ContextKind::SuggestedArg).is_none() => Some(
            "every field of a job can be set: --set table.field=value (docs/job-file.md)"
                .to_owned(),
        ),
        None => None,
    }
}

/// Prints an error and gives its exit code.
pub fn show(e: &Error) -> Exit {
    output::problem(&text(e));
    e.exit()
}

/// "error: ..." and, where known, "hint: ...".
fn text(e: &Error) -> String {
    let mut text = format!("error: {e}");
    if let Some(hint) = e.hint_text() {
        text.push_str("\nhint: ");
        text.push_str(&bounded(&in_line(hint), MOST_HINT));
    }
    if e.exit() == Exit::Internal {
        text.push_str("\nThis is a bug in Taillight; please report it with the command you ran.");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_have_a_line_of_their_own() {
        let e = Error::usage("size is missing").with("at", "--size").hint("give one");
        assert_eq!(text(&e), "error: size is missing (at: --size)\nhint: give one");
        assert!(text(&Error::internal("x")).contains("bug"));
    }
}
