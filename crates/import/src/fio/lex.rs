//! Lines of a fio job file: sections with their options, what `[global]` adds filled in, line
//! numbers kept, variables replaced as fio does. No option is understood here.

use taillight_core::{Error, Result};

use super::options::OPTIONS;
use super::variables::Variables;

/// One option as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OptionLine {
    /// Line in the file, from 1.
    pub number: usize,
    /// The option's first name, whatever alias was written.
    pub name: &'static str,
    /// The text behind `=`; `None` without one.
    pub value: Option<String>,
    /// The line as written, where variables were replaced in it.
    pub written: Option<String>,
}

/// One job section with all that applies to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawSection {
    pub name: String,
    /// Line of its heading.
    pub number: usize,
    /// What `[global]` sections before it say, then its own; the last of a name counts.
    pub lines: Vec<OptionLine>,
}

impl RawSection {
    /// The line that counts for an option.
    pub fn line(&self, name: &str) -> Option<&OptionLine> {
        self.lines.iter().rev().find(|l| l.name == name)
    }
}

/// Splits a file into its job sections. Lines that cannot be taken over are left out and go to `wrong`.
/// Errors: `Usage`, naming file and line, where the file is no job file.
pub fn sections(
    text: &str,
    file: &str,
    variables: &Variables<'_>,
    wrong: &mut Vec<Error>,
) -> Result<Vec<RawSection>> {
    let mut global: Vec<OptionLine> = Vec::new();
    let mut sections: Vec<RawSection> = Vec::new();
    let mut in_global = None;
    for (index, raw) in text.lines().enumerate() {
        let number = index + 1;
        let bad = |what: String| Error::usage(what).with("at", format!("{file}:{number}"));
        let line = raw.split([';', '#']).next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        if let Some(heading) = line.strip_prefix('[') {
            let name = heading
                .split_once(']')
                .map(|(name, _)| name.trim())
                .filter(|name| !name.is_empty())
                .ok_or_else(|| bad(format!("`{line}` is no section heading")))?;
            in_global = Some(name == "global");
            if name != "global" {
                sections.push(RawSection { name: name.to_owned(), number, lines: global.clone() });
            }
            continue;
        }
        if line.starts_with("--") {
            return Err(bad(format!("`{line}` is of fio's command line")).hint(
                "write a section like [randread], and under it one option a line, like rw=randread",
            ));
        }
        let Some(in_global) = in_global else {
            return Err(bad(format!("`{line}` stands before any section"))
                .hint("begin with [global] or a section like [randread]"));
        };
        match option(line, number, variables, &bad) {
            Err(e) => wrong.push(e),
            Ok(line) => match sections.last_mut().filter(|_| !in_global) {
                Some(section) => section.lines.push(line),
                None => global.push(line),
            },
        }
    }
    if sections.is_empty() {
        return Err(Error::usage("the file has no job section")
            .with("path", file)
            .hint("a job is a section with a name of its own, like [randread]"));
    }
    Ok(sections)
}

/// `name=value` or `name`.
fn option(
    text: &str,
    number: usize,
    variables: &Variables<'_>,
    bad: &dyn Fn(String) -> Error,
) -> Result<OptionLine> {
    if text.split_whitespace().next() == Some("include") {
        return Err(bad("`include` is not followed".to_owned())
            .hint("put the lines of the other file here"));
    }
    let replaced = variables.replaced(text).map_err(bad)?;
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
    Ok(OptionLine { number, name, value, written: written_line })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<RawSection>> {
        let mut wrong = Vec::new();
        let variables = Variables { environment: &|_| None };
        let sections = sections(text, "a.fio", &variables, &mut wrong)?;
        wrong.pop().map_or(Ok(sections), Err)
    }

    fn fails(text: &str) -> String {
        let e = read(text).unwrap_err();
        format!("{e} | {}", e.hint_text().unwrap_or_default())
    }

    #[test]
    fn globals_apply_to_what_follows() {
        let text = "; first\n[global]\nrw=read # why\n[a]\nbs = 4k\n[global]\nbs=8k\n\
                    [b]\nstonewall\nreadwrite=randread\n";
        let s = read(text).unwrap();
        assert_eq!((s[0].name.as_str(), s[0].number), ("a", 4));
        let value = |i: usize, name| s[i].line(name).and_then(|l| l.value.as_deref());
        assert_eq!((value(0, "rw"), value(0, "bs")), (Some("read"), Some("4k")));
        assert_eq!((value(1, "rw"), value(1, "bs")), (Some("randread"), Some("8k")));
        assert_eq!(s[1].line("stonewall").map(|l| (l.number, &l.value)), Some((9, &None)));
    }

    #[test]
    fn bad_lines_name_their_place() {
        assert!(fails("[global]\ninclude b.fio\n[a]\n").contains("not followed (at: a.fio:2)"));
        assert!(fails("--name=a --rw=read\n").contains("fio's command line (at: a.fio:1)"));
        assert!(fails("rw=read\n").contains("before any section (at: a.fio:1)"));
        assert!(fails("[global]\nrw=read\n").contains("no job section"));
        assert!(fails("[a\n").contains("no section heading"));
        assert!(fails("[a]\n\nsize=1m*$ncpus\n").contains("(at: a.fio:3)"));
        assert!(fails("[a]\ninclude other.fio\n").contains("not followed"));
        let unknown = fails("[a]\nio_dept=3\n");
        assert!(unknown.contains("unknown option `io_dept` (at: a.fio:2)"), "{unknown}");
        assert!(unknown.contains("did you mean `iodepth`?"), "{unknown}");
    }
}
