//! `ledger.parquet`: which write of each block or record was the last one, for a check at a later
//! time.
//!
//! Written only when the plan verifies and something was written. A later run that names this run
//! directory (`verify.run`) expects these writes, so that a lost write or an older block shows after
//! a restart too. Not what the blocks hold, and no history. Callers: `engine` (both ways).

use std::path::Path;

use taillight_core::Result;

use crate::columns::{Name, Named, Nullable, TableWriter, UInt64, read_table, table_row};
use crate::dir::RunDir;
use crate::names;

/// Rows in a row group.
const GROUP: usize = 1 << 20;

/// How much is known of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LedgerState {
    /// A write failed or never ended, or it was trimmed or deleted: it may hold anything.
    #[default]
    Unsure,
    /// The last write was acknowledged.
    Written,
    /// The last write was acknowledged and read back since: an older one that is read later is stale, not lost.
    Seen,
}

impl Named for LedgerState {
    fn name(self) -> &'static str {
        match self {
            LedgerState::Unsure => "unsure",
            LedgerState::Written => "written",
            LedgerState::Seen => "seen",
        }
    }

    fn from_name(name: &str) -> Option<LedgerState> {
        let all = [LedgerState::Unsure, LedgerState::Written, LedgerState::Seen];
        all.into_iter().find(|k| k.name() == name)
    }
}

table_row! {
    /// A block that the run wrote at least once.
    #[derive(Debug, Clone, PartialEq, Eq, Default)]
    pub struct LedgerRow {
        /// Byte offset in the data set, or key number.
        pub address: u64 = UInt64,
        /// Generation of its last write: the n-th write to an address has generation n.
        pub newest: u64 = UInt64,
        /// Oldest generation that is right too, after writes that overlapped; null: any older one.
        pub oldest: Option<u64> = Nullable<UInt64>,
        /// How much is known.
        pub state: LedgerState = Name<LedgerState>,
    }
}

/// Writes `ledger.parquet`; rows come in the order of their addresses. No row: no file. Errors:
/// `Unavailable` when it cannot be written.
pub fn write_ledger(dir: &RunDir, rows: impl Iterator<Item = LedgerRow>) -> Result<()> {
    let mut rows = rows.peekable();
    if rows.peek().is_none() {
        return Ok(());
    }
    TableWriter::new(dir, names::LEDGER, COLUMNS, &["state"], GROUP).write(rows)
}

/// Reads a `ledger.parquet`, row by row. Errors: `Corrupt` when the file is damaged or lacks a
/// column.
pub fn read_ledger(path: &Path, each: &mut dyn FnMut(&LedgerRow)) -> Result<()> {
    read_table(path, COLUMNS, &mut |rows| {
        rows.iter().for_each(&mut *each);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("r"), &crate::fixture::manifest("r")).unwrap();
        write_ledger(&dir, std::iter::empty()).unwrap();
        assert!(dir.existing(names::LEDGER).is_none());
        let rows: Vec<LedgerRow> = (0..GROUP as u64 + 3)
            .map(|i| LedgerRow {
                address: i * 4096,
                newest: i % 7 + 1,
                oldest: (i % 5 > 0).then_some(i % 7),
                state: [LedgerState::Unsure, LedgerState::Written, LedgerState::Seen]
                    [i as usize % 3],
            })
            .collect();
        write_ledger(&dir, rows.iter().cloned()).unwrap();
        let mut back = Vec::new();
        read_ledger(&dir.file(names::LEDGER), &mut |r| back.push(r.clone())).unwrap();
        assert!(back == rows);
        // Sorted addresses and few generations: a small part of the 8 bytes a block takes in memory.
        let bytes = std::fs::metadata(dir.file(names::LEDGER)).unwrap().len();
        assert!(bytes < rows.len() as u64 * 2, "{bytes}");
    }
}
