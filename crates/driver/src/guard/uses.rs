//! What uses blocks on this machine now: mounts of every namespace, swap, holders, loop devices, writers.
//!
//! A use is an extent with the reason to keep off it. Everything is told by number; a path only appears in
//! words. What could not be found out is noted, for those who must know.

use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::fs::{MemfdFlags, StatFs, fstat, fstatfs, memfd_create, statfs};
use taillight_machine::block::btrfs_devices;
use taillight_machine::loops::{self, ActiveLoop};
use taillight_machine::mounts::{self, Mount};
use taillight_machine::openers::{OpenedFile, Wanted};
use taillight_machine::{BlockDevice, DeviceNumber, Sys};

use crate::identity::device::{BlockExtent, BlockStack, Store};

/// Something that uses blocks.
struct BlockUse {
    extent: BlockExtent,
    /// The device that it names, if it names one.
    device: Option<DeviceNumber>,
    reason: String,
    /// What a mapped device does to those it is built of, all of its like together.
    holds: bool,
    /// The loop device that it is.
    by_loop: Option<DeviceNumber>,
}

/// Everything in use now.
pub struct Uses {
    sys: Sys,
    all: Vec<BlockUse>,
    mounts: Vec<Mount>,
    pub loops: Vec<ActiveLoop>,
    /// What could not be found out, in words.
    pub unknown: Vec<String>,
}

/// Holders of holders are described this deep (crypt on LVM on RAID is three).
const MAX_STACK: u32 = 8;

impl Uses {
    /// As things stand.
    pub fn now(sys: &Sys) -> Uses {
        let mut unknown = Vec::new();
        let mounts = mounts::everywhere(sys).unwrap_or_else(|_| {
            unknown.push("what is mounted (/proc/self/mountinfo)".to_owned());
            Vec::new()
        });
        let loops = loops::active(sys).unwrap_or_else(|| {
            unknown.push("which loop devices are in use (/sys/block, /proc/partitions)".to_owned());
            Vec::new()
        });
        let silent = loops.iter().filter_map(|l| l.backing.as_ref().err());
        unknown.extend(silent.map(|why| format!("what is behind a loop device ({why})")));
        let mut uses = Uses { sys: sys.clone(), all: Vec::new(), mounts, loops, unknown };
        uses.add_mounts();
        uses.add_swaps();
        uses.add_holders();
        uses.add_loops();
        uses
    }

    fn add(&mut self, number: DeviceNumber, reason: String, holds: bool) {
        let extent = BlockExtent::on_disk(&self.sys, number, 0..u64::MAX);
        self.all.push(BlockUse { extent, device: Some(number), reason, holds, by_loop: None });
    }

    fn add_mounts(&mut self) {
        let mounted: Vec<_> = self.mounts.iter().map(|m| (m.device, mounted(m))).collect();
        for (number, reason) in mounted {
            self.add(number, reason, false);
        }
        for number in btrfs_devices(&self.sys).flatten().collect::<Vec<_>>() {
            self.add(number, "a device of a mounted btrfs".to_owned(), false);
        }
    }

    fn add_swaps(&mut self) {
        let swaps = mounts::swaps(&self.sys).unwrap_or_else(|_| {
            self.unknown.push("what is used as swap (/proc/swaps)".to_owned());
            Vec::new()
        });
        for path in swaps {
            // The path is the kernel's own; where it means nothing here, the kernel itself keeps writers
            // off a swap file (ETXTBSY) and a swap device (EBUSY).
            let Ok(meta) = std::fs::metadata(&path) else { continue };
            let reason = "used as swap".to_owned();
            if meta.file_type().is_block_device() {
                self.add(DeviceNumber::from_dev(meta.rdev()), reason, false);
            } else {
                let extent = BlockExtent::whole(file(&meta));
                let (device, holds, by_loop) = (None, false, None);
                self.all.push(BlockUse { extent, device, reason, holds, by_loop });
            }
        }
    }

    fn add_holders(&mut self) {
        for device in BlockDevice::all(&self.sys) {
            if let Some(holder) = device.holders().first() {
                self.add(device.number, self.held(holder, 0), true);
            }
        }
    }

    fn held(&self, holder: &BlockDevice, depth: u32) -> String {
        let held = format!("held by {}", holder.describe());
        let above = holder.holders().into_iter().next().filter(|_| depth < MAX_STACK);
        let at = self.mounts.iter().find(|m| m.device == holder.number);
        match at.map(mounted).or(above.map(|above| self.held(&above, depth + 1))) {
            Some(deeper) => format!("{held}, {deeper}"),
            None => held,
        }
    }

    fn add_loops(&mut self) {
        for of in self.loops.clone() {
            let Ok(backing) = of.backing else { continue };
            let extent = BlockExtent::behind(&self.sys, &backing);
            let reason = format!("behind /dev/{}", of.name);
            let by_loop = Some(of.number);
            self.all.push(BlockUse { extent, device: None, reason, holds: false, by_loop });
            if backing.device.is_none() {
                // It is mounted, perhaps where this process cannot see it.
                let reason = format!("its file system holds the file behind /dev/{}", of.name);
                self.add(backing.file_system, reason, false);
            }
        }
    }

    /// Why blocks of the target are in use, its own first; `device` is its number where it is one.
    pub fn of(&self, stack: &BlockStack, device: Option<DeviceNumber>) -> Option<String> {
        let users = stack.extents.iter().flat_map(|extent| {
            self.all.iter().filter(move |u| {
                let own = u.by_loop.is_some_and(|number| stack.loops.contains(&number));
                let like = extent.mapped && u.holds;
                !own && !like && overlap(extent, &u.extent, |_, b| stack.overlay || self.hides(b))
            })
        });
        let first = users.into_iter().next()?;
        let other = first.device.filter(|number| Some(*number) != device);
        let name = other.and_then(|number| BlockDevice::find(&self.sys, number)).map(|d| d.name);
        Some(name.map_or(first.reason.clone(), |name| format!("{name}: {}", first.reason)))
    }

    /// Whether files of a file system with this number may be those of another one: an overlay, or a number
    /// that no mount has. Where the file itself can be asked, [`is_overlay`] says more: every subvolume of
    /// btrfs has such a number.
    fn hides(&self, number: DeviceNumber) -> bool {
        let mut mounts = self.mounts.iter().filter(|m| m.device == number);
        number.major == 0 && mounts.all(|m| m.fs == "overlay")
    }

    /// Whether a file that a process has open was opened through an overlay. The table of mounts is asked
    /// first: a dead network file system would not answer.
    fn is_of_overlay(&self, file: &OpenedFile) -> bool {
        match self.mounts.iter().find(|m| Some(m.id) == file.mount) {
            Some(mount) => mount.fs == "overlay",
            None => statfs(&file.link).is_ok_and(overlay),
        }
    }
}

/// Whether two extents have, or may have, a block in common: an overlay and its layers show one inode on
/// different file systems; `hides` says whether one of the two may be so.
fn overlap(
    one: &BlockExtent,
    other: &BlockExtent,
    hides: impl Fn(DeviceNumber, DeviceNumber) -> bool,
) -> bool {
    match (one.store, other.store) {
        (Store::File { file_system: a, inode }, Store::File { file_system: b, inode: same })
            if inode == same && a != b =>
        {
            let ranges = one.range.start < other.range.end && other.range.start < one.range.end;
            ranges && hides(a, b)
        }
        _ => one.overlaps(other),
    }
}

/// `OVERLAYFS_SUPER_MAGIC` of the kernel's `include/uapi/linux/magic.h`.
fn overlay(of: StatFs) -> bool {
    of.f_type as u64 & 0xffff_ffff == 0x794c_7630
}

/// Whether a file is on an overlay.
pub fn is_overlay(fd: impl AsFd) -> bool {
    fstatfs(fd).is_ok_and(overlay)
}

/// The file system of memory that processes share, which no table lists.
fn shared_memory() -> Option<DeviceNumber> {
    let memory = memfd_create(c"taillight", MemfdFlags::CLOEXEC).ok()?;
    Some(DeviceNumber::from_dev(fstat(memory).ok()?.st_dev))
}

fn mounted(at: &Mount) -> String {
    format!("mounted at {}", at.point.display())
}

fn file(meta: &Metadata) -> Store {
    Store::File { file_system: DeviceNumber::from_dev(meta.dev()), inode: meta.ino() }
}

/// The blocks of a target, for who looks for their writers.
pub struct TargetBlocks<'a> {
    pub uses: &'a Uses,
    pub stack: &'a BlockStack,
}

impl TargetBlocks<'_> {
    fn have(
        &self,
        extent: &BlockExtent,
        hides: impl Fn(DeviceNumber, DeviceNumber) -> bool,
    ) -> bool {
        let own = self.stack.extents.iter().filter(|own| !own.mapped);
        own.into_iter().any(|own| overlap(own, extent, &hides))
    }
}

impl Wanted for TargetBlocks<'_> {
    fn is(&self, file: &OpenedFile) -> bool {
        if file.kind.is_block_device() {
            let extent = BlockExtent::on_disk(&self.uses.sys, file.device, 0..u64::MAX);
            return self.have(&extent, |_, _| false);
        }
        let OpenedFile { file_system, inode, .. } = *file;
        let extent = BlockExtent::whole(Store::File { file_system, inode });
        let hides = |_, _| self.stack.overlay || self.uses.is_of_overlay(file);
        file.kind.is_file() && self.have(&extent, hides)
    }
    fn may_be(&self, file_system: DeviceNumber, inode: u64) -> bool {
        let extent = BlockExtent::whole(Store::File { file_system, inode });
        self.have(&extent, |a, b| {
            let hides = self.stack.overlay || self.uses.hides(a) || self.uses.hides(b);
            hides && Some(b) != shared_memory()
        })
    }
}
