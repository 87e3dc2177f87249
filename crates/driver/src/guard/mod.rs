//! The guard: whether a target is in use by something else, or part of something larger.
//!
//! Where the answer is yes, the target is `Refused`, and so is one of which it cannot be answered here, if it is
//! a device or holds foreign data and is to be changed. Whether the data there is Taillight's is asked in
//! `ownership`. The guard only reads: tables, the opened descriptor, and devices and files below it. The driver
//! opens the target.
//!
//! Everything is decided on the *descriptor* that the driver keeps, by numbers of devices, file systems and inodes,
//! never by paths: a path that changes later changes nothing, and neither does another name of the same data. A
//! block device is opened with `O_EXCL`: from then on the kernel keeps mounts, swap and mapped devices out. A loop
//! device it does not keep out, so that uses and writers are looked for again when a run makes its first session.

pub(crate) mod blkid;
mod layers;
mod member;
pub(crate) mod partitions;
mod uses;

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FileType, SeekFrom, Stat, fstat, fstatfs, seek};
use rustix::io::Errno;
use taillight_core::{Error, Result, StopFlag};
use taillight_machine::block::PartitionRange;
use taillight_machine::{BlockDevice, DeviceNumber, Sys, node, openers};

use crate::identity::device::{BlockExtent, BlockStack, Store};
use crate::patience;
use member::FoundMark;
use partitions::SearchedDisk;
use uses::{TargetBlocks, Uses};

/// Refuses a block device that is mounted, swap, held, behind a loop device or a member of something, whole or in
/// part; one that is to be changed (`changes`, the stop flag) also where another process has it open for writing
/// for more than a second, or that cannot be known. Errors: `Refused` with the reason; `Unavailable` when the
/// device cannot be asked what it is.
pub fn device(
    fd: BorrowedFd<'_>,
    path: &Path,
    size: u64,
    changes: Option<&StopFlag>,
) -> Result<()> {
    let found = TargetState::of([fd], path)?;
    found.free(path)?;
    let disk = SearchedDisk::new(fd, size);
    if let Some(mark) = member::member(&disk, found.partitions()) {
        return Err(is_member("the device", path, &mark).hint(clear(path, mark.at)));
    }
    let mut unknown = Vec::new();
    if let Some(mark) = found.member_below(&mut unknown) {
        return Err(is_member("the device", path, &mark).hint(CLEAR_BELOW));
    }
    let Some(stop) = changes else { return Ok(()) };
    readable(&disk, path)?;
    let in_sysfs = |number| BlockDevice::find(&Sys::default(), number).is_some();
    if !found.number.is_some_and(in_sysfs) {
        unknown.push("what is built on the device (/sys/dev/block)".to_owned());
    }
    found.claimed_below(path, &mut unknown)?;
    found.known(path, unknown)?;
    found.written_by_others(path, stop)
}

/// Asks of a device or of files that are about to be written, once more, whether anything else has come to
/// use them. Errors: as [`device`].
pub fn again<'a>(
    fds: impl IntoIterator<Item = BorrowedFd<'a>>,
    path: &Path,
    stop: &StopFlag,
) -> Result<()> {
    let found = TargetState::of(fds, path)?;
    found.free(path)?;
    found.known(path, Vec::new())?;
    found.written_by_others(path, stop)
}

/// Whether another rank of the run has a block device open here: its claim is the one that keeps others out.
pub fn device_of_peer(rdev: u64) -> bool {
    openers::peer_has(&Sys::default(), &DeviceNode(DeviceNumber::from_dev(rdev)))
}

/// A block device, told by its own number.
struct DeviceNode(DeviceNumber);

impl openers::Wanted for DeviceNode {
    fn is(&self, file: &openers::OpenedFile) -> bool {
        file.kind == FileType::BlockDevice && file.device == self.0
    }
    fn may_be(&self, _: DeviceNumber, _: u64) -> bool {
        false
    }
}

/// Why a block device is in use, from mounts, swaps, holders, loop devices and exports; `None` when it is not. Asked
/// before it is opened.
pub fn device_in_use(rdev: u64) -> Option<String> {
    let number = DeviceNumber::from_dev(rdev);
    let sys = Sys::default();
    let uses = Uses::now(&sys);
    uses.of(&BlockStack::of_device(&sys, number, &uses.loops), Some(number))
}

/// What uses files at the end of a run, before it deletes or cuts its own.
pub struct FilesInUse {
    uses: Uses,
    overlay: bool,
}

impl FilesInUse {
    /// As things stand, for files of this directory.
    pub fn now(dir: impl AsFd) -> FilesInUse {
        FilesInUse { uses: Uses::now(&Sys::default()), overlay: uses::is_overlay(dir) }
    }

    /// Why the file with this stat is in use: as swap, behind a loop device, or exported by the kernel.
    pub fn why(&self, stat: &Stat) -> Option<String> {
        self.uses.of(&self.stack(&[*stat]), None)
    }

    /// Whether another process has one of the files with these stats open or mapped for writing, for more than a second.
    pub fn written(&self, stats: &[Stat]) -> bool {
        let stack = self.stack(stats);
        writer(&TargetBlocks { uses: &self.uses, stack: &stack }, &StopFlag::default()).is_some()
    }

    /// What files with these stats are on.
    fn stack(&self, stats: &[Stat]) -> BlockStack {
        let mut stack = BlockStack::of(&Sys::default(), stats, &self.uses.loops);
        stack.overlay = self.overlay;
        stack
    }
}

/// Refuses regular files one of which is swap, exported by the kernel or backs an active loop device; files that
/// are to be changed (`changes`) also where another process has one open or mapped for writing for more than a
/// second. Processes of other users are seen by root only. Errors: as [`device`].
pub fn files<'a>(
    fds: impl IntoIterator<Item = BorrowedFd<'a>>,
    path: &Path,
    changes: Option<&StopFlag>,
) -> Result<()> {
    let found = TargetState::of(fds, path)?;
    found.free(path)?;
    changes.map_or(Ok(()), |stop| found.written_by_others(path, stop))
}

/// Refuses to change existing files that Taillight did not make where one is a member of something, or
/// where it cannot be known who uses it. Errors: `Refused`, naming what is missing.
pub fn foreign_files<'a>(all: &[(BorrowedFd<'a>, &'a Path)]) -> Result<()> {
    let Some((_, first)) = all.first() else { return Ok(()) };
    for (fd, path) in all {
        let size = fstat(fd).map_err(|e| cannot_stat(path, e))?.st_size;
        let disk = SearchedDisk::new(*fd, u64::try_from(size).unwrap_or(0));
        if let Some(mark) = member::member(&disk, Vec::new()) {
            return Err(is_member("the file", path, &mark).hint(clear(path, mark.at)));
        }
        readable(&disk, path)?;
    }
    TargetState::of(all.iter().map(|(fd, _)| *fd), first)?.known(first, Vec::new())
}

/// File systems whose files are the kernel's own words (`include/uapi/linux/magic.h`): proc, sysfs, debugfs,
/// tracefs, securityfs, cgroup, cgroup2, configfs, bpf, pstore, efivarfs, binfmt_misc, selinuxfs, nsfs,
/// nfsd, fusectl, resctrl, rpc_pipefs, smackfs.
const KERNEL_FILES: [u64; 19] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x27_e0eb,
    0x6367_7270,
    0x6265_6570,
    0xcafe_4a11,
    0x6165_676c,
    0xde5e_81e4,
    0x4249_4e4d,
    0xf97c_ff8c,
    0x6e73_6673,
    0x6e66_7364,
    0x6573_5543,
    0x0765_5821,
    0x6759_6969,
    0x4341_5d53,
];

/// Refuses files of procfs, sysfs and their like, by whatever name: they are no storage. Errors: `Refused`,
/// also where the file system cannot be asked.
pub fn storage(fd: impl AsFd, path: &Path) -> Result<()> {
    let found = fstatfs(fd).map_err(|e| {
        Error::refused("it cannot be told here what file system the target is in")
            .with("target", path.display())
            .source(std::io::Error::from(e))
            .hint("name a file on a mounted disk")
    })?;
    match KERNEL_FILES.contains(&(found.f_type as u64 & 0xffff_ffff)) {
        false => Ok(()),
        true => Err(Error::refused(
            "the target is in a file system of the kernel's own (procfs, sysfs)",
        )
        .with("target", path.display())
        .hint("its files are switches and readings, no storage: name a file on a disk")),
    }
}

fn cannot_stat(path: &Path, e: Errno) -> Error {
    Error::unavailable("cannot stat the target").with("target", path.display()).source(e)
}

/// What the tables say of one target.
struct TargetState {
    /// The target's own number, where it is a device.
    number: Option<DeviceNumber>,
    uses: Uses,
    stack: BlockStack,
    /// What could not be found out of its layers.
    unknown: Vec<String>,
}

impl TargetState {
    fn of<'a>(fds: impl IntoIterator<Item = BorrowedFd<'a>>, path: &Path) -> Result<TargetState> {
        let fds: Vec<BorrowedFd<'_>> = fds.into_iter().collect();
        let stats = fds.iter().map(|fd| fstat(fd).map_err(|e| cannot_stat(path, e)));
        let stats = stats.collect::<Result<Vec<Stat>>>()?;
        let mut found = TargetState::with(&Sys::default(), &stats);
        found.add_layers(fds.iter().zip(&stats));
        Ok(found)
    }

    fn with(sys: &Sys, stats: &[Stat]) -> TargetState {
        let uses = Uses::now(sys);
        let stack = BlockStack::of(sys, stats, &uses.loops);
        let is_device = |s: &&Stat| FileType::from_raw_mode(s.st_mode).is_block_device();
        let number = stats.iter().find(is_device).map(|s| DeviceNumber::from_dev(s.st_rdev));
        TargetState { number, uses, stack, unknown: Vec::new() }
    }

    /// Asks of each file of the target, and of those behind its loop devices, what overlays make of it.
    fn add_layers<'a>(&mut self, files: impl Iterator<Item = (&'a BorrowedFd<'a>, &'a Stat)>) {
        let mounts = &self.uses.mounts;
        let written = mounts.iter().any(|m| m.upper().is_some());
        let is_file = |stat: &Stat| FileType::from_raw_mode(stat.st_mode).is_file();
        for (fd, stat) in files.filter(|(_, stat)| is_file(stat)) {
            let own = BlockExtent::whole(Store::file(stat));
            self.unknown.extend(layers::add(&mut self.stack, *fd, &own, mounts).err());
        }
        let device = self.number.is_some();
        let behind = self.stack.extents.clone().into_iter();
        let behind = behind.filter(|e| device && matches!(e.store, Store::File { .. }));
        for extent in behind {
            let found = match self.backing_file(extent.store) {
                Ok(file) => layers::add(&mut self.stack, file.as_fd(), &extent, mounts),
                Err(_) if written => Err("whether an overlay shows the file behind it".to_owned()),
                Err(_) => Ok(()),
            };
            self.unknown.extend(found.err());
        }
    }

    fn free(&self, path: &Path) -> Result<()> {
        match self.uses.of(&self.stack, self.number) {
            Some(reason) => Err(in_use(path, &reason)),
            None => Ok(()),
        }
    }

    /// The partitions that the kernel has of the device.
    fn partitions(&self) -> Vec<PartitionRange> {
        let device = self.number.and_then(|number| BlockDevice::find(&Sys::default(), number));
        let all = device.iter().flat_map(BlockDevice::partitions);
        all.filter_map(|part| part.range()).collect()
    }

    /// What a disk or file is a member of, of which the target is a part only.
    fn member_below(&self, unknown: &mut Vec<String>) -> Option<FoundMark> {
        let sys = Sys::default();
        for extent in self.stack.extents.iter().filter(|e| !e.mapped) {
            let opened = match extent.store {
                Store::Device(number) if Some(number) == self.number => continue,
                Store::Device(number) => {
                    let name = BlockDevice::find(&sys, number).map(|d| d.name);
                    node::open(number, &name.unwrap_or_default(), false)
                }
                // The same bytes as the loop device over it, unless that is a part.
                Store::File { .. } if extent.range == (0..u64::MAX) => continue,
                Store::File { .. } => self.backing_file(extent.store),
            };
            let mut not_known = |why: String| {
                unknown.push(format!("what the disk below the target is a member of ({why})"));
            };
            let sized = opened.and_then(|fd| Ok((seek(&fd, SeekFrom::End(0))?, fd)));
            let (size, opened) = match sized {
                Ok(sized) => sized,
                Err(e) => {
                    not_known(e.to_string());
                    continue;
                }
            };
            let disk = SearchedDisk::new(opened.as_fd(), size);
            let others = partitions::found(&disk).into_iter();
            let others = others.filter(|p| {
                p.start >= extent.range.end || p.start.saturating_add(p.len) <= extent.range.start
            });
            let others: Vec<_> = others.collect();
            if let Some(mark) = member::mark_outside(&disk, &others) {
                return Some(mark);
            }
            disk.unreadable().into_iter().for_each(not_known);
        }
        None
    }

    /// Opens the file behind a loop device of the stack; the path is a hint, the inode decides.
    fn backing_file(&self, store: Store) -> std::io::Result<std::os::fd::OwnedFd> {
        let sys = Sys::default();
        let mut own = self.stack.loops.iter().filter_map(|n| BlockDevice::find(&sys, *n));
        let opened = own.find_map(|of| {
            let file = std::fs::File::open(of.backing_file()?).ok()?;
            let stat = fstat(&file).ok()?;
            (Store::file(&stat) == store).then_some(file)
        });
        opened.map(Into::into).ok_or_else(|| std::io::ErrorKind::NotFound.into())
    }

    /// Asks the kernel whether a device behind a loop device, or beside the stack, is claimed.
    fn claimed_below(&self, path: &Path, unknown: &mut Vec<String>) -> Result<()> {
        for number in &self.stack.behind {
            let name = BlockDevice::find(&Sys::default(), *number).map(|d| d.name);
            let name = name.unwrap_or_else(|| number.to_string());
            match node::open(*number, &name, true) {
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                    let what = format!("{name}, which has blocks of it, is opened exclusively");
                    return Err(in_use(path, &what));
                }
                Err(e) => unknown.push(format!("whether {name} below it is in use ({e})")),
            }
        }
        Ok(())
    }

    /// Refuses where something could not be found out.
    fn known(&self, path: &Path, mut unknown: Vec<String>) -> Result<()> {
        unknown.extend(self.uses.unknown.iter().chain(&self.unknown).cloned());
        unknown.extend(openers::unseen(&Sys::default()));
        if unknown.is_empty() {
            return Ok(());
        }
        Err(Error::refused("it cannot be told here whether the target is in use")
            .with("target", path.display())
            .with("not known", unknown.join("; "))
            .hint(
                "run as root outside of a container, with /proc and /sys; or name a file that is not \
                 there yet: Taillight makes and deletes its own without all this",
            ))
    }

    fn written_by_others(&self, path: &Path, stop: &StopFlag) -> Result<()> {
        let wanted = TargetBlocks { uses: &self.uses, stack: &self.stack };
        let Some(process) = writer(&wanted, stop) else { return Ok(()) };
        let what =
            if self.number.is_some() { "the target, or a part of its disk," } else { "the target" };
        Err(Error::refused(format!("{what} is open for writing in {process}"))
            .with("target", path.display())
            .hint("end that program first, or choose another target"))
    }
}

/// A process that has the target open or mapped for writing for more than a moment.
fn writer(wanted: &TargetBlocks<'_>, stop: &StopFlag) -> Option<String> {
    let mut process = None;
    let free = patience::wait(OPENED_BRIEFLY, OPENED_BRIEFLY / 20, stop, || {
        process = openers::writer(&Sys::default(), wanted);
        process.is_none().then_some(())
    });
    process.filter(|_| free.is_none())
}

/// Programs that look at every device (udev, losetup) have one open for a moment.
const OPENED_BRIEFLY: Duration = Duration::from_secs(1);

fn is_member(what: &str, path: &Path, mark: &FoundMark) -> Error {
    Error::refused(format!("{what} is a member of {}", mark.of))
        .with("target", path.display())
        .with("mark at byte", mark.at)
}

/// How to go on after [`is_member`] by a mark in the target.
fn clear(path: &Path, at: u64) -> String {
    format!(
        "remove it from there first; wipefs shows and clears stale marks. One that it does not \
         show, and that nobody needs: dd if=/dev/zero of={} bs=1 seek={at} count=32 conv=notrunc",
        path.display()
    )
}

/// The same, by a mark below the target.
const CLEAR_BELOW: &str =
    "remove the disk below it from there first; wipefs shows and clears stale marks";

/// Errors: `Refused` where a part could not be read that may hold the mark of a member.
fn readable(disk: &SearchedDisk<'_>, path: &Path) -> Result<()> {
    let Some(what) = disk.unreadable() else { return Ok(()) };
    Err(Error::refused("it cannot be told here whether the target is a member of something")
        .with("target", path.display())
        .with("cannot be read", what)
        .hint(
            "if nothing on it is needed, write that place first (dd or blkdiscard), or choose \
             another target",
        ))
}

/// The refusal of something in use.
pub fn in_use(path: &Path, reason: &str) -> Error {
    Error::refused(format!("the target is in use: {reason}")).with("target", path.display()).hint(
        "choose another target, or release this one first; a plan that only reads may set \
             options.read_in_use = true",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_mounted_root_device_is_seen() {
        let root = std::fs::metadata("/").unwrap();
        if BlockDevice::from_dev(&Sys::default(), root.dev()).is_none() {
            eprintln!("skipped: / is not on a block device");
            return;
        }
        let reason = device_in_use(root.dev()).unwrap();
        assert!(reason.contains("mounted at"), "{reason}");
    }

    #[test]
    fn what_is_not_known_is_refused_also_when_it_is_asked_again() {
        let tmp = tempfile::tempdir().unwrap();
        let found = TargetState::with(&Sys::at(tmp.path()), &[]);
        let e = found.known(Path::new("x"), Vec::new()).unwrap_err().to_string();
        assert!(e.contains("what is mounted") && e.contains("which loop devices"), "{e}");
    }

    #[test]
    fn files_of_the_kernel_are_no_storage() {
        for path in ["/proc/self/comm", "/sys/kernel/mm"] {
            let Ok(file) = std::fs::File::open(path) else { continue };
            let e = storage(&file, Path::new(path)).unwrap_err();
            assert_eq!(e.kind(), taillight_core::ErrorKind::Refused);
        }
        storage(tempfile::tempfile().unwrap(), Path::new("x")).unwrap();
    }
}
