//! The machine under the figures: what it is, and how busy it is.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use crate::child;

/// CPU seconds spent by everything on this machine since boot, idle and I/O wait excluded.
pub fn busy_s() -> Result<f64> {
    let stat = fs::read_to_string("/proc/stat").context("/proc/stat")?;
    busy_of(&stat).context("/proc/stat has no cpu line")
}

/// user nice system (idle iowait) irq softirq steal, in hundredths of a second.
fn busy_of(stat: &str) -> Option<f64> {
    let line = stat.lines().find(|l| l.starts_with("cpu "))?;
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
    let busy = ticks.iter().enumerate().filter(|(i, _)| *i < 8 && *i != 3 && *i != 4);
    Some(busy.map(|(_, t)| t).sum::<f64>() / 100.0)
}

/// One line about the machine for people: processor, cores, memory, kernel, fio.
pub fn line() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|l| l.starts_with(name));
        line.and_then(|l| l.split(':').nth(1)).unwrap_or("?").trim().to_string()
    };
    let cpu = read("/proc/cpuinfo");
    let cores = cpu.lines().filter(|l| l.starts_with("processor")).count();
    let memory: f64 =
        field(&read("/proc/meminfo"), "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0.0);
    let release = read("/proc/sys/kernel/osrelease");
    let kernel: Vec<&str> = release.trim().split(['.', '-']).take(2).collect();
    let virtual_machine = cpu.contains(" hypervisor");
    format!(
        "{}, {cores} CPUs{}, {:.0} GiB, Linux {}, {}",
        field(&cpu, "model name"),
        if virtual_machine { " of a virtual machine" } else { "" },
        memory / f64::from(1 << 20),
        kernel.join("."),
        crate::fio::version()
    )
}

/// Bytes touched by [`sync_and_warm`].
const WARM: usize = 1 << 30;

/// The same start for every arm of a comparison that writes: nothing dirty left of the one before,
/// and free memory that is the guest's own. On a virtual machine freed pages go back to the host,
/// and the arm that takes them again pays for it, half a second in one run of five.
pub fn sync_and_warm() -> Result<()> {
    child::run(&mut Command::new("sync"))?;
    std::hint::black_box(vec![1_u8; WARM]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_are_not_busy() {
        assert_eq!(busy_of("cpu  100 0 50 9999 9999 1 2 3 77 0\ncpu0 1"), Some(1.56));
        assert_eq!(busy_of("intr 1"), None);
        assert!(busy_s().unwrap() > 0.0);
    }
}
