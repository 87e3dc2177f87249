//! The integration tests of the import as one binary.

mod golden;
mod refused;
mod results;
mod ycsb;
