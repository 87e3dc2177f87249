//! One `[[workload]]`, resolved: who (workers), what (mix, sizes, access), when (arrival).

use std::collections::BTreeMap;

use num_integer::gcd;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::absent;
use super::{
    Access, Arrival, Flow, IoPriority, Keys, Payload, ReplayPlan, Scan, Think, Values, WorkerRamp,
};
use crate::op::{OpKind, SyncKind};
use crate::units::{ByteSize, Span, as_text};

/// One workload. Its `workers` all do the same; workloads run side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WorkloadPlan {
    /// Name in outputs.
    pub name: String,
    /// The target that it drives, of `[targets]`; absent = `[target]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The section of a fio job file of which it is one job among several workloads; fio's JSON calls all of them so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub section: Option<String>,
    /// The first workload of the row in fio's JSON that holds this one as well; absent = it has a row of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reported_with: Option<String>,
    /// Number of its group in fio's JSON (`groupid`), from 0 over all runs of the job file; absent = that of its run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub report_group: Option<u32>,
    /// fio's JSON has its reads and writes together; absent = each by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unified: Option<UnifiedRow>,
    /// A recorded trace; mix, sizes and arrival are its own then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<ReplayPlan>,
    /// Threads.
    pub workers: u32,
    /// Operations in flight per worker.
    pub queue_depth: u32,
    /// Shares of operations; written `{ read = 70, write = 30 }`.
    #[serde(with = "super::forms::mix")]
    #[schemars(with = "std::collections::BTreeMap<OpKind, u32>")]
    pub mix: Vec<MixPart>,
    /// Each block is trimmed, and then written; the mix has both.
    #[serde(default, skip_serializing_if = "absent::is_no")]
    pub trim_first: bool,
    /// Sizes of blocks, of objects, or of each field of a value.
    pub block_size: BlockSize,
    /// Which offsets, in which order.
    pub access: Access,
    /// Closed loop or a schedule.
    pub arrival: Arrival,
    /// Durability of writes; its time is inside their latency.
    pub sync: Sync,
    /// What writes carry.
    pub payload: Payload,
    /// Its writes are neither marked nor checked where the run verifies others.
    #[serde(default, skip_serializing_if = "absent::is_no")]
    pub unverified: bool,
    /// Key space; only for targets addressed by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys: Option<Keys>,
    /// Fields of a value; only for targets addressed by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Values>,
    /// Lengths and direction of scans; only where the mix has scans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scan: Option<Scan>,
    /// Pauses of a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub think: Option<Think>,
    /// Its share of the operations of several workloads; absent = each goes as fast as it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
    /// Workers join one step after another; absent = all at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ramp: Option<WorkerRamp>,
    /// False: load only, kept out of every latency figure (it still counts as throughput of its
    /// own workload in the intervals).
    #[serde(default = "absent::yes", skip_serializing_if = "absent::is_yes")]
    pub measured: bool,
    /// Writers stamp each block or value; readers measure from the writer's stamp.
    #[serde(default, skip_serializing_if = "absent::is_no")]
    pub end_to_end: bool,
    /// Begins so long after the start of the measure phase.
    #[serde(default, skip_serializing_if = "absent::is_no_time")]
    pub start_delay: Span,
    /// Load of its own before it is measured: it begins so much earlier than `start_delay` says; absent = that of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Span>,
    /// Its workers end after this time from their start; absent = with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub duration: Option<Span>,
    /// Its workers end after this many operations of them together; absent = with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// Its workers end after this many bytes of them together; absent = with the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<ByteSize>,
    /// A worker ends after this many passes over its part of the data; absent = it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<u64>,
    /// A worker drops what the page cache holds of its data whenever it begins a pass over it in order, or has asked
    /// for so many bytes at random; absent = what was read stays cached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drop_cache: Option<ByteSize>,
    /// At its end a worker syncs each file of its part (fsync), an operation of its own; the run ends with it.
    #[serde(default, skip_serializing_if = "absent::is_no")]
    pub end_fsync: bool,
    /// The run ends, for all workloads, when the first of its workers does.
    #[serde(default, skip_serializing_if = "absent::is_no")]
    pub ends_run: bool,
    /// All workloads that have the same word here end when the first of their workers does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends_with: Option<String>,
    /// Records an operation covers, written or read in one call of the store: of gets and updates each drawn by itself
    /// where the access pattern draws, else neighbours by number.
    #[serde(default = "absent::one", skip_serializing_if = "absent::is_one")]
    pub batch: u32,
    /// CPUs the workers are pinned to, round robin; empty = not pinned.
    pub cpus: Vec<u32>,
    /// Nice value of the workers' threads; absent = as the process has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nice: Option<i32>,
    /// Priority of the workers' I/O; absent = as the process has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub io_priority: Option<IoPriority>,
}

/// How fio's JSON shows reads and writes together (`unified_rw_reporting`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnifiedRow {
    /// As `mixed` only.
    Mixed,
    /// As `mixed`, and each by itself.
    Both,
}

/// A name as tags of a histogram log have it: characters that a tag cannot hold become `_`.
pub fn tag_text(name: &str) -> String {
    name.replace(['/', ',', ' ', '\r', '\n'], "_")
}

impl WorkloadPlan {
    /// Operations outstanding at most: workers x queue depth.
    pub fn outstanding(&self) -> u64 {
        u64::from(self.workers) * u64::from(self.queue_depth)
    }
    /// One worker at depth 1 that does `op` in random blocks of `size` as fast as it goes: for programs that make
    /// plans without a job file, to start from.
    pub fn simple(name: &str, op: OpKind, size: ByteSize) -> WorkloadPlan {
        WorkloadPlan {
            name: name.into(),
            target: None,
            section: None,
            reported_with: None,
            report_group: None,
            unified: None,
            trace: None,
            workers: 1,
            queue_depth: 1,
            mix: vec![MixPart { op, weight: 1 }],
            trim_first: false,
            block_size: BlockSize::Fixed(size),
            access: Access::random(size),
            arrival: Arrival::Burst,
            sync: Sync::None,
            payload: Payload::default(),
            unverified: false,
            keys: None,
            value: None,
            scan: None,
            think: None,
            flow: None,
            ramp: None,
            measured: true,
            end_to_end: false,
            start_delay: Span(0),
            warmup: None,
            duration: None,
            operations: None,
            bytes: None,
            passes: None,
            drop_cache: None,
            end_fsync: false,
            ends_run: false,
            ends_with: None,
            batch: 1,
            cpus: Vec::new(),
            nice: None,
            io_priority: None,
        }
    }

    /// Whether it ends by itself, whatever the run does.
    pub fn ends(&self) -> bool {
        self.duration.is_some()
            || self.operations.is_some()
            || self.bytes.is_some()
            || self.passes.is_some()
    }

    /// When it runs, of a measure phase of `measured_ns`: begin and end, ns after its start. Ends by
    /// counts are not known before.
    pub fn window_ns(&self, measured_ns: u64) -> std::ops::Range<u64> {
        let begin = self.start_delay.0.min(measured_ns);
        let end = self.duration.map_or(measured_ns, |d| begin.saturating_add(d.0));
        begin..end.min(measured_ns)
    }

    /// Mean bytes that an operation of the mix moves: a block, or of each record of its batch the fields that it reads
    /// or writes. Of a scan one record counts.
    pub fn mean_bytes(&self) -> f64 {
        let several = self.value.as_ref().filter(|values| values.fields > 1);
        let of = |part: &MixPart| {
            let size = match &self.block_size {
                BlockSize::ByOp(sizes) => sizes.get(&part.op).map_or(0.0, BlockSize::mean),
                sizes => sizes.mean(),
            };
            several.map_or(size, |values| values.mean_bytes(part.op, size))
        };
        let weights: f64 = self.mix.iter().map(|part| f64::from(part.weight)).sum();
        let sum: f64 = self.mix.iter().map(|part| of(part) * f64::from(part.weight)).sum();
        sum / weights.max(1.0) * f64::from(self.batch)
    }
}

/// A share of one operation in a mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MixPart {
    /// The operation.
    pub op: OpKind,
    /// Its weight (a share is weight / sum of weights).
    pub weight: u32,
}

/// Block sizes: one, a weighted list, a range, or those of each operation.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum BlockSize {
    /// Every block has this size.
    Fixed(ByteSize),
    /// Weighted sizes.
    Split(Vec<BlockSizePart>),
    /// Multiples of `step` from `min` to `max`, uniform or log-uniform.
    Range(SizeRange),
    /// Each operation of the mix has sizes of its own.
    ByOp(BTreeMap<OpKind, BlockSize>),
}

/// One size of a split.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockSizePart {
    /// Size of the block.
    pub size: ByteSize,
    /// Its weight.
    pub weight: u32,
}

/// A range of sizes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SizeRange {
    /// Smallest, a multiple of `step`.
    pub min: ByteSize,
    /// Largest, a multiple of `step`.
    pub max: ByteSize,
    /// Step between sizes.
    pub step: ByteSize,
    /// Each size alike, or each magnitude alike.
    #[serde(default, skip_serializing_if = "is_uniform")]
    pub spread: SizeSpread,
}

/// How sizes spread over a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum SizeSpread {
    /// Every size is equally likely.
    #[default]
    Uniform,
    /// Log-uniform: as many between 1 and 2 KiB as between 512 and 1,024 KiB.
    Log,
}

fn is_uniform(s: &SizeSpread) -> bool {
    *s == SizeSpread::Uniform
}

impl BlockSize {
    /// The sizes of an operation.
    pub fn of(&self, op: OpKind) -> &BlockSize {
        match self {
            BlockSize::ByOp(sizes) => sizes.get(&op).unwrap_or(self),
            _ => self,
        }
    }
    /// The sizes of every operation, where they differ; else these.
    pub fn each(&self) -> Vec<&BlockSize> {
        match self {
            BlockSize::ByOp(sizes) => sizes.values().collect(),
            _ => vec![self],
        }
    }
    /// Smallest size, bytes.
    pub fn min(&self) -> u64 {
        match self {
            BlockSize::Fixed(b) => b.0,
            BlockSize::Split(parts) => parts.iter().map(|p| p.size.0).min().unwrap_or(0),
            BlockSize::Range(r) => r.min.0,
            BlockSize::ByOp(sizes) => sizes.values().map(BlockSize::min).min().unwrap_or(0),
        }
    }
    /// Largest size, bytes.
    pub fn max(&self) -> u64 {
        match self {
            BlockSize::Fixed(b) => b.0,
            BlockSize::Split(parts) => parts.iter().map(|p| p.size.0).max().unwrap_or(0),
            BlockSize::Range(r) => r.max.0,
            BlockSize::ByOp(sizes) => sizes.values().map(BlockSize::max).max().unwrap_or(0),
        }
    }
    /// The largest size that divides every size, bytes.
    pub fn common_divisor(&self) -> u64 {
        match self {
            BlockSize::Fixed(size) => size.0,
            BlockSize::Split(parts) => parts.iter().map(|p| p.size.0).fold(0, gcd),
            BlockSize::Range(range) if range.min == range.max => range.min.0,
            BlockSize::Range(range) => gcd(range.min.0, range.step.0),
            BlockSize::ByOp(sizes) => sizes.values().map(BlockSize::common_divisor).fold(0, gcd),
        }
    }
    /// Mean size, bytes: of a log-uniform range as if sizes were continuous, of sizes by operation as if each operation
    /// came as often.
    pub fn mean(&self) -> f64 {
        match self {
            BlockSize::Fixed(b) => b.0 as f64,
            BlockSize::Split(parts) => {
                let weights: f64 = parts.iter().map(|p| f64::from(p.weight)).sum();
                parts.iter().map(|p| p.size.0 as f64 * f64::from(p.weight)).sum::<f64>() / weights
            }
            BlockSize::Range(r) if r.spread == SizeSpread::Log && r.max > r.min => {
                // Density 1 / (x ln(max / min)) over [min, max].
                let (min, max) = (r.min.0 as f64, r.max.0 as f64);
                (max - min) / (max / min).ln()
            }
            BlockSize::Range(r) => (r.min.0 as f64 + r.max.0 as f64) / 2.0,
            BlockSize::ByOp(sizes) => {
                sizes.values().map(BlockSize::mean).sum::<f64>() / sizes.len().max(1) as f64
            }
        }
    }
}

/// Durability of writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// None.
    None,
    /// fdatasync after every N-th write.
    Fdatasync(u32),
    /// fsync after every N-th write.
    Fsync(u32),
    /// Each write O_DSYNC.
    Dsync,
    /// Each write O_SYNC.
    Sync,
}

impl Sync {
    /// The sync call after every N-th write, if this is one.
    pub fn every(self) -> Option<(SyncKind, u32)> {
        match self {
            Sync::Fdatasync(n) => Some((SyncKind::Fdatasync, n)),
            Sync::Fsync(n) => Some((SyncKind::Fsync, n)),
            _ => None,
        }
    }
}

impl std::fmt::Display for Sync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Sync::None => f.write_str("none"),
            Sync::Fdatasync(n) => write!(f, "fdatasync:{n}"),
            Sync::Fsync(n) => write!(f, "fsync:{n}"),
            Sync::Dsync => f.write_str("dsync"),
            Sync::Sync => f.write_str("sync"),
        }
    }
}

impl std::str::FromStr for Sync {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        let fail =
            || format!("`{s}` is not a sync; write none, fdatasync:N, fsync:N, dsync or sync");
        let (name, n) = match s.split_once(':') {
            Some((name, n)) => (name, n.parse::<u32>().ok().filter(|n| *n > 0).ok_or_else(fail)?),
            None => (s, 1),
        };
        match (name, s.contains(':')) {
            ("fdatasync", _) => Ok(Sync::Fdatasync(n)),
            ("fsync", _) => Ok(Sync::Fsync(n)),
            ("none", false) => Ok(Sync::None),
            ("dsync", false) => Ok(Sync::Dsync),
            ("sync", false) => Ok(Sync::Sync),
            _ => Err(fail()),
        }
    }
}

as_text!(
    Sync,
    "Sync",
    "none, fdatasync:N, fsync:N, dsync or sync",
    "^(none|dsync|sync|f(data)?sync(:[1-9][0-9]*)?)$",
    str::parse,
    None
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sync_text() {
        assert_eq!("fdatasync:4".parse(), Ok(Sync::Fdatasync(4)));
        assert_eq!("fsync".parse(), Ok(Sync::Fsync(1)));
        for bad in ["fsync:0", "none:3", "maybe", "fsync:x"] {
            assert!(bad.parse::<Sync>().is_err(), "{bad}");
        }
    }
}
