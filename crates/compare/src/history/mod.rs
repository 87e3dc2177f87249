//! When a figure changed over nights of runs, and whether the newest night stands out: reads nights of runs,
//! makes the content of `changes.json` and its texts. The newest night alone is never more than a suspect;
//! runs of the same job decide. The statistics are in `taillight_stats::compare`.

mod nights;
#[cfg(test)]
mod tests;
mod words;

use std::path::PathBuf;

use taillight_core::plan::{Figure, GateFigure};
use taillight_core::units::Span;
use taillight_core::{Error, OpKind, Percentile, Result};
use taillight_report::model::about::utc;
use taillight_rundir::SCHEMA_VERSION;
use taillight_rundir::compare::{CompareVerdict, ComparedRun};
use taillight_rundir::history::{
    HistoryChange, HistoryFile, HistoryGap, HistoryNight, HistorySegment, HistorySuspect,
    HistoryTrack, LeftOutRun,
};
use taillight_stats::compare::{Change, ChangeRule, changes, suspect};

use crate::comparable::is_saturated;
use crate::figures::{ALPHA, RunFigure, geometric_mean};
use crate::side::SideRun;
use nights::{Night, nights, runs_in};

pub use words::{console, markdown, nights_table, table, words};

/// How much further apart than usual two nights are where one is missing between them.
const GAP: f64 = 1.6;

/// What is asked.
#[derive(Debug, Clone)]
pub struct HistoryRequest {
    /// Runs that began within this time of the first one are one night.
    pub night: Span,
    /// Figures by name, like (read, p99); empty = those that at least half of the nights have.
    pub figures: Vec<(OpKind, String)>,
    /// Whether runs count that are not complete or had I/O errors.
    pub anyway: bool,
}

/// The history in these run directories and folders of them. Errors: `Usage` for a single night, jobs in turn, a figure
/// that no night has, or no figure that half of the nights have; `Unavailable` or `Corrupt` where nothing can be read.
pub fn history(paths: &[PathBuf], request: &HistoryRequest) -> Result<HistoryFile> {
    let (runs, left_out) = runs_in(paths, request.anyway)?;
    of_runs(runs, left_out, request)
}

fn of_runs(
    runs: Vec<SideRun>,
    left_out: Vec<LeftOutRun>,
    request: &HistoryRequest,
) -> Result<HistoryFile> {
    let nights = nights(runs, request.night)?;
    if nights.len() < 2 {
        return Err(Error::usage("one night has no history")
            .with("runs", nights.iter().map(|n| n.runs.len()).sum::<usize>())
            .with("left out", left_out.len())
            .hint("name runs of several nights; --night 0s takes every run as one"));
    }
    let segments = segments(&nights);
    let values = values(&nights, request)?;
    let rule = ChangeRule::over(values.len());
    let mut file = HistoryFile {
        schema: SCHEMA_VERSION,
        taillight: env!("CARGO_PKG_VERSION").to_owned(),
        // Runs taken one by one have no rhythm that one could be missing from.
        gaps: if request.night.0 > 0 { gaps(&nights) } else { Vec::new() },
        nights: described(&nights),
        segments,
        left_out,
        p: rule.p,
        figures: Vec::new(),
    };
    for ((op, figure), values) in values {
        let track = judged(op, figure, values, &file, &rule);
        file.figures.push(track);
    }
    Ok(file)
}

fn segments(nights: &[Night]) -> Vec<HistorySegment> {
    let mut segments: Vec<HistorySegment> = Vec::new();
    for (at, night) in nights.iter().enumerate() {
        match segments.last_mut() {
            Some(segment) if night.differs.is_none() => segment.last = at,
            _ => {
                let differs = night.differs.clone();
                segments.push(HistorySegment { first: at, last: at, differs });
            }
        }
    }
    segments
}

fn described(nights: &[Night]) -> Vec<HistoryNight> {
    let date = |night: &Night, length: usize| utc(night.at()).chars().take(length).collect();
    let dates: Vec<String> = nights.iter().map(|night| date(night, "2026-11-23".len())).collect();
    let length = match dates.windows(2).any(|pair| pair[0] == pair[1]) {
        true => "2026-11-23 04:00:00".len(),
        false => "2026-11-23".len(),
    };
    let run = |run: &SideRun| ComparedRun {
        run_id: run.manifest.run_id.clone(),
        dir: run.dir.display().to_string(),
    };
    let described = |night: &Night| HistoryNight {
        realtime_ns: night.at(),
        date: date(night, length),
        runs: night.runs.iter().map(run).collect(),
    };
    nights.iter().map(described).collect()
}

/// Nights that are missing, by the usual distance of two.
fn gaps(nights: &[Night]) -> Vec<HistoryGap> {
    let distance = |pair: &[Night]| pair[1].at().abs_diff(pair[0].at()) as f64;
    let distances: Vec<f64> = nights.windows(2).map(distance).collect();
    let Some(usual) = median(distances.clone()).filter(|usual| *usual > 0.0) else {
        return Vec::new();
    };
    let gap = |(after, distance): (usize, &f64)| {
        let missing = ((distance / usual).round() as u64).saturating_sub(1);
        (*distance > GAP * usual).then_some(HistoryGap { after, missing })
    };
    distances.iter().enumerate().filter_map(gap).collect()
}

type NightValues = ((OpKind, Figure), Vec<Option<f64>>);

/// Every figure that is asked for or that at least half of the nights have, night by night. Errors: `Usage`
/// where there is none, or none of an asked one.
fn values(nights: &[Night], request: &HistoryRequest) -> Result<Vec<NightValues>> {
    let runs = || nights.iter().flat_map(|night| &night.runs);
    let mut ops: Vec<OpKind> = runs().flat_map(|run| run.summary.ops.keys().copied()).collect();
    ops.sort_unstable();
    ops.dedup();
    let all = ops.into_iter().filter(|op| !op.is_part());
    let all = all.flat_map(|op| usual().map(move |figure| (op, figure)));
    let of = |(op, figure): (OpKind, Figure)| {
        let nightly = nights.iter().map(|night| {
            // Response times of a run that fell behind say how long it was.
            let of_run = |run: &SideRun| match figure {
                Figure::Percentile(_) if is_saturated(run) => None,
                _ => GateFigure { op, figure }.value(run),
            };
            median(night.runs.iter().filter_map(of_run).collect())
        });
        ((op, figure), nightly.collect::<Vec<Option<f64>>>())
    };
    let known = |values: &[Option<f64>]| values.iter().flatten().count();
    let all: Vec<NightValues> = all.map(of).filter(|(_, values)| known(values) > 0).collect();
    let is = |(op, name): &(OpKind, String), of: &(OpKind, Figure)| {
        *op == of.0 && *name == of.1.to_string()
    };
    let absent = request.figures.iter().find(|asked| !all.iter().any(|(of, _)| is(asked, of)));
    if let Some((op, name)) = absent {
        let known = all.iter().map(|((op, figure), _)| format!("{}:{figure}", op.name()));
        return Err(Error::usage(format!("no night has {}:{name}", op.name()))
            .hint(format!("there are {}", known.collect::<Vec<_>>().join(", "))));
    }
    let wanted = |(of, values): &NightValues| match request.figures.is_empty() {
        true => 2 * known(values) >= nights.len(),
        false => request.figures.iter().any(|asked| is(asked, of)),
    };
    let wanted: Vec<NightValues> = all.into_iter().filter(wanted).collect();
    match wanted.is_empty() {
        false => Ok(wanted),
        true => Err(Error::usage("no figure is there in most of the nights")
            .hint("name runs of one job; longer runs resolve more percentiles")),
    }
}

/// What is looked at: rate, median and nines.
fn usual() -> impl Iterator<Item = Figure> {
    let nines = (1..=9).filter_map(Percentile::nines);
    let percentiles = [Percentile::MEDIAN].into_iter().chain(nines);
    [Figure::Rate].into_iter().chain(percentiles.map(Figure::Percentile))
}

/// The middle value; of an even number the geometric mean of both in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    geometric_mean(values.get(n.checked_sub(1)? / 2..=n / 2)?)
}

/// A figure with what came of it, segment by segment.
fn judged(
    op: OpKind,
    figure: Figure,
    values: Vec<Option<f64>>,
    file: &HistoryFile,
    rule: &ChangeRule,
) -> HistoryTrack {
    let mut track = HistoryTrack {
        op,
        figure: figure.to_string(),
        values,
        enough: false,
        changes: Vec::new(),
        suspect: None,
    };
    for segment in &file.segments {
        let known: Vec<(usize, f64)> = (segment.first..=segment.last)
            .filter_map(|night| Some((night, track.values[night]?)))
            .collect();
        let series: Vec<f64> = known.iter().map(|(_, value)| *value).collect();
        track.enough |= series.len() >= 2 * rule.least;
        let found = changes(&series, rule).unwrap_or_default();
        let described = |change: &Change| described_change(change, &known, figure, file);
        track.changes.extend(found.iter().map(described));
        let newest = known.last().filter(|(night, _)| night + 1 == file.nights.len());
        if let Some((_, value)) = newest {
            let since = found.last().map_or(0, |change| change.at);
            let before = &series[since.min(series.len() - 1)..series.len() - 1];
            track.suspect =
                suspect(before, *value).filter(|s| s.is_outside).map(|band| HistorySuspect {
                    night: file.nights.len() - 1,
                    value: *value,
                    since: known[since].0,
                    lo: band.lo,
                    hi: band.hi,
                    verdict: direction(figure, *value > band.hi),
                    decide: Vec::new(),
                });
        }
    }
    track
}

fn described_change(
    change: &Change,
    known: &[(usize, f64)],
    figure: Figure,
    file: &HistoryFile,
) -> HistoryChange {
    let (lo, hi) = change.difference.interval(ALPHA);
    let night = known[change.at].0;
    HistoryChange {
        night,
        run_id: file.nights[night].runs.first().map_or(String::new(), |r| r.run_id.clone()),
        previous: known[change.at.saturating_sub(1)].0,
        before: change.before,
        after: change.after,
        ratio: change.difference.ratio(),
        lo,
        hi,
        p: change.difference.p_value(),
        verdict: direction(figure, change.difference.estimate > 0.0),
    }
}

/// Of rates, lower is worse.
fn direction(figure: Figure, higher: bool) -> CompareVerdict {
    match higher == (figure == Figure::Rate) {
        true => CompareVerdict::Better,
        false => CompareVerdict::Worse,
    }
}
