//! MSR Cambridge (SNIA IOTTA 388): `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`,
//! stamps in ticks of 100 ns since 1601, offset and size in bytes.

use taillight_core::OpKind;

use super::{TraceFormat, TraceOp, TraceRow, columns, number};

pub(super) const FORMAT: TraceFormat = TraceFormat { name: "MSR", tick_ns: 100, row };

fn row(line: &str, _: &mut i64) -> Result<Option<TraceRow>, String> {
    if line.starts_with("Timestamp,Hostname,") {
        return Ok(None);
    }
    let [stamp, _, _, kind, offset, size, _] = columns(line)?;
    let stamp = number(Some(stamp), "time")?;
    let kind = match kind {
        word if word.eq_ignore_ascii_case("read") => OpKind::Read,
        word if word.eq_ignore_ascii_case("write") => OpKind::Write,
        other => return Err(format!("`{other}` is neither Read nor Write")),
    };
    let offset = number(Some(offset), "offset")?;
    let size = number(Some(size), "size")?;
    Ok(Some(TraceRow { stamp, op: TraceOp { offset, size, kind } }))
}
