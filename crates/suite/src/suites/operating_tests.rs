//! The choice of operating points on grids whose answer is known.

use serde_json::json;
use taillight_core::OpKind;
use taillight_core::exit::Exit;
use taillight_core::plan::{Plan, WorkloadPlan};
use taillight_core::units::ByteSize;
use taillight_rundir::series::{PointRole, PointStatus};

use super::*;
use crate::method::Point;

fn rule(text: &str) -> ChosenPoints {
    toml::from_str(&format!("from = \"grid\"\n{text}")).expect("a rule")
}

/// A result of round `round`: workers, queue depth, rate, mean in ms.
fn result(round: u32, at: (u32, u32), rate: f64, mean_ms: f64) -> PointResult {
    let (workers, queue_depth) = at;
    let simple = WorkloadPlan::simple("w", OpKind::Read, ByteSize(4096));
    let load = WorkloadPlan { workers, queue_depth, ..simple };
    let plan = Plan { workloads: vec![load], ..Plan::default() };
    let id = format!("{workers}-{queue_depth}-{round}");
    let point = Point::new(id, PointRole::Round, plan, None);
    let coordinates = [("w".to_owned(), json!(workers)), ("q".to_owned(), json!(queue_depth))];
    let values = [("iops", rate), ("mean_ns", mean_ms * 1e6), ("ops", rate)];
    PointResult {
        point: Point { coordinates: coordinates.into(), round, ..point },
        dir: "p".into(),
        exit: Exit::Ok,
        status: PointStatus::Complete,
        summary: None,
        values: values.map(|(name, value)| (name.to_owned(), value)).into(),
    }
}

/// The article's drive: 50,000 IOPS from 32 outstanding on, each of 0.64 ms.
fn article() -> Vec<PointResult> {
    let mut all = Vec::new();
    for workers in [32, 16, 8, 6, 4, 2, 1] {
        for depth in [32, 16, 8, 6, 4, 2, 1] {
            let outstanding = f64::from(workers * depth);
            let rate = 50_000.0 * (outstanding / 32.0).min(1.0);
            all.push(result(1, (workers, depth), rate, 0.64 * (outstanding / 32.0).max(1.0)));
        }
    }
    all
}

fn choose<'a>(rule: &ChosenPoints, results: &'a [PointResult]) -> OperatingPoints<'a> {
    let mut settings: Vec<Coordinates> = Vec::new();
    for r in results {
        if !settings.contains(&r.point.coordinates) {
            settings.push(r.point.coordinates.clone());
        }
    }
    let results: Vec<&PointResult> = results.iter().collect();
    rule.choose(&settings, &results).expect("results")
}

/// Names, workers and queue depths of what was chosen.
fn chosen(found: &OperatingPoints<'_>) -> Vec<(String, u64, u64)> {
    let of = |p: &OperatingPoint| {
        let at = &found.settings[p.at].coordinates;
        let value = |name: &str| at[name].as_u64().expect("a number");
        (p.name.clone(), value("w"), value("q"))
    };
    found.chosen.iter().flatten().map(of).collect()
}

const PICK: &str = "pick = [\"max\", \"middle\", \"min\", \"knee\"]\n";

#[test]
fn the_article_s_drive_has_its_points_at_32_outstanding() {
    let results = article();
    let found = choose(&rule(&format!("ceiling = \"5ms\"\n{PICK}")), &results);
    let points = chosen(&found);
    let named = |name: &str| points.iter().find(|p| p.0 == name).expect("chosen");
    let outstanding = |name: &str| named(name).1 * named(name).2;
    // All from 32 to 192 give the same rate below 5 ms; the fewest outstanding count.
    assert_eq!((outstanding("max"), outstanding("min"), outstanding("knee")), (32, 1, 32));
    assert_eq!(outstanding("middle"), 16, "half of the rate");
    // 5 ms hold 250 outstanding: 256 and more are over it.
    let over = found.settings.iter().filter(|s| s.outstanding > 250).count();
    assert_eq!((found.settings.len(), found.under), (49, 49 - over));
    let full = found.settings.iter().filter(|s| (32..=250).contains(&s.outstanding)).count();
    assert_eq!(found.within, full);
    assert!(found.chosen.iter().flatten().all(|p| !p.over_ceiling));
}

#[test]
fn without_a_point_under_the_ceiling_the_closest_is_flagged_and_run_once() {
    let results = article();
    let found = choose(&rule(&format!("ceiling = \"100us\"\n{PICK}")), &results);
    assert_eq!((found.under, found.within), (0, 0));
    assert!(found.chosen[..3].iter().flatten().all(|p| p.over_ceiling));
    let same: Vec<Option<&str>> =
        found.chosen[..3].iter().flatten().map(|p| p.same_as.as_deref()).collect();
    assert_eq!(same, [None, Some("max"), Some("max")], "{:?}", chosen(&found));
    assert!(found.chosen[3].is_none() && found.knee.is_err());
}

#[test]
fn several_middles_lie_evenly_between_and_names_tell_them_apart() {
    let results: Vec<PointResult> =
        (1..=11).map(|n| result(1, (1, n), 100.0 * f64::from(n), 1.0)).collect();
    let four = rule("pick = [\"max\", \"middle\", \"middle\", \"middle\", \"middle\", \"min\"]\n");
    let found = choose(&four, &results);
    let depths: Vec<u64> = chosen(&found).iter().map(|p| p.2).collect();
    assert_eq!(depths, [11, 9, 7, 5, 3, 1]);
    assert_eq!(chosen(&found)[1].0, "middle-1");
    assert_eq!(found.knee, Err("the rate still rises at the highest demand under the ceiling"));
}

#[test]
fn a_window_counts_all_its_rounds() {
    // The deeper one is faster in one round of two, and over the ceiling in the mean of all I/Os.
    let results = [
        result(1, (1, 1), 100.0, 4.0),
        result(1, (1, 2), 300.0, 6.0),
        result(2, (1, 1), 100.0, 4.0),
        result(2, (1, 2), 100.0, 3.0),
    ];
    let found =
        choose(&rule("rounds = \"window\"\nceiling = \"5ms\"\npick = [\"max\"]\n"), &results);
    let second = &found.settings[1];
    assert_eq!((second.figure, second.under), (200.0, 5.25e6));
    assert_eq!((chosen(&found)[0].2, found.under), (1, 1));
    let p99 = rule("figure = \"bytes_per_s\"\nunder = \"p99_ns\"\npick = [\"max\"]\n");
    let settings = [results[0].point.coordinates.clone()];
    assert!(p99.choose(&settings, &[&results[0]]).is_none(), "no such figures");
}

/// Eight servers of a millisecond: from eight outstanding on the rate is the same, and only the time grows.
/// What differs is the sixteenth digit, or what was in flight at the ends of the measurement.
#[test]
fn equal_rates_are_chosen_by_the_fewest_outstanding_whatever_their_last_digits() {
    for excess in [0.0, 1e-15, -1e-15, 1e-6, 2e-3, 9e-3] {
        let results: Vec<PointResult> = [1, 2, 4, 8, 16, 32]
            .into_iter()
            .map(|n| {
                let full = if n > 8 { 1.0 + excess } else { 1.0 };
                let rate = 1_000.0 * f64::from(n.min(8)) * full;
                result(1, (1, n), rate, f64::from(n.max(8)) / 8.0)
            })
            .collect();
        let found = choose(&rule(&format!("ceiling = \"5ms\"\n{PICK}")), &results);
        let depths: Vec<u64> = chosen(&found).iter().map(|p| p.2).collect();
        assert_eq!(depths, [8, 4, 1, 8], "{excess}");
        // With nothing under the ceiling the lowest time decides, and it is the same up to eight.
        let results: Vec<PointResult> = [8, 4, 2]
            .into_iter()
            .map(|n| result(1, (1, n), 1e3, 1.0 - excess * f64::from(n) / 8.0))
            .collect();
        let found = choose(&rule("ceiling = \"1us\"\npick = [\"max\"]\n"), &results);
        assert_eq!(chosen(&found)[0].2, 2, "{excess}");
    }
    // Two per cent more is more.
    let results = [result(1, (1, 8), 8_000.0, 1.0), result(1, (1, 16), 8_160.0, 2.0)];
    assert_eq!(chosen(&choose(&rule("pick = [\"max\"]\n"), &results))[0].2, 16);
}

#[test]
fn an_unfinished_result_is_no_candidate() {
    let mut results = vec![result(1, (1, 1), 100.0, 1.0), result(1, (1, 2), 200.0, 1.0)];
    results[1].status = PointStatus::Partial;
    let found = choose(&rule("pick = [\"max\"]\n"), &results);
    assert_eq!(chosen(&found)[0].2, 1);
}

#[test]
fn rules_that_can_never_choose_are_refused() {
    for (text, word) in [
        ("pick = []", "nothing"),
        ("pick = [\"max\", \"max\"]", "twice"),
        ("figure = \"speed\"\npick = [\"max\"]", "speed"),
        ("under = \"iops\"\nceiling = \"5ms\"\npick = [\"max\"]", "no time"),
    ] {
        let e = rule(text).check("p").expect_err(text);
        assert!(e.to_string().contains(word), "{e}");
    }
}
