//! Which file or directory a mark means, so that it is known again after its file system was mounted anew,
//! and a copy or a successor under its name or inode number is not taken for it.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{fstat, fstatvfs};
use serde::{Deserialize, Serialize};

use super::sys;
use crate::identity::FileIdentity;

/// The file system that holds an open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Number of its device, as `st_dev`.
    device: u64,
    /// What it calls itself; none where all it has is that number.
    id: Option<String>,
}

impl FileSystem {
    /// Asks for UUID and id (statfs(2), `f_fsid`, which tells subvolumes of btrfs apart). Where the one is
    /// missing, the other has to do. Errors: as fstat(2).
    pub fn of(fd: impl AsFd) -> io::Result<FileSystem> {
        let fd = fd.as_fd();
        let device = fstat(fd)?.st_dev;
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let uuid = sys::filesystem_uuid(fd).ok().filter(|uuid| uuid.iter().any(|b| *b != 0));
        let uuid = uuid.map(|uuid| format!("uuid {}", hex(&uuid)));
        let fsid = fstatvfs(fd).ok().map(|fs| fs.f_fsid).filter(|id| !is_of_device(*id, device));
        let fsid = fsid.map(|id| format!("fsid {id:016x}"));
        let parts: Vec<String> = uuid.into_iter().chain(fsid).collect();
        Ok(FileSystem { device, id: (!parts.is_empty()).then(|| parts.join(" ")) })
    }

    /// What the file system calls itself, for a file in it; none for one that is on another `device`: a
    /// mount.
    pub fn id_of(&self, device: u64) -> Option<&str> {
        self.id.as_deref().filter(|_| device == self.device)
    }
}

/// Whether an `f_fsid` is made of the number of a device, as XFS and FAT do it (`huge_encode_dev` of the
/// kernel's `include/linux/kdev_t.h`), or is none.
fn is_of_device(fsid: u64, device: u64) -> bool {
    let major = u64::from(rustix::fs::major(device));
    let minor = u64::from(rustix::fs::minor(device));
    let number = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
    [0, number, number.rotate_left(32)].contains(&fsid)
}

/// "major:minor" of the file system that holds a file.
fn major_minor(device: u64) -> String {
    format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device))
}

/// A file or directory as a mark names it. The names of the fields are those of marks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MarkedNode {
    pub inode: u64,
    /// Device of the file system when the mark was written, "major:minor". It may change with every mount.
    pub device: String,
    /// When the inode was made, ns since the epoch; absent where the file system does not keep it, and in
    /// marks of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub birth_ns: Option<i64>,
    /// The file system by what it calls itself ([`FileSystem`]); absent where that is nothing, and in marks
    /// of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystem: Option<String>,
}

impl MarkedNode {
    /// A file or directory in a file system.
    pub fn of(found: &FileIdentity, filesystem: &FileSystem) -> MarkedNode {
        MarkedNode {
            inode: found.inode,
            device: major_minor(found.device),
            birth_ns: found.birth_ns,
            filesystem: filesystem.id_of(found.device).map(str::to_owned),
        }
    }

    /// What tells what was found from what is marked; none when it is the same, changed or not. Unless
    /// the file system has a name on both sides, the number of the device has to do.
    pub fn difference(&self, found: &FileIdentity, filesystem: &FileSystem) -> Option<String> {
        let differs = |what: &str, mark: &str, now: &str| {
            (mark != now).then(|| format!("{what} {mark}, now {now}"))
        };
        let (inode, device) = (found.inode.to_string(), major_minor(found.device));
        match self.filesystem.as_deref().zip(filesystem.id_of(found.device)) {
            Some((mark, now)) => differs("file system", mark, now),
            None => differs("device of the file system", &self.device, &device),
        }
        .or_else(|| differs("inode", &self.inode.to_string(), &inode))
        .or_else(|| {
            let (mark, now) = self.birth_ns.zip(found.birth_ns)?;
            differs("time of birth in ns", &mark.to_string(), &now.to_string())
        })
    }

    /// Whether it is the same file or directory, changed or not.
    pub fn is(&self, found: &FileIdentity, filesystem: &FileSystem) -> bool {
        self.difference(found, filesystem).is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_devices_name_no_file_system() {
        let device = rustix::fs::makedev(259, 0x1234);
        assert!(is_of_device(0, device) && is_of_device(0x0121_0334, device));
        assert!(is_of_device(0x0121_0334 << 32, device) && !is_of_device(0x0121_0335, device));
    }

    #[test]
    fn a_file_is_known_again_under_another_device_number() {
        let dir = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(dir.path().join("a")).unwrap();
        let found = FileIdentity::of(&file).unwrap();
        let here = |device, id: Option<&str>| FileSystem { device, id: id.map(str::to_owned) };
        let at = |device| FileIdentity { device, ..found };
        let (first, later) = (rustix::fs::makedev(7, 1), rustix::fs::makedev(7, 2));
        let mark = MarkedNode::of(&at(first), &here(first, Some("uuid a")));
        assert!(mark.is(&at(later), &here(later, Some("uuid a"))));
        let differs = |mark: &MarkedNode, found: FileIdentity, fs| mark.difference(&found, &fs);
        let other = differs(&mark, at(first), here(first, Some("uuid b"))).unwrap();
        assert_eq!(other, "file system uuid a, now uuid b");
        // A mount over the file is another file system than that of its directory.
        let other = differs(&mark, at(later), here(first, Some("uuid a"))).unwrap();
        assert_eq!(other, "device of the file system 7:1, now 7:2");
        let earlier = MarkedNode { filesystem: None, ..mark.clone() };
        assert!(earlier.is(&at(first), &here(first, Some("uuid a"))));
        assert!(!earlier.is(&at(later), &here(later, Some("uuid a"))));
        let moved = FileIdentity { inode: found.inode + 1, ..at(first) };
        let other = differs(&mark, moved, here(first, Some("uuid a"))).unwrap();
        assert!(other.starts_with("inode "), "{other}");
    }
}
