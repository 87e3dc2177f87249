//! The reader: chunk bytes back into records. A chunk that is cut anywhere after its header is read up to there, and
//! so is one with a record whose first word lacks the mark of a record (bit 0), since unused memory is zero; a record
//! that has the mark but is impossible ([`RecordCursor::finish`]) is an error.

use taillight_core::{Error, OpKind, Record, Result, Stamp, Status};

use super::{
    DELTA_BITS, HEADER_BYTES, Header, ISSUED_AT, ISSUED_BITS, LATENCY_AT, LONG, LONG_WORDS,
    SIZE_AT, SIZES,
};

/// Little-endian word `i` of `bytes`; 0 past the end.
pub(super) fn word(bytes: &[u8], i: usize) -> u64 {
    match bytes.get(i * 8..i * 8 + 8).and_then(|b| <[u8; 8]>::try_from(b).ok()) {
        Some(b) => u64::from_le_bytes(b),
        None => 0,
    }
}

/// One chunk, opened.
#[derive(Debug, Clone, Copy)]
pub struct ChunkReader<'a> {
    header: Header,
    body: &'a [u8],
}

impl<'a> ChunkReader<'a> {
    /// Opens the bytes of a chunk file. Errors: `Corrupt` when the header is not one of this
    /// version.
    pub fn open(bytes: &'a [u8]) -> Result<ChunkReader<'a>> {
        Ok(ChunkReader { header: Header::read(bytes)?, body: &bytes[HEADER_BYTES..] })
    }
    /// What all records share.
    pub fn header(&self) -> &Header {
        &self.header
    }
    /// The records, in completion order, up to the first that is cut or whose first word has bit 0 clear, as unused
    /// memory has. Errors: as [`RecordCursor::finish`], once and as the last item.
    pub fn records(&self) -> impl Iterator<Item = Result<Record>> {
        let mut cursor = Some(self.cursor());
        std::iter::from_fn(move || match cursor.as_mut()?.advance() {
            true => cursor.as_ref().map(|cursor| Ok(cursor.unpack())),
            false => cursor.take()?.finish().err().map(Err),
        })
    }
    /// A cursor over the records, which are not yet taken apart.
    pub fn cursor(&self) -> RecordCursor<'_> {
        let left = self.body.as_chunks().0;
        RecordCursor {
            header: &self.header,
            short_words: self.header.columns.short_words(),
            end: self.header.file_size.saturating_mul(1 << 16),
            all: left.len(),
            left,
            words: &[],
            op: OpKind::Read,
            long: false,
            complete: self.header.base_ns,
            damage: None,
        }
    }
}

/// Goes over a chunk's records in place. An iterator's items are structs that are written and at once copied whole,
/// which stalls the CPU's store forwarding.
#[derive(Debug, Clone)]
pub struct RecordCursor<'a> {
    header: &'a Header,
    short_words: usize,
    /// Offsets in bytes from here on are in no file (of at most 65,536 files of one size, one after the other).
    end: u64,
    /// How many words the chunk has after its header.
    all: usize,
    /// The words after the present record.
    left: &'a [[u8; 8]],
    /// The record as it stands in its chunk.
    words: &'a [[u8; 8]],
    op: OpKind,
    /// The present record is a long one (`chunk/mod.rs` has the format).
    long: bool,
    /// Completion stamp of the present record, ns.
    complete: i64,
    damage: Option<&'static str>,
}

impl RecordCursor<'_> {
    /// Goes to the next record. False at the end, and at an impossible record, which [`Self::finish`] then tells.
    #[inline(always)]
    pub fn advance(&mut self) -> bool {
        let Some(w0) = self.left.first().map(|word| u64::from_le_bytes(*word)) else {
            return false;
        };
        if w0 & 1 == 0 {
            return false;
        }
        let code = w0 >> 1 & LONG;
        self.long = code == LONG;
        let length = if self.long { LONG_WORDS } else { self.short_words };
        let Some((words, left)) = self.left.split_at_checked(length) else {
            return false;
        };
        let Some(op) = OpKind::from_index(if self.long { w0 >> 16 } else { code } as u8) else {
            self.damage = Some("its code is of no operation");
            return false;
        };
        if self.long {
            // An offset, or a duration of a sync, that would be negative as the i64 of `ios.parquet` is damage.
            if [(0, 2), (8, 13)]
                .into_iter()
                .any(|(bit, i)| w0 >> 32 >> bit & 1 == 1 && words[i][7] > 127)
            {
                self.damage = Some("its offset or duration is out of range");
                return false;
            }
            self.complete = u64::from_le_bytes(words[12]) as i64;
        } else {
            let w1 = u64::from_le_bytes(words[1]);
            if w1 >> DELTA_BITS << self.header.unit_shift >= self.end {
                self.damage = Some("its offset lies beyond the last file");
                return false;
            }
            self.complete = self.complete.wrapping_add((w1 & ((1 << DELTA_BITS) - 1)) as i64);
        }
        (self.op, self.words, self.left) = (op, words, left);
        true
    }

    /// Whether the records ended by themselves. Errors: `Corrupt` when [`Self::advance`] stopped at an impossible
    /// record: an unknown operation, an offset beyond all files, or an offset or duration that is out of range.
    pub fn finish(&self) -> Result<()> {
        let Some(why) = self.damage else {
            return Ok(());
        };
        Err(Error::corrupt("a capture chunk holds a record that cannot be")
            .with("why", why)
            .with("byte", HEADER_BYTES + (self.all - self.left.len()) * 8))
    }

    #[inline]
    fn word(&self, i: usize) -> u64 {
        u64::from_le_bytes(self.words[i])
    }
    /// The submit stamp.
    #[inline]
    pub fn submit(&self) -> i64 {
        if self.long {
            return self.word(9) as i64;
        }
        self.complete.wrapping_sub((self.word(0) >> LATENCY_AT) as i64)
    }

    /// All of it.
    #[inline(always)]
    pub fn unpack(&self) -> Record {
        if self.long { self.unpack_long() } else { self.unpack_short() }
    }

    #[inline(always)]
    fn unpack_short(&self) -> Record {
        let (h, op) = (self.header, self.op);
        let (w0, w1) = (self.word(0), self.word(1));
        let mut at = 2;
        let mut take = |wanted: bool| {
            let value = wanted.then(|| self.word(at));
            at += usize::from(wanted);
            value
        };
        let wait = take(h.columns.intended);
        let sync = take(h.columns.sync);
        let size = take(h.columns.size);
        let key = take(h.columns.key);
        let offset = w1 >> DELTA_BITS << h.unit_shift;
        // Most often there is one file, which takes no division to tell file and offset apart.
        let (target, offset) = match offset < h.file_size {
            true => (0, offset),
            false => ((offset / h.file_size) as u16, offset % h.file_size),
        };
        let submit = Stamp(self.submit());
        let issued = w0 >> ISSUED_AT & ((1 << ISSUED_BITS) - 1);
        let listed = h.sizes[(w0 >> SIZE_AT) as usize % SIZES];
        Record {
            op,
            target,
            offset: (h.addressed && op != OpKind::Fsync).then_some(offset),
            key,
            size: if op.sized() { size.unwrap_or(listed) } else { 0 },
            intended: wait.map(|w| Stamp(submit.0.wrapping_sub(w as i64))),
            submit,
            issued: h.columns.issued.then(|| Stamp(submit.0.wrapping_add(issued as i64))),
            complete: Stamp(self.complete),
            sync_ns: sync.and_then(|s| s.checked_sub(1)),
            ..Record::default()
        }
    }

    #[cold]
    fn unpack_long(&self) -> Record {
        let w = |i: usize| self.word(i);
        let present = w(0) >> 32;
        let has = |bit: u32| present >> bit & 1 == 1;
        let stamp = |bit: u32, i: usize| has(bit).then(|| Stamp(w(i) as i64));
        Record {
            op: self.op,
            target: w(1) as u16,
            offset: has(0).then(|| w(2)),
            key: has(1).then(|| w(3)),
            size: w(4),
            moved: has(2).then(|| w(5)),
            count: has(3).then(|| w(6) as u32),
            intended: stamp(4, 7),
            origin: stamp(5, 8),
            submit: Stamp(w(9) as i64),
            issued: stamp(6, 10),
            first: stamp(7, 11),
            complete: Stamp(self.complete),
            sync_ns: has(8).then(|| w(13)),
            retries: has(9).then(|| (w(1) >> 16) as u16),
            status: Status(w(14) as u32 as i32),
        }
    }
}
