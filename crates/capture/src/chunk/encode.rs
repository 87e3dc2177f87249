//! The encoder: packs one I/O for each call of the hot loop into the words of a chunk, as a short
//! record where its numbers fit, else as a long one. No allocation.

use taillight_core::{OpKind, Record};

use super::{
    DELTA_BITS, Header, ISSUED_AT, ISSUED_BITS, LATENCY_AT, LATENCY_BITS, LONG, LONG_WORDS,
    OptionalWords, SIZE_AT, SIZES, UNIT_BITS,
};

/// A success in plain numbers: what a short record of a chunk can hold. Optional words that the
/// chunk does not have are ignored.
///
/// The hot loop makes this instead of a [`Record`]: it is a third of the bytes, and all of it is
/// read again at once. With a `Record` built for each operation, loads of optional fields wait for
/// the stores just before them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShortRecord {
    pub op: OpKind,
    /// target x file_size + offset, bytes; 0 for an fsync.
    pub global: u64,
    /// Bytes asked and moved; for an operation without a size (fsync, delete, stat) the first size
    /// of the chunk's table.
    pub size: u64,
    /// Intended start, ns; the submit stamp in a closed loop.
    pub intended: i64,
    /// Submit stamp, ns.
    pub submit: i64,
    /// Issued stamp, ns; the submit stamp where there is none.
    pub issued: i64,
    /// Completion stamp, ns.
    pub complete: i64,
    /// Time of the sync inside a write, ns.
    pub sync_ns: Option<u64>,
    pub key: u64,
}

/// A short record cannot hold the I/O: a number is too large, the offset off the unit, or the size in no table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DoesNotFit;

/// Packs records into the words of one chunk; the next chunk takes an encoder of its own.
#[derive(Debug, Clone)]
pub struct ChunkEncoder {
    columns: OptionalWords,
    short_words: usize,
    /// The number of the key is the only optional word: a closed loop on keys.
    only_key: bool,
    unit_shift: u8,
    file_size: u64,
    addressed: bool,
    sizes: [u64; SIZES],
    previous_complete: i64,
    previous_submit: i64,
    /// A record was submitted before the one before it.
    overtaken: bool,
}

impl ChunkEncoder {
    pub fn new(header: &Header) -> ChunkEncoder {
        ChunkEncoder {
            columns: header.columns,
            short_words: header.columns.short_words(),
            only_key: header.columns.key && header.columns.short_words() == 3,
            unit_shift: header.unit_shift,
            file_size: header.file_size,
            addressed: header.addressed,
            sizes: header.sizes,
            previous_complete: header.base_ns,
            previous_submit: i64::MIN,
            overtaken: false,
        }
    }

    /// The encoder of the next chunk.
    pub fn next(&self, header: &Header) -> ChunkEncoder {
        ChunkEncoder { previous_submit: self.previous_submit, ..ChunkEncoder::new(header) }
    }

    /// Whether the records of this chunk are in submit order, each after the one before, be that in this chunk or in
    /// the last.
    pub fn is_ordered(&self) -> bool {
        !self.overtaken
    }

    /// Completion stamp of the last record: the `base_ns` of the next chunk's header.
    pub fn base_ns(&self) -> i64 {
        self.previous_complete
    }

    /// Packs `record` into the first words of `out`; returns the words used, or `None` when they
    /// do not fit (take a new chunk and call again). Records must come in completion order.
    pub fn encode(&mut self, out: &mut [u64], record: &Record) -> Option<usize> {
        if let Some(sample) = self.sample(record)
            && self.fits(&sample)
        {
            return self.pack(out, &sample);
        }
        self.long(out, record)
    }

    /// Packs a plain success: the hot loop's way in. `Err` when a number does not fit a short
    /// record: call [`ChunkEncoder::encode`] then. `Ok(None)` when `out` is full.
    #[inline(always)]
    pub fn encode_short(
        &mut self,
        out: &mut [u64],
        sample: &ShortRecord,
    ) -> Result<Option<usize>, DoesNotFit> {
        if self.fits(sample) { Ok(self.pack(out, sample)) } else { Err(DoesNotFit) }
    }

    /// Whether every number fits a short record.
    #[inline(always)]
    fn fits(&self, s: &ShortRecord) -> bool {
        let latency = s.complete.wrapping_sub(s.submit) as u64;
        let delta = s.complete.wrapping_sub(self.previous_complete) as u64;
        let issued = s.issued.wrapping_sub(s.submit) as u64;
        let unit = s.global >> self.unit_shift;
        let over = latency >> LATENCY_BITS
            | delta >> DELTA_BITS
            | issued >> ISSUED_BITS
            | unit >> UNIT_BITS
            | (unit << self.unit_shift ^ s.global);
        over == 0 && self.size_index(s.size).is_some()
    }

    /// Writes a short record that fits.
    #[inline(always)]
    fn pack(&mut self, out: &mut [u64], s: &ShortRecord) -> Option<usize> {
        let words = self.short_words;
        let out = out.get_mut(..words)?;
        let size = self.size_index(s.size).unwrap_or(0);
        let latency = s.complete.wrapping_sub(s.submit) as u64;
        let issued = s.issued.wrapping_sub(s.submit) as u64;
        let delta = s.complete.wrapping_sub(self.previous_complete) as u64;
        let (op, size) = ((s.op as u64) << 1, size << SIZE_AT);
        out[0] = latency << LATENCY_AT | issued << ISSUED_AT | size | op | 1;
        out[1] = s.global >> self.unit_shift << DELTA_BITS | delta;
        match words {
            0..=2 => {}
            _ if self.only_key => out[2] = s.key,
            _ => self.optional(&mut out[2..], s),
        }
        self.previous_complete = s.complete;
        self.overtaken |= s.submit < self.previous_submit;
        self.previous_submit = s.submit;
        Some(words)
    }

    /// The sample of a record that has nothing a short record cannot say.
    fn sample(&self, r: &Record) -> Option<ShortRecord> {
        let fsync = r.op == OpKind::Fsync;
        let sized = r.op.sized();
        let plain = r.status.is_ok()
            && r.moved.is_none()
            && r.retries.is_none()
            && r.count.is_none()
            && r.origin.is_none()
            && r.first.is_none()
            && r.issued.is_some() == self.columns.issued
            && r.intended.is_some() == self.columns.intended
            && r.key.is_some() == self.columns.key
            && r.offset.is_some() == (self.addressed && !fsync)
            && (self.columns.sync || r.sync_ns.is_none())
            && (sized || r.size == 0)
            && (!fsync || r.target == 0);
        plain.then(|| ShortRecord {
            op: r.op,
            global: u64::from(r.target) * self.file_size + r.offset.unwrap_or(0),
            size: if sized { r.size } else { self.sizes[0] },
            intended: r.intended.map_or(r.submit.0, |s| s.0),
            submit: r.submit.0,
            issued: r.issued.map_or(r.submit.0, |s| s.0),
            complete: r.complete.0,
            sync_ns: r.sync_ns,
            key: r.key.unwrap_or(0),
        })
    }

    #[inline(always)]
    fn size_index(&self, size: u64) -> Option<u64> {
        if self.sizes[0] == size || self.columns.size {
            return Some(0);
        }
        self.sizes.iter().position(|s| *s == size && size != 0).map(|i| i as u64)
    }

    fn optional(&self, out: &mut [u64], s: &ShortRecord) {
        let mut words = out.iter_mut();
        let mut put = |wanted: bool, value: u64| {
            if wanted && let Some(word) = words.next() {
                *word = value;
            }
        };
        put(self.columns.intended, s.submit.wrapping_sub(s.intended) as u64);
        put(self.columns.sync, s.sync_ns.map_or(0, |ns| ns.saturating_add(1)));
        put(self.columns.size, s.size);
        put(self.columns.key, s.key);
    }

    #[cold]
    fn long(&mut self, out: &mut [u64], r: &Record) -> Option<usize> {
        let out = out.get_mut(..LONG_WORDS)?;
        let present = u64::from(r.offset.is_some())
            | u64::from(r.key.is_some()) << 1
            | u64::from(r.moved.is_some()) << 2
            | u64::from(r.count.is_some()) << 3
            | u64::from(r.intended.is_some()) << 4
            | u64::from(r.origin.is_some()) << 5
            | u64::from(r.issued.is_some()) << 6
            | u64::from(r.first.is_some()) << 7
            | u64::from(r.sync_ns.is_some()) << 8
            | u64::from(r.retries.is_some()) << 9;
        out[0] = present << 32 | (r.op as u64) << 16 | LONG << 1 | 1;
        out[1] = u64::from(r.target) | u64::from(r.retries.unwrap_or(0)) << 16;
        out[2] = r.offset.unwrap_or(0);
        out[3] = r.key.unwrap_or(0);
        out[4] = r.size;
        out[5] = r.moved.unwrap_or(0);
        out[6] = u64::from(r.count.unwrap_or(0));
        out[7] = r.intended.map_or(0, |s| s.0) as u64;
        out[8] = r.origin.map_or(0, |s| s.0) as u64;
        out[9] = r.submit.0 as u64;
        out[10] = r.issued.map_or(0, |s| s.0) as u64;
        out[11] = r.first.map_or(0, |s| s.0) as u64;
        out[12] = r.complete.0 as u64;
        out[13] = r.sync_ns.unwrap_or(0);
        out[14] = r.status.0 as u32 as u64;
        out[15] = 0;
        self.previous_complete = r.complete.0;
        self.overtaken |= r.submit.0 < self.previous_submit;
        self.previous_submit = r.submit.0;
        Some(LONG_WORDS)
    }
}
