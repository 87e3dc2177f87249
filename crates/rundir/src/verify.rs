//! `verify.json`: what checking the data found, by kind and by place.
//!
//! Written only when the plan verifies. Its counts tell the kinds of damage apart; each finding
//! says where. The judgement in words is the report's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::OpKind;

/// Most findings listed one by one; all are counted.
pub const FINDINGS_MAX: usize = 1000;

/// The result of verification.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyReport {
    /// Version of the run directory layout ([`crate::SCHEMA_VERSION`]).
    pub schema: u32,
    /// Run whose blocks were expected; with `run_hash` it finds its blocks on any device. Of several targets that are
    /// verified this is the hash of the first: each has its own.
    pub run_id: String,
    /// The run's number in block headers, hexadecimal.
    pub run_hash: String,
    /// Bytes in a verified block; 0 where each value is one.
    pub block: u64,
    /// Memory the record of generations took, bytes.
    pub ledger: u64,
    /// Blocks compared with what must be there.
    pub checked: u64,
    /// Blocks that could not be judged, by reason.
    pub unchecked: Unchecked,
    /// Blocks found wrong.
    pub wrong: u64,
    /// Wrong blocks by kind.
    pub kinds: VerifyCounts,
    /// The pass after the run; null when there was none.
    pub pass: Option<PassInfo>,
    /// The first findings, by time.
    pub findings: Vec<Finding>,
}

/// Blocks that could not be judged, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Unchecked {
    /// Not written by this run: nothing is expected there.
    pub unwritten: u64,
    /// Writes to the same block overlapped the read, or each other, and the target does not promise
    /// to keep them whole.
    pub overlapped: u64,
    /// A write to it failed, or it was trimmed.
    pub uncertain: u64,
    /// Longer than the buffer of the workload that read it; its header is right.
    #[serde(default)]
    pub cut: u64,
    /// The pass could not read it.
    pub unreadable: u64,
}

/// What is wrong with a block or record.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Wrong {
    /// A block of its address with some bytes changed.
    Flipped,
    /// Parts of several writes to its address, or of a write and the zeros before it.
    Torn,
    /// The last acknowledged write is not there: the block is what the write before it left.
    Lost,
    /// An older state that had been replaced by acknowledged writes has come back.
    Stale,
    /// A block that belongs to another address.
    Misplaced,
    /// A block of another run.
    OtherRun,
    /// Another length than it was written with.
    OtherSize,
    /// Nothing but zeros: trimmed, overwritten or never written.
    Zeroed,
    /// Nothing that the run wrote there, nor close to it.
    Unknown,
    /// No record: its write was lost, or somebody else deleted it.
    Missing,
}

impl Wrong {
    /// Every kind, in the order of [`VerifyCounts`].
    pub const ALL: [Wrong; 10] = [
        Wrong::Flipped,
        Wrong::Torn,
        Wrong::Lost,
        Wrong::Stale,
        Wrong::Misplaced,
        Wrong::OtherRun,
        Wrong::OtherSize,
        Wrong::Zeroed,
        Wrong::Unknown,
        Wrong::Missing,
    ];

    /// For people.
    pub fn text(self) -> &'static str {
        match self {
            Wrong::Flipped => "changed bytes",
            Wrong::Torn => "torn write",
            Wrong::Lost => "lost write",
            Wrong::Stale => "stale block",
            Wrong::Misplaced => "misplaced block",
            Wrong::OtherRun => "block of another run",
            Wrong::OtherSize => "block of another size",
            Wrong::Zeroed => "zeroed block",
            Wrong::Unknown => "unknown content",
            Wrong::Missing => "missing record",
        }
    }
}

/// Wrong blocks by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VerifyCounts {
    /// Blocks of their address with some bytes changed.
    pub flipped: u64,
    /// Parts of several writes in one block.
    pub torn: u64,
    /// The last acknowledged write is not there. In runs of earlier versions also zeros, unknown
    /// content and missing records.
    pub lost: u64,
    /// An older state has come back.
    pub stale: u64,
    /// Blocks of other addresses.
    pub misplaced: u64,
    /// Blocks of other runs.
    pub other_run: u64,
    /// Blocks of other lengths.
    pub other_size: u64,
    /// Blocks of zeros.
    #[serde(default)]
    pub zeroed: u64,
    /// Blocks with content that the run never wrote.
    #[serde(default)]
    pub unknown: u64,
    /// Records that are not there.
    #[serde(default)]
    pub missing: u64,
}

impl VerifyCounts {
    /// Adds those of another rank.
    pub fn add(&mut self, other: &VerifyCounts) {
        let mut other = *other;
        for kind in Wrong::ALL {
            *self.get_mut(kind) += *other.get_mut(kind);
        }
    }

    /// The count of a kind.
    pub fn get_mut(&mut self, kind: Wrong) -> &mut u64 {
        match kind {
            Wrong::Flipped => &mut self.flipped,
            Wrong::Torn => &mut self.torn,
            Wrong::Lost => &mut self.lost,
            Wrong::Stale => &mut self.stale,
            Wrong::Misplaced => &mut self.misplaced,
            Wrong::OtherRun => &mut self.other_run,
            Wrong::OtherSize => &mut self.other_size,
            Wrong::Zeroed => &mut self.zeroed,
            Wrong::Unknown => &mut self.unknown,
            Wrong::Missing => &mut self.missing,
        }
    }
}

/// What the pass after the run read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PassInfo {
    /// Blocks read.
    pub blocks: u64,
    /// Time it took, ns.
    pub duration_ns: u64,
    /// The target was asked to forget cached data before, and did: what was read came from below.
    pub caches_dropped: bool,
    /// False when the pass was ended early, or left out because the target failed.
    pub complete: bool,
}

/// One wrong block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// CLOCK_MONOTONIC when the read was complete, ns.
    pub time_ns: i64,
    /// Worker that read it; null in the pass.
    pub worker: Option<u16>,
    /// The operation that read it.
    pub op: OpKind,
    /// The target, by its name in `[targets]`; null = `[target]`. In the summary of a run over ranks whose it is, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// File or endpoint.
    pub target: u16,
    /// Byte offset of the block in that file, or key number.
    pub address: u64,
    /// Bytes of the block.
    pub length: u64,
    /// What is wrong.
    pub kind: Wrong,
    /// Generation that must be there at least; null when unknown. The n-th write to an address has
    /// generation n.
    pub expected: Option<u64>,
    /// Generation found, where the block still says so.
    pub found: Option<u64>,
    /// Address in the data set that the block found belongs to; for `misplaced`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_address: Option<u64>,
    /// Hash of the run the block found belongs to, hexadecimal; for `other_run`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found_run: Option<String>,
    /// First wrong byte in the block, where it could be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte: Option<u32>,
    /// Wrong bytes, where they could be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u32>,
}

impl VerifyReport {
    /// Something is wrong, or could not be read.
    pub fn failed(&self) -> bool {
        self.wrong > 0 || self.unchecked.unreadable > 0
    }

    /// Takes the findings and counts of another part of the same run.
    pub fn add(&mut self, part: &VerifyReport) {
        self.checked += part.checked;
        self.wrong += part.wrong;
        let (to, from) = (&mut self.unchecked, &part.unchecked);
        to.unwritten += from.unwritten;
        to.overlapped += from.overlapped;
        to.uncertain += from.uncertain;
        to.cut += from.cut;
        to.unreadable += from.unreadable;
        let mut counts = part.kinds;
        for kind in Wrong::ALL {
            *self.kinds.get_mut(kind) += *counts.get_mut(kind);
        }
        self.findings.extend_from_slice(&part.findings);
        self.findings.sort_by_key(|f| f.time_ns);
        self.findings.truncate(FINDINGS_MAX);
    }
}
