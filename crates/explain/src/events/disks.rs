//! Which disks' flushes are those of an I/O, and which devices are one disk: the run's own devices with their disks, by
//! number, beside the disks whose flushes were seen. Tracing watches the target's disk and what is below it alone.
//! Devices come from the manifest, never from this machine: the run may be from another one.

use std::collections::BTreeSet;

use serde_json::Value;
use taillight_rundir::RunDir;

/// The disks of a run.
#[derive(Debug, Default)]
pub struct Disks {
    /// The target's devices (a btrfs has several), and those of its other directories, such as a store's log.
    targets: Vec<Device>,
    /// Whole disks of which a flush was seen.
    flushed: BTreeSet<Box<str>>,
}

/// The target's device, or one of those that it is made of.
#[derive(Debug, Default)]
struct Device {
    /// `major:minor`; empty when unknown.
    number: Box<str>,
    /// Its name, like `vda1`; empty when unknown.
    name: Box<str>,
    /// The number of the whole disk that it is, or is a partition of.
    disk: Box<str>,
    /// The name of that disk.
    disk_name: Box<str>,
    made_of: Vec<Device>,
}

impl Disks {
    /// As the manifest names them; nothing was flushed yet.
    pub fn of(dir: &RunDir) -> Disks {
        let environment = &dir.manifest().environment;
        let beside = environment.get("beside").and_then(Value::as_array);
        let all = environment.get("target").into_iter().chain(beside.into_iter().flatten());
        let devices = all.flat_map(|target| {
            let further = target.get("further_devices").and_then(Value::as_array);
            target.get("device").into_iter().chain(further.into_iter().flatten())
        });
        Disks::described(devices)
    }

    /// From the descriptions of the target's devices.
    pub fn described<'a>(devices: impl IntoIterator<Item = &'a Value>) -> Disks {
        let targets = devices.into_iter().map(Device::described).collect();
        Disks { targets, flushed: BTreeSet::new() }
    }

    fn find(&self, dev: &str) -> Option<&Device> {
        self.targets.iter().find_map(|d| d.find(dev))
    }

    /// Whether all devices of the target are of one disk; true also where none is known.
    pub fn single(&self) -> bool {
        let first = self.targets.first();
        self.targets.iter().all(|d| first.is_some_and(|first| first.disk == d.disk))
    }

    /// Whether two devices are one disk, or parts of one.
    pub fn same(&self, one: &str, other: &str) -> bool {
        let disk = |dev| self.find(dev).map(|d| &*d.disk);
        one == other || disk(one).is_some_and(|one| Some(one) == disk(other))
    }

    /// The same of devices that may not be known: then where the target is of one disk.
    pub fn may_be_one(&self, one: Option<&str>, other: Option<&str>) -> bool {
        match (one, other) {
            (Some(one), Some(other)) => self.same(one, other),
            _ => self.single(),
        }
    }

    /// What a device is called, like `vda`; its number where the manifest does not know it.
    pub fn name(&self, dev: &str) -> String {
        let known = self.find(dev).map(|d| match &*d.number == dev {
            true => &*d.name,
            false => &*d.disk_name,
        });
        known.filter(|n| !n.is_empty()).map_or_else(|| format!("device {dev}"), str::to_owned)
    }

    /// Whether this device is made of others: a loop device's file, members of a RAID, a server's export.
    pub fn stacked(&self, dev: &str) -> bool {
        /// Numbers of loop, RAID and network block devices.
        const MADE: [&str; 3] = ["7", "9", "43"];
        let number = dev.split_once(':').map_or(dev, |(major, _)| major);
        MADE.contains(&number) || self.find(dev).is_some_and(|d| !d.made_of.is_empty())
    }

    /// A flush of this disk was seen.
    pub fn flush(&mut self, disk: &str) {
        if !self.flushed.contains(disk) {
            self.flushed.insert(disk.into());
        }
    }

    /// The disks whose flushes are those of an I/O of device `dev`: its own one, else those below it.
    /// Empty when none of them was ever flushed in this run; `None` when it cannot be told whose the
    /// flushes are that were seen.
    pub fn flushed_for(&self, dev: &str) -> Option<Vec<&str>> {
        match self.find(dev) {
            Some(device) => Some(device.flushed(&self.flushed)),
            None if self.flushed.is_empty() => Some(Vec::new()),
            // Not a device that the manifest knows: a whole disk is at least its own.
            None => Some(vec![&**self.flushed.get(dev)?]),
        }
    }
}

impl Device {
    fn described(device: &Value) -> Device {
        let text = |key: &str| device.get(key).and_then(Value::as_str);
        let number = text("number").unwrap_or_default();
        let parts = device.get("made_of").and_then(Value::as_array);
        Device {
            number: number.into(),
            name: text("name").unwrap_or_default().into(),
            disk_name: text("disk").or(text("name")).unwrap_or_default().into(),
            disk: text("disk_number").unwrap_or(number).into(),
            made_of: parts.into_iter().flatten().map(Device::described).collect(),
        }
    }

    fn find(&self, dev: &str) -> Option<&Device> {
        if &*self.number == dev || &*self.disk == dev {
            return Some(self);
        }
        self.made_of.iter().find_map(|d| d.find(dev))
    }

    /// Of the disks that were flushed, its own one, else those below it.
    fn flushed<'a>(&self, seen: &'a BTreeSet<Box<str>>) -> Vec<&'a str> {
        match seen.get(&self.disk) {
            Some(own) => vec![own],
            None => self.made_of.iter().flat_map(|d| d.flushed(seen)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn people_know_a_device_by_its_name() {
        let device =
            json!({"name": "vda1", "number": "254:1", "disk": "vda", "disk_number": "254:0"});
        let disks = Disks::described([&device]);
        let names = ["254:1", "254:0", "7:0"].map(|dev| disks.name(dev));
        assert_eq!(names, ["vda1", "vda", "device 7:0"]);
    }

    fn disks(device: Value, flushed: &[&str]) -> Disks {
        let mut disks = Disks::described([&device]);
        flushed.iter().for_each(|d| disks.flush(d));
        disks
    }

    fn part(number: &str, disk: &str) -> Value {
        json!({"name": "a1", "number": number, "disk": "a", "disk_number": disk})
    }

    #[test]
    fn the_flushes_of_another_disk_are_not_its_own() {
        let vda1 = disks(part("254:1", "254:0"), &["254:0", "254:16"]);
        let of = |disks: &Disks, dev: &str| {
            let list = disks.flushed_for(dev)?;
            Some(list.into_iter().map(str::to_owned).collect::<Vec<_>>())
        };
        let some = |dev: &str| Some(vec![dev.to_owned()]);
        assert_eq!(of(&vda1, "254:1"), some("254:0"));
        assert_eq!(of(&vda1, "254:0"), some("254:0"));
        assert_eq!(of(&vda1, "254:16"), some("254:16"), "of itself");
        assert_eq!(of(&vda1, "254:17"), None, "of a disk unknown");
        let nothing = disks(part("254:1", "254:0"), &[]);
        assert_eq!(of(&nothing, "254:1"), Some(vec![]));
        assert_eq!(of(&nothing, "254:17"), Some(vec![]), "nobody flushed");
        let other = disks(part("254:1", "254:0"), &["254:16"]);
        assert_eq!(of(&other, "254:1"), Some(vec![]), "it has no cache");
        // Numbers of NVMe partitions say nothing of their disk; the manifest does.
        let nvme = disks(part("259:2", "259:5"), &["259:0", "259:5"]);
        assert_eq!(of(&nvme, "259:2"), some("259:5"));
        assert_eq!(of(&nvme, "259:3"), None, "maybe nvme1n1");
    }

    #[test]
    fn the_flushes_of_a_stack_are_those_of_the_disks_below() {
        let dm = json!({"number": "253:3", "made_of": [part("254:2", "254:0")]});
        let dm = disks(dm, &["254:0"]);
        assert_eq!(dm.flushed_for("253:3"), Some(vec!["254:0"]));
        assert_eq!(dm.flushed_for("254:2"), Some(vec!["254:0"]));
        assert_eq!(dm.flushed_for("254:17"), None, "beside the stack");
        let md = json!({"number": "9:127", "made_of": [{"number": "8:0"}, {"number": "8:16"}]});
        let md = disks(md, &["8:0", "8:16", "8:32"]);
        assert_eq!(md.flushed_for("9:127"), Some(vec!["8:0", "8:16"]));
        assert_eq!(md.flushed_for("9:126"), None);
        // A device with flushes of its own needs no others'.
        let own = disks(json!({"number": "7:0"}), &["254:0", "7:0"]);
        assert_eq!(own.flushed_for("7:0"), Some(vec!["7:0"]));
    }

    #[test]
    fn a_log_on_a_partition_of_another_disk_has_that_disks_flushes() {
        let (data, log) = (part("254:1", "254:0"), part("254:17", "254:16"));
        let mut disks = Disks::described([&data, &log]);
        ["254:0", "254:16"].iter().for_each(|d| disks.flush(d));
        assert_eq!(disks.flushed_for("254:17"), Some(vec!["254:16"]));
        assert_eq!(disks.flushed_for("254:1"), Some(vec!["254:0"]));
        assert!(!disks.single());
    }

    #[test]
    fn a_run_that_does_not_say_numbers_knows_whole_disks_only() {
        let old = disks(json!({"name": "vda1", "disk": "vda"}), &["254:0"]);
        assert_eq!(old.flushed_for("254:1"), None);
        assert_eq!(old.flushed_for("254:0"), Some(vec!["254:0"]));
    }
}
