//! Random bytes at memory speed: two pools of different prime lengths, combined.
//!
//! Byte `i` of a block is `a[i + x] ^ b[i + y]`, `x` and `y` from the block's id. The pools stay in
//! the second-level cache; their lengths share no factor, so that a block repeats only after
//! 134 MB and compressors find nothing. The pools are the same in every process: what belongs to an
//! id can be made again to see where stored bytes differ.

use rand::{Rng as _, SeedableRng};

use super::scramble;
use crate::generator::Rng;

/// Length of the first pool, 8-byte words; a prime.
const FIRST: usize = 4093;
/// Length of the second pool, 8-byte words; a prime.
const SECOND: usize = 4099;
/// Any number: it decides the bytes of the pools, for good.
const POOL_SEED: u64 = 0x7461_696C_6C69_6768;

/// The two pools.
#[derive(Debug, Clone)]
pub struct Noise {
    first: [u8; FIRST * 8],
    second: [u8; SECOND * 8],
}

impl Noise {
    /// The pools, always the same.
    pub fn new() -> Noise {
        let mut rng = Rng::seed_from_u64(POOL_SEED);
        let mut noise = Noise {
            first: [0; FIRST * 8],
            second: [0; SECOND * 8],
        };
        rng.fill_bytes(&mut noise.first);
        rng.fill_bytes(&mut noise.second);
        noise
    }

    /// Fills the block with the bytes of `id`.
    #[inline]
    pub fn write(&self, block: &mut [u8], id: u64) {
        let drawn = scramble(id);
        let place = |half: u64, words: usize| (half * words as u64 >> 32) as usize * 8;
        let mut a = place(drawn & 0xFFFF_FFFF, FIRST);
        let mut b = place(drawn >> 32, SECOND);
        let mut rest = block;
        while !rest.is_empty() {
            let n = rest
                .len()
                .min(self.first.len() - a)
                .min(self.second.len() - b);
            let (part, after) = rest.split_at_mut(n);
            combine(part, &self.first[a..a + n], &self.second[b..b + n]);
            a = if a + n == self.first.len() { 0 } else { a + n };
            b = if b + n == self.second.len() { 0 } else { b + n };
            rest = after;
        }
    }
}

/// Plain enough for the compiler to make vectors of it.
#[inline]
fn combine(to: &mut [u8], a: &[u8], b: &[u8]) {
    for ((to, a), b) in to.iter_mut().zip(a).zip(b) {
        *to = a ^ b;
    }
}

/// Bits kept of three neighbouring characters, as YCSB draws them, for 16 times three.
const TEXT_BITS: [u8; 48] = {
    let mut bits = [0; 48];
    let mut i = 0;
    while i < 48 {
        bits[i] = [31, 63, 95][i % 3];
        i += 1;
    }
    bits
};

/// Turns random bytes into printable characters, space and above.
#[inline]
pub fn fill_text(block: &mut [u8]) {
    for part in block.chunks_mut(TEXT_BITS.len()) {
        for (byte, bits) in part.iter_mut().zip(&TEXT_BITS) {
            *byte = (*byte & bits) + b' ';
        }
    }
}

/// Whole repeats of `pattern`, at least `least` bytes.
pub fn repeat(pattern: &[u8], least: usize) -> Vec<u8> {
    pattern.repeat(least.div_ceil(pattern.len().max(1)))
}
