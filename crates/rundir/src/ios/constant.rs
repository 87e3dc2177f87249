//! Makes a column chunk of one value, or of nulls: one run, however many rows, and a dictionary of
//! the value where there is one. Most columns of most runs are like this, and the library's writer
//! would hash or pack every row of them.

use bytes::Bytes;
use parquet::basic::{Compression, Encoding, Type as PhysicalType};
use parquet::column::page::{CompressedPage, Page, PageWriter};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::{AsBytes, DataType};
use parquet::errors::Result;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::encode::EncodedColumn;

/// `rows` times `value`; `None` is null and only for an optional column.
pub(super) fn constant_column<T: DataType>(
    descr: ColumnDescPtr,
    value: Option<T::T>,
    rows: usize,
) -> Result<EncodedColumn> {
    let nulls = if value.is_some() { 0 } else { rows as u64 };
    let mut sink = TrackedWrite::new(Vec::new());
    let mut pages = SerializedPageWriter::new(&mut sink);
    let mut specs = Vec::new();
    if let Some(value) = &value {
        specs.push(pages.write_page(dictionary::<T>(value))?);
    }
    let optional = descr.max_def_level() > 0;
    specs.push(pages.write_page(run(optional, value.is_some(), rows as u32))?);
    pages.close()?;
    let encodings = [Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY];
    let sum = |size: fn(&parquet::column::page::PageWriteSpec) -> usize| {
        specs.iter().map(size).sum::<usize>() as i64
    };
    let offset = |spec: &parquet::column::page::PageWriteSpec| spec.offset as i64;
    let statistics: Statistics =
        ValueStatistics::new(value.clone(), value.clone(), None, Some(nulls), false)
            .with_backwards_compatible_min_max(descr.sort_order().is_signed())
            .into();
    let metadata = ColumnChunkMetaData::builder(descr)
        .set_compression(Compression::UNCOMPRESSED)
        .set_encodings(encodings.to_vec())
        .set_total_compressed_size(sum(|s| s.compressed_size))
        .set_total_uncompressed_size(sum(|s| s.uncompressed_size))
        .set_num_values(rows as i64)
        .set_data_page_offset(specs.last().map_or(0, offset))
        .set_dictionary_page_offset(value.and_then(|_| specs.first().map(offset)))
        .set_statistics(statistics)
        .build()?;
    let bytes: Bytes = sink.into_inner()?.into();
    let close = ColumnCloseResult {
        bytes_written: bytes.len() as u64,
        rows_written: rows as u64,
        metadata,
        bloom_filter: None,
        column_index: None,
        offset_index: None,
    };
    Ok((bytes, close))
}

/// The page with the one value.
fn dictionary<T: DataType>(value: &T::T) -> CompressedPage {
    let mut plain = Vec::new();
    if T::get_physical_type() == PhysicalType::BYTE_ARRAY {
        plain.extend((value.as_bytes().len() as u32).to_le_bytes());
    }
    plain.extend(value.as_bytes());
    let size = plain.len();
    let page = Page::DictionaryPage {
        buf: plain.into(),
        num_values: 1,
        encoding: Encoding::PLAIN,
        is_sorted: false,
    };
    CompressedPage::new(page, size)
}

/// The page with the rows: a run of levels where there may be nulls, then a run of the first entry.
fn run(optional: bool, present: bool, rows: u32) -> CompressedPage {
    let mut body = Vec::new();
    if optional {
        let mut levels = Vec::new();
        length(&mut levels, rows);
        levels.push(u8::from(present));
        body.extend((levels.len() as u32).to_le_bytes());
        body.extend(levels);
    }
    if present {
        // Indices of one entry have no bits.
        body.push(0);
        length(&mut body, rows);
    }
    let size = body.len();
    let page = Page::DataPage {
        buf: body.into(),
        num_values: rows,
        encoding: if present { Encoding::RLE_DICTIONARY } else { Encoding::PLAIN },
        def_level_encoding: Encoding::RLE,
        rep_level_encoding: Encoding::RLE,
        statistics: None,
    };
    CompressedPage::new(page, size)
}

/// The head of a run of `rows` equal values: a varint, lowest bit 0.
fn length(out: &mut Vec<u8>, rows: u32) {
    let mut left = u64::from(rows) << 1;
    while left > 0x7F {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}
