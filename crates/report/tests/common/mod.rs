//! A synthetic run: a device of known behaviour, written through the run directory's own writers.
#![allow(dead_code, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use taillight_core::Percentile;
use taillight_core::plan::{Arrival, WorkloadPlan};
use taillight_core::{LatencyKind, OpKind, Record, Stamp, Status};
use taillight_rundir::histlog::{HistEntry, HistTag, write_histograms};
use taillight_rundir::intervals::{IntervalRow, interval_writer};
use taillight_rundir::ios::{IosWriter, RowKey};
use taillight_rundir::manifest::{Manifest, Overhead, PhaseInfo, RunStatus};
use taillight_rundir::{RunDir, fixture};
use taillight_stats::Dist;

/// Start of the measure phase.
pub const START: i64 = 5_000_000_000;

/// What to synthesise.
#[derive(Debug, Clone)]
pub struct Sample {
    pub name: &'static str,
    pub seconds: u64,
    pub workers: u16,
    pub depth: u16,
    /// Usual read and write latencies, ns.
    pub read_ns: f64,
    pub write_ns: f64,
    /// Share of writes, per cent.
    pub writes: u64,
    /// Stalls as (start, length), ns since the start.
    pub stalls: Vec<(i64, i64)>,
    /// From so many ns since the start on, services take so many times as long.
    pub slower: Option<(i64, f64)>,
    /// Every so many-th I/O of a worker fails.
    pub fail_every: Option<u64>,
    /// Operations per second of an open loop.
    pub rate: Option<u64>,
    pub sync: bool,
    /// A second workload that is load only.
    pub load: bool,
    /// Each I/O has the stamp of a writer, from which its end-to-end latency counts.
    pub end_to_end: bool,
    pub seed: u64,
}

impl Default for Sample {
    fn default() -> Self {
        Sample {
            name: "nvme-mixed",
            seconds: 10,
            workers: 2,
            depth: 4,
            read_ns: 82_000.0,
            write_ns: 24_000.0,
            writes: 30,
            stalls: vec![(4_200_000_000, 90_000_000), (7_700_000_000, 25_000_000)],
            slower: None,
            fail_every: None,
            rate: None,
            sync: false,
            load: false,
            end_to_end: false,
            seed: 7,
        }
    }
}

struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
    /// e to the power of a normal number times `spread`, by multiplications only, so that the
    /// same run comes out on every machine.
    fn lognormal(&mut self, spread: f64) -> f64 {
        let normal = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        let mut power = 1.0 + normal * spread / 1024.0;
        for _ in 0..10 {
            power *= power;
        }
        power
    }
}

fn service(sample: &Sample, op: OpKind, rng: &mut Rng) -> f64 {
    let (base, slow, share) = match op {
        OpKind::Read => (sample.read_ns, 2.6, 0.09),
        _ => (sample.write_ns, 15.0, 0.04),
    };
    let usual = base * rng.lognormal(0.09);
    let draw = rng.unit();
    if draw < 0.0006 {
        base * 40.0 * rng.lognormal(0.5)
    } else if draw < share {
        usual * slow * rng.lognormal(0.12)
    } else {
        usual
    }
}

/// All I/Os of one worker, in submit order.
pub fn worker(sample: &Sample, worker: u16) -> Vec<Record> {
    let mut rng = Rng(sample.seed * 1_000_003 + u64::from(worker) + 1);
    let end = START + sample.seconds as i64 * 1_000_000_000;
    let mut slots = vec![START + i64::from(worker) * 500; usize::from(sample.depth)];
    let mut records = Vec::new();
    let step = sample.rate.map(|r| 1_000_000_000 * i64::from(sample.workers) / r as i64);
    let mut intended = START + i64::from(worker) * 1_000;
    loop {
        let slot = (0..slots.len()).min_by_key(|i| slots[*i]).unwrap_or(0);
        let mut submit = slots[slot];
        if let Some(step) = step {
            submit = submit.max(intended + (rng.unit() * 400.0) as i64);
            if intended >= end {
                break;
            }
            intended += step;
        }
        if submit >= end {
            break;
        }
        let op = if rng.next() % 100 < sample.writes { OpKind::Write } else { OpKind::Read };
        let issued = submit + 400 + (rng.unit() * 900.0) as i64;
        let slower = sample.slower.filter(|(at, _)| issued >= START + at);
        let times = slower.map_or(1.0, |(_, times)| times);
        let mut complete = issued + (service(sample, op, &mut rng) * times) as i64;
        for (at, length) in &sample.stalls {
            let (from, to) = (START + at, START + at + length);
            if complete >= from && issued < to {
                complete = complete.max(to + (rng.unit() * 200_000.0) as i64);
            }
        }
        let failed = sample.fail_every.is_some_and(|n| records.len() as u64 % n == n - 1);
        records.push(Record {
            op,
            target: 0,
            offset: Some(rng.next() % (1 << 18) * 4096),
            key: None,
            size: 4096,
            moved: failed.then_some(0),
            count: None,
            intended: step.map(|s| Stamp(intended - s)),
            origin: sample.end_to_end.then(|| Stamp(submit - 3_000 - (complete - submit) / 8)),
            submit: Stamp(submit),
            issued: (sample.depth > 1).then_some(Stamp(issued)),
            first: None,
            complete: Stamp(complete),
            sync_ns: (sample.sync && op == OpKind::Write)
                .then(|| ((complete - submit) as f64 * 0.8) as u64),
            retries: None,
            status: if failed { Status::errno(5) } else { Status::OK },
        });
        slots[slot] = complete + 150;
    }
    records
}

/// A workload beside `measured` that only makes load.
fn load_only(measured: &WorkloadPlan) -> WorkloadPlan {
    WorkloadPlan {
        name: "writers".into(),
        measured: false,
        workers: 1,
        queue_depth: 1,
        mix: serde_json::from_value(serde_json::json!([{"op": "write", "weight": 1}])).unwrap(),
        arrival: Arrival::Constant { rate: "500/s".parse().unwrap() },
        ..measured.clone()
    }
}

fn environment() -> serde_json::Map<String, serde_json::Value> {
    serde_json::from_value(serde_json::json!({
        "host": {"kernel": "6.18.2", "cpu": "8 x Example CPU 3.1 GHz", "governor": "performance"},
        "device": {"model": "EXAMPLE NVMe 1TB", "firmware": "2B4Q", "scheduler": "none"},
        "file_system": "ext4 (rw,relatime)",
        "load_average": [0.4, 0.3, 0.2],
        "<script>": "alert(1)"
    }))
    .unwrap()
}

/// The manifest of a finished run.
pub fn manifest(sample: &Sample, ios: u64, last: i64) -> Manifest {
    let mut manifest = fixture::manifest(sample.name);
    let end = START + sample.seconds as i64 * 1_000_000_000;
    manifest.status = RunStatus::Complete;
    manifest.process = None;
    manifest.taillight = "0.1.0".into();
    manifest.clock.monotonic_ns = START - 1_000_000_000;
    manifest.phases = vec![
        PhaseInfo {
            name: "warmup".into(),
            start_ns: START - 500_000_000,
            end_ns: Some(START),
            ios: 12,
        },
        PhaseInfo { name: "measure".into(), start_ns: START, end_ns: Some(end), ios },
        PhaseInfo { name: "drain".into(), start_ns: end, end_ns: Some(last.max(end)), ios: 0 },
    ];
    let plan = &mut manifest.plan;
    plan.run.name = sample.name.into();
    plan.run.duration = Some(taillight_core::units::Span(sample.seconds * 1_000_000_000));
    plan.qos.percentiles = ["10", "25", "50", "75", "90", "95", "99", "99.9", "99.99", "99.999"]
        .map(|p| p.parse().unwrap())
        .to_vec();
    plan.qos.ceilings =
        vec![taillight_core::plan::Ceiling::new("20ms".parse().unwrap(), "99.9".parse().unwrap())];
    let workload = &mut plan.workloads[0];
    workload.name = "mixed".into();
    workload.mix = serde_json::from_value(serde_json::json!([
        {"op": "read", "weight": 100 - sample.writes}, {"op": "write", "weight": sample.writes}
    ]))
    .unwrap();
    workload.workers = u32::from(sample.workers);
    workload.queue_depth = u32::from(sample.depth);
    if let Some(rate) = sample.rate {
        workload.arrival = Arrival::Constant { rate: format!("{rate}/s").parse().unwrap() };
    }
    workload.end_to_end = sample.end_to_end;
    if sample.load {
        let load = load_only(&plan.workloads[0]);
        plan.workloads.push(load);
    }
    manifest.capture.kept = ios;
    manifest.command = "taillight run --driver file --path '/data/<b>x</b>' --rw randrw".into();
    manifest.environment = environment();
    manifest.overhead = Overhead {
        null_ns_per_op: Some(36.4),
        clock_ns: Some(21.0),
        cpu_s: Some(sample.seconds as f64 * 0.31),
        stood_still_ns: None,
        trace_loss: None,
        capture_ns_per_op: Some(9.1),
        trace_ns_per_op: None,
        probe_ns_per_op: None,
        collector_ns_per_op: None,
        live: None,
        ..Overhead::default()
    };
    manifest
}

fn interval_rows(all: &[Record], seconds: u64, rate: Option<u64>) -> Vec<IntervalRow> {
    let mut by: BTreeMap<(OpKind, i64), Vec<&Record>> = BTreeMap::new();
    for r in all {
        let second = ((r.complete.0 - START) / 1_000_000_000).min(seconds as i64 - 1);
        by.entry((r.op, second)).or_default().push(r);
    }
    by.into_iter()
        .map(|((op, second), records)| {
            let good = || records.iter().filter(|r| r.status.is_ok());
            let dist: Dist = good().map(|r| r.service_ns()).collect();
            let at = |p: &str| dist.percentile(&p.parse::<Percentile>().unwrap());
            let busy: u64 = records.iter().map(|r| r.service_ns()).sum();
            IntervalRow {
                start_ns: START + second * 1_000_000_000,
                length_ns: 1_000_000_000,
                phase: "measure".into(),
                workload: 0,
                op,
                ops: records.len() as u64,
                bytes: good().map(|r| r.size).sum(),
                errors: records.iter().filter(|r| !r.status.is_ok()).count() as u64,
                min_ns: dist.min(),
                mean_ns: dist.mean(),
                max_ns: dist.max(),
                p50_ns: at("50"),
                p99_ns: at("99"),
                p999_ns: at("99.9"),
                response_p99_ns: rate.map(|_| {
                    let all: Dist = good().map(|r| r.response_ns()).collect();
                    all.percentile(&"99".parse().unwrap()).unwrap_or(0)
                }),
                backlog: rate.map(|rate| {
                    let until = START + (second + 1) * 1_000_000_000;
                    let due = rate * (second as u64 + 1);
                    let sent = all.iter().filter(|r| r.submit.0 < until).count() as u64;
                    due.saturating_sub(sent)
                }),
                depth_mean: busy as f64 / 1e9,
                ..IntervalRow::default()
            }
        })
        .collect()
}

/// Writes the run directory.
pub fn write(path: &Path, sample: &Sample) -> Manifest {
    let workers: Vec<Vec<Record>> = (0..sample.workers).map(|w| worker(sample, w)).collect();
    let all: Vec<Record> = workers.iter().flatten().copied().collect();
    let last = all.iter().map(|r| r.complete.0).max().unwrap_or(START);
    let manifest = manifest(sample, all.len() as u64, last);
    let dir = RunDir::create(path, &manifest).unwrap();
    let mut ios = IosWriter::create(&dir).unwrap();
    for (w, records) in workers.iter().enumerate() {
        let key = RowKey { phase: "measure", workload: 0, worker: w as u16 };
        for record in records {
            ios.begin(key);
            ios.push(record).unwrap();
        }
    }
    ios.finish().unwrap();
    let mut rows = interval_rows(&all, sample.seconds, sample.rate);
    if sample.load {
        rows.extend((0..sample.seconds as i64).map(|second| IntervalRow {
            start_ns: START + second * 1_000_000_000,
            length_ns: 1_000_000_000,
            phase: "measure".into(),
            workload: 1,
            op: OpKind::Write,
            ops: 500,
            bytes: 498 * 4096,
            errors: 2,
            depth_mean: 0.1,
            ..IntervalRow::default()
        }));
    }
    interval_writer(&dir).write(rows).unwrap();
    let mut histograms = BTreeMap::new();
    for record in all.iter().filter(|r| r.status.is_ok()) {
        let second = (record.complete.0 - START) / 1_000_000_000;
        let h = histograms.entry((second, record.op)).or_insert_with(|| {
            hdrhistogram::Histogram::<u64>::new_with_bounds(1, 100_000_000_000, 3).unwrap()
        });
        h.record(record.service_ns()).unwrap();
    }
    let entries = histograms.iter().map(|((second, op), h)| HistEntry {
        start_ns: START + second * 1_000_000_000,
        length_ns: 1_000_000_000,
        tag: HistTag {
            phase: "measure".into(),
            workload: "mixed".into(),
            op: *op,
            kind: LatencyKind::Service,
        },
        histogram: h,
    });
    write_histograms(&dir, &manifest.clock, entries).unwrap();
    dir.write_job("[run]\nname = \"<nvme>\"\n").unwrap();
    manifest
}
