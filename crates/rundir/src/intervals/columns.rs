//! The columns of `intervals.parquet`: name, type, and how a row holds each.

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use taillight_core::OpKind;

use super::IntervalRow as Row;

/// One column.
pub(super) struct Column {
    /// Name in the file.
    pub name: &'static str,
    access: Access,
}

enum Access {
    Text(fn(&Row) -> &str, fn(&mut Row, &str) -> bool),
    U16(fn(&Row) -> u16, fn(&mut Row, u16)),
    I64(fn(&Row) -> i64, fn(&mut Row, i64)),
    U64(fn(&Row) -> u64, fn(&mut Row, u64)),
    F64(fn(&Row) -> f64, fn(&mut Row, f64)),
    OptNs(fn(&Row) -> Option<u64>, fn(&mut Row, u64)),
    OptU64(fn(&Row) -> Option<u64>, fn(&mut Row, u64)),
    OptF64(fn(&Row) -> Option<f64>, fn(&mut Row, f64)),
}

macro_rules! column {
    ($name:ident, OptNs) => {
        column!(@ $name, Access::OptNs(|r| r.$name, |r, v| r.$name = Some(v)))
    };
    ($name:ident, OptU64) => {
        column!(@ $name, Access::OptU64(|r| r.$name, |r, v| r.$name = Some(v)))
    };
    ($name:ident, OptF64) => {
        column!(@ $name, Access::OptF64(|r| r.$name, |r, v| r.$name = Some(v)))
    };
    ($name:ident, $kind:ident) => {
        column!(@ $name, Access::$kind(|r| r.$name, |r, v| r.$name = v))
    };
    (@ $name:ident, $access:expr) => {
        Column { name: stringify!($name), access: $access }
    };
}

/// Every column, in file order.
pub(super) const COLUMNS: &[Column] = &[
    column!(start_ns, I64),
    Column {
        name: "length_ns",
        access: Access::I64(|r| r.length_ns as i64, |r, v| r.length_ns = v.max(0) as u64),
    },
    Column {
        name: "phase",
        access: Access::Text(
            |r| &r.phase,
            |r, t| {
                t.clone_into(&mut r.phase);
                true
            },
        ),
    },
    column!(workload, U16),
    Column {
        name: "op",
        access: Access::Text(
            |r| r.op.name(),
            |r, t| OpKind::from_name(t).map(|op| r.op = op).is_some(),
        ),
    },
    column!(ops, U64),
    column!(bytes, U64),
    column!(errors, U64),
    column!(min_ns, OptNs),
    column!(mean_ns, OptF64),
    column!(max_ns, OptNs),
    column!(p10_ns, OptNs),
    column!(p25_ns, OptNs),
    column!(p50_ns, OptNs),
    column!(p75_ns, OptNs),
    column!(p90_ns, OptNs),
    column!(p95_ns, OptNs),
    column!(p99_ns, OptNs),
    column!(p999_ns, OptNs),
    column!(p9999_ns, OptNs),
    column!(response_p99_ns, OptNs),
    column!(slc1, OptF64),
    column!(slc2, OptF64),
    column!(backlog, OptU64),
    column!(depth_mean, F64),
];

/// The schema in Parquet's text form.
pub(super) fn schema_text() -> String {
    let fields: String = COLUMNS.iter().map(Column::schema).collect();
    format!("message intervals {{ {fields}}}")
}

impl Column {
    /// Whether files of this version may lack it.
    pub fn optional(&self) -> bool {
        matches!(
            self.access,
            Access::OptNs(..) | Access::OptU64(..) | Access::OptF64(..)
        )
    }

    fn schema(&self) -> String {
        let name = self.name;
        match self.access {
            Access::Text(..) => format!("required binary {name} (STRING); "),
            Access::U16(..) => format!("required int32 {name} (INTEGER(16,false)); "),
            Access::I64(..) => format!("required int64 {name}; "),
            Access::U64(..) => format!("required int64 {name} (INTEGER(64,false)); "),
            Access::F64(..) => format!("required double {name}; "),
            Access::OptNs(..) => format!("optional int64 {name}; "),
            Access::OptU64(..) => format!("optional int64 {name} (INTEGER(64,false)); "),
            Access::OptF64(..) => format!("optional double {name}; "),
        }
    }

    /// Writes this column of all rows.
    pub fn write(&self, rows: &[Row], out: &mut ColumnWriter<'_>) -> Result<()> {
        match (&self.access, out) {
            (Access::Text(get, _), ColumnWriter::ByteArrayColumnWriter(w)) => {
                all(w, rows.iter().map(|r| ByteArray::from(get(r))))
            }
            (Access::U16(get, _), ColumnWriter::Int32ColumnWriter(w)) => {
                all(w, rows.iter().map(|r| i32::from(get(r))))
            }
            (Access::I64(get, _), ColumnWriter::Int64ColumnWriter(w)) => {
                all(w, rows.iter().map(get))
            }
            (Access::U64(get, _), ColumnWriter::Int64ColumnWriter(w)) => {
                all(w, rows.iter().map(|r| get(r) as i64))
            }
            (Access::F64(get, _), ColumnWriter::DoubleColumnWriter(w)) => {
                all(w, rows.iter().map(get))
            }
            (
                Access::OptNs(get, _) | Access::OptU64(get, _),
                ColumnWriter::Int64ColumnWriter(w),
            ) => some(w, rows.iter().map(|r| get(r).map(|v| v as i64))),
            (Access::OptF64(get, _), ColumnWriter::DoubleColumnWriter(w)) => {
                some(w, rows.iter().map(get))
            }
            _ => Err(ParquetError::General(format!("{}: wrong type", self.name))),
        }
    }

    /// Reads this column into all rows.
    pub fn read(&self, rows: &mut [Row], reader: ColumnReader) -> Result<()> {
        match (&self.access, reader) {
            (Access::Text(_, set), ColumnReader::ByteArrayColumnReader(r)) => {
                fill(r, rows, |r, v| {
                    std::str::from_utf8(v.data()).is_ok_and(|text| set(r, text))
                })
            }
            (Access::U16(_, set), ColumnReader::Int32ColumnReader(r)) => {
                fill(r, rows, |r, v| u16::try_from(v).map(|v| set(r, v)).is_ok())
            }
            (Access::I64(_, set), ColumnReader::Int64ColumnReader(r)) => fill(r, rows, |r, v| {
                set(r, v);
                true
            }),
            (
                Access::U64(_, set) | Access::OptNs(_, set) | Access::OptU64(_, set),
                ColumnReader::Int64ColumnReader(r),
            ) => fill(r, rows, |r, v| {
                set(r, v as u64);
                true
            }),
            (Access::F64(_, set) | Access::OptF64(_, set), ColumnReader::DoubleColumnReader(r)) => {
                fill(r, rows, |r, v| {
                    set(r, v);
                    true
                })
            }
            _ => Err(ParquetError::General(format!("{}: wrong type", self.name))),
        }
    }
}

fn all<T: DataType>(
    out: &mut ColumnWriterImpl<'_, T>,
    values: impl Iterator<Item = T::T>,
) -> Result<()> {
    out.write_batch(&values.collect::<Vec<_>>(), None, None)
        .map(|_| ())
}

fn some<T: DataType>(
    out: &mut ColumnWriterImpl<'_, T>,
    values: impl Iterator<Item = Option<T::T>>,
) -> Result<()> {
    let mut levels = Vec::new();
    let present: Vec<T::T> = values
        .inspect(|v| levels.push(i16::from(v.is_some())))
        .flatten()
        .collect();
    out.write_batch(&present, Some(&levels), None).map(|_| ())
}

/// Reads one value per row (or none where the level says null) and hands it to `set`, which
/// returns false for a value that cannot be.
fn fill<T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: &mut [Row],
    set: impl Fn(&mut Row, T::T) -> bool,
) -> Result<()> {
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    let (count, _, _) = reader.read_records(rows.len(), Some(&mut levels), None, &mut values)?;
    if count != rows.len() || !(levels.is_empty() || levels.len() == count) {
        return Err(ParquetError::EOF("fewer values than rows".into()));
    }
    let mut values = values.into_iter();
    for (i, row) in rows.iter_mut().enumerate() {
        if levels.get(i) == Some(&0) {
            continue;
        }
        let value = values
            .next()
            .ok_or_else(|| ParquetError::EOF("fewer values than rows".into()))?;
        if !set(row, value) {
            return Err(ParquetError::General("impossible value".into()));
        }
    }
    Ok(())
}
