//! Arguments of `run` and `search`, which has those of `run`, some with another meaning and three hidden, and two more.

use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Args, ValueEnum};

use super::{FURTHER, LiveArgs};

/// `--json`: what a program that reads standard output is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum JsonForm {
    /// Everything.
    Full,
    /// Verdict, rates, percentiles, ceilings, paths.
    Short,
    /// As fio writes it.
    Fio,
}

/// `--rw`: operation and order in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Rw {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Sequential, half reads and half writes.
    #[value(name = "rw")]
    Mixed,
    /// Random reads.
    Randread,
    /// Random writes.
    Randwrite,
    /// Random, half reads and half writes.
    Randrw,
    /// Sequential discards.
    Trim,
}

/// `--arrival`: how a rate is spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ArrivalFlag {
    /// Evenly spaced.
    Constant,
    /// Random gaps, as independent users make them.
    Poisson,
}

/// Arguments of `run`.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "Examples:
  taillight run --driver file --path data/ --size 1GiB --rw randread \\
      --bs 4KiB --depth 32 --workers 2 --runtime 30s
  taillight run --driver null --ops 1000000
  taillight run job.toml --rate 5000/s --ceiling 20ms@99.9
  taillight run job.toml --sweep workload.0.queue_depth=1,4,16 \\
      --sweep workload.0.block_size=4KiB,64KiB
  taillight run job.toml --print-plan > plan.toml
  taillight run job.toml --live=127.0.0.1:9713
  taillight run --path data/file --replay web_0.csv
  taillight run job.fio
  taillight run -- fio --name=a --rw=randread --size=1g

Sizes: B KiB MiB GiB TiB PiB kB MB GB TB PB. Times: ns us ms s min h.
Exit codes: 0 complete, 2 bad input, 3 refused by the guard, 4 not possible here, 5 target failed, \
6 I/O errors, 7 ceiling missed, 8 ceiling undecided, 130/143 interrupted, 1 a bug.")]
pub struct RunArgs {
    /// Job file; `-` reads it from standard input. Flags override its fields.
    #[arg(value_name = "JOB.toml")]
    pub job: Option<PathBuf>,
    /// A command line of fio, to be run here: `taillight run -- fio --name=a --rw=randread --size=1g`.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "job")]
    pub command: Vec<String>,
    /// Driver (`taillight drivers` lists them) [default: file, redis, postgres, kafka or s3, by --path].
    #[arg(long, value_name = "NAME")]
    pub driver: Option<String>,
    /// File, device, or directory (with `/` at the end). A path that is absent becomes a new file.
    /// HOST:PORT is a Redis server, http://HOST:PORT/BUCKET an object store.
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Total size of the data set, like 1GiB.
    #[arg(long, value_name = "SIZE")]
    pub size: Option<String>,
    /// Operation and order.
    #[arg(long, value_name = "KIND", value_enum, hide_possible_values = true)]
    #[arg(help = "read, write, rw, randread, randwrite, randrw or trim")]
    pub rw: Option<Rw>,
    /// Block size, like 4KiB.
    #[arg(long, value_name = "SIZE")]
    pub bs: Option<String>,
    /// Operations in flight per worker.
    #[arg(long, value_name = "N")]
    pub depth: Option<u32>,
    /// Threads.
    #[arg(long, value_name = "N")]
    pub workers: Option<u32>,
    /// Measured time, like 30s.
    #[arg(long, value_name = "TIME")]
    pub runtime: Option<String>,
    /// Stop after this many operations.
    #[arg(long, value_name = "N")]
    pub ops: Option<u64>,
    /// Rate asked for, like 1000/s or 100MiB/s; without it, full speed.
    #[arg(long, value_name = "RATE")]
    pub rate: Option<String>,
    /// How the rate is spread.
    #[arg(help_heading = FURTHER)]
    #[arg(long, value_name = "KIND", value_enum, hide_possible_values = true)]
    #[arg(
        help = "How the rate is spread: constant or poisson; a job file knows bursts, steps, ramp and replay, too"
    )]
    pub arrival: Option<ArrivalFlag>,
    /// Replay a recorded trace: fio iolog, blktrace, MSR, Alibaba, Tencent, or a run directory (docs/replay.md).
    #[arg(long, value_name = "FILE", help_heading = FURTHER)]
    pub replay: Option<String>,
    /// Bypass the page cache; `--direct=false` goes through it.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true,
          value_parser = BoolishValueParser::new())]
    pub direct: Option<bool>,
    /// Durability of writes: none, fdatasync, fsync (:N for every N-th write), dsync or sync.
    #[arg(long, value_name = "KIND")]
    pub sync: Option<String>,
    /// Run directory, new or empty [default: taillight-runs/NAME-UTC].
    #[arg(long, value_name = "DIR")]
    pub output: Option<String>,
    /// Set any field of the job, like workload.0.mix=write (repeatable).
    #[arg(long = "set", value_name = "K=V", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Run the job once for each value of a field, and for each combination of several fields
    /// (repeatable).
    #[arg(long = "sweep", value_name = "K=V,V", action = ArgAction::Append, help_heading = FURTHER)]
    pub sweep: Vec<String>,
    /// Confirm by name that this target may be overwritten (needs destroy = true as well); each of
    /// several by its own.
    #[arg(long, value_name = "TARGET", action = ArgAction::Append, help_heading = FURTHER)]
    pub destroy: Vec<String>,
    /// Time at the load before measuring, like 5s.
    #[arg(long, value_name = "TIME")]
    pub warmup: Option<String>,
    /// A response time that must hold, like 20ms@99.9: exit code 7 where it does not (repeatable).
    #[arg(long, value_name = "TIME@P", action = ArgAction::Append)]
    pub ceiling: Vec<String>,
    /// Why slow I/Os are slow: outliers (with no word), all or off.
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "outliers", value_parser = ["outliers", "all", "off"])]
    #[arg(hide_possible_values = true)]
    pub trace: Option<String>,
    /// Keep the data for the next run.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true", hide_possible_values = true,
          value_parser = BoolishValueParser::new())]
    pub keep: Option<bool>,
    /// Show the resolved plan as a job file and do nothing.
    #[arg(long, help_heading = FURTHER)]
    pub print_plan: bool,
    /// The summary as JSON on standard output, a list of those of several jobs, or report.json of a series;
    /// words go to standard error. `--json=short`: verdict, rates, percentiles, ceilings and paths alone;
    /// `--json=fio`, or fio's `--output-format=json`: as fio writes it.
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, help_heading = FURTHER)]
    #[arg(default_missing_value = "full", value_enum, hide_possible_values = true)]
    #[arg(conflicts_with = "print_plan")]
    pub json: Option<JsonForm>,
    /// What `taillight search` looks for; it sets this, and no flag of `run` does.
    #[arg(skip)]
    pub searched: Option<SearchFlags>,
    #[command(flatten)]
    pub live: LiveArgs,
}

impl RunArgs {
    /// `--arrival` as a job file has it.
    pub fn arrival_name(&self) -> Option<&'static str> {
        self.arrival.map(|kind| match kind {
            ArrivalFlag::Poisson => "poisson",
            ArrivalFlag::Constant => "constant",
        })
    }
}

/// What a search looks for, as the command line has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SearchFlags {
    pub rate: Option<String>,
    pub queue_depth: Option<String>,
    pub precision: Option<String>,
}

/// Arguments of `search`: those of `run`, of which some say what is searched.
#[derive(Debug, Clone, Default, Args)]
#[command(after_help = "Examples:
  taillight search --path data/ --size 1GiB --rw randread --depth 64 \\
      --ceiling 2ms@99.9 --rate 100/s..100000/s
  taillight search job.toml --ceiling 20ms@99 --queue-depth 1..128
  taillight search job.toml            # its [search] says it all

Each probe is a run of its own; the answer was measured twice. --runtime is the time of each probe \
at first, and an undecided one is measured for longer (docs/search.md).
Exit codes: 0 an answer, 7 even the lowest demand fails, 8 undecided; else as `taillight run`.")]
#[command(mut_arg("rate", |a| a.value_name("A..B").help("Rates to search between, like 100/s..100000/s")))]
#[command(mut_arg("runtime", |a| a.help("Measured time of each probe, like 30s [default: 10s]")))]
#[command(mut_arg("ceiling", |a| a.help("What the response time must keep, like 2ms@99.9")))]
#[command(mut_arg("output", |a| a.help("Directory of the series, new or empty [default: taillight-runs/NAME-UTC]")))]
#[command(mut_arg("json", |a| a.help("report.json of the search on standard output; words go to standard error. \
     `--json=short`: answer, rates, percentiles and paths alone")))]
#[command(mut_arg("ops", |a| a.hide(true)))]
#[command(mut_arg("sweep", |a| a.hide(true)))]
#[command(mut_arg("replay", |a| a.hide(true)))]
pub struct SearchArgs {
    #[command(flatten)]
    pub run: RunArgs,
    /// Queue depths to search between, like 1..128; a closed loop.
    #[arg(long, value_name = "A..B")]
    pub queue_depth: Option<String>,
    /// The answer is known to this share of itself [default: 0.05].
    #[arg(long, value_name = "SHARE", help_heading = FURTHER)]
    pub precision: Option<String>,
}
