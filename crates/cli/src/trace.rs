//! `taillight trace FILE`: what is in a recorded trace (rate, mix, sizes, order, reuse, latencies), without replaying
//! it. `taillight_engine::trace` reads and counts. Nothing here traces a run.

use std::path::Path;

use taillight_core::exit::Exit;
use taillight_core::plan::ReplayPlan;
use taillight_core::units::readable::{in_line, visible};
use taillight_core::{Error, Result};
use taillight_engine::trace::{
    self, MOST_OPS, TraceDispersion, TraceFile, TraceProfile, TraceReuse, TraceSizes, TraceStream,
};
use taillight_machine::Sys;
use taillight_report::format::{bytes, count, counted, duration_ns, percent, rate, short};
use taillight_trace::memory_budget;

use crate::args::TraceArgs;
use crate::{foreign, output};

/// Runs the command. Errors: `Usage` when the file is no trace that can be replayed, with the line;
/// `Unavailable` when it cannot be read, or has more operations than may be held, or than fit into memory.
pub fn main(args: &TraceArgs) -> Result<Exit> {
    foreign::check_readable(Path::new(&args.file)).map_err(|e| {
        e.hint("name a recorded trace, or the directory of a run that kept its I/Os")
    })?;
    let replay = ReplayPlan {
        file: args.file.clone(),
        format: args.format.clone(),
        select: args.select.clone(),
        from: args.from,
        length: args.length,
        ..ReplayPlan::default()
    };
    // Operations are held twice while they are read, and once more to count what they touch.
    let free = memory_budget::read(&Sys::default())?.free_memory.0;
    let read = trace::load(&replay, MOST_OPS.min(free / 64))
        .map_err(|e| in_flags(no_trace(&args.file, e)))?;
    if read.alone {
        output::note(&format!("{}: {}", in_line(&args.file), trace::ALONE));
    }
    let profile = TraceProfile::of(&read);
    match args.json {
        true => output::json(&profile)?,
        false => output::text(&visible(&text(&args.file, &profile)))?,
    }
    Ok(Exit::Ok)
}

/// Fields of a job, and the flags of this command that are the same.
const FLAGS: [(&str, &str); 5] = [
    ("trace.select = ", "--select "),
    ("trace.select", "--select"),
    ("trace.from", "--from"),
    ("trace.length", "--length"),
    ("trace.format", "--format"),
];

/// An error whose hint names flags in the place of a job's fields.
fn in_flags(e: Error) -> Error {
    let Some(hint) = e.hint_text() else { return e };
    let hint = FLAGS.iter().fold(hint.to_owned(), |hint, (field, flag)| hint.replace(field, flag));
    e.hint(hint)
}

/// The error for a recorded trace where a command takes something else (`wanted`); None for any other file.
pub fn refused(shown: &str, wanted: &str) -> Option<Error> {
    let format = TraceFile::open(shown).ok()?.recognise()?;
    let what = format!("this is no {wanted} but a recorded trace ({})", format.name);
    Some(Error::usage(what).with("path", shown).hint(format!(
        "taillight trace {shown} says what it is, taillight run --path data/file --replay {shown} replays it"
    )))
}

/// The error for a file that is no trace: `e`, or for a result of another tool what reads it.
fn no_trace(file: &str, e: Error) -> Error {
    let opened = TraceFile::open(file).is_ok_and(|it| it.recognise().is_none());
    match opened && foreign::is_result(Path::new(file)) {
        true => Error::usage("this is a result of another tool, no trace")
            .with("path", file)
            .hint(format!("taillight report {file} reads it")),
        false => e,
    }
}

/// What the trace is in one line, then a line for each property.
fn text(file: &str, p: &TraceProfile) -> String {
    let mix: Vec<String> =
        p.mix.iter().map(|part| format!("{} {}", part.op.name(), percent(part.share))).collect();
    let mean = match p.rate.as_ref().map(|rate| rate.mean_per_s) {
        None => "without times".to_owned(),
        Some(None) => "all at one time".to_owned(),
        Some(Some(per_s)) => format!("{}/s over {}", rate(per_s), duration_ns(p.span_ns)),
    };
    let mut lines = vec![format!(
        "{} ({}): {}, {mean}; {}; {} touched.",
        in_line(file),
        p.format,
        counted(p.operations, "operation"),
        mix.join(", "),
        bytes(p.touched_bytes),
    )];
    if let Some(of) = &p.rate {
        lines.push(format!(
            "rate        busiest second {}/s, {} s after the start",
            rate(of.peak_per_s as f64),
            count(of.peak_at_s)
        ));
        let known: Vec<String> = of.dispersion.iter().filter_map(dispersion).collect();
        lines.push(match known.is_empty() {
            true => "bursts      the trace is too short to tell".to_owned(),
            false => format!(
                "bursts      {} (variance / mean of the operations in windows): 1 is random, more comes in bursts",
                known.join(", ")
            ),
        });
    }
    lines.extend(p.sizes.as_ref().map(sizes));
    lines.push(format!(
        "order       {} sequential; {} where 32 sequential runs of a kind may be mixed",
        percent(p.sequential_share),
        percent(p.interleaved_share)
    ));
    lines.push(format!(
        "streams     {}",
        p.streams.iter().map(stream).collect::<Vec<_>>().join(", ")
    ));
    lines.push(format!(
        "footprint   {} asked for, {} touched, {} times on average; addresses up to {}",
        bytes(p.bytes),
        bytes(p.touched_bytes),
        short(p.times_touched),
        bytes(p.address_space_bytes),
    ));
    lines.extend(p.reuse.iter().flat_map(reuse));
    if let Some(latency) = &p.latency {
        lines.push(format!("latency     as recorded: {}", trace::latency_words(latency)));
    }
    let mut replay = format!("replay      takes {} of memory", bytes(p.memory_bytes));
    let told = [
        (p.sorted, "row", "out of order in the file, sorted"),
        (p.spread, "operation", trace::COARSE),
        (p.bunched, "operation", trace::BUNCHED),
        (p.skipped, "operation", "of no bytes left out"),
        (p.durable, "write", "on the medium when it ended (FUA)"),
    ];
    for (n, noun, what) in told.into_iter().filter(|(n, ..)| *n > 0) {
        replay.push_str(&format!("; {} {what}", counted(n, noun)));
    }
    lines.push(replay);
    lines.join("\n") + "\n"
}

fn sizes(sizes: &TraceSizes) -> String {
    let most = sizes.most.iter().map(|s| format!("{} {}", bytes(s.bytes), percent(s.share)));
    format!(
        "sizes       {} to {}, mean {}, median {}, p99 {}; most: {}",
        bytes(sizes.min),
        bytes(sizes.max),
        bytes(sizes.mean as u64),
        bytes(sizes.median),
        bytes(sizes.p99),
        most.collect::<Vec<_>>().join(", "),
    )
}

fn dispersion(d: &TraceDispersion) -> Option<String> {
    Some(format!("{} at {}", short(d.index?), duration_ns(d.window_ns)))
}

fn stream(it: &TraceStream) -> String {
    let order = if it.sequential { "sequential" } else { "random" };
    match it.bytes {
        0 => format!("{} {}", it.op.name(), percent(it.share)),
        size => format!("{} {} {order} {}", it.op.name(), bytes(size), percent(it.share)),
    }
}

/// Reuse, and where it is known the working set, each as a line.
fn reuse(it: &TraceReuse) -> Vec<String> {
    let how = match it.sampled_one_in {
        1 => "exact".to_owned(),
        n => format!("by a sample of 1 block in {}", count(n)),
    };
    // Where it rises, from a cache that holds nothing to one that holds all.
    let mut shown = 0.0;
    let rises = it.curve.iter().filter(|point| {
        let rises = point.hit_share - shown >= 0.1;
        shown = if rises { point.hit_share } else { shown };
        rises
    });
    let hits: Vec<String> =
        rises.map(|at| format!("{} {}", bytes(at.cache_bytes), percent(at.hit_share))).collect();
    let hits = match it.curve.last() {
        Some(all) if hits.is_empty() => {
            format!("{} {}", bytes(all.cache_bytes), percent(all.hit_share))
        }
        _ => hits.join(", "),
    };
    let far = it.median_bytes.zip(it.p90_bytes).map_or(String::new(), |(median, p90)| {
        format!(
            "; touched again within {} (median), {} (p90) of unique bytes",
            bytes(median),
            bytes(p90)
        )
    });
    let mut lines = vec![format!(
        "reuse       {} of touches are the first{far}; hits in an LRU cache of {hits} ({how}, blocks of {})",
        percent(it.first_share),
        bytes(it.block_bytes),
    )];
    let sets = it.working_set.iter().map(|set| {
        let window = duration_ns(set.window_ns);
        format!("{} in {window} on average (most {})", bytes(set.mean_bytes), bytes(set.max_bytes))
    });
    let sets: Vec<String> = sets.collect();
    if !sets.is_empty() {
        lines.push(format!("working set {}", sets.join(", ")));
    }
    lines
}
