//! Tells whether the rows in the run's tables are all its own: asked under locks, before the run empties or drops them.
//!
//! An own row has a key that counts as the run's, or an id that the run has filled in. Whether somebody wrote over such
//! rows shows in the server's count of changes, if it is above what the run's statements changed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use taillight_core::{Error, Result};

use super::admin::{AdminLine, first};
use super::lacking::ROW_COUNTS;
use super::statements::literal;
use super::transactions::TransactionTables;
use crate::kv::written::{ForeignRecords, NumberedKeys};

/// Keys that are fetched together.
const PAGE: usize = 10_000;

/// Rows that one session's statements changed; only that session counts here.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct SessionChanges {
    /// Statements that store a row, without those that the server says changed none; those without an answer count.
    stored: AtomicU64,
    /// Rows that the server says were deleted.
    deleted: AtomicU64,
}

/// The changes of all sessions, kept after the sessions have ended.
#[derive(Debug, Default)]
pub struct RowChanges(Mutex<Vec<Arc<SessionChanges>>>);

impl SessionChanges {
    /// Counts statements, each of which stores a row, that are about to be sent.
    #[inline]
    pub fn stores(&self, statements: u64) {
        crate::counter::add(&self.stored, statements);
    }

    /// Counts by the answer to a statement that writes: its tag, such as "UPDATE 0", and the rows in it.
    #[inline]
    pub fn answered(&self, tag: &[u8], rows: u64) {
        match tag.starts_with(b"DELETE") {
            true => crate::counter::add(&self.deleted, rows),
            false if rows == 0 => crate::counter::add(&self.stored, u64::MAX),
            false => {}
        }
    }
}

impl RowChanges {
    pub fn session(&self) -> Arc<SessionChanges> {
        let changes = Arc::new(SessionChanges::default());
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(changes.clone());
        changes
    }

    /// Statements that stored a row, and rows that were deleted.
    fn all(&self) -> [u64; 2] {
        let sessions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |of: fn(&SessionChanges) -> &AtomicU64| {
            sessions.iter().map(|s| of(s).load(Ordering::Relaxed)).sum()
        };
        [sum(|s| &s.stored), sum(|s| &s.deleted)]
    }

    /// By how much the rows stored less the rows deleted in a table since its making, as the server counts them, exceed
    /// those of this run's statements. 0 where the server does not count, has lost its counts in a crash, or has not
    /// yet counted all deletes of the run, with which a server before version 15 may be half a second late. An insert
    /// that meets another one of the same key counts there as an insert and a delete. Errors: `Unavailable`.
    pub fn of_others(&self, admin: &mut AdminLine, table: &str) -> Result<u64> {
        if admin.lacking().has(ROW_COUNTS) {
            return Ok(0);
        }
        let [stored, deleted] = self.all().map(i128::from);
        let counts = admin.value(&format!(
            "SELECT n_tup_ins + n_tup_upd - n_tup_del FROM pg_stat_all_tables WHERE relid = to_regclass({}) \
             AND n_tup_del >= {deleted}",
            literal(table)
        ))?;
        let counted = counts.and_then(|n| n.parse::<i128>().ok());
        let others = counted.map_or(0, |counted| counted - (stored - deleted));
        Ok(u64::try_from(others).unwrap_or(0))
    }
}

/// The rows of a table of records whose keys are none of `own`. For use inside a transaction. Errors: `Unavailable`.
pub fn foreign_keys(
    admin: &mut AdminLine,
    table: &str,
    own: &NumberedKeys,
) -> Result<ForeignRecords> {
    let mut foreign = ForeignRecords::default();
    let cursor = "DECLARE taillight_rows NO SCROLL CURSOR FOR SELECT encode(key, 'hex') FROM";
    admin.ask_patiently(&format!("{cursor} {table}"))?;
    loop {
        let page = admin.ask_patiently(&format!("FETCH {PAGE} FROM taillight_rows"))?;
        let rows = page.len();
        for key in page.into_iter().flatten() {
            let key = unhex(key.as_deref().unwrap_or_default());
            if !own.has(&key) {
                foreign.note(&key);
            }
        }
        if rows < PAGE {
            break;
        }
    }
    admin.ask("CLOSE taillight_rows")?;
    Ok(foreign)
}

/// The rows of the tables of transactions that are none of the run's: those with other ids than the run filled in, and
/// rows of history above the number that the run can have `added`, where that is known. For use inside a transaction;
/// locks the tables beside the run's own. Errors: `Unavailable`.
pub fn foreign_ids(
    admin: &mut AdminLine,
    tables: &TransactionTables,
    added: Option<u64>,
) -> Result<ForeignRecords> {
    let parts = admin.lock_own_parts()?;
    // A part that is gone, or is another's by now, is not looked into.
    let is_own = |table: &str| {
        tables.names().first().is_some_and(|main| main == table)
            || parts.iter().any(|part| part == table)
    };
    let mut foreign = ForeignRecords::default();
    let mut count = |rows: &str| {
        let count = first(admin.ask_patiently(&format!("SELECT count(*) FROM {rows}"))?);
        let count = count.and_then(|n| n.parse().ok());
        count.ok_or_else(|| Error::unavailable("the server does not count rows"))
    };
    for (table, rows) in tables.foreign_rows().into_iter().filter(|(table, _)| is_own(table)) {
        foreign.add(count(&rows)?, table);
    }
    let history = tables.history();
    if let Some(added) = added.filter(|_| is_own(history)) {
        foreign.add(u64::saturating_sub(count(history)?, added), history);
    }
    Ok(foreign)
}

fn unhex(text: &str) -> Vec<u8> {
    let digit = |b: u8| char::from(b).to_digit(16).unwrap_or(0) as u8;
    text.as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// Errors: `Target` where others made `changes`; nothing else shows a row that was written over.
pub fn written_over(changes: u64, table: &str) -> Result<()> {
    if changes == 0 {
        return Ok(());
    }
    Err(Error::target("somebody else changed rows of the run's table: it was left as it is")
        .with("table", table)
        .with("changes of others", changes)
        .hint("look what is in it; a later run drops it only where --destroy names it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answered_changes_count_as_the_server_says_and_unanswered_stores_count() {
        let changes = RowChanges::default();
        let (one, other) = (changes.session(), changes.session());
        one.stores(3);
        one.answered(b"INSERT 0 1\0", 1);
        one.answered(b"UPDATE 0\0", 0);
        one.answered(b"DELETE 1\0", 1);
        other.answered(b"DELETE 0\0", 0);
        other.stores(1);
        assert_eq!(changes.all(), [3, 1], "of 4 stores one changed nothing");
        assert_eq!(unhex("00ff7a"), b"\0\xffz");
    }
}
