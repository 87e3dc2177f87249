//! Makes load and records it.
