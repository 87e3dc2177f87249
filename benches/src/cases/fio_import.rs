//! Is an imported fio job the same load? Every example of the importer runs in fio and in
//! Taillight; compared are IOPS, mean block size, the share of reads, and where the I/Os fell.
//!
//! fio's side comes from its JSON and its I/O log, Taillight's from `ios.parquet`.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use taillight_core::OpKind;
use taillight_rundir::ios::{Columns, read_ios};

use crate::pairs::{Bound, Check, Report, median};
use crate::{Setup, child, files, taillight};

/// The examples.
const JOBS: &str = "crates/import/tests/fio";

/// One I/O: read or not, offset, size.
type Io = (bool, u64, u64);

/// What one tool did for one section.
#[derive(Debug, Default, Clone)]
struct Side {
    iops: f64,
    ios: Vec<Io>,
}

/// What is compared of the I/Os of one side.
struct Shape {
    block: f64,
    reads: f64,
    /// Mean offset as a share of the extent.
    mean: f64,
    /// Share of the I/Os that went to the busiest 1 % of the blocks.
    top: f64,
    /// Share of I/Os that begin where the one before ended.
    follows: f64,
}

/// Runs every example in both tools.
pub fn run(setup: &Setup) -> Result<Report> {
    let mut report = Report::titled("Imported fio jobs against fio");
    let mut names: Vec<PathBuf> = fs::read_dir(JOBS)
        .with_context(|| JOBS.to_owned())?
        .map(|e| e.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    names.sort();
    let mut table = String::from(
        "| job | section | IOPS fio | IOPS taillight | ratio | mean block fio / taillight | reads \
         | mean offset | on the busiest 1 % | in sequence |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let (mut blocks, mut offsets, mut paced) = (Vec::new(), Vec::new(), Vec::new());
    for job in &names {
        let mut rounds: Vec<Vec<(String, Side, Side)>> = Vec::new();
        for _ in 0..setup.pairs {
            rounds.push(both(job)?);
        }
        let last = rounds.last().context("no round")?;
        for (at, (section, fio, own)) in last.iter().enumerate() {
            let middle = |f: fn(&(String, Side, Side)) -> f64| {
                let values: Vec<f64> = rounds.iter().map(|r| f(&r[at])).collect();
                median(&values)
            };
            let (a, b) = (middle(|r| r.1.iops), middle(|r| r.2.iops));
            let ratio = middle(|r| r.2.iops / r.1.iops);
            let (x, y) = (shape(&fio.ios), shape(&own.ios));
            let stem = job.file_stem().unwrap_or_default().to_string_lossy();
            if let (Some(x), Some(y)) = (&x, &y) {
                blocks.push((y.block / x.block - 1.0).abs() * 100.0);
                offsets.push((y.mean - x.mean).abs() * 100.0);
                offsets.push((y.top - x.top).abs() * 100.0);
            }
            if stem == "rates" && section != "pauses" || stem == "database" {
                paced.push((ratio - 1.0).abs() * 100.0);
            }
            table.push_str(&format!(
                "| {stem} | {section} | {a:.0} | {b:.0} | {ratio:.3} |"
            ));
            table.push_str(&cells(x.as_ref(), y.as_ref()));
        }
    }
    report.notes.push(table);
    let worst = |values: &[f64]| vec![values.iter().copied().fold(0.0, f64::max)];
    for (what, values, bound) in [
        ("mean block size differs by at most", worst(&blocks), 3.0),
        (
            "offset shares differ by at most (points)",
            worst(&offsets),
            3.0,
        ),
        (
            "IOPS of paced sections differ by at most",
            worst(&paced),
            5.0,
        ),
    ] {
        report.checks.push(Check {
            what: what.into(),
            unit: "%",
            values,
            bound: Bound::AtMost(bound),
        });
    }
    report.notes.push(
        "Sections without a rate go as fast as the disk, which is shared: their ratio tells more \
         about the neighbours than about the tools. fio ran with an I/O log in all but `null`."
            .into(),
    );
    Ok(report)
}

fn cells(fio: Option<&Shape>, own: Option<&Shape>) -> String {
    let (Some(a), Some(b)) = (fio, own) else {
        return " - | - | - | - | - |\n".into();
    };
    let share = |f: fn(&Shape) -> f64| format!(" {:.3} / {:.3} |", f(a), f(b));
    format!(
        " {:.0} / {:.0} |{}{}{}{}\n",
        a.block,
        b.block,
        share(|s| s.reads),
        share(|s| s.mean),
        share(|s| s.top),
        share(|s| s.follows)
    )
}

/// One example once in each tool; sections in the order of the file.
fn both(job: &Path) -> Result<Vec<(String, Side, Side)>> {
    let home = files::place("fio-import")?;
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    let text = fs::read_to_string(job)?;
    let sections: Vec<String> = text
        .lines()
        .filter_map(|l| l.trim().strip_prefix('[')?.split(']').next())
        .filter(|name| *name != "global")
        .map(str::to_owned)
        .collect();
    let (theirs, ours) = (home.join("fio"), home.join("own"));
    fs::create_dir_all(&theirs)?;
    fs::create_dir_all(&ours)?;
    println!("  {}", job.display());
    let mut fio = fio_side(&text, &theirs)?;
    let mut own = own_side(&fs::canonicalize(job)?, &ours)?;
    let found = sections.into_iter().map(|name| {
        let a = fio
            .remove(&name)
            .with_context(|| format!("fio: no {name}"))?;
        let mut b = own
            .remove(&name)
            .with_context(|| format!("taillight: no {name}"))?;
        fold(&a.ios, &mut b.ios);
        Ok((name, a, b))
    });
    let found = found.collect();
    fs::remove_dir_all(&home)?;
    found
}

/// Workers with files of their own lie one after another in a data set: folded onto one file.
fn fold(theirs: &[Io], ours: &mut [Io]) {
    let extent = theirs.iter().map(|(_, at, size)| at + size).max();
    if let Some(extent) = extent.filter(|e| *e > 0) {
        // Up to the next 64 KiB: the last blocks may not have been drawn.
        let extent = extent.next_multiple_of(64 << 10);
        ours.iter_mut().for_each(|io| io.1 %= extent);
    }
}

fn fio_side(text: &str, dir: &Path) -> Result<HashMap<String, Side>> {
    let logged = !text.contains("ioengine=null");
    let mut own = String::new();
    for line in text.lines() {
        own.push_str(line);
        own.push('\n');
        let name = line
            .trim()
            .strip_prefix('[')
            .and_then(|l| l.split(']').next());
        if let Some(name) = name.filter(|n| logged && *n != "global") {
            own.push_str(&format!("write_iolog={name}.log\n"));
        }
    }
    fs::write(dir.join("job.fio"), own)?;
    let mut command = Command::new("fio");
    command
        .args(["job.fio", "--output-format=json"])
        .current_dir(dir);
    let done = child::run(&mut command)?;
    let start = done.stdout.find('{').context("fio printed no JSON")?;
    let all: Value = serde_json::from_str(&done.stdout[start..])?;
    let mut sides: HashMap<String, Side> = HashMap::new();
    for job in all["jobs"].as_array().context("no jobs")? {
        let name = job["jobname"].as_str().context("no jobname")?;
        let side = sides.entry(name.to_owned()).or_default();
        for way in ["read", "write", "trim"] {
            side.iops += job[way]["iops"].as_f64().unwrap_or(0.0);
        }
    }
    for (name, side) in sides.iter_mut().filter(|_| logged) {
        let log = fs::read_to_string(dir.join(format!("{name}.log")))?;
        side.ios = log.lines().filter_map(logged_io).collect();
        ensure!(!side.ios.is_empty(), "fio logged no I/O of {name}");
    }
    Ok(sides)
}

/// `TIME FILE read OFFSET SIZE`.
fn logged_io(line: &str) -> Option<Io> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, _, what @ ("read" | "write" | "trim"), at, size] = words[..] else {
        return None;
    };
    Some((what == "read", at.parse().ok()?, size.parse().ok()?))
}

fn own_side(job: &Path, dir: &Path) -> Result<HashMap<String, Side>> {
    let binary = fs::canonicalize(taillight::binary()).unwrap_or_else(|_| taillight::binary());
    let mut command = Command::new(binary);
    command
        .arg("run")
        .arg(job)
        .args(["--output", "out"])
        .current_dir(dir);
    child::run(&mut command)?;
    let out = dir.join("out");
    let mut runs = vec![out.clone()];
    if !out.join("manifest.json").is_file() {
        runs = fs::read_dir(&out)?
            .map(|e| e.map(|e| e.path()))
            .collect::<Result<_, _>>()?;
    }
    let mut sides = HashMap::new();
    for run in runs {
        one_run(&run, &mut sides)?;
    }
    Ok(sides)
}

fn one_run(run: &Path, sides: &mut HashMap<String, Side>) -> Result<()> {
    let text = fs::read_to_string(run.join("manifest.json"))?;
    let manifest: Value = serde_json::from_str(&text)?;
    let phases = manifest["phases"].as_array().context("no phases")?;
    let measure = phases
        .iter()
        .find(|p| p["name"] == "measure")
        .context("no measure phase")?;
    let stamp = |name: &str| measure[name].as_f64().with_context(|| format!("no {name}"));
    let seconds = (stamp("end_ns")? - stamp("start_ns")?) / 1e9;
    let workloads = manifest["plan"]["workload"]
        .as_array()
        .context("no workloads")?;
    let mut ios: Vec<Vec<(i64, Io)>> = vec![Vec::new(); workloads.len()];
    let columns = Columns::PHASE
        | Columns::WORKLOAD
        | Columns::OP
        | Columns::OFFSET
        | Columns::SIZE
        | Columns::SUBMIT;
    let read = read_ios(&run.join("ios.parquet"), columns, &mut |batch| {
        for i in (0..batch.rows).filter(|i| batch.phase_name(*i) == "measure") {
            let io = (
                batch.op[i] == OpKind::Read,
                batch.offset[i].unwrap_or(0),
                batch.size[i],
            );
            ios[usize::from(batch.workload[i])].push((batch.submit[i], io));
        }
        Ok(())
    });
    read.map_err(|e| anyhow::anyhow!("{e}"))?;
    for (workload, mut ios) in workloads.iter().zip(ios) {
        let name = workload["name"].as_str().context("no name")?.to_owned();
        ios.sort_by_key(|(submit, _)| *submit);
        let side = Side {
            iops: ios.len() as f64 / seconds,
            ios: ios.into_iter().map(|(_, io)| io).collect(),
        };
        sides.insert(name, side);
    }
    Ok(())
}

fn shape(ios: &[Io]) -> Option<Shape> {
    let extent = ios.iter().map(|(_, at, size)| at + size).max()? as f64;
    let count = ios.len() as f64;
    let unit = ios.iter().map(|io| io.2).min()?.max(1);
    let mut visits: HashMap<u64, u64> = HashMap::new();
    for (_, at, _) in ios {
        *visits.entry(at / unit).or_default() += 1;
    }
    let mut visits: Vec<u64> = visits.into_values().collect();
    visits.sort_unstable_by(|a, b| b.cmp(a));
    let hundredth = ((extent / unit as f64 / 100.0) as usize).max(1);
    let top: u64 = visits.iter().take(hundredth).sum();
    let follows = ios.windows(2).filter(|w| w[0].1 + w[0].2 == w[1].1).count();
    Some(Shape {
        block: ios.iter().map(|io| io.2 as f64).sum::<f64>() / count,
        reads: ios.iter().filter(|io| io.0).count() as f64 / count,
        mean: ios.iter().map(|io| io.1 as f64).sum::<f64>() / count / extent,
        top: top as f64 / count,
        follows: follows as f64 / count,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_and_shapes() {
        assert_eq!(logged_io("106 t.0.0 read 0 4096"), Some((true, 0, 4096)));
        assert_eq!(logged_io("98 t.0.0 open"), None);
        let ios: Vec<Io> = (0..100).map(|n| (n % 4 == 0, n * 4096, 4096)).collect();
        let s = shape(&ios).unwrap();
        assert_eq!((s.block, s.reads, s.follows), (4096.0, 0.25, 0.99));
        assert!((s.mean - 0.495).abs() < 1e-9 && (s.top - 0.01).abs() < 1e-9);
        let mut two = vec![(true, (1 << 20) + 4096, 4096)];
        fold(&[(true, (1 << 20) - 4096, 4096)], &mut two);
        assert_eq!(two[0].1, 4096);
    }
}
