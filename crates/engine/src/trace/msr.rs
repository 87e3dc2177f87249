//! MSR Cambridge (SNIA IOTTA 388): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`, stamps (since
//! 1601) and response times in ticks of 100 ns, offset and size in bytes. A disk is named by its host and a number.

use taillight_core::OpKind;
use taillight_core::plan::TraceOp;

use super::{StreamPair, TraceFormat, TraceRow, TraceSource, columns, heading, number};

pub(super) const FORMAT: TraceFormat = TraceFormat {
    word: "msr",
    name: "MSR",
    tick_ns: 100,
    ordered: true,
    pair: Some(StreamPair { words: "host,disk", first: false }),
    source: TraceSource::Lines(row),
};

fn row<'a>(line: &'a str, begun: &mut i64) -> Result<Option<TraceRow<'a>>, String> {
    if heading(line, "Timestamp,Hostname,", begun)? {
        return Ok(None);
    }
    let [stamp, host, disk, kind, offset, size, response] = columns(line)?;
    let stamp = super::stamp(Some(stamp))?;
    let kind = match kind {
        word if word.eq_ignore_ascii_case("read") => OpKind::Read,
        word if word.eq_ignore_ascii_case("write") => OpKind::Write,
        other => return Err(format!("`{other}` is neither Read nor Write")),
    };
    let offset = number(Some(offset), "offset")?;
    let size = number(Some(size), "size")?;
    // A trace made by hand may have none.
    let latency_ns = match response.trim() {
        "" => None,
        ticks => {
            let beyond = || format!("`{ticks}` is beyond any response time");
            let ns = number::<u64>(Some(ticks), "response time")?.checked_mul(100);
            Some(ns.ok_or_else(beyond)?)
        }
    };
    Ok(Some(TraceRow {
        stamp,
        stream: (host, disk),
        op: TraceOp::new(kind, offset, size),
        latency_ns,
        of: None,
    }))
}
