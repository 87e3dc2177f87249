//! The guard of driver `file` on overlays, files mounted into a directory, a file system in pieces, and file systems
//! whose inodes have equal numbers. Needs root; elsewhere tests say why they skip.
#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::support::{
    Ask, TestLoopDevice, UndoOnDrop, Writer, loop_over, refused_for, run, scratch,
};
use taillight_core::OpKind;

const WRITE: &[OpKind] = &[OpKind::Write];

#[test]
fn the_file_behind_a_loop_device_through_an_overlay() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let home = disk.backing.parent().unwrap().to_str().unwrap().to_owned();
    let (upper, work, merged) = (scratch(), scratch(), scratch());
    let at = |dir: &tempfile::TempDir| dir.path().to_str().unwrap().to_owned();
    let layers = format!("lowerdir={},upperdir={},workdir={}", at(&upper), home, at(&work));
    or_skip!(run(&["mount", "-t", "overlay", "overlay", "-o", &layers, &at(&merged)]));
    let _unmount = UndoOnDrop(vec!["umount".into(), at(&merged)]);
    refused_for(&merged.path().join("backing"), &disk.backing, "behind /dev/loop");
    // A writer of the file by its name in the overlay is found for the name in the layer, and the other way round.
    let other = disk.backing.with_file_name("other");
    std::fs::write(&other, vec![1u8; 1 << 20]).unwrap();
    let shown = merged.path().join("other");
    for (held, target) in [(&shown, &other), (&other, &shown)] {
        let writer = Writer::of(held);
        refused_for(target, &other, "open for writing in sh");
        writer.end();
    }
}

/// A confirmation of the directory does not cover a file of elsewhere that is mounted in it.
#[test]
fn a_file_of_elsewhere_in_a_confirmed_directory() {
    let (tmp, set) = (scratch(), scratch());
    let (theirs, place) = (tmp.path().join("theirs"), set.path().join("taillight-1.dat"));
    let data = vec![7u8; 1 << 20];
    for path in [&theirs, &place, &set.path().join("taillight-0.dat")] {
        std::fs::write(path, &data).unwrap();
    }
    let shown = [&theirs, &place].map(|path| path.to_str().unwrap().to_owned());
    or_skip!(run(&["mount", "--bind", &shown[0], &shown[1]]));
    let _unmount = UndoOnDrop(vec!["umount".into(), shown[1].clone()]);
    let dir = set.path().join("");
    let ask = Ask { options: "files = 2\ndirect = false", ..Ask::new(&dir, WRITE) };
    let e = Ask { destroy: Some(&dir), ..ask }.open().err().unwrap();
    assert_eq!(e.kind(), taillight_core::ErrorKind::Refused, "{e}");
    assert!(std::fs::read(&theirs).unwrap() == data);
}

/// Free space is in small pieces: the extents that are asked for cannot be had, which must not cost the file.
#[test]
fn extents_that_are_not_to_be_had_cost_no_file() {
    let disk = or_skip!(TestLoopDevice::new(64));
    let mount = or_skip!(disk.mounted("ext4"));
    let thesis = mount.path().join("thesis");
    std::fs::write(&thesis, vec![7u8; 2 << 20]).unwrap();
    let small = |n: u32| mount.path().join(format!("small{n}"));
    let made = (0..).take_while(|n| std::fs::write(small(*n), [1; 8192]).is_ok()).count();
    for n in (0..made as u32).step_by(2) {
        std::fs::remove_file(small(n)).unwrap();
    }
    let options = "extent_size = \"64KiB\"";
    let ask = Ask { size: Some(2 << 20), options, ..Ask::new(&thesis, &[OpKind::Read]) };
    let e = Ask { destroy: Some(&thesis), ..ask }.open().err().unwrap();
    assert_eq!(e.kind(), taillight_core::ErrorKind::Unavailable, "{e}");
    assert!(std::fs::read(&thesis).unwrap() == vec![7u8; 2 << 20]);
}

/// An overlay of directories; its place, and what unmounts it.
fn overlay(
    lower: &Path,
    upper: &Path,
    work: &Path,
    options: &str,
) -> Option<(tempfile::TempDir, UndoOnDrop)> {
    let merged = scratch();
    let at = merged.path().to_str().unwrap().to_owned();
    let [lower, upper, work] = [lower, upper, work].map(|dir| dir.to_str().unwrap());
    let layers = format!("lowerdir={lower},upperdir={upper},workdir={work}{options}");
    run(&["mount", "-t", "overlay", "overlay", "-o", &layers, &at])?;
    Some((merged, UndoOnDrop(vec!["umount".into(), "-l".into(), at])))
}

/// Detaches a loop device and waits up to 4 s until it is: programs that look at all loop devices hold it for a moment.
fn detached(device: &Path, detach: UndoOnDrop) {
    drop(detach);
    let place = Path::new("/sys/block").join(device.file_name().unwrap()).join("loop");
    for _ in 0..200 {
        if !place.exists() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

/// Asserts that a writer or loop device by either name of a file, in an overlay and its layer, is found for the other.
fn in_use_by_either_name(shown: &Path, kept: &Path) {
    for (used, target) in [(shown, kept), (kept, shown)] {
        let writer = Writer::of(used);
        refused_for(target, kept, "open for writing in sh");
        writer.end();
        let (over, detach) = or_skip!(loop_over(used, &[]));
        refused_for(target, kept, "behind /dev/loop");
        // A second loop device is refused for the first one.
        let (beside, besides) = or_skip!(loop_over(target, &[]));
        refused_for(&beside, kept, "behind /dev/loop");
        detached(&beside, besides);
        detached(&over, detach);
    }
}

#[test]
fn a_file_that_an_overlay_copied_up() {
    let layers = or_skip!(TestLoopDevice::new(64));
    let mount = or_skip!(layers.mounted("ext4"));
    let memory = scratch();
    let place = memory.path().to_str().unwrap().to_owned();
    or_skip!(run(&["mount", "-t", "tmpfs", "none", &place]));
    let _unmount = UndoOnDrop(vec!["umount".into(), place]);
    // The lower layer on the file system of the upper one, and on another, whose number is then in the
    // inode's.
    let [upper, work] = ["upper", "work"].map(|name| mount.path().join(name));
    for (lower, options) in [(mount.path(), ""), (memory.path(), ",xino=on"), (memory.path(), "")] {
        let lower = lower.join("lower");
        for dir in [&lower, &upper, &work] {
            std::fs::create_dir_all(dir).unwrap();
        }
        std::fs::write(lower.join("other"), b"takes an inode").unwrap();
        std::fs::write(lower.join("image"), vec![1u8; 1 << 20]).unwrap();
        std::fs::write(lower.join("read"), vec![1u8; 1 << 20]).unwrap();
        let (merged, unmount) = or_skip!(overlay(&lower, &upper, &work, options));
        let (shown, kept) = (merged.path().join("image"), upper.join("image"));
        // Opened for writing, it is copied up, and keeps the number of the lower file.
        std::fs::OpenOptions::new().write(true).open(&shown).unwrap();
        let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
        assert_ne!(inode(&shown), inode(&kept));
        in_use_by_either_name(&shown, &kept);
        let options = "direct = false";
        for free in [&shown, &kept] {
            let ask = Ask { options, destroy: Some(free), ..Ask::new(free, WRITE) };
            ask.open().unwrap().close().unwrap();
        }
        // Of a lower layer, by a loop device that only reads.
        let (over, detach) = or_skip!(loop_over(&merged.path().join("read"), &["-r"]));
        refused_for(&lower.join("read"), &lower.join("read"), "behind /dev/loop");
        detached(&over, detach);
        drop(unmount);
        for dir in [&lower, &upper, &work] {
            std::fs::remove_dir_all(dir).unwrap();
        }
    }
}

#[test]
fn equal_inode_numbers_on_file_systems_that_have_nothing_in_common() {
    let (one, other) = (scratch(), scratch());
    let at = |dir: &tempfile::TempDir| dir.path().to_str().unwrap().to_owned();
    for dir in [&one, &other] {
        or_skip!(run(&["mount", "-t", "tmpfs", "none", &at(dir)]));
        std::fs::write(dir.path().join("f"), vec![1u8; 1 << 20]).unwrap();
    }
    let _unmount = UndoOnDrop(vec!["umount".into(), at(&one)]);
    let (target, held) = (one.path().join("f"), other.path().join("f"));
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&path.metadata().unwrap());
    let equal = inode(&target) == inode(&held);
    let writer = Writer::of(&held);
    // From now on no mount has the device number of the held file, as with subvolumes.
    run(&["umount", "-l", &at(&other)]).unwrap();
    assert!(equal, "both are the first file of their file system");
    let options = "direct = false";
    let ask = Ask { options, destroy: Some(&target), ..Ask::new(&target, WRITE) };
    let opened = ask.open();
    writer.end();
    opened.unwrap().close().unwrap();
}
