//! Loads: what the victim does on its stage, as lists of changes to a plain run. A load is several such lists; of
//! two values for the same thing, or two drivers, the later one counts.

use anyhow::{Context, Result};
use taillight_s3test::{ID, SECRET};

use crate::fault_trial::FaultTrial;
use crate::faults::server::inside_words;
use crate::faults::stages::BuiltStage;
use crate::victim::VictimOptions;
use LoadChange::{
    Depth, DepthAtMost, File, Flag, NoPauses, Overwrite, Rw, Server, Set, Store, Workers,
};

/// What makes a load differ from a plain run.
#[derive(Debug, Clone, Copy)]
pub enum LoadChange {
    /// The file driver with this pattern: direct I/O of 4 KiB with short pauses.
    Rw(&'static str),
    /// The driver that `engine` names, in a directory.
    Store,
    /// A client of the stage's server, in its network.
    Server,
    /// The device may be overwritten.
    Overwrite,
    /// The victim's file has this name.
    File(&'static str),
    /// `--set`.
    Set(&'static str),
    /// Another flag and its value.
    Flag(&'static str, &'static str),
    /// No pauses between operations: a stop that finds nothing in flight slows no I/O.
    NoPauses,
    Depth(u32),
    DepthAtMost(u32),
    Workers(u32),
}

/// Lists of changes, applied in turn.
pub type Load = &'static [&'static [LoadChange]];

const FDATASYNC: LoadChange = Flag("--sync", "fdatasync");
const DSYNC: LoadChange = Flag("--sync", "dsync");
const MIB_4: LoadChange = Flag("--size", "4MiB");
const MIB_16: LoadChange = Flag("--size", "16MiB");

pub const READS: &[LoadChange] = &[Rw("randread")];
pub const WRITES: &[LoadChange] = &[Rw("randwrite"), MIB_16];
/// Direct reads and writes.
pub const MIXED: &[LoadChange] = &[Rw("randrw"), MIB_16];
pub const TRIMS: &[LoadChange] = &[Rw("trim"), Overwrite];
pub const OVERWRITES: &[LoadChange] = &[Rw("randwrite"), Overwrite];
/// Reads that are not in the page cache.
pub const COLD: &[LoadChange] = &[Rw("randread"), DIRECT_OFF, Set("target.options.cache=drop")];
/// Writes through the page cache to blocks that are there, each with a sync.
pub const SYNCED: &[LoadChange] = &[Rw("randwrite"), DIRECT_OFF, LAID, MIB_16, FDATASYNC];
/// Direct writes, each with a sync.
pub const DIRECT_SYNCED: &[LoadChange] = &[Rw("randwrite"), MIB_16, FDATASYNC];
/// Direct writes one after another, each with an fsync.
pub const FSYNCED: &[LoadChange] = &[Rw("write"), MIB_4, Flag("--sync", "fsync")];
/// Direct writes that are durable one by one.
pub const DURABLE: &[LoadChange] = &[Rw("randwrite"), MIB_16, DSYNC];
/// The same through the page cache.
pub const CACHED_DURABLE: &[LoadChange] = &[Rw("randwrite"), DIRECT_OFF, LAID, MIB_16, DSYNC];
/// Writes one after another to a file that grows.
pub const GROWING: &[LoadChange] = &[Rw("write"), Flag("--size", "400MiB")];
pub const GROWING_DURABLE: &[LoadChange] = &[Rw("write"), Flag("--size", "256MiB"), DSYNC];
pub const GROWING_SYNCS: &[LoadChange] =
    &[Rw("write"), DIRECT_OFF, Flag("--size", "400MiB"), FDATASYNC];
/// Reads at a steady rate.
pub const PACED: &[LoadChange] = &[Rw("randread"), NoPauses, Flag("--rate", "2000/s")];

const RECORDS: LoadChange = Set("workload.0.block_size=\"1KiB\"");
const KEYS: LoadChange = Set("workload.0.keys={count=2000}");
const MANY_KEYS: LoadChange = Set("workload.0.keys={count=20000}");
pub const UPDATES: &[LoadChange] = &[Store, Set("workload.0.mix={update=1}"), RECORDS, KEYS];
/// Writes by one thread, which waits for no other writer, each with a sync.
pub const UPDATES_OF_ONE: &[LoadChange] = &[FDATASYNC, Workers(1)];
pub const READS_AND_UPDATES: &[LoadChange] = &[FDATASYNC, Set("workload.0.mix={get=50,update=50}")];
pub const MOSTLY_GETS: &[LoadChange] = &[NoPauses, Set("workload.0.mix={get=90,update=10}")];
pub const GETS: &[LoadChange] = &[Set("workload.0.mix={get=1}"), MANY_KEYS];
/// Gets of RocksDB past the page cache.
pub const DIRECT_GETS: &[LoadChange] = &[
    Store,
    Set("workload.0.mix={get=1}"),
    RECORDS,
    MANY_KEYS,
    Set("target.options.direct_reads=true"),
    Set("target.options.block_cache=\"1MiB\""),
];
pub const SCANS: &[LoadChange] = &[Set("workload.0.mix={scan=1}")];
/// RocksDB without a write-ahead log: a writer touches memory only, and what it waits for is the store.
pub const SMALL_MEMTABLES: &[LoadChange] = &[
    Set("target.options.wal=false"),
    Set("target.options.write_buffer_size=\"256KiB\""),
    Set("target.options.options=\"max_write_buffer_number=2;\
         level0_file_num_compaction_trigger=400;level0_slowdown_writes_trigger=800;\
         level0_stop_writes_trigger=900\""),
];
/// SQLite with its own default, in which a commit waits for those who read.
pub const ROLLBACK_JOURNAL: &[LoadChange] = &[Set("target.options.journal=delete")];
pub const SMALL_BUFFER: &[LoadChange] = &[Set("target.options.write_buffer_size=\"64KiB\"")];

/// Names that come, change and go.
pub const NAMES: &[LoadChange] = &[
    Store,
    Set("workload.0.mix={create=40,rename=20,unlink=40}"),
    Set("workload.0.keys={count=1000}"),
];
pub const DURABLE_NAMES: &[LoadChange] = &[Set("target.options.sync=directory")];
/// By io_uring.
pub const NAMES_BY_RING: &[LoadChange] =
    &[Workers(1), Depth(8), Set("target.options.engine=io_uring")];
pub const STATS: &[LoadChange] =
    &[Store, Set("workload.0.mix={stat=1}"), Set("workload.0.keys={count=4000}")];
pub const OPENS: &[LoadChange] =
    &[Store, Set("workload.0.mix={open_read_close=1}"), Set("workload.0.keys={count=8}")];

pub const ASKING: &[LoadChange] = &[Server];
pub const FOUR_CONNECTIONS: &[LoadChange] = &[Depth(16), Set("target.options.connections=4")];
/// Without pauses, eight operations in flight over two connections.
pub const PIPELINED: &[LoadChange] = &[Depth(8), NoPauses, Set("target.options.connections=2")];

const DIRECT_OFF: LoadChange = Set("target.options.direct=false");
const LAID: LoadChange = Set("target.options.layout=always");
pub const CACHED: &[LoadChange] = &[DIRECT_OFF];
pub const LAYOUT: &[LoadChange] = &[LAID];
pub const DROPPED: &[LoadChange] = &[Set("target.options.cache=drop")];
pub const KEPT: &[LoadChange] = &[Set("target.options.cache=keep")];
pub const WARM: &[LoadChange] = &[Set("target.options.cache=warm")];
pub const ALL_THE_TIME: &[LoadChange] = &[NoPauses];
/// Submitted by io_uring's polling thread.
pub const POLLED: &[LoadChange] = &[Set("target.options.sqpoll=true")];
pub const POLLED_ON_FIRST: &[LoadChange] =
    &[Set("target.options.sqpoll=true"), Set("target.options.sqpoll_cpu=0")];
pub const MANY_THREADS: &[LoadChange] = &[Workers(8), DepthAtMost(4)];
pub const SINGLE: &[LoadChange] = &[Workers(1), Depth(1)];
pub const DEPTH_8: &[LoadChange] = &[Depth(8)];
pub const DEPTH_64: &[LoadChange] = &[Depth(64)];
pub const FOUR_FILES: &[LoadChange] = &[File("files/"), Set("target.options.files=4")];
pub const EVERY_EIGHTH: &[LoadChange] = &[Flag("--sync", "fsync:8")];
pub const FDATASYNCED: &[LoadChange] = &[FDATASYNC];
pub const PER_S_1000: &[LoadChange] = &[NoPauses, Flag("--rate", "1000/s")];
pub const SERVED_FILE: &[LoadChange] =
    &[Set("target.options.allow_holes=true"), Set("target.options.read_in_use=true")];
/// With long pauses, in which nobody uses the disk.
pub const WITH_PAUSES: &[LoadChange] =
    &[Workers(1), Set("workload.0.think={time=\"150ms\",every=64}")];
/// Fast enough to come to what is read ahead before that is there.
pub const SEQUENTIAL: &[LoadChange] =
    &[Rw("read"), DIRECT_OFF, Set("workload.0.think={time=\"200us\",every=32}")];

pub const IO_1K: &[LoadChange] = &[RECORDS];
pub const IO_64K: &[LoadChange] = &[Set("workload.0.block_size=\"64KiB\"")];
pub const IO_256K: &[LoadChange] = &[Set("workload.0.block_size=\"256KiB\"")];
pub const IO_1M: &[LoadChange] = &[Set("workload.0.block_size=\"1MiB\"")];
pub const OF_2M: &[LoadChange] = &[Flag("--size", "2MiB")];
pub const OF_4M: &[LoadChange] = &[MIB_4];
pub const OF_8M: &[LoadChange] = &[Flag("--size", "8MiB")];
pub const OF_16M: &[LoadChange] = &[MIB_16];
pub const OF_24M: &[LoadChange] = &[Flag("--size", "24MiB")];
pub const OF_64M: &[LoadChange] = &[Flag("--size", "64MiB")];
pub const OF_128M: &[LoadChange] = &[Flag("--size", "128MiB")];
pub const OF_256M: &[LoadChange] = &[Flag("--size", "256MiB")];
pub const OF_384M: &[LoadChange] = &[Flag("--size", "384MiB")];
pub const OF_1G: &[LoadChange] = &[Flag("--size", "1GiB")];

/// What the victim is started with.
pub fn options(load: Load, trial: &FaultTrial<'_>, built: &BuiltStage) -> Result<VictimOptions> {
    let changes = || load.iter().flat_map(|list| list.iter());
    let name = changes().rev().find_map(|c| if let File(name) = c { Some(*name) } else { None });
    let path = match built.path.is_dir() {
        true => built.path.join(name.unwrap_or("victim")),
        false => built.path.clone(),
    };
    let mut base = changes().rev().filter_map(|change| match change {
        Rw(pattern) => Some(Ok(trial.options(path.clone(), pattern))),
        Store => Some(Ok(trial.options_of(built.path.join("db/"), &[trial.engine]))),
        Server => Some(client(trial, built)),
        _ => None,
    });
    let mut options = base.next().context("a load of a driver")??;
    changes().for_each(|change| change.apply(&mut options, built));
    Ok(options)
}

impl LoadChange {
    fn apply(self, options: &mut VictimOptions, built: &BuiltStage) {
        match self {
            Rw(_) | Store | Server | File(_) => {}
            Overwrite => {
                options.set.push("target.destroy=true".into());
                let device = built.path.to_string_lossy().into_owned();
                options.more.extend(["--destroy".to_owned(), device]);
            }
            Set(pair) => options.set.push(pair.into()),
            Flag(name, value) => match options.more.iter().position(|word| word == name) {
                Some(at) => options.more[at + 1] = value.into(),
                None => options.more.extend([name, value].map(String::from)),
            },
            NoPauses => options.without_pauses(),
            Depth(depth) => options.depth = depth,
            DepthAtMost(depth) => options.depth = options.depth.min(depth),
            Workers(workers) => options.workers = workers,
        }
    }
}

/// A client of the stage's server, in the server's network.
fn client(trial: &FaultTrial<'_>, built: &BuiltStage) -> Result<VictimOptions> {
    let mut options = match trial.engine {
        "redis" => asking_redis(trial, built.path.clone()),
        "postgres" => asking_rows(trial, built.path.clone()),
        _ => asking_objects(trial, built.path.clone()),
    };
    options.within = inside_words(built.server()?);
    Ok(options)
}

/// Reads and updates of a Redis server at this address. `client` has the victim run in the server's own network; a
/// victim that asks through a proxy stays outside.
pub fn asking_redis(trial: &FaultTrial<'_>, address: std::path::PathBuf) -> VictimOptions {
    asking(trial, (address, "redis"), ("update", 1000))
}

fn asking_rows(trial: &FaultTrial<'_>, path: std::path::PathBuf) -> VictimOptions {
    let mut options = asking(trial, (path, "postgres"), ("update", 1000));
    options.set.push("target.options.user=postgres".into());
    options
}

fn asking_objects(trial: &FaultTrial<'_>, path: std::path::PathBuf) -> VictimOptions {
    let mut options = asking(trial, (path, "s3"), ("put", 100));
    let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    options.env = names.into_iter().zip([ID.into(), SECRET.into()]).collect();
    options
}

/// As many reads as changes of so many records.
fn asking(
    trial: &FaultTrial<'_>,
    (path, driver): (std::path::PathBuf, &str),
    (change, keys): (&str, u32),
) -> VictimOptions {
    let mut options = trial.options_of(path, &[driver]);
    let mix = format!("workload.0.mix={{get=50,{change}=50}}");
    let keys = format!("workload.0.keys={{count={keys}}}");
    options.set.extend([mix, "workload.0.block_size=\"1KiB\"".to_owned(), keys]);
    options
}
