//! Buffered reads of io_uring that wait for a page which another I/O of the run is reading.
//!
//! The kernel parks such a read without block I/O, without a worker thread and without an event. The wait
//! is recognised by another slow read of the same page that had block I/O, and was done while this one was waiting;
//! where no slow read was of the page, nothing is concluded.

use std::collections::BTreeMap;

use taillight_core::OpKind;
use taillight_rundir::RunDir;
use taillight_rundir::layers::flags;

use crate::events::io::TracedIo;

/// Pages of the page cache, bytes. Larger folios hold whole pages of this size.
const PAGE: u64 = 4096;

/// When reads of each page were done by the device, by time.
#[derive(Debug, Default)]
pub struct Pages(BTreeMap<u64, Vec<i64>>);

impl Pages {
    /// From slow I/Os. Nothing where files cannot be told apart, or the page cache plays no part.
    pub fn of<'a>(dir: &RunDir, ios: impl Iterator<Item = &'a TracedIo>) -> Pages {
        let options = &dir.manifest().plan.target.options;
        let direct = options.get("direct").and_then(|v| v.as_bool()) != Some(false);
        if direct || !dir.manifest().driver_facts().single_file {
            return Pages::default();
        }
        Pages::read(ios)
    }

    fn read<'a>(ios: impl Iterator<Item = &'a TracedIo>) -> Pages {
        let mut pages = Pages::default();
        for io in ios.filter(|io| io.op == OpKind::Read) {
            let times = io.bio_ns.zip(io.done_ns).filter(|(from, to)| from < to);
            // Of several rounds nobody knows which page came in which.
            let whole = io.parts.is_none_or(|parts| parts.queued == parts.done) && io.rounds == 0;
            if let Some((_, to)) = times.filter(|_| whole) {
                pages_of(io).for_each(|page| pages.0.entry(page).or_default().push(to));
            }
        }
        pages.0.values_mut().for_each(|done| done.sort_unstable());
        pages
    }

    /// When the page was there that this I/O waited for, if another I/O read it; of several pages, the last.
    pub fn read_by_another(&self, io: &TracedIo) -> Option<i64> {
        let queued = io.has(flags::QUEUED);
        if !queued || io.op != OpKind::Read || io.has_block_io() {
            return None;
        }
        // Done while this one was in flight, whenever it began.
        let last = |page: u64| {
            let done = self.0.get(&page)?;
            let last = done[..done.partition_point(|at| *at <= io.end_ns)].last()?;
            Some(*last).filter(|at| *at >= io.start_ns)
        };
        pages_of(io).filter_map(last).max()
    }
}

/// Numbers of the pages of an I/O.
fn pages_of(io: &TracedIo) -> impl Iterator<Item = u64> + use<> {
    io.offset / PAGE..io.offset.saturating_add(io.size).div_ceil(PAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::io::Parts;

    fn read(offset: u64, from: i64, to: i64) -> TracedIo {
        TracedIo {
            op: OpKind::Read,
            offset,
            size: 4096,
            start_ns: from,
            end_ns: to,
            flags: flags::QUEUED,
            ..TracedIo::default()
        }
    }

    #[test]
    fn only_a_read_of_the_same_page_at_the_same_time_explains_a_wait() {
        let reader = TracedIo {
            parts: Some(Parts { queued: 1, done: 1 }),
            bio_ns: Some(110),
            done_ns: Some(500),
            ..read(8192, 100, 520)
        };
        let pages = Pages::read([&reader].into_iter());
        assert_eq!(pages.read_by_another(&read(8192, 200, 530)), Some(500));
        let later = TracedIo { done_ns: Some(700), ..reader.clone() };
        let often = Pages::read([&later, &reader].into_iter());
        let ends = [530, 800].map(|to| often.read_by_another(&read(8192, 200, to)));
        assert_eq!(ends, [Some(500), Some(700)], "the last one that it may have waited for");
        assert_eq!(pages.read_by_another(&read(4096, 200, 530)), None, "page");
        assert_eq!(pages.read_by_another(&read(8192, 510, 900)), None, "time");
        assert_eq!(pages.read_by_another(&reader), None, "its own block I/O");
        let lost = TracedIo { parts: Some(Parts { queued: 1, done: 0 }), ..reader.clone() };
        let rounds = TracedIo { rounds: 1, ..reader.clone() };
        for (row, why) in [(lost, "unseen"), (rounds, "in several rounds")] {
            let none = Pages::read([&row].into_iter());
            assert_eq!(none.read_by_another(&read(8192, 200, 530)), None, "{why}");
        }
    }
}
