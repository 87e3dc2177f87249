//! The directory of a database: found, claimed by the rules of `ownership`, and left in the end.
//!
//! Decides before anything is touched. A database is Taillight's when the mark in its directory names that
//! directory and the very files in it, as they were when the last run ended; of a killed run, when nobody has
//! opened the database or put files there since. Everything else needs `destroy` and `--destroy`. What this
//! run made is deleted at the end unless it is kept; what was kept before stays.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use taillight_core::{Error, Result};
use taillight_machine::Sys;

use super::rules;
use crate::contract::OpenSpec;
use crate::identity::FileIdentity;
use crate::ownership::content::{Naming, fingerprint, is_of_one_opening, opening};
use crate::ownership::sidecar::DatabaseMark;
use crate::ownership::{
    Contents, DirectoryIdentity, HeldMark, MarkStore, MarkedNode, NamedTarget, OwnedDirectory,
    OwnershipDecision, OwnershipMark, SIDECAR, refusal,
};
use crate::path_error::{cannot, free_space, resolve_absent};
use crate::space;

/// What this run asks of the directory.
pub struct DirectoryRequest<'a> {
    /// The plan, run id and confirmation.
    pub spec: &'a OpenSpec<'a>,
    /// Name of the driver.
    pub driver: &'static str,
    /// What this run makes stays.
    pub keep: bool,
    /// Nothing is changed, whoever made it.
    pub read_only: bool,
    /// The store may keep less than it is given.
    pub compresses: bool,
    /// Other directories in which the database in a directory keeps data.
    pub beside: &'a dyn Fn(&Path) -> Vec<PathBuf>,
}

/// A database directory past the guard.
pub struct DatabaseDirectory {
    path: PathBuf,
    /// Absent when the database is only read.
    owned: Option<OwnedDatabase>,
}

struct OwnedDatabase {
    dir: OwnedDirectory,
    mark: HeldMark<DirectoryIdentity>,
    naming: Naming,
    /// The directory itself goes too.
    made_dir: bool,
}

impl DatabaseDirectory {
    /// What [`DatabaseDirectory::take`] would refuse; nothing is changed. Errors: as there.
    pub fn check(request: &DirectoryRequest<'_>) -> Result<()> {
        let (path, absent, confirmed) = DatabaseDirectory::named(request)?;
        if request.read_only {
            return DatabaseDirectory::visit(request, path, absent).map(drop);
        }
        DatabaseDirectory::decide(request, &path, absent, confirmed).map(drop)
    }

    /// Finds the directory, asks the guard, makes directory and mark. `wipe` deletes a database
    /// that is there and must not stay. Errors: `Usage` for a path that is no directory, `Refused`
    /// by the guard, `Unavailable`.
    pub fn take(
        request: &DirectoryRequest<'_>,
        wipe: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<DatabaseDirectory> {
        let (path, absent, confirmed) = DatabaseDirectory::named(request)?;
        if request.read_only {
            return DatabaseDirectory::visit(request, path, absent);
        }
        let (mut mark, decision) = DatabaseDirectory::decide(request, &path, absent, confirmed)?;
        match decision {
            OwnershipDecision::Reuse(kept) => mark = kept,
            OwnershipDecision::Wipe => wipe(&path)?,
            OwnershipDecision::Create => {}
        }
        // Stores delete the directory together with the database.
        let cannot_make = |e| cannot("cannot make the directory", &path, e);
        match std::fs::create_dir(&path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(cannot_make(e)),
            _ => {}
        }
        let dir = OwnedDirectory::open(&path, request.spec.stop)?;
        mark.identity.node = MarkedNode::of(&dir.identity()?, dir.filesystem());
        let naming = mark.identity.naming();
        // From now on the store changes them.
        (mark.identity.files, mark.identity.opening) = (None, None);
        let (_, forgets) = rules::changes(request.spec.plan);
        let mark = HeldMark::new(mark, forgets);
        // Before the first byte of data, so that a killed run leaves what the next one knows.
        match dir.read()? {
            None => dir.create(&mark.bytes()?)?,
            Some(_) => dir.renew(&mark.bytes()?)?,
        }
        let owned = OwnedDatabase { dir, mark, naming, made_dir: absent };
        Ok(DatabaseDirectory { path, owned: Some(owned) })
    }

    /// The directory that is meant, whether it is absent, and whether its loss is confirmed.
    fn named(request: &DirectoryRequest<'_>) -> Result<(PathBuf, bool, bool)> {
        let target = &request.spec.plan.target;
        let path = target.path.as_deref().filter(|p| !p.is_empty());
        let path = path.ok_or_else(|| {
            Error::usage(format!("driver `{}` needs a path", request.driver))
                .hint("a directory for the database: --path /mnt/test/db/")
        })?;
        let (path, absent) = find(path)?;
        let same = |name: &str| find(name).is_ok_and(|(found, _)| found == path);
        let named = NamedTarget::from(path.as_path());
        let confirmed = refusal::confirmed(target.destroy, request.spec.destroy, &named, same)?;
        Ok((path, absent, confirmed))
    }

    /// The mark that the run would write, and what becomes of what is there.
    fn decide(
        request: &DirectoryRequest<'_>,
        path: &Path,
        absent: bool,
        confirmed: bool,
    ) -> Result<(DatabaseMark, OwnershipDecision<DirectoryIdentity>)> {
        let driver = request.driver.to_owned();
        let identity = DirectoryIdentity { driver, ..DirectoryIdentity::default() };
        let form = rules::form(request.spec.plan);
        let mark = DatabaseMark::new(identity, request.spec.run_id, request.keep, form);
        let decision = match absent || is_empty(path)? {
            true => OwnershipDecision::Create,
            false => existing(request, &mark, path, confirmed)?,
        };
        check_space(request, path, absent, &decision)?;
        Ok((mark, decision))
    }

    fn visit(
        request: &DirectoryRequest<'_>,
        path: PathBuf,
        absent: bool,
    ) -> Result<DatabaseDirectory> {
        if absent {
            return Err(Error::unavailable("there is no database to read")
                .with("path", path.display())
                .hint("load it first, without options.read_only"));
        }
        if rules::changes(request.spec.plan).0 {
            return Err(Error::usage("read_only = true, but the plan writes")
                .hint("leave only get and scan in the mix, or set options.read_only = false"));
        }
        Ok(DatabaseDirectory { path, owned: None })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the database may be made.
    pub fn creates(&self) -> bool {
        self.owned.is_some()
    }

    /// Records known to be there; `None` when nothing is known of a database that is only read.
    pub fn records(&self) -> Option<u64> {
        self.owned.as_ref().map(|owned| owned.mark.records())
    }

    /// Takes note that the store has opened the database. Errors: as [`DatabaseDirectory::note`].
    pub fn opened(&self) -> Result<()> {
        let Some(owned) = &self.owned else { return Ok(()) };
        let made = opening(&owned.dir, owned.naming)?;
        owned.mark.identify(|identity| identity.opening = made);
        owned.dir.renew(&owned.mark.bytes()?)
    }

    /// Takes note of `records`. Errors: `Unavailable` when the note cannot be written.
    pub fn note(&self, records: u64) -> Result<()> {
        match &self.owned {
            Some(owned) => owned.mark.note(&owned.dir, records),
            None => Ok(()),
        }
    }

    /// Deletes what goes: `wipe` the database, then the mark, then the directory. Seals the mark of what
    /// stays with its files, in `beside` too. The database is closed. Errors: `Unavailable` when something
    /// cannot be removed, `Refused` when another directory is in the place.
    pub fn leave(
        &mut self,
        wipe: &dyn Fn(&Path) -> Result<()>,
        beside: &dyn Fn(&Path) -> Vec<PathBuf>,
    ) -> Result<()> {
        let Some(owned) = self.owned.take() else { return Ok(()) };
        match FileIdentity::at(rustix::fs::CWD, self.path.as_path()) {
            Ok(here) if here.same_file(&owned.dir.identity()?) => {}
            // Somebody deleted it.
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            _ => {
                let what = "the directory of the database was replaced while it was used";
                return Err(Error::refused(what)
                    .with("path", self.path.display())
                    .hint("what is there now was left as it is"));
            }
        }
        if owned.mark.keeps() {
            let files = fingerprint(&places(&self.path, beside), owned.naming)?;
            owned.mark.identify(|identity| {
                (identity.files, identity.opening) = (Some(files), None);
            });
            return owned.dir.renew(&owned.mark.bytes()?);
        }
        wipe(&self.path)?;
        owned.dir.remove()?;
        if owned.made_dir {
            // Not empty any more: somebody else's files are in it, so it stays.
            let _ = std::fs::remove_dir(&self.path);
        }
        Ok(())
    }
}

/// The directories that hold the data of the database in `path`.
fn places(path: &Path, beside: &dyn Fn(&Path) -> Vec<PathBuf>) -> Vec<PathBuf> {
    std::iter::once(path.to_owned()).chain(beside(path)).collect()
}

/// What a directory with something in it means for the run that would write the mark `wanted`.
fn existing(
    request: &DirectoryRequest<'_>,
    wanted: &DatabaseMark,
    path: &Path,
    confirmed: bool,
) -> Result<OwnershipDecision<DirectoryIdentity>> {
    let dir = OwnedDirectory::open(path, request.spec.stop)?;
    let found = dir.read()?.map(|bytes| DatabaseMark::parse(&bytes));
    let found = found.transpose().map_err(|e| {
        Error::corrupt("the ownership mark cannot be understood")
            .with("path", path.join(SIDECAR).display())
            .source(e)
    })?;
    // A mark that came here with a copy of its directory says nothing.
    let here = dir.identity()?;
    let differs = found.as_ref().and_then(|f| f.identity.node.difference(&here, dir.filesystem()));
    if let Some(differs) = &differs {
        refusal::another(confirmed, &NamedTarget::from(path), differs)?;
    }
    let found = found.filter(|_| differs.is_none());
    if let Some(mark) = &found
        && mark.identity.driver != wanted.identity.driver
    {
        return Err(Error::refused("the directory holds a database of another driver")
            .with("path", path.display())
            .with("driver", &mark.identity.driver)
            .hint("choose another path, or delete the directory"));
    }
    if let Some(mark) = &found {
        unused(path)?;
        if !confirmed && !proves(&mark.identity, &dir, request.beside)? {
            refusal::unfinished(confirmed, &NamedTarget::from(path))?;
        }
    }
    let contents = match found {
        Some(_) => Contents::Records,
        None => Contents::Foreign(None),
    };
    OwnershipMark::decide(wanted, found.as_ref(), contents, confirmed, &NamedTarget::from(path))
}

/// Whether all in the database is Taillight's: as it was when its run ended, or left by one that was killed,
/// and not opened or added to since.
fn proves(
    mark: &DirectoryIdentity,
    dir: &OwnedDirectory,
    beside: &dyn Fn(&Path) -> Vec<PathBuf>,
) -> Result<bool> {
    let (places, naming) = (places(dir.path(), beside), mark.naming());
    if let Some(files) = &mark.files {
        return Ok(*files == fingerprint(&places, naming)?);
    }
    let same = mark.opening.is_some() && mark.opening == opening(dir, naming)?;
    Ok(same && is_of_one_opening(&places)?)
}

/// Whether no process holds the lock that RocksDB and LevelDB take on a database, as far as
/// `/proc/locks` shows (proc_locks(5)); opening the lock file and closing it would free a lock of our own.
/// Errors: `Unavailable` when one does.
fn unused(path: &Path) -> Result<()> {
    let Ok(lock) = FileIdentity::at(rustix::fs::CWD, path.join("LOCK").as_path()) else {
        return Ok(());
    };
    let (major, minor) = (rustix::fs::major(lock.device), rustix::fs::minor(lock.device));
    let file = format!("{major:02x}:{minor:02x}:{}", lock.inode);
    let locks = std::fs::read_to_string(Sys::default().path("proc/locks")).unwrap_or_default();
    match locks.split_ascii_whitespace().any(|word| word == file) {
        false => Ok(()),
        true => Err(Error::unavailable("the database is in use by another process")
            .with("path", path.display())
            .hint("end what uses it, or choose another path")),
    }
}

/// Whether the records that are missing fit, once what goes is gone. Errors: `Unavailable`.
fn check_space(
    request: &DirectoryRequest<'_>,
    path: &Path,
    absent: bool,
    decision: &OwnershipDecision<DirectoryIdentity>,
) -> Result<()> {
    let (have, goes) = match decision {
        OwnershipDecision::Create => (0, 0),
        OwnershipDecision::Reuse(mark) => (mark.records, 0),
        OwnershipDecision::Wipe => (0, allocated(path)?),
    };
    let there = path.parent().filter(|_| absent).unwrap_or(path);
    let free = free_space(there)?.saturating_add(goes);
    let size = if request.compresses { space::compressed_bytes } else { space::record_bytes };
    space::fits(request.spec.plan, have, free, size)
}

/// Bytes that the files in a directory take.
fn allocated(dir: &Path) -> Result<u64> {
    let failed = |e| cannot("cannot list the directory", dir, e);
    let entries = std::fs::read_dir(dir).map_err(failed)?.flatten();
    let files = entries.filter_map(|entry| entry.metadata().ok()).filter(Metadata::is_file);
    Ok(files.map(|file| file.blocks().saturating_mul(512)).sum())
}

/// The directory that `path` means, and whether it is not there yet. No symlink is left in it.
fn find(path: &str) -> Result<(PathBuf, bool)> {
    let given = Path::new(path);
    match std::fs::canonicalize(given) {
        Ok(real) if real.is_dir() => return Ok((real, false)),
        Ok(_) => {
            return Err(Error::usage("a database is a directory, and the path is not one")
                .with("path", path)
                .hint("name a directory, or one that is to be made"));
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        Err(e) => return Err(cannot("cannot resolve the path", given, e)),
    }
    Ok((resolve_absent(given)?, true))
}

/// Nothing in it that anyone could miss.
pub fn is_empty(dir: &Path) -> Result<bool> {
    let failed = |e| cannot("cannot list the directory", dir, e);
    for entry in std::fs::read_dir(dir).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        if name != SIDECAR && name != "lost+found" {
            return Ok(false);
        }
    }
    Ok(true)
}
