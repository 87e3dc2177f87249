//! What to do next about a verdict: one line for each layer, the measurement that confirms it or the
//! setting that mends it.

use taillight_core::plan::TraceMode;
use taillight_rundir::trace_info::{TraceInfo, TracingBackend};

use super::judge::Layer;

/// The line for a layer; `always` where its I/Os are no slower than usual. Where nothing was seen it depends on
/// how the run was traced.
pub fn next(layer: Layer, always: bool, info: &TraceInfo) -> &'static str {
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
        Layer::Mixed => {
            "several causes at once: look at the time lines of the slowest ones in the report"
        }
        Layer::Unknown => unseen(info),
    }
}

/// The line where nothing was seen: a run that saw less than this machine can show is run again.
fn unseen(info: &TraceInfo) -> &'static str {
    match (info.backend, info.mode) {
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
    use super::*;

    #[test]
    fn nobody_is_told_to_do_what_was_done() {
        let of = |json: &str| next(Layer::Unknown, false, &serde_json::from_str(json).unwrap());
        assert!(!of(r#"{"mode":"all","rung":"bpf"}"#).contains("run again"));
        assert!(of(r#"{"mode":"outliers","rung":"bpf"}"#).contains("trace.mode = \"all\""));
        let less = of(r#"{"mode":"all","rung":"perf"}"#);
        assert!(less.contains("doctor --trace") && !less.contains("root"), "{less}");
    }
}
