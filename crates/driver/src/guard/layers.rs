//! Files of an overlay: which file of a layer one is, and which it may show under another number.
//!
//! An overlay shows a file that was copied up, because somebody opened it for writing, under the inode number
//! of the file in the lower layer, so that two numbers mean the same data. The copy carries a mark of that,
//! and the upper layer has it at the same place below its root. Called by the guard for each file of a target,
//! and each one behind a loop device of it.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, CWD, OFlags, StatxFlags, fcntl_getfl, fgetxattr_query, readlink, statx};
use rustix::io::Errno;
use taillight_machine::DeviceNumber;
use taillight_machine::mounts::Mount;

use super::uses::is_overlay;
use crate::identity::FileIdentity;
use crate::identity::device::{BlockExtent, BlockStack, Store};

/// Adds to a stack what the layers of overlays make of one of its files; `extent` is its own. Of a file on no
/// overlay it only notes whether an overlay has copied it up. Errors: what is not known, in words.
pub fn add(
    stack: &mut BlockStack,
    fd: BorrowedFd<'_>,
    extent: &BlockExtent,
    mounts: &[Mount],
) -> Result<(), String> {
    if !is_overlay(fd) {
        stack.copied_up |= is_copy(fd);
        return Ok(());
    }
    let found = upper(fd, mounts);
    if let Ok(Some(store)) = found {
        stack.extents.push(BlockExtent { store, ..extent.clone() });
        return Ok(());
    }
    // Opened for reading, it may be the file of a lower layer, which has the same number.
    stack.overlay = true;
    let reads = fcntl_getfl(fd).is_ok_and(|flags| flags & OFlags::RWMODE == OFlags::RDONLY);
    match found {
        Ok(_) | Err(Errno::NOENT) if reads => Ok(()),
        _ => Err("which file of its layers an overlay keeps the target in".to_owned()),
    }
}

/// Whether a file is one that an overlay has copied up (`trusted.overlay.origin`, or `user.` where its mount
/// says `userxattr`).
fn is_copy(fd: BorrowedFd<'_>) -> bool {
    let names = ["trusted.overlay.origin", "user.overlay.origin"];
    names.into_iter().any(|name| matches!(fgetxattr_query(fd, name), Ok(_) | Err(Errno::RANGE)))
}

/// The file of the upper layer that an overlay shows as this one; none where it has no such layer. The path
/// is a hint: size and times must be those of the file. Errors: `NOENT` where there is none, others where it
/// cannot be told.
fn upper(fd: BorrowedFd<'_>, mounts: &[Mount]) -> Result<Option<Store>, Errno> {
    let id = statx(fd, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?.stx_mnt_id;
    let mount = mounts.iter().find(|m| m.id == id && m.fs == "overlay").ok_or(Errno::XDEV)?;
    let Some(dir) = mount.upper() else { return Ok(None) };
    if !dir.is_absolute() || !dir.is_dir() {
        return Err(Errno::XDEV);
    }
    // A worker asks, too, which may have descriptors of its own.
    let shown = readlink(format!("/proc/thread-self/fd/{}", fd.as_raw_fd()), Vec::new())?;
    let shown = PathBuf::from(shown.to_string_lossy().into_owned());
    let below = shown.strip_prefix(&mount.point).map_err(|_| Errno::XDEV)?;
    let root = mount.root.strip_prefix("/").unwrap_or(&mount.root);
    let errno = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
    let shown = FileIdentity::of(fd).map_err(errno)?;
    let kept = dir.join(root).join(below);
    let found = FileIdentity::at(CWD, kept.as_path()).map_err(errno)?;
    let of_layer = FileIdentity { device: found.device, inode: found.inode, ..shown };
    if of_layer != found {
        return Err(Errno::XDEV);
    }
    let file_system = DeviceNumber::from_dev(found.device);
    Ok(Some(Store::File { file_system, inode: found.inode }))
}
