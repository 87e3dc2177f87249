//! The method `slc-paper`: the matrix of the study that introduced the SLC factors, and the factors
//! it printed.
//!
//! What it is: the method as data, and which runs it asks for in which order. What it is not: job
//! files or runs (`cli`), or the factors of a run (`stats`).

use std::collections::BTreeMap;

use serde::Deserialize;
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, Result};

/// The method as data.
const TEXT: &str = include_str!("../../../suites/slc-paper.toml");

/// The method.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcPaper {
    /// Name on the command line.
    pub name: String,
    /// One line for people.
    pub about: String,
    pub sizes: Vec<ByteSize>,
    /// How long and how much, by name.
    scale: BTreeMap<String, Scale>,
    /// Systems, in order.
    #[serde(rename = "system")]
    pub systems: Vec<System>,
    published: Vec<Published>,
}

/// How long and how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    pub time: Span,
    /// Bytes written at most.
    pub bytes: ByteSize,
}

/// A system of the study.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    pub name: String,
    pub title: String,
    /// The driver it is measured through.
    pub driver: String,
    pub write: String,
    pub read: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Published {
    system: String,
    op: String,
    slc1: Vec<i64>,
    slc2: Vec<i64>,
    figures: Vec<u32>,
    #[serde(default)]
    doubt: Vec<u32>,
}

/// What the paper prints for one place of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Printed {
    /// SLC1.
    pub slc1: i64,
    /// SLC2.
    pub slc2: i64,
    /// Number of the figure.
    pub figure: u32,
    /// The figure's own curve does not allow the number.
    pub doubt: bool,
}

/// What a run does: one writer, or one reader of what was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Write,
    Read,
}

impl Side {
    /// Both, in order.
    pub const BOTH: [Side; 2] = [Side::Write, Side::Read];
    /// Name in files and figures.
    pub fn name(self) -> &'static str {
        match self {
            Side::Write => "write",
            Side::Read => "read",
        }
    }
}

impl SlcPaper {
    /// Reads the method.
    ///
    /// # Errors
    /// `Usage` never: the text is part of the program, and a test reads it.
    pub fn new() -> Result<SlcPaper> {
        toml::from_str(TEXT).map_err(|e| Error::usage("this is no suite").with("why", e.message()))
    }

    /// The scale with this name.
    ///
    /// # Errors
    /// `Usage` for a name that is none.
    pub fn scale(&self, name: &str) -> Result<Scale> {
        let names: Vec<&str> = self.scale.keys().map(String::as_str).collect();
        self.scale.get(name).copied().ok_or_else(|| {
            Error::usage(format!("suite `{}` has no scale `{name}`", self.name))
                .hint(format!("it has: {}", names.join(", ")))
        })
    }

    /// What the paper prints; none for a place it does not have.
    pub fn printed(&self, system: &str, side: Side, size: ByteSize) -> Option<Printed> {
        let nth = self.sizes.iter().position(|s| *s == size)?;
        let of = |p: &&Published| p.system == system && p.op == side.name();
        let entry = self.published.iter().find(of)?;
        let figure = *entry.figures.get(nth)?;
        Some(Printed {
            slc1: *entry.slc1.get(nth)?,
            slc2: *entry.slc2.get(nth)?,
            figure,
            doubt: entry.doubt.contains(&figure),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_the_paper_s() {
        let method = SlcPaper::new().unwrap();
        assert_eq!(method.sizes, [100, 1_000, 100_000].map(ByteSize));
        let mut figures = Vec::new();
        for system in &method.systems {
            for side in Side::BOTH {
                for size in &method.sizes {
                    figures.push(method.printed(&system.name, side, *size).unwrap());
                }
            }
        }
        let numbers: Vec<u32> = figures.iter().map(|f| f.figure).collect();
        assert_eq!(numbers, (1..=24).collect::<Vec<_>>());
        let at = |n: usize| (figures[n - 1].slc1, figures[n - 1].slc2);
        assert_eq!(
            (at(1), at(3), at(10), at(21)),
            ((0, 3), (3, 107), (7, 8), (0, 1))
        );
        let doubted: Vec<u32> = figures
            .iter()
            .filter(|f| f.doubt)
            .map(|f| f.figure)
            .collect();
        assert_eq!(doubted, [9, 15]);
    }

    #[test]
    fn both_scales_exist() {
        let method = SlcPaper::new().unwrap();
        let (short, full) = (
            method.scale("short").unwrap(),
            method.scale("full").unwrap(),
        );
        assert!(short.time.0 < full.time.0 && short.bytes.0 < full.bytes.0);
        assert!(method.scale("huge").is_err());
        assert_eq!(method.printed("file", Side::Read, ByteSize(7)), None);
    }
}
