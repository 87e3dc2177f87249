//! Carrying out what was decided: creating, marking, sizing and filling files.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, ftruncate, openat, statat};
use rustix::io::Errno;
use taillight_core::progress::OnProgress;
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};

use crate::file::fill_level::{self, Room};
use crate::file::layout::{self, LayoutProgress};
use crate::path_error::cannot;

use crate::file::path::FileSet;
use crate::file::plan::{self, FilePreparation};
use crate::file::regular::{DataFile, ExistingFile, FileOpenSpec, PreparedFiles, lock, no_extents};
use crate::file::sys;
use crate::ownership::sidecar::device;
use crate::ownership::{FileMark, MarkedFiles, OwnedDirectory};

/// Creates, marks, sizes and fills. Errors: `Unavailable` when it cannot be done or progress says
/// stop; what was made is then deleted.
pub fn prepare(
    entries: Vec<DataFile>,
    preparations: &[FilePreparation],
    file_size: u64,
    mut made: MarkedFiles,
    asked: &FileOpenSpec<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<PreparedFiles> {
    let to_fill = preparations.iter().filter(|s| s.fills()).count() as u64;
    let mut meter =
        LayoutProgress { on: progress, what: "laying out", done: 0, total: to_fill * file_size };
    let mut ready = Vec::with_capacity(entries.len());
    let (mut new, mut reused) = (0, 0);
    let mut allocates = false;
    for (n, (found, preparation)) in entries.into_iter().zip(preparations).enumerate() {
        let is_new = found.existing.is_none();
        let blocks = found.existing.as_ref().map_or(0, ExistingFile::allocated);
        let writes = asked.needs.writes && !preparation.fills();
        allocates |= writes && (*preparation == FilePreparation::Truncate || blocks < file_size);
        let (held, mark) = take_over(found, file_size, made.dir(), asked)?;
        if let Some(mark) = mark {
            let stays = mark.keep && !is_new && !asked.options.keep && !asked.grows();
            if stays && held.size < file_size {
                made.enlarged(&held.name, held.size);
            }
            made.mark(mark, is_new)?;
        }
        new += u32::from(is_new);
        reused += u32::from(!is_new);
        let seed = asked.spec.plan.run.seed.wrapping_add(n as u64);
        let extent = asked.options.extent().unwrap_or(0);
        perform(*preparation, &held, (file_size, extent), seed, made.dir(), &mut meter)?;
        ready.push(held.file);
    }
    let filled = fill_up(&mut made, asked, meter.on)?;
    let fragments = fragments(&ready, file_size, asked)?;
    let mut facts = vec![
        ("files.new".to_owned(), new.to_string()),
        ("files.reused".to_owned(), reused.to_string()),
        ("files.laid_out".to_owned(), to_fill.to_string()),
        ("files.writes_allocate".to_owned(), allocates.to_string()),
        ("files.kept".to_owned(), made.keeps().to_string()),
    ];
    facts.extend(filled);
    facts.extend(fragments);
    if asked.grows() {
        facts.push(("files.grows".to_owned(), true.to_string()));
    }
    Ok(PreparedFiles { files: ready, file_size, made, facts })
}

/// How many extents the files have, for the manifest, where a size of them is asked for. Errors:
/// `Unavailable` when the file system has put them together or cannot say.
fn fragments(
    files: &[OwnedFd],
    file_size: u64,
    asked: &FileOpenSpec<'_>,
) -> Result<Vec<(String, String)>> {
    let Some(extent) = asked.options.extent() else { return Ok(Vec::new()) };
    let mut found = 0;
    for file in files {
        let map = sys::extents(file.as_fd(), file_size).ok().flatten();
        let extents = map.map(|map| map.extents);
        let Some(extents) = extents.filter(|n| plan::lies_apart(*n, file_size, extent)) else {
            return Err(Error::unavailable("the file system did not keep the extents apart")
                .with("extent_size", ByteSize(extent))
                .with("extents", extents.map_or("unknown".to_owned(), |n| n.to_string()))
                .hint("use ext4 or XFS, or leave `extent_size` out"));
        };
        found += extents;
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
    asked: &FileOpenSpec<'_>,
) -> Result<()> {
    let level = asked.options.fill;
    if !level.is_asked() {
        return Ok(());
    }
    let held = dir.map_or(Ok(0), fill_blocks)?;
    let there = file_set.nearest_dir();
    let room = Room::of(OwnedDirectory::open(there, asked.spec.stop)?.fd())?;
    let then = Room {
        used: room.used.saturating_add(grows),
        available: room.available.saturating_sub(grows),
    };
    match then.missing(level, held) {
        Some(_) => Ok(()),
        None => Err(Error::usage("the file system is fuller than `fill` asks")
            .with("path", there.display())
            .with("with the data", then.level())
            .with("asked", level)
            .hint("ask for a higher level, or free some space")),
    }
}

/// Bytes that the file which fills the file system takes now. Errors: `Refused` for a file of somebody
/// else in its place.
fn fill_blocks(dir: &OwnedDirectory) -> Result<u64> {
    let Ok(stat) = statat(dir.fd(), fill_level::NAME, AtFlags::SYMLINK_NOFOLLOW) else {
        return Ok(0);
    };
    match dir.marks()?.iter().any(|m| m.name == fill_level::NAME && m.fits(&stat)) {
        true => Ok(u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512)),
        false => Err(Error::refused("a file that Taillight did not make is in the way")
            .with("path", dir.path().join(fill_level::NAME).display())
            .hint("move it away, or leave `fill` out")),
    }
}

/// Fills the file system up to the level that is asked for, by a file of ours; what was reached, for the
/// manifest. Errors: as [`check_fill`], `Unavailable` when it cannot be written.
fn fill_up(
    made: &mut MarkedFiles,
    asked: &FileOpenSpec<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<Vec<(String, String)>> {
    let level = asked.options.fill;
    if !level.is_asked() {
        return Ok(Vec::new());
    }
    let path = made.dir().path().join(fill_level::NAME);
    let failed = |e: Errno| cannot("cannot fill the file system", &path, e);
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = fill_blocks(made.dir())?;
    // The data may have reached the level by what the file system noted down of it.
    let bytes = Room::of(made.dir().fd())?.missing(level, held).unwrap_or(0);
    let file = openat(made.dir().fd(), fill_level::NAME, flags, Mode::from_raw_mode(0o600));
    let file = file.map_err(failed)?;
    lock(&file, &path, true)?;
    let stat = fstat(&file).map_err(failed)?;
    let mark = FileMark {
        name: fill_level::NAME.to_owned(),
        inode: stat.st_ino,
        device: device(&stat),
        size: bytes,
        // Until it is whole it has any size.
        grows: true,
        run_id: asked.spec.run_id.to_owned(),
        keep: asked.options.keep,
        modified_ns: None,
    };
    made.mark(mark, stat.st_size == 0)?;
    ftruncate(&file, bytes).map_err(failed)?;
    let empty = layout::holes(file.as_fd(), bytes).unwrap_or(bytes);
    if empty > 0 {
        let what = "filling the file system";
        let mut meter = LayoutProgress { on: progress, what, done: 0, total: bytes };
        // Numbers of its own: not the data of the first file again.
        layout::fill(file.as_fd(), bytes, !asked.spec.plan.run.seed, &mut meter)?;
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
}

/// Creates what is absent; says under which mark the file stands from now on.
fn take_over(
    found: DataFile,
    file_size: u64,
    dir: &OwnedDirectory,
    asked: &FileOpenSpec<'_>,
) -> Result<(OpenFile, Option<FileMark>)> {
    let keep = asked.options.keep;
    let name = found.name;
    let mark_of = |stat: &Stat, size: u64, keep: bool| FileMark {
        name: name.clone(),
        inode: stat.st_ino,
        device: device(stat),
        size,
        grows: asked.grows(),
        run_id: asked.spec.run_id.to_owned(),
        keep,
        modified_ns: None,
    };
    let (file, mark, size) = match found.existing {
        None => {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
            let created = openat(
                dir.fd(),
                name.as_str(),
                flags | OFlags::CLOEXEC,
                Mode::from_raw_mode(0o644),
            );
            let fd = created.map_err(|e| no_create(&found.path, e))?;
            let stat = fstat(&fd).map_err(|e| no_create(&found.path, e))?;
            lock(&fd, &found.path, true)?;
            (fd, Some(mark_of(&stat, file_size, keep)), 0)
        }
        Some(existing) => {
            let size = existing.size();
            let mark = match &existing.mark {
                // What an earlier run was asked to keep stays; what it left by accident goes.
                Some(m) => Some(mark_of(&existing.stat, size.max(file_size), m.keep || keep)),
                // Empty and not ours: usable, never deleted.
                None if size == 0 => Some(mark_of(&existing.stat, file_size, true)),
                None => None,
            };
            (existing.fd, mark, size)
        }
    };
    Ok((OpenFile { file, name, size }, mark))
}

fn no_create(path: &Path, e: Errno) -> Error {
    cannot("cannot create the file", path, e)
}

fn perform(
    preparation: FilePreparation,
    held: &OpenFile,
    (file_size, extent): (u64, u64),
    seed: u64,
    dir: &OwnedDirectory,
    meter: &mut LayoutProgress<'_, '_>,
) -> Result<()> {
    if preparation == FilePreparation::Nothing {
        return Ok(());
    }
    let failed = |what: &str, e: Errno| cannot(what, &dir.path().join(&held.name), e);
    // A plan that only reads holds the file read-only; preparing it takes a second descriptor
    // to the very same inode.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let writable = openat(dir.fd(), held.name.as_str(), flags, Mode::empty())
        .map_err(|e| failed("cannot open the file for writing", e))?;
    let same = |fd: &OwnedFd| fstat(fd).map(|s| (s.st_dev, s.st_ino));
    if same(&writable) != same(&held.file) {
        return Err(
            Error::refused("the file was replaced while it was opened").with("file", &held.name)
        );
    }
    if preparation == FilePreparation::Truncate {
        return ftruncate(&writable, 0).map_err(|e| failed("cannot empty the file", e));
    }
    if held.size < file_size {
        ftruncate(&writable, file_size).map_err(|e| failed("cannot set the file's size", e))?;
    }
    if preparation == FilePreparation::Fragment {
        let fragmented = |e| no_extents(&dir.path().join(&held.name), extent, e);
        ftruncate(&writable, 0).map_err(|e| failed("cannot empty the file", e))?;
        layout::apart(writable.as_fd(), file_size, extent).map_err(fragmented)?;
    }
    match preparation {
        FilePreparation::Fill | FilePreparation::Fragment => {
            lock(&held.file, &dir.path().join(&held.name), true)?;
            layout::fill(writable.as_fd(), file_size, seed, meter)
        }
        _ => Ok(()),
    }
}
