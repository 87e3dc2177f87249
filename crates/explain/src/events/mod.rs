//! The events of a trace, by kind, thread and time.

pub mod context;
pub mod disks;
pub mod layers;
pub mod pages;
pub mod rounds;
pub mod stacks;
pub mod who;

use std::collections::BTreeMap;

use taillight_rundir::layers::{LayerKind, LayerRow};

use crate::episodes::neighbours::{is_beside, is_open};
use crate::events::disks::Disks;

/// Events by kind; those of threads by worker.
#[derive(Debug, Default)]
pub struct Events {
    /// Threads off the CPU, by worker and time.
    pub off: BTreeMap<u64, Vec<LayerRow>>,
    /// Direct reclaims of the workers themselves, by worker and time.
    pub reclaim: BTreeMap<u64, Vec<LayerRow>>,
    /// Everything else, by kind and time.
    pub other: BTreeMap<LayerKind, Vec<LayerRow>>,
    /// Times in which nothing was seen, by worker; of all workers under `u64::MAX`. Those of a single I/O are
    /// in `other`.
    pub gaps: BTreeMap<u64, Vec<LayerRow>>,
    /// Sleeping without an event is possible.
    pub blind: bool,
    /// I/Os were traced, and there is none of them.
    pub gone: bool,
    /// Only threads were watched.
    pub threads_only: bool,
    /// The program has a store in it.
    pub store: bool,
    /// The benchmark's own process, where it is known.
    pub own_pid: Option<u64>,
    /// The run's disks, and which of them were flushed.
    pub disks: Disks,
    /// A rule of `overlays` that is left out, to see what it is for.
    pub left_out: Option<String>,
    /// Between these two samples a store held its writers back for so long, ns.
    pub stalls: Vec<(i64, i64, u64)>,
    /// I/Os of others that are not kept here, and whether the end of one of them was not seen.
    pub beside: u64,
    pub beside_open: bool,
    /// The latest end in each block of a list of `other`, so that most of a long list need not be looked at.
    pub block_ends: BTreeMap<LayerKind, Vec<i64>>,
}

/// Events of a block.
const BLOCK: usize = 256;

impl Events {
    /// Whether a rule is left out.
    pub fn without(&self, rule: &str) -> bool {
        self.left_out.as_deref() == Some(rule)
    }

    /// Takes an event in; [`Events::sort`] must follow before events are looked up.
    pub fn add(&mut self, row: LayerRow) {
        let worker = row.worker.unwrap_or(u64::MAX);
        self.block_ends.clear();
        if let (LayerKind::Flush, Some(disk)) = (row.kind, &row.dev) {
            self.disks.flush(disk);
        }
        match row.kind {
            LayerKind::OffCpu => self.off.entry(worker).or_default().push(row),
            LayerKind::Reclaim if row.token.is_none() => {
                self.reclaim.entry(worker).or_default().push(row)
            }
            LayerKind::Gap if row.token.is_none() => self.gaps.entry(worker).or_default().push(row),
            kind => self.other.entry(kind).or_default().push(row),
        }
    }

    /// Puts every list in order of time; gaps that touch become one.
    pub fn sort(&mut self) {
        let lists = self.off.values_mut().chain(self.reclaim.values_mut());
        for list in lists.chain(self.other.values_mut()) {
            list.sort_by_key(|r| r.start_ns);
        }
        for list in self.gaps.values_mut() {
            *list = merged(std::mem::take(list));
        }
        self.find_block_ends();
    }

    fn find_block_ends(&mut self) {
        let latest = |rows: &[LayerRow]| rows.iter().map(|r| r.end_ns).max().unwrap_or(i64::MIN);
        let ends = |(kind, list): (&LayerKind, &Vec<LayerRow>)| {
            (*kind, list.chunks(BLOCK).map(latest).collect())
        };
        self.block_ends = self.other.iter().map(ends).collect();
    }

    /// Takes note of an event that is not kept here.
    pub fn pass_over(&mut self, row: &LayerRow) {
        if row.kind == LayerKind::Neighbour {
            self.beside += u64::from(is_beside(row));
            self.beside_open |= is_open(row);
        }
    }

    /// Forgets what was over before a time.
    pub fn forget(&mut self, before_ns: i64) {
        let threads = self.off.values_mut().chain(self.reclaim.values_mut());
        for list in threads.chain(self.gaps.values_mut()).chain(self.other.values_mut()) {
            list.retain(|r| r.end_ns >= before_ns);
        }
        self.find_block_ends();
    }

    /// Events of a kind in `other` that overlap a window, both its ends included, by their begin.
    pub fn within(&self, kind: LayerKind, from: i64, to: i64) -> impl Iterator<Item = &LayerRow> {
        let list = self.other.get(&kind).map_or(&[][..], Vec::as_slice);
        let ends = self.block_ends.get(&kind).map_or(&[][..], Vec::as_slice);
        let first = list.partition_point(|r| r.start_ns < from - LONGEST_NS) / BLOCK;
        let blocks = list.chunks(BLOCK).enumerate().skip(first);
        let begun =
            blocks.take_while(move |(_, rows)| rows.first().is_some_and(|r| r.start_ns <= to));
        let reach = begun.filter(move |(at, _)| ends.get(*at).is_none_or(|end| *end >= from));
        let rows = reach.flat_map(|(_, rows)| rows).take_while(move |r| r.start_ns <= to);
        rows.filter(move |r| r.end_ns >= from)
    }
}

/// Gaps by time, without overlaps: those that overlap become one, in which the thread could have run (`state` 0) only
/// if it could in both.
pub fn merged(mut gaps: Vec<LayerRow>) -> Vec<LayerRow> {
    gaps.sort_by_key(|g| g.start_ns);
    gaps.dedup_by(|later, kept| {
        let overlap = later.start_ns < kept.end_ns;
        let touch = later.start_ns <= kept.end_ns && later.state == kept.state;
        if overlap || touch {
            kept.end_ns = kept.end_ns.max(later.end_ns);
            kept.state = kept.state.filter(|_| later.state.is_some());
        }
        overlap || touch
    });
    gaps
}

/// Times by their begins, those that overlap as one; those that only touch stay apart.
pub fn joined(mut times: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    times.sort_unstable();
    times.dedup_by(|later, kept| {
        let overlap = later.0 < kept.1;
        if overlap {
            kept.1 = kept.1.max(later.1);
        }
        overlap
    });
    times
}

/// Events longer than this may be missed in a window that begins late in them.
const LONGEST_NS: i64 = 10_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    /// Those found by looking at each.
    #[test]
    fn what_overlaps_a_window_is_found_in_order() {
        let row = |start_ns: i64, end_ns| LayerRow {
            kind: LayerKind::Flush,
            start_ns,
            end_ns,
            ..LayerRow::default()
        };
        let mut events = Events::default();
        // Most are short; some reach over many others.
        (0..5_000)
            .for_each(|i| events.add(row(i * 10, i * 10 + if i % 997 == 0 { 20_000 } else { 15 })));
        events.sort();
        for (from, to) in [(0, 5), (12_345, 12_400), (29_000, 31_000), (49_999, 60_000)] {
            let all = events.other[&LayerKind::Flush].iter();
            let all: Vec<_> = all.filter(|r| r.start_ns <= to && r.end_ns >= from).collect();
            let found: Vec<_> = events.within(LayerKind::Flush, from, to).collect();
            assert_eq!(found, all, "{from} to {to}");
            assert!(!all.is_empty());
        }
        events.forget(30_000);
        let first = events.within(LayerKind::Flush, 0, 100_000).next();
        assert!(first.is_some_and(|r| r.start_ns < 30_000 && r.end_ns >= 30_000));
    }
}
