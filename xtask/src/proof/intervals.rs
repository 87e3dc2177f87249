//! What the lines of `proof intervals` say together: where errors are larger than stated, and how often there is
//! an answer. Beside the table, so that no sentence of the page can name less than the table has.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{Column, field, table};

/// What is in the table: a heading and the fields of a cell.
const COLUMNS: [Column; 9] = [
    ("load", &["model"]),
    ("s", &["seconds"]),
    ("at", &["percentile"]),
    ("excursions at the limit, at a third", &["excursions", "excursions_third"]),
    ("given, of these hold the truth", &["given", "covered_of_given"]),
    ("false kept, missed", &["false_pass", "false_fail"]),
    ("the same at 0.625 %", &["false_pass_0625", "false_fail_0625"]),
    ("kept at a third, missed at three times", &["kept_third", "missed_thrice"]),
    ("the oracle's; 8 cosines'", &["oracle_kept", "oracle_missed", "plain_kept", "plain_missed"]),
];

const FAMILIES: [(&str, &str); 2] = [
    ("set on", "Loads that the constants were set on"),
    ("others", "Loads that were made independently of the method"),
];

/// Lengths of runs, s, and in how many of them, %, an answer is wanted where there are excursions.
const WANTED: [(f64, f64); 3] = [(10.0, 80.0), (60.0, 95.0), (600.0, 95.0)];
/// Excursions of a run from which on [`WANTED`] is asked for; with fewer, 0.9 of what the oracle decides.
const ENOUGH: f64 = 30.0;
/// Least share, %, of intervals that are to hold the truth.
const COVERED: f64 = 93.0;
/// Shares of error asked for, and the fields with what came of it.
const ERRORS: [(f64, [&str; 2]); 3] = [
    (0.025, ["false_pass", "false_fail"]),
    (0.0125, ["false_pass_125", "false_fail_125"]),
    (0.00625, ["false_pass_0625", "false_fail_0625"]),
];

/// Text and tables.
pub fn page(cells: &[Value]) -> Result<String> {
    let mut text = errors(cells)? + &decisions(cells)?;
    for (family, about) in FAMILIES {
        let of = cells.iter().filter(|cell| cell["family"] == family);
        text += &format!("\n**{about}:**\n\n{}", table(&COLUMNS, of)?);
    }
    Ok(text)
}

/// The table of series of real disks.
pub fn real_page(cells: &[Value]) -> Result<String> {
    let over = which(cells, |cell| errs(cell, ERRORS[0].0, ERRORS[0].1))?;
    let over = over.into_iter().map(describe_cell).collect::<Result<Vec<String>>>()?;
    let columns = [&[("series", &["model"][..]), ("parts", &["runs"])], &COLUMNS[1..]].concat();
    let beyond = if over.is_empty() { "none".to_owned() } else { over.join("; ") };
    Ok(format!(
        "{}\nBeyond 2.5 % and three deviations: {beyond}.\n",
        table(&columns, cells.iter())?
    ))
}

fn number(cell: &Value, name: &str) -> Result<f64> {
    cell[name].as_f64().with_context(|| format!("a line without {name}"))
}

/// The cells of which this is true.
fn which(cells: &[Value], is: impl Fn(&Value) -> Result<bool>) -> Result<Vec<&Value>> {
    let mut found = Vec::new();
    for cell in cells {
        if is(cell)? {
            found.push(cell);
        }
    }
    Ok(found)
}

/// Whether a limit is called kept, or missed, more often than this error and three deviations of so many runs allow.
fn errs(cell: &Value, error: f64, of: [&str; 2]) -> Result<bool> {
    let most = error + 3.0 * (error * (1.0 - error) / number(cell, "runs")?).sqrt();
    Ok(number(cell, of[0])?.max(number(cell, of[1])?) > 100.0 * most)
}

/// Where it errs more often than is said.
fn errors(cells: &[Value]) -> Result<String> {
    let mut text =
        format!("**Where it errs more often than stated**, of {} cells:\n\n", cells.len());
    text += "| asked for | cells beyond three deviations | 8 cosines alone |\n|---|---|---|\n";
    for (error, of) in ERRORS {
        let by = |of| which(cells, |cell| errs(cell, error, of)).map(|found| found.len());
        let plain = match error {
            0.025 => by(["plain_false_pass", "plain_false_fail"])?.to_string(),
            _ => "-".to_owned(),
        };
        text += &format!("| {} % | {} | {plain} |\n", 100.0 * error, by(of)?);
    }
    let low = which(cells, |cell| {
        Ok(number(cell, "given")? > 0.0 && number(cell, "covered_of_given")? < COVERED)
    })?;
    text += &format!(
        "\nOf the intervals given fewer than {COVERED} % hold the truth in {} cells: those below, and those in which few \
         runs have an interval. All that err more often than 2.5 % allows:\n\n\
         | load | s: at | kept at the limit, missed | hold the truth, at least |\n|---|---|---|---|\n",
        low.len()
    );
    let over = which(cells, |cell| errs(cell, ERRORS[0].0, ERRORS[0].1))?;
    let mut loads: Vec<(&str, Vec<&Value>)> = Vec::new();
    for cell in over {
        let load = cell["model"].as_str().context("a line without model")?;
        match loads.last_mut().filter(|(last, _)| *last == load) {
            Some((_, cells)) => cells.push(cell),
            None => loads.push((load, vec![cell])),
        }
    }
    for (load, cells) in loads {
        let mut lengths: BTreeMap<u64, Vec<String>> = BTreeMap::new();
        let (mut errors, mut covered) = ([0.0f64; 2], f64::INFINITY);
        for cell in cells {
            let at = lengths.entry(number(cell, "seconds")? as u64).or_default();
            at.push(field(cell, "percentile")?);
            let [pass, fail] = ERRORS[0].1;
            errors = [errors[0].max(number(cell, pass)?), errors[1].max(number(cell, fail)?)];
            covered = covered.min(number(cell, "covered_of_given")?);
        }
        let lengths: Vec<String> =
            lengths.iter().map(|(s, at)| format!("{s}: {}", at.join(", "))).collect();
        let [pass, fail] = errors;
        text += &format!(
            "| {load} | {} | up to {pass:.1}, {fail:.1} | {covered:.0} |\n",
            lengths.join("; ")
        );
    }
    Ok(text)
}

/// How often there is an answer.
fn decisions(cells: &[Value]) -> Result<String> {
    let mut text = format!(
        "\n**How often it decides**, by the length of runs. Cells, and of these so many as wanted: where the ceiling asked \
         about has {ENOUGH} excursions or more, an answer in {} % of the runs of 10 s, {} % of longer ones; elsewhere 0.9 of \
         the oracle's:\n\n| | 10 s | 60 s | 600 s |\n|---|---|---|---|\n",
        WANTED[0].1, WANTED[1].1
    );
    let mut short = Vec::new();
    for (about, excursions, decided, oracle) in [
        (
            "a third of what is allowed is over: kept",
            "excursions_third",
            "kept_third",
            "oracle_kept",
        ),
        ("three times as much is over: missed", "excursions", "missed_thrice", "oracle_missed"),
    ] {
        for many in [true, false] {
            let mut row = Vec::new();
            for (seconds, wanted) in WANTED {
                let of = which(cells, |cell| {
                    let enough = number(cell, excursions)? >= ENOUGH;
                    Ok(number(cell, "seconds")? == seconds && enough == many)
                })?;
                let mut good = 0;
                for cell in &of {
                    let oracle = 0.9 * number(cell, oracle)?;
                    let share = number(cell, decided)?;
                    if share >= if many { wanted } else { oracle } {
                        good += 1;
                    } else if many {
                        short.push(format!("{} ({share:.0} %)", describe_cell(cell)?));
                    }
                }
                row.push(format!("{}: {good}", of.len()));
            }
            let about = if many { about } else { "- with fewer excursions" };
            text += &format!("| {about} | {} |\n", row.join(" | "));
        }
    }
    let less = which(cells, |cell| {
        let worst = |of: [&str; 2]| {
            Ok::<f64, anyhow::Error>(number(cell, of[0])?.max(number(cell, of[1])?))
        };
        let no_better = worst(ERRORS[0].1)? >= worst(["plain_false_pass", "plain_false_fail"])?;
        let fewer = number(cell, "kept_third")? < number(cell, "plain_kept")?
            || number(cell, "missed_thrice")? < number(cell, "plain_missed")?;
        Ok(no_better && fewer)
    })?;
    let less = less.into_iter().map(describe_cell).collect::<Result<Vec<String>>>()?;
    text += &format!(
        "\nLess often than wanted in spite of the excursions: {}. Less decisive than 8 cosines alone where those err no more \
         (in {} cells): {}.\n",
        short.join("; "),
        less.len(),
        less.join("; ")
    );
    Ok(text)
}

/// `M/M/4, 80 % at 99 in 60 s`.
fn describe_cell(cell: &Value) -> Result<String> {
    let [model, at, s] = ["model", "percentile", "seconds"].map(|name| field(cell, name));
    Ok(format!("{} at {} in {} s", model?, at?, s?))
}
