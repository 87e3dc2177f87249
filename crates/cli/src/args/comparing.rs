//! Arguments of the commands that compare runs: `compare`, `ab`, `history`.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};
use taillight_import::results::ResultUnit;

use super::LiveArgs;

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight compare taillight-runs/before taillight-runs/after
  taillight compare nightly/base nightly/new --gate read:p99.9 --margin 10%
  taillight compare taillight-runs/ab-job-20260102T030405Z --markdown

One run a side says whether these two runs differ; whether the systems do takes three or more a \
side. A job's [gate] decides where --gate is not given: that of the new side, else of the base.
Exit codes: 0 no gate, or passed; 7 gate failed; 8 gate undecided; 2 not comparable; 4 not readable.")]
pub struct CompareArgs {
    /// What is compared with: a run directory, a series of one setting, or a folder of runs; the series
    /// of `taillight ab` alone.
    pub base: PathBuf,
    /// What is judged: the same.
    pub new: Option<PathBuf>,
    /// Unit of the values in another tool's result that does not tell.
    #[arg(long, value_name = "UNIT", value_parser = super::result_unit(), hide_possible_values = true)]
    pub unit: Option<ResultUnit>,
    /// Directory for page, compare.json and compare.md [default: taillight-compare].
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    #[command(flatten)]
    pub judged: JudgeArgs,
    /// Let fewer than three runs a side decide the gate.
    #[arg(long)]
    pub single_runs_decide: bool,
    /// Print compare.json instead of words.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown, for a pull request.
    #[arg(long)]
    pub markdown: bool,
}

/// How a comparison is judged.
#[derive(Debug, Clone, Default, Args)]
pub struct JudgeArgs {
    /// A figure that decides, like read:p99.9 or write:iops: exit code 7 where it is worse (repeatable:
    /// each must pass, and they share the error of one).
    #[arg(long, value_name = "OP:FIGURE", action = ArgAction::Append)]
    pub gate: Vec<String>,
    /// The gate fails unless the figure is shown to be equal.
    #[arg(long)]
    pub not_equal: bool,
    /// Share up to which a difference counts as none [default: 5% for rates and below p99, 10% for p99,
    /// 20% beyond].
    #[arg(long, value_name = "SHARE")]
    pub margin: Option<String>,
    /// Compare what is only doubtful: other mix or rate, incomplete runs, I/O errors.
    #[arg(long)]
    pub anyway: bool,
    /// Write JUnit XML to this file, for CI.
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,
}

/// Arguments of `history`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight run job.toml --output nightly/$(date +%F)     # each night
  taillight history nightly
  taillight history nightly --figure read:p99.9 --figure read:iops

Nights are in the order in which their runs began. Where plan, device, kernel \
or Taillight changed a new segment begins, and no change is looked for across \
it. The newest night alone is at most a suspect: the commands that decide are \
printed. Six nights of one segment are the least that a change takes.
Exit codes: 0 done, whatever was found; 2 no history; 4 not readable.")]
pub struct HistoryArgs {
    /// Run directories, or folders of them.
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// Look at this figure, like read:p99.9 or write:iops (repeatable); fewer figures find smaller changes
    /// [default: rate, median and nines that most nights have].
    #[arg(long, value_name = "OP:FIGURE", action = ArgAction::Append)]
    pub figure: Vec<String>,
    /// Runs that began within this time of the first one are one night, of which the median counts; 0s
    /// takes every run as a night.
    #[arg(long, value_name = "TIME", default_value = "12h")]
    pub night: String,
    /// Count runs that are not complete or had I/O errors.
    #[arg(long)]
    pub anyway: bool,
    /// Directory for page, changes.json and changes.md [default: taillight-history].
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print changes.json instead of words.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,
}

/// By what a pair of runs is dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DropFlag {
    /// All pairs count.
    None,
    /// The hypervisor took 5 % of the CPU time during one of the runs.
    #[default]
    Stolen,
    /// That, or other programs took 20 %; not for servers on this machine.
    Busy,
}

/// Arguments of `ab`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight ab before.toml after.toml --gate read:p99
  taillight ab job.toml --pairs 10 \\
      --set-b target.options.library=/opt/new/librocksdb.so
  taillight ab job.toml --set-a target.path=/mnt/a/ --set-b target.path=/mnt/b/
  taillight ab job.toml job.toml          # A against itself: what is chance
  taillight compare DIR --markdown        # the answer of a series again
  taillight suite --resume DIR            # an interrupted one goes on

Pairs are run ABBA BAAB ..., both of a pair with one seed, so that what drifts \
meets both sides.
After each pair the answer so far is shown; with a gate the series ends once that is decided, by \
levels that together err in 5 % of cases (docs/compare.md). The directory keeps compare.json, \
compare.md and a page.
Exit codes: 0 no gate, or passed; 7 gate failed; 8 gate undecided, or no figure to compare; \
2 bad input; 6 I/O errors; 130/143 interrupted, complete pairs are kept; else as `taillight run`.")]
pub struct AbArgs {
    /// Job A, what is compared with.
    #[arg(value_name = "A.toml")]
    pub base: PathBuf,
    /// Job B, what is judged [default: that of A, with --set-a and --set-b].
    #[arg(value_name = "B.toml")]
    pub new: Option<PathBuf>,
    /// Pairs at most.
    #[arg(long, value_name = "N", default_value_t = 6)]
    pub pairs: u32,
    /// Set any field of job A, like target.options.direct=false (repeatable).
    #[arg(long, value_name = "K=V", action = ArgAction::Append)]
    pub set_a: Vec<String>,
    /// The same of job B.
    #[arg(long, value_name = "K=V", action = ArgAction::Append)]
    pub set_b: Vec<String>,
    /// The same of both; --set-a and --set-b win.
    #[arg(long = "set", value_name = "K=V", action = ArgAction::Append)]
    pub set: Vec<String>,
    #[command(flatten)]
    pub judged: JudgeArgs,
    /// By what a pair is dropped, fixed beforehand: none, stolen (the hypervisor took 5 % of the CPU time
    /// during one of the runs) or busy (that, or other programs took 20 %; not for servers on this machine).
    /// More than a fifth dropped decides nothing.
    #[arg(long, value_name = "RULE", value_enum, default_value_t = DropFlag::Stolen)]
    #[arg(hide_possible_values = true)]
    pub drop: DropFlag,
    /// Directory for the runs and the comparison, new or empty [default: taillight-runs/ab-NAME-UTC].
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Confirm by name that this target may be overwritten (needs target.destroy = true as well); each of
    /// two by its own.
    #[arg(long, value_name = "TARGET", action = ArgAction::Append)]
    pub destroy: Vec<String>,
    /// Show the plans of A and B as job files and do nothing.
    #[arg(long)]
    pub print_plan: bool,
    #[command(flatten)]
    pub live: LiveArgs,
}
