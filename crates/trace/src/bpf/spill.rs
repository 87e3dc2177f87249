//! A file for what a long trace has seen and memory should not hold: without a name, in the run directory,
//! gone with the process.
//!
//! Bytes are appended about a MiB at a time and slowly, so that the storage under test is left alone, and read
//! back at the end. The run's results need room there as well: below [`RESERVE`] of free space nothing is
//! written. A killed run's trace is lost.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::fstatvfs;
use taillight_core::atomic::TempFile;

/// Bytes written at a time.
const CHUNK: usize = 1 << 20;
/// Bytes per second that are written at most, over the whole run.
const RATE: f64 = (8 << 20) as f64;
/// Free space that is left to the results of the run, bytes.
pub const RESERVE: u64 = 2 << 30;

#[derive(Debug)]
pub struct SpillFile {
    /// Where; nowhere when nothing can be written there.
    dir: Option<PathBuf>,
    file: Option<File>,
    chunk: Vec<u8>,
    written: u64,
    begun: Instant,
    /// Free space of the file system that has the file, bytes.
    free: fn(&File) -> io::Result<u64>,
    #[cfg(test)]
    reads: std::cell::Cell<u64>,
}

impl SpillFile {
    /// Nothing is made before there is something to write.
    pub fn new(dir: Option<&Path>) -> SpillFile {
        SpillFile {
            dir: dir.map(Path::to_owned),
            file: None,
            chunk: Vec::new(),
            written: 0,
            begun: Instant::now(),
            free,
            #[cfg(test)]
            reads: std::cell::Cell::default(),
        }
    }

    /// Whether something may be written now.
    pub fn due(&self) -> bool {
        self.dir.is_some() && (self.len() as f64) < self.begun.elapsed().as_secs_f64() * RATE
    }

    /// Bytes written to storage.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Bytes taken in.
    pub fn len(&self) -> u64 {
        self.written + self.chunk.len() as u64
    }

    /// Takes bytes in. Errors: none of them is written, and nothing will be any more.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.chunk.len() + bytes.len() > CHUNK {
            // What was taken in and could not be written stays where it is: it is read from there.
            self.write_out().inspect_err(|_| self.dir = None)?;
        }
        self.chunk.extend_from_slice(bytes);
        Ok(())
    }

    fn write_out(&mut self) -> io::Result<()> {
        let file = match (&mut self.file, &self.dir) {
            (Some(file), _) => file,
            (file, Some(dir)) => file.insert(nameless(dir)?),
            (None, None) => return Err(io::ErrorKind::NotFound.into()),
        };
        if (self.free)(file)? < RESERVE + self.chunk.len() as u64 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // A chunk that was written in part is written again over it.
        file.write_all_at(&self.chunk, self.written)?;
        self.written += self.chunk.len() as u64;
        self.chunk.clear();
        Ok(())
    }

    /// Whatever the machine has room for.
    #[cfg(test)]
    pub fn with_room(dir: &Path) -> SpillFile {
        SpillFile { free: |_| Ok(u64::MAX), ..SpillFile::new(Some(dir)) }
    }

    /// How often storage was read.
    #[cfg(test)]
    pub fn reads(&self) -> u64 {
        self.reads.get()
    }

    /// Bytes from a place on, as many as are asked for. Errors: the file cannot be read, or ends before.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let stored = (self.written.saturating_sub(at)).min(bytes.len() as u64) as usize;
        let (from_file, from_chunk) = bytes.split_at_mut(stored);
        if let Some(file) = self.file.as_ref().filter(|_| stored > 0) {
            #[cfg(test)]
            self.reads.set(self.reads.get() + 1);
            file.read_exact_at(from_file, at)?;
        }
        let first = (at + stored as u64).saturating_sub(self.written) as usize;
        let rest = self.chunk.get(first..first + from_chunk.len());
        from_chunk.copy_from_slice(rest.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// What a spill file holds, read a window at a time by whoever goes through it about in order.
pub struct SpillReader<'a> {
    file: &'a SpillFile,
    size: usize,
    start: u64,
    window: Vec<u8>,
}

impl<'a> SpillReader<'a> {
    /// Reads this many bytes at a time.
    pub fn new(file: &'a SpillFile, size: usize) -> SpillReader<'a> {
        SpillReader { file, size, start: 0, window: Vec::new() }
    }

    /// `len` bytes from a place on. Errors: as [`SpillFile::read`].
    pub fn bytes(&mut self, at: u64, len: usize) -> io::Result<&[u8]> {
        let end = self.start + self.window.len() as u64;
        if at < self.start || at + len as u64 > end {
            let left = usize::try_from(self.file.len().saturating_sub(at)).unwrap_or(usize::MAX);
            self.window.resize(self.size.min(left).max(len), 0);
            self.start = at;
            self.file.read(at, &mut self.window).inspect_err(|_| self.window.clear())?;
        }
        let from = (at - self.start) as usize;
        Ok(&self.window[from..from + len])
    }
}

/// A new file that nobody else has, and that is gone with this process.
fn nameless(dir: &Path) -> io::Result<File> {
    // Dropped without its name, the file loses the temporary one.
    let file = TempFile::create_new(dir, "trace").map_err(io::Error::other)?;
    file.handle().map_err(io::Error::other)
}

fn free(file: &File) -> io::Result<u64> {
    let of = fstatvfs(file)?;
    if of.f_blocks == 0 {
        // It does not say: a tmpfs without a limit, some of FUSE.
        return Ok(u64::MAX);
    }
    Ok(of.f_bavail.saturating_mul(of.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read_back_from_any_place() {
        let home = tempfile::tempdir().unwrap();
        let mut spill = SpillFile::with_room(home.path());
        let record = |i: u32| [i.to_ne_bytes(), (i * 7).to_ne_bytes()].concat();
        let many = CHUNK as u32 / 8 * 2 + 5;
        (0..many).for_each(|i| spill.append(&record(i)).unwrap());
        assert_eq!((spill.len(), spill.written), (u64::from(many) * 8, 2 << 20));
        // Within the file, over its end, and in memory.
        for i in [0, 77, (2 << 20) / 8 - 1, many - 2] {
            let mut two = [0; 16];
            spill.read(u64::from(i) * 8, &mut two).unwrap();
            assert_eq!(two[..], [record(i), record(i + 1)].concat());
        }
        assert!(spill.read(spill.len() - 8, &mut [0; 16]).is_err());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 0, "no name");
    }

    #[test]
    fn room_is_left_to_the_results_of_the_run() {
        let home = tempfile::tempdir().unwrap();
        let with = |free| SpillFile { free, ..SpillFile::new(Some(home.path())) };
        let fill = |spill: &mut SpillFile| {
            let chunk = vec![1; CHUNK];
            (0..3).map(|_| spill.append(&chunk).is_ok()).collect::<Vec<_>>()
        };
        let mut spill = with(|_| Ok(RESERVE + CHUNK as u64));
        assert_eq!((fill(&mut spill), spill.written()), (vec![true; 3], 2 << 20));
        let mut spill = with(|_| Ok(RESERVE));
        assert_eq!((fill(&mut spill), spill.written()), (vec![true, false, false], 0));
        assert!(!spill.due(), "not again");
        let mut all = vec![0; CHUNK];
        spill.read(0, &mut all).unwrap();
        assert_eq!(all, vec![1; CHUNK], "what was taken in is there");
    }

    /// Somebody else's file or link of a name that can be foreseen neither stops it nor is followed.
    #[test]
    fn its_name_cannot_be_taken_before() {
        let home = tempfile::tempdir().unwrap();
        let foreseen = home.path().join(format!(".trace.{}.tmp", std::process::id()));
        std::os::unix::fs::symlink("/nowhere", &foreseen).unwrap();
        assert!(nameless(home.path()).is_ok());
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "no name");
    }

    #[test]
    fn a_reader_asks_for_windows() {
        let home = tempfile::tempdir().unwrap();
        let mut spill = SpillFile::with_room(home.path());
        let all = CHUNK as u64 / 8 * 2;
        (0..all).for_each(|i| spill.append(&i.to_ne_bytes()).unwrap());
        let mut reader = SpillReader::new(&spill, 1 << 16);
        for i in 0..all {
            assert_eq!(reader.bytes(i * 8, 8).unwrap(), i.to_ne_bytes());
        }
        assert!(spill.reads.get() <= 32, "{}", spill.reads.get());
        assert_eq!(reader.bytes(8, 8).unwrap(), 1u64.to_ne_bytes(), "backwards");
        assert!(reader.bytes(spill.len() - 4, 8).is_err());
        assert_eq!(reader.bytes(0, 8).unwrap(), [0; 8], "after an error");
    }

    #[test]
    fn without_a_place_nothing_is_lost_unseen() {
        let home = tempfile::tempdir().unwrap();
        let gone = home.path().join("gone");
        let mut spill = SpillFile::new(Some(&gone));
        let half = vec![1; CHUNK / 2 + 1];
        spill.append(&half).unwrap();
        assert!(spill.append(&half).is_err());
        assert!(!spill.due(), "not again");
        let mut first = [0; 4];
        spill.read(0, &mut first).unwrap();
        assert_eq!(first, [1; 4], "what was taken in is there");
        assert!(!SpillFile::new(None).due());
    }
}
