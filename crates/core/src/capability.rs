//! What a driver can do: selects validation, generated docs and conformance tests.

use serde::Serialize;

use crate::op::OpKind;
use crate::plan::Before;

/// Records that one operation covers at most.
pub const MAX_BATCH: u32 = 1000;

/// Capabilities of a driver with given options. Checked against the plan before any I/O.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Capabilities {
    /// Operations it performs.
    pub ops: Vec<OpKind>,
    /// Operations that it performs with other options only: which, and what they take.
    #[serde(skip)]
    pub more_ops: Vec<(OpKind, &'static str)>,
    /// Addressed by offset (true) or by key (false).
    pub addressed: bool,
    /// Deepest queue per worker; 1 means no queue.
    pub max_depth: u32,
    /// Operations that may cover several records in one call of the store (multi-get, batch of
    /// writes), up to [`MAX_BATCH`].
    pub batches: Vec<OpKind>,
    /// Can bypass the page cache.
    pub direct: bool,
    /// Can sync after a write and time it apart.
    pub sync: bool,
    /// What a sync takes where it is possible with other options only.
    #[serde(skip)]
    pub sync_with: Option<&'static str>,
    /// Reads return what was written (false for `null` and `sim`).
    pub stores_data: bool,
    /// Runs on virtual time.
    pub virtual_time: bool,
    /// Writes reach something a user could lose: the guard must pass.
    pub guarded: bool,
    /// Completions carry an issued or first-byte stamp of their own.
    pub own_stamps: bool,
    /// Steps between load and run that it can do (`run.before`).
    pub before: Vec<Before>,
}
