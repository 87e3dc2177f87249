//! The histogram log of a run, as HdrHistogram's own programs read it (log format 1.3, histograms V2).
//!
//! The directory of a measured run has the log in that very format (`rundir::histlog`): its checksum is compared, and
//! the file copied. An imported run has no log: one is made of the counts by bins that the tool gave, or of every I/O.
//! Comments tell the bins and all else that the tool told of their operations, so that an import gives back the same.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Write};

use hdrhistogram::Histogram;
use taillight_core::{Error, LatencyKind, OpKind, Result};
use taillight_rundir::histlog::{BinsError, HistEntry, HistTag, ToldFigures, log_text};
use taillight_rundir::ios::{ColumnSet, read_ios};
use taillight_rundir::latency::LatencyBin;
use taillight_rundir::origin::{Fidelity, ImportSource, ImportedFile, imported};
use taillight_rundir::{RunDir, atomic, names};

use super::{RunExport, file_of, ios, lacks, unwritten};
use crate::text::origin;

/// See [`super::RUN_EXPORTS`].
pub const HDR: RunExport = RunExport {
    name: "hdr",
    about: "HdrHistogram log of a run, in ns: a tag phase/workload/operation/latency on each interval",
    binary: false,
    write,
};

/// The phase of imported runs.
const PHASE: &str = "measure";
/// Digits that histograms keep.
const DIGITS: u8 = 3;

fn write(dir: &RunDir, out: &mut dyn Write) -> Result<Vec<String>> {
    if let Some(source) = dir.manifest().origin.imported() {
        let (entries, comments, said) = match source.fidelity {
            Fidelity::EveryIo => of_ios(dir)?,
            Fidelity::Bins => of_bins(dir, source)?,
            Fidelity::Percentiles | Fidelity::Averages => return Err(lacks(dir, "histograms")),
        };
        out.write_all(&log_text(dir, &comments, entries)?).map_err(unwritten)?;
        return Ok(said);
    }
    let path = file_of(dir, names::HISTOGRAMS, "histograms")?;
    let mut file = File::open(&path).map_err(|e| atomic::cannot("read", &path, e))?;
    io::copy(&mut file, out).map_err(unwritten)?;
    Ok(Vec::new())
}

/// Histograms, the comments of their log, and what is to be said of them.
type MadeHistograms = (Vec<HistEntry<Histogram<u64>>>, Vec<String>, Vec<String>);

fn empty() -> Result<Histogram<u64>> {
    Histogram::new(DIGITS).map_err(|e| Error::internal("no histogram").with("why", e))
}

fn count(histogram: &mut Histogram<u64>, ns: u64, n: u64) -> Result<()> {
    let put = histogram.record_n(ns, n);
    put.map_err(|e| Error::corrupt("a latency that no histogram holds").with("why", e))
}

/// Of the counts by bins of the tool, each at the middle of its bin.
fn of_bins(dir: &RunDir, source: &ImportSource) -> Result<MadeHistograms> {
    let figures = imported(dir)?.ok_or_else(|| lacks(dir, "histograms"))?;
    let kind = if source.is_scheduled() { LatencyKind::Response } else { LatencyKind::Service };
    let (mut entries, mut error, mut left_out) = (Vec::new(), BinsError::default(), Vec::new());
    let starts = starts(dir, &figures);
    let (mut told, mut taken) = (Vec::new(), BTreeSet::new());
    let each = (0..).zip(&figures.workloads);
    let each = each.flat_map(|(place, w)| w.ops.iter().map(move |(op, it)| (place, w, *op, it)));
    for (place, w, op, it) in each {
        if it.latency.bins.is_empty() {
            left_out.push(format!("{} of {}", op.name(), w.name));
            continue;
        }
        let mut histogram = empty()?;
        for bin in &it.latency.bins {
            count(&mut histogram, bin.range().middle_ns(), bin.count)?;
            error.add(bin.range());
        }
        let start_ns = starts.get(&w.group).copied().unwrap_or_default();
        let mut made = entry((&w.name, op, kind), (start_ns, it.duration_ns), histogram);
        // Names may differ by what a tag replaces alone.
        while !taken.insert(made.tag.text()) {
            made.tag.workload.push('_');
        }
        let workload = w.name.clone();
        let (tool, spans) = (origin::tool(source), source.spans.clone());
        let op = it.clone();
        let figures = ToldFigures { place, workload, group: w.group, tool, spans, op };
        told.extend(figures.comments(&made.tag)?);
        entries.push(made);
    }
    let mut said = vec![format!(
        "counts stand at the middle of the bins that the tool gave: a value may be {:.1} % off; comments tell the bins, \
         which `taillight import` reads",
        100.0 * (error.share + 0.001)
    )];
    if error.ns >= LatencyBin::OPEN_NS {
        said.push(
            "a bin that has all beyond its least stands at that: no bound is known".to_owned(),
        );
    }
    if !left_out.is_empty() {
        said.push(format!("no counts by bins are known of: {}", left_out.join(", ")));
    }
    told.insert(0, error.comment());
    Ok((entries, told, said))
}

fn start_of(dir: &RunDir) -> i64 {
    dir.manifest().phases.first().map_or(0, |phase| phase.start_ns)
}

/// When each group of jobs began, ns: at the end of the one before.
fn starts(dir: &RunDir, figures: &ImportedFile) -> BTreeMap<u32, i64> {
    let mut longest: BTreeMap<u32, u64> = BTreeMap::new();
    for w in &figures.workloads {
        let ns = w.ops.values().map(|it| it.duration_ns).max().unwrap_or(0);
        let of_group = longest.entry(w.group).or_default();
        *of_group = (*of_group).max(ns);
    }
    let mut next = start_of(dir);
    let begin = |(group, ns): (u32, u64)| {
        let start = next;
        next = next.saturating_add(i64::try_from(ns).unwrap_or(i64::MAX));
        (group, start)
    };
    longest.into_iter().map(begin).collect()
}

fn entry(
    (workload, op, kind): (&str, OpKind, LatencyKind),
    (start_ns, length_ns): (i64, u64),
    histogram: Histogram<u64>,
) -> HistEntry<Histogram<u64>> {
    let tag = HistTag { phase: PHASE.to_owned(), workload: workload.to_owned(), op, kind };
    HistEntry { start_ns, length_ns, tag, histogram }
}

/// Of service and, where there is a due time, response time of every I/O that did not fail.
fn of_ios(dir: &RunDir) -> Result<MadeHistograms> {
    let mut made: BTreeMap<(u16, OpKind, LatencyKind), Histogram<u64>> = BTreeMap::new();
    let mut failed = 0u64;
    read_ios(&ios(dir)?, ColumnSet::ALL, &mut |batch| {
        for row in (0..batch.rows).map(|i| batch.row(i)) {
            if !row.status.is_ok() {
                failed += 1;
                continue;
            }
            let from =
                [(row.intended, LatencyKind::Response), (Some(row.submit), LatencyKind::Service)];
            for (from, kind) in from {
                let Some(from) = from else { continue };
                let ns = row.complete.0.saturating_sub(from.0).max(0) as u64;
                let histogram = match made.entry((row.workload, row.op, kind)) {
                    Entry::Occupied(there) => there.into_mut(),
                    Entry::Vacant(place) => place.insert(empty()?),
                };
                count(histogram, ns, 1)?;
            }
        }
        Ok(())
    })?;
    let manifest = dir.manifest();
    let phase = manifest.phases.first();
    let length = phase.and_then(|it| Some(it.end_ns?.saturating_sub(it.start_ns).max(0) as u64));
    let length_ns = length.unwrap_or(0);
    let entries = made.into_iter().map(|((workload, op, kind), histogram)| {
        let name = manifest.plan.workloads.get(usize::from(workload));
        let name = name.map_or_else(|| format!("w{workload}"), |w| w.name.clone());
        entry((&name, op, kind), (start_of(dir), length_ns), histogram)
    });
    let said = (failed > 0).then(|| format!("{failed} failed I/Os are in no histogram"));
    Ok((entries.collect(), Vec::new(), said.into_iter().collect()))
}
