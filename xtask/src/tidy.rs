//! House rules as a check: what clippy does not know. Also runs as a test, so that plain
//! `cargo test` finds a breach. Exceptions are lists with reasons, here and nowhere else.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::steps::StepOutcome;
use crate::tool;

/// Lines of a source file above which it is named in the output: one concept is one file, and one of that length may
/// be two.
const GUIDE_LINES: usize = 600;
/// Bytes of a file above which it fails: a repository is not an archive.
const MOST_BYTES: u64 = 1 << 20;

/// Files that may be larger than [`MOST_BYTES`], each with its reason.
const LARGE_FILES: &[(&str, &str)] = &[];
/// What lifts the workspace's ban on `unsafe`; in two parts so as not to find themselves.
const LIFTS_UNSAFE: &[&str] =
    &[concat!("allow(unsafe", "_code"), concat!("expect(unsafe", "_code")];
/// Absolute directories of someone's machine; written in two parts so as not to find themselves.
const MACHINE_PATHS: &[&str] =
    &[concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("/wo", "rk/")];
/// Marks of unfinished work.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// The CI step: no breach of the rules.
pub fn step() -> Result<StepOutcome> {
    let found = check()?;
    for note in &found.notes {
        println!("note: {note}");
    }
    if found.breaches.is_empty() {
        return StepOutcome::note(format!("{} files", found.files));
    }
    anyhow::bail!("{} breaches\n{}", found.breaches.len(), found.breaches.join("\n"))
}

/// What a pass over the repository found.
#[derive(Default)]
pub struct TidyReport {
    pub files: usize,
    /// `path:line: rule`.
    pub breaches: Vec<String>,
    /// Worth knowing, not wrong.
    pub notes: Vec<String>,
}

/// Looks at every file that git tracks or would add.
pub fn check() -> Result<TidyReport> {
    let mut found = TidyReport::default();
    let root = tool::root();
    let licence = std::fs::read_to_string(root.join("LICENSE")).unwrap_or_default();
    if !licence.contains("Apache License") {
        found.breaches.push("LICENSE: must be the Apache License".into());
    }
    for path in tool::files()? {
        found.files += 1;
        let name = path.to_string_lossy().replace('\\', "/");
        let full = root.join(&path);
        let bytes = std::fs::metadata(&full)?.len();
        if bytes > MOST_BYTES && !listed(LARGE_FILES, &name) {
            found.breaches.push(format!("{name}: {bytes} bytes, at most {MOST_BYTES}"));
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
    found.breaches.extend(unnamed_tests(&root, &tool::files()?));
    Ok(found)
}

/// Files of integration tests that no binary has as a module: where a crate names its binaries, cargo does not look for
/// others, and such a file would never be compiled.
fn unnamed_tests(root: &Path, files: &[PathBuf]) -> Vec<String> {
    let unnamed = |path: &&PathBuf| {
        let (Some(dir), Some(name)) = (path.parent(), path.file_stem()) else { return false };
        let rust = path.extension().is_some_and(|e| e == "rs");
        let binaries = ["main.rs", "machine.rs"].map(|binary| dir.join(binary));
        if !rust || !dir.ends_with("tests") || binaries.contains(path) {
            return false;
        }
        let texts =
            binaries.map(|file| std::fs::read_to_string(root.join(file)).unwrap_or_default());
        let module = format!("mod {};", name.to_string_lossy());
        !texts[0].is_empty() && !texts.iter().any(|text| text.lines().any(|line| line == module))
    };
    files
        .iter()
        .filter(unnamed)
        .map(|path| format!("{}: in no test binary", path.display()))
        .collect()
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
                breaches.push(format!("{name}:{}: path of one machine: {path}", number + 1));
            }
        }
    }
}

/// Rules for Rust sources that the compiler and clippy do not have.
fn check_source(name: &str, text: &str, found: &mut TidyReport) {
    let breaches = &mut found.breaches;
    let lines = text.lines().count();
    if lines > GUIDE_LINES {
        found.notes.push(format!("{name}: {lines} lines, the guide is {GUIDE_LINES}"));
    }
    let first = text.lines().find(|l| !l.trim().is_empty() && !l.starts_with("#!"));
    if !first.is_some_and(|l| l.starts_with("//!")) {
        breaches.push(format!("{name}:1: no module docs (//!) at the top"));
    }
    let sys = name.rsplit('/').next() == Some("sys.rs");
    for (number, line) in text.lines().enumerate() {
        let mut breach = |what: &str| breaches.push(format!("{name}:{}: {what}", number + 1));
        if !sys && LIFTS_UNSAFE.iter().any(|lift| line.contains(lift)) {
            breach("unsafe outside a file named sys.rs");
        }
        for mark in UNFINISHED {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            if words.any(|word| word == *mark) {
                breach(&format!("{mark} left in the source: do it or file it"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn breaches(name: &str, text: &str) -> Vec<String> {
        let mut found = TidyReport::default();
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
            ("a.rs", format!("//! A.\n#![{})]", LIFTS_UNSAFE[0]), "sys.rs"),
            ("a.rs", format!("//! A.\n// {} later", UNFINISHED[0]), "left in"),
            ("a.rs", format!("//! A.\n// {}me/x", MACHINE_PATHS[0]), "one machine"),
        ];
        for (name, text, rule) in cases {
            let found = breaches(name, &text);
            assert_eq!(found.len(), 1, "{text}: {found:?}");
            assert!(found[0].contains(rule), "{rule}: {found:?}");
        }
    }

    #[test]
    fn what_is_allowed_is_no_breach() {
        let lifted = format!("//! A.\n#![{})]", LIFTS_UNSAFE[0]);
        for (name, text) in [
            ("crates/driver/src/file/sys.rs", lifted.as_str()),
            (
                "a.rs",
                "//! A.\n// Names are those of their modules.\nstruct B;\nmod c { struct B; }",
            ),
        ] {
            assert_eq!(breaches(name, text), Vec::<String>::new(), "{text}");
        }
    }
}
