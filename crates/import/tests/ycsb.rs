//! Properties of YCSB's core and of its bindings for RocksDB and Redis: mapped, of no effect with a reason, or
//! refused by name.

use taillight_core::job::Job;
use taillight_import::ycsb::{Properties, import, phases};

const BASE: &str = "recordcount=1000\noperationcount=2000\n";

/// The job of the transactions, and its notes.
fn job(lines: &str) -> (toml::Table, Vec<String>) {
    let jobs = import(&format!("{BASE}{lines}"), "w.properties").expect(lines);
    assert_eq!(jobs.len(), 2);
    for job in &jobs {
        Job::from_toml(&job.toml, "made.toml").expect("a job file");
    }
    (jobs[1].toml.parse().expect("TOML"), jobs[1].notes.clone())
}

fn field(lines: &str, name: &str) -> String {
    job(lines).0["workload"][0][name].to_string()
}

fn refused(text: &str) -> String {
    let e = import(text, "w.properties").expect_err(text);
    format!("{e} | {}", e.hint_text().unwrap_or_default())
}

#[test]
fn defaults_are_those_of_the_core() {
    let (job, _) = job("");
    let w = &job["workload"][0];
    for (name, value) in [
        ("workers", "1"),
        ("mix", "{ get = 19, update = 1 }"),
        ("access", "\"random\""),
        ("block_size", "\"100B\""),
        ("keys", "{ count = 1000, start = 0, naming = \"hashed\", prefix = \"user\", digits = 1 }"),
        (
            "value",
            "{ fields = 10, prefix = \"field\", read_all = true, write_all = false, integrity = false }",
        ),
        ("payload", "\"text\""),
    ] {
        assert_eq!(w[name].to_string(), value, "{name}");
    }
    assert!(w.get("scan").is_none() && w.get("arrival").is_none());
    assert_eq!(job["run"]["operations"].as_integer(), Some(2000));
}

#[test]
fn values_are_mapped() {
    let mix = "readproportion=0\nupdateproportion=0\nscanproportion=0.333\ninsertproportion=0.05\n\
               readmodifywriteproportion=2\n";
    for (lines, name, value) in [
        (mix, "mix", "{ insert = 50, scan = 333, rmw = 2000 }"),
        (mix, "scan", "{ min = 1, max = 1000, spread = \"uniform\", reverse = false }"),
        ("requestdistribution=zipfian", "access", "\"scrambled\""),
        ("requestdistribution=latest", "access", "\"latest\""),
        ("requestdistribution=sequential", "access", "\"sequential\""),
        (
            "requestdistribution=hotspot\nhotspotdatafraction=0.1",
            "access",
            "{ kind = \"hotspot\", hot = { space = 0.1, share = 0.8 } }",
        ),
        (
            "requestdistribution=exponential",
            "access",
            "{ kind = \"exponential\", reach = { percentile = 95.0, space = 0.8571428571 } }",
        ),
        ("threadcount=8", "workers", "8"),
        ("target=500", "arrival", "{ kind = \"constant\", rate = \"500/s\" }"),
        (
            "insertorder=ordered\nzeropadding=8",
            "keys",
            "{ count = 1000, start = 0, naming = \"ordered\", prefix = \"user\", digits = 8 }",
        ),
        (
            "insertstart=100\ninsertcount=200",
            "keys",
            "{ count = 200, start = 100, naming = \"hashed\", prefix = \"user\", digits = 1 }",
        ),
        (
            "fieldcount=2\nfieldnameprefix=f\nreadallfields=false\nwriteallfields=true\n\
             dataintegrity=true",
            "value",
            "{ fields = 2, prefix = \"f\", read_all = false, write_all = true, integrity = true }",
        ),
        (
            "fieldlengthdistribution=uniform\nfieldlength=50\nminfieldlength=5",
            "block_size",
            "{ min = \"5B\", max = \"50B\", step = \"1B\" }",
        ),
    ] {
        assert_eq!(field(lines, name), value, "{lines}");
    }
    let zipfian = field("fieldlengthdistribution=zipfian\nfieldlength=30", "block_size");
    assert_eq!(zipfian.matches("size").count(), 30, "{zipfian}");
    let (job, notes) = job("operationcount=0\nmaxexecutiontime=60");
    assert_eq!(job["run"]["duration"].as_str(), Some("1min"));
    assert!(job["run"].get("operations").is_none());
    assert!(notes.iter().any(|n| n.contains("maxexecutiontime")), "{notes:?}");
}

#[test]
fn what_means_nothing_here_says_why() {
    for line in [
        "table=usertable",
        "measurementtype=timeseries",
        "hdrhistogram.percentiles=50,95",
        "exporter=site.ycsb.measurements.exporter.JSONMeasurementsExporter",
        "status.interval=5",
        "measurement.interval=both",
        "core_workload_insertion_retry_interval=3",
        "dotransactions=false",
        "spin.sleep=true",
    ] {
        let (_, notes) = job(line);
        let name = line.split('=').next().expect("a name");
        let at = format!("w.properties:3, {name}: ");
        assert!(notes.iter().any(|n| n.starts_with(&at)), "{line}: {notes:?}");
    }
}

#[test]
fn the_rest_is_refused_by_name() {
    for (lines, parts) in [
        ("recordscount=1", vec!["`recordscount`", "w.properties:3", "did you mean `recordcount`"]),
        ("workload=site.ycsb.workloads.TimeSeriesWorkload", vec!["another workload"]),
        ("core_workload_insertion_retry_limit=1", vec!["would be repeated"]),
        ("mongodb.url=x", vec!["bindings", "--driver"]),
        ("db=site.ycsb.db.MongoDbClient", vec!["MongoDbClient", "--driver"]),
        ("readproportion=-1", vec!["`-1`"]),
        ("readproportion=0\nupdateproportion=0", vec!["nothing to do"]),
        ("requestdistribution=pareto", vec!["`pareto` is not known", "zipfian"]),
        ("zeropadding=2000", vec!["`zeropadding`", "at most 1020"]),
        ("readallfields=yes", vec!["neither true nor false"]),
        (
            "requestdistribution=hotspot\nhotspotopnfraction=0",
            vec!["`hotspotopnfraction`", "above 0"],
        ),
        (
            "requestdistribution=exponential\nexponential.percentile=100",
            vec!["`exponential.percentile`", "below 100"],
        ),
        ("fieldcount=0", vec!["too few"]),
        ("threadcount=2x", vec!["not a whole number"]),
        ("insertstart=900\ninsertcount=200", vec!["beyond recordcount=1000"]),
        ("insertcount=10\ninsertproportion=0.1", vec!["the same keys"]),
        ("insertcount=10\nrequestdistribution=latest", vec!["all clients"]),
        ("dataintegrity=true\nfieldlengthdistribution=uniform", vec!["one length"]),
        ("minscanlength=5\nmaxscanlength=4", vec!["above"]),
        ("operationcount=0", vec!["nothing ends"]),
    ] {
        let said = refused(&format!("{BASE}{lines}"));
        for part in parts {
            assert!(said.contains(part), "{lines}: {said}");
        }
    }
    assert!(refused("operationcount=5\n").contains("2147483647"));
    let mut p = Properties::parse(BASE, "w").expect("properties");
    assert!(p.assign("recordcount").expect_err("no value").message().contains("has no `=`"));
}

#[test]
fn a_store_keeps_what_was_loaded() {
    let mut p = Properties::parse(BASE, "w").expect("properties");
    p.assign("db=site.ycsb.db.rocksdb.RocksDBClient").expect("set");
    p.assign("rocksdb.dir=/tmp/db").expect("set");
    let phases = phases(&p, "x y", "w").expect("phases");
    for job in [phases.load, phases.run] {
        let table: toml::Table = job.toml.parse().expect("TOML");
        assert_eq!(table["target"]["driver"].as_str(), Some("rocksdb"));
        assert_eq!(table["target"]["path"].as_str(), Some("/tmp/db"));
        assert_eq!(table["target"]["options"]["keep"].as_bool(), Some(true));
        assert!(job.name.starts_with("x-y"));
    }
}

/// Once `redis.host` was refused as a property of a binding that is not used.
#[test]
fn redis_is_the_store_that_its_properties_name() {
    let (job, _) = job("redis.host=db\nredis.port=7000\nredis.timeout=2000\n");
    let target = job["target"].to_string();
    for part in ["driver = \"redis\"", "path = \"db:7000\"", "timeout = \"2s\"", "keep = true"] {
        assert!(target.contains(part), "{part}: {target}");
    }
    let all = |lines: &str| refused(&format!("{BASE}{lines}"));
    assert!(all("redis.host=db\nredis.password=x\n").contains("REDIS_PASSWORD"));
    assert!(all("redis.host=db\nredis.cluster=true\n").contains("no cluster"));
    assert!(all("db=site.ycsb.db.RedisClient\n").contains("without `redis.host`"));
}
