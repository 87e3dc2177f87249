//! The integration tests of the import as one binary.

mod fio_keys;
mod golden;
mod refused;
mod results;
mod ycsb;
