//! A run's plan, disk and start in one line, for people; and the parts of that line.

use taillight_core::plan::{BlockSize, FileOrder, Sync, TargetPlan, WorkloadPlan};
use taillight_core::units::readable::{MOST_FOREIGN, bounded};
use taillight_rundir::Manifest;

use crate::format;
use crate::text::origin;

/// Targets, workloads, the disk where it is known, and the time:
/// `file /data/, direct · random read 70.0 %, write 30.0 %, 4 KiB, 2 workers x depth 4 · 2023-11-14 22:13:20 UTC`.
pub fn about(manifest: &Manifest) -> String {
    let mut parts = parts(manifest);
    if let Some(source) = manifest.origin.imported() {
        parts.insert(0, format!("imported from {}", origin::tool(source)));
    }
    parts.extend(super::shared::device(manifest));
    if manifest.clock.realtime_ns > 0 {
        parts.push(utc(manifest.clock.realtime_ns));
    }
    parts.join(" · ")
}

/// The target, and each workload.
pub(crate) fn parts(manifest: &Manifest) -> Vec<String> {
    let plan = &manifest.plan;
    let several = plan.workloads.len() > 1;
    // Jobs of one section that differ in nothing but their part of the data are told once.
    let alike = |a: &WorkloadPlan, b: &WorkloadPlan| {
        a.section.is_some() && a.section == b.section && workload(a, false) == workload(b, false)
    };
    let workloads = plan.workloads.chunk_by(alike).map(|of| match of {
        [first, .., last] => {
            format!("{} to {}, each: {}", first.name, last.name, workload(first, false))
        }
        _ => workload(&of[0], several),
    });
    let all = plan.all_targets().map(|(name, of)| target(name, of)).chain(workloads);
    // Of a workload of another tool nothing may be known.
    all.filter(|part| !part.is_empty()).collect()
}

/// One target of a plan; with its name where it has one.
fn target(name: Option<&str>, target: &TargetPlan) -> String {
    let name = name.map_or(String::new(), |name| format!("{name}: "));
    match &target.path {
        Some(path) => {
            let path = bounded(path, MOST_FOREIGN);
            format!("{name}{} {path}{}", target.driver, cache(&target.options))
        }
        None => format!("{name}{}", target.driver),
    }
}

/// Whether the page cache is in between; nothing for drivers that do not say.
fn cache(options: &toml::Table) -> &'static str {
    match options.get("direct").and_then(toml::Value::as_bool) {
        Some(true) => ", direct",
        Some(false) => ", buffered (page cache)",
        None => "",
    }
}

/// `read 70.0 %, write 30.0 %`.
pub(crate) fn mix(plan: &WorkloadPlan) -> String {
    let total: u32 = plan.mix.iter().map(|m| m.weight).sum();
    let mix: Vec<String> = plan
        .mix
        .iter()
        .filter(|m| m.weight > 0)
        .map(|m| match m.weight == total {
            true => m.op.name().to_owned(),
            false => {
                let share = f64::from(m.weight) / f64::from(total.max(1));
                format!("{} {}", m.op.name(), format::percent(share))
            }
        })
        .collect();
    mix.join(", ")
}

/// One workload of a plan; with its name where there are several.
pub fn workload(plan: &WorkloadPlan, named: bool) -> String {
    let one = |size: &BlockSize| match size {
        BlockSize::Fixed(size) => spaced(&size.to_string()),
        size => format!("{} to {}", format::bytes(size.min()), format::bytes(size.max())),
    };
    let size = match &plan.block_size {
        BlockSize::ByOp(sizes) => {
            let each = sizes.iter().map(|(op, of)| format!("{} {}", op.name(), one(of)));
            each.collect::<Vec<_>>().join(" and ")
        }
        size => one(size),
    };
    let size = match plan.value.as_ref().map(|value| value.fields) {
        Some(fields @ 2..) => format!("{fields} fields of {size}"),
        _ => size,
    };
    let mut text = match plan.queue_depth {
        // Another tool's load, of which this much is not known.
        0 if plan.block_size.max() == 0 => mix(plan),
        0 => format!("{}, {size} on average", mix(plan)),
        depth => {
            let (kind, workers) = (access(plan), workers(plan.workers));
            let size = match plan.mix.iter().any(|part| part.op.sized()) {
                true => format!(", {size}"),
                false => String::new(),
            };
            format!("{kind} {}{size}, {workers} x depth {depth}", mix(plan))
        }
    };
    if plan.batch > 1 {
        text.push_str(&format!(", {} records per operation", plan.batch));
    }
    if plan.sync != Sync::None {
        text.push_str(&format!(", {}", plan.sync));
    }
    if !plan.arrival.is_closed() {
        text.push_str(&format!(", at {}", plan.arrival));
    }
    let span = |ns: u64| format::duration_ns(ns);
    if plan.start_delay.0 > 0 {
        text.push_str(&format!(", from {} on", span(plan.start_delay.0)));
    }
    if let Some(target) = &plan.target {
        text.push_str(&format!(", on {target}"));
    }
    text.extend(plan.duration.map(|d| format!(", for {}", span(d.0))));
    if named { format!("{}: {text}", plan.name) } else { text }
}

/// `4KiB` of a job file as people write it.
fn spaced(size: &str) -> String {
    let unit = size.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(size.len());
    format!("{} {}", &size[..unit], &size[unit..])
}

/// The order of accesses: its name in job files, and what the plan says of runs, shares in sequence and files.
pub(crate) fn access(plan: &WorkloadPlan) -> String {
    if plan.trace.is_some() {
        return "replayed".to_owned();
    }
    let a = &plan.access;
    let mut text = format!("{:?}", a.kind).to_lowercase();
    text.extend(a.run_length.map(|run| format!(" runs of {run}")));
    if !a.sequential_percent.is_empty() {
        let each = a.sequential_percent.iter();
        let each = each.map(|(op, percent)| format!("{percent} % of {}s", op.name()));
        text.push_str(&format!(" ({} in sequence)", each.collect::<Vec<_>>().join(", ")));
    }
    match a.files {
        FileOrder::Sequence => text.extend(a.walks.map(|n| format!(" {n} times side by side"))),
        FileOrder::Turns => text.push_str(" over files in turns"),
        FileOrder::Drawn => text.push_str(" over files drawn"),
    }
    text
}

fn workers(n: u32) -> String {
    match n {
        1 => "1 worker".to_owned(),
        n => format!("{n} workers"),
    }
}

/// The time from a start to an end, or that there is no end.
pub fn length(start_ns: i64, end_ns: Option<i64>) -> String {
    end_ns.map_or("not ended".to_owned(), |end| {
        format::duration(end.saturating_sub(start_ns).max(0) as f64)
    })
}

/// A time (ns since the epoch) as UTC; `unknown` beyond the calendar.
pub fn utc(ns: i64) -> String {
    let stamp = jiff::Timestamp::from_nanosecond(ns.into());
    stamp.map_or("unknown".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string())
}

/// The same to the minute, without its zone.
pub fn minute(ns: i64) -> String {
    let stamp = jiff::Timestamp::from_nanosecond(ns.into());
    stamp.map_or("unknown".to_owned(), |at| at.strftime("%Y-%m-%d %H:%M").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        assert_eq!(utc(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(utc(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
        assert_eq!(utc(1_700_000_000_000_000_000), "2023-11-14 22:13:20 UTC");
    }
}
