//! The drive's own view beside the host's: what its counters say of the run, in words.
//!
//! The latency monitor counts reads, writes and deallocations at or above a threshold, whoever sent them, inside the
//! drive. Zero is proof that the drive kept none that long; a count is agreement only as far as it
//! fits what the host saw.

use taillight_rundir::nvme::{LatencyMonitor, Logs, MonitorBucket, NvmeDrive, NvmeFile, Smart};
use taillight_rundir::summary::DriveSummary;

use crate::format;

/// One entry per drive; `above` says how many I/Os of the run took a latency (ns) or longer.
pub fn drives(file: &Option<NvmeFile>, above: &dyn Fn(u64) -> u64) -> Vec<DriveSummary> {
    let drives = file.iter().flat_map(|f| &f.drives);
    drives.map(|d| drive(d, above)).collect()
}

fn drive(drive: &NvmeDrive, above: &dyn Fn(u64) -> u64) -> DriveSummary {
    let mut it = DriveSummary {
        name: drive.name.clone(),
        text: String::new(),
        from_ns: None,
        device: None,
        host: None,
    };
    let mut said = Vec::new();
    match (&drive.before, &drive.after) {
        (Some(before), Some(after)) => {
            said.extend(monitor(before, after, above, &mut it));
            let smart = before.smart.as_ref().zip(after.smart.as_ref());
            said.extend(smart.map(|(b, a)| health(b, a)));
            said.extend(errors(before, after));
            said.extend(histogram(before, after));
        }
        _ => said.push("its logs are not known from both before and after the run".to_owned()),
    }
    said.extend(drive.missing.iter().map(|m| m.trim_end_matches('.').to_owned()));
    it.text = said.join(". ") + ".";
    it
}

/// Commands per bucket during the run, where its counters began anew at most once. None where one is lower than it was.
fn counted(before: &LatencyMonitor, after: &LatencyMonitor) -> Option<[u64; 4]> {
    let all = |buckets: &[MonitorBucket; 4]| buckets.map(|b| b.all());
    let (was, is) = (all(&before.active), all(&after.active));
    let rolled = after.fixed != before.fixed || after.timer_min < before.timer_min;
    let base = if rolled { all(&after.fixed) } else { is };
    let mut sum = [0; 4];
    for (i, n) in sum.iter_mut().enumerate() {
        *n = base[i].checked_sub(was[i])? + if rolled { is[i] } else { 0 };
    }
    Some(sum)
}

fn monitor(
    before: &Logs,
    after: &Logs,
    above: &dyn Fn(u64) -> u64,
    it: &mut DriveSummary,
) -> Option<String> {
    let (before, after) = (before.latency_monitor.as_ref()?, after.latency_monitor.as_ref()?);
    if !before.enabled || !after.enabled {
        return Some(
            "its latency monitor was off (`taillight drive --help` tells how to set it)".into(),
        );
    }
    if before.thresholds_ms != after.thresholds_ms {
        return Some("its latency monitor was set anew in the run, so it tells nothing".into());
    }
    let from_ms = before.thresholds_ms[0];
    let host = above(from_ms * 1_000_000);
    it.from_ns = Some(from_ms * 1_000_000);
    it.host = Some(host);
    let Some(buckets) = counted(before, after) else {
        return Some("its latency counters began anew in the run, so they tell nothing".into());
    };
    let device: u64 = buckets.iter().sum();
    it.device = Some(device);
    let seen = format!("the host saw {} I/Os of {from_ms} ms or longer", format::count(host));
    Some(match (device, host) {
        (0, 0) => format!("neither the drive nor the host saw {from_ms} ms or longer"),
        (0, _) => format!(
            "the drive saw nothing of {from_ms} ms or longer, {seen}: the cause is above the drive"
        ),
        (n, 0) => format!(
            "the drive counted {} commands of {from_ms} ms or longer, none of them an I/O of this \
             run",
            format::count(n)
        ),
        (n, _) => {
            let counts = format!(
                "the drive counted {} commands of {from_ms} ms or longer{}, {seen}",
                format::count(n),
                longest(after)
            );
            match n >= host.div_ceil(2) && n <= host * 2 {
                true => format!("{counts}: they agree"),
                false if n < host => format!(
                    "{counts}: at least {} have their cause above the drive",
                    format::count(host - n)
                ),
                false => format!("{counts}: others use the drive as well"),
            }
        }
    })
}

/// The longest latched latency.
fn longest(after: &LatencyMonitor) -> String {
    let all = after.active.iter().flat_map(|b| [b.read_ms, b.write_ms]);
    let longest = all.flatten().max();
    longest.map_or(String::new(), |ms| format!(" (longest latched: {ms} ms)"))
}

/// What changed in the health log.
fn health(before: &Smart, after: &Smart) -> String {
    let mut said = Vec::new();
    let mut more = |now: u64, was: u64, what: &str| {
        if now > was {
            said.push(format!("{} {what}", format::count(now - was)));
        }
    };
    more(after.media_errors, before.media_errors, "media errors");
    more(after.throttles[0], before.throttles[0], "slow-downs for temperature");
    more(after.throttles[1], before.throttles[1], "heavy slow-downs for temperature");
    more(after.warning_temp_min, before.warning_temp_min, "min above the warning temperature");
    more(after.unsafe_shutdowns, before.unsafe_shutdowns, "unsafe shutdowns");
    if after.critical_warning != 0 {
        said.push(format!("critical warning {:#x}", after.critical_warning));
    }
    let heat = match (before.temperature_c, after.temperature_c) {
        (Some(b), Some(a)) => format!("{b} C before, {a} C after, {} % worn", after.percent_used),
        _ => format!("{} % worn", after.percent_used),
    };
    match said.is_empty() {
        true => format!("health: nothing new ({heat})"),
        false => format!("health: {} ({heat})", said.join(", ")),
    }
}

fn errors(before: &Logs, after: &Logs) -> Option<String> {
    let newest =
        |logs: &Logs| Some(logs.errors.as_ref()?.iter().map(|e| e.count).max().unwrap_or(0));
    let more = newest(after)?.saturating_sub(newest(before)?);
    (more > 0).then(|| format!("{} new entries in its error log", format::count(more)))
}

/// Commands of 5 ms or longer in the vendor's histogram.
fn histogram(before: &Logs, after: &Logs) -> Option<String> {
    let n = after.slow_in_histogram()?.checked_sub(before.slow_in_histogram()?)?;
    Some(format!(
        "its own histogram counted {} reads and writes of 5 ms or longer",
        format::count(n)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logs(reads: u64) -> Logs {
        let mut monitor = LatencyMonitor {
            enabled: true,
            thresholds_ms: [5, 10, 50, 100],
            ..LatencyMonitor::default()
        };
        monitor.active[1].reads = reads;
        monitor.active[1].read_ms = Some(18);
        Logs { smart: Some(Smart::default()), latency_monitor: Some(monitor), ..Logs::default() }
    }

    fn said(before: Logs, after: Logs, host: u64) -> DriveSummary {
        let one = NvmeDrive {
            name: "nvme0".to_owned(),
            before: Some(before),
            after: Some(after),
            ..NvmeDrive::default()
        };
        drive(&one, &|ns| if ns == 5_000_000 { host } else { 0 })
    }

    #[test]
    fn zero_in_the_drive_puts_the_cause_above_it() {
        let it = said(logs(3), logs(3), 12);
        assert_eq!((it.device, it.host), (Some(0), Some(12)));
        assert!(it.text.contains("nothing of 5 ms or longer"), "{}", it.text);
        assert!(it.text.contains("the cause is above the drive"));
    }

    #[test]
    fn counts_that_fit_agree_and_others_do_not() {
        let it = said(logs(3), logs(13), 12);
        assert_eq!(it.device, Some(10));
        assert!(it.text.contains("they agree") && it.text.contains("18 ms"), "{}", it.text);
        assert!(said(logs(3), logs(5), 12).text.contains("at least 10 have"));
        assert!(said(logs(3), logs(99), 12).text.contains("others use"));
    }

    #[test]
    fn a_timer_that_ran_out_is_followed_and_a_reset_is_unknown() {
        let mut after = logs(2);
        if let Some(monitor) = &mut after.latency_monitor {
            monitor.fixed[1].reads = 7;
        }
        assert_eq!(said(logs(3), after, 1).device, Some(6));
        let it = said(logs(3), logs(1), 1);
        assert_eq!(it.device, None);
        assert!(it.text.contains("began anew"), "{}", it.text);
    }

    #[test]
    fn what_is_off_or_missing_is_said() {
        let mut off = logs(0);
        if let Some(monitor) = &mut off.latency_monitor {
            monitor.enabled = false;
        }
        let it = said(off.clone(), off, 1);
        assert!(it.text.contains("was off"));
        assert_eq!(it.host, None);
        let one = NvmeDrive { missing: vec!["no rights.".to_owned()], ..NvmeDrive::default() };
        let text = drive(&one, &|_| 0).text;
        assert!(text.contains("not known") && text.ends_with("no rights."), "{text}");
    }
}
