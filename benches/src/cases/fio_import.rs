//! Is an imported fio job the same load? Every example of the importer runs in fio and in
//! Taillight; compared for each section and direction are IOPS, block sizes, and where and in what
//! order the I/Os fell.
//!
//! fio's side comes from its JSON and its I/O log, Taillight's from `ios.parquet`. Both run the
//! same text, shortened to `--seconds` and 64 MiB.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use taillight_core::OpKind;
use taillight_core::units::ByteSize;
use taillight_rundir::ios::{ColumnSet, read_ios};

use crate::pairs::{Bound, BoundCheck, Comparison, median};
use crate::{BenchSetup, child, files, taillight};

/// The examples.
const JOBS: &str = "crates/import/tests/fio";
/// Names of examples, separated by commas: only these run.
const ONLY: &str = "TAILLIGHT_BENCH_FIO_JOBS";
/// Sizes above this are cut down to it, bytes.
const MOST: u64 = 64 << 20;
/// Parts of the extent that offsets are counted in.
const PARTS: usize = 10;

/// One I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LoggedIo {
    way: OpKind,
    at: u64,
    size: u64,
    /// The worker (Taillight) or the file (fio): whether an I/O follows the one before is asked within one.
    lane: u64,
}

/// What one tool did for one section in one direction.
#[derive(Debug, Default, Clone)]
struct ToolRun {
    iops: f64,
    ios: Vec<LoggedIo>,
}

/// Sections and directions of one run of one tool.
type ToolRuns = BTreeMap<(String, &'static str), ToolRun>;

/// What is compared of the I/Os of one side.
struct AccessProfile {
    /// Mean size, bytes.
    block: f64,
    /// Share of each size.
    sizes: BTreeMap<u64, f64>,
    /// Share of each part of the extent.
    parts: [f64; PARTS],
    /// Share of the I/Os that went to the busiest 1 % of the blocks.
    top: f64,
    /// Share of I/Os that begin where the one before ended.
    follows: f64,
}

/// Differences of everything compared, to find the worst.
#[derive(Default)]
struct WorstDifferences {
    sizes: Vec<f64>,
    parts: Vec<f64>,
    top: Vec<f64>,
    follows: Vec<f64>,
    paced: Vec<f64>,
}

const HEADING: &str = "| job | section | | IOPS fio | IOPS Taillight | ratio (each round) \
    | mean block fio / Taillight | size shares differ by | decile shares differ by \
    | on the busiest 1 % | in sequence |\n|---|---|---|---|---|---|---|---|---|---|---|\n";

/// Runs the examples in both tools.
pub fn run(setup: &BenchSetup) -> Result<Comparison> {
    let mut report = Comparison::titled("Imported fio jobs against fio");
    let only = std::env::var(ONLY).unwrap_or_default();
    let wanted = |path: &Path| {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        only.is_empty() || only.split(',').any(|name| name == stem)
    };
    let mut jobs: Vec<PathBuf> = fs::read_dir(JOBS)
        .with_context(|| JOBS.to_owned())?
        .map(|e| e.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    jobs.retain(|path| wanted(path));
    jobs.sort();
    ensure!(!jobs.is_empty(), "{ONLY} names no example");
    let (mut table, mut worst) = (HEADING.to_owned(), WorstDifferences::default());
    for job in &jobs {
        println!("  {}", job.display());
        let text = shortened(&fs::read_to_string(job)?, setup.seconds);
        let rounds = (0..setup.pairs)
            .map(|round| both(&text, round % 2 == 1))
            .collect::<Result<Vec<_>>>()?;
        let stem = job.file_stem().unwrap_or_default().to_string_lossy();
        rows(&stem, &text, &rounds, &mut table, &mut worst);
    }
    report.notes.push(table);
    for (what, values, bound) in [
        ("shares of block sizes differ by at most", worst.sizes, 3.0),
        ("shares of deciles differ by at most", worst.parts, 4.0),
        ("share on the busiest 1 % differs by at most", worst.top, 3.0),
        ("share in sequence differs by at most", worst.follows, 3.0),
        (
            "IOPS of paced sections differ, beyond what drawing explains, by at most",
            worst.paced,
            3.0,
        ),
    ] {
        if !values.is_empty() {
            report.checks.push(BoundCheck {
                what: what.into(),
                unit: "%",
                values: vec![values.into_iter().fold(0.0, f64::max)],
                bound: Bound::AtMost(bound),
            });
        }
    }
    report.notes.push(
        "Sections without a rate go as fast as the disk, which is shared: their ratio tells more \
         about the neighbours than about the tools. Shares are of equally many I/Os of both. fio \
         ran with an I/O log in all but `null`."
            .into(),
    );
    Ok(report)
}

/// The text with shorter times and smaller sizes.
fn shortened(text: &str, seconds: u64) -> String {
    let line = |line: &str| match line.trim().split_once('=') {
        Some(("runtime", _)) => format!("runtime={seconds}"),
        Some(("size", size)) => format!("size={}", bytes(size).unwrap_or(MOST).min(MOST)),
        _ => line.to_owned(),
    };
    let lines: Vec<String> = text.lines().map(line).collect();
    lines.join("\n") + "\n"
}

/// `128m`, as the examples write it.
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(char::is_alphabetic);
    let shift = match &text[digits.len()..] {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        _ => return None,
    };
    Some(digits.parse::<u64>().ok()? << shift)
}

/// What a section says of itself, or the global one.
fn says(text: &str, section: &str, option: &str) -> Option<String> {
    let value = |section: &str| {
        let lines = text.lines().map(str::trim);
        let own = lines.skip_while(|l| *l != format!("[{section}]")).skip(1);
        let mut own = own.take_while(|l| !l.starts_with('['));
        own.find_map(|l| Some(l.strip_prefix(option)?.strip_prefix('=')?.to_owned()))
    };
    value(section).or_else(|| value("global"))
}

/// The rows of one job.
fn rows(
    stem: &str,
    text: &str,
    rounds: &[(ToolRuns, ToolRuns)],
    table: &mut String,
    worst: &mut WorstDifferences,
) {
    let Some((theirs, ours)) = rounds.last() else {
        return;
    };
    for (key, fio) in theirs {
        let (section, way) = key;
        let iops = |of: fn(&(ToolRuns, ToolRuns)) -> &ToolRuns| -> Vec<f64> {
            let each = rounds.iter().filter_map(|r| of(r).get(key));
            each.map(|side| side.iops).collect()
        };
        let (a, b) = (iops(|r| &r.0), iops(|r| &r.1));
        let ratios: Vec<f64> = a.iter().zip(&b).map(|(a, b)| b / a).collect();
        let each: Vec<String> = ratios.iter().map(|r| format!("{r:.2}")).collect();
        table.push_str(&format!(
            "| {stem} | {section} | {way} | {:.0} | {:.0} | {:.3} ({}) |",
            median(&a),
            median(&b),
            median(&ratios),
            each.join(", ")
        ));
        let paced = ["rate", "rate_iops"].iter().any(|o| says(text, section, o).is_some());
        if paced {
            let off = (median(&ratios) - 1.0).abs();
            let drawn = drawn(text, section, ours, way);
            worst.paced.push((off - 3.0 * drawn).max(0.0) * 100.0);
        }
        let empty = ToolRun::default();
        let own = ours.get(key).unwrap_or(&empty);
        let count = fio.ios.len().min(own.ios.len());
        let size = says(text, section, "size").and_then(|s| bytes(&s)).unwrap_or(MOST);
        match (shape(&fio.ios[..count], size), shape(&own.ios[..count], size)) {
            (Some(x), Some(y)) => {
                // Where a scattered skew puts its hot blocks is the hash of the tool.
                let scattered = says(text, section, "random_distribution")
                    .is_some_and(|d| d.starts_with("zipf") || d.starts_with("pareto"));
                table.push_str(&compared(&x, &y, scattered, worst));
            }
            _ => table.push_str(" - | - | - | - | - |\n"),
        }
    }
}

/// The relative standard deviation that drawing alone gives the count of one direction: of a
/// section with two, each operation is drawn; of a Poisson process, each gap. All rounds have one
/// seed, so that their median is no better than one of them.
fn drawn(text: &str, section: &str, ours: &ToolRuns, way: &'static str) -> f64 {
    let of_section = ours.iter().filter(|((s, _), _)| s == section);
    let all: usize = of_section.map(|(_, side)| side.ios.len()).sum();
    let own = ours.get(&(section.to_owned(), way));
    let own = own.map_or(0, |side| side.ios.len());
    if own == 0 {
        return 0.0;
    }
    let others = 1.0 - own as f64 / all as f64;
    let poisson = says(text, section, "rate_process").is_some_and(|p| p == "poisson");
    ((others + f64::from(u8::from(poisson))) / own as f64).sqrt()
}

/// The cells about the I/Os.
fn compared(
    x: &AccessProfile,
    y: &AccessProfile,
    scattered: bool,
    worst: &mut WorstDifferences,
) -> String {
    let size = |sizes: &BTreeMap<u64, f64>, key| sizes.get(key).copied().unwrap_or(0.0);
    let all = x.sizes.keys().chain(y.sizes.keys());
    let sizes = all
        .map(|key| (size(&x.sizes, key) - size(&y.sizes, key)).abs() * 100.0)
        .fold(0.0, f64::max);
    let both = x.parts.iter().zip(&y.parts);
    let parts = both.map(|(a, b)| (a - b).abs() * 100.0).fold(0.0, f64::max);
    worst.sizes.push(sizes);
    worst.top.push((x.top - y.top).abs() * 100.0);
    worst.follows.push((x.follows - y.follows).abs() * 100.0);
    if !scattered {
        worst.parts.push(parts);
    }
    format!(
        " {:.0} / {:.0} | {sizes:.1} | {parts:.1}{} | {:.3} / {:.3} | {:.3} / {:.3} |\n",
        x.block,
        y.block,
        if scattered { " (scattered)" } else { "" },
        x.top,
        y.top,
        x.follows,
        y.follows
    )
}

/// One example once in each tool, in the order asked for.
fn both(text: &str, ours_first: bool) -> Result<(ToolRuns, ToolRuns)> {
    let home = files::bench_path("fio-import")?;
    if home.exists() {
        fs::remove_dir_all(&home)?;
    }
    let tool = |name: &str, side: fn(&str, &Path) -> Result<ToolRuns>| {
        let dir = home.join(name);
        fs::create_dir_all(&dir)?;
        side(text, &dir)
    };
    let first = if ours_first { Some(tool("own", own_side)?) } else { None };
    let fio = tool("fio", fio_side)?;
    let own = first.map_or_else(|| tool("own", own_side), Ok)?;
    fs::remove_dir_all(&home)?;
    Ok((fio, own))
}

fn fio_side(text: &str, dir: &Path) -> Result<ToolRuns> {
    let logged = !text.contains("ioengine=null");
    let mut own = String::new();
    for line in text.lines() {
        own.push_str(line);
        own.push('\n');
        let name = line.trim().strip_prefix('[').and_then(|l| l.split(']').next());
        if let Some(name) = name.filter(|n| logged && *n != "global") {
            own.push_str(&format!("write_iolog={name}.log\n"));
        }
    }
    fs::write(dir.join("job.fio"), own)?;
    let mut command = Command::new("fio");
    command.args(["job.fio", "--output-format=json"]).current_dir(dir);
    let done = child::run(&mut command)?;
    let start = done.stdout.find('{').context("fio printed no JSON")?;
    let all: Value = serde_json::from_str(&done.stdout[start..])?;
    let mut sides = ToolRuns::new();
    for job in all["jobs"].as_array().context("no jobs")? {
        let name = job["jobname"].as_str().context("no jobname")?;
        for way in [OpKind::Read, OpKind::Write, OpKind::Trim] {
            let iops = job[way.name()]["iops"].as_f64().unwrap_or(0.0);
            if iops > 0.0 {
                let key = (name.to_owned(), way.name());
                sides.entry(key).or_default().iops += iops;
            }
        }
    }
    for ((name, way), side) in sides.iter_mut().filter(|_| logged) {
        let log = fs::read_to_string(dir.join(format!("{name}.log")))?;
        let ios = log.lines().filter_map(logged_io);
        let all: Vec<LoggedIo> = ios.filter(|io| io.way.name() == *way).collect();
        ensure!(!all.is_empty(), "fio logged no I/O of {name}");
        side.ios = whole(&all);
        let torn = all.len() - side.ios.len();
        ensure!(
            torn * 100 <= all.len(),
            "{torn} of {} lines of fio's log of {name} are torn",
            all.len()
        );
    }
    Ok(sides)
}

/// Jobs of one section write one log from several processes: at the ends of their buffers lines are
/// cut and glued. What they say then lies beyond the file or has a size that nobody asked for, which
/// is seen by its being rare. Such lines are no I/Os of fio.
fn whole(all: &[LoggedIo]) -> Vec<LoggedIo> {
    let mut sizes: HashMap<u64, usize> = HashMap::new();
    for io in all {
        *sizes.entry(io.size).or_default() += 1;
    }
    let rare = (all.len() / 1000).max(1);
    let kept = |io: &&LoggedIo| {
        let inside = io.at.checked_add(io.size).is_some_and(|end| end <= MOST);
        inside && (all.len() < 100 || sizes[&io.size] > rare)
    };
    all.iter().filter(kept).copied().collect()
}

/// `TIME FILE read OFFSET SIZE`.
fn logged_io(line: &str) -> Option<LoggedIo> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [_, file, what, at, size] = words[..] else {
        return None;
    };
    let way =
        [OpKind::Read, OpKind::Write, OpKind::Trim].into_iter().find(|way| way.name() == what)?;
    Some(LoggedIo {
        way,
        at: at.parse().ok()?,
        size: size.parse().ok()?,
        lane: file.bytes().fold(0, |h, b| h.wrapping_mul(31) ^ u64::from(b)),
    })
}

fn own_side(text: &str, dir: &Path) -> Result<ToolRuns> {
    fs::write(dir.join("job.fio"), text)?;
    let binary = fs::canonicalize(taillight::binary()).unwrap_or_else(|_| taillight::binary());
    let mut command = Command::new(binary);
    command.args(["run", "job.fio", "--output", "out"]).current_dir(dir);
    child::run(&mut command)?;
    let out = dir.join("out");
    let mut runs = vec![out.clone()];
    if !out.join("manifest.json").is_file() {
        runs = fs::read_dir(&out)?.map(|e| e.map(|e| e.path())).collect::<Result<_, _>>()?;
    }
    let mut sides = ToolRuns::new();
    for run in runs {
        one_run(text, &run, &mut sides)?;
    }
    Ok(sides)
}

fn one_run(text: &str, run: &Path, sides: &mut ToolRuns) -> Result<()> {
    let manifest = fs::read_to_string(run.join("manifest.json"))?;
    let manifest: Value = serde_json::from_str(&manifest)?;
    let phases = manifest["phases"].as_array().context("no phases")?;
    let measure = phases.iter().find(|p| p["name"] == "measure").context("no measure phase")?;
    let stamp = |name: &str| measure[name].as_f64().with_context(|| format!("no {name}"));
    let seconds = (stamp("end_ns")? - stamp("start_ns")?) / 1e9;
    let workloads = manifest["plan"]["workload"].as_array().context("no workloads")?;
    let mut ios: Vec<Vec<(i64, LoggedIo)>> = vec![Vec::new(); workloads.len()];
    let file_size = file_size(&manifest["plan"]["target"])?;
    let columns = ColumnSet::PHASE
        | ColumnSet::WORKLOAD
        | ColumnSet::WORKER
        | ColumnSet::OP
        | ColumnSet::TARGET
        | ColumnSet::OFFSET
        | ColumnSet::SIZE
        | ColumnSet::SUBMIT;
    let read = read_ios(&run.join("ios.parquet"), columns, &mut |batch| {
        for i in (0..batch.rows).filter(|i| batch.phase_name(*i) == "measure") {
            let row = batch.row(i);
            let io = LoggedIo {
                way: row.op,
                at: u64::from(row.target) * file_size + row.offset.unwrap_or(0),
                size: row.size,
                lane: u64::from(row.worker),
            };
            ios[usize::from(row.workload)].push((batch.submit(i), io));
        }
        Ok(())
    });
    read.map_err(|e| anyhow::anyhow!("{e}"))?;
    for (workload, mut ios) in workloads.iter().zip(ios) {
        let name = workload["name"].as_str().context("no name")?.to_owned();
        let begin = workload["access"]["offset"].as_str().unwrap_or("0B");
        let begin: ByteSize = begin.parse().map_err(|e| anyhow::anyhow!("{e}"))?;
        // Files of workers lie one after another in a data set: folded onto one file.
        let size = says(text, &name, "size").and_then(|s| bytes(&s)).unwrap_or(MOST);
        ios.sort_by_key(|(submit, _)| *submit);
        for (_, mut io) in ios {
            io.at = io.at.saturating_sub(begin.0) % size;
            let side = sides.entry((name.clone(), io.way.name())).or_default();
            side.iops += 1.0 / seconds;
            side.ios.push(io);
        }
    }
    Ok(())
}

/// Bytes in each file of the data set: offsets in a capture are those in a file.
fn file_size(target: &Value) -> Result<u64> {
    let size: ByteSize =
        target["size"].as_str().unwrap_or("0B").parse().map_err(|e| anyhow::anyhow!("{e}"))?;
    Ok(size.0 / target["options"]["files"].as_u64().unwrap_or(1).max(1))
}

fn shape(ios: &[LoggedIo], extent: u64) -> Option<AccessProfile> {
    let count = ios.len() as f64;
    let unit = ios.iter().map(|io| io.size).min()?.max(1);
    let mut visits: HashMap<u64, u64> = HashMap::new();
    let mut shape = AccessProfile {
        block: ios.iter().map(|io| io.size as f64).sum::<f64>() / count,
        sizes: BTreeMap::new(),
        parts: [0.0; PARTS],
        top: 0.0,
        follows: 0.0,
    };
    let mut ends: HashMap<u64, u64> = HashMap::new();
    for io in ios {
        *visits.entry(io.at / unit).or_default() += 1;
        *shape.sizes.entry(io.size).or_default() += 1.0 / count;
        let part = (io.at.saturating_mul(PARTS as u64) / extent.max(1)) as usize;
        shape.parts[part.min(PARTS - 1)] += 1.0 / count;
        if ends.insert(io.lane, io.at + io.size) == Some(io.at) {
            shape.follows += 1.0 / count;
        }
    }
    let mut visits: Vec<u64> = visits.into_values().collect();
    visits.sort_unstable_by(|a, b| b.cmp(a));
    let hundredth = ((extent / unit / 100) as usize).max(1);
    let top: u64 = visits.iter().take(hundredth).sum();
    shape.top = top as f64 / count;
    Some(shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_lines_and_shapes() {
        let io = logged_io("106 t.0.0 read 8192 4096").unwrap();
        assert_eq!((io.way, io.at, io.size), (OpKind::Read, 8192, 4096));
        assert_eq!(logged_io("98 t.0.0 open"), None);
        let one = |n: u64| LoggedIo { way: OpKind::Write, at: n * 4096, size: 4096, lane: n % 2 };
        let ios: Vec<LoggedIo> = (0..100).map(one).collect();
        let s = shape(&ios, 100 * 4096).unwrap();
        assert_eq!((s.block, s.follows), (4096.0, 0.0));
        assert!((s.parts[9] - 0.1).abs() < 1e-9 && (s.top - 0.01).abs() < 1e-9);
        let walk: Vec<LoggedIo> = ios.iter().map(|io| LoggedIo { lane: 0, ..*io }).collect();
        assert!((shape(&walk, 100 * 4096).unwrap().follows - 0.99).abs() < 1e-9);
    }

    #[test]
    fn a_drawn_mix_and_poisson_gaps_have_their_noise() {
        let io = LoggedIo { way: OpKind::Read, at: 0, size: 4096, lane: 0 };
        let side = |count: usize| ToolRun { iops: 0.0, ios: vec![io; count] };
        let mut sides = ToolRuns::new();
        sides.insert(("a".into(), "read"), side(300));
        sides.insert(("a".into(), "write"), side(100));
        sides.insert(("b".into(), "read"), side(400));
        let text = "[a]\nrate_iops=30,10\n[b]\nrate_iops=40\n";
        assert!((drawn(text, "a", &sides, "write") - 0.75f64.sqrt() / 10.0).abs() < 1e-12);
        assert!((drawn(text, "b", &sides, "read")).abs() < 1e-12, "even pace");
        let text = "[b]\nrate_iops=40\nrate_process=poisson\n";
        assert!((drawn(text, "b", &sides, "read") - 0.05).abs() < 1e-12);
        assert!((drawn(text, "c", &sides, "read")).abs() < 1e-12, "no such section");
    }

    #[test]
    fn torn_lines_of_a_shared_log_are_no_ios() {
        let one = |at: u64, size: u64| LoggedIo { way: OpKind::Read, at, size, lane: 0 };
        let mut all: Vec<LoggedIo> = (0..1000).map(|n| one(n * 4096, 4096)).collect();
        let sound = all.clone();
        // Cut, glued, and beyond the file.
        all.extend([one(8192, 4), one(0, 40_964_096), one(MOST, 4096)]);
        assert_eq!(whole(&all), sound);
    }

    #[test]
    fn examples_are_shortened_and_read() {
        let text = "[global]\nsize=1g\nruntime=9s\n[a]\nrw=read\n[b]\nsize=8m\n";
        let short = shortened(text, 2);
        assert!(short.contains("runtime=2\n") && short.contains("size=67108864\n"), "{short}");
        assert_eq!(says(&short, "a", "size").and_then(|s| bytes(&s)), Some(MOST));
        assert_eq!(says(&short, "b", "size").and_then(|s| bytes(&s)), Some(8 << 20));
        assert_eq!(says(&short, "b", "rw"), None);
    }
}
