//! One section's options by name, with the place of every complaint. What they mean together is
//! for `load` and its parts.

use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};

use super::lex::{OptionLine, RawSection};
use super::options::OPTIONS;
use super::value::{self, Direction, KbBase, Parsed};
use crate::effect::Effect;

/// Reads options of one section.
pub struct SectionReader<'a> {
    file: &'a str,
    section: &'a RawSection,
    base: KbBase,
}

impl<'a> SectionReader<'a> {
    /// For a section of `file`. Errors: `Usage`.
    pub fn new(file: &'a str, section: &'a RawSection) -> Result<SectionReader<'a>> {
        let mut reader = SectionReader { file, section, base: KbBase::Binary };
        reader.base = match reader.raw("kb_base")? {
            None | Some("1024") => KbBase::Binary,
            Some("1000") => KbBase::Decimal,
            Some(_) => return Err(reader.error("kb_base", "it is 1024 or 1000")),
        };
        Ok(reader)
    }

    pub fn section(&self) -> &RawSection {
        self.section
    }

    /// Every option of a section that has no equivalent.
    pub fn refused(file: &str, section: &RawSection) -> Vec<Error> {
        let reader = SectionReader { file, section, base: KbBase::Binary };
        section.lines.iter().filter_map(|line| reader.refuse(line).err()).collect()
    }

    /// Fails for an option without equivalent whose value asks for something.
    fn refuse(&self, line: &OptionLine) -> Result<()> {
        let Some(Effect::Refused { unless, changes }) = OPTIONS.effect(line.name) else {
            return Ok(());
        };
        let value = line.value.as_deref().unwrap_or("1");
        // Only the line that counts matters, so that a section can take back a global option.
        let counts = self.section.line(line.name).is_some_and(|l| l == line);
        if !counts || unless.contains(&value) {
            return Ok(());
        }
        Err(self
            .error(line.name, &format!("it has no equivalent; it would change {changes}"))
            .hint("take the line out if that does not matter"))
    }

    /// What was accepted though it changes nothing, with the reason.
    pub fn accepted(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for line in &self.section.lines {
            if let Some(written) = &line.written {
                let value = line.value.as_deref().unwrap_or_default();
                notes.push(self.note(line, &format!("`{written}` is {value} here")));
            }
            if let Some(Effect::Same(why)) = OPTIONS.effect(line.name) {
                notes.push(self.note(line, why));
            }
        }
        notes
    }

    /// A note about a line.
    pub fn note(&self, line: &OptionLine, text: &str) -> String {
        format!("line {}, {}: {text}", line.number, line.name)
    }

    /// The line of an option, if given.
    pub fn line(&self, name: &str) -> Option<&OptionLine> {
        self.section.line(name)
    }

    /// The text of an option, if given. Errors: `Usage` with its place when it is empty: fio
    /// refuses that as well.
    pub fn raw(&self, name: &str) -> Result<Option<&str>> {
        match self.line(name) {
            None => Ok(None),
            Some(line) => match line.value.as_deref() {
                None => Err(match &line.written {
                    Some(written) => {
                        self.error(name, &format!("`{written}` is empty: the variable is not set"))
                    }
                    None => self.error(name, "it needs a value"),
                }),
                text => Ok(text),
            },
        }
    }

    /// An error about an option of this section, or about the section if it is not given.
    pub fn error(&self, name: &str, what: &str) -> Error {
        let number = self.line(name).map_or(self.section.number, |l| l.number);
        Error::usage(format!("`{name}` in [{}]: {what}", self.section.name))
            .with("at", format!("{}:{number}", self.file))
    }

    /// The value of an option, if given. Errors: `Usage` with its place when it cannot be read or
    /// is empty.
    pub fn value<T>(&self, name: &str, parse: impl FnOnce(&str) -> Parsed<T>) -> Result<Option<T>> {
        let Some(text) = self.raw(name)? else {
            return Ok(None);
        };
        parse(text).map(Some).map_err(|what| self.error(name, &what))
    }

    /// A whole number. Errors: `Usage` with its place.
    pub fn integer(&self, name: &str) -> Result<Option<u64>> {
        self.value(name, value::integer)
    }

    /// A whole number that fits 32 bits. Errors: `Usage` with its place.
    pub fn small_integer(&self, name: &str) -> Result<Option<u32>> {
        self.value(name, |t| {
            let n = value::integer(t)?;
            u32::try_from(n).map_err(|_| format!("{n} is too large"))
        })
    }

    /// A switch. Errors: `Usage` with its place.
    pub fn boolean(&self, name: &str, default: bool) -> Result<bool> {
        match self.line(name) {
            None => Ok(default),
            Some(line) => {
                value::boolean(line.value.as_deref()).map_err(|what| self.error(name, &what))
            }
        }
    }

    /// A size. Errors: `Usage` with its place.
    pub fn size(&self, name: &str) -> Result<Option<ByteSize>> {
        self.value(name, |t| value::size(t, self.base))
    }

    /// A size or percentage. Errors: `Usage` with its place.
    pub fn amount(&self, name: &str) -> Result<Option<value::Amount>> {
        self.value(name, |t| value::amount(t, self.base))
    }

    /// A size for one direction. Errors: `Usage` with its place.
    pub fn size_for(&self, name: &str, direction: Direction) -> Result<Option<ByteSize>> {
        let parsed = self.value(name, |t| {
            value::for_direction(t, direction).map(|part| value::size(part, self.base)).transpose()
        })?;
        Ok(parsed.flatten())
    }

    /// A size in the units of this section.
    pub fn parse_size(&self, text: &str) -> Parsed<u64> {
        value::size(text, self.base).map(|s| s.0)
    }
}
