//! Block devices as sysfs shows them: numbers, disks and partitions, what is built on them and what
//! they are built of, attributes and queue settings.

use std::fmt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::{Sys, mounts, read};

/// How deep loop devices, stacked devices and layers of overlays are followed.
const LEVELS: u32 = 4;

/// Major and minor number of a device; shown as `8:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceNumber {
    pub major: u32,
    pub minor: u32,
}

impl DeviceNumber {
    /// Of a `dev_t` as stat gives it.
    pub fn from_dev(dev: u64) -> DeviceNumber {
        DeviceNumber { major: rustix::fs::major(dev), minor: rustix::fs::minor(dev) }
    }

    /// The block device at `path`; none when it is something else.
    pub fn of_path(path: &Path) -> Option<DeviceNumber> {
        let meta = std::fs::metadata(path).ok()?;
        let block = meta.file_type().is_block_device();
        block.then(|| DeviceNumber::from_dev(meta.rdev()))
    }

    /// As the kernel keeps it, and trace programs see it: `major << 20 | minor`.
    pub fn in_kernel(self) -> u32 {
        self.major << 20 | self.minor
    }

    /// The device that `path` is, or is on; for a path that does not exist yet, its parent's.
    fn below(path: &Path) -> Option<DeviceNumber> {
        let mut existing = path.ancestors().filter(|p| p.exists());
        let meta = match existing.next() {
            Some(p) => std::fs::metadata(p).ok()?,
            // A relative path that is to be made in the working directory.
            None => {
                local(path.to_str().unwrap_or("."))?;
                std::fs::metadata(".").ok()?
            }
        };
        let block = meta.file_type().is_block_device();
        let dev = if block { meta.rdev() } else { meta.dev() };
        Some(DeviceNumber::from_dev(dev))
    }
}

impl fmt::Display for DeviceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.major, self.minor)
    }
}

/// A text that is no device number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoDeviceNumber;

impl FromStr for DeviceNumber {
    type Err = NoDeviceNumber;

    fn from_str(text: &str) -> Result<DeviceNumber, NoDeviceNumber> {
        let (major, minor) = text.split_once(':').ok_or(NoDeviceNumber)?;
        Ok(DeviceNumber {
            major: major.parse().map_err(|_| NoDeviceNumber)?,
            minor: minor.parse().map_err(|_| NoDeviceNumber)?,
        })
    }
}

/// Where a partition lies on its disk, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionRange {
    pub start: u64,
    pub len: u64,
}

/// A block device that sysfs knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockDevice {
    pub number: DeviceNumber,
    /// Kernel name: `sda1`, `nvme0n1`, `loop3p1`.
    pub name: String,
    /// Its directory in sysfs, resolved.
    dir: PathBuf,
}

impl BlockDevice {
    /// The device with this number; `None` when sysfs knows none (anonymous file system devices).
    pub fn find(sys: &Sys, number: DeviceNumber) -> Option<BlockDevice> {
        BlockDevice::at(&sys.path(&format!("/sys/dev/block/{number}")))
    }

    /// The device with this `dev_t`.
    pub fn from_dev(sys: &Sys, dev: u64) -> Option<BlockDevice> {
        BlockDevice::find(sys, DeviceNumber::from_dev(dev))
    }

    fn at(path: &Path) -> Option<BlockDevice> {
        let dir = path.canonicalize().ok()?;
        Some(BlockDevice {
            number: read(&dir.join("dev"))?.parse().ok()?,
            name: dir.file_name()?.to_str()?.to_owned(),
            dir,
        })
    }

    /// Every disk and partition that sysfs lists.
    pub fn all(sys: &Sys) -> Vec<BlockDevice> {
        let disks = entries(&sys.path("/sys/block")).into_iter();
        let disks = disks.filter_map(|dir| BlockDevice::at(&dir));
        disks.flat_map(|disk| disk.partitions().into_iter().chain([disk])).collect()
    }

    pub fn is_partition(&self) -> bool {
        self.dir.join("partition").exists()
    }

    /// The disk it is on, whose model and queue it shares; itself when it is a whole one.
    pub fn whole(&self) -> BlockDevice {
        let parent = self.is_partition().then(|| self.dir.parent()).flatten();
        parent.and_then(BlockDevice::at).unwrap_or_else(|| self.clone())
    }

    /// Its partitions, in no order.
    pub fn partitions(&self) -> Vec<BlockDevice> {
        let children = entries(&self.dir).into_iter();
        let partitions = children.filter(|child| child.join("partition").exists());
        partitions.filter_map(|p| BlockDevice::at(&p)).collect()
    }

    /// Where it lies on its disk, for a partition.
    pub fn range(&self) -> Option<PartitionRange> {
        Some(PartitionRange { start: self.sectors("start")?, len: self.sectors("size")? })
    }

    /// Its size, bytes.
    pub fn size(&self) -> Option<u64> {
        self.sectors("size")
    }

    /// An attribute in sectors of 512 bytes, as bytes.
    fn sectors(&self, name: &str) -> Option<u64> {
        self.attr(name)?.parse::<u64>().ok()?.checked_mul(512)
    }

    /// Devices built on it: LVM volumes, RAID arrays, crypt and multipath maps.
    pub fn holders(&self) -> Vec<BlockDevice> {
        self.linked("holders")
    }

    /// Devices it is built of, for device mapper and RAID, by name.
    pub fn members(&self) -> Vec<BlockDevice> {
        self.linked("slaves")
    }

    fn linked(&self, folder: &str) -> Vec<BlockDevice> {
        let mut links = entries(&self.dir.join(folder));
        links.sort();
        links.iter().filter_map(|l| BlockDevice::at(l)).collect()
    }

    /// What a holder is, for people: `md0 (RAID raid1)`, `dm-1 (LVM vg-root)`.
    pub fn describe(&self) -> String {
        let md = self.attr("md/level").map(|level| format!("RAID {level}"));
        let dm = self.attr("dm/name").map(|name| {
            let uuid = self.attr("dm/uuid").unwrap_or_default();
            let kind = uuid.split('-').next().unwrap_or_default();
            format!("{} {name}", if kind.is_empty() { "mapped" } else { kind })
        });
        match md.or(dm) {
            Some(what) => format!("{} ({what})", self.name),
            None => self.name.clone(),
        }
    }

    /// The file behind a loop device.
    pub fn backing_file(&self) -> Option<String> {
        self.attr("loop/backing_file")
    }

    /// What names its data wherever a disk is attached: the WWID of an NVMe namespace or a SCSI disk, the serial
    /// number of a virtio disk. That of an NVMe drive or an MMC card is left out: several disks may share it.
    pub fn wwid(&self) -> Option<String> {
        ["wwid", "device/wwid", "serial"].into_iter().find_map(|name| self.attr(name))
    }

    /// Other disks with its WWID and size: the same disk, reached another way. None of or among removable disks: what
    /// names a card reader is the same for all of its slots.
    pub fn other_paths(&self, sys: &Sys) -> Vec<BlockDevice> {
        let Some(wwid) = self.wwid() else { return Vec::new() };
        let removable = |disk: &BlockDevice| disk.attr("removable").is_some_and(|r| r == "1");
        if removable(self) {
            return Vec::new();
        }
        let disks = entries(&sys.path("/sys/block")).into_iter();
        let disks = disks.filter_map(|dir| BlockDevice::at(&dir));
        let same = |d: &BlockDevice| d.wwid().as_ref() == Some(&wwid) && d.size() == self.size();
        disks.filter(|d| d.number != self.number && !removable(d) && same(d)).collect()
    }

    /// Whether it is a map of device mapper. Maps share what they are built of; whatever else is built on a
    /// device has it for its own.
    pub fn is_mapped(&self) -> bool {
        self.dir.join("dm").exists()
    }

    /// Whether two maps on one device have no block of it in common: logical volumes of one volume group
    /// (whose id are the first 32 digits after `LVM-`), and partitions that kpartx made of one table
    /// (`part1-`, `part2-` before what they are parts of).
    pub fn is_apart_from(&self, other: &BlockDevice) -> bool {
        let ids = self.attr("dm/uuid").zip(other.attr("dm/uuid"));
        ids.is_some_and(|(one, other)| {
            let group =
                |id: &str| id.starts_with("LVM-").then(|| id.get(..36).map(str::to_owned))?;
            let table = |id: &str| {
                let (number, of) = id.strip_prefix("part")?.split_once('-')?;
                number.bytes().all(|b| b.is_ascii_digit()).then(|| of.to_owned())
            };
            let equal = |of: &dyn Fn(&str) -> Option<String>| {
                of(&one).is_some_and(|first| of(&other) == Some(first))
            };
            equal(&group) || equal(&table)
        })
    }

    /// An attribute of this device.
    pub fn attr(&self, name: &str) -> Option<String> {
        read(&self.dir.join(name))
    }

    /// An attribute of its request queue, which partitions share with their disk.
    pub fn queue(&self, name: &str) -> Option<String> {
        self.whole().attr(&format!("queue/{name}"))
    }

    /// How many hardware queues its disk has.
    pub fn hardware_queues(&self) -> Option<usize> {
        let list = std::fs::read_dir(self.whole().dir.join("mq")).ok()?;
        Some(list.count())
    }
}

/// Name of each loop device in use, and path of the file behind it; in no order.
pub fn loop_backings(sys: &Sys) -> Vec<(String, String)> {
    let all = entries(&sys.path("/sys/block")).into_iter();
    all.filter_map(|dir| BlockDevice::at(&dir))
        .filter_map(|b| b.backing_file().map(|file| (b.name, file)))
        .collect()
}

/// The path of a target's data on this machine; none for an address (`http://...`, `unix:...`),
/// whose data another process or machine holds.
pub fn local(target: &str) -> Option<&Path> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let scheme = target.split_once("://").map(|(scheme, _)| scheme);
    let address = scheme.is_some_and(|s| s.chars().all(plain)) || target.starts_with("unix:");
    (!address && !target.is_empty()).then(|| Path::new(target))
}

/// The disks below these paths (files, directories, devices), in their order, each before what it is built of.
pub fn disks_below(
    sys: &Sys,
    paths: impl IntoIterator<Item = impl AsRef<Path>>,
) -> Vec<BlockDevice> {
    let mut found = Vec::new();
    for path in paths {
        for number in devices_of(sys, path.as_ref()) {
            follow(sys, number, LEVELS, &mut found);
        }
    }
    found
}

/// Whether the file system at a path, or the device there, has a device number that sysfs knows.
pub fn has_device(sys: &Sys, path: &Path) -> bool {
    DeviceNumber::below(path).is_some_and(|number| BlockDevice::find(sys, number).is_some())
}

/// The devices that hold what is at a path: the one that it is or is on. A file system without a device number of
/// its own has those that it names: each of btrfs, those of every layer of an overlay. Empty where one of them is
/// not known.
pub fn devices_of(sys: &Sys, path: &Path) -> Vec<DeviceNumber> {
    devices(sys, path, LEVELS)
}

fn devices(sys: &Sys, path: &Path, levels: u32) -> Vec<DeviceNumber> {
    let Some(number) = DeviceNumber::below(path) else { return Vec::new() };
    if BlockDevice::find(sys, number).is_some() {
        return vec![number];
    }
    let Some(mount) = mounts::mount_of(sys, path) else { return Vec::new() };
    if mount.fs != "overlay" {
        return named_by(sys, &mount);
    }
    let layers = mount.layers().into_iter().map(|layer| match levels {
        // As they were given: a relative one is relative to whoever mounted it.
        1.. if layer.is_absolute() && layer.exists() => devices(sys, &layer, levels - 1),
        _ => Vec::new(),
    });
    let layers: Vec<_> = layers.collect();
    if layers.iter().any(Vec::is_empty) {
        return Vec::new();
    }
    let mut all: Vec<DeviceNumber> = Vec::new();
    for number in layers.into_iter().flatten() {
        if !all.contains(&number) {
            all.push(number);
        }
    }
    all
}

/// The devices of a file system that was mounted by the path of one: each of btrfs.
pub fn named_by(sys: &Sys, mount: &mounts::Mount) -> Vec<DeviceNumber> {
    mount.source_device().map_or_else(Vec::new, |device| members(sys, device))
}

/// The devices of each btrfs that is mounted somewhere (`/sys/fs/btrfs`).
pub fn btrfs_devices(sys: &Sys) -> impl Iterator<Item = Vec<DeviceNumber>> {
    entries(&sys.path("/sys/fs/btrfs")).into_iter().map(|system| {
        let links = entries(&system.join("devices")).into_iter();
        links.filter_map(|l| Some(BlockDevice::at(&l)?.number)).collect()
    })
}

/// All devices of the btrfs that this one is a part of, itself first; else itself.
fn members(sys: &Sys, device: DeviceNumber) -> Vec<DeviceNumber> {
    let mut all = btrfs_devices(sys).find(|list| list.contains(&device)).unwrap_or_default();
    all.retain(|other| *other != device);
    all.insert(0, device);
    all
}

fn follow(sys: &Sys, number: DeviceNumber, levels: u32, found: &mut Vec<BlockDevice>) {
    let Some(disk) = BlockDevice::find(sys, number).map(|d| d.whole()) else {
        return;
    };
    if found.contains(&disk) {
        return;
    }
    let below = disk.backing_file();
    let members: Vec<DeviceNumber> = disk.members().iter().map(|m| m.number).collect();
    found.push(disk);
    if levels > 0 {
        let below = below.map(|file| devices(sys, Path::new(&file), levels - 1));
        for number in below.into_iter().flatten().chain(members) {
            follow(sys, number, levels - 1, found);
        }
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_dir(dir).into_iter().flatten().flatten();
    list.map(|e| e.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    /// A device in a synthetic sysfs: its directory below `root`, its number, its attributes.
    fn device(root: &Path, dir: &str, number: &str, attributes: &[(&str, &str)]) {
        for (name, value) in [("dev", number)].iter().chain(attributes) {
            put(root, &format!("{dir}/{name}"), &format!("{value}\n"));
        }
        let link = root.join(format!("sys/dev/block/{number}"));
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(root.join(dir), link).unwrap();
    }

    fn find(sys: &Sys, number: &str) -> BlockDevice {
        BlockDevice::find(sys, number.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_partition_under_a_crypt_map_and_a_raid() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path();
        device(root, "sda", "8:0", &[("queue/scheduler", "[none]")]);
        let part = [("partition", "1"), ("start", "2048"), ("size", "4096")];
        device(root, "sda/sda1", "8:1", &part);
        let map = [("dm/name", "vault"), ("dm/uuid", "CRYPT-LUKS2-1234-vault")];
        device(root, "dm-0", "252:0", &map);
        device(root, "md0", "9:0", &[("md/level", "raid1")]);
        for (of, holder) in [("sda/sda1", "dm-0"), ("dm-0", "md0")] {
            for (place, name, target) in [(of, "holders", holder), (holder, "slaves", of)] {
                let folder = root.join(place).join(name);
                std::fs::create_dir_all(&folder).unwrap();
                let link = folder.join(root.join(target).file_name().unwrap());
                std::os::unix::fs::symlink(root.join(target), link).unwrap();
            }
        }
        let sys = Sys::at(root);
        let disk = find(&sys, "8:0");
        let part = disk.partitions().pop().unwrap();
        assert_eq!((part.name.as_str(), part.number.minor), ("sda1", 1));
        assert!(part.is_partition() && part.whole() == disk && disk.whole() == disk);
        let range = PartitionRange { start: 1 << 20, len: 2 << 20 };
        assert_eq!(part.range(), Some(range));
        assert_eq!(part.queue("scheduler").as_deref(), Some("[none]"));
        let map = part.holders().pop().unwrap();
        assert_eq!(map.describe(), "dm-0 (CRYPT vault)");
        assert_eq!(map.holders()[0].describe(), "md0 (RAID raid1)");
        assert_eq!(map.holders()[0].members(), [map]);
        assert!(disk.holders().is_empty());
        assert_eq!(BlockDevice::from_dev(&sys, 7), None);
        let mut below = Vec::new();
        follow(&sys, "9:0".parse().unwrap(), LEVELS, &mut below);
        let names: Vec<&str> = below.iter().map(|d| d.name.as_str()).collect();
        assert_eq!(names, ["md0", "dm-0", "sda"]);
    }

    #[test]
    fn a_disk_has_other_paths_and_maps_of_one_group_are_apart() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path();
        let disks = [
            ("sda", "8:0", "device/wwid", "naa.1"),
            ("sdb", "8:16", "device/wwid", "naa.1"),
            ("sdc", "8:32", "device/wwid", "naa.2"),
            ("sdd", "8:48", "device/serial", "naa.1"),
        ];
        for (name, number, attribute, value) in disks {
            device(root, &format!("sys/block/{name}"), number, &[(attribute, value)]);
        }
        let sys = Sys::at(root);
        let paths = |number| {
            let all = find(&sys, number).other_paths(&sys);
            all.into_iter().map(|d| d.name).collect::<Vec<_>>()
        };
        assert_eq!(paths("8:0"), ["sdb"]);
        assert!(paths("8:32").is_empty() && paths("8:48").is_empty());
        let group = "0123456789abcdef0123456789abcdef";
        let ids = [
            (0, format!("LVM-{group}one")),
            (1, format!("LVM-{group}two-real")),
            (2, format!("LVM-{}one", group.replace('0', "f"))),
            (3, "part1-mpath-naa.1".to_owned()),
            (4, "part2-mpath-naa.1".to_owned()),
            (5, "part2-mpath-naa.2".to_owned()),
            (6, "CRYPT-LUKS2-1".to_owned()),
            (7, "CRYPT-LUKS2-1".to_owned()),
        ];
        for (n, id) in &ids {
            device(root, &format!("sys/block/dm-{n}"), &format!("252:{n}"), &[("dm/uuid", id)]);
        }
        let apart = |one: u32, other: u32| {
            let map = |n| find(&sys, &format!("252:{n}"));
            assert!(map(one).is_mapped());
            map(one).is_apart_from(&map(other))
        };
        assert!(apart(0, 1) && apart(3, 4));
        for (one, other) in [(0, 2), (4, 5), (6, 7), (0, 6), (3, 0)] {
            assert!(!apart(one, other), "{one} {other}");
        }
    }

    #[test]
    fn a_file_system_of_several_disks_has_all_of_them() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path();
        for (name, number) in [("sda", "8:0"), ("sdb", "8:16"), ("sdc", "8:32")] {
            device(root, &format!("sys/devices/{name}"), number, &[]);
        }
        std::fs::create_dir_all(root.join("sys/fs/btrfs/features")).unwrap();
        let devices = root.join("sys/fs/btrfs/12-34/devices");
        std::fs::create_dir_all(&devices).unwrap();
        for name in ["sda", "sdb"] {
            let disk = root.join("sys/devices").join(name);
            std::os::unix::fs::symlink(disk, devices.join(name)).unwrap();
        }
        let of = |number: &str| {
            let mut all = members(&Sys::at(root), number.parse().unwrap());
            all.sort_by_key(|n| n.in_kernel());
            all.iter().map(DeviceNumber::to_string).collect::<Vec<_>>()
        };
        assert_eq!(of("8:16"), ["8:0", "8:16"]);
        assert_eq!(of("8:32"), ["8:32"]);
    }

    #[test]
    fn a_number_is_text_and_what_the_kernel_keeps() {
        let number: DeviceNumber = "259:3".parse().unwrap();
        assert_eq!(number.to_string(), "259:3");
        assert_eq!(number.in_kernel(), 259 << 20 | 3);
        for wrong in ["", "8", "8:", "x:1", "8:1:2"] {
            assert!(wrong.parse::<DeviceNumber>().is_err(), "{wrong}");
        }
        assert_eq!(DeviceNumber::of_path(Path::new("/proc")), None);
    }

    #[test]
    fn an_address_is_on_no_disk() {
        for address in
            ["http://127.0.0.1:9000/bucket/", "redis://127.0.0.1:6379/0", "unix:/run/redis.sock"]
        {
            assert_eq!(local(address), None);
            assert_eq!(DeviceNumber::below(Path::new(address)), None, "{address}");
        }
        assert_eq!(local("/a/x://b"), Some(Path::new("/a/x://b")));
        assert_eq!(local("dir/file"), Some(Path::new("dir/file")));
        // Not there yet: it will be made in the working directory.
        assert_eq!(
            DeviceNumber::below(Path::new("no-such-dir/x")),
            DeviceNumber::below(Path::new("."))
        );
    }

    #[test]
    fn a_partition_is_its_disk() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path();
        let number = DeviceNumber::below(root).unwrap().to_string();
        let of = "sys/devices/sda/sda1";
        for (file, text) in [("../dev", "8:0\n"), ("dev", "8:1\n"), ("partition", "1\n")] {
            std::fs::create_dir_all(root.join(of)).unwrap();
            std::fs::write(root.join(of).join(file), text).unwrap();
        }
        let link = root.join(format!("sys/dev/block/{number}"));
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(root.join(of), link).unwrap();
        let disks = disks_below(&Sys::at(root), [root.join("not/there")]);
        assert_eq!(disks[0].name, "sda");
        assert_eq!(disks.len(), 1);
        assert_eq!(disks[0].number.in_kernel(), 8 << 20);
        let twice = disks_below(&Sys::at(root), [root, &root.join("log")]);
        assert_eq!(twice, disks, "two directories of one disk");
    }
}
