//! A test that command lines in pages, hints and comments can be followed: their commands and flags exist.

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory as _;

use super::{Cli, habits};

/// Places in the repository that are looked at.
const PLACES: [&str; 7] = ["README.md", "CONTRIBUTING.md", "docs", "crates", "mpi", "sdk", "jobs"];
const KINDS: [&str; 6] = ["rs", "md", "toml", "h", "py", "c"];
/// What a command line ends at.
const ENDS: [&str; 10] = ["`", "\"", "\n", "\\n", " | ", " && ", ";", ")", " #", "taillight"];

fn files(at: &Path, out: &mut Vec<PathBuf>) {
    if at.is_dir() {
        let inside = fs::read_dir(at).expect("a directory").flatten();
        let inside = inside.filter(|entry| entry.file_name() != "tests");
        inside.for_each(|entry| files(&entry.path(), out));
    } else if at.extension().is_some_and(|e| KINDS.iter().any(|kind| e == *kind)) {
        out.push(at.to_owned());
    }
}

#[test]
fn every_command_line_that_is_named_can_be_typed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    PLACES.iter().for_each(|place| files(&root.join(place), &mut all));
    let mut cli = Cli::command();
    cli.build();
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in all {
        // A line may go on behind a backslash.
        let bytes = fs::read(&file).expect("a file");
        let text = String::from_utf8_lossy(&bytes).replace("\\\n", " ");
        for (at, program) in text.match_indices("taillight") {
            let before = text[..at].chars().next_back();
            let rest = &text[at + program.len()..];
            let rest = rest.strip_prefix("-mpi").unwrap_or(rest).strip_prefix(' ');
            let part = before.is_some_and(|c| c.is_alphanumeric() || "_-./".contains(c));
            let Some(rest) = rest.filter(|_| !part) else { continue };
            let end = ENDS.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
            let line = &rest[..end];
            let mut words = line.split_whitespace().skip_while(|w| ["-q", "-v"].contains(w));
            let name = words.next().unwrap_or_default();
            let Some(command) = cli.find_subcommand(name) else {
                // Else it is a sentence about the program.
                let quoted = before == Some('`') && name.bytes().all(|b| b.is_ascii_lowercase());
                wrong.extend(quoted.then(|| format!("{}: {line}", file.display())));
                continue;
            };
            seen += 1;
            for word in words.take_while(|word| *word != "--") {
                let word = word.trim_start_matches(['[', '(']);
                let Some(flag) = word.strip_prefix("--") else { continue };
                let (habit, value) = word.split_once('=').unwrap_or((word, ""));
                if matches!(habits::habit(habit, value, name), Ok(Some(_))) {
                    continue;
                }
                let is_end = |c: char| !(c.is_ascii_alphanumeric() || "-_".contains(c));
                let flag = flag.split(is_end).next();
                let known = command.get_arguments().any(|arg| arg.get_long() == flag);
                wrong.extend((!known).then(|| format!("{}: {line}", file.display())));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 300, "{seen}");
}
