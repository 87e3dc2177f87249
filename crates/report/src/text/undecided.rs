//! What is said of a ceiling that a run did not decide.

use taillight_rundir::Summary;
use taillight_rundir::origin::RunOrigin;
use taillight_rundir::summary::Qos;

use super::format::duration;
use super::origin::every_call_behind;

/// How long to measure instead, with the option that says it to whoever took the figures of `summary`, or why no length
/// will do.
#[must_use]
pub fn undecided(q: &Qos, summary: &Summary) -> String {
    let count = q.count.filter(|count| *count > 0);
    if q.ends_missing {
        let on = match summary.origin {
            RunOrigin::Watched { .. } => "watch on",
            RunOrigin::Imported(_) => "let the tool run longer",
            _ => "measure on",
        };
        return format!(
            "kept over the run as a whole, but its last sixth would miss it: {on}, to know whether that lasts"
        );
    }
    if summary.origin.is_watched() && count.is_none() {
        let how = every_call_behind(&summary.origin);
        return format!("not every latency of these is known{how}");
    }
    match (q.decides_at, count) {
        (Some(needed), Some(count)) => {
            let measured_ns = summary.totals.duration_ns as f64;
            let seconds = (needed as f64 / count as f64 * measured_ns / 1e9).ceil();
            let long = duration(seconds * 1e9);
            let option = match summary.origin {
                RunOrigin::Watched { .. } => format!(" (--for {seconds}s)"),
                RunOrigin::Imported(_) => String::new(),
                _ => format!(" (--runtime {seconds}s)"),
            };
            let of = if summary.origin.is_watched() { "watching" } else { "measuring" };
            format!("if the share stays what it is, {long} of {of} decide it{option}")
        }
        (None, _) if q.needs.is_none() => "no length of a run decides it".to_owned(),
        (_, None) => "nothing was measured".to_owned(),
        (None, Some(_)) => {
            "the share over it is too close to what is allowed for any length to decide".to_owned()
        }
    }
}

/// Of a ceiling that is missed by itself and not among all of the run.
#[must_use]
pub fn by_chance(ceilings: usize) -> String {
    format!(
        "missed if it were the only ceiling; of {ceilings} ceilings, chance alone misses one that often"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_or_a_reason() {
        let mut of = taillight_rundir::fixture::summary("r");
        of.totals.duration_ns = 60_000_000_000;
        let mut q = of.qos.remove(0);
        q.decides_at = q.count.map(|n| n * 3 / 2);
        assert!(undecided(&q, &of).contains("--runtime 90s"));
        of.origin = RunOrigin::watched("a");
        assert!(undecided(&q, &of).contains("--for 90s"), "`watch` has no --runtime");
        q.decides_at = None;
        assert!(undecided(&q, &of).contains("too close"));
        q.ends_missing = true;
        assert!(undecided(&q, &of).contains("last sixth"));
        (q.ends_missing, q.needs) = (false, None);
        assert!(undecided(&q, &of).contains("no length"));
        (q.count, of.origin) = (None, RunOrigin::watched("a"));
        let unseen = undecided(&q, &of);
        assert!(
            unseen.contains("is known (--exact 5%") && !unseen.contains("measured"),
            "{unseen}"
        );
    }
}
