//! `steadystate`: a run that ends once it is steady (`steadystate.c` of fio; tried with fio 3.33).

use taillight_core::Error;
use taillight_core::plan::{SteadyEnd, SteadyEndRule, SteadyFigure};
use taillight_core::units::Span;

use super::read::SectionReader;
use super::section::JobSection;

const SECOND: u64 = 1_000_000_000;

/// What a section asks, and how often fio looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SectionSteady {
    pub end: SteadyEnd,
    pub interval: Span,
    /// Whether the jobs of the section are judged together (`group_reporting`).
    pub grouped: bool,
}

/// Reads `steadystate` and its times. `None` without a duration: it ends nothing then.
pub fn steady(r: &SectionReader<'_>) -> Option<SectionSteady> {
    const NAME: &str = "steadystate";
    let Some(window) = r.time("steadystate_duration", SECOND) else {
        r.note_if(NAME, "without steadystate_duration it ends nothing, in fio as here");
        return None;
    };
    let interval = r.time("steadystate_check_interval", SECOND).unwrap_or(Span(SECOND));
    if window.0 / 2 < interval.0 {
        return r.wrong("steadystate_duration", "it is shorter than two checks", None);
    }
    let end = match r.line(NAME) {
        Some(_) => r.value(NAME, |text| rule(text, window))?,
        None => rule("iops_slope:0.01%", window).ok()?,
    };
    let ramp = r.time("steadystate_ramp_time", SECOND).unwrap_or_default();
    r.note_if(
        "steadystate_duration",
        "the run ends once its intervals are steady by fio's rule, looked at when an interval is over; the report is of \
         the whole run, as fio's",
    );
    let grouped = r.boolean("group_reporting", false);
    if !grouped && r.small_integer("numjobs").is_some_and(|n| n > 1) {
        r.note_if(
            NAME,
            "its jobs are judged and end together, as with group_reporting; in fio each by itself",
        );
    }
    Some(SectionSteady { end: SteadyEnd { ramp, ..end }, interval, grouped })
}

/// `iops:10%`, `bw_slope:0.1%`, `iops:500`.
fn rule(text: &str, window: Span) -> Result<SteadyEnd, String> {
    let (kind, limit) =
        text.split_once(':').ok_or("it needs a limit, as in iops:10%; fio refuses this too")?;
    let (figure, rule) = match kind.strip_suffix("_slope") {
        Some(figure) => (figure, SteadyEndRule::Slope),
        None => (kind, SteadyEndRule::Deviation),
    };
    let figure = match figure {
        "iops" => SteadyFigure::Iops,
        "bw" => SteadyFigure::Bandwidth,
        "lat" => SteadyFigure::Latency,
        _ => return Err("it is of iops, bw or lat, perhaps with _slope".to_owned()),
    };
    let (number, absolute) = match limit.trim().strip_suffix('%') {
        Some(share) => (share.trim_end_matches('%'), false),
        None => (limit.trim(), true),
    };
    let limit: f64 = number.trim().parse().map_err(|_| format!("`{limit}` is no limit"))?;
    if !(limit.is_finite() && limit > 0.0) {
        return Err(format!("a limit of {limit} is never reached"));
    }
    let limit = if absolute { limit } else { limit / 100.0 };
    Ok(SteadyEnd { figure, rule, limit, absolute, window, ramp: Span(0) })
}

/// The rule that ends a group once it is steady: that of its first section that has one. Complains where fio would
/// judge its sections apart.
pub fn of_group(group: &[JobSection], wrong: &mut Vec<Error>) -> Option<SectionSteady> {
    let first = group.iter().find_map(|s| s.steady)?;
    let alone = group.iter().all(|s| s.part_of.is_some() && s.part_of == group[0].part_of);
    let together = group.iter().all(|s| s.steady == Some(first) && first.grouped)
        && !group.iter().skip(1).any(|s| s.new_group);
    if group.len() > 1 && !alone && !together {
        let what = format!(
            "`steadystate` in [{}]: sections side by side end together here, fio judges each by itself unless all have \
             group_reporting and the same rule",
            group.iter().find(|s| s.steady.is_some()).map_or("", |s| s.name.as_str())
        );
        wrong.push(
            Error::usage(what)
                .with("at", &group[0].place)
                .hint("put stonewall between them, or group_reporting into [global]"),
        );
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_those_of_fio() {
        let window = Span(10 * SECOND);
        let of =
            |text| rule(text, window).map(|end| (end.figure, end.rule, end.limit, end.absolute));
        let (deviation, slope) = (SteadyEndRule::Deviation, SteadyEndRule::Slope);
        assert_eq!(of("iops:10%"), Ok((SteadyFigure::Iops, deviation, 0.1, false)));
        assert_eq!(of("bw_slope:0.5%"), Ok((SteadyFigure::Bandwidth, slope, 0.005, false)));
        assert_eq!(of("iops_slope:500"), Ok((SteadyFigure::Iops, slope, 500.0, true)));
        for bad in ["iops", "iops:", "iops:0%", "cpu:1%", "iops:-3", "iops:nan"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
