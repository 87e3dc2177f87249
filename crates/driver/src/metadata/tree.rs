//! The directory of the driver: passes the guard, makes the directories that hold files, looks at every name in
//! them, and takes all of it away again where it is not kept.
//!
//! Only what carries the token of the directory's mark, lies where its number says and is of the right kind is
//! the driver's own. Anything else refuses the directory, whatever is confirmed: it is never deleted.
//! Directories are opened one below the other and never through a symlink.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use taillight_core::plan::Plan;
use taillight_core::{Error, OpKind, Result, StopFlag};

use super::form::{LayoutForm, layout_of, sizes_of};
use super::names::{self, EntryName, FileLayout};
use super::options::MetadataOptions;
use crate::contract::OpenSpec;
use crate::guard;
use crate::identity::FileIdentity;
use crate::ownership::sidecar::DatabaseMark;
use crate::ownership::{
    Contents, DirectoryIdentity, HeldMark, MarkStore, MarkedNode, NamedTarget, OwnedDirectory,
    OwnershipDecision, OwnershipMark, SHARED_MARKER, SIDECAR, refusal,
};
use crate::path_error::{cannot, free_space, resolve_absent};
use crate::space;

/// Name of the driver, in marks too.
pub const NAME: &str = "metadata";

/// A directory that holds files.
pub struct LeafDirectory {
    pub fd: OwnedFd,
    /// What stands in front of a name in it, seen from `SharedFiles::base`: empty or a path.
    pub prefix: Box<[u8]>,
}

/// What is in the directories.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TreeContents {
    /// Numbers of files, ascending.
    pub files: Vec<u64>,
    /// Numbers of those files that have their other name.
    pub moved: Vec<u64>,
    /// Numbers of directories, ascending.
    pub directories: Vec<u64>,
}

impl TreeContents {
    /// Files from number `start` on without a gap.
    pub fn without_gap(&self, start: u64) -> u64 {
        TreeContents::in_a_row(&self.files, start)
    }

    /// How many of ascending numbers follow each other from `start` on.
    pub fn in_a_row(numbers: &[u64], start: u64) -> u64 {
        let from = numbers.partition_point(|number| *number < start);
        let run = numbers[from..].iter().zip(start..).take_while(|(is, wanted)| *is == wanted);
        run.count() as u64
    }

    /// One past the highest number of a lane among these, if it has any.
    pub fn next_in(numbers: &[u64], lane: u32, lanes: u32) -> Option<u64> {
        let of = |number: &&u64| **number % u64::from(lanes) == u64::from(lane);
        numbers.iter().rev().find(of).map(|last| last + u64::from(lanes))
    }
}

/// The directory past the guard.
pub struct FileTree {
    dir: OwnedDirectory,
    mark: HeldMark<DirectoryIdentity>,
    made_dir: bool,
    pub layout: FileLayout,
    pub leaves: Vec<LeafDirectory>,
    /// As it was when it was opened.
    pub found: TreeContents,
    /// `leave` was called.
    left: bool,
}

impl Drop for FileTree {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

/// A directory that was looked at.
struct SeenTree {
    dir: OwnedDirectory,
    /// The mark that stands there.
    found: Option<DatabaseMark>,
    /// The one that this run would write.
    mark: DatabaseMark,
    decision: OwnershipDecision<DirectoryIdentity>,
    contents: TreeContents,
}

/// Which directory is meant, whether it is not there yet, and whether its loss is confirmed.
fn named(spec: &OpenSpec<'_>) -> Result<(PathBuf, bool, bool)> {
    let target = &spec.plan.target;
    let path = target.path.as_deref().filter(|p| !p.is_empty()).ok_or_else(|| {
        Error::usage(format!("driver `{NAME}` needs a path"))
            .hint("a directory of its own for the files: --path /mnt/test/meta/")
    })?;
    let (path, absent) = find(path)?;
    let same = |name: &str| find(name).is_ok_and(|(found, _)| found == path);
    let shown = NamedTarget::from(path.as_path());
    let confirmed = refusal::confirmed(target.destroy, spec.destroy, &shown, same)?;
    Ok((path, absent, confirmed))
}

/// The directory that `path` means, and whether it is not there yet. No symlink is left in it.
fn find(path: &str) -> Result<(PathBuf, bool)> {
    let given = Path::new(path);
    match std::fs::canonicalize(given) {
        Ok(real) if real.is_dir() => Ok((real, false)),
        Ok(_) => Err(Error::usage("files are made in a directory, and the path is not one")
            .with("path", path)
            .hint("name a directory, or one that is to be made")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok((resolve_absent(given)?, true)),
        Err(e) => Err(cannot("cannot resolve the path", given, e)),
    }
}

/// What [`FileTree::open`] would refuse; nothing is changed. Errors: as there.
pub fn check(spec: &OpenSpec<'_>, options: &MetadataOptions) -> Result<()> {
    let (path, absent, confirmed) = named(spec)?;
    if absent {
        return room(spec.plan, path.parent().unwrap_or(&path), 0);
    }
    inspect_tree(spec, options, &path, confirmed).map(drop)
}

/// What becomes of a directory that is there.
fn inspect_tree(
    spec: &OpenSpec<'_>,
    options: &MetadataOptions,
    path: &Path,
    confirmed: bool,
) -> Result<SeenTree> {
    let dir = OwnedDirectory::open(path, spec.stop)?;
    let target = NamedTarget::from(path);
    let found = dir.database()?;
    let here = dir.identity()?;
    let differs = found.as_ref().and_then(|f| f.identity.node.difference(&here, dir.filesystem()));
    if let Some(differs) = &differs {
        // A mark that came here with a copy of its directory says nothing.
        refusal::another(false, &target, differs)?;
    }
    if let Some(other) = found.as_ref().filter(|found| found.identity.driver != NAME) {
        return Err(Error::refused("the directory is that of another driver")
            .with("path", path.display())
            .with("driver", &other.identity.driver)
            .hint("choose another path, or delete the directory"));
    }
    let mut form = LayoutForm::of(spec.plan, options);
    form.fill_unset(found.as_ref().filter(|mark| mark.keep && !confirmed), spec.plan);
    let identity = DirectoryIdentity { driver: NAME.to_owned(), ..DirectoryIdentity::default() };
    let mark = DatabaseMark::new(identity, spec.run_id, options.keep, form.text());
    let known = found.as_ref().map(layout_of).transpose()?;
    let contents = survey(&dir, known.as_ref())?;
    let have = contents.files.len() as u64;
    let decided = if have == 0 && contents.directories.is_empty() && known.is_none() {
        Contents::Empty
    } else {
        Contents::Records
    };
    let decision = OwnershipMark::decide(&mark, found.as_ref(), decided, confirmed, &target)?;
    if let (OwnershipDecision::Wipe, Some(killed), false) = (&decision, &found, confirmed) {
        unchanged_since(&dir, killed)?;
    }
    let start = spec.plan.workloads.first().and_then(|w| w.keys.as_ref()).map_or(0, |k| k.start);
    let stays = matches!(decision, OwnershipDecision::Reuse(_));
    let kept = if stays { contents.without_gap(start) } else { 0 };
    if stays {
        not_over(spec.plan, path, kept)?;
    }
    room(spec.plan, path, if stays { kept } else { have })?;
    Ok(SeenTree { dir, found, mark, decision, contents })
}

/// New files come after those that the plan knows of: refuses to create what is there. Errors: `Refused`.
fn not_over(plan: &Plan, path: &Path, there: u64) -> Result<()> {
    let creates = |w: &taillight_core::plan::WorkloadPlan| {
        w.mix.iter().any(|part| part.op.as_record() == OpKind::Insert)
    };
    let count = plan.workloads.first().and_then(|w| w.keys.as_ref()).map_or(0, |k| k.count);
    // One that fills goes on where each worker's files end.
    let fills = |w: &taillight_core::plan::WorkloadPlan| w.passes.is_some();
    let mut creating = plan.workloads.iter().filter(|w| creates(w));
    if there <= count || creating.all(fills) {
        return Ok(());
    }
    Err(Error::refused("the plan would create files that are there")
        .with("path", path.display())
        .with("files", there)
        .with("keys.count", count)
        .hint(format!(
            "set keys.count = {there} to go on after them, or give them up: destroy = true and \
             --destroy {}",
            path.display()
        )))
}

/// Whether the files that are missing fit: bytes and inodes. Errors: `Unavailable`.
fn room(plan: &Plan, dir: &Path, have: u64) -> Result<()> {
    space::fits(plan, have, free_space(dir)?, |w| w.block_size.mean())?;
    let Some(w) = plan.workloads.first() else { return Ok(()) };
    let fs = rustix::fs::statvfs(dir).map_err(|e| cannot("cannot ask for free inodes", dir, e))?;
    let missing = space::records(plan, w).saturating_sub(have);
    // Some file systems count none at all.
    if fs.f_files == 0 || missing <= fs.f_favail {
        return Ok(());
    }
    Err(Error::unavailable("not enough inodes for the files")
        .with("files", missing)
        .with("inodes free", fs.f_favail)
        .with("path", dir.display())
        .hint("make fewer files (keys.count, run.operations), or name a file system with more"))
}

/// Everything in the directory, which must be of `layout`. Errors: `Refused`, naming what is not.
fn survey(dir: &OwnedDirectory, layout: Option<&FileLayout>) -> Result<TreeContents> {
    let mut all = TreeContents::default();
    let stranger = |at: PathBuf| {
        Err(Error::refused("the directory holds something that Taillight did not make")
            .with("path", dir.path().display())
            .with("one of them", at.display())
            .hint("move it away, or name another directory: it is never deleted"))
    };
    let level = layout.map(FileLayout::level);
    let mut at = PathBuf::new();
    let mut here = reopen(dir.fd(), dir.path())?;
    for left in (0..=layout.map_or(0, |layout| layout.depth)).rev() {
        let (mut next, mut leaves) = (None, Vec::new());
        for (name, kind) in listed(&here, &dir.path().join(&at))? {
            let text = String::from_utf8_lossy(&name).into_owned();
            let known = [SIDECAR, SHARED_MARKER].iter().any(|mark| text.starts_with(mark));
            let mark = at.as_os_str().is_empty() && (known || text == "lost+found");
            let nth = layout.and_then(|layout| {
                let nth = text.strip_prefix(&layout.leaf(0)[..layout.leaf(0).len() - 1])?;
                nth.parse::<u32>().ok().filter(|nth| *nth < layout.leaves() && left == 0)
            });
            match nth {
                _ if mark => {}
                Some(nth) if kind == FileType::Directory => leaves.push((nth, text)),
                None if kind == FileType::Directory
                    && left > 0
                    && level.as_ref() == Some(&text) =>
                {
                    next = Some(text);
                }
                _ => return stranger(at.join(text)),
            }
        }
        for (nth, name) in leaves {
            let leaf = there_below(&here, &name, &dir.path().join(&at))?;
            let (Some(leaf), Some(layout)) = (leaf, layout) else { continue };
            if let Some(name) = all.add(&leaf, layout, nth as usize, &dir.path().join(&at))? {
                return stranger(at.join(layout.leaf(nth)).join(name));
            }
        }
        let Some(next) = next else { break };
        let Some(below) = there_below(&here, &next, &dir.path().join(&at))? else { break };
        here = below;
        at.push(next);
    }
    all.files.sort_unstable();
    all.directories.sort_unstable();
    Ok(all)
}

impl TreeContents {
    /// Adds what is in the `nth` directory; the name of something that is not the driver's.
    fn add(
        &mut self,
        leaf: &OwnedFd,
        layout: &FileLayout,
        nth: usize,
        path: &Path,
    ) -> Result<Option<String>> {
        for (name, kind) in listed(leaf, path)? {
            match (layout.entry(nth, &name), kind) {
                (Some(EntryName::File(number)), FileType::RegularFile) => self.files.push(number),
                (Some(EntryName::Moved(number)), FileType::RegularFile) => {
                    self.files.push(number);
                    self.moved.push(number);
                }
                (Some(EntryName::Directory(number)), FileType::Directory) => {
                    self.directories.push(number);
                }
                _ => return Ok(Some(String::from_utf8_lossy(&name).into_owned())),
            }
        }
        Ok(None)
    }
}

/// How much later than its directory a file of a killed run may have been written, ns: each is written once, when it is
/// made, renamed or not.
const WRITING: i64 = 2_000_000_000;
/// A write that a kill cuts short ends with a page.
const PAGE: u64 = 4096;

/// Refuses files that are not as the killed run of a mark leaves them. Errors: `Refused`, naming one.
fn unchanged_since(dir: &OwnedDirectory, killed: &DatabaseMark) -> Result<()> {
    let Some(one) = changed_since(dir, killed)? else { return Ok(()) };
    refusal::unfinished(false, &NamedTarget::from(dir.path()))
        .map_err(|e| e.with("one of them", one.display()))
}

/// A file that is not as the killed run of a mark leaves one: of another size, or written after the last that the run did.
fn changed_since(dir: &OwnedDirectory, killed: &DatabaseMark) -> Result<Option<PathBuf>> {
    let (layout, sizes) = (layout_of(killed)?, sizes_of(killed).unwrap_or(0..=0));
    let mut parent = reopen(dir.fd(), dir.path())?;
    for _ in 0..layout.depth {
        let Some(below) = there_below(&parent, &layout.level(), dir.path())? else {
            return Ok(None);
        };
        parent = below;
    }
    let made = |size: u64| {
        size == 0 || sizes.contains(&size) || size < *sizes.end() && size.is_multiple_of(PAGE)
    };
    let (mut run, mut file) = (i64::MIN, (i64::MIN, None));
    for nth in 0..layout.leaves() {
        let path = dir.path().join(layout.path_of(nth));
        let failed = |e| cannot("cannot stat a file of the run", &path, e);
        let Some(leaf) = there_below(&parent, &layout.leaf(nth), dir.path())? else { continue };
        run = run.max(FileIdentity::of(&leaf).map_err(failed)?.modified_ns);
        for (name, kind) in listed(&leaf, &path)? {
            let is = match FileIdentity::at(&leaf, name.as_slice()) {
                Ok(is) if kind == FileType::RegularFile => is,
                Ok(_) => continue,
                // Another run that begins now may have removed it.
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => return Err(failed(e)),
            };
            let at = path.join(String::from_utf8_lossy(&name).as_ref());
            if !made(is.size) {
                return Ok(Some(at));
            }
            if is.modified_ns > file.0 {
                file = (is.modified_ns, Some(at));
            }
        }
    }
    Ok(file.1.filter(|_| file.0 > run.saturating_add(WRITING)))
}

/// The names in a directory, and what they are: of those whose kind the file system does not tell it is asked.
fn listed(dir: impl AsFd, path: &Path) -> Result<Vec<(Vec<u8>, FileType)>> {
    let failed = |e: Errno| cannot("cannot list the directory", path, e);
    let mut all = Vec::new();
    for entry in Dir::read_from(&dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => {
                let stat = statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW).map_err(failed)?;
                FileType::from_raw_mode(stat.st_mode)
            }
            kind => kind,
        };
        all.push((name.to_bytes().to_owned(), kind));
    }
    Ok(all)
}

const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC).union(OFlags::RDONLY);

fn reopen(dir: impl AsFd, path: &Path) -> Result<OwnedFd> {
    openat(dir, c".", DIRECTORY, Mode::empty())
        .map_err(|e| cannot("cannot open the directory", path, e))
}

/// Opens a directory; none where it is not there, as another run may have removed it.
fn there_below(dir: impl AsFd, name: &str, path: &Path) -> Result<Option<OwnedFd>> {
    match openat(dir, name, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        opened => {
            opened.map(Some).map_err(|e| cannot("cannot open the directory", &path.join(name), e))
        }
    }
}

/// Makes a directory where it is not there, for its owner alone, and opens it.
fn make_below(dir: impl AsFd, name: &str, path: &Path) -> Result<OwnedFd> {
    loop {
        match mkdirat(&dir, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(e) => return Err(cannot("cannot make the directory", &path.join(name), e)),
        }
        // Another run that gives way may remove it between the two.
        if let Some(made) = there_below(&dir, name, path)? {
            return Ok(made);
        }
    }
}

impl FileTree {
    /// Asks the guard, removes what an earlier run left or the user gave up, writes the mark, makes the directories and
    /// locks them. Errors: `Usage` for a path that is no directory, `Refused` by the guard, `Unavailable`.
    pub fn open(spec: &OpenSpec<'_>, options: &MetadataOptions) -> Result<FileTree> {
        let (path, absent, confirmed) = named(spec)?;
        if spec.joins() {
            return FileTree::join(spec, options, &path);
        }
        if absent {
            check(spec, options)?;
            std::fs::create_dir(&path)
                .map_err(|e| cannot("cannot make the directory", &path, e))?;
        }
        let tree = FileTree::begin(spec, options, &path, absent, confirmed);
        if tree.is_err() && absent {
            // Whatever was made in it stays, with its mark.
            let _ = std::fs::remove_dir(&path);
        }
        tree
    }

    /// Opens beside rank 0 what that has made ready: its mark is compared, and stays its own. Errors: `Refused` where
    /// the directory is another one.
    fn join(spec: &OpenSpec<'_>, options: &MetadataOptions, path: &Path) -> Result<FileTree> {
        let dir = OwnedDirectory::open(path, spec.stop)?;
        let mark = dir.database()?;
        let here = dir.identity()?;
        let mut form = LayoutForm::of(spec.plan, options);
        form.fill_unset(mark.as_ref(), spec.plan);
        let fits = |mark: &DatabaseMark| {
            mark.identity.driver == NAME
                && mark.identity.node.is(&here, dir.filesystem())
                && mark.form == form.text()
        };
        let mark = mark.filter(fits).ok_or_else(|| {
            Error::refused("the directory is not as rank 0 has made it ready for all ranks")
                .with("path", path.display())
                .hint("name a directory on a file system that all hosts share")
        })?;
        let layout = layout_of(&mark)?;
        let found = survey(&dir, Some(&layout))?;
        let leaves = open_leaves(&dir, &layout)?;
        let mark = HeldMark::new(mark, false);
        // Rank 0 takes it away.
        Ok(FileTree { mark, dir, made_dir: false, layout, leaves, found, left: true })
    }

    fn begin(
        spec: &OpenSpec<'_>,
        options: &MetadataOptions,
        path: &Path,
        made_dir: bool,
        confirmed: bool,
    ) -> Result<FileTree> {
        let seen = inspect_tree(spec, options, path, confirmed)?;
        let SeenTree { dir, found: mut there, mut mark, decision, contents } = seen;
        if let (OwnershipDecision::Wipe, Some(gone)) = (&decision, &mut there) {
            let layout = layout_of(gone)?;
            // Another run may be at it, or just begin: it looks at its mark once more.
            let leaves = open_leaves(&dir, &layout)?;
            alone(&leaves, path)?;
            let claimed = DatabaseMark { last_run: spec.run_id.to_owned(), ..gone.clone() };
            if let Err(e) = dir.exchange(Some(gone), &claimed) {
                // The run that has it removed these, and they were made once more.
                let _ = remove_dirs(&dir, &layout, &mut |_, _| Ok(()));
                return Err(e);
            }
            *gone = claimed;
            remove_all(&dir, &layout)?;
        }
        let reuses = matches!(decision, OwnershipDecision::Reuse(_));
        let mut found = TreeContents::default();
        if let OwnershipDecision::Reuse(kept) = decision {
            (mark, found) = (kept, contents);
        }
        mark.identity.node = MarkedNode::of(&dir.identity()?, dir.filesystem());
        // What another run has written since then stays.
        dir.exchange(there.as_ref(), &mark)?;
        let layout = layout_of(&mark)?;
        names::check(&layout)?;
        let leaves = open_leaves(&dir, &layout)?;
        if let Err(e) = alone(&leaves, path).and_then(|()| still_own(&dir, &mark)) {
            if !reuses {
                let _ = remove_all(&dir, &layout);
            }
            return Err(e);
        }
        Ok(FileTree {
            mark: HeldMark::new(mark, false),
            dir,
            made_dir,
            layout,
            leaves,
            found,
            left: false,
        })
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The target's own directory, from which paths of leaves with levels begin.
    pub fn base(&self) -> &OwnedFd {
        self.dir.fd()
    }

    /// Everything in the directory now. Errors: `Refused`, naming what is not the driver's.
    pub fn survey(&self) -> Result<TreeContents> {
        survey(&self.dir, Some(&self.layout))
    }

    /// Removes every file and directory of the driver's in the directories, which stay. Errors: `Unavailable`.
    pub fn clear(&self) -> Result<()> {
        let mut leaves = self.leaves.iter().zip(0..);
        leaves.try_for_each(|(leaf, nth)| remove_in(&leaf.fd, &self.layout, nth, self.path()))
    }

    /// Leaves what is kept, and takes away the rest. Errors: `Refused` when something else was put there, which
    /// stays; `Unavailable`.
    pub fn leave(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.left, true) {
            return Ok(());
        }
        let there = self.survey();
        if self.mark.keeps() {
            let there = there?;
            if !(there.files.is_empty() && there.directories.is_empty()) {
                return Ok(());
            }
            // Nothing is left to be kept.
        }
        remove_all(&self.dir, &self.layout)?;
        self.leaves.clear();
        self.survey()?;
        self.dir.remove()?;
        if self.made_dir {
            // Not empty any more: somebody else's files are in it, so it stays.
            let _ = std::fs::remove_dir(self.dir.path());
        }
        Ok(())
    }
}

/// As [`remove_kept`], of a run that was ended before its time: where a file was changed since, all stays. Errors: as
/// there, and `Refused` for such a file.
pub fn take_back(path: &Path, runs: &[String]) -> Result<()> {
    let (dir, mark) = made_by(path, runs)?;
    unchanged_since(&dir, &mark)?;
    remove_made(&dir, &mark)
}

/// Removes what is kept in a directory that one of these runs made, and its mark; the directory stays, and so does
/// whatever else is in it. Errors: `Refused` when another run uses it or something else is in it (the mark then
/// stays), `Unavailable` when the mark is not of these runs or something cannot be removed.
pub fn remove_kept(path: &Path, runs: &[String]) -> Result<()> {
    let (dir, mark) = made_by(path, runs)?;
    remove_made(&dir, &mark)
}

/// A directory that one of these runs made, and its mark. Errors: `Unavailable` when the mark is not of these runs.
fn made_by(path: &Path, runs: &[String]) -> Result<(OwnedDirectory, DatabaseMark)> {
    let dir = OwnedDirectory::open(path, &StopFlag::default())?;
    let mark = dir.database()?;
    let here = dir.identity()?;
    let same = |mark: &DatabaseMark| {
        mark.identity.driver == NAME
            && runs.contains(&mark.run_id)
            && mark.identity.node.is(&here, dir.filesystem())
    };
    let mark = mark.filter(same).ok_or_else(|| {
        Error::unavailable("the directory has no mark of these runs").with("path", path.display())
    })?;
    Ok((dir, mark))
}

/// Removes what is the driver's in the directory of a mark, and the mark.
fn remove_made(dir: &OwnedDirectory, mark: &DatabaseMark) -> Result<()> {
    let layout = layout_of(mark)?;
    let leaves = open_leaves(dir, &layout)?;
    alone(&leaves, dir.path())?;
    remove_all(dir, &layout)?;
    survey(dir, Some(&layout))?;
    dir.remove()
}

/// Takes the directories for this run. Errors: `Refused` when another one has them.
fn alone(leaves: &[LeafDirectory], path: &Path) -> Result<()> {
    let Some(first) = leaves.first() else { return Ok(()) };
    match flock(&first.fd, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(guard::in_use(path, "another run makes files there")),
        // A file system without locks: two runs there are on their own.
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Looks whether another run took the directory before its locks were there. Errors: `Refused`.
fn still_own(dir: &OwnedDirectory, mark: &DatabaseMark) -> Result<()> {
    let there = dir.database()?;
    match there.as_ref() == Some(mark) {
        true => Ok(()),
        false => Err(guard::in_use(dir.path(), "another run took it at the same time")),
    }
}

/// Opens the directories that hold files, and makes those that are missing. Errors: `Unavailable`.
fn open_leaves(dir: &OwnedDirectory, layout: &FileLayout) -> Result<Vec<LeafDirectory>> {
    let (mut parent, mut path) = (reopen(dir.fd(), dir.path())?, dir.path().to_owned());
    for _ in 0..layout.depth {
        parent = make_below(&parent, &layout.level(), &path)?;
        path.push(layout.level());
    }
    let leaf = |nth| {
        let prefix = if layout.depth == 0 { String::new() } else { layout.path_of(nth) + "/" };
        let fd = make_below(&parent, &layout.leaf(nth), &path)?;
        Ok(LeafDirectory { fd, prefix: prefix.into_bytes().into() })
    };
    (0..layout.leaves()).map(leaf).collect()
}

/// Removes all that is the driver's, the directories that hold files too.
fn remove_all(dir: &OwnedDirectory, layout: &FileLayout) -> Result<()> {
    remove_dirs(dir, layout, &mut |leaf, nth| remove_in(leaf, layout, nth, dir.path()))
}

/// Removes the directories that hold files where they are empty, each after something was done in it.
fn remove_dirs(
    dir: &OwnedDirectory,
    layout: &FileLayout,
    first: &mut dyn FnMut(&OwnedFd, usize) -> Result<()>,
) -> Result<()> {
    let mut levels = vec![reopen(dir.fd(), dir.path())?];
    for _ in 0..layout.depth {
        let Some(parent) = levels.last() else { break };
        let Some(level) = there_below(parent, &layout.level(), dir.path())? else { break };
        levels.push(level);
    }
    let failed = |e: Errno| cannot("cannot remove a directory of the run", dir.path(), e);
    let lowest = levels.last().filter(|_| levels.len() as u32 == layout.depth + 1);
    if let Some(parent) = lowest {
        for nth in 0..layout.leaves() {
            let name = layout.leaf(nth);
            let Some(leaf) = there_below(parent, &name, dir.path())? else { continue };
            first(&leaf, nth as usize)?;
            match unlinkat(parent, &*name, AtFlags::REMOVEDIR) {
                // Somebody else's files are in it: they are named later.
                Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => {}
                Err(e) => return Err(failed(e)),
            }
        }
    }
    for parent in levels.iter().rev().skip(1) {
        match unlinkat(parent, &*layout.level(), AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => {}
            Err(e) => return Err(failed(e)),
        }
    }
    Ok(())
}

/// Removes what is the driver's in one directory.
fn remove_in(leaf: &OwnedFd, layout: &FileLayout, nth: usize, path: &Path) -> Result<()> {
    for (name, kind) in listed(leaf, path)? {
        let flags = match (layout.entry(nth, &name), kind) {
            (Some(EntryName::File(_) | EntryName::Moved(_)), FileType::RegularFile) => {
                AtFlags::empty()
            }
            (Some(EntryName::Directory(_)), FileType::Directory) => AtFlags::REMOVEDIR,
            _ => continue,
        };
        let mut terminated = name.clone();
        terminated.push(0);
        let name_of = CStr::from_bytes_until_nul(&terminated).unwrap_or_default();
        match unlinkat(leaf, name_of, flags) {
            Ok(()) | Err(Errno::NOENT | Errno::NOTEMPTY) => {}
            Err(e) => {
                let path = path.join(String::from_utf8_lossy(&name).as_ref());
                return Err(cannot("cannot remove a file of the run", &path, e));
            }
        }
    }
    Ok(())
}
