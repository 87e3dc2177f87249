//! Renders results of comparisons: JSON in `benches/results/`, and from all of it the tables in
//! `benches/RESULTS.md` and the overview in `docs/overhead.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cases::CASES;
use crate::machine;
use crate::pairs::{Bound, Comparison, median, spread};

/// Columns that the table of arms may have, with their headings; one that no arm has is left out.
const COLUMNS: &[(&str, &str)] = &[
    ("iops", "IOPS"),
    ("ns_per_io", "ns an I/O"),
    ("cpu_ns", "CPU ns an I/O"),
    ("mean_ns", "mean ns"),
    (IN_FLIGHT, "rate x mean latency"),
    ("p50_ns", "p50 ns"),
    ("p99_ns", "p99 ns"),
    ("all_cpu_ns", "whole process, CPU ns an I/O"),
    ("foreign", "foreign cores"),
];

/// Operations in flight on average for which the latencies account (Little's law): of what is in flight beyond it, a
/// percentile beside it knows nothing.
const IN_FLIGHT: &str = "in_flight";

/// A figure of a round; none where it has none.
fn of_round(round: &Value, name: &str) -> Option<f64> {
    match name {
        IN_FLIGHT => Some(round["iops"].as_f64()? * round["mean_ns"].as_f64()? / 1e9),
        _ => round.get(name).map(figure),
    }
}

/// The tables of one result, as kept in `benches/results/`.
pub fn markdown(kept: &Value) -> String {
    let mut text = format!("### {}\n\n", text_of(&kept["title"]));
    arms(list(&kept["arms"]), &mut text);
    checks(list(&kept["checks"]), &mut text);
    for note in list(&kept["notes"]) {
        let _ = writeln!(text, "{}\n", text_of(note));
    }
    if !list(&kept["arms"]).is_empty() {
        text.push_str("```text\n");
        for arm in list(&kept["arms"]) {
            let _ = writeln!(text, "{:<18} {}", text_of(&arm["name"]), text_of(&arm["command"]));
        }
        text.push_str("```\n");
    }
    text
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A figure; not a number where the result has none.
fn figure(value: &Value) -> f64 {
    value.as_f64().unwrap_or(f64::NAN)
}

fn arms(arms: &[Value], text: &mut String) {
    let rounds = |arm: &Value, name: &str| -> Vec<f64> {
        list(&arm["rounds"]).iter().filter_map(|r| of_round(r, name)).collect()
    };
    let has = |name: &str| arms.iter().any(|arm| !rounds(arm, name).is_empty());
    let columns: Vec<_> = COLUMNS.iter().filter(|(name, _)| has(name)).collect();
    if arms.is_empty() {
        return;
    }
    text.push_str("| arm |");
    columns.iter().for_each(|(_, heading)| text.push_str(&format!(" {heading} |")));
    text.push_str("\n|---|");
    columns.iter().for_each(|_| text.push_str("---|"));
    text.push('\n');
    for arm in arms {
        let _ = write!(text, "| {} |", text_of(&arm["name"]));
        for (name, _) in &columns {
            let _ = write!(text, " {} |", middle_and_spread(&rounds(arm, name)));
        }
        text.push('\n');
    }
    text.push('\n');
}

fn checks(checks: &[Value], text: &mut String) {
    if checks.is_empty() {
        return;
    }
    text.push_str(
        "| figure | median (lowest to highest) | rounds | asked | met |\n|---|---|---|---|---|\n",
    );
    for check in checks {
        let values: Vec<f64> = list(&check["values"]).iter().map(figure).collect();
        let (asked, met) = match &check["asked"] {
            Value::Null => ("-".into(), "-"),
            asked => (bound(asked), if check["met"] == true { "yes" } else { "**no**" }),
        };
        let _ = writeln!(
            text,
            "| {} | {} {} | {} | {asked} | {met} |",
            text_of(&check["what"]),
            middle_and_spread(&values),
            text_of(&check["unit"]),
            values.len()
        );
    }
    text.push('\n');
}

/// What is asked of a figure.
fn bound(asked: &Value) -> String {
    match asked["at_least"].is_null() {
        true => format!("at most {}", number(figure(&asked["at_most"]))),
        false => format!("at least {}", number(figure(&asked["at_least"]))),
    }
}

fn middle_and_spread(values: &[f64]) -> String {
    let (low, high) = spread(values);
    match values.len() {
        0 => "-".into(),
        1 => number(values[0]),
        _ => format!("{} ({} to {})", number(median(values)), number(low), number(high)),
    }
}

/// Three digits or more, at most three of them decimals; thousands apart.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return "-".into();
    }
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    let plain = format!("{value:.decimals$}");
    let (whole, part) = plain.split_at(plain.find('.').unwrap_or(plain.len()));
    let digits = whole.len();
    let mut text = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (digits - i).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(c);
    }
    text + part
}

const RESULTS: &str = "benches/results";
const PAGE: &str = "benches/RESULTS.md";
/// The page for users has the overview alone.
const USERS_PAGE: &str = "docs/overhead.md";
const OVERVIEW: [&str; 2] = ["<!-- measured: overview -->", "<!-- end: overview -->"];

/// Keeps a result as JSON and makes the pages again.
pub fn keep(name: &str, report: &Comparison) -> Result<()> {
    fs::create_dir_all(RESULTS)?;
    let text = serde_json::to_string(&json(report))? + "\n";
    fs::write(Path::new(RESULTS).join(name).with_extension("json"), text)?;
    write_pages()
}

/// Writes the pages that are made of all results.
pub fn write_pages() -> Result<()> {
    for (path, text) in pages(Path::new("."))? {
        fs::write(path, text)?;
    }
    Ok(())
}

/// The pages made of the results below `root`, with their text as it should be.
fn pages(root: &Path) -> Result<[(PathBuf, String); 2]> {
    let kept = results(root)?;
    let users_page = root.join(USERS_PAGE);
    let old = fs::read_to_string(&users_page).context("run in the repository")?;
    let users_text = replaced(&old, &overview(&kept))?;
    Ok([(root.join(PAGE), page(&kept)), (users_page, users_text)])
}

/// Every result, in the order of the cases.
fn results(root: &Path) -> Result<Vec<(&'static str, Value)>> {
    let mut all = Vec::new();
    for case in CASES {
        let path = root.join(RESULTS).join(case.name).with_extension("json");
        let Ok(text) = fs::read_to_string(path) else {
            continue;
        };
        all.push((case.name, serde_json::from_str(&text).with_context(|| case.name)?));
    }
    Ok(all)
}

/// All tables.
fn page(kept: &[(&str, Value)]) -> String {
    let mut text = "# Results of the comparisons\n\n\
        Made by `cargo xtask overhead` from `benches/results/`; do not edit. Each figure is the median over\n\
        the rounds and, in brackets, the lowest and the highest round; ratios are taken inside a round.\n\
        What the figures mean for a run is in [docs/overhead.md](../docs/overhead.md).\n"
        .to_owned();
    for (name, one) in kept {
        let (tables, machine) = (markdown(one), text_of(&one["machine"]));
        let _ = write!(text, "\n<a id=\"{name}\"></a>\n\n{tables}\nMachine: {machine}.\n");
    }
    text
}

/// Every comparison with a bound, as last measured: how many bounds are kept, and the others.
fn overview(kept: &[(&str, Value)]) -> String {
    let mut text =
        "| comparison | bounds kept | missed: median, asked |\n|---|---|---|\n".to_owned();
    text.extend(kept.iter().filter_map(|(_, one)| overview_line(one)));
    text
}

/// Nothing where no bound is asked.
fn overview_line(kept: &Value) -> Option<String> {
    let bounds: Vec<&Value> =
        list(&kept["checks"]).iter().filter(|check| !check["asked"].is_null()).collect();
    let missed: Vec<String> = bounds
        .iter()
        .filter(|check| check["met"] == false)
        .map(|check| {
            let (what, median) = (text_of(&check["what"]), number(figure(&check["median"])));
            format!("{what}: {median}, {}", bound(&check["asked"]))
        })
        .collect();
    let met = bounds.len() - missed.len();
    let title = kept["title"].as_str()?;
    let line = format!("| {title} | {met} of {} | {} |\n", bounds.len(), missed.join("<br>"));
    (!bounds.is_empty()).then_some(line)
}

fn asked(bound: Bound) -> Value {
    match bound {
        Bound::AtLeast(least) => json!({ "at_least": least }),
        Bound::AtMost(most) => json!({ "at_most": most }),
        Bound::None => Value::Null,
    }
}

/// A result as it is kept.
pub fn json(report: &Comparison) -> Value {
    let arms: Vec<Value> = report
        .arms
        .iter()
        .map(|arm| json!({"name": arm.name, "command": arm.command, "rounds": arm.samples}))
        .collect();
    let checks: Vec<Value> = report
        .checks
        .iter()
        .map(|check| {
            let (low, high) = spread(&check.values);
            json!({"what": check.what, "unit": check.unit, "values": check.values,
                "median": median(&check.values), "low": low, "high": high,
                "asked": asked(check.bound), "met": check.met()})
        })
        .collect();
    json!({"title": report.title, "machine": machine::line(), "arms": arms, "checks": checks,
        "notes": report.notes})
}

/// `page` with the text between the marks of the overview replaced.
fn replaced(page: &str, body: &str) -> Result<String> {
    let [open, close] = OVERVIEW;
    let (before, rest) = page.split_once(open).context("the page lacks the overview's begin")?;
    let (_, after) = rest.split_once(close).context("the page lacks the overview's end")?;
    Ok(format!("{before}{open}\n{}\n{close}{after}", body.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::BoundCheck;

    #[test]
    fn numbers_are_short_and_grouped() {
        for (value, text) in [
            (21_345_678.4, "21,345,678"),
            (1234.5, "1,234"),
            (999.6, "1,000"),
            (45.25, "45.2"),
            (2.345, "2.35"),
            (0.0123, "0.012"),
            (-1234.0, "-1,234"),
            (f64::NAN, "-"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn the_overview_names_what_is_missed() {
        let check = |what: &str, values: Vec<f64>, bound| BoundCheck {
            what: what.into(),
            unit: "x",
            values,
            bound,
        };
        let mut report = Comparison::titled("A / B");
        report.checks.push(check("seen only", vec![3.0], Bound::None));
        assert_eq!(overview_line(&json(&report)), None);
        report.checks.push(check("iops", vec![0.9, 1.1, 0.8], Bound::AtLeast(1.0)));
        report.checks.push(check("cpu", vec![0.9], Bound::AtMost(1.0)));
        let line = overview_line(&json(&report)).unwrap();
        assert_eq!(line, "| A / B | 1 of 2 | iops: 0.900, at least 1.00 |\n");
    }

    #[test]
    fn only_the_overview_changes() {
        let [open, close] = OVERVIEW;
        let page = format!("# P\n{open}\nold\n{close}\ntail\n");
        let new = replaced(&page, "new\n").unwrap();
        assert_eq!(new, format!("# P\n{open}\nnew\n{close}\ntail\n"));
        assert!(replaced("# P\n", "new").is_err());
    }

    #[test]
    fn the_pages_are_what_the_results_say() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (path, text) in pages(root).unwrap() {
            let now = fs::read_to_string(&path).unwrap_or_default();
            assert!(now == text, "{}: run `cargo xtask overhead pages`", path.display());
        }
    }
}
