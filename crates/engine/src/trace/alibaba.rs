//! Alibaba EBS 2020: `device_id,opcode,offset,length,timestamp`, R or W, bytes, microseconds.

use taillight_core::OpKind;

use super::{TraceFormat, TraceOp, TraceRow, number};

pub(super) const FORMAT: TraceFormat = TraceFormat { name: "Alibaba", tick_ns: 1000, row };

fn row(line: &str, _: &mut i64) -> Result<Option<TraceRow>, String> {
    if line.starts_with("device_id,opcode,") {
        return Ok(None);
    }
    let columns = line.split(',').count();
    if columns != 5 {
        return Err(format!("a row has 5 columns, this one {columns}"));
    }
    let mut columns = line.split(',');
    let kind = match columns.nth(1).unwrap_or_default() {
        "R" => OpKind::Read,
        "W" => OpKind::Write,
        other => return Err(format!("`{other}` is neither R nor W")),
    };
    let offset = number(columns.next(), "offset")?;
    let size = number(columns.next(), "length")?;
    let stamp = number(columns.next(), "time")?;
    Ok(Some(TraceRow { stamp, op: TraceOp { offset, size, kind } }))
}
