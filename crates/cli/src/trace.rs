//! `taillight trace FILE`: what a recorded trace is, without running it. `taillight_engine::trace` reads and counts.

use taillight_core::Result;
use taillight_core::exit::Exit;
use taillight_core::plan::ReplayPlan;
use taillight_core::units::readable::{in_line, visible};
use taillight_engine::trace::{self, MOST_OPS, TraceDispersion, TraceProfile};
use taillight_machine::Sys;
use taillight_report::format::{bytes, count, duration_ns, percent, rate, short};
use taillight_trace::memory_budget;

use crate::args::TraceArgs;
use crate::output;

/// Runs the command. Errors: `Usage` when the file is no trace that can be replayed, with the line;
/// `Unavailable` when it has more operations than fit into memory.
pub fn main(args: &TraceArgs) -> Result<Exit> {
    let replay = ReplayPlan {
        file: args.file.clone(),
        format: args.format.clone(),
        select: args.select.clone(),
        from: args.from,
        length: args.length,
        ..ReplayPlan::default()
    };
    // The operations are held twice while they are read, and once more to count what they touch.
    let free = memory_budget::read(&Sys::default())?.free_memory.0;
    let profile = TraceProfile::of(&trace::load(&replay, MOST_OPS.min(free / 64))?);
    match args.json {
        true => output::json(&profile)?,
        false => output::text(&visible(&text(&args.file, &profile)))?,
    }
    Ok(Exit::Ok)
}

/// The answer, then a line for each thing.
fn text(file: &str, p: &TraceProfile) -> String {
    let mix: Vec<String> =
        p.mix.iter().map(|part| format!("{} {}", part.op.name(), percent(part.share))).collect();
    let mean = p.rate.mean_per_s.map_or("all at one time".to_owned(), |per_s| {
        format!("{}/s over {}", rate(per_s), duration_ns(p.span_ns))
    });
    let mut lines = vec![
        format!(
            "{} ({}): {} operations, {mean}; {}; {} touched.",
            in_line(file),
            p.format,
            count(p.operations),
            mix.join(", "),
            bytes(p.touched_bytes),
        ),
        format!(
            "rate        busiest second {}/s, {} s after the start",
            rate(p.rate.peak_per_s as f64),
            count(p.rate.peak_at_s)
        ),
        format!(
            "bursts      {}; 1 is random, more comes in bursts",
            p.rate.dispersion.iter().map(dispersion).collect::<Vec<_>>().join(", ")
        ),
    ];
    if let Some(sizes) = &p.sizes {
        let most = sizes.most.iter().map(|s| format!("{} {}", bytes(s.bytes), percent(s.share)));
        lines.push(format!(
            "sizes       {} to {}, mean {}, median {}, p99 {}; most: {}",
            bytes(sizes.min),
            bytes(sizes.max),
            bytes(sizes.mean as u64),
            bytes(sizes.median),
            bytes(sizes.p99),
            most.collect::<Vec<_>>().join(", "),
        ));
    }
    lines.push(format!("order       {} sequential", percent(p.sequential_share)));
    lines.push(format!(
        "footprint   {} asked of {} touched, {} times each; addresses up to {}",
        bytes(p.bytes),
        bytes(p.touched_bytes),
        short(p.times_touched),
        bytes(p.address_space_bytes),
    ));
    let mut replay = format!("replay      {} of memory", bytes(p.memory_bytes));
    let counted =
        [(p.sorted, "rows came late and are sorted"), (p.skipped, "of no bytes left out")];
    for (n, what) in counted.into_iter().filter(|(n, _)| *n > 0) {
        replay.push_str(&format!("; {} {what}", count(n)));
    }
    lines.push(replay);
    lines.join("\n") + "\n"
}

fn dispersion(d: &TraceDispersion) -> String {
    let index = d.index.map_or("too short".to_owned(), short);
    format!("{index} at {}", duration_ns(d.window_ns))
}
