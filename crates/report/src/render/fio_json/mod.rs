//! Runs as fio's JSON (`fio --output-format=json`, version 3), for the dashboards that read it.
//!
//! A job of fio is a workload here, a group of fio a run. What fio samples or counts and Taillight does not is
//! left out, so that nobody reads a figure that nobody measured; `ABSENT` in the tests lists it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use taillight_core::plan::{BlockSize, WorkloadPlan};
use taillight_core::{LatencyKind, OpKind};
use taillight_rundir::latency::Latency;
use taillight_rundir::summary::{Totals, WorkloadSummary};
use taillight_rundir::{Manifest, Summary};

/// What fio calls a failed I/O: the error number EIO.
const EIO: u64 = 5;

/// One document for runs in order.
pub fn fio_json<'a>(runs: impl IntoIterator<Item = (&'a Manifest, &'a Summary)>) -> Value {
    let (mut jobs, mut began) = (Vec::new(), 0);
    for (group, (manifest, summary)) in runs.into_iter().enumerate() {
        if began == 0 {
            began = manifest.clock.realtime_ns / 1_000_000;
        }
        let planned = |name: &str| manifest.plan.workloads.iter().find(|w| w.name == name);
        let workloads = summary.workloads.iter().filter_map(|w| Some((w, planned(&w.name)?)));
        let writes = |w: &&WorkloadPlan| w.mix.iter().any(|part| part.op == OpKind::Write);
        let writers = manifest.plan.workloads.iter().filter(writes).count();
        jobs.extend(workloads.map(|of| job(group, of, summary, writers)));
    }
    json!({
        "fio version": format!("taillight-{}", env!("CARGO_PKG_VERSION")),
        "timestamp": began / 1000,
        "timestamp_ms": began,
        "jobs": jobs,
    })
}

fn job(
    group: usize,
    (done, plan): (&WorkloadSummary, &WorkloadPlan),
    of: &Summary,
    writers: usize,
) -> Value {
    let milliseconds = done.totals.duration_ns / 1_000_000;
    let direction = |op: OpKind| direction(done.ops.get(&op));
    let error = if done.totals.errors > 0 { EIO } else { 0 };
    let sync = syncs(&done.ops);
    let mut reads = direction(OpKind::Read);
    checked(&mut reads, plan, of, writers);
    json!({
        "jobname": plan.section.as_ref().unwrap_or(&done.name),
        "groupid": group,
        "error": error,
        "eta": 0,
        "elapsed": milliseconds.div_ceil(1000),
        "job options": options(plan),
        "read": reads,
        "write": direction(OpKind::Write),
        "trim": direction(OpKind::Trim),
        "sync": sync,
        "job_runtime": milliseconds,
        "taillight": { "run_id": of.run_id, "verdict": of.verdict.text },
    })
}

/// Adds what was read to check the writes after the run: fio counts it as reads of the job. Where several workloads
/// write, nobody counted whose blocks they were.
fn checked(reads: &mut Value, plan: &WorkloadPlan, of: &Summary, writers: usize) {
    let writes = plan.mix.iter().any(|part| part.op == OpKind::Write);
    let Some(verify) = of.verify.as_ref().filter(|v| v.pass.is_some() && writes && writers == 1)
    else {
        return;
    };
    let bytes = verify.checked.saturating_mul(verify.block);
    let mut add = |name: &str, more: u64| {
        let sum = reads[name].as_u64().unwrap_or(0).saturating_add(more);
        reads[name] = sum.into();
    };
    add("total_ios", bytes / plan.block_size.min().max(1));
    add("io_bytes", bytes);
    add("io_kbytes", bytes / 1024);
}

/// The options that fio would show, as text.
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

/// Syncs of all writes; fio counts them apart from the writes.
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
    if let Some(of) = of.filter(|l| percentiles && l.count > 0) {
        // This run's own values, as fio's are.
        let entries = of.percentiles.iter().filter_map(|p| {
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

    use super::*;

    /// What fio 3.33 has and this has not: sampled every 500 ms, counted by the process, or a target of its own.
    const ABSENT: [&str; 24] = [
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
        "disk_util",
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
