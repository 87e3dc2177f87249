//! `slc-paper.json`: the matrix of the suite `slc-paper` with its factors. It lies in the directory
//! that holds the suite's run directories; written again after every run.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::summary::SlcPair;

/// The matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlcPaperReport {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Version of Taillight that wrote it.
    pub taillight: String,
    /// `short` or `full`.
    pub scale: String,
    /// Whether every run of the matrix came to its end.
    pub complete: bool,
    /// One entry per run, in the order they were made.
    pub runs: Vec<SlcPaperRun>,
}

/// One place of the matrix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlcPaperRun {
    /// System: `file`, `leveldb`, `rocksdb` or `minio`.
    pub system: String,
    /// `write` or `read`.
    pub op: String,
    /// Bytes of a record.
    pub size: u64,
    /// Its run directory, beside this file.
    pub dir: String,
    /// Whether it came to its end as planned; else its figures are of a part.
    pub complete: bool,
    /// Records written or read.
    pub count: u64,
    /// Failures among them.
    pub errors: u64,
    /// Successes per second.
    pub iops: f64,
    /// Median latency, ns; null without a success.
    pub p50_ns: Option<u64>,
    /// 99.99 % latency, ns; null when there are too few records to tell.
    pub p9999_ns: Option<u64>,
    /// SLC1, real-valued; null when undefined.
    pub slc1: Option<f64>,
    /// SLC2, real-valued; null when undefined.
    pub slc2: Option<f64>,
    /// SBK's integers over the paper's list of 21 percentiles, in ns.
    pub sbk21: Option<SlcPair>,
    /// What the paper prints for this place.
    pub paper: Option<SlcPair>,
    /// The figure of the paper.
    pub figure: Option<u32>,
    /// The figure's own curve does not allow the printed numbers.
    pub doubt: bool,
}
