//! Notes which key numbers the sessions of a run have written: one range from the plan's first number on, and the
//! range of the sizes of values. From it drivers tell the run's records from those of others, and delete the run's.
//!
//! Names follow from key numbers. Numbers within the range may have been deleted or never written, and others may have
//! written under the same names: the callers look at what stands there before they delete it.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use taillight_core::keys::{KEY_MAX, KeyFormat};
use taillight_core::plan::Plan;

use super::rules::WorkloadRules;

/// Range of the key numbers, and of the sizes of values, that sessions of this process have written so far, and other
/// ranks of which it was told.
#[derive(Debug)]
pub struct WrittenKeys {
    /// The lowest first key number of the plan's workloads.
    start: u64,
    /// Kept after their sessions have ended.
    sessions: Mutex<Vec<Arc<SessionKeys>>>,
}

/// What one session has written; while it runs, it alone stores here, so that operations need no lock.
#[derive(Debug)]
#[repr(align(128))]
pub struct SessionKeys {
    /// One past the highest key number written; 0 when none is.
    end: AtomicU64,
    /// Bytes of the smallest and of the largest value.
    smallest: AtomicU64,
    largest: AtomicU64,
}

impl SessionKeys {
    /// Notes that `count` records from number `key` on, of `size` bytes each, are about to be written.
    #[inline]
    pub fn note(&self, key: u64, count: u32, size: u64) {
        let end = key.saturating_add(u64::from(count.max(1)));
        if self.end.load(Ordering::Relaxed) < end {
            self.end.store(end, Ordering::Relaxed);
        }
        if self.smallest.load(Ordering::Relaxed) > size {
            self.smallest.store(size, Ordering::Relaxed);
        }
        if self.largest.load(Ordering::Relaxed) < size {
            self.largest.store(size, Ordering::Relaxed);
        }
    }
}

impl WrittenKeys {
    /// With nothing written yet.
    pub fn of(plan: &Plan) -> WrittenKeys {
        let keys = plan.workloads.iter().filter_map(|w| w.keys.as_ref());
        let start = keys.map(|k| k.start).min().unwrap_or(0);
        WrittenKeys { start, sessions: Mutex::default() }
    }

    /// Where one more session notes what it writes.
    pub fn session(&self) -> Arc<SessionKeys> {
        let [end, smallest, largest] = [0, u64::MAX, 0].map(AtomicU64::new);
        let keys = Arc::new(SessionKeys { end, smallest, largest });
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.push(keys.clone());
        keys
    }

    fn of_all(&self, number: impl Fn(&SessionKeys) -> &AtomicU64) -> Vec<u64> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().map(|keys| number(keys).load(Ordering::Relaxed)).collect()
    }

    /// From the plan's first key number to one past the highest one written, or past the last of `records` that were
    /// there before, where that is higher.
    pub fn range(&self, records: u64) -> Range<u64> {
        let end = self.of_all(|keys| &keys.end).into_iter().max().unwrap_or(0);
        self.start..end.max(self.start.saturating_add(records))
    }

    /// The keys in a store that count as the run's, by these rules. Where the run has `made` the store: those of
    /// [`WrittenKeys::range`], or if they are too many all of their form. Else all of their form.
    pub fn keys<'a>(
        &self,
        rules: impl Iterator<Item = &'a WorkloadRules>,
        made: bool,
        records: u64,
    ) -> NumberedKeys {
        let formats: Vec<_> = rules.map(|rules| &rules.format).collect();
        match made {
            true => NumberedKeys::of(&formats, self.range(records)),
            // A run that deleted noted no records, and one that was killed none that it inserted.
            false => NumberedKeys::formed(&formats),
        }
    }

    /// Bytes of the smallest and of the largest value written; an empty range when none was.
    pub fn sizes(&self) -> RangeInclusive<u64> {
        let smallest = self.of_all(|keys| &keys.smallest).into_iter().min().unwrap_or(u64::MAX);
        smallest..=self.of_all(|keys| &keys.largest).into_iter().max().unwrap_or(0)
    }

    /// What a rank tells rank 0, which deletes: one past the highest key number (0: none), bytes of smallest and
    /// largest value.
    pub fn told(&self) -> [u64; 3] {
        let end = self.of_all(|keys| &keys.end).into_iter().max().unwrap_or(0);
        let sizes = self.sizes();
        [end, *sizes.start(), *sizes.end()]
    }

    /// Takes note of what another rank told.
    pub fn add(&self, [end, smallest, largest]: [u64; 3]) {
        let [end, smallest, largest] = [end, smallest, largest].map(AtomicU64::new);
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.push(Arc::new(SessionKeys { end, smallest, largest }));
    }

    /// Forgets the numbers, after the records were deleted; the sizes stay.
    pub fn clear(&self) {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().for_each(|keys| keys.end.store(0, Ordering::Relaxed));
    }
}

/// Number and example of records of others, under the run's names or in a store that it made. They are left in place.
#[derive(Debug, Default)]
pub struct ForeignRecords {
    pub count: u64,
    /// The first of them.
    pub example: Option<String>,
}

impl ForeignRecords {
    pub fn note(&mut self, name: &[u8]) {
        self.count += 1;
        self.example.get_or_insert_with(|| String::from_utf8_lossy(name).into_owned());
    }

    /// Adds `count` rows of a table. For driver `postgres`.
    #[cfg(feature = "postgres")]
    pub fn add(&mut self, count: u64, place: &str) {
        self.count += count;
        if count > 0 {
            self.example.get_or_insert_with(|| format!("a row of {place}"));
        }
    }

    /// Errors: `Target` when there are some, for callers that have deleted the run's records beside them.
    pub fn told(self) -> taillight_core::Result<()> {
        let Some(example) = self.example else { return Ok(()) };
        let what = "under names of this run stand values that it did not write: they stay";
        Err(taillight_core::Error::target(what)
            .with("how many", self.count)
            .with("one of them", example)
            .hint("somebody else writes under the same prefix: the run's figures include that"))
    }

    /// As [`ForeignRecords::told`], for callers that have deleted nothing of what is `named`.
    pub fn left(self, named: &str) -> taillight_core::Result<()> {
        let Some(example) = self.example else { return Ok(()) };
        Err(taillight_core::Error::target(
            "somebody else wrote into what the run made: it was left as it is",
        )
        .with("target", named)
        .with("records of others", self.count)
        .with("one of them", example)
        .hint("look what is in it; a later run deletes it only where --destroy names it"))
    }
}

/// The keys that count as a run's, from which keys of others are told.
pub enum NumberedKeys {
    /// A digest of 64 bits of each key, sorted.
    These(Vec<u64>),
    /// Whatever has the form of a key: for too many keys, or for kept records whose numbers nobody noted.
    Formed(Vec<KeyFormat>),
}

/// Most keys of which each has a digest: 256 MiB of digests.
const KEYS_MAX: u64 = 1 << 25;

type KeyHasher = BuildHasherDefault<DefaultHasher>;

impl NumberedKeys {
    /// The keys of these numbers in all `formats`; [`NumberedKeys::Formed`] where they are too many.
    fn of(formats: &[&KeyFormat], numbers: Range<u64>) -> NumberedKeys {
        // The plan of a suite has the workloads of all its points, with the same keys.
        let mut apart: Vec<&KeyFormat> = Vec::new();
        for &format in formats {
            if !apart.contains(&format) {
                apart.push(format);
            }
        }
        let count = numbers.end.saturating_sub(numbers.start);
        if count.saturating_mul(apart.len() as u64) > KEYS_MAX {
            return NumberedKeys::formed(&apart);
        }
        let mut all = Vec::new();
        for format in apart {
            let mut key = [0; KEY_MAX];
            let digest = |n| KeyHasher::default().hash_one(format.write(n, &mut key));
            all.extend(numbers.clone().map(digest));
        }
        all.sort_unstable();
        NumberedKeys::These(all)
    }

    /// All keys of these formats.
    fn formed(formats: &[&KeyFormat]) -> NumberedKeys {
        NumberedKeys::Formed(formats.iter().map(|format| (*format).clone()).collect())
    }

    pub fn has(&self, key: &[u8]) -> bool {
        match self {
            NumberedKeys::These(all) => {
                all.binary_search(&KeyHasher::default().hash_one(key)).is_ok()
            }
            NumberedKeys::Formed(formats) => formats.iter().any(|format| format.could_be(key)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_core::plan::TargetPlan;

    #[test]
    fn what_was_written_is_a_range_of_numbers_and_sizes() {
        let mut plan = crate::conformance::keyed_plan(TargetPlan::default(), 10, 1, false);
        plan.workloads[0].keys.as_mut().unwrap().start = 100;
        let written = WrittenKeys::of(&plan);
        assert!(written.range(0).is_empty() && written.sizes().is_empty());
        assert_eq!(written.range(5), 100..105, "records of an earlier run");
        let (one, other) = (written.session(), written.session());
        one.note(120, 4, 300);
        other.note(101, 1, 200);
        drop((one, other));
        assert_eq!((written.range(5), written.sizes()), (100..124, 200..=300));
        let other = WrittenKeys::of(&plan);
        other.session().note(130, 2, 900);
        written.add(other.told());
        assert_eq!((written.range(0), written.sizes()), (100..132, 200..=900), "of two ranks");
        written.clear();
        assert!(written.range(0).is_empty());
    }

    #[test]
    fn keys_of_others_are_told_from_those_of_a_range_of_numbers() {
        use taillight_core::keys::KeyNaming;
        let hashed = KeyFormat::decimal(KeyNaming::Hashed, "user", 0).unwrap();
        let binary = KeyFormat::binary(16).unwrap();
        let keys = NumberedKeys::of(&[&hashed, &binary, &hashed], 5..9);
        let mut out = [0; KEY_MAX];
        for format in [&hashed, &binary] {
            for n in 0..20 {
                let key = format.write(n, &mut out);
                assert_eq!(keys.has(key), (5..9).contains(&n), "{n}");
            }
        }
        assert!(!keys.has(b"user") && !keys.has(b"") && !keys.has(b"thesis"));
        let many = NumberedKeys::of(&vec![&binary; 1 << 16], 0..1 << 10);
        assert!(matches!(many, NumberedKeys::These(all) if all.len() == 1 << 10));
        for formed in [NumberedKeys::formed(&[&hashed]), NumberedKeys::of(&[&hashed], 0..u64::MAX)]
        {
            assert!(formed.has(b"user12") && !formed.has(b"thesis"));
        }
    }
}
