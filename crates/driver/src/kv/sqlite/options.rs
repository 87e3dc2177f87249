//! `[target.options]` of driver `sqlite`.

use std::ffi::CStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, Result};

use crate::options::{DriverOptions, OrDefault};

/// How a commit survives a crash of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JournalMode {
    /// A log of new pages beside the database; readers and the writer do not wait for each other.
    #[default]
    Wal,
    /// A journal of old pages, deleted with each commit: SQLite's own default.
    Delete,
    Truncate,
    Persist,
    Memory,
    Off,
}

/// When SQLite syncs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum SyncLevel {
    /// Never: a crash of the machine may damage the database.
    Off,
    /// With `wal`, only with checkpoints: a crash of the machine loses the last commits.
    Normal,
    /// With each commit: SQLite's own default.
    #[default]
    Full,
    /// And the directory after a journal is deleted.
    Extra,
}

/// How an operation `checkpoint` of a mix checks the log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckpointMode {
    /// As many pages as nobody needs, as a commit does it: waits for no reader or writer, only where another checkpoint is made.
    #[default]
    Passive,
    /// Waits for the writer and for readers of older pages, and checks all in.
    Full,
    /// And waits until all readers read the database, so that the next commit begins the log anew.
    Restart,
    /// And cuts the log to nothing.
    Truncate,
}

/// The options, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SqliteOptions {
    /// Which SQLite is measured; empty = the system's (Debian: libsqlite3-0).
    #[schemars(title = "file or name of a shared library")]
    pub library: String,
    /// How a commit survives a crash of the process.
    pub journal: JournalMode,
    /// When SQLite syncs. A write that asks to be durable has `full`, with `journal = "delete"` `extra`, at least.
    pub synchronous: SyncLevel,
    /// Of a page of the database; default = SQLite's, 4 KiB.
    pub page_size: OrDefault<ByteSize>,
    /// Pages that each connection holds in memory; default = SQLite's, about 2 MiB.
    pub cache_size: OrDefault<ByteSize>,
    /// Of the file mapped into memory; 0 = none, SQLite's default.
    pub mmap_size: ByteSize,
    /// A commit that leaves so many pages in the log checks them in, within its own latency; 0 = only a flush and
    /// operations `checkpoint` do.
    #[schemars(title = "pages")]
    pub autocheckpoint: u32,
    /// How an operation `checkpoint` of a mix does it.
    pub checkpoint: CheckpointMode,
    /// Longest wait for a lock that another connection holds; then the operation fails as busy. Waits are counted.
    pub busy_timeout: Span,
    /// Keep records in the tree of their keys: one search fewer, for records that are small.
    pub without_rowid: bool,
    /// Leave the database behind; a later run goes on with its records.
    pub keep: bool,
}

impl Default for SqliteOptions {
    fn default() -> SqliteOptions {
        SqliteOptions {
            library: String::new(),
            journal: JournalMode::Wal,
            synchronous: SyncLevel::Full,
            page_size: OrDefault::Default,
            cache_size: OrDefault::Default,
            mmap_size: ByteSize(0),
            autocheckpoint: 1000,
            checkpoint: CheckpointMode::Passive,
            busy_timeout: Span(10_000_000_000),
            without_rowid: false,
            keep: false,
        }
    }
}

impl JournalMode {
    pub fn word(self) -> &'static str {
        match self {
            JournalMode::Wal => "wal",
            JournalMode::Delete => "delete",
            JournalMode::Truncate => "truncate",
            JournalMode::Persist => "persist",
            JournalMode::Memory => "memory",
            JournalMode::Off => "off",
        }
    }
}

impl CheckpointMode {
    pub fn word(self) -> &'static str {
        match self {
            CheckpointMode::Passive => "passive",
            CheckpointMode::Full => "full",
            CheckpointMode::Restart => "restart",
            CheckpointMode::Truncate => "truncate",
        }
    }
}

impl SyncLevel {
    /// The statement that sets it.
    pub fn pragma(self) -> &'static CStr {
        match self {
            SyncLevel::Off => c"PRAGMA synchronous = 0",
            SyncLevel::Normal => c"PRAGMA synchronous = 1",
            SyncLevel::Full => c"PRAGMA synchronous = 2",
            SyncLevel::Extra => c"PRAGMA synchronous = 3",
        }
    }
}

impl SqliteOptions {
    /// The level at which a commit survives a crash of the machine: a journal whose name is still in the directory
    /// afterwards would undo it.
    pub fn durable(&self) -> SyncLevel {
        match self.journal {
            JournalMode::Delete => SyncLevel::Extra,
            _ => SyncLevel::Full,
        }
    }

    /// What a user should know of these settings, where commits may be lost.
    pub fn undurable(&self) -> Option<&'static str> {
        Some(match (self.journal, self.synchronous) {
            (JournalMode::Memory | JournalMode::Off, _) => {
                "options.journal = \"memory\" or \"off\": a crash in the midst of a commit may damage the \
                 database, of the process alone too"
            }
            (_, SyncLevel::Off) => {
                "options.synchronous = \"off\": nothing is synced; a crash of the machine may lose or \
                 damage all, one of the process alone loses nothing"
            }
            (JournalMode::Wal, SyncLevel::Normal) => {
                "options.synchronous = \"normal\" with a log: a crash of the machine loses what was \
                 committed since the last checkpoint"
            }
            (_, SyncLevel::Normal) => {
                "options.synchronous = \"normal\": a crash of the machine may, rarely, damage the database"
            }
            (JournalMode::Delete, SyncLevel::Full) => {
                "options.journal = \"delete\" with synchronous = \"full\": a crash of the machine may undo \
                 the last commit; \"extra\" syncs the directory too"
            }
            _ => return None,
        })
    }
}

impl DriverOptions for SqliteOptions {
    fn check(&self) -> Result<()> {
        if let Some(page) = self.page_size.set() {
            let fits = page.0.is_power_of_two() && (512..=65_536).contains(&page.0);
            if !fits {
                return Err(Error::usage("options.page_size is none of SQLite's")
                    .of_field("page_size")
                    .hint("a power of two from 512 to 65536 bytes"));
            }
        }
        Ok(())
    }
}
