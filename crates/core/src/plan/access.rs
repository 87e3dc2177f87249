//! Which offsets or keys, in which order: one vocabulary for both. A job says it in a word or a table
//! (`job::AccessForm`), `job::check` refuses fields of other patterns, and the generators of `engine` go by it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::op::OpKind;
use crate::units::ByteSize;

/// Which offsets (or keys), in which order: `{ kind = "random", align = "512B" }`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    default,
    expecting = "a pattern like \"random\", or a table like { kind = \"random\", align = \"4KiB\" }"
)]
#[schemars(deny_unknown_fields)]
pub struct Access {
    /// The pattern. Default: random.
    pub kind: AccessKind,
    /// Offsets are multiples of this. Default: what divides every block size. With block sizes by operation, the drawn
    /// offsets of an operation have a step of their own: what divides its sizes, rounded up to a multiple of `align`.
    pub align: ByteSize,
    /// Start of the extent in the data set; not for keys. Default: 0B.
    pub offset: ByteSize,
    /// Length of the extent; not for keys. Default: to the end of the data set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<ByteSize>,
    /// For `strided`: distance between the starts of two blocks in a row. For `sequential` with `run_length`: distance
    /// between the starts of two runs in a row; what lies between the runs is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stride: Option<ByteSize>,
    /// For `random`: each block once per pass (true) or any block any time (false).
    /// Default: false.
    pub cover: bool,
    /// For `zipf`: the exponent, above 0. Default: 0.99.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theta: Option<f64>,
    /// For `pareto`: the skew, between 0 and 1. Default: 0.2, which sends 80 % of the accesses
    /// to 20 % of the space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub h: Option<f64>,
    /// For `hotspot`: the hot share of the space and its share of the accesses.
    /// Default: { space = 0.2, share = 0.8 }.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hot: Option<Hot>,
    /// For `exponential`: so many percent of the accesses fall within the newest share of the
    /// space. Default: { percentile = 95.0, space = 0.8571428571 }.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach: Option<Reach>,
    /// For `normal`: the centre as a share of the space, 0 to 1. Default: 0.5.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub center: Option<f64>,
    /// For `normal`: the standard deviation as a share of the space, at most 1. Required.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deviation: Option<f64>,
    /// For `zoned`: parts of the space in order, each with the weight of its space and of its
    /// accesses, like [{ space = 10, share = 60 }, { space = 90, share = 40 }].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<Zone>,
    /// For `zipf`, `pareto` and `hotspot`: hot places lie scattered over the space instead of at its start.
    /// Default: false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub scatter: bool,
    /// For patterns that draw: of so many operations of a worker the first goes to a drawn place, and each other one
    /// begins where the last one of its kind ended. For `sequential` with `stride`: blocks in a run. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_length: Option<u32>,
    /// For patterns that draw: so many percent of a worker's operations of a kind begin where its last one of that
    /// kind ended, like { write = 90 }. Default: none does.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sequential_percent: BTreeMap<OpKind, u32>,
    /// For `sequential`: how a worker goes over several files. Default: sequence.
    #[serde(skip_serializing_if = "FileOrder::is_sequence")]
    pub files: FileOrder,
    /// For `sequential`, and for patterns that draw with `run_length` or `sequential_percent`: walks that a worker does
    /// side by side, a block of each in turns. A `sequential` walk goes over all of the worker's part. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub walks: Option<u32>,
}

impl Access {
    /// Uniform over the whole data set in steps of `align`.
    pub fn random(align: ByteSize) -> Access {
        Access { align, ..Access::default() }
    }
}

impl From<AccessKind> for Access {
    fn from(kind: AccessKind) -> Access {
        Access { kind, ..Access::default() }
    }
}

/// Access patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccessKind {
    /// Ascending; a contiguous slice per worker; wraps around.
    Sequential,
    /// Descending.
    Reverse,
    /// Ascending by `stride`; shifts by one block after each lap.
    Strided,
    /// Uniform over the whole extent for all workers.
    #[default]
    Random,
    /// Zipf: the n-th hottest place is chosen in proportion to 1 / n^theta.
    Zipf,
    /// YCSB's zipfian generator (theta 0.99), hottest places first.
    Zipfian,
    /// YCSB's scrambled zipfian: what its request distribution `zipfian` means.
    Scrambled,
    /// YCSB's latest: the newest keys are the hottest.
    Latest,
    /// A hot part takes a share of the accesses, uniform inside and outside.
    Hotspot,
    /// YCSB's exponential: recent keys are hotter, by a percentile and a share of the space.
    Exponential,
    /// Self-similar, as fio's pareto.
    Pareto,
    /// A bell curve around a centre.
    Normal,
    /// Parts of the space with shares of the accesses.
    Zoned,
    /// A stream in the order it is written: readers follow the writers as they append.
    Follow,
}

impl AccessKind {
    /// Whether each operation's place is drawn at random, so that workers need no slices.
    pub fn draws(self) -> bool {
        !matches!(
            self,
            AccessKind::Sequential | AccessKind::Reverse | AccessKind::Strided | AccessKind::Follow
        )
    }
}

/// How a worker goes over several files in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FileOrder {
    /// One file after the other.
    #[default]
    Sequence,
    /// A block of each file in turns.
    Turns,
    /// A file drawn for each block; a file that is done waits for the others.
    Drawn,
}

impl FileOrder {
    /// Whether the order is one file after the other.
    pub fn is_sequence(&self) -> bool {
        *self == FileOrder::Sequence
    }
}

/// The hot part of `hotspot`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hot {
    /// Share of the space that is hot, 0 to 1.
    pub space: f64,
    /// Share of the accesses it takes, 0 to 1.
    pub share: f64,
}

/// The reach of `exponential`: `percentile` percent of accesses fall within the newest `space`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// Percent of accesses, between 0 and 100.
    pub percentile: f64,
    /// Share of the space, above 0 and up to 1.
    pub space: f64,
}

/// One part of `zoned`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Zone {
    /// Weight of its accesses (share = weight / sum).
    pub share: u32,
    /// Weight of its space.
    pub space: u32,
}
