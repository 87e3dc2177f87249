//! Records of single I/Os from the recorder to the run directory: packed in chunks, the memory that
//! they stand in, and their conversion to `ios.parquet`, at the end of a run or after a process was killed.
//!
//! A worker's [`Capture`] packs records into chunks of a [`Pool`]: pre-faulted memory inside a budget, in a
//! [`dir::CaptureDir`]. A keeper thread makes chunks ahead of the workers, so that a worker that fills one
//! takes the next with a channel receive (once per half a million I/Os where chunks are as large as they
//! get) and, unless the keeper is behind, neither faults nor allocates; it never waits for storage. When
//! the budget is nearly spent, full chunks are moved to the spill directory if one was given; otherwise
//! workers keep outliers only, inside the reserve, and say so. [`convert`] turns what was kept into
//! `ios.parquet`; [`salvage`] does so for a run that was killed.

pub mod chunk;
pub mod convert;
pub mod dir;
pub mod leftover;
mod pool;
pub mod salvage;
mod sys;
mod writer;

pub use pool::{CaptureChunk, ChunkKey, ChunkSource, FullChunk, FullChunks, Pool, PoolReport};
pub use writer::{Capture, CaptureState, CaptureThresholds};
