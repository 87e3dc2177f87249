//! `disk-for` on virtual disks whose answer is known, on virtual time.

use std::path::Path;
use std::rc::Rc;

use crate::common::{SimHost, plan};
use serde_json::{Value, json};
use taillight_core::exit::Exit;
use taillight_rundir::JsonFile;
use taillight_rundir::series::SeriesFile;
use taillight_suite::runner::{SeriesSetup, run_series};
use taillight_suite::suites::{SuiteFile, SuiteRequest, embedded};

/// What came of a suite.
struct Told {
    exit: Exit,
    answer: Value,
    text: String,
    /// Measured time of each run, s.
    seconds: Vec<f64>,
}

impl Told {
    fn word(&self) -> &str {
        self.answer["answer"].as_str().expect("a word")
    }
}

/// Runs a suite on a simulated disk.
fn disk_for(of: &str, service: &str, set: &[&str], runtime: Option<&str>) -> Told {
    let home = tempfile::tempdir().expect("a directory");
    run(of, service, set, runtime, &home.path().join("out"), &mut SimHost::default())
}

fn run(
    of: &str,
    service: &str,
    set: &[&str],
    runtime: Option<&str>,
    dir: &Path,
    host: &mut SimHost,
) -> Told {
    let suite = SuiteFile::parse(&embedded(&format!("disk-for-{of}")).expect("there"));
    let target = format!(
        "driver = \"sim\"\nsize = \"1150MiB\"\noptions = {{ channels = 8, sync = \"0s\", service = {service} }}"
    );
    let target: toml::Table = target.parse().expect("TOML");
    let set = set.iter().chain(&["run.seed=4", "capture.budget=256MiB"]);
    let mut last = Vec::new();
    for text in set {
        let field = text.split('=').next().expect("a field");
        if !last.iter().any(|other: &String| other.split('=').next() == Some(field)) {
            last.push((*text).to_owned());
        }
    }
    let request = SuiteRequest {
        targets: vec![("job".to_owned(), toml::Value::Table(target))],
        runtime: runtime.map(str::to_owned),
        set: last,
        ..SuiteRequest::default()
    };
    let mut prepared = suite.expect("a suite").prepare(request, Rc::new(plan)).expect("plans");
    let resumed = SeriesFile::read(dir).expect("readable");
    let setup = SeriesSetup { dir: dir.to_owned(), command: Vec::new(), resumed };
    let ended = run_series(prepared.method.as_mut(), host, setup).expect("it runs");
    let file = SeriesFile::read(dir).expect("readable").expect("there");
    let answer = file.answer.clone().unwrap_or_default();
    let seconds = file.points.iter().map(|p| {
        let manifest = taillight_rundir::RunDir::open(&dir.join(&p.id)).expect("a run");
        manifest.manifest().plan.run.duration.map_or(0.0, |d| d.0 as f64 / 1e9)
    });
    Told { exit: ended.exit, answer, text: host.text.join("\n"), seconds: seconds.collect() }
}

/// 1 % of operations over 10 ms at scale 1, and none over 25 ms: mostly 0.5 ms, 1 to 21 ms in stretches.
fn clumps(scale: f64) -> String {
    let us = |ms: f64| format!("\"{}us\"", (ms * scale * 1_000.0) as u64);
    format!(
        "{{ kind = \"clumps\", common = {}, from = {}, to = {}, share = {SLOW}, length = 20 }}",
        us(0.5),
        us(1.0),
        us(21.0)
    )
}

/// Share of operations in stretches: 11 of their 20 ms are over 10 ms.
const SLOW: f64 = 0.01 * 20.0 / 11.0;

#[test]
fn a_disk_of_known_speed_gets_the_known_answer() {
    let constant = |ms: u32| format!("{{ kind = \"constant\", time = \"{ms}ms\" }}");
    for (of, measures) in [
        ("etcd", "etcd's appends within 1.00 ms, 10 times faster than asked"),
        ("postgres", "PostgreSQL's commits within"),
        ("kafka", "Kafka's appends (sync none) within 1.00 ms, 50 times faster than asked"),
    ] {
        let kept = disk_for(of, &constant(1), &[], Some("20s"));
        assert_eq!((kept.word(), kept.exit), ("kept", Exit::Ok), "{of}: {}", kept.text);
        let text = kept.text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("Kept: 99 % of") && text.contains(measures), "{text}");
        let missed = disk_for(of, &constant(60), &[], Some("20s"));
        assert_eq!((missed.word(), missed.exit), ("missed", Exit::GateFailed), "{of}");
        assert!(missed.text.contains("Missed: 100 % of"), "{}", missed.text);
        let alone = &["suite.decide_within=\"0s\""];
        let short = disk_for(of, &constant(1), alone, Some("200ms"));
        assert_eq!((short.word(), short.exit), ("undecided", Exit::GateUndecided), "{of}");
        assert!(short.text.contains("--runtime"), "{}", short.text);
    }
}

/// One I/O in 200 beyond 25 ms: the body keeps its ceiling, the tail does not.
#[test]
fn each_ceiling_of_a_disk_has_an_answer_and_an_interval() {
    let service = "{ kind = \"bimodal\", common = \"1ms\", rare = \"30ms\", every = 200 }";
    let told = disk_for("etcd", service, &[], Some("60s"));
    let all = told.answer["ceilings"].as_array().expect("two");
    let said: Vec<_> = all.iter().map(|c| c["answer"].as_str().expect("a word")).collect();
    assert_eq!((said, told.word()), (vec!["kept", "missed"], "missed"), "{}", told.text);
    for ceiling in all {
        let share = &ceiling["check"]["share"];
        let at = |end: &str| share[end].as_f64().expect("an end");
        assert!(at("lo") < 0.005 && 0.005 < at("hi"), "{ceiling}");
    }
}

/// A run that is too short goes on as long as it says that it takes, and the second run answers.
#[test]
fn what_the_first_run_leaves_open_the_second_decides() {
    let told = disk_for("etcd", &clumps(0.3), &[], Some("1s"));
    let [first, second] = told.seconds[..] else { panic!("two runs: {:?}", told.seconds) };
    assert!(first == 1.0 && (1.0..=179.0).contains(&second), "{second}");
    assert_eq!((told.word(), told.exit), ("kept", Exit::Ok), "{}", told.text);
    let ceilings = told.answer["ceilings"].as_array().expect("two");
    assert!(ceilings.iter().all(|c| c["run"] == "02-wal-longer" && c["check"]["looks"] == 2));
    let text = told.answer["text"].as_str().expect("a sentence");
    assert!(text.contains("The first 1.00 s left it open"), "{text}");
}

/// Two settings took six minutes of three, and each had the whole error for itself.
#[test]
fn all_settings_share_the_time_and_the_error() {
    let told = disk_for("kafka", &clumps(5.0), &["run.warmup=\"5s\""], None);
    let [_, second, _, last] = told.seconds[..] else { panic!("{:?}", told.seconds) };
    assert!(second <= 50.0 && last <= 50.0, "{:?}", told.seconds);
    assert!(told.seconds.iter().sum::<f64>() + 4.0 * 5.0 <= 180.0, "{:?}", told.seconds);
    let ceilings = told.answer["ceilings"].as_array().expect("two");
    assert!(ceilings.iter().all(|c| c["check"]["looks"] == 4), "{ceilings:?}");
    let alone = disk_for("kafka", &clumps(5.0), &["suite.decide_within=\"0s\""], None);
    assert_eq!(alone.answer["ceilings"][1]["check"]["looks"], 2);
}

/// An end that another run follows is read again from the results, and asks for the same run.
#[test]
fn a_second_look_is_resumed() {
    let home = tempfile::tempdir().expect("a directory");
    let dir = home.path().join("out");
    let mut host = SimHost { signal_after: Some(1), ..SimHost::default() };
    let first = run("etcd", &clumps(0.3), &[], Some("1s"), &dir, &mut host);
    assert_eq!((first.exit, host.ran), (Exit::Interrupted, vec!["01-wal".to_owned()]));
    let mut host = SimHost::default();
    let told = run("etcd", &clumps(0.3), &[], Some("1s"), &dir, &mut host);
    assert_eq!((told.word(), host.ran), ("kept", vec!["02-wal-longer".to_owned()]));
    let whole = disk_for("etcd", &clumps(0.3), &[], Some("1s"));
    assert_eq!(whole.answer["ceilings"], told.answer["ceilings"]);
}

/// `cargo xtask proof disk-for`: 250 seeds of disks that are 10 and 2 times better than asked, at the limit,
/// and half as good; a line of JSON each.
#[test]
#[ignore = "minutes: cargo xtask proof disk-for"]
fn proof() {
    let results = std::env::var_os("PROOF_RESULTS").expect("PROOF_RESULTS is the file to write");
    let seeds: u64 = std::env::var("PROOF_SEEDS").map_or(250, |n| n.parse().expect("a number"));
    let mut lines = String::new();
    for (disk, scale) in [
        ("10 times better", 0.1),
        ("2 times better", 0.5),
        ("at the limit", 1.0),
        ("half as good", 2.0),
    ] {
        let service = clumps(scale);
        let one = |seed: u64| {
            let set = format!("run.seed={seed}");
            let told = disk_for("etcd", &service, &[&set], None);
            (told.word().to_owned(), told.seconds.get(1).copied().unwrap_or(0.0))
        };
        let halves = std::thread::scope(|scope| {
            let one = &one;
            let parts: Vec<_> = (0..2)
                .map(|part| {
                    scope.spawn(move || {
                        (1..=seeds).filter(|s| s % 2 == part).map(one).collect::<Vec<_>>()
                    })
                })
                .collect();
            parts.into_iter().flat_map(|p| p.join().expect("done")).collect::<Vec<_>>()
        });
        let share = |word: &str| {
            100.0 * halves.iter().filter(|(told, _)| told == word).count() as f64 / seeds as f64
        };
        let mut extra: Vec<f64> = halves.iter().map(|(_, extra)| *extra).collect();
        extra.sort_by(f64::total_cmp);
        let second: Vec<f64> = extra.iter().copied().filter(|s| *s > 0.0).collect();
        let line = json!({
            "disk": disk,
            "runs": seeds,
            "kept": share("kept"),
            "missed": share("missed"),
            "undecided": share("undecided"),
            "second_look": 100.0 * second.len() as f64 / seeds as f64,
            "extra_s": extra[extra.len() / 2],
            "extra_of_those_s": second.get(second.len() / 2),
        });
        println!("{line}");
        lines += &format!("{line}\n");
    }
    std::fs::write(results, lines).expect("written");
}
