//! Runs whose level changes while they are measured say so.

#![allow(clippy::unwrap_used)]

use std::path::Path;

use crate::common::{self, Sample};
use taillight_core::plan::{Arrival, WorkerRamp};
use taillight_report::{ReportOptions, make};
use taillight_rundir::manifest::Manifest;
use taillight_rundir::summary::{ChangedFigure, LevelChange, VerdictStatus};
use taillight_rundir::{Summary, names};

fn sample() -> Sample {
    Sample { seconds: 12, read_ns: 1_000_000.0, writes: 0, stalls: vec![], ..Sample::default() }
}

/// The summary of a run whose manifest was changed.
fn summary(sample: &Sample, change: impl FnOnce(&mut Manifest)) -> Summary {
    let root = tempfile::tempdir().unwrap();
    let path: &Path = &root.path().join("run");
    let mut manifest = common::write(path, sample);
    change(&mut manifest);
    std::fs::write(path.join(names::MANIFEST), serde_json::to_vec(&manifest).unwrap()).unwrap();
    make(&[path], &ReportOptions::default(), &mut |_| true).unwrap().summaries.remove(0)
}

fn of(summary: &Summary, figure: ChangedFigure) -> Option<&LevelChange> {
    summary.changes.iter().find(|c| c.figure == figure)
}

#[test]
fn a_closed_loop_that_slows_down_says_when_and_how_much() {
    let slower = Sample { slower: Some((10_500_000_000, 3.0)), ..sample() };
    let two_ms = "2ms".parse().unwrap();
    let made = summary(&slower, |m| m.plan.qos.ceilings[0].ceiling = two_ms);
    let rate = of(&made, ChangedFigure::Rate).unwrap();
    assert!((rate.at_s - 10.5).abs() < 0.2, "{rate:?}");
    assert!((2.7..3.3).contains(&(rate.before / rate.after)), "{rate:?}");
    let apart = rate.rate_before.unwrap() / rate.rate_after.unwrap();
    assert!((2.7..3.3).contains(&apart), "{rate:?}");
    let median = of(&made, ChangedFigure::Median).unwrap();
    assert!((2.9..3.1).contains(&(median.after / median.before)), "{median:?}");
    let over = rate.over[0];
    assert_eq!(over.ceiling_ns, 2_000_000);
    assert!(over.before < Some(0.15) && over.after > Some(0.9), "{over:?}");
    // Slow I/Os take more of the workers' time than they are of the I/Os.
    assert!(over.time_before > over.before && over.time_after.is_some(), "{over:?}");
    let told = made.verdict.reasons.iter().find(|r| r.code == "level_changed").unwrap();
    assert!(told.text.starts_with("Since second 10.5: "), "{}", told.text);
    for part in ["/s instead of ", "half within 3", "over 2.00 ms (before: ", "workers' time"] {
        assert!(told.text.contains(part), "{part}: {}", told.text);
    }
    assert_eq!(made.verdict.status, VerdictStatus::Warned);
}

#[test]
fn a_steady_run_and_a_load_that_changes_by_itself_say_nothing() {
    let made = summary(&sample(), |_| ());
    assert!(made.changes.is_empty(), "{:?}", made.changes);
    let slower = Sample { slower: Some((10_500_000_000, 3.0)), ..sample() };
    let ramp = WorkerRamp { step: 1, every: taillight_core::units::Span(1_000_000_000) };
    let made = summary(&slower, |m| m.plan.workloads[0].ramp = Some(ramp));
    assert!(made.changes.is_empty(), "{:?}", made.changes);
    // Two bursts in 12 s: the second may have found another neighbour.
    let bursts = |on: &str| {
        let (rate, on) = ("8000/s".parse().unwrap(), on.parse().unwrap());
        Arrival::Bursts { rate, on, off: on }
    };
    let made = summary(&slower, |m| m.plan.workloads[0].arrival = bursts("3s"));
    assert!(made.changes.is_empty(), "{:?}", made.changes);
    let made = summary(&slower, |m| m.plan.workloads[0].arrival = bursts("500ms"));
    assert!(of(&made, ChangedFigure::Median).is_some(), "{:?}", made.changes);
    // Of a schedule the rate is no figure of the target.
    let rate = |m: &mut Manifest| {
        m.plan.workloads[0].arrival = Arrival::Constant { rate: "8000/s".parse().unwrap() };
    };
    let made = summary(&slower, rate);
    assert!(of(&made, ChangedFigure::Rate).is_none(), "{:?}", made.changes);
    let median = of(&made, ChangedFigure::Median).unwrap();
    assert_eq!(median.over[0].time_before, None);
}
