//! What a series of phases may take away in its directories: it begins in empty ones, and in the end removes what its
//! own runs made and nobody has changed since. Whatever else is there stays.

use std::path::{Path, PathBuf};

use taillight_core::{Error, Result, StopFlag};
use taillight_driver::identity::FileIdentity;
use taillight_driver::metadata;
use taillight_driver::ownership::OwnedDirectory;

/// The directories of the phases, as they were before the first.
pub struct PhaseDirectories {
    /// Each with whether it was there.
    all: Vec<(PathBuf, bool)>,
}

impl PhaseDirectories {
    /// Looks at them; each is named once.
    pub fn new(dirs: impl Iterator<Item = PathBuf>) -> PhaseDirectories {
        let mut all: Vec<(PathBuf, bool)> = Vec::new();
        for dir in dirs {
            if !all.iter().any(|(known, _)| *known == dir) {
                let there = dir.symlink_metadata().is_ok();
                all.push((dir, there));
            }
        }
        PhaseDirectories { all }
    }

    pub fn paths(&self) -> Vec<PathBuf> {
        self.all.iter().map(|(dir, _)| dir.clone()).collect()
    }

    /// Removes what these runs made, and directories that were not there before. Returns the directories in which
    /// something is left.
    pub fn tidy_up(&self, runs: &[String]) -> Vec<PathBuf> {
        let mut left = Vec::new();
        for (dir, was_there) in &self.all {
            let Ok(owned) = OwnedDirectory::open(dir, &StopFlag::default()) else { continue };
            // What cannot be removed is found below.
            let _ = remove_own(&owned, runs);
            let _ = metadata::remove_kept(dir, runs);
            if !was_there {
                let _ = std::fs::remove_dir(dir);
            }
            if !empty(dir) {
                left.push(dir.clone());
            }
        }
        left
    }
}

/// Deletes the files that one of these runs marked last and that are as it left them.
fn remove_own(dir: &OwnedDirectory, runs: &[String]) -> Result<()> {
    let mut marks = dir.marks()?;
    marks.retain(|mark| {
        let found = FileIdentity::at(dir.fd(), mark.name.as_str());
        runs.contains(&mark.run_id) && found.is_ok_and(|found| dir.proves(mark, &found))
    });
    if marks.is_empty() { Ok(()) } else { dir.delete(&marks) }
}

/// Whether a directory has nothing in it but `lost+found`, or cannot be listed (there is none, for example).
fn empty(dir: &Path) -> bool {
    let Ok(all) = std::fs::read_dir(dir) else { return true };
    all.flatten().all(|entry| entry.file_name() == "lost+found")
}

/// Refuses a new series where one of its directories holds something: it would use that, and remove it as its own.
/// Errors: `Refused`.
pub fn begins_in_empty(dirs: &[PathBuf]) -> Result<()> {
    let Some(dir) = dirs.iter().find(|dir| !empty(dir)) else { return Ok(()) };
    Err(Error::refused("a directory of the suite's phases is not empty")
        .with("path", dir.display())
        .hint("name another directory with --path, or move away what is in this one"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_driver::ownership::FileMark;

    /// A file that a run has kept, sealed.
    fn kept(dir: &OwnedDirectory, name: &str, run: &str) {
        std::fs::write(dir.path().join(name), "data").expect("written");
        let found = FileIdentity::at(dir.fd(), name).expect("it is there");
        let mut mark = FileMark::new(name, &found, dir.filesystem(), run, true);
        mark.seal(&found, None);
        dir.add(&[mark]).expect("marked");
    }

    fn names(dir: &Path) -> Vec<String> {
        let all = std::fs::read_dir(dir).expect("listed").flatten();
        let mut all: Vec<String> =
            all.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        all.sort();
        all
    }

    #[test]
    fn only_what_the_series_made_and_nobody_changed_goes() {
        let tmp = tempfile::tempdir().expect("a directory");
        let (new, old) = (tmp.path().join("new"), tmp.path().join("old"));
        std::fs::create_dir(&old).expect("made");
        let dirs = PhaseDirectories::new([&new, &old, &new].map(PathBuf::clone).into_iter());
        assert_eq!(dirs.paths(), [new.clone(), old.clone()]);
        std::fs::create_dir(&new).expect("made");
        let open = |dir: &Path| OwnedDirectory::open(dir, &StopFlag::default()).expect("opened");
        for dir in [&new, &old] {
            kept(&open(dir), "mine.dat", "mine");
        }
        let runs = ["mine".to_owned()];
        assert!(dirs.tidy_up(&runs).is_empty());
        assert!(!new.exists() && names(&old).is_empty(), "the directory that was there stays");

        std::fs::create_dir(&new).expect("made");
        let dir = open(&new);
        kept(&dir, "mine.dat", "mine");
        kept(&dir, "theirs.dat", "theirs");
        kept(&dir, "changed.dat", "mine");
        std::thread::sleep(std::time::Duration::from_millis(20));
        // The same inode and the same size.
        std::fs::write(new.join("changed.dat"), "user").expect("written");
        std::fs::write(new.join("thesis"), "user").expect("written");
        assert_eq!(dirs.tidy_up(&runs), std::slice::from_ref(&new));
        let left = [".taillight-owner.json", "changed.dat", "theirs.dat", "thesis"];
        assert_eq!(names(&new), left);
        assert_eq!(std::fs::read(new.join("changed.dat")).expect("read"), b"user");
        assert_eq!(std::fs::read(new.join("theirs.dat")).expect("read"), b"data");
        assert!(open(&new).marks().expect("marks").iter().any(|mark| mark.run_id == "theirs"));
    }

    #[test]
    fn a_new_series_begins_in_empty_directories() {
        let tmp = tempfile::tempdir().expect("a directory");
        let dirs = ["none", "empty", "used"].map(|name| tmp.path().join(name));
        std::fs::create_dir(&dirs[1]).expect("made");
        std::fs::create_dir(dirs[1].join("lost+found")).expect("made");
        begins_in_empty(&dirs).expect("nothing in them");
        std::fs::create_dir(&dirs[2]).expect("made");
        std::fs::write(dirs[2].join("taillight-0.dat"), "").expect("written");
        let e = begins_in_empty(&dirs).expect_err("refused");
        assert_eq!(e.kind(), taillight_core::ErrorKind::Refused);
        assert!(e.to_string().contains("used"), "{e}");
    }
}
