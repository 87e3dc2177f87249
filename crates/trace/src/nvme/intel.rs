//! Latency histograms of Intel and Solidigm drives: reads (C1h), writes (C2h), revision 4.
//!
//! Bins are log-linear: doublings, each in equal parts; the first two doublings are linear in
//! steps of 1 us. Revision 3 is not read: its public descriptions disagree on where its bins begin.

use taillight_core::{Error, Result};
use taillight_rundir::nvme::LatencyBucket;

use super::{le, wrong_size};

/// Size of a page: revision (two numbers of 2 bytes), 1,216 counters of 4 bytes, mean of 8 bytes.
pub const BYTES: usize = 4 + 4 * 1216 + 8;

/// Bins and bits of a doubling's parts: revision 4.0 has fewer.
fn shape(minor: u64) -> (usize, u32) {
    match minor {
        0 => (152, 3),
        _ => (1216, 6),
    }
}

/// Where bin `i` begins, us.
fn from_us(i: u64, bits: u32) -> u64 {
    if i < 2 << bits {
        return i;
    }
    let doubling = (i >> bits) - 1;
    let part = i & ((1 << bits) - 1);
    ((1 << bits) + part) << doubling
}

/// Parses the pages of reads and writes into one histogram; bins without commands are left out.
///
/// # Errors
/// `Corrupt` for another size, another revision, or two pages of different revisions.
pub fn stats(reads: &[u8], writes: &[u8]) -> Result<Vec<LatencyBucket>> {
    for page in [reads, writes] {
        if page.len() != BYTES {
            let what = "the latency statistics (C1h, C2h)";
            return Err(wrong_size(what, page.len(), BYTES));
        }
    }
    let revision = |page: &[u8]| (le(page, 0, 2), le(page, 2, 2));
    let (major, minor) = revision(reads);
    if major != 4 || revision(writes) != (major, minor) {
        return Err(
            Error::corrupt("the latency statistics (C1h, C2h) have an unknown revision")
                .with("revision", format!("{major}.{minor}"))
                .with("known", "4")
                .hint("`nvme solidigm latency-tracking-log` may know it"),
        );
    }
    let (bins, bits) = shape(minor);
    let count = |page: &[u8], i: usize| le(page, 4 + 4 * i, 4);
    let bin = |i: usize| LatencyBucket {
        lo_us: from_us(i as u64, bits),
        hi_us: (i + 1 < bins).then(|| from_us(i as u64 + 1, bits)),
        reads: count(reads, i),
        writes: count(writes, i),
    };
    let all = (0..bins).map(bin);
    Ok(all.filter(|b| b.reads + b.writes > 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(revision: [u8; 4], counts: &[(usize, u8)]) -> Vec<u8> {
        let mut page = vec![0u8; BYTES];
        page[..4].copy_from_slice(&revision);
        counts.iter().for_each(|(i, n)| page[4 + 4 * i] = *n);
        page
    }

    #[test]
    fn bins_follow_each_other_without_holes() {
        for bits in [3, 6] {
            let mut before = 0;
            for i in 1..=19 << bits {
                let at = from_us(i, bits);
                let width = at - before;
                assert!(width.is_power_of_two(), "{i}: {before}..{at}");
                assert!(width == 1 || before >= width << bits, "{i}: {before}..{at}");
                before = at;
            }
        }
        assert_eq!(
            (from_us(127, 6), from_us(128, 6), from_us(129, 6)),
            (127, 128, 130)
        );
    }

    #[test]
    fn reads_and_writes_in_one_histogram() {
        let reads = page([4, 0, 2, 0], &[(3, 7), (128, 1)]);
        let writes = page([4, 0, 2, 0], &[(3, 2), (1215, 5)]);
        let bins = stats(&reads, &writes).unwrap();
        assert_eq!(bins.len(), 3);
        assert_eq!((bins[0].lo_us, bins[0].hi_us), (3, Some(4)));
        assert_eq!((bins[0].reads, bins[0].writes), (7, 2));
        assert_eq!((bins[1].lo_us, bins[1].hi_us), (128, Some(130)));
        assert_eq!((bins[2].lo_us, bins[2].hi_us), (127 << 17, None));
        let old = [page([4, 0, 0, 0], &[(151, 1)]), page([4, 0, 0, 0], &[])];
        assert_eq!(stats(&old[0], &old[1]).unwrap()[0].lo_us, 15 << 17);
    }

    #[test]
    fn other_sizes_and_revisions_are_refused() {
        let four = page([4, 0, 2, 0], &[]);
        assert!(
            stats(&four[..512], &four)
                .unwrap_err()
                .to_string()
                .contains("wrong size")
        );
        let three = page([3, 0, 0, 0], &[]);
        assert!(
            stats(&three, &three)
                .unwrap_err()
                .to_string()
                .contains("revision")
        );
        let other = page([4, 0, 5, 0], &[]);
        assert!(
            stats(&four, &other)
                .unwrap_err()
                .to_string()
                .contains("revision")
        );
    }
}
