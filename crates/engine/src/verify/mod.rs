//! Verification: blocks that know whose they are, and a record of what was written where.
//!
//! Each block (or value) a run writes carries the run, its address, the number of the write to that
//! address, and a checksum. Reads of the run, or a pass after it, compare what comes back with the
//! [`WriteLedger`] and tell apart: changed bytes, torn, lost, stale and misplaced blocks, blocks of
//! another run or length, zeros, unknown content, and records that are missing. Damage that nobody
//! reads is not seen. Findings go into `verify.json`.
//!
//! The unit is the largest size that divides every block size, alignment, offset and stride of the
//! plan, so that an operation holds one or more whole blocks; on keys each value is a block. Callers: `worker`, `run`,
//! `preload`.

mod area;
mod block;
mod checker;
mod integrity;
mod judge;
mod ledger;
mod pass;
mod pieces;
mod prior;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use taillight_core::{Error, Result};
use taillight_rundir::verify::VerifyReport;

pub use area::VerifiedArea;
pub use block::{
    BlockContent, BlockFormat, BlockHeader, Difference, SMALLEST, crc32c, inspect, run_hash,
};
pub use checker::Checker;
pub use integrity::Integrity;
pub use judge::{FaultDetail, ReadJudgement, UncheckedReason};
pub use ledger::{ENTRY, GenerationAge, LedgerEntry, MOST_IN_FLIGHT, WriteLedger, age};
pub use pass::{PassSpec, pass};
use prior::PriorLedger;
pub use prior::PriorRun;
use taillight_rundir::ledger::LedgerRow;

use crate::payload::PayloadSpec;

/// Most memory a ledger may ever take, bytes: 8 Gi blocks, 32 TiB of 4 KiB blocks. What is free on
/// this machine is the plan's check.
pub const LEDGER_BUDGET: u64 = 64 << 30;

/// What all workers of a verifying run share.
#[derive(Debug)]
pub struct VerifyState {
    run_id: String,
    run: u64,
    /// Whose blocks must be where this run has written nothing; `None` = anything may be there.
    prior: Option<PriorLedger>,
    area: VerifiedArea,
    formats: Vec<BlockFormat>,
    /// The target promises that a write of a block is seen whole or not at all.
    whole_writes: bool,
    ledger: WriteLedger,
    /// Workers judge what they read.
    inline: bool,
    /// What workers have handed in at their end.
    found: Mutex<VerifyReport>,
}

/// What verification needs to know.
#[derive(Debug, Clone)]
pub struct VerifySpec<'a> {
    pub run_id: &'a str,
    /// Number of the target among those that are verified: blocks of each are told apart.
    pub target: usize,
    /// The run that wrote what is read where this run has not written.
    pub prior: Option<&'a PriorRun>,
    pub area: VerifiedArea,
    /// What each workload writes.
    pub payloads: &'a [PayloadSpec],
    /// Operations in flight at most, all workers together.
    pub outstanding: u64,
    /// The target promises that a write of a block is seen whole or not at all.
    pub whole_writes: bool,
    /// Workers judge what they read; else only the pass does.
    pub inline: bool,
    /// Memory the ledger may take, bytes.
    pub budget: u64,
}

impl VerifyState {
    /// Prepares verification. Errors: `Usage` when blocks are too small, payloads repeat blocks,
    /// too many operations are in flight or the ledger would be larger than its budget; those of reading the ledger
    /// of an earlier run.
    pub fn new(spec: &VerifySpec<'_>) -> Result<Arc<VerifyState>> {
        if spec.area.unit < SMALLEST && !spec.area.keyed {
            return Err(Error::usage("blocks are too small to be verified")
                .with("block", spec.area.unit)
                .hint(format!(
                    "block sizes, access.align and access.offset must have a common divisor of \
                     {SMALLEST} B or more"
                )));
        }
        if spec.payloads.iter().any(|p| p.duplicate() > 0) {
            return Err(Error::usage("verified blocks are all different")
                .hint("leave payload.duplicate out, or set verify.mode = \"off\""));
        }
        if spec.outstanding > MOST_IN_FLIGHT {
            return Err(Error::usage("too many operations in flight to verify")
                .with("outstanding", spec.outstanding)
                .with("most", MOST_IN_FLIGHT)
                .hint("use fewer workers or a smaller queue_depth"));
        }
        Ok(Arc::new(VerifyState {
            run_id: spec.run_id.into(),
            run: match spec.target {
                0 => run_hash(spec.run_id),
                target => run_hash(&format!("{}/{target}", spec.run_id)),
            },
            prior: spec.prior.map(|p| p.load(&spec.area, spec.budget)).transpose()?,
            area: spec.area,
            formats: spec.payloads.iter().map(BlockFormat::new).collect(),
            whole_writes: spec.whole_writes,
            ledger: WriteLedger::new(spec.area.blocks, spec.budget)?,
            inline: spec.inline,
            found: Mutex::default(),
        }))
    }

    pub fn area(&self) -> VerifiedArea {
        self.area
    }

    /// What was written where.
    pub fn ledger(&self) -> &WriteLedger {
        &self.ledger
    }

    /// The last write to every block this run wrote to, in the order of their addresses: what
    /// `ledger.parquet` keeps. Once nothing is in flight any more.
    pub fn rows(&self) -> impl Iterator<Item = LedgerRow> {
        let numbers = 0..self.ledger.len();
        numbers.filter_map(|n| self.ledger.get(n).to_row(self.area.address(n)))
    }

    /// Notes that records were written before the run began, each once and alone.
    pub fn preloaded(&self, first_key: u64, records: u64) {
        for key in first_key..first_key.saturating_add(records) {
            if let Some(number) = self.area.number(key) {
                self.ledger.begin(number);
                self.ledger.end(number, true);
            }
        }
    }

    /// Whether the pass has something to judge in this block.
    fn expects(&self, number: u64) -> bool {
        let known = |ledger: &WriteLedger| ledger.get(number).settled;
        known(&self.ledger)
            || self.prior.as_ref().is_some_and(|p| p.ledger.as_ref().is_none_or(known))
    }

    /// Takes what a worker or the pass found. Once each, at its end.
    pub fn add_report(&self, part: &VerifyReport) {
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        found.add(part);
        found.pass = part.pass.or(found.pass);
    }

    /// What was found so far.
    pub fn report(&self) -> VerifyReport {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        VerifyReport {
            schema: taillight_rundir::SCHEMA_VERSION,
            run_id: self.run_id.clone(),
            run_hash: format!("{:016x}", self.run),
            block: if self.area.keyed { 0 } else { self.area.unit },
            ledger: (self.ledger.len()
                + self.prior.as_ref().and_then(|p| p.ledger.as_ref()).map_or(0, WriteLedger::len))
                * ENTRY,
            ..found.clone()
        }
    }
}
