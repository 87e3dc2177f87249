//! Checks when the operations of a workload start and end: arrival rates, pauses, flow, ramp and passes, its own
//! begin, warm-up and end; also its nice value.

use super::{Checked, ensure};
use crate::plan::{AccessKind, Arrival, RunPlan, WorkloadPlan};
use crate::units::{ByteSize, Rate};

/// Checks `arrival`, then the pauses and the window of the workload.
pub(super) fn demand(w: &WorkloadPlan, run: &RunPlan, path: &str) -> Checked {
    let field = |name: &str| format!("{path}.{name}");
    match &w.arrival {
        Arrival::Burst => {}
        Arrival::Constant { rate: r } | Arrival::Poisson { rate: r } => {
            rate(w, run, *r, &field("arrival.rate"))?;
        }
        Arrival::Bursts { rate: r, on, off } => {
            rate(w, run, *r, &field("arrival.rate"))?;
            ensure(
                on.0 > 0 && off.0 > 0,
                &field("arrival"),
                "a burst or a pause of no time",
                "give on and off above zero, or use kind = \"constant\"",
            )?;
            let in_burst = r.ops_per_s(w.mean_bytes()) * on.0 as f64 / 1e9;
            ensure(
                in_burst >= 1.0,
                &field("arrival.on"),
                format!("{r} gives no whole operation in {on}"),
                "make on longer or the rate higher",
            )?;
        }
        Arrival::Steps { steps } => {
            ensure(
                !steps.is_empty(),
                &field("arrival.steps"),
                "the list is empty",
                "write steps = [{ rate = \"1000/s\", time = \"10s\" }]",
            )?;
            for (i, step) in steps.iter().enumerate() {
                let at = field(&format!("arrival.steps.{i}"));
                fastest(w, step.rate, &at)?;
                ensure(step.time.0 > 0, &at, "a step of no time", "give it a time")?;
            }
        }
        Arrival::Ramp { from, to, over } => {
            fastest(w, *from, &field("arrival.from"))?;
            fastest(w, *to, &field("arrival.to"))?;
            ensure(
                over.0 > 0,
                &field("arrival.over"),
                "a ramp of no time",
                "give it a time, like over = \"60s\"",
            )?;
        }
        Arrival::Replay { file } => ensure(
            !file.is_empty(),
            &field("arrival.file"),
            "no file named",
            "name a text file with one time a line, like 1.5ms",
        )?,
    }
    pauses(w, path)?;
    window(w, run, path)
}

/// Checks the begin, warm-up and end that a workload has of its own, and its nice value.
fn window(w: &WorkloadPlan, run: &RunPlan, path: &str) -> Checked {
    let ends = [
        ("duration", w.duration.map(|d| d.0)),
        ("operations", w.operations),
        ("bytes", w.bytes.map(|b| b.0)),
    ];
    for (name, value) in ends {
        let field = format!("{path}.{name}");
        ensure(value != Some(0), &field, "it is zero", "give a value above zero, or leave it out")?;
        ensure(
            value.is_none() || w.access.kind != AccessKind::Follow,
            &field,
            "writers and readers of a stream end together",
            "give the stream passes, or the run an end",
        )?;
    }
    let own = w.operations.is_some() || w.bytes.is_some();
    ensure(
        !own || (run.operations.is_none() && run.bytes.is_none()),
        &format!("{path}.operations"),
        "the run counts as well, and shares its amount evenly among all workers",
        "give the run no operations and bytes, or the workloads none",
    )?;
    let last = w.ramp.map_or(0, |r| {
        u64::from(w.workers.saturating_sub(1) / r.step.max(1)).saturating_mul(r.every.0)
    });
    ensure(
        w.duration.is_none_or(|d| last < d.0),
        &format!("{path}.duration"),
        "it is over before the last workers of the ramp join",
        "make it longer, or the ramp shorter",
    )?;
    ensure(
        w.warmup.is_none_or(|own| own.0 <= run.warmup.0.saturating_add(w.start_delay.0)),
        &format!("{path}.warmup"),
        "it would begin before the run: its warm-up is longer than that of the run and start_delay together",
        "make it shorter, or run.warmup longer",
    )?;
    ensure(
        w.nice.is_none_or(|nice| (-20..=19).contains(&nice)),
        &format!("{path}.nice"),
        "it is not between -20 and 19",
        "larger is nicer to others",
    )?;
    let delay = format!("{path}.start_delay");
    ensure(
        w.start_delay.0 == 0 || w.access.kind != AccessKind::Follow,
        &delay,
        "writers and readers of a stream begin together",
        "leave it out",
    )?;
    ensure(
        run.duration.is_none_or(|d| w.start_delay < d),
        &delay,
        format!("the run is over before, after {}", run.duration.unwrap_or_default()),
        "begin earlier, or run longer",
    )
}

fn pauses(w: &WorkloadPlan, path: &str) -> Checked {
    let think = format!("{path}.think");
    if let Some(t) = w.think {
        ensure(
            w.arrival.is_closed(),
            &think,
            "a schedule has its own times: think time is for a closed loop",
            "use arrival = \"burst\", or leave think out",
        )?;
        ensure(
            t.every > 0 && t.time.0 > 0 && t.after.is_none_or(|after| after.0 > 0),
            &think,
            "a pause of no time, or after no load",
            "write think = { time = \"1ms\", every = 1 }, or { time = \"5s\", after = \"5s\" }",
        )?;
    }
    ensure(
        w.flow.is_none_or(|flow| flow.share > 0),
        &format!("{path}.flow"),
        "a share of nothing: its workers would never start",
        "write flow = { share = 1 }",
    )?;
    ensure(
        w.flow.is_none() || (!w.end_to_end && w.access.kind != AccessKind::Follow),
        &format!("{path}.flow"),
        "readers of a stream follow its writers already",
        "leave it out",
    )?;
    if let Some(r) = w.ramp {
        ensure(
            r.step > 0 && r.every.0 > 0,
            &format!("{path}.ramp"),
            "no worker would ever join",
            "write ramp = { step = 1, every = \"10s\" }",
        )?;
    }
    let passes = format!("{path}.passes");
    let endless = w.access.kind.draws() && !w.access.cover;
    ensure(
        w.passes.is_none() || !endless,
        &passes,
        "operations drawn at random have no passes",
        "use sequential, reverse, strided, follow or random with cover = true, or leave it out",
    )?;
    ensure(w.passes != Some(0), &passes, "no pass at all", "give at least 1, or leave it out")
}

/// A rate that stays must ask for at least one operation in the run (without a duration: in an hour), and for at most
/// one a nanosecond.
fn rate(w: &WorkloadPlan, run: &RunPlan, rate: Rate, path: &str) -> Checked {
    let per_s = rate.ops_per_s(w.mean_bytes());
    let hour = 3_600_000_000_000;
    let time_ns = run.duration.map_or(hour, |d| d.0);
    ensure(
        per_s * time_ns as f64 / 1e9 >= 1.0,
        path,
        format!("{rate} rounds to zero operations in the run"),
        format!(
            "one operation of {} takes {:.0} s at this rate; raise it or run longer",
            ByteSize(w.mean_bytes() as u64),
            1.0 / per_s
        ),
    )?;
    fastest(w, rate, path)
}

fn fastest(w: &WorkloadPlan, rate: Rate, path: &str) -> Checked {
    let per_s = rate.ops_per_s(w.mean_bytes());
    ensure(
        per_s > 0.0,
        path,
        "a rate of zero",
        "give a rate above zero, or leave the workload out",
    )?;
    ensure(
        per_s <= 1e9,
        path,
        format!("{rate} is more than one operation a nanosecond"),
        "lower it, or use arrival = \"burst\" for full speed",
    )
}
