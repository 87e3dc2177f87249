//! The block device under a path for people: model, firmware, scheduler, queue settings, what it is
//! made of.

use serde_json::{Map, Value, json};
use taillight_machine::{BlockDevice, chosen};

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

/// What sysfs says about a device, an ordered map; `explain` reads its names, numbers and `made_of` back.
pub fn describe(device: &BlockDevice) -> Map<String, Value> {
    describe_within(device, LEVELS)
}

fn describe_within(device: &BlockDevice, levels: u32) -> Map<String, Value> {
    let disk = device.whole();
    let mut map = Map::new();
    map.insert("name".into(), json!(device.name));
    map.insert("number".into(), json!(device.number.to_string()));
    if disk != *device {
        map.insert("disk".into(), json!(disk.name));
        map.insert("disk_number".into(), json!(disk.number.to_string()));
    }
    let vendor = disk.attr("device/vendor").filter(|v| !v.starts_with("0x"));
    let firmware = disk.attr("device/firmware_rev").or_else(|| disk.attr("device/rev"));
    // Of NVMe drives and virtio disks; others have no name for it in sysfs.
    let serial = disk.attr("device/serial").or_else(|| disk.attr("serial"));
    let texts = [
        ("vendor", vendor),
        ("model", disk.attr("device/model")),
        ("firmware", firmware),
        ("serial", serial),
        ("transport", disk.attr("device/transport")),
        ("link", link(&disk)),
        ("backing_file", disk.backing_file()),
        ("dm_name", disk.attr("dm/name")),
        ("raid_level", disk.attr("md/level")),
    ];
    for (name, value) in texts {
        if let Some(value) = value {
            map.insert(name.into(), json!(value));
        }
    }
    if let Some(size) = device.size() {
        map.insert("size".into(), json!(size));
    }
    map.insert("queue".into(), Value::Object(queue(&disk)));
    // A partition of a RAID is made of what the RAID is made of.
    let members = match levels {
        0 => Vec::new(),
        _ => disk.members(),
    };
    if !members.is_empty() {
        let members = members.iter().map(|m| describe_within(m, levels - 1));
        map.insert("made_of".into(), members.map(Value::Object).collect());
    }
    map
}

/// Speed and width of the PCIe link of an NVMe drive.
fn link(disk: &BlockDevice) -> Option<String> {
    let of = |name: &str| disk.attr(&format!("device/device/current_link_{name}"));
    Some(format!("PCIe {} x{}", of("speed")?.trim_end_matches(" PCIe"), of("width")?))
}

fn queue(disk: &BlockDevice) -> Map<String, Value> {
    let mut map = Map::new();
    if let Some(list) = disk.queue("scheduler") {
        map.insert("scheduler".into(), json!(chosen(&list)));
    }
    for name in QUEUE {
        if let Some(text) = disk.queue(name) {
            let value = text.parse::<u64>().map_or(json!(text), |n| json!(n));
            map.insert(name.into(), value);
        }
    }
    if let Some(queues) = disk.hardware_queues() {
        map.insert("hardware_queues".into(), json!(queues));
    }
    map
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use taillight_machine::Sys;

    use super::*;
    use crate::host::testing::put;

    /// A RAID of one partition of an NVMe disk.
    fn tree(root: &Path) -> Sys {
        let disk = "sys/devices/pci0/nvme0n1";
        put(root, &format!("{disk}/device/model"), "Example SSD 1TB     \n");
        put(root, &format!("{disk}/device/firmware_rev"), "1.0A\n");
        put(root, &format!("{disk}/device/serial"), "S1\n");
        put(root, &format!("{disk}/device/device/current_link_speed"), "16.0 GT/s PCIe\n");
        put(root, &format!("{disk}/device/device/current_link_width"), "4\n");
        put(root, &format!("{disk}/queue/scheduler"), "[none] mq-deadline\n");
        put(root, &format!("{disk}/queue/nr_requests"), "1023\n");
        put(root, &format!("{disk}/queue/write_cache"), "write back\n");
        put(root, &format!("{disk}/mq/0/cpu_list"), "0\n");
        put(root, &format!("{disk}/mq/1/cpu_list"), "1\n");
        put(root, &format!("{disk}/nvme0n1p1/partition"), "1\n");
        put(root, &format!("{disk}/nvme0n1p1/size"), "2048\n");
        put(root, &format!("{disk}/nvme0n1p1/dev"), "259:1\n");
        put(root, &format!("{disk}/dev"), "259:0\n");
        put(root, "sys/devices/virtual/md0/md/level", "raid1\n");
        put(root, "sys/devices/virtual/md0/dev", "9:0\n");
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
        link(&format!("{disk}/nvme0n1p1"), "sys/devices/virtual/md0/slaves/nvme0n1p1");
        Sys::at(root)
    }

    fn described(sys: &Sys, number: &str) -> Map<String, Value> {
        let device = BlockDevice::find(sys, number.parse().unwrap());
        describe(&device.unwrap())
    }

    #[test]
    fn a_partition_shows_its_disk() {
        let dir = tempfile::tempdir().unwrap();
        let map = described(&tree(dir.path()), "259:1");
        assert_eq!(map["name"], "nvme0n1p1");
        assert_eq!(map["disk"], "nvme0n1");
        assert_eq!((&map["number"], &map["disk_number"]), (&json!("259:1"), &json!("259:0")));
        assert_eq!(map["model"], "Example SSD 1TB");
        assert_eq!(map["size"], 1 << 20);
        assert_eq!((&map["serial"], &map["link"]), (&json!("S1"), &json!("PCIe 16.0 GT/s x4")));
        assert_eq!(map["queue"]["scheduler"], "none");
        assert_eq!(map["queue"]["nr_requests"], 1023);
        assert_eq!(map["queue"]["write_cache"], "write back");
        assert_eq!(map["queue"]["hardware_queues"], 2);
    }

    #[test]
    fn a_stacked_device_shows_its_parts() {
        let dir = tempfile::tempdir().unwrap();
        let sys = tree(dir.path());
        let map = described(&sys, "9:0");
        assert_eq!(map["raid_level"], "raid1");
        assert_eq!(map["made_of"][0]["disk"], "nvme0n1");
        assert_eq!(map["made_of"][0]["disk_number"], "259:0");
        let part = described(&sys, "259:9");
        assert_eq!(part["disk"], "md0");
        assert_eq!(part["made_of"], map["made_of"], "as its disk");
    }
}
