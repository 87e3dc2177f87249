//! RocksDB's directories for logs and messages outside the database: what goes with the database, what stays, what is
//! refused; and an `archive` that is a link.

use taillight_core::ErrorKind;
use taillight_driver::AdminAction;

use super::{StoreDirectory, has, load, open, stores};
use crate::support::{self, TestLoopDevice};

#[test]
fn a_log_directory_goes_with_its_database_and_no_other() {
    for place in stores().into_iter().filter(|place| place.store == "rocksdb") {
        let logs = place.dir.with_file_name("logs");
        let options = format!("options = \"wal_dir={}\"", logs.display());
        let kept = format!("{options}\nkeep = true");
        let target = place.open(&kept).unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        assert!(logs.exists());
        for _ in 0..3 {
            let target = place.open(&kept).unwrap();
            assert!(has(target.as_ref(), 9), "the logs are read again");
            target.close().unwrap();
        }
        let mut plan = place.plan(&options);
        plan.target.destroy = true;
        let target = open(&plan, Some(&place.dir)).unwrap();
        assert!(!has(target.as_ref(), 3));
        load(target.as_ref(), 10);
        target.admin(AdminAction::Purge).unwrap();
        assert!(!has(target.as_ref(), 3));
        target.close().unwrap();
        // The directory of logs was there before this run.
        assert_eq!(std::fs::read_dir(&logs).unwrap().count(), 0);
        std::fs::remove_dir(&logs).unwrap();
        let target = place.open(&options).unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        assert!(!logs.exists());
        // Logs of another database are neither replayed nor deleted, whether the run's database is there or not.
        std::fs::create_dir(&logs).unwrap();
        let other = logs.join("000004.log");
        std::fs::write(&other, "mine").unwrap();
        assert_eq!(place.error(&options).kind(), ErrorKind::Refused);
        let target = place.open("keep = true").unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        let e = open(&plan, Some(&place.dir)).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(has(place.open("keep = true").unwrap().as_ref(), 3));
        assert_eq!(std::fs::read(&other).unwrap(), b"mine");
    }
}

/// A confirmation for a database is none for what somebody else has in its log directory.
#[test]
fn confirmed_is_the_database_and_not_what_lies_with_its_logs() {
    for place in stores().into_iter().filter(|place| place.store == "rocksdb") {
        let logs = place.dir.with_file_name("logs");
        let options = format!("options = \"wal_dir={}\"\nkeep = true", logs.display());
        let target = place.open(&options).unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        let mut plan = place.plan(&options);
        plan.target.destroy = true;
        for name in ["000777.log", "20261127.log", "archive/20250101.log", "archive/thesis"] {
            std::fs::create_dir_all(logs.join("archive")).unwrap();
            std::fs::write(logs.join(name), "mine").unwrap();
            let e = open(&plan, Some(&place.dir)).err().unwrap();
            assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
            assert!(e.to_string().contains(name), "{e}");
            assert_eq!(std::fs::read(logs.join(name)).unwrap(), b"mine");
            assert!(place.dir.join("CURRENT").exists());
            std::fs::remove_dir_all(logs.join("archive")).unwrap();
            let _ = std::fs::remove_file(logs.join(name));
        }
        open(&plan, Some(&place.dir)).unwrap().close().unwrap();
    }
}

/// A confirmation for a database is none for the directory of logs that its options name: they may be a copy's.
#[test]
fn confirmed_is_the_database_and_not_what_its_options_name() {
    for place in stores().into_iter().filter(|place| place.store == "rocksdb") {
        let logs = place.dir.with_file_name("logs");
        let made = format!("options = \"wal_dir={}\"\nkeep = true", logs.display());
        for name in ["20261127.log", "000003.log", "archive/000001.log"] {
            let target = place.open(&made).unwrap();
            load(target.as_ref(), 10);
            target.close().unwrap();
            std::fs::create_dir_all(logs.join("archive")).unwrap();
            std::fs::write(logs.join(name), "mine").unwrap();
            let mut plan = place.plan("");
            plan.target.destroy = true;
            open(&plan, Some(&place.dir)).unwrap().close().unwrap();
            assert_eq!(std::fs::read(logs.join(name)).unwrap(), b"mine", "{name}");
            std::fs::remove_dir_all(&logs).unwrap();
        }
    }
}

/// A store would delete old logs through the link.
#[test]
fn a_linked_archive_is_refused() {
    for place in stores() {
        let theirs = place.dir.with_file_name("theirs");
        std::fs::create_dir_all(&theirs).unwrap();
        std::fs::create_dir_all(&place.dir).unwrap();
        std::fs::write(theirs.join("000003.log"), "mine").unwrap();
        std::os::unix::fs::symlink(&theirs, place.dir.join("archive")).unwrap();
        std::fs::write(place.dir.join("CURRENT"), "x").unwrap();
        let mut plan = place.plan("");
        plan.target.destroy = true;
        let e = open(&plan, Some(&place.dir)).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(theirs.join("000003.log").exists() && place.dir.join("CURRENT").exists());
    }
}

/// A directory of logs that was there before the run stays, empty.
#[test]
fn a_log_directory_of_the_user_stays() {
    for place in stores().into_iter().filter(|place| place.store == "rocksdb") {
        let logs = place.dir.with_file_name("logs");
        std::fs::create_dir(&logs).unwrap();
        let options = format!("options = \"wal_dir={}\"", logs.display());
        for _ in 0..2 {
            let target = place.open(&options).unwrap();
            load(target.as_ref(), 10);
            target.close().unwrap();
            assert_eq!(std::fs::read_dir(&logs).unwrap().count(), 0);
        }
    }
}

/// A `wal_dir` that RocksDB only finds out to be read-only when it opens the new database has not cost the old one.
#[test]
fn a_log_directory_that_cannot_be_written_costs_no_database() {
    let disk = or_skip!(TestLoopDevice::new(64));
    let mount = or_skip!(disk.mounted("ext4"));
    let there = mount.path().join("logs");
    std::fs::create_dir(&there).unwrap();
    let at = mount.path().to_str().unwrap();
    or_skip!(support::run(&["mount", "-o", "remount,ro", at]));
    for place in stores().into_iter().filter(|place| place.store == "rocksdb") {
        let target = place.open("keep = true").unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        for option in ["wal_dir", "db_log_dir"] {
            for logs in [there.clone(), mount.path().join("new")] {
                let options = format!("options = \"{option}={}\"", logs.display());
                let mut plan = place.plan(&options);
                plan.target.destroy = true;
                let said = open(&plan, Some(&place.dir)).map(drop);
                if option == "wal_dir" {
                    said.unwrap_err();
                    assert!(has(place.open("keep = true").unwrap().as_ref(), 9), "{options}");
                }
            }
        }
    }
}

/// RocksDB deletes tables and logs that it finds in its log directories and does not know.
#[test]
fn log_directories_of_another_database_are_refused() {
    for place in stores().into_iter().filter(|place| place.store == "rocksdb") {
        let theirs = StoreDirectory::new("rocksdb");
        let target = theirs.open("keep = true").unwrap();
        load(target.as_ref(), 10);
        target.close().unwrap();
        let names = || {
            let entries = std::fs::read_dir(&theirs.dir).unwrap().flatten();
            entries.map(|e| (e.file_name(), e.metadata().unwrap().len())).collect::<Vec<_>>()
        };
        let before = names();
        let file = place.dir.with_file_name("OPTIONS");
        for option in ["db_log_dir", "wal_dir"] {
            let said = format!("{option}={}", theirs.dir.display());
            let text = format!("[DBOptions]\n  {said}\n[CFOptions \"default\"]\n");
            std::fs::write(&file, text).unwrap();
            let from_file = format!("options_file = \"{}\"", file.display());
            for options in [format!("options = \"max_open_files=9;{said}\""), from_file] {
                let e = place.error(&options);
                assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
                assert!(e.message().contains(option), "{e}");
                let mut plan = place.plan(&options);
                plan.target.destroy = true;
                assert_eq!(open(&plan, Some(&place.dir)).err().unwrap().kind(), ErrorKind::Refused);
            }
        }
        assert_eq!(names(), before);
        // A directory of messages is shared.
        let shared = place.dir.with_file_name("messages");
        let options = format!("options = \"db_log_dir={}\"\nkeep = true", shared.display());
        for _ in 0..2 {
            let target = place.open(&options).unwrap();
            load(target.as_ref(), 10);
            target.close().unwrap();
        }
        assert!(has(theirs.open("").unwrap().as_ref(), 9));
    }
}

/// Logs of somebody else's database come into the directory while the run goes on.
#[test]
fn logs_that_may_be_anothers_stay() {
    for place in stores().into_iter().filter(|place| place.store == "rocksdb") {
        let logs = place.dir.with_file_name("logs");
        let options = format!(
            "options = \"wal_dir={}\"\nwrite_buffer_size = \"64KiB\"\ncompression = \"none\"",
            logs.display()
        );
        let target = place.open(&options).unwrap();
        // The database uses many logs, one after the other.
        load(target.as_ref(), 1000);
        let others = ["000001.log", "000123.log", "000002.sst"].map(|name| logs.join(name));
        others.iter().for_each(|other| std::fs::write(other, "mine").unwrap());
        for action in [AdminAction::Purge, AdminAction::DropCaches] {
            assert_eq!(target.admin(action).unwrap_err().kind(), ErrorKind::Target);
            assert!(has(target.as_ref(), 999), "still open");
        }
        let e = target.close().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Target, "{e}");
        assert!(e.to_string().contains(".log"), "{e}");
        others.iter().for_each(|other| assert_eq!(std::fs::read(other).unwrap(), b"mine"));
        assert!(!place.dir.exists());
        std::fs::remove_dir_all(&logs).unwrap();
        let target = place.open(&options).unwrap();
        load(target.as_ref(), 1000);
        target.close().unwrap();
        assert!(!logs.exists() && !place.dir.exists());
    }
}

/// A directory of messages, which is shared, gets somebody's database while the run goes on.
#[test]
fn log_directories_are_looked_at_whenever_the_database_is_opened() {
    for place in stores().into_iter().filter(|place| place.store == "rocksdb") {
        let messages = place.dir.with_file_name("messages");
        let options = format!("options = \"db_log_dir={}\"", messages.display());
        for action in [AdminAction::DropCaches, AdminAction::Purge] {
            let target = place.open(&options).unwrap();
            let table = messages.join("000005.sst");
            std::fs::write(&table, "mine").unwrap();
            assert_eq!(target.admin(action).unwrap_err().kind(), ErrorKind::Refused);
            assert_eq!(std::fs::read(&table).unwrap(), b"mine");
            drop(target);
            std::fs::remove_dir_all(&place.dir).unwrap();
            std::fs::remove_dir_all(&messages).unwrap();
        }
    }
}
