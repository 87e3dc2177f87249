//! The same operations in every format, and what is wrong in a file with its place.

use std::fmt::Write as _;

use taillight_core::OpKind;

use super::{BlockTrace, TraceOp, first_line, read, recognise};

fn parsed(text: &str) -> taillight_core::Result<BlockTrace> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("trace");
    std::fs::write(&path, text).expect("written");
    let path = path.display().to_string();
    let (first, file) = first_line(&path).expect("read");
    let format = recognise(&first).expect("recognised");
    read(format, file, ("trace.file", &path))
}

/// Ticks of a second, kind, sector and sectors of some operations: a second apart, so that every
/// format can say them.
fn operations() -> Vec<(u64, OpKind, u64, u32)> {
    let kind = |i: u64| if i.is_multiple_of(3) { OpKind::Write } else { OpKind::Read };
    (0..50).map(|i| (i * i % 7 + 7 * i, kind(i), i * 0x9E37 % 1000, 8 + i as u32 % 5)).collect()
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
            (s as i64 * 1_000_000_000, TraceOp { offset, size, kind })
        })
        .collect();
    let (mut times, ops): (Vec<i64>, Vec<TraceOp>) = expected.into_iter().unzip();
    let first = times[0];
    times.iter_mut().for_each(|t| *t -= first);
    for (text, name) in [
        (msr, "MSR"),
        (alibaba, "Alibaba"),
        (tencent, "Tencent"),
        (v2, "fio iolog version 2"),
        (v3, "fio iolog version 3"),
    ] {
        let trace = parsed(&text).expect("read");
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
    assert_eq!(*parsed(coarse).expect("read").times, spread);
}

#[test]
fn rows_out_of_order_are_sorted_and_counted_and_empty_ones_left_out() {
    let trace = parsed("1,R,0,512,5000\n1,W,512,512,4000\n1,R,0,0,4500\n1,R,1024,512,5000\n");
    let trace = trace.expect("read");
    assert_eq!((trace.sorted, trace.skipped), (1, 1));
    assert_eq!(*trace.times, [0, 1_000_000, 1_000_000]);
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
        ("1,R,0,512,1\n1,X,0,512,2\n", 2, "`X` is neither"),
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
        assert!(recognise(first).is_none(), "{first}");
    }
}
