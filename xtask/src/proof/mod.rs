//! `cargo xtask proof NAME`: what takes too long for every check: seeds, models, a table on a page.
//!
//! A proof is an ignored test that writes one line of JSON a cell; this runs it and makes the table from the
//! lines.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::{lab, tool};

mod intervals;

/// A proof: an ignored test, its results as lines of JSON, part of the source, and the page with the table.
struct Proof {
    name: &'static str,
    package: &'static str,
    test: [&'static str; 2],
    results: &'static str,
    page: &'static str,
    table: fn(&[Value]) -> Result<String>,
}

const PROOFS: [Proof; 12] = [
    Proof {
        name: "intervals",
        package: "taillight-stats",
        test: ["coverage", "proof::intervals"],
        results: "crates/stats/tests/coverage/intervals.jsonl",
        page: "docs/measurement.md",
        table: intervals::page,
    },
    Proof {
        name: "intervals-real",
        package: "taillight-stats",
        test: ["coverage", "proof::real"],
        results: "crates/stats/tests/coverage/real.jsonl",
        page: "docs/measurement.md",
        table: intervals::real_page,
    },
    Proof {
        name: "disk-for",
        package: "taillight-suite",
        test: ["integration", "disk_for::proof"],
        results: "crates/suite/tests/disk_for.jsonl",
        page: "docs/disk-for.md",
        table: disk_for,
    },
    Proof {
        name: "fio",
        package: "taillight-cli",
        test: ["integration", "fio_work::proof"],
        results: "crates/cli/tests/fio_work.jsonl",
        page: "docs/fio.md",
        table: fio,
    },
    Proof {
        name: "replay",
        package: "taillight-cli",
        test: ["integration", "replay::proof"],
        results: "crates/cli/tests/replay.jsonl",
        page: "docs/replay.md",
        table: replay,
    },
    Proof {
        name: "trace",
        package: "taillight-cli",
        test: ["integration", "trace_speed::proof"],
        results: "crates/cli/tests/trace_speed.jsonl",
        page: "docs/replay.md",
        table: trace,
    },
    Proof {
        name: "merge",
        package: "taillight-scale",
        test: ["integration", "proof"],
        results: "crates/scale/tests/merge.jsonl",
        page: "docs/hosts.md",
        table: merge,
    },
    Proof {
        name: "start",
        package: "taillight-mpi",
        test: ["start", "proof"],
        results: "mpi/tests/start.jsonl",
        page: "docs/hosts.md",
        table: start,
    },
    Proof {
        name: "kafka",
        package: "taillight-cli",
        test: ["integration", "kafka::proof"],
        results: "crates/cli/tests/kafka.jsonl",
        page: "docs/stores.md",
        table: kafka,
    },
    Proof {
        name: "watch",
        package: "taillight-cli",
        test: ["machine", "watch_proof::proof"],
        results: "crates/cli/tests/watch.jsonl",
        page: "docs/watch.md",
        table: watch,
    },
    Proof {
        name: "watch-blame",
        package: "taillight-cli",
        test: ["machine", "watch_blame::proof"],
        results: "crates/cli/tests/watch_blame.jsonl",
        page: "docs/watch.md",
        table: watch_blame,
    },
    Proof {
        name: "watch-strangers",
        package: "taillight-cli",
        test: ["machine", "watch_blame::strangers"],
        results: "crates/cli/tests/watch_strangers.jsonl",
        page: "docs/watch.md",
        table: watch_strangers,
    },
];

pub fn main(args: &[&str]) -> Result<bool> {
    let (words, names): (Vec<&str>, Vec<&str>) = args.iter().partition(|a| a.starts_with('-'));
    let proof = |name: &&str| PROOFS.iter().find(|p| p.name == *name);
    let found: Option<Vec<&Proof>> = names.iter().map(proof).collect();
    let Some(found) = found.filter(|all| !all.is_empty() && matches!(words[..], [] | ["--page"]))
    else {
        let names: Vec<&str> = PROOFS.iter().map(|p| p.name).collect();
        bail!("a proof is one of: {}; --page makes its table alone", names.join(", "));
    };
    for proof in found {
        if words.is_empty() {
            proof.prove()?;
        }
        proof.write_table()?;
    }
    Ok(true)
}

impl Proof {
    fn prove(&self) -> Result<()> {
        let part = std::env::vars()
            .map(|(name, _)| name)
            .find(|name| name.starts_with("PROOF_") && name != "PROOF_SERIES");
        if let Some(name) = part {
            bail!(
                "{name} is set, and a part is not the proof: unset it, or run the ignored test `{}` of {} by itself \
                 with a PROOF_RESULTS of your own",
                self.test[1],
                self.package
            );
        }
        let [file, test] = self.test;
        let args = ["test", "--release", "-p", self.package, "--test", file, "--"];
        let one = ["--ignored", "--exact", test, "--nocapture"];
        let mut command = tool::cargo(args.into_iter().chain(one));
        // What is there stays until all of the new is.
        let (results, fresh) = (tool::root().join(self.results), tool::target_dir().join("proof"));
        tool::run(command.env("PROOF_RESULTS", &fresh))?;
        std::fs::copy(&fresh, &results).context(self.results)?;
        Ok(std::fs::remove_file(&fresh)?)
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

/// The work of a fio job file in fio and in Taillight, by groups of sections.
const FIO_WORK: [Column; 6] = [
    ("file", &["file"]),
    ("operations, fio", &["fio"]),
    ("Taillight", &["taillight"]),
    ("bytes, fio", &["fio_bytes"]),
    ("Taillight", &["taillight_bytes"]),
    (
        "files, fio and Taillight; their sizes; syncs",
        &["fio_files", "files", "sizes", "fio_syncs", "syncs"],
    ),
];

/// Examples that come with fio and are not compared.
const FIO_EXAMPLES: [Column; 3] = [
    ("fio-examples", &["example"]),
    ("fio 3.33 here", &["fio_says"]),
    ("Taillight refuses it, as", &["why_not"]),
];

/// Options of fio without equivalent.
const FIO_REFUSED: [Column; 2] = [("option", &["refused"]), ("it would change", &["changes"])];

/// Engines of fio that are not driven.
const FIO_ENGINES: [Column; 2] = [("ioengine", &["engine"]), ("it", &["why"])];

fn fio(cells: &[Value]) -> Result<String> {
    let of = |field: &'static str| cells.iter().filter(move |cell| cell.get(field).is_some());
    let work = table(&FIO_WORK, of("file"))?;
    let examples = table(&FIO_EXAMPLES, of("example"))?;
    let refused = table(&FIO_REFUSED, of("refused"))?;
    let engines = table(&FIO_ENGINES, of("engine"))?;
    Ok(format!(
        "{work}\nThe other examples of fio, which are not compared: what they need fio itself has not got here, or Taillight \
         refuses it. fio was given ten seconds, and nothing outside of a directory:\n\n{examples}\nOptions that are refused, unless their value asks for nothing:\n\n{refused}\n\
         Engines that are refused, by what they do:\n\n{engines}"
    ))
}

/// Runs against their replays: in how many seeds the interval of the difference holds zero.
const REPLAY: [Column; 8] = [
    ("times of service", &["service"]),
    ("rate", &["rate"]),
    ("seeds", &["seeds"]),
    ("p50 equal", &["p50"]),
    ("p90", &["p90"]),
    ("p99", &["p99"]),
    ("p99.9", &["p99.9"]),
    ("figures called better or worse", &["verdicts"]),
];

fn replay(cells: &[Value]) -> Result<String> {
    table(&REPLAY, cells.iter())
}

/// Reading a trace and describing it.
const TRACE_READ: [Column; 5] = [
    ("trace", &["format"]),
    ("rows", &["rows"]),
    ("read and described, s", &["seconds"]),
    ("memory, MiB", &["mib"]),
    ("build", &["build"]),
];

/// How late operations of a replay on `null` were handed over.
const TRACE_LATE: [Column; 5] = [
    ("operations a second", &["rate"]),
    ("round", &["round"]),
    ("operations", &["operations"]),
    ("late, 50 %, 99 % and most, us", &["late_p50_us", "late_p99_us", "late_max_us"]),
    ("build", &["build"]),
];

/// One trace, replayed from each format.
const TRACE_SAME: [Column; 4] = [
    ("formats", &["formats"]),
    ("operations", &["same_operations"]),
    ("same operations, offsets, sizes and times in", &["same"]),
    ("build", &["build"]),
];

fn trace(cells: &[Value]) -> Result<String> {
    let of = |field: &'static str| cells.iter().filter(move |cell| cell.get(field).is_some());
    let read = table(&TRACE_READ, of("format"))?;
    let late = table(&TRACE_LATE, of("rate"))?;
    let same = table(&TRACE_SAME, of("formats"))?;
    Ok(format!(
        "{read}\nReplayed on `null`, each operation against the time that it was due:\n\n{late}\n\
         One trace written in every format and replayed from each:\n\n{same}"
    ))
}

/// Exact percentiles of ranks with a million latencies each.
const MERGE: [Column; 7] = [
    ("ranks", &["ranks"]),
    ("time, ms", &["ms"]),
    ("of half as many", &["times"]),
    ("moved by a rank, bytes", &["bytes"]),
    ("rounds", &["rounds"]),
    ("memory of all ranks, MiB", &["mib"]),
    ("build", &["build"]),
];

fn merge(cells: &[Value]) -> Result<String> {
    table(&MERGE, cells.iter())
}

/// How far apart ranks begin, and what the clocks allow.
const START: [Column; 6] = [
    ("ranks", &["ranks"]),
    ("runs", &["runs"]),
    ("spread, us: median, largest", &["median_us", "most_us"]),
    ("bound of the clocks, us: median", &["bound_us"]),
    ("within the bound + 100 us", &["within"]),
    ("build", &["build"]),
];

fn start(cells: &[Value]) -> Result<String> {
    table(&START, cells.iter())
}

/// Beside Kafka's own tool, in turns.
const KAFKA: [Column; 8] = [
    ("load", &["load"]),
    ("acks, linger", &["acks", "linger"]),
    ("pairs", &["pairs"]),
    ("records a second, Taillight", &["ours"]),
    ("kafka-producer-perf-test", &["theirs"]),
    ("rate, ratio", &["rate"]),
    ("mean latency, ratio", &["mean"]),
    ("build", &["build"]),
];

fn kafka(cells: &[Value]) -> Result<String> {
    table(&KAFKA, cells.iter())
}

/// Operations of a program that is watched, beside its own stamps.
const WATCH: [Column; 9] = [
    ("load", &["load"]),
    ("slow from, ms", &["slower_ms"]),
    ("slow I/Os", &["slow"]),
    ("found, %", &["found"]),
    ("begin, 50 % and 99 %, us", &["begin_p50_us", "begin_p99_us"]),
    ("end, 50 % and 99 %, us", &["end_p50_us", "end_p99_us"]),
    ("told", &["told"]),
    ("phantoms, %", &["phantoms"]),
    ("build", &["build"]),
];

fn watch(cells: &[Value]) -> Result<String> {
    table(&WATCH, cells.iter())
}

/// Layers blamed, where it is known which one it was.
const WATCH_BLAME: [Column; 9] = [
    ("program", &["victim"]),
    ("fault", &["fault"]),
    ("slow operations in it", &["slow"]),
    ("right, %", &["right"]),
    ("wrong, %", &["wrong"]),
    ("undecided, %", &["undecided"]),
    ("sure and wrong, %", &["sure_wrong"]),
    ("other layers", &["others"]),
    ("build", &["build"]),
];

fn watch_blame(cells: &[Value]) -> Result<String> {
    table(&WATCH_BLAME, cells.iter())
}

/// Layers blamed in programs that do I/O in ways that no rule was written for.
const WATCH_STRANGERS: [Column; 10] = [
    ("program", &["victim"]),
    ("fault", &["fault"]),
    ("slow operations in it", &["slow"]),
    ("right, %", &["right"]),
    ("no CPU, %", &["without_cpu"]),
    ("wrong, %", &["wrong"]),
    ("undecided, %", &["undecided"]),
    ("sure and wrong, %", &["sure_wrong"]),
    ("other layers", &["others"]),
    ("build", &["build"]),
];

fn watch_strangers(cells: &[Value]) -> Result<String> {
    table(&WATCH_STRANGERS, cells.iter())
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
    match cell.get(name).with_context(|| format!("a line without {name}"))? {
        Value::String(text) => Ok(text.clone()),
        Value::Null => Ok("-".to_owned()),
        Value::Number(number) => {
            let value = number.as_f64().context("a number")?;
            let digits = usize::from(value.fract() != 0.0 && value < 100.0);
            Ok(format!("{value:.digits$}"))
        }
        _ => bail!("{name} is no text and no number"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once a field that a proof no longer writes was a dash in the table.
    #[test]
    fn a_missing_field_is_no_dash() {
        let cell = serde_json::json!({ "kept": 97.5, "extra_s": null });
        let of = |name| field(&cell, name);
        assert_eq!((of("kept").unwrap(), of("extra_s").unwrap()), ("97.5".into(), "-".into()));
        assert!(of("missed").is_err());
    }

    /// Pages have the tables of the lines that are committed.
    #[test]
    fn pages_are_in_step() {
        for proof in PROOFS {
            let lines = std::fs::read_to_string(tool::root().join(proof.results)).unwrap();
            let cells: Vec<Value> =
                lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let page = std::fs::read_to_string(tool::root().join(proof.page)).unwrap();
            assert!(page.contains(&(proof.table)(&cells).unwrap()), "cargo xtask proof --page");
        }
    }
}
