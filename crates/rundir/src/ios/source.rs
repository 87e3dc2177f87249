//! One column of one row group being read: a decoder, or a constant that the statistics prove.

use parquet::column::reader::ColumnReader;
use parquet::data_type::ByteArray;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::RowGroupReader;
use parquet::file::statistics::Statistics;
use taillight_core::OpKind;

use super::read::RowBatch;
use super::schema;

/// Where the values of a column come from.
pub(super) struct ColumnSource {
    from: From,
    levels: Vec<i16>,
    ints: Vec<i32>,
    longs: Vec<i64>,
    texts: Vec<ByteArray>,
}

enum From {
    Null,
    Int(i32),
    Long(i64),
    Text(ByteArray),
    Reader(Box<ColumnReader>),
}

impl ColumnSource {
    /// A column the file lacks.
    pub fn null() -> ColumnSource {
        ColumnSource::new(From::Null)
    }

    fn new(from: From) -> ColumnSource {
        ColumnSource {
            from,
            levels: Vec::new(),
            ints: Vec::new(),
            longs: Vec::new(),
            texts: Vec::new(),
        }
    }

    /// Opens column `place` of a row group of `rows` rows.
    pub fn open(group: &dyn RowGroupReader, place: usize, rows: usize) -> Result<ColumnSource> {
        let meta = group.metadata().column(place);
        if usize::try_from(meta.num_values()) != Ok(rows) {
            return Err(ParquetError::General("columns differ in length".into()));
        }
        if let Some(constant) = meta.statistics().and_then(|s| constant(s, rows as u64)) {
            return Ok(ColumnSource::new(constant));
        }
        let reader = group.get_column_reader(place)?;
        Ok(ColumnSource::new(From::Reader(Box::new(reader))))
    }

    /// Reads the next `n` values into the scratch vectors: present values, and levels when the
    /// column has them.
    fn read(&mut self, n: usize) -> Result<()> {
        let From::Reader(reader) = &mut self.from else {
            return Ok(());
        };
        self.levels.clear();
        let levels = Some(&mut self.levels);
        let (rows, _, _) = match reader.as_mut() {
            ColumnReader::Int32ColumnReader(r) => {
                self.ints.clear();
                r.read_records(n, levels, None, &mut self.ints)?
            }
            ColumnReader::Int64ColumnReader(r) => {
                self.longs.clear();
                r.read_records(n, levels, None, &mut self.longs)?
            }
            ColumnReader::ByteArrayColumnReader(r) => {
                self.texts.clear();
                r.read_records(n, levels, None, &mut self.texts)?
            }
            _ => return Err(wrong_type()),
        };
        let present = self.levels.iter().filter(|l| **l != 0).count();
        let values = match reader.as_ref() {
            ColumnReader::Int32ColumnReader(_) => self.ints.len(),
            ColumnReader::Int64ColumnReader(_) => self.longs.len(),
            _ => self.texts.len(),
        };
        let complete = if self.levels.is_empty() {
            values == n
        } else {
            self.levels.len() == n && values == present
        };
        if rows == n && complete {
            Ok(())
        } else {
            Err(ParquetError::EOF("fewer values than rows".into()))
        }
    }
}

/// What the statistics say when every row holds the same.
fn constant(s: &Statistics, rows: u64) -> Option<From> {
    if s.null_count_opt() == Some(rows) {
        return Some(From::Null);
    }
    if s.null_count_opt().unwrap_or(0) != 0 || !s.min_is_exact() || !s.max_is_exact() {
        return None;
    }
    match s {
        Statistics::Int32(s) if s.min_opt() == s.max_opt() => s.min_opt().map(|v| From::Int(*v)),
        Statistics::Int64(s) if s.min_opt() == s.max_opt() => s.min_opt().map(|v| From::Long(*v)),
        Statistics::ByteArray(s) if s.min_opt() == s.max_opt() => {
            s.min_opt().map(|v| From::Text(v.clone()))
        }
        _ => None,
    }
}

fn wrong_type() -> ParquetError {
    ParquetError::General("a column has the wrong type".into())
}

fn impossible() -> ParquetError {
    ParquetError::General("a column holds an impossible value".into())
}

/// Puts the next `n` 32-bit values, which may not be null, into `out`.
fn ints<T: Clone>(
    s: &mut ColumnSource,
    n: usize,
    out: &mut Vec<T>,
    get: impl Fn(i32) -> Option<T>,
) -> Result<()> {
    out.clear();
    match s.from {
        From::Int(v) => out.resize(n, get(v).ok_or_else(impossible)?),
        From::Reader(_) => {
            s.read(n)?;
            for v in &s.ints {
                out.push(get(*v).ok_or_else(impossible)?);
            }
        }
        _ => {}
    }
    full(out, n)
}

/// Puts the next `n` 64-bit values, which may not be null, into `out`.
fn longs<T: Clone>(
    s: &mut ColumnSource,
    n: usize,
    out: &mut Vec<T>,
    get: fn(i64) -> T,
) -> Result<()> {
    out.clear();
    match s.from {
        From::Long(v) => out.resize(n, get(v)),
        From::Reader(_) => {
            s.read(n)?;
            out.extend(s.longs.iter().map(|v| get(*v)));
        }
        _ => {}
    }
    full(out, n)
}

/// Puts the next `n` texts into `out`, translated by `get`.
fn texts<T: Clone>(
    s: &mut ColumnSource,
    n: usize,
    out: &mut Vec<T>,
    mut get: impl FnMut(&[u8]) -> Option<T>,
) -> Result<()> {
    out.clear();
    match &s.from {
        From::Text(v) => out.resize(n, get(v.data()).ok_or_else(impossible)?),
        From::Reader(_) => {
            s.read(n)?;
            for v in &s.texts {
                out.push(get(v.data()).ok_or_else(impossible)?);
            }
        }
        _ => {}
    }
    full(out, n)
}

/// Puts the next `n` optional values into `out`.
fn options<T: Clone>(
    s: &mut ColumnSource,
    n: usize,
    out: &mut Vec<Option<T>>,
    get: fn(i64) -> Option<T>,
) -> Result<()> {
    let present = |v: i64| get(v).map(Some).ok_or_else(impossible);
    out.clear();
    match s.from {
        From::Null => out.resize(n, None),
        From::Int(v) => out.resize(n, present(i64::from(v))?),
        From::Long(v) => out.resize(n, present(v)?),
        From::Reader(_) => {
            s.read(n)?;
            let ColumnSource {
                levels,
                ints,
                longs,
                ..
            } = s;
            let mut values = ints
                .iter()
                .map(|v| i64::from(*v))
                .chain(longs.iter().copied());
            if levels.is_empty() {
                for v in values {
                    out.push(present(v)?);
                }
            } else {
                for level in levels.iter() {
                    out.push(match level {
                        0 => None,
                        _ => present(values.next().ok_or_else(impossible)?)?,
                    });
                }
            }
        }
        From::Text(_) => {}
    }
    full(out, n)
}

fn full<T>(out: &[T], n: usize) -> Result<()> {
    if out.len() == n {
        Ok(())
    } else {
        Err(wrong_type())
    }
}

impl RowBatch {
    /// Replaces column `index` by its next `self.rows` values.
    pub(super) fn fill(&mut self, index: usize, s: &mut ColumnSource) -> Result<()> {
        let n = self.rows;
        let half = |v: i32| u16::try_from(v).ok();
        let stamp = |v: i64| Some(v);
        let number = |v: i64| Some(v as u64);
        match index {
            schema::PHASE => {
                let names = &mut self.phase_names;
                texts(s, n, &mut self.phase, |text| intern(names, text))
            }
            schema::WORKLOAD => ints(s, n, &mut self.workload, half),
            schema::WORKER => ints(s, n, &mut self.worker, half),
            schema::OP => texts(s, n, &mut self.op, cached_op()),
            schema::TARGET => ints(s, n, &mut self.target, half),
            schema::OFFSET => options(s, n, &mut self.offset, number),
            schema::KEY => options(s, n, &mut self.key, number),
            schema::SIZE => longs(s, n, &mut self.size, |v| v as u64),
            schema::MOVED => options(s, n, &mut self.moved, number),
            schema::COUNT => options(s, n, &mut self.count, |v| Some(v as u32)),
            schema::INTENDED => options(s, n, &mut self.intended, stamp),
            schema::ORIGIN => options(s, n, &mut self.origin, stamp),
            schema::SUBMIT => longs(s, n, &mut self.submit, |v| v),
            schema::ISSUED => options(s, n, &mut self.issued, stamp),
            schema::FIRST => options(s, n, &mut self.first, stamp),
            schema::COMPLETE => longs(s, n, &mut self.complete, |v| v),
            schema::SYNC => options(s, n, &mut self.sync, number),
            schema::RETRIES => options(s, n, &mut self.retries, |v| u16::try_from(v).ok()),
            _ => ints(s, n, &mut self.status, Some),
        }
    }
}

/// The kind with this name; remembers the last one, which most often comes again.
fn cached_op() -> impl FnMut(&[u8]) -> Option<OpKind> {
    let mut last = OpKind::Read;
    move |text| {
        if text != last.name().as_bytes() {
            last = OpKind::from_name(std::str::from_utf8(text).ok()?)?;
        }
        Some(last)
    }
}

fn intern(names: &mut Vec<String>, text: &[u8]) -> Option<u16> {
    let place = names.iter().position(|n| n.as_bytes() == text);
    let place = match place {
        Some(place) => place,
        None => {
            names.push(std::str::from_utf8(text).ok()?.to_owned());
            names.len() - 1
        }
    };
    u16::try_from(place).ok()
}
