//! Every driver that exists, by two ranks: each with a target of its own, and with one that they share where the driver can.
//! The operations of all are those asked for, none fails, and nothing stays behind.

mod common;
#[path = "../../crates/driver/src/kafka/testing/broker.rs"]
mod kafka_broker;
#[path = "../../crates/driver/src/kv/postgres/testing.rs"]
mod postgres_server;
mod redis;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Failed, has_mpirun, mpirun, said};
use taillight_rundir::ios::{ColumnSet, read_ios};
use taillight_s3test::{FaultyServer, ID, SECRET, ServerSettings};

/// Operations of all ranks together.
const OPS: u64 = 201;

const RECORDS: &str =
    "mix = { get = 50, update = 50 }\nblock_size = \"100B\"\nkeys = { count = 40 }";
const BLOCKS: &str = "mix = \"write\"\nblock_size = \"4KiB\"";
const FILES: &str =
    "mix = { stat = 50, open_read_close = 50 }\nblock_size = \"100B\"\nkeys = { count = 40 }";
const STREAM: &str = "mix = \"write\"\nblock_size = \"512B\"\naccess = \"follow\"";

/// A driver, what stands in `[target]` and `[[workload]]`, and how ranks can share it.
struct DriverCase {
    driver: &'static str,
    target: String,
    workload: &'static str,
    /// None: whether ranks can is up to the store behind the driver.
    shares: Option<&'static [&'static str]>,
}

fn case(
    driver: &'static str,
    target: impl Into<String>,
    workload: &'static str,
    shares: &'static [&'static str],
) -> DriverCase {
    DriverCase { driver, target: target.into(), workload, shares: Some(shares) }
}

/// A store in the process of each rank, behind a driver whose other stores ranks can share.
fn within(driver: &'static str, target: impl Into<String>, workload: &'static str) -> DriverCase {
    DriverCase { shares: None, ..case(driver, target, workload, &[]) }
}

/// Drivers that need neither a server nor a program.
fn local() -> Vec<DriverCase> {
    let file = "path = \"data\"\nsize = \"1MiB\"\noptions = { direct = false }";
    vec![
        case("null", "size = \"1MiB\"", BLOCKS, &["segments", "strided", "same"]),
        case("sim", "size = \"1MiB\"", BLOCKS, &[]),
        case("memory", "", RECORDS, &[]),
        case("file", file, BLOCKS, &["segments", "strided", "same"]),
        case("filestream", "path = \"stream\"\nsize = \"64KiB\"", STREAM, &[]),
        case("metadata", "path = \"files/\"", FILES, &["strided"]),
        case("sqlite", "path = \"sqlite/\"", RECORDS, &[]),
        case("rocksdb", "path = \"rocksdb/\"", RECORDS, &[]),
        case("leveldb", "path = \"leveldb/\"", RECORDS, &[]),
    ]
}

/// Names of what the tests below run.
const OTHERS: [&str; 7] = ["redis", "postgres", "s3", "kafka", "plugin", "process", "jvm"];

/// Runs a job by two ranks: what it said, and the operations of each rank that succeeded.
fn run(
    dir: &Path,
    case: &DriverCase,
    share: &str,
) -> Result<(Option<i32>, String, Vec<u64>), Failed> {
    let DriverCase { driver, target, workload, .. } = case;
    let text = format!(
        "[run]\nshare = \"{share}\"\nseed = 5\noperations = {OPS}\n[target]\ndriver = \"{driver}\"\n{target}\n\
         [[workload]]\n{workload}\n"
    );
    std::fs::write(dir.join("job.toml"), text)?;
    let mut command = mpirun(dir);
    command.env("AWS_ACCESS_KEY_ID", ID).env("AWS_SECRET_ACCESS_KEY", SECRET);
    let (code, text) = said(
        &command.args(["-n", "2", common::MPI, "run", "job.toml", "--output", "RUN"]).output()?,
    );
    let mut counts = Vec::new();
    for rank in 0..2 {
        let ios = dir.join(format!("RUN/rank-000{rank}/ios.parquet"));
        let mut count = 0;
        if ios.is_file() {
            read_ios(&ios, ColumnSet::ALL, &mut |batch| {
                count += (0..batch.rows).filter(|i| batch.row(*i).status.is_ok()).count() as u64;
                Ok(())
            })?;
        }
        counts.push(count);
    }
    let _ = std::fs::remove_dir_all(dir.join("RUN"));
    Ok((code, text, counts))
}

fn names(dir: &Path) -> Result<BTreeSet<PathBuf>, Failed> {
    Ok(std::fs::read_dir(dir)?.map(|entry| entry.map(|e| e.path())).collect::<Result<_, _>>()?)
}

/// With a target of each rank's own, with one for both as the driver can, and refused where it cannot.
fn by_two_ranks(dir: &Path, case: &DriverCase) -> Result<(), Failed> {
    std::fs::write(dir.join("job.toml"), "")?;
    let before = names(dir)?;
    for share in ["own"].iter().chain(case.shares.into_iter().flatten()) {
        let (code, text, counts) = run(dir, case, share)?;
        let what = format!("{}, {share}", case.driver);
        assert_eq!(code, Some(0), "{what}: {text}");
        assert_eq!(counts.iter().sum::<u64>(), OPS, "{what}: {counts:?} {text}");
        assert!(counts.iter().all(|count| *count >= OPS / 2), "{what}: {counts:?}");
        assert_eq!(names(dir)?, before, "{what} leaves nothing");
    }
    if case.shares.is_some_and(<[_]>::is_empty) {
        let (code, text, _) = run(dir, case, "same")?;
        assert_eq!(code, Some(2), "{} cannot be shared: {text}", case.driver);
        assert_eq!(names(dir)?, before, "{}", case.driver);
    }
    Ok(())
}

/// A library that is looked for at run time may not be there.
fn is_there(driver: &str) -> bool {
    let library = match driver {
        "rocksdb" => "librocksdb",
        "leveldb" => "libleveldb",
        "sqlite" => "libsqlite3",
        "kafka" => "librdkafka",
        _ => return true,
    };
    let known = Command::new("ldconfig").arg("-p").output();
    let there = known.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains(library));
    if !there {
        eprintln!("skipped: {driver} by two ranks: no {library}");
    }
    there
}

#[test]
fn every_driver_is_run_by_ranks_here() -> Result<(), Failed> {
    let listed = Command::new(common::MPI).args(["drivers", "--json"]).output()?;
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout)?;
    let listed = listed.as_array().into_iter().flatten().filter_map(|d| d["name"].as_str());
    let listed: BTreeSet<&str> = listed.collect();
    let run: BTreeSet<&str> = local().iter().map(|case| case.driver).chain(OTHERS).collect();
    assert_eq!(listed, run);
    Ok(())
}

/// Does both at once: to start ranks, and to begin together, is to wait for most of the time.
fn at_once(
    one: impl FnOnce() -> Result<(), Failed> + Send,
    other: impl FnOnce() -> Result<(), Failed>,
) -> Result<(), Failed> {
    std::thread::scope(|scope| {
        let one = scope.spawn(|| one().map_err(|e| e.to_string()));
        let other = other();
        one.join().expect("no panic")?;
        other
    })
}

#[test]
fn drivers_on_this_machine_run_by_two_ranks() -> Result<(), Failed> {
    if !has_mpirun("drivers_on_this_machine_run_by_two_ranks") {
        return Ok(());
    }
    let each = |cases: &[DriverCase]| -> Result<(), Failed> {
        let tmp = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
        // Ranks make directories of their own inside these, but not these.
        for name in ["files", "sqlite", "rocksdb", "leveldb"] {
            std::fs::create_dir(tmp.path().join(name))?;
        }
        cases.iter().try_for_each(|case| by_two_ranks(tmp.path(), case))
    };
    let mut all = local();
    all.retain(|case| is_there(case.driver));
    let (some, others) = all.split_at(all.len() / 2);
    at_once(|| each(some), || each(others))
}

#[test]
fn drivers_of_servers_run_by_two_ranks() -> Result<(), Failed> {
    if !has_mpirun(OF_SERVERS) {
        return Ok(());
    }
    at_once(on_postgres_and_kafka, on_s3_and_redis)
}

const OF_SERVERS: &str = "drivers_of_servers_run_by_two_ranks";

fn on_s3_and_redis() -> Result<(), Failed> {
    let tmp = tempfile::tempdir()?;
    let s3 = FaultyServer::start(ServerSettings::default());
    let target = format!("path = \"{}\"", s3.path("ranks/"));
    by_two_ranks(tmp.path(), &case("s3", target, RECORDS, &["segments", "strided", "same"]))?;
    assert_eq!(s3.names(""), [""; 0]);
    if let Some(redis) = redis::Redis::start(OF_SERVERS, tmp.path())? {
        let target = format!("path = \"redis://127.0.0.1:{}/0\"", redis.port);
        by_two_ranks(
            tmp.path(),
            &case("redis", target, RECORDS, &["segments", "strided", "same"]),
        )?;
        assert_eq!(redis.server.cli(&["INFO", "keyspace"]), "# Keyspace");
    }
    Ok(())
}

fn on_postgres_and_kafka() -> Result<(), Failed> {
    let tmp = tempfile::tempdir()?;
    let skipped = |driver: &str, why: &String| eprintln!("skipped: {OF_SERVERS}: {driver}: {why}");
    let started = postgres_server::PostgresServer::start(&["fsync=off"]);
    if let Ok(postgres) = started.inspect_err(|why| skipped("postgres", why)) {
        let target =
            format!("path = \"{}\"\noptions = {{ user = \"postgres\" }}", postgres.address());
        by_two_ranks(
            tmp.path(),
            &case("postgres", target, RECORDS, &["segments", "strided", "same"]),
        )?;
        assert_eq!(
            postgres
                .psql("SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"),
            ""
        );
    }
    if !is_there("kafka") {
        return Ok(());
    }
    if let Ok(broker) =
        kafka_broker::KafkaBroker::start(&[]).inspect_err(|why| skipped("kafka", why))
    {
        let target = format!("path = \"{}/ranks\"", broker.address());
        by_two_ranks(tmp.path(), &case("kafka", target, STREAM, &[]))?;
    }
    Ok(())
}

/// Compiles a C file of the SDK.
fn compiled(dir: &Path, source: &str, words: &[&str]) -> Result<String, Failed> {
    let sdk = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk");
    let out = dir.join(Path::new(source).file_stem().ok_or("a name")?);
    let mut cc = Command::new("cc");
    cc.args(["-std=c11", "-O1", "-pthread"]).args(words).arg("-I").arg(&sdk);
    let made = cc.arg("-o").arg(&out).arg(sdk.join("examples").join(source)).output()?;
    if made.status.success() {
        return Ok(out.display().to_string());
    }
    Err(String::from_utf8_lossy(&made.stderr).into_owned().into())
}

#[test]
fn stores_in_other_languages_run_by_two_ranks() -> Result<(), Failed> {
    let test = "stores_in_other_languages_run_by_two_ranks";
    if !has_mpirun(test) {
        return Ok(());
    }
    let tmp = tempfile::tempdir()?;
    let made = tempfile::tempdir()?;
    let plugin = |source: &str| compiled(made.path(), source, &["-shared", "-fPIC"]);
    let target = format!("options = {{ library = \"{}\" }}", plugin("c/null.c")?);
    by_two_ranks(tmp.path(), &case("plugin", target, BLOCKS, &[]))?;
    let target =
        format!("path = \"records\"\noptions = {{ library = \"{}\" }}", plugin("c/records.c")?);
    by_two_ranks(tmp.path(), &within("plugin", target, RECORDS))?;
    let target = format!("options = {{ command = \"{}\" }}", compiled(made.path(), "dict.c", &[])?);
    by_two_ranks(tmp.path(), &within("process", target, RECORDS))?;
    let java = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/driver/src/jvm/testing");
    let mut javac = Command::new("javac");
    javac.args(["--release", "8", "-Xlint:-options", "-d"]).arg(made.path().join("classes"));
    javac.arg("-sourcepath").arg(&java).arg(java.join("Records.java"));
    match javac.output() {
        Err(e) => eprintln!("skipped: {test}: jvm: no Java compiler: {e}"),
        Ok(out) => {
            assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
            let classes = made.path().join("classes");
            let target = format!(
                "path = \"data\"\noptions = {{ class = \"Records\", classpath = \"{}\", jvm_args = [\"-Xmx64m\"] }}",
                classes.display()
            );
            by_two_ranks(tmp.path(), &case("jvm", target, RECORDS, &[]))?;
        }
    }
    Ok(())
}
