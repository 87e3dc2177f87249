//! `watch --exact`: windows of time in which every call is counted, also those that do not block. Makes of them rates
//! for `watched.json` (with 95 % intervals), intervals for the report where other counts are not whole, and words.

use std::collections::BTreeMap;

use taillight_core::OpKind;
use taillight_core::units::readable::in_line;
use taillight_report::format::{count, counted, duration_ns};
use taillight_rundir::origin::{RunOrigin, SampleTime};
use taillight_rundir::watched::{CountedInterval, SampledOp, WatchedOp, WatchedSample};
use taillight_stats::compare::mean_of_steps;
use taillight_trace::watch::{ExactSample, JUDGED};

use super::counts::interval_of;

/// The windows as `watched.json` has them, of a watch that took `watched_ns`.
pub fn of(sample: &ExactSample, watched_ns: u64) -> WatchedSample {
    let time = time(sample);
    let mut rates: BTreeMap<OpKind, Vec<f64>> = BTreeMap::new();
    for (i, window) in sample.windows.iter().enumerate() {
        for (op, tally) in &window.ops {
            // A window without any counts as well.
            let all = rates.entry(*op).or_insert_with(|| vec![0.0; sample.windows.len()]);
            all[i] = tally.count as f64 * 1e9 / window.length_ns.max(1) as f64;
        }
    }
    let sampled = |(op, rates): (OpKind, Vec<f64>)| {
        let ops = sample.windows.iter().flat_map(|window| &window.ops);
        let seen: u64 = ops.filter(|it| it.0 == op).map(|it| it.1.count).sum();
        let interval = mean_of_steps(&rates);
        SampledOp {
            op,
            seen,
            per_s: seen as f64 * 1e9 / time.ns.max(1) as f64,
            per_s_low: interval.as_ref().map(|it| it.lo),
            per_s_high: interval.as_ref().map(|it| it.hi),
        }
    };
    WatchedSample {
        windows: time.windows,
        ns: time.ns,
        share: time.ns as f64 / watched_ns.max(1) as f64,
        open: sample.open,
        failed: sample.failed.clone(),
        ops: rates.into_iter().map(sampled).collect(),
    }
}

fn time(sample: &ExactSample) -> SampleTime {
    SampleTime {
        windows: sample.windows.iter().map(|window| window.windows).sum(),
        ns: sample.windows.iter().map(|window| window.length_ns).sum(),
    }
}

/// Whether the report's figures are of the windows: where these have reads, writes or syncs of a kind that was not
/// counted whole outside of them.
pub fn is_used(sample: &ExactSample, ops: &[WatchedOp]) -> bool {
    let whole = |op: OpKind| ops.iter().any(|it| it.op == op && it.whole);
    let mut all = sample.windows.iter().flat_map(|window| &window.ops).map(|it| it.0);
    all.any(|op| JUDGED.contains(&op) && !whole(op))
}

/// The same origin of a watched run, which says that figures are of these windows; any other origin as it is.
pub fn origin(mut origin: RunOrigin, windows: &ExactSample) -> RunOrigin {
    if let RunOrigin::Watched { sample, .. } = &mut origin {
        *sample = Some(time(windows));
    }
    origin
}

/// Reads, writes and syncs that began in each window, by kind; `workloads` has the kind of each workload.
pub fn intervals(sample: &ExactSample, workloads: &[OpKind]) -> Vec<CountedInterval> {
    let mut all = Vec::new();
    for window in &sample.windows {
        let time = (window.start_ns, window.start_ns.saturating_add_unsigned(window.length_ns));
        // Other kinds have rates only: to look for a file that is not there fails, and is no failure of storage.
        for (op, tally) in window.ops.iter().filter(|it| JUDGED.contains(&it.0)) {
            let Some(workload) = workloads.iter().position(|it| it == op) else { continue };
            all.push(interval_of(time, workload as u16, *op, tally));
        }
    }
    all
}

/// What is said of the windows when the watch has ended; `used` where the report's figures are of them.
pub fn summary_lines(sample: &WatchedSample, used: bool) -> Vec<String> {
    let mut all = Vec::new();
    let time = format!(
        "{} ({}, {:.1} % of the time)",
        counted(sample.windows, "window"),
        duration_ns(sample.ns),
        sample.share * 100.0
    );
    if sample.windows == 0 {
        all.push("--exact: the watch was too short for a window".to_owned());
    } else if !used && !sample.ops.iter().any(|op| JUDGED.contains(&op.op)) {
        all.push(format!("--exact: nothing that reads, writes or syncs began in {time}"));
    } else if !used {
        all.push(
            "--exact: what the windows saw was counted as a whole, and the figures are of that"
                .to_owned(),
        );
    } else {
        all.push(format!("rates and percentiles are of every call in {time}"));
        for op in &sample.ops {
            let interval =
                op.per_s_low.zip(op.per_s_high).map_or_else(String::new, |(low, high)| {
                    format!(" ({} to {}, 95 %)", rate(low), rate(high))
                });
            all.push(format!(
                "{}: {} in them, {}/s{interval}",
                op.op.name(),
                count(op.seen),
                rate(op.per_s)
            ));
        }
    }
    if sample.open > 0 {
        all.push(format!("{} of these had not ended, and are not in it", count(sample.open)));
    }
    if let Some(why) = &sample.failed {
        all.push(format!("no more windows were opened: {}", in_line(why)));
    }
    all
}

fn rate(per_s: f64) -> String {
    match per_s {
        few if few < 10.0 => format!("{few:.1}"),
        many => count(many.round() as u64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_trace::watch::{CallTally, ExactWindow};

    fn sample(counts: &[u64]) -> ExactSample {
        let tally = |n| CallTally { count: n, places: vec![(600, n)], ..CallTally::default() };
        let window = |(i, n): (usize, &u64)| ExactWindow {
            start_ns: i as i64 * 2_000_000_000,
            length_ns: 100_000_000,
            windows: 1,
            ops: if *n > 0 { vec![(OpKind::Read, tally(*n))] } else { Vec::new() },
        };
        ExactSample {
            windows: counts.iter().enumerate().map(window).collect(),
            ..ExactSample::default()
        }
    }

    #[test]
    fn a_rate_is_that_of_the_windows_and_empty_ones_count() {
        let it = of(&sample(&[100, 0, 120, 80, 100, 0]), 12_000_000_000);
        assert_eq!((it.windows, it.ns, it.share), (6, 600_000_000, 0.05));
        let read = &it.ops[0];
        assert_eq!((read.seen, read.per_s.round()), (400, 667.0));
        assert!(read.per_s_low < Some(600.0) && read.per_s_high > Some(700.0), "{read:?}");
        let few = of(&sample(&[100, 50]), 4_000_000_000);
        assert_eq!(few.ops[0].per_s_low, None);
        assert!(summary_lines(&few, true).iter().any(|text| text.contains("750/s")));
    }

    #[test]
    fn figures_are_of_the_windows() {
        let all = intervals(&sample(&[3, 0, 5]), &[OpKind::Write, OpKind::Read]);
        let of: Vec<_> = all.iter().map(|it| (it.workload, it.start_ns, it.length_ns)).collect();
        assert_eq!(of, [(1, 0, 100_000_000), (1, 4_000_000_000, 100_000_000)]);
        let origin = origin(RunOrigin::watched("a"), &sample(&[3, 0, 5]));
        assert_eq!(origin.sample().map(|it| it.ns), Some(300_000_000));
    }
}
