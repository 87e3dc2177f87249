//! How fast traces are read and how exactly they are replayed: `cargo xtask proof trace`.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use taillight_rundir::ios::{ColumnSet, IosFile};

use crate::common::{binary, build, run_line, scratch, scratch_on_disk};
use crate::replay::{blktrace, done_of};

const ROWS: u64 = 10_000_000;
/// Operations a second of the trace that is replayed, of how many seconds, and how often.
const RATE: u64 = 100_000;
const SECONDS: u64 = 5;
const ROUNDS: u64 = 3;
/// Operations that are replayed from every format, a second apart: no format has coarser stamps.
const SAME: u64 = 1_000;
/// Bytes of their target.
const SMALL: u64 = 64 << 20;

/// A row of a format: ns since the first, kind and offset.
type RowText = fn(u64, bool, u64) -> Vec<u8>;

const FORMATS: [(&str, &str, RowText); 6] = [
    ("Alibaba", "", |ns, read, at| {
        let kind = if read { 'R' } else { 'W' };
        format!("3,{kind},{at},4096,{}\n", 1_577_808_000_000_000 + ns / 1000).into_bytes()
    }),
    ("MSR", "", |ns, read, at| {
        let kind = if read { "Read" } else { "Write" };
        let (ticks, took) = (128_166_372_003_061_629 + ns / 100, 9 + ns / 100 % 1009);
        format!("{ticks},web,0,{kind},{at},4096,{took}\n").into_bytes()
    }),
    ("Tencent", "", |ns, read, at| {
        let (s, sector) = (1_538_323_200 + ns / 1_000_000_000, at / 512);
        format!("{s},{sector},8,{},1283\n", u8::from(!read)).into_bytes()
    }),
    ("iolog 2", "fio version 2 iolog\n", |ns, read, at| {
        let wait = format!("f wait {} 0\n", ns / 1_000_000);
        let wait = if ns.is_multiple_of(1_000_000) { wait } else { String::new() };
        let kind = if read { "read" } else { "write" };
        format!("{wait}f {kind} {at} 4096\n").into_bytes()
    }),
    ("iolog 3", "fio version 3 iolog\n", |ns, read, at| {
        let kind = if read { "read" } else { "write" };
        format!("{} f {kind} {at} 4096\n", ns / 1000).into_bytes()
    }),
    ("blktrace", "", |ns, read, at| blktrace(ns, at / 512, 4096, 1 | 1 << (16 + u32::from(!read)))),
];

/// Whether it is read, and its place in 16 GiB, in no order.
fn drawn(i: u64) -> (bool, u64) {
    (!i.is_multiple_of(3), i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 42 << 12)
}

/// Operations `step_ns` apart, at places below `size`.
fn write(path: &Path, rows: u64, (step_ns, size): (u64, u64), format: (&str, &str, RowText)) {
    let (name, head, row) = format;
    println!("writing {rows} rows of {name}");
    let mut out = BufWriter::new(File::create(path).unwrap());
    out.write_all(head.as_bytes()).unwrap();
    for i in 0..rows {
        let (read, at) = drawn(i);
        out.write_all(&row(i * step_ns, read, at % size)).unwrap();
    }
    out.flush().unwrap();
}

/// What `trace --json` says, how long it took, and its most memory, KiB.
fn described(path: &Path) -> (Value, Duration, u64) {
    let begun = Instant::now();
    let mut child = Command::new(binary())
        .args(["trace", "--json", path.to_str().unwrap()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let peak = std::thread::spawn(move || {
        let mut most = 0;
        while let Ok(text) = std::fs::read_to_string(&status) {
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let Some(line) = line else { break };
            most = most.max(line.trim().trim_end_matches(" kB").parse().unwrap_or(0));
            std::thread::sleep(Duration::from_millis(2));
        }
        most
    });
    let said = serde_json::from_reader(child.stdout.take().unwrap()).unwrap();
    assert!(child.wait().unwrap().success());
    (said, begun.elapsed(), peak.join().unwrap())
}

/// How late the operations of a replay on `null` were handed over, ns, ascending.
fn late(dir: &Path) -> Vec<i64> {
    let trace = dir.join("t.csv");
    write(&trace, RATE * SECONDS, (1_000_000_000 / RATE, 16 << 30), FORMATS[0]);
    let line =
        "run --driver null --size 16GiB --replay t.csv --set capture.mode=all --output replayed";
    run_line(dir, line, 0);
    let mut late = Vec::new();
    let file = IosFile::open(&dir.join("replayed/ios.parquet")).unwrap();
    file.read(ColumnSet::ALL, &mut |batch| {
        late.extend((0..batch.rows).map(|i| batch.submit(i) - batch.intended(i).unwrap()));
        Ok(())
    })
    .unwrap();
    assert_eq!(late.len() as u64, RATE * SECONDS);
    std::fs::remove_dir_all(dir.join("replayed")).unwrap();
    late.sort_unstable();
    late
}

/// Lines of the proof: each is shown when it is known.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn push(&mut self, line: &Value) {
        println!("{line}");
        writeln!(self.0, "{line}").unwrap();
    }

    /// A trace is read and described.
    fn read(&mut self, format: &str, path: &Path) {
        let (said, took, peak) = described(path);
        assert_eq!(said["operations"], ROWS, "{format}");
        self.push(&json!({
            "format": format, "rows": ROWS, "seconds": took.as_secs_f64(), "mib": peak >> 10,
            "build": build(),
        }));
    }
}

/// One trace in every format, replayed on `sim`: how many formats did the same operations, and how many there are.
fn same(dir: &Path, operations: u64) -> (usize, usize) {
    let expected: Vec<(String, u64, u64, i64)> = (0..operations)
        .map(|i| {
            let (read, at) = drawn(i);
            let op = if read { "read" } else { "write" };
            (op.to_owned(), at % SMALL, 4096, i as i64 * 1_000_000_000)
        })
        .collect();
    let (mut equal, mut all) = (0, 0);
    let mut is_same = |file: &str| {
        all += 1;
        equal += usize::from(done_of(dir, file) == expected);
    };
    for format in FORMATS {
        write(&dir.join("same"), operations, (1_000_000_000, SMALL), format);
        is_same("same");
    }
    // What was done last is a run of our own, and its export.
    std::fs::rename(dir.join("done"), dir.join("own")).unwrap();
    run_line(dir, "export own --format ios-csv --output own.csv", 0);
    is_same("own");
    is_same("own.csv");
    (equal, all)
}

#[test]
fn one_trace_is_replayed_the_same_from_every_format() {
    let dir = scratch();
    assert_eq!(same(dir.path(), 40), (8, 8));
}

#[test]
#[ignore = "a proof: cargo xtask proof trace"]
fn proof() {
    let path = std::env::var("PROOF_RESULTS").unwrap();
    let mut lines = Lines::default();
    let dir = scratch_on_disk();
    let at = dir.path();
    for format in FORMATS {
        let file = at.join("trace");
        write(&file, ROWS, (1_000_000_000 / RATE, 16 << 30), format);
        lines.read(format.0, &file);
        std::fs::remove_file(&file).unwrap();
    }
    let run = format!(
        "run --driver null --size 16GiB --rw randrw --bs 4KiB --ops {ROWS} --depth 8 --set capture.mode=all \
         --set capture.budget=2GiB --output own"
    );
    run_line(at, &run, 0);
    lines.read("a run of Taillight", &at.join("own"));
    run_line(at, "export own --format ios-csv --output own.csv", 0);
    lines.read("its ios-csv", &at.join("own.csv"));
    std::fs::remove_dir_all(at.join("own")).unwrap();
    std::fs::remove_file(at.join("own.csv")).unwrap();
    for round in 1..=ROUNDS {
        let late = late(at);
        let of = |share: f64| late[(share * (late.len() - 1) as f64) as usize] as f64 / 1e3;
        lines.push(&json!({
            "rate": RATE, "round": round, "operations": late.len(), "late_p50_us": of(0.5),
            "late_p99_us": of(0.99), "late_max_us": of(1.0), "build": build(),
        }));
    }
    let (equal, all) = same(at, SAME);
    lines.push(&json!({
        "formats": all, "same_operations": SAME, "same": equal, "build": build(),
    }));
    std::fs::write(path, lines.0).unwrap();
}
