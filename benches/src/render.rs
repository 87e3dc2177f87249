//! A report as Markdown for people and as JSON for machines, put where both are kept.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::cases::CASES;
use crate::machine;
use crate::pairs::{Bound, BoundCheck, Comparison, median, spread};

/// Columns of the table of arms that exist in at least one arm, with their headings.
const COLUMNS: &[(&str, &str)] = &[
    ("iops", "IOPS"),
    ("ns_per_io", "ns an I/O"),
    ("cpu_ns", "CPU ns an I/O"),
    ("mean_ns", "mean ns"),
    ("p50_ns", "p50 ns"),
    ("p99_ns", "p99 ns"),
    ("all_cpu_ns", "whole process, CPU ns an I/O"),
    ("foreign", "foreign cores"),
];

/// Tables of a report.
pub fn markdown(report: &Comparison) -> String {
    let mut text = format!("### {}\n\n", report.title);
    arms(report, &mut text);
    checks(&report.checks, &mut text);
    for note in &report.notes {
        let _ = writeln!(text, "{note}\n");
    }
    if !report.arms.is_empty() {
        text.push_str("```text\n");
        for arm in &report.arms {
            let _ = writeln!(text, "{:<18} {}", arm.name, arm.command);
        }
        text.push_str("```\n");
    }
    text
}

fn arms(report: &Comparison, text: &mut String) {
    let has =
        |name: &str| report.arms.iter().any(|a| a.samples.iter().any(|s| s.contains_key(name)));
    let columns: Vec<_> = COLUMNS.iter().filter(|(name, _)| has(name)).collect();
    if report.arms.is_empty() {
        return;
    }
    text.push_str("| arm |");
    columns.iter().for_each(|(_, heading)| text.push_str(&format!(" {heading} |")));
    text.push_str("\n|---|");
    columns.iter().for_each(|_| text.push_str("---|"));
    text.push('\n');
    for arm in &report.arms {
        let _ = write!(text, "| {} |", arm.name);
        for (name, _) in &columns {
            let values: Vec<f64> =
                arm.samples.iter().filter_map(|s| s.get(name).copied()).collect();
            let _ = write!(text, " {} |", middle_and_spread(&values));
        }
        text.push('\n');
    }
    text.push('\n');
}

fn checks(checks: &[BoundCheck], text: &mut String) {
    if checks.is_empty() {
        return;
    }
    text.push_str(
        "| figure | median (lowest to highest) | rounds | asked | met |\n|---|---|---|---|---|\n",
    );
    for check in checks {
        let (asked, met) = match check.bound {
            Bound::AtLeast(v) => (format!("at least {}", number(v)), word(check.met())),
            Bound::AtMost(v) => (format!("at most {}", number(v)), word(check.met())),
            Bound::None => ("-".into(), "-"),
        };
        let _ = writeln!(
            text,
            "| {} | {} {} | {} | {asked} | {met} |",
            check.what,
            middle_and_spread(&check.values),
            check.unit,
            check.values.len()
        );
    }
    text.push('\n');
}

fn word(met: bool) -> &'static str {
    if met { "yes" } else { "**no**" }
}

fn middle_and_spread(values: &[f64]) -> String {
    let (low, high) = spread(values);
    match values.len() {
        0 => "-".into(),
        1 => number(values[0]),
        _ => format!("{} ({} to {})", number(median(values)), number(low), number(high)),
    }
}

/// About four digits, thousands apart.
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

/// Writes JSON and replaces the table between the markers of `docs/overhead.md`, and the overview.
pub fn keep(name: &str, report: &Comparison) -> Result<()> {
    fs::create_dir_all(RESULTS)?;
    let text = serde_json::to_string(&json(report))? + "\n";
    fs::write(results(name), text)?;
    let page = PathBuf::from("docs/overhead.md");
    let old = fs::read_to_string(&page).context("docs/overhead.md: run in the repository")?;
    let body = format!("{}\nMachine: {}.\n", markdown(report), machine::line());
    let new = replaced(&old, name, &body);
    fs::write(&page, replaced(&new, "overview", &overview()?))?;
    Ok(())
}

const RESULTS: &str = "benches/results";

fn results(name: &str) -> PathBuf {
    Path::new(RESULTS).join(format!("{name}.json"))
}

/// Every comparison with a bound, as last measured: how many bounds are kept, and the others.
fn overview() -> Result<String> {
    let mut text =
        "| comparison | bounds kept | missed: median, asked |\n|---|---|---|\n".to_owned();
    for case in CASES {
        let Ok(kept) = fs::read_to_string(results(case.name)) else {
            continue;
        };
        let kept = serde_json::from_str(&kept).with_context(|| case.name)?;
        text.extend(overview_line(&kept));
    }
    Ok(text)
}

/// Nothing where no bound is asked.
fn overview_line(kept: &Value) -> Option<String> {
    let bounds: Vec<&Value> =
        kept["checks"].as_array()?.iter().filter(|check| !check["asked"].is_null()).collect();
    let missed: Vec<String> = bounds
        .iter()
        .filter(|check| check["met"] == false)
        .map(|check| {
            let figure = |value: &Value| number(value.as_f64().unwrap_or(f64::NAN));
            let asked = &check["asked"];
            let asked = match asked["at_least"].is_null() {
                true => format!("at most {}", figure(&asked["at_most"])),
                false => format!("at least {}", figure(&asked["at_least"])),
            };
            let what = check["what"].as_str().unwrap_or_default();
            format!("{what}: {}, {asked}", figure(&check["median"]))
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

fn json(report: &Comparison) -> Value {
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

/// `page` with the text between this case's markers replaced, or appended with new markers.
fn replaced(page: &str, name: &str, body: &str) -> String {
    let (open, close) = (format!("<!-- measured: {name} -->"), format!("<!-- end: {name} -->"));
    let block = format!("{open}\n{}\n{close}", body.trim_end());
    match (page.find(&open), page.find(&close)) {
        (Some(from), Some(to)) if from < to => {
            format!("{}{block}{}", &page[..from], &page[to + close.len()..])
        }
        _ => format!("{}\n\n{block}\n", page.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_grouped() {
        for (value, text) in [
            (21_345_678.4, "21,345,678"),
            (1234.5, "1,234"),
            (999.6, "1000"),
            (45.25, "45.2"),
            (2.345, "2.35"),
            (0.0123, "0.012"),
            (-1234.0, "-1,234"),
            (f64::NAN, "-"),
        ] {
            let got = number(value);
            assert!(got == text || got.replace(',', "") == text.replace(',', ""), "{got} {text}");
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
    fn only_the_block_of_the_case_changes() {
        let page = "# P\n<!-- measured: a -->\nold\n<!-- end: a -->\ntail\n";
        let new = replaced(page, "a", "new\n");
        assert_eq!(new, "# P\n<!-- measured: a -->\nnew\n<!-- end: a -->\ntail\n");
        let more = replaced(&new, "b", "bee");
        assert!(more.starts_with(new.trim_end()) && more.contains("bee\n<!-- end: b -->"));
    }
}
