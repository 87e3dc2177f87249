//! A block device as sysfs shows it: its whole disk, partitions, holders and queue.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

/// A block device, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub number: String,
    /// Kernel name: `sda1`, `nvme0n1`, `loop3p1`.
    pub name: String,
    /// Its directory in sysfs, resolved.
    sys: PathBuf,
}

/// Where a partition lies on its disk, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub start: u64,
    pub len: u64,
}

impl Block {
    /// The device with this number; `None` when sysfs knows none (anonymous file system devices).
    pub fn from_number(rdev: u64) -> Option<Block> {
        Block::at(Path::new(&format!(
            "/sys/dev/block/{}:{}",
            major(rdev),
            minor(rdev)
        )))
    }

    fn at(path: &Path) -> Option<Block> {
        let sys = fs::canonicalize(path).ok()?;
        Some(Block {
            number: line(&sys.join("dev"))?,
            name: sys.file_name()?.to_str()?.to_owned(),
            sys,
        })
    }

    /// Whether it is a partition.
    pub fn is_partition(&self) -> bool {
        self.sys.join("partition").exists()
    }

    /// The disk it is on; itself when it is a whole one.
    pub fn whole(&self) -> Block {
        let parent = self.is_partition().then(|| self.sys.parent()).flatten();
        parent.and_then(Block::at).unwrap_or_else(|| self.clone())
    }

    /// Its partitions, in no order.
    pub fn partitions(&self) -> Vec<Block> {
        let children = entries(&self.sys);
        children
            .iter()
            .filter(|child| child.join("partition").exists())
            .filter_map(|child| Block::at(child))
            .collect()
    }

    /// Where it lies on its disk, for a partition.
    pub fn window(&self) -> Option<Window> {
        let sectors = |name| self.attr(name)?.parse::<u64>().ok()?.checked_mul(512);
        Some(Window {
            start: sectors("start")?,
            len: sectors("size")?,
        })
    }

    /// Devices built on it: LVM volumes, RAID arrays, crypt and multipath maps.
    pub fn holders(&self) -> Vec<Block> {
        entries(&self.sys.join("holders"))
            .iter()
            .filter_map(|h| Block::at(h))
            .collect()
    }

    /// What a holder is, for people: `md0 (RAID)`, `dm-1 (LVM vg-root)`.
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

    /// An attribute of this device.
    pub fn attr(&self, name: &str) -> Option<String> {
        line(&self.sys.join(name))
    }

    /// An attribute of its request queue, which partitions share with their disk.
    pub fn queue(&self, name: &str) -> Option<String> {
        line(&self.whole().sys.join("queue").join(name))
    }
}

/// Loop devices with the path of the file behind each.
pub fn loop_backings() -> Vec<(String, String)> {
    entries(Path::new("/sys/block"))
        .iter()
        .filter_map(|dir| Block::at(dir))
        .filter_map(|b| b.backing_file().map(|file| (b.name, file)))
        .collect()
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir)
        .map(|list| list.filter_map(|e| Some(e.ok()?.path())).collect())
        .unwrap_or_default()
}

fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(dir: &Path, number: &str, attributes: &[(&str, &str)]) {
        fs::create_dir_all(dir).unwrap();
        for (name, value) in [("dev", number)].iter().chain(attributes) {
            let path = dir.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{value}\n")).unwrap();
        }
    }

    #[test]
    fn a_partition_under_a_crypt_map_and_a_raid() {
        let tmp = tempfile::tempdir().unwrap();
        let root = tmp.path();
        device(&root.join("sda"), "8:0", &[("queue/scheduler", "[none]")]);
        let part = [("partition", "1"), ("start", "2048"), ("size", "4096")];
        device(&root.join("sda/sda1"), "8:1", &part);
        let map = [("dm/name", "vault"), ("dm/uuid", "CRYPT-LUKS2-1234-vault")];
        device(&root.join("dm-0"), "252:0", &map);
        device(&root.join("md0"), "9:0", &[("md/level", "raid1")]);
        for (of, holder) in [("sda/sda1", "dm-0"), ("dm-0", "md0")] {
            fs::create_dir_all(root.join(of).join("holders")).unwrap();
            let link = root.join(of).join("holders").join(holder);
            std::os::unix::fs::symlink(root.join(holder), link).unwrap();
        }
        let disk = Block::at(&root.join("sda")).unwrap();
        let part = disk.partitions().pop().unwrap();
        assert_eq!((part.name.as_str(), part.number.as_str()), ("sda1", "8:1"));
        assert!(part.is_partition() && part.whole() == disk && disk.whole() == disk);
        let window = Window {
            start: 1 << 20,
            len: 2 << 20,
        };
        assert_eq!(part.window(), Some(window));
        assert_eq!(part.queue("scheduler").as_deref(), Some("[none]"));
        let map = part.holders().pop().unwrap();
        assert_eq!(map.describe(), "dm-0 (CRYPT vault)");
        assert_eq!(map.holders()[0].describe(), "md0 (RAID raid1)");
        assert!(disk.holders().is_empty() && Block::at(&root.join("none")).is_none());
    }
}
