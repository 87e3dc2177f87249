//! The injection lab: faults with known truth, made beside a traced run, to score what
//! `taillight explain` blames them on.
//!
//! What it is: a program beside the product, like the benches; it runs Taillight as any user does.
//! What it is not: part of the product. Everything it touches it made itself: images in memory, loop
//! devices, mounts and control groups with its name; all is taken back on every way out, and a lab
//! that was killed is swept up by the next. Called by `cargo xtask lab` and by a test.

pub mod blocklog;
pub mod cleanup;
pub mod fault_trial;
pub mod faults;
pub mod fuse;
pub mod proxy;
pub mod score;
pub mod setting;
pub mod stage;
pub mod trial;
pub mod truth;
pub mod victim;
