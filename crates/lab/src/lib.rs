//! The injection lab: makes faults with known truth beside a traced run, to score what `taillight explain`
//! blames them on. It runs Taillight as any user does, and is no part of the product.
//!
//! Its images, mounts and loop devices lie in or over its directory, its control groups have its name; [`cleanup`]
//! takes them back, after a lab that was killed the next one does. A few faults change the machine, too: its page
//! cache, its swap, and the CPUs of its kernel threads, which no next lab takes back. `cargo xtask lab` and a test call it.

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
