//! Checks, before anything is written, that the records of a plan's first workload fit into the free space of the file
//! system of an embedded database, and into that of its log where the log is elsewhere.

use std::fs::{DirEntry, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use taillight_core::Result;

use super::directory::DirectoryRequest;
use super::numbers::StoreFile;
use crate::ownership::{DirectoryIdentity, OwnershipDecision};
use crate::path_error::{cannot, free_space};
use crate::space;

/// Where the run's database keeps its log, outside its directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogElsewhere {
    pub dir: PathBuf,
    /// Bytes free with which the log has room whatever the plan.
    pub enough: u64,
}

/// Checks that the missing records fit into the file systems of `path` (its parent where it is `absent`) and of the
/// log, once a database that gives way is deleted. Errors: `Unavailable` when they do not, or when that cannot be told.
pub fn check(
    request: &DirectoryRequest<'_>,
    path: &Path,
    absent: bool,
    decision: &OwnershipDecision<DirectoryIdentity>,
) -> Result<()> {
    let (have, goes) = match decision {
        OwnershipDecision::Create => (0, 0),
        OwnershipDecision::Reuse(mark) => (mark.records, 0),
        OwnershipDecision::Wipe => (0, allocated(request.driver, path, false)?),
    };
    let there = path.parent().filter(|_| absent).unwrap_or(path);
    let free = free_space(there)?.saturating_add(goes);
    let size = if request.compresses { space::compressed_bytes } else { space::record_bytes };
    let plan = request.spec.plan;
    space::fits(plan, have, free, size)?;
    let Some(log) = request.log else { return Ok(()) };
    let there = if log.dir.is_dir() { Some(log.dir.as_path()) } else { log.dir.parent() };
    let Some(there) = there else { return Ok(()) };
    let wiped = *decision == OwnershipDecision::Wipe && there == log.dir;
    let goes = if wiped { allocated(request.driver, there, true)? } else { 0 };
    let free = free_space(there)?.saturating_add(goes);
    if free >= log.enough {
        return Ok(());
    }
    space::fits(plan, have, free, space::record_bytes)
        .map_err(|e| e.with("directory of the log", log.dir.display()))
}

/// Allocated bytes of the files in `dir` that are named as the store's, or its logs': they go with the database.
fn allocated(driver: &str, dir: &Path, logs_only: bool) -> Result<u64> {
    let failed = |e| cannot("cannot list the directory", dir, e);
    let entries = std::fs::read_dir(dir).map_err(failed)?.flatten();
    let goes = |entry: &DirEntry| {
        let kind = entry.file_name().to_str().and_then(|name| StoreFile::of(driver, name));
        kind.is_some_and(|kind| !logs_only || matches!(kind, StoreFile::Log(_)))
    };
    let files = entries.filter(goes).filter_map(|entry| entry.metadata().ok());
    let files = files.filter(Metadata::is_file);
    Ok(files.map(|file| file.blocks().saturating_mul(512)).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_goes_makes_room() {
        let tmp = tempfile::tempdir().unwrap();
        for name in ["CURRENT", "000004.sst", "000005.log", "thesis.pdf", "000006.pdf"] {
            std::fs::write(tmp.path().join(name), vec![1; 1 << 20]).unwrap();
        }
        let size = |name: &str| tmp.path().join(name).metadata().unwrap().blocks() * 512;
        let log = size("000005.log");
        let all = log + size("CURRENT") + size("000004.sst");
        assert_eq!(allocated("rocksdb", tmp.path(), false).unwrap(), all);
        assert_eq!(allocated("rocksdb", tmp.path(), true).unwrap(), log);
    }
}
