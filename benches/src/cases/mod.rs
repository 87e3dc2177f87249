//! The cases, one visible list. Adding one: a function here or in a file beside, and a line.

mod cached;
mod capture;
mod direct;
mod draws;
mod fio_import;
mod null;
mod objects;
mod pacing;
mod payload;
mod start;
mod stores;
mod tracing;

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::pairs::{BenchArm, Bound, BoundCheck, Comparison, Figures};
use crate::{BenchSetup, child, fio, taillight};

/// One comparison or measurement.
pub struct BenchCase {
    /// Name on the command line and in the docs' markers.
    pub name: &'static str,
    /// One line for people.
    pub about: &'static str,
    pub run: fn(&BenchSetup) -> Result<Comparison>,
}

/// Every case, cheap ones first.
pub const CASES: &[BenchCase] = &[
    BenchCase { name: "start", about: "time of --help, size of the binary", run: start::run },
    BenchCase { name: "build", about: "release build from clean", run: start::build },
    BenchCase {
        name: "draws",
        about: "ns a draw of every distribution, and of writing a key",
        run: draws::run,
    },
    BenchCase {
        name: "payload",
        about: "bytes of each payload made by one core, sealing and checking of blocks",
        run: payload::run,
    },
    BenchCase {
        name: "pacing",
        about: "schedules from 10 to 1,000,000 a second: counts and CPU",
        run: pacing::run,
    },
    BenchCase {
        name: "pacing-direct",
        about: "direct reads at 1,000, 5,000 and 10,000 a second beside fio's",
        run: pacing::on_disk,
    },
    BenchCase {
        name: "null-1",
        about: "null at depth 1 against fio's null engine",
        run: null::depth_1,
    },
    BenchCase {
        name: "null-32",
        about: "null at depth 32 against fio's null engine, its batching at its best too",
        run: null::depth_32,
    },
    BenchCase {
        name: "two-workers",
        about: "two workers against two processes of one worker",
        run: null::two_workers,
    },
    BenchCase {
        name: "cached-sync",
        about: "page-cached 4 KiB reads, engine sync against fio psync",
        run: cached::sync,
    },
    BenchCase {
        name: "cached-uring",
        about: "page-cached 4 KiB reads, depth 32, against fio io_uring and a bare ring",
        run: cached::uring,
    },
    BenchCase {
        name: "direct-1",
        about: "direct 4 KiB reads on the disk, depth 1, against fio io_uring",
        run: direct::depth_1,
    },
    BenchCase {
        name: "direct-32",
        about: "direct 4 KiB reads on the disk, depth 32, against fio io_uring",
        run: direct::depth_32,
    },
    BenchCase {
        name: "trace-direct",
        about: "direct 4 KiB reads, depth 32: traced against untraced, and biosnoop beside",
        run: tracing::direct,
    },
    BenchCase {
        name: "trace-cached",
        about: "page-cached 4 KiB reads, traced against untraced",
        run: tracing::cached,
    },
    BenchCase {
        name: "rocksdb-100",
        about: "RocksDB, a million records of 100 B, against its db_bench: fill and reads",
        run: stores::rocksdb_100,
    },
    BenchCase {
        name: "rocksdb-1k",
        about: "the same with records of 1 KiB",
        run: stores::rocksdb_1k,
    },
    BenchCase {
        name: "rocksdb-random-100",
        about: "RocksDB, a million records of 100 B in random order of their keys: fill",
        run: stores::rocksdb_random_100,
    },
    BenchCase {
        name: "rocksdb-random-1k",
        about: "the same with records of 1 KiB",
        run: stores::rocksdb_random_1k,
    },
    BenchCase {
        name: "leveldb-100",
        about: "LevelDB, a million records of 100 B, against a bare loop: fill and reads",
        run: stores::leveldb_100,
    },
    BenchCase {
        name: "leveldb-1k",
        about: "the same with records of 1 KiB",
        run: stores::leveldb_1k,
    },
    BenchCase {
        name: "s3-4k",
        about: "objects of 4 KiB in a MinIO, get and put, against a bare hyper client",
        run: objects::small,
    },
    BenchCase { name: "s3-64k", about: "the same with objects of 64 KiB", run: objects::middle },
    BenchCase { name: "s3-1m", about: "the same with objects of 1 MiB", run: objects::large },
    BenchCase {
        name: "s3-equal",
        about: "the bare client against itself, objects of 64 KiB: what the server's own rate does to a ratio",
        run: objects::equal,
    },
    BenchCase {
        name: "fio-import",
        about: "fio's own job files, imported, against fio: IOPS, block sizes, offsets",
        run: fio_import::run,
    },
    BenchCase {
        name: "capture",
        about: "100 million I/Os on null: bytes an I/O, nothing lost, report time and memory",
        run: capture::run,
    },
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

/// The bare ring loop as an arm.
fn bare_arm<'a>(file: &Path, depth: u32, direct: bool, setup: &BenchSetup) -> BenchArm<'a> {
    let mut words = vec!["bare-ring".to_string(), file.display().to_string()];
    words.extend([depth.to_string(), setup.seconds.to_string()]);
    words.extend(direct.then(|| "direct".to_string()));
    bare("bare ring", words)
}

/// A bare loop as an arm, in a process of its own.
fn bare<'a>(name: &'static str, words: Vec<String>) -> BenchArm<'a> {
    BenchArm {
        name,
        command: format!("taillight-bench {}", words.join(" ")),
        run: Box::new(move || {
            let done = child::run(Command::new(std::env::current_exe()?).args(&words))?;
            let said: Value = serde_json::from_str(&done.stdout)?;
            let iops = said["iops"].as_f64().context("no iops")?;
            let ios = said["ios"].as_f64().context("no ios")?;
            Ok(Figures::from([
                ("iops", iops),
                ("ns_per_io", 1e9 / iops),
                ("cpu_ns", done.cpu_s * 1e9 / ios),
                ("foreign", done.foreign),
            ]))
        }),
    }
}

/// An arm that is a Taillight run.
fn own_arm<'a>(name: &'static str, words: String) -> BenchArm<'a> {
    BenchArm {
        name,
        command: taillight::shown(&words),
        run: Box::new(move || taillight::run(&words)),
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
