//! `taillight ab` through the binary: the order of its runs, gates, JUnit, refused input, errors in a run,
//! interruption.

use std::io::{BufRead, BufReader};
use std::path::Path;

use crate::common::{self, json, run, run_line, scratch, signal, start};

/// 4000 reads of a simulated disk with four channels of 1 ms in the mean.
const JOB: &str = "[run]\noperations = 4000\nseed = 11\n[target]\ndriver = \"sim\"\n\
    size = \"1GiB\"\noptions = { channels = 4, service = { kind = \"exponential\", mean = \"1ms\" } }\n\
    [[workload]]\nqueue_depth = 4\n";

fn jobs(dir: &Path) {
    std::fs::write(dir.join("a.toml"), JOB).expect("written");
    let slower = JOB.replace("\"1ms\"", "\"1.2ms\"");
    std::fs::write(dir.join("b.toml"), slower).expect("written");
}

fn refused(dir: &Path, line: &str, parts: &[&str]) {
    let (_, err) = run_line(dir, line, 2);
    let err = common::unwrapped(&err);
    for part in parts {
        assert!(err.contains(part), "{line}: `{part}` is not in: {err}");
    }
}

#[test]
fn a_slower_job_is_found_and_the_series_ends_early() {
    let dir = scratch();
    let at = dir.path();
    jobs(at);
    let (out, _) = run_line(at, "ab a.toml b.toml --gate read:p50 --junit ci.xml --output out", 7);
    assert!(out.contains("pair 3 of 6: read p50") && !out.contains("pair 4 of 6"), "{out}");
    let series = json(&at.join("out/series.json"));
    let order: Vec<&str> = (series["points"].as_array().expect("points").iter())
        .map(|p| p["id"].as_str().expect("an id"))
        .collect();
    let turns = ["pair-1-a", "pair-1-b", "pair-2-b", "pair-2-a", "pair-3-b", "pair-3-a"];
    assert_eq!(order, turns);
    assert_eq!((&series["status"], &series["exit"]), (&"complete".into(), &7.into()));
    let seed = |run: &str| json(&at.join("out").join(run).join("manifest.json"))["seed"].clone();
    assert_eq!((seed("pair-1-a"), seed("pair-1-b")), (11.into(), 11.into()));
    assert_eq!((seed("pair-2-a"), seed("pair-3-b")), (12.into(), 13.into()));
    let found = json(&at.join("out/compare.json"));
    assert_eq!(found["pairs"]["ended"], "early");
    assert_eq!(found["gate"]["status"], "fail");
    let xml = std::fs::read_to_string(at.join("ci.xml")).expect("JUnit");
    assert!(xml.contains("failures=\"1\""), "{xml}");
    let markdown = std::fs::read_to_string(at.join("out/compare.md")).expect("Markdown");
    assert!(markdown.starts_with("**Gate read:p50 FAILED"), "{markdown}");
    assert!(at.join("out/report.html").is_file());
    // The same answer again, from the series alone.
    let (again, _) = run_line(at, "compare out --json --output again", 7);
    let again: serde_json::Value = serde_json::from_str(&again).expect("JSON");
    assert_eq!(again["figures"], found["figures"]);
    assert_eq!(again["pairs"], found["pairs"]);
    let (report, _) = run_line(at, "report out", 7);
    assert!(common::unwrapped(&report).contains("Gate read:p50 FAILED"), "{report}");
}

#[test]
fn a_junit_file_that_cannot_be_written_costs_no_answer() {
    let dir = scratch();
    let at = dir.path();
    jobs(at);
    // A directory takes the name of the file while the runs go on.
    let child = common::start(at, "ab a.toml b.toml --junit ci.xml --output out");
    while !at.join("out/series.json").exists() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    std::fs::create_dir(at.join("ci.xml")).expect("made");
    let (_, err) = common::ended(&child.wait_with_output().expect("it ends"), 5);
    assert!(err.contains("ci.xml") && common::unwrapped(&err).contains("not lost"), "{err}");
    std::fs::remove_dir(at.join("ci.xml")).expect("removed");
    run_line(at, "compare out --junit ci.xml --output again", 0);
    run_line(at, "compare out --junit ci.xml --output again", 0);
    assert!(at.join("ci.xml").is_file());
    // What somebody else wrote stays.
    std::fs::write(at.join("ci.xml"), "<testsuite name=\"theirs\"/>").expect("written");
    let (_, err) = run_line(at, "compare out --junit ci.xml --output again", 2);
    assert!(err.contains("exists already"), "{err}");
    assert!(std::fs::read_to_string(at.join("ci.xml")).expect("read").contains("theirs"));
}

#[test]
fn settings_of_one_job_are_two_sides_and_a_gate_in_it_decides() {
    let dir = scratch();
    let at = dir.path();
    let gate = "[gate]\nfigures = [\"read:p99\"]\nmargin = 0.2\nfail = \"not_equal\"\n";
    std::fs::write(at.join("job.toml"), format!("{JOB}{gate}")).expect("written");
    let line = "ab job.toml --pairs 4 --set run.operations=3000 --set-a workload.0.queue_depth=2 \
                --set-b workload.0.queue_depth=3 --output out";
    let (out, _) = run_line(at, line, 0);
    assert!(out.contains("queue_depth: 3, not 2"), "{out}");
    assert!(out.contains("Gate read:p99 passed: equal within 20 %"), "{out}");
    let plan = |run: &str| json(&at.join("out").join(run).join("manifest.json"))["plan"].clone();
    assert_eq!(plan("pair-1-a")["workload"][0]["queue_depth"], 2);
    assert_eq!(plan("pair-1-b")["workload"][0]["queue_depth"], 3);
    assert_eq!(plan("pair-1-b")["run"]["operations"], 3_000);
}

#[test]
fn a_job_against_itself_is_equal_and_says_so() {
    let dir = scratch();
    let at = dir.path();
    jobs(at);
    let (out, _) = run_line(at, "ab a.toml a.toml --pairs 3 --output out", 0);
    assert!(out.contains("the same as A"), "{out}");
    let found = json(&at.join("out/compare.json"));
    let verdicts: Vec<_> = (found["figures"].as_array().expect("figures").iter())
        .map(|f| f["verdict"].as_str().expect("a verdict"))
        .collect();
    assert!(verdicts.iter().all(|v| *v == "equal"), "{verdicts:?}");
    assert_eq!(found["pairs"]["ended"], "planned");
}

#[test]
fn bad_input_is_refused_before_anything_is_touched() {
    let dir = scratch();
    let at = dir.path();
    jobs(at);
    let write = |name: &str, text: String| std::fs::write(at.join(name), text).expect("written");
    write("writes.toml", JOB.replace("queue_depth = 4", "mix = \"write\""));
    write("open.toml", format!("{JOB}arrival = {{ rate = \"10/s\" }}\n"));
    write("twice.toml", JOB.replace("[run]\n", "[run]\nrepeat = 2\n"));
    write("placed.toml", JOB.replace("[run]\n", "[run]\noutput = \"x\"\n"));
    write("broken.toml", "no toml".to_owned());
    let few = "fewer than three do not say how much runs vary";
    for (line, parts) in [
        ("ab a.toml b.toml --pairs 0", &["--pairs 0: give 3 to 1000", few][..]),
        ("ab a.toml b.toml --pairs 1", &["--pairs 1", few]),
        ("ab a.toml b.toml --pairs 2", &["--pairs 2", few]),
        ("ab a.toml b.toml --pairs x", &["--pairs"]),
        ("ab a.toml", &["nothing in which B differs", "--set-b K=V"]),
        ("ab a.toml absent.toml", &["cannot read the job file", "absent.toml"]),
        ("ab a.toml broken.toml", &["broken.toml"]),
        ("ab a.toml --set-b workload.0.queue_dept=2", &["did you mean `queue_depth`?", "--set-b"]),
        ("ab a.toml --set-a target.options.chanels=2", &["chanels", "--set-a"]),
        ("ab a.toml b.toml --set nothing", &["--set `nothing` has no `=`"]),
        ("ab a.toml writes.toml", &["cannot be compared", "another mix", "--anyway"]),
        ("ab a.toml open.toml --anyway", &["response and service time are two things"]),
        ("ab a.toml twice.toml", &["one run", "twice.toml", "--pairs"]),
        ("ab placed.toml b.toml", &["no directory of its own", "--output"]),
        ("ab a.toml b.toml --gate write:p99", &["write:p99", "no such operation"]),
        ("ab a.toml b.toml --gate p99", &["no figure to decide by"]),
        ("ab a.toml b.toml --not-equal", &["--not-equal needs a gate"]),
        ("ab a.toml b.toml --margin 5", &["no margin"]),
        ("ab a.toml b.toml --junit no/such/ci.xml", &["--junit names no file"]),
        ("ab a.toml b.toml --drop some", &["none", "stolen", "busy"]),
    ] {
        refused(at, line, parts);
    }
    let left: Vec<_> = (std::fs::read_dir(at).expect("readable"))
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| !name.ends_with(".toml"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    let (plans, _) = run_line(at, "ab a.toml b.toml --print-plan", 0);
    assert_eq!(plans.matches("# The resolved plan").count(), 2);
}

#[test]
fn errors_in_a_run_end_the_series_without_an_answer() {
    let dir = scratch();
    let at = dir.path();
    jobs(at);
    let failing = ["--set-b", "target.options.errors.every=100", "--output", "out"];
    let (out, _) = run(at, &[&["ab", "a.toml"], &failing[..]].concat(), 6);
    let out = common::unwrapped(&out);
    assert!(out.contains("no answer: ") && out.contains("failed"), "{out}");
    let series = json(&at.join("out/series.json"));
    assert_eq!(series["points"].as_array().expect("points").len(), 2, "no pair more");
    run(at, &[&["ab", "a.toml", "--anyway", "--pairs", "3"], &failing[..3], &["more"]].concat(), 6);
    assert_eq!(json(&at.join("more/compare.json"))["comparable"]["verdict"], "doubtful");
}

#[test]
fn a_gate_that_no_run_resolves_ends_undecided() {
    let dir = scratch();
    let at = dir.path();
    jobs(at);
    let (out, _) = run_line(at, "ab a.toml b.toml --gate read:p99.999 --output out", 8);
    assert!(out.contains("not every run resolves it: run longer"), "{out}");
    assert!(!out.contains("pair 2 of 6"), "{out}");
}

#[test]
fn an_interrupted_series_keeps_its_pairs_and_goes_on() {
    let dir = scratch();
    let at = dir.path();
    let job = "[run]\nduration = \"400ms\"\nseed = 5\ninterval = \"100ms\"\n[target]\n\
               driver = \"null\"\nsize = \"1GiB\"\n[[workload]]\narrival = { rate = \"2000/s\" }\n";
    std::fs::write(at.join("job.toml"), job).expect("written");
    let line = "ab job.toml job.toml --pairs 4 --output out -v";
    let mut child = start(at, line);
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    assert!(lines.any(|l| l.is_ok_and(|l| l.starts_with("== pair-2-a"))), "it comes to pair 2");
    signal(&child, "INT");
    let rest: String = lines.map_while(Result::ok).collect::<Vec<_>>().join("\n");
    assert_eq!(child.wait().expect("it ends").code(), Some(130), "{rest}");
    let found = json(&at.join("out/compare.json"));
    assert_eq!((&found["pairs"]["run"], &found["pairs"]["ended"]), (&1.into(), &"partial".into()));
    assert!(rest.contains("Partial: 1 of 4 pairs so far."), "{rest}");
    let kept = json(&at.join("out/pair-1-a/manifest.json"))["run_id"].clone();
    let (out, err) = run_line(at, "suite --resume out", 0);
    assert!(err.contains("were measured before"), "{out}\n{err}");
    let found = json(&at.join("out/compare.json"));
    assert_eq!((&found["pairs"]["run"], &found["pairs"]["ended"]), (&4.into(), &"planned".into()));
    assert_eq!(json(&at.join("out/pair-1-a/manifest.json"))["run_id"], kept, "not run again");
}
