//! The integration tests of the drivers as one binary; those that count allocations have an allocator, and so a binary,
//! of their own.

#[macro_use]
mod support;

mod conformance;
mod devices;
mod file;
mod guard;
mod guard_layers;
mod kafka;
mod kv;
mod metadata;
mod net;
mod postgres;
mod postgres_transactions;
mod redis;
mod sqlite;
