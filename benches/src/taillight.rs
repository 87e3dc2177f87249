//! Runs the product as a user would and reads its `summary.json`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use taillight_core::OpKind;

use crate::child::{self, ChildUsage};
use crate::files;
use crate::pairs::Figures;

/// The binary: named by the environment, built beside this one, or in the path.
pub fn binary() -> PathBuf {
    if let Some(named) = std::env::var_os("TAILLIGHT") {
        return named.into();
    }
    let beside = std::env::current_exe().map(|me| me.with_file_name("taillight"));
    beside.ok().filter(|path| path.is_file()).unwrap_or_else(|| "taillight".into())
}

/// The binary for ranks: named by the environment, beside that of [`binary`], or in the path.
pub fn ranks_binary() -> PathBuf {
    if let Some(named) = std::env::var_os("TAILLIGHT_MPI") {
        return named.into();
    }
    let beside = binary().with_file_name("taillight-mpi");
    if beside.is_file() { beside } else { "taillight-mpi".into() }
}

/// A run directory that is deleted with this value: it holds every I/O and is large.
pub struct BenchRun(PathBuf);

impl BenchRun {
    /// A place that does not exist: what an earlier run left there is removed.
    pub fn new(name: &str) -> Result<BenchRun> {
        let path = files::bench_path(name)?;
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        Ok(BenchRun(path))
    }
    pub fn path(&self) -> &Path {
        &self.0
    }
    /// A JSON file of the run.
    pub fn json(&self, name: &str) -> Result<Value> {
        let path = self.0.join(name);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Ok(serde_json::from_str(&text)?)
    }
}

impl Drop for BenchRun {
    fn drop(&mut self) {
        // Left-overs only cost space; the next run with this name removes them.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The command for the words after `taillight run`, leaving its directory at `dir`.
pub fn command(words: &str, dir: &BenchRun) -> Command {
    let mut command = Command::new(binary());
    command.arg("run").args(words.split_whitespace());
    command.arg("--output").arg(dir.path());
    command
}

/// What a person types for the same.
pub fn command_line(words: &str) -> String {
    let words: Vec<&str> = words.split_whitespace().collect();
    format!("taillight run {}", words.join(" "))
}

/// Runs, checks that the run is complete and without errors, reads the figures of its operations.
pub fn run(words: &str) -> Result<Figures> {
    let dir = BenchRun::new("run")?;
    let done = child::run(&mut command(words, &dir))?;
    figures(&dir, &done)
}

/// As [`run`], with the CPU of the whole process for each operation.
pub fn run_whole(words: &str) -> Result<Figures> {
    let mut sample = run(words)?;
    let all = sample["all_cpu_s"] * 1e9 / sample["count"];
    sample.insert("all_cpu_ns", all);
    Ok(sample)
}

/// The figures of a finished run.
pub fn figures(dir: &BenchRun, done: &ChildUsage) -> Result<Figures> {
    let summary = dir.json("summary.json")?;
    let mut sample = parse(&summary)?;
    sample.insert("foreign", done.foreign);
    let kept = fs::metadata(dir.path().join("ios.parquet"))?.len();
    sample.insert("at_rest", kept as f64 / sample["count"]);
    sample.insert("all_cpu_s", done.cpu_s);
    sample.insert("all_wall_s", done.wall_s);
    sample.insert("max_rss", done.max_rss as f64);
    Ok(sample)
}

/// Rates of a run by several ranks: each keeps its own I/Os.
pub fn figures_of_ranks(dir: &BenchRun, done: &ChildUsage) -> Result<Figures> {
    let mut sample = parse(&dir.json("summary.json")?)?;
    sample.insert("foreign", done.foreign);
    Ok(sample)
}

fn parse(summary: &Value) -> Result<Figures> {
    ensure!(summary["status"] == "complete", "status {}", summary["status"]);
    ensure!(summary["totals"]["errors"] == 0, "errors {}", summary["totals"]["errors"]);
    let ops = summary["ops"].as_object().context("no ops")?;
    // Statements of a transaction and other parts are no operations.
    let is_part = |name: &str| OpKind::from_name(name).is_some_and(OpKind::is_part);
    let whole: Vec<&Value> =
        ops.iter().filter(|(name, _)| !is_part(name)).map(|(_, op)| op).collect();
    // The only kind of operation, or the most frequent one.
    let count = |op: &&Value| op["count"].as_u64();
    let read = whole.iter().copied().max_by_key(count).context("no operation")?;
    let number = |value: &Value, name: &str| value.as_f64().with_context(|| format!("no {name}"));
    // Reads and writes of a mix together, latencies of the most frequent.
    let sum = |name: &str| whole.iter().map(|op| number(&op[name], name)).sum::<Result<f64>>();
    let (iops, count) = (sum("iops")?, sum("count")?);
    let mut sample = Figures::from([
        ("iops", iops),
        ("ns_per_io", 1e9 / iops),
        ("count", count),
        ("mean_ns", number(&read["service"]["mean_ns"], "mean_ns")?),
    ]);
    if let Some(cpu) = summary["overhead"]["cpu_s"].as_f64() {
        sample.insert("cpu_ns", cpu * 1e9 / count);
    }
    for (part, name) in [("queue", "queue_mean_ns"), ("after_issue", "after_issue_mean_ns")] {
        if let Some(ns) = read[part]["mean_ns"].as_f64() {
            sample.insert(name, ns);
        }
    }
    let percentile = |latency: &Value, p: &str| {
        let list = latency["percentiles"].as_array()?;
        list.iter().find(|it| it["p"] == p)?["ns"].as_f64()
    };
    let write = ops.get("write").unwrap_or(&Value::Null);
    for (latency, p, name) in [
        (&read["service"], "50", "p50_ns"),
        (&read["service"], "99", "p99_ns"),
        (&write["service"], "99", "write_p99_ns"),
        (&read["after_issue"], "50", "sent_p50_ns"),
        (&read["after_issue"], "99", "sent_p99_ns"),
    ] {
        sample.extend(percentile(latency, p).map(|ns| (name, ns)));
    }
    Ok(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_read_from_the_summary() {
        let mut summary = json!({
            "status": "complete",
            "totals": {"errors": 0},
            "ops": {"read": {"count": 2000, "iops": 1000.0, "service": {"mean_ns": 80.0,
                "percentiles": [{"p": "50", "ns": 70}]}}},
            "overhead": {"cpu_s": 0.001}
        });
        let sample = parse(&summary).unwrap();
        assert_eq!((sample["cpu_ns"], sample["p50_ns"]), (500.0, 70.0));
        let statement = json!({"count": 9000, "iops": 9000.0, "service": {"mean_ns": 7.0}});
        summary["ops"]["commit"] = statement;
        let sample = parse(&summary).unwrap();
        assert_eq!((sample["iops"], sample["mean_ns"]), (1000.0, 80.0), "no total adds statements");
        summary["totals"]["errors"] = 1.into();
        assert!(parse(&summary).is_err());
    }
}
