//! What was Taillight's may not be any more: runs that are killed or keep their data, what its user then
//! does with it, and the run after that. Nothing of the user's is lost, and what is proven to be ours is used
//! again without a question.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::common::{has_library, run_line, scratch_on_disk, signal, start_measuring, unwrapped};

const SIDECAR: &str = ".taillight-owner.json";

/// A home with a job in it.
struct Home {
    dir: tempfile::TempDir,
    /// Runs so far: each has an output directory of its own.
    runs: u32,
}

impl Home {
    /// A job on this target with this work; a kill leaves nothing of it in memory.
    fn new(target: &str, work: &str) -> Home {
        let job = format!(
            "[run]\nduration = \"60s\"\ninterval = \"100ms\"\n[capture]\nmode = \"off\"\n[target]\n{target}\n\
             [[workload]]\nblock_size = \"4KiB\"\naccess = \"random\"\n{work}\n"
        );
        let dir = scratch_on_disk();
        fs::write(dir.path().join("job.toml"), job).expect("written");
        Home { dir, runs: 0 }
    }

    fn file(options: &str, work: &str) -> Home {
        let target = format!(
            "driver = \"file\"\npath = \"data\"\nsize = \"4MiB\"\n[target.options]\ndirect = false\n\
             {options}"
        );
        Home::new(&target, work)
    }

    fn store(driver: &str, options: &str) -> Home {
        let target = format!("driver = \"{driver}\"\npath = \"db\"\n[target.options]\n{options}");
        Home::new(&target, "mix = \"update\"\nkeys = { count = 500 }")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn line(&mut self, more: &str) -> String {
        self.runs += 1;
        format!("run job.toml --output out{} {more}", self.runs)
    }

    /// Starts a run that the kernel ends while it measures.
    fn killed(&mut self) {
        let line = self.line("");
        let mut child = start_measuring(self.dir.path(), &line);
        signal(&child, "KILL");
        child.wait().expect("it ends");
    }

    /// A short run; what it said.
    fn ends(&mut self, more: &str, code: i32) -> String {
        let line = self.line(&format!("--set run.duration=200ms {more}"));
        let (out, err) = run_line(self.dir.path(), &line, code);
        unwrapped(&(out + &err))
    }

    /// A run that is refused and changes nothing below `name`.
    fn refused(&mut self, name: &str, words: &[&str]) {
        let before = tree(&self.at(name));
        let said = self.ends("", 3);
        assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
        assert!(tree(&self.at(name)) == before, "{said}");
    }
}

/// A file, or the files in a directory, with their bytes; not Taillight's marks.
fn tree(at: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    if at.is_file() {
        return BTreeMap::from([(at.to_owned(), fs::read(at).expect("readable"))]);
    }
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(at).expect("a directory").flatten() {
        if !entry.file_name().to_string_lossy().starts_with(SIDECAR) {
            all.append(&mut tree(&entry.path()));
        }
    }
    all
}

const UNPROVEN: [&str; 3] = ["left by a killed run, or changed since", "delete it", "--destroy"];

#[test]
fn a_file_that_a_killed_run_wrote_is_nobodys_to_overwrite() {
    let mut home = Home::file("", "mix = \"write\"");
    home.killed();
    let data = home.at("data");
    home.refused("data", &UNPROVEN);
    // Its user writes into it, or puts a file of his own there, perhaps with the same inode number.
    fs::write(&data, "results").expect("written");
    home.refused("data", &UNPROVEN);
    fs::remove_file(&data).expect("deleted");
    fs::write(&data, vec![7; 4 << 20]).expect("written");
    home.refused("data", &["--destroy"]);
    // A plan that only reads does not delete it in the end.
    home.ends("--set workload.0.mix=read", 0);
    assert_eq!(fs::read(&data).expect("still there"), vec![7; 4 << 20]);
    fs::remove_file(&data).expect("deleted");
    home.ends("", 0);
    assert!(!data.exists() && !home.at(SIDECAR).exists());
    home.killed();
    home.ends("--set target.destroy=true --destroy data", 0);
    assert!(!data.exists() && !home.at(SIDECAR).exists());
}

#[test]
fn a_file_that_a_killed_run_only_read_is_used_again() {
    let mut home = Home::file("", "mix = \"read\"");
    home.killed();
    let data = home.at("data");
    assert!(data.exists());
    home.ends("--set workload.0.mix=write", 0);
    assert!(!data.exists() && !home.at(SIDECAR).exists());
    home.killed();
    let times = fs::metadata(&data).expect("there").modified().expect("a time");
    let file = fs::OpenOptions::new().write(true).open(&data).expect("open");
    std::os::unix::fs::FileExt::write_all_at(&file, b"my results", 4096).expect("written");
    file.set_modified(times).expect("set back");
    drop(file);
    let before = tree(&data);
    // Reading it is allowed, and leaves it.
    home.ends("", 0);
    assert!(tree(&data) == before);
    let said = home.ends("--set workload.0.mix=write", 3);
    assert!(UNPROVEN.iter().all(|word| said.contains(word)), "{said}");
    assert!(tree(&data) == before);
}

#[test]
fn a_kept_file_is_reused_until_somebody_changed_it() {
    let mut home = Home::file("keep = true", "mix = { read = 1, write = 1 }");
    home.ends("", 0);
    let data = home.at("data");
    let inode = || fs::metadata(&data).expect("there").ino();
    let first = inode();
    home.ends("", 0);
    assert_eq!(inode(), first);
    let times = fs::metadata(&data).expect("there").modified().expect("a time");
    fs::write(&data, vec![7; 4 << 20]).expect("written");
    let file = fs::OpenOptions::new().write(true).open(&data).expect("open");
    file.set_modified(times).expect("set back");
    drop(file);
    home.refused("data", &UNPROVEN);
    let said = home.ends("--set workload.0.mix=read", 0);
    assert!(fs::read(&data).expect("there") == vec![7; 4 << 20], "{said}");
    home.refused("data", &UNPROVEN);
}

#[test]
fn a_database_is_ours_as_long_as_nobody_else_used_it() {
    for driver in ["rocksdb", "leveldb"].into_iter().filter(|driver| has_library(driver)) {
        let mut theirs = Home::store(driver, "keep = true");
        theirs.ends("", 0);
        let mut home = Home::store(driver, "");
        let db = home.at("db");
        // Puts the database of somebody else into the directory, whose mark stays.
        let replace = |clear: bool| {
            for path in tree(&db).into_keys().filter(|_| clear) {
                fs::remove_file(path).expect("deleted");
            }
            for (path, bytes) in tree(&theirs.at("db")) {
                fs::write(db.join(path.file_name().expect("a name")), bytes).expect("copied");
            }
        };
        for clear in [true, false] {
            home.killed();
            assert!(db.join(SIDECAR).exists());
            replace(clear);
            home.refused("db", &UNPROVEN);
            fs::remove_dir_all(&db).expect("deleted");
            // Files of another database beside those of the killed run.
            home.killed();
            fs::write(db.join("900123.sst"), "mine").expect("written");
            home.refused("db", &UNPROVEN);
            fs::remove_dir_all(&db).expect("deleted");
        }
        // Nor where nobody used it: nothing tells.
        home.killed();
        home.refused("db", &UNPROVEN);
        home.ends("--set target.destroy=true --destroy db", 0);
        assert!(tree(&db).is_empty() && !db.join(SIDECAR).exists());
        // A kept one is reused, also after a look at it, and not when another is in its place.
        home.ends("--set target.options.keep=true", 0);
        home.ends("", 0);
        assert!(db.exists());
        fs::write(db.join("LOG"), "looked at").expect("written");
        home.ends("", 0);
        replace(true);
        home.refused("db", &UNPROVEN);
        home.ends("--set target.destroy=true --destroy db", 0);
    }
}
