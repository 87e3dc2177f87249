//! ETags that the store gave for the objects a run has put, by key number: what a listing says of an object in the
//! end is compared with them, so that one with the same tag need not be asked about.
//!
//! A tag is kept as 64 bits of its hash. Of two puts of one key in flight at once nobody knows which was
//! the last: an object with another tag is not taken for foreign but asked for its maker (`prefix`).

use std::hash::{DefaultHasher, Hasher};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use taillight_core::plan::WorkloadPlan;

/// Tags that memory is taken for at a time, and how often: 67 million, 512 MiB at most for each workload.
/// Behind that none are kept, and the objects are asked for their maker.
const CHUNK: usize = 1 << 12;
const CHUNKS: usize = 1 << 14;

/// Tags of one workload's objects.
pub struct PutTags {
    start: u64,
    chunks: Box<[OnceLock<Box<[AtomicU64]>>]>,
}

impl PutTags {
    /// None yet, with memory for the first ones.
    pub fn of(w: &WorkloadPlan) -> PutTags {
        let start = w.keys.as_ref().map_or(0, |keys| keys.start);
        let chunks = (0..CHUNKS).map(|_| OnceLock::new()).collect();
        let tags = PutTags { start, chunks };
        tags.at(start);
        tags
    }

    fn locate(&self, key: u64) -> Option<(&OnceLock<Box<[AtomicU64]>>, usize)> {
        let n = usize::try_from(key.checked_sub(self.start)?).ok()?;
        Some((self.chunks.get(n / CHUNK)?, n % CHUNK))
    }

    fn at(&self, key: u64) -> Option<&AtomicU64> {
        let (chunk, n) = self.locate(key)?;
        chunk.get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect()).get(n)
    }

    /// The object of number `key` was put, and has this tag; empty where it is not known.
    pub fn note(&self, key: u64, etag: &str) {
        if let Some(tag) = self.at(key) {
            tag.store(if etag.is_empty() { 0 } else { hash(etag) }, Ordering::Relaxed);
        }
    }

    /// The hash of the tag of number `key`; 0 where it is not known.
    pub fn get(&self, key: u64) -> u64 {
        let found = self.locate(key).and_then(|(chunk, n)| chunk.get()?.get(n));
        found.map_or(0, |tag| tag.load(Ordering::Relaxed))
    }
}

/// The hash of a tag, quoted or not; never 0.
pub fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(text.trim_matches('"').as_bytes());
    hasher.finish().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::OpKind;
    use taillight_core::plan::Keys;
    use taillight_core::units::ByteSize;

    #[test]
    fn tags_are_kept_by_number() {
        let w = WorkloadPlan {
            keys: Some(Keys { start: 1000, count: 10, ..Keys::default() }),
            ..WorkloadPlan::simple("w", OpKind::Put, ByteSize(1))
        };
        let tags = PutTags::of(&w);
        let far = 1000 + 3 * CHUNK as u64;
        tags.note(1003, "\"a\"");
        tags.note(far, "b");
        assert_eq!((tags.get(1003), tags.get(far)), (hash("a"), hash("\"b\"")));
        assert_eq!((tags.get(1004), tags.get(999), tags.get(far + CHUNK as u64)), (0, 0, 0));
        tags.note(1003, "");
        assert_eq!(tags.get(1003), 0);
        let beyond = 1000 + (CHUNK * CHUNKS) as u64;
        tags.note(beyond, "c");
        assert_eq!(tags.get(beyond), 0);
    }
}
