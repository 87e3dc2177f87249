//! The mapping file of a bus capture, TOML: which columns of an analyser's table are time, completion or latency,
//! opcode, first block and length, and how they are written. Reads a line of the table as a command by it.

use serde::Deserialize;
use taillight_core::{Error, OpKind, Result};

use super::align::{self, TimedCommand};

/// The fields of the file.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BusMapping {
    /// Between columns. Default: a comma; `tab` is known.
    #[serde(default)]
    pub separator: Option<String>,
    /// Lines before the heading. Default: 0.
    #[serde(default)]
    pub skip: usize,
    /// When the command was first seen.
    pub time: TimeColumn,
    /// When its completion was seen; or give `latency`.
    #[serde(default)]
    pub end: Option<TimeColumn>,
    /// How long it took; or give `end`.
    #[serde(default)]
    pub latency: Option<TimeColumn>,
    pub opcode: OpcodeColumn,
    pub lba: LbaColumn,
    pub blocks: BlocksColumn,
    /// Only lines with this value in that column, like a namespace.
    #[serde(default)]
    pub only: Option<RowFilter>,
}

/// A column of times.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeColumn {
    pub column: String,
    /// Unit of its numbers.
    pub unit: TimeUnit,
}

/// Units of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    S,
    /// Milliseconds.
    Ms,
    /// Microseconds.
    Us,
    /// Nanoseconds.
    Ns,
}

/// The column of opcodes, and how they are written there.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpcodeColumn {
    pub column: String,
    #[serde(default)]
    pub read: Vec<String>,
    #[serde(default)]
    pub write: Vec<String>,
    #[serde(default)]
    pub trim: Vec<String>,
    #[serde(default)]
    pub flush: Vec<String>,
}

/// The column of first blocks.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LbaColumn {
    pub column: String,
    /// Bytes of a block. Default: 512.
    #[serde(default)]
    pub block: Option<u64>,
    /// Numbers are hexadecimal even without 0x. Default: false.
    #[serde(default)]
    pub hex: bool,
}

/// The column of lengths.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BlocksColumn {
    pub column: String,
    /// Zero means one block, as in the command itself. Default: false.
    #[serde(default)]
    pub zero_based: bool,
    /// Numbers are hexadecimal even without 0x. Default: false.
    #[serde(default)]
    pub hex: bool,
}

/// A choice of lines.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowFilter {
    /// Heading of the column.
    pub column: String,
    pub value: String,
}

/// Places of the columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ColumnIndices {
    time: usize,
    end: Option<usize>,
    latency: Option<usize>,
    opcode: usize,
    lba: usize,
    blocks: usize,
    only: Option<usize>,
}

impl TimeUnit {
    /// Nanoseconds of one, as a power of ten.
    fn digits(self) -> usize {
        match self {
            TimeUnit::S => 9,
            TimeUnit::Ms => 6,
            TimeUnit::Us => 3,
            TimeUnit::Ns => 0,
        }
    }

    /// A decimal number as nanoseconds, without going through a float: capture times are long.
    fn parse(self, text: &str) -> Option<i64> {
        let text: String = text.trim().chars().filter(|c| !matches!(c, ',' | '_' | ' ')).collect();
        let (sign, text) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest.to_owned()),
            None => (1, text),
        };
        let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
        if whole.is_empty() && part.is_empty() || !part.chars().all(|c| c.is_ascii_digit()) {
            return None;
        }
        let digits = self.digits();
        let mut part: String = part.chars().take(digits).collect();
        while part.len() < digits {
            part.push('0');
        }
        let number = format!("{whole}{part}");
        number.parse::<i64>().ok()?.checked_mul(sign)
    }
}

fn number(text: &str, hex: bool) -> Option<u64> {
    let text = text.trim();
    let plain = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    match plain {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None if hex => u64::from_str_radix(text.trim_end_matches(['h', 'H']), 16).ok(),
        None => text.replace(',', "").parse().ok(),
    }
}

impl BusMapping {
    /// Parses the text of the file. Errors: `Usage` when it is no such file, or does not give exactly one of
    /// `end` and `latency`.
    pub fn parse(text: &str) -> Result<BusMapping> {
        let map: BusMapping = toml::from_str(text).map_err(|e| {
            Error::usage("the mapping file cannot be used")
                .source(e)
                .hint("docs/bus-mapping.toml is an example with every field")
        })?;
        if map.end.is_some() == map.latency.is_some() {
            return Err(Error::usage(
                "the mapping file must name the completion time or the latency, one of them",
            )
            .hint("add [latency] with column and unit, or [end]"));
        }
        Ok(map)
    }

    pub(super) fn delimiter(&self) -> Result<char> {
        match self.separator.as_deref() {
            None => Ok(','),
            Some("tab") => Ok('\t'),
            Some(text) => {
                let mut letters = text.chars();
                match (letters.next(), letters.next()) {
                    (Some(c), None) => Ok(c),
                    _ => Err(Error::usage("the separator must be one letter, or tab")
                        .with("separator", text)),
                }
            }
        }
    }

    pub(super) fn spots(&self, heading: &[String]) -> Result<ColumnIndices> {
        let place = |name: &str| {
            let found = heading.iter().position(|h| h.trim() == name);
            found.ok_or_else(|| {
                Error::usage("the table has no such column")
                    .with("column", name)
                    .with("columns", heading.join(", "))
                    .hint("headings must match letter by letter; see skip in the mapping file")
            })
        };
        let maybe = |name: Option<&str>| name.map(place).transpose();
        Ok(ColumnIndices {
            time: place(&self.time.column)?,
            end: maybe(self.end.as_ref().map(|c| c.column.as_str()))?,
            latency: maybe(self.latency.as_ref().map(|c| c.column.as_str()))?,
            opcode: place(&self.opcode.column)?,
            lba: place(&self.lba.column)?,
            blocks: place(&self.blocks.column)?,
            only: maybe(self.only.as_ref().map(|o| o.column.as_str()))?,
        })
    }

    /// The command of a line; `Some(None)` for one that is of no interest, `None` for one that
    /// cannot be read.
    pub(super) fn command(
        &self,
        record: &[String],
        spots: &ColumnIndices,
    ) -> Option<Option<TimedCommand>> {
        let at = |i: usize| record.get(i).map(|c| c.trim());
        if let (Some(i), Some(only)) = (spots.only, &self.only)
            && at(i) != Some(only.value.as_str())
        {
            return Some(None);
        }
        let opcode = at(spots.opcode)?;
        let is = |list: &[String]| list.iter().any(|w| w.eq_ignore_ascii_case(opcode));
        let op = match () {
            () if is(&self.opcode.read) => OpKind::Read,
            () if is(&self.opcode.write) => OpKind::Write,
            () if is(&self.opcode.trim) => OpKind::Trim,
            () if is(&self.opcode.flush) => OpKind::Fsync,
            () => return Some(None),
        };
        let start = self.time.unit.parse(at(spots.time)?)?;
        let end = match (spots.end.zip(self.end.as_ref()), spots.latency.zip(self.latency.as_ref()))
        {
            (Some((i, column)), _) => column.unit.parse(at(i)?)?,
            (_, Some((i, column))) => start.checked_add(column.unit.parse(at(i)?)?)?,
            _ => return None,
        };
        if !align::is_stamp(start) || !align::is_stamp(end) || end < start {
            return None;
        }
        let block = self.lba.block.unwrap_or(512);
        let blocks = number(at(spots.blocks)?, self.blocks.hex)?;
        Some(Some(TimedCommand {
            start,
            end,
            op,
            byte: number(at(spots.lba)?, self.lba.hex)?.checked_mul(block)?,
            bytes: blocks.checked_add(u64::from(self.blocks.zero_based))?.checked_mul(block)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_keep_every_digit() {
        assert_eq!(TimeUnit::S.parse("1234567.123456789"), Some(1_234_567_123_456_789));
        assert_eq!(TimeUnit::Us.parse("1,000.5"), Some(1_000_500));
        assert_eq!(TimeUnit::Ns.parse("-7.9"), Some(-7));
        assert_eq!(TimeUnit::Ms.parse("x"), None);
        assert_eq!(TimeUnit::Ms.parse(""), None);
    }

    #[test]
    fn numbers_in_both_writings() {
        assert_eq!(number("0x1F", false), Some(31));
        assert_eq!(number("1Fh", true), Some(31));
        assert_eq!(number("1,024", false), Some(1024));
        assert_eq!(number("x", false), None);
    }

    #[test]
    fn the_example_is_sound_and_wrong_files_are_refused() {
        let text = include_str!("../../../../docs/bus-mapping.toml");
        let map = BusMapping::parse(text).unwrap();
        let heading = "Nothing here".split(',').map(str::to_owned).collect::<Vec<_>>();
        let e = map.spots(&heading).unwrap_err();
        assert!(e.to_string().contains("no such column") && e.hint_text().is_some());
        assert!(BusMapping::parse(&format!("{text}\n[wrong]\n")).is_err());
        let both = format!("{text}\n[end]\ncolumn = \"x\"\nunit = \"ns\"\n");
        assert!(BusMapping::parse(&both).unwrap_err().to_string().contains("one of them"));
        assert!(BusMapping::parse("[time]\n").unwrap_err().hint_text().is_some());
    }
}
