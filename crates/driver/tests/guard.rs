//! The guard of driver `file` on loop devices and what is on, below and behind them. Needs root; elsewhere tests say
//! why they skip.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{
    Ask, MIB, Mounted, TestLoopDevice, UndoOnDrop, Writer, loop_over, op, refused_for, run,
    scratch, session,
};
use taillight_core::{ErrorKind, OpKind};
use taillight_driver::conformance::one;

const READ: &[OpKind] = &[OpKind::Read];
const WRITE: &[OpKind] = &[OpKind::Write];

/// The refusal of a write plan that is confirmed in every way, and of a plan that only reads.
fn refusals(device: &Path) -> (String, String) {
    let refused = |ask: Ask<'_>| {
        let e = ask.open().err().expect("refused");
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        e.to_string()
    };
    (
        refused(Ask { destroy: Some(device), ..Ask::new(device, WRITE) }),
        refused(Ask::new(device, READ)),
    )
}

/// Asserts that both are refused for `why`, and that `read_in_use` allows reading, and not writing.
fn check(device: &Path, why: &str) {
    let (write, read) = refusals(device);
    assert!(write.contains(why) && read.contains(why), "{write} | {read}");
    let options = "read_in_use = true\ndirect = false";
    Ask { options, ..Ask::new(device, READ) }.open().unwrap().close().unwrap();
    let ask = Ask { options, destroy: Some(device), ..Ask::new(device, WRITE) };
    assert_eq!(ask.open().err().unwrap().kind(), ErrorKind::Refused);
}

/// A disk with one partition, from 1 MiB to the end. The kernel is told directly: not every
/// kernel reads partition tables.
fn partitioned(
    mib: u64,
    prepare: impl FnOnce(&Path),
) -> Option<(TestLoopDevice, PathBuf, UndoOnDrop)> {
    let disk = TestLoopDevice::prepared(mib, prepare)?;
    let sectors = ((mib - 1) * 2048).to_string();
    run(&["addpart", disk.name(), "1", "2048", &sectors])?;
    let delete = UndoOnDrop(vec!["delpart".into(), disk.name().into(), "1".into()]);
    let part = PathBuf::from(format!("{}p1", disk.name()));
    Some((disk, part, delete))
}

#[test]
fn mounted() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let _mount = or_skip!(disk.mounted("ext4"));
    check(&disk.device, "mounted at");
}

#[test]
fn partition_mounted() {
    let (disk, part, _delete) = or_skip!(partitioned(32, |_| {}));
    or_skip!(run(&["mkfs.ext4", "-q", "-F", part.to_str().unwrap()]));
    // Unmounted, the partition can be had; only the right name will do.
    let wrong = Ask { destroy: Some(&disk.device), ..Ask::new(&part, WRITE) };
    assert_eq!(wrong.open().err().unwrap().kind(), ErrorKind::Refused);
    Ask { destroy: Some(&part), ..Ask::new(&part, WRITE) }.open().unwrap().close().unwrap();

    let _mount = or_skip!(Mounted::new(&part));
    check(&part, "mounted at");
    let (write, _) = refusals(&disk.device);
    assert!(write.contains("p1: mounted at"), "{write}");
}

#[test]
fn swap_device() {
    let disk = or_skip!(TestLoopDevice::new(16));
    or_skip!(run(&["mkswap", disk.name()]));
    or_skip!(run(&["swapon", disk.name()]));
    let _off = UndoOnDrop(vec!["swapoff".to_owned(), disk.name().to_owned()]);
    check(&disk.device, "used as swap");
}

#[test]
fn swap_file() {
    let disk = or_skip!(TestLoopDevice::new(64));
    let mount = or_skip!(disk.mounted("ext4"));
    let path = mount.path().join("swapfile");
    std::fs::write(&path, vec![0u8; 4 << 20]).unwrap();
    let text = path.to_str().unwrap();
    or_skip!(run(&["chmod", "600", text]));
    or_skip!(run(&["mkswap", text]));
    or_skip!(run(&["swapon", text]));
    let _off = UndoOnDrop(vec!["swapoff".to_owned(), text.to_owned()]);
    let (write, read) = refusals(&path);
    assert!(write.contains("swap") && read.contains("used as swap"), "{write} | {read}");
}

#[test]
fn held_by_another_program() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let holder = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_EXCL)
        .open(&disk.device)
        .unwrap();
    check(&disk.device, "opened exclusively by another program");
    drop(holder);
    let mine = Ask::new(&disk.device, READ).open().unwrap();
    check(&disk.device, "opened exclusively by another program");
    mine.close().unwrap();
}

#[test]
fn a_part_or_the_whole_held_open_for_writing_by_another_program() {
    let (disk, part, _delete) = or_skip!(partitioned(32, |_| {}));
    for (held, wanted) in [(&part, &disk.device), (&disk.device, &part)] {
        let holder = Writer::of(held);
        let e = Ask { destroy: Some(wanted), ..Ask::new(wanted, WRITE) }.open().err().unwrap();
        assert!(e.message().contains("open for writing in sh"), "{e}");
        Ask { options: "direct = false", ..Ask::new(wanted, READ) }.open().unwrap();
        holder.end();
        Ask { destroy: Some(wanted), ..Ask::new(wanted, WRITE) }.open().unwrap();
    }
}

#[test]
fn confirmation_and_symlinks() {
    let (Some(disk), Some(other)) = (TestLoopDevice::new(16), TestLoopDevice::new(16)) else {
        return;
    };
    let dir = scratch();
    let link = dir.path().join("by-id");
    std::os::unix::fs::symlink(&disk.device, &link).unwrap();
    let ask = |path, destroy| Ask { destroy, ..Ask::new(path, WRITE) };
    for (path, destroy) in [
        (&disk.device, None),
        (&disk.device, Some(other.device.as_path())),
        (&link, Some(other.device.as_path())),
        (&disk.device, Some(dir.path())),
    ] {
        let e = ask(path, destroy).open().err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    }
    for (path, name) in [(&disk.device, &link), (&link, &disk.device), (&link, &link)] {
        let target = ask(path, Some(name.as_path())).open().unwrap();
        let mut s = session(target.as_ref(), 1);
        s.buffer(0).fill(9);
        assert!(one(s.as_mut(), &op(OpKind::Write, MIB)).status.is_ok());
        drop(s);
        target.close().unwrap();
    }
    let mut seen = [0u8; 512];
    std::fs::File::open(&disk.backing).unwrap().read_exact_at(&mut seen, MIB).unwrap();
    assert_eq!(seen, [9; 512]);
}

#[test]
fn file_behind_a_loop_device() {
    let disk = or_skip!(TestLoopDevice::new(16));
    std::fs::write(&disk.backing, vec![1u8; 16 << 20]).unwrap();
    check(&disk.backing, "behind /dev/loop");
}

#[test]
fn a_device_below_a_loop_device() {
    let disk = or_skip!(TestLoopDevice::new(32));
    for options in [&[][..], &["-o", "1MiB"], &["-o", "1MiB", "--sizelimit", "8MiB"]] {
        let (over, _detach) = or_skip!(loop_over(&disk.device, options));
        or_skip!(run(&["mkfs.ext4", "-q", "-F", over.to_str().unwrap()]));
        let _mount = or_skip!(Mounted::new(&over));
        refused_for(&disk.device, &disk.backing, "behind /dev/loop");
        // So are the file at the bottom, and a loop device beside this one.
        refused_for(&disk.backing, &disk.backing, "behind /dev/loop");
        let (beside, _also) = or_skip!(loop_over(&disk.backing, &[]));
        refused_for(&beside, &disk.backing, "in use");
    }
    // Of one file, parts that have no block in common are two targets.
    let (_low, _first) = or_skip!(loop_over(&disk.device, &["--sizelimit", "8MiB"]));
    let (high, _second) = or_skip!(loop_over(&disk.device, &["-o", "8MiB"]));
    Ask { destroy: Some(&high), ..Ask::new(&high, WRITE) }.open().unwrap().close().unwrap();
}

#[test]
fn a_partition_and_its_disk_below_a_loop_device() {
    let (disk, part, _delete) = or_skip!(partitioned(32, |_| {}));
    for (below, target) in [(&part, &disk.device), (&disk.device, &part), (&part, &part)] {
        let (over, _detach) = or_skip!(loop_over(below, &[]));
        or_skip!(run(&["mkfs.ext4", "-q", "-F", over.to_str().unwrap()]));
        let mount = or_skip!(Mounted::new(&over));
        refused_for(target, &disk.backing, "behind /dev/loop");
        drop(mount);
        // Writing the loop device reaches what is mounted below it.
        or_skip!(run(&["mkfs.ext4", "-q", "-F", part.to_str().unwrap()]));
        let _mount = or_skip!(Mounted::new(&part));
        refused_for(&over, &disk.backing, "mounted at");
    }
}

#[test]
fn the_file_behind_a_loop_device_by_other_names() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let _mount = or_skip!(disk.mounted("ext4"));
    let hard = disk.backing.with_file_name("hard");
    std::fs::hard_link(&disk.backing, &hard).unwrap();
    refused_for(&hard, &disk.backing, "behind /dev/loop");
    let (bound, over) = (scratch(), scratch());
    let home = disk.backing.parent().unwrap().to_str().unwrap();
    or_skip!(run(&["mount", "--bind", home, bound.path().to_str().unwrap()]));
    let _unbind = UndoOnDrop(vec!["umount".into(), bound.path().to_str().unwrap().into()]);
    // The directory that sysfs names is covered by an empty one.
    or_skip!(run(&["mount", "--bind", over.path().to_str().unwrap(), home]));
    let uncover = UndoOnDrop(vec!["umount".into(), home.into()]);
    let other = bound.path().join("backing");
    refused_for(&other, &other, "behind /dev/loop");
    drop(uncover);
}

#[test]
fn a_loop_device_of_another_mount_namespace() {
    let disk = or_skip!(TestLoopDevice::new(32));
    let image = scratch();
    let victim = image.path().join("image");
    std::fs::File::create(&victim).unwrap().set_len(16 * MIB).unwrap();
    or_skip!(run(&["mkfs.ext4", "-q", "-F", victim.to_str().unwrap()]));
    or_skip!(run(&["mkfs.ext4", "-q", "-F", disk.name()]));
    // A path that means nothing here: the file is on a mount of that namespace alone.
    let script = "mount --make-rprivate / && mount \"$1\" /mnt && mkdir -p /mnt/x && \
         mount --bind \"$2\" /mnt/x && losetup -f --show /mnt/x/image && read _";
    let mut other = or_skip!(
        Command::new("unshare")
            .args(["-m", "sh", "-c", script, "sh", disk.name(), image.path().to_str().unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()
    );
    let mut line = String::new();
    let out = other.stdout.take().unwrap();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).unwrap();
    if line.trim().is_empty() {
        eprintln!("skipped: a_loop_device_of_another_mount_namespace: no namespace of its own");
        return;
    }
    let _detach = UndoOnDrop(vec!["losetup".into(), "-d".into(), line.trim().into()]);
    refused_for(&victim, &victim, "behind /dev/loop");
    // Mounted there only.
    refused_for(&disk.device, &victim, "mounted at /mnt");
    drop(other.stdin.take());
    other.wait().unwrap();
}

#[test]
fn a_file_of_the_kernel_under_another_name() {
    let dir = scratch();
    let name = dir.path().join("q");
    std::fs::write(&name, b"").unwrap();
    or_skip!(run(&["mount", "--bind", "/proc/version", name.to_str().unwrap()]));
    let _unmount = UndoOnDrop(vec!["umount".into(), name.to_str().unwrap().into()]);
    let options = "direct = false";
    for ops in [WRITE, READ] {
        let e = Ask { options, size: Some(4096), ..Ask::new(&name, ops) }.open().err();
        let e = e.expect("no storage");
        assert!(e.kind() == ErrorKind::Refused && e.to_string().contains("kernel's own"), "{e}");
    }
}

#[test]
fn what_a_plan_that_only_reads_lays_out_is_guarded_like_what_is_written() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: what_a_plan_that_only_reads_lays_out: needs root");
        return;
    }
    let dir = scratch();
    let image = dir.path().join("image");
    let file = std::fs::File::create(&image).unwrap();
    file.set_len(4 * MIB).unwrap();
    file.write_all_at(b"mine", MIB).unwrap();
    let ask = Ask { destroy: Some(&image), ..Ask::new(&image, READ) };
    let refused = |why: &str| {
        let before = std::fs::read(&image).unwrap();
        let e = ask.open().err().expect("refused").to_string();
        assert!(e.contains(why) && std::fs::read(&image).unwrap() == before, "{e}");
    };
    let writer = Writer::of(&image);
    refused("open for writing in sh");
    writer.end();
    file.write_all_at(b"LVM2 001", 536).unwrap();
    refused("LVM");
    file.write_all_at(&[0; 8], 536).unwrap();
    drop(file);
    let target = ask.open().unwrap();
    let facts = target.facts();
    assert!(facts.iter().any(|(name, what)| name == "lost" && what.contains("4MiB")), "{facts:?}");
    // What is laid out is looked at once more before the first I/O, like what is written.
    let (_over, _detach) = or_skip!(loop_over(&image, &[]));
    let spec = taillight_driver::SessionSpec {
        worker: 0,
        workload: 0,
        index: 0,
        keep: false,
        depth: 1,
        buffer_size: 4096,
        seed: 1,
    };
    let e = target.session(&spec).err().expect("refused");
    assert!(e.to_string().contains("behind /dev/loop"), "{e}");
}

#[test]
fn a_member_as_a_file_and_below_a_part() {
    let dir = scratch();
    let image = dir.path().join("image");
    std::fs::write(&image, vec![0u8; 4 << 20]).unwrap();
    Ask { destroy: Some(&image), ..Ask::new(&image, WRITE) }.open().unwrap().close().unwrap();
    let mark = |path: &Path, at: u64| {
        let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        file.write_all_at(b"LVM2 001", at + 536).unwrap();
    };
    mark(&image, 0);
    refused_for(&image, &image, "LVM");
    // The mark is outside of the part that the loop device shows.
    let (part, _detach) = or_skip!(loop_over(&image, &["-o", "1MiB"]));
    refused_for(&part, &image, "LVM");
}

#[test]
fn what_came_between_the_look_and_the_first_write() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let target = Ask { destroy: Some(&disk.device), ..Ask::new(&disk.device, WRITE) };
    let target = target.open().unwrap();
    let (over, detach) = or_skip!(loop_over(&disk.device, &[]));
    let spec = taillight_driver::SessionSpec {
        worker: 0,
        workload: 0,
        index: 0,
        keep: false,
        depth: 1,
        buffer_size: 4096,
        seed: 1,
    };
    let refused = || {
        let e = target.session(&spec).err().expect("refused");
        assert!(e.to_string().contains("behind /dev/loop"), "{e} {}", over.display());
    };
    refused();
    // And between two sessions on a target that stays open.
    drop(detach);
    drop(target.session(&spec).unwrap());
    let (_over, _detach) = or_skip!(loop_over(&disk.device, &[]));
    refused();
}

#[test]
fn what_is_written_in_the_second_of_the_seal_is_somebody_elses() {
    let disk = or_skip!(TestLoopDevice::new(32));
    // Inodes of 128 bytes have room for whole seconds alone.
    or_skip!(run(&["mkfs.ext4", "-q", "-F", "-I", "128", disk.name()]));
    let mount = or_skip!(Mounted::new(&disk.device));
    let path = mount.path().join("kept");
    let options = "keep = true\ndirect = false";
    let ask = Ask { size: Some(MIB), options, ..Ask::new(&path, WRITE) };
    ask.open().unwrap().close().unwrap();
    ask.open().unwrap().close().unwrap();
    std::fs::write(&path, vec![7u8; 1 << 20]).unwrap();
    assert_eq!(ask.open().err().expect("refused").kind(), ErrorKind::Refused);
    assert!(std::fs::read(&path).unwrap() == vec![7u8; 1 << 20]);
}

#[test]
fn what_cannot_be_read_is_not_taken_for_blank() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let file = std::fs::OpenOptions::new().write(true).open(&disk.backing).unwrap();
    file.set_len(8 * MIB).unwrap();
    let ask = Ask { destroy: Some(&disk.device), ..Ask::new(&disk.device, WRITE) };
    let e = ask.open().err().expect("refused");
    assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    assert!(e.to_string().contains("cannot be read"), "{e}");
    // A plan that only reads finds it by itself.
    Ask::new(&disk.device, READ).open().unwrap().close().unwrap();
    file.set_len(16 * MIB).unwrap();
    ask.open().unwrap().close().unwrap();
}

#[test]
fn what_something_has_come_to_use_is_left_at_the_end() {
    let dir = scratch();
    let path = dir.path().join("data");
    let ask = Ask { size: Some(MIB), options: "direct = false", ..Ask::new(&path, WRITE) };
    let target = ask.open().unwrap();
    let (over, detach) = or_skip!(loop_over(&path, &[]));
    let e = target.close().expect_err("it is left");
    assert!(e.to_string().contains("behind /dev/loop"), "{e} {}", over.display());
    drop(detach);
    // Without a mark: not taken for what a killed run left.
    assert_eq!(ask.open().err().expect("refused").kind(), ErrorKind::Refused);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), MIB);
    let ask = Ask { destroy: Some(&path), ..ask };
    ask.open().unwrap().close().unwrap();
    // A kept file that has grown is not cut to its former size either.
    let kept = dir.path().join("kept");
    let keep = Ask { options: "direct = false\nkeep = true", ..Ask::new(&kept, WRITE) };
    Ask { size: Some(MIB), ..keep }.open().unwrap().close().unwrap();
    let larger = Ask { size: Some(2 * MIB), options: "direct = false", ..Ask::new(&kept, WRITE) };
    let target = larger.open().unwrap();
    let (_over, _detach) = or_skip!(loop_over(&kept, &[]));
    target.close().expect_err("it is left");
    assert_eq!(std::fs::metadata(&kept).unwrap().len(), 2 * MIB);
}

#[test]
fn what_can_be_told_before_is_told_before_anything_is_given_up() {
    let disk = or_skip!(TestLoopDevice::new(64));
    let mount = or_skip!(disk.mounted("ext4"));
    let names = ["taillight-0.dat", "taillight-1.dat"].map(|name| mount.path().join(name));
    for name in &names {
        let file = std::fs::File::create(name).unwrap();
        file.set_len(4 * MIB).unwrap();
        file.write_all_at(b"mine", MIB).unwrap();
    }
    let all = || names.each_ref().map(|name| std::fs::read(name).unwrap());
    let before = all();
    let options = "direct = false\nfiles = 2";
    let ask = Ask { options, destroy: Some(mount.path()), ..Ask::new(mount.path(), READ) };
    // The shape does not suit the run.
    let plan = ask.plan();
    let spec = taillight_driver::OpenSpec {
        plan: &plan,
        run_id: "test",
        destroy: ask.destroy.and_then(Path::to_str),
        stop: &taillight_core::StopFlag::default(),
        fits: &|shape| {
            assert_eq!((shape.files, shape.file_size), (2, 4 * MIB));
            Err(taillight_core::Error::unavailable("no memory"))
        },
    };
    let driver = taillight_driver::bind(&spec.plan.target).unwrap();
    let e = driver.open(&spec, &mut |_| true).err().expect("no memory");
    assert!(e.message() == "no memory" && all() == before, "{e}");
    // One of them cannot be laid out.
    let last = names[1].to_str().unwrap();
    or_skip!(run(&["chattr", "+i", last]));
    let undo = UndoOnDrop(vec!["chattr".into(), "-i".into(), last.into()]);
    assert!(ask.open().is_err() && all() == before);
    drop(undo);
    ask.open().unwrap().close().unwrap();
}

#[test]
fn a_read_only_device() {
    let dir = scratch();
    let image = dir.path().join("image");
    std::fs::write(&image, vec![0u8; 4 << 20]).unwrap();
    let (device, _detach) = or_skip!(loop_over(&image, &["-r"]));
    let e = Ask { destroy: Some(&device), ..Ask::new(&device, WRITE) }.open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
    assert!(e.message().contains("read-only"), "{e}");
    Ask::new(&device, READ).open().unwrap().close().unwrap();
}

#[test]
fn member_of_something_larger() {
    let lvm = |at: u64| {
        move |backing: &Path| {
            let file = std::fs::OpenOptions::new().write(true).open(backing).unwrap();
            file.write_all_at(b"LABELONE", at + 512).unwrap();
            file.write_all_at(b"LVM2 001", at + 512 + 24).unwrap();
        }
    };
    let disk = or_skip!(TestLoopDevice::prepared(16, lvm(0)));
    let (write, read) = refusals(&disk.device);
    assert!(write.contains("LVM") && read.contains("LVM"), "{write} | {read}");
    // Also when the mark is in a partition of the disk that is to be overwritten.
    let (disk, _, _delete) = or_skip!(partitioned(16, lvm(MIB)));
    assert!(refusals(&disk.device).0.contains("LVM"));
}

#[test]
fn a_device_is_not_resized_or_deleted() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let ask = Ask { size: Some(32 * MIB), ..Ask::new(&disk.device, READ) };
    assert_eq!(ask.open().err().unwrap().kind(), ErrorKind::Usage);
    let ask =
        Ask { size: Some(8 * MIB), destroy: Some(&disk.device), ..Ask::new(&disk.device, WRITE) };
    let target = ask.open().unwrap();
    assert_eq!(target.geometry().file_size, 8 * MIB);
    target.close().unwrap();
    assert!(disk.device.exists());
    assert_eq!(std::fs::metadata(&disk.backing).unwrap().len(), 16 * MIB);
}
