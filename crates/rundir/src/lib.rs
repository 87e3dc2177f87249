//! The run directory on disk.
pub mod chunk;
