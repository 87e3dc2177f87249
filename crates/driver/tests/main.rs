//! The integration tests of the drivers as one binary. Those that count allocations have an allocator of their own,
//! and so binaries of their own: `alloc` and `s3_alloc`.

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
