//! Traces replayed on virtual time: what comes when, to the nanosecond.

#![allow(clippy::unwrap_used)]

use crate::common::{EngineRun, run};
use taillight_core::job::{BoundTarget, DriverView, Job, MachineMemory};
use taillight_core::plan::{Plan, ReplayOps, ReplayPlan, TargetPlan};
use taillight_core::units::ByteSize;
use taillight_core::{OpKind, Record, Result};
use taillight_engine::StopReason;

struct Drivers;

impl DriverView for Drivers {
    fn names(&self) -> Vec<&'static str> {
        taillight_driver::DRIVERS.iter().map(|d| d.name()).collect()
    }
    fn bind(&self, target: &TargetPlan) -> Result<BoundTarget> {
        taillight_driver::bind(target)?.resolved()
    }
    fn trace(&self, replay: &ReplayPlan, most: u64) -> Result<ReplayOps> {
        taillight_engine::trace::load(replay, most)
    }
}

const MS: i64 = 1_000_000;
const FAST: &str = "channels = 64\nservice = { kind = \"constant\", time = \"10us\" }";

fn resolved(text: &str) -> Result<Plan> {
    let free = ByteSize(1 << 30);
    let machine = MachineMemory { capture_budget: free, free_memory: ByteSize(4 << 30) };
    Job::from_toml(text, "job.toml")?.resolve(&Drivers, machine, &|_| panic!("no file is read"))
}

/// A job on `sim` with these options; `lines` stand below `[[workload]]`.
fn job(options: &str, lines: &str) -> Result<Plan> {
    resolved(&format!(
        "[target]\ndriver = \"sim\"\n[target.options]\n{options}\n[[workload]]\n{lines}\n"
    ))
}

/// A trace of Alibaba's form in a directory of its own: microseconds, uneven gaps, one disk.
struct WrittenTrace {
    dir: tempfile::TempDir,
    rows: Vec<(i64, OpKind, u64, u64)>,
}

impl WrittenTrace {
    fn new(rows: i64, gap_us: i64) -> WrittenTrace {
        let row = |i: i64| {
            let kind = if i % 3 == 0 { OpKind::Write } else { OpKind::Read };
            let at = i * gap_us + i * i % 7;
            (at, kind, (i as u64 * 7919 % 1000) * 4096, 4096 + i as u64 % 3 * 512)
        };
        let written =
            WrittenTrace { dir: tempfile::tempdir().unwrap(), rows: (0..rows).map(row).collect() };
        let letter = |kind: &OpKind| if *kind == OpKind::Write { 'W' } else { 'R' };
        let base = 1_577_808_000_000_000i64;
        let line = |(at, kind, offset, size): &(i64, OpKind, u64, u64)| {
            format!("9,{},{offset},{size},{}\n", letter(kind), base + at)
        };
        std::fs::write(written.file(), written.rows.iter().map(line).collect::<String>()).unwrap();
        written
    }

    fn file(&self) -> String {
        self.dir.path().join("trace").display().to_string()
    }

    fn trace(&self, more: &str) -> String {
        format!("trace = {{ file = \"{}\"{more} }}", self.file())
    }
}

/// In the order of the intended times, which are those of the trace.
fn in_order(done: &EngineRun) -> Vec<Record> {
    let mut ios = done.ios.clone();
    ios.sort_by_key(|r| r.intended.unwrap_or(r.submit));
    ios
}

#[test]
fn operations_come_at_their_recorded_times_to_the_nanosecond() {
    let written = WrittenTrace::new(1000, 250);
    for (workers, more, (times, by)) in [
        (1, "", (1, 1)),
        (3, "", (1, 1)),
        (2, ", timing = \"scaled\", speed = 2.0", (1, 2)),
        (2, ", timing = \"scaled\", speed = 0.5", (2, 1)),
        (1, ", timing = \"scaled\", speed = 3", (1, 3)),
    ] {
        let lines = format!("workers = {workers}\nqueue_depth = 8\n{}", written.trace(more));
        let done = run(&job(FAST, &lines).unwrap());
        let ios = in_order(&done);
        assert_eq!(ios.len(), written.rows.len(), "{lines}");
        for (io, (at, kind, offset, size)) in ios.iter().zip(&written.rows) {
            assert_eq!(io.intended.unwrap().0, at * 1000 * times / by, "{lines}");
            assert_eq!((io.op, io.offset, io.size), (*kind, Some(*offset), *size), "{lines}");
            assert_eq!(io.wait_ns(), 0, "{lines}");
        }
        assert_eq!(done.outcome.reason, StopReason::Planned);
        assert!(done.outcome.target_facts.iter().any(|(name, _)| name == "trace.w0"));
    }
}

#[test]
fn a_workload_that_begins_later_has_the_whole_trace() {
    let written = WrittenTrace::new(100, 1000);
    let lines = format!("start_delay = \"3s\"\n{}", written.trace(""));
    let ios = in_order(&run(&job(FAST, &lines).unwrap()));
    let intended: Vec<i64> = ios.iter().map(|io| io.intended.unwrap().0).collect();
    let recorded: Vec<i64> = written.rows.iter().map(|row| 3000 * MS + row.0 * 1000).collect();
    assert_eq!(intended, recorded);
}

#[test]
fn a_stall_shows_in_the_response_and_not_in_the_arrivals() {
    let written = WrittenTrace::new(2000, 500);
    let stall = "channels = 4\nservice = { kind = \"constant\", time = \"20us\" }\n\
                 stalls = [{ start = \"400ms\", length = \"300ms\" }]";
    let lines = format!("workers = 2\n{}", written.trace(""));
    let ios = in_order(&run(&job(stall, &lines).unwrap()));
    let intended: Vec<i64> = ios.iter().map(|io| io.intended.unwrap().0).collect();
    assert_eq!(intended, written.rows.iter().map(|row| row.0 * 1000).collect::<Vec<_>>());
    let worst = ios.iter().map(Record::response_ns).max().unwrap() as i64;
    assert!((299 * MS..301 * MS).contains(&worst), "{worst}");
    // 300 ms of 2 operations a ms were due while nothing was served, and took what was left of it.
    let late = ios.iter().filter(|io| io.response_ns() as i64 > MS).count();
    assert!((590..=640).contains(&late), "{late}");
    let before = ios.iter().take_while(|io| io.intended.unwrap().0 < 399 * MS);
    assert!(before.into_iter().all(|io| io.response_ns() == 20_000));
}

#[test]
fn as_soon_as_possible_keeps_the_order_without_intended_times() {
    let written = WrittenTrace::new(500, 1000);
    let done = run(&job(FAST, &written.trace(", timing = \"asap\"")).unwrap());
    let offsets: Vec<u64> = in_order(&done).iter().map(|io| io.offset.unwrap()).collect();
    assert_eq!(offsets, written.rows.iter().map(|row| row.2).collect::<Vec<_>>());
    assert!(done.ios.iter().all(|io| io.intended.is_none()));
    // One after the other, 10 us each, whatever their times were.
    let end = done.ios.iter().map(|io| io.complete.0).max().unwrap();
    assert_eq!(end, 500 * 10_000);
}

#[test]
fn a_plan_with_a_trace_is_a_job_that_gives_it_again() {
    let written = WrittenTrace::new(50, 1000);
    for more in ["", ", timing = \"asap\"", ", timing = \"scaled\", speed = 1.5, fit = \"compact\""]
    {
        let plan = job(FAST, &written.trace(more)).unwrap();
        let again = resolved(&plan.to_toml().unwrap()).unwrap();
        assert_eq!(again, plan);
        assert_eq!(again.workloads[0].trace.as_ref().unwrap().ops.ops.len(), 50);
        assert_eq!(plan.workloads[0].operations, Some(50));
        assert_eq!(plan.run.duration, None);
    }
}

#[test]
fn what_contradicts_a_trace_is_refused_before_it_is_replayed() {
    let written = WrittenTrace::new(50, 1000);
    for (lines, more, what) in [
        ("mix = \"trim\"", "", "workload.0.mix: the trace says it"),
        ("block_size = \"4KiB\"", "", "workload.0.block_size: the trace says it"),
        ("arrival = { rate = \"10/s\" }", "", "workload.0.arrival: the trace says it"),
        ("access = \"sequential\"", "", "workload.0.access: the trace says it"),
        ("ramp = { step = 1, every = \"1s\" }", "", "workload.0.ramp: operations of a trace"),
        ("", ", speed = 2.0", "workload.0.trace.speed: only scaled times"),
        ("", ", timing = \"scaled\"", "workload.0.trace.speed: scaled times need"),
        ("", ", timing = \"scaled\", speed = -1.0", "workload.0.trace.speed: scaled times need"),
        ("", ", length = \"0s\"", "workload.0.trace.length: it is zero"),
        ("", ", fit = \"wrap\"", "target.size: the job gives no size"),
        ("[run]\nwarmup = \"1s\"", "", "run.warmup: a trace begins with its first"),
        ("[verify]\nmode = \"inline\"", "", "verify.mode: operations of a trace"),
    ] {
        // The lines may open a table of their own.
        let said = job(FAST, &format!("{}\n{lines}", written.trace(more))).unwrap_err().to_string();
        assert!(said.starts_with(what), "{lines}{more}: {said}");
    }
}

#[test]
fn a_log_without_times_is_replayed_as_fast_as_possible_only() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("log");
    std::fs::write(&file, "fio version 2 iolog\na read 0 4096\na read 4096 4096\n").unwrap();
    let trace = |more: &str| format!("trace = {{ file = \"{}\"{more} }}", file.display());
    for more in ["", ", timing = \"scaled\", speed = 2.0"] {
        let said = job(FAST, &trace(more)).unwrap_err().to_string();
        assert!(said.starts_with("workload.0.trace.timing: the trace has no times"), "{said}");
    }
    assert_eq!(run(&job(FAST, &trace(", timing = \"asap\"")).unwrap()).ios.len(), 2);
}

#[test]
fn a_target_that_is_too_small_is_said_before_anything_is_opened() {
    let written = WrittenTrace::new(1000, 100);
    let on = |size: &str, more: &str| {
        let trace = written.trace(more);
        resolved(&format!("[target]\ndriver = \"sim\"\nsize = \"{size}\"\n[[workload]]\n{trace}\n"))
    };
    let e = on("1MiB", "").unwrap_err();
    assert!(e.to_string().starts_with("workload.0.trace: the trace touches 4096"), "{e}");
    assert!(e.hint_text().unwrap().contains("wrap"), "{e}");
    for fit in ["wrap", "scale", "clip"] {
        let done = run(&on("1MiB", &format!(", fit = \"{fit}\"")).unwrap());
        assert!(done.ios.iter().all(|io| io.offset.unwrap() + io.size <= 1 << 20), "{fit}");
        assert_eq!(done.ios.len() == 1000, fit != "clip", "{fit}");
    }
    assert!(on("1MiB", ", fit = \"compact\"").is_err());
    assert!(on("8MiB", "").is_ok());
}
