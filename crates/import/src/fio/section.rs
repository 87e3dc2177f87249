//! One section understood: what its options mean together, in the types of a job file. Files and engine are read in
//! `target`, operations and offsets in `pattern`, how much and when in `demand`; here what else there is: depth, syncs,
//! data, checks, CPUs, priorities, seed.

use std::collections::BTreeMap;

use taillight_core::plan::{Flow, IoClass, IoPriority, Payload, PayloadKind, Sync, UnifiedRow};
use taillight_core::units::Span;
use taillight_core::{Error, Percentile};

use super::around::{Existing, Surroundings, format_bytes};
use super::demand::{self, SectionDemand, SectionEnd};
use super::lex::{OptionLine, OptionRow, RawSection};
use super::pattern::{self, OffsetOrder, OffsetPattern};
use super::payload;
use super::read::SectionReader;
use super::sizes;
use super::steady::{self, SectionSteady};
use super::target::{self, FilePlacement, FioEngine, MOST_BATCHED, TargetSpec};
use super::value;

/// Which jobs end with a section (`exit_what`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitScope {
    /// The jobs of its group: `new_group` begins another.
    Group,
    /// Those that run beside it.
    Stonewall,
    /// Those beside it and those that would run after it.
    All,
}

/// What fio does after each pass over the files of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterPass {
    /// It reads back and checks what was written.
    Check,
    Sync,
    Unlink,
}

impl AfterPass {
    pub fn option(&self) -> &'static str {
        match self {
            AfterPass::Check => "verify",
            AfterPass::Sync => "end_fsync",
            AfterPass::Unlink => "unlink_each_loop",
        }
    }

    /// What is done, of fio.
    pub fn describe(&self) -> &'static str {
        match self {
            AfterPass::Check => "checks what was written",
            AfterPass::Sync => "syncs the files",
            AfterPass::Unlink => "deletes the files, before the next one",
        }
    }
}

/// A section of the file, understood.
#[derive(Debug, Clone)]
pub struct JobSection {
    /// What fio calls it in its output.
    pub name: String,
    /// Name of the whole section, where this is a part of it: `name` adds a number or a word.
    pub part_of: Option<String>,
    /// Heading of the section, which files are named by.
    pub heading: String,
    /// File and line of its heading.
    pub place: String,
    /// Begins when all sections before it are done.
    pub stonewall: bool,
    /// Begins when this section before it is done.
    pub waits_for: Option<String>,
    /// Is reported with none of those before it (`new_group`).
    pub new_group: bool,
    /// Number of its group, as fio counts them; none where groups are runs.
    pub report_group: Option<u32>,
    /// Is reported as one with those of its group (`group_reporting`).
    pub grouped: bool,
    /// Others end when its first job does: `exitall`, in any section of the file.
    pub exits_all: bool,
    /// Which others.
    pub exit_scope: ExitScope,
    /// `numjobs`.
    pub clones: u32,
    /// Operations in flight of each clone.
    pub depth: u32,
    pub target: TargetSpec,
    pub pattern: OffsetPattern,
    /// How much and when.
    pub demand: SectionDemand,
    pub sync: Option<Sync>,
    /// What the kernel is told of the order of its reads, in words of the target's option.
    pub read_ahead: Option<&'static str>,
    /// Files that were written are synced in the end.
    pub end_fsync: bool,
    pub payload: Option<Payload>,
    /// Whether what was written is checked.
    pub verify: bool,
    /// What fio does after each pass, in this order.
    pub after_pass: Vec<AfterPass>,
    /// Whether its jobs are those of the section before it: both are one in fio's output.
    pub same_jobs: bool,
    /// Whether its run goes on with the files of the pass before.
    pub continues: bool,
    /// Bytes of memory that each clone locks.
    pub locked: u64,
    /// Whether its files are laid out and nothing else is done (`create_only`).
    pub layout_only: bool,
    /// Its share of the operations of several sections.
    pub flow: Option<Flow>,
    /// Reads and writes together in its row.
    pub unified: Option<UnifiedRow>,
    /// CPUs of the workers.
    pub cpus: Vec<u32>,
    /// Nice value and I/O priority of the workers.
    pub priority: (Option<i32>, Option<IoPriority>),
    /// Percent of its I/Os that have another priority, and that.
    pub priority_share: Option<(u32, IoPriority)>,
    /// Seed, when every run is to be the same.
    pub seed: Option<u64>,
    /// Ends once it is steady.
    pub steady: Option<SectionSteady>,
    /// Percentiles of the report.
    pub percentiles: Option<Vec<Percentile>>,
    /// Its options, with what becomes of each.
    pub options: Vec<OptionRow>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

impl JobSection {
    /// One of the parts that it becomes.
    pub fn part(&self, called: impl std::fmt::Display) -> JobSection {
        JobSection {
            name: format!("{}-{called}", self.name),
            part_of: self.part_of.clone().or(Some(self.name.clone())),
            ..self.clone()
        }
    }

    /// Makes it a part or pass behind the first, which waits, needs and says what is said of all of them.
    pub fn behind_first(&mut self) {
        (self.stonewall, self.waits_for, self.notes, self.options) = Default::default();
        self.target.needs.clear();
    }

    /// Whether fio calls it so.
    pub fn is_called(&self, name: &str) -> bool {
        self.part_of.as_deref().unwrap_or(&self.name) == name
    }
}

/// Understands a section. What is wrong in it goes to `wrong`; `made`: bytes of the files that sections before
/// it leave, by path.
pub fn section(
    section: &RawSection,
    around: &Surroundings<'_>,
    made: &BTreeMap<String, u64>,
    wrong: &mut Vec<Error>,
) -> JobSection {
    let r = SectionReader::new(section, around);
    r.judge();
    let clones = match r.small_integer("numjobs").unwrap_or(1) {
        0 => r.wrong("numjobs", "0 does nothing", 1),
        clones if clones > MOST_CLONES => {
            r.wrong("numjobs", &format!("at most {MOST_CLONES} can be expressed"), 1)
        }
        clones => clones,
    };
    let mut pattern = pattern::pattern(&r);
    let target = target::target(&r, clones, pattern.block.min(), made);
    sizes::order(&r, &mut pattern, &target);
    fits(&r, &pattern, &target);
    trims_files(&r, &pattern, &target);
    let mut demand = demand::demand(&r, &pattern, &target);
    let depth = depth(&r, &pattern, &target, &mut demand);
    if pattern.mixed_sequence() {
        r.note_section(
            "in fio reads and writes walk through the file apart; here they share one walk",
        );
    }
    created_on_open(&r, &pattern, &target, made);
    opened_again(&r, &target);
    let verify = verify(&r, &pattern, demand.end.time_based);
    let end_fsync = end_fsync(&r, &pattern, &demand.end, &target);
    let after_pass = after_pass(&r, &pattern, &demand.end, &target, (verify, end_fsync));
    let section = JobSection {
        name: section.display_name().to_owned(),
        part_of: None,
        heading: section.name.clone(),
        place: section.place.clone(),
        stonewall: r.boolean("stonewall", false),
        waits_for: r.raw("wait_for").map(str::to_owned),
        new_group: r.boolean("new_group", false),
        report_group: None,
        grouped: r.boolean("group_reporting", false),
        exits_all: r.boolean("exitall", false),
        exit_scope: exit_scope(&r),
        clones,
        depth,
        sync: sync(&r, &pattern).filter(|sync| {
            target.engine != FioEngine::Mmap || !matches!(sync, Sync::Sync | Sync::Dsync)
        }),
        read_ahead: read_ahead(&r, &pattern, &target),
        end_fsync,
        payload: payload(&r, &pattern, verify),
        verify,
        after_pass,
        same_jobs: false,
        continues: false,
        locked: r.size("lockmem").map_or(0, |size| size.0),
        layout_only: layout_only(&r),
        flow: flow(&r),
        unified: unified(&r),
        cpus: cpus(&r, clones),
        priority: priority(&r),
        priority_share: priority_share(&r, &pattern, &demand),
        seed: seed(&r),
        steady: steady::steady(&r),
        percentiles: percentiles(&r),
        target,
        pattern,
        demand,
        options: section.options(),
        notes: Vec::new(),
    };
    let (complaints, notes) = r.said();
    wrong.extend(complaints);
    JobSection { notes, ..section }
}

/// Says of trims of files that fio has none.
fn trims_files(r: &SectionReader<'_>, pattern: &OffsetPattern, target: &TargetSpec) {
    let file = |path: &&String| matches!((r.around.existing)(path), Some(Existing::File(_)));
    if pattern.trims() && target.paths().iter().any(file) {
        r.note_if(
            "rw",
            "here what is trimmed of a file becomes holes; fio fails, as it trims devices only",
        );
    }
}

/// Complains where the largest block is larger than the smallest file.
fn fits(r: &SectionReader<'_>, pattern: &OffsetPattern, target: &TargetSpec) {
    let largest = pattern.block.max();
    let each = target.size.map(|size| size / u64::from(target.count));
    let smallest = target.sizes.iter().min().copied().or(each.filter(|size| *size > 0));
    if smallest.is_some_and(|size| size < largest) {
        let what = format!(
            "a block of {} does not fit into a file; fio refuses this too",
            format_bytes(largest)
        );
        r.wrong("bs", &what, ());
    }
}

/// Turns a list of CPUs so that the one of job `number` comes first: jobs take them in turns.
pub fn next_cpu(cpus: &mut [u32], number: usize) {
    cpus.rotate_left(number % cpus.len().max(1));
}

fn exit_scope(r: &SectionReader<'_>) -> ExitScope {
    match r.raw("exit_what").unwrap_or("group") {
        "group" => ExitScope::Group,
        "stonewall" => ExitScope::Stonewall,
        "all" => ExitScope::All,
        _ => r.wrong("exit_what", "it is group, stonewall or all", ExitScope::Group),
    }
}

/// Jobs of one section, at most.
const MOST_CLONES: u32 = 4096;

/// `create_on_open`: a file that is only written is made by opening it, here as well. One that is read has to be there:
/// fio lays none out, and fails at the first read of an empty one.
fn created_on_open(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    target: &TargetSpec,
    made: &BTreeMap<String, u64>,
) {
    const NAME: &str = "create_on_open";
    if !r.boolean(NAME, false) {
        return;
    }
    if !pattern.reads() {
        let what = "a file that is only written grows as it is written, here too";
        return r.note_if(NAME, what);
    }
    let paths = target.paths();
    if paths.is_empty() {
        return;
    }
    let needed = target.size.unwrap_or(1) / u64::from(target.count) + target.offset;
    let holds = |path: &&String| {
        let there = (r.around.existing)(path);
        // No device is made, whatever it holds.
        matches!(there, Some(Existing::Device(_)))
            || there.and_then(Existing::size).max(made.get(*path).copied()) >= Some(needed.max(1))
    };
    match paths.iter().find(|path| !holds(path)) {
        Some(path) => {
            let what = format!(
                "`{path}` is read and does not hold {}: fio makes an empty file and fails",
                format_bytes(needed)
            );
            r.wrong_but(
                NAME,
                &what,
                "take the line out: files that are read are filled before the run",
                (),
            );
        }
        None => r.note_if(NAME, "the file that is read is there, so that nothing is made"),
    }
}

/// `create_only`: a job file of Taillight has no such thing.
fn layout_only(r: &SectionReader<'_>) -> bool {
    const NAME: &str = "create_only";
    let only = r.boolean(NAME, false);
    if only {
        r.note_if(
            NAME,
            "`taillight run` of this file lays the section's files out, before all others, and measures nothing of it; a \
             job file that `taillight import` makes of it would be run",
        );
    }
    only
}

/// Says of a job that opens one file several times (`nrfiles` of one name, or paths that add up) that it goes over it
/// so often.
fn opened_again(r: &SectionReader<'_>, target: &TargetSpec) {
    if target.walks > 1 {
        let name = if r.line("filename").is_some() { "filename" } else { "nrfiles" };
        r.note_if(
            name,
            &format!(
                "all are the same file (paths of [global] and of the section add up), so that a job goes over it {} \
                 times side by side, as in fio; where blocks are drawn, one pass after the other",
                target.walks
            ),
        );
    }
}

/// What fio does after each pass. `unlink_each_loop`: it deletes the files, and the next pass makes them anew.
fn after_pass(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    end: &SectionEnd,
    target: &TargetSpec,
    (verify, end_fsync): (bool, bool),
) -> Vec<AfterPass> {
    const NAME: &str = "unlink_each_loop";
    let deletes = r.boolean(NAME, false);
    let passes = end.time_based || end.several_passes(target);
    if deletes && passes && (end.time_based || pattern.reads()) {
        let what = "files that are deleted between two passes over a time, or before they are read, cannot be expressed";
        r.wrong(NAME, what, ());
    } else if deletes && !passes {
        r.note_if(NAME, "there is one pass, after which fio deletes nothing either");
    }
    let asked = [
        (AfterPass::Check, verify),
        (AfterPass::Sync, end_fsync && !end.time_based),
        (AfterPass::Unlink, deletes && !end.time_based),
    ];
    asked.into_iter().filter(|(_, asked)| *asked).map(|(after, _)| after).collect()
}

/// `flow`, `flow_id` and `flow_sleep`.
fn flow(r: &SectionReader<'_>) -> Option<Flow> {
    let number = |name: &str| r.small_integer(name).unwrap_or(0);
    let pause = r.time("flow_sleep", 1_000).unwrap_or(Span(0));
    let flow = Flow { share: number("flow"), id: number("flow_id"), pause };
    match flow.share {
        0 => {
            for name in ["flow_id", "flow_sleep"] {
                r.note_if(name, "without `flow` it changes nothing, in fio as here");
            }
            None
        }
        // FLOW_MAX_WEIGHT of fio.
        1001.. => r.wrong("flow", "it is from 1 to 1000; fio refuses this too", None),
        _ => Some(flow),
    }
}

/// `unified_rw_reporting`.
fn unified(r: &SectionReader<'_>) -> Option<UnifiedRow> {
    const NAME: &str = "unified_rw_reporting";
    match r.line(NAME)?.value.as_deref() {
        None | Some("1" | "mixed") => Some(UnifiedRow::Mixed),
        Some("0" | "none") => None,
        Some("2" | "both") => Some(UnifiedRow::Both),
        Some(_) => r.wrong(NAME, "it is none (0), mixed (1) or both (2)", None),
    }
}

/// Operations in flight of each job: `iodepth`, one for engines that block, and of `posixaio` no more than files are
/// open. Where a pause comes more often than that, fewer: fio waits for what is in flight before each pause. `demand`
/// then has its pauses after so many.
fn depth(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    target: &TargetSpec,
    demand: &mut SectionDemand,
) -> u32 {
    let depth = match r.small_integer("iodepth").unwrap_or(1) {
        0 => r.wrong("iodepth", "0 does nothing", 1),
        depth => depth,
    };
    if depth > 1 && matches!(target.engine, FioEngine::Sync | FioEngine::Mmap) {
        r.note_if(
            "iodepth",
            "fio's blocking engines do one operation at a time whatever it says; so does this job",
        );
        return 1;
    }
    // `handle_thinktime` of fio's backend.c: what is in flight is done before each pause. Devices are complained of.
    let apart = matches!(target.files, FilePlacement::Apart(_));
    let pauses = demand.think.as_mut().filter(|think| think.after.is_none() && !apart);
    let depth = match pauses {
        Some(think) if think.every < depth => {
            r.note_if(
                "thinktime",
                "fio waits for what is in flight before each pause, so that of few thinktime_blocks it does about so many, \
                 or half of iodepth and of them, from one pause to the next; so does this job, with as many in flight",
            );
            // A pause follows whole multiples of `every`.
            if think.every > 1 {
                think.every += (depth - think.every) / 2;
            }
            think.every
        }
        _ => depth,
    };
    // `__aio_enqueue_request` of glibc: a request for a descriptor that is worked on waits for the one before.
    let open = open_at_once(r, pattern, target).min(AIO_THREADS);
    let depth = if depth > open && r.raw("ioengine") == Some("posixaio") {
        r.note_if(
            "iodepth",
            "the C library works on one request of each open file at a time, so that as many are in flight as a job has \
             files open, 20 at most; so does this job. fio's latency has the wait for the others in it, here there is none",
        );
        open
    } else {
        depth
    };
    match depth > MOST_BATCHED {
        true => r.wrong_but(
            "iodepth",
            &format!("more than {MOST_BATCHED} in flight of each job cannot be expressed"),
            "use more jobs (numjobs) with less each",
            MOST_BATCHED,
        ),
        false => depth,
    }
}

/// Threads of glibc's aio (`aio_threads`), which fio leaves as it is.
const AIO_THREADS: u32 = 20;

/// Files that a job has open and goes over at the same time.
fn open_at_once(r: &SectionReader<'_>, pattern: &OffsetPattern, target: &TargetSpec) -> u32 {
    match (target.count, &pattern.order) {
        (0 | 1, _) => target.walks,
        (_, OffsetOrder::Sequential) => 1,
        (files, _) => r.small_integer("openfiles").map_or(files, |open| files.min(open.max(1))),
    }
}

fn sync(r: &SectionReader<'_>, pattern: &OffsetPattern) -> Option<Sync> {
    let each = match r.line("sync").map(|l| l.value.as_deref()) {
        None | Some(Some("0" | "none")) => None,
        Some(None | Some("1" | "sync")) => Some(Sync::Sync),
        Some(Some("dsync")) => Some(Sync::Dsync),
        Some(Some(_)) => r.wrong("sync", "it is none, sync or dsync", None),
    };
    let every = |name: &str| r.small_integer(name).filter(|n| *n > 0);
    let given = [each, every("fsync").map(Sync::Fsync), every("fdatasync").map(Sync::Fdatasync)];
    // Without writes there is nothing to sync, in fio as here.
    let mut given = given.into_iter().flatten().filter(|_| pattern.writes());
    let sync = given.next();
    if given.next().is_some() {
        r.wrong("fsync", "only one of sync, fsync and fdatasync can be expressed", ());
    }
    sync
}

/// What fio tells the kernel of each file that it opens: by the pattern unless `fadvise_hint` says otherwise. `None`
/// for direct I/O too, which reads nothing ahead.
fn read_ahead(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    target: &TargetSpec,
) -> Option<&'static str> {
    let hint = match r.raw("fadvise_hint").unwrap_or("1") {
        "0" => None,
        "1" if pattern.order.walks() => Some("sequential"),
        "1" | "random" => Some("random"),
        "sequential" => Some("sequential"),
        _ => r.wrong("fadvise_hint", "it is 0, 1, random or sequential", None),
    };
    hint.filter(|_| !target.direct && target.engine != FioEngine::Null)
}

/// `end_fsync` and `fsync_on_close`: fio syncs each file when a job has done its work, within its time, and not after a
/// write that was synced.
fn end_fsync(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    end: &SectionEnd,
    target: &TargetSpec,
) -> bool {
    let asked: Vec<&str> =
        ["end_fsync", "fsync_on_close"].into_iter().filter(|name| r.boolean(name, false)).collect();
    for name in &asked {
        if !pattern.writes() {
            r.note_if(name, "nothing is written, so nothing is synced, in fio as here");
        } else if end.time_based && target.count > 1 {
            let what = "fio syncs each time it has gone over its files; passes over a time cannot be expressed";
            r.wrong_but(name, what, "write loops=N and no time_based, or fsync=N", ());
        } else {
            r.note_if(
                name,
                "the sync is an operation of its own here, with its latency; the run's time includes it, as in fio",
            );
        }
    }
    !asked.is_empty() && pattern.writes()
}

fn payload(r: &SectionReader<'_>, pattern: &OffsetPattern, verify: bool) -> Option<Payload> {
    let share = |name: &str| match r.small_integer(name).unwrap_or(0) {
        n if n > 100 => r.wrong(name, "it is a percentage", 0),
        n => n,
    };
    let duplicate = share("dedupe_percentage");
    if verify && duplicate > 0 {
        let why = "blocks that are checked carry their position, so that no two are alike, in fio as here";
        r.note_if("dedupe_percentage", why);
    }
    let random = Payload {
        compressible: share("buffer_compress_percentage"),
        duplicate: if verify { 0 } else { duplicate },
        ..Payload::default()
    };
    let shaped = random != Payload::default();
    let payload = if let Some(bytes) = r.value("buffer_pattern", payload::pattern) {
        if shaped {
            let what = "the share of a block that compresses is zeros here and this pattern in fio; the shares are the same";
            r.note_if("buffer_pattern", what);
            return Some(random).filter(|_| pattern.writes());
        }
        Payload { pattern: Some(bytes), ..Payload::from(PayloadKind::Pattern) }
    } else if r.boolean("zero_buffers", false) {
        if shaped {
            r.wrong("zero_buffers", "zeros with shares that compress or repeat", ());
        }
        Payload::from(PayloadKind::Zero)
    } else {
        random
    };
    Some(payload).filter(|p| pattern.writes() && *p != Payload::default())
}

/// The line that asks for a check: `verify`, or `verify_pattern` alone, which means `verify=pattern`
/// (`str_verify_pattern_cb` of fio's options.c).
pub fn verify_line<'a>(r: &SectionReader<'a>) -> Option<&'a OptionLine> {
    let line = r.line("verify").or_else(|| r.line("verify_pattern"))?;
    Some(line).filter(|line| line.name != "verify" || line.value.as_deref() != Some("0"))
}

fn verify(r: &SectionReader<'_>, pattern: &OffsetPattern, time_based: bool) -> bool {
    const SUMS: &str = "md5 crc64 crc32c crc32c-intel crc32 crc16 crc7 xxhash sha512 sha256 sha1 \
                        sha3-224 sha3-256 sha3-384 sha3-512 1 meta pattern pattern_hdr null";
    let known = |v: &str| SUMS.split_whitespace().any(|sum| sum == v);
    let Some(line) = verify_line(r) else { return false };
    if line.name == "verify" && !line.value.as_deref().is_some_and(known) {
        return r.wrong("verify", "only checks of the content can be expressed", false);
    }
    if pattern.writes() && r.raw("ioengine") == Some("null") && !time_based {
        let hint = "leave verify out";
        return r.wrong_but(
            "verify",
            "ioengine=null keeps nothing that could be checked",
            hint,
            false,
        );
    }
    if !pattern.writes() {
        r.note(
            line,
            "the reads are done and their content is NOT checked: Taillight checks what the same run wrote \
             (`taillight run ... --set verify.run=RUN` checks what an earlier run wrote)",
        );
        return false;
    }
    if !r.boolean("do_verify", true) {
        r.note(line, "do_verify=0: nothing is checked in this run");
        return false;
    }
    if time_based {
        if r.integer("verify_backlog").is_some_and(|blocks| blocks > 0) {
            return r.wrong_but(
                "verify_backlog",
                "with time_based fio reads back and checks so many blocks behind the writes for as long as it writes, which \
                 cannot be expressed",
                "take it out, and what fio then reads back after each pass is left out here, as a note says; or take \
                 time_based out, and all is checked afterwards",
                false,
            );
        }
        r.note(
            line,
            "nothing is checked here, and all of the time is for the writes; fio does so where the runtime ends before the \
             first pass over the size, and reads back and checks each pass that ends sooner",
        );
        return false;
    }
    r.note(
        line,
        "Taillight's own checksum, position and generation are written and checked, after the run",
    );
    r.note_if(
        "verify_backlog",
        "blocks are checked after the run instead of so many behind the writes: no checks beside the measured writes",
    );
    true
}

/// The CPUs that an option names: a list, the bits of a mask, or those of NUMA nodes.
fn cpus_of(r: &SectionReader<'_>, name: &str) -> Option<Vec<u32>> {
    match name {
        "cpumask" => r.value(name, |text| match r.parse_size(text)? {
            0 => Err("a mask without CPUs".to_owned()),
            mask => Ok((0..u64::BITS).filter(|cpu| mask >> cpu & 1 == 1).collect()),
        }),
        "numa_cpu_nodes" => r.value(name, |text| {
            const NODES: &str = "/sys/devices/system/node";
            let read = |path: String| (r.around.text)(&path).map_err(|e| format!("{path}: {e}"));
            let online = match text {
                "all" => read(format!("{NODES}/online"))?,
                _ => text.to_owned(),
            };
            let of = |node: u32| value::cpus(read(format!("{NODES}/node{node}/cpulist"))?.trim());
            let lists: Result<Vec<_>, String> =
                value::cpus(online.trim())?.into_iter().map(of).collect();
            Ok(lists?.concat())
        }),
        _ => r.value(name, value::cpus),
    }
}

/// Buffers are touched first by the worker that uses them, once it is on its CPU: the kernel takes their memory from
/// the node of it while there is some.
fn memory_policy(r: &SectionReader<'_>) {
    const NAME: &str = "numa_mem_policy";
    let Some(policy) = r.raw(NAME) else { return };
    let (mode, nodes) = policy.split_once(':').unwrap_or((policy, ""));
    let same = r.raw("numa_cpu_nodes") == Some(nodes) && !nodes.contains([',', '-']);
    match mode {
        "default" | "local" => r.note_if(NAME, "memory comes from the node of the CPU that a worker is on, here too"),
        "bind" | "prefer" if same => r.note_if(
            NAME,
            "buffers are touched first on a CPU of that node, so that their memory is of it while it has some",
        ),
        _ => r.wrong_but(
            NAME,
            "memory of other nodes than that of the CPUs cannot be asked for",
            "name one node in numa_cpu_nodes and the same here, or use numactl",
            (),
        ),
    }
}

fn cpus(r: &SectionReader<'_>, clones: u32) -> Vec<u32> {
    let given = ["cpus_allowed", "cpumask", "numa_cpu_nodes"].map(|name| (name, cpus_of(r, name)));
    let mut given = given.into_iter().filter_map(|(name, cpus)| Some((name, cpus?)));
    let (name, cpus) = given.next().unwrap_or(("cpus_allowed", Vec::new()));
    if let Some((other, _)) = given.next() {
        r.wrong(other, &format!("CPUs are given twice, by {name} as well"), ());
    }
    memory_policy(r);
    let split = r.raw("cpus_allowed_policy") == Some("split");
    if split && cpus.len() < clones as usize && !cpus.is_empty() {
        r.wrong(name, "there are fewer CPUs than jobs to split them", ());
    }
    if !split && cpus.len() > 1 {
        r.note_if(
            name,
            "each worker is pinned to one of them, in turns (cpus_allowed_policy=split); fio lets each move among all",
        );
    }
    cpus
}

/// `nice`, and the priority of all I/O: `prioclass` and `prio`, which is one of the best-effort class without a class;
/// with `cmdprio_percentage=100` that of `cmdprio`. `None`: what the process has.
fn priority(r: &SectionReader<'_>) -> (Option<i32>, Option<IoPriority>) {
    let nice = r.value("nice", |t| t.trim().parse().map_err(|_| "it is from -20 to 19".to_owned()));
    let nice = match nice {
        Some(nice) if !(-20..=19).contains(&nice) => r.wrong("nice", "it is from -20 to 19", None),
        nice => nice.filter(|nice| *nice != 0),
    };
    let level = level(r, "prio");
    match r.small_integer("cmdprio_percentage").unwrap_or(0) {
        100 => return (nice, Some(cmdprio(r))),
        0 => ["cmdprio_class", "cmdprio"].into_iter().for_each(|name| {
            r.note_if(name, "it goes with cmdprio_percentage or cmdprio_bssplit");
        }),
        _ => {}
    }
    let class = match (r.small_integer("prioclass"), r.line("prio")) {
        (Some(1), _) => Some(IoClass::Realtime),
        (Some(2), _) | (None | Some(0), Some(_)) => Some(IoClass::BestEffort),
        (Some(3), _) => Some(IoClass::Idle),
        (None | Some(0), None) => None,
        (Some(_), _) => r.wrong("prioclass", "it is from 0 to 3", None),
    };
    (nice, class.map(|class| of_class(class, level)))
}

/// `cmdprio_percentage` of 1 to 99.
fn priority_share(
    r: &SectionReader<'_>,
    pattern: &OffsetPattern,
    demand: &SectionDemand,
) -> Option<(u32, IoPriority)> {
    const NAME: &str = "cmdprio_percentage";
    let percent = match r.small_integer(NAME).unwrap_or(0) {
        0 | 100 => return None,
        percent @ 1..100 => percent,
        _ => return r.wrong(NAME, "it is a percentage", None),
    };
    let ring = matches!(r.raw("ioengine"), Some("libaio" | "io_uring"));
    let shared = demand.rate.is_some() || demand.think.is_some() || r.line("flow").is_some();
    if !ring || r.small_integer("iodepth").unwrap_or(1) < 2 || pattern.order.walks() || shared {
        let what = "only of what libaio or io_uring draw at random, with two in flight or more, and without a rate, pauses \
                    or flow, it can be expressed";
        let hint = "make two sections side by side, each with its prio and prioclass";
        return r.wrong_but(NAME, what, hint, None);
    }
    r.note_if(
        NAME,
        "I/Os of either priority are a workload of their own, each with its share of iodepth and, by `flow`, of the \
         operations, and each with its own latency in the report; in fio they are drawn from one queue. With a random \
         map each has one of its own",
    );
    Some((percent, cmdprio(r)))
}

fn level(r: &SectionReader<'_>, name: &str) -> u8 {
    match r.small_integer(name).unwrap_or(0) {
        level @ 0..=7 => level as u8,
        _ => r.wrong(name, "it is from 0, the highest, to 7", 0),
    }
}

/// The idle class has no levels.
fn of_class(class: IoClass, level: u8) -> IoPriority {
    IoPriority { class, level: if class == IoClass::Idle { 0 } else { level } }
}

/// The priority of the share of `cmdprio_percentage`: of the real-time class where none is given.
fn cmdprio(r: &SectionReader<'_>) -> IoPriority {
    let class = match r.small_integer("cmdprio_class") {
        None | Some(1) => IoClass::Realtime,
        Some(2) => IoClass::BestEffort,
        Some(3) => IoClass::Idle,
        Some(_) => r.wrong("cmdprio_class", "it is from 1 to 3", IoClass::BestEffort),
    };
    of_class(class, level(r, "cmdprio"))
}

/// fio repeats its random numbers by default; a fixed seed does the same. `None` with `randrepeat=0` and no seed.
fn seed(r: &SectionReader<'_>) -> Option<u64> {
    if r.boolean("allrandrepeat", false) {
        r.note_if("randseed", "allrandrepeat has a seed of its own, in fio as here");
        return Some(1);
    }
    r.integer("randseed").or(r.boolean("randrepeat", true).then_some(1))
}

fn percentiles(r: &SectionReader<'_>) -> Option<Vec<Percentile>> {
    let text = r.raw("percentile_list")?;
    let mut list = Vec::new();
    for text in text.split(':') {
        if text.trim().parse() == Ok(100.0) {
            r.note_if("percentile_list", "the maximum is always reported, so 100 is left out");
            continue;
        }
        list.extend(r.value("percentile_list", |_| Percentile::asked(text.trim())));
    }
    Some(list).filter(|l| !l.is_empty())
}
