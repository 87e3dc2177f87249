//! Standard output. A reader that went away (`| head`) ends the output, not the program. Text gets the
//! terminal back from a screen first.

use std::io::{self, Write};

use serde::Serialize;
use taillight_core::{Error, Result};
use taillight_live::screen::restore;

/// Writes a whole text. Errors: `Unavailable` when standard output cannot take it; a closed pipe is
/// no error.
pub fn text(text: &str) -> Result<()> {
    write(&mut io::stdout().lock(), text)
}

/// Writes a value as JSON, for programs. Errors: as [`text`].
pub fn json(value: &impl Serialize) -> Result<()> {
    let pretty = serde_json::to_string_pretty(value)
        .map_err(|e| Error::internal("the answer cannot be written as JSON").source(e))?;
    text(&(pretty + "\n"))
}

fn write(out: &mut impl Write, text: &str) -> Result<()> {
    restore();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::unavailable("cannot write to standard output").source(e))
        }
        _ => Ok(()),
    }
}

/// Writes one line while something else goes on; whether anyone reads it does not matter.
pub fn line(text: &str) {
    restore();
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{text}").and_then(|()| out.flush());
}

/// The same to standard error.
pub fn note(text: &str) {
    restore();
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Text in columns: each as wide as its widest cell, the last one as it is.
pub fn columns(rows: &[Vec<String>]) -> String {
    let width = |i: usize| {
        rows.iter().filter_map(|r| r.get(i)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..rows.iter().map(Vec::len).max().unwrap_or(0)).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
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
    fn columns_line_up() {
        let rows = [vec!["a".into(), "b".into()], vec!["long".into(), "c".into()]];
        assert_eq!(columns(&rows), "a     b\nlong  c\n");
    }
}
