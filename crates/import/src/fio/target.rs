//! The target of a section: how I/O is issued, files, size and the options of the target.

use taillight_core::Result;

use super::read::SectionReader;
use super::value::{self, Amount};

/// Switches of the ring: fio's option and ours.
pub const RING_SWITCHES: [(&str, &str); 4] = [
    ("fixedbufs", "fixed_buffers"),
    ("registerfiles", "registered_files"),
    ("hipri", "iopoll"),
    ("sqthread_poll", "sqpoll"),
];

/// How I/O is issued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FioEngine {
    /// One blocking call at a time.
    Sync,
    /// A ring with a queue.
    Uring,
    Null,
}

/// Which files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilePlacement {
    /// Every clone has files of its own in this directory (`.` without one).
    Own(String),
    /// One file or device, named; all clones share it.
    Named(String),
    /// No file at all.
    None,
}

/// The target of a section.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetSpec {
    pub engine: FioEngine,
    pub files: FilePlacement,
    /// Files of each clone.
    pub count: u32,
    /// Bytes of each clone; `None` = all there is.
    pub size: Option<u64>,
    pub offset: u64,
    /// How much later each clone begins than the one before.
    pub increment: u64,
    /// Past the page cache.
    pub direct: bool,
    /// Laid out before writing too.
    pub overwrite: bool,
    /// `[target.options]`: one set for all sections that run side by side.
    pub options: toml::Table,
}

/// Reads everything about the target. Errors: `Usage` with its place.
pub fn target(r: &SectionReader<'_>, notes: &mut Vec<String>) -> Result<TargetSpec> {
    let engine = engine(r, notes)?;
    let direct = match r.line("direct") {
        Some(_) => r.boolean("direct", false)?,
        None => !r.boolean("buffered", true)?,
    };
    let overwrite = r.boolean("overwrite", false)?;
    let options = options(r, engine, direct, overwrite)?;
    let files = files(r, engine)?;
    let count = r.small_integer("nrfiles")?.unwrap_or(1).max(1);
    if count > 1 && matches!(files, FilePlacement::Named(_)) {
        return Err(r.error("nrfiles", "several files of given names cannot be expressed"));
    }
    let filesize = match r.raw("filesize")? {
        Some(text) if text.contains('-') => {
            return Err(r.error("filesize", "files of different sizes cannot be expressed"));
        }
        _ => r.size("filesize")?.map(|s| s.0),
    };
    let whole = filesize.map(|f| f.saturating_mul(u64::from(count)));
    let size = part_of(r, "size", whole)?.or(whole);
    if let (Some(size), Some(whole)) = (size, whole)
        && size > whole
    {
        return Err(r.error("size", "it is larger than filesize allows"));
    }
    if size.is_some() && whole.is_some() && size != whole && count > 1 {
        return Err(r.error("size", "a part of several files cannot be expressed"));
    }
    let offset = part_of(r, "offset", whole)?.unwrap_or(0);
    if offset > 0 && count > 1 {
        return Err(r.error("offset", "an offset in each of several files cannot be expressed"));
    }
    if size == Some(0) || (size.is_none() && !matches!(files, FilePlacement::Named(_))) {
        return Err(r
            .error("size", "no size is given")
            .hint("fio refuses this too: write size=1g, or name an existing file"));
    }
    Ok(TargetSpec {
        engine,
        files,
        count,
        size,
        offset,
        increment: part_of(r, "offset_increment", whole)?.unwrap_or(0),
        direct,
        overwrite,
        options,
    })
}

/// A size that may be a share of `whole`.
fn part_of(r: &SectionReader<'_>, name: &str, whole: Option<u64>) -> Result<Option<u64>> {
    match (r.amount(name)?, whole) {
        (None, _) => Ok(None),
        (Some(Amount::Bytes(bytes)), _) => Ok(Some(bytes)),
        (Some(Amount::Percent(100)), None) if name == "size" => Ok(None),
        (Some(Amount::Percent(p)), Some(whole)) => Ok(Some(value::share(whole, p))),
        (Some(Amount::Percent(_)), None) => Err(r
            .error(name, "a percentage needs the size of the file, and no file is looked at")
            .hint("write it in bytes, or give filesize")),
    }
}

fn engine(r: &SectionReader<'_>, notes: &mut Vec<String>) -> Result<FioEngine> {
    let Some(line) = r.line("ioengine") else {
        return Ok(FioEngine::Sync);
    };
    let mut note = |text: &str| notes.push(r.note(line, text));
    match line.value.as_deref() {
        Some("psync") => Ok(FioEngine::Sync),
        Some("sync" | "pvsync" | "pvsync2" | "vsync") => {
            note("pread and pwrite instead; one blocking call an operation, too");
            Ok(FioEngine::Sync)
        }
        Some("io_uring") => Ok(FioEngine::Uring),
        Some("libaio") => {
            note("io_uring instead; it has a real queue without direct=1 too");
            Ok(FioEngine::Uring)
        }
        Some("posixaio") => {
            note("io_uring instead of the C library's threads");
            Ok(FioEngine::Uring)
        }
        Some("null") => Ok(FioEngine::Null),
        other => Err(r
            .error(
                "ioengine",
                &format!(
                    "`{}` has no equivalent; it would change how I/O is done",
                    other.unwrap_or("")
                ),
            )
            .hint("known: psync, sync, pvsync, pvsync2, vsync, libaio, io_uring, posixaio, null")),
    }
}

fn files(r: &SectionReader<'_>, engine: FioEngine) -> Result<FilePlacement> {
    if engine == FioEngine::Null {
        return Ok(FilePlacement::None);
    }
    let dir = r.value("directory", one_path)?;
    let Some(name) = r.value("filename", one_path)? else {
        return Ok(FilePlacement::Own(dir.unwrap_or_else(|| ".".to_owned())));
    };
    Ok(FilePlacement::Named(match dir {
        Some(dir) => format!("{}/{name}", dir.trim_end_matches('/')),
        None => name,
    }))
}

/// fio separates several paths by colons; a backslash takes their meaning.
fn one_path(text: &str) -> Result<String, String> {
    let plain = text.replace("\\:", "\u{0}");
    if plain.contains(':') {
        return Err("several paths cannot be expressed: a job has one [target]".to_owned());
    }
    if text == "-" {
        return Err("standard input and output cannot be measured".to_owned());
    }
    Ok(plain.replace('\u{0}', ":"))
}

fn options(
    r: &SectionReader<'_>,
    engine: FioEngine,
    direct: bool,
    overwrite: bool,
) -> Result<toml::Table> {
    let pre_read = r.boolean("pre_read", false)?;
    if pre_read && direct {
        return Err(r.error("pre_read", "direct=1 goes past the page cache that it fills"));
    }
    let cache = match (pre_read, r.boolean("invalidate", true)?) {
        (true, _) => "warm",
        (false, true) => "drop",
        (false, false) => "keep",
    };
    let ring = engine == FioEngine::Uring;
    let mut options = toml::Table::new();
    let mut set = |name: &str, value: toml::Value| options.insert(name.to_owned(), value);
    set("engine", if ring { "uring" } else { "sync" }.into());
    set("direct", direct.into());
    set("cache", cache.into());
    if overwrite {
        set("layout", "always".into());
    }
    set("keep", (!r.boolean("unlink", false)?).into());
    for (name, field) in RING_SWITCHES {
        let on = r.boolean(name, false)?;
        if on && !ring {
            return Err(r.error(name, "only the ring engine can do it"));
        }
        // Both are on by default here, and off in fio.
        let on_by_default = matches!(field, "fixed_buffers" | "registered_files");
        if ring && (on || on_by_default) {
            set(field, on.into());
        }
    }
    if let Some(cpu) = r.small_integer("sqthread_poll_cpu")? {
        set("sqpoll_cpu", i64::from(cpu).into());
    }
    Ok(options)
}
