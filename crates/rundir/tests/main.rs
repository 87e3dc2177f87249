//! The integration tests of run directories as one binary.

mod common;
mod convert;
mod dir;
mod formats;
mod ios;
mod salvage;
mod schemas;
mod tables;
mod wrong_values;
