//! RocksDB and LevelDB, and kept files, where something changes around them: another directory or foreign files come
//! into the place, a file is immutable, it is mounted again or read-only, copied.

use std::path::Path;

use taillight_core::{ErrorKind, OpKind, StopFlag};
use taillight_driver::{AdminAction, OpenSpec};

use super::{StoreDirectory, has, load, open, stores};
use crate::support::{self, Ask, MIB, Mounted, TestLoopDevice};

/// Names and bytes of the files in a directory but a store's `LOG` and `LOCK`.
fn tree(at: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(at).unwrap().flatten();
    let all = entries.map(|e| (e.file_name().into_string().unwrap(), e.path()));
    let data = all.filter(|(name, _)| !name.starts_with("LO"));
    let mut files: Vec<_> = data.map(|(name, at)| (name, std::fs::read(at).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_purge_and_the_end_leave_what_has_the_name_by_then() {
    for place in stores() {
        for purge in [false, true] {
            let theirs = StoreDirectory::new(place.store);
            let target = theirs.open("keep = true").unwrap();
            load(target.as_ref(), 10);
            target.close().unwrap();
            let before = tree(&theirs.dir);
            let target = place.open("").unwrap();
            let away = place.dir.with_file_name("away");
            std::fs::rename(&place.dir, &away).unwrap();
            std::fs::rename(&theirs.dir, &place.dir).unwrap();
            if purge {
                let e = target.admin(AdminAction::Purge).unwrap_err();
                assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
            } else {
                assert_eq!(target.close().unwrap_err().kind(), ErrorKind::Refused);
            }
            assert_eq!(tree(&place.dir), before);
            std::fs::remove_dir_all(&away).unwrap();
            std::fs::remove_dir_all(&place.dir).unwrap();
        }
    }
}

/// Files named like a store's, put there by somebody else while it is in use.
#[test]
fn the_end_leaves_what_the_store_does_not_know() {
    for place in stores() {
        for keep in [false, true] {
            let target = place.open(&format!("keep = {keep}")).unwrap();
            load(target.as_ref(), 10);
            for name in ["20261127.log", "999999.ldb", "thesis.log"] {
                std::fs::write(place.dir.join(name), "mine").unwrap();
            }
            for action in [AdminAction::Purge, AdminAction::DropCaches] {
                assert_eq!(target.admin(action).unwrap_err().kind(), ErrorKind::Target);
                assert!(has(target.as_ref(), 9), "still open");
            }
            let e = target.close().unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Target, "{e}");
            for name in ["20261127.log", "999999.ldb", "thesis.log"] {
                assert_eq!(std::fs::read(place.dir.join(name)).unwrap(), b"mine", "{name}");
            }
            assert_eq!(place.dir.join("CURRENT").exists(), keep);
            std::fs::remove_dir_all(&place.dir).unwrap();
        }
    }
}

/// A file that nobody may change is found out before any other is gone.
#[test]
fn an_immutable_file_costs_no_database() {
    for place in stores() {
        let target = place.open("keep = true").unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        let names: Vec<_> = tree(&place.dir).into_iter().map(|(name, _)| name).collect();
        let of_store = |name: &&String| !name.starts_with('.');
        let mut plan = place.plan("");
        plan.target.destroy = true;
        for name in names.iter().filter(of_store) {
            let path = place.dir.join(name);
            or_skip!(support::run(&["chattr", "+i", path.to_str().unwrap()]));
            let before = tree(&place.dir);
            let said = open(&plan, Some(&place.dir)).map(drop);
            support::run(&["chattr", "-i", path.to_str().unwrap()]).unwrap();
            said.unwrap_err();
            assert_eq!(tree(&place.dir), before, "{name}");
        }
    }
}

/// The device number of a file on btrfs is another one in `/proc/locks`.
#[test]
fn a_database_in_use_on_btrfs() {
    let disk = or_skip!(TestLoopDevice::new(128));
    let mount = or_skip!(disk.mounted("btrfs"));
    for mut place in stores() {
        place.dir = mount.path().join(place.store);
        let target = place.open("keep = true").unwrap();
        let (plan, stop) = (place.plan(""), StopFlag::default());
        let driver = taillight_driver::bind(&plan.target).unwrap();
        let check = || {
            driver.check(&OpenSpec {
                plan: &plan,
                run_id: "r2",
                destroy: None,
                stop: &stop,
                fits: &|_| Ok(()),
            })
        };
        let e = check().unwrap_err();
        assert!(e.message().contains("in use by another process"), "{e}");
        target.close().unwrap();
        check().unwrap();
    }
}

/// A kept file and a kept database are still Taillight's when the number of the device is another one.
#[test]
fn what_is_kept_is_known_again_after_a_mount() {
    for (fs, mib) in [("ext4", 256), ("btrfs", 256), ("xfs", 320)] {
        let mut disk = or_skip!(TestLoopDevice::new(mib));
        let mount = or_skip!(disk.mounted(fs));
        let device = |at: &Path| std::os::unix::fs::MetadataExt::dev(&at.metadata().unwrap());
        let before = device(mount.path());
        let kept = |at: &Path, ops: &[OpKind]| {
            let path = at.join("file");
            let size = Some(4 * MIB);
            Ask { size, options: "keep = true\ndirect = false", ..Ask::new(&path, ops) }.open()
        };
        kept(mount.path(), &[OpKind::Read]).unwrap().close().unwrap();
        let mut places = stores();
        for place in &mut places {
            place.dir = mount.path().join(place.store);
            let target = place.open("keep = true").unwrap();
            load(target.as_ref(), 10);
            target.close().unwrap();
        }
        drop(mount);
        // A second loop device, made while the first has its number, has another one.
        let again = support::run(&["losetup", "-f", "--show", disk.backing.to_str().unwrap()]);
        let again = or_skip!(again);
        let first = std::mem::replace(&mut disk.device, again.into());
        support::run(&["losetup", "-d", first.to_str().unwrap()]);
        let mount = or_skip!(Mounted::new(&disk.device));
        if fs != "btrfs" {
            assert_ne!(device(mount.path()), before);
        }
        if fs == "xfs"
            && !std::fs::read_to_string(mount.path().join(".taillight-owner.json"))
                .unwrap()
                .contains("\"filesystem\": \"uuid")
        {
            eprintln!("skipped: kept on XFS: this kernel does not tell the UUID");
            return;
        }
        let target = kept(mount.path(), &[OpKind::Write]).unwrap();
        assert_eq!(support::fact(target.as_ref(), "files.reused"), "1");
        target.close().unwrap();
        for place in &mut places {
            place.dir = mount.path().join(place.store);
            let target = place.open("").unwrap();
            assert!(has(target.as_ref(), 9), "{fs}");
            target.close().unwrap();
        }
        // A copy is refused, and the refusal says what differs.
        let copy = mount.path().join("copy");
        let from = mount.path().join("file");
        std::fs::rename(&from, &copy).unwrap();
        std::fs::copy(&copy, &from).unwrap();
        let e = kept(mount.path(), &[OpKind::Write]).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains("differs: inode "), "{e}");
    }
}

/// Reading takes no mark, and a file system that is mounted read-only takes none.
#[test]
fn a_kept_file_is_read_where_nothing_can_be_written() {
    let disk = or_skip!(TestLoopDevice::new(64));
    let mount = or_skip!(disk.mounted("ext4"));
    let path = mount.path().join("file");
    let kept = |ops: &[OpKind], options| {
        Ask { size: Some(4 * MIB), options, ..Ask::new(&path, ops) }.open()
    };
    kept(&[OpKind::Read], "keep = true\ndirect = false").unwrap().close().unwrap();
    let at = mount.path().to_str().unwrap();
    or_skip!(support::run(&["mount", "-o", "remount,ro", at]));
    for options in ["keep = true\ndirect = false", "direct = false"] {
        let target = kept(&[OpKind::Read], options).unwrap();
        assert_eq!(support::fact(target.as_ref(), "files.reused"), "1");
        assert_eq!(support::fact(target.as_ref(), "files.kept"), "true");
        target.close().unwrap();
    }
    assert!(kept(&[OpKind::Write], "direct = false").is_err());
}

#[test]
fn a_copied_database_is_refused_by_what_differs() {
    for place in stores() {
        let target = place.open("keep = true").unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        let moved = place.dir.with_file_name("moved");
        std::fs::rename(&place.dir, &moved).unwrap();
        std::fs::create_dir(&place.dir).unwrap();
        for entry in std::fs::read_dir(&moved).unwrap().flatten() {
            std::fs::copy(entry.path(), place.dir.join(entry.file_name())).unwrap();
        }
        let e = place.error("");
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains("differs: inode "), "{e}");
        let mut plan = place.plan("");
        plan.target.destroy = true;
        open(&plan, Some(&place.dir)).unwrap().close().unwrap();
        assert_eq!(std::fs::read_dir(&place.dir).unwrap().count(), 0);
    }
}
