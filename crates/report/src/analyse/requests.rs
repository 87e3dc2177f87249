//! Requests made of several I/Os: the slowest of them is the response time of the request.
//!
//! Neighbouring I/Os of each worker, in the order they were submitted, are put together as the ceilings of
//! the plan ask (`fanout`): a client sends a request's I/Os together. By completion a slow I/O would be put
//! among those that came after it, and slow ones that were sent apart would share a request. Rows come in
//! submit order of each worker.

use std::collections::BTreeMap;

use taillight_rundir::ios::Row;
use taillight_stats::{ExactCounter, TimeGrid, TimeWindow};

use super::dists::LatencySample;

/// The requests of one workload, each of so many I/Os.
#[derive(Debug, Clone)]
pub struct RequestGroup {
    pub fanout: u32,
    /// Index of the workload in the plan.
    pub workload: u16,
    /// Response times of the requests.
    pub sample: LatencySample,
}

/// Makes requests of `fanout` I/Os each while rows stream by.
pub struct RequestCounter {
    fanout: u32,
    window: TimeWindow,
    /// By workload.
    counts: BTreeMap<u16, (ExactCounter, TimeGrid)>,
    /// By workload and worker.
    workers: BTreeMap<(u16, u16), RequestMaker>,
}

/// The request of one worker and workload that is not full yet.
#[derive(Default)]
struct RequestMaker {
    /// I/Os of it.
    filled: u32,
    /// The slowest of them, ns.
    slowest: u64,
    /// The last to complete.
    last: Option<i64>,
}

impl RequestMaker {
    /// Adds the next I/O to be submitted; completion and response time of the request that it fills.
    fn add(&mut self, complete: i64, latency_ns: u64, fanout: u32) -> Option<(i64, u64)> {
        self.filled += 1;
        self.slowest = self.slowest.max(latency_ns);
        let last = self.last.map_or(complete, |last| last.max(complete));
        self.last = Some(last);
        if self.filled < fanout {
            return None;
        }
        let slowest = self.slowest;
        *self = RequestMaker::default();
        Some((last, slowest))
    }
}

impl RequestCounter {
    pub fn new(fanout: u32, window: TimeWindow) -> Self {
        RequestCounter { fanout, window, counts: BTreeMap::new(), workers: BTreeMap::new() }
    }

    /// Adds a success.
    pub fn push(&mut self, row: &Row) {
        let maker = self.workers.entry((row.workload, row.worker)).or_default();
        let window = self.window;
        let new = || (ExactCounter::new(), TimeGrid::new(window));
        let (exact, grid) = self.counts.entry(row.workload).or_insert_with(new);
        if let Some((at, ns)) = maker.add(row.complete.0, row.response_ns(), self.fanout) {
            exact.push(ns);
            grid.push(at, ns);
        }
    }

    /// What the counters take, bytes.
    pub fn memory(&self) -> usize {
        self.counts.values().map(|(exact, grid)| exact.memory_bytes() + grid.memory_bytes()).sum()
    }

    /// The requests of each workload. I/Os that fill none are left out: fewer than `fanout` of each
    /// worker.
    pub fn finish(self) -> Vec<RequestGroup> {
        let fanout = self.fanout;
        let group = |(workload, (exact, grid)): (u16, (ExactCounter, TimeGrid))| RequestGroup {
            fanout,
            workload,
            sample: LatencySample::new(exact.finish(), grid),
        };
        self.counts.into_iter().map(group).collect()
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::{Record, Stamp};

    use super::*;

    /// An I/O of `worker` from `submit` to `complete`.
    fn row(worker: u16, submit: i64, complete: i64) -> Row {
        let (submit, complete) = (Stamp(submit), Stamp(complete));
        Row { workload: 0, worker, record: Record { submit, complete, ..Record::default() } }
    }

    fn requests(fanout: u32, rows: &[Row]) -> Vec<u64> {
        let mut counter = RequestCounter::new(fanout, TimeWindow::new(0, 1_000));
        rows.iter().for_each(|row| counter.push(row));
        let groups = counter.finish();
        let dists =
            groups.iter().flat_map(|g| (1..=g.sample.count()).map(|k| g.sample.value_at_rank(k)));
        dists.map(|value| value.expect("a rank")).collect()
    }

    #[test]
    fn the_slowest_io_is_the_request() {
        let rows: Vec<Row> = [2, 8, 3, 4, 5].iter().map(|n| row(0, 0, *n)).collect();
        assert_eq!(requests(1, &rows), [2, 3, 4, 5, 8]);
        // As they were submitted: 2 and 8, 3 and 4; 5 is left over.
        assert_eq!(requests(2, &rows), [4, 8]);
        assert_eq!(requests(5, &rows), [8]);
        assert_eq!(requests(6, &rows), [] as [u64; 0]);
    }

    #[test]
    fn ios_are_grouped_as_submitted_and_workers_stay_apart() {
        // Worker 0: 50, 10, 35 and 65 ns; worker 1: 20 and 30. By completion it were 30, 35 and 65.
        let rows = [
            row(0, 0, 50),
            row(0, 0, 10),
            row(0, 5, 40),
            row(0, 25, 90),
            row(1, 0, 20),
            row(1, 1, 31),
        ];
        assert_eq!(requests(2, &rows), [30, 50, 65]);
    }

    #[test]
    fn slow_ios_sent_apart_fail_a_request_each() {
        // Every second pair as submitted has one of 500 ns: by completion both would be in the last pair.
        let rows: Vec<Row> =
            (0..8).map(|i| row(0, i, i + if i % 4 == 0 { 500 } else { 2 })).collect();
        assert_eq!(requests(2, &rows), [2, 2, 500, 500]);
        // A request belongs to the time it completed.
        let mut maker = RequestMaker::default();
        assert_eq!(maker.add(700, 500, 2), None);
        assert_eq!(maker.add(300, 2, 2), Some((700, 500)));
        assert_eq!(maker.add(-5, 2, 1), Some((-5, 2)));
    }

    /// Five I/Os of 2 ms and five of 8 ms, a ceiling of 6 ms.
    #[test]
    fn ten_ios_of_five_milliseconds_on_average_miss_a_ceiling_of_six() {
        const MS: i64 = 1_000_000;
        let rows: Vec<Row> = (0..10)
            .map(|i| row(0, i * 10 * MS, i * 10 * MS + if i % 2 == 0 { 2 } else { 8 } * MS))
            .collect();
        let ios = requests(1, &rows);
        assert_eq!(ios.iter().sum::<u64>() / 10, 5_000_000, "the mean keeps under it");
        assert_eq!(ios.iter().filter(|ns| **ns > 6_000_000).count(), 5);
        assert_eq!(requests(10, &rows), [8_000_000], "and the request of ten does not");
    }
}
