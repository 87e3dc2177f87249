//! Latency logs of Micron drives: histogram (D0h), last slow commands (D1h).

use taillight_core::Result;
use taillight_rundir::nvme::{LatencyBucket, SlowCommand};

use super::{le, wrong_size};

/// Size of the histogram page.
pub const STATS_BYTES: usize = 4096;
/// Size of the page of slow commands.
pub const LOGS_BYTES: usize = 16 * 64;

/// Where the bins begin, us.
const BINS_US: [u64; 32] = [
    0, 50, 100, 150, 200, 300, 400, 500, 600, 700, 800, 900, 1_000, 5_000, 10_000, 20_000, 50_000,
    100_000, 200_000, 300_000, 400_000, 500_000, 600_000, 700_000, 800_000, 900_000, 1_000_000,
    2_000_000, 3_000_000, 4_000_000, 5_000_000, 8_000_000,
];
/// A version, then arrays of 64 counters of 8 bytes: all, reads, writes, deallocations.
const ARRAY: usize = 64 * 8;

/// Parses page D0h.
///
/// # Errors
/// `Corrupt` for another size.
pub fn stats(page: &[u8]) -> Result<Vec<LatencyBucket>> {
    if page.len() != STATS_BYTES {
        let what = "the latency statistics (D0h)";
        return Err(wrong_size(what, page.len(), STATS_BYTES));
    }
    let count = |array: usize, bin: usize| le(page, 8 + array * ARRAY + bin * 8, 8);
    let bin = |(i, lo): (usize, &u64)| LatencyBucket {
        lo_us: *lo,
        hi_us: BINS_US.get(i + 1).copied(),
        reads: count(1, i),
        writes: count(2, i),
    };
    Ok(BINS_US.iter().enumerate().map(bin).collect())
}

/// Parses page D1h: 16 entries, those in use.
///
/// # Errors
/// `Corrupt` for another size.
pub fn logs(page: &[u8]) -> Result<Vec<SlowCommand>> {
    if page.len() != LOGS_BYTES {
        return Err(wrong_size("the latency log (D1h)", page.len(), LOGS_BYTES));
    }
    let entry = |e: &[u8]| SlowCommand {
        stamp: le(e, 0, 8),
        latency: le(e, 8, 4),
        opcode: le(e, 16, 1),
        command: le(e, 18, 2),
        namespace: le(e, 20, 4),
        lba: le(e, 24, 8),
        // Zero means one block.
        blocks: le(e, 32, 2) + 1,
    };
    let all = page.chunks_exact(64).map(entry);
    Ok(all.filter(|e| e.stamp > 0 || e.latency > 0).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_and_slow_commands() {
        let mut page = vec![0u8; STATS_BYTES];
        page[8 + ARRAY + 16 * 8] = 4;
        page[8 + 2 * ARRAY + 31 * 8] = 1;
        let bins = stats(&page).unwrap();
        assert_eq!(
            (bins[16].lo_us, bins[16].hi_us, bins[16].reads),
            (50_000, Some(100_000), 4)
        );
        assert_eq!(
            (bins[31].lo_us, bins[31].hi_us, bins[31].writes),
            (8_000_000, None, 1)
        );
        assert!(stats(&page[..512]).is_err());
        let mut page = vec![0u8; LOGS_BYTES];
        page[64] = 9;
        page[64 + 8] = 113;
        page[64 + 16] = 2;
        page[64 + 24] = 80;
        page[64 + 32] = 7;
        let list = logs(&page).unwrap();
        assert_eq!(list.len(), 1);
        let one = list[0];
        assert_eq!(
            (one.latency, one.opcode, one.lba, one.blocks),
            (113, 2, 80, 8)
        );
        assert!(logs(&page[..64]).is_err());
    }
}
