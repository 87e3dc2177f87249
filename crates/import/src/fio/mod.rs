//! fio job files: into Taillight job files ([`import`]) and from plans ([`export`]).
//!
//! The way in: `command` (command lines and scripts) -> `lex` (sections, line numbers; `variables` replaced) ->
//! `options` (the one list of what is mapped, harmless or refused) -> `read` and `value` (typed values with their
//! places) -> `section` with `target`, `pattern`, `demand` (what a section means) -> `spread`, `passes` (parts that run
//! side by side, or one after the other) -> `layout` (targets of sections side by side) -> `job` (a job file).
//! Facts about fio are those of fio 3.33.

mod around;
mod command;
mod demand;
mod export;
mod export_target;
mod job;
mod layout;
mod lex;
mod names;
pub mod options;
mod passes;
mod pattern;
mod payload;
mod read;
mod section;
mod sizes;
mod spread;
mod steady;
mod target;
mod value;
mod variables;
mod ways;

use std::collections::{BTreeMap, BTreeSet};

use taillight_core::{Error, OpKind, Result};

use crate::{ImportedJob, all_of};
pub use around::{Existing, MACHINE, Surroundings};
use command::NamedText;
pub use command::{FrontEnd, front_end};
pub use export::export;
pub use lex::OptionRow;
use lex::RawSection;
use section::{ExitScope, JobSection};
pub use target::{Needed, NeededKind, UNDRIVEN};

/// Reads a job file, a command line or a script of them: one job for each group of sections that run side by side, or
/// one for each of its passes; a section with `create_only` is a job of its own. Errors: `Usage` with everything that
/// cannot be taken over, with file and line; of a text that is no job file the first thing wrong.
pub fn import(text: &str, file: &str) -> Result<Vec<ImportedJob>> {
    import_in(text, file, &MACHINE)
}

/// As [`import`], on a machine of which `around` tells. Errors: as there.
pub fn import_in(text: &str, file: &str, around: &Surroundings<'_>) -> Result<Vec<ImportedJob>> {
    let files = match command::looks_like(text) {
        true => command::script(text, file, around)?,
        false => {
            let (name, text) = (file.to_owned(), text.to_owned());
            vec![NamedText { name, text, readonly: false }]
        }
    };
    of_files(&files, around)
}

fn of_files(files: &[NamedText], around: &Surroundings<'_>) -> Result<Vec<ImportedJob>> {
    let (mut wrong, mut jobs) = (Vec::new(), Vec::new());
    let (mut taken, mut made) = (BTreeSet::new(), BTreeMap::new());
    let mut counted = (0, 0);
    for NamedText { name, text, readonly } in files {
        let sections = lex::sections(text, name, around, &mut wrong)?;
        let mut groups = groups(&sections, around, &mut made, &mut wrong);
        let alone = layouts(&mut groups);
        demand::delays_of_groups(&mut groups);
        exits(&mut groups, &mut wrong);
        report_groups(&mut groups, &mut counted);
        let writes = |s: &&JobSection| s.pattern.mix.iter().any(|part| part.op != OpKind::Read);
        if let Some(section) = groups.iter().flatten().find(writes).filter(|_| *readonly) {
            let what = format!(
                "[{}] writes, which --readonly forbids; fio refuses this too",
                section.name
            );
            wrong.push(Error::usage(what).with("at", &section.place).hint("leave one of them out"));
        }
        // fio extends no file then.
        for section in
            groups.iter_mut().flatten().filter(|s| *readonly && !s.target.options.is_empty())
        {
            section.target.options.insert("layout".to_owned(), "never".into());
        }
        for section in alone {
            let section = [section];
            let mut job = job::job(name, &section, &mut taken, &mut wrong)?;
            job.layout_only = true;
            jobs.push(job);
        }
        for group in groups {
            for pass in passes::of(group, &mut wrong) {
                jobs.push(job::job(name, &pass, &mut taken, &mut wrong)?);
            }
        }
    }
    all_of(wrong)?;
    Ok(jobs)
}

/// Takes the sections that only lay out files (`create_only`) out of their groups: fio lays out all files before it
/// begins the first job.
fn layouts(groups: &mut Vec<Vec<JobSection>>) -> Vec<JobSection> {
    let mut alone = Vec::new();
    for group in groups.iter_mut() {
        alone.extend(group.extract_if(.., |section| section.layout_only));
    }
    groups.retain(|group| !group.is_empty());
    alone
}

/// `exitall` is one switch for the whole file in fio, wherever it stands. Complains where it ends what is to run later.
fn exits(groups: &mut [Vec<JobSection>], wrong: &mut Vec<Error>) {
    let exits = groups.iter().flatten().any(|section| section.exits_all);
    groups.iter_mut().flatten().for_each(|section| section.exits_all = exits);
    groups.iter_mut().for_each(|group| alone_in_groups(group));
    let earlier = groups.iter().rev().skip(1).flatten();
    let mut all = earlier.filter(|s| s.exits_all && s.exit_scope == ExitScope::All);
    if let Some(section) = all.next() {
        let what = format!(
            "`exit_what` in [{}]: all ends what is to run after its group as well, so that it never runs",
            section.name
        );
        let hint = "write exit_what=stonewall, or leave out what comes after it";
        wrong.push(Error::usage(what).with("at", &section.place).hint(hint));
    }
}

/// Takes `exitall` off sections with one job each that `new_group` keeps apart: such a job ends no other.
fn alone_in_groups(group: &mut [JobSection]) {
    let scoped = |s: &JobSection| s.exits_all && s.exit_scope == ExitScope::Group;
    let single = group.iter().skip(1).all(|s| s.new_group) && group.iter().all(|s| s.clones == 1);
    if group.len() > 1 && single && group.iter().all(scoped) {
        for section in group.iter_mut() {
            section.exits_all = false;
            let name = &section.name;
            section.notes.push(format!(
                "[{name}]: exitall ends its own group, of which it is the only job, in fio as here"
            ));
        }
    }
}

/// Numbers groups as fio does where they are not its runs: a section that only waits for others (`wait_for`) is of
/// their group, and `new_group` begins one beside others. `counted`: groups and runs of the files before: fio's JSON
/// is one for all of them.
fn report_groups(groups: &mut [Vec<JobSection>], counted: &mut (u32, u32)) {
    let (mut number, first) = *counted;
    if groups.is_empty() {
        return;
    }
    for (at, section) in groups.iter_mut().flatten().enumerate() {
        let begins = (section.stonewall || section.new_group) && at > 0 && !section.same_jobs;
        number += u32::from(begins);
        section.report_group = Some(number);
    }
    *counted = (number + 1, first + groups.len() as u32);
    let runs = (first..).zip(groups.iter());
    let mut sections = runs.flat_map(|(run, group)| group.iter().map(move |s| (run, s)));
    if sections.all(|(run, section): (u32, _)| section.report_group == Some(run)) {
        groups.iter_mut().flatten().for_each(|section| section.report_group = None);
    }
}

/// The least id of a flow made here (for `cmdprio_percentage`), beyond those that people give.
const FLOWS: u32 = 1 << 30;

/// Understands the sections and puts those that run side by side into one group; groups in order. `made`: bytes of the
/// files that they leave, by path; added to.
fn groups(
    sections: &[RawSection],
    around: &Surroundings<'_>,
    made: &mut BTreeMap<String, u64>,
    wrong: &mut Vec<Error>,
) -> Vec<Vec<JobSection>> {
    let mut groups: Vec<Vec<JobSection>> = Vec::new();
    let mut written = BTreeSet::new();
    let mut jobs = 0;
    for raw in sections {
        let mut raw = raw.clone();
        raw.jobs.before = jobs;
        let raw = spread::by_directory(&raw);
        let split = raw.len() > 1;
        let mut parts: Vec<JobSection> = Vec::new();
        for (number, raw) in raw.iter().enumerate() {
            let mut section = section::section(raw, around, made, wrong);
            jobs += section.clones;
            if split {
                section.part_of = Some(section.name.clone());
                section.name = format!("{}-{number}", section.name);
                section::next_cpu(&mut section.cpus, number);
            }
            let devices = spread::by_device(section, wrong);
            let each = devices.into_iter().flat_map(spread::by_increment);
            let each = each.flat_map(spread::by_job);
            let each: Vec<JobSection> =
                each.flat_map(|job| spread::by_direction(job, wrong)).collect();
            let ids = FLOWS.saturating_add((groups.len() as u32) << 16);
            let ids = ids.saturating_add(jobs << 8)..;
            parts.extend(ids.zip(each).flat_map(|(id, job)| spread::by_priority(job, id)));
        }
        parts.iter_mut().skip(1).for_each(|part| part.new_group = false);
        let begins = parts.first().is_none_or(|first| begins_group(first, &groups, wrong));
        for section in &mut parts {
            warn_of_cached(section, &written);
            leaves(section, made);
            let synced = section.end_fsync || section.sync.is_some() || section.target.direct;
            if section.pattern.writes() && !synced {
                written.extend(section.target.paths().into_iter().cloned());
            }
        }
        match groups.last_mut() {
            Some(group) if !begins => group.extend(parts),
            _ => groups.push(parts),
        }
    }
    groups
}

/// Says of a section that reads through the page cache where fio may find what sections before it wrote.
fn warn_of_cached(section: &mut JobSection, written: &BTreeSet<String>) {
    let target = &section.target;
    let drops = target.options.get("cache").and_then(|v| v.as_str()) == Some("drop");
    let paths = target.paths();
    let cached = drops && !target.direct && section.pattern.reads();
    if cached && paths.iter().any(|path| written.contains(*path)) {
        section.notes.push(format!(
            "[{}]: what a section before wrote and did not sync may still be cached in fio; here it is written back and \
             dropped, so that reads reach the device",
            section.name
        ));
    }
}

/// Notes the files that a section leaves, by path.
fn leaves(section: &JobSection, made: &mut BTreeMap<String, u64>) {
    let target = &section.target;
    let paths = target.paths();
    let Some(size) = target.size else { return };
    let size = (size / u64::from(target.count)).saturating_add(target.offset);
    for (number, path) in paths.into_iter().enumerate() {
        let size = target.sizes.get(number).copied().unwrap_or(size);
        let bytes = made.entry(path.clone()).or_insert(0);
        *bytes = target.file.unwrap_or(0).max(size).max(*bytes);
    }
}

/// Complains of what has to be there before the first job and is not. Errors: `Usage` with all of it.
pub fn check_needs<'a>(needs: impl Iterator<Item = &'a Needed>) -> Result<()> {
    let missing = needs.filter_map(|needed| {
        let found = (MACHINE.existing)(&needed.path);
        let what = match (needed.kind, found) {
            (NeededKind::Directory, Some(Existing::Directory)) | (NeededKind::File, Some(_)) => {
                return None;
            }
            (NeededKind::Directory, Some(_)) => "is no directory",
            (NeededKind::Directory | NeededKind::File, None) => "is not there",
        };
        let text = format!(
            "{} needs `{}`, which {what}; fio refuses this too",
            needed.option, needed.path
        );
        Some(Error::usage(text).with("at", &needed.place).hint("make it, or mount what holds it"))
    });
    all_of(missing.collect())
}

/// Whether a section runs after those of the last group, not beside them. Complains of a `wait_for` that neither says.
fn begins_group(section: &JobSection, groups: &[Vec<JobSection>], wrong: &mut Vec<Error>) -> bool {
    let group = groups.last().map_or(&[][..], Vec::as_slice);
    let over = &groups[..groups.len().saturating_sub(1)];
    // The last group waits for others, and would not begin when this section does in fio.
    let other = group.first().filter(|first| {
        let waits = first.waits_for.is_some() && !first.stonewall && groups.len() > 1;
        waits && !section.stonewall && first.waits_for != section.waits_for
    });
    match (&section.waits_for, group) {
        // The last group began when that was done.
        (Some(name), _) if other.is_none() && over.iter().flatten().any(|s| s.is_called(name)) => {}
        (Some(name), [first, ..])
            if group.iter().all(|s| s.is_called(name) && s.part_of == first.part_of) =>
        {
            return true;
        }
        (Some(name), _) if !section.stonewall => {
            let what = format!(
                "`wait_for` in [{}]: only [{name}] is waited for, while others run",
                section.name
            );
            wrong.push(Error::usage(what).with("at", &section.place).hint("use stonewall"));
        }
        (None, [first, ..]) if other.is_some() => {
            let what = format!(
                "[{}] behind [{}], which waits (`wait_for`): fio begins it at once, beside what is waited for",
                section.name, first.name
            );
            let hint = "put it before that section, or use stonewall";
            wrong.push(Error::usage(what).with("at", &section.place).hint(hint));
        }
        _ => {}
    }
    section.stonewall
}

/// Whether a text calls fio, or is its job file: the first section is `[global]`, or one that is no table of
/// a Taillight job followed by an option of fio.
pub fn looks_like(text: &str) -> bool {
    if command::looks_like(text) {
        return true;
    }
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
