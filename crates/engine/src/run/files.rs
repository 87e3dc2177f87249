//! After the load: writes intervals, histograms, samples, pauses, what verification found, and the I/Os of the capture
//! into the run directory.

use std::cell::RefCell;
use std::path::{Path, PathBuf};

use taillight_capture::convert::{
    ChunkRelease, ChunkStore, ConvertOptions, Converted, RowCounts, convert,
};
use taillight_capture::dir::capture_dir;
use taillight_capture::{FullChunk, FullChunks};
use taillight_core::progress::Progress;
use taillight_core::{Error, OpKind, Result};
use taillight_driver::TargetPause;
use taillight_rundir::TableWriter;
use taillight_rundir::ios::RowBatch;
use taillight_rundir::layers::{LayerKind, LayerRow, LayerWriter};

use super::{EngineOutcome, EngineRequest, LoadResult, StopReason};
use crate::collector::IntervalLog;

/// Name of the only phase that is captured.
const PHASES: [&str; 1] = ["measure"];

/// Writes what was measured, and notes in `outcome` what was kept and lost. The capture's chunks are freed once
/// `ios.parquet` has its name.
pub fn write(
    request: &mut EngineRequest<'_>,
    mut loaded: LoadResult,
    outcome: &mut EngineOutcome,
) -> Result<()> {
    let dir = request.rundir;
    outcome.error = loaded.error;
    if let Some(verify) = &loaded.verify {
        dir.write(&verify.report())?;
        taillight_rundir::ledger::write_ledger(dir, verify.rows())?;
    }
    loaded.collected.log.take().map_or(Ok(()), IntervalLog::commit)?;
    loaded.samples.take().map_or(Ok(()), TableWriter::commit)?;
    loaded.pauses.take().map_or(Ok(()), |pauses| write_pauses(request, pauses))?;
    let Some(pool) = loaded.pool else {
        return Ok(());
    };
    let capture = capture_dir(request.run_id);
    let mut full = pool.chunks;
    let stuck = loaded.ends.len() < request.plan.workers() as usize;
    let more = if stuck { unfinished(&full, &capture) } else { Vec::new() };
    let counts = counts(&loaded.collected);
    let made = full.len();
    full.retain(|chunk| chunk.path.exists());
    let gone = (made - full.len()) as u64;
    let mut chunks = FullChunks::new(full, more);
    let whole = !stuck && outcome.capture.degraded.is_none() && outcome.losses.ios == 0;
    let whole = whole && request.plan.capture.mode == taillight_core::plan::CaptureMode::All;
    let phases = PHASES.map(String::from);
    let options = ConvertOptions {
        phases: &phases,
        expected: (whole && gone == 0).then_some(&counts),
        tolerant: stuck || gone > 0,
        release: ChunkRelease::AtEnd,
    };
    request.observers.iter_mut().for_each(|o| o.loaded(&outcome.phases));
    // Rows and progress go to the same observers.
    let observers = RefCell::new(&mut request.observers);
    let mut rows = |r: &RowBatch| observers.borrow_mut().iter_mut().for_each(|o| o.rows(r));
    let mut progress = |p: Progress<'_>| {
        observers.borrow_mut().iter_mut().for_each(|o| o.progress(p));
        true
    };
    let converted = match chunks.count() == 0 && gone > 0 {
        true => Converted::default(),
        false => convert(dir, &mut chunks, &options, &mut rows, &mut progress)?,
    };
    outcome.capture.kept = converted.rows;
    outcome.losses.chunks = converted.damaged + gone;
    if gone > 0 {
        let counted: u64 = counts.values().sum();
        let missing = if whole { counted.saturating_sub(converted.rows) } else { 0 };
        outcome.losses.ios += missing;
        outcome.lost_capture(made as u64, gone, missing, &capture);
    }
    Ok(())
}

/// Writes the times at which the target had stopped its threads.
fn write_pauses(request: &EngineRequest<'_>, pauses: Vec<TargetPause>) -> Result<()> {
    let mut out = LayerWriter::of_pauses(request.rundir);
    out.rows(pauses.into_iter().map(|pause| LayerRow {
        kind: LayerKind::Pause,
        start_ns: pause.start_ns,
        middle_ns: Some(pause.stopped_ns),
        end_ns: pause.end_ns,
        other: Some(pause.what.into()),
        ..LayerRow::default()
    }))?;
    out.commit()
}

impl EngineOutcome {
    /// Somebody deleted files of the capture while the run went. What they held is gone; rates and
    /// histograms were counted apart from it.
    fn lost_capture(&mut self, made: u64, gone: u64, ios: u64, dir: &Path) {
        let what = match ios {
            0 => "I/Os kept in them are lost".to_owned(),
            n => format!("{n} single I/Os are lost"),
        };
        let error = Error::unavailable(format!(
            "the capture was deleted while the run went: {what}; rates and histograms are whole"
        ))
        .with("path", dir.display())
        .with("files", format!("{gone} of {made}"))
        .hint("leave /dev/shm/taillight-* alone while a run goes");
        // Why the load itself failed matters more.
        if self.error.is_none() {
            self.error = Some(error);
            self.reason = StopReason::TargetFailed;
        }
    }
}

/// Chunk files that a stuck worker never handed back.
fn unfinished(full: &[FullChunk], capture: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(capture).into_iter().flatten().flatten();
    let chunks = entries.map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "chunk"));
    chunks.filter(|path| full.iter().all(|chunk| chunk.path != *path)).collect()
}

/// What the recorders counted, by phase and operation.
fn counts(collected: &crate::collector::Collected) -> RowCounts {
    let mut counts = RowCounts::new();
    for (kind, op) in OpKind::ALL.iter().flat_map(|kind| {
        collected.counted().filter_map(move |t| Some((*kind, t[*kind as usize].as_deref()?)))
    }) {
        let all = op.ops + op.failed();
        if all > 0 {
            *counts.entry((0, kind)).or_insert(0) += all;
        }
    }
    counts
}
