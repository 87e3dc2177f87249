//! One column of one row group, from values to compressed pages in memory.
//!
//! Encodings are chosen per column and row group (docs/design/0003-ios-encoding.md): the writer
//! of a column knows its values, the file's properties do not.

use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::writer::{ColumnCloseResult, ColumnWriterImpl};
use parquet::data_type::DataType;

use parquet::errors::Result;
use parquet::file::properties::WriterPropertiesPtr;
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;

use super::column::OptionalColumn;
use crate::table;

/// How the values of a column are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnLayout {
    /// DELTA_BINARY_PACKED: stamps, addresses in equal steps, small numbers.
    Delta,
    /// BYTE_STREAM_SPLIT: numbers without order.
    Split,
    /// Dictionary: few different values.
    Dictionary,
}

/// Writer properties of each layout, made once per file.
#[derive(Debug)]
pub(super) struct ColumnLayouts {
    delta: WriterPropertiesPtr,
    split: WriterPropertiesPtr,
    dictionary: WriterPropertiesPtr,
}

/// Rows of a data page at most: few pages keep the headers of all-null columns negligible.
const PAGE_ROWS: usize = 1 << 18;
/// The same where each value takes its eight bytes: pages and their copies that stay in the CPU's caches, and in memory
/// that the allocator keeps, cost a tenth of the page faults.
const SPLIT_PAGE_ROWS: usize = 1 << 15;
/// Dictionary bytes before a column falls back to plain encoding.
const DICTIONARY_BYTES: usize = 64 << 10;

impl ColumnLayouts {
    pub fn new() -> taillight_core::Result<ColumnLayouts> {
        let base = || -> taillight_core::Result<_> {
            Ok(table::properties()?.set_data_page_row_count_limit(PAGE_ROWS))
        };
        Ok(ColumnLayouts {
            delta: Arc::new(base()?.set_encoding(Encoding::DELTA_BINARY_PACKED).build()),
            split: Arc::new(
                base()?
                    .set_data_page_row_count_limit(SPLIT_PAGE_ROWS)
                    .set_encoding(Encoding::BYTE_STREAM_SPLIT)
                    .build(),
            ),
            dictionary: Arc::new(
                base()?
                    .set_dictionary_enabled(true)
                    .set_dictionary_page_size_limit(DICTIONARY_BYTES)
                    .build(),
            ),
        })
    }

    fn get(&self, layout: ColumnLayout) -> WriterPropertiesPtr {
        Arc::clone(match layout {
            ColumnLayout::Delta => &self.delta,
            ColumnLayout::Split => &self.split,
            ColumnLayout::Dictionary => &self.dictionary,
        })
    }

    /// Encodes one column chunk; `fill` hands its values to the writer.
    pub fn encode<T: DataType>(
        &self,
        layout: ColumnLayout,
        descr: ColumnDescPtr,
        fill: impl FnOnce(&mut ColumnWriterImpl<'_, T>) -> Result<()>,
    ) -> Result<EncodedColumn> {
        let mut buffer = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut buffer));
        let mut writer = ColumnWriterImpl::<T>::new(descr, self.get(layout), pages);
        fill(&mut writer)?;
        let close = writer.close()?;
        Ok((buffer.into_inner()?.into(), close))
    }
}

/// Pages of a column chunk, and what the row group must know of them.
pub(super) type EncodedColumn = (bytes::Bytes, ColumnCloseResult);

/// Levels of values without nulls.
static PRESENT: [i16; 4096] = [1; 4096];

/// Hands values and levels to a column writer.
pub(super) fn write_optional<D: DataType<T: Copy + Default>>(
    out: &mut ColumnWriterImpl<'_, D>,
    column: &OptionalColumn<D::T>,
) -> Result<()> {
    let (values, levels) = column.present();
    if !levels.is_empty() {
        return out.write_batch(&values, Some(levels), None).map(|_| ());
    }
    for values in values.chunks(PRESENT.len()) {
        out.write_batch(values, Some(&PRESENT[..values.len()]), None)?;
    }
    Ok(())
}

/// Whether offsets or keys walk in equal steps, so that deltas pack well: at least half of the first 4,096 do.
pub(super) fn stepped(values: &[i64]) -> bool {
    let head = &values[..values.len().min(4096)];
    let mut same = 0;
    for w in head.windows(3) {
        same += usize::from(w[2].wrapping_sub(w[1]) == w[1].wrapping_sub(w[0]));
    }
    2 * same >= head.len().saturating_sub(2)
}
