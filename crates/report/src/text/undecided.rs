//! What is said of a ceiling that a run did not decide.

use taillight_rundir::summary::Qos;

use super::format::duration;

/// How long to measure instead, with the option that says it, or why no length will do. `measured_ns` is
/// how long the run measured.
#[must_use]
pub fn undecided(q: &Qos, measured_ns: u64) -> String {
    let count = q.count.filter(|count| *count > 0);
    if q.ends_missing {
        return "kept over the run as a whole, but its last sixth would miss it: measure on, to know \
                whether that lasts"
            .to_owned();
    }
    match (q.decides_at, count) {
        (Some(needed), Some(count)) => {
            let seconds = (needed as f64 / count as f64 * measured_ns as f64 / 1e9).ceil();
            let long = duration(seconds * 1e9);
            format!(
                "if the share stays what it is, {long} of measuring decide it (--runtime {seconds}s)"
            )
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
        let mut q = taillight_rundir::fixture::summary("r").qos.remove(0);
        q.decides_at = q.count.map(|n| n * 3 / 2);
        let said = undecided(&q, 60_000_000_000);
        assert!(said.contains("--runtime 90s"), "{said}");
        q.decides_at = None;
        assert!(undecided(&q, 1).contains("too close"));
        q.ends_missing = true;
        assert!(undecided(&q, 1).contains("last sixth"));
        (q.ends_missing, q.needs) = (false, None);
        assert!(undecided(&q, 1).contains("no length"));
    }
}
