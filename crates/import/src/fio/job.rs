//! A group of sections that run side by side as one Taillight job file.

use std::collections::BTreeSet;

use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, Result};

use super::layout::{self, Instance, Layout};
use super::load::Load;
use super::pattern::{Block, Draw};
use super::place::Engine;
use crate::ImportedJob;
use crate::toml_text::{Table, comment, quoted};

/// Width of comments.
const WIDTH: usize = 98;

/// Writes the job of a group.
///
/// # Errors
/// `Usage`, naming section and line, for sections that do not fit into one job.
pub fn job(file: &str, group: &[Load], taken: &mut BTreeSet<String>) -> Result<ImportedJob> {
    let layout = layout::layout(file, group)?;
    let Some(first) = group.first() else {
        return Err(Error::internal("a group without sections"));
    };
    let names: Vec<&str> = group.iter().map(|l| l.name.as_str()).collect();
    let name = fit(&names.join("-"), taken);
    let mut notes: Vec<String> = Vec::new();
    for load in group {
        notes.extend(load.notes.iter().cloned());
    }
    notes.extend(layout.notes.iter().cloned());
    let run = run(file, group, &name, &mut notes)?;
    if group.iter().any(|l| l.pattern.reads())
        && !first.place.options.direct
        && first.place.engine != Engine::Null
    {
        notes.push(
            "fio tells the kernel the pattern of buffered reads (fadvise_hint); Taillight leaves \
             read-ahead as it is"
                .to_owned(),
        );
    }
    let mut seen = BTreeSet::new();
    notes.retain(|n| seen.insert(n.clone()));
    let mut text = String::new();
    let shown: Vec<String> = names.iter().map(|n| format!("[{n}]")).collect();
    comment(
        &format!(
            "Made by `taillight import` from {file}: {}.",
            shown.join(", ")
        ),
        WIDTH,
        &mut text,
    );
    for note in &notes {
        comment(note, WIDTH, &mut text);
    }
    run.write("[run]", &mut text);
    target(first, &layout, &mut text);
    let mut used = BTreeSet::new();
    for (load, instances) in group.iter().zip(&layout.instances) {
        for (index, instance) in instances.iter().enumerate() {
            let name = match instances.len() {
                1 => load.name.clone(),
                _ => format!("{}-{index}", load.name),
            };
            let passes = group.len() > 1 && !load.demand.end.time_based;
            workload(load, instance, &fit(&name, &mut used), passes)
                .write("[[workload]]", &mut text);
        }
    }
    tail(file, group, &mut text)?;
    Ok(ImportedJob {
        name,
        toml: text,
        notes,
    })
}

/// A name that is fit for a file and not taken yet.
fn fit(name: &str, taken: &mut BTreeSet<String>) -> String {
    let ok = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let clean: String = name
        .chars()
        .map(|c| if ok(c) { c } else { '-' })
        .take(56)
        .collect();
    let clean = clean.trim_start_matches('.');
    let clean = if clean.is_empty() { "job" } else { clean };
    let mut name = clean.to_owned();
    let mut n = 1;
    while !taken.insert(name.clone()) {
        n += 1;
        name = format!("{clean}-{n}");
    }
    name
}

/// `[run]`: one end for all sections.
fn run(file: &str, group: &[Load], name: &str, notes: &mut Vec<String>) -> Result<Table> {
    let first = &group[0];
    let mut table = Table::default();
    table.text("name", name);
    let seed = group.iter().find_map(|l| l.seed);
    if let Some(seed) = seed {
        table.raw("seed", seed.to_string());
    }
    for other in &group[1..] {
        if other.demand.ramp != first.demand.ramp {
            return Err(layout::differ(file, first, other, "ramp_time"));
        }
        if other.demand.end.runtime != first.demand.end.runtime {
            return Err(layout::differ(file, first, other, "runtime"));
        }
        if other.seed != first.seed {
            notes.push(format!(
                "one seed serves all sections: that of [{}]",
                first.name
            ));
        }
    }
    let end = &first.demand.end;
    if let Some(runtime) = end.runtime {
        table.text("duration", &runtime.to_string());
    }
    match group {
        [one] if !end.time_based => amount(one, &mut table),
        [_] => {}
        _ => amounts(file, group, &mut table)?,
    }
    if first.demand.ramp > Span(0) {
        table.text("warmup", &first.demand.ramp.to_string());
    }
    Ok(table)
}

/// The amount a single section does.
fn amount(load: &Load, table: &mut Table) {
    let end = &load.demand.end;
    let clones = u64::from(load.clones);
    if let Some(n) = end.operations {
        table.raw("operations", n.saturating_mul(clones).to_string());
    }
    if let Some(bytes) = end.bytes {
        // fio ends when the rest is less than a block.
        let whole = match load.pattern.block {
            Block::Fixed(size) if bytes > size => bytes / size * size,
            _ => bytes,
        };
        let all = ByteSize(whole.saturating_mul(clones));
        table.text("bytes", &all.to_string());
    }
}

/// Sections side by side that end by amount end one by one: each makes its passes.
fn amounts(file: &str, group: &[Load], table: &mut Table) -> Result<()> {
    let finite: Vec<&Load> = group.iter().filter(|l| !l.demand.end.time_based).collect();
    for load in &finite {
        let end = &load.demand.end;
        if end.operations.is_some() || end.passes.is_none() {
            return Err(Error::usage(format!(
                "[{}] ends by number_ios or io_size while others run beside it, which cannot be \
                 expressed",
                load.name
            ))
            .with("at", format!("{file}:{}", load.number))
            .hint("let all sections end by time: time_based=1 and runtime"));
        }
    }
    // The default end after 30 s must not cut them short.
    if finite.len() == group.len() && group[0].demand.end.runtime.is_none() {
        // A run shares its bytes out evenly among the workers: the most that one needs, for each.
        let most: Option<u64> = finite
            .iter()
            .map(|l| l.demand.end.bytes)
            .try_fold(0, |most, bytes| Some(bytes?.max(most)));
        let workers: u64 = group.iter().map(|l| u64::from(l.clones)).sum();
        let total = most.map(|m| m.saturating_mul(workers));
        let Some(total) = total else {
            return Err(
                Error::usage("sections side by side without sizes have no common end")
                    .with("at", format!("{file}:{}", group[0].number))
                    .hint("give each a size, or time_based=1 and runtime"),
            );
        };
        table.text("bytes", &ByteSize(total).to_string());
    }
    Ok(())
}

fn target(first: &Load, layout: &Layout, text: &mut String) {
    let place = &first.place;
    let mut table = Table::default();
    if place.engine == Engine::Null {
        table.text("driver", "null");
        if let Some(size) = layout.size {
            table.text("size", &ByteSize(size).to_string());
        }
        return table.write("[target]", text);
    }
    table.text("driver", "file");
    if let Some(path) = &layout.path {
        table.text("path", path);
    }
    if let Some(size) = layout.size {
        table.text("size", &ByteSize(size).to_string());
    }
    table.write("[target]", text);
    let mut options = Table::default();
    let engine = if place.engine == Engine::Sync {
        "sync"
    } else {
        "uring"
    };
    options.text("engine", engine);
    options.raw("direct", place.options.direct.to_string());
    if layout.files > 1 {
        options.raw("files", layout.files.to_string());
    }
    options.text("cache", place.options.cache);
    if place.options.overwrite {
        options.text("layout", "always");
    }
    options.raw("keep", place.options.keep.to_string());
    for (name, value) in &place.options.ring {
        options.raw(name, value);
    }
    options.write("[target.options]", text);
}

fn workload(load: &Load, instance: &Instance, name: &str, passes: bool) -> Table {
    let mut table = Table::default();
    table.text("name", name);
    table.raw("workers", instance.workers.to_string());
    table.raw("queue_depth", load.depth.to_string());
    table.raw("mix", mix(load));
    table.raw("block_size", load.pattern.block.toml());
    table.raw("access", access(load, instance));
    if let Some(rate) = load.demand.rate {
        let mut arrival = Table::default();
        arrival.text("kind", if rate.poisson { "poisson" } else { "constant" });
        arrival.text("rate", &rate.text(instance.workers));
        table.raw("arrival", arrival.inline());
    }
    if let Some((time, every)) = load.demand.think {
        let mut think = Table::default();
        think.text("time", &time.to_string());
        think.raw("every", every.to_string());
        table.raw("think", think.inline());
    }
    if let Some(sync) = &load.sync {
        table.text("sync", sync);
    }
    if let Some(payload) = &load.payload {
        table.raw("payload", payload);
    }
    if let Some(n) = load.demand.end.passes.filter(|_| passes) {
        table.raw("passes", n.to_string());
    }
    if !load.cpus.is_empty() {
        let cpus: Vec<String> = load.cpus.iter().map(u32::to_string).collect();
        table.raw("cpus", format!("[{}]", cpus.join(", ")));
    }
    table
}

fn mix(load: &Load) -> String {
    let mut parts = load.pattern.mix.clone();
    if let (Some((reads, writes)), [_, _]) =
        (load.demand.rate.and_then(|r| r.shares), parts.as_slice())
    {
        let divisor = gcd(reads, writes).max(1);
        parts = vec![("read", reads / divisor), ("write", writes / divisor)];
    }
    match parts.as_slice() {
        [(op, _)] => quoted(op),
        _ => {
            let mut table = Table::default();
            for (op, share) in parts {
                table.raw(op, share.to_string());
            }
            table.inline()
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn access(load: &Load, instance: &Instance) -> String {
    let kind = match &load.pattern.draw {
        Draw::Walk => "sequential",
        Draw::Uniform { .. } => "random",
        Draw::Skewed(kind, _) => kind,
    };
    let mut table = Table::default();
    table.text("kind", kind);
    if let Some(align) = load.pattern.align {
        table.text("align", &ByteSize(align).to_string());
    }
    if instance.offset > 0 {
        table.text("offset", &ByteSize(instance.offset).to_string());
    }
    if let Some(length) = instance.length {
        table.text("length", &ByteSize(length).to_string());
    }
    match &load.pattern.draw {
        Draw::Walk => {}
        Draw::Uniform { cover } if *cover => table.raw("cover", "true"),
        Draw::Uniform { .. } => {}
        Draw::Skewed(_, fields) => {
            for (name, value) in fields {
                table.raw(name, value);
            }
        }
    }
    table.inline()
}

/// `[qos]` and `[verify]`.
fn tail(file: &str, group: &[Load], text: &mut String) -> Result<()> {
    let first = &group[0];
    if let Some(other) = group.iter().find(|l| l.percentiles != first.percentiles) {
        return Err(layout::differ(file, first, other, "percentile_list"));
    }
    if let Some(list) = &first.percentiles {
        let list: Vec<String> = list.iter().map(|p| quoted(&p.to_string())).collect();
        let mut table = Table::default();
        table.raw("percentiles", format!("[{}]", list.join(", ")));
        table.write("[qos]", text);
    }
    if let Some(other) = group.iter().find(|l| l.verify != first.verify) {
        return Err(layout::differ(file, first, other, "verify"));
    }
    if first.verify {
        let mut table = Table::default();
        table.text("mode", "after");
        table.write("[verify]", text);
    }
    Ok(())
}
