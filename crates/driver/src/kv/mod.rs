//! Key-value stores. This module has the traits `StoreEngine`, `KeyValueStore` and `Connection`, behind which the
//! folder of each embedded store (`rocksdb`, `leveldb`, `sqlite`) wraps a C API loaded at run time. Over the traits
//! these stores share `directory` (the guard of a database directory), `session` and `target`. The servers (`redis`,
//! `postgres`) have sessions and targets of their own, and use `fields`, `rules` and `written`.
//!
//! The embedded stores are synchronous: one operation at a time per worker, several workers on one database.

mod aside;
mod directory;
mod fault;
pub mod fields;
pub mod leveldb;
mod numbers;
mod own_files;
#[cfg(feature = "postgres")]
pub mod postgres;
pub mod redis;
pub mod rocksdb;
mod room;
pub(crate) mod rules;
mod session;
pub mod sqlite;
pub(crate) mod sys;
mod target;
pub(crate) mod written;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use taillight_core::capability::{AdminAction, Capabilities, DriverFacts, TargetKind};
use taillight_core::witness::WitnessCount;
use taillight_core::{OpKind, Result, Stamp};

pub use fault::StoreError;

use written::{ForeignRecords, NumberedKeys};

use crate::identity::FileIdentity;
use crate::path_error::cannot;

/// How a database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpenAs {
    /// For reads only; an error where there is none.
    ReadOnly,
    /// For reads and writes; made where there is none.
    Existing,
    /// Made; an error where there is one already, which stays unchanged.
    New,
}

/// Files of a database outside its directory, and the directories that hold them.
#[derive(Debug, Default)]
struct OutsideFiles {
    dirs: Vec<PathBuf>,
    /// Those of `dirs` that the run has made.
    made: Vec<PathBuf>,
    files: Vec<OutsideFile>,
}

/// A file outside, with its identity when it was seen.
#[derive(Debug)]
struct OutsideFile {
    path: PathBuf,
    seen: FileIdentity,
}

impl OutsideFiles {
    /// Deletes the files that are still those that were seen; then, where they are empty, the `archive` in each
    /// directory and the directories that the run has made. Errors: `Unavailable` when a file cannot be deleted.
    fn delete(self) -> Result<()> {
        for OutsideFile { path, seen } in &self.files {
            match FileIdentity::at(rustix::fs::CWD, path.as_path()) {
                Ok(found) if found.same_file(seen) => std::fs::remove_file(path)
                    .map_err(|e| cannot("cannot delete a file of the database", path, e))?,
                _ => {}
            }
        }
        for dir in &self.dirs {
            let _ = std::fs::remove_dir(dir.join("archive"));
        }
        for dir in &self.made {
            let _ = std::fs::remove_dir(dir);
        }
        Ok(())
    }
}

/// Kinds of operations that store records.
const PUTS: [OpKind; 4] = [OpKind::Put, OpKind::Insert, OpKind::Update, OpKind::RmwUpdate];
/// Kinds of operations that store or remove records, and kinds that look records up by key.
const WRITES: [OpKind; 5] =
    [OpKind::Put, OpKind::Insert, OpKind::Update, OpKind::Delete, OpKind::RmwUpdate];
const READS: [OpKind; 2] = [OpKind::Get, OpKind::RmwGet];

/// A store's library with the options of the run: opens databases, and finds their files outside the directory.
trait StoreEngine: Send + Sync + 'static {
    /// An opened database.
    type KeyValueStore: KeyValueStore;
    /// Name of the driver.
    const NAME: &'static str;

    /// Opens the database in `dir`. Errors: `Unavailable` with the store's words.
    fn open(&self, dir: &Path, how: OpenAs) -> Result<Self::KeyValueStore>;
    /// Opens and closes a new database in the empty `dir`, as [`StoreEngine::open`] but with no files outside it.
    fn try_open(&self, dir: &Path) -> Result<()> {
        self.open(dir, OpenAs::New).map(drop)
    }
    /// Other directories in which the database in `dir` keeps data. Errors: `Unavailable` when that cannot
    /// be read.
    fn auxiliary_dirs(&self, _dir: &Path) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
    /// Checks that the other directories of the closed database in `dir` hold no files of others. Errors: `Refused`.
    fn alone(&self, _dir: &Path) -> Result<()> {
        Ok(())
    }
    /// Files of the opened database outside `dir`, which are deleted together with it. Errors: `Target` where files
    /// that may be another database's are among them; `Unavailable`.
    fn outside(&self, _store: &Self::KeyValueStore, _dir: &Path) -> Result<OutsideFiles> {
        Ok(OutsideFiles::default())
    }
}

/// An opened database, shared by all workers. Dropping the last reference closes it.
trait KeyValueStore: Send + Sync + 'static {
    /// One worker's access.
    type Connection: Connection;

    /// Access for one worker; with `snapshot`, its reads see the database as it is now.
    /// Errors: `Unavailable` when the store gives no connection.
    fn connect(self: &Arc<Self>, snapshot: bool) -> Result<Self::Connection>;
    /// Makes everything written so far survive a crash of the machine. Called after loading.
    fn make_durable(&self) -> Result<(), StoreError>;
    /// Writes what is held in memory into the store's tables; as `make_durable` for a store that has no call for it.
    fn flush(&self) -> Result<(), StoreError> {
        self.make_durable()
    }
    /// Compacts the whole database. Errors: where the store cannot, or it fails.
    fn compact(&self) -> Result<(), StoreError> {
        Err(StoreError::unsupported("compaction"))
    }
    /// Facts for the manifest: (name, value).
    fn facts(&self, _out: &mut Vec<(String, String)>) {}
    /// Statistics now; see [`crate::Target::sample`].
    fn sample(&self, _out: &mut dyn FnMut(&str, f64)) {}
    /// Records and other objects that somebody else has written: all but the keys `own`. None for a store that no other
    /// process can open meanwhile. Errors: where it cannot be read.
    fn foreign(&self, _own: &NumberedKeys) -> Result<ForeignRecords, StoreError> {
        Ok(ForeignRecords::default())
    }
    /// Keeps others from writing until the store is closed, or [`KeyValueStore::let_in`]. Errors: where one of them
    /// does not end its writes in time. No effect for a store that no other process can open meanwhile.
    fn lock_out(&self) -> Result<(), StoreError> {
        Ok(())
    }
    /// Whether `workers` workers may each have a table of descriptors without any that is open now: see
    /// [`crate::Target::descriptors`]. If so, the store closes those of its own that must not be open beside theirs.
    fn leaves_alone(&self, _workers: usize) -> bool {
        false
    }
    /// Undoes [`KeyValueStore::lock_out`].
    fn let_in(&self) -> Result<(), StoreError> {
        Ok(())
    }
    /// What a crash may take of acknowledged writes with the store's settings; none where nothing, or it is not known.
    fn promise(&self) -> Option<&'static str> {
        None
    }
    /// Another process can write into the database while it is open.
    const SHARED: bool = false;
    /// Kinds of the times that its connections show by [`Connection::inner`].
    const INNER: &'static [OpKind] = &[];
    /// The store's counters of what it was asked; see [`crate::Target::witness`].
    fn witness(&self) -> Vec<WitnessCount> {
        Vec::new()
    }
}

/// One worker's access to a store. Our code allocates nothing per operation once its buffers have grown.
trait Connection: 'static {
    /// Shows the value of `key` to `found`; false when there is none. Reads from the connection's snapshot if
    /// it has one, as do all reads but [`Connection::get_newest`].
    fn get(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, StoreError>;
    /// As [`Connection::get`], but always the newest value: for a write that begins with a read.
    fn get_newest(&mut self, key: &[u8], found: impl FnMut(&[u8])) -> Result<bool, StoreError> {
        self.get(key, found)
    }
    /// Shows the values of those keys that are there; returns how many. Only where the store has one call for it.
    fn multi_get(&mut self, _: &KeyList, _: impl FnMut(&[u8])) -> Result<u32, StoreError> {
        Err(StoreError::unsupported("multi-get"))
    }
    /// Stores a value; with `durable`, returns once it survives a crash of the machine.
    fn put(&mut self, key: &[u8], value: &[u8], durable: bool) -> Result<(), StoreError>;
    /// Stores a value for each key as one write: all or none.
    fn put_many(&mut self, _: &RecordBatch<'_>, _durable: bool) -> Result<(), StoreError> {
        Err(StoreError::unsupported("batches of writes"))
    }
    /// Removes a key; an absent one is no error. `durable` as in [`Connection::put`].
    fn delete(&mut self, key: &[u8], durable: bool) -> Result<(), StoreError>;
    /// Shows the values of a range in key order, descending with `reverse`; returns how many.
    fn scan(&mut self, range: &ScanRange<'_>, found: impl FnMut(&[u8])) -> Result<u32, StoreError>;
    /// Writes the store's log back into its database (SQLite's checkpoint). Only for a store with such an operation.
    fn checkpoint(&mut self) -> Result<(), StoreError> {
        Err(StoreError::unsupported("checkpoints"))
    }
    /// Whether [`Connection::inner`] has something to show.
    fn has_inner(&self) -> bool {
        false
    }
    /// See [`crate::Session::inner`].
    fn inner(&mut self, _each: &mut dyn FnMut(OpKind, Stamp, Stamp)) {}
}

/// Records to write at once: keys, and as many values of one size end to end.
struct RecordBatch<'a> {
    keys: &'a KeyList,
    values: &'a [u8],
    /// Bytes of a value.
    size: usize,
}

impl RecordBatch<'_> {
    /// Each key with its value.
    fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.keys.iter().zip(self.values.chunks_exact(self.size.max(1)))
    }
}

/// What a scan covers.
struct ScanRange<'a> {
    /// The first key; where it is absent, the scan begins at the next one in its direction.
    from: &'a [u8],
    /// The key at which the scan ends at the latest: excluded upwards, included downwards.
    stop: Option<&'a [u8]>,
    /// Downwards, else upwards.
    reverse: bool,
    /// Records at most.
    count: u32,
}

/// A list of keys, end to end in memory that is used again for the next list.
#[derive(Default)]
pub(crate) struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    /// Empties the list and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
    pub(crate) fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
    /// The key at place `n`, from 0; none behind the last.
    // For scans of driver `s3`, which get the objects of a listing one by one.
    #[cfg(feature = "s3")]
    pub(crate) fn get(&self, n: usize) -> Option<&[u8]> {
        let start = n.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.ends.get(n).map(|end| &self.bytes[start..*end])
    }
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

/// What the embedded stores have in common; a driver changes and adds what differs. With `reads_only` there are neither
/// writes nor the purge of the store. `sync` here means a write that
/// returns when it is durable; a store does not tell how much of its time the sync took.
fn capabilities(direct: bool, reads_only: bool, snapshot: bool) -> Capabilities {
    let writes = [OpKind::Put, OpKind::Insert, OpKind::Update, OpKind::Delete, OpKind::Rmw];
    let mut ops = vec![OpKind::Get, OpKind::Scan];
    let mut admin = vec![AdminAction::Flush, AdminAction::DropCaches];
    if !reads_only {
        ops.extend(writes);
        admin.push(AdminAction::Purge);
    }
    Capabilities {
        ops,
        max_depth: 1,
        direct,
        sync: true,
        stores_data: true,
        guarded: true,
        snapshot,
        admin,
        facts: DriverFacts { kind: TargetKind::Keyed, in_process: true, ..DriverFacts::default() },
        ..Capabilities::default()
    }
}
