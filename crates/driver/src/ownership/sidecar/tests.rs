//! Marks as they are written, read, replaced and removed.

use super::*;

fn mark(dir: &OwnedDirectory, name: &str) -> FileMark {
    let found = FileIdentity::at(&dir.fd, name).unwrap();
    FileMark::new(name, &found, dir.filesystem(), "r1", false)
}

#[test]
fn a_mark_proves_what_nobody_changed_since_its_seal() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    let path = tmp.path().join("a");
    std::fs::write(&path, b"12345").unwrap();
    let now = || FileIdentity::at(&dir.fd, "a").unwrap();
    let mut mark = mark(&dir, "a");
    let is = |mark: &FileMark, file| mark.node.is(&file, dir.filesystem());
    let proves = |mark: &FileMark, file| mark.proves(&file, dir.filesystem());
    assert!(is(&mark, now()) && !proves(&mark, now()), "in use, or its run was killed");
    mark.seal(&now(), None);
    assert!(proves(&mark, now()));
    // As earlier versions sealed it.
    let node = MarkedNode { birth_ns: None, filesystem: None, ..mark.node.clone() };
    let earlier = FileMark { node, changed_ns: None, ..mark.clone() };
    assert!(proves(&earlier, now()));
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, b"54321").unwrap();
    assert!(!proves(&mark, now()) && !proves(&earlier, now()));
    std::fs::File::open(&path).unwrap().set_modified(modified).unwrap();
    assert_eq!(now().modified_ns, mark.modified_ns.unwrap());
    assert!(!proves(&mark, now()) && !proves(&earlier, now()), "its times were set back");
    // A file made anew that got the same inode number.
    let anew = FileIdentity { birth_ns: now().birth_ns.map(|at| at + 1), ..now() };
    mark.seal(&now(), None);
    assert!(anew.birth_ns.is_none() || !is(&mark, anew) && !proves(&mark, anew));
}

#[test]
fn temporary_names_of_others_stay() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    std::fs::write(tmp.path().join("a"), b"x").unwrap();
    let theirs = tmp.path().join("theirs");
    std::fs::write(&theirs, b"mine").unwrap();
    let name = |n: u32| format!("{SIDECAR}.{}-{n}", std::process::id());
    std::os::unix::fs::symlink(&theirs, tmp.path().join(name(0))).unwrap();
    std::fs::write(tmp.path().join(name(1)), b"mine too").unwrap();
    let earlier = tmp.path().join(format!("{SIDECAR}.{}", std::process::id()));
    std::fs::write(&earlier, b"mine as well").unwrap();
    dir.add(&[mark(&dir, "a")]).unwrap();
    assert_eq!(dir.marks().unwrap().len(), 1);
    assert_eq!(std::fs::read(&theirs).unwrap(), b"mine");
    assert_eq!(std::fs::read(tmp.path().join(name(1))).unwrap(), b"mine too");
    assert_eq!(std::fs::read(&earlier).unwrap(), b"mine as well");
    assert!(!tmp.path().join(name(2)).exists());
}

#[test]
fn what_a_killed_process_left_of_a_mark_goes_with_the_next() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    std::fs::write(tmp.path().join("a"), b"x").unwrap();
    let mut dead = std::process::Command::new("true").spawn().unwrap();
    dead.wait().unwrap();
    let name = |n: u32| tmp.path().join(format!("{SIDECAR}.{}-{n}", dead.id()));
    for (n, text) in ["", "{\n  \"taill", "{\n  \"taillight_owner\": 1,"].iter().enumerate() {
        std::fs::write(name(n as u32), text).unwrap();
    }
    std::fs::write(name(7), "mine").unwrap();
    let note = tmp.path().join(format!("{SIDECAR}.note-1"));
    std::fs::write(&note, "").unwrap();
    dir.add(&[mark(&dir, "a")]).unwrap();
    assert!((0..3).all(|n| !name(n).exists()));
    assert!(name(7).exists() && note.exists());
}

#[test]
fn a_mark_too_large_to_be_one_is_not_read_whole() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    let huge = std::fs::File::create(tmp.path().join(SIDECAR)).unwrap();
    huge.set_len(64 << 30).unwrap();
    let e = dir.marks().unwrap_err();
    assert_eq!(e.kind(), taillight_core::ErrorKind::Corrupt);
    assert!(e.message().contains("larger than any"), "{e}");
}

#[test]
fn marks_come_and_go_with_their_files() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    for name in ["a", "b"] {
        std::fs::write(tmp.path().join(name), b"x").unwrap();
        dir.add(&[mark(&dir, name)]).unwrap();
    }
    let marks = dir.marks().unwrap();
    assert_eq!(marks.len(), 2);
    let file = std::fs::File::open(tmp.path().join("a")).unwrap();
    let file = FileIdentity::of(&file).unwrap();
    let is = |mark: &FileMark| mark.node.is(&file, dir.filesystem());
    assert!(is(&marks[0]) && !is(&marks[1]));

    dir.delete(&marks[..1]).unwrap();
    assert!(!tmp.path().join("a").exists() && tmp.path().join("b").exists());
    dir.delete(&marks[1..]).unwrap();
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
}

#[test]
fn a_time_of_change_is_looked_for_and_nothing_stays_behind() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    assert_eq!(dir.evidence(), ChangeEvidence::Time);
    assert_eq!(std::fs::read_dir(tmp.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_cannot_be_asked_keeps_its_mark() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    std::fs::write(tmp.path().join("a"), b"x").unwrap();
    // ENAMETOOLONG stands for what is not ENOENT.
    let unknown = FileMark { name: "n".repeat(300), ..mark(&dir, "a") };
    dir.add(std::slice::from_ref(&unknown)).unwrap();
    assert!(dir.found(&unknown).is_err());
    assert!(dir.delete(std::slice::from_ref(&unknown)).is_err());
    assert_eq!(dir.marks().unwrap(), [unknown]);
    let gone = FileMark { name: "gone".to_owned(), ..mark(&dir, "a") };
    assert_eq!(dir.found(&gone).unwrap(), None);
}

#[test]
fn a_replaced_file_is_not_deleted() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    std::fs::write(tmp.path().join("a"), b"x").unwrap();
    let mine = mark(&dir, "a");
    dir.add(std::slice::from_ref(&mine)).unwrap();
    std::fs::write(tmp.path().join("theirs"), b"y").unwrap();
    std::fs::rename(tmp.path().join("theirs"), tmp.path().join("a")).unwrap();
    dir.delete(&[mine]).unwrap();
    assert_eq!(std::fs::read(tmp.path().join("a")).unwrap(), b"y");
}

#[test]
fn a_database_has_one_mark_beside_those_of_files() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    let node = MarkedNode::of(&dir.identity().unwrap(), dir.filesystem());
    let driver = "rocksdb".to_owned();
    let mut identity = DirectoryIdentity { driver, node, ..Default::default() };
    identity.files = Some("3 files 0123456789abcdef".to_owned());
    let database = DatabaseMark::new(identity, "r1", true, "user".to_owned());
    let bytes = database.bytes().unwrap();
    dir.create(&bytes).unwrap();
    let e = dir.create(&bytes).unwrap_err();
    assert_eq!(e.kind(), taillight_core::ErrorKind::Refused);
    std::fs::write(tmp.path().join("a"), b"x").unwrap();
    dir.add(&[mark(&dir, "a")]).unwrap();
    let read = || dir.read().unwrap().map(|b| DatabaseMark::parse(&b).unwrap());
    assert_eq!(read(), Some(database.clone()));
    let more = DatabaseMark { records: 11, ..database };
    dir.renew(&more.bytes().unwrap()).unwrap();
    assert_eq!(read(), Some(more));
    MarkStore::remove(&dir).unwrap();
    assert_eq!(read(), None);
    assert_eq!(dir.marks().unwrap().len(), 1);
}

#[test]
fn a_broken_mark() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    std::fs::write(tmp.path().join(SIDECAR), b"{").unwrap();
    assert_eq!(dir.marks().unwrap_err().kind(), taillight_core::ErrorKind::Corrupt);
    std::fs::write(tmp.path().join(SIDECAR), b"{\"taillight_owner\":9,\"files\":[]}").unwrap();
    assert_eq!(dir.marks().unwrap_err().kind(), taillight_core::ErrorKind::Corrupt);
}

/// Marks as earlier versions wrote them, byte by byte.
#[test]
fn marks_of_earlier_versions_are_read() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
    let text = r#"{
  "taillight_owner": 1,
  "files": [
    {
      "name": "taillight-0.dat",
      "inode": 18446744073709551615,
      "device": "254:0",
      "size": 1048576,
      "run_id": "20260101T000000Z-1",
      "keep": true,
      "modified_ns": 1767225600000000000
    },
    {
      "name": "stream.dat",
      "inode": 12,
      "device": "254:0",
      "size": 67108864,
      "grows": true,
      "run_id": "r2",
      "keep": false
    }
  ],
  "store": {
    "driver": "rocksdb",
    "inode": 4711,
    "device": "254:0",
    "run_id": "r1",
    "keep": true,
    "form": "keys hashed \"user\" 1 from 0; values one piece",
    "records": 1000
  }
}"#;
    std::fs::write(tmp.path().join(SIDECAR), text).unwrap();
    let files = dir.marks().unwrap();
    assert_eq!(files[0].node.inode, u64::MAX);
    assert_eq!(files[0].modified_ns, Some(1_767_225_600_000_000_000));
    assert_eq!(files[1].modified_ns, None);
    let mark = DatabaseMark::parse(&dir.read().unwrap().unwrap()).unwrap();
    assert_eq!(mark.identity.driver, "rocksdb");
    assert_eq!((mark.identity.node.inode, mark.records, mark.keep), (4711, 1000, true));
    // Unchanged, it is written as it was, but for what nothing depends on any more.
    dir.renew(&mark.bytes().unwrap()).unwrap();
    let text = text.replace("      \"grows\": true,\n", "");
    assert_eq!(std::fs::read_to_string(tmp.path().join(SIDECAR)).unwrap(), text);
}
