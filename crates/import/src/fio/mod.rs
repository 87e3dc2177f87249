//! fio job files: into Taillight job files ([`import`]) and from plans ([`export`]).
//!
//! The way in: `lex` (sections, line numbers; `variables` replaced) -> `options` (the one list of what is mapped,
//! harmless or refused) -> `read` and `value` (typed values with their places) -> `section` with
//! `target`, `pattern`, `demand` (what a section means) -> `layout` (one target for sections side
//! by side) -> `job` (a job file). Facts about fio's behaviour were measured with fio 3.33.

mod demand;
mod export;
mod export_target;
mod job;
mod layout;
mod lex;
pub mod options;
mod pattern;
mod read;
mod section;
mod target;
mod value;
mod variables;

use std::collections::BTreeSet;

use taillight_core::{Error, Result};

use crate::ImportedJob;
pub use export::export;
use read::SectionReader;
use section::JobSection;
use variables::Variables;

/// Reads a job file: one job for each group of sections that run side by side. Errors: `Usage` with
/// file and line: all unknown options and options without equivalent, and of wrong values the first of each section.
pub fn import(text: &str, file: &str) -> Result<Vec<ImportedJob>> {
    let mut groups: Vec<Vec<JobSection>> = Vec::new();
    let variables = Variables { environment: &|name| std::env::var(name).ok() };
    let (mut wrong, mut read) = (Vec::new(), Vec::new());
    for section in lex::sections(text, file, &variables, &mut wrong)? {
        wrong.extend(SectionReader::refused(file, &section));
        match section::section(file, &section) {
            Ok(section) => read.push(section),
            Err(e) => wrong.push(e),
        }
    }
    all_of(wrong)?;
    for section in read {
        match groups.last_mut() {
            Some(group) if !section.stonewall => group.push(section),
            _ => groups.push(vec![section]),
        }
    }
    let mut taken = BTreeSet::new();
    groups.iter().map(|group| job::job(file, group, &mut taken)).collect()
}

/// All reasons why a file cannot be taken over, each once: what `[global]` says is wrong in every section. Errors:
/// `Usage`, unless there are none.
fn all_of(mut wrong: Vec<Error>) -> Result<()> {
    let place = |e: &Error| e.to_string().rsplit_once(" (at: ").map(|(_, at)| at.to_owned());
    let mut seen = BTreeSet::new();
    wrong.retain(|e| place(e).is_none_or(|at| seen.insert(at)));
    match wrong.as_slice() {
        [] => Ok(()),
        [_] => wrong.pop().map_or(Ok(()), Err),
        all => {
            let each: Vec<String> = all.iter().map(|e| format!("\n  - {e}")).collect();
            let what = format!("the file cannot be run as it is, for {} reasons", all.len());
            Err(Error::usage(what)
                .source(each.concat())
                .hint("take out or change these lines; docs/fio.md says what each option becomes"))
        }
    }
}

/// Whether a text is a fio job file: its first section is `[global]`, or one that is no table of
/// a Taillight job followed by an option of fio.
pub fn looks_like(text: &str) -> bool {
    const TABLES: &[&str] = &["run", "target", "qos", "trace", "capture", "verify", "search"];
    let mut lines = text
        .lines()
        .map(|l| l.split([';', '#']).next().unwrap_or_default().trim())
        .filter(|l| !l.is_empty());
    let Some(heading) = lines.next() else {
        return false;
    };
    let name = heading.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
    match name {
        Some("global") => true,
        Some(name) if !TABLES.contains(&name) && !name.starts_with('[') => {
            let option = lines.next().unwrap_or_default();
            let (option, _) = option.split_once('=').unwrap_or((option, ""));
            options::OPTIONS.first_name(option.trim()).is_some()
        }
        _ => false,
    }
}
