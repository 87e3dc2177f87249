//! The integration tests of the engine as one binary; the one that counts allocations has its own.

mod common;
mod descriptors;
mod pacing;
mod replay;
mod truth;
mod ycsb;
