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

use crate::common::{binary, build, run_line, scratch_on_disk};

const ROWS: u64 = 10_000_000;
/// Operations a second of the trace that is replayed, and of how many seconds.
const RATE: u64 = 100_000;
const SECONDS: u64 = 3;

/// A row of a format: its number, kind and offset.
type RowText = fn(u64, bool, u64) -> String;

const FORMATS: [(&str, &str, RowText); 3] = [
    ("Alibaba", "", |i, read, at| {
        let kind = if read { 'R' } else { 'W' };
        format!("3,{kind},{at},4096,{}", 1_577_808_000_000_000 + i * 10)
    }),
    ("MSR", "", |i, read, at| {
        let kind = if read { "Read" } else { "Write" };
        format!("{},web,0,{kind},{at},4096,{}", 128_166_372_003_061_629 + i * 100, 9 + i % 1000)
    }),
    ("iolog 3", "fio version 3 iolog\n", |i, read, at| {
        let kind = if read { "read" } else { "write" };
        format!("{} f {kind} {at} 4096", i * 10)
    }),
];

fn write(path: &Path, rows: u64, (_, head, row): (&str, &str, RowText)) {
    let mut out = BufWriter::new(File::create(path).unwrap());
    out.write_all(head.as_bytes()).unwrap();
    for i in 0..rows {
        // 16 GiB, in no order.
        let at = i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 42 << 12;
        writeln!(out, "{}", row(i, i % 3 > 0, at)).unwrap();
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
    write(&trace, RATE * SECONDS, FORMATS[0]);
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
    late.sort_unstable();
    late
}

#[test]
#[ignore = "a proof: cargo xtask proof trace"]
fn proof() {
    let path = std::env::var("PROOF_RESULTS").unwrap();
    let build = build();
    let mut lines = String::new();
    let dir = scratch_on_disk();
    for format in FORMATS {
        let file = dir.path().join("trace");
        write(&file, ROWS, format);
        let (said, took, peak) = described(&file);
        std::fs::remove_file(&file).unwrap();
        assert_eq!(said["operations"], ROWS);
        let line = json!({
            "format": format.0, "rows": ROWS, "seconds": took.as_secs_f64(), "mib": peak >> 10,
            "build": build,
        });
        println!("{line}");
        writeln!(lines, "{line}").unwrap();
    }
    let late = late(dir.path());
    let at = |share: f64| late[(share * (late.len() - 1) as f64) as usize] as f64 / 1e3;
    let line = json!({
        "rate": RATE, "operations": late.len(), "late_p50_us": at(0.5), "late_p99_us": at(0.99),
        "late_max_us": at(1.0), "build": build,
    });
    println!("{line}");
    writeln!(lines, "{line}").unwrap();
    std::fs::write(path, lines).unwrap();
}
