//! The earlier run whose blocks are expected where this run has written nothing.
//!
//! Named by its run directory, its ledger says which write of each block was the last, so that
//! lost writes and older blocks show after a restart too. Named by its id alone, any of its writes
//! to an address is right. Callers: `run`, and `cli` to refuse a wrong name early.

use std::path::{Path, PathBuf};

use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::{Error, Result};
use taillight_rundir::verify::VerifyReport;
use taillight_rundir::{RunDir, ledger, names, sums};

use super::VerifiedArea;
use super::block::run_hash;
use super::ledger::{LedgerEntry, WriteLedger};

/// The earlier run as it was named.
#[derive(Debug, Clone, PartialEq)]
pub struct PriorRun {
    run_id: String,
    /// Its ledger, and the bytes in its blocks (0 = values).
    kept: Option<(PathBuf, u64)>,
    /// What it wrote to.
    target: Option<TargetPlan>,
}

/// What is expected of the earlier run.
#[derive(Debug)]
pub(super) struct PriorLedger {
    /// Hash of its id.
    pub run: u64,
    /// Its last writes; `None` = any of its writes is right.
    pub ledger: Option<WriteLedger>,
}

impl PriorRun {
    /// Only the id is known.
    pub fn id(run_id: &str) -> PriorRun {
        PriorRun { run_id: run_id.into(), kept: None, target: None }
    }

    /// Refuses a run whose addresses mean other places than those of `plan`: its ledger would call
    /// good data lost. The path may differ: a file system can be mounted elsewhere. Errors:
    /// `Usage`, with both values.
    pub fn fits(&self, plan: &Plan) -> Result<()> {
        let Some(its) = &self.target else {
            return Ok(());
        };
        let driver = |t: &TargetPlan| Some(t.driver.clone());
        let files = |t: &TargetPlan| t.options.get("files").map(ToString::to_string);
        let size = |t: &TargetPlan| t.size.map(|s| s.to_string());
        let ours = &plan.target;
        for (what, its, ours) in [
            ("driver", driver(its), driver(ours)),
            ("number of files", files(its), files(ours)),
            ("size", size(its), size(ours)),
        ] {
            // What one of them leaves open is whatever is there.
            let (Some(its), Some(ours)) = (its, ours) else {
                continue;
            };
            if its != ours {
                return Err(Error::usage(format!(
                    "verify.run: that run's target had another {what}"
                ))
                .with("its", its)
                .with("target", ours)
                .hint("describe the target as the run did that wrote it"));
            }
        }
        Ok(())
    }

    /// The run that `verify.run` names: a run directory, or an id. Errors: `Usage` when it is neither or
    /// the directory has no ledger, `Corrupt` when the ledger is damaged.
    pub fn find(named: &str) -> Result<PriorRun> {
        let path = Path::new(named);
        if !path.is_dir() {
            if !is_run_id(named) {
                return Err(Error::usage("verify.run: there is no such run directory")
                    .with("path", named)
                    .hint("give the directory of the run that wrote, or its run_id"));
            }
            return Ok(PriorRun::id(named));
        }
        let dir = RunDir::open(path)?;
        let run_id = dir.manifest().run_id.clone();
        let verified: Vec<Plan> = dir.manifest().plan.verified_targets().collect();
        if verified.len() > 1 {
            return Err(Error::usage("verify.run: that run verified several targets")
                .with("path", named)
                .hint("a run that is to be checked by a later one writes to one target"));
        }
        let (Some(report), Some(file)) = (dir.read::<VerifyReport>()?, dir.existing(names::LEDGER))
        else {
            return Err(Error::usage("verify.run: that run left no record of its writes")
                .with("path", named)
                .with("missing", names::LEDGER)
                .hint(format!(
                    "it wrote nothing, did not verify or was killed; to accept any write of \
                         it, name it by its id: verify.run = \"{run_id}\""
                )));
        };
        if sums::changed(&dir)?.iter().any(|c| c.name == names::LEDGER) {
            return Err(Error::corrupt(
                "the record of writes is not what it was when that run ended",
            )
            .with("path", file.display())
            .hint(format!(
                "restore it from a copy, or accept any write of that run: \
                         verify.run = \"{run_id}\""
            )));
        }
        Ok(PriorRun {
            run_id,
            kept: Some((file, report.block)),
            target: verified.into_iter().next().map(|of| of.target),
        })
    }

    /// Reads its ledger, for the blocks of `area`. Errors: `Usage` when its blocks have another
    /// size; `Corrupt` when its ledger cannot be read.
    pub(super) fn load(&self, area: &VerifiedArea, budget: u64) -> Result<PriorLedger> {
        let run = run_hash(&self.run_id);
        let Some((file, block)) = &self.kept else {
            return Ok(PriorLedger { run, ledger: None });
        };
        let unit = if area.keyed { 0 } else { area.unit };
        if *block != unit {
            return Err(Error::usage("verify.run: that run wrote blocks of another size")
                .with("its_block", block)
                .with("block", unit)
                .hint("read with the block size and alignment of the run that wrote"));
        }
        let ledger = WriteLedger::new(area.blocks, budget)?;
        ledger::read_ledger(file, &mut |row| {
            if let Some(number) = area.number(row.address) {
                ledger.restore(number, LedgerEntry::from_row(row));
            }
        })?;
        Ok(PriorLedger { run, ledger: Some(ledger) })
    }
}

/// Whether it has the form of a run's id, like `20260131T235959Z-0123abcd`: anything else is a
/// directory that is not there, and must not make a whole run fail against an id nobody has.
fn is_run_id(named: &str) -> bool {
    let form = b"ddddddddTddddddZ-xxxxxxxx";
    let fits = |(c, f): (u8, &u8)| match f {
        b'd' => c.is_ascii_digit(),
        b'x' => c.is_ascii_hexdigit(),
        f => c == *f,
    };
    named.len() == form.len() && named.bytes().zip(form).all(fits)
}
