//! Job files of other benchmarks: read into Taillight job files, and written from plans. Results of other
//! tools, read into run directories, are in [`results`].
//!
//! Every option of the other format is mapped, accepted without effect on the load (a note says why, or what is
//! different), or refused with what it would change; an unknown one is refused too. The job files made here go
//! through the same checks as any other. `cli` calls this crate for `import`, `export` and `run job.fio`.

mod effect;
pub mod fio;
pub mod results;
mod sbk;
pub mod ycsb;

use std::collections::BTreeSet;

use taillight_core::job::JobFile;
use taillight_core::plan::Plan;
use taillight_core::{Error, Result};

use fio::{Needed, OptionRow};

/// One Taillight job made from a part of the other file. The jobs of a file run in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedJob {
    /// Name of the run; unique among the jobs of the file.
    pub name: String,
    pub toml: String,
    /// What a reader should know: options that changed nothing, and small differences. They stand
    /// in `toml` as comments as well.
    pub notes: Vec<String>,
    /// The options of the fio file that count for this job, with what becomes of each; of other formats none.
    pub options: Vec<OptionRow>,
    /// Files and directories that have to be there before it runs; fio alone asks for some.
    pub needs: Vec<Needed>,
    /// The files of its target are laid out, and nothing is measured (`create_only` of fio).
    pub layout_only: bool,
}

/// Width of comment lines, characters; a longer word is not cut.
const WIDTH: usize = 98;

impl ImportedJob {
    /// The job as text, with its `source` and its notes as comments.
    fn new(name: String, source: &str, notes: Vec<String>, job: &JobFile) -> Result<ImportedJob> {
        let mut toml = String::new();
        comment(&format!("Made by `taillight import` from {source}."), &mut toml);
        notes.iter().for_each(|note| comment(note, &mut toml));
        toml.push('\n');
        toml.push_str(&job.to_toml()?);
        let (options, needs) = Default::default();
        Ok(ImportedJob { name, toml, notes, options, needs, layout_only: false })
    }
}

/// Appends `text` as comment lines.
fn comment(text: &str, out: &mut String) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && line.len() > 1 {
            out.push_str(&line);
            out.push('\n');
            line = String::from("#  ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&line);
    out.push('\n');
}

/// Makes one error of all reasons why a file cannot be taken over, each once: a line of `[global]` is complained of by
/// every section. `Ok` without reasons; a single one is the error itself, several are listed in a `Usage`.
fn all_of(mut wrong: Vec<Error>) -> Result<()> {
    // One line and option, or else the same words.
    let about = |e: &Error| {
        let text = e.to_string();
        let option = text
            .strip_prefix('`')
            .and_then(|rest| rest.split_once("` in ["))
            .map(|(name, _)| name.to_owned());
        match (option, text.rsplit_once(" (at: ")) {
            (Some(option), Some((_, at))) => (option, at.to_owned()),
            _ => (text, String::new()),
        }
    };
    let mut seen = BTreeSet::new();
    wrong.retain(|e| seen.insert(about(e)));
    match wrong.as_slice() {
        [] => Ok(()),
        [_] => wrong.pop().map_or(Ok(()), Err),
        all => {
            // Of the hints, a name that is near is about one line alone.
            let near = |e: &Error| {
                e.hint_text().filter(|h| h.starts_with("did you mean")).map(|h| format!("; {h}"))
            };
            let each: Vec<String> =
                all.iter().map(|e| format!("\n  - {e}{}", near(e).unwrap_or_default())).collect();
            let what = format!("the file cannot be run as it is, for {} reasons", all.len());
            Err(Error::usage(what)
                .source(each.concat())
                .hint("take out or change these lines; docs/fio.md says what each option becomes"))
        }
    }
}

/// The first `most` characters of `name`; those that no name of a run may have become dashes.
fn name_of_run(name: &str, most: usize) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.chars().map(|c| if fits(c) { c } else { '-' }).take(most).collect()
}

/// A format that can be imported.
pub struct ImportFormat {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    /// Endings of file names, without the dot.
    pub extensions: &'static [&'static str],
    /// Whether the text of a file without such an ending looks like this format.
    pub looks_like: fn(&str) -> bool,
    /// Text and file name to jobs.
    pub import: fn(&str, &str) -> Result<Vec<ImportedJob>>,
}

/// Every format, one line each.
pub const FORMATS: &[ImportFormat] = &[
    ImportFormat {
        name: "fio",
        about: "fio job file",
        extensions: &["fio"],
        looks_like: fio::looks_like,
        import: fio::import,
    },
    ImportFormat {
        name: "ycsb",
        about: "YCSB property file",
        extensions: &["properties"],
        looks_like: ycsb::looks_like,
        import: ycsb::import,
    },
    ImportFormat {
        name: "sbk",
        about: "command line of SBK",
        extensions: &[],
        looks_like: sbk::looks_like,
        import: sbk::import,
    },
];

/// A job file of another benchmark, made from a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    pub text: String,
    /// Fields of the job that the other benchmark cannot express or takes differently. They stand
    /// in `text` as comments as well.
    pub missing: Vec<String>,
}

/// A format that a plan can be written in.
pub struct ExportFormat {
    /// Name on the command line.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    pub export: fn(&Plan) -> Result<Exported>,
}

/// Every format, one line each.
pub const EXPORTS: &[ExportFormat] =
    &[ExportFormat { name: "fio-job", about: "fio job file", export: fio::export }];

/// The format called `name`.
pub fn by_name(name: &str) -> Option<&'static ImportFormat> {
    FORMATS.iter().find(|f| f.name == name)
}

/// The format of a file, by the ending of its name and else by its text. `None` for Taillight's
/// own job files and for everything unknown.
pub fn detect(file_name: &str, text: &str) -> Option<&'static ImportFormat> {
    let path = std::path::Path::new(file_name);
    let ending = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    if let Some(ending) = &ending {
        if ending == "toml" {
            return None;
        }
        let named = |f: &&ImportFormat| f.extensions.contains(&ending.as_str());
        if let Some(format) = FORMATS.iter().find(named) {
            return Some(format);
        }
    }
    FORMATS.iter().find(|f| (f.looks_like)(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_notes_become_several_comment_lines() {
        let mut out = String::new();
        comment(&"word ".repeat(30), &mut out);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].len() <= WIDTH && lines[1].starts_with("#   word"), "{out}");
    }

    #[test]
    fn formats_are_told_by_name_and_text() {
        let name = |file, text| detect(file, text).map(|f| f.name);
        assert_eq!(name("a.fio", ""), Some("fio"));
        assert_eq!(name("a.ini", "; x\n[global]\nrw=read\n"), Some("fio"));
        assert_eq!(name("-", "[seq]\nrw=read\n"), Some("fio"));
        assert_eq!(name("-", "[run]\nname = \"x\"\n"), None);
        assert_eq!(name("a.toml", "[global]\n"), None);
        assert_eq!(name("workloada", "# A\nrecordcount=1000\n"), Some("ycsb"));
        assert_eq!(name("a.properties", ""), Some("ycsb"));
        assert_eq!(name("-", "driver=memory\n"), None);
        assert!(by_name("fio").is_some() && by_name("x").is_none());
    }
}
