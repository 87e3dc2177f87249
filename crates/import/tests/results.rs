//! Samples of results, made by fio 3.33, YCSB 0.17.0 and db_bench 7.8.3, and as wrk2, SBK, warp and `taillight export`
//! write them: what is read of each, and what is said of bad ones.

use std::fs;
use std::path::PathBuf;

use taillight_core::{Error, OpKind, Result};
use taillight_import::results::{ForeignRun, HEAD, ResultSource, ResultUnit, detect, unpacked};
use taillight_rundir::origin::{Fidelity, ImportedBin, ImportedOp};

fn sample(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/results");
    fs::read(folder.join(name)).expect("a sample")
}

fn read(name: &str, bytes: &[u8], unit: Option<ResultUnit>) -> Result<ForeignRun> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(HEAD)]);
    let format = detect(&head).ok_or_else(|| Error::corrupt("of no format"))?;
    (format.read)(&mut ResultSource::new(name, "0".repeat(8), Box::new(bytes)).in_unit(unit))
}

/// File in `tests/results`, what its latencies are known as, operations.
const GOOD: &[(&str, Fidelity, u64)] = &[
    ("fio_clat.1.log", Fidelity::EveryIo, 24),
    ("fio-average_lat.1.log", Fidelity::Averages, 0),
    ("fio-average_bw.1.log", Fidelity::Averages, 0),
    ("fio-average_iops.1.log", Fidelity::Averages, 0),
    ("fio_clat_hist.1.log", Fidelity::Bins, 44),
    ("ycsb.txt", Fidelity::Percentiles, 2000),
    ("ycsb-array.json", Fidelity::Percentiles, 2000),
    ("ycsb-lines.json", Fidelity::Percentiles, 2000),
    ("ycsb-raw.txt", Fidelity::EveryIo, 40),
    ("ycsb-READ.hdr", Fidelity::Bins, 1016),
    ("ycsb-Intended-READ.hdr", Fidelity::Bins, 1016),
    ("wrk2.txt", Fidelity::Bins, 2004),
    ("db_bench.txt", Fidelity::Averages, 16_000),
    ("db_bench-histogram.txt", Fidelity::Bins, 8000),
    ("sbk.csv", Fidelity::Percentiles, 12_051_987),
    ("warp.tsv", Fidelity::EveryIo, 41),
    ("warp.json", Fidelity::Averages, 12_000),
    ("own-ios.csv", Fidelity::EveryIo, 24),
    ("own-points.csv", Fidelity::Percentiles, 24),
];

#[test]
fn each_result_tells_what_it_knows() {
    for (name, fidelity, ios) in GOOD {
        let run = read(name, &sample(name), None).unwrap_or_else(|e| panic!("{name}: {e}"));
        let source = run.manifest.origin.imported().unwrap();
        assert_eq!((source.fidelity, run.manifest.phases[0].ios), (*fidelity, *ios), "{name}");
        assert_eq!(run.rows.is_some(), *fidelity == Fidelity::EveryIo, "{name}");
        let ops = || run.figures.workloads.iter().flat_map(|w| w.ops.values());
        let averages =
            ops().all(|op| op.latency.percentiles.is_empty() && op.latency.bins.is_empty());
        assert_eq!(averages, *fidelity == Fidelity::Averages || run.rows.is_some(), "{name}");
    }
}

#[test]
fn a_cut_result_is_refused_with_its_line() {
    for (name, ..) in GOOD {
        let bytes = sample(name);
        // Of JSON the last bracket, of lines the end of the last.
        let cut = &bytes[..bytes.trim_ascii_end().len() - 1];
        let error = read(name, cut, None).err().unwrap_or_else(|| panic!("{name}")).to_string();
        assert!(error.contains("line: ") && error.contains("cut short"), "{name}: {error}");
    }
}

#[test]
fn a_line_that_is_huge_or_no_text_is_refused_with_its_place() {
    for (name, ..) in GOOD {
        for (line, said) in [(vec![b'7'; 9 << 20], "too long"), (vec![0xff, b'\n'], "not text")] {
            let bytes = [sample(name), line].concat();
            let error = read(name, &bytes, None).err().unwrap().to_string();
            assert!(error.contains(said) && error.contains("line: "), "{name}: {error}");
        }
    }
}

#[test]
fn a_unit_that_is_wrong_or_missing_is_told() {
    for (name, ..) in GOOD {
        let error = read(name, &sample(name), Some(ResultUnit::S)).err().unwrap().to_string();
        assert!(error.contains("another unit"), "{name}: {error}");
    }
    // What is not in the file is asked for, and what its values are is not taken from a stranger's name.
    let (log, hdr) = (sample("fio_clat.1.log"), sample("ycsb-READ.hdr"));
    let error = read("x.txt", &log, None).err().unwrap().to_string();
    assert!(error.contains("what the values"), "{error}");
    assert!(read("x.txt", &log, Some(ResultUnit::Ns)).is_ok());
    let plain = String::from_utf8(hdr).unwrap().replace("#[Logging for: READ]\n", "");
    let error = read("x.hlog", plain.as_bytes(), None).err().unwrap().to_string();
    assert!(error.contains("unit of the latencies"), "{error}");
    let in_unit = |unit| read("x.hlog", plain.as_bytes(), Some(unit)).unwrap().figures;
    let highest = |unit| {
        let figures = in_unit(unit);
        let op = figures.workloads[0].ops.values().next().unwrap().clone();
        op.latency.bins.last().unwrap().hi_ns
    };
    assert_eq!(highest(ResultUnit::Ms) + 1, 1000 * (highest(ResultUnit::Us) + 1));
    // The same file in another unit is another run.
    let id = |unit| read("x.hlog", plain.as_bytes(), Some(unit)).unwrap().manifest.run_id;
    assert_ne!(id(ResultUnit::Ms), id(ResultUnit::Us));
}

#[test]
fn a_result_is_of_the_schedule_only_where_all_of_it_is() {
    let text = |name: &str| String::from_utf8(sample(name)).unwrap();
    let scheduled = |name: &str, text: &str, unit| {
        let run = read(name, text.as_bytes(), unit).unwrap_or_else(|e| panic!("{name}: {e}"));
        run.manifest.origin.imported().unwrap().is_scheduled()
    };
    let (ios, points) = (text("own-ios.csv"), text("own-points.csv"));
    // Without a time that the schedule wanted, and with it.
    for (name, text, without, with) in [
        ("own-ios.csv", ios, ",4096,,,,,", ",4096,,,0,,"),
        ("own-points.csv", points, ",service,", ",response,"),
    ] {
        assert!(!scheduled(name, &text, None), "{name}");
        assert!(!scheduled(name, &text.replacen(without, with, 1), None), "{name}, the first");
        assert!(scheduled(name, &text.replace(without, with), None), "{name}, all");
    }
    let log = text("ycsb-READ.hdr").replace("#[Logging for: READ]\n", "");
    let is_row = |line: &&str| !line.starts_with(['#', '"']);
    let tagged = |tags: &[&str]| {
        let rows = log.lines().filter(is_row);
        let rows = rows.flat_map(|row| tags.iter().map(move |tag| format!("Tag={tag},{row}\n")));
        let head = log.lines().filter(|line| !is_row(line)).map(|line| format!("{line}\n"));
        head.chain(rows).collect::<String>()
    };
    let unit = Some(ResultUnit::Us);
    assert!(scheduled("x.hlog", &tagged(&["Intended-READ", "Intended-UPDATE"]), unit));
    assert!(!scheduled("x.hlog", &tagged(&["READ", "Intended-UPDATE"]), unit));
}

#[test]
fn a_percentile_distribution_is_bins_of_its_rows() {
    let plain = sample("plain.hgrm");
    let unit = Some(ResultUnit::Us);
    let latency = |bytes: &[u8], unit| {
        let run = read("a.hgrm", bytes, unit).unwrap_or_else(|e| panic!("{e}"));
        let op = run.figures.workloads[0].ops.values().next().unwrap().clone();
        (op, run.notes)
    };
    let (hgrm, _) = latency(&plain, unit);
    let (wrk2, _) = latency(&sample("wrk2.txt"), None);
    // The same values, printed in us and in ms.
    assert_eq!(hgrm.latency.bins, wrk2.latency.bins);
    assert_eq!((hgrm.count, wrk2.latency.count, wrk2.count, wrk2.errors), (2000, 2000, 2004, 8));
    // The tool's own 99 % stands between two rows that are 1.2 and 3.6 ms.
    let own = wrk2.latency.percentiles.iter().map(|p| (p.p.as_str(), p.ns)).collect::<Vec<_>>();
    assert_eq!((own.len(), own[0], own[3]), (7, ("50", 727_000), ("99", 1_200_000)));
    assert_eq!((wrk2.duration_ns, wrk2.iops), (10_000_000_000, 200.39));
    let (recorded, notes) = latency(&sample("wrk2-u.txt"), None);
    assert_eq!(recorded.latency, wrk2.latency);
    assert!(notes.iter().any(|n| n.contains("uncorrected")), "{notes:?}");
    let error = |bytes: &[u8], unit| read("a.hgrm", bytes, unit).err().unwrap().to_string();
    assert!(error(&plain, None).contains("unit of the latencies"));
    assert!(error(&[&plain[..], &plain].concat(), unit).contains("second distribution"));
    let text = String::from_utf8(plain).unwrap();
    let cut: String = text.split_inclusive('\n').take(9).collect();
    assert!(error(cut.as_bytes(), unit).contains("cut short"), "{cut}");
    for (whole, bad, said) in [
        ("0.100000000000", "x", "no row"),
        ("=     2000.000", "=     1999.000", "add up"),
        ("]\n#[Max", "\n#[Max", "end of the distribution is damaged"),
    ] {
        assert!(text.contains(whole), "{whole}");
        let error = error(text.replacen(whole, bad, 1).as_bytes(), unit);
        assert!(error.contains(said) && error.contains("line: "), "{error}");
    }
}

#[test]
fn benchmarks_of_db_bench_are_workloads_one_after_another() {
    let text = String::from_utf8(sample("db_bench-histogram.txt")).unwrap();
    // As with standard error in the same file.
    let text = text.replace("fillsync  ", "... finished 2000 ops     \rfillsync  ");
    let run = read("a", text.as_bytes(), None).unwrap_or_else(|e| panic!("{e}"));
    let found: Vec<(&str, u32, &str)> = run
        .figures
        .workloads
        .iter()
        .map(|w| (w.name.as_str(), w.group, w.ops.keys().next().unwrap().name()))
        .collect();
    assert_eq!(
        found,
        [
            ("fillseq", 0, "insert"),
            ("readrandom", 1, "get"),
            ("fillsync", 2, "insert"),
            ("overwrite", 3, "update"),
        ]
    );
    let op = &run.figures.workloads[0].ops[&OpKind::Insert];
    let edges = |bin: &ImportedBin| (bin.lo_ns, bin.hi_ns, bin.count);
    assert_eq!(edges(&op.latency.bins[0]), (1000, 1000, 1171));
    assert_eq!(edges(&op.latency.bins[1]), (1001, 2000, 700));
    assert_eq!(edges(op.latency.bins.last().unwrap()), (2_900_001, 4_098_000, 2));
    assert_eq!((op.iops, op.latency.mean_ns), (200_020.0, Some(5085.5)));
    let error = |whole: &str, bad: &str| {
        assert!(text.contains(whole), "{whole}");
        read("a", text.replacen(whole, bad, 1).as_bytes(), None).err().unwrap().to_string()
    };
    for (whole, bad, said) in [
        ("4.994 micros/op", "x micros/op", "no figures"),
        ("StdDev: 112.46", "StdDev: y", "damaged"),
        ("(       2,       3 ]       79", "(       2,       3 ]       78", "do not add up"),
        ("(       2,       3 ]", "(       1,       3 ]", "do not ascend"),
    ] {
        let error = error(whole, bad);
        assert!(error.contains(said) && error.contains("line: "), "{error}");
    }
    let (cut, _) = text.rsplit_once("Microseconds per").unwrap();
    let run = read("a", cut.as_bytes(), None).unwrap();
    assert!(run.notes.iter().any(|note| note.contains("may be cut short")), "{:?}", run.notes);
    let (head, _) = text.split_once("(       1,       2 ]").unwrap();
    let endless: String = (1..2000).map(|us| format!("( {us}, {} ] 1 1% 1%\n", us + 1)).collect();
    let error = read("a", (head.to_owned() + &endless).as_bytes(), None).err().unwrap();
    assert!(error.to_string().contains("too many bins"), "{error}");
    let averages = read("a", &sample("db_bench.txt"), None).unwrap().figures;
    let op = &averages.workloads[1].ops[&OpKind::Get];
    assert_eq!((op.count, op.latency.mean_ns, op.iops), (4000, Some(809.0), 1_038_421.0));
}

#[test]
fn words_behind_a_histogram_of_db_bench_are_none_of_it_and_more_failures_than_requests_are_told() {
    let text = String::from_utf8(sample("db_bench-histogram.txt")).unwrap();
    let after = format!("{text}[a line of another program]\n(and one more)\n");
    let ios = |text: &str| read("a", text.as_bytes(), None).unwrap().manifest.phases[0].ios;
    assert_eq!(ios(&after), ios(&text));
    let wrk2 = String::from_utf8(sample("wrk2.txt")).unwrap();
    let run = read("a", wrk2.as_bytes(), None).unwrap();
    assert!(!run.notes.iter().any(|note| note.contains("failures are told")));
    let (cut, _) = wrk2.split_once("  Socket errors").unwrap();
    let run = read("a", cut.as_bytes(), None).unwrap();
    assert!(run.notes.iter().any(|note| note.contains("is missing")), "{:?}", run.notes);
    let head = "Recorded Latency)\n";
    let endless = wrk2.replacen(head, &format!("{head}{}", " 50.000%  1.00us\n".repeat(99)), 1);
    let error = read("a", endless.as_bytes(), None).err().unwrap().to_string();
    assert!(error.contains("too many percentiles") && error.contains("line: "), "{error}");
    let more = format!("{wrk2}  Socket errors: connect 9000, read 0, write 0, timeout 0\n");
    let run = read("a", more.as_bytes(), None).unwrap();
    assert!(run.notes.iter().any(|note| note.contains("failures are told")), "{:?}", run.notes);
}

#[test]
fn the_csv_of_sbk_is_read_by_the_names_of_its_columns() {
    let text = String::from_utf8(sample("sbk.csv")).unwrap();
    let in_unit = |text: &str| {
        let figures = read("a", text.as_bytes(), None).unwrap_or_else(|e| panic!("{e}")).figures;
        figures.workloads[0].ops[&OpKind::Read].clone()
    };
    let op = in_unit(&text);
    let p =
        |op: &ImportedOp, p: &str| op.latency.percentiles.iter().find(|it| it.p == p).unwrap().ns;
    assert_eq!(op.latency.percentiles.len(), 22);
    assert_eq!((p(&op, "50"), p(&op, "99.9"), op.latency.max_ns), (695, 20_325, Some(2_103_522)));
    assert_eq!((op.iops, op.bytes), (1_204_890.4, 120_481_382));
    // Another order of columns and another unit: the first two change places.
    let swapped: String = text
        .lines()
        .map(|line| {
            let (id, rest) = line.split_once(',').unwrap();
            let (header, rest) = rest.split_once(',').unwrap();
            format!("{header},{id},{rest}\n").replace("NANOSECONDS", "MICROSECONDS")
        })
        .collect();
    assert_eq!(p(&in_unit(&swapped), "50"), 695_000);
    let no_total: String = text.split_inclusive('\n').take(3).collect();
    for (bad, said) in [
        (no_total, "no row Total"),
        (text.replace(",MB,", ",MiB,"), "a column is missing"),
        (text.replace("    695", "    x"), "no number"),
        (text.replace("Regular,0", "Regular"), "as many columns"),
        (text.replace("NANOSECONDS", "FORTNIGHTS"), "unknown unit"),
    ] {
        let error = read("a", bad.as_bytes(), None).err().unwrap().to_string();
        assert!(error.contains(said) && error.contains("line: "), "{error}");
    }
}

#[test]
fn text_around_rows_is_refused_and_around_a_report_left_out() {
    for name in ["fio_clat.1.log", "fio_clat_hist.1.log"] {
        let bytes = [b"fio: warning\n".to_vec(), sample(name)].concat();
        let error = read(name, &bytes, None).err().unwrap().to_string();
        assert!(error.contains("no row") && error.contains("line: 1"), "{error}");
    }
    for name in ["ycsb.txt", "ycsb-lines.json"] {
        let bytes = [b"Loading workload...\n".to_vec(), sample(name)].concat();
        assert_eq!(read(name, &bytes, None).unwrap().manifest.phases[0].ios, 2000);
    }
    let bad = String::from_utf8(sample("ycsb.txt"))
        .unwrap()
        .replace("AverageLatency(us), ", "AverageLatency(us), x");
    let error = read("a", bad.as_bytes(), None).err().unwrap().to_string();
    assert!(error.contains("no number") && error.contains("line: "), "{error}");
    let twice = [sample("ycsb-raw.txt"), sample("ycsb-raw.txt")].concat();
    let error = read("a", &twice, None).err().unwrap().to_string();
    assert!(error.contains("second run") && error.contains("line: 43"), "{error}");
}

#[test]
fn requests_of_warp_are_every_io_and_its_aggregates_are_no_percentiles() {
    let table = sample("warp.tsv");
    let run = read("a.csv", &table, None).unwrap_or_else(|e| panic!("{e}"));
    let ops = &run.figures.workloads[0].ops;
    let get = &ops[&OpKind::Get];
    assert_eq!(
        (get.count, get.errors, get.bytes),
        (32, 1, 31 * 65_536),
        "a failed one moved nothing"
    );
    assert_eq!((ops[&OpKind::Put].count, ops[&OpKind::Delete].count), (8, 1));
    let said = run.notes.join("; ");
    for part in ["1 ZIP", "up to 100 objects", "2 clients"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(run.manifest.plan.workloads[0].workers, 4, "threads of a client are its own");
    assert!(!said.contains("command line"), "{said}");
    let without = |bytes: &[u8]| {
        let text = String::from_utf8_lossy(bytes);
        text.lines()
            .filter(|line| !line.starts_with('#'))
            .map(|l| format!("{l}\n"))
            .collect::<String>()
    };
    let cut = read("a.csv", without(&table).as_bytes(), None).unwrap_or_else(|e| panic!("{e}"));
    assert!(cut.notes.iter().any(|note| note.contains("command line")), "{:?}", cut.notes);
    // Columns by name: the duration may be absent, and is then the difference of the times.
    let text = String::from_utf8(table).unwrap();
    let without = text.replace("duration_ns", "other");
    let again = read("a.csv", without.as_bytes(), None).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again.figures, run.figures);
    let error = |whole: &str, bad: &str| {
        assert!(text.contains(whole), "{whole}");
        read("a.csv", text.replacen(whole, bad, 1).as_bytes(), None).err().unwrap().to_string()
    };
    let long = format!("\t{}\t", "x".repeat(2000));
    for (whole, bad, said) in [
        ("2023-11-14T", "2023-17-14T", "column: start"),
        ("\t131072\t", "\t-1\t", "column: bytes"),
        ("n_objects", "objects", "column: n_objects"),
        ("by peer\"", "by peer", "cut short"),
        ("\tGET\t", long.as_str(), "column: op"),
    ] {
        let error = error(whole, bad);
        assert!(error.contains(said) && error.contains("line: "), "{error}");
    }
    let run = read("a.json", &sample("warp.json"), None).unwrap_or_else(|e| panic!("{e}"));
    let get = &run.figures.workloads[0].ops[&OpKind::Get];
    assert_eq!((get.count, get.errors, get.iops, get.latency.mean_ns), (9000, 1, 300.0, None));
    assert!(run.notes.iter().any(|note| note.contains("--full")), "{:?}", run.notes);
}

#[test]
fn packed_results_are_told_by_their_first_bytes() {
    use std::io::{Read, Write};
    let plain = sample("warp.tsv");
    let zstd = zstd::encode_all(&plain[..], 3).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).unwrap();
    for packed in [plain.clone(), zstd, gzip.finish().unwrap()] {
        let mut text = Vec::new();
        unpacked(&packed[..]).unwrap().read_to_end(&mut text).unwrap();
        assert_eq!(text, plain);
        // One that is cut short is an error of reading, and never a shorter result.
        if packed != plain {
            let cut = &packed[..packed.len() - 3];
            assert!(unpacked(cut).unwrap().read_to_end(&mut Vec::new()).is_err());
        }
    }
}
