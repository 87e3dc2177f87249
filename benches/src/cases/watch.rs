//! What it costs a program to be watched: fio, db_bench and Redis alone, watched by `taillight watch`, and alone again, in
//! turns. Needs root. The programs are children of this one, and all of these are watched.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::{cached, direct, redis, stores};
use crate::pairs::{self, BenchArm, Bound, BoundCheck, Comparison, Figures};
use crate::{BenchSetup, fio, taillight};

const ALONE: &str = "alone";
const WATCHED: &str = "watched";
const AGAIN: &str = "alone again";

/// Direct reads of fio, 32 in flight.
pub fn direct_32(setup: &BenchSetup) -> Result<Comparison> {
    let file = direct::prepare()?;
    of_fio(setup, "Watching fio: direct 4 KiB reads, depth 32", fio::DIRECT_32, &file)
}

/// Page-cached reads of fio, one at a time.
pub fn cached_1(setup: &BenchSetup) -> Result<Comparison> {
    let (file, held) = cached::prepare()?;
    let report = of_fio(setup, "Watching fio: page-cached 4 KiB reads", fio::CACHED_PSYNC, &file)?;
    held.check()?;
    Ok(report)
}

/// Random reads of db_bench.
pub fn db_bench(setup: &BenchSetup) -> Result<Comparison> {
    let bench = stores::random_reads()?;
    let run = || bench.run();
    compared(setup, "Watching db_bench: readrandom, values of 100 B", &bench.shown(), &run)
}

/// A server of Redis that syncs its log every second, and redis-benchmark.
pub fn redis_sets(setup: &BenchSetup) -> Result<Comparison> {
    let server = redis::Server::start_with("everysec")?;
    let words = |port: u16| {
        let ops = 100_000 * setup.seconds;
        format!("-p {port} -t set -c 32 -P 1 -n {ops} -r 100000 -d 100")
    };
    let shown = format!("redis-benchmark {}", words(redis::SHOWN));
    let run = || redis::peer(&words(server.port));
    compared(setup, "Watching Redis (append only, everysec): sets, 32 connections", &shown, &run)
}

fn of_fio(setup: &BenchSetup, title: &str, template: &str, file: &Path) -> Result<Comparison> {
    let line = fio::line(template, Some(file), setup.seconds);
    compared(setup, title, &line, &|| fio::run(&line))
}

fn compared(
    setup: &BenchSetup,
    title: &str,
    shown: &str,
    run: &dyn Fn() -> Result<Figures>,
) -> Result<Comparison> {
    let mut report = Comparison::titled(title);
    let arm = |name: &'static str, watched: bool| BenchArm {
        name,
        command: shown.to_owned() + if watched { " (taillight watch --pid beside it)" } else { "" },
        run: Box::new(move || if watched { beside(run) } else { run() }),
    };
    report.arms =
        pairs::run(setup.pairs, vec![arm(ALONE, false), arm(WATCHED, true), arm(AGAIN, false)])?;
    report.ratio("iops", WATCHED, ALONE, Bound::AtLeast(0.99))?;
    report.ratio("iops", AGAIN, ALONE, Bound::None)?;
    report.ratio("cpu_ns", WATCHED, ALONE, Bound::None)?;
    for (metric, unit, what, bound) in [
        ("programs", "%", "trace programs, of a CPU, all of the machine's switches", Bound::None),
        ("of_victim", "%", "trace programs, of the program's own CPU time", Bound::AtMost(1.0)),
        ("attach_ms", "ms", "attaching", Bound::AtMost(50.0)),
        ("detach_ms", "ms", "detaching", Bound::AtMost(50.0)),
    ] {
        let values = report.column(WATCHED, metric)?;
        report.checks.push(BoundCheck { what: what.into(), unit, values, bound });
    }
    report.notes.push(
        "\"alone again / alone\" shows how far two equal runs differ: where that is not within 0.99 to 1.01, judge by the \
         CPU time of the trace programs. Of Redis that is compared with the CPU time of redis-benchmark."
            .into(),
    );
    Ok(report)
}

/// One run that is watched from before its begin until after its end.
fn beside(run: &dyn Fn() -> Result<Figures>) -> Result<Figures> {
    let dir = taillight::BenchRun::new("watch")?;
    let watcher = Watcher::start(dir.path())?;
    let sample = run();
    watcher.end()?;
    let mut sample = sample?;
    let told = dir.json("watched.json")?;
    let number = |name: &str| told[name].as_f64().with_context(|| format!("no {name}"));
    let programs = number("programs_share")?;
    let own = sample["cpu_ns"] * sample["iops"] / 1e9;
    sample.extend([
        ("programs", 100.0 * programs),
        ("of_victim", 100.0 * programs / own),
        ("attach_ms", number("attach_ns")? / 1e6),
        ("detach_ms", number("detach_ns")? / 1e6),
    ]);
    Ok(sample)
}

/// `taillight watch` at work; dropped, it is gone.
struct Watcher(Child);

impl Watcher {
    /// Starts it and waits until it watches this process and its children.
    fn start(dir: &Path) -> Result<Watcher> {
        let child = Command::new(taillight::binary())
            .args(["watch", "--pid", &std::process::id().to_string(), "--output"])
            .arg(dir)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("taillight cannot be started")?;
        let mut watcher = Watcher(child);
        let said = watcher.0.stderr.take().context("no standard error")?;
        let mut lines = BufReader::new(said).lines();
        let watches = lines.any(|line| line.is_ok_and(|line| line.starts_with("watching ")));
        ensure!(watches, "nobody is watched: it needs root");
        std::thread::spawn(move || lines.for_each(drop));
        Ok(watcher)
    }

    fn end(mut self) -> Result<()> {
        let pid = Pid::from_child(&self.0);
        kill_process(pid, Signal::INT)?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
