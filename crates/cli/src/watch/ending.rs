//! The end of a watch: what was seen becomes a run directory, but for its report.

use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use taillight_core::{Clock, MonoClock, OpKind, Result};
use taillight_rundir::watched::{WatchedFile, WatchedOp, write_counts};
use taillight_rundir::{Manifest, RunDir, RunStatus, SCHEMA_VERSION, sums};
use taillight_trace::watch::{JUDGED, WatchResult};

use super::lines::WatchLines;
use super::{ActiveWatch, Asked, Told, exact, plan, record, said, waits};
use crate::output;

impl ActiveWatch {
    /// Ends watching and finishes the run directory, but for the report. Returns its path. Errors: `Unavailable` where
    /// a file cannot be written; then the manifest says so, if there is room for that.
    pub(super) fn end(
        self,
        (mut dir, mut manifest): (RunDir, Manifest),
        asked: &Asked,
        told: &Receiver<Told>,
        lines: &mut WatchLines,
    ) -> Result<PathBuf> {
        let written = self.write((&mut dir, &mut manifest), asked, told, lines);
        if let Err(e) = &written {
            (manifest.status, manifest.reason) = (RunStatus::Failed, Some(e.to_string()));
            let _ = dir.write_manifest(&manifest);
        }
        written.map(|()| dir.path().to_owned())
    }

    fn write(
        mut self,
        (dir, manifest): (&mut RunDir, &mut Manifest),
        asked: &Asked,
        told: &Receiver<Told>,
        lines: &mut WatchLines,
    ) -> Result<()> {
        let now = MonoClock.now().0;
        self.counts.close(now, &self.watching);
        let asked = &Asked { slower_ns: self.slower_ns, ..asked.clone() };
        let mut ops = self.ops(asked);
        let mut kinds = kinds(&ops, asked);
        let ns = (now - self.began_ns).max(1) as u64;
        let ActiveWatch { watching, counts, exit_code, pids, unwatched, .. } = self;
        // The counts need no disk.
        let lost = || said::unwritten(&ops).into_iter().for_each(|text| output::note(&text));
        let mut result = watching.finish(dir, &kinds).inspect_err(|_| lost())?;
        result.no_room += unwatched.len() as u64;
        // Also those that went on the way and did not come back.
        let missing = result.info.programs.iter().any(|program| program.missing.is_some());
        // What was told last, and once more for the verdicts on it.
        told.try_iter().for_each(|(rows, more)| lines.seen(rows, more));
        lines.seen(Vec::new(), 0);
        let waits = waits::of(result.waits);
        if waits.carried + waits.locks > 0 {
            kinds.push(OpKind::Wait);
        }
        let sample = result.exact.as_ref().map(|sample| exact::of(sample, ns));
        // Kinds that only the windows of `--exact` saw, as no call of them blocked.
        let others = sample.iter().flat_map(|sample| &sample.ops).map(|it| it.op);
        for op in others {
            if JUDGED.contains(&op) && !kinds.contains(&op) {
                kinds.push(op);
            }
        }
        let seen = ops.iter().map(|op| op.seen).sum();
        let sampled = result.exact.as_ref().filter(|it| exact::is_used(it, &ops));
        if sampled.is_some() {
            ops.iter_mut().for_each(|op| op.requests_alone = false);
        }
        record::summary_lines(dir.path(), &result).into_iter().for_each(|text| output::note(&text));
        said::after(&ops, &result, (&waits, sample.as_ref()), asked.slower_ns, missing);
        manifest.plan = plan::plan(&manifest.plan.run.name, asked, &kinds, ns)?;
        let origin = manifest.origin.clone().ended_with(exit_code);
        if let Some(sample) = sampled {
            manifest.origin = exact::origin(origin, sample);
            write_counts(dir, &manifest.clock, &exact::intervals(sample, &kinds))?;
        } else {
            let alone = ops.iter().filter(|op| op.requests_alone).map(|op| op.op);
            manifest.origin = origin.of_requests(alone);
            if ops.iter().any(|op| op.whole || op.requests_alone) {
                write_counts(dir, &manifest.clock, &counts.told(&ops, &kinds))?;
            }
        }
        complete(manifest, &result, now, seen);
        let file = WatchedFile {
            schema: SCHEMA_VERSION,
            pids,
            exit_code,
            slower_ns: asked.slower_ns,
            ops,
            files: record::files(&result.files, asked.hashed),
            recorded: result.recorded,
            left_out: result.left_out.iter().map(|part| part.words().to_owned()).collect(),
            load_ns: result.loaded_in.as_nanos() as u64,
            attach_ns: result.attached_in.as_nanos() as u64,
            detach_ns: result.detached_in.as_nanos() as u64,
            programs_share: result.programs_share,
            no_room: result.no_room,
            sample,
            waits,
        };
        manifest.trace = Some(result.info);
        dir.write(&file)?;
        manifest.files = sums::file_sums(dir)?;
        dir.write_manifest(manifest)
    }
}

/// The kinds of operation that become workloads, in this order.
fn kinds(ops: &[WatchedOp], asked: &Asked) -> Vec<OpKind> {
    let mut kinds: Vec<OpKind> = ops.iter().map(|op| op.op).collect();
    // A ceiling of a kind that was not seen stays undecided: it needs a workload, without I/Os.
    let asked_of = asked.ceiling.as_ref().and_then(|ceiling| ceiling.op);
    kinds.extend(asked_of.filter(|op| !kinds.contains(op)));
    if !kinds.iter().any(|op| JUDGED.contains(op)) {
        kinds.push(OpKind::Read);
    }
    kinds
}

/// The manifest of a watch that ended `now`, ns, and had `seen` so many operations.
fn complete(manifest: &mut Manifest, result: &WatchResult, now: i64, seen: u64) {
    manifest.phases.iter_mut().for_each(|p| (p.end_ns, p.ios) = (Some(now), seen));
    manifest.status = RunStatus::Complete;
    manifest.capture.kept = result.slow;
    manifest.losses.ios = result.info.ios_lost;
    manifest.losses.trace_events = Some(result.info.events_lost + result.info.ios_lost);
    manifest.overhead.trace_ns_per_op = result.info.program_ns_per_op;
    manifest.overhead.collector_ns_per_op = result.info.collector_ns_per_op;
}
