//! What a server does not have that only speaks PostgreSQL's protocol, as CockroachDB and Yugabyte do: asked for once, told,
//! and done without.

use std::collections::BTreeSet;

use super::wire::PgError;

/// Codes of a server that does not have what it is asked for: a statement, a function, a view, a column, a setting.
const CODES: [&str; 6] = [UNSUPPORTED, "42601", "42883", "42P01", "42703", "42704"];

/// The one for what a server reads and does not do.
pub const UNSUPPORTED: &str = "0A000";
pub const ADVISORY_LOCKS: &str = "advisory locks";
pub const TABLE_LOCKS: &str = "LOCK TABLE";
pub const COMMIT_SETTING: &str = "synchronous_commit";
pub const ROW_COUNTS: &str = "pg_stat_all_tables";
pub const VACUUM: &str = "VACUUM";
pub const CHECKPOINT: &str = "CHECKPOINT";
const STATISTICS: &str = "some of its statistics";

/// Whether a refusal says that the server does not have it.
pub fn is_lack(error: &PgError) -> bool {
    CODES.contains(&error.code.as_str())
}

/// What a server was asked for and does not have; nothing of PostgreSQL itself.
#[derive(Debug, Default)]
pub struct Lacking {
    /// As it is told.
    words: BTreeSet<String>,
    /// Statements about statistics that it does not have.
    unseen: BTreeSet<String>,
}

impl Lacking {
    pub fn note(&mut self, what: &str) {
        self.words.insert(what.to_owned());
    }

    pub fn has(&self, what: &str) -> bool {
        self.words.contains(what)
    }

    pub fn note_unseen(&mut self, sql: &str) {
        self.note(STATISTICS);
        self.unseen.insert(sql.to_owned());
    }

    pub fn is_unseen(&self, sql: &str) -> bool {
        self.unseen.contains(sql)
    }

    /// All of it in words; none where it lacks nothing.
    pub fn words(&self) -> Option<String> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}
