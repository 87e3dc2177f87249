//! Carrying out what was decided: creating, marking, sizing and filling files, and filling the file
//! system to a level by a file of its own.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, fstat, ftruncate, openat, statat};
use rustix::io::Errno;
use taillight_core::progress::OnProgress;
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};

use crate::buffers::Buffers;
use crate::file::fill_level::{self, Room};
use crate::file::layout::{self, LayoutProgress};
use crate::path_error::cannot;

use crate::file::existing::{DataFile, ExistingFile, FileOpenSpec, lock};
use crate::file::path::FileSet;
use crate::file::plan::{self, FilePreparation, no_extents};
use crate::guard;
use crate::identity::FileIdentity;
use crate::ownership::files::MarkOrigin;
use crate::ownership::{FileMark, MarkedFiles, OwnedDirectory};

/// Files ready for sessions.
pub struct PreparedFiles {
    /// Descriptors, in order; whether O_DIRECT is set is settled later (`check_io`).
    pub files: Vec<OwnedFd>,
    /// Bytes of each that are used.
    pub file_size: u64,
    /// What to delete in the end.
    pub made: MarkedFiles,
    /// Facts for the manifest.
    pub facts: Vec<(String, String)>,
}

/// Creates, marks, sizes and fills. Errors: `Refused` where a file came into use or was changed meanwhile,
/// `Unavailable` when it cannot be done or progress says stop; what was made is then deleted,
/// unless it has a mark that keeps it.
pub fn prepare(
    entries: Vec<DataFile>,
    preparations: &[FilePreparation],
    file_size: u64,
    mut made: MarkedFiles,
    request: &FileOpenSpec<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<PreparedFiles> {
    // The decision is a moment old: room and memory were tried since.
    let foreign = plan::foreign(&entries, preparations, &request.needs);
    if let Some((_, first)) = foreign.first() {
        guard::again(foreign.iter().map(|(fd, _)| *fd), first, request.spec.stop)?;
    }
    let size_of = |n: usize| request.options.size_of(n, file_size);
    let to_fill = preparations.iter().enumerate().filter(|(_, s)| s.fills());
    let (to_fill, total) = to_fill.fold((0_u64, 0), |(n, sum), (at, _)| (n + 1, sum + size_of(at)));
    let mut meter = LayoutProgress { on: progress, what: "laying out", done: 0, total };
    let (mut new, mut reused) = (0, 0);
    let stays = |found: &DataFile| {
        let mark = found.existing.as_ref().and_then(|file| file.mark.as_ref());
        mark.is_some_and(|mark| mark.keep) && !request.options.unlink
    };
    let kept = entries.iter().any(stays);
    let mut allocates = false;
    let mut held = Vec::with_capacity(entries.len());
    for (n, (found, preparation)) in entries.into_iter().zip(preparations).enumerate() {
        let file_size = size_of(n);
        let is_new = found.existing.is_none();
        let blocks = found.existing.as_ref().map_or(0, ExistingFile::allocated);
        let writes = request.needs.writes && !preparation.fills();
        allocates |= writes && (*preparation == FilePreparation::Truncate || blocks < file_size);
        let whole = file_size.saturating_add(request.options.tail.0);
        held.push(take_over(found, *preparation, whole, &mut made, request)?);
        new += u32::from(is_new);
        reused += u32::from(!is_new);
    }
    let filler = fill_file(&mut made, request)?;
    made.note()?;
    // All that can be told before the first of them is given up.
    for (held, preparation) in held.iter().zip(preparations) {
        writable(*preparation, held, made.dir())?;
    }
    let mut buffers = layout::chunk()?;
    for (n, (held, preparation)) in held.iter().zip(preparations).enumerate() {
        let seed = request.spec.plan.run.seed.wrapping_add(n as u64);
        let shape = FileShape {
            size: size_of(n),
            extent: request.options.extent().unwrap_or(0),
            tail: request.options.tail.0,
        };
        perform(*preparation, held, &shape, seed, &mut buffers, &mut made, &mut meter)?;
    }
    let filled = held.iter().zip(preparations).filter(|(_, preparation)| preparation.fills());
    let filled: Vec<_> = filled.map(|(held, _)| held.file.as_fd()).collect();
    layout::sync(&filled, made.dir().fd().as_fd())?;
    let ready: Vec<OwnedFd> = held.into_iter().map(|held| held.file).collect();
    let filled = filler.map(|file| fill_up(&file, &made, request, meter.on)).transpose()?;
    made.seal()?;
    let fragments = fragments(&ready, file_size, request)?;
    let mut facts = vec![
        ("files.new".to_owned(), new.to_string()),
        ("files.reused".to_owned(), reused.to_string()),
        ("files.laid_out".to_owned(), to_fill.to_string()),
        ("files.writes_allocate".to_owned(), allocates.to_string()),
        ("files.kept".to_owned(), (kept || made.keeps()).to_string()),
    ];
    facts.extend(filled.into_iter().flatten());
    facts.extend(fragments);
    if request.grows() {
        facts.push(("files.grows".to_owned(), true.to_string()));
    }
    Ok(PreparedFiles { files: ready, file_size, made, facts })
}

/// How many extents the files have, for the manifest, where a size of them is asked for. Errors:
/// `Unavailable` when the file system has put them together or cannot say.
fn fragments(
    files: &[OwnedFd],
    file_size: u64,
    request: &FileOpenSpec<'_>,
) -> Result<Vec<(String, String)>> {
    let Some(extent) = request.options.extent() else { return Ok(Vec::new()) };
    let mut found = 0;
    for file in files {
        found += plan::extents_of(file, file_size, extent)?;
    }
    let mean = file_size * files.len() as u64 / found.max(1);
    Ok(vec![
        ("extents.asked".to_owned(), ByteSize(extent).to_string()),
        ("extents.found".to_owned(), found.to_string()),
        ("extents.mean_bytes".to_owned(), mean.to_string()),
    ])
}

/// Whether the file system can be filled to the level that is asked for, once the data takes `grows`
/// bytes more. Errors: `Usage` where it is fuller, `Refused` for a file of somebody else in the place of
/// the one that fills it.
pub fn check_fill(
    file_set: &FileSet,
    dir: Option<&OwnedDirectory>,
    grows: u64,
    request: &FileOpenSpec<'_>,
) -> Result<()> {
    let level = request.options.fill;
    if !level.is_asked() {
        return Ok(());
    }
    let held = dir.map_or(Ok(None), fill_blocks)?.unwrap_or(0);
    let there = file_set.nearest_dir();
    let room = Room::of(OwnedDirectory::open(there, request.spec.stop)?.fd())?;
    let then = Room {
        used: room.used.saturating_add(grows),
        available: room.available.saturating_sub(grows),
    };
    match then.missing(level, held) {
        Some(bytes) => plan::largest(bytes, &there.join(fill_level::NAME)),
        None => Err(Error::usage("the file system is fuller than `fill` asks")
            .with("path", there.display())
            .with("with the data", then.level())
            .with("asked", level)
            .hint("ask for a higher level, or free some space")),
    }
}

/// Bytes that the file which fills the file system takes now, if it is there. Errors: `Refused` for a file
/// of somebody else in its place.
fn fill_blocks(dir: &OwnedDirectory) -> Result<Option<u64>> {
    let failed = |e| cannot("cannot stat the file", &dir.path().join(fill_level::NAME), e);
    let found = match FileIdentity::at(dir.fd(), fill_level::NAME) {
        Ok(found) => found,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(e)),
    };
    let stat = statat(dir.fd(), fill_level::NAME, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|e| failed(e.into()))?;
    fills(dir, &found)?;
    Ok(Some(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)))
}

/// The mark of a file that is ours and fills the file system. Errors: `Refused` where it is not.
fn fills(dir: &OwnedDirectory, found: &FileIdentity) -> Result<FileMark> {
    let mut marks = dir.marks()?.into_iter();
    let mark = marks.find(|m| m.name == fill_level::NAME && dir.proves(m, found));
    mark.ok_or_else(|| {
        Error::refused(
            "a file is in the way that Taillight did not make, or that was changed since",
        )
        .with("path", dir.path().join(fill_level::NAME).display())
        .hint("delete it if nobody needs it, move it away, or leave `fill` out")
    })
}

/// The file of ours that fills the file system, where a level is asked for, under this run's mark. Errors: as
/// [`check_fill`], `Unavailable` when it cannot be had.
fn fill_file(made: &mut MarkedFiles, request: &FileOpenSpec<'_>) -> Result<Option<OwnedFd>> {
    if !request.options.fill.is_asked() {
        return Ok(None);
    }
    let path = made.dir().path().join(fill_level::NAME);
    let failed = |e: Errno| cannot("cannot fill the file system", &path, e);
    let held = fill_blocks(made.dir())?;
    // What is there is ours, or appeared since it was looked at: that is not opened.
    let new = if held.is_some() { OFlags::empty() } else { OFlags::CREATE | OFlags::EXCL };
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC | new;
    let file = openat(made.dir().fd(), fill_level::NAME, flags, Mode::from_raw_mode(0o600));
    let file = file.map_err(failed)?;
    lock(&file, &path, true)?;
    let found = FileIdentity::of(&file).map_err(|e| cannot("cannot stat the file", &path, e))?;
    // What was opened, in case the name came to mean another file.
    let earlier = held.map(|_| fills(made.dir(), &found)).transpose()?;
    let (fs, run) = (made.dir().filesystem(), request.spec.run_id);
    let keep = request.options.keep || earlier.is_some_and(|mark| mark.keep);
    let mark = FileMark::new(fill_level::NAME, &found, fs, run, keep);
    let origin = if held.is_some() { MarkOrigin::Proven } else { MarkOrigin::Made };
    made.take(mark, origin, None, None);
    Ok(Some(file))
}

/// Fills the file system up to the level that is asked for, by `file`; what was reached, for the manifest.
/// Errors: `Unavailable` when it cannot be written.
fn fill_up(
    file: &OwnedFd,
    made: &MarkedFiles,
    request: &FileOpenSpec<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<Vec<(String, String)>> {
    let level = request.options.fill;
    let path = made.dir().path().join(fill_level::NAME);
    let failed = |e: Errno| cannot("cannot fill the file system", &path, e);
    let stat = fstat(file).map_err(failed)?;
    let held = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    // The data may have reached the level by what the file system noted down of it.
    let bytes = Room::of(made.dir().fd())?.missing(level, held).unwrap_or(0);
    ftruncate(file, bytes).map_err(failed)?;
    let empty = layout::holes(file.as_fd(), bytes).unwrap_or(bytes);
    if empty > 0 {
        let what = "filling the file system";
        let mut meter = LayoutProgress { on: progress, what, done: 0, total: bytes };
        // Numbers of its own: not the data of the first file again.
        layout::fill(file.as_fd(), bytes, !request.spec.plan.run.seed, &mut meter)?;
    }
    Ok(vec![
        ("fill.asked".to_owned(), level.to_string()),
        ("fill.reached".to_owned(), Room::of(made.dir().fd())?.level()),
        ("fill.bytes".to_owned(), bytes.to_string()),
    ])
}

/// A file that is ours to prepare, or only to read.
struct OpenFile {
    file: OwnedFd,
    name: String,
    size: u64,
    /// What it was when it was looked at, where it was proven then: it must still be that.
    seen: Option<FileIdentity>,
}

/// Creates what is absent, and puts what is ours under a mark.
fn take_over(
    found: DataFile,
    preparation: FilePreparation,
    file_size: u64,
    made: &mut MarkedFiles,
    request: &FileOpenSpec<'_>,
) -> Result<OpenFile> {
    let (keep, grows) = (request.options.keep, request.grows());
    let stays = |earlier: &FileMark| earlier.keep && !request.options.unlink;
    let name = found.name;
    let fs = made.dir().filesystem().clone();
    let mark_of =
        |file: &FileIdentity, keep| FileMark::new(&name, file, &fs, request.spec.run_id, keep);
    let Some(existing) = found.existing else {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let flags = flags | OFlags::CLOEXEC;
        let created = openat(made.dir().fd(), name.as_str(), flags, Mode::from_raw_mode(0o644));
        let file = created.map_err(|e| no_create(&found.path, e))?;
        let identity = FileIdentity::of(&file).map_err(|e| no_create(&found.path, e))?;
        made.take(
            mark_of(&identity, keep),
            MarkOrigin::Made,
            None,
            Some(file_size).filter(|_| !grows),
        );
        lock(&file, &found.path, true)?;
        return Ok(OpenFile { file, name, size: 0, seen: None });
    };
    let (size, identity) = (existing.size(), existing.identity);
    // What stays anyway and is only read needs no other mark than it has, and may lie where none can be written.
    let only_read = preparation == FilePreparation::Nothing && !request.needs.changes();
    let mark = match &existing.mark {
        // Rank 0 has marked it, and sees to it in the end.
        Some(_) if request.shared_as().is_some_and(|rank| rank > 0) => None,
        Some(earlier) if only_read && existing.proven && stays(earlier) => None,
        // What an earlier run was asked to keep stays; what it left by accident goes.
        Some(earlier) => Some(mark_of(&identity, stays(earlier) || keep)),
        // Empty and not ours: usable, never deleted.
        None if size == 0 => Some(mark_of(&identity, true)),
        None => None,
    };
    if let Some(mut mark) = mark {
        if preparation == FilePreparation::Nothing && existing.proven {
            mark.seal(&identity, existing.mark.as_ref().and_then(|earlier| earlier.data.clone()));
        }
        // The file has its former size again in the end, unless it is to be kept.
        let former = (mark.keep && !keep && !grows && size < file_size).then_some(size);
        let most = Some(size.max(file_size)).filter(|_| !grows);
        made.take_seen(mark, identity, existing.proven, former, most);
    }
    let seen = Some(identity).filter(|_| existing.proven);
    Ok(OpenFile { file: existing.fd, name, size, seen })
}

fn no_create(path: &Path, e: impl Into<std::io::Error>) -> Error {
    cannot("cannot create the file", path, e)
}

/// Checks that a file is what was looked at; then opens and locks it for its preparation, `None` if it needs none.
/// Errors: `Refused` where it is another, or somebody uses it, `Unavailable` where it cannot be written.
fn writable(
    preparation: FilePreparation,
    held: &OpenFile,
    dir: &OwnedDirectory,
) -> Result<Option<OwnedFd>> {
    if preparation == FilePreparation::Nothing && held.seen.is_none() {
        return Ok(None);
    }
    let failed = |what: &str, e: Errno| cannot(what, &dir.path().join(&held.name), e);
    let changed = || {
        Error::refused("the file was replaced or changed while it was opened")
            .with("path", dir.path().join(&held.name).display())
            .hint("look what else uses it, then run again")
    };
    let now = FileIdentity::of(&held.file).ok();
    if held.seen.is_some() && held.seen != now {
        return Err(changed());
    }
    if preparation == FilePreparation::Nothing {
        return Ok(None);
    }
    // A plan that only reads holds the file read-only; preparing it takes a second descriptor
    // to the very same inode.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let writable = openat(dir.fd(), held.name.as_str(), flags, Mode::empty())
        .map_err(|e| failed("cannot open the file for writing", e))?;
    let opened = FileIdentity::of(&writable).ok();
    if !opened.zip(now).is_some_and(|(opened, now)| opened.same_file(&now)) {
        return Err(changed());
    }
    // A plan that only reads shares the file with others of its kind until here.
    lock(&held.file, &dir.path().join(&held.name), true)?;
    Ok(Some(writable))
}

/// What a file is to be, in bytes.
struct FileShape {
    size: u64,
    /// Bytes of each extent, where extents are to lie apart; else 0.
    extent: u64,
    /// Behind the data.
    tail: u64,
}

fn perform(
    preparation: FilePreparation,
    held: &OpenFile,
    shape: &FileShape,
    seed: u64,
    buffers: &mut Buffers,
    made: &mut MarkedFiles,
    meter: &mut LayoutProgress<'_, '_>,
) -> Result<()> {
    let Some(writable) = writable(preparation, held, made.dir())? else { return Ok(()) };
    let path = made.dir().path().join(&held.name);
    made.changes(&held.name);
    let failed = |what: &str, e: Errno| cannot(what, &path, e);
    if preparation == FilePreparation::Truncate {
        return ftruncate(&writable, 0).map_err(|e| failed("cannot empty the file", e));
    }
    let whole = shape.size.saturating_add(shape.tail);
    if held.size < whole {
        ftruncate(&writable, whole).map_err(|e| failed("cannot set the file's size", e))?;
    }
    if preparation == FilePreparation::Fragment {
        let fragmented = |e| no_extents(&path, shape.extent, e);
        ftruncate(&writable, 0).map_err(|e| failed("cannot empty the file", e))?;
        layout::apart(writable.as_fd(), shape.size, shape.extent).map_err(fragmented)?;
        ftruncate(&writable, whole).map_err(|e| failed("cannot set the file's size", e))?;
    }
    match preparation {
        FilePreparation::Fill | FilePreparation::Fragment => {
            layout::write(writable.as_fd(), shape.size, seed, buffers, meter)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::{ErrorKind, StopFlag};

    use super::*;

    #[test]
    fn what_was_opened_to_be_filled_is_what_its_mark_names() {
        let tmp = tempfile::tempdir().unwrap();
        let fill = tmp.path().join(fill_level::NAME);
        std::fs::write(&fill, b"full").unwrap();
        std::fs::write(tmp.path().join("precious"), b"mine").unwrap();
        let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
        let opened = || FileIdentity::of(std::fs::File::open(&fill).unwrap()).unwrap();
        let mut mark = FileMark::new(fill_level::NAME, &opened(), dir.filesystem(), "r1", true);
        mark.seal(&opened(), None);
        dir.add(&[mark]).unwrap();
        fills(&dir, &opened()).unwrap();
        std::fs::rename(tmp.path().join("precious"), &fill).unwrap();
        assert_eq!(fills(&dir, &opened()).unwrap_err().kind(), ErrorKind::Refused);
    }
}
