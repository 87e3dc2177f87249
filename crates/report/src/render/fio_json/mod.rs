//! Runs as fio's JSON (`fio --output-format=json`, version 3), for the dashboards that read it.
//!
//! A row of fio's `jobs` is a workload, or those that the plan reports as one; a group of fio is a run, unless the plan
//! names another. What fio samples or counts and Taillight does not is left out, so that nobody reads a figure that
//! nobody measured; `ABSENT` in the tests lists it.

mod disk_util;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use taillight_core::plan::{BlockSize, UnifiedRow, WorkloadPlan};
use taillight_core::{LatencyKind, OpKind};
use taillight_rundir::latency::Latency;
use taillight_rundir::summary::{Totals, WorkloadSummary};
use taillight_rundir::{Manifest, Summary};

pub use disk_util::DiskUse;

/// What fio calls a failed I/O: the error number EIO.
const EIO: u64 = 5;

/// What one run has of a row: a workload, or those that fio reports as one.
struct RowPart<'a> {
    row: Vec<(&'a WorkloadSummary, &'a WorkloadPlan)>,
    of: &'a Summary,
    /// All workloads of the run.
    all: &'a [WorkloadPlan],
}

/// One document for runs in order, and what their disks did. A run that goes on with the one before it adds to the rows
/// of that one.
pub fn fio_json<'a>(
    runs: impl IntoIterator<Item = (&'a Manifest, &'a Summary)>,
    disks: &DiskUse,
) -> Value {
    // Of each group its rows, of each row its passes.
    let mut groups: Vec<Vec<Vec<RowPart<'_>>>> = Vec::new();
    let mut began = None;
    for (manifest, summary) in runs {
        began = began.or(Some(manifest.clock.realtime_ns / 1_000_000));
        let parts = parts(manifest, summary);
        let before = groups.last_mut().filter(|rows| {
            let same = rows.iter().map(|row| row[0].name()).eq(parts.iter().map(RowPart::name));
            manifest.plan.run.continues && same
        });
        match before {
            Some(rows) => rows.iter_mut().zip(parts).for_each(|(row, part)| row.push(part)),
            None => groups.push(parts.into_iter().map(|part| vec![part]).collect()),
        }
    }
    let began = began.unwrap_or(0);
    let jobs = groups.iter().enumerate();
    let jobs = jobs.flat_map(|(group, rows)| rows.iter().map(move |passes| job(group, passes)));
    let jobs: Vec<Value> = jobs.collect();
    json!({
        "fio version": format!("taillight-{}", env!("CARGO_PKG_VERSION")),
        "timestamp": began / 1000,
        "timestamp_ms": began,
        "jobs": jobs,
        "disk_util": disks.to_json(),
    })
}

/// The rows of a run.
fn parts<'a>(manifest: &'a Manifest, of: &'a Summary) -> Vec<RowPart<'a>> {
    let all = manifest.plan.workloads.as_slice();
    let planned = |name: &str| all.iter().find(|w| w.name == name);
    let mut rows: Vec<RowPart<'_>> = Vec::new();
    for (done, plan) in of.workloads.iter().filter_map(|w| Some((w, planned(&w.name)?))) {
        let with = &plan.reported_with;
        let known = |row: &&mut RowPart<'_>| with.is_some() && row.row[0].1.reported_with == *with;
        match rows.iter_mut().find(known) {
            Some(row) => row.row.push((done, plan)),
            None => rows.push(RowPart { row: vec![(done, plan)], of, all }),
        }
    }
    rows
}

impl RowPart<'_> {
    /// What fio calls its row.
    fn name(&self) -> &str {
        name_of_row(self.row[0].1, self.all)
    }

    /// What was done, of each operation.
    fn ops(&self) -> BTreeMap<OpKind, Totals> {
        match self.row.as_slice() {
            [(one, _)] => one.ops.clone(),
            // Percentiles of all together are known of the whole run.
            row if row.len() == self.all.len() => self.of.ops.clone(),
            row => {
                let mut all = BTreeMap::new();
                let each = row.iter().flat_map(|(done, _)| &done.ops);
                each.for_each(|(op, one)| add(&mut all, *op, one, false));
                all
            }
        }
    }

    fn milliseconds(&self) -> u64 {
        let longest = self.row.iter().map(|(done, _)| done.totals.duration_ns).max();
        longest.unwrap_or(0) / 1_000_000
    }

    /// Bytes that were read to check the writes after the run: fio counts them as reads of the job. Where several rows
    /// write, a row has as many as it wrote if every block was written once; else 0, as nobody counted whose they were.
    fn checked(&self) -> u64 {
        let Some(verify) = self.of.verify.as_ref().filter(|v| v.pass.is_some()) else {
            return 0;
        };
        let bytes = verify.checked.saturating_mul(verify.block);
        // Of those that are verified.
        let unverified = |name: &str| self.all.iter().any(|w| w.name == name && w.unverified);
        let written = |done: &WorkloadSummary| match unverified(&done.name) {
            true => 0,
            false => done.ops.get(&OpKind::Write).map_or(0, |w| w.bytes),
        };
        let own = self.row.iter().map(|(done, _)| written(done)).sum::<u64>();
        let all = self.of.workloads.iter().map(written).sum::<u64>();
        match (own, own == all, all == bytes) {
            (0, ..) => 0,
            (_, true, _) => bytes,
            (_, false, true) => own,
            (_, false, false) => 0,
        }
    }
}

/// The row of what one run did, or several that go on with each other.
fn job(group: usize, passes: &[RowPart<'_>]) -> Value {
    let RowPart { row, of, .. } = &passes[0];
    let (_, plan) = row[0];
    let mut ops = passes[0].ops();
    for more in &passes[1..] {
        more.ops().iter().for_each(|(op, one)| add(&mut ops, *op, one, true));
    }
    let milliseconds = passes.iter().map(RowPart::milliseconds).sum::<u64>();
    let failed = |part: &RowPart<'_>| part.row.iter().any(|(done, _)| done.totals.errors > 0);
    let mut job = json!({
        "jobname": passes[0].name(),
        "groupid": plan.report_group.map_or(group, |group| group as usize),
        "error": if passes.iter().any(failed) { EIO } else { 0 },
        "eta": 0,
        "elapsed": milliseconds.div_ceil(1000),
        "job options": options(plan),
        "job_runtime": milliseconds,
        "taillight": { "run_id": of.run_id, "verdict": of.verdict.text },
    });
    let checked = passes.iter().map(RowPart::checked).sum::<u64>();
    let block = plan.block_size.min().max(1);
    if plan.unified.is_some() {
        let mut mixed = direction(together(passes, &ops).as_ref());
        count_checked(&mut mixed, checked, block);
        job["mixed"] = mixed;
    }
    if plan.unified != Some(UnifiedRow::Mixed) {
        job["read"] = direction(ops.get(&OpKind::Read));
        count_checked(&mut job["read"], checked, block);
        job["write"] = direction(ops.get(&OpKind::Write));
        job["trim"] = direction(ops.get(&OpKind::Trim));
        job["sync"] = syncs(&ops);
    }
    job
}

/// Reads, writes and trims as one; with percentiles where one workload did nothing else.
fn together(passes: &[RowPart<'_>], ops: &BTreeMap<OpKind, Totals>) -> Option<Totals> {
    const KINDS: [OpKind; 3] = [OpKind::Read, OpKind::Write, OpKind::Trim];
    if let [RowPart { row, .. }] = passes
        && let [(one, _)] = row.as_slice()
        && ops.keys().all(|op| KINDS.contains(op))
    {
        return Some(one.totals.clone());
    }
    let mut all = BTreeMap::new();
    KINDS
        .iter()
        .filter_map(|op| ops.get(op))
        .for_each(|one| add(&mut all, OpKind::Read, one, false));
    all.remove(&OpKind::Read)
}

/// What fio calls the row of a workload: the section of the workload that it is reported with. What is no workload is
/// the section itself.
fn name_of_row<'a>(plan: &'a WorkloadPlan, all: &'a [WorkloadPlan]) -> &'a str {
    let shown = |of: &'a WorkloadPlan| of.section.as_deref().unwrap_or(&of.name);
    match plan.reported_with.as_deref() {
        Some(with) => all.iter().find(|of| of.name == with).map_or(with, shown),
        None => shown(plan),
    }
}

/// Adds what was done besides, or `after`: counts, and of latencies what can be told from those of each.
fn add(all: &mut BTreeMap<OpKind, Totals>, op: OpKind, one: &Totals, after: bool) {
    let Some(sum) = all.get_mut(&op) else {
        all.insert(op, one.clone());
        return;
    };
    sum.count += one.count;
    sum.errors += one.errors;
    sum.bytes += one.bytes;
    sum.duration_ns = match after {
        true => sum.duration_ns + one.duration_ns,
        false => sum.duration_ns.max(one.duration_ns),
    };
    let seconds = (sum.duration_ns as f64 / 1e9).max(f64::MIN_POSITIVE);
    sum.iops = (sum.count - sum.errors) as f64 / seconds;
    sum.bytes_per_s = sum.bytes as f64 / seconds;
    for kind in LatencyKind::ALL {
        let Some(more) = one.latencies.get(kind) else { continue };
        let so_far = sum.latencies.get(kind);
        let together = so_far.map_or_else(|| more.clone(), |so_far| both(so_far, more));
        sum.latencies.insert(kind, together);
    }
}

/// Count, least, most, mean and deviation of two together, without percentiles.
fn both(a: &Latency, b: &Latency) -> Latency {
    let (n, m) = (a.count as f64, b.count as f64);
    let mean = a.mean_ns.zip(b.mean_ns).map(|(x, y)| (n * x + m * y) / (n + m).max(1.0));
    let square = |of: &Latency, n: f64| Some(n * (of.stddev_ns?.powi(2) + of.mean_ns?.powi(2)));
    let squares = square(a, n).zip(square(b, m)).map(|(x, y)| (x + y) / (n + m).max(1.0));
    Latency {
        count: a.count + b.count,
        min_ns: a.min_ns.into_iter().chain(b.min_ns).min(),
        max_ns: a.max_ns.max(b.max_ns),
        mean_ns: mean,
        stddev_ns: squares.zip(mean).map(|(squares, mean)| (squares - mean * mean).max(0.0).sqrt()),
        percentiles: Vec::new(),
        ..a.clone()
    }
}

/// Adds bytes that were read to check, in such blocks.
fn count_checked(reads: &mut Value, bytes: u64, block: u64) {
    for (name, more) in
        [("total_ios", bytes / block), ("io_bytes", bytes), ("io_kbytes", bytes / 1024)]
    {
        let sum = reads[name].as_u64().unwrap_or(0).saturating_add(more);
        reads[name] = sum.into();
    }
}

/// Name, kind of load, block size, depth and number of jobs as fio's options, as text.
fn options(plan: &WorkloadPlan) -> Value {
    let bs = |sizes: &BlockSize| match sizes.min() == sizes.max() {
        true => sizes.min().to_string(),
        false => format!("{}-{}", sizes.min(), sizes.max()),
    };
    let bs = plan.block_size.each().into_iter().map(bs).collect::<Vec<_>>().join(",");
    let kinds: Vec<&str> = plan.mix.iter().map(|part| part.op.name()).collect();
    let all = match kinds.as_slice() {
        [one] => (*one).to_owned(),
        _ => "rw".to_owned(),
    };
    let rw = if plan.access.kind.draws() { format!("rand{all}") } else { all };
    json!({
        "name": plan.name,
        "rw": rw,
        "bs": bs,
        "iodepth": plan.queue_depth.to_string(),
        "numjobs": plan.workers.to_string(),
    })
}

/// One direction; of one that was not used zeros, as fio has them.
fn direction(totals: Option<&Totals>) -> Value {
    let mut out = Map::new();
    let mut set = |name: &str, value: Value| out.insert(name.to_owned(), value);
    let (count, bytes, ns) =
        totals.map_or((0, 0, 0), |t| (t.count - t.errors, t.bytes, t.duration_ns));
    let (iops, rate) = totals.map_or((0.0, 0.0), |t| (t.iops, t.bytes_per_s));
    let whole = rate.round() as u64;
    set("io_bytes", bytes.into());
    set("io_kbytes", (bytes / 1024).into());
    set("bw_bytes", whole.into());
    set("bw", (whole / 1024).into());
    set("iops", iops.into());
    set("runtime", (ns / 1_000_000).into());
    set("total_ios", count.into());
    set("short_ios", 0.into());
    set("drop_ios", 0.into());
    let kind = |kind| totals.and_then(|t| t.latencies.get(kind));
    let whole_latency = kind(LatencyKind::Service);
    set("slat_ns", latency(kind(LatencyKind::BeforeIssue), false));
    set("clat_ns", latency(kind(LatencyKind::AfterIssue).or(whole_latency), true));
    set("lat_ns", latency(whole_latency, true));
    set("bw_mean", (rate / 1024.0).into());
    set("iops_mean", iops.into());
    Value::Object(out)
}

/// Syncs inside the operations of the first kind that has any; fio counts them apart from the writes.
fn syncs(ops: &BTreeMap<OpKind, Totals>) -> Value {
    let sync = ops.values().find_map(|totals| totals.latencies.get(LatencyKind::Sync));
    json!({ "total_ios": sync.map_or(0, |l| l.count), "lat_ns": latency(sync, true) })
}

fn latency(of: Option<&Latency>, percentiles: bool) -> Value {
    let mut out = json!({
        "min": of.and_then(|l| l.min_ns).unwrap_or(0),
        "max": of.and_then(|l| l.max_ns).unwrap_or(0),
        "mean": of.and_then(|l| l.mean_ns).unwrap_or(0.0),
        "stddev": of.and_then(|l| l.stddev_ns).unwrap_or(0.0),
        "N": of.map_or(0, |l| l.count),
    });
    if let Some(of) = of.filter(|l| percentiles && l.count > 0 && !l.percentiles.is_empty()) {
        // This run's own values, as fio's are.
        let entries = of.percentiles.iter().filter(|p| !p.is_wide_bin()).filter_map(|p| {
            let key = p.p.parse::<f64>().ok()?;
            Some((format!("{key:.6}"), Value::from(p.observed_ns.or(p.ns)?)))
        });
        out["percentile"] = Value::Object(entries.collect());
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::disk_util::DiskWork;
    use super::*;

    /// What fio 3.33 has and this has not: sampled every 500 ms, counted by the process, or a target of its own.
    const ABSENT: [&str; 23] = [
        "time",
        "global options",
        "usr_cpu",
        "sys_cpu",
        "ctx",
        "majf",
        "minf",
        "iodepth_level",
        "iodepth_submit",
        "iodepth_complete",
        "latency_ns",
        "latency_us",
        "latency_ms",
        "latency_depth",
        "latency_target",
        "latency_percentile",
        "latency_window",
        "bw_min",
        "bw_max",
        "bw_agg",
        "bw_dev",
        "bw_samples",
        "iops_min",
    ];
    const ABSENT_TOO: [&str; 3] = ["iops_max", "iops_stddev", "iops_samples"];

    /// Paths of the fields, without those that depend on the load.
    fn fields(of: &Value, at: &str, into: &mut BTreeSet<String>) {
        if let Value::Object(map) = of {
            for (name, value) in map {
                let path = format!("{at}/{name}");
                into.insert(path.clone());
                if !matches!(name.as_str(), "job options" | "percentile" | "taillight") {
                    fields(value, &path, into);
                }
            }
        }
        if let Value::Array(all) = of {
            all.iter().take(1).for_each(|first| fields(first, at, into));
        }
    }

    #[test]
    fn a_row_is_called_as_the_section_of_its_first_workload() {
        let plan = |name: &str, section: Option<&str>, with: Option<&str>| WorkloadPlan {
            section: section.map(str::to_owned),
            reported_with: with.map(str::to_owned),
            ..WorkloadPlan::simple(name, OpKind::Read, taillight_core::units::ByteSize(4096))
        };
        let all = [
            plan("a", None, Some("a")),
            plan("a-2", Some("a"), Some("a-2")),
            plan("b-2", Some("b"), Some("a-2")),
            plan("c-0", Some("c"), Some("c")),
            plan("d", None, None),
        ];
        let names: Vec<&str> = all.iter().map(|plan| name_of_row(plan, &all)).collect();
        assert_eq!(names, ["a", "a", "a", "c", "d"]);
    }

    fn read(name: &str) -> String {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/render/fio_json/");
        std::fs::read_to_string(format!("{dir}{name}")).unwrap()
    }

    /// `fio.json` is what fio 3.33 printed of `rw=randrw iodepth=8 ioengine=libaio fsync=32`.
    #[test]
    fn it_has_the_fields_of_fio_but_those_that_are_not_measured() {
        let (mut fios, mut ours) = (BTreeSet::new(), BTreeSet::new());
        fields(&serde_json::from_str(&read("fio.json")).unwrap(), "", &mut fios);
        let latency: Latency = serde_json::from_value(json!({
            "count": 2, "min_ns": 10, "max_ns": 30, "mean_ns": 20.0, "stddev_ns": 10.0, "skewness": null,
            "kurtosis": null, "source": "capture", "error": 0.0, "nines": [],
            "percentiles": [{ "p": "99", "ns": null, "observed_ns": 30, "lo_ns": null, "hi_ns": null,
                              "resolved": false, "needs": 299 }],
        }))
        .unwrap();
        let mut totals: Totals = serde_json::from_value(json!({
            "count": 3, "bytes": 8192, "duration_ns": 2_000_000_000_u64, "iops": 1.0, "bytes_per_s": 4096.0,
            "errors": 1, "service": latency,
        }))
        .unwrap();
        totals.latencies.get_or_insert_with(LatencyKind::Sync, || latency.clone());
        let one = json!({
            "jobs": [{ "jobname": "a", "groupid": 0, "error": 0, "eta": 0, "elapsed": 0, "job options": {},
                       "job_runtime": 0, "read": direction(Some(&totals)), "write": direction(None),
                       "trim": direction(None), "sync": syncs(&BTreeMap::from([(OpKind::Write, totals.clone())])) }],
            "fio version": "", "timestamp": 0, "timestamp_ms": 0,
            "disk_util": DiskUse(BTreeMap::from([(String::new(), DiskWork::default())])).to_json(),
        });
        fields(&one, "", &mut ours);
        let read = &one["jobs"][0]["read"];
        assert_eq!(
            (&read["total_ios"], &read["io_bytes"], &read["runtime"]),
            (&json!(2), &json!(8192), &json!(2000))
        );
        assert_eq!((&read["bw"], &read["iops"]), (&json!(4), &json!(1.0)));
        assert_eq!(read["clat_ns"]["percentile"]["99.000000"], json!(30));
        assert_eq!(one["jobs"][0]["sync"]["total_ios"], json!(2));
        let absent = |path: &&String| {
            ABSENT.iter().chain(&ABSENT_TOO).any(|name| path.split('/').any(|part| part == *name))
        };
        let missing: Vec<&String> = fios.difference(&ours).filter(|path| !absent(path)).collect();
        // Percentiles of what was not used are absent here and zeros there.
        let missing: Vec<_> = missing.into_iter().filter(|p| !p.ends_with("/percentile")).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let more: Vec<_> = ours.difference(&fios).filter(|p| !p.ends_with("/percentile")).collect();
        assert!(more.is_empty(), "{more:?}");
    }
}
