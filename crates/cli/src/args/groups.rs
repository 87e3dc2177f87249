//! The help of the program: its commands in groups, in the order people need them. What a command is about
//! comes from its definition.

use clap::{Command as Definition, Subcommand};

use super::Command;
use crate::output;

/// Headings and the names of their commands.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Measure", &["run", "search", "suite"]),
    ("Understand", &["report", "explain", "watch", "trace", "export"]),
    ("Compare", &["compare", "ab", "history"]),
    (
        "Set up",
        &[
            "doctor",
            "drivers",
            "drive",
            "selftest",
            "import",
            "schema",
            "completions",
            "man",
            "help",
        ],
    ),
];

/// The help of the program, with its commands in groups.
pub fn template() -> String {
    let definition = Command::augment_subcommands(Definition::new("taillight"));
    let about = |name: &str| {
        let command = definition.find_subcommand(name);
        command.and_then(Definition::get_about).map_or(String::new(), ToString::to_string)
    };
    // One width over all groups.
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (heading, names) in GROUPS {
        rows.push(vec![format!("{heading}:")]);
        rows.extend(names.iter().map(|name| vec![format!("  {name}"), about(name)]));
    }
    let mut commands = String::new();
    for line in output::columns(&rows).lines() {
        if !line.starts_with(' ') {
            commands.push('\n');
        }
        commands.push_str(&format!("{line}\n"));
    }
    format!("{{about}}\n\nUsage: {{usage}}\n{commands}\nOptions:\n{{options}}{{after-help}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_stands_in_one_group() {
        let definition = Command::augment_subcommands(Definition::new("taillight"));
        let mut known: Vec<&str> = definition.get_subcommands().map(Definition::get_name).collect();
        let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(known, grouped);
    }
}
