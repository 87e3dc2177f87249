//! What the end of the run does to the files: delete this run's own, seal what is kept.

use rustix::fs::{AtFlags, statat};
use taillight_core::Result;

use crate::guard::owner::{Mark, OwnedDir};

/// Files and directory that stand under this run's marks.
pub struct MadeFiles {
    dir: OwnedDir,
    doomed: Vec<Mark>,
    kept: Vec<Mark>,
    made_dir: bool,
}

impl MadeFiles {
    /// Nothing yet; with `made_dir`, the directory itself goes in the end.
    pub fn new(dir: OwnedDir, made_dir: bool) -> MadeFiles {
        MadeFiles {
            dir,
            doomed: Vec::new(),
            kept: Vec::new(),
            made_dir,
        }
    }

    pub fn dir(&self) -> &OwnedDir {
        &self.dir
    }

    /// Whether files stay behind.
    pub fn keeps(&self) -> bool {
        !self.kept.is_empty()
    }

    /// Puts a file under this run's mark, before its first byte is written.
    ///
    /// # Errors
    /// `Unavailable` when the mark cannot be written.
    pub fn mark(&mut self, mark: Mark) -> Result<()> {
        self.dir.add(std::slice::from_ref(&mark))?;
        let list = if mark.keep {
            &mut self.kept
        } else {
            &mut self.doomed
        };
        list.push(mark);
        Ok(())
    }

    /// Deletes what goes, marks last; notes when kept files were last changed, so that a later
    /// run can tell whether somebody else has used them since.
    ///
    /// # Errors
    /// `Unavailable` when something cannot be removed or noted.
    pub fn finish(&mut self) -> Result<()> {
        let doomed = std::mem::take(&mut self.doomed);
        let deleted = match doomed.is_empty() {
            true => Ok(()),
            false => self.dir.delete(&doomed),
        };
        let mut kept = std::mem::take(&mut self.kept);
        for mark in &mut kept {
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
        deleted.and(sealed)
    }
}

impl Drop for MadeFiles {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
