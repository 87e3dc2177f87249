//! What the Parquet files of a run directory share: opening, errors, properties.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
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

/// Opens a Parquet file and checks the version it states.
pub(crate) fn open(path: &Path) -> Result<SerializedFileReader<File>> {
    let file = File::open(path).map_err(|e| cannot("open", path, e))?;
    let length = file.metadata().map_err(|e| cannot("open", path, e))?.len();
    let reader = guarded(path, || {
        let reader = SerializedFileReader::new(file)?;
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
        _ => Err(
            Error::corrupt("the Parquet file was not written by Taillight")
                .with("path", path.display()),
        ),
    }
}

/// Column chunks must lie inside the file: the Parquet reader takes the footer's word for it.
fn check_ranges(reader: &SerializedFileReader<File>, length: u64) -> Result<(), ParquetError> {
    for column in reader
        .metadata()
        .row_groups()
        .iter()
        .flat_map(|g| g.columns())
    {
        let first = column
            .dictionary_page_offset()
            .unwrap_or_else(|| column.data_page_offset());
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

/// Runs a step of the Parquet reader on a file that may be damaged. On some nonsense in page
/// headers and pages the library panics instead of returning an error: that becomes the same
/// error here. The reader is not used again after one.
pub(crate) fn guarded<T>(path: &Path, step: impl FnOnce() -> Result<T, ParquetError>) -> Result<T> {
    match catch_unwind(AssertUnwindSafe(step)) {
        Ok(result) => result.map_err(|e| damaged(path, e)),
        Err(_) => Err(damaged(
            path,
            ParquetError::General("impossible metadata".into()),
        )),
    }
}

/// A file that cannot be read to its end.
fn damaged(path: &Path, e: ParquetError) -> Error {
    Error::corrupt("a Parquet file is damaged or cut short")
        .with("path", path.display())
        .source(e)
        .hint("restore it from a copy, or delete it and make the report from what remains")
}

/// A file that cannot be written.
pub(crate) fn unwritten(name: &str, e: ParquetError) -> Error {
    match e {
        ParquetError::External(cause) => Error::unavailable("cannot write a Parquet file")
            .with("file", name)
            .source(cause)
            .hint("free some space there, or choose another directory with --output"),
        e => Error::internal("cannot write a Parquet file")
            .with("file", name)
            .source(e),
    }
}
