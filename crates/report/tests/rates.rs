//! What completed inside the measure phase, what after it, and how much time slow I/Os took.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::common::{self, Sample};
use taillight_core::plan::Arrival;
use taillight_report::{ReportOptions, make};
use taillight_rundir::manifest::{Manifest, ScheduleInfo};
use taillight_rundir::summary::Totals;
use taillight_rundir::{Summary, names};

/// The summary and the console text of a run whose manifest was changed.
fn made(sample: &Sample, change: impl FnOnce(&mut Manifest)) -> (Summary, String) {
    let root = tempfile::tempdir().unwrap();
    let path: &Path = &root.path().join("run");
    let mut manifest = common::write(path, sample);
    change(&mut manifest);
    std::fs::write(path.join(names::MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
    let options = ReportOptions { detail: true, ..ReportOptions::default() };
    let mut made = make(&[path], &options, &mut |_| true).unwrap();
    (made.summaries.remove(0), made.text)
}

/// The file with the recorded times is gone: how late each I/O was tells that the replay fell behind.
#[test]
fn a_replay_that_falls_behind_its_times_is_saturated() {
    let replay = |per_s: u64, stalls: Vec<(i64, i64)>| {
        let sample = Sample {
            seconds: 4,
            workers: 1,
            depth: 1,
            writes: 0,
            rate: Some(per_s),
            stalls,
            ..Sample::default()
        };
        made(&sample, |m| {
            let workloads = m.plan.workloads.iter_mut();
            workloads.for_each(|w| w.arrival = Arrival::Replay { file: "gone.txt".to_owned() });
            m.schedule = Some(ScheduleInfo { backlog_max: 50_000, unsent: 0, left_at_end: 0 });
        })
    };
    let (summary, text) = replay(20_000, Vec::new());
    assert!(summary.saturation.saturated, "{:?}", summary.saturation);
    assert!(text.contains("The replay fell behind its recorded times"), "{text}");
    let (calm, text) = replay(2_000, Vec::new());
    assert!(!calm.saturation.saturated && calm.saturation.asked_per_s.is_some(), "{text}");
    // What stands still at the end is late, but did not fall behind.
    let (stalled, _) = replay(2_000, vec![(3_800_000_000, 400_000_000)]);
    assert!(!stalled.saturation.saturated, "{:?}", stalled.saturation);
}

/// Few slow I/Os raise the mean, and beside it the tool's part looks small.
#[test]
fn the_tools_own_cost_is_held_against_the_usual_io() {
    let slow = Sample { stalls: vec![(1_000_000_000, 2_000_000_000)], ..Sample::default() };
    let (summary, text) = made(&slow, |m| m.overhead.null_ns_per_op = Some(3_000.0));
    let mean = summary.totals.latencies.service.mean_ns.unwrap();
    assert!(text.contains("of the median latency"), "{mean} {text}");
    let (_, text) = made(&slow, |m| m.overhead.null_ns_per_op = Some(300.0));
    assert!(!text.contains("of the median latency"), "{text}");
}

fn sums_are_counts(totals: &Totals) {
    let inside = totals.in_phase.unwrap();
    let drained = inside.drained.unwrap_or_default();
    assert_eq!(inside.count + drained.count, totals.count);
    assert_eq!(inside.bytes + drained.bytes, totals.bytes);
    assert_eq!(inside.errors + drained.errors, totals.errors);
    let good = (inside.count - inside.errors) as f64;
    assert!((inside.iops * inside.duration_ns as f64 / 1e9 / good - 1.0).abs() < 1e-9);
}

/// Two seconds with a stall from 1.9 to 3 s: eight I/Os are in flight at the end, and the last of them is
/// answered a second later.
#[test]
fn what_completes_after_the_phase_is_in_no_rate_of_it() {
    let stalled = Sample {
        seconds: 2,
        stalls: vec![(1_900_000_000, 1_100_000_000)],
        fail_every: Some(1_000),
        ..Sample::default()
    };
    let (summary, text) = made(&stalled, |_| {});
    let totals = &summary.totals;
    for totals in summary.ops.values().chain([totals, &summary.workloads[0].totals]) {
        sums_are_counts(totals);
    }
    let inside = totals.in_phase.unwrap();
    let drained = inside.drained.unwrap();
    assert_eq!((drained.count, inside.duration_ns), (8, 2_000_000_000));
    assert!((1_000_000_000..1_010_000_000).contains(&drained.duration_ns), "{drained:?}");
    // The whole rate keeps its meaning: all that was done until the last completion.
    let whole = (totals.count - totals.errors) as f64 / (totals.duration_ns as f64 / 1e9);
    assert!((totals.iops / whole - 1.0).abs() < 1e-9);
    assert!((1.49..1.51).contains(&(inside.iops / totals.iops)), "{inside:?} {}", totals.iops);
    let told = "8 I/Os came up to 1.00 s after the 2.00 s measured: within these ";
    assert_eq!(text.matches(told).count(), 1, "{text}");
}

#[test]
fn a_drain_that_changes_nothing_is_not_told_and_an_unknown_one_is_null() {
    let even = Sample { seconds: 2, stalls: vec![], ..Sample::default() };
    let (summary, text) = made(&even, |_| {});
    sums_are_counts(&summary.totals);
    assert!(summary.totals.in_phase.unwrap().drained.is_some_and(|d| d.count == 8));
    assert!(!text.contains("came up to"), "{text}");
    let killed = |m: &mut Manifest| {
        m.phases.retain(|p| p.name != "drain");
        m.phases.iter_mut().filter(|p| p.name == "measure").for_each(|p| p.end_ns = None);
    };
    let (summary, _) = made(&even, killed);
    assert_eq!(summary.totals.in_phase, None);
}

/// Two stalls hit 16 of some 500,000 I/Os, and all workers stand still for as long as they last.
#[test]
fn in_a_closed_loop_slow_ios_are_a_share_of_the_time_too() {
    let (summary, text) = made(&Sample::default(), |_| {});
    let qos = &summary.qos[0];
    let (ios, time) = (qos.share.unwrap().share.unwrap(), qos.time_share.unwrap());
    assert!(ios < 0.000_1 && time > 50.0 * ios && time < 0.02, "{ios} {time}");
    assert!(text.contains("of the workers' time"), "{text}");
    // A schedule sends on, so that its slow I/Os overlap without end.
    let rate = Sample { rate: Some(2_000), ..Sample::default() };
    let (summary, text) = made(&rate, |_| {});
    assert_eq!(summary.qos[0].time_share, None);
    assert!(!text.contains("of the workers' time"), "{text}");
}
