//! `/proc/vmstat`: dirty pages, writeback, reclaim, major page faults.

use taillight_machine::memory::VmStat;

use super::{CounterSource, SampleOutput};

const NAME: &str = "memory";

/// Puts what is dirty and what is being written back now, bytes, and rates of pages that reclaim scanned (by tasks that
/// needed memory, by the kernel's own threads), of allocations that waited for it, and of major faults. A counter that
/// the kernel lacks, or that went back, is left out.
fn values(before: &VmStat, now: &VmStat, out: &mut SampleOutput) {
    let page = rustix::param::page_size() as f64;
    for (name, pages) in [("dirty", now.dirty), ("writeback", now.writeback)] {
        if let Some(pages) = pages {
            out.put(NAME, name, None, pages as f64 * page);
        }
    }
    let counts = [
        ("pgscan_direct/s", now.scanned_direct, before.scanned_direct),
        ("pgscan_kswapd/s", now.scanned_kswapd, before.scanned_kswapd),
        ("allocstall/s", now.stalls, before.stalls),
        ("pgmajfault/s", now.major_faults, before.major_faults),
    ];
    for (name, now, before) in counts {
        if let Some(n) = now.zip(before).and_then(|(n, b)| n.checked_sub(b)) {
            out.rate(NAME, name, None, n as f64);
        }
    }
}

/// The source `memory`: memory of the whole machine.
pub(crate) fn source() -> CounterSource<VmStat> {
    CounterSource::new(NAME, VmStat::read, values, "/proc/vmstat cannot be read")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{of, put, two};
    use super::*;

    #[test]
    fn states_and_rates() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        put(
            root,
            "proc/vmstat",
            "nr_dirty 5\nnr_writeback 0\nallocstall_dma 1\nallocstall_normal 2\n\
             pgscan_kswapd 100\npgscan_direct 10\npgscan_direct_throttle 99\n",
        );
        let values = two(&mut source(), root, || {
            put(
                root,
                "proc/vmstat",
                "nr_dirty 7\nnr_writeback 3\nallocstall_dma 1\nallocstall_normal 8\n\
                 pgscan_kswapd 300\npgscan_direct 10\npgscan_direct_throttle 999\n",
            );
        });
        let page = rustix::param::page_size() as f64;
        let v = |name| of(&values, name);
        assert_eq!((v("dirty"), v("writeback")), (Some(7.0 * page), Some(3.0 * page)));
        assert_eq!(v("allocstall/s"), Some(3.0));
        assert_eq!((v("pgscan_kswapd/s"), v("pgscan_direct/s")), (Some(100.0), Some(0.0)));
        assert_eq!(v("pgmajfault/s"), None, "not in this text");
    }
}
