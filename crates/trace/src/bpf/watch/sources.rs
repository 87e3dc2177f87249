//! `ios.parquet` of watched operations: those that were slow, each with its file, and all others where they are recorded.

use std::io;

use taillight_core::{Error, OpKind, Record, Result, Stamp, Status};
use taillight_rundir::RunDir;
use taillight_rundir::ios::{IosWriter, RowKey};

use super::gather::{KnownCalls, RecordedCall};
use crate::bpf::collect::CollectedTrace;
use crate::bpf::traced_io::TracedIo;
use taillight_rundir::layers::flags;

/// Why the file is not written.
enum Unwritten {
    Here(Error),
    Lost(io::Error),
}

impl From<io::Error> for Unwritten {
    fn from(e: io::Error) -> Unwritten {
        Unwritten::Lost(e)
    }
}

/// Writes the slow operations and those that were recorded beside them, those of a worker in the order of their begins.
/// How many. Errors: `Unavailable` when the file cannot be written.
pub fn write_ios(
    dir: &RunDir,
    trace: &CollectedTrace,
    known: &KnownCalls,
    mut record: Vec<RecordedCall>,
    workloads: &[OpKind],
) -> Result<u64> {
    let lost = |e| Error::unavailable("what was kept of the trace cannot be read back").source(e);
    let mut rows = CallRows { writer: IosWriter::create(dir)?, workloads, last: None };
    record.sort_unstable_by_key(|r| (r.worker, r.submit));
    let mut record = record.into_iter().peekable();
    let order = trace.ios.order(|_| ()).map_err(lost)?;
    let written = trace.ios.in_order(order, |io, _| {
        if u64::from(io.flags) & (flags::SAMPLE | flags::BESIDE) != 0 {
            return Ok(());
        }
        while let Some(r) = record.next_if(|r| (r.worker, r.submit) < (io.worker, io.submit)) {
            rows.push(r.worker, &r.record()).map_err(Unwritten::Here)?;
        }
        rows.push(io.worker, &slow_record(io, known)).map_err(Unwritten::Here)
    });
    match written {
        Ok(()) => record.try_for_each(|r| rows.push(r.worker, &r.record()))?,
        Err(Unwritten::Here(e)) => return Err(e),
        Err(Unwritten::Lost(e)) => return Err(lost(e)),
    }
    rows.writer.finish()
}

fn slow_record(io: &TracedIo, known: &KnownCalls) -> Record {
    let call = known.get(io.worker, io.submit);
    Record {
        op: io.op,
        target: call.and_then(|c| c.file).unwrap_or(0),
        offset: (io.op as u8 <= 1).then_some(io.offset),
        size: io.size,
        submit: Stamp(io.submit),
        complete: Stamp(io.complete),
        status: call.map_or(Status::OK, |c| match c.facts.errno {
            errno if errno > 0 => Status::errno(errno),
            _ => Status::OK,
        }),
        ..Record::default()
    }
}

/// Rows of the file, each under its worker and the workload that its kind of operation is.
struct CallRows<'a> {
    writer: IosWriter,
    workloads: &'a [OpKind],
    last: Option<(u16, u16)>,
}

impl CallRows<'_> {
    fn push(&mut self, worker: u16, record: &Record) -> Result<()> {
        let workload = self.workloads.iter().position(|op| *op == record.op).unwrap_or(0) as u16;
        if self.last.replace((worker, workload)) != Some((worker, workload)) {
            self.writer.begin(RowKey { phase: "measure", workload, worker });
        }
        self.writer.push(record)
    }
}
