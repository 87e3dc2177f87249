//! Which I/Os of a worker are kept, by the running 99.5 % of each kind of operation or a threshold of the user's. Cheap
//! enough for the hot loop: the probes of `bpf` and `perf` ask at the end of each operation.

use taillight_core::OpKind;

/// Values per power of two: a bucket is at most 1/16 of its latency wide.
const STEPS: u32 = 16;
const BUCKETS: usize = (64 * STEPS) as usize;
/// How many I/Os of each kind of operation a worker keeps at first, slow or not, even with a threshold of the user's.
const LEARN: u64 = 10_000;
/// After so many I/Os of a kind one is kept as a sample, and the threshold is set anew unless it is the user's.
const EVERY: u64 = 1024;

/// A threshold for each kind of operation of a worker, made with its first one.
#[derive(Debug)]
pub struct TailThresholds {
    fixed: Option<u64>,
    kinds: [Option<TailThreshold>; OpKind::ALL.len()],
}

impl TailThresholds {
    /// With a threshold of the user's, or none.
    pub fn new(fixed: Option<u64>) -> TailThresholds {
        TailThresholds { fixed, kinds: [const { None }; OpKind::ALL.len()] }
    }

    /// Takes one latency and says whether its I/O is kept.
    #[inline]
    pub fn keep(&mut self, op: OpKind, ns: u64) -> KeepReason {
        let fixed = self.fixed;
        self.kinds[op as usize].get_or_insert_with(|| TailThreshold::new(fixed)).keep(ns)
    }
}

/// Latencies seen, in coarse buckets.
#[derive(Debug, Clone)]
struct TailThreshold {
    /// I/Os by bucket, 4 KiB; a full count stays as it is.
    counts: Box<[u32]>,
    seen: u64,
    /// Given by the user.
    fixed: Option<u64>,
    threshold: u64,
}

/// Why an I/O is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeepReason {
    No,
    Slow,
    /// It is one of the first `LEARN`, or one in `EVERY`, slow or not.
    Sample,
}

impl TailThreshold {
    fn new(fixed: Option<u64>) -> TailThreshold {
        TailThreshold {
            counts: vec![0; BUCKETS].into(),
            seen: 0,
            fixed,
            threshold: fixed.unwrap_or(0),
        }
    }

    #[inline]
    fn keep(&mut self, ns: u64) -> KeepReason {
        let n = self.seen;
        self.seen += 1;
        let bucket = bucket(ns);
        if let Some(count) = self.counts.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
        if n < LEARN || n.is_multiple_of(EVERY) {
            if n.is_multiple_of(EVERY) && self.fixed.is_none() {
                self.learn();
            }
            return KeepReason::Sample;
        }
        if ns >= self.threshold { KeepReason::Slow } else { KeepReason::No }
    }

    /// Sets the threshold to the lower edge of the bucket that holds the 99.5 % so far. The 99.9 % so far may be too
    /// high: the report asks for what is above the 99.9 % of the whole run, which is lower after a slow beginning.
    #[cold]
    fn learn(&mut self) {
        let beyond = self.seen / 200;
        let mut above = 0;
        for (i, count) in self.counts.iter().enumerate().rev() {
            above += u64::from(*count);
            if above > beyond {
                // A bucket with more than 1 % of all I/Os holds usual ones, too many to keep: the tail begins with the
                // next slower bucket.
                let crowded = u64::from(*count) > self.seen / 100;
                self.threshold = lower_edge(i + usize::from(crowded));
                return;
            }
        }
    }
}

#[inline]
fn bucket(ns: u64) -> usize {
    let ns = ns.max(u64::from(STEPS));
    let power = 63 - ns.leading_zeros();
    let step = (ns >> (power - 4)) & u64::from(STEPS - 1);
    (power * STEPS) as usize + step as usize
}

fn lower_edge(bucket: usize) -> u64 {
    let (power, step) = (bucket as u32 / STEPS, bucket as u64 % u64::from(STEPS));
    if power < 4 {
        return 0;
    }
    (u64::from(STEPS) + step) << (power - 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_belong_to_their_buckets() {
        for ns in [16, 17, 31, 32, 100, 4095, 4096, 1_000_000, u64::MAX / 2] {
            let edge = lower_edge(bucket(ns));
            assert!(edge <= ns && ns - edge <= ns / 16, "{ns}: {edge}");
        }
        assert_eq!(bucket(0), bucket(16));
    }

    #[test]
    fn slow_ios_are_kept_and_a_sample_of_the_usual_ones() {
        let mut running = TailThreshold::new(None);
        let mut usual = 0;
        for i in 0..200_000u64 {
            // 0.5 in a thousand are ten times slower.
            let ns = if i % 2000 == 999 { 1_000_000 } else { 100_000 };
            let keep = running.keep(ns);
            if ns > 500_000 && i >= LEARN {
                assert_ne!(keep, KeepReason::No);
            }
            usual += u64::from(keep == KeepReason::Slow && ns < 500_000);
        }
        assert_eq!(usual, 0, "the bucket of all others is not the tail");
        let mut fixed = TailThreshold::new(Some(500_000));
        (0..LEARN).for_each(|_| assert_eq!(fixed.keep(1), KeepReason::Sample));
        assert_eq!(fixed.keep(500_000), KeepReason::Slow);
        assert_eq!(fixed.keep(499_999), KeepReason::No);
        let sampled = (0..10 * EVERY).filter(|_| fixed.keep(1) == KeepReason::Sample);
        assert_eq!(sampled.count(), 10);
    }
}
