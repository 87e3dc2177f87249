//! One column of one row group being read: a decoder, or a constant that the statistics prove.

use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::RowGroupReader;
use parquet::file::statistics::Statistics;
use taillight_core::OpKind;

use super::read::RowBatch;
use super::schema;
use crate::table::ReadFailure;

/// Where the values of a column come from, by the type they have in the file.
pub(super) enum ColumnSource {
    Int(ColumnValues<Int32Type>),
    Long(ColumnValues<Int64Type>),
    Text(ColumnValues<ByteArrayType>),
}

/// Values of one column.
pub(super) enum ColumnValues<T: DataType> {
    /// The same in every row; `None` is null.
    Constant(Option<T::T>),
    Reader {
        reader: Box<ColumnReaderImpl<T>>,
        /// Scratch: 0 for a null, else 1; empty where the column has no nulls.
        levels: Vec<i16>,
        /// Scratch: the values that are present.
        present: Vec<T::T>,
    },
}

impl ColumnSource {
    /// A column of this type that the file lacks: nulls.
    pub fn null(physical: PhysicalType) -> Result<ColumnSource> {
        Ok(match physical {
            PhysicalType::INT32 => ColumnSource::Int(ColumnValues::Constant(None)),
            PhysicalType::INT64 => ColumnSource::Long(ColumnValues::Constant(None)),
            PhysicalType::BYTE_ARRAY => ColumnSource::Text(ColumnValues::Constant(None)),
            _ => return Err(unknown_type()),
        })
    }

    pub fn open(group: &dyn RowGroupReader, index: usize, rows: usize) -> Result<ColumnSource> {
        let meta = group.metadata().column(index);
        if usize::try_from(meta.num_values()) != Ok(rows) {
            return Err(ParquetError::General("columns differ in length".into()));
        }
        if let Some(constant) =
            meta.statistics().and_then(|s| constant(s, meta.column_type(), rows as u64))
        {
            return Ok(constant);
        }
        let reader = group.get_column_reader(index)?;
        Ok(match meta.column_type() {
            PhysicalType::INT32 => ColumnSource::Int(ColumnValues::reader(reader)),
            PhysicalType::INT64 => ColumnSource::Long(ColumnValues::reader(reader)),
            PhysicalType::BYTE_ARRAY => ColumnSource::Text(ColumnValues::reader(reader)),
            _ => return Err(unknown_type()),
        })
    }
}

/// What the statistics say when every row holds the same.
fn constant(s: &Statistics, physical: PhysicalType, rows: u64) -> Option<ColumnSource> {
    if s.null_count_opt() == Some(rows) {
        return ColumnSource::null(physical).ok();
    }
    if s.null_count_opt() != Some(0) || !s.min_is_exact() || !s.max_is_exact() {
        return None;
    }
    match s {
        Statistics::Int32(s) => same(s.min_opt(), s.max_opt()).map(ColumnSource::Int),
        Statistics::Int64(s) => same(s.min_opt(), s.max_opt()).map(ColumnSource::Long),
        Statistics::ByteArray(s) => same(s.min_opt(), s.max_opt()).map(ColumnSource::Text),
        _ => None,
    }
}

/// The constant between these two, where they are the same.
fn same<T: DataType>(min: Option<&T::T>, max: Option<&T::T>) -> Option<ColumnValues<T>> {
    let value = min.filter(|_| min == max)?;
    Some(ColumnValues::Constant(Some(value.clone())))
}

fn unknown_type() -> ParquetError {
    ParquetError::General("a column has the wrong type".into())
}

impl<T: DataType> ColumnValues<T> {
    fn reader(reader: parquet::column::reader::ColumnReader) -> ColumnValues<T> {
        ColumnValues::Reader {
            reader: Box::new(get_typed_column_reader(reader)),
            levels: Vec::new(),
            present: Vec::new(),
        }
    }

    /// Puts the next `n` values into `out`. `get` makes a value of a cell, null being `None`, and
    /// refuses what may not be.
    fn take<V: Clone>(
        &mut self,
        n: usize,
        out: &mut Vec<V>,
        mut get: impl FnMut(Option<&T::T>) -> Option<V>,
    ) -> Result<(), ReadFailure> {
        out.clear();
        let mut get = |row, cell| get(cell).ok_or_else(|| ReadFailure::value(row));
        let (reader, levels, present) = match self {
            ColumnValues::Constant(value) => {
                out.resize(n, get(0, value.as_ref())?);
                return Ok(());
            }
            ColumnValues::Reader { reader, levels, present } => (reader, levels, present),
        };
        levels.clear();
        present.clear();
        let (rows, _, _) = reader.read_records(n, Some(levels), None, present)?;
        out.reserve(n);
        if levels.is_empty() {
            if rows != n || present.len() != n {
                return Err(ReadFailure::short(present.len()));
            }
            for (row, value) in present.iter().enumerate() {
                out.push(get(row, Some(value))?);
            }
            return Ok(());
        }
        if rows != n || levels.len() != n {
            return Err(ReadFailure::short(levels.len()));
        }
        let mut values = present.iter();
        for (row, level) in levels.iter().enumerate() {
            let cell = match level {
                0 => None,
                _ => Some(values.next().ok_or_else(|| ReadFailure::short(row))?),
            };
            out.push(get(row, cell)?);
        }
        Ok(())
    }
}

fn short(cell: Option<&i32>) -> Option<u16> {
    u16::try_from(*cell?).ok()
}
fn stamp(cell: Option<&i64>) -> Option<i64> {
    cell.copied()
}
/// A number that the file holds without a sign.
fn unsigned(cell: Option<&i64>) -> Option<u64> {
    cell.map(|v| *v as u64)
}
fn positive(cell: Option<&i64>) -> Option<u64> {
    u64::try_from(*cell?).ok()
}

/// The same where nulls may be.
fn nullable<C, V>(get: fn(Option<&C>) -> Option<V>) -> impl Fn(Option<&C>) -> Option<Option<V>> {
    move |cell| match cell {
        None => Some(None),
        present => get(present).map(Some),
    }
}

impl RowBatch {
    /// Replaces column `place` by its next `self.rows` values.
    pub(super) fn fill(
        &mut self,
        place: usize,
        source: &mut ColumnSource,
    ) -> Result<(), ReadFailure> {
        use ColumnSource::{Int, Long, Text};
        let n = self.rows;
        match (place, source) {
            (schema::PHASE, Text(v)) => {
                let names = &mut self.phase_names;
                v.take(n, &mut self.phase, |cell| intern(names, cell?.data()))
            }
            (schema::WORKLOAD, Int(v)) => v.take(n, &mut self.workload, short),
            (schema::WORKER, Int(v)) => v.take(n, &mut self.worker, short),
            (schema::OP, Text(v)) => v.take(n, &mut self.op, cached_op()),
            (schema::TARGET, Int(v)) => v.take(n, &mut self.target, short),
            (schema::OFFSET, Long(v)) => v.take(n, &mut self.offset, nullable(positive)),
            (schema::KEY, Long(v)) => v.take(n, &mut self.key, nullable(unsigned)),
            (schema::SIZE, Long(v)) => v.take(n, &mut self.size, unsigned),
            (schema::MOVED, Long(v)) => v.take(n, &mut self.moved, nullable(unsigned)),
            (schema::COUNT, Int(v)) => {
                v.take(n, &mut self.count, nullable(|c| c.map(|v| *v as u32)))
            }
            (schema::INTENDED, Long(v)) => v.take(n, &mut self.intended, nullable(stamp)),
            (schema::ORIGIN, Long(v)) => v.take(n, &mut self.origin, nullable(stamp)),
            (schema::SUBMIT, Long(v)) => v.take(n, &mut self.submit, stamp),
            (schema::ISSUED, Long(v)) => v.take(n, &mut self.issued, nullable(stamp)),
            (schema::FIRST, Long(v)) => v.take(n, &mut self.first, nullable(stamp)),
            (schema::COMPLETE, Long(v)) => v.take(n, &mut self.complete, stamp),
            (schema::SYNC, Long(v)) => v.take(n, &mut self.sync, nullable(positive)),
            (schema::RETRIES, Int(v)) => v.take(n, &mut self.retries, nullable(short)),
            (schema::STATUS, Int(v)) => v.take(n, &mut self.status, |c| c.copied()),
            _ => Err(unknown_type().into()),
        }
    }
}

/// The kind with this name; remembers the last one, which most often comes again.
fn cached_op() -> impl FnMut(Option<&ByteArray>) -> Option<OpKind> {
    let mut last = OpKind::Read;
    move |cell| {
        let text = cell?.data();
        if text != last.name().as_bytes() {
            last = OpKind::from_name(std::str::from_utf8(text).ok()?)?;
        }
        Some(last)
    }
}

/// Index of a name in `names`; a new one is added.
fn intern(names: &mut Vec<String>, text: &[u8]) -> Option<u16> {
    let known = names.iter().position(|n| n.as_bytes() == text);
    let index = match known {
        Some(index) => index,
        None => {
            names.push(std::str::from_utf8(text).ok()?.to_owned());
            names.len() - 1
        }
    };
    u16::try_from(index).ok()
}
