//! A search in words and tables, on the console and in the report.

use taillight_core::Percentile;
use taillight_core::plan::{Arrival, Plan};
use taillight_report::format::{count, counted, duration, duration_ns, percent, rate};
use taillight_report::table::{Cell, Table, Tone};
use taillight_rundir::search::{
    ProbePurpose, ProbeReason, ProbeVerdict, SearchOutcome, SearchProbe, SearchReport, Varied,
};
use taillight_rundir::summary::ShareOver;

/// Columns of the console table, of those of the report, and how wide each is.
const SHOWN: [(usize, usize); 6] = [(0, 5), (1, 12), (3, 10), (4, 8), (7, 26), (8, 0)];

fn headings(all: &SearchReport) -> [String; 9] {
    let at = format!("{} %", all.at);
    let over = format!("over {}", duration_ns(all.ceiling_ns));
    ["probe", "demand", "why", "achieved", &at, "95 % interval", "I/Os", &over, "verdict"]
        .map(str::to_owned)
}

fn cells(all: &SearchReport, p: &SearchProbe) -> [String; 9] {
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), duration_ns);
    let interval = match (p.lo_ns, p.hi_ns) {
        (None, None) => "-".to_owned(),
        (lo, hi) => format!("{} to {}", time(lo), time(hi)),
    };
    [
        p.number.to_string(),
        p.shown.clone(),
        why(p.purpose).to_owned(),
        format!("{}/s", rate(p.achieved_per_s)),
        time(p.ns.or(p.observed_ns)),
        interval,
        count(p.count),
        p.share.map_or("-".to_owned(), |share| over(&share)),
        verdict(all, p),
    ]
}

/// `0.35 % (0.1 % to 1.2 %)`.
fn over(share: &ShareOver) -> String {
    let known = share.share.map_or("-".to_owned(), percent);
    format!("{known} ({} to {})", percent(share.lo), percent(share.hi))
}

fn line_of(cells: &[String]) -> String {
    let mut line = String::new();
    for (column, width) in SHOWN {
        line.push_str(&format!("{:>width$}  ", cells[column]));
    }
    line.trim_end().to_owned()
}

/// The heading of the console table.
pub fn header(all: &SearchReport) -> String {
    line_of(&headings(all))
}

/// A probe's line of the console table.
pub fn line(all: &SearchReport, p: &SearchProbe) -> String {
    line_of(&cells(all, p))
}

fn why(purpose: ProbePurpose) -> &'static str {
    match purpose {
        ProbePurpose::Lowest => "lowest",
        ProbePurpose::Highest => "highest",
        ProbePurpose::Between => "halves",
        ProbePurpose::Longer => "longer",
        ProbePurpose::Verify => "verify",
    }
}

pub fn word(verdict: ProbeVerdict) -> &'static str {
    match verdict {
        ProbeVerdict::Pass => "pass",
        ProbeVerdict::Fail => "fail",
        ProbeVerdict::Undecided => "undecided",
        ProbeVerdict::Unfinished => "unfinished",
    }
}

/// The verdict on a probe, with what it rests on where that is not the percentile.
pub fn verdict(all: &SearchReport, p: &SearchProbe) -> String {
    let word = word(p.verdict);
    let why = match (p.reason, p.asked_per_s) {
        (ProbeReason::Saturated, Some(asked)) => format!("saturated, {}/s asked", rate(asked)),
        (ProbeReason::Saturated, None) => "saturated".to_owned(),
        (ProbeReason::Errors, _) => "I/O errors".to_owned(),
        (ProbeReason::TooFew, _) => match p.needs {
            Some(needs) => format!("too few I/Os, {} needed", count(needs)),
            None => "no number of I/Os is enough".to_owned(),
        },
        (ProbeReason::NeedsTime, _) => match seconds_more(p) {
            Some(more) => format!("needs {more} more"),
            None => String::new(),
        },
        (ProbeReason::LevelChanged, _) => match p.changed_at_s {
            Some(at_s) => format!("its level changed at second {}", figure(at_s)),
            None => "its last sixth would miss it".to_owned(),
        },
        (ProbeReason::AtCeiling, _) => format!("close to the {} allowed", allowed(all)),
        _ => String::new(),
    };
    let why = if why.is_empty() { why } else { format!(": {why}") };
    let counts = if p.counted_as_failed { "; counts as failed" } else { "" };
    format!("{word}{why}{counts}")
}

/// A moment with the digits that matter.
fn figure(at_s: f64) -> String {
    if at_s >= 20.0 { format!("{at_s:.0}") } else { format!("{at_s:.1}") }
}

/// The share of I/Os that may be over the ceiling.
fn allowed(all: &SearchReport) -> String {
    all.at.parse::<Percentile>().map_or("share".to_owned(), |at| percent(at.tail_share()))
}

/// How much longer than the probe was takes a decision, if the share over the ceiling stays what it is.
fn seconds_more(p: &SearchProbe) -> Option<String> {
    let more = p.decides_at?.saturating_sub(p.count) as f64 / p.count.max(1) as f64;
    Some(duration((more * p.length_ns as f64 / 1e9).ceil() * 1e9))
}

/// What is about to be done.
pub fn intention(all: &SearchReport, plan: &Plan, workload: usize) -> String {
    let what = match all.varied {
        Varied::Rate => "the highest rate",
        Varied::QueueDepth => "the highest queue depth",
    };
    let arrival = match (all.varied, &plan.workloads[workload].arrival) {
        (Varied::Rate, Arrival::Constant { .. }) => ", constant arrivals",
        (Varied::Rate, _) => ", Poisson arrivals",
        (Varied::QueueDepth, _) => ", closed loop",
    };
    format!(
        "Searching {what} of `{}` whose {} % response time stays under {}{arrival}",
        all.workload,
        all.at,
        duration_ns(all.ceiling_ns)
    )
}

pub fn title(all: &SearchReport) -> String {
    match &all.answer {
        Some(answer) => format!("{}: {}", all.name, at_least(all, &answer.shown)),
        None => format!("{}: search", all.name),
    }
}

/// A demand that passed: the highest that does may lie above it.
fn at_least(all: &SearchReport, shown: &str) -> String {
    match all.varied {
        Varied::Rate => format!("at least {}", grouped(shown)),
        Varied::QueueDepth => format!("at least {shown}"),
    }
}

/// `41300/s` as `41,300/s`.
fn grouped(shown: &str) -> String {
    let digits = shown.find(|c: char| !c.is_ascii_digit()).unwrap_or(shown.len());
    let (number, unit) = shown.split_at(digits);
    number.parse().map_or(shown.to_owned(), |number: u64| format!("{}{unit}", count(number)))
}

/// The result in words.
pub fn text(all: &SearchReport) -> String {
    let ceiling = duration_ns(all.ceiling_ns);
    let at = &all.at;
    if let Some(answer) = &all.answer {
        let kept = format!(
            "{}: in {} separate probes the {at} % response time of `{}` stayed under {ceiling}, \
             with {} % confidence over all looks at it.",
            at_least(all, &answer.shown),
            answer.probes.len(),
            all.workload,
            answer.confidence * 100.0
        );
        return format!("The answer is {kept} {}", limit(all));
    }
    match all.outcome {
        SearchOutcome::NothingPasses => {
            let lowest = all.probes.last();
            let why = lowest.map_or("fails".to_owned(), |p| reason(all, p));
            format!("No answer: the lowest demand already fails: {why}.")
        }
        SearchOutcome::Undecided => undecided(all),
        _ => format!(
            "The search was ended after {}; what was measured is kept.",
            counted(all.probes.len() as u64, "probe")
        ),
    }
}

/// Why there is no answer, from the lowest demand that is undecided, and what helps.
fn undecided(all: &SearchReport) -> String {
    let open = all.probes.iter().filter(|p| p.verdict == ProbeVerdict::Undecided);
    let lowest = open.rev().min_by(|a, b| a.value.total_cmp(&b.value));
    let Some(p) = lowest else {
        return "No answer: demands that passed did not pass again.".to_owned();
    };
    format!(
        "No answer: the probes do not decide it. At {} {}. {}.",
        grouped(&p.shown),
        reason(all, p),
        help(p)
    )
}

/// What helps where a probe decides nothing. Numbers are lower limits: where the share as it is decides nothing, no
/// length is promised.
fn help(p: &SearchProbe) -> String {
    let least = p.decides_at.max(p.needs).filter(|_| p.count > 0 && p.decides_at.is_some());
    match (p.reason, least) {
        (ProbeReason::TooFew | ProbeReason::NeedsTime, Some(ios)) => {
            let times = ios as f64 / p.count as f64;
            let length = duration((times * p.length_ns as f64 / 1e9).ceil() * 1e9);
            format!("It takes a `search.probe` of {length} at least")
        }
        (ProbeReason::LevelChanged, _) => {
            "Find what changes the level, or make `search.probe` much longer".to_owned()
        }
        _ => "Give a `from` that clearly passes, or another ceiling".to_owned(),
    }
}

/// What limits the answer.
fn limit(all: &SearchReport) -> String {
    let Some(above) = all.answer.as_ref().and_then(|a| a.failed_above) else {
        return "It is the top of the range: the limit may lie higher.".to_owned();
    };
    match all.probes.iter().rfind(|p| p.value == above) {
        Some(p) => format!("What limits it: at {} {}.", grouped(&p.shown), reason(all, p)),
        None => format!("What limits it: {above} does not pass."),
    }
}

/// `33 of 10,000 I/Os took longer than 20 ms, which is 0.33 % (0.2 % to 0.52 %), 99 % of this probe's within 4.10 ms`
fn figures(all: &SearchReport, p: &SearchProbe) -> String {
    let ceiling = duration_ns(all.ceiling_ns);
    let own = p.ns.or(p.observed_ns);
    let own = own.map_or(String::new(), |ns| {
        format!(", {} % of this probe's within {}", all.at, duration_ns(ns))
    });
    let share = p.share.map_or(String::new(), |share| format!(", which is {}", over(&share)));
    match p.above {
        Some(0) => format!("no I/O of {} took longer than {ceiling}{own}", count(p.count)),
        Some(above) => format!(
            "{} of {} I/Os took longer than {ceiling}{share}{own}",
            count(above),
            count(p.count)
        ),
        None => format!("{} I/Os were measured{own}", count(p.count)),
    }
}

/// What a probe says that did not pass, with its figures.
fn reason(all: &SearchReport, p: &SearchProbe) -> String {
    let seen = || figures(all, p);
    let (at, allowed) = (&all.at, allowed(all));
    let said = match p.reason {
        ProbeReason::Ceiling => format!("{}; {allowed} may", seen()),
        ProbeReason::Saturated => "the target does not keep up (saturated)".to_owned(),
        ProbeReason::Errors => "I/Os fail".to_owned(),
        ProbeReason::TooFew => match p.needs {
            Some(needs) => format!(
                "{}; these are too few to say so of {at} %: {} are needed at least",
                seen(),
                count(needs)
            ),
            None => format!("{}; no number of I/Os is enough for {at} %", seen()),
        },
        ProbeReason::NeedsTime => format!(
            "{}; {allowed} may, and if the share stays what it is, {} more of measuring decide it",
            seen(),
            seconds_more(p).unwrap_or_default()
        ),
        ProbeReason::LevelChanged => {
            let when = p.changed_at_s.map(|s| format!("the level changed at second {}", figure(s)));
            let ends = p
                .ends_missing
                .then(|| "the last sixth would miss the ceiling by itself".to_owned());
            let both: Vec<String> = when.into_iter().chain(ends).collect();
            format!("{}: {}", both.join(" and "), seen())
        }
        ProbeReason::AtCeiling => {
            format!("{}; that is too close to the allowed {allowed} to be told from it", seen())
        }
        ProbeReason::Undecided => format!("{}; {allowed} may, which does not decide it", seen()),
        ProbeReason::Unfinished => "the probe was ended".to_owned(),
    };
    match p.counted_as_failed {
        true => format!("{said}; that counts as failed"),
        false => said,
    }
}

/// The probes as a table of the report, in the order they ran.
pub fn table(all: &SearchReport) -> Table {
    let row = |p: &SearchProbe| {
        let tone = match p.verdict {
            ProbeVerdict::Pass => Tone::Good,
            ProbeVerdict::Fail => Tone::Bad,
            ProbeVerdict::Undecided | ProbeVerdict::Unfinished => Tone::Warn,
        };
        let mut row: Vec<Cell> = cells(all, p).into_iter().map(Cell::new).collect();
        if let Some(last) = row.last_mut() {
            last.tone = tone;
        }
        row
    };
    let mut table = Table::new("probes", "Probes in the order they ran", &[]);
    table.columns = headings(all).to_vec();
    table.note = Some(
        "A probe passes when the whole interval of the share over the ceiling is under the allowed share and \
         the demand was met. That interval is at the error that up to four looks at a demand share, so it is \
         wider than one of 95 %; the percentile is the probe's own. An undecided probe is measured for \
         longer, and in the end counts as failed. Every further look has new random draws."
            .to_owned(),
    );
    table.rows = all.probes.iter().map(row).collect();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "A `search.probe` of 12 s would do" was said of a lower limit, also where no length decides it.
    #[test]
    fn no_length_is_promised() {
        let probe = |reason: &str, needs: u64, decides_at: Option<u64>| {
            let probe = serde_json::json!({
                "number": 1, "dir": "01", "value": 1.0, "shown": "1/s", "purpose": "lowest",
                "length_ns": 10_000_000_000u64, "seed": 1, "achieved_per_s": 1.0, "count": 1_000,
                "needs": needs, "decides_at": decides_at, "verdict": "undecided", "reason": reason,
                "counted_as_failed": true
            });
            help(&serde_json::from_value(probe).expect("a probe"))
        };
        let least = "It takes a `search.probe` of 30.0 s at least";
        assert_eq!(probe("needs_time", 1_200, Some(3_000)), least);
        assert_eq!(probe("too_few", 3_000, Some(3_000)), least);
        assert!(probe("too_few", 3_000, None).starts_with("Give a `from`"));
        assert!(probe("level_changed", 3_000, Some(3_000)).starts_with("Find what"));
    }
}
