//! The null driver: what Taillight itself costs, full statistics and every I/O kept, against
//! fio's null engine with its default statistics; what a whole run costs; and two workers, or two
//! ranks, against two processes.

use anyhow::{Context, Result};

use super::{fio_arm, own_arm};
use crate::child;
use crate::pairs::{self, BenchArm, Bound, Comparison, Figures};
use crate::taillight::{self, BenchRun};
use crate::{BenchSetup, fio};

/// Longest measurement, seconds: every I/O is kept, and these are tens of millions a second.
const MOST_SECONDS: u64 = 3;

pub fn short(setup: &BenchSetup) -> BenchSetup {
    BenchSetup { pairs: setup.pairs, seconds: setup.seconds.min(MOST_SECONDS) }
}

pub fn arguments(setup: &BenchSetup, rw: &str, depth: u32, workers: u32) -> String {
    format!(
        "--driver null --size 1GiB --rw {rw} --bs 4KiB --depth {depth} --workers {workers} \
         --runtime {}s",
        setup.seconds
    )
}

pub fn depth_1(setup: &BenchSetup) -> Result<Comparison> {
    let setup = &short(setup);
    let mut report = Comparison::titled("`null`, depth 1, every I/O kept");
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own_arm("taillight", arguments(setup, "randread", 1, 1)),
            fio_arm("fio random", fio::NULL_1, None, setup),
            fio_arm("fio sequential", fio::NULL_1_SEQ, None, setup),
        ],
    )?;
    report.ratio("iops", "taillight", "fio random", Bound::AtLeast(2.5))?;
    report.ratio("iops", "taillight", "fio sequential", Bound::AtLeast(2.5))?;
    goal(&mut report, 50.0)?;
    Ok(report)
}

pub fn depth_32(setup: &BenchSetup) -> Result<Comparison> {
    let setup = &short(setup);
    let mut report = Comparison::titled("`null`, depth 32, every I/O kept");
    let best = best_batch()?;
    report.arms = pairs::run(
        setup.pairs,
        vec![
            own_arm("taillight", arguments(setup, "randread", 32, 1)),
            fio_arm("fio random", fio::NULL_32, None, setup),
            fio_arm("fio sequential", fio::NULL_32_SEQ, None, setup),
            fio_arm("fio batched", &best, None, setup),
        ],
    )?;
    report.ratio("iops", "taillight", "fio random", Bound::AtLeast(5.0))?;
    report.ratio("iops", "taillight", "fio sequential", Bound::AtLeast(5.0))?;
    report.ratio("iops", "taillight", "fio batched", Bound::AtLeast(3.0))?;
    report.ratio("all_cpu_ns", "taillight", "fio batched", Bound::AtMost(1.0))?;
    goal(&mut report, 36.0)?;
    report.notes.push(format!(
        "\"fio batched\" is the fastest of {} batch settings, each tried once for a second with \
         random and with sequential offsets.",
        fio::BATCHES.len()
    ));
    Ok(report)
}

/// Everything that a run costs beside its storage: measuring, the capture to Parquet, the report.
pub fn whole(setup: &BenchSetup) -> Result<Comparison> {
    let mut report = Comparison::titled("`null`, from the command to the page");
    let arm = |(name, depth, ios): (&'static str, u32, u64)| {
        let words = format!(
            "--driver null --size 1GiB --rw randread --bs 4KiB --depth {depth} --ops {ios} \
             --set capture.mode=all"
        );
        own_arm(name, words)
    };
    let runs = [
        ("10 million, depth 1", 1, 10_000_000),
        ("10 million, depth 32", 32, 10_000_000),
        ("100 million, depth 1", 1, 100_000_000),
        ("100 million, depth 32", 32, 100_000_000),
    ];
    report.arms = pairs::run(setup.pairs, runs.into_iter().map(arm).collect())?;
    for (name, ..) in runs {
        for (metric, what, unit, scale, bound) in [
            ("all_cpu_ns", "CPU of the whole process, an I/O", "ns", 1.0, Bound::AtMost(100.0)),
            ("all_wall_s", "from the command to its end", "s", 1.0, Bound::None),
            ("max_rss", "memory of the process", "MiB", 1.0 / f64::from(1 << 20), Bound::None),
        ] {
            let values = report.column(name, metric)?.iter().map(|v| v * scale).collect();
            let what = format!("{name}: {what}");
            report.checks.push(pairs::BoundCheck { what, unit, values, bound });
        }
    }
    report.notes.push(
        "User and system time of the process and all its threads, from its start to its end, with \
         the page written; the capture's memory in /dev/shm is no part of the process's."
            .into(),
    );
    Ok(report)
}

fn goal(report: &mut Comparison, ns: f64) -> Result<()> {
    let values = report.column("taillight", "ns_per_io")?;
    report.checks.push(pairs::BoundCheck {
        what: "taillight: time of one I/O (goal)".into(),
        unit: "ns",
        values,
        bound: Bound::AtMost(ns),
    });
    Ok(())
}

/// fio's line with the batch options that give it the most IOPS here.
fn best_batch() -> Result<String> {
    let mut best: Option<(f64, String)> = None;
    for base in [fio::NULL_32, fio::NULL_32_SEQ] {
        for batch in fio::BATCHES {
            let template = base.replace("--time_based", &format!("{batch} --time_based"));
            let iops = fio::run(&fio::line(&template, None, 1))?["iops"];
            println!("  tried {iops:>12.0} IOPS  {batch}");
            if best.as_ref().is_none_or(|(most, _)| iops > *most) {
                best = Some((iops, template));
            }
        }
    }
    Ok(best.context("nothing tried")?.1)
}

/// Two workers of one process against two processes of one worker.
pub fn two_workers(setup: &BenchSetup) -> Result<Comparison> {
    let setup = &short(setup);
    let mut report = Comparison::titled("`null`, two workers against two processes");
    for depth in [1, 32] {
        let (one, two) =
            (arguments(setup, "randread", depth, 1), arguments(setup, "randread", depth, 2));
        let names = match depth {
            1 => ("two workers d1", "two processes d1"),
            _ => ("two workers d32", "two processes d32"),
        };
        let arms = vec![
            own_arm(names.0, two),
            BenchArm {
                name: names.1,
                command: format!("{} (twice at the same time)", taillight::command_line(&one)),
                run: Box::new(move || two_processes(&one)),
            },
        ];
        report.arms.extend(pairs::run(setup.pairs, arms)?);
        report.ratio("iops", names.0, names.1, Bound::AtLeast(0.97))?;
    }
    Ok(report)
}

/// Two ranks of one run against two runs that know nothing of each other.
pub fn two_ranks(setup: &BenchSetup) -> Result<Comparison> {
    let setup = &short(setup);
    let mut report = Comparison::titled("`null`, two ranks of an MPI job against two processes");
    for depth in [1, 32] {
        let one = arguments(setup, "randread", depth, 1);
        let names = match depth {
            1 => ("two ranks d1", "two processes d1"),
            _ => ("two ranks d32", "two processes d32"),
        };
        let ranked = one.clone();
        let arms = vec![
            BenchArm {
                name: names.0,
                command: format!("mpirun -n 2 taillight-mpi run {one}"),
                run: Box::new(move || ranks_of(&ranked)),
            },
            BenchArm {
                name: names.1,
                command: format!("{} (twice at the same time)", taillight::command_line(&one)),
                run: Box::new(move || two_processes(&one)),
            },
        ];
        report.arms.extend(pairs::run(setup.pairs, arms)?);
        report.ratio("iops", names.0, names.1, Bound::AtLeast(0.95))?;
    }
    Ok(report)
}

fn ranks_of(words: &str) -> Result<Figures> {
    let dir = BenchRun::new("run")?;
    let mut command = std::process::Command::new("mpirun");
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.args(["-n", "2", "--oversubscribe", "--bind-to", "none"]);
    command.arg(taillight::ranks_binary()).arg("run").args(words.split_whitespace());
    let done = child::run(command.arg("--output").arg(dir.path()))?;
    taillight::figures_of_ranks(&dir, &done)
}

fn two_processes(words: &str) -> Result<Figures> {
    let (first, second) = (BenchRun::new("run-1")?, BenchRun::new("run-2")?);
    let mut commands = [taillight::command(words, &first), taillight::command(words, &second)];
    let [a, b] = &mut commands;
    let done = child::run_together(&mut [a, b])?;
    let mut sum = Figures::new();
    for (dir, done) in [&first, &second].into_iter().zip(&done) {
        let sample = taillight::figures(dir, done)?;
        *sum.entry("iops").or_default() += sample["iops"];
        sum.insert("foreign", done.foreign);
    }
    Ok(sum)
}
