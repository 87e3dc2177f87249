//! Tencent CBS 2018 (SNIA IOTTA 27917): `Timestamp,Offset,Size,IOType,VolumeID`, whole seconds,
//! offset and size in sectors of 512 bytes, 0 for a read and 1 for a write.

use taillight_core::OpKind;
use taillight_core::plan::TraceOp;

use super::{TraceFormat, TraceRow, TraceSource, columns, heading, number};

const SECTOR: u32 = 512;

pub(super) const FORMAT: TraceFormat = TraceFormat {
    word: "tencent",
    name: "Tencent",
    tick_ns: 1_000_000_000,
    ordered: true,
    pair: None,
    source: TraceSource::Lines(sectors),
};
/// The format with bytes in the place of sectors, as the trace was released again; used only where the job names it.
pub(super) const BYTES: TraceFormat = TraceFormat {
    word: "tencent-bytes",
    name: "Tencent, in bytes",
    source: TraceSource::Lines(bytes),
    ..FORMAT
};

/// Whether offsets and sizes that were read as sectors seem to be bytes: as bytes, all are whole sectors.
pub(super) fn seem_bytes(ops: &[TraceOp]) -> bool {
    let whole = |n: u64| n.is_multiple_of(u64::from(SECTOR * SECTOR));
    ops.iter().all(|op| whole(op.offset) && whole(op.size.into()))
}

fn sectors<'a>(line: &'a str, begun: &mut i64) -> Result<Option<TraceRow<'a>>, String> {
    row(line, begun, SECTOR)
}

fn bytes<'a>(line: &'a str, begun: &mut i64) -> Result<Option<TraceRow<'a>>, String> {
    row(line, begun, 1)
}

/// `unit`: bytes of one.
fn row<'a>(line: &'a str, begun: &mut i64, unit: u32) -> Result<Option<TraceRow<'a>>, String> {
    if heading(line, "Timestamp,Offset,", begun)? {
        return Ok(None);
    }
    let [stamp, offset, size, kind, stream] = columns(line)?;
    let stamp = super::stamp(Some(stamp))?;
    let offset: u64 = number(Some(offset), "offset")?;
    let size: u32 = number(Some(size), "size")?;
    let kind = match kind {
        "0" => OpKind::Read,
        "1" => OpKind::Write,
        other => return Err(format!("`{other}` is neither 0 (a read) nor 1 (a write)")),
    };
    let bytes = offset.checked_mul(unit.into()).zip(size.checked_mul(unit));
    let (offset, size) = bytes.ok_or(
        "offset or size are too large for sectors: of a file in bytes the format is tencent-bytes",
    )?;
    Ok(Some(TraceRow::plain(stamp, stream, TraceOp::new(kind, offset, size))))
}
