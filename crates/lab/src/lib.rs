//! The injection lab: makes faults with known truth beside a traced run, to score what `taillight explain`
//! blames them on. It runs Taillight as any user does, and is no part of the product.
//!
//! Everything it touches it made itself: images in memory, loop devices, mounts and control groups with
//! its name. All is taken back on every way out; after a lab that was killed, the next one sweeps up.
//! Called by `cargo xtask lab` and by a test.

pub mod blocklog;
pub mod cleanup;
pub mod fault_trial;
pub mod faults;
pub mod fuse;
pub mod proxy;
pub mod rules;
pub mod score;
pub mod setting;
pub mod stage;
pub mod trial;
pub mod truth;
pub mod victim;
