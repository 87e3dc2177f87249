//! The key test: on virtual time the pipeline must return the injected truth, to the nanosecond. What needs no
//! injected times runs on `null` in real time.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::{self, plan, run, run_until};
use taillight_core::Percentile;
use taillight_core::plan::{Arrival, CaptureMode, MixPart, Sync, VerifyMode};
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, OpKind, Record, Result, Status};
use taillight_driver::{
    AdminAction, Geometry, OpenSpec, Session, SessionSpec, Target, VirtualTime,
};
use taillight_engine::{StopFlag, StopReason};
use taillight_stats::Dist;

fn percentile(ios: &[Record], of: fn(&Record) -> u64, p: &str) -> u64 {
    let dist: Dist = ios.iter().filter(|r| r.status.is_ok()).map(of).collect();
    dist.percentile(&p.parse::<Percentile>().unwrap()).unwrap()
}

const CONSTANT: &str = "service = { kind = \"constant\", time = \"100us\" }";

#[test]
fn closed_loop_latency_is_exact_and_nothing_is_lost() {
    let mut p = plan("sim", CONSTANT);
    p.run.duration = Some(Span(3_000_000_000));
    let done = run(&p);
    assert_eq!(done.outcome.reason, StopReason::Planned);
    // 100 us each, one at a time, from 0 to 3 s: submits at 0, 100 us, ... below 3 s.
    assert_eq!(done.ios.len(), 30_000);
    for (i, r) in done.ios.iter().enumerate() {
        assert_eq!((r.submit.0, r.service_ns()), (i as i64 * 100_000, 100_000));
        assert_eq!(r.intended, None);
        assert_eq!(r.issued, None);
    }
    assert_eq!(done.rows.iter().map(|r| r.ops).sum::<u64>(), 30_000);
    assert!(done.rows.iter().all(|r| r.depth_mean > 0.999 && r.depth_mean < 1.001));
    assert_eq!(done.views.len(), done.rows.len());
    // What completes at the very end of an interval was in flight then.
    let at_end = done.views[..2].iter().map(|view| view.closed.in_flight[0]);
    assert!(at_end.clone().all(|f| (f.count, f.oldest_ns) == (1, 100_000)), "{at_end:?}");
}

#[test]
fn omission_is_not_hidden_200_ms_stalls_at_1000_per_second() {
    let options = "service = { kind = \"constant\", time = \"100us\" }\n\
        stalls = [{ start = \"1s\", length = \"200ms\", period = \"2s\" }]";
    let mut p = plan("sim", options);
    p.run.duration = Some(Span(10_000_000_000));
    p.workloads[0].arrival = Arrival::Constant { rate: "1000/s".parse().unwrap() };
    let done = run(&p);
    assert_eq!(done.ios.len(), 10_000);
    let intended: Vec<i64> = done.ios.iter().map(|r| r.intended.unwrap().0).collect();
    assert!(intended.iter().enumerate().all(|(i, t)| *t == i as i64 * 1_000_000));
    // The truth: the operation due at 1.000 s waits 200 ms; one due k ms later waits 0.9 k ms
    // less (each of its predecessors is served in 0.1 ms after the stall).
    let at = |ms: usize| done.ios[ms].response_ns();
    assert_eq!(at(999), 100_000);
    assert_eq!(at(1000), 200_100_000);
    assert_eq!(at(1001), 200_200_000 - 1_000_000);
    assert_eq!(at(1100), 200_100_000 + 100 * 100_000 - 100 * 1_000_000);
    assert_eq!(at(1222), 300_000);
    assert_eq!(at(1223), 100_000);
    assert_eq!(percentile(&done.ios, Record::service_ns, "50"), 100_000);
    let p99 = percentile(&done.ios, Record::response_ns, "99");
    assert!((170_000_000..=205_000_000).contains(&p99), "{p99}");
    // Response = service + wait, to the ns.
    assert!(done.ios.iter().all(|r| r.response_ns() == r.service_ns() + r.wait_ns()));
    assert_eq!(done.outcome.unsent, 0);
    let stalled = done.rows.iter().find(|r| r.start_ns == 1_000_000_000).unwrap();
    assert!(stalled.response_p99_ns.unwrap() > 190_000_000);
}

#[test]
fn a_saturated_schedule_stands_and_its_backlog_is_told() {
    let mut p = plan("sim", CONSTANT);
    p.run.duration = Some(Span(5_000_000_000));
    p.run.interval = Span(500_000_000);
    p.workloads[0].arrival = Arrival::Constant { rate: "20000/s".parse().unwrap() };
    let done = run(&p);
    // 100,000 asked; 10,000/s served for 5 s plus one interval of grace.
    assert_eq!(done.ios.len() as u64 + done.outcome.unsent, 100_000);
    assert_eq!(done.ios.len(), 55_000);
    // Half of what was asked had not been sent when the time was over.
    assert_eq!(done.outcome.left_at_end, 50_000);
    assert_eq!(done.ios[49_999].response_ns(), 50_000 * 100_000 - 49_999 * 50_000);
    let backlogs: Vec<u64> = done.rows.iter().map(|r| r.backlog.unwrap()).collect();
    assert!(backlogs.windows(2).take(8).all(|w| w[1] > w[0]), "{backlogs:?}");
    // What goes on after its time is said, once, with the backlog of the last interval that ended.
    assert_eq!(done.overtimes, [Some(backlogs[8])]);
    assert_eq!(backlogs[8], 45_000);
}

#[test]
fn waiting_for_a_slow_operation_after_the_end_is_told_and_a_usual_end_is_not() {
    let mut p = plan("sim", CONSTANT);
    p.run.duration = Some(Span(1_000_000_000));
    assert_eq!(run(&p).overtimes, []);
    p.target.options = "service = { kind = \"constant\", time = \"900ms\" }".parse().unwrap();
    assert_eq!(run(&p).overtimes, [None]);
}

#[test]
fn workers_and_depth_share_the_channels() {
    let mut p = plan("sim", &format!("channels = 4\n{CONSTANT}"));
    p.run.duration = Some(Span(1_000_000_000));
    p.workloads[0].workers = 2;
    p.workloads[0].queue_depth = 8;
    let done = run(&p);
    // 16 outstanding on 4 channels of 10,000/s: 40,000/s; each waits for 4 services.
    let last = percentile(&done.ios, Record::service_ns, "99");
    assert_eq!(last, 400_000);
    assert!((40_000..=40_016).contains(&done.ios.len()), "{}", done.ios.len());
    assert!(done.ios.iter().all(|r| r.issued == Some(r.submit)));
    assert_eq!(done.outcome.operations, done.ios.len() as u64);
}

#[test]
fn errors_are_counted_and_kept_out_of_latency() {
    let options = format!("errors = {{ every = 10, errno = 28 }}\n{CONSTANT}");
    let mut p = plan("sim", &options);
    p.run.operations = Some(1000);
    let done = run(&p);
    assert_eq!(done.outcome.errors, [(Status::errno(28), 100)]);
    assert_eq!(done.ios.iter().filter(|r| r.status == Status::errno(28)).count(), 100);
    assert_eq!(done.rows.iter().map(|r| r.errors).sum::<u64>(), 100);
    assert_eq!(done.rows.iter().map(|r| r.bytes).sum::<u64>(), 900 * 4096);
}

#[test]
fn a_target_that_only_fails_is_gone() {
    let mut p = plan("sim", &format!("errors = {{ every = 1, errno = 5 }}\n{CONSTANT}"));
    p.run.duration = Some(Span(60_000_000_000));
    let done = run(&p);
    assert_eq!(done.outcome.reason, StopReason::TargetFailed);
    assert_eq!(done.ios.len(), 1000);
}

#[test]
fn sync_is_inside_the_write_and_alone() {
    let mut p = plan("sim", &format!("sync = \"70us\"\n{CONSTANT}"));
    p.workloads[0].mix = vec![MixPart { op: OpKind::Write, weight: 1 }];
    p.workloads[0].sync = Sync::Fdatasync(2);
    p.run.operations = Some(1001);
    let done = run(&p);
    for (i, r) in done.ios.iter().enumerate() {
        let expected = if i % 2 == 1 { (170_000, Some(70_000)) } else { (100_000, None) };
        assert_eq!((r.service_ns(), r.sync_ns), expected);
    }
}

#[test]
fn warm_up_is_apart() {
    let mut p = plan("sim", CONSTANT);
    p.run.warmup = Span(2_500_000_000);
    p.run.duration = Some(Span(1_000_000_000));
    let done = run(&p);
    assert_eq!(done.phases, ["warmup", "measure"]);
    assert_eq!(done.ios.len(), 10_000);
    assert!(done.ios.iter().all(|r| r.submit.0 >= 2_500_000_000));
    let warm: u64 = done.rows.iter().filter(|r| r.phase == "warmup").map(|r| r.ops).sum();
    assert_eq!(warm, 25_000 - 1 + 1 - 1, "the last one completes as the measure phase begins");
    let phases: Vec<_> = done.outcome.phases.iter().map(|p| (p.name.as_str(), p.ios)).collect();
    assert_eq!(phases, [("warmup", 25_000), ("measure", 10_000), ("drain", 0)]);
}

/// One that waited from the warm-up on to the end of the run stood in no figure.
#[test]
fn an_operation_that_goes_on_from_the_warm_up_is_told() {
    let options = "service = { kind = \"constant\", time = \"100us\" }\n\
        stalls = [{ start = \"900ms\", length = \"1500ms\", period = \"10s\" }]";
    let mut p = plan("sim", options);
    (p.run.warmup, p.run.duration) = (Span(1_000_000_000), Some(Span(1_000_000_000)));
    let done = run(&p);
    let carried = done.outcome.losses.warmup_carried_ns.unwrap();
    // It began at 0.9 s, and the warm-up ended at 1 s.
    assert!((1_400_000_000..=1_400_200_000).contains(&carried), "{carried}");
    assert_eq!(done.ios.len(), 0);
}

#[test]
fn stopping_keeps_what_was_measured() {
    let mut p = plan("sim", CONSTANT);
    p.run.duration = Some(Span(1_000_000_000_000));
    let done = run_until(&p, Some(3)).unwrap();
    assert_eq!(done.outcome.reason, StopReason::Stopped);
    assert!((30_000..40_000).contains(&done.ios.len()), "{}", done.ios.len());
}

#[test]
fn same_seed_same_operations_and_other_seed_others() {
    let mut p = plan("sim", "service = { kind = \"exponential\", mean = \"50us\" }");
    p.run.operations = Some(5000);
    p.workloads[0].workers = 3;
    p.workloads[0].queue_depth = 4;
    let (a, b) = (run(&p).ios, run(&p).ios);
    assert_eq!(a, b);
    p.run.seed = 8;
    assert_ne!(a, run(&p).ios);
}

#[test]
fn bytes_and_operations_end_a_run_exactly() {
    let mut p = plan("sim", CONSTANT);
    p.workloads[0].workers = 3;
    p.run.operations = Some(1000);
    assert_eq!(run(&p).ios.len(), 1000);
    p.run.operations = None;
    p.run.bytes = Some(ByteSize(4096 * 500));
    assert!((500..=502).contains(&run(&p).ios.len()));
}

#[test]
fn null_in_real_time_captures_every_one() {
    for depth in [1, 32] {
        let mut p = plan("null", "");
        p.run.operations = Some(2_000_000);
        p.workloads[0].workers = 2;
        p.workloads[0].queue_depth = depth;
        let done = run(&p);
        assert_eq!(done.ios.len(), 2_000_000);
        assert_eq!(done.rows.iter().map(|r| r.ops).sum::<u64>(), 2_000_000);
        assert!(done.ios.iter().all(|r| r.issued.is_some() == (depth > 1)));
        assert!(done.outcome.overhead.null_ns_per_op.unwrap() > 1.0);
    }
}

#[test]
fn past_the_budget_only_outliers_are_kept_and_said() {
    let mut p = plan("null", "");
    p.run.operations = Some(6_000_000);
    p.run.interval = Span(50_000_000);
    p.capture.budget = ByteSize(32 << 20);
    let done = run(&p);
    let degraded = done.outcome.capture.degraded.unwrap();
    let kept = done.ios.len() as u64;
    assert!(kept > 1_000_000 && kept < 6_000_000, "{kept}");
    assert_eq!(kept + degraded.not_kept + done.outcome.losses.ios, 6_000_000);
    assert_eq!(done.outcome.operations, 6_000_000);
}

#[test]
fn capture_off_keeps_histograms_only() {
    let mut p = plan("null", "");
    p.run.operations = Some(10_000);
    p.capture.mode = CaptureMode::Off;
    let done = run(&p);
    assert!(done.ios.is_empty());
    assert_eq!(done.rows.iter().map(|r| r.ops).sum::<u64>(), 10_000);
}

#[test]
fn a_schedule_in_real_time_issues_every_one_on_time() {
    let mut p = plan("null", "");
    p.run.duration = Some(Span(300_000_000));
    p.workloads[0].workers = 2;
    for rate in [10u64, 1000, 100_000] {
        p.workloads[0].arrival = Arrival::Constant { rate: format!("{rate}/s").parse().unwrap() };
        let done = run(&p);
        assert_eq!(done.ios.len() as u64, rate * 3 / 10, "{rate}");
        assert_eq!(done.outcome.unsent, 0);
    }
}

#[test]
fn spill_keeps_everything_past_the_budget() {
    let spill = tempfile::tempdir().unwrap();
    let mut p = plan("null", "");
    p.run.operations = Some(4_000_000);
    p.workloads[0].arrival = Arrival::Constant { rate: "2000000/s".parse().unwrap() };
    p.capture.budget = ByteSize(48 << 20);
    p.capture.dir = Some(spill.path().display().to_string());
    let done = run(&p);
    let kept = done.ios.len() as u64;
    let not_kept = done.outcome.capture.degraded.map_or(0, |d| d.not_kept);
    assert_eq!(kept + not_kept + done.outcome.losses.ios, done.outcome.operations);
    assert!(kept > 2_000_000, "{kept}");
    assert_eq!(std::fs::read_dir(spill.path()).unwrap().count(), 0, "spilled chunks are gone");
}

#[test]
fn a_slow_schedule_measures_its_whole_time() {
    let mut p = plan("sim", CONSTANT);
    p.run.duration = Some(Span(2_000_000_000));
    p.workloads[0].arrival = Arrival::Constant { rate: "5/s".parse().unwrap() };
    let done = run(&p);
    assert_eq!(done.ios.len(), 10);
    let measure = done.outcome.phases.iter().find(|p| p.name == "measure").unwrap();
    assert_eq!(measure.end_ns.unwrap() - measure.start_ns, 2_000_000_000);
    assert_eq!(done.rows.iter().map(|r| r.length_ns).sum::<u64>(), 2_000_000_000);
}

#[test]
fn a_run_ended_by_a_count_has_nothing_unsent_and_tells_its_backlog() {
    let mut p = plan("sim", "service = { kind = \"constant\", time = \"2ms\" }");
    p.run.operations = Some(1000);
    p.workloads[0].arrival = Arrival::Constant { rate: "1000/s".parse().unwrap() };
    let done = run(&p);
    assert_eq!((done.ios.len(), done.outcome.unsent), (1000, 0));
    // 2 ms each against 1 ms asked: the last starts 1 s late, 1000 behind.
    assert!((990..=1000).contains(&done.outcome.backlog_max), "{}", done.outcome.backlog_max);
}

#[test]
fn a_stall_inside_an_interval_shows_in_the_backlog() {
    let options = "service = { kind = \"constant\", time = \"10us\" }\n\
        stalls = [{ start = \"300ms\", length = \"500ms\" }]";
    let mut p = plan("sim", options);
    p.run.duration = Some(Span(1_000_000_000));
    p.workloads[0].arrival = Arrival::Constant { rate: "10000/s".parse().unwrap() };
    let max = run(&p).outcome.backlog_max;
    assert!((4_990..=5_001).contains(&max), "{max}");
}

#[test]
fn open_and_closed_loops_side_by_side_keep_their_histograms_apart() {
    let mut p = plan("null", "");
    p.run.duration = Some(Span(400_000_000));
    p.run.interval = Span(20_000_000);
    p.capture.mode = CaptureMode::Off;
    let mut open = p.workloads[0].clone();
    open.name = "open".into();
    open.arrival = Arrival::Constant { rate: "5000/s".parse().unwrap() };
    p.workloads.push(open);
    let done = run(&p);
    for row in done.rows.iter().filter(|r| r.ops > 0) {
        assert_eq!(row.response_p99_ns.is_some(), row.workload == 1, "{row:?}");
    }
    // One that was due while its thread had no CPU at the end is not sent any more.
    let sent: u64 = done.rows.iter().filter(|r| r.workload == 1).map(|r| r.ops).sum();
    assert_eq!(sent + done.outcome.unsent, 2000);
}

#[test]
fn a_stop_request_is_seen_soon_by_operations_that_complete_at_once() {
    let mut p = plan("null", "");
    p.run.duration = Some(Span(60_000_000_000));
    p.run.interval = Span(50_000_000);
    let start = std::time::Instant::now();
    let done = run_until(&p, Some(2)).unwrap();
    assert_eq!(done.outcome.reason, StopReason::Stopped);
    assert!(start.elapsed().as_secs() < 30);
}

/// A target that tells whether it was closed.
struct ClosingTarget {
    inner: Box<dyn Target>,
    sessions: bool,
    closed: Arc<AtomicBool>,
}

impl Target for ClosingTarget {
    fn geometry(&self) -> Geometry {
        self.inner.geometry()
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        match self.sessions || spec.worker == 0 {
            true => self.inner.session(spec),
            false => Err(Error::unavailable("no session")),
        }
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        self.inner.admin(action)
    }
    fn virtual_time(&self) -> Option<Arc<dyn VirtualTime>> {
        self.inner.virtual_time()
    }
    fn close(self: Box<Self>) -> Result<()> {
        self.closed.store(true, Ordering::Relaxed);
        self.inner.close()
    }
}

#[test]
fn a_load_that_cannot_begin_closes_its_target() {
    for driver in ["sim", "null"] {
        for sessions in [true, false] {
            let mut plan = common::plan(driver, "");
            plan.workloads[0].workers = 2;
            if sessions {
                (plan.verify.mode, plan.verify.run) = (VerifyMode::Inline, Some("/nowhere".into()));
            }
            let bound = taillight_driver::bind(&plan.target).unwrap();
            plan.target.options = bound.options().unwrap();
            let stop = StopFlag::default();
            let spec = OpenSpec {
                plan: &plan,
                run_id: "t",
                destroy: None,
                stop: &stop,
                fits: &|_| Ok(()),
            };
            let inner = bound.open(&spec, &mut |_| true).unwrap();
            let closed = Arc::<AtomicBool>::default();
            let target = ClosingTarget { inner, sessions, closed: closed.clone() };
            let dir = tempfile::tempdir().unwrap();
            let id = common::fresh_id();
            let place = (id.as_str(), &*dir.path().join("run"));
            let ran =
                common::run_on(Box::new(target), &plan, place, &stop, &mut Default::default());
            assert!(ran.is_err(), "{driver}");
            assert!(closed.load(Ordering::Relaxed), "{driver}, sessions {sessions}");
        }
    }
}
