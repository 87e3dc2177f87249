//! Embedded stores: RocksDB against its own `db_bench`, LevelDB against a bare loop on its C API.
//!
//! Both sides use the same library file, the same options (RocksDB: the OPTIONS file that db_bench
//! wrote, given to Taillight), the same keys (16 bytes, big-endian number), one thread, and values of
//! which half compresses away. Reads are of the very same database files. Disks matter little: all
//! of it stays in the page cache.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::bare;
use crate::pairs::{self, BenchArm, Bound, Comparison, Figures};
use crate::{BenchSetup, child, files, machine, taillight};

/// Records of a database.
const RECORDS: u64 = 1_000_000;
/// db_bench's default, given to both.
const CACHE: u64 = 8 << 20;

/// What a reader must know of the figures of RocksDB.
const ROCKSDB_NOTE: &str = "Same library, same options (the OPTIONS file db_bench wrote), same \
     database for reads. db_bench takes no time of an operation (without --histogram it reads no \
     clock for it); Taillight stamps and keeps every one. The arms called timed run \
     with --histogram, which takes the time of each operation and keeps none of them. CPU is that of the measured time for \
     Taillight and of the whole process for db_bench, background threads included.";

/// RocksDB, values of 100 B.
pub fn rocksdb_100(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb(setup, &RecordSet::of(100))
}

/// RocksDB, values of 1 KiB.
pub fn rocksdb_1k(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb(setup, &RecordSet::of(1024))
}

/// RocksDB, values of 100 B, keys in random order.
pub fn rocksdb_random_100(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb_random(setup, &RecordSet::of(100))
}

/// RocksDB, values of 1 KiB, keys in random order.
pub fn rocksdb_random_1k(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb_random(setup, &RecordSet::of(1024))
}

/// LevelDB, values of 100 B.
pub fn leveldb_100(setup: &BenchSetup) -> Result<Comparison> {
    leveldb(setup, &RecordSet::of(100))
}

/// LevelDB, values of 1 KiB.
pub fn leveldb_1k(setup: &BenchSetup) -> Result<Comparison> {
    leveldb(setup, &RecordSet::of(1024))
}

/// How many records of which size.
struct RecordSet {
    records: u64,
    value: u64,
}

impl RecordSet {
    fn of(value: u64) -> RecordSet {
        RecordSet { records: RECORDS, value }
    }
}

/// A database directory of a bench, empty at first.
fn fresh(name: &str) -> Result<PathBuf> {
    let dir = files::place(name)?;
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    Ok(dir)
}

/// Removes databases of a bench; Taillight has removed its own, unless told to keep it.
fn cleared(dirs: &[PathBuf]) -> Result<()> {
    let mut there = dirs.iter().filter(|d| d.exists());
    Ok(there.try_for_each(fs::remove_dir_all)?)
}

/// The words of db_bench for the database in `dir`.
fn db_bench_words(dir: &Path, shape: &RecordSet, benchmark: &str) -> Vec<String> {
    let mut words = vec![
        format!("--benchmarks={benchmark}"),
        format!("--db={}", dir.display()),
        format!("--num={}", shape.records),
        format!("--value_size={}", shape.value),
        format!("--cache_size={CACHE}"),
    ];
    words.extend(
        // The pool ratio is RocksDB's own default, which a cache by its size has; db_bench's is 0.
        "--key_size=16 --threads=1 --cache_numshardbits=4 --cache_high_pri_pool_ratio=0.5"
            .split(' ')
            .map(String::from),
    );
    words
}

/// The same with a histogram of latencies: db_bench then times every operation, and keeps none.
fn timed(words: &[String]) -> Vec<String> {
    let mut words = words.to_vec();
    words.push("--histogram=1".into());
    words
}

/// db_bench's own rate of one benchmark, and the CPU of its whole process an operation.
fn db_bench(words: &[String], benchmark: &str, shape: &RecordSet) -> Result<Figures> {
    let done = child::run(Command::new("db_bench").args(words))?;
    let rate = rate(&done.stdout, benchmark)
        .with_context(|| format!("db_bench said no rate:\n{}", done.stdout))?;
    let lost = done.stdout.contains(" found)")
        && !done.stdout.contains(&format!("({0} of {0} found)", shape.records));
    ensure!(!lost, "db_bench did not find every key:\n{}", done.stdout);
    Ok(Figures::from([
        ("iops", rate),
        ("ns_per_io", 1e9 / rate),
        ("cpu_ns", done.cpu_s * 1e9 / shape.records as f64),
        ("foreign", done.foreign),
    ]))
}

/// "fillseq      :       4.068 micros/op 245799 ops/sec 4.068 seconds 1000000 operations; ..."
fn rate(text: &str, benchmark: &str) -> Option<f64> {
    let line = text.lines().find(|l| l.starts_with(benchmark))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|w| *w == "ops/sec")?;
    words.get(unit.checked_sub(1)?)?.parse().ok()
}

/// A job of ours in a file: its options reach further than flags.
fn job(name: &str, driver: &str, dir: &Path, options: &str, work: &str) -> Result<String> {
    let file = files::place(name)?;
    let text = format!(
        "[run]\nname = \"bench\"\noperations = {RECORDS}\n[target]\ndriver = \"{driver}\"\n\
         path = \"{}\"\n[target.options]\n{options}\n[[workload]]\n{work}",
        dir.display()
    );
    fs::write(&file, text)?;
    Ok(file.display().to_string())
}

/// Inserts of all records into an empty database.
fn filling(shape: &RecordSet) -> String {
    format!("mix = \"insert\"\n{}", records(shape, 0))
}

/// Reads at random of records that are there, or are loaded before.
fn reading(shape: &RecordSet) -> String {
    let records = records(shape, shape.records);
    format!("mix = \"get\"\naccess = \"random\"\n{records}")
}

fn records(shape: &RecordSet, count: u64) -> String {
    format!(
        "block_size = \"{}B\"\nkeys = {{ count = {count}, naming = \"binary\", size = \"16B\" }}\n\
         payload = {{ kind = \"random\", compressible = 50 }}\n",
        shape.value
    )
}

/// An arm that starts as those of Taillight do.
fn settled(mut arm: BenchArm<'_>, empty: Option<PathBuf>) -> BenchArm<'_> {
    BenchArm {
        name: arm.name,
        command: arm.command.clone(),
        run: Box::new(move || {
            if let Some(dir) = empty.as_ref().filter(|d| d.exists()) {
                fs::remove_dir_all(dir)?;
            }
            machine::settle()?;
            (arm.run)()
        }),
    }
}

/// A run of ours, from a job file; `empty` is a directory to remove before.
fn own<'a>(name: &'static str, job: String, empty: Option<PathBuf>) -> BenchArm<'a> {
    let arm = BenchArm {
        name,
        command: taillight::shown(&job),
        run: Box::new(move || taillight::run(&job)),
    };
    settled(arm, empty)
}

/// A run of db_bench with these words, of `what` with these records.
fn peer<'a>(
    name: &'static str,
    words: &[String],
    what: (&'static str, &'a RecordSet),
    empty: Option<&Path>,
) -> BenchArm<'a> {
    let words = words.to_vec();
    let arm = BenchArm {
        name,
        command: format!("db_bench {}", words.join(" ")),
        run: Box::new(move || db_bench(&words, what.0, what.1)),
    };
    settled(arm, empty.map(Path::to_path_buf))
}

fn rocksdb(setup: &BenchSetup, shape: &RecordSet) -> Result<Comparison> {
    let mut report = Comparison::titled(&format!(
        "RocksDB, {} records of {} B, against db_bench",
        shape.records, shape.value
    ));
    let (theirs, ours) = (fresh("rocksdb-theirs")?, fresh("rocksdb-ours")?);
    let fill = db_bench_words(&theirs, shape, "fillseq");
    db_bench(&fill, "fillseq", shape)?;
    let options = same_options(&theirs)?;
    let job = job("rocksdb-fill.toml", "rocksdb", &ours, &options, &filling(shape))?;
    let what = ("fillseq", shape);
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own("taillight fill", job, Some(ours.clone())),
            peer("db_bench fillseq", &fill, what, Some(&theirs)),
            peer("db_bench fillseq, timed", &timed(&fill), what, Some(&theirs)),
        ],
    )?;
    report.arms.extend(rocksdb_reads(setup, shape, &ours, &options)?);
    compared(
        &mut report,
        &[("taillight fill", "db_bench fillseq"), ("taillight read", "db_bench readrandom")],
    )?;
    report.ratio("iops", "taillight fill", "db_bench fillseq, timed", Bound::None)?;
    report.ratio("iops", "taillight read", "db_bench readrandom, timed", Bound::None)?;
    report.notes.push(ROCKSDB_NOTE.into());
    cleared(&[theirs, ours])?;
    Ok(report)
}

/// Random reads of one database in `dir`: loaded by us, compacted by db_bench.
fn rocksdb_reads(
    setup: &BenchSetup,
    shape: &RecordSet,
    dir: &Path,
    options: &str,
) -> Result<Vec<pairs::PairedRounds>> {
    let kept = format!("{options}keep = true\n");
    let job = job("rocksdb-read.toml", "rocksdb", dir, &kept, &reading(shape))?;
    taillight::run(&job)?;
    let there = |benchmark: &str| {
        let mut words = db_bench_words(dir, shape, benchmark);
        words.push("--use_existing_db=1".into());
        words
    };
    child::run(Command::new("db_bench").args(there("compact")))?;
    let (read, what) = (there("readrandom"), ("readrandom", shape));
    pairs::run(
        setup.pairs,
        vec![
            own("taillight read", job, None),
            peer("db_bench readrandom", &read, what, None),
            peer("db_bench readrandom, timed", &timed(&read), what, None),
        ],
    )
}

/// A fill in random order of the keys. db_bench's `fillrandom` draws numbers with repeats, so that a
/// third of its records are overwritten; its `filluniquerandom` writes each key once, as we do.
fn rocksdb_random(setup: &BenchSetup, shape: &RecordSet) -> Result<Comparison> {
    let mut report = Comparison::titled(&format!(
        "RocksDB, {} records of {} B in random order, against db_bench",
        shape.records, shape.value
    ));
    let (theirs, ours) = (fresh("rocksdb-theirs")?, fresh("rocksdb-ours")?);
    let mut fill = db_bench_words(&theirs, shape, "filluniquerandom");
    // Our keys are hashes in 20 decimal digits.
    fill.push("--key_size=20".into());
    db_bench(&fill, "filluniquerandom", shape)?;
    let options = same_options(&theirs)?;
    let work = format!(
        "mix = \"insert\"\nblock_size = \"{}B\"\npayload = {{ kind = \"random\", compressible = 50 }}\n\
         keys = {{ count = 0, naming = \"hashed\", prefix = \"\", digits = 20 }}\n",
        shape.value
    );
    let filler = job("rocksdb-random.toml", "rocksdb", &ours, &options, &work)?;
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own("taillight random fill", filler, Some(ours.clone())),
            peer("db_bench filluniquerandom", &fill, ("filluniquerandom", shape), Some(&theirs)),
        ],
    )?;
    compared(&mut report, &[("taillight random fill", "db_bench filluniquerandom")])?;
    report.notes.push(ROCKSDB_NOTE.into());
    cleared(&[theirs, ours])?;
    Ok(report)
}

/// What is asked of each pair of arms.
fn compared(report: &mut Comparison, arms: &[(&str, &str)]) -> Result<()> {
    for (own, other) in arms {
        report.ratio("iops", own, other, Bound::AtLeast(1.0))?;
        report.ratio("cpu_ns", own, other, Bound::AtMost(1.0))?;
    }
    Ok(())
}

/// Our options for a database like the one that db_bench made in `dir`.
fn same_options(dir: &Path) -> Result<String> {
    let file = newest_options(dir)?.display().to_string();
    Ok(format!("options_file = \"{file}\"\nblock_cache = \"{CACHE}B\"\n"))
}

/// The options in force, as RocksDB wrote them last; copied, since the database goes.
fn newest_options(dir: &Path) -> Result<PathBuf> {
    let names = fs::read_dir(dir)?.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let newest = names.filter(|n| n.starts_with("OPTIONS-")).max();
    let newest = newest.context("db_bench left no OPTIONS file")?;
    let copy = files::place("rocksdb-options")?;
    fs::copy(dir.join(newest), &copy)?;
    Ok(copy)
}

fn leveldb(setup: &BenchSetup, shape: &RecordSet) -> Result<Comparison> {
    let mut report = Comparison::titled(&format!(
        "LevelDB, {} records of {} B, against a bare loop on its C API",
        shape.records, shape.value
    ));
    let (theirs, ours) = (fresh("leveldb-theirs")?, fresh("leveldb-ours")?);
    let filler = job("leveldb-fill.toml", "leveldb", &ours, "", &filling(shape))?;
    let words = |dir: &Path, what: &str| {
        let (dir, records, value) = (dir.display(), shape.records, shape.value);
        format!("bare-leveldb {dir} {what} {records} {value}")
            .split(' ')
            .map(String::from)
            .collect::<Vec<_>>()
    };
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own("taillight fill", filler, Some(ours.clone())),
            settled(bare("bare fill", words(&theirs, "fill")), Some(theirs.clone())),
        ],
    )?;
    let reader = job("leveldb-read.toml", "leveldb", &ours, "keep = true\n", &reading(shape))?;
    taillight::run(&reader)?;
    let compact = words(&ours, "compact");
    child::run(Command::new(std::env::current_exe()?).args(compact))?;
    report.arms.extend(pairs::run(
        setup.pairs,
        vec![
            own("taillight read", reader, None),
            settled(bare("bare read", words(&ours, "read")), None),
        ],
    )?);
    compared(&mut report, &[("taillight fill", "bare fill"), ("taillight read", "bare read")])?;
    report.notes.push(
        "LevelDB's default options on both sides. The bare loop is written as LevelDB's db_bench: it \
         takes no time of an operation. Its CPU is that of its whole process, and so is opening and \
         closing; Taillight's is that of the measured time, background threads included."
            .into(),
    );
    cleared(&[theirs, ours])?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_from_db_bench() {
        let text =
            "DB path: [/x]\nfillseq      :       4.068 micros/op 245799 ops/sec 4.068 seconds\n";
        assert_eq!(rate(text, "fillseq"), Some(245_799.0));
        assert_eq!(rate(text, "readrandom"), None);
    }
}
