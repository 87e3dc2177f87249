//! Native histograms of Prometheus: exponential buckets from the buckets of an HdrHistogram.
//!
//! Bucket `i` of schema `n` holds values in (2^((i-1)/2^n), 2^(i/2^n)] seconds. A value is known to
//! 0.1 %, so that one beside an edge may be counted in the neighbouring bucket.

use hdrhistogram::Histogram;

/// Buckets per factor of two are 2^SCHEMA: each is 2.2 % wide.
pub const SCHEMA: i32 = 5;
/// Values up to this, seconds, are in the bucket of zero: of whole ns that is 0 alone.
pub const ZERO_THRESHOLD: f64 = 1e-12;

/// A native histogram.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NativeHistogram {
    pub zero: u64,
    /// Index and count of the buckets that are not empty, ascending.
    pub buckets: Vec<(i32, u64)>,
}

/// The bucket of a value.
fn index(seconds: f64) -> i32 {
    (seconds.log2() * f64::from(1 << SCHEMA)).ceil() as i32
}

impl NativeHistogram {
    /// Of what `held` holds in ns, and `beyond` values above all that it can hold.
    pub fn new(held: &Histogram<u64>, beyond: u64) -> NativeHistogram {
        let mut native = NativeHistogram::default();
        for v in held.iter_recorded() {
            let ns = v.value_iterated_to();
            if ns == 0 {
                native.zero += v.count_at_value();
                continue;
            }
            native.put(index(held.median_equivalent(ns) as f64 / 1e9), v.count_at_value());
        }
        if beyond > 0 {
            native.put(index(held.high() as f64 / 1e9) + 1, beyond);
        }
        native
    }

    fn put(&mut self, index: i32, count: u64) {
        match self.buckets.last_mut().filter(|last| last.0 == index) {
            Some(last) => last.1 += count,
            None => self.buckets.push((index, count)),
        }
    }

    /// Runs of neighbouring buckets (gap to the run before, or the first index; length), and the
    /// difference of each count to the one before. An empty histogram has one empty run: without any
    /// it would be read as one with classic buckets.
    pub fn spans(&self) -> (Vec<(i32, u32)>, Vec<i64>) {
        let mut spans: Vec<(i32, u32)> = Vec::new();
        let (mut deltas, mut before, mut next) = (Vec::new(), 0, 0);
        for (index, count) in &self.buckets {
            match spans.last_mut().filter(|_| *index == next) {
                Some(span) => span.1 += 1,
                None => spans.push((index - next, 1)),
            }
            next = index + 1;
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            deltas.push(count - before);
            before = count;
        }
        if spans.is_empty() {
            spans.push((0, 0));
        }
        (spans, deltas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use taillight_engine::recorder::new_histogram;

    proptest! {
        #[test]
        fn every_value_lies_in_its_bucket_or_beside_its_edge(ns in 1u64..3_600_000_000_000) {
            let mut held = new_histogram();
            held.record(ns).unwrap();
            let native = NativeHistogram::new(&held, 0);
            let (i, n) = native.buckets[0];
            let edge = |i: i32| (f64::from(i) / f64::from(1 << SCHEMA)).exp2() * 1e9;
            prop_assert_eq!(n, 1);
            prop_assert!(ns as f64 > edge(i - 1) * 0.999, "{} {}", ns, edge(i - 1));
            prop_assert!(ns as f64 <= edge(i) * 1.001, "{} {}", ns, edge(i));
        }

        #[test]
        fn spans_give_back_every_bucket(values in prop::collection::vec((0u64..1 << 41, 1u64..9), 0..200), beyond in 0u64..3) {
            let mut held = new_histogram();
            for (ns, n) in &values {
                held.record_n(*ns, *n).unwrap();
            }
            let native = NativeHistogram::new(&held, beyond);
            let (spans, deltas) = native.spans();
            let (mut at, mut count, mut deltas) = (0, 0, deltas.into_iter());
            let mut back = Vec::new();
            for (gap, length) in spans {
                at += gap;
                for _ in 0..length {
                    count += deltas.next().unwrap();
                    back.push((at, count as u64));
                    at += 1;
                }
            }
            prop_assert_eq!(&back, &native.buckets);
            let all = native.zero + back.iter().map(|b| b.1).sum::<u64>();
            prop_assert_eq!(all, held.len() + beyond);
        }
    }

    #[test]
    fn nothing_is_no_classic_histogram() {
        assert_eq!(NativeHistogram::default().spans(), (vec![(0, 0)], vec![]));
    }
}
