//! Tables of rows as Parquet columns: name, type, and how a row holds each.
//!
//! What it is: the machinery that `intervals` and `layers` share, for files that are small enough
//! to be held as rows. What it is not: the streaming columns of `ios.parquet`.

use std::path::Path;
use std::sync::Arc;

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::column::writer::{ColumnWriter, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;
use taillight_core::Error;

use crate::atomic::TempFile;
use crate::dir::RunDir;
use crate::table;

/// Most rows in a row group that a reader believes.
const ROWS_MAX: usize = 1 << 24;

/// One column of rows `R`.
pub(crate) struct Column<R: 'static> {
    /// Name in the file.
    pub name: &'static str,
    /// How a row holds it.
    pub access: Access<R>,
}

/// Reads and sets a value of a row.
pub(crate) enum Access<R> {
    Text(fn(&R) -> &str, fn(&mut R, &str) -> bool),
    U16(fn(&R) -> u16, fn(&mut R, u16)),
    I64(fn(&R) -> i64, fn(&mut R, i64)),
    U64(fn(&R) -> u64, fn(&mut R, u64)),
    F64(fn(&R) -> f64, fn(&mut R, f64)),
    OptNs(fn(&R) -> Option<u64>, fn(&mut R, u64)),
    OptU64(fn(&R) -> Option<u64>, fn(&mut R, u64)),
    OptI64(fn(&R) -> Option<i64>, fn(&mut R, i64)),
    OptF64(fn(&R) -> Option<f64>, fn(&mut R, f64)),
    OptText(fn(&R) -> Option<&str>, fn(&mut R, &str)),
}

macro_rules! column {
    ($name:ident, OptNs) => {
        column!(@ $name, Access::OptNs(|r| r.$name, |r, v| r.$name = Some(v)))
    };
    ($name:ident, OptU64) => {
        column!(@ $name, Access::OptU64(|r| r.$name, |r, v| r.$name = Some(v)))
    };
    ($name:ident, OptI64) => {
        column!(@ $name, Access::OptI64(|r| r.$name, |r, v| r.$name = Some(v)))
    };
    ($name:ident, OptF64) => {
        column!(@ $name, Access::OptF64(|r| r.$name, |r, v| r.$name = Some(v)))
    };
    ($name:ident, Text) => {
        column!(@ $name, Access::Text(
            |r| &r.$name,
            |r, text| {
                r.$name = text.into();
                true
            },
        ))
    };
    ($name:ident, OptText) => {
        column!(@ $name, Access::OptText(
            |r| r.$name.as_deref(),
            |r, v| r.$name = Some(v.into()),
        ))
    };
    ($name:ident, $kind:ident) => {
        column!(@ $name, Access::$kind(|r| r.$name, |r, v| r.$name = v))
    };
    (@ $name:ident, $access:expr) => {
        Column { name: stringify!($name), access: $access }
    };
}
pub(crate) use column;

/// The schema in Parquet's text form.
fn schema_text<R: Clone + Default>(name: &str, columns: &[Column<R>]) -> String {
    let fields: String = columns.iter().map(Column::schema).collect();
    format!("message {name} {{ {fields}}}")
}

/// A table being written, one row group after the other.
pub(crate) struct TableWriter<R: Clone + Default + 'static> {
    columns: &'static [Column<R>],
    name: &'static str,
    file: TempFile,
    writer: SerializedFileWriter<std::fs::File>,
}

impl<R: Clone + Default> TableWriter<R> {
    /// Starts file `name` of a run directory; `dictionary` names columns with few values.
    pub fn begin(
        dir: &RunDir,
        name: &'static str,
        columns: &'static [Column<R>],
        dictionary: &[&str],
    ) -> taillight_core::Result<Self> {
        let file = dir.begin(name)?;
        let mut properties = table::properties()?;
        for name in dictionary {
            properties = properties.set_column_dictionary_enabled(ColumnPath::from(*name), true);
        }
        let message = name.split('.').next().unwrap_or(name);
        let schema = table::schema(&schema_text(message, columns))?;
        let writer =
            SerializedFileWriter::new(file.handle()?, schema, Arc::new(properties.build()))
                .map_err(|e| table::unwritten(name, e))?;
        Ok(TableWriter {
            columns,
            name,
            file,
            writer,
        })
    }

    /// Writes `rows` as one row group.
    pub fn group(&mut self, rows: &[R]) -> taillight_core::Result<()> {
        let bug = |e| table::unwritten(self.name, e);
        let mut group = self.writer.next_row_group().map_err(bug)?;
        for column in self.columns {
            let mut out = group
                .next_column()
                .map_err(bug)?
                .ok_or_else(|| Error::internal("a table has fewer columns than its rows"))?;
            column.write(rows, out.untyped()).map_err(bug)?;
            out.close().map_err(bug)?;
        }
        group.close().map_err(bug)?;
        Ok(())
    }

    /// Gives the file its name.
    pub fn commit(self) -> taillight_core::Result<()> {
        self.writer
            .close()
            .map_err(|e| table::unwritten(self.name, e))?;
        self.file.commit()
    }
}

/// Reads a table row group by row group. Optional columns that the file lacks stay default.
pub(crate) fn read_table<R: Clone + Default>(
    path: &Path,
    columns: &[Column<R>],
    each: &mut dyn FnMut(Vec<R>) -> taillight_core::Result<()>,
) -> taillight_core::Result<()> {
    let reader = table::open(path)?;
    for g in 0..reader.num_row_groups() {
        let group = table::guarded(path, || reader.get_row_group(g))?;
        each(read_group(path, group.as_ref(), columns)?)?;
    }
    Ok(())
}

fn read_group<R: Clone + Default>(
    path: &Path,
    group: &dyn RowGroupReader,
    columns: &[Column<R>],
) -> taillight_core::Result<Vec<R>> {
    let count = usize::try_from(group.metadata().num_rows())
        .ok()
        .filter(|n| *n <= ROWS_MAX)
        .ok_or_else(|| {
            Error::corrupt("a Parquet file states an impossible number of rows")
                .with("path", path.display())
        })?;
    let mut rows = vec![R::default(); count];
    let descr = group.metadata().schema_descr();
    for column in columns {
        let index = (0..descr.num_columns()).find(|i| descr.column(*i).name() == column.name);
        let place = match index {
            Some(i) => i,
            None if column.optional() => continue,
            None => {
                return Err(Error::corrupt("a Parquet file lacks a column")
                    .with("column", column.name)
                    .with("path", path.display()));
            }
        };
        table::guarded(path, || {
            column.read(&mut rows, group.get_column_reader(place)?)
        })?;
    }
    Ok(rows)
}

impl<R: Clone + Default> Column<R> {
    /// Whether files of this version may lack it.
    pub fn optional(&self) -> bool {
        matches!(
            self.access,
            Access::OptNs(..)
                | Access::OptU64(..)
                | Access::OptI64(..)
                | Access::OptF64(..)
                | Access::OptText(..)
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
            Access::OptNs(..) | Access::OptI64(..) => format!("optional int64 {name}; "),
            Access::OptText(..) => format!("optional binary {name} (STRING); "),
            Access::OptU64(..) => format!("optional int64 {name} (INTEGER(64,false)); "),
            Access::OptF64(..) => format!("optional double {name}; "),
        }
    }

    /// Writes this column of all rows.
    pub fn write(&self, rows: &[R], out: &mut ColumnWriter<'_>) -> Result<()> {
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
            (Access::OptI64(get, _), ColumnWriter::Int64ColumnWriter(w)) => {
                some(w, rows.iter().map(get))
            }
            (Access::OptText(get, _), ColumnWriter::ByteArrayColumnWriter(w)) => {
                some(w, rows.iter().map(|r| get(r).map(ByteArray::from)))
            }
            _ => Err(ParquetError::General(format!("{}: wrong type", self.name))),
        }
    }

    /// Reads this column into all rows.
    pub fn read(&self, rows: &mut [R], reader: ColumnReader) -> Result<()> {
        match (&self.access, reader) {
            (Access::Text(_, set), ColumnReader::ByteArrayColumnReader(r)) => {
                fill(r, rows, |r, v| {
                    std::str::from_utf8(v.data()).is_ok_and(|text| set(r, text))
                })
            }
            (Access::U16(_, set), ColumnReader::Int32ColumnReader(r)) => {
                fill(r, rows, |r, v| u16::try_from(v).map(|v| set(r, v)).is_ok())
            }
            (Access::I64(_, set) | Access::OptI64(_, set), ColumnReader::Int64ColumnReader(r)) => {
                fill(r, rows, |r, v| {
                    set(r, v);
                    true
                })
            }
            (Access::OptText(_, set), ColumnReader::ByteArrayColumnReader(r)) => {
                fill(r, rows, |r, v| {
                    let text = std::str::from_utf8(v.data());
                    text.map(|text| set(r, text)).is_ok()
                })
            }
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
fn fill<R, T: DataType>(
    mut reader: ColumnReaderImpl<T>,
    rows: &mut [R],
    set: impl Fn(&mut R, T::T) -> bool,
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
