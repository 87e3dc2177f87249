//! OCP latency monitor, log page C3h, versions 1 (OCP 2.0) to 4 (OCP 2.5).
//!
//! Counters hold every command at or above a threshold, measured in the drive from fetching the
//! command to posting its completion: the host's doorbell and interrupt are outside.

use taillight_core::{Error, Result};
use taillight_machine::nvme::{check_size, le};
use taillight_rundir::nvme::{LatencyMonitor, MonitorBucket};

/// GUID of the page, as it stands there: the last byte of its usual writing first.
const GUID: [u8; 16] = [
    0x92, 0x7a, 0xc0, 0x8c, 0xd0, 0x84, 0x6c, 0x9c, 0x70, 0x43, 0xe6, 0xd4, 0x58, 0x5e, 0xd4, 0x85,
];
/// Versions whose layout is known.
const VERSIONS: std::ops::RangeInclusive<u64> = 1..=4;
/// A latency that was never latched.
const NONE_MS: u64 = 0xffff;

/// Parses the page. Errors: `Corrupt` for another size, another page or an unknown version.
pub fn parse(page: &[u8]) -> Result<LatencyMonitor> {
    check_size("the latency monitor (C3h)", page, 512)?;
    if page[0x1f0..0x200] != GUID {
        return Err(Error::corrupt(
            "log page C3h of this drive is no OCP latency monitor: another GUID stands in it",
        ));
    }
    let version = le(page, 0x1ee, 2);
    if !VERSIONS.contains(&version) {
        return Err(Error::corrupt("the latency monitor (C3h) has an unknown version")
            .with("version", version)
            .with("known", "1 to 4")
            .hint("a newer Taillight may know it"));
    }
    let threshold = |i: usize| 5 * (le(page, 0x06 + i, 1) + 1);
    Ok(LatencyMonitor {
        enabled: page[0] & 1 != 0,
        version,
        timer_min: 5 * le(page, 0x02, 2),
        timer_end_min: 5 * le(page, 0x04, 2),
        thresholds_ms: [threshold(0), threshold(1), threshold(2), threshold(3)],
        active: buckets(page, 0x20, 0xc0),
        fixed: buckets(page, 0xf0, 0x190),
    })
}

/// Four buckets: counters ascending, 16 bytes each (reserved, deallocate, write, read); measured
/// latencies from bucket 3 down, 6 bytes each (deallocate, write, read).
fn buckets(page: &[u8], counters: usize, measured: usize) -> [MonitorBucket; 4] {
    std::array::from_fn(|i| {
        let at = counters + 16 * i;
        let ms = |which: usize| {
            let value = le(page, measured + 6 * (3 - i) + 2 * which, 2);
            (value != NONE_MS && value > 0).then_some(value)
        };
        MonitorBucket {
            deallocates: le(page, at + 4, 4),
            writes: le(page, at + 8, 4),
            reads: le(page, at + 12, 4),
            write_ms: ms(1),
            read_ms: ms(2),
        }
    })
}

/// A synthetic page.
#[cfg(test)]
pub mod testing {
    use super::*;

    /// An enabled monitor with thresholds 5, 10, 50 and 100 ms and 3 reads in bucket 1.
    pub fn page() -> Vec<u8> {
        let mut page = vec![0u8; 512];
        page[0] = 7;
        page[2] = 2;
        page[4..6].copy_from_slice(&0x07e0u16.to_le_bytes());
        page[6..10].copy_from_slice(&[0, 1, 9, 19]);
        page[0x20 + 16 + 12] = 3;
        page[0x20 + 48 + 8] = 1;
        page[0xc0..0xd8].fill(0xff);
        page[0xc0 + 2] = 113;
        page[0xc0 + 3] = 0;
        page[0xc0 + 12 + 4] = 18;
        page[0xc0 + 12 + 5] = 0;
        page[0xf0 + 12] = 9;
        page[0x1ee] = 1;
        page[0x1f0..].copy_from_slice(&GUID);
        page
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synthetic_page() {
        let it = parse(&testing::page()).unwrap();
        assert!(it.enabled);
        assert_eq!(it.thresholds_ms, [5, 10, 50, 100]);
        assert_eq!((it.timer_min, it.timer_end_min), (10, 7 * 24 * 60));
        assert_eq!((it.active[1].reads, it.active[1].read_ms), (3, Some(18)));
        assert_eq!((it.active[3].writes, it.active[3].write_ms), (1, Some(113)));
        assert_eq!(it.active[0], MonitorBucket::default());
        assert_eq!(it.fixed[0].reads, 9);
    }

    #[test]
    fn default_thresholds_are_those_of_the_standard() {
        let mut page = testing::page();
        page[6..10].copy_from_slice(&[0x05, 0x13, 0x1e, 0x2e]);
        assert_eq!(parse(&page).unwrap().thresholds_ms, [30, 100, 155, 235]);
    }

    #[test]
    fn other_sizes_pages_and_versions_are_refused() {
        let page = testing::page();
        assert!(parse(&page[..256]).unwrap_err().to_string().contains("wrong size"));
        let mut other = page.clone();
        other[0x1f0] = 0;
        assert!(parse(&other).unwrap_err().to_string().contains("GUID"));
        let mut newer = page;
        newer[0x1ee] = 9;
        assert!(parse(&newer).unwrap_err().to_string().contains("version"));
    }
}
