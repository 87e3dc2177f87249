//! Suites through the binary: the standard tests, and suites of the user: killed and resumed, shown and exported, on
//! several targets, refused.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::common::{self, json, run, run_line, scratch, signal, start};
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

/// Starts it and kills it as soon as this directory is there.
fn killed_at(dir: &Path, line: &str, place: &str) {
    let mut child = start(dir, line);
    let patience = Instant::now() + Duration::from_secs(120);
    while !dir.join(place).exists() {
        assert!(Instant::now() < patience, "no {place}");
        std::thread::sleep(Duration::from_millis(2));
    }
    signal(&child, "KILL");
    child.wait().expect("it ended");
}

/// Rounds, operating points and histograms: killed in the second round, and again in the last histogram.
#[test]
fn dirth_killed_twice_ends_as_one_that_was_not() {
    let line = "suite dirth --scale quick --driver sim --output out --set target.size=16MiB \
                --set run.seed=3 --set suite.phase.rounds.loop.0.values=[8,2,1] \
                --set suite.phase.rounds.loop.1.values=[8,1]";
    let (whole, dir) = (scratch(), scratch());
    run_line(whole.path(), line, 0);
    let expected = json(&whole.path().join("out/series.json"));
    let place = |role: &str, round: u64| {
        let of = |p: &&Value| p["role"] == role && p["round"] == round;
        let point = points(&expected).iter().rfind(of).expect("such a point");
        format!("out/{}", point["run"].as_str().expect("a run"))
    };
    killed_at(dir.path(), line, &place("round", 2));
    killed_at(dir.path(), "suite --resume out", &place("histogram", 1));
    run_line(dir.path(), "suite --resume out", 0);
    let resumed = json(&dir.path().join("out/series.json"));
    for field in ["points", "decisions", "answer", "status", "axes", "seed", "exit"] {
        assert_eq!(resumed[field], expected[field], "{field}");
    }
    // What the CPU did is of this machine, not of the model.
    let table = |dir: &Path| {
        let text = std::fs::read_to_string(dir.join("out/points.csv")).expect("a table");
        let names: Vec<&str> = text.lines().next().expect("a head").split(',').collect();
        let model = |line: &str| {
            let cells = line.split(',').zip(&names).filter(|(_, name)| !name.starts_with("cpu"));
            cells.map(|(cell, _)| cell.to_owned()).collect::<Vec<_>>()
        };
        text.lines().map(model).collect::<Vec<_>>()
    };
    assert_eq!(table(dir.path()), table(whole.path()), "the same table");
}

/// The wall clock is set back an hour between two runs, here by what the first says of it: that is told, what the first
/// measured stands, and the runs follow each other, for their stamps are of the monotonic clock.
#[test]
fn a_wall_clock_that_was_set_is_told_and_moves_no_figure() {
    let dir = scratch();
    let mine = "rule = \"matrix\"\nname = \"mine\"\nabout = \"a\"\n[job.run]\nduration = \"200ms\"\n\
                [job.target]\ndriver = \"null\"\n[[job.workload]]\nmix = \"read\"\n\
                [[phase]]\nname = \"p\"\nrounds = 4\n[[phase.loop]]\n\
                path = \"workload.0.queue_depth\"\nvalues = [1, 2]\n";
    write(dir.path(), mine);
    killed_at(dir.path(), "suite ./mine.toml --output out", "out/03-p-1-round-2");
    let before = json(&dir.path().join("out/series.json"));
    let path = dir.path().join("out/01-p-1-round-1/manifest.json");
    let mut first = json(&path);
    let real = first["clock"]["realtime_ns"].as_i64().expect("a stamp");
    first["clock"]["realtime_ns"] = (real + 3_600_000_000_000).into();
    common::write_uncovered(&path, &first);
    let (out, _) = run_line(dir.path(), "suite --resume out", 0);
    let said = common::unwrapped(&out);
    assert!(said.contains("The wall clock was set back by"), "{out}");
    let series = json(&dir.path().join("out/series.json"));
    assert_eq!((&series["status"], points(&series).len()), (&"complete".into(), 8));
    assert_eq!(points(&series)[0]["values"], points(&before)[0]["values"]);
    let mut ended = 0;
    for point in points(&series) {
        let out = dir.path().join("out");
        let run = common::manifest(&out, point["run"].as_str().expect("a run"));
        let stamp = |name: &str| run["phases"][0][name].as_i64().expect("a stamp");
        assert!(stamp("start_ns") > ended && stamp("end_ns") - stamp("start_ns") >= 200_000_000);
        ended = stamp("end_ns");
    }
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
    killed_at(dir.path(), "suite ./mine.toml --output out", "out/03-p-round-3");
    let killed = json(&dir.path().join("out/series.json"));
    assert!(points(&killed).len() < points(&expected).len(), "{killed}");
    assert_eq!(killed["status"], "running");
    // What it measured can be shown and exported as it is.
    let (out, err) = run_line(dir.path(), "report out", 0);
    assert!(
        err.contains("partial: the series has not ended") && out.contains("ended after 2 rounds"),
        "{out}{err}"
    );
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
    // Beside another run stand those of the series that measure.
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

/// A store in the place of a device: records by key, threads as demand, the same points and plots.
#[test]
fn dirth_runs_on_a_store() {
    let dir = scratch();
    // --runtime leaves preconditioning as it is, which would write as fast as memory takes it for seconds.
    let line = "suite dirth --scale quick --driver memory --runtime 30ms --output out \
                --set suite.phase.precondition.job.run.duration=30ms \
                --set suite.phase.rounds.before.job.run.duration=30ms \
                --set suite.phase.histograms.before.job.run.duration=30ms \
                --set suite.phase.precondition.steady.max_rounds=5 --set suite.phase.rounds.steady.max_rounds=5 \
                --set suite.phase.rounds.loop.0.values=[8,2,1] --set workload.0.keys.count=500";
    let (out, _) = run_line(dir.path(), line, 0);
    assert!(out.contains("a store, not a device") && out.contains("demand is threads"), "{out}");
    let series = json(&dir.path().join("out/series.json"));
    let found = &series["answer"]["operating_points"]["histograms"]["points"];
    assert_eq!(found["min"]["coordinates"], serde_json::json!({ "workload.0.workers": 1 }));
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("a report");
    assert!(page.contains("plot-points-0"), "{out}");
    let sheet = &json(&dir.path().join("out/report.json"))["sheet"]["columns"];
    let test = sheet[3]["facts"].to_string();
    assert!(
        test.contains(r#"["max point","workers "#)
            && test.contains(r#"["min point","workers 1 (1"#)
    );
    assert!(test.contains("get 65.0 %, update 35.0 %"), "not the load of the run before: {test}");
}

/// Several devices in the same plots: distributions and percentiles of their long runs, under their names.
#[test]
fn a_set_of_targets_is_drawn_together() {
    let dir = scratch();
    let of = |name: &str, time: &str| {
        format!(
            "[[targets]]\nname = \"{name}\"\noptions = {{ service = {{ kind = \"exponential\", \
             mean = \"{time}\" }} }}\n"
        )
    };
    let long = "[[phase]]\nname = \"long\"\nrole = \"histogram\"\n\
                set = { \"workload.0.mix\" = { read = 65, write = 35 } }\n";
    let mine = MINE.split("[job.target.options]").next().expect("a head");
    let rest = MINE
        .split_once("[[job.workload]]")
        .expect("a load")
        .1
        .replace("[[phase]]\nname = \"after\"", long);
    let suite = [mine, "[[job.workload]]", &rest, &of("fast", "100us"), &of("slow", "9ms")];
    write(dir.path(), &suite.concat());
    let (out, _) = run_line(dir.path(), "suite ./mine.toml --output out", 0);
    let kept = json(&dir.path().join("out/report.json"));
    let group = &kept["summary"]["groups"][0];
    assert_eq!(
        (&group["title"], &group["labels"]),
        (&"long".into(), &serde_json::json!(["fast", "slow"]))
    );
    assert_eq!(group["runs"].as_array().map(Vec::len), Some(2), "{out}");
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("a report");
    for figure in ["distribution-g0", "percentile-g0", "percentile-time-g0", "tail-g0"] {
        assert!(page.contains(&format!("id=\"plot-{figure}\"")), "{figure}");
    }
    assert!(page.contains("the fast ones") && page.contains("Share of waiting time"));
}

/// The other standard tests run in their quick form on a simulated device, and say how they deviate.
#[test]
fn the_standard_tests_run_and_list_their_deviations() {
    for name in ["pts-iops", "pts-latency", "pts-throughput", "pts-wsat", "pts-xsr", "pts-hir"] {
        let dir = scratch();
        let line = format!(
            "suite {name} --scale quick --driver sim --runtime 20ms --output out \
             --set target.size=16MiB -v"
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

/// In their quick form: the operating points and histograms that they choose, in the series, the page and the table.
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
            "operations per second of the run before each round",
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
fn a_suite_without_a_name_lists_those_there_are() {
    let dir = scratch();
    for line in ["suite", "suite list"] {
        let (out, _) = run_line(dir.path(), line, 0);
        let has =
            |name: &str, about: &str| out.lines().any(|l| l.starts_with(name) && l.contains(about));
        assert!(has("disk-for etcd", "each made durable") && has("ycsb ", "A to F"), "{out}");
        assert!(out.contains("./mine.toml"), "{out}");
        let (list, _) = run_line(dir.path(), &format!("{line} --json"), 0);
        let list: Value = serde_json::from_str(&list).expect("JSON");
        let all = list.as_array().expect("a list");
        let etcd = all.iter().find(|s| s["name"] == "disk-for etcd").expect("there");
        assert!(etcd["about"].as_str().is_some_and(|about| about.contains("each made durable")));
    }
}

#[test]
fn a_server_as_the_path_of_a_suite_tells_its_driver() {
    let dir = scratch();
    let (plans, _) = run_line(dir.path(), "suite ycsb --path localhost:6379 --print-plan", 0);
    assert!(plans.contains("driver = \"redis\""), "{plans}");
    let (_, err) = run_line(dir.path(), "suite ycsb --path localhost:99999", 2);
    assert!(err.contains("65535"), "{err}");
}

#[test]
fn what_a_command_lacks_is_told_before_anything_else() {
    let dir = scratch();
    write(dir.path(), MINE);
    for (line, code, words) in [
        ("suite pts-wsat --scale quick --output out", 2, "needs a path"),
        ("suite disk-for --output out", 2, "etcd, kafka, postgres"),
        ("suite ./mine.toml --size 1GiB", 2, "write --set target.size=SIZE"),
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

/// A file that was kept has its size again after a run that needed a larger one, unless that one keeps it.
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

#[test]
fn a_series_that_another_session_works_on_is_left_alone() {
    let dir = scratch();
    let sweep = "run --driver null --ops 10 --sweep workload.0.queue_depth=1,2 --output out";
    run_line(dir.path(), sweep, 0);
    let other = std::fs::File::open(dir.path().join("out")).expect("a directory");
    other.lock().expect("held");
    let (_, err) = run_line(dir.path(), "suite --resume out", 4);
    assert!(err.contains("another process works on this series"), "{err}");
    drop(other);
    run_line(dir.path(), "suite --resume out", 0);
}
