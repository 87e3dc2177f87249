//! `taillight completions`, `taillight man` and `taillight help`: completions for a shell, manual pages and help, from
//! the definitions that parse the command line. Packages install what the first two make.

use std::io::Write as _;

use clap::builder::PossibleValuesParser;
use clap::{Command, CommandFactory, ValueHint};
use clap_complete::Shell;
use clap_mangen::Man;
use taillight_core::exit::Exit;
use taillight_core::{Error, Result, atomic};
use taillight_driver::DRIVERS;
use taillight_suite::suites;

use crate::args::{Cli, CompletionsArgs, HelpArgs, ManArgs};
use crate::output;

/// The end of every page.
const ENDING: &str = include_str!("ending.man");

/// `taillight completions SHELL`. Errors: `Unavailable` when standard output cannot be written.
pub fn completions(args: &CompletionsArgs) -> Result<Exit> {
    let mut cli = with_values(Cli::command());
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "taillight", &mut script);
    let mut script = String::from_utf8_lossy(&script).into_owned();
    if args.shell == Shell::Fish {
        script.push_str(&fish_values(&cli));
    }
    output::text(&script)?;
    Ok(Exit::Ok)
}

/// `taillight help [COMMAND]`. Errors: `Usage` for a command that is none; `Unavailable` when standard output
/// cannot be written.
pub fn help(args: &HelpArgs) -> Result<Exit> {
    let mut cli = Cli::command();
    cli.build();
    let Some(name) = &args.command else {
        output::text(&cli.render_help().to_string())?;
        return Ok(Exit::Ok);
    };
    let known: Vec<String> = cli.get_subcommands().map(|c| c.get_name().to_owned()).collect();
    let command = cli.find_subcommand_mut(name).ok_or_else(|| {
        Error::usage("there is no such command")
            .with("command", name)
            .hint(format!("there are {}", known.join(", ")))
    })?;
    output::text(&command.render_help().to_string())?;
    Ok(Exit::Ok)
}

/// Completions for fish of values without a flag, by command, which the generator leaves out.
fn fish_values(cli: &Command) -> String {
    let mut lines = String::new();
    for command in cli.get_subcommands() {
        let known = command.get_positionals().flat_map(clap::Arg::get_possible_values);
        let known: Vec<String> = known.map(|value| value.get_name().to_owned()).collect();
        if !known.is_empty() {
            let asked = format!("__fish_taillight_using_subcommand {}", command.get_name());
            let values = known.join(" ");
            lines.push_str(&format!("complete -c taillight -n \"{asked}\" -a \"{values}\"\n"));
        }
    }
    lines
}

/// The commands with values for completion that their definition does not have: drivers, suites, paths.
fn with_values(cli: Command) -> Command {
    let drivers = || PossibleValuesParser::new(DRIVERS.iter().map(|d| d.name()));
    let known = suites::names().collect::<Vec<_>>();
    let suites = PossibleValuesParser::new(known);
    let paths = |command: Command, names: &[&'static str]| {
        names.iter().fold(command, |c, name| c.mut_arg(name, |a| a.value_hint(ValueHint::AnyPath)))
    };
    cli.mut_subcommand("run", |c| {
        paths(c.mut_arg("driver", |a| a.value_parser(drivers())), &["path", "output", "destroy"])
    })
    .mut_subcommand("search", |c| {
        paths(c.mut_arg("driver", |a| a.value_parser(drivers())), &["path", "output", "destroy"])
    })
    .mut_subcommand("suite", |c| {
        let c = c.mut_arg("driver", |a| a.value_parser(drivers()));
        paths(c.mut_arg("name", |a| a.value_parser(suites)), &["path", "destroy"])
    })
    .mut_subcommand("drivers", |c| c.mut_arg("name", |a| a.value_parser(drivers())))
}

/// `taillight man [DIR]`: every page into a directory, or the page of the program itself to standard output. Errors:
/// `Usage` for a file there that is no page of ours; `Unavailable` when a page cannot be written.
pub fn man(args: &ManArgs) -> Result<Exit> {
    let pages = pages();
    let Some(dir) = &args.dir else {
        output::text(pages.first().map_or("", |(_, page)| page))?;
        return Ok(Exit::Ok);
    };
    std::fs::create_dir_all(dir).map_err(|e| {
        Error::unavailable("cannot write the manual").with("path", dir.display()).source(e)
    })?;
    let file = |name: &str| format!("{name}.1");
    // Pages of the same name that are not ours are seen before the first is written.
    for (name, _) in &pages {
        atomic::may_write(&dir.join(file(name)), |head| atomic::says(head, OURS))?;
    }
    pages.iter().try_for_each(|(name, page)| atomic::write(dir, file(name), page.as_bytes()))?;
    Ok(Exit::Ok)
}

/// What every page of ours has at its beginning.
const OURS: &str = ".TH TAILLIGHT";

/// The page of the program and one of each of its commands, by name.
fn pages() -> Vec<(String, String)> {
    let mut cli = Cli::command();
    // Flags of all commands reach the commands.
    cli.build();
    let of_commands = cli.get_subcommands().map(|command| {
        let name = format!("taillight-{}", command.get_name());
        let usage = format!("taillight {}", command.get_name());
        page(&name, command.clone().display_name(&name).bin_name(usage))
    });
    std::iter::once(page("taillight", cli.clone())).chain(of_commands).collect()
}

fn page(name: &str, command: Command) -> (String, String) {
    let examples = command.get_after_help().map(ToString::to_string);
    let top = command.get_subcommands().next().is_some();
    // The lines of the examples are kept as they are, which the generator's own section does not do.
    let command = command.after_help("").disable_help_subcommand(true);
    let manual = Man::new(command);
    let title = name.to_uppercase();
    let (date, version) = (env!("TAILLIGHT_DATE"), env!("CARGO_PKG_VERSION"));
    let title = format!(".TH {title} 1 \"{date}\" \"taillight {version}\"\n");
    let mut page = title.into_bytes();
    // Writing to memory cannot fail.
    let _ = manual.render_name_section(&mut page);
    let _ = manual.render_synopsis_section(&mut page);
    let _ = manual.render_description_section(&mut page);
    let _ = manual.render_options_section(&mut page);
    if top {
        let _ = manual.render_subcommands_section(&mut page);
    }
    if let Some(text) = examples {
        let _ = write!(page, ".SH EXAMPLES\n{}", kept(&text));
    }
    let _ = page.write_all(ENDING.as_bytes());
    // The generator's way to an empty line, which `mandoc -T lint` does not like.
    let text = String::from_utf8_lossy(&page).replace(".br\n\n.br\n", ".sp\n");
    (name.to_owned(), text)
}

/// Lines as they stand, without their indent and without "Examples:" at the top.
fn kept(text: &str) -> String {
    let mut page = String::from(".nf\n");
    for line in text.lines().skip_while(|line| *line == "Examples:") {
        let line = line.strip_prefix("  ").unwrap_or(line);
        // A dot or a quote at the beginning would be a request.
        let safe = line.replace('\\', "\\e").replace('-', "\\-");
        let guard = if safe.starts_with(['.', '\'']) { "\\&" } else { "" };
        page.push_str(&format!("{guard}{safe}\n"));
    }
    page + ".fi\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_has_a_page_with_the_common_end() {
        let pages = pages();
        assert_eq!(pages.len(), 1 + Cli::command().get_subcommands().count());
        for (name, text) in pages {
            for section in [".SH NAME", ".SH SYNOPSIS", ".SH EXAMPLES", ".SH \"EXIT STATUS\""] {
                assert!(text.contains(section), "{name}: {section}\n{text}");
            }
        }
    }

    #[test]
    fn fish_knows_values_without_a_flag() {
        let lines = fish_values(&with_values(Cli::command()));
        for (command, value) in [("suite", "dirth"), ("drivers", "rocksdb"), ("completions", "zsh")]
        {
            let line = lines.lines().find(|l| l.contains(&format!("subcommand {command}\"")));
            assert!(line.is_some_and(|line| line.contains(value)), "{command}\n{lines}");
        }
    }

    #[test]
    fn lines_that_look_like_requests_are_text() {
        assert_eq!(kept("Examples:\n  a -b \\\n.x"), ".nf\na \\-b \\e\n\\&.x\n.fi\n");
    }
}
