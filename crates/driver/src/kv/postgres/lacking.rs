//! Notes which features of PostgreSQL a server lacks (CockroachDB and YugabyteDB speak its protocol only): they are
//! asked for once, named in notes and facts, and done without.

use std::collections::BTreeSet;

use super::wire::PgError;

/// Codes of a server that does not have what it is asked for: a statement, a function, a view, a column, a setting.
const CODES: [&str; 6] = [UNSUPPORTED, "42601", "42883", "42P01", "42703", "42704"];

/// The code for a feature that a server knows and does not support.
pub const UNSUPPORTED: &str = "0A000";
pub const ADVISORY_LOCKS: &str = "advisory locks";
pub const TABLE_LOCKS: &str = "LOCK TABLE";
pub const COMMIT_SETTING: &str = "synchronous_commit";
pub const ROW_COUNTS: &str = "pg_stat_all_tables";
pub const VACUUM: &str = "VACUUM";
pub const CHECKPOINT: &str = "CHECKPOINT";
const STATISTICS: &str = "some of its statistics";

/// Whether a refusal says that the server lacks what it was asked for.
pub fn is_lack(error: &PgError) -> bool {
    CODES.contains(&error.code.as_str())
}

/// What a server was asked for and lacks; empty for PostgreSQL itself.
#[derive(Debug, Default)]
pub struct Lacking {
    /// Names of what it lacks, for notes and facts.
    words: BTreeSet<String>,
    /// Statements about statistics that it lacks: they are not sent again.
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

    /// What the server lacks, in words; none where it lacks nothing.
    pub fn describe(&self) -> Option<String> {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        (!words.is_empty()).then(|| words.join(", "))
    }
}
