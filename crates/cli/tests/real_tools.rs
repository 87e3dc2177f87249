//! Results that the real tools write here and now, read by `taillight import`, and what those tools say themselves; and
//! our own exports, imported again.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use taillight_s3test::free_port;

use crate::common::{self, Ended, run_line, scratch, summary, text};

/// Runs a program in `dir`; none where it is not installed, which is said.
fn tool(test: &str, dir: &Path, words: &[&str]) -> Option<Output> {
    match Command::new(words[0]).args(&words[1..]).current_dir(dir).output() {
        Ok(done) => {
            assert!(
                done.status.success(),
                "{words:?}: {}{}",
                text(&done.stdout),
                text(&done.stderr)
            );
            Some(done)
        }
        Err(e) => {
            println!("skipped: {test}: {} does not start: {e}", words[0]);
            None
        }
    }
}

/// A jar of the local Maven repository, where it is.
fn jar(test: &str, path: &str) -> Option<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let jar = home.join(".m2/repository").join(path);
    if !jar.exists() {
        println!("skipped: {test}: {path} is not in the local Maven repository");
        return None;
    }
    Some(jar)
}

/// Imports a file as a run of its name, and gives what the run found.
fn imported(dir: &Path, file: &str, more: &str) -> Value {
    let run = format!("runs/{}", file.replace('/', "-"));
    run_line(dir, &format!("import {file} --as-run {run} {more}"), 0);
    summary(dir, &run)
}

/// A percentile of an operation, with the bin that it lies in, ns.
fn bin(of: &Value, op: &str, p: &str) -> (u64, u64) {
    let known = of["ops"][op]["service"]["percentiles"].as_array().unwrap();
    let it = known.iter().find(|it| it["p"] == p).unwrap_or_else(|| panic!("{p}: {known:?}"));
    let value = it["ns"].as_u64().or(it["observed_ns"].as_u64()).unwrap();
    let end = |name: &str| it["bin"][name].as_u64().unwrap_or(value);
    (end("lo_ns"), end("hi_ns"))
}

/// Response times where there are any, else service times.
fn main_latency(totals: &Value) -> &Value {
    if totals["response"].is_object() { &totals["response"] } else { &totals["service"] }
}

const FIO: &str = "fio --name=a --ioengine=null --size=64m --bs=4k --rw=randrw --rate_iops=2000 --runtime=1 \
                   --time_based --output-format=json+ --output=fio.json --write_lat_log=l --write_bw_log=l \
                   --write_iops_log=l --write_hist_log=l --log_hist_msec=250";

#[test]
fn what_fio_writes_of_one_run_agrees_with_itself() {
    let dir = scratch();
    let at = dir.path();
    let test = "what fio writes of one run agrees with itself";
    if tool(test, at, &FIO.split_whitespace().collect::<Vec<_>>()).is_none() {
        return;
    }
    let own: Value = serde_json::from_slice(&std::fs::read(at.join("fio.json")).unwrap()).unwrap();
    let found = imported(at, "fio.json", "");
    let logged = imported(at, "l_clat.1.log", "");
    let hist = imported(at, "l_clat_hist.1.log", "");
    for op in ["read", "write"] {
        let of = &own["jobs"][0][op];
        assert_eq!(found["ops"][op]["count"], of["total_ios"], "{op}");
        assert_eq!(logged["ops"][op]["count"], of["total_ios"], "{op}");
        // What came after the last whole interval is not in it.
        let (held, all) = (hist["ops"][op]["count"].as_u64(), of["total_ios"].as_u64());
        let (held, all) = (held.unwrap(), all.unwrap());
        assert!(held <= all && held > all / 2, "{held} of {all}");
        for (p, key) in [("50", "50.000000"), ("90", "90.000000"), ("99", "99.000000")] {
            let fio = of["clat_ns"]["percentile"][key].as_u64().unwrap();
            let (lo, hi) = bin(&found, op, p);
            assert!((lo..=hi).contains(&fio), "{op} {p}: fio says {fio}, we {lo} to {hi}");
            // Every I/O by itself: the rank of fio is that of the bins.
            let (exact, _) = bin(&logged, op, p);
            assert!((lo..=hi).contains(&exact), "{op} {p}: of all {exact}, of bins {lo} to {hi}");
        }
        let rate = found["ops"][op]["iops"].as_f64().unwrap() / of["iops"].as_f64().unwrap();
        assert!((rate - 1.0).abs() < 1e-6, "{rate}");
    }
    let bandwidth = imported(at, "l_bw.1.log", "");
    assert_eq!(bandwidth["ops"]["read"]["count"], own["jobs"][0]["read"]["total_ios"]);
    assert!(bandwidth["ops"]["read"]["service"]["percentiles"][0]["ns"].is_null());
    imported(at, "l_iops.1.log", "");
}

/// They had "no operation": their figures stand at other places of the JSON.
#[test]
fn clients_of_fio_and_unified_directions_have_their_operations() {
    let dir = scratch();
    let at = dir.path();
    let test = "clients of fio and unified directions have their operations";
    let mixed = "fio --name=a --ioengine=null --size=4m --bs=4k --rw=randrw --unified_rw_reporting=mixed \
                 --output-format=json+ --output=mixed.json";
    if tool(test, at, &mixed.split_whitespace().collect::<Vec<_>>()).is_none() {
        return;
    }
    let (_, err) = run_line(at, "import mixed.json --as-run mixed", 0);
    assert!(err.contains("counted together"), "{err}");
    assert_eq!(summary(at, "mixed")["ops"]["read"]["count"], 1024);
    let job = "[a]\nioengine=null\nsize=4m\nbs=4k\nrw=randrw\n[b]\nstonewall\nioengine=null\nsize=4m\nbs=4k\nrw=write\n";
    std::fs::write(at.join("job.fio"), job).unwrap();
    let port = free_port();
    let server = Command::new("fio")
        .arg(format!("--server=127.0.0.1,{port}"))
        .current_dir(at)
        .spawn()
        .unwrap();
    let server = Ended(server);
    let client = format!("--client=127.0.0.1,{port}");
    let words =
        ["--output-format=json+", "--output=client.json", &client, "job.fio", &client, "job.fio"];
    let mut done = None;
    for _ in 0..50 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let output = Command::new("fio").args(words).current_dir(at).output().unwrap();
        if output.status.success() {
            done = Some(output);
            break;
        }
    }
    drop(server);
    assert!(done.is_some(), "no server of fio answered");
    let found = imported(at, "client.json", "");
    // Two clients: 1,024 operations of each job, and the sum of all counts once.
    assert_eq!(found["totals"]["count"], 4096, "{}", found["totals"]);
    assert_eq!(found["workloads"].as_array().unwrap().len(), 4);
}

const YCSB_JARS: [&str; 5] = [
    "org/hdrhistogram/HdrHistogram/2.2.2/HdrHistogram-2.2.2.jar",
    "org/apache/htrace/htrace-core4/4.1.0-incubating/htrace-core4-4.1.0-incubating.jar",
    "org/codehaus/jackson/jackson-core-asl/1.9.4/jackson-core-asl-1.9.4.jar",
    "org/codehaus/jackson/jackson-mapper-asl/1.9.4/jackson-mapper-asl-1.9.4.jar",
    "site/ycsb/core/0.17.0/core-0.17.0.jar",
];

#[test]
fn every_measurement_of_ycsb_is_read() {
    let dir = scratch();
    let at = dir.path();
    let test = "every measurement of ycsb is read";
    let jars: Option<Vec<PathBuf>> = YCSB_JARS.iter().map(|path| jar(test, path)).collect();
    let Some(jars) = jars else { return };
    let path = std::env::join_paths(jars).unwrap();
    for (name, options, knows) in [
        (
            "hdr.txt",
            "measurementtype=hdrhistogram hdrhistogram.percentiles=50,99,99.9",
            "percentiles",
        ),
        (
            "json.txt",
            "exporter=site.ycsb.measurements.exporter.JSONMeasurementsExporter",
            "percentiles",
        ),
        (
            "array.txt",
            "exporter=site.ycsb.measurements.exporter.JSONArrayMeasurementsExporter",
            "percentiles",
        ),
        ("histogram.txt", "measurementtype=histogram measurement.histogram.verbose=true", "bins"),
        ("series.txt", "measurementtype=timeseries timeseries.granularity=50", "averages"),
        ("raw.txt", "measurementtype=raw", "every_io"),
        ("files.txt", "hdrhistogram.fileoutput=true hdrhistogram.output.path=h_", "percentiles"),
    ] {
        let mut words = vec![
            "java",
            "-cp",
            path.to_str().unwrap(),
            "site.ycsb.Client",
            "-t",
            "-db",
            "site.ycsb.BasicDB",
        ];
        let fixed = "basicdb.verbose=false workload=site.ycsb.workloads.CoreWorkload recordcount=100 \
                     operationcount=5000 measurement.interval=op";
        for property in fixed.split_whitespace().chain(options.split(' ')) {
            words.extend(["-p", property]);
        }
        let Some(done) = tool(test, at, &words) else { return };
        std::fs::write(at.join(name), &done.stdout).unwrap();
        let found = imported(at, name, "");
        let ops = found["ops"].as_object().unwrap();
        let sum: u64 = ops.values().map(|totals| totals["count"].as_u64().unwrap()).sum();
        assert_eq!(sum, 5000, "{name}: {ops:?}");
        assert_eq!(found["origin"]["fidelity"], knows, "{name}");
        let told = text(&done.stdout);
        let line =
            told.lines().find_map(|line| line.strip_prefix("[READ], 99thPercentileLatency(us), "));
        if let Some(us) = line.filter(|_| name == "hdr.txt") {
            // Whole microseconds.
            let ns = us.parse::<u64>().unwrap() * 1000;
            assert_eq!(bin(&found, "get", "99"), (ns, ns + 999), "{name}");
        }
    }
    // Its own log of histograms has what its text says.
    let (hdr, all) = (imported(at, "h_READ.hdr", ""), summary(at, "runs/files.txt"));
    assert_eq!(hdr["ops"]["get"]["count"], all["ops"]["get"]["count"]);
}

#[test]
fn what_db_bench_prints_is_read() {
    let dir = scratch();
    let at = dir.path();
    let test = "what db_bench prints is read";
    for (name, more, knows) in
        [("means.txt", "--seed=1", "averages"), ("bins.txt", "--histogram", "bins")]
    {
        let words = [
            "db_bench",
            "--db=db",
            "--num=2000",
            "--benchmarks=fillseq,readrandom,overwrite",
            more,
        ];
        let Some(done) = tool(test, at, &words) else { return };
        std::fs::write(at.join(name), [done.stderr, done.stdout].concat()).unwrap();
        let found = imported(at, name, "");
        assert_eq!(found["origin"]["fidelity"], knows);
        for op in ["insert", "get", "update"] {
            assert_eq!(found["ops"][op]["count"], 2000, "{name} {op}");
        }
    }
}

/// Writes a log and two texts with the reference implementation, and says what it thinks of them and of a log of ours.
const REFERENCE: &str = r#"
import org.HdrHistogram.*;
import java.io.*;
public class Reference {
    static void say(String name, Histogram all) {
        System.out.printf("%s %d %d %d %d %d%n", name, all.getTotalCount(), all.getValueAtPercentile(50),
            all.getValueAtPercentile(90), all.getValueAtPercentile(99), all.getValueAtPercentile(99.9));
    }
    static Histogram sum(String file) throws Exception {
        HistogramLogReader log = new HistogramLogReader(file);
        Histogram all = new Histogram(3);
        all.setAutoResize(true);
        EncodableHistogram one;
        while ((one = log.nextIntervalHistogram()) != null) {
            if (one.getTag() == null || one.getTag().equals("measure/w0/read/service")) all.add((Histogram) one);
        }
        return all;
    }
    public static void main(String[] words) throws Exception {
        HistogramLogWriter log = new HistogramLogWriter(new PrintStream("java.hlog"));
        log.outputLogFormatVersion();
        log.outputStartTime(1700000000000L);
        log.outputLegend();
        java.util.Random random = new java.util.Random(7);
        for (int i = 0; i < 3; i++) {
            Histogram one = new Histogram(3);
            for (int n = 0; n < 4000; n++) one.recordValue(1000 + (long) (-Math.log(1 - random.nextDouble()) * 250000));
            one.setStartTimeStamp(1700000000000L + 1000 * i);
            one.setEndTimeStamp(1700000001000L + 1000 * i);
            log.outputIntervalHistogram(one);
        }
        Histogram all = sum("java.hlog");
        PrintStream plain = new PrintStream("java.hgrm");
        all.outputPercentileDistribution(plain, 5, 1.0);
        all.outputPercentileDistribution(new PrintStream("java.csv"), 5, 1.0, true);
        PrintStream wrk2 = new PrintStream("wrk2.txt");
        wrk2.println("Running 3s test @ http://127.0.0.1/\n  2 threads and 2 connections");
        wrk2.println("  Latency Distribution (HdrHistogram - Recorded Latency)");
        for (double p : new double[] {50, 75, 90, 99, 99.9, 99.99, 99.999, 100})
            wrk2.printf("%7.3f%%  %.2fus%n", p, all.getValueAtPercentile(p) / 1e3);
        wrk2.println("  Detailed Percentile spectrum:");
        all.outputPercentileDistribution(wrk2, 5, 1000000.0);
        wrk2.println("----------------------------------------------------------");
        wrk2.println("  12000 requests in 3.00s, 1.00MB read\nRequests/sec:   4000.00\nTransfer/sec:    341.33KB");
        say("java", all);
        say("ours", sum(words[0]));
    }
}
"#;

#[test]
fn histograms_agree_with_the_reference_implementation_both_ways() {
    let dir = scratch();
    let at = dir.path();
    let test = "histograms agree with the reference implementation both ways";
    let Some(jar) = jar(test, YCSB_JARS[0]) else { return };
    run_line(at, "run --driver sim --size 1GiB --ops 3000 --output out", 0);
    run_line(at, "export out --format hdr --output ours.hlog", 0);
    std::fs::write(at.join("Reference.java"), REFERENCE).unwrap();
    let words = ["java", "-cp", jar.to_str().unwrap(), "Reference.java", "ours.hlog"];
    let Some(done) = tool(test, at, &words) else { return };
    let said = text(&done.stdout);
    let of = |name: &str| -> Vec<u64> {
        let line = said.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(|n| n.parse().unwrap()).collect()
    };
    let java = of("java ");
    for (file, unit, op) in [
        ("java.hlog", "--unit ns", "read"),
        ("java.hgrm", "--unit ns", "read"),
        ("java.csv", "--unit ns", "read"),
        ("wrk2.txt", "", "get"),
    ] {
        let found = imported(at, file, unit);
        assert_eq!(found["ops"][op]["service"]["count"], java[0], "{file}");
        for (p, reference) in [("50", java[1]), ("90", java[2]), ("99", java[3]), ("99.9", java[4])]
        {
            let (lo, hi) = bin(&found, op, p);
            // wrk2 prints ms with three digits after the point, and its own percentile with two of us.
            let half = if file == "wrk2.txt" { 500 } else { 0 };
            assert!(
                (lo.saturating_sub(half)..=hi + half).contains(&reference),
                "{file} {p}: the reference says {reference}, we {lo} to {hi}"
            );
        }
    }
    let ours = of("ours ");
    let own = summary(at, "out")["ops"]["read"]["service"].clone();
    assert_eq!(own["count"], ours[0]);
    let p99 = own["percentiles"].as_array().unwrap().iter().find(|p| p["p"] == "99").unwrap()["ns"]
        .as_f64();
    assert!((p99.unwrap() / ours[3] as f64 - 1.0).abs() < 0.001, "{p99:?} {ours:?}");
}

/// Loads whose runs are exported and imported: service times of `sim`, and the workload.
const LOADS: [(&str, &str); 4] = [
    (
        "kind = \"exponential\", mean = \"250us\"",
        "mix = { read = 3, write = 1 }\nworkers = 2\nqueue_depth = 4",
    ),
    (
        "kind = \"uniform\", min = \"5us\", max = \"4ms\"",
        "mix = \"read\"\narrival = { kind = \"poisson\", rate = \"900/s\" }",
    ),
    (
        "kind = \"bimodal\", common = \"100us\", rare = \"30ms\", every = 50",
        "mix = \"write\"\nworkers = 3",
    ),
    (
        "kind = \"exponential\", mean = \"2ms\"",
        "mix = \"read\"\narrival = { kind = \"constant\", rate = \"400/s\" }\n[[workload]]\nmix = \"write\"",
    ),
];

/// Figures of a run by workload and operation: counts, and latencies of one kind by name.
fn figures(of: &Value, kind: Option<&str>) -> BTreeMap<String, BTreeMap<String, f64>> {
    let mut all = BTreeMap::new();
    for workload in of["workloads"].as_array().unwrap() {
        for (op, totals) in workload["ops"].as_object().unwrap() {
            let latency = kind.map_or_else(|| main_latency(totals), |kind| &totals[kind]);
            let mut known = BTreeMap::new();
            for p in latency["percentiles"].as_array().unwrap() {
                if let Some(ns) = p["ns"].as_f64() {
                    known.insert(format!("p{}", p["p"].as_str().unwrap()), ns);
                }
            }
            for (name, value) in [
                ("count", &totals["count"]),
                ("bytes", &totals["bytes"]),
                ("iops", &totals["iops"]),
                ("mean", &latency["mean_ns"]),
                ("min", &latency["min_ns"]),
                ("max", &latency["max_ns"]),
            ] {
                known.extend(value.as_f64().map(|value| (name.to_owned(), value)));
            }
            all.insert(format!("{} {op}", workload["name"].as_str().unwrap()), known);
        }
    }
    all
}

/// Our own exports, imported, give back our figures, each those that it has, as exactly as it has them.
#[test]
fn our_own_exports_give_back_our_figures() {
    for (seed, (service, load)) in (1..).zip(LOADS) {
        let dir = scratch();
        let at = dir.path();
        let job = format!(
            "[run]\noperations = 6000\nseed = {seed}\n[target]\ndriver = \"sim\"\nsize = \"64MiB\"\n\
             [target.options]\nchannels = 4\nservice = {{ {service} }}\n[[workload]]\n{load}\n"
        );
        common::run_job(at, &job, 0);
        let own = summary(at, "out");
        let scheduled = load.contains("rate");
        for (format, most, fewest) in [
            ("ios-csv", 1e-9, 12),
            ("json", 1e-9, 12),
            ("csv", 1e-9, 7),
            // Service times alone, and of sizes no more than a thousandth.
            ("fio-json", 1e-6, 10),
            // Three digits.
            ("hdr", 1e-3, 8),
        ] {
            let file = format!("out.{format}");
            run_line(at, &format!("export out --format {format} --output {file}"), 0);
            let found = figures(&imported(at, &file, ""), None);
            let kind = (format == "fio-json").then_some("service");
            let wanted = figures(&own, kind);
            assert_eq!(found.len(), wanted.len(), "{format}: {found:?}");
            for (of, known) in &wanted {
                let again = &found[of];
                let told = again.keys().filter(|name| known.contains_key(*name)).count();
                assert!(told >= fewest, "{format} {of}: {again:?} of {known:?}");
                for (name, value) in again {
                    // An exported log or list of I/Os knows when they began, and not when the phase did.
                    let loose = name == "iops" && matches!(format, "ios-csv" | "hdr");
                    let most = if loose { 0.05 } else { most };
                    let Some(was) = known.get(name) else { continue };
                    // A log of histograms has no bytes.
                    if name == "bytes" && format == "hdr" {
                        continue;
                    }
                    let off = (value - was).abs() / was.max(1.0);
                    assert!(
                        off <= most,
                        "{format} {of} {name}, scheduled {scheduled}: {was} came back as {value}"
                    );
                }
            }
        }
    }
}
