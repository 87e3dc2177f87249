//! What nvme-cli prints with `-o json`: smart-log, error-log, ocp latency-monitor-log.

use serde_json::Value;
use taillight_core::{Error, Result};
use taillight_rundir::nvme::{ErrorEntry, LatencyMonitor, Logs, MonitorBucket, Smart};

/// Whether a text begins like such output, with a brace.
pub fn looks_like(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

#[derive(Clone, Copy)]
enum LogKind {
    Smart,
    Errors,
    Monitor,
}

fn kind(value: &Value) -> Option<LogKind> {
    let map = value.as_object()?;
    let has = |key: &str| map.contains_key(key);
    if has("Log Page GUID") || has("Active Bucket Counter: Bucket 0") {
        return Some(LogKind::Monitor);
    }
    if has("errors") {
        return Some(LogKind::Errors);
    }
    let smart = has("critical_warning") && has("power_on_hours");
    smart.then_some(LogKind::Smart)
}

/// Parses it into the logs it holds. Errors: `Usage` when it is none of these; `Corrupt` when a number
/// of it is missing.
pub fn parse(text: &str) -> Result<Logs> {
    let unknown = || {
        Error::usage("this is no log that nvme-cli prints as JSON").hint(
            "known are `nvme smart-log`, `nvme error-log` and `nvme ocp latency-monitor-log`, each \
             with -o json",
        )
    };
    let value: Value = serde_json::from_str(text).map_err(|e| unknown().source(e))?;
    let mut logs = Logs::default();
    match kind(&value).ok_or_else(unknown)? {
        LogKind::Smart => logs.smart = Some(smart(&value)?),
        LogKind::Errors => logs.errors = Some(errors(&value)?),
        LogKind::Monitor => logs.latency_monitor = Some(monitor(&value)?),
    }
    Ok(logs)
}

/// A number, also where it stands in quotes, with its unit or in hexadecimal, as some versions print it.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => {
            let whole = |f: &f64| *f >= 0.0;
            n.as_u64().or_else(|| n.as_f64().filter(whole).map(|f| f as u64))
        }
        Value::String(text) => match text.strip_prefix("0x") {
            Some(hex) => {
                let end = hex.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(hex.len());
                u64::from_str_radix(&hex[..end], 16).ok()
            }
            None => {
                let digits = text.chars().filter(|c| *c != ',').take_while(char::is_ascii_digit);
                digits.collect::<String>().parse().ok()
            }
        },
        _ => None,
    }
}

/// The number under the first of these names that there is. Errors: `Corrupt` when there is none.
fn get(value: &Value, names: &[&str]) -> Result<u64> {
    let found = names.iter().find_map(|name| number(value.get(*name)?));
    found.ok_or_else(|| {
        Error::corrupt("a log of nvme-cli lacks a number")
            .with("field", names.join(" or "))
            .hint("give all that nvme-cli printed with -o json, unchanged")
    })
}

fn smart(v: &Value) -> Result<Smart> {
    let one = |name: &str| get(v, &[name]);
    let kelvin = one("temperature")? as i64;
    // Verbose output has an object here.
    let warning = v.pointer("/critical_warning/value").and_then(number);
    Ok(Smart {
        critical_warning: warning.map_or_else(|| one("critical_warning"), Ok)?,
        temperature_c: (kelvin > 0).then_some(kelvin - 273),
        available_spare: one("avail_spare")?,
        percent_used: get(v, &["percent_used", "percentage_used"])?,
        data_units_read: one("data_units_read")?,
        data_units_written: one("data_units_written")?,
        host_reads: get(v, &["host_read_commands", "host_reads"])?,
        host_writes: get(v, &["host_write_commands", "host_writes"])?,
        busy_min: one("controller_busy_time")?,
        power_cycles: one("power_cycles")?,
        power_on_h: one("power_on_hours")?,
        unsafe_shutdowns: one("unsafe_shutdowns")?,
        media_errors: one("media_errors")?,
        error_entries: one("num_err_log_entries")?,
        warning_temp_min: one("warning_temp_time")?,
        critical_temp_min: one("critical_comp_time")?,
        throttles: [one("thm_temp1_trans_count")?, one("thm_temp2_trans_count")?],
        throttled_s: [one("thm_temp1_total_time")?, one("thm_temp2_total_time")?],
    })
}

/// Entries in use.
fn errors(v: &Value) -> Result<Vec<ErrorEntry>> {
    let list = v["errors"].as_array().map_or(&[][..], Vec::as_slice);
    let mut used = Vec::new();
    for e in list {
        let count = get(e, &["error_count"])?;
        if count > 0 {
            used.push(ErrorEntry {
                count,
                queue: get(e, &["sqid"])?,
                command: get(e, &["cmdid"])?,
                status: get(e, &["status_field"])?,
                lba: get(e, &["lba"])?,
                namespace: get(e, &["nsid"])?,
            });
        }
    }
    Ok(used)
}

fn monitor(v: &Value) -> Result<LatencyMonitor> {
    let version = get(v, &["Log Page Version"])?;
    if !(1..=4).contains(&version) {
        return Err(Error::corrupt("the latency monitor log has an unknown version")
            .with("version", version)
            .with("known", "1 to 4"));
    }
    let threshold = |name: &str| get(v, &[&format!("Active Threshold {name}")]);
    Ok(LatencyMonitor {
        enabled: get(v, &["Feature Status"])? & 1 != 0,
        version,
        timer_min: get(v, &["Active Bucket Timer"])?,
        timer_end_min: get(v, &["Active Bucket Timer Threshold"])?,
        thresholds_ms: [threshold("A")?, threshold("B")?, threshold("C")?, threshold("D")?],
        active: buckets(v, "Active")?,
        fixed: buckets(v, "Static")?,
    })
}

/// Counters of the four buckets; a latency that was never latched is 0 or 65,535, or not there.
fn buckets(v: &Value, which: &str) -> Result<[MonitorBucket; 4]> {
    let mut buckets = [MonitorBucket::default(); 4];
    for (i, bucket) in buckets.iter_mut().enumerate() {
        let part = |what: &str| &v[format!("{which} {what}: Bucket {i}")];
        let (counter, measured) = (part("Bucket Counter"), part("Measured Latency"));
        let ms = |key: &str| number(&measured[key]).filter(|n| *n > 0 && *n != 0xffff);
        *bucket = MonitorBucket {
            reads: get(counter, &["Read"])?,
            writes: get(counter, &["Write"])?,
            deallocates: get(counter, &["Trim", "Deallocate"])?,
            read_ms: ms("Read"),
            write_ms: ms("Write"),
        };
    }
    Ok(buckets)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMART: &str = r#"{"critical_warning":0,"temperature":301,"avail_spare":100,
        "percent_used":15,"data_units_read":499296134,"data_units_written":9,
        "host_read_commands":"9,347,931,143","host_write_commands":8,"controller_busy_time":7,
        "power_cycles":6,"power_on_hours":38313,"unsafe_shutdowns":5,"media_errors":4,
        "num_err_log_entries":3,"warning_temp_time":2,"critical_comp_time":1,
        "thm_temp1_trans_count":0,"thm_temp2_trans_count":0,"thm_temp1_total_time":0,
        "thm_temp2_total_time":5}"#;

    fn monitor_log() -> Value {
        let mut log = serde_json::json!({
            "Feature Status": 7, "Active Bucket Timer": 10, "Active Bucket Timer Threshold": 2016,
            "Active Threshold A": 5, "Active Threshold B": 10, "Active Threshold C": 50,
            "Active Threshold D": 100, "Log Page Version": 1,
            "Log Page GUID": "0x85d45e58d4e643709c6c84d08cc07a92",
            "Active Measured Latency: Bucket 0": {"Read": 7, "Write": 0, "Trim": 0},
        });
        for (which, i) in ["Active", "Static"].iter().flat_map(|w| (0..4).map(move |i| (w, i))) {
            let counts = serde_json::json!({"Read": 2, "Write": 0, "Trim": 1});
            log[format!("{which} Bucket Counter: Bucket {i}")] = counts;
        }
        log
    }

    const ERRORS: &str = r#"{"errors":[{"error_count":3,"sqid":1,"cmdid":2,
        "status_field":"0x4004(INVALID)","lba":9,"nsid":1},{"error_count":0}]}"#;

    #[test]
    fn a_number_below_zero_is_none() {
        assert_eq!(number(&serde_json::json!(-1)), None);
        assert_eq!(number(&serde_json::json!(-0.5)), None);
        assert_eq!(number(&serde_json::json!(4.5e3)), Some(4500));
        let e = parse(&SMART.replace("\"temperature\":301", "\"temperature\":-1")).unwrap_err();
        assert!(e.to_string().contains("temperature"), "{e}");
    }

    #[test]
    fn each_log_is_read() {
        let it = parse(SMART).unwrap().smart.unwrap();
        assert_eq!((it.temperature_c, it.percent_used), (Some(28), 15));
        assert_eq!(it.host_reads, 9_347_931_143);
        assert_eq!(it.throttled_s, [0, 5]);
        assert!(looks_like(SMART));
        let it = parse(&monitor_log().to_string()).unwrap().latency_monitor.unwrap();
        assert_eq!(it.thresholds_ms, [5, 10, 50, 100]);
        assert_eq!((it.active[0].all(), it.active[0].read_ms), (3, Some(7)));
        assert_eq!((it.fixed[3].reads, it.fixed[3].read_ms), (2, None));
        let mut other = monitor_log();
        other["Log Page Version"] = 12.into();
        assert!(parse(&other.to_string()).is_err());
        let list = parse(ERRORS).unwrap().errors.unwrap();
        assert_eq!((list.len(), list[0].status), (1, 0x4004));
    }

    #[test]
    fn a_missing_number_is_an_error_and_no_zero() {
        let logs = [SMART.to_owned(), monitor_log().to_string(), ERRORS.to_owned()];
        for log in logs {
            let whole: Value = serde_json::from_str(&log).unwrap();
            let fields: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
            for field in fields {
                // What names the kind of log, and what a drive need not have.
                let spared = ["critical_warning", "power_on_hours", "errors", "Log Page GUID"];
                if spared.contains(&&*field) || field.contains("Measured Latency") {
                    continue;
                }
                for wrong in [Value::Null, "unknown".into()] {
                    let mut log = whole.clone();
                    log[&field] = wrong;
                    let e = parse(&log.to_string()).unwrap_err();
                    assert_eq!(e.kind(), taillight_core::ErrorKind::Corrupt, "{field}: {e}");
                }
            }
        }
        let e = parse(&SMART.replace("38313", "\"-\"")).unwrap_err();
        assert!(e.to_string().contains("power_on_hours"), "{e}");
        let e = parse(&ERRORS.replace("sqid", "queue")).unwrap_err();
        assert!(e.to_string().contains("sqid") && e.hint_text().is_some(), "{e}");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in ["{}", "[1]", "{\"power_on_hours\":1}", "not json"] {
            assert!(parse(text).unwrap_err().hint_text().is_some(), "{text}");
        }
        // Cut in the middle it is still such a file, and the error says where it ends.
        let cut = "{\"critical_warning\":0,";
        assert!(looks_like(cut) && !looks_like("TIME(s) COMM"));
        assert!(std::error::Error::source(&parse(cut).unwrap_err()).is_some());
    }
}
