//! Files that are given as results of other tools: damaged ones, and what is no result, are refused with what is wrong
//! (and the line of what does not parse) and leave nothing; text around a result, its other names and its failed
//! operations are dealt with.

use std::path::{Path, PathBuf};

use crate::common::{run, run_line, scratch, unwrapped};

/// What fio 3.33 wrote.
fn fio() -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../report/src/render/fio_json/fio.json");
    std::fs::read_to_string(file).expect("a result of fio")
}

fn sample(name: &str) -> Vec<u8> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/results");
    std::fs::read(dir.join(name)).expect("a sample")
}

/// `report`, `import` and `compare` refuse the file in these words, and leave nothing behind.
fn refused(dir: &Path, file: &str, words: &str) {
    for line in [
        format!("report {file}"),
        format!("import {file} --as-run kept"),
        format!("compare {file} {file}"),
    ] {
        let (out, err) = run_line(dir, &line, 2);
        let err = unwrapped(&err);
        assert!(out.is_empty() && err.contains(words) && err.contains(file), "{line}: {err}");
        assert!(!err.contains("os error"), "{line}: {err}");
    }
    assert!(!dir.join("kept").exists() && !dir.join("taillight-runs").exists(), "{file}");
}

#[test]
fn a_damaged_result_of_fio_is_told_and_what_does_not_parse_with_its_line() {
    let dir = scratch();
    let good = fio();
    let with = |whole: &str, bad: &str| {
        assert!(good.contains(whole), "{whole}");
        good.replacen(whole, bad, 1)
    };
    let count = "\"total_ios\" : ";
    let max = "\"max\" : ";
    for (file, text, words) in [
        ("cut.json", good[..good.len() / 2].to_owned(), "cut short (line: "),
        ("nan.json", with("\"runtime\" : ", "\"runtime\" : NaN"), "damaged (line: "),
        ("minus.json", with("\"io_bytes\" : ", "\"io_bytes\" : -"), "damaged (line: "),
        ("many.json", with(count, &format!("{count}99999999999999999999")), "damaged (line: "),
        (
            "far.json",
            good.replace(max, "\"max\" : 5000000000000000000, \"was\" : "),
            "that no run has",
        ),
        ("slow.json", good.replace("\"mean\" : ", "\"mean\" : -"), "below zero"),
        ("none.json", "{\"fio version\" : \"fio-3.33\", \"jobs\" : []}".to_owned(), "no operation"),
        (
            "deep.json",
            format!("{{\"fio version\" : \"fio-3.33\", \"jobs\" : {}", "[".repeat(99_999)),
            "damaged (line: 1",
        ),
        ("old.json", with("fio-3.33", "fio-2.21"), "in other units"),
    ] {
        std::fs::write(dir.path().join(file), text).expect("written");
        refused(dir.path(), file, words);
    }
}

#[test]
fn a_list_or_histogram_cut_short_is_told_and_a_bad_row_of_a_log_with_its_line() {
    let dir = scratch();
    let at = dir.path();
    for (file, bytes, words) in [
        ("cut_clat.1.log", sample("fio_clat.1.log"), "cut short"),
        ("cut.hdr", sample("ycsb-READ.hdr"), "cut short"),
        ("cut.csv", sample("sbk.csv"), "cut short"),
        ("cut.tsv", sample("warp.tsv"), "cut short"),
        ("cut-raw.txt", sample("ycsb-raw.txt"), "cut short"),
    ] {
        std::fs::write(at.join(file), &bytes[..bytes.len() - 5]).expect("written");
        refused(at, file, words);
    }
    let log = "1, 500, 0, 4096, 0\n";
    for (file, row) in [
        ("minus_lat.1.log", "2, -500, 0, 4096, 0\n"),
        ("far_lat.1.log", "2, 99999999999999999999, 0, 4096, 0\n"),
        ("way_lat.1.log", "2, 500, 7, 4096, 0\n"),
        ("word_lat.1.log", "2, fast, 0, 4096, 0\n"),
    ] {
        std::fs::write(at.join(file), format!("{log}{row}")).expect("written");
        refused(at, file, "line: 2");
    }
    // A first row that is bad is one of a log all the same.
    std::fs::write(at.join("first_lat.1.log"), "2, -500, 0, 4096, 0\n").expect("written");
    refused(at, "first_lat.1.log", "line: 1");
}

#[test]
fn a_packed_result_that_is_cut_short_is_told() {
    let dir = scratch();
    let at = dir.path();
    std::fs::write(at.join("a.json"), fio()).expect("written");
    let gzip = std::process::Command::new("gzip").args(["-c", "a.json"]).current_dir(at).output();
    let packed = gzip.expect("gzip").stdout;
    std::fs::write(at.join("a.gz"), &packed).expect("written");
    run_line(at, "import a.gz --as-run whole", 0);
    std::fs::write(at.join("a.gz"), &packed[..packed.len() / 2]).expect("written");
    refused(at, "a.gz", "damaged or cut short");
}

#[test]
fn what_is_no_result_and_no_run_is_told() {
    let dir = scratch();
    let at = dir.path();
    let write = |name: &str, bytes: &[u8]| std::fs::write(at.join(name), bytes).expect("written");
    write("empty.json", b"");
    write("brace.json", b"{}");
    write("zeros", &[0; 4096]);
    write("words.txt", b"seven, eight, nine, ten\n");
    std::fs::create_dir(at.join("folder")).expect("made");
    let pipe = std::process::Command::new("mkfifo").arg(at.join("pipe")).status();
    assert!(pipe.expect("mkfifo").success());
    refused(at, "empty.json", "the file is empty");
    for file in ["brace.json", "zeros", "words.txt"] {
        refused(at, file, "the file is no result of a tool that Taillight reads");
    }
    write("wide.json", &[0xff, 0xfe, b'{', 0, b'}', 0]);
    refused(at, "wide.json", "UTF-16");
    for (line, words) in [
        ("report folder", "no manifest.json"),
        ("compare folder folder", "no run in it"),
        ("import folder --as-run kept", "a result is a file, and this is none"),
        ("export folder --format json", "no manifest.json"),
        ("report pipe", "this is a file, no run directory"),
        ("import pipe --as-run kept", "a result is a file, and this is none"),
        ("report /dev/zero", "this is a file, no run directory"),
        ("import /dev/zero --as-run kept", "a result is a file, and this is none"),
    ] {
        let (_, err) = run_line(at, line, 2);
        let err = unwrapped(&err);
        assert!(err.contains(words) && !err.contains("os error"), "{line}: {err}");
    }
    assert!(!at.join("kept").exists());
}

/// fio prints its warnings into the same file, and editors of Windows put a mark before a text and other ends of lines:
/// as many operations are counted.
#[test]
fn text_around_a_result_and_other_ends_of_lines_are_none_of_it() {
    let dir = scratch();
    let at = dir.path();
    let count = |run: &PathBuf| {
        let text = std::fs::read_to_string(run.join("summary.json")).expect("a summary");
        let summary: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        summary["totals"]["count"].clone()
    };
    let ycsb = String::from_utf8(sample("ycsb.txt")).expect("text");
    let sbk = String::from_utf8(sample("sbk.csv")).expect("text");
    let db_bench = String::from_utf8(sample("db_bench-histogram.txt")).expect("text");
    for (name, plain, unit) in [
        ("fio", fio(), None),
        ("ycsb", ycsb, None),
        ("sbk", sbk, None),
        ("db_bench", db_bench, None),
        ("hgrm", String::from_utf8(sample("plain.hgrm")).expect("text"), Some("us")),
        ("raw", String::from_utf8(sample("ycsb-raw.txt")).expect("text"), None),
        ("lines", String::from_utf8(sample("ycsb-lines.json")).expect("text"), None),
    ] {
        let windows = format!("\u{feff}{}", plain.replace('\n', "\r\n"));
        let around = format!("fio: a warning {{ of sorts }}\n{plain}\nand a word after it\n");
        let mut files = vec![("plain", plain), ("windows", windows)];
        if name == "fio" {
            files.push(("around", around));
        }
        let mut counts = Vec::new();
        for (kind, text) in files {
            let file = format!("{name}-{kind}");
            std::fs::write(at.join(&file), text).expect("written");
            let kept = format!("kept-{file}");
            let mut words = vec!["import", file.as_str(), "--as-run", kept.as_str()];
            words.extend(unit.iter().flat_map(|unit| ["--unit", unit]));
            run(at, &words, 0);
            counts.push(count(&at.join(&kept)));
        }
        assert!(counts.windows(2).all(|two| two[0] == two[1]), "{name}: {counts:?}");
    }
}

/// Runs in `taillight-runs`.
fn kept(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    std::fs::read_dir(dir.join("taillight-runs"))?.map(|entry| Ok(entry?.path())).collect()
}

/// A second name of the same file was told as a directory that is in use, and so were imports at the same moment.
#[test]
fn the_same_content_is_one_run_whoever_imports_it_and_where_it_lies() {
    let dir = scratch();
    let at = dir.path();
    // What another program prints before a result may be longer than what tells most formats.
    let text = "line of another program\n".repeat(5_000) + &fio();
    std::fs::create_dir(at.join("d")).expect("made");
    for file in ["a.json", "d/a.json"] {
        std::fs::write(at.join(file), &text).expect("written");
    }
    std::thread::scope(|scope| {
        for file in ["a.json", "./a.json", "d/a.json"] {
            scope.spawn(move || run_line(at, &format!("report {file}"), 0));
        }
    });
    let all = kept(at).expect("runs");
    let [one] = all.as_slice() else { panic!("{all:?}") };
    // An import that was interrupted leaves no summary.
    std::fs::remove_file(one.join("summary.json")).expect("removed");
    run_line(at, "report a.json", 0);
    assert!(one.join("summary.json").is_file() && kept(at).expect("runs").len() == 1);
    // A damaged one is put aside, with what else lies in it.
    std::fs::remove_file(one.join("summary.json")).expect("removed");
    std::fs::write(one.join("imported.json"), "{").expect("written");
    std::fs::write(one.join("notes.txt"), "precious").expect("written");
    run_line(at, "report a.json", 0);
    let aside = one.with_extension("damaged-1");
    assert_eq!(std::fs::read_to_string(aside.join("notes.txt")).expect("kept"), "precious");
    assert!(one.join("summary.json").is_file());
}

/// Once on standard error, and once more in the report.
#[test]
fn what_was_found_in_a_result_is_told_once() {
    let dir = scratch();
    let file = "fio-average_bw.1.log";
    std::fs::write(dir.path().join(file), sample(file)).expect("written");
    for line in [
        format!("report {file}"),
        format!("report {file} -v"),
        format!("import {file} --as-run kept"),
        "report kept".to_owned(),
    ] {
        let (out, err) = run_line(dir.path(), &line, 0);
        let all = unwrapped(&format!("{out}\n{err}"));
        assert_eq!(all.matches("averages of windows").count(), 1, "{line}: {all}");
    }
}

/// A job of fio that ended with an error, with a latency of each I/O, was reported as a good one, with exit code 0.
#[test]
fn a_job_of_fio_that_an_error_ended_is_the_answer() {
    let dir = scratch();
    let text = fio().replacen("\"error\" : 0", "\"error\" : 5", 1);
    assert_ne!(text, fio());
    std::fs::write(dir.path().join("a.json"), text).expect("written");
    let (out, _) = run_line(dir.path(), "report a.json", 6);
    let out = unwrapped(&out);
    assert!(out.contains("An error ended the job of fio"), "{out}");
    assert!(out.contains("input/output error (errno 5)"), "{out}");
    let (_, err) = run_line(dir.path(), "import a.json --as-run kept", 0);
    assert!(unwrapped(&err).contains("An error ended the job of fio"), "{err}");
    run_line(dir.path(), "report kept", 6);
}

/// Failed operations of a result were in its table alone, with exit code 0.
#[test]
fn failed_operations_of_a_result_are_told_and_contradictions_are_refused() {
    let dir = scratch();
    let ycsb = |p99: u64| {
        format!(
            "[OVERALL], RunTime(ms), 59\n[READ], Operations, 4130\n[READ], MaxLatency(us), 1007\n\
             [READ], 99thPercentileLatency(us), {p99}\n[READ], 100thPercentileLatency(us), 1007\n\
             [READ-NOT_FOUND], Operations, 471\n"
        )
    };
    let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text);
    write("bad.txt", ycsb(1_200)).expect("written");
    refused(dir.path(), "bad.txt", "do not ascend");
    write("good.txt", ycsb(7)).expect("written");
    let (out, err) = run_line(dir.path(), "report good.txt", 6);
    assert!(unwrapped(&out).contains("I/Os failed") && !err.contains("bug"), "{out}{err}");
}
