//! Suites of the user through the binary: killed and resumed, refused, and the standard tests.

mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use common::{json, run, run_line, scratch, signal, start};
use serde_json::Value;

/// Rounds on a device whose writes slow down to a plateau, and a point after them.
const MINE: &str = r#"
rule = "matrix"
name = "mine"
about = "rounds"
[job.run]
duration = "1s"
seed = 3
[job.target]
driver = "sim"
size = "16MiB"
[job.target.options]
service = { kind = "constant", time = "1ms" }
aging = { kind = "decay", fresh = 0.25, over = "8MiB" }
state = "state.json"
[[job.workload]]
mix = "write"
[[phase]]
name = "p"
role = "round"
[phase.steady]
figure = "iops"
[[phase]]
name = "after"
"#;

fn write(dir: &Path, text: &str) {
    std::fs::write(dir.join("mine.toml"), text).expect("written");
}

fn points(series: &Value) -> &Vec<Value> {
    series["points"].as_array().expect("points")
}

#[test]
fn a_suite_killed_in_the_middle_ends_as_one_that_was_not() {
    let whole = scratch();
    write(whole.path(), MINE);
    let (out, _) = run_line(whole.path(), "suite ./mine.toml --output out", 0);
    let expected = json(&whole.path().join("out/series.json"));
    assert!(out.contains("6 to 26 runs, 6 s to 26 s of load"), "{out}");
    assert!(out.contains("p: steady state at round"), "{out}");

    let dir = scratch();
    write(dir.path(), MINE);
    let mut child = start(dir.path(), "suite ./mine.toml --output out");
    let third = dir.path().join("out/03-p-round-3");
    let patience = Instant::now() + Duration::from_secs(120);
    while !third.exists() {
        assert!(Instant::now() < patience, "no third round");
        std::thread::sleep(Duration::from_millis(2));
    }
    signal(&child, "KILL");
    child.wait().expect("it ended");
    let killed = json(&dir.path().join("out/series.json"));
    assert!(points(&killed).len() < points(&expected).len(), "{killed}");
    assert_eq!(killed["status"], "running");
    // What it measured can be shown and exported as it is.
    let (out, err) = run_line(dir.path(), "report out", 5);
    assert!(err.contains("has not ended") && out.contains("ended after 2 rounds"), "{out}{err}");
    assert_eq!(run_line(dir.path(), "export out", 0).0.lines().count(), 3);

    let (_, err) = run_line(dir.path(), "suite --resume out", 0);
    assert!(err.contains("were measured before and read"), "{err}");
    let resumed = json(&dir.path().join("out/series.json"));
    for field in ["points", "decisions", "answer", "status", "axes", "seed"] {
        assert_eq!(resumed[field], expected[field], "{field}");
    }
    assert_eq!((&resumed["resumed"], &expected["resumed"]), (&1.into(), &0.into()));
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("a report");
    assert!(page.contains("were measured before and read") && page.contains("best linear fit"));
}

#[test]
fn steady_state_not_achieved_is_on_the_page_and_no_failure() {
    let dir = scratch();
    let drift = "aging = { kind = \"drift\", rise = 0.06, every = \"1s\" }";
    let decay = "aging = { kind = \"decay\", fresh = 0.25, over = \"8MiB\" }";
    write(dir.path(), &MINE.replace(decay, drift).replace("figure = \"iops\"", "max_rounds = 6"));
    let (out, _) = run_line(dir.path(), "suite ./mine.toml --output out", 0);
    assert!(out.contains("STEADY STATE NOT ACHIEVED in 6 rounds"), "{out}");
    let series = json(&dir.path().join("out/series.json"));
    assert_eq!(series["answer"]["steady_state"]["p"]["outcome"], "not_achieved");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("a report");
    assert!(page.contains("steady state not achieved"));
}

#[test]
fn the_report_and_the_table_of_a_series_are_made_again() {
    let dir = scratch();
    write(dir.path(), MINE);
    run_line(dir.path(), "suite ./mine.toml --output out", 0);
    let page = |at: &str| std::fs::read_to_string(dir.path().join(at)).expect("a report");
    let first = page("out/report.html");
    std::fs::remove_file(dir.path().join("out/report.html")).expect("removed");
    let (out, _) = run_line(dir.path(), "report out", 0);
    assert!(out.contains("p: steady state at round") && out.contains("out/report.html"), "{out}");
    assert!(page("out/report.html") == first, "the same page");
    let kept = json(&dir.path().join("out/report.json"));
    let (schema, _) = run_line(dir.path(), "schema series-report", 0);
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    assert!(jsonschema::is_valid(&schema, &kept), "{kept}");

    // Elsewhere its links lead to the runs where they are.
    run_line(dir.path(), "report out --output other", 0);
    let place = dir.path().canonicalize().expect("a place").join("out");
    let place = place.to_str().expect("a name").replace('/', "&#x2f;");
    assert!(page("other/report.html").contains(&place));
    // Beside another: the runs that measure.
    let (_, err) = run_line(dir.path(), "report out out/01-p-round-1 --output both", 0);
    assert!(err.is_empty() && page("both/report.html").contains("after"), "{err}");

    let rows = json(&dir.path().join("out/series.json"))["points"].as_array().map(Vec::len);
    let (table, _) = run_line(dir.path(), "export out", 0);
    assert_eq!(Some(table.lines().count() - 1), rows, "{table}");
    assert!(table.starts_with("series,point,run,round,role"), "{table}");
    let (one, _) = run_line(dir.path(), "export out/01-p-round-1 --format csv", 0);
    assert_eq!(one.lines().count(), 2);
    let (_, err) = run_line(dir.path(), "export out --format fio-job", 2);
    assert!(err.contains("one of its runs"), "{err}");
    std::fs::write(dir.path().join("job.toml"), "[target]\ndriver = \"sim\"\n").expect("a job");
    let (_, err) = run_line(dir.path(), "export job.toml", 2);
    assert!(err.contains("--format fio-job"), "{err}");
}

/// Every standard test runs in its quick form on a simulated device, and says what it is not.
#[test]
fn the_standard_tests_run_and_list_their_deviations() {
    for name in ["pts-iops", "pts-latency", "pts-throughput", "pts-wsat", "pts-xsr", "pts-hir"] {
        let dir = scratch();
        let line = format!(
            "suite {name} --scale quick --driver sim --runtime 20ms --output out \
             --set target.size=16MiB"
        );
        let (out, _) = run_line(dir.path(), &line, 0);
        assert!(out.contains("NOT CONFORMANT to SNIA SSS PTS 2.0.2"), "{out}");
        assert!(out.contains("by --runtime: 20ms a point"), "{out}");
        assert!(out.contains("block discard"), "{out}");
        let series = json(&dir.path().join("out/series.json"));
        assert_eq!(points(&series)[0]["role"], "purge", "{name}");
        let head = &json(&dir.path().join("out/report.json"))["sheet"];
        let facts = |n: usize| head["columns"][n]["facts"].to_string();
        assert!(facts(0).contains(r#"["test software","Taillight"#), "{head}");
        assert!(facts(1).contains(r#"["model","unknown"],"#), "{head}");
        assert!(facts(1).contains(r#"["purge","block discard"]"#), "{head}");
        let warned = head["warning"].as_str().is_some_and(|w| w.contains("NOT ACHIEVED"));
        let missed = out.contains("STEADY STATE NOT ACHIEVED");
        assert_eq!((warned, facts(3).contains("NOT ACHIEVED")), (missed, missed), "{head}");
        if name != "pts-xsr" {
            let found = series["answer"]["steady_state"].as_object().expect("phases");
            assert!(found.values().all(|p| p["outcome"] == "achieved"), "{name}: {found:?}");
        }
    }
}

/// DIRTH in its quick form: the grid, the operating points, the histograms, on the page and for programs.
#[test]
fn dirth_and_cbw_choose_points_and_show_them() {
    for name in ["dirth", "cbw"] {
        let dir = scratch();
        let options = "{ channels = 8, service = { kind = \"constant\", time = \"1ms\" } }";
        let line =
            format!("suite {name} --scale quick --driver sim --output out --set target.size=16MiB");
        let mut words: Vec<&str> = line.split(' ').collect();
        let options = format!("target.options={options}");
        words.extend(["--set", &options]);
        let (out, _) = run(dir.path(), &words, 0);
        assert!(out.contains("NOT CONFORMANT to SNIA SSS PTS 2.0.2"), "{out}");
        assert!(out.contains("steady state at round"), "{out}");
        let series = json(&dir.path().join("out/series.json"));
        let found = &series["answer"]["operating_points"]["histograms"];
        assert_eq!((&found["settings"], &found["knee"]["outstanding"]), (&16.into(), &8.into()));
        assert_eq!(found["points"]["min"]["outstanding"], 1);
        assert!(series["answer"]["ceilings"].as_array().is_some_and(|c| c.len() == 3));
        let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("a report");
        for part in [
            "plot-points-2",
            "plot-outstanding-rate",
            "Demand variation",
            "Demand intensity",
            "operating points",
            "iops of the run before each round",
            "Operating points from rounds",
        ] {
            assert!(page.contains(part), "{name}: {part}");
        }
        let table = std::fs::read_to_string(dir.path().join("out/points.csv")).expect("a table");
        assert!(table.lines().any(|l| l.contains("histogram") && l.contains("read")), "{table}");
    }
}

#[test]
fn a_suite_that_makes_no_sense_is_refused_before_any_run() {
    for (from, to, word) in [
        (
            "name = \"after\"",
            "name = \"after\"\n[[phase.loop]]\npath = \"workload.0.depth\"\nvalues = [1]",
            "depth",
        ),
        (
            "name = \"after\"",
            "name = \"after\"\n[[phase.loop]]\npath = \"workload.0.queue_depth\"\nvalues = []",
            "no values",
        ),
        ("figure = \"iops\"", "figure = \"speed\"", "speed"),
        ("figure = \"iops\"", "max_rounds = 3", "no window"),
        ("name = \"after\"", "name = \"after\"\npurge = \"format\"", "format"),
        (
            "name = \"after\"",
            "name = \"after\"\nset = { \"workload.0.depth\" = 1 }",
            "./mine.toml: phase.after.set",
        ),
        (
            "mix = \"write\"",
            "mix = \"write\"\nblock_size = \"4 parsec\"",
            "./mine.toml: job of phase p: workload.0.block_size",
        ),
    ] {
        let dir = scratch();
        write(dir.path(), &MINE.replace(from, to));
        let (_, err) = run_line(dir.path(), "suite ./mine.toml --output out", 2);
        assert!(err.contains(word), "{err}");
        assert!(!dir.path().join("out").exists());
    }
}

#[test]
fn what_a_command_lacks_is_told_before_anything_else() {
    let dir = scratch();
    write(dir.path(), MINE);
    for (line, code, words) in [
        ("suite pts-wsat --scale quick --output out", 2, "needs a path"),
        ("suite disk-for --output out", 2, "etcd, kafka, postgres"),
        ("suite ./mine.toml --output=", 2, "name a new or empty directory"),
        ("suite ./mine.toml --output out --driver file --path no/such/file", 4, "no/such"),
    ] {
        let (out, err) = run_line(dir.path(), line, code);
        assert!(err.contains(words), "{line}: {err}");
        assert_eq!(out, "", "{line}");
        assert!(!dir.path().join("out").exists(), "{line}");
    }
}

#[test]
fn a_flag_cannot_set_what_a_loop_changes() {
    let dir = scratch();
    let field = "[[phase.loop]]\npath = \"workload.0.queue_depth\"\nvalues = [1, 2]\n";
    write(dir.path(), &format!("{MINE}{field}"));
    let line = "suite ./mine.toml --output out --set workload.0.queue_depth=4";
    let (_, err) = run_line(dir.path(), line, 2);
    assert!(err.contains("suite.phase.after.loop.0.values=[VALUE]"), "{err}");
}

/// A file that was kept has its size again after a suite that needed a larger one.
#[test]
fn a_kept_file_is_as_large_as_before() {
    let dir = scratch();
    let size = || std::fs::metadata(dir.path().join("data")).expect("the file").len();
    let load =
        "--driver file --path data --rw write --bs 64KiB --ops 4 --set target.options.direct=false";
    run_line(dir.path(), &format!("run {load} --size 1MiB --set target.options.keep=true"), 0);
    assert_eq!(size(), 1 << 20);
    for _ in 0..2 {
        run_line(dir.path(), &format!("run {load} --size 4MiB"), 0);
        assert_eq!(size(), 1 << 20);
    }
    run_line(dir.path(), &format!("run {load} --size 4MiB --set target.options.keep=true"), 0);
    assert_eq!(size(), 4 << 20);
}

#[test]
fn an_interrupted_suite_says_how_to_go_on() {
    let dir = scratch();
    let slow =
        MINE.replace("driver = \"sim\"", "driver = \"null\"").replace("size = \"16MiB\"\n", "");
    let at = slow.find("[job.target.options]").expect("options");
    let end = slow.find("[[job.workload]]").expect("a workload");
    write(dir.path(), &format!("{}{}", &slow[..at], &slow[end..]));
    let mut child = start(dir.path(), "suite ./mine.toml --output out");
    let second = dir.path().join("out/02-p-round-2/manifest.json");
    let patience = Instant::now() + Duration::from_secs(120);
    while !second.exists() {
        assert!(Instant::now() < patience, "no second round");
        std::thread::sleep(Duration::from_millis(2));
    }
    signal(&child, "INT");
    let mut said = String::new();
    let err = child.stderr.as_mut().expect("standard error");
    std::io::Read::read_to_string(err, &mut said).expect("text");
    child.wait().expect("it ended");
    assert!(said.contains("go on with: taillight suite --resume out"), "{said}");
}

/// The points before the failure are kept and shown, and the way on is named.
#[test]
fn a_device_that_fails_in_the_middle_keeps_what_was_measured() {
    let dir = scratch();
    let broken = "\n[phase.set]\n\"target.options.errors\" = { every = 1, errno = 5 }\n\
                  [[phase]]\nname = \"never\"\n";
    write(dir.path(), &format!("{MINE}{broken}"));
    let (_, err) = run_line(dir.path(), "suite ./mine.toml --output out", 5);
    assert!(err.contains("not run: ") && err.contains("never"), "{err}");
    assert!(err.contains("go on with: taillight suite --resume out"), "{err}");
    let series = json(&dir.path().join("out/series.json"));
    assert_eq!(series["status"], "partial");
    assert_eq!(series["answer"]["steady_state"]["p"]["outcome"], "achieved");
    let rounds = points(&series).iter().filter(|p| p["status"] == "complete").count();
    assert_eq!(rounds + 1, points(&series).len(), "{series}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("a report");
    assert!(page.contains("best linear fit"));
}

/// Two targets by `--path`, each file its own: one report, with a column for each.
#[test]
fn a_suite_runs_on_several_paths_in_turn() {
    let dir = scratch();
    let line = "suite queue-depths --path a --path b --output out --runtime 100ms \
                --set target.size=1MiB --set target.options.direct=false \
                --set suite.phase.depth.loop.0.values=[1,2]";
    let (out, _) = run_line(dir.path(), line, 0);
    assert!(out.contains("iops a") && out.contains("iops b"), "{out}");
    let series = json(&dir.path().join("out/series.json"));
    assert_eq!(series["axes"][0]["path"], "target");
    let targets: Vec<&Value> =
        points(&series).iter().map(|p| &p["coordinates"]["target"]).collect();
    assert_eq!(targets, ["a", "a", "b", "b"]);
    assert!(dir.path().join("out/03-b-depth-1/manifest.json").is_file());
    let (_, err) = run_line(dir.path(), "suite slc-paper --path a --path b --output no", 2);
    assert!(err.contains("runs on one target"), "{err}");
}
