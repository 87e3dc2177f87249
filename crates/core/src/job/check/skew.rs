//! Checks the parameters of `access`: each of skewed access, except `scatter`, belongs to exactly one pattern and has
//! a range; those of operations in sequence (`run_length`, `sequential_percent`, `walks`, `files`) exclude some others.

use super::{Checked, ensure};
use crate::plan::{Access, AccessKind, FileOrder};

/// Smallest deviation that normal access can draw with, as a share of the space.
const LEAST_DEVIATION: f64 = 1e-12;

/// Checks the parameters that only some patterns have; `align`, `offset`, `length`, `stride` and `cover` are checked in
/// `workload`.
pub(super) fn skew(a: &Access, path: &str) -> Checked {
    owners(a, path)?;
    let field = |name: &str| format!("{path}.{name}");
    let share = |x: f64| (0.0..=1.0).contains(&x);
    if let Some(theta) = a.theta {
        ensure(
            theta.is_finite() && theta > 0.0 && theta <= 100.0,
            &field("theta"),
            format!("{theta} is no exponent"),
            "use a number above 0 and at most 100, like 0.99; larger is more skewed",
        )?;
    }
    if let Some(h) = a.h {
        ensure(
            h > 0.0 && h < 1.0,
            &field("h"),
            format!("{h} is not between 0 and 1"),
            "0.2 sends 80 % of the accesses to 20 % of the space",
        )?;
    }
    if let Some(hot) = a.hot {
        for (name, value) in [("space", hot.space), ("share", hot.share)] {
            ensure(
                share(value) && value > 0.0,
                &field("hot"),
                format!("{name} is {value}: it must be above 0 and at most 1"),
                "write hot = { space = 0.2, share = 0.8 }",
            )?;
        }
    }
    if let Some(r) = a.reach {
        let fix = "write reach = { percentile = 95.0, space = 0.86 }";
        ensure(
            r.percentile > 0.0 && r.percentile < 100.0,
            &field("reach"),
            format!("percentile is {}: it must be above 0 and below 100", r.percentile),
            fix,
        )?;
        ensure(
            share(r.space) && r.space > 0.0,
            &field("reach"),
            format!("space is {}: it must be above 0 and at most 1", r.space),
            fix,
        )?;
    }
    if a.kind == AccessKind::Normal {
        ensure(
            a.deviation.is_some_and(|d| (LEAST_DEVIATION..=1.0).contains(&d)),
            &field("deviation"),
            "normal access needs a deviation above 0 and at most 1, as a share of the space",
            "write access = { kind = \"normal\", deviation = 0.1 }",
        )?;
        ensure(
            a.center.is_some_and(share),
            &field("center"),
            "the centre is not between 0 and 1",
            "0.5 is the middle of the space",
        )?;
    }
    zones(a, &field("zones"))?;
    runs(a, &field)
}

/// Patterns and ranges of `run_length` and `sequential_percent` (operations in sequence among drawn ones), and of
/// `walks` and `files` (walks that a worker does side by side).
fn runs(a: &Access, field: &dyn Fn(&str) -> String) -> Checked {
    let some = a.run_length.is_some() || !a.sequential_percent.is_empty();
    let name = if a.run_length.is_some() { "run_length" } else { "sequential_percent" };
    ensure(
        !some || a.kind.draws() || (a.stride.is_some() && a.sequential_percent.is_empty()),
        &field(name),
        "access in order is a sequence already",
        "leave it out, or use a pattern that draws, like random",
    )?;
    ensure(
        a.run_length != Some(0) && a.sequential_percent.values().all(|percent| *percent <= 100),
        &field(name),
        "it is zero, or above 100 percent",
        "write run_length = 8, or sequential_percent = { read = 90 }",
    )?;
    let some = some && a.kind.draws();
    let walks = a.walks.is_some() || a.files != FileOrder::Sequence;
    ensure(
        !walks || a.kind == AccessKind::Sequential || (some && a.files == FileOrder::Sequence),
        &field(if a.walks.is_some() { "walks" } else { "files" }),
        "only sequential access has it, and walks those with operations in sequence",
        "use kind = \"sequential\", or leave it out",
    )?;
    ensure(
        !walks || a.run_length.is_none() || a.stride.is_none(),
        &field("stride"),
        "a sequence of runs with gaps has no walks, and no files in turns",
        "leave the stride out, or walks and files",
    )?;
    ensure(
        a.walks.is_none_or(|walks| {
            (1..=u32::from(u16::MAX)).contains(&walks) && a.files == FileOrder::Sequence
        }),
        &field("walks"),
        "it is zero, above 65,535, or there are files in turns as well",
        "give walks or files, not both",
    )
}

/// Zones of zoned access: every zone has space, and one at least a share. Both are weights; their sums fit 32 bits.
fn zones(a: &Access, path: &str) -> Checked {
    if a.kind != AccessKind::Zoned {
        return Ok(());
    }
    let sum =
        |f: fn(&crate::plan::Zone) -> u32| a.zones.iter().map(|z| u64::from(f(z))).sum::<u64>();
    ensure(
        sum(|z| z.share) > 0
            && a.zones.iter().all(|z| z.space > 0)
            && sum(|z| z.share) <= u64::from(u32::MAX)
            && sum(|z| z.space) <= u64::from(u32::MAX),
        path,
        "zoned access needs parts with space and a sum of shares above 0",
        "write zones = [{ space = 10, share = 60 }, { space = 90, share = 40 }]",
    )
}

/// A parameter written for another pattern is a mistake.
fn owners(a: &Access, path: &str) -> Checked {
    use AccessKind::{Exponential, Hotspot, Normal, Pareto, Zipf, Zoned};
    let written: [(&str, bool, AccessKind); 7] = [
        ("theta", a.theta.is_some(), Zipf),
        ("h", a.h.is_some(), Pareto),
        ("hot", a.hot.is_some(), Hotspot),
        ("reach", a.reach.is_some(), Exponential),
        ("center", a.center.is_some(), Normal),
        ("deviation", a.deviation.is_some(), Normal),
        ("zones", !a.zones.is_empty(), Zoned),
    ];
    for (name, there, owner) in written {
        let word = format!("{owner:?}").to_lowercase();
        ensure(
            !there || a.kind == owner,
            &format!("{path}.{name}"),
            format!("only {word} access has it"),
            format!("use kind = \"{word}\", or leave {name} out"),
        )?;
    }
    ensure(
        !a.scatter || matches!(a.kind, Zipf | Pareto | Hotspot),
        &format!("{path}.scatter"),
        "only zipf, pareto and hotspot access can scatter their hot places",
        "leave scatter out; kind = \"scrambled\" is YCSB's zipfian, scattered",
    )
}
