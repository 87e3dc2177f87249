//! Asked against achieved: did the run reach the rate it was told to make.

use std::collections::BTreeMap;

use taillight_core::plan::{Arrival, WorkloadPlan};
use taillight_rundir::summary::Saturation;

use crate::analyse::latency::per_s;
use crate::analyse::{Analysis, IoGroup, Lateness};
use crate::format;

/// Achieved below this share of asked is saturated.
const REACHED: f64 = 0.99;
/// I/Os whose mean wait is more than one in so many parts of the last one's were late from early on: of a backlog that
/// grows all the time it is a half, of one that grows over the last third a sixth.
const EARLY: f64 = 8.0;

/// The saturation object. In a closed loop nothing is asked and nothing can be missed.
pub fn saturation(analysis: &Analysis) -> Saturation {
    // What was started counts, over the time it was to be started in: the last completion may
    // come much later.
    let timed = analysis.manifest.plan.planned_ns().is_some();
    let length = measured_ns(analysis).filter(|_| timed);
    let seconds = length.unwrap_or(analysis.duration_ns) as f64 / 1e9;
    let open: Vec<(u16, f64)> = analysis
        .manifest
        .plan
        .workloads
        .iter()
        .enumerate()
        .filter(|(_, w)| w.measured)
        .filter_map(|(i, w)| Some((i as u16, asked_of_run(w, seconds)?)))
        .collect();
    let done = |only_open: bool| {
        analysis.operations(|g| !only_open || open.iter().any(|(w, _)| *w == g.workload))
    };
    let counted = analysis.manifest.schedule;
    // What was sent only after the time was over reached no rate.
    let late = counted.map_or(0, |c| c.left_at_end.saturating_sub(c.unsent));
    let late = if timed { late } else { 0 };
    let in_time = done(!open.is_empty()).saturating_sub(late);
    let achieved_per_s = per_s(in_time as f64, seconds);
    if let Some(found) = replayed(analysis, (in_time, late)).filter(|_| open.is_empty()) {
        return found;
    }
    let asked_per_s: f64 = open.iter().map(|(_, rate)| rate).sum();
    if open.is_empty() || analysis.outliers_only {
        return Saturation {
            asked_per_s: Some(asked_per_s).filter(|_| !open.is_empty()),
            achieved_per_s: if analysis.outliers_only { 0.0 } else { achieved_per_s },
            ..Saturation::default()
        };
    }
    let backlog = backlog(analysis);
    // The run's own count comes first; the last interval's backlog is what was never sent.
    let unsent = match (counted, backlog.last()) {
        (Some(counted), _) => counted.unsent,
        (None, Some(last)) => *last,
        (None, None) => unsent(analysis, asked_per_s, done(true)),
    };
    let deepest = backlog.iter().copied().max().unwrap_or(0);
    let deepest = deepest.max(counted.map_or(0, |c| c.backlog_max));
    let outstanding = analysis.manifest.plan.outstanding();
    // Slow I/Os alone are no missed rate: something must have been left waiting.
    let known = counted.is_some() || !backlog.is_empty();
    let deepest = if known { deepest } else { waiting(analysis, &open) };
    let waited = known.then_some(deepest > 2 * outstanding);
    // What a stall in the last interval left behind says nothing of the rate.
    let lasting = match &backlog[..] {
        [.., before, _] => *before > 2 * outstanding,
        _ => true,
    };
    let behind = (unsent > 0 && lasting) || (!timed && waited.unwrap_or(true));
    let left = counted.map_or(0, |c| c.left_at_end) as f64;
    let worked_off = timed
        && left > (1.0 - REACHED) * asked_per_s * seconds
        && grew_till_the_end(&backlog, left as u64, outstanding);
    let grew = grows(&backlog, outstanding) || worked_off;
    Saturation {
        asked_per_s: Some(asked_per_s),
        achieved_per_s,
        backlog_max: deepest.max(unsent),
        unsent,
        unsent_age_ns: (unsent > 0).then(|| (unsent as f64 / asked_per_s * 1e9) as u64),
        late,
        saturated: grew || (behind && achieved_per_s < asked_per_s * REACHED),
    }
}

/// The same of a replay, whose I/Os carry the times at which they were due; none of another run. `in_time` of the
/// measured I/Os were sent before the end, `late` after it.
fn replayed(analysis: &Analysis, (in_time, late): (u64, u64)) -> Option<Saturation> {
    if analysis.outliers_only || !is_replay(analysis) {
        return None;
    }
    let mut sent = Lateness::default();
    let workloads = &analysis.manifest.plan.workloads;
    let of = |g: &&IoGroup| workloads.get(usize::from(g.workload)).is_some_and(replays);
    let whole = analysis.groups.iter().filter(of).filter(|g| analysis.is_whole(g.op));
    whole.for_each(|g| sent.add(&g.tally.lateness));
    let counted = analysis.manifest.schedule.filter(|_| sent.count > 0)?;
    let seconds = |until_ns: i64| (until_ns - analysis.start_ns).max(1) as f64 / 1e9;
    // Cut by the end of the run, or played to its last time.
    let (asked_s, took_s) = match measured_ns(analysis).filter(|_| counted.left_at_end > 0) {
        Some(ns) => (ns as f64 / 1e9, ns as f64 / 1e9),
        None => (seconds(sent.last_due_ns), seconds(sent.last_sent_ns)),
    };
    let asked_per_s = (sent.count + counted.unsent) as f64 / asked_s;
    let achieved_per_s = in_time as f64 / took_s;
    // A stall near the end makes the last ones late, too; a replay that falls behind is late from early on.
    let behind_ns = (sent.last_sent_ns - sent.last_due_ns).max(0) as f64;
    let usual_ns = sent.wait_ns as f64 / sent.count as f64;
    let waiting = counted.backlog_max.max(counted.unsent);
    Some(Saturation {
        asked_per_s: Some(asked_per_s),
        achieved_per_s,
        backlog_max: waiting,
        unsent: counted.unsent,
        unsent_age_ns: (counted.unsent > 0)
            .then(|| (counted.unsent as f64 / asked_per_s * 1e9) as u64),
        late,
        saturated: waiting > 2 * analysis.manifest.plan.outstanding()
            && achieved_per_s < asked_per_s * REACHED
            && usual_ns * EARLY > behind_ns,
    })
}

/// Whether a measured workload is sent at recorded times.
pub fn is_replay(analysis: &Analysis) -> bool {
    let mut measured = analysis.manifest.plan.workloads.iter().filter(|w| w.measured);
    measured.any(replays)
}

fn replays(workload: &WorkloadPlan) -> bool {
    workload.measured && matches!(workload.arrival, Arrival::Replay { .. })
}

/// Operations per second a workload asks for on average over `seconds`; none in a closed loop.
pub fn asked(workload: &WorkloadPlan, seconds: f64) -> Option<f64> {
    let size = workload.mean_bytes();
    workload.arrival.asked_per_s(size, seconds * 1e9)
}

/// The same on average over a measure phase of so many seconds, of which the workload may have a part only.
fn asked_of_run(workload: &WorkloadPlan, seconds: f64) -> Option<f64> {
    let window = workload.window_ns((seconds * 1e9) as u64);
    let own = (window.end - window.start) as f64 / 1e9;
    let due = asked(workload, own)? * own;
    // One that ends by a count asks for no more.
    let counted = workload.operations.map(|n| n as f64);
    let bytes = workload.bytes.map(|b| b.0 as f64 / workload.mean_bytes().max(1.0));
    Some(counted.into_iter().chain(bytes).fold(due, f64::min) / seconds)
}

/// Operations the schedule wanted inside the measure phase and that were never sent, reckoned
/// from the rate when no interval says it.
fn unsent(analysis: &Analysis, asked_per_s: f64, sent: u64) -> u64 {
    let plan = &analysis.manifest.plan;
    // A run that ends by a count sends all it was told to.
    if plan.planned_ns().is_none() {
        return 0;
    }
    let Some(length) = measured_ns(analysis) else {
        return 0;
    };
    let due = (asked_per_s * length as f64 / 1e9).floor() as u64;
    // Every worker rounds its own part of the schedule.
    let slack = u64::from(plan.workers()) + due / 10_000;
    match due.saturating_sub(sent) {
        missing if missing <= slack => 0,
        missing => missing,
    }
}

/// Operations that were due and not sent at worst, of a run that counted none of them: so many come due while the one
/// that waits longest does.
fn waiting(analysis: &Analysis, open: &[(u16, f64)]) -> u64 {
    let of = |(workload, rate): &(u16, f64)| {
        let groups = analysis.groups.iter().filter(|g| g.workload == *workload);
        let longest = groups.map(|g| g.tally.lateness.longest_ns).max().unwrap_or(0);
        (longest as f64 / 1e9 * rate) as u64
    };
    open.iter().map(of).sum()
}

/// Length of the measure phase, when the manifest knows it.
pub fn measured_ns(analysis: &Analysis) -> Option<u64> {
    let mut phases = analysis.manifest.phases.iter();
    let measure = phases.find(|p| p.name == "measure")?;
    Some(measure.end_ns?.saturating_sub(measure.start_ns).max(0) as u64)
}

/// Backlog over time, summed over workloads. Rows of one workload repeat its backlog.
fn backlog(analysis: &Analysis) -> Vec<u64> {
    let mut by_time: BTreeMap<i64, BTreeMap<u16, u64>> = BTreeMap::new();
    for row in &analysis.intervals {
        if let Some(backlog) = row.backlog {
            let of = by_time.entry(row.start_ns).or_default().entry(row.workload).or_default();
            *of = (*of).max(backlog);
        }
    }
    by_time.values().map(|workloads| workloads.values().sum()).collect()
}

/// Whether the backlog still grew at the end. A stall leaves a backlog too, but that was not there
/// before or is being worked off: growth is a last third that never came down to twice the depth, lies
/// a tenth above the third before and still rises.
fn grows(backlog: &[u64], outstanding: u64) -> bool {
    let third = backlog.len() / 3;
    // One interval is no trend.
    if third < 2 {
        return false;
    }
    let mean = |part: &[u64]| part.iter().sum::<u64>() as f64 / part.len() as f64;
    let last = &backlog[backlog.len() - third..];
    let before = &backlog[backlog.len() - 2 * third..backlog.len() - third];
    let floor = 2 * outstanding.max(1);
    last.iter().all(|b| *b > floor) && mean(last) > mean(before) * 1.1 && rises(last)
}

/// Whether the least-squares line through the values rises; one value does not fall.
fn rises(values: &[u64]) -> bool {
    let middle = (values.len() - 1) as f64 / 2.0;
    let slope =
        values.iter().enumerate().map(|(i, b)| (i as f64 - middle) * *b as f64).sum::<f64>();
    slope > 0.0 || values.len() == 1
}

/// The same where the backlog was worked off after the end, inside the last interval, `left` being
/// what it was at the end. There must have been one before, too: a last moment is no trend.
fn grew_till_the_end(backlog: &[u64], left: u64, outstanding: u64) -> bool {
    let Some((_, earlier)) = backlog.split_last() else {
        return false;
    };
    let mut till = earlier.to_vec();
    till.push(left);
    let third = till.len() / 3;
    let floor = 2 * outstanding.max(1);
    let lasting = earlier.last().is_some_and(|b| *b > floor);
    lasting && if third < 2 { rises(&till) } else { grows(&till, outstanding) }
}

/// `34,577 achieved`, and how many more the other figures count.
pub fn achieved(it: &Saturation) -> String {
    let achieved = format::rate(it.achieved_per_s);
    match it.late {
        0 => format!("{achieved} achieved"),
        late => format!(
            "{achieved} achieved in the measured time ({} more were sent after it, which all other \
             figures count)",
            format::count(late)
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn a_backlog_worked_off_after_the_end_is_one() {
        assert!(grew_till_the_end(&[2000, 4000, 6000, 8000, 0], 10_000, 1));
        assert!(grew_till_the_end(&[2000, 0], 4_000, 1), "two intervals");
        assert!(!grew_till_the_end(&[0, 0, 0, 0, 0], 300, 1), "a stall in the last moment is none");
        assert!(!grew_till_the_end(&[900, 600, 300, 200, 0], 100, 1));
        assert!(!grew_till_the_end(&[0], 100, 1));
    }

    #[test]
    fn what_was_late_is_told() {
        let mut it = Saturation {
            asked_per_s: Some(100.0),
            achieved_per_s: 60.0,
            backlog_max: 40,
            saturated: true,
            ..Saturation::default()
        };
        assert_eq!(achieved(&it), "60.0 achieved");
        it.late = 1234;
        assert!(achieved(&it).contains("(1,234 more were sent after it"));
    }

    /// Backlog at each second of a server of 1 ms with Poisson arrivals: what is due and neither
    /// served nor among the `depth` in flight. The server stands still from each of `stalls` on.
    fn queue(seed: u64, load: f64, seconds: u64, stalls: &[(f64, f64)]) -> Vec<u64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut exponential = |mean: f64| -mean * (1.0 - random.random::<f64>()).ln();
        let (mut at, mut free, mut ends) = (0.0f64, 0.0f64, VecDeque::new());
        let mut backlog = Vec::new();
        while (backlog.len() as u64) < seconds {
            at += exponential(1e-3 / load);
            while at > (backlog.len() + 1) as f64 {
                let now = (backlog.len() + 1) as f64;
                while ends.front().is_some_and(|end| *end <= now) {
                    ends.pop_front();
                }
                backlog.push((ends.len() as u64).saturating_sub(4));
            }
            let mut start = free.max(at);
            for (from, length) in stalls {
                let held = start >= *from;
                start = if held { start.max(from + length) } else { start };
            }
            free = start + exponential(1e-3);
            ends.push_back(free);
        }
        backlog
    }

    #[test]
    fn stalls_are_no_growth_and_growth_is_found() {
        const RUNS: u64 = 1_000;
        // A stall of 20 ms to 5 s anywhere, most of all in the last third; at 60 to 90 % load.
        let stalled = (0..RUNS).filter(|seed| {
            let mut random = Xoshiro256PlusPlus::seed_from_u64(1_000 + seed);
            let from = 30.0 * random.random::<f64>().sqrt();
            let length = 0.02 * 250f64.powf(random.random());
            let load = 0.6 + 0.3 * random.random::<f64>();
            grows(&queue(*seed, load, 30, &[(from, length)]), 4)
        });
        let stalled = stalled.count();
        let over = (0..RUNS).filter(|seed| grows(&queue(*seed, 1.05, 30, &[]), 4)).count() as u64;
        assert!(stalled * 100 <= RUNS as usize, "{stalled} of {RUNS} are called growth");
        assert!(over * 100 >= RUNS * 99, "{over} of {RUNS} are found");
    }

    /// 1,000 a second that stand still for 20 ms across the end of an interval.
    #[test]
    fn a_stall_across_the_edge_of_an_interval_is_no_growth() {
        let mut backlog = vec![0; 12];
        backlog[9] = 10;
        assert!(!grows(&backlog, 1));
    }

    #[test]
    fn growth_is_not_noise() {
        assert!(grows(&[0, 100, 200, 300, 400, 500], 4));
        assert!(!grows(&[0, 3, 0, 5, 1, 4], 4), "a backlog within the depth is none");
        assert!(!grows(&[900, 500, 400, 300, 10, 0], 4), "it was worked off");
        assert!(!grows(&[5_000], 1), "one interval is no trend");
    }
}
