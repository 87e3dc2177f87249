//! Several targets of one suite: run in turn, judged apart, shown side by side.

use std::path::Path;
use std::rc::Rc;

use crate::common::{self, SimHost, plan, source};
use serde_json::json;
use taillight_rundir::series::SeriesFile;
use taillight_suite::suites::{SuiteFile, SuiteRequest};

/// Rounds until steady state and a sweep, on devices that differ in their channels.
const SUITE: &str = r#"
rule = "matrix"
name = "mine"
about = "two devices"
figures = ["iops", "mean_ns"]
[job.run]
duration = "1s"
seed = 3
[job.target]
driver = "sim"
size = "16MiB"
options = { service = { kind = "constant", time = "1ms" } }
[[job.workload]]
mix = "write"
[[targets]]
name = "two"
options = { channels = 2 }
[[targets]]
name = "four"
options = { channels = 4 }
[[phase]]
name = "rounds"
role = "round"
[phase.steady]
figure = "iops"
[[phase]]
name = "depths"
[[phase.loop]]
path = "workload.0.queue_depth"
values = [1, 2, 4, 8]
"#;

fn run(text: &str, host: &mut SimHost, dir: &Path) -> SeriesFile {
    common::run(text, host, dir).1
}

#[test]
fn each_target_has_its_own_rounds_curves_and_columns() {
    let home = tempfile::tempdir().expect("a directory");
    let mut host = SimHost::default();
    let file = run(SUITE, &mut host, &home.path().join("out"));
    // Five steady rounds and four depths each, one target after the other.
    let targets: Vec<_> = file.points.iter().map(|p| p.coordinates["target"].clone()).collect();
    let expected: Vec<_> =
        [["two"; 9], ["four"; 9]].concat().into_iter().map(|t| json!(t)).collect();
    assert_eq!(targets, expected);
    assert_eq!(
        (file.axes[0].path.as_str(), &file.axes[0].values),
        ("target", &vec![json!("two"), json!("four")])
    );
    let answer = file.answer.as_ref().expect("an answer");
    for target in ["two, rounds", "four, rounds"] {
        assert_eq!(answer["steady_state"][target]["outcome"], "achieved", "{answer}");
    }
    let knees: Vec<&str> =
        file.decisions.iter().filter(|d| d.rule == "knee").map(|d| d.text.as_str()).collect();
    assert!(knees[0].starts_with("target two: knee at queue_depth 2: 2,0"), "{knees:?}");
    assert!(knees[1].starts_with("target four: knee at queue_depth 4: 4,0"), "{knees:?}");
    let said = host.text.join("\n");
    assert!(said.contains("iops two") && said.contains("mean four"), "{said}");
}

#[test]
fn a_set_of_targets_is_resumed_where_it_was() {
    let home = tempfile::tempdir().expect("a directory");
    let whole = run(SUITE, &mut SimHost::default(), &home.path().join("whole"));
    let dir = home.path().join("out");
    run(SUITE, &mut SimHost { signal_after: Some(11), ..SimHost::default() }, &dir);
    let mut host = SimHost::default();
    let file = run(SUITE, &mut host, &dir);
    assert_eq!(host.ran.len(), 7);
    assert_eq!((file.points, file.decisions), (whole.points, whole.decisions));
}

#[test]
fn flags_take_the_place_of_the_targets_of_the_file() {
    let prepare = |request: SuiteRequest| {
        SuiteFile::parse(&source(SUITE)).expect("a suite").prepare(request, Rc::new(plan))
    };
    let paths = |paths: &[&str]| SuiteRequest {
        paths: paths.iter().map(|p| (*p).to_owned()).collect(),
        ..SuiteRequest::default()
    };
    let prepared = prepare(paths(&["/mnt/a/data", "/mnt/b/data"])).expect("two");
    let axis = &prepared.method.head().axes[0];
    assert_eq!(axis.values, [json!("/mnt/a/data"), json!("/mnt/b/data")]);
    assert!(prepared.method.head().planned[0].starts_with("01-mnt-a-data-rounds"));
    assert_eq!(prepared.plans[0].target.path.as_deref(), Some("/mnt/a/data"));
    let one = prepare(paths(&["/mnt/a/data"])).expect("one");
    assert_eq!(one.method.head().axes[0].path, "workload.0.queue_depth", "no set");
    let refused = |request: SuiteRequest, words: &str| {
        let e = prepare(request).err().expect(words);
        assert!(e.to_string().contains(words), "{e}");
    };
    refused(paths(&["/mnt/a", "/mnt/a"]), "same name");
    let target = (
        "job".to_owned(),
        "v = { driver = \"sim\" }".parse::<toml::Table>().expect("TOML")["v"].clone(),
    );
    refused(
        SuiteRequest { targets: vec![target], ..paths(&["/mnt/a", "/mnt/b"]) },
        "by --path and by --target",
    );
    let unnamed = SUITE.replace("name = \"two\"\n", "");
    let e = SuiteFile::parse(&source(&unnamed))
        .expect("a suite")
        .prepare(SuiteRequest::default(), Rc::new(plan));
    assert!(e.err().expect("refused").to_string().contains("has no name"));
}
