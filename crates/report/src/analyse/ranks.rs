//! The run of several ranks from their directories: each rank by itself with its stamps on the clock of rank 0, then
//! all of them as if one process had measured. Every I/O counts where it was kept, so that percentiles and episodes
//! are those of the concatenation. A lost rank makes the run partial and leaves the figures of the others as they are.

use std::collections::BTreeMap;
use std::path::Path;

use taillight_core::progress::OnProgress;
use taillight_core::{Error, OpKind, Result};
use taillight_rundir::intervals::IntervalRow;
use taillight_rundir::manifest::{CaptureInfo, Degraded, Losses, PhaseInfo, ScheduleInfo};
use taillight_rundir::scale::{ClockMap, RankEntry, ScaleFile};
use taillight_rundir::summary::Cause;
use taillight_rundir::verify::{Finding, VerifyReport};
use taillight_rundir::{JsonFile, Manifest, RunDir, RunStatus, Summary};

use super::analysis::{Analysis, IoCounts, MachineData, ReadProblem};
use super::dists::merged;
use super::group::{IoGroup, OUTLIERS};
use super::latency::Origin;
use super::read::{OneRank, analyse_one};
use super::slowest::SlowestIos;
use super::{capture, rank_intervals};

/// The ranks of a run.
#[derive(Debug, Clone)]
pub struct RanksAnalysis {
    pub file: ScaleFile,
    /// Those whose results are there, in order.
    pub ranks: Vec<RankAnalysis>,
    /// Those that are not, and why.
    pub missing: Vec<(RankEntry, String)>,
}

/// One rank whose results are there.
#[derive(Debug, Clone)]
pub struct RankAnalysis {
    pub entry: RankEntry,
    pub manifest: Manifest,
    pub status: RunStatus,
    pub groups: Vec<IoGroup>,
    pub intervals: Vec<IntervalRow>,
    pub origin: Origin,
    /// Layers that its own report blames; empty where it was not traced or has no report.
    pub layers: Vec<Cause>,
}

/// Reads a run of several ranks. Errors: `Corrupt` without `scale.json`, or where no rank can be read.
pub fn analyse(dir: &RunDir, progress: &mut OnProgress<'_>) -> Result<Analysis> {
    let file: ScaleFile = dir.read()?.ok_or_else(|| {
        Error::corrupt("scale.json is missing, which names the ranks of the run")
            .with("path", dir.path().display())
            .hint("the directory of each rank is a run directory: taillight report RUN/rank-0000")
    })?;
    let mut opened = Vec::new();
    let mut missing = Vec::new();
    let clock_id = file.ranks.first().map(|first| first.clock_id.clone());
    for entry in &file.ranks {
        let same_clock = Some(&entry.clock_id) == clock_id.as_ref() || !entry.clocks.is_empty();
        match RunDir::open(&entry.path(dir.path())) {
            // Its stamps are of another clock: nothing says where they lie among those of the others.
            Ok(rank) if !same_clock && rank.manifest().clock.source != "virtual" => {
                missing.push((entry.clone(), "its clock was not measured".to_owned()));
            }
            Ok(rank) => opened.push((entry.clone(), rank)),
            Err(e) => {
                missing.push((entry.clone(), entry.lost.clone().unwrap_or_else(|| e.to_string())))
            }
        }
    }
    if opened.is_empty() {
        return Err(Error::corrupt("no rank of the run left a directory that can be read")
            .with("path", dir.path().display())
            .hint("directories that stay on their hosts are copied to RUN/rank-NNNN"));
    }
    let window = window(&opened);
    let first = opened[0].1.manifest().plan.workers();
    let mut all = Vec::new();
    for (entry, rank) in &opened {
        let clock = entry_clock(entry, rank.manifest());
        let first_worker = first.saturating_mul(entry.rank) as u16;
        let one = OneRank { clock, window, first_worker };
        let mut analysis = analyse_one(rank, Some(one), None, progress)?;
        if analysis.origin != Origin::CAPTURE {
            told_slowest(entry, &clock, &mut analysis.groups);
        }
        all.push((entry.clone(), analysis));
    }
    put_together(dir, file, all, missing)
}

/// Takes over the slowest I/Os that `scale.json` lists for a rank whose figures are not from its `ios.parquet`.
fn told_slowest(entry: &RankEntry, clock: &ClockMap, groups: &mut [IoGroup]) {
    for told in entry.slowest.iter().flatten() {
        let is = |group: &&mut IoGroup| (group.workload, group.op) == (told.workload, told.op);
        let Some(group) = groups.iter_mut().find(is) else { continue };
        let ios = told.ios().into_iter();
        let ios = ios
            .map(|(ns, (start, end))| (ns, (clock.to_reference(start), clock.to_reference(end))));
        group.slowest = SlowestIos::of(ios.collect(), told.span_ns);
    }
}

/// Virtual time is the same everywhere.
fn entry_clock(entry: &RankEntry, manifest: &Manifest) -> ClockMap {
    if manifest.clock.source == "virtual" { ClockMap::default() } else { entry.clock() }
}

/// From the first rank's start of measuring to the last end of measuring or draining, on the clock of rank 0; none
/// where no rank says.
fn window(opened: &[(RankEntry, RunDir)]) -> Option<(i64, i64)> {
    let spans = opened.iter().filter_map(|(entry, rank)| {
        let clock = entry_clock(entry, rank.manifest());
        let counted = rank.manifest().phases.iter().filter(|p| capture::counts(&p.name));
        let (start, _) = capture::measured(&rank.manifest().phases)?;
        let end = counted.filter_map(|p| p.end_ns).max()?;
        Some((clock.to_reference(start), clock.to_reference(end)))
    });
    spans.reduce(|(a, b), (c, d)| (a.min(c), b.max(d)))
}

fn put_together(
    dir: &RunDir,
    file: ScaleFile,
    all: Vec<(RankEntry, Analysis)>,
    missing: Vec<(RankEntry, String)>,
) -> Result<Analysis> {
    let parts: Vec<&Analysis> = all.iter().map(|(_, analysis)| analysis).collect();
    let status = status(dir, &all, &missing);
    let mut manifest = merged_manifest(dir.manifest(), parts.iter().map(|a| &a.manifest));
    manifest.reason = reason(&all, &missing).or(manifest.reason);
    let exact = parts.iter().all(|a| a.origin == Origin::CAPTURE);
    let start_ns = parts.iter().map(|a| a.start_ns).min().unwrap_or(0);
    let end_ns = parts.iter().map(|a| a.start_ns.saturating_add(a.duration_ns as i64)).max();
    let sum = |of: fn(&IoCounts) -> u64| parts.iter().map(|a| of(&a.counts)).sum();
    let maybe = |of: fn(&IoCounts) -> Option<u64>| parts.iter().map(|a| of(&a.counts)).sum();
    let counts = IoCounts {
        rows: sum(|c| c.rows),
        analysed: sum(|c| c.analysed),
        recorded: maybe(|c| c.recorded),
        in_intervals: maybe(|c| c.in_intervals),
    };
    let mut troubles = troubles(&all);
    if manifest.plan.qos.ceilings.iter().any(|c| c.fanout.is_some_and(|n| n > 1)) {
        troubles.push(ReadProblem {
            code: "ranks_without_requests",
            text: "Requests of several I/Os are not put together over ranks: the ceilings with a fanout are \
                   those of each rank's own report."
                .to_owned(),
        });
    }
    let ranks: Vec<RankAnalysis> = all
        .iter()
        .map(|(entry, a)| RankAnalysis {
            entry: entry.clone(),
            manifest: a.manifest.clone(),
            status: a.status,
            groups: a.groups.clone(),
            intervals: a.intervals.clone(),
            origin: a.origin,
            layers: layers(&entry.path(dir.path())),
        })
        .collect();
    let intervals = rank_intervals::merged(dir, &ranks, &mut troubles)?;
    Ok(Analysis {
        status,
        groups: groups(&ranks)?,
        requests: Vec::new(),
        origin: if exact { Origin::CAPTURE } else { Origin::HISTOGRAM },
        imported: None,
        outliers_only: parts.iter().any(|a| a.outliers_only),
        start_ns,
        duration_ns: end_ns.unwrap_or(start_ns).saturating_sub(start_ns).max(0) as u64,
        intervals,
        machine: MachineData::default(),
        counts,
        troubles,
        verify: verify(&all),
        store: Vec::new(),
        files: dir.files()?,
        job: dir.job()?,
        manifest,
        ranks: Some(RanksAnalysis { file, ranks, missing }),
    })
}

/// The layers that a rank's `summary.json` blames; nothing where there is none that can be read.
fn layers(rank: &Path) -> Vec<Cause> {
    let summary = Summary::read(rank).ok().flatten();
    summary.and_then(|summary| summary.cause).unwrap_or_default()
}

/// Groups of the same workload and operation as one.
fn groups(ranks: &[RankAnalysis]) -> Result<Vec<IoGroup>> {
    let mut by_key: BTreeMap<(u16, OpKind), Vec<&IoGroup>> = BTreeMap::new();
    for group in ranks.iter().flat_map(|rank| &rank.groups) {
        by_key.entry((group.workload, group.op)).or_default().push(group);
    }
    by_key.into_values().map(|groups| one_group(&groups)).collect()
}

/// Several groups of one workload and operation. Errors: `Corrupt` when counts exceed 64 bits; `Internal` for no group.
pub fn one_group(groups: &[&IoGroup]) -> Result<IoGroup> {
    let [first, rest @ ..] = groups else {
        return Err(Error::internal("no group to put together"));
    };
    let mut all = (*first).clone();
    for group in rest {
        all.tally.add(&group.tally);
        all.latencies = merged(&all.latencies, &group.latencies).map_err(|e| {
            Error::corrupt("the ranks hold more I/Os than can be counted").source(e)
        })?;
        all.outliers.extend(group.outliers.iter().copied());
    }
    all.outliers.sort_by_key(|(ns, row)| (std::cmp::Reverse(*ns), row.submit.0));
    all.outliers.truncate(OUTLIERS);
    all.slowest = SlowestIos::merged(groups.iter().map(|g| &g.slowest));
    Ok(all)
}

/// `Complete` or `Failed` only where every rank is and none is missing (and the whole is not marked `Partial`); else
/// `Running` while a rank is; else `Partial`.
fn status(
    dir: &RunDir,
    all: &[(RankEntry, Analysis)],
    missing: &[(RankEntry, String)],
) -> RunStatus {
    let is = |status| all.iter().all(|(_, a)| a.status == status);
    match () {
        () if missing.is_empty() && is(RunStatus::Failed) => RunStatus::Failed,
        () if missing.is_empty()
            && is(RunStatus::Complete)
            && dir.status() != RunStatus::Partial =>
        {
            RunStatus::Complete
        }
        () if all.iter().any(|(_, a)| a.status == RunStatus::Running) => RunStatus::Running,
        () => RunStatus::Partial,
    }
}

/// Which ranks are lost or ended early, in words: at most three, and how many more.
fn reason(all: &[(RankEntry, Analysis)], missing: &[(RankEntry, String)]) -> Option<String> {
    let whole = |a: &Analysis| a.status == RunStatus::Complete;
    let ended = all.iter().filter(|(entry, a)| !whole(a) || entry.lost.is_some());
    let ended = ended.map(|(entry, a)| {
        let why = entry.lost.as_deref().or(a.manifest.reason.as_deref());
        let why = why.unwrap_or("it was stopped or killed").trim_end_matches('.');
        let what = if whole(a) { "is lost, its directory is whole" } else { "ended early" };
        (entry, format!("{what} ({why})"))
    });
    let gone = missing.iter().map(|(entry, why)| {
        (entry, format!("left nothing that can be read ({})", why.trim_end_matches('.')))
    });
    let words = ended.chain(gone).map(|(e, what)| format!("rank {} on {} {what}", e.rank, e.host));
    let words: Vec<String> = words.collect();
    match words.len() {
        0 => None,
        n @ 1..=3 => Some(words[..n].join("; ")),
        n => Some(format!("{}; and {} more ranks", words[..3].join("; "), n - 3)),
    }
}

fn troubles(all: &[(RankEntry, Analysis)]) -> Vec<ReadProblem> {
    let mut found: Vec<(&'static str, String, u32)> = Vec::new();
    for (entry, analysis) in all {
        for trouble in &analysis.troubles {
            match found.iter_mut().find(|(code, ..)| *code == trouble.code) {
                Some((_, _, more)) => *more += 1,
                None => {
                    let text = format!("Rank {} on {}: {}", entry.rank, entry.host, trouble.text);
                    found.push((trouble.code, text, 0));
                }
            }
        }
    }
    let words = found.into_iter().map(|(code, text, more)| ReadProblem {
        code,
        text: if more > 0 { format!("{text} So it is for {more} more.") } else { text },
    });
    words.collect()
}

/// What was verified in all ranks. The pass after the run is complete where that of every rank is.
fn verify(all: &[(RankEntry, Analysis)]) -> Option<VerifyReport> {
    let found = all.iter().filter_map(|(entry, a)| {
        let mut own = a.verify.clone()?;
        let first = a.manifest.plan.workers().saturating_mul(entry.rank);
        let first = u16::try_from(first).unwrap_or(u16::MAX);
        let clock = entry_clock(entry, &a.manifest);
        own.findings.iter_mut().for_each(|finding| of_rank(finding, entry, &clock, first));
        Some(own)
    });
    let mut sum = put_findings(found)?;
    let some_lack = all.iter().any(|(_, a)| a.verify.is_none());
    sum.pass.iter_mut().for_each(|pass| pass.complete &= !some_lack);
    Some(sum)
}

/// A wrong block of a rank's own target, among those of all: whose it is, which worker of all found it, and when.
fn of_rank(finding: &mut Finding, entry: &RankEntry, clock: &ClockMap, first_worker: u16) {
    finding.worker = finding.worker.map(|worker| worker.saturating_add(first_worker));
    finding.time_ns = clock.to_reference(finding.time_ns);
    let whose = format!("rank {} on {}", entry.rank, entry.host);
    finding.of = Some(match finding.of.take() {
        Some(name) => format!("{name} of {whose}"),
        None => whose,
    });
}

/// What several ranks found as one report.
fn put_findings(found: impl Iterator<Item = VerifyReport>) -> Option<VerifyReport> {
    found.reduce(|mut sum, one| {
        sum.add(&one);
        sum.ledger += one.ledger;
        if let (Some(of), Some(pass)) = (&mut sum.pass, one.pass) {
            of.blocks += pass.blocks;
            of.duration_ns = of.duration_ns.max(pass.duration_ns);
            of.caches_dropped &= pass.caches_dropped;
            of.complete &= pass.complete;
        }
        sum.pass = sum.pass.or(one.pass);
        sum
    })
}

/// The manifest of the whole run: `base` with the counts of the ranks added up, each phase from its first begin to
/// its last end, per-operation costs as those of the worst rank, and the workers of all ranks.
pub fn merged_manifest<'a>(
    base: &Manifest,
    parts: impl Iterator<Item = &'a Manifest> + Clone,
) -> Manifest {
    let mut all = base.clone();
    let ranks = parts.clone().count() as u32;
    for workload in &mut all.plan.workloads {
        workload.workers = workload.workers.saturating_mul(ranks.max(1));
    }
    all.phases = phases(parts.clone());
    all.capture = CaptureInfo {
        kept: 0,
        used: None,
        spilled: None,
        degraded: None,
        path: None,
        ..all.capture
    };
    all.losses = Losses::default();
    (all.schedule, all.end_to_end) = (None, None);
    (all.misses, all.overhead.cpu_s) = (0, None);
    // Ranks may share what counted: each has its own in its directory.
    all.witness.clear();
    for part in parts {
        all.capture.kept += part.capture.kept;
        all.capture.used = add(all.capture.used, part.capture.used);
        all.capture.spilled = add(all.capture.spilled, part.capture.spilled);
        all.capture.degraded =
            degraded(all.capture.degraded.take(), part.capture.degraded.as_ref());
        all.losses.ios += part.losses.ios;
        all.losses.out_of_range += part.losses.out_of_range;
        all.losses.unfinished += part.losses.unfinished;
        all.losses.warmup_carried_ns =
            all.losses.warmup_carried_ns.max(part.losses.warmup_carried_ns);
        all.losses.intervals += part.losses.intervals;
        all.losses.chunks += part.losses.chunks;
        all.losses.trace_events = add(all.losses.trace_events, part.losses.trace_events);
        all.misses += part.misses;
        if let Some(it) = part.schedule {
            let was =
                all.schedule.unwrap_or(ScheduleInfo { backlog_max: 0, unsent: 0, left_at_end: 0 });
            all.schedule = Some(ScheduleInfo {
                backlog_max: was.backlog_max + it.backlog_max,
                unsent: was.unsent + it.unsent,
                left_at_end: was.left_at_end + it.left_at_end,
            });
        }
        let overhead = &part.overhead;
        all.overhead.cpu_s = add_f(all.overhead.cpu_s, overhead.cpu_s);
        all.overhead.null_ns_per_op = most(all.overhead.null_ns_per_op, overhead.null_ns_per_op);
        all.overhead.clock_ns = most(all.overhead.clock_ns, overhead.clock_ns);
        all.overhead.stood_still_ns = all.overhead.stood_still_ns.max(overhead.stood_still_ns);
        if let Some(it) = part.end_to_end {
            let mut was = all.end_to_end.unwrap_or_default();
            was.written += it.written;
            was.readers += it.readers;
            was.verified += it.verified;
            was.failed += it.failed;
            was.unread += it.unread;
            all.end_to_end = Some(was);
        }
    }
    all
}

/// What several ranks did not keep, with the reason of the first of them; 0 where one does not know how much.
fn degraded(sum: Option<Degraded>, one: Option<&Degraded>) -> Option<Degraded> {
    let (Some(mut sum), Some(one)) = (sum.clone(), one) else { return sum.or(one.cloned()) };
    let known = sum.not_kept > 0 && one.not_kept > 0;
    sum.not_kept = if known { sum.not_kept + one.not_kept } else { 0 };
    Some(sum)
}

fn add(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.map_or(b, |a| Some(a + b.unwrap_or(0)))
}

fn add_f(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.map_or(b, |a| Some(a + b.unwrap_or(0.0)))
}

fn most(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.map_or(b, |a| Some(a.max(b.unwrap_or(a))))
}

/// Each phase from its first begin to its last end.
fn phases<'a>(parts: impl Iterator<Item = &'a Manifest>) -> Vec<PhaseInfo> {
    let mut all: Vec<PhaseInfo> = Vec::new();
    for phase in parts.flat_map(|part| &part.phases) {
        match all.iter_mut().find(|known| known.name == phase.name) {
            Some(known) => {
                known.start_ns = known.start_ns.min(phase.start_ns);
                known.end_ns = known.end_ns.max(phase.end_ns);
                known.ios += phase.ios;
            }
            None => all.push(phase.clone()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use taillight_rundir::fixture;
    use taillight_rundir::manifest::EndToEndInfo;
    use taillight_rundir::scale::ClockSample;
    use taillight_rundir::verify::Wrong;

    use super::*;

    /// The manifest of the whole run holds a sum already: made again, it is the same.
    #[test]
    fn what_ranks_did_is_added_up_once() {
        let end_to_end = Some(EndToEndInfo { written: 5, verified: 4, ..EndToEndInfo::default() });
        let mut part = Manifest { end_to_end, ..fixture::manifest("a") };
        part.losses.trace_events = Some(3);
        let reason = "no room".to_owned();
        part.capture.degraded = Some(Degraded { at_ns: 1, not_kept: 4, reason });
        part.capture.spilled = Some(7);
        let whole = merged_manifest(&part, [&part, &part].into_iter());
        let again = merged_manifest(&whole, [&part, &part].into_iter());
        for it in [whole, again] {
            let sum = it.end_to_end.unwrap();
            assert_eq!((sum.written, sum.verified), (10, 8));
            assert_eq!(it.losses.trace_events, Some(6));
            assert_eq!(it.capture.degraded.map(|it| it.not_kept), Some(8));
            assert_eq!(it.capture.spilled, Some(14));
        }
    }

    /// The same offset is another block in the file of each rank.
    #[test]
    fn a_wrong_block_is_that_of_its_rank() {
        let mut finding = Finding {
            time_ns: 3_600_000_001_000,
            worker: Some(1),
            op: OpKind::Read,
            of: None,
            target: 0,
            address: 0,
            length: 4096,
            kind: Wrong::Stale,
            expected: None,
            found: None,
            found_address: None,
            found_run: None,
            first_byte: None,
            bytes: None,
        };
        let entry = RankEntry { rank: 2, host: "h2".to_owned(), ..RankEntry::default() };
        let ahead = ClockSample { offset_ns: 3_600_000_000_000, ..ClockSample::default() };
        of_rank(&mut finding, &entry, &ClockMap::of(&[ahead]), 4);
        assert_eq!((finding.worker, finding.time_ns), (Some(5), 1_000));
        assert_eq!(finding.of.as_deref(), Some("rank 2 on h2"));
        finding.of = Some("log".to_owned());
        of_rank(&mut finding, &entry, &ClockMap::default(), 0);
        assert_eq!(finding.of.as_deref(), Some("log of rank 2 on h2"));
    }
}
