//! Tests of the guard of database directories, with files of a few bytes for a store's: changes by others after the
//! look, a database that gives way, what a killed run set aside, files of others among the run's, the lock.

use std::cell::RefCell;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use taillight_core::ErrorKind;
use taillight_core::plan::Plan;

use super::*;

/// A temporary directory with `db`, the place of the run's database, and `theirs`, a database of somebody else's.
struct Place {
    dir: tempfile::TempDir,
    plan: Plan,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("db");
        let target = crate::conformance::target("leveldb", path.to_str().unwrap(), "");
        let plan = crate::conformance::keyed_plan(target, 10, 1, false);
        let place = Place { dir, plan };
        database(&place.at("theirs"));
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Makes `db` a database whose mark, of a run that did not keep it, proves its files.
    fn left(&self) {
        database(&self.at("db"));
        let dir = OwnedDirectory::open(&self.at("db"), &StopFlag::default()).unwrap();
        let identity = DirectoryIdentity {
            driver: "leveldb".to_owned(),
            node: MarkedNode::of(&dir.identity().unwrap(), dir.filesystem()),
            files: Some(fingerprint(&[self.at("db")], FileSystemNaming::Itself).unwrap()),
        };
        let mark = DatabaseMark::new(identity, "r1", false, rules::form(&self.plan));
        dir.create(&mark.bytes().unwrap()).unwrap();
    }

    fn take(&self, destroy: Option<&str>, meanwhile: &dyn Fn()) -> Result<DatabaseDirectory> {
        let mut plan = self.plan.clone();
        plan.target.destroy = destroy.is_some();
        let stop = &StopFlag::default();
        let spec = &OpenSpec { plan: &plan, run_id: "r2", destroy, stop, fits: &|_| Ok(()) };
        let request = DirectoryRequest {
            spec,
            driver: "leveldb",
            keep: false,
            read_only: false,
            compresses: false,
            log: None,
            beside: &|_| Ok(Vec::new()),
        };
        let try_out = |_: &Path| {
            meanwhile();
            Ok(())
        };
        DatabaseDirectory::take(&request, &try_out)
    }

    fn theirs_are_there(&self) -> bool {
        let is_theirs =
            |name| fs::read(self.at(name).join("000005.ldb")).is_ok_and(|b| b == b"data");
        let marked = |name| self.at(name).join(SIDECAR).exists();
        ["db", "theirs"].iter().any(|name| is_theirs(name) && !marked(name))
    }
}

fn database(at: &Path) {
    fs::create_dir(at).unwrap();
    for name in ["CURRENT", "MANIFEST-000004", "000005.ldb"] {
        fs::write(at.join(name), "data").unwrap();
    }
}

fn exchange(a: &Path, b: &Path) {
    let _ = renameat_with(CWD, a, CWD, b, RenameFlags::EXCHANGE);
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    let mut all: Vec<_> = entries.map(|e| e.file_name().into_string().unwrap()).collect();
    all.sort();
    all
}

#[test]
fn what_changes_after_the_look_is_not_wiped() {
    let changes: [fn(&Place); 4] = [
        |place| exchange(&place.at("db"), &place.at("theirs")),
        |place| fs::write(place.at("db/000006.ldb"), "theirs").unwrap(),
        |place| fs::write(place.at("db/000005.ldb"), "newer").unwrap(),
        |place| fs::rename(place.at("theirs/CURRENT"), place.at("db/CURRENT")).unwrap(),
    ];
    for change in changes {
        for confirmed in [false, true] {
            let place = Place::new();
            place.left();
            let path = place.at("db");
            let destroy = Some(path.to_str().unwrap()).filter(|_| confirmed);
            let changed = RefCell::new(Vec::new());
            let taken = place.take(destroy, &|| {
                change(&place);
                changed.replace(names(&path));
            });
            assert_eq!(taken.err().unwrap().kind(), ErrorKind::Refused);
            assert_eq!(names(&path), *changed.borrow());
        }
    }
}

#[test]
fn what_gives_way_comes_back_until_the_new_one_is_settled() {
    for (left, fails) in [(true, true), (true, false), (false, true), (false, false)] {
        let place = Place::new();
        let path = place.at("db");
        match left {
            true => place.left(),
            false => database(&path),
        }
        let before = names(&path);
        let destroy = path.to_str();
        let mut directory = place.take(destroy, &|| ()).unwrap();
        assert_eq!(names(&path).len(), 2, "the mark, and what is set aside");
        fs::write(path.join("CURRENT"), "new").unwrap();
        if fails {
            directory.abandon(&|_| Ok(Vec::new())).unwrap();
            assert_eq!(names(&path), before);
            assert_eq!(fs::read(path.join("CURRENT")).unwrap(), b"data");
            // A mark that proved the database proves it again; without one it needs `destroy`.
            let taken = place.take(None, &|| ());
            assert_eq!(taken.is_ok(), left);
        } else {
            directory.settled().unwrap();
            assert_eq!(names(&path), [SIDECAR, "CURRENT"]);
        }
    }
}

#[test]
fn what_a_killed_run_set_aside_is_not_lost() {
    let place = Place::new();
    place.left();
    let path = place.at("db");
    std::mem::forget(place.take(path.to_str(), &|| ()).unwrap());
    for destroy in [None, path.to_str()] {
        let e = place.take(destroy, &|| ()).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.to_string().contains(".taillight-aside-r2"), "{e}");
    }
}

#[test]
fn files_older_than_the_run_stay_where_times_of_birth_are_kept() {
    let place = Place::new();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let mut directory = place.take(None, &|| ()).unwrap();
    let db = place.at("db");
    let births = FileIdentity::at(CWD, db.as_path()).unwrap().birth_ns.is_some();
    for name in ["CURRENT", "000006.log"] {
        fs::write(db.join(name), "new").unwrap();
    }
    // Made before the run's database.
    fs::rename(place.at("theirs/000005.ldb"), db.join("000005.ldb")).unwrap();
    let left = directory.check_foreign();
    assert_eq!(left.is_err(), births);
    let e = directory.leave(&|_| Ok(Vec::new()), true);
    assert_eq!(e.is_err(), births);
    assert_eq!(db.join("000005.ldb").exists(), births);
    assert!(!db.join("CURRENT").exists() && !db.join("000006.log").exists());
}

#[test]
fn two_hundred_races_lose_no_database() {
    let (mut refused, mut taken) = (0, 0);
    for round in 0..200 {
        let place = Place::new();
        place.left();
        let (begun, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    exchange(&place.at("db"), &place.at("theirs"));
                    begun.store(true, Ordering::Relaxed);
                    std::thread::sleep(std::time::Duration::from_micros(round * 13 % 200));
                }
            });
            while !begun.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            match place.take(None, &|| ()) {
                Ok(directory) => {
                    taken += 1;
                    std::mem::forget(directory);
                }
                Err(_) => refused += 1,
            }
            ended.store(true, Ordering::Relaxed);
        });
        assert!(place.theirs_are_there(), "round {round}");
    }
    eprintln!("refused {refused}, taken {taken}");
    assert_eq!(refused + taken, 200);
}

#[test]
fn what_others_put_into_a_new_directory_stays() {
    for ours in [false, true] {
        let place = Place::new();
        // Times of birth are only as fine as a tick of the timer.
        std::thread::sleep(std::time::Duration::from_millis(20));
        let mut directory = place.take(None, &|| ()).unwrap();
        let births = FileIdentity::at(CWD, place.at("db").as_path()).unwrap().birth_ns.is_some();
        for name in ["CURRENT", "000005.ldb"] {
            match ours {
                true => fs::write(place.at("db").join(name), "empty").unwrap(),
                false => {
                    fs::rename(place.at("theirs").join(name), place.at("db").join(name)).unwrap()
                }
            }
        }
        directory.abandon(&|_| Ok(Vec::new())).unwrap();
        assert_eq!(place.at("db/CURRENT").exists(), !ours || !births);
        assert!(!place.at("db").join(SIDECAR).exists());
    }
}

#[test]
fn a_lock_of_this_process_is_seen_and_stays() {
    let place = Place::new();
    place.left();
    let dir = OwnedDirectory::open(&place.at("db"), &StopFlag::default()).unwrap();
    unused(&dir).unwrap();
    let lock = fs::File::create(place.at("db/LOCK")).unwrap();
    unused(&dir).unwrap();
    let exclusive = rustix::fs::FlockOperation::NonBlockingLockExclusive;
    rustix::fs::fcntl_lock(&lock, exclusive).unwrap();
    for _ in 0..2 {
        assert_eq!(unused(&dir).unwrap_err().kind(), ErrorKind::Unavailable);
    }
    fs::remove_file(place.at("db/LOCK")).unwrap();
    std::os::unix::fs::symlink("CURRENT", place.at("db/LOCK")).unwrap();
    assert!(unused(&dir).unwrap_err().message().contains("cannot tell"));
}
