//! Whose descriptors the workers of a run use, as other programs see it: those of a thread are in its
//! `/proc/PID/task/TID/fd`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::common::{
    ended, has_library, manifest, run_line, scratch, signal, start_as, start_measuring,
};

/// What is open, by number.
type Table = BTreeMap<u32, PathBuf>;

fn table(home: &Path) -> Table {
    let all = std::fs::read_dir(home.join("fd")).into_iter().flatten().flatten();
    let each = all.filter_map(|fd| {
        Some((fd.file_name().to_str()?.parse().ok()?, std::fs::read_link(fd.path()).ok()?))
    });
    each.collect()
}

/// The table of each worker of a run.
fn of_workers(run: &Child) -> Vec<Table> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", run.id())).into_iter().flatten();
    let workers = tasks.flatten().map(|task| task.path()).filter(|task| {
        let name = std::fs::read_to_string(task.join("comm")).unwrap_or_default();
        name.starts_with("worker-")
    });
    workers.map(|task| table(&task)).collect()
}

/// Whether something is open that no session has: the lock that says whose the capture is.
fn has_all(table: &Table) -> bool {
    table.values().any(|file| file.starts_with("/dev/shm") && file.ends_with("owner.json"))
}

fn said(dir: &Path, run: &str) -> String {
    let fact = &manifest(dir, run)["environment"]["driver"]["worker.descriptors"];
    fact.as_str().unwrap_or_default().to_owned()
}

/// Looks at each worker of a run, interrupts the run and repeats it at once; what both say of their descriptors.
fn twice(line: &str, workers: usize, look: impl Fn(&Table, &Table)) -> [String; 2] {
    let home = scratch();
    let dir = home.path();
    // A short interval: that it measures is seen by the first one.
    let line = format!(
        "{line} --set workload.0.workers={workers} --set target.options.keep=true \
         --set run.interval=100ms"
    );
    let run = start_measuring(dir, &format!("{line} --runtime 20s --output out"));
    let (all, each) = (table(Path::new(&format!("/proc/{}", run.id()))), of_workers(&run));
    assert_eq!(each.len(), workers, "{line}");
    assert!(has_all(&all), "{line}: {all:?}");
    each.iter().for_each(|own| look(own, &all));
    signal(&run, "INT");
    ended(&run.wait_with_output().expect("it ends"), 130);
    run_line(dir, &format!("{line} --runtime 100ms --output again"), 0);
    ["out", "again"].map(|run| said(dir, run))
}

const FILE: &str = "run --path data --size 1MiB --rw randread --direct=false";

#[test]
fn workers_on_files_have_descriptors_of_their_own() {
    let names = "run --driver metadata --path files --bs 100B --set workload.0.keys.count=100 \
                 --set workload.0.mix={stat=50,open_read_close=50}";
    let named =
        |table: &Table, end: &str| table.values().filter(|file| file.ends_with(end)).count();
    for (line, workers, file) in [
        (format!("{FILE} --set target.options.engine=sync"), 3, "data"),
        (format!("{FILE} --set target.options.engine=uring --depth 4"), 2, "data"),
        (format!("{FILE} --set target.options.engine=mmap"), 1, "data"),
        (format!("{names} --set target.options.engine=sync"), 2, "files"),
        (format!("{names} --set target.options.engine=io_uring --depth 4"), 1, "files"),
    ] {
        let facts = twice(&line, workers, |own, all| {
            assert!(!has_all(own) && named(own, file) > 0, "{line}: {own:?}");
            let same = |(number, file): (&u32, &PathBuf)| {
                all.get(number) == Some(file) || file.to_string_lossy().starts_with("anon_inode:")
            };
            // Of the run's own they have nothing but rings, and files that an operation has open.
            let momentary = own.iter().filter(|of| !same(*of)).count();
            assert!(momentary <= 4, "{line}: {own:?} {all:?}");
        });
        assert_eq!(facts, ["own", "own"], "{line}");
    }
}

#[test]
fn a_worker_that_has_a_sqlite_database_alone_has_descriptors_of_its_own() {
    if !has_library("sqlite") {
        return;
    }
    let line = "run --driver sqlite --path db --bs 100B --set workload.0.keys={count=500} \
                --set workload.0.mix={get=50,update=50} --set target.options.synchronous=off";
    let database = |table: &Table| {
        table.values().filter(|file| file.to_string_lossy().contains("taillight.db")).count()
    };
    let alone = twice(line, 1, |own, all| {
        assert!(!has_all(own) && database(own) > 0, "{own:?}");
        assert_eq!(database(all), 0, "{all:?}");
    });
    assert_eq!(alone, ["own", "own"]);
    let several = twice(line, 2, |own, all| {
        assert!(has_all(own) && database(own) > 0 && database(all) > 0, "{own:?} {all:?}");
    });
    assert_eq!(several, ["", ""]);
}

#[test]
fn workers_share_descriptors_where_somebody_else_uses_theirs() {
    // The trace programs need no descriptor of a worker; backend `perf` hands on what it opens there.
    let facts = twice(&format!("{FILE} --set trace.mode=outliers"), 2, |_, _| ());
    if facts == ["own", "own"] {
        let traced = format!("{FILE} --set trace.mode=outliers --set trace.backend=perf");
        let shared = "shared by 2 of 2 workers: the run is traced";
        let facts = twice(&traced, 2, |own, _| assert!(has_all(own), "{own:?}"));
        assert_eq!(facts, [shared, shared]);
    } else {
        eprintln!("skipped: workers_share_descriptors of a traced run: it cannot be traced here");
    }
    let dir = scratch();
    let line = "run --driver null --runtime 20s --set run.interval=100ms --output out";
    let run = start_measuring(dir.path(), line);
    assert!(of_workers(&run).iter().all(has_all));
    signal(&run, "INT");
    ended(&run.wait_with_output().expect("it ends"), 130);
    assert_eq!(said(dir.path(), "out"), "");
}

/// Starts a program that may not call close_range(2), as in a container: 436 on every architecture.
const FORBID: &str = "
import ctypes, os, struct, sys
step = [(0x20, 0, 0, 0), (0x15, 0, 1, 436), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)]
class Program(ctypes.Structure):
    _fields_ = [('len', ctypes.c_ushort), ('filter', ctypes.c_char_p)]
program = Program(4, b''.join(struct.pack('HBBI', *s) for s in step))
c = ctypes.CDLL(None)
assert c.prctl(38, 1, 0, 0, 0) == 0 and c.prctl(22, 2, ctypes.byref(program)) == 0
os.execv(sys.argv[1], sys.argv[1:])";

#[test]
fn a_run_that_may_not_part_descriptors_shares_them_and_says_so() {
    if std::process::Command::new("python3").arg("--version").output().is_err() {
        eprintln!("skipped: a_run_that_may_not_part_descriptors: no python3");
        return;
    }
    let dir = scratch();
    let line = format!("{FILE} --ops 100 --set workload.0.workers=2 --output out");
    let run = start_as(dir.path(), &["python3", "-c", FORBID], &line);
    ended(&run.wait_with_output().expect("it ends"), 0);
    let why = "shared by 2 of 2 workers: Operation not permitted (os error 1)";
    assert_eq!(said(dir.path(), "out"), why);
}
