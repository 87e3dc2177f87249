//! The encoder: one call per I/O from the hot loop. No allocation, no branch that usually fails.

use taillight_core::{OpKind, Record};

use super::{
    Columns, DELTA_BITS, Header, ISSUED_BITS, LATENCY_BITS, LONG, LONG_WORDS, SIZES, UNIT_BITS,
};

/// Packs records into the words of a chunk. Lives as long as a worker's phase, over many chunks.
#[derive(Debug, Clone)]
pub struct Encoder {
    columns: Columns,
    unit_shift: u8,
    file_size: u64,
    addressed: bool,
    sizes: [u64; SIZES],
    previous_complete: i64,
}

impl Encoder {
    /// An encoder for chunks with this header.
    pub fn new(header: &Header) -> Encoder {
        Encoder {
            columns: header.columns,
            unit_shift: header.unit_shift,
            file_size: header.file_size,
            addressed: header.addressed,
            sizes: header.sizes,
            previous_complete: header.base_ns,
        }
    }

    /// Completion stamp of the last record: the `base_ns` of the next chunk's header.
    pub fn base_ns(&self) -> i64 {
        self.previous_complete
    }

    /// Packs `record` into the first words of `out`; returns the words used, or `None` when they
    /// do not fit (take a new chunk and call again). Records must come in completion order.
    #[inline]
    pub fn encode(&mut self, out: &mut [u64], record: &Record) -> Option<usize> {
        let Some((w0, w1)) = self.short(record) else {
            return self.long(out, record);
        };
        let words = self.columns.short_words();
        let out = out.get_mut(..words)?;
        out[0] = w0;
        out[1] = w1;
        if words > 2 {
            self.optional(&mut out[2..], record);
        }
        self.previous_complete = record.complete.0;
        Some(words)
    }

    /// The two packed words, when every number fits.
    #[inline]
    fn short(&self, r: &Record) -> Option<(u64, u64)> {
        let latency = r.complete.since(r.submit) as u64;
        let delta = r.complete.0.wrapping_sub(self.previous_complete) as u64;
        let issued = match r.issued {
            Some(at) if self.columns.issued => at.since(r.submit) as u64,
            None if !self.columns.issued => 0,
            _ => return None,
        };
        let offset = u64::from(r.target) * self.file_size + r.offset.unwrap_or(0);
        let unit = offset >> self.unit_shift;
        let fits = latency >> LATENCY_BITS == 0
            && delta >> DELTA_BITS == 0
            && issued >> ISSUED_BITS == 0
            && unit >> UNIT_BITS == 0
            && unit << self.unit_shift == offset
            && r.status.is_ok()
            && r.moved.is_none()
            && r.retries.is_none()
            && r.count.is_none()
            && r.origin.is_none()
            && r.first.is_none()
            && r.intended.is_some() == self.columns.intended
            && r.key.is_some() == self.columns.key
            && r.offset.is_some() == (self.addressed && r.op != OpKind::Fsync)
            && (self.columns.sync || r.sync_ns.is_none());
        if !fits {
            return None;
        }
        let size = if r.op == OpKind::Fsync && r.size == 0 {
            0
        } else {
            self.size_index(r.size)?
        };
        let w0 = latency << 32 | issued << 9 | size << 5 | (r.op as u64) << 1 | 1;
        Some((w0, unit << DELTA_BITS | delta))
    }

    #[inline]
    fn size_index(&self, size: u64) -> Option<u64> {
        if self.sizes[0] == size || self.columns.size {
            return Some(0);
        }
        self.sizes
            .iter()
            .position(|s| *s == size && size != 0)
            .map(|i| i as u64)
    }

    fn optional(&self, out: &mut [u64], r: &Record) {
        let mut words = out.iter_mut();
        let mut put = |wanted: bool, value: u64| {
            if wanted && let Some(word) = words.next() {
                *word = value;
            }
        };
        let wait = r.intended.map_or(0, |at| r.submit.since(at));
        put(self.columns.intended, wait as u64);
        put(
            self.columns.sync,
            r.sync_ns.map_or(0, |ns| ns.saturating_add(1)),
        );
        put(self.columns.size, r.size);
        put(self.columns.key, r.key.unwrap_or(0));
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
        Some(LONG_WORDS)
    }
}
