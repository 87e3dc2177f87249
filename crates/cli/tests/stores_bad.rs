//! Embedded stores that cannot be used or that fail on the way, through the binary: a foreign database, a corrupt one,
//! records that cannot fit, a full disk, runs that end while they load.

use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::common::traced::{SmallDisk, tool};
use crate::common::{
    capture_of, has_library, of_others, run_line, scratch, signal, start, succeeded, summary,
};

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
    let (out, err) = run_line(dir, &format!("run job.toml {more}"), code);
    out + &err
}

/// RocksDB and LevelDB where their libraries are here, each in a directory of its own.
fn each(test: impl Fn(&str, &Path)) {
    for driver in ["rocksdb", "leveldb"].into_iter().filter(|driver| has_library(driver)) {
        test(driver, scratch().path());
    }
}

/// Whose a database is and whether it can be used is in the driver's tests; here is how a run ends.
#[test]
fn databases_that_are_foreign_or_corrupt_have_their_exit_codes() {
    each(|driver, home| {
        job(home, driver, "keep = true", 200, "mix = \"get\"");
        ends(home, "--output first", 0);
        let mark = home.join("db/.taillight-owner.json");
        let moved = home.join("mark.json");
        std::fs::rename(&mark, &moved).expect("the mark goes");
        let said = ends(home, "--output second", 3);
        assert!(said.contains("--destroy") && said.contains("db"), "{said}");
        std::fs::rename(&moved, &mark).expect("and comes back");
        foreign_is_given_up(driver);
        let current = home.join("db/CURRENT");
        let manifest = std::fs::read_to_string(&current).expect("a name");
        let manifest = home.join("db").join(manifest.trim_end());
        let bytes = std::fs::read(&manifest).expect("readable");
        std::fs::write(&manifest, vec![0x5A; bytes.len()]).expect("damaged");
        // Whoever did it: it is not what the run left.
        let said = ends(home, "--output second", 3);
        assert!(said.contains("left by a killed run, or changed since"), "{said}");
        assert!(!home.join("second").exists() && current.exists());
    });
}

/// A database of somebody else, named twice, makes room for that of the run; other files stay.
fn foreign_is_given_up(driver: &str) {
    for files in [&["db/theirs"][..], &[]] {
        let home = scratch();
        job(home.path(), driver, "keep = true", 200, "mix = \"get\"");
        ends(home.path(), "--output first", 0);
        std::fs::remove_file(home.path().join("db/.taillight-owner.json")).expect("the mark goes");
        files.iter().for_each(|f| std::fs::write(home.path().join(f), "mine").expect("written"));
        let given = "--set target.destroy=true --destroy db --set target.options.keep=false";
        ends(home.path(), &format!("{given} --output second"), 0);
        assert_eq!(summary(home.path(), "second")["totals"]["errors"], 0);
        assert!(files.iter().all(|f| home.path().join(f).exists()), "{driver}");
    }
}

#[test]
fn records_that_cannot_fit_are_refused_before_the_first_is_written() {
    each(|driver, home| {
        job(home, driver, "", 1_000_000_000_000, "mix = \"get\"");
        let said = ends(home, "--output big", 4);
        assert!(said.contains("not enough space for the records"), "{said}");
        assert!(said.contains("3.64 PiB") && said.contains("load fewer"), "{said}");
        assert!(!home.join("big").exists() && !home.join("db").exists());
        let ycsb = format!("suite ycsb --driver {driver} --path db --records 1000000000000");
        let (_, said) = run_line(home, &ycsb, 4);
        assert!(said.contains("687 TiB"), "a key, ten fields of 100 B of text: {said}");
    });
}

#[test]
fn a_full_disk_fails_writes_and_ends_cleanly() {
    each(|driver, home| {
        let Some(small) = SmallDisk::new("a full disk under a store", "24m") else { return };
        let path = &small.path;
        let options = "write_buffer_size = \"1MiB\"\ncompression = \"none\"";
        // Nobody knows before how many of them a time is enough for.
        job(home, driver, options, 0, "mix = \"insert\"\npayload = \"zero\"");
        let place = format!("--set target.path={path}/db --ops 20000 --runtime 60s --output full");
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
        assert!(!Path::new(path).join("db").exists(), "its database goes");
        // A load that fits but for what the store adds cannot be measured at all.
        job(home, driver, options, 5_900, "mix = \"get\"\npayload = \"zero\"");
        let place = format!("--set target.path={path}/db --output load");
        let whole = ends(home, &format!("{place} --set workload.0.keys.count=6200"), 4);
        assert!(whole.contains("not enough space for the records"), "{whole}");
        let said = ends(home, &place, 5);
        assert!(said.contains("status: no space left on device (errno 28)"), "{said}");
        assert!(!home.join("load").exists() && !Path::new(path).join("db").exists());
    });
}

/// SQLite on a disk that gets full: writes fail whole, and what was acknowledged is in a database that is whole.
#[test]
fn a_full_disk_under_sqlite_takes_no_acknowledged_record() {
    if !has_library("sqlite") {
        return;
    }
    for options in ["keep = true", "keep = true\njournal = \"delete\""] {
        let home = scratch();
        let Some(small) = SmallDisk::new("a full disk under SQLite", "16m") else { return };
        let path = &small.path;
        job(home.path(), "sqlite", options, 0, "mix = \"insert\"");
        let place = format!("--set target.path={path}/db --ops 20000 --runtime 60s --output full");
        let said = ends(home.path(), &place, 5);
        assert!(said.contains("no space left on device"), "{said}");
        let insert = &summary(home.path(), "full")["ops"]["insert"];
        let acknowledged = succeeded(insert);
        assert!(acknowledged > 1000 && insert["errors"].as_u64() > Some(0), "{insert}");
        small.enlarge();
        let asked = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); \
                     print(c.execute('PRAGMA integrity_check').fetchone()[0], \
                     c.execute('SELECT count(*) FROM records').fetchone()[0])";
        let file = format!("{path}/db/taillight.db");
        let found = tool(&["python3", "-c", asked, &file]).expect("Python reads it");
        assert_eq!(found.trim(), format!("ok {acknowledged}"), "{options}");
    }
}

#[test]
fn a_run_that_ends_while_it_loads() {
    each(|driver, home| {
        for (name, code) in [("INT", Some(130)), ("KILL", None)] {
            job(home, driver, "keep = true", 20_000_000, "mix = \"get\"\npayload = \"zero\"");
            let mut child = start(home, "run job.toml --output out");
            let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
            let first = lines.find(|l| !l.as_ref().is_ok_and(|l| of_others(l)));
            let first = first.expect("progress").expect("text");
            assert!(first.contains("loading"), "{first}");
            signal(&child, name);
            let rest = std::thread::spawn(move || lines.map_while(Result::ok).collect::<String>());
            assert_eq!(child.wait().expect("it ends").code(), code);
            let said = rest.join().expect("read");
            assert!(!said.contains("panicked"), "{said}");
            assert!(!home.join("out/summary.json").exists());
            if code.is_none() && home.join("out/manifest.json").exists() {
                // There already, or not yet: that is a race.
                let _ = std::fs::remove_dir_all(capture_of(home, "out"));
            }
            if code.is_none() {
                // Nothing tells whose it is: its user deletes it.
                let _ = std::fs::remove_dir_all(home.join("db"));
            }
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
