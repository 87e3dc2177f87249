//! The series engine with real runs on virtual time: methods, resuming, exit codes, `series.json`.

mod common;

use std::path::Path;
use std::rc::Rc;

use common::{SimHost, plan, source};
use taillight_core::exit::Exit;
use taillight_rundir::series::{PointStatus, SeriesFile, schema_series};
use taillight_rundir::{RunDir, RunStatus};
use taillight_suite::method::Method;
use taillight_suite::repeat::RepeatMethod;
use taillight_suite::runner::{SeriesOutcome, SeriesSetup, run_series};
use taillight_suite::search::SearchMethod;
use taillight_suite::suites::{SuiteFile, SuiteRequest};

/// Four channels of 1 ms.
const JOB: &str = "[run]\noperations = 2000\nseed = 3\n[target]\ndriver = \"sim\"\nsize = \"1GiB\"\n\
    options = { channels = 4, service = { kind = \"constant\", time = \"1ms\" } }\n[[workload]]\n";

fn repetitions(count: u32) -> RepeatMethod {
    let plan = plan(&source(JOB), &[format!("run.repeat={count}")]).expect("a plan");
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
    let validator = jsonschema::validator_for(&schema_series()).expect("a schema");
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

#[test]
fn complete_points_are_read_and_not_run_again() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    let mut host = SimHost { signal_after: Some(2), ..SimHost::default() };
    let ended = run(&mut repetitions(4), &mut host, &dir).expect("it runs");
    assert_eq!(ended.exit, Exit::Interrupted);
    assert_eq!(host.ran, ["repeat-1", "repeat-2"]);
    assert!(host.text.contains(&"not run: repeat-3, repeat-4".to_owned()), "{:?}", host.text);
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
    let plan = plan(&source(&JOB.replace("2000", "3000")), &["run.repeat=2".to_owned()]);
    let mut other = RepeatMethod::new(&plan.expect("a plan"), None, String::new());
    let mut host = SimHost::default();
    let e = run(&mut other, &mut host, &dir).expect_err("refused");
    assert_eq!((e.exit(), host.ran.len()), (Exit::Usage, 0));
    assert_eq!(series(&dir).status, RunStatus::Complete, "nothing was changed");
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
    assert_eq!((ended.exit, ended.done.len()), (Exit::Unavailable, 1));
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
    let suite = SuiteFile::parse(&source(ONE_STORE)).expect("a suite");
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
