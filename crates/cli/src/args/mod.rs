//! The definition of the command line: the program, its commands, and the arguments of those that have no file of their
//! own here. Doc comments of arguments are the help that is printed. Flags are for the common case.

mod comparing;
mod general;
mod groups;
mod habits;
#[cfg(test)]
mod quoted;
mod running;
mod switches;
mod viewing;
mod watching;
mod words;

use std::path::{Path, PathBuf};

use clap::builder::TypedValueParser as _;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use taillight_import::results::ResultUnit;

use crate::output;

pub use comparing::{AbArgs, CompareArgs, DropFlag, HistoryArgs, JudgeArgs};
pub use general::{CompletionsArgs, HelpArgs, ManArgs, SelftestArgs, TraceArgs, VerbosityArgs};
pub use habits::understood;
pub use running::{JsonForm, RunArgs, Rw, SearchArgs, SearchFlags};
pub use switches::joined;
pub use viewing::LiveArgs;
pub use watching::WatchArgs;
pub use words::check;

/// Storage benchmark: every I/O measured, truthful tails.
#[derive(Debug, Parser)]
#[command(name = "taillight", max_term_width = 80, disable_help_subcommand = true)]
#[command(disable_version_flag = true, arg_required_else_help = true)]
#[command(disable_help_flag = true, help_template = groups::template())]
#[command(after_help = "Examples:
  taillight run --driver file --path data/ --size 1GiB --rw randread \\
      --depth 32 --runtime 30s
  taillight run jobs/file-mixed.toml --set workload.0.queue_depth=8
  taillight doctor --path data/

`taillight help COMMAND` says what a command takes.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Print the version; with -v also the commit, the features and the libraries found.
    #[arg(short = 'V', long)]
    pub version: bool,
    #[command(flatten)]
    pub verbosity: VerbosityArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a job and leave a run directory with a report.
    Run(Box<RunArgs>),
    /// The highest rate or queue depth that keeps a ceiling.
    Search(Box<SearchArgs>),
    /// Why the tail of a run is slow: outliers by layer, with evidence.
    Explain(ExplainArgs),
    /// Make the report of one run again, or one report over several runs.
    Report(ReportArgs),
    /// Whether two runs, or two sides of several runs, differ, and by how much.
    Compare(CompareArgs),
    /// Run two jobs in turns until it is known whether they differ.
    Ab(Box<AbArgs>),
    /// When figures changed over nights of runs, and whether the newest night stands out.
    History(HistoryArgs),
    /// What can be driven, and with which options.
    Drivers(DriversArgs),
    /// Why a running program's tail is slow: its slow operations by layer, while it runs.
    Watch(Box<WatchArgs>),
    /// Describe a recorded trace of I/Os, without replaying it.
    Trace(TraceArgs),
    /// What this machine allows, and what to do about the rest.
    Doctor(DoctorArgs),
    /// What an NVMe drive says of itself: health, errors, latency monitor.
    Drive(DriveArgs),
    /// JSON Schema of job files and outputs.
    Schema(SchemaArgs),
    /// Make a job of another benchmark's job file, a run of its result.
    Import(ImportArgs),
    /// Write a run in the formats of other tools, a job as another benchmark's job file.
    Export(ExportArgs),
    /// Run a method made of many runs: one report over all of them.
    Suite(Box<SuiteArgs>),
    /// Whether this build gives back known truths, and what this machine's clock costs.
    Selftest(SelftestArgs),
    /// Completions of a shell.
    Completions(CompletionsArgs),
    /// Manual pages.
    Man(ManArgs),
    /// The help of a command.
    Help(HelpArgs),
}

/// Heading of the flags that are not for every day.
pub const FURTHER: &str = "Further options";

/// Arguments of `explain`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight run job.toml --trace
  taillight explain taillight-runs/job-20260102T030405Z

The run must have been traced. Pictures of the episodes are in its report.html.")]
pub struct ExplainArgs {
    /// Run directory.
    #[arg(value_name = "RUN")]
    pub run: PathBuf,
    /// As JSON, for programs: every outlier with its layer.
    #[arg(long)]
    pub json: bool,
    /// Leave a rule out, to see what it is for; `each`: as JSON, what changes without each of them.
    #[arg(long, value_name = "RULE", hide = true)]
    pub without: Option<String>,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight report taillight-runs/job-20260102T030405Z
  taillight report runs/a runs/b --output both.html")]
pub struct ReportArgs {
    /// Run directories, or those of series; several are overlaid in one report.
    #[arg(required = true, value_name = "RUN")]
    pub runs: Vec<PathBuf>,
    /// Unit of the values in another tool's result that does not tell.
    #[arg(long, value_name = "UNIT", value_parser = result_unit(), hide_possible_values = true)]
    pub unit: Option<ResultUnit>,
    /// Directory for the report, or an .html file for the page alone [default: the directory given;
    /// taillight-report/ for several].
    #[arg(long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// The summary as JSON on standard output: that of the run, a list of several or of the jobs of one file,
    /// or report.json of a series. `--json=short`: verdict, rates, percentiles, ceilings and paths alone.
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "full", value_enum, hide_possible_values = true)]
    pub json: Option<JsonForm>,
}

/// Arguments of `drivers`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight drivers
  taillight drivers file
  taillight drivers --check ./mine.so
  taillight drivers --check \"python3 store.py\"")]
pub struct DriversArgs {
    /// Show this driver with all its options.
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// As Markdown, for documentation.
    #[arg(long)]
    pub markdown: bool,
    /// As JSON, for programs: a list of drivers.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Check whether a plug-in, a file *.so or the command of a program, keeps the contract, rule by rule; exit
    /// code 7 where it does not.
    #[arg(long, value_name = "PLUGIN", conflicts_with_all = ["name", "markdown", "json"])]
    pub check: Option<String>,
    /// With --check: `target.path` for the plug-in. Default: a file in a new directory.
    #[arg(long, value_name = "PATH", requires = "check")]
    pub path: Option<String>,
    /// With --check: an option of the plug-in, as often as needed.
    #[arg(long = "option", value_name = "NAME=VALUE", requires = "check")]
    pub options: Vec<String>,
    /// The check itself, in this very process: a crash ends it.
    #[arg(long, hide = true, requires = "check")]
    pub in_process: bool,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight doctor
  taillight doctor --path /mnt/data/ --json
  taillight doctor --trace --path /dev/nvme0n1")]
pub struct DoctorArgs {
    /// Path that is going to be measured.
    #[arg(long, value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Only what tracing needs, in detail: each trace program is tried for a moment.
    #[arg(long)]
    pub trace: bool,
    /// As JSON, for programs.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `drive`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight drive /dev/nvme0

A run reads these logs by itself, before and after. nvme-cli sets the thresholds of the latency \
monitor (`nvme ocp set-latency-monitor-feature`).")]
pub struct DriveArgs {
    /// Controller or disk, like /dev/nvme0.
    #[arg(value_name = "DEVICE")]
    pub device: PathBuf,
    /// As JSON, for programs (`taillight schema nvme`).
    #[arg(long)]
    pub json: bool,
}

/// What a schema describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SchemaOf {
    /// Job files.
    Job,
    /// manifest.json of a run directory.
    Manifest,
    /// summary.json of a run directory.
    Summary,
    /// imported.json: what another tool said.
    Imported,
    /// scale.json: the ranks of a run over several hosts.
    Scale,
    /// watched.json: how another program was watched.
    Watched,
    /// search.json of a search.
    Search,
    /// repeat.json of repetitions.
    Repeat,
    /// Rows of host.parquet: every metric with its unit.
    Host,
    /// nvme.json of a run directory.
    Nvme,
    /// A row of store.parquet of a run directory.
    Store,
    /// slc-paper.json of the suite slc-paper.
    SlcPaper,
    /// series.json of a series of runs.
    Series,
    /// report.json of a series of runs: what its report says above the runs.
    SeriesReport,
    /// A row of points.parquet and points.csv of a series of runs.
    Points,
    /// compare.json of a comparison.
    Compare,
    /// changes.json of a history.
    Changes,
    /// Suite files.
    Suite,
    /// What `taillight explain --json` prints.
    Explain,
    /// What `taillight selftest --json` prints.
    Selftest,
    /// What `taillight trace --json` prints.
    Trace,
    /// What `--json=short` prints.
    Short,
}

/// Arguments of `schema`.
#[derive(Debug, Args)]
#[command(after_help = listed("Examples:
  taillight schema job > job.schema.json

What there is:", SchemaOf::value_variants().iter().filter_map(ValueEnum::to_possible_value)))]
pub struct SchemaArgs {
    /// What to describe.
    #[arg(value_enum, value_name = "WHAT", default_value_t = SchemaOf::Job, hide_possible_values = true)]
    pub of: SchemaOf,
    /// As a Markdown table of fields, for documentation (job only).
    #[arg(long)]
    pub markdown: bool,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight import job.fio
  taillight import job.fio --output jobs/
  taillight import job.fio --dry-run
  taillight import --format sbk -- -class file -size 4096 -seconds 10 -writers 1
  taillight import workloada -p recordcount=1000000 --output jobs/
  taillight import fio.json --as-run runs/old
  taillight import smart.json --run RUN --moment after
  taillight import bus.csv --run RUN --map docs/bus-mapping.toml

Options of a job file that would change the load and have no equivalent are errors. `taillight run \
job.fio` imports and runs in one go, and `taillight report fio.json` shows a result without this command.")]
pub struct ImportArgs {
    /// Job file of another benchmark (`-` reads standard input); with --as-run its result; with --run a drive's log or
    /// a bus analyser's table.
    #[arg(value_name = "FILE", required_unless_present = "command")]
    pub file: Option<PathBuf>,
    /// In place of FILE: a command line of fio or SBK.
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["file", "run"])]
    pub command: Vec<String>,
    /// Only say what becomes of each option of the job file.
    #[arg(long, conflicts_with_all = ["output", "run"])]
    pub dry_run: bool,
    /// Where to: a new file, a directory (of several jobs, a file each), or `-` for standard output [default: -].
    #[arg(long, value_name = "PATH")]
    pub output: Option<PathBuf>,
    /// Whose job file it is, when its name and text do not tell: fio, sbk or ycsb.
    #[arg(long, value_name = "NAME", value_parser = import_formats(), hide_possible_values = true)]
    pub format: Option<String>,
    /// YCSB: a further property file, which wins over those before it (repeatable).
    #[arg(short = 'P', value_name = "FILE", action = ArgAction::Append)]
    pub more: Vec<PathBuf>,
    /// YCSB: set a property, as -p of YCSB does (repeatable).
    #[arg(short = 'p', value_name = "K=V", action = ArgAction::Append)]
    pub properties: Vec<String>,
    /// Keep another tool's result as this run directory, which is new or empty (docs/imports.md).
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "format", "more", "properties", "run"])]
    pub as_run: Option<PathBuf>,
    /// With --as-run: the unit of the result's values, where it does not tell: ns, us, ms or s; of fio's logs also
    /// kib/s or iops.
    #[arg(long, value_name = "UNIT", requires = "as_run", value_parser = result_unit(), hide_possible_values = true)]
    pub unit: Option<ResultUnit>,
    /// Add the file to this run directory: a drive's log as nvme-cli's JSON, or with --map the table of a bus analyser.
    #[arg(long, value_name = "RUN", conflicts_with_all = ["output", "format", "more", "properties"])]
    pub run: Option<PathBuf>,
    /// With --run: which column of the bus analyser's table has what (docs/bus-mapping.toml is an example).
    #[arg(long, value_name = "FILE", requires = "run", conflicts_with = "as_run")]
    pub map: Option<PathBuf>,
    /// With --run: whether the drive's log was read `before` or `after` the run.
    #[arg(
        long,
        value_name = "WHEN",
        value_enum,
        requires = "run",
        conflicts_with = "as_run",
        hide_possible_values = true
    )]
    pub moment: Option<Moment>,
}

impl ImportArgs {
    /// The file; standard input without one.
    pub fn file(&self) -> &Path {
        self.file.as_deref().unwrap_or(Path::new("-"))
    }
}

/// When a drive's log was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Moment {
    /// Before the run.
    Before,
    /// After the run.
    After,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(after_help = listed("Examples:
  taillight export job.toml --format fio-job > job.fio
  taillight export taillight-runs/job-20260102T030405Z --format fio-job
  taillight export taillight-runs/pts-iops-20260102T030405Z > points.csv
  taillight export taillight-runs/job-20260102T030405Z \\
      --format openmetrics > job.om
  taillight export taillight-runs/job-20260102T030405Z --format hdr -o job.hlog
  taillight export taillight-runs/job-20260102T030405Z --format ios-csv | head

What fio cannot express of a job stands at the top of its job file and on standard error.

Formats:", export_formats().possible_values().into_iter().flatten()))]
pub struct ExportArgs {
    /// Run directory, directory of a series, or job file.
    #[arg(value_name = "RUN_OR_JOB")]
    pub of: PathBuf,
    /// One of the formats below; of a job file, fio-job [default: csv for a run or a series].
    #[arg(long, value_name = "NAME", value_parser = export_formats(), hide_possible_values = true)]
    pub format: Option<String>,
    /// Where to: a new file, `-` for standard output, or with remote-write a server's URL [default: -].
    #[arg(short = 'o', long, value_name = "PATH|URL")]
    pub output: Option<PathBuf>,
}

/// Arguments of `suite`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  taillight suite ycsb --workload a,b,c --driver rocksdb --path db \\
      --records 1000000 --threads 4
  taillight suite ycsb --workload d --driver memory \\
      --operations 1000000 -p fieldcount=1
  taillight suite ycsb -P my.properties -p recordcount=5000000 --target job.toml
  taillight suite slc-paper --path /mnt/test
  taillight suite slc-paper --path /mnt/test --scale full \\
      --endpoint http://127.0.0.1:9000/bench
  taillight suite disk-for etcd --path /mnt/test/
  taillight suite ./mine.toml --path /mnt/test/
  taillight suite pts-wsat --path /mnt/test/data --scale quick
  taillight suite --resume taillight-runs/ycsb-20260102T030405Z

ycsb: Workloads run in the order YCSB recommends, on one store that is loaded before the first \
one, and anew after one that inserts. -p and -P take YCSB's properties. docs/ycsb.md says what is \
the same as in YCSB and what is not.
slc-paper: writes and reads on a file, LevelDB, RocksDB and an object store, with their SLC \
factors beside the paper's (docs/slc-paper.md).
disk-for etcd, postgres or kafka: whether a disk keeps the ceilings of their response times, in about \
a minute (docs/disk-for.md).
pts-iops, pts-throughput, pts-latency, pts-wsat, pts-xsr, pts-hir: after SNIA's PTS, in rounds \
until steady state; the report begins with every deviation from the standard (docs/suites.md).
dirth, cbw: the same over threads and queue depths; operating points and response times at them.
A file of your own: `taillight schema suite` describes it, suites/queue-depths.toml is an example.")]
pub struct SuiteArgs {
    /// A suite or a file that describes one; without it, the suites there are.
    #[arg(value_name = "NAME|FILE.toml")]
    pub name: Option<String>,
    /// disk-for: etcd, postgres or kafka.
    #[arg(value_name = "WHAT")]
    pub of: Option<String>,
    /// Go on with the series in this directory: a suite, a search, repetitions or imported jobs.
    #[arg(long, value_name = "DIR", conflicts_with_all = BEGINS)]
    pub resume: Option<PathBuf>,
    /// Workloads, like a,b,c [default: a, or the properties of -P].
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub workload: Vec<String>,
    /// Driver (`taillight drivers` lists them) [default: memory].
    #[arg(long, value_name = "NAME")]
    pub driver: Option<String>,
    /// Where the store is, or is to be made; several are run in turn, under one report.
    #[arg(long, value_name = "PATH", action = ArgAction::Append)]
    pub path: Vec<String>,
    /// Job file whose `[target]` is driven; several as above.
    #[arg(long, value_name = "JOB.toml", action = ArgAction::Append)]
    pub target: Vec<PathBuf>,
    /// slc-paper: bucket of an object store to be measured as well, http(s)://HOST:PORT/BUCKET.
    #[arg(long, value_name = "URL")]
    pub endpoint: Option<String>,
    /// Form of the suite: slc-paper has short and full, the pts suites quick, standard and full.
    #[arg(long, value_name = "NAME")]
    pub scale: Option<String>,
    /// Records to load [default: 100000].
    #[arg(long, value_name = "N")]
    pub records: Option<u64>,
    /// Operations of each workload [default: 100000].
    #[arg(long, value_name = "N", conflicts_with = "runtime")]
    pub operations: Option<u64>,
    /// Time of each workload, like 60s, instead of a number of operations.
    #[arg(long, value_name = "TIME")]
    pub runtime: Option<String>,
    /// Threads.
    #[arg(long, value_name = "N")]
    pub threads: Option<u32>,
    /// Operations a second asked for, over all threads.
    #[arg(long, value_name = "N")]
    pub target_rate: Option<u64>,
    /// YCSB property file (repeatable; later ones win).
    #[arg(short = 'P', value_name = "FILE", action = ArgAction::Append, help_heading = FURTHER)]
    pub files: Vec<PathBuf>,
    /// Set a property of YCSB (repeatable; wins over files).
    #[arg(short = 'p', value_name = "K=V", action = ArgAction::Append, help_heading = FURTHER)]
    pub properties: Vec<String>,
    /// Set any field of every job, like target.options.keep=true (repeatable).
    #[arg(long = "set", value_name = "K=V", action = ArgAction::Append)]
    pub set: Vec<String>,
    /// Directory for the runs and the report, new or empty [default: taillight-runs/NAME-UTC].
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Confirm by name that this target may be overwritten (needs target.destroy = true as well);
    /// each of several by its own. With --resume: a target that is not known to be the one of before.
    #[arg(long, value_name = "TARGET", action = ArgAction::Append)]
    pub destroy: Vec<String>,
    /// Show the plan of each run as a job file and do nothing.
    #[arg(long)]
    pub print_plan: bool,
    /// What the report says, as JSON on standard output (report.json); words go to standard error.
    /// `--json=short`: verdicts, rates, percentiles, ceilings and paths alone.
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "full", value_enum, hide_possible_values = true)]
    #[arg(conflicts_with = "print_plan")]
    pub json: Option<JsonForm>,
    #[command(flatten)]
    pub live: LiveArgs,
}

/// What a suite begins with; one that goes on has it already.
const BEGINS: [&str; 18] = [
    "name",
    "of",
    "workload",
    "driver",
    "path",
    "target",
    "endpoint",
    "scale",
    "records",
    "operations",
    "runtime",
    "threads",
    "target_rate",
    "files",
    "properties",
    "set",
    "output",
    "print_plan",
];

/// A text with a list below it: each value with what it is.
fn listed(text: &str, values: impl IntoIterator<Item = PossibleValue>) -> String {
    let words = |v: PossibleValue| {
        vec![format!("  {}", v.get_name()), v.get_help().map_or(String::new(), ToString::to_string)]
    };
    let rows: Vec<Vec<String>> = values.into_iter().map(words).collect();
    format!("{text}\n{}", output::columns(&rows).trim_end())
}

fn import_formats() -> PossibleValuesParser {
    let formats = taillight_import::FORMATS.iter();
    PossibleValuesParser::new(formats.map(|f| PossibleValue::new(f.name).help(f.about)))
}

fn result_unit() -> impl clap::builder::TypedValueParser<Value = ResultUnit> {
    let names = ResultUnit::ALL.iter().map(|(name, _)| *name);
    PossibleValuesParser::new(names).try_map(|name| {
        let found = ResultUnit::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, unit)| *unit).ok_or("no unit")
    })
}

/// The table of a run or a series, as a format of `export`.
pub const CSV: &str = "csv";
/// A run's intervals as metrics, with their times.
pub const OPENMETRICS: &str = "openmetrics";
/// What a run counted in all, as metrics without a time.
pub const PROMETHEUS: &str = "prometheus";
/// The intervals of [`OPENMETRICS`], sent to a server.
pub const REMOTE_WRITE: &str = "remote-write";

fn export_formats() -> PossibleValuesParser {
    let formats = taillight_import::EXPORTS.iter();
    let formats = formats.map(|f| PossibleValue::new(f.name).help(f.about));
    let table = PossibleValue::new(CSV);
    let table = table.help("Table of a run or a series: a row per point, workload and operation");
    let metrics = PossibleValue::new(OPENMETRICS);
    let metrics = metrics.help("A run's intervals for Prometheus (promtool), with their times");
    let totals = PossibleValue::new(PROMETHEUS);
    let totals =
        totals.help("A run's totals as Prometheus' text, without times (textfile collector)");
    let remote = PossibleValue::new(REMOTE_WRITE);
    let remote = remote
        .help("A run's intervals, sent to the server at --output http://HOST:PORT/api/v1/write");
    let runs = taillight_report::export::RUN_EXPORTS.iter();
    let runs = runs.map(|f| PossibleValue::new(f.name).help(f.about));
    PossibleValuesParser::new(formats.chain([table]).chain(runs).chain([metrics, totals, remote]))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn no_command_has_more_than_18_flags_for_every_day() {
        for command in Cli::command().get_subcommands() {
            let shown = |a: &&clap::Arg| !a.is_positional() && !a.is_hide_set();
            let flags = || command.get_arguments().filter(shown);
            let further = flags().filter(|a| a.get_help_heading() == Some(FURTHER)).count();
            let daily = flags().count() - further;
            assert!(daily <= 18 && further <= 9, "{}: {daily}, {further}", command.get_name());
        }
    }
}
