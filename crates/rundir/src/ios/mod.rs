//! `ios.parquet`: every I/O that was kept, one row each, as a Parquet file.
//!
//! Rows stand by worker, in submit order. [`IosWriter`] takes rows one by one and holds one row
//! group in memory; [`read_ios`] hands out batches of typed columns and reads only what is asked.

mod batch;
mod column;
mod constant;
mod encode;
mod read;
mod schema;
mod source;
mod write;

pub use batch::{Row, RowBatch};
pub use read::{IosFile, read_ios};
pub use schema::ColumnSet;
pub use write::{IosWriter, OnRows, RowKey};

/// Rows of a full row group.
pub const GROUP_ROWS: usize = 1 << 20;
