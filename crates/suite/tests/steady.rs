//! Steady state on simulated devices whose steady round is known, resuming, purge and scales.

use std::path::Path;

use crate::common::{self, SimHost, prepare};
use serde_json::json;
use taillight_core::exit::Exit;
use taillight_rundir::series::SeriesFile;
use taillight_suite::suites::{SuiteRequest, embedded, names, schema_suite};

/// Time of a write on the worn device, ns.
const SERVICE_NS: f64 = 1e6;
const BLOCK: f64 = 4096.0;
const ROUND_NS: f64 = 1e9;

/// A suite of one steady phase, and one point after it, on a device that ages so. The device keeps
/// its state in `dir`.
fn suite(dir: &Path, aging: &str, steady: &str) -> String {
    let state = dir.join("state.json").display().to_string();
    format!(
        "rule = \"matrix\"\nname = \"mine\"\nabout = \"rounds\"\n\
         [job.run]\nduration = \"1s\"\nseed = 3\n[job.target]\ndriver = \"sim\"\nsize = \"16MiB\"\n\
         options = {{ service = {{ kind = \"constant\", time = \"1ms\" }}, aging = {aging}, \
         state = {state:?} }}\n\
         [[job.workload]]\nmix = \"write\"\n\
         [[phase]]\nname = \"p\"\nrole = \"round\"\n[phase.steady]\n{steady}\n\
         [[phase]]\nname = \"after\"\n"
    )
}

fn run(text: &str, host: &mut SimHost, dir: &Path) -> SeriesFile {
    common::run(text, host, dir).1
}

/// Operations of each round on a device whose writes take `factor(bytes written, time)` of the
/// service time: the truth, from the model alone.
fn truth(rounds: usize, factor: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    let mut written = 0.0;
    let round = |n: usize| {
        let (mut at, mut ops) = (0.0, 0.0);
        while at < ROUND_NS {
            at += (SERVICE_NS * factor(written, n as f64 * ROUND_NS + at)).round();
            written += BLOCK;
            ops += 1.0;
        }
        ops
    };
    (0..rounds).map(round).collect()
}

/// SNIA's rule, written down once more: the first round at which the last five are steady.
fn steady_at(rounds: &[f64]) -> Option<usize> {
    (5..=rounds.len()).find(|end| {
        let w = &rounds[end - 5..*end];
        let average = w.iter().sum::<f64>() / 5.0;
        let spread = w.iter().fold(0.0, |m: f64, v| m.max(*v))
            - w.iter().fold(f64::MAX, |m: f64, v| m.min(*v));
        // Least squares over -2, -1, 0, 1, 2; four steps across the window.
        let slope = (-2.0 * w[0] - w[1] + w[3] + 2.0 * w[4]) / 10.0;
        spread <= 0.2 * average && (4.0 * slope).abs() <= 0.1 * average
    })
}

fn rounds(file: &SeriesFile) -> usize {
    file.points.iter().filter(|p| p.id.contains("-p-")).count()
}

#[test]
fn the_steady_round_of_a_decaying_device_is_found() {
    let over = 8.0 * 1024.0 * 1024.0;
    for (fresh, spread) in [(0.25, 0.0), (0.5, 0.0), (0.8, 0.0)] {
        let home = tempfile::tempdir().expect("a directory");
        let aging = format!("{{ kind = \"decay\", fresh = {fresh}, over = \"8MiB\" }}");
        let text = suite(home.path(), &aging, "figure = \"iops\"\n");
        let file = run(&text, &mut SimHost::default(), &home.path().join("out"));
        let factor = |written: f64, _| 1.0 - (1.0 - fresh) * (-written / over).exp() + spread;
        let expected = steady_at(&truth(25, factor)).expect("it settles");
        assert!(expected > 5 || fresh > 0.5, "{fresh}: {expected}");
        assert_eq!(rounds(&file), expected, "{fresh}");
        let answer = file.answer.expect("an answer");
        let found = &answer["steady_state"]["p"];
        assert_eq!(found["outcome"], "achieved");
        assert_eq!(found["window"], json!([expected - 4, expected]));
        let last = file.decisions.last().expect("decisions");
        assert_eq!((last.verdict.as_str(), last.points.len()), ("steady", 5));
        assert!(file.decisions.iter().rev().skip(1).all(|d| d.verdict == "not_steady"));
        // What follows the phase is run all the same.
        assert!(file.points.last().expect("points").id.ends_with("-after"));
    }
}

#[test]
fn a_sawtooth_is_steady_only_where_a_round_holds_many_teeth() {
    // A tooth of 64 KiB is 16 writes; one of 12 MiB takes several rounds.
    for (period, kib, settles) in [("64KiB", 64.0, true), ("12MiB", 12_288.0, false)] {
        let home = tempfile::tempdir().expect("a directory");
        let aging = format!("{{ kind = \"sawtooth\", rise = 1.0, period = \"{period}\" }}");
        let text = suite(home.path(), &aging, "max_rounds = 12\n");
        let mut host = SimHost::default();
        let file = run(&text, &mut host, &home.path().join("out"));
        let factor = |written: f64, _| 1.0 + (written / (kib * 1024.0)).fract();
        assert_eq!(steady_at(&truth(12, factor)), settles.then_some(5), "the truth of {period}");
        assert_eq!(rounds(&file), if settles { 5 } else { 12 });
        let shouted = host.text.iter().any(|t| t.contains("STEADY STATE NOT ACHIEVED"));
        assert_eq!(shouted, !settles);
    }
}

#[test]
fn a_drift_that_never_settles_is_not_achieved_and_says_so() {
    for (rise, expected) in [(0.01, Some(5)), (0.06, None)] {
        let home = tempfile::tempdir().expect("a directory");
        let aging = format!("{{ kind = \"drift\", rise = {rise}, every = \"1s\" }}");
        let text = suite(home.path(), &aging, "max_rounds = 14\n");
        let file = run(&text, &mut SimHost::default(), &home.path().join("out"));
        let factor = |_, at: f64| (1.0f64 + rise).powf(at / 1e9);
        assert_eq!(steady_at(&truth(14, factor)), expected);
        assert_eq!(rounds(&file), expected.unwrap_or(14));
        let last = file.decisions.last().expect("decisions");
        assert_eq!(last.verdict, if expected.is_some() { "steady" } else { "not_achieved" });
    }
}

#[test]
fn any_figure_is_judged_and_windows_may_be_spaced() {
    let home = tempfile::tempdir().expect("a directory");
    let steady = "figure = \"p99_ns\"\nwindow = 3\nspacing = 4\nmax_rounds = 20\n";
    let text = suite(home.path(), "{ kind = \"none\" }", steady);
    let file = run(&text, &mut SimHost::default(), &home.path().join("out"));
    // Rounds 1, 5 and 9.
    assert_eq!(rounds(&file), 9);
    let decision = &file.decisions[0];
    assert_eq!(file.decisions.len(), 1);
    // Histograms only: to 0.1 %.
    assert!((decision.values["average"] / 1e6 - 1.0).abs() < 1e-3, "{decision:?}");
    let of = |n: &str| decision.points.iter().any(|p| p.ends_with(n));
    assert!(of("round-1") && of("round-5") && of("round-9") && decision.points.len() == 3);
}

/// The last round that can end a window is the last one run.
#[test]
fn rounds_after_the_last_window_are_not_run() {
    let home = tempfile::tempdir().expect("a directory");
    let aging = "{ kind = \"drift\", rise = 0.06, every = \"1s\" }";
    let text = suite(home.path(), aging, "window = 3\nspacing = 4\nmax_rounds = 16\n");
    let file = run(&text, &mut SimHost::default(), &home.path().join("out"));
    // Windows end with rounds 9 and 13.
    assert_eq!((file.decisions.len(), rounds(&file)), (2, 13));
    assert_eq!(file.decisions[1].verdict, "not_achieved");
}

/// Depth 8 on two channels: the rate of the rounds before steady state is higher.
#[test]
fn curves_are_of_the_window_alone() {
    let home = tempfile::tempdir().expect("a directory");
    let aging = "{ kind = \"decay\", fresh = 0.25, over = \"8MiB\" }";
    let steady = "figure = \"iops\"\n[[phase.loop]]\npath = \"workload.0.queue_depth\"\n\
                  values = [1, 2, 4, 8]\n";
    let text =
        suite(home.path(), aging, steady).replace("options = {", "options = { channels = 2,");
    let mut host = SimHost::default();
    let file = run(&text, &mut host, &home.path().join("out"));
    let window = file.answer.as_ref().expect("an answer")["steady_state"]["p"]["window"].clone();
    let (first, last) =
        (window[0].as_u64().expect("a round"), window[1].as_u64().expect("a round"));
    assert!(first > 1, "{window}");
    let said = format!("Charts over fields are of p: rounds {first} to {last}.");
    assert!(host.unwrapped().contains(&said), "{:?}", host.text);
    let rates: Vec<f64> = file
        .points
        .iter()
        .filter(|p| p.coordinates.get("workload.0.queue_depth") == Some(&json!(2)))
        .filter(|p| (first..=last).contains(&p.round.into()))
        .map(|p| p.values["iops"])
        .collect();
    let average = rates.iter().sum::<f64>() / rates.len() as f64;
    let knee = file.decisions.iter().find(|d| d.rule == "knee").expect("a knee");
    assert_eq!((knee.values["demand"], knee.values["rate_per_s"]), (2.0, average), "{}", knee.text);
}

#[test]
fn an_interrupted_suite_ends_as_one_that_was_not() {
    let aging = "{ kind = \"decay\", fresh = 0.25, over = \"8MiB\" }";
    let whole = tempfile::tempdir().expect("a directory");
    let expected =
        run(&suite(whole.path(), aging, ""), &mut SimHost::default(), &whole.path().join("o"));
    for after in [1, 3, 6] {
        let home = tempfile::tempdir().expect("a directory");
        let text = suite(home.path(), aging, "");
        let mut host = SimHost { signal_after: Some(after), ..SimHost::default() };
        run(&text, &mut host, &home.path().join("o"));
        let mut host = SimHost::default();
        let file = run(&text, &mut host, &home.path().join("o"));
        assert_eq!(host.ran.len(), expected.points.len() - after);
        assert_eq!((&file.points, &file.decisions), (&expected.points, &expected.decisions));
        assert_eq!((file.answer, file.resumed), (expected.answer.clone(), 1));
        let said = format!("of {} points {after} were measured before", expected.points.len());
        assert!(host.unwrapped().contains(&said), "{:?}", host.text);
    }
}

#[test]
fn a_purge_makes_the_device_as_new() {
    let home = tempfile::tempdir().expect("a directory");
    let aging = "{ kind = \"decay\", fresh = 0.25, over = \"1MiB\" }";
    let phases = |purge: &str| {
        suite(home.path(), aging, "max_rounds = 5\n").replacen(
            "[[phase]]",
            &format!(
                "[[phase]]\nname = \"purge\"\nrole = \"purge\"\npurge = \"{purge}\"\n[[phase]]"
            ),
            1,
        )
    };
    let first_round = |purge: &str, dir: &str| {
        let file = run(&phases(purge), &mut SimHost::default(), &home.path().join(dir));
        let point = file.points.iter().find(|p| p.id.ends_with("-round-1")).expect("a round");
        (point.values["iops"], file.points.len())
    };
    let new = first_round("none", "a");
    let worn = first_round("none", "b");
    let zeroed = first_round("zero_fill", "c");
    let purged = first_round("discard", "d");
    assert!(new.0 > 1.1 * worn.0, "{new:?} {worn:?}");
    assert_eq!((purged.0, worn.0), (new.0, zeroed.0));
    assert_eq!((purged.1, new.1), (new.1 + 1, 6), "none is no run");
}

#[test]
fn what_can_never_be_judged_is_refused_before_anything_runs() {
    let home = tempfile::tempdir().expect("a directory");
    for (steady, word) in [
        ("figure = \"iop\"", "iop"),
        ("window = 1", "two rounds"),
        ("max_rounds = 4", "no window"),
        ("spacing = 30", "no window"),
        ("excursion = 0.0", "share"),
        ("at = [{ \"workload.0.queue_depth\" = 4 }]", "no such setting"),
        ("rounds = 4", "rounds"),
    ] {
        let text = suite(home.path(), "{ kind = \"none\" }", steady);
        let e = prepare(&text, SuiteRequest::default()).err().expect(steady);
        assert_eq!(e.exit(), Exit::Usage, "{steady}");
        assert!(e.to_string().contains(word), "{steady}: {e}");
    }
}

#[test]
fn scales_and_settings_of_the_suite_are_deviations_from_its_standard() {
    let home = tempfile::tempdir().expect("a directory");
    let text = suite(home.path(), "{ kind = \"none\" }", "").replace(
        "about = \"rounds\"\n",
        "about = \"rounds\"\nstandard = \"the book\"\ndeviations = [\"no purge\"]\n\
         [scale.quick.set]\n\"phase.p.steady.max_rounds\" = 7\n",
    );
    let set = ["suite.phase.p.steady.window=3", "run.warmup=1s"].map(str::to_owned).to_vec();
    let request = |scale: &str| SuiteRequest {
        scale: Some(scale.to_owned()),
        set: set.clone(),
        runtime: Some("2s".to_owned()),
        ..SuiteRequest::default()
    };
    let method = prepare(&text, request("quick")).expect("a suite");
    let said = method.head().introduction.join("\n");
    for part in [
        "4 to 8 runs, 12 s to 24 s of load",
        "NOT CONFORMANT to the book: 6 deviations",
        "  - the target is no block device: driver sim",
        "  - no purge",
        "  - phase.p.steady.max_rounds: 7",
        "  - phase.p.steady.window: 3",
        "  - by --set: run.warmup=1s",
        "  - by --runtime: 2s a point",
    ] {
        assert!(said.contains(part), "{part}\n{said}");
    }
    let e = prepare(&text, request("huge")).err().expect("refused");
    assert!(e.hint_text().is_some_and(|h| h.contains("quick")), "{e}");
}

#[test]
fn every_suite_of_the_program_fits_the_published_schema() {
    let schema = schema_suite();
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    assert!(names().any(|n| n == "pts-hir"));
    for name in names() {
        let text = embedded(name).expect("there").text;
        let value: toml::Value = toml::from_str(&text).expect("TOML");
        let value = serde_json::to_value(value).expect("JSON");
        let problems: Vec<_> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
        assert!(problems.is_empty(), "{name}: {problems:?}");
    }
}
