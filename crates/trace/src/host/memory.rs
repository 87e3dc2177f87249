//! `/proc/vmstat`: dirty pages, writeback, reclaim.

use super::{Out, Source, window};
use crate::Sys;

const NAME: &str = "memory";

/// One reading.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Vm {
    dirty: Option<u64>,
    writeback: Option<u64>,
    direct: Option<u64>,
    kswapd: Option<u64>,
    stalls: Option<u64>,
    faults: Option<u64>,
}

/// Reads the text of `/proc/vmstat`.
pub(crate) fn parse(text: &str) -> Option<Vm> {
    let mut vm = Vm::default();
    let add = |sum: &mut Option<u64>, n: u64| *sum = Some(sum.unwrap_or(0) + n);
    for (name, value) in text.lines().filter_map(|l| l.split_once(' ')) {
        let Ok(n) = value.trim().parse::<u64>() else {
            continue;
        };
        match name {
            "nr_dirty" => vm.dirty = Some(n),
            "nr_writeback" => vm.writeback = Some(n),
            "pgmajfault" => vm.faults = Some(n),
            "pgscan_direct_throttle" => {}
            // One per kind of memory; older kernels have them per zone for scans as well.
            _ if name.starts_with("pgscan_direct") => add(&mut vm.direct, n),
            _ if name.starts_with("pgscan_kswapd") => add(&mut vm.kswapd, n),
            _ if name.starts_with("allocstall") => add(&mut vm.stalls, n),
            _ => {}
        }
    }
    (vm != Vm::default()).then_some(vm)
}

fn values(before: &Vm, now: &Vm, out: &mut Out) {
    let page = rustix::param::page_size() as f64;
    for (name, pages) in [("dirty", now.dirty), ("writeback", now.writeback)] {
        if let Some(pages) = pages {
            out.put(NAME, name, None, pages as f64 * page);
        }
    }
    let counts = [
        ("pgscan_direct/s", now.direct, before.direct),
        ("pgscan_kswapd/s", now.kswapd, before.kswapd),
        ("allocstall/s", now.stalls, before.stalls),
        ("pgmajfault/s", now.faults, before.faults),
    ];
    for (name, now, before) in counts {
        if let Some(n) = now.zip(before).and_then(|(n, b)| n.checked_sub(b)) {
            out.rate(NAME, name, None, n as f64);
        }
    }
}

/// Memory of the whole machine.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    before: Option<Vm>,
}

impl Source for Memory {
    fn name(&self) -> &'static str {
        NAME
    }

    fn sample(&mut self, sys: &Sys, out: Option<&mut Out>) {
        let now = sys.text("/proc/vmstat").and_then(|t| parse(&t));
        window(&mut self.before, now, out, values);
    }

    fn missing(&self) -> Option<String> {
        let known = self.before.is_some();
        (!known).then(|| "/proc/vmstat cannot be read".to_owned())
    }
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
        let values = two(&mut Memory::default(), root, || {
            put(
                root,
                "proc/vmstat",
                "nr_dirty 7\nnr_writeback 3\nallocstall_dma 1\nallocstall_normal 8\n\
                 pgscan_kswapd 300\npgscan_direct 10\npgscan_direct_throttle 999\n",
            );
        });
        let page = rustix::param::page_size() as f64;
        let v = |name| of(&values, name);
        assert_eq!(
            (v("dirty"), v("writeback")),
            (Some(7.0 * page), Some(3.0 * page))
        );
        assert_eq!(v("allocstall/s"), Some(3.0));
        assert_eq!(
            (v("pgscan_kswapd/s"), v("pgscan_direct/s")),
            (Some(100.0), Some(0.0))
        );
        assert_eq!(v("pgmajfault/s"), None, "not in this text");
    }

    #[test]
    fn scans_of_every_zone_are_added() {
        let vm = parse("pgscan_direct_dma 3\npgscan_direct_normal 4\n").unwrap();
        assert_eq!(vm.direct, Some(7));
        assert_eq!(parse("x 1\n"), None);
    }
}
