//! What a driver can do, as it says itself: checks of plans, generated docs and conformance tests go by it.
//!
//! A driver names what it can do and takes the rest from `Default`. Code that depends on what a driver is
//! asks these facts, not the driver's name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::op::OpKind;
use crate::plan::PreRunStep;

/// Most records that one operation covers (`batch` of a workload).
pub const MAX_BATCH: u32 = 1000;

/// Capabilities of a driver with given options. Checked against the plan before any I/O.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// Operations it performs.
    pub ops: Vec<OpKind>,
    /// Operations that it performs with other options only: which, and what they take.
    pub more_ops: Vec<(OpKind, &'static str)>,
    /// Deepest queue per worker; 0 and 1 mean no queue.
    pub max_depth: u32,
    /// Operations that may cover several records in one call of the store (multi-get, batch of
    /// writes), up to [`MAX_BATCH`].
    pub batches: Vec<OpKind>,
    /// The records of a run are loaded before it by inserts of several, since a write by itself costs a commit. Its
    /// sessions then take inserts of up to [`MAX_BATCH`] neighbours, whatever the plan's batch is.
    pub batched_load: bool,
    /// Can bypass the page cache.
    pub direct: bool,
    /// A worker can drop what the page cache holds of its data while it runs.
    pub drops_cache: bool,
    /// Can sync after a write and time it apart.
    pub sync: bool,
    /// What a sync takes where it is possible with other options only.
    pub sync_with: Option<&'static str>,
    /// Reads return what was written (false for `null` and `sim`).
    pub stores_data: bool,
    /// Runs on virtual time: the same seed gives the same completions.
    pub virtual_time: bool,
    /// Writes reach something a user could lose: the guard must pass.
    pub guarded: bool,
    /// Completions carry an issued or first-byte stamp of their own.
    pub own_stamps: bool,
    /// Reads of a session come from a snapshot that it takes when it begins.
    pub snapshot: bool,
    /// Operations for which the driver itself allocates memory, because the store is made of it
    /// or a network client does. All others allocate nothing.
    pub allocating: Vec<OpKind>,
    /// Actions outside the measured loop that it performs.
    pub admin: Vec<AdminAction>,
    /// Values may be empty, and are where a job gives no size.
    pub empty_values: bool,
    /// What reports need to know of it.
    pub facts: DriverFacts,
}

impl Capabilities {
    /// Whether operations name their data by key (a key-value store or objects), not by offset or order of arrival.
    pub fn keyed(&self) -> bool {
        matches!(self.facts.kind, TargetKind::Keyed | TargetKind::Object)
    }

    /// The operation that makes a record: the first of `ops` that is an insert or the making of a file, else a put.
    pub fn inserting(&self) -> OpKind {
        let mut all = self.ops.iter().copied();
        all.find(|op| op.as_record() == OpKind::Insert).unwrap_or(OpKind::Put)
    }

    /// The operation that reads a record: the first of `ops` that is a get or the reading of a file, else a get.
    pub fn getting(&self) -> OpKind {
        let mut all = self.ops.iter().copied();
        all.find(|op| op.as_record() == OpKind::Get).unwrap_or(OpKind::Get)
    }

    /// Steps of `run.before` that it can do.
    pub fn before(&self) -> Vec<PreRunStep> {
        let able = |step: &PreRunStep| self.admin.contains(&AdminAction::from(*step));
        [PreRunStep::Flush, PreRunStep::Compact, PreRunStep::DropCaches]
            .into_iter()
            .filter(able)
            .collect()
    }
}

/// Facts about a driver that the run directory keeps, for reports made long after the run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DriverFacts {
    /// What a target of it is.
    pub kind: TargetKind,
    /// The store runs inside the process of the run: its work and its waits are those of the
    /// worker's thread.
    pub in_process: bool,
    /// Offsets of operations are offsets in the one file or device that the target is.
    pub single_file: bool,
}

/// What a target is, and so how an operation names its data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// Blocks at offsets, in files or a device.
    #[default]
    File,
    /// Blocks at ascending offsets of one file.
    Stream,
    /// Records in the order of their arrival: a write appends one, a read takes the next, whichever it is.
    Queue,
    /// Records by key.
    Keyed,
    /// Objects by name, over a network.
    Object,
}

/// An action outside the measured loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum AdminAction {
    /// What is held in memory goes into files, and these are synced.
    Flush,
    /// Forget cached data of this target.
    DropCaches,
    /// Discard the whole data set.
    Purge,
    /// Merge everything a store has put off (full compaction).
    Compact,
}

impl AdminAction {
    pub const ALL: [AdminAction; 4] =
        [AdminAction::Flush, AdminAction::Compact, AdminAction::DropCaches, AdminAction::Purge];
}

impl From<PreRunStep> for AdminAction {
    fn from(step: PreRunStep) -> AdminAction {
        match step {
            PreRunStep::Flush => AdminAction::Flush,
            PreRunStep::Compact => AdminAction::Compact,
            PreRunStep::DropCaches => AdminAction::DropCaches,
        }
    }
}
