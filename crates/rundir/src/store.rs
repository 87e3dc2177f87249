//! `store.parquet`: the target's own statistics beside latency: what a store says of itself.
//!
//! One row per sample and series, in order of time. Series whose name ends in `_total` count from
//! the opening of the target; all others are levels. Names carry their unit. A store says what it
//! can: a series that it lacks has no row. Only there when the target has statistics.

use std::path::Path;

use serde_json::{Value, json};
use taillight_core::Result;

use crate::columns::{Double, Int64, TableWriter, Utf8, read_rows, table_row};
use crate::dir::RunDir;
use crate::names;

/// Rows of a row group: those that a run holds in memory.
const GROUP_ROWS: usize = 1 << 13;

table_row! {
    /// One value.
    #[derive(Debug, Clone, PartialEq, Default)]
    pub struct StoreRow {
        /// When the store was asked, CLOCK_MONOTONIC ns.
        pub at_ns: i64 = Int64,
        /// Which value, with its unit.
        pub series: Box<str> = Utf8<Box<str>>,
        pub value: f64 = Double,
    }
}

/// `store.parquet` to be written, rows in their order.
pub fn store_writer(dir: &RunDir) -> TableWriter<StoreRow> {
    TableWriter::new(dir, names::STORE, COLUMNS, &["at_ns", "series"], GROUP_ROWS)
}

/// Reads the rows of a `store.parquet`. Errors: `Corrupt` when the file is damaged or lacks a
/// column.
pub fn read_store(path: &Path) -> Result<Vec<StoreRow>> {
    read_rows(path, COLUMNS)
}

/// JSON Schema of a row of `store.parquet`.
pub fn schema_store() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "store.parquet",
        "description": "One row of store.parquet: one value of the target's own statistics in one \
                        sample, taken once an interval from the start of the load to its end.",
        "type": "object",
        "properties": {
            "at_ns": { "type": "integer", "description": "When the store was asked, CLOCK_MONOTONIC ns (int64)." },
            "series": { "type": "string", "description": "Which value, with its unit: `_total` at the end of a counter since the target was opened, else a level; `_ns`, `_bytes`." },
            "value": { "type": "number", "description": "The value (double)." },
        },
        "required": ["at_ns", "series", "value"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn rows_come_back() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::create(&home.path().join("run"), &fixture::manifest("r")).unwrap();
        let row = |at_ns, series: &str, value| StoreRow { at_ns, series: series.into(), value };
        let rows = [row(-5, "stall_ns_total", 0.0), row(9, "level0_files", 7.5)];
        store_writer(&dir).write(rows.clone()).unwrap();
        assert_eq!(read_store(&dir.file(names::STORE)).unwrap(), rows);
        let schema = schema_store();
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(&json!({ "at_ns": 1, "series": "x", "value": 2.5 })));
        assert!(!validator.is_valid(&json!({ "at_ns": 1, "series": "x" })));
    }
}
