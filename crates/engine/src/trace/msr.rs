//! MSR Cambridge (SNIA IOTTA 388): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`,
//! stamps in ticks of 100 ns since 1601, offset and size in bytes.

use taillight_core::OpKind;

use super::{TraceFormat, TraceOp, TraceRow, number};

pub(super) const FORMAT: TraceFormat = TraceFormat { name: "MSR", tick_ns: 100, row };

fn row(line: &str, _: &mut i64) -> Result<Option<TraceRow>, String> {
    if line.starts_with("Timestamp,Hostname,") {
        return Ok(None);
    }
    let columns = line.split(',').count();
    if columns != 7 {
        return Err(format!("a row has 7 columns, this one {columns}"));
    }
    let mut columns = line.split(',');
    let stamp = number(columns.next(), "time")?;
    let kind = match columns.nth(2).unwrap_or_default() {
        word if word.eq_ignore_ascii_case("read") => OpKind::Read,
        word if word.eq_ignore_ascii_case("write") => OpKind::Write,
        other => return Err(format!("`{other}` is neither Read nor Write")),
    };
    let offset = number(columns.next(), "offset")?;
    let size = number(columns.next(), "size")?;
    Ok(Some(TraceRow { stamp, op: TraceOp { offset, size, kind } }))
}
