//! Tells the files of a run's database from others named alike that somebody has put among them, by file number and
//! time of birth, and deletes the run's.

use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use taillight_core::{Error, Result};

use super::numbers::{KnownNumbers, StoreFile};
use crate::ownership::OwnedDirectory;
use crate::ownership::content::listed;
use crate::path_error::cannot;

/// The files in a directory that are named like a store's, by their paths below it.
pub struct OwnFiles {
    own: Vec<PathBuf>,
    /// Those with a number that the store has not given out, and those older than the run's new database.
    others: Vec<PathBuf>,
}

impl OwnFiles {
    /// Looks at files named like those of the driver's store in `dir`, and like its logs in `dir/archive`. `since_ns`
    /// is when the run began a new database there: without it, or times of birth, age is not compared, nor are numbers
    /// without a manifest. Errors: `Unavailable` when a directory cannot be listed.
    pub fn of(driver: &str, dir: &OwnedDirectory, since_ns: Option<i64>) -> Result<OwnFiles> {
        let path = dir.exact_path();
        let known = KnownNumbers::of(&path);
        let (mut own, mut others) = (Vec::new(), Vec::new());
        for (below, logs_only) in [("", false), ("archive", true)] {
            for (name, is) in listed(&path.join(below))? {
                let number = match StoreFile::of(driver, &name) {
                    None => continue,
                    Some(StoreFile::Log(number)) => Some(number),
                    Some(_) if logs_only => continue,
                    Some(StoreFile::Table(number)) => Some(number),
                    Some(StoreFile::Head) => None,
                };
                let given = number.zip(known).is_none_or(|(number, known)| known.gave(number));
                let older = is.birth_ns.zip(since_ns).is_some_and(|(it, since)| it < since);
                let list = if given && !older { &mut own } else { &mut others };
                list.push(Path::new(below).join(name));
            }
        }
        Ok(OwnFiles { own, others })
    }

    /// Errors: `Target` where somebody else has put files among them.
    pub fn alone(&self, dir: &Path) -> Result<()> {
        let Some(one) = self.others.first() else { return Ok(()) };
        let what = "somebody has put files among those of the database: they stay";
        Err(Error::target(what)
            .with("one of them", dir.join(one).display())
            .with("files", self.others.len())
            .hint("move them away: a store deletes what is named like its own files"))
    }

    /// Deletes the database's own files, then `archive` where it is empty. Errors: `Unavailable`, naming the first file
    /// that cannot be deleted; those behind it stay.
    pub fn delete(&self, dir: &OwnedDirectory) -> Result<()> {
        for name in &self.own {
            match unlinkat(dir.fd(), name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(e) => {
                    let path = dir.path().join(name);
                    return Err(cannot("cannot delete a file of the database", &path, e));
                }
            }
        }
        let _ = unlinkat(dir.fd(), "archive", AtFlags::REMOVEDIR);
        Ok(())
    }
}
