//! Drivers `file` and `filestream` on regular files: ownership, layout, sizes, cache, buffers. Needs no root.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileExt, MetadataExt};

use crate::support::{self, Ask, BLOCK, MIB, fact, op, open, scratch, session};
use taillight_core::plan::{AccessKind, BlockSize};
use taillight_core::units::ByteSize;
use taillight_core::{ErrorKind, OpKind, Status};
use taillight_driver::conformance::{self, one};
use taillight_driver::{AdminAction, Target};

const READ: &[OpKind] = &[OpKind::Read];
const WRITE: &[OpKind] = &[OpKind::Write];

#[test]
fn files_of_others_are_read_but_not_written() {
    let tmp = scratch();
    let path = tmp.path().join("precious");
    std::fs::write(&path, vec![7u8; 64 << 10]).unwrap();
    let sized = Ask { size: Some(32 << 10), ..Ask::new(&path, WRITE) };
    let e = sized.open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    assert!(e.hint_text().unwrap().contains("--destroy"), "{:?}", e.hint_text());
    assert_eq!(std::fs::read(&path).unwrap(), vec![7u8; 64 << 10]);

    let target = Ask::new(&path, READ).open().unwrap();
    assert_eq!(target.geometry().file_size, 64 << 10);
    let mut s = session(target.as_ref(), 1);
    assert!(one(s.as_mut(), &op(OpKind::Read, 4096)).status.is_ok());
    assert!(s.buffer(0).iter().all(|b| *b == 7));
    // Opened read-only: even a write by mistake cannot pass.
    assert_eq!(one(s.as_mut(), &op(OpKind::Write, 0)).status, Status::errno(libc::EBADF));
    assert!(target.admin(AdminAction::Purge).is_err());
    drop(s);
    target.close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), vec![7u8; 64 << 10]);
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 1);

    let target = Ask { destroy: Some(&path), ..Ask::new(&path, WRITE) }.open().unwrap();
    let mut s = session(target.as_ref(), 1);
    assert!(one(s.as_mut(), &op(OpKind::Write, 0)).status.is_ok());
    drop(s);
    target.close().unwrap();
    assert_ne!(std::fs::read(&path).unwrap()[..4096], [7u8; 4096]);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 64 << 10);
}

#[test]
fn what_is_refused_costs_no_data() {
    let tmp = scratch();
    let path = tmp.path().join("given-up");
    let content = vec![7u8; 8 << 20];
    std::fs::write(&path, &content).unwrap();
    std::fs::write(tmp.path().join("theirs"), "x").unwrap();
    let both: &[OpKind] = &[OpKind::Read, OpKind::Write];
    for (options, block) in [
        ("fill = \"0.1%\"", 4096),
        ("extent_size = \"5KiB\"", 4096),
        ("layout = \"always\"\ndirect = true", 256),
    ] {
        let size = Some(16 * MIB);
        let ask = Ask { size, options, destroy: Some(&path), ..Ask::new(&path, both) };
        let mut plan = ask.plan();
        plan.workloads[0].block_size = BlockSize::Fixed(ByteSize(block));
        plan.workloads[0].access.align = ByteSize(block);
        let e = support::open(&plan, Some(&path), "t").err().unwrap();
        assert!(matches!(e.kind(), ErrorKind::Usage | ErrorKind::Unavailable), "{e}");
        assert!(std::fs::read(&path).unwrap() == content, "{options}: {e}");
        assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 2, "{options}: {e}");
    }
    // A file of somebody else in the place of the one that fills.
    std::fs::write(tmp.path().join("taillight-fill.dat"), "mine").unwrap();
    let options = "fill = \"99%\"";
    let e = Ask { options, size: Some(MIB), destroy: Some(&path), ..Ask::new(&path, both) }.open();
    assert_eq!(e.err().unwrap().kind(), ErrorKind::Refused);
    assert!(std::fs::read(&path).unwrap() == content);
}

#[test]
fn confirmation_must_name_the_target() {
    let tmp = scratch();
    let (path, other) = (tmp.path().join("a"), tmp.path().join("b"));
    for p in [&path, &other] {
        std::fs::write(p, vec![1u8; 8192]).unwrap();
    }
    let link = tmp.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let ask = |destroy| Ask { destroy, ..Ask::new(&path, WRITE) };
    assert_eq!(ask(Some(&other)).open().err().unwrap().kind(), ErrorKind::Refused);
    assert_eq!(ask(Some(tmp.path())).open().err().unwrap().kind(), ErrorKind::Refused);
    ask(Some(&link)).open().unwrap().close().unwrap();
    Ask { destroy: Some(&path), ..Ask::new(&link, WRITE) }.open().unwrap().close().unwrap();
    let mut plan = ask(None).plan();
    plan.target.destroy = true;
    assert_eq!(support::open(&plan, None, "t").err().unwrap().kind(), ErrorKind::Refused);
    plan.target.destroy = false;
    assert_eq!(support::open(&plan, Some(&path), "t").err().unwrap().kind(), ErrorKind::Refused);
}

/// A file of a confirmed set is in use: those before it must not have been given up by then.
#[test]
fn a_set_of_which_one_file_is_in_use_stays_whole() {
    let tmp = scratch();
    let dir = tmp.path().join("set/");
    std::fs::create_dir(&dir).unwrap();
    let names = ["taillight-0.dat", "taillight-1.dat"].map(|name| dir.join(name));
    for name in &names {
        std::fs::write(name, vec![7u8; MIB as usize]).unwrap();
        let file = std::fs::OpenOptions::new().write(true).open(name).unwrap();
        // Adds holes, which are filled before they are read.
        file.set_len(2 * MIB).unwrap();
    }
    let held = std::fs::File::open(&names[1]).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockShared).unwrap();
    let before = names.each_ref().map(|name| std::fs::read(name).unwrap());
    let ask = Ask { size: Some(4 * MIB), options: "files = 2", ..Ask::new(&dir, READ) };
    let ask = Ask { destroy: Some(&dir), ..ask };
    assert_eq!(ask.open().err().unwrap().kind(), ErrorKind::Refused);
    assert!(names.each_ref().map(|name| std::fs::read(name).unwrap()) == before);
}

#[test]
fn kept_files_are_reused_and_others_leave_no_trace() {
    let tmp = scratch();
    let dir = tmp.path().join("set/");
    let ask = |options, run_id| Ask {
        size: Some(2 * MIB),
        options,
        run_id,
        ..Ask::new(&dir, &[OpKind::Read, OpKind::Write])
    };
    ask("files = 2", "r1").open().unwrap().close().unwrap();
    assert!(!dir.exists(), "a directory that the run made goes with it");

    let first = ask("files = 2\nkeep = true", "r2").open().unwrap();
    assert_eq!(fact(first.as_ref(), "files.laid_out"), "2");
    first.close().unwrap();
    let inode = |n: u32| std::fs::metadata(dir.join(format!("taillight-{n}.dat"))).unwrap().ino();
    let before = (inode(0), inode(1));
    let again = ask("files = 2", "r3").open().unwrap();
    assert_eq!(fact(again.as_ref(), "files.laid_out"), "0");
    assert_eq!(fact(again.as_ref(), "files.reused"), "2");
    again.close().unwrap();
    assert_eq!(before, (inode(0), inode(1)), "what an earlier run kept stays");

    // Written by somebody else since: not Taillight's any more.
    let name = dir.join("taillight-0.dat");
    let theirs = std::fs::OpenOptions::new().write(true).open(&name).unwrap();
    let untouched = theirs.metadata().unwrap().modified().unwrap();
    theirs.write_all_at(b"mine now", 0).unwrap();
    assert_eq!(ask("files = 2", "r4").open().err().unwrap().kind(), ErrorKind::Refused);
    theirs.set_modified(untouched).unwrap();
    assert_eq!(ask("files = 2", "r4").open().err().unwrap().kind(), ErrorKind::Refused);
    std::fs::remove_file(&name).unwrap();
    ask("files = 2\nkeep = true", "r4").open().unwrap().close().unwrap();

    // A larger size grows them; a copy under the same name is not Taillight's any more.
    let grown = Ask { size: Some(4 * MIB), ..ask("files = 2", "r4") }.open().unwrap();
    assert_eq!(fact(grown.as_ref(), "files.laid_out"), "2");
    grown.close().unwrap();
    std::fs::copy(&name, dir.join("copy")).unwrap();
    std::fs::rename(dir.join("copy"), &name).unwrap();
    assert_eq!(ask("files = 2", "r5").open().err().unwrap().kind(), ErrorKind::Refused);
}

/// Without a write since its files were prepared, a killed run leaves what is known to be its own.
#[test]
fn what_a_killed_run_left_is_taken_over_and_removed() {
    let tmp = scratch();
    let dir = tmp.path().join("set/");
    let ask = Ask { size: Some(MIB), ..Ask::new(&dir, WRITE) };
    std::mem::forget(ask.open().unwrap());
    let (sidecar, name) = (dir.join(".taillight-owner.json"), dir.join("taillight-0.dat"));
    assert!(sidecar.exists());
    // The lock of the forgotten target is still held, as if the other run went on.
    assert_eq!(ask.open().err().unwrap().kind(), ErrorKind::Refused);
    // A killed process would hold no lock: go on with a copy in another inode, and a mark for that.
    std::fs::copy(&name, dir.join("unlocked")).unwrap();
    std::fs::rename(dir.join("unlocked"), &name).unwrap();
    let marked = |file: &str| marked_as(&sidecar, file);
    marked(name.to_str().unwrap());
    let written = std::fs::OpenOptions::new().write(true).open(&name).unwrap();
    written.write_all_at(b"mine", 0).unwrap();
    let e = ask.open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.to_string().contains("left by a killed run, or changed since"), "{e}");
    marked(name.to_str().unwrap());
    ask.open().unwrap().close().unwrap();
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
}

/// A file whose loss was confirmed, and to which the run then wrote nothing, is neither deleted nor Taillight's later.
#[test]
fn a_confirmed_file_that_was_not_written_stays_somebody_elses() {
    let tmp = scratch();
    let dir = tmp.path().join("set/");
    let keeps = |options, ops, destroy| Ask {
        size: Some(2 * MIB),
        options,
        destroy,
        ..Ask::new(&dir, ops)
    };
    for options in ["files = 2", "files = 2\nkeep = true"] {
        keeps("files = 2\nkeep = true", WRITE, None).open().unwrap().close().unwrap();
        let name = dir.join("taillight-1.dat");
        std::fs::write(&name, vec![7; MIB as usize]).unwrap();
        let whole = Some(dir.as_path());
        keeps(options, WRITE, whole).open().unwrap().close().unwrap();
        assert_eq!(std::fs::read(&name).unwrap(), vec![7; MIB as usize]);
        let e = keeps(options, WRITE, None).open().err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{options}: {e}");
        let confirm = format!("--destroy {}", tmp.path().join("set").display());
        assert!(e.hint_text().unwrap().contains(&confirm), "{:?}", e.hint_text());
        // Without room for the others it is not emptied either.
        let large = Ask { size: Some(1 << 60), ..keeps(options, READ, whole) };
        assert_eq!(large.open().err().unwrap().kind(), ErrorKind::Unavailable);
        assert_eq!(std::fs::read(&name).unwrap(), vec![7; MIB as usize]);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

/// What somebody writes into a file while a run only reads it is not deleted with it, nor sealed.
#[test]
fn what_is_written_while_a_run_reads_stays() {
    let tmp = scratch();
    let path = tmp.path().join("data");
    for options in ["", "keep = true"] {
        let ask = |ops| Ask { size: Some(MIB), options, ..Ask::new(&path, ops) };
        let target = ask(READ).open().unwrap();
        let theirs = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        theirs.write_all_at(b"results", 0).unwrap();
        drop(theirs);
        target.close().unwrap();
        assert_eq!(std::fs::read(&path).unwrap()[..7], *b"results");
        assert_eq!(ask(WRITE).open().err().unwrap().kind(), ErrorKind::Refused);
        std::fs::remove_file(&path).unwrap();
    }
}

/// A confirmed file is given up only when the workers have what they need.
#[test]
fn workers_that_cannot_be_cost_no_data() {
    let tmp = scratch();
    let path = tmp.path().join("given-up");
    std::fs::write(&path, vec![7u8; MIB as usize]).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    let gib = 1 << 30;
    file.set_len(gib).unwrap();
    let before = file.metadata().unwrap();
    let options = "layout = \"always\"\nfixed_buffers = false";
    let ask = Ask { size: Some(gib), options, destroy: Some(&path), ..Ask::new(&path, WRITE) };
    let mut plan = ask.plan();
    // More memory than an address space has.
    let w = &mut plan.workloads[0];
    w.block_size = BlockSize::Fixed(ByteSize(gib));
    w.access.align = ByteSize(gib);
    (w.queue_depth, w.workers) = (4096, 64);
    let e = support::open(&plan, Some(&path), "t").err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
    assert!(e.message().contains("not enough memory"), "{e}");
    let after = file.metadata().unwrap();
    assert_eq!((after.ctime_nsec(), after.blocks()), (before.ctime_nsec(), before.blocks()));
}

/// Rewrites the one mark of a sidecar to be that of this file as it is now.
fn marked_as(sidecar: &std::path::Path, file: &str) {
    use taillight_driver::identity::FileIdentity;
    let mut mark: serde_json::Value =
        serde_json::from_slice(&std::fs::read(sidecar).unwrap()).unwrap();
    let is = FileIdentity::of(std::fs::File::open(file).unwrap()).unwrap();
    let of = &mut mark["files"][0];
    of["inode"] = is.inode.into();
    of["birth_ns"] = is.birth_ns.into();
    of["size"] = is.size.into();
    of["modified_ns"] = is.modified_ns.into();
    of["changed_ns"] = is.changed_ns.into();
    std::fs::write(sidecar, serde_json::to_vec(&mark).unwrap()).unwrap();
}

/// One sidecar has the marks of all files of a set.
#[test]
fn each_of_many_files_has_a_mark() {
    let tmp = scratch();
    let dir = tmp.path().join("set/");
    let ask = Ask {
        size: Some(300 * 4096),
        options: "files = 300\nkeep = true",
        ..Ask::new(&dir, WRITE)
    };
    std::fs::create_dir(&dir).unwrap();
    let sidecar = dir.join(".taillight-owner.json");
    let target = ask.open().unwrap();
    let text = std::fs::read_to_string(&sidecar).unwrap();
    assert_eq!(text.matches("\"changed_ns\"").count(), 300);
    target.close().unwrap();
    let (first, last) = (dir.join("taillight-0.dat"), dir.join("taillight-299.dat"));
    std::fs::write(&last, "mine").unwrap();
    let e = ask.open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.to_string().contains("taillight-299.dat"), "{e}");
    std::fs::remove_file(&last).unwrap();
    let goes = Ask { options: "files = 300", destroy: Some(&dir), ..Ask::new(&dir, WRITE) };
    Ask { size: Some(300 * 4096), ..goes }.open().unwrap().close().unwrap();
    assert!(first.exists() && !last.exists(), "what was kept stays, what this run made goes");
}

/// The file of a stream that was killed, then `cp results.csv stream.dat`, which keeps the inode.
#[test]
fn what_a_killed_stream_left_is_nobodys_without_confirmation() {
    let tmp = scratch();
    let path = tmp.path().join("stream.dat");
    let ask = |ops, destroy| Ask {
        size: Some(64 * MIB),
        destroy,
        run_id: "later",
        ..Ask::new(&path, ops)
    };
    std::mem::forget(stream(&ask(WRITE, None)).unwrap());
    let sidecar = tmp.path().join(".taillight-owner.json");
    // The forgotten target still holds the lock, which a killed process would not: go on in another inode.
    let theirs = [b'7'; 3 * 4096];
    std::fs::write(tmp.path().join("unlocked"), "").unwrap();
    std::fs::rename(tmp.path().join("unlocked"), &path).unwrap();
    marked_as(&sidecar, path.to_str().unwrap());
    std::fs::write(&path, theirs).unwrap();

    let e = stream(&ask(WRITE, None)).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Refused);
    let said = e.to_string();
    assert!(said.contains("left by a killed run, or changed since"), "{said}");
    assert_eq!(ask(WRITE, None).open().err().unwrap().kind(), ErrorKind::Refused);
    // Reading it is no reason to delete it.
    let read = Ask { size: None, ..ask(READ, None) };
    stream(&read).unwrap().close().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), theirs);

    let target = stream(&ask(WRITE, Some(&path))).unwrap();
    assert_eq!(fact(target.as_ref(), "files.writes_allocate"), "true");
    target.close().unwrap();
    assert!(!path.exists() && !sidecar.exists());
}

/// What somebody appends to a stream while it is written stays with it.
#[test]
fn what_is_appended_to_a_stream_stays() {
    let tmp = scratch();
    let path = tmp.path().join("stream.dat");
    for (keep, appends) in [(false, false), (false, true), (true, true)] {
        let options = if keep { "keep = true" } else { "" };
        let ask = Ask { size: Some(64 * MIB), options, ..Ask::new(&path, WRITE) };
        let target = stream(&ask).unwrap();
        let mut s = session(target.as_ref(), 1);
        for at in [0, 4096] {
            assert!(one(s.as_mut(), &op(OpKind::Write, at)).status.is_ok());
        }
        drop(s);
        if appends {
            let theirs = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
            theirs.write_all_at(b"thesis", 2 * 4096).unwrap();
            drop(theirs);
            assert_eq!(target.close().unwrap_err().kind(), ErrorKind::Target);
            assert_eq!(std::fs::read(&path).unwrap()[2 * 4096..], *b"thesis");
            assert_eq!(stream(&ask).err().unwrap().kind(), ErrorKind::Refused);
            std::fs::remove_file(&path).unwrap();
        } else {
            target.close().unwrap();
            assert!(!path.exists());
        }
    }
}

/// What was given up is the directory: a file in it may have another name elsewhere.
#[test]
fn a_directory_that_is_given_up_gives_up_nothing_beside_it() {
    let tmp = scratch();
    let (dir, thesis) = (tmp.path().join("set/"), tmp.path().join("thesis"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(&thesis, vec![7; MIB as usize]).unwrap();
    let name = dir.join("taillight-0.dat");
    std::fs::hard_link(&thesis, &name).unwrap();
    let always = "layout = \"always\"";
    for (ops, options) in [(WRITE, ""), (READ, always)] {
        let ask = Ask { size: Some(2 * MIB), options, destroy: Some(&dir), ..Ask::new(&dir, ops) };
        let e = ask.open().err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains("another name"), "{e}");
        assert_eq!(std::fs::read(&thesis).unwrap(), vec![7; MIB as usize]);
    }
    let named = Ask { size: Some(MIB), destroy: Some(&name), ..Ask::new(&name, WRITE) };
    named.open().unwrap().close().unwrap();
    std::fs::remove_file(&name).unwrap();
    std::fs::copy(&thesis, &name).unwrap();
    let ask = Ask { size: Some(MIB), destroy: Some(&dir), ..Ask::new(&dir, WRITE) };
    ask.open().unwrap().close().unwrap();
}

/// A program that maps a file, writes to it, says so, waits for a line, writes once more, and ends.
const MAPS: &str = "import mmap,sys\nf=open(sys.argv[1],'r+b')\nm=mmap.mmap(f.fileno(),0)\n\
    m[5000]=m[5000]^1\nprint(flush=True)\nsys.stdin.readline()\nm[5000:5006]=b'THESIS'\n";

/// Writes through a mapping move the time of change late, or never (tmpfs).
#[test]
fn what_is_written_through_a_mapping_stays() {
    use std::io::{Read, Write};
    use std::process::{Command, Stdio};
    for tmp in [Ok(scratch()), tempfile::tempdir_in("/dev/shm")] {
        let Ok(tmp) = tmp else {
            eprintln!("skipped: written through a mapping: no /dev/shm");
            continue;
        };
        for mapped_in_run in [true, false] {
            let path = tmp.path().join(format!("{mapped_in_run}"));
            let options = "keep = true\ndirect = false";
            let ask = || Ask { size: Some(MIB), options, ..Ask::new(&path, WRITE) };
            let mut target = Some(ask().open().unwrap());
            if !mapped_in_run {
                target.take().unwrap().close().unwrap();
                ask().open().unwrap().close().unwrap();
            }
            let mut program = Command::new("python3");
            let program = program.args(["-c", MAPS]).arg(&path);
            let program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
            let Ok(mut program) = program else {
                eprintln!("skipped: written through a mapping: no python3");
                return;
            };
            program.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            if let Some(target) = target {
                target.close().unwrap();
            }
            program.stdin.take().unwrap().write_all(b"\n").unwrap();
            assert!(program.wait().unwrap().success());
            let e = ask().open().err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Refused, "{mapped_in_run}: {e}");
            assert_eq!(std::fs::read(&path).unwrap()[5000..5006], *b"THESIS");
        }
    }
}

/// Opens with driver `filestream`.
fn stream(ask: &Ask<'_>) -> taillight_core::Result<Box<dyn Target>> {
    let mut plan = ask.plan();
    plan.target.driver = "filestream".to_owned();
    for w in &mut plan.workloads {
        w.access.kind = AccessKind::Sequential;
        w.passes = Some(1);
    }
    support::open(&plan, ask.destroy, ask.run_id)
}

#[test]
fn holes_are_refused_with_their_share() {
    let tmp = scratch();
    let path = tmp.path().join("sparse");
    let file = std::fs::File::create(&path).unwrap();
    file.set_len(4 * MIB).unwrap();
    file.write_all_at(&vec![1u8; MIB as usize], 0).unwrap();
    let e = Ask::new(&path, READ).open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Refused);
    assert!(e.to_string().contains("75.0 %"), "{e}");
    let allowed = Ask { options: "allow_holes = true", ..Ask::new(&path, READ) };
    allowed.open().unwrap().close().unwrap();
    assert_eq!(file.metadata().unwrap().len(), 4 * MIB);

    let new = tmp.path().join("new");
    let never = Ask { size: Some(MIB), options: "layout = \"never\"", ..Ask::new(&new, READ) };
    assert_eq!(never.open().err().unwrap().kind(), ErrorKind::Usage);
    assert!(!new.exists());
}

#[test]
fn layout_always_fills_before_writes() {
    let tmp = scratch();
    let path = tmp.path().join("w");
    let blocks = |options| {
        let ask = Ask { size: Some(4 * MIB), options, ..Ask::new(&path, WRITE) };
        let target = ask.open().unwrap();
        let blocks = std::fs::metadata(&path).unwrap().blocks() * 512;
        let allocates = fact(target.as_ref(), "files.writes_allocate");
        target.close().unwrap();
        assert!(!path.exists());
        (blocks, allocates)
    };
    let (empty, allocates) = blocks("");
    assert!(empty < MIB && allocates == "true");
    let (filled, allocates) = blocks("layout = \"always\"");
    assert!(filled >= 4 * MIB && allocates == "false");
}

#[test]
fn sizes_that_cannot_be_are_refused_with_numbers() {
    let tmp = scratch();
    let path = tmp.path().join("x");
    let ask = |size| Ask { size: Some(size), ..Ask::new(&path, WRITE) };
    let e = ask(10_000).open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Usage);
    assert!(e.hint_text().unwrap().contains("8KiB or 12KiB"), "{:?}", e.hint_text());
    let e = Ask { options: "files = 3", ..ask(MIB) }.open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Usage);
    assert_eq!(Ask::new(&path, WRITE).open().err().unwrap().kind(), ErrorKind::Usage);

    let e = ask(1 << 60).open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unavailable);
    for part in ["needed: 1026 PiB", "available: "] {
        assert!(e.to_string().contains(part), "{e}");
    }
    let mut plan = ask(MIB).plan();
    plan.workloads[0].block_size = BlockSize::Fixed(ByteSize(1000));
    plan.workloads[0].access.align = ByteSize(64);
    let e = support::open(&plan, None, "t").err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Usage);
    assert!(e.to_string().contains("multiple of"), "{e}");
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0, "nothing is left behind");

    std::fs::write(&path, vec![1u8; 8192]).unwrap();
    let e = Ask { size: Some(MIB), ..Ask::new(&path, READ) }.open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Usage);
    let missing = tmp.path().join("no/such/file");
    let e = Ask { size: Some(MIB), ..Ask::new(&missing, READ) }.open().err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unavailable);
}

#[test]
fn without_a_size_whole_blocks_of_the_file_are_used() {
    let tmp = scratch();
    let path = tmp.path().join("odd");
    std::fs::write(&path, vec![1u8; 10_000]).unwrap();
    let ask = Ask { options: "direct = false", ..Ask::new(&path, READ) };
    let target = ask.open().unwrap();
    assert_eq!(target.geometry().file_size, 8192);
    target.close().unwrap();
}

#[test]
fn a_short_read_is_a_status() {
    let tmp = scratch();
    let path = tmp.path().join("shrinks");
    for (engine, depth) in [("sync", 1), ("uring", 4)] {
        std::fs::write(&path, vec![1u8; 64 << 10]).unwrap();
        let options = format!("direct = false\nengine = \"{engine}\"");
        let ask = Ask { options: &options, depth, ..Ask::new(&path, READ) };
        let target = ask.open().unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(5000).unwrap();
        let mut s = session(target.as_ref(), depth);
        let c = one(s.as_mut(), &op(OpKind::Read, 4096));
        assert_eq!((c.status, c.moved), (Status::SHORT, 904), "{engine}");
        drop(s);
        target.close().unwrap();
    }
}

#[test]
fn many_small_files_are_laid_out_each_with_data_of_its_own() {
    let tmp = scratch();
    let dir = tmp.path().join("many/");
    for files in [8_u64, 9, 30] {
        let options = format!("files = {files}\nlayout = \"always\"\ndirect = false");
        let ask = Ask { options: &options, size: Some(files * 5000), ..Ask::new(&dir, READ) };
        let mut plan = ask.plan();
        plan.workloads[0].block_size = BlockSize::Fixed(ByteSize(1000));
        plan.workloads[0].access.align = ByteSize(1000);
        let target = support::open(&plan, None, "t").unwrap();
        let laid_out = std::fs::read_dir(&dir).unwrap().flatten().map(|e| e.path());
        let laid_out = laid_out.filter(|path| path.extension().is_some_and(|e| e == "dat"));
        let all: BTreeSet<Vec<u8>> = laid_out.map(|path| std::fs::read(path).unwrap()).collect();
        assert_eq!(all.len() as u64, files);
        assert!(all.iter().all(|data| data.len() == 5000 && data.iter().any(|b| *b != 0)));
        target.close().unwrap();
    }
}

#[test]
fn the_cache_is_dropped_or_warm_at_the_start() {
    let tmp = scratch();
    let path = tmp.path().join("cached");
    std::fs::write(&path, vec![1u8; 8 << 20]).unwrap();
    let share = |options: &str| {
        let target = Ask { options, ..Ask::new(&path, READ) }.open().unwrap();
        let share = fact(target.as_ref(), "cache.resident_at_start");
        target.admin(AdminAction::Flush).unwrap();
        target.admin(AdminAction::DropCaches).unwrap();
        target.close().unwrap();
        share
    };
    assert_eq!(share("direct = false\ncache = \"warm\""), "100.00 %");
    let dropped = share("direct = false");
    if fact_of_fs(&path) != "tmpfs" {
        assert_eq!(dropped, "0.00 %");
    }
}

#[test]
fn pages_of_buffers_do_not_change_with_block_size_or_depth() {
    let tmp = scratch();
    let path = tmp.path().join("pages");
    std::fs::write(&path, vec![1u8; 8 << 20]).unwrap();
    let mut seen = BTreeSet::new();
    for (block, depth) in [(BLOCK, 1), (BLOCK, 64), (MIB, 1), (MIB, 2)] {
        let ask = Ask { options: "engine = \"uring\"", depth, ..Ask::new(&path, READ) };
        let mut plan = ask.plan();
        plan.workloads[0].block_size = BlockSize::Fixed(ByteSize(block));
        let Ok(target) = open(&plan, None, "test") else { continue };
        let s = conformance::session(target.as_ref(), block, depth);
        let facts: BTreeMap<String, String> = target.session_facts().into_iter().collect();
        let bytes: u64 = facts["buffers.bytes"].parse().unwrap();
        assert!(bytes >= block * u64::from(depth), "{facts:?}");
        seen.insert(facts["buffers.page"].clone());
        if facts["buffers.page"] == "2 MiB" {
            assert_eq!(facts["buffers.segments_per_block"], "1", "{block} B, depth {depth}");
        }
        drop(s);
        target.close().unwrap();
    }
    // Huge pages, or where this machine has none the reason; the same for all.
    assert!(seen.len() <= 1, "{seen:?}");
}

fn fact_of_fs(path: &std::path::Path) -> String {
    let target = Ask::new(path, READ).open().unwrap();
    fact(target.as_ref(), "fs.type")
}

#[test]
fn purge_punches_files() {
    let tmp = scratch();
    let path = tmp.path().join("p");
    let ask = Ask { size: Some(MIB), ..Ask::new(&path, &[OpKind::Read, OpKind::Trim]) };
    let target = ask.open().unwrap();
    target.admin(AdminAction::Purge).unwrap();
    let mut s = session(target.as_ref(), 1);
    assert!(one(s.as_mut(), &op(OpKind::Read, 0)).status.is_ok());
    assert!(s.buffer(0).iter().all(|b| *b == 0));
    drop(s);
    target.close().unwrap();
}

#[test]
fn files_have_the_tail_that_is_asked_for_however_they_were_laid_out() {
    let tmp = scratch();
    let dir = tmp.path().join("set/");
    let file = dir.join("taillight-0.dat");
    let length = || std::fs::metadata(&file).unwrap().len();
    let opened = |options: &str, size: Option<u64>| {
        let ask = Ask { size, options, ..Ask::new(&dir, READ) };
        ask.open().map(|target| (target.geometry().file_size, target.close().unwrap()).0)
    };
    opened("keep = true", Some(4 * MIB)).unwrap();
    assert_eq!(length(), 4 * MIB);
    // The file has its data, and no tail yet.
    opened("keep = true\ntail = \"8KiB\"", Some(4 * MIB)).unwrap();
    assert_eq!(length(), 4 * MIB + 8192);
    assert_eq!(opened("keep = true\ntail = \"8KiB\"", None).unwrap(), 4 * MIB);
    assert_eq!(length(), 4 * MIB + 8192);
    std::fs::remove_dir_all(&dir).unwrap();
    match opened("keep = true\ntail = \"8KiB\"\nextent_size = \"64KiB\"", Some(4 * MIB)) {
        Ok(_) => assert_eq!(length(), 4 * MIB + 8192),
        Err(e) => eprintln!("skipped: {e}"),
    }
}

#[test]
fn what_only_a_ring_can_do_is_done_by_one_and_has_its_limits() {
    let tmp = scratch();
    let path = tmp.path().join("a");
    let engine = |options: &str| {
        let ask = Ask { size: Some(MIB), options, ..Ask::new(&path, WRITE) };
        ask.open().map(|target| (fact(target.as_ref(), "io.engine"), target.close().unwrap()).0)
    };
    assert_eq!(engine("").unwrap(), "sync");
    for asks in ["submit_batch = 4", "io_workers = 2", "force_async = 3"] {
        assert!(engine(asks).unwrap().starts_with("uring"), "{asks}");
        let e = engine(&format!("engine = \"sync\"\n{asks}")).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Usage, "{asks}: {e}");
    }
    for wrong in ["force_async = 4097", "names = [\"taillight-fill.dat\"]"] {
        assert_eq!(engine(wrong).unwrap_err().kind(), ErrorKind::Usage, "{wrong}");
    }
}

#[test]
fn ranks_have_files_of_their_own_in_memory_and_share_the_names_of_devices() {
    let driver = taillight_driver::find("file").unwrap();
    assert_eq!(driver.rank_path("/dev/shm/a", 1).unwrap(), "/dev/shm/a.rank-0001");
    assert_eq!(driver.rank_path("/dev/nvme9n9", 1).unwrap(), "/dev/nvme9n9");
}
