//! One column of one row group being read: a decoder, or a constant that the statistics prove.

use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::RowGroupReader;
use parquet::file::statistics::Statistics;
use taillight_core::OpKind;

use super::batch::RowBatch;
use super::column::{DenseColumn, OptionalColumn};
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

    /// Puts the next `n` values into `out`. `get` makes a value of what is there, and refuses what
    /// may not be.
    fn dense<V: Copy + PartialEq>(
        &mut self,
        n: usize,
        out: &mut DenseColumn<V>,
        mut get: impl FnMut(&T::T) -> Option<V>,
    ) -> Result<(), ReadFailure> {
        let (reader, levels, present) = match self {
            ColumnValues::Constant(value) => {
                let value = value.as_ref().and_then(get);
                out.set_all(value.ok_or_else(|| ReadFailure::value(0))?);
                return Ok(());
            }
            ColumnValues::Reader { reader, levels, present } => (reader, levels, present),
        };
        next(reader, n, levels, present)?;
        if let Some(null) = levels.iter().position(|level| *level == 0) {
            return Err(ReadFailure::value(null));
        }
        convert(present, out.list(), &mut get)
    }

    /// The same where nulls may be.
    fn optional<V: Copy + PartialEq + Default>(
        &mut self,
        n: usize,
        out: &mut OptionalColumn<V>,
        mut get: impl FnMut(&T::T) -> Option<V>,
    ) -> Result<(), ReadFailure> {
        let (reader, levels, present) = match self {
            ColumnValues::Constant(value) => {
                let value = value.as_ref().map(|v| get(v).ok_or_else(|| ReadFailure::value(0)));
                out.set_all(value.transpose()?);
                return Ok(());
            }
            ColumnValues::Reader { reader, levels, present } => (reader, levels, present),
        };
        next(reader, n, levels, present)?;
        let (values, out_levels) = out.lists();
        if present.len() == n {
            return convert(present, values, &mut get);
        }
        let mut there = present.iter();
        for (row, level) in levels.iter().enumerate() {
            values.push(match level {
                0 => V::default(),
                _ => {
                    let value = there.next().ok_or_else(|| ReadFailure::short(row))?;
                    get(value).ok_or_else(|| ReadFailure::value(row))?
                }
            });
        }
        out_levels.append(levels);
        Ok(())
    }
}

/// Reads the next `n` values: one of each row, or a level of each row and those that are no nulls.
fn next<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    n: usize,
    levels: &mut Vec<i16>,
    present: &mut Vec<T::T>,
) -> Result<(), ReadFailure> {
    levels.clear();
    present.clear();
    let (rows, _, _) = reader.read_records(n, Some(levels), None, present)?;
    let listed = if levels.is_empty() { present.len() } else { levels.len() };
    if rows != n || listed != n { Err(ReadFailure::short(listed)) } else { Ok(()) }
}

fn convert<C, V>(
    cells: &[C],
    out: &mut Vec<V>,
    get: &mut impl FnMut(&C) -> Option<V>,
) -> Result<(), ReadFailure> {
    out.reserve(cells.len());
    for (row, cell) in cells.iter().enumerate() {
        out.push(get(cell).ok_or_else(|| ReadFailure::value(row))?);
    }
    Ok(())
}

fn short(cell: &i32) -> Option<u16> {
    u16::try_from(*cell).ok()
}
/// A small number that stays as it is in the file.
fn small(cell: &i32) -> Option<i32> {
    short(cell).map(i32::from)
}
fn any<C: Copy>(cell: &C) -> Option<C> {
    Some(*cell)
}
fn positive(cell: &i64) -> Option<i64> {
    (*cell >= 0).then_some(*cell)
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
                v.dense(n, &mut self.phase, |cell| intern(names, cell.data()))
            }
            (schema::WORKLOAD, Int(v)) => v.dense(n, &mut self.workload, short),
            (schema::WORKER, Int(v)) => v.dense(n, &mut self.worker, short),
            (schema::OP, Text(v)) => v.dense(n, &mut self.op, cached_op()),
            (schema::TARGET, Int(v)) => v.dense(n, &mut self.target, small),
            (schema::OFFSET, Long(v)) => v.optional(n, &mut self.offset, positive),
            (schema::KEY, Long(v)) => v.optional(n, &mut self.key, any),
            (schema::SIZE, Long(v)) => v.dense(n, &mut self.size, any),
            (schema::MOVED, Long(v)) => v.optional(n, &mut self.moved, any),
            (schema::COUNT, Int(v)) => v.optional(n, &mut self.count, any),
            (schema::INTENDED, Long(v)) => v.optional(n, &mut self.intended, any),
            (schema::ORIGIN, Long(v)) => v.optional(n, &mut self.origin, any),
            (schema::SUBMIT, Long(v)) => v.dense(n, &mut self.submit, any),
            (schema::ISSUED, Long(v)) => v.optional(n, &mut self.issued, any),
            (schema::FIRST, Long(v)) => v.optional(n, &mut self.first, any),
            (schema::COMPLETE, Long(v)) => v.dense(n, &mut self.complete, any),
            (schema::SYNC, Long(v)) => v.optional(n, &mut self.sync, positive),
            (schema::RETRIES, Int(v)) => v.optional(n, &mut self.retries, small),
            (schema::STATUS, Int(v)) => v.dense(n, &mut self.status, any),
            _ => Err(unknown_type().into()),
        }
    }
}

/// The kind with this name; remembers the last one, which most often comes again.
fn cached_op() -> impl FnMut(&ByteArray) -> Option<OpKind> {
    let mut last = OpKind::Read;
    move |cell| {
        let text = cell.data();
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
