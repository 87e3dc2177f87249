//! What a run discloses of a PostgreSQL server when it opens its table, as facts and notes: settings, what they
//! promise, what the server lacks, and whether a kept table is as the last run left it.

use taillight_core::Result;

use super::admin::{AdminLine, TableMark, first};
use super::lacking::{ADVISORY_LOCKS, TABLE_LOCKS};
use super::statistics::{self, MAY_CHECKPOINT};
use super::transactions::TransactionTables;
use crate::contract::PROMISE;

/// The fact that says what became of a kept table since the run before.
const SINCE_KEPT: &str = "postgres.since_last_run";

/// Facts of a server for the manifest, its version as a number (150020; 0: unknown), and its rights.
pub struct ServerFacts {
    pub facts: Vec<(String, String)>,
    pub version: u32,
    /// Whether the run may ask for checkpoints.
    pub checkpoints: bool,
}

impl ServerFacts {
    /// Asks the server. Errors: `Unavailable` when it does not answer.
    pub fn of(admin: &mut AdminLine, table: &str) -> Result<ServerFacts> {
        let mut facts = vec![
            ("target.kind".to_owned(), "server".to_owned()),
            ("target.server".to_owned(), admin.server.address.to_text()),
            ("postgres.database".to_owned(), admin.server.address.database.clone()),
            ("postgres.table".to_owned(), table.to_owned()),
        ];
        facts.extend(statistics::settings(admin)?);
        let version = admin.ask_if_able("SHOW server_version_num", "its version as a number")?;
        let version = version.and_then(first).and_then(|v| v.parse().ok()).unwrap_or(0);
        let checkpoints = statistics::may_checkpoint(admin, version)?;
        facts.push((MAY_CHECKPOINT.to_owned(), checkpoints.to_string()));
        // Where the server is on the run's own machine, which has not crashed if the run goes on, only a setting under
        // which a crash of the server alone loses commits excuses missing ones.
        let here = admin.server.address.server.is_here();
        if !statistics::promises(&facts) && (!here || statistics::server_may_lose(&facts)) {
            facts.push((PROMISE.to_owned(), statistics::promise(&facts).to_owned()));
        }
        Ok(ServerFacts { facts, version, checkpoints })
    }

    /// Adds the fact that a kept table was emptied or changed since the run before, or that the counts of it are
    /// lost, as far as the server's counts say. Errors: `Unavailable`.
    fn look_at_kept(
        &mut self,
        admin: &mut AdminLine,
        mark: &TableMark,
        transactions: Option<&TransactionTables>,
    ) -> Result<()> {
        let own = [admin.qualified()];
        let tables = transactions.map_or(&own[..], TransactionTables::names);
        let kept = mark.identity.changes;
        let changed = match mark.records > 0 && admin.is_empty()? {
            true => {
                Some(format!("the table is empty, though the last run left {} rows", mark.records))
            }
            false => {
                let now = kept.and_then(|_| statistics::changes(admin, self.version, tables, &[]));
                statistics::since(kept, now)
            }
        };
        self.facts.extend(changed.map(|said| (SINCE_KEPT.to_owned(), said)));
        Ok(())
    }

    /// What a user should know before the load, in sentences; of a `kept` table also what became of it.
    pub fn notes(
        &mut self,
        admin: &mut AdminLine,
        kept: Option<&TableMark>,
        transactions: Option<&TransactionTables>,
    ) -> Result<Vec<String>> {
        if let Some(mark) = kept {
            self.look_at_kept(admin, mark, transactions)?;
        }
        let mut notes = statistics::notes(&self.facts);
        let lacking = admin.lacking();
        let lock = match lacking.has(ADVISORY_LOCKS) {
            true => ": nothing keeps two runs off one table",
            false => "",
        };
        let tables = match lacking.has(TABLE_LOCKS) {
            true => "; what others write while the table is emptied or dropped is lost with it",
            false => "",
        };
        let lacks = lacking.describe();
        notes.extend(lacks.map(|words| format!("the server does not have {words}{lock}{tables}")));
        let kept = self.facts.iter().filter(|(name, _)| name == SINCE_KEPT);
        notes.extend(kept.map(|(_, said)| said.clone()));
        Ok(notes)
    }
}
