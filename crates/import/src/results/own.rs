//! What `taillight export` writes of a run, back as a run: every I/O (`ios-csv`), the table of a run or a series
//! (`csv`), the summary (`json`). Its histograms (`hdr`) are [`super::hdr_log`]'s, fio's JSON is [`super::fio`]'s.

use std::collections::{BTreeMap, BTreeSet};

use taillight_core::{LatencyKind, OpKind, Record, Result, Stamp, Status};
use taillight_rundir::latency::{Latency, PercentileEntry, Quantile};
use taillight_rundir::origin::{
    ImportSource, ImportedLatency, ImportedOp, ImportedPercentile, ImportedWorkload, RunOrigin,
};
use taillight_rundir::points::PERCENTILES;
use taillight_rundir::summary::Totals;
use taillight_rundir::{RunStatus, Summary};

use super::every_io::{EveryIo, IoSink};
use super::source::{fields, figure};
use super::{
    ForeignResult, ForeignRun, ForeignWorkload, LAST_NS, ResultSource, ResultUnit, block_of,
    name_of,
};

/// First columns of every I/O, and of the table.
const IOS: &str = "phase,workload,worker,op,target,offset_bytes,key,size_bytes,";
const POINTS: &str = "series,point,run,round,role,status,";
/// Last column of every I/O: how many its phase had; exports of earlier versions lack it.
const ALL_IOS: &str = ",phase_ios";
const SECOND: &str = "a second export begins here: give each run a file of its own";
/// Phases whose I/Os are the run's.
const MEASURED: [&str; 2] = ["measure", "drain"];
/// Workloads that the rows of a table may have, at most.
const MOST_ROWS: usize = 100_000;

pub fn looks_like_ios(head: &str) -> bool {
    head.starts_with(IOS)
}

pub fn looks_like_points(head: &str) -> bool {
    head.starts_with(POINTS)
}

pub fn looks_like_summary(head: &str) -> bool {
    head.starts_with('{')
        && ["\"taillight\"", "\"run_id\"", "\"verdict\""].iter().all(|it| head.contains(it))
}

/// What latencies span where some operations had a schedule and some had not.
pub(super) const MIXED_SPANS: &str = "from submission, or from the schedule where there was one";

/// `scheduled`: of the operations, whether there was a schedule.
fn foreign(source: &ResultSource<'_>, scheduled: &BTreeSet<bool>) -> ForeignResult {
    let spans = match (scheduled.contains(&true), scheduled.contains(&false)) {
        (true, false) => ImportSource::SCHEDULED,
        (true, true) => MIXED_SPANS,
        _ => "from submission to completion",
    };
    ForeignResult {
        tool: "taillight",
        driver: "taillight",
        name: name_of(source.file),
        spans: spans.to_owned(),
        ..ForeignResult::default()
    }
}

/// Workloads of a file, numbered as they come.
#[derive(Default)]
struct SeenWorkloads(Vec<u16>);

impl SeenWorkloads {
    fn of(&mut self, number: u16) -> u16 {
        let known = self.0.iter().position(|it| *it == number).unwrap_or_else(|| {
            self.0.push(number);
            self.0.len() - 1
        });
        known as u16
    }
}

pub fn read_ios(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    source.says_unit(ResultUnit::Ns)?;
    let (mut every, mut seen) = (EveryIo::default(), SeenWorkloads::default());
    let (mut scheduled, mut workers) = (BTreeSet::new(), BTreeMap::<u16, u16>::new());
    ios(source, &mut |(workload, worker), record| {
        let workload = seen.of(workload);
        let most = workers.entry(workload).or_default();
        *most = (*most).max(worker);
        scheduled.insert(record.intended.is_some());
        every.add((workload, worker), record)
    })?;
    let mut found = foreign(source, &scheduled);
    found.workloads = (0..)
        .zip(&seen.0)
        .map(|(index, number)| {
            let ops = every.ops(index);
            let block = block_of(&ops);
            let figures = ImportedWorkload { name: format!("w{number}"), group: 0, ops };
            let workers = workers.get(&index).map_or(0, |most| u32::from(*most) + 1);
            ForeignWorkload { figures, random: false, workers, depth: 0, block }
        })
        .collect();
    found.rows = every.any().then(|| {
        every.rows(Box::new(|source, sink| {
            let mut seen = SeenWorkloads::default();
            ios(source, &mut |(workload, worker), record| sink((seen.of(workload), worker), record))
        }))
    });
    found.run(source)
}

fn ios(source: &mut ResultSource<'_>, each: &mut IoSink<'_>) -> Result<()> {
    let head = source.whole_line()?.unwrap_or_default();
    let columns = head.split(',').count();
    let counted = head.ends_with(ALL_IOS);
    // Of each phase its rows, and how many I/Os it had as the rows tell.
    let mut phases: BTreeMap<String, (u64, String)> = BTreeMap::new();
    while let Some(line) = source.whole_line()? {
        let fields: Vec<&str> = line.split(',').collect();
        if fields.len() != columns {
            return Err(source.damaged("the row has not as many columns as the header"));
        }
        if line == head {
            return Err(source.damaged(SECOND));
        }
        if !MEASURED.contains(&fields[0]) {
            continue;
        }
        if counted {
            let of = fields.last().copied().unwrap_or_default();
            match phases.get_mut(fields[0]) {
                Some((rows, all)) if all == of => *rows += 1,
                Some(_) => return Err(source.damaged("rows tell different numbers of I/Os")),
                None => drop(phases.insert(fields[0].to_owned(), (1, of.to_owned()))),
            }
        }
        let (owner, record) = io(&fields).ok_or_else(|| {
            source.damaged("no row of I/Os of Taillight, or times beyond any run")
        })?;
        each(owner, &record).map_err(|e| source.placed(e))?;
    }
    for (phase, (rows, all)) in phases {
        if rows.to_string() != all {
            let what = "the file has a part of the I/Os of its run, whose percentiles are not those of all";
            return Err(source.damaged(what).with("phase", phase).with("rows", rows).with("I/Os", all).hint(
                "export the run's figures: --format hdr, csv or json; where the run kept all I/Os, export it again",
            ));
        }
    }
    Ok(())
}

/// A row, in the order of `ios.parquet`.
fn io(fields: &[&str]) -> Option<((u16, u16), Record)> {
    let [
        _,
        workload,
        worker,
        op,
        target,
        offset,
        key,
        size,
        moved,
        count,
        intended,
        origin,
        submit,
        issued,
        first,
        complete,
        sync_ns,
        retries,
        status,
        ..,
    ] = fields
    else {
        return None;
    };
    fn known<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
        if text.is_empty() { Some(None) } else { Some(Some(text.parse().ok()?)) }
    }
    let stamp = |text: &str| {
        let ns: i64 = text.parse().ok()?;
        (0..=LAST_NS).contains(&ns).then_some(Stamp(ns))
    };
    let maybe = |text: &str| if text.is_empty() { Some(None) } else { stamp(text).map(Some) };
    let record = Record {
        op: OpKind::from_name(op)?,
        target: target.parse().ok()?,
        offset: known(offset)?,
        key: known(key)?,
        size: size.parse().ok()?,
        moved: known(moved)?,
        count: known(count)?,
        intended: maybe(intended)?,
        origin: maybe(origin)?,
        submit: stamp(submit)?,
        issued: maybe(issued)?,
        first: maybe(first)?,
        complete: stamp(complete)?,
        sync_ns: known(sync_ns)?,
        retries: known(retries)?,
        status: Status(status.parse().ok()?),
    };
    let forward = record.complete >= record.submit;
    // What a Parquet file of a run can hold.
    let held = |n: Option<u64>| n.is_none_or(|n| i64::try_from(n).is_ok());
    let held = held(record.offset) && held(record.key);
    (forward && held).then_some(((workload.parse().ok()?, worker.parse().ok()?), record))
}

pub fn read_points(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    source.says_unit(ResultUnit::Ns)?;
    let head = source.whole_line()?.unwrap_or_default();
    let names = fields(&head, ',');
    let mut workloads: Vec<ForeignWorkload> = Vec::new();
    let (mut scheduled, mut run, mut early) = (BTreeSet::new(), String::new(), false);
    while let Some(line) = source.whole_line()? {
        let row = fields(&line, ',');
        if row.len() != names.len() {
            return Err(source.damaged("the row has not as many columns as the header"));
        }
        let text = |name: &str| {
            let at = names.iter().position(|known| known == name);
            let text = at.and_then(|at| row.get(at)).map(String::as_str);
            text.ok_or_else(|| source.damaged("a column is missing").with("column", name))
        };
        let number = |name: &str| match text(name)? {
            "" => Ok(None),
            it => figure(it).map(Some).ok_or_else(|| {
                source.damaged("a figure that is no number").with("column", name).with("it", it)
            }),
        };
        let op = OpKind::from_name(text("op")?)
            .ok_or_else(|| source.damaged("no operation of Taillight").with("column", "op"))?;
        if op.is_part() {
            continue;
        }
        scheduled.insert(text("latency")? == LatencyKind::Response.name());
        early |= text("status")? != "complete";
        let (of, name) = (text("run")?.to_owned(), text("workload")?.to_owned());
        let op_figures = point(&number)?;
        // Runs are one after another.
        let group = workloads.last().map_or(0, |w| w.figures.group);
        let group = if run.is_empty() || run == of { group } else { group + 1 };
        match workloads.iter_mut().find(|w| w.figures.group == group && w.figures.name == name) {
            Some(w) if w.figures.ops.contains_key(&op) => {
                return Err(source.damaged("the table has this operation of this run before"));
            }
            Some(w) => drop(w.figures.ops.insert(op, op_figures)),
            None => {
                let figures =
                    ImportedWorkload { name, group, ops: BTreeMap::from([(op, op_figures)]) };
                workloads.push(ForeignWorkload {
                    figures,
                    random: false,
                    workers: 0,
                    depth: 0,
                    block: 0,
                });
            }
        }
        run = of;
        if workloads.len() > MOST_ROWS {
            return Err(source.damaged("there are too many rows"));
        }
    }
    if workloads.last().is_some_and(|w| w.figures.group > 0) {
        for w in &mut workloads {
            w.figures.name = format!("{}-{}", w.figures.name, w.figures.group + 1);
        }
    }
    let found = foreign(source, &scheduled);
    let spans = spans(&RunOrigin::Measured, &found.spans, early);
    ForeignResult { workloads, spans, ..found }.run(source)
}

/// The figures of a row, by the names of its columns.
fn point(number: &dyn Fn(&str) -> Result<Option<f64>>) -> Result<ImportedOp> {
    let mut percentiles = Vec::new();
    for (name, p) in PERCENTILES {
        let ns = number(&format!("{name}_ns"))?;
        percentiles.extend(ns.map(|ns| ImportedPercentile { p: p.to_owned(), ns: ns as u64 }));
    }
    let whole = |name: &str| number(name).map(|n| n.unwrap_or(0.0) as u64);
    let (count, errors) = (whole("ops")?, whole("errors")?);
    Ok(ImportedOp {
        count,
        errors,
        bytes: whole("bytes")?,
        duration_ns: whole("duration_ns")?,
        iops: number("iops")?.unwrap_or(0.0),
        bytes_per_s: number("bytes_per_s")?.unwrap_or(0.0),
        latency: ImportedLatency {
            count: count.saturating_sub(errors),
            max_ns: number("max_ns")?.map(|ns| ns as u64),
            mean_ns: number("mean_ns")?,
            percentiles,
            ..ImportedLatency::default()
        },
    })
}

pub fn read_summary(source: &mut ResultSource<'_>) -> Result<ForeignRun> {
    source.says_unit(ResultUnit::Ns)?;
    let summary: Summary = source.json("the summary of Taillight is damaged")?;
    let each = summary.workloads.iter().flat_map(|done| &done.ops);
    let scheduled = each
        .filter(|(op, _)| !op.is_part())
        .map(|(_, totals)| totals.latencies.main_kind() == LatencyKind::Response)
        .collect();
    let workload = |done: &taillight_rundir::summary::WorkloadSummary| {
        let ops = done.ops.iter().filter(|(op, _)| !op.is_part());
        let ops = ops.map(|(op, totals)| (*op, imported(totals))).collect();
        let figures = ImportedWorkload { name: done.name.clone(), group: 0, ops };
        ForeignWorkload { figures, random: false, workers: 0, depth: 0, block: 0 }
    };
    let each = || {
        let totals = summary.workloads.iter().flat_map(|done| done.ops.values());
        totals.flat_map(|totals| &totals.latencies.main().percentiles)
    };
    if each().any(|p| p.bin.is_some_and(|bin| bin.lo_ns > bin.hi_ns)) {
        return Err(source.damaged("a percentile whose bin ends before it begins"));
    }
    let wide = each().any(|p| p.is_wide_bin());
    let wide = wide.then(|| {
        "percentiles that are known as wide bins alone are left out: import the result that the run was made of".to_owned()
    });
    let found = foreign(source, &scheduled);
    let early = summary.status != RunStatus::Complete;
    ForeignResult {
        version: Some(summary.taillight.clone()),
        workloads: summary.workloads.iter().map(workload).collect(),
        notes: wide.into_iter().collect(),
        spans: spans(&summary.origin, &found.spans, early),
        ..found
    }
    .run(source)
}

/// What latencies span, with what else the export says of where its figures come from.
fn spans(origin: &RunOrigin, own: &str, early: bool) -> String {
    let mut said = match origin {
        RunOrigin::Measured => own.to_owned(),
        RunOrigin::Merged { ranks } => format!("{own}; of {ranks} ranks together"),
        RunOrigin::Watched { sample: Some(_), .. } => {
            format!("{own}; of a program that was watched, by a sample")
        }
        RunOrigin::Watched { requests, .. } if !requests.is_empty() => {
            format!("{own}; of requests of io_uring and libaio of a program that was watched")
        }
        RunOrigin::Watched { .. } => format!("{own}; of a program that was watched"),
        RunOrigin::Imported(of) => format!("{}; of a result of {}", of.spans, of.tool),
    };
    if early {
        said.push_str("; the run ended early");
    }
    said
}

fn imported(totals: &Totals) -> ImportedOp {
    ImportedOp {
        count: totals.count,
        errors: totals.errors,
        bytes: totals.bytes,
        duration_ns: totals.duration_ns,
        iops: totals.iops,
        bytes_per_s: totals.bytes_per_s,
        latency: latency(totals.latencies.main()),
    }
}

fn latency(it: &Latency) -> ImportedLatency {
    // One that its I/Os, dependent as they were, could not resolve would look resolved.
    let value = |q: &Quantile| q.ns.or(q.observed_ns.filter(|_| it.count < q.needs));
    let given = it.percentiles.iter().filter(|p| !p.is_wide_bin());
    let given = given.filter_map(|p| Some(ImportedPercentile { p: p.p.clone(), ns: value(p)? }));
    // A value that its tool cut off is where its bin begins.
    let step = |p: &PercentileEntry| {
        let bin = p.bin.filter(|bin| value(p) == Some(bin.lo_ns) && !bin.is_open())?;
        Some((bin.hi_ns - bin.lo_ns).saturating_add(1)).filter(|step| *step > 1)
    };
    ImportedLatency {
        count: it.count,
        min_ns: it.min_ns,
        max_ns: it.max_ns,
        mean_ns: it.mean_ns,
        stddev_ns: it.stddev_ns,
        percentiles: given.collect(),
        step_ns: it.percentiles.iter().find_map(step),
        ..ImportedLatency::default()
    }
}

#[cfg(test)]
mod tests {
    use taillight_rundir::fixture;
    use taillight_rundir::latency::LatencyBin;

    use super::*;

    /// Once a run that ended early came back as a whole one, and one of several ranks as one of a single process.
    #[test]
    fn what_an_export_says_of_its_figures_comes_back_with_them() {
        let mut summary = fixture::summary("r");
        let read = |summary: &Summary| {
            let text = serde_json::to_string(summary).expect("JSON");
            let mut source = ResultSource::new("r.json", String::new(), Box::new(text.as_bytes()));
            let run = read_summary(&mut source).expect("read");
            run.manifest.origin.imported().expect("imported").spans.clone()
        };
        let whole = read(&summary);
        summary.status = RunStatus::Partial;
        assert_eq!(read(&summary), format!("{whole}; the run ended early"));
        summary.status = RunStatus::Complete;
        summary.origin = RunOrigin::Merged { ranks: 4 };
        assert_eq!(read(&summary), format!("{whole}; of 4 ranks together"));
        let text = serde_json::to_string(&summary).expect("JSON");
        let bin = "\"ns\":110,\"bin\":{\"lo_ns\":9,\"hi_ns\":3}";
        let text = text.replace("\"ns\":110", bin);
        let mut source = ResultSource::new("r.json", String::new(), Box::new(text.as_bytes()));
        let error = read_summary(&mut source).err().expect("refused").to_string();
        assert!(error.contains("ends before it begins"), "{error}");
    }

    /// Once the middle of a bin from 1.2 to 3.6 ms came back as an exact value.
    #[test]
    fn a_percentile_that_is_a_wide_bin_does_not_come_back_as_a_value() {
        let summary = fixture::summary("r");
        let mut it = summary.totals.latencies.main().clone();
        let all = latency(&it).percentiles.len();
        let first = it.percentiles.iter().position(|p| p.ns.is_some()).expect("a percentile");
        let wide = LatencyBin { lo_ns: 1_200_000, hi_ns: 3_600_000 };
        let mut with = |bin: LatencyBin, ns: u64| {
            let q = &mut it.percentiles[first].quantile;
            (q.ns, q.observed_ns, q.bin) = (Some(ns), Some(ns), Some(bin));
            (q.told_ns(), latency(&it))
        };
        let (told, back) = with(wide, wide.middle_ns());
        assert_eq!((told, back.percentiles.len(), back.step_ns), (None, all - 1, None));
        // Whole microseconds of a tool are its own value.
        let (told, back) = with(LatencyBin { lo_ns: 5_000, hi_ns: 5_999 }, 5_000);
        assert_eq!((told, back.percentiles.len(), back.step_ns), (Some(5_000), all, Some(1_000)));
    }
}
