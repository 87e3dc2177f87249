//! What each file needs before the run, and whether there is room: decided before any write.

use std::os::fd::AsFd;
use std::path::Path;

use taillight_core::units::ByteSize;
use taillight_core::{Error, Result};

use crate::file::files::{Asked, Found, There, Wanted};
use crate::file::layout;
use crate::file::options::Layout;
use crate::file::shape;

/// What to do to one file before the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// It is good as it is.
    Nothing,
    /// Set its size; data come with the run's writes.
    Size,
    /// Set its size and fill it.
    Fill,
    /// Begin with nothing: the run appends.
    Empty,
}

/// Size of the data set when the job gives none: what is there.
///
/// # Errors
/// `Usage` when there is nothing.
pub fn size_of_existing(found: &[Found], asked: &Asked<'_>) -> Result<u64> {
    let sizes = found
        .iter()
        .map(|f| f.there.as_ref().map_or(0, There::size));
    match sizes.min().unwrap_or(0) {
        0 => Err(
            Error::usage("the target holds no data yet and the job gives no size")
                .hint("write how much to lay out: size = \"1GiB\" under [target], or --size 1GiB"),
        ),
        smallest => shape::usable_size(asked.spec.plan, smallest),
    }
}

/// What one file needs.
///
/// # Errors
/// `Usage` for a file that is too small, `Refused` for holes that would be read.
pub fn decide(found: &Found, file_size: u64, asked: &Asked<'_>) -> Result<Step> {
    let uses = asked.uses;
    if asked.grows() {
        return Ok(Step::Empty);
    }
    let fills = match asked.options.layout {
        Layout::Auto => uses.reads || uses.trims,
        Layout::Always => true,
        Layout::Never => false,
    };
    let needs_data = uses.reads && !asked.options.allow_holes;
    let Some(there) = &found.there else {
        return match (fills, needs_data) {
            (true, _) => Ok(Step::Fill),
            (false, true) => Err(
                Error::usage("layout = \"never\", but there is no file to read")
                    .with("path", found.path.display())
                    .hint("leave `layout` out, or set allow_holes = true to read a file of holes"),
            ),
            (false, false) => Ok(Step::Size),
        };
    };
    if there.size() < file_size {
        return match (there.ours, fills || !needs_data) {
            (true, true) => Ok(if fills { Step::Fill } else { Step::Size }),
            _ => Err(Error::usage("the file is smaller than the job asks")
                .with("path", found.path.display())
                .with("bytes", there.size())
                .with("asked", ByteSize(file_size))
                .hint("leave the size out to use what is there")),
        };
    }
    if !(fills || needs_data) {
        return Ok(Step::Nothing);
    }
    let empty = layout::holes(there.fd.as_fd(), file_size).map_err(|e| {
        Error::unavailable("cannot tell holes from data")
            .with("path", found.path.display())
            .source(e)
    })?;
    match (empty, fills && there.ours) {
        (0, _) => Ok(Step::Nothing),
        (_, true) => Ok(Step::Fill),
        (_, false) if needs_data => Err(holey(&found.path, empty, file_size)),
        (_, false) => Ok(Step::Nothing),
    }
}

fn holey(path: &Path, empty: u64, of: u64) -> Error {
    let share = empty as f64 * 100.0 / of as f64;
    Error::refused(format!(
        "{share:.1} % of the file is holes or unwritten: reading it would measure no device"
    ))
    .with("path", path.display())
    .with("empty_bytes", empty)
    .hint("write real data into it first, or set options.allow_holes = true")
}

/// Room for what will be allocated, with some for the file system's own records.
///
/// # Errors
/// `Unavailable`, with the numbers.
pub fn check_space(wanted: &Wanted, found: &[Found], steps: &[Step], file_size: u64) -> Result<()> {
    let allocated = |f: &Found| f.there.as_ref().map_or(0, There::allocated);
    let needed: u64 = found
        .iter()
        .zip(steps)
        .filter(|(_, step)| **step != Step::Nothing)
        .map(|(f, _)| file_size.saturating_sub(allocated(f)))
        .fold(0, u64::saturating_add);
    if needed == 0 {
        return Ok(());
    }
    let needed = needed.saturating_add(needed / 512);
    let dir = if wanted.dir_absent {
        wanted.dir.parent()
    } else {
        Some(wanted.dir.as_path())
    };
    let dir = dir.unwrap_or(Path::new("/"));
    let fs = rustix::fs::statvfs(dir).map_err(|e| {
        Error::unavailable("cannot ask for free space")
            .with("path", dir.display())
            .source(e)
    })?;
    let available = fs.f_bavail.saturating_mul(fs.f_frsize);
    if needed <= available {
        return Ok(());
    }
    Err(Error::unavailable("not enough space for the data set")
        .with("path", dir.display())
        .with("needed", rounded(needed))
        .with("available", rounded(available))
        .hint(format!(
            "free another {}, or ask for a smaller size",
            rounded(needed - available)
        )))
}

/// A size for people, rounded up to whole MiB.
fn rounded(bytes: u64) -> String {
    let mib = bytes.div_ceil(1 << 20);
    match mib {
        0..10_240 => format!("{mib} MiB"),
        10_240..10_485_760 => format!("{} GiB", mib.div_ceil(1 << 10)),
        _ => format!("{} TiB", mib.div_ceil(1 << 20)),
    }
}
