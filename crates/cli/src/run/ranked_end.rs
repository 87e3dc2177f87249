//! The end of a run by several ranks: every rank says how it went, clocks are measured once more, percentiles merged
//! where all ranks kept every I/O, small files of directories elsewhere fetched, and rank 0 reports the whole run. A
//! rank that does not answer is lost; the others' results stand.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use taillight_core::exit::Exit;
use taillight_core::plan::rank_name;
use taillight_core::units::readable::in_line;
use taillight_core::{Error, LatencyKind, OpKind, Percentile, Result};
use taillight_report::analyse::ranks::merged_manifest;
use taillight_report::analyse::{IoGroup, TOLD};
use taillight_rundir::intervals::interval_writer;
use taillight_rundir::manifest::RunStatus;
use taillight_rundir::scale::{RankLoad, RankSlowest, ScaleFile};
use taillight_rundir::{Manifest, RunDir, atomic, names, sums};
use taillight_scale::Patience;
use taillight_suite::exit::{from_code, worst};
use taillight_suite::host::RunOutcome;

use super::RunRequest;
use super::directory::NewRun;
use super::ranked::{RankEnd, RankSeat};
use crate::{outcome, output, problem, ranks, report};

/// How long a message between ranks that are at the end may take.
const AFTER: Duration = Duration::from_secs(60);
/// Files of a rank elsewhere that are sent to rank 0, where they are there; the I/Os are not.
const SMALL: [&str; 6] = [
    names::MANIFEST,
    names::JOB,
    names::SUMMARY,
    names::INTERVALS,
    names::HISTOGRAMS,
    names::VERIFY,
];
/// Prefix of the name that is sent in place of a file that is there and does not come.
const STAYED: &str = "stayed ";
/// Name of the slowest I/Os among the files that are sent.
const SLOWEST: &str = "slowest";
/// Largest file that is sent, bytes.
const MOST: u64 = 64 << 20;

/// What rank 0 wants of the others at the end.
#[derive(Serialize, Deserialize)]
struct Farewell {
    keys: Vec<(u16, OpKind, String)>,
    percentiles: Vec<Percentile>,
    merges: bool,
    /// Ranks whose small files come along.
    elsewhere: Vec<u32>,
}

/// What this rank says of how its part went.
pub fn of(seat: &RankSeat, outcome: &RunOutcome) -> RankEnd {
    let manifest = outcome.path.as_deref().and_then(|path| RunDir::open(path).ok());
    let manifest = manifest.map(|dir| dir.manifest().clone());
    let phase = |name: &str| {
        manifest.as_ref().and_then(|m| m.phases.iter().find(|p| p.name == name).cloned())
    };
    let groups = seat.groups();
    let first = IoGroup::first(&groups);
    let load = phase("measure").map(|measure| RankLoad {
        first_submit_ns: first.map(|it| it.at_ns),
        first_due_ns: first.and_then(|it| it.due_ns),
        start_ns: phase("warmup").map_or(measure.start_ns, |warmup| warmup.start_ns),
        done_ns: phase("drain").and_then(|d| d.end_ns).or(measure.end_ns).unwrap_or(0),
    });
    let keys = groups.iter().flat_map(|group| {
        let kinds = LatencyKind::ALL.into_iter().filter(|k| group.latencies.get(*k).is_some());
        kinds.map(|kind| (group.workload, group.op, kind.name().to_owned())).collect::<Vec<_>>()
    });
    let exit = outcome.exit.code();
    RankEnd { exit, error: None, load, keys: keys.collect(), exact: seat.is_exact() }
}

/// The end at all ranks but 0.
pub fn take_leave(seat: &RankSeat, end: RankEnd) {
    let left = (|| -> Result<()> {
        let patience = Patience::of(Duration::from_secs(24 * 3600));
        ranks::with(|all| all.ranks.collect("the end", end, patience)).transpose()?;
        seat.measure_clocks()?;
        let farewell =
            ranks::with(|all| all.ranks.tell::<Farewell>("the end", None, patience)).transpose()?;
        let Some(farewell) = farewell.flatten() else { return Ok(()) };
        if farewell.merges {
            seat.merge(&farewell.keys, &farewell.percentiles)?;
        }
        if farewell.elsewhere.contains(&seat.rank) {
            let mut files = small_files(&seat.order.directory.join(rank_name(seat.rank)));
            files.extend(slowest(seat));
            ranks::with(|all| all.ranks.group().send(0, &packed(&files)?, patience)).transpose()?;
        }
        Ok(())
    })();
    if let Err(e) = left {
        problem::show(&e);
    }
}

fn small_files(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: &&str| {
        let path = dir.join(name);
        let small = std::fs::metadata(&path).ok()?.len() <= MOST;
        let bytes = std::fs::read(path).ok().filter(|_| small);
        Some(bytes.map_or((format!("{STAYED}{name}"), Vec::new()), |all| ((*name).to_owned(), all)))
    };
    SMALL.iter().filter_map(read).collect()
}

/// The slowest I/Os of this rank, to be sent; none where not every I/O was kept.
fn slowest(seat: &RankSeat) -> Option<(String, Vec<u8>)> {
    let groups = seat.groups();
    let all = groups.iter().map(|group| {
        let slowest = &group.slowest;
        let key = (group.workload, group.op);
        RankSlowest::new(key, slowest.span_ns(), &slowest.largest(TOLD))
    });
    let all: Vec<RankSlowest> = all.collect();
    let bytes = serde_json::to_vec(&all).ok().filter(|_| seat.is_exact())?;
    Some((SLOWEST.to_owned(), bytes))
}

/// Name and bytes, each with its length before it.
fn packed(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut all = Vec::new();
    for part in files.iter().flat_map(|(name, bytes)| [name.as_bytes(), bytes]) {
        all.extend((part.len() as u64).to_le_bytes());
        all.extend(part);
    }
    Ok(all)
}

fn unpacked(mut bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<8>() {
        let length = u64::from_le_bytes(*length) as usize;
        let Some(part) = rest.get(..length) else { break };
        parts.push(part);
        bytes = &rest[length..];
    }
    let pairs = parts.chunks_exact(2);
    pairs.map(|p| (String::from_utf8_lossy(p[0]).into_owned(), p[1].to_vec())).collect()
}

/// What a code means once a load has begun: "nothing was measured" would be wrong.
pub fn after_load(exit: Exit) -> Exit {
    match exit {
        Exit::Usage | Exit::Refused | Exit::Unavailable => Exit::TargetFailed,
        other => other,
    }
}

/// The end at rank 0: collects, measures, merges, reports. What goes wrong here takes nothing of what the ranks
/// measured, and leaves nobody waiting.
pub fn conclude(
    seat: &RankSeat,
    mut whole: NewRun,
    mine: RankEnd,
    request: &RunRequest<'_>,
) -> RunOutcome {
    let path = whole.dir.path().to_owned();
    // Should rank 0 be killed while it waits, the start is known. It is written again in the end, where a failure is
    // told.
    let _ = seat.scale(None).and_then(|scale| whole.dir.write(&scale));
    let (ends, scale) = match ended(seat, &whole, mine, request) {
        Ok(all) => all,
        Err(e) => {
            // The others wait for words that do not come: the job is aborted.
            for rank in 1..seat.size() {
                ranks::with(|all| all.ranks.lose(rank, "the end"));
            }
            return unfinished(&e, path, Exit::TargetFailed);
        }
    };
    let exits = ends.iter().filter_map(|(_, end)| from_code(end.exit)).fold(Exit::Ok, worst);
    let kept = whole.dir.write(&scale);
    let kept = kept.and_then(|()| write_whole(&mut whole, &scale, &ranks::lost(), &ends));
    drop(whole);
    match kept {
        Ok(()) => report_whole(&path, exits, request),
        Err(e) => unfinished(&e, path, worst(exits, Exit::TargetFailed)),
    }
}

/// The outcome where the ranks have measured and their parts are not put together; shows why.
fn unfinished(e: &Error, path: PathBuf, exit: Exit) -> RunOutcome {
    problem::show(e);
    // With -q too: without the command, what was measured is as good as lost.
    output::problem(&format!(
        "what the ranks measured is not lost: remove the cause, then run `taillight report {}`",
        in_line(path.display())
    ));
    RunOutcome { exit, path: Some(path), summary: None }
}

/// How each rank went, and `scale.json` with clocks measured once more, percentiles over all ranks, and what came of
/// ranks elsewhere, whose small files are put in place. Errors: those of messages and of the order's plan; nothing else
/// may end it, since the others wait for each message.
fn ended(
    seat: &RankSeat,
    whole: &NewRun,
    mine: RankEnd,
    request: &RunRequest<'_>,
) -> Result<(Vec<(u32, RankEnd)>, ScaleFile)> {
    let own_error = mine.error.clone();
    let patience = seat.end_patience(request.plan);
    let ends = ranks::with(|all| all.ranks.collect("the end", mine, patience)).transpose()?;
    let ends: Vec<(u32, RankEnd)> = ends.unwrap_or_default();
    own_error.iter().for_each(|text| output::problem(&format!("error: rank 0: {text}")));
    for (rank, end) in ends.iter().filter(|(rank, _)| *rank > 0) {
        let host = seat.host(*rank);
        if let Some(text) = &end.error {
            output::problem(&format!("error: rank {rank} on {host}: {text}"));
        }
    }
    seat.measure_clocks()?;
    let mut scale = seat.scale(Some(&ends))?;
    let mut keys: Vec<_> = ends.iter().flat_map(|(_, end)| end.keys.clone()).collect();
    keys.sort();
    keys.dedup();
    let lost = ranks::lost();
    let elsewhere = scale.ranks.iter().filter(|r| r.elsewhere && r.lost.is_none());
    let farewell = Farewell {
        keys,
        percentiles: request.plan.qos.percentiles.clone(),
        merges: lost.is_empty() && ends.iter().all(|(_, end)| end.exact),
        elsewhere: elsewhere.map(|r| r.rank).collect(),
    };
    ranks::with(|all| all.ranks.tell("the end", Some(&farewell), Patience::of(AFTER)))
        .transpose()?;
    if farewell.merges {
        scale.merged = seat.merge(&farewell.keys, &farewell.percentiles)?;
        scale.notes.extend(unmerged(scale.merged.len(), farewell.keys.len()));
    }
    for rank in &farewell.elsewhere {
        let came = fetch(whole, *rank)?;
        let entry = scale.ranks.iter_mut().find(|entry| entry.rank == *rank);
        entry.into_iter().for_each(|entry| entry.slowest.clone_from(&came.slowest));
        if !came.stayed.is_empty() {
            let what = came.stayed.join(", ");
            scale.notes.push(format!(
                "Of rank {rank} on {} did not come: {what}. What they say is not in these figures.",
                seat.host(*rank)
            ));
        }
    }
    for (rank, _) in ends.iter().filter(|(_, end)| !end.exact) {
        scale.notes.push(format!(
            "Rank {rank} on {} did not keep every I/O: percentiles over all ranks are from histograms.",
            seat.host(*rank)
        ));
    }
    for lost in ranks::lost() {
        let host = seat.host(lost.rank);
        output::problem(&format!("rank {} on {host} is lost: {}", lost.rank, lost.reason()));
    }
    Ok((ends, scale))
}

/// What is said where not all kinds of latency could be merged.
fn unmerged(merged: usize, all: usize) -> Option<String> {
    (merged < all).then(|| {
        format!(
            "A rank did not answer while percentiles were merged: {} of {all} kinds of latency are from histograms where I/Os \
             stayed on their host.",
            all - merged
        )
    })
}

/// What came of a rank elsewhere.
#[derive(Default)]
struct FetchedFiles {
    /// Names of what did not come, or cannot be kept.
    stayed: Vec<String>,
    /// Its slowest I/Os.
    slowest: Option<Vec<RankSlowest>>,
}

/// Puts the small files of a rank elsewhere where its directory would be.
fn fetch(whole: &NewRun, rank: u32) -> Result<FetchedFiles> {
    let bytes = ranks::with(|all| all.ranks.group().receive(rank, Patience::of(AFTER)));
    let files = bytes.transpose()?.flatten().map(|bytes| unpacked(&bytes)).unwrap_or_default();
    let mut came = FetchedFiles::default();
    if files.is_empty() {
        // What comes of this rank later would be taken for its word in the next run.
        ranks::with(|all| all.ranks.lose(rank, "sending its files"));
        came.stayed.push("all of its files".to_owned());
        return Ok(came);
    }
    let dir = whole.dir.path().join(rank_name(rank));
    let made = std::fs::create_dir_all(&dir).map_err(|e| {
        Error::unavailable("cannot make the directory of a rank")
            .with("path", dir.display())
            .source(e)
    });
    let mut failed = made.err();
    for (name, bytes) in files {
        if name == SLOWEST {
            came.slowest = serde_json::from_slice(&bytes).ok();
        } else if let Some(name) = name.strip_prefix(STAYED) {
            came.stayed.push(name.to_owned());
        } else if SMALL.contains(&name.as_str())
            && let Err(e) = atomic::write(&dir, &name, &bytes)
        {
            failed.get_or_insert(e);
            came.stayed.push(name);
        }
    }
    // The others still wait: what cannot be kept is named instead.
    if let Some(e) = failed {
        problem::show(&e);
    }
    Ok(came)
}

/// Writes the last manifest of the whole run, and its intervals.
fn write_whole(
    whole: &mut NewRun,
    scale: &ScaleFile,
    lost: &[taillight_scale::LostRank],
    ends: &[(u32, RankEnd)],
) -> Result<()> {
    let parts = scale.ranks.iter().filter_map(|r| RunDir::open(&r.path(whole.dir.path())).ok());
    let parts: Vec<Manifest> = parts.map(|dir| dir.manifest().clone()).collect();
    let mut manifest = merged_manifest(whole.dir.manifest(), parts.iter());
    manifest.plan = whole.dir.manifest().plan.clone();
    let done = parts.iter().all(|part| part.status == RunStatus::Complete);
    manifest.status = match () {
        () if parts.is_empty() => RunStatus::Failed,
        () if done && lost.is_empty() && parts.len() == ends.len() => RunStatus::Complete,
        () => RunStatus::Partial,
    };
    // What is analysed is the whole of what the ranks left, as the last manifest says it is.
    whole.dir.write_manifest(&manifest)?;
    let analysis = taillight_report::analyse::analyse(&whole.dir, None, &mut |_| true)?;
    let mut writer = interval_writer(&whole.dir);
    analysis.intervals.iter().for_each(|row| writer.put(row.clone()));
    writer.commit()?;
    manifest.phases = analysis.manifest.phases.clone();
    manifest.reason = analysis.manifest.reason.clone();
    manifest.files = sums::file_sums(&whole.dir)?;
    whole.dir.write_manifest(&manifest)
}

/// The report of the whole run, and the code over all ranks.
fn report_whole(path: &Path, exits: Exit, request: &RunRequest<'_>) -> RunOutcome {
    let made = match report::of_run(path, None, request.pages) {
        Ok(made) => made,
        Err(e) => {
            let exit = problem::show(&e);
            output::result(&format!("Run     {}", in_line(path.display())));
            let exit = worst(exits, if exit == Exit::Ok { exit } else { Exit::TargetFailed });
            return RunOutcome { exit, path: Some(path.to_owned()), summary: None };
        }
    };
    if !request.quiet {
        output::result(&format!("\n{}", made.text.trim_end()));
    }
    let summary = made.summaries.into_iter().next();
    // A ceiling is judged over all ranks, not by each alone.
    let own = match exits {
        Exit::GateFailed | Exit::GateUndecided => Exit::Ok,
        other => other,
    };
    let exit = summary.as_ref().map_or(own, |s| worst(own, outcome::exit_code(s)));
    RunOutcome { exit, path: Some(path.to_owned()), summary }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_a_load_no_code_says_that_nothing_was_measured() {
        for exit in [Exit::Usage, Exit::Refused, Exit::Unavailable, Exit::TargetFailed] {
            assert_eq!(after_load(exit), Exit::TargetFailed);
        }
        assert_eq!(after_load(Exit::Interrupted), Exit::Interrupted);
        assert_eq!((unmerged(3, 3), unmerged(1, 3).is_some()), (None, true));
    }

    #[test]
    fn small_files_come_and_what_stays_is_named() {
        let tmp = tempfile::tempdir().unwrap();
        std::fs::write(tmp.path().join(names::VERIFY), "wrong: 3").unwrap();
        let large = std::fs::File::create(tmp.path().join(names::HISTOGRAMS)).unwrap();
        large.set_len(MOST + 1).unwrap();
        let came = unpacked(&packed(&small_files(tmp.path())).unwrap());
        let stayed = format!("{STAYED}{}", names::HISTOGRAMS);
        assert_eq!(came, [(stayed, vec![]), (names::VERIFY.to_owned(), b"wrong: 3".to_vec())]);
    }
}
