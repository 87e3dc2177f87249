//! Times the report of a large run: `big DIR MILLIONS [queued|slow|traced]` makes up a run directory of so many
//! million I/Os, unless DIR is there already, and makes its report. It prints the report's text, the seconds that
//! the report took and the most memory that the process had. `queued` adds issue stamps; `slow` draws every latency
//! from up to 200 ms instead of one in 512; `traced` adds a row of layers for each I/O.

use std::path::PathBuf;
use std::time::Instant;

use taillight_core::plan::TraceMode;
use taillight_core::{OpKind, Record, Stamp};
use taillight_report::{ReportOptions, make};
use taillight_rundir::ios::{IosWriter, RowKey};
use taillight_rundir::layers::{LayerRow, LayerWriter};
use taillight_rundir::manifest::{PhaseInfo, RunStatus};
use taillight_rundir::trace_info::{ProgramInfo, TraceInfo, TracingBackend};
use taillight_rundir::{RunDir, fixture};

const WORKERS: u64 = 2;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or("usage: big DIR MILLIONS [queued|slow|traced]")?);
    let rows = args.next().ok_or("usage: big DIR MILLIONS [queued|slow|traced]")?.parse::<u64>()?
        * 1_000_000;
    let kind = args.next().unwrap_or_default();
    if !path.exists() {
        write(&path, rows, kind == "queued", kind == "slow", kind == "traced")?;
    }
    let start = Instant::now();
    let options = ReportOptions::default();
    let report = make(&[&path], &options, &mut |_| true)?;
    println!("{}\n{rows} I/Os in {:.1} s", report.text, start.elapsed().as_secs_f64());
    let status = std::fs::read_to_string("/proc/self/status")?;
    println!("{}", status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default());
    Ok(())
}

fn write(
    path: &std::path::Path,
    rows: u64,
    queued: bool,
    slow: bool,
    traced: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let mut manifest = fixture::manifest("big");
    let start = 1_000_000_000i64;
    let each = rows / WORKERS;
    let step = 100;
    let end = start + (each * step) as i64;
    manifest.status = RunStatus::Complete;
    manifest.capture.kept = each * WORKERS;
    manifest.phases = vec![PhaseInfo {
        name: "measure".into(),
        start_ns: start,
        end_ns: Some(end),
        ios: each * WORKERS,
    }];
    if traced {
        manifest.trace = Some(trace());
    }
    let dir = RunDir::create(path, &manifest)?;
    let mut below: Vec<LayerRow> = Vec::new();
    let mut layers = traced.then(|| LayerWriter::begin(&dir));
    let mut ios = IosWriter::create(&dir)?;
    let mut random = 88_172_645_463_325_252u64;
    for worker in 0..WORKERS {
        let key = RowKey { phase: "measure", workload: 0, worker: worker as u16 };
        for i in 0..each {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // Most take 60 to 100 us; one in 512, or each with `slow`, up to 200 ms more.
            let tail =
                if slow || random.is_multiple_of(512) { (random >> 20) % 200_000_000 } else { 0 };
            let service = 60_000 + (random >> 40) % 40_000 + tail;
            let submit = start + (i * step) as i64;
            let op = if random & 3 == 0 { OpKind::Write } else { OpKind::Read };
            ios.begin(key);
            ios.push(&record(op, submit, service, random, queued))?;
            if let Some(layers) = &mut layers {
                below.push(layer(worker, op, submit, service));
                if below.len() == 1 << 16 {
                    layers.rows(below.drain(..))?;
                }
            }
        }
    }
    ios.finish()?;
    if let Some(mut layers) = layers {
        layers.rows(below.drain(..))?;
        layers.commit()?;
    }
    Ok(())
}

fn trace() -> TraceInfo {
    TraceInfo {
        programs: vec![ProgramInfo {
            trace_point: "sched_switch".into(),
            sees: "threads".into(),
            missing: None,
        }],
        symbols: true,
        disks_watched: Some(true),
        ..TraceInfo::new(TraceMode::All, TracingBackend::TracePoints, None)
    }
}

/// One I/O's stamps below: fixed times in the layers, all the rest in the device.
fn layer(worker: u64, op: OpKind, submit: i64, service: u64) -> LayerRow {
    let after = |ns: i64| Some(submit + ns);
    LayerRow {
        worker: Some(worker),
        op: Some(op),
        dev: Some("254:0".into()),
        sector: Some(submit as u64),
        bio_ns: after(900),
        bio_last_ns: after(900),
        alloc_ns: after(1200),
        issue_ns: after(1900),
        done_ns: after(service as i64 - 5000),
        wake_ns: after(service as i64 - 4000),
        run_ns: after(service as i64 - 2000),
        ..fixture::traced_io(submit, submit + service as i64)
    }
}

fn record(op: OpKind, submit: i64, service: u64, random: u64, queued: bool) -> Record {
    Record {
        op,
        offset: Some((random >> 30) % (1 << 20) * 4096),
        size: 4096,
        submit: Stamp(submit),
        issued: queued.then_some(Stamp(submit + 700 + (random >> 33) as i64 % 500)),
        complete: Stamp(submit + service as i64),
        ..Record::default()
    }
}
