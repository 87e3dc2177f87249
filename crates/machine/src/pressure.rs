//! What the machine does, this program included: load, pressure stall information, stolen and busy time.

use serde::Serialize;

use crate::Sys;
use crate::cpu::{CpuTicks, KernelStat};

/// A moment of the machine's load.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct MachineLoad {
    /// Load average over one minute.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_1min: Option<f64>,
    /// Tasks that want to run now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<u32>,
    /// Share of time some task waited for a processor in the last 10 s, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_pressure: Option<f64>,
    /// Share of time some task waited for memory in the last 10 s, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_pressure: Option<f64>,
    /// Share of time some task waited for I/O in the last 10 s, percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub io_pressure: Option<f64>,
    /// Processor time of all processors since boot, clock ticks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ticks: Option<CpuTicks>,
}

/// A line of a pressure file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PressureLine {
    /// Share of the last 10 s, percent.
    pub avg10: f64,
    /// Since boot, microseconds.
    pub total_us: u64,
}

/// Pressure stall information of one resource: the time in which tasks waited for it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Pressure {
    /// At least one task.
    pub some: Option<PressureLine>,
    /// All tasks that had work; older kernels lack it for `cpu`.
    pub full: Option<PressureLine>,
}

impl Pressure {
    /// Of `cpu`, `io` or `memory`; none when the kernel keeps no such information.
    pub fn read(sys: &Sys, resource: &str) -> Option<Pressure> {
        Some(Pressure::parse(&sys.text(&format!("/proc/pressure/{resource}"))?))
    }

    /// Reads the text of a pressure file.
    pub fn parse(text: &str) -> Pressure {
        let line = |name: &str| {
            let mut lines = text.lines().filter_map(|l| l.split_once(' '));
            let rest = lines.find(|(first, _)| *first == name)?.1;
            let value = |key| rest.split_whitespace().find_map(|w| w.strip_prefix(key));
            Some(PressureLine {
                avg10: value("avg10=")?.parse().ok()?,
                total_us: value("total=")?.parse().ok()?,
            })
        };
        Pressure { some: line("some"), full: line("full") }
    }
}

/// Load over one minute and running tasks, of `/proc/loadavg`.
pub fn parse_loadavg(text: &str) -> (Option<f64>, Option<u32>) {
    let mut words = text.split_whitespace();
    let load = words.next().and_then(|w| w.parse().ok());
    let running = words.nth(2).and_then(|w| w.split_once('/')?.0.parse().ok());
    (load, running)
}

impl MachineLoad {
    pub fn read(sys: &Sys) -> MachineLoad {
        let pressure = |resource| Some(Pressure::read(sys, resource)?.some?.avg10);
        let (load_1min, running) = parse_loadavg(&sys.text("/proc/loadavg").unwrap_or_default());
        MachineLoad {
            load_1min,
            running,
            cpu_pressure: pressure("cpu"),
            memory_pressure: pressure("memory"),
            io_pressure: pressure("io"),
            ticks: KernelStat::read(sys).map(|stat| stat.cpu_ticks()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pressure_and_load() {
        let text = "some avg10=1.25 avg60=0.17 total=9\nfull avg10=0.02 avg60=0.09 total=7\n";
        let pressure = Pressure::parse(text);
        assert_eq!(pressure.some.map(|l| (l.avg10, l.total_us)), Some((1.25, 9)));
        assert_eq!(pressure.full.map(|l| l.total_us), Some(7));
        let cut = Pressure::parse("full avg10=1");
        assert_eq!((cut.some, cut.full), (None, None));
        assert_eq!(parse_loadavg("0.65 0.84 0.64 3/88 1739"), (Some(0.65), Some(3)));
        assert_eq!(parse_loadavg(""), (None, None));
    }
}
