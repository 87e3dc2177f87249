//! `taillight drive`: what an NVMe drive says of itself (health, error log, latency monitor). Reads the same logs as a
//! run does, and sets nothing on the drive.

use taillight_core::Result;
use taillight_core::exit::Exit;
use taillight_core::units::readable::visible;
use taillight_machine::Sys;
use taillight_report::format::{bytes, count};
use taillight_rundir::nvme::{LatencyMonitor, Logs, NvmeDrive, Smart};
use taillight_trace::nvme::look;

use crate::args::DriveArgs;
use crate::output;

/// Runs the command. Errors: `Usage` when the path is no NVMe drive, `Unavailable` when the drive
/// cannot be read, `Corrupt` when it does not identify itself.
pub fn main(args: &DriveArgs) -> Result<Exit> {
    let drive = look(&Sys::default(), &args.device)?;
    match args.json {
        true => output::json(&drive)?,
        false => output::text(&visible(&text(&drive)))?,
    }
    Ok(Exit::Ok)
}

fn state(monitor: &LatencyMonitor) -> String {
    let on = if monitor.enabled { "on" } else { "off" };
    let thresholds = monitor.thresholds_ms.map(|ms| format!("{ms}ms"));
    format!("{on}, {}", thresholds.join(","))
}

fn text(drive: &NvmeDrive) -> String {
    let mut text = format!("{}  {}  firmware {}\n", drive.name, drive.model, drive.firmware);
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
    lines
}

fn health(smart: &Smart) -> Vec<String> {
    /// Bytes of a data unit.
    const UNIT: u64 = 512_000;
    let heat = smart.temperature_c.map_or("not told".to_owned(), |c| format!("{c} C"));
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

/// The monitor's state and time in one line, then its active counters, one line per bucket.
fn counters(monitor: &LatencyMonitor) -> Vec<String> {
    let mut lines = vec![format!(
        "latency monitor: {}; counting for {} min",
        state(monitor),
        count(monitor.timer_min)
    )];
    for (i, (ms, bucket)) in monitor.thresholds_ms.iter().zip(&monitor.active).enumerate() {
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
            active: [MonitorBucket { reads: 3, ..MonitorBucket::default() }; 4],
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
}
