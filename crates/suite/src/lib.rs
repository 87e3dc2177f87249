//! Methods made of many runs: what to run next, and what all of it says together.
//!
//! What it is: decisions, as pure as they can be, so that they are tested without storage. What it
//! is not: it starts no run, prints nothing and writes no file. Called by `cli`.

pub mod repeat;
pub mod search;
