//! The reader: chunk bytes back into records. Tolerates a chunk cut anywhere, and nothing else.

use taillight_core::{Error, OpKind, Record, Result, Stamp, Status};

use super::{DELTA_BITS, HEADER_BYTES, Header, ISSUED_BITS, LONG, LONG_WORDS};

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
    /// The records, in completion order, up to the first zero word or a record that is cut. Errors:
    /// `Corrupt`, once and as the last item, at a record that no encoder writes.
    pub fn records(&self) -> RecordIter<'a> {
        RecordIter { header: self.header, body: self.body, next: 0, complete: self.header.base_ns }
    }
}

const NO_OPERATION: &str = "its code is of no operation";

/// Iterates over a chunk's records.
#[derive(Debug, Clone)]
pub struct RecordIter<'a> {
    header: Header,
    body: &'a [u8],
    next: usize,
    complete: i64,
}

impl RecordIter<'_> {
    /// Reading ends at a record that cannot be.
    fn corrupt(&mut self, why: &str) -> Option<Result<Record>> {
        let at = HEADER_BYTES + self.next * 8;
        self.body = &[];
        Some(Err(Error::corrupt("a capture chunk holds a record that cannot be")
            .with("why", why)
            .with("byte", at)))
    }

    fn short(&mut self, w0: u64) -> Option<Result<Record>> {
        let h = &self.header;
        let w1 = word(self.body, self.next + 1);
        let mut at = self.next + 2;
        let mut take = |wanted: bool| {
            let value = wanted.then(|| word(self.body, at));
            at += usize::from(wanted);
            value
        };
        let wait = take(h.columns.intended);
        let sync = take(h.columns.sync);
        let size = take(h.columns.size);
        let key = take(h.columns.key);
        if at * 8 > self.body.len() {
            return None;
        }
        let offset = w1 >> DELTA_BITS << h.unit_shift;
        let Some(op) = OpKind::from_index((w0 >> 1 & 15) as u8) else {
            return self.corrupt(NO_OPERATION);
        };
        let Ok(target) = u16::try_from(offset / h.file_size) else {
            return self.corrupt("its offset lies beyond the last file");
        };
        let complete_ns = self.complete.wrapping_add((w1 & ((1 << DELTA_BITS) - 1)) as i64);
        (self.next, self.complete) = (at, complete_ns);
        let complete = Stamp(self.complete);
        let submit = Stamp(self.complete.wrapping_sub((w0 >> 32) as i64));
        let issued = w0 >> 9 & ((1 << ISSUED_BITS) - 1);
        let fsync = op == OpKind::Fsync;
        let listed = h.sizes[(w0 >> 5 & 15) as usize];
        Some(Ok(Record {
            op,
            target,
            offset: (h.addressed && !fsync).then_some(offset % h.file_size),
            key,
            size: if op.sized() { size.unwrap_or(listed) } else { 0 },
            intended: wait.map(|w| Stamp(submit.0.wrapping_sub(w as i64))),
            submit,
            issued: h.columns.issued.then(|| Stamp(submit.0.wrapping_add(issued as i64))),
            complete,
            sync_ns: sync.and_then(|s| s.checked_sub(1)),
            ..Record::default()
        }))
    }

    fn long(&mut self, w0: u64) -> Option<Result<Record>> {
        let base = self.next;
        if (base + LONG_WORDS) * 8 > self.body.len() {
            return None;
        }
        let Some(op) = OpKind::from_index((w0 >> 16) as u8) else {
            return self.corrupt(NO_OPERATION);
        };
        let w = |i: usize| word(self.body, base + i);
        let present = w0 >> 32;
        let has = |bit: u32| present >> bit & 1 == 1;
        let stamp = |bit: u32, i: usize| has(bit).then(|| Stamp(w(i) as i64));
        let record = Record {
            op,
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
            complete: Stamp(w(12) as i64),
            sync_ns: has(8).then(|| w(13)),
            retries: has(9).then(|| (w(1) >> 16) as u16),
            status: Status(w(14) as u32 as i32),
        };
        self.next += LONG_WORDS;
        self.complete = record.complete.0;
        Some(Ok(record))
    }
}

impl Iterator for RecordIter<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Result<Record>> {
        let w0 = word(self.body, self.next);
        if w0 & 1 == 0 {
            return None;
        }
        if w0 >> 1 & 15 == LONG { self.long(w0) } else { self.short(w0) }
    }
}
