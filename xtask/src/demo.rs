//! `cargo xtask demo`: ten short runs on the file system of the current directory and the embedded
//! stores, and one report with all of them. What is run is in `jobs/demo/*.toml`; this only walks through them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{smoke, tool};

/// Where the data file and the runs go, in the current directory.
const HOME: &str = "taillight-runs/demo";
/// Size of the data file, as in the job files.
const DATA_BYTES: u64 = 1 << 30;
/// Exit code of a run that is not possible here.
const UNAVAILABLE: i32 = 4;
/// Free space asked for: data, runs and some air.
const NEED_BYTES: u64 = 3 << 30;

pub fn main() -> Result<bool> {
    let here = std::env::current_dir()?;
    let home = here.join(HOME);
    std::fs::create_dir_all(home.join("data"))
        .with_context(|| format!("cannot write under {}", here.display()))?;
    check_space(&home)?;
    println!("demo: building Taillight (a few minutes the first time)");
    smoke::build()?;
    let session = fresh(&home)?;
    println!("demo: 1 GiB in {HOME}/data/, kept for the next time; runs in {}", shown(&session));
    println!("demo: nothing else on this disk is touched\n");
    let direct = has_direct(&home)?;
    if !direct {
        println!("demo: no direct I/O on this file system: the page cache is in these figures\n");
    }
    println!(
        "{:<16} {:<6} {:>8} {:>10} {:>10} {:>10} {:>10}  verdict",
        "run", "op", "IOPS", "p50", "p99", "p99.9", "max"
    );
    let start = Instant::now();
    let mut runs = Vec::new();
    let mut all_good = true;
    for job in jobs()? {
        let run = session.join(job.file_stem().context("job without a name")?);
        match measure(&job, &run, direct)? {
            Some(good) => {
                all_good &= good;
                runs.push(run);
            }
            None => println!("{:<16} skipped: {}", label(&run), why_not(&run)),
        }
    }
    ensure!(!runs.is_empty(), "no run could begin");
    let html = report(&session, &runs)?;
    println!("\ndemo: {} runs in {} s", runs.len(), start.elapsed().as_secs());
    println!("demo: open {}", html.display());
    Ok(all_good)
}

/// The job files, in the order of their names.
fn jobs() -> Result<Vec<PathBuf>> {
    let dir = tool::root().join("jobs/demo");
    let mut jobs: Vec<PathBuf> = std::fs::read_dir(&dir)
        .with_context(|| dir.display().to_string())?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|e| e == "toml"))
        .collect();
    jobs.sort();
    ensure!(!jobs.is_empty(), "no job in {}", dir.display());
    Ok(jobs)
}

/// Refuses to start when the disk is too full, with the numbers.
fn check_space(home: &Path) -> Result<()> {
    let mut df = Command::new("df");
    df.args(["--output=avail", "--block-size=1"]).arg(home);
    let text = tool::output(&mut df)?;
    let free: u64 = text.lines().last().unwrap_or("").trim().parse().context("df")?;
    let have = home.join("data").read_dir()?.next().is_some();
    let need = if have { NEED_BYTES - DATA_BYTES } else { NEED_BYTES };
    if free < need {
        bail!("the demo wants {:.1} GiB free here, there are {:.1} GiB", gib(need), gib(free));
    }
    Ok(())
}

/// Whether a file here can be opened around the page cache.
fn has_direct(home: &Path) -> Result<bool> {
    let file = home.join("direct.tmp");
    std::fs::write(&file, b"x")?;
    let mut read = Command::new("dd");
    read.arg(format!("if={}", file.display()));
    read.args(["of=/dev/null", "iflag=direct", "bs=4096", "count=1", "status=none"]);
    let direct = tool::output(&mut read).is_ok();
    std::fs::remove_file(&file)?;
    Ok(direct)
}

fn gib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 30)
}

/// A new directory for this time's runs: the first free number.
fn fresh(home: &Path) -> Result<PathBuf> {
    for number in 1..10_000 {
        let dir = home.join(format!("{number:03}"));
        match std::fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e).with_context(|| dir.display().to_string()),
        }
    }
    bail!("too many demo runs in {}; delete some", home.display())
}

/// What a run is called in the table.
fn label(run: &Path) -> String {
    let name = run.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Why a run could not begin: the first line it said about it.
fn why_not(run: &Path) -> String {
    let said = std::fs::read_to_string(run.with_extension("log")).unwrap_or_default();
    said.lines().next().unwrap_or("it said nothing").to_owned()
}

/// One run; prints its rows. `Some(false)` when the run had something to say against itself,
/// `None` when a store's library is not here.
fn measure(job: &Path, run: &Path, direct: bool) -> Result<Option<bool>> {
    let name = label(run);
    let on_files = std::fs::read_to_string(job)?.contains("driver = \"file\"");
    let log = run.with_extension("log");
    let out = std::fs::File::create(&log)?;
    let mut taillight = Command::new(tool::taillight());
    taillight.arg("run").arg(job).arg("--output").arg(run);
    if !direct && on_files {
        taillight.args(["--set", "target.options.direct=false"]);
    }
    let status = taillight
        .stdin(Stdio::null())
        .stdout(out.try_clone()?)
        .stderr(out)
        .status()
        .context("cannot start taillight")?;
    if status.code() == Some(UNAVAILABLE) && !on_files {
        return Ok(None);
    }
    let Ok(text) = std::fs::read_to_string(run.join("summary.json")) else {
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        bail!("{name}: {status}\n{}", said.trim());
    };
    let summary: Value = serde_json::from_str(&text)?;
    println!("{}", rows(&name, &summary));
    if let Some(held) = held(&summary) {
        println!("{:<16} {held}", "");
    }
    Ok(Some(status.success()))
}

/// The rows of a run: one for each kind of operation.
fn rows(name: &str, summary: &Value) -> String {
    let empty = serde_json::Map::new();
    let ops = summary["ops"].as_object().unwrap_or(&empty);
    let verdict = summary["verdict"]["status"].as_str().unwrap_or("?");
    let rows: Vec<String> = ops.iter().map(|(op, result)| row(name, op, result, verdict)).collect();
    rows.join("\n")
}

/// Which layers held the outliers, where tracing was allowed: the three that held the most.
fn held(summary: &Value) -> Option<String> {
    let causes = summary["cause"].as_array()?;
    let count = |cause: &Value| cause["outliers"].as_u64().unwrap_or(0);
    let all: u64 = causes.iter().map(count).sum();
    let mut most: Vec<&Value> = causes.iter().filter(|c| count(c) > 0).collect();
    most.sort_by_key(|c| std::cmp::Reverse(count(c)));
    let layers: Vec<String> = most
        .iter()
        .take(3)
        .map(|c| {
            let layer = c["layer"].as_str().unwrap_or("?").replace('_', " ");
            format!("{layer} {}", count(c))
        })
        .collect();
    (all > 0).then(|| format!("held {all} outliers: {}", layers.join(", ")))
}

fn row(name: &str, op: &str, result: &Value, verdict: &str) -> String {
    let service = &result["service"];
    let percentile = |p: &str| {
        let list = service["percentiles"].as_array().map_or(&[][..], Vec::as_slice);
        duration(list.iter().find(|e| e["p"] == p).and_then(|e| e["ns"].as_u64()))
    };
    format!(
        "{name:<16} {op:<6} {:>8.0} {:>10} {:>10} {:>10} {:>10}  {verdict}",
        result["iops"].as_f64().unwrap_or(f64::NAN),
        percentile("50"),
        percentile("99"),
        percentile("99.9"),
        duration(service["max_ns"].as_u64()),
    )
}

/// Nanoseconds in a unit that fits.
fn duration(ns: Option<u64>) -> String {
    match ns {
        None => "-".into(),
        Some(ns) if ns < 1_000 => format!("{ns} ns"),
        Some(ns) if ns < 1_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        Some(ns) if ns < 1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        Some(ns) => format!("{:.2} s", ns as f64 / 1e9),
    }
}

/// One page with every run in the same charts.
fn report(session: &Path, runs: &[PathBuf]) -> Result<PathBuf> {
    let html = session.join("report.html");
    let mut taillight = Command::new(tool::taillight());
    taillight.arg("report").args(runs).arg("--output").arg(&html);
    tool::output(&mut taillight)?;
    ensure!(html.is_file(), "taillight report left no {}", html.display());
    Ok(html)
}

/// A path as seen from the current directory.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_operation_has_its_row() {
        let summary = json!({
            "verdict": {"status": "good"},
            "ops": {"read": {"count": 9, "iops": 1234.4, "service": {"max_ns": 2_000_000,
                "percentiles": [{"p": "50", "ns": 80_000}, {"p": "99", "ns": null}]}}}
        });
        let text = rows("read-sync", &summary);
        for part in ["read-sync", "1234", "80.0 us", "2.0 ms", "good"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn the_layers_that_held_the_most_are_named_first() {
        let summary = json!({"cause": [{"layer": "cpu", "outliers": 6},
            {"layer": "block_queue", "outliers": 16}, {"layer": "device", "outliers": 0}]});
        let said = held(&summary).unwrap();
        assert_eq!(said, "held 22 outliers: block queue 16, cpu 6");
        assert_eq!(held(&json!({"cause": []})), None);
        assert_eq!(held(&json!({})), None);
    }

    #[test]
    fn every_job_file_is_found() {
        assert_eq!(jobs().unwrap().len(), 10);
    }
}
