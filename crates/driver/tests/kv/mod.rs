//! RocksDB and LevelDB beyond the contract: guard, what is kept, bad libraries and databases, batches, fields, workers
//! that end while they load, a full disk. Tests run on those of the two whose library is installed.
#![allow(clippy::unwrap_used)]

mod changed;
mod outside;
mod snapshot;

use std::path::{Path, PathBuf};

use crate::support;
use taillight_core::plan::{MixPart, Plan, Values};
use taillight_core::probe::Token;
use taillight_core::{ErrorKind, Op, OpKind, Result, Status, SyncKind};
use taillight_driver::conformance::{self, one};
use taillight_driver::kv::fields;
use taillight_driver::{AdminAction, Session, Submitted, Target};

const STORES: [&str; 2] = ["rocksdb", "leveldb"];
const SIZE: u64 = 400;

/// A directory for a database and the plan that opens it.
struct StoreDirectory {
    _tmp: tempfile::TempDir,
    dir: PathBuf,
    store: &'static str,
}

impl StoreDirectory {
    fn new(store: &'static str) -> StoreDirectory {
        let tmp = support::scratch();
        StoreDirectory { dir: tmp.path().join("db"), _tmp: tmp, store }
    }
    fn plan(&self, options: &str) -> Plan {
        let target = conformance::target(self.store, self.dir.to_str().unwrap(), options);
        let mut plan = conformance::keyed_plan(target, SIZE, 1, false);
        // A run that deletes does not leave its records to later ones.
        plan.workloads[0].mix.retain(|m| m.op != OpKind::Delete);
        plan
    }
    fn open(&self, options: &str) -> Result<Box<dyn Target>> {
        open(&self.plan(options), None)
    }
    fn error(&self, options: &str) -> taillight_core::Error {
        match self.open(options) {
            Ok(_) => panic!("{} opened with {options}", self.store),
            Err(e) => e,
        }
    }
}

fn open(plan: &Plan, destroy: Option<&Path>) -> Result<Box<dyn Target>> {
    conformance::open(plan, destroy.map(|d| d.to_str().unwrap()), "test")
}

/// A place for each of [`STORES`] whose library is installed; the others are named.
fn stores() -> Vec<StoreDirectory> {
    let all = STORES.into_iter().map(StoreDirectory::new);
    all.filter(|place| match place.open("") {
        Err(e) if e.message().contains("library") => {
            eprintln!("skipped: tests of {}: {e}", place.store);
            false
        }
        opened => {
            opened.unwrap().close().unwrap();
            true
        }
    })
    .collect()
}

fn session(target: &dyn Target, buffer_size: u64) -> Box<dyn Session> {
    conformance::session(target, buffer_size, 1)
}

fn load(target: &dyn Target, records: u64) {
    let mut s = session(target, SIZE);
    for key in 0..records {
        s.buffer(0).fill(key as u8);
        let c = one(s.as_mut(), &Op::keyed(OpKind::Insert, key, SIZE));
        assert!(c.status.is_ok(), "{c:?}");
    }
    drop(s);
    target.keyed().unwrap().loaded(records).unwrap();
}

fn has(target: &dyn Target, key: u64) -> bool {
    let mut s = session(target, SIZE);
    one(s.as_mut(), &Op::keyed(OpKind::Get, key, 0)).status.is_ok()
}

#[test]
fn a_kept_database_goes_on_and_another_goes() {
    for place in stores() {
        let target = place.open("keep = true").unwrap();
        load(target.as_ref(), 100);
        target.close().unwrap();
        // A run without `keep` leaves a database that was kept before.
        let target = place.open("").unwrap();
        assert_eq!(target.keyed().unwrap().records(), 100);
        assert!(has(target.as_ref(), 99) && !has(target.as_ref(), 100));
        target.close().unwrap();
        assert!(place.dir.exists());
        // Another form of keys is another data set.
        let mut plan = place.plan("");
        plan.workloads[0].keys.as_mut().unwrap().start = 5;
        let e = open(&plan, None).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        plan.target.destroy = true;
        let target = open(&plan, Some(&place.dir)).unwrap();
        assert_eq!(target.keyed().unwrap().records(), 0);
        assert!(!has(target.as_ref(), 99));
        target.close().unwrap();
        // The directory was there before this run.
        assert_eq!(std::fs::read_dir(&place.dir).unwrap().count(), 0);
    }
}

#[test]
fn a_database_that_goes_with_its_run_has_its_records_noted_and_goes() {
    for place in stores() {
        let target = place.open("").unwrap();
        load(target.as_ref(), 10);
        let keyed = target.keyed().unwrap();
        keyed.ended(12).unwrap();
        assert_eq!(keyed.records(), 12);
        target.close().unwrap();
        assert!(!place.dir.exists());
    }
}

#[test]
fn what_is_known_to_be_left_by_a_run_is_made_anew() {
    for place in stores() {
        let target = place.open("keep = true").unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        let mark = place.dir.join(".taillight-owner.json");
        let text = std::fs::read_to_string(&mark).unwrap();
        assert!(text.contains("\"records\": 10") && text.contains("\"files\": \""), "{text}");
        let text = text.replace("\"keep\": true", "\"keep\": false");
        // A mark without a seal is that of a run that was killed, or of an earlier version.
        let unsealed: Vec<&str> = text.lines().filter(|l| !l.contains("\"files\": \"")).collect();
        std::fs::write(&mark, unsealed.join("\n")).unwrap();
        let e = place.error("");
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.message().contains("left by a killed run, or changed since"), "{e}");
        std::fs::write(&mark, text).unwrap();
        let target = place.open("").unwrap();
        assert_eq!(target.keyed().unwrap().records(), 0);
        assert!(!has(target.as_ref(), 3));
        target.close().unwrap();
        // The directory was there before this run.
        assert_eq!(std::fs::read_dir(&place.dir).unwrap().count(), 0);
    }
}

#[test]
fn a_foreign_database_is_refused_until_confirmed() {
    for place in stores() {
        let target = place.open("keep = true").unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        std::fs::remove_file(place.dir.join(".taillight-owner.json")).unwrap();
        std::fs::write(place.dir.join("notes.txt"), "mine").unwrap();
        let e = place.error("");
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.hint_text().unwrap().contains("--destroy"));
        let mut plan = place.plan("");
        plan.target.destroy = true;
        assert!(open(&plan, None).is_err());
        let target = open(&plan, Some(&place.dir)).unwrap();
        assert!(!has(target.as_ref(), 3));
        target.close().unwrap();
        let left: Vec<_> = std::fs::read_dir(&place.dir).unwrap().collect();
        assert_eq!(left.len(), 1, "only what no store made: {left:?}");
    }
}

#[test]
fn what_is_refused_costs_no_database() {
    for place in stores() {
        let target = place.open("keep = true").unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        let files = || {
            let entries = std::fs::read_dir(&place.dir).unwrap().flatten();
            let mut names: Vec<_> = entries.map(|e| e.file_name()).collect();
            names.sort();
            names
        };
        let before = files();
        let other_log = support::scratch();
        let mut wrong = vec![("", 1_000_000_000_000, ErrorKind::Unavailable)];
        let wal = format!(
            "options = \"allow_mmap_reads=true;wal_dir={}\"\ndirect_reads = true",
            other_log.path().display()
        );
        if place.store == "rocksdb" {
            wrong.push(("options = \"bogus_option=1\"", 10, ErrorKind::Usage));
            wrong.push((&wal, 10, ErrorKind::Unavailable));
        }
        for (options, records, kind) in wrong {
            let mut plan = place.plan(options);
            plan.target.destroy = true;
            plan.workloads[0].keys.iter_mut().for_each(|keys| keys.count = records);
            let e = open(&plan, Some(&place.dir)).err().unwrap();
            assert_eq!(e.kind(), kind, "{e}");
            assert_eq!(std::fs::read_dir(&other_log).unwrap().count(), 0, "{e}");
            assert_eq!(files(), before, "{e}");
        }
        assert!(has(place.open("keep = true").unwrap().as_ref(), 3));
    }
}

#[test]
fn a_directory_of_other_things_and_no_directory() {
    for place in stores() {
        std::fs::create_dir(&place.dir).unwrap();
        std::fs::write(place.dir.join("thesis.tex"), "...").unwrap();
        assert_eq!(place.error("").kind(), ErrorKind::Refused);
        let mut plan = place.plan("");
        for (path, kind) in [
            (None, ErrorKind::Usage),
            (Some(place.dir.join("thesis.tex")), ErrorKind::Usage),
            (Some(place.dir.join("no/such")), ErrorKind::Unavailable),
        ] {
            plan.target.path = path.map(|p| p.to_str().unwrap().to_owned());
            let e = open(&plan, None).err().unwrap();
            assert_eq!(e.kind(), kind, "{e}");
        }
        // An empty directory of the user's is used and left.
        let empty = place.dir.join("empty");
        std::fs::create_dir(&empty).unwrap();
        plan.target.path = Some(empty.to_str().unwrap().to_owned());
        open(&plan, None).unwrap().close().unwrap();
        assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
    }
}

#[test]
fn a_database_in_use_and_one_that_was_changed() {
    for place in stores() {
        let first = place.open("keep = true").unwrap();
        load(first.as_ref(), 10);
        // A run without `keep` does not delete it either.
        for options in ["keep = true", ""] {
            let e = place.error(options);
            assert_eq!(e.kind(), ErrorKind::Unavailable);
            assert!(e.message().contains("in use"), "{e}");
        }
        assert!(has(first.as_ref(), 9));
        first.close().unwrap();
        std::fs::write(place.dir.join("CURRENT"), "garbage").unwrap();
        let e = place.error("");
        assert_eq!(e.kind(), ErrorKind::Refused);
        assert!(e.message().contains("changed since"), "{e}");
        assert!(place.dir.join("CURRENT").exists(), "nothing was deleted");
    }
}

#[test]
fn missing_and_unfit_libraries() {
    for store in STORES {
        let place = StoreDirectory::new(store);
        let e = place.error("library = \"/no/such/lib.so\"");
        assert_eq!(e.kind(), ErrorKind::Unavailable);
        assert!(e.to_string().contains("/no/such/lib.so"), "{e}");
        assert!(e.hint_text().unwrap().contains("lib"));
        // A library that is there, but is no store's.
        let e = place.error("library = \"libc.so.6\"");
        assert_eq!(e.kind(), ErrorKind::Unavailable);
        assert!(e.to_string().contains(&format!("{store}_options_create")), "{e}");
        assert!(!place.dir.exists(), "nothing was touched");
    }
}

/// An update and gets of several records, of 100 to 103 which are there, by keys in any order.
fn drawn_keys(s: &mut dyn Session, store: &str) {
    let mut many = |kind, keys: &[u64], size, count| {
        let op = Op { count, ..Op::keyed(kind, keys[0], size) };
        let token = Token::new(1, 0);
        for (n, part) in s.buffer(0).chunks_mut(10).enumerate() {
            part.fill(b'a' + n as u8);
        }
        match s.submit_many(&op, keys, 0, token).unwrap() {
            Submitted::Done(c) => {
                assert_eq!(c.token, token);
                c
            }
            other => panic!("{other:?}"),
        }
    };
    // The last of two writes of a key counts, and no more keys than the operation has records.
    let c = many(OpKind::Update, &[103, 100, 103, 101], 10, 3);
    assert_eq!((c.status, c.count, c.moved), (Status::OK, 3, 30));
    if store == "rocksdb" {
        let c = many(OpKind::Get, &[103, 100, 103], 0, 3);
        assert_eq!((c.status, c.count, c.moved), (Status::OK, 3, 30));
        let c = many(OpKind::Get, &[103, 999, 100], 0, 3);
        assert_eq!((c.status, c.count, c.moved), (Status::NOT_FOUND, 2, 20));
    }
    for (key, holds) in [(100, b'b'), (101, 1), (102, 2), (103, b'c')] {
        let c = one(s, &Op::keyed(OpKind::Get, key, 0));
        assert_eq!((c.moved, s.buffer(0)[0]), (10, holds), "{key}");
    }
}

#[test]
fn batches_and_many_gets() {
    for place in stores() {
        let target = place.open("").unwrap();
        let mut s = session(target.as_ref(), 40);
        // Four values of 10 bytes side by side, one write.
        for (n, part) in s.buffer(0).chunks_mut(10).enumerate() {
            part.fill(n as u8);
        }
        let insert = Op { count: 4, ..Op::keyed(OpKind::Insert, 100, 10) };
        let c = one(s.as_mut(), &insert);
        assert_eq!((c.status, c.count, c.moved), (Status::OK, 4, 40));
        let c = one(s.as_mut(), &Op::keyed(OpKind::Get, 102, 0));
        assert_eq!((c.moved, s.buffer(0)[0]), (10, 2));
        for (key, there) in [(100, 4), (98, 2), (104, 0)] {
            let get = Op { count: 4, ..Op::keyed(OpKind::Get, key, 0) };
            let c = one(s.as_mut(), &get);
            if place.store == "leveldb" {
                // LevelDB has no multi-get, and the driver does not replace it by several gets.
                assert_eq!(c.status, Status::STORE);
                continue;
            }
            assert_eq!((c.count, c.moved), (there, 10 * u64::from(there)));
            assert_eq!(c.status.is_ok(), there == 4, "{c:?}");
        }
        drawn_keys(s.as_mut(), place.store);
        drop(s);
        target.close().unwrap();
    }
}

#[test]
fn one_field_is_replaced() {
    for place in stores() {
        let mut plan = place.plan("");
        plan.workloads[0].value = Some(Values { fields: 2, ..Values::default() });
        let target = open(&plan, None).unwrap();
        let mut s = session(target.as_ref(), 100);
        let mut put = |field: &[(&str, &[u8])], op: Op| {
            let mut at = 0;
            for (name, data) in field {
                let buffer = &mut s.buffer(0)[at..];
                let end = fields::write(buffer, name.as_bytes(), data.len()).unwrap();
                buffer[end - data.len()..end].copy_from_slice(data);
                at += end;
            }
            let c = one(s.as_mut(), &Op { size: at as u64, ..op });
            (c.status, s.buffer(0).to_vec())
        };
        let whole: [(&str, &[u8]); 2] = [("field0", b"aaa"), ("field1", b"bbb")];
        put(&whole, Op::keyed(OpKind::Insert, 1, 0));
        let one_field = |key| Op { field: 1, ..Op::keyed(OpKind::Update, key, 0) };
        assert!(put(&[("field1", b"longer")], one_field(1)).0.is_ok());
        let none = put(&[("field1", b"longer")], one_field(2)).0;
        assert_eq!(none, Status::NOT_FOUND);
        let (_, value) = put(&[], Op::keyed(OpKind::Get, 1, 0));
        let all: Vec<_> = fields::fields(&value).take(2).map(|f| f.data).collect();
        assert_eq!(all, [b"aaa".as_slice(), b"longer"]);
        drop(s);
        target.close().unwrap();
    }
}

#[test]
fn durable_writes_administration_and_samples() {
    for place in stores() {
        let target = place.open("").unwrap();
        load(target.as_ref(), 500);
        let mut s = session(target.as_ref(), SIZE);
        let durable = Op { sync: Some(SyncKind::Fdatasync), ..Op::keyed(OpKind::Update, 7, SIZE) };
        assert!(one(s.as_mut(), &durable).status.is_ok());
        // Refused while workers have sessions.
        assert!(target.admin(AdminAction::Purge).is_err());
        assert!(target.admin(AdminAction::DropCaches).is_err());
        assert!(has(target.as_ref(), 7));
        drop(s);
        for action in [AdminAction::Flush, AdminAction::Compact, AdminAction::DropCaches] {
            target.admin(action).unwrap();
            assert!(has(target.as_ref(), 7), "after {action:?}");
        }
        assert_eq!(target.keyed().unwrap().records(), 500);
        let mut names = Vec::new();
        target.sample(&mut |name, value| {
            assert!(value >= 0.0, "{name} {value}");
            names.push(name.to_owned());
        });
        for name in ["level0_files", "sst_bytes"] {
            assert!(names.iter().any(|n| n == name), "{name} in {names:?}");
        }
        target.admin(AdminAction::Purge).unwrap();
        assert!(!has(target.as_ref(), 7));
        let facts = target.facts();
        for name in ["store.library", "store.version", "store.compression"] {
            assert!(facts.iter().any(|(n, _)| n == name), "{name} in {facts:?}");
        }
        target.close().unwrap();
        assert!(!place.dir.exists());
    }
}

/// A run that ends while it loads: workers stop between two operations, then the database closes.
#[test]
fn closing_while_writers_were_at_it() {
    for place in stores() {
        for round in 0..5 {
            let target = place.open("write_buffer_size = \"64KiB\"").unwrap();
            let stop = std::sync::atomic::AtomicBool::new(false);
            std::thread::scope(|scope| {
                for worker in 0..4 {
                    let (target, stop) = (target.as_ref(), &stop);
                    scope.spawn(move || {
                        let mut s = session(target, SIZE);
                        let mut key = worker << 32;
                        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                            let c = one(s.as_mut(), &Op::keyed(OpKind::Insert, key, SIZE));
                            assert!(c.status.is_ok(), "{c:?}");
                            key += 1;
                        }
                        if worker % 2 == 0 {
                            s.abandon();
                        }
                    });
                }
                std::thread::sleep(std::time::Duration::from_millis(20 * round));
                stop.store(true, std::sync::atomic::Ordering::Relaxed);
            });
            target.close().unwrap();
            assert!(!place.dir.exists());
        }
    }
}

#[test]
fn a_session_outlives_a_close_that_came_too_early() {
    for place in stores() {
        let target = place.open("").unwrap();
        let mut s = session(target.as_ref(), SIZE);
        let e = target.close().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Internal);
        let c = one(s.as_mut(), &Op::keyed(OpKind::Insert, 1, SIZE));
        assert!(c.status.is_ok(), "the database is still open: {c:?}");
    }
}

#[test]
fn rocksdb_options_reach_the_store() {
    for place in stores().iter().filter(|p| p.store == "rocksdb") {
        let e = place.error("options = \"no_such_option=1\"");
        assert_eq!(e.kind(), ErrorKind::Usage);
        assert!(e.to_string().contains("no_such_option"), "{e}");
        assert!(!place.dir.exists(), "nothing is left of it");
        let file = place.dir.with_extension("ini");
        std::fs::write(
            &file,
            "[Version]\n[DBOptions]\nmax_open_files=77\n[CFOptions \"default\"]\n\
             write_buffer_size=1000000\nlevel0_file_num_compaction_trigger=9\n\
             [TableOptions/BlockBasedTable \"default\"]\nblock_size=8192\n",
        )
        .unwrap();
        let options = format!(
            "options_file = {:?}\noptions = \"write_buffer_size=2000000\"\nbloom_bits = 10\n\
             compression = \"none\"",
            file.to_str().unwrap()
        );
        let target = place.open(&options).unwrap();
        let facts = target.facts();
        let fact = |name: &str| {
            let name = format!("store.{name}");
            facts.iter().find(|(n, _)| *n == name).unwrap().1.as_str()
        };
        assert_eq!(fact("max_open_files"), "77");
        assert_eq!(fact("write_buffer_size"), "2000000");
        assert_eq!(fact("level0_file_num_compaction_trigger"), "9");
        assert_eq!(fact("block_size"), "8192", "the filter went on top");
        assert!(fact("filter_policy").contains("bloomfilter:10"));
        assert_eq!(fact("compression"), "kNoCompression");
        assert!(fact("library").contains("librocksdb"));
        target.close().unwrap();
    }
}

#[test]
fn rocksdb_reads_a_foreign_database_without_changing_it() {
    for place in stores().iter().filter(|p| p.store == "rocksdb") {
        let target = place.open("keep = true").unwrap();
        load(target.as_ref(), 50);
        target.close().unwrap();
        std::fs::remove_file(place.dir.join(".taillight-owner.json")).unwrap();
        let mut plan = place.plan("read_only = true");
        assert_eq!(open(&plan, None).err().unwrap().kind(), ErrorKind::Usage);
        plan.workloads[0].mix.retain(|m| m.op == OpKind::Get);
        let target = open(&plan, None).unwrap();
        assert_eq!(target.keyed().unwrap().records(), 256, "as the plan says");
        assert!(has(target.as_ref(), 49));
        assert!(target.admin(AdminAction::Purge).is_err());
        // The number of records is not noted where the database is only read.
        target.keyed().unwrap().loaded(256).unwrap();
        target.close().unwrap();
        assert!(!place.dir.join(".taillight-owner.json").exists());
        assert!(place.dir.join("CURRENT").exists());
    }
}

#[test]
fn records_are_not_remembered_past_a_run_that_deletes() {
    for place in stores() {
        let reads = place.plan("keep = true");
        let mut deletes = reads.clone();
        deletes.workloads[0].mix.push(MixPart { op: OpKind::Delete, weight: 1 });
        for (plan, remembered) in [(&reads, 20), (&deletes, 0)] {
            let target = open(plan, None).unwrap();
            load(target.as_ref(), 20);
            assert_eq!(target.keyed().unwrap().records(), 20);
            target.close().unwrap();
            let target = open(&reads, None).unwrap();
            assert_eq!(target.keyed().unwrap().records(), remembered);
            target.close().unwrap();
        }
    }
}

/// A disk that runs full: failed writes are completions that say so, reads go on, the end is clean.
#[test]
fn a_full_disk() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: a_full_disk: needs root to mount a small file system");
        return;
    }
    for mut place in stores() {
        let mount = support::scratch();
        let path = mount.path().to_str().unwrap().to_owned();
        let small = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", &path];
        if support::run(&small).is_none() {
            return;
        }
        let _undo = support::UndoOnDrop(vec!["umount".to_owned(), "-l".to_owned(), path]);
        place.dir = mount.path().join("db");
        let target = place.open("write_buffer_size = \"1MiB\"\ncompression = \"none\"").unwrap();
        let mut s = session(target.as_ref(), 4096);
        let mut failed = None;
        for key in 0..20_000 {
            let c = one(s.as_mut(), &Op::keyed(OpKind::Insert, key, 4096));
            if !c.status.is_ok() {
                failed = Some(c);
                break;
            }
        }
        let no_space = Status(rustix::io::Errno::NOSPC.raw_os_error());
        assert_eq!(failed.map(|c| (c.status, c.moved)), Some((no_space, 0)));
        let c = one(s.as_mut(), &Op::keyed(OpKind::Get, 0, 0));
        assert_eq!((c.status, c.moved), (Status::OK, 4096));
        drop(s);
        target.close().unwrap();
        assert!(!place.dir.exists());
    }
}
