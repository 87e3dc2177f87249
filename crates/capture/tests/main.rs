//! The integration tests of the capture as one binary.

mod common;
mod convert;
mod salvage;
