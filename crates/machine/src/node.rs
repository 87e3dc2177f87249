//! Opening a block device by its number: the node in `/dev`, or one made for a moment.
//!
//! In a container, or where nobody made it, a device may have no node of its kernel name. Nodes are opened for
//! reading, to ask a device what it is. A program that is killed while it makes one leaves it there, for its user
//! alone.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, makedev, mknodat, open as open_fd, unlink};
use rustix::io::Errno;

use crate::DeviceNumber;

/// Where a node is made: the first of these that allows it.
const PLACES: [&str; 3] = ["/dev", "/run", "/tmp"];

/// Opens the device with this number for reading, exclusively where that is asked; `name` is its kernel
/// name. Errors: what the kernel says of the last way, such as missing rights; `EBUSY` where it is claimed.
pub fn open(number: DeviceNumber, name: &str, exclusively: bool) -> io::Result<OwnedFd> {
    // A slash in a kernel name stands as `!` in sysfs.
    let path = PathBuf::from(format!("/dev/{}", name.replace('!', "/")));
    let by_number = PathBuf::from(format!("/dev/block/{number}"));
    let mut found = opened(&path, number, exclusively);
    let claimed = |e: &io::Error| e.raw_os_error() == Some(Errno::BUSY.raw_os_error());
    let ended = |found: &io::Result<OwnedFd>| found.is_ok() || found.as_ref().is_err_and(claimed);
    if !ended(&found) {
        found = opened(&by_number, number, exclusively);
    }
    for place in PLACES {
        if ended(&found) {
            break;
        }
        found = made(place, number, exclusively);
    }
    found
}

fn opened(path: &Path, number: DeviceNumber, exclusively: bool) -> io::Result<OwnedFd> {
    let mut flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    if exclusively {
        flags |= OFlags::EXCL;
    }
    // Nothing is opened that is no block device: a tape would rewind.
    if DeviceNumber::of_path(path) != Some(number) {
        return Err(io::ErrorKind::NotFound.into());
    }
    let fd = open_fd(path, flags, Mode::empty())?;
    let stat = fstat(&fd)?;
    let block = FileType::from_raw_mode(stat.st_mode).is_block_device();
    match block && DeviceNumber::from_dev(stat.st_rdev) == number {
        true => Ok(fd),
        false => Err(io::ErrorKind::NotFound.into()),
    }
}

fn made(place: &str, number: DeviceNumber, exclusively: bool) -> io::Result<OwnedFd> {
    let name = format!("{place}/.taillight-{}-{number}", std::process::id());
    let thread = format!("{:?}", std::thread::current().id());
    let path = PathBuf::from(name + &thread.replace(|c: char| !c.is_ascii_digit(), "-"));
    let device = makedev(number.major, number.minor);
    mknodat(CWD, &path, FileType::BlockDevice, Mode::from_raw_mode(0o600), device)?;
    let fd = opened(&path, number, exclusively);
    unlink(&path)?;
    fd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_without_a_node_is_opened_and_leaves_none() {
        let Some((name, number)) = a_disk() else {
            eprintln!("skipped: a_device_without_a_node_is_opened: no disk that root may open");
            return;
        };
        let fd =
            open(number, "taillight-no-such-node", false).expect("opened by a node of its own");
        let stat = fstat(&fd).expect("stat");
        assert_eq!(DeviceNumber::from_dev(stat.st_rdev), number, "{name}");
        let own = format!(".taillight-{}", std::process::id());
        for place in PLACES {
            let left = crate::Sys::default().names(place).into_iter().find(|n| n.starts_with(&own));
            assert_eq!(left, None);
        }
    }

    fn a_disk() -> Option<(String, DeviceNumber)> {
        let text = crate::Sys::default().text("/proc/partitions")?;
        // Loop devices come and go with other tests.
        text.lines().skip(2).filter(|line| !line.contains("loop")).find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = format!("{}:{}", words.first()?, words.get(1)?).parse().ok()?;
            open(number, words.get(3)?, false).ok()?;
            Some((words[3].to_owned(), number))
        })
    }
}
