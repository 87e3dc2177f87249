//! Comparisons of made-up sides.

use super::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use taillight_core::OpKind;
use taillight_core::plan::GateFail;
use taillight_rundir::compare::{ComparableVerdict, CompareVerdict, GateStatus, PairsEnd};
use taillight_rundir::origin::{FailedJob, Fidelity, ImportSource, RunOrigin};
use taillight_rundir::{RunStatus, fixture};

/// A run of the fixture whose latencies are this many times as long, and its rate as high.
fn run(id: &str, times: f64, rate: f64) -> SideRun {
    let mut summary = fixture::summary(id);
    summary.status = RunStatus::Complete;
    summary.totals.errors = 0;
    let totals = summary.ops.get_mut(&OpKind::Read).expect("reads");
    totals.iops *= rate;
    let scaled = |ns: Option<u64>| ns.map(|ns| (ns as f64 * times) as u64);
    for (_, latency) in totals.latencies.iter_mut() {
        let nines = latency.nines.iter_mut().map(|n| &mut n.quantile);
        for q in latency.percentiles.iter_mut().map(|p| &mut p.quantile).chain(nines) {
            (q.ns, q.lo_ns, q.hi_ns) = (scaled(q.ns), scaled(q.lo_ns), scaled(q.hi_ns));
        }
    }
    let mut manifest = fixture::manifest(id);
    manifest.run_id = id.to_owned();
    let steps = (0..60).map(|i| 1_000.0 * rate + f64::from(i % 2)).collect();
    let rates = BTreeMap::from([(OpKind::Read, steps)]);
    SideRun { dir: PathBuf::from(id), manifest, summary, rates }
}

/// Runs that vary by 1 % around so many times the latency.
fn side(name: &str, runs: usize, times: f64) -> Vec<SideRun> {
    let varied = |i: usize| times * (1.0 + 0.01 * ((i * 7 % 5) as f64 - 2.0) / 2.0);
    (0..runs).map(|i| run(&format!("{name}{i}"), varied(i), 1.0 / varied(i))).collect()
}

fn gated(gate: &str, fail: GateFail) -> CompareRequest {
    let gate = GateRequest { fail, ..GateRequest::parse(&[gate.to_owned()]).expect("a gate") };
    CompareRequest { gate: Some(gate), ..CompareRequest::default() }
}

fn verdict(found: &CompareFile, figure: &str) -> CompareVerdict {
    found.figures.iter().find(|f| f.figure == figure).expect(figure).verdict
}

#[test]
fn runs_that_differ_are_told_apart_and_swapped_they_mirror() {
    let (base, new) = (side("a", 5, 1.0), side("b", 5, 1.3));
    let there = compare(&base, &new, &CompareRequest::default()).expect("figures");
    let back = compare(&new, &base, &CompareRequest::default()).expect("figures");
    assert_eq!(there.unit, CompareUnit::Runs);
    for figure in ["iops", "p99"] {
        assert_eq!(verdict(&there, figure), CompareVerdict::Worse, "{figure}");
        assert_eq!(verdict(&back, figure), CompareVerdict::Better, "{figure}");
    }
    for (a, b) in there.figures.iter().zip(&back.figures) {
        let (a, b) = (a.ratio.expect("a ratio"), b.ratio.expect("a ratio"));
        assert!((a * b - 1.0).abs() < 1e-9);
    }
    let alike = compare(&base, &side("b", 5, 1.0), &CompareRequest::default()).expect("figures");
    assert_eq!(verdict(&alike, "p99"), CompareVerdict::Equal);
}

/// A long drain lowers the rate of a whole run by a quarter; what is shown is the rate of its steps, as is the change.
#[test]
fn values_of_two_runs_are_those_that_the_change_is_made_of() {
    let (mut base, new) = (run("a", 1.0, 1.0), run("b", 1.0, 1.0));
    base.summary.ops.get_mut(&OpKind::Read).expect("reads").iops *= 0.75;
    let found = compare(&[base], &[new], &CompareRequest::default()).expect("figures");
    let rate = found.figures.iter().find(|f| f.figure == "iops").expect("a rate");
    assert_eq!((rate.base, rate.new, rate.ratio), (Some(1_000.5), Some(1_000.5), Some(1.0)));
}

/// An interval of a percentile rests on 8 terms or 16: three of its half widths are no p of 1e-8.
#[test]
fn a_percentile_of_two_runs_has_the_p_of_few_terms() {
    let at = |ns: u64| {
        let mut run = run(&format!("r{ns}"), 1.0, 1.0);
        let read = run.summary.ops.get_mut(&OpKind::Read).expect("reads");
        for (_, latency) in read.latencies.iter_mut() {
            let q = &mut latency.percentiles[0].quantile;
            (q.ns, q.lo_ns, q.hi_ns) = (Some(ns), Some(ns / 100 * 97), Some(ns / 97 * 100));
        }
        run
    };
    // Half widths of 3.05 % on both sides, together 4.31 %: 1.4550 of them are t = 3.3554, of which 8 degrees
    // exceed 1 %.
    let new = (1e6 * (1.4550 * 2f64.sqrt() * (100f64 / 97.0).ln()).exp()) as u64;
    let found = compare(&[at(1_000_000)], &[at(new)], &gated("read:p99", GateFail::Worse));
    let found = found.expect("figures");
    let p = found.figures.iter().find(|f| f.figure == "p99").and_then(|f| f.p).expect("a p");
    assert!((p - 0.01).abs() < 0.0005, "{p}");
}

#[test]
fn a_gate_fails_only_by_its_own_figure_and_needs_runs() {
    let judged = |runs: usize, times: f64, fail: GateFail| {
        let found =
            compare(&side("a", runs, 1.0), &side("b", runs, times), &gated("read:p99", fail));
        found.expect("figures").gate.expect("a gate").status
    };
    assert_eq!(judged(5, 1.3, GateFail::Worse), GateStatus::Fail);
    assert_eq!(judged(5, 1.0, GateFail::Worse), GateStatus::Pass);
    assert_eq!(judged(5, 0.7, GateFail::Worse), GateStatus::Pass);
    assert_eq!(judged(5, 0.7, GateFail::NotEqual), GateStatus::Fail);
    // Worse beyond doubt, by less than half of the margin.
    assert_eq!(judged(9, 1.03, GateFail::Worse), GateStatus::Pass);
    for runs in [1, 2] {
        assert_eq!(judged(runs, 1.3, GateFail::Worse), GateStatus::Undecided, "{runs}");
    }
    let e = compare(&side("a", 3, 1.0), &side("b", 3, 1.0), &gated("write:p99", GateFail::Worse));
    assert!(e.is_err_and(|e| e.hint_text().is_some_and(|h| h.contains("read:p99"))));
    for bad in ["p99", "read:p", "jump:p99", "read:mean", ""] {
        assert!(GateRequest::parse(&[bad.to_owned()]).is_err(), "{bad}");
    }
}

#[test]
fn what_may_not_be_compared_has_no_figures() {
    let request = CompareRequest::default();
    let judged = |change: &dyn Fn(&mut SideRun)| {
        let mut new = side("b", 3, 1.0);
        new.iter_mut().for_each(change);
        let found = compare(&side("a", 3, 1.0), &new, &request).expect("a comparison");
        assert!(found.figures.is_empty(), "{:?}", found.comparable);
        let anyway = CompareRequest { anyway: true, ..request.clone() };
        let anyway = compare(&side("a", 3, 1.0), &new, &anyway).expect("a comparison");
        let doubtful = found.comparable.verdict == ComparableVerdict::Doubtful;
        assert_eq!(anyway.figures.is_empty(), !doubtful);
        found.comparable.verdict
    };
    let (no, doubtful) = (ComparableVerdict::No, ComparableVerdict::Doubtful);
    assert_eq!(judged(&|run| run.summary.status = RunStatus::Failed), no);
    assert_eq!(judged(&|run| run.summary.status = RunStatus::Partial), doubtful);
    assert_eq!(judged(&|run| run.summary.totals.errors = 1), doubtful);
    assert_eq!(judged(&|run| run.summary.totals.count = 0), no);
    assert_eq!(judged(&|run| run.summary.ops.clear()), no);
    let rate = |run: &mut SideRun| {
        let rate = "1000/s".parse().expect("a rate");
        run.manifest.plan.workloads[0].arrival = taillight_core::plan::Arrival::Constant { rate };
    };
    assert_eq!(judged(&rate), no);
    let found = compare(&[], &side("b", 3, 1.0), &request).expect("a comparison");
    assert_eq!(found.comparable.verdict, no);
}

#[test]
fn another_depth_is_told_and_compared() {
    let mut new = side("b", 3, 1.0);
    new.iter_mut().for_each(|run| run.manifest.plan.workloads[0].queue_depth = 8);
    let found = compare(&side("a", 3, 1.0), &new, &CompareRequest::default()).expect("figures");
    assert_eq!(found.comparable.verdict, ComparableVerdict::Yes);
    assert!(found.comparable.reasons.concat().contains("queue_depth"), "{:?}", found.comparable);
    new[0].manifest.plan.workloads[0].queue_depth = 4;
    let found = compare(&side("a", 3, 1.0), &new, &CompareRequest::default()).expect("figures");
    assert_eq!(found.comparable.verdict, ComparableVerdict::Doubtful, "the side itself is mixed");
}

#[test]
fn another_machine_or_version_is_named() {
    let named = |change: &dyn Fn(&mut taillight_rundir::Manifest)| {
        let mut new = side("b", 3, 1.0);
        new.iter_mut().for_each(|run| change(&mut run.manifest));
        let found = compare(&side("a", 3, 1.0), &new, &CompareRequest::default());
        let across = found.expect("figures").comparable;
        assert_eq!(across.verdict, ComparableVerdict::Yes);
        // Within a side it is a doubt.
        new[0] = run("c", 1.0, 1.0);
        let found = compare(&side("a", 3, 1.0), &new, &CompareRequest::default());
        let within = found.expect("a comparison").comparable;
        assert_eq!(within.verdict, ComparableVerdict::Doubtful);
        [across.reasons.concat(), within.reasons.concat()]
    };
    let machine = |section: &'static str, facts: serde_json::Value| {
        move |m: &mut taillight_rundir::Manifest| {
            m.environment.insert(section.to_owned(), facts.clone());
        }
    };
    let json = |text: &str| serde_json::from_str(text).expect("JSON");
    let cases = [
        ("kernel", machine("system", json(r#"{"kernel": "6.19"}"#))),
        ("CPU", machine("cpu", json(r#"{"model": "other"}"#))),
        ("CPU governor", machine("cpu", json(r#"{"governor": ["powersave"]}"#))),
        ("device", machine("target", json(r#"{"device": {"model": "other"}}"#))),
    ];
    for (name, change) in cases {
        for said in named(&change) {
            assert!(said.ends_with(&format!("differ in {name}")), "{name}: {said}");
        }
    }
    for said in named(&|m| m.taillight = "0.0.0".to_owned()) {
        assert!(said.contains("taillight"), "{said}");
    }
}

#[test]
fn words_say_what_one_run_a_side_is_worth() {
    let found = compare(&side("a", 1, 1.0), &side("b", 1, 2.0), &CompareRequest::default());
    let found = found.expect("figures");
    assert_eq!(found.unit, CompareUnit::Batches);
    let said = console(&found).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("not whether the systems do"), "{said}");
    let several = compare(&side("a", 4, 1.0), &side("b", 4, 2.0), &CompareRequest::default());
    let several = several.expect("figures");
    let text = console(&several);
    assert!(text.contains("worse") && text.contains("+100 %"), "{text}");
    assert!(markdown(&several).contains("| read p99 |"));
    let xml = junit(&several);
    assert!(xml.contains("<failure message=") && xml.contains("name=\"read iops\""), "{xml}");
    let one_of_several =
        compare(&side("a", 1, 1.0), &side("b", 4, 1.0), &CompareRequest::default());
    assert!(one_of_several.expect("figures").figures.iter().all(|f| f.why.is_some()));
}

/// Pairs of which the second runs take `second` times as long.
fn pairs(runs: usize, times: f64, second: f64) -> Vec<RunPair> {
    let noise = [[0, 1], [1, -1], [-1, 0], [2, -2], [-2, 2], [0, 1], [1, -1], [-1, 0]];
    let varied = |i: usize, side: usize, of: f64| of * (1.0 + 0.005 * f64::from(noise[i][side]));
    let pair = |i: usize| {
        let base_first = base_first(i as u32 + 1);
        let at = |first: bool| if first { 1.0 } else { second };
        let (a, b) = (varied(i, 0, at(base_first)), varied(i, 1, times * at(!base_first)));
        let run = |name: &str, t: f64| run(&format!("{name}{i}"), t, 1.0 / t);
        RunPair { base: run("a", a), new: run("b", b), base_first }
    };
    (0..runs).map(pair).collect()
}

fn paired(of: &[RunPair], planned: u32, gate: Option<(&str, GateFail)>) -> CompareFile {
    let request = gate.map_or(CompareRequest::default(), |(gate, fail)| gated(gate, fail));
    compare_pairs(of, PairPlan { planned, drop: DropRule::Stolen }, &request)
}

#[test]
fn sides_of_pairs_take_turns() {
    let order: String = (1..=8).map(|n| if base_first(n) { "AB " } else { "BA " }).collect();
    assert_eq!(order, "AB BA BA AB BA AB AB BA ");
}

#[test]
fn pairs_swapped_mirror_and_scaled_are_the_same() {
    let there = pairs(6, 1.05, 1.0);
    let swapped: Vec<RunPair> = there
        .iter()
        .map(|p| RunPair { base: p.new.clone(), new: p.base.clone(), base_first: !p.base_first })
        .collect();
    let (found, back) = (paired(&there, 6, None), paired(&swapped, 6, None));
    assert_eq!(verdict(&found, "p99"), CompareVerdict::Worse);
    assert_eq!(verdict(&back, "p99"), CompareVerdict::Better);
    for (a, b) in found.figures.iter().zip(&back.figures) {
        let product = |x: Option<f64>, y: Option<f64>| x.expect("one") * y.expect("one");
        assert!((product(a.ratio, b.ratio) - 1.0).abs() < 1e-9);
        assert!((product(a.lo, b.hi) - 1.0).abs() < 1e-9);
    }
    let (micro, milli) = (scaled(&there, 1_000), scaled(&there, 1_000_000));
    for (a, b) in paired(&micro, 6, None).figures.iter().zip(&paired(&milli, 6, None).figures) {
        // But for the clock's tick.
        let close =
            |x: Option<f64>, y: Option<f64>| (x.expect("one") / y.expect("one") - 1.0).abs();
        assert!(close(a.ratio, b.ratio) < 1e-9 && close(a.lo, b.lo) < 1e-4, "{a:?} {b:?}");
        assert_eq!(a.verdict, b.verdict);
    }
}

fn scaled(pairs: &[RunPair], times: u64) -> Vec<RunPair> {
    let mut pairs = pairs.to_vec();
    for run in pairs.iter_mut().flat_map(|p| [&mut p.base, &mut p.new]) {
        let totals = run.summary.ops.get_mut(&OpKind::Read).expect("reads");
        totals.iops /= times as f64;
        for (_, latency) in totals.latencies.iter_mut() {
            latency
                .nines
                .iter_mut()
                .for_each(|n| n.quantile.ns = n.quantile.ns.map(|ns| ns * times));
            let asked = latency.percentiles.iter_mut().map(|p| &mut p.quantile);
            asked.for_each(|q| q.ns = q.ns.map(|ns| ns * times));
        }
    }
    pairs
}

#[test]
fn pairs_end_early_only_by_a_decided_gate() {
    let gate = Some(("read:p99", GateFail::Worse));
    let ended = |runs: usize, times: f64, gate| {
        let found = paired(&pairs(runs, times, 1.0), 6, gate);
        (found.pairs.expect("pairs").ended, found.gate.map(|g| g.status))
    };
    assert_eq!(ended(5, 1.5, gate), (PairsEnd::Early, Some(GateStatus::Fail)));
    assert_eq!(ended(5, 1.5, None), (PairsEnd::Partial, None));
    assert_eq!(ended(2, 1.5, gate), (PairsEnd::Partial, Some(GateStatus::Undecided)));
    assert_eq!(ended(5, 1.05, gate).0, PairsEnd::Partial, "not at so strict a level");
    assert_eq!(ended(6, 1.5, gate), (PairsEnd::Planned, Some(GateStatus::Fail)));
    // What is not shown to be equal yet may be shown later.
    let equal = Some(("read:p99", GateFail::NotEqual));
    assert_eq!(ended(3, 1.02, equal), (PairsEnd::Partial, Some(GateStatus::Undecided)));
    let found = paired(&pairs(6, 1.0, 1.0), 6, Some(("read:p99.99", GateFail::Worse)));
    assert!(is_hopeless(&found, &gated("read:p99.99", GateFail::Worse)));
    assert!(junit(&found).contains("name=\"read p99.99\"><skipped"), "{}", junit(&found));
    assert!(found.gate.is_some_and(|g| g.figures[0].text.contains("longer")));
}

/// More pairs follow a first that was dropped.
#[test]
fn a_dropped_pair_is_not_the_end() {
    let mut first = pairs(1, 1.0, 1.0);
    let request = gated("read:p99", GateFail::Worse);
    let judged = |of: &[RunPair]| {
        compare_pairs(of, PairPlan { planned: 6, drop: DropRule::Stolen }, &request)
    };
    assert!(!is_hopeless(&judged(&first), &request));
    let load = serde_json::json!({"during": {"steal_percent": 9.0}});
    first[0].new.manifest.environment.insert("load".to_owned(), load);
    assert!(!is_hopeless(&judged(&first), &request));
}

/// Worse beyond doubt and equal within the margin: a gate that asks for the latter passes.
#[test]
fn slightly_worse_is_equal_within_the_margin() {
    let request = gated("read:p99", GateFail::NotEqual);
    let request = CompareRequest { margin: Some(0.5), ..request };
    let found = compare(&side("a", 9, 1.0), &side("b", 9, 1.1), &request).expect("figures");
    assert_eq!(verdict(&found, "p99"), CompareVerdict::Worse);
    assert_eq!(found.gate.expect("a gate").status, GateStatus::Pass);
}

#[test]
fn a_run_counts_once() {
    let mut base = side("a", 3, 1.0);
    base[1] = base[0].clone();
    let found = compare(&base, &side("b", 3, 1.0), &CompareRequest::default()).expect("refused");
    assert_eq!(found.comparable.verdict, ComparableVerdict::No);
    assert!(found.comparable.reasons.iter().any(|r| r.contains("a0 is twice")));
}

#[test]
fn margins_begin_to_widen_at_p99() {
    let margin = |p: &str| {
        figures::usual_margin(taillight_core::plan::Figure::Percentile(p.parse().expect("p")))
    };
    assert_eq!([margin("95.5"), margin("98.9"), margin("99")], [0.05, 0.05, 0.10]);
    assert_eq!(margin("99.9"), 0.20);
}

#[test]
fn disturbed_pairs_are_dropped_by_the_rule_and_counted() {
    let stolen = |n: usize, percent: f64| {
        let mut of = pairs(6, 1.5, 1.0);
        for pair in of.iter_mut().take(n) {
            let load = serde_json::json!({"during": {"steal_percent": percent}});
            pair.new.manifest.environment.insert("load".to_owned(), load);
        }
        paired(&of, 6, Some(("read:p99", GateFail::Worse)))
    };
    let dropped = |found: &CompareFile| found.pairs.as_ref().expect("pairs").dropped.len();
    let one = stolen(1, 9.0);
    assert_eq!((dropped(&one), verdict(&one, "p99")), (1, CompareVerdict::Worse));
    assert!(words(&one).contains("Dropped: 1 pair"), "{}", words(&one));
    let two = stolen(2, 9.0);
    assert_eq!((dropped(&two), verdict(&two, "p99")), (2, CompareVerdict::Undecided));
    assert_eq!(two.gate.expect("a gate").status, GateStatus::Undecided);
    assert_eq!(dropped(&stolen(6, 1.0)), 0);
    let mut virtual_time = pairs(6, 1.5, 1.0);
    for run in virtual_time.iter_mut().flat_map(|p| [&mut p.base, &mut p.new]) {
        let load = serde_json::json!({"during": {"steal_percent": 50.0}});
        run.manifest.environment.insert("load".to_owned(), load);
        run.manifest.clock.source = "virtual".to_owned();
    }
    assert_eq!(dropped(&paired(&virtual_time, 6, None)), 0);
}

#[test]
fn the_place_in_a_pair_is_tested_and_told() {
    let found = paired(&pairs(8, 1.0, 1.2), 8, None);
    let p99 = found.figures.iter().find(|f| f.figure == "p99").expect("p99");
    let effect = p99.position.as_ref().expect("an effect");
    assert!((effect.ratio - 1.2).abs() < 0.02 && effect.p < 0.01, "{effect:?}");
    assert!((p99.ratio.expect("a ratio") - 1.0).abs() < 0.01, "as often second: free of it");
    assert!(words(&found).contains("against first: read iops -"), "{}", words(&found));
    let none = paired(&pairs(8, 1.2, 1.0), 8, None);
    assert!(words(&none).contains("no effect is seen"), "{}", words(&none));
    let said = console(&paired(&pairs(2, 1.2, 1.2), 6, None));
    assert_eq!(said.matches("fewer than three pairs").count(), 1, "{said}");
    assert!(said.contains("Partial: 2 of 6 pairs so far."), "{said}");
    let few = paired(&pairs(3, 1.2, 1.2), 3, None);
    assert!(few.figures.iter().all(|f| f.position.is_none()));
}

#[test]
fn another_unit_or_the_same_run_is_refused() {
    let judged = |change: &dyn Fn(&mut SideRun)| {
        let mut new = side("b", 3, 1.0);
        new.iter_mut().for_each(change);
        let found = compare(&side("a", 3, 1.0), &new, &CompareRequest::default());
        let found = found.expect("a comparison").comparable;
        (found.verdict, found.reasons.concat())
    };
    let (verdict, text) = judged(&|run| run.manifest.clock.source = "virtual".to_owned());
    assert!(verdict == ComparableVerdict::No && text.contains("virtual"), "{text}");
    let (verdict, text) = judged(&|run| run.manifest.plan.workloads[0].batch = 8);
    assert!(verdict == ComparableVerdict::Doubtful && text.contains("another batch"), "{text}");
    let (verdict, text) = judged(&|run| {
        let totals = run.summary.ops[&OpKind::Read].clone();
        run.summary.ops.insert(OpKind::Write, totals);
    });
    assert!(verdict == ComparableVerdict::Yes && text.contains("have no write"), "{text}");
    let same = compare(&side("a", 3, 1.0), &side("a", 3, 1.0), &CompareRequest::default());
    let same = same.expect("a comparison").comparable;
    assert!(same.verdict == ComparableVerdict::No && same.reasons[0].contains("both sides"));
}

/// How many ranks ran is not in the plan, which is the same.
#[test]
fn runs_of_another_number_of_ranks_differ_in_that() {
    let (mut base, mut new) = (run("a", 1.0, 1.0), run("b", 1.0, 1.0));
    base.manifest.origin = RunOrigin::Merged { ranks: 2 };
    new.manifest.origin = RunOrigin::Merged { ranks: 4 };
    let said = comparable::judge(&[&base], &[&new]).reasons.join("; ");
    assert!(said.contains("the sides differ in ranks"), "{said}");
    new.manifest.origin = RunOrigin::Merged { ranks: 2 };
    let said = comparable::judge(&[&base], &[&new]).reasons.join("; ");
    assert!(!said.contains("ranks"), "{said}");
}

#[test]
fn what_another_tool_did_not_say_is_no_difference() {
    let (mut base, new) = (run("a", 1.0, 1.0), run("b", 1.0, 1.0));
    base.manifest.origin = RunOrigin::Imported(ImportSource {
        tool: "fio".to_owned(),
        version: None,
        file: "a.json".to_owned(),
        file_sha256: "0".to_owned(),
        file_crc32: String::new(),
        fidelity: Fidelity::Bins,
        spans: "clat".to_owned(),
        notes: Vec::new(),
        failed: Vec::new(),
    });
    base.manifest.plan.target.options.clear();
    base.manifest.environment.clear();
    // The same shares in other weights.
    base.manifest.plan.workloads[0].mix.iter_mut().for_each(|part| part.weight *= 500);
    let found = comparable::judge(&[&base], &[&new]);
    assert_eq!(found.verdict, ComparableVerdict::Yes, "{:?}", found.reasons);
    let said = found.reasons.join("; ");
    assert!(said.contains("fio: clat") && !said.contains("kernel"), "{said}");
    // A job that an error ended is as doubtful as failed I/Os.
    if let RunOrigin::Imported(source) = &mut base.manifest.origin {
        source.failed.push(FailedJob { job: "a".to_owned(), errno: 5 });
    }
    assert_eq!(comparable::judge(&[&base], &[&new]).verdict, ComparableVerdict::Doubtful);
    // A measured run without the same facts does differ.
    base.manifest.origin = RunOrigin::Measured;
    base.manifest.environment.insert("system".to_owned(), serde_json::json!({"kernel": "1.0"}));
    let said = comparable::judge(&[&base], &[&new]).reasons.join("; ");
    assert!(said.contains("kernel"), "{said}");
}
