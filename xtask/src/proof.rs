//! `cargo xtask proof NAME`: what takes too long for every check: seeds, models, a table on a page.
//!
//! A proof is an ignored test that writes one line of JSON a cell; this runs it and makes the table from the
//! lines.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{lab, tool};

/// Results as lines of JSON, part of the source, and the page with the table.
const RESULTS: &str = "crates/stats/tests/coverage/intervals.jsonl";
const PAGE: &str = "docs/measurement.md";
const BEGIN: &str = "<!-- intervals: written by `cargo xtask proof intervals`; do not edit -->";
const END: &str = "<!-- intervals end -->";

pub fn main(args: &[&str]) -> Result<bool> {
    match args {
        ["intervals"] => prove()?,
        // The table alone, from the results there are.
        ["intervals", "--page"] => {}
        _ => bail!("a proof is one of: intervals [--page]"),
    }
    let results = std::fs::read_to_string(tool::root().join(RESULTS)).context(RESULTS)?;
    let cells: Vec<Value> =
        results.lines().map(serde_json::from_str).collect::<Result<_, _>>().context(RESULTS)?;
    let path = tool::root().join(PAGE);
    let page = std::fs::read_to_string(&path)?;
    std::fs::write(&path, lab::put(&page, BEGIN, END, &table(&cells)?)?)?;
    Ok(true)
}

fn prove() -> Result<()> {
    let args = ["test", "--release", "-p", "taillight-stats", "--test", "coverage", "--"];
    let test = ["--ignored", "--exact", "proof::intervals", "--nocapture"];
    let mut command = tool::cargo(args.into_iter().chain(test));
    tool::run(command.env("PROOF_RESULTS", tool::root().join(RESULTS)))
}

/// What is in the table: a heading and the fields of a cell.
const COLUMNS: [(&str, &[&str]); 9] = [
    ("load", &["model"]),
    ("s", &["seconds"]),
    ("at", &["percentile"]),
    ("excursions", &["excursions"]),
    ("given", &["given"]),
    ("of these hold the truth", &["covered_of_given"]),
    ("false kept, missed", &["false_pass", "false_fail"]),
    ("kept at a third, missed at three times", &["kept_third", "missed_thrice"]),
    ("the oracle's; 8 cosines'", &["oracle_kept", "oracle_missed", "plain_kept", "plain_missed"]),
];

fn table(cells: &[Value]) -> Result<String> {
    let mut text = String::new();
    for (family, about) in [
        ("set on", "Loads that the constants were set on"),
        ("others", "Loads that were made independently of the method"),
    ] {
        let headings: Vec<&str> = COLUMNS.iter().map(|(heading, _)| *heading).collect();
        text += &format!("**{about}:**\n\n| {} |\n|", headings.join(" | "));
        text += &"---|".repeat(COLUMNS.len());
        text.push('\n');
        for cell in cells.iter().filter(|cell| cell["family"] == family) {
            let columns = COLUMNS.iter().map(|(_, fields)| {
                let shown: Result<Vec<String>> = fields.iter().map(|f| field(cell, f)).collect();
                Ok(shown?.join(", "))
            });
            let columns: Vec<String> = columns.collect::<Result<_>>()?;
            text += &format!("| {} |\n", columns.join(" | "));
        }
        text.push('\n');
    }
    Ok(text)
}

fn field(cell: &Value, name: &str) -> Result<String> {
    match &cell[name] {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => {
            let value = number.as_f64().context("a number")?;
            let digits = usize::from(value.fract() != 0.0 && value < 100.0);
            Ok(format!("{value:.digits$}"))
        }
        _ => bail!("{RESULTS} has a line without {name}"),
    }
}
