//! A file for what a long trace has seen and memory should not hold: without a name, in the run directory.
//!
//! What it is: bytes appended about a MiB at a time and slowly, so that the storage under test is left alone, and read
//! back at the end. What it is not: a log that survives; a killed run's trace is lost.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Bytes written at a time.
const CHUNK: usize = 1 << 20;
/// Bytes per second that are written at most, over the whole run.
const RATE: f64 = (8 << 20) as f64;

#[derive(Debug)]
pub struct SpillFile {
    /// Where; nowhere when nothing can be written there.
    dir: Option<PathBuf>,
    file: Option<File>,
    chunk: Vec<u8>,
    written: u64,
    begun: Instant,
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
        }
    }

    /// Whether something may be written now.
    pub fn due(&self) -> bool {
        self.dir.is_some() && (self.len() as f64) < self.begun.elapsed().as_secs_f64() * RATE
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
        // A chunk that was written in part is written again over it.
        file.write_all_at(&self.chunk, self.written)?;
        self.written += self.chunk.len() as u64;
        self.chunk.clear();
        Ok(())
    }

    /// Bytes from a place on, as many as are asked for. Errors: the file cannot be read, or ends before.
    pub fn read(&self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        let stored = (self.written.saturating_sub(at)).min(bytes.len() as u64) as usize;
        let (from_file, from_chunk) = bytes.split_at_mut(stored);
        if let Some(file) = self.file.as_ref().filter(|_| stored > 0) {
            file.read_exact_at(from_file, at)?;
        }
        let first = (at + stored as u64).saturating_sub(self.written) as usize;
        let rest = self.chunk.get(first..first + from_chunk.len());
        from_chunk.copy_from_slice(rest.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

/// A new file that nobody else has, and that is gone with this process.
fn nameless(dir: &Path) -> io::Result<File> {
    let path = dir.join(format!(".trace.{}.tmp", std::process::id()));
    let mut options = OpenOptions::new();
    let file = options.read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_appended_is_read_back_from_any_place() {
        let home = tempfile::tempdir().unwrap();
        let mut spill = SpillFile::new(Some(home.path()));
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
