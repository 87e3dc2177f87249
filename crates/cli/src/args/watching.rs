//! Arguments of `watch`.

use std::path::PathBuf;

use clap::Args;

use super::FURTHER;

/// Arguments of `watch`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight watch --pid 4711 --for 60s --slower 10ms
  taillight watch --slower 5ms -- fio --name=a --rw=randread --size=1g
  taillight watch --unit postgresql --op fsync --ceiling 10ms@99 --for 10min

Ends with the program, after --for, or with Ctrl-C; what was seen is kept. The program is not stopped and not \
changed.
Exit codes: that of COMMAND; 7 ceiling missed, 8 ceiling undecided where it ended with 0; 2 bad input, 4 not \
possible here, 130/143 interrupted, 1 a bug.")]
pub struct WatchArgs {
    /// A program to start and to watch from its first operation on.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["pid", "unit", "cgroup"])]
    pub command: Vec<String>,
    /// Watch this process and its children (repeatable).
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Watch the processes of a systemd unit.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["pid", "cgroup"])]
    pub unit: Option<String>,
    /// Watch the processes of a control group, below /sys/fs/cgroup or by a whole path.
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    pub cgroup: Option<PathBuf>,
    /// Watch for so long, like 60s; without it, until the program ends.
    #[arg(long = "for", value_name = "TIME")]
    pub length: Option<String>,
    /// Explain operations that take as long as this [default: 10ms].
    #[arg(long, value_name = "TIME", conflicts_with = "top")]
    pub slower: Option<String>,
    /// Explain the slowest part of the operations, like 0.1%: the latency follows what was seen so far.
    #[arg(long, value_name = "SHARE")]
    pub top: Option<String>,
    /// What --ceiling is of: read, write or fsync, each with all calls of its kind (fdatasync is with fsync), or one call,
    /// like fdatasync: then no other call of its kind is looked at [default: each of the three that was seen].
    #[arg(long, value_name = "NAME", requires = "ceiling")]
    pub op: Option<String>,
    /// A latency that must hold, like 10ms@99: exit code 7 where it does not.
    #[arg(long, value_name = "TIME@P")]
    pub ceiling: Option<String>,
    /// Run directory, new or empty [default: taillight-runs/PROGRAM-UTC].
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Record every operation that is seen, not only slow ones: the run directory can be replayed (docs/replay.md). Paths are
    /// hashed.
    #[arg(long)]
    pub record: bool,
    /// Record paths as they are.
    #[arg(long, requires = "record")]
    pub names: bool,
    /// Look at every call, also those that do not block, in windows of 0.1 s that are so much of the time, like 5%: rates and
    /// percentiles are of these where not all was seen.
    #[arg(long, value_name = "SHARE")]
    pub exact: Option<String>,
    /// Most that the trace programs may take of a CPU, like 2%: what costs most is left out where they take more.
    #[arg(long, value_name = "SHARE", help_heading = FURTHER)]
    pub max_cost: Option<String>,
    /// Show what is seen as a page for browsers and /metrics for Prometheus, on loopback unless an address is given.
    #[arg(long, value_name = "ADDR:PORT", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "", help_heading = FURTHER)]
    pub live: Option<String>,
    /// Memory and disk for slow operations at most; what comes then is counted only [default: 1GiB].
    #[arg(long, value_name = "SIZE", help_heading = FURTHER)]
    pub keep: Option<String>,
}
