//! Distributions of a run that another tool measured, where its result has bins: the charts are drawn from them.

use taillight_core::{Error, Result};
use taillight_rundir::origin::{ImportedBin, ImportedFile};
use taillight_stats::Dist;
use taillight_stats::grid::{TimeGrid, TimeWindow};

use super::dists::{LatencyDists, LatencySample};
use super::group::{IoGroup, IoTally};
use super::slowest::SlowestIos;

/// A group for each workload and operation that has bins; the I/Os of a bin count as its upper end, which none of
/// them exceeded; of a bin that has none as its lower end. `span` is the measure phase.
/// Errors: `Corrupt` for counts beyond 64 bits and bins that are not ascending.
pub fn groups(figures: &ImportedFile, span: (i64, i64)) -> Result<Vec<IoGroup>> {
    let mut groups = Vec::new();
    for (index, workload) in figures.workloads.iter().enumerate() {
        for (op, it) in workload.ops.iter().filter(|(_, it)| !it.latency.bins.is_empty()) {
            let mut known = 0;
            let pairs = it.latency.bins.iter().map(|bin: &ImportedBin| {
                known = if bin.range().is_open() { known.max(bin.lo_ns) } else { bin.hi_ns };
                (known, bin.count)
            });
            let dist = Dist::from_sorted_pairs(pairs).map_err(|e| {
                Error::corrupt("the bins of the imported run are no distribution").source(e)
            })?;
            let grid = TimeGrid::new(TimeWindow::new(span.0, span.1));
            let mut latencies = LatencyDists::default();
            latencies.service = LatencySample::new(dist, grid);
            groups.push(IoGroup {
                workload: index as u16,
                op: *op,
                tally: IoTally { count: it.count, bytes: it.bytes, ..IoTally::default() },
                latencies,
                outliers: Vec::new(),
                slowest: SlowestIos::default(),
            });
        }
    }
    Ok(groups)
}
