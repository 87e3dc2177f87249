//! Methods made of many runs.
//!
//! What it is: methods as data ([`method`]), one target held open over many runs ([`stay`]), and
//! what a method says of its runs in the words of its field ([`ycsb`]). What it is not: the load
//! (`engine`), job files (`core`, `import`) or output; `cli` runs the steps and prints.

pub mod method;
pub mod stay;
pub mod ycsb;
