//! The integration tests of the reports as one binary.

mod changes;
mod common;
mod golden;
mod origins;
mod rates;
mod reports;
mod stated;
