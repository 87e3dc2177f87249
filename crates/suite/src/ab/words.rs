//! What the method `ab` says before the first pair and after each, and its decisions for `series.json`.

use std::collections::BTreeMap;

use serde_json::Value;
use taillight_compare::{base_first, gate_words, primary, sentence};
use taillight_core::plan::Plan;
use taillight_rundir::compare::{CompareFile, ComparedFigure};
use taillight_rundir::series::Decision;
use taillight_stats::compare::{FEWEST_PAIRS, LookPlan};

use super::{AbRequest, AbSide};
use crate::differences::differences;

/// Pairs whose order is shown.
const SHOWN: u32 = 8;

/// What differs, the order, and the rules that are fixed from here on.
pub fn introduction([base, new]: &[AbSide; 2], request: &AbRequest) -> Vec<String> {
    let apart = apart(&base.plan, &new.plan);
    let apart = match apart.is_empty() {
        true => "the same as A: what is found is chance, or the place in a pair".to_owned(),
        false => apart.join("; "),
    };
    let turn = |pair: u32| if base_first(pair) { "AB" } else { "BA" };
    let order: Vec<&str> = (1..=request.pairs.min(SHOWN)).map(turn).collect();
    let more = if request.pairs > SHOWN { " ..." } else { "" };
    let looks = LookPlan::new(request.pairs);
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let early = match &request.compare.gate {
        None => "no gate: all pairs are run".to_owned(),
        Some(gate) => {
            let figures: Vec<String> = gate.figures.iter().map(ToString::to_string).collect();
            format!("ends early once the gate over {} is decided", figures.join(", "))
        }
    };
    let rule = request.drop.words();
    vec![
        format!("A (base): {}", base.name),
        format!("B (new): {}: {apart}", new.name),
        format!(
            "{} pairs at most: {}{more}; both of a pair with one seed, from {} up",
            request.pairs,
            order.join(" "),
            base.plan.run.seed
        ),
        format!(
            "{early}; looks from pair {FEWEST_PAIRS} on may each err in {} of cases, the last in {}",
            percent(looks.interim_alpha()),
            percent(looks.final_alpha())
        ),
        rule.map_or("no pair is dropped".to_owned(), |rule| {
            format!(
                "a pair is dropped if {rule}; with more than a fifth dropped nothing is decided"
            )
        }),
    ]
}

/// What new's plan has in another way than base's, but for name, seed, gate and memory budget.
fn apart(base: &Plan, new: &Plan) -> Vec<String> {
    let table = |plan: &Plan| {
        let mut plan = plan.clone();
        (plan.run.name, plan.run.seed, plan.gate) = (String::new(), 0, None);
        plan.capture.budget = taillight_core::units::ByteSize(0);
        plan.to_toml().ok()?.parse::<toml::Table>().ok()
    };
    match (table(base), table(new)) {
        (Some(base), Some(new)) => {
            differences(&base.into(), &new.into()).into_iter().map(|d| d.text).collect()
        }
        _ => Vec::new(),
    }
}

/// The answer so far.
pub fn line(found: &CompareFile) -> String {
    let (run, planned) = found.pairs.as_ref().map_or((0, 0), |p| (p.run, p.planned));
    let figures: Vec<String> = primary(found)
        .into_iter()
        .map(|f| format!("{} {} {}", f.op.name(), f.figure, sentence(f)))
        .collect();
    let gate = gate_words(found).map_or(String::new(), |gate| format!("\n  {gate}"));
    let answer = match figures.is_empty() {
        true => {
            let dropped = found.pairs.iter().flat_map(|p| &p.dropped);
            let dropped = dropped.map(|d| format!("pair {} is dropped: {}", d.pair, d.why));
            let why: Vec<_> = found.comparable.reasons.iter().cloned().chain(dropped).collect();
            format!("no answer: {}", why.join("; "))
        }
        false => figures.join("\n  "),
    };
    format!("pair {run} of {planned}: {answer}{gate}")
}

/// What one look said.
pub fn decisions(look: &CompareFile) -> Vec<Decision> {
    let Some(pairs) = look.pairs.as_ref().filter(|p| p.run >= FEWEST_PAIRS) else {
        return Vec::new();
    };
    let decision = |f: &ComparedFigure| {
        let known = [("ratio", f.ratio), ("lo", f.lo), ("hi", f.hi), ("alpha", Some(pairs.alpha))];
        let values = known.into_iter().filter_map(|(name, v)| Some((name.to_owned(), v?)));
        let verdict = serde_json::to_value(f.verdict).ok();
        Decision {
            rule: "look".to_owned(),
            round: pairs.run,
            points: Vec::new(),
            values: values.collect::<BTreeMap<_, _>>(),
            verdict: verdict.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned(),
            text: format!("{} {} {}", f.op.name(), f.figure, sentence(f)),
        }
    };
    primary(look).into_iter().map(decision).collect()
}
