//! Loads: what the victim does on its stage, as lists of changes to a plain run. A load is several such lists; of
//! two values for the same thing the later one counts.

use anyhow::{Context, Result};
use taillight_s3test::{ID, SECRET};

use crate::fault_trial::FaultTrial;
use crate::faults::server::inside_words;
use crate::faults::stages::BuiltStage;
use crate::victim::VictimOptions;
use Change::{
    Depth, DepthAtMost, File, Flag, NoPauses, Overwrite, Rw, Server, Set, Store, Workers,
};

/// What makes a load differ from a plain run.
#[derive(Debug, Clone, Copy)]
pub enum Change {
    /// The file driver with this pattern: direct I/O of 4 KiB with short pauses.
    Rw(&'static str),
    /// The store that the engine is called after.
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
pub type Load = &'static [&'static [Change]];

const FDATASYNC: Change = Flag("--sync", "fdatasync");
const DSYNC: Change = Flag("--sync", "dsync");
const MIB_4: Change = Flag("--size", "4MiB");
const MIB_16: Change = Flag("--size", "16MiB");

pub const READS: &[Change] = &[Rw("randread")];
pub const WRITES: &[Change] = &[Rw("randwrite"), MIB_16];
/// Direct reads and writes.
pub const MIXED: &[Change] = &[Rw("randrw"), MIB_16];
pub const TRIMS: &[Change] = &[Rw("trim"), Overwrite];
pub const OVERWRITES: &[Change] = &[Rw("randwrite"), Overwrite];
/// Reads that are not in the page cache.
pub const COLD: &[Change] = &[Rw("randread"), DIRECT_OFF, Set("target.options.cache=drop")];
/// Writes through the page cache to blocks that are there, each with a sync.
pub const SYNCED: &[Change] = &[Rw("randwrite"), DIRECT_OFF, LAID, MIB_16, FDATASYNC];
/// Direct writes, each with a sync.
pub const DIRECT_SYNCED: &[Change] = &[Rw("randwrite"), MIB_16, FDATASYNC];
/// Direct writes one after another, each with a sync of all.
pub const FSYNCED: &[Change] = &[Rw("write"), MIB_4, Flag("--sync", "fsync")];
/// Direct writes that are durable one by one.
pub const DURABLE: &[Change] = &[Rw("randwrite"), MIB_16, DSYNC];
/// The same through the page cache.
pub const CACHED_DURABLE: &[Change] = &[Rw("randwrite"), DIRECT_OFF, LAID, MIB_16, DSYNC];
/// Writes one after another to a file that grows.
pub const GROWING: &[Change] = &[Rw("write"), Flag("--size", "400MiB")];
pub const GROWING_DURABLE: &[Change] = &[Rw("write"), Flag("--size", "256MiB"), DSYNC];
pub const GROWING_SYNCS: &[Change] =
    &[Rw("write"), DIRECT_OFF, Flag("--size", "400MiB"), FDATASYNC];
/// Reads at a steady rate.
pub const PACED: &[Change] = &[Rw("randread"), NoPauses, Flag("--rate", "2000/s")];

const RECORDS: Change = Set("workload.0.block_size=\"1KiB\"");
const KEYS: Change = Set("workload.0.keys={count=2000}");
const MANY_KEYS: Change = Set("workload.0.keys={count=20000}");
pub const UPDATES: &[Change] = &[Store, Set("workload.0.mix={update=1}"), RECORDS, KEYS];
/// By one thread, which waits for no other writer.
pub const UPDATES_OF_ONE: &[Change] = &[FDATASYNC, Workers(1)];
pub const READS_AND_UPDATES: &[Change] = &[FDATASYNC, Set("workload.0.mix={get=50,update=50}")];
pub const MOSTLY_GETS: &[Change] = &[NoPauses, Set("workload.0.mix={get=90,update=10}")];
pub const GETS: &[Change] = &[Set("workload.0.mix={get=1}"), MANY_KEYS];
/// Of RocksDB, past the page cache.
pub const DIRECT_GETS: &[Change] = &[
    Store,
    Set("workload.0.mix={get=1}"),
    RECORDS,
    MANY_KEYS,
    Set("target.options.direct_reads=true"),
    Set("target.options.block_cache=\"1MiB\""),
];
pub const SCANS: &[Change] = &[Set("workload.0.mix={scan=1}")];
/// RocksDB without a write-ahead log: a writer touches memory only, and what it waits for is the store.
pub const SMALL_MEMTABLES: &[Change] = &[
    Set("target.options.wal=false"),
    Set("target.options.write_buffer_size=\"256KiB\""),
    Set("target.options.options=\"max_write_buffer_number=2;\
         level0_file_num_compaction_trigger=400;level0_slowdown_writes_trigger=800;\
         level0_stop_writes_trigger=900\""),
];
pub const SMALL_BUFFER: &[Change] = &[Set("target.options.write_buffer_size=\"64KiB\"")];

pub const ASKING: &[Change] = &[Server];
pub const FOUR_CONNECTIONS: &[Change] = &[Depth(16), Set("target.options.connections=4")];
/// All the time, four times on each of two connections.
pub const PIPELINED: &[Change] = &[Depth(8), NoPauses, Set("target.options.connections=2")];

const DIRECT_OFF: Change = Set("target.options.direct=false");
const LAID: Change = Set("target.options.layout=always");
pub const CACHED: &[Change] = &[DIRECT_OFF];
pub const LAYOUT: &[Change] = &[LAID];
pub const DROPPED: &[Change] = &[Set("target.options.cache=drop")];
pub const KEPT: &[Change] = &[Set("target.options.cache=keep")];
pub const WARM: &[Change] = &[Set("target.options.cache=warm")];
pub const ALL_THE_TIME: &[Change] = &[NoPauses];
/// Submitted by io_uring's polling thread.
pub const POLLED: &[Change] = &[Set("target.options.sqpoll=true")];
pub const POLLED_ON_FIRST: &[Change] =
    &[Set("target.options.sqpoll=true"), Set("target.options.sqpoll_cpu=0")];
pub const MANY_THREADS: &[Change] = &[Workers(8), DepthAtMost(4)];
pub const SINGLE: &[Change] = &[Workers(1), Depth(1)];
pub const DEPTH_8: &[Change] = &[Depth(8)];
pub const DEPTH_64: &[Change] = &[Depth(64)];
pub const FOUR_FILES: &[Change] = &[File("files/"), Set("target.options.files=4")];
pub const EVERY_EIGHTH: &[Change] = &[Flag("--sync", "fsync:8")];
pub const FDATASYNCED: &[Change] = &[FDATASYNC];
pub const PER_S_1000: &[Change] = &[NoPauses, Flag("--rate", "1000/s")];
pub const SERVED_FILE: &[Change] =
    &[Set("target.options.allow_holes=true"), Set("target.options.read_in_use=true")];
/// Fast enough to come to what is read ahead before that is there.
pub const SEQUENTIAL: &[Change] =
    &[Rw("read"), DIRECT_OFF, Set("workload.0.think={time=\"200us\",every=32}")];

pub const IO_1K: &[Change] = &[RECORDS];
pub const IO_64K: &[Change] = &[Set("workload.0.block_size=\"64KiB\"")];
pub const IO_256K: &[Change] = &[Set("workload.0.block_size=\"256KiB\"")];
pub const IO_1M: &[Change] = &[Set("workload.0.block_size=\"1MiB\"")];
pub const OF_2M: &[Change] = &[Flag("--size", "2MiB")];
pub const OF_4M: &[Change] = &[MIB_4];
pub const OF_8M: &[Change] = &[Flag("--size", "8MiB")];
pub const OF_16M: &[Change] = &[MIB_16];
pub const OF_24M: &[Change] = &[Flag("--size", "24MiB")];
pub const OF_64M: &[Change] = &[Flag("--size", "64MiB")];
pub const OF_128M: &[Change] = &[Flag("--size", "128MiB")];
pub const OF_256M: &[Change] = &[Flag("--size", "256MiB")];
pub const OF_384M: &[Change] = &[Flag("--size", "384MiB")];
pub const OF_1G: &[Change] = &[Flag("--size", "1GiB")];

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

impl Change {
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

/// A client of the stage's server, in the server's own network.
fn client(trial: &FaultTrial<'_>, built: &BuiltStage) -> Result<VictimOptions> {
    let mut options = match trial.engine {
        "redis" => asking_redis(trial, built.path.clone()),
        _ => asking_objects(trial, built.path.clone()),
    };
    options.within = inside_words(built.server()?);
    Ok(options)
}

/// Reads and updates of a Redis server at this address.
pub fn asking_redis(trial: &FaultTrial<'_>, address: std::path::PathBuf) -> VictimOptions {
    let mut options = trial.options_of(address, &["redis"]);
    let set = ["mix={get=50,update=50}", "block_size=\"1KiB\"", "keys={count=1000}"];
    options.set.extend(set.map(|pair| format!("workload.0.{pair}")));
    options
}

fn asking_objects(trial: &FaultTrial<'_>, path: std::path::PathBuf) -> VictimOptions {
    let mut options = trial.options_of(path, &["s3"]);
    let set = ["mix={get=50,put=50}", "block_size=\"1KiB\"", "keys={count=100}"];
    options.set.extend(set.map(|pair| format!("workload.0.{pair}")));
    let names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
    options.env = names.into_iter().zip([ID.into(), SECRET.into()]).collect();
    options
}
