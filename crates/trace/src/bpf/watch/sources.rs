//! Writes `ios.parquet` of watched operations: the slow ones and waits, each with its file where that is known, and the
//! others where these are recorded.

use std::io;

use taillight_core::{Error, OpKind, Result};
use taillight_rundir::RunDir;
use taillight_rundir::ios::{IosWriter, RowKey};

use super::gather::{KnownCalls, RecordedCall};
use crate::bpf::collect::CollectedTrace;
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

/// Writes the slow operations and those that were recorded beside them, those of a worker in the order of their begins;
/// returns the number of rows. Errors: `Unavailable` when the file cannot be written.
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
    let written = trace.ios.in_order(order, |(io, _)| {
        if u64::from(io.flags) & (flags::SAMPLE | flags::BESIDE) != 0 {
            return Ok(());
        }
        while let Some(r) = record.next_if(|r| (r.worker, r.submit) < (io.worker, io.submit)) {
            rows.push(&r).map_err(Unwritten::Here)?;
        }
        let call = known.get(io.worker, io.submit);
        let (errno, file) = call.map_or((0, None), |call| (call.facts.errno, call.file));
        rows.push(&RecordedCall::of(&io, errno, file)).map_err(Unwritten::Here)
    });
    match written {
        Ok(()) => record.try_for_each(|r| rows.push(&r))?,
        Err(Unwritten::Here(e)) => return Err(e),
        Err(Unwritten::Lost(e)) => return Err(lost(e)),
    }
    rows.writer.finish()
}

/// Rows of the file, each under its worker and the workload that its kind of operation is.
struct CallRows<'a> {
    writer: IosWriter,
    workloads: &'a [OpKind],
    last: Option<(u16, u16)>,
}

impl CallRows<'_> {
    fn push(&mut self, call: &RecordedCall) -> Result<()> {
        let worker = call.worker;
        let workload = self.workloads.iter().position(|op| *op == call.op).unwrap_or(0) as u16;
        if self.last.replace((worker, workload)) != Some((worker, workload)) {
            self.writer.begin(RowKey { phase: "measure", workload, worker });
        }
        self.writer.push(&call.record())
    }
}
