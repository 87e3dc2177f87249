//! Methods made of many runs.
//!
//! What it is: methods as data ([`method`], [`slc_paper`]), one target held open over many runs
//! ([`stay`]), what to run next ([`search`], [`repeat`]) and what a method says of its runs in the
//! words of its field ([`ycsb`]); decisions are pure, so that they are tested without storage. What
//! it is not: the load (`engine`), job files (`core`, `import`) or output; `cli` runs the steps and
//! prints.

pub mod method;
pub mod repeat;
pub mod search;
pub mod slc_paper;
pub mod stay;
pub mod ycsb;
