//! A block device as target: opened past the guard (exclusively, unless a plan that only reads has `read_in_use`),
//! purged and filled.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, SeekFrom, fstat, open as open_fd, seek};
use rustix::io::Errno;
use taillight_core::progress::OnProgress;
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result, StopFlag};
use taillight_machine::rights::hint;
use taillight_machine::{BlockDevice, DeviceNumber, Sys};

use crate::file::erase;
use crate::file::existing::FileOpenSpec;
use crate::file::facts::Facts;
use crate::file::layout::{self, LayoutProgress};
use crate::file::needs;
use crate::file::options::{DevicePurge, FileOptions};
use crate::file::sys;
use crate::guard;
use crate::ownership::{NamedTarget, refusal};
use crate::patience::{self, BUSY_PAUSE, BUSY_WAIT};

/// A device ready for sessions.
pub struct OpenedDevice {
    /// Its descriptor, without O_DIRECT yet.
    pub fd: OwnedFd,
    /// Bytes that the run uses: as many as the job asks, else all whole blocks.
    pub size: u64,
}

/// Opens the device at `path`, resolved before. Errors: `Refused` by the guard, `Usage` for sizes,
/// `Unavailable` when it cannot be opened.
pub fn open(path: &Path, request: &FileOpenSpec<'_>) -> Result<OpenedDevice> {
    let FileOptions { extent_size, .. } = request.options;
    let changes = request.changes_device();
    let shared = !changes && request.options.read_in_use;
    if request.options.purge != DevicePurge::None {
        erase::whole_namespace(&kernel_name(path)?)?;
    }
    if extent_size.0 > 0 {
        return Err(Error::usage("`extent_size` is for files, and this is a device")
            .with("target", path.display())
            .hint("leave it out, or name a file on it"));
    }
    let rdev = std::fs::metadata(path).map(|m| m.rdev());
    if let (false, Ok(rdev)) = (shared, rdev)
        && let Some(reason) = guard::device_in_use(rdev)
    {
        return Err(guard::in_use(path, &reason));
    }
    if changes {
        refusal::foreign(request.confirmed, &NamedTarget::from(path), None)?;
    }
    let asked_size = needs::asked_file_size(request.spec.plan, request.options)?;
    let fd = open_exclusively(path, changes, shared, request)?;
    let size = seek(&fd, SeekFrom::End(0)).map_err(|e| {
        Error::unavailable("cannot tell the size of the device")
            .with("target", path.display())
            .source(io::Error::from(e))
    })?;
    if changes && sys::read_only(fd.as_fd()) {
        return Err(Error::unavailable("the device is read-only")
            .with("target", path.display())
            .hint("allow writing first (blockdev --setrw), or choose another device"));
    }
    if !shared {
        guard::device(fd.as_fd(), path, size, changes.then_some(request.spec.stop))?;
    }
    if changes {
        request.still_confirmed(path, fd.as_fd())?;
    }
    let size = match asked_size {
        None => needs::usable_size(request.spec.plan, size)?,
        Some(asked) if asked <= size => asked,
        Some(asked) => {
            return Err(Error::usage("the device is smaller than the job asks")
                .with("target", path.display())
                .with("device_bytes", size)
                .with("asked", ByteSize(asked))
                .hint("leave the size out to use the whole device"));
        }
    };
    Ok(OpenedDevice { fd, size })
}

/// What the kernel calls the device with the number of this node. Errors: `Refused` without sysfs.
fn kernel_name(path: &Path) -> Result<String> {
    let number = DeviceNumber::of_path(path);
    let device = number.and_then(|number| BlockDevice::find(&Sys::default(), number));
    device.map(|device| device.name).ok_or_else(|| {
        Error::refused("it cannot be told here what would be erased")
            .with("target", path.display())
            .with("not known", "which device it is (/sys/dev/block)")
            .hint("give the program /sys, or purge with nvme-cli before and set \"none\"")
    })
}

/// Whether the device can discard, where a share of it is to be filled: asked before it is purged. Errors:
/// `Unavailable`.
pub fn check_fill(opened: &OpenedDevice, request: &FileOpenSpec<'_>) -> Result<()> {
    let number = fstat(&opened.fd).map(|stat| DeviceNumber::from_dev(stat.st_rdev)).ok();
    let device = number.and_then(|number| BlockDevice::find(&Sys::default(), number));
    let most = device.and_then(|device| device.queue("discard_max_bytes"));
    match request.options.fill.is_asked() && most.as_deref() == Some("0") {
        true => Err(cannot_discard()),
        false => Ok(()),
    }
}

fn cannot_discard() -> Error {
    Error::unavailable("the device cannot discard what `fill` leaves empty")
        .hint("leave `fill` out: without discard, a device does not know what is empty")
}

/// Purges the device where the options ask for it; what was done, for the manifest. Errors: as
/// [`erase::purge`].
pub fn purge(
    opened: &OpenedDevice,
    path: &Path,
    request: &FileOpenSpec<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<Facts> {
    let how = request.options.purge;
    if how == DevicePurge::None {
        return Ok(Vec::new());
    }
    let mut drive = erase::OpenDrive { fd: opened.fd.as_fd() };
    let check = || guard::again([opened.fd.as_fd()], path, request.spec.stop);
    let (method, seconds) = erase::purge(&mut drive, &kernel_name(path)?, how, &check, progress)?;
    check()?;
    Ok(vec![
        ("purge.method".to_owned(), method),
        ("purge.seconds".to_owned(), format!("{seconds:.1}")),
    ])
}

/// Fills the device where the options ask for it: its range is discarded, and the first share written.
/// What was done, for the manifest. Errors: `Refused` by the guard, `Unavailable` when the device cannot, or progress
/// says stop.
pub fn fill(
    opened: &OpenedDevice,
    path: &Path,
    request: &FileOpenSpec<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<Facts> {
    let level = request.options.fill;
    if !level.is_asked() {
        return Ok(Vec::new());
    }
    guard::again([opened.fd.as_fd()], path, request.spec.stop)?;
    sys::discard(opened.fd.as_fd(), 0, opened.size).map_err(|e| cannot_discard().source(e))?;
    let bytes = level.of(opened.size) / layout::CHUNK * layout::CHUNK;
    let what = "filling the device";
    let mut meter = LayoutProgress { on: progress, what, done: 0, total: bytes };
    layout::fill(opened.fd.as_fd(), bytes, !request.spec.plan.run.seed, &mut meter)?;
    let reached = bytes as f64 * 100.0 / (opened.size as f64).max(1.0);
    Ok(vec![
        ("fill.asked".to_owned(), level.to_string()),
        ("fill.reached".to_owned(), format!("{reached:.1} %")),
        ("fill.bytes".to_owned(), bytes.to_string()),
    ])
}

/// Of several ranks on one host one has the exclusive claim, and the others are let in beside it: whoever finds the
/// device claimed has to find a rank of its run that has it open. Rank 0 opens first and is never let in so.
fn open_exclusively(
    path: &Path,
    changes: bool,
    shared: bool,
    request: &FileOpenSpec<'_>,
) -> Result<OwnedFd> {
    let mut flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    flags |= if changes { OFlags::RDWR } else { OFlags::RDONLY };
    let joins = request.spec.joins();
    // Ranks look at it at the same time, and must not be in each other's way; they claim it when they open it.
    let looks = joins && request.spec.run_id.is_empty();
    // On a device, EXCL without CREATE asks the kernel for an exclusive claim.
    let claim = if shared || looks { OFlags::empty() } else { OFlags::EXCL };
    let of_peer = || std::fs::metadata(path).is_ok_and(|m| guard::device_of_peer(m.rdev()));
    let opened = patience::wait(BUSY_WAIT, BUSY_PAUSE, &StopFlag::default(), || {
        let claimed = open_fd(path, flags | claim, Mode::empty());
        let opened = match claimed {
            Err(Errno::BUSY) if joins && of_peer() => open_fd(path, flags, Mode::empty()),
            claimed => claimed,
        };
        Some(opened).filter(|o| !matches!(o, Err(Errno::BUSY)))
    });
    let fd = opened.unwrap_or(Err(Errno::BUSY)).map_err(|e| why_not(path, e.into()))?;
    let is_device =
        fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_block_device());
    match is_device {
        true => Ok(fd),
        false => Err(Error::refused("the device was replaced while it was opened")
            .with("target", path.display())),
    }
}

fn why_not(path: &Path, e: io::Error) -> Error {
    match e.raw_os_error() {
        Some(libc::EBUSY) => guard::in_use(path, "opened exclusively by another program"),
        _ => Error::unavailable("cannot open the device")
            .with("target", path.display())
            .source(e)
            .hint(hint(&Sys::default(), &[]) + "; writing needs a device that is not read-only"),
    }
}
