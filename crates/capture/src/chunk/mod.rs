//! Capture chunks: I/Os of one worker in packed words, as the hot loop writes them.
//!
//! This file has the format, and writes and reads the header; [`ChunkEncoder`] is called by the recorder for each I/O,
//! and [`ChunkReader`] turns chunks back into [`taillight_core::Record`]s. The pool maps and pre-faults the memory;
//! `ios.parquet` is the format at rest.
//!
//! A chunk is a 4 KiB header, then 64-bit little-endian words. A record is one of
//! - *short*, 2 words + one per optional column of the header but `issued`: a success whose numbers
//!   fit;
//! - *long*, [`LONG_WORDS`] words: anything, field by field.
//!
//! Word 0 of a record has bit 0 set; memory starts zeroed, so a zero word ends the chunk and a
//! chunk of a killed run needs no trailer. Records stand in completion order.
//!
//! ```text
//! word 0:  63..34 latency ns | 33..11 issued - submit ns | 10..7 size index | 6..1 op | 0 valid
//! word 1:  63..28 offset / unit | 27..0 complete - previous complete ns
//! ```

mod encode;
mod read;

pub use encode::{ChunkEncoder, DoesNotFit, ShortRecord};
pub use read::{ChunkReader, RecordCursor};

use taillight_core::{Error, OpKind, Result};

/// Bytes before the first record.
pub const HEADER_BYTES: usize = 4096;
/// First bytes of every chunk file; the digits are the version.
pub const MAGIC: [u8; 8] = *b"TLCHNK02";
/// What chunks of every version begin with.
pub const ANY_VERSION: [u8; 6] = *b"TLCHNK";
/// Words of a long record.
pub const LONG_WORDS: usize = 16;
/// Op code in word 0 that marks a long record.
const LONG: u64 = (1 << OP_BITS) - 1;
const _: () = assert!(OpKind::ALL.len() as u64 <= LONG, "a kind of operation takes less");
/// Block sizes that fit the table of the header.
pub const SIZES: usize = 16;

/// Bit of header word 1 that says: records were left out in or before this chunk.
pub const PARTIAL_BIT: u32 = 57;

/// Bit of header word 1 that says: the records are in submit order, after those of the chunk before. Set when a full
/// chunk is handed back; one without it may be in any order.
pub const ORDERED_BIT: u32 = 58;

/// 1.07 s in ns: what takes longer is rare, and a long record holds it.
const LATENCY_BITS: u32 = 30;
const ISSUED_BITS: u32 = 23;
const SIZE_BITS: u32 = 4;
const OP_BITS: u32 = 6;
/// Where the parts of word 0 begin.
const SIZE_AT: u32 = 1 + OP_BITS;
const ISSUED_AT: u32 = SIZE_AT + SIZE_BITS;
const LATENCY_AT: u32 = ISSUED_AT + ISSUED_BITS;
const _: () = assert!(LATENCY_AT + LATENCY_BITS == 64 && SIZES == 1 << SIZE_BITS);
const DELTA_BITS: u32 = 28;
const UNIT_BITS: u32 = 36;

/// What the short records of a chunk carry besides: all but `issued` as a word each, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OptionalWords {
    /// Queued driver: word 0 holds issued - submit (no extra word).
    pub issued: bool,
    /// Open loop: submit - intended, as i64.
    pub intended: bool,
    /// Sync inside writes: `sync_ns` + 1, 0 = none.
    pub sync: bool,
    /// More sizes than the table holds: the size in bytes.
    pub size: bool,
    /// The number of the key.
    pub key: bool,
}

impl OptionalWords {
    /// As the header has them.
    fn bits(self) -> u32 {
        u32::from(self.issued)
            | u32::from(self.intended) << 1
            | u32::from(self.sync) << 2
            | u32::from(self.size) << 3
            | u32::from(self.key) << 4
    }
    /// Reads [`OptionalWords::bits`]; `None` for bits that this version does not know.
    fn from_bits(bits: u32) -> Option<OptionalWords> {
        let bit = |n: u32| bits >> n & 1 == 1;
        (bits < 1 << 5).then(|| OptionalWords {
            issued: bit(0),
            intended: bit(1),
            sync: bit(2),
            size: bit(3),
            key: bit(4),
        })
    }
    /// Words of a short record.
    pub fn short_words(self) -> usize {
        2 + usize::from(self.intended)
            + usize::from(self.sync)
            + usize::from(self.size)
            + usize::from(self.key)
    }
}

/// What all records of a chunk share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Worker number over all workloads.
    pub worker: u16,
    /// Index of the workload in the plan.
    pub workload: u16,
    /// Phase index in the manifest's list.
    pub phase: u16,
    /// Number of this chunk among the worker's chunks, from 0.
    pub seq: u32,
    pub columns: OptionalWords,
    /// log2 of the offset unit (the alignment of all offsets).
    pub unit_shift: u8,
    /// Bytes in each file of the data set: global offset = target x file_size + offset.
    pub file_size: u64,
    /// Completion stamp that the first record's delta counts from, ns.
    pub base_ns: i64,
    /// Block sizes that records refer to by index; unused entries are 0.
    pub sizes: [u64; SIZES],
    /// Whether the target is addressed by offset.
    pub addressed: bool,
    /// Records were left out in or before this chunk: only outliers are kept from there on.
    pub partial: bool,
    /// The records are in submit order, after those of the chunk before.
    pub ordered: bool,
}

/// Marks a chunk whose header is written: its records are in submit order, after those of the chunk before.
///
/// # Panics
/// When `words` is shorter than two words.
pub fn mark_ordered(words: &mut [u64]) {
    words[1] |= 1 << ORDERED_BIT;
}

/// Marks a chunk whose header is written: records were left out in it, or before it.
///
/// # Panics
/// When `words` is shorter than two words.
pub fn mark_partial(words: &mut [u64]) {
    words[1] |= 1 << PARTIAL_BIT;
}

impl Header {
    /// Writes the header over the first [`HEADER_BYTES`] of a chunk (as words).
    ///
    /// # Panics
    /// When `out` is shorter than the header.
    pub fn write(&self, out: &mut [u64]) {
        let out = &mut out[..HEADER_BYTES / 8];
        out.fill(0);
        out[0] = u64::from_le_bytes(MAGIC);
        out[1] = u64::from(self.worker)
            | u64::from(self.workload) << 16
            | u64::from(self.phase) << 32
            | u64::from(self.unit_shift) << 48
            | u64::from(self.addressed) << 56
            | u64::from(self.partial) << PARTIAL_BIT
            | u64::from(self.ordered) << ORDERED_BIT;
        out[2] = u64::from(self.seq) | u64::from(self.columns.bits()) << 32;
        out[3] = self.file_size;
        out[4] = self.base_ns as u64;
        out[5..5 + SIZES].copy_from_slice(&self.sizes);
    }

    /// Reads the header of a chunk back. Errors: `Corrupt` when the bytes are shorter than a header, of another version
    /// or no chunk, or have impossible columns, units or file sizes.
    pub fn read(bytes: &[u8]) -> Result<Header> {
        let bad = |why: &str| Error::corrupt(format!("not a capture chunk: {why}"));
        if bytes.len() < HEADER_BYTES {
            return Err(bad("shorter than its header"));
        }
        if bytes[..8] != MAGIC {
            return Err(bad("wrong magic or version"));
        }
        let word = |i: usize| read::word(bytes, i);
        let columns = OptionalWords::from_bits((word(2) >> 32) as u32)
            .ok_or_else(|| bad("unknown optional columns"))?;
        let unit_shift = (word(1) >> 48) as u8;
        if unit_shift > 40 || word(3) == 0 {
            return Err(bad("impossible geometry"));
        }
        let mut sizes = [0; SIZES];
        for (i, size) in sizes.iter_mut().enumerate() {
            *size = word(5 + i);
        }
        Ok(Header {
            worker: word(1) as u16,
            workload: (word(1) >> 16) as u16,
            phase: (word(1) >> 32) as u16,
            seq: word(2) as u32,
            columns,
            unit_shift,
            file_size: word(3),
            base_ns: word(4) as i64,
            sizes,
            addressed: word(1) >> 56 & 1 == 1,
            partial: word(1) >> PARTIAL_BIT & 1 == 1,
            ordered: word(1) >> ORDERED_BIT & 1 == 1,
        })
    }
}

#[cfg(test)]
mod tests;
