//! Taillight's own runs as traces (two of `FORMATS`): the measured I/Os of `ios.parquet`, or its lines as
//! `taillight export --format ios-csv` writes them. An operation is due when it was intended, else when it was
//! submitted; ns, bytes.
//!
//! What other traces call a disk is a file of a workload: "0,2" is file 2 of workload 0, which a run directory knows by
//! its name, too. Of a watched program it is the number of a file; what is no sync and moves no bytes is left out.
//!
//! A run that kept a part of its I/Os is refused where that is known: an `ios.parquet` without its run, and a CSV of an
//! earlier version, do not tell. Single I/Os that a measured run lost (`losses.ios`) are counted, and the rest of its
//! `ios.parquet` is read.

use std::path::Path;

use taillight_core::plan::{CaptureMode, TraceOp};
use taillight_core::{Error, ErrorKind, OpKind};
use taillight_rundir::ios::{ColumnSet, IosFile, Row};
use taillight_rundir::watched::WatchedFile;
use taillight_rundir::{RunDir, names, sums};

use super::{
    NOT_BEGUN, StreamPair, TraceFault, TraceFormat, TraceRow, TraceRows, TraceSource, columns,
    heading, number,
};

/// The phase whose I/Os make the trace.
const MEASURE: &str = "measure";
/// The parts of a disk's name. One part alone, without a word before it, is the workload (`first`).
const FILES: Option<StreamPair> = Some(StreamPair { words: "workload,file", first: true });
/// What is wrong with a CSV that has another number of rows than its rows say (column `phase_ios`).
pub(super) const PART: &str = "it has a part of the I/Os of its run";
/// What to do about a run that kept a part of its I/Os.
pub(super) const ALL: &str = "record it again with all I/Os: capture.mode = \"all\" and a larger capture.budget, or watch --record";

pub(super) const CSV: TraceFormat = TraceFormat {
    word: "ios-csv",
    name: "ios-csv",
    tick_ns: 1,
    // A run's rows are those of one worker after the other: `TraceRows` sorts them.
    ordered: false,
    pair: FILES,
    source: TraceSource::Lines(row),
};
pub(super) const PARQUET: TraceFormat = TraceFormat {
    word: "ios-parquet",
    name: "Taillight run",
    tick_ns: 1,
    ordered: false,
    pair: FILES,
    source: TraceSource::Whole(|head| head.starts_with(b"PAR1"), read),
};

fn row<'a>(line: &'a str, begun: &mut i64) -> Result<Option<TraceRow<'a>>, String> {
    let first = *begun == NOT_BEGUN;
    if heading(line, "phase,workload,worker,op,target,offset_bytes,", begun)? {
        return Ok(None);
    }
    if first {
        return Err("it does not begin with the names of the columns".to_owned());
    }
    // Exports of earlier versions do not say how many I/Os there are: a part of them passes for all.
    let (row, of): ([&str; 19], _) = match columns::<20>(line) {
        Ok([row @ .., of]) => (row, Some(of)),
        Err(_) => (columns(line)?, None),
    };
    let [
        phase,
        workload,
        _,
        op,
        file,
        offset,
        _,
        size,
        _,
        _,
        intended,
        _,
        submit,
        ..,
        ends,
        sync,
        _,
        status,
    ] = row;
    if phase != MEASURE {
        return Ok(None);
    }
    let kind = OpKind::from_name(op).ok_or_else(|| format!("`{op}` is no operation"))?;
    let due = if intended.is_empty() { submit } else { intended };
    let stamp = number(Some(due), "time")?;
    let offset = (!offset.is_empty()).then(|| number(Some(offset), "offset")).transpose()?;
    let op = operation(kind, offset, number(Some(size), "size")?, !sync.is_empty())?;
    let end: i64 = number(Some(ends), "end")?;
    let latency_ns = latency(stamp, end).filter(|_| status == "0");
    let of = of.map(|of| match of {
        "unknown" => Ok(u64::MAX),
        n => number(Some(n), "number of I/Os"),
    });
    Ok(Some(TraceRow { stamp, stream: (workload, file), op, latency_ns, of: of.transpose()? }))
}

/// From when an I/O was due to its end, ns; none where it ended before.
fn latency(due: i64, end: i64) -> Option<u64> {
    u64::try_from(end.checked_sub(due)?).ok()
}

/// The operation of an I/O. `synced`: its row says how long a sync inside the write took, so that the replayed write
/// ends with a sync, too. Errors: it has no offset, or is too large.
fn operation(
    kind: OpKind,
    offset: Option<u64>,
    size: u64,
    synced: bool,
) -> Result<TraceOp, String> {
    if kind == OpKind::Fsync {
        return Ok(TraceOp::new(kind, 0, 0));
    }
    let offset = offset.filter(|_| !kind.keyed());
    let offset = offset.ok_or(
        "its I/Os have no offsets: keys, objects and logs without places cannot be replayed",
    )?;
    let size = u32::try_from(size).map_err(|_| format!("{size} is too large for an operation"))?;
    Ok(TraceOp { durable: synced && size > 0, ..TraceOp::new(kind, offset, size) })
}

/// The run whose `ios.parquet` a file is. None where the file has another name, or no manifest beside it: then nothing is
/// known of what it lacks. Errors: the file or manifest is damaged; the run kept a part of its I/Os, or lost chunks.
fn run_of(path: &Path) -> Result<Option<RunDir>, TraceFault> {
    let damaged = |e: Error| TraceFault { kind: e.kind(), ..TraceFault::from(e.to_string()) };
    let home = path.parent().filter(|_| path.file_name().is_some_and(|name| name == names::IOS));
    let home = home.map(|home| if home.as_os_str().is_empty() { Path::new(".") } else { home });
    // A file alone has no manifest beside it; one that cannot be read is damage.
    let Some(home) = home.filter(|home| home.join(names::MANIFEST).exists()) else {
        return Ok(None);
    };
    let dir = RunDir::open(home).map_err(damaged)?;
    sums::believed(&dir, names::IOS).map_err(damaged)?;
    let manifest = dir.manifest();
    const SLOW_ONLY: &str = "it is of a run that kept its slow I/Os only";
    let seen = dir.read::<WatchedFile>().map_err(damaged)?;
    let part = if manifest.origin.is_watched() {
        seen.is_some_and(|it| it.kept_slow_alone()).then_some(SLOW_ONLY)
    } else if manifest.losses.chunks > 0 {
        Some("it is of a run that lost a part of its I/Os")
    } else if manifest.capture.mode == CaptureMode::Outliers {
        Some(SLOW_ONLY)
    } else if manifest.capture.degraded.is_some() {
        Some("it is of a run that kept its slow I/Os only, once its memory was full")
    } else {
        None
    };
    match part {
        Some(part) => Err(TraceFault::hinted(part, ALL)),
        None => Ok(Some(dir)),
    }
}

fn read(path: &Path, rows: &mut TraceRows<'_>) -> Result<(), TraceFault> {
    let run = run_of(path)?;
    if run.is_none() {
        rows.without_run();
    }
    let manifest = run.as_ref().map(RunDir::manifest);
    let watched = manifest.is_some_and(|it| it.origin.is_watched());
    if let Some(manifest) = manifest.filter(|_| !watched) {
        rows.name_streams(manifest.plan.workloads.iter().map(|w| w.name.as_str()))?;
        rows.miss(manifest.losses.ios);
        // fio's logs have the ends of I/Os in ms.
        if manifest.origin.imported().is_some_and(|of| of.tool == "fio") {
            rows.with_coarse_ends();
        }
    }
    let wanted = ColumnSet::PHASE
        | ColumnSet::WORKLOAD
        | ColumnSet::TARGET
        | ColumnSet::OP
        | ColumnSet::OFFSET
        | ColumnSet::SIZE
        | ColumnSet::INTENDED
        | ColumnSet::SUBMIT
        | ColumnSet::COMPLETE
        | ColumnSet::SYNC
        | ColumnSet::STATUS;
    // A file that cannot be read is damage where it belongs to a run, and a wrong argument where it does not.
    let kind = if run.is_some() { ErrorKind::Corrupt } else { ErrorKind::Usage };
    let damaged = |e: Error| TraceFault { kind, ..TraceFault::from(e.to_string()) };
    let (mut fault, mut stream) = (None, OwnStream::default());
    let read = IosFile::open(path).map_err(damaged)?.read(wanted, &mut |batch| {
        for i in (0..batch.rows).filter(|i| batch.phase_name(*i) == MEASURE) {
            let row = batch.row(i);
            let moves = row.op == OpKind::Fsync || (row.size > 0 && !row.op.keyed());
            if watched && !moves {
                rows.leave_out();
                continue;
            }
            if let Err(e) = push(&row, stream.of(&row, watched), rows) {
                fault = Some(TraceFault {
                    what: format!("{} (row {})", e.what, batch.first_row + i as u64 + 1),
                    ..e
                });
                return Err(Error::internal("the trace ends here"));
            }
        }
        Ok(())
    });
    match (fault, read) {
        (Some(fault), _) => Err(fault),
        (None, read) => read.map_err(damaged),
    }
}

fn push(row: &Row, stream: (&str, &str), rows: &mut TraceRows<'_>) -> Result<(), TraceFault> {
    let op = operation(row.op, row.offset, row.size, row.sync_ns.is_some())?;
    let due = row.intended.unwrap_or(row.submit).0;
    let latency_ns = latency(due, row.complete.0).filter(|_| row.status.is_ok());
    rows.push(&TraceRow { stamp: due, stream, op, latency_ns, of: None })
}

/// The workload and file of the row before, as text.
#[derive(Default)]
struct OwnStream {
    of: Option<(u16, u16)>,
    workload: String,
    file: String,
}

impl OwnStream {
    fn of(&mut self, row: &Row, watched: bool) -> (&str, &str) {
        if self.of != Some((row.workload, row.target)) {
            self.of = Some((row.workload, row.target));
            self.workload = if watched { String::new() } else { row.workload.to_string() };
            self.file = row.target.to_string();
        }
        (&self.workload, &self.file)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn an_end_before_all_times_is_no_latency_and_no_panic() {
        assert_eq!(super::latency(5, i64::MIN), None);
        assert_eq!(super::latency(5, 9), Some(4));
    }
}
