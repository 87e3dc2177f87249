//! A run in the formats of other tools: what each says is what the run directory says, and their own readers
//! agree where they are here.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::{self, manifest, run_line, scratch, start, summary, text};
use serde_json::Value;
use taillight_rundir::ios::{ColumnSet, IosFile};

/// Two workers with several in flight, and a schedule.
const JOB: &str = "run --driver sim --size 1GiB --rw randrw --ops 3000 --depth 4 --workers 2 --rate 20000/s \
                   --set run.seed=7 --output out";

fn exported(dir: &Path, of: &str, format: &str) -> String {
    run_line(dir, &format!("export {of} --format {format}"), 0).0
}

/// What a script of Python prints as JSON; none where it or a package is missing, which is said.
fn python(test: &str, package: &str, script: &str, args: &[&Path]) -> Option<Value> {
    let python = std::env::var_os("TAILLIGHT_PYTHON").unwrap_or_else(|| "python3".into());
    let probe = Command::new(&python).args(["-c", &format!("import {package}")]).output();
    if !probe.is_ok_and(|o| o.status.success()) {
        println!("skipped: {test}: python3 has no module {package}");
        return None;
    }
    let out = Command::new(&python).args(["-c", script]).args(args).output().unwrap();
    assert!(out.status.success(), "{}", text(&out.stderr));
    Some(serde_json::from_slice(&out.stdout).unwrap())
}

#[test]
fn every_io_is_a_line_with_the_columns_of_ios_parquet() {
    let dir = scratch();
    run_line(dir.path(), JOB, 0);
    let csv = exported(dir.path(), "out", "ios-csv");
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let file = IosFile::open(&dir.path().join("out/ios.parquet")).unwrap();
    let columns = file.column_bytes();
    let (last, own) = head.split_last().unwrap();
    assert_eq!(*last, "phase_ios");
    let plain = own.iter().map(|name| name.trim_end_matches("_bytes").to_owned());
    assert!(plain.eq(columns.into_iter().map(|(name, _)| name)), "{head:?}");
    let at = |name: &str| head.iter().position(|h| *h == name).unwrap();
    let mut rows = 0;
    file.read(ColumnSet::ALL, &mut |batch| {
        for row in (0..batch.rows).map(|i| batch.row(i)) {
            let line = lines.next().unwrap();
            assert_eq!(line.len(), head.len());
            let number = |name: &str| line[at(name)].parse::<i64>().unwrap();
            assert_eq!((line[at("op")], line[at("phase")]), (row.op.name(), "measure"));
            assert_eq!(line[at("phase_ios")], "3000");
            assert_eq!(
                (number("submit_ns"), number("complete_ns")),
                (row.submit.0, row.complete.0)
            );
            assert_eq!(number("intended_ns"), row.intended.unwrap().0);
            assert_eq!(number("offset_bytes"), row.offset.unwrap() as i64);
            assert_eq!((number("size_bytes"), line[at("key")]), (row.size as i64, ""));
            rows += 1;
        }
        Ok(())
    })
    .unwrap();
    assert!(lines.next().is_none() && rows == 3000, "{rows}");
}

#[test]
fn json_is_what_reports_print() {
    let dir = scratch();
    run_line(dir.path(), JOB, 0);
    for (format, report) in [("json", "--json"), ("fio-json", "--json=fio")] {
        let (wanted, _) = run_line(dir.path(), &format!("report out {report}"), 0);
        assert_eq!(exported(dir.path(), "out", format), wanted, "{format}");
        let (out, _) =
            run_line(dir.path(), &format!("export out --format {format} -o {format}.json"), 0);
        let written = std::fs::read_to_string(dir.path().join(format!("{format}.json"))).unwrap();
        assert_eq!((out.as_str(), written), ("", wanted));
    }
}

const READ_LOG: &str = "
import json, sys
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
log = HistogramLogReader(sys.argv[1], HdrHistogram(1, 3600 * 10**9, 3))
sums = {}
while (one := log.get_next_interval_histogram()) is not None:
    sums[one.get_tag()] = sums.get(one.get_tag(), 0) + one.get_total_count()
print(json.dumps(sums))
";

#[test]
fn the_histogram_log_is_read_by_the_reference_implementation() {
    let dir = scratch();
    run_line(dir.path(), JOB, 0);
    let log = exported(dir.path(), "out", "hdr");
    assert!(log.starts_with("#[Histogram log format version 1.3]\n#[Values in ns"), "{log}");
    let file = dir.path().join("out.hlog");
    std::fs::write(&file, &log).unwrap();
    let test = "the histogram log is read by the reference implementation";
    let Some(sums) = python(test, "hdrh", READ_LOG, &[&file]) else { return };
    let ops = summary(dir.path(), "out")["ops"].clone();
    for (op, totals) in ops.as_object().unwrap() {
        for kind in ["service", "response"] {
            let tag = format!("measure/w0/{op}/{kind}");
            assert_eq!(sums[&tag], totals[kind]["count"], "{tag} {sums}");
        }
    }
}

const READ_TRACE: &str = "
import json, sys
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import ClockSnapshot, Trace, TrackEvent
trace = Trace()
trace.ParseFromString(open(sys.argv[1], 'rb').read())
names, slices, open_slices, clocks, last = {}, [], {}, None, 0
for packet in trace.packet:
    if packet.HasField('clock_snapshot'):
        clocks = {str(c.clock_id): c.timestamp for c in packet.clock_snapshot.clocks}
        assert packet.clock_snapshot.primary_trace_clock == 3
    elif packet.HasField('track_descriptor'):
        names[packet.track_descriptor.uuid] = packet.track_descriptor.name
    else:
        assert packet.timestamp_clock_id == 3 and packet.timestamp >= last
        last, event = packet.timestamp, packet.track_event
        stack = open_slices.setdefault(event.track_uuid, [])
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            stack.append((packet.timestamp, event))
        else:
            assert event.type == TrackEvent.TYPE_SLICE_END
            begin, opened = stack.pop()
            slices.append([names[event.track_uuid], opened.name, list(opened.categories), begin, packet.timestamp])
        assert len(stack) <= 1, 'slices of a track overlap'
assert not any(open_slices.values())
print(json.dumps({'clocks': clocks, 'slices': slices, 'tracks': sorted(names.values())}))
";

/// The trace in `out` as Perfetto's own messages have it.
fn trace(dir: &Path, test: &str) -> Option<Value> {
    run_line(dir, "export out --format perfetto --output out.pftrace", 0);
    python(test, "perfetto.protos", READ_TRACE, &[&dir.join("out.pftrace")])
}

#[test]
fn the_perfetto_trace_has_every_io_to_the_nanosecond_and_properly_nested() {
    let dir = scratch();
    run_line(dir.path(), JOB, 0);
    let test = "the perfetto trace has every io to the nanosecond";
    let Some(found) = trace(dir.path(), test) else { return };
    let clock = &manifest(dir.path(), "out")["clock"];
    assert_eq!(
        found["clocks"],
        serde_json::json!({"3": clock["monotonic_ns"], "1": clock["realtime_ns"]})
    );
    let slices = found["slices"].as_array().unwrap();
    let worker = |track: &str| track.split([':', ' ']).nth(1).unwrap().parse::<u16>().unwrap();
    let mut left = BTreeMap::new();
    for slice in slices {
        let (track, op) = (slice[0].as_str().unwrap(), slice[1].as_str().unwrap());
        let io =
            (worker(track), op.to_owned(), slice[3].as_i64().unwrap(), slice[4].as_i64().unwrap());
        *left.entry(io).or_insert(0) += 1;
    }
    let file = IosFile::open(&dir.path().join("out/ios.parquet")).unwrap();
    file.read(ColumnSet::ALL, &mut |batch| {
        for row in (0..batch.rows).map(|i| batch.row(i)) {
            let io = (row.worker, row.op.name().to_owned(), row.submit.0, row.complete.0);
            *left.get_mut(&io).unwrap() -= 1;
        }
        Ok(())
    })
    .unwrap();
    assert!(slices.len() == 3000 && left.values().all(|n| *n == 0));
}

#[test]
fn metrics_have_one_value_a_time_and_pass_promtool() {
    let dir = scratch();
    // Its last interval is 1 ns long.
    run_line(
        dir.path(),
        "run --driver sim --size 1GiB --rw randrw --ops 20000 --depth 8 --output out",
        0,
    );
    let timed = exported(dir.path(), "out", "openmetrics");
    let lines = || timed.lines().filter(|line| !line.starts_with('#'));
    let series = |line: &str| {
        let (rest, at) = line.rsplit_once(' ').unwrap();
        (rest.rsplit_once(' ').unwrap().0.to_owned(), at.to_owned())
    };
    assert_eq!(lines().map(series).collect::<BTreeSet<_>>().len(), lines().count());
    assert!(timed.ends_with("# EOF\n"));
    let totals = exported(dir.path(), "out", "prometheus");
    let count = |text: &str| -> f64 {
        let counts = text.lines().filter(|l| l.starts_with("taillight_io_service_seconds_count"));
        counts.map(|l| l.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
    };
    assert_eq!(count(&totals), 20_000.0);
    let promtool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut promtool) = promtool else {
        println!("skipped: metrics pass promtool: no promtool (Debian package prometheus)");
        return;
    };
    promtool.stdin.take().unwrap().write_all(totals.as_bytes()).unwrap();
    let said = promtool.wait_with_output().unwrap();
    assert!(said.status.success(), "{}{}", text(&said.stdout), text(&said.stderr));
}

#[test]
fn what_cannot_be_exported_is_refused_with_the_reason() {
    let dir = scratch();
    let at = dir.path();
    run_line(at, "run --driver sim --size 1GiB --ops 100 --set capture.mode=off --output off", 0);
    run_line(at, "run --driver sim --size 1GiB --ops 100 --set run.repeat=2 --output series", 0);
    std::fs::create_dir(at.join("empty")).unwrap();
    std::fs::write(at.join("job.toml"), "[target]\ndriver = \"sim\"\n").unwrap();
    let fio = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/src/render/fio_json/fio.json");
    std::fs::copy(fio, at.join("fio.json")).unwrap();
    run_line(at, "import fio.json --as-run fio", 0);
    for (line, code, words) in [
        ("export off --format nothing", 2, "hdr"),
        ("export off --format ios-csv", 2, "kept no single I/Os"),
        ("export off --format perfetto", 2, "kept no single I/Os"),
        ("export series --format hdr", 2, "a series has several runs"),
        ("export empty --format json", 2, "no manifest.json"),
        ("export none --format json", 4, "no run directory of this name"),
        ("export job.toml --format hdr", 2, "this is a file"),
        ("export fio.json --format json", 2, "import RESULT --as-run DIR"),
        ("export fio --format hdr", 2, "an imported run has no histograms"),
        ("export fio --format openmetrics", 2, "the run has no intervals"),
        ("export fio --format perfetto", 2, "an imported run has no single I/Os"),
        ("export off --format json --output empty", 2, "a directory"),
        ("export off --format json --output job.toml", 2, "exists already"),
        ("export off --format json --output /dev/null", 2, "no regular file"),
    ] {
        let (out, err) = run_line(at, line, code);
        assert!(err.contains(words) && out.is_empty(), "{line}: {err}");
        assert!(err.contains("hint: ") || line.contains("nothing"), "{line}: {err}");
    }
    run_line(at, "export off --format hdr", 0);
    let fio: Value = serde_json::from_str(&exported(at, "fio", "fio-json")).unwrap();
    assert_eq!(fio["jobs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_partial_run_says_so_and_a_closed_pipe_is_no_error() {
    let dir = scratch();
    let line = "run --driver null --size 1GiB --rate 5000/s --runtime 60s --output out";
    let mut child = common::start_measuring(dir.path(), line);
    let pid = child.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    child.wait().unwrap();
    let (_, err) = run_line(dir.path(), "export out --format ios-csv --output out.csv", 0);
    assert!(err.contains("partial run: "), "{err}");
    let mut child = start(dir.path(), "export out --format ios-csv");
    drop(child.stdout.take());
    let done = child.wait_with_output().unwrap();
    let err = text(&done.stderr);
    assert!(done.status.success() && !err.contains("cannot"), "{err}");
}

/// Two reads of one bin and one of another, as fio 3 prints them with `--output-format=json+`.
const BINS: &str = r#"{"fio version":"fio-3.33","timestamp_ms":1700000000123,"jobs":[{"jobname":"a","error":0,
"job options":{"rw":"randread"},"read":{"io_bytes":12288,"bw_bytes":12288,"iops":3.0,"runtime":1000,"total_ios":3,
"clat_ns":{"min":87500,"max":300000,"mean":150000.0,"stddev":1.0,"N":3,"bins":{"87552":2,"296960":1}}}}]}"#;

#[test]
fn counts_of_an_imported_run_go_on_as_a_histogram_log() {
    let dir = scratch();
    let at = dir.path();
    std::fs::write(at.join("plus.json"), BINS).unwrap();
    run_line(at, "import plus.json --as-run plus", 0);
    let (log, err) = run_line(at, "export plus --format hdr", 0);
    assert!(err.contains("middle of the bins"), "{err}");
    let file = at.join("plus.hlog");
    std::fs::write(&file, &log).unwrap();
    run_line(at, "import plus.hlog --as-run again", 0);
    let of = |run: &str| summary(at, run)["ops"]["read"]["service"].clone();
    assert_eq!((&of("plus")["count"], &of("again")["count"]), (&3.into(), &3.into()));
    assert!(log.contains("\n#[Values stand for bins of another tool, off by up to 0."), "{log}");
    // Two jobs one after another have the rate of one, on both ways.
    let (head, jobs) = BINS.split_once("\"jobs\":[").unwrap();
    let first = jobs.trim_end_matches("]}");
    let second = first.replacen("\"a\"", "\"b\",\"groupid\":1", 1);
    std::fs::write(at.join("two.json"), format!("{head}\"jobs\":[{first},{second}]}}")).unwrap();
    run_line(at, "import two.json --as-run two", 0);
    run_line(at, "export two --format hdr --output two.hlog", 0);
    run_line(at, "import two.hlog --as-run two-again", 0);
    let rate = |run: &str| summary(at, run)["totals"]["iops"].as_f64().unwrap();
    assert_eq!((rate("two"), rate("two-again")), (3.0, 3.0));
    let test = "counts of an imported run go on as a histogram log";
    let Some(sums) = python(test, "hdrh", READ_LOG, &[&file]) else { return };
    assert_eq!(sums["measure/a/read/service"], 3, "{sums}");
}

/// What YCSB prints with `measurementtype=histogram` where the last counts have no end and no maximum is told.
const OPEN: &str = "[OVERALL], RunTime(ms), 9000\n[READ], Operations, 1000\n[READ], AverageLatency(us), 480.0\n\
    [READ], MinLatency(us), 200\n[READ], 0, 700\n[READ], 1, 200\n[READ], >2, 100\n";

/// Once bins of db_bench came back twice as wide, groups of less than a millisecond as one, and counts without an end
/// not at all.
#[test]
fn counts_by_bins_come_back_from_our_log_as_they_were() {
    let dir = scratch();
    let at = dir.path();
    let samples = concat!(env!("CARGO_MANIFEST_DIR"), "/../import/tests/results/");
    let mut files =
        vec!["db_bench-histogram.txt", "fio_clat_hist.1.log", "wrk2.txt", "ycsb-READ.hdr"];
    for name in &files {
        std::fs::copy(format!("{samples}{name}"), at.join(name)).unwrap();
    }
    std::fs::write(at.join("open.txt"), OPEN).unwrap();
    // Two groups of 0.2 ms each.
    let short = BINS.replace("\"iops\":3.0,\"runtime\":1000", "\"iops\":15000.0,\"runtime\":0");
    let (head, jobs) = short.split_once("\"jobs\":[").unwrap();
    let first = jobs.trim_end_matches("]}").replace("\"bw_bytes\":12288", "\"bw_bytes\":61440000");
    let second = first.replacen("\"a\"", "\"b\",\"groupid\":1", 1);
    std::fs::write(at.join("short.json"), format!("{head}\"jobs\":[{first},{second}]}}")).unwrap();
    // Two jobs of one group, out of the order of names, whose tags differ by the operation alone.
    let first = BINS.split_once("\"jobs\":[").unwrap().1.trim_end_matches("]}");
    let (last, early) = (first.replace("\"a\"", "\"z z\""), first.replace("\"a\"", "\"z_z\""));
    let last = last.replace("\"read\":", "\"write\":").replace("randread", "randwrite");
    std::fs::write(at.join("names.json"), format!("{head}\"jobs\":[{early},{last}]}}")).unwrap();
    files.extend(["open.txt", "short.json", "names.json"]);
    let workloads = |run: String| -> Value {
        let text = std::fs::read_to_string(at.join(run).join("imported.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["workloads"].clone()
    };
    for name in files {
        run_line(at, &format!("import {name} --as-run was-{name}"), 0);
        run_line(at, &format!("export was-{name} --format hdr --output {name}.hlog"), 0);
        run_line(at, &format!("import {name}.hlog --as-run is-{name}"), 0);
        let was = workloads(format!("was-{name}"));
        assert_eq!(was, workloads(format!("is-{name}")), "{name}");
        let test = "counts by bins come back from our log as they were";
        let Some(sums) = python(test, "hdrh", READ_LOG, &[&at.join(format!("{name}.hlog"))]) else {
            continue;
        };
        let ops =
            was.as_array().unwrap().iter().flat_map(|w| w["ops"].as_object().unwrap().values());
        let counted: u64 = ops.map(|op| op["latency"]["count"].as_u64().unwrap()).sum();
        let read: u64 = sums.as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(read, counted, "{name}: {sums}");
    }
    let groups: Vec<u64> = workloads("is-short.json".to_owned())
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w["group"].as_u64().unwrap())
        .collect();
    assert!(groups[0] < groups[1], "{groups:?}");
    let (_, err) = run_line(at, "export is-open.txt --format hdr --output again.hlog", 0);
    assert!(err.contains("no bound is known"), "{err}");
    let (out, _) = run_line(at, "report is-open.txt", 0);
    assert!(out.contains("at least 2.00 ms"), "{out}");
}

#[test]
fn a_part_of_every_io_is_taken_for_no_whole() {
    let dir = scratch();
    let at = dir.path();
    run_line(at, JOB, 0);
    let whole = exported(at, "out", "ios-csv");
    let cut: Vec<&str> = whole.lines().take(2000).collect();
    std::fs::write(at.join("cut.csv"), cut.join("\n") + "\n").unwrap();
    std::fs::write(at.join("slow.csv"), whole.replace(",3000\n", ",unknown\n")).unwrap();
    std::fs::write(at.join("twice.csv"), whole.repeat(2)).unwrap();
    for (file, words) in [
        ("cut.csv", "a part of the I/Os"),
        ("slow.csv", "a part of the I/Os"),
        ("twice.csv", "begins here: give each"),
    ] {
        for line in [format!("import {file} --as-run x"), format!("trace {file}")] {
            let (_, err) = run_line(at, &line, 2);
            assert!(err.contains(words) && err.contains("line: "), "{line}: {err}");
            assert!(!at.join("x").exists(), "{line}");
        }
    }
    std::fs::write(at.join("whole.csv"), &whole).unwrap();
    run_line(at, "import whole.csv --as-run x", 0);
    let source = manifest(at, "x")["origin"].clone();
    assert_eq!(source["file_sha256"].as_str().map(str::len), Some(64), "{source}");
}
