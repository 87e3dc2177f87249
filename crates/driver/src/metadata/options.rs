//! `[target.options]` of driver `metadata`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result};

use crate::options::DriverOptions;

/// How calls are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetadataEngine {
    /// `io_uring` for queue depths above 1, else `sync`.
    #[default]
    Auto,
    /// One call after another.
    Sync,
    /// Queued in a ring.
    #[serde(alias = "uring")]
    IoUring,
}

/// Which worker uses which directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DirectorySharing {
    /// A worker creates and unlinks in its own.
    #[default]
    PerWorker,
    /// All workers are in the same ones.
    Shared,
}

/// What is durable when an operation that changes something ends.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum MetadataSync {
    /// What the file system promises: usually nothing.
    #[default]
    None,
    /// A created file (fsync before its close).
    File,
    /// A created file, and the directory of any name that came, went or changed (fsync of both).
    Directory,
}

/// The options, resolved. Absent ones take the defaults below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetadataOptions {
    /// How calls are made; auto = io_uring for queue depths above 1, else sync. Reading a directory has no
    /// form for a ring: it is one call after another in both.
    pub engine: MetadataEngine,
    /// Whether each worker creates and unlinks files in a directory of its own (mdtest -u), or all in the
    /// same. Stat, open and rename go where the access pattern says: with sequential access each worker goes
    /// over the files of its own.
    pub directories: DirectorySharing,
    /// Directories that files are dealt out to in turn, for each worker or for all.
    #[schemars(title = "1 to 1000")]
    pub spread: u32,
    /// Levels of directories above those that hold the files. With levels, operations name files by their
    /// path below the target; without, by their name in an open directory.
    #[schemars(title = "0 to 8")]
    pub depth: u32,
    /// What is durable when an operation that changes something ends; the time of the fsync is inside its
    /// latency. none, file: a created file; directory: the directory of the name as well, which is what makes
    /// a create, rename or unlink last.
    pub sync: MetadataSync,
    /// Leave files and directories behind; a later run goes on with them.
    pub keep: bool,
}

impl Default for MetadataOptions {
    fn default() -> MetadataOptions {
        MetadataOptions {
            engine: MetadataEngine::default(),
            directories: DirectorySharing::default(),
            spread: 1,
            depth: 0,
            sync: MetadataSync::default(),
            keep: false,
        }
    }
}

impl DriverOptions for MetadataOptions {
    fn check(&self) -> Result<()> {
        let within = |name: &str, value: u32, least: u32, most: u32| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(Error::usage(format!("{name} = {value}"))
                .of_field(name)
                .hint(format!("use {least} to {most}")))
        };
        within("spread", self.spread, 1, 1000)?;
        within("depth", self.depth, 0, 8)
    }
}
