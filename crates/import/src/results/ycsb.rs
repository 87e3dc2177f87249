//! What YCSB prints and exports: text, JSON (an array, or one object after another), and `measurementtype=raw`, which
//! has every operation.
//!
//! Source: YCSB 0.17.0, `TextMeasurementsExporter`, `JSONArrayMeasurementsExporter`, `OneMeasurementRaw`,
//! `OneMeasurementHistogram`, `OneMeasurementTimeSeries`.

use std::collections::BTreeMap;

use serde::Deserialize;
use taillight_core::{OpKind, Record, Result, Stamp, Status};
use taillight_rundir::latency::LatencyBin;
use taillight_rundir::origin::{
    ImportSource, ImportedBin, ImportedLatency, ImportedOp, ImportedPercentile,
};

use super::every_io::{BASE_NS, EveryIo};
use super::{
    ForeignResult, ForeignRun, ForeignWorkload, LAST_NS, ResultSource, ResultUnit, name_of,
};

/// Before the name of an operation whose latencies begin when the schedule wanted it.
const INTENDED: &str = "Intended-";
/// Before names where two kinds of measurement are kept (`measurementtype=hdrhistogram+raw`).
const KEPT: [&str; 3] = ["Hdr", "Bucket", "Raw"];
/// What YCSB measures that is no load.
const CLEANUP: &str = "CLEANUP";
/// Return codes of operations that did not fail; of early versions they are numbers.
const SUCCESS: [&str; 3] = ["OK", "BATCHED_OK", "0"];
/// In the header of raw data.
const RAW: &str = " latency raw data: op, timestamp(ms), latency(us)";
const OVERALL: &str = "OVERALL";
const RUN_TIME: &str = "RunTime(ms)";
const THROUGHPUT: &str = "Throughput(ops/sec)";
/// How often an operation of the throughput may be measured: a read-modify-write is three, an insert is tried again.
const MOST_COUNTED: f64 = 16.0;
/// Bytes of measurements, or of their JSON, that are held at most.
const MOST_HELD: usize = 64 << 20;
/// Names of operations in raw data at most, with those of their errors, and bytes of one.
const MOST_NAMES: usize = 10_000;
const LONGEST_NAME: usize = 1024;
/// How many rows raw data had, in the summary after them.
const TOTAL: &str = "], Total Operations, ";

/// The operation of a name of YCSB's; none for those that are no load.
fn operation(name: &str) -> Option<OpKind> {
    Some(match name {
        "READ" => OpKind::Get,
        "UPDATE" => OpKind::Update,
        "INSERT" => OpKind::Insert,
        "SCAN" => OpKind::Scan,
        "DELETE" => OpKind::Delete,
        "READ-MODIFY-WRITE" => OpKind::Rmw,
        _ => return None,
    })
}

/// What a name of YCSB's says.
#[derive(Clone, Copy)]
pub(super) struct OpName {
    pub(super) op: OpKind,
    /// Which of [`KEPT`] the name begins with; empty for none.
    kept: &'static str,
    pub(super) intended: bool,
    pub(super) failed: bool,
}

impl OpName {
    /// `HdrIntended-READ-FAILED`; with `reportlatencyforeacherror` failed ones have the name of the error. None for
    /// what is no load.
    pub(super) fn of(name: &str) -> Option<OpName> {
        let kept = KEPT.into_iter().find(|kept| name.starts_with(kept)).unwrap_or_default();
        let name = name.strip_prefix(kept).unwrap_or(name);
        let (name, intended) = match name.strip_prefix(INTENDED) {
            Some(name) => (name, true),
            None => (name, false),
        };
        let (op, failed) = match operation(name) {
            Some(op) => (op, false),
            None => (operation(name.rsplit_once('-')?.0)?, true),
        };
        Some(OpName { op, kept, intended, failed })
    }
}

pub fn looks_like(head: &str) -> bool {
    head.contains("[OVERALL], RunTime(ms)")
        || (head.contains("\"metric\"") && head.contains("\"OVERALL\""))
}

pub fn looks_raw(head: &str) -> bool {
    head.lines().any(|line| line.ends_with(RAW))
}

/// One measurement.
#[derive(Deserialize)]
struct Measurement {
    metric: String,
    measurement: String,
    value: f64,
}

/// All measurements of one operation.
#[derive(Default)]
struct OpMeasurements {
    values: BTreeMap<String, f64>,
    /// Lines of which the measurement is a number: counts by ms, or means over time.
    numbered: Vec<(u64, f64)>,
    /// Counts of operations that took so many ms or more (`>1000`).
    over: Vec<(u64, f64)>,
}

impl OpMeasurements {
    fn count(&self) -> Option<f64> {
        let of = |name: &str| self.values.get(name).copied();
        of("Operations").or(of("Total Operations"))
    }

    /// Operations whose return code is not that of success.
    fn returned_failed(&self) -> f64 {
        let failed = self.values.iter().filter(|(name, _)| {
            let code = name.strip_prefix("Return=");
            code.is_some_and(|code| !SUCCESS.contains(&code))
        });
        failed.map(|(_, n)| n).sum()
    }
}

pub fn read(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    source.says_unit(ResultUnit::Us)?;
    let mut all: BTreeMap<String, OpMeasurements> = BTreeMap::new();
    let (mut json, mut held) = (String::new(), 0);
    while let Some(line) = source.next_line()? {
        let array = line.starts_with("[ {") || line.starts_with("[{") || line == "[";
        if json.is_empty() && !line.starts_with('{') && !array {
            let line = line.to_owned();
            if !source.ended() && line.starts_with('[') {
                return Err(source.cut("the last line has no end"));
            }
            match measurement(&line) {
                None => {}
                Some(Some(found)) => {
                    held += found.metric.len() + found.measurement.len() + 2 * size_of::<u64>();
                    put(&mut all, found).map_err(|why| source.damaged(why))?;
                }
                Some(None) => return Err(source.damaged("a measurement of YCSB that is no number")),
            }
            if held > MOST_HELD {
                return Err(source.damaged("there are too many measurements"));
            }
            continue;
        }
        json.push_str(line);
        json.push('\n');
        if json.len() > MOST_HELD {
            return Err(source.damaged("the JSON is too long"));
        }
    }
    for found in from_json(&json, source)? {
        put(&mut all, found).map_err(|why| source.damaged(why))?;
    }
    let Some(ms) = all.get(OVERALL).and_then(|of| of.values.get(RUN_TIME)).copied() else {
        return Err(source.cut("there is no [OVERALL], RunTime(ms)"));
    };
    run(&all, ms, source)
}

/// `[READ], 99thPercentileLatency(us), 123`; none for other lines, and without a measurement where one is damaged.
fn measurement(line: &str) -> Option<Option<Measurement>> {
    let (metric, rest) = line.strip_prefix('[')?.split_once("], ")?;
    let told = |c: char| c.is_ascii_alphanumeric() || "_-%".contains(c);
    if !metric.chars().all(told) {
        return None;
    }
    let found = rest.rsplit_once(", ").and_then(|(measurement, value)| {
        Some(Measurement {
            metric: metric.to_owned(),
            measurement: measurement.to_owned(),
            value: value.parse().ok().filter(|v: &f64| v.is_finite())?,
        })
    });
    Some(found)
}

fn from_json(json: &str, source: &ResultSource<'_>) -> Result<Vec<Measurement>> {
    let damaged = |e| source.bad_json("the JSON of YCSB is damaged", e);
    if json.starts_with('[') {
        return serde_json::from_str(json).map_err(damaged);
    }
    let each = serde_json::Deserializer::from_str(json).into_iter::<Measurement>();
    each.map(|found| found.map_err(damaged)).collect()
}

/// Errors: a figure below zero of an operation, a run that took no time, and a measurement that was there before.
fn put(
    all: &mut BTreeMap<String, OpMeasurements>,
    found: Measurement,
) -> std::result::Result<(), &'static str> {
    if found.metric == OVERALL && found.measurement == RUN_TIME && found.value <= 0.0 {
        return Err("the run took no time");
    }
    // Those of garbage collectors are -1 where Java does not know them.
    if found.value < 0.0 && OpName::of(&found.metric).is_some() {
        return Err("a measurement of YCSB below zero");
    }
    let counts = found.metric == OVERALL || OpName::of(&found.metric).is_some();
    let of = all.entry(found.metric).or_default();
    let over = found.measurement.strip_prefix('>');
    let twice = match (over.unwrap_or(&found.measurement).parse::<u64>(), over.is_some()) {
        (Ok(at), false) => {
            of.numbered.push((at, found.value));
            false
        }
        (Ok(at), true) => {
            of.over.push((at, found.value));
            false
        }
        (Err(_), _) => of.values.insert(found.measurement, found.value).is_some(),
    };
    match twice && counts {
        true => Err("a second result begins here: give each run a file of its own"),
        false => Ok(()),
    }
}

fn run(
    all: &BTreeMap<String, OpMeasurements>,
    ms: f64,
    source: &ResultSource<'_>,
) -> Result<ForeignRun> {
    let mut notes = Vec::new();
    let seconds = ms / 1e3;
    let named: Vec<(OpName, &String, &OpMeasurements)> =
        all.iter().filter_map(|(name, of)| Some((OpName::of(name)?, name, of))).collect();
    // Where both are measured, the latencies that count a stall are those from the intended begin.
    let intended = named.iter().any(|(name, ..)| name.intended);
    // Of two kinds of measurement one counts: histograms before counts by ms.
    let kept = KEPT.into_iter().find(|kept| named.iter().any(|(name, ..)| name.kept == *kept));
    // Those that have names tell all failed ones of their operation.
    let failed: Vec<OpKind> =
        named.iter().filter(|(name, ..)| name.failed).map(|(name, ..)| name.op).collect();
    let mut ops: BTreeMap<OpKind, ImportedOp> = BTreeMap::new();
    for (name, text, of) in named {
        if name.intended != intended || kept.is_some_and(|kept| name.kept != kept) {
            continue;
        }
        if of.count().is_none() {
            return Err(source.damaged(format!("there is no [{text}], Operations")));
        }
        let it = imported(of, &mut notes, text);
        let known = ops.entry(name.op).or_default();
        known.count = known.count.saturating_add(it.count);
        if name.failed {
            known.errors = known.errors.saturating_add(it.count);
            continue;
        }
        known.latency = it;
        let returned = of.returned_failed();
        if returned > 0.0 && !failed.contains(&name.op) {
            known.errors = returned as u64;
            notes.push(format!("{text}: failed operations are among its latencies"));
        }
    }
    for it in ops.values_mut() {
        it.duration_ns = (ms * 1e6) as u64;
        it.iops = it.count as f64 / seconds;
    }
    let all_ops: f64 = ops.values().map(|it| it.count as f64).sum();
    let said = all.get(OVERALL).and_then(|of| of.values.get(THROUGHPUT));
    if said.is_some_and(|rate| all_ops > MOST_COUNTED * (rate * seconds + 1.0)) {
        return Err(source.damaged("more operations than [OVERALL], Throughput(ops/sec) tells"));
    }
    if ops.contains_key(&OpKind::Rmw) {
        notes.push("reads and updates include those of read-modify-writes".into());
    }
    foreign(source, spans(intended), ops, 0, notes).run(source)
}

/// What latencies span.
fn spans(intended: bool) -> String {
    let begin = match intended {
        true => ImportSource::SCHEDULED,
        false => "from the begin of the call",
    };
    format!("{begin}, in whole us")
}

fn foreign(
    source: &ResultSource<'_>,
    spans: String,
    ops: BTreeMap<OpKind, ImportedOp>,
    ended_ns: i64,
    notes: Vec<String>,
) -> ForeignResult {
    ForeignResult {
        tool: "ycsb",
        driver: "ycsb",
        name: name_of(source.file),
        spans,
        ended_ns,
        workloads: ForeignWorkload::only(source.file, 0, 0, ops),
        notes,
        ..ForeignResult::default()
    }
}

fn imported(of: &OpMeasurements, notes: &mut Vec<String>, name: &str) -> ImportedLatency {
    let value = |name: &str| of.values.get(name).copied();
    let us = |name| value(name).map(|us| (us * 1e3) as u64);
    let count = of.count().unwrap_or(0.0) as u64;
    let mut percentiles: Vec<ImportedPercentile> = Vec::new();
    for (measured, value) in &of.values {
        let (named, ns) = match measured.strip_suffix("PercentileLatency(us)") {
            Some(p) => (Some(p), 1e3),
            // Of early versions.
            None => (measured.strip_suffix("PercentileLatency(ms)"), 1e6),
        };
        let (p, ns) = match (named, measured.strip_prefix('p')) {
            (Some(p), _) => (p.trim_end_matches(|c: char| c.is_ascii_alphabetic()), ns),
            (None, Some(p)) => (p, 1e3),
            (None, None) => continue,
        };
        if p.parse::<f64>().is_ok() {
            percentiles.push(ImportedPercentile { p: p.to_owned(), ns: (value * ns) as u64 });
        }
    }
    // Counts by ms add up to all; a series of means does not.
    let counts = || of.numbered.iter().chain(&of.over);
    let counted = counts().fold(0.0, |sum, (_, n)| sum + n);
    // Those of other programs with YCSB's words may be of another unit: they are beyond the highest latency.
    let highest = counts().filter(|(_, n)| *n > 0.0).map(|(ms, _)| *ms).max();
    let beyond = us("MaxLatency(us)").is_some_and(|max| highest > Some(max / 1_000_000));
    let bins: Vec<ImportedBin> = match count > 0 && counted == count as f64 && !beyond {
        true => {
            let most = us("MaxLatency(us)").unwrap_or(LatencyBin::OPEN_NS);
            let over = of.over.iter().map(|(ms, n)| {
                let from = bin(*ms, *n);
                ImportedBin { hi_ns: most.max(from.lo_ns), ..from }
            });
            let all = of.numbered.iter().map(|(ms, n)| bin(*ms, *n)).chain(over);
            let mut all: Vec<ImportedBin> = all.filter(|bin| bin.count > 0).collect();
            all.sort_by_key(|bin| bin.lo_ns);
            all
        }
        false => {
            if !of.numbered.is_empty() {
                notes.push(match beyond && counted == count as f64 {
                    true => format!("{name}: counts by latency are in no known unit, and not read"),
                    false => {
                        format!("{name}: means over time (measurementtype=timeseries) are not read")
                    }
                });
            }
            Vec::new()
        }
    };
    if !bins.is_empty() {
        percentiles.clear();
    }
    ImportedLatency {
        count,
        min_ns: us("MinLatency(us)").or(us("Min")),
        max_ns: us("MaxLatency(us)").or(us("Max")),
        mean_ns: value("AverageLatency(us)").or(value("Average")).map(|us| us * 1e3),
        stddev_ns: value("LatencyVariance(us)").map(|us2| us2.sqrt() * 1e3),
        percentiles,
        bins,
        // Only its own histogram, which counts by ms, has a variance.
        step_ns: Some(value("LatencyVariance(us)").map_or(1_000, |_| 1_000_000)),
    }
}

/// Operations of one ms.
fn bin(ms: u64, count: f64) -> ImportedBin {
    let lo_ns = ms.saturating_mul(1_000_000);
    ImportedBin { lo_ns, hi_ns: lo_ns.saturating_add(999_999), count: count as u64 }
}

pub fn read_raw(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    source.says_unit(ResultUnit::Us)?;
    // Rows from the begin of the call, and those from the intended one; which there are is known in the end.
    let mut each: [EveryIo; 2] = Default::default();
    // Stamps are ms since the epoch; those of a run begin with the first row.
    let mut first_ms = None;
    let summed = raw_rows(source, &mut |row| {
        let from = *first_ms.get_or_insert(row.time_ms);
        each[usize::from(row.name.intended)].add((0, row.name.op as u16), &row.record(from))
    })?;
    let intended = each[1].any();
    let [plain, scheduled] = each;
    let every = if intended { scheduled } else { plain };
    let from = first_ms.unwrap_or(0);
    let ended_ns = from.saturating_mul(1_000_000).saturating_add(every.span().1 - BASE_NS);
    let ops = every.ops(0);
    let mut notes = vec!["which thread made an operation is not in the file".into()];
    if !summed {
        notes.push("how many operations there were is not in the file: whether rows are missing is not known".into());
    }
    let spans = format!("{}; when it ended is known to the ms", spans(intended));
    let mut found = foreign(source, spans, ops, ended_ns, notes);
    found.rows = every.any().then(|| {
        every.rows(Box::new(move |source, sink| {
            let mut put = |row: RawRow| match row.name.intended == intended {
                true => sink((0, row.name.op as u16), &row.record(from)),
                false => Ok(()),
            };
            raw_rows(source, &mut put).map(drop)
        }))
    });
    found.run(source)
}

/// One operation.
#[derive(Clone, Copy)]
struct RawRow {
    name: OpName,
    /// Completion, ms since the epoch.
    time_ms: i64,
    us: i64,
}

impl RawRow {
    fn record(self, from_ms: i64) -> Record {
        let since = self.time_ms.saturating_sub(from_ms).saturating_mul(1_000_000);
        let complete = BASE_NS.saturating_add(since);
        Record {
            op: self.name.op,
            submit: Stamp(complete.saturating_sub(self.us.saturating_mul(1_000))),
            complete: Stamp(complete),
            status: if self.name.failed { Status::STORE } else { Status::OK },
            ..Record::default()
        }
    }
}

/// How many rows there are of each name, and how many the summary tells, where YCSB put it into the same file.
#[derive(Default)]
struct RawCounts {
    rows: BTreeMap<String, u64>,
    told: BTreeMap<String, u64>,
    summed: bool,
}

impl RawCounts {
    fn summary(&mut self, line: &str) {
        self.summed |= measurement(line).flatten().is_some();
        let told = line.split_once(TOTAL).and_then(|(name, n)| Some((name, n.parse().ok()?)));
        let few = self.told.len() < MOST_NAMES;
        if let Some((name, n)) = told.filter(|(name, _)| few && name.len() <= LONGEST_NAME) {
            self.told.insert(name.trim_start_matches('[').to_owned(), n);
        }
    }

    /// Errors: `Corrupt` where rows or the summary after them are missing.
    fn check(&self, headers: &[String], source: &ResultSource<'_>) -> Result<()> {
        for name in headers.iter().filter(|_| self.summed) {
            let rows = self.rows.get(name).copied().unwrap_or(0);
            match self.told.get(name) {
                None => return Err(source.cut(&format!("there is no summary of {name}"))),
                Some(told) if *told != rows => {
                    let what =
                        format!("there are {rows} rows of {name}, and its summary tells {told}");
                    return Err(source.damaged(what));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Whether the file has a summary, by which rows are counted.
fn raw_rows(
    source: &mut ResultSource<'_>,
    each: &mut dyn FnMut(RawRow) -> Result<()>,
) -> Result<bool> {
    let mut headers: Vec<String> = Vec::new();
    let mut counts = RawCounts::default();
    while let Some(line) = source.next_line()? {
        if let Some(of) = line.strip_suffix(RAW) {
            let of = of.to_owned();
            if headers.contains(&of) {
                return Err(source
                    .damaged("a second run begins here: YCSB appends to a file that exists")
                    .hint("give each run a file of its own"));
            }
            if of.len() > LONGEST_NAME || headers.len() == MOST_NAMES {
                return Err(source.damaged("names of operations are too many, or too long"));
            }
            headers.push(of);
            continue;
        }
        // YCSB prints a summary after the rows, and around them what it does.
        if line.starts_with('[') {
            counts.summary(line);
            continue;
        }
        if headers.is_empty() || line.is_empty() {
            continue;
        }
        let line = line.to_owned();
        if !source.ended() {
            return Err(source.cut("the last row has no end"));
        }
        let row = raw_row(&line, &headers).map_err(|why| source.damaged(why))?;
        let name = line.split(',').next().unwrap_or_default();
        match counts.rows.get_mut(name) {
            Some(n) => *n += 1,
            None => drop(counts.rows.insert(name.to_owned(), 1)),
        }
        row.map_or(Ok(()), &mut *each).map_err(|e| source.placed(e))?;
        if counts.rows.len() > MOST_NAMES {
            return Err(source.damaged("there are too many names of operations"));
        }
    }
    counts.check(&headers, source)?;
    Ok(counts.summed)
}

/// `READ,1700000000123,456`; none for what is no load.
fn raw_row(line: &str, headers: &[String]) -> std::result::Result<Option<RawRow>, &'static str> {
    const BAD: &str = "no row of YCSB's raw data";
    let fields: Vec<&str> = line.split(',').collect();
    let [name, time, us] = fields.as_slice() else { return Err(BAD) };
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|n| *n >= 0).ok_or(BAD);
    let (time_ms, us) = (number(time)?, number(us)?);
    if name.len() > LONGEST_NAME {
        return Err(BAD);
    }
    if time_ms > LAST_NS / 1_000_000 || us > LAST_NS / 1_000 {
        return Err("a time beyond any run");
    }
    match OpName::of(name) {
        None if name.ends_with(CLEANUP) || headers.iter().any(|of| of == name) => Ok(None),
        None => Err("the row is of no operation of YCSB"),
        Some(name) => Ok(Some(RawRow { name, time_ms, us })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Reader = fn(&mut ResultSource<'_>) -> Result<ForeignRun>;

    fn read_as(reader: Reader, text: &str) -> std::result::Result<ForeignRun, String> {
        let mut source = ResultSource::new("a.txt", String::new(), Box::new(text.as_bytes()));
        reader(&mut source).map_err(|e| e.to_string())
    }

    /// Operations and failed ones of each kind.
    fn counts(run: &ForeignRun) -> Vec<(OpKind, u64, u64)> {
        let ops = run.figures.workloads.iter().flat_map(|w| &w.ops);
        ops.map(|(op, it)| (*op, it.count, it.errors)).collect()
    }

    const TEXT: &str = "[OVERALL], RunTime(ms), 59\n[TOTAL_GCs], Count, -1\n[READ], Operations, 4130\n\
        [READ], MinLatency(us), 0\n[READ], MaxLatency(us), 1007\n[READ], 99thPercentileLatency(us), 7\n\
        [READ-NOT_FOUND], Operations, 471\n[READ-FAILED], Operations, 162\n\
        [READ-MODIFY-WRITE], Operations, 5\n[READ-MODIFY-WRITE-ERROR], Operations, 2\n";

    #[test]
    fn failed_operations_have_the_name_of_their_error_or_none() {
        let run = read_as(read, TEXT).unwrap();
        assert_eq!(counts(&run), [(OpKind::Get, 4763, 633), (OpKind::Rmw, 7, 2)]);
        let both = TEXT.replace("[READ", "[HdrREAD") + &TEXT[27..].replace("[READ", "[BucketREAD");
        assert_eq!(counts(&read_as(read, &both).unwrap()), counts(&run));
    }

    /// Once operations beyond the last ms that is counted stood in it, and failed ones that have but a code counted as
    /// successes.
    #[test]
    fn what_lies_beyond_the_counts_ends_at_the_most_and_codes_tell_failures() {
        let text = "[OVERALL], RunTime(ms), 9000\n[READ], Operations, 10\n[READ], AverageLatency(us), 480000.0\n\
            [READ], LatencyVariance(us), 9.0\n[READ], MinLatency(us), 200\n[READ], MaxLatency(us), 4700000\n\
            [READ], 95thPercentileLatency(ms), 1\n[READ], Return=0, 8\n[READ], Return=-1, 2\n\
            [READ], 0, 7\n[READ], 1, 2\n[READ], >2, 1\n";
        let latency = |text: &str| {
            let run = read_as(read, text).unwrap();
            assert_eq!(counts(&run), [(OpKind::Get, 10, 2)]);
            run.figures.workloads[0].ops[&OpKind::Get].latency.clone()
        };
        let bins = latency(text).bins;
        let edges: Vec<_> = bins.iter().map(|bin| (bin.lo_ns, bin.hi_ns, bin.count)).collect();
        assert_eq!(
            edges,
            [(0, 999_999, 7), (1_000_000, 1_999_999, 2), (2_000_000, 4_700_000_000, 1)]
        );
        let (plain, _) = text.split_once("[READ], 0, 7").unwrap();
        let given = latency(plain).percentiles;
        assert_eq!((given.len(), given[0].p.as_str(), given[0].ns), (1, "95", 1_000_000));
        let named = format!("{plain}[READ-FAILED], Operations, 3\n");
        assert_eq!(counts(&read_as(read, &named).unwrap()), [(OpKind::Get, 13, 3)]);
    }

    /// Once the slowest of counts without a maximum took 146 years.
    #[test]
    fn what_lies_beyond_the_counts_has_no_end_where_the_most_is_not_told() {
        let text = "[OVERALL], RunTime(ms), 9000\n[READ], Operations, 10\n[READ], AverageLatency(us), 480000.0\n\
            [READ], MinLatency(us), 200\n[READ], >2, 1\n[READ], 1, 2\n[READ], 0, 7\n";
        let run = read_as(read, text).unwrap();
        let it = &run.figures.workloads[0].ops[&OpKind::Get].latency;
        let least: Vec<u64> = it.bins.iter().map(|bin| bin.lo_ns).collect();
        assert_eq!((least, it.max_ns), (vec![0, 1_000_000, 2_000_000], None));
        assert!(it.bins[2].range().is_open() && !it.bins[1].range().is_open());
    }

    #[test]
    fn what_is_held_of_a_file_has_an_end() {
        let mut text = format!("READ{RAW}\n");
        for i in 0..=MOST_NAMES {
            text.push_str(&format!("READ-E{i},1700000000123,456\n"));
        }
        let error = read_as(read_raw, &text).err().expect("refused");
        assert!(error.contains("too many names"), "{error}");
        let long = format!("{}{RAW}\n", "x".repeat(LONGEST_NAME + 1));
        let error = read_as(read_raw, &long).err().expect("refused");
        assert!(error.contains("too long"), "{error}");
        let pad = "x".repeat(4 << 20);
        let text: String = (0..17).map(|i| format!("[READ], {pad}{i}, 1\n")).collect();
        let error = read_as(read, &text).err().expect("refused");
        assert!(error.contains("too many measurements"), "{error}");
    }

    #[test]
    fn an_array_is_read_however_it_is_printed() {
        let rows =
            [("OVERALL", "RunTime(ms)", 59), ("READ", "Operations", 41)].map(|(m, of, n)| {
                format!("{{\"metric\":\"{m}\",\"measurement\":\"{of}\",\"value\":{n}}}")
            });
        for (open, close) in [("[", "]"), ("[\n", "\n]"), ("[ ", " ]")] {
            let text = format!("{open}{},\n{}{close}\n", rows[0], rows[1]);
            assert_eq!(counts(&read_as(read, &text).unwrap()), [(OpKind::Get, 41, 0)], "{text}");
        }
    }

    #[test]
    fn what_is_below_zero_or_cut_short_is_refused() {
        for (from, to, words) in [
            ("(us), 7", "(us), -7", "below zero (path: a.txt, line: 6"),
            ("Operations, 471", "Operations, -471", "below zero"),
            ("(ms), 59", "(ms), 0", "took no time"),
            ("(ms), 59", "(ms), -59", "took no time"),
            ("-ERROR], Operations, 2\n", "-ERR", "cut short"),
            ("(us), 1007", "(us), 3", "not between the least"),
        ] {
            let error = read_as(read, &TEXT.replace(from, to)).err().expect("refused");
            assert!(error.contains(words), "{to}: {error}");
        }
    }

    #[test]
    fn raw_rows_of_both_begins_count_once_and_damaged_names_do_not_vanish() {
        let rows =
            |name: &str| format!("{name}{RAW}\n{name},1700000000123,456\n{name},1700000000124,9\n");
        let both =
            [rows("READ"), rows("Intended-READ"), rows("Intended-READ-NOT_FOUND"), rows("CLEANUP")];
        let run = read_as(read_raw, &both.concat()).unwrap();
        assert_eq!(counts(&run), [(OpKind::Get, 4, 2)]);
        assert!(run.manifest.origin.imported().unwrap().is_scheduled());
        let run = read_as(read_raw, &(rows("RawREAD") + &rows("RawREAD-ERROR"))).unwrap();
        assert_eq!(counts(&run), [(OpKind::Get, 4, 2)]);
        assert!(!run.manifest.origin.imported().unwrap().is_scheduled());
        let bad = rows("READ").replace("READ,1700000000124", "RXAD,1700000000124");
        let error = read_as(read_raw, &bad).err().expect("refused");
        assert!(error.contains("no operation of YCSB") && error.contains("line: 3"), "{error}");
    }
}
