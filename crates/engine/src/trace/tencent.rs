//! Tencent CBS 2018 (SNIA IOTTA 27917): `Timestamp,Offset,Size,IOType,VolumeID`, whole seconds,
//! offset and size in sectors of 512 bytes, 0 for a read and 1 for a write.

use taillight_core::OpKind;

use super::{TraceFormat, TraceOp, TraceRow, number};

const SECTOR: u32 = 512;

pub(super) const FORMAT: TraceFormat = TraceFormat { name: "Tencent", tick_ns: 1_000_000_000, row };

fn row(line: &str, _: &mut i64) -> Result<Option<TraceRow>, String> {
    if line.starts_with("Timestamp,Offset,") {
        return Ok(None);
    }
    let columns = line.split(',').count();
    if columns != 5 {
        return Err(format!("a row has 5 columns, this one {columns}"));
    }
    let mut columns = line.split(',');
    let stamp = number(columns.next(), "time")?;
    let offset: u64 = number(columns.next(), "offset")?;
    let size: u32 = number(columns.next(), "size")?;
    let kind = match columns.next().unwrap_or_default() {
        "0" => OpKind::Read,
        "1" => OpKind::Write,
        other => return Err(format!("`{other}` is neither 0 (a read) nor 1 (a write)")),
    };
    let bytes = offset.checked_mul(SECTOR.into()).zip(size.checked_mul(SECTOR));
    let (offset, size) = bytes.ok_or("offset or size are too large for sectors")?;
    Ok(Some(TraceRow { stamp, op: TraceOp { offset, size, kind } }))
}
