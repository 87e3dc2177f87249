//! Histories of made-up nights.

use std::path::PathBuf;

use taillight_rundir::fixture;

use super::*;

const HOUR: i64 = 3_600_000_000_000;
const BEGIN: i64 = 1_700_000_000_000_000_000;

/// A run that began so many hours after the first, with this 99th percentile.
fn run(hours: i64, p99_ns: f64) -> SideRun {
    let id = format!("run-{hours}");
    let mut manifest = fixture::manifest(&id);
    manifest.clock.realtime_ns = BEGIN + hours * HOUR;
    let mut summary = fixture::summary(&id);
    summary.totals.errors = 0;
    let totals = summary.ops.get_mut(&OpKind::Read).expect("reads");
    for (_, latency) in totals.latencies.iter_mut() {
        latency.percentiles.iter_mut().for_each(|p| p.quantile.ns = Some(p99_ns as u64));
    }
    SideRun { dir: PathBuf::from(&id), manifest, summary, rates: Default::default() }
}

/// A run each night, around these levels with noise of 1 % that is the same each time.
fn nightly(levels: &[(usize, f64)]) -> Vec<SideRun> {
    let levels = levels.iter().flat_map(|(nights, level)| vec![*level; *nights]);
    let noise = |night: usize| 1.0 + 0.01 * ((night * 37 % 11) as f64 - 5.0) / 3.0;
    levels.enumerate().map(|(night, level)| run(24 * night as i64, level * noise(night))).collect()
}

fn p99() -> HistoryRequest {
    HistoryRequest {
        night: Span(12 * HOUR as u64),
        figures: vec![(OpKind::Read, "p99".to_owned())],
        anyway: false,
    }
}

fn found(runs: Vec<SideRun>) -> HistoryFile {
    of_runs(runs, Vec::new(), &p99()).expect("a history")
}

#[test]
fn a_step_is_a_change_with_its_date_and_size() {
    let file = found(nightly(&[(20, 1e6), (12, 1.2e6)]));
    let track = &file.figures[0];
    let [change] = track.changes.as_slice() else { panic!("{:?}", track.changes) };
    assert_eq!((change.night, change.previous, change.run_id.as_str()), (20, 19, "run-480"));
    assert_eq!(change.verdict, CompareVerdict::Worse);
    assert!(change.lo < 1.2 && 1.2 < change.hi && change.p < file.p, "{change:?}");
    assert_eq!(file.nights[20].date, "2023-12-04");
    assert!(track.suspect.is_none() && track.enough);
    let text = console(&file);
    assert!(
        text.contains("2023-12-04") && text.contains("+20.") && text.contains("worse"),
        "{text}"
    );
    assert!(markdown(&file).contains("| read p99 | 2023-12-04 |"));
}

#[test]
fn level_nights_have_no_change() {
    let file = found(nightly(&[(40, 1e6)]));
    assert!(file.figures[0].changes.is_empty() && file.figures[0].suspect.is_none());
    assert!(console(&file).contains("no change found"));
}

/// A step where something else changed as well says nothing of the storage.
#[test]
fn a_change_is_never_looked_for_across_a_segment() {
    let mut runs = nightly(&[(15, 1e6), (15, 1.5e6)]);
    runs.iter_mut().skip(15).for_each(|run| run.manifest.plan.workloads[0].queue_depth = 7);
    let file = found(runs);
    let segments: Vec<_> = file.segments.iter().map(|s| (s.first, s.last)).collect();
    assert_eq!(segments, [(0, 14), (15, 29)]);
    assert!(file.segments[1].differs.as_ref().is_some_and(|d| d.contains("queue_depth")));
    assert!(file.figures[0].changes.is_empty(), "{:?}", file.figures[0].changes);
    let said = console(&file).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("No change is looked for across"), "{said}");
}

#[test]
fn the_newest_night_is_no_more_than_a_suspect() {
    let file = found(nightly(&[(20, 1e6), (1, 1.5e6)]));
    let track = &file.figures[0];
    assert!(track.changes.is_empty(), "one night is no change");
    let suspect = track.suspect.as_ref().expect("a suspect");
    assert_eq!((suspect.night, suspect.since), (20, 0));
    assert_eq!(suspect.verdict, CompareVerdict::Worse);
    assert!(console(&file).contains("Suspect: 2023-12-04: read p99"));
    // A night far off that is not the newest is an outlier.
    let mut runs = nightly(&[(10, 1e6), (1, 1.5e6), (10, 1e6)]);
    assert!(found(runs.clone()).figures[0].suspect.is_none());
    // Nor is it one where the newest night is of another kind.
    runs.truncate(11);
    runs[10].manifest.plan.workloads[0].queue_depth = 7;
    assert!(found(runs).figures[0].suspect.is_none());
}

#[test]
fn runs_of_one_night_are_one_value_their_median() {
    let mut runs = nightly(&[(3, 1e6)]);
    runs.extend([run(25, 3e6), run(26, 2e6)]);
    runs.sort_by_key(|run| run.manifest.clock.realtime_ns);
    let file = found(runs);
    assert_eq!(file.nights.iter().map(|n| n.runs.len()).collect::<Vec<_>>(), [1, 3, 1]);
    let value = file.figures[0].values[1].expect("a value");
    assert!((value - 2e6).abs() < 1.0, "{value}");
    assert_eq!(median(vec![4.0, 1.0]), Some(2.0));
    assert_eq!(median(Vec::new()), None);
}

#[test]
fn missing_nights_are_told() {
    let mut runs = nightly(&[(30, 1e6)]);
    runs.drain(10..14);
    let file = found(runs);
    assert_eq!(file.gaps, [HistoryGap { after: 9, missing: 4 }]);
    assert!(console(&file).contains("About 4 nights are missing after 2023-11-23."));
}

/// Runs soon after each other between runs far apart.
#[test]
fn runs_at_any_distance_are_a_history() {
    let hours = [0, 24, 48, 49, 72, 96];
    let runs = hours.map(|hours| run(hours, 1e6)).to_vec();
    let each = HistoryRequest { night: Span(0), ..p99() };
    let file = of_runs(runs, Vec::new(), &each).expect("a history");
    assert_eq!((file.nights.len(), file.gaps.len()), (6, 0));
    assert_eq!(file.nights[2].date, "2023-11-16 22:13:20");
}

#[test]
fn a_history_of_one_night_or_of_several_jobs_is_refused() {
    let refused = |runs: Vec<SideRun>| of_runs(runs, Vec::new(), &p99()).expect_err("refused");
    let e = refused(nightly(&[(1, 1e6)]));
    assert_eq!(
        (e.kind(), e.message()),
        (taillight_core::ErrorKind::Usage, "one night has no history")
    );
    let mut runs: Vec<SideRun> =
        nightly(&[(8, 1e6)]).into_iter().flat_map(|run| [run.clone(), run]).collect();
    for run in runs.iter_mut().step_by(2) {
        run.manifest.plan.workloads[0].queue_depth = 7;
    }
    let e = refused(runs);
    assert!(e.message().contains("several jobs"), "{e}");
    assert!(e.to_string().contains("queue_depth"), "{e}");
}

/// Something that was tried for a while is no reason to refuse.
#[test]
fn a_setting_changed_and_back_is_a_history() {
    let mut runs = nightly(&[(30, 1e6)]);
    runs.iter_mut().skip(10).take(10).for_each(|r| r.manifest.plan.workloads[0].queue_depth = 7);
    assert_eq!(found(runs).segments.len(), 3);
}

#[test]
fn few_nights_are_called_so() {
    let file = found(nightly(&[(5, 1e6)]));
    assert!(!file.figures[0].enough && file.figures[0].suspect.is_none());
    assert!(console(&file).contains("too few nights"));
}

#[test]
fn a_figure_that_is_not_there_is_refused_and_those_there_are_named() {
    let nights = nightly(&[(8, 1e6)]);
    let request = HistoryRequest { figures: vec![(OpKind::Write, "p99".to_owned())], ..p99() };
    let e = of_runs(nights.clone(), Vec::new(), &request).expect_err("refused");
    assert!(e.hint_text().is_some_and(|hint| hint.contains("read:p99")), "{e}");
    // Percentiles of a run that fell behind its rate are none.
    let mut behind = nights;
    for run in &mut behind {
        run.summary.verdict.status = taillight_rundir::summary::VerdictStatus::Saturated;
    }
    let file = of_runs(behind, Vec::new(), &HistoryRequest { figures: Vec::new(), ..p99() });
    let figures: Vec<String> = file.expect("rates").figures.into_iter().map(|f| f.figure).collect();
    assert_eq!(figures, ["iops"]);
}

#[test]
fn all_nights_scaled_have_the_same_changes() {
    let at = |times: f64| {
        let file = found(nightly(&[(20, 1e6 * times), (12, 1.2e6 * times)]));
        file.figures[0]
            .changes
            .iter()
            .map(|c| (c.night, (c.ratio * 1e5).round()))
            .collect::<Vec<_>>()
    };
    assert_eq!(at(1.0), at(1000.0));
}
