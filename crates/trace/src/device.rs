//! The block device under a path: model, firmware, scheduler, queue settings, what it is made of.

use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::mounts::Mount;
use crate::sys::{Sys, chosen};

/// Queue settings that change results, as the kernel names them.
const QUEUE: [&str; 14] = [
    "nr_requests",
    "rotational",
    "write_cache",
    "fua",
    "logical_block_size",
    "physical_block_size",
    "max_sectors_kb",
    "read_ahead_kb",
    "nomerges",
    "rq_affinity",
    "io_poll",
    "wbt_lat_usec",
    "discard_max_bytes",
    "zoned",
];

/// How deep stacked devices are followed.
const LEVELS: u32 = 4;

/// The number (`8:1`) of the device that `path` is, if it is one.
pub fn number_of(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    meta.file_type().is_block_device().then(|| {
        let (major, minor) = (
            rustix::fs::major(meta.rdev()),
            rustix::fs::minor(meta.rdev()),
        );
        format!("{major}:{minor}")
    })
}

/// The number of the device a file system is on; some file systems have only a source path.
pub fn number_under(sys: &Sys, mount: &Mount) -> Option<String> {
    if sys.exists(&format!("/sys/dev/block/{}", mount.device)) {
        return Some(mount.device.clone());
    }
    number_of(Path::new(&mount.source))
}

/// What sysfs says about the device with this number, an ordered map for people.
pub fn describe(sys: &Sys, number: &str) -> Option<Map<String, Value>> {
    let dir = sys
        .path(&format!("/sys/dev/block/{number}"))
        .canonicalize()
        .ok()?;
    describe_dir(&dir, LEVELS)
}

fn describe_dir(dir: &Path, levels: u32) -> Option<Map<String, Value>> {
    let name = dir.file_name()?.to_str()?.to_owned();
    // A partition shares the model and the queue of its disk.
    let disk = if dir.join("partition").exists() {
        dir.parent()?
    } else {
        dir
    };
    let read = |path: &str| crate::sys::read(&disk.join(path));
    let mut map = Map::new();
    let number = |dir: &Path| crate::sys::read(&dir.join("dev"));
    map.insert("name".into(), json!(name));
    map.insert("number".into(), json!(number(dir)));
    if disk != dir {
        map.insert("disk".into(), json!(disk.file_name()?.to_str()));
        map.insert("disk_number".into(), json!(number(disk)));
    }
    let mut put = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            map.insert(name.into(), json!(value));
        }
    };
    put(
        "vendor",
        read("device/vendor").filter(|v| !v.starts_with("0x")),
    );
    put("model", read("device/model"));
    put(
        "firmware",
        read("device/firmware_rev").or_else(|| read("device/rev")),
    );
    put("transport", read("device/transport"));
    put("backing_file", read("loop/backing_file"));
    put("dm_name", read("dm/name"));
    put("raid_level", read("md/level"));
    if let Some(sectors) = crate::sys::read(&dir.join("size")).and_then(|t| t.parse::<u64>().ok()) {
        map.insert("size".into(), json!(sectors.saturating_mul(512)));
    }
    map.insert("queue".into(), Value::Object(queue(disk)));
    // A partition of a RAID is made of what the RAID is made of.
    let parts = slaves(disk, levels);
    if !parts.is_empty() {
        map.insert("made_of".into(), Value::Array(parts));
    }
    Some(map)
}

fn queue(disk: &Path) -> Map<String, Value> {
    let read = |name: &str| crate::sys::read(&disk.join("queue").join(name));
    let mut map = Map::new();
    if let Some(list) = read("scheduler") {
        map.insert("scheduler".into(), json!(chosen(&list)));
    }
    for name in QUEUE {
        if let Some(text) = read(name) {
            let value = text.parse::<u64>().map_or(json!(text), |n| json!(n));
            map.insert(name.into(), value);
        }
    }
    if let Ok(queues) = std::fs::read_dir(disk.join("mq")) {
        map.insert("hardware_queues".into(), json!(queues.count()));
    }
    map
}

/// The devices a stacked one (device mapper, RAID) is made of.
fn slaves(dir: &Path, levels: u32) -> Vec<Value> {
    let Ok(entries) = std::fs::read_dir(dir.join("slaves")) else {
        return Vec::new();
    };
    if levels == 0 {
        return Vec::new();
    }
    let mut dirs: Vec<_> = entries
        .flatten()
        .filter_map(|e| e.path().canonicalize().ok())
        .collect();
    dirs.sort();
    dirs.iter()
        .filter_map(|d| describe_dir(d, levels - 1))
        .map(Value::Object)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let file = root.join(path);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }

    /// A RAID of one partition of an NVMe disk.
    fn tree(root: &Path) -> Sys {
        let disk = "sys/devices/pci0/nvme0n1";
        put(
            root,
            &format!("{disk}/device/model"),
            "Example SSD 1TB     \n",
        );
        put(root, &format!("{disk}/device/firmware_rev"), "1.0A\n");
        put(
            root,
            &format!("{disk}/queue/scheduler"),
            "[none] mq-deadline\n",
        );
        put(root, &format!("{disk}/queue/nr_requests"), "1023\n");
        put(root, &format!("{disk}/queue/write_cache"), "write back\n");
        put(root, &format!("{disk}/mq/0/cpu_list"), "0\n");
        put(root, &format!("{disk}/mq/1/cpu_list"), "1\n");
        put(root, &format!("{disk}/nvme0n1p1/partition"), "1\n");
        put(root, &format!("{disk}/nvme0n1p1/size"), "2048\n");
        put(root, &format!("{disk}/nvme0n1p1/dev"), "259:1\n");
        put(root, &format!("{disk}/dev"), "259:0\n");
        put(root, "sys/devices/virtual/md0/md/level", "raid1\n");
        let link = |target: &str, at: &str| {
            let at = root.join(at);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            std::os::unix::fs::symlink(root.join(target), at).unwrap();
        };
        link(&format!("{disk}/nvme0n1p1"), "sys/dev/block/259:1");
        link("sys/devices/virtual/md0", "sys/dev/block/9:0");
        put(root, "sys/devices/virtual/md0/md0p1/partition", "1\n");
        put(root, "sys/devices/virtual/md0/md0p1/dev", "259:9\n");
        link("sys/devices/virtual/md0/md0p1", "sys/dev/block/259:9");
        link(
            &format!("{disk}/nvme0n1p1"),
            "sys/devices/virtual/md0/slaves/nvme0n1p1",
        );
        Sys::at(root)
    }

    #[test]
    fn a_partition_shows_its_disk() {
        let dir = tempfile::tempdir().unwrap();
        let map = describe(&tree(dir.path()), "259:1").unwrap();
        assert_eq!(map["name"], "nvme0n1p1");
        assert_eq!(map["disk"], "nvme0n1");
        assert_eq!(
            (&map["number"], &map["disk_number"]),
            (&json!("259:1"), &json!("259:0"))
        );
        assert_eq!(map["model"], "Example SSD 1TB");
        assert_eq!(map["size"], 1 << 20);
        assert_eq!(map["queue"]["scheduler"], "none");
        assert_eq!(map["queue"]["nr_requests"], 1023);
        assert_eq!(map["queue"]["write_cache"], "write back");
        assert_eq!(map["queue"]["hardware_queues"], 2);
    }

    #[test]
    fn a_stacked_device_shows_its_parts() {
        let dir = tempfile::tempdir().unwrap();
        let sys = tree(dir.path());
        let map = describe(&sys, "9:0").unwrap();
        assert_eq!(map["raid_level"], "raid1");
        assert_eq!(map["made_of"][0]["disk"], "nvme0n1");
        assert_eq!(map["made_of"][0]["disk_number"], "259:0");
        let part = describe(&sys, "259:9").unwrap();
        assert_eq!(part["disk"], "md0");
        assert_eq!(part["made_of"], map["made_of"], "as its disk");
    }

    #[test]
    fn no_device_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert!(describe(&Sys::at(dir.path()), "1:1").is_none());
        assert!(number_of(dir.path()).is_none());
    }
}
