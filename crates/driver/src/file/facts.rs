//! What the manifest says about a file target: file system, device and its queue.

use std::os::fd::AsFd;

use rustix::fs::{AtFlags, StatxFlags, statx};

use taillight_machine::mounts::{self, Mount};
use taillight_machine::{BlockDevice, Sys};

/// Names and values, in the order they are shown.
pub type Facts = Vec<(String, String)>;

/// Queue settings worth knowing, as sysfs calls them.
const QUEUE: [&str; 13] = [
    "scheduler",
    "nr_requests",
    "rotational",
    "logical_block_size",
    "physical_block_size",
    "write_cache",
    "fua",
    "io_poll",
    "wbt_lat_usec",
    "max_sectors_kb",
    "max_segments",
    "max_segment_size",
    "discard_max_bytes",
];

/// The mount that holds an open file, by its mount id.
pub fn mount_of(fd: impl AsFd) -> Option<Mount> {
    let flags = AtFlags::EMPTY_PATH;
    let id = statx(fd, c"", flags, StatxFlags::MNT_ID).ok()?.stx_mnt_id;
    mounts::mounts(&Sys::default()).ok()?.into_iter().find(|m| m.id == id)
}

pub fn add_mount(mount: &Mount, facts: &mut Facts) {
    let mut add = |name: &str, value: &str| facts.push((name.to_owned(), value.to_owned()));
    add("fs.type", &mount.fs);
    add("fs.mount_point", &mount.point.to_string_lossy());
    add("fs.source", &mount.source.to_string_lossy());
    add("fs.options", &format!("{};{}", mount.options, mount.super_options));
}

pub fn add_device(block: &BlockDevice, facts: &mut Facts) {
    let whole = block.whole();
    let mut add = |name: String, value: Option<String>| {
        facts.extend(value.map(|v| (name, v)));
    };
    add("device.name".to_owned(), Some(block.name.clone()));
    add("device.number".to_owned(), Some(block.number.to_string()));
    if whole != *block {
        add("device.disk".to_owned(), Some(whole.name.clone()));
    }
    add("device.model".to_owned(), whole.attr("device/model"));
    let firmware = whole.attr("device/firmware_rev").or_else(|| whole.attr("device/rev"));
    add("device.firmware".to_owned(), firmware);
    add("device.backing_file".to_owned(), whole.backing_file());
    for name in QUEUE {
        add(format!("queue.{name}"), block.queue(name));
    }
}
