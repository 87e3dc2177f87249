//! File names of a run directory, and of directories that hold a series, a search or a comparison of runs. The
//! text files of a report (`report.md`, two CSV files) are named in the crate `report`.

/// What ran; written first and last.
pub const MANIFEST: &str = "manifest.json";
/// The job file as given, if there was one.
pub const JOB: &str = "job.toml";
/// The result in numbers.
pub const SUMMARY: &str = "summary.json";
/// One row per interval, workload and operation.
pub const INTERVALS: &str = "intervals.parquet";
/// HdrHistogram log V2.
pub const HISTOGRAMS: &str = "histograms.hlog";
/// One row per I/O.
pub const IOS: &str = "ios.parquet";
/// Layer events.
pub const LAYERS: &str = "layers.parquet";
/// Times at which the target had stopped its own threads; only where it can tell.
pub const PAUSES: &str = "pauses.parquet";
/// Host samples.
pub const HOST: &str = "host.parquet";
/// The drive's own view: logs of NVMe drives before and after the run.
pub const NVME: &str = "nvme.json";
/// Commands that a bus analyser saw, matched with traced I/Os.
pub const BUS: &str = "bus.parquet";
/// How they were matched, and what follows.
pub const BUS_INFO: &str = "bus.json";
/// The target's own statistics; only where it has some.
pub const STORE: &str = "store.parquet";
/// What checking the data found; only where the plan verifies.
pub const VERIFY: &str = "verify.json";
/// Which write of each block was the last; only where the plan verifies.
pub const LEDGER: &str = "ledger.parquet";
/// What a result said that another tool or an export of Taillight wrote; only where it was imported and has figures,
/// not every I/O.
pub const IMPORTED: &str = "imported.json";
/// The ranks of a run over several hosts; only there.
pub const SCALE: &str = "scale.json";
/// How another program was watched; only where one was.
pub const WATCHED: &str = "watched.json";
/// The report for people.
pub const REPORT: &str = "report.html";

/// The names above, in the order in which files are listed; other files of a run directory are listed after them.
pub const ALL: [&str; 19] = [
    MANIFEST, JOB, SUMMARY, INTERVALS, HISTOGRAMS, IOS, LAYERS, PAUSES, HOST, STORE, NVME, BUS,
    BUS_INFO, VERIFY, LEDGER, IMPORTED, SCALE, WATCHED, REPORT,
];

/// The files whose checksums the manifest has: what was asked and what was measured, written once. JSON
/// files carry their own; what else there is nobody reads back.
pub const SUMMED: [&str; 10] =
    [JOB, INTERVALS, HISTOGRAMS, IOS, LAYERS, PAUSES, HOST, STORE, BUS, LEDGER];

/// What differs between two sides of runs.
pub const COMPARE: &str = "compare.json";
/// The same for pull requests.
pub const COMPARE_MARKDOWN: &str = "compare.md";
/// When figures of a series of nights changed.
pub const CHANGES: &str = "changes.json";
/// The same for pull requests.
pub const CHANGES_MARKDOWN: &str = "changes.md";
/// The points of a series of runs, in the directory that holds their run directories.
pub const SERIES: &str = "series.json";
/// The same as a table: one row per point, workload and operation.
pub const POINTS: &str = "points.parquet";
/// That table as text.
pub const POINTS_CSV: &str = "points.csv";
/// What the report of a series says above its runs, in the directory that holds their run directories.
pub const SERIES_REPORT: &str = "report.json";
/// The probes and the answer of a search, in the directory that holds their run directories.
pub const SEARCH: &str = "search.json";
/// The repetitions of a run, in the directory that holds their run directories.
pub const REPEAT: &str = "repeat.json";
/// The matrix of the suite `slc-paper`, in the directory that holds its run directories.
pub const SLC_PAPER: &str = "slc-paper.json";
