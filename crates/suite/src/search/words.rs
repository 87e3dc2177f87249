//! A search in words and tables, on the console and in the report.

use taillight_core::plan::Plan;
use taillight_report::format::{count, duration_ns, rate};
use taillight_report::table::{Cell, Table, Tone};
use taillight_rundir::search::{
    ProbePurpose, ProbeReason, ProbeVerdict, SearchOutcome, SearchProbe, SearchReport, Varied,
};

/// Columns of the console table, of those of the report, and how wide each is.
const SHOWN: [(usize, usize); 6] = [(0, 5), (1, 12), (3, 10), (4, 8), (5, 20), (7, 0)];

fn headings(all: &SearchReport) -> [String; 8] {
    let at = format!("{} %", all.at);
    ["probe", "demand", "why", "achieved", &at, "95 % interval", "I/Os", "verdict"]
        .map(str::to_owned)
}

fn cells(p: &SearchProbe) -> [String; 8] {
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
        time(p.ns),
        interval,
        count(p.count),
        verdict(p),
    ]
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
pub fn line(p: &SearchProbe) -> String {
    line_of(&cells(p))
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
pub fn verdict(p: &SearchProbe) -> String {
    let word = word(p.verdict);
    match (p.verdict, p.reason, p.asked_per_s) {
        (ProbeVerdict::Fail, ProbeReason::Saturated, Some(asked)) => {
            format!("fail: saturated, {}/s asked", rate(asked))
        }
        (ProbeVerdict::Fail, ProbeReason::Errors, _) => "fail: I/O errors".to_owned(),
        _ if p.counted_as_failed => format!("{word}, counts as failed"),
        _ => word.to_owned(),
    }
}

/// What is about to be done.
pub fn intention(all: &SearchReport, plan: &Plan, workload: usize) -> String {
    let what = match all.varied {
        Varied::Rate => "the highest rate",
        Varied::QueueDepth => "the highest queue depth",
    };
    let arrival = match (all.varied, &plan.workloads[workload].arrival) {
        (Varied::Rate, taillight_core::plan::Arrival::Poisson { .. }) => ", Poisson arrivals",
        (Varied::Rate, a) if a.is_closed() => {
            ", constant arrivals (the workload's full speed has no rate)"
        }
        (Varied::Rate, _) => ", constant arrivals",
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
        Some(answer) => format!("{}: {}", all.name, answer.shown),
        None => format!("{}: search", all.name),
    }
}

/// The result in words.
pub fn text(all: &SearchReport) -> String {
    let ceiling = duration_ns(all.ceiling_ns);
    let at = &all.at;
    if let Some(answer) = &all.answer {
        let kept = format!(
            "{}: in {} separate probes the {at} % response time of `{}` stayed under {ceiling}, each \
             with {} % confidence.",
            answer.shown,
            answer.probes.len(),
            all.workload,
            answer.confidence * 100.0
        );
        return format!("The answer is {kept} {}", limit(all));
    }
    match all.outcome {
        SearchOutcome::NothingPasses => {
            let lowest = all.probes.last();
            let why = lowest.map_or("fails", |p| reason(p.reason));
            format!("No answer: the lowest demand already fails: {why}.")
        }
        SearchOutcome::Undecided => format!(
            "No answer: the probes do not decide it. Make `search.probe` longer (the {at} % of a \
             rate needs a number of I/Os to be certain), or give a `from` that clearly passes."
        ),
        _ => format!(
            "The search was ended after {} probes; what they measured is kept.",
            all.probes.len()
        ),
    }
}

/// What limits the answer.
fn limit(all: &SearchReport) -> String {
    let answer = all.answer.as_ref();
    let Some((above, by)) = answer.and_then(|a| a.failed_above.zip(a.limited_by)) else {
        return "It is the top of the range: the limit may lie higher.".to_owned();
    };
    let shown = all.probes.iter().rfind(|p| p.value == above);
    let shown = shown.map_or_else(|| above.to_string(), |p| p.shown.clone());
    format!("What limits it: at {shown} {}.", reason(by))
}

fn reason(reason: ProbeReason) -> &'static str {
    match reason {
        ProbeReason::Ceiling => "the percentile is above the ceiling",
        ProbeReason::Saturated => "the target does not keep up (saturated)",
        ProbeReason::Errors => "I/Os fail",
        ProbeReason::Undecided => {
            "the percentile lies too close to the ceiling to be told from it, which counts as failed"
        }
        ProbeReason::Unfinished => "the probe was ended",
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
        let mut row: Vec<Cell> = cells(p).into_iter().map(Cell::new).collect();
        if let Some(last) = row.last_mut() {
            last.tone = tone;
        }
        row
    };
    let mut table = Table::new("probes", "Probes in the order they ran", &[]);
    table.columns = headings(all).to_vec();
    table.note = Some(
        "A probe passes when the whole interval is under the ceiling and the demand was met; an \
             undecided one is measured for longer, and in the end counts as failed. Every further \
             look at the same demand has new random draws."
            .to_owned(),
    );
    table.rows = all.probes.iter().map(row).collect();
    table
}
