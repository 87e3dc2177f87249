//! The disks below a path, by the kernel's numbers: whose other users are of interest.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::Sys;

/// How deep loop devices and stacked devices are followed.
const LEVELS: u32 = 4;
/// The kernel's first PID namespace has this inode.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// Whether thread ids here are those the kernel's trace points show.
pub fn same_pid_namespace(sys: &Sys) -> bool {
    std::fs::metadata(sys.path("/proc/self/ns/pid"))
        .map_or(true, |m| m.ino() == FIRST_PID_NAMESPACE)
}

/// The path of a target's data on this machine; none for an address (`http://...`, `unix:...`),
/// whose data another process or machine holds.
pub fn local(target: &str) -> Option<&Path> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let scheme = target.split_once("://").map(|(scheme, _)| scheme);
    let address = scheme.is_some_and(|s| s.chars().all(plain)) || target.starts_with("unix:");
    (!address && !target.is_empty()).then(|| Path::new(target))
}

/// Every disk below `path` (a file, a directory, a device), upper ones first:
/// `major << 20 | minor` as trace programs see them.
pub fn under(sys: &Sys, path: &Path) -> Vec<u32> {
    let mut found = Vec::new();
    if let Some((major, minor)) = device_of(path) {
        follow(sys, major, minor, LEVELS, &mut found);
    }
    found
}

/// Names of the disks below `path`, upper ones first.
pub fn names(sys: &Sys, path: &Path) -> Vec<String> {
    let name = |n: &u32| {
        let link = sys.path(&format!("/sys/dev/block/{}:{}", n >> 20, n & 0xf_ffff));
        let dir = link.canonicalize().ok()?;
        Some(dir.file_name()?.to_string_lossy().into_owned())
    };
    under(sys, path).iter().filter_map(name).collect()
}

/// The device that `path` is, or is on; for a path that does not exist yet, its parent's.
fn device_of(path: &Path) -> Option<(u32, u32)> {
    let mut existing = path.ancestors().filter(|p| p.exists());
    let meta = match existing.next() {
        Some(p) => std::fs::metadata(p).ok()?,
        // A relative path that is to be made in the working directory.
        None => {
            local(path.to_str().unwrap_or("."))?;
            std::fs::metadata(".").ok()?
        }
    };
    let dev = if meta.file_type().is_block_device() {
        meta.rdev()
    } else {
        meta.dev()
    };
    Some((rustix::fs::major(dev), rustix::fs::minor(dev)))
}

fn follow(sys: &Sys, major: u32, minor: u32, levels: u32, found: &mut Vec<u32>) {
    let link = sys.path(&format!("/sys/dev/block/{major}:{minor}"));
    let Ok(dir) = link.canonicalize() else {
        return;
    };
    // A partition shares the queue of its disk.
    let disk = match dir.parent() {
        Some(parent) if dir.join("partition").exists() => parent.to_owned(),
        _ => dir,
    };
    let Some((major, minor)) = number(&disk) else {
        return;
    };
    let number = major << 20 | minor;
    if found.contains(&number) {
        return;
    }
    found.push(number);
    if levels == 0 {
        return;
    }
    if let Some(file) = crate::sys::read(&disk.join("loop/backing_file"))
        && let Some((major, minor)) = device_of(Path::new(&file))
    {
        follow(sys, major, minor, levels - 1, found);
    }
    for slave in entries(&disk.join("slaves")) {
        if let Some((major, minor)) = self::number(&slave) {
            follow(sys, major, minor, levels - 1, found);
        }
    }
}

fn entries(dir: &Path) -> Vec<PathBuf> {
    let list = std::fs::read_dir(dir).into_iter().flatten().flatten();
    list.map(|e| e.path()).collect()
}

fn number(dir: &Path) -> Option<(u32, u32)> {
    let text = crate::sys::read(&dir.join("dev"))?;
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_on_no_disk() {
        for address in [
            "http://127.0.0.1:9000/bucket/",
            "redis://127.0.0.1:6379/0",
            "unix:/run/redis.sock",
        ] {
            assert_eq!(local(address), None);
            assert_eq!(device_of(Path::new(address)), None, "{address}");
        }
        assert_eq!(local("/a/x://b"), Some(Path::new("/a/x://b")));
        assert_eq!(local("dir/file"), Some(Path::new("dir/file")));
        // Not there yet: it will be made in the working directory.
        assert_eq!(
            device_of(Path::new("no-such-dir/x")),
            device_of(Path::new("."))
        );
    }

    #[test]
    fn a_partition_is_its_disk() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path();
        let (major, minor) = device_of(root).unwrap();
        let disk = root.join("sys/devices/sda");
        std::fs::create_dir_all(disk.join("sda1")).unwrap();
        std::fs::create_dir_all(root.join("sys/dev/block")).unwrap();
        std::fs::write(disk.join("dev"), "8:0\n").unwrap();
        std::fs::write(disk.join("sda1/dev"), "8:1\n").unwrap();
        std::fs::write(disk.join("sda1/partition"), "1\n").unwrap();
        let link = root.join(format!("sys/dev/block/{major}:{minor}"));
        std::os::unix::fs::symlink(disk.join("sda1"), link).unwrap();
        let sys = Sys::at(root);
        assert_eq!(under(&sys, &root.join("not/there")), vec![8 << 20]);
    }
}
