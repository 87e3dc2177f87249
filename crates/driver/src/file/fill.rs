//! Random data: for layout and for the buffers that writes start from.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// A source of bytes that no device can compress.
pub struct RandomBytes(Xoshiro256PlusPlus);

impl RandomBytes {
    /// The same seed gives the same bytes.
    pub fn new(seed: u64) -> RandomBytes {
        RandomBytes(Xoshiro256PlusPlus::seed_from_u64(seed))
    }
    pub fn fill(&mut self, buffer: &mut [u8]) {
        let mut words = buffer.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.0.next_u64().to_le_bytes());
        }
        let tail = words.into_remainder();
        let last = self.0.next_u64().to_le_bytes();
        tail.copy_from_slice(&last[..tail.len()]);
    }
}
