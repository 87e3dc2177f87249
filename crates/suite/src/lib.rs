//! Methods made of many runs.
