//! One section understood: what its options mean together, in the types of a job file. The parts
//! are read in `target` (files and engine), `pattern` (what) and `demand` (how much, when).

use taillight_core::plan::{Payload, PayloadKind, Sync};
use taillight_core::{Percentile, Result};

use super::demand::{self, SectionDemand};
use super::lex::RawSection;
use super::pattern::{self, OffsetPattern};
use super::read::SectionReader;
use super::target::{self, FioEngine, TargetSpec};
use super::value;

/// A section of the file, understood.
#[derive(Debug, Clone)]
pub struct JobSection {
    pub name: String,
    /// Line of its heading.
    pub number: usize,
    /// Begins when all sections before it are done.
    pub stonewall: bool,
    /// `numjobs`.
    pub clones: u32,
    /// Operations in flight of each clone.
    pub depth: u32,
    pub target: TargetSpec,
    pub pattern: OffsetPattern,
    /// How much and when.
    pub demand: SectionDemand,
    pub sync: Option<Sync>,
    pub payload: Option<Payload>,
    /// Whether what was written is checked.
    pub verify: bool,
    /// CPUs of the workers.
    pub cpus: Vec<u32>,
    /// Seed, when every run is to be the same.
    pub seed: Option<u64>,
    /// Percentiles of the report.
    pub percentiles: Option<Vec<Percentile>>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Understands a section. Errors: `Usage` with file, line and option.
pub fn section(file: &str, section: &RawSection) -> Result<JobSection> {
    let r = SectionReader::new(file, section)?;
    let mut notes = r.accepted();
    let target = target::target(&r, &mut notes)?;
    let pattern = pattern::pattern(&r, &mut notes)?;
    let demand = demand::demand(&r, &pattern, &target, &mut notes)?;
    let clones = r.small_integer("numjobs")?.unwrap_or(1);
    if clones == 0 {
        return Err(r.error("numjobs", "0 does nothing"));
    }
    if pattern.mixed_sequence() {
        notes.push(format!(
            "[{}]: in fio reads and writes walk through the file apart; here they share one walk",
            section.name
        ));
    }
    Ok(JobSection {
        name: r.raw("name")?.unwrap_or(&section.name).to_owned(),
        number: section.number,
        stonewall: r.boolean("stonewall", false)?,
        clones,
        depth: depth(&r, &target, &mut notes)?,
        sync: sync(&r, &pattern)?,
        payload: payload(&r, &pattern)?,
        verify: verify(&r, &pattern, &mut notes)?,
        cpus: cpus(&r, clones)?,
        seed: seed(&r)?,
        percentiles: percentiles(&r, &mut notes)?,
        target,
        pattern,
        demand,
        notes,
    })
}

/// Operations in flight: engines that block have one.
fn depth(r: &SectionReader<'_>, target: &TargetSpec, notes: &mut Vec<String>) -> Result<u32> {
    let depth = r.small_integer("iodepth")?.unwrap_or(1);
    if depth == 0 {
        return Err(r.error("iodepth", "0 does nothing"));
    }
    match (depth > 1 && target.engine == FioEngine::Sync, r.line("iodepth")) {
        (true, Some(line)) => {
            let why = "fio's blocking engines do one operation at a time whatever it says; \
                       so does this job";
            notes.push(r.note(line, why));
            Ok(1)
        }
        _ => Ok(depth),
    }
}

fn sync(r: &SectionReader<'_>, pattern: &OffsetPattern) -> Result<Option<Sync>> {
    let each = match r.line("sync").map(|l| l.value.as_deref()) {
        None | Some(Some("0" | "none")) => None,
        Some(None | Some("1" | "sync")) => Some(Sync::Sync),
        Some(Some("dsync")) => Some(Sync::Dsync),
        Some(Some(_)) => return Err(r.error("sync", "it is none, sync or dsync")),
    };
    let every = |name: &str| r.small_integer(name).map(|n| n.filter(|n| *n > 0));
    let given = [each, every("fsync")?.map(Sync::Fsync), every("fdatasync")?.map(Sync::Fdatasync)];
    let mut given = given.into_iter().flatten();
    let sync = given.next();
    if given.next().is_some() {
        return Err(r.error("fsync", "only one of sync, fsync and fdatasync can be expressed"));
    }
    // Without writes there is nothing to sync, in fio as here.
    Ok(sync.filter(|_| pattern.writes()))
}

fn payload(r: &SectionReader<'_>, pattern: &OffsetPattern) -> Result<Option<Payload>> {
    let share = |name: &str| match r.small_integer(name)?.unwrap_or(0) {
        n if n > 100 => Err(r.error(name, "it is a percentage")),
        n => Ok(n),
    };
    let random = Payload {
        compressible: share("buffer_compress_percentage")?,
        duplicate: share("dedupe_percentage")?,
        ..Payload::default()
    };
    let shaped = random != Payload::default();
    let payload = if let Some(text) = r.raw("buffer_pattern")? {
        if shaped {
            return Err(r.error("buffer_pattern", "a pattern with shares that compress or repeat"));
        }
        Payload { pattern: Some(pattern_text(r, text)?), ..Payload::from(PayloadKind::Pattern) }
    } else if r.boolean("zero_buffers", false)? {
        if shaped {
            return Err(r.error("zero_buffers", "zeros with shares that compress or repeat"));
        }
        Payload::from(PayloadKind::Zero)
    } else {
        random
    };
    Ok(Some(payload).filter(|p| pattern.writes() && *p != Payload::default()))
}

/// `0xdeadbeef` and `"text"`; numbers and file names are left to fio.
fn pattern_text(r: &SectionReader<'_>, text: &str) -> Result<String> {
    let quoted = text.strip_prefix('"').and_then(|t| t.strip_suffix('"'));
    let hex = |t: &str| t.len() > 2 && t[2..].bytes().all(|b| b.is_ascii_hexdigit());
    match quoted {
        Some(inner) if !inner.is_empty() && !inner.starts_with("0x") => Ok(inner.to_owned()),
        None if text.starts_with("0x") && hex(text) => Ok(text.to_owned()),
        _ => Err(r
            .error("buffer_pattern", "only text in quotes or 0x digits can be expressed")
            .hint("write it as 0x and hexadecimal digits")),
    }
}

fn verify(r: &SectionReader<'_>, pattern: &OffsetPattern, notes: &mut Vec<String>) -> Result<bool> {
    const SUMS: &str = "md5 crc64 crc32c crc32c-intel crc32 crc16 crc7 xxhash sha512 sha256 sha1 \
                        sha3-224 sha3-256 sha3-384 sha3-512 1";
    let known = |v: &str| SUMS.split_whitespace().any(|sum| sum == v);
    let line = match r.line("verify") {
        Some(line) if line.value.as_deref() != Some("0") => line,
        _ => return Ok(false),
    };
    if !line.value.as_deref().is_some_and(known) {
        return Err(r.error("verify", "only checksums of the content can be expressed"));
    }
    if !r.boolean("do_verify", true)? {
        notes.push(r.note(line, "do_verify=0: nothing is checked in this run"));
        return Ok(false);
    }
    if !pattern.writes() {
        return Err(r
            .error("verify", "a section that only reads would check what another run wrote")
            .hint("check in the section that writes: Taillight reads back what it wrote"));
    }
    if r.small_integer("dedupe_percentage")?.is_some_and(|n| n > 0) {
        return Err(r
            .error(
                "dedupe_percentage",
                "blocks that are checked carry their position, so no two are alike",
            )
            .hint("leave verify or dedupe_percentage out"));
    }
    notes.push(r.note(line, "Taillight's own checksum, position and generation are checked"));
    Ok(true)
}

fn cpus(r: &SectionReader<'_>, clones: u32) -> Result<Vec<u32>> {
    let cpus = r.value("cpus_allowed", value::cpus)?.unwrap_or_default();
    let split = r.raw("cpus_allowed_policy")? == Some("split");
    if split && cpus.len() < clones as usize {
        return Err(r.error("cpus_allowed", "there are fewer CPUs than jobs to split them"));
    }
    Ok(cpus)
}

/// fio repeats its random numbers by default; a fixed seed does the same.
fn seed(r: &SectionReader<'_>) -> Result<Option<u64>> {
    let repeat = r.boolean("randrepeat", true)? || r.boolean("allrandrepeat", false)?;
    Ok(r.integer("randseed")?.or(repeat.then_some(1)))
}

fn percentiles(r: &SectionReader<'_>, notes: &mut Vec<String>) -> Result<Option<Vec<Percentile>>> {
    let Some(line) = r.line("percentile_list") else {
        return Ok(None);
    };
    let mut list = Vec::new();
    for text in line.value.as_deref().unwrap_or_default().split(':') {
        if text.trim_end_matches('0').trim_end_matches('.') == "1" && text.len() >= 3 {
            notes.push(r.note(line, "the maximum is always reported, so 100 is left out"));
            continue;
        }
        let p = Percentile::asked(text.trim()).map_err(|what| r.error("percentile_list", &what))?;
        list.push(p);
    }
    Ok(Some(list).filter(|l| !l.is_empty()))
}
