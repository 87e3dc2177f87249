//! `host.parquet`: what the machine did while a run went on, sampled at the interval.
//!
//! One row per sample, thing and metric. A metric that could not be had in a sample has no row: it
//! is never zero for lack of a source. `manifest.json` says under `host` which sources were missing
//! and why. Times are absolute CLOCK_MONOTONIC; a value is over `start_ns..end_ns`, or the state at
//! `end_ns` where [`Metric::state`] says so.

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use taillight_core::Result;

pub use metrics::{METRICS, Metric, metric};
pub use tracks::{HostTrack, host_tracks};

use crate::columns::{Double, Int64, Nullable, TableWriter, Utf8, read_table, table_row};
use crate::dir::RunDir;
use crate::names;

mod metrics;
mod tracks;

/// Rows of a row group: those that a run holds in memory.
const GROUP_ROWS: usize = 1 << 13;

table_row! {
    /// One value.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct HostRow {
        /// Begin of the window, CLOCK_MONOTONIC ns.
        pub start_ns: i64 = Int64,
        /// End of the window: when it was read, CLOCK_MONOTONIC ns.
        pub end_ns: i64 = Int64,
        /// Where it is from: [`Metric::source`].
        pub source: Box<str> = Utf8<Box<str>>,
        /// Of what: a disk, a control group, a sensor; null for the whole machine or process.
        pub item: Option<Box<str>> = Nullable<Utf8<Box<str>>>,
        /// Which: [`Metric::name`].
        pub metric: Box<str> = Utf8<Box<str>>,
        /// The value, in the unit of the metric.
        pub value: f64 = Double,
    }
}

/// How the machine was sampled. Part of `manifest.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostInfo {
    /// Time between samples, ns.
    pub interval_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// CPU time of one sample, ns, mean over the run.
    pub cpu_ns: u64,
    /// Disks below the target, upper ones first; empty when it is on none.
    pub disks: Vec<String>,
    /// Every source, with what it lacks.
    pub sources: Vec<SourceInfo>,
}

/// One source of host samples.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceInfo {
    /// Name, as in the column `source`.
    pub source: String,
    /// Why it says nothing or not everything; absent when it says all it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
}

/// `host.parquet` to be written, rows in their order.
pub fn host_writer(dir: &RunDir) -> TableWriter<HostRow> {
    let dictionary = &["source", "item", "metric", "start_ns", "end_ns"];
    TableWriter::new(dir, names::HOST, COLUMNS, dictionary, GROUP_ROWS)
}

/// Reads the rows, a row group at a time, in file order. Errors: `Corrupt` when the file is damaged
/// or lacks a column, else what `each` returns.
pub fn read_host(path: &Path, each: &mut dyn FnMut(Vec<HostRow>) -> Result<()>) -> Result<()> {
    read_table(path, COLUMNS, each)
}

/// JSON Schema of a row of `host.parquet`, with every metric, its unit and its meaning.
pub fn schema_host() -> Value {
    let words = METRICS.iter().map(|m| {
        json!({
            "properties": {
                "source": { "const": m.source },
                "metric": { "const": m.name },
                "value": { "description": format!("{} ({})", m.about, m.unit) },
            }
        })
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "host.parquet",
        "description": "One row of host.parquet: one metric of one thing in one sample. A metric \
                        that could not be had has no row.",
        "type": "object",
        "properties": {
            "start_ns": { "type": "integer", "description": "Begin of the window, CLOCK_MONOTONIC ns (int64)." },
            "end_ns": { "type": "integer", "description": "End of the window, CLOCK_MONOTONIC ns (int64)." },
            "source": { "type": "string", "description": "Where the value is from." },
            "item": { "type": ["string", "null"], "description": "Disk, control group or sensor; null for the whole machine or process." },
            "metric": { "type": "string", "description": "Which value." },
            "value": { "type": "number", "description": "In the unit of the metric (double)." },
        },
        "required": ["start_ns", "end_ns", "source", "metric", "value"],
        "oneOf": words.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    fn row(source: &str, item: Option<&str>, metric: &str) -> HostRow {
        HostRow {
            start_ns: 5,
            end_ns: 9,
            source: source.into(),
            item: item.map(Into::into),
            metric: metric.into(),
            value: 1.5,
        }
    }

    #[test]
    fn rows_come_back() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("run"), &fixture::manifest("r")).unwrap();
        let rows = vec![row("disk", Some("vda"), "%util"), row("cpu", None, "%user")];
        host_writer(&dir).write(rows.clone()).unwrap();
        let mut back = Vec::new();
        read_host(&dir.file(names::HOST), &mut |mut group| {
            back.append(&mut group);
            Ok(())
        })
        .unwrap();
        assert_eq!(back, rows);
    }

    #[test]
    fn what_is_no_number_is_damage() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("run"), &fixture::manifest("r")).unwrap();
        for value in [f64::NAN, f64::NEG_INFINITY, 1e300] {
            host_writer(&dir).write([HostRow { value, ..row("cpu", None, "%user") }]).unwrap();
            let read = read_host(&dir.file(names::HOST), &mut |_| Ok(()));
            assert_eq!(read.unwrap_err().kind(), taillight_core::ErrorKind::Corrupt, "{value}");
        }
    }

    #[test]
    fn the_schema_knows_every_metric_and_no_other() {
        let validator = jsonschema::validator_for(&schema_host()).unwrap();
        let value = |source: &str, metric: &str| {
            json!({ "start_ns": 1, "end_ns": 2, "source": source, "item": null,
                    "metric": metric, "value": 1.0 })
        };
        for m in METRICS {
            assert!(validator.is_valid(&value(m.source, m.name)), "{}", m.name);
        }
        assert!(!validator.is_valid(&value("disk", "%user")));
        assert!(!validator.is_valid(&json!({ "source": "disk", "metric": "%util" })));
    }
}
