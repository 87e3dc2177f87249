//! Words for published pages in place of the fixed names that programs use: fields, figures and runs.

use taillight_rundir::compare::CompareVerdict;

/// A figure of a run or a point: `operations per second` for `iops`, `99.9 %` for `p99.9`.
pub fn figure(name: &str) -> String {
    let latency = |stem: &str| match stem.strip_prefix('p').filter(|p| !p.is_empty()) {
        Some(p) if p.replace(['_', '.'], "").bytes().all(|b| b.is_ascii_digit()) => {
            format!("{} %", p.replace('_', "."))
        }
        _ => format!("{} latency", stem.replace('_', " ")),
    };
    match name {
        "iops" | "ops_per_s" | "rate" => "operations per second".to_owned(),
        "bytes_per_s" => "bytes per second".to_owned(),
        "cpu_percent" => "CPU use of the machine".to_owned(),
        "response_mean_ns" => "mean response time".to_owned(),
        "max" => "slowest I/O".to_owned(),
        name if name.ends_with("_ns") => latency(name.trim_end_matches("_ns")),
        name if name.starts_with('p') && name[1..].starts_with(|c: char| c.is_ascii_digit()) => {
            latency(name)
        }
        name => name.replace('_', " "),
    }
}

/// Words that hold names of fields or figures: `queue depth 4` for `queue_depth 4`.
pub fn humanize(text: &str) -> String {
    let one = |word: &str| {
        let name = word.trim_end_matches(',');
        // What stands before a colon is the name that somebody gave.
        let known = name.ends_with("_ns") || name.ends_with("_per_s") || name == "iops";
        match known {
            true => figure(name) + &word[name.len()..],
            false => word.replace('_', " "),
        }
    };
    text.split(' ').map(one).collect::<Vec<_>>().join(" ")
}

/// A sentence with such names; what stands between back quotes is code and stays.
pub fn prose(text: &str) -> String {
    let part = |(nth, part): (usize, &str)| match nth % 2 {
        0 => humanize(part),
        _ => part.to_owned(),
    };
    text.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

/// A run by the name of its directory: `histograms max (115)` for `115-histograms-max`.
pub fn run(name: &str) -> String {
    match name.split_once('-') {
        Some((number, rest)) if is_number(number) && !rest.is_empty() => {
            let number = number.trim_start_matches('0');
            format!("{} ({number})", rest.replace(['-', '_'], " "))
        }
        _ => name.to_owned(),
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// What is said of a figure of two sides.
pub fn verdict(verdict: CompareVerdict) -> &'static str {
    match verdict {
        CompareVerdict::Worse => "worse",
        CompareVerdict::Better => "better",
        CompareVerdict::Equal => "equal",
        CompareVerdict::Undecided => "undecided",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_programs_are_words() {
        let said = ["iops", "bytes_per_s", "p99.9", "p99_ns", "mean_ns", "p99_9_ns"].map(figure);
        let wanted = [
            "operations per second",
            "bytes per second",
            "99.9 %",
            "99 %",
            "mean latency",
            "99.9 %",
        ];
        assert_eq!(said, wanted);
        let said = humanize("iops: iops at queue_depth 4, bytes_per_s");
        assert_eq!(said, "iops: operations per second at queue depth 4, bytes per second");
        assert_eq!(prose("a_b `--set a_b`"), "a b `--set a_b`");
        assert_eq!(run("115-histograms-max"), "histograms max (115)");
        assert_eq!([run("base"), run("7"), run("nvme-mixed")], ["base", "7", "nvme-mixed"]);
    }
}
