//! Random bytes at memory speed: two pools, combined, whose lengths are different primes of 24-byte words.
//!
//! Byte `i` of a block is `a[i + x] ^ b[i + y]`, `x` and `y` from the block's id ([`NoisePool::write`]) or from where
//! the last block ended ([`NoisePool::walk`]). The pools stay in the second-level cache; a pair of offsets comes
//! round only after 44 MB, so that compressors find nothing. Two ids may begin at one place; what keeps their blocks
//! apart are the stamps that `Content`, the caller, writes over these bytes. The pools are the same in every process:
//! what is written by its id alone can be made again to see where stored bytes differ.

use rand::{Rng as _, SeedableRng};

use super::scramble;
use crate::generator::Rng;
use crate::sys;

/// Words of both pools have this many bytes: whole 8-byte words, and whole turns of text.
const WORD: usize = 24;
/// Length of the first pool, bytes: a prime number of words.
const FIRST: usize = 1361 * WORD;
/// Length of the second pool, bytes: another prime number of words.
const SECOND: usize = 1367 * WORD;
/// Bytes that memory comes in.
const CACHE_LINE: usize = 64;
/// Any number: it decides the bytes of the pools, for good.
const POOL_SEED: u64 = 0x7461_696C_6C69_6768;
/// Bits of three neighbouring characters of text that vary, as YCSB draws them.
const TEXT_BITS: [u8; 3] = [31, 63, 95];

/// The two pools.
#[derive(Debug, Clone)]
pub struct NoisePool {
    first: Box<[u8]>,
    second: Box<[u8]>,
    /// Blocks begin at multiples of this.
    step: usize,
    /// What every byte gets on top: the first printable character, or nothing.
    base: u8,
}

/// A place in both pools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NoiseOffsets {
    a: usize,
    b: usize,
}

impl NoisePool {
    /// Random bytes, always the same.
    pub fn new() -> NoisePool {
        let mut rng = Rng::seed_from_u64(POOL_SEED);
        let mut pool = |length| {
            let mut bytes = vec![0; length];
            rng.fill_bytes(&mut bytes);
            bytes.into_boxed_slice()
        };
        NoisePool { first: pool(FIRST), second: pool(SECOND), step: 8, base: 0 }
    }

    /// Printable characters, space and above, always the same. Only bits that vary are in the
    /// pools, and blocks begin at whole turns of them, so that both pools agree on which do.
    pub fn text() -> NoisePool {
        let mut noise = NoisePool::new();
        for pool in [&mut noise.first, &mut noise.second] {
            let bits = TEXT_BITS.iter().cycle();
            pool.iter_mut().zip(bits).for_each(|(byte, bits)| *byte &= bits);
        }
        NoisePool { step: WORD, base: b' ', ..noise }
    }

    /// Fills the block with the bytes of `id`.
    #[inline]
    pub fn write(&self, block: &mut [u8], id: u64) {
        self.walk(block, &mut self.offsets_of(id));
    }

    /// Where the bytes of `id` begin in both pools.
    #[inline]
    pub fn offsets_of(&self, id: u64) -> NoiseOffsets {
        let drawn = scramble(id);
        let place = |half: u64, length: usize| {
            ((half * (length / self.step) as u64) >> 32) as usize * self.step
        };
        NoiseOffsets { a: place(drawn & 0xFFFF_FFFF, FIRST), b: place(drawn >> 32, SECOND) }
    }

    /// Fills the block with the bytes from `place` on, and moves `place` behind them. Going on from there makes short
    /// blocks cheap: neighbours in the pools are neighbours in memory.
    #[inline]
    pub fn walk(&self, block: &mut [u8], place: &mut NoiseOffsets) {
        let NoiseOffsets { mut a, mut b } = *place;
        let mut rest = block;
        while !rest.is_empty() {
            let n = rest.len().min(FIRST - a).min(SECOND - b);
            let (part, after) = rest.split_at_mut(n);
            let (first, second) = (&self.first[a..a + n], &self.second[b..b + n]);
            match self.base {
                0 => combine(part, first, second, 0),
                base => combine(part, first, second, base),
            }
            a = if a + n == FIRST { 0 } else { a + n };
            b = if b + n == SECOND { 0 } else { b + n };
            rest = after;
        }
        *place = NoiseOffsets { a, b };
        self.fetch(place);
    }

    /// Asks for the memory that a next short block will want: in between, a store sweeps the caches, and a
    /// value of 100 B took three times as long for it.
    #[inline]
    pub fn fetch(&self, place: &NoiseOffsets) {
        for (pool, at) in [(&self.first, place.a), (&self.second, place.b)] {
            if let Some(next) = pool.get(at..).and_then(|rest| rest.first_chunk::<CACHE_LINE>()) {
                sys::fetch(next);
            }
        }
    }
}

/// Plain enough for the compiler to make vectors of it.
#[inline(always)]
fn combine(to: &mut [u8], a: &[u8], b: &[u8], base: u8) {
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to = (a ^ b).wrapping_add(base);
    }
}

/// Whole repeats of `pattern`, at least `least` bytes.
pub fn repeat(pattern: &[u8], least: usize) -> Vec<u8> {
    pattern.repeat(least.div_ceil(pattern.len().max(1)))
}
