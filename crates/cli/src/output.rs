//! Standard output and standard error. A reader that went away (`| head`) ends the output, not the
//! program. A screen on the terminal (`--tui`) is taken down before text is written.
//!
//! Three kinds of words: the result of a command, what is shown on the way to it, and problems. `-q`
//! leaves out the second. With `--json` of a command that runs something or reports, a program reads standard output:
//! words for people go to standard error, and with `-q` too results in words are left out.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde::Serialize;
use taillight_core::units::readable::visible;
use taillight_core::{Error, Result};
use taillight_live::screen::restore;
use taillight_report::table;
use taillight_rundir::atomic::{self, TempFile};

use crate::args::JsonForm;

/// How much is said, and to whom.
#[derive(Debug, Clone, Copy, Default)]
pub struct OutputMode {
    pub quiet: bool,
    pub verbose: bool,
    /// Standard output is for a program, which reads this form of JSON.
    pub json: Option<JsonForm>,
    /// Nothing is said at all: another rank speaks.
    pub silent: bool,
}

static OUTPUT_MODE: OnceLock<OutputMode> = OnceLock::new();
/// What a command line of fio asks of its output: its JSON, and the file that it goes to.
static AS_FIO: OnceLock<(bool, Option<PathBuf>)> = OnceLock::new();

/// The beginning of a file that [`to_file`] has written: as JSON, or as text.
const JSON_HEAD: &str = "{\n  \"fio version\": \"taillight-";
const TEXT_HEAD: &str = "Taillight, as a command line of fio asks:\n";

/// From now on prints as a command line of fio asks: with `json` fio's JSON, into the `file` where there is one;
/// without, results in words go into the `file` as well. The file is not touched yet. Errors: `Usage` where it is no
/// regular file, or holds what Taillight has not written so; `Unavailable` where it cannot be written.
pub fn speak_as_fio(json: bool, file: Option<PathBuf>) -> Result<()> {
    if let Some(path) = &file {
        let named = |e: Error| e.with("--output", path.display());
        let ours =
            |head: &[u8]| [JSON_HEAD, TEXT_HEAD].iter().any(|own| head.starts_with(own.as_bytes()));
        atomic::may_write(path, ours).map_err(named)?;
        let (dir, name) = atomic::place(path)?;
        TempFile::create(dir, name).map_err(named)?;
    }
    let _ = AS_FIO.set((json, file));
    Ok(())
}

/// Adds text to the file that a command line of fio names; whether there is such a file. A silent rank writes nothing.
fn to_file(text: &str) -> Result<bool> {
    static WRITTEN: Mutex<String> = Mutex::new(String::new());
    let Some((_, Some(path))) = AS_FIO.get() else { return Ok(false) };
    if mode().silent {
        return Ok(true);
    }
    let mut written = WRITTEN.lock().unwrap_or_else(PoisonError::into_inner);
    if written.is_empty() && !text.starts_with(JSON_HEAD) {
        written.push_str(TEXT_HEAD);
    }
    written.push_str(text);
    let (dir, name) = atomic::place(path)?;
    atomic::write(dir, name, written.as_bytes()).map(|()| true)
}

/// Decides how this process prints; the first decision counts.
pub fn set_mode(mode: OutputMode) {
    let _ = OUTPUT_MODE.set(mode);
}

/// How this process prints, with what a command line of fio asks.
pub fn mode() -> OutputMode {
    let mode = OUTPUT_MODE.get().copied().unwrap_or_default();
    let fio = AS_FIO.get().is_some_and(|(json, _)| *json).then_some(JsonForm::Fio);
    OutputMode { json: mode.json.or(fio), ..mode }
}

/// Whether standard error is a terminal that can redraw a line.
pub fn redraws() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !dumb && !mode().silent && io::stderr().is_terminal()
}

/// Columns for text: what COLUMNS says, else the terminal's, else 80. `table::set_width` sets the bounds.
pub fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    };
    asked.or_else(terminal).unwrap_or(table::MOST_WIDTH)
}

/// Writes a whole text to standard output. Errors: `Unavailable` when standard output cannot take it; a closed pipe is
/// no error.
pub fn text(text: &str) -> Result<()> {
    write(&mut io::stdout().lock(), text)
}

/// Writes a value as JSON to standard output, for programs; where fio's JSON is asked for with a file, into that file
/// instead. Errors: as [`text`], and for that file.
pub fn json(value: &impl Serialize) -> Result<()> {
    let pretty = serde_json::to_string_pretty(value)
        .map_err(|e| Error::internal("the answer cannot be written as JSON").source(e))?;
    let pretty = pretty + "\n";
    if mode().json == Some(JsonForm::Fio) && to_file(&pretty)? {
        return Ok(());
    }
    text(&pretty)
}

fn write(out: &mut impl Write, text: &str) -> Result<()> {
    if mode().silent {
        return Ok(());
    }
    restore();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::unavailable("cannot write to standard output").source(e))
        }
        _ => Ok(()),
    }
}

/// Writes lines of a result, which may have colours: to standard output, and without colours to the file of a fio
/// command line; where a program reads standard output, to standard error instead, and with `-q` not at all. Lines that
/// cannot be written are no error.
pub fn result(text: &str) {
    let OutputMode { quiet, json, silent, .. } = mode();
    if silent {
        return;
    }
    restore();
    if json.is_none() {
        // Also into the file of a fio command line; one that cannot be written was refused at the start.
        let _ = to_file(&format!("{}\n", plain(text)));
        let mut out = io::stdout().lock();
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    } else if !quiet {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }
}

/// Without colours.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut coloured = false;
    for c in text.chars() {
        match c {
            '\u{1b}' => coloured = true,
            'm' if coloured => coloured = false,
            _ if coloured => {}
            c => out.push(c),
        }
    }
    out
}

/// Writes one line as [`result`] does; nothing with `-q`. Words that do not fit go on below, indented; what stands
/// in columns stays as it is.
pub fn line(text: &str) {
    if !mode().quiet {
        result(&folded(text));
    }
}

/// The line, or several where it is wider than the terminal. Empty lines above it stay.
fn folded(text: &str) -> String {
    let words = text.trim_start();
    let before = &text[..text.len() - words.len()];
    let indent = before.rsplit('\n').next().unwrap_or_default().len();
    let whole = words.contains("  ") || words.contains('\n');
    if whole || words.chars().count() + indent <= table::width() {
        return visible(text).into_owned();
    }
    let lines = table::wrap(words, table::width().saturating_sub(indent + 2));
    before.to_owned() + &lines.join(&format!("\n{:1$}", "", indent + 2))
}

/// Writes a note to standard error; nothing with `-q`.
pub fn note(text: &str) {
    if !mode().quiet {
        problem(text);
    }
}

/// Writes to standard error, with `-q` too; a silent rank writes nothing.
pub fn problem(text: &str) {
    if mode().silent {
        return;
    }
    restore();
    let mut err = io::stderr();
    // A program reads whole lines, and a command is copied as one.
    let folds = |line: &&str| err.is_terminal() && !line.contains('`');
    let lines = text.lines().map(|line| match Some(line).filter(folds) {
        Some(line) => folded(line),
        None => visible(line).into_owned(),
    });
    let text = lines.collect::<Vec<_>>().join("\n");
    let _ = writeln!(err, "{text}");
}

/// Text in columns: each as wide as its widest cell; the last one goes on below itself where the line is
/// full.
pub fn columns(rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows.iter().map(Vec::len).max().unwrap_or(0)).map(width).collect();
    let before: usize = widths.iter().rev().skip(1).map(|w| w + 2).sum();
    let room = table::width().saturating_sub(before).max(24);
    let mut text = String::new();
    for row in rows {
        let full = row.len() == widths.len();
        let last = row.last().filter(|_| full).map_or(Vec::new(), |cell| table::wrap(cell, room));
        let mut line = String::new();
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let cell = last.first().filter(|_| i + 1 == widths.len()).unwrap_or(cell);
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
        for more in last.iter().skip(1) {
            text.push_str(&format!("{:before$}{more}\n", ""));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed(io::ErrorKind);

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_error() {
        assert!(write(&mut Closed(io::ErrorKind::BrokenPipe), "x").is_ok());
        assert!(write(&mut Closed(io::ErrorKind::StorageFull), "x").is_err());
    }

    #[test]
    fn a_line_that_is_too_wide_goes_on_below() {
        for (before, below) in [("\n== ", "  "), ("  ", "    "), ("", "  ")] {
            let words = "seven letters and eight, ".repeat(8);
            let text = folded(&format!("{before}{words}"));
            assert!(text.starts_with(&format!("{before}seven")), "{text}");
            let lines: Vec<&str> = text.trim_start().lines().collect();
            assert!(lines.len() > 1 && lines.iter().all(|l| l.chars().count() <= 80), "{text}");
            assert!(lines[1..].iter().all(|l| l.starts_with(below)), "{text}");
        }
        assert_eq!(folded("\n== a"), "\n== a");
    }

    #[test]
    fn columns_line_up() {
        let rows = [vec!["a".into(), "b".into()], vec!["long".into(), "c".into()]];
        assert_eq!(columns(&rows), "a     b\nlong  c\n");
    }
}
