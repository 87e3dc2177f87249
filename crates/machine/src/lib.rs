//! What the kernel says of this machine: mounts, memory, processors, pressure, control groups, block devices, rights,
//! processes and open files, read from `/proc` and `/sys` below a root that tests can move; of a few devices and file
//! systems it is asked by system calls.
//!
//! Small parsers: where an old kernel or a container hides a field, the others are kept. Judgement and sampling
//! belong to the callers: `trace`, `driver`, the injection lab and `cli`.
//!
//! The crate `procfs` was looked at and left out: its readers fail as a whole when one field is
//! missing, lose the order of mount options, and do not undo the escapes in paths.

pub mod block;
pub mod cgroup;
pub mod cpu;
pub mod exports;
pub mod io_counters;
pub mod loops;
pub mod memory;
pub mod mounts;
pub mod node;
pub mod nvme;
pub mod openers;
pub mod pressure;
pub mod process;
pub mod rights;
mod root;

pub use block::{BlockDevice, DeviceNumber};
pub use root::{Sys, chosen, field, numbers, read};

/// A synthetic tree.
#[cfg(test)]
pub(crate) mod testing {
    use std::path::Path;

    /// Writes a file below `root`, with the directories it needs.
    pub fn put(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
}
