//! What tells a target from another one of the same name, as text that a later command compares: serial
//! number or WWID of a disk, place on it, identity of a file or of the file behind a loop device. Called
//! when a series begins with `--destroy`, and when it is resumed. Which blocks it is made of is in
//! `device`.

use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::SystemTime;

use taillight_core::{Error, Result};
use taillight_machine::loops::{self, LoopBacking};
use taillight_machine::{BlockDevice, DeviceNumber, Sys};

use super::FileIdentity;
use crate::ownership;

/// Names and values; equal ones are of one target.
pub type TargetIdentity = BTreeMap<String, String>;

/// Name of the entry that says that nothing is there.
const FILE: &str = "file";

/// Whether an identity says that nothing is there.
pub fn is_absent(identity: &TargetIdentity) -> bool {
    identity.contains_key(FILE)
}

/// How many devices below a device are looked at.
const LEVELS: u32 = 8;

/// The identity of what a path names; none where it cannot be known, as of an address, a disk without serial
/// number of its own on a kernel before 5.15, a file system without times of birth. What is in it is another
/// question ([`super::contents::seen`]).
pub fn of(target: &str) -> Option<TargetIdentity> {
    let path = taillight_machine::block::local(target)?;
    let mut all = TargetIdentity::new();
    match std::fs::metadata(path) {
        Ok(meta) if meta.file_type().is_block_device() => {
            let number = DeviceNumber::from_dev(meta.rdev());
            device(&Sys::default(), number, "device", &mut all, LEVELS)?;
        }
        Ok(meta) if meta.is_file() => file(path, "file", &mut all)?,
        Ok(meta) if meta.is_dir() => file(path, "directory", &mut all)?,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            all.insert(FILE.to_owned(), "absent".to_owned());
        }
        _ => return None,
    }
    Some(all)
}

fn file(path: &Path, name: &str, all: &mut TargetIdentity) -> Option<()> {
    let identity = FileIdentity::of(std::fs::File::open(path).ok()?).ok()?;
    let file_system = DeviceNumber::from_dev(identity.device);
    all.insert(format!("{name}.file_system"), file_system.to_string());
    all.insert(format!("{name}.inode"), identity.inode.to_string());
    all.insert(format!("{name}.birth_ns"), identity.birth_ns?.to_string());
    Some(())
}

/// Attributes that no two disks share: NVMe, virtio, SD cards, mapped devices and RAID arrays.
const UNIQUE: [&str; 6] = ["wwid", "device/serial", "serial", "device/cid", "dm/uuid", "md/uuid"];

/// What SCSI says of a disk. A card reader or a bridge may say it of itself, whatever card is in it.
const OF_READER: &str = "device/wwid";

fn device(
    sys: &Sys,
    number: DeviceNumber,
    name: &str,
    all: &mut TargetIdentity,
    levels: u32,
) -> Option<()> {
    let device = BlockDevice::find(sys, number).filter(|_| levels > 0)?;
    let disk = device.whole();
    if let Some(range) = device.range().filter(|_| device.is_partition()) {
        all.insert(format!("{name}.start"), range.start.to_string());
    }
    all.insert(format!("{name}.size"), device.size()?.to_string());
    let loops = loops::active(sys).unwrap_or_default();
    if let Some(of) = loops.iter().find(|l| l.number == disk.number) {
        let backing = of.backing.as_ref().ok()?;
        all.insert(format!("{name}.offset"), backing.offset.to_string());
        return match backing.device {
            Some(below) => self::device(sys, below, &format!("{name}.behind"), all, levels - 1),
            None => backing_file(&disk, backing, name, all),
        };
    }
    let mut unique = false;
    for attribute in UNIQUE.into_iter().chain([OF_READER]) {
        let Some(value) = disk.attr(attribute) else { continue };
        unique |= attribute != OF_READER;
        all.insert(format!("{name}.{}", attribute.replace('/', ".")), value);
    }
    if !unique {
        // Such a disk is known as long as the machine runs and the disk, or its card, stays (Linux 5.15).
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let sequence = format!("{} of {}", disk.attr("diskseq")?, boot.trim());
        all.insert(format!("{name}.sequence"), sequence);
    }
    Some(())
}

/// The path is a hint: the file there must be the one that the driver has.
fn backing_file(
    disk: &BlockDevice,
    backing: &LoopBacking,
    name: &str,
    all: &mut TargetIdentity,
) -> Option<()> {
    let path = disk.backing_file()?;
    let meta = std::fs::metadata(&path).ok()?;
    let same = DeviceNumber::from_dev(meta.dev()) == backing.file_system;
    (same && meta.ino() == backing.inode).then_some(())?;
    file(Path::new(&path), &format!("{name}.backing"), all)
}

/// Checks that a name still means the target that it meant when a series began. Errors: `Refused` where it is
/// another one, or cannot be known; what to do is the caller's to say.
pub fn check_same(
    name: &str,
    was: Option<&TargetIdentity>,
    is: Option<&TargetIdentity>,
) -> Result<()> {
    let differs = match (was, is) {
        (Some(was), Some(is)) => difference(was, is),
        _ => Some("it cannot be told here whether it is".to_owned()),
    };
    differs.map_or(Ok(()), |differs| {
        let what =
            "the target is not known to be the one that --destroy named when the series began";
        Err(Error::refused(what).with("target", name).with("differs", differs))
    })
}

/// Checks that nothing is on a target that was not there when a series last looked; None is what is not known.
/// Errors: `Refused`, naming it; what to do is the caller's to say.
pub fn check_contents(name: &str, was: Option<&[String]>, is: Option<&[String]>) -> Result<()> {
    let what = "something may be on the target that was not there when the series last looked";
    let new = match (was, is) {
        (Some(was), Some(is)) => is.iter().find(|line| !was.contains(line)).cloned(),
        (None, _) => Some("it is not known what was there".to_owned()),
        (_, None) => Some("it is not known what is there".to_owned()),
    };
    let of = |new| Err(Error::refused(what).with("target", name).with("there", new));
    new.map_or(Ok(()), of)
}

/// Whether Taillight made what has a name now, and not before a time: a run that keeps what it makes leaves
/// something where nothing was.
pub fn is_own_since(target: &str, since: SystemTime) -> bool {
    let Some(path) = taillight_machine::block::local(target) else { return false };
    let Ok(path) = std::fs::canonicalize(path) else { return false };
    let Ok(is) = FileIdentity::at(rustix::fs::CWD, path.as_path()) else { return false };
    let since = since.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_nanos();
    // The clock of file systems is behind by a tick.
    let young = |birth: i64| u128::try_from(birth).is_ok_and(|birth| birth + TICK >= since);
    is.birth_ns.is_some_and(young) && ownership::is_marked(&path, &is)
}

/// ns, as `CONFIG_HZ` is 100 at least.
const TICK: u128 = 10_000_000;

/// What differs between two identities, in words.
fn difference(was: &TargetIdentity, is: &TargetIdentity) -> Option<String> {
    if was.contains_key(FILE) != is.contains_key(FILE) {
        let now = if is.contains_key(FILE) {
            "was there, and is not"
        } else {
            "was absent, and is there"
        };
        return Some(format!("the target {now} now"));
    }
    let name = was.keys().chain(is.keys()).find(|name| was.get(*name) != is.get(*name))?;
    let value = |of: &TargetIdentity| of.get(name).map_or("none", String::as_str).to_owned();
    Some(format!("{name} {}, now {}", value(was), value(is)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_made_anew_under_its_name_is_another_target() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("f");
        let text = path.to_str().unwrap();
        let absent = of(text).unwrap();
        std::fs::write(&path, b"x").unwrap();
        let Some(first) = of(text) else {
            eprintln!("skipped: the file system has no times of birth");
            return;
        };
        let words = |was, is| difference(was, is).unwrap();
        assert_eq!(words(&absent, &first), "the target was absent, and is there now");
        assert_eq!(words(&first, &absent), "the target was there, and is not now");
        std::fs::write(&path, b"another text").unwrap();
        assert_eq!(of(text), Some(first.clone()));
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, b"x").unwrap();
        let second = of(text).unwrap();
        assert!(difference(&first, &second).unwrap().contains("now"));
        let dir = of(tmp.path().to_str().unwrap()).unwrap();
        assert!(dir.contains_key("directory.birth_ns"));
        assert_eq!(of("redis://127.0.0.1:6379/0"), None);
    }

    #[test]
    fn what_is_new_on_a_target_is_named() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("f");
        let seen = |path: &Path| crate::identity::contents::seen(path.to_str().unwrap());
        let check = |was: &Option<Vec<String>>, path: &Path| {
            check_contents("f", was.as_deref(), seen(path).as_deref())
        };
        let nothing = seen(&path);
        assert_eq!(nothing.as_deref(), Some(&[][..]));
        std::fs::write(&path, b"x").unwrap();
        let first = seen(&path);
        check(&first, &path).unwrap();
        assert!(check(&nothing, &path).is_err());
        assert!(check_contents("f", None, first.as_deref()).is_err());
        assert!(check_contents("f", first.as_deref(), None).is_err());
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&path, b"y").unwrap();
        let e = check(&first, &path).unwrap_err();
        assert_eq!(e.kind(), taillight_core::ErrorKind::Refused);
        let below = seen(tmp.path());
        check(&below, tmp.path()).unwrap();
        std::fs::write(tmp.path().join("thesis"), b"y").unwrap();
        assert!(check(&below, tmp.path()).is_err());
    }

    #[test]
    fn what_a_run_keeps_is_told_from_what_somebody_moved_there() {
        let tmp = tempfile::tempdir().unwrap();
        let path = tmp.path().join("f");
        std::fs::write(&path, b"x").unwrap();
        let own = |since| is_own_since(path.to_str().unwrap(), since);
        let is = FileIdentity::at(rustix::fs::CWD, path.as_path()).unwrap();
        if is.birth_ns.is_none() {
            eprintln!("skipped: the file system has no times of birth");
            return;
        }
        let before = SystemTime::now() - std::time::Duration::from_secs(60);
        assert!(!own(before));
        let dir = ownership::OwnedDirectory::open(tmp.path(), &Default::default()).unwrap();
        let mark = ownership::FileMark::new("f", &is, dir.filesystem(), "r1", true);
        dir.add(&[mark]).unwrap();
        assert!(own(before));
        assert!(!own(SystemTime::now() + std::time::Duration::from_secs(60)));
    }

    #[test]
    fn a_disk_is_its_serial_number_and_one_without_is_not_known() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("sys/devices/sda");
        std::fs::create_dir_all(dir.join("device")).unwrap();
        std::fs::create_dir_all(tmp.path().join("sys/dev/block")).unwrap();
        std::os::unix::fs::symlink(&dir, tmp.path().join("sys/dev/block/8:0")).unwrap();
        std::fs::write(dir.join("dev"), "8:0\n").unwrap();
        std::fs::write(dir.join("size"), "100\n").unwrap();
        let ask = || {
            let mut all = TargetIdentity::new();
            let number = DeviceNumber { major: 8, minor: 0 };
            device(&Sys::at(tmp.path()), number, "device", &mut all, LEVELS).map(|()| all)
        };
        assert_eq!(ask(), None);
        let write = |name: &str, value: &str| std::fs::write(dir.join(name), value).unwrap();
        write("wwid", "uuid.1\n");
        let first = ask().unwrap();
        write("diskseq", "7\n");
        assert_eq!(ask(), Some(first.clone()), "it may be attached anew");
        write("wwid", "uuid.2\n");
        let text = difference(&first, &ask().unwrap()).unwrap();
        assert_eq!(text, "device.wwid uuid.1, now uuid.2");
        // A card reader, and another card in it.
        std::fs::remove_file(dir.join("wwid")).unwrap();
        write("device/wwid", "t10.reader\n");
        let card = ask().unwrap();
        assert_eq!(difference(&card, &ask().unwrap()), None);
        write("diskseq", "8\n");
        let text = difference(&card, &ask().unwrap()).unwrap();
        assert!(text.starts_with("device.sequence 7 of "), "{text}");
        std::fs::remove_file(dir.join("diskseq")).unwrap();
        assert_eq!(ask(), None, "it cannot be told which card it is");
        write("device/cid", "1234\n");
        assert!(ask().is_some());
    }
}
