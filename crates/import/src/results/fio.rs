//! fio's JSON: `--output-format=json` has percentiles, `json+` counts by bins as well. Before version 3 latencies are
//! in us and bytes in KiB.
//!
//! Source: fio 2.2.10, 2.17 and 3.33, `stat.c` (`add_ddir_status_json`, `plat_idx_to_val`) and HOWTO, "JSON+ output".

use std::collections::BTreeMap;

use serde::Deserialize;
use taillight_core::{Error, OpKind, Result};
use taillight_rundir::origin::{
    FailedJob, ImportedBin, ImportedLatency, ImportedOp, ImportedPercentile, ImportedWorkload,
};

use super::source::BOM;
use super::{
    ForeignResult, ForeignRun, ForeignWorkload, ResultSource, ResultUnit, block_of, name_of,
};

const VERSION: &str = "\"fio version\"";
/// Values from here on lie in fio's last bin, ns.
const CAPPED_NS: u64 = 17_045_651_456;

type Options = BTreeMap<String, String>;

#[derive(Deserialize)]
struct FioResult {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(default)]
    timestamp: i64,
    timestamp_ms: Option<i64>,
    #[serde(rename = "global options", default)]
    global: Options,
    #[serde(default)]
    jobs: Vec<FioJob>,
    /// In the place of jobs, of `fio --client`.
    #[serde(default)]
    client_stats: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    jobname: String,
    #[serde(default)]
    hostname: String,
    #[serde(default)]
    groupid: u32,
    #[serde(default)]
    error: i32,
    #[serde(default)]
    total_err: u64,
    /// Of the whole run, s, rounded up.
    elapsed: Option<u64>,
    /// ms since the epoch; not before fio 3.36.
    job_start: Option<u64>,
    #[serde(rename = "job options", default)]
    options: Options,
    read: Option<FioDirection>,
    write: Option<FioDirection>,
    trim: Option<FioDirection>,
    sync: Option<FioDirection>,
    /// Reads, writes and trims in one (`unified_rw_reporting`).
    mixed: Option<FioDirection>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FioDirection {
    /// KiB before `io_kbytes` came.
    io_bytes: u64,
    io_kbytes: Option<u64>,
    /// KiB/s.
    bw: f64,
    /// Not before fio 3.2.
    bw_bytes: Option<f64>,
    iops: f64,
    /// ms.
    runtime: u64,
    total_ios: u64,
    clat_ns: Option<FioLatency>,
    lat_ns: Option<FioLatency>,
    /// us, in their place before fio 3.
    clat: Option<FioLatency>,
    lat: Option<FioLatency>,
}

#[derive(Deserialize, Default, Clone)]
#[serde(default)]
struct FioLatency {
    min: u64,
    max: u64,
    mean: f64,
    stddev: f64,
    /// Not before fio 3.7.
    #[serde(rename = "N")]
    count: Option<u64>,
    percentile: BTreeMap<String, u64>,
    bins: BTreeMap<String, u64>,
    /// What its values are whole multiples of, where they were cut.
    #[serde(skip)]
    step_ns: Option<u64>,
}

pub fn looks_like(head: &str) -> bool {
    head.contains(VERSION)
}

/// The last result in a text: what fio and others print around it is left out, and with `--status-interval` each object
/// holds all before it.
pub fn read(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    source.says_unit(ResultUnit::Ns)?;
    let (text, file) = (source.text()?, source.file);
    let mut notes = Vec::new();
    let said = FioRead::of(&text, &mut notes).map_err(|e| e.with("path", file))?;
    let FioRead { result, jobs, tool, version } = said;
    // Without `group_reporting` each of several jobs has the name of its section, and its `numjobs`.
    let mut named: BTreeMap<String, u32> = BTreeMap::new();
    jobs.iter().for_each(|job| *named.entry(job.jobname.clone()).or_default() += 1);
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut spans: Vec<&'static str> = Vec::new();
    let (mut workloads, mut failed) = (Vec::new(), Vec::new());
    let groups = groups(&jobs, &mut notes);
    for (job, group) in jobs.iter().zip(groups) {
        let before = seen.entry(&job.jobname).or_default();
        *before += 1;
        let name = match *before {
            1 => job.jobname.clone(),
            n => format!("{}-{n}", job.jobname),
        };
        match (job.error, tool) {
            (0, _) => {}
            // With `continue_on_error` that of the first failed I/O, after which the job went on.
            (_, "fio") if job.total_err > 0 => {}
            (error, "fio") => {
                failed.push(FailedJob { job: name.clone(), errno: error.saturating_abs() });
            }
            // A run of ours goes on after an error.
            (error, _) => notes.push(format!("I/Os of job {name} failed (error {error})")),
        }
        let said = FioSaid { job, global: &result.global };
        let made = said.workloads(name, group, &mut spans, &mut notes);
        let made = made.map_err(|e| e.with("path", file).with("job", &job.jobname))?;
        let alone = named[&job.jobname] == 1;
        workloads.extend(made.into_iter().map(|w| match alone {
            true => w,
            false => ForeignWorkload { workers: 1, ..w },
        }));
    }
    // Of one job its own options are the run's, too.
    let own = jobs.first().filter(|_| jobs.len() == 1).map(|job| &job.options);
    let first = |key: &str| own.and_then(|o| o.get(key)).or(result.global.get(key)).cloned();
    let bins = |w: &ForeignWorkload| w.figures.ops.values().all(|op| !op.latency.bins.is_empty());
    if workloads.len() > 1 && !workloads.iter().all(bins) {
        notes.push(
            "percentiles of several jobs do not add up: each job has its own (-v, and on the page); fio adds them with \
             group_reporting or --output-format=json+"
                .to_owned(),
        );
    }
    let mut environment = serde_json::Map::new();
    let options = serde_json::to_value(&result.global).unwrap_or_default();
    environment.insert("fio".to_owned(), options);
    let found = ForeignResult {
        tool,
        driver: "file",
        version: Some(version),
        spans: spans.join("; "),
        name: name_of(file),
        path: first("filename").or_else(|| first("directory")),
        direct: first("direct").map(|v| v != "0"),
        ended_ns: result.ended_ms().saturating_mul(1_000_000),
        workloads,
        environment,
        notes,
        failed,
        ..ForeignResult::default()
    };
    found.run(source)
}

/// The last result of a text, in the units of fio 3.
struct FioRead {
    result: FioResult,
    jobs: Vec<FioJob>,
    tool: &'static str,
    version: String,
}

impl FioRead {
    /// Errors: `Corrupt` for none, a damaged one, and one in units that are not known.
    fn of(text: &str, notes: &mut Vec<String>) -> Result<FioRead> {
        let mut result = last_result(text, notes)?;
        let mut jobs = jobs(&mut result);
        let version = |e: Error| e.with("version", &result.version);
        let (tool, number) = written_by(&result.version).ok_or_else(|| version(other_units()))?;
        let old = tool == "fio" && number.starts_with("2.");
        let mut bins = false;
        for job in &mut jobs {
            bins |= job.in_units(old).map_err(|e| version(e).with("job", &job.jobname))?;
        }
        if bins {
            notes.push("bins of fio 2 have numbers and no latencies: they are not read".to_owned());
        }
        let number = number.to_owned();
        Ok(FioRead { result, jobs, tool, version: number })
    }
}

fn other_units() -> Error {
    Error::corrupt("results of this version of fio are in other units")
        .hint("results of fio 2 and later are read, as it wrote them")
}

/// What `fio --client` calls the sum of its clients.
const ALL_CLIENTS: &str = "All clients";

/// The jobs of a result and those of each client; of several clients with the host in the name. What sums them up
/// counts where nothing else is there.
fn jobs(result: &mut FioResult) -> Vec<FioJob> {
    let (mut all, own) =
        (std::mem::take(&mut result.client_stats), std::mem::take(&mut result.jobs));
    if all.iter().any(|job| job.jobname != ALL_CLIENTS) {
        all.retain(|job| job.jobname != ALL_CLIENTS);
    }
    let first = all.first().map(|job| job.hostname.clone());
    if all.iter().any(|job| Some(&job.hostname) != first.as_ref()) {
        all.iter_mut().for_each(|job| job.jobname = format!("{}-{}", job.jobname, job.hostname));
    }
    own.into_iter().chain(all).collect()
}

/// The tool and its version; none for fio before 2 and for any other. Taillight writes the same format for dashboards.
fn written_by(version: &str) -> Option<(&'static str, &str)> {
    match version.split_once('-')? {
        ("taillight", version) => Some(("taillight", version)),
        ("fio", version) => {
            let major: u32 = version.split('.').next()?.parse().ok()?;
            (major >= 2).then_some(("fio", version))
        }
        _ => None,
    }
}

/// Errors: `Corrupt`, with the line of the text.
fn last_result(text: &str, notes: &mut Vec<String>) -> Result<FioResult> {
    let mut found: Option<FioResult> = None;
    for (at, _) in text.match_indices(VERSION) {
        // fio prints its version first.
        let begin = text[..at].trim_end();
        let Some(begin) = begin.ends_with('{').then(|| begin.len() - 1) else { continue };
        let mut all = serde_json::Deserializer::from_str(&text[begin..]).into_iter::<FioResult>();
        match all.next() {
            Some(Ok(result)) => {
                if found.as_ref().is_some_and(|before| result.is_another_than(before)) {
                    notes.push(OTHERS.to_owned());
                }
                found = Some(result);
            }
            Some(Err(e)) if e.is_eof() && found.is_some() => {
                notes.push(
                    "the last result in the file is cut short; the one before it counts".into(),
                );
            }
            Some(Err(e)) => return Err(damaged(text, begin, &e)),
            None => {}
        }
    }
    notes.dedup();
    let begins = || text.match_indices('{').map(|(at, _)| at).find(|at| starts_line(&text[..*at]));
    match (found, begins()) {
        (Some(found), _) => Ok(found),
        // Written anew by another program, with its names in another order.
        (None, Some(begin)) if text.contains(VERSION) => {
            let mut all =
                serde_json::Deserializer::from_str(&text[begin..]).into_iter::<FioResult>();
            match all.next() {
                Some(found) => found.map_err(|e| damaged(text, begin, &e)),
                None => Err(no_result()),
            }
        }
        (None, _) => Err(no_result()),
    }
}

/// Whether what comes after `before` begins a line.
fn starts_line(before: &str) -> bool {
    before.is_empty() || before == BOM || before.ends_with('\n')
}

fn no_result() -> Error {
    Error::corrupt("there is no result of fio in the file")
}

fn damaged(text: &str, begin: usize, e: &serde_json::Error) -> Error {
    let line = text[..begin].matches('\n').count() + e.line();
    let what = match e.is_eof() {
        true => "the result of fio is cut short",
        false => "the result of fio is damaged",
    };
    Error::corrupt(what)
        .with("line", line)
        .with("because", e)
        .hint("let fio end by itself and write with --output FILE")
}

const OTHERS: &str = "results of other runs are in the file before the last one, which counts: give each a file of its own";

impl FioResult {
    /// When the result was made, ms since the epoch.
    fn ended_ms(&self) -> i64 {
        self.timestamp_ms.unwrap_or(self.timestamp.saturating_mul(1000))
    }

    /// Whether this result is of another run than the one before it: with `--status-interval` the jobs are the same,
    /// their I/Os become more, and `elapsed` grows by the time between the results.
    fn is_another_than(&self, before: &FioResult) -> bool {
        let jobs = |it: &FioResult| -> Vec<(String, u64)> {
            let each = it.jobs.iter().chain(&it.client_stats);
            let ios = |job: &FioJob| job.all().fold(0, |n, d| u64::saturating_add(n, d.total_ios));
            each.map(|job| (job.jobname.clone(), ios(job))).collect()
        };
        let (now, then) = (jobs(self), jobs(before));
        let goes_on =
            |(now, then): (&(String, u64), &(String, u64))| now.0 == then.0 && now.1 >= then.1;
        if now.len() != then.len() || !now.iter().zip(&then).all(goes_on) {
            return true;
        }
        let took = |it: &FioResult| it.jobs.first().and_then(|job| job.elapsed);
        let (Some(now), Some(then)) = (took(self), took(before)) else { return false };
        // Seconds are rounded up.
        let passed = self.ended_ms().saturating_sub(before.ended_ms());
        let most = now.saturating_sub(then).saturating_add(1).saturating_mul(1000);
        now < then || passed > i64::try_from(most.saturating_add(200)).unwrap_or(i64::MAX)
    }
}

impl FioJob {
    fn all(&self) -> impl Iterator<Item = &FioDirection> {
        [&self.read, &self.write, &self.trim, &self.mixed].into_iter().flatten()
    }

    /// Puts what early versions tell into the units of later ones; whether that had bins. Errors: as
    /// [`FioDirection::in_units`].
    fn in_units(&mut self, old: bool) -> Result<bool> {
        let all =
            [&mut self.read, &mut self.write, &mut self.trim, &mut self.sync, &mut self.mixed];
        let mut bins = false;
        for direction in all.into_iter().flatten() {
            bins |= direction.in_units(old)?;
        }
        Ok(bins)
    }

    /// How long its longest direction took, ms.
    fn longest(&self) -> u64 {
        self.all().map(|d| d.runtime).max().unwrap_or(0)
    }
}

/// Which jobs ran at the same time, by number. Newer versions tell when each began. Of others the groups are known,
/// which `stonewall` makes, one after another, and `new_group`, of jobs side by side: what the run took tells which.
fn groups(jobs: &[FioJob], notes: &mut Vec<String>) -> Vec<u32> {
    if let Some(starts) =
        jobs.iter().map(|job| job.job_start.filter(|ms| *ms > 0)).collect::<Option<Vec<u64>>>()
    {
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by_key(|at| starts[*at]);
        let (mut of, mut group, mut end) = (vec![0; jobs.len()], 0, u64::MAX);
        for at in order {
            let ends = starts[at].saturating_add(jobs[at].longest());
            match starts[at] >= end {
                true => (group, end) = (group + 1, ends),
                false if end == u64::MAX => end = ends,
                false => end = end.max(ends),
            }
            of[at] = group;
        }
        return of;
    }
    let own = jobs.iter().map(|job| job.groupid).collect();
    let mut longest: BTreeMap<u32, u64> = BTreeMap::new();
    for job in jobs {
        let ms = longest.entry(job.groupid).or_default();
        *ms = (*ms).max(job.longest());
    }
    let all = longest.values().fold(0, |sum, ms| u64::saturating_add(sum, *ms));
    let Some(elapsed) = jobs.iter().filter_map(|job| job.elapsed).max() else { return own };
    if longest.len() > 1 && all > elapsed.saturating_mul(1000) {
        notes.push("groups of jobs ran at the same time (new_group), and count so".to_owned());
        return vec![0; jobs.len()];
    }
    let most = longest.values().max().copied().unwrap_or(0);
    if longest.len() > 1 && elapsed.saturating_sub(1).saturating_mul(1000) < most {
        notes.push(
            "groups of jobs count as one after another (stonewall): whether they were is not in the file".to_owned(),
        );
    }
    own
}

/// One job of a result, and the global options of all jobs.
struct FioSaid<'a> {
    job: &'a FioJob,
    global: &'a Options,
}

impl FioSaid<'_> {
    fn option(&self, key: &str) -> Option<&String> {
        self.job.options.get(key).or_else(|| self.global.get(key))
    }

    fn number(&self, key: &str) -> u32 {
        let given = self.option(key).and_then(|text| text.parse::<u32>().ok());
        given.unwrap_or(1).max(1)
    }

    /// Whether its reads came after its writes, to verify them.
    fn verifies(&self, rw: Option<&String>) -> bool {
        let is = |key, off: &str| self.option(key).is_some_and(|it| it != off);
        rw.is_some_and(|rw| rw.trim_start_matches("rand").split(':').next() == Some("write"))
            && is("verify", "0")
            && self.option("verify_backlog").is_none()
            && self.option("do_verify").is_none_or(|it| it != "0")
    }

    /// The job where it did anything, and behind it what it read to verify. Errors: `Corrupt` for figures that no job
    /// has.
    fn workloads(
        &self,
        name: String,
        group: u32,
        spans: &mut Vec<&'static str>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<ForeignWorkload>> {
        let rw = self.option("rw").or_else(|| self.option("readwrite"));
        let mut directions = directions(self.job, rw, notes);
        directions.retain(|(_, d)| d.total_ios > 0);
        let longest = directions.iter().map(|(_, d)| d.runtime).max().unwrap_or(0);
        let (workers, depth) = (self.number("numjobs"), self.number("iodepth"));
        let errors = self.job.total_err;
        let (failed, guess) = match errors {
            0 if self.job.error != 0 => ending(workers, &directions),
            _ => failed(errors, &directions),
        };
        if let Some(most) = guess {
            let errors: u64 = failed.values().sum();
            notes.push(format!(
                "{name}: of which direction the {errors} failed I/Os were is not in the file: they stand as {}s",
                most.name()
            ));
        }
        let mut ops = BTreeMap::new();
        for (kind, direction) in directions {
            let (latency, what) = latency(kind, direction)?;
            if !spans.contains(&what) {
                spans.push(what);
            }
            if latency.max_ns.is_some_and(|max| max > CAPPED_NS) {
                notes.push(format!("{name}: fio counts all from 17 s on in one bin"));
            }
            // Those in flight when it begins to count end as one more each.
            let flying = u64::from(workers).saturating_mul(u64::from(depth));
            if latency.count > direction.total_ios.saturating_add(flying) {
                let e = Error::corrupt("there are more latencies than I/Os");
                return Err(e.with("latencies", latency.count).with("I/Os", direction.total_ios));
            }
            let errors = failed.get(&kind).copied().unwrap_or(0);
            ops.insert(kind, direction.imported(kind, errors, longest, latency)?);
        }
        let verified = match self.verifies(rw) && ops.len() > 1 {
            true => ops.remove(&OpKind::Read),
            false => None,
        };
        // Groups leave room for what comes behind them.
        let group = group.saturating_mul(2);
        let verified = verified.map(|it| {
            let ops = BTreeMap::from([(OpKind::Read, it)]);
            let name = format!("{name}-verify");
            (ImportedWorkload { name, group: group.saturating_add(1), ops }, false)
        });
        let random = rw.is_some_and(|rw| rw.starts_with("rand"));
        let job = (!ops.is_empty()).then_some((ImportedWorkload { name, group, ops }, random));
        let workload = |(figures, random): (ImportedWorkload, bool)| {
            let block = block_of(&figures.ops).max(1);
            ForeignWorkload { figures, random, workers, depth, block }
        };
        Ok(job.into_iter().chain(verified).map(workload).collect())
    }
}

/// I/Os that have no latency: they failed, or were in flight when the job ended. None where latencies were not counted.
fn without_latency(d: &FioDirection) -> Option<u64> {
    let counts = [&d.clat_ns, &d.lat_ns].into_iter().flatten().filter_map(|it| it.count);
    d.total_ios.checked_sub(counts.max()?)
}

/// The I/Os that ended a job's workers: fio counts failures only where a job goes on after them
/// (`continue_on_error`). At most one for each worker, as others may have been in flight: where several directions lack
/// latencies, they stand as those of the direction with the most I/Os, which comes as well then.
fn ending(
    workers: u32,
    directions: &[(OpKind, &FioDirection)],
) -> (BTreeMap<OpKind, u64>, Option<OpKind>) {
    let of = || directions.iter().filter(|(op, _)| *op != OpKind::Fsync);
    let most_of_one = u64::from(workers);
    let lacking = of().filter_map(|(op, d)| Some((*op, without_latency(d)?.min(most_of_one))));
    let lacking: BTreeMap<OpKind, u64> = lacking.filter(|(_, n)| *n > 0).collect();
    if lacking.len() < 2 {
        return (lacking, None);
    }
    let n = lacking.values().copied().max().unwrap_or(0);
    let most = of().max_by_key(|(_, d)| d.total_ios);
    let stand = most.map(|(op, d)| (*op, n.min(d.total_ios)));
    (stand.into_iter().collect(), most.map(|(op, _)| *op))
}

/// How many I/Os of each direction failed: fio adds them up, and one that failed has no latency. Where that does not
/// tell, they stand as those of the direction with the most I/Os, which comes as well then.
fn failed(
    total: u64,
    directions: &[(OpKind, &FioDirection)],
) -> (BTreeMap<OpKind, u64>, Option<OpKind>) {
    let of = || directions.iter().filter(|(op, _)| *op != OpKind::Fsync);
    let most = of().max_by_key(|(_, d)| d.total_ios);
    let as_most: BTreeMap<OpKind, u64> =
        most.map(|(op, d)| (*op, total.min(d.total_ios))).into_iter().collect();
    if total == 0 || of().count() == 1 {
        return (as_most, None);
    }
    let lacking = |(op, d): &(OpKind, &FioDirection)| Some((*op, without_latency(d)?));
    let lacking: Option<BTreeMap<OpKind, u64>> = of().map(lacking).collect();
    let sum =
        |of: &BTreeMap<OpKind, u64>| of.values().fold(0, |sum, n| u64::saturating_add(sum, *n));
    match lacking.filter(|of| sum(of) == total) {
        Some(each) => (each, None),
        None => (as_most, Some(most.map_or(OpKind::Read, |(op, _)| *op))),
    }
}

/// What a job tells by direction. One for all of them stands as what the job was asked for, else as reads.
fn directions<'a>(
    job: &'a FioJob,
    rw: Option<&String>,
    notes: &mut Vec<String>,
) -> Vec<(OpKind, &'a FioDirection)> {
    let told = [
        (OpKind::Read, &job.read),
        (OpKind::Write, &job.write),
        (OpKind::Trim, &job.trim),
        (OpKind::Fsync, &job.sync),
    ];
    let told: Vec<_> = told.into_iter().filter_map(|(op, d)| Some((op, d.as_ref()?))).collect();
    let none = told.iter().all(|(op, d)| *op == OpKind::Fsync || d.total_ios == 0);
    let Some(mixed) = job.mixed.as_ref().filter(|d| none && d.total_ios > 0) else { return told };
    let op = match rw.map(|rw| rw.trim_start_matches("rand")) {
        Some("write") => OpKind::Write,
        Some("trim") => OpKind::Trim,
        Some("read") => OpKind::Read,
        _ => {
            let name = &job.jobname;
            notes.push(format!(
                "{name}: reads and writes are counted together (unified_rw_reporting), and stand as reads"
            ));
            OpKind::Read
        }
    };
    told.into_iter().filter(|(op, _)| *op == OpKind::Fsync).chain([(op, mixed)]).collect()
}

impl FioDirection {
    /// Of a version before 3 (`old`): latencies to ns, and bytes. Errors: `Corrupt` for one that has both units, or no
    /// count.
    fn in_units(&mut self, old: bool) -> Result<bool> {
        // KiB a second for so many ms: as many bytes, or as many KiB.
        let moved = self.bw * 1.024 * self.runtime as f64;
        let told = self.io_kbytes.is_some() || self.bw_bytes.is_some();
        if old || (!told && moved > 32.0 * self.io_bytes as f64) {
            self.io_bytes = self.io_bytes.saturating_mul(1024);
        }
        if !old {
            return Ok(false);
        }
        if self.clat_ns.is_some() || self.lat_ns.is_some() {
            return Err(other_units());
        }
        if self.total_ios == 0 && self.io_bytes > 0 {
            return Err(Error::corrupt("how many I/Os there were is not in it")
                .hint("fio 2.2 and later tell it"));
        }
        let both = [&self.clat, &self.lat];
        let bins = both.into_iter().flatten().any(|it| !it.bins.is_empty());
        self.clat_ns = self.clat.take().map(FioLatency::in_ns).transpose()?;
        self.lat_ns = self.lat.take().map(FioLatency::in_ns).transpose()?;
        Ok(bins)
    }

    /// `longest` is the job's, ms: syncs have no time of their own, they came while the job's others did. Errors:
    /// `Corrupt` for a rate below zero.
    fn imported(
        &self,
        op: OpKind,
        errors: u64,
        longest: u64,
        latency: ImportedLatency,
    ) -> Result<ImportedOp> {
        let ms = if self.runtime > 0 { self.runtime } else { longest };
        let duration_ns = match ms {
            0 if self.iops > 0.0 => (self.total_ios as f64 / self.iops * 1e9) as u64,
            ms => ms.saturating_mul(1_000_000),
        };
        let bytes_per_s = self.bw_bytes.unwrap_or(self.bw * 1024.0);
        if self.iops < 0.0 || bytes_per_s < 0.0 {
            return Err(Error::corrupt("a rate of fio's below zero"));
        }
        // Of syncs fio tells no rate. Where it tells none of others, all failed, or took less than a millisecond.
        let iops = match (op, ms) {
            (OpKind::Fsync, 1..) if self.iops == 0.0 => self.total_ios as f64 * 1e3 / ms as f64,
            _ => self.iops,
        };
        Ok(ImportedOp {
            count: self.total_ios,
            errors,
            bytes: self.io_bytes,
            duration_ns,
            iops,
            bytes_per_s,
            latency,
        })
    }
}

const LAT: &str = "from the start of submission to completion (lat)";
const CLAT: &str = "from issue to completion (clat), submission left out";
const SYNC: &str = "of a sync the whole call";
const NOT_TAKEN: &str = "not in it";

/// The whole latency where its percentiles are known, else that from issue to completion. Errors: `Corrupt` for
/// figures that do not belong together.
fn latency(op: OpKind, direction: &FioDirection) -> Result<(ImportedLatency, &'static str)> {
    let taken = |it: &&FioLatency| it.count.is_some_and(|n| n > 0) || it.max > 0;
    let known = |it: &&FioLatency| !(it.percentile.is_empty() && it.bins.is_empty());
    let lat = direction.lat_ns.as_ref().filter(taken);
    let clat = direction.clat_ns.as_ref().filter(taken);
    let (it, what) = match (lat.filter(known), clat, lat) {
        (Some(lat), _, _) | (None, None, Some(lat)) => (lat, LAT),
        (None, Some(clat), _) => (clat, CLAT),
        (None, None, None) => return Ok((ImportedLatency::default(), NOT_TAKEN)),
    };
    let what = if op == OpKind::Fsync { SYNC } else { what };
    Ok((it.imported(direction.total_ios)?, what))
}

impl FioLatency {
    /// From us, without bins, which early versions number. Errors: `Corrupt` for one beyond any run.
    fn in_ns(self) -> Result<FioLatency> {
        let far = || Error::corrupt("a latency that no run has");
        let ns = |us: u64| us.checked_mul(1_000).ok_or_else(far);
        let percentile = self.percentile.into_iter().map(|(p, us)| ns(us).map(|ns| (p, ns)));
        Ok(FioLatency {
            min: ns(self.min)?,
            max: ns(self.max)?,
            mean: self.mean * 1e3,
            stddev: self.stddev * 1e3,
            count: self.count,
            percentile: percentile.collect::<Result<_>>()?,
            bins: BTreeMap::new(),
            step_ns: Some(1_000),
        })
    }

    /// `ios`: those of the direction, which fio does not repeat in early versions.
    fn imported(&self, ios: u64) -> Result<ImportedLatency> {
        let wrong = |what: &str| Err(Error::corrupt(what).with("count", self.count.unwrap_or(ios)));
        if self.mean < 0.0 || self.stddev < 0.0 || self.min > self.max {
            return wrong("latencies of fio below zero, or a least one above the most");
        }
        let mut percentiles: Vec<ImportedPercentile> = self
            .percentile
            .iter()
            .map(|(p, ns)| ImportedPercentile { p: short(p), ns: *ns })
            .collect();
        // Nine nines and more are printed as 100.000000, twice; early versions fill up with 0.00.
        percentiles.retain(|p| p.p != "100" && p.p != "0");
        let bins: Option<Vec<ImportedBin>> =
            self.bins.iter().map(|(ns, count)| Some(bin(ns.parse().ok()?, *count))).collect();
        let Some(bins) = bins else { return wrong("a bin of fio that is no number") };
        let counted = ImportedLatency::from_bins(bins);
        let count = self.count.unwrap_or(ios);
        if !counted.bins.is_empty() {
            percentiles.clear();
            if counted.count != count {
                return wrong("the bins of fio do not add up to the count");
            }
        }
        let latency = ImportedLatency {
            count,
            min_ns: Some(self.min),
            max_ns: Some(self.max),
            mean_ns: Some(self.mean),
            stddev_ns: Some(self.stddev),
            percentiles,
            bins: counted.bins,
            step_ns: self.step_ns,
        };
        Ok(latency.within_extremes())
    }
}

/// `99.900000` as `99.9`.
fn short(p: &str) -> String {
    match p.contains('.') {
        true => p.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => p.to_owned(),
    }
}

/// The bin of which fio prints the middle: 64 bins an octave, exact below 128 ns. The last has all beyond.
fn bin(middle: u64, count: u64) -> ImportedBin {
    if middle < 128 {
        return ImportedBin { lo_ns: middle, hi_ns: middle, count };
    }
    let width = 1u64 << (middle.ilog2() - 6);
    let lo_ns = middle & !(width - 1);
    let hi_ns = if middle > CAPPED_NS { u64::MAX } else { lo_ns + (width - 1) };
    ImportedBin { lo_ns, hi_ns, count }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, file: &str) -> Result<ForeignRun> {
        super::read(&mut ResultSource::new(file, String::new(), Box::new(text.as_bytes())))
    }

    const JOB: &str = r#"{"fio version":"fio-3.33","timestamp":1700000000,"timestamp_ms":1700000000123,
        "jobs":[{"jobname":"a","error":0,"job options":{"rw":"randread","iodepth":"4"},
        "read":{"io_bytes":8192,"bw_bytes":8192,"iops":2.0,"runtime":1000,"total_ios":2,
        "clat_ns":{"min":100,"max":203,"mean":150.5,"stddev":1.0,"N":2,
        "percentile":{"50.000000":100,"99.900000":201},"bins":{"100":1,"201":1}}}}]}"#;

    #[test]
    fn a_middle_has_its_bin() {
        let edges = |v| (bin(v, 1).lo_ns, bin(v, 1).hi_ns);
        assert_eq!(
            [edges(100), edges(137), edges(201), edges(87_552)],
            [(100, 100), (136, 137), (200, 201), (87_040, 88_063)]
        );
        for v in [137, 201, 87_552] {
            assert_eq!(bin(v, 1).range().middle_ns(), v);
        }
    }

    /// fio 3.1 repeats no count beside latencies and has its bandwidth in KiB/s alone; once its percentiles were lost.
    #[test]
    fn early_versions_are_read_with_what_they_have() {
        let early = JOB.replace("\"N\":2,", "").replace("\"bw_bytes\":8192", "\"bw\":8");
        let early =
            early.replace(",\"bins\":{\"100\":1,\"201\":1}", "").replace("fio-3.33", "fio-3.1");
        let early = early.replace("\"99.900000\":201", "\"99.900000\":201,\"0.00\":0,\"0.00\":0");
        let run = read(&early, "a.json").unwrap();
        let op = &run.figures.workloads[0].ops[&OpKind::Read];
        assert_eq!((op.latency.count, op.bytes_per_s), (2, 8192.0));
        let given: Vec<u64> = op.latency.percentiles.iter().map(|p| p.ns).collect();
        assert_eq!(given, [100, 201]);
    }

    /// us and KiB, and no count beside latencies.
    #[test]
    fn results_of_fio_2_are_read_in_their_units() {
        let old = r#"{"fio version":"fio-2.2.10","timestamp":1444144664,"jobs":[{"jobname":"a","error":0,"elapsed":26,
            "read":{"io_bytes":7116,"bw":275,"iops":68.99,"runtime":25788,"total_ios":1779,
            "slat":{"min":0,"max":0,"mean":0.0,"stddev":0.0},"clat":{"min":53,"max":6329,"mean":500.5,"stddev":9.0,
            "percentile":{"50.000000":480,"99.000000":5024,"0.00":0}},"lat":{"min":54,"max":6330,"mean":501.5,"stddev":9.0}}}]}"#;
        let run = read_text(old);
        let op = &run.figures.workloads[0].ops[&OpKind::Read];
        assert_eq!((op.count, op.bytes, op.bytes_per_s), (1779, 7116 * 1024, 275.0 * 1024.0));
        let it = &op.latency;
        assert_eq!(
            (it.min_ns, it.max_ns, it.mean_ns),
            (Some(53_000), Some(6_329_000), Some(500_500.0))
        );
        let given: Vec<_> = it.percentiles.iter().map(|p| (p.p.as_str(), p.ns)).collect();
        assert_eq!((given, it.step_ns), (vec![("50", 480_000), ("99", 5_024_000)], Some(1_000)));
        let bins = old.replace(
            "\"stddev\":9.0,",
            "\"stddev\":9.0,\"bins\":{\"FIO_IO_U_PLAT_BITS\":6,\"3\":9},",
        );
        let run = read_text(&bins);
        assert!(run.notes.iter().any(|note| note.contains("bins of fio 2")), "{:?}", run.notes);
        for (whole, bad, words) in [
            ("\"total_ios\":1779,", "", "how many I/Os"),
            ("\"clat\"", "\"clat_ns\"", "in other units"),
            ("fio-2.2.10", "fio-1.58", "in other units"),
            ("\"bw\":275", "\"bw\":1", "a count that is not that of its rate"),
        ] {
            let error = read(&old.replace(whole, bad), "a").err().expect(words).to_string();
            assert!(error.contains(words), "{words}: {error}");
        }
    }

    /// Python's `json.dump(sort_keys=True)`.
    #[test]
    fn a_result_with_its_names_in_another_order_is_one() {
        let (version, rest) = JOB[1..].split_once(',').unwrap();
        let sorted = format!("{{{},{version}}}", rest.strip_suffix('}').unwrap());
        assert!(sorted.ends_with("\"fio-3.33\"}"), "{sorted}");
        assert_eq!(read_text(&sorted).figures, read_text(JOB).figures);
        let error = read(&sorted[..sorted.len() - 1], "a").err().unwrap().to_string();
        assert!(error.contains("cut short") && error.contains("line: 5"), "{error}");
    }

    #[test]
    fn the_sum_of_clients_is_no_client() {
        let job = JOB.split_once("\"jobs\":[").unwrap().1.trim_end_matches("]}");
        let of = |name: &str, host: &str| {
            let named = format!("\"jobname\":\"{name}\",\"hostname\":\"{host}\"");
            job.replace("\"jobname\":\"a\"", &named)
        };
        let with = |clients: &[String]| {
            let text = format!(
                "{{\"fio version\":\"fio-3.33\",\"client_stats\":[{}]}}",
                clients.join(",")
            );
            let run = read(&text, "a.json").unwrap_or_else(|e| panic!("{e}: {text}"));
            run.figures.workloads.iter().map(|w| w.name.clone()).collect::<Vec<_>>()
        };
        let (one, two, all) = (of("a", "x"), of("a", "y"), of(ALL_CLIENTS, "y"));
        assert_eq!(with(&[one.clone(), two, all.clone()]), ["a-x", "a-y"]);
        assert_eq!(with(&[one]), ["a"]);
        assert_eq!(with(&[all]), [ALL_CLIENTS]);
    }

    /// A job with `disable_clat` and `disable_lat` has submissions alone.
    #[test]
    fn submissions_are_never_the_latency() {
        let figures = |text: &str| read_text(text).figures.workloads[0].ops[&OpKind::Read].clone();
        let alone = figures(&JOB.replace("\"clat_ns\"", "\"slat_ns\""));
        assert_eq!(alone.latency, ImportedLatency::default());
        let slat = "\"slat_ns\":{\"min\":1,\"max\":1,\"mean\":1.0,\"N\":2,\"percentile\":{\"99.000000\":1}},";
        let both = JOB.replace("\"clat_ns\"", &format!("{slat}\"clat_ns\""));
        assert_eq!(figures(&both), figures(JOB));
    }

    #[test]
    fn bins_end_at_the_least_and_the_most_and_the_last_has_all_beyond() {
        let run = read(JOB, "a.json").unwrap();
        let bins = &run.figures.workloads[0].ops[&OpKind::Read].latency.bins;
        assert_eq!((bins[0].lo_ns, bins[1].hi_ns), (100, 201));
        let slow = JOB.replace("\"max\":203", "\"max\":40000000000");
        let slow = slow
            .replace("\"201\":1}}", "\"17112760320\":1}}")
            .replace("\"201\":1", "\"17112760320\":1");
        let run = read(&slow, "a.json").unwrap();
        let bins = &run.figures.workloads[0].ops[&OpKind::Read].latency.bins;
        assert_eq!((bins[1].lo_ns, bins[1].hi_ns), (CAPPED_NS, 40_000_000_000));
        for bad in [("\"201\":1}", "\"201\":2}"), ("\"min\":100", "\"min\":999")] {
            assert!(read(&JOB.replace(bad.0, bad.1), "a.json").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn text_around_a_result_and_earlier_ones_are_left_out() {
        let early = JOB.replace("\"total_ios\":2", "\"total_ios\":1");
        let text = format!("fio: {{ pages }} warning\n{early}\n{JOB}\nnote: after\n");
        assert!(looks_like(&text));
        let run = read(&text, "x/a b.json").unwrap();
        let op = &run.figures.workloads[0].ops[&OpKind::Read];
        assert_eq!((op.count, op.latency.bins.len(), op.latency.percentiles.len()), (2, 2, 0));
        assert_eq!(run.manifest.plan.run.name, "a-b");
        assert_eq!(run.manifest.plan.workloads[0].queue_depth, 4);
    }

    #[test]
    fn damage_is_told_with_its_line() {
        let cut = &JOB[..JOB.len() - 30];
        let error = read(cut, "a.json").err().unwrap().to_string();
        assert!(error.contains("cut short") && error.contains("line: 5"), "{error}");
        let wrong = JOB.replace("\"runtime\":1000", "\"runtime\":\"x\"");
        assert!(read(&wrong, "a.json").err().unwrap().to_string().contains("damaged"));
        let idle = JOB.replace("\"total_ios\":2", "\"total_ios\":0");
        assert!(read(&idle, "a.json").err().unwrap().to_string().contains("no operation"));
        assert!(read(&JOB.replace("fio-3.33", "fio-2.2"), "a").is_err());
        let own = read(&JOB.replace("fio-3.33", "taillight-0.1.0"), "a").unwrap().manifest;
        assert!(own.run_id.starts_with("taillight-"), "{}", own.run_id);
    }

    /// A direction of `n` I/Os, of which `kept` have a latency, in `ms`.
    fn direction(n: u64, kept: u64, ms: u64) -> String {
        let (iops, bytes) = (n as f64 * 1e3 / ms as f64, n * 4096);
        format!(
            "{{\"io_bytes\":{bytes},\"iops\":{iops},\"runtime\":{ms},\"total_ios\":{n},\"clat_ns\":{{\"min\":9,\"max\":99,\"mean\":50,\"N\":{kept}}}}}"
        )
    }

    fn job(name: &str, more: &str) -> String {
        format!("{{\"jobname\":\"{name}\",{more}}}")
    }

    fn result(jobs: &[String]) -> String {
        let all = jobs.join(",");
        format!(
            "{{\"fio version\":\"fio-3.33\",\"timestamp_ms\":1700000000000,\"jobs\":[{all}]}}\n"
        )
    }

    /// As of `fio --filename=/dev/full --rw=rw`, of which writes alone fail.
    #[test]
    fn failed_ios_are_those_of_the_direction_that_lacks_latencies_or_of_none() {
        let errors = |total: u64, read: String, write: String| {
            let more = format!("\"total_err\":{total},\"read\":{read},\"write\":{write}");
            let run = read_text(&result(&[job("e", &more)]));
            let w = &run.figures.workloads[0];
            let of = |op| w.ops.get(&op).map_or(0, |it: &ImportedOp| it.errors);
            let untold = run.notes.iter().any(|note| note.contains("not in the file"));
            (of(OpKind::Read), of(OpKind::Write), untold)
        };
        let d = |n, kept| direction(n, kept, 1000);
        assert_eq!(errors(528, d(496, 496), d(528, 0)), (0, 528, false));
        assert_eq!(errors(7, d(2007, 2000), d(2000, 2000)), (7, 0, false));
        assert_eq!(errors(7, d(2000, 2000), d(2000, 2000)), (0, 7, true));
        assert_eq!(errors(7, "{}".into(), d(2000, 1990)), (0, 7, false));
        // The first failed I/O ends a job that does not go on after errors, and is counted nowhere.
        let write = direction(2, 1, 0).replace("inf", "0.0");
        let more = format!("\"error\":28,\"total_err\":0,\"write\":{write}");
        let text = result(&[job("e", &more)]);
        let run = read_text(&text);
        let op = &run.figures.workloads[0].ops[&OpKind::Write];
        assert_eq!((op.errors, op.count, op.iops), (1, 2, 0.0), "{text}");
        let failed = |run: &ForeignRun| {
            run.manifest.origin.imported().map_or_else(Vec::new, |source| source.failed.clone())
        };
        assert_eq!(failed(&run), [FailedJob { job: "e".to_owned(), errno: 28 }]);
        assert!(failed(&read_text(JOB)).is_empty());
        let counted = format!("\"error\":28,\"total_err\":7,\"read\":{}", d(2007, 2000));
        let went_on = read_text(&result(&[job("e", &counted)]));
        assert_eq!(
            (failed(&went_on), went_on.figures.workloads[0].ops[&OpKind::Read].errors),
            (vec![], 7)
        );
        // Of a run of ours the error says that I/Os failed: it goes on after them.
        let own = read_text(&text.replace("fio-3.33", "taillight-0.1.0"));
        assert!(failed(&own).is_empty() && !own.notes.is_empty(), "{:?}", own.notes);
        let nothing = result(&[job("e", "\"error\":2")]);
        let error = read(&nothing, "a").err().expect("refused").to_string();
        assert!(error.contains("no operation") && error.contains("errno 2"), "{error}");
        // Others were in flight when it did.
        let more = format!("\"error\":28,\"read\":{},\"write\":{}", d(20, 17), d(40, 39));
        let run = read_text(&result(&[job("e", &more)]));
        let ops = &run.figures.workloads[0].ops;
        assert_eq!((ops[&OpKind::Read].errors, ops[&OpKind::Write].errors), (0, 1));
        assert!(run.notes.iter().any(|note| note.contains("the 1 failed")), "{:?}", run.notes);
        let more = format!("\"read\":{}", d(10, 12));
        let error = read(&result(&[job("e", &more)]), "a").err().expect("refused").to_string();
        assert!(error.contains("more latencies than I/Os"), "{error}");
    }

    fn read_text(text: &str) -> ForeignRun {
        read(text, "a.json").unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    /// fio 3.33 prints neither `stonewall` nor `new_group` among the options of a job.
    #[test]
    fn groups_are_one_after_another_where_the_run_took_as_long() {
        let groups = |each: [&str; 2]| {
            let of = |(at, more): (usize, &str)| {
                job(
                    &format!("j{at}"),
                    &format!("\"groupid\":{at},\"read\":{},{more}", direction(1000, 1000, 1001)),
                )
            };
            let jobs: Vec<String> = each.into_iter().enumerate().map(of).collect();
            let run = read_text(&result(&jobs));
            let groups: Vec<u32> = run.figures.workloads.iter().map(|w| w.group).collect();
            (groups[1] > groups[0], run.notes.iter().any(|note| note.contains("not in the file")))
        };
        assert_eq!(groups(["\"elapsed\":3"; 2]), (true, false));
        assert_eq!(groups(["\"elapsed\":2"; 2]), (false, false));
        let (early, late) = ("\"job_start\":1700000000000", "\"job_start\":1700000001002");
        assert_eq!((groups([early, late]).0, groups([early, early]).0), (true, false));
        let short = direction(9, 9, 10);
        let of = |at: u32| job("s", &format!("\"groupid\":{at},\"elapsed\":1,\"read\":{short}"));
        let run = read_text(&result(&[of(0), of(1)]));
        assert!(run.notes.iter().any(|note| note.contains("whether they were")), "{:?}", run.notes);
    }

    #[test]
    fn reads_that_verify_come_after_the_writes() {
        let of = |option: &str| {
            let options = format!("\"job options\":{{\"rw\":\"randwrite\",{option}}}");
            let (read, write) = (direction(256, 256, 1), direction(256, 256, 2));
            let text = result(&[job("v", &format!("{options},\"read\":{read},\"write\":{write}"))]);
            let all = read_text(&text).figures.workloads;
            all.iter().map(|w| (w.name.clone(), w.group, w.ops.len())).collect::<Vec<_>>()
        };
        let apart = [("v".to_owned(), 0, 1), ("v-verify".to_owned(), 1, 1)];
        assert_eq!(of("\"verify\":\"crc32c\""), apart);
        for together in ["\"verify\":\"0\"", "\"verify\":\"md5\",\"verify_backlog\":\"8\""] {
            assert_eq!(of(together), [("v".to_owned(), 0, 2)], "{together}");
        }
    }

    #[test]
    fn results_of_several_runs_in_one_file_are_told_and_intervals_of_one_are_not() {
        let at = |ms: u64, name: &str, n: u64, elapsed: u64| {
            let more = format!("\"elapsed\":{elapsed},\"read\":{}", direction(n, n, 1000));
            result(&[job(name, &more)]).replace("1700000000000", &format!("170000000{ms}"))
        };
        let told = |first: String, then: String| {
            let notes = read_text(&(first + &then)).notes;
            notes.iter().any(|note| note.contains("results of other runs"))
        };
        assert!(!told(at(7350, "a", 450, 1), at(8352, "a", 951, 3)));
        assert!(!told(at(7350, "a", 450, 1), at(8450, "a", 951, 2)));
        assert!(told(at(1000, "a", 450, 1), at(8352, "a", 951, 3)), "long after");
        assert!(told(at(7350, "a", 450, 1), at(7950, "b", 951, 3)), "another job");
        assert!(told(at(7350, "a", 950, 1), at(7950, "a", 451, 1)), "fewer I/Os");
        // Numbers that no sum holds.
        assert!(!told(at(7350, "a", 450, 0), at(7950, "a", 951, u64::MAX)));
        let most = format!("\"total_ios\":{}", u64::MAX);
        let far = direction(1, 1, 1000).replace("\"total_ios\":1", &most);
        let far = result(&[job("a", &format!("\"read\":{far},\"write\":{far}"))]);
        assert!(read(&far.repeat(2), "a.json").is_err());
    }
}
