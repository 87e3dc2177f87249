//! The cases, one visible list. Adding one: a function here or in a file beside, and a line.

mod bridge;
mod cached;
mod capture;
mod direct;
mod draws;
mod fio_import;
mod live;
mod metadata;
mod null;
mod objects;
mod pacing;
mod payload;
mod postgres;
mod redis;
mod series;
mod start;
mod stores;
mod tracing;
mod watch;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::pairs::{BenchArm, Bound, BoundCheck, Comparison, Figures, median};
use crate::{BenchSetup, child, fio, taillight};

/// One comparison or measurement.
pub struct BenchCase {
    /// Name on the command line, of its file in `benches/results/` and of its anchor in `benches/RESULTS.md`.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    pub run: fn(&BenchSetup) -> Result<Comparison>,
}

const fn case(
    name: &'static str,
    about: &'static str,
    run: fn(&BenchSetup) -> Result<Comparison>,
) -> BenchCase {
    BenchCase { name, about, run }
}

/// Every case, in the order in which they run and stand on the pages.
pub const CASES: &[BenchCase] = &[
    case("start", "time of --help, size of the binary", start::run),
    case("build", "release build from clean", start::build),
    case("draws", "ns a draw of every distribution, and of writing a key", draws::run),
    case(
        "payload",
        "bytes of each payload made by one core, sealing and checking of blocks",
        payload::run,
    ),
    case("pacing", "schedules from 10 to 1,000,000 a second: counts and CPU", pacing::run),
    case(
        "pacing-direct",
        "direct reads at 1,000, 5,000 and 10,000 a second beside fio's",
        pacing::on_disk,
    ),
    case("null-1", "null at depth 1 against fio's null engine", null::depth_1),
    case(
        "null-32",
        "null at depth 32 against fio's null engine, its batching at its best too",
        null::depth_32,
    ),
    case("null-whole", "CPU from the command to the page, an I/O of null", null::whole),
    case("two-workers", "two workers against two processes of one worker", null::two_workers),
    case("two-ranks", "two ranks of an MPI job against two processes", null::two_ranks),
    case("metadata", "files made, asked for, read and removed, beside a bare loop", metadata::run),
    case("cached-sync", "page-cached 4 KiB reads, engine sync against fio psync", cached::sync),
    case(
        "cached-uring",
        "page-cached 4 KiB reads, depth 32, against fio io_uring and a bare ring",
        cached::uring,
    ),
    case(
        "direct-1",
        "direct 4 KiB reads on the disk, depth 1, against fio io_uring",
        direct::depth_1,
    ),
    case(
        "direct-32",
        "direct 4 KiB reads on the disk, depth 32, against fio io_uring",
        direct::depth_32,
    ),
    case(
        "direct-mixed",
        "direct 8 KiB reads and writes, 70 to 30, depth 32, against fio io_uring",
        direct::mixed,
    ),
    case(
        "trace-direct",
        "direct 4 KiB reads, depth 32: traced against untraced, and biosnoop beside",
        tracing::direct,
    ),
    case("trace-cached", "page-cached 4 KiB reads, traced against untraced", tracing::cached),
    case(
        "trace-all",
        "page-cached 4 KiB reads, each of them kept: cost printed and measured",
        tracing::cached_all,
    ),
    case("watch-direct", "fio, direct 4 KiB reads, depth 32: watched and not", watch::direct_32),
    case("watch-cached", "fio, page-cached 4 KiB reads, watched and not", watch::cached_1),
    case("watch-db-bench", "db_bench, readrandom, watched and not", watch::db_bench),
    case("watch-redis", "Redis that appends, sets, watched and not", watch::redis_sets),
    case("live-null", "null at depth 1: watched by nobody, a page, a scraper", live::null_1),
    case("live-cached", "page-cached 4 KiB reads, depth 32, watched", live::cached_32),
    case("live-direct", "direct 4 KiB reads, depth 32, watched", live::direct_32),
    case(
        "rocksdb-100",
        "RocksDB, a million records of 100 B, against its db_bench: fill and reads",
        stores::rocksdb_100,
    ),
    case("rocksdb-1k", "the same with records of 1 KiB", stores::rocksdb_1k),
    case(
        "rocksdb-random-100",
        "RocksDB, a million records of 100 B in random order of their keys: fill",
        stores::rocksdb_random_100,
    ),
    case("rocksdb-random-1k", "the same with records of 1 KiB", stores::rocksdb_random_1k),
    case(
        "rocksdb-two-100",
        "RocksDB, a million records of 100 B, two threads: random reads and overwrites",
        stores::rocksdb_two_100,
    ),
    case("rocksdb-two-1k", "the same with records of 1 KiB", stores::rocksdb_two_1k),
    case(
        "rocksdb-while-100",
        "RocksDB against db_bench: 1,000,000 records of 100 B read beside a writer",
        stores::rocksdb_while_100,
    ),
    case("rocksdb-while-1k", "the same with records of 1 KiB", stores::rocksdb_while_1k),
    case(
        "leveldb-100",
        "LevelDB, a million records of 100 B, against a bare loop: fill and reads",
        stores::leveldb_100,
    ),
    case("leveldb-1k", "the same with records of 1 KiB", stores::leveldb_1k),
    case(
        "sqlite-100",
        "SQLite, a million records of 100 B, against a bare loop: fill and reads",
        stores::sqlite_100,
    ),
    case("bridge-c", "a plug-in in C that does nothing: printed cost against measured", bridge::c),
    case("bridge-go", "the same in Go", bridge::go),
    case(
        "bridge-process",
        "programs in C and Python that do nothing: printed cost against measured",
        bridge::process,
    ),
    case(
        "bridge-jvm",
        "a YCSB binding that does nothing: inserts and reads, alone and by 32",
        bridge::jvm,
    ),
    case(
        "bridge-rocksdb",
        "RocksDB natively and through a YCSB binding: their difference against what is stated",
        bridge::rocksdb,
    ),
    case(
        "bridge-jdbc",
        "SQLite behind JDBC against the same statement in a bare loop in Java",
        bridge::jdbc,
    ),
    case(
        "postgres-tpcb",
        "PostgreSQL, TPC-B over 1 and 8 connections, against pgbench",
        postgres::tpcb,
    ),
    case(
        "redis-get-1",
        "Redis get, 1, 32 and 256 connections, against redis-benchmark",
        redis::get_1,
    ),
    case("redis-get-16", "the same with 16 in flight on each connection", redis::get_16),
    case(
        "redis-set-1",
        "Redis set, 1, 32 and 256 connections, against redis-benchmark",
        redis::set_1,
    ),
    case("redis-set-16", "the same with 16 in flight on each connection", redis::set_16),
    case(
        "s3-4k",
        "objects of 4 KiB in a MinIO, get and put, against a bare hyper client",
        objects::small,
    ),
    case("s3-64k", "the same with objects of 64 KiB", objects::middle),
    case("s3-1m", "the same with objects of 1 MiB", objects::large),
    case(
        "s3-equal",
        "the bare client against itself, objects of 64 KiB: what the server's own rate does to a ratio",
        objects::equal,
    ),
    case(
        "fio-import",
        "fio's own job files, imported, against fio: IOPS, block sizes, offsets",
        fio_import::run,
    ),
    case(
        "capture",
        "100 million I/Os on null: bytes an I/O, nothing lost, report time and memory",
        capture::run,
    ),
    case(
        "series",
        "a series of 49 points and 3 long runs on null: time between points, report, page",
        series::run,
    ),
];

/// An arm that is a fio line.
fn fio_arm<'a>(
    name: &'static str,
    template: &str,
    file: Option<&Path>,
    setup: &BenchSetup,
) -> BenchArm<'a> {
    let line = fio::line(template, file, setup.seconds);
    BenchArm { name, command: line.clone(), run: Box::new(move || fio::run(&line)) }
}

/// Requests that one call of the bare ring hands over, of which the best is looked for.
const BATCHES: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Runs of each, in turns.
const TRIES: usize = 3;

/// The bare ring loop as an arm, with the requests a call that are best here, and what all of them reached.
fn best_bare_arm<'a>(
    file: &Path,
    depth: u32,
    direct: bool,
    setup: &BenchSetup,
) -> Result<(BenchArm<'a>, String)> {
    let mut tried: Vec<(u32, Vec<f64>)> =
        BATCHES.iter().filter(|b| **b <= depth).map(|b| (*b, Vec::new())).collect();
    for _ in 0..TRIES {
        for (batch, rates) in &mut tried {
            let words = bare_words(file, depth, *batch, direct, 1);
            let figures = bare_figures(Command::new(std::env::current_exe()?).args(words))?;
            rates.extend(figures.get("iops"));
        }
    }
    let medians: Vec<(u32, f64)> = tried.iter().map(|(b, rates)| (*b, median(rates))).collect();
    let best = medians.iter().max_by(|a, b| a.1.total_cmp(&b.1)).context("nothing was tried")?.0;
    let told = medians.iter().map(|(batch, rate)| format!("{batch}: {:.1}", rate / 1e3));
    let note = format!(
        "The bare ring hands over at most {best} requests a call, the best of those tried right before, {TRIES} \
         runs of a second each (requests a call: thousands of reads a second, median): {}.",
        told.collect::<Vec<_>>().join(", ")
    );
    Ok((bare("bare ring", bare_words(file, depth, best, direct, setup.seconds)), note))
}

fn bare_words(file: &Path, depth: u32, batch: u32, direct: bool, seconds: u64) -> Vec<String> {
    let mut words = vec!["bare-ring".to_string(), file.display().to_string()];
    words.extend([depth.to_string(), seconds.to_string(), batch.to_string()]);
    words.extend(direct.then(|| "direct".to_string()));
    words
}

/// A bare loop as an arm, in a process of its own.
fn bare<'a>(name: &'static str, words: Vec<String>) -> BenchArm<'a> {
    BenchArm {
        name,
        command: format!("taillight-bench {}", words.join(" ")),
        run: Box::new(move || bare_figures(Command::new(std::env::current_exe()?).args(&words))),
    }
}

/// Runs a bare loop. Its CPU is what it says itself, or that of its whole process.
fn bare_figures(command: &mut Command) -> Result<Figures> {
    let done = child::run(command)?;
    let said: Value = serde_json::from_str(&done.stdout)?;
    let figure = |name: &str| said[name].as_f64().with_context(|| format!("no {name}"));
    let (iops, ios) = (figure("iops")?, figure("ios")?);
    Ok(Figures::from([
        ("iops", iops),
        ("ns_per_io", 1e9 / iops),
        ("cpu_ns", said["cpu_s"].as_f64().unwrap_or(done.cpu_s) * 1e9 / ios),
        ("foreign", done.foreign),
    ]))
}

/// An arm that is a Taillight run.
fn own_arm<'a>(name: &'static str, words: String) -> BenchArm<'a> {
    BenchArm {
        name,
        command: taillight::command_line(&words),
        run: Box::new(move || taillight::run_whole(&words)),
    }
}

/// Bytes of `ios.parquet` an I/O, as a check of the report.
fn at_rest(report: &mut Comparison, arm: &str) -> Result<()> {
    let values = report.column(arm, "at_rest")?;
    report.checks.push(BoundCheck {
        what: format!("{arm}: `ios.parquet` at rest"),
        unit: "bytes an I/O",
        values,
        bound: Bound::AtMost(9.0),
    });
    Ok(())
}
