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
const CAPPED_NS: u64 = 17_000_000_000;

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
}

#[derive(Deserialize)]
struct FioJob {
    jobname: String,
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
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct FioDirection {
    io_bytes: u64,
    bw_bytes: f64,
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
    #[serde(rename = "N")]
    count: u64,
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
    let Some((tool, version)) = written_by(&result.version) else {
        return Err(Error::corrupt("results of this version of fio are in other units")
            .with("path", file)
            .with("version", &result.version)
            .hint("results of fio 3 and later are read"));
    };
    let jobs = std::mem::take(&mut result.jobs);
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

/// A job that did anything; none else.
fn workload(
    name: String,
    job: &FioJob,
    global: &Options,
    spans: &mut Vec<&'static str>,
    notes: &mut Vec<String>,
) -> Option<ForeignWorkload> {
    let option = |key: &str| job.options.get(key).or_else(|| global.get(key));
    let number = |key: &str| option(key).and_then(|text| text.parse::<u32>().ok()).unwrap_or(1);
    let directions = [
        (OpKind::Read, &job.read),
        (OpKind::Write, &job.write),
        (OpKind::Trim, &job.trim),
        (OpKind::Fsync, &job.sync),
    ];
    let mut ops = BTreeMap::new();
    let longest = directions.iter().filter_map(|(_, d)| Some(d.as_ref()?.runtime)).max();
    for (kind, direction) in directions {
        let Some(direction) = direction.as_ref().filter(|d| d.total_ios > 0) else { continue };
        let (latency, what) = latency(direction);
        if !spans.contains(&what) {
            spans.push(what);
        }
        if latency.max_ns.is_some_and(|max| max > CAPPED_NS) {
            notes.push(format!("{name}: fio counts all from 17 s on in one bin"));
        }
        // Syncs have no time of their own: they came while the job's others did.
        let ms = if direction.runtime > 0 { direction.runtime } else { longest.unwrap_or(0) };
        let duration_ns = match ms {
            0 if direction.iops > 0.0 => (direction.total_ios as f64 / direction.iops * 1e9) as u64,
            ms => ms.saturating_mul(1_000_000),
        };
        let rate = || direction.total_ios as f64 * 1e3 / ms.max(1) as f64;
        ops.insert(
            kind,
            ImportedOp {
                count: direction.total_ios,
                errors: if kind == OpKind::Fsync {
                    0
                } else {
                    job.total_err.min(direction.total_ios)
                },
                bytes: direction.io_bytes,
                duration_ns,
                iops: if direction.iops > 0.0 { direction.iops } else { rate() },
                bytes_per_s: direction.bw_bytes,
                latency,
            },
        );
    }
    let largest = ops.values().max_by_key(|op: &&ImportedOp| op.bytes)?;
    let block = (largest.bytes / largest.count.max(1)).max(1);
    Some(ForeignWorkload {
        random: option("rw")
            .or_else(|| option("readwrite"))
            .is_some_and(|rw| rw.starts_with("rand")),
        workers: number("numjobs").max(1),
        depth: number("iodepth").max(1),
        block,
        figures: ImportedWorkload { name, group: job.groupid, ops },
    })
}

/// The whole latency where its percentiles are known, else that from issue to completion.
fn latency(direction: &FioDirection) -> (ImportedLatency, &'static str) {
    let known =
        |it: &&FioLatency| it.count > 0 && !(it.percentile.is_empty() && it.bins.is_empty());
    let (lat, clat) = (direction.lat_ns.as_ref(), direction.clat_ns.as_ref());
    let (it, what) = match (lat.filter(known), clat.filter(|c| c.count > 0)) {
        (Some(lat), _) => (lat.clone(), "from the start of submission to completion (lat)"),
        (None, Some(clat)) => {
            (clat.clone(), "from issue to completion (clat), submission left out")
        }
        (None, None) => {
            (lat.cloned().unwrap_or_default(), "from the start of submission to completion (lat)")
        }
    };
    let some = it.count > 0;
    let mut percentiles: Vec<ImportedPercentile> =
        it.percentile.iter().map(|(p, ns)| ImportedPercentile { p: short(p), ns: *ns }).collect();
    let order = |p: &ImportedPercentile| p.p.parse::<f64>().unwrap_or(0.0);
    percentiles.sort_by(|a, b| order(a).total_cmp(&order(b)));
    // Nine nines and more are printed as 100.000000, twice.
    percentiles.retain(|p| p.p != "100" && p.p != "0");
    let mut bins: Vec<ImportedBin> =
        it.bins.iter().filter_map(|(ns, count)| Some(bin(ns.parse().ok()?, *count))).collect();
    bins.retain(|bin| bin.count > 0);
    bins.sort_by_key(|bin| bin.lo_ns);
    if !bins.is_empty() {
        percentiles.clear();
    }
    let latency = ImportedLatency {
        count: it.count,
        min_ns: some.then_some(it.min),
        max_ns: some.then_some(it.max),
        mean_ns: some.then_some(it.mean),
        stddev_ns: some.then_some(it.stddev),
        percentiles,
        bins,
    };
    (latency, what)
}

/// `99.900000` as `99.9`.
fn short(p: &str) -> String {
    match p.contains('.') {
        true => p.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => p.to_owned(),
    }
}

/// The bin of which fio prints the middle: 64 bins an octave, exact below 128 ns.
fn bin(middle: u64, count: u64) -> ImportedBin {
    if middle < 128 {
        return ImportedBin { lo_ns: middle, hi_ns: middle, count };
    }
    let width = 1u64 << (middle.ilog2() - 6);
    let lo_ns = middle & !(width - 1);
    ImportedBin { lo_ns, hi_ns: lo_ns + width - 1, count }
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
            assert_eq!(bin(v, 1).middle_ns(), v);
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
