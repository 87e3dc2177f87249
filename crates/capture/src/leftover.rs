//! Chunks that a process left in memory when it died without removing them: found, and removed where nobody
//! needs them. [`crate::salvage`] turns the chunks of a run into `ios.parquet`.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use taillight_rundir::RunDir;
use taillight_rundir::manifest::RunStatus;
use taillight_rundir::names;

use crate::dir::{OWNER, Owner, SHM, begun, is_chunk, remove, remove_empty, run_id};

/// Making a directory complete takes less by far.
const BEGUN_FOR: Duration = Duration::from_secs(60);

/// Chunks in memory whose process is gone; held against others that look for such.
#[derive(Debug)]
pub struct Leftover {
    path: PathBuf,
    owner: Owner,
    /// Memory they take.
    pub bytes: u64,
    _lock: File,
}

/// What is to be done about a leftover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftoverFate {
    /// Nobody needed it: it is removed.
    Removed,
    /// `taillight report` on this directory saves it.
    Saved(PathBuf),
    /// What it belongs to is not where it was: it was given another name, or is gone, and then these
    /// directories may go.
    Orphaned { run: PathBuf, dirs: Vec<PathBuf> },
}

/// What killed processes of this user left in memory, the newest first, each locked while it is held. Removes
/// directories that were never made complete.
pub fn leftovers() -> Vec<Leftover> {
    let Ok(me) = fs::metadata("/proc/self").map(|m| m.uid()) else {
        return Vec::new();
    };
    let entries = fs::read_dir(SHM).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.filter_map(|entry| leftover(entry.path(), me)).collect();
    // Names begin with the time: the newest first.
    found.sort_by(|a, b| b.path.cmp(&a.path));
    found
}

fn leftover(path: PathBuf, me: u32) -> Option<Leftover> {
    let (begun, meta) = (begun(&path), fs::symlink_metadata(&path).ok()?);
    if !(begun || run_id(&path).is_some()) || !meta.is_dir() || meta.uid() != me {
        return None;
    }
    if begun {
        // Killed while it was made or removed: no chunk is in it. It may also be made right now.
        let age = meta.modified().ok()?.elapsed().unwrap_or_default();
        if age >= BEGUN_FOR {
            let _ = remove_empty(&path);
        }
        return None;
    }
    let lock = File::open(path.join(OWNER)).ok()?;
    lock.try_lock().ok()?;
    let owner = serde_json::from_slice(&fs::read(path.join(OWNER)).ok()?).ok()?;
    let mut bytes = 0;
    for entry in fs::read_dir(&path).ok()? {
        let file = entry.ok()?.path();
        if is_chunk(&file) {
            bytes += fs::metadata(&file).ok()?.len();
        } else if file.file_name()? != OWNER {
            return None;
        }
    }
    Some(Leftover { path, owner, bytes, _lock: lock })
}

impl Leftover {
    /// The run directory it belongs to; none where nobody needs it.
    pub fn run(&self) -> Option<&Path> {
        self.owner.run.as_deref()
    }

    /// Removes what nobody needs, and says what to do about the rest, which stays as it is.
    pub fn reclaim(self) -> LeftoverFate {
        let places = [Some(self.path.clone()), self.owner.spill.clone()].into_iter().flatten();
        let places: Vec<PathBuf> = places.filter(|p| p.is_dir()).collect();
        let Some(run) = &self.owner.run else {
            return self.removed(places);
        };
        let orphaned = |places| self.orphaned(places);
        match RunDir::open(run) {
            Ok(dir) if run_id(&self.path) != Some(&dir.manifest().run_id) => orphaned(places),
            Ok(dir) if dir.manifest().status == RunStatus::Running => {
                LeftoverFate::Saved(run.clone())
            }
            // Its end was written, and only the removal was not reached.
            Ok(dir) if dir.existing(names::IOS).is_some() => self.removed(places),
            _ => orphaned(places),
        }
    }

    fn orphaned(&self, dirs: Vec<PathBuf>) -> LeftoverFate {
        LeftoverFate::Orphaned { run: self.owner.run.clone().unwrap_or_default(), dirs }
    }

    fn removed(&self, places: Vec<PathBuf>) -> LeftoverFate {
        match places.iter().all(|place| remove(place).is_ok()) {
            true => LeftoverFate::Removed,
            false => self.orphaned(places),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dir::{CaptureDir, capture_dir, dir_name, spill_dir};
    use taillight_rundir::fixture;

    fn id(name: &str) -> String {
        format!("test-{name}-{}", std::process::id())
    }

    fn found(id: &str) -> Option<Leftover> {
        leftovers().into_iter().find(|l| l.path == capture_dir(id))
    }

    /// As a killed process leaves it: everything there, nobody holds it.
    fn abandoned(id: &str, run: Option<&Path>) {
        let dir = CaptureDir::create(id, run, None).unwrap();
        fs::write(dir.path().join("0.chunk"), [0; 100]).unwrap();
        assert!(found(id).is_none(), "somebody holds it");
        dir.persist();
    }

    #[test]
    fn directories_of_others_under_its_names_stay_as_they_are() {
        let home = tempfile::tempdir().unwrap();
        let id = id("taken");
        let spill = spill_dir(home.path(), &id);
        fs::create_dir(&spill).unwrap();
        fs::write(spill.join("0.chunk"), "mine").unwrap();
        assert!(CaptureDir::create(&id, None, Some(home.path())).is_err());
        assert_eq!(fs::read(spill.join("0.chunk")).unwrap(), b"mine");
        assert!(!capture_dir(&id).exists());
        let begun = Path::new(SHM).join(format!(".{}", dir_name(&id)));
        fs::create_dir(&begun).unwrap();
        fs::write(begun.join("mine.txt"), "mine").unwrap();
        assert!(CaptureDir::create(&id, None, None).is_err());
        assert!(begun.join("mine.txt").exists());
        fs::remove_dir_all(&begun).unwrap();
    }

    #[test]
    fn a_calibration_that_was_killed_is_removed() {
        let id = id("calibration");
        abandoned(&id, None);
        let left = found(&id).unwrap();
        assert_eq!(left.bytes, 100);
        assert_eq!(left.reclaim(), LeftoverFate::Removed);
        assert!(!capture_dir(&id).exists());
    }

    #[test]
    fn a_killed_run_is_named_and_its_chunks_stay() {
        let home = tempfile::tempdir().unwrap();
        let run = home.path().join("run");
        let (gone, running) = (id("gone"), id("running"));
        abandoned(&gone, Some(&home.path().join("no")));
        assert_eq!(
            found(&gone).unwrap().reclaim(),
            LeftoverFate::Orphaned { run: home.path().join("no"), dirs: vec![capture_dir(&gone)] }
        );
        let mut manifest = fixture::manifest(&running);
        manifest.status = RunStatus::Running;
        drop(RunDir::create(&run, &manifest).unwrap());
        abandoned(&running, Some(&run));
        assert_eq!(found(&running).unwrap().reclaim(), LeftoverFate::Saved(run));
        for id in [gone, running] {
            assert!(capture_dir(&id).join("0.chunk").exists());
            remove(&capture_dir(&id)).unwrap();
        }
    }

    #[test]
    fn what_was_killed_while_it_was_made_or_removed_goes() {
        let id = id("begun");
        let new = Path::new(SHM).join(format!(".{}", dir_name(&id)));
        fs::create_dir(&new).unwrap();
        drop(CaptureDir::fill(&new, &Owner::default()).unwrap());
        leftovers();
        assert!(new.exists(), "perhaps it is being made");
        let then = std::time::SystemTime::now() - BEGUN_FOR;
        File::open(&new).unwrap().set_modified(then).unwrap();
        leftovers();
        assert!(!new.exists());
        drop(CaptureDir::create(&id, None, None).unwrap());
        assert!(!new.exists() && !capture_dir(&id).exists());
    }

    #[test]
    fn what_is_not_ours_is_not_seen() {
        let id = id("foreign");
        abandoned(&id, None);
        fs::write(capture_dir(&id).join("mine.txt"), "mine").unwrap();
        assert!(found(&id).is_none());
        fs::remove_file(capture_dir(&id).join("mine.txt")).unwrap();
        fs::remove_file(capture_dir(&id).join(OWNER)).unwrap();
        assert!(found(&id).is_none());
        fs::remove_dir_all(capture_dir(&id)).unwrap();
    }
}
