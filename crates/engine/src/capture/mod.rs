//! Keeping every I/O in memory: a pool of pre-faulted chunks inside a budget.
//!
//! A keeper thread makes chunks ahead of the workers, so that a worker that fills one takes the
//! next with a channel receive (once per half a million I/Os) and never faults, allocates or
//! waits for storage. Past the budget, full chunks are moved to the spill directory if one was
//! given; otherwise workers keep outliers only, inside the reserve, and say so.
//! Callers: `run` makes the pool, `recorder` takes chunks, `run` converts them afterwards.

mod pool;
mod sys;

pub use pool::{CaptureChunk, ChunkKey, ChunkSource, FullChunk, FullChunks, Pool, PoolReport};
