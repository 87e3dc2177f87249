//! Checks of the machine as a whole: clock, processors, load, whether it is a virtual machine, memory and `/dev/shm`,
//! io_uring, limits of the control group, libraries that drivers load, and what drivers without a library say of this
//! machine (`Driver::ready`).

use std::path::Path;

use taillight_driver::Driver;
use taillight_machine::Sys;
use taillight_machine::cgroup::CgroupLimits;
use taillight_machine::cpu::CpuInfo;
use taillight_machine::memory::space;
use taillight_machine::pressure::MachineLoad;
use taillight_report::format::{bytes, duration};
use taillight_trace::availability::uring::{self, UringAccess};
use taillight_trace::availability::{clock, libraries};
use taillight_trace::memory_budget;

use super::Check;

/// A clock whose reading takes longer, ns, is warned of: it is a visible part of a fast I/O.
const SLOW_CLOCK_NS: f64 = 100.0;

/// Every check of this module, in the order in which `doctor` shows them: limits only where there are any, one check
/// for each driver with a library, and one for each without that has something to say.
pub fn checks(sys: &Sys) -> Vec<Check> {
    let cpu = CpuInfo::read(sys);
    let load = MachineLoad::read(sys);
    let mut all = vec![
        clock_source(sys),
        clock_cost(clock::cost_ns()),
        governor(&cpu),
        busy(&cpu, &load),
        steal(&cpu, &load),
        memory(sys),
        shared_memory(space(Path::new(memory_budget::SHM)).map(|s| s.available)),
        ring(sys),
    ];
    all.extend(limits(sys));
    let loading = taillight_driver::DRIVERS
        .iter()
        .filter_map(|driver| Some(shared_library(driver.library()?, *driver)));
    all.extend(loading);
    let ready = |driver: &&dyn Driver| Some(Check::ok(driver.name(), driver.ready()?));
    all.extend(taillight_driver::DRIVERS.iter().filter_map(ready));
    all
}

/// Good is the clock source `tsc`; any other, or an unknown one, is warned of.
fn clock_source(sys: &Sys) -> Check {
    let name = "clock source";
    match clock::source(sys).as_deref() {
        Some("tsc") => Check::ok(name, "tsc"),
        Some(other) => {
            let has_tsc = clock::available(sys).iter().any(|s| s == "tsc");
            let fix = match has_tsc {
                true => {
                    "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"
                }
                false => "nothing here; the cost of a reading below tells whether it matters",
            };
            Check::warn(name, format!("{other}, slower to read than tsc"), fix)
        }
        None => Check::warn(name, "unknown", "the cost of a reading below tells what matters"),
    }
}

/// Warns of a clock whose reading takes `ns`, more than [`SLOW_CLOCK_NS`].
fn clock_cost(ns: f64) -> Check {
    let found = format!("{} a reading", duration(ns));
    if ns <= SLOW_CLOCK_NS {
        return Check::ok("clock cost", found);
    }
    Check::warn(
        "clock cost",
        found,
        "I/Os under 10 us carry this cost twice; a tsc clock source costs 20 to 40 ns",
    )
}

/// Warns where a processor has another frequency governor than `performance`; having none is good.
fn governor(cpu: &CpuInfo) -> Check {
    let name = "governor";
    let turbo = match cpu.turbo {
        Some(true) => ", turbo on",
        Some(false) => ", turbo off",
        None => "",
    };
    if cpu.governor.is_empty() {
        return Check::ok(name, format!("none: the clock rate is not managed here{turbo}"));
    }
    let list = cpu.governor.join(", ");
    if cpu.governor.iter().all(|g| g == "performance") {
        return Check::ok(name, list + turbo);
    }
    Check::warn(
        name,
        format!("{list}{turbo}: processors may sleep or slow down between I/Os"),
        "cpupower frequency-set --governor performance",
    )
}

/// Warns of other work: a load average of one minute above 0.3 a processor, tasks that wait for a resource 10 % of the
/// time or more, or an average that is not known. A resource is named from 1 % on.
fn busy(cpu: &CpuInfo, load: &MachineLoad) -> Check {
    let name = "load";
    let Some(average) = load.load_1min else {
        return Check::warn(name, "unknown", "check that nothing else runs");
    };
    let mut found = format!("{average:.2} on {} processors", cpu.logical);
    for (what, share) in [
        ("processor", load.cpu_pressure),
        ("memory", load.memory_pressure),
        ("I/O", load.io_pressure),
    ] {
        if let Some(share) = share.filter(|s| *s >= 1.0) {
            found.push_str(&format!(", tasks wait for {what} {share:.0} % of the time"));
        }
    }
    let pressed = [load.cpu_pressure, load.memory_pressure, load.io_pressure]
        .into_iter()
        .flatten()
        .any(|s| s >= 10.0);
    if average > 0.3 * f64::from(cpu.logical.max(1)) || pressed {
        return Check::warn(name, found, "stop other work before measuring");
    }
    Check::ok(name, found)
}

/// Says whether this is a virtual machine, and warns from 0.1 % of stolen time since boot on.
fn steal(cpu: &CpuInfo, load: &MachineLoad) -> Check {
    let name = "virtual machine";
    let share = load.ticks.map_or(0.0, |t| t.steal_percent());
    match (cpu.hypervisor || share > 0.0, share) {
        (false, _) => Check::ok(name, "no"),
        (true, share) if share < 0.1 => {
            Check::ok(name, format!("yes, {share:.2} % of processor time stolen since boot"))
        }
        (true, share) => Check::warn(
            name,
            format!("yes, {share:.1} % of processor time stolen since boot"),
            "tails include other machines' work; use dedicated processors or bare metal",
        ),
    }
}

/// What memory is free, and how many I/Os the capture holds in its part of it; warns below 1 GiB free. Not passed where
/// the kernel does not say it.
fn memory(sys: &Sys) -> Check {
    let (free, budget) = match memory_budget::read(sys) {
        Ok(memory) => (memory.free_memory.0, memory.capture_budget.0),
        Err(e) => return Check::no("memory", e.to_string(), "mount /proc"),
    };
    // A captured I/O takes about 16 bytes: a budget of 1 GiB holds 67 million.
    let ios = budget / 16 / 1_000_000;
    let found = format!(
        "{} free; the capture takes {} by default, about {ios} million I/Os",
        bytes(free),
        bytes(budget)
    );
    if free >= 1 << 30 {
        return Check::ok("memory", found);
    }
    Check::warn("memory", found, "long runs will keep outliers only past the budget")
}

/// Warns where `/dev/shm` has less than 1 GiB left, in bytes; not passed where there is none.
fn shared_memory(available: Option<u64>) -> Check {
    let name = memory_budget::SHM;
    match available {
        Some(n) if n >= 1 << 30 => Check::ok(name, format!("{} free", bytes(n))),
        Some(n) => Check::warn(
            name,
            format!("{} free: it holds the captured I/Os", bytes(n)),
            "mount -o remount,size=50% /dev/shm (containers: --shm-size=4g)",
        ),
        None => Check::no(
            name,
            "missing: it holds the captured I/Os",
            "mount -t tmpfs tmpfs /dev/shm, or run with capture.mode = \"off\"",
        ),
    }
}

/// Passed where io_uring works here; else why it does not.
fn ring(sys: &Sys) -> Check {
    match uring::probe(sys) {
        UringAccess::Works => Check::ok("io_uring", "works"),
        UringAccess::Blocked { why, fix } => Check::no("io_uring", why, &fix),
    }
}

/// Limits of the control group on processors and memory: one on processors is warned of, one on memory alone is not.
/// None where there are none.
fn limits(sys: &Sys) -> Option<Check> {
    let limits = CgroupLimits::read(sys);
    let cpus = limits.cpus.map(|n| format!("{n} processors"));
    let memory = limits.memory_max.map(|n| format!("{} memory", bytes(n)));
    let list: Vec<String> = cpus.into_iter().chain(memory).collect();
    if list.is_empty() {
        return None;
    }
    let found = format!("this group has at most {}", list.join(" and "));
    Some(match limits.cpus {
        Some(_) => Check::warn(
            "limits",
            found,
            "a processor quota pauses the load and shows as tail latency; lift it to measure",
        ),
        None => Check::ok("limits", found),
    })
}

/// Passed where the library that a driver loads is found, with its version (as the library says it, else as its file is
/// named) and its place.
fn shared_library(name: &str, driver: &dyn Driver) -> Check {
    match libraries::find(name, &libraries::directories()) {
        Some(found) => {
            let version = driver.library_version().or(found.version).unwrap_or_default();
            let place = format!("{version} {}", found.path.display());
            Check::ok(name, format!("{}, for driver `{}`", place.trim(), driver.name()))
        }
        None => Check::no(
            name,
            "not found",
            &format!(
                "install it to measure {}, or name the file with its `library` option",
                driver.name()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    #[test]
    fn slow_clocks_and_governors_are_seen() {
        assert_eq!(clock_cost(25.0).state, CheckState::Ok);
        assert_eq!(clock_cost(900.0).state, CheckState::Warn);
        let mut cpu =
            CpuInfo { governor: vec!["powersave".into()], logical: 4, ..CpuInfo::default() };
        assert_eq!(governor(&cpu).state, CheckState::Warn);
        cpu.governor = vec!["performance".into()];
        assert_eq!(governor(&cpu).state, CheckState::Ok);
    }

    #[test]
    fn a_busy_machine_is_seen() {
        let cpu = CpuInfo { logical: 4, ..CpuInfo::default() };
        let mut load = MachineLoad { load_1min: Some(0.5), ..MachineLoad::default() };
        assert_eq!(busy(&cpu, &load).state, CheckState::Ok);
        load.io_pressure = Some(40.0);
        assert_eq!(busy(&cpu, &load).state, CheckState::Warn);
        assert!(busy(&cpu, &load).found.contains("wait for I/O 40 %"));
    }

    #[test]
    fn small_shared_memory_is_seen() {
        assert_eq!(shared_memory(Some(64 << 20)).state, CheckState::Warn);
        assert_eq!(shared_memory(Some(8 << 30)).state, CheckState::Ok);
        assert_eq!(shared_memory(None).state, CheckState::No);
    }
}
