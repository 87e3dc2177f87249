//! An explanation in plain words, for the console, Markdown and the page.

use crate::format;
use taillight_core::OpKind;
use taillight_core::plan::TraceMode;
use taillight_explain::{CANNOT_SEE, Explanation, Layer, OutlierVerdict};
use taillight_rundir::names;
use taillight_rundir::trace_info::TracingBackend;

/// What an explanation says: of the outliers first which layers held them, then what else is known, then what limits
/// the answer.
pub fn sentences(it: &Explanation) -> Vec<String> {
    if it.info.backend == TracingBackend::None {
        let why = it.info.why.as_deref().unwrap_or("no reason given");
        return vec![format!("The layers below were not seen: {why}.")];
    }
    if !it.tells() {
        return limits(it);
    }
    let mut said = Vec::new();
    if it.outliers == 0 {
        said.push(match it.given && it.thresholds.is_empty() {
            true => "There is no outlier.".to_owned(),
            false => format!("There is no outlier ({}).", threshold(it)),
        });
        said.extend(limits(it));
        return said;
    }
    let share = |n: u64| format::percent(n as f64 / it.outliers as f64);
    let mut parts = Vec::new();
    for layer in it.layers.iter().filter(|l| l.layer != Layer::Unknown).take(4) {
        parts.push(format!(
            "{} ({}) {}",
            format::count(layer.outliers),
            share(layer.outliers),
            layer.layer.did()
        ));
    }
    let unknown = it.layers.iter().find(|l| l.layer == Layer::Unknown);
    let blocked = it.blocked.outliers;
    if blocked > 0 {
        parts.push(format!(
            "{} ({}) {} blocked in the kernel for {} of the time: {CANNOT_SEE}",
            format::count(blocked),
            share(blocked),
            if blocked == 1 { "was" } else { "were" },
            format::percent(it.blocked.blocked_ns as f64 / it.blocked.time_ns.max(1) as f64),
        ));
    }
    let named = it.layers.iter().filter(|l| l.layer != Layer::Unknown);
    let more: u64 = named.skip(4).map(|l| l.outliers).sum();
    if more > 0 {
        parts.push(format!("{} ({}) elsewhere", format::count(more), share(more)));
    }
    let unknown = unknown.map_or("none is unexplained".to_owned(), |l| match blocked {
        0 => format!("{} unknown", share(l.outliers)),
        _ => format!("with these, {} unknown", share(l.outliers)),
    });
    parts.push(unknown);
    said.push(format!(
        "Of {} ({}), {}.",
        format::counted(it.outliers, "outlier"),
        threshold(it),
        parts.join("; ")
    ));
    said.push(format!(
        "The outliers make {}.",
        format::counted(it.episodes.len() as u64, "episode")
    ));
    if it.ios.iter().any(|v| v.always) {
        let always = it.ios.iter().filter(|v| v.always).count() as u64;
        said.push(format!(
            "{} ({}) {} no slower than usual here: the storage is always this slow, and the layer is where \
             the time always goes.",
            format::count(always),
            share(always),
            if always == 1 { "is" } else { "are" },
        ));
    }
    said.extend(it.patterns.iter().map(|p| p.words()));
    said.extend(limits(it));
    said
}

/// "1 outlier was", "2 outliers were".
fn were(n: u64, what: &str) -> String {
    let verb = if n == 1 { "was" } else { "were" };
    format!("{} {verb}", format::counted(n, what))
}

/// What an outlier is here.
fn threshold(it: &Explanation) -> String {
    let time = |ns: &u64| format::duration_ns(*ns);
    if it.given {
        let ns = it.thresholds.values().next().copied().unwrap_or(0);
        return format!("above {}", time(&ns));
    }
    let slowest = |p: &String| {
        let rest = p.parse::<f64>().map_or(0.0, |p| 100.0 - p);
        // Without what binary fractions leave of 100 - 99.9.
        format!("the slowest {} %", (rest * 1e6).round() / 1e6)
    };
    let mut levels: Vec<&String> = it.percentiles.values().collect();
    levels.dedup();
    let one = |(op, ns): (&OpKind, &u64)| {
        let of = it.percentiles.get(op).filter(|_| levels.len() > 1);
        let of = of.map_or(String::new(), |p| format!(", {}", slowest(p)));
        format!("{}s above {}{of}", op.name(), time(ns))
    };
    let list: Vec<String> = it.thresholds.iter().map(one).collect();
    match levels.as_slice() {
        [] => "no I/Os".to_owned(),
        [p] => format!("{}: {}", list.join(", "), slowest(p)),
        _ => list.join("; "),
    }
}

/// Outliers of which the better part of the time was not seen, or not what it was, although their own stamps
/// are whole.
fn in_the_dark(it: &Explanation) -> String {
    let dark = |v: &&OutlierVerdict| v.layer == Layer::Unknown && v.phases.sum() > 0;
    match it.ios.iter().filter(dark).count() as u64 {
        0 => String::new(),
        n => format!(
            ", but of {} most of the time was not seen, or not what the thread waited for",
            format::counted(n, "outlier")
        ),
    }
}

/// Which I/Os have a trace at all.
fn traced(it: &Explanation) -> String {
    let traced = format::count(it.coverage.traced);
    let all = it.info.operations;
    if it.info.mode != TraceMode::Outliers || all <= it.coverage.traced {
        return format!("Of {traced} traced I/Os");
    }
    let which = match it.given {
        true => "the first of each kind, then those above the threshold",
        false => "the first of each kind, then the slow ones",
    };
    let all = format::count(all);
    format!("Of {traced} traced I/Os ({which}, of {all} in the whole run)")
}

/// What limits the answer.
fn limits(it: &Explanation) -> Vec<String> {
    let mut said = Vec::new();
    let c = &it.coverage;
    let percent = |n: u64, of: u64| format::percent(n as f64 / of.max(1) as f64);
    let block = c.matched + c.unsplit;
    said.extend(backend(it));
    said.extend(stopped(it));
    if it.info.backend == TracingBackend::Pauses {
        return said;
    }
    if it.info.backend == TracingBackend::Procfs {
        said.push("No single I/O can be explained with this backend.".to_owned());
        return said;
    }
    if it.info.backend == TracingBackend::Perf {
        said.push(format!("{} set beside what their threads did.", were(c.traced, "I/O")));
    } else if block > 0 {
        said.push(format!(
            "{}, {} {}; {} of these were seen from end to end{}.",
            traced(it),
            format::count(block),
            match c.unclear {
                0 => "reached a device".to_owned(),
                n => format!("reached a device ({} perhaps not)", format::count(n)),
            },
            percent(c.matched, block),
            in_the_dark(it)
        ));
    } else if c.traced > 0 {
        said.push(format!("{}, none had block I/O of its own.", traced(it)));
    }
    if it.gone {
        said.push(format!(
            "The trace is gone: {} of this run is not in the run directory; copy it back from where the \
             run was made.",
            names::LAYERS
        ));
    }
    if let Some(why) = &it.unread_samples {
        said.push(format!("What the machine did meanwhile is unknown: {why}"));
    }
    if it.lacking > 0 {
        said.push(format!("{} not traced, and counted as unknown.", were(it.lacking, "outlier")));
    }
    let lost = it.info.events_lost + it.info.ios_lost;
    if lost > 0 {
        said.push(format!(
            "{} lost: what was not seen counts as unknown.",
            were(lost, "trace event")
        ));
    }
    if it.info.threads_unknown > 0 {
        said.push(format!(
            "{} not looked up in time: without command line and control group.",
            were(it.info.threads_unknown, "thread")
        ));
    }
    if it.info.backend == TracingBackend::Imported {
        let from = it.info.why.as_deref().unwrap_or("another tool");
        said.push(format!(
            "The trace is not Taillight's own ({from}): threads were not watched, so what happened \
             before the block layer and after the completion is unknown."
        ));
        return said;
    }
    for program in it.info.programs.iter().filter(|p| p.missing.is_some()) {
        said.push(format!("Not seen: {} ({}).", program.sees, program.trace_point));
    }
    said.extend(hidden(it));
    said
}

/// What cannot be told without the kernel's addresses.
fn hidden(it: &Explanation) -> Option<String> {
    let hidden = it.info.backend == TracingBackend::TracePoints && !it.info.symbols;
    hidden.then(|| {
        "Kernel function names were hidden (they take CAP_SYSLOG): reasons for sleeping are unknown, and \
         of workers with several I/Os in flight, which of them a part on the disk was of."
            .to_owned()
    })
}

/// Which backend, and why not a better one.
fn backend(it: &Explanation) -> Option<String> {
    let backend = it.info.backend;
    if backend == TracingBackend::Imported {
        return None;
    }
    let why = it.info.why.as_ref();
    let why = why.map_or(String::new(), |w| format!(" Not more: {w}."));
    if let (TracingBackend::Pauses, Some(pauses)) = (backend, it.pauses) {
        let how_often = match pauses.count {
            0 => "none while measuring".to_owned(),
            n => format!(
                "{} of {} in all, the longest {}",
                format::count(n),
                format::duration_ns(pauses.total_ns),
                format::duration_ns(pauses.longest_ns)
            ),
        };
        return Some(format!(
            "Not traced: of what slowed I/Os only pauses of the JVM are known, by its own log ({how_often}); \
             --trace tells the rest.{why}"
        ));
    }
    Some(format!("Traced with backend {} ({}).{why}", backend.name(), backend.sees()))
}

/// From when on nothing was seen.
fn stopped(it: &Explanation) -> Option<String> {
    let stopped = it.info.stopped.as_ref()?;
    let at = match it.begun_ns {
        Some(begun) => format!("From {:.3} s on", (stopped.at_ns - begun) as f64 / 1e9),
        None => "Before the end".to_owned(),
    };
    Some(format!(
        "{at} tracing was stopped by something else ({}): what happened then is unknown.",
        stopped.what
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use taillight_explain::LayerShare;

    use super::*;

    fn explained(levels: &[(OpKind, &str)]) -> Explanation {
        Explanation {
            info: serde_json::from_str(r#"{"mode":"outliers","rung":"bpf"}"#).unwrap(),
            origin: taillight_rundir::origin::RunOrigin::Measured,
            thresholds: levels.iter().map(|(op, _)| (*op, 2_000_000)).collect(),
            percentiles: levels.iter().map(|(op, p)| (*op, (*p).to_owned())).collect(),
            given: false,
            outliers: 1,
            lacking: 1,
            layers: Vec::new(),
            episodes: Vec::new(),
            patterns: Vec::new(),
            levels: Vec::new(),
            coverage: taillight_explain::Coverage::default(),
            pauses: None,
            gone: false,
            unread_samples: None,
            ios: Vec::new(),
            blocked: taillight_explain::Blocked::default(),
            begun_ns: None,
        }
    }

    #[test]
    fn the_percentile_that_was_used_is_named() {
        let text = |levels: &[_]| threshold(&explained(levels));
        let read = "reads above 2.00 ms";
        assert_eq!(text(&[(OpKind::Read, "99.9")]), format!("{read}: the slowest 0.1 %"));
        let both = [(OpKind::Read, "99"), (OpKind::Write, "99")];
        let words = format!("{read}, writes above 2.00 ms: the slowest 1 %");
        assert_eq!(text(&both), words);
        let both = [(OpKind::Read, "99.9"), (OpKind::Write, "99")];
        let words = format!("{read}, the slowest 0.1 %; writes above 2.00 ms, the slowest 1 %");
        assert_eq!(text(&both), words);
        let none = Explanation { thresholds: BTreeMap::new(), ..explained(&[]) };
        assert_eq!(threshold(&none), "no I/Os");
    }

    #[test]
    fn a_run_of_which_only_pauses_are_known_is_explained_where_one_slowed_an_io() {
        let of = |layer| {
            let mut it = explained(&[(OpKind::Read, "99.9")]);
            it.info.backend = TracingBackend::Pauses;
            it.pauses = Some(Default::default());
            it.layers = vec![LayerShare { layer, outliers: 1, excess_ns: 5, sure: 0 }];
            sentences(&it).join(" ")
        };
        let none = of(Layer::Unknown);
        assert!(
            none.starts_with("Not traced: ") && none.contains("none while measuring"),
            "{none}"
        );
        assert!(of(Layer::JvmPause).starts_with("Of 1 outlier ("));
    }

    #[test]
    fn one_is_one() {
        let said = sentences(&explained(&[(OpKind::Read, "99.9")])).join(" ");
        assert!(said.starts_with("Of 1 outlier ("), "{said}");
        assert!(said.contains("1 outlier was not traced"), "{said}");
    }
}
