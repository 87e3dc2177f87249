//! The integration tests of run directories as one binary.

mod common;
mod dir;
mod formats;
mod ios;
mod schemas;
mod tables;
mod wrong_values;
