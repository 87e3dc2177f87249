//! Where renderings go ([`OutputPlace`]), and whether what is there may be replaced ([`check_output`]). `cli` checks
//! the places that a person names, before anything is written; reports that end a run or a series go into directories
//! made for them and are not checked.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use taillight_core::{Error, Result};
use taillight_rundir::{atomic, names};

use crate::render::TEXTS;

/// How a page of ours is known: as it begins now, and what pages of former versions hold.
const PAGE: &str = r#"<meta name="generator" content="Taillight">"#;
const FORMER_PAGE: &str = r#"<span class="brand">Taillight storage benchmark</span>"#;

/// What the JSON files say.
const JSON: &str = "\"taillight\": \"";

/// A page has either mark after its styles at the latest.
const HEAD_BYTES: u64 = 256 << 10;

/// Directories with one of these hold a run, or runs that belong together.
const OWNED: [&str; 6] =
    [names::MANIFEST, names::SERIES, names::SEARCH, names::REPEAT, names::SLC_PAPER, "ycsb.txt"];

/// Where renderings go.
pub struct OutputPlace {
    pub dir: PathBuf,
    /// Name of the page, when it is the only thing asked for.
    pub page: Option<String>,
}

impl OutputPlace {
    /// The place asked for, or the default for these runs.
    pub fn of(runs: &[&Path], output: Option<&Path>) -> OutputPlace {
        let here = |path: &Path| match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        match (output, runs) {
            (Some(path), _) if path.extension().is_some_and(|e| e == "html") => OutputPlace {
                dir: here(path),
                page: path.file_name().map(|n| n.to_string_lossy().into_owned()),
            },
            (Some(path), _) => OutputPlace { dir: path.to_owned(), page: None },
            (None, [one]) => OutputPlace { dir: (*one).to_owned(), page: None },
            (None, _) => OutputPlace { dir: PathBuf::from("taillight-report"), page: None },
        }
    }

    /// Names of a report's files that are taken by a user's: regular, not empty, and not begun as Taillight's.
    pub fn foreign(&self) -> Vec<&'static str> {
        let page = (names::REPORT, is_page(&self.dir.join(names::REPORT)));
        let text = TEXTS.iter().map(|t| (t.file, begins(&self.dir.join(t.file), t.head)));
        let foreign = std::iter::once(page).chain(text).filter(|(_, ours)| !ours);
        let there = |name: &&str| {
            let found = fs::symlink_metadata(self.dir.join(name));
            found.is_ok_and(|found| found.is_file() && found.len() > 0)
        };
        foreign.map(|(name, _)| name).filter(there).collect()
    }

    /// Whether it is the directory of the only run, whose own files are then made again.
    pub fn is_home_of(&self, runs: &[&Path]) -> bool {
        matches!(runs, [one] if same(one, &self.dir))
            && self.page.as_deref().is_none_or(|page| page == names::REPORT)
    }
}

/// Whether a report over these runs goes where their own is: the directory of the only run.
pub fn at_home(runs: &[PathBuf], output: Option<&Path>) -> bool {
    let paths: Vec<&Path> = runs.iter().map(PathBuf::as_path).collect();
    OutputPlace::of(&paths, output).is_home_of(&paths)
}

/// Whether a report over these runs may be written to `output` (None = the default of
/// [`crate::ReportOptions::output`]): it is new or empty, the directory of the only run, or a report of
/// Taillight. Reads only. Errors: `Usage` when something else is there.
pub fn check_output(runs: &[PathBuf], output: Option<&Path>) -> Result<()> {
    let paths: Vec<&Path> = runs.iter().map(PathBuf::as_path).collect();
    let place = OutputPlace::of(&paths, output);
    if place.is_home_of(&paths) {
        return Ok(());
    }
    match &place.page {
        Some(name) => page(&place.dir, name),
        None => directory(&place.dir),
    }
}

/// The page alone: a new file, or a page of ours that is no run's own.
fn page(dir: &Path, name: &str) -> Result<()> {
    let path = dir.join(name);
    if name == names::REPORT && owned(dir).is_some() {
        return Err(of_a_run(&path));
    }
    atomic::may_write(&path, says_page)
}

/// The whole report: a new or empty directory, or one that holds a report of ours.
fn directory(dir: &Path) -> Result<()> {
    if is_new(dir) {
        return Ok(());
    }
    if !dir.is_dir() {
        return Err(Error::usage("the output file exists already")
            .with("path", dir.display())
            .hint("name a directory, or an .html file for the page alone"));
    }
    if fs::read_dir(dir).is_ok_and(|mut d| d.next().is_none()) {
        return Ok(());
    }
    if owned(dir).is_some() {
        return Err(of_a_run(dir));
    }
    let page = dir.join(names::REPORT);
    let foreign = TEXTS.iter().map(|t| (dir.join(t.file), t.head));
    let foreign = foreign.filter(|(path, head)| !is_new(path) && !begins(path, head));
    let mut foreign = foreign.map(|(path, _)| path).chain(foreign_beside(dir));
    let foreign = match is_page(&page) {
        true => foreign.next(),
        false => Some(dir.to_owned()),
    };
    match foreign {
        None => Ok(()),
        Some(path) if path == dir => Err(Error::usage("the output directory is not empty")
            .with("path", path.display())
            .hint("name a new or empty directory with --output")),
        Some(path) => Err(Error::usage("the output file exists already")
            .with("path", path.display())
            .hint("it is no report of Taillight: remove it, or name another directory")),
    }
}

/// Files beside a page that a comparison or a history would replace, and that neither wrote. A Markdown file
/// is known as theirs by the JSON that was written with it.
fn foreign_beside(dir: &Path) -> impl Iterator<Item = PathBuf> {
    let pairs =
        [(names::COMPARE, names::COMPARE_MARKDOWN), (names::CHANGES, names::CHANGES_MARKDOWN)];
    pairs.into_iter().filter_map(move |(json, text)| {
        let (json, text) = (dir.join(json), dir.join(text));
        let ours = head(&json).is_some_and(|h| atomic::says(&h, JSON));
        match (is_new(&json), is_new(&text)) {
            (false, _) if !ours => Some(json),
            (true, false) => Some(text),
            (false, false) if head(&text).is_none() => Some(text),
            _ => None,
        }
    })
}

fn of_a_run(path: &Path) -> Error {
    Error::usage("the output directory is not empty")
        .with("path", path.display())
        .hint("it holds another run or a series with its own report; name a new or empty directory with --output")
}

/// What marks the directory of a run or a series.
fn owned(dir: &Path) -> Option<&'static str> {
    OWNED.into_iter().find(|name| !is_new(&dir.join(name)))
}

fn same(a: &Path, b: &Path) -> bool {
    match (fs::canonicalize(a), fs::canonicalize(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Nothing has this name, not even a link that leads nowhere.
fn is_new(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound)
}

fn is_page(path: &Path) -> bool {
    head(path).is_some_and(|h| says_page(&h))
}

fn says_page(head: &[u8]) -> bool {
    atomic::says(head, PAGE) || atomic::says(head, FORMER_PAGE)
}

fn begins(path: &Path, with: &str) -> bool {
    head(path).is_some_and(|h| h.starts_with(with.as_bytes()))
}

/// The first bytes of a regular file; a pipe of that name is not waited for, a link not followed.
fn head(path: &Path) -> Option<Vec<u8>> {
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    let file = File::open(path).ok()?;
    file.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_known_by_what_it_says() {
        let template = include_str!("../render/html/report.html");
        assert!(template.contains(PAGE));
        assert!(template.contains(FORMER_PAGE));
    }
}
