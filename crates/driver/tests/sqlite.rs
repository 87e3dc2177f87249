//! Driver `sqlite`: what a killed process leaves, what other programs write, waits for locks, workers with
//! descriptors of their own, checkpoints.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::support;
use taillight_core::plan::Plan;
use taillight_core::{Error, ErrorKind, Op, OpKind, Result, Status, SyncKind};
use taillight_driver::conformance::{self, keyed_plan, one, target};
use taillight_driver::{AdminAction, OwnDescriptors, Session, Target};

/// The environment variable that tells this program, started again, where and how to write until it is killed.
const CHILD: &str = "TAILLIGHT_TEST_SQLITE_CHILD";

fn plan(dir: &Path, options: &str) -> Plan {
    let path = dir.join("db");
    let mut plan = keyed_plan(target("sqlite", path.to_str().unwrap(), options), 400, 1, false);
    plan.workloads[0].mix.retain(|part| part.op != OpKind::Delete);
    plan
}

/// Opens the target; none, with a reason printed, where there is no library.
fn open(plan: &Plan) -> Option<Result<Box<dyn Target>>> {
    match conformance::open(plan, None, "test") {
        Err(e) if e.message().contains("library") => {
            eprintln!("skipped: {e}");
            None
        }
        opened => Some(opened),
    }
}

fn session(target: &dyn Target) -> Box<dyn Session> {
    conformance::session(target, 400, 1)
}

/// A Python that does `code` with a connection `c` to the database.
fn python(dir: &Path, code: &str) -> Command {
    let path = dir.join("db/taillight.db");
    let connects = format!("import sqlite3\nc = sqlite3.connect({:?})", path.to_str().unwrap());
    let mut python = Command::new("python3");
    python.args(["-c", &format!("{connects}\n{code}")]);
    python
}

/// The first value of a query by Python's sqlite3; none where that cannot be had or fails.
fn by_python(dir: &Path, sql: &str) -> Option<String> {
    let out = python(dir, &format!("print(c.execute({sql:?}).fetchone()[0])")).output().ok()?;
    let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// No test of its own: the process that is killed by the one below.
#[test]
fn child_that_writes_until_it_is_killed() {
    let Ok(dir) = std::env::var(CHILD) else { return };
    let (dir, options) = dir.split_once('|').unwrap();
    let target = open(&plan(dir.as_ref(), options)).unwrap().unwrap();
    let mut s = session(target.as_ref());
    for key in 0.. {
        s.buffer(0)[..100].fill(key as u8);
        assert!(one(s.as_mut(), &Op::keyed(OpKind::Insert, key, 100)).status.is_ok());
        let mut out = std::io::stdout().lock();
        writeln!(out, "acknowledged {key}").unwrap();
        out.flush().unwrap();
    }
}

/// Only of a killed process: after a crash of the machine the system would not have kept the pages that were written.
#[test]
fn a_killed_process_leaves_a_whole_database_with_all_that_it_acknowledged() {
    for options in ["synchronous = \"full\"", "journal = \"delete\"", "synchronous = \"off\""] {
        let dir = support::scratch();
        if open(&plan(dir.path(), options)).is_none() {
            return;
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["child_that_writes_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env(CHILD, format!("{}|{options}", dir.path().display()))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut acknowledged = 0;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        for line in lines.map_while(std::io::Result::ok) {
            if line.contains("acknowledged") {
                acknowledged += 1;
            }
            if acknowledged == 200 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(acknowledged >= 200, "{acknowledged}");
        let Some(whole) = by_python(dir.path(), "PRAGMA integrity_check") else {
            eprintln!("skipped: what a killed process leaves: no python3 with sqlite3");
            return;
        };
        assert_eq!(whole, "ok", "{options}");
        let found: u64 =
            by_python(dir.path(), "SELECT count(*) FROM records").unwrap().parse().unwrap();
        assert!(found >= acknowledged, "{options}: {found} of {acknowledged}");
        // Without a seal nothing proves that all of it is Taillight's.
        let e: Error = open(&plan(dir.path(), options)).unwrap().err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    }
}

/// Does `sql` in another program (Python) to the database of a run that goes on; false where that fails.
fn others(dir: &Path, sql: &str) -> bool {
    let code = format!("c.execute({sql:?})\nc.commit()");
    python(dir, &code).status().is_ok_and(|status| status.success())
}

#[test]
fn what_somebody_else_writes_in_the_run_is_left() {
    for (change, says) in [
        ("INSERT INTO records VALUES (x'746865736973', x'00')", "thesis"),
        ("INSERT INTO records VALUES ('thesis', 'mine')", "thesis"),
        ("UPDATE records SET value = 'mine' WHERE rowid = 1", "records of others"),
        ("CREATE TABLE thesis (words)", "thesis"),
        ("CREATE INDEX thesis ON records (value)", "thesis"),
    ] {
        for journal in ["", "journal = \"delete\""] {
            let dir = support::scratch();
            let Some(opened) = open(&plan(dir.path(), journal)) else { return };
            let target = opened.unwrap();
            let mut s = session(target.as_ref());
            for key in 0..10 {
                let op = Op::keyed([OpKind::Insert, OpKind::Put][key as usize % 2], key, 100);
                assert!(one(s.as_mut(), &op).status.is_ok());
            }
            drop(s);
            if !others(dir.path(), change) {
                eprintln!("skipped: what somebody else writes: no python3 with sqlite3");
                return;
            }
            let e = target.admin(AdminAction::Purge).unwrap_err();
            assert!(e.kind() == ErrorKind::Target && e.to_string().contains(says), "{change}: {e}");
            let e = target.close().unwrap_err();
            assert!(e.kind() == ErrorKind::Target && e.to_string().contains(says), "{change}: {e}");
            let rows = by_python(dir.path(), "SELECT count(*) FROM records").unwrap();
            assert!(rows.parse::<u64>().unwrap() >= 10, "{change}: {rows}");
            let e = open(&plan(dir.path(), journal)).unwrap().err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        }
    }
}

/// A purge needs the lock, which another program may hold, to look for rows of others; a refused purge gives it back.
#[test]
fn a_purge_that_is_refused_leaves_the_database_to_others() {
    let dir = support::scratch();
    let Some(opened) = open(&plan(dir.path(), "busy_timeout = \"50ms\"")) else { return };
    let target = opened.unwrap();
    let insert = Op::keyed(OpKind::Insert, 1, 100);
    assert!(one(session(target.as_ref()).as_mut(), &insert).status.is_ok());
    let Some(mut holder) = holding(dir.path()) else { return };
    let e = target.admin(AdminAction::Purge).unwrap_err();
    assert!(e.to_string().contains("database is locked"), "{e}");
    drop(holder.stdin.take());
    holder.wait().unwrap();
    if !others(dir.path(), "INSERT INTO records VALUES ('thesis', 'mine')") {
        return;
    }
    let e = target.admin(AdminAction::Purge).unwrap_err();
    assert!(e.to_string().contains("thesis"), "{e}");
    assert!(others(dir.path(), "DELETE FROM records WHERE key = 'thesis'"), "it is locked still");
    target.admin(AdminAction::Purge).unwrap();
    assert_eq!(by_python(dir.path(), "SELECT count(*) FROM records"), Some("0".to_owned()));
    target.close().unwrap();
}

/// A program that holds the lock for writing until its standard input is closed; none where there is no Python.
fn holding(dir: &Path) -> Option<Child> {
    let code = "import sys\nc.isolation_level = None\nc.execute('BEGIN IMMEDIATE')\n\
                print('held', flush=True)\nsys.stdin.read()";
    let python = python(dir, code).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut python = python.inspect_err(|_| eprintln!("skipped: no python3")).ok()?;
    let mut line = String::new();
    BufReader::new(python.stdout.take()?).read_line(&mut line).ok()?;
    Some(python)
}

/// The times inside the last operation, as kind and length.
fn inner(session: &mut dyn Session) -> Vec<(OpKind, i64)> {
    let mut all = Vec::new();
    session.inner(&mut |kind, from, to| all.push((kind, to.since(from))));
    all
}

fn sampled(target: &dyn Target, wanted: &str) -> f64 {
    let mut found = None;
    target.sample(&mut |name, value| {
        if name == wanted {
            found = Some(value);
        }
    });
    found.unwrap_or_else(|| panic!("no {wanted}"))
}

#[test]
fn writers_wait_for_each_other_and_that_is_counted() {
    let dir = support::scratch();
    let options = "synchronous = \"off\"\njournal = \"delete\"";
    let target = or_skip!(open(&plan(dir.path(), options))).unwrap();
    std::thread::scope(|scope| {
        for worker in 0..4 {
            let target = target.as_ref();
            scope.spawn(move || {
                let mut s = session(target);
                for n in 0..200 {
                    let insert = Op::keyed(OpKind::Insert, worker * 1000 + n, 100);
                    assert!(one(s.as_mut(), &insert).status.is_ok());
                }
            });
        }
    });
    assert!(sampled(target.as_ref(), "busy_total") > 0.0);
    assert!(sampled(target.as_ref(), "lock_wait_ns_total") > 0.0);
    assert_eq!(sampled(target.as_ref(), "busy_given_up_total"), 0.0);
    if let Some(rows) = by_python(dir.path(), "SELECT count(*) FROM records") {
        assert_eq!(rows, "800");
    }
    target.close().unwrap();
}

/// How many descriptors of the database's files a table of descriptors has.
fn open_in(table: &str, dir: &Path) -> usize {
    let all = std::fs::read_dir(format!("/proc/{table}/fd")).unwrap().flatten();
    let links = all.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let database = dir.canonicalize().unwrap().join("db/taillight.db");
    let database = database.to_str().unwrap();
    links.filter(|link| link.to_string_lossy().starts_with(database)).count()
}

/// Writes as a worker of the engine does that has a table of descriptors of its own, and asserts that the database is
/// open in that alone; false where such a table cannot be had.
fn alone(target: &dyn Target, dir: &Path, keys: std::ops::Range<u64>) -> bool {
    let Ok(own) = OwnDescriptors::keep(&[]) else { return false };
    let mut s = session(target);
    for key in keys {
        assert!(one(s.as_mut(), &Op::keyed(OpKind::Insert, key, 100)).status.is_ok());
    }
    assert!(open_in("thread-self", dir) > 0);
    assert_eq!(open_in("self", dir), 0);
    let e = target.admin(AdminAction::Compact).unwrap_err();
    assert!(e.to_string().contains("alone"), "{e}");
    drop(s);
    assert_eq!(open_in("thread-self", dir), 0);
    drop(own);
    true
}

/// SQLite keeps descriptors that it cannot close yet for a later close, and one state of locks for the whole process:
/// neither may mix up the two tables of descriptors.
#[test]
fn a_worker_with_descriptors_of_its_own_has_the_database_alone() {
    for journal in ["wal", "delete", "truncate", "persist", "memory"] {
        let home = support::scratch();
        let dir = home.path();
        let options =
            format!("synchronous = \"off\"\njournal = \"{journal}\"\nautocheckpoint = 20");
        let target = or_skip!(open(&plan(dir, &options))).unwrap();
        let path = |n: usize| dir.join(format!("other-{n}"));
        let others: Vec<File> = (0..30).map(|n| File::create(path(n)).unwrap()).collect();
        for load in 0..3 {
            assert!(target.descriptors(2).is_none(), "several share");
            assert_eq!(target.descriptors(1).map(|kept| kept.len()), Some(0));
            let keys = load * 300..(load + 1) * 300;
            let target = target.as_ref();
            if !std::thread::scope(|s| s.spawn(|| alone(target, dir, keys)).join().unwrap()) {
                eprintln!("skipped: a_worker_with_descriptors_of_its_own: no close_range(2)");
                return;
            }
            for (n, file) in others.iter().enumerate() {
                let inode = |of: std::io::Result<std::fs::Metadata>| of.unwrap().ino();
                assert_eq!(inode(file.metadata()), inode(std::fs::metadata(path(n))), "{journal}");
            }
            // The main connection is opened again, and other programs find all records.
            target.admin(AdminAction::Flush).unwrap();
            if let Some(whole) = by_python(dir, "PRAGMA integrity_check") {
                assert_eq!(whole, "ok", "{journal}");
                let rows = by_python(dir, "SELECT count(*) FROM records").unwrap();
                assert_eq!(rows, ((load + 1) * 300).to_string(), "{journal}");
            }
        }
        target.close().unwrap();
        assert!(!dir.join("db").exists(), "{journal}");
    }
}

#[test]
fn a_lock_that_is_not_given_up_ends_the_wait() {
    let dir = support::scratch();
    let target = or_skip!(open(&plan(dir.path(), "busy_timeout = \"50ms\""))).unwrap();
    let Some(mut python) = holding(dir.path()) else { return };
    let mut s = session(target.as_ref());
    let insert = Op::keyed(OpKind::Insert, 1, 100);
    let refused = one(s.as_mut(), &insert);
    assert_eq!((refused.status, refused.inner), (Status(libc::EBUSY), true));
    let waits = inner(s.as_mut());
    let waited: i64 = waits.iter().map(|(_, ns)| ns).sum();
    assert!(waits.iter().all(|(kind, _)| *kind == OpKind::LockWait), "{waits:?}");
    let lock_wait_ns = sampled(target.as_ref(), "lock_wait_ns_total");
    assert!(waited as f64 >= lock_wait_ns && lock_wait_ns > 4e7, "{waits:?}, {lock_wait_ns}");
    assert!(inner(s.as_mut()).is_empty(), "they were told");
    assert_eq!(sampled(target.as_ref(), "busy_given_up_total"), 1.0);
    drop(python.stdin.take());
    python.wait().unwrap();
    assert!(one(s.as_mut(), &insert).status.is_ok());
}

#[test]
fn pages_of_the_log_are_checked_in_by_commits_and_by_a_flush() {
    let dir = support::scratch();
    let options = "synchronous = \"off\"\nautocheckpoint = 10";
    let target = or_skip!(open(&plan(dir.path(), options))).unwrap();
    let mut s = session(target.as_ref());
    let (auto, mut told) = (OpKind::AutoCheckpoint, 0);
    for n in 0..200 {
        // Some writes are durable, some are not.
        let sync = (n % 10 == 0).then_some(SyncKind::Fdatasync);
        let insert = Op { sync, ..Op::keyed(OpKind::Insert, n, 400) };
        let c = one(s.as_mut(), &insert);
        let times = inner(s.as_mut());
        assert!(c.status.is_ok() && c.inner != times.is_empty(), "{c:?} {times:?}");
        told += times.iter().filter(|(kind, _)| *kind == auto).count();
    }
    let checked = sampled(target.as_ref(), "checkpoints_total");
    assert_eq!(
        (told as f64, sampled(target.as_ref(), "auto_checkpoints_total")),
        (checked, checked)
    );
    assert!(checked >= 10.0, "{checked}");
    assert!(sampled(target.as_ref(), "log_bytes") > 0.0);
    target.admin(AdminAction::Flush).unwrap();
    assert_eq!(sampled(target.as_ref(), "checkpoints_total"), checked + 1.0);
    drop(s);
    target.close().unwrap();
    let page = "page_size = \"1000B\"";
    assert_eq!(open(&plan(dir.path(), page)).unwrap().err().unwrap().kind(), ErrorKind::Usage);
}

/// Only `truncate` cuts the log to nothing, and only `passive` does not wait for a writer.
#[test]
fn a_checkpoint_is_an_operation_of_its_own() {
    for mode in ["passive", "full", "restart", "truncate"] {
        let dir = support::scratch();
        let options = format!(
            "synchronous = \"off\"\nautocheckpoint = 0\ncheckpoint = \"{mode}\"\nbusy_timeout = \"50ms\""
        );
        let target = or_skip!(open(&plan(dir.path(), &options))).unwrap();
        assert_eq!(target.inner_kinds(), [OpKind::AutoCheckpoint, OpKind::LockWait]);
        let notes = target.notes();
        assert!(
            notes.len() == 1 && notes[0].contains("a crash of the machine may lose"),
            "{notes:?}"
        );
        let mut s = session(target.as_ref());
        for n in 0..50 {
            assert!(one(s.as_mut(), &Op::keyed(OpKind::Insert, n, 400)).status.is_ok());
        }
        assert!(inner(s.as_mut()).is_empty(), "nothing is checked in unasked");
        let checkpoint = Op::keyed(OpKind::Checkpoint, 0, 0);
        let log = sampled(target.as_ref(), "log_bytes");
        assert!(log > 0.0);
        let c = one(s.as_mut(), &checkpoint);
        assert!(c.status.is_ok() && c.moved == 0, "{c:?}");
        assert_eq!(sampled(target.as_ref(), "log_bytes") == 0.0, mode == "truncate", "{mode}");
        assert_eq!(sampled(target.as_ref(), "partial_checkpoints_total"), 0.0);
        assert!(one(s.as_mut(), &Op::keyed(OpKind::Insert, 60, 400)).status.is_ok());
        let Some(mut holder) = holding(dir.path()) else { return };
        let c = one(s.as_mut(), &checkpoint);
        let (waits, passive) = (inner(s.as_mut()), mode == "passive");
        assert_eq!(
            (c.status.is_ok(), waits.is_empty()),
            (passive, passive),
            "{mode}: {c:?} {waits:?}"
        );
        drop(holder.stdin.take());
        holder.wait().unwrap();
        assert!(one(s.as_mut(), &checkpoint).status.is_ok());
        assert_eq!(sampled(target.as_ref(), "checkpoints_total"), if passive { 3.0 } else { 2.0 });
        drop(s);
        target.close().unwrap();
    }
}
