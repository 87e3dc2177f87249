//! Environment disclosure: what a reader of the result must know about the machine.
//!
//! An ordered map for the manifest, most asked first. Load is read before the run and, with what
//! happened in between, after it.

pub mod device;

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::{Map, Value, json};
use taillight_machine::cgroup::CgroupLimits;
use taillight_machine::cpu::{CpuInfo, CpuTicks};
use taillight_machine::memory::{Memory, space};
use taillight_machine::pressure::MachineLoad;
use taillight_machine::{BlockDevice, DeviceNumber, Sys, block, field, mounts};

use crate::availability::{clock, direct};

/// What was read before the run.
#[derive(Debug, Clone)]
pub struct Environment {
    map: Map<String, Value>,
    ticks: Option<CpuTicks>,
    /// CPU time of this process, s.
    own_s: f64,
}

/// CPU time of this process so far, its kernel time and its io_uring threads included, s.
fn own_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// Busy time of all but this process, percent of all CPUs; `own_s` is its own in the same time.
fn others_percent(passed: CpuTicks, own_s: f64) -> f64 {
    let ticks = own_s * rustix::param::clock_ticks_per_second() as f64;
    let own = 100.0 * ticks / passed.total.max(1) as f64;
    ((passed.busy_percent() - own).max(0.0) * 100.0).round() / 100.0
}

impl Environment {
    /// Reads everything; `target` is the path under test, which may not exist yet.
    pub fn before(sys: &Sys, target: Option<&Path>) -> Environment {
        let load = MachineLoad::read(sys);
        let mut map = Map::new();
        map.insert("system".into(), Value::Object(system(sys)));
        put(&mut map, "cpu", &CpuInfo::read(sys));
        put(&mut map, "memory", &Memory::read(sys));
        map.insert(
            "clock".into(),
            json!({ "source": clock::source(sys), "available": clock::available(sys) }),
        );
        put(&mut map, "limits", &CgroupLimits::read(sys));
        if let Some(path) = target {
            map.insert("target".into(), Value::Object(target_facts(sys, path)));
        }
        map.insert("load".into(), json!({ "before": load }));
        Environment { map, ticks: load.ticks, own_s: own_s() }
    }

    /// Adds a section of its own, such as what a driver discloses.
    pub fn add(&mut self, name: &str, facts: &[(String, String)]) {
        let section = facts.iter().map(|(k, v)| (k.clone(), json!(v))).collect::<Map<_, _>>();
        self.map.insert(name.to_owned(), Value::Object(section));
    }

    /// Adds what further directories of the target are on, such as a store's log, in `beside`.
    pub fn add_beside(&mut self, sys: &Sys, paths: &[PathBuf]) -> &Environment {
        if !paths.is_empty() {
            let facts = paths.iter().map(|path| Value::Object(target_facts(sys, path)));
            self.map.insert("beside".into(), facts.collect());
        }
        self
    }

    /// What was read so far.
    pub fn map(&self) -> &Map<String, Value> {
        &self.map
    }

    /// Adds the load after the run, and the processor time of everyone during it.
    pub fn after(&self, sys: &Sys) -> Map<String, Value> {
        let load = MachineLoad::read(sys);
        let mut map = self.map.clone();
        let during = load.ticks.zip(self.ticks).map(|(now, then)| {
            let passed = now.since(then);
            json!({
                "busy_percent": passed.busy_percent(),
                "others_percent": others_percent(passed, own_s() - self.own_s),
                "steal_percent": passed.steal_percent(),
            })
        });
        if let Some(Value::Object(section)) = map.get_mut("load") {
            section.insert("after".into(), json!(load));
            if let Some(during) = during {
                section.insert("during".into(), during);
            }
        }
        map
    }
}

fn put<T: Serialize>(map: &mut Map<String, Value>, name: &str, value: &T) {
    // These types have nothing that could fail to become JSON.
    if let Ok(value) = serde_json::to_value(value) {
        map.insert(name.to_owned(), value);
    }
}

fn system(sys: &Sys) -> Map<String, Value> {
    let release = sys.text("/etc/os-release").unwrap_or_default();
    let hypervisor = sys.text("/sys/hypervisor/type");
    let dmi = |names: [&str; 2]| {
        let said = names.iter().filter_map(|name| sys.text(&format!("/sys/class/dmi/id/{name}")));
        Some(said.collect::<Vec<_>>().join(" "))
    };
    let mut map = Map::new();
    let mut text = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|v| !v.is_empty()) {
            map.insert(name.into(), json!(value));
        }
    };
    text("os", field(&release, '=', "PRETTY_NAME").map(|v| v.trim_matches('"').to_owned()));
    text("kernel", sys.text("/proc/sys/kernel/osrelease"));
    text("architecture", Some(std::env::consts::ARCH.to_owned()));
    text("hardware", dmi(["sys_vendor", "product_name"]));
    text("board", dmi(["board_vendor", "board_name"]));
    text("hypervisor", hypervisor);
    text("boot_options", sys.text("/proc/cmdline").map(|t| boot_options(&t)));
    map
}

/// Boot options that change timing; the rest (disks, secrets) is nobody's business.
fn boot_options(cmdline: &str) -> String {
    const TIMING: [&str; 12] = [
        "isolcpus",
        "nohz",
        "nohz_full",
        "rcu_nocbs",
        "mitigations",
        "idle",
        "processor.max_cstate",
        "intel_idle.max_cstate",
        "intel_pstate",
        "amd_pstate",
        "clocksource",
        "tsc",
    ];
    let wanted = |word: &&str| TIMING.contains(&word.split('=').next().unwrap_or_default());
    cmdline.split_whitespace().filter(wanted).collect::<Vec<_>>().join(" ")
}

/// The target of a run: mount, free space, block device; direct I/O, which is tried with an unnamed temporary file.
pub fn target_facts(sys: &Sys, path: &Path) -> Map<String, Value> {
    let mut map = Map::new();
    map.insert("path".into(), json!(path.to_string_lossy()));
    let number = DeviceNumber::of_path(path);
    let mount = mounts::mount_of(sys, path).filter(|_| number.is_none());
    let mut numbers = match number {
        Some(number) => vec![number],
        None => block::devices_of(sys, path),
    }
    .into_iter();
    let number = numbers.next();
    if let Some(mount) = &mount {
        map.insert(
            "file_system".into(),
            json!({
                "kind": mount.fs,
                "mounted_on": mount.point.to_string_lossy(),
                "source": mount.source.to_string_lossy(),
                "options": mount.all_options(),
            }),
        );
    }
    if let Some(existing) = mounts::existing(path) {
        if let Some(space) = space(&existing).filter(|_| mount.is_some()) {
            map.insert("space".into(), json!(space));
        }
        if let Ok(direct) = direct::probe(&existing) {
            map.insert("direct_io".into(), json!(direct));
        }
    }
    if let Some(device) = number.and_then(|n| BlockDevice::find(sys, n)) {
        map.insert("device".into(), Value::Object(device::describe(&device)));
    }
    // A file system of several disks, an overlay of several file systems.
    let more = numbers.filter_map(|n| BlockDevice::find(sys, n));
    let more: Vec<Value> = more.map(|d| Value::Object(device::describe(&d))).collect();
    if !more.is_empty() {
        map.insert("further_devices".into(), json!(more));
    }
    map
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_come_in_the_order_of_interest() {
        let dir = tempfile::tempdir().unwrap();
        let mut before = Environment::before(&Sys::default(), Some(dir.path()));
        before.add("driver", &[("engine".into(), "sync".into())]);
        let after = before.after(&Sys::default());
        let names: Vec<&str> = after.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            ["system", "cpu", "memory", "clock", "limits", "target", "load", "driver"]
        );
        assert_eq!(after["driver"]["engine"], "sync");
        assert!(after["load"]["before"].is_object());
        assert!(after["load"]["after"].is_object());
        assert!(after["target"]["file_system"]["kind"].is_string());
    }

    #[test]
    fn what_this_process_used_is_not_others() {
        let second = rustix::param::clock_ticks_per_second();
        // Two CPUs for 10 s, one of them idle for 4 s.
        let passed = CpuTicks { total: 20 * second, idle: 4 * second, ..CpuTicks::default() };
        assert_eq!(passed.busy_percent(), 80.0);
        assert_eq!(others_percent(passed, 9.0), 35.0);
        assert_eq!(others_percent(passed, 16.5), 0.0, "clocks differ a little");
    }

    #[test]
    fn boot_options_are_chosen_by_name() {
        let line = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 isolcpus=2,3 quiet token=x mitigations=off";
        assert_eq!(boot_options(line), "isolcpus=2,3 mitigations=off");
    }
}
