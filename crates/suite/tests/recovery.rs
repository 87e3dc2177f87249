//! Recovery after another load and load between pauses, on simulated devices whose truth is known.

use std::path::Path;
use std::rc::Rc;

use crate::common::{self, SimHost, plan, source};
use serde_json::Value;
use taillight_rundir::series::{Decision, SeriesFile};
use taillight_suite::suites::{SuiteFile, SuiteRequest};

/// Phases on a device of one write a millisecond that ages so and keeps its state in `home`.
fn suite(home: &Path, aging: &str, phases: &str) -> String {
    let state = home.join("state.json").display().to_string();
    format!(
        "rule = \"matrix\"\nname = \"mine\"\nabout = \"recovery\"\n\
         [job.run]\ninterval = \"100ms\"\nseed = 3\n[job.target]\ndriver = \"sim\"\nsize = \"16MiB\"\n\
         options = {{ service = {{ kind = \"constant\", time = \"1ms\" }}, aging = {aging}, \
         state = {state:?} }}\n\
         [[job.workload]]\nmix = \"write\"\n{phases}"
    )
}

fn run(text: &str, dir: &Path) -> (SeriesFile, SimHost) {
    let mut host = SimHost::default();
    let (_, file) = common::run(text, &mut host, dir);
    (file, host)
}

/// Phases of a suite: in order for a second, out of order for two, in order again for `again`.
fn stimulus(again: &str) -> String {
    let phase = |name: &str, time: &str, access: &str| {
        format!(
            "[[phase]]\nname = \"{name}\"\nrole = \"step\"\njob.run.duration = \"{time}\"\n\
             set = {{ \"workload.0.access\" = \"{access}\", \"workload.0.block_size\" = \"1MiB\" }}\n"
        )
    };
    [
        phase("before", "1s", "sequential"),
        phase("other", "2s", "random"),
        phase("again", again, "sequential"),
        "recovery = { of = \"before\", figure = \"bytes_per_s\" }\n".to_owned(),
    ]
    .concat()
}

fn recovery(file: &SeriesFile) -> &Decision {
    file.decisions.iter().find(|d| d.rule == "recovery").expect("a decision")
}

#[test]
fn the_time_of_recovery_is_that_of_the_model() {
    for over_mib in [0, 200, 1_000] {
        let home = tempfile::tempdir().expect("a directory");
        // 1 MiB is made up for in 3 ms: so many in `slow_s`.
        let slow_s = over_mib as f64 * 0.003;
        let over = over_mib.max(1);
        let aging = format!("{{ kind = \"fragmented\", slow = 3.0, over = \"{over}MiB\" }}");
        let text = suite(home.path(), &aging, &stimulus("6s"));
        let (file, host) = run(&text, &home.path().join("out"));
        let judged = recovery(&file);
        assert_eq!(judged.verdict, "recovered", "{}", judged.text);
        // The average of five intervals leaves the slow ones behind after all five.
        let found = judged.values["recovered_s"];
        assert!((slow_s + 0.4..=slow_s + 0.61).contains(&found), "{over_mib} MiB: {found}");
        let answer = file.answer.as_ref().expect("an answer");
        assert_eq!(answer["recovery"]["again"]["recovered_s"], found);
        assert!(host.text.iter().any(|t| t.contains("recovered from")), "{:?}", host.text);
    }
}

/// Twenty readers that only make load, and go on as ever, hid that one writer takes three times as long.
#[test]
fn load_beside_it_is_no_recovery() {
    let home = tempfile::tempdir().expect("a directory");
    let aging = "{ kind = \"fragmented\", slow = 3.0, over = \"200MiB\" }";
    let load =
        "[[job.workload]]\nname = \"load\"\nmix = \"read\"\nworkers = 20\nmeasured = false\n";
    let text = suite(home.path(), aging, &stimulus("6s"))
        .replace("mix = \"write\"\n", &format!("mix = \"write\"\n{load}"))
        .replace("options = {", "options = { channels = 32,")
        .replace("bytes_per_s", "iops");
    let (file, _) = run(&text, &home.path().join("out"));
    let found = recovery(&file).values["recovered_s"];
    assert!((1.0..=1.21).contains(&found), "{found}");
}

#[test]
fn no_recovery_is_a_result() {
    let home = tempfile::tempdir().expect("a directory");
    // 2 s of random writes of 1 MiB take 6 s to make up for.
    let aging = "{ kind = \"fragmented\", slow = 3.0, over = \"8GiB\" }";
    let text = suite(home.path(), aging, &stimulus("4s"));
    let (file, host) = run(&text, &home.path().join("out"));
    let judged = recovery(&file);
    assert_eq!(
        (judged.verdict.as_str(), judged.values.get("recovered_s")),
        ("not_recovered", None)
    );
    let said = "again: NOT RECOVERED to the level of before in 4 s";
    assert!(host.text.iter().any(|t| t.contains(said)), "{:?}", host.text);
    assert_eq!(file.answer.expect("an answer")["recovery"]["again"]["recovered_s"], Value::Null);
}

#[test]
fn a_reference_that_moves_itself_decides_nothing() {
    let home = tempfile::tempdir().expect("a directory");
    let aging = "{ kind = \"decay\", fresh = 0.1, over = \"16GiB\" }";
    let text = suite(home.path(), aging, &stimulus("1s"));
    let (file, _) = run(&text, &home.path().join("out"));
    let judged = recovery(&file);
    assert_eq!(judged.verdict, "undecided", "{}", judged.text);
    assert!(judged.text.contains("moved by"), "{}", judged.text);
}

#[test]
fn bursts_after_pauses_are_as_fast_as_the_model_says() {
    let home = tempfile::tempdir().expect("a directory");
    // A second of rest makes room for 256 writes of 4 KiB, which take half the time.
    let aging = "{ kind = \"cache\", fresh = 0.5, room = \"4MiB\", refill = \"1MiB\" }";
    let phases = "[[phase]]\nname = \"steady\"\nrole = \"round\"\njob.run.duration = \"1s\"\n\
        about = \"writes without a pause\"\n\
        job.run.interval = \"500ms\"\n[phase.steady]\nfigure = \"iops\"\n\
        [[phase]]\nname = \"idle\"\nrole = \"step\"\njob.run.duration = \"12s\"\n\
        set = { \"workload.0.think\" = { after = \"1s\", time = \"2s\" } }\n\
        [[phase]]\nname = \"back\"\nrole = \"step\"\njob.run.duration = \"2s\"\n\
        recovery = { of = \"steady\" }\n";
    let (file, host) = run(&suite(home.path(), aging, phases), &home.path().join("out"));
    // The first round has 1,024 fast writes in 0.512 s, so five rounds more are steady.
    assert_eq!(
        file.answer.as_ref().expect("an answer")["steady_state"]["steady"]["outcome"],
        "achieved"
    );
    let said = host.text.join("\n");
    let told = |t: &&String| t.starts_with("\n== ") && t.contains("writes without a pause");
    assert_eq!(host.text.iter().filter(told).count(), 1, "once for all rounds: {said}");
    // 512 fast ones in 0.256 s, then one a millisecond; before the first burst there was no pause.
    let row = said
        .lines()
        .find(|l| l.starts_with("idle ") && !l.contains("p99"))
        .expect("a row of the table");
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        words[1..],
        ["1s", "2s", "4", "1,000", "1,256", "1,192", "1,000", "1,256"],
        "{said}"
    );
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("back: at the level of steady from the start on"), "{said}");
}

#[test]
fn a_recovery_that_can_never_be_judged_is_refused() {
    let home = tempfile::tempdir().expect("a directory");
    for (from, to, word) in [
        ("of = \"before\"", "of = \"again\"", "no earlier phase `again`"),
        ("bytes_per_s", "p99_ns", "no figure `p99_ns`"),
        ("of = \"before\"", "of = \"before\", within = 2.0", "no share"),
    ] {
        let text = suite(home.path(), "{ kind = \"none\" }", &stimulus("1s")).replacen(from, to, 1);
        let suite = SuiteFile::parse(&source(&text)).expect("a suite");
        let e = suite.prepare(SuiteRequest::default(), Rc::new(plan)).err().expect(word);
        assert!(e.to_string().contains(word), "{word}: {e}");
    }
}
