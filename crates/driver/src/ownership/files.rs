//! Regular files that Taillight made: their marks, and what the end of a run does to them.
//!
//! A mark names a file by file system, inode and time of birth, and is sealed with the time of change that the
//! file had when Taillight last wrote the mark: after the file was prepared, and again at the end of the run
//! that keeps it. A later run trusts a mark as long as that time stands, since a write, a rename or a
//! setting of times moves it; where writes through a mapping do not (tmpfs), it compares what the file holds
//! as well. What a killed run wrote after its seal cannot be told from what somebody wrote after the kill:
//! such a file needs confirmation. Marks are written before the first byte of data; those of files that
//! are deleted go after their files.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, OFlags, fsync, ftruncate, openat, statat};
use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result};

use super::content::{FNV_START, digest, digest_hex};
use super::node::{FileSystem, MarkedNode};
use super::sidecar::{ChangeEvidence, OwnedDirectory};
use crate::guard;
use crate::identity::FileIdentity;
use crate::path_error::cannot;

/// One file that Taillight made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileMark {
    /// Name in the directory.
    pub name: String,
    #[serde(flatten)]
    pub node: MarkedNode,
    /// Size, bytes.
    pub size: u64,
    /// Run that made it.
    pub run_id: String,
    /// Stays after the run.
    pub keep: bool,
    /// Time of modification at the seal, ns since the epoch; absent before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_ns: Option<i64>,
    /// Time of change at the seal, ns since the epoch; absent before it, and in marks of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_ns: Option<i64>,
    /// What the file held at the seal ([`super::content::digest`]), where its time of change does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<String>,
}

impl FileMark {
    /// The mark of `file` as it is now, not sealed.
    pub fn new(
        name: &str,
        file: &FileIdentity,
        fs: &FileSystem,
        run: &str,
        keep: bool,
    ) -> FileMark {
        FileMark {
            name: name.to_owned(),
            node: MarkedNode::of(file, fs),
            size: file.size,
            run_id: run.to_owned(),
            keep,
            modified_ns: None,
            changed_ns: None,
            data: None,
        }
    }

    /// Whether the times and the size of the file are those of the seal; [`OwnedDirectory::proves`] asks all. A mark
    /// of an earlier version has no time of change: the last write of its run set both times alike, and whoever
    /// sets the one back moves the other.
    pub fn proves(&self, file: &FileIdentity, fs: &FileSystem) -> bool {
        let unchanged = match (self.changed_ns, self.modified_ns) {
            (Some(at), _) => file.changed_ns == at,
            (None, Some(at)) => file.modified_ns == at && file.changed_ns == at,
            (None, None) => false,
        };
        unchanged && self.size == file.size && self.node.is(file, fs)
    }

    /// Seals it: a later change makes the file somebody else's. `data` is what it holds, where that is to prove it.
    pub fn seal(&mut self, file: &FileIdentity, data: Option<String>) {
        self.size = file.size;
        self.modified_ns = Some(file.modified_ns);
        self.changed_ns = Some(file.changed_ns);
        self.data = data;
    }

    /// Breaks the seal: the next run needs confirmation.
    fn unseal(&mut self) {
        (self.modified_ns, self.changed_ns, self.data) = (None, None, None);
    }
}

/// The clock of file systems is behind that of programs by a tick of the timer at most, ns (`CONFIG_HZ` is
/// 100 at least).
const TICK: i64 = 10_000_000;
const SECOND: i64 = 1_000_000_000;

/// Waits until a later change of the file has another time: changes in one tick have the same one, and on
/// file systems that count whole seconds all changes in a second.
fn wait_for_new_timestamp(file: &FileIdentity) {
    let step = if file.changed_ns % SECOND == 0 { SECOND + TICK } else { TICK };
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now = now.ok().and_then(|now| i64::try_from(now.as_nanos()).ok()).unwrap_or(i64::MAX);
    let left = file.changed_ns.saturating_add(step).saturating_sub(now);
    if left > 0 {
        std::thread::sleep(Duration::from_nanos(left.min(step).unsigned_abs()));
    }
}

/// Writes a file back and tells how it was found, so that each later change has another time. What is written through a
/// mapping moves the time of change only once its page was written back. Errors: as fsync(2).
pub fn write_back(file: impl AsFd) -> std::io::Result<FileIdentity> {
    fsync(&file)?;
    let found = FileIdentity::of(&file)?;
    wait_for_new_timestamp(&found);
    fsync(&file)?;
    Ok(found)
}

/// Seals a mark with its file as it is, or breaks the seal where somebody is still writing.
fn seal(dir: &OwnedDirectory, mark: &mut FileMark, by: ChangeEvidence) {
    let name = mark.name.as_str();
    let look = || -> std::io::Result<_> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(dir.fd(), name, flags, Mode::empty())?;
        let found = write_back(&file)?;
        let data =
            (by == ChangeEvidence::Contents).then(|| digest(&file, FNV_START)).transpose()?;
        let same = FileIdentity::of(&file)? == found && mark.node.is(&found, dir.filesystem());
        Ok(same.then_some((found, data.map(digest_hex))))
    };
    match look() {
        Ok(Some((found, data))) => mark.seal(&found, data),
        _ => mark.unseal(),
    }
}

/// How a file came under this run's mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MarkOrigin {
    /// The run made it.
    Made,
    /// It was there, and nobody loses anything in it.
    Proven,
    /// It was there like this, and its loss is confirmed. As long as the run has not changed it, it stays as
    /// it is: neither sealed as Taillight's nor deleted.
    Confirmed(FileIdentity),
}

impl MarkOrigin {
    /// The origin of a file that was there, and was `seen` like this.
    pub fn of(proven: bool, seen: FileIdentity) -> MarkOrigin {
        if proven { MarkOrigin::Proven } else { MarkOrigin::Confirmed(seen) }
    }
}

/// A file under this run's mark.
struct MarkedFile {
    mark: FileMark,
    origin: MarkOrigin,
    /// What it was when it was looked at, until the run changes it.
    untouched: Option<FileIdentity>,
    /// Size that the file had before, where this run enlarges one that stays: it has it again afterwards.
    former: Option<u64>,
    /// The run makes it no larger: what lies beyond is somebody else's. None while nobody knows.
    most: Option<u64>,
}

impl MarkedFile {
    /// Whether the end of the run may delete or seal it. Before it was prepared, and where the run only read,
    /// what changed the file is somebody else.
    fn is_ours(&self, dir: &OwnedDirectory, writes: bool) -> Result<bool> {
        let Some(found) = dir.found(&self.mark)? else { return Ok(true) };
        if self.untouched.is_some_and(|seen| seen != found) {
            return Ok(false);
        }
        let sealed = self.mark.changed_ns.is_some();
        Ok(self.origin != MarkOrigin::Confirmed(found)
            && (writes || !sealed || dir.proves(&self.mark, &found)))
    }
}

/// Files and directory that stand under this run's marks.
pub struct MarkedFiles {
    dir: OwnedDirectory,
    files: Vec<MarkedFile>,
    /// The first so many of `files` have their marks on disk.
    noted: usize,
    made_dir: bool,
    /// The run changes its files.
    writes: bool,
}

impl MarkedFiles {
    /// Nothing yet; with `made_dir`, the directory itself goes in the end. `writes` says whether the run
    /// changes its files after they are prepared.
    pub fn new(dir: OwnedDirectory, made_dir: bool, writes: bool) -> MarkedFiles {
        MarkedFiles { dir, files: Vec::new(), noted: 0, made_dir, writes }
    }

    pub fn dir(&self) -> &OwnedDirectory {
        &self.dir
    }

    /// Whether files stay behind.
    pub fn keeps(&self) -> bool {
        self.files.iter().any(|file| file.mark.keep)
    }

    /// Takes a file under this run's mark, which the run makes no larger than `most`. `former` is the size
    /// that a file which stays has after the run again. [`MarkedFiles::note`] writes the mark.
    pub fn take(
        &mut self,
        mark: FileMark,
        origin: MarkOrigin,
        former: Option<u64>,
        most: Option<u64>,
    ) {
        self.files.push(MarkedFile { mark, origin, untouched: None, former, most });
    }

    /// As [`MarkedFiles::take`], of a file that was there, and was `seen` like this.
    pub fn take_seen(
        &mut self,
        mark: FileMark,
        seen: FileIdentity,
        proven: bool,
        former: Option<u64>,
        most: Option<u64>,
    ) {
        let origin = MarkOrigin::of(proven, seen);
        self.files.push(MarkedFile { mark, origin, untouched: Some(seen), former, most });
    }

    /// The run has written its files up to here: what lies beyond, where nobody knew a size, is somebody else's.
    pub fn ends_at(&mut self, end: u64) {
        self.files.iter_mut().for_each(|file| file.most = file.most.or(Some(end)));
    }

    /// From now on the run changes the file of this name.
    pub fn changes(&mut self, name: &str) {
        let named = self.files.iter_mut().filter(|file| file.mark.name == name);
        named.for_each(|file| file.untouched = None);
    }

    /// Writes the marks of all that was taken, at once, before the first byte of data. New files that get
    /// none do not stay. Errors: `Unavailable` when the marks cannot be written.
    pub fn note(&mut self) -> Result<()> {
        let noted = self.write();
        match noted {
            Ok(()) => self.noted = self.files.len(),
            Err(_) => self.drop_unnoted(),
        }
        noted
    }

    /// Seals the marks of the files that were just prepared; one that was good as it was has its seal. From
    /// now on the run uses them. Errors: as [`MarkedFiles::note`].
    pub fn seal(&mut self) -> Result<()> {
        self.files.iter_mut().for_each(|file| file.untouched = None);
        let by = match self.files.iter().any(|file| file.mark.changed_ns.is_none()) {
            true => self.dir.evidence(),
            false => ChangeEvidence::None,
        };
        for file in self.files.iter_mut().filter(|file| file.mark.changed_ns.is_none()) {
            let found = self.dir.found(&file.mark)?;
            if found.is_some_and(|now| file.origin != MarkOrigin::Confirmed(now)) {
                seal(&self.dir, &mut file.mark, by);
            }
        }
        self.write()
    }

    fn write(&self) -> Result<()> {
        let marks: Vec<FileMark> = self.files.iter().map(|file| file.mark.clone()).collect();
        if marks.is_empty() { Ok(()) } else { self.dir.add(&marks) }
    }

    /// Takes out, of what is to be deleted or cut, what something has come to use meanwhile: it stays as it
    /// is, under no mark, so that no later run takes it for Taillight's. Errors: `Unavailable`, naming one
    /// that is left.
    fn leave_used(&self, files: &mut Vec<MarkedFile>) -> Result<()> {
        let changed = |file: &MarkedFile| !file.mark.keep || file.former.is_some();
        if !files.iter().any(changed) {
            return Ok(());
        }
        let used = guard::FilesInUse::now(self.dir.fd());
        let (mut left, mut why) = (Vec::new(), Ok(()));
        files.retain(|file| {
            let name = file.mark.name.as_str();
            let stat = statat(self.dir.fd(), name, AtFlags::SYMLINK_NOFOLLOW);
            let stat = stat.ok().filter(|_| changed(file));
            let Some(reason) = stat.and_then(|stat| used.why(&stat)) else { return true };
            left.push(file.mark.clone());
            why =
                Err(Error::unavailable("a file of the run is left: something has come to use it")
                    .with("path", self.dir.path().join(name).display())
                    .with("in use", reason)
                    .hint("delete it once nobody needs it: it has no mark any more"));
            false
        });
        if left.is_empty() { Ok(()) } else { self.dir.forget(&left).and(why) }
    }

    /// Whether a program has one of these open or mapped for writing, for more than a moment.
    fn held(&self, files: &[MarkedFile]) -> bool {
        let stat = |file: &MarkedFile| {
            statat(self.dir.fd(), file.mark.name.as_str(), AtFlags::SYMLINK_NOFOLLOW).ok()
        };
        let stats: Vec<_> = files.iter().filter_map(stat).collect();
        guard::FilesInUse::now(self.dir.fd()).written(&stats)
    }

    /// Takes out what is larger than the run made it: somebody has appended to it. It stays as it is, under
    /// no mark. Errors: `Target`, naming one.
    fn leave_grown(&self, files: &mut Vec<MarkedFile>) -> Result<()> {
        let (mut left, mut why) = (Vec::new(), Ok(()));
        files.retain(|file| {
            let found = self.dir.found(&file.mark).ok().flatten();
            let grown = found.zip(file.most).filter(|(found, most)| found.size > *most);
            let Some((found, most)) = grown else { return true };
            left.push(file.mark.clone());
            let what = "a file of the run is left as it is: somebody has appended to it";
            why = Err(Error::target(what)
                .with("path", self.dir.path().join(&file.mark.name).display())
                .with("bytes", found.size)
                .with("of the run", most)
                .hint("look what is at its end, then delete it: it has no mark any more"));
            false
        });
        if left.is_empty() { Ok(()) } else { self.dir.forget(&left).and(why) }
    }

    fn drop_unnoted(&mut self) {
        for file in self.files.drain(self.noted..).filter(|file| file.origin == MarkOrigin::Made) {
            let _ = self.dir.unlink(&file.mark);
        }
    }

    /// Deletes what goes, marks last, and seals the marks of what stays. What is in use by now, or was appended to by
    /// somebody, stays as it is, without a mark. Errors: `Unavailable` when something cannot be removed or noted, or is
    /// in use; `Target` when it was appended to.
    pub fn finish(&mut self) -> Result<()> {
        self.drop_unnoted();
        let mut files = std::mem::take(&mut self.files);
        let mut asked = Ok(());
        // What cannot be asked stays as it is, under the mark that it has.
        files.retain(|file| {
            file.is_ours(&self.dir, self.writes).unwrap_or_else(|e| {
                asked = Err(e);
                false
            })
        });
        let used = self.leave_used(&mut files).and(self.leave_grown(&mut files));
        let (mut kept, temporary): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file| file.mark.keep);
        let gone: Vec<FileMark> = temporary.into_iter().map(|file| file.mark).collect();
        let deleted = if gone.is_empty() { Ok(()) } else { self.dir.delete(&gone) };
        let by = match kept.is_empty() || self.held(&kept) {
            true => ChangeEvidence::None,
            false => self.dir.evidence(),
        };
        let mut shrunk = Ok(());
        for MarkedFile { mark, former, most, .. } in &mut kept {
            if let Some(size) = former {
                shrunk = shrunk.and(shrink(&self.dir, mark, *size, *most));
            }
            match self.dir.found(mark) {
                Ok(Some(_)) if by != ChangeEvidence::None => seal(&self.dir, mark, by),
                Ok(Some(_)) => mark.unseal(),
                Ok(None) => {}
                Err(e) => shrunk = shrunk.and(Err(e)),
            }
        }
        self.files = kept;
        let sealed = self.write();
        self.files.clear();
        self.noted = 0;
        if std::mem::take(&mut self.made_dir) {
            // Not empty any more: somebody else's files are in it, so it stays.
            let _ = std::fs::remove_dir(self.dir.path());
        }
        asked.and(used).and(deleted).and(shrunk).and(sealed)
    }
}

impl Drop for MarkedFiles {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

/// Cuts a file to the size it had, if it is still the file of its mark, and no larger than the run made it.
fn shrink(dir: &OwnedDirectory, mark: &FileMark, size: u64, most: Option<u64>) -> Result<()> {
    let failed = |e: std::io::Error| {
        cannot("cannot give the file its former size", &dir.path().join(&mark.name), e)
    };
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd =
        openat(dir.fd(), mark.name.as_str(), flags, Mode::empty()).map_err(|e| failed(e.into()))?;
    let found = FileIdentity::of(&fd).map_err(failed)?;
    let appended = most.is_some_and(|most| found.size > most);
    match mark.node.is(&found, dir.filesystem()) && !appended {
        true => ftruncate(&fd, size).map_err(|e| failed(e.into())),
        false => Ok(()),
    }
}

/// Marks by the names of their files.
pub fn by_name(marks: Vec<FileMark>) -> HashMap<String, FileMark> {
    marks.into_iter().map(|mark| (mark.name.clone(), mark)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ownership::sys::write_mapped;
    use taillight_core::{ErrorKind, StopFlag};

    /// A program has the file mapped when it is sealed, and writes to the same page afterwards.
    #[test]
    fn what_is_written_through_a_mapping_after_the_seal_is_seen() {
        for place in [&std::env::temp_dir(), std::path::Path::new("/dev/shm")] {
            let Ok(tmp) = tempfile::tempdir_in(place) else {
                eprintln!("skipped: written through a mapping: no {}", place.display());
                continue;
            };
            let path = tmp.path().join("a");
            std::fs::write(&path, [7; 8192]).unwrap();
            let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
            let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
            let found = || FileIdentity::at(dir.fd(), "a").unwrap();
            let mut mark = FileMark::new("a", &found(), dir.filesystem(), "r1", true);
            let by = dir.evidence();
            write_mapped(&file, || {
                seal(&dir, &mut mark, by);
                assert!(dir.proves(&mark, &found()), "{by:?}");
                Ok(())
            })
            .unwrap();
            assert!(!dir.proves(&mark, &found()), "{} {by:?}", place.display());
        }
    }

    #[test]
    fn what_was_appended_stays_with_its_file() {
        for (keep, former) in [(true, Some(4)), (true, None), (false, None)] {
            for appended in [false, true] {
                let tmp = tempfile::tempdir().unwrap();
                let path = tmp.path().join("a");
                std::fs::write(&path, b"12345678").unwrap();
                let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
                let found = FileIdentity::at(dir.fd(), "a").unwrap();
                let mark = FileMark::new("a", &found, dir.filesystem(), "r1", keep);
                let mut files = MarkedFiles::new(dir, false, true);
                files.take(mark, MarkOrigin::Made, former, Some(8));
                files.note().unwrap();
                if appended {
                    std::fs::write(&path, b"12345678mine").unwrap();
                    assert_eq!(files.finish().unwrap_err().kind(), ErrorKind::Target);
                    assert_eq!(std::fs::read(&path).unwrap(), b"12345678mine");
                    assert!(files.dir().marks().unwrap().is_empty());
                    continue;
                }
                files.finish().unwrap();
                let left = std::fs::metadata(&path).ok().map(|is| is.len());
                assert_eq!(left, keep.then_some(former.unwrap_or(8)));
            }
        }
    }

    #[test]
    fn what_somebody_changed_before_it_was_prepared_stays() {
        for (proven, keep, former) in
            [(true, false, None), (true, true, Some(0)), (false, false, None)]
        {
            for changes in [false, true] {
                let tmp = tempfile::tempdir().unwrap();
                let path = tmp.path().join("a");
                std::fs::write(&path, b"").unwrap();
                let dir = OwnedDirectory::open(tmp.path(), &StopFlag::default()).unwrap();
                let seen = FileIdentity::at(dir.fd(), "a").unwrap();
                let mark = FileMark::new("a", &seen, dir.filesystem(), "r1", keep);
                let mut files = MarkedFiles::new(dir, false, true);
                files.take_seen(mark, seen, proven, former, Some(8));
                files.note().unwrap();
                if changes {
                    files.changes("a");
                }
                std::fs::write(&path, b"mine").unwrap();
                files.finish().unwrap();
                let left = std::fs::read(&path).ok();
                let theirs = Some(b"mine".to_vec());
                let ours = if changes { keep.then_some(Vec::new()) } else { theirs };
                assert_eq!(left, ours, "{proven} {keep} {changes}");
                if !changes {
                    let found = FileIdentity::at(files.dir().fd(), "a").unwrap();
                    let proves = |m: &FileMark| m.proves(&found, files.dir().filesystem());
                    assert!(!files.dir().marks().unwrap().iter().any(proves));
                }
            }
        }
    }
}
