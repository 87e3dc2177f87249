//! `points.parquet` and `points.csv`: what a series measured as one tidy table.
//!
//! One row per point, workload and operation, in the order the points were run; a column for each
//! field that differs between points, between the fixed ones. It lies beside `series.json` and is
//! written when the series ends, early or not. The runner in `taillight-suite` fills it.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use serde_json::{Map, Value, json};
use taillight_core::{Error, Result};

use crate::atomic::{self, TempFile};
use crate::{names, table};

/// One column, a value or null for each row.
#[derive(Debug, Clone, PartialEq)]
pub struct PointColumn {
    pub name: String,
    pub values: PointValues,
}

/// Values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum PointValues {
    Text(Vec<Option<String>>),
    Whole(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Flag(Vec<Option<bool>>),
}

impl PointValues {
    fn len(&self) -> usize {
        match self {
            PointValues::Text(v) => v.len(),
            PointValues::Whole(v) => v.len(),
            PointValues::Real(v) => v.len(),
            PointValues::Flag(v) => v.len(),
        }
    }

    /// The type in Parquet's schema text, with the place of the name.
    fn schema(&self, name: &str) -> String {
        match self {
            PointValues::Text(_) => format!("optional binary {name} (STRING); "),
            PointValues::Whole(_) => format!("optional int64 {name}; "),
            PointValues::Real(_) => format!("optional double {name}; "),
            PointValues::Flag(_) => format!("optional boolean {name}; "),
        }
    }

    fn write(&self, out: &mut SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        fn parts<T, U>(values: &[Option<T>], cell: impl Fn(&T) -> U) -> (Vec<U>, Vec<i16>) {
            let levels = values.iter().map(|v| i16::from(v.is_some())).collect();
            (values.iter().flatten().map(cell).collect(), levels)
        }
        match self {
            PointValues::Text(v) => {
                let (cells, levels) = parts(v, |t| ByteArray::from(t.as_str()));
                out.typed::<ByteArrayType>().write_batch(&cells, Some(&levels), None)
            }
            PointValues::Whole(v) => {
                let (cells, levels) = parts(v, |n| *n);
                out.typed::<Int64Type>().write_batch(&cells, Some(&levels), None)
            }
            PointValues::Real(v) => {
                let (cells, levels) = parts(v, |x| *x);
                out.typed::<DoubleType>().write_batch(&cells, Some(&levels), None)
            }
            PointValues::Flag(v) => {
                let (cells, levels) = parts(v, |b| *b);
                out.typed::<BoolType>().write_batch(&cells, Some(&levels), None)
            }
        }
        .map(|_| ())
    }

    /// A value as a cell of CSV; empty for null.
    fn text(&self, row: usize) -> String {
        fn cell_text<T: ToString>(values: &[Option<T>], row: usize) -> String {
            values.get(row).and_then(Option::as_ref).map_or(String::new(), T::to_string)
        }
        match self {
            PointValues::Text(v) => quoted(&cell_text(v, row)),
            PointValues::Whole(v) => cell_text(v, row),
            PointValues::Real(v) => cell_text(v, row),
            PointValues::Flag(v) => cell_text(v, row),
        }
    }
}

/// Writes both files into the directory of a series. Errors: `Unavailable` when one cannot be
/// written; `Internal` when the columns differ in length.
pub fn write_points(dir: &Path, columns: &[PointColumn]) -> Result<()> {
    let rows = columns.first().map_or(0, |c| c.values.len());
    if columns.iter().any(|c| c.values.len() != rows) {
        return Err(Error::internal("columns of points.parquet differ in length"));
    }
    parquet(dir, columns)?;
    atomic::write(dir, names::POINTS_CSV, csv(columns).as_bytes())
}

fn parquet(dir: &Path, columns: &[PointColumn]) -> Result<()> {
    let bad = |e| table::unwritten(names::POINTS, e);
    let file = TempFile::create(dir, names::POINTS)?;
    let fields: String = columns.iter().map(|c| c.values.schema(&c.name)).collect();
    let schema = table::schema(&format!("message points {{ {fields}}}"))?;
    let properties = Arc::new(table::properties()?.build());
    let mut writer = SerializedFileWriter::new(file.handle()?, schema, properties).map_err(bad)?;
    let mut group = writer.next_row_group().map_err(bad)?;
    for column in columns {
        let mut out = group
            .next_column()
            .map_err(bad)?
            .ok_or_else(|| Error::internal("a table has fewer columns than its rows"))?;
        column.values.write(&mut out).map_err(bad)?;
        out.close().map_err(bad)?;
    }
    group.close().map_err(bad)?;
    writer.close().map_err(bad)?;
    file.commit()
}

/// The table as `points.csv` has it; columns are of one length.
pub fn csv(columns: &[PointColumn]) -> String {
    let rows = columns.first().map_or(0, |c| c.values.len());
    let names: Vec<String> = columns.iter().map(|c| quoted(&c.name)).collect();
    let mut out = format!("{}\n", names.join(","));
    for row in 0..rows {
        let cells: Vec<String> = columns.iter().map(|c| c.values.text(row)).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{}", cells.join(","));
    }
    out
}

/// A field in quotes when it needs them.
fn quoted(text: &str) -> String {
    match text.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

/// Fixed columns: name, JSON types, meaning.
pub const FIXED: &[(&str, &[&str], &str)] = &[
    ("series", &["string"], "Name of the job or the suite."),
    ("point", &["string"], "Id of the point in series.json."),
    ("run", &["string"], "Its run directory, from the directory of the series."),
    ("round", &["integer"], "Pass over the points, or the repetition inside a point; from 1 up."),
    ("role", &["string"], "What the run was for, as in series.json."),
    ("status", &["string"], "How the run ended: complete, partial or failed."),
    ("workload", &["string"], "Name of the workload."),
    ("op", &["string"], "Operation."),
    ("ops", &["integer"], "Operations, failed ones included."),
    ("errors", &["integer"], "Failed operations."),
    ("bytes", &["integer"], "Bytes moved by successes."),
    ("duration_ns", &["integer"], "Time the rates divide by, ns."),
    ("iops", &["number"], "Successful operations per second."),
    ("bytes_per_s", &["number"], "Bytes per second."),
    ("depth_mean", &["number", "null"], "Mean number of operations in flight."),
    ("saturated", &["boolean"], "Whether the run did not reach the rate it was asked for."),
    ("latency", &["string"], "Kind of the latencies: response with a schedule, else service."),
    ("mean_ns", &["number", "null"], "Mean latency, ns."),
    ("max_ns", &["integer", "null"], "Largest latency, ns."),
    (
        "cpu_ns",
        &["integer", "null"],
        "CPU time of the process while measuring, ns; of the whole run.",
    ),
];

/// Percentiles with columns of their own: name, and the percentile as decimal text.
pub const PERCENTILES: [(&str, &str); 6] = [
    ("p50", "50"),
    ("p90", "90"),
    ("p99", "99"),
    ("p999", "99.9"),
    ("p9999", "99.99"),
    ("p99999", "99.999"),
];

/// JSON Schema of a row.
pub fn schema_points() -> Value {
    let mut properties = Map::new();
    for (name, types, what) in FIXED {
        properties.insert((*name).to_owned(), json!({ "type": types, "description": what }));
    }
    for (name, p) in PERCENTILES {
        for (end, what) in [
            ("ns", format!("{p} % latency, ns; null when not resolved.")),
            (
                "lo_ns",
                "Lower end of its 95 % interval, ns; null when it does not exist.".to_owned(),
            ),
            (
                "hi_ns",
                "Upper end of its 95 % interval, ns; null when it does not exist.".to_owned(),
            ),
        ] {
            let types = json!(["integer", "null"]);
            properties
                .insert(format!("{name}_{end}"), json!({ "type": types, "description": what }));
        }
    }
    let required: Vec<String> = properties.keys().cloned().collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "points.parquet",
        "description": "One row of points.parquet and points.csv: one operation of one workload in \
                        one run of a series. Further columns are the fields that differ between \
                        points, by their dotted path with the value as given; sizes, times and rates \
                        have a second column with a number in bytes (_bytes), ns (_ns) or a second \
                        (_per_s, _bytes_per_s).",
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": { "type": ["string", "number", "boolean", "null"] },
    })
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::FileReader;

    use super::*;

    fn columns() -> Vec<PointColumn> {
        let column = |name: &str, values| PointColumn { name: name.to_owned(), values };
        vec![
            column("op", PointValues::Text(vec![Some("a,\"b\"".to_owned()), None])),
            column("workload.0.queue_depth", PointValues::Whole(vec![Some(-3), Some(i64::MAX)])),
            column("iops", PointValues::Real(vec![Some(0.1), None])),
            column("saturated", PointValues::Flag(vec![Some(true), None])),
        ]
    }

    #[test]
    fn both_files_hold_every_value() {
        let home = tempfile::tempdir().unwrap();
        write_points(home.path(), &columns()).unwrap();
        let text = std::fs::read_to_string(home.path().join(names::POINTS_CSV)).unwrap();
        let head = "op,workload.0.queue_depth,iops,saturated";
        assert_eq!(text, format!("{head}\n\"a,\"\"b\"\"\",-3,0.1,true\n,{},,\n", i64::MAX));
        let file = table::open(&home.path().join(names::POINTS)).unwrap();
        let rows: Vec<Vec<(String, String)>> = file
            .get_row_iter(None)
            .unwrap()
            .map(|row| {
                row.unwrap().get_column_iter().map(|(n, v)| (n.clone(), v.to_string())).collect()
            })
            .collect();
        let values = |row: usize| rows[row].iter().map(|(_, v)| v.as_str()).collect::<Vec<_>>();
        assert_eq!(rows[0][1].0, "workload.0.queue_depth");
        assert_eq!(values(0), ["\"a,\"b\"\"", "-3", "0.1", "true"]);
        assert_eq!(values(1), ["null", &i64::MAX.to_string(), "null", "null"]);
    }

    #[test]
    fn columns_of_different_lengths_are_no_table() {
        let home = tempfile::tempdir().unwrap();
        let mut wrong = columns();
        wrong[0].values = PointValues::Text(vec![None]);
        assert!(write_points(home.path(), &wrong).is_err());
        assert!(!home.path().join(names::POINTS).exists());
    }
}
