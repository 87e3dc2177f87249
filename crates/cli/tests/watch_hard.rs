//! Programs that are hard to watch: they fork, end in the middle, restart, have thousands of threads, are traced or in
//! namespaces of their own; who may not watch, or is too slow for it; what costs too much; and a record that is replayed.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::traced::{NOBODY, SmallDisk, explain, not_root, open_place, threads};
use crate::common::{self, Ended, binary, ended, json, run_line, signal, skipped, start, text};
use crate::watch::{cannot, of_fio, op, watch_dir};
use crate::watch_waits::place_with;
use serde_json::Value;
use taillight_core::OpKind;
use taillight_lab::cleanup::Undo;
use taillight_lab::stage::LabCgroup;
use taillight_rundir::ios::{ColumnSet, Row, RowBatch, read_ios};

const FIO: &str = "fio --name=v --filename=data --size=16m --bs=4k --rw=randread --direct=1 \
                   --output=fio.json --output-format=json";

/// Watches a command line; what it said, and `watched.json`. Its exit code must be this one.
fn watched(dir: &Path, line: &[&str], code: i32) -> (String, Value) {
    let words = [&["watch", "--output", "out", "--slower", "1s", "--"][..], line].concat();
    let (_, err) = common::run(dir, &words, code);
    let told = json(&dir.join("out/watched.json"));
    std::fs::remove_dir_all(dir.join("out")).expect("removed");
    (err, told)
}

fn seen(told: &Value, name: &str) -> u64 {
    op(told, name)["seen"].as_u64().expect("a count")
}

fn there(program: &str) -> Option<String> {
    let tried = Command::new(program).arg("--version").output();
    tried.err().map(|e| format!("{program}: {e}"))
}

/// Starts fio and waits until it has laid its file out and reads. Its jobs are threads: processes of their own would outlive
/// it by ten minutes, as the neighbours of every later test.
fn fio_at_work(dir: &Path, words: &str) -> Ended {
    let line = format!("{FIO} --thread --time_based --runtime=600 --exec_prerun=true {words}");
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).current_dir(dir).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Ended(command.spawn().expect("it starts"));
    // What the command before the first read has said is in this file, which is there with the command.
    while !dir.join("v.prerun.txt").exists() {
        assert!(child.0.try_wait().expect("a child").is_none(), "fio has ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(300));
    child
}

/// Waits until a watch has its trace programs; loading them may take long on a busy machine.
pub fn watching(watch: &std::process::Child) {
    let began = (0..1200).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        !threads(watch.id(), "trace\n").is_empty()
    });
    assert!(began, "nobody watches");
    std::thread::sleep(Duration::from_secs(1));
}

#[test]
fn what_forks_execs_and_goes_into_namespaces_is_followed() {
    let name = "what_forks_execs_and_goes_into_namespaces_is_followed";
    let Some(dir) = watch_dir(name) else { return };
    std::fs::write(dir.path().join("data"), vec![7; 1 << 20]).expect("written");
    // 200 processes one after another and at once, each of them another program in the end.
    let script = "for i in $(seq 200); do dd if=data of=/dev/null bs=4k count=10 iflag=direct status=none & \
                  test $((i % 20)) = 0 && wait; done; wait; exec sh -c 'exit 3'";
    let (err, told) = watched(dir.path(), &["sh", "-c", script], 3);
    let reads = seen(&told, "read");
    assert!((2000..3000).contains(&reads), "{reads}\n{err}");
    assert_eq!((&told["no_room"], &told["exit_code"]), (&0.into(), &3.into()), "{told}");
    // As a container has them.
    let unshare = ["unshare", "--pid", "--mount", "--fork", "--mount-proc"];
    let line: Vec<&str> = unshare.into_iter().chain(FIO.split_whitespace()).collect();
    let (err, told) = watched(dir.path(), &line, 0);
    let (reads, issued) = (seen(&told, "read"), of_fio(dir.path(), "read"));
    assert!((issued..=issued + issued / 100 + 400).contains(&reads), "{reads} of {issued}\n{err}");
}

#[test]
fn a_program_that_a_debugger_traces_is_watched_as_any_other() {
    let name = "a_program_that_a_debugger_traces_is_watched_as_any_other";
    let Some(dir) = watch_dir(name) else { return };
    let gdb = ["gdb", "-batch", "-ex", "run", "--args"];
    for before in [&["strace", "-f", "-o", "strace.out"][..], &gdb] {
        if skipped(before[0], there(before[0])) {
            continue;
        }
        let fio = format!("{FIO} --thread --number_ios=1000");
        let line: Vec<&str> = before.iter().copied().chain(fio.split_whitespace()).collect();
        let (err, told) = watched(dir.path(), &line, 0);
        let (reads, issued) = (seen(&told, "read"), of_fio(dir.path(), "read"));
        // What the debugger reads itself is seen as well.
        let most = issued + if before[0] == "strace" { 1000 } else { 100_000 };
        assert!(
            (issued..most).contains(&reads) && issued >= 1000,
            "{}: {reads} of {issued}\n{err}",
            before[0]
        );
        assert_eq!(told["no_room"], 0, "{told}");
    }
}

#[test]
fn ten_thousand_threads_have_room() {
    let name = "ten_thousand_threads_have_room";
    let Some(dir) = place_with(name, "threads") else { return };
    std::fs::write(dir.path().join("data"), vec![7; 256 << 10]).expect("written");
    let mut tried = Command::new(dir.path().join("threads"));
    tried.args(["many", "10000", "data"]).current_dir(dir.path());
    let tried = tried.status().expect("it starts");
    if skipped(name, (tried.code() == Some(8)).then(|| "no more threads here".to_owned())) {
        return;
    }
    let (err, told) = watched(dir.path(), &["./threads", "many", "10000", "data"], 0);
    assert_eq!(told["no_room"], 0, "{err}");
    assert!((10_000..10_500).contains(&seen(&told, "read")), "{told}");
}

/// More of them than operations that can be under way at a time: none keeps its place.
#[test]
fn threads_that_end_in_the_middle_of_an_operation_leave_nothing_behind() {
    let name = "threads_that_end_in_the_middle_of_an_operation_leave_nothing_behind";
    let Some(dir) = place_with(name, "dies") else { return };
    std::fs::write(dir.path().join("data"), vec![7; 256 << 10]).expect("written");
    let (err, told) = watched(dir.path(), &["./dies", "5000", "data"], 3);
    assert_eq!((&told["no_room"], &told["exit_code"]), (&0.into(), &3.into()), "{err}");
    assert!(seen(&told, "read") > 5000, "{told}");
}

/// Whoever is stopped empties no ring.
#[test]
fn events_that_find_no_room_are_counted_and_said() {
    let name = "events_that_find_no_room_are_counted_and_said";
    let Some(dir) = watch_dir(name) else { return };
    let fio = fio_at_work(dir.path(), "--ioengine=libaio --iodepth=32");
    let line = format!("watch --pid {} --for 5s --slower 1us --output out", fio.0.id());
    let watch = start(dir.path(), &line);
    watching(&watch);
    signal(&watch, "STOP");
    std::thread::sleep(Duration::from_secs(5));
    signal(&watch, "CONT");
    let out = watch.wait_with_output().expect("it ends");
    drop(fio);
    let said = text(&out.stdout) + &ended(&out, 0).1;
    let lost = common::manifest(dir.path(), "out")["losses"]["trace_events"].as_u64();
    assert!(lost.is_some_and(|lost| lost > 0), "{lost:?}: {said}");
    let (_, explained) = explain(dir.path());
    assert!(explained.contains("lost: what was not seen counts as unknown"), "{explained}");
}

#[test]
fn who_is_killed_in_the_middle_or_stopped_is_told_as_that() {
    let name = "who_is_killed_in_the_middle_or_stopped_is_told_as_that";
    let Some(dir) = watch_dir(name) else { return };
    let fio = fio_at_work(dir.path(), "--ioengine=psync --thread --numjobs=2");
    let line = format!("watch --pid {} --slower 200ms --output out", fio.0.id());
    let watch = start(dir.path(), &line);
    watching(&watch);
    // A second one is refused, and the first one goes on.
    let (_, err) = run_line(dir.path(), &format!("watch --pid {} --output other", fio.0.id()), 4);
    assert!(err.contains("another `taillight watch`"), "{err}");
    // A single stop could find both threads between two reads.
    for _ in 0..3 {
        signal(&fio.0, "STOP");
        std::thread::sleep(Duration::from_millis(300));
        signal(&fio.0, "CONT");
        std::thread::sleep(Duration::from_millis(200));
    }
    drop(fio);
    let out = watch.wait_with_output().expect("it ends");
    let said = text(&out.stdout) + &ended(&out, 0).1;
    assert!(said.contains("the program has ended"), "{said}");
    let stopped =
        said.lines().filter(|line| line.contains(" pread64 ") && line.contains(" stopped"));
    let stopped = stopped.count();
    assert!(stopped >= 2, "{said}");
    assert!(json(&dir.path().join("out/watched.json"))["exit_code"].is_null());
}

/// Starts a program under a number that has become free; none where others take it each time.
fn started_as(pid: u32, program: &mut Command) -> Option<Ended> {
    (0..20).find_map(|_| {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
        let child = Ended(program.spawn().ok()?);
        (child.0.id() == pid).then_some(child)
    })
}

#[test]
fn who_gets_the_number_of_one_that_has_ended_is_not_watched() {
    let name = "who_gets_the_number_of_one_that_has_ended_is_not_watched";
    if skipped(name, not_root().or_else(cannot)) {
        return;
    }
    let dir = open_place();
    std::fs::write(dir.path().join("data"), vec![7; 1 << 20]).expect("written");
    let sleep = || Ended(Command::new("sleep").arg("600").spawn().expect("it starts"));
    let (first, other) = (sleep(), sleep());
    let pid = first.0.id();
    let line = format!("watch --pid {pid} --pid {} --slower 1s --output out", other.0.id());
    let watch = start(dir.path(), &line);
    watching(&watch);
    drop(first);
    let mut reads = Command::new("dd");
    reads.args(["if=data", "of=/dev/null", "bs=4k", "iflag=direct"]).current_dir(dir.path());
    let reused = started_as(pid, reads.stderr(Stdio::null()));
    let Some(mut reused) = reused else {
        drop(other);
        watch.wait_with_output().expect("it ends");
        skipped(name, Some("others take the number".to_owned()));
        return;
    };
    assert!(reused.0.wait().expect("it ends").success());
    drop(other);
    let out = watch.wait_with_output().expect("it ends");
    let said = text(&out.stdout) + &ended(&out, 0).1;
    let told = json(&dir.path().join("out/watched.json"));
    let ops = told["ops"].as_array().expect("a list");
    let seen: u64 = ops.iter().filter_map(|op| op["seen"].as_u64()).sum();
    assert!(seen < 10, "256 reads of another one: {said}");
}

#[test]
fn who_may_not_trace_is_told_what_is_missing() {
    let name = "who_may_not_trace_is_told_what_is_missing";
    if skipped(name, not_root().or_else(cannot)) {
        return;
    }
    let dir = open_place();
    let mut nobody = Command::new("setpriv");
    nobody.args(NOBODY).arg(binary()).args(["watch", "--output", "out", "--", "true"]);
    let (_, err) = ended(&nobody.current_dir(dir.path()).output().expect("it starts"), 4);
    assert!(err.contains("CAP_BPF") || err.contains("CAP_PERFMON"), "{err}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0, "nothing is left");
}

/// As on a kernel that does not describe its types.
#[test]
fn without_the_kernels_types_it_is_said_what_is_missing() {
    let name = "without_the_kernels_types_it_is_said_what_is_missing";
    if skipped(name, not_root().or_else(cannot)) {
        return;
    }
    let dir = open_place();
    let script = "mount -t tmpfs none /sys/kernel/btf && exec \"$@\"";
    let mut hidden = Command::new("unshare");
    hidden.args(["--mount", "sh", "-c", script, "sh"]).arg(binary());
    hidden.args(["watch", "--output", "out", "--", "true"]).current_dir(dir.path());
    let (_, err) = ended(&hidden.output().expect("it starts"), 4);
    assert!(err.contains("CONFIG_DEBUG_INFO_BTF"), "{err}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("listed").count(), 0, "nothing is left");
}

/// What was seen is said all the same, and the run directory says why it has no more.
#[test]
fn on_a_full_disk_the_counts_are_said() {
    let name = "on_a_full_disk_the_counts_are_said";
    let Some(dir) = watch_dir(name) else { return };
    let Some(disk) = SmallDisk::new(name, "200k") else { return };
    std::fs::write(format!("{}/ballast", disk.path), vec![1; 150 << 10]).expect("written");
    let out = format!("{}/out", disk.path);
    let fio = format!("{FIO} --ioengine=libaio --iodepth=8 --number_ios=3000");
    let watch = ["watch", "--slower", "1us", "--output", &out, "--"];
    let words: Vec<&str> = watch.into_iter().chain(fio.split_whitespace()).collect();
    let (_, err) = common::run(dir.path(), &words, 4);
    assert!(err.contains("No space left") && err.contains("free some space"), "{err}");
    assert!(err.contains("as it cannot be written") && err.contains("read 3,"), "{err}");
    let manifest = common::manifest(Path::new(&disk.path), "out");
    assert_eq!(manifest["status"], "failed", "{manifest}");
    assert!(manifest["reason"].as_str().is_some_and(|why| why.contains("No space")), "{manifest}");
}

/// Its counts of a program of another user's the kernel tells not everybody who may trace.
#[test]
fn without_the_kernels_counts_no_kind_is_taken_for_whole() {
    let name = "without_the_kernels_counts_no_kind_is_taken_for_whole";
    if skipped(name, not_root().or_else(cannot)) {
        return;
    }
    let dir = open_place();
    let fio = fio_at_work(dir.path(), "--ioengine=psync --thread");
    let mut nobody = Command::new("setpriv");
    let rights = ["--inh-caps=+bpf,+perfmon,+syslog", "--ambient-caps=+bpf,+perfmon,+syslog"];
    nobody.args(NOBODY).args(rights).arg(binary()).current_dir(dir.path());
    let pid = fio.0.id().to_string();
    nobody.args(["watch", "--pid", &pid, "--for", "2s", "--slower", "1s", "--output", "out"]);
    let (_, err) = ended(&nobody.output().expect("it starts"), 0);
    let told = json(&dir.path().join("out/watched.json"));
    let read = op(&told, "read");
    assert!(read["seen"].as_u64().is_some_and(|n| n > 10), "{read}");
    assert_eq!((&read["whole"], &read["kernel"]), (&false.into(), &Value::Null), "{err}");
    let said = common::unwrapped(&err);
    assert!(
        said.contains("CAP_SYS_PTRACE") && said.contains("--exact 5% counts every call"),
        "{err}"
    );
}

/// Each is written, synced and closed by a program that ends at once.
#[test]
fn files_of_programs_that_have_ended_have_their_names() {
    let Some(dir) = watch_dir("files_of_programs_that_have_ended_have_their_names") else { return };
    let write = "dd if=/dev/zero bs=4k count=1 conv=fsync status=none of";
    let script = format!(
        "mkdir sub; for i in $(seq 20); do {write}=sub/f$i; done; {write}=removed; rm removed; \
         {write}=sub/before; mv sub/before sub/after; {write}=sub/old; mv sub/old sub/new; {write}=sub/new"
    );
    let watch = ["watch", "--record", "--names", "--output", "out", "--", "sh", "-c", &script];
    let (_, err) = common::run(dir.path(), &watch, 0);
    let told = json(&dir.path().join("out/watched.json"));
    let files: Vec<&str> =
        told["files"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    let has = |name: &str| {
        let path = dir.path().canonicalize().expect("known").join(name);
        files.iter().any(|file| Path::new(file) == path)
    };
    for i in 1..=20 {
        assert!(has(&format!("sub/f{i}")), "{i}: {files:?}\n{err}");
    }
    assert!(has("removed (gone)") || has("removed"), "{files:?}");
    // It had this name when it was synced.
    assert!(has("sub/before (gone)") || has("sub/before"), "{files:?}");
    assert!(has("sub/new"), "the same file under its new name: {files:?}");
    // The path of a call is told as it was given: who opens a pipe waits for the other end.
    let script = "mkfifo sub/pipe; (sleep 1; : > sub/pipe) & read line < sub/pipe; wait";
    let watch = ["watch", "--slower", "100ms", "--output", "opened", "--", "sh", "-c", script];
    let (_, err) = common::run(dir.path(), &watch, 0);
    let opened =
        |line: &&str| [" openat ", " the program", " sub/pipe"].iter().all(|it| line.contains(it));
    assert_eq!(err.lines().filter(opened).count(), 1, "{err}");
}

/// The same call from the same place with the same words, and the path is another one.
#[test]
fn opens_of_one_path_after_another_are_told_apart() {
    let name = "opens_of_one_path_after_another_are_told_apart";
    let Some(dir) = place_with(name, "opens") else { return };
    let script = "mkfifo pipe-one pipe-two; \
                  (sleep 1; : > pipe-one; sleep 1; : > pipe-two) & ./opens pipe-one pipe-two; wait";
    let watch = ["watch", "--slower", "300ms", "--output", "out", "--", "sh", "-c", script];
    let (_, err) = common::run(dir.path(), &watch, 0);
    for path in [" pipe-one", " pipe-two"] {
        let opened = |line: &&str| [" opens[", " openat ", path].iter().all(|it| line.contains(it));
        assert_eq!(err.lines().filter(opened).count(), 1, "{path}: {err}");
    }
}

/// As a unit that restarts: all its processes end, and others come.
#[test]
fn a_control_group_that_restarts_is_taken_up_again() {
    let name = "a_control_group_that_restarts_is_taken_up_again";
    if skipped(name, not_root().or_else(cannot)) {
        return;
    }
    let dir = open_place();
    let mut undo = Undo::default();
    let group = match LabCgroup::named(&mut undo, "blkio", "taillight-lab-restarts") {
        Ok(group) => group,
        Err(e) => {
            skipped(name, Some(format!("{e:#}")));
            return;
        }
    };
    let reads = |file: &str| {
        std::fs::write(dir.path().join(file), vec![7; 1 << 20]).expect("written");
        let script = format!(
            "while :; do dd if={file} of=/dev/null bs=4k count=9 iflag=direct status=none; sleep 0.1; done"
        );
        let mut command = Command::new("env");
        command.args(group.within()).args(["sh", "-c", &script]).current_dir(dir.path());
        Ended(command.spawn().expect("it starts"))
    };
    let first = reads("first");
    std::thread::sleep(Duration::from_millis(500));
    let line = "watch --cgroup /taillight-lab-restarts --for 6s --record --names --output out";
    let watch = start(dir.path(), line);
    watching(&watch);
    drop(first);
    std::thread::sleep(Duration::from_secs(1));
    let second = reads("second");
    let out = watch.wait_with_output().expect("it ends");
    drop(second);
    let said = text(&out.stdout) + &ended(&out, 0).1;
    assert!(said.contains("waiting 10 s for a restart"), "{said}");
    assert!(said.contains("the time of --for is over"), "{said}");
    let told = json(&dir.path().join("out/watched.json"));
    let files = told["files"].as_array().expect("a list");
    for file in ["/first", "/second"] {
        let of = |f: &Value| f.as_str().is_some_and(|f| f.ends_with(file));
        assert!(files.iter().any(of), "{file}: {files:?}");
    }
}

/// 0.0001% is a microsecond of a CPU in each second: less than any watching costs.
#[test]
fn what_costs_too_much_is_left_out_and_then_all_of_it() {
    let name = "what_costs_too_much_is_left_out_and_then_all_of_it";
    let Some(dir) = watch_dir(name) else { return };
    let fio = fio_at_work(dir.path(), "--ioengine=psync --thread");
    let line = format!(
        "watch --pid {} --for 60s --max-cost 0.0001% --exact 5% --slower 1s --output out",
        fio.0.id()
    );
    let (_, err) = run_line(dir.path(), &line, 0);
    assert!(err.contains("it cost more than --max-cost"), "{err}");
    let told = json(&dir.path().join("out/watched.json"));
    let out = told["left_out"].as_array().expect("a list");
    for part in ["waits of threads for each other", "I/O of others on the same disks"] {
        assert!(out.iter().any(|one| one == part) && err.contains(part), "{out:?}\n{err}");
    }
}

/// Kind, place, size.
type FileOp = (OpKind, Option<u64>, u64);

/// Rows of a file in a run directory; of all of them where none is given.
fn rows(run: &Path, target: Option<u16>) -> Vec<Row> {
    let mut all = Vec::new();
    let mut each = |batch: &RowBatch| {
        let rows = (0..batch.rows).map(|i| batch.row(i));
        all.extend(rows.filter(|row| target.is_none_or(|target| row.target == target)));
        Ok(())
    };
    read_ios(&run.join("ios.parquet"), ColumnSet::ALL, &mut each).expect("a good file");
    all
}

/// Operations of a file in a run directory, sorted; of all files where none is given.
fn operations(run: &Path, target: Option<u16>) -> Vec<FileOp> {
    let all = rows(run, target);
    let mut all: Vec<FileOp> = all.iter().map(|row| (row.op, row.offset, row.size)).collect();
    all.sort_unstable();
    all
}

/// When syncs and what moved bytes were due, or began where nothing was, since the first of them, ns.
fn due(run: &Path, target: Option<u16>) -> Vec<i64> {
    let all = rows(run, target);
    let all = all.iter().filter(|row| row.op == OpKind::Fsync || row.size > 0);
    let mut all: Vec<i64> = all.map(|row| row.intended.unwrap_or(row.submit).0).collect();
    all.sort_unstable();
    let first = all.first().copied().unwrap_or(0);
    all.iter().map(|at| at - first).collect()
}

/// A database of sqlite3 of which nothing is in the page cache.
fn cold_database(dir: &Path) {
    let sql = "CREATE TABLE t(a, b); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 900) \
               INSERT INTO t SELECT i, randomblob(900) FROM n;";
    let dropped = ["if=database", "of=/dev/null", "iflag=nocache", "status=none"];
    for (program, words) in [("sqlite3", &["database", sql][..]), ("dd", &dropped)] {
        let done = Command::new(program).args(words).current_dir(dir).status();
        assert!(done.expect("it starts").success(), "{program}");
    }
}

#[test]
fn a_record_is_replayed_operation_for_operation() {
    let name = "a_record_is_replayed_operation_for_operation";
    let Some(dir) = watch_dir(name) else { return };
    let fio = "--rw=randrw --ioengine=libaio --iodepth=8 --fdatasync=16 --number_ios=2000 --rate_iops=2000";
    let sql =
        "PRAGMA synchronous=full; SELECT sum(length(b)) FROM t; DELETE FROM t WHERE a % 9 = 0;";
    let fio: Vec<&str> = FIO.split_whitespace().chain(fio.split_whitespace()).collect();
    let sqlite: &[&str] = &["sqlite3", "database", sql];
    for (line, file) in [(&fio[..], "/data"), (sqlite, "/database")] {
        if skipped(line[0], there(line[0])) {
            continue;
        }
        if line == sqlite {
            cold_database(dir.path());
        }
        let watch = ["watch", "--record", "--names", "--output", "record", "--"];
        let (_, err) = common::run(dir.path(), &[&watch[..], line].concat(), 0);
        let told = json(&dir.path().join("record/watched.json"));
        let files = told["files"].as_array().expect("a list");
        let of_file = |f: &Value| f.as_str().is_some_and(|f| f.ends_with(file));
        let number = files.iter().position(of_file).unwrap_or_else(|| panic!("{files:?}"));
        let was = operations(&dir.path().join("record"), Some(number as u16));
        // The job file, as a user would write it.
        let job = format!(
            "[target]\ndriver = \"file\"\npath = \"scratch\"\noptions.direct = false\n\n[[workload]]\n\
             trace = {{ file = \"record\", select = \"file={number}\", timing = \"asap\" }}\n"
        );
        common::run_job(dir.path(), &job, 0);
        let is = operations(&dir.path().join("out"), None);
        // At its times too: each due as long after the first as it began then.
        let timed = "run --driver sim --size 4GiB --output timed --replay";
        let of = format!("record/ios.parquet --set workload.0.trace.select=file={number}");
        common::run_line(dir.path(), &format!("{timed} {of}"), 0);
        let [was_due, is_due] = [("record", Some(number as u16)), ("timed", None)]
            .map(|(run, file)| due(&dir.path().join(run), file));
        assert_eq!(was_due, is_due);
        let bytes = |all: &[FileOp]| -> u64 { all.iter().map(|o| o.2).sum() };
        assert!(was.iter().any(|o| o.0 == OpKind::Fsync), "{err}");
        let places = |all: &[FileOp]| -> Vec<FileOp> {
            let placed = |o: &&FileOp| matches!(o.0, OpKind::Read | OpKind::Write);
            all.iter().filter(placed).copied().collect()
        };
        assert!(places(&was).len() >= 2, "{err}");
        assert_eq!(was.len(), is.len(), "{err}");
        assert_eq!(bytes(&was), bytes(&is));
        assert_eq!(places(&was), places(&is));
        for gone in ["record", "out", "timed", "scratch", "scratch.taillight"] {
            let at = dir.path().join(gone);
            let _ = std::fs::remove_dir_all(&at).or_else(|_| std::fs::remove_file(&at));
        }
    }
}
