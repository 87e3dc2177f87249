//! One section's options by name, with the place of every complaint. What they mean together is
//! for `section` and its parts.
//!
//! Complaints are kept, not returned: a file is refused with all of them at once. What could not be read
//! counts as not given, so that the rest is looked at as well.

use std::cell::RefCell;

use taillight_core::Error;
use taillight_core::units::ByteSize;

use super::around::Surroundings;
use super::lex::{OptionLine, RawSection};
use super::options::OPTIONS;
use super::value::{self, Direction, KbBase, Parsed};
use crate::effect::Effect;

/// What to use instead of some refused options.
#[rustfmt::skip]
const HINTS: [(&str, &str); 3] = [
    ("read_iolog", "`taillight run --path FILE --replay LOG` replays the log itself (docs/replay.md)"),
    ("latency_target", "`taillight search JOB --queue-depth 1..128 --ceiling 500us@99.9` finds the largest depth that keeps \
      it (docs/search.md): take the lines out, and give them there"),
    ("cmdprio_bssplit", "make two sections side by side, each with its prio and prioclass"),
];

/// Reads options of one section by name, and keeps what is said of them: complaints and notes. Of an option that is
/// given several times the last one counts.
pub struct SectionReader<'a> {
    section: &'a RawSection,
    base: KbBase,
    /// What is asked of the machine.
    pub around: &'a Surroundings<'a>,
    wrong: RefCell<Vec<Error>>,
    notes: RefCell<Vec<String>>,
}

impl<'a> SectionReader<'a> {
    /// For a section of a file.
    pub fn new(section: &'a RawSection, around: &'a Surroundings<'a>) -> SectionReader<'a> {
        let (wrong, notes) = (RefCell::default(), RefCell::default());
        let mut reader = SectionReader { section, base: KbBase::Binary, around, wrong, notes };
        reader.base = match reader.raw("kb_base") {
            Some("1000") => KbBase::Decimal,
            None | Some("1024") => KbBase::Binary,
            Some(_) => reader.wrong("kb_base", "it is 1024 or 1000", KbBase::Binary),
        };
        reader
    }

    /// The section as it is written.
    pub fn section(&self) -> &'a RawSection {
        self.section
    }

    /// Everything that is wrong, and what a reader should know, each in the order in which it was kept.
    pub fn said(self) -> (Vec<Error>, Vec<String>) {
        (self.wrong.into_inner(), self.notes.into_inner())
    }

    /// Keeps what becomes of options that are not mapped: a complaint of one that is refused, a note of one that is
    /// without effect here, nothing where its value asks for nothing. Notes what variables were replaced by.
    pub fn judge(&self) {
        for line in &self.section.lines {
            if let Some(written) = &line.written {
                let value = line.value.as_deref().unwrap_or_default();
                self.note(line, &format!("`{written}` is {value} here"));
            }
            let counts = self.section.counts(line);
            let Some(effect) = OPTIONS.effect(line.name).filter(|_| counts) else {
                continue;
            };
            match (effect.refuses(line.value.as_deref().unwrap_or("1")), effect) {
                (Some(changes), _) => {
                    // In the text itself: of several complaints no hint is shown.
                    let instead = HINTS.iter().find(|(name, _)| line.name == *name);
                    let instead = instead.map_or(String::new(), |(_, hint)| format!("; {hint}"));
                    let what = format!("it has no equivalent; it would change {changes}{instead}");
                    let hint = "take the line out if that does not matter";
                    self.wrong_but(line.name, &what, hint, ());
                }
                (None, Effect::Same(why) | Effect::Only { why, .. }) => self.note(line, why),
                _ => {}
            }
        }
    }

    /// Keeps a note about a line.
    pub fn note(&self, line: &OptionLine, text: &str) {
        let file = |place: &'a str| place.rsplit_once(':').unwrap_or(("", ""));
        let ((own, _), place) = (file(&self.section.place), line.place.as_str());
        // Of a file that is included its name as well.
        match place.strip_prefix(own).and_then(|rest| rest.strip_prefix(':')) {
            Some(number) => self.say(format!("line {number}, {}: {text}", line.name)),
            None => self.say(format!("{place}, {}: {text}", line.name)),
        }
    }

    /// Keeps a note about an option, if it is given.
    pub fn note_if(&self, name: &str, text: &str) {
        if let Some(line) = self.line(name) {
            self.note(line, text);
        }
    }

    /// Keeps a note about the section.
    pub fn note_section(&self, text: &str) {
        self.say(format!("[{}]: {text}", self.section.name));
    }

    fn say(&self, note: String) {
        self.notes.borrow_mut().push(note);
    }

    /// The line of an option that counts, if given.
    pub fn line(&self, name: &str) -> Option<&'a OptionLine> {
        self.section.line(name)
    }

    /// The text of an option, if given. One that is empty is a complaint, and counts as not given: fio refuses that as
    /// well.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        let line = self.line(name)?;
        if line.value.is_none() {
            let what = match &line.written {
                Some(written) => format!("`{written}` is empty: the variable is not set"),
                None => "it needs a value".to_owned(),
            };
            self.wrong(name, &what, ());
        }
        line.value.as_deref()
    }

    /// An error about an option of this section, or about the section if it is not given.
    pub fn error(&self, name: &str, what: &str) -> Error {
        let place = self.line(name).map_or(&self.section.place, |l| &l.place);
        Error::usage(format!("`{name}` in [{}]: {what}", self.section.name)).with("at", place)
    }

    /// Keeps a complaint.
    pub fn complain(&self, error: Error) {
        self.wrong.borrow_mut().push(error);
    }

    /// Keeps a complaint about an option, and goes on with `instead`.
    pub fn wrong<T>(&self, name: &str, what: &str, instead: T) -> T {
        self.complain(self.error(name, what));
        instead
    }

    /// As [`wrong`](Self::wrong), with what to write instead.
    pub fn wrong_but<T>(&self, name: &str, what: &str, hint: &str, instead: T) -> T {
        self.complain(self.error(name, what).hint(hint));
        instead
    }

    /// The value of an option; `None` where it is not given, or cannot be read, which is a complaint. So it is with
    /// each kind of value below.
    pub fn value<T>(&self, name: &str, parse: impl FnOnce(&str) -> Parsed<T>) -> Option<T> {
        match parse(self.raw(name)?) {
            Ok(value) => Some(value),
            Err(what) => self.wrong(name, &what, None),
        }
    }

    /// A whole number, also with `k` and the like.
    pub fn integer(&self, name: &str) -> Option<u64> {
        self.value(name, |t| self.parse_size(t))
    }

    /// A whole number that fits 32 bits.
    pub fn small_integer(&self, name: &str) -> Option<u32> {
        self.value(name, |t| {
            let n = self.parse_size(t)?;
            u32::try_from(n).map_err(|_| format!("{n} is too large"))
        })
    }

    /// A switch, which is on where it is given without a value; `default` where it is not given or cannot be read.
    pub fn boolean(&self, name: &str, default: bool) -> bool {
        let Some(line) = self.line(name) else {
            return default;
        };
        match value::boolean(line.value.as_deref()) {
            Ok(on) => on,
            Err(what) => self.wrong(name, &what, default),
        }
    }

    /// A time; a bare number counts `unit_ns` each. `None` for 0 as well.
    pub fn time(&self, name: &str, unit_ns: u64) -> Option<taillight_core::units::Span> {
        self.value(name, |t| value::time(t, unit_ns)).filter(|t| t.0 > 0)
    }

    /// A size.
    pub fn size(&self, name: &str) -> Option<ByteSize> {
        self.value(name, |t| value::size(t, self.base))
    }

    /// A size or percentage.
    pub fn amount(&self, name: &str) -> Option<value::Amount> {
        self.value(name, |t| value::amount(t, self.base))
    }

    /// A size for one direction of those that may be given with commas between; `None` as well where this one is empty.
    pub fn size_for(&self, name: &str, direction: Direction) -> Option<ByteSize> {
        let parsed = self.value(name, |t| {
            value::for_direction(t, direction).map(|part| value::size(part, self.base)).transpose()
        });
        parsed.flatten()
    }

    /// Reads a size in the units of this section (`kb_base`). Errors: what is wrong with the text.
    pub fn parse_size(&self, text: &str) -> Parsed<u64> {
        value::size(text, self.base).map(|s| s.0)
    }
}
