//! `taillight drive`: what an NVMe drive says of itself, and the thresholds of its latency monitor.
//!
//! What it is: a look at one drive outside of any run, and the one setting Taillight may change,
//! which needs the drive's name twice. What it is not: a part of a run. Called by `main`.

use taillight_core::exit::Exit;
use taillight_core::{Error, Result};
use taillight_report::format::{bytes, count};
use taillight_rundir::nvme::{LatencyMonitor, Logs, NvmeDrive, Smart};
use taillight_trace::Sys;
use taillight_trace::nvme::monitor::{self, Thresholds, words};
use taillight_trace::nvme::{look, open_to_change};

use crate::args::DriveArgs;
use crate::output;

/// Runs the command.
///
/// # Errors
/// `Usage` when the path is no NVMe drive, `Refused` for a change that was not confirmed,
/// `Unavailable` when the drive cannot be read or has no monitor, `Target` when it kept its own
/// thresholds.
pub fn main(args: &DriveArgs) -> Result<Exit> {
    let sys = Sys::default();
    match args.thresholds {
        None => show(args, &look(&sys, &args.device)?),
        Some(thresholds) => change(args, &sys, thresholds),
    }
}

fn show(args: &DriveArgs, drive: &NvmeDrive) -> Result<Exit> {
    match args.json {
        true => output::json(drive)?,
        false => output::text(&text(drive))?,
    }
    Ok(Exit::Ok)
}

/// Sets the thresholds, once the drive was named a second time.
fn change(args: &DriveArgs, sys: &Sys, thresholds: Thresholds) -> Result<Exit> {
    let (name, device) = open_to_change(sys, &args.device)?;
    if args.change.as_ref() != Some(&args.device) {
        let now = monitor::look(&device)?;
        return Err(
            Error::refused("setting the thresholds of a drive needs a confirmation")
                .with("drive", &name)
                .with("now", state(&now))
                .with("asked", thresholds)
                .hint(format!(
                    "add --change {}; its active counters may begin anew",
                    args.device.display()
                )),
        );
    }
    let changed = monitor::set(&device, thresholds)?;
    if args.json {
        output::json(&changed.after)?;
    } else {
        output::text(&told(&name, &changed))?;
    }
    Ok(Exit::Ok)
}

fn told(name: &str, changed: &monitor::Changed) -> String {
    let old = words(&changed.before.thresholds_ms);
    let on = match changed.before.enabled {
        true => "",
        false => " (it stays on)",
    };
    format!(
        "latency monitor of {name}: was {}; is {}\nA reset of the drive undoes it. Back by hand{on}: \
         taillight drive /dev/{name} --thresholds {old} --change /dev/{name}\n",
        state(&changed.before),
        state(&changed.after),
    )
}

fn state(monitor: &LatencyMonitor) -> String {
    let on = if monitor.enabled { "on" } else { "off" };
    format!("{on}, {}", words(&monitor.thresholds_ms))
}

fn text(drive: &NvmeDrive) -> String {
    let mut text = format!(
        "{}  {}  firmware {}\n",
        drive.name, drive.model, drive.firmware
    );
    let logs = drive.before.as_ref();
    let lines = logs.iter().flat_map(|logs| lines(logs));
    lines.for_each(|line| text.push_str(&format!("  {line}\n")));
    for missing in &drive.missing {
        text.push_str(&format!("  not read: {missing}\n"));
    }
    text
}

fn lines(logs: &Logs) -> Vec<String> {
    let mut lines: Vec<String> = logs.smart.iter().flat_map(health).collect();
    let errors = logs.errors.iter().map(Vec::len);
    lines.extend(errors.map(|n| format!("error log: {} entries held", count(n as u64))));
    lines.extend(logs.latency_monitor.iter().flat_map(counters));
    let slow = logs.slow_commands.iter().map(Vec::len);
    lines.extend(slow.map(|n| format!("log of slow commands: {} entries held", count(n as u64))));
    let bins = logs.slow_in_histogram().map(count);
    lines.extend(bins.map(|n| format!("histogram of the vendor: {n} commands of 5 ms or longer")));
    lines
}

fn health(smart: &Smart) -> Vec<String> {
    /// Bytes of a data unit.
    const UNIT: u64 = 512_000;
    let heat = smart
        .temperature_c
        .map_or("not told".to_owned(), |c| format!("{c} C"));
    let throttled = smart.throttled_s[0].saturating_add(smart.throttled_s[1]);
    vec![
        format!(
            "health: {heat}, {} % worn, {} % spare, {} media errors, {} s slowed down for heat",
            smart.percent_used,
            smart.available_spare,
            count(smart.media_errors),
            count(throttled),
        ),
        format!(
            "read {}, written {} in {} h",
            bytes(smart.data_units_read.saturating_mul(UNIT)),
            bytes(smart.data_units_written.saturating_mul(UNIT)),
            count(smart.power_on_h),
        ),
    ]
}

/// The monitor's active counters, one line per bucket.
fn counters(monitor: &LatencyMonitor) -> Vec<String> {
    let mut lines = vec![format!(
        "latency monitor: {}; counting for {} min",
        state(monitor),
        count(monitor.timer_min)
    )];
    for (i, (ms, bucket)) in monitor
        .thresholds_ms
        .iter()
        .zip(&monitor.active)
        .enumerate()
    {
        let span = match monitor.thresholds_ms.get(i + 1) {
            Some(next) => format!("{ms} to {next} ms"),
            None => format!("{ms} ms or longer"),
        };
        lines.push(format!(
            "  {span}: {} reads, {} writes, {} deallocations",
            count(bucket.reads),
            count(bucket.writes),
            count(bucket.deallocates),
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use taillight_rundir::nvme::MonitorBucket;

    use super::*;

    fn monitor(enabled: bool, thresholds_ms: [u64; 4]) -> LatencyMonitor {
        LatencyMonitor {
            enabled,
            thresholds_ms,
            timer_min: 1_200,
            active: [MonitorBucket {
                reads: 3,
                ..MonitorBucket::default()
            }; 4],
            ..LatencyMonitor::default()
        }
    }

    #[test]
    fn a_drive_in_words() {
        let logs = Logs {
            smart: Some(Smart {
                temperature_c: Some(41),
                percent_used: 3,
                available_spare: 100,
                data_units_written: 2_000_000,
                power_on_h: 1_500,
                ..Smart::default()
            }),
            errors: Some(Vec::new()),
            latency_monitor: Some(monitor(true, [5, 10, 50, 100])),
            ..Logs::default()
        };
        let drive = NvmeDrive {
            name: "nvme0".to_owned(),
            model: "Example SSD".to_owned(),
            firmware: "1.0A".to_owned(),
            before: Some(logs),
            missing: vec!["no such page".to_owned()],
            ..NvmeDrive::default()
        };
        insta::assert_snapshot!(text(&drive), @r"
        nvme0  Example SSD  firmware 1.0A
          health: 41 C, 3 % worn, 100 % spare, 0 media errors, 0 s slowed down for heat
          read 0 B, written 954 GiB in 1,500 h
          error log: 0 entries held
          latency monitor: on, 5ms,10ms,50ms,100ms; counting for 1,200 min
            5 to 10 ms: 3 reads, 0 writes, 0 deallocations
            10 to 50 ms: 3 reads, 0 writes, 0 deallocations
            50 to 100 ms: 3 reads, 0 writes, 0 deallocations
            100 ms or longer: 3 reads, 0 writes, 0 deallocations
          not read: no such page
        ");
    }

    #[test]
    fn a_change_says_the_way_back() {
        let changed = monitor::Changed {
            before: monitor(false, [30, 100, 155, 235]),
            after: monitor(true, [5, 10, 50, 100]),
        };
        insta::assert_snapshot!(told("nvme0", &changed), @r"
        latency monitor of nvme0: was off, 30ms,100ms,155ms,235ms; is on, 5ms,10ms,50ms,100ms
        A reset of the drive undoes it. Back by hand (it stays on): taillight drive /dev/nvme0 --thresholds 30ms,100ms,155ms,235ms --change /dev/nvme0
        ");
    }
}
