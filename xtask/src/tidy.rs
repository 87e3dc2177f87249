//! House rules as a check: what clippy does not know. Also runs as a test, so that plain
//! `cargo test` finds a breach. Exceptions are lists with reasons, here and nowhere else.

use std::path::Path;

use anyhow::{Context, Result};

use crate::lex;
use crate::steps::Outcome;
use crate::tool;

/// Lines of a source file above which it is named in the output.
const GUIDE_LINES: usize = 400;
/// Lines of a source file above which it fails.
const MOST_LINES: usize = 600;
/// Bytes of a file above which it fails: a repository is not an archive.
const MOST_BYTES: u64 = 1 << 20;

/// Files that may be longer than [`MOST_LINES`], each with its reason.
const LONG_FILES: &[(&str, &str)] = &[];
/// Files that may be larger than [`MOST_BYTES`], each with its reason.
const LARGE_FILES: &[(&str, &str)] = &[];
/// The only places a process may end itself.
const MAY_EXIT: &[&str] = &["crates/cli/src/main.rs", "xtask/src/main.rs"];
/// Absolute directories of someone's machine; written in two parts so as not to find themselves.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/wo", "rk/"),
];
/// Marks of unfinished work.
const UNFINISHED: &[&str] = &[
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
/// Macros that must not stay.
const MACROS: &[&str] = &["todo!", "unimplemented!", "dbg!"];

/// `cargo xtask tidy`.
pub fn main() -> Result<bool> {
    let found = check()?;
    for note in &found.notes {
        println!("note: {note}");
    }
    for breach in &found.breaches {
        println!("{breach}");
    }
    println!("{} files, {} breaches", found.files, found.breaches.len());
    Ok(found.breaches.is_empty())
}

pub fn step() -> Result<Outcome> {
    let found = check()?;
    for note in &found.notes {
        println!("note: {note}");
    }
    if found.breaches.is_empty() {
        return Outcome::note(format!("{} files", found.files));
    }
    anyhow::bail!(
        "{} breaches\n{}",
        found.breaches.len(),
        found.breaches.join("\n")
    )
}

/// What a pass over the repository found.
#[derive(Default)]
pub struct Found {
    pub files: usize,
    /// `path:line: rule`.
    pub breaches: Vec<String>,
    /// Worth knowing, not wrong.
    pub notes: Vec<String>,
}

/// Looks at every file git knows.
pub fn check() -> Result<Found> {
    let mut found = Found::default();
    let root = tool::root();
    let licence = std::fs::read_to_string(root.join("LICENSE")).unwrap_or_default();
    if !licence.contains("Apache License") {
        found
            .breaches
            .push("LICENSE: must be the Apache License".into());
    }
    for path in tool::files()? {
        found.files += 1;
        let name = path.to_string_lossy().replace('\\', "/");
        let full = root.join(&path);
        let bytes = std::fs::metadata(&full)?.len();
        if bytes > MOST_BYTES && !listed(LARGE_FILES, &name) {
            found
                .breaches
                .push(format!("{name}: {bytes} bytes, at most {MOST_BYTES}"));
        }
        let data = std::fs::read(&full).with_context(|| name.clone())?;
        let Ok(text) = String::from_utf8(data) else {
            continue;
        };
        check_text(&name, &text, &mut found.breaches);
        if Path::new(&name).extension().is_some_and(|e| e == "rs") {
            check_source(&name, &text, &mut found);
        }
    }
    Ok(found)
}

fn listed(list: &[(&str, &str)], name: &str) -> bool {
    list.iter().any(|(file, _)| *file == name)
}

/// Rules for every text file.
fn check_text(name: &str, text: &str, breaches: &mut Vec<String>) {
    for (number, line) in text.lines().enumerate() {
        for path in MACHINE_PATHS {
            let starts = line.match_indices(path).any(|(at, _)| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "._-/$}".contains(c))
            });
            if starts {
                breaches.push(format!(
                    "{name}:{}: path of one machine: {path}",
                    number + 1
                ));
            }
        }
    }
}

/// Rules for Rust sources.
fn check_source(name: &str, text: &str, found: &mut Found) {
    let code = lex::code_only(text);
    let breaches = &mut found.breaches;
    let lines = text.lines().count();
    if lines > MOST_LINES && !listed(LONG_FILES, name) {
        breaches.push(format!("{name}: {lines} lines, at most {MOST_LINES}"));
    } else if lines > GUIDE_LINES {
        found
            .notes
            .push(format!("{name}: {lines} lines, the guide is {GUIDE_LINES}"));
    }
    let first = text
        .lines()
        .find(|l| !l.trim().is_empty() && !l.starts_with("#!"));
    if !first.is_some_and(|l| l.starts_with("//!")) {
        breaches.push(format!("{name}:1: no module docs (//!) at the top"));
    }
    let file = name.rsplit('/').next().unwrap_or(name);
    for (number, (line, whole)) in code.lines().zip(text.lines()).enumerate() {
        let mut breach = |what: &str| breaches.push(format!("{name}:{}: {what}", number + 1));
        if lex::has_word(line, "unsafe") && file != "sys.rs" {
            breach("unsafe outside a file named sys.rs");
        }
        if line.contains("process::exit") && !MAY_EXIT.contains(&name) {
            breach("only main may end the process");
        }
        for mark in UNFINISHED {
            if lex::has_word(whole, mark) {
                breach(&format!("{mark} left in the source: do it or file it"));
            }
        }
        for call in MACROS {
            if line.contains(call) {
                breach(&format!("{call} left in the source"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(name: &str, text: &str) -> Vec<String> {
        let mut found = Found::default();
        check_text(name, text, &mut found.breaches);
        check_source(name, text, &mut found);
        found.breaches
    }

    #[test]
    fn the_repository_keeps_its_rules() {
        let found = check().unwrap();
        assert!(found.files > 10);
        assert!(found.breaches.is_empty(), "\n{}", found.breaches.join("\n"));
    }

    #[test]
    fn each_rule_finds_its_breach() {
        let cases = [
            ("a.rs", "fn a() {}".to_string(), "no module docs"),
            ("a.rs", "//! A.\nunsafe fn a() {}".into(), "sys.rs"),
            (
                "a.rs",
                "//! A.\nfn a() { std::process::exit(1) }".into(),
                "main",
            ),
            (
                "a.rs",
                format!("//! A.\n// {} later", UNFINISHED[0]),
                "left in",
            ),
            (
                "a.rs",
                format!("//! A.\nfn a() {{ {}() }}", MACROS[0]),
                "left in",
            ),
            (
                "a.rs",
                format!("//! A.\n// {}me/x", MACHINE_PATHS[0]),
                "one machine",
            ),
            ("a.rs", format!("//! A.\n{}", "//\n".repeat(600)), "lines"),
        ];
        for (name, text, rule) in cases {
            let found = breaches(name, &text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains(rule), "{rule}: {found:?}");
        }
    }

    #[test]
    fn allowed_places_are_allowed() {
        for (name, text) in [
            ("crates/driver/src/file/sys.rs", "//! A.\nunsafe fn a() {}"),
            (
                "crates/cli/src/main.rs",
                "//! A.\nfn a() { std::process::exit(1) }",
            ),
            ("a.rs", "//! A.\n// unsafe is a word\n#![deny(unsafe_code)]"),
        ] {
            assert_eq!(breaches(name, text), Vec::<String>::new(), "{text}");
        }
    }
}
