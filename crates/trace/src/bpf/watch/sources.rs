//! `ios.parquet` of watched operations: those that were slow, each with its file.

use std::io;

use taillight_core::{Error, OpKind, Record, Result, Stamp, Status};
use taillight_rundir::RunDir;
use taillight_rundir::ios::{IosWriter, RowKey};

use super::gather::KnownCalls;
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

/// Writes the slow operations, those of a worker in the order of their begins. How many. Errors: `Unavailable` when
/// the file cannot be written.
pub fn write_ios(
    dir: &RunDir,
    trace: &CollectedTrace,
    known: &KnownCalls,
    workloads: &[OpKind],
) -> Result<u64> {
    let lost = |e| Error::unavailable("what was kept of the trace cannot be read back").source(e);
    let mut writer = IosWriter::create(dir)?;
    let mut last = None;
    let order = trace.ios.order(|_| ()).map_err(lost)?;
    let written = trace.ios.in_order(order, |io, _| {
        if u64::from(io.flags) & (flags::SAMPLE | flags::BESIDE) != 0 {
            return Ok(());
        }
        let workload = workloads.iter().position(|op| *op == io.op).unwrap_or(0) as u16;
        if last.replace((io.worker, workload)) != Some((io.worker, workload)) {
            writer.begin(RowKey { phase: "measure", workload, worker: io.worker });
        }
        let call = known.get(io.worker, io.submit);
        let record = Record {
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
        };
        writer.push(&record).map_err(Unwritten::Here)
    });
    match written {
        Ok(()) => writer.finish(),
        Err(Unwritten::Here(e)) => Err(e),
        Err(Unwritten::Lost(e)) => Err(lost(e)),
    }
}
