//! What uses blocks on this machine now: mounts of every namespace that `/proc` shows, swap, holders, loop
//! devices, exports; and the blocks of a target, for a search for processes that write to them.
//!
//! A use is an extent with the reason to keep off it. Uses are compared by number; paths, by which the
//! kernel lists swap and exports, are looked up for that. What could not be found out is noted, for those
//! who must know; only a path of swap that means nothing here is not, as the kernel itself keeps writers off it.

use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{FileType, MemfdFlags, StatFs, fstat, fstatfs, memfd_create, stat, statfs};
use taillight_machine::block::btrfs_devices;
use taillight_machine::exports::exports;
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
    /// A mapped device or array is built on the blocks. Several on one device are no use of each other's.
    holds: bool,
    /// The loop device, where the use is what lies behind one.
    by_loop: Option<DeviceNumber>,
}

/// What is in use now, as far as it can be found out.
pub struct Uses {
    sys: Sys,
    all: Vec<BlockUse>,
    pub mounts: Vec<Mount>,
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
        uses.add_exports();
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
            let _ = self.add_path(&path, "used as swap");
        }
    }

    fn add_exports(&mut self) {
        for export in exports(&self.sys) {
            if self.add_path(&self.sys.path(&export.path.to_string_lossy()), export.by).is_err() {
                let path = export.path.display();
                self.unknown.push(format!("what {path} is, which is in use: {}", export.by));
            }
        }
    }

    /// Adds the use of the device or file that a path means here. Errors: as stat(2).
    fn add_path(&mut self, path: &Path, reason: &str) -> rustix::io::Result<()> {
        let found = stat(path)?;
        let reason = reason.to_owned();
        if FileType::from_raw_mode(found.st_mode).is_block_device() {
            self.add(DeviceNumber::from_dev(found.st_rdev), reason, false);
        } else {
            let extent = BlockExtent::whole(Store::file(&found));
            let (device, holds, by_loop) = (None, false, None);
            self.all.push(BlockUse { extent, device, reason, holds, by_loop });
        }
        Ok(())
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
                !own && !like && overlap(stack, extent, &u.extent, |number| self.hides(number))
            })
        });
        let first = users.into_iter().next()?;
        let other = first.device.filter(|number| Some(*number) != device);
        let other = other.and_then(|number| BlockDevice::find(&self.sys, number));
        let Some(other) = other else { return Some(first.reason.clone()) };
        let beside = match stack.beside.contains(&other.whole().number) {
            true => ", which has the same blocks",
            false => "",
        };
        Some(format!("{}{beside}: {}", other.name, first.reason))
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

/// Bits of an inode number that are those of the layer: an overlay of several file systems puts the number of
/// one into the bits above (`ovl_map_dev_ino` in the kernel's `fs/overlayfs/inode.c`; 500 layers take 10).
const OF_LAYER: u64 = (1 << 54) - 1;

/// Whether an extent of a stack and another one have, or may have, a block in common. An overlay shows files
/// of its layers, one of an upper layer even under the number of the file that it is a copy of; `hides` says
/// whether a file system with this number may be an overlay.
fn overlap(
    stack: &BlockStack,
    own: &BlockExtent,
    other: &BlockExtent,
    hides: impl Fn(DeviceNumber) -> bool,
) -> bool {
    match (own.store, other.store) {
        (Store::File { file_system: a, inode }, Store::File { file_system: b, inode: same })
            if a != b =>
        {
            let ranges = own.range.start < other.range.end && other.range.start < own.range.end;
            let like = inode & OF_LAYER == same & OF_LAYER;
            ranges && (like && stack.overlay || (like || stack.copied_up) && hides(b))
        }
        _ => own.overlaps(other),
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

/// The blocks of a target, for a search for their writers.
pub struct TargetBlocks<'a> {
    pub uses: &'a Uses,
    pub stack: &'a BlockStack,
}

impl TargetBlocks<'_> {
    fn have(&self, extent: &BlockExtent, hides: impl Fn(DeviceNumber) -> bool) -> bool {
        let own = self.stack.extents.iter().filter(|own| !own.mapped || !self.stack.arrays);
        own.into_iter().any(|own| overlap(self.stack, own, extent, &hides))
    }
}

impl Wanted for TargetBlocks<'_> {
    fn is(&self, file: &OpenedFile) -> bool {
        if file.kind.is_block_device() {
            let extent = BlockExtent::on_disk(&self.uses.sys, file.device, 0..u64::MAX);
            return self.have(&extent, |_| false);
        }
        let OpenedFile { file_system, inode, .. } = *file;
        let extent = BlockExtent::whole(Store::File { file_system, inode });
        file.kind.is_file() && self.have(&extent, |_| self.uses.is_of_overlay(file))
    }
    fn may_be(&self, file_system: DeviceNumber, inode: u64) -> bool {
        let extent = BlockExtent::whole(Store::File { file_system, inode });
        self.have(&extent, |number| self.uses.hides(number) && Some(number) != shared_memory())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::device::tree;

    fn why(root: &Path, number: DeviceNumber) -> Option<String> {
        let sys = Sys::at(root);
        let uses = Uses::now(&sys);
        uses.of(&BlockStack::of_device(&sys, number, &uses.loops), Some(number))
    }

    const PARTS: [(&str, &str, &str); 2] = [("1", "2048", "4096"), ("2", "8192", "4096")];

    /// A disk of two partitions, each path with its own numbers; those of the partitions.
    fn path(root: &Path, name: &str, minor: u32, wwid: &str) -> Vec<DeviceNumber> {
        let number = |n: u32| format!("8:{}", minor + n);
        tree::device(root, name, &number(0), &[("device/wwid", wwid), ("size", "99999")]);
        let part = |(n, (part, start, size)): (u32, (&str, &str, &str))| {
            let all = [("partition", part), ("start", start), ("size", size)];
            tree::device(root, &format!("{name}/{name}{part}"), &number(n), &all)
        };
        (1..).zip(PARTS).map(part).collect()
    }

    fn disk(minor: u32) -> DeviceNumber {
        DeviceNumber { major: 8, minor }
    }

    #[test]
    fn a_use_by_one_path_to_a_disk_is_one_by_the_other() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path();
        path(root, "sda", 0, "naa.1");
        let other = path(root, "sdb", 16, "naa.1");
        path(root, "sdc", 32, "naa.2");
        assert_eq!(why(root, disk(16)), None);
        tree::mount(root, &[("8:1", "/data")]);
        let mounted = Some("sda1, which has the same blocks: mounted at /data".to_owned());
        assert_eq!((why(root, disk(16)), why(root, other[0])), (mounted.clone(), mounted));
        assert_eq!((why(root, other[1]), why(root, disk(32))), (None, None));
        tree::device(root, "dm-0", "252:0", &[("dm/uuid", "CRYPT-1")]);
        tree::build(root, "dm-0", "sda/sda2");
        assert!(why(root, other[1]).unwrap().contains("sda2, which has the same blocks: held by"));
    }

    #[test]
    fn paths_that_a_map_puts_together_are_no_use_of_each_other() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path();
        let map = tree::device(root, "dm-0", "252:0", &[("dm/uuid", "mpath-naa.1")]);
        for (name, minor) in [("sda", 0), ("sdb", 16)] {
            path(root, name, minor, "naa.1");
            tree::build(root, "dm-0", name);
        }
        assert_eq!(why(root, map), None);
        // A path that the map does not have.
        path(root, "sdc", 32, "naa.1");
        assert_eq!(why(root, map), None);
        tree::mount(root, &[("8:32", "/data")]);
        assert!(why(root, map).unwrap().starts_with("sdc, which has the same blocks"));
    }

    #[test]
    fn a_map_beside_another_on_one_device_is_in_use_with_it() {
        let group = "0123456789abcdef0123456789abcdef";
        let (one, two) = (format!("LVM-{group}one"), format!("LVM-{group}two"));
        for (ids, apart) in [
            (["CRYPT-1", "CRYPT-2"], false),
            (["", ""], false),
            ([one.as_str(), two.as_str()], true),
            ([one.as_str(), "CRYPT-2"], false),
            (["part1-mpath-1", "part2-mpath-1"], true),
        ] {
            let tmp = tempfile::tempdir().unwrap();
            let root = tmp.path();
            path(root, "sda", 0, "naa.1");
            for (n, id) in ids.into_iter().enumerate() {
                let (name, number) = (format!("dm-{n}"), format!("252:{n}"));
                tree::device(root, &name, &number, &[("dm/name", "x"), ("dm/uuid", id)]);
                tree::build(root, &name, "sda/sda1");
            }
            let map = |minor| DeviceNumber { major: 252, minor };
            // A map above the first, which is what is asked for.
            let above = tree::device(root, "dm-9", "252:9", &[("dm/uuid", ids[0])]);
            assert_eq!(why(root, map(1)), None, "both are free");
            tree::mount(root, &[("252:1", "/data")]);
            let by = "dm-1, which has the same blocks: mounted at /data";
            assert_eq!(why(root, map(0)).as_deref(), (!apart).then_some(by), "{ids:?}");
            tree::build(root, "dm-9", "dm-0");
            assert_eq!(why(root, above).as_deref(), (!apart).then_some(by), "{ids:?}");
        }
    }

    #[test]
    fn what_the_kernel_exports_is_in_use() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path();
        let sys = Sys::at(root);
        tree::mount(root, &[]);
        tree::device(root, "sda", "8:0", &[]);
        let put = |place: &str, text: &str| {
            let file = root.join("sys/kernel/config").join(place);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        std::fs::write(root.join("image"), b"x").unwrap();
        put("target/core/fileio_1/image/udev_path", "/image");
        let found = stat(root.join("image")).unwrap();
        let uses = Uses::now(&sys);
        assert_eq!(uses.unknown, Vec::<String>::new());
        let reason = uses.of(&BlockStack::of(&sys, &[found], &[]), None);
        assert_eq!(reason.as_deref(), Some("an export by SCSI (LIO)"));
        put("nvmet/subsystems/a/namespaces/1/device_path", "/elsewhere");
        assert!(Uses::now(&sys).unknown[0].contains("/elsewhere"));
    }

    #[test]
    fn what_cannot_be_asked_is_not_taken_for_unused() {
        let tmp = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(tmp.path().join("proc/swaps")).unwrap();
        let all = Uses::now(&Sys::at(tmp.path())).unknown.join("; ");
        for what in ["mounted", "loop devices", "swap"] {
            assert!(all.contains(what), "{what}: {all}");
        }
    }
}
