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

use crate::table;

/// How the values of a column are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnLayout {
    /// DELTA_BINARY_PACKED: stamps, runs, constants.
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
/// Dictionary bytes before a column falls back to delta encoding.
const DICTIONARY_BYTES: usize = 64 << 10;

impl ColumnLayouts {
    pub fn new() -> taillight_core::Result<ColumnLayouts> {
        let base = || -> taillight_core::Result<_> {
            Ok(table::properties()?.set_data_page_row_count_limit(PAGE_ROWS))
        };
        Ok(ColumnLayouts {
            delta: Arc::new(base()?.set_encoding(Encoding::DELTA_BINARY_PACKED).build()),
            split: Arc::new(base()?.set_encoding(Encoding::BYTE_STREAM_SPLIT).build()),
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

/// Values of a column without nulls. They are listed only once they differ.
#[derive(Debug, Default)]
pub(super) struct DenseColumn<T> {
    first: T,
    values: Vec<T>,
}

impl<T: Copy + PartialEq> DenseColumn<T> {
    /// Adds the value of row `row`, counted from 0.
    #[inline]
    pub fn push(&mut self, row: usize, value: T) {
        if self.values.is_empty() {
            if row == 0 || value == self.first {
                self.first = value;
                return;
            }
            self.values.resize(row, self.first);
        }
        self.values.push(value);
    }

    pub fn clear(&mut self) {
        self.values.clear();
    }

    /// The value of each row, or the one that all have.
    pub fn values(&self) -> std::result::Result<&[T], T> {
        if self.values.is_empty() { Err(self.first) } else { Ok(&self.values) }
    }
}

/// Values of an optional column. They are listed only once they differ, levels exist only once
/// nulls and values mix.
#[derive(Debug, Default)]
pub(super) struct OptionalColumn<T> {
    first: Option<T>,
    differ: bool,
    values: Vec<T>,
    levels: Vec<i16>,
}

/// Levels of values without nulls.
static PRESENT: [i16; 4096] = [1; 4096];

impl<T: Copy + PartialEq> OptionalColumn<T> {
    /// Adds the value of row `row`, counted from 0.
    #[inline(always)]
    pub fn push(&mut self, row: usize, value: Option<T>) {
        match value {
            value if !self.differ && value == self.first => {}
            Some(value) if self.differ && self.levels.is_empty() && self.first.is_some() => {
                self.values.push(value);
            }
            value => self.push_other(row, value),
        }
    }

    /// The first value, the first that differs, and values among nulls.
    fn push_other(&mut self, row: usize, value: Option<T>) {
        if !self.differ {
            if row == 0 {
                self.first = value;
                return;
            }
            self.differ = true;
            self.values.extend(self.first.iter().cycle().take(row));
        }
        if self.levels.is_empty() && value.is_some() != self.first.is_some() {
            self.levels.resize(row, i16::from(self.first.is_some()));
        }
        if !self.levels.is_empty() {
            self.levels.push(i16::from(value.is_some()));
        }
        self.values.extend(value);
    }

    pub fn clear(&mut self) {
        self.differ = false;
        self.values.clear();
        self.levels.clear();
    }

    /// What every row holds, where all hold the same.
    pub fn constant(&self) -> Option<Option<T>> {
        (!self.differ).then_some(self.first)
    }

    /// The values that are not null.
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// Hands values and levels to a column writer.
    pub fn write<D: DataType<T = T>>(&self, out: &mut ColumnWriterImpl<'_, D>) -> Result<()> {
        if !self.levels.is_empty() {
            return out.write_batch(&self.values, Some(&self.levels), None).map(|_| ());
        }
        for values in self.values.chunks(PRESENT.len()) {
            out.write_batch(values, Some(&PRESENT[..values.len()]), None)?;
        }
        Ok(())
    }
}

/// Writes `n` times the same value.
pub(super) fn repeat<T: DataType>(
    out: &mut ColumnWriterImpl<'_, T>,
    value: T::T,
    n: usize,
) -> Result<()> {
    let block = vec![value; n.min(1024)];
    let mut left = n;
    while left > 0 {
        let take = left.min(block.len());
        out.write_batch(&block[..take], None, None)?;
        left -= take;
    }
    Ok(())
}

/// Whether a column of offsets or keys walks in equal steps, so that deltas pack well.
pub(super) fn stepped(values: &[i64]) -> bool {
    let head = &values[..values.len().min(4096)];
    let mut same = 0;
    for w in head.windows(3) {
        same += usize::from(w[2].wrapping_sub(w[1]) == w[1].wrapping_sub(w[0]));
    }
    2 * same >= head.len().saturating_sub(2)
}
