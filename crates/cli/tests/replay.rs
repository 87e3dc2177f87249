//! Recorded traces at the command line: replayed, refused with the place, and described.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::traced::TestDisk;
use crate::common::{run_line, scratch, summary, taillight, text};
use serde_json::Value;

/// A trace of MSR's form: `rows` operations a millisecond apart, every third one a write, at odd places.
fn msr(dir: &Path, name: &str, rows: u64) {
    let mut text = String::new();
    for i in 0..rows {
        let (at, kind) =
            (128_166_372_003_061_629 + i * 10_000, ["Write", "Read", "Read"][i as usize % 3]);
        writeln!(
            text,
            "{at},web,0,{kind},{},{},9",
            i * 7919 % 1000 * 512 + 100,
            512 + i % 4 * 1024
        )
        .unwrap();
    }
    std::fs::write(dir.join(name), text).unwrap();
}

fn json(dir: &Path, line: &str) -> Value {
    serde_json::from_str(&run_line(dir, line, 0).0).unwrap()
}

#[test]
fn a_trace_is_replayed_on_a_file_and_its_run_is_a_trace_again() {
    let dir = scratch();
    let at = dir.path();
    msr(at, "t.csv", 300);
    let line = "run --path data --replay t.csv --direct=false --set workload.0.access.align=512B --output a";
    let (_, err) = run_line(at, line, 0);
    assert!(err.contains("replay of t.csv (MSR): 300 operations over 299 ms"), "{err}");
    assert!(err.contains("bytes added by rounding out to blocks"), "{err}");
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(at.join("a/summary.json")).unwrap()).unwrap();
    assert_eq!(summary["totals"]["count"], 300);
    // What the run did is the trace with its sizes rounded: the times, to the nanosecond, are its own.
    let (was, is) = (json(at, "trace t.csv --json"), json(at, "trace a --json"));
    for field in ["operations", "span_ns", "rate"] {
        assert_eq!(was[field], is[field], "{field}");
    }
    assert!(is["bytes"].as_u64().unwrap() > was["bytes"].as_u64().unwrap());
    let (_, err) = run_line(at, "run --driver sim --replay a --output b", 0);
    // Its report sets the recorded latencies beside those of the replay.
    let page = std::fs::read_to_string(at.join("b/report.md")).unwrap();
    assert!(page.contains("Recorded and replayed") && page.contains("here / recorded"), "{page}");
    assert!(err.contains("(Taillight run): 300 operations"), "{err}");
    run_line(at, "export a --format ios-csv --output a.csv", 0);
    assert_eq!(json(at, "trace a.csv --json")["rate"], is["rate"]);
}

/// Those of the whole trace stood beside a part of it.
#[test]
fn recorded_latencies_are_those_of_the_part_that_is_replayed() {
    let dir = scratch();
    let at = dir.path();
    let row = |i: u64| {
        let (stamp, ticks) = (128_166_372_003_061_629 + i * 10_000, if i < 100 { 9 } else { 9000 });
        format!("{stamp},web,0,Read,{},4096,{ticks}\n", i % 90 * 4096)
    };
    std::fs::write(at.join("t.csv"), (0..300).map(row).collect::<String>()).unwrap();
    for (name, part) in [
        ("whole", ""),
        ("operations", "--ops 100"),
        ("time", "--runtime 100ms"),
        ("bytes", "--set run.bytes=400KiB"),
        ("length", "--set workload.0.trace.length=100ms"),
    ] {
        let line = format!("run --driver sim --size 1MiB --replay t.csv {part} --output {name}");
        run_line(at, &line, 0);
        let latency = summary(at, name)["recorded"][0]["latency"].clone();
        let told = [&latency["operations"], &latency["max_ns"]].map(|it| it.as_u64().unwrap());
        let wanted = if part.is_empty() { [300, 900_000] } else { [100, 900] };
        assert_eq!(told, wanted, "{name}: {latency}");
        let due = summary(at, name)["arrivals"][0]["due"].clone();
        let due: u64 = due.as_array().unwrap().iter().filter_map(Value::as_u64).sum();
        assert_eq!(due, wanted[0], "{name}: what the run was to do");
    }
}

#[test]
fn a_trace_that_writes_passes_the_guard() {
    let dir = scratch();
    msr(dir.path(), "t.csv", 9);
    std::fs::write(dir.path().join("mine"), vec![7; 4 << 20]).unwrap();
    let line = "run --path mine --replay t.csv --direct=false";
    let (_, err) = run_line(dir.path(), line, 3);
    assert!(err.contains("mine"), "{err}");
    assert_eq!(std::fs::read(dir.path().join("mine")).unwrap(), vec![7; 4 << 20]);
}

#[test]
fn a_trace_on_a_device_is_rounded_out_and_asks_for_its_data() {
    let name = "a_trace_on_a_device_is_rounded_out_and_asks_for_its_data";
    let Some(disk) = TestDisk::new(name, 8, false) else { return };
    let dir = scratch();
    msr(dir.path(), "t.csv", 90);
    let line = format!("run --path {} --replay t.csv --output a", disk.device);
    let (_, err) = run_line(dir.path(), &line, 3);
    assert!(err.contains(&disk.device), "{err}");
    let destroy = format!("{line} --set target.destroy=true --destroy {}", disk.device);
    let (_, err) = run_line(dir.path(), &destroy, 0);
    for said in ["bytes added by rounding", "reads of what was never written"] {
        assert!(err.contains(said), "{err}");
    }
    // What only reads needs no leave.
    let reads: String = std::fs::read_to_string(dir.path().join("t.csv")).unwrap();
    let reads: String =
        reads.lines().filter(|l| l.contains("Read")).map(|l| format!("{l}\n")).collect();
    std::fs::write(dir.path().join("t.csv"), reads).unwrap();
    run_line(dir.path(), &line.replace("--output a", "--output b"), 0);
}

#[test]
fn bad_traces_are_refused_with_their_place_and_nothing_is_laid_out() {
    let dir = scratch();
    let at = dir.path();
    msr(at, "good", 30);
    let good = std::fs::read_to_string(at.join("good")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(at.join(name), text).unwrap();
    write("cut", &good[..good.len() - 20]);
    write("empty", "");
    write("other", "{\"fio version\" : \"fio-3.33\"}\n");
    write("back", &format!("{good}128166000000000000,web,0,Read,0,512,9\n"));
    write("two", &format!("{good}128166372003061629,web,1,Read,0,512,9\n"));
    write("long", &"9".repeat(5000));
    write("units", "1.5,web,0,Read,0,512,9\n");
    std::fs::create_dir(at.join("folder")).unwrap();
    for (file, what) in [
        ("cut", "line: 30"),
        ("empty", "the trace is empty"),
        ("other", "does not begin as a trace"),
        ("back", "line: 31"),
        ("two", "several disks or files: `web,0` (30 operations), `web,1` (1)"),
        ("long", "does not begin as a trace"),
        ("units", "does not begin as a trace"),
        ("folder", "holds no run that kept its I/Os"),
        ("absent", "cannot be opened"),
        ("good --size 256KiB", "the trace touches"),
        ("good --rw randread", "workload.0.mix"),
        ("good --set workload.0.trace.format=mrs", "no format `mrs`"),
        ("good --set workload.0.trace.fit=wrap", "target.size"),
    ] {
        let (_, err) = run_line(at, &format!("run --path data --direct=false --replay {file}"), 2);
        assert!(err.contains(what), "{file}: {err}");
        assert!(!at.join("data").exists(), "{file}");
    }
    let (_, err) = run_line(at, "run --driver memory --replay good", 2);
    assert!(err.contains("addressed by key"), "{err}");
    write("log", "fio version 3 iolog\n0 x add\n0 x open\n0 x read 0 4096\n");
    for (file, what) in [("log", "fio iolog version 3"), ("good", "MSR")] {
        let (_, err) = run_line(at, &format!("run {file}"), 2);
        assert!(err.contains("no job file but a recorded trace") && err.contains(what), "{err}");
        assert!(err.contains(&format!("--replay {file}")), "{err}");
    }
    let (_, err) = run_line(at, "trace cut", 2);
    assert!(err.contains("line: 30"), "{err}");
}

#[test]
fn a_changed_run_and_one_of_several_files_are_no_trace_as_they_are() {
    let dir = scratch();
    let at = dir.path();
    let run = "run --path data/ --size 1MiB --direct=false --rw randread --ops 50";
    run_line(at, &format!("{run} --set target.options.files=4 --output four"), 0);
    let (_, err) = run_line(at, "trace four", 2);
    assert!(err.contains("several disks or files") && err.contains("--select \""), "{err}");
    assert!(!err.contains("trace.select"), "a field of jobs: {err}");
    let part = run_line(at, "trace four --select file=2 --json", 0).0;
    let part: Value = serde_json::from_str(&part).unwrap();
    assert!((1..50).contains(&part["operations"].as_u64().unwrap()), "{part}");
    run_line(
        at,
        &format!("{} --set capture.mode=outliers --output slow", run.replace("data/", "b")),
        0,
    );
    let (_, err) = run_line(at, "trace slow", 2);
    assert!(err.contains("kept its slow I/Os only"), "{err}");
    let ios = at.join("four/ios.parquet");
    let mut bytes = std::fs::read(&ios).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&ios, bytes).unwrap();
    for line in ["trace four", "run --driver sim --replay four"] {
        let (_, err) = run_line(at, line, 4);
        assert!(err.contains("damaged") && err.contains("ios.parquet"), "{err}");
    }
}

#[test]
fn what_is_no_trace_is_named_with_the_command_for_it() {
    let dir = scratch();
    let at = dir.path();
    msr(at, "t.csv", 9);
    std::fs::write(at.join("fio.json"), "{\"fio version\" : \"fio-3.33\", \"jobs\": []}\n")
        .unwrap();
    std::fs::create_dir(at.join("folder")).unwrap();
    let pipe = Command::new("mkfifo").arg(at.join("pipe")).status().unwrap();
    assert!(pipe.success());
    std::os::unix::fs::symlink("loop", at.join("loop")).unwrap();
    std::fs::write(at.join("v2"), "fio version 2 iolog\na read 0 4096\na read 0 4096\n").unwrap();
    for (line, what) in [
        ("trace fio.json", "taillight report fio.json"),
        ("report t.csv", "taillight trace t.csv"),
        ("import t.csv --as-run x", "taillight trace t.csv"),
        ("trace folder", "holds no run that kept its I/Os"),
        ("trace absent", "No such file or directory"),
        ("trace pipe", "no regular file"),
        ("trace /dev/zero", "no regular file"),
        ("trace loop", "symbolic links"),
        ("run --driver sim --replay pipe", "no regular file"),
        ("run --driver sim --replay /dev/zero", "no regular file"),
        ("run --driver sim --replay v2", "the trace has no times"),
    ] {
        let code = if ["trace absent", "trace loop"].contains(&line) { 4 } else { 2 };
        let (_, err) = run_line(at, line, code);
        assert!(err.contains(what) && !err.contains("os error"), "{line}: {err}");
    }
    let (out, _) = run_line(at, "trace v2", 0);
    assert!(out.contains("2 operations, without times") && !out.contains("busiest"), "{out}");
    let asap = "run --driver sim --replay v2 --set workload.0.trace.timing=asap --output a";
    run_line(at, asap, 0);
    for line in [
        "report absent",
        "export absent --format json",
        "compare absent absent",
        "compare absent",
        "import absent",
        "import absent --as-run x",
        "import absent --run a",
        "import v2 --run absent",
    ] {
        let (_, err) = run_line(at, line, 4);
        assert!(!err.contains("os error"), "{line}: {err}");
    }
}

#[test]
fn a_device_smaller_than_its_trace_names_what_makes_it_fit() {
    let name = "a_device_smaller_than_its_trace_names_what_makes_it_fit";
    let Some(disk) = TestDisk::new(name, 8, false) else { return };
    let dir = scratch();
    let row = |i: u64| format!("{},web,0,Read,{},4096,9\n", 128_166_372_003_061_629 + i, i << 20);
    std::fs::write(dir.path().join("t.csv"), (0..40).map(row).collect::<String>()).unwrap();
    let line = format!("run --path {} --replay t.csv", disk.device);
    let (_, err) = run_line(dir.path(), &line, 2);
    assert!(err.contains("workload.0.trace: the trace touches"), "{err}");
    assert!(err.contains("trace.fit") && err.contains("a larger device"), "{err}");
    for fit in ["wrap", "scale", "clip", "compact"] {
        let fitted = format!("{line} --set workload.0.trace.fit={fit} --output {fit}");
        let (_, err) = run_line(dir.path(), &fitted, 0);
        assert!(err.contains("so that it fits") || fit == "compact", "{fit}: {err}");
    }
}

#[test]
fn a_trace_is_described_without_being_run() {
    let dir = scratch();
    msr(dir.path(), "t.csv", 3000);
    let (out, _) = run_line(dir.path(), "trace t.csv", 0);
    assert!(
        out.starts_with("t.csv (MSR): 3,000 operations, 1,000/s over 3.00 s; read 66.7 %"),
        "{out}"
    );
    let found = json(dir.path(), "trace t.csv --json");
    let schema = json(dir.path(), "schema trace");
    let validator = jsonschema::validator_for(&schema).unwrap();
    let problems: Vec<_> = validator.iter_errors(&found).collect();
    assert!(problems.is_empty(), "{problems:?}");
    assert_eq!(found["rate"]["dispersion"][2]["index"], 0.0);
    for line in
        ["streams     ", "reuse       ", "working set ", "latency     as recorded: p50 900 ns"]
    {
        assert!(out.contains(line), "{line}: {out}");
    }
    assert_eq!(found["reuse"]["sampled_one_in"], 1);
}

#[test]
fn a_stall_in_the_middle_shows_in_the_responses_and_not_in_the_arrivals() {
    let dir = scratch();
    let at = dir.path();
    msr(at, "t.csv", 1000);
    let job = "[run]\ninterval = \"100ms\"\n[target]\ndriver = \"sim\"\nsize = \"64MiB\"\n[target.options]\n\
               stalls = [{ start = \"300ms\", length = \"300ms\" }]\n\
               [[workload]]\nqueue_depth = 1\ntrace = { file = \"t.csv\" }\n";
    std::fs::write(at.join("job.toml"), job).unwrap();
    run_line(at, "run job.toml --output a", 0);
    let (csv, _) = run_line(at, "export a --format ios-csv", 0);
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|it| *it == name).unwrap();
    let [intended, submit, complete] = ["intended_ns", "submit_ns", "complete_ns"].map(column);
    let mut rows: Vec<[i64; 3]> = Vec::new();
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        rows.push([intended, submit, complete].map(|at| fields[at].parse().unwrap()));
    }
    assert_eq!(rows.len(), 1000);
    // Each is due when the trace has it, to the nanosecond, and the sum of the stall's delays is not in it.
    assert!(rows.iter().zip(0..).all(|(row, i)| row[0] - rows[0][0] == i * 1_000_000));
    let over =
        |of: &dyn Fn(&[i64; 3]) -> i64| rows.iter().filter(|row| of(row) > 1_000_000).count();
    assert_eq!(over(&|row| row[2] - row[1]), 1, "the time of service has it once");
    let late = over(&|row| row[2] - row[0]);
    assert!((300..=340).contains(&late), "the response of {late} that were due in it");
    let most = rows.iter().map(|row| row[2] - row[0]).max().unwrap();
    assert!((299_000_000..=301_000_000).contains(&most), "{most}");
    // What was due comes as the trace has it; what completed waits for the end of the stall, and all of it does.
    let summary = summary(at, "a");
    let counts = |name: &str| -> Vec<u64> {
        let all = summary["arrivals"][0][name].as_array().unwrap().iter();
        all.map(|n| n.as_u64().unwrap()).collect()
    };
    assert_eq!(
        (counts("due"), &summary["arrivals"][0]["window_ns"]),
        (vec![100; 10], &100_000_000.into())
    );
    let completed = counts("completed");
    assert!(completed[3..6].iter().sum::<u64>() <= 2 && completed[6] > 300, "{completed:?}");
    assert_eq!(completed.iter().sum::<u64>(), 1000);
    // The trace says 900 ns of each; here the last third is of the stall.
    let pairs = summary["recorded"][0]["quantiles"].as_array().unwrap();
    assert!(pairs.len() >= 98 && pairs.iter().all(|it| it["recorded_ns"] == 900), "{pairs:?}");
    let of =
        |p: &str| pairs.iter().find(|it| it["percentile"] == p).unwrap()["replayed_ns"].as_u64();
    assert_eq!(of("50"), Some(100_000));
    assert!(of("99") > Some(280_000_000), "{:?}", of("99"));
    let page = std::fs::read_to_string(at.join("a/report.html")).unwrap();
    assert!(page.contains("The replay against its trace") && page.contains("Latencies, Q-Q"));
    // Its job file is one that a user may run again: what the trace says is not written into it.
    let job = std::fs::read_to_string(at.join("a/job.toml")).unwrap();
    assert!(
        job.contains("[workload.trace]") && !job.contains("recorded]") && !job.contains("due"),
        "{job}"
    );
    run_line(at, "run a/job.toml --output again", 0);
}

/// Kind, offset, size and due time since the first of every operation that a replay on `sim` does.
pub fn done_of(dir: &Path, file: &str) -> Vec<(String, u64, u64, i64)> {
    let _ = std::fs::remove_dir_all(dir.join("done"));
    run_line(dir, &format!("run --driver sim --size 64MiB --replay {file} --output done"), 0);
    let (csv, _) = run_line(dir, "export done --format ios-csv", 0);
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let at = |name: &str| head.iter().position(|it| *it == name).expect(name);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let number = |name: &str| fields[at(name)].parse::<i64>().unwrap_or_default();
        let (offset, size) = (number("offset_bytes") as u64, number("size_bytes") as u64);
        (fields[at("op")].to_owned(), offset, size, number("intended_ns"))
    };
    let mut rows: Vec<_> = lines.map(row).collect();
    rows.sort_by_key(|row| row.3);
    let first = rows.first().map_or(0, |row| row.3);
    rows.iter_mut().for_each(|row| row.3 -= first);
    rows
}

#[test]
fn a_log_that_fio_writes_is_replayed_as_it_stands_in_it() {
    let test = "a_log_that_fio_writes_is_replayed_as_it_stands_in_it";
    let dir = scratch();
    let at = dir.path();
    let fio = |line: &str| {
        let done = Command::new("fio").args(line.split(' ')).current_dir(at).output();
        done.inspect_err(|e| println!("skipped: {test}: no fio: {e}")).ok()
    };
    let write = "--name=a --ioengine=psync --filename=data --size=4m --bs=4k --rw=randrw --rate_iops=500 \
                 --number_ios=200 --fsync=16 --write_iolog=v3.log";
    let Some(done) = fio(write) else { return };
    assert!(done.status.success(), "{}", text(&done.stderr));
    let log = std::fs::read_to_string(at.join("v3.log")).unwrap();
    assert!(log.starts_with("fio version 3 iolog\n"), "{log}");
    // Version 2 has waits in the place of stamps; fio itself takes it.
    let mut old = "fio version 2 iolog\n".to_owned();
    let mut wanted = Vec::new();
    for line in log.lines().skip(1) {
        let words: Vec<&str> = line.split(' ').collect();
        let (us, rest) = (words[0].parse::<i64>().unwrap(), words[1..].join(" "));
        if let [_, _, op, offset, size] = words[..] {
            let offset: u64 = if op == "sync" { 0 } else { offset.parse().unwrap() };
            let size: u64 = if op == "sync" { 0 } else { size.parse().unwrap() };
            let op = if op == "sync" { "fsync" } else { op };
            wanted.push((op.to_owned(), offset, size, us * 1000));
            writeln!(old, "{} wait {} 0", words[1], us / 1000).unwrap();
        }
        writeln!(old, "{rest}").unwrap();
    }
    let first = wanted[0].3;
    wanted.iter_mut().for_each(|row| row.3 -= first);
    assert!(wanted.len() >= 200, "{wanted:?}");
    assert_eq!(done_of(at, "v3.log"), wanted);
    std::fs::write(at.join("v2.log"), old).unwrap();
    let read =
        "--name=r --ioengine=psync --replay_no_stall=1 --read_iolog=v2.log --output-format=json";
    let Some(done) = fio(read) else { return };
    let fio: Value = serde_json::from_slice(&done.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", text(&done.stdout)));
    let of = |name: &str| fio["jobs"][0][name]["total_ios"].as_u64().unwrap();
    let again = done_of(at, "v2.log");
    let moved = |ops: &[(String, u64, u64, i64)]| ops.iter().filter(|op| op.0 != "fsync").count();
    assert_eq!(moved(&again) as u64, of("read") + of("write"));
    let places = |ops: &[(String, u64, u64, i64)]| {
        ops.iter().map(|op| (op.0.clone(), op.1, op.2)).collect::<Vec<_>>()
    };
    assert_eq!(places(&again), places(&wanted));
}

/// A record of blktrace: time, sector, bytes, action.
pub fn blktrace(ns: u64, sector: u64, bytes: u32, action: u32) -> Vec<u8> {
    let mut record = [0x6561_7407u32.to_ne_bytes(), 1u32.to_ne_bytes()].concat();
    record.extend([ns, sector].map(u64::to_ne_bytes).concat());
    record.extend([bytes, action, 4711, 8 << 20 | 1, 0, 0].map(u32::to_ne_bytes).concat());
    record
}

/// What blkparse calls queued: kind, offset, size and time since the first, ns.
fn queued(test: &str, dir: &Path, name: &str) -> Option<Vec<(String, u64, u64, i64)>> {
    let words = ["-i", name, "-q", "-f", "%a %T %t %S %N %d\n"];
    let done = Command::new("blkparse").args(words).current_dir(dir).output();
    let done = done.inspect_err(|e| println!("skipped: {test}: no blkparse: {e}")).ok()?;
    let said = text(&done.stdout);
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let ["Q", s, ns, sector, bytes, kind] = fields[..] else { return None };
        let number = |text: &str| text.parse::<i64>().unwrap_or_default();
        let op = if kind.contains('W') { "write" } else { "read" };
        let time = number(s) * 1_000_000_000 + number(ns);
        Some((op.to_owned(), number(sector) as u64 * 512, number(bytes) as u64, time))
    };
    let mut rows: Vec<_> = said.lines().filter_map(row).filter(|row| row.2 > 0).collect();
    let first = rows.first().map_or(0, |row| row.3);
    rows.iter_mut().for_each(|row| row.3 -= first);
    Some(rows)
}

#[test]
fn blkparse_reads_in_a_trace_what_a_replay_does() {
    let test = "blkparse_reads_in_a_trace_what_a_replay_does";
    let dir = scratch();
    let at = dir.path();
    let mut bytes = Vec::new();
    for i in 0..200u64 {
        let way = 1 << (16 + u32::from(i % 3 == 0));
        bytes.extend(blktrace(5 + i * i * 1000, i * 7919 % 1000 * 8, 4096, 1 | way));
        bytes.extend(blktrace(5 + i * i * 1000 + 400, i * 7919 % 1000 * 8, 4096, 8 | way));
    }
    std::fs::write(at.join("t.blktrace.0"), bytes).unwrap();
    let Some(wanted) = queued(test, at, "t") else { return };
    assert_eq!(wanted.len(), 200);
    assert_eq!(done_of(at, "t.blktrace.0"), wanted);
}

#[test]
fn what_blktrace_writes_of_a_loop_device_is_a_trace() {
    let test = "what_blktrace_writes_of_a_loop_device_is_a_trace";
    let Some(disk) = TestDisk::new(test, 8, false) else { return };
    let dir = scratch();
    let at = dir.path();
    // It uses files of debugfs, which may not be mounted.
    let traced = format!(
        "mount -t debugfs none /sys/kernel/debug 2>/dev/null; exec blktrace -d {} -o t -w 3",
        disk.device
    );
    let blktrace = Command::new("unshare")
        .args(["-m", "sh", "-c", &traced])
        .current_dir(at)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_secs(1));
    let line = format!(
        "run --path {} --size 8MiB --rw randread --bs 4KiB --ops 100 --output a",
        disk.device
    );
    run_line(at, &line, 0);
    let done = blktrace.wait_with_output().unwrap();
    let said = text(&done.stderr);
    if said.contains("not permitted") || said.contains("not found") {
        println!(
            "skipped: {test}: blktrace may not trace here: {}",
            said.lines().next().unwrap_or("")
        );
        return;
    }
    assert!(done.status.success(), "{said}");
    let Some(wanted) = queued(test, at, "t") else { return };
    assert!(wanted.len() >= 100, "{said}");
    assert_eq!(json(at, "trace t.blktrace.0 --json")["operations"], wanted.len());
    assert_eq!(done_of(at, "t.blktrace.0"), wanted);
}

/// A load on `sim`: the times of its service, and a rate at which it is far from its end.
const LOADS: [[&str; 2]; 4] = [
    ["kind = \"exponential\", mean = \"250us\"", "10000/s"],
    ["kind = \"uniform\", min = \"50us\", max = \"450us\"", "6000/s"],
    ["kind = \"bimodal\", common = \"100us\", rare = \"3ms\", every = 50", "12000/s"],
    ["kind = \"exponential\", mean = \"250us\"", "3000/s"],
];

/// Records a run, replays it on the same system with other chance, and compares the two: the figures.
fn replayed(load: [&str; 2], seed: u64) -> Vec<Value> {
    let dir = scratch();
    let [service, rate] = load;
    let target = format!(
        "[target]\ndriver = \"sim\"\nsize = \"64MiB\"\n[target.options]\nchannels = 4\nservice = {{ {service} }}\n"
    );
    let slots = "[[workload]]\nworkers = 2\nqueue_depth = 32\n";
    let recorded = format!(
        "[run]\noperations = 20000\nseed = {seed}\n{target}{slots}mix = \"read\"\nblock_size = \"4KiB\"\n\
         arrival = {{ kind = \"poisson\", rate = \"{rate}\" }}\n"
    );
    let replay = format!(
        "[run]\nseed = {}\n{target}{slots}trace = {{ file = \"recorded\" }}\n",
        seed + 1_000_000
    );
    std::fs::write(dir.path().join("a.toml"), recorded).unwrap();
    std::fs::write(dir.path().join("b.toml"), replay).unwrap();
    run_line(dir.path(), "run a.toml --output recorded", 0);
    run_line(dir.path(), "run b.toml --output replayed", 0);
    let line = "compare recorded replayed --output compared";
    let compared = taillight(dir.path()).args(line.split(' ')).output().unwrap();
    assert!(matches!(compared.status.code(), Some(0 | 7)), "{}", text(&compared.stderr));
    let found = std::fs::read_to_string(dir.path().join("compared/compare.json")).unwrap();
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!(found["comparable"]["verdict"], "yes", "{}", found["comparable"]);
    found["figures"].as_array().unwrap().clone()
}

/// Whether the interval of new over base has no difference in it; a figure without an interval says nothing.
fn within(figure: &Value) -> bool {
    let [lo, hi] = ["lo", "hi"].map(|end| figure[end].as_f64());
    lo.is_none_or(|lo| lo <= 1.0) && hi.is_none_or(|hi| hi >= 1.0)
}

#[test]
fn a_replay_may_be_compared_with_what_it_replays() {
    let figures = replayed(LOADS[0], 1);
    assert!(figures.len() >= 4, "{figures:?}");
    let differs = |figure: &&Value| matches!(figure["verdict"].as_str(), Some("better" | "worse"));
    assert_eq!(figures.iter().find(differs), None);
}

#[test]
#[ignore = "a proof: cargo xtask proof replay"]
fn proof() {
    let path = std::env::var("PROOF_RESULTS").unwrap();
    let mut lines = String::new();
    for load in LOADS {
        let found: Vec<Vec<Value>> = (1..=25).map(|seed| replayed(load, seed)).collect();
        let [service, rate] = load;
        let mut line = serde_json::json!({
            "service": service.replace('"', ""), "rate": rate, "seeds": found.len(),
        });
        for name in ["p50", "p90", "p99", "p99.9"] {
            let of = found.iter().flatten().filter(|figure| figure["figure"] == name);
            line[name] = of.filter(|figure| within(figure)).count().into();
        }
        let differs =
            |figure: &&Value| matches!(figure["verdict"].as_str(), Some("better" | "worse"));
        line["verdicts"] = found.iter().flatten().filter(differs).count().into();
        writeln!(lines, "{line}").unwrap();
    }
    std::fs::write(path, lines).unwrap();
}
