//! From a run directory to an [`Analysis`]: exact from `ios.parquet` where it holds every I/O (of a killed run: what
//! was salvaged), from bins for an imported run, else from histograms. `ios.parquet` is read in one streaming pass;
//! the counts of manifest and intervals tell whether it holds every I/O.

use std::path::Path;

use taillight_core::plan::CaptureMode;
use taillight_core::progress::OnProgress;
use taillight_core::{ErrorKind, Result};
use taillight_rundir::host::host_tracks;
use taillight_rundir::intervals::{IntervalRow, read_intervals};
use taillight_rundir::ios::IosFile;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::scale::ClockMap;
use taillight_rundir::store::read_store;
use taillight_rundir::summary::FileEntry;
use taillight_rundir::{Manifest, RunDir, RunStatus, names};

use super::analysis::{Analysis, IoCounts, MachineData, ReadProblem};
use super::capture::{CapturedIos, CountingBasis};
use super::group::IoGroup;
use super::histograms::{self, STATUS_UNKNOWN, is_load};
use super::latency::Origin;
use super::store::{self, StoreTrack};
use super::{capture, damage, imported, ranks};

/// Reads a run directory; `counted` is what its rows gave while they were written, where somebody counted them. A
/// damaged file becomes a trouble. Errors: `Corrupt` for an imported run whose figures cannot be read, and for several
/// ranks without `scale.json` or of which none can be read; `Unavailable` when a file cannot be read or `progress` says
/// to stop.
pub fn analyse(
    dir: &RunDir,
    counted: Option<CapturedIos>,
    progress: &mut OnProgress<'_>,
) -> Result<Analysis> {
    match dir.manifest().origin {
        RunOrigin::Merged { .. } => ranks::analyse(dir, progress),
        _ => analyse_one(dir, None, counted, progress),
    }
}

/// How a rank stands among others.
#[derive(Debug, Clone, Copy)]
pub(super) struct OneRank {
    /// From its clock to that of all.
    pub clock: ClockMap,
    /// The time of all ranks, on that clock.
    pub window: Option<(i64, i64)>,
    /// The number of its first worker among those of all.
    pub first_worker: u16,
}

/// Reads the directory of one process, which may be a rank: then all stamps are on the clock of rank 0.
pub(super) fn analyse_one(
    dir: &RunDir,
    rank: Option<OneRank>,
    counted: Option<CapturedIos>,
    progress: &mut OnProgress<'_>,
) -> Result<Analysis> {
    let clock = rank.map_or_else(ClockMap::default, |rank| rank.clock);
    let mut manifest = dir.manifest().clone();
    move_clock(&mut manifest, &clock);
    let mut troubles = Vec::new();
    let damaged = damage::check(dir, &mut troubles)?;
    let (mut intervals, all_intervals) =
        or_trouble(load_intervals(dir), "intervals_unreadable", &mut troubles)?;
    intervals.iter_mut().for_each(|row| row.start_ns = clock.to_reference(row.start_ns));
    let verify = or_trouble(dir.read(), "verify_unreadable", &mut troubles)?;
    let job = or_trouble(dir.job(), "job_unreadable", &mut troubles)?;
    let span = span(dir, &manifest, &intervals, &clock, &mut troubles)?;
    let captured = match dir.existing(names::IOS).filter(|_| !damaged.capture) {
        Some(path) => {
            let mut basis = CountingBasis::new(&manifest.plan, &manifest.phases, span);
            if let Some(OneRank { window, first_worker, .. }) = rank {
                basis.of_rank(window, clock, first_worker);
            }
            let read = captured(&path, basis, counted, progress);
            or_trouble(read, "capture_unreadable", &mut troubles)?
        }
        None => CapturedIos::default(),
    };
    let counts = io_counts(&manifest, &captured, &intervals);
    let log = dir.existing(names::HISTOGRAMS).is_some();
    let imported = taillight_rundir::origin::imported(dir)?;
    let whole = imported.is_none()
        && !damaged.capture
        && whole_capture(&manifest, &captured, &counts, log, &mut troubles);
    // Without a log, what there is of the capture is all there is; but outliers alone are no
    // sample of all I/Os.
    let every = manifest.capture.mode == CaptureMode::All && manifest.capture.degraded.is_none();
    let only = !log && every && captured.counted > 0 && !captured.overflowed;
    let mut outliers_only = false;
    let (groups, requests, origin) = if let Some(figures) = &imported {
        (imported::groups(figures, span)?, Vec::new(), Origin::IMPORTED)
    } else if whole || only {
        (captured.groups, captured.requests, Origin::CAPTURE)
    } else {
        let from_log = histograms::read(dir, &manifest, span.0, &intervals);
        let mut groups = or_trouble(from_log, "histograms_unreadable", &mut troubles)?;
        outliers_only = adopt(&mut groups, captured.groups, manifest.origin.is_watched());
        troubles.extend(outliers_only.then(|| only_outliers(manifest.origin.is_watched())));
        (groups, Vec::new(), Origin::HISTOGRAM)
    };
    let last = groups.iter().map(|g| g.tally.last_ns).max().unwrap_or(span.1);
    let interval_rows = (!intervals.is_empty()).then_some(all_intervals as u64);
    let files = files(dir, captured.rows, interval_rows)?;
    let until = last.max(span.1);
    let machine = match rank {
        None => machine(dir, (span.0, until), &mut troubles)?,
        // A rank's machine is shown by its own report.
        Some(_) => MachineData::default(),
    };
    Ok(Analysis {
        status: dir.status(),
        manifest,
        groups,
        requests,
        origin,
        imported,
        outliers_only,
        start_ns: span.0,
        duration_ns: until.saturating_sub(span.0).max(0) as u64,
        intervals,
        machine,
        counts,
        store: stored(dir, (span.0, last.max(span.1)), &mut troubles)?,
        troubles,
        verify,
        files,
        job,
        ranks: None,
    })
}

/// How many I/Os the capture, the manifest and the intervals count.
fn io_counts(manifest: &Manifest, captured: &CapturedIos, intervals: &[IntervalRow]) -> IoCounts {
    IoCounts {
        rows: captured.rows,
        analysed: captured.counted,
        recorded: recorded(manifest),
        in_intervals: (!intervals.is_empty()).then(|| {
            let rows = intervals.iter();
            let measured = rows.filter(|r| !is_load(manifest, r.workload) && !r.op.is_part());
            measured.map(|r| r.ops).sum()
        }),
    }
}

/// Stamps of a manifest on another clock.
fn move_clock(manifest: &mut Manifest, clock: &ClockMap) {
    if clock.is_same() {
        return;
    }
    manifest.clock.monotonic_ns = clock.to_reference(manifest.clock.monotonic_ns);
    for phase in &mut manifest.phases {
        phase.start_ns = clock.to_reference(phase.start_ns);
        phase.end_ns = phase.end_ns.map(|end| clock.to_reference(end));
    }
    if let Some(degraded) = &mut manifest.capture.degraded {
        degraded.at_ns = clock.to_reference(degraded.at_ns);
    }
}

/// What `ios.parquet` holds: as counted already, where that was done for this file and by the same
/// rules, else read.
fn captured(
    path: &Path,
    basis: CountingBasis,
    counted: Option<CapturedIos>,
    progress: &mut OnProgress<'_>,
) -> Result<CapturedIos> {
    let rows = IosFile::open(path)?.rows();
    match counted.filter(|c| c.basis == basis && c.rows == rows) {
        Some(counted) => Ok(counted),
        None => capture::read(path, basis, progress),
    }
}

fn machine(dir: &RunDir, span: (i64, i64), troubles: &mut Vec<ReadProblem>) -> Result<MachineData> {
    let host = host_tracks(dir, span.0, span.1);
    Ok(MachineData {
        host: or_trouble(host, "host_unreadable", troubles)?,
        nvme: or_trouble(dir.read(), "nvme_unreadable", troubles)?,
        bus: or_trouble(dir.read(), "bus_unreadable", troubles)?,
    })
}

fn only_outliers(watched: bool) -> ReadProblem {
    let text = if watched {
        "Operations that never block are not seen from outside, and how many of this program's did not is not \
         known: rate and percentiles are unknown, the operations that were kept are what there is."
    } else {
        OUTLIERS_ONLY
    };
    ReadProblem { code: "outliers_only", text: text.to_owned() }
}

const OUTLIERS_ONLY: &str = "Of the I/Os only outliers and failures were kept, and there are no histograms: rate \
    and percentiles are unknown, the list of outliers is what there is.";

/// The target's own statistics, as far as they tell of the time between these stamps.
fn stored(
    dir: &RunDir,
    (start_ns, end_ns): (i64, i64),
    troubles: &mut Vec<ReadProblem>,
) -> Result<Vec<StoreTrack>> {
    let Some(path) = dir.existing(names::STORE) else {
        return Ok(Vec::new());
    };
    let rows = or_trouble(read_store(&path), "store_unreadable", troubles)?;
    Ok(store::tracks(&rows, start_ns, end_ns))
}

/// The files of the directory, `ios.parquet` and `intervals.parquet` with their rows.
fn files(dir: &RunDir, ios: u64, intervals: Option<u64>) -> Result<Vec<FileEntry>> {
    let mut files = dir.files()?;
    for file in &mut files {
        file.rows = match file.name.as_str() {
            names::IOS => Some(ios),
            names::INTERVALS => intervals,
            _ => None,
        };
    }
    Ok(files)
}

/// Turns a damaged file into a trouble; any other error stands.
pub(super) fn or_trouble<T: Default>(
    result: Result<T>,
    code: &'static str,
    troubles: &mut Vec<ReadProblem>,
) -> Result<T> {
    match result {
        Err(e) if e.kind() == ErrorKind::Corrupt => {
            troubles.push(ReadProblem { code, text: format!("{e}.") });
            Ok(T::default())
        }
        other => other,
    }
}

/// Intervals of measure and drain, and how many rows the file has in all.
fn load_intervals(dir: &RunDir) -> Result<(Vec<IntervalRow>, usize)> {
    let Some(path) = dir.existing(names::INTERVALS) else {
        return Ok((Vec::new(), 0));
    };
    let mut rows = read_intervals(&path)?;
    let all = rows.len();
    rows.retain(|r| capture::counts(&r.phase));
    rows.sort_by_key(|r| (r.workload, r.op, r.start_ns));
    Ok((rows, all))
}

/// Start and end of measuring, ns: from the manifest where it has both, else the widest of its start, the intervals and
/// the capture.
fn span(
    dir: &RunDir,
    manifest: &Manifest,
    intervals: &[IntervalRow],
    clock: &ClockMap,
    troubles: &mut Vec<ReadProblem>,
) -> Result<(i64, i64)> {
    if let Some(span) = capture::measured(&manifest.phases) {
        return Ok(span);
    }
    let measure = manifest.phases.iter().find(|p| p.name == "measure");
    let from = intervals.iter().map(|r| r.start_ns).min();
    let to = intervals.iter().map(|r| r.start_ns.saturating_add(r.length_ns as i64)).max();
    let from_ios = match dir.existing(names::IOS) {
        Some(path) => or_trouble(capture::span(&path), "capture_unreadable", troubles)?,
        None => None,
    };
    let from_ios = from_ios.map(|(a, b)| (clock.to_reference(a), clock.to_reference(b)));
    let starts = [measure.map(|p| p.start_ns), from, from_ios.map(|s| s.0)];
    let start = starts.into_iter().flatten().min().unwrap_or(manifest.clock.monotonic_ns);
    let ends = [to, from_ios.map(|s| s.1)];
    let end = ends.into_iter().flatten().max().unwrap_or(start);
    Ok((start, end.max(start)))
}

/// I/Os the recorder counted in measure and drain. A killed run's manifest still says 0.
fn recorded(manifest: &Manifest) -> Option<u64> {
    let phases = || manifest.phases.iter().filter(|p| capture::counts(&p.name));
    let known = phases().next().is_some() && manifest.status != RunStatus::Running;
    known.then(|| phases().map(|p| p.ios).sum())
}

/// Whether figures come from the capture: it holds every I/O, or what was salvaged of a killed run. Why not is a
/// trouble, except where the run was asked to keep less.
fn whole_capture(
    manifest: &Manifest,
    captured: &CapturedIos,
    counts: &IoCounts,
    log: bool,
    troubles: &mut Vec<ReadProblem>,
) -> bool {
    let mut trouble = |code, text: String| troubles.push(ReadProblem { code, text });
    if captured.overflowed {
        trouble(
            "memory",
            "The run has too many different latencies to count exactly in memory; percentiles come \
             from histograms (error up to 0.1 %)."
                .to_owned(),
        );
        return false;
    }
    if let Some(degraded) = &manifest.capture.degraded {
        let missing = match degraded.not_kept {
            0 => String::new(),
            n if log => format!(" ({} I/Os are in the histograms only)", crate::format::count(n)),
            n => format!(" ({} I/Os were left out)", crate::format::count(n)),
        };
        let then = if log {
            "Percentiles come from histograms (error up to 0.1 %)."
        } else {
            "There are no histograms to take percentiles from."
        };
        trouble(
            "capture_degraded",
            format!(
                "Not every I/O was kept: {}{missing}. {then}",
                degraded.reason.trim_end_matches('.'),
            ),
        );
        return false;
    }
    if manifest.capture.mode != CaptureMode::All {
        return false;
    }
    let killed = counts.recorded.is_none();
    let all = counts.recorded.or(counts.in_intervals).unwrap_or(counts.analysed);
    // A killed run has no count of its own: what was salvaged speaks, as partial.
    if counts.analysed == all || (killed && counts.analysed > 0) {
        return true;
    }
    trouble(
        "counts_differ",
        format!(
            "The recorder counted {} I/Os, the capture holds {}. Percentiles come from histograms \
             (error up to 0.1 %).",
            crate::format::count(all),
            crate::format::count(counts.analysed)
        ),
    );
    false
}

/// Gives histogram groups what an incomplete capture still knows: the slowest, and which errors.
/// Returns whether there are groups of which nothing else is known; of a `watched` program, which always has kinds of
/// operation that were not counted, only where no kind was.
fn adopt(groups: &mut Vec<IoGroup>, captured: Vec<IoGroup>, watched: bool) -> bool {
    let some = watched && groups.iter().any(|g| g.latencies.service.count() > 0);
    let mut outliers_only = false;
    for kept in captured {
        let place = groups.iter().position(|g| (g.workload, g.op) == (kept.workload, kept.op));
        let Some(group) = place.map(|i| &mut groups[i]) else {
            outliers_only = true;
            groups.push(kept.without_sample());
            continue;
        };
        let failed = group.tally.failed();
        let known = kept.tally.failed();
        group.tally.errors = kept.tally.errors;
        if failed > known {
            group.tally.errors.insert(STATUS_UNKNOWN, (failed - known, None));
        }
        group.tally.last_ns = group.tally.last_ns.max(kept.tally.last_ns);
        group.outliers = kept.outliers;
        group.slowest = kept.slowest;
    }
    outliers_only && !some
}
