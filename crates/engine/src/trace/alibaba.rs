//! Alibaba EBS 2020: `device_id,opcode,offset,length,timestamp`, R or W, bytes, microseconds.

use taillight_core::OpKind;
use taillight_core::plan::TraceOp;

use super::{TraceFormat, TraceRow, TraceSource, columns, heading, number};

pub(super) const FORMAT: TraceFormat = TraceFormat {
    word: "alibaba",
    name: "Alibaba",
    tick_ns: 1000,
    ordered: true,
    pair: None,
    source: TraceSource::Lines(row),
};

fn row<'a>(line: &'a str, begun: &mut i64) -> Result<Option<TraceRow<'a>>, String> {
    if heading(line, "device_id,opcode,", begun)? {
        return Ok(None);
    }
    let [stream, kind, offset, size, stamp] = columns(line)?;
    let kind = match kind {
        "R" => OpKind::Read,
        "W" => OpKind::Write,
        other => return Err(format!("`{other}` is neither R nor W")),
    };
    let offset = number(Some(offset), "offset")?;
    let size = number(Some(size), "length")?;
    let stamp = super::stamp(Some(stamp))?;
    Ok(Some(TraceRow::plain(stamp, stream, TraceOp::new(kind, offset, size))))
}
