//! Every metric of `host.parquet`: name, unit, meaning.

/// One metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// Where it is from.
    pub source: &'static str,
    /// Name; that of iostat -x for disks.
    pub name: &'static str,
    pub unit: &'static str,
    pub about: &'static str,
    /// The state at the end of the window, not something that happened in it.
    pub state: bool,
}

/// The metric with this name from this source.
pub fn metric(source: &str, name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|m| m.source == source && m.name == name)
}

macro_rules! metrics {
    ($($source:literal { $($name:literal $unit:literal $($state:ident)? : $about:literal;)* })*) => {
        /// Every metric, by source.
        pub const METRICS: &[Metric] = &[$($(Metric {
            source: $source,
            name: $name,
            unit: $unit,
            about: $about,
            state: metrics!(@ $($state)?),
        },)*)*];
    };
    (@ state) => { true };
    (@) => { false };
}

metrics! {
    "disk" {
        "r/s" "1/s": "Read requests completed.";
        "rkB/s" "KiB/s": "Read from the device.";
        "rrqm/s" "1/s": "Read requests merged in the queue.";
        "%rrqm" "%": "Share of read requests merged.";
        "r_await" "ms": "Mean time of a read, queue included; no row without reads.";
        "rareq-sz" "KiB": "Mean size of a read.";
        "w/s" "1/s": "Write requests completed.";
        "wkB/s" "KiB/s": "Written to the device.";
        "wrqm/s" "1/s": "Write requests merged in the queue.";
        "%wrqm" "%": "Share of write requests merged.";
        "w_await" "ms": "Mean time of a write, queue included; no row without writes.";
        "wareq-sz" "KiB": "Mean size of a write.";
        "d/s" "1/s": "Discards completed.";
        "dkB/s" "KiB/s": "Discarded.";
        "drqm/s" "1/s": "Discards merged in the queue.";
        "%drqm" "%": "Share of discards merged.";
        "d_await" "ms": "Mean time of a discard; no row without discards.";
        "dareq-sz" "KiB": "Mean size of a discard.";
        "f/s" "1/s": "Flushes completed.";
        "f_await" "ms": "Mean time of a flush; no row without flushes.";
        "aqu-sz" "requests": "Mean number of requests in the queue and the device.";
        "%util" "%": "Share of time with a request in flight. A device that works on several at once is not saturated at 100 %.";
    }
    "cpu" {
        "%user" "%": "CPU time in programs, nice ones included, of all CPUs.";
        "%system" "%": "CPU time in the kernel, interrupts excluded.";
        "%iowait" "%": "Idle while some task of that CPU waited for I/O.";
        "%irq" "%": "CPU time in hard interrupts.";
        "%soft" "%": "CPU time in soft interrupts.";
        "%steal" "%": "Time the hypervisor gave to other machines.";
        "%idle" "%": "Idle.";
        "%busiest" "%": "Busy time of the busiest CPU: one full CPU hides in a mean over many.";
        "intr/s" "1/s": "Interrupts serviced, all kinds.";
        "cswch/s" "1/s": "Context switches.";
        "blocked" "tasks" state: "Tasks waiting for I/O.";
    }
    "tasks" {
        "run" "ms/s": "CPU time of the benchmark's threads.";
        "wait" "ms/s": "Time they could have run and waited for a CPU (schedstat).";
        "blkio" "ms/s": "Time they waited for block I/O (delay accounting, in steps of a clock tick).";
        "threads" "threads" state: "Threads of the benchmark.";
    }
    "psi" {
        "cpu_some" "%": "Share of time in which some task waited for a CPU.";
        "cpu_full" "%": "Share of time in which all non-idle tasks waited for a CPU.";
        "io_some" "%": "Share of time in which some task waited for I/O.";
        "io_full" "%": "Share of time in which all non-idle tasks waited for I/O.";
        "memory_some" "%": "Share of time in which some task waited for memory.";
        "memory_full" "%": "Share of time in which all non-idle tasks waited for memory.";
    }
    "memory" {
        "dirty" "bytes" state: "Pages to be written.";
        "writeback" "bytes" state: "Pages being written.";
        "pgscan_direct/s" "1/s": "Pages scanned by tasks that had to make room themselves.";
        "pgscan_kswapd/s" "1/s": "Pages scanned by the kernel's reclaim threads.";
        "allocstall/s" "1/s": "Times a task had to make room itself.";
        "pgmajfault/s" "1/s": "Page faults that read from storage.";
    }
    "cgroup_cpu" {
        "throttled" "ms/s": "Time the group had no CPU quota left.";
        "nr_throttled/s" "1/s": "Periods in which the quota ran out.";
    }
    "cgroup_io" {
        "r/s" "1/s": "Reads the group was let through.";
        "rkB/s" "KiB/s": "Bytes read.";
        "w/s" "1/s": "Writes the group was let through.";
        "wkB/s" "KiB/s": "Bytes written.";
    }
    "temperature" {
        "temp" "C" state: "Temperature, at most every 10 s: reading it is a command to some devices.";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_in_their_source() {
        for (i, one) in METRICS.iter().enumerate() {
            let again =
                METRICS[i + 1..].iter().any(|m| (m.source, m.name) == (one.source, one.name));
            assert!(!again, "{} {}", one.source, one.name);
        }
        assert_eq!(metric("disk", "%util").map(|m| m.unit), Some("%"));
        assert!(metric("cpu", "%util").is_none());
    }
}
