//! Embedded stores that cannot be used or that fail on the way, through the binary: whose database it
//! is, one in use, a corrupt one, a full disk, runs that end while they load.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::run;
use serde_json::Value;

const STORES: [&str; 2] = ["rocksdb", "leveldb"];
const MARK: &str = ".taillight-owner.json";

fn summary(dir: &Path, run: &str) -> Value {
    let text = std::fs::read_to_string(dir.join(run).join("summary.json")).expect("a summary");
    serde_json::from_str(&text).expect("JSON")
}

/// Writes a job on the store `driver` in the directory `db`: so many records, then what `work` says.
fn job(dir: &Path, driver: &str, options: &str, records: u64, work: &str) {
    let text = format!(
        "[run]\noperations = 1000\n[target]\ndriver = \"{driver}\"\npath = \"db\"\n\
         [target.options]\n{options}\n[[workload]]\nblock_size = \"4KiB\"\naccess = \"random\"\n\
         keys = {{ count = {records} }}\n{work}\n"
    );
    std::fs::write(dir.join("job.toml"), text).expect("written");
}

/// Runs the job; the exit code must be `code`. What it said on both streams.
fn ends(dir: &Path, more: &str, code: i32) -> String {
    let words: Vec<&str> = more.split_whitespace().collect();
    let (out, err) = run(dir, &[&["run", "job.toml"][..], &words].concat(), code);
    out + &err
}

/// Starts the job and leaves it to itself.
fn started(dir: &Path, more: &str) -> Child {
    Command::new(assert_cmd::cargo::cargo_bin("taillight"))
        .args(["run", "job.toml"])
        .args(more.split_whitespace())
        .current_dir(dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts")
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.expect("kill").success());
}

/// Stores whose library is here, each in a directory of its own; says which are not.
fn each(test: impl Fn(&str, &Path)) {
    for driver in STORES {
        let home = tempfile::tempdir().expect("a directory");
        job(home.path(), driver, "", 1, "mix = \"get\"");
        let probe = common::taillight(home.path())
            .args(["run", "job.toml", "--ops", "1", "--output", "probe"])
            .output()
            .expect("it starts");
        if !probe.status.success() {
            let said = String::from_utf8_lossy(&probe.stderr).into_owned();
            assert!(said.contains("library"), "{said}");
            eprintln!("skipped: a test of {driver}: {said}");
            continue;
        }
        test(driver, home.path());
    }
}

/// A database that stays.
fn kept(dir: &Path, driver: &str) {
    job(dir, driver, "keep = true", 2000, "mix = \"get\"");
    ends(dir, "--output first", 0);
}

#[test]
fn a_database_made_by_someone_else_is_left_alone() {
    each(|driver, home| {
        kept(home, driver);
        std::fs::remove_file(home.join("db").join(MARK)).expect("the mark goes");
        let list = || {
            let names = std::fs::read_dir(home.join("db")).expect("there");
            let mut names: Vec<_> = names.map(|e| e.expect("an entry").file_name()).collect();
            names.sort();
            names
        };
        let before = list();
        let said = ends(home, "--output second", 3);
        assert!(said.contains("--destroy") && said.contains("db"), "{said}");
        assert_eq!(list(), before);
        assert!(!home.join("second").exists());
    });
}

#[test]
fn a_database_in_use_stays_with_who_uses_it() {
    each(|driver, home| {
        let options = "keep = true";
        job(home, driver, options, 2000, "mix = \"get\"");
        let mut first = started(home, "--set run.operations=1000000000 --output first");
        // Measuring has begun, so the database is open.
        let patience = Instant::now() + Duration::from_secs(60);
        let measuring = || {
            let text = std::fs::read_to_string(home.join("first/manifest.json"));
            text.is_ok_and(|t| t.contains("\"running\"")) && home.join("db/CURRENT").exists()
        };
        while !measuring() {
            assert!(Instant::now() < patience, "it does not begin");
            std::thread::sleep(Duration::from_millis(20));
        }
        let said = ends(home, "--output second", 4);
        assert!(said.contains("in use by another process"), "{said}");
        // Nor is it deleted by one that keeps nothing.
        job(home, driver, "", 2000, "mix = \"get\"");
        let said = ends(home, "--output second", 4);
        assert!(said.contains("in use by another process"), "{said}");
        assert!(!home.join("second").exists());
        signal(&first, "INT");
        assert_eq!(first.wait().expect("it ends").code(), Some(130));
        job(home, driver, options, 2000, "mix = \"get\"");
        ends(home, "--output third", 0);
    });
}

#[test]
fn a_corrupt_database_is_told_and_left() {
    each(|driver, home| {
        kept(home, driver);
        let current = home.join("db/CURRENT");
        let manifest = std::fs::read_to_string(&current).expect("a name");
        let manifest = home.join("db").join(manifest.trim_end());
        let bytes = std::fs::read(&manifest).expect("readable");
        std::fs::write(&manifest, vec![0x5A; bytes.len()]).expect("damaged");
        let said = ends(home, "--output second", 4);
        assert!(said.contains("the database is corrupt"), "{said}");
        assert!(said.contains("store says") && said.contains("repair"), "{said}");
        assert!(!home.join("second").exists() && current.exists());
    });
}

/// Runs a program as root; false, and said, where it cannot.
fn mounted(command: &[&str]) -> bool {
    let done = Command::new(command[0]).args(&command[1..]).output();
    let done = done.is_ok_and(|o| o.status.success());
    if !done {
        eprintln!("skipped: a full disk under a store: `{}` failed", command.join(" "));
    }
    done
}

/// Unmounts at the end, whatever happens before.
struct RestoreOnDrop<'a>(&'a str);

impl Drop for RestoreOnDrop<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l", self.0]).status();
    }
}

#[test]
fn a_full_disk_fails_writes_and_ends_cleanly() {
    each(|driver, home| {
        let small = tempfile::tempdir().expect("a directory");
        let path = small.path().to_str().expect("text");
        if !mounted(&["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", path]) {
            return;
        }
        let undo = RestoreOnDrop(path);
        let options = "write_buffer_size = \"1MiB\"\ncompression = \"none\"";
        job(home, driver, options, 0, "mix = \"insert\"");
        let place = format!("--set target.path={path}/db --ops 20000 --output full");
        let said = ends(home, &place, 5);
        assert!(said.contains("no space left on device"), "{said}");
        let summary = summary(home, "full");
        let errors = summary["totals"]["errors"].as_u64().expect("a count");
        let kinds = &summary["errors"]["kinds"];
        let of = |status: i64| {
            let mut all = kinds.as_array().expect("kinds").iter();
            let kind = all.find(|k| k["status"] == status);
            kind.map_or(0, |k| k["count"].as_u64().expect("a count"))
        };
        // RocksDB fails a write once; later ones do not reach it, and that is said.
        let refused = if driver == "rocksdb" { errors - 1 } else { 0 };
        assert_eq!((of(28), of(-7)), (errors - refused, refused), "{kinds}");
        let told = format!("{refused} writes were refused by Taillight");
        assert_eq!(said.replace("\n  ", "").contains(&told), refused > 0, "{said}");
        // Their nanoseconds are in no latency.
        let insert = &summary["ops"]["insert"];
        let good = insert["count"].as_u64().expect("a count") - errors;
        assert_eq!(insert["service"]["count"].as_u64(), Some(good));
        // What fitted was written, and is kept as measured.
        let written = summary["totals"]["count"].as_u64().expect("a count");
        assert!(written > 1000 && errors > 0, "{written} {errors}");
        assert!(!small.path().join("db").exists(), "its database goes");
        // A load that does not fit cannot be measured at all.
        job(home, driver, options, 20_000, "mix = \"get\"");
        let place = format!("--set target.path={path}/db --output load");
        let said = ends(home, &place, 5);
        assert!(said.contains("status: no space left on device (errno 28)"), "{said}");
        assert!(!home.join("load").exists() && !small.path().join("db").exists());
        drop(undo);
    });
}

#[test]
fn a_run_that_ends_while_it_loads() {
    each(|driver, home| {
        for (name, code) in [("INT", Some(130)), ("KILL", None)] {
            job(home, driver, "keep = true", 20_000_000, "mix = \"get\"");
            let mut child = started(home, "--output out");
            let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
            let first = lines.next().expect("progress").expect("text");
            assert!(first.contains("loading"), "{first}");
            signal(&child, name);
            let rest = std::thread::spawn(move || lines.map_while(Result::ok).collect::<String>());
            assert_eq!(child.wait().expect("it ends").code(), code);
            let said = rest.join().expect("read");
            assert!(!said.contains("panicked"), "{said}");
            assert!(!home.join("out/summary.json").exists());
            // What is there is Taillight's; another run goes on, or begins anew.
            job(home, driver, "keep = true", 500, "mix = \"get\"");
            ends(home, "--output after", 0);
            assert_eq!(summary(home, "after")["totals"]["errors"], 0);
            for left in ["db", "after", "out"] {
                let _ = std::fs::remove_dir_all(home.join(left));
            }
        }
    });
}

/// One worker reads what three others delete: what was overtaken is no failure, and is counted.
#[test]
fn reads_overtaken_by_deletes_are_misses() {
    each(|driver, home| {
        let mix = "workers = 4\nmix = { get = 40, insert = 30, delete = 30 }";
        job(home, driver, "", 6, mix);
        let said = ends(home, "--ops 20000 --output out", 0);
        let summary = summary(home, "out");
        assert_eq!(summary["totals"]["errors"], 0);
        let misses = summary["misses"].as_u64().unwrap_or(0);
        assert_eq!(said.contains("found nothing"), misses > 0, "{said}");
    });
}
