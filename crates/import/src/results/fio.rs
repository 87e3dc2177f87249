//! fio's JSON: `--output-format=json` has percentiles, `json+` counts by bins as well.
//!
//! Source: fio 3.33, `stat.c` (`add_ddir_status_json`, `plat_idx_to_val`) and HOWTO, "JSON+ output".

use std::collections::BTreeMap;

use serde::Deserialize;
use taillight_core::{Error, OpKind, Result};
use taillight_rundir::origin::{
    ImportedBin, ImportedLatency, ImportedOp, ImportedPercentile, ImportedWorkload,
};

use super::{ForeignResult, ForeignRun, ForeignWorkload, ResultSource, ResultUnit, name_of};

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
    #[serde(rename = "job options", default)]
    options: Options,
    read: Option<FioDirection>,
    write: Option<FioDirection>,
    trim: Option<FioDirection>,
    sync: Option<FioDirection>,
    /// All of them in one (`unified_rw_reporting`).
    mixed: Option<FioDirection>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FioDirection {
    io_bytes: u64,
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
    let mut result = last_result(&text, &mut notes).map_err(|e| e.with("path", file))?;
    let jobs = jobs(&mut result);
    let Some((tool, version)) = written_by(&result.version) else {
        return Err(Error::corrupt("results of this version of fio are in other units")
            .with("path", file)
            .with("version", &result.version)
            .hint("results of fio 3 and later are read"));
    };
    // Without `group_reporting` each of several jobs has the name of its section, and its `numjobs`.
    let mut named: BTreeMap<String, u32> = BTreeMap::new();
    jobs.iter().for_each(|job| *named.entry(job.jobname.clone()).or_default() += 1);
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    let mut spans: Vec<&'static str> = Vec::new();
    let mut workloads = Vec::new();
    for job in &jobs {
        if job.error != 0 {
            notes.push(format!("job {} ended with error {}", job.jobname, job.error));
        }
        let before = seen.entry(&job.jobname).or_default();
        *before += 1;
        let name = match *before {
            1 => job.jobname.clone(),
            n => format!("{}-{n}", job.jobname),
        };
        let made = workload(name, job, &result.global, &mut spans, &mut notes);
        let made = made.map_err(|e| e.with("path", file).with("job", &job.jobname))?;
        let alone = named[&job.jobname] == 1;
        workloads.extend(made.map(|w| match alone {
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
    let ended_ms = result.timestamp_ms.unwrap_or(result.timestamp.saturating_mul(1000));
    let mut environment = serde_json::Map::new();
    let options = serde_json::to_value(&result.global).unwrap_or_default();
    environment.insert("fio".to_owned(), options);
    let found = ForeignResult {
        tool,
        driver: "file",
        version: Some(version.to_owned()),
        spans: spans.join("; "),
        name: name_of(file),
        path: first("filename").or_else(|| first("directory")),
        direct: first("direct").map(|v| v != "0"),
        ended_ns: ended_ms.saturating_mul(1_000_000),
        workloads,
        environment,
        notes,
        ..ForeignResult::default()
    };
    found.run(source)
}

/// What `fio --client` calls the sum of its clients.
const ALL_CLIENTS: &str = "All clients";

/// The jobs of a result, or those of each client; of several clients with the host in the name.
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

/// The tool and its version; none for fio before 3. Taillight writes the same format for dashboards.
fn written_by(version: &str) -> Option<(&'static str, &str)> {
    match version.split_once('-')? {
        ("taillight", version) => Some(("taillight", version)),
        ("fio", version) => {
            let major: u32 = version.split('.').next()?.parse().ok()?;
            (major >= 3).then_some(("fio", version))
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
            Some(Ok(result)) => found = Some(result),
            Some(Err(e)) if e.is_eof() && found.is_some() => {
                notes.push(
                    "the last result in the file is cut short; the one before it counts".into(),
                );
            }
            Some(Err(e)) => return Err(damaged(text, begin, &e)),
            None => {}
        }
    }
    found.ok_or_else(|| Error::corrupt("there is no result of fio in the file"))
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

/// A job that did anything; none else. Errors: `Corrupt` for figures that no job has.
fn workload(
    name: String,
    job: &FioJob,
    global: &Options,
    spans: &mut Vec<&'static str>,
    notes: &mut Vec<String>,
) -> Result<Option<ForeignWorkload>> {
    let option = |key: &str| job.options.get(key).or_else(|| global.get(key));
    let number = |key: &str| option(key).and_then(|text| text.parse::<u32>().ok()).unwrap_or(1);
    let rw = option("rw").or_else(|| option("readwrite"));
    let directions = directions(job, rw, notes);
    let mut ops = BTreeMap::new();
    let longest = directions.iter().map(|(_, d)| d.runtime).max().unwrap_or(0);
    for (kind, direction) in directions.into_iter().filter(|(_, d)| d.total_ios > 0) {
        let (latency, what) = latency(kind, direction)?;
        if !spans.contains(&what) {
            spans.push(what);
        }
        if latency.max_ns.is_some_and(|max| max > CAPPED_NS) {
            notes.push(format!("{name}: fio counts all from 17 s on in one bin"));
        }
        let errors = job.total_err.min(direction.total_ios);
        let errors = if kind == OpKind::Fsync { 0 } else { errors };
        ops.insert(kind, direction.imported(errors, longest, latency)?);
    }
    let Some(largest) = ops.values().max_by_key(|op: &&ImportedOp| op.bytes) else {
        return Ok(None);
    };
    Ok(Some(ForeignWorkload {
        random: rw.is_some_and(|rw| rw.starts_with("rand")),
        workers: number("numjobs").max(1),
        depth: number("iodepth").max(1),
        block: (largest.bytes / largest.count.max(1)).max(1),
        figures: ImportedWorkload { name, group: job.groupid, ops },
    }))
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
    /// `longest` is the job's, ms: syncs have no time of their own, they came while the job's others did. Errors:
    /// `Corrupt` for a rate below zero.
    fn imported(&self, errors: u64, longest: u64, latency: ImportedLatency) -> Result<ImportedOp> {
        let ms = if self.runtime > 0 { self.runtime } else { longest };
        let duration_ns = match ms {
            0 if self.iops > 0.0 => (self.total_ios as f64 / self.iops * 1e9) as u64,
            ms => ms.saturating_mul(1_000_000),
        };
        let bytes_per_s = self.bw_bytes.unwrap_or(self.bw * 1024.0);
        if self.iops < 0.0 || bytes_per_s < 0.0 {
            return Err(Error::corrupt("a rate of fio's below zero"));
        }
        let rate = || self.total_ios as f64 * 1e3 / ms.max(1) as f64;
        Ok(ImportedOp {
            count: self.total_ios,
            errors,
            bytes: self.io_bytes,
            duration_ns,
            iops: if self.iops > 0.0 { self.iops } else { rate() },
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
        let order = |p: &ImportedPercentile| p.p.parse::<f64>().unwrap_or(0.0);
        percentiles.sort_by(|a, b| order(a).total_cmp(&order(b)));
        // Nine nines and more are printed as 100.000000, twice; early versions fill up with 0.00.
        percentiles.retain(|p| p.p != "100" && p.p != "0");
        if percentiles.windows(2).any(|two| two[0].ns > two[1].ns) {
            return wrong("percentiles of fio that do not ascend");
        }
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
            step_ns: None,
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

    /// fio 3.1 repeats no count beside latencies and has its bandwidth in KiB/s alone: its percentiles were lost.
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
}
