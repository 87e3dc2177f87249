//! Runs of our own: the measured I/Os of `ios.parquet`, and its lines as `taillight export --format ios-csv`
//! writes them. An operation is due when it was intended, else when it was submitted; ns, bytes. A disk is
//! the number of a workload; of a program that was watched the number of a file, and what is on no file's bytes is left
//! out.

use std::path::Path;

use taillight_core::plan::TraceOp;
use taillight_core::{Error, OpKind};
use taillight_rundir::RunDir;
use taillight_rundir::ios::{ColumnSet, IosFile};

use super::{
    NOT_BEGUN, TraceFault, TraceFormat, TraceRow, TraceRows, TraceSource, columns, number,
};

/// The phase whose I/Os are the run's.
const MEASURE: &str = "measure";

pub(super) const CSV: TraceFormat = TraceFormat {
    word: "ios-csv",
    name: "ios-csv",
    tick_ns: 1,
    ordered: false,
    source: TraceSource::Lines(row),
};
pub(super) const PARQUET: TraceFormat = TraceFormat {
    word: "ios-parquet",
    name: "Taillight run",
    tick_ns: 1,
    ordered: false,
    source: TraceSource::Whole(|head| head.starts_with(b"PAR1"), read),
};

fn row<'a>(line: &'a str, begun: &mut i64) -> Result<Option<TraceRow<'a>>, String> {
    if *begun == NOT_BEGUN {
        *begun = 0;
        return match line.starts_with("phase,workload,worker,op,target,offset_bytes,") {
            true => Ok(None),
            false => Err("it does not begin with the names of the columns".to_owned()),
        };
    }
    let row: [&str; 19] = columns(line)?;
    let [phase, stream, _, op, _, offset, _, size, _, _, intended, _, submit, ..] = row;
    if phase != MEASURE {
        return Ok(None);
    }
    let kind = OpKind::from_name(op).ok_or_else(|| format!("`{op}` is no operation"))?;
    let due = if intended.is_empty() { submit } else { intended };
    let stamp = number(Some(due), "time")?;
    let offset = (!offset.is_empty()).then(|| number(Some(offset), "offset")).transpose()?;
    let op = operation(kind, offset, number(Some(size), "size")?)?;
    Ok(Some(TraceRow { stamp, stream, op }))
}

/// The operation of an I/O. Errors: it is on keys, or too large.
fn operation(kind: OpKind, offset: Option<u64>, size: u64) -> Result<TraceOp, String> {
    if kind == OpKind::Fsync {
        return Ok(TraceOp { offset: 0, size: 0, kind });
    }
    let offset = offset.filter(|_| !kind.keyed());
    let offset = offset.ok_or("its I/Os are on keys or objects: only offsets can be replayed")?;
    let size = u32::try_from(size).map_err(|_| format!("{size} is too large for an operation"))?;
    Ok(TraceOp { offset, size, kind })
}

fn read(path: &Path, rows: &mut TraceRows<'_>) -> Result<(), TraceFault> {
    let watched = path.parent().and_then(|dir| RunDir::open(dir).ok());
    let watched = watched.is_some_and(|dir| dir.manifest().origin.is_watched());
    let wanted = ColumnSet::PHASE
        | ColumnSet::WORKLOAD
        | ColumnSet::TARGET
        | ColumnSet::OP
        | ColumnSet::OFFSET
        | ColumnSet::SIZE
        | ColumnSet::INTENDED
        | ColumnSet::SUBMIT;
    let damaged = |e: Error| TraceFault::from(e.to_string());
    let (mut fault, mut stream) = (None, (u16::MAX, String::new()));
    let read = IosFile::open(path).map_err(damaged)?.read(wanted, &mut |batch| {
        for i in (0..batch.rows).filter(|i| batch.phase_name(*i) == MEASURE) {
            let row = batch.row(i);
            let moves = row.op == OpKind::Fsync || (row.size > 0 && !row.op.keyed());
            if watched && !moves {
                rows.leave_out();
                continue;
            }
            let of = if watched { row.target } else { row.workload };
            if stream.0 != of {
                stream = (of, of.to_string());
            }
            let taken = operation(row.op, row.offset, row.size).map_err(TraceFault::from);
            let stamp = row.intended.unwrap_or(row.submit).0;
            let taken = taken.and_then(|op| rows.push(&TraceRow { stamp, stream: &stream.1, op }));
            if let Err(e) = taken {
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
