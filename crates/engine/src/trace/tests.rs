//! Trace formats: the same operations from each, coarse stamps, parts by disk and time, latencies, runs of our own; and
//! what is wrong in a file, with its place.

use std::fmt::Write as _;
use std::path::Path;

use taillight_core::plan::{CaptureMode, ReplayOps, ReplayPlan, TraceOp};
use taillight_core::units::Span;
use taillight_core::{OpKind, Record, Result, Stamp};
use taillight_rundir::ios::{IosWriter, RowKey};
use taillight_rundir::origin::{Fidelity, ImportSource, RunOrigin};
use taillight_rundir::watched::{WatchedFile, WatchedOp};
use taillight_rundir::{Manifest, RunDir, SCHEMA_VERSION, fixture, sums};

use super::{MOST_OPS, TraceFile, TraceProfile, describe, load};

fn parsed(bytes: impl AsRef<[u8]>) -> Result<ReplayOps> {
    selected(bytes, ReplayPlan::default(), MOST_OPS)
}

fn selected(bytes: impl AsRef<[u8]>, part: ReplayPlan, most: u64) -> Result<ReplayOps> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("trace");
    std::fs::write(&path, bytes).expect("written");
    load(&ReplayPlan { file: path.display().to_string(), ..part }, most)
}

fn recognised(first: &str) -> bool {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("trace");
    std::fs::write(&path, format!("{first}\n")).expect("written");
    TraceFile::open(&path.display().to_string()).expect("opened").recognise().is_some()
}

/// A record of blktrace, in the byte order of this machine or the other.
fn blktrace(swap: bool, (ns, sector): (u64, u64), (bytes, action): (u32, u32)) -> Vec<u8> {
    let word = |w: u32| if swap { w.swap_bytes() } else { w }.to_ne_bytes();
    let long = |l: u64| if swap { l.swap_bytes() } else { l }.to_ne_bytes();
    let half = |h: u16| if swap { h.swap_bytes() } else { h }.to_ne_bytes();
    let mut record = [word(0x6561_7407), word(9)].concat();
    record.extend([long(ns), long(sector)].concat());
    record.extend([bytes, action, 4711, 8 << 20 | 1, 3].map(word).concat());
    record.extend([half(0), half(4)].concat());
    assert_eq!(record.len(), 48);
    record.extend(b"abcd");
    record
}

/// Ticks of a second, kind, sector and sectors of some operations: a second apart, so that every
/// format can say them.
fn operations() -> Vec<(u64, OpKind, u64, u32)> {
    let kind = |i: u64| if i.is_multiple_of(3) { OpKind::Write } else { OpKind::Read };
    (0..50).map(|i| (i * i % 7 + 7 * i, kind(i), i * 0x9E37 % 1000, 8 + i as u32 % 5)).collect()
}

/// A run of ours with these I/Os, and the same as CSV.
fn own_run(expected: &[(i64, TraceOp)], dir: &Path) -> String {
    let mut csv = "phase,workload,worker,op,target,offset_bytes,key,size_bytes,moved_bytes,count,\
                   intended_ns,origin_ns,submit_ns,issued_ns,first_ns,complete_ns,sync_ns,retries,status\n"
        .to_owned();
    let run = RunDir::create(dir, &fixture::manifest("trace")).expect("made");
    let mut ios = IosWriter::create(&run).expect("made");
    // Rows of runs come worker by worker.
    for worker in [1, 0] {
        for (i, (at, op)) in expected.iter().enumerate().filter(|(i, _)| i % 2 == worker) {
            let submit = Stamp(at + 1000);
            let intended = (i % 3 == 0).then_some(Stamp(at + 1000));
            let record = Record {
                op: op.kind,
                offset: Some(op.offset),
                size: op.size.into(),
                intended,
                submit: if intended.is_some() { Stamp(at + 5000) } else { submit },
                ..Record::default()
            };
            ios.begin(RowKey { phase: "measure", workload: 0, worker: worker as u16 });
            ios.push(&record).expect("written");
            let due = intended.map_or(String::new(), |s| s.0.to_string());
            let (name, offset, size, submit) =
                (op.kind.name(), op.offset, op.size, record.submit.0);
            writeln!(csv, "measure,0,{worker},{name},0,{offset},,{size},,,{due},,{submit},,,9,,,0")
                .expect("text");
        }
    }
    ios.finish().expect("written");
    csv
}

#[test]
fn one_trace_has_the_same_operations_in_every_format() {
    let (mut msr, mut alibaba, mut tencent) = (String::new(), String::new(), String::new());
    let mut v2 = "fio version 2 iolog\n/dev/x add\n/dev/x open\n".to_owned();
    let mut v3 = "fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n".to_owned();
    let expected: Vec<(i64, TraceOp)> = operations()
        .into_iter()
        .map(|(s, kind, sector, sectors)| {
            let (offset, size) = (sector * 512, sectors * 512);
            let write = kind == OpKind::Write;
            let (word, letter) = if write { ("Write", "W") } else { ("Read", "R") };
            let name = kind.name();
            let filetime = 128_166_372_003_061_629 + s * 10_000_000;
            writeln!(msr, "{filetime},usr,0,{word},{offset},{size},41286").expect("text");
            let us = 1_577_808_000_000_000 + s * 1_000_000;
            writeln!(alibaba, "419,{letter},{offset},{size},{us}").expect("text");
            let s_1970 = 1_538_323_200 + s;
            let digit = u8::from(write);
            writeln!(tencent, "{s_1970},{sector},{sectors},{digit},1283").expect("text");
            let ms = 1000 * s;
            writeln!(v2, "/dev/x wait {ms} 0\n/dev/x {name} {offset} {size}").expect("text");
            let us = 1_000_000 * s;
            writeln!(v3, "{us} /dev/x {name} {offset} {size}").expect("text");
            (s as i64 * 1_000_000_000, TraceOp::new(kind, offset, size))
        })
        .collect();
    let dir = tempfile::tempdir().expect("a directory");
    let csv = own_run(&expected, dir.path());
    let (mut block, mut other) = (Vec::new(), Vec::new());
    for (at, op) in &expected {
        let write = u32::from(op.kind == OpKind::Write);
        let queued = (op.size, 1 | 1 << (write + 16));
        let place = (*at as u64, op.offset / 512);
        for (swap, bytes) in [(false, &mut block), (true, &mut other)] {
            // What else is traced of an operation is not another one.
            bytes.extend(blktrace(swap, place, queued));
            bytes.extend(blktrace(swap, place, (op.size, 7 | 1 << (6 + 16))));
        }
    }
    let (mut times, ops): (Vec<i64>, Vec<TraceOp>) = expected.into_iter().unzip();
    let first = times[0];
    times.iter_mut().for_each(|t| *t -= first);
    for (text, name) in [
        (msr.into_bytes(), "MSR"),
        (alibaba.into_bytes(), "Alibaba"),
        (tencent.into_bytes(), "Tencent"),
        (v2.into_bytes(), "fio iolog version 2"),
        (v3.into_bytes(), "fio iolog version 3"),
        (block, "blktrace"),
        (other, "blktrace"),
        (csv.into_bytes(), "ios-csv"),
        (Vec::new(), "Taillight run"),
    ] {
        let directory =
            ReplayPlan { file: dir.path().display().to_string(), ..ReplayPlan::default() };
        let trace = match text.is_empty() {
            true => load(&directory, MOST_OPS),
            false => parsed(&text),
        };
        let trace = trace.expect(name);
        assert_eq!(trace.format, name);
        assert_eq!(*trace.times, *times, "{name}");
        assert_eq!(*trace.ops, *ops, "{name}");
        assert_eq!((trace.sorted, trace.skipped), (0, 0), "{name}");
    }
}

#[test]
fn stamps_are_exact_and_coarse_ones_are_spread_over_their_tick() {
    let fine = "128166372003061629,u,0,Read,0,512,1\n128166372003061630,u,0,Read,0,512,1\n\
                128166372003061630,u,0,Read,512,512,1\n";
    assert_eq!(*parsed(fine).expect("read").times, [0, 100, 100]);
    let coarse = "100,0,8,0,1\n100,8,8,0,1\n100,16,8,1,1\n101,0,8,0,1\n103,0,8,0,1\n103,0,8,0,1\n";
    let spread = [0, 333_333_333, 666_666_666, 1_000_000_000, 3_000_000_000, 3_500_000_000];
    let trace = parsed(coarse).expect("read");
    assert_eq!((&*trace.times, trace.spread), (&spread[..], 3));
    let said = describe(&ReplayPlan { ops: trace, ..ReplayPlan::default() });
    assert!(said.contains("3 operations spread over the tick"), "{said}");
}

/// Once they were due together, and told.
#[test]
fn whole_milliseconds_and_seconds_of_finer_formats_are_spread_as_those_of_coarse_ones() {
    let alibaba = |us: [i64; 4]| us.map(|us| format!("1,R,0,512,{us}\n")).concat();
    let msr =
        |ms: [i64; 4]| ms.map(|ms| format!("{},u,0,Read,0,512,1\n", 7 + ms * 10_000)).concat();
    let iolog = |us: [i64; 4]| {
        let rows = us.map(|us| format!("{us} a read 0 4096\n")).concat();
        format!("fio version 3 iolog\n{rows}")
    };
    let s = 1_000_000_000i64;
    for (text, times, spread) in [
        (alibaba([5_000_000, 5_000_000, 6_000_000, 8_000_000]), [0, s / 2, s, 3 * s], 1),
        (alibaba([5_000, 5_000, 5_000, 6_000]), [0, 333_333, 666_666, 1_000_000], 2),
        (msr([3, 4, 4, 4]), [0, 1_000_000, 1_333_333, 1_666_666], 2),
        (iolog([0, 0, 0, 2_000]), [0, 333_333, 666_666, 2_000_000], 2),
        // One that is finer tells that the clock was.
        (alibaba([5_000, 5_000, 6_000, 7_001]), [0, 0, 1_000_000, 2_001_000], 0),
    ] {
        let trace = parsed(&text).expect("read");
        assert_eq!((&*trace.times, trace.spread, trace.bunched), (&times[..], spread, 0), "{text}");
    }
    // One moment says nothing of the clock, and a trace in ns has a clock that fine.
    let once = parsed(iolog([0, 0, 0, 0])).expect("read");
    assert_eq!((&*once.times, once.spread, once.bunched), (&[0; 4][..], 0, 3));
    let at = |ns| blktrace(false, (ns, 8), (512, 1 | 1 << 16));
    let kernel = parsed([at(0), at(0), at(1_000_000)].concat()).expect("read");
    assert_eq!((&*kernel.times, kernel.spread, kernel.bunched), (&[0, 0, 1_000_000][..], 0, 1));
}

/// A log of fio has the ends of I/Os in ms: those of one ms were once due together.
#[test]
fn the_ends_of_an_imported_log_of_fio_are_spread_and_each_begins_its_latency_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |tool: &str| {
        let source = ImportSource {
            tool: tool.to_owned(),
            version: None,
            file: "a_clat.1.log".to_owned(),
            file_sha256: String::new(),
            file_crc32: String::new(),
            fidelity: Fidelity::EveryIo,
            spans: String::new(),
            notes: Vec::new(),
            failed: Vec::new(),
        };
        let place = dir.path().join(tool);
        let manifest = Manifest { origin: RunOrigin::Imported(source), ..fixture::manifest("log") };
        let run = RunDir::create(&place, &manifest).expect("made");
        let mut file = IosWriter::create(&run).expect("made");
        file.begin(RowKey { phase: "measure", workload: 0, worker: 0 });
        for (end_ms, ns) in [(5, 900_000), (5, 300_000), (5, 200_000), (5, 100_000), (9, 400_000)] {
            let complete = Stamp(end_ms * 1_000_000);
            let (submit, size) = (Stamp(complete.0 - ns), 512);
            let offset = Some(ns as u64);
            let record = Record { offset, size, submit, complete, ..Record::default() };
            file.push(&record).expect("written");
        }
        file.finish().expect("written");
        load(&ReplayPlan { file: place.display().to_string(), ..ReplayPlan::default() }, MOST_OPS)
            .expect("read")
    };
    let trace = write("fio");
    // Ends at 5.0, 5.25, 5.5 and 5.75 ms in the order of the file, and at 9 ms.
    assert_eq!(*trace.times, [0, 850_000, 1_200_000, 1_550_000, 4_500_000]);
    let places: Vec<u64> = trace.ops.iter().map(|op| op.offset).collect();
    assert_eq!(places, [900_000, 300_000, 200_000, 100_000, 400_000]);
    assert_eq!(trace.latencies, places);
    assert_eq!(trace.spread, 3);
    let other = write("other");
    assert_eq!((other.spread, other.times[1]), (0, 600_000));
}

#[test]
fn rows_out_of_order_are_sorted_and_counted_and_empty_ones_left_out() {
    let trace = parsed("1,R,0,512,5001\n1,W,512,512,4000\n1,R,0,0,4500\n1,R,1024,512,5001\n");
    let trace = trace.expect("read");
    assert_eq!((trace.sorted, trace.skipped), (1, 1));
    assert_eq!(*trace.times, [0, 1_001_000, 1_001_000]);
    let offsets: Vec<u64> = trace.ops.iter().map(|op| op.offset).collect();
    assert_eq!(offsets, [512, 0, 1024]);
}

#[test]
fn a_bad_row_is_named_with_its_line() {
    let long = format!("1,R,0,512,1\n{}\n", "x".repeat(5000));
    for (text, line, what) in [
        ("1,R,0,512,99000000\n1,R,0,512,100\n", 2, "before a row above it"),
        ("1,R,0,512,1\n1,R,0,51", 2, "5 columns, this one 4"),
        ("1,R,0,512,1\n1,R,-5,512,2\n", 2, "`-5` is no offset"),
        ("1,R,0,512,1\n1,R,18446744073709551615,512,2\n", 2, "lies beyond"),
        ("1,R,0,512,1\n1,X,0,512,2\n", 2, "`X` is neither"),
        ("1,R,0,512,1\n1,R,0,512,-5\n", 2, "`-5` is no time"),
        ("fio version 3 iolog\n-1 f read 0 512\n", 2, "`-1` is no time"),
        ("1,f,0,Read,0,512,1\n2,f,0,Read,0,512,184467440737095517\n", 2, "response time"),
        ("1,f,0,Read,0,512,1\n-2,f,0,Read,0,512,1\n", 2, "`-2` is no time"),
        ("100,8,8,0,1\n-1,8,8,0,1\n", 2, "`-1` is no time"),
        ("fio version 3 iolog\n0 f open\n9 f read 0\n", 3, "ends before its length"),
        ("fio version 3 iolog\n0 f frob 1 2\n", 2, "`frob` is no action"),
        ("fio version 2 iolog\nf add\nf open\n", 3, "no operation"),
        ("0,f,0,Read,0,512,1\n9223372036854775807,f,0,Read,0,512,1\n", 2, "292 years"),
        (&long, 2, "longer than 4096 bytes"),
    ] {
        let said = parsed(text).expect_err("refused").to_string();
        let place = format!("line: {line}");
        assert!(said.contains(what) && said.contains(&place), "{text}: {said}");
    }
}

#[test]
fn other_files_are_no_trace() {
    for first in [
        "",
        "1.5ms",
        "# open loop",
        "/dev/x add",
        "0ns 5us",
        "{\"fio version\": 3}",
        "1,2,3",
        "5 ms read",
    ] {
        assert!(!recognised(first), "{first}");
    }
}

#[test]
fn a_part_of_a_trace_is_taken_by_disk_and_time() {
    let rows = "5,R,0,512,1000000\n6,W,0,512,1500000\n5,R,512,512,2000000\n5,R,0,512,3000000\n";
    let said = parsed(rows).expect_err("two disks").to_string();
    assert!(said.contains("files: `5` (3 operations), `6` (1)"), "{said}");
    assert!(said.contains("line: 2"), "{said}");
    // All of them are named, the busiest first, and what is wrong behind the first does not count; of very many some.
    let several =
        format!("{rows}7,R,0,512,3000000\n{}5,R,broken\n", "6,W,0,512,3000001\n".repeat(3));
    let e = parsed(several).expect_err("three disks");
    let said = e.to_string();
    let told = "files, counted in its first 8 rows: `6` (4 operations), `5` (3), `7` (1)";
    assert!(said.contains(told) && said.contains("line: 2"), "{said}");
    assert!(e.hint_text().is_some_and(|hint| hint.contains("trace.select = \"6\"")), "{e}");
    let many: String = (0..99).map(|i| format!("d{i},R,0,512,{i}\n")).collect();
    let said = parsed(many).expect_err("many disks").to_string();
    assert!(said.contains("`d14` (1), `d15` (1) and 83 more"), "{said}");
    assert!(!said.contains("`d16`"), "{said}");
    let of = |select: &str| ReplayPlan { select: Some(select.to_owned()), ..ReplayPlan::default() };
    for name in ["device=5", "5"] {
        let trace = selected(rows, of(name), MOST_OPS).expect("read");
        assert_eq!(*trace.times, [0, 1_000_000_000, 2_000_000_000]);
    }
    let said = selected(rows, of("7"), MOST_OPS).expect_err("none").to_string();
    assert!(said.contains("no operation of `7`"), "{said}");
    let part = |from, length| {
        let time = |ms: u64| Some(Span(ms * 1_000_000));
        selected(rows, ReplayPlan { from: time(from), length: time(length), ..of("5") }, MOST_OPS)
    };
    assert_eq!(*part(500, 1500).expect("read").times, [0]);
    assert_eq!(*part(1000, 1001).expect("read").times, [0, 1_000_000_000]);
    assert!(part(2001, 1000).is_err());
    let far = "5,R,0,512,0\n5,R,0,512,900000000\n5,R,0,512,901000000\n5,R,broken\n";
    let hour = ReplayPlan { length: Some(Span(60_000_000_000)), ..ReplayPlan::default() };
    assert_eq!(*selected(far, hour, MOST_OPS).expect("what follows is not read").times, [0]);
}

#[test]
fn more_operations_than_fit_into_memory_are_refused_where_they_begin() {
    let rows = "1,R,0,512,1\n".repeat(9);
    let e = selected(rows, ReplayPlan::default(), 8).expect_err("too many");
    assert_eq!(e.kind(), taillight_core::ErrorKind::Unavailable);
    assert!(e.to_string().contains("line: 9"), "{e}");
}

#[test]
fn a_trace_that_is_cut_in_its_last_row_is_refused() {
    for text in [
        "fio version 3 iolog\n0 a read 0 4096\n1000 a read 0 40",
        "fio version 2 iolog\na read 0 4096\na wait 5",
        "1,R,0,512,1\n1,R,0,512,2",
        "128166372003061629,u,0,Read,0,512,1\n128166372003061630,u,0,Read,0,512,1",
        "100,0,8,0,1\n100,8,8,0,1",
    ] {
        let said = parsed(text).expect_err("cut").to_string();
        assert!(said.contains("the last row has no end") && said.contains("line: "), "{said}");
        parsed(format!("{text}\n")).expect("whole");
    }
}

#[test]
fn waits_of_an_old_iolog_keep_its_order_and_without_any_it_has_no_times() {
    let log = "fio version 2 iolog\na add\na wait 5000 0\na read 0 4096\na wait 100 0\n\
               a read 4096 4096\na wait 90000 0\na read 0 4096\n";
    let trace = parsed(log).expect("read");
    assert_eq!(*trace.times, [0, 500_000, 85_000_000_000]);
    assert_eq!((trace.ops[1].offset, trace.sorted, trace.untimed), (4096, 0, false));
    let said = parsed("fio version 2 iolog\na wait -5\na read 0 4096\n").expect_err("negative");
    assert!(said.to_string().contains("`-5` is no time to wait for"), "{said}");
    let none = parsed("fio version 2 iolog\na read 0 512\na read 512 512\n").expect("read");
    assert_eq!((&*none.times, none.untimed), (&[0, 0][..], true));
}

#[test]
fn disks_are_told_apart_by_their_host_and_named_by_either_part() {
    let rows = "0,web,0,Read,0,512,9\n1,prn,1,Read,512,512,9\n2,prn,0,Read,1024,512,9\n";
    let of = |select: &str| {
        let part = ReplayPlan { select: Some(select.to_owned()), ..ReplayPlan::default() };
        selected(rows, part, MOST_OPS)
            .map(|it| it.ops.iter().map(|op| op.offset).collect::<Vec<_>>())
    };
    let said = parsed(rows).expect_err("several");
    assert!(said.to_string().contains("`web,0` (1 operation), `prn,1` (1)"), "{said}");
    assert!(said.hint_text().is_some_and(|hint| hint.contains("(host,disk)")), "{said}");
    for (select, offset) in
        [("prn,0", 1024), ("1", 512), ("disk=1", 512), ("host=web", 0), ("disk=web,0", 0)]
    {
        assert_eq!(of(select).expect(select), [offset], "{select}");
    }
    for select in ["0", "disk=0", "host=prn"] {
        assert!(of(select).expect_err(select).to_string().contains("several disks"), "{select}");
    }
    let log = "fio version 3 iolog\n0 x=y read 0 512\n1 y read 512 512\n2 a,b read 1024 512\n";
    for (select, offset) in
        [("x=y", 0), ("file=x=y", 0), ("file=y", 512), ("y", 512), ("a,b", 1024)]
    {
        let part = ReplayPlan { select: Some(select.to_owned()), ..ReplayPlan::default() };
        assert_eq!(selected(log, part, MOST_OPS).expect(select).ops[0].offset, offset, "{select}");
    }
}

#[test]
fn a_packed_trace_is_named_and_a_mark_before_a_text_is_none_of_it() {
    for (bytes, what) in [
        (&b"\x1f\x8b\x08\x00"[..], "packed by gzip"),
        (b"\x28\xb5\x2f\xfd123", "packed by zstd"),
        (b"\xff\xfe1\x00,\x00", "UTF-16"),
    ] {
        for format in [None, Some("msr".to_owned())] {
            let part = ReplayPlan { format, ..ReplayPlan::default() };
            let said = selected(bytes, part, MOST_OPS).expect_err(what);
            assert!(said.to_string().contains(what) && said.hint_text().is_some(), "{said}");
        }
    }
    let rows = "1,R,0,512,1\n1,R,512,512,2\n";
    let marked = parsed(format!("\u{feff}{rows}")).expect("read");
    assert_eq!(*marked.ops, *parsed(rows).expect("read").ops);
}

#[test]
fn the_files_of_all_cpus_are_read_with_gaps_and_empty_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let write = |cpu: &str, ns: &[u64]| {
        let records = ns.iter().flat_map(|ns| blktrace(false, (*ns, 8), (512, 1 | 1 << 16)));
        std::fs::write(dir.path().join(cpu), records.collect::<Vec<u8>>()).expect("written");
    };
    write("t.blktrace.0", &[]);
    write("t.blktrace.2", &[9, 4]);
    write("t.blktrace.13", &[1]);
    write("other.blktrace.1", &[3]);
    for cpu in ["t.blktrace.0", "t.blktrace.13"] {
        let file = dir.path().join(cpu).display().to_string();
        let trace = load(&ReplayPlan { file, ..ReplayPlan::default() }, MOST_OPS).expect("read");
        assert_eq!(*trace.times, [0, 3, 8], "{cpu}");
    }
}

/// p99.9 of a few operations once stood as a figure, though it was the longest.
#[test]
fn a_percentile_that_too_few_operations_resolve_is_not_told() {
    for (operations, told) in [(4_u64, 0), (200, 2), (299, 3)] {
        let rows: String =
            (0..operations).map(|i| format!("{i},u,0,Read,0,512,{}\n", i + 1)).collect();
        let ops = parsed(rows).expect("read");
        let latency = TraceProfile::of(&ops).latency.expect("latencies");
        assert_eq!(latency.percentiles.len(), told, "{operations}");
        let said = describe(&ReplayPlan { ops, ..ReplayPlan::default() });
        assert_eq!(said.matches(", p").count() + said.matches(": p").count(), told, "{said}");
        assert!(said.contains("most "), "{said}");
    }
}

#[test]
fn latencies_are_kept_where_the_trace_has_them() {
    let rows: String = (0..200).map(|i| format!("{i},u,0,Read,0,512,{}\n", i + 1)).collect();
    let latency = parsed(rows).expect("read").latency.expect("latencies");
    let known: Vec<u64> = latency.percentiles.iter().map(|it| it.ns).collect();
    assert_eq!(known, [10_000, 18_000, 19_800, 20_000, 20_000]);
    assert_eq!((latency.operations, latency.max_ns, latency.mean_ns), (200, 20_000, 10_050.0));
    assert_eq!(parsed("1,R,0,512,1\n").expect("read").latency, None);
}

/// A whole run with I/Os of 7 us each: its target, and when it was sent.
fn run_with(dir: &std::path::Path, ios: &[(u16, i64)]) -> RunDir {
    let mut run = RunDir::create(dir, &fixture::manifest("trace")).expect("made");
    let mut file = IosWriter::create(&run).expect("made");
    file.begin(RowKey { phase: "measure", workload: 0, worker: 0 });
    for (target, at) in ios {
        let (submit, complete) = (Stamp(*at), Stamp(at + 7000));
        let record = Record {
            target: *target,
            offset: Some(0),
            size: 512,
            submit,
            complete,
            ..Record::default()
        };
        file.push(&record).expect("written");
    }
    file.finish().expect("written");
    let mut manifest = run.manifest().clone();
    manifest.files = sums::file_sums(&run).expect("sums");
    run.write_manifest(&manifest).expect("written");
    run
}

#[test]
fn a_run_is_a_trace_only_where_it_is_whole_and_names_its_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let of = |select: Option<&str>| {
        let file = dir.path().display().to_string();
        let select = select.map(str::to_owned);
        load(&ReplayPlan { file, select, ..ReplayPlan::default() }, MOST_OPS)
    };
    let mut run = run_with(dir.path(), &[(0, 5), (3, 6), (0, 9)]);
    let said = of(None).expect_err("two files").to_string();
    let name = &run.manifest().plan.workloads[0].name;
    let told = format!("`workload={name},0` (2 operations), `workload={name},3` (1)");
    assert!(said.contains(&told), "{said}");
    let named = format!("{},0", run.manifest().plan.workloads[0].name);
    let worded = format!("workload={named}");
    for select in ["0,0", "file=0", &named, &worded] {
        let trace = of(Some(select)).expect(select);
        assert_eq!(*trace.times, [0, 4], "{select}");
        assert_eq!(trace.latency.expect("latencies").max_ns, 7000);
    }
    // A copy may be of a run that kept a part.
    let copy = dir.path().join("copy");
    std::fs::copy(dir.path().join("ios.parquet"), &copy).expect("copied");
    let (file, select) = (copy.display().to_string(), Some("0,0".to_owned()));
    let ops = load(&ReplayPlan { file, select, ..ReplayPlan::default() }, MOST_OPS).expect("read");
    let said = describe(&ReplayPlan { ops, ..ReplayPlan::default() });
    assert!(said.contains("whether it has all I/Os"), "{said}");
    assert!(!of(Some("0,0")).expect("read").alone);
    let whole = run.manifest().clone();
    let mut two = whole.clone();
    two.plan.workloads.push(two.plan.workloads[0].clone());
    (two.plan.workloads[0].name, two.plan.workloads[1].name) = ("1".to_owned(), "b".to_owned());
    run.write_manifest(&two).expect("written");
    let said = of(Some("1,0")).expect_err("name and number").to_string();
    assert!(said.contains("name of one workload and the number of another, `b`"), "{said}");
    assert_eq!(of(Some("workload=1,0")).expect("named").ops.len(), 2);
    let mut part = whole.clone();
    part.capture.mode = CaptureMode::Outliers;
    run.write_manifest(&part).expect("written");
    let said = of(Some("file=0")).expect_err("a part");
    assert!(said.to_string().contains("kept its slow I/Os only"), "{said}");
    let mut lost = whole.clone();
    lost.losses.ios = 4;
    run.write_manifest(&lost).expect("written");
    let ops = of(Some("file=0")).expect("read");
    assert!(
        describe(&ReplayPlan { ops, ..ReplayPlan::default() })
            .contains("4 I/Os of the run not in it")
    );
    let path = dir.path().join("ios.parquet");
    let mut bytes = std::fs::read(&path).expect("read");
    bytes[9] ^= 1;
    std::fs::write(&path, bytes).expect("written");
    let said = of(Some("file=0")).expect_err("changed");
    assert_eq!(said.kind(), taillight_core::ErrorKind::Corrupt, "{said}");
}

#[test]
fn a_watched_run_is_a_trace_of_one_of_its_files_where_all_of_it_was_recorded() {
    let dir = tempfile::tempdir().expect("a directory");
    let origin = RunOrigin::watched("db");
    let manifest = Manifest { origin, ..fixture::manifest("watched") };
    let mut run = RunDir::create(dir.path(), &manifest).expect("made");
    let mut file = IosWriter::create(&run).expect("made");
    file.begin(RowKey { phase: "measure", workload: 0, worker: 7 });
    for (target, op, size, at) in [
        (1, OpKind::Write, 512, 100),
        (2, OpKind::Read, 4096, 150),
        (1, OpKind::Fsync, 0, 160),
        // The end of a file, and a wait: neither moves a byte.
        (1, OpKind::Read, 0, 170),
        (1, OpKind::Wait, 0, 180),
        (1, OpKind::Read, 512, 1_000_000_107),
    ] {
        let (submit, complete) = (Stamp(at), Stamp(at + 40));
        let offset = Some(1024).filter(|_| size > 0);
        let row = Record { target, op, size, offset, submit, complete, ..Record::default() };
        file.push(&row).expect("written");
    }
    file.finish().expect("written");
    let mut kept = |recorded| {
        let ops = vec![WatchedOp { seen: 3, slow: 1, whole: true, ..WatchedOp::default() }];
        let files = ["unknown", "data", "log"].map(str::to_owned).into();
        let schema = SCHEMA_VERSION;
        run.write(&WatchedFile { schema, recorded, ops, files, ..WatchedFile::default() })
            .expect("made");
        let sums = sums::file_sums(&run).expect("sums");
        run.write_manifest(&Manifest { files: sums, ..manifest.clone() }).expect("written");
    };
    let of = |file: &str, select: Option<&str>| {
        let file = dir.path().join(file).display().to_string();
        let select = select.map(str::to_owned);
        load(&ReplayPlan { file, select, ..ReplayPlan::default() }, MOST_OPS)
    };
    kept(0);
    let said = of("", Some("1")).expect_err("a part").to_string();
    assert!(said.contains("slow I/Os only"), "{said}");
    kept(3);
    let said = of("", None).expect_err("two files").to_string();
    assert!(said.contains("`1` (3 operations), `2` (1)"), "{said}");
    for (file, select) in [("", "1"), ("ios.parquet", "file=1")] {
        let trace = of(file, Some(select)).expect("read");
        assert_eq!(*trace.times, [0, 60, 1_000_000_007]);
        let ops: Vec<_> = trace.ops.iter().map(|op| (op.kind, op.offset, op.size)).collect();
        let wanted = [(OpKind::Write, 1024, 512), (OpKind::Fsync, 0, 0), (OpKind::Read, 1024, 512)];
        assert_eq!(ops, wanted);
    }
    // What cannot be read of the run is damage, not a file without a run.
    std::fs::write(dir.path().join("manifest.json"), "{").expect("written");
    assert_eq!(
        of("ios.parquet", Some("1")).expect_err("damaged").kind(),
        taillight_core::ErrorKind::Corrupt
    );
}

#[test]
fn damaged_and_foreign_files_are_named_with_their_place() {
    let record = blktrace(false, (5, 8), (512, 1 | 1 << 16));
    for (bytes, what) in [
        (&record[..50], "a part of a record (byte 0"),
        (&[&record[..], &record[..9]].concat(), "no record, or a part of one (byte 52"),
        (&[&record[..], b"x".repeat(48).as_slice()].concat(), "(byte 52"),
        (&blktrace(true, (5, 8), (512, 7)), "no operation"),
        (b"", "the trace is empty"),
        (b"PAR1 and then nothing", "Taillight run trace cannot be used"),
        (b"{\"fio version\": 3}", "does not begin as a trace"),
    ] {
        let e = parsed(bytes).expect_err(what);
        assert!(
            e.to_string().contains(what) && e.to_string().contains("trace.file"),
            "{what}: {e}"
        );
        assert_eq!(e.kind(), taillight_core::ErrorKind::Usage, "{e}");
    }
    let word = ReplayPlan { format: Some("msr".to_owned()), ..ReplayPlan::default() };
    let said = selected("1,R,0,512,1\n", word, MOST_OPS).expect_err("no MSR").to_string();
    assert!(said.contains("7 columns, this one 5"), "{said}");
    let word = ReplayPlan { format: Some("mrs".to_owned()), ..ReplayPlan::default() };
    assert!(selected("1,R,0,512,1\n", word, MOST_OPS).is_err());
}

#[test]
fn what_stands_twice_or_in_part_in_a_file_is_refused() {
    let iolog = "fio version 3 iolog\n0 a read 0 4096\n";
    let old = "fio version 2 iolog\na wait 5\na read 0 4096\n";
    let msr = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n1,u,0,Read,0,512,9\n";
    let head = "phase,workload,worker,op,target,offset_bytes,key,size_bytes,moved_bytes,count,\
                intended_ns,origin_ns,submit_ns,issued_ns,first_ns,complete_ns,sync_ns,retries,status";
    let io =
        |at: u64, of: &str| format!("measure,0,0,read,0,0,,512,,,,,{at},,,{},,,0{of}\n", at + 9);
    let own = format!("{head}\n{}", io(5, ""));
    for text in [iolog, old, msr, &own] {
        assert_eq!(parsed(text).expect("one").ops.len(), 1, "{text}");
        let said = parsed(text.repeat(2)).expect_err("two").to_string();
        assert!(said.contains("a second trace begins here") && said.contains("line: "), "{said}");
    }
    let counted = |of: &str| parsed(format!("{head},phase_ios\n{}{}", io(5, of), io(6, of)));
    assert_eq!(counted(",2").expect("all").ops.len(), 2);
    for of in [",3", ",unknown"] {
        let said = counted(of).expect_err(of).to_string();
        assert!(said.contains("a part of the I/Os of its run"), "{said}");
    }
    let beyond = blktrace(false, (5, u64::MAX / 512 + 1), (512, 1 | 1 << 16));
    let said = parsed(beyond).expect_err("beyond").to_string();
    assert!(said.contains("a sector beyond") && said.contains("byte 0"), "{said}");
    let said = parsed(msr.replace(",9", ",9x")).expect_err("no time").to_string();
    assert!(said.contains("`9x` is no response time"), "{said}");
}

#[test]
fn a_forced_write_is_one_with_a_sync() {
    let (queue, write, fua) = (1, 1 << 17, 1 << 31);
    let actions = [(4096, queue | write | fua), (4096, queue | write), (4096, queue | fua)];
    let bytes = actions.map(|action| blktrace(false, (7, 16), action)).concat();
    let trace = parsed(bytes).expect("read");
    assert_eq!(trace.ops.iter().map(|op| op.durable).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(trace.durable(), 1);
    // The flush that a write of a journal begins with was lost.
    let journal = blktrace(false, (7, 16), (4096, queue | write | fua | 1 << 18));
    let trace = parsed(journal).expect("read");
    let kinds: Vec<_> = trace.ops.iter().map(|op| (op.kind, op.durable)).collect();
    assert_eq!(kinds, [(OpKind::Fsync, false), (OpKind::Write, true)]);
    assert_eq!(*trace.times, [0, 0]);
}

/// Values in quotes and other ends of lines are those of programs for tables.
#[test]
fn rows_in_quotes_are_those_without() {
    let head = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
    let rows = "128166372003061629,web,0,Read,512,1024,9\n128166372003061639,web,0,Write,0,512,7\n";
    let plain = parsed(rows).expect("read");
    let quoted = |line: &str| format!("\"{}\"\r\n", line.replace(',', "\", \""));
    let text: String = std::iter::once(head).chain(rows.lines()).map(quoted).collect();
    let read = parsed(&text).expect("read");
    assert_eq!((&*read.ops, &*read.times), (&*plain.ops, &*plain.times));
    assert_eq!(read.latency, plain.latency);
    let said = parsed(text.repeat(2)).expect_err("two").to_string();
    assert!(said.contains("a second trace begins here"), "{said}");
}

/// The file that was released again in bytes was once read as sectors, each offset 512 times as far.
#[test]
fn sectors_and_bytes_of_tencent_are_not_guessed() {
    let rows = "100,1024,4096,0,7\n101,8192,512,1,7\n";
    let said = parsed(rows).expect_err("either");
    assert!(said.to_string().contains("sectors or bytes cannot be told"), "{said}");
    assert!(said.hint_text().is_some_and(|hint| hint.contains("tencent-bytes")), "{said}");
    let of = |word: &str| {
        let part = ReplayPlan { format: Some(word.to_owned()), ..ReplayPlan::default() };
        selected(rows, part, MOST_OPS).expect(word).ops[0]
    };
    assert_eq!(of("tencent-bytes"), TraceOp::new(OpKind::Read, 1024, 4096));
    assert_eq!(of("tencent"), TraceOp::new(OpKind::Read, 1024 * 512, 4096 * 512));
    assert_eq!(parsed("100,8,8,0,7\n101,1024,512,1,7\n").expect("sectors").ops[0].size, 4096);
}

#[test]
fn flushes_are_syncs_and_discards_are_trims_in_blktrace() {
    let (queue, write, flush, discard) = (1, 1 << 17, 1 << 18, 1 << 29);
    let actions = [(0, queue | write | flush), (4096, queue | write | discard), (0, queue | write)];
    let bytes = actions.map(|action| blktrace(false, (7, 16), action)).concat();
    let trace = parsed(bytes).expect("read");
    let kinds: Vec<_> = trace.ops.iter().map(|op| (op.kind, op.offset, op.size)).collect();
    assert_eq!(kinds, [(OpKind::Fsync, 0, 0), (OpKind::Trim, 8192, 4096)]);
    assert_eq!(trace.skipped, 1);
}
