//! fio's command line as the job file that it means: `fio --name=a --rw=randread`, alone or in a script.
//!
//! Each option becomes a line, so that places count options. Options before the first `--name` are those of `[global]`
//! (`parse_cmd_line` of fio's `init.c`). Options about fio's output are read by [`front_end`]; those that make fio do
//! something else than run jobs are refused.

use std::collections::BTreeMap;

use taillight_core::{Error, Result};

use super::around::{MACHINE, Surroundings};

/// A job file and what it is called in messages.
#[derive(Debug, PartialEq, Eq)]
pub struct NamedText {
    pub name: String,
    pub text: String,
    /// fio refuses it where it writes (`--readonly`).
    pub readonly: bool,
}

/// What a command line asks of fio's output.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct FrontEnd {
    /// fio's JSON.
    pub json: bool,
    /// The file that it goes to.
    pub output: Option<String>,
    /// What a user should know of options that print something else, or nothing, here.
    pub notes: Vec<String>,
}

/// Options whose value is never the next word (of a job: `FIO_OPT_STR_SET`).
const SWITCHES: &str = "thread time_based group_reporting new_group stonewall wait_for_previous norandommap \
                        exitall exitall_on_error zero_buffers refill_buffers bs_unaligned hipri fixedbufs \
                        registerfiles sqthread_poll userspace_reap verify_only minimal readonly append-terse \
                        warnings-fatal bandwidth-log latency-log";

/// Options of fio's front end, which are no lines of a job file; most change what it prints.
const FRONT_END: &str = "output output-format eta eta-newline eta-interval status-interval terse-version max-jobs \
                         alloc-size aux-path debug idle-prof bandwidth-log latency-log warnings-fatal readonly section";

/// Options that make fio do something else than to run jobs here, and what does it.
#[rustfmt::skip]
const OTHER_MODES: &[(&str, &str)] = &[
    ("client server remote-config", "several hosts run one job by `mpirun taillight-mpi run` (docs/hosts.md)"),
    ("showcmd", "`taillight run ... --print-plan` shows what would run"),
    ("parse-only", "`taillight import FILE --dry-run` says whether it can run, and what becomes of each option"),
    ("minimal append-terse", "terse output is not written; --output-format=json is"),
    ("trigger trigger-file trigger-timeout trigger-remote", "no command is started by a run"),
    ("profile", "write the options of the profile as a job file"),
    ("merge-blktrace-only", "`taillight run --path FILE --replay TRACE` replays one (docs/replay.md)"),
    ("crctest cpuclock-test memcpytest enghelp cmdhelp help version", "it runs no job"),
];

/// Whether a text calls fio, and is no job file.
pub fn looks_like(text: &str) -> bool {
    let lines = joined(text);
    let called = |(_, line): &(usize, String)| {
        let mut words = line.split_whitespace().skip_while(|word| *word == "sudo");
        words.next().is_some_and(called) && words.next().is_some()
    };
    lines.first().is_some_and(|(_, line)| !line.starts_with('[')) && lines.iter().any(called)
}

fn called(word: &str) -> bool {
    word == "fio" || word.ends_with("/fio")
}

/// The commands of a script that call fio, as job files in order; assignments, `set`, `sync`, `exit` and an `echo` into
/// no file are passed over. Errors: `Usage` for other commands and for what a shell would have to work out.
pub fn script(text: &str, file: &str, around: &Surroundings<'_>) -> Result<Vec<NamedText>> {
    let (mut commands, mut wrong) = (Vec::new(), Vec::new());
    for ScriptLine { number, line, words } in lines(text, around.environment) {
        let place = format!("{file}:{number}");
        let bad = |what: String| Error::usage(what).with("at", &place);
        match words.map_err(bad) {
            Err(e) => wrong.push(e),
            Ok(words) => {
                let at = words.iter().position(|word| called(word));
                let idle = match words.first().map(String::as_str) {
                    // `echo 3 > /proc/sys/vm/drop_caches` does something.
                    Some("echo") => !line.contains('>'),
                    first => matches!(first, None | Some("set" | "sync" | "exit")),
                };
                match at {
                    Some(at) if words[..at].iter().all(|w| w == "sudo") => {
                        commands.extend(command(&words[at + 1..], &place, around)?);
                    }
                    _ if idle => {}
                    _ => wrong.push(
                        bad(format!("`{line}` is no command of fio"))
                            .hint("run it yourself, and take the line out"),
                    ),
                }
            }
        }
    }
    crate::all_of(wrong)?;
    Ok(commands)
}

/// The job files that the words behind `fio` mean. Errors: `Usage`.
fn command(words: &[String], place: &str, around: &Surroundings<'_>) -> Result<Vec<NamedText>> {
    let mut line = CommandLine::default();
    for Word { word, name, value } in options(words) {
        let Some(name) = name else {
            line.files.push(word.to_owned());
            continue;
        };
        if let Some((_, hint)) = OTHER_MODES.iter().find(|(names, _)| listed(names, name)) {
            let what = format!("`{word}` of fio's command line makes it do something else");
            return Err(Error::usage(what).with("at", place).hint(*hint));
        }
        if name == "output-format" && value.is_some_and(|v| v.split(',').any(|f| f == "terse")) {
            let what = format!("`{word}`: terse output is not written");
            return Err(Error::usage(what).with("at", place).hint("use --output-format=json"));
        }
        line.take(name, value);
    }
    line.texts(place, around)
}

/// A word of a command line, and the one behind it where that is its value.
struct Word<'a> {
    word: &'a str,
    /// Name of an option, without dashes; none for a job file.
    name: Option<&'a str>,
    value: Option<&'a str>,
}

fn options(words: &[String]) -> Vec<Word<'_>> {
    let mut left = words.iter().map(String::as_str).peekable();
    let mut found = Vec::new();
    while let Some(word) = left.next() {
        let option = word.strip_prefix("--").or_else(|| word.strip_prefix('-'));
        let Some(option) = option.filter(|o| !o.is_empty()) else {
            found.push(Word { word, name: None, value: None });
            continue;
        };
        let (name, value) = match option.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None if listed(SWITCHES, option) => (option, None),
            None => (option, left.next_if(|next| !next.starts_with('-'))),
        };
        found.push(Word { word, name: Some(name), value });
    }
    found
}

fn listed(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|listed| listed == name)
}

/// A command line, its options as lines of a job file.
#[derive(Default)]
struct CommandLine {
    /// Before the first `--name`: for all jobs, those of files as well.
    global: String,
    own: String,
    /// Job files.
    files: Vec<String>,
    /// Sections of the job files that run (`--section`); empty: all.
    sections: Vec<String>,
    readonly: bool,
}

impl CommandLine {
    fn take(&mut self, name: &str, value: Option<&str>) {
        match (name, value) {
            ("name", Some("global")) => self.own.push_str("[global]\n"),
            ("name", value) => self.own.push_str(&format!("[{}]\n", value.unwrap_or_default())),
            ("section", Some(section)) => self.sections.push(section.to_owned()),
            ("readonly", _) => self.readonly = true,
            // fio reads one option after the other: a directory is one for the names behind it.
            ("directory", _) if self.names_files() => {}
            _ if listed(FRONT_END, name) => {}
            _ => {
                let to = if self.own.is_empty() { &mut self.global } else { &mut self.own };
                to.push_str(name);
                value.iter().for_each(|value| to.push_str(&format!("={value}")));
                to.push('\n');
            }
        }
    }

    /// Whether a `filename` stands among the options since the last `--name`.
    fn names_files(&self) -> bool {
        let text = if self.own.is_empty() { &self.global } else { &self.own };
        let scope = text.rsplit("\n[").next().unwrap_or_default();
        scope.lines().any(|line| line.starts_with("filename="))
    }

    fn texts(self, place: &str, around: &Surroundings<'_>) -> Result<Vec<NamedText>> {
        let heading = if self.global.is_empty() { "" } else { "[global]\n" };
        let with_global = |text: &str| format!("{heading}{}{text}", self.global);
        let mut made = Vec::new();
        if !self.own.is_empty() {
            let (text, readonly) = (with_global(&self.own), self.readonly);
            made.push(NamedText { name: place.to_owned(), text, readonly });
        }
        for name in self.files {
            let text = (around.text)(&name).map_err(|e| {
                let what = format!("`{name}`, a job file of the command line, cannot be read");
                Error::usage(what).with("at", place).source(e)
            })?;
            // Lines keep their numbers where nothing stands before them.
            let text = with_global(&only(&self.sections, &text));
            made.push(NamedText { name, text, readonly: self.readonly });
        }
        match made.is_empty() {
            false => Ok(made),
            true => Err(Error::usage("the command names no job and no job file")
                .with("at", place)
                .hint("fio runs `--name=NAME` with options behind it, or a job file")),
        }
    }
}

/// A job file without the sections that are not named; its lines keep their numbers.
fn only(sections: &[String], text: &str) -> String {
    if sections.is_empty() {
        return text.to_owned();
    }
    let mut kept = true;
    let line = |line: &str| {
        let heading = line.trim().strip_prefix('[').and_then(|rest| rest.split(']').next());
        if let Some(name) = heading {
            kept = name == "global" || sections.iter().any(|section| section == name);
        }
        if kept { format!("{line}\n") } else { "\n".to_owned() }
    };
    text.lines().map(line).collect()
}

/// What the commands of a text ask of fio's output; of formats and files the last one counts.
pub fn front_end(text: &str) -> FrontEnd {
    let mut asked = FrontEnd::default();
    if !looks_like(text) {
        return asked;
    }
    let lines = lines(text, MACHINE.environment).into_iter();
    let commands = lines.filter_map(|line| line.words.ok());
    for words in commands {
        let at = words.iter().position(|word| called(word));
        let mut named = false;
        for Word { name, value, .. } in at.map_or(Vec::new(), |at| options(&words[at + 1..])) {
            match (name.unwrap_or_default(), value) {
                ("output-format", Some(forms)) => {
                    asked.json = forms.split(',').any(|form| form.starts_with("json"));
                    if forms.split(',').any(|form| form == "json+") {
                        asked.notes.push(
                            "`--output-format=json+`: fio's JSON is written without the bins of latencies; the run directory \
                             has every I/O"
                                .to_owned(),
                        );
                    }
                }
                ("output", Some(file)) => asked.output = Some(file.to_owned()),
                ("name", _) => named = false,
                ("filename", _) => named = true,
                ("directory", Some(dir)) if named => asked.notes.push(format!(
                    "`--directory={dir}` stands behind `--filename`, so that the file does not lie in it, in fio as here"
                )),
                ("status-interval", _) => asked.notes.push(
                    "`--status-interval` prints nothing here: --tui and --live show the run while it goes on, and its \
                     directory has every interval"
                        .to_owned(),
                ),
                ("idle-prof", _) => asked.notes.push("`--idle-prof` prints nothing here".to_owned()),
                _ => {}
            }
        }
    }
    asked
}

/// Lines with those that a backslash ends joined to the next, and the number of the first; without comments.
fn joined(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        let (part, goes_on) = match line.strip_suffix('\\') {
            Some(part) => (part, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| open) {
            Some((_, before)) => before.push_str(&format!(" {part}")),
            None => lines.push((index + 1, part.to_owned())),
        }
        open = goes_on;
    }
    lines.retain(|(_, line)| !line.trim().is_empty() && !line.trim_start().starts_with('#'));
    lines
}

/// A line of a script and its words.
struct ScriptLine {
    number: usize,
    line: String,
    words: std::result::Result<Vec<String>, String>,
}

/// The lines of a script but those that set a variable (`DIR=/mnt/test`), which stands in the words behind it.
fn lines(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Vec<ScriptLine> {
    let mut set: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    let joined = joined(text);
    let last = joined.last().map(|(number, _)| *number);
    for (number, line) in joined {
        // Nothing runs beside the last one.
        let alone = line.strip_suffix('&').filter(|rest| !rest.ends_with('&'));
        let alone = alone.filter(|_| last == Some(number));
        let known = |name: &str| set.get(name).cloned().or_else(|| environment(name));
        let words = split_words(alone.unwrap_or(&line), &known);
        let assigned = words.as_ref().ok().and_then(|words| match words.as_slice() {
            [one] => one.split_once('='),
            [export, one] if export == "export" => one.split_once('='),
            _ => None,
        });
        match assigned.filter(|(name, _)| !name.is_empty() && name.chars().all(of_name)) {
            Some((name, value)) => _ = set.insert(name.to_owned(), value.to_owned()),
            None => found.push(ScriptLine { number, line, words }),
        }
    }
    found
}

/// Whether a character may stand in the name of a variable.
fn of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The value of the variable whose name stands next, with or without braces, which is then passed over.
fn variable(
    chars: &mut std::str::Chars<'_>,
    value: &dyn Fn(&str) -> Option<String>,
) -> Option<String> {
    let rest = chars.as_str();
    let (name, used) = match rest.strip_prefix('{') {
        Some(rest) => rest.split_once('}').map(|(name, _)| (name, name.len() + 2))?,
        None => {
            let end = rest.find(|c| !of_name(c)).unwrap_or(rest.len());
            (&rest[..end], end)
        }
    };
    let known = value(name).filter(|_| !name.is_empty() && name.chars().all(of_name))?;
    *chars = rest[used..].chars();
    Some(known)
}

/// Words as a shell splits them, without what redirects output: quotes keep blanks, `value` knows variables. Errors:
/// what only a shell can work out, in words.
fn split_words(
    line: &str,
    value: &dyn Fn(&str) -> Option<String>,
) -> std::result::Result<Vec<String>, String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    let mut chars = line.chars();
    let beside = || format!("`{line}` runs beside the next command, which needs a shell");
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            ('\\', None) => word.get_or_insert_default().extend(chars.next()),
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            ('#', None) if word.is_none() => break,
            // What is printed where does not change the load.
            ('>' | '|', None) => {
                if chars.as_str().trim_end().ends_with('&') {
                    return Err(beside());
                }
                // `2>` names what is printed, and is no word.
                let descriptor = |w: &String| c == '>' && w.bytes().all(|b| b.is_ascii_digit());
                word = word.filter(|w| !descriptor(w));
                break;
            }
            ('&' | ';', None) => match chars.as_str().trim() {
                "" if c == '&' => return Err(beside()),
                rest if rest.starts_with('>') && rest.ends_with('&') => return Err(beside()),
                rest if rest.is_empty() || rest.starts_with('>') => break,
                _ => return Err(format!("`{line}` holds several commands")),
            },
            ('$', None | Some('"')) => match variable(&mut chars, value) {
                Some(text)
                    if quote.is_none()
                        && (text.is_empty()
                            || text.contains(|c: char| c.is_whitespace() || "*?[".contains(c))) =>
                {
                    return Err(format!(
                        "`{line}` needs a shell: a variable without quotes is several words there, or none"
                    ));
                }
                Some(text) => word.get_or_insert_default().push_str(&text),
                // fio replaces `${NAME}` as a shell does, and says where there is none.
                None if chars.as_str().starts_with('{') => word.get_or_insert_default().push(c),
                None => {
                    return Err(format!("`{line}` needs a shell, or a variable that is not set"));
                }
            },
            ('`', None | Some('"')) => return Err(format!("`{line}` needs a shell")),
            (c, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> Vec<NamedText> {
        let files = |path: &str| match path {
            "x.fio" => Ok("[x]\nrw=read\n".to_owned()),
            _ => Err(std::io::ErrorKind::NotFound.into()),
        };
        let around = Surroundings {
            environment: &|_| None,
            text: &files,
            existing: &|_| None,
            listed: &|_| Ok(Vec::new()),
        };
        script(text, "a.sh", &around).unwrap()
    }

    #[test]
    fn words_become_lines() {
        let one = made("fio --name=a --rw=randread --size 64m --thread --bs=4k --output=x.log\n");
        assert_eq!(one[0].text, "[a]\nrw=randread\nsize=64m\nthread\nbs=4k\n");
        let single = made(
            "#!/bin/sh\n# why\nsudo fio -direct=1 -iodepth 8 -thread \\\n  -name=t -rw='randread'\n",
        );
        assert_eq!(single[0].text, "[global]\ndirect=1\niodepth=8\nthread\n[t]\nrw=randread\n");
        assert_eq!(single[0].name, "a.sh:3");
        let printed = made("fio --size=1m --name=a --rw=read 2>&1 | tee log\n");
        assert_eq!(printed, made("fio --size=1m --name=a --rw=read\n"));
        let two = made("fio --size=1m --name=a --rw=read --name=b --rw=write > out.txt 2>&1\n");
        assert_eq!(two[0].text, "[global]\nsize=1m\n[a]\nrw=read\n[b]\nrw=write\n");
        assert_eq!(
            made("fio --output-format=json --bs=8k x.fio\n")[0].text,
            "[global]\nbs=8k\n[x]\nrw=read\n"
        );
        assert_eq!(made("fio --name=y --refill_buffers x.fio\n").len(), 2, "no value but a file");
        assert_eq!(made("fio x.fio\nfio --name=y\n").len(), 2);
        assert_eq!(made("fio x.fio\nfio --name=y > y.log &\n").len(), 2, "the last one");
        let behind =
            made("fio --name=a --filename=f --directory=d --name=b --directory=d --filename=f\n");
        assert_eq!(behind[0].text, "[a]\nfilename=f\n[b]\ndirectory=d\nfilename=f\n");
        let set =
            made("DIR=/mnt/a\nexport N=4\nfio --name=a --directory=$DIR/x --numjobs=\"${N}\"\n");
        assert_eq!(set[0].text, "[a]\ndirectory=/mnt/a/x\nnumjobs=4\n");
    }

    #[test]
    fn what_a_shell_would_do_is_refused() {
        let around = Surroundings {
            environment: &|_| None,
            text: &|_| Err(std::io::ErrorKind::NotFound.into()),
            existing: &|_| None,
            listed: &|_| Ok(Vec::new()),
        };
        for text in [
            "fio --name=`date`\n",
            "fio --name=$(date)\n",
            "mkdir x\nfio --name=a\n",
            // Names of files would mean others, and caches stay full.
            "cd x\nfio --name=a --filename=f\n",
            "echo 3 > /proc/sys/vm/drop_caches\nfio --name=a\n",
            "fio --rw=read\n",
            "fio absent.fio\n",
            "fio --client=h --name=a\n",
            "fio --name=a; rm x\n",
            "fio --name=a &\nfio --name=b &\n",
            "fio --name=a > a.log 2>&1 &\nfio --name=b\n",
            "fio --name=a &> a.log &\nfio --name=b\n",
            "DEV=x fio --name=a\n",
            "fio --name=a --filename=$DEV\n",
        ] {
            assert!(script(text, "a.sh", &around).is_err(), "{text}");
        }
    }

    #[test]
    fn a_call_of_fio_is_told_from_a_job_file() {
        for text in [
            "fio --name=a",
            "#!/bin/sh\nsudo /usr/bin/fio -name=a",
            "fio x.fio",
            "fio \\\n --name=a",
        ] {
            assert!(looks_like(text), "{text}");
        }
        for text in ["[a]\ndescription=run fio --x", "name = \"fio\"\n", "# fio --name=a\n[a]\n"] {
            assert!(!looks_like(text), "{text}");
        }
    }
}
