//! What a report discloses about a run: command, plan, machine, phases, capture, files.

use serde::Serialize;
use serde_json::Value;

use crate::format::{self, Script};
use crate::render::Run;

/// Pairs of words.
type Pairs = Vec<(String, String)>;

/// Everything below the tables.
#[derive(Serialize)]
pub struct Details {
    /// The command as typed.
    command: String,
    /// The command that repeats the run.
    repeat: Option<String>,
    /// The resolved plan as TOML; itself a job file.
    plan: String,
    /// The job file as given.
    job: Option<String>,
    /// Machine, device, libraries: headings with pairs.
    environment: Vec<(String, Pairs)>,
    /// When, what, how much.
    run: Pairs,
    /// Files of the directory.
    files: Vec<(String, String, String)>,
}

/// The details of a run.
pub fn details(run: &Run) -> Details {
    let manifest = &run.analysis.manifest;
    Details {
        command: manifest.command.clone(),
        repeat: manifest.repeat.clone(),
        plan: toml_text(&manifest.plan),
        job: run.analysis.job.clone(),
        environment: environment(&manifest.environment),
        run: facts(run),
        files: run
            .summary
            .files
            .iter()
            .map(|f| {
                let rows = f
                    .rows
                    .map_or(String::new(), |n| format!("{} rows", format::count(n)));
                (f.name.clone(), format::bytes(f.bytes), rows)
            })
            .collect(),
    }
}

fn facts(run: &Run) -> Pairs {
    let manifest = &run.analysis.manifest;
    let mut pairs: Pairs = Vec::new();
    let mut add = |key: &str, text: String| pairs.push((key.to_owned(), text));
    add("Run", manifest.run_id.clone());
    add("Started", utc(manifest.clock.realtime_ns));
    add("Taillight", manifest.taillight.clone());
    add("Seed", manifest.seed.to_string());
    add("Clock", manifest.clock.source.clone());
    for phase in &manifest.phases {
        let length = phase.end_ns.map_or("not ended".to_owned(), |end| {
            format::duration(
                end.saturating_sub(phase.start_ns).max(0) as f64,
                Script::Fine,
            )
        });
        add(
            &format!("Phase {}", phase.name),
            format!("{length}, {} I/Os", format::count(phase.ios)),
        );
    }
    let capture = &manifest.capture;
    let mut kept = format!(
        "{} I/Os kept, budget {}",
        format::count(capture.kept),
        format::bytes(capture.budget)
    );
    if let Some(used) = capture.used {
        kept.push_str(&format!(", {} used", format::bytes(used)));
    }
    if let Some(spilled) = capture.spilled.filter(|n| *n > 0) {
        kept.push_str(&format!(", {} spilled", format::bytes(spilled)));
    }
    add("Capture", kept);
    let counts = &run.analysis.counts;
    let recorder = counts.recorded.map_or("unknown".to_owned(), format::count);
    add(
        "Counts",
        format!(
            "recorder {recorder}, capture {}",
            format::count(counts.analysed)
        ),
    );
    pairs
}

/// Headings with pairs, nested keys joined by a dot; single values come first.
fn environment(map: &serde_json::Map<String, Value>) -> Vec<(String, Pairs)> {
    let mut top: Pairs = Vec::new();
    let mut groups = Vec::new();
    for (key, value) in map {
        match value {
            Value::Object(inner) => {
                let mut pairs = Pairs::new();
                for (name, value) in inner {
                    flatten(&mut pairs, &words(name), value);
                }
                groups.push((words(key), pairs));
            }
            value => flatten(&mut top, &words(key), value),
        }
    }
    if !top.is_empty() {
        groups.insert(0, (String::new(), top));
    }
    groups
}

fn flatten(pairs: &mut Pairs, key: &str, value: &Value) {
    match value {
        Value::Null => pairs.push((key.to_owned(), "unknown".to_owned())),
        Value::Object(map) => {
            for (name, value) in map {
                flatten(pairs, &format!("{key}.{name}"), value);
            }
        }
        Value::Array(items) if items.iter().all(|v| !v.is_object() && !v.is_array()) => {
            let items: Vec<String> = items.iter().map(plain).collect();
            pairs.push((key.to_owned(), items.join(", ")));
        }
        Value::Array(items) => {
            for (i, value) in items.iter().enumerate() {
                flatten(pairs, &format!("{key}.{i}"), value);
            }
        }
        value => pairs.push((key.to_owned(), plain(value))),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

fn words(key: &str) -> String {
    key.replace('_', " ")
}

/// The plan as TOML.
fn toml_text(plan: &taillight_core::plan::Plan) -> String {
    toml::to_string_pretty(plan).unwrap_or_else(|e| format!("# the plan cannot be shown: {e}"))
}

/// A stamp as UTC, by the civil calendar.
fn utc(ns: i64) -> String {
    let seconds = ns.div_euclid(1_000_000_000);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Days since 1 March of year 0, so that the leap day ends a year.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_700_000_000_000_000_000), "2023-11-14 22:13:20 UTC");
    }
}
