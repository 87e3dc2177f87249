//! Checks `[search]`: it varies the rate or the queue depth of one measured workload over a range, and its probes end
//! by time.

use super::{Checked, ValidationError, at_is_percent, ensure};
use crate::plan::{Arrival, Plan, SearchPlan, WorkloadPlan};

/// Checks `[search]`; a plan without one passes.
pub(super) fn search(plan: &Plan) -> Checked {
    let Some(s) = &plan.search else {
        return Ok(());
    };
    ensure(
        s.rate.is_some() != s.queue_depth.is_some(),
        "search",
        "it varies either the rate or the queue depth",
        "write rate = { from = \"100/s\", to = \"100000/s\" } or queue_depth = { from = 1, to = 128 }",
    )?;
    let w = varied(s, plan)?;
    ends(s, plan)?;
    if let Some(r) = s.rate {
        arrival_has_a_rate(w)?;
        let size = w.mean_bytes();
        ensure(
            r.from.unit == r.to.unit && r.from.ops_per_s(size) < r.to.ops_per_s(size),
            "search.rate",
            format!("{} to {} is no range to search", r.from, r.to),
            "give from below to, both in operations or both in bytes",
        )?;
    }
    if let Some(d) = s.queue_depth {
        ensure(
            w.arrival.is_closed(),
            "search.queue_depth",
            format!(
                "workload `{}` has a rate ({}); its depth only limits how many operations overlap",
                w.name, w.arrival
            ),
            "leave arrival out of the workload, or search for the rate: \
             rate = { from = \"100/s\", to = \"100000/s\" }",
        )?;
        ensure(
            d.from > 0 && d.from < d.to,
            "search.queue_depth",
            format!("{} to {} is no range to search", d.from, d.to),
            "give from at least 1 and below to",
        )?;
    }
    at_is_percent("search.at", &s.at)?;
    ensure(
        s.ceiling.0 > 0 && s.probe.0 > 0,
        "search",
        "a ceiling or a probe of no time",
        "write ceiling = \"5ms\" and probe = \"10s\"",
    )?;
    ensure(
        s.precision > 0.0 && s.precision < 1.0,
        "search.precision",
        format!("{} is not between 0 and 1", s.precision),
        "0.05 means: known to 5 percent",
    )
}

fn varied<'a>(s: &SearchPlan, plan: &'a Plan) -> Result<&'a WorkloadPlan, ValidationError> {
    let names: Vec<&str> = plan.workloads.iter().map(|w| w.name.as_str()).collect();
    let names = names.join("`, `");
    let Some(index) = s.varied(plan) else {
        return Err(match &s.workload {
            Some(name) => ValidationError::new(
                "search.workload",
                format!("there is no workload called `{name}`"),
                format!("name one of `{names}`"),
            ),
            None => ValidationError::new(
                "search",
                "there are several workloads: which one is to be varied?",
                format!("write workload = \"NAME\" in [search], one of `{names}`"),
            ),
        });
    };
    let w = &plan.workloads[index];
    ensure(
        w.measured,
        "search.workload",
        format!("workload `{}` is load only and has no response time", w.name),
        "name a workload that is measured, or leave out measured = false",
    )?;
    Ok(w)
}

/// A probe ends by its time alone, and a run with a search has no `repeat`.
fn ends(s: &SearchPlan, plan: &Plan) -> Checked {
    let by_count = plan.run.operations.is_some() || plan.run.bytes.is_some();
    ensure(
        !by_count,
        if plan.run.operations.is_some() { "run.operations" } else { "run.bytes" },
        "the probes of a search end by time",
        "leave it out and write probe = \"10s\" in [search]",
    )?;
    ensure(
        plan.run.duration == Some(s.probe),
        "run.duration",
        format!("[search] says that a probe is measured for {}", s.probe),
        "leave the duration out and write probe = \"10s\" in [search]",
    )?;
    ensure(
        plan.run.repeat == 1,
        "run.repeat",
        "a search decides by itself how often it measures a point",
        "leave repeat out, or search first and repeat at what was found",
    )
}

/// Refuses a schedule with several rates or times of its own, of which none could be varied, and think time.
fn arrival_has_a_rate(w: &WorkloadPlan) -> Checked {
    let one =
        matches!(w.arrival, Arrival::Burst | Arrival::Constant { .. } | Arrival::Poisson { .. });
    ensure(
        one,
        "search.rate",
        format!("workload `{}` has a schedule of its own ({}), not one rate", w.name, w.arrival),
        "leave arrival out: the search then offers Poisson arrivals; or use kind = \"constant\"",
    )?;
    ensure(
        w.think.is_none(),
        "search.rate",
        format!("workload `{}` pauses between operations; a rate leaves no room for that", w.name),
        "leave think out, or search for the queue depth",
    )
}
