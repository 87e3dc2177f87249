//! `cargo xtask proof NAME`: what takes too long for every check: seeds, models, a table on a page.
//!
//! A proof is an ignored test that writes one line of JSON a cell; this runs it and makes the table from the
//! lines.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{lab, tool};

/// A proof: an ignored test, its results as lines of JSON, part of the source, and the page with the table.
struct Proof {
    name: &'static str,
    package: &'static str,
    test: [&'static str; 2],
    results: &'static str,
    page: &'static str,
    table: fn(&[Value]) -> Result<String>,
}

const PROOFS: [Proof; 2] = [
    Proof {
        name: "intervals",
        package: "taillight-stats",
        test: ["coverage", "proof::intervals"],
        results: "crates/stats/tests/coverage/intervals.jsonl",
        page: "docs/measurement.md",
        table: intervals,
    },
    Proof {
        name: "disk-for",
        package: "taillight-suite",
        test: ["disk_for", "proof"],
        results: "crates/suite/tests/disk_for.jsonl",
        page: "docs/disk-for.md",
        table: disk_for,
    },
];

pub fn main(args: &[&str]) -> Result<bool> {
    let found = args.first().and_then(|name| PROOFS.iter().find(|p| p.name == *name));
    let Some(proof) = found.filter(|_| matches!(args[1..], [] | ["--page"])) else {
        let names: Vec<&str> = PROOFS.iter().map(|p| p.name).collect();
        bail!("a proof is one of: {}; --page makes its table alone", names.join(", "));
    };
    if args.len() == 1 {
        proof.prove()?;
    }
    proof.write_table()?;
    Ok(true)
}

impl Proof {
    fn prove(&self) -> Result<()> {
        let [file, test] = self.test;
        let args = ["test", "--release", "-p", self.package, "--test", file, "--"];
        let one = ["--ignored", "--exact", test, "--nocapture"];
        let mut command = tool::cargo(args.into_iter().chain(one));
        tool::run(command.env("PROOF_RESULTS", tool::root().join(self.results)))
    }

    fn write_table(&self) -> Result<()> {
        let results = std::fs::read_to_string(tool::root().join(self.results));
        let results = results.context(self.results)?;
        let cells: Result<Vec<Value>, _> = results.lines().map(serde_json::from_str).collect();
        let table = (self.table)(&cells.context(self.results)?).context(self.results)?;
        let begin =
            format!("<!-- {}: written by `cargo xtask proof {0}`; do not edit -->", self.name);
        let end = format!("<!-- {} end -->", self.name);
        let path = tool::root().join(self.page);
        let page = std::fs::read_to_string(&path)?;
        Ok(std::fs::write(&path, lab::put(&page, &begin, &end, &table)?)?)
    }
}

/// A column: its heading, and the fields of a cell in it.
type Column = (&'static str, &'static [&'static str]);

/// What is in the table: a heading and the fields of a cell.
const COLUMNS: [Column; 9] = [
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

fn intervals(cells: &[Value]) -> Result<String> {
    let mut text = String::new();
    for (family, about) in [
        ("set on", "Loads that the constants were set on"),
        ("others", "Loads that were made independently of the method"),
    ] {
        let of = cells.iter().filter(|cell| cell["family"] == family);
        text += &format!("**{about}:**\n\n{}\n", table(&COLUMNS, of)?);
    }
    Ok(text)
}

/// Answers on virtual disks, and what they cost.
const DISK_FOR: [Column; 6] = [
    ("disk", &["disk"]),
    ("runs", &["runs"]),
    ("kept, %", &["kept"]),
    ("missed, %", &["missed"]),
    ("undecided, %", &["undecided"]),
    (
        "a second look, %; extra time, median s; of those, s",
        &["second_look", "extra_s", "extra_of_those_s"],
    ),
];

fn disk_for(cells: &[Value]) -> Result<String> {
    table(&DISK_FOR, cells.iter())
}

fn table<'a>(columns: &[Column], cells: impl Iterator<Item = &'a Value>) -> Result<String> {
    let headings: Vec<&str> = columns.iter().map(|(heading, _)| *heading).collect();
    let mut text = format!("| {} |\n|{}\n", headings.join(" | "), "---|".repeat(columns.len()));
    for cell in cells {
        let columns = columns.iter().map(|(_, fields)| {
            let shown: Result<Vec<String>> = fields.iter().map(|f| field(cell, f)).collect();
            Ok(shown?.join(", "))
        });
        let columns: Vec<String> = columns.collect::<Result<_>>()?;
        text += &format!("| {} |\n", columns.join(" | "));
    }
    Ok(text)
}

fn field(cell: &Value, name: &str) -> Result<String> {
    match &cell[name] {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Ok("-".to_owned()),
        Value::Number(number) => {
            let value = number.as_f64().context("a number")?;
            let digits = usize::from(value.fract() != 0.0 && value < 100.0);
            Ok(format!("{value:.digits$}"))
        }
        _ => bail!("a line without {name}"),
    }
}
