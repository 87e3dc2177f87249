//! What writes carry: random, zeros, a pattern or text, with a share that compresses away and a
//! share of blocks that repeat an earlier one.
//!
//! One [`Filler`] per worker. It writes into the session's buffer just before `submit`, so it has to
//! be fast: no generator runs per byte, two small pools of random bytes are combined at offsets
//! drawn per block. It is no source of good randomness and no check of what comes back (`verify`
//! is). Callers: `worker`, `preload` and `verify`.
//!
//! A *block* is one write. Compressible bytes are zeros at the end of every [`CHUNK`] of a block,
//! counted from the block's start, so that each block and each 4 KiB of it has the share asked for.
//! A *duplicate* is a whole block with the bytes of an earlier block of the same worker (a shorter
//! one repeats its first bytes), wherever it is written.

mod pool;
#[cfg(test)]
mod tests;

use crate::splitmix::{self, scramble};
use taillight_core::plan::{Payload, PayloadKind};
use taillight_core::{Error, Result};

use pool::{NoiseOffsets, NoisePool, repeat};

/// Each piece of so many bytes of a block has the compressible share.
pub const CHUNK: usize = 4096;
/// Bytes between two stamps in random data: the smallest block any device works in.
const SECTOR: usize = 512;
/// Longest pattern, bytes.
pub const LONGEST_PATTERN: usize = 64 << 10;

/// The bytes of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ContentKind {
    /// Random bytes; no two blocks are equal (duplicates apart).
    Random,
    Zero,
    /// These bytes, over and over from the start of each block.
    Pattern(Vec<u8>),
    /// Printable text with the byte frequencies of YCSB's values.
    Text,
}

/// What writes carry, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PayloadSpec {
    kind: ContentKind,
    compressible: u32,
    duplicate: u32,
}

impl PayloadSpec {
    /// What a plan says. Errors: as [`PayloadSpec::new`], and for a pattern of damaged hexadecimal
    /// digits.
    pub fn of(plan: &Payload) -> Result<PayloadSpec> {
        let kind = match plan.kind {
            PayloadKind::Random => ContentKind::Random,
            PayloadKind::Zero => ContentKind::Zero,
            PayloadKind::Text => ContentKind::Text,
            PayloadKind::Pattern => {
                ContentKind::Pattern(pattern(plan.pattern.as_deref().unwrap_or_default())?)
            }
        };
        PayloadSpec::new(kind, plan.compressible, plan.duplicate)
    }

    /// Checks that the parts fit together. Shares are percent. Errors: `Usage` when a share is
    /// above 100 or means nothing for the kind, or the pattern is empty or too long.
    pub fn new(kind: ContentKind, compressible: u32, duplicate: u32) -> Result<PayloadSpec> {
        for (name, share) in [("compressible", compressible), ("duplicate", duplicate)] {
            if share > 100 {
                return Err(Error::usage(format!("payload.{name} is above 100 %"))
                    .with("value", share)
                    .hint("it is a percentage: write 0 to 100"));
            }
        }
        if kind != ContentKind::Random && compressible > 0 {
            return Err(Error::usage("payload.compressible is only for payloads of kind `random`")
                .hint(
                    "leave it out: zeros and patterns compress away altogether, text as it does",
                ));
        }
        if matches!(kind, ContentKind::Zero | ContentKind::Pattern(_)) && duplicate > 0 {
            return Err(Error::usage("payload.duplicate is for kinds `random` and `text`")
                .hint("leave it out: all blocks of zeros or of one pattern are equal anyway"));
        }
        if let ContentKind::Pattern(bytes) = &kind
            && (bytes.is_empty() || bytes.len() > LONGEST_PATTERN)
        {
            return Err(Error::usage("payload.pattern is empty or too long")
                .with("bytes", bytes.len())
                .hint(format!("give 1 to {LONGEST_PATTERN} bytes")));
        }
        Ok(PayloadSpec { kind, compressible, duplicate })
    }

    /// The bytes.
    pub fn kind(&self) -> &ContentKind {
        &self.kind
    }
    /// Percent of each block that compresses away.
    pub fn compressible(&self) -> u32 {
        self.compressible
    }
    /// Percent of blocks that repeat an earlier one.
    pub fn duplicate(&self) -> u32 {
        self.duplicate
    }
}

/// The bytes of a pattern: text as it is, or hexadecimal digits after `0x`.
fn pattern(text: &str) -> Result<Vec<u8>> {
    let Some(digits) = text.strip_prefix("0x") else {
        return Ok(text.as_bytes().to_vec());
    };
    let nibble = |c: u8| (c as char).to_digit(16).map(|n| n as u8);
    let pairs = digits.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(nibble(*high)? << 4 | nibble(*low)?),
        _ => None,
    });
    pairs.collect::<Option<Vec<u8>>>().ok_or_else(|| {
        Error::usage("payload.pattern has damaged hexadecimal digits")
            .with("pattern", text)
            .hint("write an even number of digits, like \"0xdeadbeef\"")
    })
}

/// What is left to do per write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FillMethod {
    /// The buffer holds random bytes already: only make them unlike any other block.
    Stamp,
    /// The buffer holds the right bytes already.
    Unchanged,
    /// Random bytes go on in the pools where the last block ended, so that blocks in a row have nothing in common.
    Walk,
    /// Every byte is written.
    Whole,
}

/// Makes the bytes of one worker's writes.
#[derive(Debug, Clone)]
pub struct Filler {
    method: FillMethod,
    content: Content,
    ids: Ids,
    /// Where [`FillMethod::Walk`] is.
    place: NoiseOffsets,
}

impl Filler {
    /// A filler with draws of its own. `seed` must differ between workers. `whole`: every byte of a
    /// block is made anew, because something else touches the buffers (reads, names of fields), or
    /// because the storage may compress several blocks as one.
    pub fn new(spec: &PayloadSpec, seed: u64, whole: bool) -> Filler {
        let (content, ids) = (Content::new(spec), Ids::new(seed, spec.duplicate));
        let method = match spec.kind {
            ContentKind::Random if spec.duplicate == 0 && (whole || spec.compressible > 0) => {
                FillMethod::Walk
            }
            _ if whole => FillMethod::Whole,
            ContentKind::Random if spec.compressible == 0 && spec.duplicate == 0 => {
                FillMethod::Stamp
            }
            ContentKind::Zero | ContentKind::Pattern(_) => FillMethod::Unchanged,
            _ => FillMethod::Whole,
        };
        Filler { method, place: content.offsets_of(scramble(seed)), content, ids }
    }

    /// Fills a buffer before the first write from it, in full. Not for the hot path.
    pub fn prepare(&mut self, buffer: &mut [u8]) {
        let id = self.ids.unique();
        self.content.write(buffer, id);
    }

    /// Asks the CPU for the memory that the next block is made from, where it is made anew.
    #[inline(always)]
    pub fn fetch(&self) {
        if self.method == FillMethod::Walk
            && let ContentSource::Random(noise) | ContentSource::Text(noise) = &self.content.source
        {
            noise.fetch(&self.place);
        }
    }

    /// Makes `block`, a buffer prepared earlier, the next block.
    #[inline]
    pub fn fill(&mut self, block: &mut [u8]) {
        match self.method {
            FillMethod::Stamp => {
                let id = self.ids.unique();
                stamp(block, id);
            }
            FillMethod::Unchanged => {}
            FillMethod::Walk => {
                let id = self.ids.unique();
                self.content.write_next(block, id, &mut self.place);
            }
            FillMethod::Whole => {
                let id = self.ids.next();
                self.content.write(block, id);
            }
        }
    }
}

/// The bytes that belong to an id: the same id gives the same bytes, in any process.
#[derive(Debug, Clone)]
pub struct Content {
    source: ContentSource,
    /// Random bytes in each whole [`CHUNK`].
    random: usize,
}

#[derive(Debug, Clone)]
enum ContentSource {
    Random(NoisePool),
    Text(NoisePool),
    /// Repeats of a pattern, a whole number of them.
    Pattern(Vec<u8>),
    Zero,
}

impl Content {
    /// The content that `spec` describes.
    pub fn new(spec: &PayloadSpec) -> Content {
        let source = match &spec.kind {
            ContentKind::Random => ContentSource::Random(NoisePool::new()),
            ContentKind::Text => ContentSource::Text(NoisePool::text()),
            ContentKind::Pattern(bytes) => ContentSource::Pattern(repeat(bytes, LONGEST_PATTERN)),
            ContentKind::Zero => ContentSource::Zero,
        };
        let random = CHUNK * (100 - spec.compressible as usize) / 100;
        Content {
            source,
            // Whole words, and room for the stamp that keeps chunks apart.
            random: (random & !7).max(8),
        }
    }

    pub fn write(&self, block: &mut [u8], id: u64) {
        match &self.source {
            ContentSource::Zero => block.fill(0),
            ContentSource::Pattern(repeats) => {
                for part in block.chunks_mut(repeats.len()) {
                    let n = part.len();
                    part.copy_from_slice(&repeats[..n]);
                }
            }
            ContentSource::Text(noise) => {
                noise.write(block, id);
                stamp_text(block, id);
            }
            ContentSource::Random(noise) if self.random >= CHUNK => {
                noise.write(block, id);
                stamp(block, id);
            }
            ContentSource::Random(noise) => {
                self.compressible(block, id, |head, id| noise.write(head, id));
            }
        }
    }

    /// Where the bytes of `id` begin.
    fn offsets_of(&self, id: u64) -> NoiseOffsets {
        match &self.source {
            ContentSource::Random(noise) | ContentSource::Text(noise) => noise.offsets_of(id),
            _ => NoiseOffsets::default(),
        }
    }

    /// Writes a block of random bytes that go on at `place`, with the stamps of `id`.
    #[inline]
    fn write_next(&self, block: &mut [u8], id: u64, place: &mut NoiseOffsets) {
        match &self.source {
            ContentSource::Random(noise) if self.random >= CHUNK => {
                noise.walk(block, place);
                stamp(block, id);
            }
            ContentSource::Random(noise) => {
                self.compressible(block, id, |head, _| noise.walk(head, place));
            }
            _ => self.write(block, id),
        }
    }

    /// Random bytes, then zeros, in every chunk; a short last chunk has the same share.
    #[inline]
    fn compressible(&self, block: &mut [u8], id: u64, mut noise: impl FnMut(&mut [u8], u64)) {
        let mut id = id;
        for chunk in block.chunks_mut(CHUNK) {
            let random = match chunk.len() {
                CHUNK => self.random,
                n => (n * self.random / CHUNK).max(n.min(8)),
            };
            let (head, tail) = chunk.split_at_mut(random);
            noise(head, id);
            id = stamp(head, id);
            tail.fill(0);
        }
    }
}

/// Writes 8 bytes that follow from `id` over the beginning of every sector of 8 bytes or more; returns an id to go on
/// from.
#[inline]
pub fn stamp(block: &mut [u8], id: u64) -> u64 {
    let mut x = id.wrapping_mul(splitmix::STEP);
    for sector in block.chunks_mut(SECTOR) {
        x = x.rotate_left(23).wrapping_add(0xD1B5_4A32_D192_ED03);
        if let Some(head) = sector.first_chunk_mut::<8>() {
            *head = x.to_le_bytes();
        }
    }
    x
}

/// As [`stamp`], in 10 printable characters of six bits for each sector.
fn stamp_text(block: &mut [u8], id: u64) {
    let mut x = id.wrapping_mul(splitmix::STEP);
    for sector in block.chunks_mut(SECTOR) {
        x = x.rotate_left(23).wrapping_add(0xD1B5_4A32_D192_ED03);
        if let Some(head) = sector.first_chunk_mut::<10>() {
            head[..8].copy_from_slice(&printable(x).to_le_bytes());
            head[8..].copy_from_slice(&printable(x >> 48).to_le_bytes()[..2]);
        }
    }
}

/// Eight printable characters from the lowest 48 bits, six bits each, the lowest first.
#[inline]
fn printable(x: u64) -> u64 {
    // Halves, quarters, then sixes move to the bottom of their half, quarter and byte.
    let x = x & 0xFF_FFFF | (x & 0xFFFF_FF00_0000) << 8;
    let x = x & 0x0000_0FFF_0000_0FFF | (x & 0x00FF_F000_00FF_F000) << 4;
    let x = x & 0x003F_003F_003F_003F | (x & 0x0FC0_0FC0_0FC0_0FC0) << 2;
    x + 0x2020_2020_2020_2020
}

/// Which content each block gets: a new one, or one of those before.
#[derive(Debug, Clone)]
struct Ids {
    seed: u64,
    /// Unique contents so far.
    unique: u64,
    /// Golden-ratio sequence: below `share` means duplicate. It spreads duplicates evenly without
    /// a period, so that the share is right after a few blocks already.
    turn: u32,
    share: u64,
    draw: u64,
}

impl Ids {
    fn new(seed: u64, duplicate: u32) -> Ids {
        Ids {
            seed,
            unique: 0,
            turn: scramble(seed) as u32,
            share: (u64::from(duplicate) << 32) / 100,
            draw: seed,
        }
    }

    #[inline]
    fn unique(&mut self) -> u64 {
        self.unique += 1;
        self.id(self.unique)
    }

    #[inline]
    fn id(&self, number: u64) -> u64 {
        scramble(self.seed.wrapping_add(number))
    }

    #[inline]
    fn next(&mut self) -> u64 {
        if self.share == 0 {
            return self.unique();
        }
        self.turn = self.turn.wrapping_add(0x9E37_79B9);
        if u64::from(self.turn) >= self.share || self.unique == 0 {
            return self.unique();
        }
        self.draw = self.draw.wrapping_add(splitmix::STEP);
        let drawn = scramble(self.draw);
        // One of those before, each alike.
        self.id(1 + ((u128::from(drawn) * u128::from(self.unique)) >> 64) as u64)
    }
}
