//! Embedded stores: RocksDB against its own `db_bench`, LevelDB and SQLite against bare loops on their
//! C APIs.
//!
//! Both sides use the same library file, the same options (RocksDB: the OPTIONS file that db_bench
//! wrote, given to Taillight), keys of one form (16 bytes, big-endian number, unless the order is
//! random), equally many threads, and values of which half compresses away. Reads are of the very same
//! database files. Disks matter little: all of it stays in the page cache.

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

/// Rates asked for, as shares of those of db_bench and of a bare loop, which take no time of an operation.
const OF_DB_BENCH: f64 = 0.98;
const OF_BARE_LOOP: f64 = 0.95;

/// What a reader must know of the figures of RocksDB.
const ROCKSDB_NOTE: &str = "Same library, same options (the OPTIONS file db_bench wrote), same \
     database for reads. db_bench takes no time of an operation (without --histogram it reads no \
     clock for it); Taillight stamps and keeps every one. The arms called timed run \
     with --histogram, which takes the time of each operation and keeps none of them. CPU ns an I/O is \
     that of the measured time for Taillight and of the whole process for db_bench; that of the whole \
     process is from the command to its end on both sides, with Taillight's page and the deletion of a \
     database that it filled. Background threads are in both. In fills of 1 KiB the values of \
     db_bench take longer to compress: ten pieces of 50 random bytes and the same again, where \
     Taillight's are 512 random bytes and 512 zeros.";

/// RocksDB, values of 100 B.
pub fn rocksdb_100(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb(setup, 100)
}

/// RocksDB, values of 1 KiB.
pub fn rocksdb_1k(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb(setup, 1024)
}

/// RocksDB, values of 100 B, keys in random order.
pub fn rocksdb_random_100(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb_random(setup, 100)
}

/// RocksDB, values of 1 KiB, keys in random order.
pub fn rocksdb_random_1k(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb_random(setup, 1024)
}

/// RocksDB, values of 100 B, two threads.
pub fn rocksdb_two_100(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb_two(setup, 100)
}

/// RocksDB, values of 1 KiB, two threads.
pub fn rocksdb_two_1k(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb_two(setup, 1024)
}

/// RocksDB, values of 100 B, a reader beside a writer.
pub fn rocksdb_while_100(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb_while(setup, 100)
}

/// RocksDB, values of 1 KiB, a reader beside a writer.
pub fn rocksdb_while_1k(setup: &BenchSetup) -> Result<Comparison> {
    rocksdb_while(setup, 1024)
}

/// LevelDB, values of 100 B.
pub fn leveldb_100(setup: &BenchSetup) -> Result<Comparison> {
    leveldb(setup, 100)
}

/// LevelDB, values of 1 KiB.
pub fn leveldb_1k(setup: &BenchSetup) -> Result<Comparison> {
    leveldb(setup, 1024)
}

/// SQLite, values of 100 B.
pub fn sqlite_100(setup: &BenchSetup) -> Result<Comparison> {
    sqlite(setup, 100)
}

/// A database directory of a bench, empty at first.
pub fn fresh(name: &str) -> Result<PathBuf> {
    let dir = files::bench_path(name)?;
    if dir.exists() {
        fs::remove_dir_all(&dir)?;
    }
    Ok(dir)
}

/// Removes databases of a bench; Taillight has removed its own, unless told to keep it.
pub fn cleared(dirs: &[PathBuf]) -> Result<()> {
    let mut there = dirs.iter().filter(|d| d.exists());
    Ok(there.try_for_each(fs::remove_dir_all)?)
}

/// db_bench's random reads of a database that is filled here, values of 100 B.
pub fn random_reads() -> Result<DbBench> {
    let dir = fresh("rocksdb-watched")?;
    DbBench::new(&dir, 100, "fillseq").load()?;
    Ok(DbBench::new(&dir, 100, "readrandom").with("--use_existing_db=1"))
}

/// A benchmark of db_bench, with all that it is told.
#[derive(Clone)]
pub struct DbBench {
    benchmark: &'static str,
    words: Vec<String>,
}

impl DbBench {
    /// On the database in `dir`, with values of so many bytes.
    fn new(dir: &Path, value: u64, benchmark: &'static str) -> DbBench {
        // The pool ratio is RocksDB's own default, which a cache by its size has; db_bench's is 0.
        let words = format!(
            "--benchmarks={benchmark} --db={} --num={RECORDS} --value_size={value} \
             --cache_size={CACHE} --key_size=16 --threads=1 --cache_numshardbits=4 \
             --cache_high_pri_pool_ratio=0.5",
            dir.display()
        );
        DbBench { benchmark, words: words.split_whitespace().map(String::from).collect() }
    }

    fn with(mut self, word: &str) -> DbBench {
        self.words.push(word.to_owned());
        self
    }

    /// This benchmark with a histogram of latencies: db_bench then times every operation, and keeps none.
    fn timed(&self) -> DbBench {
        self.clone().with("--histogram=1")
    }

    /// Runs it: the rate and, with a histogram, p99 that db_bench says, and the CPU of its whole process an operation.
    /// Errors: also where reads missed keys.
    pub fn run(&self) -> Result<Figures> {
        let done = child::run(Command::new("db_bench").args(&self.words))?;
        let rate = rate(&done.stdout, self.benchmark)
            .with_context(|| format!("db_bench said no rate:\n{}", done.stdout))?;
        ensure!(!lost(&done.stdout), "db_bench did not find every key:\n{}", done.stdout);
        let mut sample = Figures::from([
            ("iops", rate),
            ("ns_per_io", 1e9 / rate),
            ("cpu_ns", done.cpu_s * 1e9 / RECORDS as f64),
            ("all_cpu_ns", done.cpu_s * 1e9 / RECORDS as f64),
            ("foreign", done.foreign),
        ]);
        sample.extend(percentile(&done.stdout, "P99:").map(|ns| ("p99_ns", ns)));
        Ok(sample)
    }

    /// What a person would type for it.
    pub fn command_line(&self) -> String {
        format!("db_bench {}", self.words.join(" "))
    }

    /// Runs it for what it leaves behind.
    fn load(&self) -> Result<()> {
        child::run(Command::new("db_bench").args(&self.words)).map(|_| ())
    }

    /// As an arm; `empty` is a directory to remove before.
    fn arm<'a>(self, name: &'static str, empty: Option<&Path>) -> BenchArm<'a> {
        let arm =
            BenchArm { name, command: self.command_line(), run: Box::new(move || self.run()) };
        settled(arm, empty.map(Path::to_path_buf))
    }
}

/// "fillseq      :       4.068 micros/op 245799 ops/sec 4.068 seconds 1000000 operations; ..."
fn rate(text: &str, benchmark: &str) -> Option<f64> {
    let line = text.lines().find(|l| l.starts_with(benchmark))?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let unit = words.iter().position(|w| *w == "ops/sec")?;
    words.get(unit.checked_sub(1)?)?.parse().ok()
}

/// Whether reads missed keys: "(999 of 1000 found)".
fn lost(text: &str) -> bool {
    let found = text.split('(').filter_map(|part| part.split_once(" found)"));
    found.filter_map(|(counts, _)| counts.split_once(" of ")).any(|(hits, all)| hits != all)
}

/// "Percentiles: P50: 2.34 P75: 3.05 P99: 8.99 ...", of a benchmark that was timed; ns.
fn percentile(text: &str, which: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Percentiles:"))?;
    let us = line.split_whitespace().skip_while(|word| *word != which).nth(1)?;
    us.parse::<f64>().ok().map(|us| us * 1e3)
}

/// A job of ours in a file: its options reach further than flags.
fn job(name: &str, driver: &str, dir: &Path, options: &str, work: &str) -> Result<String> {
    let file = files::bench_path(name)?;
    let text = format!(
        "[run]\nname = \"bench\"\noperations = {RECORDS}\n[target]\ndriver = \"{driver}\"\n\
         path = \"{}\"\n[target.options]\n{options}\n[[workload]]\n{work}",
        dir.display()
    );
    fs::write(&file, text)?;
    Ok(file.display().to_string())
}

/// Keys as db_bench and the bare loop have them.
const BINARY: &str = "naming = \"binary\", size = \"16B\"";

/// Inserts of all records into an empty database.
fn filling(value: u64) -> String {
    format!("mix = \"insert\"\n{}", records(value, 0, BINARY))
}

/// Reads at random of records that are there, or are loaded before.
fn reading(value: u64) -> String {
    let records = records(value, RECORDS, BINARY);
    format!("mix = \"get\"\naccess = \"random\"\n{records}")
}

fn records(value: u64, count: u64, names: &str) -> String {
    format!(
        "block_size = \"{value}B\"\nkeys = {{ count = {count}, {names} }}\n\
         payload = {{ kind = \"random\", compressible = 50 }}\n"
    )
}

/// An arm whose every run begins with settled memory and without the directory `empty`.
pub fn settled(mut arm: BenchArm<'_>, empty: Option<PathBuf>) -> BenchArm<'_> {
    BenchArm {
        name: arm.name,
        command: arm.command.clone(),
        run: Box::new(move || {
            if let Some(dir) = empty.as_ref().filter(|d| d.exists()) {
                fs::remove_dir_all(dir)?;
            }
            machine::sync_and_warm()?;
            (arm.run)()
        }),
    }
}

/// An arm that writes into a database that is there. Each one begins with all of it compacted: else reads
/// look through as many files as the runs before have left.
fn compacted<'a>(mut arm: BenchArm<'a>, compact: impl Fn() -> Result<()> + 'a) -> BenchArm<'a> {
    BenchArm {
        name: arm.name,
        command: arm.command.clone(),
        run: Box::new(move || {
            compact()?;
            (arm.run)()
        }),
    }
}

/// Has db_bench compact all of its database in `dir`.
fn compact_theirs(dir: &Path, value: u64) -> impl Fn() -> Result<()> + use<> {
    let compact = DbBench::new(dir, value, "compact").with("--use_existing_db=1");
    move || compact.load()
}

/// Has Taillight load the database of a reader's job, where it is missing, and compact all of it: Taillight takes no
/// database that another program has changed.
fn compact_ours(reader: &str) -> impl Fn() -> Result<()> + use<> {
    let words = format!("{reader} --set run.before=[\"compact\"]");
    move || taillight::run(&words).map(drop)
}

/// Arms that write into databases that are there: ours, and db_bench's in `dir`, without and with the time of each
/// operation. Each begins compacted.
fn compacted_sides<'a>(
    ours: BenchArm<'a>,
    compact: impl Fn() -> Result<()> + 'a,
    theirs: &DbBench,
    (dir, value): (&Path, u64),
    names: [&'static str; 2],
) -> Vec<BenchArm<'a>> {
    let [plain, timed] = names;
    vec![
        compacted(ours, compact),
        compacted(theirs.clone().arm(plain, None), compact_theirs(dir, value)),
        compacted(theirs.timed().arm(timed, None), compact_theirs(dir, value)),
    ]
}

/// A copy of the database in `from` for the other side, which would change it.
fn copied(from: &Path, to: &Path) -> Result<()> {
    cleared(&[to.to_path_buf()])?;
    fs::create_dir(to)?;
    for file in fs::read_dir(from)? {
        let file = file?;
        fs::copy(file.path(), to.join(file.file_name()))?;
    }
    Ok(())
}

/// A run of ours, from a job file; `empty` is a directory to remove before.
fn own<'a>(name: &'static str, job: String, empty: Option<&Path>) -> BenchArm<'a> {
    let arm = BenchArm {
        name,
        command: taillight::command_line(&job),
        run: Box::new(move || taillight::run_whole(&job)),
    };
    settled(arm, empty.map(Path::to_path_buf))
}

/// An arm whose CPU is that of its whole process.
fn whole(mut arm: BenchArm<'_>) -> BenchArm<'_> {
    BenchArm {
        name: arm.name,
        command: arm.command.clone(),
        run: Box::new(move || {
            let mut sample = (arm.run)()?;
            sample.insert("all_cpu_ns", sample["cpu_ns"]);
            Ok(sample)
        }),
    }
}

fn rocksdb(setup: &BenchSetup, value: u64) -> Result<Comparison> {
    let (theirs, ours) = (fresh("rocksdb-theirs")?, fresh("rocksdb-ours")?);
    let mut report =
        Comparison::titled(&format!("RocksDB, {RECORDS} records of {value} B, against db_bench"));
    let fill = DbBench::new(&theirs, value, "fillseq");
    fill.run()?;
    let options = same_options(&theirs)?;
    let filler = job("rocksdb-fill.toml", "rocksdb", &ours, &options, &filling(value))?;
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own("taillight fill", filler, Some(&ours)),
            fill.clone().arm("db_bench fillseq", Some(&theirs)),
            fill.timed().arm("db_bench fillseq, timed", Some(&theirs)),
        ],
    )?;
    // Random reads of one database, loaded and compacted by us, and of a copy of it.
    let kept = format!("{options}keep = true\n");
    let reader = job("rocksdb-read.toml", "rocksdb", &ours, &kept, &reading(value))?;
    compact_ours(&reader)()?;
    copied(&ours, &theirs)?;
    let read = DbBench::new(&theirs, value, "readrandom").with("--use_existing_db=1");
    report.arms.extend(pairs::run(
        setup.pairs,
        vec![
            own("taillight read", reader, None),
            read.clone().arm("db_bench readrandom", None),
            read.timed().arm("db_bench readrandom, timed", None),
        ],
    )?);
    compared(
        &mut report,
        &[("taillight fill", "db_bench fillseq"), ("taillight read", "db_bench readrandom")],
        OF_DB_BENCH,
    )?;
    report.ratio("iops", "taillight fill", "db_bench fillseq, timed", Bound::None)?;
    report.ratio("iops", "taillight read", "db_bench readrandom, timed", Bound::None)?;
    let tail = Bound::AtMost(1.1);
    report.ratio("p99_ns", "taillight fill", "db_bench fillseq, timed", tail)?;
    report.ratio("p99_ns", "taillight read", "db_bench readrandom, timed", tail)?;
    report.notes.push(ROCKSDB_NOTE.into());
    cleared(&[theirs, ours])?;
    Ok(report)
}

/// A fill in random order of the keys. db_bench's `fillrandom` draws numbers with repeats, so that a
/// third of its records are overwritten; its `filluniquerandom` writes each key once, as we do.
fn rocksdb_random(setup: &BenchSetup, value: u64) -> Result<Comparison> {
    let (theirs, ours) = (fresh("rocksdb-theirs")?, fresh("rocksdb-ours")?);
    let mut report = Comparison::titled(&format!(
        "RocksDB, {RECORDS} records of {value} B in random order, against db_bench"
    ));
    // Our keys are hashes in 20 decimal digits.
    let fill = DbBench::new(&theirs, value, "filluniquerandom").with("--key_size=20");
    fill.run()?;
    let options = same_options(&theirs)?;
    let hashed = "naming = \"hashed\", prefix = \"\", digits = 20";
    let work = format!("mix = \"insert\"\n{}", records(value, 0, hashed));
    let filler = job("rocksdb-random.toml", "rocksdb", &ours, &options, &work)?;
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own("taillight random fill", filler, Some(&ours)),
            fill.arm("db_bench filluniquerandom", Some(&theirs)),
        ],
    )?;
    let pair = [("taillight random fill", "db_bench filluniquerandom")];
    compared(&mut report, &pair, OF_DB_BENCH)?;
    report.notes.push(ROCKSDB_NOTE.into());
    cleared(&[theirs, ours])?;
    Ok(report)
}

/// Random reads by two threads of one database, loaded and compacted by us, and of a copy of it, and overwrites of
/// both.
fn rocksdb_two(setup: &BenchSetup, value: u64) -> Result<Comparison> {
    let (theirs, ours) = (fresh("rocksdb-theirs")?, fresh("rocksdb-ours")?);
    let mut report = Comparison::titled(&format!(
        "RocksDB, {RECORDS} records of {value} B, two threads, against db_bench"
    ));
    DbBench::new(&theirs, value, "fillseq,compact").load()?;
    let options = format!("{}keep = true\n", same_options(&theirs)?);
    let half = RECORDS / 2;
    let two = |dir, what| {
        let each = format!("--reads={half} --writes={half} --threads=2 --use_existing_db=1");
        each.split(' ').fold(DbBench::new(dir, value, what), DbBench::with)
    };
    let reader = reading(value) + "workers = 2\n";
    let writer = reader.replace("\"get\"", "\"update\"");
    let reader = job("rocksdb-read.toml", "rocksdb", &ours, &options, &reader)?;
    let writer = job("rocksdb-update.toml", "rocksdb", &ours, &options, &writer)?;
    let compact = compact_ours(&reader);
    compact()?;
    copied(&ours, &theirs)?;
    let (read, write) = (two(&theirs, "readrandom"), two(&theirs, "overwrite"));
    for arms in [
        vec![
            own("taillight read", reader, None),
            read.clone().arm("db_bench readrandom", None),
            read.timed().arm("db_bench readrandom, timed", None),
        ],
        compacted_sides(
            own("taillight update", writer, None),
            compact,
            &write,
            (&theirs, value),
            ["db_bench overwrite", "db_bench overwrite, timed"],
        ),
    ] {
        report.arms.extend(pairs::run(setup.pairs, arms)?);
    }
    let pairs =
        [("taillight read", "db_bench readrandom"), ("taillight update", "db_bench overwrite")];
    compared(&mut report, &pairs, OF_DB_BENCH)?;
    let tail = Bound::AtMost(1.1);
    report.ratio("p99_ns", "taillight read", "db_bench readrandom, timed", tail)?;
    report.ratio("p99_ns", "taillight update", "db_bench overwrite, timed", tail)?;
    report.notes.push(ROCKSDB_NOTE.into());
    cleared(&[theirs, ours])?;
    Ok(report)
}

/// Random reads by one thread while another overwrites 2 MiB/s (the rate of RocksDB's own `benchmark.sh`),
/// which is counted on neither side. Both read a database that we have loaded, db_bench a copy: how well values
/// compress decides what a read costs. As fast as it can, the writer would decide what the reader gets.
/// db_bench's writes what it may in 100 ms at once
/// (RocksDB's rate limiter), as fast as it can, and so does ours: each at its own time would cost more wake-ups.
fn rocksdb_while(setup: &BenchSetup, value: u64) -> Result<Comparison> {
    let (theirs, ours) = (fresh("rocksdb-theirs")?, fresh("rocksdb-ours")?);
    let mut report = Comparison::titled(&format!(
        "RocksDB, {RECORDS} records of {value} B, reads beside a writer, against db_bench"
    ));
    DbBench::new(&theirs, value, "fillseq,compact").load()?;
    let options = format!("{}keep = true\n", same_options(&theirs)?);
    let read = reading(value);
    let write = read.replace("\"get\"", "\"update\"");
    let bytes = 2 << 20;
    let rate = 100 * bytes / (value + 16);
    let bursts =
        format!("{{ kind = \"bursts\", rate = \"{rate}/s\", on = \"1ms\", off = \"99ms\" }}");
    let work = format!(
        "{read}[[workload]]\nname = \"writer\"\nmeasured = false\narrival = {bursts}\n{write}"
    );
    let reader = job("rocksdb-read.toml", "rocksdb", &ours, &options, &read)?;
    let compact = compact_ours(&reader);
    compact()?;
    copied(&ours, &theirs)?;
    let job = job("rocksdb-while.toml", "rocksdb", &ours, &options, &work)?;
    let peer = DbBench::new(&theirs, value, "readwhilewriting")
        .with("--use_existing_db=1")
        .with(&format!("--benchmark_write_rate_limit={bytes}"));
    report.arms = pairs::run(
        setup.pairs,
        compacted_sides(
            own("taillight read", job, None),
            compact,
            &peer,
            (&theirs, value),
            ["db_bench readwhilewriting", "db_bench readwhilewriting, timed"],
        ),
    )?;
    let pair = [("taillight read", "db_bench readwhilewriting")];
    compared(&mut report, &pair, OF_DB_BENCH)?;
    let timed = "db_bench readwhilewriting, timed";
    report.ratio("p99_ns", "taillight read", timed, Bound::AtMost(1.1))?;
    report.notes.push(ROCKSDB_NOTE.into());
    report.notes.push("CPU includes the writer, per operation of the reader.".into());
    cleared(&[theirs, ours])?;
    Ok(report)
}

/// What is asked of each pair of arms: of the rate `least`, and of the CPU of the whole process.
fn compared(report: &mut Comparison, arms: &[(&str, &str)], least: f64) -> Result<()> {
    for (own, other) in arms {
        report.ratio("iops", own, other, Bound::AtLeast(least))?;
        report.ratio("cpu_ns", own, other, Bound::None)?;
        report.ratio("all_cpu_ns", own, other, Bound::AtMost(1.05))?;
    }
    Ok(())
}

/// Our options for a database like the one that db_bench made in `dir`.
fn same_options(dir: &Path) -> Result<String> {
    let file = newest_options(dir)?.display().to_string();
    Ok(format!("options_file = \"{file}\"\nblock_cache = \"{CACHE}B\"\n"))
}

/// The options in force, as RocksDB wrote them last; copied, since the database goes.
pub fn newest_options(dir: &Path) -> Result<PathBuf> {
    let names = fs::read_dir(dir)?.filter_map(|e| e.ok()?.file_name().into_string().ok());
    let newest = names.filter(|n| n.starts_with("OPTIONS-")).max();
    let newest = newest.context("db_bench left no OPTIONS file")?;
    let copy = files::bench_path("rocksdb-options")?;
    fs::copy(dir.join(newest), &copy)?;
    Ok(copy)
}

/// What a reader must know of the arms called threads.
const THREADS_NOTE: &str = "The bare loop is a process of one thread; with `threads` it is on a second one, as a worker \
     is: no program that measures has one thread, and in a process of one, locks of the C library, calls on files and \
     memory cost less.";

/// The words of a bare loop on the database in `dir`.
fn loop_words(program: &str, dir: &Path, what: &str, value: u64) -> Vec<String> {
    let all = format!("{program} {} {what} {RECORDS} {value}", dir.display());
    all.split(' ').map(String::from).collect()
}

fn leveldb(setup: &BenchSetup, value: u64) -> Result<Comparison> {
    let mut report = Comparison::titled(&format!(
        "LevelDB, {RECORDS} records of {value} B, against a bare loop on its C API"
    ));
    let (theirs, ours) = (fresh("leveldb-theirs")?, fresh("leveldb-ours")?);
    let filler = job("leveldb-fill.toml", "leveldb", &ours, "", &filling(value))?;
    let words = |dir: &Path, what: &str| loop_words("bare-leveldb", dir, what, value);
    let threaded = |dir: &Path, what: &str| [words(dir, what), vec!["threads".into()]].concat();
    let bare_loop = |name, words, empty: Option<&Path>| {
        settled(whole(bare(name, words)), empty.map(Path::to_path_buf))
    };
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own("taillight fill", filler, Some(&ours)),
            bare_loop("bare fill", words(&theirs, "fill"), Some(&theirs)),
            bare_loop("bare fill, threads", threaded(&theirs, "fill"), Some(&theirs)),
        ],
    )?;
    let reader = job("leveldb-read.toml", "leveldb", &ours, "keep = true\n", &reading(value))?;
    compact_ours(&reader)()?;
    copied(&ours, &theirs)?;
    report.arms.extend(pairs::run(
        setup.pairs,
        vec![
            own("taillight read", reader, None),
            bare_loop("bare read", words(&theirs, "read"), None),
            bare_loop("bare read, threads", threaded(&theirs, "read"), None),
        ],
    )?);
    for bare in ["bare fill", "bare fill, threads"] {
        compared(&mut report, &[("taillight fill", bare)], OF_BARE_LOOP)?;
    }
    for bare in ["bare read", "bare read, threads"] {
        compared(&mut report, &[("taillight read", bare)], OF_BARE_LOOP)?;
    }
    report.notes.push(format!(
        "LevelDB's default options on both sides. The bare loop is written as LevelDB's db_bench, with \
         values that compress as Taillight's: it takes no time of an operation. CPU ns an I/O is that \
         of the measured time for Taillight, and of the whole process for the loop, opening and closing \
         with it; that of the whole process is from the command to its end on both sides, with \
         Taillight's page and the deletion of a database that it filled. Background threads are in \
         both. {THREADS_NOTE} \
         While it fills, LevelDB has a second thread of its own."
    ));
    cleared(&[theirs, ours])?;
    Ok(report)
}

fn sqlite(setup: &BenchSetup, value: u64) -> Result<Comparison> {
    const OPTIONS: &str = "synchronous = \"off\"\n";
    let mut report = Comparison::titled(&format!(
        "SQLite, {RECORDS} records of {value} B, against a bare loop on its C API"
    ));
    let (theirs, ours) = (fresh("sqlite-theirs")?, fresh("sqlite-ours")?);
    let filler = job("sqlite-fill.toml", "sqlite", &ours, OPTIONS, &filling(value))?;
    let kept = format!("{OPTIONS}keep = true\n");
    let reader = job("sqlite-read.toml", "sqlite", &ours, &kept, &reading(value))?;
    let words = |dir: &Path, what: &str| loop_words("bare-sqlite", dir, what, value);
    let threaded = |dir: &Path, what: &str| [words(dir, what), vec!["threads".into()]].concat();
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own("taillight fill", filler, Some(&ours)),
            settled(bare("bare fill", words(&theirs, "fill")), Some(theirs.clone())),
            settled(bare("bare fill, threads", threaded(&theirs, "fill")), Some(theirs.clone())),
        ],
    )?;
    taillight::run(&reader)?;
    report.arms.extend(pairs::run(
        setup.pairs,
        vec![
            own("taillight read", reader, None),
            settled(bare("bare read", words(&ours, "read")), None),
            settled(bare("bare read, threads", threaded(&ours, "read")), None),
        ],
    )?);
    for what in ["fill", "read"] {
        for bare in [format!("bare {what}"), format!("bare {what}, threads")] {
            report.ratio("iops", &format!("taillight {what}"), &bare, Bound::AtLeast(0.97))?;
        }
    }
    report.notes.push(format!(
        "A write-ahead log, no syncs, SQLite's own pages and cache; the same library, statements and keys. The \
         bare loop takes no time of an operation and keeps nothing. {THREADS_NOTE}"
    ));
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
        let timed = format!("{text}Percentiles: P50: 3.26 P75: 3.94 P99: 9.94 P99.9: 24.38\n");
        assert_eq!((percentile(&timed, "P99:"), percentile(text, "P99:")), (Some(9940.0), None));
        assert!(!lost("readrandom : 1 ops/sec; (500 of 500 found)\n") && !lost(text));
        assert!(lost("readrandom : 1 ops/sec; (499 of 500 found)\n"));
    }
}
