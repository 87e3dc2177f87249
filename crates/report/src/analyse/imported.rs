//! Distributions of a run that another tool measured, where its result has bins: the charts are drawn from them.

use taillight_core::{Error, Result};
use taillight_rundir::origin::{ImportedBin, ImportedFile};
use taillight_stats::Dist;
use taillight_stats::grid::{TimeGrid, TimeWindow};

use super::dists::{LatencyDists, LatencySample};
use super::group::{IoGroup, IoTally};
use super::slowest::SlowestIos;

/// A group for each workload and operation that has bins; the I/Os of a bin count as its upper end, which none of
/// them exceeded, or that of a bin before, where bins overlap; of a bin that has none as its lower end. `span` is the
/// measure phase. Errors: `Corrupt` for counts beyond 64 bits.
pub fn groups(figures: &ImportedFile, span: (i64, i64)) -> Result<Vec<IoGroup>> {
    let mut groups = Vec::new();
    for (index, workload) in figures.workloads.iter().enumerate() {
        for (op, it) in workload.ops.iter().filter(|(_, it)| !it.latency.bins.is_empty()) {
            let mut known = 0u64;
            let pairs = it.latency.bins.iter().map(|bin: &ImportedBin| {
                known = known.max(if bin.range().is_open() { bin.lo_ns } else { bin.hi_ns });
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use taillight_core::OpKind;
    use taillight_rundir::SCHEMA_VERSION;
    use taillight_rundir::latency::LatencyBin;
    use taillight_rundir::origin::{ImportedLatency, ImportedOp, ImportedWorkload};

    use super::*;

    /// Once a log of histograms of two precisions was imported, and no report could be made of it.
    #[test]
    fn bins_that_overlap_are_a_distribution_and_one_without_end_is_its_least() {
        let bins = [(96, 103), (100, 100), (200, LatencyBin::OPEN_NS)]
            .map(|(lo_ns, hi_ns)| ImportedBin { lo_ns, hi_ns, count: 1 });
        let latency = ImportedLatency::from_bins(bins.to_vec());
        let ops = BTreeMap::from([(OpKind::Read, ImportedOp { latency, ..ImportedOp::default() })]);
        let workloads = vec![ImportedWorkload { name: "a".to_owned(), group: 0, ops }];
        let figures = ImportedFile { schema: SCHEMA_VERSION, workloads };
        let groups = groups(&figures, (0, 1)).unwrap();
        let dist = &groups[0].latencies.service;
        assert_eq!((dist.min(), dist.max()), (Some(103), Some(200)));
    }
}
