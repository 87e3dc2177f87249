//! What the Parquet files of a run directory share: opening, errors, properties.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Type as PhysicalType, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::{ChunkReader, FileReader, Length};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::{SchemaDescriptor, TypePtr};
use taillight_core::{Error, Result};

use crate::atomic::cannot;

/// Key of the schema version in the file's metadata.
const SCHEMA_KEY: &str = "taillight.schema";

/// A schema from its text; the texts are constants of this crate.
pub(crate) fn schema(text: &str) -> Result<TypePtr> {
    parse_message_type(text)
        .map(Arc::new)
        .map_err(|e| Error::internal("bad Parquet schema").source(e))
}

/// Properties common to all files: zstd level 1, statistics per column chunk, no dictionaries
/// unless a column asks for one.
pub(crate) fn properties() -> Result<WriterPropertiesBuilder> {
    let level = ZstdLevel::try_new(1).map_err(|e| Error::internal("bad zstd level").source(e))?;
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(level))
        .set_created_by(concat!("taillight ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        .set_key_value_metadata(Some(vec![KeyValue::new(
            SCHEMA_KEY.to_owned(),
            crate::SCHEMA_VERSION.to_string(),
        )])))
}

/// A file whose end is an error. The Parquet reader takes it for values without bytes, of which a
/// damaged page header can promise two thousand million to be skipped.
pub(crate) struct ParquetFile(File);

impl Length for ParquetFile {
    fn len(&self) -> u64 {
        Length::len(&self.0)
    }
}

impl ChunkReader for ParquetFile {
    type T = ReadToEnd<BufReader<File>>;
    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(ReadToEnd(self.0.get_read(start)?))
    }
    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.0.get_bytes(start, length)
    }
}

/// A reader whose end is an error: `UnexpectedEof` where more is asked for than there is.
pub(crate) struct ReadToEnd<R>(R);

impl<R: Read> Read for ReadToEnd<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 if !into.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}

/// Opens a Parquet file and checks the version it states.
pub(crate) fn open(path: &Path) -> Result<SerializedFileReader<ParquetFile>> {
    let file = File::open(path).map_err(|e| cannot("open", path, e))?;
    let length = file.metadata().map_err(|e| cannot("open", path, e))?.len();
    let reader = guarded(path, || {
        let reader = SerializedFileReader::new(ParquetFile(file))?;
        check_ranges(&reader, length)?;
        Ok(reader)
    })?;
    let meta = reader.metadata().file_metadata();
    let stated = meta
        .key_value_metadata()
        .and_then(|list| list.iter().find(|kv| kv.key == SCHEMA_KEY))
        .and_then(|kv| kv.value.clone());
    match stated.as_deref().map(str::parse::<u32>) {
        Some(Ok(version)) if version == crate::SCHEMA_VERSION => Ok(reader),
        Some(Ok(version)) => Err(Error::corrupt("a Parquet file has an unknown version")
            .with("path", path.display())
            .with("schema", version)
            .with("known", crate::SCHEMA_VERSION)
            .hint("read it with the Taillight that wrote it or a newer one")),
        _ => Err(Error::corrupt("the Parquet file was not written by Taillight")
            .with("path", path.display())),
    }
}

/// Column chunks must lie inside the file: the Parquet reader takes the footer's word for it.
fn check_ranges(
    reader: &SerializedFileReader<ParquetFile>,
    length: u64,
) -> Result<(), ParquetError> {
    for column in reader.metadata().row_groups().iter().flat_map(|g| g.columns()) {
        let first = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        let end = first.checked_add(column.compressed_size());
        let inside = first >= 0
            && column.compressed_size() >= 0
            && end.is_some_and(|end| end.unsigned_abs() <= length);
        if !inside {
            return Err(ParquetError::EOF("a column lies outside the file".into()));
        }
    }
    Ok(())
}

/// Why a step of reading failed.
#[derive(Debug)]
pub(crate) enum ReadFailure {
    Parquet(ParquetError),
    /// What is wrong with a row, counted from the first one of the step.
    Row {
        row: usize,
        why: &'static str,
    },
}

impl ReadFailure {
    /// A column ends before its rows do.
    pub fn short(row: usize) -> ReadFailure {
        let why = "the column has no value for it";
        ReadFailure::Row { row, why }
    }
    /// A value that its column cannot have, or a null where there may be none.
    pub fn value(row: usize) -> ReadFailure {
        let why = "it is null or out of range";
        ReadFailure::Row { row, why }
    }
}

impl From<ParquetError> for ReadFailure {
    fn from(e: ParquetError) -> ReadFailure {
        ReadFailure::Parquet(e)
    }
}

/// Runs a step of the Parquet reader on a file that may be damaged. On some nonsense in page
/// headers and pages the library panics instead of returning an error: that becomes the same
/// error here. The reader is not used again after one.
pub(crate) fn guarded<T>(path: &Path, step: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    caught(step).map_err(|e| damaged(path, e))
}

/// The same for a step that reads `column` of the rows from `first_row` on.
pub(crate) fn guarded_column(
    path: &Path,
    column: &str,
    first_row: u64,
    step: impl FnOnce() -> Result<(), ReadFailure>,
) -> Result<()> {
    caught(step).map_err(|e| match e {
        ReadFailure::Parquet(e) => damaged(path, e).with("column", column),
        ReadFailure::Row { row, why } => wrong_value(path, column, first_row + row as u64, why),
    })
}

/// A row of a file whose value in `column` cannot be.
pub(crate) fn wrong_value(path: &Path, column: &str, row: u64, why: &str) -> Error {
    Error::corrupt("a Parquet file holds a value that cannot be")
        .with("path", path.display())
        .with("column", column)
        .with("row", row)
        .with("why", why)
        .hint(RESTORE)
}

fn caught<T, E: From<ParquetError>>(step: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    let impossible = || ParquetError::General("impossible metadata".into());
    catch_unwind(AssertUnwindSafe(step)).unwrap_or_else(|_| Err(impossible().into()))
}

const RESTORE: &str = "restore it from a copy, or delete it and make the report from what remains";

/// A file that cannot be read to its end.
fn damaged(path: &Path, e: ParquetError) -> Error {
    Error::corrupt("a Parquet file is damaged or cut short")
        .with("path", path.display())
        .source(e)
        .hint(RESTORE)
}

/// The place of column `name` of type `physical` in a file; `None` when the file lacks it. Errors:
/// `Corrupt` when it has another type.
pub(crate) fn column_index(
    path: &Path,
    file: &SchemaDescriptor,
    name: &str,
    physical: PhysicalType,
) -> Result<Option<usize>> {
    let index = (0..file.num_columns()).find(|i| file.column(*i).name() == name);
    match index {
        Some(i) if file.column(i).physical_type() != physical => {
            Err(Error::corrupt("a column of a Parquet file has the wrong type")
                .with("column", name)
                .with("path", path.display()))
        }
        index => Ok(index),
    }
}

/// A file without a column that all files of its kind have.
pub(crate) fn lacks_column(path: &Path, name: &str) -> Error {
    Error::corrupt("a Parquet file lacks a column")
        .with("column", name)
        .with("path", path.display())
}

/// Rows of a row group, when a reader may believe it. Errors: `Corrupt` when there are more than
/// `most`.
pub(crate) fn group_rows(path: &Path, stated: i64, most: usize) -> Result<usize> {
    let rows = usize::try_from(stated).ok().filter(|n| *n <= most);
    rows.ok_or_else(|| {
        Error::corrupt("a Parquet file states an impossible number of rows")
            .with("path", path.display())
            .with("rows", stated)
    })
}

/// A file that cannot be written.
pub(crate) fn unwritten(name: &str, e: ParquetError) -> Error {
    match e {
        ParquetError::External(cause) => Error::unavailable("cannot write a Parquet file")
            .with("file", name)
            .source(cause)
            .hint("free some space there, or choose another directory with --output"),
        e => Error::internal("cannot write a Parquet file").with("file", name).source(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_header_that_goes_on_behind_the_file_ends_with_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, b"PAR1").unwrap();
        let mut at = ParquetFile(file).get_read(2).unwrap();
        let mut rest = [0; 2];
        at.read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"R1");
        // As the Parquet reader skips a value: what is not there must not count as skipped.
        let skipped = io::copy(&mut at.by_ref().take(9), &mut io::sink());
        assert_eq!(skipped.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
