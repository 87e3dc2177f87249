//! The model as the page and programs see it: `/api/state` with its figures and words, which the screen shows as well,
//! and the charts of the page, drawn by the report's own code.

use hdrhistogram::Histogram;
use serde::Serialize;
use serde_json::{Value, json};
use taillight_core::percentile::Percentile;
use taillight_core::plan::TraceMode;
use taillight_core::{LatencyKind, Result};
use taillight_report::format::{bytes_per_s, count, duration_ns, nines_label, percent, rate};
use taillight_report::html::{LiveFigures, live_figures};
use taillight_report::layer_words;
use taillight_report::model::charts::{
    ChartModel, HeatGrid, LatencySeries, RunCharts, series_so_far, tracks, workload_tracks,
};
use taillight_rundir::intervals::IntervalRow;
use taillight_stats::{Dist, needed_one_sided};

use crate::model::{CeilingSoFar, LiveModel, OpSoFar, progressed};

/// Version of `/api/state`.
const SCHEMA: u32 = 1;

fn time(ns: u64) -> String {
    duration_ns(ns)
}

/// Everything but the charts.
pub fn state(model: &LiveModel) -> Value {
    let facts = model.facts.as_ref();
    let view = model.last.as_ref();
    let far = view.and_then(progressed);
    let share = far.map(|f| f.done as f64 / f.all.max(1) as f64);
    let work = model.work.map(|(done, all)| done as f64 / all.max(1) as f64);
    json!({
        "schema": SCHEMA,
        "version": model.version,
        "run": facts.map(|f| &f.run_id),
        "name": facts.map(|f| &f.plan.run.name),
        "about": facts.map(|f| &f.about),
        "series": facts.and_then(|f| f.series.as_ref()).map(|s| json!({ "point": s.id, "round": s.round })),
        "directory": facts.map(|f| f.dir.display().to_string()),
        "phase": model.phase,
        "elapsed_s": view.map(|v| v.elapsed_ns as f64 / 1e9),
        "interval_s": facts.map(|f| f.plan.run.interval.0 as f64 / 1e9),
        "progress": work.or(share),
        "left_s": far.map(|f| f.left.as_secs_f64()),
        "stalled": model.stall_ns().is_some(),
        "oldest_s": model.oldest_ns().map(|ns| ns as f64 / 1e9),
        "in_flight": view.map(|v| v.closed.in_flight.iter().map(|f| u64::from(f.count)).sum::<u64>()),
        "backlog": view.and_then(|v| v.closed.backlog),
        "ops": model.whole_ops().map(|o| op(model, o)).collect::<Vec<_>>(),
        "ceilings": model.ceilings().iter().map(ceiling).collect::<Vec<_>>(),
        "offered_per_s": model.offered_per_s,
        "tiles": tiles(model),
        "verdict": verdict(model),
        "end": model.end.as_ref().map(|end| json!({
            "status": end.status,
            "verdict": end.verdict,
            "report": end.report.is_some(),
        })),
    })
}

/// Percentiles that are shown so far.
pub const SHOWN: [&str; 5] = ["50", "90", "99", "99.9", "99.99"];

/// Each of [`SHOWN`] over a histogram, in ns where `count` I/Os resolve it.
pub fn percentiles(
    held: &Histogram<u64>,
    count: u64,
) -> impl Iterator<Item = (Percentile, Option<u64>)> {
    SHOWN.iter().filter_map(|p| p.parse::<Percentile>().ok()).map(move |pct| {
        let resolved = needed_one_sided(&pct).is_some_and(|needed| count >= needed);
        (pct, resolved.then(|| held.value_at_quantile(pct.share())))
    })
}

fn op(model: &LiveModel, op: &OpSoFar) -> Value {
    let row = model.rows().find(|row| (row.workload, row.op) == (op.workload, op.op));
    let kinds = op.latencies.iter().flat_map(|latencies| latencies.iter());
    let named = |(pct, ns): (Percentile, Option<u64>)| {
        (format!("p{}", pct.to_string().replace('.', "_")), json!(ns))
    };
    let so_far = kinds.map(|(kind, held)| {
        let held = percentiles(held, op.count(kind, held)).map(named).collect();
        (kind.name().to_owned(), Value::Object(held))
    });
    let per_s = |n: u64, row: &IntervalRow| n as f64 * 1e9 / row.length_ns.max(1) as f64;
    json!({
        "workload": model.workload(op.workload),
        "op": op.op.name(),
        "ops": op.ops,
        "bytes": op.bytes,
        "errors": op.errors.values().sum::<u64>(),
        "max_ns": op.max_ns,
        "nines_resolved": op.nines(),
        "so_far_ns": so_far.collect::<serde_json::Map<_, _>>(),
        "last": row.map(|row| json!({
            "ops_per_s": per_s(row.ops - row.errors, row),
            "bytes_per_s": per_s(row.bytes, row),
            "errors": row.errors,
            "p50_ns": row.p50_ns, "p99_ns": row.p99_ns, "p99_9_ns": row.p999_ns, "max_ns": row.max_ns,
            "response_p99_ns": row.response_p99_ns,
        })),
    })
}

fn ceiling(so_far: &CeilingSoFar) -> Value {
    json!({
        "ceiling_ns": so_far.ceiling.ceiling.0,
        "at": so_far.ceiling.at.to_string(),
        "workload": so_far.ceiling.workload,
        "within": so_far.within,
        "of": so_far.all,
        "kept": so_far.kept(),
    })
}

/// A figure with what it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveTile {
    pub label: String,
    pub value: String,
    pub note: String,
}

fn tile(label: &str, value: String, note: String) -> LiveTile {
    LiveTile { label: label.to_owned(), value, note }
}

/// The large figures at the top of the page.
fn tiles(model: &LiveModel) -> Vec<LiveTile> {
    let load = [rate_tiles(model), latency_tiles(model), load_tiles(model)];
    let untraced = model.facts.as_ref().filter(|f| f.plan.trace.mode == TraceMode::Off).map(|_| {
        let how = "not traced: --trace outliers tells who held them".to_owned();
        tile("Slow I/Os, by layer", "unknown".to_owned(), how)
    });
    load.into_iter().chain([machine_tiles(model)]).flatten().chain(untraced).collect()
}

/// What the last interval did.
pub fn rate_tiles(model: &LiveModel) -> Vec<LiveTile> {
    let Some(view) = &model.last else { return Vec::new() };
    let seconds = view.closed.length_ns.max(1) as f64 / 1e9;
    let sum = |f: fn(&IntervalRow) -> u64| model.rows().map(f).sum::<u64>() as f64 / seconds;
    let done = rate(sum(|r| r.ops - r.errors));
    let mut tiles = vec![tile("Operations per second", done, bytes_per_s(sum(|r| r.bytes)))];
    tiles.extend(model.offered_per_s.map(|per_s| {
        tile("Due per second", rate(per_s), "by the schedule, in the last interval".to_owned())
    }));
    tiles
}

/// Percentiles so far.
fn latency_tiles(model: &LiveModel) -> Vec<LiveTile> {
    let mut tiles = Vec::new();
    for op in model.whole_ops() {
        let Some(latencies) = op.latencies.as_ref().filter(|l| !l.main().is_empty()) else {
            continue;
        };
        let (kind, held) = (latencies.main_kind().words(), latencies.main());
        let deepest = op.nines();
        let (label, q) = match deepest {
            0 | 1 => ("50 %".to_owned(), 0.5),
            k => (nines_label(u32::from(k.min(3))), 1.0 - 0.1f64.powi(i32::from(k.min(3)))),
        };
        tiles.push(tile(
            &format!("{}, {label} of {kind} so far", model.op_name(op.workload, op.op)),
            time(held.value_at_quantile(q)),
            format!("median {}, max {}", time(held.value_at_quantile(0.5)), time(held.max())),
        ));
    }
    tiles
}

/// What waits, what failed, and how much the run can tell.
pub fn load_tiles(model: &LiveModel) -> Vec<LiveTile> {
    let Some(view) = &model.last else { return Vec::new() };
    let mut tiles = Vec::new();
    let in_flight: u64 = view.closed.in_flight.iter().map(|f| u64::from(f.count)).sum();
    if let Some(ns) = model.oldest_ns() {
        let (value, word) = match (model.stalled.is_some(), in_flight) {
            (true, _) => (time(ns), "at least, now".to_owned()),
            (false, 0) => ("none".to_owned(), "at the last interval's end".to_owned()),
            (false, n) => (time(ns), format!("of {n} at the last interval's end")),
        };
        tiles.push(tile("Oldest I/O in flight", value, word));
    }
    if let Some(backlog) = view.closed.backlog {
        tiles.push(tile("Backlog", count(backlog), "due and not yet sent".to_owned()));
    }
    let errors: u64 = model.ops.iter().flat_map(|o| o.errors.values()).sum();
    if errors > 0 {
        tiles.push(tile("Errors", count(errors), "failed I/Os so far".to_owned()));
    }
    let nines = model.whole_ops().map(OpSoFar::nines).min();
    if let Some(k) = nines.filter(|k| *k > 0) {
        let note = "enough I/Os so far; deeper percentiles take more".to_owned();
        tiles.push(tile("Known up to", nines_label(k.into()), note));
    }
    tiles
}

/// What the machine did in its last sample, and the slow I/Os by layer.
pub fn machine_tiles(model: &LiveModel) -> Vec<LiveTile> {
    let share = |percent_of: f64| percent(percent_of / 100.0);
    let mut disks = model.host_figure("disk", "%util");
    let mut tiles = Vec::new();
    if let Some((name, busy)) = disks.next() {
        let others = disks.map(|(name, busy)| format!("{} {}", name.unwrap_or("-"), share(busy)));
        let label = format!("Disk {} busy", name.unwrap_or("-"));
        tiles.push(tile(&label, share(busy), others.collect::<Vec<_>>().join(", ")));
    }
    let one = |source, metric| model.host_figure(source, metric).next().map(|(_, value)| value);
    if let Some(idle) = one("cpu", "%idle") {
        let mut notes = Vec::new();
        notes.extend(one("cpu", "%busiest").map(|most| format!("the busiest {}", share(most))));
        let pressure = [("cpu_some", "CPU"), ("io_some", "I/O"), ("memory_some", "memory")];
        let waited = pressure.into_iter().filter_map(|(metric, of)| {
            one("psi", metric).map(|waited| format!("{of} {}", share(waited)))
        });
        let waited: Vec<String> = waited.collect();
        if !waited.is_empty() {
            notes.push(format!("pressure {}", waited.join(", ")));
        }
        tiles.push(tile("CPUs busy", share(100.0 - idle), notes.join("; ")));
    }
    let at_end = model.end.as_ref().and_then(|end| end.slow.as_ref());
    let (slow, label) = match at_end {
        Some(slow) => (slow, "Slow I/Os, by layer"),
        None => (&model.slow, "Slow I/Os so far, by layer"),
    };
    let all: u64 = slow.iter().map(|cause| cause.outliers).sum();
    if all > 0 {
        let each = slow.iter().map(|c| format!("{} {}", layer_words(&c.layer), count(c.outliers)));
        let each = each.collect::<Vec<_>>().join(", ");
        tiles.push(tile(label, count(all), each));
    }
    tiles
}

/// The line at the top.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveVerdict {
    /// `good`, `warn`, `bad` or `plain`.
    pub tone: &'static str,
    pub word: String,
    pub text: String,
}

/// How the run stands.
pub fn verdict(model: &LiveModel) -> LiveVerdict {
    let said = |tone, word: &str, text| LiveVerdict { tone, word: word.to_owned(), text };
    if let Some(end) = &model.end {
        let (word, tone) = match end.word {
            Some((word, tone)) => (word, tone.name()),
            None => ("", if end.status == "complete" { "plain" } else { "bad" }),
        };
        let text = end.verdict.clone().unwrap_or_else(|| "no report was made".to_owned());
        let over = format!("The run is over: {}.", end.status);
        let word = if word.is_empty() { over } else { format!("{over} {word}.") };
        return said(tone, &word, text);
    }
    if let Some(ns) = model.stall_ns() {
        let text = format!("An I/O has been in flight for {} at least.", time(ns));
        return said("bad", "Stalled.", text);
    }
    let ceilings = model.ceilings();
    let said_of = |c: &CeilingSoFar| {
        let share = c.share()?;
        let (over, of) = (count(c.all - c.within), count(c.all));
        let (ceiling, at) = (time(c.ceiling.ceiling.0), &c.ceiling.at);
        Some(format!("{} within {ceiling} ({at} % asked; {over} of {of} over)", percent(share)))
    };
    let texts: Vec<String> = ceilings.iter().filter_map(said_of).collect();
    if !texts.is_empty() {
        let kept = ceilings.iter().all(|c| c.kept() != Some(false));
        let (tone, word) = match kept {
            true => ("good", "Ceilings kept so far."),
            false => ("warn", "A ceiling is not kept so far."),
        };
        return said(tone, word, texts.join("; ") + ".");
    }
    let word = match model.phase.as_str() {
        "measure" => "Measuring.".to_owned(),
        "warmup" => "Warming up; not counted.".to_owned(),
        "overtime" => "The time is over: waiting for what was due or in flight.".to_owned(),
        "prepare" | "" => "Preparing.".to_owned(),
        other => format!("{other}."),
    };
    said("plain", &word, "The report decides when the run is over.".to_owned())
}

/// The charts of the page. Errors: `Internal` when the report's code cannot draw them.
pub fn charts(model: &LiveModel) -> Result<LiveFigures> {
    let Some((facts, start)) = model.facts.as_ref().zip(model.start()) else {
        return live_figures(&ChartModel::default());
    };
    let mut rows: Vec<IntervalRow> =
        model.kept().iter().flat_map(|i| i.ops.iter().map(|op| op.row.clone())).collect();
    rows.sort_by_key(|row| (row.workload, row.op, row.start_ns));
    let mut run = RunCharts {
        label: facts.plan.run.name.clone(),
        tracks: tracks(&rows, start.0, |row| model.op_name(row.workload, row.op)),
        workloads: workload_tracks(&rows, start.0, |workload| model.workload(workload)),
        ceilings: facts.plan.qos.ceilings.iter().map(|c| c.ceiling.0).collect(),
        ..RunCharts::default()
    };
    let seconds = model.last.as_ref().map_or(0.0, |v| v.elapsed_ns as f64 / 1e9);
    for op in model.whole_ops() {
        let name = model.op_name(op.workload, op.op);
        let (times_s, edges_ns, counts) = op.heat.picture();
        run.heats.push(HeatGrid { op: op.op, name: name.clone(), times_s, edges_ns, counts });
        run.series.extend(series(op, &name, seconds));
    }
    live_figures(&ChartModel { runs: vec![run], ..ChartModel::default() })
}

/// The distribution so far of each kind of latency that an operation has; the main one is that of the tiles.
fn series(op: &OpSoFar, name: &str, seconds: f64) -> Vec<LatencySeries> {
    let Some(latencies) = &op.latencies else { return Vec::new() };
    let main = latencies.main_kind();
    let of = |(kind, held): (LatencyKind, &Histogram<u64>)| {
        let pairs = held.iter_recorded().map(|v| (v.value_iterated_to(), v.count_at_value()));
        let dist = Dist::from_sorted_pairs(pairs).ok().filter(|dist| !dist.is_empty())?;
        Some(series_so_far(op.op, name.to_owned(), (kind, kind == main), &dist, seconds))
    };
    latencies.iter().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::feed::LiveEvent;
    use crate::model::tests::{begun, interval};

    /// 5,000 reads in a closed loop, 3 of them of data with a writer's stamp.
    fn read() -> LiveModel {
        let mut model = begun();
        let mut event = interval(0, &[(500_000, 5_000)], 0, (0, 0, 0));
        if let LiveEvent::Interval(view) = &mut event {
            let op = &mut Arc::make_mut(&mut view.closed).ops[0];
            let latencies = op.latencies.as_mut().unwrap();
            latencies.insert(LatencyKind::EndToEnd, vec![(900_000, 3)]);
        }
        model.take(event);
        model
    }

    #[test]
    fn one_kind_of_latency_is_the_main_one() {
        let model = read();
        let all = series(&model.ops[0], "read", 1.0);
        let kinds: Vec<_> = all.iter().map(|s| (s.measure, s.main)).collect();
        assert_eq!(kinds, [(LatencyKind::Service, true), (LatencyKind::EndToEnd, false)]);
    }

    #[test]
    fn percentiles_are_resolved_by_the_ios_of_their_kind() {
        let model = read();
        let so_far = &op(&model, &model.ops[0])["so_far_ns"];
        assert!(so_far["service"]["p99"].is_u64(), "{so_far}");
        assert!(so_far["end_to_end"]["p99"].is_null(), "{so_far}");
    }
}
