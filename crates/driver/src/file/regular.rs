//! Opening a target made of regular files: look first, decide, then create and lay out.
//!
//! Nothing is created or written until every file passed the guard and the space suffices.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, fstat, openat};
use taillight_core::progress::OnProgress;
use taillight_core::{Error, Result, StopFlag};

use crate::path_error::cannot;

use crate::file::existing::{DataFile, FileOpenSpec, find_files, lock, named_path};
use crate::file::layout;
use crate::file::needs::{self, AccessNeeds};
use crate::file::options::DevicePurge;
use crate::file::path::FileSet;
use crate::file::plan::{
    FilePreparation, check_space, decide, extents_of, foreign, no_extents, size_of_existing,
};
use crate::file::prepare::{PreparedFiles, check_fill, prepare};
use crate::guard;
use crate::ownership::{MarkedFiles, OwnedDirectory};

/// Creates and lays out as planned. Errors: `Refused` or `Unavailable`; files that were made are then deleted, unless
/// they have marks that keep them, and what was overwritten in others is lost.
pub fn open(
    file_set: &FileSet,
    decided: PreparationPlan,
    request: &FileOpenSpec<'_>,
    progress: &mut OnProgress<'_>,
) -> Result<PreparedFiles> {
    decided.try_extents(file_set, request)?;
    let made_dir = decided.dir.is_none();
    let dir = match decided.dir {
        Some(dir) => dir,
        None => make_dir(&file_set.dir, request.spec.stop)?,
    };
    let goes = made_dir && !request.options.keep;
    let made = MarkedFiles::new(dir, goes, request.needs.changes());
    let PreparationPlan { entries, preparations, file_size, .. } = decided;
    let ready = prepare(entries, &preparations, file_size, made, request, progress)?;
    if request.shared_as().is_some() {
        // Laid out, it is for all ranks.
        ready.files.iter().try_for_each(|fd| lock(fd, &file_set.dir, false))?;
    }
    Ok(ready)
}

/// What is there, and what is to be done with each file.
pub struct PreparationPlan {
    dir: Option<OwnedDirectory>,
    entries: Vec<DataFile>,
    preparations: Vec<FilePreparation>,
    /// Bytes of each file that are used.
    pub file_size: u64,
}

impl PreparationPlan {
    /// The files that exist.
    pub fn existing_files(&self) -> Vec<BorrowedFd<'_>> {
        let existing = self.entries.iter().filter_map(|found| found.existing.as_ref());
        existing.map(|existing| existing.fd.as_fd()).collect()
    }

    /// A file of no name in the directory, to ask what direct I/O goes by there before a file of the run is made.
    pub fn scratch(&self) -> Option<OwnedFd> {
        nameless(self.dir.as_ref()?)
    }

    /// Whether data that is there gives way to other data before the run.
    pub fn replaces(&self) -> bool {
        let mut all = self.entries.iter().zip(&self.preparations);
        let changes = |preparation| {
            preparation == FilePreparation::Truncate || FilePreparation::fills(preparation)
        };
        all.any(|(found, preparation)| found.existing.is_some() && changes(*preparation))
    }

    /// The files that exist, are to be changed and are somebody else's.
    pub fn foreign(&self, needs: &AccessNeeds) -> Vec<(BorrowedFd<'_>, &Path)> {
        foreign(&self.entries, &self.preparations, needs)
    }

    /// Lays out a file of no name in extents that lie apart, before one that is there is emptied for that: as
    /// large as the file where somebody loses what is in it. Errors: as for the file itself.
    fn try_extents(&self, file_set: &FileSet, request: &FileOpenSpec<'_>) -> Result<()> {
        let all = self.entries.iter().zip(&self.preparations);
        let replaced = all.filter(|(_, p)| **p == FilePreparation::Fragment);
        let mut replaced = replaced.filter_map(|(found, _)| found.existing.as_ref()).peekable();
        let (Some(dir), Some(extent)) = (&self.dir, request.options.extent()) else {
            return Ok(());
        };
        if replaced.peek().is_none() {
            return Ok(());
        }
        // A file system without such files cannot lay them out apart either, or nobody knows.
        let Some(scratch) = nameless(dir) else { return Ok(()) };
        let failed = |e| no_extents(&file_set.dir, extent, e);
        if replaced.all(|existing| existing.proven) {
            return layout::try_apart(scratch.as_fd(), extent).map_err(failed);
        }
        layout::apart(scratch.as_fd(), self.file_size, extent).map_err(failed)?;
        extents_of(&scratch, self.file_size, extent).map(drop)
    }
}

/// A file of no name, where the file system has such.
fn nameless(dir: &OwnedDirectory) -> Option<OwnedFd> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    openat(dir.fd(), ".", flags, Mode::from_raw_mode(0o600)).ok()
}

/// Opens and decides; nothing is created or written. Errors: `Usage`, `Refused` or `Unavailable`.
pub fn plan_preparation(file_set: &FileSet, request: &FileOpenSpec<'_>) -> Result<PreparationPlan> {
    if request.options.purge != DevicePurge::None {
        return Err(Error::refused("only a whole NVMe device can be formatted or sanitized")
            .with("path", file_set.dir.display())
            .hint("name it like /dev/nvme0n1; on files, purge by discard or zero_fill"));
    }
    let asked_size = needs::asked_file_size(request.spec.plan, request.options)?;
    let dir = if file_set.dir_absent {
        None
    } else {
        Some(OwnedDirectory::open(&file_set.dir, request.spec.stop)?)
    };
    let entries = find_files(file_set, dir.as_ref(), request)?;
    if request.needs.changes() {
        let undecided = vec![FilePreparation::Nothing; entries.len()];
        check_foreign(&foreign(&entries, &undecided, &request.needs), file_set, request)?;
    }
    let file_size = match asked_size {
        Some(size) => size,
        None => size_of_existing(&entries, request)?,
    };
    let preparations = entries
        .iter()
        .enumerate()
        .map(|(n, f)| decide(f, request.options.size_of(n, file_size), request))
        .collect::<Result<Vec<FilePreparation>>>()?;
    if !request.needs.changes() {
        // A plan that only reads changes what it lays out.
        let changed = entries.iter().zip(&preparations);
        let changed = changed.filter(|(_, p)| **p != FilePreparation::Nothing);
        let changed: Vec<_> =
            changed.filter_map(|(found, _)| Some(found.existing.as_ref()?.fd.as_fd())).collect();
        if !changed.is_empty() {
            guard::files(changed, named_path(file_set, &entries), Some(request.spec.stop))?;
        }
        check_foreign(&foreign(&entries, &preparations, &request.needs), file_set, request)?;
    }
    let grows = check_space(file_set, &entries, &preparations, file_size, request.options)?;
    check_fill(file_set, dir.as_ref(), grows, request)?;
    Ok(PreparationPlan { dir, entries, preparations, file_size })
}

/// What is asked of files that are somebody else's and whose loss is confirmed.
fn check_foreign(
    foreign: &[(BorrowedFd<'_>, &Path)],
    file_set: &FileSet,
    request: &FileOpenSpec<'_>,
) -> Result<()> {
    // Another name of it may be outside of the directory, which is all that was given up.
    let linked = |fd: &BorrowedFd<'_>| fstat(fd).map_or(true, |stat| stat.st_nlink > 1);
    if let Some((_, path)) = foreign.iter().find(|(fd, _)| file_set.whole_dir && linked(fd)) {
        return Err(Error::refused("a file of the directory has another name, perhaps elsewhere")
            .with("path", path.display())
            .hint("name the file itself, or delete the name in this directory (rm)"));
    }
    guard::foreign_files(foreign)?;
    foreign.iter().try_for_each(|(fd, path)| request.still_confirmed(path, *fd))
}

fn make_dir(path: &Path, stop: &StopFlag) -> Result<OwnedDirectory> {
    std::fs::create_dir(path).map_err(|e| cannot("cannot create the directory", path, e))?;
    OwnedDirectory::open(path, stop)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::process::Command;

    use taillight_core::{ErrorKind, OpKind};

    use super::*;
    use crate::conformance;
    use crate::contract::OpenSpec;
    use crate::file::open_request;
    use crate::file::options::FileOptions;
    use crate::file::path::TargetPath;
    use crate::options::DriverOptions;

    #[test]
    fn what_comes_between_the_decision_and_the_layout_is_seen() {
        let tmp = tempfile::tempdir().unwrap();
        let image = tmp.path().join("image");
        let text = image.to_str().unwrap();
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(4 << 20).unwrap();
        file.write_all_at(b"mine", 1 << 20).unwrap();
        let mut target = conformance::target("file", text, "direct = false");
        target.destroy = true;
        let plan = conformance::plan(target, &[OpKind::Read], 4096, 1);
        let options = FileOptions::parse("file", &plan.target.options).unwrap();
        let (stop, destroy) = (StopFlag::default(), Some(text));
        let spec =
            OpenSpec { plan: &plan, run_id: "test", destroy, stop: &stop, fits: &|_| Ok(()) };
        let (_, TargetPath::Files(set), request) = open_request("file", &options, &spec).unwrap()
        else {
            panic!("a file")
        };
        let planned = match plan_preparation(&set, &request) {
            Ok(planned) => planned,
            Err(e) => {
                eprintln!("skipped: what_comes_between_the_decision_and_the_layout: {e}");
                return;
            }
        };
        let over = Command::new("losetup").args(["-f", "--show", text]).output();
        let Some(over) = over.ok().filter(|o| o.status.success()) else {
            eprintln!("skipped: what_comes_between_the_decision_and_the_layout: no loop devices");
            return;
        };
        let before = std::fs::read(&image).unwrap();
        let opened = open(&set, planned, &request, &mut |_| true);
        let device = String::from_utf8(over.stdout).unwrap();
        Command::new("losetup").args(["-d", device.trim()]).status().unwrap();
        let e = opened.err().expect("refused");
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains("behind /dev/loop"), "{e}");
        assert!(std::fs::read(&image).unwrap() == before);
    }
}
