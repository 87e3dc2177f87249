//! What RocksDB's `db_bench` prints: a line of means for each benchmark, and with `--histogram` counts by bins.
//!
//! Source: RocksDB 7.8, `tools/db_bench_tool.cc` (`Stats::Report`) and `monitoring/histogram.cc`
//! (`HistogramStat::ToString`).

use std::collections::BTreeMap;

use taillight_core::{OpKind, Result};
use taillight_rundir::origin::{ImportedBin, ImportedLatency, ImportedOp, ImportedWorkload};

use super::source::figure;
use super::{ForeignResult, ForeignRun, ForeignWorkload, ResultSource, ResultUnit, name_of};

const MEAN: &str = " micros/op ";
const PER: &str = "Microseconds per ";
const VERSION: &str = "RocksDB:";
/// What db_bench calls a MB, bytes.
const MIB: f64 = 1_048_576.0;
/// The time of a run of some milliseconds is mostly that of its start, which no mean has.
const LEAST_THREADS: f64 = 1e-3;
/// Threads of a benchmark are fewer.
const MOST_THREADS: f64 = 1e5;
/// Benchmarks and histograms of one file at most, and bins of a histogram: RocksDB has 109.
const MOST: usize = 10_000;
const MOST_BINS: usize = 1000;
/// What is read of the lines before its bins.
const SAID: [&str; 6] = ["Count", "Average", "StdDev", "Min", "Median", "Max"];

pub fn looks_like(head: &str) -> bool {
    head.lines().any(|line| line.contains(MEAN) && line.contains(" ops/sec"))
}

/// One line of means and the histograms after it.
struct DbBenchmark {
    name: String,
    micros: f64,
    rate: f64,
    seconds: f64,
    operations: u64,
    mib: f64,
    /// Reads and writes of one that does both, where the line tells them.
    mixed: Option<(u64, u64)>,
    histograms: Vec<DbHistogram>,
}

/// Values are us.
#[derive(Default)]
struct DbHistogram {
    /// As db_bench calls the operation.
    of: String,
    said: BTreeMap<&'static str, f64>,
    bins: Vec<ImportedBin>,
}

pub fn read(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    source.says_unit(ResultUnit::Us)?;
    let mut all: Vec<DbBenchmark> = Vec::new();
    let (mut version, mut held) = (None, 0);
    while let Some(line) = source.whole_line()? {
        // What db_bench says of its progress ends with a carriage return.
        let line = line.rsplit('\r').next().unwrap_or_default().trim();
        if let Some(rest) = line.strip_prefix(VERSION) {
            version = rest.split_whitespace().last().map(str::to_owned);
        } else if line.contains(MEAN) {
            held += 1;
            let found = benchmark(line).filter(DbBenchmark::agrees);
            all.push(found.ok_or_else(|| source.damaged("no figures of a benchmark of db_bench"))?);
        } else if let Some(now) = all.last_mut() {
            held += usize::from(line.starts_with(PER));
            now.histogram_line(line).map_err(|why| source.damaged(why))?;
        }
        if held > MOST {
            return Err(source.damaged("there are too many benchmarks"));
        }
    }
    if let Some(h) = all.iter().flat_map(|b| &b.histograms).find(|h| !h.is_whole()) {
        let missing = format!("bins of a histogram (per {}) do not add up to its count", h.of);
        return Err(source.cut(&missing));
    }
    run(all, version, source)
}

/// `fillseq : 4.9 micros/op 200020 ops/sec 0.010 seconds 2000 operations; 22.1 MB/s`; before RocksDB 7 without seconds
/// and operations.
fn benchmark(line: &str) -> Option<DbBenchmark> {
    let (name, figures) = line.split_once(" : ")?;
    let words: Vec<&str> = figures.split_whitespace().collect();
    let before = |unit: &str| {
        let at = words.iter().position(|word| word.trim_end_matches(';') == unit)?;
        figure(words.get(at.checked_sub(1)?)?)
    };
    let optional = |unit: &str| match words.iter().any(|w| w.trim_end_matches(';') == unit) {
        true => before(unit),
        false => Some(0.0),
    };
    Some(DbBenchmark {
        name: name.trim().to_owned(),
        micros: before("micros/op")?,
        rate: before("ops/sec")?,
        seconds: optional("seconds")?,
        operations: optional("operations")? as u64,
        mib: optional("MB/s")?,
        mixed: mixed(figures),
        histograms: Vec::new(),
    })
}

/// `( reads:1800 writes:200 total:2000 found:1720)` is of one thread, of which only the shares count.
fn mixed(figures: &str) -> Option<(u64, u64)> {
    let told = figures.split_once('(')?.1.trim_end_matches(')');
    let of = |name: &str| {
        let word = told.split_whitespace().find_map(|word| word.strip_prefix(name))?;
        word.strip_prefix(':')?.parse::<u64>().ok()
    };
    Some((of("reads")?, of("writes").or(of("merges"))?)).filter(|(r, w)| *r > 0 || *w > 0)
}

impl DbBenchmark {
    /// Whether mean and rate are of one benchmark: the mean is the time of all threads through the operations, the rate
    /// that of the run, so that their product is the number of threads.
    fn agrees(&self) -> bool {
        let threads = self.micros * self.rate / 1e6;
        self.rate == 0.0 || self.micros == 0.0 || (LEAST_THREADS..MOST_THREADS).contains(&threads)
    }

    /// A line after that of the means; those of no histogram are db_bench's words for people.
    fn histogram_line(&mut self, line: &str) -> std::result::Result<(), &'static str> {
        const BAD: &str = "a histogram of db_bench that is damaged";
        if let Some(of) = line.strip_prefix(PER) {
            let of = of.trim_end_matches(':').to_owned();
            self.histograms.push(DbHistogram { of, ..DbHistogram::default() });
            return Ok(());
        }
        let Some(now) = self.histograms.last_mut() else { return Ok(()) };
        if line.starts_with("Count: ") || line.starts_with("Min: ") {
            let words: Vec<&str> = line.split_whitespace().collect();
            for pair in words.chunks(2) {
                let [name, value] = pair else { return Err(BAD) };
                let name = SAID.into_iter().find(|said| *said == name.trim_end_matches(':'));
                now.said.insert(name.ok_or(BAD)?, figure(value).ok_or(BAD)?);
            }
        } else if line.starts_with(['[', '(']) {
            let bin = match bin(line) {
                Some(bin) => bin,
                // Words for people, behind a histogram that is over.
                None if now.is_whole() => return Ok(()),
                None => return Err(BAD),
            };
            if now.bins.last().is_some_and(|before| before.hi_ns > bin.lo_ns) {
                return Err("bins of the histogram do not ascend");
            }
            now.bins.push(bin);
            if now.bins.len() > MOST_BINS {
                return Err("a histogram of db_bench has too many bins");
            }
        }
        Ok(())
    }

    /// The operation that the benchmark is named after; none of those that are no load.
    fn operation(&self) -> Option<OpKind> {
        let has = |words: &[&str]| words.iter().any(|word| self.name.contains(word));
        Some(match () {
            () if has(&["seek", "scan", "readseq", "readreverse", "newiterator"]) => OpKind::Scan,
            () if self.name.starts_with("fill") => OpKind::Insert,
            () if has(&["read", "get"]) => OpKind::Get,
            () if has(&["delete"]) => OpKind::Delete,
            () if has(&["overwrite", "update", "merge", "append", "put"]) => OpKind::Update,
            () => return None,
        })
    }

    fn ops(&self) -> BTreeMap<OpKind, ImportedOp> {
        let Some(own) = self.operation() else { return BTreeMap::new() };
        let duration_ns = (self.seconds * 1e9) as u64;
        let counted = self.operations > 0 && self.seconds > 0.0;
        let shares = self.mixed.filter(|_| self.histograms.is_empty() && counted);
        let alone = self.histograms.len() < 2 && shares.is_none();
        let op = |count: u64, latency| ImportedOp {
            count,
            errors: 0,
            bytes: if alone { (self.mib * MIB * self.seconds) as u64 } else { 0 },
            duration_ns,
            iops: match alone {
                true => self.rate,
                false => count as f64 / self.seconds.max(1e-9),
            },
            bytes_per_s: if alone { self.mib * MIB } else { 0.0 },
            latency,
        };
        if let Some((reads, writes)) = shares {
            let share = reads as f64 / (reads as f64 + writes as f64);
            let reads = (self.operations as f64 * share).round() as u64;
            let none = ImportedLatency::default;
            return BTreeMap::from([
                (OpKind::Get, op(reads, none())),
                (OpKind::Update, op(self.operations - reads.min(self.operations), none())),
            ]);
        }
        if self.histograms.is_empty() {
            let latency = ImportedLatency {
                count: self.operations,
                mean_ns: Some(self.micros * 1e3),
                ..ImportedLatency::default()
            };
            return BTreeMap::from([(own, op(self.operations, latency))]);
        }
        let of = |h: &DbHistogram| {
            let kind = match h.of.as_str() {
                "read" if own != OpKind::Scan => OpKind::Get,
                "write" if own != OpKind::Insert && own != OpKind::Delete => OpKind::Update,
                "seek" => OpKind::Scan,
                "delete" => OpKind::Delete,
                "merge" | "update" => OpKind::Update,
                _ => own,
            };
            let latency = h.latency();
            let count = if alone { self.operations.max(latency.count) } else { latency.count };
            (kind, op(count, latency))
        };
        self.histograms.iter().map(of).collect()
    }
}

impl DbHistogram {
    /// Whether its bins have as many operations as it says.
    fn is_whole(&self) -> bool {
        let counted = self.bins.iter().fold(0u64, |sum, bin| sum.saturating_add(bin.count));
        self.said.get("Count").is_some_and(|count| *count == counted as f64)
    }

    /// Outer bins end at the least and the most.
    fn latency(&self) -> ImportedLatency {
        let said = |name: &str| self.said.get(name).map(|us| us * 1e3);
        let (min, max) = (said("Min").map(|ns| ns as u64), said("Max").map(|ns| ns as u64));
        ImportedLatency {
            min_ns: min,
            max_ns: max,
            mean_ns: said("Average"),
            stddev_ns: said("StdDev"),
            ..ImportedLatency::from_bins(self.bins.clone())
        }
        .within_extremes()
    }
}

/// `(      34,      51 ]        1   0.050%  99.900% #`: above the first, up to the second, us.
fn bin(line: &str) -> Option<ImportedBin> {
    let (edges, rest) = line.split_once([']', ')'])?;
    let (lo, hi) = edges.get(1..)?.split_once(',')?;
    let edge = |text: &str| text.trim().parse::<u64>().ok()?.checked_mul(1000);
    let (lo, hi_ns) = (edge(lo)?, edge(hi)?);
    let lo_ns = if edges.starts_with('(') { lo.checked_add(1)? } else { lo };
    let count = rest.split_whitespace().next()?.parse().ok()?;
    (lo_ns <= hi_ns).then_some(ImportedBin { lo_ns, hi_ns, count })
}

fn run(
    all: Vec<DbBenchmark>,
    version: Option<String>,
    source: &ResultSource<'_>,
) -> Result<ForeignRun> {
    let mut notes = Vec::new();
    let counted = all.iter().any(|found| !found.histograms.is_empty());
    let last = all.last().filter(|last| counted && last.histograms.is_empty());
    if let Some(last) = last.filter(|last| last.operation().is_some()) {
        let name = &last.name;
        notes.push(format!(
            "{name}: no histogram follows, though others have one: the file may be cut short"
        ));
    }
    let mut named: BTreeMap<String, u32> = BTreeMap::new();
    let mut workloads = Vec::new();
    for (group, found) in (0..).zip(all) {
        let ops = found.ops();
        if ops.is_empty() {
            notes.push(format!("{} is no load and is not read", found.name));
            continue;
        }
        let shared = found.histograms.is_empty() && ops.len() > 1;
        if shared {
            notes.push(format!(
                "{}: its mean is that of reads and writes together, and not read",
                found.name
            ));
        }
        if (shared || found.histograms.len() > 1) && found.mib > 0.0 {
            notes.push(format!(
                "{}: which operations moved the bytes is not in the file",
                found.name
            ));
        }
        let before = named.entry(found.name.clone()).or_default();
        *before += 1;
        let name = match *before {
            1 => found.name,
            n => format!("{}-{n}", found.name),
        };
        let figures = ImportedWorkload { name, group, ops };
        workloads.push(ForeignWorkload { figures, random: false, workers: 0, depth: 0, block: 0 });
    }
    ForeignResult {
        tool: "db_bench",
        driver: "rocksdb",
        version,
        spans: "from one completion of a thread to its next, in whole us".to_owned(),
        name: name_of(source.file),
        workloads,
        notes,
        ..ForeignResult::default()
    }
    .run(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What RocksDB 7.8 prints. Once `readrandomwriterandom`, whose name has `iter` in it, counted as scans.
    #[test]
    fn operations_are_those_of_the_name_and_of_both_where_both_are_told() {
        let line = |name: &str, rest: &str| {
            let line = format!(
                "{name} :       5.558 micros/op 375234 ops/sec 0.016 seconds 6000 operations; {rest}"
            );
            let it = benchmark(&line).expect("a line of figures");
            it.ops().into_iter().map(|(op, it)| (op, it.count)).collect::<Vec<_>>()
        };
        let both = line("readrandomwriterandom", "( reads:1800 writes:200 total:2000 found:1720)");
        assert_eq!(both, [(OpKind::Get, 5400), (OpKind::Update, 600)]);
        for (name, op) in [
            ("newiterator", OpKind::Scan),
            ("newiteratorwhilewriting", OpKind::Scan),
            ("seekrandomwhilewriting", OpKind::Scan),
            ("readreverse", OpKind::Scan),
            ("readwhilewriting", OpKind::Get),
            ("multireadrandom", OpKind::Get),
            ("fillrandom", OpKind::Insert),
            ("deleteseq", OpKind::Delete),
            ("overwrite", OpKind::Update),
        ] {
            assert_eq!(line(name, "12.0 MB/s (5 of 9 found)"), [(op, 6000)], "{name}");
        }
    }
}
