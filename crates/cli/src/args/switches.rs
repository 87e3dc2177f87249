//! Values that clap takes behind `=` alone are joined to their flag by it before the command line is parsed. They are
//! those of flags that can do without one (`--trace`, `--direct false`, `--live 127.0.0.1:9713`), where clap would else
//! take any word after the flag, the job file too; and numbers below 0 (`--warmup -1s`), which it would take for flags
//! of their own, so that what parses the value says what is wrong. The definitions say which flags have values.

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::Path;

use clap::{Arg, Command};

/// The words, with such values joined to their flags.
pub fn joined(words: Vec<OsString>, cli: &Command) -> Vec<OsString> {
    let name = words.iter().skip(1).find_map(|w| cli.find_subcommand(w));
    let Some(command) = name else { return words };
    let mut out: Vec<OsString> = Vec::with_capacity(words.len());
    let mut words = words.into_iter().peekable();
    while let Some(mut word) = words.next() {
        if word == "--" {
            out.push(word);
            out.extend(words);
            break;
        }
        let value = valued(command, &word).and_then(|flag| {
            let joins = |v: &str| is_below_zero(v) || is_optional(flag) && fits(command, flag, v);
            words.next_if(|next| next.to_str().is_some_and(joins))
        });
        if let Some(value) = value {
            word.push("=");
            word.push(value);
        }
        out.push(word);
    }
    out
}

/// The flag with a value that this word is.
fn valued<'a>(command: &'a Command, word: &OsString) -> Option<&'a Arg> {
    let long = word.to_str()?.strip_prefix("--")?;
    let mut all = command.get_arguments().filter(|arg| takes_value(arg));
    all.find(|arg| arg.get_long() == Some(long))
}

fn takes_value(arg: &Arg) -> bool {
    arg.get_num_args().is_some_and(|n| n.max_values() > 0)
}

fn is_optional(flag: &Arg) -> bool {
    flag.get_num_args().is_some_and(|n| n.min_values() == 0)
}

/// Whether a word is a number below 0, perhaps with a unit. No flag begins with a digit.
fn is_below_zero(word: &str) -> bool {
    let number = word.strip_prefix('-').map(|rest| rest.strip_prefix('.').unwrap_or(rest));
    number.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether a word after the flag is its value: one that the flag knows, else one that can be nothing else,
/// which clap then refuses by the flag's name.
fn fits(command: &Command, flag: &Arg, word: &str) -> bool {
    let known = flag.get_possible_values();
    let file = word.contains(['.', '/']) || Path::new(word).exists();
    let other = file || word.starts_with('-');
    if known.is_empty() {
        let port = word.rsplit(':').next().unwrap_or_default();
        let address = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        // Behind `run` there are files; behind `suite` a name may follow.
        let bare = ["run", "search"].contains(&command.get_name()) && !other;
        return address || bare || word.parse::<IpAddr>().is_ok();
    }
    // A name may follow: of forms of JSON only a known one is its value.
    let form = flag.get_long() == Some("json");
    known.iter().any(|v| v.matches(word, false)) || !(other || form)
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use clap::{CommandFactory, Parser};

    use super::*;
    use crate::args::Cli;

    fn of(line: &str) -> String {
        let words = line.split(' ').map(OsString::from).collect();
        let mut cli = Cli::command();
        cli.build();
        let words = joined(words, &cli);
        words.iter().map(|w| w.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    /// `suite --json ycsb` was read as a form of JSON.
    #[test]
    fn a_name_behind_json_is_a_name() {
        assert_eq!(of("taillight suite --json ycsb"), "taillight suite --json ycsb");
        assert_eq!(of("taillight suite --json short ycsb"), "taillight suite --json=short ycsb");
    }

    #[test]
    fn values_apart_from_their_flag_are_joined() {
        for (line, same) in [
            (
                "taillight run --trace outliers --path d/",
                "taillight run --trace=outliers --path d/",
            ),
            ("taillight run --trace job.toml", "taillight run --trace job.toml"),
            ("taillight run job.toml --trace", "taillight run job.toml --trace"),
            ("taillight run --direct false j.toml", "taillight run --direct=false j.toml"),
            ("taillight run --direct j.toml", "taillight run --direct j.toml"),
            ("taillight run --direct --keep no", "taillight run --direct --keep=no"),
            ("taillight run --trace - --keep", "taillight run --trace - --keep"),
            (
                "taillight -q run --live 0.0.0.0:9 j.toml",
                "taillight -q run --live=0.0.0.0:9 j.toml",
            ),
            ("taillight run --live [::1]:9713", "taillight run --live=[::1]:9713"),
            ("taillight run --live 127.0.0.1:99999", "taillight run --live=127.0.0.1:99999"),
            ("taillight run --live nonsense", "taillight run --live=nonsense"),
            ("taillight run --live 127.0.0.1 j.toml", "taillight run --live=127.0.0.1 j.toml"),
            ("taillight run --live j.toml", "taillight run --live j.toml"),
            ("taillight run --live --tui", "taillight run --live --tui"),
            ("taillight suite --live ycsb", "taillight suite --live ycsb"),
            ("taillight suite --live host:x:1 ycsb", "taillight suite --live=host:x:1 ycsb"),
            ("taillight run --trace slow", "taillight run --trace=slow"),
            ("taillight run -- --trace all", "taillight run -- --trace all"),
            (
                "taillight compare --json 20260101 20260102",
                "taillight compare --json 20260101 20260102",
            ),
            ("taillight run --print-plan nightly", "taillight run --print-plan nightly"),
            ("taillight doctor --trace --path d", "taillight doctor --trace --path d"),
        ] {
            assert_eq!(of(line), same);
        }
    }

    /// Of all flags with a value, since any of them may be one of a number, a size, a time, a rate or a share.
    #[test]
    fn a_number_below_zero_is_the_value_of_its_flag() {
        let mut cli = Cli::command();
        cli.build();
        let mut seen = 0;
        for command in cli.get_subcommands() {
            for flag in command.get_arguments().filter(|flag| takes_value(flag)) {
                let Some(long) = flag.get_long() else { continue };
                for value in ["-1", "-1.5s", "-.5%", "-4KiB", "-1..2"] {
                    let line = of(&format!("taillight {} --{long} {value}", command.get_name()));
                    assert!(line.ends_with(&format!("--{long}={value}")), "{line}");
                    let parsed = Cli::try_parse_from(line.split(' '));
                    let unknown = |e: &clap::Error| e.kind() == ErrorKind::UnknownArgument;
                    assert!(!parsed.as_ref().is_err_and(unknown), "{line}: {parsed:?}");
                }
                seen += 1;
            }
        }
        assert!(seen > 100, "{seen}");
        assert_eq!(of("taillight run --tui -1"), "taillight run --tui -1");
        assert_eq!(of("taillight run --warmup -q"), "taillight run --warmup -q");
    }

    #[test]
    fn what_people_write_is_understood() {
        let parsed = |line: &str| Cli::try_parse_from(of(line).split(' ')).is_ok();
        for line in [
            "taillight run --direct no --keep yes --trace all j.toml",
            "taillight run --direct=0 --keep=false --trace=off",
            "taillight run j.toml --keep --direct --trace",
        ] {
            assert!(parsed(line), "{line}");
        }
        assert!(!parsed("taillight run --trace slow"));
        assert!(!parsed("taillight run --direct maybe"));
    }
}
