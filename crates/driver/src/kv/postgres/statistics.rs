//! Settings and statistics of a PostgreSQL server: facts and notes from its settings, samples, counts that stand beside
//! the run's own counts of operations, and how much a table was changed between two runs.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use taillight_core::OpKind;
use taillight_core::samples::{SampleDisplay, SamplePanel, SamplePhrase, SampleUnit};
use taillight_core::witness::{WitnessCount, WitnessUnit};

use super::admin::{AdminLine, TableChanges, first};
use super::lacking::ROW_COUNTS;

/// How the samples are shown.
pub fn display() -> SampleDisplay {
    let panels = vec![
        SamplePanel::new("Log", SampleUnit::BytesPerSecond).line("wal_bytes_total", "log"),
        SamplePanel::new("Events", SampleUnit::PerSecond)
            .line("wal_syncs_total", "log syncs")
            .line("deadlocks_total", "deadlocks"),
        SamplePanel::new("Checkpoints", SampleUnit::PercentOfTime)
            .line("checkpoint_write_ns_total", "writing")
            .line("checkpoint_sync_ns_total", "syncing"),
        SamplePanel::new("Vacuum and checkpoints", SampleUnit::Count)
            .line("running_vacuums", "running vacuums")
            .line("checkpoints_total", "checkpoints a second"),
        SamplePanel::new("Connections with both ends on one CPU", SampleUnit::Count)
            .line("connections_on_one_cpu", "connections"),
        SamplePanel::new("Lookups that hit", SampleUnit::Percent).share(
            "block_cache_hits_total",
            "block_cache_misses_total",
            "block cache hits",
        ),
    ];
    let hits = SamplePhrase::share(
        "block_cache_hits_total",
        "block_cache_misses_total",
        "block cache hits {}",
    );
    SampleDisplay { panels, phrases: vec![hits] }
}

/// The fact that says whether the user may have checkpoints made.
pub const MAY_CHECKPOINT: &str = "postgres.may_checkpoint";

/// Settings that become facts: they decide what figures mean.
const SETTINGS: [&str; 22] = [
    "server_version",
    "synchronous_commit",
    "fsync",
    "full_page_writes",
    "wal_level",
    "wal_sync_method",
    "wal_compression",
    "wal_buffers",
    "shared_buffers",
    "effective_cache_size",
    "max_wal_size",
    "checkpoint_timeout",
    "checkpoint_completion_target",
    "commit_delay",
    "autovacuum",
    "data_checksums",
    "huge_pages",
    "max_connections",
    "synchronous_standby_names",
    "default_transaction_isolation",
    "jit",
    "ssl",
];

/// First version whose counts are there as soon as a transaction has ended.
const COUNTS_AT_ONCE: u32 = 150_000;

/// The changes of these tables (names quoted for SQL) that the server has counted, once the workers' processes there
/// are gone; none where it does not count, or counts late (before version 15).
pub fn changes(
    admin: &mut AdminLine,
    version: u32,
    tables: &[String],
    backends: &[u32],
) -> Option<TableChanges> {
    if version < COUNTS_AT_ONCE || admin.lacking().has(ROW_COUNTS) {
        return None;
    }
    until_gone(admin, backends);
    // So that what this connection has changed is counted as well.
    admin.ask("SELECT pg_stat_force_next_flush()").ok()?;
    let oids: Vec<String> = tables
        .iter()
        .map(|table| format!("to_regclass({})", super::statements::literal(table)))
        .collect();
    let rows = admin.glance(&format!(
        "SELECT sum(n_tup_ins), sum(n_tup_upd), sum(n_tup_del) FROM pg_stat_all_tables WHERE relid IN ({})",
        oids.join(", ")
    ))?;
    let row: Vec<u64> = rows.into_iter().flatten().filter_map(|cell| cell?.parse().ok()).collect();
    match row[..] {
        [inserted, updated, deleted] => Some(TableChanges { inserted, updated, deleted }),
        _ => None,
    }
}

/// In words, what was changed in a table between the run that kept it and now, or that the counts were lost; none where
/// nothing was changed, or one of the counts is missing.
pub fn since(kept: Option<TableChanges>, now: Option<TableChanges>) -> Option<String> {
    let (kept, now) = (kept?, now?);
    let grown = |of: fn(&TableChanges) -> u64| of(&now).checked_sub(of(&kept));
    match [grown(|c| c.inserted), grown(|c| c.updated), grown(|c| c.deleted)] {
        [Some(0), Some(0), Some(0)] => None,
        [Some(inserted), Some(updated), Some(deleted)] => Some(format!(
            "the table is not as the last run left it: since then {inserted} rows were inserted, {updated} \
             updated and {deleted} deleted, by a run that did not come to its end or by somebody else"
        )),
        _ => Some(
            "the server has lost its counts of changes since the last run: whether somebody changed the table \
             is not known"
                .to_owned(),
        ),
    }
}

/// Settings as facts; those that a server does not have, or does not show, are left out. Errors: `Unavailable`.
pub fn settings(admin: &mut AdminLine) -> taillight_core::Result<Vec<(String, String)>> {
    let names: Vec<String> = SETTINGS.iter().map(|name| format!("'{name}'")).collect();
    let sql = format!(
        "SELECT name, current_setting(name, true) FROM pg_settings WHERE name IN ({})",
        names.join(", ")
    );
    let rows = admin.ask_if_able(&sql, "pg_settings")?.unwrap_or_default();
    let pair = |row: Vec<Option<String>>| {
        let mut row = row.into_iter();
        Some((format!("postgres.{}", row.next()??), row.next()??))
    };
    Ok(rows.into_iter().filter_map(pair).collect())
}

/// Whether the user may have checkpoints made; false where the server does not say it. Errors: `Unavailable`.
pub fn may_checkpoint(admin: &mut AdminLine, version: u32) -> taillight_core::Result<bool> {
    let member = match version {
        150_000.. => " OR pg_has_role(current_user, 'pg_checkpoint', 'USAGE')",
        _ => "",
    };
    let sql = format!("SELECT rolsuper{member} FROM pg_roles WHERE rolname = current_user");
    Ok(admin.ask_if_able(&sql, "roles for checkpoints")?.and_then(first).as_deref() == Some("t"))
}

fn is_off(facts: &[(String, String)], setting: &str) -> bool {
    facts.iter().any(|(name, value)| name == setting && value == "off")
}

/// Whether acknowledged commits outlast a crash by these settings: neither synchronous_commit nor fsync is off.
pub fn promises(facts: &[(String, String)]) -> bool {
    !is_off(facts, "postgres.synchronous_commit") && !is_off(facts, "postgres.fsync")
}

/// Whether by these settings a crash of the server alone, without its machine, may take acknowledged commits.
pub fn server_may_lose(facts: &[(String, String)]) -> bool {
    is_off(facts, "postgres.synchronous_commit")
}

/// What the settings promise of acknowledged commits, in words.
pub fn promise(facts: &[(String, String)]) -> &'static str {
    match (is_off(facts, "postgres.synchronous_commit"), is_off(facts, "postgres.fsync")) {
        (true, _) => {
            "synchronous_commit = off promises no more: a crash of the server loses the last commits, up to \
             three times its wal_writer_delay"
        }
        (false, true) => {
            "fsync = off promises no more: a crash of the machine may lose or damage all"
        }
        (false, false) => "Its settings promise that what is acknowledged outlasts a crash",
    }
}

/// What a user should know of the server's settings and of the right to checkpoints, in sentences.
pub fn notes(facts: &[(String, String)]) -> Vec<String> {
    let is = |name: &str, value: &str| facts.iter().any(|(n, v)| n == name && v == value);
    let mut notes = Vec::new();
    if is("postgres.synchronous_commit", "off") {
        notes.push(
            "synchronous_commit = off: writes are acknowledged before they are on the disk; a crash \
             of the server loses the last ones, up to three times its wal_writer_delay"
                .to_owned(),
        );
    }
    if is("postgres.fsync", "off") {
        notes.push(
            "fsync = off: nothing is made durable; a crash of the machine may lose or damage all"
                .to_owned(),
        );
    }
    if is(MAY_CHECKPOINT, "false") {
        notes.push(
            "the user may have no checkpoint made (role pg_checkpoint): what the load leaves in the \
             server's memory is written during the run, by the server's own checkpoints"
                .to_owned(),
        );
    }
    if is("postgres.full_page_writes", "off") {
        notes
            .push("full_page_writes = off: a crash of the machine may leave torn pages".to_owned());
    }
    notes
}

/// Queries for samples: the names of their columns are those of the series. `pg_stat_wal` exists from version 14 on,
/// its counts of syncs up to version 17; counts of checkpoints are in another view from version 17 on.
const WAL: &str = "SELECT wal_bytes AS wal_bytes_total, wal_records AS wal_records_total, \
     wal_fpi AS wal_full_pages_total, wal_buffers_full AS wal_buffers_full_total FROM pg_stat_wal";
const WAL_SYNCS: &str = "SELECT wal_sync AS wal_syncs_total, \
     wal_write AS wal_writes_total FROM pg_stat_wal";
const CHECKPOINTS: &str = "SELECT checkpoints_timed + checkpoints_req AS checkpoints_total, \
     checkpoints_req AS checkpoints_forced_total, \
     checkpoint_write_time * 1e6 AS checkpoint_write_ns_total, \
     checkpoint_sync_time * 1e6 AS checkpoint_sync_ns_total, \
     buffers_checkpoint AS checkpoint_blocks_total, \
     buffers_backend AS backend_blocks_total FROM pg_stat_bgwriter";
const CHECKPOINTS_17: &str = "SELECT num_timed + num_requested AS checkpoints_total, \
     num_requested AS checkpoints_forced_total, write_time * 1e6 AS checkpoint_write_ns_total, \
     sync_time * 1e6 AS checkpoint_sync_ns_total, \
     buffers_written AS checkpoint_blocks_total FROM pg_stat_checkpointer";
const DATABASE: &str = "SELECT xact_commit AS commits_total, xact_rollback AS rollbacks_total, \
     blks_hit AS block_cache_hits_total, blks_read AS block_cache_misses_total, deadlocks AS deadlocks_total, \
     numbackends AS connected_clients FROM pg_stat_database WHERE datname = current_database()";

/// The queries that are asked for each sample, and for the counts of rows.
pub struct StatisticsQueries {
    all: Vec<String>,
    /// The query for what the server counted of the table's rows.
    counts: String,
    /// The counters at the first call, when the target was opened.
    base: Mutex<BTreeMap<String, f64>>,
}

impl StatisticsQueries {
    /// For a server of this version (150020) and a table.
    pub fn new(version: u32, table: &str) -> StatisticsQueries {
        let table = super::statements::literal(table);
        let mut all = vec![
            DATABASE.to_owned(),
            format!(
                "SELECT n_live_tup AS live_rows, n_dead_tup AS dead_rows, autovacuum_count AS \
                 autovacuums_total, autoanalyze_count AS autoanalyzes_total FROM \
                 pg_stat_all_tables WHERE relid = to_regclass({table})"
            ),
            "SELECT count(*) AS running_vacuums FROM pg_stat_progress_vacuum".to_owned(),
        ];
        if version >= 140_000 {
            all.push(WAL.to_owned());
        }
        if (140_000..180_000).contains(&version) {
            all.push(WAL_SYNCS.to_owned());
        }
        all.push(if version >= 170_000 { CHECKPOINTS_17 } else { CHECKPOINTS }.to_owned());
        let counts = format!(
            "SELECT n_tup_ins + n_tup_upd, n_tup_del, coalesce(idx_scan, 0) + seq_scan FROM \
             pg_stat_all_tables WHERE relid = to_regclass({table})"
        );
        StatisticsQueries { all, counts, base: Mutex::default() }
    }

    /// Shows the statistics now, up to the first query without an answer; counters are since the first call.
    pub fn sample(&self, admin: &mut AdminLine, out: &mut dyn FnMut(&str, f64)) {
        let mut base = self.base.lock().unwrap_or_else(PoisonError::into_inner);
        for sql in &self.all {
            // A row of names and numbers, as JSON: columns differ from query to query.
            let sql = format!("SELECT row_to_json(s) FROM ({sql}) s");
            let Some(rows) = admin.glance(&sql) else { return };
            let row = rows.into_iter().flatten().flatten().next().unwrap_or_default();
            let row: BTreeMap<String, Option<f64>> = serde_json::from_str(&row).unwrap_or_default();
            for (name, value) in row {
                let Some(value) = value else { continue };
                let since = match name.ends_with("_total") {
                    true => value - *base.entry(name.clone()).or_insert(value),
                    false => value,
                };
                out(&name, since.max(0.0));
            }
        }
    }

    /// What the server counted of the table, once the workers' processes, which report at their end, are gone.
    /// `lookups`: kinds of operations that begin a scan of the table's index, where each is one statement.
    pub fn witness(
        &self,
        admin: &mut AdminLine,
        backends: &[u32],
        lookups: Option<&[OpKind]>,
    ) -> Vec<WitnessCount> {
        until_gone(admin, backends);
        let row = admin.glance(&self.counts).and_then(|rows| rows.into_iter().next());
        let row: Option<Vec<u64>> =
            row.map(|row| row.iter().filter_map(|cell| cell.as_ref()?.parse().ok()).collect());
        let Some([stored, deleted, looked_up]) = row.as_deref() else { return Vec::new() };
        let of = |what: &str, unit, ops: &[OpKind], value: u64| {
            let source = format!("pg_stat_all_tables, {what}");
            WitnessCount { shared: true, ..WitnessCount::new(source, unit, ops, value) }
        };
        let deletes = of("rows deleted", WitnessUnit::Records, &[OpKind::Delete], *deleted);
        let mut all = vec![
            of("rows inserted and updated", WitnessUnit::Records, &crate::kv::PUTS, *stored),
            WitnessCount { less: Some("a key that is absent is not deleted"), ..deletes },
        ];
        let scans = lookups.map(|ops| of("scans begun", WitnessUnit::Operations, ops, *looked_up));
        all.extend(scans);
        all
    }
}

/// What the server counted of transactions, as [`StatisticsQueries::witness`] of records. `history`: TPC-B's, quoted.
pub fn transactions(
    admin: &mut AdminLine,
    backends: &[u32],
    history: Option<&str>,
) -> Vec<WitnessCount> {
    until_gone(admin, backends);
    let mut number = |sql: &str| admin.glance(sql).and_then(first)?.parse().ok();
    let of = |source: &str, ops: &[OpKind], value| WitnessCount {
        shared: true,
        ..WitnessCount::new(source, WitnessUnit::Operations, ops, value)
    };
    let ops = [OpKind::Tpcb, OpKind::OltpPointSelect, OpKind::OltpReadWrite];
    let commits = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()";
    let commits =
        number(commits).map(|value| of("pg_stat_database, transactions committed", &ops, value));
    let inserts = history.and_then(|table| {
        let table = super::statements::literal(table);
        let sql =
            format!("SELECT n_tup_ins FROM pg_stat_all_tables WHERE relid = to_regclass({table})");
        let all = of("pg_stat_all_tables, rows of history inserted", &ops[..1], number(&sql)?);
        Some(WitnessCount { more: Some("rows of transactions that were undone count too"), ..all })
    });
    commits.into_iter().chain(inserts).collect()
}

/// Waits for the workers' processes of the server to end, for a second at most besides the server's answers.
pub fn until_gone(admin: &mut AdminLine, backends: &[u32]) {
    let pids = backends.iter().map(u32::to_string).chain(["0".to_owned()]);
    let pids = pids.collect::<Vec<_>>().join(", ");
    let alive = format!("SELECT count(*) FROM pg_stat_activity WHERE pid IN ({pids})");
    for _ in 0..PATIENCE {
        match admin.glance(&alive).map(first) {
            Some(Some(count)) if count != "0" => std::thread::sleep(PAUSE),
            _ => break,
        }
    }
}

/// How often, and for how long each time, the workers' processes of the server are waited for.
const PATIENCE: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_since_the_last_run_are_told_and_lost_counts_too() {
        let counts = |inserted, updated, deleted| Some(TableChanges { inserted, updated, deleted });
        let kept = counts(10, 5, 1);
        assert_eq!(since(kept, kept), None);
        assert_eq!((since(None, kept), since(kept, None)), (None, None), "nobody counted");
        let said = since(kept, counts(12, 5, 2)).unwrap();
        assert!(said.contains("2 rows were inserted, 0 updated and 1 deleted"), "{said}");
        let said = since(kept, counts(9, 7, 1)).unwrap();
        assert!(said.contains("is not known"), "{said}");
    }
}
