//! Which blocks a device is made of, down to the disks and files at the bottom of its stack. A file
//! is its own bottom: the device under its file system is not looked for.
//!
//! A partition is a part of its disk, a loop device is a part of a file or of another device, a mapped
//! device is built of others. Two names mean the same data where their extents overlap. Everything is told
//! by numbers: of devices, of file systems and their inodes. The guard compares what is in use with this.

use std::ops::Range;

use rustix::fs::{FileType, Stat};
use taillight_machine::loops::{ActiveLoop, LoopBacking};
use taillight_machine::{BlockDevice, DeviceNumber, Sys};

/// How many layers of a stack are followed (a loop device over crypt over LVM over RAID is four).
const LEVELS: u32 = 16;

/// What holds blocks and is no part of anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// A whole block device.
    Device(DeviceNumber),
    /// A file, by the device number that stat gives and its inode number.
    File { file_system: DeviceNumber, inode: u64 },
}

impl Store {
    /// The file with this stat.
    pub fn file(stat: &Stat) -> Store {
        let file_system = DeviceNumber::from_dev(stat.st_dev);
        Store::File { file_system, inode: stat.st_ino }
    }
}

/// A range of a store, bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockExtent {
    pub store: Store,
    pub range: Range<u64>,
    /// Reached through a mapped device or a RAID array. Several may share one store: that others are built on
    /// it does not mean that these blocks are in use.
    pub mapped: bool,
}

impl BlockExtent {
    /// The whole of a store.
    pub fn whole(store: Store) -> BlockExtent {
        BlockExtent { store, range: 0..u64::MAX, mapped: false }
    }

    /// A range of a device, as a range of its disk where it is a partition.
    pub fn on_disk(sys: &Sys, number: DeviceNumber, range: Range<u64>) -> BlockExtent {
        let device = BlockDevice::find(sys, number).filter(BlockDevice::is_partition);
        let Some((part, disk)) = device.and_then(|d| Some((d.range()?, d.whole()))) else {
            return BlockExtent { range, ..BlockExtent::whole(Store::Device(number)) };
        };
        let end = part.start.saturating_add(range.end.min(part.len));
        let range = part.start.saturating_add(range.start)..end;
        BlockExtent { range, ..BlockExtent::whole(Store::Device(disk.number)) }
    }

    /// All that is behind a loop device.
    pub fn behind(sys: &Sys, backing: &LoopBacking) -> BlockExtent {
        let range = backing.range(0..u64::MAX);
        match backing.device {
            Some(number) => BlockExtent::on_disk(sys, number, range),
            None => BlockExtent { range, ..BlockExtent::whole(backing_file(backing)) },
        }
    }

    /// Whether both have a block in common.
    pub fn overlaps(&self, other: &BlockExtent) -> bool {
        self.store == other.store
            && self.range.start < other.range.end
            && other.range.start < self.range.end
    }
}

fn backing_file(of: &LoopBacking) -> Store {
    Store::File { file_system: of.file_system, inode: of.inode }
}

/// What a target is made of.
#[derive(Debug, Default)]
pub struct BlockStack {
    /// Its blocks on each level, its own first.
    pub extents: Vec<BlockExtent>,
    /// The loop devices in it: what is behind them is no other use of the same blocks.
    pub loops: Vec<DeviceNumber>,
    /// Devices behind these, and whole ones beside the stack: the guard still asks whether they are claimed.
    pub behind: Vec<DeviceNumber>,
    /// Other devices with blocks of it: further paths to its disks, and maps on what its maps are built of.
    pub beside: Vec<DeviceNumber>,
    /// Part of it is an array or the like, which opens what it is built of for itself (mdmon).
    pub arrays: bool,
    /// A file of it is on an overlay, which shows the inode numbers of its layers, and it is not known which
    /// file of a layer it is.
    pub overlay: bool,
    /// A file of it may be one that an overlay shows under the inode number of another.
    pub copied_up: bool,
    /// The devices in it, and those of them that maps and arrays are built of.
    devices: Vec<DeviceNumber>,
    members: Vec<DeviceNumber>,
}

impl BlockStack {
    /// The stack of what has these stats, a block device or files.
    pub fn of(sys: &Sys, stats: &[Stat], loops: &[ActiveLoop]) -> BlockStack {
        let mut stack = BlockStack::default();
        for stat in stats {
            if FileType::from_raw_mode(stat.st_mode).is_block_device() {
                let number = DeviceNumber::from_dev(stat.st_rdev);
                stack.add(sys, loops, number, 0..u64::MAX, false, LEVELS);
            } else {
                stack.extents.push(BlockExtent::whole(Store::file(stat)));
            }
        }
        stack.add_beside(sys);
        stack
    }

    /// The stack of the block device with this number.
    pub fn of_device(sys: &Sys, number: DeviceNumber, loops: &[ActiveLoop]) -> BlockStack {
        let mut stack = BlockStack::default();
        stack.add(sys, loops, number, 0..u64::MAX, false, LEVELS);
        stack.add_beside(sys);
        stack
    }

    fn has(&self, number: DeviceNumber) -> bool {
        self.extents.iter().any(|extent| extent.store == Store::Device(number))
    }

    /// Adds the devices beside the stack with the same blocks. The kernel keeps nobody off the second path
    /// to a disk, and lets maps share a device: whether they overlap, only their tables tell.
    fn add_beside(&mut self, sys: &Sys) {
        let of = |number: &DeviceNumber| BlockDevice::find(sys, *number);
        for extent in self.extents.clone() {
            let Store::Device(number) = extent.store else { continue };
            for path in of(&number).iter().flat_map(|disk| disk.other_paths(sys)) {
                let store = Store::Device(path.number);
                self.push_beside(
                    BlockExtent { store, mapped: false, ..extent.clone() },
                    path.number,
                );
            }
        }
        let own: Vec<BlockDevice> = self.devices.iter().filter_map(of).collect();
        let members: Vec<BlockDevice> = self.members.iter().filter_map(of).collect();
        for map in members.iter().flat_map(BlockDevice::holders).filter(BlockDevice::is_mapped) {
            if !own.iter().any(|own| own.is_apart_from(&map)) {
                self.push_beside(BlockExtent::whole(Store::Device(map.number)), map.number);
            }
        }
    }

    fn push_beside(&mut self, extent: BlockExtent, number: DeviceNumber) {
        if !self.has(number) {
            // Of a part, the rest may be claimed by others.
            self.behind.extend((extent.range == (0..u64::MAX)).then_some(number));
            self.extents.push(extent);
            self.beside.push(number);
        }
    }

    fn add(
        &mut self,
        sys: &Sys,
        loops: &[ActiveLoop],
        number: DeviceNumber,
        range: Range<u64>,
        mapped: bool,
        levels: u32,
    ) {
        let extent = BlockExtent { mapped, ..BlockExtent::on_disk(sys, number, range) };
        if levels == 0 || self.extents.contains(&extent) {
            return;
        }
        let (Store::Device(disk), range) = (extent.store, extent.range.clone()) else { return };
        self.extents.push(extent);
        self.devices.push(number);
        if let Some((of, backing)) = loops
            .iter()
            .find_map(|l| Some((l.number, l.backing.as_ref().ok()?)).filter(|(n, _)| *n == disk))
        {
            self.loops.push(of);
            let range = backing.range(range);
            match backing.device {
                Some(below) => {
                    self.behind.push(below);
                    self.add(sys, loops, below, range, false, levels - 1);
                }
                None => self
                    .extents
                    .push(BlockExtent { range, ..BlockExtent::whole(backing_file(backing)) }),
            }
        }
        let Some(disk) = BlockDevice::find(sys, disk) else { return };
        for member in disk.members() {
            self.arrays |= !disk.is_mapped();
            self.members.push(member.number);
            self.add(sys, loops, member.number, 0..u64::MAX, true, levels - 1);
        }
    }
}

/// A synthetic sysfs.
#[cfg(test)]
pub mod tree {
    use std::os::unix::fs::symlink;
    use std::path::Path;

    use taillight_machine::DeviceNumber;

    /// Adds a disk, or a partition as `sda/sda1`, with attributes. Returns its number.
    pub fn device(
        root: &Path,
        name: &str,
        number: &str,
        attributes: &[(&str, &str)],
    ) -> DeviceNumber {
        let dir = root.join("sys/block").join(name);
        for (attribute, value) in [("dev", number)].iter().chain(attributes) {
            let file = dir.join(attribute);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, value).unwrap();
        }
        std::fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        symlink(&dir, root.join("sys/dev/block").join(number)).unwrap();
        number.parse().unwrap_or_else(|_| panic!("{number} is no device number"))
    }

    /// Builds one device on another.
    pub fn build(root: &Path, holder: &str, of: &str) {
        let dir = |name: &str| root.join("sys/block").join(name);
        for (place, folder, other) in [(of, "holders", holder), (holder, "slaves", of)] {
            let link = dir(place).join(folder);
            std::fs::create_dir_all(&link).unwrap();
            symlink(dir(other), link.join(dir(other).file_name().unwrap())).unwrap();
        }
    }

    /// Mounts devices, by number and place.
    pub fn mount(root: &Path, all: &[(&str, &str)]) {
        let line = |(number, at): &(&str, &str)| format!("1 1 {number} / {at} rw - ext4 none rw\n");
        std::fs::create_dir_all(root.join("proc/self")).unwrap();
        let text: String = all.iter().map(line).collect();
        std::fs::write(root.join("proc/self/mountinfo"), text).unwrap();
    }
}
