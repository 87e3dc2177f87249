//! `taillight search`: the highest demand (rate or queue depth) that stays under a ceiling, from flags or a job file.
//! Flags become a job with `[search]`, which `taillight run` runs; the search itself is `taillight_suite::search`.

use taillight_core::exit::Exit;
use taillight_core::job::{FlagValue, Job};
use taillight_core::{Error, Result};

use crate::args::{RunArgs, SearchArgs, SearchFlags};
use crate::run;

/// Runs the command. Errors: as [`as_run`] and `taillight run`.
pub fn main(args: SearchArgs) -> Result<Exit> {
    run::start(&as_run(args)?, None)
}

/// The arguments of a search as arguments of `run`. Errors: `Usage` for `--ops` and `--sweep`, which are no part of
/// a search.
pub fn as_run(args: SearchArgs) -> Result<RunArgs> {
    let SearchArgs { mut run, queue_depth, precision } = args;
    for (flag, given) in [("--ops", run.ops.is_some()), ("--sweep", !run.sweep.is_empty())] {
        if given {
            return Err(Error::usage("a search decides itself what is run, and for how long")
                .with("flag", flag)
                .hint(format!("leave it out, or use `taillight run` with {flag}")));
        }
    }
    let rate = run.rate.take();
    run.searched = Some(SearchFlags { rate, queue_depth, precision });
    Ok(run)
}

/// Puts what flags say of the search into the job: its range, precision, ceiling and the time of a probe. Errors:
/// `Usage` for a flag whose value fits no search, and for several ceilings.
pub fn apply(args: &RunArgs, range: &SearchFlags, job: &mut Job) -> Result<()> {
    // A job written for one run has no `search.probe`: its `run.duration` is the time of a probe.
    let duration = job.written().ok().filter(|_| !job.has("search.probe")).map(|w| w.run.duration);
    let of_file = duration.flatten().map(|span| span.to_string());
    for (flag, field, given) in [
        ("--rate", "search.rate", &range.rate),
        ("--queue-depth", "search.queue_depth", &range.queue_depth),
    ] {
        let Some(text) = given else { continue };
        let (from, to) = ends(flag, text)?;
        for (end, value) in [("from", from), ("to", to)] {
            let value = match flag {
                "--rate" => FlagValue::Text(value),
                _ => FlagValue::Toml(value),
            };
            job.apply(flag, &format!("{field}.{end}"), value)?;
        }
    }
    if let Some(precision) = &range.precision {
        let number = precision.parse::<f64>().ok().filter(|p| p.is_finite());
        let number = number.ok_or_else(|| {
            Error::usage("a precision is a share").with("--precision", precision).hint("like 0.05")
        })?;
        job.apply("--precision", "search.precision", FlagValue::Toml(&format!("{number:?}")))?;
    }
    if let Some(probe) = args.runtime.clone().or(of_file) {
        job.apply("--runtime", "run.duration", FlagValue::Text(&probe))?;
        job.apply("--runtime", "search.probe", FlagValue::Text(&probe))?;
    }
    match args.ceiling.as_slice() {
        [] => {}
        [one] => {
            let (ceiling, at) = run::ceiling_parts(one)?;
            job.apply("--ceiling", "search.ceiling", FlagValue::Text(ceiling))?;
            job.apply("--ceiling", "search.at", FlagValue::Text(at))?;
        }
        _ => {
            return Err(Error::usage("a search has one ceiling")
                .with("--ceiling", args.ceiling.join(", "))
                .hint("`taillight run` tests several at one demand"));
        }
    }
    Ok(())
}

/// Checks that the job, which has all other flags by now, has a range and a ceiling, and puts `--arrival` into it.
/// Errors: `Usage` where it has no range or no ceiling, and for `--arrival` where a queue depth is searched.
pub fn complete(args: &RunArgs, job: &mut Job) -> Result<()> {
    let wanted = ["search.rate", "search.queue_depth"];
    if !wanted.iter().any(|field| job.has(field)) {
        return Err(Error::usage("a search needs a range of demands").hint(
            "add --rate 100/s..100000/s or --queue-depth 1..128, or [search] to the job file",
        ));
    }
    if !job.has("search.ceiling") {
        return Err(Error::usage("a search needs a ceiling").hint(
            "add --ceiling 2ms@99.9: the response time that must hold, and for which share",
        ));
    }
    if let Some(kind) = args.arrival_name() {
        let of_file =
            job.written().ok().and_then(|w| w.search?.rate).map(|rate| rate.from.to_string());
        let Some(from) = of_file else {
            return Err(Error::usage(
                "a search for a queue depth has no arrivals: its loop is closed",
            )
            .with("--arrival", kind)
            .hint("leave it out, or search a rate: --rate 100/s..100000/s"));
        };
        let arrival = format!("{{ kind = \"{kind}\" }}");
        job.apply("--arrival", "workload.0.arrival", FlagValue::Toml(&arrival))?;
        job.apply("--arrival", "workload.0.arrival.rate", FlagValue::Text(&from))?;
    }
    Ok(())
}

/// Both ends of a range `FROM..TO`, as text; which is higher is not looked at. Errors: `Usage`.
fn ends<'a>(flag: &'static str, text: &'a str) -> Result<(&'a str, &'a str)> {
    let ends = text.split_once("..").map(|(from, to)| (from.trim(), to.trim()));
    let known = |end: &str| match flag {
        "--rate" => !end.is_empty(),
        _ => end.parse::<u32>().is_ok(),
    };
    ends.filter(|(from, to)| known(from) && known(to)).ok_or_else(|| {
        Error::usage("a search is between two values").with(flag, text).hint(match flag {
            "--rate" => "like --rate 100/s..100000/s",
            _ => "like --queue-depth 1..128",
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_two_ends() {
        assert_eq!(ends("--rate", "1/s..2/s").unwrap(), ("1/s", "2/s"));
        assert_eq!(ends("--queue-depth", "1..8").unwrap(), ("1", "8"));
        for (flag, wrong) in [
            ("--rate", "100/s"),
            ("--rate", "..5/s"),
            ("--queue-depth", "1..x"),
            ("--queue-depth", "1.."),
        ] {
            assert!(ends(flag, wrong).is_err(), "{wrong}");
        }
    }
}
