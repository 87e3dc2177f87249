//! What each file needs before the run, and whether there is room: decided before any write.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use taillight_core::units::ByteSize;
use taillight_core::units::readable::bytes;
use taillight_core::{Error, Result};

use crate::file::existing::{DataFile, ExistingFile, FileOpenSpec};
use crate::file::layout;
use crate::file::needs::{self, AccessNeeds};
use crate::file::options::{FileOptions, LayoutPolicy};
use crate::file::path::FileSet;
use crate::file::sys;
use crate::ownership::NamedTarget;
use crate::path_error::free_space;

/// What to do to one file before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FilePreparation {
    /// It is good as it is.
    Nothing,
    /// Set its size; data come with the run's writes.
    Resize,
    /// Set its size and fill it.
    Fill,
    /// Empty it, set its size and fill it, in extents that lie apart.
    Fragment,
    /// Begin with nothing: the run appends.
    Truncate,
}

impl FilePreparation {
    /// Whether data is written before the run.
    pub fn fills(self) -> bool {
        matches!(self, FilePreparation::Fill | FilePreparation::Fragment)
    }
}

/// Files that are there, not empty, not Taillight's, and that are changed: by the run, or before it.
pub fn foreign<'a>(
    entries: &'a [DataFile],
    preparations: &[FilePreparation],
    needs: &AccessNeeds,
) -> Vec<(BorrowedFd<'a>, &'a Path)> {
    let changed = entries
        .iter()
        .zip(preparations)
        .filter(|(_, preparation)| needs.changes() || **preparation != FilePreparation::Nothing);
    let there = changed.filter_map(|(f, _)| Some((f.existing.as_ref()?, f.path.as_path())));
    let foreign = there.filter(|(file, _)| !file.proven && file.size() > 0);
    foreign.map(|(file, path)| (file.fd.as_fd(), path)).collect()
}

/// How many extents a file has, where they lie apart as asked. Errors: `Unavailable` when the file system has
/// put them together, has split them, or cannot say.
pub fn extents_of(file: &OwnedFd, file_size: u64, extent: u64) -> Result<u64> {
    let map = sys::extents(file.as_fd(), file_size).ok().flatten();
    let extents = map.map(|map| map.extents);
    extents.filter(|n| lies_apart(*n, file_size, extent)).ok_or_else(|| {
        Error::unavailable("the file system does not keep the extents as they are asked for")
            .with("extent_size", ByteSize(extent))
            .with("extents", extents.map_or("unknown".to_owned(), |n| n.to_string()))
            .hint("leave `extent_size` out, or use ext4 or XFS with more free space in one piece")
    })
}

/// The file system cannot lay a file out in extents that lie apart.
pub fn no_extents(path: &Path, extent: u64, e: io::Error) -> Error {
    Error::unavailable("the file cannot be laid out in extents that lie apart")
        .with("path", path.display())
        .with("extent_size", ByteSize(extent))
        .source(e)
        .hint("it takes ext4 or XFS, an extent_size of whole blocks (4KiB), and room for twice the data")
}

/// Bytes of each file when the job gives no size: whole blocks of the smallest that is there, less the tail that is
/// asked for. Errors: `Usage` when one is missing or empty.
pub fn size_of_existing(entries: &[DataFile], request: &FileOpenSpec<'_>) -> Result<u64> {
    let sizes = entries.iter().map(|f| f.existing.as_ref().map_or(0, ExistingFile::size));
    let sizes = sizes.map(|size| size.saturating_sub(request.options.tail.0));
    match sizes.min().unwrap_or(0) {
        0 => Err(Error::usage("the target holds no data yet and the job gives no size").hint(
            "write how much to lay out: size = \"1GiB\" under [target], or --size 1GiB \
                 (of a suite: --set target.size=1GiB)",
        )),
        smallest => needs::usable_size(request.spec.plan, smallest),
    }
}

/// What one file needs. Errors: `Usage` for a file that is too small, `Refused` for holes that
/// would be read.
pub fn decide(
    found: &DataFile,
    file_size: u64,
    request: &FileOpenSpec<'_>,
) -> Result<FilePreparation> {
    let decided = of_data(found, file_size, request)?;
    let whole = file_size.saturating_add(request.options.tail.0);
    let lacks = |file: &ExistingFile| file.ours && file.size() < whole;
    // Its data is there, and the end behind it is not.
    match found.existing.as_ref().is_some_and(lacks) && decided == FilePreparation::Nothing {
        true => Ok(FilePreparation::Resize),
        false => Ok(decided),
    }
}

/// What the data of one file needs. Errors: as [`decide`].
fn of_data(
    found: &DataFile,
    file_size: u64,
    request: &FileOpenSpec<'_>,
) -> Result<FilePreparation> {
    let needs = request.needs;
    if let Some(extent) = request.options.extent() {
        return fragmented(found, file_size, extent, request);
    }
    if request.grows() {
        return Ok(FilePreparation::Truncate);
    }
    let fills = match request.options.layout {
        LayoutPolicy::Auto => needs.reads || needs.trims,
        LayoutPolicy::Always => true,
        LayoutPolicy::Never => false,
    };
    let needs_data = needs.reads && !request.options.allow_holes;
    let Some(existing) = &found.existing else {
        return match (fills, needs_data) {
            (true, _) => Ok(FilePreparation::Fill),
            (false, true) => Err(Error::usage("layout = \"never\", but there is no file to read")
                .with("path", found.path.display())
                .hint("leave `layout` out, or set allow_holes = true to read a file of holes")),
            (false, false) => Ok(FilePreparation::Resize),
        };
    };
    if existing.size() < file_size {
        return match (existing.ours, fills || !needs_data) {
            (true, true) => Ok(if fills { FilePreparation::Fill } else { FilePreparation::Resize }),
            _ => Err(Error::usage("the file is smaller than the job asks")
                .with("path", found.path.display())
                .with("bytes", existing.size())
                .with("asked", ByteSize(file_size))
                .hint(match request.spec.plan.workloads.iter().any(|w| w.trace.is_some()) {
                    true => {
                        "a trace asks for its highest address, unless trace.fit and a size make it fit"
                    }
                    false => "leave the size out to use what is there",
                })),
        };
    }
    if !(fills || needs_data) {
        return Ok(FilePreparation::Nothing);
    }
    let empty = layout::holes(existing.fd.as_fd(), file_size).map_err(|e| {
        Error::unavailable("cannot tell holes from data")
            .with("path", found.path.display())
            .source(e)
    })?;
    match (empty, fills && existing.ours) {
        (0, _) => Ok(FilePreparation::Nothing),
        (_, true) => Ok(FilePreparation::Fill),
        (_, false) if needs_data => Err(holey(found, existing, empty, file_size, request)),
        (_, false) => Ok(FilePreparation::Nothing),
    }
}

/// How far the number of extents may be from what was asked for: a file system begins with short ones.
const EXTENTS_OFF: f64 = 0.05;

/// Whether so many extents are those that a layout of `len` bytes in extents of `extent` has.
pub fn lies_apart(extents: u64, len: u64, extent: u64) -> bool {
    let wanted = len.div_ceil(extent.max(1)) as f64;
    (extents as f64 - wanted).abs() <= (EXTENTS_OFF * wanted).max(1.0)
}

/// What a file needs to lie in extents of the size asked for. Errors: `Usage` for a size that no layout can
/// have, `Refused` for a file of somebody else.
fn fragmented(
    found: &DataFile,
    file_size: u64,
    extent: u64,
    request: &FileOpenSpec<'_>,
) -> Result<FilePreparation> {
    if request.grows() || extent > file_size {
        return Err(Error::usage("`extent_size` needs files that are laid out, and are larger")
            .with("extent_size", ByteSize(extent))
            .with("file", ByteSize(file_size))
            .hint("leave it out; `filestream` appends and has no layout"));
    }
    let Some(existing) = &found.existing else { return Ok(FilePreparation::Fragment) };
    let map = sys::extents(existing.fd.as_fd(), file_size).ok().flatten();
    let fits = |map: sys::ExtentMap| {
        map.written == file_size && lies_apart(map.extents, file_size, extent)
    };
    match (existing.size() >= file_size && map.is_some_and(fits), existing.ours) {
        (true, _) => Ok(FilePreparation::Nothing),
        (false, true) => Ok(FilePreparation::Fragment),
        (false, false) => {
            Err(Error::refused("the file is not Taillight's: its extents stay as they are")
                .with("path", found.path.display())
                .hint("leave `extent_size` out, or name another file"))
        }
    }
}

fn holey(
    found: &DataFile,
    existing: &ExistingFile,
    empty: u64,
    of: u64,
    request: &FileOpenSpec<'_>,
) -> Error {
    let share = empty as f64 * 100.0 / of as f64;
    // A confirmation names what the job names, which may be the directory.
    let named = NamedTarget::of(request.spec.plan.target.path.as_deref().unwrap_or_default());
    let (left, hint) = match existing.unfinished {
        true => (
            "a run was killed while it wrote the file, or somebody has changed it since: ",
            format!("delete it if nobody needs it, or {}", named.way_out()),
        ),
        false => {
            ("", "write real data into it first, or set options.allow_holes = true".to_owned())
        }
    };
    Error::refused(format!(
        "{left}{share:.1} % of the file is holes or unwritten: reading it would measure no device"
    ))
    .with("path", found.path.display())
    .with("empty_bytes", empty)
    .hint(hint)
}

/// Whether this process may write files so large (setrlimit(2), `RLIMIT_FSIZE`). Errors: `Unavailable`.
pub fn largest(file_size: u64, path: &Path) -> Result<()> {
    match rustix::process::getrlimit(rustix::process::Resource::Fsize).current {
        Some(most) if most < file_size => {
            Err(Error::unavailable("the file is larger than this process may write")
                .with("path", path.display())
                .with("file", ByteSize(file_size))
                .with("most", bytes(most))
                .hint(
                    "raise the limit on the size of files (ulimit -f), or ask for a smaller size",
                ))
        }
        _ => Ok(()),
    }
}

/// Room for what will be allocated, with some for the file system's own records; returns how much that
/// is. Errors: `Unavailable`, with the numbers.
pub fn check_space(
    file_set: &FileSet,
    entries: &[DataFile],
    preparations: &[FilePreparation],
    file_size: u64,
    options: &FileOptions,
) -> Result<u64> {
    let allocated = |f: &DataFile| f.existing.as_ref().map_or(0, ExistingFile::allocated);
    let needed: u64 = entries
        .iter()
        .zip(preparations)
        .enumerate()
        .filter(|(_, (_, preparation))| **preparation != FilePreparation::Nothing)
        .map(|(n, (f, preparation))| {
            let whole = if *preparation == FilePreparation::Fragment { 2 } else { 1 };
            options.size_of(n, file_size).saturating_mul(whole).saturating_sub(allocated(f))
        })
        .fold(0, u64::saturating_add);
    let mut changed = entries.iter().zip(preparations);
    if let Some((file, _)) = changed.find(|(_, p)| **p != FilePreparation::Nothing) {
        largest(file_size.saturating_add(options.tail.0), &file.path)?;
    }
    if needed == 0 {
        return Ok(0);
    }
    let needed = needed.saturating_add(needed / 512);
    let dir = file_set.nearest_dir();
    let available = free_space(dir)?;
    if needed <= available {
        return Ok(needed);
    }
    Err(Error::unavailable("not enough space for the data set")
        .with("path", dir.display())
        .with("needed", bytes(needed))
        .with("available", bytes(available))
        .hint(format!("free another {}, or ask for a smaller size", bytes(needed - available))))
}
