//! Which disks' flushes are those of an I/O, and which devices are one disk: the run's own devices with their disks, by
//! number, beside the disks whose flushes were seen. Tracing watches the target's disk and what is below it alone.
//! Devices come from the manifest, never from this machine: the run may be from another one.

use std::collections::BTreeMap;

use serde_json::Value;
use taillight_rundir::RunDir;

use crate::events::io::TracedIo;

/// The disks of a run.
#[derive(Debug, Default)]
pub struct Disks {
    /// The target's devices (a btrfs has several), and those of its other directories, such as a store's log.
    targets: Vec<Device>,
    /// Whole disks of which a flush was seen, with the ends of these by time.
    flushed: BTreeMap<Box<str>, Vec<i64>>,
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
        Disks { targets, flushed: BTreeMap::new() }
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

    /// A flush of this disk was seen, until then; [`Disks::sort`] must follow.
    pub fn flush(&mut self, disk: &str, end_ns: i64) {
        match self.flushed.get_mut(disk) {
            Some(ends) => ends.push(end_ns),
            None => drop(self.flushed.insert(disk.into(), vec![end_ns])),
        }
    }

    /// Puts flushes in order of time.
    pub fn sort(&mut self) {
        self.flushed.values_mut().for_each(|ends| ends.sort_unstable());
    }

    /// Forgets when disks were flushed before a time, but not that they were.
    pub fn forget(&mut self, before_ns: i64) {
        self.flushed.values_mut().for_each(|ends| ends.retain(|end| *end >= before_ns));
    }

    /// When the last flush before this time was over of those that are an I/O's, by its device; where that was not seen, of
    /// those that are the target's, if it is of one disk. None where there was none, and where it cannot be told.
    pub fn last_flush(&self, dev: Option<&str>, at_ns: i64) -> Option<i64> {
        let disks = match dev {
            Some(dev) => self.flushed_for(dev)?,
            None => self.targets.first().filter(|_| self.single())?.flushed(&self.flushed),
        };
        let last = |disk: &str| {
            let ends = self.flushed.get(disk)?;
            ends[..ends.partition_point(|end| *end <= at_ns)].last().copied()
        };
        disks.into_iter().filter_map(last).max()
    }

    /// How long before an I/O began the cache of its disk was flushed last, ns.
    pub fn after_flush_ns(&self, io: &TracedIo) -> Option<i64> {
        Some(io.start_ns - self.last_flush(io.dev.as_deref(), io.start_ns)?)
    }

    /// The disks whose flushes are those of an I/O of device `dev`: its own one, else those below it.
    /// Empty when none of them was ever flushed in this run; `None` when it cannot be told whose the
    /// flushes are that were seen.
    pub fn flushed_for(&self, dev: &str) -> Option<Vec<&str>> {
        match self.find(dev) {
            Some(device) => Some(device.flushed(&self.flushed)),
            None if self.flushed.is_empty() => Some(Vec::new()),
            // Not a device that the manifest knows: a whole disk is at least its own.
            None => Some(vec![&**self.flushed.get_key_value(dev)?.0]),
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
    fn flushed<'a>(&self, seen: &'a BTreeMap<Box<str>, Vec<i64>>) -> Vec<&'a str> {
        match seen.get_key_value(&self.disk) {
            Some((own, _)) => vec![own],
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
        flushed.iter().for_each(|d| disks.flush(d, 0));
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
        ["254:0", "254:16"].iter().for_each(|d| disks.flush(d, 0));
        assert_eq!(disks.flushed_for("254:17"), Some(vec!["254:16"]));
        assert_eq!(disks.flushed_for("254:1"), Some(vec!["254:0"]));
        assert!(!disks.single());
    }

    #[test]
    fn the_last_flush_is_one_of_the_ios_own_disk() {
        let mut one = disks(part("254:1", "254:0"), &[]);
        assert_eq!(one.last_flush(Some("254:1"), 100), None);
        for (disk, end_ns) in [("254:0", 70), ("254:16", 60), ("254:0", 30), ("254:16", 90)] {
            one.flush(disk, end_ns);
        }
        one.sort();
        let last = |dev, at_ns| one.last_flush(dev, at_ns);
        assert_eq!(
            [29, 30, 69, 100].map(|at| last(Some("254:1"), at)),
            [None, Some(30), Some(30), Some(70)]
        );
        assert_eq!(last(Some("254:16"), 100), Some(90), "of another disk that is known whole");
        assert_eq!(last(Some("254:17"), 100), None, "nobody knows of which disk it is a part");
        assert_eq!(last(None, 100), Some(70), "the target's");
        one.forget(50);
        assert_eq!([60, 100].map(|at| one.last_flush(None, at)), [None, Some(70)]);
        let mut two = Disks::described([&part("254:1", "254:0"), &part("8:1", "8:0")]);
        two.flush("8:0", 20);
        assert_eq!(
            [None, Some("254:1"), Some("8:1")].map(|dev| two.last_flush(dev, 90)),
            [None, None, Some(20)]
        );
    }

    #[test]
    fn a_run_that_does_not_say_numbers_knows_whole_disks_only() {
        let old = disks(json!({"name": "vda1", "disk": "vda"}), &["254:0"]);
        assert_eq!(old.flushed_for("254:1"), None);
        assert_eq!(old.flushed_for("254:0"), Some(vec!["254:0"]));
    }
}
