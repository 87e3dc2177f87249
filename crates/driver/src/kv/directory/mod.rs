//! The guard of the directory of an embedded database: decides by its ownership mark whether the run may use, replace
//! or must refuse what is in it, writes the run's mark, and at the end deletes the database or seals its mark.
//!
//! It decides before anything is changed, and looks again directly before a change. A database is Taillight's when
//! the mark in its directory names that directory and the very files in it, as they were when the last run ended. Any
//! other database, that of a killed run too, is replaced only with `destroy` and `--destroy`; one whose mark names
//! another driver never. What the run made is deleted at the end unless it is kept; what was kept before stays.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;
use taillight_core::{Error, Result, StopFlag};

use super::aside::{self, SetAside};
use super::own_files::OwnFiles;
use super::room::{self, LogElsewhere};
use super::{OpenAs, rules};
use crate::contract::OpenSpec;
use crate::identity::FileIdentity;
use crate::ownership::content::{self, FileSystemNaming, fingerprint};
use crate::ownership::sidecar::DatabaseMark;
use crate::ownership::{
    Contents, DirectoryIdentity, HeldMark, MarkStore, MarkedNode, NamedTarget, OwnedDirectory,
    OwnershipDecision, OwnershipMark, SIDECAR, lock_holder, refusal,
};
use crate::path_error::{cannot, resolve_absent};

/// What a run asks of the directory.
pub struct DirectoryRequest<'a> {
    /// The plan, run id and confirmation.
    pub spec: &'a OpenSpec<'a>,
    /// Name of the driver.
    pub driver: &'static str,
    /// A database that the run makes is not deleted at the end.
    pub keep: bool,
    /// The database is only read: it needs no mark, and gets none.
    pub read_only: bool,
    /// The store may compress what it is given.
    pub compresses: bool,
    pub log: Option<&'a LogElsewhere>,
    pub beside: Beside<'a>,
}

/// Gives the other directories in which the database in a directory keeps data.
pub type Beside<'a> = &'a dyn Fn(&Path) -> Result<Vec<PathBuf>>;

/// A database directory that has passed the guard.
pub struct DatabaseDirectory {
    path: PathBuf,
    /// Absent when the database is only read.
    owned: Option<OwnedDatabase>,
}

struct OwnedDatabase {
    driver: &'static str,
    dir: OwnedDirectory,
    mark: HeldMark<DirectoryIdentity>,
    naming: FileSystemNaming,
    /// The run made the directory, and removes it with the database.
    made_dir: bool,
    /// The run makes the database: there was none, or it gave way.
    new: bool,
    /// When a new one was begun, where the file system keeps times of birth: older files are somebody else's.
    since_ns: Option<i64>,
    /// The database that gives way, until the new one is in use.
    former: Option<FormerDatabase>,
}

/// A database that gives way to that of the run.
struct FormerDatabase {
    files: SetAside,
    /// The mark that it had.
    mark: Option<DatabaseMark>,
    /// The mark proved that all of it is Taillight's: put back, it gets a mark that proves it again.
    sealed: bool,
}

/// A directory with something in it, as it was looked at.
struct SeenDirectory {
    dir: OwnedDirectory,
    /// Fingerprint of all files, those in the directories beside too.
    files: String,
    /// The mark proves that all of them are Taillight's.
    proven: bool,
}

/// What becomes of a directory.
struct DirectoryDecision {
    /// The mark that the run would write.
    mark: DatabaseMark,
    decision: OwnershipDecision<DirectoryIdentity>,
    /// None where nothing was there.
    seen: Option<SeenDirectory>,
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

    /// Finds the directory, decides, makes the directory where it is absent, and writes the mark. A database that gives
    /// way is set aside, once `try_out` has tried all that the run needs; [`DatabaseDirectory::settled`]
    /// deletes it, and [`DatabaseDirectory::abandon`] puts it back. Errors: `Usage` for no path or one that is no
    /// directory, and for a plan that writes with `read_only`; `Refused` by the rules, or when somebody has changed the
    /// directory meanwhile; `Unavailable`. Then what was set aside is put back.
    pub fn take(
        request: &DirectoryRequest<'_>,
        try_out: &dyn Fn(&Path) -> Result<()>,
    ) -> Result<DatabaseDirectory> {
        let (path, absent, confirmed) = DatabaseDirectory::named(request)?;
        if request.read_only {
            return DatabaseDirectory::visit(request, path, absent);
        }
        let found = DatabaseDirectory::decide(request, &path, absent, confirmed)?;
        let DirectoryDecision { mut mark, decision, seen } = found;
        if let Some(seen) = seen.as_ref().filter(|_| decision == OwnershipDecision::Wipe) {
            aside::changeable(&path, seen.dir.fd())?;
            try_out(&path)?;
        }
        // The decision holds for what was looked at: compared directly before anything is changed.
        seen.iter().try_for_each(|seen| seen.again(request.beside))?;
        let new = !matches!(decision, OwnershipDecision::Reuse(_));
        let mut former = None;
        match decision {
            OwnershipDecision::Reuse(kept) => mark = kept,
            OwnershipDecision::Wipe => {
                former = seen.as_ref().map(|seen| seen.set_aside(request)).transpose()?;
            }
            OwnershipDecision::Create => {}
        }
        let was_empty = seen.is_none();
        let dir = match seen {
            Some(seen) => seen.dir,
            None => make(&path, request.spec.stop)?,
        };
        if let Err(e) = begin(&dir, &mut mark) {
            former.map_or(Ok(()), |former| former.put_back(&dir, request.beside))?;
            return Err(e);
        }
        let naming = mark.identity.naming();
        let mark = HeldMark::new(mark, rules::changes(request.spec.plan).1);
        if was_empty && !is_empty(&path)? {
            dir.remove()?;
            return Err(changed(&path));
        }
        let marked = FileIdentity::at(dir.fd(), SIDECAR).ok().filter(|_| new);
        let since_ns = marked.and_then(|mark| mark.birth_ns);
        let driver = request.driver;
        let owned =
            OwnedDatabase { driver, dir, mark, naming, made_dir: absent, new, since_ns, former };
        Ok(DatabaseDirectory { path, owned: Some(owned) })
    }

    /// The directory that the plan names, whether it is absent, and whether the loss of what is in it is confirmed.
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
    ) -> Result<DirectoryDecision> {
        let driver = request.driver.to_owned();
        let identity = DirectoryIdentity { driver, ..DirectoryIdentity::default() };
        let form = rules::form(request.spec.plan);
        let mark = DatabaseMark::new(identity, request.spec.run_id, request.keep, form);
        let found = match absent || is_empty(path)? {
            true => DirectoryDecision { mark, decision: OwnershipDecision::Create, seen: None },
            false => existing(request, mark, path, confirmed)?,
        };
        room::check(request, path, absent, &found.decision)?;
        Ok(found)
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

    /// How the store is to open the database.
    pub fn opens(&self) -> OpenAs {
        match &self.owned {
            None => OpenAs::ReadOnly,
            Some(owned) if owned.new => OpenAs::New,
            Some(_) => OpenAs::Existing,
        }
    }

    /// Whether the run leaves the database behind at its end.
    pub fn keeps(&self) -> bool {
        self.owned.as_ref().is_none_or(|owned| owned.mark.keeps())
    }

    /// Checks that the path still means the directory that is used, and gives a path that can lead to no other; of a
    /// database that is only read the plain path, unchecked. Errors: `Refused` when it does not.
    pub fn exact_path(&self) -> Result<PathBuf> {
        let Some(owned) = &self.owned else { return Ok(self.path.clone()) };
        in_place(&owned.dir).map(|()| owned.dir.exact_path())
    }

    /// Records known to be there; `None` when nothing is known of a database that is only read.
    pub fn records(&self) -> Option<u64> {
        self.owned.as_ref().map(|owned| owned.mark.records())
    }

    /// Checks, after the store has opened, that the path still means the same directory. Errors: `Refused` if not.
    pub fn opened(&self) -> Result<()> {
        self.owned.as_ref().map_or(Ok(()), |owned| in_place(&owned.dir))
    }

    /// Writes the number of `records` into the mark. Errors: `Unavailable` when it cannot be written.
    pub fn note(&self, records: u64) -> Result<()> {
        match &self.owned {
            Some(owned) => owned.mark.note(&owned.dir, records),
            None => Ok(()),
        }
    }

    /// Deletes the database that gave way, now that the new one is in use. Errors: `Unavailable` when it cannot be
    /// deleted; while nothing of it is gone, [`DatabaseDirectory::abandon`] puts it back.
    pub fn settled(&mut self) -> Result<()> {
        let Some(former) = self.owned.as_mut().map(|owned| &mut owned.former) else {
            return Ok(());
        };
        let done = former.as_mut().map_or(Ok(()), |former| former.files.delete());
        former.take_if(|former| former.files.is_empty());
        done
    }

    /// Errors: `Target` when files of others in the directory are named like the store's, which would delete them.
    pub fn check_foreign(&self) -> Result<()> {
        self.owned.as_ref().map_or(Ok(()), |owned| owned.files()?.alone(&self.path))
    }

    /// Deletes the files of the closed database in its directory; directory and mark stay. Errors: as
    /// [`DatabaseDirectory::check_foreign`]; `Refused` when another directory is in the place; `Unavailable` when
    /// something cannot be deleted.
    pub fn clear(&self) -> Result<()> {
        let Some(owned) = &self.owned else { return Ok(()) };
        in_place(&owned.dir)?;
        let files = owned.files()?;
        files.alone(&self.path)?;
        files.delete(&owned.dir)
    }

    /// Leaves all as it is, with the mark of a run that did not end: a later run replaces it only with a confirmation.
    pub fn forsake(&mut self) {
        self.owned = None;
    }

    /// Ends the use of a closed database. One that is not kept is deleted: its files, then the mark, then the directory
    /// where the run made it. The mark of one that is kept is sealed with the files, in `beside` too, where it is
    /// `whole` and no files of others are among them; else later runs take it for that of a killed run. Errors:
    /// `Unavailable` when something cannot be removed, `Refused` when another directory is in the place, `Target` when
    /// somebody has put files there that are named like the store's; they stay.
    pub fn leave(&mut self, beside: Beside<'_>, whole: bool) -> Result<()> {
        let Some(owned) = self.owned.take() else { return Ok(()) };
        if !is_in_place(&owned.dir)? {
            // Somebody has deleted the directory.
            return Ok(());
        }
        let own = owned.files()?;
        let others = own.alone(&self.path);
        if owned.mark.keeps() {
            let files = match whole && others.is_ok() {
                true => content::seal(&places(&self.path, beside)?, owned.naming)?,
                false => None,
            };
            owned.mark.identify(|identity| identity.files = files);
            return owned.dir.renew(&owned.mark.bytes()?).and(others);
        }
        own.delete(&owned.dir)?;
        owned.remove().and(others)
    }

    /// Takes back what opening did after it failed: deletes what the store made of a new database, and puts back the
    /// one that gave way. Files of others stay. A database that was there and was to be used is left as by
    /// [`DatabaseDirectory::leave`]. Errors: as there.
    pub fn abandon(&mut self, beside: Beside<'_>) -> Result<()> {
        let Some(mut owned) = self.owned.take_if(|owned| owned.new) else {
            return self.leave(beside, true);
        };
        if !is_in_place(&owned.dir)? {
            return Ok(());
        }
        // Without times of birth nobody knows whose a file is, unless all that was there has given way.
        if owned.since_ns.is_some() || owned.former.is_some() {
            owned.files()?.delete(&owned.dir)?;
        }
        match owned.former.take() {
            Some(former) => former.put_back(&owned.dir, beside),
            None => owned.remove(),
        }
    }
}

impl FormerDatabase {
    fn put_back(self, dir: &OwnedDirectory, beside: Beside<'_>) -> Result<()> {
        self.files.put_back()?;
        match self.mark {
            None => dir.remove(),
            Some(mark) if self.sealed => reseal(dir, mark, beside),
            Some(mark) => dir.renew(&mark.bytes()?),
        }
    }
}

/// Seals the mark anew of a database that was moved and put back: a rename changes the times of change in the seal.
fn reseal(dir: &OwnedDirectory, mut mark: DatabaseMark, beside: Beside<'_>) -> Result<()> {
    let naming = mark.identity.naming();
    mark.identity.files = content::seal(&places(dir.path(), beside)?, naming)?;
    dir.renew(&mark.bytes()?)
}

impl OwnedDatabase {
    fn files(&self) -> Result<OwnFiles> {
        OwnFiles::of(self.driver, &self.dir, self.since_ns)
    }

    /// Removes the mark, and the directory where the run made it.
    fn remove(&self) -> Result<()> {
        self.dir.remove()?;
        if self.made_dir {
            // Fails, and the directory stays, where somebody else's files are in it.
            let _ = std::fs::remove_dir(self.dir.path());
        }
        Ok(())
    }
}

impl SeenDirectory {
    /// Moves the database out of the way. Errors: as [`SetAside::of`].
    fn set_aside(&self, request: &DirectoryRequest<'_>) -> Result<FormerDatabase> {
        let path = self.dir.path();
        let mark = self.dir.database()?;
        // Logs beside an unproven database, where its options say, may be another's: their loss was not confirmed.
        let mut beside = if self.proven { (request.beside)(path)? } else { Vec::new() };
        beside.retain(|dir| dir != path);
        let exact = self.dir.exact_path();
        let files = SetAside::of(request.driver, &exact, path, &beside, request.spec.run_id);
        let files = files.inspect_err(|_| {
            let mark = mark.clone().filter(|_| self.proven);
            // The error above matters more than one of this.
            let _ = mark.map(|mark| reseal(&self.dir, mark, request.beside));
        })?;
        Ok(FormerDatabase { files, mark, sealed: self.proven })
    }

    /// Looks again. Errors: `Refused` when the directory, or a file in it or beside, has changed since.
    fn again(&self, beside: Beside<'_>) -> Result<()> {
        in_place(&self.dir)?;
        let path = self.dir.path();
        match self.files == fingerprint(&places(path, beside)?, FileSystemNaming::Itself)? {
            true => Ok(()),
            false => Err(changed(path)),
        }
    }
}

fn changed(path: &Path) -> Error {
    Error::refused("somebody has changed the directory since it was looked at")
        .with("path", path.display())
        .hint("look what is there now, and give the command again")
}

/// Whether the name still means the directory; false where nothing has it. Errors: `Refused` when another
/// one is in the place.
fn is_in_place(dir: &OwnedDirectory) -> Result<bool> {
    match FileIdentity::at(rustix::fs::CWD, dir.path()) {
        Ok(here) if here.same_file(&dir.identity()?) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        _ => Err(Error::refused("the directory of the database was replaced while it was used")
            .with("path", dir.path().display())
            .hint("what is there now was left as it is")),
    }
}

/// As [`is_in_place`]; nothing in the place is `Refused` as well.
fn in_place(dir: &OwnedDirectory) -> Result<()> {
    if is_in_place(dir)? { Ok(()) } else { Err(changed(dir.path())) }
}

/// Writes the run's mark, without a seal: before the first byte of data, so that a later run knows what a killed run
/// left.
fn begin(dir: &OwnedDirectory, mark: &mut DatabaseMark) -> Result<()> {
    in_place(dir)?;
    mark.identity.node = MarkedNode::of(&dir.identity()?, dir.filesystem());
    // From now on the store changes the files.
    mark.identity.files = None;
    match dir.read()? {
        None => dir.create(&mark.bytes()?),
        Some(_) => dir.renew(&mark.bytes()?),
    }
}

/// Makes the directory where it is not there, and opens it.
fn make(path: &Path, stop: &StopFlag) -> Result<OwnedDirectory> {
    match std::fs::create_dir(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
            Err(cannot("cannot make the directory", path, e))
        }
        _ => OwnedDirectory::open(path, stop),
    }
}

/// The directories that hold the data of the database in `path`.
fn places(path: &Path, beside: Beside<'_>) -> Result<Vec<PathBuf>> {
    Ok(std::iter::once(path.to_owned()).chain(beside(path)?).collect())
}

/// Decides what a directory with something in it means for the run that would write `mark`. Errors: `Refused`;
/// `Unavailable` where the database is in use, or cannot be looked at.
fn existing(
    request: &DirectoryRequest<'_>,
    mark: DatabaseMark,
    path: &Path,
    confirmed: bool,
) -> Result<DirectoryDecision> {
    let named = NamedTarget::from(path);
    let dir = OwnedDirectory::open(path, request.spec.stop)?;
    if let Some(aside) = aside::left_behind(path)? {
        // Its options, set aside with it, say where its log is.
        let mut left = vec![aside.display().to_string()];
        for logs in (request.beside)(&aside)? {
            left.extend(aside::left_behind(&logs)?.map(|aside| aside.display().to_string()));
        }
        let (what, hint) = match aside::is_whole(&aside) {
            true => (
                "a run has left the database that was to give way to its own",
                "move all files back to the directory above them, or delete them if nobody needs them",
            ),
            false => (
                "a run has deleted a part of the database that was to give way to its own",
                "delete what is left of it: it is no database any more",
            ),
        };
        return Err(Error::refused(what).with("path", left.join(" and ")).hint(hint));
    }
    aside::archive_is_its_own(dir.fd(), path)?;
    let found = dir.database()?;
    // A mark that was copied here together with its directory says nothing.
    let here = dir.identity()?;
    let differs = found.as_ref().and_then(|f| f.identity.node.difference(&here, dir.filesystem()));
    if let Some(differs) = &differs {
        refusal::another(confirmed, &named, differs)?;
    }
    let found = found.filter(|_| differs.is_none());
    if let Some(found) = &found
        && found.identity.driver != mark.identity.driver
    {
        return Err(Error::refused("the directory holds a database of another driver")
            .with("path", path.display())
            .with("driver", &found.identity.driver)
            .hint("choose another path, or delete the directory"));
    }
    if confirmed || found.is_some() {
        unused(&dir)?;
    }
    // Taken before the proof: as long as the fingerprint is unchanged, what was proven holds.
    let files = fingerprint(&places(path, request.beside)?, FileSystemNaming::Itself)?;
    let proven = match &found {
        Some(found) => proves(&found.identity, &dir, request.beside)?,
        None => false,
    };
    if found.is_some() && !proven {
        refusal::unfinished(confirmed, &named)?;
    }
    let contents = match found {
        Some(_) => Contents::Records,
        None => Contents::Foreign(None),
    };
    let decision = OwnershipMark::decide(&mark, found.as_ref(), contents, confirmed, &named)?;
    Ok(DirectoryDecision { mark, decision, seen: Some(SeenDirectory { dir, files, proven }) })
}

/// Whether the files are those in the seal of the mark, as they were when its run ended. Without a seal (a killed run)
/// nobody can tell what somebody has added or written over since.
fn proves(mark: &DirectoryIdentity, dir: &OwnedDirectory, beside: Beside<'_>) -> Result<bool> {
    let Some(files) = &mark.files else { return Ok(false) };
    content::proves(files, &places(dir.path(), beside)?, mark.naming())
}

/// Checks that no process holds the lock that RocksDB and LevelDB take on a database (fcntl(2)). Errors:
/// `Unavailable` when one does, this one too, or when that cannot be told.
fn unused(dir: &OwnedDirectory) -> Result<()> {
    let failed = |e: io::Error| {
        cannot("cannot tell whether the database is in use", &dir.path().join("LOCK"), e)
    };
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let lock = match openat(dir.fd(), "LOCK", flags, Mode::empty()) {
        Ok(lock) => lock,
        Err(Errno::NOENT) => return Ok(()),
        Err(e) => return Err(failed(e.into())),
    };
    let Some(holder) = lock_holder(&lock).map_err(failed)? else { return Ok(()) };
    if u32::try_from(holder) == Ok(std::process::id()) {
        // Closing the file would free the lock, which this process holds.
        std::mem::forget(lock);
    }
    Err(Error::unavailable("the database is in use by another process")
        .with("path", dir.path().display())
        .hint("end what uses it, or choose another path"))
}

/// The directory that `path` means, with symbolic links resolved, and whether it is absent. Errors: `Usage` where
/// something else is there; those of [`resolve_absent`]; `Unavailable`.
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

/// Whether a directory holds nothing but perhaps a mark and `lost+found`.
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

#[cfg(test)]
mod tests;
