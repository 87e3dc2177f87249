//! Alibaba EBS 2020: `device_id,opcode,offset,length,timestamp`, R or W, bytes, microseconds.

use taillight_core::OpKind;

use super::{TraceFormat, TraceOp, TraceRow, columns, number};

pub(super) const FORMAT: TraceFormat = TraceFormat { name: "Alibaba", tick_ns: 1000, row };

fn row(line: &str, _: &mut i64) -> Result<Option<TraceRow>, String> {
    if line.starts_with("device_id,opcode,") {
        return Ok(None);
    }
    let [_, kind, offset, size, stamp] = columns(line)?;
    let kind = match kind {
        "R" => OpKind::Read,
        "W" => OpKind::Write,
        other => return Err(format!("`{other}` is neither R nor W")),
    };
    let offset = number(Some(offset), "offset")?;
    let size = number(Some(size), "length")?;
    let stamp = number(Some(stamp), "time")?;
    Ok(Some(TraceRow { stamp, op: TraceOp { offset, size, kind } }))
}
