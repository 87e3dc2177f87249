//! Regular files that Taillight made: their marks, and what the end of a run does to them.
//!
//! A file is Taillight's when its mark names its inode, device and size, and nobody changed it since
//! the run that kept it ended. A file that a killed run was still appending to has neither a final
//! size nor a time of change: its mark proves nothing, so that it needs confirmation. The mark is
//! written before the first byte of data and removed after the file, so that a killed run leaves
//! files that the next run still knows.

use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, ftruncate, openat, statat, unlinkat};
use serde::{Deserialize, Serialize};
use taillight_core::Result;

use super::sidecar::{OwnedDirectory, device};
use crate::path_error::cannot;

/// One file that Taillight made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    /// Name in the directory.
    pub name: String,
    pub inode: u64,
    /// Device of the file system, "major:minor".
    pub device: String,
    /// Size, bytes.
    pub size: u64,
    /// It is being appended to: any size up to `size` is right.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub grows: bool,
    /// Run that made it.
    pub run_id: String,
    /// Stays after the run.
    pub keep: bool,
    /// When it was last changed, ns since the epoch; absent while a run uses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<i64>,
}

impl FileMark {
    /// Whether this is the mark of the file with this `stat`, as far as the run that uses it can
    /// tell; a later run asks [`FileMark::unfinished`] too.
    pub fn fits(&self, stat: &Stat) -> bool {
        let size = u64::try_from(stat.st_size);
        self.same_file(stat)
            && size.is_ok_and(|size| size == self.size || (self.grows && size < self.size))
            && self.modified_ns.is_none_or(|at| at == modified_ns(stat))
    }
    /// Notes when the file was last changed and how large it became: from now on a later change
    /// makes it foreign.
    pub fn seal(&mut self, stat: &Stat) {
        self.size = u64::try_from(stat.st_size).unwrap_or(self.size);
        self.grows = false;
        self.modified_ns = Some(modified_ns(stat));
    }
    /// Whether a run that appended to this very file was killed: what is in it now may be anybody's.
    pub fn unfinished(&self, stat: &Stat) -> bool {
        self.grows && self.modified_ns.is_none() && self.same_file(stat)
    }
    pub(super) fn same_file(&self, stat: &Stat) -> bool {
        self.inode == stat.st_ino && self.device == device(stat)
    }
}

fn modified_ns(stat: &Stat) -> i64 {
    let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(nanos)
}

/// Files and directory that stand under this run's marks.
pub struct MarkedFiles {
    dir: OwnedDirectory,
    temporary: Vec<FileMark>,
    kept: Vec<FileMark>,
    /// Kept files that this run enlarged and was not asked to keep, with the sizes they had.
    enlarged: Vec<(String, u64)>,
    made_dir: bool,
}

impl MarkedFiles {
    /// Nothing yet; with `made_dir`, the directory itself goes in the end.
    pub fn new(dir: OwnedDirectory, made_dir: bool) -> MarkedFiles {
        MarkedFiles { dir, temporary: Vec::new(), kept: Vec::new(), enlarged: Vec::new(), made_dir }
    }

    pub fn dir(&self) -> &OwnedDirectory {
        &self.dir
    }

    /// Whether files stay behind.
    pub fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Puts a file under this run's mark, before its first byte is written; one that the run has just made
    /// (`new`) does not stay without. Errors: `Unavailable` when the mark cannot be written.
    pub fn mark(&mut self, mark: FileMark, new: bool) -> Result<()> {
        self.dir.add(std::slice::from_ref(&mark)).inspect_err(|_| {
            if new {
                let _ = unlinkat(self.dir.fd(), mark.name.as_str(), AtFlags::empty());
            }
        })?;
        let list = if mark.keep { &mut self.kept } else { &mut self.temporary };
        list.push(mark);
        Ok(())
    }

    /// Takes note that a file which stays had this size before the run: it has it again after it.
    pub fn enlarged(&mut self, name: &str, size: u64) {
        self.enlarged.push((name.to_owned(), size));
    }

    /// Cuts a file to the size it had, if it is still the file of its mark.
    fn shrink(&self, mark: &mut FileMark) -> Result<()> {
        let Some((name, size)) = self.enlarged.iter().find(|(name, _)| *name == mark.name) else {
            return Ok(());
        };
        let failed =
            |e| cannot("cannot give the file its former size", &self.dir.path().join(name), e);
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat(self.dir.fd(), name.as_str(), flags, Mode::empty()).map_err(failed)?;
        match mark.same_file(&fstat(&fd).map_err(failed)?) {
            true => {
                ftruncate(&fd, *size).map_err(failed)?;
                mark.size = *size;
                Ok(())
            }
            false => Ok(()),
        }
    }

    /// Deletes what goes, marks last; notes when kept files were last changed, so that a later
    /// run can tell whether somebody else has used them since. Errors: `Unavailable` when something
    /// cannot be removed or noted.
    pub fn finish(&mut self) -> Result<()> {
        let temporary = std::mem::take(&mut self.temporary);
        let deleted = match temporary.is_empty() {
            true => Ok(()),
            false => self.dir.delete(&temporary),
        };
        let mut kept = std::mem::take(&mut self.kept);
        let mut shrunk = Ok(());
        for mark in &mut kept {
            shrunk = shrunk.and(self.shrink(mark));
            let stat = statat(self.dir.fd(), mark.name.as_str(), AtFlags::SYMLINK_NOFOLLOW);
            if let Ok(stat) = stat
                && mark.fits(&stat)
            {
                mark.seal(&stat);
            }
        }
        let sealed = match kept.is_empty() {
            true => Ok(()),
            false => self.dir.add(&kept),
        };
        if std::mem::take(&mut self.made_dir) {
            // Not empty any more: somebody else's files are in it, so it stays.
            let _ = std::fs::remove_dir(self.dir.path());
        }
        deleted.and(shrunk).and(sealed)
    }
}

impl Drop for MarkedFiles {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
