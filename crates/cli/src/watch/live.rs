//! `watch --live`: the live view of runs, fed with what the trace programs counted each second. Percentiles only of
//! kinds of operation that were counted whole so far; of others number, bytes and the longest latency.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use taillight_core::latency::LatencyMap;
use taillight_core::{OpKind, Result, Stamp};
use taillight_engine::Observer as _;
use taillight_engine::collector::{ClosedInterval, ClosedOp, IntervalView};
use taillight_live::{LiveEnd, LiveFeed, LiveOptions, LiveServer, RunFacts};
use taillight_rundir::intervals::IntervalRow;
use taillight_rundir::summary::Cause;
use taillight_rundir::watched::WatchedOp;
use taillight_rundir::{Manifest, RunDir, names};

use super::counts::{Second, interval_of};
use super::plan::with_kinds;
use crate::output;

/// Kinds of operation that the view shows, each as a workload.
const KINDS: [OpKind; 7] = [
    OpKind::Read,
    OpKind::Write,
    OpKind::Fsync,
    OpKind::Stat,
    OpKind::List,
    OpKind::Trim,
    OpKind::Delete,
];

/// The view, while it is up.
pub struct WatchLive {
    server: LiveServer,
    feed: LiveFeed,
    index: u32,
    elapsed_ns: u64,
    seen: u64,
}

impl WatchLive {
    /// Begins to serve. Errors: `Usage` and `Unavailable` for an address that cannot be had.
    pub fn start(address: &str) -> Result<WatchLive> {
        let address = Some(address.to_owned()).filter(|a| !a.is_empty());
        let server = LiveServer::start(&LiveOptions { address, linger: Duration::ZERO })?;
        let at = server.address();
        output::note(&format!("live: http://{at}/  metrics: http://{at}/metrics"));
        if !at.ip().is_loopback() {
            output::note(
                "warning: everybody who reaches that address can read it; it has no password",
            );
        }
        let feed = server.feed();
        Ok(WatchLive { server, feed, index: 0, elapsed_ns: 0, seen: 0 })
    }

    /// Watching begins. Errors: `Internal` where kinds of operation are no plan.
    pub fn begin(mut self, manifest: &Manifest, dir: &RunDir) -> Result<WatchLive> {
        self.feed.begin(RunFacts {
            run_id: manifest.run_id.clone(),
            about: taillight_report::model::about::about(manifest),
            host: Some(rustix::system::uname().nodename().to_string_lossy().into_owned()),
            plan: with_kinds(&manifest.plan, &KINDS)?,
            series: None,
            dir: dir.path().to_owned(),
        });
        self.feed.phase("measure");
        Ok(self)
    }

    /// Shows what each kind did in a second, from and to, ns; `ops` says which kinds were counted whole.
    pub fn second(&mut self, (from, to): (i64, i64), second: &Second, ops: &[WatchedOp]) {
        let length_ns = (to - from).max(1) as u64;
        self.elapsed_ns += length_ns;
        let whole = |kind: OpKind| ops.iter().any(|op| op.op == kind && op.whole);
        let mut closed = Vec::new();
        for (op, tally) in second {
            let Some(workload) = KINDS.iter().position(|kind| kind == op) else { continue };
            self.seen += tally.count;
            let counted = interval_of((from, to), workload as u16, *op, tally);
            let Ok(histogram) = counted.histogram() else { continue };
            let row = counted.row(&histogram);
            let all = whole(*op);
            closed.push(ClosedOp {
                row: if all { row } else { counts_of(&row, tally.count) },
                sums_ns: LatencyMap::new(tally.sum_ns),
                errors: Vec::new(),
                latencies: all.then(|| LatencyMap::new(counted.latencies.clone())),
            });
        }
        let closed = ClosedInterval {
            measured: true,
            index: self.index,
            start: Stamp(from),
            length_ns,
            ops: closed,
            ..ClosedInterval::default()
        };
        self.index += 1;
        self.feed.interval(&IntervalView {
            phase: "measure",
            elapsed_ns: self.elapsed_ns,
            planned_ns: None,
            operations: (self.seen, None),
            closed: Arc::new(closed),
            provisional: false,
        });
    }

    /// The layers that held slow operations so far.
    pub fn slow(&self, layers: Vec<Cause>) {
        self.feed.slow(layers);
    }

    /// Shows that watching is over, with the report if there is one, and ends the service.
    pub fn end(self, reported: bool, dir: &Path) {
        self.feed.end(LiveEnd {
            status: if reported { "complete" } else { "without a report" }.to_owned(),
            report: reported.then(|| dir.join(names::REPORT)),
            verdict: None,
            word: None,
            slow: None,
        });
        self.server.finish(|| true);
    }
}

/// The row of a kind of which a part was seen: how many, bytes, and the longest latency.
fn counts_of(row: &IntervalRow, count: u64) -> IntervalRow {
    IntervalRow {
        start_ns: row.start_ns,
        length_ns: row.length_ns,
        phase: row.phase.clone(),
        workload: row.workload,
        op: row.op,
        ops: count,
        bytes: row.bytes,
        max_ns: row.max_ns,
        ..IntervalRow::default()
    }
}
