//! `[target.options]` of driver `postgres`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::Span;
use taillight_core::{Error, Result};

use crate::options::DriverOptions;

/// Longest name of a table, bytes.
const NAME_MAX: usize = 63;

/// When a commit is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SynchronousCommit {
    /// As the server, database or user is set.
    #[default]
    Default,
    /// Before it is on the disk: a crash of the server loses the last ones.
    Off,
    Local,
    RemoteWrite,
    On,
    RemoteApply,
}

impl SynchronousCommit {
    /// The value as the server spells it; none where the setting is left to the server.
    pub fn setting(self) -> Option<&'static str> {
        Some(match self {
            SynchronousCommit::Default => return None,
            SynchronousCommit::Off => "off",
            SynchronousCommit::Local => "local",
            SynchronousCommit::RemoteWrite => "remote_write",
            SynchronousCommit::On => "on",
            SynchronousCommit::RemoteApply => "remote_apply",
        })
    }
}

/// What an insert does with a key that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum InsertRule {
    /// Replaces the record: ON CONFLICT DO UPDATE, which writes some more log.
    #[default]
    Upsert,
    /// Fails, as of SQL's plain INSERT.
    Plain,
}

/// How far the transactions of TPC-B and sysbench are kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Isolation {
    /// As the server, database or user is set.
    #[default]
    Default,
    ReadCommitted,
    RepeatableRead,
    Serializable,
}

/// The options, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PostgresOptions {
    /// The table of the run, made by it: columns `key` and `value`, or `key` and one column for each field, all
    /// bytea. With `tpcb` it is the table of accounts, beside NAME_branches, NAME_tellers and NAME_history; with
    /// `oltp_point_select` and `oltp_read_write` sysbench's table. One that Taillight did not make is refused.
    #[schemars(title = "letters, digits, _")]
    pub table: String,
    /// Empty = the one in target.path, else `postgres`.
    #[schemars(title = "name of a database")]
    pub database: String,
    /// Empty = PGUSER of the environment, else the user of the system. A password comes from PGPASSWORD.
    #[schemars(title = "name of a user")]
    pub user: String,
    /// Connections of each worker. Its queue depth is divided over them: depth 32 over 32 connections is one
    /// statement in flight on each, depth 32 over 2 a pipeline of 16 on each. Transactions of several statements need
    /// as many connections as the queue is deep.
    #[schemars(title = "1 to the queue depth")]
    pub connections: u32,
    /// When a commit is acknowledged; `off` is faster, and a crash of the server then loses the last commits.
    pub synchronous_commit: SynchronousCommit,
    /// What an insert does with a key that is there.
    pub inserts: InsertRule,
    /// Isolation level of the transactions of TPC-B and sysbench.
    pub isolation: Isolation,
    /// Times that one of these transactions is tried when the server undoes it for another one (deadlock, serialization
    /// failure; of sysbench, a row that another one has put back). All tries are in its latency.
    #[schemars(title = "1 or more")]
    pub max_tries: u32,
    /// After a run of TPC-B, look for every acknowledged transaction and compare the sums of balances: reads all tables
    /// once, and before the load, too, which warms caches: leave it out for a cold start.
    pub check: bool,
    /// Encrypt connections, and check the server's certificate.
    pub tls: bool,
    /// Certificates that are trusted; empty = the system's.
    #[schemars(title = "PEM file")]
    pub ca: String,
    /// Leave the table behind; a later run goes on with its records.
    pub keep: bool,
    /// Longest wait to connect, and for an answer outside the measured loop.
    pub timeout: Span,
}

impl Default for PostgresOptions {
    fn default() -> PostgresOptions {
        PostgresOptions {
            table: "taillight".to_owned(),
            database: String::new(),
            user: String::new(),
            connections: 1,
            synchronous_commit: SynchronousCommit::Default,
            inserts: InsertRule::Upsert,
            isolation: Isolation::Default,
            max_tries: 100,
            check: true,
            tls: false,
            ca: String::new(),
            keep: false,
            timeout: Span(10_000_000_000),
        }
    }
}

impl DriverOptions for PostgresOptions {
    fn check(&self) -> Result<()> {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        let table = &self.table;
        let begins = table.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
        if !begins || table.len() > NAME_MAX || !table.chars().all(plain) {
            return Err(Error::usage("wrong name of a table")
                .of_field("table")
                .with("options.table", table)
                .hint("1 to 63 of the characters a-z 0-9 _, and no digit first"));
        }
        let zero = |field, what: &str, hint: &str| {
            Err(Error::usage(what.to_owned()).of_field(field).hint(hint.to_owned()))
        };
        if self.connections == 0 {
            return zero("connections", "options.connections is zero", "1 is the default");
        }
        if self.max_tries == 0 {
            return zero("max_tries", "options.max_tries is zero", "1 tries once");
        }
        if self.timeout.0 == 0 {
            return zero("timeout", "options.timeout is zero", "10s is the default");
        }
        if !self.ca.is_empty() && !self.tls {
            return zero("ca", "options.ca without options.tls", "set options.tls = true");
        }
        if [&self.database, &self.user].iter().any(|name| name.contains('\0')) {
            return zero("database", "a zero byte in a name", "leave it out");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_need_no_quotes() {
        let parse = |name: &str| {
            let table = toml::Table::from_iter([("table".to_owned(), name.into())]);
            PostgresOptions::parse("postgres", &table)
        };
        for bad in ["", "1a", "a b", "a\"", "A", "a;drop", "a.b"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
        assert!(parse("team_a1").is_ok());
    }
}
