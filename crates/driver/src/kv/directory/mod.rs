//! The directory of a database: found, claimed by the rules of `ownership`, and left in the end.
//!
//! Decides before anything is touched, and looks again directly before it is. A database is Taillight's when
//! the mark in its directory names that directory and the very files in it, as they were when the last run
//! ended. Everything else, what a killed run left too, needs `destroy` and `--destroy`. What this run made is deleted
//! at the end unless it is kept; what was kept before stays.

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
    pub log: Option<&'a LogElsewhere>,
    pub beside: Beside<'a>,
}

/// Other directories in which the database in a directory keeps data.
pub type Beside<'a> = &'a dyn Fn(&Path) -> Result<Vec<PathBuf>>;

/// A database directory past the guard.
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
    /// The directory itself goes too.
    made_dir: bool,
    /// There was no database, or it went.
    new: bool,
    /// When a new one was begun, where the file system keeps times of birth: what is older is somebody else's.
    since_ns: Option<i64>,
    /// The database that gives way, until the new one is in use.
    former: Option<FormerDatabase>,
}

/// A database that gives way to that of the run.
struct FormerDatabase {
    files: SetAside,
    /// The mark that it had.
    mark: Option<DatabaseMark>,
    /// The mark proved that all of it is Taillight's: put back, it is marked so again.
    sealed: bool,
}

/// A directory with something in it, as it was looked at.
struct SeenDirectory {
    dir: OwnedDirectory,
    /// All files, those beside too.
    files: String,
    /// The mark proves that all of it, logs beside too, is Taillight's.
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

    /// Finds the directory, asks the guard, makes directory and mark. A database that is there and must not
    /// stay is set aside, once `try_out` has tried all that the run needs; [`DatabaseDirectory::settled`]
    /// deletes it, and [`DatabaseDirectory::abandon`] puts it back. Errors: `Usage` for a path that is no
    /// directory, `Refused` by the guard, or when somebody else was there meanwhile, `Unavailable`; then all
    /// is as it was.
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
        // The decision holds for what was looked at: directly before anything of it is changed.
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

    /// How the store opens the database.
    pub fn opens(&self) -> OpenAs {
        match &self.owned {
            None => OpenAs::ReadOnly,
            Some(owned) if owned.new => OpenAs::New,
            Some(_) => OpenAs::Existing,
        }
    }

    /// Whether the run leaves the database behind.
    pub fn keeps(&self) -> bool {
        self.owned.as_ref().is_none_or(|owned| owned.mark.keeps())
    }

    /// Checks that the path still means the directory that is used, and gives a path to that very one.
    /// Errors: `Refused` when it does not.
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

    /// Takes note of `records`. Errors: `Unavailable` when the note cannot be written.
    pub fn note(&self, records: u64) -> Result<()> {
        match &self.owned {
            Some(owned) => owned.mark.note(&owned.dir, records),
            None => Ok(()),
        }
    }

    /// The new database is in use: the one that gave way goes. Errors: `Unavailable` when it cannot be deleted; it can be
    /// put back where nothing of it is gone.
    pub fn settled(&mut self) -> Result<()> {
        let Some(former) = self.owned.as_mut().map(|owned| &mut owned.former) else {
            return Ok(());
        };
        let done = former.as_mut().map_or(Ok(()), |former| former.files.delete());
        former.take_if(|former| former.files.is_empty());
        done
    }

    /// Errors: `Target` when files are in the directory that are named like the store's, and are not: it
    /// would delete them.
    pub fn check_foreign(&self) -> Result<()> {
        self.owned.as_ref().map_or(Ok(()), |owned| owned.files()?.alone(&self.path))
    }

    /// Deletes the database; its directory and mark stay. It is closed. Errors: as
    /// [`DatabaseDirectory::check_foreign`], and `Unavailable` when something cannot be deleted.
    pub fn clear(&self) -> Result<()> {
        let Some(owned) = &self.owned else { return Ok(()) };
        in_place(&owned.dir)?;
        let files = owned.files()?;
        files.alone(&self.path)?;
        files.delete(&owned.dir)
    }

    /// Leaves all as it is, with the mark of a run that did not end: a later run deletes it only where that is confirmed.
    pub fn forsake(&mut self) {
        self.owned = None;
    }

    /// Deletes what goes: the database, then the mark, then the directory. Seals the mark of what stays with
    /// its files, in `beside` too, where it is known to be `whole` and nobody else's. The database is closed.
    /// Errors: `Unavailable` when something cannot be removed, `Refused` when another directory is in the
    /// place, `Target` when somebody has put files there that are named like the store's; they stay.
    pub fn leave(&mut self, beside: Beside<'_>, whole: bool) -> Result<()> {
        let Some(owned) = self.owned.take() else { return Ok(()) };
        if !is_in_place(&owned.dir)? {
            // Somebody deleted it.
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

    /// Puts things in order after the store has not opened the database: deletes what it made of a new one,
    /// puts back what gave way, and leaves what somebody has put there meanwhile. Errors: as
    /// [`DatabaseDirectory::leave`].
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

/// Writes the mark of a database that was moved and put back: renamed, its files have another time of change.
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
            // Not empty any more: somebody else's files are in it, so it stays.
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
        // What a foreign database's options say lies beside it may be another one's: it is no part of what was
        // confirmed.
        let mut beside = if self.proven { (request.beside)(path)? } else { Vec::new() };
        beside.retain(|dir| dir != path);
        let exact = self.dir.exact_path();
        let files = SetAside::of(request.driver, &exact, path, &beside, request.spec.run_id);
        let files = files.inspect_err(|_| {
            let mark = mark.clone().filter(|_| self.proven);
            // The reason matters more.
            let _ = mark.map(|mark| reseal(&self.dir, mark, request.beside));
        })?;
        Ok(FormerDatabase { files, mark, sealed: self.proven })
    }

    /// Errors: `Refused` when the directory, or a file in it, is another one by now.
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

/// As [`is_in_place`]; nothing in the place is an error as well.
fn in_place(dir: &OwnedDirectory) -> Result<()> {
    if is_in_place(dir)? { Ok(()) } else { Err(changed(dir.path())) }
}

/// Writes the mark of the run: before the first byte of data, so that a killed run leaves what the next one
/// knows.
fn begin(dir: &OwnedDirectory, mark: &mut DatabaseMark) -> Result<()> {
    in_place(dir)?;
    mark.identity.node = MarkedNode::of(&dir.identity()?, dir.filesystem());
    // From now on the store changes them.
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

/// What a directory with something in it means for the run that would write `mark`.
fn existing(
    request: &DirectoryRequest<'_>,
    mark: DatabaseMark,
    path: &Path,
    confirmed: bool,
) -> Result<DirectoryDecision> {
    let named = NamedTarget::from(path);
    let dir = OwnedDirectory::open(path, request.spec.stop)?;
    if let Some(aside) = aside::left_behind(path)? {
        // Where its log is say the options that were set aside with it.
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
    // A mark that came here with a copy of its directory says nothing.
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
    // Before anything is proven of it, so that all that is proven still holds while this does.
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

/// Whether all in the database is Taillight's: as it was when its run ended. Of what a killed run left nobody can
/// tell what somebody has added or written over since.
fn proves(mark: &DirectoryIdentity, dir: &OwnedDirectory, beside: Beside<'_>) -> Result<bool> {
    let Some(files) = &mark.files else { return Ok(false) };
    content::proves(files, &places(dir.path(), beside)?, mark.naming())
}

/// Whether nobody holds the lock that RocksDB and LevelDB take on a database (fcntl(2)). Errors:
/// `Unavailable` when somebody does, or that cannot be told.
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
        // Closing it would free the lock, which is this process's own.
        std::mem::forget(lock);
    }
    Err(Error::unavailable("the database is in use by another process")
        .with("path", dir.path().display())
        .hint("end what uses it, or choose another path"))
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
