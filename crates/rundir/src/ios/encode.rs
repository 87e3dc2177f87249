//! One column of one row group, from values to compressed pages in memory.
//!
//! Encodings are chosen per column and row group (docs/design/0003-ios-encoding.md): the writer
//! of a column knows its values, the file's properties do not.

use std::sync::Arc;

use parquet::basic::Encoding;
use parquet::column::writer::{ColumnCloseResult, ColumnWriterImpl};
use parquet::data_type::{ByteArray, DataType};

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
    ) -> Result<(bytes::Bytes, ColumnCloseResult)> {
        let mut buffer = TrackedWrite::new(Vec::new());
        let pages = Box::new(SerializedPageWriter::new(&mut buffer));
        let mut writer = ColumnWriterImpl::<T>::new(descr, self.get(layout), pages);
        fill(&mut writer)?;
        let close = writer.close()?;
        Ok((buffer.into_inner()?.into(), close))
    }
}

/// Values of an optional column. Levels exist only once nulls and values mix.
#[derive(Debug, Default)]
pub(super) struct OptionalColumn<T> {
    values: Vec<T>,
    rows: usize,
    levels: Vec<i16>,
}

/// Levels of uniform runs.
static NULL: [i16; 4096] = [0; 4096];
static PRESENT: [i16; 4096] = [1; 4096];

impl<T: Clone> OptionalColumn<T> {
    #[inline]
    pub fn push(&mut self, value: Option<T>) {
        if self.levels.is_empty() {
            let uniform = match value {
                Some(_) => self.values.len() == self.rows,
                None => self.values.is_empty(),
            };
            if !uniform {
                let level = i16::from(!self.values.is_empty());
                self.levels.resize(self.rows, level);
            }
        }
        if !self.levels.is_empty() {
            self.levels.push(i16::from(value.is_some()));
        }
        self.rows += 1;
        self.values.extend(value);
    }

    pub fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
        self.rows = 0;
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
        let mut done = 0;
        while done < self.rows {
            let n = (self.rows - done).min(NULL.len());
            if self.values.is_empty() {
                out.write_batch(&[], Some(&NULL[..n]), None)?;
            } else {
                out.write_batch(&self.values[done..done + n], Some(&PRESENT[..n]), None)?;
            }
            done += n;
        }
        Ok(())
    }
}

/// Writes `n` times the same text.
pub(super) fn repeat_text<T: DataType<T = ByteArray>>(
    out: &mut ColumnWriterImpl<'_, T>,
    text: &str,
    n: usize,
) -> Result<()> {
    repeat(out, ByteArray::from(text), n)
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
