//! The series engine with real runs on virtual time: methods, resuming, exit codes, `series.json`.

use std::path::Path;
use std::rc::Rc;

use crate::common::{SimHost, plan, source};
use taillight_core::exit::Exit;
use taillight_core::plan::Plan;
use taillight_rundir::repeat::RepeatReport;
use taillight_rundir::search::{ProbeReason, SearchReport};
use taillight_rundir::series::{PointStatus, SeriesFile};
use taillight_rundir::{JsonFile, RunDir, RunStatus};
use taillight_suite::host::Assignment;
use taillight_suite::method::{Method, Next, Point, SeriesHead};
use taillight_suite::repeat::RepeatMethod;
use taillight_suite::runner::{SeriesOutcome, SeriesSetup, run_series};
use taillight_suite::search::SearchMethod;
use taillight_suite::sequence::Sequence;
use taillight_suite::suites::{SuiteFile, SuiteRequest, embedded};

/// Four channels of 1 ms.
const JOB: &str = "[run]\noperations = 2000\nseed = 3\n[target]\ndriver = \"sim\"\nsize = \"1GiB\"\n\
    options = { channels = 4, service = { kind = \"constant\", time = \"1ms\" } }\n[[workload]]\n";

fn repetitions(count: u32) -> RepeatMethod {
    let plan = plan(&source(JOB), &[Assignment::new("--set", format!("run.repeat={count}"))])
        .expect("a plan");
    RepeatMethod::new(&plan, None, String::new())
}

fn run(
    method: &mut dyn Method,
    host: &mut SimHost,
    dir: &Path,
) -> taillight_core::Result<SeriesOutcome> {
    let setup = SeriesSetup {
        dir: dir.to_owned(),
        command: vec!["run".to_owned(), "job.toml".to_owned()],
        resumed: SeriesFile::read(dir)?,
    };
    run_series(method, host, setup)
}

fn series(dir: &Path) -> SeriesFile {
    let file = SeriesFile::read(dir).expect("readable").expect("there");
    let validator = jsonschema::validator_for(&SeriesFile::schema()).expect("a schema");
    let value = serde_json::to_value(&file).expect("JSON");
    let problems: Vec<_> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
    assert!(problems.is_empty(), "{problems:?}");
    file
}

fn run_id(dir: &Path, point: &str) -> String {
    let run = RunDir::open(&dir.join(point)).expect("a run directory");
    run.manifest().run_id.clone()
}

#[test]
fn a_search_on_virtual_time_finds_the_depth_that_theory_gives() {
    let home = tempfile::tempdir().expect("a directory");
    let text = JOB.replace("operations = 2000\n", "")
        + "[search]\nqueue_depth = { from = 1, to = 64 }\nat = \"99\"\nceiling = \"4ms\"\n\
           probe = \"2s\"\nprecision = 0.01\n";
    let plan = plan(&source(&text), &[]).expect("a plan");
    let mut method = SearchMethod::new(&plan, None, String::new()).expect("a search");
    let dir = home.path().join("out");
    let ended = run(&mut method, &mut SimHost::default(), &dir).expect("it runs");
    assert_eq!(ended.exit, Exit::Ok);
    let file = series(&dir);
    // Depth 16 over four channels of 1 ms takes 4 ms.
    let answer = file.answer.expect("an answer");
    assert_eq!((&answer["value"], &answer["failed_above"]), (&16.0.into(), &17.0.into()));
    assert_eq!((file.method.as_str(), file.status), ("search", RunStatus::Complete));
    assert_eq!(file.decisions.len(), file.points.len());
    assert!(file.points.iter().all(|p| p.coordinates.contains_key("workload.0.queue_depth")));
}

/// Nothing is slow, and the probes are too short to say so of 99 %: that was told to lie too close to the
/// ceiling.
#[test]
fn a_search_that_is_undecided_says_why() {
    let home = tempfile::tempdir().expect("a directory");
    let text = JOB.replace("operations = 2000\n", "")
        + "[search]\nrate = { from = \"10/s\", to = \"50/s\" }\nat = \"99\"\nceiling = \"20ms\"\n\
           probe = \"500ms\"\n";
    let plan = plan(&source(&text), &[]).expect("a plan");
    let mut method = SearchMethod::new(&plan, None, String::new()).expect("a search");
    let dir = home.path().join("out");
    let mut host = SimHost::default();
    let ended = run(&mut method, &mut host, &dir).expect("it runs");
    let search = SearchReport::read(&dir).expect("readable").expect("there");
    println!("{}\n{}", host.text.join("\n"), search.text);
    assert_eq!(ended.exit, Exit::GateUndecided);
    assert_eq!(search.looks, Some(4));
    assert!(search.probes.iter().all(|p| p.reason == ProbeReason::TooFew && p.above == Some(0)));
    for part in ["took longer than 20.0 ms", "too few to say so of 99 %", "are needed at least"] {
        assert!(search.text.contains(part), "{part}: {}", search.text);
    }
    assert!(!search.text.contains("close"), "{}", search.text);
}

/// One server and exponential times; with 60 % load less than 1 % over 12 ms, with 80 % more.
#[test]
fn a_search_answers_at_least_and_says_what_limits_it() {
    let home = tempfile::tempdir().expect("a directory");
    let text = JOB
        .replace("operations = 2000\n", "")
        .replace("channels = 4, ", "")
        .replace("kind = \"constant\", time", "kind = \"exponential\", mean")
        + "arrival = { rate = \"5/s\" }\nqueue_depth = 64\n[search]\n\
         rate = { from = \"300/s\", to = \"900/s\" }\nat = \"99\"\nceiling = \"12ms\"\nprobe = \"60s\"\n";
    let plan = plan(&source(&text), &[]).expect("a plan");
    let mut method = SearchMethod::new(&plan, None, String::new()).expect("a search");
    let dir = home.path().join("out");
    let mut host = SimHost::default();
    run(&mut method, &mut host, &dir).expect("it runs");
    let search = SearchReport::read(&dir).expect("readable").expect("there");
    println!("{}\n{}", host.text.join("\n"), search.text);
    // ln(100) / (1000 - rate) is 12 ms at 616 a second.
    let answer = search.answer.as_ref().expect("an answer");
    assert!((450.0..=625.0).contains(&answer.value), "{answer:?}");
    assert!(search.text.starts_with("The answer is at least "), "{}", search.text);
    assert!(search.text.contains("took longer than 12.0 ms"), "{}", search.text);
}

#[test]
fn complete_points_are_read_and_not_run_again() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    let mut host = SimHost { signal_after: Some(2), ..SimHost::default() };
    let ended = run(&mut repetitions(4), &mut host, &dir).expect("it runs");
    assert_eq!(ended.exit, Exit::Interrupted);
    assert_eq!(host.ran, ["repeat-1", "repeat-2"]);
    assert!(
        host.text
            .contains(&"Partial: the series ended early; not run: repeat-3, repeat-4.".to_owned()),
        "{:?}",
        host.text
    );
    let mut file = series(&dir);
    assert_eq!(file.status, RunStatus::Partial);
    let first = run_id(&dir, "repeat-1");
    // As a kill in the second point leaves it.
    file.points[1].status = PointStatus::Running;
    file.write(&dir).expect("written");

    let mut host = SimHost::default();
    let ended = run(&mut repetitions(4), &mut host, &dir).expect("it runs");
    assert_eq!(ended.exit, Exit::Ok);
    assert_eq!(host.ran, ["repeat-2", "repeat-3", "repeat-4"]);
    assert_eq!(run_id(&dir, "repeat-1"), first);
    assert!(dir.join("repeat-2.earlier-1").is_dir(), "what it had measured is kept");
    let file = series(&dir);
    assert_eq!(file.status, RunStatus::Complete);
    let ids: Vec<&str> = file.points.iter().map(|p| p.id.as_str()).collect();
    assert_eq!(ids, ["repeat-1", "repeat-2", "repeat-3", "repeat-4"]);
    assert!(file.points.iter().all(|p| p.status == PointStatus::Complete));
    assert_eq!(file.points[0].values, file.points[3].values, "virtual time repeats");
}

#[test]
fn a_job_that_changed_is_not_resumed() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    run(&mut repetitions(2), &mut SimHost::default(), &dir).expect("it runs");
    let plan =
        plan(&source(&JOB.replace("2000", "3000")), &[Assignment::new("--set", "run.repeat=2")]);
    let mut other = RepeatMethod::new(&plan.expect("a plan"), None, String::new());
    let mut host = SimHost::default();
    let e = run(&mut other, &mut host, &dir).expect_err("refused");
    assert_eq!((e.exit(), host.ran.len()), (Exit::Usage, 0));
    assert_eq!(series(&dir).status, RunStatus::Complete, "nothing was changed");
}

/// What differs is said, and nothing runs.
#[test]
fn another_version_loop_or_device_is_not_resumed() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    let two = ONE_STORE.replace("shared_target = true", "");
    run(matrix(&two).as_mut(), &mut SimHost { signal_after: Some(2), ..SimHost::default() }, &dir)
        .expect("it runs");
    let began = series(&dir);
    let refused = |text: &str, mut host: SimHost, words: &str| {
        let e = run(matrix(text).as_mut(), &mut host, &dir).expect_err(words);
        assert_eq!((e.exit(), host.ran.len()), (Exit::Usage, 0), "{words}");
        assert!(e.to_string().contains(words), "{words}: {e}");
    };
    let loops = two.replace("values = [1, 2]", "values = [1, 3]");
    refused(&loops, SimHost::default(), "workload.0.workers: 1, 2, now 1, 3");
    let load = two.replace("operations = 300", "operations = 400");
    refused(&load, SimHost::default(), "run.operations: 300, not 400");
    let device = |model: &str| serde_json::json!({ "device": { "model": model, "size": 5 } });
    let manifest = dir.join("01-load/manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("a manifest");
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    value["environment"]["target"] = device("old");
    value.as_object_mut().expect("a map").remove("crc32");
    std::fs::write(&manifest, value.to_string()).expect("written");
    let facts = device("new").as_object().cloned().expect("a map");
    refused(&two, SimHost { facts, ..SimHost::default() }, "model old, now new");
    let mut older = began.clone();
    older.taillight = "0.0.1".to_owned();
    older.write(&dir).expect("written");
    refused(&two, SimHost::default(), "0.0.1, now");
    began.write(&dir).expect("written");
    let facts = device("old").as_object().cloned().expect("a map");
    let mut host = SimHost { facts, ..SimHost::default() };
    let ended = run(matrix(&two).as_mut(), &mut host, &dir).expect("it goes on");
    assert_eq!((ended.exit, host.ran), (Exit::Ok, vec!["03-read-2".to_owned()]));
}

#[test]
fn the_worst_exit_code_counts_and_some_end_a_series() {
    let home = tempfile::tempdir().expect("a directory");
    let exits = [("repeat-1", Exit::GateUndecided), ("repeat-2", Exit::IoErrors)];
    let mut host = SimHost {
        exits: exits.map(|(id, exit)| (id.to_owned(), exit)).into(),
        ..SimHost::default()
    };
    let ended = run(&mut repetitions(3), &mut host, &home.path().join("a")).expect("it runs");
    assert_eq!((ended.exit, host.ran.len()), (Exit::IoErrors, 3));
    let mut host = SimHost {
        exits: [("repeat-2".to_owned(), Exit::TargetFailed)].into(),
        ..SimHost::default()
    };
    let ended = run(&mut repetitions(3), &mut host, &home.path().join("b")).expect("it runs");
    assert_eq!((ended.exit, host.ran.len()), (Exit::TargetFailed, 2));
}

#[test]
fn an_error_ends_a_series_and_one_that_measured_nothing_leaves_no_directory() {
    let home = tempfile::tempdir().expect("a directory");
    let broken = |id: &str| SimHost { broken: Some(id.to_owned()), ..SimHost::default() };
    let dir = home.path().join("a");
    let e = run(&mut repetitions(3), &mut broken("repeat-1"), &dir).expect_err("no run");
    assert_eq!(e.exit(), Exit::Unavailable);
    assert!(!dir.exists());
    let dir = home.path().join("b");
    let ended = run(&mut repetitions(3), &mut broken("repeat-2"), &dir).expect("one run");
    // 4 would say that nothing was measured.
    assert_eq!((ended.exit, ended.done.len()), (Exit::TargetFailed, 1));
    assert_eq!(series(&dir).status, RunStatus::Partial);
}

/// A load and two workloads on one store, as a file of a user describes them.
const ONE_STORE: &str = r#"
rule = "matrix"
name = "mine"
about = "One store"
shared_target = true
[job.run]
operations = 300
seed = 5
[job.target]
driver = "memory"
[[job.workload]]
mix = "get"
block_size = "100B"
keys = { count = 300 }
[[phase]]
name = "load"
role = "precondition"
[phase.set]
"workload.0.mix" = "insert"
"workload.0.keys.count" = 0
[[phase]]
name = "read"
[[phase.loop]]
path = "workload.0.workers"
values = [1, 2]
"#;

fn one_store() -> Box<dyn Method> {
    matrix(ONE_STORE)
}

fn matrix(text: &str) -> Box<dyn Method> {
    let suite = SuiteFile::parse(&source(text)).expect("a suite");
    let prepared = suite.prepare(SuiteRequest::default(), Rc::new(plan));
    prepared.expect("plans").method
}

#[test]
fn a_resumed_series_makes_the_state_of_its_target_again() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    let mut host = SimHost { signal_after: Some(2), ..SimHost::default() };
    run(one_store().as_mut(), &mut host, &dir).expect("it runs");
    assert_eq!(host.ran, ["01-load", "02-read-1"]);
    let mut host = SimHost::default();
    let ended = run(one_store().as_mut(), &mut host, &dir).expect("it runs");
    // The store went with the process: it is loaded again, what was read from it is not.
    assert_eq!(host.ran, ["01-load", "03-read-2"]);
    assert_eq!((ended.exit, ended.done.len()), (Exit::Ok, 3));
    assert!(ended.done.iter().all(|r| r.values["errors"] == 0.0));
    assert_eq!(series(&dir).status, RunStatus::Complete);
}

/// As a kill leaves the points with these ids.
fn killed_in(dir: &Path, ids: &[&str]) {
    let mut file = series(dir);
    for point in file.points.iter_mut().filter(|p| ids.contains(&p.id.as_str())) {
        point.status = PointStatus::Running;
    }
    file.write(dir).expect("written");
}

#[test]
fn every_state_that_a_later_run_needs_is_made_again() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    let twice = ONE_STORE.replace("values = [1, 2]", "values = [1]");
    let (head, phases) = twice.split_once("[[phase]]").expect("phases");
    let again = |n: &str| {
        let named = phases.replace("\"load\"", &format!("\"load{n}\""));
        named.replace("\"read\"", &format!("\"read{n}\""))
    };
    let text =
        format!("{head}[[phase]]{}[[phase]]{}[[phase]]{}", again("a"), again("b"), again("c"));
    let three = || matrix(&text);
    run(three().as_mut(), &mut SimHost::default(), &dir).expect("it runs");
    killed_in(&dir, &["02-reada-1", "06-readc-1"]);
    let mut host = SimHost::default();
    let ended = run(three().as_mut(), &mut host, &dir).expect("it runs");
    assert_eq!(host.ran, ["01-loada", "02-reada-1", "05-loadc", "06-readc-1"]);
    assert_eq!((ended.exit, ended.done.len()), (Exit::Ok, 6));
    assert!(ended.done.iter().all(|r| r.values["errors"] == 0.0));
}

#[test]
fn a_state_that_nothing_makes_again_is_not_resumed() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    let text = ONE_STORE.replace("role = \"precondition\"\n", "");
    let mut host = SimHost { signal_after: Some(2), ..SimHost::default() };
    run(matrix(&text).as_mut(), &mut host, &dir).expect("it runs");
    let before = series(&dir);
    let mut host = SimHost::default();
    let e = run(matrix(&text).as_mut(), &mut host, &dir).expect_err("refused");
    assert_eq!((e.exit(), host.ran.len()), (Exit::Usage, 0));
    assert!(e.to_string().contains("03-read-2"), "{e}");
    assert_eq!(series(&dir), before);
}

#[test]
fn an_interrupted_resume_loses_no_row_of_complete_points() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    let mut host = SimHost { signal_after: Some(2), ..SimHost::default() };
    run(one_store().as_mut(), &mut host, &dir).expect("it runs");
    // The load is made again, then a signal comes.
    let mut host = SimHost { signal_after: Some(1), ..SimHost::default() };
    run(one_store().as_mut(), &mut host, &dir).expect("it runs");
    assert_eq!(host.ran, ["01-load"]);
    assert!(
        host.text.contains(&"Partial: the series ended early; not run: 03-read-2.".to_owned()),
        "{:?}",
        host.text
    );
    let table = host.text.iter().find(|t| t.contains("p999")).expect("a table");
    assert!(table.contains("01-load") && table.contains("02-read-1"), "{table}");
    // Nor when not even the load can begin.
    let mut host = SimHost { broken: Some("01-load".to_owned()), ..SimHost::default() };
    let ended = run(one_store().as_mut(), &mut host, &dir).expect("shown");
    assert_eq!((ended.exit, series(&dir).status), (Exit::TargetFailed, RunStatus::Partial));
    let table = host.text.iter().find(|t| t.contains("p999")).expect("a table");
    assert!(table.contains("02-read-1"), "{table}");
}

/// Each depth three times.
fn repeated_matrix() -> Box<dyn Method> {
    let job = JOB.replace("[run]", "[job.run]\nrepeat = 3").replace("[target]", "[job.target]");
    let job = job.replace("[[workload]]", "[[job.workload]]");
    matrix(&format!(
        "rule = \"matrix\"\nname = \"mine\"\nabout = \"x\"\n[job]\n{job}\n[[phase]]\nname = \"p\"\n\
         [[phase.loop]]\npath = \"workload.0.queue_depth\"\nvalues = [1, 4]\n"
    ))
}

#[test]
fn points_that_are_series_are_resumed_and_reported() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    let mut host = SimHost { signal_after: Some(5), ..SimHost::default() };
    let ended = run(repeated_matrix().as_mut(), &mut host, &dir).expect("it runs");
    assert_eq!((ended.exit, host.ran.len()), (Exit::Interrupted, 5));
    let first = run_id(&dir.join("02-p-4"), "repeat-2");
    let mut host = SimHost::default();
    let ended = run(repeated_matrix().as_mut(), &mut host, &dir).expect("it runs");
    assert_eq!((ended.exit, ended.done.len()), (Exit::Ok, 2));
    assert_eq!(host.ran, ["repeat-3"]);
    assert_eq!(run_id(&dir.join("02-p-4"), "repeat-2"), first);
    let file = series(&dir);
    assert!(file.points.iter().all(|p| p.status == PointStatus::Complete));
    // Four channels: four times the rate at depth 4, as the median of three.
    assert_eq!(file.points[1].values["iops"], 4.0 * file.points[0].values["iops"]);
}

#[test]
fn runs_on_a_shared_target_are_single_runs() {
    let text = ONE_STORE.replace("seed = 5", "seed = 5\nrepeat = 2");
    let suite = SuiteFile::parse(&source(&text)).expect("a suite");
    let e = suite.prepare(SuiteRequest::default(), Rc::new(plan)).err().expect("refused");
    assert!(e.to_string().contains("repeated"), "{e}");
}

#[test]
fn a_refused_study_says_what_to_delete_and_not_to_destroy_one_of_many_targets() {
    let home = tempfile::tempdir().expect("a directory");
    let suite = SuiteFile::parse(&embedded("slc-paper").expect("there")).expect("a suite");
    let path = Some(home.path().join("disk").display().to_string());
    let request = SuiteRequest { paths: path.into_iter().collect(), ..SuiteRequest::default() };
    let mut study = suite.prepare(request, Rc::new(plan)).expect("plans").method;
    let mut host = SimHost { foreign: true, ..SimHost::default() };
    let e = run(study.as_mut(), &mut host, &home.path().join("out")).expect_err("refused");
    let hint = e.hint_text().expect("a hint");
    assert!(hint.contains("delete") && !hint.contains("--destroy"), "{hint}");
}

#[test]
fn independent_points_go_on_after_a_failed_target() {
    let home = tempfile::tempdir().expect("a directory");
    let points = |count: u32| {
        let mut method = repetitions(count);
        let Ok(Next::Point(point)) = method.next(&[]) else {
            panic!("a point");
        };
        let named = |n: u32| Point { id: format!("job-{n}"), ..(*point).clone() };
        let head = SeriesHead { job_text: None, ..method.head().clone() };
        Sequence::independent(head, (1..=count).map(named).collect())
    };
    let host =
        |exit: Exit| SimHost { exits: [("job-2".to_owned(), exit)].into(), ..SimHost::default() };
    let mut failing = host(Exit::TargetFailed);
    let ended = run(&mut points(3), &mut failing, &home.path().join("a")).expect("it runs");
    assert_eq!((ended.exit, failing.ran.len()), (Exit::TargetFailed, 3));
    let mut stopped = host(Exit::Interrupted);
    let ended = run(&mut points(3), &mut stopped, &home.path().join("b")).expect("it runs");
    assert_eq!((ended.exit, stopped.ran.len()), (Exit::Interrupted, 2));
}

#[test]
fn repetitions_across_a_boot_share_no_clock() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    let job =
        "[run]\noperations = 2000\n[target]\ndriver = \"null\"\nsize = \"1GiB\"\n[[workload]]\n";
    let plan = plan(&source(job), &[Assignment::new("--set", "run.repeat=3")]).expect("a plan");
    let method = || RepeatMethod::new(&plan, None, String::new());
    let read = || RepeatReport::read(&dir).expect("readable").expect("there");
    let mut host = SimHost { signal_after: Some(2), ..SimHost::default() };
    run(&mut method(), &mut host, &dir).expect("it runs");
    assert!(read().one_clock && read().runs[1].gap_ns.is_some());
    for repetition in ["repeat-1", "repeat-2"] {
        let mut run = RunDir::open(&dir.join(repetition)).expect("a run directory");
        let mut manifest = run.manifest().clone();
        manifest.process.as_mut().expect("a process").boot_id = "an earlier one".to_owned();
        run.write_manifest(&manifest).expect("written");
    }
    let mut host = SimHost::default();
    run(&mut method(), &mut host, &dir).expect("it runs");
    let report = read();
    assert!(
        !report.one_clock && report.runs[1].gap_ns.is_some() && report.runs[2].gap_ns.is_none()
    );
    assert!(host.text.iter().any(|t| t.contains("started anew")), "{:?}", host.text);
}

#[test]
fn loops_are_nested_and_repeated_in_rounds() {
    let text = format!(
        "rule = \"matrix\"\nname = \"mine\"\nabout = \"x\"\n[job]\n{}\n[[phase]]\nname = \"p\"\n\
         rounds = 2\nset = {{ \"workload.0.access\" = \"random\" }}\n\
         [[phase.loop]]\npath = \"workload.0.block_size\"\nvalues = [\"4KiB\", \"8KiB\"]\n\
         [[phase.loop]]\npath = \"workload.0.queue_depth\"\nvalues = [1, 4]\n",
        JOB.replace("[run]", "[job.run]")
            .replace("[target]", "[job.target]")
            .replace("[[workload]]", "[[job.workload]]")
    );
    let suite = SuiteFile::parse(&source(&text)).expect("a suite");
    let prepared = suite.prepare(SuiteRequest::default(), Rc::new(plan));
    let prepared = prepared.expect("plans");
    let names: Vec<&str> = prepared.plans.iter().map(|p| p.run.name.as_str()).collect();
    assert_eq!(names.len(), 8);
    assert_eq!(&names[..2], ["01-p-4KiB-1-round-1", "02-p-4KiB-4-round-1"]);
    assert_eq!(names[7], "08-p-8KiB-4-round-2");
    assert_eq!(prepared.plans[3].workloads[0].queue_depth, 4);
    assert_eq!(prepared.method.head().axes.len(), 2);
    let seeds = prepared.plans.iter().map(|p| p.run.seed);
    assert!(seeds.clone().all(|s| s == 3));
}

#[test]
fn flags_that_a_suite_cannot_use_are_refused() {
    let suite = SuiteFile::parse(&source(ONE_STORE)).expect("a suite");
    let request = SuiteRequest { records: Some(5), ..SuiteRequest::default() };
    let e = suite.prepare(request, Rc::new(plan)).err().expect("refused");
    assert_eq!(e.exit(), Exit::Usage);
    assert!(e.to_string().contains("--records"), "{e}");
}

/// A job on files, of which the engine is not said.
const FILES: &str = "[run]\nduration = \"1s\"\nseed = 3\n[target]\ndriver = \"file\"\npath = \"x\"\n\
                     size = \"1GiB\"\n[[workload]]\nmix = \"read\"\nblock_size = \"4KiB\"\n";

fn engine(plan: &Plan) -> &str {
    plan.target.options["engine"].as_str().expect("a word")
}

#[test]
fn one_engine_serves_all_depths_of_a_series() {
    let engines = |more: &str, depths: &str| -> Vec<String> {
        let text = format!(
            "rule = \"matrix\"\nname = \"mine\"\nabout = \"x\"\n[job]\n{}\n{more}\n[[phase]]\n\
             name = \"p\"\n[[phase.loop]]\npath = \"workload.0.queue_depth\"\nvalues = {depths}\n",
            FILES
                .replace("[run]", "[job.run]")
                .replace("[target]", "[job.target]")
                .replace("[[workload]]", "[[job.workload]]")
        );
        let suite = SuiteFile::parse(&source(&text)).expect("a suite");
        let prepared = suite.prepare(SuiteRequest::default(), Rc::new(plan)).expect("plans");
        prepared.plans.iter().map(|plan| engine(plan).to_owned()).collect()
    };
    assert_eq!(engines("", "[1, 2]"), ["uring", "uring"]);
    assert_eq!(engines("", "[1]"), ["auto"], "nothing to settle");
    let deep = "[[phase]]\nname = \"before\"\nrole = \"precondition\"\n\
                set = { \"workload.0.queue_depth\" = 8 }\n";
    assert_eq!(engines(deep, "[1]"), ["auto", "auto"], "what prepares decides nothing");

    let search = FILES.replace("duration = \"1s\"\n", "")
        + "[search]\nqueue_depth = { from = 1, to = 64 }\nat = \"99\"\nceiling = \"4ms\"\n";
    let searched = plan(&source(&search), &[]).expect("a plan");
    let mut method = SearchMethod::new(&searched, None, String::new()).expect("a search");
    match method.next(&[]).expect("a point") {
        Next::Point(point) => {
            assert_eq!((point.plan.workloads[0].queue_depth, engine(&point.plan)), (1, "uring"));
        }
        Next::End => panic!("a search without a probe"),
    }
}
