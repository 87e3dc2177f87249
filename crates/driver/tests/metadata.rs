//! The driver `metadata` beyond the contract: what its directory may hold, what it keeps, file systems that are full
//! or cannot be written, renames by several workers, somebody who comes in between.
#![allow(clippy::unwrap_used)]

#[macro_use]
mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{TestLoopDevice, scratch};
use taillight_core::plan::{MixPart, Plan};
use taillight_core::{Error, ErrorKind, Op, OpKind, Result, Status};
use taillight_driver::conformance::{self, one};
use taillight_driver::{AdminAction, Session, SessionSpec, Target};

const ENGINES: [&str; 2] = ["engine = \"sync\"\n", "engine = \"io_uring\"\n"];
const SIZE: u64 = 400;

fn plan(dir: &Path, options: &str, ops: &[OpKind], count: u64) -> Plan {
    let target = conformance::target("metadata", dir.to_str().unwrap(), options);
    let mut plan = conformance::keyed_plan(target, SIZE, 1, false);
    let w = &mut plan.workloads[0];
    w.mix = ops.iter().map(|op| MixPart { op: *op, weight: 1 }).collect();
    w.keys.as_mut().unwrap().count = count;
    plan
}

fn open(plan: &Plan) -> Result<Box<dyn Target>> {
    conformance::open(plan, None, "run-a")
}

fn refused(plan: &Plan, destroy: Option<&Path>) -> Error {
    let e = conformance::open(plan, destroy.map(|d| d.to_str().unwrap()), "run-b").err();
    let e = e.expect("refused");
    assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    e
}

fn session(target: &dyn Target, worker: u16) -> Box<dyn Session> {
    let spec =
        SessionSpec { worker, workload: 0, keep: true, depth: 1, buffer_size: SIZE, seed: 1 };
    target.session(&spec).unwrap()
}

/// Does an operation on each of these numbers; the statuses.
fn each(target: &dyn Target, kind: OpKind, numbers: std::ops::Range<u64>) -> Vec<Status> {
    let mut session = session(target, 0);
    numbers.map(|n| one(session.as_mut(), &Op::keyed(kind, n, SIZE)).status).collect()
}

fn ok(statuses: &[Status]) {
    assert!(statuses.iter().all(|s| s.is_ok()), "{statuses:?}");
}

/// Everything below a directory, with what files hold.
fn tree(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        match entry.file_type().unwrap() {
            kind if kind.is_dir() => {
                all.push((path.clone(), Vec::new()));
                all.extend(tree(&path));
            }
            kind if kind.is_symlink() => all.push((path.clone(), b"link".to_vec())),
            _ => all.push((path.clone(), fs::read(&path).unwrap())),
        }
    }
    all.sort();
    all
}

/// A directory that a run has kept files 0 to 9 in, and the directory below it that holds them.
fn kept(dir: &Path, options: &str) -> PathBuf {
    let options = format!("{options}keep = true");
    let target = open(&plan(dir, &options, &[OpKind::Create], 0)).unwrap();
    ok(&each(target.as_ref(), OpKind::Create, 0..10));
    target.close().unwrap();
    let leaf = fs::read_dir(dir).unwrap().flatten().find(|e| e.path().is_dir());
    leaf.expect("a directory that holds files").path()
}

#[test]
fn what_is_not_its_own_refuses_the_directory_and_stays() {
    type Plant = fn(&Path, &Path, &Path);
    let plants: [(&str, Plant); 7] = [
        ("a file", |dir, _, _| fs::write(dir.join("thesis.tex"), "mine").unwrap()),
        ("a directory", |dir, _, _| fs::create_dir(dir.join("photos")).unwrap()),
        ("a file among its files", |_, leaf, _| fs::write(leaf.join("thesis"), "mine").unwrap()),
        ("a name that is almost one", |_, leaf, file| {
            let name = file.file_name().unwrap().to_str().unwrap();
            fs::write(leaf.join(format!("{name}x")), "mine").unwrap();
        }),
        ("a symlink outside with a name of its files", |dir, _, file| {
            fs::remove_file(file).unwrap();
            symlink(dir.parent().unwrap().join("outside"), file).unwrap();
        }),
        ("a directory with a name of its files", |_, _, file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        }),
        ("its directory is a symlink", |dir, leaf, _| {
            let away = dir.parent().unwrap().join("away");
            fs::rename(leaf, &away).unwrap();
            symlink(&away, leaf).unwrap();
        }),
    ];
    for (what, plant) in plants {
        let tmp = scratch();
        let dir = tmp.path().join("files");
        fs::write(tmp.path().join("outside"), "mine").unwrap();
        let leaf = kept(&dir, "");
        let file = fs::read_dir(&leaf).unwrap().flatten().next().unwrap().path();
        plant(&dir, &leaf, &file);
        let before = tree(tmp.path());
        let mut asked = plan(&dir, "keep = true", &[OpKind::Stat], 10);
        let e = refused(&asked, None);
        assert!(e.to_string().contains("did not make"), "{what}: {e}");
        asked.target.destroy = true;
        refused(&asked, Some(&dir));
        assert!(taillight_driver::metadata::remove_kept(&dir, &["run-a".to_owned()]).is_err() || what.contains("file"));
        let after = tree(tmp.path());
        let theirs = |all: &[(PathBuf, Vec<u8>)]| {
            let mine = |(path, is): &&(PathBuf, Vec<u8>)| {
                is.starts_with(b"mine") || is == b"link" || path.ends_with("photos")
            };
            all.iter().filter(mine).cloned().collect::<Vec<_>>()
        };
        assert_eq!(theirs(&after), theirs(&before), "{what}");
    }
}

#[test]
fn a_directory_of_somebody_else_is_refused() {
    let tmp = scratch();
    let dir = tmp.path().join("home");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("file.0.1"), "mine").unwrap();
    let before = tree(&dir);
    refused(&plan(&dir, "", &[OpKind::Create], 0), None);
    // A mark that came with a copy says nothing.
    let (own, copy) = (tmp.path().join("own"), tmp.path().join("copy"));
    kept(&own, "");
    assert!(Command::new("cp").arg("-a").args([&own, &copy]).status().unwrap().success());
    let e = refused(&plan(&copy, "keep = true", &[OpKind::Stat], 10), None);
    assert!(e.to_string().contains("copy"), "{e}");
    assert_eq!(tree(&dir), before);
}

#[test]
fn what_is_kept_is_known_again_and_what_does_not_fit_is_refused() {
    for engine in ENGINES {
        let tmp = scratch();
        let dir = tmp.path().join("files");
        let more = "depth = 2\nspread = 3\n";
        kept(&dir, &format!("{engine}{more}"));
        let options = format!("{engine}{more}keep = true");
        let asked = plan(&dir, &options, &[OpKind::OpenReadClose, OpKind::Stat], 10);
        let target = open(&asked).unwrap();
        assert_eq!(target.keyed().unwrap().records(), 10);
        ok(&each(target.as_ref(), OpKind::OpenReadClose, 0..10));
        assert_eq!(each(target.as_ref(), OpKind::Stat, 10..11), [Status::NOT_FOUND]);
        target.close().unwrap();
        // Another layout, another size, and files that would be created over others.
        refused(&plan(&dir, &format!("{engine}keep = true"), &[OpKind::Stat], 10), None);
        let mut other = asked.clone();
        other.workloads[0].block_size =
            taillight_core::plan::BlockSize::Fixed(taillight_core::units::ByteSize(401));
        assert!(refused(&other, None).to_string().contains("another form"));
        let e = refused(&plan(&dir, &options, &[OpKind::Create], 5), None);
        assert!(e.hint_text().unwrap().contains("keys.count = 10"), "{e}");
        // Given up, all of it goes.
        let mut gone = plan(&dir, engine, &[OpKind::Create], 0);
        gone.target.destroy = true;
        let target = conformance::open(&gone, dir.to_str(), "run-c").unwrap();
        assert_eq!(target.keyed().unwrap().records(), 0);
        target.close().unwrap();
        assert!(tree(&dir).is_empty(), "{:?}", tree(&dir));
    }
}

#[test]
fn a_killed_run_is_cleaned_up_and_two_runs_keep_apart() {
    let tmp = scratch();
    let dir = tmp.path().join("files");
    let asked = plan(&dir, "", &[OpKind::Create, OpKind::Unlink], 0);
    let target = open(&asked).unwrap();
    ok(&each(target.as_ref(), OpKind::Create, 0..20));
    let e = conformance::open(&asked, None, "run-b").err().unwrap();
    assert!(e.to_string().contains("another run"), "{e}");
    // Killed: nothing is put in order. Its lock goes with its process.
    let run = std::thread::spawn(move || std::mem::forget(target));
    run.join().unwrap();
    let left = tree(&dir).len();
    assert!(left > 20, "{left}");
}

#[test]
fn somebody_who_comes_in_between_loses_nothing() {
    for engine in ENGINES {
        let tmp = scratch();
        let dir = tmp.path().join("files");
        let target = open(&plan(&dir, engine, &[OpKind::Create], 0)).unwrap();
        ok(&each(target.as_ref(), OpKind::Create, 0..5));
        let leaf = fs::read_dir(&dir).unwrap().flatten().find(|e| e.path().is_dir()).unwrap();
        fs::write(leaf.path().join("thesis"), "mine").unwrap();
        let e = target.close().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Target);
        let left = tree(&dir);
        assert!(
            left.iter().any(|(path, is)| path.ends_with("thesis") && is == b"mine"),
            "{left:?}"
        );
        assert_eq!(left.iter().filter(|(path, _)| path.is_file()).count(), 2, "and the mark");
    }
}

#[test]
fn renamed_files_are_found_whoever_renames_them() {
    for engine in ENGINES {
        let tmp = scratch();
        let dir = tmp.path().join("files");
        let options = format!("{engine}keep = true");
        let ops = [OpKind::Create, OpKind::Rename, OpKind::Stat];
        let target = open(&plan(&dir, &options, &ops, 0)).unwrap();
        ok(&each(target.as_ref(), OpKind::Create, 0..50));
        std::thread::scope(|scope| {
            for kind in [OpKind::Rename, OpKind::Rename, OpKind::Rename] {
                let target = target.as_ref();
                scope.spawn(move || (0..20).for_each(|_| ok(&each(target, kind, 0..50))));
            }
        });
        ok(&each(target.as_ref(), OpKind::Stat, 0..50));
        ok(&each(target.as_ref(), OpKind::Rename, 0..25));
        target.close().unwrap();
        // Another run finds both names.
        let target = open(&plan(&dir, &options, &[OpKind::Stat, OpKind::Unlink], 50)).unwrap();
        assert_eq!(target.keyed().unwrap().records(), 50);
        ok(&each(target.as_ref(), OpKind::OpenReadClose, 0..50));
        ok(&each(target.as_ref(), OpKind::Unlink, 0..50));
        target.close().unwrap();
        assert!(tree(&dir).is_empty(), "{:?}", tree(&dir));
    }
}

#[test]
fn a_purge_takes_what_is_its_own() {
    let tmp = scratch();
    let dir = tmp.path().join("files");
    let target = open(&plan(&dir, "spread = 2\n", &[OpKind::Create, OpKind::Mkdir], 0)).unwrap();
    ok(&each(target.as_ref(), OpKind::Create, 0..9));
    ok(&each(target.as_ref(), OpKind::Mkdir, 0..9));
    target.admin(AdminAction::Purge).unwrap();
    assert_eq!(tree(&dir).iter().filter(|(path, _)| path.is_dir()).count(), 2);
    target.close().unwrap();
    assert!(!dir.exists(), "the run made it");
}

/// A small tmpfs, unmounted on drop.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn new(options: &str) -> Option<Tmpfs> {
        let dir = scratch();
        let words = ["mount", "-t", "tmpfs", "-o", options, "none", dir.path().to_str()?];
        support::run(&words).map(|_| Tmpfs(dir))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

/// Without inodes it is refused before anything; a file system that fills up is data, and is cleaned up.
fn full_and_without_inodes(root: &Path, inodes: u64) {
    for engine in ENGINES {
        let dir = root.join("files");
        let many = plan(&dir, engine, &[OpKind::Stat], inodes + 1000);
        let e = open(&many).err().expect("refused");
        assert_eq!(e.kind(), ErrorKind::Unavailable);
        assert!(e.to_string().contains("not enough"), "{e}");
        assert!(!dir.exists());
        let target = open(&plan(&dir, engine, &[OpKind::Create], 0)).unwrap();
        let statuses = each(target.as_ref(), OpKind::Create, 0..inodes + 1000);
        let full = statuses.iter().filter(|s| **s == Status::errno(libc::ENOSPC)).count();
        let made = statuses.iter().filter(|s| s.is_ok()).count();
        assert!(full > 0 && made > 0, "{made} made, {full} without room");
        assert_eq!(full + made, statuses.len());
        target.close().unwrap();
        assert!(!dir.exists());
    }
}

#[test]
fn a_file_system_that_is_full_and_one_that_cannot_be_written() {
    let tmpfs = or_skip!(Tmpfs::new("size=4m,nr_inodes=200"));
    full_and_without_inodes(tmpfs.0.path(), 200);
    let disk = or_skip!(TestLoopDevice::new(8));
    let mount = or_skip!(disk.mounted("ext4"));
    let inodes = rustix::fs::statvfs(mount.path()).unwrap().f_favail;
    full_and_without_inodes(mount.path(), inodes);
    or_skip!(support::run(&["mount", "-o", "remount,ro", mount.path().to_str().unwrap()]));
    let e = open(&plan(&mount.path().join("files"), "", &[OpKind::Create], 0)).err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unavailable);
    assert!(e.hint_text().unwrap().contains("read-only"), "{e}");
}
