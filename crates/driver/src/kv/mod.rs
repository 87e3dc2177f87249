//! What key-value drivers share.

pub mod fields;
