//! The integration tests of the suites as one binary.

mod ab;
mod common;
mod disk_for;
mod operating;
mod recovery;
mod series;
mod steady;
mod targets;
