//! What nvme-cli prints with `-o json`: smart-log, error-log, ocp latency-monitor-log.

use serde_json::Value;
use taillight_core::{Error, Result};
use taillight_rundir::nvme::{ErrorEntry, LatencyMonitor, Logs, MonitorBucket, Smart};

/// Whether a text looks like such output, or a piece of it.
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

/// Parses it into the logs it holds. Errors: `Usage` when it is none of these.
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
        LogKind::Smart => logs.smart = Some(smart(&value)),
        LogKind::Errors => logs.errors = Some(errors(&value)),
        LogKind::Monitor => logs.latency_monitor = Some(monitor(&value)?),
    }
    Ok(logs)
}

/// A number, also where it stands in quotes or with its unit, as some versions print it.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(n) => n.as_u64().or_else(|| n.as_f64().map(|f| f as u64)),
        Value::String(text) => {
            let digits: String =
                text.chars().filter(|c| *c != ',').take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        }
        _ => None,
    }
}

fn get(value: &Value, keys: &[&str]) -> u64 {
    let found = keys.iter().find_map(|k| number(value.get(*k)?));
    found.unwrap_or(0)
}

fn smart(v: &Value) -> Smart {
    let one = |key: &str| get(v, &[key]);
    let kelvin = one("temperature") as i64;
    Smart {
        // Verbose output has an object here.
        critical_warning: v
            .pointer("/critical_warning/value")
            .and_then(number)
            .unwrap_or_else(|| one("critical_warning")),
        temperature_c: (kelvin > 0).then_some(kelvin - 273),
        available_spare: one("avail_spare"),
        percent_used: get(v, &["percent_used", "percentage_used"]),
        data_units_read: one("data_units_read"),
        data_units_written: one("data_units_written"),
        host_reads: get(v, &["host_read_commands", "host_reads"]),
        host_writes: get(v, &["host_write_commands", "host_writes"]),
        busy_min: one("controller_busy_time"),
        power_cycles: one("power_cycles"),
        power_on_h: one("power_on_hours"),
        unsafe_shutdowns: one("unsafe_shutdowns"),
        media_errors: one("media_errors"),
        error_entries: one("num_err_log_entries"),
        warning_temp_min: one("warning_temp_time"),
        critical_temp_min: one("critical_comp_time"),
        throttles: [one("thm_temp1_trans_count"), one("thm_temp2_trans_count")],
        throttled_s: [one("thm_temp1_total_time"), one("thm_temp2_total_time")],
    }
}

fn errors(v: &Value) -> Vec<ErrorEntry> {
    let list = v["errors"].as_array().map_or(&[][..], Vec::as_slice);
    let entry = |e: &Value| ErrorEntry {
        count: get(e, &["error_count"]),
        queue: get(e, &["sqid"]),
        command: get(e, &["cmdid"]),
        status: get(e, &["status_field"]),
        lba: get(e, &["lba"]),
        namespace: get(e, &["nsid"]),
    };
    list.iter().map(entry).filter(|e| e.count > 0).collect()
}

fn monitor(v: &Value) -> Result<LatencyMonitor> {
    let version = get(v, &["Log Page Version"]);
    if !(1..=4).contains(&version) {
        return Err(Error::corrupt("the latency monitor log has an unknown version")
            .with("version", version)
            .with("known", "1 to 4"));
    }
    let threshold = |name: &str| get(v, &[&format!("Active Threshold {name}")]);
    Ok(LatencyMonitor {
        enabled: get(v, &["Feature Status"]) & 1 != 0,
        version,
        timer_min: get(v, &["Active Bucket Timer"]),
        timer_end_min: get(v, &["Active Bucket Timer Threshold"]),
        thresholds_ms: ["A", "B", "C", "D"].map(threshold),
        active: buckets(v, "Active"),
        fixed: buckets(v, "Static"),
    })
}

fn buckets(v: &Value, which: &str) -> [MonitorBucket; 4] {
    std::array::from_fn(|i| {
        let of = |what: &str| &v[format!("{which} {what}: Bucket {i}")];
        let (counter, measured) = (of("Bucket Counter"), of("Measured Latency"));
        let ms = |key: &str| number(&measured[key]).filter(|n| *n > 0 && *n != 0xffff);
        MonitorBucket {
            reads: get(counter, &["Read"]),
            writes: get(counter, &["Write"]),
            deallocates: get(counter, &["Trim", "Deallocate"]),
            read_ms: ms("Read"),
            write_ms: ms("Write"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smart_log() {
        let text = r#"{"critical_warning":0,"temperature":301,"avail_spare":100,"percent_used":15,
            "data_units_read":499296134,"host_read_commands":"9,347,931,143","power_on_hours":38313,
            "thm_temp2_total_time":5}"#;
        let it = parse(text).unwrap().smart.unwrap();
        assert_eq!((it.temperature_c, it.percent_used), (Some(28), 15));
        assert_eq!(it.host_reads, 9_347_931_143);
        assert_eq!(it.throttled_s, [0, 5]);
        assert!(looks_like(text));
    }

    #[test]
    fn a_latency_monitor_log_and_an_error_log() {
        let text = r#"{"Feature Status":7,"Active Bucket Timer":10,"Active Threshold A":5,
            "Active Threshold B":10,"Active Threshold C":50,"Active Threshold D":100,
            "Active Bucket Counter: Bucket 0":{"Read":2,"Write":0,"Trim":1},
            "Active Measured Latency: Bucket 0":{"Read":7,"Write":0,"Trim":0},
            "Log Page Version":1,"Log Page GUID":"0x85d45e58d4e643709c6c84d08cc07a92"}"#;
        let it = parse(text).unwrap().latency_monitor.unwrap();
        assert_eq!(it.thresholds_ms, [5, 10, 50, 100]);
        assert_eq!((it.active[0].all(), it.active[0].read_ms), (3, Some(7)));
        assert!(parse(&text.replace("Version\":1", "Version\":12")).is_err());
        let text = r#"{"errors":[{"error_count":3,"sqid":1,"cmdid":2,"status_field":1,"lba":9},
            {"error_count":0}]}"#;
        assert_eq!(parse(text).unwrap().errors.unwrap().len(), 1);
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
