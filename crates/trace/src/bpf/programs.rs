//! Loads the trace programs that a run or a watch needs, each on its own, and attaches them, some only once they are
//! wanted. A program that the kernel refuses is named and left out (unnamed if its file system may just not be there).

use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use aya::maps::{HashMap, Map, MapData, RingBuf};
use aya::programs::tp_btf::BtfTracePointLinkId as Link;
use aya::programs::{BtfTracePoint, Program};
use aya::{Btf, Ebpf, EbpfLoader, Endianness, VerifierLogLevel};
use flate2::read::GzDecoder;
use taillight_core::{Error, Result};
use taillight_machine::Sys;
use taillight_machine::rights::{TRACING, hint};
use taillight_rundir::trace_info::ProgramInfo;

use super::kernel_cast::KernelCast;
use super::layout::{
    BARE, C_DIRECT, C_ISSUES, C_PUNTED, C_WANTED, COUNTERS, DIRECT_BACK, DIRECT_LEFT,
    EarlierRounds, OTHERS_SEEN, OperationSlot, RINGS_SEEN, SLOTS, STAMPED, THREADS, ThreadState,
};
use super::symbols::KernelSymbols;
use super::sys::SharedRegion;
use super::watch::{WATCHED_THREADS, WatchMaps};

/// The object as gzip, made by the build script: plain it would take more than four times as much of the binary.
const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/taillight.bpf.o.gz"));

/// The object with the programs, built from `bpf/taillight.bpf.c`. Errors: `Internal` when what the build script
/// packed is damaged.
pub fn object() -> Result<Vec<u8>> {
    let mut object = Vec::new();
    let unpacked = GzDecoder::new(PACKED).read_to_end(&mut object);
    unpacked.map_err(|e| Error::internal("the trace programs are damaged").source(e))?;
    Ok(object)
}

/// Numbers of the disks that are watched for I/O of others; of more disks the rest are not.
pub(super) const DISKS: [&str; 4] = ["cfg_disk0", "cfg_disk1", "cfg_disk2", "cfg_disk3"];

/// One program: its name in the object, its trace point, what cannot be seen without it.
pub(super) struct TraceProgram {
    pub(super) name: &'static str,
    trace_point: &'static str,
    sees: &'static str,
    /// When it is worth its cost.
    when: LoadWhen,
}

/// When a program is loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LoadWhen {
    Always,
    /// Every I/O is traced in full.
    All,
    /// All is traced; else, where operations are queued (io_uring) and do not lead back by
    /// themselves, as soon as one of these counters says that it is worth it: what the page cache
    /// answers costs nothing.
    AllOrWanted(&'static [usize]),
    /// Only where other programs are watched.
    Watched,
    /// The same, of a file system that may not be there.
    WatchedThere,
    /// Loaded where every call is looked at in windows, and attached in those alone.
    Exact,
    /// As soon as one of these counters says so, but at once where all is traced and operations do
    /// not lead back by themselves. Of those that do, nobody asks for what it sees unless a worker
    /// thread of io_uring has them, and each costs CPU that `all` has little of to spare.
    Wanted(&'static [usize]),
}

const fn always(name: &'static str, trace_point: &'static str, sees: &'static str) -> TraceProgram {
    TraceProgram { name, trace_point, sees, when: LoadWhen::Always }
}

const fn watched(
    name: &'static str,
    trace_point: &'static str,
    sees: &'static str,
) -> TraceProgram {
    TraceProgram { name, trace_point, sees, when: LoadWhen::Watched }
}

const fn there(name: &'static str, trace_point: &'static str, sees: &'static str) -> TraceProgram {
    TraceProgram { name, trace_point, sees, when: LoadWhen::WatchedThere }
}

/// Programs on system calls, whichever program makes them.
pub(super) const EXACT_ENTER: &str = "exact_enter";
pub(super) const EXACT_EXIT: &str = "exact_exit";

const fn exact(name: &'static str, trace_point: &'static str, sees: &'static str) -> TraceProgram {
    TraceProgram { name, trace_point, sees, when: LoadWhen::Exact }
}

/// The program on the issue of a request.
const ISSUE: &str = "rq_issue";

/// Programs on the direct I/O of files, but for that of rings.
const DIRECT: [&str; 2] = ["watch_direct", "watch_direct_end"];

pub(super) const PROGRAMS: &[TraceProgram] = &[
    always("bio_queue", "block_bio_queue", "when an I/O reaches the block layer; neighbours"),
    always(ISSUE, "block_rq_issue", "when an I/O is given to the driver"),
    always("rq_complete", "block_rq_complete", "when the device is done"),
    always("rq_requeue", "block_rq_requeue", "I/Os given back by the driver"),
    always("bio_split", "block_split", "I/Os cut by the block layer"),
    TraceProgram {
        name: "rq_insert",
        trace_point: "block_rq_insert",
        sees: "when an I/O is given to the I/O scheduler",
        when: LoadWhen::All,
    },
    always("sched_switch", "sched_switch", "threads off the CPU and why"),
    always("sched_waking", "sched_waking", "who wakes a thread up"),
    always("sched_wakeup", "sched_wakeup", "waiting for a CPU after a wake-up"),
    always("steal", "hrtimer_expire_exit", "CPU time that a hypervisor takes"),
    TraceProgram {
        name: "uring_submit",
        trace_point: "io_uring_submit_req",
        sees: "when io_uring picks an I/O up; buffered I/Os of io_uring",
        when: LoadWhen::AllOrWanted(&[C_WANTED]),
    },
    always("uring_punt", "io_uring_queue_async_work", "I/Os handed to io_uring worker threads"),
    TraceProgram {
        name: "uring_complete",
        trace_point: "io_uring_complete",
        sees: "when io_uring posts a completion",
        when: LoadWhen::Wanted(&[C_WANTED, C_PUNTED]),
    },
    always("jbd2_start", "jbd2_start_commit", "commits of a journal"),
    always("jbd2_logging", "jbd2_commit_logging", "commits of a journal"),
    always("jbd2_end", "jbd2_end_commit", "commits of a journal"),
    always("fuse_send", "fuse_request_send", "requests to a FUSE server"),
    always("fuse_end", "fuse_request_end", "answers of a FUSE server"),
    always("reclaim_begin", "mm_vmscan_direct_reclaim_begin", "making room in memory"),
    always("reclaim_end", "mm_vmscan_direct_reclaim_end", "making room in memory"),
    always("memcg_begin", "mm_vmscan_memcg_reclaim_begin", "making room in a memory cgroup"),
    always("memcg_end", "mm_vmscan_memcg_reclaim_end", "making room in a memory cgroup"),
    watched("watch_fork", "sched_process_fork", "children of a program that is watched"),
    watched("watch_exit", "sched_process_exit", "the end of its threads"),
    watched(DIRECT[0], "iomap_dio_rw_begin", "when direct I/O of a file begins; libaio"),
    watched(DIRECT[1], "iomap_dio_complete", "when direct I/O of a file ends; libaio"),
    there("watch_sync_ext4", "ext4_sync_file_enter", "when ext4 begins to sync a file"),
    there("watch_sync_end", "ext4_sync_file_exit", "when ext4 has synced a file"),
    there("watch_sync_xfs", "xfs_file_fsync", "when XFS begins to sync a file"),
    there("watch_sync_btrfs", "btrfs_sync_file", "when btrfs begins to sync a file"),
    exact(EXACT_ENTER, "sys_enter", "calls that do not block"),
    exact(EXACT_EXIT, "sys_exit", "the end of calls that do not block"),
];

/// The kernel's description of its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// In place of a function's address that is not known: no function is there.
const UNKNOWN: u64 = u64::MAX;

/// What the programs are told.
#[derive(Debug, Clone, Default)]
pub struct ProgramConfig {
    /// Disks under test, kernel numbers; at most four are watched.
    pub disks: Vec<u32>,
    /// Shorter intervals off the CPU are no events, ns.
    pub off_ns: u64,
    /// Every I/O is kept.
    pub all: bool,
    /// Of direct I/O, completions take all stamps.
    pub late: bool,
    /// What kind of file the target is: bits of `S_IFMT`.
    pub kind: u32,
    /// Some worker queues operations that are not direct.
    pub queued: bool,
    /// Bytes of the ring of events, a power of two; none for the usual size.
    pub ring: Option<u32>,
    /// Other programs are watched, and not this one.
    pub watch: bool,
    /// The process of the store's server; 0 for none.
    pub server: u32,
    /// Every call of the watched programs is looked at in windows.
    pub exact: bool,
    /// Of the calls of its kind only this one is looked at.
    pub only: Option<&'static str>,
}

/// Loaded and attached programs with their memory. Dropped, they are gone.
pub struct LoadedPrograms {
    /// Keeps the programs attached.
    ebpf: Mutex<Ebpf>,
    /// Loaded, and attached when they are wanted.
    ready: Mutex<Vec<&'static TraceProgram>>,
    pub slots: SharedRegion<OperationSlot>,
    /// Earlier rounds of the operation in each slot.
    pub earlier: SharedRegion<EarlierRounds>,
    /// The program [`ISSUE`].
    issue: Mutex<IssueStamps>,
    /// The programs [`DIRECT`].
    direct: Mutex<DirectPrograms>,
    /// Threads of the load.
    pub threads: SharedRegion<ThreadState>,
    /// See `layout::C_*`.
    pub counters: SharedRegion<AtomicU64>,
    /// Thread id to index.
    pub tids: Mutex<HashMap<MapData, u32, u32>>,
    /// Its descriptor.
    pub tids_fd: RawFd,
    /// Of other programs that are watched.
    pub(super) watch: Option<WatchMaps>,
    pub info: Vec<ProgramInfo>,
    /// How long it took to attach them.
    pub attached_in: Duration,
}

/// A program that comes and goes.
enum IssueStamps {
    There(Link),
    Away,
    /// The kernel refuses it.
    Missing,
}

/// Programs that go where only rings do direct I/O, and come back once when others do.
enum DirectPrograms {
    /// Those that the kernel takes; since when rings alone were seen.
    There { links: Vec<AttachedProgram>, alone: Option<Instant> },
    /// Those that went.
    Away(Vec<&'static str>),
    /// They are back, for good.
    Back,
}

/// A program that comes and goes, while it is attached: its name and its link.
pub(super) struct AttachedProgram(&'static str, Link);

/// Where events arrive.
pub type EventRing = RingBuf<MapData>;

/// Loads and attaches what the kernel allows. Errors: `Unavailable` when nothing can be loaded at
/// all.
pub fn load(
    config: &ProgramConfig,
    symbols: &KernelSymbols,
    sys: &Sys,
) -> Result<(LoadedPrograms, EventRing)> {
    let btf = types(sys)?;
    let mut ebpf = opened(config, symbols, &btf)?;
    let (mut info, mut ready, mut issue) = (Vec::new(), Vec::new(), IssueStamps::Missing);
    let mut direct = Vec::new();
    // All are loaded before the first one is attached: from then on they cost something.
    let wanted = PROGRAMS.iter().filter(|program| program.attached(config) != (false, false));
    let wanted: Vec<&'static TraceProgram> = wanted.collect();
    let prepared = prepare_all(&mut ebpf, &wanted, &btf);
    let attaching = Instant::now();
    for (program, mut done) in wanted.into_iter().zip(prepared) {
        let (now, _) = program.attached(config);
        if now {
            done = done.and_then(|()| attach(&mut ebpf, program.name)).map(|link| {
                if program.name == ISSUE {
                    issue = IssueStamps::There(link);
                } else if DIRECT.contains(&program.name) {
                    direct.push(AttachedProgram(program.name, link));
                }
            });
        } else if done.is_ok() {
            ready.push(program);
            continue;
        }
        if done.is_ok() || program.when != LoadWhen::WatchedThere {
            info.push(program.info(done));
        }
    }
    if info.iter().all(|p| p.missing.is_some()) {
        let why = info.first().and_then(|p| p.missing.clone()).unwrap_or_default();
        return Err(Error::unavailable("the kernel refuses trace programs")
            .with("why", why)
            .hint(hint(&Sys::default(), &TRACING)));
    }
    let direct = DirectPrograms::There { links: direct, alone: None };
    share(ebpf, config, ready, info, issue, direct, attaching.elapsed())
}

pub(super) fn types(sys: &Sys) -> Result<Btf> {
    Btf::parse_file(sys.path(TYPES), Endianness::default()).map_err(|e| {
        Error::unavailable("the kernel does not describe its types")
            .source(e)
            .hint("tracing needs a kernel built with CONFIG_DEBUG_INFO_BTF")
    })
}

/// The object for this kernel, which may know the function of casts and still take no call of it
/// (compilers for some processors cannot): then the programs do without.
fn opened(config: &ProgramConfig, symbols: &KernelSymbols, btf: &Btf) -> Result<Ebpf> {
    let cast = KernelCast::of(btf);
    let mut ebpf = open(config, symbols, btf, cast)?;
    let taken = |first| prepare(&mut ebpf, first, btf).is_ok();
    if cast.known() && !PROGRAMS.first().is_some_and(taken) {
        return open(config, symbols, btf, KernelCast::NONE);
    }
    Ok(ebpf)
}

/// Functions of the kernel that the programs know by their addresses.
const FUNCTIONS: [(&str, &str); 12] = [
    ("cfg_end_iomap", "iomap_dio_bio_end_io"),
    ("cfg_end_blkdev", "blkdev_bio_end_io"),
    ("cfg_end_blkdev_async", "blkdev_bio_end_io_async"),
    ("cfg_end_chain", "bio_chain_endio"),
    ("cfg_end_wait", "submit_bio_wait_endio"),
    ("cfg_end_command", "bio_cmd_bio_end_io"),
    ("cfg_uring_done", "io_complete_rw"),
    ("cfg_uring_polled", "io_complete_rw_iopoll"),
    ("cfg_loop_done", "lo_rw_aio_complete"),
    ("cfg_aio_done", "aio_complete_rw"),
    ("cfg_backing_done", "backing_aio_rw_complete"),
    ("cfg_backing_queue", "backing_aio_queue_completion"),
];

/// The object with its maps, for this kernel and run; no program of it is loaded yet.
pub(super) fn open(
    config: &ProgramConfig,
    symbols: &KernelSymbols,
    btf: &Btf,
    cast: KernelCast,
) -> Result<Ebpf> {
    let addresses = symbols.addresses(&FUNCTIONS.map(|(_, function)| function));
    let values = FUNCTIONS
        .map(|(global, function)| (global, addresses.get(function).copied().unwrap_or(UNKNOWN)));
    let pid = std::process::id();
    let mut loader = EbpfLoader::new();
    let late = u32::from(config.late);
    loader
        .btf(Some(btf))
        // What is not loaded is tried again with a log, which the kernel refuses without a level: its words would be
        // told in place of the reason.
        .verifier_log_level(VerifierLogLevel::STATS)
        .override_global("cfg_tgid", &pid, true)
        .override_global("cfg_off_ns", &config.off_ns, true)
        .override_global("cfg_late", &late, true);
    loader.override_global("cfg_server", &config.server, true);
    loader.override_global("cfg_watch", if config.watch { &1u32 } else { &0 }, true);
    for (map, most) in WatchMaps::sizes(config.watch) {
        loader.map_max_entries(map, most);
    }
    let page_bits = rustix::param::page_size().trailing_zeros();
    loader.override_global("cfg_page_bits", &page_bits, true).override_global(
        "cfg_kind",
        &config.kind,
        true,
    );
    let submit = symbols.range("io_submit_sqes").unwrap_or_default();
    loader.override_global("cfg_submit_from", &submit.start, true).override_global(
        "cfg_submit_to",
        &submit.end,
        true,
    );
    // Handlers of interrupts lie together; where is not known they are nowhere.
    let irq = ["__irqentry_text_start", "__irqentry_text_end"];
    let ends = symbols.addresses(&irq);
    let irq = irq.map(|name| ends.get(name).copied().unwrap_or_default());
    loader.override_global("cfg_irq_from", &irq[0], true).override_global(
        "cfg_irq_to",
        &irq[1],
        true,
    );
    let throttle = symbols.range("blk_throtl_dispatch_work_fn").unwrap_or_default();
    loader.override_global("cfg_throttle_from", &throttle.start, true).override_global(
        "cfg_throttle_to",
        &throttle.end,
        true,
    );
    for (global, value) in &values {
        loader.override_global(global, value, true);
    }
    for (global, disk) in DISKS.iter().zip(&config.disks) {
        loader.override_global(global, disk, true);
    }
    if let Some(bytes) = config.ring {
        loader.map_max_entries("ring", bytes);
    }
    let casts = u32::from(cast.known());
    loader.override_global("cfg_cast", &casts, true);
    loader.load(&cast.placed(object()?)).map_err(|e| {
        Error::unavailable("trace programs cannot be prepared")
            .source(e)
            .hint(hint(&Sys::default(), &TRACING))
    })
}

/// Shows a program to the kernel's verifier, once. Why not, in one line.
pub(super) fn prepare(
    ebpf: &mut Ebpf,
    program: &TraceProgram,
    btf: &Btf,
) -> std::result::Result<(), String> {
    show(known(ebpf, program.name)?, program.trace_point, btf)
}

fn show(
    known: &mut BtfTracePoint,
    trace_point: &str,
    btf: &Btf,
) -> std::result::Result<(), String> {
    if known.fd().is_ok() {
        return Ok(());
    }
    known.load(trace_point, btf).map_err(one_line)
}

/// Threads that show programs to the kernel. Few, as what is watched runs meanwhile.
const LOADERS: usize = 2;

/// A program that is shown to the kernel.
struct ShownProgram<'a> {
    trace_point: &'static str,
    /// None where the object has no such program.
    known: Option<&'a mut BtfTracePoint>,
    /// Why the kernel refuses it, if it does.
    done: std::result::Result<(), String>,
}

/// As [`prepare`], of several, which takes most of the time until tracing begins: on `LOADERS` threads, as the kernel
/// checks the programs of whoever has the rights side by side. What became of each, in their order.
fn prepare_all(
    ebpf: &mut Ebpf,
    programs: &[&'static TraceProgram],
    btf: &Btf,
) -> Vec<std::result::Result<(), String>> {
    let mut there: BTreeMap<&str, &mut Program> = ebpf.programs_mut().collect();
    let of = |program: &&'static TraceProgram| {
        let known = there.remove(program.name).ok_or_else(|| "not in the object".to_owned());
        let known = known.and_then(|p| <&mut BtfTracePoint>::try_from(p).map_err(one_line));
        let (known, done) = known.map_or_else(|why| (None, Err(why)), |p| (Some(p), Ok(())));
        ShownProgram { trace_point: program.trace_point, known, done }
    };
    let mut all: Vec<ShownProgram<'_>> = programs.iter().map(of).collect();
    let rest = Mutex::new(all.iter_mut());
    let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..LOADERS {
            scope.spawn(|| {
                while let Some(one) = next() {
                    if let Some(known) = one.known.as_deref_mut() {
                        one.done = show(known, one.trace_point, btf);
                    }
                }
            });
        }
    });
    all.into_iter().map(|one| one.done).collect()
}

fn attach(ebpf: &mut Ebpf, name: &str) -> std::result::Result<Link, String> {
    known(ebpf, name)?.attach().map_err(one_line)
}

fn known<'a>(ebpf: &'a mut Ebpf, name: &str) -> std::result::Result<&'a mut BtfTracePoint, String> {
    let known = ebpf.program_mut(name).ok_or("not in the object")?;
    known.try_into().map_err(one_line)
}

impl TraceProgram {
    /// Whether it is attached before the load begins, and whether it may be later.
    fn attached(&self, config: &ProgramConfig) -> (bool, bool) {
        let (all, queued) = (config.all, config.queued);
        if config.watch {
            return match self.when {
                LoadWhen::All => (false, false),
                LoadWhen::Exact => (false, config.exact),
                _ => (true, false),
            };
        }
        match self.when {
            LoadWhen::Watched | LoadWhen::WatchedThere | LoadWhen::Exact => (false, false),
            LoadWhen::Always => (true, false),
            LoadWhen::All => (all, false),
            LoadWhen::AllOrWanted(_) => (all, queued),
            LoadWhen::Wanted(_) => (all && queued, all || queued),
        }
    }

    fn info(&self, attached: std::result::Result<(), String>) -> ProgramInfo {
        ProgramInfo {
            trace_point: self.trace_point.to_owned(),
            sees: self.sees.to_owned(),
            missing: attached.err(),
        }
    }
}

impl LoadedPrograms {
    /// Attaches what was left for later, as soon as some I/O asks for it, and says how that went.
    pub fn attach_wanted(&self) -> Vec<ProgramInfo> {
        let (Ok(mut ebpf), Ok(mut ready)) = (self.ebpf.lock(), self.ready.lock()) else {
            return Vec::new();
        };
        let counted = |which: &usize| self.counters.get(*which).load(Relaxed) > 0;
        let wanted = |p: &mut &'static TraceProgram| match p.when {
            LoadWhen::AllOrWanted(counters) | LoadWhen::Wanted(counters) => {
                counters.iter().any(counted)
            }
            _ => false,
        };
        let programs = ready.extract_if(.., wanted);
        let attached = |p: &'static TraceProgram| p.info(attach(&mut ebpf, p.name).map(drop));
        programs.map(attached).collect()
    }

    /// Takes the program on the issue away while requests know by themselves when they were issued,
    /// and brings it back when some do not.
    pub fn settle_issue(&self) {
        let (Ok(mut ebpf), Ok(mut issue)) = (self.ebpf.lock(), self.issue.lock()) else {
            return;
        };
        let Ok(program) = known(&mut ebpf, ISSUE) else {
            return;
        };
        let state = self.counters.get(C_ISSUES).load(Relaxed);
        *issue = match (std::mem::replace(&mut *issue, IssueStamps::Missing), state) {
            // One that cannot be taken away costs a little and does no harm.
            (IssueStamps::There(link), STAMPED) => {
                let _ = program.detach(link);
                IssueStamps::Away
            }
            (IssueStamps::Away, BARE) => {
                program.attach().map_or(IssueStamps::Missing, IssueStamps::There)
            }
            (same, _) => same,
        };
    }

    /// Takes the programs on direct I/O away once rings alone have done any for as long as `length`, and brings them
    /// back when others do. Returns those that do not come back, with the reason.
    pub fn settle_direct(&self, length: Duration) -> Vec<ProgramInfo> {
        let Ok(mut direct) = self.direct.lock() else {
            return Vec::new();
        };
        let mut missing = Vec::new();
        let seen = self.counters.get(C_DIRECT);
        // Said before they go, unless others came just now.
        let leave = RINGS_SEEN | DIRECT_LEFT;
        let may_leave = || seen.compare_exchange(RINGS_SEEN, leave, Relaxed, Relaxed).is_ok();
        let state = seen.load(Relaxed);
        *direct = match (std::mem::replace(&mut *direct, DirectPrograms::Back), state) {
            (DirectPrograms::There { links, alone }, RINGS_SEEN) => {
                let since = alone.unwrap_or_else(Instant::now);
                if since.elapsed() < length || !may_leave() {
                    DirectPrograms::There { links, alone: Some(since) }
                } else {
                    let names = links.iter().map(|AttachedProgram(name, _)| *name).collect();
                    links.into_iter().for_each(|link| self.detach(link));
                    DirectPrograms::Away(names)
                }
            }
            (DirectPrograms::Away(names), state) if state & OTHERS_SEEN != 0 => {
                missing.extend(names.into_iter().filter_map(|name| self.missing_again(name)));
                // With one of them alone, no request is seen from its begin to its end.
                if missing.is_empty() {
                    seen.fetch_or(DIRECT_BACK, Relaxed);
                }
                DirectPrograms::Back
            }
            (same, _) => same,
        };
        missing
    }

    /// Attaches a program once more; says so where it cannot be.
    fn missing_again(&self, name: &'static str) -> Option<ProgramInfo> {
        let why = self.attach(name).err()?;
        Some(PROGRAMS.iter().find(|p| p.name == name)?.info(Err(why)))
    }

    /// Attaches a program that comes and goes. Why it cannot be, in one line.
    pub(super) fn attach(
        &self,
        name: &'static str,
    ) -> std::result::Result<AttachedProgram, String> {
        let mut ebpf = self.ebpf.lock().map_err(one_line)?;
        Ok(AttachedProgram(name, attach(&mut ebpf, name)?))
    }

    /// Takes it away.
    pub(super) fn detach(&self, AttachedProgram(name, link): AttachedProgram) {
        let Ok(mut ebpf) = self.ebpf.lock() else { return };
        // One that cannot be taken away costs, and does no other harm.
        if let Ok(program) = known(&mut ebpf, name) {
            let _ = program.detach(link);
        }
    }

    /// CPU time of all programs since they were loaded, as far as the kernel measured it, ns.
    pub fn spent_ns(&self) -> Option<u64> {
        self.spent_by("")
    }

    /// The same of those whose name begins so.
    pub fn spent_by(&self, prefix: &str) -> Option<u64> {
        let ebpf = self.ebpf.lock().ok()?;
        let own = ebpf.programs().filter(|(name, _)| name.starts_with(prefix));
        // Those that were not loaded have no time.
        let infos = own.filter_map(|(_, p)| p.info().ok());
        Some(infos.map(|i| i.run_time().as_nanos() as u64).sum())
    }
}

/// An error with its causes, on one line.
fn one_line(e: impl std::error::Error) -> String {
    let mut text = e.to_string();
    let mut cause = e.source();
    while let Some(e) = cause {
        text = format!("{text}: {e}");
        cause = e.source();
    }
    text.lines().next().unwrap_or_default().to_owned()
}

fn share(
    mut ebpf: Ebpf,
    config: &ProgramConfig,
    ready: Vec<&'static TraceProgram>,
    info: Vec<ProgramInfo>,
    issue: IssueStamps,
    direct: DirectPrograms,
    attached_in: Duration,
) -> Result<(LoadedPrograms, EventRing)> {
    let no = |what: &'static str| move || Error::internal("a map is missing").with("map", what);
    let unusable = |e: aya::maps::MapError| Error::internal("a map is unusable").source(e);
    let tids = ebpf.take_map("tids").ok_or_else(no("tids"))?;
    let Map::HashMap(data) = &tids else { return Err(no("tids")()) };
    let tids_fd = data.fd().as_fd().as_raw_fd();
    let ring = ebpf.take_map("ring").ok_or_else(no("ring"))?;
    let programs = LoadedPrograms {
        slots: region(&ebpf, "slots", SLOTS)?,
        earlier: region(&ebpf, "earlier", SLOTS)?,
        threads: region(&ebpf, "threads", if config.watch { WATCHED_THREADS } else { THREADS })?,
        counters: region(&ebpf, "counters", COUNTERS)?,
        tids: Mutex::new(HashMap::try_from(tids).map_err(unusable)?),
        tids_fd,
        watch: match config.watch {
            true => Some(WatchMaps::take(&mut ebpf, config.only)?),
            false => None,
        },
        ebpf: Mutex::new(ebpf),
        ready: Mutex::new(ready),
        issue: Mutex::new(issue),
        direct: Mutex::new(direct),
        info,
        attached_in,
    };
    Ok((programs, RingBuf::try_from(ring).map_err(unusable)?))
}

pub(super) fn region<T: super::sys::KernelShared>(
    ebpf: &Ebpf,
    name: &'static str,
    n: usize,
) -> Result<SharedRegion<T>> {
    let Some(Map::Array(data)) = ebpf.map(name) else {
        return Err(Error::internal("a map is missing").with("map", name));
    };
    // How many values the programs see in it is theirs to say: all counters are one.
    let bytes = data.info().map(|i| i.value_size() as usize * i.max_entries() as usize);
    if bytes.is_ok_and(|b| b != size_of::<T>() * n) {
        return Err(Error::internal("the trace programs see other memory").with("map", name));
    }
    SharedRegion::map(data.fd().as_fd(), n).map_err(|e| {
        Error::unavailable("cannot map memory shared with trace programs")
            .with("map", name)
            .source(e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often a program is attached, as the kernel says.
    fn attached(programs: &LoadedPrograms, name: &str) -> usize {
        let mut ebpf = programs.ebpf.lock().unwrap();
        let id = known(&mut ebpf, name).unwrap().info().unwrap().id();
        let links = aya::programs::loaded_links().flatten();
        links.filter(|l| l.program_id() == id).count()
    }

    #[test]
    fn the_program_on_the_issue_goes_and_comes_back_once() {
        let sys = Sys::default();
        let config = ProgramConfig { late: true, ..ProgramConfig::default() };
        let Ok((programs, _ring)) = load(&config, &KernelSymbols::read(&sys), &sys) else {
            eprintln!("skipped: no trace programs here");
            return;
        };
        let say = |state| {
            programs.counters.get(C_ISSUES).store(state, Relaxed);
            programs.settle_issue();
            attached(&programs, ISSUE)
        };
        assert_eq!(say(0), 1, "nothing is known yet");
        assert_eq!(say(STAMPED), 0, "requests know by themselves");
        assert_eq!(say(STAMPED), 0);
        assert_eq!(say(BARE), 1, "one does not");
        assert_eq!(say(BARE), 1);
        assert_eq!(say(STAMPED), 0, "the programs do not say that again; it would do no harm");
    }

    #[test]
    fn the_programs_on_direct_io_go_while_rings_alone_do_it_and_come_back_once() {
        let sys = Sys::default();
        let config = ProgramConfig { late: true, watch: true, ..ProgramConfig::default() };
        let Ok((programs, _ring)) = load(&config, &KernelSymbols::read(&sys), &sys) else {
            eprintln!("skipped: no trace programs here");
            return;
        };
        // Kernels before 6.5 have no such trace points.
        let refused = |p: &ProgramInfo| p.missing.is_some() && p.trace_point.starts_with("iomap_");
        if programs.info.iter().any(refused) {
            eprintln!("skipped: direct I/O of files cannot be seen here");
            return;
        }
        let seen = programs.counters.get(C_DIRECT);
        let say = |more, length| {
            seen.fetch_or(more, Relaxed);
            assert_eq!(programs.settle_direct(length).len(), 0, "all come back");
            (DIRECT.map(|name| attached(&programs, name)), seen.load(Relaxed) & !more)
        };
        let (now, later) = (Duration::ZERO, Duration::MAX);
        assert_eq!(say(0, now), ([1, 1], 0), "nothing is known yet");
        assert_eq!(say(RINGS_SEEN, later), ([1, 1], 0), "not for long");
        assert_eq!(say(RINGS_SEEN, now), ([0, 0], DIRECT_LEFT), "the programs know that they left");
        let all = RINGS_SEEN | DIRECT_LEFT | DIRECT_BACK;
        assert_eq!(say(OTHERS_SEEN, now), ([1, 1], all));
        seen.store(RINGS_SEEN, Relaxed);
        assert_eq!(say(0, now), ([1, 1], RINGS_SEEN), "for good");
    }

    #[test]
    fn programs_that_wait_to_be_wanted_are_attached_once() {
        let sys = Sys::default();
        let config = ProgramConfig { queued: true, ..ProgramConfig::default() };
        let Ok((programs, _ring)) = load(&config, &KernelSymbols::read(&sys), &sys) else {
            eprintln!("skipped: no trace programs here");
            return;
        };
        let points = || -> Vec<String> {
            let came = programs.attach_wanted().into_iter();
            came.inspect(|p| assert_eq!(p.missing, None)).map(|p| p.trace_point).collect()
        };
        assert!(points().is_empty());
        programs.counters.get(C_PUNTED).store(1, Relaxed);
        assert_eq!(points(), ["io_uring_complete"]);
        assert!(points().is_empty(), "only once");
        programs.counters.get(C_WANTED).store(1, Relaxed);
        assert_eq!(points(), ["io_uring_submit_req"]);
    }

    /// What leads back by itself is traced in full without the program on io_uring's completion,
    /// until a worker thread has some of it.
    #[test]
    fn completions_of_the_ring_are_seen_where_they_are_asked_for() {
        let there = |programs: &LoadedPrograms| {
            programs.info.iter().any(|p| p.trace_point == "io_uring_complete")
        };
        let sys = Sys::default();
        for queued in [false, true] {
            let config = ProgramConfig { all: true, queued, ..ProgramConfig::default() };
            let Ok((programs, _ring)) = load(&config, &KernelSymbols::read(&sys), &sys) else {
                eprintln!("skipped: no trace programs here");
                return;
            };
            assert_eq!(there(&programs), queued);
            assert!(programs.attach_wanted().is_empty());
            programs.counters.get(C_PUNTED).store(1, Relaxed);
            let came = programs.attach_wanted();
            let came: Vec<&str> = came.iter().map(|p| p.trace_point.as_str()).collect();
            let expected = ["io_uring_complete"];
            assert_eq!(came, if queued { &expected[..0] } else { &expected[..] });
        }
    }
}
