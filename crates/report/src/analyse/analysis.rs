//! What reading a run directory gives ([`Analysis`]): the run's groups of I/Os, intervals, counts, machine samples and
//! troubles, and by which time and operations its rates and totals go. The stages after `analyse` begin with it.

use taillight_core::OpKind;
use taillight_rundir::bus::BusInfo;
use taillight_rundir::host::HostTrack;
use taillight_rundir::intervals::IntervalRow;
use taillight_rundir::nvme::NvmeFile;
use taillight_rundir::origin::ImportedFile;
use taillight_rundir::summary::FileEntry;
use taillight_rundir::verify::VerifyReport;
use taillight_rundir::{Manifest, RunStatus};

use super::group::IoGroup;
use super::latency::Origin;
use super::ranks::RanksAnalysis;
use super::requests::RequestGroup;
use super::store::StoreTrack;

/// Everything known about one run.
#[derive(Debug, Clone)]
pub struct Analysis {
    pub manifest: Manifest,
    /// How the run ended, as a reader should take it.
    pub status: RunStatus,
    /// Per workload and operation, in that order.
    pub groups: Vec<IoGroup>,
    /// Requests of several I/Os, for each `fanout` above 1 of the plan's ceilings; empty unless the groups were counted
    /// from `ios.parquet`, and empty for several ranks.
    pub requests: Vec<RequestGroup>,
    /// Where the distributions come from.
    pub origin: Origin,
    /// What another tool said, of a run that it measured.
    pub imported: Option<ImportedFile>,
    /// Some workload and operation (of a watched run: each) is known by its outliers only: no rate, no percentiles.
    pub outliers_only: bool,
    /// Start of measuring, CLOCK_MONOTONIC ns; of ranks that of the first one, on the clock of rank 0.
    pub start_ns: i64,
    /// From the start of measuring to its end or the last success, whichever is later, ns.
    pub duration_ns: u64,
    /// Intervals of the measure and drain phases.
    pub intervals: Vec<IntervalRow>,
    /// What else was seen of the machine.
    pub machine: MachineData,
    /// How many I/Os `ios.parquet`, the manifest and the intervals count.
    pub counts: IoCounts,
    /// What went wrong while reading, in words; each is a reason of the verdict.
    pub troubles: Vec<ReadProblem>,
    /// What checking the data found, when the plan verifies.
    pub verify: Option<VerifyReport>,
    /// The target's own statistics while measuring.
    pub store: Vec<StoreTrack>,
    /// Files of the directory.
    pub files: Vec<FileEntry>,
    /// The job file as given.
    pub job: Option<String>,
    /// The ranks that the run was put together from; none for a run of one process.
    pub ranks: Option<RanksAnalysis>,
}

impl Analysis {
    /// What went wrong while reading, by its code.
    pub fn trouble(&self, code: &str) -> Option<&ReadProblem> {
        self.troubles.iter().find(|t| t.code == code)
    }

    /// The time that rates of these groups are over, ns: by the plan, from the first begin to the last end of their
    /// workloads; the whole run where that is 98 % of it or more, as the last operations end after the plan's end.
    pub fn window_ns<'a>(&self, groups: impl Iterator<Item = &'a IoGroup>) -> u64 {
        let whole = self.duration_ns;
        let workloads = &self.manifest.plan.workloads;
        let own = groups.filter_map(|g| workloads.get(usize::from(g.workload)));
        let windows = own.map(|w| w.window_ns(whole));
        let (begin, end) =
            windows.fold((whole, 0), |(begin, end), w| (begin.min(w.start), end.max(w.end)));
        let window = end.saturating_sub(begin);
        if window > 0 && (window as f64) < 0.98 * whole as f64 { window } else { whole }
    }

    /// Whether totals add a kind: all but parts of read-modify-writes (in runs of versions without kinds for parts, all
    /// but the whole), and of a watched run only kinds of which every I/O was timed, if there are any.
    pub fn is_whole(&self, op: OpKind) -> bool {
        // Of a program that is watched, a kind of which only the slow ones are known is no part of a sum.
        let counted = |g: &IoGroup| g.latencies.service.count() > 0;
        let some = || self.groups.iter().any(counted);
        let own = || self.groups.iter().any(|g| g.op == op && counted(g));
        if self.manifest.origin.is_watched() && some() && !own() {
            return false;
        }
        let apart = || self.groups.iter().any(|g| g.op.is_part());
        !op.is_part() && (op != OpKind::Rmw || apart())
    }

    /// Operations as the plan counts them, in the groups that `of` takes.
    pub fn operations(&self, of: impl Fn(&IoGroup) -> bool) -> u64 {
        let count = |part: &dyn Fn(OpKind) -> bool| -> u64 {
            let groups = self.groups.iter().filter(|g| of(g) && part(g.op));
            groups.map(|g| g.tally.count).sum()
        };
        // Where parts stand for the whole, each whole one is there twice.
        let twice = count(&|op| op == OpKind::Rmw && !self.is_whole(op));
        count(&|op| self.is_whole(op)).saturating_sub(twice)
    }
}

/// What was seen of the machine beside the I/Os.
#[derive(Debug, Clone, Default)]
pub struct MachineData {
    /// Host samples of the measure phase.
    pub host: Vec<HostTrack>,
    /// What NVMe drives said before and after.
    pub nvme: Option<NvmeFile>,
    /// What a bus analyser saw.
    pub bus: Option<BusInfo>,
}

/// Counts of a run's I/Os from different files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Rows in `ios.parquet`, every phase.
    pub rows: u64,
    /// Rows of measure and drain, without parts of read-modify-writes.
    pub analysed: u64,
    /// I/Os the recorder counted in measure and drain; none when the manifest does not say or the run was killed.
    pub recorded: Option<u64>,
    /// I/Os in the intervals of measured workloads, without parts of read-modify-writes; none without intervals.
    pub in_intervals: Option<u64>,
}

/// What went wrong while a run was read: the code of a reason, and a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadProblem {
    pub code: &'static str,
    pub text: String,
}
