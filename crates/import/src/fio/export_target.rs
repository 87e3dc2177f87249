//! The target of a plan in fio's words: engine, files, extents.

use taillight_core::plan::{AccessKind, Plan, WorkloadPlan};
use taillight_core::{Error, Result};

use super::export::SectionText;
use super::target::RING_SWITCHES;

/// What sections need to know of the target.
pub(super) struct ExportTarget {
    /// Files; an extent can be said of one only.
    pub(super) files: u64,
    /// Bytes, if the plan says.
    size: Option<u64>,
    /// The page cache is in the way, and dropped before the run.
    pub(super) cached: bool,
}

/// Writes the target into a section. Errors: `Usage` for a driver but `file` and `null`.
pub(super) fn target(plan: &Plan, out: &mut SectionText) -> Result<ExportTarget> {
    let t = &plan.target;
    let size = t.size.map(|s| s.0);
    match t.driver.as_str() {
        "null" => {
            out.set("ioengine", "null");
            // As large as the driver makes it when nothing is said.
            let size = size.or(Some(1 << 30));
            return Ok(ExportTarget { files: 1, size, cached: false });
        }
        "file" => {}
        other => {
            return Err(Error::usage(format!("fio has nothing like driver `{other}`"))
                .hint("jobs for driver file or null can be exported"));
        }
    }
    let option = |name: &str| t.options.get(name);
    let word = |name: &str| option(name).and_then(|v| v.as_str()).unwrap_or_default();
    let on = |name: &str| option(name).and_then(toml::Value::as_bool).unwrap_or(false);
    let deep = plan.workloads.iter().any(|w| w.queue_depth > 1);
    let ring = match word("engine") {
        "sync" => false,
        "uring" => true,
        "mmap" => false,
        _ => deep || on("iopoll") || on("sqpoll"),
    };
    let blocking = if word("engine") == "mmap" { "mmap" } else { "psync" };
    out.set("ioengine", if ring { "io_uring" } else { blocking });
    if option("workloads").is_some() {
        out.lacks("target.options.workloads", "its sections would need an engine each");
    }
    if option("force_async").and_then(toml::Value::as_integer).is_some_and(|n| n > 0) {
        out.lacks("target.options.force_async", "leave it out");
    }
    out.set("direct", u8::from(on("direct")));
    match word("cache") {
        "keep" => out.set("invalidate", 0),
        "warm" => out.set("pre_read", 1),
        _ => {}
    }
    match word("layout") {
        "always" => out.set("overwrite", 1),
        "never" => out.lacks("target.options.layout", "fio lays out what it reads"),
        _ => {}
    }
    if !on("keep") {
        out.set("unlink", 1);
    }
    if ring {
        ring_options(&t.options, out);
    }
    if t.destroy {
        out.lacks("target.destroy", "fio overwrites what it is pointed at, without asking");
    }
    let files = option("files").and_then(toml::Value::as_integer);
    let files = files.and_then(|n| u64::try_from(n).ok()).unwrap_or(1);
    let path = t.path.as_deref().unwrap_or(".");
    let paths = names(path, files, &t.options, out);
    out.set("filename", paths);
    if files > 1 {
        out.set("file_service_type", "random");
    }
    if !on("direct") {
        out.set(
            "fadvise_hint",
            if word("read_ahead") == "auto" { "0" } else { word("read_ahead") },
        );
    }
    let cached = !on("direct") && !matches!(word("cache"), "keep" | "warm");
    Ok(ExportTarget { files, size, cached })
}

/// What an io_uring engine is asked for beyond its depth.
fn ring_options(options: &toml::Table, out: &mut SectionText) {
    let option = |name: &str| options.get(name);
    let on = |name: &str| option(name).and_then(toml::Value::as_bool).unwrap_or(false);
    for (name, field) in RING_SWITCHES {
        if on(field) {
            out.set(name, 1);
        }
    }
    let cpu = option("sqpoll_cpu").and_then(toml::Value::as_integer);
    if let Some(cpu) = cpu.filter(|c| *c >= 0) {
        out.set("sqthread_poll_cpu", cpu);
    }
    let workers = option("io_workers").and_then(toml::Value::as_integer);
    if workers.is_some_and(|n| n > 0) {
        out.lacks(
            "target.options.io_workers",
            "fio leaves the ring's worker threads to the kernel",
        );
    }
}

/// The files behind a path, separated by colons.
fn names(path: &str, files: u64, options: &toml::Table, out: &mut SectionText) -> String {
    let list = |name: &str| options.get(name).and_then(toml::Value::as_array);
    if list("sizes").is_some_and(|sizes| !sizes.is_empty()) {
        out.cannot("target.options.sizes", "fio draws the sizes of its files");
    }
    let escaped = path.replace(':', "\\:");
    if files == 1 && !path.ends_with('/') {
        return escaped;
    }
    let dir = escaped.trim_end_matches('/');
    let own = |n| format!("taillight-{n}.dat");
    let names: Vec<String> = match list("names").map(Vec::as_slice) {
        None | Some([]) => (0..files).map(own).collect(),
        Some(names) => names.iter().filter_map(|n| Some(n.as_str()?.replace(':', "\\:"))).collect(),
    };
    let paths: Vec<String> = names.iter().map(|name| format!("{dir}/{name}")).collect();
    paths.join(":")
}

/// The extent of a workload: offset and size, or a slice of it for each worker.
pub(super) fn extent(w: &WorkloadPlan, target: &ExportTarget, out: &mut SectionText) {
    let a = &w.access;
    let whole = a.offset.0 == 0 && (a.length.is_none() || a.length.map(|l| l.0) == target.size);
    if target.files > 1 {
        if !whole {
            out.lacks("access", "an extent over several files; fio would cut each of them");
        }
        if a.kind == AccessKind::Sequential && a.files.is_sequence() {
            out.lacks("access", "fio goes through the files in its own order");
        }
        if let Some(size) = target.size {
            out.set("size", size);
        }
        return;
    }
    let length = a.length.map(|l| l.0).or(target.size.map(|s| s.saturating_sub(a.offset.0)));
    if a.offset.0 > 0 {
        out.set("offset", a.offset.0);
    }
    let Some(length) = length else {
        if a.kind == AccessKind::Sequential && w.workers > 1 {
            out.lacks("access", "each fio job walks the whole file; give target.size for slices");
        }
        return;
    };
    let workers = u64::from(w.workers.max(1));
    if a.kind == AccessKind::Sequential && workers > 1 {
        let share = length / workers / a.align.0.max(1) * a.align.0.max(1);
        out.set("size", share);
        out.set("offset_increment", share);
        if share * workers != length {
            out.lacks("access", "the last blocks belong to no slice");
        }
        return;
    }
    out.set("size", length);
}
