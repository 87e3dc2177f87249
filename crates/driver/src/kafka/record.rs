//! Keys of records: which run and worker wrote a record, its number among those of the worker in its partition, and a
//! sum over its value, so that whoever reads it can tell foreign, torn, doubled and missing ones.

use std::hash::{DefaultHasher, Hasher};

/// Bytes of a key.
pub const KEY: usize = 24;
/// Key of the record that says whose the topic is.
pub const MARK: &[u8] = b"taillight-mark";

/// What the key of a record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordKey {
    /// Number of the run that wrote it.
    pub run: u64,
    /// The worker that wrote it, and its number among the records of that worker in this partition,
    /// from 0 on.
    pub writer: u32,
    pub sequence: u64,
    /// Sum over the value.
    pub sum: u32,
}

impl RecordKey {
    #[inline]
    pub fn write(&self) -> [u8; KEY] {
        let mut out = [0; KEY];
        out[..8].copy_from_slice(&self.run.to_le_bytes());
        out[8..12].copy_from_slice(&self.writer.to_le_bytes());
        out[12..16].copy_from_slice(&self.sum.to_le_bytes());
        out[16..].copy_from_slice(&self.sequence.to_le_bytes());
        out
    }

    #[inline]
    pub fn read(key: &[u8]) -> Option<RecordKey> {
        let (run, rest) = key.split_first_chunk()?;
        let (writer, rest) = rest.split_first_chunk()?;
        let (sum, rest) = rest.split_first_chunk()?;
        Some(RecordKey {
            run: u64::from_le_bytes(*run),
            writer: u32::from_le_bytes(*writer),
            sum: u32::from_le_bytes(*sum),
            sequence: u64::from_le_bytes(rest.try_into().ok()?),
        })
    }
}

/// The number of a run.
pub fn run_number(run_id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(run_id.as_bytes());
    hasher.finish()
}

/// A sum over a value: four lanes side by side, so that a block of a KiB takes some tens of nanoseconds.
#[inline]
pub fn sum(value: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |lane: u64, word: u64| (lane ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let word = |bytes: &[u8]| {
        let mut whole = [0; 8];
        whole[..bytes.len()].copy_from_slice(bytes);
        u64::from_le_bytes(whole)
    };
    let mut lanes = [value.len() as u64, 1, 2, 3];
    let mut chunks = value.chunks_exact(32);
    for chunk in &mut chunks {
        for (lane, bytes) in lanes.iter_mut().zip(chunk.chunks_exact(8)) {
            *lane = mix(*lane, word(bytes));
        }
    }
    for (lane, bytes) in lanes.iter_mut().zip(chunks.remainder().chunks(8)) {
        *lane = mix(*lane, word(bytes));
    }
    let all = lanes.iter().fold(0, |all, lane| mix(all, *lane));
    (all ^ all >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_written() {
        let key = RecordKey { run: run_number("r"), writer: 7, sequence: 1 << 40, sum: 9 };
        assert_eq!(RecordKey::read(&key.write()), Some(key));
        for other in [&b""[..], MARK, &key.write()[1..], &[0; KEY + 1]] {
            assert_eq!(RecordKey::read(other), None);
        }
        assert_ne!(run_number("a"), run_number("b"));
    }

    #[test]
    fn each_changed_byte_changes_the_sum() {
        for len in [0, 1, 7, 8, 24, 31, 32, 33, 100] {
            let mut value: Vec<u8> = (0..len).collect();
            let was = sum(&value);
            for i in 0..value.len() {
                value[i] ^= 0x40;
                assert_ne!(sum(&value), was, "byte {i} of {len}");
                value[i] ^= 0x40;
            }
            value.push(0);
            assert_ne!(sum(&value), was, "a longer one than {len}");
        }
    }
}
