//! What a job file refers to and does not hold: variables, texts of files, what is at a path and below a directory.
//!
//! The machine is asked through functions, so that tests can answer for another one. Nothing is changed.

use std::io;
use std::os::unix::fs::FileTypeExt;

use taillight_core::units::ByteSize;

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existing {
    /// A regular file and its bytes.
    File(u64),
    /// A block device and its bytes, where they can be read.
    Device(Option<u64>),
    Directory,
    /// Something else, a character device for example.
    Other,
}

impl Existing {
    /// Bytes of a file or device.
    pub fn size(self) -> Option<u64> {
        match self {
            Existing::File(bytes) => Some(bytes),
            Existing::Device(bytes) => bytes,
            Existing::Directory | Existing::Other => None,
        }
    }
}

/// What is asked of the machine.
pub struct Surroundings<'a> {
    /// A variable of the environment.
    pub environment: &'a dyn Fn(&str) -> Option<String>,
    /// The text of a file.
    pub text: &'a dyn Fn(&str) -> io::Result<String>,
    /// What is at a path, links followed; `None`: nothing.
    pub existing: &'a dyn Fn(&str) -> Option<Existing>,
    /// Paths of the regular files below a directory and its directories, sorted.
    pub listed: &'a dyn Fn(&str) -> io::Result<Vec<String>>,
}

/// This machine's.
pub const MACHINE: Surroundings<'static> = Surroundings {
    environment: &|name| std::env::var(name).ok(),
    text: &|path| std::fs::read_to_string(path),
    existing: &existing,
    listed: &listed,
};

fn listed(path: &str) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let (kind, name) = (entry.file_type()?, entry.path().to_string_lossy().into_owned());
        if kind.is_dir() {
            found.extend(listed(&name)?);
        } else if kind.is_file() {
            found.push(name);
        }
    }
    found.sort();
    Ok(found)
}

fn existing(path: &str) -> Option<Existing> {
    let facts = std::fs::metadata(path).ok()?;
    Some(match facts.file_type() {
        kind if kind.is_file() => Existing::File(facts.len()),
        kind if kind.is_dir() => Existing::Directory,
        kind if kind.is_block_device() => Existing::Device(device_bytes(path)),
        _ => Existing::Other,
    })
}

/// Bytes of a block device: sectors of 512 bytes of its `size` file in sysfs (kernel,
/// Documentation/ABI/stable/sysfs-block).
fn device_bytes(path: &str) -> Option<u64> {
    let name = std::fs::canonicalize(path).ok()?;
    let name = name.file_name()?.to_str()?.to_owned();
    let sectors = std::fs::read_to_string(format!("/sys/class/block/{name}/size")).ok()?;
    let sectors: u64 = sectors.trim().parse().ok()?;
    sectors.checked_mul(512)
}

/// Bytes for people.
pub fn format_bytes(bytes: u64) -> String {
    ByteSize(bytes).to_string()
}
