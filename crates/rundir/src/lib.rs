//! The run directory on disk.
