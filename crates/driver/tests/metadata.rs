//! The driver `metadata` beyond the contract: what its directory may hold, what it keeps, killed runs, runs that
//! begin at once, file systems that are full or cannot be written, renames by several workers, files of others.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{self, TestLoopDevice, scratch};
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
    let spec = SessionSpec {
        worker,
        workload: 0,
        index: worker,
        keep: true,
        depth: 1,
        buffer_size: SIZE,
        seed: 1,
    };
    target.session(&spec).unwrap()
}

/// A run with several targets has more workers than the plan that one of them was opened with.
#[test]
fn a_worker_has_the_lane_of_its_number_in_its_workload() {
    let tmp = scratch();
    let mut plan =
        plan(&tmp.path().join("d"), "directories = \"per-worker\"\n", &[OpKind::Mkdir], 0);
    plan.workloads[0].workers = 2;
    let target = open(&plan).unwrap();
    let made: Vec<Vec<PathBuf>> = [(1, 0), (0, 1)]
        .map(|(worker, index)| {
            let before = directories(tmp.path());
            let spec = SessionSpec {
                worker,
                workload: 0,
                index,
                keep: true,
                depth: 1,
                buffer_size: SIZE,
                seed: 1,
            };
            let mut session = target.session(&spec).unwrap();
            assert!(one(session.as_mut(), &Op::keyed(OpKind::Mkdir, 0, SIZE)).status.is_ok());
            directories(tmp.path()).into_iter().filter(|d| !before.contains(d)).collect()
        })
        .into();
    let last = |n: usize| made[n][0].to_string_lossy().ends_with(&format!("{n}"));
    assert!(last(0) && last(1), "{made:?}");
    target.close().unwrap();
}

fn directories(dir: &Path) -> Vec<PathBuf> {
    let below = fs::read_dir(dir).unwrap().flatten().map(|e| e.path()).filter(|p| p.is_dir());
    below.flat_map(|d| std::iter::once(d.clone()).chain(directories(&d))).collect()
}

/// Does an operation on each of these numbers; gives the statuses.
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

/// Makes a directory in which a run has kept files 0 to 9; gives the directory below it that holds the first ones.
fn kept(dir: &Path, options: &str) -> PathBuf {
    let options = format!("{options}keep = true");
    let target = open(&plan(dir, &options, &[OpKind::Create], 0)).unwrap();
    ok(&each(target.as_ref(), OpKind::Create, 0..10));
    target.close().unwrap();
    let leaf = fs::read_dir(dir).unwrap().flatten().find(|e| e.path().is_dir());
    leaf.expect("a directory that holds files").path()
}

const FOREIGN: (&str, usize) = ("did not make", 0);

#[test]
fn what_is_not_its_own_refuses_the_directory_and_stays() {
    type Plant = fn(&Path, &Path, &Path);
    // With what the removal of kept files says, and how many of them it leaves.
    let plants: [(&str, (&str, usize), Plant); 7] = [
        ("a file", FOREIGN, |dir, _, _| fs::write(dir.join("thesis.tex"), "mine").unwrap()),
        ("a directory", FOREIGN, |dir, _, _| fs::create_dir(dir.join("photos")).unwrap()),
        ("a file among its files", FOREIGN, |_, leaf, _| {
            fs::write(leaf.join("thesis"), "mine").unwrap();
        }),
        ("a name that is almost one", FOREIGN, |_, leaf, file| {
            let name = file.file_name().unwrap().to_str().unwrap();
            fs::write(leaf.join(format!("{name}x")), "mine").unwrap();
        }),
        ("a symlink outside with a name of its files", FOREIGN, |dir, _, file| {
            fs::remove_file(file).unwrap();
            symlink(dir.parent().unwrap().join("outside"), file).unwrap();
        }),
        ("a directory with a name of its files", FOREIGN, |_, _, file| {
            fs::remove_file(file).unwrap();
            fs::create_dir(file).unwrap();
        }),
        ("its directory is a symlink", ("cannot open the directory", 10), |dir, leaf, _| {
            let away = dir.parent().unwrap().join("away");
            fs::rename(leaf, &away).unwrap();
            symlink(&away, leaf).unwrap();
        }),
    ];
    for (what, (says, stay), plant) in plants {
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
        assert_eq!(tree(tmp.path()), before, "{what}: a refusal changes nothing");
        let remove = |run: &str| taillight_driver::metadata::remove_kept(&dir, &[run.to_owned()]);
        assert!(remove("run-b").unwrap_err().to_string().contains("no mark of these runs"));
        assert_eq!(tree(tmp.path()), before, "{what}: that of another run");
        let e = remove("run-a").expect_err(what);
        assert!(e.to_string().contains(says), "{what}: {e}");
        let after = tree(tmp.path());
        let own = |(path, is): &&(PathBuf, Vec<u8>)| path.is_file() && is.len() as u64 == SIZE;
        assert_eq!(after.iter().filter(own).count(), stay, "{what}");
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
        // With a confirmation all of it goes.
        let mut gone = plan(&dir, engine, &[OpKind::Create], 0);
        gone.target.destroy = true;
        let target = conformance::open(&gone, dir.to_str(), "run-c").unwrap();
        assert_eq!(target.keyed().unwrap().records(), 0);
        target.close().unwrap();
        assert!(tree(&dir).is_empty(), "{:?}", tree(&dir));
    }
}

/// The environment variable that names the directory to the process that is killed.
const KILLED_IN: &str = "TAILLIGHT_TEST_KILLED_IN";

#[test]
#[ignore = "the process that a_killed_run_is_cleaned_up kills"]
fn makes_files_and_waits_for_a_kill() {
    let dir = std::env::var_os(KILLED_IN).expect("started by the other test");
    let asked = plan(Path::new(&dir), "", &[OpKind::Create, OpKind::Unlink], 0);
    let target = open(&asked).unwrap();
    ok(&each(target.as_ref(), OpKind::Create, 0..20));
    println!("made");
    std::thread::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_killed_run_is_cleaned_up() {
    let tmp = scratch();
    let dir = tmp.path().join("files");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "metadata::makes_files_and_waits_for_a_kill", "--ignored", "--nocapture"])
        .env(KILLED_IN, &dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let made = said.any(|line| line.unwrap().contains("made"));
    let asked = plan(&dir, "", &[OpKind::Create, OpKind::Unlink], 0);
    let during = conformance::open(&asked, None, "run-b").err();
    let left = if made { tree(&dir) } else { Vec::new() };
    child.kill().unwrap();
    child.wait().unwrap();
    let e = during.expect("refused while the run goes on");
    assert!(e.to_string().contains("another run"), "{e}");
    let files = |all: &[(PathBuf, Vec<u8>)]| {
        let is = |(_, is): &&(PathBuf, Vec<u8>)| is.len() as u64 == SIZE;
        all.iter().filter(is).map(|(path, _)| path.clone()).collect::<Vec<_>>()
    };
    let killed = files(&left);
    assert_eq!((killed.len(), files(&tree(&dir)).len()), (20, 20), "{left:?}");
    // Somebody keeps something in one of the files since.
    for text in ["thesis".to_owned(), "t".repeat(SIZE as usize)] {
        fs::write(&killed[7], text).unwrap();
        let file = fs::File::open(&killed[7]).unwrap();
        file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(60))
            .unwrap();
        let e = refused(&asked, None);
        assert!(e.to_string().contains(killed[7].to_str().unwrap()), "{e}");
        assert!(fs::read(&killed[7]).unwrap().starts_with(b"t") && killed[8].exists());
    }
    fs::remove_file(&killed[7]).unwrap();
    let target = conformance::open(&asked, None, "run-c").unwrap();
    assert_eq!(target.keyed().unwrap().records(), 0);
    assert!(killed.iter().all(|path| !path.exists()), "{:?}", tree(&dir));
    ok(&each(target.as_ref(), OpKind::Create, 0..5));
    assert_eq!(files(&tree(&dir)).len(), 5);
    target.close().unwrap();
    assert!(tree(&dir).is_empty(), "{:?}", tree(&dir));
}

/// The others are refused.
#[test]
fn of_runs_that_begin_at_once_at_most_one_has_the_directory() {
    for round in 0..30 {
        let tmp = scratch();
        let dir = tmp.path().join("files");
        fs::create_dir(&dir).unwrap();
        let asked = plan(&dir, "", &[OpKind::Create], 0);
        if round % 2 == 1 {
            // Left by a run that did not keep it: each of them may wipe it.
            kept(&dir, "");
            let mark = fs::read_to_string(dir.join(".taillight-owner.json")).unwrap();
            let left = mark.replace("\"keep\": true", "\"keep\": false");
            assert_ne!(left, mark);
            fs::write(dir.join(".taillight-owner.json"), left).unwrap();
        }
        let all = std::sync::Barrier::new(4);
        let opened: Vec<_> = std::thread::scope(|scope| {
            let run = |nth: u32| {
                let (asked, all) = (&asked, &all);
                scope.spawn(move || {
                    all.wait();
                    conformance::open(asked, None, &format!("run-{nth}"))
                })
            };
            let runs: Vec<_> = (0..4).map(run).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        let mut has = Vec::new();
        for result in opened {
            match result {
                Ok(target) => has.push(target),
                Err(e) => assert_eq!(e.kind(), ErrorKind::Refused, "{e}"),
            }
        }
        assert!(has.len() <= 1, "round {round}: {} have it", has.len());
        for target in has {
            ok(&each(target.as_ref(), OpKind::Create, 0..5));
            target.close().unwrap();
            assert!(tree(&dir).is_empty(), "{:?}", tree(&dir));
        }
    }
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
fn operations_with_fsync_succeed_and_leave_nothing() {
    for engine in ENGINES {
        for sync in ["file", "directory"] {
            for levels in ["", "depth = 1\nspread = 2\n"] {
                let tmp = scratch();
                let dir = tmp.path().join("files");
                let options = format!("{engine}{levels}sync = \"{sync}\"\n");
                let kinds = [
                    OpKind::Create,
                    OpKind::Rename,
                    OpKind::OpenReadClose,
                    OpKind::Unlink,
                    OpKind::Mkdir,
                    OpKind::Rmdir,
                ];
                let target = open(&plan(&dir, &options, &kinds, 0)).unwrap();
                kinds.iter().for_each(|kind| ok(&each(target.as_ref(), *kind, 0..3)));
                target.close().unwrap();
                assert!(!dir.exists());
            }
        }
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

/// More files than inodes are refused before anything is made; where the file system fills up in the run, creates fail
/// with a status, and the end deletes all files.
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
