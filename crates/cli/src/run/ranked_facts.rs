//! What the targets of a rank are on, by which hosts may differ: file system, mount options, model of the disks below.

use std::collections::BTreeMap;

use taillight_core::plan::Plan;
use taillight_machine::{BlockDevice, DeviceNumber, Sys, block, mounts};

/// Options that are a host's own wherever the same is mounted: its address, places of an overlay.
const OWN: [&str; 5] = ["clientaddr=", "upperdir=", "workdir=", "lowerdir", "datadir+"];

/// Names and values; where a plan has several targets, names say of which.
pub fn facts_of(plan: &Plan) -> BTreeMap<String, String> {
    let sys = Sys::default();
    let mut facts = BTreeMap::new();
    for (name, target) in plan.all_targets() {
        let Some(path) = target.path.as_deref().and_then(block::local) else { continue };
        let of = name.map_or(String::new(), |name| format!(" of {name}"));
        let mut put = |what: &str, value: String| drop(facts.insert(format!("{what}{of}"), value));
        let device = DeviceNumber::of_path(path).is_some();
        if let Some(mount) = mounts::mount_of(&sys, path).filter(|_| !device) {
            put("mount options", of_mount(&mount.all_options()));
            put("file system", mount.fs);
        }
        let disks = block::disks_below(&sys, [path]);
        let models: Vec<String> = disks.iter().filter_map(model).collect();
        if !models.is_empty() {
            put("device model", models.join(", "));
        }
    }
    facts
}

fn of_mount(options: &str) -> String {
    let own = |option: &&str| OWN.iter().any(|own| option.starts_with(own));
    options.split(',').filter(|option| !own(option)).collect::<Vec<_>>().join(",")
}

fn model(disk: &BlockDevice) -> Option<String> {
    let model = disk.attr("device/model")?;
    let firmware = disk.attr("device/firmware_rev").or_else(|| disk.attr("device/rev"));
    Some(match firmware {
        Some(firmware) => format!("{model}, firmware {firmware}"),
        None => model,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_each_hosts_own_is_no_difference() {
        assert_eq!(of_mount("rw,vers=4.2,clientaddr=10.0.0.7,hard"), "rw,vers=4.2,hard");
        assert_eq!(of_mount("rw,lowerdir=/a:/b,upperdir=/c,workdir=/d,xino=off"), "rw,xino=off");
    }

    #[test]
    fn a_file_is_on_a_file_system_and_an_address_on_nothing() {
        let tmp = tempfile::tempdir().unwrap();
        let mut plan = Plan::default();
        assert!(facts_of(&plan).is_empty());
        plan.target.path = Some(tmp.path().join("data").display().to_string());
        let facts = facts_of(&plan);
        assert!(facts.contains_key("file system") && facts.contains_key("mount options"));
        plan.target.path = Some("redis://127.0.0.1:6379/0".to_owned());
        assert!(facts_of(&plan).is_empty());
    }
}
