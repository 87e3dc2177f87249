//! Driver `file` on loop devices and file systems on them: contract, durability, requests of a block, faults, trims,
//! waits that end on time. Needs root; elsewhere each test says why it skips.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::support::{
    self, Ask, BLOCK, MIB, TestLoopDevice, UndoOnDrop, fact, op, open, run, session,
};
use taillight_core::op::SyncKind;
use taillight_core::plan::{BlockSize, Sync};
use taillight_core::probe::Token;
use taillight_core::units::ByteSize;
use taillight_core::{Clock, ErrorKind, MonoClock, Op, OpKind, Status};
use taillight_driver::conformance::{self, TestCase, one};
use taillight_driver::{AdminAction, SessionSpec, Submitted};

const OPS: [OpKind; 4] = [OpKind::Read, OpKind::Write, OpKind::Fsync, OpKind::Trim];
const ENGINES: [(&str, u32); 3] = [("sync", 1), ("uring", 1), ("uring", 32)];

fn conforms(path: &Path, destroy: bool) {
    for direct in [true, false] {
        for (engine, depth) in ENGINES {
            let text = path.to_str().unwrap();
            let options = format!("engine = \"{engine}\"\ndirect = {direct}");
            let mut target = conformance::target("file", text, &options);
            (target.size, target.destroy) = (Some(ByteSize(4 * MIB)), destroy);
            let driver = taillight_driver::find("file").unwrap();
            let plan = conformance::plan(target, &OPS, BLOCK, depth);
            let case = TestCase { driver, plan, destroy: destroy.then_some(text) };
            conformance::assert_kept(&case);
        }
    }
}

#[test]
fn contract_on_a_device() {
    let disk = or_skip!(TestLoopDevice::new(16));
    conforms(&disk.device, true);
}

/// A run with several targets or points has other worker numbers than the plan that a target was opened with.
#[test]
fn writes_are_as_durable_as_their_workload_says_whatever_its_worker_is_called() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let name = disk.device.file_name().unwrap().to_str().unwrap().to_owned();
    // Flush requests that ended: the 16th figure.
    let flushes = || {
        let stat = std::fs::read_to_string(format!("/sys/block/{name}/stat")).unwrap();
        stat.split_whitespace().nth(15).map(|n| n.parse::<u64>().unwrap())
    };
    if flushes().is_none() {
        return eprintln!("skipped: this kernel counts no flushes");
    }
    for (engine, ..) in [ENGINES[0], ENGINES[1]] {
        let options = format!("engine = \"{engine}\"\ndirect = true");
        let ask = Ask { options: &options, ..Ask::new(&disk.device, &[OpKind::Write]) };
        let mut plan = Ask { destroy: Some(&disk.device), ..ask }.plan();
        plan.workloads.push(plan.workloads[0].clone());
        plan.workloads[1].sync = Sync::Dsync;
        let target = open(&plan, Some(&disk.device), "t").unwrap();
        for (worker, workload, durable) in [(7, 1, true), (0, 1, true), (1, 0, false)] {
            let spec = SessionSpec {
                worker,
                workload,
                index: 0,
                keep: true,
                depth: 1,
                buffer_size: BLOCK,
                seed: 1,
            };
            let mut session = target.session(&spec).unwrap();
            let before = flushes();
            assert!(one(session.as_mut(), &op(OpKind::Write, 0)).status.is_ok());
            assert_eq!(flushes() > before, durable, "{engine}: worker {worker} of {workload}");
        }
        target.close().unwrap();
    }
}

#[test]
fn contract_on_ext4() {
    let disk = or_skip!(TestLoopDevice::new(64));
    let mount = or_skip!(disk.mounted("ext4"));
    conforms(&mount.path().join("set/"), false);
}

#[test]
fn contract_on_xfs() {
    let disk = or_skip!(TestLoopDevice::new(320));
    let mount = or_skip!(disk.mounted("xfs"));
    conforms(&mount.path().join("set/"), false);
}

#[test]
fn reads_past_a_truncated_backing_fail_as_statuses() {
    let disk = or_skip!(TestLoopDevice::new(16));
    for (engine, depth) in ENGINES {
        let options = format!("engine = \"{engine}\"");
        let ask = Ask { options: &options, depth, ..Ask::new(&disk.device, &[OpKind::Read]) };
        let target = ask.open().unwrap();
        let mut s = session(target.as_ref(), depth);
        let file = std::fs::OpenOptions::new().write(true).open(&disk.backing).unwrap();
        assert!(one(s.as_mut(), &op(OpKind::Read, 8 * MIB)).status.is_ok());
        file.set_len(4 * MIB).unwrap();
        let c = one(s.as_mut(), &op(OpKind::Read, 8 * MIB));
        assert_eq!((c.status, c.moved), (Status::errno(libc::EIO), 0), "{engine}");
        assert!(one(s.as_mut(), &op(OpKind::Read, MIB)).status.is_ok(), "{engine}");
        drop(s);
        target.close().unwrap();
        file.set_len(16 * MIB).unwrap();
    }
}

/// The requests of a block depend on the pages of its buffer, which must not differ by depth.
#[test]
fn a_block_is_as_many_requests_at_each_depth_as_the_run_says() {
    const READS: u64 = 64;
    let disk = or_skip!(TestLoopDevice::new(16));
    let stat = format!("/sys/block/{}/stat", disk.device.file_name().unwrap().to_str().unwrap());
    let requests = || {
        let text = std::fs::read_to_string(&stat).unwrap();
        text.split_whitespace().next().unwrap().parse::<u64>().unwrap()
    };
    let mut seen = BTreeSet::new();
    for (engine, depth) in [("sync", 1), ("uring", 1), ("uring", 2), ("uring", 8)] {
        let options = format!("engine = \"{engine}\"");
        let ask = Ask { options: &options, depth, ..Ask::new(&disk.device, &[OpKind::Read]) };
        let mut plan = ask.plan();
        plan.workloads[0].block_size = BlockSize::Fixed(ByteSize(MIB));
        let target = open(&plan, None, "test").unwrap();
        let mut s = conformance::session(target.as_ref(), MIB, depth);
        let facts: BTreeMap<String, String> = target.session_facts().into_iter().collect();
        let before = requests();
        for n in 0..READS {
            let read = Op { size: MIB, ..op(OpKind::Read, n % 16 * MIB) };
            assert!(one(s.as_mut(), &read).status.is_ok());
        }
        // Rounds down: other programs that look at a new device read a few blocks, too.
        let each = (requests() - before) / READS;
        let told = &facts["buffers.requests_per_block"];
        match told.strip_prefix("at most ") {
            None => assert_eq!(told, &each.to_string(), "{options}, depth {depth}"),
            Some(most) => assert!(each <= most.parse().unwrap(), "{each}, {told}"),
        }
        seen.insert(told.clone());
        drop(s);
        target.close().unwrap();
    }
    assert_eq!(seen.len(), 1, "{seen:?}");
}

#[test]
fn a_full_file_system_is_a_status() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let mount = or_skip!(disk.mounted("ext4"));
    let path = mount.path().join("data");
    for direct in [true, false] {
        for (engine, depth) in ENGINES {
            let options = format!("engine = \"{engine}\"\ndirect = {direct}\nlayout = \"never\"");
            let ask = Ask {
                size: Some(2 * MIB),
                options: &options,
                depth,
                ..Ask::new(&path, &[OpKind::Write])
            };
            let target = ask.open().unwrap();
            let hog = mount.path().join("hog");
            let full = std::fs::write(&hog, vec![1u8; 32 << 20]);
            assert!(full.is_err(), "the file system should be full");
            let mut s = session(target.as_ref(), depth);
            // File systems keep a few blocks back: one of these writes must find none.
            let mut ends = (0..2 * MIB / BLOCK).map(|n| {
                let sync = Some(SyncKind::Fdatasync);
                one(s.as_mut(), &Op { sync, ..op(OpKind::Write, n * BLOCK) })
            });
            let c = ends.find(|c| !c.status.is_ok()).expect("no space at some point");
            assert_eq!(c.status, Status::errno(libc::ENOSPC), "{options}");
            assert_eq!(c.sync_ns, None, "no sync after a failed write");
            drop(s);
            target.close().unwrap();
            std::fs::remove_file(hog).unwrap();
        }
    }
    // Known before anything is written: refused with the numbers instead.
    let e = Ask { size: Some(64 * MIB), ..Ask::new(&path, &[OpKind::Write]) }.open().err();
    assert_eq!(e.unwrap().kind(), ErrorKind::Unavailable);
}

#[test]
fn a_read_only_file_system() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let mount = or_skip!(disk.mounted("ext4"));
    let path = mount.path().join("data");
    std::fs::write(&path, vec![1u8; 1 << 20]).unwrap();
    let target = Ask::new(&path, &[OpKind::Read]).open().unwrap();
    or_skip!(run(&["mount", "-o", "remount,ro", mount.path().to_str().unwrap()]));
    let mut s = session(target.as_ref(), 1);
    assert!(one(s.as_mut(), &op(OpKind::Read, 0)).status.is_ok());
    drop(s);
    target.close().unwrap();
    for (name, destroy) in [("new", None), ("data", Some(path.as_path()))] {
        let path = mount.path().join(name);
        let ask = Ask { size: Some(MIB), destroy, ..Ask::new(&path, &[OpKind::Write]) };
        let e = ask.open().err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
        assert!(e.to_string().contains("Read-only"), "{e}");
    }
}

#[test]
fn a_file_system_that_dies_in_the_run() {
    for fs in ["ext4", "xfs"] {
        let disk = or_skip!(TestLoopDevice::new(320));
        let Some(mount) = disk.mounted(fs) else {
            continue;
        };
        for (engine, depth) in ENGINES {
            let options = format!("engine = \"{engine}\"");
            let path = mount.path().join("data");
            let ops = [OpKind::Read, OpKind::Write];
            let ask = Ask { size: Some(MIB), options: &options, depth, ..Ask::new(&path, &ops) };
            if engine == "sync" {
                ask.open().unwrap().close().unwrap();
                continue;
            }
            let target = ask.open().unwrap();
            let mut s = session(target.as_ref(), depth);
            assert!(one(s.as_mut(), &op(OpKind::Write, 0)).status.is_ok());
            let root = std::fs::File::open(mount.path()).unwrap();
            support::sys::shut_down(&root).unwrap();
            let write = Op { sync: Some(SyncKind::Fsync), ..op(OpKind::Write, 0) };
            for op in [write, op(OpKind::Read, 0)] {
                let c = one(s.as_mut(), &op);
                assert_eq!(c.status, Status::errno(libc::EIO), "{fs} {options} {op:?}");
            }
            drop(s);
            // Nothing can be deleted any more, which is an error.
            assert!(target.close().is_err());
            break;
        }
    }
}

#[test]
fn trims_reach_the_device() {
    let disk = or_skip!(TestLoopDevice::new(16));
    for (engine, depth) in ENGINES {
        let options = format!("engine = \"{engine}\"");
        let destroy = Some(disk.device.as_path());
        let ask = Ask { options: &options, depth, destroy, ..Ask::new(&disk.device, &OPS) };
        let target = ask.open().unwrap();
        let mut s = session(target.as_ref(), depth);
        s.buffer(0).fill(5);
        assert!(one(s.as_mut(), &op(OpKind::Write, MIB)).status.is_ok());
        let trim = one(s.as_mut(), &op(OpKind::Trim, MIB));
        assert_eq!((trim.status, trim.moved), (Status::OK, BLOCK), "{engine}");
        assert!(one(s.as_mut(), &op(OpKind::Read, MIB)).status.is_ok());
        assert!(s.buffer(0).iter().all(|b| *b == 0), "{engine}");
        drop(s);
        target.admin(AdminAction::Purge).unwrap();
        target.admin(AdminAction::DropCaches).unwrap();
        assert_eq!(fact(target.as_ref(), "device.name"), disk.name().trim_start_matches("/dev/"));
        target.close().unwrap();
    }
}

#[test]
fn polling_ends_on_time_while_the_storage_hangs() {
    let disk = or_skip!(TestLoopDevice::new(64));
    let mount = or_skip!(disk.mounted("ext4"));
    let path = mount.path().join("data");
    let ops = [OpKind::Read, OpKind::Write];
    let ask = Ask { size: Some(4 * MIB), depth: 4, ..Ask::new(&path, &ops) };
    let target = ask.open().unwrap();
    let mut s = session(target.as_ref(), 4);
    let root = mount.path().to_str().unwrap().to_owned();
    or_skip!(run(&["fsfreeze", "-f", &root]));
    let thaw = UndoOnDrop(vec!["fsfreeze".to_owned(), "-u".to_owned(), root]);

    for slot in 0..4 {
        let op = op(OpKind::Write, u64::from(slot) * BLOCK);
        let answer = s.submit(&op, slot, Token::new(1, slot)).unwrap();
        assert_eq!(answer, Submitted::Queued);
    }
    s.flush().unwrap();
    let mut out = Vec::new();
    let start = MonoClock.now();
    s.poll(1, Some(start.plus(50_000_000)), &mut out).unwrap();
    let took = MonoClock.now().since(start);
    assert!(out.is_empty() && took >= 50_000_000, "{} after {took} ns", out.len());
    assert!(took < 5_000_000_000, "{took}");
    s.poll(0, None, &mut out).unwrap();
    assert!(out.is_empty());
    s.abandon();
    drop(thaw);
    let mut again = session(target.as_ref(), 4);
    assert!(one(again.as_mut(), &op(OpKind::Read, 0)).status.is_ok());
    drop(again);
    target.close().unwrap();
}

#[test]
fn a_device_without_poll_queues_is_told() {
    let disk = or_skip!(TestLoopDevice::new(16));
    let ask = Ask { options: "iopoll = true", ..Ask::new(&disk.device, &[OpKind::Read]) };
    let mut plan = ask.plan();
    plan.workloads[0].sync = taillight_core::plan::Sync::None;
    let e = support::open(&plan, None, "t").err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unavailable);
    assert!(e.to_string().contains("poll queues"), "{e}");
    let e = ask.open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Usage, "{e}");
}
