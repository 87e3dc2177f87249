//! Driver `metadata` beside a bare loop of the same calls, each run on an ext4 of its own in memory. On a disk's file
//! system creation slows down from run to run, whoever creates: no ratio can be taken there.

use anyhow::Result;

use super::{bare, own_arm};
use crate::files::{self, FreshExt4};
use crate::pairs::{self, BenchArm, Bound, Comparison};
use crate::{BenchSetup, machine};

/// Where the file system of a run is mounted, in the directory of the benches.
const HERE: &str = "metadata";
/// Files of a run.
const FILES: u64 = 100_000;
/// Bytes of each, as in mdtest-hard.
const BYTES: u64 = 3_901;

/// An operation by both.
struct MetadataOp {
    /// As a mix has it, and as the bare loop has it.
    words: [&'static str; 2],
    /// Names of the arms; the last is the bare loop that keeps how long each operation took.
    arms: [&'static str; 3],
    /// How often each file is gone over: several seconds, since the kernel still writes out what the layout made.
    passes: u64,
}

const OPS: [MetadataOp; 4] = [
    MetadataOp {
        words: ["create", "create"],
        arms: ["taillight create", "bare create", "bare create, stamped"],
        passes: 1,
    },
    MetadataOp {
        words: ["stat", "stat"],
        arms: ["taillight stat", "bare stat", "bare stat, stamped"],
        passes: 60,
    },
    MetadataOp {
        words: ["open_read_close", "read"],
        arms: ["taillight read", "bare read", "bare read, stamped"],
        passes: 20,
    },
    MetadataOp {
        words: ["unlink", "unlink"],
        arms: ["taillight unlink", "bare unlink", "bare unlink, stamped"],
        passes: 1,
    },
];

pub fn run(setup: &BenchSetup) -> Result<Comparison> {
    let mut report = Comparison::titled("`metadata` beside a bare loop of the same calls");
    let data = files::bench_path(HERE)?.join("data");
    let data = data.display();
    for MetadataOp { words: [op, bare_op], arms: [own, theirs, stamped], passes } in OPS {
        let there = if op == "create" { 0 } else { FILES };
        let words = format!(
            "--driver metadata --path {data}/ --ops {} --bs {BYTES}B --set workload.0.mix={op} \
             --set workload.0.keys.count={there} --set workload.0.access.kind=sequential",
            FILES * passes
        );
        let line = format!("bare-metadata {data} {bare_op} {FILES} {BYTES} {passes}");
        let line: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let stamps = [&line[..], &["stamped".to_owned()]].concat();
        let arms = vec![
            on_fresh(own_arm(own, words)),
            on_fresh(bare(theirs, line)),
            on_fresh(bare(stamped, stamps)),
        ];
        report.arms.extend(pairs::run(setup.pairs, arms)?);
        report.ratio("iops", own, theirs, Bound::AtLeast(0.97))?;
        report.ratio("iops", own, stamped, Bound::None)?;
    }
    report.notes.push(format!(
        "One worker, engine `sync`, nothing durable, {FILES} files of {BYTES} B; those that are asked for and read are \
         gone over several times. Every run of each has a new ext4 over a loop device in memory. The bare loop takes no time \
         of an operation; `stamped` it reads the clock around each and keeps the difference, which is the least that a \
         tool has to do that measures every one, as Taillight does. Names are equally long."
    ));
    Ok(report)
}

/// An arm whose every run begins with settled memory and a file system of its own.
fn on_fresh(mut arm: BenchArm<'_>) -> BenchArm<'_> {
    BenchArm {
        name: arm.name,
        command: arm.command.clone(),
        run: Box::new(move || {
            machine::sync_and_warm()?;
            let _mounted = FreshExt4::new(HERE)?;
            (arm.run)()
        }),
    }
}
