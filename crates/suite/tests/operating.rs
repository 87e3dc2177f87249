//! Operating points on simulated devices whose saturation and tails are known: the choice, the runs at
//! the points, resuming, a device that fails, and suites that are refused.

use std::rc::Rc;

use crate::common::{SimHost, plan, prepare, run};
use serde_json::Value;
use taillight_core::Percentile;
use taillight_core::exit::Exit;
use taillight_rundir::series::{PointRole, SeriesFile};
use taillight_suite::suites::{SuiteFile, SuiteRequest, embedded};

/// Rounds over 4 x 4 demands on a device, a run before each, then the operating points under 5 ms.
fn suite(options: &str) -> String {
    format!(
        "rule = \"matrix\"\nname = \"mine\"\nabout = \"demand\"\n\
         [job.run]\nduration = \"2s\"\nseed = 3\n[job.target]\ndriver = \"sim\"\nsize = \"16MiB\"\n\
         options = {{ {options} }}\n\
         [[job.workload]]\nmix = {{ read = 65, write = 35 }}\nblock_size = \"8KiB\"\n\
         [[phase]]\nname = \"grid\"\nrole = \"round\"\n\
         [phase.before]\nset = {{ \"workload.0.mix\" = \"write\", \"run.duration\" = \"100ms\" }}\n\
         [phase.steady]\nat = [{{ \"workload.0.workers\" = 8, \"workload.0.queue_depth\" = 8 }}]\n\
         max_rounds = 6\n\
         [[phase.loop]]\npath = \"workload.0.workers\"\nvalues = [8, 4, 2, 1]\n\
         [[phase.loop]]\npath = \"workload.0.queue_depth\"\nvalues = [8, 4, 2, 1]\n\
         [[phase]]\nname = \"long\"\nrole = \"histogram\"\n\
         set = {{ \"run.duration\" = \"20s\" }}\n\
         [phase.points]\nfrom = \"grid\"\nceiling = \"5ms\"\npick = [\"max\", \"middle\", \"min\"]\n\
         [phase.before]\neach = \"run\"\n\
         set = {{ \"workload.0.mix\" = \"write\", \"run.duration\" = \"200ms\" }}\n"
    )
}

/// Channels that each serve one operation in this many ms.
fn device(channels: u32, ms: u32) -> String {
    format!("channels = {channels}, service = {{ kind = \"constant\", time = \"{ms}ms\" }}")
}

fn point<'a>(file: &'a SeriesFile, name: &str) -> &'a Value {
    &file.answer.as_ref().expect("an answer")["operating_points"]["long"]["points"][name]
}

fn of(at: &Value, field: &str) -> u64 {
    at["coordinates"][format!("workload.0.{field}")].as_u64().expect("a number")
}

#[test]
fn a_device_of_known_saturation_gives_its_points() {
    for (channels, ms) in [(4u32, 1u32), (8, 2)] {
        let home = tempfile::tempdir().expect("a directory");
        let (outcome, file) =
            run(&suite(&device(channels, ms)), &mut SimHost::default(), &home.path().join("out"));
        assert_eq!(outcome.exit, Exit::Ok);
        let (n, ms) = (f64::from(channels), f64::from(ms));
        let most = 1e3 * n / ms;
        let found = &file.answer.as_ref().expect("an answer")["operating_points"]["long"];
        // The mean is the greater of the service time and of what all outstanding wait for.
        let demands: Vec<f64> =
            [1, 2, 4, 8].iter().flat_map(|w| [1, 2, 4, 8].map(|d| f64::from(w * d))).collect();
        let mean = |o: f64| ms * (o / n).max(1.0);
        let under = demands.iter().filter(|o| mean(**o) < 5.0).count();
        assert_eq!((&found["settings"], &found["under_ceiling"]), (&16.into(), &under.into()));
        assert_eq!(found["rounds"], serde_json::json!([5]), "the last round");
        let knee = &found["knee"];
        assert_eq!(knee["outstanding"], channels, "all channels busy: {knee}");
        assert!((knee["iops"].as_f64().expect("a rate") / most - 1.0).abs() < 0.02, "{knee}");
        let max = point(&file, "max");
        let outstanding = max["outstanding"].as_f64().expect("a number");
        assert!(outstanding >= n && mean(outstanding) < 5.0, "{max}");
        assert!((max["iops"].as_f64().expect("a rate") / most - 1.0).abs() < 0.02, "{max}");
        let min = point(&file, "min");
        assert_eq!((of(min, "workers"), of(min, "queue_depth")), (1, 1));
        let middle = point(&file, "middle");
        let wanted = (most + 1e3 / ms) / 2.0;
        let rate = |o: f64| 1e3 * o.min(n) / ms;
        let best = demands.iter().map(|o| (rate(*o) - wanted).abs()).fold(f64::MAX, f64::min);
        let off = (middle["iops"].as_f64().expect("a rate") - wanted).abs();
        assert!((off - best).abs() < 0.02 * most, "{middle}");
        // Little's law holds but for the first and the last moments.
        for name in ["max", "middle", "min"] {
            let ratio = point(&file, name)["littles_law"].as_f64().expect("a ratio");
            assert!((ratio - 1.0).abs() < 0.02, "{name}: {ratio}");
        }
    }
}

#[test]
fn runs_before_others_and_at_the_points_stand_where_the_file_says() {
    let home = tempfile::tempdir().expect("a directory");
    let mut host = SimHost::default();
    let (_, file) = run(&suite(&device(4, 1)), &mut host, &home.path().join("out"));
    // Five rounds of a run before and sixteen settings; then three points with one before each.
    assert_eq!(file.points.len(), 5 * 17 + 6);
    let before = |p: &taillight_rundir::series::SeriesPoint| p.role == PointRole::Precondition;
    for (n, p) in file.points.iter().enumerate() {
        let expected = if n < 85 { n % 17 == 0 } else { (n - 85) % 2 == 0 };
        assert_eq!(before(p), expected, "{}", p.id);
    }
    let last = &file.points[85..];
    let ids: Vec<&str> = last.iter().map(|p| p.id.split_once('-').expect("words").1).collect();
    assert_eq!(
        ids,
        [
            "long-before-max",
            "long-max",
            "long-before-middle",
            "long-middle",
            "long-before-min",
            "long-min"
        ]
    );
    for (name, at) in [("max", 1), ("middle", 3), ("min", 5)] {
        let chosen = &point(&file, name)["coordinates"];
        assert_eq!(serde_json::to_value(&last[at].coordinates).expect("JSON"), *chosen);
    }
    let max = point(&file, "max")["iops"].as_f64().expect("a rate");
    assert!((last[1].values["iops"] / max - 1.0).abs() < 0.02, "the same load, for longer");
    let rules: Vec<&str> = file
        .decisions
        .iter()
        .filter(|d| d.rule == "operating_point")
        .map(|d| d.verdict.as_str())
        .collect();
    assert_eq!(rules, ["max", "middle", "min", "knee"]);
    let page = host.unwrapped();
    for part in ["Operating points from round 5, the last", "16 settings", "10 of these lie within"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
}

/// Without queueing every response time is a draw from the model: its nines lie in their intervals.
#[test]
fn the_nines_of_the_histograms_hold_the_model_s() {
    let home = tempfile::tempdir().expect("a directory");
    let options = "channels = 64, service = { kind = \"exponential\", mean = \"1ms\" }";
    let (outcome, file) = run(&suite(options), &mut SimHost::default(), &home.path().join("out"));
    let mut checked = 0;
    for result in outcome.done.iter().filter(|r| r.point.role == PointRole::Histogram) {
        let summary = result.summary.as_ref().expect("a summary");
        for nine in &summary.totals.latencies.service.nines {
            let (Some(lo), Some(hi)) = (nine.lo_ns, nine.hi_ns) else { continue };
            let share = 1.0 - Percentile::nines(nine.k as u8).expect("a nine").tail_share();
            let truth = -(1.0 - share).ln() * 1e6;
            assert!(
                (lo as f64..=hi as f64).contains(&truth),
                "{}: {nine:?} {truth}",
                result.point.id
            );
            checked += 1;
        }
    }
    assert!(checked >= 9, "{checked} nines of three histograms");
    let found = &file.answer.as_ref().expect("an answer")["operating_points"]["long"];
    assert_eq!(found["knee"], Value::Null, "the rate rises up to the highest demand");
}

#[test]
fn without_a_point_under_the_ceiling_the_closest_is_run_once_and_flagged() {
    let home = tempfile::tempdir().expect("a directory");
    let mut host = SimHost::default();
    let (outcome, file) = run(&suite(&device(1, 7)), &mut host, &home.path().join("out"));
    assert_eq!((outcome.exit, file.points.len()), (Exit::Ok, 5 * 17 + 2));
    let max = point(&file, "max");
    assert_eq!((&max["over_ceiling"], of(max, "workers")), (&true.into(), 1));
    assert_eq!(point(&file, "min")["same_as"], "max");
    let text = host.unwrapped();
    assert!(text.contains("NO SETTING of 16 IS UNDER THE CEILING of 5ms"), "{text}");
    assert!(text.contains("the same as max, not run again"), "{text}");
    assert!(!text.contains("not run: "), "nothing is left out: {text}");
}

#[test]
fn a_suite_stopped_anywhere_ends_as_one_that_was_not() {
    let whole = tempfile::tempdir().expect("a directory");
    let text = suite(&device(4, 1)).replace("[8, 4, 2, 1]", "[8, 1]");
    let (_, expected) = run(&text, &mut SimHost::default(), &whole.path().join("out"));
    // In the rounds, before the first point is chosen, and between two points.
    for after in [7, 25, 27, 28] {
        let home = tempfile::tempdir().expect("a directory");
        let dir = home.path().join("out");
        let mut host = SimHost { signal_after: Some(after), ..SimHost::default() };
        let (stopped, _) = run(&text, &mut host, &dir);
        assert_eq!(stopped.exit, Exit::Interrupted);
        let mut host = SimHost::default();
        let (_, file) = run(&text, &mut host, &dir);
        assert_eq!(host.ran.len(), expected.points.len() - after);
        assert_eq!((&file.points, &file.decisions), (&expected.points, &expected.decisions));
        assert_eq!(file.answer, expected.answer);
    }
}

#[test]
fn a_device_that_fails_in_the_middle_keeps_what_was_measured() {
    let home = tempfile::tempdir().expect("a directory");
    let text = suite(&device(4, 1));
    let exits = [("30-grid-2-1-round-2".to_owned(), Exit::TargetFailed)];
    let mut host = SimHost { exits: exits.into(), ..SimHost::default() };
    let (outcome, file) = run(&text, &mut host, &home.path().join("out"));
    assert_eq!((outcome.exit, file.points.len()), (Exit::TargetFailed, 30));
    let text = host.unwrapped();
    // The choice from the one complete round is shown as what it is, and is no decision.
    assert!(text.contains("round 1, the last of grid, which were not the last of them"), "{text}");
    assert!(file.decisions.iter().all(|d| d.rule != "operating_point"));
    assert!(file.answer.is_none_or(|a| a.get("operating_points").is_none()));
}

#[test]
fn what_can_never_be_run_is_refused_before_anything() {
    let text = suite(&device(4, 1));
    let cases = [
        ("from = \"grid\"", "from = \"gird\"", "gird"),
        ("from = \"grid\"", "from = \"grid\"\nunder = \"mean\"", "no figure `mean`"),
        ("each = \"run\"", "each = \"week\"", "unknown variant"),
        (
            "name = \"long\"",
            "name = \"long\"\nloop = [{ path = \"run.seed\", values = [1] }]",
            "both",
        ),
        // 8 x 8 x 8 settings of 2 s in at least five rounds.
        (
            "values = [8, 4, 2, 1]\n[[phase]]",
            "values = [8, 7, 6, 5, 4, 3, 2, 1]\n[[phase.loop]]\npath = \"run.seed\"\n\
          values = [1, 2, 3, 4, 5, 6, 7, 8]\n[[phase]]",
            "1,291 points are too many: they would take 43 min of load",
        ),
    ];
    for (from, to, word) in cases {
        assert!(text.contains(from), "{from}");
        let e = prepare(&text.replace(from, to), SuiteRequest::default()).err().expect(to);
        assert_eq!(e.exit(), Exit::Usage, "{to}: {e}");
        assert!(e.to_string().contains(word), "{to}: {e}");
    }
    let set = vec!["workload.0.queue_depth=4".to_owned()];
    let e = prepare(&text, SuiteRequest { set, ..SuiteRequest::default() }).err().expect("refused");
    assert!(e.hint_text().is_some_and(|h| h.contains("suite.phase.grid.loop")), "{e}");
}

/// What the phases set themselves stays: writes that precondition are no reads.
#[test]
fn another_load_changes_what_is_measured_and_not_what_preconditions() {
    for name in ["dirth", "cbw"] {
        let suite = SuiteFile::parse(&embedded(name).expect("there")).expect("a suite");
        let request = SuiteRequest {
            driver: Some("sim".to_owned()),
            scale: Some("quick".to_owned()),
            set: vec!["workload.0.mix=read".to_owned()],
            ..SuiteRequest::default()
        };
        let plans = suite.prepare(request, Rc::new(plan)).expect("plans").plans;
        let ops = |name: &str| {
            let of = plans.iter().filter(|p| p.run.name.contains(name));
            of.map(|p| p.workloads[0].mix.clone()).collect::<Vec<_>>()
        };
        let (grid, before) = (ops("-rounds-8"), ops("-before-"));
        assert!(!grid.is_empty() && !before.is_empty());
        assert!(
            grid.iter().all(|mix| *mix == grid[0]) && before.iter().all(|mix| *mix == before[0])
        );
        assert_ne!(grid[0], before[0], "{name}");
        assert_eq!(ops("precondition")[0], before[0]);
        assert_ne!(ops("purge")[0], grid[0]);
    }
}
