//! When operations start: on virtual time, where counts and stamps of even arrivals are known to the nanosecond and
//! random ones are within what chance allows; and what must hold in real time.

#![allow(clippy::unwrap_used)]

use crate::common::{self, EngineRun, plan, run};
use taillight_core::Percentile;
use taillight_core::plan::{
    AccessKind, Arrival, CaptureMode, MixPart, Plan, RateStep, Think, WorkerRamp, WorkloadPlan,
};
use taillight_core::units::{ByteSize, Span};
use taillight_core::{OpKind, Record, Status};
use taillight_engine::StopReason;
use taillight_stats::Dist;

const FAST: &str = "service = { kind = \"constant\", time = \"10us\" }";
const WIDE: &str = "channels = 64\nservice = { kind = \"constant\", time = \"10us\" }";
const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

fn timed(options: &str, seconds: u64, arrival: Arrival) -> Plan {
    let mut p = plan("sim", options);
    p.run.duration = Some(Span(seconds * SECOND));
    p.workloads[0].arrival = arrival;
    p
}

fn rate(text: &str) -> taillight_core::units::Rate {
    text.parse().unwrap()
}

fn percentile(ios: &[Record], of: fn(&Record) -> u64, p: &str) -> u64 {
    let dist: Dist = ios.iter().filter(|r| r.status.is_ok()).map(of).collect();
    dist.percentile(&p.parse::<Percentile>().unwrap()).unwrap()
}

/// I/Os that were meant to start in each second.
fn per_second(done: &EngineRun) -> Vec<usize> {
    per_second_of(done, |r| r.intended.unwrap_or(r.submit).0 as u64 / SECOND)
}

/// I/Os by the second that `of` names.
fn per_second_of(done: &EngineRun, of: fn(&Record) -> u64) -> Vec<usize> {
    let mut counts = Vec::new();
    for r in &done.ios {
        let second = of(r) as usize;
        counts.resize(counts.len().max(second + 1), 0);
        counts[second] += 1;
    }
    counts
}

#[test]
fn stalls_show_in_response_times_of_even_and_random_arrivals() {
    let options = "service = { kind = \"constant\", time = \"100us\" }\n\
        stalls = [{ start = \"1s\", length = \"200ms\", period = \"2s\" }]";
    let even = Arrival::Constant { rate: rate("1000/s") };
    let random = Arrival::Poisson { rate: rate("1000/s") };
    for arrival in [even, random] {
        let done = run(&timed(options, 60, arrival));
        let p99 = percentile(&done.ios, Record::response_ns, "99");
        assert!((170 * MS..=205 * MS).contains(&p99), "{p99}");
        let p50 = percentile(&done.ios, Record::service_ns, "50");
        assert_eq!(p50, 100_000);
        // 200 ms at 1000/s, give or take what is random: 4 roots of 200.
        let backlog = done.outcome.backlog_max;
        assert!((144..=257).contains(&backlog), "{backlog}");
        assert_eq!(done.outcome.unsent, 0);
    }
}

#[test]
fn poisson_counts_are_within_four_roots() {
    let done = run(&timed(FAST, 20, Arrival::Poisson { rate: rate("2500/s") }));
    let n = done.ios.len() as f64;
    assert!((n - 50_000.0).abs() < 4.0 * 50_000f64.sqrt(), "{n}");
}

/// 1,000 operations over 16 workers: the run ends with the thousandth arrival, not when each worker has had a
/// sixteenth of them.
#[test]
fn random_arrivals_end_together() {
    for seed in 1..=20 {
        let mut p = timed(WIDE, 1, Arrival::Poisson { rate: rate("1000/s") });
        (p.run.seed, p.run.duration, p.run.operations) = (seed, None, Some(1_000));
        p.workloads[0].workers = 16;
        let done = run(&p);
        let mut due: Vec<i64> = done.ios.iter().filter_map(|r| Some(r.intended?.0)).collect();
        due.sort_unstable();
        assert_eq!(due.len(), 1_000);
        let end = due[999] - done.ios.iter().map(|r| r.submit.0).min().unwrap();
        // Four roots of 1,000 arrivals; even shares ended after 1.12 s in the mean.
        assert!((end as f64 / SECOND as f64 - 1.0).abs() < 0.127, "seed {seed}: {end}");
        // The last tenth is as dense as the rest: four roots of 100 arrivals.
        let last = (due[999] - due[899]) as f64 / SECOND as f64;
        assert!((last - 0.1).abs() < 0.045, "seed {seed}: {last}");
    }
}

#[test]
fn poisson_counts_keep_their_rate_from_ten_to_a_million_a_second() {
    for (text, seconds) in [("10/s", 1000), ("1000/s", 20), ("100000/s", 1), ("1000000/s", 1)] {
        let mut p = timed(WIDE, seconds, Arrival::Poisson { rate: rate(text) });
        // At 10 us each, a million operations a second have ten in flight in the mean.
        p.workloads[0].workers = 8;
        p.workloads[0].queue_depth = 64;
        p.capture.mode = CaptureMode::Off;
        let done = run(&p);
        let asked = rate(text).num as f64 * seconds as f64;
        let issued = (done.outcome.operations + done.outcome.unsent) as f64;
        assert!((issued - asked).abs() < 4.0 * asked.sqrt(), "{text}: {issued}");
    }
}

#[test]
fn a_constant_rate_is_reached_within_a_thousandth() {
    for (text, seconds) in [("10/s", 1000), ("500/s", 20), ("33333/s", 1), ("1000000/s", 1)] {
        let mut p = timed(WIDE, seconds, Arrival::Constant { rate: rate(text) });
        p.workloads[0].workers = 8;
        p.workloads[0].queue_depth = 64;
        p.capture.mode = CaptureMode::Off;
        let done = run(&p);
        let asked = rate(text).num * seconds;
        assert!(asked >= 10_000);
        let phase = done.outcome.phases.iter().find(|p| p.name == "measure");
        let phase = phase.expect("the measure phase");
        let took = (phase.end_ns.expect("its end") - phase.start_ns) as f64 / 1e9;
        let achieved = done.outcome.operations as f64 / took;
        let off = achieved / rate(text).num as f64 - 1.0;
        assert!(off.abs() < 0.001, "{text}: {achieved}");
        assert_eq!(done.outcome.operations, asked, "{text}");
    }
}

#[test]
fn a_schedule_keeps_as_many_in_flight_as_little_s_law_says() {
    const SERVICE: u64 = 3_200_000;
    const GAP: u64 = 100_000;
    let slow = "channels = 64\nservice = { kind = \"constant\", time = \"3200us\" }";
    let with_depth = |depth| {
        let arrival = Arrival::Constant { rate: rate("10000/s") };
        let mut p = timed(slow, 2, arrival);
        p.workloads[0].queue_depth = depth;
        run(&p)
    };
    // 10,000/s for 3.2 ms each are 32 at a time, whether there is room for more or not.
    for depth in [32, 64] {
        let done = with_depth(depth);
        assert_eq!((done.ios.len(), done.outcome.unsent), (20_000, 0));
        for (i, r) in done.ios.iter().enumerate() {
            // Each when it is due, not when one before it is done.
            assert_eq!(r.submit.0 as u64, i as u64 * GAP);
            assert_eq!((r.service_ns(), r.wait_ns()), (SERVICE, 0));
        }
        let second = done.rows.iter().find(|r| r.start_ns == SECOND as i64);
        let mean = second.unwrap().depth_mean;
        assert!((31.9..=32.1).contains(&mean), "depth {depth}: {mean}");
    }
    // Half the room is half the rate: 16 every 3.2 ms, of which 313 begin within a second.
    let done = with_depth(16);
    let first = per_second_of(&done, |r| r.submit.0 as u64 / SECOND);
    assert_eq!(first[0], 16 * 313);
    assert!(done.ios.last().unwrap().wait_ns() > SECOND);
}

#[test]
fn bursts_come_and_go() {
    let arrival = Arrival::Bursts { rate: rate("1000/s"), on: Span(SECOND), off: Span(2 * SECOND) };
    let mut p = timed(FAST, 7, arrival);
    p.workloads[0].workers = 3;
    assert_eq!(per_second(&run(&p)), [1000, 0, 0, 1000, 0, 0, 1000]);
}

#[test]
fn steps_and_ramps_ask_what_they_say() {
    let step =
        |text: &str, seconds: u64| RateStep { rate: rate(text), time: Span(seconds * SECOND) };
    let steps = vec![step("100/s", 1), step("700/s", 2), step("10/s", 1)];
    let mut p = timed(FAST, 5, Arrival::Steps { steps });
    p.workloads[0].workers = 4;
    assert_eq!(per_second(&run(&p)), [100, 700, 700, 10, 10]);

    let up = Arrival::Ramp { from: rate("100/s"), to: rate("500/s"), over: Span(4 * SECOND) };
    let mut p = timed(FAST, 6, up);
    p.workloads[0].workers = 4;
    // 150, 250, 350, 450 in the ramp, then 500 a second.
    assert_eq!(per_second(&run(&p)), [150, 250, 350, 450, 500, 500]);
}

#[test]
fn warm_up_runs_at_the_first_rate_and_the_profile_begins_after_it() {
    let step = |text: &str| RateStep { rate: rate(text), time: Span(SECOND) };
    let steps = vec![step("50/s"), step("500/s")];
    let mut p = timed(FAST, 2, Arrival::Steps { steps });
    p.run.warmup = Span(2 * SECOND);
    let done = run(&p);
    let measured: Vec<usize> = per_second(&done)[2..].to_vec();
    assert_eq!(measured, [50, 500]);
    assert_eq!(done.outcome.phases[0].ios, 100);
}

#[test]
fn recorded_times_are_met_and_end_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("times.txt");
    let times: Vec<u64> = (0..100).map(|i| i * i * 10_000).collect();
    let text: String = times.iter().map(|t| format!("{t}ns\n")).collect();
    std::fs::write(&file, text).unwrap();
    let arrival = Arrival::Replay { file: file.display().to_string() };
    let mut p = timed(FAST, 3600, arrival);
    p.workloads[0].workers = 3;
    let done = run(&p);
    let mut intended: Vec<u64> = done.ios.iter().map(|r| r.intended.unwrap().0 as u64).collect();
    intended.sort_unstable();
    assert_eq!(intended, times);
    assert_eq!(done.outcome.reason, StopReason::Planned);
    // It ended with the last one, long before its time.
    let end = done.outcome.phases.last().unwrap().end_ns.unwrap();
    assert!(end < SECOND as i64, "{end}");
    assert_eq!(done.outcome.unsent, 0);
}

#[test]
fn think_time_pauses_the_worker_after_every_nth_completion() {
    let mut p = timed(FAST, 1, Arrival::Burst);
    p.workloads[0].think = Some(Think { time: Span(990_000), every: 1, after: None });
    let done = run(&p);
    // 10 us of service and 990 us of pause: one a millisecond.
    assert_eq!(done.ios.len(), 1000);
    assert!(done.ios.iter().enumerate().all(|(i, r)| r.submit.0 as u64 == i as u64 * MS));
    p.workloads[0].think = Some(Think { time: Span(960_000), every: 4, after: None });
    // Four in a row, then the pause.
    let submits: Vec<u64> = run(&p).ios.iter().map(|r| r.submit.0 as u64).collect();
    assert_eq!(submits.len(), 4000);
    assert_eq!(submits[..5], [0, 10_000, 20_000, 30_000, MS]);
    // Deeper: what is in flight goes on, nothing new is started.
    p.workloads[0].queue_depth = 2;
    p.workloads[0].think = Some(Think { time: Span(980_000), every: 2, after: None });
    p.target.options =
        "channels = 2\nservice = { kind = \"constant\", time = \"20us\" }".parse().unwrap();
    let submits: Vec<u64> = run(&p).ios.iter().map(|r| r.submit.0 as u64).collect();
    assert_eq!(submits.len(), 2000);
    assert!(submits.iter().enumerate().all(|(i, t)| *t == i as u64 / 2 * MS));
}

#[test]
fn load_and_pauses_follow_each_other_by_the_clock() {
    let mut p = timed(
        "channels = 2\nservice = { kind = \"constant\", time = \"100us\" }",
        2,
        Arrival::Burst,
    );
    p.workloads[0].think =
        Some(Think { time: Span(30 * MS), every: 1, after: Some(Span(10 * MS)) });
    let done = run(&p);
    // A second has 25 cycles of 10 ms with load; each of two workers does ten a millisecond.
    assert_eq!(done.ios.len(), 25 * 2 * 100);
    let in_load = |r: &&Record| (r.submit.0 as u64 % (40 * MS)) < 10 * MS;
    assert!(done.ios.iter().all(|r| in_load(&r)));
}

#[test]
fn workers_join_step_by_step() {
    let mut p =
        timed("channels = 8\nservice = { kind = \"constant\", time = \"1ms\" }", 4, Arrival::Burst);
    p.workloads[0].workers = 5;
    p.workloads[0].ramp = Some(WorkerRamp { step: 2, every: Span(SECOND) });
    // 1000/s each: 2, 4, then all 5.
    assert_eq!(per_second(&run(&p)), [2000, 4000, 5000, 5000]);
    // With a rate each brings its share.
    p.workloads[0].arrival = Arrival::Constant { rate: rate("1000/s") };
    assert_eq!(per_second(&run(&p)), [400, 800, 1000, 1000]);
}

#[test]
fn passes_end_the_run_at_the_end_of_the_data() {
    for (kind, workers) in
        [(AccessKind::Sequential, 3), (AccessKind::Reverse, 2), (AccessKind::Random, 3)]
    {
        let mut p = timed(FAST, 3600, Arrival::Burst);
        p.target.size = Some(ByteSize(4096 * 1000));
        p.workloads[0].access.kind = kind;
        p.workloads[0].access.cover = kind == AccessKind::Random;
        p.workloads[0].workers = workers;
        p.workloads[0].passes = Some(2);
        let done = run(&p);
        let mut seen = vec![0; 1000];
        for r in &done.ios {
            seen[r.offset.unwrap() as usize / 4096] += 1;
        }
        assert!(seen.iter().all(|n| *n == 2), "{kind:?}");
        assert_eq!(done.outcome.reason, StopReason::Planned);
    }
}

#[test]
fn an_idle_run_ends_and_says_so() {
    let stalled = format!("{FAST}\nstalls = [{{ start = \"2s\", length = \"1000s\" }}]");
    let mut p = timed(&stalled, 2000, Arrival::Burst);
    p.run.idle_timeout = Some(Span(5 * SECOND));
    p.run.drain_timeout = Span(SECOND);
    let done = run(&p);
    assert_eq!(done.outcome.reason, StopReason::TargetFailed);
    let said = done.outcome.error.unwrap().to_string();
    assert!(said.contains("idle"), "{said}");
    assert_eq!(done.outcome.losses.unfinished, 1);
    // Waiting for one's own schedule is not idleness.
    let slow = Arrival::Constant { rate: rate("6/min") };
    let mut p = timed(FAST, 100, slow);
    p.run.idle_timeout = Some(Span(SECOND));
    let done = run(&p);
    assert_eq!(done.outcome.reason, StopReason::Planned);
    assert_eq!(done.ios.len(), 10);
}

#[test]
fn who_asks_for_the_end_waits_for_two_seconds_at_most() {
    let stalled = format!("{FAST}\nstalls = [{{ start = \"2s\", length = \"1000s\" }}]");
    let mut p = timed(&stalled, 20, Arrival::Burst);
    p.run.drain_timeout = Span(600 * SECOND);
    let done = common::run_until(&p, Some(4)).unwrap();
    assert_eq!(done.outcome.reason, StopReason::Stopped);
    let waited = done.ios.iter().find(|r| r.status == Status::UNFINISHED).unwrap().service_ns();
    assert!((4..6).contains(&(waited / SECOND)), "{waited}");
}

fn workload(name: &str, op: OpKind) -> WorkloadPlan {
    WorkloadPlan::simple(name, op, ByteSize(4096))
}

#[test]
fn load_is_counted_and_not_measured() {
    let mut p = timed(
        "channels = 4\nservice = { kind = \"constant\", time = \"100us\" }",
        2,
        Arrival::Burst,
    );
    let mut load = workload("load", OpKind::Write);
    load.measured = false;
    load.arrival = Arrival::Constant { rate: rate("500/s") };
    p.workloads.push(load);
    let done = run(&p);
    assert_eq!(done.ios.len(), 20_000);
    assert_eq!(done.outcome.operations, 20_000);
    let load: Vec<_> = done.rows.iter().filter(|r| r.workload == 1).collect();
    assert_eq!(load.iter().map(|r| r.ops).sum::<u64>(), 1000);
    assert!(load.iter().all(|r| r.p99_ns.is_none() && r.backlog.is_none()));
    // Operations are those of what is measured, and the load ends with them.
    p.run.duration = None;
    p.run.operations = Some(777);
    let done = run(&p);
    assert_eq!(done.ios.len(), 777);
    assert_eq!(done.outcome.operations, 777);
}

#[test]
fn a_workload_ends_the_run_for_all_with_its_first_worker() {
    let service = "channels = 4\nservice = { kind = \"constant\", time = \"100us\" }";
    let mut p = timed(service, 20, Arrival::Burst);
    let mut first = workload("first", OpKind::Write);
    (first.workers, first.operations, first.ends_run) = (2, Some(1000), true);
    p.workloads.push(first);
    let done = run(&p);
    let of = |workload| -> u64 {
        done.rows.iter().filter(|r| r.workload == workload).map(|r| r.ops).sum()
    };
    assert_eq!(of(1), 1000);
    assert!((500..=501).contains(&of(0)), "{}", of(0));
    assert_eq!(done.outcome.reason, StopReason::Planned);
}

#[test]
fn workloads_of_one_word_end_with_the_first_of_them() {
    let service = "channels = 4\nservice = { kind = \"constant\", time = \"100us\" }";
    let mut p = timed(service, 1, Arrival::Burst);
    for (name, operations) in [("first", Some(1000)), ("second", None)] {
        let mut w = workload(name, OpKind::Write);
        (w.operations, w.ends_with) = (operations, Some("x".to_owned()));
        p.workloads.push(w);
    }
    let done = run(&p);
    let of = |workload| -> u64 {
        done.rows.iter().filter(|r| r.workload == workload).map(|r| r.ops).sum()
    };
    assert_eq!(of(1), 1000);
    assert!((1000..=1001).contains(&of(2)), "{}", of(2));
    // The one without the word goes on to the end of the run.
    assert!(of(0) > 5000, "{}", of(0));
}

/// A writer at 1000/s and readers that follow it, all stamped.
fn stream(driver: &str, options: &str, blocks: u64) -> Plan {
    let mut p = plan(driver, options);
    p.target.size = Some(ByteSize(4096 * blocks));
    let mut writer = workload("writer", OpKind::Write);
    let mut reader = workload("reader", OpKind::Read);
    for w in [&mut writer, &mut reader] {
        w.access.kind = AccessKind::Follow;
        w.end_to_end = true;
    }
    writer.arrival = Arrival::Constant { rate: rate("1000/s") };
    reader.workers = 2;
    p.workloads = vec![writer, reader];
    p
}

#[test]
fn end_to_end_is_from_the_writers_stamp_to_the_nanosecond() {
    let options = "channels = 4\nservice = { kind = \"constant\", time = \"50us\" }";
    let mut p = stream("sim", options, 64);
    p.run.duration = Some(Span(SECOND));
    let done = run(&p);
    let read: Vec<&Record> = done.ios.iter().filter(|r| r.op == OpKind::Read).collect();
    // Each of two readers reads each of 1000 blocks, in a ring of 64.
    assert_eq!(read.len(), 2000);
    for r in &read {
        let origin = r.origin.unwrap();
        // Written in 50 us, then read in 50 us.
        assert_eq!(r.complete.since(origin), 100_000);
        assert_eq!(r.service_ns(), 50_000);
        assert_eq!(origin.0 as u64 % MS, 0);
        let block = origin.0 as u64 / MS;
        assert_eq!(r.offset.unwrap(), block % 64 * 4096);
    }
    assert!(done.ios.iter().filter(|r| r.op == OpKind::Write).all(|r| r.origin.is_none()));
}

#[test]
fn a_stream_ends_when_its_writer_has_and_readers_miss_nothing() {
    let options = "channels = 8\nservice = { kind = \"exponential\", mean = \"80us\" }";
    let mut p = stream("sim", options, 100);
    p.run.duration = Some(Span(3600 * SECOND));
    p.workloads[0].arrival = Arrival::Burst;
    p.workloads[0].workers = 3;
    p.workloads[0].queue_depth = 2;
    p.workloads[0].passes = Some(5);
    p.workloads[0].measured = false;
    p.workloads[1].queue_depth = 3;
    let done = run(&p);
    assert_eq!(done.outcome.reason, StopReason::Planned);
    assert_eq!(done.ios.len(), 1000, "500 blocks, two readers, nothing else kept");
    assert!(done.ios.iter().all(|r| r.status.is_ok() && r.origin.is_some()));
}

#[test]
fn a_reader_of_a_stalled_stream_is_idle() {
    let mut p = stream("sim", FAST, 64);
    p.run.duration = Some(Span(1000 * SECOND));
    p.run.idle_timeout = Some(Span(3 * SECOND));
    // One block, then nothing for minutes: the readers wait.
    p.workloads[0].arrival =
        Arrival::Bursts { rate: rate("1000/s"), on: Span(MS), off: Span(500 * SECOND) };
    let done = run(&p);
    assert_eq!(done.outcome.reason, StopReason::TargetFailed);
    assert_eq!(done.ios.len(), 3);
}

#[test]
fn end_to_end_through_a_file_that_grows() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream").display().to_string();
    for engine in ["sync", "uring"] {
        let mut p = stream("file", "", 256);
        p.target.path = Some(path.clone());
        p.target.options = format!("engine = \"{engine}\"\ndirect = false").parse().unwrap();
        p.run.operations = Some(1500);
        p.run.duration = Some(Span(30 * SECOND));
        p.workloads[0].arrival = Arrival::Burst;
        p.workloads[0].measured = false;
        let done = run(&p);
        let _ = std::fs::remove_file(&path);
        assert_eq!(done.ios.len(), 1500, "{engine}");
        assert_eq!(done.outcome.errors, [], "{engine}");
        for r in &done.ios {
            assert!(r.origin.unwrap() < r.complete && r.op == OpKind::Read);
        }
    }
}

#[test]
fn a_block_without_the_stamp_is_a_failure() {
    // Not on `null`, which keeps no data: stamps are then kept beside it, and blocks not looked at.
    let dir = tempfile::tempdir().unwrap();
    let mut p = stream("file", "engine = \"sync\"\ndirect = false", 16);
    p.target.path = Some(dir.path().join("f").display().to_string());
    p.run.operations = Some(64);
    // The writer does not stamp, the reader looks for stamps: plans like this are refused, the
    // engine still tells.
    p.workloads[0].end_to_end = false;
    p.workloads[0].measured = false;
    p.workloads[0].arrival = Arrival::Burst;
    let done = run(&p);
    assert_eq!(done.outcome.errors, [(Status::VERIFY, 64)]);
}

#[test]
fn count_issued_is_the_schedules_count_at_every_rate() {
    for rate in ["10/s", "1000/s", "30000/s", "1000000/s"] {
        let mut p = plan("null", "");
        p.run.duration = Some(Span(300 * MS));
        p.capture.mode = CaptureMode::Off;
        p.workloads[0].workers = 2;
        p.workloads[0].mix = vec![MixPart { op: OpKind::Write, weight: 1 }];
        p.workloads[0].arrival = Arrival::Constant { rate: rate.parse().unwrap() };
        let done = run(&p);
        let asked = 3 * rate.trim_end_matches("/s").parse::<u64>().unwrap() / 10;
        assert_eq!(done.outcome.operations + done.outcome.unsent, asked, "{rate}");
    }
}
