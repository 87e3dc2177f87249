//! Summary -> model: verdict and facts; tables and the first screen are beside this file.

use taillight_core::LatencyKind;
use taillight_rundir::Summary;
use taillight_rundir::bus::BusInfo;
use taillight_rundir::latency::LatencySource;
use taillight_rundir::manifest::RunStatus;
use taillight_rundir::summary::Distribution;

use super::view::{Fact, Model, VerdictView, word};
use super::{first, tables, wrong_blocks};
use crate::format;
use crate::table::Tone;
use crate::text::origin;
use crate::verdict::saturation::achieved;
use crate::verdict::unmeasured;

impl Model {
    pub fn new(summary: &Summary) -> Model {
        let verdict = &summary.verdict;
        let (word, tone) = word(verdict);
        let reasons = verdict.reasons.iter().map(|r| r.text.clone());
        Model {
            run: summary.run_id.clone(),
            verdict: VerdictView {
                tone,
                word,
                text: first::answer(summary),
                reasons: reasons.collect(),
            },
            tables: tables::all(summary),
            facts: facts(summary),
        }
    }
}

/// Label of the fact that gives the rate asked for and reached.
pub const RATE: &str = "Rate";
/// Label of the facts about what others counted of the run's operations.
pub const WITNESS: &str = "Witness";
/// Label of the fact about I/Os that have no bin in the charts.
const PICTURES: &str = "Pictures";
/// Shortest run whose CPU time is said as a share of its time, s.
const SHARE_FROM_S: f64 = 0.1;

fn facts(summary: &Summary) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |label: &'static str, text: String, tone| {
        facts.push(Fact { label, text, tone, detail: label == PICTURES });
    };
    if let Some((text, tone)) = wrong_blocks::fact(summary) {
        fact("Verify", text, tone);
    }
    let it = &summary.saturation;
    if let Some(asked) = it.asked_per_s.filter(|_| unmeasured(summary)) {
        let text =
            format!("{} operations/s asked; what was reached is unknown", format::rate(asked));
        fact(RATE, text, Tone::Plain);
    } else if let Some(asked) = it.asked_per_s {
        let text = format!(
            "{} operations/s asked, {}; at most {} waiting, {} never sent",
            format::rate(asked),
            achieved(it),
            format::count(it.backlog_max),
            format::count(it.unsent)
        );
        fact(RATE, text, if it.saturated { Tone::Warn } else { Tone::Plain });
    } else if summary.origin.is_measured() {
        let text = "closed loop: a stall hides the I/Os it kept from being sent";
        fact("Load", text.to_owned(), Tone::Dim);
    }
    if let Some((text, tone)) = end_to_end(summary) {
        fact("End to end", text, tone);
    }
    if summary.misses > 0 {
        let text = format!(
            "{} operations found nothing, because this run had deleted their key",
            format::count(summary.misses)
        );
        fact("Misses", text, Tone::Plain);
    }
    fact("Percentiles", source(summary), Tone::Plain);
    let (text, tone) = lost(summary);
    fact("Losses", text, tone);
    if let Some(text) = pictures(summary) {
        fact(PICTURES, text, Tone::Plain);
    }
    if let Some(queue) = queue(summary) {
        fact("Before issue", queue, Tone::Plain);
    }
    if let Some(text) = slc(summary) {
        fact("SLC", text, Tone::Plain);
    }
    for (label, text) in others(summary) {
        fact(label, text, Tone::Plain);
    }
    for it in &summary.witness {
        fact(WITNESS, it.text.clone(), if it.explained { Tone::Plain } else { Tone::Warn });
    }
    let own = overhead(summary);
    fact("Overhead", own, Tone::Plain);
    facts
}

/// What others say of the same time: the drive, a bus analyser, the store.
fn others(summary: &Summary) -> Vec<(&'static str, String)> {
    let drives = summary.drives.iter();
    let mut said: Vec<_> = drives.map(|d| ("Drive", format!("{}: {}", d.name, d.text))).collect();
    said.extend(summary.bus.as_ref().map(|b| ("Bus", bus_words(b))));
    said.extend(summary.store_text.iter().map(|text| ("Store", text.clone())));
    said
}

/// How the bus analyser's commands were matched, and where the slowest spent their time.
fn bus_words(bus: &BusInfo) -> String {
    let time = |ns: u64| format::duration_ns(ns);
    let mut text = format!(
        "{} of {} traced I/Os found on the bus ({}); clocks fitted with {} ppm of drift, residual {} \
         (99 %: {}), offset known to {}",
        format::count(bus.matched),
        format::count(bus.covered),
        bus.file,
        format::digits3(bus.drift_ppm),
        time(bus.residual_p50_ns),
        time(bus.residual_p99_ns),
        time(bus.slack_ns)
    );
    for s in &bus.split {
        text.push_str(&format!(
            "; at {} issue to completion {}: {} to the bus, {} in the device, {} back",
            s.p,
            time(s.d2c_ns),
            time(s.before_ns),
            time(s.device_ns),
            time(s.after_ns)
        ));
    }
    text
}

/// What has no place in the pictures.
fn pictures(summary: &Summary) -> Option<String> {
    let outside = |pick: fn(&Distribution) -> u64| -> u64 {
        let all = summary.distribution.values();
        all.map(|d| pick(&d.service)).sum()
    };
    let (below, above) = (outside(|d| d.below), outside(|d| d.above));
    (below + above > 0).then(|| {
        format!(
            "{} I/Os under 10 ns and {} of 100 s or more have no bin in the distribution",
            format::count(below),
            format::count(above)
        )
    })
}

/// What the percentiles come from.
fn source(summary: &Summary) -> String {
    match summary.totals.latencies.service.source {
        _ if unmeasured(summary) => match origin::every_call(&summary.origin) {
            Some(how) => format!("none: not every call was seen ({how})"),
            None => "none: only outliers were kept".to_owned(),
        },
        LatencySource::Capture => "every I/O, exact".to_owned(),
        LatencySource::Imported if summary.totals.latencies.service.error > 0.0 => format!(
            "bins of another tool, error up to {}",
            format::percent(summary.totals.latencies.service.error)
        ),
        LatencySource::Imported => "those that another tool gives".to_owned(),
        LatencySource::Histogram => format!(
            "histograms, error up to {}",
            format::percent(summary.totals.latencies.service.error)
        ),
    }
}

/// What became of the blocks of a stream, and why some were not read.
fn end_to_end(summary: &Summary) -> Option<(String, Tone)> {
    let it = summary.end_to_end?;
    let readers = if it.readers == 1 { "reader" } else { "readers" };
    let (written, verified) = (format::count(it.written), format::count(it.verified));
    let mut text = format!(
        "{written} blocks written for {} {readers}: {verified} reads verified",
        format::count(it.readers)
    );
    if it.failed > 0 {
        text += &format!(", {} FAILED", format::count(it.failed));
    }
    if it.unread > 0 {
        let why = match summary.status {
            RunStatus::Complete => "the readers had reached the end of the run",
            _ => "the run ended early",
        };
        text += &format!(", {} not read, because {why}", format::count(it.unread));
    }
    Some((text, if it.failed > 0 { Tone::Bad } else { Tone::Plain }))
}

/// Both factors of each operation in one line.
fn slc(summary: &Summary) -> Option<String> {
    let factor = |v: Option<f64>| v.map_or("undefined".to_owned(), format::factor);
    let of = |(op, slc): (&taillight_core::OpKind, &taillight_rundir::summary::SlcFactors)| {
        let (below, above) = (factor(slc.slc1), factor(slc.slc2));
        let kind = slc.kind().map_or(String::new(), |kind| format!(" {}", kind.words()));
        format!("{}{kind} {below}, {above}", op.name())
    };
    let all: Vec<String> = summary.slc.iter().map(of).collect();
    (!all.is_empty()).then(|| {
        format!("{} (spread below, above the median; smaller is steadier)", all.join("; "))
    })
}

/// The time I/Os spend before they are issued.
fn queue(summary: &Summary) -> Option<String> {
    let mean = summary.totals.latencies.get(LatencyKind::BeforeIssue)?.mean_ns?;
    let of = summary.totals.latencies.service.mean_ns.filter(|m| *m > 0.0)?;
    Some(format!(
        "{} of the mean {} (the batch, and the kernel's part of the submitting call)",
        format::percent(mean / of),
        format::duration(of)
    ))
}

/// What was lost, in words.
fn lost(summary: &Summary) -> (String, Tone) {
    let lost = losses(summary);
    if !lost.is_empty() {
        return (lost.join(", "), Tone::Bad);
    }
    if summary.origin.imported().is_some() {
        return ("not known: another tool measured".to_owned(), Tone::Plain);
    }
    if unmeasured(summary) {
        let text = match summary.origin.is_watched() {
            // A record keeps all that it saw, fast or slow.
            true => "not known: I/Os that did not block were not seen",
            false => "all I/Os but outliers; how many is unknown",
        };
        return (text.to_owned(), Tone::Bad);
    }
    let degraded = summary.verdict.reasons.iter().any(|r| r.code == "capture_degraded");
    let text = match summary.status {
        _ if degraded => "every I/O counted, not every one kept",
        RunStatus::Partial => "nothing lost of what had ended by then",
        _ => "nothing lost",
    };
    (text.to_owned(), Tone::Plain)
}

fn losses(summary: &Summary) -> Vec<String> {
    let l = &summary.losses;
    let all = [
        (l.ios, "I/O", " missing from the capture"),
        (l.out_of_range, "time", " out of range"),
        (l.unfinished, "I/O", " unfinished at the end"),
        (l.intervals, "interval", ""),
        (l.chunks, "capture file", " gone or unreadable"),
        (l.trace_events.unwrap_or(0), "trace event", ""),
    ];
    all.iter()
        .filter(|(n, ..)| *n > 0)
        .map(|(n, what, how)| format!("{}{how}", format::counted(*n, what)))
        .collect()
}

fn overhead(summary: &Summary) -> String {
    if let Some(text) = origin::overhead(&summary.origin) {
        return text.to_owned();
    }
    let o = &summary.overhead;
    let mut parts = Vec::new();
    match o.null_ns_per_op {
        Some(ns) => parts.push(format!("{} per I/O on null", format::duration(ns))),
        None => parts.push("not calibrated".to_owned()),
    }
    if let Some(ns) = o.capture_ns_per_op {
        parts.push(format!("{} of it to keep every I/O", format::duration(ns)));
    }
    if let Some(ns) = o.clock_ns {
        parts.push(format!("clock {}", format::duration(ns)));
    }
    if let Some(s) = o.cpu_s {
        let seconds = summary.totals.duration_ns as f64 / 1e9;
        let cpu = format::duration(s * 1e9);
        // Beginning and ending are in it: of a short run, they are most of it.
        parts.push(match seconds >= SHARE_FROM_S {
            true => format!("CPU {cpu} ({} cores)", format::digits3(s / seconds)),
            false => format!("CPU {cpu}, beginning and ending included"),
        });
    }
    parts.extend(tracing(summary));
    parts.extend(o.live.map(|live| {
        let cpu = format::duration(live.cpu_s * 1e9);
        let scrapes = format::counted(live.scrapes, "scrape");
        format!("live view {cpu} of CPU ({scrapes}, {})", format::counted(live.events, "event"))
    }));
    parts.extend(o.trace_beside_load_bytes.map(|bytes| {
        format!("{} of the trace written to a disk under test", format::bytes(bytes))
    }));
    if o.buffers_unregistered {
        parts.push("buffers not registered (limit on locked memory)".to_owned());
    }
    if let Some(share) = o.trace_loss {
        parts.push(format!("tracing took {} of the throughput", format::percent(share)));
    }
    parts.join(", ")
}

/// What tracing took of the CPU, by the run's own measurement. The program's part is its probes and the thread that
/// gathers; the trace programs run in the kernel, for task switches of other programs as well, so that their time is
/// only in part the program's.
fn tracing(summary: &Summary) -> Option<String> {
    let o = &summary.overhead;
    let own = o.probe_ns_per_op? + o.collector_ns_per_op.unwrap_or(0.0);
    let ios = summary.totals.count.max(1) as f64;
    let share = o.cpu_s.filter(|s| *s > 0.0).map(|s| own / (s * 1e9 / ios));
    let programs = match o.trace_ns_per_op {
        Some(ns) => {
            format!("trace programs {} (other programs' task switches too)", format::duration(ns))
        }
        None => "trace programs not measured".to_owned(),
    };
    Some(format!(
        "tracing {} of CPU per I/O in the program{}, {programs}",
        format::duration(own),
        share.map_or(String::new(), |s| format!(" ({} of what it takes)", format::percent(s)))
    ))
}

#[cfg(test)]
mod tests {
    use taillight_rundir::origin::RunOrigin;

    use super::*;

    /// Once a watch that had recorded fast and slow I/Os alike was said to have lost all but outliers.
    #[test]
    fn a_watch_that_saw_a_part_did_not_lose_all_but_outliers() {
        let mut summary = taillight_rundir::fixture::summary("r");
        summary.losses = taillight_rundir::manifest::Losses::default();
        (summary.totals.iops, summary.totals.latencies.service.count) = (0.0, 0);
        (summary.totals.count, summary.totals.errors) = (4_045, 0);
        assert!(unmeasured(&summary));
        assert!(lost(&summary).0.starts_with("all I/Os but outliers"));
        summary.origin = RunOrigin::watched("a");
        assert!(lost(&summary).0.contains("did not block were not seen"));
        let said = first::answer(&summary);
        assert!(said.contains("4,045 I/Os are kept; how many did not block"), "{said}");
    }
}
