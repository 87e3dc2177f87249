//! Driver `metadata` beside a bare loop of the same calls, on the file system of the current directory.

use anyhow::Result;

use super::bare;
use crate::pairs::{self, BenchArm, Bound, Comparison};
use crate::{BenchSetup, files, taillight};

/// Files of a run: some seconds of the slowest operation.
const FILES: u64 = 200_000;
/// Bytes of each, as in mdtest-hard.
const BYTES: u64 = 3_901;
/// Operations: as a mix has them, as the bare loop has them, and their arms.
const OPS: [[&str; 4]; 4] = [
    ["create", "create", "taillight create", "bare create"],
    ["stat", "stat", "taillight stat", "bare stat"],
    ["open_read_close", "read", "taillight read", "bare read"],
    ["unlink", "unlink", "taillight unlink", "bare unlink"],
];

pub fn run(setup: &BenchSetup) -> Result<Comparison> {
    let mut report = Comparison::titled("`metadata` beside a bare loop of the same calls");
    for [op, bare_op, own, theirs] in OPS {
        let (ours, other) = (files::place("metadata")?, files::place("bare-metadata")?);
        let there = if op == "create" { 0 } else { FILES };
        let words = format!(
            "--driver metadata --path {}/ --ops {FILES} --bs {BYTES}B --set workload.0.mix={op} \
             --set workload.0.keys.count={there} --set workload.0.access.kind=sequential",
            ours.display()
        );
        let line = format!("bare-metadata {} {bare_op} {FILES} {BYTES}", other.display());
        let line: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let arms = vec![
            BenchArm {
                name: own,
                command: taillight::shown(&words),
                run: Box::new(move || taillight::run(&words)),
            },
            bare(theirs, line),
        ];
        report.arms.extend(pairs::run(setup.pairs, arms)?);
        report.ratio("iops", own, theirs, Bound::AtLeast(0.97))?;
    }
    report.notes.push(
        "One worker, engine `sync`, nothing durable. The bare loop takes no time of an operation; Taillight stamps and \
         keeps every one. Names are equally long, directories the same but for their names."
            .into(),
    );
    Ok(report)
}
