//! A result while it is read: line by line, with the place for messages, and never more of it in memory than a reader
//! asks for.

use std::fmt::Display;
use std::io::{BufRead, Read};

use taillight_core::{Error, Result};

/// Longest line, bytes: a packed histogram of five digits has less.
const LONGEST_LINE: u64 = 8 << 20;
/// What programs of Windows put before a text.
pub const BOM: &str = "\u{feff}";
/// What a text of two bytes a character begins with.
const WIDE: [[u8; 2]; 2] = [[0xff, 0xfe], [0xfe, 0xff]];
/// Longest result that is read as a whole, bytes.
const LARGEST: u64 = 1 << 30;
/// Longest result that is one JSON and is read by lines, bytes.
const LARGEST_JSON: usize = 256 << 20;

const UTF16: &str = "the file is UTF-16: save it as UTF-8";

/// Whether a text has two bytes a character, as some programs of Windows write.
pub fn is_wide(begin: &[u8]) -> bool {
    WIDE.iter().any(|mark| begin.starts_with(mark))
}

/// Unit of the values of a result, where the result itself does not tell: `--unit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultUnit {
    Ns,
    Us,
    Ms,
    S,
    /// KiB/s: values are bandwidths.
    Kib,
    /// Values are I/Os per second.
    Iops,
}

impl ResultUnit {
    /// By its name on the command line.
    pub const ALL: [(&'static str, ResultUnit); 6] = [
        ("ns", ResultUnit::Ns),
        ("us", ResultUnit::Us),
        ("ms", ResultUnit::Ms),
        ("s", ResultUnit::S),
        ("kib/s", ResultUnit::Kib),
        ("iops", ResultUnit::Iops),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, unit)| *unit == self).map_or("", |(name, _)| name)
    }

    /// Nanoseconds of one; none for what is no time.
    pub fn ns(self) -> Option<u64> {
        match self {
            ResultUnit::Ns => Some(1),
            ResultUnit::Us => Some(1_000),
            ResultUnit::Ms => Some(1_000_000),
            ResultUnit::S => Some(1_000_000_000),
            ResultUnit::Kib | ResultUnit::Iops => None,
        }
    }
}

/// A result while it is read.
pub struct ResultSource<'a> {
    /// The file as it was named.
    pub file: &'a str,
    /// SHA-256 of all bytes of the file, hexadecimal.
    pub sha256: String,
    /// What the user says of values.
    pub unit: Option<ResultUnit>,
    input: Box<dyn BufRead + 'a>,
    line: u64,
    held: Vec<u8>,
}

impl<'a> ResultSource<'a> {
    pub fn new(file: &'a str, sha256: String, input: Box<dyn BufRead + 'a>) -> ResultSource<'a> {
        ResultSource { file, sha256, unit: None, input, line: 0, held: Vec::new() }
    }

    /// With what the user says of values.
    pub fn in_unit(self, unit: Option<ResultUnit>) -> ResultSource<'a> {
        ResultSource { unit, ..self }
    }

    /// The next line without its end, its carriage return and blanks around it. Errors: `Corrupt` for a line that is
    /// too long or no UTF-8; as [`unreadable`] for what cannot be read.
    pub fn next_line(&mut self) -> Result<Option<&str>> {
        self.held.clear();
        let read = self.input.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.held);
        match read {
            Ok(0) => return Ok(None),
            Ok(_) => self.line += 1,
            Err(e) => return Err(self.unreadable(e)),
        }
        if self.line == 1 && self.held.starts_with(BOM.as_bytes()) {
            self.held.drain(..BOM.len());
        }
        if self.held.len() as u64 == LONGEST_LINE && self.held.last() != Some(&b'\n') {
            return Err(self.damaged("the line is too long").with("bytes at most", LONGEST_LINE));
        }
        if self.line == 1 && is_wide(&self.held) {
            return Err(self.damaged(UTF16));
        }
        match std::str::from_utf8(&self.held) {
            Ok(text) => Ok(Some(text.trim())),
            Err(e) => Err(self.damaged("the line is not text").source(e)),
        }
    }

    /// The next line, which has its end. Errors: as [`ResultSource::next_line`]; `Corrupt` for one that is cut short.
    pub fn whole_line(&mut self) -> Result<Option<String>> {
        let Some(line) = self.next_line()?.map(str::to_owned) else { return Ok(None) };
        match self.ended() {
            true => Ok(Some(line)),
            false => Err(self.cut("the last line has no end")),
        }
    }

    /// All that is left. Errors: `Usage` for more than 1 GiB; `Corrupt` for what is no UTF-8; as [`unreadable`].
    pub fn text(&mut self) -> Result<String> {
        let mut bytes = Vec::new();
        let read = self.input.by_ref().take(LARGEST + 1).read_to_end(&mut bytes);
        if bytes.len() as u64 > LARGEST {
            return Err(Error::usage("the result is too large")
                .with("path", self.file)
                .with("bytes at most", LARGEST));
        }
        read.map_err(|e| self.unreadable(e))?;
        if is_wide(&bytes) {
            return Err(Error::corrupt(UTF16).with("path", self.file));
        }
        String::from_utf8(bytes)
            .map_err(|e| Error::corrupt("the result is not text").with("path", self.file).source(e))
    }

    /// Whether the last line has its end: one that is cut short has none.
    pub fn ended(&self) -> bool {
        self.held.last().is_none_or(|last| *last == b'\n')
    }

    /// An error with the place of the line read last.
    pub fn placed(&self, e: Error) -> Error {
        e.with("path", self.file).with("line", self.line)
    }

    /// What is wrong with the line read last.
    pub fn damaged(&self, why: impl Display) -> Error {
        self.placed(Error::corrupt(why.to_string()))
    }

    /// The result ends too early.
    pub fn cut(&self, missing: &str) -> Error {
        self.damaged(format!("the result is cut short: {missing}"))
    }

    /// JSON that a reader has put together from lines and that cannot be read: cut short, or damaged (`what`).
    pub fn bad_json(&self, what: &str, e: serde_json::Error) -> Error {
        match e.is_eof() {
            true => self.cut("the JSON does not end").source(e),
            false => self.damaged(what).with("because", e),
        }
    }

    /// All lines that are left, as JSON. Errors: as [`Self::bad_json`], and those of a line.
    pub fn json<T: serde::de::DeserializeOwned>(&mut self, what: &str) -> Result<T> {
        let mut text = String::new();
        while let Some(line) = self.next_line()? {
            text.push_str(line);
            text.push('\n');
            if text.len() > LARGEST_JSON {
                return Err(self
                    .damaged("the JSON is too long")
                    .with("bytes at most", LARGEST_JSON));
            }
        }
        serde_json::from_str(&text).map_err(|e| self.bad_json(what, e))
    }

    /// What the result says of its unit holds. Errors: `Usage` where `--unit` says another.
    pub fn says_unit(&self, own: ResultUnit) -> Result<()> {
        match self.unit {
            Some(said) if said != own => Err(Error::usage("the result is in another unit")
                .with("path", self.file)
                .with("--unit", said.name())
                .with("unit of the result", own.name())
                .hint("leave --unit out")),
            _ => Ok(()),
        }
    }

    /// Nanoseconds of one in the unit that the user says, since the result does not. Errors: `Usage`.
    pub fn asked_ns(&self, why: &str) -> Result<u64> {
        self.unit.and_then(ResultUnit::ns).ok_or_else(|| {
            Error::usage(format!("the unit of the latencies is not in the file: {why}"))
                .with("path", self.file)
                .hint("say it with --unit ns, us, ms or s")
        })
    }

    fn unreadable(&self, e: std::io::Error) -> Error {
        unreadable(self.file, e).with("after line", self.line)
    }
}

/// The error of a result that cannot be read: `Unavailable` where the system says so, `Corrupt` where what unpacks it
/// does, of a file that is damaged or cut short.
pub fn unreadable(file: impl Display, e: std::io::Error) -> Error {
    match e.raw_os_error() {
        Some(_) => Error::unavailable("cannot read the file").with("path", file).source(e),
        None => {
            Error::corrupt("the packed file is damaged or cut short").with("path", file).source(e)
        }
    }
}

/// A number that a tool prints of what it measured: finite, and not below zero.
pub fn figure(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// Fields of a row; a quoted one may have separators, and two quotes for one (RFC 4180).
pub fn fields(row: &str, separator: char) -> Vec<String> {
    let (mut all, mut field) = (Vec::new(), String::new());
    let (mut quoted, mut chars) = (false, row.chars().peekable());
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            c if c == separator && !quoted => all.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    all.push(field);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(bytes: &[u8]) -> ResultSource<'_> {
        ResultSource::new("a", String::new(), Box::new(bytes))
    }

    #[test]
    fn lines_come_with_their_place_and_are_bounded() {
        let mut it = source(b"a \r\n\xff\nc");
        assert_eq!(it.next_line().unwrap(), Some("a"));
        assert_eq!(source("\u{feff}a\n".as_bytes()).next_line().unwrap(), Some("a"));
        let error = it.next_line().unwrap_err().to_string();
        assert!(error.contains("not text") && error.contains("line: 2"), "{error}");
        assert_eq!(it.next_line().unwrap(), Some("c"));
        assert!(!it.ended());
        assert_eq!(it.next_line().unwrap(), None);
        let huge = vec![b'1'; LONGEST_LINE as usize + 1];
        let error = source(&huge).next_line().unwrap_err().to_string();
        assert!(error.contains("too long") && error.contains("line: 1"), "{error}");
    }

    #[test]
    fn a_unit_that_the_result_does_not_have_is_refused() {
        let mut it = source(b"");
        assert!(it.says_unit(ResultUnit::Us).is_ok() && it.asked_ns("x").is_err());
        it.unit = Some(ResultUnit::Ms);
        assert!(it.says_unit(ResultUnit::Us).is_err());
        assert_eq!(it.asked_ns("x").unwrap(), 1_000_000);
        it.unit = Some(ResultUnit::Iops);
        assert!(it.asked_ns("x").is_err());
    }
}
