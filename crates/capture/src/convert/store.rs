//! Where chunks live: memory, or files under `/dev/shm` or a spill directory.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use taillight_core::Result;
use taillight_rundir::atomic::cannot;

use crate::chunk::{HEADER_BYTES, Header, LONG_WORDS};

/// Chunks by number, in no particular order. [`crate::FullChunks`] are those of a pool.
pub trait ChunkStore {
    /// How many there are. Never changes.
    fn count(&self) -> usize;

    /// The bytes of a chunk, header first, in `buffer` where they are not in memory already. Errors:
    /// `Unavailable` when they cannot be read.
    fn bytes<'a>(&'a self, chunk: usize, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]>;

    /// The header of a chunk. Errors: `Corrupt` when it is none.
    fn header(&self, chunk: usize) -> Result<Header> {
        Header::read(self.bytes(chunk, &mut Vec::new())?)
    }

    /// Frees a chunk: it is not asked for again. Errors: `Unavailable` when it cannot be freed.
    fn release(&mut self, chunk: usize) -> Result<()>;
}

/// Chunks in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryChunks(pub Vec<Vec<u8>>);

impl ChunkStore for MemoryChunks {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn bytes<'a>(&'a self, chunk: usize, _: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        Ok(&self.0[chunk])
    }
    fn release(&mut self, chunk: usize) -> Result<()> {
        self.0[chunk] = Vec::new();
        Ok(())
    }
}

/// Bytes read at a time.
const STEP: u64 = 256 << 10;

/// Reads a chunk file up to where its records surely end: as many zero words as the longest record
/// has can be no part of records.
fn read_used(path: &Path, buffer: &mut Vec<u8>) -> io::Result<()> {
    let mut file = File::open(path)?;
    loop {
        let read = file.by_ref().take(STEP).read_to_end(buffer)?;
        let end = buffer.last_chunk::<{ LONG_WORDS * 8 }>();
        if read < STEP as usize || end.is_some_and(|end| *end == [0; LONG_WORDS * 8]) {
            return Ok(());
        }
    }
}

/// Chunk files, read one at a time and unlinked on release.
#[derive(Debug, Clone, Default)]
pub struct ChunkFiles(pub Vec<PathBuf>);

impl ChunkStore for ChunkFiles {
    fn count(&self) -> usize {
        self.0.len()
    }
    fn bytes<'a>(&'a self, chunk: usize, buffer: &'a mut Vec<u8>) -> Result<&'a [u8]> {
        let path = &self.0[chunk];
        buffer.clear();
        read_used(path, buffer).map_err(|e| cannot("read", path, e))?;
        Ok(buffer)
    }
    fn header(&self, chunk: usize) -> Result<Header> {
        let path = &self.0[chunk];
        let mut bytes = Vec::with_capacity(HEADER_BYTES);
        File::open(path)
            .and_then(|f| f.take(HEADER_BYTES as u64).read_to_end(&mut bytes))
            .map_err(|e| cannot("read", path, e))?;
        Header::read(&bytes).map_err(|e| e.with("path", path.display()))
    }
    fn release(&mut self, chunk: usize) -> Result<()> {
        let path = &self.0[chunk];
        match fs::remove_file(path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(cannot("remove", path, e)),
            _ => Ok(()),
        }
    }
}
