//! Storage drivers under one contract, and what keeps users' data safe: the traits [`Driver`], [`Target`],
//! [`Session`] (`contract`), the one visible list of drivers ([`DRIVERS`]), and the drivers. `guard` refuses what is in
//! use, `ownership` what is not Taillight's; `conformance` checks any driver against the contract. `net` is no driver:
//! it is the network layer that drivers of servers share. `engine` opens targets, drives sessions and owns clock,
//! schedule and recorder; `cli` lists drivers and resolves options.

mod buffers;
pub mod conformance;
pub mod contract;
mod counter;
mod descriptors;
pub mod file;
pub mod guard;
pub mod identity;
pub mod jvm;
pub mod kafka;
pub mod kv;
pub mod memory;
pub mod metadata;
pub mod net;
pub mod null;
mod options;
pub mod ownership;
mod path_error;
mod patience;
pub mod plugin;
mod priority;
pub mod process;
pub mod registry;
#[cfg(feature = "s3")]
pub mod s3;
pub mod sim;
pub mod space;
pub mod targets;
mod test_target;
mod trial;

pub use contract::{
    AdminAction, BoundDriver, Completion, Driver, Geometry, KeyedTarget, OpenSpec, OptionDoc,
    Session, SessionSpec, Submitted, Target, TargetBridge, TargetPause, VirtualTime,
};
pub use descriptors::OwnDescriptors;
pub use options::{DriverOptions, NoOptions};
pub use priority::io_priority;
pub use registry::{DRIVERS, bind, find, named};
