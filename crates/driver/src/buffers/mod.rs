//! Buffers that sessions write from and read into, and the facts that a run states of them: size of
//! their pages, bytes, pieces and requests of a block.
//!
//! One rule: a session's own buffers are asked to lie in huge pages (2 MiB), whatever the block
//! size, the queue depth and the number of workers; those shared with another process are not. A
//! device takes a block in pieces that lie together in memory, and only so many of them in one
//! request: 1 MiB in pages of 4 KiB are up to 256 pieces, and where a disk takes 254 they are two
//! requests. A rule by size would measure our memory along a sweep.

mod sys;

use taillight_machine::{BlockDevice, Sys, chosen};

pub use sys::{Buffers, HUGE, PAGE};

/// The largest block of a plan, and how many of them a worker has in its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockShape {
    /// Bytes.
    pub block: u64,
    pub slots: u32,
}

/// What a block device takes in one request, as sysfs has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestLimits {
    pub max_segments: u64,
    /// Bytes of one segment at most.
    pub max_segment_size: u64,
    /// Bytes of one request at most.
    pub max_bytes: u64,
}

impl RequestLimits {
    /// None where sysfs does not say them all.
    pub fn of(block: &BlockDevice) -> Option<RequestLimits> {
        let number = |name| block.queue(name)?.parse().ok().filter(|n| *n > 0);
        Some(RequestLimits {
            max_segments: number("max_segments")?,
            max_segment_size: number("max_segment_size")?,
            max_bytes: number("max_sectors_kb")? << 10,
        })
    }
}

/// Memory of all buffers, by the size of the pages it is in; bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PagesGot {
    touched: u64,
    huge: u64,
}

impl PagesGot {
    /// From `/proc/self/smaps`: the mappings for which huge pages were asked (`hg`).
    fn parse(smaps: &str) -> PagesGot {
        let (mut all, mut one) = (PagesGot::default(), PagesGot::default());
        for line in smaps.lines() {
            let kib = |text: &str| {
                text.trim().trim_end_matches(" kB").parse().map_or(0, |n: u64| n << 10)
            };
            match line.split_once(':') {
                Some(("Rss", value)) => one.touched = kib(value),
                Some(("AnonHugePages", value)) => one.huge = kib(value),
                Some(("VmFlags", flags)) if flags.split(' ').any(|flag| flag == "hg") => {
                    all.touched += one.touched;
                    all.huge += one.huge;
                }
                _ => {}
            }
        }
        all
    }

    fn all_huge(self) -> bool {
        self.touched > 0 && self.huge == self.touched
    }

    /// In words, with the machine's setting where they are not all huge.
    fn describe(self, sys: &Sys) -> String {
        if self.all_huge() {
            return "2 MiB".to_owned();
        }
        let setting = sys.text("sys/kernel/mm/transparent_hugepage/enabled");
        let setting = setting.as_deref().map_or("unavailable", chosen);
        let share = self.huge as f64 * 100.0 / self.touched.max(1) as f64;
        match self.huge {
            0 => format!("4 KiB (transparent huge pages: {setting})"),
            _ => format!(
                "2 MiB for {share:.1} %, 4 KiB for the rest (transparent huge pages: {setting})"
            ),
        }
    }
}

/// Pieces of memory, each in one place, that the block of some slot consists of at most.
fn segments(shape: BlockShape, page: u64, largest: u64) -> u64 {
    let stride = shape.block.next_multiple_of(PAGE as u64);
    // Where a block begins in a page comes again after as many slots as a huge page has pages.
    let slots = u64::from(shape.slots).min((HUGE / PAGE) as u64);
    let of = |slot: u64| {
        let (mut at, end, mut pieces) = (slot * stride, slot * stride + shape.block, 0);
        while at < end {
            let next = end.min((at / page + 1) * page);
            pieces += (next - at).div_ceil(largest.max(1));
            at = next;
        }
        pieces
    };
    (0..slots).map(of).max().unwrap_or(0)
}

/// What the manifest says of the buffers of all sessions, once these are there and touched. Pieces of
/// a block are stated where `shape` is given (direct I/O), requests where the device's `limits` are
/// known too.
pub fn facts(
    shape: Option<BlockShape>,
    limits: Option<RequestLimits>,
    sys: &Sys,
) -> Vec<(String, String)> {
    let Some(smaps) = sys.text("proc/self/smaps") else {
        return vec![("buffers.page".to_owned(), "unknown: no /proc/self/smaps".to_owned())];
    };
    let got = PagesGot::parse(&smaps);
    let mut facts = vec![
        ("buffers.page".to_owned(), got.describe(sys)),
        ("buffers.bytes".to_owned(), got.touched.to_string()),
    ];
    let Some(shape) = shape else { return facts };
    // Pages of 4 KiB may happen to be neighbours.
    let (page, most) = if got.all_huge() { (HUGE, "") } else { (PAGE, "at most ") };
    let largest = limits.map_or(u64::MAX, |l| l.max_segment_size);
    let pieces = segments(shape, page as u64, largest);
    facts.push(("buffers.segments_per_block".to_owned(), format!("{most}{pieces}")));
    if let Some(limits) = limits {
        let requests =
            pieces.div_ceil(limits.max_segments).max(shape.block.div_ceil(limits.max_bytes));
        facts.push(("buffers.requests_per_block".to_owned(), format!("{most}{requests}")));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn pieces_of_a_block() {
        let of = |block, slots, page| segments(BlockShape { block, slots }, page, u64::MAX);
        for slots in [1, 2, 32, 4096] {
            for block in [512, 4096, 65536, MIB] {
                assert_eq!(of(block, slots, HUGE as u64), 1, "{block} B, {slots} slots");
            }
        }
        assert_eq!(of(MIB, 1, PAGE as u64), 256);
        assert_eq!(of(4 * MIB, 8, HUGE as u64), 2);
        assert_eq!(of(MIB + MIB / 2, 1, HUGE as u64), 1);
        assert_eq!(of(MIB + MIB / 2, 2, HUGE as u64), 2, "the second lies across two pages");
        assert_eq!(segments(BlockShape { block: MIB, slots: 1 }, HUGE as u64, 65536), 16);
    }

    #[test]
    fn pages_are_read_from_the_mappings_that_asked_for_them() {
        let entry = |rss, huge, flags| {
            format!(
                "7f00-7f01 rw-p 0 00:00 0\nRss: {rss} kB\nAnonHugePages: {huge} kB\nVmFlags: rd wr {flags}\n"
            )
        };
        let sys = Sys::at("/nowhere");
        for (text, words) in [
            (entry(9, 0, "mr") + &entry(2048, 2048, "hg mr"), "2 MiB"),
            (entry(2048, 0, "hg"), "4 KiB (transparent huge pages: unavailable)"),
            (entry(2048, 2048, "mr"), "4 KiB (transparent huge pages: unavailable)"),
            (
                entry(6144, 6144, "hg") + &entry(2048, 0, "hg"),
                "2 MiB for 75.0 %, 4 KiB for the rest (transparent huge pages: unavailable)",
            ),
        ] {
            assert_eq!(PagesGot::parse(&text).describe(&sys), words, "{text}");
        }
    }
}
