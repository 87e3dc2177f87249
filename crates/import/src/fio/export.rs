//! A plan as a fio job file. Differences that leave the load what it is stand as comments at its top
//! and are handed back; a plan whose load fio cannot make is refused, with everything it lacks.

use std::fmt::Write;

use taillight_core::plan::{
    Access, AccessKind, Arrival, BlockSize, CaptureMode, FileOrder, IoClass, Payload, PayloadKind,
    Plan, SizeSpread, Sync, TraceMode, UnifiedRow, VerifyMode, WorkloadPlan,
};
use taillight_core::units::{RateUnit, Span};
use taillight_core::{Error, OpKind, Result};

use super::export_target::{self, ExportTarget};
use crate::Exported;

/// Most percentiles fio reports.
const MOST_PERCENTILES: usize = 20;

/// Options of one section, and what it cannot say.
pub(super) struct SectionText {
    /// `name=value` in order.
    pub(super) lines: Vec<(&'static str, String)>,
    /// What fio cannot say, with the same load.
    pub(super) missing: Vec<String>,
    /// What fio cannot do: it would be another load.
    pub(super) cannot: Vec<String>,
}

impl SectionText {
    fn new() -> SectionText {
        SectionText { lines: Vec::new(), missing: Vec::new(), cannot: Vec::new() }
    }
    pub(super) fn set(&mut self, name: &'static str, value: impl ToString) {
        self.lines.push((name, value.to_string()));
    }
    pub(super) fn lacks(&mut self, field: &str, why: &str) {
        self.missing.push(format!("{field}: {why}"));
    }
    pub(super) fn cannot(&mut self, field: &str, why: &str) {
        self.cannot.push(format!("{field}: {why}"));
    }
}

/// Writes a plan as a fio job file. Errors: `Usage` for a plan that is no load on files at all
/// (keys, simulated devices, other stores), or whose pattern or schedule fio does not have: each is
/// named.
pub fn export(plan: &Plan) -> Result<Exported> {
    let mut global = SectionText::new();
    // Of several targets each section has its own, as in fio.
    let one = plan.targets.is_empty().then(|| export_target::target(plan, &mut global));
    let one = one.transpose()?;
    run(plan, &mut global);
    rest(plan, &mut global);
    let mut missing = std::mem::take(&mut global.missing);
    let mut cannot = std::mem::take(&mut global.cannot);
    let mut body = section("global", &global);
    for w in &plan.workloads {
        let mut out = SectionText::new();
        let part = plan.for_target(w.target.as_deref());
        let own = one.is_none().then(|| export_target::target(&part, &mut out)).transpose()?;
        if let Some(target) = one.as_ref().or(own.as_ref()) {
            workload(plan, w, target, &mut out)?;
        }
        missing.extend(out.missing.iter().map(|m| format!("workload {}: {m}", w.name)));
        cannot.extend(out.cannot.iter().map(|c| format!("workload {}: {c}", w.name)));
        body.push_str(&section(&w.name, &out));
    }
    if !cannot.is_empty() {
        return Err(Error::usage(format!(
            "fio cannot make the load of this job: {}",
            cannot.join("; ")
        ))
        .hint("export a job without that; docs/fio.md lists what both tools have"));
    }
    let mut text = format!("; Taillight job {} as a fio job.\n", plan.run.name);
    if !missing.is_empty() {
        text.push_str("; Not the same in fio:\n");
        for line in &missing {
            // Writing to a String cannot fail.
            let _ = writeln!(text, ";   {line}");
        }
    }
    Ok(Exported { text: text + &body, missing })
}

fn section(name: &str, out: &SectionText) -> String {
    let mut text = format!("\n[{name}]\n");
    for (name, value) in &out.lines {
        let _ = writeln!(text, "{name}={value}");
    }
    text
}

/// When it ends, seed, warm-up.
fn run(plan: &Plan, out: &mut SectionText) {
    let run = &plan.run;
    out.set("thread", 1);
    out.set("group_reporting", 1);
    out.set("randseed", run.seed);
    out.lacks("run.seed", "fio draws other offsets from the same seed");
    let amount = run.operations.is_some() || run.bytes.is_some();
    if let Some(time) = run.duration {
        out.set("runtime", time_text(time));
        if !amount {
            out.set("time_based", 1);
        }
    }
    if amount && plan.workloads.len() > 1 {
        out.lacks(
            "run.operations, run.bytes",
            "fio counts them for each job; every section got the same part here",
        );
    }
    if run.warmup > Span(0) {
        out.set("ramp_time", time_text(run.warmup));
    }
    if run.repeat > 1 {
        out.lacks("run.repeat", "fio runs once");
    }
    if run.idle_timeout.is_some() {
        out.lacks("run.idle_timeout", "fio waits");
    }
}

/// The coarsest of seconds, milliseconds and microseconds that is whole; rounded up to a microsecond.
pub(super) fn time_text(span: Span) -> String {
    match span.0 {
        ns if ns.is_multiple_of(1_000_000_000) => format!("{}s", ns / 1_000_000_000),
        ns if ns.is_multiple_of(1_000_000) => format!("{}ms", ns / 1_000_000),
        ns => format!("{}us", ns.div_ceil(1000)),
    }
}

/// What the report and the rest of the job ask.
fn rest(plan: &Plan, out: &mut SectionText) {
    let list = &plan.qos.percentiles;
    if list.len() > MOST_PERCENTILES {
        out.lacks("qos.percentiles", "fio reports at most 20; these are the highest");
    }
    let kept = &list[list.len().saturating_sub(MOST_PERCENTILES)..];
    if !kept.is_empty() {
        let list: Vec<String> = kept.iter().map(ToString::to_string).collect();
        out.set("percentile_list", list.join(":"));
    }
    if !plan.qos.ceilings.is_empty() {
        out.lacks("qos.ceilings", "fio checks no ceiling of a percentile");
    }
    if plan.trace.mode != TraceMode::Off {
        out.lacks("trace", "fio does not trace layers");
    }
    if plan.capture.mode == CaptureMode::All {
        out.lacks("capture", "fio keeps no I/Os without write_lat_log, which slows it");
    }
    match plan.verify.mode {
        VerifyMode::Off => {}
        VerifyMode::Inline => {
            out.lacks("verify.mode", "fio checks after the writes, not each read")
        }
        VerifyMode::After => out.set("verify", "crc32c"),
    }
    if plan.search.is_some() {
        out.lacks("search", "fio runs one point");
    }
}

/// The begin and end that a workload has for itself.
fn own_end(plan: &Plan, w: &WorkloadPlan, out: &mut SectionText) {
    let workers = u64::from(w.workers).max(1);
    if w.start_delay > Span(0) {
        out.set("startdelay", time_text(w.start_delay));
    }
    let counted = w.operations.is_some() || w.bytes.is_some();
    // A runtime of fio counts from the section's own begin.
    let left = plan.run.duration.map(|d| Span(d.0.saturating_sub(w.start_delay.0)));
    let own = w.duration.into_iter().chain(left.filter(|_| w.start_delay > Span(0))).min();
    if let Some(time) = own {
        out.set("runtime", time_text(left.map_or(time, |left| left.min(time))));
    }
    if own.is_some() || counted {
        out.set("time_based", u8::from(!counted));
    }
    if w.warmup.is_some() {
        out.lacks("warmup", "fio begins each section at its startdelay, and warms up after it");
    }
    if w.start_delay > Span(0) && plan.run.warmup > Span(0) && w.warmup.is_none() {
        out.lacks("start_delay", "fio warms up after it, here the run does before");
    }
    if let Some(n) = w.operations {
        out.set("number_ios", (n / workers).max(1));
        out.set("io_size", (n / workers).max(1).saturating_mul(w.block_size.max()));
    }
    if let Some(bytes) = w.bytes {
        out.set("io_size", (bytes.0 / workers).max(1));
    }
}

/// What each job does of what the run counts.
fn amount(plan: &Plan, w: &WorkloadPlan, out: &mut SectionText) {
    let jobs = u64::from(plan.workers()).max(1);
    // Passes end a section by themselves; the run's amount is only the bound above them.
    let amount = w.passes.is_none();
    if let Some(n) = plan.run.operations.filter(|_| amount) {
        let each = (n / jobs).max(1);
        out.set("number_ios", each);
        // fio ends with its part of the data before that; here operations go on from the start.
        let most = each.saturating_mul(w.block_size.max());
        let part = plan.target_of(w).size.map_or(0, |size| size.0 / jobs);
        if most > part && plan.run.bytes.is_none() {
            out.set("io_size", most);
        }
        if !n.is_multiple_of(jobs) {
            out.lacks("run.operations", "it does not divide by the workers");
        }
    }
    if let Some(bytes) = plan.run.bytes.filter(|_| amount) {
        out.set("io_size", (bytes.0 / jobs).max(1));
    }
}

/// What is synced and forgotten beside the I/Os.
fn cached(w: &WorkloadPlan, target: &ExportTarget, out: &mut SectionText) {
    if w.end_fsync {
        out.set("end_fsync", 1);
    }
    let rounds = w.access.cover || !w.access.kind.draws();
    if target.cached && rounds && w.drop_cache.is_none() {
        out.lacks(
            "drop_cache",
            "fio drops what it has cached of a file at each pass (invalidate=1); here it stays",
        );
    }
    if w.drop_cache.is_some() && !rounds {
        out.lacks("drop_cache", "fio drops nothing while it draws without a map");
    }
}

fn workload(
    plan: &Plan,
    w: &WorkloadPlan,
    target: &ExportTarget,
    out: &mut SectionText,
) -> Result<()> {
    let reads = mix(w, out)?;
    access(w, target, out);
    block(&w.block_size, out);
    out.set("iodepth", w.queue_depth);
    out.set("numjobs", w.workers);
    own_end(plan, w, out);
    amount(plan, w, out);
    arrival(w, reads, out);
    if let Some(think) = w.think {
        out.set("thinktime", format!("{}us", think.time.0.div_ceil(1000)));
        match think.after {
            Some(after) => out.set("thinktime_iotime", format!("{}us", after.0.div_ceil(1000))),
            None => out.set("thinktime_blocks", think.every),
        }
    }
    shared(plan, w, out);
    match w.sync {
        Sync::None => {}
        Sync::Fdatasync(n) => out.set("fdatasync", n),
        Sync::Fsync(n) => out.set("fsync", n),
        Sync::Dsync => out.set("sync", "dsync"),
        Sync::Sync => out.set("sync", "sync"),
    }
    cached(w, target, out);
    if w.sync.every().is_some() {
        out.lacks("sync", "fio keeps the time of a sync out of the latency of the write");
        if matches!(w.arrival, Arrival::Poisson { .. }) {
            // It draws the gap after the sync as well, from the rate of syncs, which is 0.
            out.lacks(
                "arrival, sync",
                "fio 3.33 dies of a division by zero on rate_process=poisson with fsync or \
                 fdatasync once a write is late; without rate_process=poisson it runs, evenly spaced",
            );
        }
    }
    payload(&w.payload, out);
    if !w.cpus.is_empty() {
        let cpus: Vec<String> = w.cpus.iter().map(u32::to_string).collect();
        out.set("cpus_allowed", cpus.join(","));
        out.set("cpus_allowed_policy", "split");
    }
    if let Some(n) = w.passes {
        out.set("loops", n);
        // Else fio would go round until the runtime is over.
        if plan.run.duration.is_some() {
            out.set("time_based", 0);
        }
    }
    if w.ramp.is_some() {
        out.lacks("ramp", "all jobs of a section begin together");
    }
    priority(w, out);
    if !w.measured {
        out.lacks("measured", "fio measures every section");
    }
    if w.end_to_end {
        out.cannot("end_to_end", "fio does not measure from the writer's stamp");
    }
    Ok(())
}

/// What the workload has with others: a share of the operations, their end, locked memory, a row.
fn shared(plan: &Plan, w: &WorkloadPlan, out: &mut SectionText) {
    if w.unverified {
        out.set("verify", 0);
    }
    if let Some(flow) = w.flow {
        match flow.share {
            0..=1000 => out.set("flow", flow.share),
            _ => out.cannot("flow", "fio's largest weight is 1000"),
        }
        out.set("flow_id", flow.id);
        out.set("flow_sleep", flow.pause.0.div_ceil(1000));
    }
    match w.unified {
        Some(UnifiedRow::Mixed) => out.set("unified_rw_reporting", "mixed"),
        Some(UnifiedRow::Both) => out.set("unified_rw_reporting", "both"),
        None => {}
    }
    if w.ends_with.is_some() {
        out.cannot("ends_with", "exitall of fio is one switch for all sections");
    }
    if w.ends_run {
        match plan.workloads.iter().all(|w| w.ends_run) {
            true => out.set("exitall", 1),
            false => out.cannot("ends_run", "exitall of fio is one switch for all sections"),
        }
    }
    if let Some(locked) = plan.run.lock_memory {
        match locked.0.is_multiple_of(plan.workers().into()) {
            true => out.set("lockmem", locked.0 / u64::from(plan.workers().max(1))),
            false => out.cannot("run.lock_memory", "fio locks as much in each job"),
        }
    }
    if plan.run.continues {
        out.lacks("run.continues", "fio has no run that goes on with another");
    }
}

/// Nice value and I/O priority of the workers.
fn priority(w: &WorkloadPlan, out: &mut SectionText) {
    if let Some(nice) = w.nice {
        out.set("nice", nice);
    }
    if let Some(io) = w.io_priority {
        let class = match io.class {
            IoClass::Realtime => 1,
            IoClass::BestEffort => 2,
            IoClass::Idle => 3,
        };
        out.set("prioclass", class);
        out.set("prio", io.level);
    }
}

/// `rw` and the share of reads in percent, if there are reads and writes.
fn mix(w: &WorkloadPlan, out: &mut SectionText) -> Result<Option<u64>> {
    let random = w.access.kind.draws();
    let weight = |op: OpKind| -> u64 {
        let parts = w.mix.iter().filter(|p| p.op == op);
        parts.map(|p| u64::from(p.weight)).sum()
    };
    let (reads, writes, trims) =
        (weight(OpKind::Read), weight(OpKind::Write), weight(OpKind::Trim));
    let all: u64 = w.mix.iter().map(|p| u64::from(p.weight)).sum();
    let prefix = if random { "rand" } else { "" };
    let word = match (reads, writes, trims) {
        (1.., 0, 0) => "read",
        (0, 1.., 0) => "write",
        (0, 0, 1..) => "trim",
        (1.., 1.., 0) => "rw",
        _ => "",
    };
    if word.is_empty() || reads + writes + trims != all {
        let names: Vec<&str> = w.mix.iter().map(|p| p.op.name()).collect();
        return Err(Error::usage("fio has no mix of these operations")
            .with("workload", &w.name)
            .with("mix", names.join(" "))
            .hint("fio mixes reads and writes only: make the others a workload of their own"));
    }
    let kind = match (word, random) {
        ("rw", false) => "rw".to_owned(),
        _ => format!("{prefix}{word}"),
    };
    // Of a sequence fio's number is a gap in bytes.
    let run = w.access.run_length.filter(|_| w.access.kind.draws());
    let run = run.map_or(String::new(), |n| format!(":{n}"));
    out.set("rw", format!("{kind}{run}"));
    if word != "rw" {
        return Ok(None);
    }
    let percent = (reads * 100 + all / 2) / all;
    out.set("rwmixread", percent);
    if percent * all != reads * 100 {
        out.lacks("mix", "rwmixread is a whole percentage");
    }
    Ok(Some(percent))
}

fn access(w: &WorkloadPlan, target: &ExportTarget, out: &mut SectionText) {
    let a = &w.access;
    let number = |n: Option<f64>| n.unwrap_or_default();
    let mut distribution = None;
    match a.kind {
        AccessKind::Sequential if a.stride.is_some() => out.cannot(
            "access",
            "runs of a sequence with gaps between them; write zonemode=strided by hand",
        ),
        AccessKind::Sequential => {}
        AccessKind::Random => out.set("norandommap", u8::from(!a.cover)),
        AccessKind::Zipf => distribution = Some(format!("zipf:{}", number(a.theta))),
        AccessKind::Zipfian | AccessKind::Scrambled => {
            distribution = Some("zipf:0.99".to_owned());
            out.lacks("access", "YCSB's zipfian only resembles fio's zipf");
        }
        AccessKind::Pareto => distribution = Some(format!("pareto:{}", number(a.h))),
        AccessKind::Zoned => distribution = zoned(a, out),
        AccessKind::Hotspot => {
            let (space, share) = a.hot.map_or((0.2, 0.8), |h| (h.space, h.share));
            let (space, share) = ((space * 100.0).round(), (share * 100.0).round());
            distribution =
                Some(format!("zoned:{share}/{space}:{}/{}", 100.0 - share, 100.0 - space));
        }
        other => {
            let name = format!("{other:?}").to_lowercase();
            out.cannot("access.kind", &format!("fio has no `{name}`"));
        }
    }
    if a.cover && w.workers > 1 {
        out.lacks("access.cover", "each fio job makes a pass of its own over all blocks");
    }
    let scatters = matches!(a.kind, AccessKind::Zipf | AccessKind::Pareto);
    if scatters && !a.scatter {
        out.lacks("access.scatter", "fio always scatters the hot blocks over the file");
    }
    if let Some(distribution) = distribution {
        out.set("random_distribution", distribution);
        out.set("norandommap", 1);
    }
    let sizes = w.block_size.each();
    let step = |of: &&BlockSize| match sizes.len() {
        1 => a.align.0,
        _ => of.common_divisor().next_multiple_of(a.align.0.max(1)),
    };
    if a.kind.draws() && sizes.iter().any(|of| step(of) != of.min()) {
        let each: Vec<String> = sizes.iter().map(|of| step(of).to_string()).collect();
        out.set("blockalign", each.join(","));
    }
    in_sequence(a, target, out);
    export_target::extent(w, target, out);
}

/// Operations in sequence between drawn ones, and walks side by side.
fn in_sequence(a: &Access, target: &ExportTarget, out: &mut SectionText) {
    if !a.sequential_percent.is_empty() {
        let random = |op| 100 - a.sequential_percent.get(&op).copied().unwrap_or(0).min(100);
        let each = [OpKind::Read, OpKind::Write, OpKind::Trim].map(|op| random(op).to_string());
        out.set("percentage_random", each.join(","));
    }
    if a.walks.is_some() {
        out.cannot(
            "access.walks",
            "fio walks side by side only over a file that it opens as often",
        );
    }
    if a.files == FileOrder::Turns && target.files > 1 {
        out.set("file_service_type", "roundrobin");
    }
}

fn zoned(a: &Access, out: &mut SectionText) -> Option<String> {
    let sum = |f: fn(&taillight_core::plan::Zone) -> u32| -> u64 {
        a.zones.iter().map(|z| u64::from(f(z))).sum()
    };
    let (shares, spaces) = (sum(|z| z.share), sum(|z| z.space));
    let percent = |n: u32, of: u64| u64::from(n) * 100 / of.max(1);
    let exact = a.zones.iter().all(|z| {
        (u64::from(z.share) * 100).is_multiple_of(shares.max(1))
            && (u64::from(z.space) * 100).is_multiple_of(spaces.max(1))
    });
    if !exact {
        out.cannot("access.zones", "fio takes whole percentages");
        return None;
    }
    let zones: Vec<String> = a
        .zones
        .iter()
        .map(|z| format!("{}/{}", percent(z.share, shares), percent(z.space, spaces)))
        .collect();
    Some(format!("zoned:{}", zones.join(":")))
}

fn block(block: &BlockSize, out: &mut SectionText) {
    let each = block.each();
    let splits = each.iter().any(|of| matches!(of, BlockSize::Split(_)));
    let ranges = each.iter().any(|of| matches!(of, BlockSize::Range(_)));
    let name = match (splits, ranges) {
        (true, true) => {
            return out.cannot("block_size", "fio has lists or ranges of sizes in a job, not both");
        }
        (true, false) => "bssplit",
        (false, true) => "bsrange",
        (false, false) => "bs",
    };
    let each: Vec<String> = each.into_iter().map(|of| sizes(of, name, out)).collect();
    out.set(name, each.join(","));
}

/// One direction's value of `name`.
fn sizes(block: &BlockSize, name: &str, out: &mut SectionText) -> String {
    match block {
        BlockSize::Fixed(size) if name == "bssplit" => format!("{}/100", size.0),
        BlockSize::Fixed(size) if name == "bsrange" => format!("{0}-{0}", size.0),
        BlockSize::Fixed(size) => size.0.to_string(),
        // Not within another: the plan is checked.
        BlockSize::ByOp(_) => String::new(),
        BlockSize::Split(parts) => {
            let all: u64 = parts.iter().map(|p| u64::from(p.weight)).sum();
            let mut left = 100;
            let mut list = Vec::new();
            for (i, p) in parts.iter().enumerate() {
                let percent = match i + 1 == parts.len() {
                    true => left,
                    false => (u64::from(p.weight) * 100 / all.max(1)).min(left),
                };
                left -= percent;
                list.push(format!("{}/{percent}", p.size.0));
            }
            if parts.iter().any(|p| !(u64::from(p.weight) * 100).is_multiple_of(all.max(1))) {
                out.lacks("block_size", "weights are rounded to whole percentages");
            }
            list.join(":")
        }
        BlockSize::Range(range) => {
            if range.step != range.min || range.spread != SizeSpread::Uniform {
                out.lacks("block_size", "fio draws evenly among multiples of the smallest size");
            }
            format!("{}-{}", range.min.0, range.max.0)
        }
    }
}

fn arrival(w: &WorkloadPlan, reads: Option<u64>, out: &mut SectionText) {
    if w.trace.is_some() {
        out.cannot("trace", "fio takes its offsets from its own logs alone (read_iolog)");
    }
    let rate = match &w.arrival {
        Arrival::Burst => return,
        Arrival::Constant { rate } => rate,
        Arrival::Poisson { rate } => {
            out.set("rate_process", "poisson");
            rate
        }
        other => {
            out.cannot("arrival", &format!("fio has no such schedule ({other})"));
            return;
        }
    };
    // Operations or bytes a second.
    let each = rate.ops_per_s(1.0) / f64::from(w.workers.max(1));
    let parts: Vec<f64> = match reads {
        None => vec![each],
        Some(percent) => {
            let reads = each * percent as f64 / 100.0;
            vec![reads, each - reads]
        }
    };
    let whole: Vec<String> = parts.iter().map(|p| format!("{:.0}", p.max(1.0))).collect();
    if parts.iter().any(|p| (p - p.round()).abs() > 1e-9 || *p < 1.0) {
        out.lacks("arrival.rate", "the rate of a fio job is a whole number");
    }
    let name = if rate.unit == RateUnit::Bytes { "rate" } else { "rate_iops" };
    out.set(name, whole.join(","));
    out.lacks("arrival", "fio measures from the actual start, not from the due time");
}

fn payload(p: &Payload, out: &mut SectionText) {
    match p.kind {
        PayloadKind::Random => out.set("refill_buffers", 1),
        PayloadKind::Zero => out.set("zero_buffers", 1),
        PayloadKind::Pattern => {
            let text = p.pattern.clone().unwrap_or_default();
            let hex = text.starts_with("0x");
            out.set("buffer_pattern", if hex { text } else { format!("\"{text}\"") });
        }
        PayloadKind::Text => out.lacks("payload", "fio writes no text; these are random bytes"),
    }
    if p.compressible > 0 {
        out.set("buffer_compress_percentage", p.compressible);
    }
    if p.duplicate > 0 {
        out.set("dedupe_percentage", p.duplicate);
    }
}
