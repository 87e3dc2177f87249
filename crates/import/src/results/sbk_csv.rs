//! The CSV of SBK (Storage Benchmark Kit): its rows `Total`, one run each. Columns are found by name, as their places
//! differ by version.
//!
//! Source: SBK 10.6, `CSVLogger`; samples in its `samples/charts`.

use std::collections::BTreeMap;

use taillight_core::{OpKind, Result};
use taillight_rundir::origin::{ImportedLatency, ImportedOp, ImportedPercentile, ImportedWorkload};

use super::{ForeignResult, ForeignRun, ForeignWorkload, ResultSource, ResultUnit, name_of};

const UNIT: &str = "LatencyTimeUnit";
/// Before the percentile in a column's name.
const PERCENTILE: &str = "Percentile_";
/// What SBK calls a MB, bytes.
const MIB: f64 = 1_048_576.0;
/// Runs of one file at most.
const MOST_RUNS: usize = 10_000;

pub fn looks_like(head: &str) -> bool {
    let header = head.lines().next().unwrap_or_default();
    header.contains(UNIT) && header.contains(PERCENTILE)
}

pub fn read(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    let header = source.next_line()?.unwrap_or_default().to_owned();
    let names: Vec<&str> = header.split(',').map(str::trim).collect();
    let mut notes = Vec::new();
    let mut workloads = Vec::new();
    while let Some(line) = source.whole_line()? {
        if line.is_empty() || line == header {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        if fields.len() != names.len() {
            let error = source.damaged("the row has not as many columns as the header");
            return Err(error.with("columns", fields.len()).with("in the header", names.len()));
        }
        let row = SbkRow { names: &names, fields: &fields, source };
        if row.text("Type")? == "Total" {
            let group = u32::try_from(workloads.len()).unwrap_or(u32::MAX);
            workloads.push(row.workload(group, &mut notes)?);
        }
        if workloads.len() > MOST_RUNS {
            return Err(source.damaged("there are too many runs"));
        }
    }
    if workloads.is_empty() {
        return Err(source.cut("there is no row Total, which SBK writes at the end of a run"));
    }
    notes.dedup();
    ForeignResult {
        tool: "sbk",
        driver: "sbk",
        spans: "from the begin of the call; sync is in no latency".to_owned(),
        name: name_of(source.file),
        workloads,
        notes,
        ..ForeignResult::default()
    }
    .run(source)
}

struct SbkRow<'a, 'b> {
    names: &'a [&'a str],
    fields: &'a [&'a str],
    source: &'a ResultSource<'b>,
}

impl SbkRow<'_, '_> {
    fn text(&self, name: &str) -> Result<&str> {
        let at = self.names.iter().position(|known| *known == name);
        let found = at.and_then(|at| self.fields.get(at)).copied();
        found.ok_or_else(|| self.source.damaged("a column is missing").with("column", name))
    }

    fn number(&self, name: &str) -> Result<f64> {
        let text = self.text(name)?;
        self.parsed(name, text)
    }

    fn parsed(&self, name: &str, text: &str) -> Result<f64> {
        let found = text.parse().ok().filter(|v: &f64| (0.0..1e18).contains(v));
        found.ok_or_else(|| {
            self.source.damaged("a figure that is no number").with("column", name).with("it", text)
        })
    }

    fn unit(&self) -> Result<ResultUnit> {
        let text = self.text(UNIT)?;
        let unit = match text.to_lowercase().as_str() {
            "nanoseconds" | "ns" => ResultUnit::Ns,
            "microseconds" | "mcs" => ResultUnit::Us,
            "milliseconds" | "ms" => ResultUnit::Ms,
            _ => return Err(self.source.damaged("an unknown unit of latencies").with(UNIT, text)),
        };
        self.source.says_unit(unit).map(|()| unit)
    }

    fn operation(&self, notes: &mut Vec<String>) -> Result<OpKind> {
        let action = self.text("Action")?;
        match action {
            "Writing" => Ok(OpKind::Write),
            "Reading" | "Write_OnlyReading" => Ok(OpKind::Read),
            "Write_Reading" => {
                notes
                    .push("reads of end-to-end runs (Write_Reading) begin with their write".into());
                Ok(OpKind::Read)
            }
            _ => Err(self.source.damaged("an unknown action of SBK").with("Action", action)),
        }
    }

    /// A row `Total`.
    fn workload(&self, group: u32, notes: &mut Vec<String>) -> Result<ForeignWorkload> {
        let unit = self.unit()?;
        if unit == ResultUnit::Ms {
            notes.push("latencies are in whole ms: those below 1 ms are 0".into());
        }
        let op = self.operation(notes)?;
        for lost in ["InvalidLatencies", "LowerDiscard", "HigherDiscard"] {
            let count = self.number(lost)?;
            if count > self.number("Records")? {
                return Err(self
                    .source
                    .damaged("more latencies are lost than there are records")
                    .with("column", lost));
            }
            if count > 0.0 {
                notes.push(format!("{lost}: {count} latencies are in no percentile"));
            }
        }
        let (count, rate) = (self.number("Records")? as u64, self.number("Records/Sec")?);
        // Seconds are cut to whole ones; records and their rate have more of them.
        let seconds = match rate > 0.0 {
            true => count as f64 / rate,
            false => self.number("ReportSeconds")?,
        };
        let figures = ImportedOp {
            count,
            errors: 0,
            bytes: (self.number("MB")? * MIB) as u64,
            duration_ns: (seconds * 1e9) as u64,
            iops: rate,
            bytes_per_s: self.number("MB/Sec")? * MIB,
            latency: self.latency(count, unit.ns().unwrap_or(1) as f64)?,
        };
        let writes = op == OpKind::Write;
        let workers = self.number(if writes { "MaxWriters" } else { "MaxReaders" })? as u32;
        let block = (figures.bytes as f64 / count.max(1) as f64).round() as u64;
        let name = format!("{}-{}", self.text("Storage")?, self.text("Action")?);
        let name = match group {
            0 => crate::name_of_run(&name, 100),
            n => format!("{}-{}", crate::name_of_run(&name, 90), n + 1),
        };
        let figures = ImportedWorkload { name, group, ops: BTreeMap::from([(op, figures)]) };
        Ok(ForeignWorkload { figures, random: false, workers, depth: 1, block })
    }

    fn latency(&self, count: u64, ns: f64) -> Result<ImportedLatency> {
        let mut percentiles: Vec<ImportedPercentile> = Vec::new();
        for (name, text) in self.names.iter().zip(self.fields) {
            // `Percentile_Count_99` has how many were in that one value.
            let Some(p) = name.strip_prefix(PERCENTILE) else { continue };
            if p.parse::<f64>().is_err() {
                continue;
            }
            let value = (self.parsed(name, text)? * ns) as u64;
            percentiles.push(ImportedPercentile { p: p.to_owned(), ns: value });
        }
        let of = |name: &str| self.number(name).map(|value| value * ns);
        Ok(ImportedLatency {
            count,
            // Not in the first versions.
            min_ns: match self.names.contains(&"MinLatency") {
                true => Some(of("MinLatency")? as u64),
                false => None,
            },
            max_ns: Some(of("MaxLatency")? as u64),
            mean_ns: Some(of("AvgLatency")?),
            percentiles,
            step_ns: Some(ns as u64).filter(|step| *step > 1),
            ..ImportedLatency::default()
        })
    }
}
