//! What else the machine does: load, pressure stall information, stolen and busy time.

use serde::Serialize;

use crate::sys::Sys;

/// A moment of the machine's load.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Load {
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
    pub ticks: Option<Ticks>,
}

/// Processor time since boot, in clock ticks over all processors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Ticks {
    pub total: u64,
    /// Idle, waiting for I/O included.
    pub idle: u64,
    /// Taken by the hypervisor for other machines.
    pub steal: u64,
    pub interrupts: u64,
}

impl Ticks {
    /// What passed since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Ticks) -> Ticks {
        Ticks {
            total: self.total.saturating_sub(earlier.total),
            idle: self.idle.saturating_sub(earlier.idle),
            steal: self.steal.saturating_sub(earlier.steal),
            interrupts: self.interrupts.saturating_sub(earlier.interrupts),
        }
    }
    /// Stolen time, percent of all.
    pub fn steal_percent(self) -> f64 {
        percent(self.steal, self.total)
    }
    /// Busy time, stolen time excluded, percent of all.
    pub fn busy_percent(self) -> f64 {
        percent(
            self.total.saturating_sub(self.idle + self.steal),
            self.total,
        )
    }
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    (part as f64 * 1e4 / whole as f64).round() / 100.0
}

/// The `cpu` line of `/proc/stat`.
pub fn parse_ticks(text: &str) -> Option<Ticks> {
    let line = text.lines().find(|l| l.starts_with("cpu "))?;
    let n: Vec<u64> = line
        .split_whitespace()
        .skip(1)
        .map_while(|v| v.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal; guest time is inside user and nice.
    let at = |i: usize| n.get(i).copied().unwrap_or(0);
    (n.len() >= 4).then(|| Ticks {
        total: n.iter().take(8).sum(),
        idle: at(3) + at(4),
        steal: at(7),
        interrupts: at(5) + at(6),
    })
}

/// `avg10` of the `some` line of a pressure file.
pub fn parse_pressure(text: &str) -> Option<f64> {
    let line = text.lines().find(|l| l.starts_with("some "))?;
    let value = line
        .split_whitespace()
        .find_map(|w| w.strip_prefix("avg10="))?;
    value.parse().ok()
}

/// Load over one minute and running tasks, of `/proc/loadavg`.
pub fn parse_loadavg(text: &str) -> (Option<f64>, Option<u32>) {
    let mut words = text.split_whitespace();
    let load = words.next().and_then(|w| w.parse().ok());
    let running = words.nth(2).and_then(|w| w.split_once('/')?.0.parse().ok());
    (load, running)
}

impl Load {
    pub fn read(sys: &Sys) -> Load {
        let pressure = |what: &str| {
            sys.text(&format!("/proc/pressure/{what}"))
                .and_then(|t| parse_pressure(&t))
        };
        let (load_1min, running) = parse_loadavg(&sys.text("/proc/loadavg").unwrap_or_default());
        Load {
            load_1min,
            running,
            cpu_pressure: pressure("cpu"),
            memory_pressure: pressure("memory"),
            io_pressure: pressure("io"),
            ticks: sys.text("/proc/stat").and_then(|t| parse_ticks(&t)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_a_virtual_machine() {
        let t = parse_ticks(include_str!("../fixtures/stat.txt")).unwrap();
        assert_eq!(
            (t.total, t.idle, t.steal, t.interrupts),
            (1000, 700, 50, 30)
        );
        assert_eq!(t.steal_percent(), 5.0);
        assert_eq!(t.busy_percent(), 25.0);
        assert_eq!(t.since(t).total, 0);
        assert_eq!(t.since(t).steal_percent(), 0.0);
    }

    #[test]
    fn pressure_and_load() {
        let text = "some avg10=1.25 avg60=0.17 total=9\nfull avg10=0.02 avg60=0.09 total=7\n";
        assert_eq!(parse_pressure(text), Some(1.25));
        assert_eq!(parse_pressure("full avg10=1"), None);
        assert_eq!(
            parse_loadavg("0.65 0.84 0.64 3/88 1739"),
            (Some(0.65), Some(3))
        );
        assert_eq!(parse_loadavg(""), (None, None));
    }
}
