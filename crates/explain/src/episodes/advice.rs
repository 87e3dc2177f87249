//! What to do next about a verdict: about the threshold where such I/Os are always this slow; else about whoever was
//! seen in the way, by name; else one line for each layer: what confirms it, or mends it. Settings of a job are named
//! where Taillight made the load, flags of `watch` where it watched a program.

use std::collections::BTreeMap;

use taillight_core::plan::TraceMode;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::trace_info::{TraceInfo, TracingBackend};

use crate::episodes::culprits::{Culprit, QUOTA, Role};
use crate::episodes::{EpisodeContext, EpisodeView};
use crate::explanation::{Explanation, LayerShare};
use crate::verdict::judge::Layer;

/// Bytes, or requests, from which on others in the disk count: less is soon done.
const IN_FRONT: (u64, u64) = (1 << 20, 32);

/// The culprit that explains an episode of this layer best: a limit, else the most bytes, else the longest time; `None`
/// where none fits the layer, or is large enough (`IN_FRONT`).
pub fn foremost(layer: Layer, culprits: &[Culprit]) -> Option<&Culprit> {
    let kernel = |c: &Culprit| {
        ["kworker/", "ksoftirqd/", "swapper/"].iter().any(|name| c.name.starts_with(name))
    };
    // Threads that have a CPU for microseconds, and cannot be kept off it.
    let brief = |c: &Culprit| ["rcu_", "migration/"].iter().any(|name| c.name.starts_with(name));
    let fits = |c: &&Culprit| match (layer, c.role) {
        (Layer::Device | Layer::BlockQueue | Layer::PageCache, Role::Disk) => {
            c.bytes >= Some(IN_FRONT.0) || c.requests >= Some(IN_FRONT.1)
        }
        (Layer::Cpu, Role::Limit) => c.name == QUOTA,
        (Layer::Throttle, Role::Limit) => c.name != QUOTA,
        (Layer::FileSystem, Role::Woke) => !c.own && !kernel(c),
        (Layer::Cpu, Role::Cpu) => !brief(c),
        (Layer::Stopped, Role::Stop) | (Layer::JvmPause, Role::Pause) => true,
        _ => false,
    };
    let weight = |c: &&Culprit| (c.role == Role::Limit, c.bytes, c.time_ns);
    culprits.iter().filter(fits).max_by_key(weight)
}

/// What to do about pauses of a JVM.
const PAUSES: &str = "options.jvm_args: a larger heap (-Xmx, -Xms), a collector that pauses less (-XX:+UseZGC), or more \
    threads for it; -Xlog:gc* says what each pause did";

/// The line about who was in the way.
fn about(it: &Culprit, seen: &EpisodeContext) -> String {
    let who = it.who();
    let watched = seen.origin.is_watched();
    let is_program =
        it.pid.is_some_and(|pid| seen.watched.iter().any(|own| u64::from(*own) == pid));
    let (again, load) = match watched {
        true => ("watch", "the program"),
        false => ("run", "the load"),
    };
    match it.role {
        Role::Disk if it.own => format!(
            "{who} shares the disk with the load: fewer or slower background writes, or a disk of its own"
        ),
        Role::Disk if is_program => format!(
            "{who} is the program itself, with requests in front of its own: fewer or slower ones in the background, or \
             a disk of their own"
        ),
        Role::Disk => format!(
            "stop {who}, or give it less of the disk (io.weight or io.max of its control group, ionice), and \
             {again} again: only what stays then is the drive's"
        ),
        Role::Cpu if it.own => format!(
            "{who} took it: give this program more CPUs; of the tracer, a trace.threshold that fewer I/Os \
             exceed takes less"
        ),
        Role::Cpu if is_program => {
            format!("{who} is the program itself: give it more CPUs, or let it have fewer threads that run")
        }
        Role::Limit if it.name == QUOTA => format!(
            "raise cpu.max of the control group of {load} (cpu.stat there counts), or ask less of the CPU"
        ),
        Role::Limit => format!("{}: raise or lift it (io.max; blkio.throttle.* in version 1)", it.name),
        Role::Stop => format!("{who} let it go on, and most likely had stopped it: see why it does"),
        Role::Woke => format!("the wait ended with {who}: see what it holds or answers"),
        Role::Pause if ["System.gc()", "Diagnostic Command"].iter().any(|by| who.contains(by)) => {
            "somebody asked for this collection (System.gc() in the binding or its client, jcmd GC.run): \
             -XX:+DisableExplicitGC in options.jvm_args refuses the first, and the same run without it tells \
             what it costs"
                .to_owned()
        }
        Role::Pause => PAUSES.to_owned(),
        Role::Cpu | Role::Kthread => match bound_to(&it.name) {
            Some(cpu) => format!(
                "keep {load} off CPU {cpu} (taskset, cpuset): {who} works there for the kernel and on no other one; \
                 what it has to do are interrupts and I/O of that CPU"
            ),
            None => format!(
                "keep {who} off the CPUs of {load} (taskset, cpuset, a lower weight), and {again} again"
            ),
        },
    }
}

/// The CPU that a thread of the kernel cannot leave, by its name: `ksoftirqd/1`, `kworker/1:1H`. Workers of no CPU are
/// called `kworker/u8:0`.
fn bound_to(name: &str) -> Option<u32> {
    let cpu = name.strip_prefix("ksoftirqd/").or_else(|| name.strip_prefix("kworker/"))?;
    cpu.split(':').next()?.parse().ok()
}

/// Episodes of a layer in which one culprit is the foremost.
struct ForemostEpisodes<'a> {
    /// The episode with the largest excess, and the culprit in it.
    heaviest: (&'a EpisodeView, &'a Culprit),
    count: usize,
    excess_ns: u64,
}

/// The foremost culprit of the layer that most outliers are blamed on, and what to do next (about the layer, where that
/// culprit has less than half of the excess), in one or two sentences. Empty where no episode is of that layer, and
/// where the explanation tells nothing.
pub fn headline(it: &Explanation) -> Vec<String> {
    if !it.tells() {
        return Vec::new();
    }
    // Of a run that was not traced nearly all is unknown: what is known comes first.
    let named = |share: &&LayerShare| {
        it.info.backend != TracingBackend::Pauses || share.layer != Layer::Unknown
    };
    let top = it.layers.iter().find(named).or(it.layers.first());
    let Some(top) = top.map(|share| share.layer) else { return Vec::new() };
    let of_top = || it.episodes.iter().filter(|e| e.layer == top);
    let Some(heavy) = of_top().max_by_key(|e| e.excess_ns) else { return Vec::new() };
    let mut named: BTreeMap<(Role, &str), ForemostEpisodes<'_>> = BTreeMap::new();
    for episode in of_top() {
        let Some(culprit) = foremost(top, &episode.culprits) else { continue };
        let first = ForemostEpisodes { heaviest: (episode, culprit), count: 0, excess_ns: 0 };
        let same = named.entry((culprit.role, &culprit.name)).or_insert(first);
        if episode.excess_ns > same.heaviest.0.excess_ns {
            same.heaviest = (episode, culprit);
        }
        same.count += 1;
        same.excess_ns += episode.excess_ns;
    }
    let Some(most) = named.into_values().max_by_key(|same| same.excess_ns) else {
        return vec![format!("Next: {}.", heavy.next)];
    };
    let ((episode, culprit), count) = (most.heaviest, most.count);
    let all = of_top().count();
    let excess_ns: u64 = of_top().map(|e| e.excess_ns).sum();
    let said = format!("In the way: {}, foremost in {count} of {all} such episodes", culprit.did());
    if most.excess_ns * 2 < excess_ns {
        let next = of_layer(top, false, &it.info, &it.origin);
        return vec![
            format!(
                "{said}. These have less than half of the excess: nobody was seen in the way of most of it."
            ),
            format!("Next: {next}."),
        ];
    }
    vec![format!("{said}."), format!("Next: {}.", episode.next)]
}

/// What to do next about an episode of a layer; `always`: such I/Os usually take longer than the threshold, which goes
/// before culprits. Where nothing was seen it depends on how the run was traced.
pub fn next(layer: Layer, always: bool, seen: &EpisodeContext, culprits: &[Culprit]) -> String {
    match foremost(layer, culprits).filter(|_| !always) {
        Some(one) => about(one, seen),
        None => of_layer(layer, always, seen.info, seen.origin).to_owned(),
    }
}

fn of_layer(layer: Layer, always: bool, info: &TraceInfo, origin: &RunOrigin) -> &'static str {
    let watched = if origin.is_watched() { of_watched(layer, always) } else { None };
    watched.unwrap_or_else(|| of_load(layer, always, info))
}

/// The line about a program that was watched, where it is another one than about a load that Taillight makes.
fn of_watched(layer: Layer, always: bool) -> Option<&'static str> {
    if always {
        return Some(
            "the threshold is below what this storage usually takes: watch again with a longer --slower, or with --top \
             0.1%; fewer requests of the program at a time, smaller ones or other storage take less",
        );
    }
    Some(match layer {
        Layer::Schedule => {
            "the program has more to do than the storage takes: give it less at a time, or let it do more at once"
        }
        Layer::FileSystem => {
            "the journal, a lock, a freeze or a file server: for a journal look at its size and device and at who syncs \
             beside it"
        }
        Layer::PageCache => {
            "vm.dirty_bytes and vm.dirty_background_bytes, memory.high of its control group, and who else writes the file; \
             direct I/O, where the program has a setting for it, leaves the page cache out"
        }
        Layer::Device => {
            "read the drive's own log (NVMe: `taillight drive`, OCP latency monitor), and watch again while nothing else \
             uses the disk: the time is spent below the driver"
        }
        Layer::Completion => {
            "see which CPU takes the interrupt (/proc/interrupts, rq_affinity of the queue)"
        }
        Layer::IoUring => {
            "more worker threads (the program sets how many: IORING_REGISTER_IOWQ_MAX_WORKERS), or I/O that needs none: \
             direct, to blocks that are allocated, without a sync after each write"
        }
        Layer::Server => {
            "look at the server: its CPU, its own slow log, and `ss -ti` for retransmissions; the program on the server's \
             host leaves out the network"
        }
        Layer::Store => {
            "the store holds its writers back: its own statistics of this time, write buffers, background threads, \
             compaction"
        }
        Layer::JvmPause => {
            "a larger heap of the JVM (-Xmx, -Xms), a collector that pauses less (-XX:+UseZGC), or more threads for it; \
             -Xlog:gc* says what each pause did"
        }
        Layer::Unknown => {
            "everything that can be seen from outside was looked at: the evidence says what was not seen"
        }
        _ => return None,
    })
}

fn of_load(layer: Layer, always: bool, info: &TraceInfo) -> &'static str {
    if always {
        return "the ceiling is below what this storage usually takes: raise it, or try a smaller queue \
                depth, a smaller block size or other storage";
    }
    match layer {
        Layer::Schedule => {
            "the load is more than the storage takes: lower arrival.rate or raise queue_depth; \
             a [search] in the job finds the rate it holds"
        }
        Layer::Application => {
            "see what the program does there: `perf record -g -t TID`; %steal and %soft in the samples \
             around it tell a CPU that was taken away from below"
        }
        Layer::Stopped => {
            "find who stops it: a debugger, a job control shell, `cgroup.freeze` or freezer.state of its \
             control group; `perf trace -e signal:*` names the sender"
        }
        Layer::Cpu => {
            "give the threads a CPU of their own (cpuset, isolcpus, `taskset` for who had it), and look \
             at cpu.max and cpu.stat of its control group; what the hypervisor took, only the host can give"
        }
        Layer::FileSystem => {
            "the journal, a lock, a freeze or a file server: the same load on the raw device tells; for a \
             journal look at its size and device and at who syncs beside it"
        }
        Layer::PageCache => {
            "use direct I/O to see the storage alone; else vm.dirty_bytes and vm.dirty_background_bytes, \
             memory.high of its control group, and who else writes the file"
        }
        Layer::Throttle => {
            "a limit did this: io.max, io.latency and io.cost of its control group \
             (blkio.throttle.* in version 1), wbt_lat_usec of the queue"
        }
        Layer::BlockQueue => {
            "more is in flight than the queue takes: nr_requests and scheduler below \
             /sys/block/DISK/queue, and the load of those ahead"
        }
        Layer::Device => {
            "read the drive's own log (NVMe: `taillight drive`, OCP latency monitor) and run the same load \
             alone, and as `fio`: the time is spent below the driver"
        }
        Layer::Completion => {
            "see which CPU takes the interrupt (/proc/interrupts, rq_affinity of the queue), and run with \
             trace.mode = \"all\""
        }
        Layer::IoUring => {
            "more worker threads (target.options.io_workers), or I/O that needs none: direct, to \
             blocks that are allocated, without a sync after each write"
        }
        Layer::Server => {
            "look at the server: its CPU, its own slow log, and `ss -ti` for retransmissions; the same \
             load on its host leaves out the network"
        }
        Layer::Store => {
            "the store holds its writers back: its own counters beside this time (report, store), write \
             buffers, background threads, compaction"
        }
        Layer::JvmPause => PAUSES,
        Layer::Mixed => {
            "several causes at once: look at the time lines of the slowest ones in the report"
        }
        Layer::Unknown => unseen(info),
    }
}

/// The line where nothing was seen, by how the run was traced.
fn unseen(info: &TraceInfo) -> &'static str {
    match (info.backend, info.mode) {
        (TracingBackend::Pauses, _) => {
            "run again with --trace: without it only pauses of the JVM are seen"
        }
        (TracingBackend::TracePoints, TraceMode::All) => {
            "everything that can be seen here was traced: the evidence says what was not seen"
        }
        (TracingBackend::TracePoints, _) => {
            "run again with trace.mode = \"all\"; what stays unknown says why in the evidence"
        }
        _ => {
            "run again with trace points, which see every layer: `taillight doctor --trace` says what \
             they lack here"
        }
    }
}

#[cfg(test)]
mod tests {
    use taillight_rundir::fixture::foreign_word;

    use super::*;
    use crate::episodes::host_signs::HostSigns;
    use crate::events::Events;

    fn culprit(role: Role, name: &str, own: bool) -> Culprit {
        Culprit {
            role,
            name: name.to_owned(),
            tid: Some(812),
            pid: Some(812),
            own,
            command: None,
            cgroup: Some("/system.slice/backup.service".to_owned()),
            requests: Some(3),
            bytes: Some(80 << 20),
            time_ns: None,
        }
    }

    fn neighbour(bytes: u64, own: bool) -> Culprit {
        let name = if own { "trace" } else { "backup" };
        Culprit { bytes: Some(bytes), ..culprit(Role::Disk, name, own) }
    }

    /// What is said of a layer of a run of this origin, traced so.
    fn said(
        (layer, always): (Layer, bool),
        (info, origin, watched): (&TraceInfo, &RunOrigin, &[u32]),
        culprits: &[Culprit],
    ) -> String {
        let (events, around) = (&Events::default(), &HostSigns::default());
        next(layer, always, &EpisodeContext { events, info, origin, watched, around }, culprits)
    }

    const NOBODY: &[u32] = &[];

    fn traced(json: &str) -> TraceInfo {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_neighbour_with_much_in_front_is_told_by_name() {
        let info = traced(r#"{"mode":"all","rung":"bpf"}"#);
        let run = (&info, &RunOrigin::Measured, NOBODY);
        let of = |layer, bytes| said((layer, false), run, &[neighbour(bytes, false)]);
        let much = of(Layer::Device, 80 << 20);
        assert!(much.starts_with("stop backup (pid 812, unit backup.service)"));
        assert!(of(Layer::Device, 4096).contains("drive's own log"), "soon done");
        assert!(of(Layer::Stopped, 80 << 20).contains("who stops it"), "another matter");
        let did = neighbour(80 << 20, false).did();
        assert!(
            did.ends_with("had 3 requests of 80.0 MiB in the disk before the slowest was done"),
            "{did}"
        );
        assert!(neighbour(80 << 20, true).who().starts_with("Taillight's own tracer (pid 812"));
    }

    #[test]
    fn a_thread_that_cannot_leave_its_cpu_is_not_to_be_kept_off_it() {
        let bound =
            ["ksoftirqd/1", "kworker/1:1H", "kworker/13:0-events", "kworker/u8:0", "worker-0"];
        assert_eq!(bound.map(bound_to), [Some(1), Some(1), Some(13), None, None]);
    }

    #[test]
    fn nobody_is_told_to_do_what_was_done() {
        let of = |json: &str| {
            let run = (&traced(json), &RunOrigin::Measured, NOBODY);
            said((Layer::Unknown, false), run, &[])
        };
        assert!(!of(r#"{"mode":"all","rung":"bpf"}"#).contains("run again"));
        assert!(of(r#"{"mode":"outliers","rung":"bpf"}"#).contains("trace.mode = \"all\""));
        let less = of(r#"{"mode":"all","rung":"perf"}"#);
        assert!(less.contains("doctor --trace") && !less.contains("root"), "{less}");
    }

    /// Nobody stops the program to have the program's disk for itself.
    #[test]
    fn a_watched_program_is_not_told_to_keep_away_from_itself() {
        let (info, origin) =
            (traced(r#"{"mode":"outliers","rung":"bpf"}"#), RunOrigin::watched("db"));
        let of = |layer, role, watched: &[u32]| {
            said((layer, false), (&info, &origin, watched), &[culprit(role, "db", false)])
        };
        assert!(of(Layer::Cpu, Role::Cpu, &[7, 812]).contains("give it more CPUs"));
        assert!(of(Layer::Cpu, Role::Cpu, &[7]).contains("off the CPUs of the program"));
        assert!(of(Layer::Device, Role::Disk, &[812]).contains("is the program itself"));
        assert!(of(Layer::Device, Role::Disk, &[]).starts_with("stop db (pid 812"));
    }

    /// Every line that can be told of a run of each origin that has a trace.
    #[test]
    fn advice_names_no_setting_that_a_run_of_another_origin_has() {
        let roles = [
            (Role::Disk, "backup"),
            (Role::Cpu, "cc1"),
            (Role::Cpu, "ksoftirqd/1"),
            (Role::Kthread, "kworker/u8:0"),
            (Role::Stop, "gdb"),
            (Role::Woke, "backup"),
            (Role::Limit, QUOTA),
            (Role::Limit, "I/O limit"),
            (Role::Pause, "Pause Full (System.gc())"),
            (Role::Pause, "Pause Young"),
        ];
        let measured = [RunOrigin::Measured, RunOrigin::Merged { ranks: 2 }];
        let ways = ["bpf", "perf", "pauses"].into_iter();
        let ways = ways.flat_map(|rung| ["all", "outliers"].map(|mode| (rung, mode)));
        for (rung, mode) in ways {
            let info = traced(&format!(r#"{{"mode":"{mode}","rung":"{rung}"}}"#));
            // A watch has one way to see, and no pauses or threads of Taillight's own in it.
            let watched = (rung, mode) == ("bpf", "outliers");
            let origins = measured.iter().cloned();
            for origin in origins.chain(watched.then(|| RunOrigin::watched("db"))) {
                let mut all = Vec::new();
                for (layer, always) in Layer::ALL.iter().flat_map(|l| [(*l, false), (*l, true)]) {
                    all.push(said((layer, always), (&info, &origin, NOBODY), &[]));
                    let there = |role: Role| !origin.is_watched() || role != Role::Pause;
                    let told = roles.iter().filter(|(role, _)| there(*role));
                    for ((role, name), pids) in told.flat_map(|r| [(r, [0]), (r, [812])]) {
                        let own = !origin.is_watched() && pids == [812];
                        let by = [culprit(*role, name, own)];
                        all.push(said((layer, always), (&info, &origin, &pids), &by));
                    }
                }
                for text in all {
                    assert_eq!(foreign_word(&origin, &text), None, "{origin:?}: {text}");
                }
            }
        }
    }
}
