//! Lines of a fio job file: sections with their options, what `[global]` adds filled in, places
//! kept, variables replaced and other files included as fio does. Unknown names are refused here; values stay text.

use taillight_core::{Error, Result};

use super::around::Surroundings;
use super::options::OPTIONS;
use super::variables;
use crate::effect::Effect;

/// How deep files may include each other.
const DEEPEST: usize = 16;

/// One option as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionLine {
    /// File and line, from 1: `a.fio:3`.
    pub place: String,
    /// The option's first name, whatever alias was written.
    pub name: &'static str,
    /// The text behind `=`; `None` without a `=` or a text.
    pub value: Option<String>,
    /// The line as written, where variables or keywords were replaced in it.
    pub written: Option<String>,
}

/// An option and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionRow {
    /// Heading of the section.
    pub section: String,
    /// File and line, from 1.
    pub place: String,
    /// As it counts: `bs=4k`.
    pub option: String,
    /// The fields of the job that it becomes, where the table of options names them.
    pub becomes: Option<&'static str>,
    /// Why it changes nothing here.
    pub no_effect: Option<&'static str>,
}

/// One job section with all that applies to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawSection {
    pub name: String,
    /// File and line of its heading.
    pub place: String,
    /// What `[global]` sections before it say, then its own; see [`RawSection::counts`].
    pub lines: Vec<OptionLine>,
    /// How many of the lines `[global]` says.
    pub shared: usize,
    /// How its jobs are numbered.
    pub jobs: JobNumbers,
}

/// How the jobs of a section are numbered, from 0; names of files hold the numbers. Where jobs take several directories
/// in turns, those of one directory are a part of the section, and their numbers are `step` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobNumbers {
    /// Number of the first job.
    pub first: u32,
    /// From one number to the next.
    pub step: u32,
    /// Jobs of the sections before this one.
    pub before: u32,
    /// Jobs of the whole section, where these are a part of them; 0: these are all.
    pub all: u32,
}

impl JobNumbers {
    /// The numbers where all jobs of a section are in one place.
    pub const ALL: JobNumbers = JobNumbers { first: 0, step: 1, before: 0, all: 0 };

    /// fio's number for the thread of job `index` of `jobs`, from 1, counted over the file: the section's first job has
    /// its first number, the others go down from the last (`add_job` of its init.c; tried with fio 3.33).
    pub fn thread(self, index: u32, jobs: u32) -> u32 {
        let all = if self.all > 0 { self.all } else { jobs };
        let own = match self.number(index) {
            0 => 0,
            number => all.saturating_sub(number),
        };
        self.before.saturating_add(own).saturating_add(1)
    }

    /// Number of the job at `index`.
    pub fn number(self, index: u32) -> u32 {
        self.first.saturating_add(index.saturating_mul(self.step))
    }
}

impl RawSection {
    /// The line that counts for an option.
    pub fn line(&self, name: &str) -> Option<&OptionLine> {
        self.lines.iter().rev().find(|l| l.name == name)
    }

    /// Whether a line is the last of its name: only that one matters, so that a section can take back a global option.
    /// Paths in `filename` add up.
    pub fn counts(&self, line: &OptionLine) -> bool {
        line.name == "filename" || self.line(line.name).is_some_and(|last| std::ptr::eq(last, line))
    }

    /// What fio calls it in its output: a `name` of its own, not one of `[global]`; files follow the heading.
    pub fn display_name(&self) -> &str {
        let own = self.lines[self.shared..].iter().rev().find(|l| l.name == "name");
        own.and_then(|l| l.value.as_deref()).unwrap_or(&self.name)
    }

    /// The options that count, in the order in which they are written, with what becomes of each.
    pub fn options(&self) -> Vec<OptionRow> {
        let row = |line: &OptionLine| {
            let value = line.value.as_deref();
            let effect = OPTIONS.effect(line.name);
            OptionRow {
                section: self.name.clone(),
                place: line.place.clone(),
                option: value
                    .map_or(line.name.to_owned(), |value| format!("{}={value}", line.name)),
                becomes: match effect {
                    Some(Effect::Becomes(field)) => Some(field),
                    _ => None,
                },
                no_effect: effect.and_then(|effect| effect.no_effect(value.unwrap_or("1"))),
            }
        };
        self.lines.iter().filter(|line| self.counts(line)).map(row).collect()
    }

    /// Which of two options is written last, of those that are given.
    pub fn last_of(&self, names: [&str; 2]) -> Option<&OptionLine> {
        self.lines.iter().rev().find(|l| names.contains(&l.name))
    }
}

/// Splits a file into its job sections. Lines that cannot be taken over are left out and go to `wrong`.
/// Errors: `Usage`, naming the file, where the file is no job file.
pub fn sections(
    text: &str,
    file: &str,
    around: &Surroundings<'_>,
    wrong: &mut Vec<Error>,
) -> Result<Vec<RawSection>> {
    let mut reader =
        LineReader { around, wrong, global: Vec::new(), sections: Vec::new(), own: None };
    for (index, raw) in text.lines().enumerate() {
        let place = format!("{file}:{}", index + 1);
        let line = content(raw);
        match line.strip_prefix('[') {
            _ if line.is_empty() => {}
            Some(heading) => reader.heading(line, heading, &place)?,
            None if reader.own.is_none() => {
                return Err(Error::usage(format!("`{line}` stands before any section"))
                    .with("at", &place)
                    .hint("begin with [global] or a section like [randread]"));
            }
            None => reader.line(line, &place, &[file]),
        }
    }
    if reader.sections.is_empty() {
        return Err(Error::usage("the file has no job section")
            .with("path", file)
            .hint("a job is a section with a name of its own, like [randread]"));
    }
    Ok(reader.sections)
}

/// A line without comment and blanks around it.
fn content(raw: &str) -> &str {
    raw.split([';', '#']).next().unwrap_or_default().trim()
}

struct LineReader<'a, 'b> {
    around: &'a Surroundings<'b>,
    wrong: &'a mut Vec<Error>,
    global: Vec<OptionLine>,
    sections: Vec<RawSection>,
    /// Whether lines belong to a job section, not to `[global]`; `None` before the first heading.
    own: Option<bool>,
}

impl LineReader<'_, '_> {
    fn heading(&mut self, line: &str, heading: &str, place: &str) -> Result<()> {
        // The last bracket ends it: `[a[1]]` is a name with brackets in fio.
        let name = heading.rsplit_once(']').map(|(name, _)| name).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| {
            Error::usage(format!("`{line}` is no section heading")).with("at", place)
        })?;
        // fio compares the first six letters.
        self.own = Some(!name.starts_with("global"));
        if self.own == Some(true) {
            let lines = self.global.clone();
            let (name, place, shared) = (name.to_owned(), place.to_owned(), lines.len());
            let jobs = JobNumbers::ALL;
            self.sections.push(RawSection { name, place, lines, shared, jobs });
        }
        Ok(())
    }

    /// Takes an option over, or the lines of a file that it includes. `files`: what is being read, innermost last.
    fn line(&mut self, line: &str, place: &str, files: &[&str]) {
        let bad = |what: String| Error::usage(what).with("at", place);
        if let Some(name) =
            line.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t', '=']))
        {
            if let Err(e) = self.include(name[1..].trim(), files) {
                self.wrong.push(e.with("at", place));
            }
            return;
        }
        match option(line, place, self.around, &bad) {
            Err(e) => self.wrong.push(e),
            Ok(line) => match self.sections.last_mut().filter(|_| self.own == Some(true)) {
                Some(section) => section.lines.push(line),
                None => self.global.push(line),
            },
        }
    }

    /// fio looks for the file where it runs, then beside the file that includes it. Errors: `Usage`.
    fn include(&mut self, name: &str, files: &[&str]) -> Result<()> {
        let from = files.last().copied().unwrap_or_default();
        let beside = match from.rsplit_once('/') {
            Some((dir, _)) => format!("{dir}/{name}"),
            None => name.to_owned(),
        };
        let read = |path: &str| (self.around.text)(path).map(|text| (path.to_owned(), text));
        let (path, text) = read(name).or_else(|_| read(&beside)).map_err(|e| {
            Error::usage(format!("`{name}`, which is included, cannot be read")).source(e)
        })?;
        if files.contains(&path.as_str()) || files.len() > DEEPEST {
            return Err(Error::usage(format!(
                "`{name}` includes itself, by way of others perhaps"
            )));
        }
        let inner: Vec<&str> = files.iter().copied().chain([path.as_str()]).collect();
        for (index, raw) in text.lines().enumerate() {
            let (line, place) = (content(raw), format!("{path}:{}", index + 1));
            if line.starts_with('[') {
                let what = format!("`{line}`: a file that is included has no sections in fio");
                self.wrong.push(Error::usage(what).with("at", place));
            } else if !line.is_empty() {
                self.line(line, &place, &inner);
            }
        }
        Ok(())
    }
}

/// `name=value` or `name`.
fn option(
    text: &str,
    place: &str,
    around: &Surroundings<'_>,
    bad: &dyn Fn(String) -> Error,
) -> Result<OptionLine> {
    let replaced = variables::replaced(text, around.environment).map_err(bad)?;
    let written_line = replaced.is_some().then(|| text.to_owned());
    let text = replaced.as_deref().unwrap_or(text);
    let (written, value) = match text.split_once('=') {
        Some((name, value)) => (name.trim(), Some(value.trim().to_owned())),
        None => (text, None),
    };
    let Some(name) = OPTIONS.first_name(written) else {
        let hint = match OPTIONS.nearest(written) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "look it up in fio's manual; a newer fio may have it".to_owned(),
        };
        return Err(bad(format!("unknown option `{written}`")).hint(hint));
    };
    let value = value.filter(|v| !v.is_empty());
    Ok(OptionLine { place: place.to_owned(), name, value, written: written_line })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<RawSection>> {
        let mut wrong = Vec::new();
        let files = |path: &str| match path {
            "d/common.inc" => Ok("bs=8k\ninclude more.inc\n".to_owned()),
            "d/more.inc" => Ok("# deeper\nnumjobs=2\n".to_owned()),
            "d/round.inc" => Ok("include round.inc\n".to_owned()),
            "d/sections.inc" => Ok("[a]\n".to_owned()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        let around = Surroundings {
            environment: &|_| None,
            text: &files,
            existing: &|_| None,
            listed: &|_| Ok(Vec::new()),
        };
        let sections = sections(text, "d/a.fio", &around, &mut wrong)?;
        wrong.pop().map_or(Ok(sections), Err)
    }

    fn fails(text: &str) -> String {
        let e = read(text).unwrap_err();
        format!("{e} | {}", e.hint_text().unwrap_or_default())
    }

    #[test]
    fn globals_apply_to_what_follows() {
        let text = "; first\n[global]\nrw=read # why\n[a]\nbs = 4k\n[global]\nbs=8k\n\
                    [b [1]]\nstonewall\nreadwrite=randread\n";
        let s = read(text).unwrap();
        assert_eq!((s[0].name.as_str(), s[0].place.as_str()), ("a", "d/a.fio:4"));
        assert_eq!(s[1].name, "b [1]");
        let named = read("[global]\nname=g\n[a]\n[b]\nname=bee\n").unwrap();
        assert_eq!([named[0].display_name(), named[1].display_name()], ["a", "bee"]);
        let value = |i: usize, name| s[i].line(name).and_then(|l| l.value.as_deref());
        assert_eq!((value(0, "rw"), value(0, "bs")), (Some("read"), Some("4k")));
        assert_eq!((value(1, "rw"), value(1, "bs")), (Some("randread"), Some("8k")));
        let stonewall = s[1].line("stonewall").map(|l| (l.place.as_str(), &l.value));
        assert_eq!(stonewall, Some(("d/a.fio:9", &None)));
    }

    #[test]
    fn files_are_included_beside_the_one_that_names_them() {
        let s = read("[a]\nbs=4k\ninclude common.inc\nrw=read\n").unwrap();
        let line = |name| s[0].line(name).map(|l| (l.value.as_deref(), l.place.as_str()));
        assert_eq!(line("bs"), Some((Some("8k"), "d/common.inc:1")));
        assert_eq!(line("numjobs"), Some((Some("2"), "d/more.inc:2")));
        assert_eq!(line("rw"), Some((Some("read"), "d/a.fio:4")));
        assert!(fails("[a]\ninclude round.inc\n").contains("includes itself"));
        assert!(
            fails("[a]\ninclude sections.inc\n")
                .contains("no sections in fio (at: d/sections.inc:1")
        );
        assert!(fails("[a]\ninclude absent\n").contains("cannot be read"));
    }

    #[test]
    fn bad_lines_name_their_place() {
        assert!(fails("rw=read\n").contains("before any section (at: d/a.fio:1)"));
        assert!(fails("[global]\nrw=read\n").contains("no job section"));
        assert!(fails("[a\n").contains("no section heading"));
        assert!(fails("[a]\n\nsize=1m*$ncpus\n").contains("(at: d/a.fio:3)"));
        let unknown = fails("[a]\nio_dept=3\n");
        assert!(unknown.contains("unknown option `io_dept` (at: d/a.fio:2)"), "{unknown}");
        assert!(unknown.contains("did you mean `iodepth`?"), "{unknown}");
    }
}
