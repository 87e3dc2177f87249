//! Checks of the path that is going to be measured: whether it is there, direct I/O, its file system, and the device
//! below it. A server's address is named and not contacted.

use std::path::Path;

use taillight_core::units::readable::in_line;
use taillight_machine::memory::space;
use taillight_machine::{BlockDevice, DeviceNumber, Sys, block, mounts};
use taillight_report::format::bytes;
use taillight_trace::availability::direct;
use taillight_trace::environment::device;

use super::Check;

/// Every check of a path; of one that does not exist yet, of the nearest path above it that does. A device has no check
/// of a file system; a path that cannot be reached has this one check alone.
pub fn checks(sys: &Sys, path: &Path) -> Vec<Check> {
    let shown = in_line(path.display());
    let Some(existing) = mounts::existing(path) else {
        let fix = "give a path on a mounted file system, or a device";
        return vec![Check::no("path", format!("{shown} cannot be reached"), fix)];
    };
    let mut all: Vec<Check> = missing(path).into_iter().collect();
    all.push(direct_io(&existing));
    let number = DeviceNumber::of_path(&existing);
    let mount = mounts::mount_of(sys, path);
    if number.is_none() {
        all.push(file_system(mount.as_ref(), &existing));
    }
    let number = number.or_else(|| block::devices_of(sys, path).first().copied());
    let device = number.and_then(|n| BlockDevice::find(sys, n));
    all.push(match device {
        Some(device) => Check::ok("device", device_text(&device::describe(&device))),
        None => Check::warn(
            "device",
            "no local block device is behind this path",
            "memory and network file systems measure memory and network",
        ),
    });
    all
}

/// What is said of the address of a server that `driver` drives: it is passed as it is.
pub fn server(path: &Path, driver: &str) -> Check {
    let found = format!("{} is a server (driver {driver}): a run asks it", in_line(path.display()));
    Check::ok("path", found)
}

/// Says of a path that is not there what the other checks look at instead: a warning where a run could make it, not
/// passed where its directory is missing, too. None of one that is there, or cannot be reached at all.
pub fn missing(path: &Path) -> Option<Check> {
    if path.exists() {
        return None;
    }
    let shown = in_line(path.display());
    let existing = mounts::existing(path)?;
    let parent = std::path::absolute(path).ok()?.parent()?.exists();
    Some(match parent {
        true => Check::warn(
            "path",
            format!(
                "{shown} does not exist; a run would make it. Looked at instead: {}",
                in_line(existing.display())
            ),
            "correct the path, if that is not what you mean",
        ),
        false => Check::no(
            "path",
            format!(
                "{shown} does not exist, nor does the directory it would be in. Looked at instead: {}",
                in_line(existing.display())
            ),
            "correct the path, or make that directory",
        ),
    })
}

/// Passed where direct I/O works, with the multiple that offsets and sizes must be of.
fn direct_io(path: &Path) -> Check {
    let name = "direct I/O";
    let shown = in_line(path.display());
    // Some file systems have no unnamed files, and say so in several ways.
    let answer = direct::probe(path).or_else(|e| match path.is_dir() {
        true => direct::probe_named(path),
        false => Err(e),
    });
    match answer {
        Ok(d) => Check::ok(
            name,
            format!(
                "works on {shown}; offsets and sizes in multiples of {}",
                bytes(u64::from(d.offset_align))
            ),
        ),
        Err(e) => {
            let fix = match e.kind() {
                std::io::ErrorKind::PermissionDenied => {
                    "this user may not write there; use another"
                }
                _ => "use direct = false; results then include the page cache",
            };
            Check::no(name, format!("not on {shown}: {e}"), fix)
        }
    }
}

/// The file system with its options and free space: not passed where it is read-only; memory, an overlay, or one that
/// is not known is warned of.
fn file_system(mount: Option<&mounts::Mount>, path: &Path) -> Check {
    let name = "file system";
    let Some(mount) = mount else {
        return Check::warn(name, "unknown", "is /proc mounted?");
    };
    let room = space(path).map_or(String::new(), |s| format!(", {} free", bytes(s.available)));
    let found = format!(
        "{} on {} ({}){room}",
        mount.fs,
        mount.point.display(),
        mount.all_options().replace(',', ", ")
    );
    let read_only = mount.options.split(',').any(|o| o == "ro");
    if read_only {
        return Check::no(name, found, "mount it for writing, or only read from it");
    }
    if matches!(mount.fs.as_str(), "tmpfs" | "ramfs" | "overlay") {
        return Check::warn(
            name,
            found,
            "this measures memory or an overlay; use a directory on the device you mean",
        );
    }
    Check::ok(name, found)
}

/// A device in one line: name, model, firmware, and how its queue is set; what is not known is left out.
fn device_text(map: &serde_json::Map<String, serde_json::Value>) -> String {
    let text = |v: Option<&serde_json::Value>| match v {
        Some(serde_json::Value::String(s)) => Some(s.clone()),
        Some(serde_json::Value::Number(n)) => Some(n.to_string()),
        _ => None,
    };
    let of = |name: &str| text(map.get(name));
    let queue = |name: &str| text(map.get("queue").and_then(|q| q.get(name)));
    let mut parts: Vec<String> =
        ["name", "model", "firmware"].iter().filter_map(|n| of(n)).collect();
    for (label, value) in [
        ("scheduler", queue("scheduler")),
        ("write cache", queue("write_cache")),
        ("queue", queue("nr_requests")),
        ("blocks of", queue("logical_block_size")),
    ] {
        parts.extend(value.map(|v| format!("{label} {v}")));
    }
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    #[test]
    fn memory_file_systems_are_named() {
        let mount = |kind: &str, options: &str| mounts::Mount {
            id: 1,
            root: "/".into(),
            point: "/x".into(),
            fs: kind.into(),
            source: "none".into(),
            options: options.into(),
            super_options: String::new(),
            device: DeviceNumber { major: 0, minor: 1 },
        };
        let state = |m: mounts::Mount| file_system(Some(&m), Path::new("/")).state;
        assert_eq!(state(mount("tmpfs", "rw")), CheckState::Warn);
        assert_eq!(state(mount("ext4", "ro,relatime")), CheckState::No);
        assert_eq!(state(mount("xfs", "rw,noatime")), CheckState::Ok);
    }

    #[test]
    fn a_device_reads_as_one_line() {
        let map = serde_json::json!({
            "name": "nvme0n1", "model": "Example", "queue": { "scheduler": "none", "nr_requests": 64 }
        });
        assert_eq!(
            device_text(map.as_object().unwrap()),
            "nvme0n1, Example, scheduler none, queue 64"
        );
    }
}
