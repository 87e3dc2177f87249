//! SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): numbers into unrelated ones, one to one. Seeds of
//! workers, orders of blocks and ids of payloads come from it; draws come from `generator::Rng`.

/// What the state grows by, 2^64 over the golden ratio.
pub const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The finaliser: neighbours become unrelated, one to one; 0 stays 0.
#[inline]
pub fn finish(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}

/// One step from `x`: never the same number for two, and not 0 for 0.
#[inline]
pub fn scramble(x: u64) -> u64 {
    finish(x.wrapping_add(STEP))
}
