//! What a person at the prompt sees: the answer at the end of a run, a line for each point of a series, searches by
//! flags, habits of fio, and hints.
#![allow(clippy::unwrap_used)]

use crate::common::{json, run_line, scratch, unwrapped};
use serde_json::Value;

const SIM: &str = "run --driver sim --rw randread --set run.seed=1 --runtime 2s --output";

/// The lines at the end of a run: nothing measured comes after them.
fn answer(out: &str) -> Vec<&str> {
    let lines: Vec<&str> = out.lines().collect();
    let begins = lines.iter().rposition(|l| l.starts_with("sim ")).expect(out);
    lines[begins..].to_vec()
}

#[test]
fn a_run_ends_with_its_answer() {
    let dir = scratch();
    let (out, _) = run_line(dir.path(), &format!("{SIM} a --ceiling 1s@99"), 0);
    let end = answer(&out);
    let at = |begin: &str| {
        end.iter().position(|l| l.starts_with(begin)).unwrap_or_else(|| panic!("{begin}: {out}"))
    };
    // What ran, the sentence, the figures, the page.
    let order = [
        at("sim "),
        at("Good: Kept: 99 % of all I/Os within 1.00 s."),
        at("read "),
        at("Report  "),
    ];
    assert!(order.is_sorted() && end.len() <= 8, "{out}");
    assert!(end[order[2] - 1].contains("p99.9") && end[order[2] - 1].contains("max"), "{out}");
    assert!(!out.contains("Overhead") && !out.contains("Nines"), "{out}");
    // A page, a report made later and Markdown have the same sentence.
    let (again, _) = run_line(dir.path(), "report a", 0);
    assert_eq!(answer(&again), end, "{again}");
    let sentence = unwrapped(&end[order[1]..order[2] - 1].join(" "));
    let sentence = sentence.trim_start_matches("Good: ");
    let text = |name: &str| std::fs::read_to_string(dir.path().join("a").join(name)).unwrap();
    assert!(text("report.md").contains(sentence), "{sentence}");
    let page = text("report.html").replace("&#x2f;", "/");
    assert!(page.contains(sentence), "{sentence}");
    let (more, _) = run_line(dir.path(), "report a -v", 0);
    assert!(more.contains("Overhead") && more.contains("Nines"), "{more}");
}

#[test]
fn a_series_has_a_line_a_point_with_the_time_left() {
    let dir = scratch();
    let (out, _) =
        run_line(dir.path(), &format!("{SIM} s --sweep workload.0.queue_depth=1,2,4"), 0);
    let points: Vec<&str> = out.lines().filter(|l| l.contains(" of 3")).collect();
    assert_eq!(points.len(), 3, "{out}");
    for (line, left) in points.iter().zip(["about 4 s left", "about 2 s left", "(3 of 3)"]) {
        assert!(line.contains("/s  p99 ") && line.contains(left), "{line}");
    }
    assert!(!out.contains("==") && !out.contains("run directory"), "{out}");
    let last = out.lines().position(|l| l.starts_with("sim ·")).unwrap();
    let report = out.lines().position(|l| l.starts_with("Report  ")).unwrap();
    assert!(last < report, "what ran stands before the page: {out}");
}

#[test]
fn a_search_needs_no_job_file() {
    let dir = scratch();
    let device = "--driver sim --size 1GiB --depth 16 --set run.seed=1 --set \
                  target.options.service={kind=\"constant\",time=\"1ms\"} --set target.options.channels=4";
    let line =
        format!("search {device} --ceiling 10ms@99 --rate 100/s..50000/s --runtime 5s --output r");
    let (out, _) = run_line(dir.path(), &line, 0);
    let found = json(&dir.path().join("r/search.json"));
    let rate = found["answer"]["value"].as_f64().expect(&out);
    // Four channels of 1 ms: no more than 4,000 a second; Poisson arrivals wait from below that.
    assert!((3_200.0..=4_009.0).contains(&rate), "{rate}: {out}");
    let line =
        format!("search {device} --ceiling 1500us@99 --queue-depth 1..16 --runtime 5s --output d");
    run_line(dir.path(), &line, 0);
    assert_eq!(json(&dir.path().join("d/search.json"))["answer"]["value"].as_f64(), Some(4.0));
    // A job file with flags, and one that says it all.
    let job = "[run]\nduration = \"5s\"\n[target]\ndriver = \"sim\"\n";
    std::fs::write(dir.path().join("job.toml"), job).unwrap();
    let flags = "--ceiling 1s@90 --rate 10/s..20/s --precision 0.5";
    let (plan, _) = run_line(dir.path(), &format!("search job.toml {flags} --print-plan"), 0);
    for said in ["[search]", "ceiling = \"1s\"", "precision = 0.5", "at = \"90\""] {
        assert!(plan.contains(said), "{said}: {plan}");
    }
    std::fs::write(dir.path().join("whole.toml"), plan).unwrap();
    run_line(dir.path(), "search whole.toml --print-plan", 0);
}

#[test]
fn a_search_that_cannot_be_is_refused_before_anything() {
    let dir = scratch();
    for (flags, said) in [
        ("--ceiling 2ms@99", "--rate 100/s..100000/s"),
        ("--rate 1/s..2/s", "--ceiling 2ms@99.9"),
        ("--ceiling 2ms --rate 1/s..2/s", "--ceiling 20ms@99.9"),
        ("--ceiling 2ms@99 --rate 100/s", "100/s..100000/s"),
        ("--ceiling 2ms@99 --rate 1000..2000", "is not a rate"),
        ("--ceiling 2ms@99 --rate 9/s..2/s", "no range to search"),
        ("--ceiling 2ms@99 --queue-depth 1..x", "1..128"),
        ("--ceiling 2ms@99 --rate 1/s..2/s --queue-depth 1..2", "search"),
        ("--ceiling 2ms@99 --ceiling 3ms@99 --rate 1/s..2/s", "one ceiling"),
        ("--ceiling 2ms@99 --rate 1/s..2/s --ops 5", "--ops"),
        ("--ceiling 2ms@99 --rate 1/s..2/s --sweep run.seed=1,2", "--sweep"),
        ("--ceiling 2ms@99 --rate 1/s..2/s --precision x", "0.05"),
    ] {
        let (_, err) = run_line(dir.path(), &format!("search --driver sim {flags}"), 2);
        assert!(err.contains(said) && !err.contains("bug"), "{flags}: {err}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn habits_of_fio_are_read_with_a_note() {
    let dir = scratch();
    let line = "run --filename data --size 1g --bs 4k --runtime 30 --time_based --rw randrw --rwmixread 70 \
                --numjobs 2 --iodepth 4 --ioengine libaio --direct 1 --print-plan";
    let (plan, err) = run_line(dir.path(), line, 0);
    for said in [
        "path = \"data\"",
        "size = \"1GiB\"",
        "block_size = \"4KiB\"",
        "duration = \"30s\"",
        "read = 70",
        "workers = 2",
        "queue_depth = 4",
        "engine = \"uring\"",
        "direct = true",
    ] {
        assert!(plan.contains(said), "{said}: {plan}");
    }
    for note in ["`--size 1g` is read as `--size 1GiB`", "`--numjobs 2` is read as `--workers 2`"] {
        assert!(err.contains(note), "{note}: {err}");
    }
    let (_, err) = run_line(dir.path(), &format!("{line} -q"), 0);
    assert!(!err.contains("is read as"), "{err}");
    let (_, err) = run_line(dir.path(), "run --driver null --rate 1000", 2);
    assert!(err.contains("--rate 1000B/s") && err.contains("--rate 1000/s"), "{err}");
}

#[test]
fn addresses_that_are_none_say_what_to_write() {
    let dir = scratch();
    let (_, err) = run_line(dir.path(), "run --path s3://bench/x --ops 9", 2);
    assert!(err.contains("s3.REGION.amazonaws.com/bench"), "{err}");
    let (_, err) = run_line(dir.path(), "suite ycsb --path s3://bench", 2);
    assert!(err.contains("s3://") && err.contains("http://HOST:PORT/bench"), "{err}");
    // Nobody listens there; it may have been meant as a file.
    let (_, err) = run_line(dir.path(), "run --path localhost:1 --ops 9", 4);
    assert!(err.contains("a file of this name is --path ./localhost:1"), "{err}");
}

#[test]
fn a_report_in_a_form_that_is_not_made_says_what_to_do() {
    let dir = scratch();
    run_line(dir.path(), &format!("{SIM} a"), 0);
    for (name, said) in [
        ("x.pdf", "print it from a browser"),
        ("x.PNG", "saved as a picture"),
        ("x.json", "--json > x.json"),
        ("x.csv", "taillight export"),
        ("x.md", "report.md"),
    ] {
        let (_, err) = run_line(dir.path(), &format!("report a --output {name}"), 2);
        assert!(err.contains(said), "{name}: {err}");
        assert!(!dir.path().join(name).exists());
    }
    let summary: Value = json(&dir.path().join("a/summary.json"));
    assert!(summary["verdict"].is_object());
}

/// A value apart from its switch was taken for the job file, and a habit for an error.
#[test]
fn a_series_goes_on_with_its_words_as_they_were_read() {
    let dir = scratch();
    let line = "run --path data --size 1m --rw write --ops 50 --direct false --output s \
                --sweep run.seed=1,2";
    run_line(dir.path(), line, 0);
    run_line(dir.path(), "suite --resume s", 0);
}
